"""What a kernel sees of many users at once: hits, not lists, because most recommendations miss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RankedBatch:
    """U users (or cells of model and user) in compressed form.

    Args:
        n_relevant: (U,) number m of relevant items.
        n_recommended: (U,) length n of the list.
        hit_user: (H,) index into the batch, ascending.
        hit_rank: (H,) rank from 1, ascending within a user.
        hit_rating: (H,) rating of the relevant item found there; 1 where the truth has no ratings.
        ideal_user: (M,) index into the batch of every relevant item, ascending.
        ideal_rating: (M,) its rating, descending within a user.

    Example:
        Three users: one found both of its items, one found nothing, one has nothing to find.

        >>> batch = RankedBatch.of(lists=[["a", "b", "c"], ["x"], ["a"]], truth=[{"a": 1, "c": 1}, {"y": 1}, {}])
        >>> batch.n_hits(k=2), batch.n_hits(k=None)
        (array([1, 0, 0]), array([2, 0, 0]))
    """

    n_relevant: Ints
    n_recommended: Ints
    hit_user: Ints
    hit_rank: Ints
    hit_rating: Floats
    ideal_user: Ints
    ideal_rating: Floats

    @classmethod
    def of(cls, lists: list[list[str]], truth: list[dict[str, float]]) -> RankedBatch:
        """A batch from plain lists (best first) and dicts from relevant item to rating: for examples and small data."""
        hits = [
            (user, rank, truth[user][item])
            for user, items in enumerate(lists)
            for rank, item in enumerate(items, 1)
            if item in truth[user]
        ]
        ideal = [(user, rating) for user, items in enumerate(truth) for rating in sorted(items.values(), reverse=True)]
        return cls(
            n_relevant=np.array([len(items) for items in truth], dtype=np.int64),
            n_recommended=np.array([len(items) for items in lists], dtype=np.int64),
            hit_user=np.array([hit[0] for hit in hits], dtype=np.int64),
            hit_rank=np.array([hit[1] for hit in hits], dtype=np.int64),
            hit_rating=np.array([hit[2] for hit in hits], dtype=np.float64),
            ideal_user=np.array([item[0] for item in ideal], dtype=np.int64),
            ideal_rating=np.array([item[1] for item in ideal], dtype=np.float64),
        )

    @property
    def size(self) -> int:
        """U."""
        return len(self.n_relevant)

    @cached_property
    def hit_number(self) -> Ints:
        """(H,) how many hits the user has up to and with this one."""
        return place_in_user(self.hit_user, self.size)

    @cached_property
    def ideal_rank(self) -> Ints:
        """(M,) the rank the relevant item has in the ideal list, from 1."""
        return place_in_user(self.ideal_user, self.size)

    def sum_hits(self, values: Floats, k: int | None) -> Floats:
        """(U,) sum of (H,) values over the hits within the first k ranks; added in rank order, so always to the same bits."""
        if k is None:
            return sum_by_user(self.hit_user, values, self.size)
        within = self.hit_rank <= k
        return sum_by_user(self.hit_user[within], values[within], self.size)

    def n_hits(self, k: int | None) -> Ints:
        """(U,) relevant items within the first k ranks; of the whole list for k None."""
        return np.bincount(self.hit_user if k is None else self.hit_user[self.hit_rank <= k], minlength=self.size)

    def list_length(self, k: int | None) -> Ints:
        """(U,) length of the list cut at k."""
        return self.n_recommended if k is None else np.minimum(self.n_recommended, k)

    def n_within(self, k: int | None) -> Ints:
        """(U,) min(m, k), the relevant items that a list of length k can hold; m where there is no cut-off."""
        return self.n_relevant if k is None else np.minimum(self.n_relevant, k)

    def cut_off(self, k: int | None) -> Ints:
        """(U,) the k that a formula divides by: k itself, or the length of the list where there is no cut-off."""
        return self.n_recommended if k is None else np.full(self.size, k, dtype=np.int64)


def place_in_user(user: Ints, size: int) -> Ints:
    """For values sorted by user: the place of each among those of its user, from 1."""
    count = np.bincount(user, minlength=size)
    start = np.cumsum(count) - count
    return np.arange(1, len(user) + 1) - start[user]


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
