"""Types of columns that a location gives, in every format; and row filters, whose values are in the type of a column."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from chispa_rows import assert_rows
from pyspark.sql import types as T

import spark_recmetrics as srm
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import read_table
from spark_recmetrics.storage.typed_columns import filtered, typed_value, with_types

NUMBERS = "i int, l bigint, d double, f float, c decimal(10,2), s string, b boolean, t date"


def rejected(frame, types, **options):
    with pytest.raises(srm.DataError) as caught:
        with_types(frame, types, "inputs.truth.types", options)
    return str(caught.value)


@pytest.fixture
def numbers(spark):
    rows = [(1, 2**40, 12.0, 3.0, Decimal("4.00"), "5.0", True, date(2026, 11, 28)), (None,) * 8]
    return spark.createDataFrame(rows, NUMBERS)


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.core
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_values_that_a_type_can_hold(spark, numbers, ansi):
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    types = dict.fromkeys("idfcs", "bigint") | {"l": "decimal(20,0)", "b": "string", "t": "string"}
    typed = with_types(numbers, types, "inputs.truth.types", {})
    schema = "i bigint, l decimal(20,0), d bigint, f bigint, c bigint, s bigint, b string, t string"
    assert_rows(typed, [(1, Decimal(2**40), 12, 3, 4, 5, "true", "2026-11-28"), (None,) * 8], schema)
    assert with_types(numbers, {"i": "int"}, "inputs.truth.types", {}) is numbers


@pytest.mark.once
@pytest.mark.spark
@pytest.mark.core
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_values_that_a_type_cannot_hold(spark, ansi):
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    times = spark.sql("select timestamp'2026-11-28 10:00:00' as t, timestamp'2026-11-28 00:00:00' as day")
    assert "types.t: expected values that date can hold, found '2026-11-28 10:00:00', " in rejected(times, {"t": "date"})
    assert with_types(times, {"day": "date"}, "k", {}).collect()[0]["day"] == date(2026, 11, 28)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    rows = [(7, 2**40, 1.5, 2.0**24, Decimal("4.25"), "n/a", False, date(2026, 11, 28))]
    frame = spark.createDataFrame(rows, NUMBERS)
    for name, kind, shown in (
        ("l", "int", "'1099511627776'"),
        ("d", "bigint", "'1.5'"),
        ("f", "bigint", "'1.6777216E7'"),
        ("c", "int", "'4.25'"),
        ("c", "decimal(10,1)", "'4.25'"),
        ("l", "decimal(5,0)", "'1099511627776'"),
        ("s", "bigint", "'n/a'"),
        ("s", "double", "'n/a'"),
        ("s", "date", "'n/a'"),
    ):
        assert rejected(frame, {name: kind}) == (
            f"inputs.truth.types.{name}: expected values that {kind} can hold, found {shown}, which would be lost: "
            "set another type, such as string, or correct the values"
        )
    for digit in ("\uff17", "\u0667"):  # Java reads both as 7
        assert f"found '{digit}', which" in rejected(spark.createDataFrame([(digit,)], "s string"), {"s": "bigint"})
    for value in (float("nan"), float("inf"), 1e300, 2.0**53):
        assert "which would be lost" in rejected(spark.createDataFrame([(value,)], "d double"), {"d": "bigint"})
    start = (
        "inputs.truth.types: cannot cast the columns t: date: " if ansi == "true" else "inputs.truth.types.t: expected values"
    )
    assert rejected(frame, {"t": "bigint"}).startswith(start)
    assert rejected(frame, {"user": "bigint"}).startswith("inputs.truth.types: no column 'user'; known: b, c, d")


@pytest.mark.heavy
@pytest.mark.spark
def test_strings_are_read_as_the_options_say(spark):
    def typed(value, kind, **options):
        return with_types(spark.createDataFrame([(value,), ("",)], "s string"), {"s": kind}, "inputs.truth", options)

    def lost(value, kind, **options):
        return rejected(spark.createDataFrame([(value,)], "s string"), {"s": kind}, **options)

    assert_rows(typed("3,5", "decimal(10, 2)", locale="de"), [(Decimal("3.50"),), (None,)])
    assert_rows(typed("1e3", "bigint"), [(1000,), (None,)])
    assert_rows(typed("28.11.2026", "date", dateFormat="dd.MM.yyyy"), [(date(2026, 11, 28),), (None,)])
    # Spark would read 35, 425 and 3.46.
    assert "write decimal points, or set options: {locale: de} and a decimal type" in lost("3,5", "decimal(10,2)")
    assert "found '4.25', which would be lost" in lost("4.25", "decimal(10,2)", locale="de")
    assert "found '3.456', which would be lost" in lost("3.456", "decimal(10,2)")


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["parquet", "orc", "csv", "json", "table"])
def test_ids_that_are_floats(spark, tmp_path, kind):
    """pandas writes integers next to a missing value as floats."""
    rows = spark.createDataFrame([(1.0, 7.0), (2.0, 8.0)], "user_id double, item_id double")
    if kind == "table":
        rows.write.saveAsTable("float_ids")
        location = {"table": "float_ids"}
    else:
        rows.write.format(kind).options(header="true").save(str(tmp_path / "t"))
        location = {"path": str(tmp_path / "t"), "format": kind}
    try:
        truth = read_table(spark, Location(**location), "inputs.truth", Vault())
        lists = spark.createDataFrame([(1, 7, 0.5), (2, 7, 0.5)], "user_id bigint, item_id bigint, score double")
        message = r"found double: cast it first, integers to bigint, .*; in a configuration, set types: \{user_id: bigint\}"
        with pytest.raises(srm.DataError, match=message):
            srm.evaluate(lists, truth, metrics="hit", k=1, n_buckets=2)
        types = {"user_id": "bigint", "item_id": "bigint"}
        truth = read_table(spark, Location(**location, types=types), "inputs.truth", Vault())
        assert srm.evaluate(lists, truth, metrics="hit", k=1, n_buckets=2).to_dict() == {"model": {"hit@1": 0.5}}
    finally:
        spark.sql("DROP TABLE IF EXISTS float_ids")


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
def test_filter_values_in_the_type_of_the_column(value: object, column_type: T.DataType, expected: object) -> None:
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
def test_filter_values_that_the_type_cannot_hold(value: Any, column_type: T.DataType, message: str) -> None:
    with pytest.raises(srm.DataError) as caught:
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
    with pytest.raises(srm.DataError, match=r"^k\.where: no column 'Country'; did you mean 'country'\?$"):
        filtered(frame, {"Country": "DE"}, "k")
    twins = frame.withColumnsRenamed({"n": "DAY", "the day": "day"})
    with pytest.raises(srm.DataError, match=r"^k\.where: expected one column named 'day', in any case, found day, DAY$"):
        filtered(twins, {"day": "x"}, "k")


@pytest.mark.spark
def test_columns_of_a_text_file_are_filtered_as_they_are_written(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id,version\na,01\nb,1\n")

    def users(value, types=()):
        location = Location(path=str(tmp_path / "t.csv"), types=dict(types), where={"version": value})
        return sorted(row["user_id"] for row in read_table(spark, location, "inputs.truth", Vault()).collect())

    assert (users("01"), users("1"), users(["01", "1"])) == (["a"], ["b"], ["a", "b"])
    with pytest.raises(
        srm.DataError, match=r"expected a string, because the column is of type string, found 1: write it in quotes$"
    ):
        users(1)
    assert users(1, {"version": "bigint"}) == ["a", "b"]
