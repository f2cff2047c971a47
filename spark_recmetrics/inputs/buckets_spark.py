"""Buckets of users, one per Spark partition."""

from __future__ import annotations

from functools import cache

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_recmetrics.metrics import DEFAULT_N_BUCKETS

_MOST = 4096
"""The maximum number of buckets whose numbers are chosen. With more, it does no harm if partitions hold several."""

_WORD = 2**32


def default_n_buckets(spark: SparkSession) -> int:
    """The default number of buckets: at most the number of shuffle partitions of the session."""
    return min(DEFAULT_N_BUCKETS, int(spark.conf.get("spark.sql.shuffle.partitions") or DEFAULT_N_BUCKETS))


def in_buckets(rows: DataFrame, n_buckets: int) -> DataFrame:
    """The rows with `bucket`, a hash of the user, partitioned by it. Ranking and cogrouping then need no further shuffle."""
    if "bucket" in rows.columns:
        return rows
    return rows.select(bucket_of(F.col("user"), n_buckets), *rows.columns).repartition(n_buckets, "bucket")


def bucket_of(user: Column, n_buckets: int) -> Column:
    """The bucket of a user id, one of `bucket_numbers`."""
    position = F.pmod(F.hash(user), F.lit(n_buckets))
    bucket = position if n_buckets > _MOST else F.get(F.array(*map(F.lit, bucket_numbers(n_buckets))), position)
    return bucket.alias("bucket")


@cache
def bucket_numbers(n_buckets: int) -> tuple[int, ...]:
    """One number per bucket, so that Spark's hash puts each into a different partition. With 0, 1, 2, … some share one."""
    if n_buckets > _MOST:
        return tuple(range(n_buckets))
    number_of: dict[int, int] = {}
    number = 0
    while len(number_of) < n_buckets:
        number_of.setdefault(_hash(number) % n_buckets, number)
        number += 1
    return tuple(number_of[partition] for partition in range(n_buckets))


def _hash(number: int) -> int:
    """Spark's hash of an integer below 2^31: Murmur3 with seed 42 (Austin Appleby, MurmurHash3, 2011)."""
    word = _rotated(number * 0xCC9E2D51 % _WORD, 15) * 0x1B873593 % _WORD
    word = (_rotated(42 ^ word, 13) * 5 + 0xE6546B64) % _WORD ^ 4
    word = (word ^ word >> 16) * 0x85EBCA6B % _WORD
    word = (word ^ word >> 13) * 0xC2B2AE35 % _WORD
    word ^= word >> 16
    return word - _WORD if word >= _WORD // 2 else word


def _rotated(word: int, n_bits: int) -> int:
    return (word << n_bits | word >> 32 - n_bits) % _WORD
