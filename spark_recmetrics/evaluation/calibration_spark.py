"""Calibration of scores: what became of the recommended rows whose scores are about the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.inputs.spark import clean_truth, relevant_pairs
from spark_recmetrics.metrics.registry import checked_integer
from spark_recmetrics.scoring.rating_errors_spark import true_ratings
from spark_recmetrics.storage import actions
from spark_recmetrics.text import brief

if TYPE_CHECKING:
    from spark_recmetrics.scoring.plan_spark import Plan


Against = Literal["relevance", "rating"]

MOST_BINS = 1000
"""Each bin is a row on the driver, and a number in the plan of every row."""

ACCURACY = 100_000
"""An edge may stand one in so many rows off, since Spark finds quantiles of large tables approximately."""

_OF_BIN = ("score_low", "score_high", "mean_score", "n_rows", "value")


def calibrate(plan: Plan, n_bins: int, against: Against | None) -> list[dict[str, Any]]:
    """The bins of `Result.score_calibration`. Edges and bins are one job, and a row for each bin comes to the driver."""
    n_bins = checked_integer(n_bins, "n_bins", MOST_BINS)
    if against is not None and against not in get_args(Against):
        raise ConfigError(f"against: expected one of {', '.join(get_args(Against))}, or None, found {brief(against)}")
    against = against or ("relevance" if plan.scoring else "rating")
    if against == "rating" and not plan.inputs.has_ratings:
        raise DataError("truth: expected ratings to hold scores against, found none: give them in columns.rating")
    rows = _scored(plan, "predictions" if against == "relevance" else plan.inputs.rating_table)
    truth = clean_truth(plan.inputs.truth, plan.convention, plan.policies)
    if against == "rating":
        known = rows.join(true_ratings(truth, plan.convention).withColumnRenamed("true", "outcome"), ["user", "item"])
    else:
        relevant = relevant_pairs(truth, plan.convention, has_ratings=plan.inputs.has_ratings)
        # Of users who stand nowhere in truth nothing is known; of the others, what truth lacks is not relevant.
        known = rows.join(truth.select("user").distinct(), "user", "left_semi").join(relevant, ["user", "item"], "left")
        known = known.withColumn("outcome", F.col("rating").isNotNull().cast("double"))
    found = sorted(actions.collect_rows(_bins(known, n_bins)), key=lambda row: row["bin"])
    told = []
    for code, model in enumerate(plan.models):
        own = [row for row in found if row["code"] == code]
        # Edges that ties have made one leave no gap in the numbers.
        told += [
            {"model": model, "against": against, "bin": number, **{name: row[name] for name in _OF_BIN}}
            for number, row in enumerate(own, 1)
        ]
    return told


def _scored(plan: Plan, table: str) -> DataFrame:
    """`code, user, item, score`: the clean rows of the models with a finite score, as a double; the code is a model's place."""
    rows = plan.once(plan.clean(plan.inputs.predicted[table]))
    if "score" not in rows.columns:
        raise DataError(
            f"{table}: expected scores, found ranks alone: leave columns.rank out, or evaluate one that reads scores, "
            "such as rmse, too"
        )
    code = F.col("model") if "model" in rows.columns else F.lit(0)
    score = F.col("score").cast("double")
    return rows.where(F.abs(score) < float("inf")).select(code.alias("code"), "user", "item", score.alias("score"))


def _bins(known: DataFrame, n_bins: int) -> DataFrame:
    """The bins of each model, by the quantiles of its scores. Equal scores are in one bin."""
    binned = known.withColumn("bin", F.lit(0))
    if n_bins > 1:
        shares = F.array(*(F.lit(place / n_bins) for place in range(1, n_bins)))
        edges = known.groupBy("code").agg(F.percentile_approx("score", shares, ACCURACY).alias("edges"))
        passed = F.size(F.filter(F.col("edges"), lambda edge: edge < F.col("score")))
        binned = known.join(F.broadcast(edges), "code").withColumn("bin", passed)
    of_bin = F.min("score"), F.max("score"), F.avg("score"), F.count(F.lit(1)), F.avg("outcome")
    return binned.groupBy("code", "bin").agg(*(column.alias(name) for name, column in zip(_OF_BIN, of_bin, strict=True)))
