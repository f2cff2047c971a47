"""Poisson bootstrap: how often each user is drawn in each replicate, and the weighted sums over users.

This part runs on Spark workers. The tests and confidence intervals of `stats` use the sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_recmetrics.errors import ConfigError

_STEP, _FIRST, _SECOND = (np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

_AT_LEAST = (41426, 17318, 5263, 1244, 240, 39, 5, 1)
"""Of 65,536 equally likely draws, how many are at least 1, 2, 3, … These are the quantiles of Poisson(1). The first two are
moved by less than one draw, so that mean and variance are exactly 1."""

_FLOORS = tuple(np.uint16(65536 - count) for count in _AT_LEAST)

_TILE = 16384
"""Hashes per block: their buffers of a third of a megabyte stay in the cache."""

_BLOCK = 4096
"""Users per block of weights that are converted to floats."""


def poisson_weights(user_hash: NDArray[np.uint64], n: int, seed: int = 0) -> NDArray[np.uint8]:
    """How often each user is drawn in each replicate: Poisson(1) numbers that only depend on user, replicate and seed.

    So a user has the same weights for every model and metric, on every cluster, in any order and partitioning. The weights of a
    user are a stream of splitmix64 that begins at the hash of user and seed. The j-th hash of 64 bits gives the draws 4j to
    4j + 3 of 16 bits each, and each draw is mapped to a quantile of Poisson(1). No weight is above 8.

    Args:
        user_hash: (U,) a 64-bit hash of each user, such as Spark's `xxhash64`. The bits of int64 are used as they are.
        n: B, the number of replicates, at least 1.
        seed: From 0 to 2^64 - 1.

    Returns:
        (B, U) weights.

    Raises:
        ConfigError: The hashes are not one-dimensional 64-bit integers, or `n` or `seed` is out of range.

    Source:
        Bootstrap: Chamandy, Muralidharan, Najmi and Naidu, Estimating uncertainty for massive data streams, Google, 2012.
        splitmix64: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.

    Example:
        >>> users = np.array([11, 22, 33], dtype=np.uint64)
        >>> poisson_weights(users, 3)
        array([[1, 3, 2],
               [1, 4, 4],
               [0, 1, 2]], dtype=uint8)
        >>> poisson_weights(users[::-1], 2)
        array([[2, 3, 1],
               [4, 4, 1]], dtype=uint8)
    """
    users = np.asarray(user_hash)
    if users.ndim != 1 or users.dtype.kind not in "iu" or users.dtype.itemsize != 8:
        raise ConfigError(f"user_hash: expected one 64-bit integer for each user, found {users.dtype} of shape {users.shape}")
    for name, number, lowest in (("n", n, 1), ("seed", seed, 0)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or not lowest <= int(number) < 1 << 64:
            raise ConfigError(f"{name}: expected an integer of at least {lowest} and below 2^64, found {number!r}")
    # All sums and products of hashes are modulo 2^64.
    starts = _mixed(users.astype(np.uint64) + _mixed(np.array([seed], dtype=np.uint64) + _STEP))
    n_hashes = -(-int(n) // 4)
    steps = np.arange(1, n_hashes + 1, dtype=np.uint64)[:, None] * _STEP
    weights = np.empty((4 * n_hashes, len(users)), dtype=np.uint8)
    across = min(max(len(users), 1), _TILE)
    down = _TILE // across
    for left in range(0, len(users), across):
        for top in range(0, n_hashes, down):
            hashes = _mixed(steps[top : top + down] + starts[left : left + across])
            for part in range(4):
                # The cast keeps the low 16 bits on machines of any byte order.
                draws = (hashes >> np.uint64(16 * part)).astype(np.uint16)
                drawn = (draws >= _FLOORS[0]).view(np.uint8)
                # Eight vectorized comparisons are faster than a lookup in a table of 65,536 entries.
                for floor in _FLOORS[1:]:
                    drawn += (draws >= floor).view(np.uint8)
                weights[4 * top + part : 4 * (top + down) : 4, left : left + across] = drawn
    return weights[: int(n)]


def _mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The last step of splitmix64, in place: every bit of the input affects half of the bits of the output."""
    spare = np.empty_like(hashes)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        np.right_shift(hashes, np.uint64(shift), out=spare)
        np.bitwise_xor(hashes, spare, out=hashes)
        np.multiply(hashes, factor, out=hashes)
    np.right_shift(hashes, np.uint64(31), out=spare)
    return np.bitwise_xor(hashes, spare, out=hashes)


def bootstrap_sums(values: ArrayLike, weights: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The weighted sum of each column in each replicate, and the sum of its weights. NaN is left out of both.

    The results of disjoint sets of users can be added. A sum divided by its count is the mean of a replicate.

    Args:
        values: (U, C) values of each user in C columns.
        weights: (B, U) weights of `poisson_weights`.

    Returns:
        (B, C) sums and (B, C) counts.

    Raises:
        ConfigError: The shapes do not match, or the values are not numbers.

    Source:
        Chamandy, Muralidharan, Najmi and Naidu, Estimating uncertainty for massive data streams, Google, 2012.

    Example:
        >>> sums, counts = bootstrap_sums([[0.5, 1.0], [0.25, np.nan], [1.0, 3.0]], np.array([[1, 1, 1], [2, 0, 1]]))
        >>> sums
        array([[1.75, 4.  ],
               [2.  , 5.  ]])
        >>> counts
        array([[3, 2],
               [3, 3]])
    """
    table, drawn = np.asarray(values), np.asarray(weights)
    if table.ndim != 2 or table.dtype.kind not in "biuf":
        raise ConfigError(f"values: expected numbers of shape (users, columns), found {table.dtype} of shape {table.shape}")
    if drawn.ndim != 2 or drawn.dtype.kind not in "biuf" or drawn.shape[1] != len(table):
        raise ConfigError(
            f"weights: expected numbers of shape (replicates, {len(table)}), found {drawn.dtype} of shape {drawn.shape}"
        )
    table = table.astype(np.float64, copy=False)
    missing = np.isnan(table)
    gaps = missing.any(axis=0)
    # Columns without NaN share one column of counts.
    present = np.concatenate([np.ones((len(table), 1)), ~missing[:, gaps]], axis=1)
    factors = np.concatenate([np.where(missing, 0.0, table), present], axis=1)
    sums = np.zeros((len(drawn), factors.shape[1]))
    for start in range(0, len(table), _BLOCK):
        block = slice(start, start + _BLOCK)
        # An infinite value makes the sum infinite, or NaN if its weight is 0.
        with np.errstate(over="ignore", invalid="ignore"):
            sums += drawn[:, block].astype(np.float64) @ factors[block]
    n_columns = table.shape[1]
    counts = sums[:, n_columns + np.where(gaps, np.cumsum(gaps), 0)]
    return sums[:, :n_columns], np.rint(counts).astype(np.int64)
