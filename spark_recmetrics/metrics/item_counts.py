"""Item metrics: how often items are in lists, in one pass over a batch for all models, cut-offs and user sets, and values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from spark_recmetrics import columns as col
from spark_recmetrics.conventions import MEMBERS, Convention
from spark_recmetrics.errors import DataError
from spark_recmetrics.metrics.arrays import Bools, Floats, Ints, run_starts, sum_by_user
from spark_recmetrics.metrics.batch import RankedBatch, recommended
from spark_recmetrics.metrics.registry import Metric


@dataclass(frozen=True)
class ItemCounts:
    """How often items are in the lists of a model, as a histogram whose size does not depend on the number of items.

    `overlap` is the sum over items of the square of: the sum of 1 / sqrt(length) over the lists with the item. The mean cosine
    of all pairs of lists follows from it.
    """

    counts: Mapping[tuple[int, bool], int]  # (count, in the catalog) -> items that are in that many lists, for counts above 0
    n_lists: int  # users with a list
    n_items: int | None = None  # size N of the catalog, if it is known
    overlap: float = 0.0

    @classmethod
    def of(cls, lists: Any, catalog: Any = None) -> ItemCounts:
        """The counts of plain lists, cut at k. The catalog is its items, or their number; None if it is not known."""
        lengths: dict[Any, list[int]] = {}
        for items in lists:
            for item in items:
                lengths.setdefault(item, []).append(len(items))
        counts: dict[tuple[int, bool], int] = {}
        for item, item_lengths in lengths.items():
            key = (len(item_lengths), catalog is None or isinstance(catalog, int) or item in catalog)
            counts[key] = counts.get(key, 0) + 1
        overlap = math.fsum(math.fsum(1 / math.sqrt(n) for n in item_lengths) ** 2 for item_lengths in lengths.values())
        n_items = catalog if catalog is None or isinstance(catalog, int) else len(set(catalog))
        return cls(dict(sorted(counts.items())), sum(len(items) > 0 for items in lists), n_items, overlap)

    def histogram(self, *, catalog_only: bool = False) -> dict[int, int]:
        """Count -> number of items, ascending. With `catalog_only`, only items of the catalog, including those in no list."""
        n_by_count: dict[int, int] = {}
        for (count, in_catalog), n in self.counts.items():
            if in_catalog or not catalog_only:
                n_by_count[count] = n_by_count.get(count, 0) + n
        if catalog_only and self.n_items is not None and self.n_items > sum(n_by_count.values()):
            n_by_count[0] = self.n_items - sum(n_by_count.values())
        return dict(sorted(n_by_count.items()))

    @property
    def n_covered(self) -> int:
        """The number of items of the catalog that are in a list."""
        return sum(n for count, n in self.histogram(catalog_only=True).items() if count)


@dataclass(frozen=True)
class DistinctItems:
    """The distinct items of U lists, and how often each is in all lists of the model."""

    user: Ints  # (L,) the list of the item, as an index into the U lists
    times: Ints  # (L,) how often the item is in this list: once, unless repeated items are kept
    count: Ints  # (L,) how often the item is in all lists of the model
    in_catalog: Bools  # (L,)
    weight: Floats  # (L,) sum of 1 / sqrt(length) over the lists with the item
    n_users: int  # U

    def sum(self, values: Any) -> Floats:
        """(U,) sums over the items of each list."""
        return sum_by_user(self.user, values, self.n_users)


class CountSpec(NamedTuple):
    """The lists in which items are counted: those of a user set, cut at k."""

    users: str
    k: int | None

    @classmethod
    def of(cls, metric: Metric, convention: Convention) -> CountSpec:
        """The lists of an item metric."""
        return cls(metric.users(convention), metric.k)


def count_specs(metrics: Iterable[Metric], convention: Convention) -> list[CountSpec]:
    """The different `CountSpec`s of the item metrics."""
    return list(dict.fromkeys(CountSpec.of(metric, convention) for metric in metrics if metric.definition.kind == "item"))


def item_columns(n_counted: int, n_summed: int) -> list[str]:
    """The names of the arrays of `count_items` for these numbers of `counted` and `summed`."""
    counted = [f"{name}{place}" for name in (col.ITEM_COUNTS, col.ITEM_WEIGHTS) for place in range(n_counted)]
    summed = [f"{name}{place}" for name in (col.ITEM_ROWS, col.ITEM_TOTALS) for place in range(n_summed)]
    return [col.ITEM_IDS, col.ITEM_MODELS, *counted, *summed]


def count_items(
    batch: RankedBatch,
    counters: Mapping[str, Any],
    n_models: int,
    ids: Any,
    counted: Sequence[CountSpec],
    summed: Sequence[tuple[Ints, Floats]],
    *,
    repeats: bool,
) -> dict[str, Any]:
    """Arrays by `item_columns`: an entry for each model and item in its lists, and one for each model: its number of lists."""
    # In the batch, users of the first model are first. `summed` has rows and sums by model and item, for each group measure.
    # With `repeats` lists may hold an item more than once; its weight counts once.
    items, n_users, n_items = recommended(batch), max(batch.size // max(n_models, 1), 1), max(len(ids), 1)
    size = n_models * len(ids)
    counts, weights, n_lists = [], [], []
    for users, k in counted:
        user, item = items.top(k, "item")
        for counter in MEMBERS[users]:
            kept = (np.asarray(counters[counter]) > 0)[user]
            user, item = (user, item) if kept.all() else (user[kept], item[kept])
        key = user // n_users * n_items + item
        counts.append(np.bincount(key, minlength=size))
        if repeats:
            first = np.unique(user * n_items + item, return_index=True)[1]
            key, user = key[first], user[first]
        length = np.bincount(user, minlength=batch.size)
        weights.append(np.bincount(key, weights=1 / np.sqrt(np.maximum(length, 1))[user], minlength=size))
        n_lists.append((length > 0).reshape(n_models, -1).sum(axis=1) if batch.size else np.zeros(n_models, dtype=np.int64))
    rows, totals = [n for n, _ in summed], [total for _, total in summed]
    present = np.flatnonzero(np.sum([*counts, *rows], axis=0))
    # Without items there are no lists either.
    models = np.arange(n_models) if len(present) else np.zeros(0, dtype=np.int64)
    columns = [
        np.concatenate([ids[present % n_items], np.repeat(ids[:1], len(models))]),
        np.concatenate([present // n_items, -1 - models]),
        *(np.concatenate([values[present], n[models]]) for values, n in zip(counts, n_lists, strict=True)),
        *(np.append(values[present], np.zeros(len(models), dtype=values.dtype)) for values in (*weights, *rows, *totals)),
    ]
    return dict(zip(item_columns(len(counted), len(summed)), columns, strict=True))


def kept_lists(batch: RankedBatch, ids: Any, counted: Sequence[CountSpec]) -> dict[str, Any]:
    """(U,) the items and the ranks of each list up to the largest cut-off of `counted`; None for a user without a list."""
    longest = None if any(k is None for _, k in counted) else max((k for _, k in counted if k is not None), default=0)
    user, item, rank = recommended(batch).top(longest, "item", "rank")
    starts = np.append(run_starts(user), len(user)).tolist()
    lists = {col.LIST_ITEMS: np.full(batch.size, None), col.LIST_RANKS: np.full(batch.size, None)}
    for name, values in ((col.LIST_ITEMS, ids[item]), (col.LIST_RANKS, rank)):
        for start, end in pairwise(starts):
            lists[name][user[start]] = values[start:end]
    return lists


def counts_of(rows: Iterable[Mapping[str, Any]], n_items: int | None) -> dict[tuple[int, int], ItemCounts]:
    """By model and index of the `CountSpec`, how often items are in the lists. Raises `DataError` if the catalog lacks some."""
    # In a row, n items are in `count` lists, and `together` is their part of `overlap`. The model -1 - m marks the lists of m.
    counts: dict[tuple[int, int], dict[tuple[int, bool], int]] = {}
    overlap: dict[tuple[int, int], float] = {}
    n_lists: dict[tuple[int, int], int] = {}
    for row in sorted(rows, key=lambda row: (row["model"], row["place"], row["count"], row["known"])):
        model, place = row["model"], row["place"]
        if model < 0:
            key = (-1 - model, place)
            n_lists[key] = n_lists.get(key, 0) + row["count"] * row["n"]
            continue
        counts.setdefault((model, place), {})[row["count"], bool(row["known"])] = row["n"]
        overlap[model, place] = overlap.get((model, place), 0.0) + row["together"]
    by_place = {key: ItemCounts(counts[key], n, n_items, overlap[key]) for key, n in n_lists.items() if key in counts}
    excess = 0 if n_items is None else max((items.n_covered for items in by_place.values()), default=0) - n_items
    if excess > 0:
        raise DataError(
            f"catalog: expected all items that can be recommended, found {excess} more in the lists: give the full catalog"
        )
    return by_place


def item_values(
    metrics: Iterable[Metric], convention: Convention, counts: Mapping[tuple[int, int], ItemCounts], model: int
) -> dict[str, tuple[float | None, int]]:
    """By slug, the value of each item metric for one model, and the number of users with a list."""
    values: dict[str, tuple[float | None, int]] = {}
    metrics = [metric for metric in metrics if metric.definition.kind == "item"]
    counted = count_specs(metrics, convention)
    for metric in metrics:
        model_counts = counts.get((model, counted.index(CountSpec.of(metric, convention))))
        value = math.nan if model_counts is None else metric.definition.compute(model_counts, **metric.options(convention))
        values[metric.slug] = (None if math.isnan(value) else float(value), 0 if model_counts is None else model_counts.n_lists)
    return values


def list_shares(
    rows: Mapping[str, Any],
    n_users: int,
    metrics: Sequence[Metric],
    convention: Convention,
    counts: Mapping[tuple[int, int], ItemCounts],
    n_models: int,
) -> Any:
    """(U, models * metrics) the contribution of each list to the value of each item metric: (n - 1) (value - value without it).

    The mean of value + contribution over the n lists is the jackknife estimate of the value; over resampled lists it is a
    bootstrap replicate of the value (Efron, The jackknife, the bootstrap and other resampling plans, SIAM 1982). A contribution
    is NaN for a user without a list, or if there is no value without the list.

    The rows are columns with an entry for each item of a list: `user`, an index; `model`; `known`, whether the catalog has it;
    those of `item_columns`, 0 if the list does not belong to the `CountSpec`; and `item`, if lists may have repeats.
    """
    shares = np.full((n_users, n_models, len(metrics)), np.nan)
    counted = count_specs(metrics, convention)
    for (model, place), model_counts in counts.items():
        numbers = [number for number, metric in enumerate(metrics) if CountSpec.of(metric, convention) == counted[place]]
        entries = np.flatnonzero((rows["model"] == model) & (rows[f"{col.ITEM_COUNTS}{place}"] > 0))
        if model_counts.n_lists < 2 or not len(entries) or not numbers:
            continue
        times = np.ones(len(entries), dtype=np.int64)
        if "item" in rows:
            pairs = np.stack([rows["user"][entries], rows["item"][entries]])
            _, first, times = np.unique(pairs, axis=1, return_index=True, return_counts=True)
            entries = entries[first]
        users, user = np.unique(rows["user"][entries], return_inverse=True)
        count, weight = rows[f"{col.ITEM_COUNTS}{place}"][entries], rows[f"{col.ITEM_WEIGHTS}{place}"][entries]
        lists = DistinctItems(user, times, count, rows["known"][entries], weight, len(users))
        for number in numbers:
            definition, options = metrics[number].definition, metrics[number].options(convention)
            if definition.left_out is not None:
                value = definition.compute(model_counts, **options)
                without = definition.left_out(model_counts, lists, **options)
                shares[users, model, number] = (model_counts.n_lists - 1) * (value - without)
    return shares.reshape(n_users, -1)
