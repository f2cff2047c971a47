"""Results of tests and intervals, and the checks of arguments that they share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.text import counted

ROUNDING = 1e-12
"""Differences below this share of the values are rounding errors and count as 0."""

LARGEST = 1e150
"""The squares of larger values are infinite."""

REASONS = {
    "no_pair": "there are no pairs of values",
    "one_pair": "one pair has no variance",
    "zero_variance": "all differences are equal and not 0",
    "no_replicate": "no replicate has users",
}
"""Why a result is undefined."""


@dataclass(frozen=True)
class TestResult:
    """The result of a test. A field is None if it is undefined, see `reason`, or does not follow from the sums that were given.

    Args:
        test: `paired_t`, `wilcoxon`, `sign` or `bootstrap`.
        statistic: t; the smaller rank sum; the number of wins; the mean difference.
        p_value: Two-sided p value.
        effect_size: Paired d_z: mean of the differences, divided by their standard deviation (with denominator n - 1).
        mean_difference: Mean of b - a.
        ci_low: Lower end of the confidence interval of the mean difference at 1 - alpha; percentiles for the bootstrap, else t.
        ci_high: Upper end.
        n: Number of pairs.
        wins: Number of pairs in which b is higher.
        ties: Number of pairs without a difference.
        losses: Number of pairs in which b is lower.
        alpha: Significance level.
        reason: A key of `REASONS`, or None.
        std: Standard deviation of the differences.
        n_left_out: Number of pairs with a NaN.
        direction: The higher model by the quantity that is tested: 1 for b, -1 for a, 0 for neither; None: unknown. This is the
            mean difference (t, bootstrap), the rank sums (Wilcoxon), or the number of wins (sign). The mean difference may
            point the other way if few users dominate it.
    """

    __test__: ClassVar[bool] = False  # otherwise pytest collects the class as a test

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
        """The minimum detectable effect: what a t test on these pairs detects with 80 % power; None without variance."""
        return smallest_difference(self.std, self.n, alpha=self.alpha) if self.std and self.n > 1 else None

    def __str__(self) -> str:
        pairs = f"n = {self.n}"
        if self.wins is not None:
            pairs += f": b higher in {self.wins}, lower in {self.losses}, tied in {self.ties}"
        if self.n_left_out:
            pairs += f"; {self.n_left_out} left out because of NaN"
        parts = [] if self.mean_difference is None else [f"b - a = {self.mean_difference:.6g}"]
        if self.ci_low is not None:
            parts.append(f"{100 * (1 - self.alpha):g} % confidence interval [{self.ci_low:.6g}, {self.ci_high:.6g}]")
        parts += [] if self.p_value is None else [f"p = {self.p_value:.4g}"]
        parts += [] if self.effect_size is None else [f"d_z = {self.effect_size:.4g}"]
        reason = f" ({REASONS[self.reason]})" if self.reason else ""
        least = None if self.significant else self.smallest_difference
        if self.p_value is None:
            summary = f"undefined{reason}"
        else:
            summary = f"{'' if self.significant else 'not '}significant at {self.alpha:g}"
            summary += f", minimum detectable effect {least:.4g} with 80 % power" if least else ""
            summary += f", effect size undefined{reason}" if reason else ""
        lines = (f"{self.test.replace('_', ' ')}: {summary}", ", ".join(parts), pairs)
        return "\n  ".join(line for line in lines if line)


class Interval(NamedTuple):
    """A mean and its confidence interval.

    Args:
        n: Number of values.
        mean: Mean of the values; None if there are none.
        ci_low: Lower end; None with fewer than two values, and if all are equal and not 0.
        ci_high: Upper end.
        n_left_out: Number of values that are NaN.
    """

    n: int
    mean: float | None
    ci_low: float | None
    ci_high: float | None
    n_left_out: int = 0

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval is defined and does not contain 0."""
        return self.ci_low is not None and self.ci_high is not None and not self.ci_low <= 0 <= self.ci_high


def smallest_difference(std: float, n: int, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The minimum detectable effect: the smallest mean difference that a two-sided paired t test detects with a given power.

    It is the d with P(|T| > t) = power, where t is the critical value at alpha, and T has the noncentral t distribution with
    n - 1 degrees of freedom and noncentrality d sqrt(n) / std.

    Args:
        std: Standard deviation of the differences, with denominator n - 1, in the unit of the metric.
        n: Number of pairs, at least 2.
        alpha: Significance level.
        power: Power of the test, above alpha.

    Returns:
        The difference, in the unit of `std`; 0 if `std` is 0.

    Raises:
        ConfigError: `std` is negative or not a number, there are fewer than two pairs, or alpha or power is out of range.

    Source:
        Cohen, Statistical power analysis for the behavioral sciences, 2nd edition, 1988, chapter 2. Noncentral t:
        Johnson, Kotz and Balakrishnan, Continuous univariate distributions, volume 2, 2nd edition, 1995, chapter 31.

    Example:
        >>> round(smallest_difference(0.3, 1000), 4)
        0.0266
    """
    from scipy.optimize import brentq
    from scipy.stats import nct, t

    scale = number(std, "std", lowest=0.0)
    if count(n, "n") < 2:
        raise ConfigError(f"n: expected at least two pairs, found {n}")
    if not level(alpha) < number(power, "power") < 1:
        raise ConfigError(f"power: expected a number above alpha = {alpha} and below 1, such as 0.8, found {power}")
    critical = float(t.isf(alpha / 2, n - 1))

    def excess_power(noncentrality: float) -> float:
        near, far = nct.sf(critical, n - 1, noncentrality), nct.cdf(-critical, n - 1, noncentrality)
        # scipy returns NaN if the far tail is below 1e-15, too small for its series.
        return float(near + np.nan_to_num(far)) - power

    high = critical + 1
    while excess_power(high) < 0:
        high *= 2
    return float(brentq(excess_power, 0.0, high, xtol=1e-12, rtol=1e-12)) * scale / math.sqrt(n)


def number(value: object, name: str, lowest: float = -math.inf) -> float:
    """The argument as a float, if it is a finite number and not a bool or string."""
    numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not numeric or not math.isfinite(value) or not value >= lowest:  # type: ignore[arg-type, operator]
        bound = "" if lowest == -math.inf else f" of at least {lowest:g}"
        raise ConfigError(f"{name}: expected a finite number{bound}, found {value!r}")
    return float(value)  # type: ignore[arg-type]


def level(value: object, name: str = "alpha") -> float:
    """The significance level of a test or, with another name than alpha, the confidence level of an interval."""
    # Smaller significance levels need quantiles that cannot be estimated; larger ones do not test anything.
    low, high, example = (1e-6, 0.5, 0.05) if name == "alpha" else (0.5, 1 - 1e-6, 0.95)
    if isinstance(value, float | np.floating) and low <= value <= high:
        return float(value)
    raise ConfigError(f"{name}: expected a number from {low:g} to {high:g}, such as {example}, found {value!r}")


def count(value: object, name: str) -> int:
    """An integer of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ConfigError(f"{name}: expected an integer of at least 0, found {value!r}")
    return int(value)


def numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """(N,) finite numbers or NaN."""
    array = np.asarray(values)
    if array.ndim == 1 and array.size == 0:
        return np.zeros(0)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ConfigError(f"{name}: expected numbers in one dimension, found {array.dtype} of shape {array.shape}")
    array = array.astype(np.float64)
    if n_infinite := int(np.isinf(array).sum()):
        raise ConfigError(f"{name}: expected finite numbers or NaN, found {n_infinite} infinite")
    return array


def rounded_differences(old: NDArray[np.float64], new: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The differences, 0 where they are only rounding errors of the values, and the largest such errors."""
    difference, noise = new - old, ROUNDING * np.maximum(np.abs(old), np.abs(new))
    difference[np.abs(difference) <= noise] = 0.0
    return difference, noise


def aligned(**samples: Any) -> list[Any]:
    """The samples in the order of the index of the first pandas Series; other arrays keep their order."""
    series = {name: values for name, values in samples.items() if hasattr(values, "reindex") and hasattr(values, "index")}
    if not series:
        return list(samples.values())
    first, index = next((name, values.index) for name, values in series.items())
    for name, values in series.items():
        if values.index.equals(index):
            continue
        for one, labels in ((first, index.difference(values.index)), (name, values.index.difference(index))):
            if len(labels):
                found = f"{counted(len(labels), 'label')} only in {one}, such as {labels.tolist()[0]!r}"
                raise ConfigError(
                    f"{first} and {name}: expected pandas Series with the same index, found {found}: "
                    f"keep their common labels by {first}, {name} = {first}.align({name}, join='inner'), "
                    "or give arrays if their order is the same"
                )
        if not (index.is_unique and values.index.is_unique):
            raise ConfigError(
                f"{first} and {name}: expected pandas Series with one value per label, found repeated labels in another order: "
                "give arrays in the same order"
            )
        samples[name] = values.reindex(index)
    return list(samples.values())


def check_range(values: NDArray[np.float64]) -> None:
    """Raise `DataError` if the squares of the values, or their sum, are too large or too small for a double."""
    largest = np.abs(values[~np.isnan(values)]).max(initial=0.0)
    if largest and not 1 / LARGEST <= largest <= LARGEST:
        advice = "multiply" if largest < 1 else "divide"
        raise DataError(
            f"expected values of which the largest is from {1 / LARGEST:g} to {LARGEST:g}, found {largest:g}: "
            f"{advice} all of them by the same number"
        )


def resamples(n: object, name: str = "n") -> int:
    """The number of replicates of a bootstrap. Fewer than 100 cannot estimate the tails of a distribution."""
    checked = count(n, name)
    if checked < 100:
        raise ConfigError(f"{name}: expected at least 100 replicates, found {checked}: 1000 is common")
    return checked
