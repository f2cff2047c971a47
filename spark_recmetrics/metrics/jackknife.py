"""The values of item metrics without one of the lists. Their confidence intervals are resampled from these.

All formulas are exact for lists without repeated items. Each is one pass over the items of the lists.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spark_recmetrics.metrics.arrays import Floats
    from spark_recmetrics.metrics.item_counts import DistinctItems, ItemCounts


def coverage_left_out(counts: ItemCounts, lists: DistinctItems, *, measure: str) -> Floats:
    """(U,) coverage without each list: the items that are in no other list are not covered."""
    n_left = counts.n_covered - lists.sum(lists.in_catalog & (lists.count == lists.times))
    if measure == "count":
        return n_left
    return n_left / counts.n_items if counts.n_items else np.full(lists.n_users, math.nan)


def gini_left_out(counts: ItemCounts, lists: DistinctItems, *, population: str, scale: str) -> Floats:
    """(U,) the Gini index without each list.

    Its numerator is the sum of |c_i - c_j| over all pairs of items. If the count c of an item drops by m, it comes closer to
    items with a smaller count and moves away from the others. Two items of the list with equal counts stay equal.
    """
    of_catalog = population == "catalog"
    histogram = counts.histogram(of_catalog=of_catalog)
    level, n_at_level = (np.array(list(part), dtype=np.float64) for part in (histogram.keys(), histogram.values()))
    kept = lists.in_catalog if of_catalog else np.ones(len(lists.user), dtype=bool)
    user, times, count = lists.user[kept], lists.times[kept].astype(np.float64), lists.count[kept].astype(np.float64)
    n, total = n_at_level.sum(), (level * n_at_level).sum()
    n_below, sum_below = (np.concatenate([[0.0], np.cumsum(part)]) for part in (n_at_level, level * n_at_level))

    def distances(at: Floats) -> Floats:
        """The sum over all items of the distance of their counts from these counts."""
        position = np.searchsorted(level, at)
        distance: Floats = at * (2 * n_below[position] - n) + total - 2 * sum_below[position]
        return distance

    def sum_by_list(users: Any, values: Any) -> Floats:
        return np.asarray(np.bincount(users, weights=values, minlength=lists.n_users), dtype=np.float64)

    spread = (n_at_level * (2 * n_below[:-1] + n_at_level - n) * level).sum()
    # The distance of an item from its own old count does not belong to the sum.
    moved = distances(count - times) - distances(count) - times
    # Pairs of items of a list with equal counts and equal drops: one number for each user, count and drop.
    n_counts, n_times = int(level.max(initial=0)) + 1, int(times.max(initial=0)) + 1
    key = (user * n_counts + lists.count[kept]) * n_times + lists.times[kept]
    same, n_same = np.unique(key, return_counts=True)
    same_user, same_times = same // (n_times * n_counts), same % n_times
    spread = spread + sum_by_list(user, moved) - sum_by_list(same_user, same_times * n_same * (n_same - 1))
    total_left = total - sum_by_list(user, times)
    size = np.full(lists.n_users, n)
    if not of_catalog:
        # Items that are in no other list are not recommended anymore; the distance of each from all others was its count.
        gone = sum_by_list(user, count == times)
        spread, size = spread - gone * total_left, size - gone
    divisor = (size - 1 if scale == "n_minus_1" else size) * total_left
    value: Floats = np.divide(spread, divisor, out=np.full(lists.n_users, np.nan), where=divisor > 0)
    return value


def entropy_left_out(counts: ItemCounts, lists: DistinctItems, *, base: float, scale: str) -> Floats:
    """(U,) the entropy without each list: log C - (sum of c log c) / C, with smaller C and c."""
    histogram = counts.histogram()
    inner = math.fsum(n * _xlogx(count) for count, n in histogram.items())
    count = lists.count.astype(np.float64)
    inner_left = inner + lists.sum(_xlogx(count - lists.times) - _xlogx(count))
    total_left = sum(count * n for count, n in histogram.items()) - lists.sum(lists.times)
    defined = total_left > 0
    divisor = np.where(defined, total_left, 1.0)
    value: Floats = np.where(defined, (np.log(divisor) - inner_left / divisor) / math.log(base), np.nan)
    if scale == "distinct":
        value = value / np.maximum(sum(histogram.values()) - lists.sum(lists.count == lists.times), 1)
    return value


def diversity_left_out(counts: ItemCounts, lists: DistinctItems) -> Floats:
    """(U,) inter-list diversity without each list: without the cosines of its pairs, and without its cosine with itself."""
    n = counts.n_lists - 1
    if n < 2:
        return np.full(lists.n_users, np.nan)
    length = lists.sum(np.ones(len(lists.user)))
    cosines = 2 * lists.sum(lists.weight) / np.sqrt(np.maximum(length, 1)) - 1
    return 1 - (counts.overlap - cosines - n) / (n * (n - 1))


def _xlogx(count: Any) -> Any:
    """The product c log c, 0 for c = 0."""
    return count * np.log(np.maximum(count, 1))
