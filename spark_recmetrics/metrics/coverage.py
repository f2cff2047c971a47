"""Metrics of how often items stand in the lists of all users: coverage of the catalogue, concentration, and personalisation.

Notation: c_i is how often item i stands in the lists cut at k, C their sum, and N the number of items of the catalogue.
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
def item_coverage(found: ItemCounts, *, measure: str) -> float:
    """Items of the catalogue that stand in some list: their share, or their number.

    Args:
        found: How often items stand in the lists.
        measure: `fraction` of the N items, or their `count`. Items that a table of the catalogue lacks do not count.

    Returns:
        A share in [0, 1], or a number. Undefined without a list.

    Source:
        Ge, Delgado-Battenfeld and Jannach, Beyond accuracy: evaluating recommender systems by coverage and serendipity, RecSys
        2010.

    Example:
        >>> item_coverage(ItemCounts.of([["x", "y"], ["w", "z"], []], catalog="wxy"), measure="fraction")
        1.0
    """
    n = sum(n for count, n in found.histogram(of_catalog=True).items() if count)
    if measure == "count":
        return float(n)
    return n / found.n_items if found.n_items else math.nan


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
def gini(found: ItemCounts, *, population: str, scale: str) -> float:
    """How unequally items are recommended: sum of (2 j - n - 1) c_j / (s C), over n items by ascending c_j.

    0 if all stand there equally often, near 1 if one item stands in all lists.

    Args:
        found: How often items stand in the lists.
        population: The n items are those of the `catalog`, also those in no list, or the `recommended` ones.
        scale: s is `n`, or `n_minus_1`, with which one item for everybody is 1.

    Returns:
        A value in [0, 1]. Undefined without a list, and of one item for `n_minus_1`.

    Source:
        Fleder and Hosanagar, Blockbuster culture's next rise or fall, Management Science 55(5), 2009.

    Example:
        Three and one of four items:

        >>> counts = ItemCounts.of([["a"], ["a"], ["a", "b"]], catalog="abcd")
        >>> gini(counts, population="catalog", scale="n"), gini(counts, population="recommended", scale="n")
        (0.625, 0.25)
    """
    histogram = found.histogram(of_catalog=population == "catalog")
    n, below, weighted = sum(histogram.values()), 0, 0
    total = sum(count * many for count, many in histogram.items())
    for count, many in histogram.items():
        # The places of these items are below + 1 to below + many.
        weighted += many * (2 * below + many - n) * count
        below += many
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
def entropy(found: ItemCounts, *, base: float, scale: str) -> float:
    """How evenly recommendations are spread over items: -sum of p_i log p_i, with p_i = c_i / C.

    Args:
        found: How often items stand in the lists.
        base: Of the logarithm, above 1.
        scale: `distinct` divides by the number of items that stand in some list.

    Returns:
        A value of 0 or more. Undefined without a list.

    Source:
        Shannon, A mathematical theory of communication, Bell System Technical Journal 27, 1948.

    Example:
        >>> entropy(ItemCounts.of([["a", "b"], ["c", "d"], []]), base=2, scale="none")
        2.0
    """
    histogram = found.histogram()
    total = sum(count * many for count, many in histogram.items())
    if not total:
        return math.nan
    parts = (many * (count / total) * math.log(total / count, base) for count, many in histogram.items())
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
def inter_list_diversity(found: ItemCounts) -> float:
    """How different the lists of two users are: 1 - mean cosine of their indicator vectors, over all pairs of users.

    Args:
        found: How often items stand in the lists.

    Returns:
        A value in [0, 1]: 0 if all lists are the same, 1 if no two lists share an item. Undefined below two lists.

    Source:
        Zhou et al., Solving the apparent diversity-accuracy dilemma of recommender systems, PNAS 107(10), 2010; with cosine:
        Jurity 2.1.0, its metric InterListDiversity.

    Example:
        Two of three pairs have nothing in common, and one has one item of two:

        >>> round(inter_list_diversity(ItemCounts.of([["a", "b"], ["b", "c"], ["x", "y"]])), 12)
        0.833333333333
    """
    n = found.n_lists
    # A list has the cosine 1 with itself.
    return min(max(1 - (found.together - n) / (n * (n - 1)), 0.0), 1.0) if n > 1 else math.nan
