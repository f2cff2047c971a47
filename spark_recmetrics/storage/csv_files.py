"""What readers of text files guess, and what they would lose without a word. `tables` looks; here stands at what."""

from __future__ import annotations

import re
from functools import partial, reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType, StructField, StructType

from spark_recmetrics.columns import near_column
from spark_recmetrics.errors import DataError
from spark_recmetrics.storage.locations import type_named
from spark_recmetrics.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from spark_recmetrics.storage.locations import Location

    Looks = list[tuple[Column, Callable[[str], str]]]


_CSV_DEFAULTS = {"header": "true", "inferSchema": "true"}
"""Options of the reader, unless others are given."""

_ROOM = 20
"""How many fields behind the last column are looked at. Further ones are lost without a word if all of these are empty."""

_SUFFIX = re.compile(r"\.(csv|tsv|json|jsonl|ndjson|orc|parquet)(?:\.\w+)?$", re.IGNORECASE)
"""The end of the name of a file, which a compression may follow."""

_FORMATS = {"tsv": "csv", "jsonl": "json", "ndjson": "json"}
"""Formats by suffixes that are not their names."""


def with_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a reader of CSV: names are the same in small and large letters, on Spark Connect not for Spark."""
    given = {name.lower() for name in options}
    return {name: how for name, how in _CSV_DEFAULTS.items() if name.lower() not in given} | dict(options)


def losses(
    spark: SparkSession, location: Location, options: Mapping[str, str], guessed: StructType, ids: Sequence[str], key: str
) -> tuple[DataFrame, Looks]:
    """What a CSV would lose without a word.

    That are zeros that ids begin with, if they are guessed to be numbers; fields behind the last column; and the first line of
    files that have other heads than the others.

    Args:
        spark: The session.
        location: Where the files are.
        options: Those of the reader, with the defaults.
        guessed: The columns that Spark has guessed.
        ids: The names of columns of ids.
        key: The configuration key that the location stands under.

    Returns:
        A row for each file; and for each kind of loss an aggregate that gives an example, null where there is none, and what to
        say of it.
    """
    rows, width = _lines(spark, location, options, len(guessed.fields))
    texts = [F.col(name) for name in rows.columns[:width]]
    numbers = [
        (own.name, text)
        for own, text in zip(guessed.fields, texts, strict=False)  # the names of folders have columns behind these
        if own.name in ids and own.name not in location.types and isinstance(own.dataType, NumericType)
    ]
    looks: Looks = [(F.when(text.rlike("^[+-]?0[0-9]"), text), partial(_zeros, key, name)) for name, text in numbers]
    if _option(options, "mode").upper() != "PERMISSIVE":
        behind = [F.col(name) for name in rows.columns[width : width + _ROOM]]
        longer = F.when(F.concat_ws("", *behind).rlike(r"\S"), F.concat_ws(", ", *texts, *behind))
        looks.append((longer, partial(_fields, key, width)))
    is_head = reduce(Column.__and__, (_same(text, own.name) for own, text in zip(guessed.fields, texts, strict=False)))
    files = rows.groupBy(F.col("_metadata.file_path").alias("file")).agg(
        F.max(is_head).alias("has_heads"), *(F.min(look).alias(f"look{n}") for n, (look, _) in enumerate(looks))
    )
    found: Looks = [(F.min(f"look{n}"), told) for n, (_, told) in enumerate(looks)]
    if _option(options, "header").lower() == "true":
        # Heads that Spark has renamed, such as one that is there twice, are in no file as they are called.
        other = F.when(F.max("has_heads"), F.min(F.when(~F.col("has_heads"), F.substring_index("file", "/", -2))))
        found.append((other, partial(_heads, key, ", ".join(own.name for own in guessed.fields[:width]))))
    return files, found


def _same(text: Column, name: str) -> Column:
    # A file that a spreadsheet has written may begin with a mark of the byte order.
    return F.coalesce(F.lower(F.trim(F.regexp_replace(text, "^\ufeff", ""))) == name.strip().lower(), F.lit(False))


def _zeros(key: str, name: str, example: str) -> str:
    return (
        f"{key}: ids of {name!r} begin with zeros, e.g. {example}, and were read as numbers, which lose them, so that 012 and "
        f"12 are one: set types: {{{name}: string}} in {key}, or {{{name}: bigint}} where they are numbers"
    )


def _fields(key: str, width: int, example: str) -> str:
    advice = 'put a field that has the separator in it, such as 4,5, in quotes, or take another separator, options: {sep: ";"}'
    if '"' in example:
        advice = """set options: {escape: '"'} if quotes in a text are written twice, {multiLine: "true"} if it has lines"""
    return f"{key}: expected lines of {counted(width, 'field')}, as many as the first one has, found more: {example}: {advice}"


def _heads(key: str, heads: str, file: str) -> str:
    return (
        f"{key}: expected all files to have a line of the heads {heads}, found {file} without, of which Spark would take the "
        "columns by their order and leave out the first line: write all files with the same heads, or read them apart"
    )


def _lines(spark: SparkSession, location: Location, options: Mapping[str, str], n_columns: int) -> tuple[DataFrame, int]:
    """The lines of a CSV as texts, with room for more fields, and how many fields the first one has.

    The heads are a line like the others, so that Spark does not complain that some of them are missing.
    """
    lost = ("header", "inferschema", "mode", "nullvalue", "emptyvalue")
    plain = {name: how for name, how in options.items() if name.lower() not in lost}
    schema = StructType([StructField(f"_field{n}", StringType()) for n in range(n_columns + _ROOM)])
    rows = spark.read.options(**plain).format("csv").schema(schema).load(location.path)
    if len(rows.columns) == len(schema):
        return rows, n_columns
    # Names of folders are columns, too, and may be columns of the files or not.
    of_files = spark.read.options(**plain, recursiveFileLookup="true").format("csv").load(location.path)
    return rows, len(of_files.columns)


def _option(options: Mapping[str, str], name: str) -> str:
    """An option of a reader; empty where it is not given."""
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
