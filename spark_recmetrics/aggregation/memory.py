"""From PER_USER in memory to the sums that the values of a model are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.aggregation.item_intervals import Shared, part_shares, share_ends
from spark_recmetrics.aggregation.pooled_auc import comparisons_won
from spark_recmetrics.aggregation.slices import MEAN_COLUMNS, PART_KEYS, Sliced, part_slices, whole_slice
from spark_recmetrics.columns import (
    GROUP_ARRAYS,
    ITEM_COUNTS,
    ITEM_GROUPS,
    ITEM_IDS,
    ITEM_MODELS,
    ITEM_ROWS,
    ITEM_TOTALS,
    ITEM_WEIGHTS,
    LIST_ITEMS,
    LIST_RANKS,
    PAIR_RANKS,
    PAIR_SCORES,
)
from spark_recmetrics.inputs.hashing import xxhash64
from spark_recmetrics.metrics.arrays import numbered, rows_by
from spark_recmetrics.metrics.group_sums import per_item_indexes
from spark_recmetrics.metrics.item_counts import CountSpec, item_columns
from spark_recmetrics.scoring.partial_sums import in_population

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from spark_recmetrics.metrics.group_sums import MeasureSpec


USER_TYPE = "type of users"
"""Where PER_USER keeps the Arrow type that ids had in the caller's tables, among `attrs` of the frame."""


def kind_of(per_user: pd.DataFrame) -> pa.DataType:
    """The Arrow type of the users of PER_USER."""
    return per_user.attrs[USER_TYPE]


def user_hashes(users: Any, kind: pa.DataType) -> Any:
    """(R,) the hash of each user, as Spark has it."""
    import pyarrow as pa

    return xxhash64(pa.chunked_array([pa.array(users, kind)])).view(np.int64)


def won_in_ranges(per_user: pd.DataFrame, cuts: Sequence[int | None]) -> list[tuple[Any, ...]]:
    """The rows that `pooled_auc` reads, in one range for each model."""
    import pandas as pd

    rows: list[tuple[Any, ...]] = []
    if not cuts or PAIR_RANKS not in per_user:
        return rows
    there = per_user[[ranks is not None for ranks in per_user[PAIR_RANKS]]]
    for own in rows_by(there, ["model"]):
        model = own["model"].iloc[0]
        ranks, scores = (np.concatenate(own[name].tolist()) for name in (PAIR_RANKS, PAIR_SCORES))
        if len(ranks):
            pairs = pd.DataFrame({"model": model, "range": 0, "score": scores, "rank": ranks})
            rows += comparisons_won(pairs, cuts).itertuples(index=False, name=None)
    return rows


def counted_items(per_user: pd.DataFrame, columns: Sequence[str], catalog: pa.ChunkedArray | None) -> pd.DataFrame:
    """How often each item is in the lists: `model, item, known`, and the numbers of `metrics.item_counts.item_columns`."""
    import pandas as pd

    there = per_user[[ids is not None for ids in per_user[ITEM_IDS]]]
    arrays = {name: np.concatenate([np.asarray(own) for own in there[name]] or [np.zeros(0)]) for name in columns}
    rows = pd.DataFrame(arrays).rename(columns={ITEM_MODELS: "model", ITEM_IDS: "item"})
    (code,), ids = numbered(rows["item"])
    items = rows.assign(item=code).groupby(["model", "item"], sort=False).sum().reset_index()
    # Entries about lists have no item.
    items["item"] = pd.Series([None if number < 0 else ids[number] for number in items["item"]], dtype=object)
    known = np.ones(len(items), dtype=bool) if catalog is None else items["item"].isin(set(catalog.to_pylist())).to_numpy()
    return items.assign(known=known)


def item_histogram(items: pd.DataFrame, n_counted: int) -> list[dict[str, Any]]:
    """How many items a model lists how often, as `item_counts.counts_of` reads it."""
    rows: list[dict[str, Any]] = []
    for place in range(n_counted):
        count, weight = items[f"{ITEM_COUNTS}{place}"], items[f"{ITEM_WEIGHTS}{place}"]
        part = items[["model", "known"]].assign(count=count, together=weight * weight)[count > 0]
        grouped = part.groupby(["model", "count", "known"], sort=False)["together"].agg(n="size", together="sum")
        rows += grouped.reset_index().assign(place=place).to_dict("records")  # type: ignore[arg-type]
    return rows


def sums_by_group(per_user: pd.DataFrame) -> list[dict[str, Any]]:
    """What groups have in the lists of each model: the rows that `group_sums.sums_from_rows` reads."""
    import pandas as pd

    there = per_user[[arrays is not None for arrays in per_user[GROUP_ARRAYS[0]]]]
    if not len(there):
        return []
    keys = ["place", "model", "users", "group"]
    arrays = [np.concatenate([np.asarray(own, dtype=object) for own in there[name]]) for name in GROUP_ARRAYS]
    rows = pd.DataFrame(dict(zip([*keys, "n", "total"], arrays, strict=True)))
    rows = rows.astype({"n": np.int64, "total": np.float64})
    summed = rows.groupby(keys, sort=False, dropna=False)[["n", "total"]].sum().reset_index()
    records = summed.astype(object).where(summed.notna(), None).to_dict("records")
    return [{**{str(name): value for name, value in row.items()}, "n_items": 0, "means": 0.0} for row in records]


def means_by_group(
    items: pd.DataFrame, known: pd.DataFrame, measured: Sequence[MeasureSpec], names: Sequence[tuple[str, str]]
) -> list[dict[str, Any]]:
    """The same of what is measured item by item."""
    of_lists = items[items["model"] >= 0]
    (item, grouped_item), _ = numbered(of_lists["item"], known["item"])
    of_items = of_lists.assign(item=item).merge(known[[ITEM_GROUPS]].assign(item=grouped_item), on="item")
    opened = of_items.explode(ITEM_GROUPS).dropna(subset=[ITEM_GROUPS])
    rows: list[dict[str, Any]] = []
    for number, place in enumerate(per_item_indexes(measured)):
        column = measured[place].items
        own = [code for code, (name, _) in enumerate(names) if column is not None and name == column.column]
        n, total = opened[f"{ITEM_ROWS}{number}"], opened[f"{ITEM_TOTALS}{number}"]
        part = opened[["model"]].assign(n=n, total=total, means=total / n, group=opened[ITEM_GROUPS].astype(int), n_items=1)
        part = part[(n > 0) & part["group"].isin(own)]
        summed = part.groupby(["model", "group"], sort=False)[["n", "total", "n_items", "means"]].sum().reset_index()
        rows += summed.assign(place=place, users=None).to_dict("records")  # type: ignore[arg-type]
    return rows


def slice_means(per_user: pd.DataFrame, sliced: Sliced) -> list[dict[str, Any]]:
    """The values of every model for every value of a slice, as `slices.whole_slice` gives them."""
    import pandas as pd

    rows = per_user.assign(user_hash=user_hashes(per_user["user"], kind_of(per_user))) if sliced.resamples else per_user
    parts = [part for part in part_slices(rows, sliced) if len(part)]
    if not parts:
        return []
    together = pd.concat(parts, ignore_index=True)
    values: list[dict[str, Any]] = []
    for part in rows_by(together, PART_KEYS):
        rows_of_slice = whole_slice(part, sliced)
        rows_of_slice = rows_of_slice.astype(object).where(rows_of_slice.notna(), None)
        values += [dict(zip(MEAN_COLUMNS, row, strict=True)) for row in rows_of_slice.itertuples(index=False)]
    return values


def item_ends(lists: pa.RecordBatch, shared: Shared) -> dict[int, tuple[float, float]]:
    """By position of a model and metric, how far the ends of its interval are from the value.

    Args:
        lists: The batch of `listed_items`.
        shared: What is asked for.
    """
    ends: dict[int, tuple[float, float]] = {}
    for part in part_shares(iter([lists]), shared):
        for _, of_place in part.to_pandas().groupby("place"):
            for place, low, high in share_ends(of_place, shared.intervals.confidence).itertuples(index=False):
                ends[int(place)] = (low, high)
    return ends


def listed_items(
    per_user: pd.DataFrame, items: pd.DataFrame, models: Sequence[str], counted: Sequence[CountSpec], *, repeats: bool
) -> pa.RecordBatch:
    """The lists of every user, each item with how often it is in all lists, as `aggregation.spark.listed_items` gives them."""
    import pandas as pd
    import pyarrow as pa

    there = per_user[[own is not None for own in per_user[LIST_ITEMS]]]
    lengths = np.fromiter(map(len, there[LIST_ITEMS]), dtype=np.int64, count=len(there))
    code = {model: number for number, model in enumerate(models)}
    values = {str(name): column.to_numpy() for name, column in there.items()}
    rows = {
        "model": np.repeat([code[model] for model in there["model"]], lengths),
        "user": np.repeat(there["user"].to_numpy(), lengths),
        "item": np.concatenate([np.asarray(own) for own in there[LIST_ITEMS]] or [np.zeros(0)]),
        "rank": np.concatenate([np.asarray(own) for own in there[LIST_RANKS]] or [np.zeros(0)]),
        **{f"belongs_{n}": np.repeat(in_population(values, users), lengths) for n, (users, _) in enumerate(counted)},
    }
    listed = pd.DataFrame(rows)
    (item, counted_item), _ = numbered(listed["item"], items["item"])
    joined = listed.assign(item=item).merge(items.assign(item=counted_item), on=["model", "item"])
    names = item_columns(len(counted))[2:]
    for name in names:
        place = int(name.rpartition("_")[2])
        k = counted[place].k
        inside = joined[f"belongs_{place}"] & (True if k is None else joined["rank"] <= k)
        joined[name] = joined[name].where(inside, 0)
    (number,), users = numbered(joined["user"])
    order = np.argsort(number, kind="stable")
    columns = {name: joined[name].to_numpy()[order] for name in ("model", "known")}
    columns |= {"item": joined["item"].to_numpy()[order]} if repeats else {}
    columns |= {name: joined[name].to_numpy()[order] for name in names}
    structs = pa.StructArray.from_arrays([pa.array(column) for column in columns.values()], names=list(columns))
    ends = np.append(0, np.cumsum(np.bincount(number, minlength=len(users))))
    hashes = user_hashes(users, kind_of(per_user))
    return pa.RecordBatch.from_arrays(
        [pa.array(hashes), pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs)], names=["user_hash", "rows"]
    )
