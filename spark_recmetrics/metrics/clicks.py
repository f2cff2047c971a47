"""Metrics of matched recommendations: click-through rates, their off-policy estimators, ROC AUC, and bpref.

A recommended item is *matched* if it has a truth row, relevant or not.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from spark_recmetrics.metrics.arrays import Floats, position_in_user, ratio, run_starts, sum_by_user
from spark_recmetrics.metrics.batch import RankedBatch, given
from spark_recmetrics.metrics.registry import Parameter, PerChoice, Sums, quotient, register

_click_metric = partial(register, users="all", skips_undefined=True)
_IPS_NEEDS = ("matched", "propensity")
_CTR_NEEDS = {"matching": ("matched",), "ips": _IPS_NEEDS, "dr": (*_IPS_NEEDS, "list_scores", "scores")}


@_click_metric(
    "ctr",
    options={"estimator": Parameter("matching", tuple(_CTR_NEEDS))},
    aliases={"click_through_rate": (), "ips": (("estimator", "ips"),), "dr": (("estimator", "dr"),)},
    lower=None,
    upper=None,
    pooled=quotient,
    needs=PerChoice("estimator", _CTR_NEEDS),
)
def click_through_rate(batch: RankedBatch, k: int | None, *, estimator: str) -> Sums:
    """Mean rating of the matched recommendations of all users; for clicks of 0 and 1 it is the click-through rate.

    Options:
        estimator: The estimator, with rating r, propensity p and score s of a recommendation. `matching`: sum of r over matched
            recommendations / their number. `ips` (inverse propensity scoring): sum of r / p over matched recommendations /
            number of recommendations. `dr` (doubly robust), for scores that are predicted ratings: (sum of s over all
            recommendations + sum of (r - s) / p over matched ones) / number of recommendations.

    Returns:
        Sums, (U,) each. Undefined without a matched recommendation (`matching`) or without a recommendation.

    Source:
        Dudík, Langford and Li, Doubly robust policy evaluation and learning, ICML 2011.

    Example:
        The first user has three recommendations, two of them matched. The second has no truth, the third no list:

        >>> batch = RankedBatch.of([["a", "b", "x"], ["a"], []], [{"a": 5}, {}, {"a": 1}], judged=[{"b": 2}, {}, {}])
        >>> click_through_rate(batch, 3, estimator="matching")[:2]
        (array([7., 0., 0.]), array([2, 0, 0]))
    """
    matched = given(batch.matched, "matched").within(k)
    rating = _number(matched.rating)
    if estimator == "matching":
        return Sums(sum_by_user(matched.user, rating, batch.size), np.bincount(matched.user, minlength=batch.size))
    if estimator == "ips":
        return Sums(sum_by_user(matched.user, rating / matched.propensity, batch.size), batch.list_length(k))
    scores = given(batch.list_scores, "list_scores").within(k)
    predicted = sum_by_user(scores.user, _number(scores.score), batch.size)
    correction = (rating - _number(matched.score)) / matched.propensity
    return Sums(predicted + sum_by_user(matched.user, correction, batch.size), batch.list_length(k))


def _squared_over_count(sums: Sums) -> Any:
    return sums.total**2 / sums.count


@_click_metric("ess", aliases=("effective_sample_size",), lower=1.0, upper=None, pooled=_squared_over_count, needs=_IPS_NEEDS)
def effective_sample_size(batch: RankedBatch, k: int | None) -> Sums:
    """Effective sample size of an off-policy estimate: (sum of 1/p)^2 / sum of 1/p^2, over the matched pairs of all users.

    Returns:
        Sums of 1/p and of 1/p^2 over the matched pairs, (U,) each. Undefined without a matched pair.

    Source:
        Kish, Survey Sampling, 1965.

    Example:
        >>> lists, truth = [["a", "b"], ["a"], []], [{"a": 1, "b": 1}, {}, {}]
        >>> batch = RankedBatch.of(lists, truth, propensities=[{"a": 0.5, "b": 0.25}, {}, {}])
        >>> effective_sample_size(batch, 2)[:2]
        (array([6., 0., 0.]), array([20.,  0.,  0.]))
    """
    matched = given(batch.matched, "matched").within(k)
    weight = 1 / matched.propensity
    return Sums(sum_by_user(matched.user, weight, batch.size), sum_by_user(matched.user, weight * weight, batch.size))


@_click_metric("matched_auc", aliases=("roc_auc",), needs=("matched", "scores"), across_users=True, needs_relevant=True)
def matched_auc(batch: RankedBatch, k: int | None) -> Floats:
    """ROC AUC of the matched recommendations: probability that a relevant one has a higher score than a non-relevant one.

    The value of a model compares the matched pairs of all users, so scores must be comparable between users. A tie counts half.

    Returns:
        (U,) values in [0, 1] of the pairs of each user. Undefined if all of them are relevant, or none is.

    Source:
        Hanley and McNeil, The meaning and use of the area under a ROC curve, Radiology 143, 1982; Jurity 2.1.0, its AUC.

    Example:
        >>> lists, truth = [["a", "x", "b"], ["a"], []], [{"a": 1, "b": 1}, {"a": 1}, {}]
        >>> batch = RankedBatch.of(lists, truth, judged=[{"x": 0}, {}, {}], scores=[[0.9, 0.5, 0.5], [0.4], []])
        >>> matched_auc(batch, 3)
        array([0.75,  nan,  nan])
    """
    matched = given(batch.matched, "matched").within(k)
    order = np.lexsort((matched.score, matched.user))
    user, score, relevant = matched.user[order], matched.score[order], matched.relevant[order]
    # Infinite scores are equal to each other, but their difference is not 0.
    start = run_starts(user, score)
    size = np.diff(start, append=len(user))
    middle = np.repeat(position_in_user(user, batch.size)[start] + (size - 1) / 2, size)
    n_relevant = np.bincount(user[relevant], minlength=batch.size)
    others = np.bincount(user, minlength=batch.size) - n_relevant
    above = sum_by_user(user[relevant], middle[relevant], batch.size) - n_relevant * (n_relevant + 1) / 2
    pairs = n_relevant * others
    return ratio(above, pairs, defined=pairs > 0)


@register("bpref", aliases=("binary_preference",), needs_relevant=True, has_cut_off=False, needs=("matched",))
def binary_preference(batch: RankedBatch, k: int | None) -> Floats:
    """Binary preference of relevant over judged non-relevant items: (1/R) sum of 1 - min(b, R) / min(R, N).

    R items are relevant, N items are judged and not relevant, and b of these are above a relevant item of the list. Items
    without a truth row are ignored, so the metric suits incomplete judgments.

    Returns:
        (U,) values in [0, 1]. Undefined for a user without a relevant item.

    Source:
        Buckley and Voorhees, Retrieval evaluation with incomplete information, SIGIR 2004, as corrected in trec_eval 8.

    Example:
        The first user has a relevant item above the judged item "x", one below it, and one that is not in the list:

        >>> lists, truth = [["a", "x", "b"], ["u", "a"], ["a"]], [{"a": 1, "b": 1, "c": 1}, {"a": 1}, {}]
        >>> batch = RankedBatch.of(lists, truth, judged=[{"x": 0, "y": 0}, {}, {}])
        >>> binary_preference(batch, None)
        array([0.5, 1. , nan])
    """
    matched = given(batch.matched, "matched").within(k)
    n_relevant = batch.n_relevant
    others = given(batch.n_judged, "matched") - n_relevant
    number = position_in_user(matched.user, batch.size)
    hits = np.flatnonzero(matched.relevant)
    user = matched.user[hits]
    above = number[hits] - position_in_user(user, batch.size)
    worst = np.minimum(n_relevant, others)[user]
    lost = np.minimum(above, n_relevant[user]) / np.maximum(worst, 1)
    return ratio(sum_by_user(user, 1 - lost, batch.size), n_relevant, defined=n_relevant > 0)


def _number(values: Floats) -> Floats:
    """The values with 0 in place of missing ones."""
    return np.where(np.isfinite(values), values, 0.0)
