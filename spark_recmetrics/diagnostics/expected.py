"""Closed forms of the value of a perfect list, and of the mean value of a random list, independent of the metric formulas.

Notation as in `ranking`: m relevant items and a cut-off k. A random list is a random order of the c items of the catalog.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics.arrays import Floats
from spark_recmetrics.metrics.ranking import discount_of
from spark_recmetrics.metrics.registry import Definition, Metric


class RandomValue(NamedTuple):
    """The mean value of random lists, NaN if it is undefined; upper bounds of their variance and distance from the mean."""

    mean: float
    variance: float
    largest: float


def best_bound(definition: Definition) -> float | None:
    """The best value that the metric declares, None without one."""
    return definition.upper if definition.higher_is_better else definition.lower


def no_perfect_value(metric: Metric, convention: Convention) -> str | None:
    """Why the value of the perfect list is not known, None if it is known."""
    definition, options = metric.definition, metric.options(convention)
    if not definition.accuracy:
        return "it does not measure accuracy"
    if best_bound(definition) is None:
        return "it has no best value"
    if definition.across_users or options.get("candidates") == "listed":
        return "a list with only relevant items has no non-relevant item to compare with"
    if options.get("gain", "binary") != "binary":
        if options["idcg"] == "full_k":
            return "its ideal list has gain 1 at every rank, whatever the ratings"
        if options["idcg"] == "list" and not _always_gains(convention):
            return "it is 0 for users without a gain"
    return next((reason for part in metric.parts() if (reason := no_perfect_value(part, convention))), None)


def perfect_value(metric: Metric, convention: Convention, m: int, n_items: int | None = None) -> float:
    """The value of the perfect list: m > 0 relevant items and nothing else, the highest rating first.

    It is the best value that the metric declares, except for formulas that cannot reach it if k is larger or smaller than m,
    and for sums that only approach it (`mar`, `rbp`). NaN if the metric is undefined, or if the value depends on ratings after
    the cut-off (`idcg=all`). Metrics with a `no_perfect_value` are not allowed.
    """
    case = _Case(metric.options(convention), m, m if metric.k is None else metric.k, n_items or 0)
    if metric.name == "f1":
        first, second = (perfect_value(part, convention, m, n_items) for part in metric.parts())
        square = float(case.options["beta"]) ** 2
        return (1 + square) * first * second / (square * first + second)
    if metric.name in _PERFECT:
        return _PERFECT[metric.name](case)
    bound = best_bound(metric.definition)
    return math.nan if bound is None else bound


def _perfect_ndcg(case: _Case) -> float:
    discount, idcg = case.options["discount"], case.options["idcg"]
    dcg = _ideal_dcg(discount, case.hits)
    if idcg == "full_k":
        return dcg / _ideal_dcg(discount, case.cut)
    if idcg == "all" and case.m > case.cut:
        return dcg / _ideal_dcg(discount, case.m) if case.options["gain"] == "binary" else math.nan
    return 1.0


def _perfect_mcc(case: _Case) -> float:
    tp, fp, fn = case.hits, _n_false_positives(case), case.m - case.hits
    tn = case.n_items - case.m - fp
    square = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(square) if square > 0 else math.nan


def _n_false_positives(case: _Case) -> int:
    """The number of positions after the relevant items, if they count."""
    return 0 if case.options["denominator"] == "recommended" else min(case.cut - case.hits, case.n_items - case.m)


_PERFECT: Mapping[str, Callable[[_Case], float]] = {
    "precision": lambda case: 1.0 if case.options["denominator"] == "recommended" else case.hits / case.cut,
    "recall": lambda case: 1.0 if case.options["denominator"] == "min_k" else case.hits / case.m,
    "rbp": lambda case: 1 - float(case.options["p"]) ** case.hits,
    "map": lambda case: case.hits / _normalizer(case),
    "mar": lambda case: case.hits * (case.hits + 1) / (2 * case.m) / _normalizer(case),
    "ndcg": _perfect_ndcg,
    "accuracy": lambda case: (case.hits + case.n_items - case.m - _n_false_positives(case)) / case.n_items,
    "mcc": _perfect_mcc,
}
"""The metrics whose perfect list may not reach the best value."""


def no_random_value(metric: Metric, convention: Convention) -> str | None:
    """Why the mean value of a random list is not known, None if it is known."""
    options = metric.options(convention)
    if metric.definition.kind == "rating":
        return "random lists have no predicted ratings"
    if metric.name == "f1":
        is_known = all(part.name in ("precision", "recall") for part in metric.parts())
        return None if is_known else "no formula for the mean of this F-measure on random lists"
    if metric.name not in _RANDOM:
        return "no formula for its mean on random lists"
    if options.get("gain", "binary") != "binary":
        return "its mean depends on the ratings"
    if options.get("idcg") == "list" or options.get("normalizer") == "hits":
        return "its divisor depends on the hits of the list"
    needs_catalog = metric.name in ("accuracy", "mcc") or options.get("candidates") in ("all", "unseen")
    if convention.candidates == "judged" and needs_catalog:
        return "candidates=judged ranks only judged items, not the full catalog"
    return None


def random_value(metric: Metric, convention: Convention, m: int, c: int) -> RandomValue:
    """The distribution of the value of a random list of c items without ties, m of them relevant: 0 < m <= c.

    Sums of hits with fixed weights have the mean and variance of sampling without replacement (for equal weights, of the
    hypergeometric distribution). Metrics with a `no_random_value` are not allowed.

    Source:
        Hoeffding, A combinatorial central limit theorem, Annals of Mathematical Statistics 22(4), 1951, for fixed weights;
        Mann and Whitney, On a test of whether one of two random variables is stochastically larger than the other, Annals of
        Mathematical Statistics 18(1), 1947, for the AUC.
    """
    case = _Case(metric.options(convention), m, c if metric.k is None else metric.k, c)
    if metric.name == "f1":
        first, second = (_divisor(case._replace(options=part.options(convention))) for part in metric.parts())
        square = float(case.options["beta"]) ** 2
        return _weighted(np.full(case.length, (1 + square) / (square * second + first)), case)
    return _RANDOM[metric.name](case)


def _random_share_of_hits(case: _Case) -> RandomValue:
    return _weighted(np.full(case.length, 1 / _divisor(case)), case)


def _random_mrr(case: _Case) -> RandomValue:
    first = _first_hit(case)
    rank = np.arange(1, case.length + 1)
    mean = float((first / rank).sum())
    return RandomValue(mean, float((first / rank**2).sum()) - mean**2, max(mean, 1 - mean))


def _random_average_rank(case: _Case) -> RandomValue:
    first = _first_hit(case)
    rank, share = np.arange(1, case.length + 1), first / first.sum()  # the metric is undefined for lists without a hit
    mean = float((rank * share).sum())
    return RandomValue(mean, float((rank**2 * share).sum()) - mean**2, float(case.length))


def _random_rbp(case: _Case) -> RandomValue:
    p = float(case.options["p"])
    return _weighted((1 - p) * np.power(p, np.arange(case.length, dtype=np.float64)), case)


def _random_ndcg(case: _Case) -> RandomValue:
    n_ideal = {"at_k": case.hits, "all": case.m, "full_k": case.cut}[case.options["idcg"]]
    discount = case.options["discount"]
    return _weighted(_weights(discount, case.length) / _ideal_dcg(discount, n_ideal), case)


def _random_map(case: _Case) -> RandomValue:
    rank, hit, two_hits = _hits_at(case)
    return _bounded(float(((hit + two_hits) / rank).sum()) / _normalizer(case))


def _random_mar(case: _Case) -> RandomValue:
    _, hit, two_hits = _hits_at(case)
    return _bounded(float((hit + two_hits).sum()) / case.m / _normalizer(case))


def _random_accuracy(case: _Case) -> RandomValue:
    # A hit turns a false positive into a true positive, and a false negative into a true negative.
    hits, c = _weighted(np.ones(case.length), case), case.n_items
    return RandomValue((2 * hits.mean + c - case.m - case.length) / c, 4 * hits.variance / c**2, 2 * hits.largest / c)


def _random_mcc(case: _Case) -> RandomValue:
    # For a list of n items with H hits, TP TN - FP FN is c H - n m, with mean 0.
    n, m, c = case.length, case.m, case.n_items
    square = n * m * (c - n) * (c - m)
    if not square:
        return _UNDEFINED
    return RandomValue(0.0, c**2 * _weighted(np.ones(n), case).variance / square, 1.0)


def _random_auc(case: _Case) -> RandomValue:
    others = case.n_items - case.m
    scale = others + (case.options["negatives"] == "plus_one")
    if not scale:
        return _UNDEFINED
    if not others:
        return RandomValue(1.0, 0.0, 0.0)
    share = others / scale
    return RandomValue(1 - share / 2, share**2 * (case.n_items + 1) / (12 * case.m * others), 1 - share / 2)


def _random_lauc(case: _Case) -> RandomValue:
    scale = case.n_items - case.m + (case.options["negatives"] == "plus_one")
    if not scale:
        return _UNDEFINED
    rank, hit, two_hits = _hits_at(case)
    above = (rank - 1) * hit - two_hits
    return _bounded(float((hit - above / scale).sum()) / case.hits)


def _random_pauc(case: _Case) -> RandomValue:
    # The number of non-relevant items above a relevant item is uniformly distributed from 0 to c - m.
    above = np.arange(case.n_items - case.m + 1)
    return _bounded(float(np.maximum(case.cut - above, 0).mean()) / case.cut)


_RANDOM: Mapping[str, Callable[[_Case], RandomValue]] = {
    "precision": _random_share_of_hits,
    "recall": _random_share_of_hits,
    "hit": lambda case: _bounded(float(_first_hit(case).sum())),
    "mrr": _random_mrr,
    "average_rank": _random_average_rank,
    "r_precision": lambda case: _weighted(np.full(case.m, 1 / case.m), case),
    "rbp": _random_rbp,
    "map": _random_map,
    "mar": _random_mar,
    "ndcg": _random_ndcg,
    "accuracy": _random_accuracy,
    "mcc": _random_mcc,
    "auc": _random_auc,
    "gauc": _random_auc,
    "lauc": _random_lauc,
    "pauc": _random_pauc,
    # Undefined for lists without a relevant and a non-relevant item.
    "matched_auc": lambda _: _bounded(0.5),
}


class _Case(NamedTuple):
    """What a value depends on. `hits`: the largest number of hits. `length`: of the list of the full catalog, cut at k."""

    options: Mapping[str, Any]  # of the metric
    m: int  # number of relevant items
    cut: int  # k, or the length of the full list
    n_items: int  # size of the catalog

    @property
    def hits(self) -> int:
        return min(self.m, self.cut)

    @property
    def length(self) -> int:
        return min(self.cut, self.n_items)


_UNDEFINED = RandomValue(math.nan, 0.0, 0.0)


def _divisor(case: _Case) -> int:
    """The divisor of precision or recall, for a list of the full catalog."""
    return {"k": case.cut, "recommended": case.length, "relevant": case.m, "min_k": case.hits}[case.options["denominator"]]


def _normalizer(case: _Case) -> int:
    """The divisor of map and mar for a list with all relevant items; with `hits`, for the perfect list."""
    divisors = {"min_k": case.hits, "relevant": case.m, "hits": case.hits, "k": case.cut, "min_recommended": case.hits}
    return divisors[case.options["normalizer"]]


def _weights(discount: str, n: int) -> Floats:
    """1 / discount of the first n ranks."""
    return 1 / discount_of(np.arange(1, n + 1), discount)


@lru_cache(maxsize=1024)
def _ideal_dcg(discount: str, n: int) -> float:
    """The DCG of n hits at the first n ranks."""
    return float(_weights(discount, n).sum())


def _always_gains(convention: Convention) -> bool:
    """Whether every relevant item has a gain above 0 under every gain option."""
    return convention.relevance == "positive" or (convention.relevance == "threshold" and convention.threshold > 0)


def _weighted(weights: Floats, case: _Case) -> RandomValue:
    """Sum of (L,) non-increasing weights over the ranks of hits."""
    c, share = case.n_items, case.m / case.n_items
    total = float(weights.sum())
    spread = float((weights**2).sum()) - total**2 / c
    variance = share * (1 - share) * c / (c - 1) * spread if c > 1 else 0.0
    return RandomValue(share * total, max(variance, 0.0), float(weights[: case.m].sum()))


def _bounded(mean: float) -> RandomValue:
    """A value in [0, 1] has the largest variance if it is either 0 or 1."""
    return RandomValue(mean, mean * (1 - mean), max(mean, 1 - mean))


def _first_hit(case: _Case) -> Floats:
    """By rank, up to the cut-off, the probability that the first hit is at this rank."""
    before, c = np.arange(case.length), case.n_items
    no_hit = np.concatenate([[1.0], np.cumprod(np.maximum(c - case.m - before, 0) / (c - before))])
    return -np.diff(no_hit)


def _hits_at(case: _Case) -> tuple[Floats, Floats, Floats]:
    """By rank: the rank, the probability of a hit, and the mean number of pairs of this hit and an earlier hit."""
    m, c = case.m, case.n_items
    rank = np.arange(1.0, case.length + 1)
    pair = m * (m - 1) / (c * (c - 1)) if c > 1 else 0.0
    return rank, np.full(len(rank), m / c), (rank - 1) * pair
