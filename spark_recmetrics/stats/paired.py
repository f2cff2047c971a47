"""Tests of two models on the same users: t, Wilcoxon, sign and bootstrap.

Each is there twice. `..._test` takes two arrays, for notebooks; it calls the other, which takes the sums that Spark makes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.stats.resample import bootstrap_sums, poisson_weights
from spark_recmetrics.stats.result import ROUNDING, Interval, TestResult, count, frequencies, number, numbers, resamples, share

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# From sums ----------------------------------------------------------------------------------------------------------------


def t_from_moments(n: int, mean: float | None, variance: float | None, *, alpha: float = 0.05) -> TestResult:
    """Paired t test: t = mean / (std / sqrt(n)), with n - 1 degrees of freedom.

    Args:
        n: Pairs.
        mean: Of the differences; not read where n is 0.
        variance: Of the differences (n - 1); not read below two pairs.
        alpha: Level.

    Returns:
        The result, without wins, ties and losses. Undefined below two pairs, and where all differences are the same and not 0.

    Raises:
        ConfigError: An argument is no number or out of range.

    Source:
        Student, The probable error of a mean, Biometrika 6(1), 1908. Effect size: Cohen, Statistical power analysis for the
        behavioral sciences, 2nd edition, 1988, section 2.3.5.

    Example:
        >>> result = t_from_moments(4, 2.5, 5 / 3)
        >>> round(result.statistic, 4), round(result.p_value, 4), round(result.effect_size, 6)
        (3.873, 0.0305, 1.936492)
    """
    known = _moments(n, mean, variance, alpha)
    if known["reason"] is not None:
        return _result("paired_t", None, None, known)
    if known["std"] == 0:
        return _result("paired_t", 0.0, 1.0, known, 0.0)
    from scipy.special import stdtr

    t = known["effect_size"] * math.sqrt(n)
    return _result("paired_t", t, 2 * float(stdtr(n - 1, -abs(t))), known, t)


def wilcoxon_from_histogram(
    magnitudes: ArrayLike, n_positive: ArrayLike, n_negative: ArrayLike, *, ties: int = 0, alpha: float = 0.05
) -> TestResult:
    """Wilcoxon signed-rank test: do the ranks of |d| of wins and of losses have the same sum?

    Zeros are dropped, equal magnitudes share their mean rank, and p is that of the normal approximation without continuity
    correction: z = (W+ - m(m+1)/4) / sqrt((m(m+1)(2m+1) - sum of (t^3 - t)/2) / 24), with m non-zero differences, and t of them
    at each magnitude. It is good from about 20 on. Magnitudes that differ by rounding alone are one.

    Args:
        magnitudes: (M,) different |d| above 0, in any order.
        n_positive: (M,) how many differences are +|d|.
        n_negative: (M,) how many are -|d|.
        ties: Pairs without a difference.
        alpha: Level.

    Returns:
        The result; the statistic is the smaller rank sum. Undefined below two pairs, ties included.

    Raises:
        ConfigError: The arrays differ in length, or hold what cannot be a magnitude or a count.

    Source:
        Wilcoxon, Individual comparisons by ranking methods, Biometrics Bulletin 1(6), 1945. The same as `scipy.stats.wilcoxon`
        with `zero_method="wilcox", correction=False, method="asymptotic"`.

    Example:
        >>> result = wilcoxon_from_histogram([1, 2, 3], [1, 1, 2], [1, 0, 0])
        >>> result.statistic, round(result.p_value, 4)
        (1.5, 0.1025)
    """
    sums = rank_sums(magnitudes, n_positive, n_negative)
    size = numbers(magnitudes, "magnitudes")
    up, down = (frequencies(n, name, len(size)) for n, name in ((n_positive, "n_positive"), (n_negative, "n_negative")))
    ties = count(ties, "ties")
    n = sums.wins + sums.losses + ties
    mean = float((size * (up - down)).sum()) / max(n, 1)
    squares = up * (size - mean) ** 2 + down * (size + mean) ** 2
    variance = float(squares.sum() + ties * mean**2) / max(n - 1, 1)
    return wilcoxon_from_rank_sums(sums, ties=ties, mean=mean, variance=variance, alpha=alpha)


class RankSums(NamedTuple):
    """What the Wilcoxon test has to know of the ranks of |d|.

    Args:
        wins: Differences above 0.
        losses: Differences below 0.
        plus: Sum of the ranks of wins.
        minus: Sum of the ranks of losses.
        tied: Sum of t^3 - t over all magnitudes, t differences at each.
    """

    wins: int
    losses: int
    plus: float
    minus: float
    tied: float


def rank_sums(magnitudes: ArrayLike, n_positive: ArrayLike, n_negative: ArrayLike) -> RankSums:
    """Rank sums of the histogram of |d|. No scipy is needed, so that a worker of Spark can make them.

    Args:
        magnitudes: (M,) |d| above 0, in any order; equal ones, and those that differ by rounding alone, share their mean rank.
        n_positive: (M,) how many differences are +|d|.
        n_negative: (M,) how many are -|d|.

    Raises:
        ConfigError: The arrays differ in length, or hold what cannot be a magnitude or a count.

    Example:
        >>> rank_sums([1, 2, 3], [1, 1, 2], [1, 0, 0])
        RankSums(wins=4, losses=1, plus=13.5, minus=1.5, tied=12.0)
    """
    size = numbers(magnitudes, "magnitudes")
    up, down = (frequencies(n, name, len(size)) for n, name in ((n_positive, "n_positive"), (n_negative, "n_negative")))
    if not (size > 0).all():
        raise ConfigError("magnitudes: expected numbers above 0, found others: pairs without a difference are `ties`")
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


def wilcoxon_from_rank_sums(
    sums: RankSums, *, ties: int = 0, mean: float | None = None, variance: float | None = None, alpha: float = 0.05
) -> TestResult:
    """Wilcoxon signed-rank test, see `wilcoxon_from_histogram`, from `rank_sums`.

    Args:
        sums: The rank sums.
        ties: Pairs without a difference.
        mean: Of the differences, if the result is to name it.
        variance: Of the differences (n - 1), if the result is to have effect size and interval.
        alpha: Level.

    Raises:
        ConfigError: Mean, variance or alpha is no number or out of range.

    Source:
        As `wilcoxon_from_histogram`.

    Example:
        >>> round(wilcoxon_from_rank_sums(rank_sums([1, 2, 3], [1, 1, 2], [1, 0, 0])).p_value, 4)
        0.1025
    """
    known = _moments(sums.wins + sums.losses + count(ties, "ties"), mean, variance, alpha, wanted=False)
    known |= {"wins": sums.wins, "ties": ties, "losses": sums.losses}
    if known["n"] < 2:
        return _result("wilcoxon", None, None, known)
    m = float(sums.wins + sums.losses)
    if m == 0:
        return _result("wilcoxon", 0.0, 1.0, known, 0.0)
    from scipy.special import ndtr

    statistic = min(sums.plus, sums.minus)
    z = (statistic - m * (m + 1) / 4) / math.sqrt((m * (m + 1) * (2 * m + 1) - sums.tied / 2) / 24)
    return _result("wilcoxon", statistic, min(2 * float(ndtr(z)), 1.0), known, sums.plus - sums.minus)


def sign_from_counts(
    wins: int, losses: int, *, ties: int = 0, mean: float | None = None, variance: float | None = None, alpha: float = 0.05
) -> TestResult:
    """Sign test: are wins and losses equally likely? Exact binomial p, two-sided; ties are left out.

    Args:
        wins: Pairs in which b is higher.
        losses: Pairs in which b is lower.
        ties: Pairs without a difference.
        mean: Of the differences, if the result is to name it.
        variance: Of the differences (n - 1), if the result is to have effect size and interval.
        alpha: Level.

    Returns:
        The result; the statistic is the wins. Undefined below two pairs, ties included.

    Raises:
        ConfigError: A count is not a whole number from 0, or mean or variance is no number.

    Source:
        Dixon and Mood, The statistical sign test, Journal of the American Statistical Association 41, 1946.

    Example:
        >>> sign_from_counts(9, 1, ties=2).p_value
        0.021484375
    """
    wins, losses, ties = (count(v, name) for v, name in ((wins, "wins"), (losses, "losses"), (ties, "ties")))
    known = _moments(wins + losses + ties, mean, variance, alpha, wanted=False)
    known |= {"wins": wins, "ties": ties, "losses": losses}
    if known["n"] < 2:
        return _result("sign", None, None, known)
    if wins + losses == 0:
        return _result("sign", 0.0, 1.0, known, 0.0)
    from scipy.special import betainc

    # The binomial distribution at the smaller count, by its tail in closed form: as fast for 10^9 users as for ten.
    few, many = sorted((wins, losses))
    tail = float(betainc(many, few + 1, 0.5))
    return _result("sign", float(wins), 1.0 if few == many else min(2 * tail, 1.0), known, wins - losses)


def bootstrap_from_replicates(
    observed: float | None, replicates: ArrayLike, *, n: int, variance: float | None = None, alpha: float = 0.05
) -> TestResult:
    """Bootstrap test of the mean difference: p = (b + 1) / (B + 1), and the percentile interval.

    b counts the replicates that lie at least as far from the observed mean as that lies from 0. So p is never 0.

    Args:
        observed: Mean of the differences; not read where n is 0.
        replicates: (B,) mean of the differences in each replicate; NaN where it drew no user, which is left out.
        n: Pairs.
        variance: Of the differences (n - 1), if the result is to have an effect size.
        alpha: Level.

    Returns:
        The result; the statistic is the mean. Undefined below two pairs, and where all differences are the same and not 0.

    Raises:
        ConfigError: There are fewer than 100 replicates, or something is not a number.

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
    known = _moments(n, observed, variance, alpha, wanted=False)
    known |= {"ci_low": None, "ci_high": None}
    if n < 2 or len(drawn) == 0:
        return _result("bootstrap", None, None, known | {"reason": known["reason"] or "no_replicate"})
    centre = number(observed, "observed")
    apart = np.abs(drawn - centre)
    if known["std"] == 0 or apart.max() <= ROUNDING * abs(centre):
        known = _moments(n, centre, 0.0, alpha)
        return _result("bootstrap", None, None, known) if centre else _result("bootstrap", 0.0, 1.0, known, 0.0)
    beyond = int((apart >= abs(centre) * (1 - ROUNDING)).sum())
    known["ci_low"], known["ci_high"] = (float(q) for q in np.quantile(drawn, [alpha / 2, 1 - alpha / 2]))
    return _result("bootstrap", centre, (beyond + 1) / (len(drawn) + 1), known, centre)


def _moments(n: int, mean: float | None, variance: float | None, alpha: float, *, wanted: bool = True) -> dict[str, Any]:
    """The fields of a result that number, mean and variance of the differences give, as far as these are known."""
    n = count(n, "n")
    known: dict[str, Any] = dict.fromkeys(
        ("effect_size", "mean_difference", "ci_low", "ci_high", "wins", "ties", "losses", "reason", "std")
    )
    known |= {"n": n, "alpha": share(alpha, "alpha"), "reason": {0: "no_pair", 1: "one_pair"}.get(n)}
    if n == 0 or (mean is None and not wanted):
        return known
    known["mean_difference"] = centre = number(mean, "mean")
    if n == 1 or (variance is None and not wanted):
        return known
    std = math.sqrt(number(variance, "variance", lowest=0.0))
    if std <= ROUNDING * abs(centre):
        std = 0.0
    known["std"] = std
    if std == 0:
        return known | ({"reason": "zero_variance"} if centre else {"effect_size": 0.0, "ci_low": 0.0, "ci_high": 0.0})
    from scipy.special import stdtrit

    half = -float(stdtrit(n - 1, alpha / 2)) * std / math.sqrt(n)
    return known | {"effect_size": centre / std, "ci_low": centre - half, "ci_high": centre + half}


def _result(
    test: str, statistic: float | None, p_value: float | None, known: dict[str, Any], higher: float | None = None
) -> TestResult:
    direction = None if higher is None else (higher > 0) - (higher < 0)
    return TestResult(test=test, statistic=statistic, p_value=p_value, direction=direction, **known)


# From arrays --------------------------------------------------------------------------------------------------------------


class _Differences(NamedTuple):
    """Of b - a: the values, their place in the arrays, moments and counts."""

    values: NDArray[np.float64]
    place: NDArray[np.int64]
    mean: float
    variance: float
    counts: dict[str, Any]


def _differences(a: ArrayLike, b: ArrayLike) -> _Differences:
    """The pairs without NaN. A difference that is no more than rounding of the values is 0."""
    old, new = numbers(a, "a"), numbers(b, "b")
    if len(old) != len(new):
        raise ConfigError(f"a and b: expected one value of each for every user, found {len(old)} and {len(new)}")
    difference, noise = new - old, ROUNDING * np.maximum(np.abs(old), np.abs(new))
    place = np.flatnonzero(~np.isnan(difference))
    difference, noise = difference[place], noise[place]
    difference[np.abs(difference) <= noise] = 0.0
    n = len(difference)
    mean = math.fsum(difference) / max(n, 1)
    variance = math.fsum((difference - mean) ** 2) / max(n - 1, 1)
    if n and np.ptp(difference) <= noise.max():
        variance = 0.0
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    described = {"wins": wins, "ties": n - wins - losses, "losses": losses, "n_left_out": len(old) - n}
    return _Differences(difference, place, mean, variance, described)


def paired_t_test(a: ArrayLike, b: ArrayLike, *, alpha: float = 0.05) -> TestResult:
    """Paired t test of two arrays, see `t_from_moments`.

    Args:
        a: (U,) values of the old model.
        b: (U,) values of the new one for the same users. A pair with a NaN is left out and counted.
        alpha: Level.

    Returns:
        The result. Undefined below two pairs, and where all differences are the same and not 0.

    Raises:
        ConfigError: The arrays are not one-dimensional, differ in length, or hold no finite numbers; or alpha is out of range.

    Source:
        As `t_from_moments`; the same as `scipy.stats.ttest_rel(b, a)`.

    Example:
        >>> found = paired_t_test([100, 200, 300, 400], [101, 202, 303, 404])
        >>> found.significant, round(found.effect_size, 6), found.wins
        (True, 1.936492, 4)
        >>> print(paired_t_test([0.5, 0.2, 0.9], [0.5, 0.4, 0.6]))
        paired t: no difference found at 0.05 (3 pairs show one of 0.8214 with 80 % power)
          b - a = -0.0333333, 95 % interval -0.658494 to 0.591828, p = 0.8399, d_z = -0.1325
          n = 3: b higher in 1, lower in 1, tied in 1
    """
    found = _differences(a, b)
    return replace(t_from_moments(len(found.values), found.mean, found.variance, alpha=alpha), **found.counts)


def wilcoxon_test(a: ArrayLike, b: ArrayLike, *, alpha: float = 0.05) -> TestResult:
    """Wilcoxon signed-rank test of two arrays, see `wilcoxon_from_histogram`.

    Args:
        a: (U,) values of the old model.
        b: (U,) values of the new one for the same users. A pair with a NaN is left out and counted.
        alpha: Level.

    Returns:
        The result. Undefined below two pairs.

    Raises:
        ConfigError: As `paired_t_test`.

    Source:
        As `wilcoxon_from_histogram`.

    Example:
        >>> result = wilcoxon_test([0.1, 0.2, 0.3], [0.2, 0.1, 0.6])
        >>> result.statistic, round(result.p_value, 4)
        (1.5, 0.4142)
    """
    found = _differences(a, b)
    size, group = np.unique(np.abs(found.values), return_inverse=True)
    up, down = (np.bincount(group[side], minlength=len(size)) for side in (found.values > 0, found.values < 0))
    some = size > 0
    result = wilcoxon_from_histogram(size[some], up[some], down[some], ties=found.counts["ties"], alpha=alpha)
    # One value of the moments for all tests, not one that was summed in another order.
    known = _moments(len(found.values), found.mean, found.variance, alpha)
    return replace(result, **(known | found.counts))


def sign_test(a: ArrayLike, b: ArrayLike, *, alpha: float = 0.05) -> TestResult:
    """Sign test of two arrays, see `sign_from_counts`.

    Args:
        a: (U,) values of the old model.
        b: (U,) values of the new one for the same users. A pair with a NaN is left out and counted.
        alpha: Level.

    Returns:
        The result. Undefined below two pairs.

    Raises:
        ConfigError: As `paired_t_test`.

    Source:
        As `sign_from_counts`; the same p as `scipy.stats.binomtest(wins, wins + losses)`.

    Example:
        >>> result = sign_test([0.1, 0.2, 0.3], [0.2, 0.3, 0.3])
        >>> result.wins, result.ties, result.p_value
        (2, 1, 0.5)
    """
    found = _differences(a, b)
    wins, ties, losses, _ = found.counts.values()
    result = sign_from_counts(wins, losses, ties=ties, mean=found.mean, variance=found.variance, alpha=alpha)
    return replace(result, **found.counts)


def bootstrap_test(a: ArrayLike, b: ArrayLike, *, n: int = 1000, alpha: float = 0.05, seed: int = 0) -> TestResult:
    """Poisson bootstrap test of two arrays, see `bootstrap_from_replicates`.

    Args:
        a: (U,) values of the old model.
        b: (U,) values of the new one for the same users. A pair with a NaN is left out and counted.
        n: B, the number of replicates, from 100.
        alpha: Level.
        seed: Of the weights, which depend on it and the place of a user in the arrays.

    Returns:
        The result. Undefined below two pairs, and where all differences are the same and not 0.

    Raises:
        ConfigError: As `paired_t_test`, or there are fewer than 100 replicates.

    Source:
        As `bootstrap_from_replicates` and `poisson_weights`.

    Example:
        >>> result = bootstrap_test([0.1, 0.2, 0.3], [0.2, 0.1, 0.6])
        >>> round(result.p_value, 2), round(result.ci_low, 4), round(result.ci_high, 4)
        (0.44, -0.1, 0.3)
    """
    found = _differences(a, b)
    drawn = _replicates(found.values, found.place, resamples(n), seed)
    result = bootstrap_from_replicates(found.mean, drawn, n=len(found.values), variance=found.variance, alpha=alpha)
    return replace(result, **found.counts)


def bootstrap_ci(values: ArrayLike, *, n: int = 1000, confidence: float = 0.95, seed: int = 0) -> Interval:
    """Percentile interval of the mean by a Poisson bootstrap: quantiles of the means of the replicates.

    Args:
        values: (U,) values of a model. NaN is left out and counted.
        n: B, the number of replicates, from 100.
        confidence: Share of data sets whose interval is to hold the true mean.
        seed: Of the weights, which depend on it and the place of a user in the array.

    Returns:
        Mean and interval. The interval is None below two values, and where all are the same and not 0.

    Raises:
        ConfigError: The values are not numbers in one dimension, there are fewer than 100 replicates, or `confidence` is out of
            range.

    Source:
        Efron and Tibshirani, An introduction to the bootstrap, 1993, chapter 13; the weights: as `poisson_weights`.

    Example:
        >>> found = bootstrap_ci([0.5, 0.2, 0.9])
        >>> round(found.mean, 4), round(found.ci_low, 4), round(found.ci_high, 4)
        (0.5333, 0.2, 0.9)
    """
    alpha = 1 - share(confidence, "confidence")
    given = numbers(values, "values")
    # The mean of values is the mean of their differences to 0.
    found = bootstrap_test(np.zeros(len(given)), given, n=n, alpha=alpha, seed=seed)
    return Interval(found.n, found.mean_difference, found.ci_low, found.ci_high, found.n_left_out)


def _replicates(values: NDArray[np.float64], place: NDArray[np.int64], n: int, seed: int) -> NDArray[np.float64]:
    """(B,) mean of the values in each replicate; NaN where it drew nobody."""
    sums, drawn = np.zeros(n), np.zeros(n)
    # A part of the users at a time: the weights of all would not fit into memory.
    for start in range(0, len(values), 8192):
        part = slice(start, start + 8192)
        total, weight = bootstrap_sums(values[part, None], poisson_weights(place[part].astype(np.uint64), n, seed))
        sums, drawn = sums + total[:, 0], drawn + weight[:, 0]
    return np.where(drawn > 0, sums / np.maximum(drawn, 1), np.nan)
