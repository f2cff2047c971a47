"""From PER_USER on Spark to the sums that the values of a model are computed from. Their size does not depend on the users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics import columns as col
from spark_recmetrics.aggregation.item_intervals import Shared, part_shares, share_ends
from spark_recmetrics.aggregation.pooled_auc import comparisons_won
from spark_recmetrics.aggregation.slices import PART_KEYS, Sliced, part_slices, whole_slice
from spark_recmetrics.aggregation.values import sums_of_items
from spark_recmetrics.conventions import MEMBERS
from spark_recmetrics.metrics.group_sums import MeasureSpec
from spark_recmetrics.metrics.item_counts import CountSpec
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.request.slices import bands_of
from spark_recmetrics.request.user_sums import SumSpec
from spark_recmetrics.scoring.partial_sums import part_totals
from spark_recmetrics.storage.table_schemas import PART_SHARES, PART_SLICES, SHARE_ENDS, SLICE_MEANS, TOTALS

if TYPE_CHECKING:
    import pandas as pd

_RANGES = "model string, range int, cut int, relevant bigint, others bigint, won double"


def user_totals(per_user: DataFrame, sums: SumSpec) -> DataFrame:
    """The rows of `part_totals`. The workers that score users aggregate them, unless PER_USER is the join of two tables."""
    if col.PART_TOTALS in per_user.columns:
        return per_user.select(F.inline(col.PART_TOTALS))
    # Spark needs more time to plan hundreds of aggregates than numpy needs for all users.
    used = per_user.select(*_used(per_user, sums, col.TRANSIENT))
    return used.mapInPandas(lambda parts: (part_totals(rows, sums) for rows in parts), TOTALS)


def _used(per_user: DataFrame, sums: SumSpec, others: Sequence[str]) -> list[str]:
    """The columns of PER_USER that `part_totals` reads, and others."""
    values = {tally.column for tally in sums.tallies}
    pooled = {f"{tally.column}_{of}" for tally in sums.tallies for of in ("total", "count") if tally.pooled}
    used = {"model", "user", *others, *col.COUNTERS, *Moments._fields, *values, *pooled}
    return [name for name in per_user.columns if name in used]


def slice_means(per_user: DataFrame, sliced: Sliced) -> DataFrame:
    """`table_schemas.SLICE_MEANS`, in one pass over PER_USER. A resampled confidence interval is in another row."""
    sums = SumSpec.of(sliced.metrics, sliced.convention)
    kept = _used(per_user, sums, [col.ITEM_SLICE, col.ITEM_VALUE, *(band.column for band in bands_of(sliced.slices))])
    hashed = [F.xxhash64("user").alias("user_hash")] if sliced.resamples else []

    def of_part(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd

        rows = [part for part in parts if len(part)]
        if rows:
            yield from part_slices(pd.concat(rows, ignore_index=True), sliced)

    parts = per_user.select(*kept, *hashed).mapInPandas(of_part, PART_SLICES)
    return parts.groupBy(*PART_KEYS).applyInPandas(lambda part: whole_slice(part, sliced), SLICE_MEANS)


def won_in_ranges(per_user: DataFrame, cuts: Sequence[int | None], edges: Mapping[str, Sequence[float]]) -> DataFrame:
    """The rows of `pooled_auc` per model and range of scores. The edges, by model, change only the amount of work per task."""
    position = F.lit(0)
    for model, ends in edges.items():
        position = F.when(F.col("model") == model, _range(ends, 0)).otherwise(position)
    pairs = per_user.select("model", F.inline(F.arrays_zip(col.PAIR_SCORES, col.PAIR_RANKS))).toDF("model", "score", "rank")
    in_ranges = pairs.withColumn("range", position).groupBy("model", "range")
    return in_ranges.applyInPandas(lambda part: comparisons_won(part, cuts), _RANGES)


def _range(ends: Sequence[float], first: int) -> Column:
    """The number of the range of a score, by binary search."""
    if not ends:
        return F.lit(first)
    half = len(ends) // 2
    lower, upper = _range(ends[:half], first), _range(ends[half + 1 :], first + half + 1)
    return F.when(F.col("score") <= ends[half], lower).otherwise(upper)


def counted_items(per_user: DataFrame, columns: Sequence[str], catalog: DataFrame | None, n_parts: int) -> DataFrame:
    """`model, item, known` (true without a catalog) and `item_columns`. A model -1 - m marks a row about the lists of m."""
    rows = per_user.where(F.col(col.ITEM_IDS).isNotNull()).select(F.inline(F.arrays_zip(*columns)))
    sums = [F.sum(name).alias(name) for name in columns[2:]]
    rows = rows.withColumnsRenamed({col.ITEM_MODELS: "model", col.ITEM_IDS: "item"}).repartition(n_parts, "item")
    items = rows.groupBy("model", "item").agg(*sums)
    if catalog is None:
        return items.withColumn("known", F.lit(True))
    items = items.join(catalog.distinct().withColumn("known", F.lit(True)), "item", "left")
    return items.withColumn("known", F.coalesce("known", F.lit(False)))


def item_histogram(items: DataFrame, n_counted: int) -> DataFrame:
    """The rows of `item_counts.counts_of`: at most about sqrt(2 rows) different counts, whatever the number of items."""
    parts = [
        F.struct(
            F.lit(place).alias("place"),
            F.col(f"{col.ITEM_COUNTS}{place}").alias("count"),
            (F.col(f"{col.ITEM_WEIGHTS}{place}") * F.col(f"{col.ITEM_WEIGHTS}{place}")).alias("together"),
        )
        for place in range(n_counted)
    ]
    long = items.select("model", "known", F.explode(F.array(*parts)).alias("part")).select("model", "known", "part.*")
    kept = long.where(F.col("count") > 0)
    return kept.groupBy("model", "place", "count", "known").agg(
        F.count(F.lit(1)).alias("n"), F.sum("together").alias("together")
    )


def sums_by_group(per_user: DataFrame) -> DataFrame:
    """The sums of groups in the lists of each model: the rows that `group_sums.sums_from_rows` reads."""
    keys = ("place", "model", "users", "group")
    opened = per_user.where(F.col(col.GROUP_ARRAYS[0]).isNotNull()).select(F.inline(F.arrays_zip(*col.GROUP_ARRAYS)))
    rows = opened.toDF(*keys, "n", "total")
    summed = rows.groupBy(*keys).agg(F.sum("n").alias("n"), F.sum("total").alias("total"))
    return summed.withColumns({"n_items": F.lit(0).cast("long"), "means": F.lit(0.0)})


def means_by_group(
    items: DataFrame, properties: DataFrame, measured: Sequence[MeasureSpec], names: Sequence[tuple[str, str]]
) -> DataFrame:
    """The same for the measures that are summed per item, from `counted_items` and `Known.items`."""
    grouped = items.where(F.col("model") >= 0).join(properties.select("item", col.ITEM_GROUPS), "item")
    opened = grouped.withColumn("group", F.explode(col.ITEM_GROUPS))
    parts = []
    for place, n_col, total_col, groups in sums_of_items(measured, names):
        row = F.struct(F.lit(place).alias("place"), F.col(n_col).alias("n"), F.col(total_col).alias("total"))
        parts.append(F.when((F.col(n_col) > 0) & F.col("group").isin(*groups), row))
    rows = opened.select("model", F.col("group").cast("int").alias("group"), F.explode(F.array(*parts)).alias("row"))
    rows = rows.where(F.col("row").isNotNull()).select("model", "group", "row.*")
    sums = [F.sum("n").alias("n"), F.sum("total").alias("total"), F.count(F.lit(1)).alias("n_items")]
    summed = rows.groupBy("place", "model", "group").agg(*sums, F.sum(F.col("total") / F.col("n")).alias("means"))
    return summed.withColumn("users", F.lit(None).cast("string"))


def listed_items(
    per_user: DataFrame, items: DataFrame, models: Sequence[str], counted: Sequence[CountSpec], *, repeats: bool
) -> DataFrame:
    """By user, `user_hash`, and `rows` for `item_counts.list_shares`, with a hash of the item if lists have `repeats`."""
    code = F.array_position(F.array(*map(F.lit, models)), F.col("model")).cast("int") - 1
    belongs = [reduce(lambda a, b: a & b, [F.col(name) > 0 for name in MEMBERS[users]], F.lit(True)) for users, _ in counted]
    flags = [belong.alias(f"belongs_{place}") for place, belong in enumerate(belongs)]
    entries = F.inline(F.arrays_zip(F.col(col.LIST_ITEMS).alias("item"), F.col(col.LIST_RANKS).alias("rank")))
    lists = per_user.where(F.col(col.LIST_ITEMS).isNotNull()).select(code.alias("model"), "user", *flags, entries)
    numbers = []
    for prefix in (col.ITEM_COUNTS, col.ITEM_WEIGHTS):
        for place, (_, k) in enumerate(counted):
            name = f"{prefix}{place}"
            inside = F.col(f"belongs_{place}") & (F.lit(True) if k is None else F.col("rank") <= k)
            numbers.append(F.when(inside, F.col(name)).otherwise(F.lit(0).cast(items.schema[name].dataType)).alias(name))
    hashed_item = [F.xxhash64("item").alias("item")] if repeats else []
    rows = lists.join(items, ["model", "item"]).select("user", F.struct("model", "known", *hashed_item, *numbers).alias("row"))
    # Sorted rows are always summed in the same order.
    of_user = rows.groupBy("user").agg(F.sort_array(F.collect_list("row")).alias("rows"))
    return of_user.select(F.xxhash64("user").alias("user_hash"), "rows")


def interval_ends(lists: DataFrame, shared: Shared) -> DataFrame:
    """`table_schemas.SHARE_ENDS`: confidence limits per model and metric, in one pass over the rows of `listed_items`."""
    parts = lists.mapInArrow(lambda batches: part_shares(batches, shared), PART_SHARES)
    return parts.groupBy("place").applyInPandas(lambda part: share_ends(part, shared.intervals.confidence), SHARE_ENDS)
