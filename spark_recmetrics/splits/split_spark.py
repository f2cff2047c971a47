"""The result of a split: its sides or folds, its report, and its published tables."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.errors import DataError, check_argument
from spark_recmetrics.inputs.spark import column_of
from spark_recmetrics.runs import history_spark as history
from spark_recmetrics.runs.identity import Run
from spark_recmetrics.splits.interactions_spark import FOLD, SIDE, TEST, TRAIN, Interactions
from spark_recmetrics.storage import actions
from spark_recmetrics.storage.locations import Output
from spark_recmetrics.storage.table_schemas import ATTEMPT, RUN_COLUMNS, SPLIT_REPORT


@dataclass(frozen=True)
class SplitReport:
    """Sizes of the two sides of a split, and signs of leakage between them.

    Args:
        method: The call, such as `leave_n_out(n=1, by='time')`.
        fold: The fold that is the test side, from 0; None if there are no folds.
        cut: The cut of a temporal split; timestamps are in UTC.
        n_rows: Rows of the input.
        n_train_rows: Rows in train.
        n_test_rows: Rows in test.
        n_left_out_rows: Rows on neither side, because their user or item has too few rows.
        n_train_users: Users in train.
        n_test_users: Users in test.
        n_train_items: Items in train.
        n_test_items: Items in test.
        n_cold_users: Users in test that are not in train.
        n_cold_items: Items in test that are not in train.
        n_short_users: Users with too few rows for a test row, if each user is split; all their rows are in train.
        n_future_users: Users with a train row later than their first test row. None without times.
        max_train_time: The last time in train; timestamps are in UTC. None without times.
        min_test_time: The first time in test.
    """

    method: str
    fold: int | None
    cut: str | None
    n_rows: int
    n_train_rows: int
    n_test_rows: int
    n_left_out_rows: int
    n_train_users: int
    n_test_users: int
    n_train_items: int
    n_test_items: int
    n_cold_users: int
    n_cold_items: int
    n_short_users: int
    n_future_users: int | None
    max_train_time: str | None
    min_test_time: str | None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    def __str__(self) -> str:
        fold = "" if self.fold is None else f"fold {self.fold}, "
        until = f", until {self.max_train_time}" if self.max_train_time else ""
        since = f", from {self.min_test_time}" if self.min_test_time else ""
        return (
            f"{fold}train: {self.n_train_rows} rows, {self.n_train_users} users, {self.n_train_items} items{until}\n"
            f"{fold}test: {self.n_test_rows} rows, {self.n_test_users} users, {self.n_test_items} items{since}"
        )

    @property
    def warnings(self) -> list[str]:
        """One line per possible problem."""
        fold = "" if self.fold is None else f"fold {self.fold}: "
        counts = (
            (self.n_left_out_rows, f"of {self.n_rows} rows are on neither side, because their user or item has too few rows"),
            (self.n_short_users, f"of {self.n_train_users} users have too few rows for a test row: all are in train"),
            (self.n_cold_users, f"of {self.n_test_users} users in test have no row in train"),
            (self.n_cold_items, f"of {self.n_test_items} items in test have no row in train"),
            (self.n_future_users, f"of {self.n_test_users} users in test have a train row later than their first test row"),
        )
        return [f"{fold}{n} {text}" for n, text in counts if n]


@dataclass(frozen=True, eq=False)
class Split:
    """A train side and a test side, which are computed when they are used.

    Args:
        rows: The rows of the input, and `side`: `train`, `test`, or `left_out` for users or items with too few rows.
        method: The call, such as `leave_n_out(n=1, by='time')`.
    """

    rows: DataFrame
    method: str
    _table: Interactions
    _cut: int | None = None
    _per_user: bool = False

    @property
    def train(self) -> DataFrame:
        """The train rows, with the columns of the input."""
        return self.rows.where(F.col(SIDE) == TRAIN).drop(SIDE)

    @property
    def test(self) -> DataFrame:
        """The test rows, with the columns of the input."""
        return self.rows.where(F.col(SIDE) == TEST).drop(SIDE)

    @cached_property
    def report(self) -> SplitReport:
        """The report. It is computed at its first use, in one pass for users and one for items."""
        (counts,) = _counts(self.rows, self._table, None)
        n_short_users = counts["n_short_users"] if self._per_user else 0
        return _report(self._table, counts, self._cut, method=self.method, fold=None, n_short_users=n_short_users)

    @property
    def reports(self) -> tuple[SplitReport, ...]:
        """The report, as a tuple like that of `Folds`."""
        return (self.report,)


@dataclass(frozen=True, eq=False)
class Folds:
    """Folds. Each is the test side once. They are computed when they are used.

    Args:
        rows: The rows of the input, and `fold`, from 0; null for users or items with too few rows.
        method: The call.
        n_folds: The number of folds.
    """

    rows: DataFrame
    method: str
    n_folds: int
    _table: Interactions

    @property
    def folds(self) -> tuple[tuple[DataFrame, DataFrame], ...]:
        """Train and test of each fold, with the columns of the input."""
        return tuple(
            (self.rows.where(F.col(FOLD) != fold).drop(FOLD), self.rows.where(F.col(FOLD) == fold).drop(FOLD))
            for fold in range(self.n_folds)
        )

    @cached_property
    def reports(self) -> tuple[SplitReport, ...]:
        """The report of each fold, computed together."""
        folds = _counts(self.rows, self._table, self.n_folds)
        return tuple(_report(self._table, fold, method=self.method, fold=fold["fold"], n_short_users=0) for fold in folds)


def _counts(rows: DataFrame, table: Interactions, n_folds: int | None) -> list[dict[str, Any]]:
    """The counts of each fold, or of the only split as fold 0."""
    cold = F.count_if(F.col("train").isNull() & F.col("test").isNotNull())
    users = (
        _by_id(rows, table, table.columns.user, n_folds)
        .groupBy("fold")
        .agg(
            F.coalesce(F.sum("train"), F.lit(0)).alias("n_train_rows"),
            F.coalesce(F.sum("test"), F.lit(0)).alias("n_test_rows"),
            F.sum("all").alias("n_rows"),
            F.count("train").alias("n_train_users"),
            F.count("test").alias("n_test_users"),
            cold.alias("n_cold_users"),
            F.count_if(F.col("train").isNotNull() & F.col("test").isNull()).alias("n_short_users"),
            F.count_if(F.col("last") > F.col("first")).alias("n_future_users"),
            F.max("last").alias("max_train_time"),
            F.min("first").alias("min_test_time"),
        )
    )
    items = (
        _by_id(rows, table, table.columns.item, n_folds)
        .groupBy("fold")
        .agg(F.count("train").alias("n_train_items"), F.count("test").alias("n_test_items"), cold.alias("n_cold_items"))
    )
    counts = [row.asDict() for row in actions.collect_rows(users.join(items, "fold"))]
    return sorted(counts, key=lambda fold: int(fold["fold"]))


def _by_id(rows: DataFrame, table: Interactions, name: str, n_folds: int | None) -> DataFrame:
    """For each fold and user, or item: the rows in train and in test, the last train time and the first test time."""
    time = table.clock.number(column_of(rows, table.time)) if table.clock and table.time else F.lit(None).cast("bigint")
    group = column_of(rows, SIDE if n_folds is None else FOLD)
    ids = rows.groupBy(column_of(rows, name).alias("id"), group.alias("group"))
    counts = ids.agg(F.count(F.lit(1)).alias("n"), F.min(time).alias("first"), F.max(time).alias("last"))
    fold: Column
    if n_folds is None:
        fold, in_train, in_test = F.lit(0), F.col("group") == TRAIN, F.col("group") == TEST
    else:
        fold = F.explode(F.array(*(F.lit(n) for n in range(n_folds))))
        in_train, in_test = F.col("group") != F.col("fold"), F.col("group") == F.col("fold")
    return (
        counts.withColumn("fold", fold)
        .groupBy("fold", "id")
        .agg(
            F.sum(F.when(in_train, F.col("n"))).alias("train"),
            F.sum(F.when(in_test, F.col("n"))).alias("test"),
            F.max(F.when(in_train, F.col("last"))).alias("last"),
            F.min(F.when(in_test, F.col("first"))).alias("first"),
            F.sum("n").alias("all"),
        )
    )


def _report(table: Interactions, counts: dict[str, Any], cut: int | None = None, **fields: Any) -> SplitReport:
    """The report with these counts, cut and fields. Times are strings."""
    clock = table.clock
    times = {"cut": cut, "max_train_time": counts["max_train_time"], "min_test_time": counts["min_test_time"]}
    return SplitReport(
        **{key: n for key, n in counts.items() if key.startswith("n_")}
        | {"n_left_out_rows": counts["n_rows"] - counts["n_train_rows"] - counts["n_test_rows"]}
        | {"n_future_users": counts["n_future_users"] if clock else None}
        | {key: clock.text(time) if clock else None for key, time in times.items()}
        | fields
    )


def publish(split: Split | Folds, output: Output, run: Run = Run()) -> dict[str, str]:
    """Publish a split as tables in one step: `train` and `test`, or `folds` with a column `fold`, and `split_report`.

    If the job dies before the commit, the previous split stays. A repeated run replaces its own rows.
    `read_history(spark, output, table="train")` reads them. Rows that are left out are in no table.

    Args:
        split: The split. Its rows are kept in memory or on disk while they are published, so that all tables agree.
        output: Where the tables go, and their format.
        run: The run that publishes them.

    Returns:
        Path or name of each table.

    Raises:
        ConfigError: An argument is of another type.
        DataError: A side has no rows, or the rows have a column that identifies the run in published tables.
        PublishError: The output contains something else, or the tables cannot be written. Nothing has become visible then.

    Example:
        >>> import tempfile
        >>> from spark_recmetrics.runs.history_spark import read_history
        >>> from spark_recmetrics.splits import leave_one_out
        >>> ratings = spark.createDataFrame([("ann", 1), ("ann", 2), ("bob", 1)], "user_id string, item_id int")
        >>> output = Output(path=tempfile.mkdtemp())
        >>> sorted(publish(leave_one_out(ratings, by="hash"), output, Run(as_of="2026-11-28")))
        ['split_report', 'test', 'train']
        >>> read_history(spark, output, table="test").select("user_id").collect()
        [Row(user_id='ann')]
    """
    check_argument("split", split, "the result of a function of srm.splits", valid=isinstance(split, Split | Folds))
    check_argument("output", output, "srm.Output(...)", valid=isinstance(output, Output))
    check_argument("run", run, "srm.Run(...)", valid=isinstance(run, Run))
    names = {name.lower() for name in split.rows.columns}
    taken = [name for name in (*RUN_COLUMNS, ATTEMPT) if name in names]
    if taken:
        raise DataError(f"rows: expected no column {', '.join(taken)}, which published tables have: rename it first")
    actions.materialize(split.rows)
    try:
        for report in split.reports:
            if not (report.n_train_rows and report.n_test_rows):
                fold = "" if report.fold is None else f" of fold {report.fold}"
                raise DataError(
                    f"{report.method}: expected rows on both sides{fold}, found {report.n_train_rows} in train and "
                    f"{report.n_test_rows} in test: nothing was published; set another cut or share"
                )
        reports = [astuple(report) for report in split.reports]
        tables = {"split_report": split.rows.sparkSession.createDataFrame(reports, SPLIT_REPORT)}
        if isinstance(split, Folds):
            tables["folds"] = split.rows.where(F.col(FOLD).isNotNull())
        else:
            tables |= {"train": split.train, "test": split.test}
        return history.publish(tables, output, run)
    finally:
        actions.release(split.rows)
