"""Types of columns that a location gives, in every format."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from chispa_rows import assert_rows

import spark_recmetrics as srm
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import read_table
from spark_recmetrics.storage.typed_columns import with_types

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
