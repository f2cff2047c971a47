"""Laws of ranking metrics. The tests select metrics by their declared traits, so they cover new metrics without changes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_recmetrics.conventions import CHOICES, convention
from spark_recmetrics.metrics import DEFINITIONS, Definition, Metric, RankedBatch, Sums, score, score_columns
from spark_recmetrics.metrics.batch import with_items
from spark_recmetrics.metrics.registry import quotient

DEFAULT = convention("default")
LAWS = settings(max_examples=40, derandomize=True, deadline=None, database=None)

DEFINED = list(DEFINITIONS.values())
RANKING = [definition for definition in DEFINED if definition.kind == "ranking"]
RATING = [definition for definition in DEFINED if definition.kind == "rating"]


# What is drawn ------------------------------------------------------------------------------------------------------------


class User(NamedTuple):
    """A user: the list, the relevant and other judged items with ratings, and further inputs of metrics."""

    items: list[str]
    truth: dict[str, float]
    judged: Mapping[str, float] = {}
    scores: Sequence[float] = ()
    propensities: Mapping[str, float] = {}
    seen: Collection[str] = ()
    expected: Sequence[str] = ()

    def with_list(self, items: list[str]) -> User:
        """The user with another list, and as many of the scores."""
        scores = [*self.scores, *(-9.0 - place for place in range(len(items)))]
        return self._replace(items=items, scores=scores[: len(items)])


def user_of(items: list[str], truth: dict[str, float], others: dict[str, float], more: tuple) -> User:
    scores, propensities, seen = more
    judged = {item: rating for item, rating in others.items() if item not in truth}
    return User(items, truth, judged, sorted(scores, reverse=True)[: len(items)], propensities, seen, sorted(seen))


ITEMS = [f"i{number}" for number in range(8)]
RATINGS = st.sampled_from([0.5, 1.0, 2.0, 3.5, 5.0])
LISTS = st.lists(st.sampled_from(ITEMS), unique=True)
TRUTH = st.dictionaries(st.sampled_from(ITEMS), RATINGS, max_size=6)
SOMETHING = st.dictionaries(st.sampled_from(ITEMS), RATINGS, min_size=1, max_size=6)
OTHERS = st.dictionaries(st.sampled_from(ITEMS), st.sampled_from([0.0, 0.5, 2.0]), max_size=5)
SCORES = st.lists(st.sampled_from([-0.5, 0.0, 0.25, 1.0, 4.0]), min_size=8, max_size=8)
PROPENSITIES = st.lists(st.sampled_from([0.1, 0.25, 1.0]), min_size=8, max_size=8).map(
    lambda chances: dict(zip(ITEMS, chances, strict=True))
)
MORE = st.tuples(SCORES, PROPENSITIES, st.sets(st.sampled_from(ITEMS), max_size=5))
USERS = st.lists(st.builds(user_of, LISTS, TRUTH, OTHERS, MORE), min_size=1, max_size=12)
USER = st.builds(user_of, LISTS, TRUTH, OTHERS, MORE)
USER_WITH_TRUTH = st.builds(user_of, LISTS, SOMETHING, OTHERS, MORE)
K = st.one_of(st.none(), st.integers(1, 10))
N_ITEMS = st.integers(len(ITEMS) + 1, 30)


TRAIN = [(user, item) for place, item in enumerate(ITEMS[:6]) for user in "abcdefgh"[: 2**place // 4 + 1]] + [("a", ITEMS[0])]
FEATURES = {item: [float(place % 3), 1.0, -float(place)] for place, item in enumerate(ITEMS[:7])}
CATEGORIES = {item: {"crime", "love", "war", "space"} - {"love" if place % 2 else "war"} for place, item in enumerate(ITEMS)}


def batch_of(users: Sequence[User], n_items: int, names: Mapping[str, str] | None = None) -> RankedBatch:
    """A batch of these users. Of the eight items some are popular, and one is cold and has no features."""
    names = names or {item: item for item in ITEMS}
    lists, truth = [user.items for user in users], [user.truth for user in users]
    batch = RankedBatch.of(
        lists,
        truth,
        judged=[user.judged for user in users],
        scores=[user.scores for user in users],
        propensities=[user.propensities for user in users],
        seen=[user.seen for user in users],
        n_items=n_items,
    )
    return with_items(
        batch,
        lists,
        truth,
        train=[(user, names[item]) for user, item in TRAIN],
        history=[user.seen for user in users],
        features={names[item]: vector for item, vector in FEATURES.items()},
        categories={names[item]: kinds for item, kinds in CATEGORIES.items()},
        baseline=[user.expected for user in users],
    )


def value(metric: Metric, user: User, n_items: int, how=DEFAULT) -> float:
    return float(score(metric, batch_of([user], n_items), how)[0])


# Metrics by their traits --------------------------------------------------------------------------------------------------


def variants_of(definition: Definition) -> Iterator[Metric]:
    """The metric without options, and with each value of each option: each name, or two numbers."""
    yield Metric(definition.name)
    for key, source in definition.options.items():
        numbers = (0.5, 3.0) if isinstance(source, str) else (1.0, 3.0) if source.counts else (0.5, 0.95)
        for chosen in definition.choices(key) or numbers:
            yield Metric(definition.name, params=((key, chosen),))


VARIANTS = [metric for definition in RANKING for metric in variants_of(definition)]


def best_bound(definition: Definition) -> float | None:
    """The value of a perfect list. Metrics without such a bound do not measure the order of a list, but a click-through rate,
    or a sample size."""
    return definition.upper if definition.higher_is_better else definition.lower


JUDGING = [metric for metric in VARIANTS if metric.definition.accuracy and best_bound(metric.definition) is not None]


def depends_on_ranks_after_k(metric: Metric) -> bool:
    """Whether the metric compares relevant items with all candidates, including those after k."""
    return bool(metric.needs(DEFAULT) & {"candidates", "unseen_candidates"})


def is_at_least_as_good(metric: Metric, better: float, worse: float) -> bool:
    """Whether a value is as good as another, or better."""
    return better >= worse - 1e-12 if metric.definition.higher_is_better else better <= worse + 1e-12


def test_every_trait_has_a_metric():
    """Otherwise the law of that trait would hold trivially."""
    traits = {
        "needs_relevant": [d.needs_relevant for d in RANKING],
        "grows_with_k": [d.grows_with_k for d in RANKING],
        "has_cut_off": [d.has_cut_off for d in RANKING],
        "no cut-off": [not d.has_cut_off for d in RANKING],
        "upper": [d.upper is not None for d in RANKING],
        "no upper": [d.upper is None for d in RANKING],
        "lower": [d.lower not in (0, None) for d in RANKING],
        "no lower": [d.lower is None for d in RANKING],
        "lower is better": [not d.higher_is_better for d in RANKING],
        "pooled": [d.pooled is not None for d in RANKING],
        "of a quotient": [d.pooled is quotient for d in RANKING],
        "not of a quotient": [d.pooled not in (quotient, None) for d in RANKING],
        "skips_undefined": [d.skips_undefined for d in RANKING],
        "across_users": [d.across_users for d in RANKING],
        "users": [d.users is not None for d in RANKING],
        "accuracy": [d.accuracy for d in RANKING],
        "no accuracy": [not d.accuracy for d in RANKING],
        "looks behind k": [depends_on_ranks_after_k(m) and m.definition.has_cut_off for m in VARIANTS],
        "rating, up": [d.higher_is_better for d in RATING],
        "rating, down": [not d.higher_is_better for d in RATING],
        "rating, divides by pairs": [d.divides_by_pairs for d in RATING],
        "rating, divides by others": [not d.divides_by_pairs for d in RATING],
    }
    assert [trait for trait, result in traits.items() if not any(result)] == []
    assert all(d.pooled is not None and d.averaged_by is not None for d in RATING)
    needs = frozenset().union(*(metric.needs(DEFAULT) for metric in VARIANTS))
    of_items = {"popularity", "audience", "history", "features", "categories", "baseline"}
    assert (
        needs
        == {"catalog", "unseen_candidates", "candidates", "ties", "matched", "list_scores", "scores", "propensity"}
        | {"recommended"}
        | of_items
    )


# Values -------------------------------------------------------------------------------------------------------------------


@LAWS
@given(users=USERS, k=K, n_items=N_ITEMS)
def test_bounds(users, k, n_items):
    """A value is within the declared bounds, or is undefined."""
    batch = batch_of(users, n_items)
    for metric in VARIANTS:
        result = score(metric.at(k), batch, DEFAULT)
        result = result[~np.isnan(result)]
        definition = metric.definition
        assert np.all(np.isfinite(result)), str(metric)
        if definition.lower is not None:
            assert np.all(result >= definition.lower - 1e-12), str(metric)
        if definition.upper is not None and "gain" not in dict(metric.params):
            assert np.all(result <= definition.upper + 1e-12), str(metric)


@pytest.mark.parametrize("metric", [metric for metric in JUDGING if "gain" in dict(metric.params)], ids=str)
@LAWS
@given(users=USERS, k=K, idcg=st.sampled_from([value for value in CHOICES["idcg"] if value != "full_k"]))
def test_bounds_of_graded_gains(metric, users, k, idcg):
    """The ideal list of `full_k` has gains of 1 for all ratings, so that its bound holds for binary gains only."""
    result = score(metric.at(k), batch_of(users, 9), DEFAULT.override(idcg=idcg))
    result = result[~np.isnan(result)]
    assert np.all(result >= 0)
    assert np.all(result <= metric.definition.upper * (1 + 1e-12))


@LAWS
@given(user=USER_WITH_TRUTH, k=K, n_items=N_ITEMS)
def test_an_empty_list_scores_the_lower_bound(user, k, n_items):
    """Or it is undefined, if 0 would not be the worst value. Metrics over the catalog are left out: an empty list classifies
    all non-relevant items correctly. A metric that does not measure accuracy may be undefined without a list, or may not depend
    on the list (`idcg`). A metric that leaves out short lists leaves out an empty list."""
    batch, full = (batch_of([one], n_items) for one in (user.with_list([]), user))
    for metric in VARIANTS:
        (result,), (of_list,) = (score(metric.at(k), one, DEFAULT) for one in (batch, full))
        if not metric.definition.accuracy or ("insufficient", "exclude") in metric.params:
            assert np.isnan(result) or result in (metric.definition.lower, of_list), str(metric)
        elif "catalog" not in metric.needs(DEFAULT):
            assert np.isnan(result) if metric.definition.skips_undefined else result == metric.definition.lower, str(metric)


@LAWS
@given(user=USER, k=K, n_items=N_ITEMS)
def test_without_a_relevant_item_a_metric_is_undefined_or_0(user, k, n_items):
    """Metrics of hits alone are 0, because there are no hits. Metrics that need more than hits may have another value."""
    batch = batch_of([user.with_list(user.items or ["i0"])._replace(truth={})], n_items)
    for metric in VARIANTS:
        (result,) = score(metric.at(k), batch, DEFAULT)
        if metric.definition.needs_relevant:
            assert np.isnan(result), str(metric)
        elif metric.definition.accuracy and not metric.needs(DEFAULT) and not metric.definition.skips_undefined:
            assert result == 0, str(metric)


@LAWS
@given(user=USER_WITH_TRUTH, k=K, n_items=N_ITEMS)
def test_with_a_relevant_item_every_metric_is_defined(user, k, n_items):
    """Except for metrics that leave users out, and correlations with an empty or a complete list, which have no variance."""
    batch = batch_of([user], n_items)
    varies = 0 < (len(user.items) if k is None else k) < n_items
    for definition in RANKING:
        may_correlate = definition.lower is not None and definition.lower < 0
        if definition.accuracy and not definition.skips_undefined and (varies or not may_correlate):
            assert not np.isnan(score(Metric(definition.name).at(k), batch, DEFAULT)[0]), definition.name


# The perfect list ---------------------------------------------------------------------------------------------------------


def best_list(truth: Mapping[str, float]) -> list[str]:
    """All relevant items and nothing else, the highest rating first."""
    return sorted(truth, key=lambda item: -truth[item])


def mcc_of(tp: int, fp: int, fn: int, tn: int) -> float:
    square = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(square) if square else math.nan


BEST = {
    "precision": lambda m, k, n: min(m, k) / k,
    "recall": lambda m, k, n: min(m, k) / m,
    "f1": lambda m, k, n: 2 * min(m, k) / (m + k),
    "mar": lambda m, k, n: (min(m, k) + 1) / (2 * m),
    "rbp": lambda m, k, n, p=0.8: 1 - p ** min(m, k),
    "accuracy": lambda m, k, n: 1 - min(abs(m - k), n - min(m, k)) / n,
    "mcc": lambda m, k, n: mcc_of(min(m, k), max(min(k, n) - m, 0), max(m - k, 0), n - max(m, min(k, n))),
}
"""The value of the perfect list at k with m relevant items of n, if it is not the bound: m is smaller or larger than k, or
recall has to grow from 1/m to 1 (mar), or the list ends (rbp)."""


def best(metric: Metric, m: int, k: int, n_items: int) -> float | None:
    own = {key: chosen for key, chosen in metric.params if key == "p"}
    return BEST[metric.name](m, k, n_items, **own) if metric.name in BEST else best_bound(metric.definition)


@LAWS
@given(user=USER_WITH_TRUTH, k=st.integers(1, 10), gain=st.sampled_from(CHOICES["gain"]), n_items=N_ITEMS)
def test_the_perfect_list(user, k, gain, n_items):
    """All relevant items in order of their ratings, and nothing else, have the best value at every k, except for `BEST`.

    A metric across users compares the items of the first k ranks, so that it needs a miss there. Relevant items are not seen
    here, because seen items are not candidates.
    """
    m = len(user.truth)
    perfect = user.with_list(best_list(user.truth))
    perfect = perfect._replace(seen=set(user.seen) - user.truth.keys())
    with_miss = perfect.with_list([*perfect.items, "miss"])._replace(judged={"miss": 0.0}, scores=range(m, -1, -1))
    for definition in RANKING:
        if definition.accuracy and best_bound(definition) is not None:
            metric, where, cut = Metric(definition.name), perfect, k
            if definition.across_users:
                where, cut = with_miss, m + 1
            result = value(metric.at(cut), where, n_items, DEFAULT.override(gain=gain))
            assert result == pytest.approx(best(metric, m, cut, n_items), abs=1e-12, nan_ok=True), definition.name


@given(rating=RATINGS, n_items=N_ITEMS)
@LAWS
def test_the_only_relevant_item_at_rank_1_scores_the_best_value(rating, n_items):
    """With m = k = 1 the perfect list has the best value under every option.

    A metric across users compares two ranks, so its cut-off is 2.
    """
    user = User(["a", "x"], {"a": rating}, {"x": 0.0}, [2.0, 1.0], {"a": 0.5, "x": 0.5})
    for metric in JUDGING:
        result = value(metric.at(2 if metric.definition.across_users else 1), user, n_items)
        assert result == pytest.approx(best(metric, 1, 1, n_items)), str(metric)


@LAWS
@given(user=USER_WITH_TRUTH, k=st.integers(1, 10), n_items=N_ITEMS)
def test_no_list_beats_the_perfect_list(user, k, n_items):
    """The perfect list has a miss after its relevant items, if a metric needs an item to compare with, and is not cut."""
    perfect = best_list(user.truth)
    perfect_user = user.with_list(perfect)._replace(scores=[-float(place) for place in range(len(perfect))])
    with_miss = user._replace(
        items=[*perfect, "miss"],
        judged={"miss": 0.0},
        scores=[-float(place) for place in range(len(perfect) + 1)],
        propensities={**user.propensities, "miss": 1.0},
    )
    own, alone, longer = (batch_of([one], n_items) for one in (user, perfect_user, with_miss))
    for metric in JUDGING:
        (result,), (right,) = (score(metric.at(k), batch, DEFAULT) for batch in (own, alone))
        if np.isnan(right):
            (right,) = score(metric.at(None), longer, DEFAULT)
        if not np.isnan(result):
            assert is_at_least_as_good(metric, right, result), str(metric)


@LAWS
@given(user=USER_WITH_TRUTH, k=K, n_items=N_ITEMS)
def test_swapping_a_miss_with_the_hit_below_never_makes_a_value_worse(user, k, n_items):
    """Scores keep their ranks. A metric across users compares the items of the first k ranks, so that a hit that moves into
    them may make the value worse. So it may for a mean over the hits within k: a single hit at rank 1 has a map of 1, with
    another hit at rank 3 it is (1 + 2/3) / 2. For these metrics only swaps on one side of k are tested."""
    items = user.items
    places = [place for place in range(len(items) - 1) if items[place] not in user.truth and items[place + 1] in user.truth]
    before = batch_of([user], n_items)
    for place in places:
        moved = [*items[:place], items[place + 1], items[place], *items[place + 2 :]]
        after = batch_of([user._replace(items=moved)], n_items)
        for metric in JUDGING:
            of_those_within = metric.definition.across_users or ("normalizer", "hits") in metric.params
            if of_those_within and k == place + 1:
                continue
            (worse,), (better,) = (score(metric.at(k), batch, DEFAULT) for batch in (before, after))
            if np.isnan(worse) or np.isnan(better):
                assert np.isnan(worse), str(metric)
                assert np.isnan(better) or metric.definition.skips_undefined, str(metric)
            else:
                assert is_at_least_as_good(metric, better, worse), str(metric)


# Cut-offs -----------------------------------------------------------------------------------------------------------------


@LAWS
@given(users=USERS, k=st.integers(1, 9), n_items=N_ITEMS)
def test_a_larger_cut_off_never_lowers_a_metric_that_grows_with_k(users, k, n_items):
    batch = batch_of(users, n_items)
    for definition in RANKING:
        if definition.grows_with_k:
            shorter, longer, uncut = (score(Metric(definition.name, k=cut), batch, DEFAULT) for cut in (k, k + 1, None))
            np.testing.assert_array_equal(np.isnan(shorter), np.isnan(longer), definition.name)
            assert np.all((longer >= shorter) | np.isnan(shorter)), definition.name
            assert np.all((uncut >= longer) | np.isnan(uncut)), definition.name


@LAWS
@given(users=USERS, k=st.integers(1, 8), n_items=N_ITEMS)
def test_items_after_k_do_not_change_a_value(users, k, n_items):
    """So lists may be cut at the largest k before they are scored, except for metrics without a cut-off, and for metrics that
    compare relevant items with all candidates."""
    whole = batch_of(users, n_items)
    cut = batch_of([user._replace(items=user.items[:k], scores=user.scores[:k]) for user in users], n_items)
    for metric in VARIANTS:
        if metric.definition.has_cut_off and not depends_on_ranks_after_k(metric):
            for result, right in zip(*(score_columns(metric.at(k), batch, DEFAULT) for batch in (cut, whole)), strict=True):
                np.testing.assert_array_equal(result, right, str(metric))


def test_a_metric_that_cannot_be_cut_has_no_cut_off():
    for metric in VARIANTS:
        assert metric.at(3).k == (3 if metric.definition.has_cut_off else None)


@LAWS
@given(users=USERS, n_items=N_ITEMS)
def test_hit_precision_and_reciprocal_rank_are_equal_at_1(users, n_items):
    batch = batch_of(users, n_items)
    hit, precision, mrr = (score(Metric(name, k=1), batch, DEFAULT) for name in ("hit", "precision", "mrr"))
    np.testing.assert_array_equal(hit, precision)
    np.testing.assert_array_equal(hit, mrr)


# Many users ---------------------------------------------------------------------------------------------------------------


@LAWS
@given(users=USERS, k=K, n_items=N_ITEMS, data=st.data())
def test_the_order_of_users_does_not_matter(users, k, n_items, data):
    order = data.draw(st.permutations(range(len(users))))
    batch, other = batch_of(users, n_items), batch_of([users[place] for place in order], n_items)
    for metric in VARIANTS:
        for result, right in zip(*(score_columns(metric.at(k), one, DEFAULT) for one in (other, batch)), strict=True):
            np.testing.assert_array_equal(result, right[order], str(metric))


@LAWS
@given(users=USERS, k=K, n_items=N_ITEMS, data=st.data())
def test_names_of_items_and_order_of_truth_rows_do_not_matter(users, k, n_items, data):
    new = dict(zip(ITEMS, data.draw(st.permutations(["a", "b", "c", "10", "9", "ü", "", "z z"])), strict=True))

    def renamed(ratings: Mapping[str, float]) -> dict[str, float]:
        return {new[item]: ratings[item] for item in sorted(ratings, reverse=True)}

    others = [
        User(
            [new[item] for item in user.items],
            renamed(user.truth),
            renamed(user.judged),
            user.scores,
            renamed(user.propensities),
            [new[item] for item in user.seen],
            [new[item] for item in user.expected],
        )
        for user in users
    ]
    batch, other = batch_of(users, n_items), batch_of(others, n_items, new)
    for metric in VARIANTS:
        for result, right in zip(*(score_columns(metric.at(k), one, DEFAULT) for one in (other, batch)), strict=True):
            np.testing.assert_array_equal(result, right, str(metric))


@LAWS
@given(users=USERS, k=K, n_items=N_ITEMS)
def test_a_batch_has_the_values_of_its_users_alone(users, k, n_items):
    batch, alone = batch_of(users, n_items), [batch_of([user], n_items) for user in users]
    for metric in VARIANTS:
        together = score_columns(metric.at(k), batch, DEFAULT)
        apart = [score_columns(metric.at(k), one, DEFAULT) for one in alone]
        for result, right in zip(together, zip(*apart, strict=True), strict=True):
            np.testing.assert_array_equal(result, np.concatenate(right), str(metric))


@LAWS
@given(users=USERS, k=K, n_items=N_ITEMS)
def test_pooled_values_follow_from_the_sums(users, k, n_items):
    """A user's value follows from the user's sums, an undefined user adds nothing, and a pooled quotient is a weighted mean."""
    batch = batch_of(users, n_items)
    for metric in VARIANTS:
        definition = metric.definition
        if definition.pooled is None:
            assert len(score_columns(metric.at(k), batch, DEFAULT)) == 1
            continue
        values, total, count = score_columns(metric.at(k), batch, DEFAULT)
        defined = ~np.isnan(values)
        np.testing.assert_array_equal(values[defined], definition.pooled(Sums(total[defined], count[defined])), str(metric))
        assert not np.any(total[~defined]), str(metric)
        assert not np.any(count[~defined]), str(metric)
        if defined.any():
            of_all = definition.pooled(Sums(math.fsum(total), math.fsum(count)))
            assert definition.lower is None or of_all >= definition.lower - 1e-12, str(metric)
            assert definition.upper is None or of_all <= definition.upper + 1e-12, str(metric)
            if definition.pooled is quotient:
                assert of_all == pytest.approx(np.average(values[defined], weights=count[defined])), str(metric)


@LAWS
@given(users=USERS, n_items=N_ITEMS)
def test_gauc_weighted_by_relevant_items_is_auc(users, n_items):
    columns = [
        score_columns(metric, batch_of(users, n_items), DEFAULT)
        for metric in (Metric("auc"), Metric("gauc", params=(("weight", "relevant"),)))
    ]
    np.testing.assert_array_equal(*columns)
