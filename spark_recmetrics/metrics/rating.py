"""Rating metrics: formulas over moments of the prediction errors, of one user or of all users.

The formulas use arithmetic only, so that moments may be numbers, numpy arrays or Spark columns. The option `average` selects
the moments. `pairs`: the moments of all pairs of all users. `per_user`: the moments of each user; the value of a model is the
mean of the users' values, so for `rmse` a mean of roots. `users`: the sum over all pairs divided by the number of users; for
`r2` and `explained_variance` the same as `pairs`. The examples have three pairs with ratings 5, 4, 3 and errors 1, 2, 3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from spark_recmetrics.metrics.registry import Sums, quotient, register


def _root_of_quotient(sums: Sums) -> Any:
    return quotient(sums) ** 0.5


def _complement_of_quotient(sums: Sums) -> Any:
    return 1 - quotient(sums)


_rating = partial(register, kind="rating", options={"average": "rating_average"}, averaged_by="average")
_error = partial(_rating, higher_is_better=False, upper=None)
_share = partial(_rating, lower=None, pooled=_complement_of_quotient, skips_undefined=True, divides_by_pairs=False)

_ROUNDING = 1e-10
"""A difference of two sums below this share of them consists mostly of rounding errors."""


class Moments(NamedTuple):
    """Sums over the pairs of a prediction p and a true rating r, and the names of their PER_USER columns."""

    n_pairs: Any  # above 0
    sum_absolute_error: Any  # of |p - r|
    sum_squared_error: Any  # of (p - r)^2
    sum_error: Any  # of p - r
    sum_rating: Any  # of r
    sum_squared_rating: Any  # of r^2


def pair_terms(error: Any, rating: Any, absolute: Callable[[Any], Any]) -> dict[str, Any]:
    """By name, what a pair adds to the sums of `Moments`. `absolute` is the function of numpy and pandas, or of Spark."""
    return {
        "sum_absolute_error": absolute(error),
        "sum_squared_error": error * error,
        "sum_error": error,
        "sum_rating": rating,
        "sum_squared_rating": rating * rating,
    }


@_error("mae", aliases=("mean_absolute_error",), pooled=quotient)
def mean_absolute_error(moments: Moments) -> Sums:
    """Mean absolute error: (1/n) sum |p - r|, in units of the rating.

    Returns:
        Sum and number of errors. Undefined without a pair.

    Source:
        Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22(1), 2004.

    Example:
        >>> quotient(mean_absolute_error(Moments(3, 6.0, 14.0, 6.0, 12.0, 50.0)))
        2.0
    """
    return Sums(moments.sum_absolute_error, moments.n_pairs)


@_error("mse", aliases=("mean_squared_error",), pooled=quotient)
def mean_squared_error(moments: Moments) -> Sums:
    """Mean squared error: (1/n) sum (p - r)^2, in squared units of the rating.

    Returns:
        Sum and number of squared errors. Undefined without a pair.

    Source:
        Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22(1), 2004.

    Example:
        >>> round(quotient(mean_squared_error(Moments(3, 6.0, 14.0, 6.0, 12.0, 50.0))), 4)
        4.6667
    """
    return Sums(moments.sum_squared_error, moments.n_pairs)


@_error("rmse", aliases=("root_mean_squared_error",), pooled=_root_of_quotient)
def root_mean_squared_error(moments: Moments) -> Sums:
    """Root mean squared error: sqrt((1/n) sum (p - r)^2), in units of the rating.

    Returns:
        Sum and number of squared errors; the value is the root of their quotient. Undefined without a pair.

    Source:
        Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22(1), 2004.

    Example:
        >>> round(quotient(root_mean_squared_error(Moments(3, 6.0, 14.0, 6.0, 12.0, 50.0))) ** 0.5, 4)
        2.1602
    """
    return Sums(moments.sum_squared_error, moments.n_pairs)


@_share("r2", aliases=("r_squared", "rsquared", "r2_score"))
def r_squared(moments: Moments) -> Sums:
    """Coefficient of determination: 1 - sum (p - r)^2 / sum (r - mean r)^2.

    Below 0 if the mean rating predicts better.

    Returns:
        The two sums. Undefined if all ratings are equal, or differ by less than a 100,000th of their size.

    Source:
        Kvålseth, Cautionary note about R2, The American Statistician 39(4), 1985, its formula 1.

    Example:
        >>> 1 - quotient(r_squared(Moments(3, 6.0, 14.0, 6.0, 12.0, 50.0)))
        -6.0
    """
    return Sums(moments.sum_squared_error, *_deviation(moments))


@_share("explained_variance", aliases=("exp_var", "expvar", "explained_variance_score"))
def explained_variance(moments: Moments) -> Sums:
    """Explained variance: `r2` after the mean error is subtracted: 1 - Var(p - r) / Var(r).

    Returns:
        The two variances, times n. Undefined where `r2` is, and if the errors are 100,000 times as large as the differences of
            the ratings, so that rounding would decide.

    Source:
        scikit-learn, its explained_variance_score.

    Example:
        >>> 1 - quotient(explained_variance(Moments(3, 6.0, 14.0, 6.0, 12.0, 50.0)))
        0.0
    """
    varying = moments.sum_squared_error - moments.sum_error * moments.sum_error / moments.n_pairs
    deviation, floor = _deviation(moments)
    return Sums(varying, deviation, floor + _ROUNDING * moments.sum_squared_error)


def _deviation(moments: Moments) -> tuple[Any, Any]:
    """Sum of the squared deviations of the ratings from their mean, and an upper bound of its rounding error."""
    deviation = moments.sum_squared_rating - moments.sum_rating * moments.sum_rating / moments.n_pairs
    return deviation, _ROUNDING * moments.sum_squared_rating
