"""Metrics that compare relevant items with all candidates: AUC, partial AUC, and metrics of the confusion matrix.

Notation, per user: N items in the catalog (`batch.n_items`), P relevant candidates, Q non-relevant candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from spark_recmetrics.metrics.arrays import Bools, Floats, Ints, position_in_user, ratio, run_starts, sum_by_user
from spark_recmetrics.metrics.batch import Candidates, RankedBatch, given
from spark_recmetrics.metrics.registry import Need, Parameter, Sums, quotient, register

_AUC_OPTIONS = {"candidates": "auc_candidates", "negatives": "auc_negatives", "ties": "auc_ties"}


def _auc_needs(options: Mapping[str, Any]) -> tuple[Need, ...]:
    among: Need = "unseen_candidates" if options["candidates"] == "unseen" else "candidates"
    ties: tuple[Need, ...] = ("ties",) if options["ties"] == "half" else ()
    return (among, *ties) if options["candidates"] == "listed" else (among, *ties, "catalog")


_candidate_metric = partial(register, options=_AUC_OPTIONS, needs=_auc_needs, needs_relevant=True, skips_undefined=True)


@_candidate_metric("auc", aliases=("area_under_the_curve", "micro_auc"), has_cut_off=False, pooled=quotient)
def auc(batch: RankedBatch, k: int | None, *, candidates: str, negatives: str, ties: str) -> Sums:
    """Probability that a relevant candidate is ranked above a non-relevant one, over the relevant candidates of all users.

    A relevant candidate below a of the Q non-relevant ones contributes 1 - a / Q. Candidates outside the list come last, tied.

    Options:
        candidates: `unseen`: the N items of the catalog without the s items of the user's training rows, Q = N - s - P. `all`:
            the catalog, Q = N - P. `listed`: the items of the list, for lists that are samples of candidates.
        negatives: `exact` divides by Q, `plus_one` by Q + 1, so that the last position does not score 0.
        ties: A tie counts `half`, or the `order` of the list decides; then relevant candidates outside the list come last.

    Returns:
        Contributions and P, (U,) each; the value is their quotient. Undefined if P is 0, and if Q is 0 with `exact`.

    Source:
        Hanley and McNeil, The meaning and use of the area under a ROC curve, Radiology 143, 1982.

    Example:
        The first user has 4 non-relevant candidates, one of them above "b". The second has no relevant candidate:

        >>> batch = RankedBatch.of(lists=[["x", "b"], ["a"], ["y"]], truth=[{"b": 1}, {}, {"y": 1}], n_items=5)
        >>> auc(batch, None, candidates="all", negatives="exact", ties="half")[:2]
        (array([0.75, 0.  , 1.  ]), array([1, 0, 1]))
    """
    parts = _contributions(batch, candidates, negatives, ties)
    n_missed = parts.n_relevant - np.bincount(parts.among.user, minlength=batch.size)
    total = sum_by_user(parts.among.user, parts.listed, batch.size) + n_missed * parts.missed
    return Sums(np.where(parts.defined, total, 0.0), np.where(parts.defined, parts.n_relevant, 0))


@_candidate_metric(
    "gauc",
    options={**_AUC_OPTIONS, "weight": "gauc_weight"},
    aliases=("group_auc", "user_auc"),
    has_cut_off=False,
    pooled=quotient,
    averaged_by="weight",
)
def gauc(batch: RankedBatch, k: int | None, *, candidates: str, negatives: str, ties: str, weight: str) -> Sums:
    """Weighted mean of the users' AUC: sum of w AUC / sum of w.

    Options:
        candidates, negatives, ties: As for `auc`.
        weight: The weight w of a user. `uniform`: 1. `relevant`: P, as in `auc`. `recommended`: the candidates in the list.

    Returns:
        Weighted AUC and weight, (U,) each. Undefined for users whose AUC is undefined.

    Source:
        Rendle et al., BPR: Bayesian personalized ranking from implicit feedback, UAI 2009 (`uniform`); RecBole 1.2.1
        (`relevant`); Zhu et al., Optimized cost per click in Taobao display advertising, KDD 2017 (`recommended`).

    Example:
        Lists of sampled candidates, with one relevant candidate of two, and four of eight:

        >>> batch = RankedBatch.of([["a", "x"], list("axybczwd"), []], [{"a": 1}, dict.fromkeys("abcd", 1), {}])
        >>> gauc(batch, None, candidates="listed", negatives="exact", ties="order", weight="recommended")[:2]
        (array([2., 4., 0.]), array([2, 8, 0]))
    """
    summed: Sums = auc(batch, k, candidates=candidates, negatives=negatives, ties=ties)
    if weight == "relevant":
        return summed
    values = ratio(summed.total, summed.count, defined=np.ones(batch.size, dtype=bool))
    defined = summed.count > 0
    weights = _among(batch, candidates).n_listed if weight == "recommended" else np.ones(batch.size, dtype=np.int64)
    return Sums(values * weights * defined, weights * defined)


@_candidate_metric("lauc", aliases=("limited_auc",))
def lauc(batch: RankedBatch, k: int | None, *, candidates: str, negatives: str, ties: str) -> Floats:
    """AUC of the first k positions: sum of the contributions of the relevant candidates there / min(P, k).

    Options:
        candidates, ties: As for `auc`. Positions are those among the candidates.
        negatives: As for `auc`; Q counts all candidates, not the first k.

    Returns:
        (U,) values in [0, 1]. Undefined for users whose AUC is undefined.

    Source:
        WarpRec 1.4.6, its accuracy metric LAUC@k.

    Example:
        >>> batch = RankedBatch.of(lists=[["x", "b", "c"], ["a"], []], truth=[{"b": 1, "c": 1}, {}, {"y": 1}], n_items=6)
        >>> lauc(batch, 2, candidates="all", negatives="exact", ties="order")
        array([0.375,   nan, 0.   ])
    """
    parts = _contributions(batch, candidates, negatives, ties)
    within = parts.among.position <= (np.inf if k is None else k)
    total = sum_by_user(parts.among.user[within], parts.listed[within], batch.size)
    return ratio(total, parts.n_relevant if k is None else np.minimum(parts.n_relevant, k), defined=parts.defined)


_INSUFFICIENT = {"insufficient": Parameter("ignore", ("ignore", "exclude"))}


@register("pauc", options=_INSUFFICIENT, aliases=("partial_auc", "partialauc"), needs_relevant=True, needs=("candidates",))
def partial_auc(batch: RankedBatch, k: int | None, *, insufficient: str) -> Floats:
    """Partial AUC, against the first k non-relevant items: sum of max(k - b_i, 0) over the relevant items of the list / (m k).

    b_i is the number of non-relevant items above relevant item i. So k counts misses and not ranks, and lists must be longer
    than k. Without a cut-off k is the length of the list.

    Options:
        insufficient: How a relevant item counts that is not in a list with fewer than k non-relevant items, so that its rank is
            unknown. `ignore`: it contributes 0, as if it came last. `exclude`: the value of the list is undefined.

    Returns:
        (U,) values in [0, 1]. Undefined for a user without a relevant item, and as `insufficient` says.

    Source:
        Budhiraja et al., Rich-item recommendations for rich-users: exploiting dynamic and static side information, 2020,
        arXiv:2001.10495; RecTools 0.19.0, its metric PartialAUC.

    Example:
        There is no miss above "a", and one of two above "b":

        >>> batch = RankedBatch.of(lists=[["a", "x", "b", "y"], ["u"], ["a"]], truth=[{"a": 1, "b": 1}, {"y": 1}, {}])
        >>> partial_auc(batch, 2, insufficient="ignore"), partial_auc(batch, 2, insufficient="exclude")
        (array([0.75, 0.  ,  nan]), array([0.75,  nan,  nan]))
    """
    return _partial_auc(batch, k, np.ones(len(batch.hit_rank), dtype=bool), batch.n_relevant, insufficient)


@register("pap", options=_INSUFFICIENT, needs_relevant=True, needs=("candidates",))
def partial_auc_and_precision(batch: RankedBatch, k: int | None, *, insufficient: str) -> Floats:
    """`pauc` of the first k relevant items of the list: sum of max(k - b_i, 0) over these / (min(m, k) k).

    With more than k relevant items it measures, as precision does, whether they fill the top of the list.

    Options:
        insufficient: As for `pauc`.

    Returns:
        (U,) values in [0, 1]. Undefined for a user without a relevant item, and as `insufficient` says.

    Source:
        Budhiraja et al. 2020, as for `pauc`; Hiranandani et al., Optimization and analysis of the pAp@k metric for
        recommender systems, ICML 2020; RecTools 0.19.0, its metric PAP.

    Example:
        >>> batch = RankedBatch.of(lists=[["x", "a", "b", "y"], ["u"], ["a"]], truth=[{"a": 1, "b": 1}, {"y": 1}, {}])
        >>> partial_auc_and_precision(batch, 2, insufficient="ignore")
        array([0.5, 0. , nan])
    """
    first = batch.hit_number <= batch.cut_off(k)[batch.hit_user]
    return _partial_auc(batch, k, first, np.minimum(batch.n_relevant, batch.cut_off(k)), insufficient)


def _partial_auc(batch: RankedBatch, k: int | None, counted: Any, n_counted: Ints, insufficient: str) -> Floats:
    """Sum of max(k - b_i, 0) over the hits that a mask selects / (the largest number of such hits times k)."""
    misses = batch.cut_off(k)
    below = np.maximum(misses[batch.hit_user] - (batch.hit_rank - batch.hit_number), 0)
    total = sum_by_user(batch.hit_user, below * counted, batch.size)
    defined = batch.n_relevant > 0
    if insufficient == "exclude":
        n_hits = batch.n_hits(None)
        defined &= (n_hits == batch.n_relevant) | (batch.n_recommended - n_hits >= misses)
    return ratio(total, n_counted * misses, defined=defined)


@register("accuracy", options={"denominator": "precision_denominator"}, aliases=("acc",), needs=("catalog",))
def accuracy(batch: RankedBatch, k: int | None, *, denominator: str) -> Floats:
    """Share of the catalog that is classified correctly: (TP + TN) / N.

    TP = H, FP = k - H (at most N - m), FN = m - H, and TN = N - TP - FP - FN.

    Options:
        denominator: `recommended` replaces k in FP with the length of the list.

    Returns:
        (U,) shares in [0, 1]. Undefined for a user with neither a list nor a relevant item.

    Source:
        Manning, Raghavan and Schütze, Introduction to Information Retrieval, 2008, section 8.3.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "x"], ["x"], []], truth=[{"a": 1, "b": 1}, {"y": 1}, {}], n_items=10)
        >>> accuracy(batch, 2, denominator="k")
        array([0.8, 0.7, nan])
    """
    tp, _, _, tn = _confusion(batch, k, denominator)
    defined = (batch.n_recommended > 0) | (batch.n_relevant > 0)
    return ratio(tp + tn, np.full(batch.size, batch.n_items), defined=defined)


@register(
    "mcc",
    options={"denominator": "precision_denominator"},
    aliases=("matthews", "matthews_correlation", "matthews_correlation_coefficient"),
    lower=-1.0,
    needs_relevant=True,
    needs=("catalog",),
)
def matthews_correlation(batch: RankedBatch, k: int | None, *, denominator: str) -> Floats:
    """Matthews correlation of list and ground truth over the catalog: (TP TN - FP FN) / sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN)).

    Options:
        denominator: As for `accuracy`, which defines TP, FP, FN and TN.

    Returns:
        (U,) values in [-1, 1]. Undefined if the root is 0: if no item or every item is recommended, or relevant.

    Source:
        Matthews, Comparison of the predicted and observed secondary structure of T4 phage lysozyme, BBA 405(2), 1975.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "x"], ["y"], []], truth=[{"a": 1, "b": 1}, {"y": 1}, {}], n_items=10)
        >>> matthews_correlation(batch, 2, denominator="recommended")
        array([0.375, 1.   ,   nan])
    """
    tp, fp, fn, tn = (np.asarray(count, dtype=np.float64) for count in _confusion(batch, k, denominator))
    root = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return ratio(tp * tn - fp * fn, root, defined=root > 0)


def _confusion(batch: RankedBatch, k: int | None, denominator: str) -> tuple[Ints, Ints, Ints, Ints]:
    """(U,) true positives, false positives, false negatives and true negatives."""
    hits, n_others = batch.n_hits(k), (batch.n_items or 0) - batch.n_relevant
    n_positions = batch.list_length(k) if denominator == "recommended" else batch.cut_off(k)
    # The empty positions of a short list cannot hold more items than there are.
    false_positive = np.minimum(n_positions - hits, n_others)
    return hits, false_positive, batch.n_relevant - hits, n_others - false_positive


class _Contributions(NamedTuple):
    """Contributions of (P,) listed relevant candidates, and (U,) of each relevant candidate that is not listed."""

    among: Candidates
    listed: Floats
    missed: Floats
    n_relevant: Ints
    defined: Bools


def _among(batch: RankedBatch, candidates: str) -> Candidates:
    if candidates == "unseen":
        return given(batch.unseen_candidates, "unseen_candidates")
    return given(batch.candidates, "candidates")


def _contributions(batch: RankedBatch, candidates: str, negatives: str, ties: str) -> _Contributions:
    among = _among(batch, candidates)
    n_hits = np.bincount(among.user, minlength=batch.size)
    n_misses = among.n_listed - n_hits
    n_relevant, n_others = n_hits, n_misses
    if candidates != "listed":
        n_relevant = among.n_relevant
        n_others = (batch.n_items or 0) - among.n_seen - n_relevant
    scale = n_others + (negatives == "plus_one")
    nonzero = np.maximum(scale, 1)
    number = position_in_user(among.user, batch.size)
    if ties == "order":
        outranked_by = among.position - number
        missed = 1 - n_others / nonzero
    else:
        # Relevant candidates with equal scores are adjacent, because equally many candidates are above them.
        first = run_starts(among.n_above, among.user)
        size = np.diff(first, append=len(among.user))
        relevant_above, relevant_tied = np.repeat(number[first] - 1, size), np.repeat(size, size)
        outranked_by = (among.n_above - relevant_above) + (among.n_tied - relevant_tied) / 2
        missed = 1 - (n_misses + (n_others - n_misses) / 2) / nonzero
    listed = 1 - outranked_by / nonzero[among.user]
    return _Contributions(among, listed, missed, n_relevant, (n_relevant > 0) & (scale > 0))
