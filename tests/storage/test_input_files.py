"""Folders of input tables: table formats, formats, partitions, and columns and faults of single files."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from chispa_rows import assert_rows
from pyspark.sql import functions as F

import spark_recmetrics as srm
from spark_recmetrics.errors import DataError
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.formats import _folders_below, _folders_of_table
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import causes_named, read_table

FORMATS = ["parquet", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("csv", "json", "orc"))]


def read(spark, path, **location):
    return read_table(spark, Location(path=str(path), **location), "inputs.truth", Vault())


def write(path, file_format="parquet", **columns):
    """A file with these columns, each a list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if file_format == "csv":
        lines = [",".join(columns), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    elif file_format == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        (pq if file_format == "parquet" else orc).write_table(pa.table(columns), path)


def rejected(spark, path, **location):
    with pytest.raises(DataError) as caught:
        read(spark, path, **location)
    message = str(caught.value)
    assert message.startswith("inputs.truth: ")
    assert "\n" not in message
    return message.removeprefix("inputs.truth: ").replace("file://", "")


# Table formats --------------------------------------------------------------------------------------------------------------

LOGS = {
    "Delta": "_delta_log/00000000000000000000.json",
    "Iceberg": "metadata/v1.metadata.json",
    "Hudi": ".hoodie/hoodie.properties",
}


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["Delta", *(pytest.param(kind, marks=pytest.mark.heavy) for kind in ("Iceberg", "Hudi"))])
def test_the_files_of_a_table_with_a_log_are_not_read_as_they_are(spark, tmp_path, kind):
    """The log says that part-1 has replaced part-0. Reading both would take both for ground truth."""
    table = tmp_path / "t"
    log = table / LOGS[kind]
    log.parent.mkdir(parents=True)
    log.write_text("{}")
    data = table / "data" if kind == "Iceberg" else table
    for path, item in ((data / "part-0.parquet", "a"), (data / "part-1.parquet", "b"), (data / "day=1" / "p.parquet", "c")):
        write(path, user_id=["u"], item_id=[item])
    catalog = "table: set table to its name in the catalog, instead of path and format"
    article = "an" if kind == "Iceberg" else "a"
    for given in ("parquet", "csv", "json", "orc", None):
        if kind != "Delta":
            assert rejected(spark, table, format=given) == f"{table} is {article} {kind} {catalog}"
        elif given is not None:
            assert rejected(spark, table, format=given) == f"{table} is a Delta table: set format: delta"
        for inside in (data / "part-1.parquet", data / "*.parquet", data / "day=1", data / "day=1" / "p.parquet"):
            message = rejected(spark, inside, format=given)
            if kind == "Delta":
                assert message == (
                    f"{inside} is inside a Delta table: set path: {table} and format: delta, and where for a part of its rows"
                )
            else:
                assert message == f"{inside} is inside {article} {kind} {catalog}"


@pytest.mark.heavy
@pytest.mark.spark
def test_the_files_of_tables_below_the_path_are_not_read_as_they_are(spark, tmp_path):
    table = tmp_path / "days" / "day=[1]"
    (table / "_delta_log").mkdir(parents=True)
    (table / "_delta_log" / "0.json").write_text("{}")
    write(table / "part-0.parquet", user_id=["u"], item_id=["a"])
    for path, options in ((tmp_path / "days", {}), (tmp_path, {"recursiveFileLookup": "true"})):
        expected = f"{path} contains a Delta table: set path: {table} and format: delta, because each table is read by itself"
        assert rejected(spark, path, options=options) == expected


def test_how_many_folders_are_looked_at_for_a_log():
    assert list(_folders_of_table("s3a://bucket/x/y/")) == ["s3a://bucket/x/y", "s3a://bucket/x"]
    inside = list(_folders_of_table("/x/y/day=1/hour=*/p.parquet"))
    assert inside == ["/x/y/day=1/hour=*/p.parquet", "/x/y/day=1/hour=*", "/x/y/day=1", "/x/y", "/x"]
    assert list(_folders_of_table("s3a://bucket")) == ["s3a://bucket"]
    assert list(_folders_of_table("t")) == ["t"]


# Formats --------------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("file_format", FORMATS)
def test_the_format_is_found_out(spark, tmp_path, file_format):
    write(tmp_path / "t" / f"part-0.{file_format}", file_format, user_id=["u"], item_id=["a"])
    for path in (tmp_path / "t", tmp_path / "t" / f"part-0.{file_format}", tmp_path / "*"):
        assert_rows(read(spark, path).select("user_id", "item_id"), [("u", "a")])
    for given in {"parquet", "csv", "json", "orc"} - {file_format}:
        expected = f"expected {given} files, found {tmp_path}/t/part-0.{file_format}: set format: {file_format}"
        assert rejected(spark, tmp_path / "t", format=given) == expected


@pytest.mark.heavy
@pytest.mark.spark
def test_a_stray_file_is_named_and_can_be_left_out(spark, tmp_path):
    write(tmp_path / "part-0.parquet", user_id=["u"], item_id=["a"])
    write(tmp_path / "notes of the day.csv", "csv", user_id=["v"], item_id=["b"])
    for given in ("parquet", None):
        message = rejected(spark, tmp_path, format=given)
        assert re.search(r'found .*part-0\.parquet.*: .*set options: \{pathGlobFilter: "\*\.parquet"\}$', message) or (
            given is None and re.search(r'set options: \{pathGlobFilter: "\*\.csv"\}$', message)
        )
        assert f"{tmp_path}/notes of the day.csv" in message
        assert_rows(read(spark, tmp_path, format=given, options={"pathGlobFilter": "*.parquet"}), [("u", "a")])


@pytest.mark.heavy
@pytest.mark.spark
def test_a_folder_without_files(spark, tmp_path):
    (tmp_path / "_SUCCESS").touch()
    for given in ("parquet", "csv", "json", "orc", None):
        assert rejected(spark, tmp_path, format=given).startswith(f"expected files, found none in {tmp_path}: check the loca")
    assert "cannot read files at" in rejected(spark, tmp_path / "_SUCCESS" / "t")


@pytest.mark.spark
def test_files_in_subfolders_are_not_left_out_silently(spark, tmp_path):
    write(tmp_path / "part-0.parquet", user_id=["u"], item_id=["a"])
    write(tmp_path / "more" / "part-1.parquet", user_id=["u"], item_id=["b"])
    assert rejected(spark, tmp_path) == (
        f"{tmp_path}/more/part-1.parquet is in a subfolder, which Spark does not read: "
        'set options: {recursiveFileLookup: "true"}, or move it to another folder'
    )
    both = read(spark, tmp_path, options={"recursiveFileLookup": "true"})
    assert_rows(both, [("u", "a"), ("u", "b")])


# Columns in the names of folders --------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("file_format", FORMATS)
def test_ids_and_models_in_the_names_of_folders_are_strings(spark, tmp_path, file_format):
    """Spark guesses a type for them: 007 and 07 would be one user, and 0.10 and 0.1, 01 and 1, 1e3 and 1000 one model."""
    values = ["007", "07", "0.10", "0.1", "01", "1", "1e3", "1000"]
    for column in ("user_id", "model"):
        for value in values:
            others = {"item_id": ["x"], "score": [0.5]} | ({"user_id": ["u"]} if column == "model" else {})
            write(tmp_path / column / f"{column}={value}" / f"p.{file_format}", file_format, **others)
    frame = read(spark, tmp_path / "user_id")
    assert_rows(frame.select("user_id", "item_id"), [(value, "x") for value in values])
    truth = spark.createDataFrame([("007", "x")], "user_id string, item_id string")
    result = srm.evaluate(frame, truth, metrics="hit", k=1, n_buckets=2)
    assert result.to_dict() == {"model": {"hit@1": 1.0}}
    truth = spark.createDataFrame([("u", "x")], "user_id string, item_id string")
    result = srm.evaluate(read(spark, tmp_path / "model"), truth, metrics="hit", k=1, n_buckets=2)
    assert result.to_dict() == {value: {"hit@1": 1.0} for value in values}


@pytest.mark.spark
def test_columns_in_the_names_of_folders_can_have_a_type(spark, tmp_path):
    for value in ("007", "07", "__HIVE_DEFAULT_PARTITION__"):
        write(tmp_path / f"user_id={value}" / "p.csv", "csv", item_id=["x"])
    assert_rows(read(spark, tmp_path, types={"user_id": "bigint"}), [("x", 7), ("x", 7), ("x", None)])
    strings = read(spark, tmp_path)
    assert_rows(strings, [("x", "007"), ("x", "07"), ("x", None)])
    truth = spark.createDataFrame([(7, "x")], "user_id bigint, item_id string")
    with pytest.raises(DataError, match=r"expected one type on all sides, found string in predictions, bigint in truth"):
        srm.evaluate(strings, truth, metrics="hit", k=1, n_buckets=2)


@pytest.mark.heavy
@pytest.mark.spark
def test_numbers_in_the_names_of_folders_need_a_type(spark, tmp_path):
    write(tmp_path / "age=18" / "p.parquet", user_id=["u"])
    write(tmp_path / "age=40" / "p.parquet", user_id=["v"])
    lists = spark.createDataFrame([("u", "a", 0.5), ("v", "a", 0.5)], "user_id string, item_id string, score double")
    truth = (
        lists.where("user_id = 'u'").drop("score").union(spark.createDataFrame([("v", "b")], "user_id string, item_id string"))
    )
    options = {"metrics": "hit", "k": 1, "slices": ["age(18, 35)"], "n_buckets": 2}
    advice = "found string: cast it first; in a configuration, set its type, such as double, in types of user_segments$"
    with pytest.raises(DataError, match=advice):
        srm.evaluate(lists, truth, user_segments=read(spark, tmp_path), **options)
    result = srm.evaluate(lists, truth, user_segments=read(spark, tmp_path, types={"age": "double"}), **options)
    assert {(row["slice_value"], row["value"]) for row in result.rows} == {("all", 0.5), ("18..<35", 1.0), (">=35", 0.0)}


@pytest.mark.heavy
@pytest.mark.spark
def test_names_of_folders_are_unescaped(spark, tmp_path):
    write(tmp_path / "User ID=a%2Fb c%3D" / "hour=01" / "p.parquet", item_id=["x"])
    for path in (tmp_path, f"file://{tmp_path}/"):
        assert_rows(read(spark, path), [("x", "a/b c=", "01")], "item_id string, `User ID` string, hour string")
    below = read(spark, tmp_path / "*", options={"basePath": str(tmp_path)})
    assert_rows(below, [("x", "a/b c=", "01")], "item_id string, `User ID` string, hour string")


@pytest.mark.heavy
@pytest.mark.spark
def test_a_column_of_the_files_keeps_its_type_in_the_folder_itself(spark, tmp_path):
    write(tmp_path / "day=1" / "p.parquet", day=[7], item_id=["x"])
    assert_rows(read(spark, tmp_path / "day=1"), [(7, "x")], "day long, item_id string")


@pytest.mark.parametrize(
    ("path", "file", "expected"),
    [
        ("/t", "file:///t/a=1/b=2/p", ["a=1", "b=2"]),
        ("/t/", "file:///t/p", []),
        ("s3a://bucket/t", "s3a://bucket/t/a=1/p", ["a=1"]),
        ("s3a://bucket", "s3a://bucket/a=1/p", ["a=1"]),
        ("dbfs:/t", "dbfs:/t/a=1/p", ["a=1"]),
        ("/t/*", "file:///t/a=1/b=2/p", ["b=2"]),
        ("/t/{a=1,a=2}/b=[1-3]", "file:///t/a=1/b=2/p", []),
        ("/t,u/a=?", "file:///t,u/a=1/b=2/p", ["b=2"]),
        ("t/u", "file:///home/t/u/a=1/p", ["a=1"]),
        ("/t/a=1/p", "file:///t/a=1/p", []),
    ],
)
def test_folders_between_a_path_and_its_files(path, file, expected):
    assert _folders_below(path, file) == expected


# Columns of single files ----------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("file_format", ["parquet", pytest.param("orc", marks=pytest.mark.heavy)])
@pytest.mark.parametrize("swapped", [False, True])
def test_columns_that_only_some_files_have(spark, tmp_path, file_format, swapped):
    """Spark reads the columns of one file, and would drop the ratings and models of the others."""
    files = [f"part-0.{file_format}", f"part-1.{file_format}"]
    first, second = reversed(files) if swapped else files
    write(tmp_path / first, file_format, user_id=["u"], item_id=["a"])
    write(tmp_path / second, file_format, user_id=["v"], item_id=["b"], rating=[1.0], model=["m"])
    frame = read(spark, tmp_path)
    rows = frame.select("user_id", "item_id", "rating", "model")
    assert_rows(rows, [("u", "a", None, None), ("v", "b", 1.0, "m")])
    one = read(spark, tmp_path, options={"mergeschema": "false"})
    assert len(one.columns) in (2, 4), "the columns of one file"


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_columns_in_different_cases(spark, tmp_path, file_format, swapped):
    """Spark 3.5 rejects them in parquet. Later versions take the name of the first file, and all ratings."""
    names = ["rating", "Rating"][:: -1 if swapped else 1]
    files = [tmp_path / f"part-{n}.{file_format}" for n in range(2)]
    for file, name, rating in zip(files, names, (-1.0, 1.0), strict=True):
        write(file, file_format, user_id=["u"], item_id=[f"{rating}"], **{name: [rating]})
    if spark.version.startswith("3."):
        found = f"found {names[0]!r} in {files[0]} and {names[1]!r} in {files[1]}"
        assert f"{found}: write all files with the same names, or set options: " in rejected(spark, tmp_path)
    else:
        truth = read(spark, tmp_path)
        assert truth.columns[2] in names
        lists = spark.createDataFrame([("u", "-1.0", 0.5)], "user_id string, item_id string, score double")
        columns = srm.Columns(rating=truth.columns[2])
        result = srm.evaluate(lists, truth, metrics="hit", k=1, columns=columns, n_buckets=2)
        assert result.to_dict() == {"model": {"hit@1": 0.0}}


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("names", [("rating", "Rating"), ("Rating", "rating")])
def test_json_files_with_columns_in_different_cases(spark, tmp_path, names):
    for n, name in enumerate(names):
        write(tmp_path / f"part-{n}.json", "json", user_id=["u"], item_id=[f"i{n}"], **{name: [1.0]})
    assert f"expected one name in all files, found {names[0]!r} in {tmp_path}/part-0.json" in rejected(spark, tmp_path)


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("lacks", [0, 1])
@pytest.mark.parametrize("name", ["model", "rating"])
def test_csv_files_without_a_column_are_rejected_in_either_order(spark, tmp_path, lacks, name):
    write(tmp_path / f"part-{lacks}.csv", "csv", user_id=["u"], item_id=["a"])
    write(tmp_path / f"part-{1 - lacks}.csv", "csv", user_id=["v"], item_id=["b"], **{name: [1]})
    assert f"expected the header user_id, item_id, {name} in every file" in rejected(spark, tmp_path)


LATIN_1 = pa.Array.from_buffers(pa.string(), 2, pa.array([b"M\xfcller", b"M\xf6ller"], pa.binary()).buffers())


@pytest.mark.spark
@pytest.mark.parametrize("file_format", FORMATS[:1] + FORMATS[3:])
def test_strings_in_another_encoding(spark, tmp_path, file_format):
    """Spark replaces the bytes when it writes text, so that two models would have the same name."""
    truth = spark.createDataFrame([("u", "x")], "user_id string, item_id string")
    for column in ("user_id", "item_id", "model"):
        for kind in (pa.string(), pa.binary()):
            names = {"user_id": ["u", "v"], "item_id": ["x", "y"], "score": [2.0, 1.0], column: LATIN_1.view(kind)}
            write(tmp_path / column / f"{kind}.{file_format}", file_format, **names)
        with pytest.raises(
            DataError, match="expected ids and names in UTF-8, found bytes that are not valid UTF-8, for example 'M"
        ):
            srm.evaluate(read(spark, tmp_path / column / f"string.{file_format}"), truth, metrics="hit", k=1, n_buckets=2)
        with pytest.raises(DataError, match=f"^inputs.truth.types.{column}: expected ids and names in UTF-8"):
            read(spark, tmp_path / column / f"binary.{file_format}", types={column: "string"})
        decoded = F.decode(F.col(column).cast("binary"), "ISO-8859-1")  # the advice
        rows = read(spark, tmp_path / column / f"string.{file_format}").withColumn(column, decoded)
        assert {row[column] for row in rows.collect()} == {"Müller", "Möller"}


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("file_format", ["parquet", pytest.param("orc", marks=pytest.mark.heavy)])
def test_ids_of_different_widths_are_rejected_with_their_files(spark, tmp_path, file_format):
    files = [tmp_path / f"part-0.{file_format}", tmp_path / f"part[1].{file_format}"]
    for types in ((pa.int32(), pa.int64()), (pa.int64(), pa.int32())):
        for file, id_type in zip(files, types, strict=True):
            write(file, file_format, user_id=pa.array([1], id_type), item_id=["x"])
        names = ["int" if id_type == pa.int32() else "bigint" for id_type in types]
        assert rejected(spark, tmp_path) == (
            f"column 'user_id': expected one type in all files, found {names[0]} in {files[0]} and {names[1]} in {files[1]}: "
            'write all files with the same type, or set options: {mergeSchema: "false"} if this column is not read'
        )
    assert_rows(read(spark, tmp_path, options={"mergeSchema": "false"}).select("item_id"), [("x",), ("x",)])
    for file in files:
        write(file, file_format, user_id=pa.array([1], pa.int64()), item_id=["x"])
    assert_rows(read(spark, tmp_path), [(1, "x"), (1, "x")])


@pytest.mark.heavy
@pytest.mark.spark
def test_a_column_of_a_type_that_spark_does_not_have_is_named(spark, tmp_path):
    times = pa.array([1], pa.time64("ns"))
    write(tmp_path / "p.parquet", user_id=["u"], at=pa.array([1], pa.timestamp("us")), taken=times)
    message = rejected(spark, tmp_path)
    assert re.match(
        r"column 'taken' has the parquet type INT64 \(TIME\(NANOS,\w+\)\), which Spark cannot read: write ", message
    )
    write(tmp_path / "p.parquet", user_id=["u"], taken=times.cast(pa.int64()))
    assert_rows(read(spark, tmp_path), [("u", 1)])


# Damaged files --------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("file_format", ["parquet", pytest.param("orc", marks=pytest.mark.heavy)])
def test_truncated_and_empty_files_are_named(spark, tmp_path, file_format):
    for name in ("part-0", "part-1"):
        write(tmp_path / f"{name}.{file_format}", file_format, user_id=[str(n) for n in range(1000)], item_id=["x"] * 1000)
    damaged = tmp_path / f"part-1.{file_format}"
    content = damaged.read_bytes()
    # A file of ORC without a byte is one without rows.
    for n_bytes in (len(content) // 2, 0) if file_format == "parquet" else (len(content) // 2,):
        damaged.write_bytes(content[:n_bytes])
        assert re.fullmatch(rf"cannot read (file:)?{damaged}: it is damaged, .*, or set format", rejected(spark, tmp_path))
    damaged.write_bytes(content)
    assert read(spark, tmp_path).count() == 2000


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("file_format", ["parquet", "csv", "json", "orc"])
def test_a_column_in_files_and_in_names_of_folders_is_rejected(spark, tmp_path, file_format):
    write(tmp_path / "model=a" / f"p.{file_format}", file_format, user_id=["u", "u"], model=["m1", "m2"])
    message = rejected(spark, tmp_path)
    assert message.startswith("column 'model' is in the files and in the names of their folders: ")
    both = read(spark, tmp_path, options={"recursiveFileLookup": "true"})
    assert_rows(both.select("user_id", "model"), [("u", "m1"), ("u", "m2")])


@pytest.mark.heavy
@pytest.mark.spark
def test_a_glob_keeps_the_columns_of_folders(spark, tmp_path):
    for model in "ab":
        write(tmp_path / "t" / f"model={model}" / "day=1" / "p.parquet", user_id=[model])
    for glob in ("model=*", "*/day=1", "*/*/*.parquet", "model=a*"):
        message = rejected(spark, tmp_path / "t" / glob)
        folder = "model=a" if glob == "model=a*" else "model=."
        assert re.search(
            rf"leaves out the column 'model' of folders such as {folder}: set options: {{basePath: (.*)}}$", message
        )
    options = {"basePath": str(tmp_path / "t")}
    assert_rows(read(spark, tmp_path / "t" / "model=*", options=options), [("a", "a", "1"), ("b", "b", "1")])
    assert_rows(read(spark, tmp_path / "*"), [("a", "a", "1"), ("b", "b", "1")])
    assert_rows(read(spark, tmp_path / "t" / "model=a"), [("a", "1")])


@pytest.mark.heavy
@pytest.mark.spark
def test_a_name_that_is_a_glob_too_is_rejected(spark, tmp_path):
    write(tmp_path / "p[1].csv", "csv", user_id=["u"])
    write(tmp_path / "p1.csv", "csv", user_id=["v"])
    literal = f"{tmp_path}/p\\[1\\].csv"
    assert rejected(spark, tmp_path / "p[1].csv").endswith(
        f"and also the name of a file: to read that file, set path: {literal}"
    )
    assert_rows(read(spark, literal), [("u",)])


@pytest.mark.heavy
@pytest.mark.spark
def test_rows_of_a_folder_are_filtered_as_its_name_is_written(spark, tmp_path):
    for day, user in (("01", "a"), ("1", "b")):
        write(tmp_path / f"day={day}" / "p.parquet", user_id=[user])
    assert_rows(read(spark, tmp_path, where={"day": "01"}), [("a", "01")])


@pytest.mark.heavy
@pytest.mark.spark
def test_names_of_folders_in_bytes_are_rejected_and_those_of_spark_are_read(spark, tmp_path):
    write(tmp_path / "bytes" / "user_id=K%C3%B6ln" / "p.parquet", item_id=["x"])
    assert "found user_id=K%C3%B6ln, in which 'user_id=Köln' is written as bytes" in rejected(spark, tmp_path / "bytes")
    rows = spark.createDataFrame([("x", "Köln")], "item_id string, user_id string")
    rows.write.partitionBy("user_id").parquet(str(tmp_path / "spark"))
    assert_rows(read(spark, tmp_path / "spark"), [("x", "Köln")])


@pytest.mark.spark
def test_a_file_that_turns_out_to_be_damaged_in_the_middle_of_a_job_is_named(spark, tmp_path):
    write(tmp_path / "part-0.parquet", user_id=list(range(10000)))
    content = bytearray((tmp_path / "part-0.parquet").read_bytes())
    content[100:4000] = bytes(3900)
    (tmp_path / "part-0.parquet").write_bytes(content)
    message = rf"^cannot read file:/+{str(tmp_path)[1:]}/part-0\.parquet: it is damaged, "
    for ignored in ("false", "true"):  # a setting of clusters, with which Spark leaves out the rows
        spark.conf.set("spark.sql.files.ignoreCorruptFiles", ignored)
        try:
            frame = read(spark, tmp_path)  # its end is whole
            with pytest.raises(DataError, match=message), causes_named():
                frame.agg({"user_id": "sum"}).collect()
        finally:
            spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
    assert len(read(spark, tmp_path, options={"ignoreCorruptFiles": "true"}).collect()) < 10000


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            (
                "[FAILED_READ_FILE.X] Encountered error while reading file file:///t/a b. Data type mismatches when reading "
                "Parquet column [u]. Expected Spark type int, actual Parquet type INT64. SQLSTATE"
            ),
            "cannot read file:///t/a b: column 'u': expected int, found INT64: write all files with the same type",
        ),
        (
            "Parquet column cannot be converted in file file:///t/p.parquet. Column: [u], Expected: int, Found: INT64.\n at x",
            "cannot read file:///t/p.parquet: column 'u': expected int, found INT64: write all files with the same type",
        ),
        (
            "[CANNOT_READ_FILE_FOOTER] Could not read footer for file: s3a://b/p.parquet. Please ensure that the file is",
            "cannot read s3a://b/p.parquet: it is damaged, was removed, or has another format: write it again, or set format",
        ),
    ],
)
def test_errors_of_other_versions_of_spark(error, expected):
    with pytest.raises(DataError) as caught, causes_named():
        raise RuntimeError(error)
    assert str(caught.value) == expected
    with (
        pytest.raises(srm.ConfigError, match=r"^Spark's workers run a Python without numpy: .* set PYSPARK_PYTHON"),
        causes_named(),
    ):
        raise RuntimeError("An exception was thrown from the Python worker: ModuleNotFoundError: No module named 'numpy'")
    with pytest.raises(RuntimeError, match=r"numpy\._core"), causes_named():
        raise RuntimeError("ModuleNotFoundError: No module named 'numpy._core'")
    with pytest.raises(RuntimeError, match="another"), causes_named():
        raise RuntimeError("another")
