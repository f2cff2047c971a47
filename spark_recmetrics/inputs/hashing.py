"""Spark's hash function `xxhash64` in numpy. Resampled users and hashes of the ground truth are the same in both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

_SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
"""The primes of XXH64 (Yann Collet, xxHash)."""

USER_TYPE = "type of users"
"""The key, in `attrs` of PER_USER in memory, of the Arrow type that user ids have in the caller's tables."""

_LONG_DIGITS = 18
"""Spark hashes decimals with at most this number of digits as integers, and others as bytes."""


def xxhash64(*columns: pa.ChunkedArray) -> Words:
    """(R,) the hash of rows of integers, decimals, doubles or strings, like Spark's `xxhash64`, which skips nulls."""
    hashed = np.full(len(columns[0]), _SEED, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            start = 0
            for chunk in column.chunks:
                valid = start + np.flatnonzero(chunk.is_valid().to_numpy(zero_copy_only=False))
                hashed[valid] = _hash_values(chunk.drop_null(), hashed[valid])
                start += len(chunk)
    return hashed


def user_hashes(users: Any, per_user: Any) -> Ints:
    """(R,) the hash of each of these users of PER_USER in memory, as Spark computes it."""
    return xxhash64(pa.chunked_array([pa.array(users, per_user.attrs[USER_TYPE])])).view(np.int64)


def _hash_values(values: pa.Array, seed: Words) -> Words:
    kind = values.type
    if pa.types.is_string(kind):
        strings = values.cast(pa.large_binary())
        ends = np.frombuffer(strings.buffers()[1], dtype=np.int64)[strings.offset :][: len(strings) + 1]
        data = np.frombuffer(strings.buffers()[2] or b"", dtype=np.uint8)
        return _hash_bytes(data, ends[:-1], np.diff(ends), seed)
    if pa.types.is_decimal(kind):
        data = values.buffers()[1].to_pybytes()
        starts = range(16 * values.offset, 16 * (values.offset + len(values)), 16)
        unscaled = [int.from_bytes(data[start : start + 16], "little", signed=True) for start in starts]
        if kind.precision <= _LONG_DIGITS:
            return _hash_numbers(np.array(unscaled, dtype=np.int64), seed)
        # The fewest bytes that hold the number and its sign.
        words = [number.to_bytes((number ^ (number >> 127)).bit_length() // 8 + 1, "big", signed=True) for number in unscaled]
        size = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        return _hash_bytes(np.frombuffer(b"".join(words), dtype=np.uint8), np.cumsum(size) - size, size, seed)
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype == np.float64:
        # -0.0 becomes 0.0, and all NaN are equal.
        return _hash_numbers(np.where(np.isnan(numbers), np.nan, numbers) + 0.0, seed)
    return _hash_numbers(numbers.astype(np.int32 if numbers.dtype.itemsize <= 4 else np.int64), seed)


def _rotated(words: Words, n_bits: int) -> Words:
    return (words << np.uint64(n_bits)) | (words >> np.uint64(64 - n_bits))


def _hash_numbers(numbers: NDArray[Any], seed: Words) -> Words:
    return _hash_table(numbers.view(np.uint8).reshape(-1, numbers.itemsize), seed)


def _hash_bytes(data: NDArray[np.uint8], start: Ints, size: Ints, seed: Words) -> Words:
    """(R,) the hashes of byte strings, from the start and size of each string in the data."""
    hashed = np.empty(len(size), dtype=np.uint64)
    for length in np.unique(size):  # strings of the same length at once
        rows = np.flatnonzero(size == length)
        hashed[rows] = _hash_table(data[start[rows][:, None] + np.arange(length)], seed[rows])
    return hashed


def _hash_table(table: NDArray[np.uint8], seed: Words) -> Words:
    """(R,) the hashes of the rows of a table of bytes."""
    length, start = table.shape[1], 0

    def words(first: int, size: int) -> Words:
        part = np.ascontiguousarray(table[:, first : first + size])
        return part.view({8: "<u8", 4: "<u4", 1: "u1"}[size]).ravel().astype(np.uint64)

    hashed = seed + _P5
    if length >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed.copy(), seed - _P1]
        while start + 32 <= length:
            for n in range(4):
                lanes[n] = _rotated(lanes[n] + words(start + 8 * n, 8) * _P2, 31) * _P1
            start += 32
        hashed = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
        for lane in lanes:
            hashed = (hashed ^ (_rotated(lane * _P2, 31) * _P1)) * _P1 + _P4
    hashed = hashed + np.uint64(length)
    while start + 8 <= length:
        word = _rotated(words(start, 8) * _P2, 31) * _P1
        hashed, start = _rotated(hashed ^ word, 27) * _P1 + _P4, start + 8
    if start + 4 <= length:
        hashed, start = _rotated(hashed ^ (words(start, 4) * _P1), 23) * _P2 + _P3, start + 4
    while start < length:
        hashed, start = _rotated(hashed ^ (words(start, 1) * _P5), 11) * _P1, start + 1
    hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
    hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
    return hashed ^ (hashed >> np.uint64(32))
