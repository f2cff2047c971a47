"""Metrics of how often items are in the lists of all users: catalog coverage, concentration, and personalization.

Notation: c_i is the number of lists, cut at k, that contain item i, C is the sum of all c_i, and N is the number of items of
the catalog.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from spark_recmetrics.metrics.item_counts import ItemCounts
from spark_recmetrics.metrics.jackknife import coverage_left_out, diversity_left_out, entropy_left_out, gini_left_out
from spark_recmetrics.metrics.registry import Need, register


def _coverage_needs(options: Mapping[str, Any]) -> tuple[Need, ...]:
    return ("recommended", "catalog") if options["measure"] == "fraction" else ("recommended",)


@register(
    "item_coverage",
    kind="item",
    options={"measure": "coverage"},
    aliases=("catalog_coverage", "coverage"),
    upper=None,
    grows_with_k=True,
    needs=_coverage_needs,
    users="predicted",
    accuracy=False,
    left_out=coverage_left_out,
)
def item_coverage(counts: ItemCounts, *, measure: str) -> float:
    """Items of the catalog that are in at least one list: their share, or their number.

    Args:
        counts: How often items are in the lists.
        measure: `fraction` divides by N, `count` does not. Items that are missing from a catalog table do not count.

    Returns:
        A share in [0, 1], or a number. Undefined without a list.

    Source:
        Ge, Delgado-Battenfeld and Jannach, Beyond accuracy: evaluating recommender systems by coverage and serendipity, RecSys
        2010.

    Example:
        >>> item_coverage(ItemCounts.of([["x", "y"], ["w", "z"], []], catalog="wxy"), measure="fraction")
        1.0
    """
    if measure == "count":
        return float(counts.n_covered)
    return counts.n_covered / counts.n_items if counts.n_items else math.nan


def _gini_needs(options: Mapping[str, Any]) -> tuple[Need, ...]:
    return ("recommended", "catalog") if options["population"] == "catalog" else ("recommended",)


@register(
    "gini",
    kind="item",
    options={"population": "gini_population", "scale": "gini_scale"},
    aliases=("gini_index",),
    higher_is_better=False,
    needs=_gini_needs,
    users="predicted",
    accuracy=False,
    left_out=gini_left_out,
)
def gini(counts: ItemCounts, *, population: str, scale: str) -> float:
    """How unequally items are recommended: sum of (2 j - n - 1) c_j / (s C), over n items in ascending order of c_j.

    0 if all items are in equally many lists, close to 1 if all lists contain only one and the same item.

    Args:
        counts: How often items are in the lists.
        population: The n items: all items of the `catalog`, or only the `recommended` ones.
        scale: The divisor s: `n`, or `n_minus_1`, so that a single item for every user scores 1.

    Returns:
        A value in [0, 1]. Undefined without a list, and for a single item with `n_minus_1`.

    Source:
        Fleder and Hosanagar, Blockbuster culture's next rise or fall, Management Science 55(5), 2009.

    Example:
        Of four items one is in three lists and one is in one list:

        >>> counts = ItemCounts.of([["a"], ["a"], ["a", "b"]], catalog="abcd")
        >>> gini(counts, population="catalog", scale="n"), gini(counts, population="recommended", scale="n")
        (0.625, 0.25)
    """
    histogram = counts.histogram(of_catalog=population == "catalog")
    n, n_below, weighted = sum(histogram.values()), 0, 0
    total = sum(count * n_items for count, n_items in histogram.items())
    for count, n_items in histogram.items():
        # These items have the positions j from n_below + 1 to n_below + n_items.
        weighted += n_items * (2 * n_below + n_items - n) * count
        n_below += n_items
    size = n - 1 if scale == "n_minus_1" else n
    return weighted / (size * total) if size and total else math.nan


@register(
    "entropy",
    kind="item",
    options={"base": "entropy_base", "scale": "entropy_scale"},
    aliases=("shannon_entropy", "distributional_coverage"),
    upper=None,
    needs=("recommended",),
    users="predicted",
    accuracy=False,
    left_out=entropy_left_out,
)
def entropy(counts: ItemCounts, *, base: float, scale: str) -> float:
    """How evenly recommendations are spread over items: -sum of p_i log p_i, with p_i = c_i / C.

    Args:
        counts: How often items are in the lists.
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


@register(
    "inter_list_diversity",
    kind="item",
    aliases=("personalization", "personalisation", "inter_list_distance"),
    needs=("recommended",),
    users="predicted",
    accuracy=False,
    left_out=diversity_left_out,
)
def inter_list_diversity(counts: ItemCounts) -> float:
    """How different the lists of two users are: 1 - mean cosine of their indicator vectors, over all pairs of users.

    Args:
        counts: How often items are in the lists.

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
