"""What a kernel sees of recommended items beside whether they are relevant: popularity, history, features, categories."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.errors import DataError
from spark_recmetrics.metrics.arrays import Floats, Ints, Part

if TYPE_CHECKING:
    from numpy.typing import NDArray

CATEGORIES_A_BLOCK = 62
"""How many categories one number of `Recommended.categories` holds: a double holds the highest power of two exactly."""


@dataclass(frozen=True)
class Popularity:
    """How often the items of the training rows stand there: a histogram, which is small however many items there are.

    Args:
        counts: (C,) the different numbers of rows that items have, ascending.
        n_items: (C,) how many items have so many.
        n_users: How many users have a row; 0 where nobody needs to know.

    Example:
        Two items with one row each, and one with 8:

        >>> popularity = Popularity((1, 8), (2, 1), n_users=3)
        >>> popularity.n_rows, popularity.short_head(0.8), popularity.place(np.array([8, 1, 0]))
        (10, 8, array([ 1.,  2., inf]))
    """

    counts: tuple[int, ...]
    n_items: tuple[int, ...]
    n_users: int = 0

    @cached_property
    def n_rows(self) -> int:
        """The number of training rows."""
        return sum(count * n for count, n in zip(self.counts, self.n_items, strict=True))

    @classmethod
    def of_train(cls, counts: Sequence[int], n_items: Sequence[int], n_users: int) -> Popularity:
        """What the training rows tell.

        Raises:
            DataError: There are none, so that every item would be as rare as any other.
        """
        if not counts:
            raise DataError("train: expected rows with a user and an item, found none: no item is more popular than another")
        return cls(tuple(counts), tuple(n_items), n_users)

    def short_head(self, share: float) -> int:
        """How many rows an item has at least that is one of the most popular ones, which together hold this share of the rows.

        Items of equal popularity stand on one side: they are in as long as those above them hold less than the share.
        """
        held, lowest = 0, 1
        wanted = math.ceil(Fraction(str(share)) * self.n_rows)  # 0.55 * 100 is more than 55 for floats
        for count, n in zip(reversed(self.counts), reversed(self.n_items), strict=True):
            if held >= wanted:
                break
            held, lowest = held + count * n, count
        return lowest

    def n_head(self, share: float) -> int:
        """How many items the most popular ones are that hold this share of the rows."""
        lowest = self.short_head(share)
        return sum(n for count, n in zip(self.counts, self.n_items, strict=True) if count >= lowest)

    def place(self, n_rows: Ints) -> Floats:
        """The place of items by popularity, from 1; equally popular ones share a place. Infinite for an item without a row."""
        above = len(self.counts) - np.searchsorted(np.asarray(self.counts, dtype=np.int64), n_rows)
        return np.where(n_rows > 0, above.astype(np.float64), np.inf)


@dataclass(frozen=True)
class ItemTable:
    """What is known of the I items of a batch, by their numbers. What no metric needs has no meaning.

    Args:
        n_rows: (I,) training rows of the item.
        n_users: (I,) users with a training row of the item.
        features: (I, D) feature vector of the item, NaN where it has none.
        categories: (I, B) categories of the item, one bit each, `CATEGORIES_A_BLOCK` in a number; 0 where it has none.
        group_starts: (I + 1,) where the groups of an item begin among all groups of items, and where the last one's end.
        groups: The groups of the items, as places in `ItemSummary.groups`.
    """

    n_rows: Ints
    n_users: Ints
    features: Floats
    categories: Ints
    group_starts: Ints
    groups: Ints

    @classmethod
    def of(cls, size: int, **known: Any) -> ItemTable:
        """A table of so many items; what is not given is as if nothing was known of them."""
        nothing: dict[str, Any] = {name: np.zeros(size, dtype=np.int64) for name in ("n_rows", "n_users")}
        nothing |= {"features": np.zeros((size, 0)), "categories": np.zeros((size, 0), dtype=np.int64)}
        nothing |= {"group_starts": np.zeros(size + 1, dtype=np.int64), "groups": np.zeros(0, dtype=np.int64)}
        return cls(**{**nothing, **known})

    @cached_property
    def unit_features(self) -> Floats:
        """(I, D) the feature vectors with length 1; one of zeros stays as it is."""
        # Squares of very large and very small numbers are infinite and 0: powers of two, which change no digit, go before.
        _, exponent = np.frexp(np.max(np.abs(self.features), axis=1, initial=0.0))
        near_1 = np.ldexp(self.features, -exponent[:, None])
        length = np.sqrt(np.einsum("ij,ij->i", near_1, near_1))
        found: Floats = near_1 / np.where(length == 0, 1.0, length)[:, None]
        return found

    @cached_property
    def unit_squares(self) -> Floats:
        """(I,) the squared lengths of these vectors: 1, but for rounding, and 0 for one of zeros."""
        found: Floats = np.einsum("ij,ij->i", self.unit_features, self.unit_features)
        return found

    def groups_of(self, items: Ints) -> tuple[Ints, Ints]:
        """Every pair of one of these items and a group that it belongs to: the place of the item here, and the group."""
        first, n = self.group_starts[items], self.group_starts[items + 1] - self.group_starts[items]
        place = np.repeat(np.arange(len(items)), n)
        behind = np.arange(len(place)) - np.repeat(np.cumsum(n) - n, n)
        return place, self.groups[first[place] + behind]


@dataclass(frozen=True)
class RecommendedItems(Part):
    """Every recommended item, by user and rank, with what is known of it. What no metric needs has no meaning.

    Args:
        user: (L,) index into the batch, ascending.
        rank: (L,) rank from 1, ascending within a user.
        item: (L,) the number of the item in the table.
        rating: (L,) rating of the item where it is relevant, else NaN.
        score: (L,) score of the recommendation, NaN where it is missing.
        seen: (L,) whether the user has a training row of the item.
        baseline_rank: (L,) rank of the item in the user's list of the baseline model, 0 where it is not there.
        table: What is known of items.
    """

    user: Ints
    rank: Ints
    item: Ints
    rating: Floats
    score: Floats
    seen: NDArray[np.bool_]
    baseline_rank: Ints
    table: ItemTable

    @classmethod
    def of(cls, user: Ints, rank: Ints, item: Ints, rating: Floats, table: ItemTable, **known: Any) -> RecommendedItems:
        """Rows in any order; what is not given is as if nothing was known of the items."""
        nothing: dict[str, Any] = {
            "score": np.full(len(user), np.nan),
            "seen": np.zeros(len(user), dtype=bool),
            "baseline_rank": np.zeros(len(user), dtype=np.int64),
        }
        rows = cls(user, rank, item, rating, **{**nothing, **known}, table=table)
        key = user * (int(rank.max(initial=0)) + 1) + rank
        return rows if np.all(key[1:] >= key[:-1]) else rows.kept(np.argsort(key, kind="stable"))

    def kept(self, which: Any) -> RecommendedItems:
        """The rows that a mask or an index names."""
        rows = (field.name for field in fields(self) if field.name != "table")
        return replace(self, **{name: getattr(self, name)[which] for name in rows})

    @cached_property
    def hits(self) -> RecommendedItems:
        """The rows of relevant items: most recommendations miss."""
        return self.kept(~np.isnan(self.rating))

    @cached_property
    def _cut(self) -> dict[tuple[int, str], Any]:
        return {}

    def upto(self, k: int | None, *names: str) -> tuple[Any, ...]:
        """The users, and these columns, of the rows within the first k ranks; of all for k None."""
        if k is None:
            return tuple(getattr(self, name) for name in ("user", *names))
        # Many metrics look at the same columns.
        if (k, "") not in self._cut:
            self._cut[k, ""] = np.flatnonzero(self.rank <= k)
        for name in ("user", *names):
            if (k, name) not in self._cut:
                self._cut[k, name] = getattr(self, name)[self._cut[k, ""]]
        return tuple(self._cut[k, name] for name in ("user", *names))


@dataclass(frozen=True)
class ItemSummary:
    """What is known of all items together.

    Args:
        popularity: How often they stand in the training rows.
        n_features: Length D of their feature vectors.
        n_categories: How many categories they have.
        groups: Their groups, by column and name.
    """

    popularity: Popularity | None = None
    n_features: int = 0
    n_categories: int = 0
    groups: tuple[tuple[str, str], ...] = ()

    @property
    def n_blocks(self) -> int:
        """How many numbers hold the categories of an item."""
        return -(-self.n_categories // CATEGORIES_A_BLOCK)


def baseline_ranks(cell: Ints, rank: Ints, item: Ints, n_users: int, baseline: int) -> Ints:
    """(L,) the rank of each item in the list that the baseline model made for the same user, 0 where it is not there.

    Args:
        cell: (L,) index into the batch, by model and then by user.
        rank: (L,) rank.
        item: (L,) a number that only this item has.
        n_users: Users of a model.
        baseline: Place of the baseline among the models.
    """
    key = cell % max(n_users, 1) * (item.max(initial=0) + 1) + item
    own = np.flatnonzero(cell // max(n_users, 1) == baseline)
    own = own[np.lexsort((rank[own], key[own]))]
    place = np.searchsorted(key[own], key)
    place[place == len(own)] = 0
    there = key[own][place] == key if len(own) else np.zeros(len(key), dtype=bool)
    return np.where(there, rank[own][place], 0) if len(own) else np.zeros(len(key), dtype=np.int64)


def category_bits(groups: Sequence[Collection[str]], names: Sequence[str]) -> Ints:
    """(I, B) the categories of each item as bits."""
    found = np.zeros((len(groups), -(-len(names) // CATEGORIES_A_BLOCK)), dtype=np.int64)
    for place, name in enumerate(names):
        block, bit = divmod(place, CATEGORIES_A_BLOCK)
        found[:, block] |= np.array([name in own for own in groups], dtype=np.int64).reshape(len(groups)) << bit
    return found
