"""The bins of a calibration on Spark: one job, and a row for each bin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.evaluation.calibration import BIN_COLUMNS
from spark_recmetrics.inputs.spark import clean_truth, relevant_pairs
from spark_recmetrics.scoring.spark import clean_lists, distinct_items, true_ratings

if TYPE_CHECKING:
    from spark_recmetrics.inputs.spark import Inputs
    from spark_recmetrics.request.request import Request
    from spark_recmetrics.side_info.known import Known

ACCURACY = 100_000
"""An edge may be one in so many rows off, since Spark finds quantiles of large tables approximately."""


def calibration_rows(inputs: Inputs, known: Known[DataFrame], request: Request, table: str, *, by_rating: bool) -> DataFrame:
    """`code, score, outcome`: the clean rows with a finite score, and their rating, or whether they are relevant."""
    rows = distinct_items(clean_lists(inputs.predicted[table], known, request), request)
    code = F.col("model") if "model" in rows.columns else F.lit(0)
    score = F.col("score").cast("double")
    rows = rows.where(F.abs(score) < float("inf")).select(code.alias("code"), "user", "item", score.alias("score"))
    truth = clean_truth(inputs.truth, request.convention, request.policies)
    if by_rating:
        ratings = true_ratings(truth, request.convention).withColumnRenamed("true", "outcome")
        return rows.join(ratings, ["user", "item"])
    relevant = relevant_pairs(truth, request.convention, has_ratings=inputs.has_ratings)
    # Of users without ground truth nothing is known; for the others, an item that it lacks is not relevant.
    judged = rows.join(truth.select("user").distinct(), "user", "left_semi").join(relevant, ["user", "item"], "left")
    return judged.withColumn("outcome", F.col("rating").isNotNull().cast("double"))


def calibration_bins(rows: DataFrame, n_bins: int) -> DataFrame:
    """The bins of each model, by the quantiles of its scores. Equal scores are in one bin."""
    binned = rows.withColumn("bin", F.lit(0))
    if n_bins > 1:
        shares = F.array(*(F.lit(place / n_bins) for place in range(1, n_bins)))
        edges = rows.groupBy("code").agg(F.percentile_approx("score", shares, ACCURACY).alias("edges"))
        passed = F.size(F.filter(F.col("edges"), lambda edge: edge < F.col("score")))
        binned = rows.join(F.broadcast(edges), "code").withColumn("bin", passed)
    values = F.min("score"), F.max("score"), F.avg("score"), F.count(F.lit(1)), F.avg("outcome")
    return binned.groupBy("code", "bin").agg(*(column.alias(name) for name, column in zip(BIN_COLUMNS, values, strict=True)))
