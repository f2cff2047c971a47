"""Read and write tables. The only place that starts Spark jobs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_recmetrics.columns import DECIMAL_COMMA, WrongTypeError, is_decimal_comma
from spark_recmetrics.errors import DataError, reason_of
from spark_recmetrics.storage import csv_files
from spark_recmetrics.storage.actions import NOT_FOUND
from spark_recmetrics.text import brief, printable

if TYPE_CHECKING:
    from spark_recmetrics.storage.credentials import Vault
    from spark_recmetrics.storage.locations import Location

from spark_recmetrics.storage.identifiers import quoted, quoted_part

_log = logging.getLogger(__name__)

_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
"""A text that is a number, as a pattern of Java."""


def read_table(spark: SparkSession, location: Location, key: str, vault: Vault, ids: Sequence[str] = ()) -> DataFrame:
    """The table at a location.

    Args:
        spark: The session.
        location: Path and format, or the name of a catalog table.
        key: The configuration key that the location stands under, for messages.
        vault: Reads the secrets among the options.
        ids: The names of columns of ids, which may not be guessed to be numbers where that changes them.

    Raises:
        ConfigError: A secret is not there.
        DataError: There is no such path or table, it cannot be read as that format, it lacks a column whose type is given, or
            a CSV would lose fields of a line, or zeros that ids begin with.
    """
    options, is_csv = vault.options(location, key), location.format == "csv" and location.table is None
    if is_csv:
        options = csv_files.with_defaults(options)
    lost: list[str] = []
    try:
        reader = spark.read.options(**options)  # of a table, too: Delta and Iceberg read an older version by them
        frame = reader.table(quoted(location.table)) if location.table else reader.format(location.format).load(location.path)
        # Spark Connect looks a table up when its schema is asked for.
        if frame.schema.fields and is_csv:
            files, looks = csv_files.losses(spark, location, options, frame.schema, ids, key)
            examples = files.agg(*(look for look, _ in looks)).collect()[0] if looks else ()
            found = [(told, example) for (_, told), example in zip(looks, examples, strict=True) if example is not None]
            lost = [told(printable(brief(example))) for told, example in found]
    except Exception as error:  # noqa: BLE001 - it is told, but for the values of secrets
        where = f"table {location.table!r}" if location.table else f"{location.format} at {location.path!r}"
        # Spark quotes options in what it says. The error itself is left out of the chain for the same reason.
        reason = reason_of(error, vault.masked)
        found_none = NOT_FOUND.search(str(error))
        advice = (None if found_none else csv_files.other_format(location)) or "check the location and the format"
        raise DataError(f"{key}: cannot read {where}: {reason}: {advice}") from None
    if lost:
        raise DataError(lost[0])
    if location.types:
        return reader.schema(csv_files.typed(frame.schema, location.types, key)).load(location.path)
    return frame


@contextmanager
def example_in_errors() -> Iterator[None]:
    """Tell of a column of texts, where another type was expected, one of its texts, or that the table has no rows.

    A reader of text files makes texts of a column where a single value is no number, and where there is no row.

    Raises:
        DataError: In place of `WrongTypeError`.
    """
    try:
        yield
    except WrongTypeError as error:
        try:
            told = _with_example(error)
        except Exception as failed:  # noqa: BLE001 - a mistake is told without an example, too
            _log.debug("no example: %s", reason_of(failed))
            told = str(error)
        raise DataError(told) from None


def _with_example(error: WrongTypeError) -> str:
    found = error.found
    for table, texts in error.texts.items():
        text = F.col(quoted_part(texts.columns[0]))
        rows = texts.where(text.isNotNull() & ~text.rlike(_NUMBER)).limit(1).collect()
        if rows and is_decimal_comma(rows[0][0]):
            return f"{found}, e.g. {brief(rows[0][0])} in {table}, with {DECIMAL_COMMA}"
        if rows:
            found += f", e.g. {printable(brief(rows[0][0]))} in {table}"
        elif not texts.limit(1).collect():
            return f"{table}: expected rows, found none, so that its columns are texts: check its location and filters"
    return f"{found}: {error.advice}"
