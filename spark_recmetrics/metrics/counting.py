"""Count how often items stand in the lists of a batch, for all models, cut-offs and user sets at once, and add counts up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from spark_recmetrics.columns import ITEM_COUNTS, ITEM_IDS, ITEM_MODELS, ITEM_WEIGHTS, LIST_ITEMS, LIST_RANKS
from spark_recmetrics.conventions import MEMBERS, Convention
from spark_recmetrics.errors import DataError
from spark_recmetrics.metrics.batch import RankedBatch
from spark_recmetrics.metrics.items import ItemCounts
from spark_recmetrics.metrics.left_out import ListedItems
from spark_recmetrics.metrics.recommended import recommended
from spark_recmetrics.metrics.registry import Metric


class Counted(NamedTuple):
    """Whose lists are counted, and where they are cut."""

    users: str
    k: int | None


def counted_by(metrics: Iterable[Metric], convention: Convention) -> list[Counted]:
    """What has to be counted for metrics of items, each once."""
    of_items = (metric for metric in metrics if metric.definition.kind == "item")
    return list(dict.fromkeys(_counted(metric, convention) for metric in of_items))


def item_columns(n: int) -> list[str]:
    """The columns that `count_items` gives for n things that are counted."""
    return [ITEM_IDS, ITEM_MODELS, *(f"{name}{place}" for name in (ITEM_COUNTS, ITEM_WEIGHTS) for place in range(n))]


def count_items(
    batch: RankedBatch, counters: Mapping[str, Any], n_models: int, ids: Any, counted: Sequence[Counted], *, repeats: bool
) -> dict[str, Any]:
    """Arrays of one length, an entry for each model and item that it lists; and one for each model, about all its lists.

    Args:
        batch: Users of each model, one model behind the other, with recommended items.
        counters: (U,) counters, by name.
        n_models: The number of models.
        ids: The items by their number.
        counted: What is to be counted.
        repeats: Lists may hold an item twice, of which the vector of a list knows nothing.

    Returns:
        By the names of `item_columns`.
    """
    shown, n_users = recommended(batch), batch.size // max(n_models, 1)
    size = n_models * len(ids)
    key = shown.user // max(n_users, 1) * len(ids) + shown.item
    counts, weights, lists = [], [], []
    for users, k in counted:
        member = np.ones(batch.size, dtype=bool)
        for counter in MEMBERS[users]:
            member &= np.asarray(counters[counter]) > 0
        which = member[shown.user] if k is None else member[shown.user] & (shown.rank <= k)
        own, user = key[which], shown.user[which]
        counts.append(np.bincount(own, minlength=size))
        if repeats:
            pair = user * max(len(ids), 1) + shown.item[which]
            first = np.unique(pair, return_index=True)[1]
            own, user = own[first], user[first]
        length = np.bincount(user, minlength=batch.size)
        weights.append(np.bincount(own, weights=1 / np.sqrt(length[user]), minlength=size))
        lists.append((length > 0).reshape(n_models, n_users).sum(axis=1))
    found = np.flatnonzero(np.sum(counts, axis=0))
    # Without an item there is no list to count either.
    models = np.arange(n_models) if len(found) else np.zeros(0, dtype=np.int64)
    some = np.concatenate([ids[found % max(len(ids), 1)], np.repeat(ids[:1], len(models))])
    columns = [np.concatenate([one[found], own[models]]) for one, own in zip(counts, lists, strict=True)]
    columns += [np.concatenate([one[found], np.zeros(len(models))]) for one in weights]
    codes = np.concatenate([found // max(len(ids), 1), -1 - models])
    return dict(zip(item_columns(len(counted)), [some, codes, *columns], strict=True))


def kept_lists(batch: RankedBatch, ids: Any, counted: Sequence[Counted]) -> dict[str, Any]:
    """(U,) the items of each list, and their ranks, up to the largest cut-off of what is counted; None where there is no list.

    Args:
        batch: Users with recommended items.
        ids: The items by their number.
        counted: What is counted.
    """
    shown = recommended(batch)
    if all(k is not None for _, k in counted):
        shown = shown.kept(shown.rank <= max((k for _, k in counted if k is not None), default=0))
    ends = np.cumsum(np.bincount(shown.user, minlength=batch.size)).tolist()
    found = {LIST_ITEMS: np.full(batch.size, None), LIST_RANKS: np.full(batch.size, None)}
    for name, values in ((LIST_ITEMS, ids[shown.item]), (LIST_RANKS, shown.rank)):
        for user, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if end > start:
                found[name][user] = values[start:end]
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
    counted = counted_by(of_items, convention)
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
    counted = counted_by(metrics, convention)
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
        lists = ListedItems(user, times, count, rows["known"][held], weight, len(users))
        for number in of_place:
            definition, options = metrics[number].definition, metrics[number].options(convention)
            if definition.left_out is not None:
                value = definition.compute(own, **options)
                found[users, model, number] = (own.n_lists - 1) * (value - definition.left_out(own, lists, **options))
    return found.reshape(n_users, -1)


def _counted(metric: Metric, convention: Convention) -> Counted:
    return Counted(metric.users(convention), metric.k)


def _each_once(held: Any, user: Any, item: Any) -> tuple[Any, Any]:
    """One of the entries of each item of a list, and how many there are."""
    order = np.lexsort((item, user))
    new = np.append(True, (np.diff(user[order]) != 0) | (np.diff(item[order]) != 0))
    first = np.flatnonzero(new)
    return held[order][first], np.diff(np.append(first, len(order)))
