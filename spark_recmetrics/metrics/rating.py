"""Rating metrics: formulas over error moments, the same for one user and for all.

A formula uses arithmetic only, so it takes moments that are numbers, numpy arrays or Spark columns alike. The option `average`
says which moments: `pairs`, those of all pairs of all users; `per_user`, those of each user, then the mean of the values, so
for `rmse` of the roots; `users`, the sum over all pairs, divided by the number of users, which for `r2` and
`explained_variance` is the same as `pairs`.
"""

from __future__ import annotations

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
"""A difference of two sums below this share of them has lost too many digits to rounding."""


class Moments(NamedTuple):
    """Sums over the pairs of a prediction p and a true rating r; also the columns of PER_USER that hold them.

    Args:
        n_pairs: Number of pairs, above 0.
        sum_absolute_error: Sum of |p - r|.
        sum_squared_error: Sum of (p - r)^2.
        sum_error: Sum of p - r.
        sum_rating: Sum of r.
        sum_squared_rating: Sum of r^2.
    """

    n_pairs: Any
    sum_absolute_error: Any
    sum_squared_error: Any
    sum_error: Any
    sum_rating: Any
    sum_squared_rating: Any


@_error(
    "mae",
    aliases=("mean_absolute_error",),
    pooled=quotient,
)
def mean_absolute_error(moments: Moments) -> Sums:
    """Mean absolute error: (1/n) sum |p - r|, in units of the rating.

    Args:
        moments: Of one user or of many.

    Returns:
        Sum and number of errors. Undefined without a pair.

    Source:
        Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22(1), 2004.

    Example:
        Three users with ratings 5, 4, 3 and errors 1, 2, 3:

        >>> quotient(mean_absolute_error(Moments(3, 6.0, 14.0, 6.0, 12.0, 50.0)))
        2.0
    """
    return Sums(moments.sum_absolute_error, moments.n_pairs)


@_error(
    "mse",
    aliases=("mean_squared_error",),
    pooled=quotient,
)
def mean_squared_error(moments: Moments) -> Sums:
    """Mean squared error: (1/n) sum (p - r)^2, in squared units of the rating.

    Args:
        moments: Of one user or of many.

    Returns:
        Sum and number of squared errors. Undefined without a pair.

    Source:
        Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22(1), 2004.

    Example:
        Three users with ratings 5, 4, 3 and errors 1, 2, 3:

        >>> round(quotient(mean_squared_error(Moments(3, 6.0, 14.0, 6.0, 12.0, 50.0))), 4)
        4.6667
    """
    return Sums(moments.sum_squared_error, moments.n_pairs)


@_error(
    "rmse",
    aliases=("root_mean_squared_error",),
    pooled=_root_of_quotient,
)
def root_mean_squared_error(moments: Moments) -> Sums:
    """Root mean squared error: sqrt((1/n) sum (p - r)^2), in units of the rating.

    Args:
        moments: Of one user or of many.

    Returns:
        Sum and number of squared errors, of whose quotient the value is the root. Undefined without a pair.

    Source:
        Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22(1), 2004.

    Example:
        Three users with ratings 5, 4, 3 and errors 1, 2, 3:

        >>> round(quotient(root_mean_squared_error(Moments(3, 6.0, 14.0, 6.0, 12.0, 50.0))) ** 0.5, 4)
        2.1602
    """
    return Sums(moments.sum_squared_error, moments.n_pairs)


@_share(
    "r2",
    aliases=("r_squared", "rsquared", "r2_score"),
)
def r_squared(moments: Moments) -> Sums:
    """Share of the squared deviation of the ratings that predictions explain: 1 - sum (p - r)^2 / sum (r - mean r)^2.

    Below 0 where the mean rating would predict better.

    Args:
        moments: Of one user or of many.

    Returns:
        The two sums. Undefined where all ratings are equal, or differ by less than a 100,000th of their size.

    Source:
        Kvålseth, Cautionary note about R2, The American Statistician 39(4), 1985, its formula 1.

    Example:
        Three users with ratings 5, 4, 3 and errors 1, 2, 3:

        >>> 1 - quotient(r_squared(Moments(3, 6.0, 14.0, 6.0, 12.0, 50.0)))
        -6.0
    """
    return Sums(moments.sum_squared_error, *_deviation(moments))


@_share(
    "explained_variance",
    aliases=("exp_var", "expvar", "explained_variance_score"),
)
def explained_variance(moments: Moments) -> Sums:
    """The same as r2 for errors without their mean, a bias that does not vary: 1 - Var(p - r) / Var(r).

    Args:
        moments: Of one user or of many.

    Returns:
        The two variances, times n. Undefined as `r2`, and where the errors are 100,000 times as large as the ratings differ:
        rounding would decide then.

    Source:
        scikit-learn, its explained_variance_score.

    Example:
        Three users with ratings 5, 4, 3 and errors 1, 2, 3:

        >>> 1 - quotient(explained_variance(Moments(3, 6.0, 14.0, 6.0, 12.0, 50.0)))
        0.0
    """
    varying = moments.sum_squared_error - moments.sum_error * moments.sum_error / moments.n_pairs
    deviation, floor = _deviation(moments)
    return Sums(varying, deviation, floor + _ROUNDING * moments.sum_squared_error)


def _deviation(moments: Moments) -> tuple[Any, Any]:
    """Sum of the squared deviations of the ratings from their mean, and how much of it may be rounding."""
    deviation = moments.sum_squared_rating - moments.sum_rating * moments.sum_rating / moments.n_pairs
    return deviation, _ROUNDING * moments.sum_squared_rating
