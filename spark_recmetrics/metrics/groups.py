"""Group metrics: whether groups of items are recommended equally, and groups of users served equally well.

Notation: g is a group of items, and u a group of users. An item may belong to several groups, or to none.
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
    train: tuple[Need, ...] = ("trained_groups",) if options["pool"] == "unseen" else ()
    return ("recommended", "item_groups", *train)


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
def statistical_parity(sums: GroupSums, *, groups: str, pool: str) -> float:
    """How unequally groups of items are recommended: std / mean of the rates of the groups.

    The rate of a group is the number of its recommendations divided by the size of its pool. The value is 0 if all groups have
    the same rate, and sqrt(G - 1) if only one of G groups is recommended.

    Args:
        sums: The sums by group.
        groups: The column of `item_groups`.
        pool: `unseen`: the pairs of a user with a training row and an item of the group, without the pairs that are training
            rows. `all`: the items of the group.

    Returns:
        A value of 0 or more. Undefined for fewer than two groups with a pool, and if no group is recommended.

    Source:
        Zhu, Wang and Caverlee, Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR
        2020.

    Example:
        4 recommendations of 2 old items and 2 of 4 new items: rates 2 and 1/2, each 3/4 away from their mean of 5/4.

        >>> sums = {"shown": {(None, "old"): GroupSum(4, 4), (None, "new"): GroupSum(2, 2)}}
        >>> sums = GroupSums(sums, {"old": 2, "new": 4})
        >>> statistical_parity(sums, groups="age", pool="all")
        0.6
    """
    del groups
    pools = dict(sorted(sums.sizes.items()))
    if pool == "unseen":
        trained, n_users = sums.of_items("trained"), sums.sums["trained"].get((None, None), _NOTHING).n
        pools = {g: n * n_users - trained.get(g, _NOTHING).n for g, n in pools.items()}
    shown = sums.of_items("shown")
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
def equal_opportunity(sums: GroupSums, *, groups: str) -> float:
    """How unequally relevant items of different groups are recommended: std / mean of the rates of the groups.

    The rate of a group is the number of its hits divided by the number of its relevant items, summed over all users: its
    recall.

    Args:
        sums: The sums by group.
        groups: The column of `item_groups`.

    Returns:
        A value of 0 or more. Undefined for fewer than two groups with a relevant item, and if no group has a hit.

    Source:
        Zhu, Wang and Caverlee, Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR
        2020.

    Example:
        2 hits for 2 relevant old items, and 1 hit for 3 relevant new items: rates 1 and 1/3.

        >>> hits = {(None, "old"): GroupSum(2, 2), (None, "new"): GroupSum(1, 1)}
        >>> relevant = {(None, "old"): GroupSum(2, 2), (None, "new"): GroupSum(3, 3)}
        >>> round(equal_opportunity(GroupSums({"hits": hits, "relevant": relevant}), groups="age"), 12)
        0.5
    """
    del groups
    hits = sums.of_items("hits")
    return _unevenness([hits.get(g, _NOTHING).n / relevant.n for g, relevant in sums.of_items("relevant").items()])


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
def popularity_opportunity(sums: GroupSums, *, share: float) -> float:
    """How unequally relevant items of the short head and of the long tail are recommended: std / mean of the two rates.

    The rate of a group is the number of its hits divided by the number of its relevant items. For two rates a and b, std / mean
    is |a - b| / (a + b).

    Args:
        sums: The sums by group.
        share: The share of the training rows in the short head, as for `aplt`. All other items are in the long tail.

    Returns:
        A value in [0, 1]. Undefined without a relevant item in one of the two groups, and if none has a hit.

    Source:
        Zhu, Wang and Caverlee, Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR
        2020; for groups by popularity: WarpRec 1.4.6.

    Example:
        3 hits for 4 relevant items of the head, and 1 hit for 4 relevant items of the tail:

        >>> hits = {(None, "head"): GroupSum(3, 3), (None, "tail"): GroupSum(1, 1)}
        >>> relevant = {(None, "head"): GroupSum(4, 4), (None, "tail"): GroupSum(4, 4)}
        >>> popularity_opportunity(GroupSums({"hits": hits, "relevant": relevant}), share=0.8)
        0.5
    """
    del share
    value: float = equal_opportunity(sums, groups="")
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
def item_mad_ranking(sums: GroupSums, *, groups: str, gain: str, discount: str) -> float:
    """Difference in gain between groups of items: mean absolute difference of the group means, over all pairs of groups.

    The value of an item is its mean gain over its recommendations; a miss has gain 0. The mean of a group is over its
    recommended items.

    Args:
        sums: The sums by group.
        groups: The column of `item_groups`.
        gain: Gain of a relevant item with rating r, as for `dcg`.
        discount: `none`, or `log2_plus1`, which divides the gain by log2(i + 1) at rank i.

    Returns:
        A value of 0 or more. Undefined for fewer than two groups with a recommended item.

    Source:
        Deldjoo, Anelli, Zamani, Bellogin and Di Noia, A flexible framework for evaluating user and item fairness in recommender
        systems, User Modeling and User-Adapted Interaction 31, 2021.

    Example:
        Three groups of one, two and one items, with sums of mean gains of 1, 1 and 0:

        >>> gains = {(None, "a"): GroupSum(3, 3, 1, 1), (None, "b"): GroupSum(4, 2, 2, 1), (None, "c"): GroupSum(1, 0, 1, 0)}
        >>> round(item_mad_ranking(GroupSums({"gain": gains}), groups="genre", gain="binary", discount="none"), 12)
        0.666666666667
    """
    del groups, gain, discount
    return _mean_difference(of_group.means / of_group.n_items for of_group in sums.of_items("gain").values())


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
def item_mad_rating(sums: GroupSums, *, groups: str, over: str) -> float:
    """Difference in predicted rating between groups of items: mean absolute difference of the group means, over all pairs.

    The value of an item is its mean predicted rating over its hits. The mean of a group is over its items with a value.

    Args:
        sums: The sums by group.
        groups: The column of `item_groups`.
        over: `hits`, or `recommended`: the mean is over all recommendations of the item, and a miss counts 0.

    Returns:
        A value of 0 or more. Undefined for fewer than two groups with an item that has a value.

    Source:
        Zhu, Hu and Caverlee, Fairness-aware tensor-based recommendation, CIKM 2018.

    Example:
        >>> scores = {(None, "a"): GroupSum(3, 12, 1, 4), (None, "b"): GroupSum(4, 8, 2, 5), (None, "c"): GroupSum(1, 3, 1, 3)}
        >>> item_mad_rating(GroupSums({"hit_score": scores}), groups="genre", over="hits")
        1.0
    """
    del groups
    (measure,) = _score_measure({"over": over})
    return _mean_difference(of_group.means / of_group.n_items for of_group in sums.of_items(measure).values())


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
def user_mad_ranking(sums: GroupSums, *, groups: str, gain: str, idcg: str, discount: str) -> float:
    """Difference in nDCG between groups of users: mean absolute difference of the group means, over all pairs of groups.

    Args:
        sums: The sums by group.
        groups: The column of `user_segments`.
        gain: As for `ndcg`.
        idcg: As for `ndcg`.
        discount: As for `ndcg`.

    Returns:
        A value in [0, 1]. Undefined for fewer than two groups with a user who has a value.

    Source:
        Deldjoo, Anelli, Zamani, Bellogin and Di Noia, A flexible framework for evaluating user and item fairness in recommender
        systems, User Modeling and User-Adapted Interaction 31, 2021.

    Example:
        Three users: two of the first group with nDCG 1 and 1/2, and one of the second with 1/4.

        >>> sums = {"ndcg": {("F", None): GroupSum(2, 3 / 2), ("M", None): GroupSum(1, 1 / 4)}}
        >>> user_mad_ranking(GroupSums(sums), groups="gender", gain="binary", idcg="at_k", discount="log2_plus1")
        0.5
    """
    del groups, gain, idcg, discount
    return _mean_difference(of_group.total / of_group.n for of_group in sums.of_users("ndcg").values())


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
def user_mad_rating(sums: GroupSums, *, groups: str) -> float:
    """Difference in predicted rating between groups of users: mean absolute difference of the group means, over all pairs.

    The value of a user is the mean predicted rating of the list, and the value of a group is the mean over its users.

    Args:
        sums: The sums by group.
        groups: The column of `user_segments`.

    Returns:
        A value of 0 or more. Undefined for fewer than two groups with a user who has a list.

    Source:
        Zhu, Hu and Caverlee, Fairness-aware tensor-based recommendation, CIKM 2018.

    Example:
        Three users: two of the first group with mean scores 4 and 3, and one of the second with 2.

        >>> sums = {"mean_score": {("F", None): GroupSum(2, 7), ("M", None): GroupSum(1, 2)}}
        >>> user_mad_rating(GroupSums(sums), groups="gender")
        1.5
    """
    del groups
    return _mean_difference(of_group.total / of_group.n for of_group in sums.of_users("mean_score").values())


def _unevenness(rates: Collection[float]) -> float:
    """Std / mean of the rates. NaN for fewer than two rates, and if all are 0."""
    if len(rates) < 2 or not sum(rates):
        return math.nan
    return float(np.std(list(rates)) / np.mean(list(rates)))


def _mean_difference(values: Iterable[float]) -> float:
    """The mean absolute difference of all pairs of values. NaN for fewer than two values."""
    ordered = np.sort(list(values))
    n = len(ordered)
    if n < 2:
        return math.nan
    # Value j is the larger one in j pairs, and the smaller one in n - 1 - j pairs.
    return float(np.sum((2 * np.arange(n) - (n - 1)) * ordered) / (n * (n - 1) / 2))
