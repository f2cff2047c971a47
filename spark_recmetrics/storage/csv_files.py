"""CSV files: types of columns, and data that Spark would drop or change silently."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StringType, StructField, StructType

from spark_recmetrics.columns import INTEGER
from spark_recmetrics.errors import DataError
from spark_recmetrics.storage.text_files import (
    Fault,
    Role,
    Roles,
    RowCheck,
    TextFiles,
    first_faults,
    first_message,
    with_places,
    with_strings,
)
from spark_recmetrics.text import counted, printable

_N_EXTRA_FIELDS = 20
"""How many fields after the last column are checked. Later ones are lost silently if all of these are empty."""

_TWO_BACKSLASHES = r'^[^"]*(?:"[^"]*"[^"]*)*"[^"]*\\\\'
"""A line with two backslashes in a quoted field."""

_DIGITS = r"^[-+]?\p{Nd}+$"
"""A string that Spark reads as an integer."""


def checked_schema(files: TextFiles, guessed: StructType, roles: Roles) -> StructType:
    """The columns of CSV files in the types to read them. Raises `DataError` if files are empty, or Spark would lose data."""
    # Ids are integers if all of them are written as integers, otherwise strings: Spark would read 012 and 12 as one number.
    # Names, and columns whose type is given, are strings. Others have Spark's type, unless it changes integers.
    _check_encoding(files)
    columns = guessed.fields
    if not columns:
        raise DataError(f"{files.key}: expected a header and rows, found empty files at {files.path!r}: check the location")
    if files.options.get("header") != "false" and re.match(r'\[?\s*\{\s*"', columns[0].name):
        raise DataError(f"{files.key}: expected csv at {files.path!r}, found JSON: set format: json")
    rows, n_fields = _lines(files, len(columns))
    fields = [F.col(name) for name in rows.columns[:n_fields]]
    in_files = list(zip(columns, fields, strict=False))  # the columns that come from folder names follow
    integers = [(column.name, field) for column, field in in_files if isinstance(column.dataType, IntegralType)]
    checks = _checks(files, rows, fields, [column.name for column in columns], roles)
    is_header = _is_header(fields, [column.name for column in columns[:n_fields]])
    by_file = rows.groupBy("_file").agg(
        *first_faults(checks),
        *(F.max(~field.rlike(INTEGER) & field.rlike(_DIGITS)).alias(f"changed{n}") for n, (_, field) in enumerate(integers)),
        F.count_if(is_header).alias("n_headers"),
    )
    # If no file has the header, Spark has changed it.
    without_header = F.when(F.max("n_headers") > 0, F.min(F.when(F.col("n_headers") == 0, F.col("_file"))))
    row = by_file.agg(
        *(F.min(f"check{n}") for n in range(len(checks))),
        *(F.max(f"changed{n}").alias(f"changed{n}") for n in range(len(integers))),
        without_header.alias("without_header"),
        F.min(F.when(F.col("n_headers") > 1, F.col("_file"))).alias("several_headers"),
    ).collect()[0]
    message = first_message(row, checks)
    if message is None and files.options.get("header", "").lower() == "true":
        header = printable(", ".join(column.name for column in columns[:n_fields]))
        if row.without_header is not None:
            message = _other_header(files.key, header, Fault(row.without_header, ""))
        elif row.several_headers is not None:
            message = _several_headers(files.key, header, Fault(row.several_headers, ""))
    if message is not None:
        raise DataError(message)
    as_written = {name for n, (name, _) in enumerate(integers) if row[f"changed{n}"]}
    return with_strings(guessed, lambda name: name in files.typed or _is_string(guessed[name], roles.of(name), as_written))


def _is_string(column: StructField, role: Role, as_written: Collection[str]) -> bool:
    """Whether a column is read as strings. `as_written` are those whose strings, such as 012, Spark would change."""
    if isinstance(column.dataType, IntegralType):
        return role == "name" or (role != "number" and column.name in as_written)
    return role in ("id", "name")


def _check_encoding(files: TextFiles) -> None:
    encoding = files.encoding or ""
    if encoding.upper().startswith(("UTF-16", "UTF-32")) and not files.multi_line:
        raise DataError(
            f"{files.key}: Spark finds lines in {encoding} only with multiLine: "
            f'set options: {{encoding: {encoding}, multiLine: "true"}}'
        )


def _checks(files: TextFiles, rows: DataFrame, fields: Sequence[Column], names: Sequence[str], roles: Roles) -> list[RowCheck]:
    """The checks of rows that have `fields` for the first of these columns, and room for more fields."""
    n_fields = len(fields)
    extra = [F.col(name) for name in rows.columns[n_fields : n_fields + _N_EXTRA_FIELDS]]
    checks = [*files.not_text(F.concat_ws(files.options.get("sep") or ",", *fields, *extra))]
    in_file = _in_file(names[:n_fields])
    repeated = {name for name, given in zip(in_file, names, strict=False) if name != given and roles.of(name) != "other"}
    if repeated:
        with_repeats = _is_header(fields, in_file)
        checks.append(RowCheck(F.when(with_repeats, F.lit(min(repeated))), partial(_repeated_name, files.key)))
    if files.options.get("mode", "").upper() != "PERMISSIVE":
        longer = F.when(F.concat_ws("", *extra).rlike(r"\S"), F.concat_ws(", ", *fields, *extra))
        checks.append(RowCheck(longer, partial(_long_line, files.key, n_fields)))
    quote = files.options.get("quote") or '"'
    if "escape" not in files.options:
        for name, field in zip(names, fields, strict=False):
            if roles.of(name) in ("id", "name"):
                doubled = field.startswith(quote) & field.contains(quote * 2)  # Spark keeps all quotes of such a field
                checks.append(RowCheck(F.when(doubled, field), partial(_doubled_quotes, files.key, name)))
                if quote == '"':
                    checks.append(RowCheck(F.when(field.contains("\\"), field), partial(_backslashes, files)))
    return checks


def _in_file(names: Sequence[str]) -> list[str]:
    """The names as the header has them: Spark adds the position of the column to names that it has several times."""
    stems = [name.removesuffix(str(n)) if name.endswith(str(n)) else "" for n, name in enumerate(names)]
    counts = Counter(stem.lower() for stem in stems if stem)
    return [stem if counts[stem.lower()] > 1 else name for stem, name in zip(stems, names, strict=True)]


def _is_header(fields: Sequence[Column], names: Sequence[str]) -> Column:
    """Whether a row is the header with these names, as Spark or as the file has them."""
    is_header = F.lit(False)
    for header in dict.fromkeys((tuple(names), tuple(_in_file(names)))):
        is_header |= reduce(
            Column.__and__, (_is_name(field, name, n) for n, (field, name) in enumerate(zip(fields, header, strict=True)))
        )
    return is_header


def _is_name(field: Column, name: str, position: int) -> Column:
    if name == f"_c{position}":  # a column without a name
        return F.coalesce(field, F.lit("")).rlike(rf"^\s*$|^{name}$")
    # Files that a spreadsheet has written may start with a byte order mark.
    return F.coalesce(F.lower(F.trim(F.regexp_replace(field, "^\ufeff", ""))) == name.strip().lower(), F.lit(False))


def _repeated_name(key: str, fault: Fault) -> str:
    return (
        f"{key}: expected different names of columns in the header, found {fault.example!r} several times in {fault.name}: "
        "rename all but one of them"
    )


def _doubled_quotes(key: str, name: str, fault: Fault) -> str:
    return (
        f"{key}: expected no quotes inside a quoted field, found {fault.shown} in column {name!r} of {fault.name}: "
        f"""set options: {{escape: '"'}} in {key}, because quotes in its fields are doubled"""
    )


def _backslashes(files: TextFiles, _: Fault) -> str | None:
    """The message about two backslashes in quotes, of which Spark keeps one; None if no line has them."""
    first = files.first_line(F.col("value").rlike(_TWO_BACKSLASHES))
    if first is None:
        return None
    return (
        f"{files.key}: line {first[0]} of {first[1].name} has two backslashes in a quoted field: {first[1].shown}. Spark would "
        "keep one of them: set options: {escape: '\"'} to keep both, or {escape: '\\'} if two backslashes mean one"
    )


def _long_line(key: str, n_fields: int, fault: Fault) -> str:
    advice = 'put fields that contain the separator, such as 4,5, in quotes, or use another separator, options: {sep: ";"}'
    if '"' in fault.example:
        advice = """set options: {escape: '"'} if quotes in a field are doubled, {multiLine: "true"} if it has line breaks"""
    expected = f"expected {counted(n_fields, 'field')} in every line, like the first"
    return f"{key}: {expected}, found more in {fault.name}: {fault.shown}: {advice}"


def _other_header(key: str, header: str, fault: Fault) -> str:
    return (
        f"{key}: expected the header {header} in every file, found {fault.name} without it. Spark would drop its "
        "first line and read its columns by position: write all files with the same header, or read them separately"
    )


def _several_headers(key: str, header: str, fault: Fault) -> str:
    return (
        f"{key}: expected the header {header} once, found it several times in {fault.name}, such as in files that were joined: "
        "remove it after the first line"
    )


def _lines(files: TextFiles, n_columns: int) -> tuple[DataFrame, int]:
    """The lines of a CSV, headers included, as columns of strings with room for extra fields; and the number of fields."""
    dropped = ("header", "inferSchema", "mode", "nullValue", "emptyValue")
    schema = StructType([StructField(f"_field{n}", StringType()) for n in range(n_columns + _N_EXTRA_FIELDS)])
    rows = files.reader(*dropped).schema(schema).load(files.path)
    if len(rows.columns) == len(schema):
        return with_places(rows), n_columns
    # Folder names such as day=2026-11-28 are columns, too, which the files may also contain.
    in_files = files.reader(*dropped, recursiveFileLookup="true").load(files.path)
    return with_places(rows), len(in_files.columns)
