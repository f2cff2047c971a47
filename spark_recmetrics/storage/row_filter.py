"""Row filters: the rows of a table whose columns have the given values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from spark_recmetrics.errors import DataError
from spark_recmetrics.storage.locations import quoted_part
from spark_recmetrics.storage.typed_columns import integer_range
from spark_recmetrics.text import brief, did_you_mean


def filtered(frame: DataFrame, where: Mapping[str, Any], key: str) -> DataFrame:
    """The rows in which each column of `where` has its value, or one of its values. Null is no value.

    Values are compared in the type of the column: a value is never cast to another type, and neither is the column. Raises
    `DataError` if a column is missing, or its type cannot hold a value.
    """
    types = {field.name: field.dataType for field in frame.schema.fields} if where else {}
    conditions = []
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
        conditions.append(column.isin(values))
    for condition in conditions:
        frame = frame.where(condition)
    return frame


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


def _decimal(value: Any, column_type: Any) -> Decimal | None:
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
    T.DecimalType: (_decimal, "a number that the type holds exactly, in quotes"),
    T.DateType: (_date, "a date such as 2026-11-28"),
}
"""By type of the column: how a value is read, None if the type cannot hold it, and what is expected."""
