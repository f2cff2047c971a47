"""The bins of a calibration in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.evaluation.calibration import BIN_COLUMNS
from spark_recmetrics.inputs.memory import clean_truth, relevant_rows, to_pandas
from spark_recmetrics.scoring.memory import clean_lists, distinct_items, highest_ratings, true_ratings, with_numbers

if TYPE_CHECKING:
    import pandas as pd

    from spark_recmetrics.inputs.memory import MemoryInputs
    from spark_recmetrics.request.request import Request
    from spark_recmetrics.side_info.known import Known


def calibration_bins(
    inputs: MemoryInputs, known: Known[pd.DataFrame], request: Request, table: str, n_bins: int, *, by_rating: bool
) -> list[dict[str, Any]]:
    """The bins of each model, by the quantiles of its scores. Equal scores are in one bin."""
    lists = clean_lists(inputs.predicted[table], known, request)
    truth = clean_truth(inputs.truth, request.convention, request.policies)
    if by_rating:
        judged = true_ratings(truth, request.convention)
    else:
        relevant = relevant_rows(truth, request.convention, has_ratings=inputs.has_ratings)
        judged = to_pandas(truth.select(["user", "item"])).assign(true=relevant.astype(np.float64))
    (lists, judged), _ = with_numbers(lists, judged)
    lists = distinct_items(lists if "model" in lists else lists.assign(model=0), request)
    lists = lists.assign(score=lists["score"].astype(np.float64))
    lists = lists[np.isfinite(lists["score"])]
    # Users without ground truth are left out. For the others, an item without ground truth is not relevant.
    lists = lists if by_rating else lists[lists["user"].isin(set(judged["user"]))]
    rows = lists.merge(highest_ratings(judged), on=["user", "item"], how="inner" if by_rating else "left")
    rows = rows.rename(columns={"true": "outcome"}).fillna({"outcome": 0.0})
    bins: list[dict[str, Any]] = []
    for code, of_model in rows.groupby("model", sort=True):
        scores = of_model["score"].to_numpy()
        edges = np.quantile(scores, np.arange(1, n_bins) / n_bins, method="inverted_cdf") if n_bins > 1 else np.zeros(0)
        for number, of_bin in of_model.groupby(np.searchsorted(edges, scores, side="left")):
            score, outcome = of_bin["score"], of_bin["outcome"]
            values = score.min(), score.max(), score.mean(), len(of_bin), outcome.mean()
            bins.append({"code": code, "bin": number, **dict(zip(BIN_COLUMNS, values, strict=True))})
    return bins
