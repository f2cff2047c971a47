"""Expected values of perfect and random lists: closed forms against the formulas, over every order of small lists."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from spark_recmetrics.conventions import CONVENTIONS, convention
from spark_recmetrics.diagnostics.expected import best_bound, no_perfect_value, no_random_value, perfect_value, random_value
from spark_recmetrics.metrics import DEFINITIONS, Metric, Parameter, RankedBatch, parse, score

RANKING = [definition for definition in DEFINITIONS.values() if definition.kind == "ranking" and definition.accuracy]
DEFAULT = convention("default")


def variants_of(definition):
    """The metric with every combination of its options."""
    ways = {}
    for key, source in definition.options.items():
        ways[key] = definition.choices(key) or (0.5, 0.8 if isinstance(source, Parameter) else 3.0)
    for chosen in itertools.product(*ways.values()):
        yield Metric(definition.name, params=tuple(sorted(zip(ways, chosen, strict=True))))


VARIANTS = [
    *(metric for definition in RANKING for metric in variants_of(definition)),
    parse("f1(recall, precision, beta=2)"),
    parse("f1(ndcg, map)"),
    parse("f1(ndcg(gain=linear, idcg=full_k), map)"),
]
KNOWN = [metric for metric in VARIANTS if no_perfect_value(metric, DEFAULT) is None]
RANDOM = [metric for metric in VARIANTS if no_random_value(metric, DEFAULT) is None]
BOUNDED = ("hit", "map", "mar", "lauc", "matched_auc", "pauc")
"""Metrics with an upper bound of the variance; for `hit` it is the variance."""


def cuts_of(metric):
    return (1, 2, 3, 5, 7, None) if metric.definition.has_cut_off else (None,)


def values(metric, lists, truth, n_items, judged=None):
    scores = [[-float(rank) for rank in range(len(items))] for items in lists]
    n = len(lists)
    batch = RankedBatch.of(lists, [truth] * n, judged=[judged or {}] * n, scores=scores, n_items=n_items)
    return score(metric, batch, DEFAULT)


def test_metrics_with_expected_values():
    perfect = {metric.name for metric in KNOWN}
    assert perfect == {d.name for d in RANKING if best_bound(d) is not None} - {"matched_auc"}
    random = "accuracy auc average_rank f1 gauc hit lauc map mar matched_auc mcc mrr ndcg pauc precision r_precision rbp recall"
    assert {metric.name for metric in RANDOM} == set(random.split())
    assert len(KNOWN) > 60
    assert len(RANDOM) > 50


@pytest.mark.parametrize("metric", KNOWN, ids=str)
def test_the_perfect_list(metric):
    for m, k, n_items in itertools.product((1, 2, 3, 6), cuts_of(metric), (7, 9)):
        truth = {f"i{place}": 5.0 - place / 2 for place in range(m)}
        (result,) = values(metric.at(k), [sorted(truth)], truth, n_items)
        expected = perfect_value(metric.at(k), DEFAULT, m, n_items)
        if math.isnan(expected) and ("idcg", "all") in metric.params:
            assert k is not None
            assert m > k
            assert 0 < result < 1
        else:
            assert result == pytest.approx(expected, abs=1e-12, nan_ok=True), (m, k, n_items)


@pytest.mark.parametrize("metric", RANDOM, ids=str)
def test_the_mean_over_every_order(metric):
    """Each set of ranks of the relevant items stands for equally many orders."""
    for c, k in itertools.product((1, 2, 4, 6), cuts_of(metric)):
        for m in range(1, c + 1):
            hits = [f"a{place}" for place in range(m)]
            others = [f"x{place}" for place in range(c - m)]
            lists = []
            for places in itertools.combinations(range(c), m):
                of_hits, of_others = iter(hits), iter(others)
                lists.append([next(of_hits) if place in places else next(of_others) for place in range(c)])
            results = values(metric.at(k), lists, dict.fromkeys(hits, 1.0), c, dict.fromkeys(others, 0.0))
            results = results[~np.isnan(results)]
            expected = random_value(metric.at(k), DEFAULT, m, c)
            if not len(results):
                assert math.isnan(expected.mean) or metric.name == "matched_auc"
                continue
            assert expected.mean == pytest.approx(results.mean(), abs=1e-12), (m, c, k)
            variance = results.var()
            assert expected.variance >= variance - 1e-12, (m, c, k)
            if metric.name not in BOUNDED or metric.name == "hit":
                assert expected.variance == pytest.approx(variance, abs=1e-12), (m, c, k)
            assert np.abs(results - results.mean()).max() <= expected.largest + 1e-12, (m, c, k)


def test_by_hand():
    """Two relevant items of five, the first two ranks: one hit in 6 of 10 lists, two hits in 1, no hit in 3."""
    assert random_value(parse("precision@2"), DEFAULT, 2, 5).mean == pytest.approx((6 * 1 / 2 + 1) / 10)
    assert random_value(parse("hit@2"), DEFAULT, 2, 5).mean == pytest.approx(7 / 10)
    assert random_value(parse("mrr@2"), DEFAULT, 2, 5).mean == pytest.approx(2 / 5 + (3 / 5 * 2 / 4) / 2)
    assert random_value(parse("auc"), DEFAULT, 2, 5) == pytest.approx((1 / 2, 6 / (12 * 2 * 3), 1 / 2))
    assert perfect_value(parse("mar@3"), DEFAULT, 2) == pytest.approx(3 / 4)
    assert perfect_value(parse("ndcg(idcg=full_k)@3"), DEFAULT, 1) == pytest.approx(1 / (1 + 1 / math.log2(3) + 1 / 2))


ALONE = "a list with only relevant items has no non-relevant item to compare with"
FULL_K = "its ideal list has gain 1 at every rank, whatever the ratings"
GRADED = "its mean depends on the ratings"
OF_HITS = "its divisor depends on the hits of the list"
OTHER_F = "no formula for the mean of this F-measure on random lists"


@pytest.mark.parametrize(
    ("metric", "name", "perfect", "random"),
    [
        ("ctr", "default", "it has no best value", "no formula for its mean on random lists"),
        ("rmse", "default", None, "random lists have no predicted ratings"),
        ("bpref", "default", None, "no formula for its mean on random lists"),
        ("matched_auc", "default", ALONE, None),
        ("auc", "replay", ALONE, None),
        ("auc", "threshold", None, "candidates=judged ranks only judged items, not the full catalog"),
        ("ndcg", "rectools", None, None),
        ("ndcg(gain=linear)", "rectools", FULL_K, GRADED),
        ("ndcg", "laikallm", None, OF_HITS),
        ("ndcg(gain=linear)", "laikallm", "it is 0 for users without a gain", GRADED),
        ("ndcg(gain=linear, idcg=list)", "ranx", None, GRADED),
        ("map", "laikallm", None, OF_HITS),
        ("ndcg", "ranx", None, GRADED),
        ("f1(ndcg, map)", "default", None, OTHER_F),
        ("f1(auc, map)", "replay", ALONE, OTHER_F),
    ],
)
def test_reasons_why_a_value_is_not_known(metric, name, perfect, random):
    assert no_perfect_value(parse(metric), convention(name)) == perfect
    assert no_random_value(parse(metric), convention(name)) == random


@pytest.mark.parametrize("name", CONVENTIONS)
def test_perfect_values_are_known_under_every_convention(name):
    rules = convention(name)
    perfect = {d.name for d in DEFINITIONS.values() if no_perfect_value(Metric(d.name), rules) is None}
    bounded = {d.name for d in DEFINITIONS.values() if d.accuracy and best_bound(d) is not None}
    assert perfect >= bounded - {"matched_auc", "auc", "gauc", "lauc"}
