"""Rating metrics: formulas over error moments, the same for one user and for all.

The moments are sums over (prediction p, truth r) pairs: n pairs, sum |p - r|, sum (p - r)^2. A formula uses arithmetic
only, so it takes numbers, numpy arrays and Spark columns alike.
"""

from __future__ import annotations

from typing import Any

from spark_recmetrics.metrics.registry import register

MOMENTS = ("n_pairs", "sum_absolute_error", "sum_squared_error")
"""The columns that rating metrics are computed from, and the arguments of every formula here."""


@register("mae", kind="rating", aliases=("mean_absolute_error",), higher_is_better=False, upper=None)
def mean_absolute_error(n_pairs: Any, sum_absolute_error: Any, sum_squared_error: Any) -> Any:
    """Mean absolute error: (1/n) sum |p - r|, in units of the rating.

    Args:
        n_pairs: Number of pairs, above 0.
        sum_absolute_error: Sum of |p - r|.
        sum_squared_error: Not used.

    Returns:
        The error. Undefined without a pair.

    Source:
        Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22(1), 2004.

    Example:
        Three users with errors 1, 2 and 3:

        >>> mean_absolute_error(3, 6.0, 14.0)
        2.0
    """
    return sum_absolute_error / n_pairs


@register("mse", kind="rating", aliases=("mean_squared_error",), higher_is_better=False, upper=None)
def mean_squared_error(n_pairs: Any, sum_absolute_error: Any, sum_squared_error: Any) -> Any:
    """Mean squared error: (1/n) sum (p - r)^2, in squared units of the rating.

    Args:
        n_pairs: Number of pairs, above 0.
        sum_absolute_error: Not used.
        sum_squared_error: Sum of (p - r)^2.

    Returns:
        The error. Undefined without a pair.

    Source:
        Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22(1), 2004.

    Example:
        Three users with errors 1, 2 and 3:

        >>> round(mean_squared_error(3, 6.0, 14.0), 4)
        4.6667
    """
    return sum_squared_error / n_pairs


@register("rmse", kind="rating", aliases=("root_mean_squared_error",), higher_is_better=False, upper=None)
def root_mean_squared_error(n_pairs: Any, sum_absolute_error: Any, sum_squared_error: Any) -> Any:
    """Root mean squared error: sqrt((1/n) sum (p - r)^2), in units of the rating.

    Args:
        n_pairs: Number of pairs, above 0.
        sum_absolute_error: Not used.
        sum_squared_error: Sum of (p - r)^2.

    Returns:
        The error. Undefined without a pair.

    Source:
        Herlocker et al., Evaluating collaborative filtering recommender systems, ACM TOIS 22(1), 2004.

    Example:
        Three users with errors 1, 2 and 3:

        >>> round(root_mean_squared_error(3, 6.0, 14.0), 4)
        2.1602
    """
    return (sum_squared_error / n_pairs) ** 0.5
