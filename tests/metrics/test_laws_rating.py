"""Laws of rating metrics. The tests select metrics by their declared traits, as in `test_laws.py`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics.test_laws import LAWS, RATING, RATINGS, best_bound

from spark_recmetrics.metrics import DEFINITIONS, Definition, Sums
from spark_recmetrics.metrics.rating import Moments

Pairs = list[tuple[float, float]]
NUMBERS = st.floats(-100, 100).filter(lambda error: error == 0 or abs(error) > 1e-6)
ERRORS = st.lists(st.tuples(NUMBERS, RATINGS), min_size=1, max_size=20)
"""Pairs of an error and a true rating."""


def sums_of(definition: Definition, errors: Pairs) -> Sums:
    columns = [[1, abs(error), error**2, error, rating, rating**2] for error, rating in errors]
    return definition.compute(Moments(*(sum(column) for column in zip(*columns, strict=True))))


def error_of(definition: Definition, errors: Pairs) -> float | None:
    sums = sums_of(definition, errors)
    return float(definition.pooled(sums)) if sums.count > sums.floor else None


every_rating_metric = pytest.mark.parametrize("definition", RATING, ids=lambda definition: definition.name)


@every_rating_metric
@LAWS
@given(errors=ERRORS)
def test_bounds_of_rating_metrics(definition, errors):
    """Without errors a value is the best one. No value is better."""
    right, result = error_of(definition, [(0.0, rating) for _, rating in errors]), error_of(definition, errors)
    if right is None:
        assert result is None
        return
    assert right == best_bound(definition)
    for bound, sign in ((definition.lower, 1), (definition.upper, -1)):
        assert bound is None or (result - bound) * sign >= -1e-12
    if not definition.higher_is_better:
        assert (result > 0) == any(error for error, _ in errors)


@every_rating_metric
@LAWS
@given(errors=ERRORS)
def test_an_error_metric_is_symmetric_and_grows_with_the_errors(definition, errors):
    result = error_of(definition, errors)
    assert error_of(definition, [(-error, rating) for error, rating in errors]) == result
    larger = error_of(definition, [(2 * error, rating) for error, rating in errors])
    if result is not None:
        assert (larger <= result + 1e-9) if definition.higher_is_better else (larger >= result)


@every_rating_metric
@LAWS
@given(errors=ERRORS, rating=st.floats(0.1, 100))
def test_the_divisor_of_rating_metrics(definition, errors, rating):
    """The number of pairs, or the variance of the ratings; the value is undefined if the variance is 0 up to rounding."""
    if definition.divides_by_pairs:
        assert sums_of(definition, errors).count == len(errors)
    else:
        assert error_of(definition, [(error, rating) for error, _ in errors]) is None
        assert (error_of(definition, errors) is None) == (len({rating for _, rating in errors}) == 1)


@LAWS
@given(errors=ERRORS)
def test_rmse_is_the_root_of_mse_and_never_below_mae(errors):
    rmse, mse, mae = (error_of(DEFINITIONS[name], errors) for name in ("rmse", "mse", "mae"))
    assert rmse**2 == pytest.approx(mse)
    assert rmse >= mae * (1 - 1e-12)


@LAWS
@given(errors=ERRORS, bias=st.floats(-9, 9))
def test_a_bias_does_not_change_the_explained_variance_and_r2_does_not_exceed_it(errors, bias):
    r2, explained, biased = (
        error_of(DEFINITIONS[name], [(error + more, rating) for error, rating in errors])
        for name, more in (("r2", 0.0), ("explained_variance", 0.0), ("explained_variance", bias))
    )
    if explained is not None:
        assert r2 <= explained + 1e-9
        assert biased == pytest.approx(explained, rel=1e-9, abs=1e-8)
