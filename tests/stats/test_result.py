"""Results of tests as text, and the minimum detectable effect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special
from scipy import stats as scipy_stats
from stats_data import TESTS, values

from spark_recmetrics import ConfigError, stats


def test_no_result_says_that_models_are_equal():
    a, b = values(3)
    for test in TESTS:
        result = test(a, b, alpha=1e-6)
        assert "not significant" in str(result)
        assert f"minimum detectable effect {result.smallest_difference:.4g} with 80 % power" in str(result)
        assert "equal" not in str(result)
        assert result.smallest_difference == stats.smallest_difference(result.std, 40, alpha=1e-6)


def test_the_text_of_a_difference():
    assert str(stats.paired_t_test([1, 2, 3, 4], [2, 3, 5, 6])).splitlines() == [
        "paired t: significant at 0.05",
        "  b - a = 1.5, 95 % confidence interval [0.581307, 2.41869], p = 0.01385, d_z = 2.598",
        "  n = 4: b higher in 4, lower in 0, tied in 0",
    ]
    assert str(stats.sign_test(np.arange(9), np.arange(9) + 1)).startswith(
        "sign: significant at 0.05, effect size undefined (all differences are equal and not 0)\n"
    )
    assert (
        str(stats.sign_from_counts(9, 1))
        == "sign: significant at 0.05\n  p = 0.02148\n  n = 10: b higher in 9, lower in 1, tied in 0"
    )


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
    result = weights @ (special.ndtr(shift - critical * s) + special.ndtr(-shift - critical * s)) / weights.sum()
    assert result == pytest.approx(power, abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: stats.smallest_difference(1.0, 9, alpha=1e-300),
            "alpha: expected a number from 1e-06 to 0.5, such as 0.05, found 1e-300",
        ),
        (lambda: stats.smallest_difference(1.0, 1), "n: expected at least two pairs, found 1"),
        (lambda: stats.smallest_difference(-1.0, 9), "std: expected a finite number of at least 0, found -1.0"),
        (
            lambda: stats.smallest_difference(1.0, 9, power=0.05),
            "power: expected a number above alpha = 0.05 and below 1, such as 0.8, found 0.05",
        ),
    ],
)
def test_wrong_arguments_are_rejected(call, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        call()
