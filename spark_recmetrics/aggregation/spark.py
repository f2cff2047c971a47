"""From PER_USER on Spark to the sums that the values of a model are made of. Little reaches the driver, however many users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.aggregation.item_intervals import Shared, part_shares, share_ends
from spark_recmetrics.aggregation.pooled_auc import comparisons_won
from spark_recmetrics.aggregation.slices import Sliced, part_slices, whole_slice
from spark_recmetrics.columns import (
    COUNTERS,
    GROUP_ARRAYS,
    ITEM_COUNTS,
    ITEM_GROUPS,
    ITEM_IDS,
    ITEM_MODELS,
    ITEM_ROWS,
    ITEM_SLICE,
    ITEM_TOTALS,
    ITEM_VALUE,
    ITEM_WEIGHTS,
    LIST_ITEMS,
    LIST_RANKS,
    PAIR_RANKS,
    PAIR_SCORES,
    PART_TOTALS,
    TRANSIENT,
)
from spark_recmetrics.conventions import MEMBERS
from spark_recmetrics.metrics.group_sums import MeasureSpec, per_item_indexes
from spark_recmetrics.metrics.item_counts import CountSpec, item_columns
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.request.per_user import SumSpec
from spark_recmetrics.request.slices import bands_of
from spark_recmetrics.scoring.partial_sums import part_totals
from spark_recmetrics.storage.schemas import PART_SHARES, PART_SLICES, SHARE_ENDS, SLICE_MEANS, TOTALS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_RANGES = "model string, range int, cut int, relevant bigint, others bigint, won double"


def user_totals(per_user: DataFrame, sums: SumSpec) -> DataFrame:
    """The rows of `part_totals`, whose number does not depend on that of users.

    The workers that score also sum what they score. Where PER_USER is joined of two tables, its rows go to Python once more:
    hundreds of aggregates as Spark expressions take longer to plan than all users take in numpy.
    """
    if PART_TOTALS in per_user.columns:
        return per_user.select(F.inline(PART_TOTALS))

    def of_part(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for rows in parts:
            yield part_totals(rows, sums)

    return per_user.select(*_used(per_user, sums, TRANSIENT)).mapInPandas(of_part, TOTALS)


def _used(per_user: DataFrame, sums: SumSpec, others: Sequence[str]) -> list[str]:
    """The columns of PER_USER that `part_totals` looks at, and others."""
    values = {tally.column for tally in sums.tallies}
    pooled = {f"{tally.column}_{of}" for tally in sums.tallies for of in ("total", "count") if tally.pooled}
    used = {"model", "user", *others, *COUNTERS, *Moments._fields, *values, *pooled}
    return [name for name in per_user.columns if name in used]


def slice_means(per_user: DataFrame, sliced: Sliced) -> DataFrame:
    """The values of every model for every value of a slice, with their confidence intervals, in one pass over PER_USER.

    Args:
        per_user: PER_USER with the columns of the slices of users, and the rows of those of items.
        sliced: What is asked for.

    Returns:
        `schemas.SLICE_MEANS`: a row for each model, slice, value and metric; and a further row with the interval alone where
        values are resampled.
    """
    sums = SumSpec.of(sliced.metrics, sliced.convention)
    kept = _used(per_user, sums, [ITEM_SLICE, ITEM_VALUE, *(band.column for band in bands_of(sliced.slices))])
    hashed = [F.xxhash64("user").alias("user_hash")] if sliced.resamples else []

    def of_part(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd

        rows = [part for part in parts if len(part)]
        if rows:
            yield from part_slices(pd.concat(rows, ignore_index=True), sliced)

    def together(parts: pd.DataFrame) -> pd.DataFrame:
        return whole_slice(parts, sliced)

    parts = per_user.select(*kept, *hashed).mapInPandas(of_part, PART_SLICES)
    return parts.groupBy("model", "slice", "slice_value", "metric").applyInPandas(together, SLICE_MEANS)


def won_in_ranges(per_user: DataFrame, cuts: Sequence[int | None], edges: Mapping[str, Sequence[float]]) -> DataFrame:
    """Within ranges of scores, the rows that `pooled_auc` reads.

    Args:
        per_user: PER_USER with arrays of matched pairs.
        cuts: Cut-offs of the ranks, None for full lists.
        edges: By model, where its ranges end. They change nothing except how much work a task has.
    """
    position = F.lit(0)
    for model, ends in edges.items():
        position = F.when(F.col("model") == model, _range(ends, 0)).otherwise(position)
    pairs = per_user.select("model", F.inline(F.arrays_zip(PAIR_SCORES, PAIR_RANKS))).toDF("model", "score", "rank")

    def of_range(pairs: pd.DataFrame) -> pd.DataFrame:
        return comparisons_won(pairs, cuts)

    return pairs.withColumn("range", position).groupBy("model", "range").applyInPandas(of_range, _RANGES)


def _range(ends: Sequence[float], first: int) -> Column:
    """The number of the range that a score falls into, found by halving."""
    if not ends:
        return F.lit(first)
    half = len(ends) // 2
    lower, upper = _range(ends[:half], first), _range(ends[half + 1 :], first + half + 1)
    return F.when(F.col("score") <= ends[half], lower).otherwise(upper)


def counted_items(per_user: DataFrame, columns: Sequence[str], catalog: DataFrame | None, n_parts: int) -> DataFrame:
    """How often each item stands in the lists: `model, item, known`, and the numbers of `metrics.item_counts.item_columns`.

    Of a model -1 - m they are about its lists, not about the item.

    Args:
        per_user: PER_USER with the arrays of `metrics.item_counts.count_items`; `model` is the place of the model.
        columns: `metrics.item_counts.item_columns`.
        catalog: `item` of the catalogue, where there is a table of it; else every item is known.
        n_parts: Number of partitions.
    """
    rows = per_user.where(F.col(ITEM_IDS).isNotNull()).select(F.inline(F.arrays_zip(*columns)))
    sums = [F.sum(name).alias(name) for name in columns[2:]]
    rows = rows.withColumnsRenamed({ITEM_MODELS: "model", ITEM_IDS: "item"}).repartition(n_parts, "item")
    items = rows.groupBy("model", "item").agg(*sums)
    if catalog is None:
        return items.withColumn("known", F.lit(True))
    items = items.join(catalog.distinct().withColumn("known", F.lit(True)), "item", "left")
    return items.withColumn("known", F.coalesce("known", F.lit(False)))


def item_histogram(items: DataFrame, n_counted: int) -> DataFrame:
    """How many items a model lists how often: `model, place, count, known, n, together`, as `item_counts.counts_of` reads it.

    Its size does not depend on the number of items: there are at most about sqrt(2 rows) different counts.

    Args:
        items: The rows of `counted_items`.
        n_counted: How many things are counted.
    """
    parts = [
        F.struct(
            F.lit(place).alias("place"),
            F.col(f"{ITEM_COUNTS}{place}").alias("count"),
            (F.col(f"{ITEM_WEIGHTS}{place}") * F.col(f"{ITEM_WEIGHTS}{place}")).alias("together"),
        )
        for place in range(n_counted)
    ]
    long = items.select("model", "known", F.explode(F.array(*parts)).alias("part")).select("model", "known", "part.*")
    kept = long.where(F.col("count") > 0)
    return kept.groupBy("model", "place", "count", "known").agg(
        F.count(F.lit(1)).alias("n"), F.sum("together").alias("together")
    )


_KEYS = ("place", "model", "users", "group")


def sums_by_group(per_user: DataFrame) -> DataFrame:
    """What groups have in the lists of each model: the rows that `metrics.group_sums.sums_from_rows` reads.

    Args:
        per_user: PER_USER with the arrays of `metrics.group_sums.measure_groups`.
    """
    opened = per_user.where(F.col(GROUP_ARRAYS[0]).isNotNull()).select(F.inline(F.arrays_zip(*GROUP_ARRAYS)))
    rows = opened.toDF(*_KEYS, "n", "total")
    added = rows.groupBy(*_KEYS).agg(F.sum("n").alias("n"), F.sum("total").alias("total"))
    return added.withColumns({"n_items": F.lit(0).cast("long"), "means": F.lit(0.0)})


def means_by_group(
    items: DataFrame, known: DataFrame, measured: Sequence[MeasureSpec], names: Sequence[tuple[str, str]]
) -> DataFrame:
    """The same of what is measured item by item.

    Args:
        items: Items of lists by `catalog.counted_items`.
        known: Items by `catalog.item_sides`.
        measured: What is measured.
        names: The groups, by column and name.
    """
    grouped = items.where(F.col("model") >= 0).join(known.select("item", ITEM_GROUPS), "item")
    opened = grouped.withColumn("group", F.explode(ITEM_GROUPS))
    parts = []
    for number, place in enumerate(per_item_indexes(measured)):
        column = measured[place].items
        own = [code for code, (name, _) in enumerate(names) if column is not None and name == column.column]
        n, total = F.col(f"{ITEM_ROWS}{number}"), F.col(f"{ITEM_TOTALS}{number}")
        row = F.struct(F.lit(place).alias("place"), n.alias("n"), total.alias("total"))
        parts.append(F.when((n > 0) & F.col("group").isin(*own), row))
    rows = opened.select("model", F.col("group").cast("int").alias("group"), F.explode(F.array(*parts)).alias("row"))
    rows = rows.where(F.col("row").isNotNull()).select("model", "group", "row.*")
    sums = [F.sum("n").alias("n"), F.sum("total").alias("total"), F.count(F.lit(1)).alias("n_items")]
    found = rows.groupBy("place", "model", "group").agg(*sums, F.sum(F.col("total") / F.col("n")).alias("means"))
    return found.withColumn("users", F.lit(None).cast("string"))


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
