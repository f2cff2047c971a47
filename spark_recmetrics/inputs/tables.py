"""The caller's tables: Spark DataFrames, or tables of pandas, polars, pyarrow and others that export Arrow data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from spark_recmetrics.errors import ConfigError

SPARK, MEMORY = "Spark", "memory"


@dataclass(frozen=True)
class Tables:
    """The caller's tables, see `evaluate`."""

    predictions: Any
    truth: Any
    rating_predictions: Any = None
    train: Any = None
    catalog: Any = None
    user_segments: Any = None
    item_groups: Any = None
    item_features: Any = None

    @property
    def by_name(self) -> dict[str, Any]:
        """The tables that are given, by the name of the argument."""
        return {field.name: table for field in fields(self) if (table := getattr(self, field.name)) is not None}

    @property
    def columns(self) -> dict[str, list[str]]:
        """The names of the columns of each table."""
        return {name: column_names(name, table) for name, table in self.by_name.items()}

    def check(self) -> str:
        """The engine that can read these tables: `SPARK` or `MEMORY`.

        Raises:
            ConfigError: A table is missing, is something else, or needs the other engine.
        """
        engines = {}
        for name in ("predictions", "truth", *self.by_name):
            engines[name] = engine_of(name, getattr(self, name))
        chosen = engines["predictions"]
        for name, engine in engines.items():
            if engine != chosen:
                expected = "a Spark DataFrame" if chosen == SPARK else "a pandas, polars or pyarrow table"
                found = _type_name(getattr(self, name))
                raise ConfigError(f"{name}: expected {expected} like predictions, found {found}")
        return chosen


def engine_of(name: str, table: object) -> str:
    """The engine that reads a table. Spark reads its DataFrames even if they can export Arrow data.

    Raises:
        ConfigError: The argument is not a table, or it is a stream.
    """
    # Frames of Spark Connect 3.5 are of another class, so they are recognized by their attributes.
    if hasattr(table, "sparkSession") and hasattr(table, "isStreaming"):
        if table.isStreaming:
            raise ConfigError(f"{name}: expected a table, found a stream: write it to a table and evaluate that")
        return SPARK
    if hasattr(table, "__arrow_c_stream__") or _type_name(table).startswith("pandas."):
        return MEMORY
    or_size = ", or the number of items" if name == "catalog" else ""
    expected = f"a Spark DataFrame, a table of pandas, polars or pyarrow{or_size}"
    raise ConfigError(f"{name}: expected {expected}, found {_type_name(table)}")


def column_names(name: str, table: Any) -> list[str]:
    """The names of the columns of a table.

    Raises:
        ConfigError: A pandas object is not a DataFrame.
    """
    # A table of pyarrow has a list. In other frames such an attribute is a column, which Spark Connect finds for any name.
    if isinstance(names := getattr(table, "column_names", None), list):
        return names
    if not hasattr(table, "columns"):
        raise ConfigError(f"{name}: expected a table with named columns, found {_type_name(table)}")
    return list(map(str, table.columns))


def _type_name(table: object) -> str:
    return f"{type(table).__module__}.{type(table).__name__}"
