"""Group metrics: whether groups of items are recommended equally, and groups of users served equally well.

Notation: g is a group of items, and u a group of users. An item may belong to several groups, or to none. The preference of u
for g is the share of g among the items of u, divided by the share of g among all items. It is 1 if items are drawn at random.

Options `groups`, `users` and `items` name the column with the groups: groups of users are in `user_segments`, of items in
`item_groups`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from spark_recmetrics.metrics.group_sums import GroupSum, GroupSums
from spark_recmetrics.metrics.registry import Parameter, PerChoice, register

_group_metric = partial(register, kind="group", higher_is_better=False, upper=None, accuracy=False)
_NOTHING = GroupSum(0, 0.0)
_ITEM_GROUPS, _USER_GROUPS = Parameter("", column="item"), Parameter("", column="user")


@_group_metric(
    "rsp",
    options={"groups": _ITEM_GROUPS, "pool": Parameter("unseen", ("unseen", "all"))},
    aliases=("ranking_statistical_parity", "statistical_parity"),
    needs=PerChoice("pool", {"unseen": ("recommended", "trained_groups"), "all": ("recommended",)}),
    users="predicted",
    measures=PerChoice("pool", {"unseen": ("shown", "trained"), "all": ("shown",)}),
)
def statistical_parity(sums: GroupSums, *, groups: str, pool: str) -> float:
    """How unequally groups of items are recommended: std / mean of the rates of the groups.

    The rate of a group is the number of its recommendations / the size of its pool. The value is 0 if all rates are equal, and
    sqrt(G - 1) if only one of G groups is recommended.

    Options:
        pool: `unseen`: the pairs of a user with a training row and an item of the group, without the pairs that are training
            rows. `all`: the items of the group.

    Returns:
        A value of 0 or more. Undefined for fewer than two groups with a pool, and if no group is recommended.

    Source:
        Zhu et al., Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR 2020.

    Example:
        4 recommendations of 2 old items and 2 of 4 new items: rates 2 and 1/2, each 3/4 away from their mean of 5/4.

        >>> sums = {"shown": {(None, "old"): GroupSum(4, 4), (None, "new"): GroupSum(2, 2)}}
        >>> statistical_parity(GroupSums(sums, {"old": 2, "new": 4}), groups="age", pool="all")
        0.6
    """
    pools = dict(sorted(sums.sizes.items()))
    if pool == "unseen":
        trained, n_users = sums.of_items("trained"), sums.sums["trained"].get((None, None), _NOTHING).n
        pools = {g: n * n_users - trained.get(g, _NOTHING).n for g, n in pools.items()}
    shown = sums.of_items("shown")
    return _unevenness([shown.get(g, _NOTHING).n / n for g, n in pools.items() if n > 0])


@_group_metric(
    "reo",
    options={"groups": _ITEM_GROUPS},
    aliases=("ranking_equal_opportunity", "equal_opportunity"),
    needs=("recommended",),
    measures=("hits", "relevant"),
)
def equal_opportunity(sums: GroupSums, *, groups: str) -> float:
    """How unequally relevant items of different groups are recommended: std / mean of the rates of the groups.

    The rate of a group is its recall: the number of its hits / the number of its relevant items, over all users.

    Returns:
        A value of 0 or more. Undefined for fewer than two groups with a relevant item, and if no group has a hit.

    Source:
        Zhu et al., Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR 2020.

    Example:
        2 hits for 2 relevant old items, and 1 hit for 3 relevant new items: rates 1 and 1/3.

        >>> hits = {(None, "old"): GroupSum(2, 2), (None, "new"): GroupSum(1, 1)}
        >>> relevant = {(None, "old"): GroupSum(2, 2), (None, "new"): GroupSum(3, 3)}
        >>> round(equal_opportunity(GroupSums({"hits": hits, "relevant": relevant}), groups="age"), 12)
        0.5
    """
    hits = sums.of_items("hits")
    return _unevenness([hits.get(g, _NOTHING).n / relevant.n for g, relevant in sums.of_items("relevant").items()])


@_group_metric(
    "pop_reo",
    options={"share": Parameter(0.8, below=1.0)},
    aliases=("popularity_equal_opportunity", "pop_based_reo"),
    upper=1.0,
    needs=("recommended", "popularity"),
    measures=("hits", "relevant"),
)
def popularity_opportunity(sums: GroupSums, *, share: float) -> float:
    """How unequally relevant items of the short head and of the long tail are recommended: std / mean of the two rates.

    The rates are those of `reo`. For two rates a and b, std / mean is |a - b| / (a + b).

    Options:
        share: The share of the training rows in the short head, as for `aplt`. All other items are in the long tail.

    Returns:
        A value in [0, 1]. Undefined without a relevant item in one of the two groups, and if none has a hit.

    Source:
        Zhu et al., Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR 2020; for
        groups by popularity: WarpRec 1.4.6.

    Example:
        >>> hits = {(None, "head"): GroupSum(3, 3), (None, "tail"): GroupSum(1, 1)}
        >>> relevant = {(None, "head"): GroupSum(4, 4), (None, "tail"): GroupSum(4, 4)}
        >>> popularity_opportunity(GroupSums({"hits": hits, "relevant": relevant}), share=0.8)
        0.5
    """
    return float(equal_opportunity(sums, groups=""))


@_group_metric(
    "item_mad_ranking",
    options={"groups": _ITEM_GROUPS, "gain": "gain", "discount": Parameter("none", ("none", "log2_plus1"))},
    aliases=("itemmadranking",),
    needs=("recommended",),
    users="predicted",
    measures=("gain",),
)
def item_mad_ranking(sums: GroupSums, *, groups: str, gain: str, discount: str) -> float:
    """Difference in gain between groups of items: mean absolute difference of the group means, over all pairs of groups.

    The value of an item is its mean gain over its recommendations, 0 for a miss. A group's mean is over its recommended items.

    Options:
        gain: Gain of a relevant item with rating r, as for `dcg`.
        discount: `none`, or `log2_plus1`, which divides the gain by log2(i + 1) at rank i.

    Returns:
        A value of 0 or more. Undefined for fewer than two groups with a recommended item.

    Source:
        Deldjoo et al., A flexible framework for evaluating user and item fairness in recommender systems, UMUAI 31, 2021.

    Example:
        Three groups of one, two and one items, with sums of mean gains of 1, 1 and 0:

        >>> gains = {(None, "a"): GroupSum(3, 3, 1, 1), (None, "b"): GroupSum(4, 2, 2, 1), (None, "c"): GroupSum(1, 0, 1, 0)}
        >>> round(item_mad_ranking(GroupSums({"gain": gains}), groups="genre", gain="binary", discount="none"), 12)
        0.666666666667
    """
    return _mean_difference(group.means / group.n_items for group in sums.of_items("gain").values())


@_group_metric(
    "item_mad_rating",
    options={"groups": _ITEM_GROUPS, "over": Parameter("hits", ("hits", "recommended"))},
    aliases=("itemmadrating",),
    needs=("recommended", "scores", "list_scores"),
    users="predicted",
    measures=PerChoice("over", {"hits": ("hit_score",), "recommended": ("score",)}),
)
def item_mad_rating(sums: GroupSums, *, groups: str, over: str) -> float:
    """Difference in predicted rating between groups of items: mean absolute difference of the group means, over all pairs.

    The value of an item is its mean predicted rating over its hits. The mean of a group is over its items with a value.

    Options:
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
    scores = sums.of_items("hit_score" if over == "hits" else "score")
    return _mean_difference(group.means / group.n_items for group in scores.values())


@_group_metric(
    "user_mad_ranking",
    options={"groups": _USER_GROUPS, "gain": "gain", "idcg": "idcg", "discount": "discount"},
    aliases=("usermadranking",),
    upper=1.0,
    measures=("ndcg",),
)
def user_mad_ranking(sums: GroupSums, *, groups: str, gain: str, idcg: str, discount: str) -> float:
    """Difference in nDCG between groups of users: mean absolute difference of the group means, over all pairs of groups.

    Options:
        gain, idcg, discount: As for `ndcg`.

    Returns:
        A value in [0, 1]. Undefined for fewer than two groups with a user who has a value.

    Source:
        Deldjoo et al., A flexible framework for evaluating user and item fairness in recommender systems, UMUAI 31, 2021.

    Example:
        Three users: two of the first group with nDCG 1 and 1/2, and one of the second with 1/4.

        >>> sums = {"ndcg": {("F", None): GroupSum(2, 3 / 2), ("M", None): GroupSum(1, 1 / 4)}}
        >>> user_mad_ranking(GroupSums(sums), groups="gender", gain="binary", idcg="at_k", discount="log2_plus1")
        0.5
    """
    return _mean_difference(group.total / group.n for group in sums.of_users("ndcg").values())


@_group_metric(
    "user_mad_rating",
    options={"groups": _USER_GROUPS},
    aliases=("usermadrating",),
    needs=("scores", "list_scores"),
    users="predicted",
    measures=("mean_score",),
)
def user_mad_rating(sums: GroupSums, *, groups: str) -> float:
    """Difference in predicted rating between groups of users: mean absolute difference of the group means, over all pairs.

    The value of a user is the mean predicted rating of the list, and the value of a group is the mean over its users.

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
    return _mean_difference(group.total / group.n for group in sums.of_users("mean_score").values())


class Disparities(NamedTuple):
    """The value and the number of users by group of users and group of items, and one value for all pairs."""

    values: Mapping[tuple[str, str], tuple[float, int]]
    whole: float


_PAIR_OPTIONS = {"users": _USER_GROUPS, "items": _ITEM_GROUPS}
_SOURCE = {"source": Parameter("train", ("train", "truth"))}
_MEASURE_OF_SOURCE = {"train": ("trained",), "truth": ("relevant",)}


@_group_metric(
    "bias_disparity_bs",
    options=_PAIR_OPTIONS | _SOURCE,
    aliases=("biasdisparitybs",),
    has_cut_off=False,
    needs=PerChoice("source", {"train": ("trained_groups",), "truth": ()}),
    measures=PerChoice("source", _MEASURE_OF_SOURCE),
)
def source_bias(sums: GroupSums, *, users: str, items: str, source: str) -> Disparities:
    """How much groups of users prefer groups of items: BS = share of g in the rows of u / share of g in all items.

    Options:
        source: The rows: the distinct pairs of user and item in `train`, or the relevant items of `truth`.

    Returns:
        A value of 0 or more by pair of groups, and the mean of |value - 1| over all pairs. Undefined for users without a row.

    Source:
        Tsintzou, Pitoura and Tsaparas, Bias disparity in recommendation systems, arXiv:1811.01461, 2018.

    Example:
        The three users of a group have 8 rows. 6 of them, and 2 of 4 items, are of genre war:

        >>> rows = {("M", None): GroupSum(3, 8), ("M", "war"): GroupSum(6, 6)}
        >>> source_bias(GroupSums({"trained": rows}, {"war": 2}, 4), users="gender", items="genre", source="train")
        Disparities(values={('M', 'war'): (1.5, 3)}, whole=0.5)
    """
    return _distance_from_1(_preferences(sums, *_MEASURE_OF_SOURCE[source]))


@_group_metric(
    "bias_disparity_br",
    options=_PAIR_OPTIONS,
    aliases=("biasdisparitybr",),
    needs=("recommended",),
    users="predicted",
    measures=("shown",),
)
def list_bias(sums: GroupSums, *, users: str, items: str) -> Disparities:
    """How much lists of groups of users prefer groups of items: BR = share of g in the lists of u / share of g in all items.

    Returns:
        A value of 0 or more by pair of groups, and the mean of |value - 1| over all pairs. Undefined for users without a list.

    Source:
        Tsintzou, Pitoura and Tsaparas, Bias disparity in recommendation systems, arXiv:1811.01461, 2018.

    Example:
        The three users of a group get 10 items. All of them, and 2 of 4 items, are of genre war:

        >>> lists = {("M", None): GroupSum(3, 10), ("M", "war"): GroupSum(10, 10)}
        >>> list_bias(GroupSums({"shown": lists}, {"war": 2}, 4), users="gender", items="genre")
        Disparities(values={('M', 'war'): (2.0, 3)}, whole=1.0)
    """
    return _distance_from_1(_preferences(sums, "shown"))


@_group_metric(
    "bias_disparity_bd",
    options=_PAIR_OPTIONS | _SOURCE,
    aliases=("bias_disparity", "biasdisparitybd"),
    needs=PerChoice("source", {"train": ("recommended", "trained_groups"), "truth": ("recommended",)}),
    users="predicted",
    measures=PerChoice("source", {source: ("shown", *measure) for source, measure in _MEASURE_OF_SOURCE.items()}),
)
def bias_disparity(sums: GroupSums, *, users: str, items: str, source: str) -> Disparities:
    """How much more the lists of groups of users prefer groups of items than the users do: (BR - BS) / BS.

    Options:
        source: The rows of BS, as for `bias_disparity_bs`.

    Returns:
        A value of -1 or more for each pair of groups, and the mean of |value| over all pairs: 0 if the lists have the
            preferences of the users. Undefined if BS is undefined or 0.

    Source:
        Tsintzou, Pitoura and Tsaparas, Bias disparity in recommendation systems, arXiv:1811.01461, 2018.

    Example:
        The three users of a group have 8 rows, 6 of genre war, and get 10 items, all of genre war:

        >>> rows = {("M", None): GroupSum(3, 8), ("M", "war"): GroupSum(6, 6)}
        >>> lists = {("M", None): GroupSum(3, 10), ("M", "war"): GroupSum(10, 10)}
        >>> sums = GroupSums({"trained": rows, "shown": lists}, {"war": 2}, 4)
        >>> round(bias_disparity(sums, users="gender", items="genre", source="train").whole, 12)
        0.333333333333
    """
    before, after = _preferences(sums, *_MEASURE_OF_SOURCE[source]), _preferences(sums, "shown")
    values = {
        pair: ((value - before[pair][0]) / before[pair][0], n_users)
        for pair, (value, n_users) in after.items()
        if pair in before and before[pair][0] > 0
    }
    return Disparities(values, _mean(abs(value) for value, _ in values.values()))


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


def _preferences(sums: GroupSums, measure: str) -> dict[tuple[str, str], tuple[float, int]]:
    """The preference of u for g by pair of groups, and the number of users of u."""
    return {
        (u, g): (sums.sums[measure].get((u, g), _NOTHING).total / group.total / (size / sums.n_items), group.n)
        for u, group in sums.of_users(measure).items()
        for g, size in sorted(sums.sizes.items())
    }


def _distance_from_1(values: Mapping[tuple[str, str], tuple[float, int]]) -> Disparities:
    return Disparities(values, _mean(abs(value - 1) for value, _ in values.values()))


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
