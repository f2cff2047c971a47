"""The ranked list of every user: a window over (model, user), by score, in a total order."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def top_rows(rows: DataFrame, *, k: int | None, ties: str, trust_rank: bool) -> DataFrame:
    """The first k rows of each list, with their `rank`.

    Args:
        rows: Canonical predictions, with `bucket` where they are partitioned by it. Where they have `judged`, judged rows come
            before all others, of which only the first row of a list is kept, so that no user is lost.
        k: Length to cut at, None for whole lists.
        ties: `item_asc`, `item_desc` or `input`, which a cluster cannot keep and takes as `item_asc`.
        trust_rank: Take the ranks that rows carry as they are; otherwise they only give the order.

    Returns:
        The rows with `rank`, from 1 unless it is trusted. Null scores come last and NaN scores first.
    """
    if not trust_rank:
        tie = F.col("item").desc() if ties == "item_desc" else F.col("item").asc()
        order = F.col("rank").asc() if "rank" in rows.columns else F.col("score").desc()
        # With the bucket among its keys the window finds its rows partitioned already.
        lists = Window.partitionBy("user", *(key for key in ("bucket", "model") if key in rows.columns))
        judged = [F.col("judged").desc()] if "judged" in rows.columns else []
        rows = rows.withColumn("rank", F.row_number().over(lists.orderBy(*judged, order, tie)))
        if judged:
            rows = rows.where(F.col("judged") | (F.col("rank") == 1)).drop("judged")
    return rows if k is None else rows.where(F.col("rank") <= k)


def without_repeats(rows: DataFrame) -> DataFrame:
    """One row per (model, user, item): the best-ranked or best-scored one."""
    by = [column for column in rows.columns if column not in ("score", "rank")]
    if "rank" not in rows.columns:
        return rows.groupBy(*by).agg(F.max("score").alias("score"))
    scores = [F.min_by("score", "rank").alias("score")] if "score" in rows.columns else []
    return rows.groupBy(*by).agg(F.min("rank").alias("rank"), *scores)
