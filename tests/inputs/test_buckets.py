"""Buckets of users on Spark: each in a partition of its own."""

import pytest
from pyspark.sql import functions as F

from spark_recmetrics.inputs.buckets_spark import bucket_numbers, in_buckets

pytestmark = [pytest.mark.spark, pytest.mark.core]


@pytest.mark.parametrize("n_buckets", [1, 7, 64])
def test_every_bucket_has_a_partition_of_its_own(spark, n_buckets):
    users = spark.range(2000).select(F.col("id").cast("string").alias("user"))
    rows = in_buckets(users, n_buckets).select("bucket", F.spark_partition_id().alias("part"), "user").collect()
    pairs = {(row["bucket"], row["part"]) for row in rows}
    assert len(rows) == 2000
    assert {bucket for bucket, _ in pairs} == set(bucket_numbers(n_buckets))
    assert {part for _, part in pairs} == set(range(n_buckets))
    assert len(pairs) == n_buckets


def test_a_user_is_in_one_bucket_on_both_sides(spark):
    names = [(f"u{n}",) for n in range(50)]
    sides = [in_buckets(spark.createDataFrame(names * n, "user string"), 5).collect() for n in (1, 3)]
    one, other = ({(row["user"], row["bucket"]) for row in side} for side in sides)
    assert one == other
    assert len(one) == 50
    assert len({bucket for _, bucket in one}) == 5


def test_numbers_are_chosen_up_to_so_many_buckets():
    assert bucket_numbers(4096) != tuple(range(4096))
    assert len(set(bucket_numbers(4096))) == 4096
    assert bucket_numbers(4097) == tuple(range(4097))


def test_very_many_buckets_have_plain_numbers(spark):
    users = spark.range(10).select(F.col("id").alias("user"))
    rows = in_buckets(users, 5000).coalesce(1).collect()  # one task, not 5000, reads all partitions
    assert len(rows) == 10
    assert {0 <= row["bucket"] < 5000 for row in rows} == {True}
