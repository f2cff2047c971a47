"""The tables that are read and written: where they lie, and the schemas of those that do not depend on the metrics."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
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
        StructField("job", StringType()),
        StructField("small", BooleanType()),
    ]
)
"""One row per model, slice and metric. `metric` is the whole text of the metric, its cut-off included; `small` marks the
values of slices over too few users."""

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

GATES = StructType(
    [
        StructField("gate", StringType()),
        StructField("metric", StringType()),
        StructField("model", StringType()),
        StructField("value", DoubleType()),
        StructField("n_users", LongType()),
        StructField("reference", DoubleType()),
        StructField("reference_run", StringType()),
        StructField("drop", DoubleType()),
        StructField("verdict", StringType()),
        StructField("reason", StringType()),
        StructField("false_alarm_rate", DoubleType()),
        StructField("false_alarm_rate_year", DoubleType()),
    ]
)
"""One row per gate and model; `verdict` is `pass`, `warn` or `fail`."""

COMPARISON = StructType(
    [
        StructField("model_a", StringType()),
        StructField("model_b", StringType()),
        StructField("slice", StringType()),
        StructField("slice_value", StringType()),
        StructField("metric", StringType()),
        StructField("k", IntegerType()),
        StructField("mean_a", DoubleType()),
        StructField("mean_b", DoubleType()),
        StructField("diff", DoubleType()),
        StructField("ci_low", DoubleType()),
        StructField("ci_high", DoubleType()),
        StructField("test", StringType()),
        StructField("statistic", DoubleType()),
        StructField("p_value", DoubleType()),
        StructField("p_adjusted", DoubleType()),
        StructField("effect_size", DoubleType()),
        StructField("wins", LongType()),
        StructField("ties", LongType()),
        StructField("losses", LongType()),
        StructField("n_users", LongType()),
        StructField("smallest_difference", DoubleType()),
        StructField("winner", StringType()),
        StructField("reason", StringType()),
        StructField("seed", LongType()),
    ]
)
"""One row per pair of models, slice, metric and test. Differences are b - a; a win is a user whose value of b is better."""

_PAIRED = [
    StructField("pair", IntegerType()),
    StructField("column", IntegerType()),
    StructField("slice", IntegerType()),
    StructField("slice_value", StringType()),
]

PART_DIFFERENCES = StructType(
    [
        *_PAIRED,
        *(StructField(name, LongType()) for name in ("n_lists_a", "n_lists_b", "n", "n_left_out")),
        *(StructField(name, DoubleType()) for name in ("sum_a", "sum_b", "total", "deviation", "low", "high", "noise")),
        *(StructField(name, LongType()) for name in ("wins", "losses")),
        StructField("magnitudes", ArrayType(DoubleType())),
        *(StructField(name, ArrayType(LongType())) for name in ("n_positive", "n_negative")),
        StructField("sums", ArrayType(DoubleType())),
        StructField("counts", ArrayType(LongType())),
    ]
)
"""The rows of `differences.part_differences`."""

DIFFERENCES = StructType(
    [
        *_PAIRED,
        *(StructField(name, LongType()) for name in ("n_lists_a", "n_lists_b", "n", "n_left_out", "wins", "losses")),
        *(StructField(name, DoubleType()) for name in ("mean_a", "mean_b", "mean", "variance", "plus", "minus", "tied")),
        StructField("replicates", ArrayType(DoubleType())),
    ]
)
"""The rows of `differences.whole_differences`."""

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

_SLICED = [
    StructField("model", StringType()),
    StructField("slice", IntegerType()),
    StructField("slice_value", StringType()),
    StructField("metric", IntegerType()),
]

PART_SLICES = StructType(
    [
        *_SLICED,
        StructField("totals", ArrayType(TOTALS)),
        StructField("sums", ArrayType(DoubleType())),
        StructField("counts", ArrayType(LongType())),
    ]
)
"""The rows of `aggregate.part_slices`; slice and metric by their places."""

SLICE_MEANS = StructType(
    [
        *_SLICED,
        StructField("value", DoubleType()),
        *(StructField(name, LongType()) for name in ("n_users", "n_undefined")),
        *(StructField(name, DoubleType()) for name in ("std", "ci_low", "ci_high")),
    ]
)
"""The rows of `aggregate.whole_slice`."""

PART_SHARES = StructType(
    [
        StructField("place", IntegerType()),
        StructField("sums", ArrayType(DoubleType())),
        StructField("counts", ArrayType(LongType())),
        StructField("total", DoubleType()),
        StructField("n", LongType()),
    ]
)
"""The rows of `item_intervals.part_shares`: of a model and a metric of items, what its lists add to the value, resampled."""

SHARE_ENDS = StructType([StructField("place", IntegerType()), *(StructField(name, DoubleType()) for name in ("low", "high"))])
"""The rows of `item_intervals.share_ends`: how far the ends of the interval lie from the value."""

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

TABLES = ("data_report", "per_user", "summary", "comparison", "gates")
"""The tables of a run; the last two if they are asked for."""

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


def without_password(text: str) -> str:
    """The text with `***` for the password of every address in it.

    Example:
        >>> without_password("cannot read s3a://ann:hunter2@bucket/truth"), without_password("hdfs://host:8020/truth")
        ('cannot read s3a://ann:***@bucket/truth', 'hdfs://host:8020/truth')
        >>> without_password("jdbc:db://host/shop?user=ann&password=hunter2")
        'jdbc:db://host/shop?user=ann&password=***'
    """
    return _PASSWORD.sub(r"\1\2***", text)


# A password in front of a host may hold slashes; a port has none behind it but the path. Names of parameters are those of
# JDBC and of signed addresses of object stores.
_PASSWORD = re.compile(
    r"(://[^/\s:@?#]*:)(?!\d+(?:[/?#]|$)|\*\*\*@)\S+(?=@)"
    r"|([?&;](?:[\w.-]*(?:password|passwd|pwd|secret|token|signature)|sig)=)(?!\*\*\*)[^&;\s'\"]+",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Secret:
    """A reference to a value that stands nowhere in the configuration. `credentials.Vault` reads it.

    Args:
        secret: `env:NAME` for a variable of the driver's environment, or `scope/key` for a secret of Databricks.

    Raises:
        ConfigError: It is no such reference. The message does not repeat it, since it may be the value itself.

    Example:
        >>> Secret("env:S3_SECRET")
        Secret(secret='env:S3_SECRET')
        >>> Secret("hunter2")
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: expected env:NAME or scope/key, found another text, which is not shown here
    """

    secret: str

    def __post_init__(self) -> None:
        if not isinstance(self.secret, str) or not re.fullmatch(r"env:[A-Za-z_]\w*|[\w.@-]+/[\w.@-]+", self.secret, re.ASCII):
            found = "another text" if isinstance(self.secret, str) else type(self.secret).__name__
            raise ConfigError(f"expected env:NAME or scope/key, found {found}, which is not shown here")


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
        raise ConfigError(f"{first}: {PLAIN_ADDRESS}")
    return plain_text(second_value if first_value is None else first_value)


PLAIN_ADDRESS = (
    "expected an address without a password, found one, which is not shown here: give it as an option "
    "{secret: env:NAME} of the table, or in the settings of Spark; that of MLflow as MLFLOW_TRACKING_USERNAME and "
    "MLFLOW_TRACKING_PASSWORD"
)
"""What is said of an address with a password in it."""


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
