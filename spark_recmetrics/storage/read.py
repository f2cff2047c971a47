"""Read input tables, and errors that show an example of a wrong value."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_recmetrics.columns import WrongTypeError
from spark_recmetrics.errors import DataError, reason_of
from spark_recmetrics.storage import csv_files, json_files
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.input_files import InputFiles, input_files, literal_path
from spark_recmetrics.storage.locations import Location, quoted, quoted_part
from spark_recmetrics.storage.reader_options import with_usual_names, without
from spark_recmetrics.storage.row_filter import filtered
from spark_recmetrics.storage.text_files import NO_ROLES, Roles, TextFiles, with_strings
from spark_recmetrics.storage.typed_columns import with_types
from spark_recmetrics.storage.unreadable import why_unreadable

_log = logging.getLogger(__name__)

_DEFAULTS = {
    "csv": {"header": "true", "inferSchema": "true"},
    # Spark would take the columns of one file for those of all.
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
}
"""Options of the reader, unless others are given."""

_CHECKED = {"csv": csv_files.checked_schema, "json": json_files.checked_schema}
"""How text files are checked, and in which types their columns are read."""


def read_table(spark: SparkSession, location: Location, key: str, vault: Vault, roles: Roles = NO_ROLES) -> DataFrame:
    """The rows at a location that its filter keeps. `key` is its configuration key.

    Raises `ConfigError` if a secret is missing. Raises `DataError` if the table cannot be read in that format and filtered, or
    values would be lost or changed silently.
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
    options = {**_DEFAULTS.get(files.format, {}), **options}
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
    """Raise `DataError` if a file has a column that the names of its folders hold, too: Spark takes it from there."""
    reader = spark.read.options(**without(options, "basePath")).format(files.format)
    for name in reader.load(literal_path(files.names[0])).schema.names:
        if name.lower() in files.partitions:
            raise DataError(
                f"{key}: expected the column {name!r} either in the files or in the names of their folders, found both: to "
                'read that of the files, set options: {recursiveFileLookup: "true"}; otherwise write the files without it'
            )


@contextmanager
def example_in_errors() -> Iterator[None]:
    """Raise `DataError` with an example instead of `WrongTypeError`.

    Readers of text files make a column of strings if a single value is not a number, or if there are no rows. The message shows
    such a value, or says that there are no rows.
    """
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
