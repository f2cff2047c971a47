"""Paired tests: cases worked by hand, agreement with scipy, and simulations."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy
from scipy import stats as scipy_stats
from stats_data import BY_NAME, NAN, TESTS, values

from spark_recmetrics import ConfigError, DataError, stats


@BY_NAME
def test_t1_identical_models(test):
    result = test([0.5, 0.25, 1.0], [0.5, 0.25, 1.0])
    assert (result.statistic, result.p_value, result.effect_size, result.mean_difference) == (0, 1, 0, 0)
    assert (result.wins, result.ties, result.losses, result.reason, result.significant) == (0, 3, 0, None, False)
    assert (result.ci_low, result.ci_high) == (0, 0)
    assert str(result).startswith(f"{result.test.replace('_', ' ')}: not significant at 0.05\n")


def test_t2_the_effect_size_is_paired():
    result = stats.paired_t_test([100, 200, 300, 400], [101, 202, 303, 404])
    assert result.mean_difference == 5 / 2
    assert result.effect_size == pytest.approx(1.936492, abs=5e-7)
    assert result.effect_size == pytest.approx((5 / 2) / math.sqrt(5 / 3))
    assert (result.wins, result.losses, result.n) == (4, 0, 4)


@BY_NAME
def test_t3_zero_variance(test):
    result = test([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
    assert result.effect_size is None
    assert result.reason == "zero_variance"
    assert result.mean_difference == 1
    assert result.ci_low is None
    assert "all differences are equal and not 0" in str(result)
    if result.test == "sign":
        assert result.p_value == 2 / 8
    elif result.test == "wilcoxon":
        # Three ranks of 2: W- = 0, expected 3, variance (3 * 4 * 7 - (3^3 - 3) / 2) / 24 = 3.
        assert result.p_value == pytest.approx(math.erfc(math.sqrt(3 / 2)))
    else:
        assert (result.statistic, result.p_value, result.significant) == (None, None, False)


@BY_NAME
def test_a_constant_shift_is_no_effect_of_1e16(test):
    """0.1 + 0.5 - 0.1 and 0.7 + 0.5 - 0.7 differ in the last bit."""
    a = np.random.default_rng(1).random(50)
    result = test(a, a + 0.5)
    assert len(set((a + 0.5) - a)) > 1
    assert result.reason == "zero_variance"
    assert result.effect_size is None
    assert stats.t_from_moments(50, 0.5, 1e-32).reason == "zero_variance"


@BY_NAME
def test_rounding_is_a_share_of_the_values_and_not_of_the_difference(test):
    """Differences of values of about 1 have an error of 10^-12, which is more than 10^-12 of a difference of 10^-4."""
    a = 1 + np.arange(30) / 7
    result = test(a, a + 1e-4)
    assert np.ptp((a + 1e-4) - a) > 1e-12 * 1e-4
    assert (result.reason, result.effect_size, result.ci_low, result.std) == ("zero_variance", None, None, 0)
    if result.test in ("paired_t", "bootstrap"):
        assert (result.statistic, result.p_value) == (None, None)
    assert stats.bootstrap_from_replicates(0.0, np.linspace(-1e-9, 1e-9, 101), n=9, variance=0.0).p_value == 1


@BY_NAME
@pytest.mark.parametrize(("n", "reason"), [(0, "no_pair"), (1, "one_pair")])
def test_t4_less_than_two_pairs(test, n, reason):
    result = test([0.5, NAN][1 - n :], [1.0, 1.0][1 - n :])
    assert result.n_left_out == 1
    assert (result.n, result.reason, result.statistic, result.p_value, result.effect_size) == (n, reason, None, None, None)
    assert not result.significant
    assert ": undefined (" in str(result)


@pytest.mark.parametrize("n", [1, 99])
def test_t5_a_bootstrap_of_few_resamples_is_refused(n):
    for call in (
        lambda: stats.bootstrap_test([1, 2, 3], [1, 2, 4], n=n),
        lambda: stats.bootstrap_ci([1, 2, 3], n=n),
        lambda: stats.bootstrap_from_replicates(0.5, [0.5] * n, n=3),
    ):
        with pytest.raises(ConfigError, match=rf"^(n|replicates): expected at least 100 replicates, found {n}: 1000 is common"):
            call()


def test_t5_p_of_a_bootstrap_is_never_0():
    rng = np.random.default_rng(0)
    a = rng.random(100)
    assert stats.bootstrap_test(a, a + 1 + 0.01 * rng.random(100), n=100).p_value == 1 / 101


def test_p_of_a_bootstrap_counts_replicates_as_far_off_as_the_mean_from_0():
    replicates = [0.0, 1.0, *[0.5] * 97, 0.99]
    assert stats.bootstrap_from_replicates(0.5, replicates, n=10).p_value == (2 + 1) / (100 + 1)
    result = stats.bootstrap_from_replicates(0.5, [*replicates, NAN], n=10, variance=0.25)
    assert (result.p_value, result.effect_size) == (3 / 101, 1.0)
    assert stats.bootstrap_from_replicates(0.5, [NAN] * 100, n=10).reason == "no_replicate"


@pytest.mark.parametrize("order", [*itertools.islice(itertools.permutations(range(6)), 0, 720, 37)])
def test_sums_in_another_order(order):
    """The order of the users does not change a result or make equal values differ."""
    given = np.array([24.621, 12.14, 0.169, 6.865, 1.879, 16.326])
    other = given[list(order)]
    assert stats.bootstrap_ci(other, n=100).mean == pytest.approx(stats.bootstrap_ci(given, n=100).mean, abs=1e-12)
    first, second = stats.paired_t_test(given, given**0.9), stats.paired_t_test(other, other**0.9)
    for name in ("statistic", "p_value", "effect_size", "mean_difference", "ci_low", "ci_high"):
        assert getattr(first, name) == pytest.approx(getattr(second, name), abs=1e-12)
    sums = [sum(given.tolist()), sum(other.tolist())] * 2
    for test in TESTS:
        result = test(sums, sums[::-1])
        assert (result.statistic, result.p_value, result.ties) == (0, 1, 4)


@BY_NAME
def test_nan_leaves_a_pair_out(test):
    a, b = values(1)
    result = test([*a, NAN, 0.5, NAN], [*b, 0.5, NAN, NAN])
    assert result == replace(test(a, b), n_left_out=3)
    assert "; 3 left out because of NaN" in str(result)


def test_the_direction_is_that_of_what_is_tested():
    """b wins 27 of 30, with the rank sums 378 and 87; but the three losses are so large that its mean is lower."""
    a = np.zeros(30)
    b = np.concatenate([0.001 * np.arange(1, 28), [-1.0, -1.1, -1.2]])
    result = {result.test: result for result in (test(a, b) for test in TESTS)}
    assert {name: result.direction for name, result in result.items()} == {
        "paired_t": -1,
        "bootstrap": -1,
        "wilcoxon": 1,
        "sign": 1,
    }
    assert result["wilcoxon"].statistic == 87
    assert result["sign"].p_value < result["wilcoxon"].p_value < 0.05
    assert all(result.mean_difference == pytest.approx((0.378 - 3.3) / 30) for result in result.values())
    for test in TESTS:
        assert (test(b, a).direction, test(a, a).direction) == (-result[test(a, b).test].direction, 0)
        assert test(a[:1], b[:1]).direction is None


def test_magnitudes_that_differ_by_rounding_are_tied():
    assert 0.1 + 0.2 != 0.3
    assert stats.wilcoxon_from_histogram([0.1 + 0.2, 0.3, 0.5], [1, 0, 1], [0, 1, 0]) == pytest.approx(
        stats.wilcoxon_from_histogram([0.3, 0.5], [1, 1], [1, 0])
    )


ASYMPTOTIC = "asymptotic" if tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 13) else "approx"


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
    for result in (w, s, stats.bootstrap_test(a, b)):
        assert result.effect_size == t.effect_size
        assert result.mean_difference == t.mean_difference


def test_arrays_and_sums_are_the_same():
    a, b = values(7)
    d = (b - a).round(1)
    t = stats.paired_t_test(a, b)
    assert stats.t_from_moments(40, d.mean(), d.var(ddof=1)).p_value == pytest.approx(t.p_value)
    size, counts = np.unique(np.abs(d[d != 0])), {}
    for sign in (1, -1):
        counts[sign] = [int((d == sign * m).sum()) for m in size]
    shuffled = np.random.default_rng(0).permutation(len(size))
    result = stats.wilcoxon_from_histogram(
        size[shuffled], np.array(counts[1])[shuffled], np.array(counts[-1])[shuffled], ties=int((d == 0).sum())
    )
    expected = stats.wilcoxon_test(a, b)
    assert (result.wins, result.ties, result.losses) == (expected.wins, expected.ties, expected.losses)
    for name in ("statistic", "p_value", "effect_size", "mean_difference", "ci_low", "ci_high"):
        assert getattr(result, name) == pytest.approx(getattr(expected, name))


@pytest.mark.parametrize(("wins", "losses"), [(0, 5), (3, 3), (3, 4), (10, 2), (510_000, 490_000), (500_500_000, 499_500_000)])
def test_the_sign_test_is_exact_for_any_number_of_users(wins, losses):
    expected = scipy_stats.binomtest(wins, wins + losses).pvalue
    assert stats.sign_from_counts(wins, losses).p_value == pytest.approx(expected, rel=1e-9)
    assert stats.sign_from_counts(losses, wins).p_value == pytest.approx(expected, rel=1e-9)


def test_a_billion_users():
    result = stats.t_from_moments(10**9, 1e-5, 0.04)
    assert result.statistic == pytest.approx(1e-5 / (0.2 / math.sqrt(1e9)))
    half = 10**9 // 2
    result = stats.wilcoxon_from_histogram([0.25, 0.5], [half // 2] * 2, [half // 2] * 2)
    assert result.p_value == 1


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
    """Of 500 data sets of skewed values like those of nDCG, 95 % have an interval that contains the true mean."""
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
            lambda: stats.bootstrap_ci([1, 2], confidence=95),
            "confidence: expected a number from 0.5 to 0.999999, such as 0.95, found 95",
        ),
        (lambda: stats.bootstrap_ci([1, 2], seed=-1), r"seed: expected an integer of at least 0 and below 2\^64, found -1"),
        (lambda: stats.bootstrap_ci([1, 2], n=2.5), "n: expected an integer of at least 0, found 2.5"),
        (lambda: stats.bootstrap_ci("12"), r"values: expected numbers in one dimension, found <U2 of shape \(\)"),
        (lambda: stats.t_from_moments(-1, 0.0, 0.0), "n: expected an integer of at least 0, found -1"),
        (lambda: stats.t_from_moments(5, None, 0.0), "mean: expected a finite number, found None"),
        (lambda: stats.t_from_moments(5, 0.1, NAN), "variance: expected a finite number of at least 0, found nan"),
        (lambda: stats.sign_from_counts(True, 3), "wins: expected an integer of at least 0, found True"),
        (lambda: stats.wilcoxon_from_histogram([0, 1], [1, 1], [1, 1]), "magnitudes: expected numbers above 0, found others"),
        (
            lambda: stats.wilcoxon_from_histogram([1], [1, 1], [1]),
            "n_positive: expected 1 counts, one for each magnitude, found 2",
        ),
        (lambda: stats.wilcoxon_from_histogram([1], [1], [0.5]), "n_negative: expected integers of at least 0, found others"),
    ],
)
def test_wrong_arguments_are_rejected(call, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        call()


OLD = pd.Series([0.1, 0.2, 0.3, 0.4, 0.5], index=["ann", "bob", "cid", "dan", "eve"])
NEW = pd.Series([0.55, 0.46, 0.32, 0.24, 0.13], index=["eve", "dan", "cid", "bob", "ann"])


@BY_NAME
def test_series_are_aligned_by_their_index(test):
    assert test(OLD, NEW) == test(OLD.to_numpy(), NEW.to_numpy()[::-1])
    assert test(OLD, NEW.to_numpy()) == test(OLD.to_numpy(), NEW.to_numpy())  # an array has no index
    repeated = OLD.set_axis([1, 1, 2, 2, 3])
    assert test(repeated, repeated + 0.1 * OLD.to_numpy()).n == 5  # the same index


def test_aligned_series_have_the_p_value_of_scipy():
    expected = scipy_stats.ttest_rel(NEW.reindex(OLD.index), OLD).pvalue
    assert stats.paired_t_test(OLD, NEW).p_value == pytest.approx(expected, rel=1e-12)
    assert stats.paired_t_test(OLD.to_numpy(), NEW.to_numpy()).p_value > 10 * expected


@BY_NAME
def test_series_of_different_users_are_rejected(test):
    with pytest.raises(ConfigError, match=r"^a and b: expected pandas Series .* found 1 label only in a, such as 'ann': keep"):
        test(OLD, NEW.iloc[:4])
    a, b = OLD.align(NEW.iloc[:4], join="inner")  # the advice
    assert test(a, b) == test(OLD.to_numpy()[1:], NEW.to_numpy()[:4][::-1])
    with pytest.raises(ConfigError, match="found repeated labels in another order: give arrays"):
        test(OLD.set_axis([1, 1, 2, 2, 3]), NEW.set_axis([1, 2, 1, 2, 3]))


def test_counts_are_aligned_with_their_magnitudes():
    magnitudes = pd.Series([1.0, 2.0, 3.0])
    n_positive = pd.Series([1, 1, 2])
    result = stats.wilcoxon_from_histogram(magnitudes, n_positive[::-1], [1, 0, 0])
    assert result == stats.wilcoxon_from_histogram([1, 2, 3], [1, 1, 2], [1, 0, 0])


@BY_NAME
@pytest.mark.parametrize("size", [1e308, 1e-200])
def test_overflow_is_an_error_with_a_way_out(test, size):
    a, b = np.array([1.0, -1.0, 1.0, 0.5]), np.array([-1.0, 1.0, 0.25, 0.75])
    with pytest.raises(DataError, match=r"of which the largest is from 1e-150 to 1e.150, found"):
        test(a * size, b * size)
    assert test(a * size / size, b * size / size).p_value == pytest.approx(test(a, b).p_value)


def test_overflow_of_other_arguments():
    for call in (
        lambda: stats.bootstrap_ci([1e308, 1.5e308, -1e308]),
        lambda: stats.wilcoxon_from_histogram([1e200, 2e200], [1, 1], [0, 1]),
        lambda: stats.bootstrap_from_replicates(0.0, np.linspace(-1e300, 1e300, 101), n=3),
    ):
        with pytest.raises(DataError, match="expected values of which the largest is"):
            call()
