"""Metrics of the recommendations that the user has judged: click-through rates, their off-policy estimators, and bpref.

A recommended item is *matched* if it has a truth row, relevant or not. `batch.matched` holds these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from spark_recmetrics.metrics.arrays import Floats, position_in_user, ratio, sum_by_user
from spark_recmetrics.metrics.batch import RankedBatch
from spark_recmetrics.metrics.registry import Need, Parameter, Sums, quotient, register

_T = TypeVar("_T")
_ESTIMATORS = ("matching", "ips", "dr")


def _ctr_needs(options: Mapping[str, Any]) -> tuple[Need, ...]:
    more: dict[str, tuple[Need, ...]] = {"ips": ("propensity",), "dr": ("propensity", "list_scores", "scores")}
    return ("matched", *more.get(options["estimator"], ()))


@register(
    "ctr",
    options={"estimator": Parameter("matching", _ESTIMATORS)},
    aliases={
        "click_through_rate": (),
        "ips": (("estimator", "ips"),),
        "dr": (("estimator", "dr"),),
    },
    lower=None,
    upper=None,
    pooled=quotient,
    needs=_ctr_needs,
    users="all",
    skips_undefined=True,
)
def click_through_rate(batch: RankedBatch, k: int | None, *, estimator: str) -> Sums:
    """Mean rating of the matched recommendations, over all users together; of clicks of 0 and 1, the click-through rate.

    Args:
        batch: U users.
        k: Cut-off.
        estimator: How it is estimated, with rating r, propensity p and score s of a recommendation. `matching`: sum of r over
            matched / their number. `ips` (inverse propensity): sum of r / p over matched / number of recommendations. `dr`
            (doubly robust), where scores are predicted ratings: (sum of s over recommendations + sum of (r - s) / p over
            matched) / number of recommendations.

    Returns:
        Sums, (U,) each. Undefined without a matched pair (`matching`), or without a recommendation.

    Source:
        Dudík, Langford and Li, Doubly robust policy evaluation and learning, ICML 2011.

    Example:
        Ratings 5 and 2 are matched, of three recommendations; the second user has no truth, the third no list:

        >>> batch = RankedBatch.of(
        ...     lists=[["a", "b", "x"], ["a"], []], truth=[{"a": 5}, {}, {"a": 1}], judged=[{"b": 2}, {}, {}]
        ... )
        >>> total, count, _ = click_through_rate(batch, 3, estimator="matching")
        >>> total, count
        (array([7., 0., 0.]), array([2, 0, 0]))
    """
    matched = _known(batch.matched).within(k)
    rating = _number(matched.rating)
    if estimator == "matching":
        return Sums(sum_by_user(matched.user, rating, batch.size), np.bincount(matched.user, minlength=batch.size))
    if estimator == "ips":
        return Sums(sum_by_user(matched.user, rating / matched.propensity, batch.size), batch.list_length(k))
    scores = _known(batch.list_scores).within(k)
    predicted = sum_by_user(scores.user, _number(scores.score), batch.size)
    correction = (rating - _number(matched.score)) / matched.propensity
    return Sums(predicted + sum_by_user(matched.user, correction, batch.size), batch.list_length(k))


def _squared_over_count(sums: Sums) -> Any:
    return sums.total**2 / sums.count


@register(
    "ess",
    aliases=("effective_sample_size",),
    lower=1.0,
    upper=None,
    pooled=_squared_over_count,
    needs=("matched", "propensity"),
    users="all",
    skips_undefined=True,
)
def effective_sample_size(batch: RankedBatch, k: int | None) -> Sums:
    """How many matched pairs of equal weight an off-policy estimate is worth: (sum of 1/p)^2 / sum of 1/p^2, over all users.

    Args:
        batch: U users.
        k: Cut-off.

    Returns:
        Sums of 1/p and of 1/p^2 over the matched pairs, (U,) each. Undefined without a matched pair.

    Source:
        Kish, Survey Sampling, 1965.

    Example:
        >>> batch = RankedBatch.of(
        ...     lists=[["a", "b"], ["a"], []],
        ...     truth=[{"a": 1, "b": 1}, {}, {}],
        ...     propensities=[{"a": 0.5, "b": 0.25}, {}, {}],
        ... )
        >>> total, count, _ = effective_sample_size(batch, 2)
        >>> total, count
        (array([6., 0., 0.]), array([20.,  0.,  0.]))
    """
    matched = _known(batch.matched).within(k)
    weight = 1 / matched.propensity
    return Sums(sum_by_user(matched.user, weight, batch.size), sum_by_user(matched.user, weight * weight, batch.size))


@register(
    "matched_auc",
    aliases=("roc_auc",),
    needs=("matched", "scores"),
    users="all",
    skips_undefined=True,
    across_users=True,
    needs_relevant=True,
)
def matched_auc(batch: RankedBatch, k: int | None) -> Floats:
    """ROC AUC over the matched recommendations: how often a relevant one has a higher score than one that is not.

    For a model all matched pairs of all users are compared with one another, so scores must mean the same for every user. A tie
    counts half.

    Args:
        batch: U users.
        k: Cut-off.

    Returns:
        (U,) values in [0, 1] of the pairs of each user alone. Undefined where all of them are relevant, or none is.

    Source:
        Hanley and McNeil, The meaning and use of the area under a ROC curve, Radiology 143, 1982; Jurity 2.1.0, its AUC.

    Example:
        >>> batch = RankedBatch.of(
        ...     lists=[["a", "x", "b"], ["a"], []],
        ...     truth=[{"a": 1, "b": 1}, {"a": 1}, {}],
        ...     judged=[{"x": 0}, {}, {}],
        ...     scores=[[0.9, 0.5, 0.5], [0.4], []],
        ... )
        >>> matched_auc(batch, 3)
        array([0.75,  nan,  nan])
    """
    matched = _known(batch.matched).within(k)
    order = np.lexsort((matched.score, matched.user))
    user, score, relevant = matched.user[order], matched.score[order], matched.relevant[order]
    # Infinite scores are equal to each other, but their difference is not 0.
    start = np.flatnonzero(np.append(True, (user[1:] != user[:-1]) | (score[1:] != score[:-1]))[: len(user)])
    size = np.diff(start, append=len(user))
    place = position_in_user(user, batch.size)
    middle = np.repeat(place[start] + (size - 1) / 2, size)
    n_relevant = np.bincount(user[relevant], minlength=batch.size)
    others = np.bincount(user, minlength=batch.size) - n_relevant
    above = sum_by_user(user[relevant], middle[relevant], batch.size) - n_relevant * (n_relevant + 1) / 2
    pairs = n_relevant * others
    return ratio(above, pairs, defined=pairs > 0)


@register("bpref", aliases=("binary_preference",), needs_relevant=True, has_cut_off=False, needs=("matched",))
def binary_preference(batch: RankedBatch, k: int | None) -> Floats:
    """Share of the relevant items ranked above the judged ones that are not: (1/R) sum of 1 - min(b, R) / min(R, N).

    R items are relevant, N judged and not relevant, and b of the latter stand above a relevant item of the list. Items without
    a truth row do not count, so it is made for incomplete judgements.

    Args:
        batch: U users.
        k: None: the whole list counts.

    Returns:
        (U,) values in [0, 1]. Undefined for a user without a relevant item.

    Source:
        Buckley and Voorhees, Retrieval evaluation with incomplete information, SIGIR 2004, as corrected in trec_eval 8.

    Example:
        Of the first user's relevant items one stands above "x", which was judged, one below, and one is not in the list:

        >>> batch = RankedBatch.of(
        ...     lists=[["a", "x", "b"], ["u", "a"], ["a"]],
        ...     truth=[{"a": 1, "b": 1, "c": 1}, {"a": 1}, {}],
        ...     judged=[{"x": 0, "y": 0}, {}, {}],
        ... )
        >>> binary_preference(batch, None)
        array([0.5, 1. , nan])
    """
    matched = _known(batch.matched).within(k)
    n_relevant = batch.n_relevant
    others = _known(batch.n_judged) - n_relevant
    number = position_in_user(matched.user, batch.size)
    hits = np.flatnonzero(matched.relevant)
    user = matched.user[hits]
    above = number[hits] - position_in_user(user, batch.size)
    worst = np.minimum(n_relevant, others)[user]
    lost = np.minimum(above, n_relevant[user]) / np.maximum(worst, 1)
    return ratio(sum_by_user(user, 1 - lost, batch.size), n_relevant, defined=n_relevant > 0)


def _number(values: Floats) -> Floats:
    """A missing rating, predicted or true, is 0."""
    return np.where(np.isfinite(values), values, 0.0)


def _known(part: _T | None) -> _T:
    """A part of the batch that the metric has declared to need."""
    if part is None:
        raise ValueError("the batch lacks a part that this metric needs")
    return part
