"""What a perfect and a random list must score, in closed form: known before anything is computed, and without the kernels.

Notation as in `ranking`: m relevant items, a cut-off k; c items are shuffled, which are the whole catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics.arrays import Floats
from spark_recmetrics.metrics.registry import Definition, Metric


class Chance(NamedTuple):
    """What is known of the value of a list in random order.

    Args:
        mean: Its expectation; NaN where the metric is undefined.
        variance: Its variance, or a number that it does not exceed.
        largest: How far from its expectation a value can be.
    """

    mean: float
    variance: float
    largest: float


def best_bound(definition: Definition) -> float | None:
    """The declared bound of the best value; None for a metric that does not judge a list.

    Example:
        >>> from spark_recmetrics.metrics import DEFINITIONS
        >>> best_bound(DEFINITIONS["ndcg"]), best_bound(DEFINITIONS["rmse"]), best_bound(DEFINITIONS["ctr"])
        (1.0, 0.0, None)
    """
    return definition.upper if definition.higher_is_better else definition.lower


# The perfect list -----------------------------------------------------------------------------------------------------------


def no_perfect_value(metric: Metric, convention: Convention) -> str | None:
    """Why it is not known what the perfect list scores, None if it is.

    Example:
        >>> from spark_recmetrics.conventions import convention
        >>> no_perfect_value(Metric("ctr"), convention("default"))
        'it has no best value'
    """
    definition, options = metric.definition, metric.options(convention)
    if not definition.accuracy:
        return "it does not ask how far lists agree with truth"
    if best_bound(definition) is None:
        return "it has no best value"
    if definition.across_users or options.get("candidates") == "listed":
        return "among relevant items alone there is nothing to compare"
    if options.get("gain", "binary") != "binary":
        if options["idcg"] == "full_k":
            return "its ideal list has gains of 1 whatever the ratings are"
        if options["idcg"] == "list" and not _always_gains(convention):
            return "it is 0 where no relevant item has a gain"
    return next((reason for part in metric.parts() if (reason := no_perfect_value(part, convention))), None)


def perfect_value(metric: Metric, convention: Convention, m: int, n_items: int | None = None) -> float:
    """What the list of all relevant items and nothing else scores, the highest rating first.

    It is the best bound that the metric declares, unless its formula gives less where there are more places than relevant
    items, or fewer, or where the sum behind it never reaches its limit (`mar`, `rbp`).

    Args:
        metric: A metric for which `no_perfect_value` has no reason.
        convention: The definitions.
        m: Number of relevant items, at least 1.
        n_items: Size of the catalogue, for metrics that need it.

    Returns:
        The value. NaN where the metric is undefined, or the value is one of the ratings (`idcg=all` behind the cut-off).

    Example:
        >>> from spark_recmetrics.conventions import convention
        >>> [perfect_value(Metric(name, k=5), convention("default"), 2) for name in ("ndcg", "precision", "mar")]
        [1.0, 0.4, 0.75]
    """
    known = _Known(metric.options(convention), m, m if metric.k is None else metric.k, n_items or 0)
    if metric.name == "f1":
        first, second = (perfect_value(part, convention, m, n_items) for part in metric.parts())
        square = float(known.options["beta"]) ** 2
        return (1 + square) * first * second / (square * first + second)
    if metric.name in _PERFECT:
        return _PERFECT[metric.name](known)
    bound = best_bound(metric.definition)
    return math.nan if bound is None else bound


def _perfect_precision(of: _Known) -> float:
    return 1.0 if of.options["denominator"] == "recommended" else of.hits / of.cut


def _perfect_recall(of: _Known) -> float:
    return 1.0 if of.options["denominator"] == "min_k" else of.hits / of.m


def _perfect_rbp(of: _Known) -> float:
    return 1 - float(of.options["p"]) ** of.hits


def _perfect_map(of: _Known) -> float:
    return of.hits / _normalizer(of)


def _perfect_mar(of: _Known) -> float:
    return of.hits * (of.hits + 1) / (2 * of.m) / _normalizer(of)


def _perfect_ndcg(of: _Known) -> float:
    discount, own = of.options["discount"], _discounts(of.options["discount"], of.hits)
    if of.options["idcg"] == "full_k":
        return own / _discounts(discount, of.cut)
    if of.options["idcg"] == "all" and of.m > of.cut:
        return own / _discounts(discount, of.m) if of.options["gain"] == "binary" else math.nan
    return 1.0


def _perfect_accuracy(of: _Known) -> float:
    return (of.hits + of.n_items - of.m - _false(of)) / of.n_items


def _perfect_mcc(of: _Known) -> float:
    tp, fp, fn = of.hits, _false(of), of.m - of.hits
    tn = of.n_items - of.m - fp
    square = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(square) if square > 0 else math.nan


def _false(of: _Known) -> int:
    """False positives: the places behind the relevant items, if these places count."""
    return 0 if of.options["denominator"] == "recommended" else min(of.cut - of.hits, of.n_items - of.m)


_PERFECT: Mapping[str, Callable[[_Known], float]] = {
    "precision": _perfect_precision,
    "recall": _perfect_recall,
    "rbp": _perfect_rbp,
    "map": _perfect_map,
    "mar": _perfect_mar,
    "ndcg": _perfect_ndcg,
    "accuracy": _perfect_accuracy,
    "mcc": _perfect_mcc,
}
"""The metrics whose perfect list may score another value than their best bound."""


# The random list ------------------------------------------------------------------------------------------------------------


def no_chance(metric: Metric, convention: Convention) -> str | None:
    """Why it is not known what a list in random order scores on average, None if it is.

    Example:
        >>> from spark_recmetrics.conventions import convention
        >>> no_chance(Metric("rmse"), convention("default"))
        'a random order is no predicted rating'
    """
    options = metric.options(convention)
    if metric.definition.kind == "rating":
        return "a random order is no predicted rating"
    if metric.name == "f1":
        plain = all(part.name in ("precision", "recall") for part in metric.parts())
        return None if plain else "of an F of these metrics no mean is known"
    if metric.name not in _CHANCE:
        return "no mean is known for it"
    if options.get("gain", "binary") != "binary":
        return "its mean is one of the ratings"
    if options.get("idcg") == "list" or options.get("normalizer") == "hits":
        return "it divides by what the list has found"
    among = options.get("candidates")
    if convention.candidates == "judged" and (metric.name in ("accuracy", "mcc") or among in ("all", "unseen")):
        return "lists of judged items are not the catalogue"
    return None


def chance(metric: Metric, convention: Convention, m: int, c: int) -> Chance:
    """What a list of c items in random order scores, of which m are relevant: mean and spread.

    The list holds every relevant item, the catalogue is these c items, and no two scores are equal. Sums of hits with fixed
    weights have the mean and variance of sampling without replacement (for equal weights the hypergeometric distribution).

    Args:
        metric: A metric for which `no_chance` has no reason.
        convention: The definitions.
        m: Number of relevant items, at least 1 and at most c.
        c: Number of items.

    Source:
        Hoeffding, A combinatorial central limit theorem, Annals of Mathematical Statistics 22(4), 1951, for fixed weights;
        Mann and Whitney, On a test of whether one of two random variables is stochastically larger than the other, Annals of
        Mathematical Statistics 18(1), 1947, for the AUC.

    Example:
        >>> from spark_recmetrics.conventions import convention
        >>> chance(Metric("precision", k=2), convention("default"), m=1, c=4)
        Chance(mean=0.25, variance=0.0625, largest=0.5)
    """
    known = _Known(metric.options(convention), m, c if metric.k is None else metric.k, c)
    if metric.name == "f1":
        first, second = (_divisor(known._replace(options=part.options(convention))) for part in metric.parts())
        square = float(known.options["beta"]) ** 2
        return _weighted(np.full(known.length, (1 + square) / (square * second + first)), known)
    return _CHANCE[metric.name](known)


def _chance_of_hits(of: _Known) -> Chance:
    return _weighted(np.full(of.length, 1 / _divisor(of)), of)


def _chance_hit(of: _Known) -> Chance:
    return _bounded(float(_first_hit(of).sum()))


def _chance_mrr(of: _Known) -> Chance:
    first = _first_hit(of)
    rank = np.arange(1, of.length + 1)
    mean = float((first / rank).sum())
    return Chance(mean, float((first / rank**2).sum()) - mean**2, max(mean, 1 - mean))


def _chance_average_rank(of: _Known) -> Chance:
    """Of the lists that have a hit."""
    first = _first_hit(of)
    rank, share = np.arange(1, of.length + 1), first / first.sum()
    mean = float((rank * share).sum())
    return Chance(mean, float((rank**2 * share).sum()) - mean**2, float(of.length))


def _chance_r_precision(of: _Known) -> Chance:
    return _weighted(np.full(of.m, 1 / of.m), of)


def _chance_rbp(of: _Known) -> Chance:
    p = float(of.options["p"])
    return _weighted((1 - p) * np.power(p, np.arange(of.length, dtype=np.float64)), of)


def _chance_ndcg(of: _Known) -> Chance:
    ideal = {"at_k": of.hits, "all": of.m, "full_k": of.cut}[of.options["idcg"]]
    discount = of.options["discount"]
    return _weighted(1 / _discount(discount, of.length) / _discounts(discount, ideal), of)


def _chance_map(of: _Known) -> Chance:
    rank, hit, two_hits = _hits_at(of)
    return _bounded(float(((hit + two_hits) / rank).sum()) / _normalizer(of))


def _chance_mar(of: _Known) -> Chance:
    _, hit, two_hits = _hits_at(of)
    return _bounded(float((hit + two_hits).sum()) / of.m / _normalizer(of))


def _chance_accuracy(of: _Known) -> Chance:
    # Every hit takes the place of a false positive, and is no false negative.
    hits, c = _weighted(np.ones(of.length), of), of.n_items
    return Chance((2 * hits.mean + c - of.m - of.length) / c, 4 * hits.variance / c**2, 2 * hits.largest / c)


def _chance_mcc(of: _Known) -> Chance:
    # TP TN - FP FN is c H - n m for a list of n items, whose mean is 0.
    n, m, c = of.length, of.m, of.n_items
    square = n * m * (c - n) * (c - m)
    if not square:
        return _NOTHING
    return Chance(0.0, c**2 * _weighted(np.ones(n), of).variance / square, 1.0)


def _chance_auc(of: _Known) -> Chance:
    others = of.n_items - of.m
    scale = others + (of.options["negatives"] == "plus_one")
    if not scale:
        return _NOTHING
    if not others:
        return Chance(1.0, 0.0, 0.0)
    share = others / scale
    return Chance(1 - share / 2, share**2 * (of.n_items + 1) / (12 * of.m * others), 1 - share / 2)


def _chance_lauc(of: _Known) -> Chance:
    scale = of.n_items - of.m + (of.options["negatives"] == "plus_one")
    if not scale:
        return _NOTHING
    rank, hit, two_hits = _hits_at(of)
    above = (rank - 1) * hit - two_hits
    return _bounded(float((hit - above / scale).sum()) / of.hits)


def _chance_pauc(of: _Known) -> Chance:
    # Of the c - m others, any number is equally likely to stand above a relevant item.
    above = np.arange(of.n_items - of.m + 1)
    return _bounded(float(np.maximum(of.cut - above, 0).mean()) / of.cut)


_CHANCE: Mapping[str, Callable[[_Known], Chance]] = {
    "precision": _chance_of_hits,
    "recall": _chance_of_hits,
    "hit": _chance_hit,
    "mrr": _chance_mrr,
    "average_rank": _chance_average_rank,
    "r_precision": _chance_r_precision,
    "rbp": _chance_rbp,
    "map": _chance_map,
    "mar": _chance_mar,
    "ndcg": _chance_ndcg,
    "accuracy": _chance_accuracy,
    "mcc": _chance_mcc,
    "auc": _chance_auc,
    "gauc": _chance_auc,
    "lauc": _chance_lauc,
    "pauc": _chance_pauc,
    # Of the lists in which there is something to compare: whatever it is, its order is random.
    "matched_auc": lambda _: _bounded(0.5),
}


# Parts of the formulas ------------------------------------------------------------------------------------------------------


class _Known(NamedTuple):
    """A list: its metric's options, relevant items, cut-off (or the length of the whole list), and items of the catalogue."""

    options: Mapping[str, Any]
    m: int
    cut: int
    n_items: int

    @property
    def hits(self) -> int:
        """How many hits fit into the list."""
        return min(self.m, self.cut)

    @property
    def length(self) -> int:
        """How many items a list of the whole catalogue has before the cut-off."""
        return min(self.cut, self.n_items)


_NOTHING = Chance(math.nan, 0.0, 0.0)


def _divisor(of: _Known) -> int:
    """What precision or recall divides its hits by, in a list of the whole catalogue."""
    return {"k": of.cut, "recommended": of.length, "relevant": of.m, "min_k": of.hits}[of.options["denominator"]]


def _normalizer(of: _Known) -> int:
    """What map and mar divide by, in a list that has all relevant items; under `hits`, which vary, if it is perfect."""
    known = {"min_k": of.hits, "relevant": of.m, "hits": of.hits, "k": of.cut, "min_recommended": of.hits}
    return known[of.options["normalizer"]]


def _discount(discount: str, n: int) -> Floats:
    rank = np.arange(1, n + 1)
    return np.log2(np.maximum(rank, 2) if discount == "log2_clipped" else rank + 1.0)


@lru_cache(maxsize=1024)
def _discounts(discount: str, n: int) -> float:
    """Sum of 1 / discount over the first n ranks."""
    return float((1 / _discount(discount, n)).sum())


def _always_gains(convention: Convention) -> bool:
    """Whether every relevant item has a gain above 0, however it is graded."""
    return convention.relevance == "positive" or (convention.relevance == "threshold" and convention.threshold > 0)


def _weighted(weights: Floats, of: _Known) -> Chance:
    """Sum of (L,) weights, which do not grow, over the ranks of hits."""
    c, share = of.n_items, of.m / of.n_items
    total = float(weights.sum())
    spread = float((weights**2).sum()) - total**2 / c
    variance = share * (1 - share) * c / (c - 1) * spread if c > 1 else 0.0
    return Chance(share * total, max(variance, 0.0), float(weights[: of.m].sum()))


def _bounded(mean: float) -> Chance:
    """A value between 0 and 1 varies most where it is one of the two."""
    return Chance(mean, mean * (1 - mean), max(mean, 1 - mean))


def _first_hit(of: _Known) -> Floats:
    """By rank, up to the cut-off, the probability that the first hit stands there."""
    before, c = np.arange(of.length), of.n_items
    none_yet = np.concatenate([[1.0], np.cumprod(np.maximum(c - of.m - before, 0) / (c - before))])
    return -np.diff(none_yet)


def _hits_at(of: _Known) -> tuple[Floats, Floats, Floats]:
    """By rank: the rank, the probability of a hit, and the mean number of hits before it together with it."""
    m, c = of.m, of.n_items
    rank = np.arange(1.0, of.length + 1)
    pair = m * (m - 1) / (c * (c - 1)) if c > 1 else 0.0
    return rank, np.full(len(rank), m / c), (rank - 1) * pair
