"""Metrics of the content of lists: diversity, categories, unexpected and unseen items, and whether lists are full.

Notation, per user: L_k is the list cut at k, and n its length.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from spark_recmetrics.metrics.arrays import Floats, Ints, ratio, repeated, run_starts, sum_by_user
from spark_recmetrics.metrics.batch import RankedBatch, given, recommended
from spark_recmetrics.metrics.registry import Parameter, PerChoice, Sums, quotient, register

_list_metric = partial(register, users="predicted", accuracy=False)
_DENOMINATOR = Parameter("recommended", ("recommended", "k"))
_PER = Parameter("list", ("list", "place"))
_FEATURES, _CATEGORIES = ("recommended", "features"), ("recommended", "categories")


@_list_metric(
    "ild",
    options={"distance": Parameter("cosine", ("cosine", "jaccard", "hamming"))},
    aliases=("intra_list_diversity", "intra_list_distance", "diversity"),
    upper=None,
    needs=PerChoice("distance", {"cosine": _FEATURES, "jaccard": _CATEGORIES, "hamming": _CATEGORIES}),
)
def intra_list_diversity(batch: RankedBatch, k: int | None, *, distance: str) -> Floats:
    """Mean distance between two items of L_k, over all pairs.

    For cosine no pairs are formed: with vectors v of length 1, the mean similarity is (|sum of v|^2 - n) / (n (n - 1)).

    Options:
        distance: `cosine`: 1 - cosine of the feature vectors; a vector of zeros has distance 1 from all others. `jaccard`: 1 -
            common categories / categories of either item. `hamming`: number of categories of exactly one of the items.

    Returns:
        (U,) values: in [0, 2] for cosine, in [0, 1] for Jaccard. Undefined for fewer than two items, and if an item has no
            features or categories.

    Source:
        Ziegler et al., Improving recommendation lists through topic diversification, WWW 2005.

    Example:
        Orthogonal vectors, a list of one item, and an item without a vector:

        >>> batch = RankedBatch.of([["a", "b"], ["a"], ["a", "x"]], [{}, {}, {}], features={"a": [1, 0], "b": [0, 2]})
        >>> intra_list_diversity(batch, 2, distance="cosine")
        array([ 1., nan, nan])
    """
    table = recommended(batch).table
    user, item = recommended(batch).top(k, "item")
    n = np.bincount(user, minlength=batch.size)
    pairs = n * (n - 1.0)
    if distance == "cosine":
        units, first = table.unit_features, run_starts(user)
        summed, length = np.zeros(batch.size), sum_by_user(user, table.unit_squares[item], batch.size)
        if len(first):
            vectors = np.add.reduceat(units[item], first, axis=0)
            summed[user[first]] = np.einsum("ij,ij->i", vectors, vectors)
        # Rounding must not give equal vectors a distance below 0.
        return np.clip(ratio(pairs - (summed - length), pairs, defined=(n > 1) & (units.shape[1] > 0)), 0.0, 2.0)
    groups = table.categories.view(np.uint64)[item]
    total = np.zeros(batch.size)
    for offset in range(1, int(n.max(initial=0))):
        # The rows of a list are adjacent, so its pairs are each row with the row at each offset.
        first = np.flatnonzero(user[offset:] == user[:-offset])
        left, right = groups[first], groups[first + offset]
        differing = _n_bits(left ^ right)
        apart = differing / np.maximum(_n_bits(left | right), 1) if distance == "jaccard" else differing.astype(np.float64)
        total += sum_by_user(user[first], apart, batch.size)
    uncategorized = np.bincount(user[~groups.any(axis=1)], minlength=batch.size) > 0
    return ratio(2 * total, pairs, defined=(n > 1) & ~uncategorized)


@register(
    "srecall",
    options={"of": Parameter("catalog", ("catalog", "relevant"))},
    aliases=("subtopic_recall", "category_coverage"),
    grows_with_k=True,
    needs=_CATEGORIES,
    accuracy=False,
)
def subtopic_recall(batch: RankedBatch, k: int | None, *, of: str) -> Floats:
    """Subtopic recall, the share of the categories that the list covers: categories in L_k / all categories.

    Options:
        of: `catalog`: all categories of items. `relevant`: the categories of the user's relevant items, covered by the hits.

    Returns:
        (U,) shares in [0, 1]; 0 for a user without a list. Undefined if there is no category to cover.

    Source:
        Zhai et al., Beyond independent relevance: methods and evaluation metrics for subtopic retrieval, SIGIR 2003.

    Example:
        >>> kinds = {"a": ["war", "love"], "b": ["war"], "c": ["crime", "space"]}
        >>> batch = RankedBatch.of([["a", "b"], ["x"], []], [{"a": 1}, {"a": 1}, {}], categories=kinds)
        >>> subtopic_recall(batch, 2, of="catalog"), subtopic_recall(batch, 2, of="relevant")
        (array([0.5, 0. , 0. ]), array([ 1.,  0., nan]))
    """
    items = recommended(batch)
    categories = items.table.categories
    user, item = (items if of == "catalog" else items.hits).top(k, "item")
    covered = _n_bits(_union(user, categories[item], batch.size))
    if of == "catalog":
        n = np.full(batch.size, batch.n_categories or 0)
    else:
        n = _n_bits(_union(batch.ideal_user, categories[given(batch.ideal_item, "recommended")], batch.size))
    return ratio(covered, n, defined=n > 0)


@_list_metric(
    "unexpectedness", options={"denominator": _DENOMINATOR}, aliases=("unexpected",), needs=("recommended", "baseline")
)
def unexpectedness(batch: RankedBatch, k: int | None, *, denominator: str) -> Floats:
    """Share of the list that a baseline model does not recommend: items of L_k outside the baseline's L_k / n.

    Options:
        denominator: `recommended` divides by n. `k`: 1 - common items / k, so that empty positions are unexpected.

    Returns:
        (U,) shares in [0, 1]; 1 for a user without a list of the baseline. Undefined for a user without a list.

    Source:
        Adamopoulos and Tuzhilin, On unexpectedness in recommender systems, ACM TIST 5(4), 2014; this form: RePlay 0.22.0.

    Example:
        >>> batch = RankedBatch.of([["a", "b"], ["x"], []], [{}, {}, {}], baseline=[["b", "c"], [], ["a"]])
        >>> unexpectedness(batch, 2, denominator="recommended")
        array([0.5, 1. , nan])
    """
    user, baseline_rank = recommended(batch).top(k, "baseline_rank")
    common = (baseline_rank > 0) & (baseline_rank <= (np.inf if k is None else k))
    return _share(batch, k, user, ~common, denominator)


@_list_metric(
    "unseen",
    options={"denominator": _DENOMINATOR},
    aliases=("history_novelty", "share_unseen"),
    needs=("recommended", "history"),
)
def unseen_share(batch: RankedBatch, k: int | None, *, denominator: str) -> Floats:
    """Share of the list that the user has not seen: items of L_k outside the user's training rows / n.

    Options:
        denominator: `recommended` divides by n. `k`: 1 - seen items / k, so that empty positions are unseen.

    Returns:
        (U,) shares in [0, 1]. Undefined for a user without a list.

    Source:
        RePlay 0.22.0, its metric Novelty.

    Example:
        >>> batch = RankedBatch.of([["a", "b"], ["x"], []], [{}, {}, {}], history=[{"a"}, {"a"}, {"a"}])
        >>> unseen_share(batch, 2, denominator="recommended")
        array([0.5, 1. , nan])
    """
    user, seen = recommended(batch).top(k, "seen")
    return _share(batch, k, user, ~seen, denominator)


@register("num_retrieved", aliases=("n_retrieved", "list_length"), upper=None, grows_with_k=True, accuracy=False)
def retrieved(batch: RankedBatch, k: int | None) -> Floats:
    """Number of items in the list: n.

    Returns:
        (U,) counts; 0 for a user without a list.

    Source:
        WarpRec 1.4.6, its metric NumRetrieved.

    Example:
        >>> retrieved(RankedBatch.of(lists=[["a", "b", "c"], ["x"], []], truth=[{}, {}, {}]), 2)
        array([2., 1., 0.])
    """
    return batch.list_length(k).astype(np.float64)


@register(
    "user_coverage",
    options={"measure": "coverage", "n": Parameter(1.0, counts=True)},
    aliases=("covered_users", "coveredusers", "user_coverage_at_n", "usercoverageatn"),
    upper=None,
    pooled=quotient,
    averaged_by="measure",
    accuracy=False,
)
def user_coverage(batch: RankedBatch, k: int | None, *, measure: str, n: float) -> Sums:
    """Users with a list of at least n items: their share, or their number.

    Options:
        measure: `fraction` of the evaluated users, or their `count`.
        n: Minimum length of the list, cut at k.

    Returns:
        1 or 0, and 1, (U,) each. A user without a list scores 0.

    Source:
        WarpRec 1.4.6, its metrics UserCoverage and UserCoverageAtN; RecTools 0.19.0, its metric CoveredUsers.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "b", "c"], ["x"], []], truth=[{}, {}, {}])
        >>> user_coverage(batch, 3, measure="fraction", n=2).total
        array([1., 0., 0.])
    """
    return Sums((batch.list_length(k) >= n).astype(np.float64), np.ones(batch.size))


@_list_metric("sufficient_reco", options={"per": _PER}, aliases=("sufficient",))
def sufficient(batch: RankedBatch, k: int | None, *, per: str) -> Floats:
    """Whether the list is full: 1 if it has k items, else 0.

    Options:
        per: `list`: 1 or 0. `place`: the share of the k positions that are filled, n / k.

    Returns:
        (U,) values in [0, 1]; 0 for a user without a list.

    Source:
        RecTools 0.19.0, its metric SufficientReco.

    Example:
        >>> batch = RankedBatch.of(lists=[["a", "b", "c"], ["x"], []], truth=[{}, {}, {}])
        >>> sufficient(batch, 2, per="list"), sufficient(batch, 2, per="place")
        (array([1., 0., 0.]), array([1. , 0.5, 0. ]))
    """
    n, cut_off = batch.list_length(k), batch.cut_off(k)
    if per == "list":
        return ((n >= cut_off) & (n > 0)).astype(np.float64)
    return ratio(n, cut_off, defined=np.ones(batch.size, dtype=bool))


@_list_metric("unrepeated_reco", options={"per": _PER}, aliases=("unrepeated",), needs=("recommended",))
def unrepeated(batch: RankedBatch, k: int | None, *, per: str) -> Floats:
    """Whether the list has no repeated items: 1 if all items of L_k are different, else 0.

    Repeated items are rejected unless the convention has `duplicates=keep`.

    Options:
        per: `list`: 1 or 0. `place`: number of different items / n.

    Returns:
        (U,) values in [0, 1]. Undefined for a user without a list.

    Source:
        RecTools 0.19.0, its metric UnrepeatedReco.

    Example:
        >>> batch = RankedBatch.of([["a", "a"], ["x"], []], [{}, {}, {}], history=[])
        >>> unrepeated(batch, 2, per="list"), unrepeated(batch, 2, per="place")
        (array([ 0.,  1., nan]), array([0.5, 1. , nan]))
    """
    user, item = recommended(batch).top(k, "item")
    n_items = item.max(initial=0) + 1
    repeats = repeated(user * n_items + item) // n_items
    n, n_repeats = np.bincount(user, minlength=batch.size), np.bincount(repeats, minlength=batch.size)
    if per == "list":
        return np.where(n > 0, n_repeats == 0, np.nan)
    return ratio(n - n_repeats, n, defined=n > 0)


def _share(batch: RankedBatch, k: int | None, user: Ints, which: Any, denominator: str) -> Floats:
    """(U,) share of each user's rows that a mask selects; for `k`, the share of k positions, including the empty ones."""
    n = np.bincount(user, minlength=batch.size)
    divisor = batch.cut_off(k) if denominator == "k" else n
    others = np.bincount(user[~which], minlength=batch.size)
    return ratio(divisor - others, divisor, defined=n > 0)


def _union(user: Ints, groups: Ints, size: int) -> Ints:
    """(size, B) the union of the categories of each user's rows. Users are ascending."""
    union = np.zeros((size, groups.shape[1]), dtype=np.int64)
    first = run_starts(user)
    if len(first) and groups.shape[1]:
        union[user[first]] = np.bitwise_or.reduceat(groups, first, axis=0)
    return union


def _n_bits(numbers: Any) -> Ints:
    """(L,) the number of set bits in each row of 64-bit integers."""
    # numpy has bitwise_count since version 2.0.
    bits = numbers.view(np.uint64)
    bits = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    n_bits: Ints = ((bits * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.int64).sum(axis=1)
    return n_bits
