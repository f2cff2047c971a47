"""Gates: each condition, each reference, each way of having no data; and what a job makes of them."""

from __future__ import annotations

import html
import json
import math
from statistics import NormalDist

import numpy as np
import pytest

import spark_recmetrics as srm
from spark_recmetrics import stats
from spark_recmetrics.decisions import gates
from spark_recmetrics.decisions.gates import Gate, check_gates
from spark_recmetrics.job.cli import RESULT_MARK, main
from spark_recmetrics.reports.tables import history_table


def row(value, model="als", metric="ndcg@10", **more):
    """A row of SUMMARY of the night 2026-11-28."""
    own = {"run_id": "now", "as_of": "2026-11-28", "model": model, "metric": metric, "slice": "all", "slice_value": "all"}
    own |= {
        "value": value,
        "n_users": 100,
        "convention": "default",
        "higher_is_better": True,
        "data_hash": "d",
        "computed_at": 0,
    }
    return own | more


def night(day, value, **more):
    return row(value, run_id=f"r{day}", as_of=f"2026-11-{day:02}", **more)


def pair(old, new, **more):
    """The row of COMPARISON of als against pop, from the values of their users."""
    found = stats.paired_t_test(old, new)
    own = {"model_a": "pop", "model_b": "als", "metric": "ndcg@10", "slice": "all", "slice_value": "all"}
    own |= {"diff": found.mean_difference, "ci_low": found.ci_low, "ci_high": found.ci_high, "p_value": found.p_value}
    return own | {"n_users": found.n, "smallest_difference": found.smallest_difference} | more


def held(gate, rows, history=(), comparison=()):
    (found,) = check_gates([gate], rows if isinstance(rows, list) else [rows], history, comparison)
    return found


def result_of(*given):
    """The result and the reason of one gate."""
    found = held(*given)
    return found.result, found.reason


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
    told = ("fail", "no value: the run has no such model or metric")
    assert result_of(Gate("map@10", min=0.0), row(0.5)) == told
    assert result_of(Gate("ndcg@10", model="other", min=0.0), row(0.5)) == told


def test_every_model_has_a_result_but_the_baseline():
    rows = [row(0.5), row(0.3, "pop"), row(0.2, "random")]
    assert [found.model for found in check_gates([Gate("ndcg@10", min=0.0)], rows)] == ["als", "pop", "random"]
    against = Gate("ndcg@10", max_drop=0.0, against="model(pop)")
    assert [(found.model, found.result, found.reference) for found in check_gates([against], rows)] == [
        ("als", "pass", 0.3),
        ("random", "fail", 0.3),
    ]


def test_a_gate_does_not_vanish_with_its_model():
    """The model that should be held against pop has no row tonight."""
    found = held(Gate("ndcg@10", max_drop=0.0, against="model(pop)"), row(0.5, "pop"))
    told = "the run has no model other than pop to check"
    assert (found.model, found.value, found.n_users, found.result, found.reason) == (None, None, 0, "fail", told)
    assert found.line() == f"FAIL  no model: ndcg@10: max_drop 0 against model(pop): {told}"
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
    history = [night(27, 0.55), night(26, 0.1), night(28, 0.9), night(29, 0.9)]
    assert result_of(Gate("ndcg@10", against="previous", **drop), row(0.5), history) == expected


@pytest.mark.parametrize("value", [0.306491, 0.306491 + 1e-14, 0.306491 - 1e-14])
def test_a_value_that_has_not_moved_is_the_same(value):
    found = result_of(Gate("ndcg@10", max_drop=0.0, against="previous"), row(value), [night(27, 0.306491)])
    assert found == ("pass", "als 0.3065 vs. run r27 0.3065: no difference")


def test_direction_is_that_of_the_metric():
    now, before = row(1.0, metric="rmse", higher_is_better=False), night(27, 0.9, metric="rmse")
    assert result_of(Gate("rmse", max_drop=0.05, against="previous"), now, [before])[0] == "fail"
    assert result_of(Gate("rmse", max_drop=0.05, against="previous"), {**now, "value": 0.8}, [before]) == (
        "pass",
        "als 0.8000 vs. run r27 0.9000: 0.1000 lower (better)",
    )


def test_the_median_of_the_last_runs_and_one_by_name():
    history = [night(day, value) for day, value in ((20, 9.0), (24, 0.5), (25, 0.7), (26, 0.6))]
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
    history = [night(27, 0.9, computed_at=1), night(27, 0.5, computed_at=2) | {"run_id": "again"}]
    found = check_gates([Gate("ndcg@10", max_drop=0.0, against="previous")], [row(0.5)], history)
    assert [(one.result, one.reference_run) for one in found] == [("pass", "again")]


NO_ORDER = "{}, found {}: use labels of one format, such as 2026-11-28 or 0042, or rename the job"


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        # As text, 9 stands behind 10, and 20261127 behind 2026-11-28.
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
        ("night-2", ["night-1", "night-3"], ("pass", "als 0.5000 vs. run rnight-1 0.5000: no difference")),
        (None, ["2026-11-27"], ("fail", "expected an as_of, which orders the runs, found none")),
    ],
)
def test_labels_that_text_does_not_order_are_no_reference(now, before, expected):
    history = [row(0.5, as_of=label, run_id=f"r{label}", computed_at=place) for place, label in enumerate(before)]
    for against in ("previous", "median(1)"):
        found = result_of(Gate("ndcg@10", max_drop=0.1, against=against), row(0.5, as_of=now), history)
        assert (found[0], found[1][: len(expected[1])]) == expected


@pytest.mark.parametrize("missing", ["pass", "fail"])
def test_the_first_night(missing):
    gate = Gate("ndcg@10", max_drop=0.0, against="previous", missing=missing)
    done = {"pass": "Skipped", "fail": "Failed"}[missing]
    for history in ([], [night(27, 0.5, metric="map@10")], [night(29, None)]):
        assert result_of(gate, row(0.5), history) == (missing, f"{done}: there is no previous run (missing: {missing})")
    told = f"{done}: there is no previous run (left out: 1 without a value; missing: {missing})"
    for history in ([night(27, None)], [night(27, math.inf)], [night(27, 0.5, model="pop")]):
        assert result_of(gate, row(0.5), history) == (missing, told)


def test_nights_without_a_value_are_told():
    """Of nights 21 to 27 the model has a value on 22, 24 and 25."""
    history = [night(day, value) for day, value in ((21, None), (22, 0.5), (23, math.nan), (24, 0.5), (25, 0.5), (26, None))]
    history += [night(27, 0.5, model="pop"), night(26, None) | {"run_id": "again"}]
    for against, n in (("previous", 2), ("median(2)", 2), ("median(3)", 3), ("median(9)", 3)):
        reason = held(Gate("ndcg@10", max_drop=0.0, against=against), row(0.5), history).reason
        assert reason.endswith(f" (left out: {n} without a value): no difference"), against
    repeated = [*history, *(night(day, 0.5) | {"run_id": "again"} for day in (26, 27))]
    assert "left out" not in held(Gate("ndcg@10", max_drop=0.0, against="previous"), row(0.5), repeated).reason


def test_another_convention_fails_and_other_data_are_told():
    gate = Gate("ndcg@10", max_drop=0.0, against="previous")
    assert result_of(gate, row(0.5), [night(27, 0.5, convention="recbole")]) == (
        "fail",
        "expected convention default of the reference, found recbole",
    )
    assert result_of(gate, row(0.5), [night(27, 0.4, data_hash="e")]) == (
        "pass",
        "als 0.5000 vs. run r27 0.4000: 25 % higher; the ground truth has changed",
    )


def test_a_baseline_without_a_value_fails():
    gate = Gate("ndcg@10", max_drop=0.0, against="model(pop)")
    for rows in ([row(0.5)], [row(0.5), row(None, "pop")], [row(0.5), row(math.inf, "pop")], [row(0.5), row(math.nan, "pop")]):
        assert result_of(gate, rows) == ("fail", "expected a value of model pop to compare with, found none")


def test_o6_the_order_of_a_sum_trips_no_gate():
    values = (24.621, 12.14, 0.169, 6.865, 1.879, 16.326)
    one, other = sum(values) / 6, sum(sorted(values)) / 6
    assert abs(one - other) < 1e-12
    gate = Gate("ndcg@10", max_drop=0.0, against="previous")
    assert result_of(gate, row(min(one, other)), [night(27, max(one, other))])[0] == "pass"
    assert result_of(gate, row(one - 1e-9), [night(27, one)])[0] == "fail"


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
    """A pooled value, such as RMSE over pairs, may be worse while most users are better off."""
    gate = Gate("ndcg@10", max_drop=0.0, against="model(pop)", significant=True)
    better = pair([0.1, 0.2, 0.3, 0.4], [0.2, 0.3, 0.4, 0.6])
    assert better["p_value"] < 0.05
    assert result_of(gate, BOTH, (), [better]) == ("pass", f"{TOLD}; the mean over its 4 users is not worse")
    # Errors that are lower are better.
    rows = [one | {"higher_is_better": False, "value": 1.1 - one["value"]} for one in BOTH]
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
        # What is allowed is just significant: P(T > q) is alpha/2 by the definition of the interval, tested or not.
        ({"max_drop": HALF}, 0.025),
        ({"max_drop": HALF, "significant": True}, 0.025),
        ({"max_drop": HALF / 2, "significant": True}, 0.025),
        ({"max_drop": 9.0, "max_drop_share": HALF / 0.6}, 0.025),
    ],
)
def test_the_rate_of_false_alarms_against_a_model(fields, rate):
    found = held(Gate("ndcg@10", **AGAINST_MODEL, **fields), WITH_STD, (), [USERS])
    assert found.false_alarm_rate == pytest.approx(rate, rel=1e-9)
    assert found.false_alarm_rate_year == pytest.approx(1 - (1 - rate) ** 365, rel=1e-9)
    assert found.line().endswith(f"; false alarm rate: {100 * rate:g} % of runs")


def test_the_rate_is_stated_whatever_the_result():
    better = [row(0.7, std=0.3), row(0.6, "pop", std=0.3)]
    found = held(Gate("ndcg@10", max_drop=0.0, significant=True, **AGAINST_MODEL), better, (), [USERS])
    assert (found.result, found.false_alarm_rate) == ("pass", pytest.approx(0.025))
    found = held(Gate("ndcg@10", max_drop=9.0, **AGAINST_MODEL), better, (), [pair(*np.random.default_rng(0).random((2, 50)))])
    assert 0 <= found.false_alarm_rate < 1e-9
    assert found.line().endswith("; false alarm rate: below 0.01 % of runs")


def test_pooled_values_have_the_rate_of_their_test_only():
    for rows in (BOTH, [WITH_STD[0], BOTH[1]], [BOTH[0], WITH_STD[1]]):
        assert held(Gate("ndcg@10", max_drop=0.0, **AGAINST_MODEL), rows, (), [USERS]).false_alarm_rate is None
        tested = held(Gate("ndcg@10", max_drop=9.0, significant=True, **AGAINST_MODEL), rows, (), [USERS])
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
def test_a_rate_that_cannot_be_told(fields, rows, comparison):
    found = held(Gate("ndcg@10", model="als", **fields), rows, (), comparison)
    assert (found.false_alarm_rate, found.false_alarm_rate_year) == (None, None)
    assert "false alarm rate" not in found.line()


def test_the_rate_of_false_alarms_against_earlier_runs():
    """Standard errors 0.3 / 30 and 0.8 / 40, so that of the drop is sqrt(0.0001 + 0.0004)."""
    now, before = row(0.5, std=0.3, n_users=900), night(27, 0.55, std=0.8, n_users=1600, data_hash="e")
    allowed = math.sqrt(0.0005) * NormalDist().inv_cdf(0.9)
    for against in ("previous", "median(3)", "run(r27)"):
        gate = Gate("ndcg@10", max_drop=allowed, against=against)
        assert held(gate, now, [before]).false_alarm_rate == pytest.approx(0.1)
        # The same truth brings the same luck to both, and a pooled value has no spread over users.
        for other in ({"data_hash": "d"}, {"std": None}):
            assert held(gate, now, [before | other]).false_alarm_rate is None
        assert held(gate, now | {"std": None}, [before]).false_alarm_rate is None
    assert held(Gate("ndcg@10", max_drop=0, against="previous"), now, [before]).false_alarm_rate == 1 / 2


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 20])
def test_the_rate_against_a_median_is_that_of_simulated_nights(n):
    now = row(0.5, std=1.0, n_users=1)
    history = [night(day, 0.5, std=1.0, n_users=1, data_hash=f"d{day}") for day in range(1, n + 1)]
    found = held(Gate("ndcg@10", max_drop=1.5, against=f"median({n})"), now, history).false_alarm_rate
    nights = np.random.default_rng(n).normal(size=(200_000, n + 1))
    simulated = np.mean(np.median(nights[:, 1:], axis=1) - nights[:, 0] > 1.5)
    assert found == pytest.approx(simulated, rel=0.1)


# All nights ---------------------------------------------------------------------------------------------------------------


def both(day, drop, old=0.6, **more):
    """The rows of pop and als of a night, a day of January 2025 and later."""
    own = {"run_id": f"r{day}", "as_of": f"{day:05}", "data_hash": f"d{day}", "computed_at": day} | more
    return [row(old, "pop", **own), row(old - drop, **own)]


def over(drops, first=1, **more):
    """Those of many nights, and of the last one apart."""
    rows = [both(day, drop, **more) for day, drop in enumerate(drops, first)]
    return rows[-1], [own for of_night in rows[:-1] for own in of_night]


ALWAYS = Gate("ndcg@10", max_drop=0.01, against="model(pop)", significant="all_runs")
DROPS = [0.02, 0.04, 0.03, 0.01] * 10


@pytest.mark.parametrize("missing", ["pass", "fail"])
def test_all_runs_need_thirty(missing):
    gate = Gate("ndcg@10", max_drop=0.01, against="model(pop)", significant="all_runs", missing=missing)
    told = "als 0.5700 vs. pop 0.6000: 0.0300 lower; {}, 30 required (missing: {})"
    assert result_of(gate, *over([0.03])) == (missing, told.format("1 run", missing))
    found = held(gate, *over([*DROPS[:28], 0.03]))
    assert (found.result, found.reason) == (missing, told.format("29 runs", missing))
    assert (found.false_alarm_rate, found.false_alarm_rate_year) == (None, None)
    assert held(gate, *over([0.03] * 30)).reason.startswith("als 0.5700 vs. pop 0.6000: 0.0300 lower; over 30 runs the mean")


def test_the_mean_drop_of_all_runs_decides_and_not_that_of_tonight():
    """The last night is a good one."""
    (look,) = stats.confidence_sequence([(40, 0.025, np.var(DROPS, ddof=1))], n_target=90)
    assert look.ci_low > 0.01
    found = held(ALWAYS, *over(DROPS))
    interval = f"the mean drop is 0.025, 95 % confidence interval [{look.ci_low:.3g}, {look.ci_high:.3g}], allowed 0.01"
    assert found.reason == f"als 0.5900 vs. pop 0.6000: 0.0100 lower; over 40 runs {interval}"
    assert (found.result, found.drop, found.reference) == ("fail", pytest.approx(0.01), 0.6)
    assert (found.false_alarm_rate, found.false_alarm_rate_year) == (None, 0.05)
    assert found.line().endswith("; false alarm rate: at most 5 % of years")
    assert found.gate == "ndcg@10: max_drop 0.01 against model(pop), significant over all runs"


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
    assert held(gate, *over(DROPS)).result == expected
    # Better by as much is never a failure, and where lower is better the same drop is an improvement.
    assert held(gate, *over([-drop for drop in DROPS])).result == "pass"
    assert held(gate, *over(DROPS, higher_is_better=False)).result == "pass"
    assert held(gate, *over([-drop for drop in DROPS], old=0.6, higher_is_better=False)).result == expected


def test_the_share_that_is_allowed_is_one_of_each_night():
    """References of 1 and 2 take turns, and drops of a tenth of them; a tenth is allowed, and so is a bit more."""
    rows = [both(day, 0.1 * (1 + day % 2) + 0.001 * (-1) ** (day // 2), old=1.0 + day % 2) for day in range(1, 41)]
    tonight, history = rows[-1], [own for of_night in rows[:-1] for own in of_night]
    gate = {"metric": "ndcg@10", "against": "model(pop)", "significant": "all_runs"}
    found = held(Gate(**gate, max_drop_share=0.1), tonight, history)
    assert found.reason.endswith(", allowed 0.15")
    assert found.result == "pass"
    assert held(Gate(**gate, max_drop_share=0.098), tonight, history).result == "fail"
    # Were all drops held against the mean of what is allowed, their spread would hide this.
    spread = [0.1 * (1 + day % 2) for day in range(1, 41)]
    assert stats.confidence_sequence([(1, d - 0.147, None) for d in spread], n_target=90)[-1].ci_low < 0


def test_nights_that_do_not_count():
    tonight, history = over(DROPS, first=11)
    told = held(ALWAYS, tonight, history).reason
    # A repeated night counts once, with its last run; what is later or of another metric or slice is not looked at.
    older = [own | {"run_id": "old", "value": 9.0, "computed_at": -1} for own in both(17, 0)]
    assert held(ALWAYS, tonight, [*history, *older]).reason == told
    beside = [*both(99, 9.0), *both(50, 9.0), *both(18, 9.0, metric="map@10"), *both(19, 9.0, slice="age")]
    assert held(ALWAYS, tonight, [*history, *beside]).reason == told
    # Of another run of a night that lacks a model nothing is told, as the night has one that does not.
    assert held(ALWAYS, tonight, [*history, both(17, 0, run_id="half", computed_at=99)[0]]).reason == told

    early = [both(1, 9.0)[0], *both(2, 9.0, convention="recbole"), *both(3, 9.0, convention="recbole")]
    early += [own | {"value": value} for own, value in zip(both(4, 0), (0.5, None), strict=True)]
    counted = "2 without a value of both models, 2 with another convention"
    assert f"over 40 runs (left out: {counted}) the mean drop is 0.025, " in held(ALWAYS, tonight, [*early, *history]).reason
    # Nobody knows whether these were earlier: 9 is behind 00050 as text, and before it in time.
    early += [own for label in ("0", "9", "none") for own in both(0, 9.0, as_of=label)]
    counted = f"2 with an as_of in another format, {counted}, 1 without an as_of"
    assert f"over 40 runs (left out: {counted}) the mean drop is 0.025, " in held(ALWAYS, tonight, [*early, *history]).reason
    # 20 nights that repeat the truth of the other 20 bring no users of their own.
    again = [own | {"data_hash": f"d{1 + int(own['as_of']) % 20}"} for own in [*tonight, *history]]
    assert (
        "; 20 runs (left out: 20 on the ground truth of a later run), 30 required" in held(ALWAYS, again[:2], again[2:]).reason
    )
    # In memory there is no hash of the truth, and every night stands for itself.
    unknown = [own | {"data_hash": None} for own in [*tonight, *history]]
    assert held(ALWAYS, unknown[:2], unknown[2:]).reason == told


def test_nights_without_spread():
    constant = held(ALWAYS, *over([0.02] * 30))
    assert constant.reason.endswith("; over 30 runs the mean drop is 0.02, the same in every run, allowed 0.01")
    assert constant.result == "fail"
    assert held(ALWAYS, *over([0.0] * 30)).result == "pass"
    nothing = Gate("ndcg@10", max_drop=0, against="model(pop)", significant="all_runs")
    assert held(nothing, *over([0.0] * 30)).result == "pass"
    # The same users summed in another order: differences of the last bit, all in one direction.
    assert held(nothing, *over([1e-15, 2e-15] * 20)).result == "pass"


def test_a_year_of_gates_without_a_difference():
    """400 years of nights of 40 users each: models that are the same, by the gate of every night and by that over all nights.

    The gate over all nights fails with its whole interval on one side, from the 30th night on.
    """
    rng, n_years, critical = np.random.default_rng(12), 400, 2.0227  # t(0.975, 39)
    nightly, always, share = [], [], []
    for _ in range(n_years):
        drops = rng.choice([-0.5, 0.0, 0.5], size=(365, 40), p=[0.2, 0.6, 0.2])
        mean = drops.mean(axis=1)
        failed = mean > critical * drops.std(axis=1, ddof=1) / math.sqrt(40)
        nightly.append(failed.any())
        share.append(failed.mean())
        looks = stats.confidence_sequence([(1, d, None) for d in mean], n_target=gates.N_TARGET, alpha=gates.ALPHA)
        always.append(any(look.ci_low > 0 for look in looks[gates.FEWEST_RUNS - 1 :]))
    assert np.mean(share) == pytest.approx(0.025, abs=0.003)
    assert np.mean(nightly) > 0.99
    assert np.mean(always) <= gates.ALPHA


def test_the_gate_over_all_runs_is_the_sequence_night_by_night():
    """No difference for 60 nights, and then one of a fifth of the spread of a night."""
    rng = np.random.default_rng(4)
    drops = rng.normal(size=365) * 0.01 + np.where(np.arange(365) < 60, 0, 0.002)
    looks = stats.confidence_sequence([(1, d, None) for d in drops], n_target=gates.N_TARGET)
    gate, history, found = Gate("ndcg@10", max_drop=0, against="model(pop)", significant="all_runs"), [], []
    for day, drop in enumerate(drops, 1):
        tonight = both(day, drop)
        found.append(held(gate, tonight, history).result)
        history += tonight
    expected = ["fail" if look.ci_low is not None and look.ci_low > 0 else "pass" for look in looks]
    assert found[29:] == expected[29:]
    assert found[:29] == ["pass"] * 29
    assert found[-1] == "fail"


@pytest.mark.parametrize(
    ("fields", "told"),
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
        (
            {"max_drop": 0.1, "against": "median(7)", "significant": "all_runs"},
            r"significant: expected against: model\(NAME\)",
        ),
        (
            {"max_drop": 0.1, "against": "model(a)", "significant": "often"},
            "significant: expected true, false or all_runs, found 'often'",
        ),
        (
            {"max_drop": 0.1, "against": "model(a)", "significant": 1},
            "significant: expected true, false or all_runs, found 1",
        ),
        ({"min": 0.1, "min_users": -1}, "min_users: expected an integer of at least 0, found -1"),
        ({"min": 0.1, "severity": "loud"}, "severity: expected fail or warn, found 'loud'"),
        ({"min": 0.1, "missing": "skip"}, "missing: expected pass or fail, found 'skip'"),
    ],
)
def test_what_is_no_gate_is_refused(fields, told):
    with pytest.raises(srm.ConfigError, match=told):
        Gate("ndcg@10", **fields)
    with pytest.raises(srm.ConfigError, match="unknown metric"):
        Gate("ndgc@10", min=0.1)


def test_a_model_may_have_any_name():
    """Those of a table may hold line breaks and parentheses; in the result they stay on one line."""
    for name in ("a\n1", "a)", "model(b)", "  "):
        gate = Gate("ndcg@10", max_drop=0.0, against=f"model({name})")
        assert gate.baseline == name
        found = held(gate, [row(0.5), row(0.4, name)])
        assert (found.result, found.reference) == ("pass", 0.4)
        assert len(found.line().splitlines()) == 1


def test_bounds_may_be_one_value():
    assert result_of(Gate("ndcg@10", min=0.5, max=0.5), row(0.5))[0] == "pass"


# The job ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def job(spark, tmp_path):
    """Write the tables and a configuration with gates; the result of a command on it."""
    scores = [(user, item, score) for user in ("u", "v") for item, score in (("a", 0.9), ("b", 0.8))]
    frame = spark.createDataFrame(scores, "user_id string, item_id string, score double")
    frame.write.parquet(str(tmp_path / "predictions"))
    path = tmp_path / "conf.json"

    def run(command, capsys, *argv, as_of="2026-11-28", found=("a", "b"), gates=()):
        truth = spark.createDataFrame(list(zip(("u", "v"), found, strict=True)), "user_id string, item_id string")
        truth.write.mode("overwrite").parquet(str(tmp_path / "truth"))
        conf = {
            "as_of": as_of,
            "inputs": {name: {"path": str(tmp_path / name)} for name in ("predictions", "truth")},
            "evaluation": {"top_k": 1, "metrics": ["hit"], "n_buckets": 2},
            "gates": list(gates),
            "output": {"path": str(tmp_path / "out")},
            "report": str(tmp_path / "{as_of}.html"),
        }
        path.write_text(json.dumps(conf))
        code = main([command, "--config", str(path), *argv])
        captured = capsys.readouterr()
        outcome = json.loads(captured.out.strip().splitlines()[-1].removeprefix(RESULT_MARK))
        assert outcome["exit_code"] == code
        return code, outcome, captured

    return run


@pytest.mark.spark
@pytest.mark.core
def test_c10_a_failing_gate_ends_with_3_after_everything_is_written(job, spark, tmp_path, capsys):
    gates = [
        {"metric": "hit@1", "max_drop": 0.1, "against": "previous"},
        {"metric": "hit@1", "min": 0.9, "severity": "warn"},
    ]
    code, first, captured = job("evaluate", capsys, as_of="2026-11-27", found=("a", "a"), gates=gates)
    assert code == 0
    assert [gate["result"] for gate in first["gates"]] == ["pass", "pass"]
    assert "PASS  model: hit@1: max_drop 0.1 against previous: Skipped: there is no previous run" in captured.out

    result = tmp_path / "result.json"
    code, second, captured = job("evaluate", capsys, "--result-json", str(result), gates=gates)
    told = f"model 0.5000 vs. run {first['run_id']} 1.0000: 0.5000 lower, allowed 0.1; the ground truth has changed"
    assert code == 3
    assert f"error: FAIL  model: hit@1: max_drop 0.1 against previous: {told}" in captured.err
    assert second == json.loads(result.read_text())
    assert (second["status"], second["error"]["type"]) == ("ok", "GateError")
    assert [(gate["result"], gate["reference"]) for gate in second["gates"]] == [("fail", 1.0), ("warn", None)]
    assert set(second["tables"]) == {"data_report", "per_user", "summary", "gates"}
    published = srm.read_history(spark, str(tmp_path / "out"), table="gates").where("as_of = '2026-11-28'")
    # Values 1, 1 before and 0, 1 now: the standard error is sqrt(1/2) / sqrt(2) = 1/2, and 0.1 is a fifth of it.
    rate = pytest.approx(1 - NormalDist().cdf(0.2))
    columns = ("result", "drop", "false_alarm_rate")
    assert sorted(tuple(row[name] for name in columns) for row in published.collect()) == [
        ("fail", 0.5, rate),
        ("warn", None, None),
    ]
    assert [gate["false_alarm_rate"] for gate in second["gates"]] == [rate, None]
    summary = srm.read_history(spark, str(tmp_path / "out")).where("as_of = '2026-11-28'")
    assert [row["value"] for row in summary.collect()] == [0.5]

    # Apart from the evaluation: the same result for the run that is published, and nothing written.
    again, third, _ = job("gate", capsys, gates=gates)
    assert (again, third["gates"]) == (3, second["gates"])
    assert main(["history", "--config", str(tmp_path / "conf.json"), "--metric", "HIT@1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "evaluate, hit@1",
        "",
        "as_of        model  changed",
        "2026-11-27  1.0000",
        "2026-11-28  0.5000  the truth",
        "",
        "model  █▁",
    ]
    # A nightly file, whose inputs and gates need an as_of and are not looked at.
    nightly = tmp_path / "nightly.yaml"
    nightly.write_text(
        "inputs: {predictions: {path: '/none/{as_of}'}, truth: {path: '/none/{as_of}'}}\n"
        "evaluation: {metrics: [hit@1]}\ngates: [{metric: hit@1, max_drop: 0.1, against: previous}]\n"
        f"output: {{path: '{tmp_path}/out'}}\n"
    )
    assert main(["history", "--config", str(nightly), "--metric", "hit@1", "--last", "1"]) == 0
    assert "2026-11-28  0.5000" in capsys.readouterr().out
    dated = [*("history", "--config", str(nightly), "--metric", "hit@1"), "--set", f"output.path={tmp_path}/{{as_of}}"]
    assert main(dated) == 2
    assert "needs an as_of: give --as-of, or as_of in the file" in capsys.readouterr().err
    # A night whose label does not stand in the order of the others.
    assert job("evaluate", capsys, as_of="20261129", found=("a", "a"), gates=gates)[0] == 3
    assert main(["history", "--config", str(tmp_path / "conf.json"), "--metric", "hit@1"]) == 0
    told = "warning: as_of: expected labels in one format, found 2026-11-27, 20261129: they are sorted as strings"
    assert capsys.readouterr().out.splitlines()[-1] == told
    for wrong, told in (
        (["--metric", "map@1"], "expected runs of job evaluate with map@1"),
        (["--metric", "hit@1", "--last", "0"], "--last"),
    ):
        assert main(["history", "--config", str(tmp_path / "conf.json"), *wrong]) in (2, 4)
        assert told in capsys.readouterr().err
    none, fourth, _ = job("gate", capsys, as_of="2026-11-29", gates=gates)
    assert none == 4
    assert "found none: run evaluate first" in fourth["error"]["message"]


def test_the_last_run_of_a_night_counts_whole():
    """The night was run again without pop, under another configuration."""
    first = [night(27, value, model=model, config_hash="c") for model, value in (("als", 0.5), ("pop", 0.25))]
    again = night(27, 0.75, config_hash="d") | {"run_id": "again", "computed_at": 1}
    others = [night(28, 0.75, config_hash="d"), night(29, 0.75, config_hash="e")]
    for rows in ([*first, again, *others], [*others, again, *first]):
        assert history_table(rows, 30).splitlines() == [
            "as_of          als  changed",
            "2026-11-27  0.7500",
            "2026-11-28  0.7500",
            "2026-11-29  0.7500  the configuration (or only that of the comparison)",
            "",
            "als  ▄▄▄",
        ]


@pytest.mark.spark
@pytest.mark.once
def test_a_gate_fails_and_is_published_without_its_model(job, spark, tmp_path, capsys):
    """The only model of the run is the one that others are to be held against."""
    gates = [{"metric": "hit@1", "max_drop": 0, "against": "model(model)"}]
    code, outcome, captured = job("evaluate", capsys, gates=gates)
    assert (code, outcome["gates"][0]["model"], outcome["gates"][0]["result"]) == (3, None, "fail")
    assert (
        "FAIL  no model: hit@1: max_drop 0 against model(model): the run has no model other than model to check" in captured.out
    )
    (row,) = srm.read_history(spark, str(tmp_path / "out"), table="gates").collect()
    assert (row["model"], row["result"]) == (None, "fail")
    assert job("gate", capsys, gates=gates)[0] == 3


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_night_after_a_refused_one_is_a_first_night(job, spark, tmp_path, capsys):
    """The first night was refused, so that only its report lies there; and a split has published into the same output."""
    rows = spark.createDataFrame([("u", "a"), ("u", "b")], "user_id string, item_id string")
    srm.splits.publish(srm.splits.leave_one_out(rows, by="hash"), srm.Output(path=str(tmp_path / "out")))
    gates = [{"metric": "hit@1", "max_drop": 0.1, "against": "previous"}]
    code, outcome, _ = job("evaluate", capsys, as_of="2026-11-27", found=("a", None), gates=gates)
    assert (code, list(outcome["tables"])) == (4, ["data_report"])
    code, outcome, _ = job("gate", capsys, gates=gates)
    assert (code, "found none: run evaluate first" in outcome["error"]["message"]) == (4, True)
    assert main(["history", "--config", str(tmp_path / "conf.json"), "--metric", "hit@1"]) == 4
    assert "expected runs of job evaluate with hit@1, found none" in capsys.readouterr().err
    code, outcome, captured = job("evaluate", capsys, gates=gates)
    assert (code, outcome["gates"][0]["result"]) == (0, "pass")
    assert "Skipped: there is no previous run (missing: pass)" in captured.out


@pytest.mark.spark
@pytest.mark.once
def test_a_night_of_two_tasks_shows_its_results_and_only_the_second_fails(job, spark, tmp_path, capsys):
    """As schedulers run it: the first task judges, publishes and writes the page, the second ends the pipeline."""
    gates = [{"metric": "hit@1", "min": 0.9}, {"metric": "hit@1", "max_drop": 0.1, "against": "previous"}]
    assert job("evaluate", capsys, "--no-gates", as_of="2026-11-27", found=("a", "a"), gates=gates)[0] == 0
    code, first, captured = job("evaluate", capsys, "--no-gates", gates=gates)
    assert (code, first["exit_code"], first["status"], first["error"]) == (0, 0, "ok", None)
    assert [gate["result"] for gate in first["gates"]] == ["fail", "fail"]
    assert "FAIL  model: hit@1: min 0.9: 0.5000 is below min 0.9" in captured.out
    assert "--no-gates: a failed gate does not fail this command; the command gate fails then" in captured.out
    page = (tmp_path / "2026-11-28.html").read_text()
    assert "Gates failed: 2 of 2" in page
    assert "0.5000 is below min 0.9" in page
    rows = srm.read_history(spark, str(tmp_path / "out"), table="gates").where("as_of = '2026-11-28'").collect()
    assert [row["result"] for row in rows] == ["fail", "fail"]
    code, second, captured = job("gate", capsys, gates=gates)
    assert (code, second["gates"]) == (3, first["gates"])
    assert "error: FAIL  model: hit@1: min 0.9" in captured.err
    # Other gates are held against the same run, also by the evaluation of the night once more.
    code, outcome, _ = job("gate", capsys, "--set", "gates=[{metric: hit@1, min: 0.5}]", gates=gates)
    assert (code, outcome["run_id"], outcome["gates"][0]["gate"]) == (0, second["run_id"], "hit@1: min 0.5")
    code, outcome, _ = job("gate", capsys, "--set", "evaluation.convention=ranx", gates=gates)
    told = f"expected run {outcome['run_id']} as of 2026-11-28, found {second['run_id']} of another configuration"
    assert code == 4
    assert f"{told}: run evaluate first with the same configuration; only its gates may differ" in outcome["error"]["message"]


@pytest.mark.spark
@pytest.mark.once
def test_the_page_of_a_night_that_ended_without_values_says_so(job, tmp_path, capsys, monkeypatch):
    page = tmp_path / "2026-11-28.html"
    assert job("evaluate", capsys, gates=[{"metric": "hit@1", "min": 0.1}])[0] == 0
    assert "Gates passed" in page.read_text()
    # Nobody of truth has an id.
    code, outcome, _ = job("evaluate", capsys, found=("a", None))
    text = page.read_text()
    assert (code, outcome["report"]) == (4, str(page))
    assert "The run was rejected" in text
    assert "Gates passed" not in text
    assert outcome["error"]["message"].splitlines()[0] in html.unescape(text)
    assert '<span class="chip error">error</span>' in text
    # And one that fails before it has read anything.
    (tmp_path / "predictions").rename(tmp_path / "gone")
    code, outcome, _ = job("evaluate", capsys)
    assert code == 4
    assert "The run was rejected" in page.read_text()
    assert outcome["error"]["message"].splitlines()[0] in html.unescape(page.read_text())
    monkeypatch.setattr("spark_recmetrics.storage.read.read_table", lambda *_: 1 / 0)
    code, outcome, _ = job("evaluate", capsys)
    assert (code, outcome["error"]["type"]) == (1, "ZeroDivisionError")
    assert "The run failed" in page.read_text()
    assert "division by zero" in page.read_text()


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_drop_that_is_chance_passes_and_one_that_is_not_fails(spark, tmp_path, capsys):
    """Of 40 users model b misses one and c half of those that a serves."""
    lists = [("a", user, "x") for user in range(40)]
    lists += [("b", user, "x" if user else "y") for user in range(40)]
    lists += [("c", user, "x" if user % 2 else "y") for user in range(40)]
    frame = spark.createDataFrame([(*row, 1.0) for row in lists], "model string, user_id int, item_id string, score double")
    frame.write.parquet(str(tmp_path / "predictions"))
    truth = spark.createDataFrame([(user, "x") for user in range(40)], "user_id int, item_id string")
    truth.write.parquet(str(tmp_path / "truth"))
    conf = {
        "inputs": {name: {"path": str(tmp_path / name)} for name in ("predictions", "truth")},
        "evaluation": {"top_k": 1, "metrics": ["hit"], "n_buckets": 2},
        "comparison": {"baseline": "a"},
        "gates": [
            {"metric": "hit@1", "max_drop": 0, "against": "model(a)", "significant": True},
            {"metric": "hit@1", "max_drop": 0, "against": "model(a)", "model": "b", "severity": "warn"},
        ],
        "output": {"path": str(tmp_path / "out")},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    for command in ("evaluate", "gate"):
        assert main([command, "--config", str(path)]) == 3
        out = capsys.readouterr().out
        told = "hit@1: max_drop 0 against model(a), significant"
        assert f"PASS  b: {told}: b 0.9750 vs. a 1.0000: 2.5 % lower, allowed 0 %; " in out
        shown = stats.smallest_difference(math.sqrt((1 - 1 / 40) / 39), 40)
        assert f"not significant (p = 0.323, 40 users, minimum detectable effect {shown:.3g}); false alarm rate" in out
        assert f"FAIL  c: {told}: c 0.5000 vs. a 1.0000: 50 % lower, allowed 0 %; significant (p = " in out
        assert [line[:7] for line in out.splitlines() if line.endswith("; false alarm rate: 2.5 % of runs")] == [
            "PASS  b",
            "FAIL  c",
        ]
        told = "hit@1: max_drop 0 against model(a): b 0.9750 vs. a 1.0000: 2.5 % lower, allowed 0 %"
        assert f"WARN  b: {told}; false alarm rate: 50 % of runs" in out
    found = srm.read_history(spark, str(tmp_path / "out"), table="comparison").collect()
    assert {row["model_b"]: row["winner"] for row in found} == {"b": None, "c": "a"}, "written though a gate fails"


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_gate_over_all_runs_reads_them_from_the_history(spark, tmp_path, capsys, monkeypatch):
    """Three nights with a truth of their own: b misses one, two and three of the ten users that a serves."""
    monkeypatch.setattr(gates, "FEWEST_RUNS", 3)
    conf = {
        "as_of": "0",
        "inputs": {"predictions": {"path": f"{tmp_path}/{{as_of}}"}, "truth": {"path": f"{tmp_path}/truth-{{as_of}}"}},
        "evaluation": {"top_k": 1, "metrics": ["hit"], "n_buckets": 2},
        "gates": [{"metric": "hit@1", "max_drop": 0, "against": "model(a)", "significant": "all_runs"}],
        "output": {"path": str(tmp_path / "out")},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    told = []
    for night_of, n_missed in (("1", 1), ("2", 2), ("3", 3)):
        lists = [(m, u, "y" if m == "b" and u < n_missed else f"x{night_of}", 1.0) for m in "ab" for u in range(10)]
        frame = spark.createDataFrame(lists, "model string, user_id int, item_id string, score double")
        frame.write.parquet(str(tmp_path / night_of))
        truth = spark.createDataFrame([(user, f"x{night_of}") for user in range(10)], "user_id int, item_id string")
        truth.write.parquet(str(tmp_path / f"truth-{night_of}"))
        assert main(["evaluate", "--config", str(path), "--as-of", night_of]) == 0
        told.append(capsys.readouterr().out)
    assert "b 0.9000 vs. a 1.0000: 10 % lower; 1 run, 3 required (missing: pass)" in told[0]
    # Mean 0.2 and standard deviation 0.1 of the drops 0.1, 0.2 and 0.3.
    (look,) = stats.confidence_sequence([(3, 0.2, 0.01)], n_target=90)
    mean = f"over 3 runs the mean drop is 0.2, 95 % confidence interval [{look.ci_low:.3g}, {look.ci_high:.3g}], allowed 0"
    assert f"b 0.7000 vs. a 1.0000: 30 % lower; {mean}; false alarm rate: at most 5 % of years" in told[2]
    assert main(["gate", "--config", str(path), "--as-of", "3"]) == 0
    assert mean in capsys.readouterr().out


@pytest.mark.parametrize(
    ("gate", "told"),
    [
        ({"metric": "hit@5", "min": 0.5}, "gates[0].metric: hit@5 is not evaluated; did you mean 'hit@1'?"),
        ({"metric": "hit@1", "mim": 0.5}, "gates[0].mim: unknown key; did you mean 'min'?"),
        ({"metric": "hit@1", "min": "high"}, "gates[0].min: expected a finite number, found 'high'"),
        ({"metric": "hit@1", "max_drop": 0.1, "against": "previous"}, "gates[0].against: previous needs an as_of"),
        (
            {"metric": "hit@1", "max_drop": 0.1, "against": "model(a)", "significant": "all_runs"},
            "gates[0].significant: all_runs needs an as_of",
        ),
        (
            {"metric": "hit@1", "max_drop": 0.1, "against": "model(a)", "significant": "often"},
            "gates[0].significant: expected one of False, True or 'all_runs', found 'often'",
        ),
        (
            {"metric": "matched_auc@1", "max_drop": 0.1, "against": "model(a)", "significant": True},
            "gates[0].significant: matched_auc@1 cannot be tested, because it has no value for each user",
        ),
    ],
)
def test_a_gate_of_the_configuration_is_checked_when_it_is_read(gate, told, tmp_path, capsys):
    inputs = {name: {"path": "/nowhere"} for name in ("predictions", "truth")}
    conf = {
        "inputs": inputs,
        "evaluation": {"top_k": 1, "metrics": ["hit", "matched_auc"]},
        "gates": [gate],
        "output": {"path": "/nowhere"},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    assert main(["validate-config", "--config", str(path)]) == 2
    assert told in capsys.readouterr().err
