"""Metrics of how often items stand in the lists of all users: coverage of the catalogue, concentration, and personalisation.

Notation: c_i is how often item i stands in the lists cut at k, C their sum, and N the number of items of the catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_recmetrics.metrics.left_out import coverage_left_out, diversity_left_out, entropy_left_out, gini_left_out
from spark_recmetrics.metrics.registry import Need, register


@dataclass(frozen=True)
class ItemCounts:
    """How often items stand in lists: a histogram, which is small however many items there are.

    Args:
        counts: (count, is in the catalogue) -> how many items stand there so often; without those that stand in no list.
        n_lists: How many users have a list.
        n_items: Size N of the catalogue, where it is known.
        together: Sum over items of the squared sum of 1 / sqrt(n) over the lists that hold the item, n the length of the list:
            with it the cosines of all pairs of lists are known.

    Example:
        >>> found = ItemCounts.of([["a", "b"], ["a", "c"], ["a"]], catalog="abd")
        >>> found.counts, found.n_lists, found.n_items
        ({(1, False): 1, (1, True): 1, (3, True): 1}, 3, 3)
    """

    counts: Mapping[tuple[int, bool], int]
    n_lists: int
    n_items: int | None = None
    together: float = 0.0

    @classmethod
    def of(cls, lists: Any, catalog: Any = None) -> ItemCounts:
        """The counts of plain lists, for examples and small data.

        Args:
            lists: Lists of items, cut at k.
            catalog: The items of the catalogue, or their number; None: not known.
        """
        holding: dict[Any, list[int]] = {}
        for items in lists:
            for item in items:
                holding.setdefault(item, []).append(len(items))
        counts: dict[tuple[int, bool], int] = {}
        for item, lengths in holding.items():
            key = (len(lengths), catalog is None or isinstance(catalog, int) or item in catalog)
            counts[key] = counts.get(key, 0) + 1
        together = math.fsum(math.fsum(1 / math.sqrt(n) for n in lengths) ** 2 for lengths in holding.values())
        n_items = catalog if catalog is None or isinstance(catalog, int) else len(set(catalog))
        return cls(dict(sorted(counts.items())), sum(len(items) > 0 for items in lists), n_items, together)

    def histogram(self, *, of_catalog: bool = False) -> dict[int, int]:
        """How many items stand there so often, ascending; of the catalogue alone, with those that stand in no list."""
        found: dict[int, int] = {}
        for (count, known), n in self.counts.items():
            if known or not of_catalog:
                found[count] = found.get(count, 0) + n
        if of_catalog and self.n_items is not None and self.n_items > sum(found.values()):
            found[0] = self.n_items - sum(found.values())
        return dict(sorted(found.items()))

    @property
    def n_beyond(self) -> int:
        """By how many the items of lists exceed the catalogue, of which only the number is known."""
        found = self.histogram(of_catalog=True)
        return 0 if self.n_items is None else max(sum(n for count, n in found.items() if count) - self.n_items, 0)


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


@register(
    "gini",
    kind="item",
    options={"population": "gini_population", "scale": "gini_scale"},
    aliases=("gini_index",),
    higher_is_better=False,
    needs=lambda options: ("recommended", "catalog") if options["population"] == "catalog" else ("recommended",),
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
