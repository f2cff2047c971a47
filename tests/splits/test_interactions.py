"""Tables of interactions that cannot be split."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F
from split_data import RATINGS, days

from spark_recmetrics import splits
from spark_recmetrics.errors import DataError


@pytest.mark.spark
def test_wrong_columns_are_rejected_before_a_job_runs(spark):
    rows = spark.createDataFrame(days(("a", 1), ("a", 2)), RATINGS)
    other = rows.select("user_id", "item_id", F.col("rating").alias("timestamp"))
    for call, message in (
        (lambda: splits.temporal(rows, cut=1, time="tme"), "rows: no column 'tme' (columns.time); known: "),
        (lambda: splits.random(rows.drop("user_id")), "rows: no column 'user_id' (columns.user)"),
        (
            lambda: splits.temporal(other, cut=1),
            "rows: column 'timestamp' (columns.time): expected a timestamp, a date or an integer, found double",
        ),
        (lambda: splits.random(rows.withColumn("Side", F.lit(1))), "rows: expected no column side, which the split adds"),
    ):
        with pytest.raises(DataError) as caught:
            call()
        assert str(caught.value).startswith(message)


@pytest.mark.spark
def test_wrong_rows_are_rejected(spark):
    rows = spark.createDataFrame(days(("a", 1), ("a", 2)), RATINGS)
    nulls = spark.createDataFrame([(None, "x", 1, 1.0), ("a", "x", None, 1.0), ("a", "y", 2, 1.0)], RATINGS)
    in_every_row = (
        "rows: expected user, item, time in every row, found 1 without a user ('user_id' is null), 1 without a time ('tim"
    )
    for call, message in (
        (lambda: splits.temporal(nulls, cut=1), in_every_row),
        (lambda: splits.temporal(nulls, test_share=0.5), in_every_row),
        (lambda: splits.random(rows.where("rating < 0")), "rows: expected at least one row, found none"),
        (lambda: splits.temporal(rows.where("rating < 0"), test_share=0.5), "rows: expected at least one row, found none"),
        (
            lambda: splits.random(rows, min_user_rows=3),
            "rows: expected at least one row, found none: all 2 rows have a user or item with too few rows: lower min_user_",
        ),
        (
            lambda: splits.temporal(rows, test_share=0.4),
            "rows: expected at most 0.4 of the rows at the last time, found 1 of 2: set a larger test_share, or a cut",
        ),
    ):
        with pytest.raises(DataError) as caught:
            call()
        assert str(caught.value).startswith(message)
