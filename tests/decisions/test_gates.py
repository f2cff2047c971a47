"""Gates: conditions, references, missing data, significance and false alarm rates."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

import spark_recmetrics as srm
from spark_recmetrics import stats
from spark_recmetrics.decisions import gates
from spark_recmetrics.decisions.gates import Gate, check_gates


def row(value, model="als", metric="ndcg@10", **more):
    """A row of SUMMARY of the run of 2026-11-28."""
    entry = {"run_id": "now", "as_of": "2026-11-28", "model": model, "metric": metric, "slice": "all", "slice_value": "all"}
    entry |= {
        "value": value,
        "n_users": 100,
        "convention": "default",
        "higher_is_better": True,
        "data_hash": "d",
        "computed_at": 0,
    }
    return entry | more


def run_of(day, value, **more):
    """A row of SUMMARY of the run of this day in November."""
    return row(value, run_id=f"r{day}", as_of=f"2026-11-{day:02}", **more)


def pair(old, new, **more):
    """The row of COMPARISON of als against pop, from the values of their users."""
    result = stats.paired_t_test(old, new)
    entry = {"model_a": "pop", "model_b": "als", "metric": "ndcg@10", "slice": "all", "slice_value": "all"}
    entry |= {"diff": result.mean_difference, "ci_low": result.ci_low, "ci_high": result.ci_high, "p_value": result.p_value}
    return entry | {"n_users": result.n, "smallest_difference": result.smallest_difference} | more


def check(gate, rows, history=(), comparison=()):
    (result,) = check_gates([gate], rows if isinstance(rows, list) else [rows], history, comparison)
    return result


def result_of(*given):
    """The result and the reason of one gate."""
    result = check(*given)
    return result.result, result.reason


@pytest.mark.parametrize(
    ("bounds", "value", "expected"),
    [
        ({"min": 0.2}, 0.25, ("pass", "0.2500 is within bounds")),
        ({"min": 0.2}, 0.2 - 1e-13, ("pass", "0.2000 is within bounds")),
        ({"min": 0.2}, 0.1999, ("fail", "0.1999 is below min 0.2")),
        ({"max": 1.0}, 1.5, ("fail", "1.5000 is above max 1")),
        ({"min": 0.2, "max": 1.0, "severity": "warn"}, 1.5, ("warn", "1.5000 is above max 1")),
        ({"min": 0.2}, None, ("fail", "the value is undefined")),
        ({"min": 0.2, "min_users": 101}, 0.5, ("fail", "100 evaluated users, expected at least 101")),
    ],
)
def test_bounds_of_the_value(bounds, value, expected):
    assert result_of(Gate("ndcg@10", **bounds), row(value)) == expected


def test_a_metric_or_model_that_the_run_lacks_fails():
    message = ("fail", "no value: the run has no such model or metric")
    assert result_of(Gate("map@10", min=0.0), row(0.5)) == message
    assert result_of(Gate("ndcg@10", model="other", min=0.0), row(0.5)) == message


def test_every_model_has_a_result_but_the_baseline():
    rows = [row(0.5), row(0.3, "pop"), row(0.2, "random")]
    assert [result.model for result in check_gates([Gate("ndcg@10", min=0.0)], rows)] == ["als", "pop", "random"]
    against = Gate("ndcg@10", max_drop=0.0, against="model(pop)")
    assert [(result.model, result.result, result.reference) for result in check_gates([against], rows)] == [
        ("als", "pass", 0.3),
        ("random", "fail", 0.3),
    ]


def test_a_gate_without_a_model_to_check_fails():
    """The run only has the model that others are compared with."""
    result = check(Gate("ndcg@10", max_drop=0.0, against="model(pop)"), row(0.5, "pop"))
    message = "the run has no model other than pop to check"
    assert (result.model, result.value, result.n_users, result.result, result.reason) == (None, None, 0, "fail", message)
    assert result.line() == f"FAIL  no model: ndcg@10: max_drop 0 against model(pop): {message}"
    assert result_of(Gate("ndcg@10", max_drop=0.0, against="model(pop)", severity="warn"), row(0.5, "pop"))[0] == "warn"
    assert result_of(Gate("ndcg@10", min=0.2), []) == ("fail", "the run has no model to check")


@pytest.mark.parametrize(
    ("drop", "expected"),
    [
        ({"max_drop": 0.1}, ("pass", "als 0.5000 vs. run r27 0.5500: 0.0500 lower, allowed 0.1")),
        ({"max_drop": 0.01}, ("fail", "als 0.5000 vs. run r27 0.5500: 0.0500 lower, allowed 0.01")),
        ({"max_drop": 0.0}, ("fail", "als 0.5000 vs. run r27 0.5500: 9.1 % lower, allowed 0 %")),
        ({"max_drop_share": 0.1}, ("pass", "als 0.5000 vs. run r27 0.5500: 9.1 % lower, allowed 10 %")),
        ({"max_drop_share": 0.05}, ("fail", "als 0.5000 vs. run r27 0.5500: 9.1 % lower, allowed 5 %")),
        ({"max_drop": 0.1, "max_drop_share": 0.05}, ("fail", "als 0.5000 vs. run r27 0.5500: 9.1 % lower, allowed 5 %")),
    ],
)
def test_the_previous_run(drop, expected):
    history = [run_of(27, 0.55), run_of(26, 0.1), run_of(28, 0.9), run_of(29, 0.9)]
    assert result_of(Gate("ndcg@10", against="previous", **drop), row(0.5), history) == expected


@pytest.mark.parametrize("value", [0.306491, 0.306491 + 1e-14, 0.306491 - 1e-14])
def test_a_value_that_differs_by_rounding_is_equal(value):
    result = result_of(Gate("ndcg@10", max_drop=0.0, against="previous"), row(value), [run_of(27, 0.306491)])
    assert result == ("pass", "als 0.3065 vs. run r27 0.3065: no difference")


def test_direction_is_that_of_the_metric():
    now, before = row(1.0, metric="rmse", higher_is_better=False), run_of(27, 0.9, metric="rmse")
    assert result_of(Gate("rmse", max_drop=0.05, against="previous"), now, [before])[0] == "fail"
    assert result_of(Gate("rmse", max_drop=0.05, against="previous"), {**now, "value": 0.8}, [before]) == (
        "pass",
        "als 0.8000 vs. run r27 0.9000: 0.1000 lower (better)",
    )


def test_the_median_of_the_last_runs_and_a_run_by_its_id():
    history = [run_of(day, value) for day, value in ((20, 9.0), (24, 0.5), (25, 0.7), (26, 0.6))]
    assert result_of(Gate("ndcg@10", max_drop=0.05, against="median(3)"), row(0.5), history) == (
        "fail",
        "als 0.5000 vs. median(3) 0.6000: 0.1000 lower, allowed 0.05",
    )
    assert result_of(Gate("ndcg@10", max_drop=0.05, against="run(r24)"), row(0.5), history)[0] == "pass"
    assert result_of(Gate("ndcg@10", max_drop=0.05, against="run(r99)"), row(0.5), history) == (
        "fail",
        "expected run r99 in the history, found none with this model and metric",
    )


def test_of_two_runs_of_one_day_the_last_counts():
    history = [run_of(27, 0.9, computed_at=1), run_of(27, 0.5, computed_at=2) | {"run_id": "again"}]
    result = check_gates([Gate("ndcg@10", max_drop=0.0, against="previous")], [row(0.5)], history)
    assert [(first.result, first.reference_run) for first in result] == [("pass", "again")]


NO_ORDER = "{}, found {}: use labels of one format, such as 2026-11-28 or 0042, or rename the job"


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        # As strings, 9 is after 10, and 20261127 after 2026-11-28.
        ("10", ["8", "9"], ("fail", "expected a previous run with an as_of in the format of " + NO_ORDER.format("10", "8"))),
        (
            "2026-11-28",
            ["20261127"],
            ("fail", "expected a previous run with an as_of in the format of " + NO_ORDER.format("2026-11-28", "20261127")),
        ),
        (
            "11",
            ["9", "10"],
            ("pass", "als 0.5000 vs. run r10 0.5000 (left out: 1 with an as_of in another format, such as 9): no difference"),
        ),
        ("2026-11-28", ["none"], ("pass", "Skipped: there is no previous run (left out: 1 without an as_of; missing: pass)")),
        ("v1", ["none"], ("pass", "Skipped: there is no previous run (left out: 1 without an as_of; missing: pass)")),
        ("0010", ["0009"], ("pass", "als 0.5000 vs. run r0009 0.5000: no difference")),
        ("week-2", ["week-1", "week-3"], ("pass", "als 0.5000 vs. run rweek-1 0.5000: no difference")),
        (None, ["2026-11-27"], ("fail", "expected an as_of, which orders the runs, found none")),
    ],
)
def test_labels_in_another_format_are_no_reference(now, before, expected):
    history = [row(0.5, as_of=label, run_id=f"r{label}", computed_at=place) for place, label in enumerate(before)]
    for against in ("previous", "median(1)"):
        result = result_of(Gate("ndcg@10", max_drop=0.1, against=against), row(0.5, as_of=now), history)
        assert (result[0], result[1][: len(expected[1])]) == expected


@pytest.mark.parametrize("missing", ["pass", "fail"])
def test_the_first_run(missing):
    gate = Gate("ndcg@10", max_drop=0.0, against="previous", missing=missing)
    done = {"pass": "Skipped", "fail": "Failed"}[missing]
    for history in ([], [run_of(27, 0.5, metric="map@10")], [run_of(29, None)]):
        assert result_of(gate, row(0.5), history) == (missing, f"{done}: there is no previous run (missing: {missing})")
    message = f"{done}: there is no previous run (left out: 1 without a value; missing: {missing})"
    for history in ([run_of(27, None)], [run_of(27, math.inf)], [run_of(27, 0.5, model="pop")]):
        assert result_of(gate, row(0.5), history) == (missing, message)


def test_runs_without_a_value_are_counted():
    """Of the runs of days 21 to 27, those of 22, 24 and 25 have a value."""
    history = [run_of(day, value) for day, value in ((21, None), (22, 0.5), (23, math.nan), (24, 0.5), (25, 0.5), (26, None))]
    history += [run_of(27, 0.5, model="pop"), run_of(26, None) | {"run_id": "again"}]
    for against, n in (("previous", 2), ("median(2)", 2), ("median(3)", 3), ("median(9)", 3)):
        reason = check(Gate("ndcg@10", max_drop=0.0, against=against), row(0.5), history).reason
        assert reason.endswith(f" (left out: {n} without a value): no difference"), against
    repeated = [*history, *(run_of(day, 0.5) | {"run_id": "again"} for day in (26, 27))]
    assert "left out" not in check(Gate("ndcg@10", max_drop=0.0, against="previous"), row(0.5), repeated).reason


def test_another_convention_fails_and_another_ground_truth_is_reported():
    gate = Gate("ndcg@10", max_drop=0.0, against="previous")
    assert result_of(gate, row(0.5), [run_of(27, 0.5, convention="recbole")]) == (
        "fail",
        "expected convention default of the reference, found recbole",
    )
    assert result_of(gate, row(0.5), [run_of(27, 0.4, data_hash="e")]) == (
        "pass",
        "als 0.5000 vs. run r27 0.4000: 25 % higher; the ground truth has changed",
    )


def test_a_baseline_without_a_value_fails():
    gate = Gate("ndcg@10", max_drop=0.0, against="model(pop)")
    for rows in ([row(0.5)], [row(0.5), row(None, "pop")], [row(0.5), row(math.inf, "pop")], [row(0.5), row(math.nan, "pop")]):
        assert result_of(gate, rows) == ("fail", "expected a value of model pop to compare with, found none")


def test_o6_the_order_of_a_sum_fails_no_gate():
    values = (24.621, 12.14, 0.169, 6.865, 1.879, 16.326)
    first, second = sum(values) / 6, sum(sorted(values)) / 6
    assert abs(first - second) < 1e-12
    gate = Gate("ndcg@10", max_drop=0.0, against="previous")
    assert result_of(gate, row(min(first, second)), [run_of(27, max(first, second))])[0] == "pass"
    assert result_of(gate, row(first - 1e-9), [run_of(27, first)])[0] == "fail"


BOTH = [row(0.5), row(0.6, "pop")]
TOLD = "als 0.5000 vs. pop 0.6000: 17 % lower, allowed 0 %"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"p_value": 0.04}, ("fail", f"{TOLD}; significant (p = 0.04, 4 users)")),
        ({"p_value": 0.06}, ("pass", f"{TOLD}; not significant (p = 0.06, 4 users, minimum detectable effect 0.3)")),
        ({"p_value": 0.06, "smallest_difference": None}, ("pass", f"{TOLD}; not significant (p = 0.06, 4 users)")),
        ({"p_value": None}, ("fail", f"{TOLD}; its significance cannot be tested")),
        ({"model_a": "random"}, ("fail", f"{TOLD}; its significance cannot be tested")),
        ({"slice": "age"}, ("fail", f"{TOLD}; its significance cannot be tested")),
    ],
)
def test_a_drop_that_must_be_significant(more, expected):
    gate = Gate("ndcg@10", max_drop=0.0, against="model(pop)", significant=True)
    tested = pair([0.5, 0.6, 0.7, 0.6], [0.5, 0.3, 0.7, 0.5], smallest_difference=0.3)
    assert result_of(gate, BOTH, (), [tested | more]) == expected


def test_a_significant_difference_in_the_other_direction_is_no_drop():
    """A pooled value, such as RMSE over pairs, may be worse although most users have better values."""
    gate = Gate("ndcg@10", max_drop=0.0, against="model(pop)", significant=True)
    better = pair([0.1, 0.2, 0.3, 0.4], [0.2, 0.3, 0.4, 0.6])
    assert better["p_value"] < 0.05
    assert result_of(gate, BOTH, (), [better]) == ("pass", f"{TOLD}; the mean over its 4 users is not worse")
    # Lower errors are better.
    rows = [first | {"higher_is_better": False, "value": 1.1 - first["value"]} for first in BOTH]
    assert result_of(gate, rows, (), [better])[0] == "fail"


# False alarms -------------------------------------------------------------------------------------------------------------

AGAINST_MODEL = {"against": "model(pop)"}
WITH_STD = [row(0.5, std=0.3), row(0.6, "pop", std=0.3)]
USERS = pair([0.5, 0.6, 0.7, 0.6], [0.5, 0.3, 0.7, 0.5])
HALF = (USERS["ci_high"] - USERS["ci_low"]) / 2


@pytest.mark.parametrize(
    ("fields", "rate"),
    [
        ({"max_drop": 0.0}, 1 / 2),
        ({"max_drop": 0.0, "significant": True}, 0.025),
        # The allowed drop is just significant: P(T > q) is alpha/2 by the definition of the interval, with and without a test.
        ({"max_drop": HALF}, 0.025),
        ({"max_drop": HALF, "significant": True}, 0.025),
        ({"max_drop": HALF / 2, "significant": True}, 0.025),
        ({"max_drop": 9.0, "max_drop_share": HALF / 0.6}, 0.025),
    ],
)
def test_the_rate_of_false_alarms_against_a_model(fields, rate):
    result = check(Gate("ndcg@10", **AGAINST_MODEL, **fields), WITH_STD, (), [USERS])
    assert result.false_alarm_rate == pytest.approx(rate, rel=1e-9)
    assert result.false_alarm_rate_year == pytest.approx(1 - (1 - rate) ** 365, rel=1e-9)
    assert result.line().endswith(f"; false alarm rate: {100 * rate:g} % of runs")


def test_the_rate_is_reported_with_every_result():
    better = [row(0.7, std=0.3), row(0.6, "pop", std=0.3)]
    result = check(Gate("ndcg@10", max_drop=0.0, significant=True, **AGAINST_MODEL), better, (), [USERS])
    assert (result.result, result.false_alarm_rate) == ("pass", pytest.approx(0.025))
    result = check(
        Gate("ndcg@10", max_drop=9.0, **AGAINST_MODEL), better, (), [pair(*np.random.default_rng(0).random((2, 50)))]
    )
    assert 0 <= result.false_alarm_rate < 1e-9
    assert result.line().endswith("; false alarm rate: below 0.01 % of runs")


def test_pooled_values_have_the_rate_of_their_test_only():
    for rows in (BOTH, [WITH_STD[0], BOTH[1]], [BOTH[0], WITH_STD[1]]):
        assert check(Gate("ndcg@10", max_drop=0.0, **AGAINST_MODEL), rows, (), [USERS]).false_alarm_rate is None
        tested = check(Gate("ndcg@10", max_drop=9.0, significant=True, **AGAINST_MODEL), rows, (), [USERS])
        assert tested.false_alarm_rate == pytest.approx(0.025)


@pytest.mark.parametrize(
    ("fields", "rows", "comparison"),
    [
        ({"min": 0.1}, WITH_STD[:1], ()),
        ({"max_drop": 0.0, **AGAINST_MODEL}, WITH_STD, ()),
        ({"max_drop": 0.0, **AGAINST_MODEL}, WITH_STD[:1], [USERS]),
        ({"max_drop": 0.0, **AGAINST_MODEL}, WITH_STD, [USERS | {"ci_low": None, "ci_high": None}]),
        ({"max_drop": 0.0, "against": "previous"}, WITH_STD[:1], ()),
    ],
)
def test_an_unknown_false_alarm_rate(fields, rows, comparison):
    result = check(Gate("ndcg@10", model="als", **fields), rows, (), comparison)
    assert (result.false_alarm_rate, result.false_alarm_rate_year) == (None, None)
    assert "false alarm rate" not in result.line()


def test_the_rate_of_false_alarms_against_previous_runs():
    """Standard errors 0.3 / 30 and 0.8 / 40, so the standard error of the drop is sqrt(0.0001 + 0.0004)."""
    now, before = row(0.5, std=0.3, n_users=900), run_of(27, 0.55, std=0.8, n_users=1600, data_hash="e")
    allowed = math.sqrt(0.0005) * NormalDist().inv_cdf(0.9)
    for against in ("previous", "median(3)", "run(r27)"):
        gate = Gate("ndcg@10", max_drop=allowed, against=against)
        assert check(gate, now, [before]).false_alarm_rate == pytest.approx(0.1)
        # With the same ground truth the errors are correlated, and a pooled value has no variance over users.
        for second in ({"data_hash": "d"}, {"std": None}):
            assert check(gate, now, [before | second]).false_alarm_rate is None
        assert check(gate, now | {"std": None}, [before]).false_alarm_rate is None
    assert check(Gate("ndcg@10", max_drop=0, against="previous"), now, [before]).false_alarm_rate == 1 / 2


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 20])
def test_the_rate_against_a_median_is_that_of_simulated_runs(n):
    now = row(0.5, std=1.0, n_users=1)
    history = [run_of(day, 0.5, std=1.0, n_users=1, data_hash=f"d{day}") for day in range(1, n + 1)]
    result = check(Gate("ndcg@10", max_drop=1.5, against=f"median({n})"), now, history).false_alarm_rate
    runs = np.random.default_rng(n).normal(size=(200_000, n + 1))
    simulated = np.mean(np.median(runs[:, 1:], axis=1) - runs[:, 0] > 1.5)
    assert result == pytest.approx(simulated, rel=0.1)


# All runs ---------------------------------------------------------------------------------------------------------------


def rows_on(day, drop, old=0.6, **more):
    """The rows of pop and als of one run."""
    entry = {"run_id": f"r{day}", "as_of": f"{day:05}", "data_hash": f"d{day}", "computed_at": day} | more
    return [row(old, "pop", **entry), row(old - drop, **entry)]


def runs_with(drops, first=1, **more):
    """The rows of the newest of many runs, and those of the previous runs."""
    rows = [rows_on(day, drop, **more) for day, drop in enumerate(drops, first)]
    return rows[-1], [entry for of_run in rows[:-1] for entry in of_run]


ALWAYS = Gate("ndcg@10", max_drop=0.01, against="model(pop)", significant="all_runs")
DROPS = [0.02, 0.04, 0.03, 0.01] * 10


@pytest.mark.parametrize("missing", ["pass", "fail"])
def test_all_runs_need_thirty(missing):
    gate = Gate("ndcg@10", max_drop=0.01, against="model(pop)", significant="all_runs", missing=missing)
    message = "als 0.5700 vs. pop 0.6000: 0.0300 lower; {}, 30 required (missing: {})"
    assert result_of(gate, *runs_with([0.03])) == (missing, message.format("1 run", missing))
    result = check(gate, *runs_with([*DROPS[:28], 0.03]))
    assert (result.result, result.reason) == (missing, message.format("29 runs", missing))
    assert (result.false_alarm_rate, result.false_alarm_rate_year) == (None, None)
    assert check(gate, *runs_with([0.03] * 30)).reason.startswith(
        "als 0.5700 vs. pop 0.6000: 0.0300 lower; over 30 runs the mean"
    )


def test_the_mean_drop_of_all_runs_decides_and_not_the_newest_drop():
    """The newest run has a small drop."""
    (look,) = stats.confidence_sequence([(40, 0.025, np.var(DROPS, ddof=1))], n_target=90)
    assert look.ci_low > 0.01
    result = check(ALWAYS, *runs_with(DROPS))
    interval = f"the mean drop is 0.025, 95 % confidence interval [{look.ci_low:.3g}, {look.ci_high:.3g}], allowed 0.01"
    assert result.reason == f"als 0.5900 vs. pop 0.6000: 0.0100 lower; over 40 runs {interval}"
    assert (result.result, result.drop, result.reference) == ("fail", pytest.approx(0.01), 0.6)
    assert (result.false_alarm_rate, result.false_alarm_rate_year) == (None, 0.05)
    assert result.line().endswith("; false alarm rate: at most 5 % of years")
    assert result.gate == "ndcg@10: max_drop 0.01 against model(pop), significant over all runs"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_drop": 0.0}, "fail"),
        ({"max_drop": 0.02}, "pass"),  # 0.025 is more, but not with the whole interval
        ({"max_drop_share": 0.01 / 0.6}, "fail"),
        ({"max_drop_share": 0.03 / 0.6}, "pass"),
        ({"max_drop": 9.0, "max_drop_share": 0.01 / 0.6}, "fail"),
    ],
)
def test_what_is_allowed_over_all_runs(fields, expected):
    gate = Gate("ndcg@10", against="model(pop)", significant="all_runs", **fields)
    assert check(gate, *runs_with(DROPS)).result == expected
    # An improvement never fails, and if lower is better the same difference is an improvement.
    assert check(gate, *runs_with([-drop for drop in DROPS])).result == "pass"
    assert check(gate, *runs_with(DROPS, higher_is_better=False)).result == "pass"
    assert check(gate, *runs_with([-drop for drop in DROPS], old=0.6, higher_is_better=False)).result == expected


def test_the_allowed_share_applies_to_each_run():
    """References alternate between 1 and 2, with drops of a tenth; a tenth is allowed."""
    rows = [rows_on(day, 0.1 * (1 + day % 2) + 0.001 * (-1) ** (day // 2), old=1.0 + day % 2) for day in range(1, 41)]
    newest, history = rows[-1], [entry for of_run in rows[:-1] for entry in of_run]
    gate = {"metric": "ndcg@10", "against": "model(pop)", "significant": "all_runs"}
    result = check(Gate(**gate, max_drop_share=0.1), newest, history)
    assert result.reason.endswith(", allowed 0.15")
    assert result.result == "pass"
    assert check(Gate(**gate, max_drop_share=0.098), newest, history).result == "fail"
    # If all drops were compared with the mean allowed drop, their variance would hide this.
    spread = [0.1 * (1 + day % 2) for day in range(1, 41)]
    assert stats.confidence_sequence([(1, d - 0.147, None) for d in spread], n_target=90)[-1].ci_low < 0


def test_runs_that_do_not_count():
    newest, history = runs_with(DROPS, first=11)
    message = check(ALWAYS, newest, history).reason
    # A repeated run counts once, with its last values. Later runs, other metrics and slices are ignored.
    older = [entry | {"run_id": "old", "value": 9.0, "computed_at": -1} for entry in rows_on(17, 0)]
    assert check(ALWAYS, newest, [*history, *older]).reason == message
    others = [*rows_on(99, 9.0), *rows_on(50, 9.0), *rows_on(18, 9.0, metric="map@10"), *rows_on(19, 9.0, slice="age")]
    assert check(ALWAYS, newest, [*history, *others]).reason == message
    # A repeated run without one of the models is not counted as left out, because its as_of has complete values.
    assert check(ALWAYS, newest, [*history, rows_on(17, 0, run_id="half", computed_at=99)[0]]).reason == message

    early = [rows_on(1, 9.0)[0], *rows_on(2, 9.0, convention="recbole"), *rows_on(3, 9.0, convention="recbole")]
    early += [entry | {"value": value} for entry, value in zip(rows_on(4, 0), (0.5, None), strict=True)]
    counted = "2 without a value of both models, 2 with another convention"
    assert f"over 40 runs (left out: {counted}) the mean drop is 0.025, " in check(ALWAYS, newest, [*early, *history]).reason
    # The order of these labels is unknown: as strings, 9 is after 00050.
    early += [entry for label in ("0", "9", "none") for entry in rows_on(0, 9.0, as_of=label)]
    counted = f"2 with an as_of in another format, {counted}, 1 without an as_of"
    assert f"over 40 runs (left out: {counted}) the mean drop is 0.025, " in check(ALWAYS, newest, [*early, *history]).reason
    # 20 runs with the ground truth of the other 20 are no new observations.
    again = [entry | {"data_hash": f"d{1 + int(entry['as_of']) % 20}"} for entry in [*newest, *history]]
    assert (
        "; 20 runs (left out: 20 on the ground truth of a later run), 30 required" in check(ALWAYS, again[:2], again[2:]).reason
    )
    # In memory there is no hash of the ground truth, and every run is an observation.
    unknown = [entry | {"data_hash": None} for entry in [*newest, *history]]
    assert check(ALWAYS, unknown[:2], unknown[2:]).reason == message


def test_runs_without_variance():
    constant = check(ALWAYS, *runs_with([0.02] * 30))
    assert constant.reason.endswith("; over 30 runs the mean drop is 0.02, the same in every run, allowed 0.01")
    assert constant.result == "fail"
    assert check(ALWAYS, *runs_with([0.0] * 30)).result == "pass"
    nothing = Gate("ndcg@10", max_drop=0, against="model(pop)", significant="all_runs")
    assert check(nothing, *runs_with([0.0] * 30)).result == "pass"
    # Sums in another order: differences in the last bits, all in one direction.
    assert check(nothing, *runs_with([1e-15, 2e-15] * 20)).result == "pass"


def test_a_year_of_gates_without_a_difference():
    """400 years of runs with 40 users each, with equal models: the gate of each run, and the gate over all runs.

    The gate over all runs fails if its confidence interval is above 0, after at least 30 runs.
    """
    rng, n_years, critical = np.random.default_rng(12), 400, 2.0227  # t(0.975, 39)
    each_run, all_runs, share = [], [], []
    for _ in range(n_years):
        drops = rng.choice([-0.5, 0.0, 0.5], size=(365, 40), p=[0.2, 0.6, 0.2])
        mean = drops.mean(axis=1)
        failed = mean > critical * drops.std(axis=1, ddof=1) / math.sqrt(40)
        each_run.append(failed.any())
        share.append(failed.mean())
        looks = stats.confidence_sequence([(1, d, None) for d in mean], n_target=gates.N_TARGET, alpha=gates.ALPHA)
        all_runs.append(any(look.ci_low > 0 for look in looks[gates.FEWEST_RUNS - 1 :]))
    assert np.mean(share) == pytest.approx(0.025, abs=0.003)
    assert np.mean(each_run) > 0.99
    assert np.mean(all_runs) <= gates.ALPHA


def test_the_gate_over_all_runs_follows_the_confidence_sequence():
    """No difference in 60 runs, and then a difference of a fifth of the standard deviation of a run."""
    rng = np.random.default_rng(4)
    drops = rng.normal(size=365) * 0.01 + np.where(np.arange(365) < 60, 0, 0.002)
    looks = stats.confidence_sequence([(1, d, None) for d in drops], n_target=gates.N_TARGET)
    gate, history, result = Gate("ndcg@10", max_drop=0, against="model(pop)", significant="all_runs"), [], []
    for day, drop in enumerate(drops, 1):
        newest = rows_on(day, drop)
        result.append(check(gate, newest, history).result)
        history += newest
    expected = ["fail" if look.ci_low is not None and look.ci_low > 0 else "pass" for look in looks]
    assert result[29:] == expected[29:]
    assert result[:29] == ["pass"] * 29
    assert result[-1] == "fail"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "expected one of min, max, max_drop, max_drop_share, found none"),
        ({"min": True}, "min: expected a finite number, found True"),
        ({"min": float("nan")}, "min: expected a finite number, found nan"),
        ({"max_drop": -1, "against": "previous"}, "max_drop: expected a number of at least 0, found -1"),
        ({"max_drop": 0.1}, "expected max_drop or max_drop_share together with against, found max_drop alone"),
        ({"min": 0.1, "against": "previous"}, "expected max_drop or max_drop_share together with against, found against"),
        ({"max_drop": 0.1, "against": "yesterday"}, r"against: expected previous, median\(N\), run\(ID\) or model\(NAME\)"),
        ({"max_drop": 0.1, "against": 7}, r"against: expected previous, median\(N\), run\(ID\) or model\(NAME\), found 7"),
        ({"max_drop": 0.1, "against": "model()"}, r"against: expected previous, median\(N\), run\(ID\) or model\(NAME\)"),
        ({"min": 0.5, "max": 0.25}, "min: expected at most max, which is 0.25, found 0.5"),
        ({"min": 0.5, "model": ""}, "model: expected the name of a model, found ''"),
        ({"min": 0.5, "model": 3}, "model: expected the name of a model, found 3"),
        (
            {"max_drop": 0, "model": "a", "against": "model(a)"},
            "against: expected a model other than 'a', which the gate checks, found the same",
        ),
        ({"max_drop": 0.1, "against": "median(0)"}, r"against: expected previous, median\(N\)"),
        ({"max_drop": 0.1, "against": "previous", "significant": True}, r"significant: expected against: model\(NAME\)"),
        ({"max_drop": 0.1, "against": "median(7)", "significant": "all_runs"}, r"significant: expected against: model\(NAME\)"),
        (
            {"max_drop": 0.1, "against": "model(a)", "significant": "often"},
            "significant: expected true, false or all_runs, found 'often'",
        ),
        ({"max_drop": 0.1, "against": "model(a)", "significant": 1}, "significant: expected true, false or all_runs, found 1"),
        ({"min": 0.1, "min_users": -1}, "min_users: expected an integer of at least 0, found -1"),
        ({"min": 0.1, "severity": "loud"}, "severity: expected fail or warn, found 'loud'"),
        ({"min": 0.1, "missing": "skip"}, "missing: expected pass or fail, found 'skip'"),
    ],
)
def test_invalid_gates_are_rejected(fields, message):
    with pytest.raises(srm.ConfigError, match=message):
        Gate("ndcg@10", **fields)
    with pytest.raises(srm.ConfigError, match="unknown metric"):
        Gate("ndgc@10", min=0.1)


def test_a_model_may_have_any_name():
    """Names in tables may contain line breaks and parentheses. The result is still one line."""
    for name in ("a\n1", "a)", "model(b)", "  "):
        gate = Gate("ndcg@10", max_drop=0.0, against=f"model({name})")
        assert gate.baseline == name
        result = check(gate, [row(0.5), row(0.4, name)])
        assert (result.result, result.reference) == ("pass", 0.4)
        assert len(result.line().splitlines()) == 1


def test_bounds_may_be_one_value():
    assert result_of(Gate("ndcg@10", min=0.5, max=0.5), row(0.5))[0] == "pass"
