"""Data of the tests of `stats`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spark_recmetrics import stats

TESTS = (stats.paired_t_test, stats.wilcoxon_test, stats.sign_test, stats.bootstrap_test)
BY_NAME = pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)
NAN = math.nan


def values(seed, n=40, scale=0.1):
    """Values of two models for the same users, some of them tied."""
    rng = np.random.default_rng(seed)
    a = rng.random(n).round(1)
    return a, (a + scale * rng.normal(size=n)).round(1)


def hashes(n, seed=1):
    return np.random.default_rng(seed).integers(0, 2**64, size=n, dtype=np.uint64)
