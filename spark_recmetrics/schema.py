"""The tables that are read and written: where they lie, and the schemas of those that do not depend on the metrics."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import Literal, get_args

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_recmetrics.errors import ConfigError, did_you_mean

SUMMARY = StructType(
    [
        StructField("run_id", StringType()),
        StructField("as_of", StringType()),
        StructField("model", StringType()),
        StructField("slice", StringType()),
        StructField("slice_value", StringType()),
        StructField("metric", StringType()),
        StructField("k", IntegerType()),
        StructField("convention", StringType()),
        StructField("value", DoubleType()),
        StructField("n_users", LongType()),
        StructField("n_undefined", LongType()),
        StructField("std", DoubleType()),
        StructField("ci_low", DoubleType()),
        StructField("ci_high", DoubleType()),
        StructField("ci_method", StringType()),
        StructField("higher_is_better", BooleanType()),
        StructField("config_hash", StringType()),
        StructField("data_hash", StringType()),
        StructField("version", StringType()),
        StructField("computed_at", TimestampType()),
    ]
)
"""One row per model, slice and metric. `metric` is the whole text of the metric, its cut-off included."""

DATA_REPORT = StructType(
    [
        StructField("check", StringType()),
        StructField("table", StringType()),
        StructField("level", StringType()),
        StructField("n_rows", LongType()),
        StructField("share", DoubleType()),
        StructField("example", StringType()),
    ]
)
"""One row per fact about the input; `level` is `info`, `warn` or `error`, `share` is of the rows or users of the table."""

TOTALS = StructType(
    [
        StructField("model", StringType()),
        StructField("name", StringType()),
        StructField("n", LongType()),
        StructField("sum", DoubleType()),
        StructField("deviation", DoubleType()),
        StructField("undefined", LongType()),
        StructField("total", DoubleType()),
        StructField("count", DoubleType()),
        StructField("examples", ArrayType(StringType())),
    ]
)
"""The rows of `means.part_totals`."""

RUN_COLUMNS = ("as_of", "run_id")
"""The columns that name a run in every published table."""

ATTEMPT = "attempt"
"""Published tables are partitioned by the run and by this column: a random id of each time that the run was published."""

RUNS = StructType(
    [
        StructField("sequence", LongType()),
        StructField("table", StringType()),
        StructField("n_rows", LongType()),
        StructField("columns", StringType()),
        StructField("config_hash", StringType()),
        StructField("version", StringType()),
        StructField("committed_at", TimestampType()),
        StructField("as_of", StringType()),
        StructField("run_id", StringType()),
        StructField("attempt", StringType()),
    ]
)
"""One row per committed attempt and table. `columns` is the schema of the table without the last three, as JSON."""

TABLES = ("data_report", "per_user", "summary")
"""The tables of a run."""

SPLIT_REPORT = StructType(
    [
        StructField("method", StringType()),
        StructField("fold", IntegerType()),
        StructField("cut", StringType()),
        StructField("n_rows", LongType()),
        StructField("n_train_rows", LongType()),
        StructField("n_test_rows", LongType()),
        StructField("n_left_out_rows", LongType()),
        StructField("n_train_users", LongType()),
        StructField("n_test_users", LongType()),
        StructField("n_train_items", LongType()),
        StructField("n_test_items", LongType()),
        StructField("n_cold_users", LongType()),
        StructField("n_cold_items", LongType()),
        StructField("n_short_users", LongType()),
        StructField("n_future_users", LongType()),
        StructField("max_train_time", StringType()),
        StructField("min_test_time", StringType()),
    ]
)
"""One row per split, or per fold: the fields of `sides.SplitReport`."""

SPLIT_TABLES = ("folds", "split_report", "test", "train")
"""The tables of a split: `train` and `test`, or `folds`, and the report."""

FileFormat = Literal["parquet", "csv", "json", "orc", "delta"]
"""The formats of files that can be read."""

TableFormat = Literal["parquet", "delta", "orc"]
"""The formats of tables that can be written."""


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


def _one_of(first: str, first_value: str | None, second: str, second_value: str | None) -> str:
    if (first_value is None) == (second_value is None):
        found = "neither" if first_value is None else "both"
        raise ConfigError(f"expected either {first} or {second}, found {found}")
    return plain_text(second_value if first_value is None else first_value)


@dataclass(frozen=True)
class Location:
    """Where an input table lies: files of one format under a path, or a table of the catalog.

    Args:
        path: Path or URI of a file or folder. Exactly one of `path` and `table` is given.
        table: Name in the catalog, such as `main.recs.predictions`.
        format: Format of the files under `path`. A table of the catalog knows its own.
        options: Options of the Spark reader, texts to texts, such as `{"header": "true"}` of csv.

    Raises:
        ConfigError: Not exactly one of path and table, a format beside a table, an unknown format, or an option that
            is no text.

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
    options: dict[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _one_of("path", self.path, "table", self.table)
        if self.format not in get_args(FileFormat):
            raise ConfigError(f"unknown format {self.format!r}{did_you_mean(str(self.format), get_args(FileFormat))}")
        if self.table is not None and self.format != "parquet":
            raise ConfigError(f"expected no format beside a table, found {self.format!r}: a table of the catalog knows its own")
        for option, value in self.options.items():
            if not isinstance(option, str) or not isinstance(value, str):
                raise ConfigError(f"options: expected texts, found {option!r}: {value!r}")
        object.__setattr__(self, "options", dict(self.options))


@dataclass(frozen=True)
class Output:
    """Where the tables go: `<path>/summary`, or `<table_prefix>summary` in the catalog, and so on.

    Args:
        path: Folder of the tables. Exactly one of `path` and `table_prefix` is given.
        table_prefix: Beginning of the names in the catalog, such as `main.recs.nightly_`.
        format: Format of the tables: parquet, delta or orc.

    Raises:
        ConfigError: Not exactly one of path and table_prefix, or an unknown format.

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
