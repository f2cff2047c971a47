"""Corrections for many tests, and for a comparison that is repeated in every run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.stats.result import ROUNDING, Interval, count, level, number
from spark_recmetrics.text import did_you_mean

Test = Literal["paired_t", "wilcoxon", "sign", "bootstrap"]
Correction = Literal["none", "bonferroni", "holm", "benjamini_hochberg"]


def check_options(test: str, correction: str, alpha: float, n_resamples: int, seed: int) -> None:
    """Raise `ConfigError` if an option of `compare` is invalid. The message begins with its name."""
    for option, value, choices in (("test", test, get_args(Test)), ("correction", correction, get_args(Correction))):
        if value not in choices:
            raise ConfigError(f"{option}: unknown value {value!r}{did_you_mean(str(value), choices)}")
    level(alpha)
    if test == "bootstrap" and (isinstance(n_resamples, bool) or not isinstance(n_resamples, int) or n_resamples < 100):
        raise ConfigError(f"n_resamples: expected an integer of at least 100, found {n_resamples!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 63:
        raise ConfigError(f"seed: expected an integer of at least 0 and below 2^63, found {seed!r}")


def adjust(p_values: Sequence[float | None], method: str) -> list[float | None]:
    """Adjusted p values of a family of m tests. A test is significant if its adjusted p value is at most alpha.

    With p_(i) the i-th smallest p value, and with results cut at 1:

    - `bonferroni`: m p. The probability of any false positive in the family is at most alpha.
    - `holm`: the largest (m - j + 1) p_(j) over j <= i. Same guarantee, with p values that are never larger.
    - `benjamini_hochberg`: the smallest (m / j) p_(j) over j >= i. The expected share of false positives among the significant
      tests is at most alpha, if the tests are independent or positively dependent.
    - `none`: p.

    Args:
        p_values: (m,) raw p values. None and NaN are undefined: they are not part of the family and stay as they are.
        method: One of the methods above.

    Returns:
        (m,) adjusted p values in the given order.

    Raises:
        ConfigError: A value is not in [0, 1], or the method is unknown.

    Source:
        Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979. Benjamini and
        Hochberg, Controlling the false discovery rate, Journal of the Royal Statistical Society B 57, 1995.

    Example:
        >>> adjust([0.0625, None, 0.25, 0.125], "holm")
        [0.1875, None, 0.25, 0.25]
        >>> adjust([0.0625, None, 0.25, 0.125], "bonferroni")
        [0.1875, None, 0.75, 0.375]
    """
    if method not in get_args(Correction):
        raise ConfigError(f"method: unknown method {method!r}{did_you_mean(str(method), get_args(Correction))}")
    adjusted = list(p_values)
    defined = [i for i, p in enumerate(adjusted) if not (p is None or (isinstance(p, float | np.floating) and math.isnan(p)))]
    p = np.array([number(adjusted[i], f"p_values[{i}]", lowest=0.0) for i in defined])
    if (p > 1).any():
        raise ConfigError(f"p_values: expected numbers from 0 to 1, found {p.max():g}")
    m, order = len(p), np.argsort(p, kind="stable")
    corrected = p.copy()
    if method == "bonferroni":
        corrected = m * p
    elif method == "holm":
        corrected[order] = np.maximum.accumulate(p[order] * np.arange(m, 0, -1))
    elif method == "benjamini_hochberg":
        corrected[order] = np.minimum.accumulate((p[order] * m / np.arange(1, m + 1))[::-1])[::-1]
    for i, value in zip(defined, corrected, strict=True):
        adjusted[i] = min(float(value), 1.0)
    return adjusted


def false_alarm_rate(
    half_width: float, n: int | None = None, *, allowed: float = 0.0, tested: bool = False, alpha: float = 0.05
) -> float:
    """Probability that one comparison shows a drop of more than `allowed` although the true difference is 0.

        P( T > q m ), where m = allowed / half_width, but at least 1 if the difference must also be significant

    T has Student's t distribution with n - 1 degrees of freedom, and q is its 1 - alpha/2 quantile. A two-sided test at alpha
    that only counts drops has the rate alpha/2, or less if `allowed` is above the smallest significant drop. Without a test and
    with `allowed` 0, the rate is 1/2.

    Args:
        half_width: Half the width of the confidence interval of the mean difference at 1 - alpha, which is q std / sqrt(n).
        n: Number of differences, at least 2. None: the interval uses the normal distribution.
        allowed: Largest drop that is allowed, at least 0, in the unit of the interval.
        tested: Whether the drop must also be significant.
        alpha: Significance level of the interval and the test.

    Returns:
        The rate, at most 1/2; 0 if the differences have no variance.

    Raises:
        ConfigError: An argument is out of range.

    Source:
        Student, The probable error of a mean, 1908.

    Example:
        >>> false_alarm_rate(0.01, 1000), round(false_alarm_rate(0.01, 1000, tested=True), 6)
        (0.5, 0.025)
        >>> round(false_alarm_rate(0.01, 1000, allowed=0.02), 6)
        4.6e-05
    """
    from scipy.stats import t

    half, limit = number(half_width, "half_width", lowest=0.0), number(allowed, "allowed", lowest=0.0)
    if n is not None and count(n, "n") < 2:
        raise ConfigError(f"n: expected at least two differences, found {n}")
    freedom = math.inf if n is None else n - 1
    multiple = max(limit / half, 1.0 if tested else 0.0) if half else math.inf
    return float(t.sf(t.isf(level(alpha) / 2, freedom) * multiple, freedom))


def confidence_sequence(
    runs: Sequence[tuple[int, float, float | None]], *, n_target: int, alpha: float = 0.05
) -> list[Interval]:
    """Confidence intervals of the mean difference that hold after all runs at once, however often they are checked.

    A t interval that is checked after every run excludes the true mean sooner or later. This asymptotic confidence sequence
    ever does so with probability alpha, as the first n grows. After n differences with mean and standard deviation s it is

        mean ± s sqrt( 2 (n r + 1) / (n^2 r) · log( sqrt(n r + 1) / alpha ) )

    where r = rho^2 makes it narrowest at n = `n_target`: there n r = -W(-alpha^2 / e) - 1 with the lower branch of Lambert's W.

    The differences must be independent. If the same users occur in every run, they are not; each run is then one observation:
    `(1, mean, None)`. With fewer than 30 differences, or fewer than 50 skewed ones, the interval is too narrow.

    Args:
        runs: (number, mean, variance) of the paired differences of each run in turn, the variance with denominator n - 1. The
            variance of a single difference may be None. Differences that are accumulated already are one entry.
        n_target: Number of differences at which a narrow interval matters most, chosen before the first run.
        alpha: Probability of ever excluding the true mean.

    Returns:
        Mean and confidence interval after each run. The interval is None with fewer than two differences, and if all are equal
        and not 0.

    Raises:
        ConfigError: A run is not such a triple, or `n_target` or alpha is out of range.

    Source:
        Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central limit theory and asymptotic confidence sequences,
        2021 (Annals of Statistics 52, 2024), theorem 2.2 and its appendix on the choice of rho.

    Example:
        >>> for look in confidence_sequence([(500, 0.02, 0.09), (400, 0.03, 0.09), (600, 0.03, 0.09)], n_target=1500):
        ...     print(look.n, round(look.mean, 4), round(look.ci_low, 4), round(look.ci_high, 4), look.excludes_zero)
        500 0.02 -0.0224 0.0624 False
        900 0.0244 -0.0061 0.055 False
        1500 0.0267 0.0032 0.0502 True
    """
    from scipy.special import lambertw

    if count(n_target, "n_target") < 2:
        raise ConfigError(f"n_target: expected at least two differences, found {n_target}")
    n, mean, variance = _accumulated(runs)
    rho = (-float(lambertw(-(level(alpha) ** 2) / math.e, -1).real) - 1) / n_target
    intervals = []
    for size, center, spread in zip(n.tolist(), mean.tolist(), variance.tolist(), strict=True):
        if size < 2 or (center and math.sqrt(spread) <= ROUNDING * abs(center)):
            intervals.append(Interval(int(size), center if size else None, None, None))
            continue
        scaled = size * rho + 1
        half = math.sqrt(spread * 2 * scaled / (size * size * rho) * math.log(math.sqrt(scaled) / alpha))
        intervals.append(Interval(int(size), center, center - half, center + half))
    return intervals


def _accumulated(runs: Sequence[tuple[int, float, float | None]]) -> tuple[NDArray[np.float64], ...]:
    """Number, mean and variance of all differences up to each run."""
    rows = []
    for position, run in enumerate(runs):
        where = f"runs[{position}]"
        if not isinstance(run, tuple | list) or len(run) != 3:
            raise ConfigError(f"{where}: expected (number, mean, variance), found {run!r}")
        size = count(run[0], f"{where}: number")
        center = number(run[1], f"{where}: mean") if size else 0.0
        rows.append((size, center, number(run[2], f"{where}: variance", lowest=0.0) if size > 1 else 0.0))
    n, mean, variance = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    total = np.cumsum(n)
    # Means are shifted by the first one, so that the square of a large mean does not absorb a small variance.
    first = float(mean[n > 0][:1].sum())
    shift = np.where(n > 0, mean - first, 0.0)
    offset = np.cumsum(n * shift) / np.maximum(total, 1)
    squares = np.cumsum(np.maximum(n - 1, 0) * variance + n * shift**2) - total * offset**2
    return total, first + offset, np.maximum(squares, 0.0) / np.maximum(total - 1, 1)
