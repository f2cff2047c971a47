"""Types of columns, by the names that Spark gives them."""

from __future__ import annotations

import re

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.text import did_you_mean

_KINDS = StringType, BooleanType, IntegerType, LongType, FloatType, DoubleType, DateType, TimestampType
TYPES = {kind().simpleString(): kind() for kind in _KINDS}
"""All types but decimals, which have parameters."""


def column_type(name: object) -> str:
    """The name that Spark gives a type, such as `string` or `decimal(10,2)`. Raises `ConfigError` if there is none."""
    if not isinstance(name, str):
        raise ConfigError(f"expected the name of a type such as string, found {'nothing' if name is None else repr(name)}")
    return type_named(name).simpleString()


def type_named(name: str) -> DataType:
    """The type of that name."""
    digits = re.fullmatch(r"decimal\((\d{1,2}), ?(\d{1,2})\)", name)
    if digits and 1 <= int(digits[1]) <= 38 and int(digits[2]) <= int(digits[1]):
        return DecimalType(int(digits[1]), int(digits[2]))
    if name not in TYPES:
        quotes = ", in quotes" if name.startswith("decimal") else ""  # in braces, YAML ends a value at a comma
        raise ConfigError(f"unknown type {name!r}{did_you_mean(name, [*TYPES, 'decimal(10, 2)'])}{quotes}")
    return TYPES[name]
