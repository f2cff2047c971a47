"""Poisson bootstrap: the weights and the sums of replicates."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats as scipy_stats
from stats_data import NAN, hashes

from spark_recmetrics import ConfigError, stats


def test_weights_are_poisson_numbers():
    weights = stats.poisson_weights(hashes(4000), 1000)
    assert weights.dtype == np.uint8
    n = weights.size
    # Standard errors: of the mean 1 / sqrt(n), of the variance sqrt((kurtosis - 1) / n) with kurtosis 4.
    assert abs(weights.mean() - 1) < 4 / math.sqrt(n)
    assert abs(weights.var() - 1) < 4 * math.sqrt(3 / n)
    expected = scipy_stats.poisson.pmf(np.arange(6), 1) * n
    observed = np.bincount(weights.ravel(), minlength=9)[:6]
    assert (np.abs(observed - expected) < 4.5 * np.sqrt(expected)).all()


def test_the_table_of_draws_has_mean_and_variance_1():
    from spark_recmetrics.stats.resample import _AT_LEAST

    assert sum(_AT_LEAST) == 65536
    assert sum((2 * j - 1) * count for j, count in enumerate(_AT_LEAST, 1)) == 2 * 65536
    for j, count in enumerate(_AT_LEAST, 1):
        assert abs(count - 65536 * scipy_stats.poisson.sf(j - 1, 1)) < 1


@pytest.mark.parametrize("users", [hashes(3000), np.arange(3000, dtype=np.uint64)], ids=["hashed", "0, 1, 2, ..."])
def test_weights_are_independent(users):
    weights = stats.poisson_weights(users, 300, 7).astype(float)
    others = stats.poisson_weights(users, 300, 8).astype(float)
    for rows in (weights, weights.T):
        correlation = np.corrcoef(rows)
        apart = correlation[~np.eye(len(correlation), dtype=bool)]
        assert abs(apart.mean()) < 1e-3
        assert apart.std() == pytest.approx(1 / math.sqrt(rows.shape[1]), rel=0.03)
        assert np.abs(apart).max() < 6 / math.sqrt(rows.shape[1])
    assert abs(np.corrcoef(weights.ravel(), others.ravel())[0, 1]) < 4 / math.sqrt(weights.size)
    assert abs(np.corrcoef(weights[:-1].ravel(), weights[1:].ravel())[0, 1]) < 4 / math.sqrt(weights.size)
    assert abs(np.corrcoef(weights[:, :-1].ravel(), weights[:, 1:].ravel())[0, 1]) < 4 / math.sqrt(weights.size)


def test_a_user_has_the_same_weights_wherever_it_stands():
    users = hashes(20_000)
    weights = stats.poisson_weights(users, 103, 5)
    order = np.random.default_rng(2).permutation(len(users))
    for n_parts in (1, 3, 700):
        parts = [stats.poisson_weights(part, 103, 5) for part in np.array_split(users[order], n_parts)]
        assert (np.concatenate(parts, axis=1) == weights[:, order]).all()
    assert (stats.poisson_weights(users, 40, 5) == weights[:40]).all()
    assert (stats.poisson_weights(users.view(np.int64), 103, 5) == weights).all()
    assert stats.poisson_weights(users[:0], 103).shape == (103, 0)


def test_weights_are_a_stream_of_splitmix64():
    """The published generator, in Python's own integers."""

    def mixed(z):
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    step, quantiles = 0x9E3779B97F4A7C15, [41426, 17318, 5263, 1244, 240, 39, 5, 1]
    for user, seed in ((0, 0), (2**64 - 1, 12345), (77, 2**64 - 1)):
        state, expected = mixed((user + mixed((seed + step) % 2**64)) % 2**64), []
        for _ in range(50):
            state = (state + step) % 2**64
            draws = [mixed(state) >> shift & 0xFFFF for shift in (0, 16, 32, 48)]
            expected += [sum(draw >= 65536 - q for q in quantiles) for draw in draws]
        assert stats.poisson_weights(np.array([user], dtype=np.uint64), 200, seed)[:, 0].tolist() == expected


def test_sums_of_replicates():
    rng = np.random.default_rng(4)
    table = rng.random((5000, 4))
    table[rng.random(table.shape) < 0.1] = NAN
    table[:, 2] = 0.5
    weights = stats.poisson_weights(hashes(5000), 100)
    sums, counts = stats.bootstrap_sums(table, weights)
    for column in range(4):
        there = ~np.isnan(table[:, column])
        assert sums[:, column] == pytest.approx((weights[:, there] * table[there, column]).sum(axis=1), rel=1e-12)
        assert (counts[:, column] == weights[:, there].sum(axis=1)).all()
    parts = [stats.bootstrap_sums(table[part], weights[:, part]) for part in (slice(0, 77), slice(77, None))]
    assert sums == pytest.approx(parts[0][0] + parts[1][0], rel=1e-12)
    assert (counts == parts[0][1] + parts[1][1]).all()


def test_the_weights_need_no_scipy():
    """Executors may have no scipy."""
    code = "import sys, spark_recmetrics as srm; srm.stats.poisson_weights; print({'scipy', 'pyspark'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: stats.poisson_weights(np.arange(3.0), 4),
            r"user_hash: expected one 64-bit integer for each user, found float64 of",
        ),
        (lambda: stats.poisson_weights(hashes(3), 0), r"n: expected an integer of at least 1 and below 2\^64, found 0"),
        (
            lambda: stats.bootstrap_sums([1.0], np.ones((2, 1))),
            r"values: expected numbers of shape \(users, columns\), found float64 of shape",
        ),
        (
            lambda: stats.bootstrap_sums([[1.0]], np.ones((2, 3))),
            r"weights: expected numbers of shape \(replicates, 1\), found float64",
        ),
    ],
)
def test_wrong_arguments_are_rejected(call, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        call()
