"""The tables that are read and written: where they lie, and the schemas of those that do not depend on the metrics."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

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
from spark_recmetrics.storage.credentials import CREDENTIALS_IN_ADDRESS, Secret, without_password
from spark_recmetrics.text import did_you_mean

FileFormat = Literal["parquet", "csv", "json", "orc", "delta"]
"""The formats of files that can be read."""

TableFormat = Literal["parquet", "delta", "orc"]
"""The formats of tables that can be written."""


_OWN_TYPES = StringType, BooleanType, IntegerType, LongType, FloatType, DoubleType, DateType, TimestampType
_TYPES = {kind().simpleString(): kind() for kind in _OWN_TYPES}


def column_type(name: object) -> str:
    """The name by which Spark tells the type of a column of a text file.

    Raises:
        ConfigError: There is no such type.

    Example:
        >>> column_type("string"), column_type("decimal(10, 2)")
        ('string', 'decimal(10,2)')
        >>> column_type("strng")
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: unknown type 'strng'; did you mean 'string'?
    """
    if not isinstance(name, str):
        raise ConfigError(f"expected the name of a type such as string, found {'nothing' if name is None else repr(name)}")
    return type_named(name).simpleString()


def type_named(name: str) -> DataType:
    """The type of that name."""
    digits = re.fullmatch(r"decimal\((\d{1,2}), ?(\d{1,2})\)", name)
    if digits and 1 <= int(digits[1]) <= 38 and int(digits[2]) <= int(digits[1]):
        return DecimalType(int(digits[1]), int(digits[2]))
    if name not in _TYPES:
        quoted = ", in quotes" if name.startswith("decimal") else ""  # a comma within braces ends a value of YAML
        raise ConfigError(f"unknown type {name!r}{did_you_mean(name, [*_TYPES, 'decimal(10, 2)'])}{quoted}")
    return _TYPES[name]


def plain_text(value: object) -> str:
    """The value, if it is a text with something in it and without control characters.

    Raises:
        ConfigError: It is not.
    """
    # Line breaks of every kind, control characters and lone surrogates would break a log line or a table.
    broken = {"Cc", "Cs", "Zl", "Zp"}
    if not isinstance(value, str) or not value.strip() or any(unicodedata.category(c) in broken for c in value):
        raise ConfigError(f"expected a text without control characters, found {value!r}")
    return value


def option_value(value: object) -> str | Secret:
    """The value of a reader's option: a text, or a mapping `{secret: env:NAME}` for a reference.

    Raises:
        ConfigError: It is neither.
    """
    if isinstance(value, str | Secret):
        return value
    if not isinstance(value, dict):
        quotes = ": write it in quotes" if isinstance(value, int | float) else ""
        found = "nothing" if value is None else "a list" if isinstance(value, list) else repr(value)
        raise ConfigError(f"expected a text, found {found}{quotes}")
    if list(value) != ["secret"]:
        raise ConfigError("expected a text, or {secret: env:NAME} or {secret: scope/key}, found a mapping of other keys")
    return Secret(value["secret"])


@dataclass(frozen=True, eq=False)
class _ReadBy:
    """How pydantic reads a value. Left to itself it tells of a text or a secret twice what is wrong."""

    function: Callable[[object], object]
    described: dict[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.function)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return self.described


_SECRET = {"type": "string", "description": "`env:NAME`, or `scope/key` on Databricks."}
_REFERENCE = {"type": "object", "properties": {"secret": _SECRET}, "required": ["secret"], "additionalProperties": False}
_Option = Annotated[str | Secret, _ReadBy(option_value, {"anyOf": [{"type": "string"}, _REFERENCE]})]
_DECIMAL = {"type": "string", "pattern": r"^decimal\(\d{1,2}, ?\d{1,2}\)$"}
_Type = Annotated[str, _ReadBy(column_type, {"anyOf": [{"enum": list(_TYPES)}, _DECIMAL]})]


def _one_of(first: str, first_value: str | None, second: str, second_value: str | None) -> str:
    if (first_value is None) == (second_value is None):
        found = "neither" if first_value is None else "both"
        raise ConfigError(f"expected either {first} or {second}, found {found}")
    if isinstance(first_value, str) and without_password(first_value) != first_value:
        raise ConfigError(f"{first}: {CREDENTIALS_IN_ADDRESS}")
    return plain_text(second_value if first_value is None else first_value)


@dataclass(frozen=True)
class Location:
    """Where an input table lies: files of one format under a path, or a table of the catalog.

    Args:
        path: Path or URI of a file or folder. Exactly one of `path` and `table` is given.
        table: Name in the catalog, such as `main.recs.predictions`.
        format: Format of the files under `path`. A table of the catalog knows its own.
        options: Options of the Spark reader, such as `{"header": "true"}` of csv: texts, or a `Secret` for what is none's
            business.
        types: Types of columns of csv and json, which have none of their own, by column, such as `{"user_id": "string"}`;
            those that are not named are guessed.

    Raises:
        ConfigError: Not exactly one of path and table, a password in the path, a format beside a table, an unknown format,
            an option that is neither text nor secret, an unknown type, or types where the table has its own.

    Example:
        >>> Location(path="/data/truth").format
        'parquet'
        >>> Location()
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: expected either path or table, found neither
    """

    path: str | None = None
    table: str | None = None
    format: FileFormat = "parquet"
    options: dict[str, _Option] = field(default_factory=dict, hash=False)
    types: dict[str, _Type] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _one_of("path", self.path, "table", self.table)
        if self.format not in get_args(FileFormat):
            raise ConfigError(f"unknown format {self.format!r}{did_you_mean(str(self.format), get_args(FileFormat))}")
        if self.table is not None and self.format != "parquet":
            raise ConfigError(f"expected no format beside a table, found {self.format!r}: a table of the catalog knows its own")
        options: dict[str, str | Secret] = {}
        for option, value in self.options.items():
            if not isinstance(option, str):
                raise ConfigError(f"options: expected texts as names, found {option!r}")
            try:
                options[option] = option_value(value)
            except ConfigError as error:
                raise ConfigError(f"options.{option}: {error}") from error
        object.__setattr__(self, "options", options)
        if self.types and (self.table is not None or self.format not in ("csv", "json")):
            found = "a table of the catalog" if self.table is not None else self.format
            raise ConfigError(f"types: expected none of {found}, which knows its own: cast_ids makes texts of ids")
        for column, name in self.types.items():
            if not isinstance(column, str):
                raise ConfigError(f"types: expected texts as names of columns, found {column!r}")
            try:
                column_type(name)
            except ConfigError as error:
                raise ConfigError(f"types.{column}: {error}") from error


@dataclass(frozen=True)
class Output:
    """Where the tables go: `<path>/summary`, or `<table_prefix>summary` in the catalog, and so on.

    Args:
        path: Folder of the tables. Exactly one of `path` and `table_prefix` is given.
        table_prefix: Beginning of the names in the catalog, such as `main.recs.nightly_`.
        format: Format of the tables: parquet, delta or orc.

    Raises:
        ConfigError: Not exactly one of path and table_prefix, a password in the path, or an unknown format.

    Example:
        >>> Output(table_prefix="main.recs.nightly_").table("summary")
        'main.recs.nightly_summary'
    """

    path: str | None = None
    table_prefix: str | None = None
    format: TableFormat = "parquet"

    def __post_init__(self) -> None:
        _one_of("path", self.path, "table_prefix", self.table_prefix)
        if self.format not in get_args(TableFormat):
            raise ConfigError(f"unknown format {self.format!r}{did_you_mean(str(self.format), get_args(TableFormat))}")

    def table(self, name: str) -> str:
        """Path or name of the table `summary`, `per_user`, `data_report` or `runs`."""
        return f"{self.table_prefix}{name}" if self.path is None else f"{self.path.rstrip('/')}/{name}"
