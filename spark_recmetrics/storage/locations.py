"""Where tables are: `Location` of an input table, `Output` of the tables of a run."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.storage.credentials import CREDENTIALS_IN_ADDRESS, Secret, without_password
from spark_recmetrics.storage.formats import FileFormat, TableFormat
from spark_recmetrics.storage.identifiers import name_parts
from spark_recmetrics.storage.table_schemas import TYPES, column_type
from spark_recmetrics.text import did_you_mean


def plain_text(value: object) -> str:
    """The value, if it is a non-blank string without control characters. Raises `ConfigError` otherwise."""
    # Line breaks of every kind, control characters and lone surrogates would break a log line or a table.
    broken = {"Cc", "Cs", "Zl", "Zp"}
    if not isinstance(value, str) or not value.strip() or any(unicodedata.category(c) in broken for c in value):
        raise ConfigError(f"expected a non-blank string without control characters, found {value!r}")
    return value


def option_value(value: object) -> str | Secret:
    """A reader option: a string, or a `Secret` from a mapping `{secret: env:NAME}`. Raises `ConfigError` for other values."""
    if isinstance(value, str | Secret):
        return value
    if not isinstance(value, dict):
        quotes = ": write it in quotes" if isinstance(value, int | float) else ""
        shown = "nothing" if value is None else "a list" if isinstance(value, list) else repr(value)
        raise ConfigError(f"expected a string, found {shown}{quotes}")
    if list(value) != ["secret"]:
        raise ConfigError("expected a string, {secret: env:NAME} or {secret: scope/key}, found a mapping with other keys")
    return Secret(value["secret"])


def filter_values(value: object) -> Any:
    """The value that a column must have, or a list of such values. Raises `ConfigError` for anything else."""
    for each in value if isinstance(value, list) and value else [value]:
        if isinstance(each, str):
            plain_text(each)
        elif not isinstance(each, int):
            shown = {type(None): "nothing", list: "a list", dict: "a mapping"}.get(type(each), repr(each))
            quotes = ": write it in quotes" if isinstance(each, float | dict) else ""
            raise ConfigError(f"expected a string, an integer, true, false or a list of them, found {shown}{quotes}")
    return value


@dataclass(frozen=True, eq=False)
class _ReadBy:
    """Makes pydantic read a value with a function, so that there is one error, not one for each member of a union."""

    function: Callable[[object], object]
    json_schema: dict[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.function)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return self.json_schema


_SECRET = {"type": "string", "description": "`env:NAME`, or `scope/key` on Databricks."}
_REFERENCE = {"type": "object", "properties": {"secret": _SECRET}, "required": ["secret"], "additionalProperties": False}
_Option = Annotated[str | Secret, _ReadBy(option_value, {"anyOf": [{"type": "string"}, _REFERENCE]})]
_DECIMAL = {"type": "string", "pattern": r"^decimal\(\d{1,2}, ?\d{1,2}\)$"}
_Value = {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]}
_Filter = Annotated[
    str | int | list[str | int],
    _ReadBy(filter_values, {"anyOf": [*_Value["anyOf"], {"type": "array", "items": _Value, "minItems": 1}]}),
]
_Type = Annotated[str, _ReadBy(column_type, {"anyOf": [{"enum": list(TYPES)}, _DECIMAL]})]


_PATH_AS_NAME = re.compile(r"(?P<format>delta|parquet|orc|csv|json)\.`(?P<path>[^`]*/[^`]*)`.*", re.IGNORECASE)
"""A path that Spark SQL reads as a table, without the checks of files."""


def _check_place(place: Location | Output, catalog_key: str, formats: tuple[str | None, ...]) -> None:
    """Check that there is either a path without a password or a name in the catalog, and a known format."""
    path, name = place.path, getattr(place, catalog_key)
    if (path is None) == (name is None):
        raise ConfigError(f"expected either path or {catalog_key}, found {'neither' if path is None else 'both'}")
    if isinstance(path, str) and without_password(path) != path:
        raise ConfigError(f"path: {CREDENTIALS_IN_ADDRESS}")
    plain_text(name if path is None else path)
    if name is not None:
        if (as_path := _PATH_AS_NAME.fullmatch(name)) is not None:
            advice = f"set path: {as_path['path']} and format: {as_path['format'].lower()}"
            raise ConfigError(f"{catalog_key}: expected a name in the catalog, found a path, {name!r}: {advice}")
        *parts, last = name_parts(name)
        may_be_empty = catalog_key == "table_prefix" and parts and not last
        if any(not part or part != part.strip() for part in (parts if may_be_empty else [*parts, last])):
            raise ConfigError(
                f"{catalog_key}: expected a name without empty parts and without blanks at their ends, found {name!r}: "
                "is a variable not set?"
            )
    if place.format not in formats:
        raise ConfigError(f"unknown format {place.format!r}{did_you_mean(str(place.format), filter(None, formats))}")


def _checked(key: str, mapping: dict[Any, Any], read: Callable[[object], Any]) -> dict[str, Any]:
    """The mapping with its values read, and errors that name the key."""
    values = {}
    for name, value in mapping.items():
        if not isinstance(name, str):
            raise ConfigError(f"{key}: expected strings as names, found {name!r}")
        try:
            values[name] = read(value)
        except ConfigError as error:
            raise ConfigError(f"{key}.{name}: {error}") from error
    return values


@dataclass(frozen=True)
class Location:
    """Where an input table is: files of one format under a path, or a catalog table.

    Args:
        path: Path or URI of a file or folder. Exactly one of `path` and `table` is given.
        table: Name of a catalog table, such as `main.recs.predictions`.
        format: Format of the files under `path`. None: the format that the names of the files show, otherwise parquet. Catalog
            tables have their own.
        options: Options of the Spark reader, such as `{"header": "true"}` for csv: strings, or a `Secret`.
        types: Types of columns by name, such as `{"user_id": "string"}`. The other columns have their own type; those of csv
            and json have none, so Spark guesses it.
        where: Only rows whose columns have these values are read, such as `{"day": "2026-11-28", "country": ["DE", "AT"]}`.

    Raises:
        ConfigError: Not exactly one of path and table is given, the path has a password, a table has a format, the format is
            unknown, an option is neither a string nor a secret, a type is unknown, or a value of `where` is not a string, an
            integer, a boolean or a list of them.
    """

    path: str | None = None
    table: str | None = None
    format: FileFormat | None = None
    options: dict[str, _Option] = field(default_factory=dict, hash=False)
    types: dict[str, _Type] = field(default_factory=dict, hash=False)
    where: dict[str, _Filter] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_place(self, "table", (None, *get_args(FileFormat)))
        if self.table is not None and self.format not in (None, "parquet"):
            raise ConfigError(f"expected no format for a catalog table, which has its own, found {self.format!r}")
        object.__setattr__(self, "options", _checked("options", self.options, option_value))
        _checked("types", self.types, column_type)
        _checked("where", self.where, filter_values)


@dataclass(frozen=True)
class Output:
    """Where the tables of a run go: `<path>/summary`, or `<table_prefix>summary` in the catalog, and so on.

    Args:
        path: Folder of the tables. Exactly one of `path` and `table_prefix` is given.
        table_prefix: Start of the names in the catalog, such as `main.recs.nightly_`.
        format: Format of the tables: parquet, delta or orc.

    Raises:
        ConfigError: Not exactly one of path and table_prefix is given, the path has a password, or the format is unknown.

    Example:
        >>> Output(table_prefix="main.recs.nightly_").table("summary")
        'main.recs.nightly_summary'
    """

    path: str | None = None
    table_prefix: str | None = None
    format: TableFormat = "parquet"

    def __post_init__(self) -> None:
        _check_place(self, "table_prefix", get_args(TableFormat))

    def table(self, name: str) -> str:
        """Path or name of a table, such as `summary`, `per_user`, `data_report` or `runs`."""
        return f"{self.table_prefix}{name}" if self.path is None else f"{self.path.rstrip('/')}/{name}"
