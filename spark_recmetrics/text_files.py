"""What readers of text files guess, and what they would lose without a word. `tables` looks; here stands at what."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType, StructField, StructType

from spark_recmetrics.columns import near_column
from spark_recmetrics.errors import DataError, counted
from spark_recmetrics.schema import type_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_recmetrics.schema import Location

CSV_DEFAULTS = {"header": "true", "inferSchema": "true"}
"""Options of the reader, unless others are given."""

_SUFFIX = re.compile(r"\.(csv|tsv|json|jsonl|ndjson|orc|parquet)(?:\.\w+)?$", re.IGNORECASE)
"""The end of the name of a file, which a compression may follow."""

_FORMATS = {"tsv": "csv", "jsonl": "json", "ndjson": "json"}
"""Formats by suffixes that are not their names."""


def losses(
    spark: SparkSession, location: Location, options: Mapping[str, str], guessed: StructType, ids: Sequence[str], key: str
) -> tuple[DataFrame, list[tuple[Column, Callable[[str], str]]]]:
    """What a CSV would lose: zeros that ids begin with, if they are guessed to be numbers, and fields behind the last column.

    Args:
        spark: The session.
        location: Where the files are.
        options: Those of the reader.
        guessed: The columns that Spark has guessed.
        ids: The names of columns of ids.
        key: The configuration key that the location stands under.

    Returns:
        The lines; and for each kind of loss an aggregate that gives an example, null where there is none, and what to say of
        it.
    """
    rows, width = _lines(spark, location, options, len(guessed.fields))
    *texts, behind = map(F.col, rows.columns[: width + 1])
    looks: list[tuple[Column, Callable[[str], str]]] = [
        (F.min(F.when(text.rlike("^[+-]?0[0-9]"), text)), partial(_zeros, key, own.name))
        for own, text in zip(guessed.fields, texts, strict=False)  # the names of folders have columns behind these
        if own.name in ids and own.name not in location.types and isinstance(own.dataType, NumericType)
    ]
    if _option(options, "mode").upper() != "PERMISSIVE":
        longer = F.when(F.trim(behind) != "", F.concat_ws(", ", *texts, behind))
        looks.append((F.min(longer), partial(_fields, key, width)))
    return rows, looks


def _zeros(key: str, name: str, example: str) -> str:
    return (
        f"{key}: ids of {name!r} begin with zeros, e.g. {example}, and were read as numbers, which lose them, so that 012 and "
        f"12 are one: set types: {{{name}: string}} in {key}, or {{{name}: bigint}} where they are numbers"
    )


def _fields(key: str, width: int, example: str) -> str:
    return (
        f"{key}: expected lines of {counted(width, 'field')}, as many as the first one has, found more: {example}: put a field "
        'that has the separator in it, such as 4,5, in quotes, or take another separator, options: {sep: ";"}'
    )


def _lines(spark: SparkSession, location: Location, options: Mapping[str, str], n_columns: int) -> tuple[DataFrame, int]:
    """The lines of a CSV as texts, with room for one field more, and how many fields the first one has.

    The heads are a line like the others, so that Spark does not complain that one of them is missing.
    """
    plain = {name: how for name, how in options.items() if name.lower() not in ("header", "inferschema", "mode")}
    schema = StructType([StructField(f"_field{n}", StringType()) for n in range(n_columns + 1)])
    rows = spark.read.options(**plain).format("csv").schema(schema).load(location.path)
    if len(rows.columns) == len(schema):
        return rows, n_columns
    # Names of folders are columns, too, and may be columns of the files or not.
    of_files = spark.read.options(**plain, recursiveFileLookup="true").format("csv").load(location.path)
    return rows, len(of_files.columns)


def _option(options: Mapping[str, str], name: str) -> str:
    """An option of a reader, which takes its name in small and large letters; empty where it is not given."""
    return next((how for given, how in options.items() if given.lower() == name), "")


def typed(guessed: StructType, types: Mapping[str, str], key: str) -> StructType:
    """The columns of a text file, with the types that are given.

    Raises:
        DataError: It lacks a column whose type is given.
    """
    for column in types:
        if column not in guessed.names:
            raise DataError(f"{key}.types: no column {column!r}{near_column(column, guessed.names)}")
    return StructType(
        [StructField(own.name, type_named(types[own.name])) if own.name in types else own for own in guessed.fields]
    )


def other_format(location: Location) -> str | None:
    """The format that the name of a file speaks for, as advice; None where it is the one that was read."""
    ending = _SUFFIX.search(location.path or "")
    if ending is None:
        return None
    suffix = ending[1].lower()
    other = _FORMATS.get(suffix, suffix)
    if other == location.format:
        return None
    return f"its name ends in {ending[0]}: set format: {other}" + (', and options: {sep: "\\t"}' if suffix == "tsv" else "")
