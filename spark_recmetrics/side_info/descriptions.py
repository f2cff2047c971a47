"""What tables about items and users may hold: the same checks, with the same words, for frames of Spark and of pandas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from spark_recmetrics.columns import TABLE_OF, Side
from spark_recmetrics.errors import DataError
from spark_recmetrics.request.slices import MOST_VALUES
from spark_recmetrics.text import printable

MOST_CATEGORIES = 4096
"""How many categories items may have: they come to the driver, and are a bit each for every recommended item."""

MOST_FEATURES = 1024
"""How long a feature vector may be: each of its numbers is 8 bytes that go wherever something is to be known of the item."""

SPARSE = ("size", "indices", "values")
"""The parts of a sparse vector: its length, the places of its numbers from 0, and these numbers; all others are 0."""

FEATURES_FORM = f"an array of numbers, a vector, or {', '.join(SPARSE[:-1])} and {SPARSE[-1]} of a sparse one"
CATEGORIES_FORM = "a text, a whole number, or an array of these"
GROUPS_FORM = "a text, a whole number, true or false, or a date"

_DIGITS = 38
"""How many digits numbers of Spark may have."""


def wrong_form(key: str, name: str, expected: str, found: str) -> DataError:
    """The error for a column that holds something else.

    Args:
        key: Its key of `Columns`.
        name: Its name.
        expected: What it may hold.
        found: What it holds.
    """
    return DataError(f"item_features: column {name!r} (columns.{key}): expected {expected}, found {found}: cast it first")


def check_once(table: str, side: Side, more: int, examples: str) -> None:
    """Refuse a table in which an id stands more than once.

    Args:
        table: Its name.
        side: Whose ids they are.
        more: How many rows there are beyond one for each id.
        examples: Ids that stand there more than once.

    Raises:
        DataError: There is one.
    """
    if more:
        told = f"{more} more, e.g. {side}s {printable(examples)}"
        raise DataError(f"{table}: expected one row for each {side}, found {told}: decide which row counts")


def beyond_one(ids: Collection[Any]) -> tuple[int, str]:
    """How many rows of a pandas frame there are beyond one for each id, and up to five ids that stand there more than once.

    Example:
        >>> beyond_one(["a", "b", "a"])
        (1, 'a')
    """
    # Not by pandas, for which texts are equal up to a null character.
    n_rows = Counter(ids)
    repeated = sorted(one for one, n in n_rows.items() if n > 1)
    return len(ids) - len(n_rows), ", ".join(map(str, repeated[:5]))


def check_values(key: str, name: object, n_values: int) -> None:
    """Refuse a slice, or a column with groups, of too many values.

    Args:
        key: Which of the two: `slices` or `groups`.
        name: The slice, or the column.
        n_values: How many it has.

    Raises:
        DataError: It has more than MOST_VALUES.
    """
    if n_values > MOST_VALUES:
        edges = "give edges to numbers, as in 'age(18, 35)', or " if key == "slices" else ""
        raise DataError(
            f"{key}: {name}: expected at most {MOST_VALUES} values, found {n_values}: {edges}group the values first"
        )


def check_descriptions(counts: Mapping[str, Any], examples: str) -> None:
    """Refuse a table of item features that would double rows of lists, or vectors that cannot be compared.

    Args:
        counts: `rows` and `items`; and, where feature vectors are read, the `shortest` and `longest` length, None where
            there is none, how many sparse ones are `misplaced`, and how many have `broken` numbers.
        examples: Items that stand there more than once.

    Raises:
        DataError: An item stands there more than once, sparse vectors do not fit their size, or vectors have several lengths
            or are not all numbers.
    """
    check_once("item_features", "item", counts["rows"] - counts["items"], examples)
    if counts.get("misplaced"):
        raise DataError(
            "item_features: expected sparse vectors with as many indices as values, and different indices from 0 to size - 1, "
            f"found {counts['misplaced']} others: an item without features has null"
        )
    shortest, longest = counts.get("shortest"), counts.get("longest")
    if shortest != longest or longest == 0 or (longest or 0) > MOST_FEATURES:
        found = f"{shortest}" if shortest == longest else f"{shortest} to {longest}"
        raise DataError(
            f"item_features: expected feature vectors of one length from 1 to {MOST_FEATURES}, found {found}: "
            "fill or shorten them; an item without features has null"
        )
    if counts.get("broken"):
        raise DataError(
            f"item_features: expected finite numbers as features, found {counts['broken']} vectors with others: "
            "an item without features has null"
        )


def check_categories(names: Sequence[str]) -> None:
    """Refuse more categories than can be told apart.

    Raises:
        DataError: There are too many.
    """
    if len(names) > MOST_CATEGORIES:
        raise DataError(f"item_features: expected at most {MOST_CATEGORIES} categories, found more: group them first")


def wrong_group(side: Side, name: str, expected: str, found: str) -> DataError:
    """The error for a column with groups that holds something else."""
    return DataError(f"{TABLE_OF[side]}: column {name!r}: expected {expected}, found {found}: cast it first")
