"""Random evaluations give the same on both engines: values, warnings, checks, errors, comparisons and explanations."""

from __future__ import annotations

import math

import pytest
from engines import PANDAS, POLARS, PYARROW, differences, on_spark, outcome
from random_requests import random_request

from spark_recmetrics.conventions import CONVENTIONS

FEW, MORE = range(4), (*range(4, 18), 28, 39)
"""Seeds. The last two found differences between the engines."""


def outcomes(request, *engines):
    asked = {"compared": request.compared, "explained": request.explained, "calibrated": request.calibrated}
    return [outcome(engine, request.tables, request.options, **asked) for engine in engines]


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MORE)])
def test_memory_agrees_with_spark(spark, seed):
    assert differences(*outcomes(random_request(seed), POLARS, on_spark(spark))) == []


@pytest.mark.parametrize("seed", range(5))
def test_frames_of_all_libraries_agree(seed):
    request = random_request(seed)
    pyarrow, polars, pandas = outcomes(request, PYARROW, POLARS, PANDAS)
    assert differences(pyarrow, polars) == []
    # A column of doubles in pandas has one missing value, in place of null and NaN. A Decimal has no precision, but the hash
    # of a decimal id needs to know whether it may have more than 18 digits.
    if not request.faulty and "decimal(20" not in request.tables["predictions"].columns:
        assert differences(pyarrow, pandas) == []


def test_the_random_requests_have_all_edges():
    """A generator that lost an edge would leave the tests above without it."""
    requests = [random_request(seed) for seed in range(50)]
    assert {request.options["convention"]["name"] for request in requests} >= {"default", *CONVENTIONS}
    options = {name for request in requests for name in request.options}
    assert options >= {"slices", "intervals", "max_per_user", "cast_ids", "baseline", "threshold", "models", "checks"}
    tables = {name for request in requests for name in request.tables}
    assert tables >= {"train", "catalog", "user_segments", "item_groups", "item_features", "rating_predictions"}
    columns = " ".join(request.tables["predictions"].columns for request in requests)
    assert all(text in columns for text in ("rank ", "score ", "array<struct<", "array<string>", "decimal", "model string"))
    cells = [
        cell for request in requests for name in ("predictions", "truth") for row in request.tables[name].rows for cell in row
    ]
    assert None in cells, "null ids and ratings"
    assert any(isinstance(cell, float) and math.isnan(cell) for cell in cells), "missing scores"
