"""Metrics of groups of items, and of users: are items recommended, and users served, as well in one group as in another?

Notation: g is a group of items, and u one of users. An item may belong to several groups, and one without a value to none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from spark_recmetrics.metrics.group_sums import GroupSum, GroupSums
from spark_recmetrics.metrics.registry import Need, Parameter, register

_NOTHING = GroupSum(0, 0.0)
_ITEM_GROUPS = Parameter("", column="item")


def _pool_needs(options: Mapping[str, Any]) -> tuple[Need, ...]:
    more: tuple[Need, ...] = ("trained_groups",) if options["pool"] == "unseen" else ()
    return ("recommended", "item_groups", *more)


def _pool_measures(options: Mapping[str, Any]) -> tuple[str, ...]:
    return ("shown", "trained") if options["pool"] == "unseen" else ("shown",)


@register(
    "rsp",
    kind="group",
    options={"groups": _ITEM_GROUPS, "pool": Parameter("unseen", ("unseen", "all"))},
    aliases=("ranking_statistical_parity", "statistical_parity"),
    higher_is_better=False,
    upper=None,
    needs=_pool_needs,
    users="predicted",
    accuracy=False,
    measures=_pool_measures,
)
def statistical_parity(found: GroupSums, *, groups: str, pool: str) -> float:
    """How unequally items of different groups are recommended: std / mean of the rates of the groups.

    The rate of a group is its recommendations over its pool. 0 if all groups have the same rate; sqrt(G - 1) if only one of G
    groups is recommended.

    Args:
        found: What groups have.
        groups: The column of `item_groups`.
        pool: `unseen`: the items of the group times the users with a training row, without the pairs of these users and items
            that are training rows. `all`: the items of the group.

    Returns:
        A value of 0 or more. Undefined below two groups with a pool, and if none is recommended.

    Source:
        Zhu, Wang and Caverlee, Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR
        2020.

    Example:
        Three users get 4 of 2 items and 2 of 4 items: rates 2 and 1/2, which are 3/4 away from their mean of 5/4.

        >>> sums = {"shown": {(None, "old"): GroupSum(4, 4), (None, "new"): GroupSum(2, 2)}}
        >>> found = GroupSums(sums, {"old": 2, "new": 4})
        >>> statistical_parity(found, groups="age", pool="all")
        0.6
    """
    del groups
    pools = dict(sorted(found.sizes.items()))
    if pool == "unseen":
        trained, n_users = found.of_items("trained"), found.sums["trained"].get((None, None), _NOTHING).n
        pools = {g: n * n_users - trained.get(g, _NOTHING).n for g, n in pools.items()}
    shown = found.of_items("shown")
    return _unevenness([shown.get(g, _NOTHING).n / n for g, n in pools.items() if n > 0])


@register(
    "reo",
    kind="group",
    options={"groups": _ITEM_GROUPS},
    aliases=("ranking_equal_opportunity", "equal_opportunity"),
    higher_is_better=False,
    upper=None,
    needs=("recommended", "item_groups"),
    accuracy=False,
    measures=("hits", "relevant"),
)
def equal_opportunity(found: GroupSums, *, groups: str) -> float:
    """How unequally relevant items of different groups are found: std / mean of the rates of the groups.

    The rate of a group is its hits over its relevant items: its recall, over all users together.

    Args:
        found: What groups have.
        groups: The column of `item_groups`.

    Returns:
        A value of 0 or more. Undefined below two groups with a relevant item, and if none has a hit.

    Source:
        Zhu, Wang and Caverlee, Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR
        2020.

    Example:
        Three users find 2 of 2 relevant items of the one group, and 1 of 3 of the other: rates 1 and 1/3.

        >>> hits = {(None, "old"): GroupSum(2, 2), (None, "new"): GroupSum(1, 1)}
        >>> relevant = {(None, "old"): GroupSum(2, 2), (None, "new"): GroupSum(3, 3)}
        >>> round(equal_opportunity(GroupSums({"hits": hits, "relevant": relevant}), groups="age"), 12)
        0.5
    """
    del groups
    hits = found.of_items("hits")
    return _unevenness([hits.get(g, _NOTHING).n / one.n for g, one in found.of_items("relevant").items()])


@register(
    "pop_reo",
    kind="group",
    options={"share": Parameter(0.8, below=1.0)},
    aliases=("popularity_equal_opportunity", "pop_based_reo"),
    higher_is_better=False,
    needs=("recommended", "popularity"),
    accuracy=False,
    measures=("hits", "relevant"),
)
def popularity_opportunity(found: GroupSums, *, share: float) -> float:
    """How unequally relevant items of the short head and of the long tail are found: std / mean of the two rates.

    The rate of a group is its hits over its relevant items. Of two rates a and b, std / mean is |a - b| / (a + b).

    Args:
        found: What groups have.
        share: Of the training rows, which the short head holds, as for `aplt`; all other items are long tail.

    Returns:
        A value in [0, 1]. Undefined without a relevant item in one of the two groups, and if none has a hit.

    Source:
        Zhu, Wang and Caverlee, Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR
        2020; for groups by popularity: WarpRec 1.4.6.

    Example:
        Three users find 3 of 4 relevant items of the head, and 1 of 4 of the tail:

        >>> hits = {(None, "head"): GroupSum(3, 3), (None, "tail"): GroupSum(1, 1)}
        >>> relevant = {(None, "head"): GroupSum(4, 4), (None, "tail"): GroupSum(4, 4)}
        >>> popularity_opportunity(GroupSums({"hits": hits, "relevant": relevant}), share=0.8)
        0.5
    """
    del share
    value: float = equal_opportunity(found, groups="")
    return value


@register(
    "item_mad_ranking",
    kind="group",
    options={"groups": _ITEM_GROUPS, "gain": "gain", "discount": Parameter("none", ("none", "log2_plus1"))},
    aliases=("itemmadranking",),
    higher_is_better=False,
    upper=None,
    needs=("recommended", "item_groups"),
    users="predicted",
    accuracy=False,
    measures=("gain",),
)
def item_mad_ranking(found: GroupSums, *, groups: str, gain: str, discount: str) -> float:
    """How far groups of items are apart in gain: mean absolute difference of the means of two groups, over all pairs.

    The value of an item is its mean gain over the recommendations of it, a miss being 0. The mean of a group is over its items
    that are recommended at all.

    Args:
        found: What groups have.
        groups: The column of `item_groups`.
        gain: Of a relevant item with rating r, as for `ndcg`.
        discount: `none`, or `log2_plus1`, which divides the gain by log2(i + 1) at rank i.

    Returns:
        A value of 0 or more. Undefined below two groups with a recommended item.

    Source:
        Deldjoo, Anelli, Zamani, Bellogin and Di Noia, A flexible framework for evaluating user and item fairness in recommender
        systems, User Modeling and User-Adapted Interaction 31, 2021.

    Example:
        Three groups of one, two and one items, whose mean gains add up to 1, 1 and 0:

        >>> gains = {(None, "a"): GroupSum(3, 3, 1, 1), (None, "b"): GroupSum(4, 2, 2, 1), (None, "c"): GroupSum(1, 0, 1, 0)}
        >>> round(item_mad_ranking(GroupSums({"gain": gains}), groups="genre", gain="binary", discount="none"), 12)
        0.666666666667
    """
    del groups, gain, discount
    return _mean_difference(one.means / one.n_items for one in found.of_items("gain").values())


def _score_measure(options: Mapping[str, Any]) -> tuple[str, ...]:
    return ("hit_score",) if options["over"] == "hits" else ("score",)


@register(
    "item_mad_rating",
    kind="group",
    options={"groups": _ITEM_GROUPS, "over": Parameter("hits", ("hits", "recommended"))},
    aliases=("itemmadrating",),
    higher_is_better=False,
    upper=None,
    needs=("recommended", "scores", "list_scores", "item_groups"),
    users="predicted",
    accuracy=False,
    measures=_score_measure,
)
def item_mad_rating(found: GroupSums, *, groups: str, over: str) -> float:
    """How far groups of items are apart in predicted rating: mean absolute difference of the means of two groups.

    The value of an item is the mean predicted rating over those of its recommendations that are relevant. The mean of a group
    is over its items that have a value, and that of the differences over all pairs of groups.

    Args:
        found: What groups have.
        groups: The column of `item_groups`.
        over: `hits`, or `recommended`: the mean is over all recommendations of the item, and one that is not relevant counts 0.

    Returns:
        A value of 0 or more. Undefined below two groups with an item that has a value.

    Source:
        Zhu, Hu and Caverlee, Fairness-aware tensor-based recommendation, CIKM 2018.

    Example:
        >>> scores = {(None, "a"): GroupSum(3, 12, 1, 4), (None, "b"): GroupSum(4, 8, 2, 5), (None, "c"): GroupSum(1, 3, 1, 3)}
        >>> item_mad_rating(GroupSums({"hit_score": scores}), groups="genre", over="hits")
        1.0
    """
    del groups
    (measure,) = _score_measure({"over": over})
    return _mean_difference(one.means / one.n_items for one in found.of_items(measure).values())


_USER_GROUPS = Parameter("", column="user")


@register(
    "user_mad_ranking",
    kind="group",
    options={"groups": _USER_GROUPS, "gain": "gain", "idcg": "idcg", "discount": "discount"},
    aliases=("usermadranking",),
    higher_is_better=False,
    needs=("user_groups",),
    accuracy=False,
    measures=("ndcg",),
)
def user_mad_ranking(found: GroupSums, *, groups: str, gain: str, idcg: str, discount: str) -> float:
    """How far groups of users are apart in nDCG: mean absolute difference of the means of two groups, over all pairs.

    Args:
        found: What groups have.
        groups: The column of `user_segments`.
        gain: As for `ndcg`.
        idcg: As for `ndcg`.
        discount: As for `ndcg`.

    Returns:
        A value in [0, 1]. Undefined below two groups with a user who has a value.

    Source:
        Deldjoo, Anelli, Zamani, Bellogin and Di Noia, A flexible framework for evaluating user and item fairness in recommender
        systems, User Modeling and User-Adapted Interaction 31, 2021.

    Example:
        Three users: two of the one group with nDCG 1 and 1/2, and one of the other with 1/4.

        >>> sums = {"ndcg": {("F", None): GroupSum(2, 3 / 2), ("M", None): GroupSum(1, 1 / 4)}}
        >>> user_mad_ranking(GroupSums(sums), groups="gender", gain="binary", idcg="at_k", discount="log2_plus1")
        0.5
    """
    del groups, gain, idcg, discount
    return _mean_difference(one.total / one.n for one in found.of_users("ndcg").values())


@register(
    "user_mad_rating",
    kind="group",
    options={"groups": _USER_GROUPS},
    aliases=("usermadrating",),
    higher_is_better=False,
    upper=None,
    needs=("scores", "list_scores", "user_groups"),
    users="predicted",
    accuracy=False,
    measures=("mean_score",),
)
def user_mad_rating(found: GroupSums, *, groups: str) -> float:
    """How far groups of users are apart in predicted rating: mean absolute difference of the means of two groups.

    The value of a user is the mean predicted rating of the list, and that of a group the mean over its users. The mean of the
    differences is over all pairs of groups.

    Args:
        found: What groups have.
        groups: The column of `user_segments`.

    Returns:
        A value of 0 or more. Undefined below two groups with a user who has a list.

    Source:
        Zhu, Hu and Caverlee, Fairness-aware tensor-based recommendation, CIKM 2018.

    Example:
        Three users: two of the one group with lists of 4 and 3 on average, and one of the other with 2.

        >>> sums = {"mean_score": {("F", None): GroupSum(2, 7), ("M", None): GroupSum(1, 2)}}
        >>> user_mad_rating(GroupSums(sums), groups="gender")
        1.5
    """
    del groups
    return _mean_difference(one.total / one.n for one in found.of_users("mean_score").values())


def _unevenness(rates: Collection[float]) -> float:
    """Std / mean of rates, NaN below two and where all are 0."""
    if len(rates) < 2 or not sum(rates):
        return math.nan
    return float(np.std(list(rates)) / np.mean(list(rates)))


def _mean_difference(values: Iterable[float]) -> float:
    """The mean absolute difference of all pairs, NaN below two values."""
    known = np.sort(list(values))
    n = len(known)
    if n < 2:
        return math.nan
    # In order, value j is the larger one of j pairs and the smaller one of n - 1 - j.
    return float(np.sum((2 * np.arange(n) - (n - 1)) * known) / (n * (n - 1) / 2))
