"""Text files (CSV and JSON): the roles of columns, the encoding, and faults with their file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from spark_recmetrics.storage.formats import without
from spark_recmetrics.text import brief, printable

Role = Literal["id", "name", "number", "other"]
"""An id is an integer or a string, a name is a string; Spark guesses the types of numbers and of other columns."""


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are used for. A text file has no types to show it."""

    ids: Collection[str] = ()
    names: Collection[str] = ()
    numbers: Collection[str] = ()
    rest: Role = "other"
    """The role of all other columns."""

    def of(self, column: str) -> Role:
        """The role of a column. A column of numbers may also have names, such as ages in a slice with edges."""
        roles: dict[Role, Collection[str]] = {"id": self.ids, "number": self.numbers, "name": self.names}
        return next((role for role, columns in roles.items() if column in columns), self.rest)


NO_ROLES = Roles()
"""Spark guesses the types of all columns."""


class Fault(NamedTuple):
    """The first faulty row of a kind: its file, and what to show of it."""

    file: str
    example: str

    @property
    def name(self) -> str:
        """The end of the path of the file."""
        return repr(printable(unquote("/".join(self.file.split("/")[-2:]))))

    @property
    def shown(self) -> str:
        """The example in a message."""
        return printable(brief(self.example))


class RowCheck(NamedTuple):
    """A check: what to show of a faulty row, else null, and the message about the first, None if it has no fault after all."""

    example: Column
    message: Callable[[Fault], str | None]


def with_strings(columns: StructType, is_string: Callable[[str], bool]) -> StructType:
    """The columns, with strings in those whose name is chosen."""
    return StructType([StructField(column.name, StringType()) if is_string(column.name) else column for column in columns])


_PLACE = ("_file", "_block", "_position")
"""The columns of a row's place: files, blocks of a file, and positions in a block are in the order of the lines."""


def with_places(rows: DataFrame) -> DataFrame:
    """The rows of files with the columns of their place."""
    places = F.col("_metadata.file_path"), F.col("_metadata.file_block_start"), F.monotonically_increasing_id()
    return rows.select("*", *(column.alias(name) for column, name in zip(places, _PLACE, strict=True)))


def first_faults(checks: Sequence[RowCheck]) -> list[Column]:
    """Aggregates of rows with places: the place and the example of the first fault of each check."""
    return [
        F.min(F.when(check.example.isNotNull(), F.struct(*_PLACE, valid(check.example).alias("example")))).alias(f"check{n}")
        for n, check in enumerate(checks)
    ]


def valid(text: Column) -> Column:
    """A string with U+FFFD instead of bytes that are not UTF-8, which Spark Connect cannot collect."""
    return F.regexp_replace(text, "\ufffd", "\ufffd")


def first_message(row: Sequence[Any], checks: Sequence[RowCheck]) -> str | None:
    """The message of the first check with a fault, from a row that begins with the values of `first_faults`."""
    faults = zip(row, checks, strict=False)
    messages = (check.message(Fault(fault[0], fault["example"])) for fault, check in faults if fault is not None)
    return next((message for message in messages if message is not None), None)


@dataclass(frozen=True)
class TextFiles:
    """The files of a location, with the options of their reader. `typed` are the columns whose type is given."""

    spark: SparkSession
    format: str
    path: str
    options: Mapping[str, str]
    typed: Collection[str]
    key: str

    @property
    def encoding(self) -> str | None:
        """The encoding, if it is given."""
        return self.options.get("encoding")

    @property
    def multi_line(self) -> bool:
        """Whether a record may have several lines."""
        return self.options.get("multiLine", "").lower() == "true"

    def reader(self, *left_out: str, **more: str) -> DataFrameReader:
        """The reader without the options in `left_out`, and with more."""
        return self.spark.read.options(**{**without(self.options, *left_out), **more}).format(self.format)

    def lines(self, *, whole: bool = False) -> DataFrame:
        """The lines of the files as `value`, undecoded; with `whole` the whole files."""
        options = without(self.options, "encoding") | {"wholetext": str(whole).lower()}
        return self.spark.read.options(**options).format("text").load(self.path)

    def first_line(self, is_fault: Column) -> tuple[int, Fault] | None:
        """The number of the first line with a fault, and the line; None if there is none."""
        lines = with_places(self.lines())
        first = lines.where(is_fault).agg(F.min(F.struct(*_PLACE, valid(F.col("value")).alias("line")))).collect()[0][0]
        if first is None:
            return None
        place = F.struct(*(F.lit(first[name]).alias(name) for name in _PLACE))
        before = (F.col("_file") == first["_file"]) & (F.struct(*_PLACE) < place)
        return lines.where(before).count() + 1, Fault(first["_file"], first["line"])

    def not_text(self, content: Column) -> list[RowCheck]:
        """Checks of bytes that are no text, or a text that is not in UTF-8 or in the given encoding."""
        strange = reduce(Column.__or__, (content.startswith(start) for start in _MAGIC)) & content.rlike(_BINARY)
        strange |= content.contains("\0") & content.rlike(_UTF_16)
        replaced = content.contains("\ufffd") if self.format == "csv" else content.rlike("\ufffd")  # JSON is not decoded
        example = F.substring(content, 1, 200)
        checks = [RowCheck(F.when(strange, example), self._strange), RowCheck(F.when(replaced, example), self._other_encoding)]
        if self._is_single_byte:
            checks.append(RowCheck(F.when(content.rlike(_UTF_8), example), self._utf_8))
        return checks

    @property
    def _is_single_byte(self) -> bool:
        """Whether the given encoding has one byte for each character."""
        return (self.encoding or "").upper().replace("_", "-").startswith(("ISO-8859", "LATIN", "WINDOWS-125", "CP125"))

    def _utf_8(self, fault: Fault) -> str | None:
        """The message about files in UTF-8 for which another encoding is given; None if they are not in UTF-8."""
        if self.first_line(F.col("value") != valid(F.col("value"))) is not None:
            return None
        found = f"UTF-8 in {fault.name}: {fault.shown}"
        return f"{self.key}: expected {self.format} in {self.encoding}, found {found}: remove encoding from the options"

    def _strange(self, fault: Fault) -> str:
        where, content = f"{self.key}: expected {self.format} in", fault.example
        if (start := re.match(_BINARY, content)) is not None:
            what, advice = _MAGIC[start[1]]
            return f"{where} {fault.name}, found {what}: {advice}"
        encoding = "UTF-16" if content.startswith("\ufffd") else "UTF-16BE" if content.startswith("\0") else "UTF-16LE"
        advice = f'set options: {{encoding: {encoding}, multiLine: "true"}} in {self.key}'
        if self.format == "json":
            advice = "save it as UTF-8"
        return f"{where} {self.encoding or 'UTF-8'}, found UTF-16 in {fault.name}: {advice}"

    def _other_encoding(self, fault: Fault) -> str | None:
        """The message about bytes that are not in the encoding; None if the file itself has the replacement character."""
        given, found = self.encoding or "UTF-8", f"other bytes in {fault.name}: {fault.shown}"
        if given.upper().replace("-", "") == "UTF8":
            # A job of its own reads the lines as they are: records of CSV are decoded, and may have several lines.
            first = self.first_line(F.col("value") != valid(F.col("value")))
            if first is None:
                return None
            found = f"other bytes in line {first[0]} of {first[1].name}: {first[1].shown}"
        line_separator = ', lineSep: "\\n"' if self.format == "json" and not self.multi_line else ""
        return (
            f"{self.key}: expected {self.format} in {given}, found {found}, so that different names become equal: "
            f"set options: {{encoding: ISO-8859-1{line_separator}}} in {self.key}, or the encoding that the file has"
        )


_MAGIC = {
    "PAR1": ("a parquet file", "set format: parquet"),
    "ORC": ("an ORC file", "set format: orc"),
    "Obj": ("an Avro file", "write it as parquet"),
    "PK": ("a zip archive", "unpack it, or compress it with gzip"),
}
"""The first characters of files that are not text."""

_BINARY = r"^(PAR1|ORC|Obj|PK)[\x00-\x1f]"
_UTF_8 = "[\u00c2-\u00f4][\u0080-\u00bf]"
"""UTF-8 that is read as Latin-1: one letter becomes two characters or more."""

_UTF_16 = r"\x00[\x20-\x7e]\x00[\x20-\x7e]|[\x20-\x7e]\x00[\x20-\x7e]\x00"
"""Characters of UTF-16 that are read as UTF-8: each second byte is null."""
