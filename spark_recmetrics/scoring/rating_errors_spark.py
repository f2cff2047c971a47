"""Moments of rating errors: plain aggregations over the pairs of predictions and ground truth."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.conventions import Convention
from spark_recmetrics.inputs.spark import number_of
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.metrics.registry import quotient


def rating_errors(predictions: DataFrame, truth: DataFrame, metrics: Sequence[Metric], convention: Convention) -> DataFrame:
    """Moments of the rating errors, and the rating metrics, of each (model, user): a join and a `groupBy`.

    Args:
        predictions: Canonical predictions. Scores are predicted ratings. Rows with a NaN, null or infinite score make no pair.
        truth: Canonical ground truth. Rows with a NaN or null rating make no pair. The highest rating of repeated rows counts.
        metrics: Rating metrics to compute per user.
        convention: Which pairs count, and whether predictions are clipped.

    Returns:
        `[model,] user`, the columns of `metrics.rating.Moments`, `n_pair_duplicates` (pairs that repeat an item, or that
        `window_spark.without_repeats` dropped), `n_truth_duplicates` (rows of the ground truth that repeat an item with a
        pair), and one double per metric. Only users with a pair have a row.
    """
    predicted = predictions.withColumn("score", F.col("score").cast("double"))
    predicted = predicted.where(~number_of(F.col("score")).unusable)
    if convention.rating_clip == "truth_range":
        limits = rating_range(truth, convention)
        clipped = F.greatest("lowest", F.least("highest", "score"))
        predicted = predicted.crossJoin(F.broadcast(limits)).withColumn("score", clipped)
    pairs = predicted.join(true_ratings(truth, convention), ["user", "item"])
    pairs = pairs.withColumn("error", F.col("score") - F.col("true"))
    n_pairs, error, true = F.count(F.lit(1)), F.col("error"), F.col("true")
    repeated = F.sum("n_left_out") if "n_left_out" in pairs.columns else n_pairs - F.count_distinct("item")
    moments = pairs.groupBy(*(key for key in ("model", "user") if key in pairs.columns)).agg(
        n_pairs.alias("n_pairs"),
        repeated.alias("n_pair_duplicates"),
        F.sum("repeats").alias("n_truth_duplicates"),
        F.sum(F.abs(error)).alias("sum_absolute_error"),
        F.sum(error * error).alias("sum_squared_error"),
        F.sum(error).alias("sum_error"),
        F.sum(true).alias("sum_rating"),
        F.sum(true * true).alias("sum_squared_rating"),
    )
    return moments.select("*", *(_value(metric).alias(metric.slug, metadata={"label": str(metric)}) for metric in metrics))


def rating_range(truth: DataFrame, convention: Convention) -> DataFrame:
    """`lowest, highest`: one row with the range of the true ratings that count."""
    return true_ratings(truth, convention).agg(F.min("true").alias("lowest"), F.max("true").alias("highest"))


def true_ratings(truth: DataFrame, convention: Convention) -> DataFrame:
    """`user, item, true, repeats`: the ratings that count, each pair once with its highest rating."""
    rating = F.col("rating").cast("double")
    rated = truth.where(~number_of(rating).unusable & (F.lit(convention.rating_rows == "all") | (rating > 0)))
    return rated.groupBy("user", "item").agg(F.max(rating).alias("true"), (F.count(F.lit(1)) - 1).alias("repeats"))


def _value(metric: Metric) -> Column:
    """The metric of each row of moments, null if it is undefined."""
    sums = metric.definition.compute(Moments(*map(F.col, Moments._fields)))
    pooled = metric.definition.pooled or quotient
    return F.when(sums.count > sums.floor, pooled(sums))
