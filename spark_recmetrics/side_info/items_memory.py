"""What is known of items, in memory: the same columns as `known_items` and `catalog` give on Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.columns import ABOUT_ITEM, ITEM_GROUPS
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics.arrays import Ints
from spark_recmetrics.metrics.recommended_items import ItemSummary, Popularity, category_bits
from spark_recmetrics.side_info.descriptions import (
    CATEGORIES_FORM,
    FEATURES_FORM,
    MOST_FEATURES,
    SPARSE,
    beyond_one,
    check_categories,
    check_descriptions,
    is_array,
    kind_of,
    texts_of,
    values_of,
    wrong_form,
)
from spark_recmetrics.side_info.packed import pack
from spark_recmetrics.text import brief

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from spark_recmetrics.columns import Columns


def popularity_of(train: pd.DataFrame, n_items: int) -> tuple[Any, Any, Popularity]:
    """Training rows of each item, the users with one, and what is known of all items.

    Args:
        train: `user, item` as numbers, with repeats.
        n_items: The number of items.
    """
    n_rows = np.bincount(train["item"], minlength=n_items)
    n_users = np.bincount(train.drop_duplicates()["item"], minlength=n_items)
    counts, n_of = np.unique(n_rows[n_rows > 0], return_counts=True)
    return n_rows, n_users, Popularity.of_train(counts.tolist(), n_of.tolist(), int(train["user"].nunique()))


def known_items(popularity: tuple[Any, Any] | None, features: Any, categories: Any, groups: Any) -> pd.DataFrame | None:
    """`item`, `ABOUT_ITEM` as it comes to a bucket on Spark, and `ITEM_GROUPS` where they are known; None if nothing is.

    Args:
        popularity: (I,) training rows, and users.
        features: (I, D) feature vectors.
        categories: (I, B) categories.
        groups: (I,) lists of groups.
    """
    import pandas as pd

    size = next((len(one) for one in (features, categories, groups, *(popularity or ())) if one is not None), None)
    if size is None:
        return None
    nothing = np.zeros((size, 0), dtype=np.int64)
    counts = (np.zeros(size, dtype=np.int64),) * 2 if popularity is None else popularity
    numbers = np.column_stack([*counts, nothing if categories is None else categories])
    of_items = [np.zeros(0, dtype=np.int64)] * size if groups is None else groups
    about = pack(numbers, nothing.astype(np.float64) if features is None else features, of_items)
    return pd.DataFrame({"item": np.arange(size), ABOUT_ITEM: about, ITEM_GROUPS: pd.Series(of_items, dtype=object)})


def description_columns(needs: Collection[str], columns: Columns) -> dict[str, str]:
    """The columns of item features that are needed, by our names."""
    found = {"features": columns.features} if "features" in needs else {}
    return found | ({"categories": columns.categories} if "categories" in needs else {})


def descriptions_of(table: pd.DataFrame, place: Ints, n_items: int, columns: Columns) -> tuple[Any, Any, ItemSummary]:
    """Features and categories of each item, None where they are not known, and what is known of all items.

    Args:
        table: `item`, an id, and `features` or `categories`.
        place: (L,) the numbers of these items, -1 for one of no list, truth or training row.
        n_items: The number of items.
        columns: The caller's names, for messages.

    Raises:
        DataError: Item features are of a wrong kind, repeated, or cannot be compared, as on Spark.
    """
    more, examples = beyond_one(table["item"])
    counts: dict[str, Any] = {"rows": len(table), "items": len(table) - more}
    vectors = [_vector(own, columns.features) for own in table["features"]] if "features" in table else []
    if "features" in table:
        lengths = [own.length for own in vectors if own.length is not None]
        counts |= {"shortest": min(lengths, default=None), "longest": max(lengths, default=None)}
        counts["misplaced"] = sum(own.misplaced for own in vectors)
        counts["broken"] = sum(not np.isfinite(own.numbers).all() for own in vectors if own.numbers is not None)
    groups = [_categories(own, columns.categories) for own in table["categories"]] if "categories" in table else []
    check_descriptions(counts, examples)
    names = sorted({name for own in groups for name in own})
    check_categories(names)
    size, matrix, codes = counts.get("longest") or 0, None, None
    # One more row than items takes what is no item of lists or truth.
    if size:
        matrix = np.full((n_items + 1, size), np.nan)
        matrix[place] = [np.full(size, np.nan) if own.numbers is None else own.numbers for own in vectors]
        matrix = matrix[:-1]
    if names:
        bits = category_bits(groups, names)
        codes = np.zeros((n_items + 1, bits.shape[1]), dtype=np.int64)
        codes[place] = bits
        codes = codes[:-1]
    return matrix, codes, ItemSummary(n_features=size, n_categories=len(names))


class _Vector(NamedTuple):
    """The numbers of a feature vector, its length, and whether it is a sparse one that does not fit its size."""

    numbers: NDArray[np.float64] | None = None
    length: int | None = None
    misplaced: bool = False


def _vector(own: Any, name: str) -> _Vector:
    """The feature vector in a cell of that column.

    Raises:
        DataError: It is something else.
    """
    if isinstance(own, Mapping):
        return _sparse(own, name)
    if not is_array(own) and not values_of(own):
        return _Vector()
    numbers = _numbers(own)
    if numbers is None:
        raise wrong_form("features", name, FEATURES_FORM, brief(own))
    return _Vector(numbers, len(numbers))


def _sparse(own: Mapping[str, Any], name: str) -> _Vector:
    wrong = wrong_form("features", name, FEATURES_FORM, brief(dict(own)))
    if not own.keys() >= set(SPARSE):
        raise wrong
    form = own.get("type")
    if not isinstance(form, int | np.integer) or isinstance(form, bool):  # then it is not that of Spark ML
        form = 0
    if form == 1 and own["values"] is not None:
        return _vector(own["values"], name)
    size, indices, values = (own[part] for part in SPARSE)
    if form != 0 or size is None or indices is None or values is None:
        return _Vector(misplaced=True)
    numbers, places = _numbers(values), _numbers(indices)
    whole = isinstance(size, int | np.integer) and not isinstance(size, bool) and abs(int(size)) < 2**63
    if numbers is None or places is None or not whole or (places[np.isfinite(places)] % 1 > 0).any():
        raise wrong
    inside = (places >= 0) & (places < size)
    if size < 0 or len(places) != len(numbers) or not inside.all() or len(np.unique(places)) < len(places):
        return _Vector(length=int(size), misplaced=True)
    if size > MOST_FEATURES:  # refused by its length, which must not take its memory
        return _Vector(length=int(size))
    filled = np.zeros(size)
    filled[places.astype(np.int64)] = numbers
    return _Vector(filled, int(size))


def _numbers(own: Any) -> NDArray[np.float64] | None:
    """The numbers of an array, NaN where one is missing; None for what is no array of numbers."""
    try:
        array = np.asarray(own)
    except ValueError:  # arrays of several lengths
        return None
    if array.ndim != 1 or not (array.dtype.kind in "iufO" or not len(array)):
        return None
    if array.dtype.kind == "O":
        known = [None if not values_of(one) else one for one in array]
        if any(not isinstance(one, Number | None) or isinstance(one, bool | complex) for one in known):
            return None
        array = np.array([np.nan if one is None else _double(one) for one in known])
    return array.astype(np.float64)


def _double(number: Any) -> float:
    """The number as a double, infinite where it is too large for one."""
    try:
        return float(number)
    except OverflowError:
        return np.inf


def _categories(own: Any, name: str) -> list[str]:
    """The categories in a cell of that column.

    Raises:
        DataError: It is something else.
    """
    for one in values_of(own):
        if kind_of(one) not in ("text", "whole", "boolean"):
            raise wrong_form("categories", name, CATEGORIES_FORM, brief(one))
    return texts_of(own)


def baseline_of(models: Sequence[str], baseline: str | None) -> int | None:
    """The place of the baseline among the models.

    Raises:
        ConfigError: It is none of them.
    """
    if baseline is None:
        return None
    if baseline not in models:
        raise ConfigError(f"baseline: expected one of {', '.join(models)}, found {baseline!r}")
    return list(models).index(baseline)
