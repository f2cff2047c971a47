"""Sentences about the best models and significant differences."""

from __future__ import annotations

import pytest
from report_data import many_models, small_comparison, small_result

from spark_recmetrics.reports.findings import findings, gates_summary, slice_findings


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"a": 0.25, "b": 0.25 + 1e-15, "c": 0.125}, "b and a are best with 0.2500 ({}), followed by c with 0.1250."),
        ({"a": 0.25, "b": 0.25, "c": 0.25 - 1e-15}, "a, b and c have the same value, 0.2500 ({})."),
        ({f"m{n}": 0.25 for n in range(8)}, "m0, m1, m2, m3, m4, m5 and 2 more have the same value, 0.2500 ({})."),
        ({"a": 0.125, "b": 0.25, "c": None}, "b is best with 0.2500 ({}), followed by a with 0.1250."),
    ],
)
def test_all_best_models_are_named_together(values, expected):
    low, high = many_models(values)[0]["ci_low"], many_models(values)[0]["ci_high"]
    interval = f"95 % confidence interval [{low:.4f}, {high:.4f}], 4 evaluated users"
    rows = [row for row in many_models(values) if row["k"] == 2]
    assert findings(rows, [], 0.95, 0.05) == [f"mrr@2: {expected.format(interval)}"]


def test_a_difference_that_is_not_significant_has_its_minimum_detectable_effect():
    rows, row = small_result().rows, {**small_comparison().rows[0], "winner": None, "metric": "mrr@1"}
    message = "The difference between popularity and als is not significant at level 0.05"
    effect = ": the minimum detectable effect is 0.1250 (4 users, 80 % power)."
    assert findings(rows, [row], 0.95, 0.05)[1:] == [message + effect]
    assert findings(rows, [{**row, "smallest_difference": None}], 0.95, 0.05)[1:] == [f"{message}."]


def test_the_pairs_of_the_best_models_are_named_and_the_others_counted():
    values = {"base": 0.0, **{f"m{n:02}": (n + 1) / 100 for n in range(40)}}
    row = {**small_comparison().rows[0], "model_a": "base", "mean_a": 0.0, "metric": "mrr@1", "k": 1}
    pairs = [{**row, "model_b": model, "winner": model, "mean_b": value} for model, value in values.items() if model != "base"]
    _, *sentences, last = findings(many_models(values), pairs, 0.95, 0.05)
    assert [sentence.partition(" ")[0] for sentence in sentences] == [f"m{n:02}" for n in range(39, 33, -1)]
    assert last == "The table of differences has 34 more pairs of models."


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        (["pass", "warn", "fail"], ("fail", "gates failed: 1 of 3")),
        (["pass", "warn"], ("warn", "gates passed with warnings: 1 of 2")),
        (["pass", "pass"], ("pass", "gates passed: 2 of 2")),
        ([], ("none", "no gates were checked")),
    ],
)
def test_the_summary_of_gates_is_the_worst_result(results, expected):
    assert gates_summary([{"result": result} for result in results]) == expected


def test_the_best_model_is_named_with_its_interval():
    row = {"slice": "all", "metric": "hit@1", "model": "a", "value": 0.25, "higher_is_better": True}
    row |= {"ci_low": 0.125, "ci_high": 0.375, "n_users": 40}
    interval = "95 % confidence interval [0.1250, 0.3750], 40 evaluated users"
    expected = [f"hit@1: a is best with 0.2500 ({interval}), followed by b with 0.1250."]
    assert findings([row, {**row, "model": "b", "value": 0.125}], [], 0.95, 0.05) == expected


def test_significant_comparisons_of_a_slice_are_counted():
    row = {"slice": "gender", "winner": None, "reason": "small_slice"}
    expected = ["gender: 1 of 2 comparisons significant, 1 with too few users to test"]
    assert slice_findings([row, {**row, "winner": "als", "reason": None}]) == expected
