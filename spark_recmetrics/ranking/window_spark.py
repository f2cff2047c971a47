"""Rank lists by a window function over (model, user), in a total order."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_recmetrics.conventions import Convention


def top_rows(
    rows: DataFrame, *, k: int | None, convention: Convention, trust_rank: bool, cuts: Collection[int] = ()
) -> DataFrame:
    """The first k rows of each list with their `rank`, and with `before_tie`: the next row has the same score."""
    # Judged rows, if only these compete, are first, and all are kept. Of `ties`, `input` is the same as `item_asc`.
    # Given ranks only decide the order, unless `trust_rank`. With them, or without `cuts`, there is no `before_tie`.
    judged, by_score = "judged" in rows.columns, "rank" not in rows.columns
    # With the bucket as a key, the window needs no further shuffle.
    lists = Window.partitionBy("user", *(key for key in ("bucket", "model") if key in rows.columns))
    best_score = F.desc_nulls_first("score") if convention.nan_scores == "first" else F.desc_nulls_last("score")
    best = best_score if by_score else F.col("rank").asc()
    item = F.col("item").desc() if convention.ties == "item_desc" else F.col("item").asc()
    in_order = lists.orderBy(*([F.col("judged").desc()] if judged else []), best, item)
    if not trust_rank:
        rows = rows.withColumn("rank", F.row_number().over(in_order))
    if k is None and not judged:
        return rows
    within = F.lit(True) if k is None else F.col("rank") <= k
    if judged:
        # Judged items are few. Those after rank k are relevant items that the list misses.
        within = F.col("judged") | within
    if not (by_score and cuts):
        return rows.where(within).drop("judged")
    # If a window computes only the rank, Spark drops rows beyond a limit before it ranks. The few remaining rows are already in
    # order for the second window.
    rows = rows if judged or k is None else rows.where(F.col("rank") <= k + 1)
    same = F.lead("item").over(in_order).isNotNull() & F.lead("score").over(in_order).eqNullSafe(F.col("score"))
    same = same & (F.lead("judged").over(in_order) == F.col("judged")) if judged else same
    return rows.withColumn("before_tie", F.coalesce(same, F.lit(False))).where(within).drop("judged")


def first_after(rows: DataFrame, k: int) -> DataFrame:
    """The first row after rank k of each list with given ranks."""
    lists = [column for column in ("bucket", "model", "user") if column in rows.columns]
    others = [column for column in rows.columns if column not in (*lists, "rank")]
    first = (
        rows.where(F.col("rank") > k)
        .groupBy(*lists)
        .agg(F.min("rank").alias("rank"), *(F.min_by(column, "rank").alias(column) for column in others))
    )
    return first.select(*rows.columns)


def without_repeats(rows: DataFrame, convention: Convention) -> DataFrame:
    """The row with the best rank or score of each (model, user, item), with `n_left_out`, the number of its repeats."""
    by = [column for column in rows.columns if column not in ("score", "rank")]
    others = (F.count(F.lit(1)) - 1).cast("int").alias("n_left_out")
    if "rank" not in rows.columns:
        best = F.max("score")
        if convention.nan_scores == "first":
            best = F.when(F.count("score") == F.count(F.lit(1)), best)
        return rows.groupBy(*by).agg(best.alias("score"), others)
    scores = [F.min_by("score", "rank").alias("score")] if "score" in rows.columns else []
    return rows.groupBy(*by).agg(F.min("rank").alias("rank"), *scores, others)
