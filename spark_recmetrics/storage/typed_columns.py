"""The types of an input table: columns in the types that the caller gives, and the rows that have given values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_recmetrics.columns import lost_value, near_column
from spark_recmetrics.errors import DataError, reason_of
from spark_recmetrics.storage.formats import NUMBERS_AND_TIMES
from spark_recmetrics.storage.locations import quoted_part
from spark_recmetrics.storage.table_schemas import type_named
from spark_recmetrics.storage.text_files import valid
from spark_recmetrics.text import brief, did_you_mean

_BITS: Mapping[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}

_EXACT: Mapping[type[T.DataType], int] = {T.FloatType: 2**24, T.DoubleType: 2**53}
"""Floats of this size and above may stand for several integers."""

_WIDE = T.DecimalType(38, 18)
"""The type in which numbers are read from strings before they get their own."""


def with_types(frame: DataFrame, types: Mapping[str, str], key: str, options: Mapping[str, str]) -> DataFrame:
    """The table with columns in these types. `options` of the reader say how strings show numbers and times."""
    # Raises `DataError` if a column is missing, cannot be cast, or would lose a value: null where there was a value, a fraction
    # cut off, or an integer that a floating point number does not show exactly.
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    for name in types:
        if name not in kinds:
            raise DataError(f"{key}: no column {name!r}{near_column(name, frame.columns)}")
    cast = {name: target for name, target in types.items() if kinds[name].simpleString() != target}
    if not cast:
        return frame
    given = {name: option for name, option in options.items() if name in NUMBERS_AND_TIMES}
    typed = {name: _typed(frame[quoted_part(name)], kinds[name], type_named(target), given) for name, target in cast.items()}
    try:
        may_lose = (name for name, target in cast.items() if target != "string" or isinstance(kinds[name], T.BinaryType))
        _check(frame, {name: typed[name] for name in may_lose}, cast, key)
        result = frame.select(
            *(typed[name].alias(name) if name in typed else frame[quoted_part(name)] for name in frame.columns)
        )
        result.schema  # noqa: B018 - Spark Connect checks the casts only now
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - a pair of types without a cast
        found = ", ".join(f"{name}: {kinds[name].simpleString()}" for name in cast)
        raise DataError(f"{key}: cannot cast the columns {found}: {reason_of(error)}: set another type") from None
    return result


def integer_range(kind: T.DataType) -> tuple[int, int]:
    """The smallest and the largest integer of a type of integers."""
    end: int = 2 ** (_BITS[type(kind)] - 1)
    return -end, end - 1


def _check(frame: DataFrame, typed: Mapping[str, Column], types: Mapping[str, str], key: str) -> None:
    """Raise `DataError` if a typed column is null where the column of the frame has a value."""
    if not typed:
        return
    values = {name: frame[quoted_part(name)].cast("string") for name in typed}
    lost = [F.when(typed[name].isNull() & value.rlike(r"\S"), valid(value)) for name, value in values.items()]
    examples = frame.select(*(column.alias(f"c{n}") for n, column in enumerate(lost)))
    row = examples.agg(*(F.min(name) for name in examples.columns)).collect()[0]
    for name, example in zip(typed, row, strict=True):
        if example is not None:
            raise lost_value(f"{key}.{name}", types[name], example)


def _typed(value: Column, source: T.DataType, to: T.DataType, options: Mapping[str, str]) -> Column:
    """A column in another type, null where the type cannot hold the value."""
    is_number = isinstance(to, T.IntegralType | T.DecimalType)
    if isinstance(source, T.StringType) and is_number:
        is_ascii = F.length(value) == F.octet_length(value)  # Java reads digits of all scripts
        return _exact(F.when(is_ascii, _decimal(value, options)), _WIDE, to)
    if isinstance(source, T.StringType) and not isinstance(to, T.StringType):
        return _from_text(value, to, options)
    if isinstance(source, T.TimestampType | T.TimestampNTZType) and isinstance(to, T.DateType):
        return F.when(value.cast(to).cast(source) == value, value).cast(to)
    if isinstance(source, T.NumericType) and is_number:
        return _exact(value, source, to)
    if isinstance(source, T.BinaryType) and isinstance(to, T.StringType):
        return F.when(valid(value.cast(to)) == value.cast(to), value.cast(to))
    return value.cast(to)


def _exact(number: Column, source: T.DataType, to: T.DataType) -> Column:
    """Numbers in a type of integers or decimals, which must hold all their digits. Others would raise an error in ANSI mode."""
    if isinstance(to, T.DecimalType):
        fits = (F.abs(number) < 10.0 ** (to.precision - to.scale)) & (F.round(number, to.scale) == number)
        return F.when(fits, number).cast(to)
    fits = number.between(*integer_range(to))
    if type(source) in _EXACT:
        fits &= (F.rint(number) == number) & (F.abs(number) < _EXACT[type(source)])
    elif isinstance(source, T.DecimalType):
        fits &= F.floor(number) == number
    return F.when(fits, number).cast(to)


def _decimal(value: Column, options: Mapping[str, str]) -> Column:
    """A string as a decimal. Without a locale, the reader would leave out commas: 3,5 would be 35."""
    decimal = _from_text(value, _WIDE, options)
    if "locale" not in options:
        return F.when(~value.contains(","), decimal)
    # Where points separate thousands, 4.25 would be 425.
    has_comma = F.coalesce(_from_text(F.lit("0,5"), _WIDE, options) == 0.5, F.lit(False))
    return F.when(~(has_comma & value.rlike(r"\.(?!\d{3}(?!\d))")), decimal)


def _from_text(value: Column, to: T.DataType, options: Mapping[str, str]) -> Column:
    # Without quotes and a usual separator, the whole string is the field.
    as_field = {**options, "sep": "\x01", "quote": ""}
    parsed: Column = F.from_csv(value, f"value {to.simpleString()}", as_field).getField("value")
    return parsed


def filtered(frame: DataFrame, where: Mapping[str, Any], key: str) -> DataFrame:
    """The rows in which each column of `where` has its value, or one of its values. Null is no value."""
    # Neither values nor columns are cast. Raises `DataError` if a column is missing, or its type cannot hold a value.
    types = {field.name: field.dataType for field in frame.schema.fields} if where else {}
    kept = frame
    for name, given in where.items():
        twins = [column for column in frame.columns if column.lower() == name.lower()]
        if name not in twins:
            raise DataError(f"{key}.where: no column {name!r}{did_you_mean(name, frame.columns)}")
        if len(twins) > 1:
            raise DataError(f"{key}.where: expected one column named {name!r}, in any case, found {', '.join(twins)}")
        column, column_type = frame[quoted_part(name)], types[name]
        if isinstance(column_type, T.StringType):
            column = column.cast("string")  # compared byte by byte, whatever the collation of the column
        values = [
            typed_value(value, column_type, f"{key}.where.{name}") for value in (given if isinstance(given, list) else [given])
        ]
        kept = kept.where(column.isin(values))
    return kept


def typed_value(value: Any, column_type: T.DataType, key: str) -> Any:
    """The value in the type of the column."""
    name = column_type.simpleString()
    for base, (read, expected) in _READERS.items():
        if isinstance(column_type, base):
            typed = read(value, column_type)
            if typed is None:
                quotes = ": write it in quotes" if base is T.StringType else ""
                raise DataError(
                    f"{key}: expected {expected}, because the column is of type {name}, found {brief(value)}{quotes}"
                )
            return typed
    raise DataError(f"{key}: expected a column of strings, integers, decimals, booleans or dates, found one of type {name}")


def _integer(value: Any, column_type: T.DataType) -> int | None:
    if isinstance(value, bool) or not re.fullmatch("[-+]?[0-9]{1,30}", str(value)):
        return None
    smallest, largest = integer_range(column_type)
    return int(value) if smallest <= int(value) <= largest else None


def _decimal_value(value: Any, column_type: Any) -> Decimal | None:
    if isinstance(value, bool) or not re.fullmatch(r"[-+]?[0-9]{1,39}(\.[0-9]{1,39})?", str(value)):
        return None
    number = Decimal(str(value))
    whole, _, fraction = f"{abs(number):f}".partition(".")
    fits = (
        len(whole.lstrip("0")) <= column_type.precision - column_type.scale and len(fraction.rstrip("0")) <= column_type.scale
    )
    return number if fits else None


def _date(value: Any, _: T.DataType) -> date | None:
    try:
        return date.fromisoformat(value) if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", str(value)) else None
    except ValueError:
        return None


_READERS: dict[type[T.DataType], tuple[Any, str]] = {
    T.StringType: (lambda value, _: value if isinstance(value, str) else None, "a string"),
    T.BooleanType: (lambda value, _: {"true": True, "false": False}.get(str(value).lower()), "true or false"),
    T.IntegralType: (_integer, "an integer in the range of the type"),
    T.DecimalType: (_decimal_value, "a number that the type holds exactly, in quotes"),
    T.DateType: (_date, "a date such as 2026-11-28"),
}
"""By type of the column: how a value is read, None if the type cannot hold it, and what is expected."""
