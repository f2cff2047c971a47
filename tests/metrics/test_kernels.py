"""Each formula against fractions worked out by hand. `test_kernels_oracle.py` compares all formulas with the oracle."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import pytest

from spark_recmetrics.conventions import CHOICES, CONVENTIONS, convention
from spark_recmetrics.metrics import DEFINITIONS, Metric, RankedBatch, parse, score

DEFAULT = convention("default")
LOG2_3 = math.log2(3)
UNDEFINED = None

RANKING = sorted(name for name, definition in DEFINITIONS.items() if definition.kind == "ranking")
RATING = sorted(name for name, definition in DEFINITIONS.items() if definition.kind == "rating")


def one(text: str, items: list | str, truth: dict | list | str, how: str = "default", **inputs_of_user) -> float | None:
    """The value of one user; `truth` is a dict from item to rating, or the relevant items with rating 1."""
    ratings = truth if isinstance(truth, dict) else dict.fromkeys(truth, 1.0)
    inputs = {name: value if name == "n_items" else [value] for name, value in inputs_of_user.items()}
    value = float(score(parse(text), RankedBatch.of([list(items)], [ratings], **inputs), convention(how))[0])
    return UNDEFINED if math.isnan(value) else value


def close(value: object) -> object:
    return pytest.approx(float(value), abs=1e-12, rel=1e-12)


def six(value: float) -> object:
    """A value that the docs print with six digits."""
    return pytest.approx(value, abs=5e-7)


def values_of(name: str, option: str) -> tuple:
    """The allowed values of an option; some values of a number."""
    definition = DEFINITIONS[name]
    source = definition.options[option]
    numbers = (0.5, 1.0, 3.0) if isinstance(source, str) else (1.0, 3.0) if source.counts else (0.5, 0.95)
    return definition.choices(option) or numbers


def every_variant() -> list[Metric]:
    """Every ranking metric without options, and with each value of each option; without a cut-off."""
    metrics = []
    for name in RANKING:
        variants = [Metric(name)]
        for option in DEFINITIONS[name].options:
            variants += [Metric(name, params=((option, value),)) for value in values_of(name, option)]
        if DEFINITIONS[name].operands:
            variants += [parse(f"{name}(ndcg, map, beta=0.5)"), parse(f"{name}(precision(denominator=recommended), mrr)")]
            variants += [parse(f"{name}(gauc, ndcg)"), parse(f"{name}(r_precision, lauc(candidates=listed))")]
        metrics += variants
    return metrics


VARIANTS = every_variant()
OF_HITS = [
    metric
    for metric in VARIANTS
    if metric.definition.accuracy and not metric.needs(DEFAULT) and not metric.definition.skips_undefined
]
"""Metrics of hits alone, with the worst value 0."""

CUTS = (1, 2, 3, 10, None)


def at_cuts(metrics: Iterable[Metric], cuts: Iterable[int | None] = CUTS) -> list[Metric]:
    """The metrics at each cut-off, if they can be cut."""
    return list(dict.fromkeys(metric.at(k) for metric in metrics for k in cuts))


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
    ("printed", "dcg@3", "axb", "ab", Fraction(3, 2)),
    ("printed", "idcg@3", "axb", "ab", 1 + 1 / LOG2_3),
]


@pytest.mark.parametrize(("case", "metric", "items", "truth", "value"), CASES)
def test_cases(case, metric, items, truth, value):
    assert one(metric, items, truth) == (UNDEFINED if value is UNDEFINED else close(value)), case


def test_printed_values_of_the_cases():
    assert one("idcg@3", "axb", "ab") == six(1.630930)
    assert one("ndcg@3", "axb", "ab") == six(0.919721)
    assert one("ndcg@10", "a", "ab") == six(0.613147)
    assert one("ndcg(gain=linear)@2", "ba", {"a": 3, "b": 1}) == six(0.796708)
    assert one("ndcg(gain=exponential)@2", "ba", {"a": 3, "b": 1}) == six(0.709810)


def test_n5_negative_gains_count_as_0():
    ratings = {"a": -0.89, "b": -0.53, "c": -0.47, "d": 0.39, "e": 0.56}
    by_score = "cdbea"  # scores .75, .33, .31, .27, .07
    assert one("ndcg(gain=linear)", by_score, ratings) == six(0.604471)
    by_hand = (0.39 / LOG2_3 + 0.56 / math.log2(5)) / (0.56 + 0.39 / LOG2_3)
    assert one("ndcg(gain=linear)", by_score, ratings) == close(by_hand)


# Worked examples in circulation -------------------------------------------------------------------------------------------


class TestWorkedExamples:
    """Worked examples of other systems."""

    def test_dcg_of_1_0_1(self):
        # DCG = 1 + 1/log2(4) = 1.5. The ideal DCG of two items, with hits at ranks 1 and 2, is 1.630930.
        ideal = 1 + 1 / LOG2_3
        assert ideal == six(1.630930)
        assert one("ndcg@3", "axb", "ab") == close(1.5 / ideal)
        assert one("ndcg@3", "axb", "ab") == six(0.919721)

    def test_standard_at_five(self):
        items = "axbyc"
        # Two of five items are relevant, and two of three relevant items are in the list.
        assert one("precision@5", items, "abz") == close(Fraction(2, 5))
        assert one("recall@5", items, "abz") == close(Fraction(2, 3))
        # Hits at ranks 1, 3 and 5.
        assert one("map@5", items, "abc") == close((1 + Fraction(2, 3) + Fraction(3, 5)) / 3)
        assert one("map@5", items, "abc") == six(0.755556)

    @pytest.mark.parametrize("gain", CHOICES["gain"])
    def test_standard_list_in_ideal_order_is_1_not_0_952(self, gain):
        ratings = {"a": 3, "b": 3, "c": 2, "d": 2, "e": 1}
        assert one(f"ndcg(gain={gain})@5", "abcde", ratings) == close(1)

    def test_jurity_precision_and_map_are_equal_at_1(self):
        for items, truth in [("ab", "ac"), ("ba", "ac"), ("a", "a"), ("x", "a")]:
            assert one("precision@1", items, truth, "jurity") == one("map@1", items, truth, "jurity")

    def test_precision_denominator(self):
        # One hit in a list of two, k = 3.
        assert one("precision(denominator=k)@3", "ax", "a") == close(Fraction(1, 3))
        assert one("precision(denominator=recommended)@3", "ax", "a") == close(Fraction(1, 2))

    def test_laikallm_one_hit_at_rank_1_scores_1(self):
        assert one("ndcg(idcg=list)@3", "axy", "abcd") == 1
        assert one("ndcg@3", "axy", "abcd", "laikallm") == 1

    def test_jurity_a_perfect_list_is_below_1_if_m_exceeds_k(self):
        assert one("ndcg(idcg=all)@5", range(5), list(range(10))) == six(0.648932)

    def test_rectools_one_relevant_item_at_rank_1(self):
        value = 1 / (1 + 1 / LOG2_3 + 1 / 2)
        assert one("ndcg(idcg=full_k)@3", "axy", "a") == close(value)
        assert one("ndcg@3", "axy", "a", "rectools") == pytest.approx(0.469, abs=5e-4)
        assert one("ndcg(idcg=at_k)@3", "axy", "a", "rectools") == 1

    def test_warprec_mar_of_a_perfect_list(self):
        assert one("mar@2", "ab", "ab") == close(Fraction(3, 4))

    def test_lenskit_ranks_1_and_2_have_equal_weights(self):
        assert one("ndcg(discount=log2_clipped)@2", "xa", "a") == 1
        assert one("ndcg(discount=log2_plus1)@2", "xa", "a") == close(1 / LOG2_3)
        # Ranks 1 to 4 have the discounts 1, 1, log2(3), 2.
        assert one("ndcg(discount=log2_clipped)@4", "xxxa", "ab") == close(Fraction(1, 2) / 2)
        assert one("ndcg(discount=log2_clipped)@4", "xxax", "abc") == close((1 / LOG2_3) / (2 + 1 / LOG2_3))

    def test_kept_repeated_predictions_count_again(self):
        # Known faults of other systems, which only this option reproduces.
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
        # The square of such a beta overflows.
        ("f1(beta=1e160)@10", Fraction(2, 3)),
        ("f1(beta=1e308)@10", Fraction(2, 3)),
        ("f1(beta=1e-308)@10", Fraction(1, 5)),
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
        ("dcg@2", 1),
        ("dcg@3", Fraction(3, 2)),
        ("dcg(gain=linear)@3", 1 + Fraction(3, 2)),
        ("dcg(gain=exponential)@3", 1 + Fraction(7, 2)),
        ("dcg(gain=exponential_plus1)", 3 + Fraction(15, 2)),
        ("dcg(gain=linear, discount=log2_clipped)@3", 1 + 3 / LOG2_3),
        ("idcg@2", 1 + 1 / LOG2_3),
        ("idcg(idcg=all)@2", 1 + 1 / LOG2_3 + 1 / 2),
        ("idcg(gain=linear)@2", 3 + 2 / LOG2_3),
        ("idcg(gain=exponential)", 7 + 3 / LOG2_3 + 1 / 2),
        ("idcg(gain=linear, idcg=list)@3", 3 + 1 / LOG2_3),
        ("idcg(gain=linear, idcg=list)@1", 1),
        ("idcg(gain=linear, idcg=full_k)@5", 1 + 1 / LOG2_3 + 1 / 2 + 1 / math.log2(5) + 1 / math.log2(6)),
        ("idcg(discount=log2_clipped)@3", 2 + 1 / LOG2_3),
    ],
)
def test_formula(metric, value):
    assert one(metric, LIST, RELEVANT) == close(value)


def test_first_hit_at_rank_2():
    assert one("mrr@1", "xa", "a") == 0
    assert one("mrr@2", "xa", "a") == Fraction(1, 2)
    assert one("mrr", "xxxa", "a") == Fraction(1, 4)


@pytest.mark.parametrize("metric", OF_HITS, ids=str)
def test_a_list_without_a_hit_scores_0(metric):
    for k in CUTS:
        assert one(str(metric.at(k)), "xyz", "ab") == 0


class TestUndefined:
    """0/0, and cases that look like it."""

    @pytest.mark.parametrize("k", ["@1", "@3", ""])
    def test_no_relevant_item(self, k):
        for name in ("recall", "f1", "map", "mar", "ndcg"):
            assert one(name + k, "abc", "") is UNDEFINED
        for name in ("precision", "precision(denominator=recommended)", "hit", "mrr", "dcg", "idcg", "idcg(idcg=list)"):
            assert one(name + k, "abc", "") == 0

    def test_neither_list_nor_relevant_item(self):
        assert one("hit@3", "", "") == one("mrr@3", "", "") == one("precision@3", "", "") == 0
        assert one("precision(denominator=recommended)@3", "", "") is UNDEFINED
        assert one("precision", "", "") is UNDEFINED

    @pytest.mark.parametrize("metric", OF_HITS, ids=str)
    def test_an_empty_list_scores_0(self, metric):
        for k in CUTS:
            assert one(str(metric.at(k)), "", "ab") == 0

    @pytest.mark.parametrize("idcg", ["at_k", "all"])
    def test_relevant_items_with_gain_0(self, idcg):
        # Only if a rating of 0 is relevant, as with `relevance=present`.
        assert one(f"ndcg(gain=linear, idcg={idcg})@3", "ab", {"a": 0.0, "b": 0.0}) is UNDEFINED
        assert one(f"ndcg(gain=exponential_plus1, idcg={idcg})@3", "ab", {"a": 0.0, "b": 0.0}) == 1

    def test_f_is_undefined_if_a_part_is_and_0_if_both_are_0(self):
        assert one("f1(hit, recall)@1", "a", "") is UNDEFINED
        assert one("f1(hit, mrr)@1", "a", "") == 0


# What is outside of the list, or judged --------------------------------------------------------------------------------------

# Ten items: a is seen, b and c are tied, j is relevant but not in the list; a, c and q are judged but not relevant.
TIED = {"items": "abcd", "truth": {"b": 1.0, "d": 4.0, "j": 2.0}, "judged": {"a": 0.0, "c": 2.0, "q": 0.0}, "n_items": 10}
KNOWN = {"scores": [0.9, 0.5, 0.5, 0.1], "seen": "ai", "propensities": {"a": 1.0, "b": 0.5, "c": 0.25, "d": 0.5}}


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        # b, d and j compared with c and four unlisted items, or with a, c and five unlisted items, or with a and c alone.
        ("auc", (Fraction(9, 10) + Fraction(4, 5) + Fraction(2, 5)) / 3),
        ("auc(ties=order)", (1 + Fraction(4, 5) + 0) / 3),
        ("auc(negatives=plus_one)", (Fraction(11, 12) + Fraction(5, 6) + Fraction(1, 2)) / 3),
        ("auc(candidates=all)", (Fraction(11, 14) + Fraction(5, 7) + Fraction(5, 14)) / 3),
        ("auc(candidates=listed)", (Fraction(1, 4) + 0) / 2),
        ("gauc(candidates=listed, ties=order, weight=recommended)", (Fraction(1, 2) + 0) / 2),
        ("lauc@1", Fraction(9, 10)),
        ("lauc@2", Fraction(9, 10) / 2),
        ("lauc(candidates=all)@2", Fraction(11, 14) / 2),
        ("lauc", (Fraction(9, 10) + Fraction(4, 5)) / 3),
        # a is above b, a and c are above d: b beats 0, 1 or 2 of the first 1, 2 or 3 misses, d the third; j is not in the list.
        ("pauc@1", 0),
        ("pauc@2", Fraction(1, 3 * 2)),
        ("pauc@3", Fraction(2 + 1, 3 * 3)),
        ("pauc", Fraction(3 + 2, 3 * 4)),
        ("pauc(insufficient=exclude)@2", Fraction(1, 3 * 2)),
        ("pauc(insufficient=exclude)@3", UNDEFINED),
        ("pap@1", 0),
        ("pap@2", Fraction(1, 2 * 2)),
        ("pap@3", Fraction(2 + 1, 3 * 3)),
        ("pap@5", Fraction(4 + 3, 3 * 5)),
        ("pap(insufficient=exclude)@2", Fraction(1, 2 * 2)),
        ("pap(insufficient=exclude)@3", UNDEFINED),
        # TP 1, FP 1, FN 2, TN 6; TP 2, FP 2, FN 1, TN 5; TP 2, FP 4, FN 1, TN 3; and FP no more than 7.
        ("accuracy@2", Fraction(7, 10)),
        ("accuracy", Fraction(7, 10)),
        ("accuracy@6", Fraction(5, 10)),
        ("accuracy(denominator=recommended)@6", Fraction(7, 10)),
        ("accuracy@60", Fraction(2, 10)),
        ("mcc@2", 4 / math.sqrt(2 * 3 * 7 * 8)),
        ("mcc", 8 / math.sqrt(4 * 3 * 7 * 6)),
        ("mcc@60", -7 / math.sqrt(9 * 3 * 7 * 1)),
        ("r_precision", Fraction(1, 3)),
        ("rbp", Fraction(1, 5) * (Fraction(4, 5) + Fraction(64, 125))),
        ("rbp(p=0.5)@3", Fraction(1, 4)),
        ("average_rank@2", 2),
        ("average_rank@1", UNDEFINED),
        # a is above b, and a and c are above d; three items of each kind.
        ("bpref", (Fraction(2, 3) + Fraction(1, 3)) / 3),
        ("ctr", Fraction(0 + 1 + 2 + 4, 4)),
        ("ctr@2", Fraction(1, 2)),
        ("ctr(estimator=ips)@3", Fraction(0 + 2 + 8, 3)),
        ("ctr(estimator=dr)@2", (Fraction(14, 10) - Fraction(9, 10) + 1) / 2),
        ("ess", Fraction((1 + 2 + 4 + 2) ** 2, 1 + 4 + 16 + 4)),
        ("ess@1", 1),
        # b is tied with c and below a, d is below both.
        ("matched_auc", Fraction(1, 8)),
        ("matched_auc@2", 0),
        ("matched_auc@1", UNDEFINED),
    ],
)
def test_formulas_of_more_than_hits(metric, value):
    assert one(metric, **TIED, **KNOWN) == (UNDEFINED if value is UNDEFINED else close(value))


def test_without_scores_there_are_no_ties_and_without_training_rows_no_seen_items():
    plain = {**TIED, "propensities": KNOWN["propensities"]}
    assert (
        one("auc", **plain)
        == one("auc(candidates=all)", **plain)
        == close((Fraction(12, 14) + Fraction(10, 14) + Fraction(5, 14)) / 3)
    )
    assert one("auc", **plain, seen="ai") == close((1 + Fraction(4, 5) + Fraction(2, 5)) / 3)


@pytest.mark.parametrize(("name", "undefined"), [("auc", UNDEFINED), ("gauc", UNDEFINED), ("lauc", UNDEFINED)])
def test_no_pair_to_compare(name, undefined):
    assert one(f"{name}(candidates=all)", "ab", "ab", n_items=2) is undefined
    assert one(f"{name}(candidates=all, negatives=plus_one)", "ab", "ab", n_items=2) == 1
    assert one(name, "ax", "a", seen="a", n_items=9) is undefined
    assert one(f"{name}(candidates=listed)", "x", "a") is undefined
    assert one(f"{name}(candidates=listed)", "a", "a") is undefined


def test_a_list_without_candidates():
    assert one("auc", "", "a", n_items=9) == one("auc", "x", "a", seen="x", n_items=9) == Fraction(1, 2)
    assert one("auc(ties=order)", "", "a", n_items=9) == one("lauc@3", "", "a", n_items=9) == 0
    assert one("gauc(weight=relevant)", "", "a", n_items=9) == Fraction(1, 2)
    assert one("gauc(weight=recommended)", "", "a", n_items=9) is UNDEFINED
    assert one("gauc(weight=recommended)", "x", "a", seen="x", n_items=9) is UNDEFINED


@pytest.mark.parametrize("missing", [math.inf, -math.inf])
def test_infinite_scores_are_tied_with_each_other(missing):
    assert one("matched_auc", "xa", "a", judged={"x": 0.0}, scores=[missing, missing]) == Fraction(1, 2)


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("ndcg@10", ""),
        ("auc", "unseen_candidates ties catalog"),
        ("auc(ties=order)", "unseen_candidates catalog"),
        ("auc(candidates=all)", "candidates ties catalog"),
        ("gauc(candidates=listed)", "candidates ties"),
        ("lauc(candidates=listed, ties=order)@3", "candidates"),
        ("accuracy@3", "catalog"),
        ("mcc", "catalog"),
        ("bpref", "matched"),
        ("ctr@3", "matched"),
        ("ips@3", "matched propensity"),
        ("dr@3", "matched propensity list_scores scores"),
        ("ess", "matched propensity"),
        ("matched_auc@3", "matched scores"),
        ("f1(gauc(ties=order), bpref)@3", "unseen_candidates catalog matched"),
        ("rmse", ""),
    ],
)
def test_needs(text, needs):
    assert parse(text).needs(DEFAULT) == set(needs.split())


def test_needs_depend_on_the_convention():
    assert parse("auc").needs(DEFAULT.override(auc_candidates="listed", auc_ties="order")) == {"candidates"}
    assert parse("auc(candidates=all)").needs(CONVENTIONS["warprec"]) == {"candidates", "catalog"}
