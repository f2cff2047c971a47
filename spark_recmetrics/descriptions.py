"""What the table of item features may hold: the same checks, with the same words, for frames of Spark and of pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spark_recmetrics.errors import DataError, printable

MOST_CATEGORIES = 4096
"""How many categories items may have: they come to the driver, and are a bit each for every recommended item."""

MOST_FEATURES = 1024
"""How long a feature vector may be: each of its numbers is a column of the lists."""

SPARSE = ("size", "indices", "values")
"""The parts of a sparse vector: its length, the places of its numbers from 0, and these numbers; all others are 0."""

FEATURES_FORM = f"an array of numbers, a vector, or {', '.join(SPARSE[:-1])} and {SPARSE[-1]} of a sparse one"
CATEGORIES_FORM = "a text, a whole number, or an array of these"


def wrong_form(key: str, name: str, expected: str, found: str) -> DataError:
    """The error for a column that holds something else.

    Args:
        key: Its key of `Columns`.
        name: Its name.
        expected: What it may hold.
        found: What it holds.
    """
    return DataError(f"item_features: column {name!r} (columns.{key}): expected {expected}, found {found}: cast it first")


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
    more = counts["rows"] - counts["items"]
    if more:
        raise DataError(
            f"item_features: expected one row for each item, found {more} more, e.g. items {printable(examples)}: "
            "decide which row counts"
        )
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


def values_of(own: Any) -> list[Any]:
    """What a cell of a pandas frame holds, which may be one value, several or none.

    Example:
        >>> values_of("war"), values_of(["war", None, 3]), values_of(float("nan"))
        (['war'], ['war', 3], [])
    """
    import pandas as pd

    several = [own] if isinstance(own, str) or np.ndim(own) == 0 else list(own)
    return [one for one in several if isinstance(one, str) or not pd.isna(one)]


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
