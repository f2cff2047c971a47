"""The report of a split, and its published tables."""

from __future__ import annotations

import dataclasses

import pytest
from pyspark.sql import functions as F
from split_data import RATINGS, days

import spark_recmetrics as srm
from spark_recmetrics import splits
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.storage import write as storage_write
from spark_recmetrics.storage.table_schemas import SPLIT_REPORT


def test_the_table_of_reports_has_the_fields_of_the_report():
    assert SPLIT_REPORT.names == [field.name for field in dataclasses.fields(splits.SplitReport)]


def test_what_is_not_a_split_or_a_place_is_rejected():
    split, output = splits.Split(None, "random()", None), srm.Output(path="out")
    for arguments, message in (
        ((None, output), "split: expected the result of a function of srm.splits, found None"),
        ((split, "out"), r"output: expected srm.Output\(...\), found 'out'"),
        ((split, output, "r1"), r"run: expected srm.Run\(...\), found 'r1'"),
    ):
        with pytest.raises(ConfigError, match=message):
            splits.publish(*arguments)


@pytest.mark.spark
@pytest.mark.once
def test_a_run_that_dies_between_its_tables_publishes_nothing(spark, tmp_path, monkeypatch):
    add = storage_write.add_partitions

    def interrupted(rows, output, name, partitions):
        if name == "test":
            raise KeyboardInterrupt
        add(rows, output, name, partitions)

    monkeypatch.setattr(storage_write, "add_partitions", interrupted)
    split = splits.leave_one_out(spark.createDataFrame(days(("a", 1), ("a", 2)), RATINGS))
    with pytest.raises(KeyboardInterrupt):
        splits.publish(split, srm.Output(path=str(tmp_path)))
    assert (tmp_path / "train").is_dir()
    with pytest.raises(DataError, match="expected published runs, found none"):
        srm.read_history(spark, str(tmp_path), table="train")


@pytest.mark.spark
def test_columns_of_published_tables_are_rejected(spark, tmp_path):
    rows = spark.createDataFrame([("a", "x"), ("a", "y")], "user_id string, item_id string").withColumn("AS_OF", F.lit(1))
    with pytest.raises(DataError, match="rows: expected no column as_of, which published tables have: rename it first"):
        splits.publish(splits.leave_one_out(rows, by="hash"), srm.Output(path=str(tmp_path)))
