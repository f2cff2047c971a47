"""The ranked list of every user: a window over (model, user), by score, in a total order."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from spark_recmetrics.conventions import Convention


def top_rows(
    rows: DataFrame, *, k: int | None, convention: Convention, trust_rank: bool, cuts: Collection[int] = ()
) -> DataFrame:
    """The first k rows of each list, with their `rank`.

    Args:
        rows: Clean predictions, with `bucket` where they are partitioned by it, and with `judged` where only items that the
            ground truth has compete: these come first, and all of them are kept.
        k: Length to cut at, None for whole lists.
        convention: Its `ties`, of which a cluster cannot keep `input` and takes it as `item_asc`, and `nan_scores`, which says
            where null scores stand.
        trust_rank: Take the ranks that rows carry as they are; otherwise they only give the order.
        cuts: Ranks at which ties are looked for, up to k.

    Returns:
        The rows with `rank`, from 1 unless it is trusted. With cuts also
        `before_tie`, whether the row behind has the same score; ranks that were given leave no ties.
    """
    judged = "judged" in rows.columns
    first = [F.col("judged").desc()] if judged else []
    by_score, in_order = "rank" not in rows.columns, _lists(rows).orderBy(*first, _order(rows, convention), _tie(convention))
    if not trust_rank:
        rows = rows.withColumn("rank", F.row_number().over(in_order))
    if k is None and not judged:
        return rows
    within = F.lit(True) if k is None else F.col("rank") <= k
    # Judged items are few, and those after rank k are relevant items that the list misses.
    within = F.col("judged") | within if judged else within
    if not (by_score and cuts):
        return rows.where(within).drop("judged")
    # Spark drops what follows a limit before it ranks, if nothing except the rank is asked of that window. The second one finds
    # its few rows in order already.
    rows = rows if judged or k is None else rows.where(F.col("rank") <= k + 1)
    same = F.lead("item").over(in_order).isNotNull() & F.lead("score").over(in_order).eqNullSafe(F.col("score"))
    same = same & (F.lead("judged").over(in_order) == F.col("judged")) if judged else same
    return rows.withColumn("before_tie", F.coalesce(same, F.lit(False))).where(within).drop("judged")


def first_behind(rows: DataFrame, k: int) -> DataFrame:
    """Of each list with given ranks, the first row behind rank k: k rows must stand before it."""
    lists = [column for column in ("bucket", "model", "user") if column in rows.columns]
    others = [column for column in rows.columns if column not in (*lists, "rank")]
    first = (
        rows.where(F.col("rank") > k)
        .groupBy(*lists)
        .agg(F.min("rank").alias("rank"), *(F.min_by(column, "rank").alias(column) for column in others))
    )
    return first.select(*rows.columns)


def without_repeats(rows: DataFrame, convention: Convention) -> DataFrame:
    """One row per (model, user, item): the best-ranked or best-scored one, with `n_left_out`, how many others there were."""
    by = [column for column in rows.columns if column not in ("score", "rank")]
    others = (F.count(F.lit(1)) - 1).cast("int").alias("n_left_out")
    if "rank" not in rows.columns:
        best = F.max("score")
        if convention.nan_scores == "first":
            best = F.when(F.count("score") == F.count(F.lit(1)), best)
        return rows.groupBy(*by).agg(best.alias("score"), others)
    scores = [F.min_by("score", "rank").alias("score")] if "score" in rows.columns else []
    return rows.groupBy(*by).agg(F.min("rank").alias("rank"), *scores, others)


def _lists(rows: DataFrame) -> WindowSpec:
    # With the bucket among its keys the window finds its rows partitioned already.
    return Window.partitionBy("user", *(key for key in ("bucket", "model") if key in rows.columns))


def _order(rows: DataFrame, convention: Convention) -> Column:
    if "rank" in rows.columns:
        return F.col("rank").asc()
    return F.desc_nulls_first("score") if convention.nan_scores == "first" else F.desc_nulls_last("score")


def _tie(convention: Convention) -> Column:
    return F.col("item").desc() if convention.ties == "item_desc" else F.col("item").asc()
