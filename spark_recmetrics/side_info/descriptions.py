"""What tables about items and users may hold: the same checks, with the same words, for frames of Spark and of pandas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from spark_recmetrics.columns import TABLE_OF, Side
from spark_recmetrics.errors import DataError
from spark_recmetrics.request.slices import MOST_VALUES
from spark_recmetrics.text import brief, printable

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
    return len(ids) - len(n_rows), ", ".join(texts_of(repeated[:5]))


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


def is_array(own: Any) -> bool:
    """Whether a cell of a pandas frame holds several values."""
    try:
        return not isinstance(own, str) and np.ndim(own) > 0
    except ValueError:  # arrays of several lengths
        return True


def values_of(own: Any) -> list[Any]:
    """What a cell of a pandas frame holds, which may be one value, several or none.

    Example:
        >>> values_of("war"), values_of(["war", None, 3]), values_of(float("nan"))
        (['war'], ['war', 3], [])
    """
    import pandas as pd

    several = list(own) if is_array(own) else [own]
    return [one for one in several if isinstance(one, str) or not (pd.api.types.is_scalar(one) and pd.isna(one))]


def texts_of(own: Any) -> list[str]:
    """The values of a cell, each once, as Spark writes them.

    Example:
        >>> texts_of(["war", "war", True]), texts_of(3), texts_of(None)
        (['war', 'true'], ['3'], [])
    """
    return list(dict.fromkeys(map(_text, values_of(own))))


def _text(one: Any) -> str:
    if isinstance(one, bool | np.bool_):
        return str(one).lower()
    # pandas makes floats of whole numbers beside a missing one.
    return str(int(one)) if isinstance(one, float) and one.is_integer() else str(one)


def kind_of(one: Any) -> str | None:
    """What Spark would take a value of Python for: one of the types that groups may have, None for any other.

    A float that is whole is taken for a whole number: pandas makes floats of these beside a missing one.
    """
    if isinstance(one, str):
        return "text"
    if isinstance(one, bool | np.bool_):
        return "boolean"
    if isinstance(one, int | np.integer) or (isinstance(one, float) and one.is_integer()):
        return "whole" if abs(int(one)) < 10**_DIGITS else None
    if isinstance(one, Decimal):
        return "decimal" if one.is_finite() and one.adjusted() < _DIGITS >= _digits(one) else None
    return "date" if isinstance(one, date) and not isinstance(one, datetime) else None


def _digits(one: Decimal) -> int:
    """How many digits stand behind the point."""
    return max(-int(one.as_tuple().exponent), 0)


def groups_in(side: Side, name: str, cells: Iterable[Any]) -> list[list[str]]:
    """The groups in each cell of a column of a pandas frame, each once, as Spark writes them.

    Args:
        side: Whose groups they are: an item may have several.
        name: The column.
        cells: Its cells.

    Raises:
        DataError: A cell holds what no column with groups has on Spark, cells hold values of several kinds, which no column of
            Spark does, or there are too many groups.

    Example:
        >>> groups_in("item", "genre", ["war", ["love", "war", "love", None], None])
        [['war'], ['love', 'war'], []]
        >>> groups_in("user", "age", [18.0, float("nan")])
        [['18'], []]
    """
    rows = [(cell, is_array(cell), values_of(cell)) for cell in cells]
    # Only beside a missing value pandas makes floats of whole numbers.
    whole = all(len(own) == (len(cell) if several else 1) for cell, several, own in rows)
    kinds: dict[str, Any] = {}
    for cell, several, own in rows:
        for one in own:
            kind = None if (several and side == "user") or (whole and isinstance(one, float)) else kind_of(one)
            if kind is None:
                raise wrong_group(side, name, GROUPS_FORM, brief(cell))
            kinds.setdefault(kind, one)
    if len(kinds) > 1:
        raise wrong_group(side, name, GROUPS_FORM, " beside ".join(map(brief, kinds.values())))
    text = _text
    if "decimal" in kinds:
        # A column of Spark has one number of digits behind the point.
        digits = max(_digits(one) for _, _, own in rows for one in own)
        text = f"{{:.{digits}f}}".format
    found = [list(dict.fromkeys(map(text, own))) for _, _, own in rows]
    check_values("groups", name, len({group for own in found for group in own}))
    return found


def wrong_group(side: Side, name: str, expected: str, found: str) -> DataError:
    """The error for a column with groups that holds something else."""
    return DataError(f"{TABLE_OF[side]}: column {name!r}: expected {expected}, found {found}: cast it first")
