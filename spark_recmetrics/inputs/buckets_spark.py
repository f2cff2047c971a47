"""Buckets of users, each of which Spark puts into a partition of its own."""

from __future__ import annotations

from functools import cache

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_recmetrics.metrics import DEFAULT_N_BUCKETS

_MOST = 4096
"""Up to how many buckets their numbers are chosen. Of more, several in a partition do no harm."""

_WORD = 2**32


def default_n_buckets(spark: SparkSession) -> int:
    """The number of buckets where none is given: no more than the partitions that the session makes of a shuffle."""
    return min(DEFAULT_N_BUCKETS, int(spark.conf.get("spark.sql.shuffle.partitions") or DEFAULT_N_BUCKETS))


def in_buckets(rows: DataFrame, n_buckets: int) -> DataFrame:
    """The rows with `bucket`, a hash of the user, each bucket in a partition of its own, up to `_MOST` of them.

    Both sides are partitioned by this one column, so that ranking and cogrouping need no further shuffle.
    """
    if "bucket" in rows.columns:
        return rows
    return rows.select(bucket_of(F.col("user"), n_buckets), *rows.columns).repartition(n_buckets, "bucket")


def bucket_of(user: Column, n_buckets: int) -> Column:
    """The bucket of a user id, one of `bucket_numbers`."""
    place = F.pmod(F.hash(user), F.lit(n_buckets))
    found = place if n_buckets > _MOST else F.get(F.array(*map(F.lit, bucket_numbers(n_buckets))), place)
    return found.alias("bucket")


@cache
def bucket_numbers(n_buckets: int) -> tuple[int, ...]:
    """As many different numbers, of which Spark puts each into another one of as many partitions.

    Spark hashes what it partitions by. Of the numbers from 0 some would share a partition, and a third of them had none.

    Example:
        >>> bucket_numbers(4)
        (12, 6, 2, 0)
    """
    if n_buckets > _MOST:
        return tuple(range(n_buckets))
    found: dict[int, int] = {}
    number = 0
    while len(found) < n_buckets:
        found.setdefault(_hash(number) % n_buckets, number)
        number += 1
    return tuple(found[place] for place in range(n_buckets))


def _hash(number: int) -> int:
    """Spark's hash of a number below 2^31, which is Murmur3 with seed 42: Austin Appleby, MurmurHash3, 2011."""
    word = _turned(number * 0xCC9E2D51 % _WORD, 15) * 0x1B873593 % _WORD
    word = (_turned(42 ^ word, 13) * 5 + 0xE6546B64) % _WORD ^ 4
    word = (word ^ word >> 16) * 0x85EBCA6B % _WORD
    word = (word ^ word >> 13) * 0xC2B2AE35 % _WORD
    word ^= word >> 16
    return word - _WORD if word >= _WORD // 2 else word


def _turned(word: int, n_bits: int) -> int:
    return (word << n_bits | word >> 32 - n_bits) % _WORD
