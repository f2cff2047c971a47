"""Error moments of rating predictions: plain aggregations over the pairs that predictions and truth share."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.metrics.registry import quotient


def rating_errors(predictions: DataFrame, truth: DataFrame, metrics: Sequence[Metric], convention: Convention) -> DataFrame:
    """Moments of the rating errors, and the rating metrics, of each (model, user).

    Args:
        predictions: Canonical predictions; the score is the predicted rating. NaN, null and infinite scores make no pair.
        truth: Canonical truth. NaN and null ratings make no pair; of a repeated row the highest rating counts.
        metrics: Rating metrics to compute per user.
        convention: Which pairs count, and whether predictions are clipped.

    Returns:
        `[model,] user`, the columns of `metrics.rating.Moments`, `n_pair_duplicates` (pairs that repeat an item, or that
        `rank.without_repeats` has left out),
        `n_truth_duplicates` (truth rows that repeat an item which has a pair), and one double per metric. Only users with
        a pair have a row.
    """
    true = true_ratings(truth, convention)
    predicted = predictions.withColumn("score", F.col("score").cast("double"))
    predicted = predicted.where(F.col("score").isNotNull() & ~F.isnan("score") & (F.abs("score") < float("inf")))
    if convention.rating_clip == "truth_range":
        spread = rating_range(truth, convention)
        clipped = F.greatest("lowest", F.least("highest", "score"))
        predicted = predicted.crossJoin(F.broadcast(spread)).withColumn("score", clipped)
    cell = [key for key in ("model", "user") if key in predicted.columns]
    error = F.struct((F.col("score") - F.col("true")).alias("error"), "true", "item")
    # Errors are added in order of size: a sum in order of arrival would differ in its last digits from run to run.
    left_out = [F.sum("n_left_out").alias("n_left_out")] if "n_left_out" in predicted.columns else []
    errors = (
        predicted.join(true, ["user", "item"])
        .groupBy(*cell)
        .agg(F.sort_array(F.collect_list(error)).alias("pairs"), F.sum("repeats").alias("n_truth_duplicates"), *left_out)
    )
    repeated = F.col("n_left_out") if left_out else F.size("pairs") - F.size(F.array_distinct("pairs.item"))
    moments = errors.select(
        *cell,
        F.size("pairs").cast("long").alias("n_pairs"),
        repeated.cast("long").alias("n_pair_duplicates"),
        "n_truth_duplicates",
        _sum(F.transform("pairs.error", F.abs)).alias("sum_absolute_error"),
        _sum(F.transform("pairs.error", _square)).alias("sum_squared_error"),
        _sum(F.col("pairs.error")).alias("sum_error"),
        _sum(F.col("pairs.true")).alias("sum_rating"),
        _sum(F.transform("pairs.true", _square)).alias("sum_squared_rating"),
    )
    return moments.select("*", *(_value(metric).alias(metric.slug, metadata={"label": str(metric)}) for metric in metrics))


def rating_range(truth: DataFrame, convention: Convention) -> DataFrame:
    """`lowest, highest`: one row with the range of the true ratings that count."""
    return true_ratings(truth, convention).agg(F.min("true").alias("lowest"), F.max("true").alias("highest"))


def true_ratings(truth: DataFrame, convention: Convention) -> DataFrame:
    """`user, item, true, repeats`: the ratings that count, each pair once with its highest one."""
    rating = F.col("rating").cast("double")
    rated = truth.where(
        rating.isNotNull()
        & ~F.isnan(rating)
        & (F.abs(rating) < float("inf"))
        & (F.lit(convention.rating_rows == "all") | (rating > 0))
    )
    return rated.groupBy("user", "item").agg(F.max(rating).alias("true"), (F.count(F.lit(1)) - 1).alias("repeats"))


def _value(metric: Metric) -> Column:
    """The metric of each row of moments, null where it is undefined."""
    sums = metric.definition.compute(Moments(*map(F.col, Moments._fields)))
    pooled = metric.definition.pooled or quotient
    return F.when(sums.count > sums.floor, pooled(sums))


def _square(value: Column) -> Column:
    return value * value


def _sum(values: Column) -> Column:
    return F.aggregate(values, F.lit(0.0), lambda total, value: total + value)
