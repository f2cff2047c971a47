"""The part of the oracle that looks at what is recommended: slow, obvious, one user at a time.

A cell has `world`: what is known of items, and the lists of the baseline model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any


@dataclass(eq=False)
class World:
    """What is known beside predictions and truth."""

    train: Sequence[Mapping[str, Any]] = ()
    features: Mapping[Any, Sequence[float] | None] = field(default_factory=dict)
    categories: Mapping[Any, Collection[str]] = field(default_factory=dict)
    expected: Mapping[Any, Sequence[Any]] = field(default_factory=dict)
    """By user, the list of the baseline model."""
    groups: Mapping[Any, Collection[str]] = field(default_factory=dict)
    """By item of the table of groups, the groups that it belongs to."""
    segments: Mapping[Any, str] = field(default_factory=dict)
    """By user who belongs to one, the group."""

    @cached_property
    def rows_by_item(self) -> Counter[Any]:
        return Counter(row["item"] for row in self.train)

    @cached_property
    def users_by_item(self) -> Counter[Any]:
        return Counter(item for _, item in {(row["user"], row["item"]) for row in self.train})

    def rows(self, item: Any) -> int:
        return self.rows_by_item[item]

    def users(self, item: Any) -> int:
        return self.users_by_item[item]

    @cached_property
    def n_users(self) -> int:
        return len({row["user"] for row in self.train})

    @cached_property
    def levels(self) -> list[int]:
        """The different numbers of rows, largest first."""
        return sorted(set(self.rows_by_item.values()), reverse=True)

    @cache  # noqa: B019 - a handful of worlds
    def long_tail(self, share: float) -> set[Any]:
        """All trained items but the most popular ones; those of equal popularity are taken together."""
        items = set(self.rows_by_item)
        head: set[Any] = set()
        for level in self.levels:
            if sum(self.rows(item) for item in head) >= share * len(self.train):
                break
            head |= {item for item in items if self.rows(item) == level}
        return items - head

    @cached_property
    def all_categories(self) -> set[str]:
        return {name for own in self.categories.values() for name in own}


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def over(metric: Any, cell: Any, n: float) -> float | None:
    """A number of items of the list as a share of it, or of k places."""
    top = cell.items[: metric.k]
    if not top:
        return None
    by_k = metric.options.get("denominator", "recommended") == "k" and metric.k is not None
    return n / (metric.k if by_k else len(top))


def share_of(cell: Any, item: Any, of: str) -> float:
    own, everything = (
        (cell.world.users(item), cell.world.n_users) if of == "users" else (cell.world.rows(item), len(cell.world.train))
    )
    return max(own, 1) / everything


def novelty(metric: Any, cells: list[Any], convention: Any) -> float | None:
    """Of one user, or over the recommendations of many."""
    options = metric.options
    of, total, count = options.get("of", "users"), 0.0, 0
    for cell in cells:
        top = cell.items[: metric.k]
        for item in top:
            cold = cell.world.rows(item) == 0
            bits = 0.0 if cold and options.get("cold", "one") == "zero" else -math.log2(share_of(cell, item, of))
            if options.get("scale", "none") == "max":
                bits /= math.log2(cell.world.n_users if of == "users" else len(cell.world.train))
            total += bits
        if top:
            count += metric.k if options.get("denominator", "recommended") == "k" and metric.k else len(top)
    return total / count if count else None


def arp(metric: Any, cell: Any, convention: Any) -> float | None:
    least = 1 if metric.options.get("cold", "zero") == "one" else 0
    all_of = len(cell.world.train) if metric.options.get("scale", "none") == "share" else 1
    return mean([max(cell.world.rows(item), least) / all_of for item in cell.items[: metric.k]])


def n_long_tail(metric: Any, cell: Any) -> int:
    tail = cell.world.long_tail(metric.options.get("share", 0.8))
    return len([item for item in cell.items[: metric.k] if item in tail or cell.world.rows(item) == 0])


def aplt(metric: Any, cell: Any, convention: Any) -> float | None:
    return over(metric, cell, n_long_tail(metric, cell))


def aclt(metric: Any, cell: Any, convention: Any) -> float | None:
    return float(n_long_tail(metric, cell)) if cell.items[: metric.k] else None


def gain_of(rating: float, kind: str) -> float:
    return {"binary": 1.0, "linear": rating, "exponential": 2**rating - 1, "exponential_plus1": 2 ** (rating + 1) - 1}[kind]


def pop_rsp(metric: Any, cells: list[Any], convention: Any) -> float | None:
    """By the deviation and the mean of the two rates."""
    share = metric.options.get("share", 0.8)
    shown = [item for cell in cells for item in cell.items[: metric.k]]
    if not shown:
        return None
    world, catalog = cells[0].world, set(cells[0].catalog)
    head = set(world.rows_by_item) - world.long_tail(share)
    groups = [head, catalog - head]
    if not all(groups):
        return None
    rates = [len([item for item in shown if item in group]) / len(group) for group in groups]
    return math.sqrt(sum((rate - sum(rates) / 2) ** 2 for rate in rates) / 2) / (sum(rates) / 2)


def discounted(metric: Any, cell: Any, worth: Any) -> float | None:
    if not cell.relevant:
        return None
    top = cell.items[: metric.k]
    found = 0.0
    for rank, item in enumerate(top, 1):
        if item in cell.relevant:
            found += gain_of(cell.relevant[item], metric.options.get("gain", "binary")) * worth(item) / math.log2(rank + 1)
    places = len(top) if metric.k is None else metric.k
    return found / sum(1 / math.log2(rank + 1) for rank in range(1, places + 1)) if places else 0.0


def efd(metric: Any, cell: Any, convention: Any) -> float | None:
    of = metric.options.get("of", "rows")
    return discounted(metric, cell, lambda item: -math.log2(share_of(cell, item, of)))


def epc(metric: Any, cell: Any, convention: Any) -> float | None:
    of = metric.options.get("of", "users")
    return discounted(metric, cell, lambda item: 1 - share_of(cell, item, of))


def serendipity(metric: Any, cell: Any, convention: Any) -> float | None:
    n_items = len(cell.catalog)
    levels = cell.world.levels
    base = cell.world.expected.get(cell.user, ())[: metric.k]

    def chance(item: Any) -> float:
        if metric.options.get("against", "popularity") == "baseline":
            return (n_items + 1 - (base.index(item) + 1)) / n_items if item in base else 0.0
        return (n_items + 1 - (levels.index(cell.world.rows(item)) + 1)) / n_items if cell.world.rows(item) else 0.0

    top = list(enumerate(cell.items[: metric.k], 1))
    return mean(
        [max((n_items + 1 - rank) / n_items - chance(item), 0.0) if item in cell.relevant else 0.0 for rank, item in top]
    )


def ild(metric: Any, cell: Any, convention: Any) -> float | None:
    distance = metric.options.get("distance", "cosine")
    top = cell.items[: metric.k]
    known = [(cell.world.features if distance == "cosine" else cell.world.categories).get(item) for item in top]
    if len(top) < 2 or any(own is None or (distance != "cosine" and not own) for own in known):
        return None
    return mean([distance_of(distance, one, other) for place, one in enumerate(known) for other in known[:place]])


def distance_of(distance: str, one: Any, other: Any) -> float:
    if distance == "hamming":
        return float(len(set(one) ^ set(other)))
    if distance == "jaccard":
        return 1 - len(set(one) & set(other)) / len(set(one) | set(other))
    length = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in other))
    return 1 - sum(x * y for x, y in zip(one, other, strict=True)) / length if length else 1.0


def srecall(metric: Any, cell: Any, convention: Any) -> float | None:
    def of(items: Collection[Any]) -> set[str]:
        return {name for item in items for name in cell.world.categories.get(item, ())}

    top = cell.items[: metric.k]
    if metric.options.get("of", "catalog") == "catalog":
        return len(of(top)) / len(cell.world.all_categories) if cell.world.all_categories else None
    wanted = of(cell.relevant)
    return len(of([item for item in top if item in cell.relevant])) / len(wanted) if wanted else None


def unexpectedness(metric: Any, cell: Any, convention: Any) -> float | None:
    base = cell.world.expected.get(cell.user, ())[: metric.k]
    common = over(metric, cell, len([item for item in cell.items[: metric.k] if item in base]))
    return None if common is None else 1 - common


def unseen(metric: Any, cell: Any, convention: Any) -> float | None:
    common = over(metric, cell, len([item for item in cell.items[: metric.k] if item in cell.seen]))
    return None if common is None else 1 - common


def num_retrieved(metric: Any, cell: Any, convention: Any) -> float:
    return float(len(cell.items[: metric.k]))


def user_coverage(metric: Any, cells: list[Any], convention: Any) -> float | None:
    covered = [float(len(cell.items[: metric.k]) >= metric.options.get("n", 1)) for cell in cells]
    if metric.options.get("measure", convention.coverage) == "count" and len(cells) > 1:
        return sum(covered)
    return mean(covered)


def sufficient_reco(metric: Any, cell: Any, convention: Any) -> float | None:
    n = len(cell.items[: metric.k])
    k = n if metric.k is None else metric.k
    if metric.options.get("per", "list") == "list":
        return float(n >= k and n > 0)
    return n / k if k else 0.0


def unrepeated_reco(metric: Any, cell: Any, convention: Any) -> float | None:
    top = cell.items[: metric.k]
    if not top:
        return None
    different = len(set(top))
    return float(different == len(top)) if metric.options.get("per", "list") == "list" else different / len(top)


OF_LISTS = {
    "arp": arp,
    "aplt": aplt,
    "aclt": aclt,
    "efd": efd,
    "epc": epc,
    "serendipity": serendipity,
    "ild": ild,
    "srecall": srecall,
    "unexpectedness": unexpectedness,
    "unseen": unseen,
    "num_retrieved": num_retrieved,
    "sufficient_reco": sufficient_reco,
    "unrepeated_reco": unrepeated_reco,
}
POOLED_OF_LISTS = {"novelty": novelty, "user_coverage": user_coverage, "pop_rsp": pop_rsp}

PREDICTED = (
    "bias_disparity_br",
    "bias_disparity_bd",
    "rsp",
    "item_mad_ranking",
    "item_mad_rating",
    "user_mad_rating",
    "novelty",
    "arp",
    "aplt",
    "aclt",
    "pop_rsp",
    "serendipity",
    "ild",
    "unexpectedness",
    "unseen",
    "sufficient_reco",
    "unrepeated_reco",
)
"""Metrics that are over all users with a list, unless `users_by_metric` says otherwise."""

AVERAGED = {"novelty": ("average", "per_user"), "user_coverage": ("measure", "fraction")}
"""Pooled metrics whose summary is the mean of the users, where an option has this value."""


# Metrics of items, over all lists of a model ------------------------------------------------------------------------------


def item_coverage(metric: Any, lists: list[list[Any]], catalog: Collection[Any], convention: Any) -> float:
    shown = {item for items in lists for item in items}
    return len(shown) / (len(set(catalog)) if metric.options.get("measure", convention.coverage) == "fraction" else 1)


def gini(metric: Any, lists: list[list[Any]], catalog: Collection[Any], convention: Any) -> float | None:
    """Half the mean absolute difference of all pairs, over the mean."""
    shown = Counter(item for items in lists for item in items)
    population = metric.options.get("population", convention.gini_population)
    counts = [shown[item] for item in (set(catalog) if population == "catalog" else shown)]
    n = len(counts)
    size = n - 1 if metric.options.get("scale", convention.gini_scale) == "n_minus_1" else n
    apart = sum(abs(one - other) for one in counts for other in counts)
    return apart / (2 * size * sum(counts)) if size else None


def entropy(metric: Any, lists: list[list[Any]], catalog: Collection[Any], convention: Any) -> float:
    shown = Counter(item for items in lists for item in items)
    total, base = sum(shown.values()), metric.options.get("base", convention.entropy_base)
    found = -sum(count / total * math.log(count / total, base) for count in shown.values())
    return found / len(shown) if metric.options.get("scale", convention.entropy_scale) == "distinct" else found


def inter_list_diversity(metric: Any, lists: list[list[Any]], catalog: Collection[Any], convention: Any) -> float | None:
    sets = [set(items) for items in lists]
    cosines = [len(one & other) / math.sqrt(len(one) * len(other)) for place, one in enumerate(sets) for other in sets[:place]]
    return 1 - sum(cosines) / len(cosines) if cosines else None


OF_ITEMS = {"item_coverage": item_coverage, "gini": gini, "entropy": entropy, "inter_list_diversity": inter_list_diversity}


# Metrics of groups, over the users of a model: the value, and how many users there are --------------------------------------


def std_over_mean(rates: Sequence[float]) -> float | None:
    if len(rates) < 2 or sum(rates) == 0:
        return None
    middle = sum(rates) / len(rates)
    return math.sqrt(sum((rate - middle) ** 2 for rate in rates) / len(rates)) / middle


def members(world: World) -> dict[str, set[Any]]:
    names = {name for own in world.groups.values() for name in own}
    return {name: {item for item, own in world.groups.items() if name in own} for name in names}


def top_of(metric: Any, cell: Any) -> list[Any]:
    return cell.items[: metric.k]


def rsp(metric: Any, cells: list[Any], convention: Any, ndcg: Any) -> tuple[float | None, int]:
    if not cells:
        return None, 0
    world, rates = cells[0].world, []
    trained = {(row["user"], row["item"]) for row in world.train}
    for group in members(world).values():
        pool = len(group)
        if metric.options.get("pool", "unseen") == "unseen":
            pool = sum((user, item) not in trained for user in {user for user, _ in trained} for item in group)
        if pool > 0:
            rates.append(len([item for cell in cells for item in top_of(metric, cell) if item in group]) / pool)
    return std_over_mean(rates), len([cell for cell in cells if top_of(metric, cell)])


def recalls(metric: Any, cells: list[Any], groups: Collection[set[Any]]) -> tuple[float | None, int]:
    rates = []
    for group in groups:
        relevant = [(cell.user, item) for cell in cells for item in cell.relevant if item in group]
        hits = [item for cell in cells for item in top_of(metric, cell) if item in cell.relevant and item in group]
        if relevant:
            rates.append(len(hits) / len(relevant))
    return std_over_mean(rates), len([cell for cell in cells if cell.relevant])


def reo(metric: Any, cells: list[Any], convention: Any, ndcg: Any) -> tuple[float | None, int]:
    return recalls(metric, cells, members(cells[0].world).values()) if cells else (None, 0)


def pop_reo(metric: Any, cells: list[Any], convention: Any, ndcg: Any) -> tuple[float | None, int]:
    if not cells:
        return None, 0
    world = cells[0].world
    head = set(world.rows_by_item) - world.long_tail(metric.options.get("share", 0.8))
    return recalls(metric, cells, [head, {item for cell in cells for item in cell.relevant} - head])


def pairwise(means: Sequence[float]) -> float | None:
    return mean([abs(one - other) for place, one in enumerate(means) for other in means[:place]])


def item_mad(metric: Any, cells: list[Any], worth: Any) -> tuple[float | None, int]:
    """By the mean of what each item is worth over its recommendations that are worth anything that is not None."""
    known: dict[Any, list[float]] = {}
    users = 0
    for cell in cells:
        values = [(row["item"], worth(cell, rank, row)) for rank, row in enumerate(cell.rows[: metric.k], 1)]
        values = [(item, value) for item, value in values if value is not None]
        users += len(values) > 0
        for item, value in values:
            known.setdefault(item, []).append(value)
    groups = members(cells[0].world).values() if cells else ()
    of_group = [[sum(known[item]) / len(known[item]) for item in group if item in known] for group in groups]
    return pairwise([sum(own) / len(own) for own in of_group if own]), users


def item_mad_ranking(metric: Any, cells: list[Any], convention: Any, ndcg: Any) -> tuple[float | None, int]:
    kind = metric.options.get("gain", convention.gain)
    discounted = metric.options.get("discount", "none") == "log2_plus1"

    def worth(cell: Any, rank: int, row: Any) -> float:
        gain = gain_of(cell.relevant[row["item"]], kind) if row["item"] in cell.relevant else 0.0
        return gain / math.log2(rank + 1) if discounted else gain

    return item_mad(metric, cells, worth)


def score_of(row: Any) -> float:
    return 0.0 if row["score"] is None or math.isnan(row["score"]) else row["score"]


def item_mad_rating(metric: Any, cells: list[Any], convention: Any, ndcg: Any) -> tuple[float | None, int]:
    missed = None if metric.options.get("over", "hits") == "hits" else 0.0
    return item_mad(metric, cells, lambda cell, rank, row: score_of(row) if row["item"] in cell.relevant else missed)


def user_mad(cells: list[Any], value_of: Any) -> tuple[float | None, int]:
    known: dict[str, list[float]] = {}
    for cell in cells:
        value = value_of(cell)
        if cell.user in cell.world.segments and value is not None:
            known.setdefault(cell.world.segments[cell.user], []).append(value)
    return pairwise([sum(own) / len(own) for own in known.values()]), sum(map(len, known.values()))


def user_mad_ranking(metric: Any, cells: list[Any], convention: Any, ndcg: Any) -> tuple[float | None, int]:
    missing = 0.0 if convention.undefined == "zero" else None

    def value(cell: Any) -> float | None:
        found: float | None = ndcg(metric, cell, convention)
        return missing if found is None else found

    return user_mad(cells, value)


def user_mad_rating(metric: Any, cells: list[Any], convention: Any, ndcg: Any) -> tuple[float | None, int]:
    return user_mad(cells, lambda cell: mean([score_of(row) for row in cell.rows[: metric.k]]))


Pairs = dict[tuple[str, str], tuple[float, int]]


def preferences(rows: Collection[tuple[Any, Any]], world: World) -> Pairs:
    """By group of users and of items, the preference in rows of user and item, and the number of users with a row."""
    found: Pairs = {}
    for u in set(world.segments.values()):
        own = [(user, item) for user, item in rows if world.segments.get(user) == u]
        for g, group in members(world).items():
            if own:
                share = len([item for _, item in own if item in group]) / len(own)
                found[u, g] = share / (len(group) / len(world.groups)), len({user for user, _ in own})
    return found


def pairs_of(metric: Any, cells: list[Any]) -> Pairs:
    if not cells:
        return {}
    world = cells[0].world
    after = preferences([(cell.user, item) for cell in cells for item in top_of(metric, cell)], world)
    if metric.name == "bias_disparity_br":
        return after
    rows = list({(row["user"], row["item"]) for row in world.train})
    if metric.options.get("source", "train") == "truth":
        rows = [(cell.user, item) for cell in cells for item in cell.relevant]
    before = preferences(rows, world)
    if metric.name == "bias_disparity_bs":
        return before
    return {
        pair: (value / before[pair][0] - 1, n) for pair, (value, n) in after.items() if pair in before and before[pair][0] > 0
    }


def all_pairs(metric: Any, cells: list[Any], convention: Any, ndcg: Any) -> tuple[float | None, int]:
    """How far the pairs are from no bias."""
    middle = 0 if metric.name == "bias_disparity_bd" else 1
    pairs = pairs_of(metric, cells)
    return mean([abs(value - middle) for value, _ in pairs.values()]), sum({u: n for (u, _), (_, n) in pairs.items()}.values())


OF_GROUPS = {
    "bias_disparity_bs": all_pairs,
    "bias_disparity_br": all_pairs,
    "bias_disparity_bd": all_pairs,
    "rsp": rsp,
    "reo": reo,
    "pop_reo": pop_reo,
    "item_mad_ranking": item_mad_ranking,
    "item_mad_rating": item_mad_rating,
    "user_mad_ranking": user_mad_ranking,
    "user_mad_rating": user_mad_rating,
}
