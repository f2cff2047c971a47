"""Laws that every metric keeps. Metrics are found by the traits they declare, so that a new one is held to them unedited."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_recmetrics.conventions import CHOICES, convention
from spark_recmetrics.metrics import DEFINITIONS, Metric, RankedBatch, score
from spark_recmetrics.metrics.rating import Moments

DEFAULT = convention("default")
LAWS = settings(max_examples=40, derandomize=True, deadline=None, database=None)

DEFINED = list(DEFINITIONS.values())
RANKING = [definition.name for definition in DEFINED if definition.kind == "ranking"]
RATING = [definition.name for definition in DEFINED if definition.kind == "rating"]

ITEMS = [f"i{number}" for number in range(8)]
LISTS = st.lists(st.sampled_from(ITEMS), unique=True)
TRUTH = st.dictionaries(st.sampled_from(ITEMS), st.sampled_from([0.5, 1.0, 2.0, 3.5, 5.0]), max_size=6)
SOMETHING = st.dictionaries(st.sampled_from(ITEMS), st.sampled_from([0.5, 1.0, 2.0, 3.5, 5.0]), min_size=1, max_size=6)
USERS = st.lists(st.tuples(LISTS, TRUTH), min_size=1, max_size=12)
K = st.one_of(st.none(), st.integers(1, 10))


def options_of(name: str) -> list[Metric]:
    """The metric alone, and with each value of each of its options that is a name."""
    sources = DEFINITIONS[name].options.items()
    return [Metric(name)] + [
        Metric(name, params=((key, value),)) for key, source in sources for value in CHOICES.get(source, ())
    ]


VARIANTS = {name: options_of(name) for name in RANKING}
every_ranking_metric = pytest.mark.parametrize("name", RANKING)


def values(metric: Metric, users: list[tuple[list[str], dict[str, float]]], how=DEFAULT) -> np.ndarray:
    return score(metric, RankedBatch.of([items for items, _ in users], [truth for _, truth in users]), how)


def value(metric: Metric, items: list[str], truth: dict[str, float], how=DEFAULT) -> float:
    return float(values(metric, [(items, truth)], how)[0])


def best_list(truth: dict[str, float]) -> list[str]:
    """All relevant items and nothing else, the highest rating first."""
    return sorted(truth, key=lambda item: -truth[item])


def test_there_are_metrics_of_each_trait():
    """A law about no metric holds trivially."""
    for found in (
        RANKING,
        RATING,
        [d for d in DEFINED if d.needs_relevant],
        [d for d in DEFINED if d.grows_with_k],
        [d for d in DEFINED if d.upper is not None],
        [d for d in DEFINED if not d.higher_is_better],
    ):
        assert found
    assert all(definition.higher_is_better for definition in DEFINED if definition.kind == "ranking")


@every_ranking_metric
@LAWS
@given(users=USERS, k=K)
def test_bounds(name, users, k):
    """A value lies between 0 and the declared upper bound, or is undefined."""
    for metric in VARIANTS[name]:
        found = values(metric.at(k), users)
        found = found[~np.isnan(found)]
        upper = metric.definition.upper
        assert np.all((found >= 0) & np.isfinite(found)), str(metric)
        if upper is not None and "gain" not in dict(metric.params):
            assert np.all(found <= upper * (1 + 1e-12)), str(metric)


@pytest.mark.parametrize("metric", [m for found in VARIANTS.values() for m in found if "gain" in dict(m.params)], ids=str)
@LAWS
@given(users=USERS, k=K, idcg=st.sampled_from([value for value in CHOICES["idcg"] if value != "full_k"]))
def test_bounds_of_graded_gains(metric, users, k, idcg):
    """The ideal of `full_k` has gains of 1 whatever the ratings are, so its bound holds for binary gains only."""
    found = values(metric.at(k), users, DEFAULT.override(idcg=idcg))
    found = found[~np.isnan(found)]
    assert np.all(found >= 0)
    assert np.all(found <= metric.definition.upper * (1 + 1e-12))


@every_ranking_metric
@LAWS
@given(truth=SOMETHING, k=K)
def test_an_empty_list_scores_0(name, truth, k):
    for metric in VARIANTS[name]:
        assert value(metric.at(k), [], truth) == 0, str(metric)


@every_ranking_metric
@LAWS
@given(items=st.lists(st.sampled_from(ITEMS), unique=True, min_size=1), k=K)
def test_without_a_relevant_item_a_metric_that_needs_one_is_undefined_and_any_other_is_0(name, items, k):
    found = value(Metric(name, k=k), items, {})
    assert np.isnan(found) if DEFINITIONS[name].needs_relevant else found == 0


@every_ranking_metric
@LAWS
@given(items=LISTS, truth=SOMETHING, k=K)
def test_with_a_relevant_item_every_metric_is_defined(name, items, truth, k):
    assert not np.isnan(value(Metric(name, k=k), items, truth))


BEST = {
    "precision": lambda m, k: min(m, k) / k,
    "recall": lambda m, k: min(m, k) / m,
    "f1": lambda m, k: 2 * min(m, k) / (m + k),
    "mar": lambda m, k: (min(m, k) + 1) / (2 * m),
}
"""What the perfect list scores at k with m relevant items, where that is not the upper bound: there are fewer relevant items
than places, or fewer places than relevant items, or (mar) recall has to grow from 1/m to 1."""


@every_ranking_metric
@LAWS
@given(truth=SOMETHING, k=st.integers(1, 10), gain=st.sampled_from(CHOICES["gain"]))
def test_the_perfect_list(name, truth, k, gain):
    """All relevant items in the order of their ratings, and nothing else, score the upper bound at every k, but for `BEST`."""
    found = value(Metric(name, k=k), best_list(truth), truth, DEFAULT.override(gain=gain))
    expected = BEST[name](len(truth), k) if name in BEST else DEFINITIONS[name].upper
    assert found == pytest.approx(expected, abs=1e-12)


@every_ranking_metric
@given(rating=st.sampled_from([0.5, 1.0, 5.0]))
@LAWS
def test_the_only_relevant_item_at_rank_1_scores_the_upper_bound_at_1(name, rating):
    """With m = k = 1 there is one perfect list, and no definition that disagrees, for any option."""
    for metric in VARIANTS[name]:
        assert value(metric.at(1), ["a", "x"], {"a": rating}) == pytest.approx(metric.definition.upper), str(metric)


@every_ranking_metric
@LAWS
@given(items=LISTS, truth=SOMETHING, k=st.integers(1, 10))
def test_no_list_beats_the_perfect_list(name, items, truth, k):
    for metric in VARIANTS[name]:
        assert value(metric.at(k), items, truth) <= value(metric.at(k), best_list(truth), truth) + 1e-12, str(metric)


@pytest.mark.parametrize("name", [definition.name for definition in DEFINED if definition.grows_with_k])
@LAWS
@given(users=USERS, k=st.integers(1, 9))
def test_a_longer_cut_never_lowers_a_metric_that_grows_with_k(name, users, k):
    shorter, longer, uncut = (values(Metric(name, k=cut), users) for cut in (k, k + 1, None))
    np.testing.assert_array_equal(np.isnan(shorter), np.isnan(longer))
    assert np.all((longer >= shorter) | np.isnan(shorter))
    assert np.all((uncut >= longer) | np.isnan(uncut))


@LAWS
@given(users=USERS)
def test_hit_precision_and_reciprocal_rank_are_the_same_at_1(users):
    hit, precision, mrr = (values(Metric(name, k=1), users) for name in ("hit", "precision", "mrr"))
    np.testing.assert_array_equal(hit, precision)
    np.testing.assert_array_equal(hit, mrr)


@every_ranking_metric
@LAWS
@given(users=USERS, k=K, data=st.data())
def test_the_order_of_users_changes_nothing(name, users, k, data):
    order = data.draw(st.permutations(range(len(users))))
    for metric in VARIANTS[name]:
        found = values(metric.at(k), users)
        np.testing.assert_array_equal(values(metric.at(k), [users[place] for place in order]), found[order], str(metric))


@every_ranking_metric
@LAWS
@given(users=USERS, k=K, data=st.data())
def test_the_names_of_items_and_the_order_of_truth_rows_change_nothing(name, users, k, data):
    new = dict(zip(ITEMS, data.draw(st.permutations(["a", "b", "c", "10", "9", "ü", "", "z z"])), strict=True))
    renamed = [
        ([new[item] for item in items], {new[item]: truth[item] for item in sorted(truth, reverse=True)})
        for items, truth in users
    ]
    for metric in VARIANTS[name]:
        np.testing.assert_array_equal(values(metric.at(k), renamed), values(metric.at(k), users), str(metric))


@every_ranking_metric
@LAWS
@given(items=LISTS, truth=TRUTH, k=st.integers(1, 8))
def test_what_stands_behind_k_changes_nothing(name, items, truth, k):
    """Cutting lists at the largest k before they are scored is allowed."""
    for metric in VARIANTS[name]:
        np.testing.assert_array_equal(value(metric.at(k), items, truth), value(metric.at(k), items[:k], truth), str(metric))


@every_ranking_metric
@LAWS
@given(items=LISTS, truth=SOMETHING, k=K)
def test_moving_a_hit_up_past_a_miss_never_lowers_a_value(name, items, truth, k):
    places = [place for place in range(len(items) - 1) if items[place] not in truth and items[place + 1] in truth]
    for place in places:
        better = [*items[:place], items[place + 1], items[place], *items[place + 2 :]]
        for metric in VARIANTS[name]:
            assert value(metric.at(k), better, truth) >= value(metric.at(k), items, truth) - 1e-12, str(metric)


# Rating metrics -----------------------------------------------------------------------------------------------------------

ERRORS = st.lists(st.floats(-100, 100).filter(lambda error: error == 0 or abs(error) > 1e-6), min_size=1, max_size=20)


def error_of(name: str, errors: list[float]) -> float:
    moments = Moments(len(errors), sum(map(abs, errors)), sum(error**2 for error in errors))
    return float(DEFINITIONS[name].compute(moments))


@pytest.mark.parametrize("name", RATING)
@LAWS
@given(errors=ERRORS)
def test_an_error_is_0_without_errors_and_above_0_with_one(name, errors):
    assert error_of(name, [0.0] * len(errors)) == 0
    assert (error_of(name, errors) > 0) == any(errors)
    assert not DEFINITIONS[name].higher_is_better
    assert DEFINITIONS[name].upper is None


@pytest.mark.parametrize("name", RATING)
@LAWS
@given(errors=ERRORS)
def test_an_error_is_the_same_in_both_directions_and_grows_with_the_errors(name, errors):
    assert error_of(name, [-error for error in errors]) == error_of(name, errors)
    assert error_of(name, [2 * error for error in errors]) >= error_of(name, errors)


@LAWS
@given(errors=ERRORS)
def test_rmse_is_the_root_of_mse_and_never_below_mae(errors):
    assert error_of("rmse", errors) ** 2 == pytest.approx(error_of("mse", errors))
    assert error_of("rmse", errors) >= error_of("mae", errors) * (1 - 1e-12)
