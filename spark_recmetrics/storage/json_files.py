"""JSON files: records that Spark would read partly, and ids that are numbers in one record and strings in another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

from spark_recmetrics.errors import DataError
from spark_recmetrics.storage.text_files import (
    NO_ROLES,
    Fault,
    Roles,
    RowCheck,
    TextFiles,
    first_faults,
    first_message,
    with_places,
    with_strings,
)

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_HALF = (  # of a character
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_SEVERAL = r"[}\]]\s*[{\[]"
"""In JSON without its strings, the end of one record and the start of another."""


def checked_schema(files: TextFiles, guessed: StructType, roles: Roles) -> StructType:
    """The columns of JSON files in the types to read them; those whose type is given are strings."""
    # Raises `DataError` if the files are empty, or Spark would lose or change data silently.
    if not guessed.fields:
        raise DataError(f"{files.key}: expected records, found empty files at {files.path!r}: check the location")
    as_string = files.options.get("primitivesAsString", "").lower() == "true"
    strings, integers = ([], []) if as_string else (_ids(guessed, files, roles, kind) for kind in (StringType, LongType))
    check(files, guessed.names, strings, integers, roles)
    return with_strings(guessed, lambda name: name in files.typed)


def _ids(columns: StructType, files: TextFiles, roles: Roles, kind: type[DataType]) -> list[StructField]:
    """Columns of ids and names of one type, arrays of such ids, and arrays of structs with one such id."""
    chosen = []
    for column in columns:
        element = column.dataType.elementType if isinstance(column.dataType, ArrayType) else column.dataType
        if roles.of(column.name) not in ("id", "name") or column.name in files.typed:
            continue
        if isinstance(element, StructType):
            ids = [field for field in element if isinstance(field.dataType, kind) and roles.of(field.name) == "id"]
            chosen += [StructField(column.name, ArrayType(StructType([field]))) for field in ids]
        elif isinstance(element, kind):
            chosen.append(column)
    return chosen


def check(
    files: TextFiles,
    names: Sequence[str] = (),
    strings: Sequence[StructField] = (),
    integers: Sequence[StructField] = (),
    roles: Roles = NO_ROLES,
) -> None:
    """Check the text of files with these columns, that `strings` are strings, and `integers` are written in the usual form."""
    lines = with_places(files.lines(whole=files.multi_line))
    value, encoding = F.col("value"), files.encoding
    if encoding is not None and encoding.upper() != "UTF-8":
        lines = lines.withColumn("value", F.decode(value.cast("binary"), encoding))
    is_array = value.rlike(r"(?s)^\s*\[.*\]\s*$")
    several = value.rlike(_SEVERAL) & F.regexp_replace(value, _STRING, "").rlike(_SEVERAL)
    checks = [*files.not_text(value), RowCheck(F.when(several, F.substring(value, 1, 200)), partial(_several_records, files))]
    corrupt_name = files.options.get("columnNameOfCorruptRecord") or files.spark.conf.get("spark.sql.columnNameOfCorruptRecord")
    if "mode" not in files.options and not files.multi_line and (not names or corrupt_name in names):
        options = {name: option for name, option in files.options.items() if name.lower().startswith("allow")}
        corrupt = F.from_json(value, "_corrupt string", {"columnNameOfCorruptRecord": "_corrupt"} | options)
        checks.append(RowCheck(F.when(~is_array, corrupt.getField("_corrupt")), partial(_no_record, files)))
    array = F.when(is_array, F.from_json(value, "array<string>")).otherwise(F.array(value))
    lines, record = lines.withColumn("record", F.explode_outer(array)), F.col("record")
    keys = F.json_object_keys(record)
    if names:
        exact = "|".join(re.escape(name) for name in names)
        keys = F.when(record.rlike(rf'"(?!(?:{exact})")(?i:{exact})"'), keys)  # a pattern takes less time than a parser
        other_case = F.filter(keys, lambda key: ~key.isin(*names) & F.lower(key).isin(*(name.lower() for name in names)))
        checks.append(RowCheck(F.get(other_case, 0), partial(_other_case, files)))
    else:  # if a record has a key twice, Spark does not read any
        repeated = F.size(F.array_distinct(F.transform(keys, F.lower))) < F.size(keys)
        checks.append(RowCheck(F.when(repeated, record), partial(_repeated_key, files)))
    for column in strings:
        # Keys without these quotes are rare.
        may_be_other = record.rlike(_may_be_other(column)) | ~record.contains(f'"{column.name}"')
        other_type = F.when(may_be_other, _other_type(record, column))
        checks.append(RowCheck(other_type, partial(_mixed, files, column)))
    for name in (name for name in names if roles.of(name) in ("id", "name")):
        # Possessive: Java's stack would overflow in long strings.
        quoted, listed = (rf"[^{end}\\]*+(?:(?!{_HALF})\\.[^{end}\\]*+)*+" for end in ('"', r"\]"))
        broken = rf'"{re.escape(name)}"\s*+:\s*+(?:"{quoted}|\[{listed})(?:{_HALF})'
        found = F.when(record.contains("\\u") & record.rlike(broken), record)
        checks.append(RowCheck(found, partial(_broken_characters, files, name)))
    for column in integers:
        found = F.regexp_extract(record, _unusual_integers(column), 1)
        checks.append(RowCheck(F.when(found != "", found), partial(_unusual_integer, files, column)))
    message = first_message(lines.agg(*first_faults(checks)).collect()[0], checks)
    if message is not None:
        raise DataError(message)


def _may_be_other(column: StructField) -> str:
    """The pattern of records in which the value, or an element of it, does not begin like a string. It saves most parsing."""
    start = rf'"{re.escape(column.name)}"\s*+:\s*+'
    if not isinstance(column.dataType, ArrayType):
        return rf'{start}[^"]'
    if isinstance(column.dataType.elementType, StructType):
        return start
    return rf"{start}\[(?:{_STRING}|[\s,])*+[^\]]"


def _unusual_integers(column: StructField) -> str:
    """The pattern of integers in a column, or in a field of the structs of an array, that are written as -0 or 01."""
    name, start = column.name, ""
    if isinstance(column.dataType, ArrayType):
        start = r"(?:\[(?:[^\]]*[,\s])?)"
        if isinstance(column.dataType.elementType, StructType):
            (name,), start = column.dataType.elementType.names, ""
    return rf"""["']{re.escape(name)}["']\s*:\s*{start}(-0|-?0[0-9]+)\s*[,}}\]]"""


def _other_type(record: Column, column: StructField) -> Column:
    """The value of a record if it is no string, or an array of which an element is none; otherwise null."""

    def as_type(kind: DataType) -> Column:
        value: Column = F.from_json(record, StructType([StructField(column.name, kind)])).getField(column.name)
        return value

    text = as_type(StringType())
    if not isinstance(column.dataType, ArrayType):
        number = as_type(DoubleType())
        is_number = number.isNotNull() & ~F.isnan(number) & (F.abs(number) < float("inf"))
        return F.when(is_number | as_type(BooleanType()).isNotNull(), text)
    if isinstance(column.dataType.elementType, StructType):
        (name,) = column.dataType.elementType.names
        text = F.to_json(as_type(ArrayType(StructType([StructField(name, DoubleType())]))))
        return F.when(text.rlike(r":\s*-?\d"), as_type(StringType()))
    return F.when(F.regexp_replace(text, _STRING, "").rlike(r"[-0-9tf]"), text)


def _no_record(files: TextFiles, fault: Fault) -> str:
    start, advice = fault.example.strip()[:1], 'write one record in each line, such as {"user_id": 7}'
    if start in ("[", "]", "{", "}"):
        advice = f'if a record has several lines, or all are in one array, set options: {{multiLine: "true"}} in {files.key}'
    place = _place(files, fault, F.col("value") == fault.example)
    return f"{files.key}: expected a JSON record in every line, found {fault.shown} in {place}: {advice}"


def _place(files: TextFiles, fault: Fault, is_line: Column) -> str:
    """The file with its line, which is not found if the bytes of the file have another encoding."""
    first = files.first_line(is_line)
    return fault.name if first is None else f"line {first[0]} of {fault.name}"


def _several_records(files: TextFiles, fault: Fault) -> str:
    if files.multi_line:
        found, advice = f"found a record in each line of {fault.name}", "remove multiLine from the options"
    else:
        place = _place(files, fault, F.col("value").startswith(fault.example))
        found, advice = f"found several in {place}: {fault.shown}", "write each in a line of its own"
    return f"{files.key}: expected one JSON record, or an array of them, {found}. Spark would read only the first: {advice}"


def _repeated_key(files: TextFiles, fault: Fault) -> str:
    return (
        f"{files.key}: expected different keys in a JSON record, in any case, found one twice in {fault.name}: {fault.shown}: "
        "rename or remove one of them"
    )


def _other_case(files: TextFiles, fault: Fault) -> str:
    return (
        f"{files.key}: expected one way to write a column in all records, found {fault.shown} in {fault.name} in another case. "
        "Spark would read it as null: write it alike in all records"
    )


def _broken_characters(files: TextFiles, name: str, fault: Fault) -> str:
    return (
        f"{files.key}: expected valid Unicode in column {name!r}, found an unpaired surrogate escape in {fault.name}: "
        f"{fault.shown}. Spark would read it as '?', so different names could become equal: fix these values"
    )


def _unusual_integer(files: TextFiles, column: StructField, fault: Fault) -> str:
    is_array = isinstance(column.dataType, ArrayType)
    advice = "" if is_array else f"set types: {{{column.name}: string}} in {files.key}, or "
    found = f"expected integers without leading zeros in column {column.name!r}, found {fault.example} in {fault.name}"
    lost = f"Spark would read it as {int(fault.example)}, which may be another id"
    return f"{files.key}: {found}. {lost}: {advice}remove leading zeros, and write -0 as 0"


def _mixed(files: TextFiles, column: StructField, fault: Fault) -> str:
    found = f"expected only strings in column {column.name!r}, as in other records, found {fault.shown} in {fault.name}"
    advice = f", or set types: {{{column.name}: string}} in {files.key}" * (not isinstance(column.dataType, ArrayType))
    return f'{files.key}: {found}. Spark would read 7 and "7" as one value: write all alike{advice}'
