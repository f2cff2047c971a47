"""Tests of two models on the same users: t, Wilcoxon, sign and bootstrap.

Each test has two functions. `..._test` takes two arrays, for notebooks, and calls the other, which takes sums from Spark.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.stats.resample import bootstrap_sums, poisson_weights
from spark_recmetrics.stats.result import (
    ROUNDING,
    Interval,
    TestResult,
    aligned,
    check_range,
    count,
    level,
    number,
    numbers,
    resamples,
    rounded_differences,
)


def t_from_moments(n: int, mean: float | None, variance: float | None, *, alpha: float = 0.05) -> TestResult:
    """Paired t test: t = mean / (std / sqrt(n)), with n - 1 degrees of freedom.

    Args:
        n: Number of pairs.
        mean: Mean of the differences; ignored if n is 0.
        variance: Variance of the differences, with denominator n - 1; ignored if n is below 2.
        alpha: Significance level.

    Returns:
        The result, without wins, ties and losses. Undefined with fewer than two pairs, or equal differences that are not 0.

    Raises:
        ConfigError: An argument is not a number or is out of range.

    Source:
        Student, The probable error of a mean, Biometrika 6(1), 1908. Effect size: Cohen, Statistical power analysis for the
        behavioral sciences, 2nd edition, 1988, section 2.3.5.

    Example:
        >>> result = t_from_moments(4, 2.5, 5 / 3)
        >>> round(result.statistic, 4), round(result.p_value, 4), round(result.effect_size, 6)
        (3.873, 0.0305, 1.936492)
    """
    moments = _moments(n, mean, variance, alpha)
    if moments["reason"] is not None:
        return _result("paired_t", None, None, moments)
    if moments["std"] == 0:
        return _result("paired_t", 0.0, 1.0, moments, 0.0)
    from scipy.special import stdtr

    t = moments["effect_size"] * math.sqrt(n)
    return _result("paired_t", t, 2 * float(stdtr(n - 1, -abs(t))), moments, t)


def wilcoxon_from_histogram(
    magnitudes: ArrayLike, n_positive: ArrayLike, n_negative: ArrayLike, *, ties: int = 0, alpha: float = 0.05
) -> TestResult:
    """Wilcoxon signed-rank test: do the ranks of |d| have the same sum for wins and for losses?

    Zeros are dropped and equal magnitudes share their mean rank. p uses the normal approximation without continuity correction:
    z = (W+ - m(m+1)/4) / sqrt((m(m+1)(2m+1) - sum of (t^3 - t)/2) / 24), with m non-zero differences, t of them at each
    magnitude. The approximation is good for m of at least about 20. Magnitudes that differ only by rounding are equal.

    Args:
        magnitudes: (M,) different |d| above 0, in any order.
        n_positive: (M,) number of differences equal to +|d|.
        n_negative: (M,) number of differences equal to -|d|.
        ties: Number of pairs without a difference.
        alpha: Significance level.

    Returns:
        The result. The statistic is the smaller rank sum. Undefined with fewer than two pairs, ties included.

    Raises:
        ConfigError: The arrays differ in length, or contain values that are not magnitudes or counts.

    Source:
        Wilcoxon, Individual comparisons by ranking methods, Biometrics Bulletin 1(6), 1945. Equal to `scipy.stats.wilcoxon`
        with `zero_method="wilcox", correction=False, method="asymptotic"`.

    Example:
        >>> result = wilcoxon_from_histogram([1, 2, 3], [1, 1, 2], [1, 0, 0])
        >>> result.statistic, round(result.p_value, 4)
        (1.5, 0.1025)
    """
    sums = rank_sums(magnitudes, n_positive, n_negative)
    size, up, down = _histogram(magnitudes, n_positive, n_negative)
    ties = count(ties, "ties")
    n = sums.wins + sums.losses + ties
    mean = float((size * (up - down)).sum()) / max(n, 1)
    squares = up * (size - mean) ** 2 + down * (size + mean) ** 2
    variance = float(squares.sum() + ties * mean**2) / max(n - 1, 1)
    return wilcoxon_from_rank_sums(sums, ties=ties, mean=mean, variance=variance, alpha=alpha)


class RankSums(NamedTuple):
    """The sums of ranks of |d| that the Wilcoxon test needs.

    Args:
        wins: Number of differences above 0.
        losses: Number of differences below 0.
        plus: Sum of the ranks of wins.
        minus: Sum of the ranks of losses.
        tied: Sum of t^3 - t over all magnitudes, with t differences at each.
    """

    wins: int
    losses: int
    plus: float
    minus: float
    tied: float


def rank_sums(magnitudes: ArrayLike, n_positive: ArrayLike, n_negative: ArrayLike) -> RankSums:
    """Rank sums of a histogram of |d|. Works without scipy, so that Spark workers can compute it.

    Args:
        magnitudes: (M,) |d| above 0, in any order. Magnitudes that are equal up to rounding share their mean rank.
        n_positive: (M,) number of differences equal to +|d|.
        n_negative: (M,) number of differences equal to -|d|.

    Returns:
        The rank sums; all are 0 if there are no magnitudes.

    Raises:
        ConfigError: The arrays differ in length, or contain values that are not magnitudes or counts.

    Example:
        >>> rank_sums([1, 2, 3], [1, 1, 2], [1, 0, 0])
        RankSums(wins=4, losses=1, plus=13.5, minus=1.5, tied=12.0)
    """
    size, up, down = _histogram(magnitudes, n_positive, n_negative)
    if not (size > 0).all():
        raise ConfigError("magnitudes: expected numbers above 0, found others: count pairs without a difference as `ties`")
    if not len(size):
        return RankSums(0, 0, 0.0, 0.0, 0.0)
    order = np.argsort(size)
    size = size[order]
    starts = np.flatnonzero(np.diff(size, prepend=0.0) > ROUNDING * size)
    up, down = (np.add.reduceat(side[order], starts) for side in (up, down))
    shared = up + down
    rank = np.cumsum(shared) - (shared - 1) / 2
    sums = ((rank * up).sum(), (rank * down).sum(), (shared**3 - shared).sum())
    return RankSums(int(up.sum()), int(down.sum()), *(float(total) for total in sums))


def _histogram(magnitudes: ArrayLike, n_positive: ArrayLike, n_negative: ArrayLike) -> tuple[NDArray[np.float64], ...]:
    """The arguments as floats, which do not overflow in products."""
    magnitudes, n_positive, n_negative = aligned(magnitudes=magnitudes, n_positive=n_positive, n_negative=n_negative)
    size, up, down = numbers(magnitudes, "magnitudes"), numbers(n_positive, "n_positive"), numbers(n_negative, "n_negative")
    for name, counts in (("n_positive", up), ("n_negative", down)):
        if len(counts) != len(size):
            raise ConfigError(f"{name}: expected {len(size)} counts, one for each magnitude, found {len(counts)}")
        if not ((counts >= 0) & (counts == np.floor(counts))).all():
            raise ConfigError(f"{name}: expected integers of at least 0, found others")
    check_range(size)
    return size, up, down


def wilcoxon_from_rank_sums(
    sums: RankSums, *, ties: int = 0, mean: float | None = None, variance: float | None = None, alpha: float = 0.05
) -> TestResult:
    """Wilcoxon signed-rank test from `rank_sums`. Formula and source: see `wilcoxon_from_histogram`.

    Args:
        sums: The rank sums.
        ties: Number of pairs without a difference.
        mean: Mean of the differences, for the result. None: the result has none.
        variance: Variance of the differences, with denominator n - 1, for effect size and confidence interval.
        alpha: Significance level.

    Returns:
        The result. The statistic is the smaller rank sum. Undefined with fewer than two pairs, ties included.

    Raises:
        ConfigError: Mean, variance or alpha is not a number or is out of range.

    Example:
        >>> round(wilcoxon_from_rank_sums(rank_sums([1, 2, 3], [1, 1, 2], [1, 0, 0])).p_value, 4)
        0.1025
    """
    moments = _moments(sums.wins + sums.losses + count(ties, "ties"), mean, variance, alpha, required=False)
    moments |= {"wins": sums.wins, "ties": ties, "losses": sums.losses}
    if moments["n"] < 2:
        return _result("wilcoxon", None, None, moments)
    m = float(sums.wins + sums.losses)
    if m == 0:
        return _result("wilcoxon", 0.0, 1.0, moments, 0.0)
    from scipy.special import ndtr

    statistic = min(sums.plus, sums.minus)
    z = (statistic - m * (m + 1) / 4) / math.sqrt((m * (m + 1) * (2 * m + 1) - sums.tied / 2) / 24)
    return _result("wilcoxon", statistic, min(2 * float(ndtr(z)), 1.0), moments, sums.plus - sums.minus)


def sign_from_counts(
    wins: int, losses: int, *, ties: int = 0, mean: float | None = None, variance: float | None = None, alpha: float = 0.05
) -> TestResult:
    """Sign test: are wins and losses equally likely? The p value is exact (binomial) and two-sided; ties are left out.

    Args:
        wins: Number of pairs in which b is higher.
        losses: Number of pairs in which b is lower.
        ties: Number of pairs without a difference.
        mean: Mean of the differences, for the result. None: the result has none.
        variance: Variance of the differences, with denominator n - 1, for effect size and confidence interval.
        alpha: Significance level.

    Returns:
        The result. The statistic is the number of wins. Undefined with fewer than two pairs, ties included.

    Raises:
        ConfigError: A count is not an integer of at least 0, or mean or variance is not a number.

    Source:
        Dixon and Mood, The statistical sign test, Journal of the American Statistical Association 41, 1946.

    Example:
        >>> sign_from_counts(9, 1, ties=2).p_value
        0.021484375
    """
    wins, losses, ties = (count(v, name) for v, name in ((wins, "wins"), (losses, "losses"), (ties, "ties")))
    moments = _moments(wins + losses + ties, mean, variance, alpha, required=False)
    moments |= {"wins": wins, "ties": ties, "losses": losses}
    if moments["n"] < 2:
        return _result("sign", None, None, moments)
    if wins + losses == 0:
        return _result("sign", 0.0, 1.0, moments, 0.0)
    from scipy.special import betainc

    # The closed form of the binomial tail takes the same time for 10^9 users as for ten.
    few, many = sorted((wins, losses))
    tail = float(betainc(many, few + 1, 0.5))
    return _result("sign", float(wins), 1.0 if few == many else min(2 * tail, 1.0), moments, wins - losses)


def bootstrap_from_replicates(
    observed: float | None, replicates: ArrayLike, *, n: int, variance: float | None = None, alpha: float = 0.05
) -> TestResult:
    """Bootstrap test of the mean difference: p = (b + 1) / (B + 1), and the percentile confidence interval.

    b is the number of replicates at least as far from the observed mean as the observed mean is from 0. So p is never 0.

    Args:
        observed: Mean of the differences; ignored if n is 0.
        replicates: (B,) mean of the differences in each replicate. Replicates without users are NaN and are left out.
        n: Number of pairs.
        variance: Variance of the differences, with denominator n - 1, for the effect size.
        alpha: Significance level.

    Returns:
        The result. The statistic is the mean. Undefined with fewer than two pairs, and if all differences are equal and not 0.

    Raises:
        ConfigError: There are fewer than 100 replicates, or an argument is not a number.

    Source:
        Efron and Tibshirani, An introduction to the bootstrap, 1993, chapters 13 and 16; the +1: Davison and Hinkley, Bootstrap
        methods and their application, 1997, section 4.2.

    Example:
        >>> result = bootstrap_from_replicates(0.5, np.linspace(0.0, 1.0, 101), n=3)
        >>> round(result.p_value, 4), round(result.ci_low, 4), round(result.ci_high, 4)
        (0.0294, 0.025, 0.975)
    """
    drawn = numbers(replicates, "replicates")
    resamples(len(drawn), "replicates")
    drawn = drawn[~np.isnan(drawn)]
    check_range(drawn)
    moments = _moments(n, observed, variance, alpha, required=False)
    moments |= {"ci_low": None, "ci_high": None}
    if n < 2 or len(drawn) == 0:
        return _result("bootstrap", None, None, moments | {"reason": moments["reason"] or "no_replicate"})
    center = number(observed, "observed")
    distances = np.abs(drawn - center)
    if moments["std"] == 0 or distances.max() <= ROUNDING * abs(center):
        moments = _moments(n, center, 0.0, alpha)
        return _result("bootstrap", None, None, moments) if center else _result("bootstrap", 0.0, 1.0, moments, 0.0)
    n_beyond = int((distances >= abs(center) * (1 - ROUNDING)).sum())
    moments["ci_low"], moments["ci_high"] = (float(q) for q in np.quantile(drawn, [alpha / 2, 1 - alpha / 2]))
    return _result("bootstrap", center, (n_beyond + 1) / (len(drawn) + 1), moments, center)


def _moments(n: int, mean: float | None, variance: float | None, alpha: float, *, required: bool = True) -> dict[str, Any]:
    """The fields of a result that follow from the number, mean and variance of the differences."""
    n = count(n, "n")
    fields = ("effect_size", "mean_difference", "ci_low", "ci_high", "wins", "ties", "losses", "std")
    moments: dict[str, Any] = dict.fromkeys(fields)
    moments |= {"n": n, "alpha": level(alpha), "reason": {0: "no_pair", 1: "one_pair"}.get(n)}
    if n == 0 or (mean is None and not required):
        return moments
    moments["mean_difference"] = center = number(mean, "mean")
    if n == 1 or (variance is None and not required):
        return moments
    std = math.sqrt(number(variance, "variance", lowest=0.0))
    moments["std"] = std = 0.0 if std <= ROUNDING * abs(center) else std
    if std == 0:
        return moments | ({"reason": "zero_variance"} if center else {"effect_size": 0.0, "ci_low": 0.0, "ci_high": 0.0})
    from scipy.special import stdtrit

    half = -float(stdtrit(n - 1, alpha / 2)) * std / math.sqrt(n)
    return moments | {"effect_size": center / std, "ci_low": center - half, "ci_high": center + half}


def _result(
    test: str, statistic: float | None, p_value: float | None, moments: dict[str, Any], direction: float | None = None
) -> TestResult:
    sign = None if direction is None else (direction > 0) - (direction < 0)
    return TestResult(test=test, statistic=statistic, p_value=p_value, direction=sign, **moments)


class _Differences(NamedTuple):
    """The differences b - a, their positions in the arrays, and their moments and counts."""

    values: NDArray[np.float64]
    positions: NDArray[np.int64]
    mean: float
    variance: float
    counts: dict[str, Any]


def _differences(a: ArrayLike, b: ArrayLike) -> _Differences:
    """The pairs without NaN. Differences up to the rounding of the values are 0."""
    a, b = aligned(a=a, b=b)
    old, new = numbers(a, "a"), numbers(b, "b")
    if len(old) != len(new):
        raise ConfigError(f"a and b: expected one value of each for every user, found {len(old)} and {len(new)}")
    check_range(np.concatenate([old, new]))
    difference, noise = rounded_differences(old, new)
    positions = np.flatnonzero(~np.isnan(difference))
    difference, noise = difference[positions], noise[positions]
    n = len(difference)
    mean = math.fsum(difference) / max(n, 1)
    variance = math.fsum((difference - mean) ** 2) / max(n - 1, 1)
    if n and np.ptp(difference) <= noise.max():
        variance = 0.0
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    counts = {"wins": wins, "ties": n - wins - losses, "losses": losses, "n_left_out": len(old) - n}
    return _Differences(difference, positions, mean, variance, counts)


def paired_t_test(a: ArrayLike, b: ArrayLike, *, alpha: float = 0.05) -> TestResult:
    """Paired t test of two arrays, equal to `scipy.stats.ttest_rel(b, a)`. Formula and source: see `t_from_moments`.

    Args:
        a: (U,) values of the old model. Two pandas Series are aligned by their index.
        b: (U,) values of the new model for the same users. Pairs with a NaN are left out and counted.
        alpha: Significance level.

    Returns:
        The result. Undefined with fewer than two pairs, and if all differences are equal and not 0.

    Raises:
        ConfigError: The arrays are not one-dimensional, differ in length or contain infinite values, two pandas Series have
            different indexes, or alpha is out of range.
        DataError: The largest value, without its sign, is above 1e150, or below 1e-150 and not 0.

    Example:
        >>> result = paired_t_test([100, 200, 300, 400], [101, 202, 303, 404])
        >>> result.significant, round(result.effect_size, 6), result.wins
        (True, 1.936492, 4)
        >>> print(paired_t_test([0.5, 0.2, 0.9], [0.5, 0.4, 0.6]))
        paired t: not significant at 0.05, minimum detectable effect 0.8214 with 80 % power
          b - a = -0.0333333, 95 % confidence interval [-0.658494, 0.591828], p = 0.8399, d_z = -0.1325
          n = 3: b higher in 1, lower in 1, tied in 1
    """
    pairs = _differences(a, b)
    return replace(t_from_moments(len(pairs.values), pairs.mean, pairs.variance, alpha=alpha), **pairs.counts)


def wilcoxon_test(a: ArrayLike, b: ArrayLike, *, alpha: float = 0.05) -> TestResult:
    """Wilcoxon signed-rank test of two arrays. Formula and source: see `wilcoxon_from_histogram`.

    Args:
        a: (U,) values of the old model.
        b: (U,) values of the new model for the same users. Pairs with a NaN are left out and counted.
        alpha: Significance level.

    Returns:
        The result. Undefined with fewer than two pairs.

    Raises:
        ConfigError, DataError: As `paired_t_test`.

    Example:
        >>> result = wilcoxon_test([0.1, 0.2, 0.3], [0.2, 0.1, 0.6])
        >>> result.statistic, round(result.p_value, 4)
        (1.5, 0.4142)
    """
    pairs = _differences(a, b)
    nonzero = pairs.values[pairs.values != 0]
    sums = rank_sums(np.abs(nonzero), nonzero > 0, nonzero < 0)
    result = wilcoxon_from_rank_sums(sums, ties=pairs.counts["ties"], mean=pairs.mean, variance=pairs.variance, alpha=alpha)
    return replace(result, **pairs.counts)


def sign_test(a: ArrayLike, b: ArrayLike, *, alpha: float = 0.05) -> TestResult:
    """Sign test of two arrays. p is that of `scipy.stats.binomtest(wins, wins + losses)`. Source: see `sign_from_counts`.

    Args:
        a: (U,) values of the old model.
        b: (U,) values of the new model for the same users. Pairs with a NaN are left out and counted.
        alpha: Significance level.

    Returns:
        The result. Undefined with fewer than two pairs.

    Raises:
        ConfigError, DataError: As `paired_t_test`.

    Example:
        >>> result = sign_test([0.1, 0.2, 0.3], [0.2, 0.3, 0.3])
        >>> result.wins, result.ties, result.p_value
        (2, 1, 0.5)
    """
    pairs = _differences(a, b)
    wins, ties, losses, _ = pairs.counts.values()
    result = sign_from_counts(wins, losses, ties=ties, mean=pairs.mean, variance=pairs.variance, alpha=alpha)
    return replace(result, **pairs.counts)


def bootstrap_test(a: ArrayLike, b: ArrayLike, *, n: int = 1000, alpha: float = 0.05, seed: int = 0) -> TestResult:
    """Poisson bootstrap test of two arrays. Formula and source: see `bootstrap_from_replicates` and `poisson_weights`.

    Args:
        a: (U,) values of the old model.
        b: (U,) values of the new model for the same users. Pairs with a NaN are left out and counted.
        n: B, the number of replicates, at least 100.
        alpha: Significance level.
        seed: Seed of the weights, which also depend on the position of a user in the arrays.

    Returns:
        The result. Undefined with fewer than two pairs, and if all differences are equal and not 0.

    Raises:
        ConfigError, DataError: As `paired_t_test`, or there are fewer than 100 replicates.

    Example:
        >>> result = bootstrap_test([0.1, 0.2, 0.3], [0.2, 0.1, 0.6])
        >>> round(result.p_value, 2), round(result.ci_low, 4), round(result.ci_high, 4)
        (0.44, -0.1, 0.3)
    """
    pairs = _differences(a, b)
    drawn = _replicates(pairs.values, pairs.positions, resamples(n), seed)
    result = bootstrap_from_replicates(pairs.mean, drawn, n=len(pairs.values), variance=pairs.variance, alpha=alpha)
    return replace(result, **pairs.counts)


def bootstrap_ci(values: ArrayLike, *, n: int = 1000, confidence: float = 0.95, seed: int = 0) -> Interval:
    """Percentile confidence interval of the mean by a Poisson bootstrap: quantiles of the means of the replicates.

    Args:
        values: (U,) values of a model. NaN is left out and counted.
        n: B, the number of replicates, at least 100.
        confidence: Confidence level.
        seed: Seed of the weights, which also depend on the position of a user in the array.

    Returns:
        Mean and confidence interval. The interval is None with fewer than two values, and if all are equal and not 0.

    Raises:
        ConfigError: The values are not a list of numbers, `n` is below 100, or `confidence` is out of range.

    Source:
        Efron and Tibshirani, An introduction to the bootstrap, 1993, chapter 13. Weights: as `poisson_weights`.

    Example:
        >>> interval = bootstrap_ci([0.5, 0.2, 0.9])
        >>> round(interval.mean, 4), round(interval.ci_low, 4), round(interval.ci_high, 4)
        (0.5333, 0.2, 0.9)
    """
    alpha = 1 - level(confidence, "confidence")
    sample = numbers(values, "values")
    # The mean of values is the mean of their differences from 0.
    result = bootstrap_test(np.zeros(len(sample)), sample, n=n, alpha=alpha, seed=seed)
    return Interval(result.n, result.mean_difference, result.ci_low, result.ci_high, result.n_left_out)


def _replicates(values: NDArray[np.float64], positions: NDArray[np.int64], n: int, seed: int) -> NDArray[np.float64]:
    """(B,) mean of the values in each replicate; NaN for replicates without users."""
    sums, n_drawn = np.zeros(n), np.zeros(n)
    # In blocks of users, because the weights of all users may not fit into memory.
    for start in range(0, len(values), 8192):
        block = slice(start, start + 8192)
        total, weight = bootstrap_sums(values[block, None], poisson_weights(positions[block].astype(np.uint64), n, seed))
        sums, n_drawn = sums + total[:, 0], n_drawn + weight[:, 0]
    return np.where(n_drawn > 0, sums / np.maximum(n_drawn, 1), np.nan)
