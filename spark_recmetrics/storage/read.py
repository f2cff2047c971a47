"""Read input tables, and errors that show an example of a wrong value."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_recmetrics.columns import NUMBER, WrongTypeError
from spark_recmetrics.errors import DataError, reason_of
from spark_recmetrics.storage import csv_files
from spark_recmetrics.storage.actions import NOT_FOUND
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.formats import other_format
from spark_recmetrics.storage.identifiers import quoted, quoted_part
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.row_filter import filtered

_log = logging.getLogger(__name__)


def read_table(spark: SparkSession, location: Location, key: str, vault: Vault, ids: Sequence[str] = ()) -> DataFrame:
    """The rows at a location that its filter keeps.

    `key` is its configuration key, and `ids` are columns whose leading zeros must not be lost.

    Raises:
        ConfigError: A secret is missing.
        DataError: The path or table is missing or cannot be read in that format, it lacks a column whose type is given,
            reading a CSV would lose data, see `csv_files.loss`, or the rows cannot be filtered, see `row_filter.filtered`.
    """
    return filtered(_whole_table(spark, location, key, vault, ids), location.where, key)


def _whole_table(spark: SparkSession, location: Location, key: str, vault: Vault, ids: Sequence[str]) -> DataFrame:
    options, is_csv = vault.options(location.options, key), location.format == "csv" and location.table is None
    if is_csv:
        options = csv_files.with_defaults(options)
    try:
        reader = spark.read.options(**options)  # catalog tables, too: Delta and Iceberg read an older version by an option
        frame = reader.table(quoted(location.table)) if location.table else reader.format(location.format).load(location.path)
        schema = frame.schema  # Spark Connect looks a table up only when its schema is read
        loss = csv_files.loss(spark, location, options, schema, ids, key) if is_csv and schema.fields else None
    except Exception as error:  # noqa: BLE001 - readers fail in many ways
        where = f"table {location.table!r}" if location.table else f"{location.format} at {location.path!r}"
        format_advice = None if NOT_FOUND.search(str(error)) else other_format(location.path, location.format)
        advice = format_advice or "check the location and the format"
        # Spark quotes options, and so secrets, in its messages. `from None` keeps the original error out of the traceback.
        raise DataError(f"{key}: cannot read {where}: {reason_of(error, vault.masked)}: {advice}") from None
    if loss:
        raise DataError(loss)
    if location.types:
        return reader.schema(csv_files.typed(schema, location.types, key)).load(location.path)
    return frame


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


def _first_word(strings: DataFrame) -> str | None:
    """The first string that is not a number."""
    string = F.col(quoted_part(strings.columns[0]))
    rows = strings.where(string.isNotNull() & ~string.rlike(NUMBER)).limit(1).collect()
    return rows[0][0] if rows else None
