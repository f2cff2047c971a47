"""The tables that are read and written: where they lie, and the schemas of those that do not depend on the metrics."""

from __future__ import annotations

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
        StructField("result", StringType()),
        StructField("reason", StringType()),
        StructField("false_alarm_rate", DoubleType()),
        StructField("false_alarm_rate_year", DoubleType()),
    ]
)
"""One row per gate and model; `result` is `pass`, `warn` or `fail`."""

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
"""One row per split, or per fold: the fields of `splits.SplitReport`."""

SPLIT_TABLES = ("folds", "split_report", "test", "train")
"""The tables of a split: `train` and `test`, or `folds`, and the report."""
