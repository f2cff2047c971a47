"""How the lists of an evaluation are scored, from what is asked and what is known."""

from __future__ import annotations

from typing import Any

from spark_recmetrics.request.request import Request
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.side_info.known import Known


def scoring_of(request: Request, known: Known[Any], *, has_rank: bool, full_lists: bool) -> Scoring | None:
    """How the ranking metrics of a request are scored; None where there is none.

    Args:
        request: What is asked.
        known: What is known before users are scored.
        has_rank: Predictions have ranks.
        full_lists: Lists come in full even if they will be cut.
    """
    metrics = request.ranking_metrics
    if not metrics:
        return None
    resampled = request.intervals.method == "bootstrap"
    return Scoring.of(
        metrics,
        request.convention,
        len(known.models),
        rating=request.rating_metrics if request.rates_in_lists else (),
        full_lists=full_lists,
        max_per_user=request.max_per_user,
        given_ranks=has_rank and request.keeps_lists,
        n_items=known.n_items,
        trained="train" in request.tables_read,
        items=known.summary,
        baseline=None if request.compared_baseline is None else known.models.index(request.compared_baseline),
        measured=request.measured,
        keeps_lists=resampled and any(metric.definition.left_out is not None for metric in metrics),
    )
