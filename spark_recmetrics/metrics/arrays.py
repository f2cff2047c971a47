"""Operations on numpy arrays: sums and ratios by user, positions, ties, and numbers in place of ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Numbers = NDArray[np.generic]


class RankedRows:
    """Columns of one length with a row per user and rank."""

    rank: Ints

    def kept(self, which: Any) -> Self:
        """The rows that a mask or an index selects."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        selected = {name: column[which] for name, column in columns.items() if isinstance(column, np.ndarray)}
        return replace(self, **selected)  # type: ignore[type-var]

    def within(self, k: int | None) -> Self:
        """The rows within the first k ranks; all rows if k is None."""
        return self if k is None else self.kept(self.rank <= k)


def positions_of(numbers: Ints, keys: Ints) -> Ints:
    """(L,) the position of each number among the ascending keys; -1 for a number that is not a key."""
    position = np.searchsorted(keys, numbers)
    # A number above all keys is compared with the last one, which no number equals.
    return np.where(np.append(keys, np.iinfo(np.int64).min)[position] == numbers, position, -1)


def numbered(*columns: pd.Series[Any]) -> tuple[list[Any], Any]:
    """The numbers of each column, and the ids by number, in order of first appearance in all columns. A null is -1."""
    import pandas as pd
    import pyarrow as pa

    values = [column.to_numpy() for column in columns]
    # The type of an empty column would turn the ids of the others into objects.
    joined = np.concatenate([value for value in values if len(value)] or values[:1])
    if joined.dtype == object:
        # pandas compares strings only up to a NUL character.
        encoded = pa.array(joined).dictionary_encode()
        codes, ids = encoded.indices.fill_null(-1).to_numpy(), encoded.dictionary.to_numpy(zero_copy_only=False)
    else:
        codes, ids = pd.factorize(joined)
    ends = np.cumsum([len(value) for value in values])
    return np.split(codes.astype(np.int64), ends[:-1]), ids


def rows_by(rows: pd.DataFrame, keys: Sequence[str]) -> Iterator[pd.DataFrame]:
    """The rows of each combination of values, by first appearance. pandas alone would group strings up to a NUL character."""
    codes = [numbered(rows[key])[0][0] for key in keys]
    return (group for _, group in rows.groupby(codes, sort=False))


def position_in_user(user: Ints, size: int) -> Ints:
    """For rows sorted by user: the position of each row among the rows of its user, from 1."""
    n = np.bincount(user, minlength=size)
    return np.arange(1, len(user) + 1) - (np.cumsum(n) - n)[user]


def tie_edges(after: Bools, before: Bools) -> tuple[Ints, Ints]:
    """For rows in order: the positions of the first and of the last row of the tie that each row belongs to."""
    # A row is `after` if it is tied with the row before it, and `before` if it is tied with the row after it.
    position = np.arange(len(after))
    first = np.maximum.accumulate(np.where(after, 0, position))
    last = np.minimum.accumulate(np.where(before, len(after), position)[::-1])[::-1]
    return first, last


def comparable_scores(score: Floats, *, first: bool) -> Floats:
    """Scores without NaN: missing scores are tied, and below all others (or above all others), infinite ones included."""
    largest = np.finfo(np.float64).max
    finite = np.minimum(score, largest) if first else np.maximum(score, -largest)
    return np.where(np.isnan(score), np.inf if first else -np.inf, finite)


def run_starts(*columns: Any) -> Ints:
    """The positions at which a run of equal rows starts, in columns of one length."""
    is_start = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(np.append(True, is_start)[: len(columns[0])])


def repeated(numbers: Ints) -> Ints:
    """The numbers that are equal to another one, ascending, without the first of each."""
    ordered = np.sort(numbers)
    again: Ints = ordered[1:][ordered[1:] == ordered[:-1]]
    return again


def sum_by_user(user: Ints, values: Numbers, size: int) -> Floats:
    """(size,) sums of the values of each user, added in the order of the rows."""
    return np.asarray(np.bincount(user, weights=values, minlength=size), dtype=np.float64)


def ratio(numerator: Numbers, denominator: Numbers, defined: Bools) -> Floats:
    """(U,) numerator / denominator; 0 where the denominator is 0, NaN where the value is undefined."""
    out = np.zeros(len(numerator), dtype=np.float64)
    np.divide(numerator, denominator, out=out, where=denominator != 0)
    out[~defined] = np.nan
    return out
