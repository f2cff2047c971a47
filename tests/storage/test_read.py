"""Reading input tables: options, names of tables, and errors with an example of a wrong value."""

from __future__ import annotations

import gzip
import io
import json
import os
import re

import pandas as pd
import pytest
from chispa_rows import assert_rows
from job_data import VALUE, hides_password

import spark_recmetrics as srm
from spark_recmetrics.columns import WrongTypeError
from spark_recmetrics.diagnostics.preflight_spark import prove
from spark_recmetrics.errors import DataError
from spark_recmetrics.inputs.spark import union_models
from spark_recmetrics.storage.credentials import Secret, Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import example_in_errors, read_table


def read(spark, path, **location):
    return read_table(spark, Location(path=str(path), **location), "inputs.truth", Vault())


@pytest.mark.spark
def test_options_of_a_catalog_table_reach_its_reader(spark):
    """Delta and Iceberg read an older version by an option. Here `nullValue` of CSV shows that it arrives."""
    rows = spark.createDataFrame([("NA",), ("v",)], "user_id string")
    rows.write.format("csv").mode("overwrite").saveAsTable("with_options")
    try:
        location = Location(table="with_options", options={"nullValue": "NA"})
        assert_rows(read_table(spark, location, "inputs.truth", Vault()), [(None,), ("v",)])
    finally:
        spark.sql("DROP TABLE with_options")


@pytest.mark.spark
def test_secrets_in_errors_of_spark_are_masked(spark, monkeypatch, tmp_path) -> None:
    """Spark quotes a wrong `modifiedAfter`, here in location of a credential that a storage rejects."""
    monkeypatch.setenv("RECMETRICS_TEST_A", VALUE)
    (tmp_path / "t.csv").write_text("a\n1\n")
    location = Location(path=str(tmp_path / "t.csv"), format="csv", options={"modifiedAfter": Secret("env:RECMETRICS_TEST_A")})
    with pytest.raises(DataError) as caught:
        read_table(spark, location, "inputs.truth", Vault())
    assert str(caught.value).startswith("inputs.truth: cannot read csv at ")
    assert "the provided timestamp: ***" in str(caught.value)
    assert hides_password(str(caught.value))
    assert caught.value.__cause__ is None


@pytest.mark.spark
@pytest.mark.once
def test_i5_tables_with_hyphens_and_dots_are_read(spark) -> None:
    """In the catalog of an in-memory database: Spark's own allows only letters, digits and underscores."""
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", os.devnull)
    catalog = "spark.sql.catalog.my-cat"
    settings = {
        catalog: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"{catalog}.url": "jdbc:derby:memory:names;create=true",
        f"{catalog}.driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        spark.sql("CREATE NAMESPACE `my-cat`.`s-1`")
        for name in ("`my-cat`.`s-1`.`t`", "`my-cat`.`s-1`.`t.u`"):
            spark.createDataFrame([("u", name)], "user_id string, item_id string").writeTo(name).create()
        for name, same in (
            ("my-cat.s-1.t", "`my-cat`.`s-1`.`t`"),
            ("`my-cat`.`s-1`.`t`", "`my-cat`.`s-1`.`t`"),
            ("my-cat.s-1.`t.u`", "`my-cat`.`s-1`.`t.u`"),
        ):
            (row,) = read_table(spark, Location(table=name), "inputs.truth", Vault()).collect()
            assert row["item_id"] == same
        with pytest.raises(DataError, match=r"^inputs\.truth: cannot read table 'my-cat\.s-1\.t\.u': "):
            read_table(spark, Location(table="my-cat.s-1.t.u"), "inputs.truth", Vault())
    finally:
        for key in settings:
            spark.conf.unset(key)


@pytest.mark.spark
def test_a_truncated_file_is_named(spark, tmp_path):
    data = gzip.compress("".join(f"{n},{n * n}\n" for n in range(5000)).encode())
    (tmp_path / "t.csv.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=r"^inputs\.truth: cannot read csv at '.*t\.csv\.gz': "):
        read(spark, tmp_path / "t.csv.gz", format="csv", options={"header": "false", "inferSchema": "false"})


@pytest.mark.spark
def test_a_file_that_cannot_be_read_names_the_format_to_set(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id,item_id\n1,2\n")
    with pytest.raises(DataError, match=r"^inputs\.truth: expected parquet files, found .*/t\.csv: set format: csv$"):
        read(spark, tmp_path / "t.csv", format="parquet")
    for location in ({"format": "csv"}, {}):  # the advice, and no format
        assert_rows(read(spark, tmp_path / "t.csv", **location), [(1, 2)])
    for path in (tmp_path / "nowhere" / "t.csv", tmp_path / "t.txt"):
        with pytest.raises(DataError, match=r": check the location and the format$"):
            read(spark, path)


# Errors with an example -----------------------------------------------------------------------------------------------------

COMMAS = "user_id;item_id;{}\n00123;0007;3,5\n00124;0008;4,25\n"


@pytest.mark.heavy
@pytest.mark.spark
def test_decimal_commas_are_read_as_the_documentation_says(spark, tmp_path):
    for name in ("score", "rating"):
        (tmp_path / name).write_text(COMMAS.format(name))
    settings = {"format": "csv", "options": {"sep": ";", "locale": "de"}}
    lists, truth = (read(spark, tmp_path / name, types={name: "decimal(10, 4)"}, **settings) for name in ("score", "rating"))
    assert_rows(truth.select(truth["rating"].cast("double")), [(3.5,), (4.25,)])
    assert srm.evaluate(lists, truth, metrics="mae", n_buckets=2).to_dict() == {"model": {"mae": 0.0}}


@pytest.mark.spark
def test_an_error_shows_a_string_among_numbers(spark):
    comma = ", with a decimal comma: write decimal points, or configure the reader ("
    for string, message in (("3,5", comma), ("-1.234,50", comma), ("n/a", ": cast it first"), ("1;5", ": cast it first")):
        frame = spark.createDataFrame([("4",), (None,), (string,)], "rating string")
        with pytest.raises(DataError) as caught, example_in_errors():
            raise WrongTypeError("expected a number, found string", "cast it first", {"truth": frame})
        assert str(caught.value).startswith(f"expected a number, found string, e.g. {string!r} in truth{message}")


@pytest.mark.spark
def test_an_evaluation_shows_a_string_among_numbers(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id|item_id|rating\n1|7|4\n2|7|n/a\n")
    lists = spark.createDataFrame([(1, 7, 0.5)], "user_id int, item_id int, score double")
    truth = read(spark, tmp_path / "t.csv", format="csv", options={"sep": "|"})
    message = r"^truth: column 'rating' \(columns\.rating\): expected a number, found string, e\.g\. 'n/a' in truth: cast it"
    with pytest.raises(DataError, match=message):
        srm.evaluate(lists, truth, metrics="hit", n_buckets=2)


@pytest.mark.spark
def test_strings_that_are_all_numbers_have_no_example(spark):
    lists = spark.createDataFrame([(1, 7, "0.5"), (1, 8, None)], "user_id int, item_id int, score string")
    with pytest.raises(
        DataError, match=r"expected a number, found string: cast it first; in a configuration, set .* in types of predictions$"
    ):
        srm.rank_items(lists)


@pytest.mark.spark
def test_a_string_among_the_numbers_of_a_slice_is_shown(spark):
    lists = spark.createDataFrame([(1, 7, 0.5)], "user_id int, item_id int, score double")
    users = spark.createDataFrame([(1, "18"), (2, "n/a")], "user_id int, age string")
    with pytest.raises(DataError, match=r"found string, e\.g\. 'n/a' in user_segments: cast it first"):
        srm.evaluate(lists, lists, metrics="hit", user_segments=users, slices=["age(18)"], n_buckets=2)


def test_a_decimal_comma_in_memory():
    lists = pd.DataFrame({"user_id": [1], "item_id": [7], "score": [0.5]})
    truth = pd.DataFrame({"user_id": [1], "item_id": [7], "rating": ["3,5"]})
    with pytest.raises(
        DataError, match=r"expected a number, found string, e\.g\. '3,5' in truth, with a decimal comma: write decimal points"
    ):
        srm.evaluate(lists, truth, metrics="mae")


NO_ROWS = "^{}: expected rows, found none, so its columns are read as strings: check its location and filters$"


@pytest.mark.spark
@pytest.mark.parametrize("cast_ids", [None, "string"])
def test_a_file_with_only_a_header_has_no_rows(spark, tmp_path, cast_ids):
    """Otherwise the error would be about the type of its ids, or of its ratings if ids are cast."""
    (tmp_path / "t.csv").write_text("user_id,item_id,rating\n")
    lists = spark.createDataFrame([(1, 7, 0.5)], "user_id int, item_id int, score double")
    empty = read(spark, tmp_path / "t.csv", format="csv")
    with pytest.raises(DataError, match=NO_ROWS.format("truth")):
        srm.evaluate(lists, empty, metrics="mae", cast_ids=cast_ids, n_buckets=2)
    (check,) = prove(lists, lists.withColumnRenamed("score", "rating"), metrics="mae", train=empty, n_buckets=2)
    assert (check.level, check.name, re.match(NO_ROWS.format("train"), check.finding)[0]) == ("FAIL", "sample", check.finding)
    with pytest.raises(DataError, match=NO_ROWS.format("rows")):
        srm.splits.temporal(empty, cut=3, columns=srm.Columns(), time="rating")
    models = {"a": lists, "b": empty.withColumnRenamed("rating", "score")}
    with pytest.raises(DataError, match=NO_ROWS.format("predictions of b")), example_in_errors():
        union_models("predictions", models, srm.Columns(), cast_ids)


@pytest.mark.spark
def test_a_table_of_one_model_with_several_models(spark):
    schema = "algo string, user_id int, item_id int, score double"
    both = spark.createDataFrame([("als", 1, 7, 0.5), ("pop", 1, 8, 0.5)], schema)
    other, columns = spark.createDataFrame([("x", 1, 9, 0.5)], schema), srm.Columns(model="algo")
    message = "^predictions of als: expected one model, found 'als' and 'pop' in column 'algo': set where: {algo: als}, or "
    with pytest.raises(DataError, match=message):
        union_models("predictions", {"als": both, "other": other}, columns)
    united = union_models("predictions", {"als": both.where("algo = 'als'"), "other": other}, columns)
    assert {(row["algo"], row["item_id"]) for row in united.collect()} == {("als", 7), ("other", 9)}


def separator_message(mark):
    sep = json.dumps(mark)
    return re.escape(
        f"if {sep} is the separator, read the file with sep={sep} (in a configuration file: options: {{sep: {sep}}} of the"
    )


@pytest.mark.parametrize("mark", [";", "|", "\t"])
def test_a_frame_with_one_column_names_the_separator(mark):
    lists = pd.DataFrame({"user_id": [1], "item_id": [7], "score": [0.5]})
    truth = pd.read_csv(io.StringIO("user_id,item_id,rating\n1,7,4\n".replace(",", mark)))
    with pytest.raises(DataError, match=separator_message(mark)):
        srm.evaluate(lists, truth, metrics="hit")


@pytest.mark.spark
def test_a_file_read_as_one_column_names_the_separator(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id;item_id;rating\n1;7;4\n")
    lists = spark.createDataFrame([(1, 7, 0.5)], "user_id int, item_id int, score double")
    frame = read(spark, tmp_path / "t.csv", format="csv")
    with pytest.raises(DataError, match=separator_message(";")):
        srm.evaluate(lists, frame, metrics="hit", n_buckets=2)
    with pytest.raises(srm.ConfigError, match=separator_message(";")):
        srm.evaluate(lists, lists, metrics="hit", user_segments=frame, slices=["rating"], n_buckets=2)
