"""Helpers for numpy arrays: sums and ratios by user, positions, ties, and numbers in place of ids."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Part:
    """Columns of one length, by user and rank."""

    rank: Ints

    def kept(self, which: Any) -> Self:
        """The rows that a mask or an index names."""
        return type(self)(**{column.name: getattr(self, column.name)[which] for column in fields(self)})  # type: ignore[arg-type]

    def within(self, k: int | None) -> Self:
        """The rows within the first k ranks; all for k None."""
        return self if k is None else self.kept(self.rank <= k)


def positions_of(wanted: Ints, keys: Ints) -> Ints:
    """(L,) the place of each number among the keys, which ascend; -1 where it is none of them."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.searchsorted(keys, wanted)
    place[place == len(keys)] = 0
    return np.where(keys[place] == wanted, place, -1)


def numbered(*columns: pd.Series[Any]) -> tuple[list[Any], Any]:
    """Numbers from 0 for the ids of all columns together: the numbers of each column, and the ids by number.

    Those that come first have the lower numbers.
    """
    import pandas as pd
    import pyarrow as pa

    # An empty side has no type of its own and would turn the other side's ids into objects.
    values = [column.to_numpy() for column in columns]
    filled = [value for value in values if len(value)] or values[:1]
    joined = np.concatenate(filled)
    if joined.dtype == object:
        # pandas tells texts apart only up to a NUL character.
        encoded = pa.array(joined).dictionary_encode()
        codes, ids = encoded.indices.to_numpy(), encoded.dictionary.to_numpy(zero_copy_only=False)
    else:
        codes, ids = pd.factorize(joined)
    ends = np.cumsum([len(value) for value in values])
    return np.split(codes.astype(np.int64), ends[:-1]), ids


def position_in_user(user: Ints, size: int) -> Ints:
    """For values sorted by user: the place of each among those of its user, from 1."""
    count = np.bincount(user, minlength=size)
    start = np.cumsum(count) - count
    return np.arange(1, len(user) + 1) - start[user]


def tie_edges(after: NDArray[np.bool_], before: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """For rows in order: the places of the first and of the last row that each is tied with, itself where it is with none.

    Args:
        after: (L,) whether the row is tied with the one before it. Of a tie there are the first and the last row at least.
        before: (L,) whether it is tied with the one behind it.

    Example:
        >>> tie_edges(np.array([False, False, True, True]), np.array([False, True, True, False]))
        (array([0, 1, 1, 1]), array([0, 3, 3, 3]))
    """
    place = np.arange(len(after))
    first = np.maximum.accumulate(np.where(after, 0, place))
    last = np.minimum.accumulate(np.where(before, len(after), place)[::-1])[::-1]
    return first, last


def comparable_scores(score: Floats, *, first: bool = False) -> Floats:
    """Scores that can be compared: missing ones are tied, behind all others, infinite ones too, or before them.

    Example:
        >>> comparable_scores(np.array([np.nan, -np.inf, 1.0]))
        array([            -inf, -1.79769313e+308,  1.00000000e+000])
    """
    largest = np.finfo(np.float64).max
    placed = np.minimum(score, largest) if first else np.maximum(score, -largest)
    return np.where(np.isnan(score), np.inf if first else -np.inf, placed)


def sum_by_user(user: Ints, values: Floats, size: int) -> Floats:
    """(size,) sums of the values of each user, added in the order given."""
    return np.asarray(np.bincount(user, weights=values, minlength=size), dtype=np.float64)


def ratio(numerator: NDArray[np.generic], denominator: NDArray[np.generic], defined: NDArray[np.bool_]) -> Floats:
    """(U,) numerator / denominator; 0 where the denominator is 0, and NaN where the value is not defined."""
    nonzero = denominator != 0
    out = np.zeros(len(numerator), dtype=np.float64)
    np.divide(numerator, denominator, out=out, where=nonzero)
    out[~defined] = np.nan
    return out
