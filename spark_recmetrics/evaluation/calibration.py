"""Calibration of scores: the outcome of recommended rows with similar scores."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from spark_recmetrics.errors import DataError, check_argument
from spark_recmetrics.evaluation.engine import Evaluated
from spark_recmetrics.metrics.registry import checked_integer

Against = Literal["relevance", "rating"]

MOST_BINS = 1000
"""The maximum number of bins. Each is a row on the driver, and a number in the plan of every row."""

BIN_COLUMNS = ("score_low", "score_high", "mean_score", "n_rows", "value")


def calibrate(evaluated: Evaluated, n_bins: int, against: Against | None) -> list[dict[str, Any]]:
    """The bins of `Result.score_calibration`."""
    n_bins = checked_integer(n_bins, "n_bins", MOST_BINS)
    choices = get_args(Against)
    check_argument("against", against, f"one of {', '.join(choices)}, or None", valid=against is None or against in choices)
    request, inputs, known = evaluated.request, evaluated.inputs, evaluated.known
    against = against or ("relevance" if request.ranking_metrics else "rating")
    if against == "rating" and not inputs.has_ratings:
        raise DataError("truth: expected ratings to compare scores with, found none: give them in columns.rating")
    table = "predictions" if against == "relevance" else request.rating_table
    if table not in inputs.predicted:
        raise DataError(f"{table}: expected a metric that reads it, found none: add a rating metric, such as rmse")
    if not inputs.has_scores(table):
        raise DataError(
            f"{table}: expected scores, found only ranks: remove columns.rank, or add a metric that reads scores, such as rmse"
        )
    bins = evaluated.engine.calibration_bins(inputs, known, table, n_bins, by_rating=against == "rating")
    if not all(math.isfinite(row[name]) for row in bins for name in BIN_COLUMNS):
        raise DataError(
            f"{table}: expected scores and ratings whose sums are below 1e308, found larger ones: divide them by a number"
        )
    bins = sorted(bins, key=lambda row: int(row["bin"]))
    # Bins are numbered again, because tied edges make empty bins.
    return [
        {"model": model, "against": against, "bin": number, **{name: row[name] for name in BIN_COLUMNS}}
        for code, model in enumerate(known.models)
        for number, row in enumerate((row for row in bins if row["code"] == code), 1)
    ]
