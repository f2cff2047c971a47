"""The ranked list of every user: a window over (model, user), by score, in a total order."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F


def top_rows(rows: DataFrame, *, k: int | None, ties: str, trust_rank: bool, cuts: Collection[int] = ()) -> DataFrame:
    """The first k rows of each list, with their `rank`.

    Args:
        rows: Canonical predictions, with `bucket` where they are partitioned by it.
        k: Length to cut at, None for whole lists.
        cuts: Ranks at which ties are looked for, up to k.
        ties: `item_asc`, `item_desc` or `input`, which a cluster cannot keep and takes as `item_asc`.
        trust_rank: Take the ranks that rows carry as they are; otherwise they only give the order.

    Returns:
        The rows with `rank`, from 1 unless it is trusted. Null scores come last and NaN scores first. With cuts also
        `before_tie`, whether the row behind has the same score; ranks that were given leave no ties.
    """
    by_score, in_order = "rank" not in rows.columns, _lists(rows).orderBy(*_order(rows), _tie(ties))
    if not trust_rank:
        rows = rows.withColumn("rank", F.row_number().over(in_order))
    if k is None:
        return rows
    if not (by_score and cuts):
        return rows.where(F.col("rank") <= k)
    # Spark drops what stands behind a limit before it ranks, if nothing but the rank is asked of that window. The second one
    # finds its few rows in order already.
    rows = rows.where(F.col("rank") <= k + 1)
    same = F.lead("item").over(in_order).isNotNull() & F.lead("score").over(in_order).eqNullSafe(F.col("score"))
    return rows.withColumn("before_tie", same).where(F.col("rank") <= k)


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


def without_repeats(rows: DataFrame) -> DataFrame:
    """One row per (model, user, item): the best-ranked or best-scored one."""
    by = [column for column in rows.columns if column not in ("score", "rank")]
    if "rank" not in rows.columns:
        return rows.groupBy(*by).agg(F.max("score").alias("score"))
    scores = [F.min_by("score", "rank").alias("score")] if "score" in rows.columns else []
    return rows.groupBy(*by).agg(F.min("rank").alias("rank"), *scores)


def _lists(rows: DataFrame) -> WindowSpec:
    # With the bucket among its keys the window finds its rows partitioned already.
    return Window.partitionBy("user", *(key for key in ("bucket", "model") if key in rows.columns))


def _order(rows: DataFrame) -> list[Column]:
    return [F.col("rank").asc() if "rank" in rows.columns else F.col("score").desc()]


def _tie(ties: str) -> Column:
    return F.col("item").desc() if ties == "item_desc" else F.col("item").asc()
