"""Group metrics: their sums over the lists of a batch, in one pass for all models, cut-offs and user sets, and their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from spark_recmetrics.columns import GROUP_ARRAYS, TABLE_OF, Side, near_column
from spark_recmetrics.conventions import MEMBERS, Convention
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics.arrays import Floats, Ints, ratio, sum_by_user
from spark_recmetrics.metrics.batch import RankedBatch, given, popularity, recommended
from spark_recmetrics.metrics.ranking import gain_of
from spark_recmetrics.metrics.recommended_items import ItemSummary, ItemTable
from spark_recmetrics.metrics.registry import Metric, score

BY_POPULARITY = ("head", "tail")
"""The groups of items by popularity: short head and long tail."""

PER_ITEM = frozenset({"gain", "score", "hit_score"})
"""The measures that are averaged per item first, so that their sums are kept per item."""


class Grouping(NamedTuple):
    """How items are grouped: by the values of a column, or into short head and long tail if there is no column."""

    column: str | None
    share: float = 0.0  # of the training rows, in the short head


class MeasureSpec(NamedTuple):
    """What is summed, and over which lists."""

    measure: str  # see `measured_rows`
    users: str  # the user set
    k: int | None  # the cut-off of the lists
    by: str | None = None  # the column by which users are grouped; None for all users
    items: Grouping | None = None  # None for all items
    detail: Any = None  # options of the measure

    @property
    def per_item(self) -> bool:
        """Whether the sums of each item are kept, and not only those of groups."""
        return self.measure in PER_ITEM and self.by is None and self.items is not None and self.items.column is not None


class GroupSum(NamedTuple):
    """A measure summed over the rows of a group of users and a group of items."""

    n: int  # rows; for all items together, users with a row
    total: float  # sum of the values of the rows; a row without a value counts 1
    n_items: int = 0  # items with a row, for measures that are kept per item
    means: float = 0.0  # sum over these items of their mean values


SumsByGroup = Mapping[tuple[str | None, str | None], GroupSum]
"""The sums by group of users and group of items, None for all of them together."""


@dataclass(frozen=True)
class GroupSums:
    """The input of a group metric for one model."""

    sums: Mapping[str, SumsByGroup]  # by measure
    sizes: Mapping[str, int] = field(default_factory=dict)  # items of each group of items
    n_items: int = 0  # items in the table of groups

    def of_items(self, measure: str) -> dict[str, GroupSum]:
        """The sums over all users by group of items, in order of the groups."""
        return {g: sums for (u, g), sums in sorted(self.sums[measure].items(), key=str) if u is None and g is not None}

    def of_users(self, measure: str) -> dict[str, GroupSum]:
        """The sums over all items by group of users, in order of the groups."""
        return {u: sums for (u, g), sums in sorted(self.sums[measure].items(), key=str) if u is not None and g is None}


def group_columns(metrics: Iterable[Metric], columns: Mapping[Side, Sequence[str] | None]) -> dict[Metric, dict[Side, str]]:
    """By group metric and side, the named or the only column with groups. `columns` has no ids, and is None without a table."""
    columns_of: dict[Metric, dict[Side, str]] = {}
    for metric in metrics:
        for option, side in metric.definition.side_options.items():
            table, available = TABLE_OF[side], columns.get(side) or ()
            named = str(dict(metric.params).get(option, ""))
            if named and named not in available:
                raise ConfigError(f"{metric}: no column {named!r} in {table}{near_column(named, available)}")
            if not named and len(available) != 1:
                names = f"{', '.join(available)}: write {metric.name}({option}={available[0]})" if available else "none"
                raise ConfigError(f"{metric}: expected one column with groups in {table}, found {names}")
            columns_of.setdefault(metric, {})[side] = named or available[0]
        if metric.definition.kind == "group":
            chosen = columns_of.setdefault(metric, {})
            if len({*chosen.values()}) < len(chosen):
                raise ConfigError(f"{metric}: expected columns of different names, found {chosen['user']} twice: rename one")
    return columns_of


def specs_by_measure(metric: Metric, convention: Convention, columns: Mapping[Side, str]) -> dict[str, MeasureSpec]:
    """What is summed for a group metric, by measure. The columns are those of `group_columns`."""
    options = metric.options(convention)
    items = Grouping(columns["item"]) if "item" in columns else Grouping(None, options["share"]) if "share" in options else None
    specs = {}
    for measure in metric.definition.measures_of(options):
        detail: Any = None
        if measure == "gain":
            detail = options["gain"], options["discount"]
        if measure == "ndcg":
            detail = Metric("ndcg", (), tuple(sorted((key, options[key]) for key in ("gain", "idcg", "discount"))), metric.k)
        k = None if measure in ("relevant", "trained") else metric.k
        # All users with training rows count, with or without a list.
        users = "" if measure == "trained" else metric.users(convention)
        specs[measure] = MeasureSpec(measure, users, k, columns.get("user"), items, detail)
    return specs


def measure_specs(
    metrics: Iterable[Metric], convention: Convention, columns: Mapping[Metric, Mapping[Side, str]]
) -> tuple[MeasureSpec, ...]:
    """The different `MeasureSpec`s of the group metrics. The columns are those of `group_columns`."""
    group_metrics = (metric for metric in metrics if metric.definition.kind == "group")
    specs = (spec for metric in group_metrics for spec in specs_by_measure(metric, convention, columns[metric]).values())
    return tuple(dict.fromkeys(specs))


def item_group_columns(measured: Iterable[MeasureSpec]) -> list[str]:
    """The different columns by which items are grouped."""
    groupings = (spec.items for spec in measured if spec.items is not None)
    return list(dict.fromkeys(grouping.column for grouping in groupings if grouping.column is not None))


def user_columns(measured: Iterable[MeasureSpec]) -> list[str]:
    """The different columns by which users are grouped."""
    return list(dict.fromkeys(spec.by for spec in measured if spec.by is not None))


def per_item_indexes(measured: Sequence[MeasureSpec]) -> list[int]:
    """The indexes of the specs whose sums are kept per item."""
    return [index for index, spec in enumerate(measured) if spec.per_item]


Rows = tuple[Ints, Ints | None, Floats | None]
"""User, item and value of each row. Without items, a row is a user; without values, a row counts 1."""


@dataclass(frozen=True)
class BatchUsers:
    """The users of a batch, then the users who have only training rows, and their data."""

    n_models: int
    n_users: int  # users of the batch
    n_all: int  # the same, including users who have only training rows
    counters: Mapping[str, Any]  # (U * models,) counters of each model and user, by name
    groups: Mapping[str, tuple[Ints, Any]]  # by column, the group of each of all users, -1 for none, and the names of groups
    trained: tuple[Ints, Ints]  # user and item of every training row
    table: ItemTable


def measured_rows(batch: RankedBatch, members: BatchUsers, spec: MeasureSpec, convention: Convention) -> Rows:
    """The rows of a measure, for all users. A missing score counts as 0.

    `shown`, `hits`, `relevant` and `trained` are counted; `trained` are distinct pairs of training rows, which have no model.
    `gain` and `score` have a value for each recommendation, 0 for a miss; `hit_score` for each hit; the others for each user.
    """
    if spec.measure == "trained":
        return (*members.trained, None)
    if spec.measure == "relevant":
        return batch.ideal_user, batch.ideal_item, None
    if spec.measure in ("ndcg", "mean_score"):
        values = _mean_scores(batch, spec.k) if spec.measure == "mean_score" else score(spec.detail, batch, convention)
        if spec.measure == "ndcg" and convention.undefined == "zero":
            values = np.nan_to_num(values, nan=0.0)
        defined = np.flatnonzero(~np.isnan(values))
        return defined, None, values[defined]
    items = recommended(batch)
    if spec.measure == "shown":
        return (*items.top(spec.k, "item"), None)
    if spec.measure == "hits":
        return (*items.hits.top(spec.k, "item"), None)
    if spec.measure == "hit_score":
        user, item, scores = items.hits.top(spec.k, "item", "score")
        return user, item, np.nan_to_num(scores, nan=0.0)
    user, item, rating, rank, scores = items.top(spec.k, "item", "rating", "rank", "score")
    hit = np.flatnonzero(~np.isnan(rating))
    values = np.zeros(len(user))
    if spec.measure == "score":
        values[hit] = np.nan_to_num(scores[hit], nan=0.0)
    elif spec.measure == "gain":
        gain, discount = spec.detail
        values[hit] = gain_of(rating[hit], gain) / (1.0 if discount == "none" else np.log2(rank[hit] + 1.0))
    else:
        raise ValueError(f"unknown measure {spec.measure!r}")
    return user, item, values


def _mean_scores(batch: RankedBatch, k: int | None) -> Floats:
    """(U,) the mean score of the list, NaN without a list."""
    scores, n = given(batch.list_scores, "list_scores").within(k), batch.list_length(k)
    return ratio(sum_by_user(scores.user, np.nan_to_num(scores.score, nan=0.0), batch.size), n, defined=n > 0)


def measure_groups(
    batch: RankedBatch, members: BatchUsers, measured: Sequence[MeasureSpec], convention: Convention, summary: ItemSummary
) -> tuple[dict[str, Any], list[tuple[Ints, Floats]]]:
    """Arrays by `columns.GROUP_ARRAYS`: an entry for each spec, model, group of users and group of items; at least one spec."""
    # Entries for all items together count users; their group of items is -1. In the batch, users of the first model are first.
    # The list has an element for each of `per_item_indexes`: the number of rows, and the sum of values, by model and item.
    all_users = np.zeros(members.n_all, dtype=np.int64), np.array([None], dtype=object)
    n_items = len(members.table.n_rows)
    entries, per_item = list[tuple[Any, ...]](), list[tuple[Ints, Floats]]()
    for index, spec in enumerate(measured):
        trained = spec.measure == "trained"
        user, item, values = measured_rows(batch, members, spec, convention)
        n_models, n_users = (1, members.n_all) if trained else (members.n_models, members.n_users)
        group, names = all_users if spec.by is None else members.groups[spec.by]
        row_group = group[user % n_users if n_models > 1 else user]
        kept = row_group >= 0
        for counter in () if trained else MEMBERS[spec.users]:
            kept &= (np.asarray(members.counters[counter]) > 0)[user]
        if not kept.all():
            user, row_group = user[kept], row_group[kept]
            item, values = None if item is None else item[kept], None if values is None else values[kept]
        # One number for each model and group of users.
        key = row_group + (user // n_users * len(names) if n_models > 1 else 0)
        size = n_models * len(names)
        present = np.zeros(n_models * n_users, dtype=bool)
        present[user] = True
        once = np.flatnonzero(present)
        n = np.bincount(once // max(n_users, 1) * len(names) + group[once % max(n_users, 1)], minlength=size)
        filled = np.flatnonzero(n)
        total = np.bincount(key, weights=values, minlength=size)
        entries.append(
            _entries(index, filled // len(names), names[filled % len(names)], filled * 0 - 1, n[filled], total[filled])
        )
        if item is None or spec.items is None:
            continue
        pairs, n, total = _sums_by(key * n_items + item, size * n_items, None, values)
        if spec.per_item:
            all_items = np.zeros(size * n_items, dtype=np.int64), np.zeros(size * n_items)
            all_items[0][pairs], all_items[1][pairs] = n, total
            per_item.append(all_items)
        else:
            row, code = _groups_of(pairs % max(n_items, 1), spec.items, batch, members.table, summary)
            n_codes = max(len(summary.groups), len(BY_POPULARITY))
            key = (pairs // max(n_items, 1))[row] * n_codes + code
            key, n, total = _sums_by(key, size * n_codes, n[row], total[row])
            key, code = key // n_codes, key % n_codes
            entries.append(_entries(index, key // len(names), names[key % len(names)], code, n, total))
    return dict(zip(GROUP_ARRAYS, map(np.concatenate, zip(*entries, strict=True)), strict=True)), per_item


def _sums_by(key: Ints, size: int, *weights: Any) -> tuple[Ints, ...]:
    """The distinct keys, ascending, and the sums by key of each of the weights; None counts rows. Keys are below `size`."""
    keys = None
    if size > 4 * len(key) + 10_000:
        keys, key = np.unique(key, return_inverse=True)
        size = len(keys)
    sums = [np.bincount(key, weights=values, minlength=size) for values in weights]
    if keys is not None:
        return keys, *sums
    present = np.flatnonzero(np.bincount(key, minlength=size))
    return present, *(values[present] for values in sums)


def _groups_of(
    items: Ints, grouping: Grouping, batch: RankedBatch, table: ItemTable, summary: ItemSummary
) -> tuple[Ints, Ints]:
    """All pairs of one of the items and one of its groups: the position of the item, and the number of the group."""
    if grouping.column is None:
        # An item without a training row belongs to the tail.
        in_head = table.n_rows[items] >= popularity(batch).head_threshold(grouping.share)
        return np.arange(len(items)), np.where(in_head, 0, 1)
    position, code = table.groups_of(items)
    in_column = np.array([column == grouping.column for column, _ in summary.groups], dtype=bool)[code]
    return position[in_column], code[in_column]


def _entries(index: int, model: Ints, users: Any, groups: Any, n: Any, total: Any) -> tuple[Any, ...]:
    return np.full(len(model), index), model, users, groups, np.asarray(n, dtype=np.int64), np.asarray(total, dtype=np.float64)


@dataclass(frozen=True)
class GroupSizes:
    """The sizes of groups of items."""

    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by column and group
    n_items: int = 0  # items in the table of groups


def sums_from_rows(
    rows: Iterable[Mapping[str, Any]], measured: Sequence[MeasureSpec], names: Sequence[tuple[str, str]]
) -> dict[tuple[int, int], SumsByGroup]:
    """The sums by model and index of the `MeasureSpec`, which is `place` in a row. A `group` of -1 is all items together."""
    sums: dict[tuple[int, int], dict[tuple[str | None, str | None], GroupSum]] = {}
    for row in rows:
        code, grouping = row["group"], measured[row["place"]].items
        by_column = grouping is not None and grouping.column is not None
        group = None if code < 0 else names[code][1] if by_column else BY_POPULARITY[code]
        group_sum = GroupSum(row["n"], row["total"], row["n_items"], row["means"])
        sums.setdefault((row["model"], row["place"]), {})[row["users"], group] = group_sum
    return dict(sums)


class PairValue(NamedTuple):
    """The value of a group of users and a group of items."""

    columns: tuple[str, str]  # of the group of users, and of the group of items
    groups: tuple[str, str]
    value: float
    n_users: int  # of the group


class GroupValue(NamedTuple):
    """The value of a group metric."""

    value: float | None  # None if it is undefined
    n_users: int
    pairs: tuple[PairValue, ...] = ()


def group_values(
    metrics: Iterable[Metric],
    convention: Convention,
    columns: Mapping[Metric, Mapping[Side, str]],
    sums: Mapping[tuple[int, int], SumsByGroup],
    sizes: GroupSizes,
    model: int,
) -> dict[Metric, GroupValue]:
    """The values of the group metrics for one model."""
    group_metrics = [metric for metric in metrics if metric.definition.kind == "group"]
    measured = measure_specs(group_metrics, convention, columns)
    values: dict[Metric, GroupValue] = {}
    for metric in group_metrics:
        specs, sides = specs_by_measure(metric, convention, columns[metric]), columns[metric]
        # Training rows are stored with the first model.
        places = {name: (0 if name == "trained" else model, measured.index(spec)) for name, spec in specs.items()}
        by_measure = {name: sums.get(place, {}) for name, place in places.items()}
        list_sums = [by_group for name, by_group in by_measure.items() if name != "trained"]
        n_users = max((sum(s.n for (_, g), s in by_group.items() if g is None) for by_group in list_sums), default=0)
        pair = sides.get("user", ""), sides.get("item", "")
        group_sums = GroupSums(by_measure, sizes.sizes.get(pair[1], {}), sizes.n_items)
        value = metric.definition.compute(group_sums, **metric.options(convention))
        pairs: tuple[PairValue, ...] = ()
        if metric.definition.by_pair:
            by_pair, value = value
            n_users = sum({u: n for (u, _), (_, n) in by_pair.items()}.values())
            pairs = tuple(PairValue(pair, groups, *value_and_n) for groups, value_and_n in by_pair.items())
        values[metric] = GroupValue(None if np.isnan(value) else float(value), n_users, pairs)
    return values
