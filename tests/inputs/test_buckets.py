"""Buckets of users on Spark: each in a partition of its own."""

import pytest
from chispa import assert_df_equality
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
    one, other = (in_buckets(spark.createDataFrame(names * n, "user string"), 5).distinct() for n in (1, 3))
    assert_df_equality(one, other, ignore_row_order=True)
    assert one.count() == 50
    assert one.select("bucket").distinct().count() == 5


def test_numbers_are_chosen_up_to_so_many_buckets():
    assert bucket_numbers(4096) != tuple(range(4096))
    assert len(set(bucket_numbers(4096))) == 4096
    assert bucket_numbers(4097) == tuple(range(4097))


def test_very_many_buckets_have_plain_numbers(spark):
    users = spark.range(10).select(F.col("id").alias("user"))
    rows = in_buckets(users, 5000).coalesce(1).collect()  # one task, not 5000, reads all partitions
    assert len(rows) == 10
    assert {0 <= row["bucket"] < 5000 for row in rows} == {True}
