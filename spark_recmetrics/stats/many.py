"""Many tests at once, and the same comparison every night: what keeps chance from being found at last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.stats.result import ROUNDING, Interval, count, level, number
from spark_recmetrics.text import did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

Test = Literal["paired_t", "wilcoxon", "sign", "bootstrap"]
Correction = Literal["none", "bonferroni", "holm", "benjamini_hochberg"]


def check_options(test: str, correction: str, alpha: float, n_resamples: int, seed: int) -> None:
    """Refuse options that `compare` has not.

    Raises:
        ConfigError: An option is wrong; its name comes first in the message.
    """
    for option, value, choices in (("test", test, get_args(Test)), ("correction", correction, get_args(Correction))):
        if value not in choices:
            raise ConfigError(f"{option}: unknown value {value!r}{did_you_mean(str(value), choices)}")
    level(alpha)
    if test == "bootstrap" and (isinstance(n_resamples, bool) or not isinstance(n_resamples, int) or n_resamples < 100):
        raise ConfigError(f"n_resamples: expected a whole number from 100, found {n_resamples!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 63:
        raise ConfigError(f"seed: expected a whole number from 0, below 2^63, found {seed!r}")


def adjust(p_values: Sequence[float | None], method: str) -> list[float | None]:
    """The p values of a family of m tests, adjusted: a test is significant where its adjusted p is at most alpha.

    With p_(i) the i-th smallest, and nothing above 1:

    - `bonferroni`: m p. The chance of any false alarm in the family is at most alpha.
    - `holm`: the largest (m - j + 1) p_(j) over j <= i. The same promise, and never a larger p.
    - `benjamini_hochberg`: the smallest (m / j) p_(j) over j >= i. Of what is found, alpha is false on average, for tests that
      are independent or positively related.
    - `none`: p.

    Args:
        p_values: (m,) raw p values. One that is None or NaN is undefined: it is no part of the family, and stays as it is.
        method: One of the above.

    Returns:
        (m,) adjusted p values in the order given.

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
    undefined = [p is None or (isinstance(p, float | np.floating) and math.isnan(p)) for p in adjusted]
    defined = [place for place, out in enumerate(undefined) if not out]
    p = np.array([number(adjusted[place], f"p_values[{place}]", lowest=0.0) for place in defined])
    if (p > 1).any():
        raise ConfigError(f"p_values: expected numbers from 0 to 1, found {p.max():g}")
    m, order = len(p), np.argsort(p, kind="stable")
    found = p.copy()
    if method == "bonferroni":
        found = m * p
    elif method == "holm":
        found[order] = np.maximum.accumulate(p[order] * np.arange(m, 0, -1))
    elif method == "benjamini_hochberg":
        found[order] = np.minimum.accumulate((p[order] * m / np.arange(1, m + 1))[::-1])[::-1]
    for place, value in zip(defined, found, strict=True):
        adjusted[place] = min(float(value), 1.0)
    return adjusted


def false_alarm_rate(
    half_width: float, n: int | None = None, *, allowed: float = 0.0, tested: bool = False, alpha: float = 0.05
) -> float:
    """The chance that a difference looks worse by more than is allowed, in one look, where in truth there is none.

        P( T > q m ), where m = allowed / half_width, and at least 1 if the difference is tested, too

    T has Student's t distribution with n - 1 degrees of freedom, and q is its 1 - alpha/2 quantile. A two-sided test at alpha
    that counts only where the difference is worse is one-sided in effect: its rate is alpha/2, and less where `allowed` is
    more than what is just significant. Without a test, and nothing allowed, it is one half.

    Args:
        half_width: Half the width of the interval of the mean difference at 1 - alpha, which is q std / sqrt(n).
        n: Differences that it is made of, from 2; None: the interval is that of the normal distribution.
        allowed: By how much the difference may be worse, from 0, in the unit of the interval.
        tested: Whether the difference must be significant, too.
        alpha: Level of interval and test.

    Returns:
        The rate, up to 1/2; 0 where the differences have no spread.

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
    nights: Sequence[tuple[int, float, float | None]], *, n_target: int, alpha: float = 0.05
) -> list[Interval]:
    """Intervals of the mean difference that hold on all nights at once, however often one looks and whenever one stops.

    A t interval looked at every night excludes the truth sooner or later; this asymptotic confidence sequence does so with
    probability alpha in all of time, as the first n grows. After n differences with mean and standard deviation s it is

        mean ± s sqrt( 2 (n r + 1) / (n^2 r) · log( sqrt(n r + 1) / alpha ) )

    where r = rho^2 makes it narrowest at n = `n_target`: there n r = -W(-alpha^2 / e) - 1 with the lower branch of Lambert's W.

    The differences have to be independent. Where the same users come back every night theirs are not, and a night is then one
    observation: `(1, mean, None)`. Below 30 differences, or 50 of skewed values, the interval promises too much.

    Args:
        nights: (number, mean, variance (n - 1)) of the paired differences of each night in turn. Variance may be None for
            a single one. What is accumulated already is one entry.
        n_target: The number of differences at which a narrow interval matters most, chosen before the first night.
        alpha: Chance of ever excluding the truth.

    Returns:
        Mean and interval after each night. The interval is None below two differences, and where all are the same and not 0.

    Raises:
        ConfigError: A night is not such a triple, or `n_target` or alpha is out of range.

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
    n, mean, variance = _accumulated(nights)
    rho = (-float(lambertw(-(level(alpha) ** 2) / math.e, -1).real) - 1) / n_target
    looks = []
    for size, centre, spread in zip(n.tolist(), mean.tolist(), variance.tolist(), strict=True):
        if size < 2 or (centre and math.sqrt(spread) <= ROUNDING * abs(centre)):
            looks.append(Interval(int(size), centre if size else None, None, None))
            continue
        scaled = size * rho + 1
        half = math.sqrt(spread * 2 * scaled / (size * size * rho) * math.log(math.sqrt(scaled) / alpha))
        looks.append(Interval(int(size), centre, centre - half, centre + half))
    return looks


def _accumulated(nights: Sequence[tuple[int, float, float | None]]) -> tuple[NDArray[np.float64], ...]:
    """Number, mean and variance of all differences up to each night."""
    rows = []
    for place, night in enumerate(nights):
        where = f"nights[{place}]"
        if not isinstance(night, tuple | list) or len(night) != 3:
            raise ConfigError(f"{where}: expected (number, mean, variance), found {night!r}")
        size = count(night[0], f"{where}: number")
        centre = number(night[1], f"{where}: mean") if size else 0.0
        rows.append((size, centre, number(night[2], f"{where}: variance", lowest=0.0) if size > 1 else 0.0))
    n, mean, variance = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    total = np.cumsum(n)
    # Means are taken from that of the first night, so that the square of a large mean does not swallow a small variance.
    first = float(mean[n > 0][:1].sum())
    shift = np.where(n > 0, mean - first, 0.0)
    offset = np.cumsum(n * shift) / np.maximum(total, 1)
    squares = np.cumsum(np.maximum(n - 1, 0) * variance + n * shift**2) - total * offset**2
    return total, first + offset, np.maximum(squares, 0.0) / np.maximum(total - 1, 1)
