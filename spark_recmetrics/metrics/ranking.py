"""Ranking metrics of the hits of a list.

Notation, per user: L_k is the list cut at k, n its length, m the number of relevant items, h_i = 1 if the item at rank i is
relevant, and H the sum of h_i over i <= k. Without a cut-off the full list counts: formulas divide by n in place of k, and
min(m, k) is m. Values are undefined (NaN) only where a docstring says so.
"""

from __future__ import annotations

import numpy as np

from spark_recmetrics.metrics.arrays import Floats, Ints, ratio, sum_by_user
from spark_recmetrics.metrics.batch import RankedBatch
from spark_recmetrics.metrics.registry import Parameter, register


@register("precision", options={"denominator": "precision_denominator"}, aliases=("prec", "p"))
def precision(batch: RankedBatch, k: int | None, *, denominator: str) -> Floats:
    """Share of the list that is relevant: H / k.

    `denominator=recommended` divides by n, so that short lists are not penalized.

    Options:
        denominator: `k` or `recommended`.

    Returns:
        (U,) shares in [0, 1]. Undefined for a user with neither a list nor a relevant item if the denominator is n = 0.

    Source:
        Manning, Raghavan and Schütze, Introduction to Information Retrieval, 2008, section 8.4.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "b"], ["x"], []], truth=[{"a": 1}, {"y": 1}, {"z": 1}])
        >>> precision(batch, 2, denominator="k")
        array([0.5, 0. , 0. ])
    """
    divisor = batch.list_length(k) if denominator == "recommended" else batch.cut_off(k)
    return ratio(batch.n_hits(k), divisor, defined=(divisor > 0) | (batch.n_relevant > 0))


@register("recall", options={"denominator": "recall_denominator"}, aliases=("rec", "r"), needs_relevant=True, grows_with_k=True)
def recall(batch: RankedBatch, k: int | None, *, denominator: str) -> Floats:
    """Share of the relevant items that are in the list: H / m.

    Options:
        denominator: `relevant` for m, `min_k` for min(m, k).

    Returns:
        (U,) shares in [0, 1]. Undefined for a user without a relevant item.

    Source:
        Manning, Raghavan and Schütze, Introduction to Information Retrieval, 2008, section 8.3.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "b"], ["x"], ["a"]], truth=[{"a": 1, "c": 1}, {"y": 1}, {}])
        >>> recall(batch, 2, denominator="relevant")
        array([0.5, 0. , nan])
    """
    divisor = batch.n_within(k) if denominator == "min_k" else batch.n_relevant
    return ratio(batch.n_hits(k), divisor, defined=batch.n_relevant > 0)


@register(
    "f1",
    options={"beta": "beta"},
    operands=("precision", "recall"),
    aliases=("f", "fbeta", "f_beta", "f1_score", "fscore", "f_score"),
    needs_relevant=True,
)
def f_beta(first: Floats, second: Floats, *, beta: float) -> Floats:
    """Weighted harmonic mean of two metrics: (1 + beta^2) a b / (beta^2 a + b), and 0 where a = b = 0.

    The default metrics are precision and recall; write others as `f1(ndcg, map)@10`. A beta above 1 favors the second metric.

    Options:
        beta: Weight, above 0.

    Returns:
        (U,) values between those of the two metrics. Undefined if one of them is.

    Source:
        van Rijsbergen, Information Retrieval, 2nd edition, 1979, chapter 7.

    Example:
        >>> f_beta(np.array([0.5, 0.0, np.nan]), np.array([1.0, 0.0, 1.0]), beta=1.0).round(4)
        array([0.6667, 0.    ,    nan])
    """
    undefined = np.isnan(first) | np.isnan(second)
    if beta > 1:
        # An equal expression whose square cannot overflow.
        first, second, beta = second, first, 1 / beta
    square = beta * beta
    return ratio((1 + square) * first * second, square * first + second, defined=~undefined)


@register("hit", aliases=("hit_rate", "hitrate", "hr", "hits", "hit_ratio", "success"), grows_with_k=True)
def hit(batch: RankedBatch, k: int | None) -> Floats:
    """1 if the list contains a relevant item, else 0; its mean is the hit rate.

    Returns:
        (U,) values 0 or 1.

    Source:
        Deshpande and Karypis, Item-based top-N recommendation algorithms, ACM TOIS 22(1), 2004.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "b"], ["x"], ["a"]], truth=[{"b": 1}, {"y": 1}, {}])
        >>> hit(batch, 2)
        array([1., 0., 0.])
    """
    return (batch.n_hits(k) > 0).astype(np.float64)


@register("mrr", aliases=("rr", "mean_reciprocal_rank", "reciprocal_rank", "recip_rank"), grows_with_k=True)
def reciprocal_rank(batch: RankedBatch, k: int | None) -> Floats:
    """1 / rank of the first relevant item within k, else 0; its mean is the MRR.

    Returns:
        (U,) values in [0, 1].

    Source:
        Voorhees, The TREC-8 question answering track report, 1999.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "b"], ["x"], ["b"]], truth=[{"b": 1}, {"y": 1}, {"b": 1}])
        >>> reciprocal_rank(batch, 2)
        array([0.5, 0. , 1. ])
    """
    first = np.where(batch.hit_number == 1, 1.0 / batch.hit_rank, 0.0)
    return batch.sum_hits(first, k)


@register(
    "average_rank",
    aliases=("avg_rank", "mean_rank", "first_hit_rank"),
    higher_is_better=False,
    lower=1.0,
    upper=None,
    needs_relevant=True,
    skips_undefined=True,
)
def first_hit_rank(batch: RankedBatch, k: int | None) -> Floats:
    """Rank of the first relevant item within k; its mean is the average rank.

    Users without a hit are left out, so look at `hit` as well, which counts them.

    Returns:
        (U,) ranks from 1. Undefined for a user without a hit.

    Source:
        Voorhees, The TREC-8 question answering track report, 1999, for the reciprocal rank.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "b"], ["x"], ["b"]], truth=[{"b": 1}, {"y": 1}, {"b": 1}])
        >>> first_hit_rank(batch, 2)
        array([ 2., nan,  1.])
    """
    first = batch.sum_hits(np.where(batch.hit_number == 1, batch.hit_rank, 0.0), k)
    return np.where(first > 0, first, np.nan)


@register("r_precision", aliases=("rprec", "r_prec"), needs_relevant=True, has_cut_off=False)
def r_precision(batch: RankedBatch, k: int | None) -> Floats:
    """Precision and recall at the number of relevant items: hits within the first m ranks / m.

    Returns:
        (U,) shares in [0, 1]. Undefined for a user without a relevant item.

    Source:
        Manning, Raghavan and Schütze, Introduction to Information Retrieval, 2008, section 8.4.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "x", "b"], ["x"], ["a"]], truth=[{"a": 1, "b": 1}, {"y": 1}, {}])
        >>> r_precision(batch, None)
        array([0.5, 0. , nan])
    """
    within = batch.hit_rank <= batch.n_relevant[batch.hit_user]
    return ratio(batch.sum_hits(within, k), batch.n_relevant, defined=batch.n_relevant > 0)


@register(
    "rbp", options={"p": Parameter(0.8, below=1.0)}, aliases=("rank_biased_precision",), needs_relevant=True, grows_with_k=True
)
def rank_biased_precision(batch: RankedBatch, k: int | None, *, p: float) -> Floats:
    """Rank-biased precision: (1 - p) sum of h_i p^(i-1) over i <= k.

    It is the expected share of relevant items among the items that a user looks at.

    Options:
        p: Probability that the user goes on to the next item, above 0 and below 1.

    Returns:
        (U,) values in [0, 1). Undefined for a user without a relevant item.

    Source:
        Moffat and Zobel, Rank-biased precision for measurement of retrieval effectiveness, ACM TOIS 27(1), 2008.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "x", "b"], ["x"], ["a"]], truth=[{"a": 1, "b": 1}, {"y": 1}, {}])
        >>> rank_biased_precision(batch, 3, p=0.5)
        array([0.625, 0.   ,   nan])
    """
    value = (1 - p) * batch.sum_hits(np.power(p, batch.hit_rank - 1.0), k)
    return np.where(batch.n_relevant > 0, value, np.nan)


@register(
    "map",
    options={"normalizer": "map_normalizer"},
    aliases=("ap", "average_precision", "mean_average_precision"),
    needs_relevant=True,
)
def average_precision(batch: RankedBatch, k: int | None, *, normalizer: str) -> Floats:
    """Average precision, the normalized sum of the precision at each hit: (1/N) sum of P@i h_i over i <= k.

    Options:
        normalizer: The divisor N: `min_k` min(m, k), `relevant` m, `hits` H, `k`, `min_recommended` min(m, n).

    Returns:
        (U,) values in [0, 1]; their mean is MAP. Undefined for a user without a relevant item.

    Source:
        Buckley and Voorhees, Evaluating evaluation measure stability, SIGIR 2000 (N = m).

    Example:
        >>> batch = RankedBatch.of(lists=[["b", "x", "a"], ["x"], ["a"]], truth=[{"a": 1, "b": 1}, {"y": 1}, {}])
        >>> average_precision(batch, 3, normalizer="min_k").round(4)
        array([0.8333, 0.    ,    nan])
    """
    total = batch.sum_hits(batch.hit_number / batch.hit_rank, k)
    return ratio(total, _normalizer(batch, k, normalizer), defined=batch.n_relevant > 0)


@register(
    "mar", options={"normalizer": "map_normalizer"}, aliases=("average_recall", "mean_average_recall"), needs_relevant=True
)
def average_recall(batch: RankedBatch, k: int | None, *, normalizer: str) -> Floats:
    """Average recall, the normalized sum of the recall at each hit: (1/N) sum of R@i h_i over i <= k.

    A perfect list scores (m + 1) / (2 m) for m <= k, not 1.

    Options:
        normalizer: The divisor N, as for `map`.

    Returns:
        (U,) values in [0, 1]; their mean is MAR. Undefined for a user without a relevant item.

    Source:
        WarpRec 1.4.6, its accuracy metric MAR@k.

    Example:
        >>> batch = RankedBatch.of(lists=[["b", "a"], ["x"], ["a"]], truth=[{"a": 1, "b": 1}, {"y": 1}, {}])
        >>> average_recall(batch, 2, normalizer="min_k")
        array([0.75, 0.  ,  nan])
    """
    recall_at_hit = batch.hit_number / batch.n_relevant[batch.hit_user]
    return ratio(batch.sum_hits(recall_at_hit, k), _normalizer(batch, k, normalizer), defined=batch.n_relevant > 0)


@register(
    "dcg",
    options={"gain": "gain", "discount": "discount"},
    aliases=("discounted_cumulative_gain",),
    upper=None,
    grows_with_k=True,
)
def discounted_cumulative_gain(batch: RankedBatch, k: int | None, *, gain: str, discount: str) -> Floats:
    """Discounted cumulative gain of the list: DCG = sum of gain_i / discount(i) over i <= k.

    Options:
        gain: Gain of a relevant item with rating r: `binary` 1, `linear` r, `exponential` 2^r - 1, `exponential_plus1`
            2^(r+1) - 1. Other items have gain 0, and a negative gain counts as 0.
        discount: `log2_plus1` log2(i + 1), `log2_clipped` log2(max(i, 2)).

    Returns:
        (U,) values of 0 or more. Never undefined: 0 for a user without a relevant item.

    Source:
        Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, ACM TOIS 20(4), 2002; for the gain
        2^r - 1 Burges et al., Learning to rank using gradient descent, ICML 2005.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "x", "b"], ["x"], ["a"]], truth=[{"a": 1, "b": 1}, {"y": 1}, {}])
        >>> discounted_cumulative_gain(batch, 3, gain="binary", discount="log2_plus1")
        array([1.5, 0. , 0. ])
    """
    return batch.sum_hits(gain_of(batch.hit_rating, gain) / discount_of(batch.hit_rank, discount), k)


@register(
    "idcg",
    options={"gain": "gain", "idcg": "idcg", "discount": "discount"},
    aliases=("ideal_dcg", "ideal_discounted_cumulative_gain"),
    upper=None,
    grows_with_k=True,
    accuracy=False,
)
def ideal_discounted_cumulative_gain(batch: RankedBatch, k: int | None, *, gain: str, idcg: str, discount: str) -> Floats:
    """DCG of the ideal list, by which `ndcg` divides.

    Options:
        gain, discount: As for `dcg`.
        idcg: The ideal list: the relevant items by gain, cut at k (`at_k`) or not cut (`all`); the hits of the list itself,
            sorted by gain (`list`); k hits of gain 1 (`full_k`).

    Returns:
        (U,) values of 0 or more. Never undefined: 0 for a user without a relevant item, except for `full_k`.

    Source:
        Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, ACM TOIS 20(4), 2002.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "x", "b"], ["x"], ["a"]], truth=[{"a": 1, "b": 1}, {"y": 1}, {}])
        >>> ideal_discounted_cumulative_gain(batch, 3, gain="binary", idcg="at_k", discount="log2_plus1").round(6)
        array([1.63093, 1.     , 0.     ])
    """
    if idcg == "full_k":
        cut_off = batch.cut_off(k)
        discounts = 1.0 / discount_of(np.arange(1, int(cut_off.max(initial=0)) + 1), discount)
        return np.concatenate([[0.0], np.cumsum(discounts)])[cut_off]
    if idcg == "list":
        hit_gain = gain_of(batch.hit_rating, gain)
        within = np.flatnonzero(batch.hit_rank <= (np.inf if k is None else k))
        order = within[np.lexsort((-hit_gain[within], batch.hit_user[within]))]
        # The hits within k are the first hits of a user, so that the sorted ones take the ideal ranks 1, 2, ...
        return sum_by_user(batch.hit_user[order], hit_gain[order] / discount_of(batch.hit_number[within], discount), batch.size)
    ideal_gain = gain_of(batch.ideal_rating, gain) / discount_of(batch.ideal_rank, discount)
    kept = batch.ideal_rank <= (np.inf if k is None or idcg == "all" else k)
    return sum_by_user(batch.ideal_user[kept], ideal_gain[kept], batch.size)


@register(
    "ndcg",
    options={"gain": "gain", "idcg": "idcg", "discount": "discount"},
    aliases={
        **dict.fromkeys(("normalized_dcg", "normalised_dcg", "normalized_discounted_cumulative_gain"), ()),
        **dict.fromkeys(("ndcg_rendle2020", "ndcgrendle2020"), (("gain", "binary"),)),
    },
    needs_relevant=True,
)
def ndcg(batch: RankedBatch, k: int | None, *, gain: str, idcg: str, discount: str) -> Floats:
    """DCG of the list divided by the DCG of the ideal list: DCG / IDCG.

    Options:
        gain, discount: As for `dcg`.
        idcg: As for `idcg`.

    Returns:
        (U,) values, in [0, 1] for `at_k`, `all` and `list`. Undefined for a user without a relevant item, and for `at_k` and
        `all` if all gains are 0; `list` and `full_k` are 0 then.

    Source:
        Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, ACM TOIS 20(4), 2002; for the gain
        2^r - 1 Burges et al., Learning to rank using gradient descent, ICML 2005.

    Example:
        >>> batch = RankedBatch.of(lists=[["b", "a"], ["x"], ["a"]], truth=[{"a": 3, "b": 1}, {"y": 1}, {}])
        >>> ndcg(batch, 2, gain="linear", idcg="at_k", discount="log2_plus1").round(6)
        array([0.796708, 0.      ,      nan])
    """
    dcg = discounted_cumulative_gain(batch, k, gain=gain, discount=discount)
    best = ideal_discounted_cumulative_gain(batch, k, gain=gain, idcg=idcg, discount=discount)
    defined = batch.n_relevant > 0
    return ratio(dcg, best, defined & (best > 0) if idcg in ("at_k", "all") else defined)


LARGEST_GAIN = 2.0**1000
"""The largest gain. The sum of this gain over the longest list is still finite."""


def gain_of(rating: Floats, gain: str) -> Floats:
    """Gain by rating, up to `LARGEST_GAIN`. Negative gains count as 0, because an ideal list would leave those items out."""
    return np.clip(raw_gain(rating, gain), 0.0, LARGEST_GAIN)


def raw_gain(rating: Floats, gain: str) -> Floats:
    """The gain before it is limited: it may be negative or infinite."""
    if gain == "binary":
        return np.ones(len(rating))
    if gain == "linear":
        return rating
    with np.errstate(over="ignore"):
        return np.exp2(rating + (gain == "exponential_plus1")) - 1.0


def discount_of(rank: Ints, discount: str) -> Floats:
    """The number by which a gain at each rank is divided."""
    return np.log2(np.maximum(rank, 2) if discount == "log2_clipped" else rank + 1.0)


def _normalizer(batch: RankedBatch, k: int | None, normalizer: str) -> Ints:
    if normalizer == "relevant":
        return batch.n_relevant
    if normalizer == "hits":
        return batch.n_hits(k)
    if normalizer == "k":
        return batch.cut_off(k)
    if normalizer == "min_recommended":
        return np.minimum(batch.n_relevant, batch.list_length(k))
    return batch.n_within(k)
