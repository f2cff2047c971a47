"""Where tables are: `Location` of an input table, `Output` of the tables of a run, and whether one is in the other."""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.storage.credentials import CREDENTIALS_IN_ADDRESS, Secret, without_password
from spark_recmetrics.storage.formats import FileFormat, TableFormat, glob_pattern
from spark_recmetrics.storage.table_schemas import TYPES, spark_type_name
from spark_recmetrics.text import brief_value, did_you_mean

Relation = Literal["is the same place as", "lies inside", "contains", "includes"]
"""How a place that is written is related to one that is read."""


def plain_text(value: object) -> str:
    """The value, if it is a non-blank string without control characters. Raises `ConfigError` otherwise."""
    # Line breaks of every kind, control characters and lone surrogates would break a log line or a table.
    broken = {"Cc", "Cs", "Zl", "Zp"}
    if not isinstance(value, str) or not value.strip() or any(unicodedata.category(c) in broken for c in value):
        raise ConfigError(f"expected a non-blank string without control characters, found {value!r}")
    return value


def option_value(value: object) -> str | Secret:
    """A reader option: a string, or a `Secret` from a mapping `{secret: env:NAME}`. Raises `ConfigError` for other values."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        quotes = ": write it in quotes" if isinstance(value, int | float) else ""
        raise ConfigError(f"expected a string, found {brief_value(value)}{quotes}")
    if list(value) != ["secret"]:
        raise ConfigError("expected a string, {secret: env:NAME} or {secret: scope/key}, found a mapping with other keys")
    return Secret(value["secret"])


def filter_values(value: object) -> Any:
    """The value that a column must have, or a list of such values. Raises `ConfigError` for anything else."""
    for each in value if isinstance(value, list) and value else [value]:
        if isinstance(each, str):
            plain_text(each)
        elif not isinstance(each, int):
            quotes = ": write it in quotes" if isinstance(each, float | dict) else ""
            raise ConfigError(
                f"expected a string, an integer, true, false or a list of them, found {brief_value(each)}{quotes}"
            )
    return value


@dataclass(frozen=True, eq=False)
class _ReadBy:
    """Makes pydantic read a value with a function: one error, not one per member of a union."""

    # Does not import pydantic, which an evaluation does not need.
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
_Type = Annotated[str, _ReadBy(spark_type_name, {"anyOf": [{"enum": list(TYPES)}, _DECIMAL]})]

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


def name_parts(name: str) -> list[str]:
    """The parts of the name of a catalog table as they are written; a part in backticks may contain dots."""
    return re.findall(r"(?:^|\.)(`(?:[^`]|``)*`(?=\.|$)|[^.]*)", name)


def quoted(name: str) -> str:
    """The name of a catalog table with each part quoted once, so that it may contain hyphens and spaces."""
    return ".".join(part if re.fullmatch(r"`(?:[^`]|``)*`", part) else quoted_part(part) for part in name_parts(name))


def quoted_part(name: str) -> str:
    """A column name, or one part of a table name, in quotes."""
    return "`" + name.replace("`", "``") + "`"


_DEFAULT_FILE_SYSTEMS = {"", "file", "hdfs", "dbfs", "viewfs"}
"""Schemes that a path without a scheme may have."""

_OBJECT_STORES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""Other schemes for the same files."""


def shared_place(output: Output, location: Location, tables: Iterable[str]) -> Relation | None:
    """How the output and an input are related if one is in the other; None if they are apart. `tables` are written."""
    if output.path is not None and location.path is not None:
        return related_paths(output.path, location.path)
    if output.path is not None or location.table is None:
        return None
    return "includes" if any(_same_table(output.table(name), location.table) for name in tables) else None


def path_in_input(path: str | Path, location: Location) -> Relation | None:
    """How a file of the driver is related to an input that contains it; None if it is outside."""
    relation = None if location.path is None else related_paths(f"file:{Path.cwd() / path}", location.path)
    return None if relation == "contains" else relation


def related_paths(written: str, read: str) -> Relation | None:
    """How a path that is written is related to a path that is read, which may be a glob; None if they are apart."""
    (system, target), (other_system, source) = _system_and_path(written), _system_and_path(read)
    if not _may_be_same_system(system, other_system):
        return None
    if {system[0], other_system[0]} <= {"", "file"}:
        target, source = map(os.path.realpath, (target, source))
    if target == source:
        return "is the same place as"
    pattern = re.compile(glob_pattern(source))
    parents = [target]
    while parents[-1] != "/":
        parents.append(posixpath.dirname(parents[-1]))
    if any(pattern.fullmatch(parent) for parent in parents):
        return "lies inside"
    literal = re.split(r"[*?\[{]", source)[0]  # a folder that contains all files of the glob
    return "contains" if literal.startswith(target.rstrip("/") + "/") else None


def _system_and_path(path: str) -> tuple[tuple[str, str], str]:
    """Scheme and authority of a path, and the absolute path without `.`, `..` and repeated slashes."""
    match = re.fullmatch(r"(?:([A-Za-z][\w+.-]*):)?(?://([^/]*))?(.*)", path, re.DOTALL)
    scheme, authority, rest = match.groups(default="") if match is not None else ("", "", path)
    scheme = _OBJECT_STORES.get(scheme.lower(), scheme.lower())
    absolute = rest if scheme or authority else posixpath.join(Path.cwd(), rest)
    normal = posixpath.normpath("/" + absolute.lstrip("/"))
    if scheme in ("", "file") and normal.startswith("/dbfs/"):  # the mount of DBFS
        return ("dbfs", ""), normal.removeprefix("/dbfs")
    return (scheme, authority), normal


def _may_be_same_system(one: tuple[str, str], other: tuple[str, str]) -> bool:
    if one == other:
        return True
    if "" in (one[0], other[0]):
        return {one[0], other[0]} <= _DEFAULT_FILE_SYSTEMS
    return one[0] == other[0] and "" in (one[1], other[1])


def _same_table(one: str, other: str) -> bool:
    """Whether two names may mean one table: catalog and schema that a name lacks are those of the session."""
    parts, other_parts = ([part.strip("`").lower() for part in name_parts(name)] for name in (one, other))
    n = min(len(parts), len(other_parts))
    return parts[-n:] == other_parts[-n:]
