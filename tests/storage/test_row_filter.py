"""Row filters: values in the type of a column, and the rows that are kept."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from chispa_rows import assert_rows
from pyspark.sql import types as T

from spark_recmetrics.errors import DataError
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import read_table
from spark_recmetrics.storage.row_filter import filtered, typed_value


@pytest.mark.parametrize(
    ("value", "column_type", "expected"),
    [
        ("007", T.StringType(), "007"),
        (7, T.LongType(), 7),
        ("20261128", T.IntegerType(), 20261128),
        (-128, T.ByteType(), -128),
        (True, T.BooleanType(), True),
        ("false", T.BooleanType(), False),
        ("0.10", T.DecimalType(4, 2), Decimal("0.1")),
        (7, T.DecimalType(4, 2), Decimal(7)),
        ("2026-11-28", T.DateType(), date(2026, 11, 28)),
    ],
)
def test_values_in_the_type_of_the_column(value: object, column_type: T.DataType, expected: object) -> None:
    assert typed_value(value, column_type, "inputs.truth.where.day") == expected


@pytest.mark.parametrize(
    ("value", "column_type", "message"),
    [
        (7, T.StringType(), "expected a string, because the column is of type string, found 7: write it in quotes"),
        (True, T.StringType(), "expected a string, because the column is of type string, found True: write it in quotes"),
        (128, T.ByteType(), "expected an integer in the range of the type, because the column is of type tinyint, found 128"),
        (
            "1e3",
            T.LongType(),
            "expected an integer in the range of the type, because the column is of type bigint, found '1e3'",
        ),
        (True, T.LongType(), "expected an integer in the range of the type, because the column is of type bigint, found True"),
        (1, T.BooleanType(), "expected true or false, because the column is of type boolean, found 1"),
        (
            "0.125",
            T.DecimalType(4, 2),
            "expected a number that the type holds exactly, in quotes, because the column is of type",
        ),
        (100, T.DecimalType(4, 2), "expected a number that the type holds exactly, in quotes, because the column is of type"),
        (
            "2026-02-30",
            T.DateType(),
            "expected a date such as 2026-11-28, because the column is of type date, found '2026-02-30'",
        ),
        (20261128, T.DateType(), "expected a date such as 2026-11-28, because the column is of type date, found 20261128"),
        (
            "1.5",
            T.DoubleType(),
            "expected a column of strings, integers, decimals, booleans or dates, found one of type double",
        ),
        (
            "x",
            T.TimestampType(),
            "expected a column of strings, integers, decimals, booleans or dates, found one of type timestamp",
        ),
    ],
)
def test_values_that_the_type_cannot_hold(value: Any, column_type: T.DataType, message: str) -> None:
    with pytest.raises(DataError) as caught:
        typed_value(value, column_type, "inputs.truth.where.day")
    assert str(caught.value).startswith(f"inputs.truth.where.day: {message}")


@pytest.mark.spark
def test_rows_are_filtered_by_all_columns(spark):
    rows = [
        ("a", "2026-11-27", "DE", 1),
        ("b", "2026-11-28", "DE", 1),
        ("c", "2026-11-28", "AT", 2),
        ("d", "2026-11-28", "CH", 1),
    ]
    rows += [("e", "2026-11-28", None, 1), ("f", None, "DE", 1)]
    frame = spark.createDataFrame(rows, "item_id string, `the day` string, country string, n int")
    for column_type in ("string", "date"):
        typed = frame.withColumn("the day", frame["`the day`"].cast(column_type))
        where = {"the day": "2026-11-28", "country": ["DE", "AT"], "n": [1, 2]}
        assert_rows(filtered(typed, where, "k").select("item_id"), [("b",), ("c",)])
        assert_rows(filtered(typed, {"n": 2}, "k").select("item_id"), [("c",)])
    assert filtered(frame, {}, "k") is frame
    with pytest.raises(DataError, match=r"^k\.where: no column 'Country'; did you mean 'country'\?$"):
        filtered(frame, {"Country": "DE"}, "k")
    twins = frame.withColumnsRenamed({"n": "DAY", "the day": "day"})
    with pytest.raises(DataError, match=r"^k\.where: expected one column named 'day', in any case, found day, DAY$"):
        filtered(twins, {"day": "x"}, "k")


@pytest.mark.spark
def test_columns_of_a_text_file_are_filtered_as_they_are_written(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id,version\na,01\nb,1\n")

    def users(value, types=()):
        location = Location(path=str(tmp_path / "t.csv"), types=dict(types), where={"version": value})
        return sorted(row["user_id"] for row in read_table(spark, location, "inputs.truth", Vault()).collect())

    assert (users("01"), users("1"), users(["01", "1"])) == (["a"], ["b"], ["a", "b"])
    with pytest.raises(
        DataError, match=r"expected a string, because the column is of type string, found 1: write it in quotes$"
    ):
        users(1)
    assert users(1, {"version": "bigint"}) == ["a", "b"]
