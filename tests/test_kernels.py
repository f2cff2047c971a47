"""Each formula against fractions a reader can check, a batch against its users one by one, everything against the oracle."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from oracle import all_cells, describe, random_case, rating_error, value_of

from spark_recmetrics.conventions import CHOICES, CONVENTIONS, Convention, convention
from spark_recmetrics.metrics import DEFINITIONS, Metric, RankedBatch, parse, score
from spark_recmetrics.metrics.rating import Moments

DEFAULT = convention("default")
LOG2_3 = math.log2(3)
UNDEFINED = None

RANKING = sorted(name for name, definition in DEFINITIONS.items() if definition.kind == "ranking")
RATING = sorted(name for name, definition in DEFINITIONS.items() if definition.kind == "rating")


def one(text: str, items: list | str, truth: dict | list | str, how: str = "default") -> float | None:
    """The value of one user; `truth` is a dict from item to rating, or the relevant items with rating 1."""
    ratings = truth if isinstance(truth, dict) else dict.fromkeys(truth, 1.0)
    value = float(score(parse(text), RankedBatch.of([list(items)], [ratings]), convention(how))[0])
    return UNDEFINED if math.isnan(value) else value


def close(value: object) -> object:
    return pytest.approx(float(value), abs=1e-12, rel=1e-12)


def six(value: float) -> object:
    """A value that a page prints with six digits."""
    return pytest.approx(value, abs=5e-7)


def every_variant() -> list[Metric]:
    """Every ranking metric, alone and with each value of each of its options; without a cut-off."""
    found = []
    for name in RANKING:
        variants = [Metric(name)]
        for option, source in DEFINITIONS[name].options.items():
            variants += [Metric(name, params=((option, value),)) for value in CHOICES.get(source, (0.5, 1.0, 3.0))]
        if DEFINITIONS[name].operands:
            variants += [parse(f"{name}(ndcg, map, beta=0.5)"), parse(f"{name}(precision(denominator=recommended), mrr)")]
        found += variants
    return found


VARIANTS = every_variant()
CUTS = (1, 2, 3, 10, None)


# Cases from public bug reports --------------------------------------------------------------------------------------------

CASES = [
    ("K1", "recall@1", [9, 1, 2], [1, 2], 0),
    ("K2", "map(normalizer=min_k)@2", [1, 9, 8, 2], [1, 2, 3, 4], Fraction(1, 2)),
    ("K2", "map(normalizer=relevant)@2", [1, 9, 8, 2], [1, 2, 3, 4], Fraction(1, 4)),
    ("K2", "map", [1, 9, 8, 2], [1, 2, 3, 4], Fraction(3, 8)),
    ("K3", "precision@3", [1, 2, 3], [1], Fraction(1, 3)),
    ("K4", "precision@5", [1], [1], Fraction(1, 5)),
    ("K4", "precision(denominator=recommended)@5", [1], [1], 1),
    ("K5", "mrr@3", [1, 2, 3], [1, 2], 1),
    ("K7", "hit@1", [2, 1], [1], 0),
    ("K7", "precision@1", [2, 1], [1], 0),
    ("K7", "ndcg@1", [2, 1], [1], 0),
    ("K8", "recall@10", [0, 100, 101], list(range(20)), Fraction(1, 20)),
    ("N1", "ndcg@20", [1, 2], [1, 2], 1),
    ("N2", "ndcg@10", list(range(10)), list(range(12)), 1),
    ("N3", "ndcg@10", ["a"], ["a", "b"], 1 / (1 + 1 / LOG2_3)),
    ("N4", "ndcg(gain=binary)@2", "ba", {"a": 3, "b": 1}, 1),
    ("N4", "ndcg(gain=linear)@2", "ba", {"a": 3, "b": 1}, (1 + 3 / LOG2_3) / (3 + 1 / LOG2_3)),
    ("N4", "ndcg(gain=exponential)@2", "ba", {"a": 3, "b": 1}, (1 + 7 / LOG2_3) / (7 + 1 / LOG2_3)),
    ("N6", "ndcg@1", [1], [], UNDEFINED),
    ("N6", "recall@1", [1], [], UNDEFINED),
    ("N6", "map@1", [1], [], UNDEFINED),
    ("N6", "mar@1", [1], [], UNDEFINED),
    ("N6", "f1@1", [1], [], UNDEFINED),
    ("N6", "ndcg@1", [1], [2], 0),
    ("N6", "recall@1", [1], [2], 0),
    ("N6", "map@1", [1], [2], 0),
    ("N6", "mar@1", [1], [2], 0),
    ("N6", "f1@1", [1], [2], 0),
    ("D5", "ndcg@3", ["a", "a", "z"], ["a_2"], 0),
]


@pytest.mark.parametrize(("case", "metric", "items", "truth", "value"), CASES)
def test_cases(case, metric, items, truth, value):
    assert one(metric, items, truth) == (UNDEFINED if value is UNDEFINED else close(value)), case


def test_printed_values_of_the_cases():
    assert one("ndcg@10", "a", "ab") == six(0.613147)
    assert one("ndcg(gain=linear)@2", "ba", {"a": 3, "b": 1}) == six(0.796708)
    assert one("ndcg(gain=exponential)@2", "ba", {"a": 3, "b": 1}) == six(0.709810)


def test_n5_negative_gains_are_taken_as_zero():
    ratings = {"a": -0.89, "b": -0.53, "c": -0.47, "d": 0.39, "e": 0.56}
    by_score = "cdbea"  # scores .75, .33, .31, .27, .07
    assert one("ndcg(gain=linear)", by_score, ratings) == six(0.604471)
    by_hand = (0.39 / LOG2_3 + 0.56 / math.log2(5)) / (0.56 + 0.39 / LOG2_3)
    assert one("ndcg(gain=linear)", by_score, ratings) == close(by_hand)


# Worked examples in circulation -------------------------------------------------------------------------------------------


class TestWorkedExamples:
    """Section 6, and the values that sections 3 and 4 give."""

    def test_dcg_of_1_0_1(self):
        # DCG = 1 + 1/log2(4) = 1.5, over the ideal of two items; and a hit at ranks 1 and 2 is the ideal 1.630930.
        ideal = 1 + 1 / LOG2_3
        assert ideal == six(1.630930)
        assert one("ndcg@3", "axb", "ab") == close(1.5 / ideal)
        assert one("ndcg@3", "axb", "ab") == six(0.919721)

    def test_standard_at_five(self):
        items = "axbyc"
        # Two of five are relevant, and two of three are found.
        assert one("precision@5", items, "abz") == close(Fraction(2, 5))
        assert one("recall@5", items, "abz") == close(Fraction(2, 3))
        # Hits at ranks 1, 3 and 5.
        assert one("map@5", items, "abc") == close((1 + Fraction(2, 3) + Fraction(3, 5)) / 3)
        assert one("map@5", items, "abc") == six(0.755556)

    @pytest.mark.parametrize("gain", CHOICES["gain"])
    def test_standard_list_in_ideal_order_is_1_and_not_0_952(self, gain):
        ratings = {"a": 3, "b": 3, "c": 2, "d": 2, "e": 1}
        assert one(f"ndcg(gain={gain})@5", "abcde", ratings) == close(1)

    def test_jurity_precision_and_map_at_1_are_the_same(self):
        for items, truth in [("ab", "ac"), ("ba", "ac"), ("a", "a"), ("x", "a")]:
            assert one("precision@1", items, truth, "jurity") == one("map@1", items, truth, "jurity")

    def test_precision_denominator(self):
        # One hit in a list of two, k = 3.
        assert one("precision(denominator=k)@3", "ax", "a") == close(Fraction(1, 3))
        assert one("precision(denominator=recommended)@3", "ax", "a") == close(Fraction(1, 2))

    def test_laikallm_one_hit_at_rank_1_scores_1_whatever_was_missed(self):
        assert one("ndcg(idcg=list)@3", "axy", "abcd") == 1
        assert one("ndcg@3", "axy", "abcd", "laikallm") == 1

    def test_jurity_a_perfect_list_is_below_1_when_more_is_relevant_than_k(self):
        assert one("ndcg(idcg=all)@5", range(5), list(range(10))) == six(0.648932)

    def test_rectools_one_relevant_item_at_rank_1(self):
        value = 1 / (1 + 1 / LOG2_3 + 1 / 2)
        assert one("ndcg(idcg=full_k)@3", "axy", "a") == close(value)
        assert one("ndcg@3", "axy", "a", "rectools") == pytest.approx(0.469, abs=5e-4)
        assert one("ndcg(idcg=at_k)@3", "axy", "a", "rectools") == 1

    def test_warprec_mar_of_a_perfect_list(self):
        assert one("mar@2", "ab", "ab") == close(Fraction(3, 4))

    def test_lenskit_ranks_1_and_2_weigh_the_same(self):
        assert one("ndcg(discount=log2_clipped)@2", "xa", "a") == 1
        assert one("ndcg(discount=log2_plus1)@2", "xa", "a") == close(1 / LOG2_3)
        # Ranks 1 to 4 have the discounts 1, 1, log2(3), 2.
        assert one("ndcg(discount=log2_clipped)@4", "xxxa", "ab") == close(Fraction(1, 2) / 2)
        assert one("ndcg(discount=log2_clipped)@4", "xxax", "abc") == close((1 / LOG2_3) / (2 + 1 / LOG2_3))

    def test_repeated_predictions_count_again_where_they_are_kept(self):
        # The faults that systems are known for, reachable on purpose only.
        assert one("recall@3", "aaa", "a") == 3
        assert one("ndcg@3", "aaa", "a") == six(1 + 1 / LOG2_3 + 1 / 2)
        assert one("ndcg@3", "aaa", "ab") == six(1.306574)
        assert one("map(normalizer=hits)@3", "aaa", "a") == 1


# Formulas, one option at a time -------------------------------------------------------------------------------------------

# Hits at ranks 1 and 3 of a list of four; three relevant items, one of them not in the list.
LIST, RELEVANT = "axby", {"a": 1.0, "b": 3.0, "z": 2.0}
AP_SUM = 1 + Fraction(2, 3)
AR_SUM = Fraction(1, 3) + Fraction(2, 3)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("precision@3", Fraction(2, 3)),
        ("precision@10", Fraction(2, 10)),
        ("precision", Fraction(2, 4)),
        ("precision(denominator=recommended)@3", Fraction(2, 3)),
        ("precision(denominator=recommended)@10", Fraction(2, 4)),
        ("recall@1", Fraction(1, 3)),
        ("recall@3", Fraction(2, 3)),
        ("recall", Fraction(2, 3)),
        ("recall(denominator=min_k)@1", 1),
        ("recall(denominator=min_k)@2", Fraction(1, 2)),
        ("recall(denominator=min_k)@10", Fraction(2, 3)),
        ("f1@1", 2 * Fraction(1, 3) / (1 + Fraction(1, 3))),
        ("f1@10", 2 * Fraction(1, 5) * Fraction(2, 3) / (Fraction(1, 5) + Fraction(2, 3))),
        ("f1(beta=2)@10", 5 * Fraction(1, 5) * Fraction(2, 3) / (4 * Fraction(1, 5) + Fraction(2, 3))),
        (
            "f1(beta=0.5)@10",
            Fraction(5, 4) * Fraction(1, 5) * Fraction(2, 3) / (Fraction(1, 4) * Fraction(1, 5) + Fraction(2, 3)),
        ),
        ("f1(recall, precision, beta=2)@10", 5 * Fraction(1, 5) * Fraction(2, 3) / (4 * Fraction(2, 3) + Fraction(1, 5))),
        ("f1(hit, mrr)@3", 1),
        ("f1(map, recall)@3", 2 * (AP_SUM / 3) * Fraction(2, 3) / (AP_SUM / 3 + Fraction(2, 3))),
        ("hit@1", 1),
        ("mrr@1", 1),
        ("map@3", AP_SUM / 3),
        ("map@2", Fraction(1, 2)),
        ("map(normalizer=relevant)@2", Fraction(1, 3)),
        ("map(normalizer=hits)@3", AP_SUM / 2),
        ("map(normalizer=k)@5", AP_SUM / 5),
        ("map(normalizer=k)", AP_SUM / 4),
        ("map(normalizer=min_recommended)@10", AP_SUM / 3),
        ("map(normalizer=min_recommended)@2", Fraction(1, 2)),
        ("mar@3", AR_SUM / 3),
        ("mar@2", Fraction(1, 3) / 2),
        ("mar(normalizer=relevant)@2", Fraction(1, 3) / 3),
        ("mar(normalizer=hits)@3", AR_SUM / 2),
        ("mar(normalizer=k)@5", AR_SUM / 5),
        ("mar(normalizer=min_recommended)@10", AR_SUM / 3),
        ("ndcg@1", 1),
        ("ndcg@3", (1 + 1 / 2) / (1 + 1 / LOG2_3 + 1 / 2)),
        ("ndcg(gain=linear)@1", Fraction(1, 3)),
        ("ndcg(gain=exponential)@1", Fraction(1, 7)),
        ("ndcg(gain=exponential_plus1)@1", Fraction(3, 15)),
        ("ndcg(gain=linear)@3", (1 + 3 / 2) / (3 + 2 / LOG2_3 + 1 / 2)),
        ("ndcg(gain=linear, idcg=all)@1", 1 / (3 + 2 / LOG2_3 + 1 / 2)),
        ("ndcg(gain=linear, idcg=list)@3", (1 + 3 / 2) / (3 + 1 / LOG2_3)),
        ("ndcg(gain=linear, idcg=list)@1", 1),
        ("ndcg(gain=linear, idcg=full_k)@3", (1 + 3 / 2) / (1 + 1 / LOG2_3 + 1 / 2)),
        ("ndcg(idcg=full_k)@10", 1.5 / sum(1 / math.log2(rank + 1) for rank in range(1, 11))),
        ("ndcg(idcg=full_k)", 1.5 / sum(1 / math.log2(rank + 1) for rank in range(1, 5))),
    ],
)
def test_formula(metric, value):
    assert one(metric, LIST, RELEVANT) == close(value)


def test_first_hit_at_rank_2():
    assert one("mrr@1", "xa", "a") == 0
    assert one("mrr@2", "xa", "a") == Fraction(1, 2)
    assert one("mrr", "xxxa", "a") == Fraction(1, 4)


@pytest.mark.parametrize("metric", VARIANTS, ids=str)
def test_a_list_without_a_hit_scores_0_and_never_nan(metric):
    for k in CUTS:
        assert one(str(metric.at(k)), "xyz", "ab") == 0


class TestUndefined:
    """0/0, and what only looks like it."""

    @pytest.mark.parametrize("k", ["@1", "@3", ""])
    def test_nothing_relevant(self, k):
        for name in ("recall", "f1", "map", "mar", "ndcg"):
            assert one(name + k, "abc", "") is UNDEFINED
        for name in ("precision", "precision(denominator=recommended)", "hit", "mrr"):
            assert one(name + k, "abc", "") == 0

    def test_neither_list_nor_relevant_item(self):
        assert one("hit@3", "", "") == one("mrr@3", "", "") == one("precision@3", "", "") == 0
        assert one("precision(denominator=recommended)@3", "", "") is UNDEFINED
        assert one("precision", "", "") is UNDEFINED

    @pytest.mark.parametrize("metric", VARIANTS, ids=str)
    def test_an_empty_list_with_something_to_find_scores_0(self, metric):
        for k in CUTS:
            assert one(str(metric.at(k)), "", "ab") == 0

    @pytest.mark.parametrize("idcg", ["at_k", "all"])
    def test_relevant_items_without_a_gain(self, idcg):
        # Only where a rating of 0 is relevant, as under `present`.
        assert one(f"ndcg(gain=linear, idcg={idcg})@3", "ab", {"a": 0.0, "b": 0.0}) is UNDEFINED
        assert one(f"ndcg(gain=exponential_plus1, idcg={idcg})@3", "ab", {"a": 0.0, "b": 0.0}) == 1

    def test_f_is_undefined_where_a_part_is_and_0_where_both_are_0(self):
        assert one("f1(hit, recall)@1", "a", "") is UNDEFINED
        assert one("f1(hit, mrr)@1", "a", "") == 0


# Many users at once -------------------------------------------------------------------------------------------------------


def random_users(seed: int, n_users: int) -> tuple[list[list[str]], list[dict[str, float]]]:
    """Lists and relevant items, with every kind of edge: empty, disjoint, long, graded, fractional, zero."""
    rng = random.Random(seed)
    items = [f"i{number}" for number in range(15)]
    lists = [rng.sample(items, rng.choice([0, 1, 2, 5, 15])) for _ in range(n_users)]
    truth = [
        {item: rng.choice([0.0, 0.5, 1.0, 2.0, 3.5, 5.0]) for item in rng.sample(items, rng.choice([0, 1, 2, 4, 12]))}
        for _ in range(n_users)
    ]
    return lists, truth


@pytest.mark.parametrize("metric", VARIANTS, ids=str)
def test_a_batch_is_its_users_one_by_one(metric):
    lists, truth = random_users(seed=7, n_users=60)
    # The gain is graded, so that the order of the ideal list matters where the metric does not say otherwise.
    for k, how in product(CUTS, (DEFAULT, DEFAULT.override(gain="linear"))):
        cut = metric.at(k)
        together = score(cut, RankedBatch.of(lists, truth), how)
        alone = [score(cut, RankedBatch.of([items], [own]), how)[0] for items, own in zip(lists, truth, strict=True)]
        assert together.shape == (60,)
        assert together.dtype == np.float64
        np.testing.assert_array_equal(together, np.array(alone))


@pytest.mark.parametrize("metric", VARIANTS, ids=str)
def test_a_batch_of_nobody(metric):
    for k in CUTS:
        assert score(metric.at(k), RankedBatch.of([], []), DEFAULT).shape == (0,)


@pytest.mark.parametrize("metric", VARIANTS, ids=str)
def test_a_kernel_leaves_the_batch_as_it_is(metric):
    lists, truth = random_users(seed=8, n_users=20)
    batch = RankedBatch.of(lists, truth)
    before = {name: value.copy() for name, value in vars(batch).items()}
    for k in CUTS:
        score(metric.at(k), batch, DEFAULT)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(batch, name), value)


# Against the oracle -------------------------------------------------------------------------------------------------------


def against_the_oracle(seed: int, how: Convention, **faults: bool) -> None:
    case = random_case(seed, **faults)
    cells = list(all_cells(case.predictions, case.truth, how).values())
    batch = RankedBatch.of([cell.items for cell in cells], [cell.relevant for cell in cells])
    for metric in (variant.at(k) for variant in VARIANTS for k in CUTS):
        expected = [value_of(describe(metric), cell, how) for cell in cells]
        found = [UNDEFINED if math.isnan(value) else value for value in score(metric, batch, how)]
        for cell, value, right in zip(cells, found, expected, strict=True):
            assert value == (UNDEFINED if right is UNDEFINED else close(right)), (str(metric), str(how), cell)


@pytest.mark.parametrize("name", CONVENTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_every_metric_against_the_oracle_under_every_convention(name, seed):
    against_the_oracle(seed, CONVENTIONS[name])


@pytest.mark.parametrize("name", CONVENTIONS)
def test_the_same_with_repeats_that_are_kept(name):
    lenient = CONVENTIONS[name].override(duplicates="keep", nan_scores="last")
    against_the_oracle(0, lenient, duplicates=True, missing_scores=True)


@pytest.mark.parametrize("name", RATING)
def test_a_rating_metric_against_the_oracle(name):
    rng = random.Random(name)
    pairs = [(rng.uniform(-1, 6), rng.choice([0.0, 2.5, 5.0])) for _ in range(30)]
    errors = [score - rating for score, rating in pairs]
    compute = DEFINITIONS[name].compute
    assert compute(Moments(30, sum(map(abs, errors)), sum(error**2 for error in errors))) == close(
        rating_error(name, pairs, 30)
    )


def test_rating_formulas_take_arrays():
    # Users with the errors (1, -3) and (4,).
    moments = Moments(np.array([2, 1]), np.array([4.0, 4.0]), np.array([10.0, 16.0]))
    np.testing.assert_allclose(DEFINITIONS["mae"].compute(moments), [2, 4])
    np.testing.assert_allclose(DEFINITIONS["mse"].compute(moments), [5, 16])
    np.testing.assert_allclose(DEFINITIONS["rmse"].compute(moments), [math.sqrt(5), 4])
