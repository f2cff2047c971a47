"""Metrics of how often items are in the lists of all users: catalog coverage, concentration, and personalization.

Notation: c_i is the number of lists, cut at k, that contain item i, C is the sum of all c_i, and N is the size of the catalog.

Confidence intervals are resampled from the values without each of the lists (`left_out`). These formulas are exact for lists
without repeated items. Each is one pass over the items of the lists.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from spark_recmetrics.metrics.arrays import Floats, sum_by_user
from spark_recmetrics.metrics.item_counts import DistinctItems, ItemCounts
from spark_recmetrics.metrics.registry import PerChoice, register

_item_metric = partial(register, kind="item", needs=("recommended",), users="predicted", accuracy=False)


def coverage_left_out(counts: ItemCounts, lists: DistinctItems, *, measure: str) -> Floats:
    """(U,) coverage without each list: the items that are in no other list are not covered."""
    n_left = counts.n_covered - lists.sum(lists.in_catalog & (lists.count == lists.times))
    if measure == "count":
        return n_left
    return n_left / counts.n_items if counts.n_items else np.full(lists.n_users, math.nan)


@_item_metric(
    "item_coverage",
    options={"measure": "coverage"},
    aliases=("catalog_coverage", "coverage"),
    upper=None,
    grows_with_k=True,
    needs=PerChoice("measure", {"fraction": ("recommended", "catalog"), "count": ("recommended",)}),
    left_out=coverage_left_out,
)
def item_coverage(counts: ItemCounts, *, measure: str) -> float:
    """Items of the catalog that are in at least one list: their share, or their number.

    Options:
        measure: `fraction` divides by N, `count` does not. Items that are missing from a catalog table do not count.

    Returns:
        A share in [0, 1], or a number. Undefined without a list.

    Source:
        Ge et al., Beyond accuracy: evaluating recommender systems by coverage and serendipity, RecSys 2010.

    Example:
        >>> item_coverage(ItemCounts.of([["x", "y"], ["w", "z"], []], catalog="wxy"), measure="fraction")
        1.0
    """
    if measure == "count":
        return float(counts.n_covered)
    return counts.n_covered / counts.n_items if counts.n_items else math.nan


def gini_left_out(counts: ItemCounts, lists: DistinctItems, *, population: str, scale: str) -> Floats:
    """(U,) the Gini index without each list.

    Its numerator is the sum of |c_i - c_j| over all pairs of items. If the count c of an item drops by m, it comes closer to
    items with a smaller count and moves away from the others. Two items of the list with equal counts stay equal.
    """
    catalog_only = population == "catalog"
    histogram = counts.histogram(catalog_only=catalog_only)
    level, n_at_level = (np.array(list(part), dtype=np.float64) for part in (histogram.keys(), histogram.values()))
    kept = lists.in_catalog if catalog_only else np.ones(len(lists.user), dtype=bool)
    user, times, count = lists.user[kept], lists.times[kept].astype(np.float64), lists.count[kept].astype(np.float64)
    n, total = n_at_level.sum(), (level * n_at_level).sum()
    n_below, sum_below = (np.concatenate([[0.0], np.cumsum(part)]) for part in (n_at_level, level * n_at_level))

    def distances(at: Floats) -> Floats:
        """The sum over all items of the distance of their counts from these counts."""
        position = np.searchsorted(level, at)
        distance: Floats = at * (2 * n_below[position] - n) + total - 2 * sum_below[position]
        return distance

    sum_by_list = partial(sum_by_user, size=lists.n_users)
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
    if not catalog_only:
        # Items that are in no other list are not recommended anymore; the distance of each from all others was its count.
        gone = sum_by_list(user, count == times)
        spread, size = spread - gone * total_left, size - gone
    divisor = (size - 1 if scale == "n_minus_1" else size) * total_left
    value: Floats = np.divide(spread, divisor, out=np.full(lists.n_users, np.nan), where=divisor > 0)
    return value


@_item_metric(
    "gini",
    options={"population": "gini_population", "scale": "gini_scale"},
    aliases=("gini_index",),
    higher_is_better=False,
    needs=PerChoice("population", {"catalog": ("recommended", "catalog"), "recommended": ("recommended",)}),
    left_out=gini_left_out,
)
def gini(counts: ItemCounts, *, population: str, scale: str) -> float:
    """How unequally items are recommended: sum of (2 j - n - 1) c_j / (s C), over n items in ascending order of c_j.

    0 if all items are in equally many lists, close to 1 if all lists contain only one and the same item.

    Options:
        population: The n items: all items of the `catalog`, or only the `recommended` ones.
        scale: The divisor s: `n`, or `n_minus_1`, so that a single item for every user scores 1.

    Returns:
        A value in [0, 1]. Undefined without a list, and for a single item with `n_minus_1`.

    Source:
        Fleder and Hosanagar, Blockbuster culture's next rise or fall, Management Science 55(5), 2009.

    Example:
        >>> counts = ItemCounts.of([["a"], ["a"], ["a", "b"]], catalog="abcd")
        >>> gini(counts, population="catalog", scale="n"), gini(counts, population="recommended", scale="n")
        (0.625, 0.25)
    """
    histogram = counts.histogram(catalog_only=population == "catalog")
    n, n_below, weighted = sum(histogram.values()), 0, 0
    total = sum(count * n_items for count, n_items in histogram.items())
    for count, n_items in histogram.items():
        # These items have the positions j from n_below + 1 to n_below + n_items.
        weighted += n_items * (2 * n_below + n_items - n) * count
        n_below += n_items
    size = n - 1 if scale == "n_minus_1" else n
    return weighted / (size * total) if size and total else math.nan


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


def _xlogx(count: Any) -> Any:
    """The product c log c, 0 for c = 0."""
    return count * np.log(np.maximum(count, 1))


@_item_metric(
    "entropy",
    options={"base": "entropy_base", "scale": "entropy_scale"},
    aliases=("shannon_entropy", "distributional_coverage"),
    upper=None,
    left_out=entropy_left_out,
)
def entropy(counts: ItemCounts, *, base: float, scale: str) -> float:
    """How evenly recommendations are spread over items: -sum of p_i log p_i, with p_i = c_i / C.

    Options:
        base: Base of the logarithm, above 1.
        scale: `distinct` divides by the number of items that are in at least one list.

    Returns:
        A value of 0 or more. Undefined without a list.

    Source:
        Shannon, A mathematical theory of communication, Bell System Technical Journal 27, 1948.

    Example:
        >>> entropy(ItemCounts.of([["a", "b"], ["c", "d"], []]), base=2, scale="none")
        2.0
    """
    histogram = counts.histogram()
    total = sum(count * n_items for count, n_items in histogram.items())
    if not total:
        return math.nan
    parts = (n_items * (count / total) * math.log(total / count, base) for count, n_items in histogram.items())
    return math.fsum(parts) / (sum(histogram.values()) if scale == "distinct" else 1)


def diversity_left_out(counts: ItemCounts, lists: DistinctItems) -> Floats:
    """(U,) inter-list diversity without each list: without the cosines of its pairs, and without its cosine with itself."""
    n = counts.n_lists - 1
    if n < 2:
        return np.full(lists.n_users, np.nan)
    length = lists.sum(np.ones(len(lists.user)))
    cosines = 2 * lists.sum(lists.weight) / np.sqrt(np.maximum(length, 1)) - 1
    return 1 - (counts.overlap - cosines - n) / (n * (n - 1))


@_item_metric(
    "inter_list_diversity", aliases=("personalization", "personalisation", "inter_list_distance"), left_out=diversity_left_out
)
def inter_list_diversity(counts: ItemCounts) -> float:
    """How different the lists of two users are: 1 - mean cosine of their indicator vectors, over all pairs of users.

    Returns:
        A value in [0, 1]: 0 if all lists are equal, 1 if no two lists share an item. Undefined for fewer than two lists.

    Source:
        Zhou et al., Solving the apparent diversity-accuracy dilemma of recommender systems, PNAS 107(10), 2010; with cosine:
        Jurity 2.1.0, its metric InterListDiversity.

    Example:
        Two of three pairs share no item, and one pair shares one item of two:

        >>> round(inter_list_diversity(ItemCounts.of([["a", "b"], ["b", "c"], ["x", "y"]])), 12)
        0.833333333333
    """
    n = counts.n_lists
    # The cosine of a list with itself is 1.
    return min(max(1 - (counts.overlap - n) / (n * (n - 1)), 0.0), 1.0) if n > 1 else math.nan
