"""The ranked list of every user: a window over (model, user), by score, in a total order."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import reduce
from operator import and_

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


def rows_that_matter(
    rows: DataFrame,
    *,
    cuts: Collection[int],
    cuts_listed: Collection[int],
    n_shown: int | None,
    ties: str,
    trust_rank: bool,
    judged_only: bool,
    needs: Collection[str],
) -> DataFrame:
    """Of whole lists, the rows that can change a number: those with a truth row, each last one, repeats, and those at cuts.

    A list of millions stays in the JVM, where a window may spill, and its ranks and counts leave it.

    Args:
        rows: Canonical predictions with `judged`, and `seen` where `needs` has "unseen". With `copies`, how many
            rows stand behind each, where that was counted.
        cuts: Ranks at which ties are looked for.
        cuts_listed: Ranks up to which scores are summed.
        n_shown: The first rows of each list that are wanted as they are, None for all.
        ties: As for `top_rows`.
        trust_rank: As for `top_rows`.
        judged_only: Rank the judged rows before all others, of which only the first of a list is kept, so that no user is lost.
        needs: "every" and "unseen": places among all or among unseen candidates; "ties": with how many are tied.

    Returns:
        The rows with `rank`, and counts that run along the list, so that the last row has them all:
        `n_faults` ranks that are not the row's place, `unseen_place`, `score_so_far` (a missing or infinite score adds
        nothing). `before_tie` as for `top_rows`; with ties also `after_tie`, and the first and the last row of each tie.
    """
    first = [F.col("judged").desc()] if judged_only else []
    order = [*first, *_order(rows)]
    lists = _lists(rows)
    in_order = lists.orderBy(*order, _tie(ties))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    place = F.row_number().over(in_order)
    found: dict[str, Column] = {"last": F.lead("user").over(in_order).isNull()}
    if trust_rank:
        found["n_faults"] = F.sum((F.col("rank") != place).cast("long")).over(so_far)
    else:
        found["rank"] = place
    if "listed" in needs and "score" in rows.columns:
        score = F.col("score").cast("double")
        found["score_so_far"] = F.sum(F.when(F.abs(score) < float("inf"), score).otherwise(0.0)).over(so_far)
    if "unseen" in needs:
        found["unseen_place"] = F.sum((~F.col("seen")).cast("long")).over(so_far)
    kept = F.col("judged") | (F.col("rank") == 1 if judged_only else F.col("last"))
    if cuts_listed:
        kept |= F.col("rank").isin(*cuts_listed)
    if "copies" in rows.columns and not judged_only:
        kept |= F.col("copies") > 1
    if n_shown is None:
        kept = F.lit(True)
    elif n_shown:
        kept |= F.col("rank") <= n_shown
    # Ranks that were given leave no ties.
    if "rank" in rows.columns:
        return rows.withColumns(found).where(kept)
    keys = ["judged", "score"] if judged_only else ["score"]

    def tied_with(beside: Callable[[str], Column]) -> Column:
        return reduce(and_, (beside(key).over(in_order).eqNullSafe(F.col(key)) for key in keys))

    found["before_tie"] = ~found["last"] & tied_with(F.lead)
    if cuts:
        kept |= F.col("rank").isin(*cuts) & F.col("before_tie")
    if "ties" in needs:
        found["after_tie"] = (place > 1) & tied_with(F.lag)
        # The first and the last row of a tie tell where it stands, and how many are unseen above and in it.
        kept |= F.col("after_tie") != F.col("before_tie")
    return rows.withColumns(found).where(kept)


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
