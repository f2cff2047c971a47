"""Feature vectors and categories in cells of the caller's table."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.side_info.descriptions import (
    CATEGORIES_FORM,
    FEATURES_FORM,
    MOST_FEATURES,
    SPARSE,
    is_array,
    kind_of,
    texts_of,
    values_of,
    wrong_form,
)
from spark_recmetrics.text import brief

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Vector(NamedTuple):
    """The numbers of a feature vector, its length, and whether it is a sparse one that does not fit its size."""

    numbers: NDArray[np.float64] | None = None
    length: int | None = None
    misplaced: bool = False


def vector_in(own: Any, name: str) -> Vector:
    """The feature vector in a cell of that column.

    Raises:
        DataError: It is something else.
    """
    if isinstance(own, Mapping):
        return _sparse(own, name)
    if not is_array(own) and not values_of(own):
        return Vector()
    numbers = _numbers(own)
    if numbers is None:
        raise wrong_form("features", name, FEATURES_FORM, brief(own))
    return Vector(numbers, len(numbers))


def _sparse(own: Mapping[str, Any], name: str) -> Vector:
    wrong = wrong_form("features", name, FEATURES_FORM, brief(dict(own)))
    if not own.keys() >= set(SPARSE):
        raise wrong
    form = own.get("type")
    if not isinstance(form, int | np.integer) or isinstance(form, bool):  # then it is not that of Spark ML
        form = 0
    if form == 1 and own["values"] is not None:
        return vector_in(own["values"], name)
    size, indices, values = (own[part] for part in SPARSE)
    if form != 0 or size is None or indices is None or values is None:
        return Vector(misplaced=True)
    numbers, places = _numbers(values), _numbers(indices)
    whole = isinstance(size, int | np.integer) and not isinstance(size, bool) and abs(int(size)) < 2**63
    if numbers is None or places is None or not whole or (places[np.isfinite(places)] % 1 > 0).any():
        raise wrong
    inside = (places >= 0) & (places < size)
    if size < 0 or len(places) != len(numbers) or not inside.all() or len(np.unique(places)) < len(places):
        return Vector(length=int(size), misplaced=True)
    if size > MOST_FEATURES:  # refused by its length, which must not take its memory
        return Vector(length=int(size))
    filled = np.zeros(size)
    filled[places.astype(np.int64)] = numbers
    return Vector(filled, int(size))


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


def categories_in(own: Any, name: str) -> list[str]:
    """The categories in a cell of that column.

    Raises:
        DataError: It is something else.
    """
    for one in values_of(own):
        if kind_of(one) not in ("text", "whole", "boolean"):
            raise wrong_form("categories", name, CATEGORIES_FORM, brief(one))
    return texts_of(own)
