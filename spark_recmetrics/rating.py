"""Error moments of rating predictions: plain aggregations over the pairs that predictions and truth share."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.rating import Moments


def rating_errors(predictions: DataFrame, truth: DataFrame, metrics: Sequence[Metric], convention: Convention) -> DataFrame:
    """Moments of the rating errors, and the rating metrics, of each (model, user).

    Args:
        predictions: Canonical predictions; the score is the predicted rating. NaN and null scores make no pair.
        truth: Canonical truth. NaN and null ratings make no pair; of a repeated row the highest rating counts.
        metrics: Rating metrics to compute per user.
        convention: Which pairs count, and whether predictions are clipped.

    Returns:
        `[model,] user`, the columns of `metrics.rating.Moments`, `n_pair_duplicates` (pairs that repeat an item),
        `n_truth_duplicates` (truth rows that repeat an item which has a pair), and one double per metric. Only users with
        a pair have a row.
    """
    rating = F.col("rating").cast("double")
    rated = truth.where(rating.isNotNull() & ~F.isnan(rating) & (F.lit(convention.rating_rows == "all") | (rating > 0)))
    true = rated.groupBy("user", "item").agg(F.max(rating).alias("true"), (F.count(F.lit(1)) - 1).alias("repeats"))
    predicted = predictions.withColumn("score", F.col("score").cast("double"))
    predicted = predicted.where(F.col("score").isNotNull() & ~F.isnan("score"))
    if convention.rating_clip == "truth_range":
        spread = true.agg(F.min("true").alias("lowest"), F.max("true").alias("highest"))
        clipped = F.greatest("lowest", F.least("highest", "score"))
        predicted = predicted.crossJoin(F.broadcast(spread)).withColumn("score", clipped)
    cell = [key for key in ("model", "user") if key in predicted.columns]
    error = F.struct((F.col("score") - F.col("true")).alias("error"), "item")
    # Errors are added in order of size: a sum in order of arrival would differ in its last digits from run to run.
    errors = (
        predicted.join(true, ["user", "item"])
        .groupBy(*cell)
        .agg(F.sort_array(F.collect_list(error)).alias("pairs"), F.sum("repeats").alias("n_truth_duplicates"))
    )
    moments = errors.select(
        *cell,
        F.size("pairs").cast("long").alias("n_pairs"),
        (F.size("pairs") - F.size(F.array_distinct("pairs.item"))).cast("long").alias("n_pair_duplicates"),
        "n_truth_duplicates",
        _sum(F.transform("pairs.error", F.abs)).alias("sum_absolute_error"),
        _sum(F.transform("pairs.error", lambda e: e * e)).alias("sum_squared_error"),
    )
    columns = Moments(*map(F.col, Moments._fields))
    return moments.select("*", *(metric.definition.compute(columns).alias(metric.slug) for metric in metrics))


def _sum(values: Column) -> Column:
    return F.aggregate(values, F.lit(0.0), lambda total, value: total + value)
