"""Read input tables, and say why one cannot be read: which file, which column, an example, and what to do."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_recmetrics.columns import WrongTypeError
from spark_recmetrics.errors import ConfigError, DataError, RecMetricsError, not_utf_8, reason_of
from spark_recmetrics.storage import csv_files, json_files
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.formats import InputFiles, input_files, literal_path, with_usual_names, without
from spark_recmetrics.storage.locations import Location, quoted, quoted_part
from spark_recmetrics.storage.text_files import NO_ROLES, Roles, TextFiles, with_strings
from spark_recmetrics.storage.typed_columns import filtered, with_types

_log = logging.getLogger(__name__)

_DEFAULTS = {
    "csv": {"header": "true", "inferSchema": "true"},
    # Spark would take the columns of one file for those of all.
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
}
"""Options of the reader, unless others are given."""

_NOTHING_IGNORED = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""Set for every reader, so that a cluster setting cannot make Spark skip damaged or missing files."""

_CHECKED = {"csv": csv_files.checked_schema, "json": json_files.checked_schema}
"""How text files are checked, and in which types their columns are read."""


def read_table(spark: SparkSession, location: Location, key: str, vault: Vault, roles: Roles = NO_ROLES) -> DataFrame:
    """The rows at a location that its filter keeps. `key` is its configuration key.

    Raises `ConfigError` if a secret is missing, `DataError` if the rows cannot be read, or would be lost or changed silently.
    """
    options = with_usual_names(vault.options(location.options, key))
    where = f"table {location.table!r}" if location.table else f"{location.format or 'files'} at {location.path!r}"
    try:
        if location.path is not None:
            filtered_as_written = replace(roles, names=(*roles.names, *location.where))
            frame = _read_files(spark, location, options, key, filtered_as_written)
        else:
            # Delta and Iceberg read an older version of a catalog table by an option.
            frame = spark.read.options(**options).table(quoted(str(location.table)))
        _ = frame.schema  # Spark Connect looks a table up only when its schema is read
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - readers fail in many ways
        # Spark quotes options, and so secrets, in its messages. `from None` keeps the original error out of the traceback.
        reason = f"cannot read {where}: {reason_of(error, vault.masked)}: check the location and the format"
        raise DataError(f"{key}: {reason}") from None
    return filtered(with_types(frame, location.types, f"{key}.types", options), location.where, key)


def _read_files(spark: SparkSession, location: Location, options: Mapping[str, str], key: str, roles: Roles) -> DataFrame:
    """The table in files. Columns in the names of folders are strings: by Spark's guess 007 and 7 would be the same id."""
    path = str(location.path)
    try:
        files = input_files(spark, path, location.format, options)
    except ValueError as error:
        raise DataError(f"{key}: {error}") from None
    options = {**_NOTHING_IGNORED, **_DEFAULTS.get(files.format, {}), **options}
    reader = spark.read.options(**options).format(files.format)
    try:
        frame = reader.load(path)
        schema = frame.schema
    except Exception as error:
        if files.format == "json":
            json_files.check(TextFiles(spark, files.format, path, options, location.types, key))
        problem = why_unreadable(spark, error, files.names, lambda file: reader.load(file).schema)
        if problem is None:
            raise
        raise DataError(f"{key}: {problem}") from None
    if files.partitions:
        _check_partitions(spark, files, options, key)
    if files.format in _CHECKED:
        text = TextFiles(spark, files.format, path, options, location.types, key)
        schema = _CHECKED[files.format](text, schema, roles)
    schema = with_strings(schema, lambda name: name.lower() in files.partitions)
    if schema == frame.schema:
        return frame
    return reader.schema(schema).load(path).select(*map(quoted_part, schema.names))


def _check_partitions(spark: SparkSession, files: InputFiles, options: Mapping[str, str], key: str) -> None:
    """Raise `DataError` if the first file has a column that the names of its folders hold, too: Spark would take those."""
    reader = spark.read.options(**without(options, "basePath")).format(files.format)
    for name in reader.load(literal_path(files.names[0])).schema.names:
        if name.lower() in files.partitions:
            raise DataError(
                f"{key}: column {name!r} is in the files and in the names of their folders: to read that of the files, set "
                'options: {recursiveFileLookup: "true"}; to read that of the folders, write the files without it'
            )


@contextmanager
def example_in_errors() -> Iterator[None]:
    """Raise `DataError` instead of `WrongTypeError`, with a value that is not a number, or saying that there are no rows."""
    # Readers of text files make a column of strings if a single value is not a number, or if there are no rows.
    try:
        yield
    except WrongTypeError as error:
        try:
            message = error.with_examples(_first_word, lambda strings: not strings.limit(1).collect())
        except Exception as failure:  # noqa: BLE001 - without an example the message still helps
            _log.debug("no example: %s", reason_of(failure))
            message = str(error)
        raise DataError(message) from None


def _first_word(strings: DataFrame, usual: str) -> str | None:
    """The first string that does not match the pattern."""
    string = F.col(quoted_part(strings.columns[0]))
    rows = strings.where(string.isNotNull() & ~string.rlike(usual)).limit(1).collect()
    return rows[0][0] if rows else None


_DAMAGED = re.compile(r"(?:reading file:?|footer for file:|converted in file) (\S.*?)\.?(?:\s{2}|\. |\n|$)")
"""Errors of Spark for a file that it cannot read, with the file."""

_DAMAGED_FILE = "cannot read {}: it is damaged, was removed, or has another format: write it again, or set format"

_OTHER_TYPE = re.compile(r"olumn:? \[([^]]+)\][.,] Expected(?: Spark type|:) (\S+), (?:actual Parquet type|Found:) (\w+)")
"""In such an error: a column has another type than in other files."""

_ILLEGAL_TYPE = re.compile(r"Parquet type[^:\n]*: (\w+(?: \((\w+).*?\))?)\.?(?: SQLSTATE| Please|\n|$)")
"""Errors of Spark for a column of parquet with a type that Spark does not have."""

_N_FILES = 100
"""How many files are looked at to explain an error."""

_FOOTER = 1_000_000
"""How many bytes at the end of a parquet file are read to find its columns."""

_NO_UTF_8 = re.compile("Wrapping (.*) failed|'utf-8' codec can't decode|Invalid UTF-?8|not valid UTF-?8|INVALID_UTF8")
"""Errors of Arrow, Python and Spark for a string with bytes that are not UTF-8."""

_NO_MODULE = re.compile("ModuleNotFoundError: No module named '(numpy|pandas|pyarrow|spark_recmetrics)'")


@contextmanager
def causes_named() -> Iterator[None]:
    """Raise an error with advice if a job fails at a damaged file, a string that is not UTF-8, or a missing package."""
    try:
        yield
    except RecMetricsError:
        raise
    except Exception as error:
        if (module := _NO_MODULE.search(str(error))) is not None:
            raise ConfigError(
                f"Spark's workers run a Python without {module[1]}: before the session starts, set PYSPARK_PYTHON to one that "
                f"has it, such as {sys.executable} on this machine (docs/running.md#python-on-the-workers)"
            ) from None
        problem = _damaged_file(error)
        if problem is None and (match := _NO_UTF_8.search(str(error))) is not None:
            problem = not_utf_8(match[1])
        if problem is None:
            raise
        raise DataError(problem) from None


def _damaged_file(error: BaseException) -> str | None:
    match = _DAMAGED.search(str(error))
    if match is None:
        return None
    if (other := _OTHER_TYPE.search(str(error))) is not None:
        column, expected, found = other.groups()
        return (
            f"cannot read {match[1]}: column {column!r}: expected {expected}, found {found}: write all files with the same type"
        )
    return _DAMAGED_FILE.format(match[1])


def why_unreadable(
    spark: SparkSession, error: BaseException, files: Sequence[str], read_schema: Callable[[str], StructType]
) -> str | None:
    """What is wrong with which of the files; None if the error is of another kind. `read_schema` reads one of them."""
    text = str(error)
    if "CANNOT_MERGE" in text or "COLUMN_ALREADY_EXISTS" in text:
        return _different_columns(files, read_schema)
    if (illegal := _ILLEGAL_TYPE.search(text)) is not None:
        columns = next(filter(None, (_columns_of_type(spark, file, illegal[2] or illegal[1]) for file in files[:_N_FILES])), [])
        named = f"column {', '.join(map(repr, columns))} has" if columns else "a column has"
        return (
            f"{named} the parquet type {illegal[1]}, which Spark cannot read: write the files without this column, or with "
            "another type, such as a timestamp in microseconds"
        )
    return _damaged_file(error) or _only_some_readable(files[:_N_FILES], read_schema)


def _only_some_readable(files: Sequence[str], read_schema: Callable[[str], StructType]) -> str | None:
    """The first file that cannot be read although others can; the error of ORC names no file."""
    damaged = []
    for file in files:
        try:
            read_schema(literal_path(file))
        except Exception as error:  # noqa: BLE001, PERF203 - readers fail in many ways
            _log.debug("cannot read %s: %s", file, reason_of(error))
            damaged.append(file)
    return _DAMAGED_FILE.format(damaged[0]) if 0 < len(damaged) < len(files) else None


def _different_columns(files: Sequence[str], read_schema: Callable[[str], StructType]) -> str:
    """The first column that two files have with different types, or in different cases, which Spark 3.5 rejects."""
    advice = 'options: {mergeSchema: "false"} if this column is not read'
    first: dict[str, tuple[str, str, str]] = {}
    for file in files[:_N_FILES]:
        for column in read_schema(literal_path(file)):
            name, kind = column.name, column.dataType.simpleString()
            other_name, other_kind, other = first.setdefault(name.lower(), (name, kind, file))
            if kind != other_kind:
                found = f"expected one type in all files, found {other_kind} in {other} and {kind} in {file}"
                return f"column {name!r}: {found}: write all files with the same type, or set {advice}"
            if name != other_name:
                found = f"expected one name in all files, found {other_name!r} in {other} and {name!r} in {file}"
                return f"column {name!r}: {found}: write all files with the same names, or set {advice}"
    return "expected the same columns in all files, found different ones: write all files with the same columns"


def _columns_of_type(spark: SparkSession, file: str, name: str) -> list[str]:
    """The columns of a parquet file with a type, such as TIME. Only the end of the file is collected."""
    import pyarrow.parquet as pq

    rows = spark.read.format("binaryFile").load(literal_path(file)).select(F.substring("content", -_FOOTER, _FOOTER)).collect()
    schema = pq.ParquetFile(io.BytesIO(rows[0][0])).schema
    columns = (schema.column(index) for index in range(len(schema)))
    is_nanos = name in ("TIME", "TIMESTAMP")  # Spark has those of milliseconds and microseconds
    kinds = ((column, f"{column.logical_type} {column.physical_type}") for column in columns)
    return [column.path for column, kind in kinds if kind.upper().startswith(name) and ("nanoseconds" in kind or not is_nanos)]
