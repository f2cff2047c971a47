"""Metrics of the popularity of recommended items: novelty, popularity, long tail, discovery, and serendipity.

Notation, per user: L_k is the list cut at k, and n its length. Per item: `rows` and `users` are its training rows and the users
with such a row, and p is its share of all training rows, or of all users with training rows. Items without a row are *cold*.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from spark_recmetrics.conventions import CHOICES
from spark_recmetrics.metrics.arrays import Floats, Ints, ratio, sum_by_user
from spark_recmetrics.metrics.batch import RankedBatch, popularity, recommended
from spark_recmetrics.metrics.ranking import gain_of
from spark_recmetrics.metrics.registry import Parameter, PerChoice, Sums, quotient, register

_OF = ("users", "rows")
_SHARE = Parameter(0.8, below=1.0)
_DENOMINATOR = Parameter("recommended", ("recommended", "k"))
_POPULARITY = ("recommended", "popularity")
_POPULARITY_OF = PerChoice("of", {"users": (*_POPULARITY, "audience"), "rows": _POPULARITY})

_list_metric = partial(register, needs=_POPULARITY, users="predicted", accuracy=False)
_hit_metric = partial(register, needs=_POPULARITY_OF, needs_relevant=True, upper=None, accuracy=False)


@_list_metric(
    "novelty",
    options={
        "of": Parameter("users", _OF),
        "cold": Parameter("one", ("one", "zero")),
        "scale": Parameter("none", ("none", "max")),
        "denominator": _DENOMINATOR,
        "average": Parameter("per_user", ("per_user", "recommendations")),
    },
    aliases={
        **dict.fromkeys(("self_information", "miuf", "mean_inv_user_freq"), ()),
        "surprisal": (("denominator", "k"), ("scale", "max")),
    },
    upper=None,
    pooled=quotient,
    averaged_by="average",
    needs=_POPULARITY_OF,
)
def novelty(batch: RankedBatch, k: int | None, *, of: str, cold: str, scale: str, denominator: str, average: str) -> Sums:
    """How rare the recommended items are in the training rows: mean of -log2 p over L_k.

    Options:
        of: p is the share of `users` or of `rows`.
        cold: A cold item counts as if it had `one` user or row, or its novelty is `zero`.
        scale: `max` divides by log2 of the number of users or rows, the novelty of an item with one user or row.
        denominator: `recommended` divides by n, `k` by k, so that empty positions have no novelty.
        average: `per_user`: the mean of the users' means. `recommendations`: the mean over the recommendations of all users.

    Returns:
        Sums, (U,) each, with a quotient of 0 or more. Undefined for a user without a list.

    Source:
        Vargas and Castells, Rank and relevance in novelty and diversity metrics for recommender systems, RecSys 2011.

    Example:
        All of 4 users have "a", and one has "b":

        >>> train = [(user, "a") for user in "1234"] + [("1", "b")]
        >>> batch = RankedBatch.of([["a", "b"], ["b"], []], [{}, {}, {}], train=train)
        >>> novelty(batch, 2, of="users", cold="one", scale="none", denominator="recommended", average="per_user")[:2]
        (array([2., 2., 0.]), array([2, 1, 0]))
    """
    rarity = -np.log2(_shares(batch, of)) + 0.0
    if cold == "zero":
        rarity = np.where(recommended(batch).table.n_rows == 0, 0.0, rarity)
    n_all = popularity(batch).n_users if of == "users" else popularity(batch).n_rows
    if scale == "max":
        rarity = rarity / np.log2(n_all) if n_all > 1 else np.zeros_like(rarity)
    user, item = recommended(batch).top(k, "item")
    n = np.bincount(user, minlength=batch.size)
    return Sums(sum_by_user(user, rarity[item], batch.size), np.where(n > 0, batch.cut_off(k), 0) if denominator == "k" else n)


@_list_metric(
    "arp",
    options={"cold": Parameter("zero", ("zero", "one")), "scale": Parameter("none", ("none", "share"))},
    aliases=("average_recommendation_popularity", "avg_rec_popularity", "average_popularity"),
    higher_is_better=False,
    upper=None,
)
def recommendation_popularity(batch: RankedBatch, k: int | None, *, cold: str, scale: str) -> Floats:
    """Average popularity of the recommended items: mean number of training rows over L_k.

    Options:
        cold: A cold item has `zero` rows, or counts as if it had `one`.
        scale: `share` divides by the number of training rows.

    Returns:
        (U,) values of 0 or more. Undefined for a user without a list.

    Source:
        Yin et al., Challenging the long tail recommendation, VLDB 2012.

    Example:
        >>> train = [("1", "a"), ("2", "a"), ("3", "a"), ("1", "b")]
        >>> batch = RankedBatch.of([["a", "b"], ["x"], []], [{}, {}, {}], train=train)
        >>> recommendation_popularity(batch, 2, cold="zero", scale="none")
        array([ 2.,  0., nan])
    """
    user, item = recommended(batch).top(k, "item")
    n = np.bincount(user, minlength=batch.size)
    n_rows = np.maximum(recommended(batch).table.n_rows, 1 if cold == "one" else 0)
    divisor = max(popularity(batch).n_rows, 1) if scale == "share" else 1
    return ratio(sum_by_user(user, (n_rows / divisor)[item], batch.size), n, defined=n > 0)


@_list_metric("aplt", options={"share": _SHARE, "denominator": _DENOMINATOR}, aliases=("average_percentage_of_long_tail",))
def long_tail_share(batch: RankedBatch, k: int | None, *, share: float, denominator: str) -> Floats:
    """Share of long-tail items in the list: long-tail items in L_k / n.

    The short head is the most popular items that together hold a share of the training rows; all other items are the long tail.
    Equally popular items belong to the short head if the more popular items hold less than the share.

    Options:
        share: The share of the training rows in the short head.
        denominator: `recommended` divides by n, `k` by k.

    Returns:
        (U,) shares in [0, 1]. Undefined for a user without a list.

    Source:
        Abdollahpouri et al., Managing popularity bias in recommender systems with personalized re-ranking, FLAIRS 2019.

    Example:
        "a" holds 8 of 10 training rows, "b" and "c" one each:

        >>> train = [(user, "a") for user in "12345678"] + [("1", "b"), ("2", "c")]
        >>> batch = RankedBatch.of([["a", "b"], ["b", "c"], []], [{}, {}, {}], train=train)
        >>> long_tail_share(batch, 2, share=0.8, denominator="recommended")
        array([0.5, 1. , nan])
    """
    n_tail, n = _long_tail(batch, k, share)
    return ratio(n_tail, batch.cut_off(k) if denominator == "k" else n, defined=n > 0)


@_list_metric("aclt", options={"share": _SHARE}, aliases=("average_coverage_of_long_tail",), upper=None, grows_with_k=True)
def long_tail_count(batch: RankedBatch, k: int | None, *, share: float) -> Floats:
    """Number of long-tail items in L_k.

    Options:
        share: As for `aplt`.

    Returns:
        (U,) counts. Undefined for a user without a list.

    Source:
        Abdollahpouri et al., Managing popularity bias in recommender systems with personalized re-ranking, FLAIRS 2019.

    Example:
        >>> train = [(user, "a") for user in "12345678"] + [("1", "b"), ("2", "c")]
        >>> batch = RankedBatch.of([["a", "b"], ["b", "c"], []], [{}, {}, {}], train=train)
        >>> long_tail_count(batch, 2, share=0.8)
        array([ 1.,  2., nan])
    """
    n_tail, n = _long_tail(batch, k, share)
    return np.where(n > 0, n_tail, np.nan)


def _absolute_over_count(sums: Sums) -> Any:
    return (sums.total**2) ** 0.5 / sums.count


@_list_metric(
    "pop_rsp",
    options={"share": _SHARE},
    aliases=("popularity_statistical_parity", "pop_based_rsp"),
    higher_is_better=False,
    pooled=_absolute_over_count,
    needs=(*_POPULARITY, "catalog"),
    skips_undefined=True,
)
def popularity_parity(batch: RankedBatch, k: int | None, *, share: float) -> Sums:
    """How unequally items of the short head and of the long tail are recommended: std / mean of the two rates.

    The rate of a group is the number of its recommendations / the number of its items. For two rates a and b, std / mean is
    |a - b| / (a + b).

    Options:
        share: As for `aplt`. All items of the catalog that are not in the short head are in the long tail.

    Returns:
        a - b and a + b, (U,) each. Undefined without a list, and if one of the groups has no item.

    Source:
        Zhu et al., Measuring and mitigating item under-recommendation bias in personalized ranking systems, SIGIR 2020; for
        groups by popularity: WarpRec 1.4.6.

    Example:
        "a" is one of 4 items and holds 8 of 10 rows. It is recommended twice, the others once: rates 2 and 1/3:

        >>> train = [(user, "a") for user in "12345678"] + [("1", "b"), ("2", "c")]
        >>> batch = RankedBatch.of([["a", "b"], ["a"], []], [{}, {}, {}], n_items=4, train=train)
        >>> total, count, _ = popularity_parity(batch, 2, share=0.8)
        >>> round(float(abs(total.sum()) / count.sum()), 6)
        0.714286
    """
    tail, n = _long_tail(batch, k, share)
    n_head = popularity(batch).n_head(share)
    n_tail = (batch.n_items or 0) - n_head
    if n_head < 1 or n_tail < 1:
        return Sums(np.zeros(batch.size), np.zeros(batch.size))
    head, rate = (n - tail) / n_head, tail / n_tail
    return Sums(head - rate, head + rate)


@_hit_metric(
    "efd",
    options={"of": Parameter("rows", _OF), "gain": Parameter("binary", CHOICES["gain"])},
    aliases=("expected_free_discovery",),
)
def expected_free_discovery(batch: RankedBatch, k: int | None, *, of: str, gain: str) -> Floats:
    """Discounted novelty of the hits: sum of gain_i (-log2 p_i) / log2(i + 1) over L_k / sum of 1 / log2(i + 1) up to k.

    Options:
        of: p is the share of `rows` or of `users`. A cold item counts as if it had one row or user.
        gain: Gain of a relevant item with rating r, as for `dcg`. Other items have gain 0.

    Returns:
        (U,) values of 0 or more. Undefined for a user without a relevant item.

    Source:
        Vargas and Castells, Rank and relevance in novelty and diversity metrics for recommender systems, RecSys 2011.

    Example:
        "b" has one of 4 rows, and is at rank 1 or at rank 2:

        >>> train = [("1", "a"), ("2", "a"), ("3", "a"), ("1", "b")]
        >>> batch = RankedBatch.of([["b"], ["x", "b"], []], [{"b": 1}, {"b": 1}, {}], train=train)
        >>> expected_free_discovery(batch, 1, of="rows", gain="binary")
        array([ 2.,  0., nan])
    """
    return _discounted(batch, k, of, gain, novel=True)


@_hit_metric(
    "epc",
    options={"of": Parameter("users", _OF), "gain": Parameter("binary", CHOICES["gain"])},
    aliases=("expected_popularity_complement",),
)
def expected_popularity_complement(batch: RankedBatch, k: int | None, *, of: str, gain: str) -> Floats:
    """Discounted rarity of the hits: sum of gain_i (1 - p_i) / log2(i + 1) over L_k / sum of 1 / log2(i + 1) up to k.

    Options:
        of, gain: As for `efd`.

    Returns:
        (U,) values of 0 or more, up to 1 for gains of 1. Undefined for a user without a relevant item.

    Source:
        Vargas and Castells, Rank and relevance in novelty and diversity metrics for recommender systems, RecSys 2011.

    Example:
        >>> train = [("1", "a"), ("2", "a"), ("3", "a"), ("4", "b")]
        >>> batch = RankedBatch.of([["b"], ["a"], []], [{"b": 1}, {"a": 1}, {}], train=train)
        >>> expected_popularity_complement(batch, 1, of="users", gain="binary")
        array([0.75, 0.25,  nan])
    """
    return _discounted(batch, k, of, gain, novel=False)


@_list_metric(
    "serendipity",
    options={"against": Parameter("popularity", ("popularity", "baseline"))},
    needs=PerChoice("against", {name: ("recommended", name, "catalog") for name in ("popularity", "baseline")}),
)
def serendipity(batch: RankedBatch, k: int | None, *, against: str) -> Floats:
    """Hits that a simple recommender ranks lower: sum of max(P(i) - P0(i), 0) h_i over L_k / n, with P(i) = (N + 1 - i) / N.

    P0(i) is P of the rank of the same item by popularity, or in the list of the baseline model, and 0 without such a rank.

    Options:
        against: `popularity`: rank by training rows; equally popular items share a rank. `baseline`: rank in the user's list of
            the baseline model, cut at k.

    Returns:
        (U,) values in [0, 1]. Undefined for a user without a list.

    Source:
        RecTools 0.19.0, its metric Serendipity.

    Example:
        "a" and then "b" are the most popular of 4 items. P(1) = 1, and P0 of "a", "b" and a cold item is 1, 3/4 and 0:

        >>> train = [("1", "a"), ("2", "a"), ("1", "b")]
        >>> batch = RankedBatch.of([["b"], ["x"], []], [{"b": 1}, {"x": 1}, {}], n_items=4, train=train)
        >>> serendipity(batch, 1, against="popularity")
        array([0.25, 1.  ,  nan])
    """
    items, n = recommended(batch), batch.list_length(k)
    user, rank, item, baseline_rank = items.hits.top(k, "rank", "item", "baseline_rank")
    n_items = batch.n_items or 1
    if against == "popularity":
        expected_rank = popularity(batch).rank(items.table.n_rows)[item]
    else:
        listed = (baseline_rank > 0) & (baseline_rank <= (np.inf if k is None else k))
        expected_rank = np.where(listed, baseline_rank, np.inf)
    gained = np.maximum((n_items + 1 - rank) - np.maximum(n_items + 1 - expected_rank, 0), 0) / n_items
    return ratio(sum_by_user(user, gained, batch.size), n, defined=n > 0)


def _shares(batch: RankedBatch, of: str) -> Floats:
    """(I,) the share p of each item; a cold item counts as if it had one row or user."""
    all_items, table = popularity(batch), recommended(batch).table
    n, n_all = (table.n_users, all_items.n_users) if of == "users" else (table.n_rows, all_items.n_rows)
    return np.maximum(n, 1) / max(n_all, 1)


def _long_tail(batch: RankedBatch, k: int | None, share: float) -> tuple[Floats, Ints]:
    """(U,) number of long-tail items in L_k, and n."""
    items = recommended(batch)
    user, item = items.top(k, "item")
    tail = items.table.n_rows < popularity(batch).head_threshold(share)
    return sum_by_user(user, tail[item], batch.size), np.bincount(user, minlength=batch.size)


def _discounted(batch: RankedBatch, k: int | None, of: str, gain: str, *, novel: bool) -> Floats:
    """(U,) sum of gain * (-log2 p, or 1 - p) / log2(rank + 1) over the hits / sum of 1 / log2(rank + 1) up to k."""
    user, rank, rating, item = recommended(batch).hits.top(k, "rank", "rating", "item")
    share = _shares(batch, of)[item]
    values = gain_of(rating, gain) * (-np.log2(share) if novel else 1 - share)
    total = sum_by_user(user, values / np.log2(rank + 1.0), batch.size)
    cut_off = batch.cut_off(k)
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, cut_off.max(initial=0) + 2)))])
    return ratio(total, discounts[cut_off], defined=batch.n_relevant > 0)
