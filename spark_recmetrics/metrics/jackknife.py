"""What a metric of items would be without one of the lists: of this its intervals are made.

All formulas are exact for lists without repeated items, and are one pass over the items of the lists, whatever the number of
users and items.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spark_recmetrics.metrics.arrays import Floats
    from spark_recmetrics.metrics.item_counts import DistinctItems, ItemCounts


def coverage_left_out(found: ItemCounts, lists: DistinctItems, *, measure: str) -> Floats:
    """(U,) coverage without each list: the items that stand in no other list are gone."""
    n = sum(n for count, n in found.histogram(of_catalog=True).items() if count)
    left = n - lists.sum(lists.known & (lists.count == lists.times))
    if measure == "count":
        return left
    return left / found.n_items if found.n_items else np.full(lists.n_users, math.nan)


def gini_left_out(found: ItemCounts, lists: DistinctItems, *, population: str, scale: str) -> Floats:
    """(U,) the Gini index without each list.

    Its numerator is the sum of |c_i - c_j| over all pairs of items. An item that loses m of its c comes nearer to those that
    have less and goes away from the others; two items of the list that had the same count keep it.
    """
    of_catalog = population == "catalog"
    histogram = found.histogram(of_catalog=of_catalog)
    level, many = (np.array(list(part), dtype=np.float64) for part in (histogram.keys(), histogram.values()))
    own = lists.known if of_catalog else np.ones(len(lists.user), dtype=bool)
    user, times, count = lists.user[own], lists.times[own].astype(np.float64), lists.count[own].astype(np.float64)
    n, total = many.sum(), (level * many).sum()
    below, rows_below = (np.concatenate([[0.0], np.cumsum(part)]) for part in (many, level * many))

    def apart(at: Floats) -> Floats:
        """Sum over all items of how far their counts are from these."""
        place = np.searchsorted(level, at)
        distance: Floats = at * (2 * below[place] - n) + total - 2 * rows_below[place]
        return distance

    spread = (many * (2 * below[:-1] + many - n) * level).sum()
    # Its distance to itself is no part of the sum.
    moved = apart(count - times) - apart(count) - times
    # A number for each user, count and number of times.
    n_counts, n_times = int(level.max(initial=0)) + 1, int(times.max(initial=0)) + 1
    pairs, n_same = np.unique((user * n_counts + lists.count[own]) * n_times + lists.times[own], return_counts=True)
    pair_user, pair_times = pairs // (n_times * n_counts), pairs % n_times

    def summed(users: Any, values: Any) -> Floats:
        return np.asarray(np.bincount(users, weights=values, minlength=lists.n_users), dtype=np.float64)

    spread = spread + summed(user, moved) - summed(pair_user, pair_times * n_same * (n_same - 1))
    left = total - summed(user, times)
    size = np.full(lists.n_users, n)
    if not of_catalog:
        # Items that no list holds any more are none of the recommended ones; each was c_j away from all others.
        gone = summed(user, count == times)
        spread, size = spread - gone * left, size - gone
    divisor = (size - 1 if scale == "n_minus_1" else size) * left
    value: Floats = np.divide(spread, divisor, out=np.full(lists.n_users, np.nan), where=divisor > 0)
    return value


def entropy_left_out(found: ItemCounts, lists: DistinctItems, *, base: float, scale: str) -> Floats:
    """(U,) the entropy without each list: log C - (sum of c log c) / C, where C and some c are smaller."""
    histogram = found.histogram()
    inner = math.fsum(many * _xlogx(count) for count, many in histogram.items())
    count = lists.count.astype(np.float64)
    inner_left = inner + lists.sum(_xlogx(count - lists.times) - _xlogx(count))
    left = sum(count * many for count, many in histogram.items()) - lists.sum(lists.times)
    some = left > 0
    safe = np.where(some, left, 1.0)
    value: Floats = np.where(some, (np.log(safe) - inner_left / safe) / math.log(base), np.nan)
    if scale == "distinct":
        value = value / np.maximum(sum(histogram.values()) - lists.sum(lists.count == lists.times), 1)
    return value


def diversity_left_out(found: ItemCounts, lists: DistinctItems) -> Floats:
    """(U,) inter-list diversity without each list: the cosines of its pairs are gone, and that with itself."""
    n = found.n_lists - 1
    if n < 2:
        return np.full(lists.n_users, np.nan)
    length = lists.sum(np.ones(len(lists.user)))
    cosines = 2 * lists.sum(lists.weight) / np.sqrt(np.maximum(length, 1)) - 1
    return 1 - (found.together - cosines - n) / (n * (n - 1))


def _xlogx(count: Any) -> Any:
    """The product c log c, 0 for 0."""
    return count * np.log(np.maximum(count, 1))
