"""Count how often items stand in the lists of a batch, for all models, cut-offs and user sets at once, and add counts up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.columns import (
    ITEM_COUNTS,
    ITEM_IDS,
    ITEM_MODELS,
    ITEM_ROWS,
    ITEM_TOTALS,
    ITEM_WEIGHTS,
    LIST_ITEMS,
    LIST_RANKS,
)
from spark_recmetrics.conventions import MEMBERS, Convention
from spark_recmetrics.errors import DataError
from spark_recmetrics.metrics.arrays import Floats, Ints
from spark_recmetrics.metrics.batch import RankedBatch, recommended
from spark_recmetrics.metrics.registry import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


@dataclass(frozen=True)
class DistinctItems:
    """The items of some lists, each once for a list, and how often they stand in the lists of all users.

    Args:
        user: (L,) whose list it is, an index into the U lists.
        times: (L,) how often the item stands in this list: once, unless repeats are kept.
        count: (L,) how often it stands in all lists of the model.
        known: (L,) whether it stands in the catalogue.
        weight: (L,) sum of 1 / sqrt(n) over the lists that hold it, n the length of the list.
        n_users: U.
    """

    user: Ints
    times: Ints
    count: Ints
    known: NDArray[np.bool_]
    weight: Floats
    n_users: int

    def sum(self, values: Any) -> Floats:
        """(U,) sums over the items of each list."""
        return np.asarray(np.bincount(self.user, weights=values, minlength=self.n_users), dtype=np.float64)


class CountSpec(NamedTuple):
    """Whose lists are counted, and where they are cut."""

    users: str
    k: int | None


def count_specs(metrics: Iterable[Metric], convention: Convention) -> list[CountSpec]:
    """What has to be counted for metrics of items, each once."""
    of_items = (metric for metric in metrics if metric.definition.kind == "item")
    return list(dict.fromkeys(_counted(metric, convention) for metric in of_items))


def item_columns(n_counted: int, n_summed: int = 0) -> list[str]:
    """The columns that `count_items` gives for so many things that are counted, and summed."""
    counted = [f"{name}{place}" for name in (ITEM_COUNTS, ITEM_WEIGHTS) for place in range(n_counted)]
    return [
        ITEM_IDS,
        ITEM_MODELS,
        *counted,
        *(f"{name}{place}" for name in (ITEM_ROWS, ITEM_TOTALS) for place in range(n_summed)),
    ]


def count_items(
    batch: RankedBatch,
    counters: Mapping[str, Any],
    n_models: int,
    ids: Any,
    counted: Sequence[CountSpec],
    summed: Sequence[tuple[Ints, Floats]] = (),
    *,
    repeats: bool,
) -> dict[str, Any]:
    """Arrays of one length, an entry for each model and item that it lists; and one for each model, about all its lists.

    Args:
        batch: Users of each model, one model behind the other, with recommended items.
        counters: (U,) counters, by name.
        n_models: The number of models.
        ids: The items by their number.
        counted: What is to be counted.
        summed: Of each model and item, a model behind the other, rows and sums of what is measured item by item.
        repeats: Lists may hold an item twice, of which the vector of a list knows nothing.

    Returns:
        By the names of `item_columns`.
    """
    shown, n_users, n_items = recommended(batch), max(batch.size // max(n_models, 1), 1), max(len(ids), 1)
    size = n_models * len(ids)
    counts, weights, lists = [], [], []
    for users, k in counted:
        user, item = shown.upto(k, "item")
        for counter in MEMBERS[users]:
            kept = (np.asarray(counters[counter]) > 0)[user]
            user, item = (user, item) if kept.all() else (user[kept], item[kept])
        own = user // n_users * n_items + item
        counts.append(np.bincount(own, minlength=size))
        if repeats:
            first = np.unique(user * n_items + item, return_index=True)[1]
            own, user = own[first], user[first]
        length = np.bincount(user, minlength=batch.size)
        weights.append(np.bincount(own, weights=1 / np.sqrt(np.maximum(length, 1))[user], minlength=size))
        lists.append((length > 0).reshape(n_models, -1).sum(axis=1) if batch.size else np.zeros(n_models, dtype=np.int64))
    rows, totals = [n for n, _ in summed], [total for _, total in summed]
    found = np.flatnonzero(np.sum([*counts, *rows], axis=0))
    # Without an item there is no list to count either.
    models = np.arange(n_models) if len(found) else np.zeros(0, dtype=np.int64)
    some = np.concatenate([ids[found % n_items], np.repeat(ids[:1], len(models))])
    columns = [np.concatenate([one[found], own[models]]) for one, own in zip(counts, lists, strict=True)]
    columns += [np.concatenate([one[found], np.zeros(len(models), dtype=one.dtype)]) for one in (*weights, *rows, *totals)]
    codes = np.concatenate([found // n_items, -1 - models])
    return dict(zip(item_columns(len(counted), len(summed)), [some, codes, *columns], strict=True))


def kept_lists(batch: RankedBatch, ids: Any, counted: Sequence[CountSpec]) -> dict[str, Any]:
    """(U,) the items of each list, and their ranks, up to the largest cut-off of what is counted; None where there is no list.

    Args:
        batch: Users with recommended items.
        ids: The items by their number.
        counted: What is counted.
    """
    longest = None if any(k is None for _, k in counted) else max((k for _, k in counted if k is not None), default=0)
    user, item, rank = recommended(batch).upto(longest, "item", "rank")
    starts = np.append(np.flatnonzero(np.diff(user, prepend=-1)), len(user)).tolist()
    found = {LIST_ITEMS: np.full(batch.size, None), LIST_RANKS: np.full(batch.size, None)}
    for name, values in ((LIST_ITEMS, ids[item]), (LIST_RANKS, rank)):
        for start, end in pairwise(starts):
            found[name][user[start]] = values[start:end]
    return found


def counts_of(rows: Iterable[Mapping[str, Any]], n_items: int | None) -> dict[tuple[int, int], ItemCounts]:
    """By model and place among what is counted, how often items stand in the lists.

    Args:
        rows: `model, place, count, known, n, together`: how many items the model lists so often, and their part of
            `ItemCounts.together`; of a model -1 - m, the entries about lists.
        n_items: Size of the catalogue, where it is known.
    """
    counts: dict[tuple[int, int], dict[tuple[int, bool], int]] = {}
    together: dict[tuple[int, int], float] = {}
    lists: dict[tuple[int, int], int] = {}
    for row in sorted(rows, key=lambda row: (row["model"], row["place"], row["count"], row["known"])):
        model, place = row["model"], row["place"]
        if model < 0:
            key = (-1 - model, place)
            lists[key] = lists.get(key, 0) + row["count"] * row["n"]
            continue
        counts.setdefault((model, place), {})[row["count"], bool(row["known"])] = row["n"]
        together[model, place] = together.get((model, place), 0.0) + row["together"]
    return {key: ItemCounts(counts[key], n, n_items, together[key]) for key, n in lists.items() if key in counts}


def check_counts(counts: Mapping[tuple[int, int], ItemCounts]) -> None:
    """Refuse a number of items that is too small to be that of a catalogue.

    Raises:
        DataError: Lists have more items.
    """
    beyond = max((own.n_beyond for own in counts.values()), default=0)
    if beyond:
        raise DataError(f"catalog: expected all items that can be recommended, found {beyond} more in lists: give their number")


def item_values(
    metrics: Iterable[Metric], convention: Convention, counts: Mapping[tuple[int, int], ItemCounts], model: int
) -> dict[str, tuple[float | None, int]]:
    """By slug, value and number of users with a list, of the metrics of items of one model."""
    found: dict[str, tuple[float | None, int]] = {}
    of_items = [metric for metric in metrics if metric.definition.kind == "item"]
    counted = count_specs(of_items, convention)
    for metric in of_items:
        own = counts.get((model, counted.index(_counted(metric, convention))))
        value = np.nan if own is None else metric.definition.compute(own, **metric.options(convention))
        found[metric.slug] = (None if np.isnan(value) else float(value), 0 if own is None else own.n_lists)
    return found


def list_shares(
    rows: Mapping[str, Any],
    n_users: int,
    metrics: Sequence[Metric],
    convention: Convention,
    counts: Mapping[tuple[int, int], ItemCounts],
    n_models: int,
) -> Any:
    """(U, models * metrics) what each list adds to the values of metrics of items: (n - 1) (value - value without it).

    The mean of value + share over the n lists is the value that the jackknife gives; over lists that are drawn anew, it is a
    replicate of the value. NaN where a user has no list that counts, or there is no value without it.

    Args:
        rows: Columns with an entry for each item of a list: `user`, an index into the U users, `model`, `known`, whether the
            catalogue has the item; and for each place among what is counted, the entries of `item_columns` of this model and
            item, 0 where the list of this place does not hold it. With `item`, if lists may hold one twice.
        n_users: U.
        metrics: Metrics of items.
        convention: Their definitions.
        counts: By model and place, how often items stand in all lists.
        n_models: The number of models.

    Returns:
        The metrics of a model stand side by side.

    Source:
        Efron, The jackknife, the bootstrap and other resampling plans, SIAM 1982.
    """
    found = np.full((n_users, n_models, len(metrics)), np.nan)
    counted = count_specs(metrics, convention)
    for (model, place), own in counts.items():
        of_place = [number for number, metric in enumerate(metrics) if _counted(metric, convention) == counted[place]]
        held = np.flatnonzero((rows["model"] == model) & (rows[f"{ITEM_COUNTS}{place}"] > 0))
        if own.n_lists < 2 or not len(held) or not of_place:
            continue
        times = np.ones(len(held), dtype=np.int64)
        if "item" in rows:
            held, times = _each_once(held, rows["user"][held], rows["item"][held])
        users, user = np.unique(rows["user"][held], return_inverse=True)
        count, weight = rows[f"{ITEM_COUNTS}{place}"][held], rows[f"{ITEM_WEIGHTS}{place}"][held]
        lists = DistinctItems(user, times, count, rows["known"][held], weight, len(users))
        for number in of_place:
            definition, options = metrics[number].definition, metrics[number].options(convention)
            if definition.left_out is not None:
                value = definition.compute(own, **options)
                found[users, model, number] = (own.n_lists - 1) * (value - definition.left_out(own, lists, **options))
    return found.reshape(n_users, -1)


def _counted(metric: Metric, convention: Convention) -> CountSpec:
    return CountSpec(metric.users(convention), metric.k)


def _each_once(held: Any, user: Any, item: Any) -> tuple[Any, Any]:
    """One of the entries of each item of a list, and how many there are."""
    order = np.lexsort((item, user))
    new = np.append(True, (np.diff(user[order]) != 0) | (np.diff(item[order]) != 0))
    first = np.flatnonzero(new)
    return held[order][first], np.diff(np.append(first, len(order)))
