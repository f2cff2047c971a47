"""Add up what groups of users and items have in the lists of a batch, for all models, cut-offs and user sets at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from spark_recmetrics.columns import GROUP_ARRAYS, TABLE_OF, Side, near_column
from spark_recmetrics.conventions import MEMBERS, Convention
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics.arrays import Floats, Ints, ratio, sum_by_user
from spark_recmetrics.metrics.batch import RankedBatch, recommended
from spark_recmetrics.metrics.ranking import gain_of
from spark_recmetrics.metrics.recommended_items import ItemSummary, ItemTable, Popularity
from spark_recmetrics.metrics.registry import Metric, Parameter, score

BY_POPULARITY = ("head", "tail")
"""The groups of items by popularity."""


PER_ITEM = frozenset({"gain", "score", "hit_score"})
"""The measures of which items have a mean, so that they are added up item by item."""


class Grouping(NamedTuple):
    """How items are grouped: by the values of a column, or, without one, into short head and long tail.

    Args:
        column: The column.
        share: Of the training rows, which the short head holds.
    """

    column: str | None
    share: float = 0.0


class MeasureSpec(NamedTuple):
    """What is added up over lists.

    Args:
        measure: What, see `group_sums.measured_rows`.
        users: Over which user set.
        k: Where lists are cut.
        by: The column that users are grouped by, if they are.
        items: How items are grouped, if they are.
        detail: What else the measure has to know.
    """

    measure: str
    users: str
    k: int | None
    by: str | None = None
    items: Grouping | None = None
    detail: Any = None

    @property
    def per_item(self) -> bool:
        """The values of each item are wanted, and not only those of groups."""
        return self.measure in PER_ITEM and self.by is None and self.items is not None and self.items.column is not None


class GroupSum(NamedTuple):
    """What a group of users and a group of items have together.

    Args:
        n: The number of rows; of all items together, the number of users with a row.
        total: Sum of the values of these rows, which is 1 each where rows are counted.
        n_items: The number of items with a row, where a metric asks for them one by one.
        means: Sum over these items of their mean value.
    """

    n: int
    total: float
    n_items: int = 0
    means: float = 0.0


SumsByGroup = Mapping[tuple[str | None, str | None], GroupSum]
"""By group of users and of items, None for all together."""


@dataclass(frozen=True)
class GroupSums:
    """What a metric of groups sees of one model.

    Args:
        sums: By measure, what groups have.
        sizes: By name of a group of items, the number of its items.
        n_items: The number of items in the table of groups.
    """

    sums: Mapping[str, SumsByGroup]
    sizes: Mapping[str, int] = field(default_factory=dict)
    n_items: int = 0

    def of_items(self, measure: str) -> dict[str, GroupSum]:
        """By group of items, what all users together have, in order of the groups."""
        return {g: one for (u, g), one in sorted(self.sums[measure].items(), key=str) if u is None and g is not None}

    def of_users(self, measure: str) -> dict[str, GroupSum]:
        """By group of users, what all items together have, in order of the groups."""
        return {u: one for (u, g), one in sorted(self.sums[measure].items(), key=str) if u is not None and g is None}


Rows = tuple[Ints, Ints | None, Floats | None]
"""User, item and value of each row: without items a row is a user, and without values a row counts 1."""


@dataclass(frozen=True)
class BatchUsers:
    """The users of a batch of all models, and those who have training rows alone, as what is measured sees them.

    Args:
        n_models: The number of models.
        n_users: The users of the batch.
        n_known: These, and those who have training rows alone.
        counters: (U * models,) counters of each user and model, by name.
        groups: By column, the group of each known user, -1 for none, and the names of the groups.
        trained: User and item of every training row.
        table: What is known of items.
    """

    n_models: int
    n_users: int
    n_known: int
    counters: Mapping[str, Any]
    groups: Mapping[str, tuple[Ints, Any]]
    trained: tuple[Ints, Ints]
    table: ItemTable


def measured_rows(batch: RankedBatch, members: BatchUsers, one: MeasureSpec, convention: Convention) -> Rows:
    """The rows of a measure, of all users.

    `shown`, `hits` and `relevant` are recommendations, hits and relevant items, and `trained` the training rows, each pair of
    user and item once, which no model has. Of recommendations, there is the `gain`, and the `score` where they are hits, which
    of hits alone is `hit_score`; and of users, `ndcg` and the `mean_score` of their list. A missing score is 0.
    """
    if one.measure == "trained":
        return (*members.trained, None)
    if one.measure == "relevant":
        return batch.ideal_user, batch.ideal_item, None
    if one.measure in ("ndcg", "mean_score"):
        values = _mean_scores(batch, one.k) if one.measure == "mean_score" else score(one.detail, batch, convention)
        if one.measure == "ndcg" and convention.undefined == "zero":
            values = np.nan_to_num(values, nan=0.0)
        known = np.flatnonzero(~np.isnan(values))
        return known, None, values[known]
    shown = recommended(batch)
    if one.measure == "shown":
        return (*shown.upto(one.k, "item"), None)
    if one.measure == "hits":
        return (*shown.hits.upto(one.k, "item"), None)
    if one.measure == "hit_score":
        user, item, scores = shown.hits.upto(one.k, "item", "score")
        return user, item, np.nan_to_num(scores, nan=0.0)
    user, item, rating, rank, scores = shown.upto(one.k, "item", "rating", "rank", "score")
    hit = np.flatnonzero(~np.isnan(rating))
    values = np.zeros(len(user))
    if one.measure == "score":
        values[hit] = np.nan_to_num(scores[hit], nan=0.0)
    elif one.measure == "gain":
        gain, discount = one.detail
        values[hit] = gain_of(rating[hit], gain) / (1.0 if discount == "none" else np.log2(rank[hit] + 1.0))
    else:
        raise ValueError(f"there is no measure {one.measure!r}")
    return user, item, values


def _mean_scores(batch: RankedBatch, k: int | None) -> Floats:
    """(U,) the mean score of the list, NaN without one."""
    if batch.list_scores is None:
        raise ValueError("the batch lacks its scores: declare needs=('list_scores', 'scores')")
    top, n = batch.list_scores.within(k), batch.list_length(k)
    return ratio(sum_by_user(top.user, np.nan_to_num(top.score, nan=0.0), batch.size), n, defined=n > 0)


def group_columns(metrics: Iterable[Metric], columns: Mapping[Side, Sequence[str] | None]) -> dict[Metric, dict[str, str]]:
    """By metric of groups and option, the column that it names, or the only one that there is.

    Args:
        metrics: The metrics.
        columns: The columns of the tables of users and items but for the ids, None where there is no table.

    Raises:
        ConfigError: There is no such column, or several where none is named.
    """
    found: dict[Metric, dict[str, str]] = {}
    for metric in metrics:
        for option, source in metric.definition.options.items():
            if not isinstance(source, Parameter) or source.column is None:
                continue
            table, known = TABLE_OF[source.column], columns.get(source.column) or ()
            named = str(dict(metric.params).get(option, ""))
            if named and named not in known:
                raise ConfigError(f"{metric}: no column {named!r} in {table}{near_column(named, known)}")
            if not named and len(known) != 1:
                have = f"{', '.join(known)}: write {metric.name}({option}={known[0]})" if known else "none"
                raise ConfigError(f"{metric}: expected one column with groups in {table}, found {have}")
            found.setdefault(metric, {})[option] = named or known[0]
        if metric.definition.kind == "group":
            own = found.setdefault(metric, {})
            if len(set(own.values())) < len(own):
                raise ConfigError(f"{metric}: expected columns of different names, found {own['users']} twice: rename one")
    return found


def columns_by_side(metric: Metric, columns: Mapping[str, str]) -> dict[Side, str]:
    """The columns with groups that a metric looks at, by whose groups they are."""
    options = metric.definition.options.items()
    return {source.column: columns[key] for key, source in options if isinstance(source, Parameter) and source.column}


def specs_by_measure(metric: Metric, convention: Convention, columns: Mapping[str, str]) -> dict[str, MeasureSpec]:
    """By measure, what has to be added up for a metric of groups.

    Args:
        metric: The metric.
        convention: Its definitions.
        columns: By option, the column with groups.
    """
    options, sides = metric.options(convention), columns_by_side(metric, columns)
    items = Grouping(sides["item"]) if "item" in sides else Grouping(None, options["share"]) if "share" in options else None
    found = {}
    for measure in metric.definition.measures_of(options):
        detail: Any = None
        if measure == "gain":
            detail = options["gain"], options["discount"]
        if measure == "ndcg":
            detail = Metric("ndcg", (), tuple(sorted((key, options[key]) for key in ("gain", "idcg", "discount"))), metric.k)
        k = None if measure in ("relevant", "trained") else metric.k
        # Whoever has training rows counts there, with a list or without.
        users = "" if measure == "trained" else metric.users(convention)
        found[measure] = MeasureSpec(measure, users, k, sides.get("user"), items, detail)
    return found


def measure_specs(
    metrics: Iterable[Metric], convention: Convention, columns: Mapping[Metric, Mapping[str, str]]
) -> tuple[MeasureSpec, ...]:
    """What has to be added up for metrics of groups, each once.

    Args:
        metrics: All metrics.
        convention: Their definitions.
        columns: By metric and option, the column with groups.
    """
    of_groups = (metric for metric in metrics if metric.definition.kind == "group")
    every = (one for metric in of_groups for one in specs_by_measure(metric, convention, columns[metric]).values())
    return tuple(dict.fromkeys(every))


def groupings_of(measured: Iterable[MeasureSpec]) -> list[Grouping]:
    """How items are grouped, each once."""
    return list(dict.fromkeys(one.items for one in measured if one.items is not None))


def user_columns(measured: Iterable[MeasureSpec]) -> list[str]:
    """The columns that users are grouped by, each once."""
    return list(dict.fromkeys(one.by for one in measured if one.by is not None))


def measure_groups(
    batch: RankedBatch, members: BatchUsers, measured: Sequence[MeasureSpec], convention: Convention, summary: ItemSummary
) -> tuple[dict[str, Any], list[tuple[Ints, Floats]]]:
    """What groups have: arrays of one length, an entry for each thing measured, model, group of users and group of items.

    Args:
        batch: Users of each model, one model behind the other.
        members: Whose users they are.
        measured: What is to be added up.
        convention: Definitions of metrics that are.
        summary: The groups of items.

    Returns:
        The arrays by the names of `columns.GROUP_ARRAYS`; the group of items is -1 in entries for all items together, which
        count users. And for each of `per_item_indexes` the number of rows and the sum of their values of each model and item.
    """
    everybody = np.zeros(members.n_known, dtype=np.int64), np.array([None], dtype=object)
    n_items = len(members.table.n_rows)
    found, of_items = [_entries(0, *(np.zeros(0, dtype=np.int64) for _ in range(5)))], list[tuple[Ints, Floats]]()
    for place, one in enumerate(measured):
        trained = one.measure == "trained"
        user, item, values = measured_rows(batch, members, one, convention)
        n_models, n_users = (1, members.n_known) if trained else (members.n_models, members.n_users)
        group, names = everybody if one.by is None else members.groups[one.by]
        whose = user % n_users if n_models > 1 else user
        kept = group[whose] >= 0
        for counter in () if trained else MEMBERS[one.users]:
            kept &= (np.asarray(members.counters[counter]) > 0)[user]
        if not kept.all():
            user, whose = user[kept], whose[kept]
            item, values = None if item is None else item[kept], None if values is None else values[kept]
        # The group of a model that a user belongs to.
        own = group[whose] + (user // n_users * len(names) if n_models > 1 else 0)
        size = n_models * len(names)
        present = np.zeros(n_models * n_users, dtype=bool)
        present[user] = True
        once = np.flatnonzero(present)
        n = np.bincount(once // max(n_users, 1) * len(names) + group[once % max(n_users, 1)], minlength=size)
        some = np.flatnonzero(n)
        total = np.bincount(own, weights=values, minlength=size)
        found.append(_entries(place, some // len(names), names[some % len(names)], some * 0 - 1, n[some], total[some]))
        if item is None or one.items is None:
            continue
        pairs, n, total = _sums_by(own * n_items + item, size * n_items, None, values)
        if one.per_item:
            whole = np.zeros(size * n_items, dtype=np.int64), np.zeros(size * n_items)
            whole[0][pairs], whole[1][pairs] = n, total
            of_items.append(whole)
        else:
            row, code = _groups_of(pairs % max(n_items, 1), one.items, members.table, batch.popularity, summary)
            n_codes = max(len(summary.groups), len(BY_POPULARITY))
            key = (pairs // max(n_items, 1))[row] * n_codes + code
            of_groups, n, total = _sums_by(key, size * n_codes, n[row], total[row])
            own, code = of_groups // n_codes, of_groups % n_codes
            found.append(_entries(place, own // len(names), names[own % len(names)], code, n, total))
    return dict(zip(GROUP_ARRAYS, map(np.concatenate, zip(*found, strict=True)), strict=True)), of_items


def _sums_by(key: Ints, size: int, *weights: Any) -> tuple[Ints, ...]:
    """The keys that there are, ascending, and of each the sums of the weights of its rows, None for the number of rows.

    Args:
        key: (L,) numbers below the size.
        size: How many keys there could be.
        weights: (L,) weights, or None.
    """
    found = None
    if size > 4 * len(key) + 10_000:
        found, key = np.unique(key, return_inverse=True)
        size = len(found)
    sums = [np.bincount(key, weights=one, minlength=size) for one in weights]
    if found is not None:
        return found, *sums
    some = np.flatnonzero(np.bincount(key, minlength=size))
    return some, *(one[some] for one in sums)


def _groups_of(
    items: Ints, grouping: Grouping, table: ItemTable, popularity: Popularity | None, summary: ItemSummary
) -> tuple[Ints, Ints]:
    """Every pair of one of the items and a group that it belongs to: the place of the item, and the number of the group."""
    if grouping.column is None:
        if popularity is None:
            raise ValueError("the batch lacks the popularity of items")
        # An item without a training row belongs to the tail.
        return np.arange(len(items)), np.where(table.n_rows[items] >= popularity.short_head(grouping.share), 0, 1)
    place, code = table.groups_of(items)
    own = np.array([column == grouping.column for column, _ in summary.groups], dtype=bool)[code]
    return place[own], code[own]


def _entries(place: int, model: Ints, users: Any, groups: Any, n: Any, total: Any) -> tuple[Any, ...]:
    return np.full(len(model), place), model, users, groups, np.asarray(n, dtype=np.int64), np.asarray(total, dtype=np.float64)


def per_item_indexes(measured: Sequence[MeasureSpec]) -> list[int]:
    """The places of what is measured item by item."""
    return [place for place, one in enumerate(measured) if one.per_item]


@dataclass(frozen=True)
class GroupSizes:
    """What is known of groups beside lists.

    Args:
        sizes: By column, the groups of items and the number of their items.
        n_items: The number of items in the table of groups.
    """

    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    n_items: int = 0


def sums_from_rows(
    rows: Iterable[Mapping[str, Any]], measured: Sequence[MeasureSpec], names: Sequence[tuple[str, str]]
) -> dict[tuple[int, int], SumsByGroup]:
    """By model and place among what is measured, the sums of groups.

    Args:
        rows: `model, place, users, group, n, total, n_items, means`, the group the place among those of items, -1 for all items
            together.
        measured: What is measured.
        names: The groups of items, by column and name.
    """
    found: dict[tuple[int, int], dict[tuple[str | None, str | None], GroupSum]] = {}
    of_columns = [name for _, name in names]
    for row in rows:
        code, grouping = row["group"], measured[row["place"]].items
        known = BY_POPULARITY if grouping is None or grouping.column is None else of_columns
        own = found.setdefault((row["model"], row["place"]), {})
        key = row["users"], None if code < 0 else known[code]
        own[key] = GroupSum(row["n"], row["total"], row["n_items"], row["means"])
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
    sums: Mapping[tuple[int, int], SumsByGroup],
    sizes: GroupSizes,
    model: int,
) -> dict[Metric, GroupValue]:
    """The values of the metrics of groups of one model."""
    found: dict[Metric, GroupValue] = {}
    measured = measure_specs(metrics, convention, columns)
    for metric in metrics:
        if metric.definition.kind != "group":
            continue
        own, sides = specs_by_measure(metric, convention, columns[metric]), columns_by_side(metric, columns[metric])
        # Training rows are those of no model.
        known = {name: sums.get((0 if name == "trained" else model, measured.index(one)), {}) for name, one in own.items()}
        of_lists = [one for name, one in known.items() if name != "trained"]
        n_users = max((sum(one.n for (_, g), one in of_one.items() if g is None) for of_one in of_lists), default=0)
        both = sides.get("user", ""), sides.get("item", "")
        seen = GroupSums(known, sizes.sizes.get(both[1], {}), sizes.n_items)
        value = metric.definition.compute(seen, **metric.options(convention))
        pairs: tuple[PairValue, ...] = ()
        if metric.definition.by_pair:
            values, value = value
            n_users = sum({u: n for (u, _), (_, n) in values.items()}.values())
            pairs = tuple(PairValue(both, groups, *one) for groups, one in values.items())
        found[metric] = GroupValue(None if np.isnan(value) else float(value), n_users, pairs)
    return found
