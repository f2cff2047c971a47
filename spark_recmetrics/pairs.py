"""ROC AUC over the matched pairs of all users: scores of different users compared with one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from spark_recmetrics.bucket import PAIR_RANKS, PAIR_SCORES

_N_RANGES = 64


def score_edges(per_user: DataFrame) -> DataFrame:
    """`model, edges`: scores that cut the pairs of a model into ranges of about equal size.

    Args:
        per_user: As for `pooled_auc`.
    """
    steps = [n / _N_RANGES for n in range(1, _N_RANGES)]
    return _pairs(per_user).groupBy("model").agg(F.percentile_approx("score", steps).alias("edges"))


def pooled_auc(per_user: DataFrame, cuts: Sequence[int | None], edges: Mapping[str, Sequence[float]]) -> DataFrame:
    """How often a relevant pair has a higher score than one that is not, a tie counting half.

    Pairs are counted by score. A window over all scores of a model would be one task, so it runs over ranges of scores, of
    which each then only needs to know how many pairs stand below it.

    Args:
        per_user: `model`, and arrays of each user's pairs: PAIR_SCORES, and PAIR_RANKS, negative where an item is not relevant.
        cuts: Cut-offs of the ranks, None for whole lists.
        edges: By model, where its ranges end, as `score_edges` gives them. They change nothing but the work that a task has.

    Returns:
        One row per model: for the cut-off at place i, `auc_i`, null if all its pairs are relevant or none is, and `users_i`,
        how many users have a pair.
    """
    within = [_within(F.col("rank"), k) for k in cuts]
    counts = [
        F.count_if(kept & side).alias(f"{name}_{i}")
        for i, kept in enumerate(within)
        for name, side in (("relevant", F.col("rank") > 0), ("others", F.col("rank") < 0))
    ]
    place = F.lit(0)
    for model, ends in edges.items():
        place = F.when(F.col("model") == model, _range(sorted(set(ends)), 0)).otherwise(place)
    ranged = _pairs(per_user).groupBy("model", "score").agg(*counts).withColumn("range", place)
    sizes = ranged.groupBy("model", "range").agg(*(F.sum(f"others_{i}").alias(f"size_{i}") for i in range(len(cuts))))
    below = Window.partitionBy("model").orderBy("range").rowsBetween(Window.unboundedPreceding, -1)
    starts = sizes.select("model", "range", *(_sum(f"size_{i}", below).alias(f"start_{i}") for i in range(len(cuts))))
    lower = Window.partitionBy("model", "range").orderBy("score").rowsBetween(Window.unboundedPreceding, -1)
    beaten = ranged.join(F.broadcast(starts), ["model", "range"]).select(
        "model",
        *(f"{side}_{i}" for side in ("relevant", "others") for i in range(len(cuts))),
        *((F.col(f"start_{i}") + _sum(f"others_{i}", lower)).alias(f"below_{i}") for i in range(len(cuts))),
    )
    found = beaten.groupBy("model").agg(*(_auc(i).alias(f"auc_{i}") for i in range(len(cuts))))
    users = per_user.groupBy("model").agg(
        # The first pair of a user has the smallest rank.
        *(F.count_if(_within(F.get(PAIR_RANKS, F.lit(0)), k)).alias(f"users_{i}") for i, k in enumerate(cuts))
    )
    return found.join(users, "model")


def _pairs(per_user: DataFrame) -> DataFrame:
    return per_user.select("model", F.inline(F.arrays_zip(PAIR_SCORES, PAIR_RANKS))).toDF("model", "score", "rank")


def _range(ends: Sequence[float], first: int) -> Column:
    """The number of the range that a score falls into, found by halving."""
    if not ends:
        return F.lit(first)
    half = len(ends) // 2
    lower, upper = _range(ends[:half], first), _range(ends[half + 1 :], first + half + 1)
    return F.when(F.col("score") <= ends[half], lower).otherwise(upper)


def _within(rank: Column, k: int | None) -> Column:
    return rank.isNotNull() if k is None else F.abs(rank) <= k


def _sum(column: str, window: WindowSpec) -> Column:
    return F.coalesce(F.sum(column).over(window), F.lit(0))


def _auc(i: int) -> Column:
    relevant, others, below = (F.col(f"{name}_{i}").cast("double") for name in ("relevant", "others", "below"))
    pairs = F.sum(relevant) * F.sum(others)
    return F.when(pairs > 0, F.sum(relevant * (below + others / 2)) / pairs)
