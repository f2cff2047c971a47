"""CSV files: options of the reader, types of columns, and data that Spark would drop or change silently."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType, StructField, StructType

from spark_recmetrics.columns import near_column
from spark_recmetrics.errors import DataError
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.table_schemas import type_named
from spark_recmetrics.text import brief, counted, printable

_N_EXTRA_FIELDS = 20
"""How many fields after the last column are checked. Later ones are lost silently if all of these are empty."""


def loss(
    spark: SparkSession, location: Location, options: Mapping[str, str], guessed: StructType, ids: Sequence[str], key: str
) -> str | None:
    """What Spark would lose silently, as an error message; None if nothing is lost.

    Spark drops leading zeros of ids that it reads as numbers, fields after the last column, and the first line of a file whose
    header differs from that of the other files. `guessed` are the columns as Spark guessed them.
    """
    rows, n_fields = _lines(spark, location, options, len(guessed.fields))
    fields = [F.col(name) for name in rows.columns[:n_fields]]
    columns = list(zip(guessed.fields, fields, strict=False))  # the columns that come from folder names follow
    checks: list[tuple[Column, Callable[[str], str]]] = [
        (F.when(field.rlike("^[+-]?0[0-9]"), field), partial(_zeros, key, column.name))
        for column, field in columns
        if column.name in ids and column.name not in location.types and isinstance(column.dataType, NumericType)
    ]
    if _option(options, "mode").upper() != "PERMISSIVE":
        extra = [F.col(name) for name in rows.columns[n_fields : n_fields + _N_EXTRA_FIELDS]]
        longer = F.when(F.concat_ws("", *extra).rlike(r"\S"), F.concat_ws(", ", *fields, *extra))
        checks.append((longer, partial(_long_line, key, n_fields)))
    is_header = reduce(Column.__and__, (_is_name(field, column.name) for column, field in columns))
    files = rows.groupBy(F.col("_metadata.file_path").alias("file")).agg(
        F.max(is_header).alias("has_header"), *(F.min(check).alias(f"check{n}") for n, (check, _) in enumerate(checks))
    )
    examples = [(F.min(f"check{n}"), message) for n, (_, message) in enumerate(checks)]
    if _option(options, "header").lower() == "true":
        # If no file has the header, Spark has renamed a column, such as a duplicate.
        without = F.min(F.when(~F.col("has_header"), F.substring_index("file", "/", -2)))
        header = ", ".join(column.name for column in guessed.fields[:n_fields])
        examples.append((F.when(F.max("has_header"), without), partial(_other_header, key, header)))
    if not examples:
        return None
    row = files.agg(*(example for example, _ in examples)).collect()[0]
    messages = zip(row, (message for _, message in examples), strict=True)
    return next((message(printable(brief(example))) for example, message in messages if example is not None), None)


def _is_name(field: Column, name: str) -> Column:
    # Files that a spreadsheet has written may start with a byte order mark.
    return F.coalesce(F.lower(F.trim(F.regexp_replace(field, "^\ufeff", ""))) == name.strip().lower(), F.lit(False))


def _zeros(key: str, name: str, example: str) -> str:
    return (
        f"{key}: ids in column {name!r} start with zeros, e.g. {example}, and would be read as numbers, so that 012 and 12 "
        f"become the same id: set types: {{{name}: string}} in {key}, or {{{name}: bigint}} if the ids are numbers"
    )


def _long_line(key: str, n_fields: int, example: str) -> str:
    advice = 'put fields that contain the separator, such as 4,5, in quotes, or use another separator, options: {sep: ";"}'
    if '"' in example:
        advice = """set options: {escape: '"'} if quotes in a field are doubled, {multiLine: "true"} if it has line breaks"""
    return f"{key}: expected {counted(n_fields, 'field')} in every line, like the first, found more: {example}: {advice}"


def _other_header(key: str, header: str, file: str) -> str:
    return (
        f"{key}: expected the header {header} in every file, found {file} without it. Spark would drop its first line and read "
        "its columns by position: write all files with the same header, or read them separately"
    )


def _lines(spark: SparkSession, location: Location, options: Mapping[str, str], n_columns: int) -> tuple[DataFrame, int]:
    """The lines of a CSV, headers included, as columns of strings with room for extra fields; and the number of fields."""
    dropped = ("header", "inferschema", "mode", "nullvalue", "emptyvalue")
    plain = {name: value for name, value in options.items() if name.lower() not in dropped}
    schema = StructType([StructField(f"_field{n}", StringType()) for n in range(n_columns + _N_EXTRA_FIELDS)])
    rows = spark.read.options(**plain).format("csv").schema(schema).load(location.path)
    if len(rows.columns) == len(schema):
        return rows, n_columns
    # Folder names such as day=2026-11-28 are columns, too, which the files may also contain.
    in_files = spark.read.options(**plain, recursiveFileLookup="true").format("csv").load(location.path)
    return rows, len(in_files.columns)


def _option(options: Mapping[str, str], name: str) -> str:
    """An option of a reader; empty if it is not set."""
    return next((value for given, value in options.items() if given.lower() == name), "")


def in_file_order(schema: StructType, partitions: Collection[str]) -> StructType:
    """The columns for reading a CSV, which is read by position.

    A column of the files that the names of folders hold, too, is read under another name, because Spark takes it from there.
    """
    n = len(schema.fields)
    while n and schema.fields[n - 1].name.lower() in partitions:
        n -= 1
    in_files = [
        StructField(f"_field{position}", StringType()) if field.name.lower() in partitions else field
        for position, field in enumerate(schema.fields[:n])
    ]
    return StructType(in_files + [field for field in schema.fields if field not in in_files])


def typed(guessed: StructType, types: Mapping[str, str], key: str) -> StructType:
    """The columns of a text file with the given types. Raises `DataError` if the file lacks one of them."""
    for column in types:
        if column not in guessed.names:
            raise DataError(f"{key}.types: no column {column!r}{near_column(column, guessed.names)}")
    return StructType(
        [StructField(field.name, type_named(types[field.name])) if field.name in types else field for field in guessed.fields]
    )
