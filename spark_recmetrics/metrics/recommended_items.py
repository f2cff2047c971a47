"""The recommended items of a batch, and information on items: popularity, history, features, categories, groups."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from spark_recmetrics.errors import DataError
from spark_recmetrics.metrics.arrays import Bools, Floats, Ints, RankedRows, positions_of

CATEGORIES_A_BLOCK = 62
"""How many categories fit into one integer of `ItemTable.categories`."""


@dataclass(frozen=True)
class Popularity:
    """Distribution of the training rows over items, as a histogram whose size does not depend on the number of items."""

    counts: tuple[int, ...]  # (C,) the different numbers of rows of an item, ascending
    n_items: tuple[int, ...]  # (C,) items with that many rows
    n_users: int = 0  # users with a row; 0 if no metric needs it

    @cached_property
    def n_rows(self) -> int:
        """The number of training rows."""
        return sum(count * n for count, n in zip(self.counts, self.n_items, strict=True))

    @classmethod
    def of_train(cls, counts: Sequence[int], n_items: Sequence[int], n_users: int) -> Popularity:
        """The popularity of items in training rows. Raises DataError without rows: all items would be equally rare."""
        if not counts:
            raise DataError("train: expected rows with a user and an item, found none: check its location and filters")
        return cls(tuple(counts), tuple(n_items), n_users)

    def head_threshold(self, share: float) -> int:
        """The smallest number of rows of an item of the short head: the most popular items, with this share of all rows."""
        # Equally popular items are in the short head if the more popular items hold less than the share.
        n_above, lowest = 0, 1
        limit = math.ceil(Fraction(str(share)) * self.n_rows)  # in floats, 0.55 * 100 > 55
        for count, n in zip(reversed(self.counts), reversed(self.n_items), strict=True):
            if n_above >= limit:
                break
            n_above, lowest = n_above + count * n, count
        return lowest

    def n_head(self, share: float) -> int:
        """The number of items of the short head."""
        lowest = self.head_threshold(share)
        return sum(n for count, n in zip(self.counts, self.n_items, strict=True) if count >= lowest)

    def rank(self, n_rows: Ints) -> Floats:
        """The rank of items by popularity, from 1. Equally popular items share a rank; without a row the rank is infinite."""
        above = len(self.counts) - np.searchsorted(np.asarray(self.counts, dtype=np.int64), n_rows)
        return np.where(n_rows > 0, above.astype(np.float64), np.inf)


@dataclass(frozen=True)
class ItemTable:
    """Information on the I items of a batch, by their numbers. Columns that no metric needs are not filled."""

    n_rows: Ints  # (I,) training rows of the item
    n_users: Ints  # (I,) users with a training row of the item
    features: Floats  # (I, D) feature vector of the item, NaN if it has none
    categories: Ints  # (I, B) categories of the item as bits, `CATEGORIES_A_BLOCK` in an integer; 0 if it has none
    group_starts: Ints  # (I + 1,) the start of the item's groups in `groups`, and the end of the last item's groups
    groups: Ints  # the groups of the items, as indexes into `ItemSummary.groups`

    @cached_property
    def unit_features(self) -> Floats:
        """(I, D) the feature vectors scaled to length 1; a vector of zeros is unchanged."""
        # Squares of very large numbers are infinite, those of very small ones 0. Powers of two scale without rounding.
        _, exponent = np.frexp(np.max(np.abs(self.features), axis=1, initial=0.0))
        scaled = np.ldexp(self.features, -exponent[:, None])
        length = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        units: Floats = scaled / np.where(length == 0, 1.0, length)[:, None]
        return units

    @cached_property
    def unit_squares(self) -> Floats:
        """(I,) the squared lengths of the scaled vectors: 1 up to rounding, and 0 for a vector of zeros."""
        squares: Floats = np.einsum("ij,ij->i", self.unit_features, self.unit_features)
        return squares

    def groups_of(self, items: Ints) -> tuple[Ints, Ints]:
        """All pairs of one of these items and one of its groups: the position of the item in `items`, and the group."""
        start, n = self.group_starts[items], self.group_starts[items + 1] - self.group_starts[items]
        position = np.repeat(np.arange(len(items)), n)
        offset = np.arange(len(position)) - np.repeat(np.cumsum(n) - n, n)
        return position, self.groups[start[position] + offset]


@dataclass(frozen=True)
class RecommendedItems(RankedRows):
    """All recommended items, by user and rank, with information on them. Columns that no metric needs are not filled."""

    user: Ints  # (L,) index into the batch, ascending
    rank: Ints  # (L,) rank from 1, ascending within a user
    item: Ints  # (L,) the number of the item in the table
    rating: Floats  # (L,) rating of a relevant item, NaN if the item is not relevant
    score: Floats  # (L,) score of the recommendation, NaN if it is missing
    seen: Bools  # (L,) whether the user has a training row of the item
    baseline_rank: Ints  # (L,) rank of the item in the user's list of the baseline model, 0 if it is not in there
    table: ItemTable

    @cached_property
    def hits(self) -> RecommendedItems:
        """The rows of relevant items."""
        return self.kept(~np.isnan(self.rating))

    @cached_property
    def _cut(self) -> dict[tuple[int, str], Any]:
        """Columns cut at k, because many metrics read the same ones."""
        return {}

    def top(self, k: int | None, *names: str) -> tuple[Any, ...]:
        """The users and these columns of the rows within the first k ranks; of all rows if k is None."""
        if k is None:
            return tuple(getattr(self, name) for name in ("user", *names))
        if (k, "") not in self._cut:
            self._cut[k, ""] = np.flatnonzero(self.rank <= k)
        for name in ("user", *names):
            if (k, name) not in self._cut:
                self._cut[k, name] = getattr(self, name)[self._cut[k, ""]]
        return tuple(self._cut[k, name] for name in ("user", *names))


@dataclass(frozen=True)
class ItemSummary:
    """Information on all items together."""

    popularity: Popularity | None = None
    n_features: int = 0  # the length D of the feature vectors
    n_categories: int = 0
    groups: tuple[tuple[str, str], ...] = ()  # the groups of items, by column and name

    @property
    def n_blocks(self) -> int:
        """The number of integers for the categories of an item."""
        return -(-self.n_categories // CATEGORIES_A_BLOCK)


def baseline_ranks(cell: Ints, rank: Ints, item: Ints, n_users: int, baseline: int) -> Ints:
    """(L,) the rank of each item in the baseline model's list for the same user, 0 if it is not in there."""
    # A cell is an index into the batch, by model and then by user. `baseline` is the index of the model.
    key = cell % max(n_users, 1) * (item.max(initial=0) + 1) + item
    baseline_rows = np.flatnonzero(cell // max(n_users, 1) == baseline)
    baseline_rows = baseline_rows[np.lexsort((rank[baseline_rows], key[baseline_rows]))]
    position = positions_of(key, key[baseline_rows])
    return np.where(position >= 0, np.append(rank[baseline_rows], 0)[position], 0)


def category_bits(categories: Sequence[Collection[str]], names: Sequence[str]) -> Ints:
    """(I, B) the categories of each item as bits."""
    bits = np.zeros((len(categories), -(-len(names) // CATEGORIES_A_BLOCK)), dtype=np.int64)
    for number, name in enumerate(names):
        block, bit = divmod(number, CATEGORIES_A_BLOCK)
        has_category = np.array([name in item_categories for item_categories in categories], dtype=np.int64)
        bits[:, block] |= has_category.reshape(len(categories)) << bit
    return bits
