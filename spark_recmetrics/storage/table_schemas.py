"""Types of columns by name; schemas of the published tables, and of partial results between workers, for any metrics."""

from __future__ import annotations

import re

from pyspark.sql import types

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.text import brief_value, did_you_mean

_NUMBERS = types.IntegerType(), types.LongType(), types.FloatType(), types.DoubleType()
_KINDS = types.StringType(), types.BooleanType(), *_NUMBERS, types.DateType(), types.TimestampType()
TYPES = {kind.simpleString(): kind for kind in _KINDS}
"""All types but decimals, which have parameters."""


def spark_type_name(name: object) -> str:
    """The name that Spark gives a type, such as `string` or `decimal(10,2)`. Raises `ConfigError` if there is none."""
    if not isinstance(name, str):
        raise ConfigError(f"expected the name of a type such as string, found {brief_value(name)}")
    return type_named(name).simpleString()


def type_named(name: str) -> types.DataType:
    """The type of that name."""
    digits = re.fullmatch(r"decimal\((\d{1,2}), ?(\d{1,2})\)", name)
    if digits and 1 <= int(digits[1]) <= 38 and int(digits[2]) <= int(digits[1]):
        return types.DecimalType(int(digits[1]), int(digits[2]))
    if name not in TYPES:
        quotes = ", in quotes" if name.startswith("decimal") else ""  # in braces, YAML ends a value at a comma
        raise ConfigError(f"unknown type {name!r}{did_you_mean(name, [*TYPES, 'decimal(10, 2)'])}{quotes}")
    return TYPES[name]


def _schema(columns: str) -> types.StructType:
    """The columns of a DDL string. Spark's own parser of these needs a session."""
    return types.StructType(
        [types.StructField(name, _type(kind)) for name, kind in (column.split() for column in columns.split(","))]
    )


def _type(name: str) -> types.DataType:
    element = name.removeprefix("array<").removesuffix(">")
    return type_named(name) if element == name else types.ArrayType(type_named(element))


SUMMARY = _schema(
    "run_id string, as_of string, model string, slice string, slice_value string, metric string, k int, convention string, "
    "value double, n_users bigint, n_undefined bigint, std double, ci_low double, ci_high double, ci_method string, "
    "higher_is_better boolean, config_hash string, data_hash string, version string, computed_at timestamp, job string, "
    "small boolean"
)
"""One row per model, slice and metric (full name with cut-off). `small` marks values of slices with too few users."""

DATA_REPORT = _schema("check string, table string, level string, n_rows bigint, share double, example string")
"""One row per data check and table. `level` is `info`, `warn` or `error`; `share` is of the rows or users of the table."""

GATES = _schema(
    "gate string, metric string, model string, value double, n_users bigint, reference double, reference_run string, "
    "drop double, result string, reason string, false_alarm_rate double, false_alarm_rate_year double"
)
"""One row per gate and model; `result` is `pass`, `warn` or `fail`."""

COMPARISON = _schema(
    "model_a string, model_b string, slice string, slice_value string, metric string, k int, mean_a double, mean_b double, "
    "diff double, ci_low double, ci_high double, test string, statistic double, p_value double, p_adjusted double, "
    "effect_size double, wins bigint, ties bigint, losses bigint, n_users bigint, smallest_difference double, winner string, "
    "reason string, seed bigint"
)
"""One row per pair of models, slice, metric and test. Differences are b - a; a win is a user for whom b is better."""

PART_DIFFERENCES = _schema(
    "pair int, column int, slice int, slice_value string, n_lists_a bigint, n_lists_b bigint, n bigint, n_left_out bigint, "
    "sum_a double, sum_b double, total double, deviation double, low double, high double, noise double, wins bigint, "
    "losses bigint, magnitudes array<double>, n_positive array<bigint>, n_negative array<bigint>, sums array<double>, "
    "counts array<bigint>"
)
"""Rows of `decisions.differences.part_differences`."""

DIFFERENCES = _schema(
    "pair int, column int, slice int, slice_value string, n_lists_a bigint, n_lists_b bigint, n bigint, n_left_out bigint, "
    "wins bigint, losses bigint, mean_a double, mean_b double, mean double, variance double, plus double, minus double, "
    "tied double, replicates array<double>"
)
"""Rows of `decisions.differences.whole_differences`."""

TOTALS = _schema(
    "model string, name string, n bigint, sum double, deviation double, undefined bigint, total double, count double, "
    "examples array<string>"
)
"""Rows of `scoring.partial_sums.part_totals`."""

PART_SLICES = types.StructType(
    [
        *_schema("model string, slice int, slice_value string, metric int"),
        types.StructField("totals", types.ArrayType(TOTALS)),
        *_schema("sums array<double>, counts array<bigint>"),
    ]
)
"""Rows of `aggregation.slices.part_slices`, with positions of slices and metrics."""

SLICE_MEANS = _schema(
    "model string, slice int, slice_value string, metric int, value double, n_users bigint, n_undefined bigint, std double, "
    "ci_low double, ci_high double"
)
"""Rows of `aggregation.slices.whole_slice`."""

PART_SHARES = _schema("place int, sums array<double>, counts array<bigint>, total double, n bigint")
"""Rows of `aggregation.item_intervals.part_shares`: what the lists of a batch contribute to a value, resampled."""

SHARE_ENDS = _schema("place int, low double, high double")
"""Rows of `aggregation.item_intervals.share_ends`: distances of the confidence limits from the value."""

RUN_COLUMNS = ("as_of", "run_id")
"""The columns that identify a run in every published table."""

ATTEMPT = "attempt"
"""A random id for each time that a run is published. Published tables are partitioned by `RUN_COLUMNS` and this column."""

RUNS = _schema(
    "sequence bigint, table string, n_rows bigint, columns string, config_hash string, version string, committed_at timestamp, "
    "as_of string, run_id string, attempt string"
)
"""One row per committed attempt and table. `columns` is the schema of the table, without the last three columns, as JSON."""

TABLES = ("data_report", "per_user", "summary", "comparison", "gates")
"""The tables of an evaluation; the last two are optional."""

SPLIT_REPORT = _schema(
    "method string, fold int, cut string, n_rows bigint, n_train_rows bigint, n_test_rows bigint, n_left_out_rows bigint, "
    "n_train_users bigint, n_test_users bigint, n_train_items bigint, n_test_items bigint, n_cold_users bigint, "
    "n_cold_items bigint, n_short_users bigint, n_future_users bigint, max_train_time string, min_test_time string"
)
"""One row per split, or per fold: the fields of `splits.SplitReport`."""

SPLIT_TABLES = ("folds", "split_report", "test", "train")
"""The tables of a split: `train` and `test`, or `folds`; and the report."""
