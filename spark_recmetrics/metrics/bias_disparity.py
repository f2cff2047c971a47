"""Bias disparity: whether a group of users prefers a group of items, and whether its lists prefer it more.

Notation: u is a group of users, and g a group of items. The preference of u for g is the share of g among the items of u,
divided by the share of g among all items. It is 1 if items are drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from spark_recmetrics.metrics.group_sums import GroupSum, GroupSums
from spark_recmetrics.metrics.registry import Need, Parameter, register


class Disparities(NamedTuple):
    """The value of a metric of pairs of groups.

    Args:
        values: Value and number of users, by group of users and group of items.
        whole: One value for all pairs.
    """

    values: Mapping[tuple[str, str], tuple[float, int]]
    whole: float


_COLUMNS = {"users": Parameter("", column="user"), "items": Parameter("", column="item")}
_SOURCE = {"source": Parameter("train", ("train", "truth"))}


def _source(source: str) -> str:
    """The measure that counts the rows."""
    return "trained" if source == "train" else "relevant"


def _source_measures(options: Mapping[str, Any]) -> tuple[str, ...]:
    return (_source(options["source"]),)


def _both_measures(options: Mapping[str, Any]) -> tuple[str, ...]:
    return ("shown", _source(options["source"]))


def _needs(options: Mapping[str, Any]) -> tuple[Need, ...]:
    train: tuple[Need, ...] = ("trained_groups",) if options["source"] == "train" else ()
    return ("item_groups", "user_groups", *train)


def _both_needs(options: Mapping[str, Any]) -> tuple[Need, ...]:
    return ("recommended", *_needs(options))


@register(
    "bias_disparity_bs",
    kind="group",
    options={**_COLUMNS, **_SOURCE},
    aliases=("biasdisparitybs",),
    higher_is_better=False,
    upper=None,
    has_cut_off=False,
    needs=_needs,
    accuracy=False,
    measures=_source_measures,
)
def source_bias(sums: GroupSums, *, users: str, items: str, source: str) -> Disparities:
    """How much groups of users prefer groups of items: BS = share of g in the rows of u / share of g in all items.

    Args:
        sums: The sums by group.
        users: The column of `user_segments`.
        items: The column of `item_groups`.
        source: The rows: the distinct pairs of user and item in `train`, or the relevant items of `truth`.

    Returns:
        A value of 0 or more for each pair of groups, and the mean of |value - 1| over all pairs. Undefined for users without a
            row.

    Source:
        Tsintzou, Pitoura and Tsaparas, Bias disparity in recommendation systems, arXiv:1811.01461, 2018.

    Example:
        The three users of a group have 8 rows. 6 of them, and 2 of 4 items, are of genre war:

        >>> rows = {("M", None): GroupSum(3, 8), ("M", "war"): GroupSum(6, 6)}
        >>> source_bias(GroupSums({"trained": rows}, {"war": 2}, 4), users="gender", items="genre", source="train")
        Disparities(values={('M', 'war'): (1.5, 3)}, whole=0.5)
    """
    del users, items
    return _distance_from_1(_preferences(sums, _source(source)))


@register(
    "bias_disparity_br",
    kind="group",
    options=_COLUMNS,
    aliases=("biasdisparitybr",),
    higher_is_better=False,
    upper=None,
    needs=("recommended", "item_groups", "user_groups"),
    users="predicted",
    accuracy=False,
    measures=("shown",),
)
def list_bias(sums: GroupSums, *, users: str, items: str) -> Disparities:
    """How much lists of groups of users prefer groups of items: BR = share of g in the lists of u / share of g in all items.

    Args:
        sums: The sums by group.
        users: The column of `user_segments`.
        items: The column of `item_groups`.

    Returns:
        A value of 0 or more for each pair of groups, and the mean of |value - 1| over all pairs. Undefined for users without a
            list.

    Source:
        Tsintzou, Pitoura and Tsaparas, Bias disparity in recommendation systems, arXiv:1811.01461, 2018.

    Example:
        The three users of a group get 10 items. All of them, and 2 of 4 items, are of genre war:

        >>> lists = {("M", None): GroupSum(3, 10), ("M", "war"): GroupSum(10, 10)}
        >>> list_bias(GroupSums({"shown": lists}, {"war": 2}, 4), users="gender", items="genre")
        Disparities(values={('M', 'war'): (2.0, 3)}, whole=1.0)
    """
    del users, items
    return _distance_from_1(_preferences(sums, "shown"))


@register(
    "bias_disparity_bd",
    kind="group",
    options={**_COLUMNS, **_SOURCE},
    aliases=("bias_disparity", "biasdisparitybd"),
    higher_is_better=False,
    upper=None,
    needs=_both_needs,
    users="predicted",
    accuracy=False,
    measures=_both_measures,
)
def bias_disparity(sums: GroupSums, *, users: str, items: str, source: str) -> Disparities:
    """How much more the lists of groups of users prefer groups of items than the users do: (BR - BS) / BS.

    Args:
        sums: The sums by group.
        users: The column of `user_segments`.
        items: The column of `item_groups`.
        source: The rows of BS, as for `bias_disparity_bs`.

    Returns:
        A value of -1 or more for each pair of groups, and the mean of |value| over all pairs: 0 if the lists have the
        preferences
            of the users. Undefined if BS is undefined or 0.

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
    del users, items
    before = _preferences(sums, _source(source))
    after = _preferences(sums, "shown")
    values = {
        pair: ((value - before[pair][0]) / before[pair][0], n_users)
        for pair, (value, n_users) in after.items()
        if pair in before and before[pair][0] > 0
    }
    return Disparities(values, _mean(abs(value) for value, _ in values.values()))


def _preferences(sums: GroupSums, measure: str) -> dict[tuple[str, str], tuple[float, int]]:
    by_group, nothing = sums.sums[measure], GroupSum(0, 0.0)
    return {
        (u, g): (by_group.get((u, g), nothing).total / of_user.total / (size / sums.n_items), of_user.n)
        for u, of_user in sums.of_users(measure).items()
        for g, size in sorted(sums.sizes.items())
    }


def _distance_from_1(values: Mapping[tuple[str, str], tuple[float, int]]) -> Disparities:
    return Disparities(values, _mean(abs(value - 1) for value, _ in values.values()))


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
