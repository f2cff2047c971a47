"""Add up what groups of users and items have in the lists of a batch, for all models, cut-offs and user sets at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from spark_recmetrics.columns import GROUP_ARRAYS
from spark_recmetrics.conventions import MEMBERS, Convention
from spark_recmetrics.metrics.batch import Floats, Ints, RankedBatch, ratio, sum_by_user
from spark_recmetrics.metrics.groups import (
    Grouping,
    GroupSize,
    GroupSum,
    GroupSums,
    Measured,
    Sums,
    columns_by_side,
    measured_of,
)
from spark_recmetrics.metrics.ranking import gain_of
from spark_recmetrics.metrics.recommended import recommended
from spark_recmetrics.metrics.registry import Metric, score

Rows = tuple[Ints, Ints | None, Floats | None]
"""User, item and value of each row: without items a row is a user, and without values a row counts 1."""


def rows_of(batch: RankedBatch, one: Measured, convention: Convention) -> Rows:
    """The rows of a measure, of all users.

    `shown`, `hits` and `relevant` are recommendations, hits and relevant items; of recommendations, there is the `gain`, and
    the `score` where they are hits, which of hits alone is `hit_score`; and of users, `ndcg` and the `mean_score` of their
    list. A missing score is 0.
    """
    if one.measure == "relevant":
        return batch.ideal_user, batch.ideal_item, None
    if one.measure in ("ndcg", "mean_score"):
        values = _mean_scores(batch, one.k) if one.measure == "mean_score" else score(one.detail, batch, convention)
        if one.measure == "ndcg" and convention.undefined == "zero":
            values = np.nan_to_num(values, nan=0.0)
        known = np.flatnonzero(~np.isnan(values))
        return known, None, values[known]
    user, item, rating, rank, scores = recommended(batch).upto(one.k, "item", "rating", "rank", "score")
    hit = ~np.isnan(rating)
    if one.measure == "shown":
        return user, item, None
    if one.measure == "hits":
        return user[hit], item[hit], None
    if one.measure == "hit_score":
        return user[hit], item[hit], np.nan_to_num(scores[hit], nan=0.0)
    if one.measure == "score":
        return user, item, np.where(hit, np.nan_to_num(scores, nan=0.0), 0.0)
    if one.measure != "gain":
        raise ValueError(f"there is no measure {one.measure!r}")
    gain, discount = one.detail
    gains = np.zeros(len(user))
    gains[hit] = gain_of(rating[hit], gain) / (1.0 if discount == "none" else np.log2(rank[hit] + 1.0))
    return user, item, gains


def _mean_scores(batch: RankedBatch, k: int | None) -> Floats:
    """(U,) the mean score of the list, NaN without one."""
    if batch.listed is None:
        raise ValueError("the batch lacks its scores: declare needs=('listed', 'scores')")
    top, n = batch.listed.within(k), batch.list_length(k)
    return ratio(sum_by_user(top.user, np.nan_to_num(top.score, nan=0.0), batch.size), n, defined=n > 0)


def all_measured(
    metrics: Iterable[Metric], convention: Convention, columns: Mapping[Metric, Mapping[str, str]]
) -> tuple[Measured, ...]:
    """What has to be added up for metrics of groups, each once.

    Args:
        metrics: All metrics.
        convention: Their definitions.
        columns: By metric and option, the column with groups.
    """
    of_groups = (metric for metric in metrics if metric.definition.kind == "group")
    every = (one for metric in of_groups for one in measured_of(metric, convention, columns[metric]).values())
    return tuple(dict.fromkeys(every))


def groupings_of(measured: Iterable[Measured]) -> list[Grouping]:
    """How items are grouped, each once."""
    return list(dict.fromkeys(one.items for one in measured if one.items is not None))


def user_columns(measured: Iterable[Measured]) -> list[str]:
    """The columns that users are grouped by, each once."""
    return list(dict.fromkeys(one.by for one in measured if one.by is not None))


def measure_groups(
    batch: RankedBatch,
    counters: Mapping[str, Any],
    n_models: int,
    ids: Any,
    measured: Sequence[Measured],
    convention: Convention,
    of_users: Mapping[str, tuple[Ints, Any]],
) -> dict[str, Any]:
    """Arrays of one length, an entry for each thing measured, model, group of users and item; and one for all items together.

    Args:
        batch: Users of each model, one model behind the other.
        counters: (U,) counters, by name.
        n_models: The number of models.
        ids: The items by their number.
        measured: What is to be added up.
        convention: Definitions of metrics that are.
        of_users: By column, the group of each user of a model, -1 for none, and the names of the groups.

    Returns:
        By the names of `columns.GROUP_ARRAYS`. In entries for all items together the model is -1 - model.
    """
    n_users = batch.size // max(n_models, 1)
    everybody = np.zeros(n_users, dtype=np.int64), np.array([None], dtype=object)
    found: list[tuple[Any, ...]] = []
    for place, one in enumerate(measured):
        user, item, values = rows_of(batch, one, convention)
        group, names = everybody if one.by is None else of_users[one.by]
        kept = group[user % max(n_users, 1)] >= 0
        for counter in MEMBERS[one.users]:
            kept &= (np.asarray(counters[counter]) > 0)[user]
        user, values = user[kept], None if values is None else values[kept]
        # The group of a model that a user belongs to.
        own = user // max(n_users, 1) * len(names) + group[user % max(n_users, 1)]
        size = n_models * len(names)
        once = own[np.unique(user, return_index=True)[1]]
        n, total = np.bincount(once, minlength=size), np.bincount(own, weights=values, minlength=size)
        some = np.flatnonzero(n)
        found.append(_entries(place, -1 - some // len(names), names[some % len(names)], ids[some * 0], n[some], total[some]))
        if item is not None and one.items is not None:
            pairs, row = np.unique(own * len(ids) + item[kept], return_inverse=True)
            n, total = np.bincount(row), np.bincount(row, weights=values)
            own = pairs // len(ids)
            found.append(_entries(place, own // len(names), names[own % len(names)], ids[pairs % len(ids)], n, total))
    return dict(zip(GROUP_ARRAYS, map(np.concatenate, zip(*found, strict=True)), strict=True))


def _entries(place: int, model: Ints, users: Any, items: Any, n: Ints, total: Any) -> tuple[Any, ...]:
    return np.full(len(model), place), model, users, items, n, np.asarray(total, dtype=np.float64)


@dataclass(frozen=True)
class GroupFacts:
    """What is known of groups beside lists.

    Args:
        sizes: By column, the groups of items.
        n_items: The number of items in the table of groups.
        n_users: Users with a training row; 0 where nobody needs to know.
        trained: By columns of users and items, the pairs of user and item among the training rows.
    """

    sizes: Mapping[str, Mapping[str, GroupSize]] = field(default_factory=dict)
    n_items: int = 0
    n_users: int = 0
    trained: Mapping[tuple[str, str], Sums] = field(default_factory=dict)


def sums_of(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[int, int], Sums]:
    """By model and place among what is measured, the sums of groups.

    Args:
        rows: `model, place, users, group, n, total, n_items, means`, the group None for all items together.
    """
    found: dict[tuple[int, int], dict[tuple[str | None, str | None], GroupSum]] = {}
    for row in rows:
        own = found.setdefault((row["model"], row["place"]), {})
        own[row["users"], row["group"]] = GroupSum(row["n"], row["total"], row["n_items"], row["means"])
    return dict(found)


class PairValue(NamedTuple):
    """The value of a group of users and one of items.

    Args:
        columns: Of the groups of users, and of items.
        groups: The groups.
        value: The value.
        n_users: The number of users of the group.
    """

    columns: tuple[str, str]
    groups: tuple[str, str]
    value: float
    n_users: int


class GroupValue(NamedTuple):
    """The value of a metric of groups.

    Args:
        value: None where it is undefined.
        n_users: The number of users.
        pairs: The values of pairs of groups.
    """

    value: float | None
    n_users: int
    pairs: tuple[PairValue, ...] = ()


def group_values(
    metrics: Iterable[Metric],
    convention: Convention,
    columns: Mapping[Metric, Mapping[str, str]],
    sums: Mapping[tuple[int, int], Sums],
    facts: GroupFacts,
    model: int,
) -> dict[Metric, GroupValue]:
    """The values of the metrics of groups of one model."""
    found: dict[Metric, GroupValue] = {}
    measured = all_measured(metrics, convention, columns)
    for metric in metrics:
        if metric.definition.kind != "group":
            continue
        own, sides = measured_of(metric, convention, columns[metric]), columns_by_side(metric, columns[metric])
        known: dict[str, Sums] = {name: sums.get((model, measured.index(one)), {}) for name, one in own.items()}
        n_users = max(sum(one.n for (_, g), one in of_one.items() if g is None) for of_one in known.values())
        both = sides.get("user", ""), sides.get("item", "")
        known["trained"] = facts.trained.get(both, {})
        seen = GroupSums(known, facts.sizes.get(both[1], {}), facts.n_items, facts.n_users)
        value = metric.definition.compute(seen, **metric.options(convention))
        pairs: tuple[PairValue, ...] = ()
        if metric.definition.by_pair:
            values, value = value
            n_users = sum({u: n for (u, _), (_, n) in values.items()}.values())
            pairs = tuple(PairValue(both, groups, *one) for groups, one in values.items())
        found[metric] = GroupValue(None if np.isnan(value) else float(value), n_users, pairs)
    return found
