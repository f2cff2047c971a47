"""Spark's 64-bit hash of rows in numpy, so that resampled users and fingerprints are the same in memory as on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]

_SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
"""Yann Collet, xxHash: XXH64."""


def xxhash64(*columns: pa.ChunkedArray) -> Words:
    """(R,) the hash of each row, as `xxhash64` of Spark gives it: a null leaves the hash of the columns before it.

    Args:
        columns: Integers, decimals, doubles or strings.
    """
    hashed = np.full(len(columns[0]), _SEED, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            valid = column.is_valid().to_numpy()
            hashed[valid] = _hash_column(column.drop_null().combine_chunks(), hashed[valid])
    return hashed


def _hash_column(column: Any, seed: Words) -> Words:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _hash_strings(column, seed)
    if pa.types.is_decimal(kind):
        unscaled = [int(value.scaleb(kind.scale)) for value in column.to_pylist()]
        if kind.precision > 18:
            size = [max((value.bit_length() // 8) + 1, 1) for value in unscaled]
            data = [value.to_bytes(n, "big", signed=True) for value, n in zip(unscaled, size, strict=True)]
            return _hash_bytes(data, seed)
        return _hash_long(np.array(unscaled, dtype=np.int64).view(np.uint64), seed)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == np.float64:
        values = np.where(np.isnan(values), np.nan, values) + 0.0  # -0.0 is 0.0, and there is one NaN
        return _hash_long(values.view(np.uint64), seed)
    if values.dtype.itemsize <= 4:
        return _hash_int(values.astype(np.int32).view(np.uint32).astype(np.uint64), seed)
    return _hash_long(values.astype(np.int64).view(np.uint64), seed)


def _rotated(words: Words, n_bits: int) -> Words:
    return (words << np.uint64(n_bits)) | (words >> np.uint64(64 - n_bits))


def _finished(hashed: Words) -> Words:
    hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
    hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
    return hashed ^ (hashed >> np.uint64(32))


def _with_long(hashed: Words, words: Words) -> Words:
    return _rotated(hashed ^ (_rotated(words * _P2, 31) * _P1), 27) * _P1 + _P4


def _with_int(hashed: Words, words: Words) -> Words:
    return _rotated(hashed ^ (words * _P1), 23) * _P2 + _P3


def _hash_long(words: Words, seed: Words) -> Words:
    return _finished(_with_long(seed + _P5 + np.uint64(8), words))


def _hash_int(words: Words, seed: Words) -> Words:
    return _finished(_with_int(seed + _P5 + np.uint64(4), words))


def _hash_strings(column: Any, seed: Words) -> Words:
    return _hash_bytes([text.encode() for text in column.to_pylist()], seed)


def _hash_bytes(data: list[bytes], seed: Words) -> Words:
    """(R,) the hashes of byte strings, those of one length at once."""
    lengths = np.fromiter(map(len, data), dtype=np.int64, count=len(data))
    hashed = np.empty(len(data), dtype=np.uint64)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        table = np.frombuffer(b"".join(data[row] for row in rows), dtype=np.uint8).reshape(len(rows), length)
        hashed[rows] = _hash_table(table, seed[rows])
    return hashed


def _hash_table(table: NDArray[np.uint8], seed: Words) -> Words:
    length, start = table.shape[1], 0

    def words(first: int, size: int) -> Words:
        part = np.ascontiguousarray(table[:, first : first + size])
        return part.view({8: "<u8", 4: "<u4", 1: "u1"}[size]).ravel().astype(np.uint64)

    if length >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed.copy(), seed - _P1]
        while start + 32 <= length:
            for lane in range(4):
                lanes[lane] = _rotated(lanes[lane] + words(start + 8 * lane, 8) * _P2, 31) * _P1
            start += 32
        hashed = sum(_rotated(own, bits) for own, bits in zip(lanes[1:], (7, 12, 18), strict=True)) + _rotated(lanes[0], 1)
        for own in lanes:
            hashed = (hashed ^ (_rotated(own * _P2, 31) * _P1)) * _P1 + _P4
    else:
        hashed = seed + _P5
    hashed = hashed + np.uint64(length)
    while start + 8 <= length:
        hashed, start = _with_long(hashed, words(start, 8)), start + 8
    if start + 4 <= length:
        hashed, start = _with_int(hashed, words(start, 4)), start + 4
    while start < length:
        hashed, start = _rotated(hashed ^ (words(start, 1) * _P5), 11) * _P1, start + 1
    return _finished(hashed)
