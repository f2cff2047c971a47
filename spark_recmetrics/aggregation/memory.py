"""From PER_USER in memory to the sums that the values of a model are computed from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from spark_recmetrics import columns as col
from spark_recmetrics.aggregation.item_intervals import Shared, part_shares, share_ends
from spark_recmetrics.aggregation.pooled_auc import comparisons_won
from spark_recmetrics.aggregation.slices import MEAN_COLUMNS, PART_KEYS, Sliced, part_slices, whole_slice
from spark_recmetrics.aggregation.values import sums_of_items
from spark_recmetrics.inputs.hashing import user_hashes
from spark_recmetrics.metrics.arrays import numbered, rows_by
from spark_recmetrics.metrics.group_sums import MeasureSpec
from spark_recmetrics.metrics.item_counts import CountSpec
from spark_recmetrics.scoring.partial_sums import in_population


def won_in_ranges(per_user: pd.DataFrame, cuts: Sequence[int | None]) -> list[tuple[Any, ...]]:
    """The rows that `pooled_auc` reads, with one range of scores per model."""
    rows: list[tuple[Any, ...]] = []
    if not cuts or col.PAIR_RANKS not in per_user:
        return rows
    for of_model in rows_by(_filled(per_user, col.PAIR_RANKS), ["model"]):
        ranks, scores = (np.concatenate(of_model[name].tolist()) for name in (col.PAIR_RANKS, col.PAIR_SCORES))
        if len(ranks):
            pairs = pd.DataFrame({"model": of_model["model"].iloc[0], "range": 0, "score": scores, "rank": ranks})
            rows += comparisons_won(pairs, cuts).itertuples(index=False, name=None)
    return rows


def _filled(per_user: pd.DataFrame, column: str) -> pd.DataFrame:
    """The rows with an array in this column."""
    return per_user[[array is not None for array in per_user[column]]]


def _joined(arrays: Any) -> Any:
    return np.concatenate([np.asarray(array) for array in arrays] or [np.zeros(0)])


def counted_items(per_user: pd.DataFrame, columns: Sequence[str], catalog: pa.ChunkedArray | None) -> pd.DataFrame:
    """How often each item is in the lists: `model, item, known`, and the numbers of `item_counts.item_columns`."""
    filled = _filled(per_user, col.ITEM_IDS)
    rows = pd.DataFrame({name: _joined(filled[name]) for name in columns}).rename(
        columns={col.ITEM_MODELS: "model", col.ITEM_IDS: "item"}
    )
    (code,), ids = numbered(rows["item"])
    items = rows.assign(item=code).groupby(["model", "item"], sort=False).sum().reset_index()
    # Entries about lists have no item.
    items["item"] = pd.Series([None if number < 0 else ids[number] for number in items["item"]], dtype=object)
    known = np.ones(len(items), dtype=bool) if catalog is None else items["item"].isin(set(catalog.to_pylist())).to_numpy()
    return items.assign(known=known)


def item_histogram(items: pd.DataFrame, n_counted: int) -> list[dict[str, Any]]:
    """How many items are how often in the lists of a model: the rows that `item_counts.counts_of` reads."""
    rows: list[dict[str, Any]] = []
    for place in range(n_counted):
        count, weight = items[f"{col.ITEM_COUNTS}{place}"], items[f"{col.ITEM_WEIGHTS}{place}"]
        part = items[["model", "known"]].assign(count=count, together=weight * weight)[count > 0]
        grouped = part.groupby(["model", "count", "known"], sort=False)["together"].agg(n="size", together="sum")
        rows += grouped.reset_index().assign(place=place).to_dict("records")  # type: ignore[arg-type]
    return rows


def sums_by_group(per_user: pd.DataFrame) -> list[dict[str, Any]]:
    """The sums of groups in the lists of each model: the rows that `group_sums.sums_from_rows` reads."""
    filled = _filled(per_user, col.GROUP_ARRAYS[0])
    if not len(filled):
        return []
    keys = ["place", "model", "users", "group"]
    arrays = [np.concatenate([np.asarray(array, dtype=object) for array in filled[name]]) for name in col.GROUP_ARRAYS]
    rows = pd.DataFrame(dict(zip([*keys, "n", "total"], arrays, strict=True)))
    rows = rows.astype({"n": np.int64, "total": np.float64})
    summed = rows.groupby(keys, sort=False, dropna=False)[["n", "total"]].sum().reset_index()
    records = summed.astype(object).where(summed.notna(), None).to_dict("records")
    return [{**{str(name): value for name, value in row.items()}, "n_items": 0, "means": 0.0} for row in records]


def means_by_group(
    items: pd.DataFrame, properties: pd.DataFrame, measured: Sequence[MeasureSpec], names: Sequence[tuple[str, str]]
) -> list[dict[str, Any]]:
    """The same for the measures that are summed per item, from `counted_items` and `Known.items`."""
    of_lists = items[items["model"] >= 0]
    (item, grouped_item), _ = numbered(of_lists["item"], properties["item"])
    of_items = of_lists.assign(item=item).merge(properties[[col.ITEM_GROUPS]].assign(item=grouped_item), on="item")
    opened = of_items.explode(col.ITEM_GROUPS).dropna(subset=[col.ITEM_GROUPS])
    rows: list[dict[str, Any]] = []
    for place, n_col, total_col, groups in sums_of_items(measured, names):
        n, total = opened[n_col], opened[total_col]
        part = opened[["model"]].assign(n=n, total=total, means=total / n, group=opened[col.ITEM_GROUPS].astype(int), n_items=1)
        part = part[(n > 0) & part["group"].isin(groups)]
        summed = part.groupby(["model", "group"], sort=False)[["n", "total", "n_items", "means"]].sum().reset_index()
        rows += summed.assign(place=place, users=None).to_dict("records")  # type: ignore[arg-type]
    return rows


def slice_means(per_user: pd.DataFrame, sliced: Sliced) -> list[dict[str, Any]]:
    """The values of every model for every value of a slice: the rows of `slices.whole_slice`."""
    rows = per_user.assign(user_hash=user_hashes(per_user["user"], per_user)) if sliced.resamples else per_user
    parts = [part for part in part_slices(rows, sliced) if len(part)]
    if not parts:
        return []
    values: list[dict[str, Any]] = []
    for part in rows_by(pd.concat(parts, ignore_index=True), PART_KEYS):
        of_slice = whole_slice(part, sliced)
        of_slice = of_slice.astype(object).where(of_slice.notna(), None)
        values += [dict(zip(MEAN_COLUMNS, row, strict=True)) for row in of_slice.itertuples(index=False)]
    return values


def interval_ends(lists: pa.RecordBatch, shared: Shared) -> list[tuple[Any, ...]]:
    """The rows of `share_ends`: confidence limits per model and metric."""
    (parts,) = part_shares(iter([lists]), shared)
    by_place = (part for _, part in parts.to_pandas().groupby("place"))
    ends = (share_ends(part, shared.intervals.confidence) for part in by_place)
    return [row for of_place in ends for row in of_place.itertuples(index=False, name=None)]


def listed_items(
    per_user: pd.DataFrame, items: pd.DataFrame, models: Sequence[str], counted: Sequence[CountSpec], *, repeats: bool
) -> pa.RecordBatch:
    """The lists of every user with the counts of their items, see `spark.listed_items`."""
    lists = _filled(per_user, col.LIST_ITEMS)
    lengths = np.fromiter(map(len, lists[col.LIST_ITEMS]), dtype=np.int64, count=len(lists))
    code = {model: number for number, model in enumerate(models)}
    listed = pd.DataFrame(
        {
            "model": np.repeat([code[model] for model in lists["model"]], lengths),
            "user": np.repeat(lists["user"].to_numpy(), lengths),
            "item": _joined(lists[col.LIST_ITEMS]),
            "rank": _joined(lists[col.LIST_RANKS]),
        }
    )
    columns = {str(name): column.to_numpy() for name, column in lists.items()}
    for place, (users, k) in enumerate(counted):
        listed[f"belongs_{place}"] = np.repeat(in_population(columns, users), lengths) & (listed["rank"] <= (k or np.inf))
    (item, counted_item), _ = numbered(listed["item"], items["item"])
    joined = listed.assign(item=item).merge(items.assign(item=counted_item), on=["model", "item"])
    names = ["model", "known", *(["item"] if repeats else [])]
    for prefix in (col.ITEM_COUNTS, col.ITEM_WEIGHTS):
        for place in range(len(counted)):
            name = f"{prefix}{place}"
            joined[name] = joined[name].where(joined[f"belongs_{place}"], 0)
            names.append(name)
    (number,), users = numbered(joined["user"])
    by_user = joined.iloc[np.argsort(number, kind="stable")]
    structs = pa.StructArray.from_arrays([pa.array(by_user[name].to_numpy()) for name in names], names=names)
    ends = np.append(0, np.cumsum(np.bincount(number, minlength=len(users))))
    hashes = user_hashes(users, per_user)
    return pa.RecordBatch.from_arrays(
        [pa.array(hashes), pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs)], names=["user_hash", "rows"]
    )
