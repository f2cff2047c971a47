"""Adjusted p values, false alarm rates and confidence sequences: formulas, other tools and simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special
from scipy import stats as scipy_stats
from stats_data import NAN

from spark_recmetrics import ConfigError, stats

P_VALUES = [0.01, 0.04, 0.03, 0.005, 0.5]


# statsmodels 0.15.0, multipletests(P_VALUES, method=...)[1]
ADJUSTED = {
    "none": P_VALUES,
    "bonferroni": [0.05, 0.2, 0.15, 0.025, 1.0],
    "holm": [0.04, 0.09, 0.09, 0.025, 0.5],
    "benjamini_hochberg": [0.025, 0.05, 0.05, 0.025, 0.5],
}


@pytest.mark.parametrize("method", ADJUSTED)
def test_adjusted_p_values(method):
    assert stats.adjust(P_VALUES, method) == pytest.approx(ADJUSTED[method], rel=1e-12)
    family = [None, *P_VALUES[:2], NAN, *P_VALUES[2:]]
    result = stats.adjust(family, method)
    assert result[0] is None
    assert math.isnan(result[3])
    assert [*result[1:3], *result[4:]] == pytest.approx(ADJUSTED[method], rel=1e-12)
    assert stats.adjust([], method) == []
    assert stats.adjust([None], method) == [None]


@pytest.mark.parametrize("seed", range(5))
def test_adjusted_p_values_of_random_families(seed):
    p = np.random.default_rng(seed).random(50).round(2) ** 2
    assert stats.adjust(list(p), "benjamini_hochberg") == pytest.approx(list(scipy_stats.false_discovery_control(p)))
    bonferroni, holm = stats.adjust(list(p), "bonferroni"), stats.adjust(list(p), "holm")
    # Holm by its definition: the tests in order of p, each against what is left of alpha.
    for alpha in (0.01, 0.05, 0.2):
        rejected, order = set(), sorted(range(50), key=lambda i: p[i])
        for step, i in enumerate(order):
            if p[i] * (50 - step) > alpha:
                break
            rejected.add(i)
        assert {i for i in range(50) if holm[i] <= alpha} == rejected
    assert all(h <= b for h, b in zip(holm, bonferroni, strict=True))


# t of one degree of freedom is the Cauchy distribution: P(T > x) = 1/2 - arctan(x) / pi.
Q1 = math.tan(math.pi * 0.475)


@pytest.mark.parametrize(
    ("n", "more", "expected"),
    [
        (2, {}, 1 / 2),
        (2, {"tested": True}, 1 / 40),
        (2, {"tested": True, "alpha": 0.5}, 1 / 4),
        (2, {"allowed": 0.2}, 1 / 40),
        (2, {"allowed": 0.05}, 1 / 2 - math.atan(Q1 / 4) / math.pi),
        (2, {"allowed": 0.05, "tested": True}, 1 / 40),
        (2, {"allowed": 0.4, "tested": True}, 1 / 2 - math.atan(2 * Q1) / math.pi),
        (2, {"allowed": 0.2, "alpha": 0.5}, 1 / 4),
        (None, {"allowed": 0.1}, math.erfc(special.erfcinv(0.05) / 2) / 2),
        (1000, {"tested": True}, 1 / 40),
    ],
)
def test_the_rate_of_false_alarms(n, more, expected):
    assert stats.false_alarm_rate(0.2, n, **more) == pytest.approx(expected, rel=1e-9)
    # All differences are 0, so that none is above what is allowed.
    assert stats.false_alarm_rate(0.0, n, **more) == 0


def test_the_rate_of_false_alarms_is_that_of_simulated_runs():
    """Means of 12 normal differences with mean 0: how often the test, or the allowed drop, raises an alarm."""
    d = np.random.default_rng(8).normal(size=(100_000, 12))
    half = scipy_stats.t.isf(0.025, 11) * d.std(axis=1, ddof=1) / math.sqrt(12)
    for multiple, tested in ((0.0, True), (0.4, False), (1.3, True)):
        result = np.mean(d.mean(axis=1) > half * max(multiple, 1.0 if tested else 0.0))
        rate = stats.false_alarm_rate(1.0, 12, allowed=multiple, tested=tested)
        assert result == pytest.approx(rate, abs=4 * math.sqrt(rate / 100_000))


def test_a_year_of_looks():
    """Equal models, compared after each of 365 runs on all runs so far."""
    rng = np.random.default_rng(5)
    n_years, users, alarms, plain = 400, 50, 0, 0
    critical = scipy_stats.norm.isf(0.025)
    for _ in range(n_years):
        d = rng.exponential(size=(365, users)) - 1
        runs = [(users, float(m), float(v)) for m, v in zip(d.mean(axis=1), d.var(axis=1, ddof=1), strict=True)]
        intervals = stats.confidence_sequence(runs, n_target=100 * users)
        alarms += any(interval.excludes_zero for interval in intervals)
        sums, squares, n = np.cumsum(d.sum(axis=1)), np.cumsum((d**2).sum(axis=1)), users * np.arange(1, 366)
        std = np.sqrt((squares - sums**2 / n) / (n - 1))
        plain += bool((np.abs(sums / n) > critical * std / np.sqrt(n)).any())
    assert alarms / n_years <= 0.05
    assert plain / n_years > 0.3


def test_a_year_of_looks_with_runs_as_observations():
    """The guarantee holds for large n: after the 30th run, and not yet after the second."""
    rng = np.random.default_rng(0)
    late, early = [], []
    for _ in range(300):
        intervals = stats.confidence_sequence([(1, float(d), None) for d in rng.normal(size=365)], n_target=90)
        late.append(any(interval.excludes_zero for interval in intervals[29:]))
        early.append(any(interval.excludes_zero for interval in intervals))
    assert np.mean(late) <= 0.05
    assert np.mean(early) > 0.1


def test_a_confidence_sequence_finds_a_difference():
    intervals = stats.confidence_sequence([(100, 0.1, 0.25)] * 50, n_target=1000)
    assert not intervals[0].excludes_zero
    assert intervals[-1].excludes_zero
    assert intervals[-1].mean == pytest.approx(0.1)


def test_the_formula_of_the_confidence_sequence():
    (interval,) = stats.confidence_sequence([(400, 0.1, 4.0)], n_target=1000, alpha=0.1)
    # n rho^2 = x at the target solves x = log((x + 1) / alpha^2).
    x = 1.0
    for _ in range(100):
        x = math.log((x + 1) / 0.01)
    r = x / 1000
    half = 2 * math.sqrt(2 * (400 * r + 1) / (400**2 * r) * math.log(math.sqrt(400 * r + 1) / 0.1))
    assert (interval.ci_low, interval.ci_high) == pytest.approx((0.1 - half, 0.1 + half))


def test_the_sequence_is_narrowest_at_its_target():
    def width(n_target):
        (interval,) = stats.confidence_sequence([(1000, 0.0, 1.0)], n_target=n_target)
        return interval.ci_high - interval.ci_low

    assert width(1000) < min(width(900), width(1100))


def test_runs_are_accumulated():
    rng = np.random.default_rng(0)
    d = [1000 + rng.random(n) for n in (5, 1, 30)]
    runs = [(len(x), x.mean(), x.var(ddof=1) if len(x) > 1 else None) for x in d]
    intervals = stats.confidence_sequence([(0, NAN, None), *runs], n_target=36)
    everything = np.concatenate(d)
    (expected,) = stats.confidence_sequence([(36, everything.mean(), everything.var(ddof=1))], n_target=36)
    assert intervals[0] == (0, None, None, None, 0)
    assert intervals[-1] == pytest.approx(expected, rel=1e-12)
    single = stats.confidence_sequence([(1, x, None) for x in everything], n_target=36)
    assert (single[0].ci_low, single[0].excludes_zero) == (None, False)
    assert single[-1] == pytest.approx(expected, rel=1e-12)


def test_runs_without_variance():
    intervals = stats.confidence_sequence([(1, 1.0, None)] * 3, n_target=10)
    assert [interval.ci_low for interval in intervals] == [None] * 3
    assert stats.confidence_sequence([(5, 0.0, 0.0)], n_target=10)[0][1:4] == (0, 0, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: stats.confidence_sequence([], n_target=9, alpha=0.9),
            "alpha: expected a number from 1e-06 to 0.5, such as 0.05, found 0.9",
        ),
        (lambda: stats.adjust([0.5, 1.5], "none"), "p_values: expected numbers from 0 to 1, found 1.5"),
        (lambda: stats.adjust([0.5, "0.1"], "none"), r"p_values\[1\]: expected a finite number of at least 0, found '0.1'"),
        (lambda: stats.adjust([0.5], "holms"), "method: unknown method 'holms'; did you mean 'holm'?"),
        (
            lambda: stats.confidence_sequence([(5, 1.0)], n_target=9),
            r"runs\[0\]: expected \(number, mean, variance\), found \(5, ",
        ),
        (
            lambda: stats.confidence_sequence([(5, 1.0, -1)], n_target=9),
            r"runs\[0\]: variance: expected a finite number of at least 0, fo",
        ),
        (lambda: stats.false_alarm_rate(-0.1, 9), "half_width: expected a finite number of at least 0, found -0.1"),
        (lambda: stats.false_alarm_rate(0.1, 1), "n: expected at least two differences, found 1"),
        (lambda: stats.false_alarm_rate(0.1, 9, allowed=-1), "allowed: expected a finite number of at least 0, found -1"),
        (lambda: stats.false_alarm_rate(0.1, 9, alpha=5), "alpha: expected a number from 1e-06 to 0.5, such as 0.05, found 5"),
        (lambda: stats.confidence_sequence([], n_target=1), "n_target: expected at least two differences, found 1"),
    ],
)
def test_wrong_arguments_are_rejected(call, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        call()
