"""Intervals of metrics of items: what each list adds to a value, over users drawn anew, in one pass over the items of lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.aggregation.means import resampled_ends
from spark_recmetrics.columns import LIST_ITEMS, LIST_RANKS
from spark_recmetrics.conventions import MEMBERS, Convention
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.item_counts import CountSpec, ItemCounts, item_columns, list_shares
from spark_recmetrics.request.intervals import Intervals
from spark_recmetrics.stats.resample import bootstrap_sums, poisson_weights
from spark_recmetrics.storage.schemas import PART_SHARES, SHARE_ENDS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


USERS_AT_ONCE = 4096
"""How many users are resampled at once: their weights are a byte for each replicate."""


@dataclass(frozen=True)
class Shared:
    """What is to be known of the lists of users.

    Args:
        metrics: Metrics of items.
        convention: Their options.
        counts: By model and place among what is counted, how often items stand in all lists.
        n_models: The number of models.
        intervals: How intervals are computed.
    """

    metrics: tuple[Metric, ...]
    convention: Convention
    counts: Mapping[tuple[int, int], ItemCounts]
    n_models: int
    intervals: Intervals


def listed_items(
    per_user: DataFrame, items: DataFrame, models: Sequence[str], counted: Sequence[CountSpec], *, repeats: bool
) -> DataFrame:
    """The lists of every user, each item with how often it stands in all lists of the model.

    Args:
        per_user: PER_USER with the items of lists.
        items: The rows of `catalog.counted_items`.
        models: The models.
        counted: What is counted.
        repeats: Lists may hold an item twice.

    Returns:
        One row per user: `user_hash`, and `rows`, an array of what `item_counts.list_shares` looks at.
    """
    code = F.array_position(F.array(*map(F.lit, models)), F.col("model")).cast("int") - 1
    belongs = [reduce(lambda a, b: a & b, [F.col(name) > 0 for name in MEMBERS[users]], F.lit(True)) for users, _ in counted]
    flags = [belong.alias(f"belongs_{place}") for place, belong in enumerate(belongs)]
    entries = F.inline(F.arrays_zip(F.col(LIST_ITEMS).alias("item"), F.col(LIST_RANKS).alias("rank")))
    lists = per_user.where(F.col(LIST_ITEMS).isNotNull()).select(code.alias("model"), "user", *flags, entries)
    numbers = []
    for name in item_columns(len(counted))[2:]:
        place = int(name.rpartition("_")[2])
        k = counted[place].k
        inside = F.col(f"belongs_{place}") & (F.lit(True) if k is None else F.col("rank") <= k)
        numbers.append(F.when(inside, F.col(name)).otherwise(F.lit(0).cast(items.schema[name].dataType)).alias(name))
    twice = [F.xxhash64("item").alias("item")] if repeats else []
    rows = lists.join(items, ["model", "item"]).select("user", F.struct("model", "known", *twice, *numbers).alias("row"))
    # Sorted, so that sums are added in one order.
    of_user = rows.groupBy("user").agg(F.sort_array(F.collect_list("row")).alias("rows"))
    return of_user.select(F.xxhash64("user").alias("user_hash"), "rows")


def interval_ends(lists: DataFrame, shared: Shared) -> DataFrame:
    """How far the ends of the intervals lie from the values, in one pass over the lists.

    Neither what reaches the driver nor what a worker holds depends on the number of users or items.

    Args:
        lists: The rows of `listed_items`.
        shared: What is to be known.

    Returns:
        `schema.SHARE_ENDS`: a row for each model and metric that has an interval, by model * metrics + metric.
    """

    def of_part(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return part_shares(batches, shared)

    def together(parts: pd.DataFrame) -> pd.DataFrame:
        return share_ends(parts, shared.intervals.confidence)

    return lists.mapInArrow(of_part, PART_SHARES).groupBy("place").applyInPandas(together, SHARE_ENDS)


def part_shares(batches: Iterator[pa.RecordBatch], shared: Shared) -> Iterator[pa.RecordBatch]:
    """What some lists add to the values: in every replicate the weighted sum, and the weights that it is over.

    Args:
        batches: Rows of `listed_items`.
        shared: What is to be known.

    Yields:
        `schema.PART_SHARES`, once for all batches.
    """
    import pyarrow as pa

    n_columns, n = shared.n_models * len(shared.metrics), shared.intervals.n_resamples
    sums, counts = np.zeros((n, n_columns)), np.zeros((n, n_columns), dtype=np.int64)
    totals, n_lists = np.zeros(n_columns), np.zeros(n_columns, dtype=np.int64)
    for batch in batches:
        for start in range(0, batch.num_rows, USERS_AT_ONCE):
            some = batch.slice(start, USERS_AT_ONCE)
            shares = list_shares(
                *_entries(some.column("rows")), shared.metrics, shared.convention, shared.counts, shared.n_models
            )
            hashes = some.column("user_hash").to_numpy().view(np.uint64)
            found = bootstrap_sums(shares, poisson_weights(hashes, n, shared.intervals.seed))
            sums, counts = sums + found[0], counts + found[1]
            totals, n_lists = totals + np.nansum(shares, axis=0), n_lists + np.sum(~np.isnan(shares), axis=0)
    some_lists = np.flatnonzero(n_lists)
    columns = [some_lists.astype(np.int32), list(sums.T[some_lists]), list(counts.T[some_lists])]
    columns += [totals[some_lists], n_lists[some_lists]]
    kinds = [pa.int32(), pa.list_(pa.float64()), pa.list_(pa.int64()), pa.float64(), pa.int64()]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, names=PART_SHARES.names)


def _entries(rows: Any) -> tuple[dict[str, Any], int]:
    """The columns of an array of arrays of structs, with the number of the user of each entry, and how many users there are."""
    user = np.repeat(np.arange(len(rows)), rows.value_lengths().to_numpy())
    flat = rows.flatten()
    names = [field.name for field in flat.type]
    return {"user": user, **{name: flat.field(name).to_numpy(zero_copy_only=False) for name in names}}, len(rows)


def share_ends(parts: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How far the ends of the interval of one model and metric lie from its value.

    Args:
        parts: Rows of `part_shares` of one place.
        confidence: Of the interval.

    Returns:
        A row of `schema.SHARE_ENDS`, or none.
    """
    import pandas as pd

    sums, counts = (np.sum(np.stack(list(parts[name])), axis=0) for name in ("sums", "counts"))
    ends = resampled_ends(sums, counts, float(parts["total"].sum()), int(parts["n"].sum()), confidence)
    return pd.DataFrame([] if ends is None else [(parts["place"].iloc[0], *ends)], columns=SHARE_ENDS.names)
