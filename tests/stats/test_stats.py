"""Statistics: cases worked by hand, agreement with scipy and statsmodels, and what the promises are worth in simulations."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy
from scipy import special
from scipy import stats as scipy_stats

from spark_recmetrics import ConfigError, stats

TESTS = (stats.paired_t_test, stats.wilcoxon_test, stats.sign_test, stats.bootstrap_test)
BY_NAME = pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)
NAN = math.nan
ASYMPTOTIC = "asymptotic" if tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 13) else "approx"
"""The same test, whose name scipy has changed."""


def values(seed, n=40, scale=0.1):
    """Values of two models for the same users, some of them tied."""
    rng = np.random.default_rng(seed)
    a = rng.random(n).round(1)
    return a, (a + scale * rng.normal(size=n)).round(1)


def hashes(n, seed=1):
    return np.random.default_rng(seed).integers(0, 2**64, size=n, dtype=np.uint64)


# Cases worked by hand -----------------------------------------------------------------------------------------------------


@BY_NAME
def test_t1_identical_models(test):
    found = test([0.5, 0.25, 1.0], [0.5, 0.25, 1.0])
    assert (found.statistic, found.p_value, found.effect_size, found.mean_difference) == (0, 1, 0, 0)
    assert (found.wins, found.ties, found.losses, found.reason, found.significant) == (0, 3, 0, None, False)
    assert (found.ci_low, found.ci_high) == (0, 0)
    assert str(found).startswith(f"{found.test.replace('_', ' ')}: no difference found at 0.05\n")


def test_t2_the_effect_size_is_paired():
    found = stats.paired_t_test([100, 200, 300, 400], [101, 202, 303, 404])
    assert found.mean_difference == 5 / 2
    assert found.effect_size == pytest.approx(1.936492, abs=5e-7)
    assert found.effect_size == pytest.approx((5 / 2) / math.sqrt(5 / 3))
    assert (found.wins, found.losses, found.n) == (4, 0, 4)


@BY_NAME
def test_t3_zero_variance(test):
    found = test([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
    assert found.effect_size is None
    assert found.reason == "zero_variance"
    assert found.mean_difference == 1
    assert found.ci_low is None
    assert "all differences are the same and not 0" in str(found)
    if found.test == "sign":
        assert found.p_value == 2 / 8
    elif found.test == "wilcoxon":
        # Three ranks of 2: W- = 0, expected 3, variance (3 * 4 * 7 - (3^3 - 3) / 2) / 24 = 3.
        assert found.p_value == pytest.approx(math.erfc(math.sqrt(3 / 2)))
    else:
        assert (found.statistic, found.p_value, found.significant) == (None, None, False)


@BY_NAME
def test_a_constant_shift_is_no_effect_of_1e16(test):
    """0.1 + 0.5 - 0.1 and 0.7 + 0.5 - 0.7 differ in the last bit."""
    a = np.random.default_rng(1).random(50)
    found = test(a, a + 0.5)
    assert len(set((a + 0.5) - a)) > 1
    assert found.reason == "zero_variance"
    assert found.effect_size is None
    assert stats.t_from_moments(50, 0.5, 1e-32).reason == "zero_variance"


@BY_NAME
def test_rounding_is_a_share_of_the_values_and_not_of_the_difference(test):
    """The differences of values of about 1 are known to 10^-12, which is more than that share of the difference of 10^-4."""
    a = 1 + np.arange(30) / 7
    found = test(a, a + 1e-4)
    assert np.ptp((a + 1e-4) - a) > 1e-12 * 1e-4
    assert (found.reason, found.effect_size, found.ci_low, found.std) == ("zero_variance", None, None, 0)
    if found.test in ("paired_t", "bootstrap"):
        assert (found.statistic, found.p_value) == (None, None)
    assert stats.bootstrap_from_replicates(0.0, np.linspace(-1e-9, 1e-9, 101), n=9, variance=0.0).p_value == 1


@BY_NAME
@pytest.mark.parametrize(("n", "reason"), [(0, "no_pair"), (1, "one_pair")])
def test_t4_less_than_two_pairs(test, n, reason):
    found = test([0.5, NAN][1 - n :], [1.0, 1.0][1 - n :])
    assert found.n_left_out == 1
    assert (found.n, found.reason, found.statistic, found.p_value, found.effect_size) == (n, reason, None, None, None)
    assert not found.significant
    assert ": undefined (" in str(found)


@pytest.mark.parametrize("n", [1, 99])
def test_t5_a_bootstrap_of_few_resamples_is_refused(n):
    for call in (
        lambda: stats.bootstrap_test([1, 2, 3], [1, 2, 4], n=n),
        lambda: stats.bootstrap_ci([1, 2, 3], n=n),
        lambda: stats.bootstrap_from_replicates(0.5, [0.5] * n, n=3),
    ):
        with pytest.raises(ConfigError, match=rf"^(n|replicates): expected at least 100 resamples, found {n} \(B < 100\)"):
            call()


def test_t5_p_of_a_bootstrap_is_never_0():
    rng = np.random.default_rng(0)
    a = rng.random(100)
    assert stats.bootstrap_test(a, a + 1 + 0.01 * rng.random(100), n=100).p_value == 1 / 101


def test_p_of_a_bootstrap_counts_replicates_as_far_off_as_the_mean_from_0():
    replicates = [0.0, 1.0, *[0.5] * 97, 0.99]
    assert stats.bootstrap_from_replicates(0.5, replicates, n=10).p_value == (2 + 1) / (100 + 1)
    found = stats.bootstrap_from_replicates(0.5, [*replicates, NAN], n=10, variance=0.25)
    assert (found.p_value, found.effect_size) == (3 / 101, 1.0)
    assert stats.bootstrap_from_replicates(0.5, [NAN] * 100, n=10).reason == "no_replicate"


@pytest.mark.parametrize("order", [*itertools.islice(itertools.permutations(range(6)), 0, 720, 37)])
def test_sums_in_another_order(order):
    """No order of the users changes a result, nor makes a difference out of none."""
    given = np.array([24.621, 12.14, 0.169, 6.865, 1.879, 16.326])
    other = given[list(order)]
    assert stats.bootstrap_ci(other, n=100).mean == pytest.approx(stats.bootstrap_ci(given, n=100).mean, abs=1e-12)
    first, second = stats.paired_t_test(given, given**0.9), stats.paired_t_test(other, other**0.9)
    for name in ("statistic", "p_value", "effect_size", "mean_difference", "ci_low", "ci_high"):
        assert getattr(first, name) == pytest.approx(getattr(second, name), abs=1e-12)
    sums = [sum(given.tolist()), sum(other.tolist())] * 2
    for test in TESTS:
        found = test(sums, sums[::-1])
        assert (found.statistic, found.p_value, found.ties) == (0, 1, 4)


@BY_NAME
def test_nan_leaves_a_pair_out(test):
    a, b = values(1)
    found = test([*a, NAN, 0.5, NAN], [*b, 0.5, NAN, NAN])
    assert found == replace(test(a, b), n_left_out=3)
    assert "; 3 left out for NaN" in str(found)


def test_the_direction_is_that_of_what_is_tested():
    """b wins 27 of 30, with the rank sums 378 and 87; but the three losses are so large that its mean is lower."""
    a = np.zeros(30)
    b = np.concatenate([0.001 * np.arange(1, 28), [-1.0, -1.1, -1.2]])
    found = {result.test: result for result in (test(a, b) for test in TESTS)}
    assert {name: result.direction for name, result in found.items()} == {
        "paired_t": -1,
        "bootstrap": -1,
        "wilcoxon": 1,
        "sign": 1,
    }
    assert found["wilcoxon"].statistic == 87
    assert found["sign"].p_value < found["wilcoxon"].p_value < 0.05
    assert all(result.mean_difference == pytest.approx((0.378 - 3.3) / 30) for result in found.values())
    for test in TESTS:
        assert (test(b, a).direction, test(a, a).direction) == (-found[test(a, b).test].direction, 0)
        assert test(a[:1], b[:1]).direction is None


def test_magnitudes_that_differ_by_rounding_are_tied():
    assert 0.1 + 0.2 != 0.3
    assert stats.wilcoxon_from_histogram([0.1 + 0.2, 0.3, 0.5], [1, 0, 1], [0, 1, 0]) == pytest.approx(
        stats.wilcoxon_from_histogram([0.3, 0.5], [1, 1], [1, 0])
    )


# The text -----------------------------------------------------------------------------------------------------------------


def test_no_result_says_that_models_are_equal():
    a, b = values(3)
    for test in TESTS:
        found = test(a, b, alpha=1e-6)
        assert "no difference found" in str(found)
        assert f"(40 pairs show one of {found.smallest_difference:.4g} with 80 % power)" in str(found)
        assert "equal" not in str(found)
        assert found.smallest_difference == stats.smallest_difference(found.std, 40, alpha=1e-6)


def test_the_text_of_a_difference():
    assert str(stats.paired_t_test([1, 2, 3, 4], [2, 3, 5, 6])).splitlines() == [
        "paired t: difference found at 0.05",
        "  b - a = 1.5, 95 % interval 0.581307 to 2.41869, p = 0.01385, d_z = 2.598",
        "  n = 4: b higher in 4, lower in 0, tied in 0",
    ]
    assert str(stats.sign_test(np.arange(9), np.arange(9) + 1)).startswith(
        "sign: difference found at 0.05, effect size undefined (all differences are the same and not 0)\n"
    )
    assert (
        str(stats.sign_from_counts(9, 1))
        == "sign: difference found at 0.05\n  p = 0.02148\n  n = 10: b higher in 9, lower in 1, tied in 0"
    )


# Other tools --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_agreement_with_scipy(seed):
    a, b = values(seed, n=10 + 5 * seed)
    d = (b - a).round(1)
    near = {"rel": 1e-9, "abs": 1e-12}
    t, expected = stats.paired_t_test(a, b), scipy_stats.ttest_rel(b, a)
    interval = expected.confidence_interval(0.95)
    assert (t.statistic, t.p_value) == pytest.approx((expected.statistic, expected.pvalue), **near)
    assert (t.ci_low, t.ci_high) == pytest.approx((interval.low, interval.high), **near)
    w = stats.wilcoxon_test(a, b)
    expected = scipy_stats.wilcoxon(d, zero_method="wilcox", correction=False, method=ASYMPTOTIC)
    assert (w.statistic, w.p_value) == pytest.approx((expected.statistic, expected.pvalue), **near)
    s, wins, losses = stats.sign_test(a, b), int((d > 0).sum()), int((d < 0).sum())
    assert s.p_value == pytest.approx(scipy_stats.binomtest(wins, wins + losses).pvalue, **near)
    assert (s.wins, s.losses, s.ties) == (wins, losses, len(d) - wins - losses)
    for found in (w, s, stats.bootstrap_test(a, b)):
        assert found.effect_size == t.effect_size
        assert found.mean_difference == t.mean_difference


def test_arrays_and_sums_are_the_same():
    a, b = values(7)
    d = (b - a).round(1)
    t = stats.paired_t_test(a, b)
    assert stats.t_from_moments(40, d.mean(), d.var(ddof=1)).p_value == pytest.approx(t.p_value)
    size, counts = np.unique(np.abs(d[d != 0])), {}
    for sign in (1, -1):
        counts[sign] = [int((d == sign * m).sum()) for m in size]
    shuffled = np.random.default_rng(0).permutation(len(size))
    found = stats.wilcoxon_from_histogram(
        size[shuffled], np.array(counts[1])[shuffled], np.array(counts[-1])[shuffled], ties=int((d == 0).sum())
    )
    expected = stats.wilcoxon_test(a, b)
    assert (found.wins, found.ties, found.losses) == (expected.wins, expected.ties, expected.losses)
    for name in ("statistic", "p_value", "effect_size", "mean_difference", "ci_low", "ci_high"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name))


@pytest.mark.parametrize(("wins", "losses"), [(0, 5), (3, 3), (3, 4), (10, 2), (510_000, 490_000), (500_500_000, 499_500_000)])
def test_the_sign_test_is_exact_for_any_number_of_users(wins, losses):
    expected = scipy_stats.binomtest(wins, wins + losses).pvalue
    assert stats.sign_from_counts(wins, losses).p_value == pytest.approx(expected, rel=1e-9)
    assert stats.sign_from_counts(losses, wins).p_value == pytest.approx(expected, rel=1e-9)


def test_a_billion_users():
    found = stats.t_from_moments(10**9, 1e-5, 0.04)
    assert found.statistic == pytest.approx(1e-5 / (0.2 / math.sqrt(1e9)))
    half = 10**9 // 2
    found = stats.wilcoxon_from_histogram([0.25, 0.5], [half // 2] * 2, [half // 2] * 2)
    assert found.p_value == 1


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
    found = stats.adjust(family, method)
    assert found[0] is None
    assert math.isnan(found[3])
    assert [*found[1:3], *found[4:]] == pytest.approx(ADJUSTED[method], rel=1e-12)
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


# statsmodels 0.15.0, TTestPower().solve_power(nobs=n, alpha=alpha, power=power)
@pytest.mark.parametrize(
    ("n", "alpha", "power", "expected"),
    [(10, 0.05, 0.8, 0.9960019107624178), (34, 0.05, 0.8, 0.4950291315285059), (1000, 0.01, 0.9, 0.12218407215770721)],
)
def test_the_smallest_difference_is_that_of_statsmodels(n, alpha, power, expected):
    assert stats.smallest_difference(1.0, n, alpha=alpha, power=power) == pytest.approx(expected, rel=1e-5)
    assert stats.smallest_difference(0.3, n, alpha=alpha, power=power) == pytest.approx(0.3 * expected, rel=1e-5)


NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)


@pytest.mark.parametrize("n", [3, 5, 20, 1000, 10**9])
@pytest.mark.parametrize(("alpha", "power"), [(0.05, 0.8), (0.01, 0.5), (0.001, 0.95)])
def test_the_smallest_difference_has_the_power(n, alpha, power):
    """Power by its definition: T = (Z + shift) / S, averaged over S, the root of a chi-squared over its degrees of freedom."""
    shift = stats.smallest_difference(1.0, n, alpha=alpha, power=power) * math.sqrt(n)
    critical = scipy_stats.t.isf(alpha / 2, n - 1)
    low, high = (math.sqrt(special.chdtri(n - 1, q) / (n - 1)) for q in (1 - 1e-16, 1e-17))
    s = low + (high - low) * (NODES + 1) / 2
    log_density = (n - 2) * np.log(s) - (n - 1) * s * s / 2
    weights = WEIGHTS * np.exp(log_density - log_density.max())
    found = weights @ (special.ndtr(shift - critical * s) + special.ndtr(-shift - critical * s)) / weights.sum()
    assert found == pytest.approx(power, abs=1e-6)


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


def test_the_rate_of_false_alarms_is_that_of_simulated_looks():
    """Means of 12 normal differences without a shift, by the test, and against what is allowed at the spread of each."""
    d = np.random.default_rng(8).normal(size=(100_000, 12))
    half = scipy_stats.t.isf(0.025, 11) * d.std(axis=1, ddof=1) / math.sqrt(12)
    for multiple, tested in ((0.0, True), (0.4, False), (1.3, True)):
        found = np.mean(d.mean(axis=1) > half * max(multiple, 1.0 if tested else 0.0))
        rate = stats.false_alarm_rate(1.0, 12, allowed=multiple, tested=tested)
        assert found == pytest.approx(rate, abs=4 * math.sqrt(rate / 100_000))


# Simulations --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", [stats.paired_t_test, stats.wilcoxon_test])
def test_p_values_of_equal_models_are_uniform(test):
    rng = np.random.default_rng(11)
    p = []
    for _ in range(500):
        user = rng.random(100)
        p.append(test(user + 0.2 * rng.normal(size=100), user + 0.2 * rng.normal(size=100)).p_value)
    assert scipy_stats.kstest(p, "uniform").pvalue > 0.05


def covered(intervals, truth):
    return np.mean([low <= truth <= high for low, high in intervals])


def test_intervals_cover_the_truth():
    """Of 500 data sets of skewed values like those of nDCG, 95 % give an interval that holds the true mean."""
    rng = np.random.default_rng(3)
    by_t, by_bootstrap = [], []
    for seed in range(500):
        sample = rng.beta(0.6, 1.4, size=200)
        t = stats.paired_t_test(np.zeros(200), sample)
        bootstrap = stats.bootstrap_ci(sample, n=500, seed=seed)
        by_t.append((t.ci_low, t.ci_high))
        by_bootstrap.append((bootstrap.ci_low, bootstrap.ci_high))
    assert 0.93 <= covered(by_t, 0.3) <= 0.97
    assert 0.93 <= covered(by_bootstrap, 0.3) <= 0.97


def test_a_year_of_looks():
    """Equal models, compared on all nights so far on each of 365 nights."""
    rng = np.random.default_rng(5)
    n_years, users, alarms, plain = 400, 50, 0, 0
    critical = scipy_stats.norm.isf(0.025)
    for _ in range(n_years):
        d = rng.exponential(size=(365, users)) - 1
        nights = [(users, float(m), float(v)) for m, v in zip(d.mean(axis=1), d.var(axis=1, ddof=1), strict=True)]
        looks = stats.confidence_sequence(nights, n_target=100 * users)
        alarms += any(look.excludes_zero for look in looks)
        sums, squares, n = np.cumsum(d.sum(axis=1)), np.cumsum((d**2).sum(axis=1)), users * np.arange(1, 366)
        std = np.sqrt((squares - sums**2 / n) / (n - 1))
        plain += bool((np.abs(sums / n) > critical * std / np.sqrt(n)).any())
    assert alarms / n_years <= 0.05
    assert plain / n_years > 0.3


def test_a_year_of_looks_with_nights_as_observations():
    """The promise is for large n: from the 30th night on it holds, from the second it does not."""
    rng = np.random.default_rng(0)
    late, early = [], []
    for _ in range(300):
        looks = stats.confidence_sequence([(1, float(d), None) for d in rng.normal(size=365)], n_target=90)
        late.append(any(look.excludes_zero for look in looks[29:]))
        early.append(any(look.excludes_zero for look in looks))
    assert np.mean(late) <= 0.05
    assert np.mean(early) > 0.1


def test_a_confidence_sequence_finds_a_difference():
    looks = stats.confidence_sequence([(100, 0.1, 0.25)] * 50, n_target=1000)
    assert not looks[0].excludes_zero
    assert looks[-1].excludes_zero
    assert looks[-1].mean == pytest.approx(0.1)


# Confidence sequence ------------------------------------------------------------------------------------------------------


def test_the_formula_of_the_confidence_sequence():
    (look,) = stats.confidence_sequence([(400, 0.1, 4.0)], n_target=1000, alpha=0.1)
    # n rho^2 = x at the target solves x = log((x + 1) / alpha^2).
    x = 1.0
    for _ in range(100):
        x = math.log((x + 1) / 0.01)
    r = x / 1000
    half = 2 * math.sqrt(2 * (400 * r + 1) / (400**2 * r) * math.log(math.sqrt(400 * r + 1) / 0.1))
    assert (look.ci_low, look.ci_high) == pytest.approx((0.1 - half, 0.1 + half))


def test_the_sequence_is_narrowest_at_its_target():
    def width(n_target):
        (look,) = stats.confidence_sequence([(1000, 0.0, 1.0)], n_target=n_target)
        return look.ci_high - look.ci_low

    assert width(1000) < min(width(900), width(1100))


def test_nights_are_accumulated():
    rng = np.random.default_rng(0)
    d = [1000 + rng.random(n) for n in (5, 1, 30)]
    nights = [(len(x), x.mean(), x.var(ddof=1) if len(x) > 1 else None) for x in d]
    looks = stats.confidence_sequence([(0, NAN, None), *nights], n_target=36)
    everything = np.concatenate(d)
    (expected,) = stats.confidence_sequence([(36, everything.mean(), everything.var(ddof=1))], n_target=36)
    assert looks[0] == (0, None, None, None, 0)
    assert looks[-1] == pytest.approx(expected, rel=1e-12)
    single = stats.confidence_sequence([(1, x, None) for x in everything], n_target=36)
    assert (single[0].ci_low, single[0].excludes_zero) == (None, False)
    assert single[-1] == pytest.approx(expected, rel=1e-12)


def test_nights_without_spread():
    looks = stats.confidence_sequence([(1, 1.0, None)] * 3, n_target=10)
    assert [look.ci_low for look in looks] == [None] * 3
    assert stats.confidence_sequence([(5, 0.0, 0.0)], n_target=10)[0][1:4] == (0, 0, 0)


# Poisson bootstrap --------------------------------------------------------------------------------------------------------


def test_weights_are_poisson_numbers():
    weights = stats.poisson_weights(hashes(4000), 1000)
    assert weights.dtype == np.uint8
    n = weights.size
    # Standard errors: of the mean 1 / sqrt(n), of the variance sqrt((kurtosis - 1) / n) with kurtosis 4.
    assert abs(weights.mean() - 1) < 4 / math.sqrt(n)
    assert abs(weights.var() - 1) < 4 * math.sqrt(3 / n)
    expected = scipy_stats.poisson.pmf(np.arange(6), 1) * n
    observed = np.bincount(weights.ravel(), minlength=9)[:6]
    assert (np.abs(observed - expected) < 4.5 * np.sqrt(expected)).all()


def test_the_table_of_draws_has_mean_and_variance_1():
    from spark_recmetrics.stats.resample import _AT_LEAST

    assert sum(_AT_LEAST) == 65536
    assert sum((2 * j - 1) * count for j, count in enumerate(_AT_LEAST, 1)) == 2 * 65536
    for j, count in enumerate(_AT_LEAST, 1):
        assert abs(count - 65536 * scipy_stats.poisson.sf(j - 1, 1)) < 1


@pytest.mark.parametrize("users", [hashes(3000), np.arange(3000, dtype=np.uint64)], ids=["hashed", "0, 1, 2, ..."])
def test_weights_are_independent(users):
    weights = stats.poisson_weights(users, 300, 7).astype(float)
    others = stats.poisson_weights(users, 300, 8).astype(float)
    for rows in (weights, weights.T):
        correlation = np.corrcoef(rows)
        apart = correlation[~np.eye(len(correlation), dtype=bool)]
        assert abs(apart.mean()) < 1e-3
        assert apart.std() == pytest.approx(1 / math.sqrt(rows.shape[1]), rel=0.03)
        assert np.abs(apart).max() < 6 / math.sqrt(rows.shape[1])
    assert abs(np.corrcoef(weights.ravel(), others.ravel())[0, 1]) < 4 / math.sqrt(weights.size)
    assert abs(np.corrcoef(weights[:-1].ravel(), weights[1:].ravel())[0, 1]) < 4 / math.sqrt(weights.size)
    assert abs(np.corrcoef(weights[:, :-1].ravel(), weights[:, 1:].ravel())[0, 1]) < 4 / math.sqrt(weights.size)


def test_a_user_has_the_same_weights_wherever_it_stands():
    users = hashes(20_000)
    weights = stats.poisson_weights(users, 103, 5)
    order = np.random.default_rng(2).permutation(len(users))
    for n_parts in (1, 3, 700):
        parts = [stats.poisson_weights(part, 103, 5) for part in np.array_split(users[order], n_parts)]
        assert (np.concatenate(parts, axis=1) == weights[:, order]).all()
    assert (stats.poisson_weights(users, 40, 5) == weights[:40]).all()
    assert (stats.poisson_weights(users.view(np.int64), 103, 5) == weights).all()
    assert stats.poisson_weights(users[:0], 103).shape == (103, 0)


def test_weights_are_a_stream_of_splitmix64():
    """The published generator, in Python's own integers."""

    def mixed(z):
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    step, quantiles = 0x9E3779B97F4A7C15, [41426, 17318, 5263, 1244, 240, 39, 5, 1]
    for user, seed in ((0, 0), (2**64 - 1, 12345), (77, 2**64 - 1)):
        state, expected = mixed((user + mixed((seed + step) % 2**64)) % 2**64), []
        for _ in range(50):
            state = (state + step) % 2**64
            draws = [mixed(state) >> shift & 0xFFFF for shift in (0, 16, 32, 48)]
            expected += [sum(draw >= 65536 - q for q in quantiles) for draw in draws]
        assert stats.poisson_weights(np.array([user], dtype=np.uint64), 200, seed)[:, 0].tolist() == expected


def test_sums_of_replicates():
    rng = np.random.default_rng(4)
    table = rng.random((5000, 4))
    table[rng.random(table.shape) < 0.1] = NAN
    table[:, 2] = 0.5
    weights = stats.poisson_weights(hashes(5000), 100)
    sums, counts = stats.bootstrap_sums(table, weights)
    for column in range(4):
        there = ~np.isnan(table[:, column])
        assert sums[:, column] == pytest.approx((weights[:, there] * table[there, column]).sum(axis=1), rel=1e-12)
        assert (counts[:, column] == weights[:, there].sum(axis=1)).all()
    parts = [stats.bootstrap_sums(table[part], weights[:, part]) for part in (slice(0, 77), slice(77, None))]
    assert sums == pytest.approx(parts[0][0] + parts[1][0], rel=1e-12)
    assert (counts == parts[0][1] + parts[1][1]).all()


# What is refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.paired_t_test([1, 2], [1]), "a and b: expected one value of each for every user, found 2 and 1"),
        (lambda: stats.sign_test([[1, 2]], [[1, 2]]), r"a: expected numbers in one dimension, found int64 of shape \(1, 2\)"),
        (lambda: stats.sign_test([1, 2], ["1", "2"]), r"b: expected numbers in one dimension, found <U1 of shape \(2,\)"),
        (lambda: stats.sign_test([1, None], [1, 2]), r"a: expected numbers in one dimension, found object of shape \(2,\)"),
        (lambda: stats.sign_test([1, math.inf], [1, 2]), "a: expected finite numbers or NaN, found 1 infinite"),
        (lambda: stats.sign_test([1, 2], [1, 3], alpha=5), "alpha: expected a number from 1e-06 to 0.5, such as 0.05, found 5"),
        (
            lambda: stats.t_from_moments(9, 1.0, 1.0, alpha=0.85),
            "alpha: expected a number from 1e-06 to 0.5, such as 0.05, found 0.85",
        ),
        (
            lambda: stats.smallest_difference(1.0, 9, alpha=1e-300),
            "alpha: expected a number from 1e-06 to 0.5, such as 0.05, found 1e-300",
        ),
        (
            lambda: stats.confidence_sequence([], n_target=9, alpha=0.9),
            "alpha: expected a number from 1e-06 to 0.5, such as 0.05, found 0.9",
        ),
        (
            lambda: stats.bootstrap_ci([1, 2], confidence=95),
            "confidence: expected a number from 0.5 to 0.999999, such as 0.95, found 95",
        ),
        (lambda: stats.bootstrap_ci([1, 2], seed=-1), r"seed: expected a whole number from 0, below 2\^64, found -1"),
        (lambda: stats.bootstrap_ci([1, 2], n=2.5), "n: expected a whole number from 0, found 2.5"),
        (lambda: stats.bootstrap_ci("12"), r"values: expected numbers in one dimension, found <U2 of shape \(\)"),
        (lambda: stats.t_from_moments(-1, 0.0, 0.0), "n: expected a whole number from 0, found -1"),
        (lambda: stats.t_from_moments(5, None, 0.0), "mean: expected a finite number, found None"),
        (lambda: stats.t_from_moments(5, 0.1, NAN), "variance: expected a finite number from 0, found nan"),
        (lambda: stats.sign_from_counts(True, 3), "wins: expected a whole number from 0, found True"),
        (lambda: stats.wilcoxon_from_histogram([0, 1], [1, 1], [1, 1]), "magnitudes: expected numbers above 0, found others"),
        (
            lambda: stats.wilcoxon_from_histogram([1], [1, 1], [1]),
            "n_positive: expected 1 counts, one for each magnitude, found 2",
        ),
        (lambda: stats.wilcoxon_from_histogram([1], [1], [0.5]), "n_negative: expected whole numbers from 0, found others"),
        (lambda: stats.smallest_difference(1.0, 1), "n: expected at least two pairs, found 1"),
        (lambda: stats.smallest_difference(-1.0, 9), "std: expected a finite number from 0, found -1.0"),
        (lambda: stats.smallest_difference(1.0, 9, power=0.05), "power: expected more than alpha = 0.05, found 0.05"),
        (lambda: stats.adjust([0.5, 1.5], "none"), "p_values: expected numbers from 0 to 1, found 1.5"),
        (lambda: stats.adjust([0.5, "0.1"], "none"), r"p_values\[1\]: expected a finite number from 0, found '0.1'"),
        (lambda: stats.adjust([0.5], "holms"), "method: unknown method 'holms'; did you mean 'holm'?"),
        (
            lambda: stats.confidence_sequence([(5, 1.0)], n_target=9),
            r"nights\[0\]: expected \(number, mean, variance\), found \(5, ",
        ),
        (
            lambda: stats.confidence_sequence([(5, 1.0, -1)], n_target=9),
            r"nights\[0\]: variance: expected a finite number from 0, fo",
        ),
        (lambda: stats.false_alarm_rate(-0.1, 9), "half_width: expected a finite number from 0, found -0.1"),
        (lambda: stats.false_alarm_rate(0.1, 1), "n: expected at least two differences, found 1"),
        (lambda: stats.false_alarm_rate(0.1, 9, allowed=-1), "allowed: expected a finite number from 0, found -1"),
        (lambda: stats.false_alarm_rate(0.1, 9, alpha=5), "alpha: expected a number from 1e-06 to 0.5, such as 0.05, found 5"),
        (lambda: stats.confidence_sequence([], n_target=1), "n_target: expected at least two differences, found 1"),
        (
            lambda: stats.poisson_weights(np.arange(3.0), 4),
            r"user_hash: expected one 64-bit integer for each user, found float64 of",
        ),
        (lambda: stats.poisson_weights(hashes(3), 0), r"n: expected a whole number from 1, below 2\^64, found 0"),
        (
            lambda: stats.bootstrap_sums([1.0], np.ones((2, 1))),
            r"values: expected numbers of users x columns, found float64 of shape",
        ),
        (
            lambda: stats.bootstrap_sums([[1.0]], np.ones((2, 3))),
            "weights: expected numbers of replicates x 1 users, found float64",
        ),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        call()


def test_the_weights_need_no_scipy():
    """Executors have none."""
    code = "import sys, spark_recmetrics as srm; srm.stats.poisson_weights; print({'scipy', 'pyspark'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
