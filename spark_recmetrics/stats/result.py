"""What a test or an interval found, and the checks of arguments that all of them share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from spark_recmetrics.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

ROUNDING = 1e-12
"""Differences below this share of the values are what is left of a sum in another order, and count as none."""

FEWEST_RESAMPLES = 100
"""Fewer say nothing about the tails of a distribution."""

REASONS = {
    "no_pair": "there is no pair of values",
    "one_pair": "one pair has no spread",
    "zero_variance": "all differences are the same and not 0",
    "no_replicate": "no replicate drew a user",
}
"""Why something is undefined."""


@dataclass(frozen=True)
class TestResult:
    """What a test found. None stands for what is undefined, with `reason`, or not known from the sums that were given.

    Args:
        test: `paired_t`, `wilcoxon`, `sign` or `bootstrap`.
        statistic: t; the smaller rank sum; wins; the mean difference.
        p_value: Two-sided.
        effect_size: Paired d_z, the mean of the differences over their standard deviation (n - 1).
        mean_difference: Of b - a.
        ci_low: Lower end of the interval of the mean difference at 1 - alpha: of the bootstrap its own, else by t.
        ci_high: Upper end.
        n: Pairs.
        wins: Pairs in which b is higher.
        ties: Pairs without a difference.
        losses: Pairs in which b is lower.
        alpha: Level of the test.
        reason: A key of `REASONS`, or None.
        std: Standard deviation of the differences.
        n_left_out: Pairs in which a value is NaN.
        direction: Which is higher by what the test looks at: 1 is b, -1 is a, 0 is neither; None: not known. It is the mean
            difference of t and bootstrap, the rank sums of Wilcoxon, the number of wins of the sign test. So a mean that a few
            users make may point the other way.
    """

    __test__: ClassVar[bool] = False  # pytest takes a class with this name for tests

    test: str
    statistic: float | None
    p_value: float | None
    effect_size: float | None
    mean_difference: float | None
    ci_low: float | None
    ci_high: float | None
    n: int
    wins: int | None
    ties: int | None
    losses: int | None
    alpha: float
    reason: str | None = None
    std: float | None = None
    n_left_out: int = 0
    direction: int | None = None

    @property
    def significant(self) -> bool:
        """Whether p is defined and at most alpha."""
        return self.p_value is not None and self.p_value <= self.alpha

    @property
    def smallest_difference(self) -> float | None:
        """The smallest difference that a t test on so many pairs finds with 80 % power; None without a spread."""
        return smallest_difference(self.std, self.n, alpha=self.alpha) if self.std and self.n > 1 else None

    def __str__(self) -> str:
        why = f" ({REASONS[self.reason]})" if self.reason else ""
        pairs = f"n = {self.n}"
        if self.wins is not None:
            pairs += f": b higher in {self.wins}, lower in {self.losses}, tied in {self.ties}"
        if self.n_left_out:
            pairs += f"; {self.n_left_out} left out for NaN"
        parts = [] if self.mean_difference is None else [f"b - a = {self.mean_difference:.6g}"]
        if self.ci_low is not None:
            parts.append(f"{100 * (1 - self.alpha):g} % interval {self.ci_low:.6g} to {self.ci_high:.6g}")
        if self.p_value is not None:
            parts.append(f"p = {self.p_value:.4g}")
        if self.effect_size is not None:
            parts.append(f"d_z = {self.effect_size:.4g}")
        least = None if self.significant else self.smallest_difference
        if self.p_value is None:
            verdict = f"undefined{why}"
        else:
            verdict = f"{'' if self.significant else 'no '}difference found at {self.alpha:g}"
            verdict += f" ({self.n} pairs show one of {least:.4g} with 80 % power)" if least else ""
            verdict += f", effect size undefined{why}" if why else ""
        lines = (f"{self.test.replace('_', ' ')}: {verdict}", ", ".join(parts), pairs)
        return "\n  ".join(line for line in lines if line)


class Interval(NamedTuple):
    """A mean and its interval.

    Args:
        n: Values.
        mean: Their mean; None where there is none.
        ci_low: Lower end; None below two values, and where all are the same and not 0.
        ci_high: Upper end.
        n_left_out: Values that are NaN.
    """

    n: int
    mean: float | None
    ci_low: float | None
    ci_high: float | None
    n_left_out: int = 0

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval is defined and 0 lies outside."""
        return self.ci_low is not None and self.ci_high is not None and not self.ci_low <= 0 <= self.ci_high


def smallest_difference(std: float, n: int, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest mean difference that a two-sided paired t test of n pairs finds with the given power.

    The d for which P(|T| > t) = power, with t the critical value at alpha, and T of the noncentral t distribution with n - 1
    degrees of freedom and noncentrality d sqrt(n) / std.

    Args:
        std: Standard deviation of the differences (n - 1), in the unit of the metric.
        n: Pairs, from 2.
        alpha: Level.
        power: Above alpha.

    Returns:
        The difference, in the unit of `std`; 0 where `std` is 0.

    Raises:
        ConfigError: `std` is negative or no number, there are fewer than two pairs, or alpha or power is out of range.

    Source:
        Cohen, Statistical power analysis for the behavioral sciences, 2nd edition, 1988, chapter 2; the noncentral t:
        Johnson, Kotz and Balakrishnan, Continuous univariate distributions, volume 2, 2nd edition, 1995, chapter 31.

    Example:
        >>> round(smallest_difference(0.3, 1000), 4)
        0.0266
    """
    from scipy.optimize import brentq
    from scipy.stats import nct, t

    spread = number(std, "std", lowest=0.0)
    if count(n, "n") < 2:
        raise ConfigError(f"n: expected at least two pairs, found {n}")
    if share(power, "power") <= share(alpha, "alpha"):
        raise ConfigError(f"power: expected more than alpha = {alpha}, found {power}")
    critical = float(t.isf(alpha / 2, n - 1))

    def beyond(noncentrality: float) -> float:
        near, far = nct.sf(critical, n - 1, noncentrality), nct.cdf(-critical, n - 1, noncentrality)
        # scipy gives NaN where the far tail is too small for its series, which is below 1e-15.
        return float(near + np.nan_to_num(far)) - power

    high = critical + 1
    while beyond(high) < 0:
        high *= 2
    return float(brentq(beyond, 0.0, high, xtol=1e-12, rtol=1e-12)) * spread / math.sqrt(n)


# Arguments ----------------------------------------------------------------------------------------------------------------


def number(value: object, name: str, lowest: float = -math.inf) -> float:
    """A finite number, and nothing that only looks like one."""
    numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not numeric or not math.isfinite(value) or not value >= lowest:  # type: ignore[arg-type, operator]
        above = "" if lowest == -math.inf else f" from {lowest:g}"
        raise ConfigError(f"{name}: expected a finite number{above}, found {value!r}")
    return float(value)  # type: ignore[arg-type]


def share(value: object, name: str) -> float:
    """A number above 0 and below 1.

    Example:
        >>> share(5, "alpha")
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: alpha: expected a number between 0 and 1, such as 0.05, found 5
    """
    if isinstance(value, int | float | np.integer | np.floating) and 0 < value < 1:
        return float(value)
    example = {"alpha": 0.05, "power": 0.8}.get(name, 0.95)
    raise ConfigError(f"{name}: expected a number between 0 and 1, such as {example}, found {value!r}")


def count(value: object, name: str) -> int:
    """A whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ConfigError(f"{name}: expected a whole number from 0, found {value!r}")
    return int(value)


def frequencies(values: ArrayLike, name: str, length: int) -> NDArray[np.float64]:
    """(M,) whole numbers from 0, as floats that do not overflow when they are multiplied."""
    found = numbers(values, name)
    if len(found) != length:
        raise ConfigError(f"{name}: expected {length} counts, one for each magnitude, found {len(found)}")
    if not ((found >= 0) & (found == np.floor(found))).all():
        raise ConfigError(f"{name}: expected whole numbers from 0, found others")
    return found


def numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """(N,) numbers; NaN is let through.

    Example:
        >>> numbers(["0.5"], "a")
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: a: expected numbers in one dimension, found <U4 of shape (1,)
    """
    found = np.asarray(values)
    if found.ndim == 1 and found.size == 0:
        return np.zeros(0)
    if found.ndim != 1 or found.dtype.kind not in "biuf":
        raise ConfigError(f"{name}: expected numbers in one dimension, found {found.dtype} of shape {found.shape}")
    found = found.astype(np.float64)
    if np.isinf(found).any():
        raise ConfigError(f"{name}: expected finite numbers or NaN, found {int(np.isinf(found).sum())} infinite")
    return found


def resamples(n: object, name: str = "n") -> int:
    """The number of replicates of a bootstrap."""
    checked = count(n, name)
    if checked < FEWEST_RESAMPLES:
        raise ConfigError(
            f"{name}: expected at least {FEWEST_RESAMPLES} resamples, found {checked} (B < {FEWEST_RESAMPLES}): 1000 is usual"
        )
    return checked
