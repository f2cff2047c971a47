"""Rating metrics: formulas over error moments, the same for one user and for all.

A formula uses arithmetic only, so it takes moments that are numbers, numpy arrays or Spark columns alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from spark_recmetrics.metrics.registry import register


class Moments(NamedTuple):
    """Sums over the pairs of a prediction p and a true rating r; also the columns of PER_USER that hold them.

    Args:
        n_pairs: Number of pairs, above 0.
        sum_absolute_error: Sum of |p - r|.
        sum_squared_error: Sum of (p - r)^2.
    """

    n_pairs: Any
    sum_absolute_error: Any
    sum_squared_error: Any


@register("mae", kind="rating", aliases=("mean_absolute_error",), higher_is_better=False, upper=None)
def mean_absolute_error(moments: Moments) -> Any:
    """Mean absolute error: (1/n) sum |p - r|, in units of the rating.

    Args:
        moments: Of one user or of many.

    Returns:
        The error. Undefined without a pair.

    Source:
        Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22(1), 2004.

    Example:
        Three users with errors 1, 2 and 3:

        >>> mean_absolute_error(Moments(3, 6.0, 14.0))
        2.0
    """
    return moments.sum_absolute_error / moments.n_pairs


@register("mse", kind="rating", aliases=("mean_squared_error",), higher_is_better=False, upper=None)
def mean_squared_error(moments: Moments) -> Any:
    """Mean squared error: (1/n) sum (p - r)^2, in squared units of the rating.

    Args:
        moments: Of one user or of many.

    Returns:
        The error. Undefined without a pair.

    Source:
        Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22(1), 2004.

    Example:
        Three users with errors 1, 2 and 3:

        >>> round(mean_squared_error(Moments(3, 6.0, 14.0)), 4)
        4.6667
    """
    return moments.sum_squared_error / moments.n_pairs


@register("rmse", kind="rating", aliases=("root_mean_squared_error",), higher_is_better=False, upper=None)
def root_mean_squared_error(moments: Moments) -> Any:
    """Root mean squared error: sqrt((1/n) sum (p - r)^2), in units of the rating.

    Args:
        moments: Of one user or of many.

    Returns:
        The error. Undefined without a pair.

    Source:
        Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22(1), 2004.

    Example:
        Three users with errors 1, 2 and 3:

        >>> round(root_mean_squared_error(Moments(3, 6.0, 14.0)), 4)
        2.1602
    """
    return (moments.sum_squared_error / moments.n_pairs) ** 0.5
