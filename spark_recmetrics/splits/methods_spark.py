"""The methods of splitting. Nothing is drawn, and every order is total."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType

from spark_recmetrics.columns import Columns
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.inputs.spark import column_of, id_column, typed_column
from spark_recmetrics.metrics.registry import whole_number
from spark_recmetrics.request.arguments import check_frames
from spark_recmetrics.runs import history_spark as history
from spark_recmetrics.runs.identity import Run
from spark_recmetrics.splits.split_spark import BITS, FOLD, KEPT, N_OF_USER, PLACE, SIDE, TIME, Folds, Split, SplitReport, Table
from spark_recmetrics.splits.times_spark import TIME_TYPES, clock_of
from spark_recmetrics.storage import actions, read
from spark_recmetrics.storage.locations import Output
from spark_recmetrics.storage.schemas import ATTEMPT, RUN_COLUMNS, SPLIT_REPORT
from spark_recmetrics.text import did_you_mean

__all__ = ["Folds", "Split", "SplitReport", "k_fold", "leave_n_out", "leave_one_out", "publish", "random", "temporal"]

_FINEST = 1_000_000
"""Shares are read in parts of one million."""

_ID, _N = "id of the row", "rows of the id"


def temporal(
    rows: DataFrame,
    *,
    cut: date | str | int | None = None,
    test_share: float | None = None,
    time: str = "timestamp",
    zone: str | None = None,
    columns: Columns = Columns(),
    min_user_rows: int = 1,
    min_item_rows: int = 1,
) -> Split:
    """Train before a moment, test from it on, for all users: `train: t < cut`, `test: t >= cut`.

    With `test_share` the cut is the smallest time of a row such that the rows at it or later are at most `test_share` of all
    that are kept. Rows of one time stay on one side, so there may be fewer; the cut is exact, not estimated.

    Args:
        rows: One row per interaction, with user, item and time.
        cut: The moment: a whole number where the times are numbers, a date where they are dates, and otherwise a date or a
            time, as an object or as text of ISO 8601. Either this or `test_share` is given.
        test_share: Share of the rows, above 0 and below 1, read to six digits.
        time: Name of the column of times: timestamps with or without a zone, dates, or whole numbers of any unit.
        zone: Name of the time zone of a cut that is written without one, and of timestamps that have none, which need it.
        columns: Names of the user and item columns.
        min_user_rows: Users with fewer rows are left out. Both minima count the rows as they come, once.
        min_item_rows: Items with fewer rows are left out.

    Raises:
        ConfigError: The cut is of another kind than the times, has no zone, or is one that the clocks of the zone skip
            or show twice.
        DataError: A column is missing or has a type that cannot serve, a user, item or time is null, there is no row,
            or the rows of the last time are more than `test_share`.

    Example:
        >>> ratings = spark.createDataFrame(
        ...     [("ann", "x", 499), ("bob", "x", 500), ("bob", "y", 501)], "user_id string, item_id string, timestamp bigint"
        ... )
        >>> split = temporal(ratings, cut=500)
        >>> [row.timestamp for row in split.train.collect()], sorted(row.timestamp for row in split.test.collect())
        ([499], [500, 501])
        >>> temporal(ratings, test_share=0.4).report.cut
        '501'
    """
    if (cut is None) == (test_share is None):
        raise ConfigError(f"expected either cut or test_share, found {'neither' if cut is None else 'both'}")
    share = None if test_share is None else checked_share(test_share)
    table = _read(rows, columns, time, zone, (min_user_rows, min_item_rows), share=share, cut=cut, needs_zone=True)
    clock = table.clock
    if clock is None:
        raise ConfigError("time: expected the name of a column, found None")
    number = clock.cut(cut) if table.cut is None else table.cut
    told = f"cut={clock.text(number)!r}" if share is None else f"test_share={test_share}"
    return Split(table.sides(table.frame, F.col(TIME) >= number), f"temporal({told})", table, number)


def leave_n_out(
    rows: DataFrame,
    *,
    n: int = 1,
    by: Literal["time", "hash"] = "time",
    seed: int = 0,
    time: str | None = None,
    columns: Columns = Columns(),
    min_user_rows: int = 1,
    min_item_rows: int = 1,
) -> Split:
    """Test with n rows of each user: the last ones, or those that a seeded hash chooses.

    A user with more than n rows has exactly n in test. The rows of any other user stay in train; the report counts these users
    as `n_short_users`. Of rows of one time those with the greatest item, read as text, are the last.

    Args:
        rows: One row per interaction, with user, item and, by time, a time.
        n: Test rows of a user.
        by: `time` for the last rows, `hash` for the first ones by a hash of user, item and seed.
        seed: Another seed is another choice by hash.
        time: Name of the column of times, as for `temporal`. None: `timestamp` by time, and by hash no times are looked at.
        columns: Names of the user and item columns.
        min_user_rows: Users with fewer rows are left out.
        min_item_rows: Items with fewer rows are left out.

    Raises:
        ConfigError: An option has no such value.
        DataError: A column is missing or has a type that cannot serve, a user, item or time is null, or there is no row.

    Example:
        >>> ratings = spark.createDataFrame(
        ...     [("ann", "x", 1), ("ann", "y", 2), ("ann", "z", 2), ("bob", "x", 5)],
        ...     "user_id string, item_id string, timestamp bigint",
        ... )
        >>> split = leave_n_out(ratings)
        >>> [(row.user_id, row.item_id) for row in split.test.collect()], split.report.n_short_users
        ([('ann', 'z')], 1)
    """
    n = whole_number(n, "n")
    if by not in ("time", "hash"):
        raise ConfigError(f"by: expected one of time, hash, found {by!r}{did_you_mean(str(by), ('time', 'hash'))}")
    seed = _seed(seed)
    time = "timestamp" if time is None and by == "time" else time
    table = _read(rows, columns, time, None, (min_user_rows, min_item_rows))
    ranked = table.ranked([F.col(TIME).desc()] if by == "time" else [table.bits(seed).asc()])
    told = f"leave_n_out(n={n}, by={by!r}{'' if by == 'time' else f', seed={seed}'})"
    is_test = (F.col(PLACE) <= n) & (F.col(N_OF_USER) > n)
    return Split(table.sides(ranked, is_test), told, table, _per_user=True)


def leave_one_out(
    rows: DataFrame,
    *,
    by: Literal["time", "hash"] = "time",
    seed: int = 0,
    time: str | None = None,
    columns: Columns = Columns(),
    min_user_rows: int = 1,
    min_item_rows: int = 1,
) -> Split:
    """Test with one row of each user: `leave_n_out` with `n=1`."""
    minima = {"min_user_rows": min_user_rows, "min_item_rows": min_item_rows}
    return leave_n_out(rows, n=1, by=by, seed=seed, time=time, columns=columns, **minima)


def random(
    rows: DataFrame,
    *,
    test_share: float = 0.2,
    seed: int = 0,
    per_user: bool = False,
    time: str | None = None,
    columns: Columns = Columns(),
    min_user_rows: int = 1,
    min_item_rows: int = 1,
) -> Split:
    """Test with a share of the rows, chosen by a seeded hash of user and item.

    Globally each row is chosen by itself: the share is met on average, and rows that repeat a user and item stay together. Per
    user, it is exactly `floor(test_share * n)` of the n rows of each; users with 0 are counted as `n_short_users`.

    Args:
        rows: One row per interaction, with user and item.
        test_share: Share of the rows, above 0 and below 1, read to six digits.
        seed: Another seed is another split.
        per_user: Whether the share is one of the rows of each user.
        time: Name of the column of times, for the report. None: no times are looked at.
        columns: Names of the user and item columns.
        min_user_rows: Users with fewer rows are left out.
        min_item_rows: Items with fewer rows are left out.

    Raises:
        ConfigError: An option has no such value.
        DataError: A column is missing or has a type that cannot serve, a user, item or time is null, or there is no row.

    Example:
        >>> ratings = spark.createDataFrame([(u, i) for u in range(3) for i in range(10)], "user_id int, item_id int")
        >>> report = random(ratings, test_share=0.3, per_user=True).report
        >>> report.n_train_rows, report.n_test_rows, report.n_cold_users
        (21, 9, 0)
    """
    share, seed, per_user = checked_share(test_share), _seed(seed), _switch(per_user, "per_user")
    table = _read(rows, columns, time, None, (min_user_rows, min_item_rows))
    told = f"random(test_share={test_share}, seed={seed}, per_user={per_user})"
    if not per_user:
        is_test = table.bits(seed) < share.numerator * 2**BITS // share.denominator
        return Split(table.sides(table.frame, is_test), told, table)
    is_test = F.col(PLACE).cast("bigint") * share.denominator <= F.col(N_OF_USER) * share.numerator
    return Split(table.sides(table.ranked([table.bits(seed).asc()]), is_test), told, table, _per_user=True)


def k_fold(
    rows: DataFrame,
    *,
    n_folds: int = 5,
    seed: int = 0,
    per_user: bool = False,
    time: str | None = None,
    columns: Columns = Columns(),
    min_user_rows: int = 1,
    min_item_rows: int = 1,
) -> Folds:
    """Folds of the rows by a seeded hash of user and item, each of which is the test side once.

    Globally each row has its fold by itself, and rows that repeat a user and item share one. Per user, the rows are dealt out
    in the order of the hash, so the folds of a user differ by at most one row.

    Args:
        rows: One row per interaction, with user and item.
        n_folds: How many folds, at least 2.
        seed: Another seed is another split.
        per_user: Whether the rows of each user are dealt out.
        time: Name of the column of times, for the reports. None: no times are looked at.
        columns: Names of the user and item columns.
        min_user_rows: Users with fewer rows are left out.
        min_item_rows: Items with fewer rows are left out.

    Raises:
        ConfigError: An option has no such value.
        DataError: A column is missing or has a type that cannot serve, a user, item or time is null, or there is no row.

    Example:
        >>> ratings = spark.createDataFrame([(u, i) for u in range(3) for i in range(4)], "user_id int, item_id int")
        >>> found = k_fold(ratings, n_folds=2, per_user=True)
        >>> [(report.n_train_rows, report.n_test_rows) for report in found.reports]
        [(6, 6), (6, 6)]
    """
    n_folds, seed, per_user = whole_number(n_folds, "n_folds"), _seed(seed), _switch(per_user, "per_user")
    if n_folds < 2:
        raise ConfigError(f"n_folds: expected a whole number from 2, found {n_folds}")
    table = _read(rows, columns, time, None, (min_user_rows, min_item_rows))
    frame, chosen = table.frame, table.bits(seed)
    if per_user:
        # Users with few rows would all lie in the first folds if each began with the same.
        chosen, frame = F.col(PLACE) + table.bits(seed, of_user=True), table.ranked([table.bits(seed).asc()])
    fold = F.when(F.col(KEPT), F.pmod(chosen, F.lit(n_folds)).cast("int"))
    dealt = frame.withColumn(FOLD, fold).drop(TIME, KEPT, PLACE, N_OF_USER)
    return Folds(dealt, f"k_fold(n_folds={n_folds}, seed={seed}, per_user={per_user})", n_folds, table)


def publish(split: Split | Folds, output: Output, run: Run = Run()) -> dict[str, str]:
    """Publish a split as tables, all at once: `train` and `test`, or `folds` with a column `fold`, and `split_report`.

    A run that is killed leaves the split that was there before, or none, and a repeated run replaces its own rows, as
    `history.publish` does. `read_history(spark, output, table="train")` reads them back. Rows that are left out are in
    no table.

    Args:
        split: What to publish. Its rows are kept in memory or on disk meanwhile, so that all tables are made of the same.
        output: Where the tables go, and their format.
        run: The run that they are published under.

    Returns:
        Path or name of each table.

    Raises:
        DataError: There is no row on one of the sides, or the rows have a column that names the run in published tables.
        PublishError: Something else is there, or the tables cannot be written. Nothing has become visible then.

    Example:
        >>> import tempfile
        >>> from spark_recmetrics.runs.history_spark import read_history
        >>> ratings = spark.createDataFrame([("ann", 1), ("ann", 2), ("bob", 1)], "user_id string, item_id int")
        >>> place = Output(path=tempfile.mkdtemp())
        >>> sorted(publish(leave_one_out(ratings, by="hash"), place, Run(as_of="2026-11-28")))
        ['split_report', 'test', 'train']
        >>> read_history(spark, place, table="test").select("user_id").collect()
        [Row(user_id='ann')]
    """
    names = {name.lower() for name in split.rows.columns}
    taken = [name for name in (*RUN_COLUMNS, ATTEMPT) if name in names]
    if taken:
        raise DataError(f"rows: expected no column {', '.join(taken)}, which published tables have: rename it first")
    actions.materialize(split.rows)
    try:
        for report in split.reports:
            if not (report.n_train_rows and report.n_test_rows):
                of_fold = "" if report.fold is None else f" of fold {report.fold}"
                raise DataError(
                    f"{report.method}: expected rows on both sides{of_fold}, found {report.n_train_rows} in train and "
                    f"{report.n_test_rows} in test: nothing was published; give another cut or share"
                )
        spark = split.rows.sparkSession
        reports = [tuple(report.to_dict()[name] for name in SPLIT_REPORT.names) for report in split.reports]
        frames = {"folds": _dealt(split)} if isinstance(split, Folds) else {"train": split.train, "test": split.test}
        return history.publish({**frames, "split_report": spark.createDataFrame(reports, SPLIT_REPORT)}, output, run)
    finally:
        actions.release(split.rows)


def _dealt(split: Folds) -> DataFrame:
    return split.rows.where(F.col(FOLD).isNotNull())


# The table ------------------------------------------------------------------------------------------------------------------


@read.example_in_errors()
def _read(
    rows: DataFrame,
    columns: Columns,
    time: str | None,
    zone: str | None,
    minima: tuple[int, int],
    *,
    share: Fraction | None = None,
    cut: object = None,
    needs_zone: bool = False,
) -> Table:
    """The caller's table, after one job that looks for nulls, and for the cut if a share is given."""
    check_frames(columns, {"rows": rows})
    for key in ("user", "item"):
        id_column("rows", rows, key, getattr(columns, key))
    least = [whole_number(n, name) for n, name in zip(minima, ("min_user_rows", "min_item_rows"), strict=True)]
    taken = {name.lower() for name in rows.columns} & {SIDE, FOLD}
    if taken:
        raise DataError(f"rows: expected no column {', '.join(sorted(taken))}, which the split adds: rename it first")
    added, clock = {KEPT: F.lit(True)}, None
    if time is not None:
        expected = "a timestamp, a date or a whole number"
        column, kind = typed_column("rows", rows, "time", time, TIME_TYPES, expected)
        if needs_zone and zone is None and isinstance(kind, TimestampNTZType):
            raise ConfigError(f"zone: expected the time zone of column {time!r}, whose times have none, found none")
        clock = clock_of(kind, zone)
        if cut is not None:
            clock.cut(cut)  # what is wrong with it is told before a job is run
        added[TIME] = clock.number(column)
    frame = rows.withColumns(added)
    for key, n in ((columns.user, least[0]), (columns.item, least[1])):
        if n > 1:
            frame = _frequent(frame, key, n)
    names = {"user": columns.user, "item": columns.item, **({} if time is None else {"time": time})}
    nulls = [F.count_if(column_of(frame, name).isNull()).alias(key) for key, name in names.items()]
    counts = [F.count(F.lit(1)).alias("rows"), F.count_if(F.col(KEPT)).alias("kept"), *nulls]
    counted = frame.agg(*counts) if share is None else _with_cut(frame, counts, share)
    (found,) = actions.collect_rows(counted)
    wrong = [f"{found[key]} without a {key} ({name!r} is null)" for key, name in names.items() if found[key]]
    if wrong:
        raise DataError(f"rows: expected {', '.join(names)} in every row, found {', '.join(wrong)}: drop them first")
    if not found["kept"]:
        some = (
            f", found {found['rows']} rows, and in none enough of the user and item: lower the minima" if found["rows"] else ""
        )
        raise DataError(f"rows: expected at least one row{some or ', found none'}")
    if share is not None and found["cut"] is None:
        raise DataError(
            f"rows: expected at most {float(share):g} of the rows at the last time, found {found['last']} of {found['kept']}: "
            "give a larger test_share, or a cut"
        )
    return Table(frame, columns, time, clock, None if share is None else found["cut"])


def _frequent(frame: DataFrame, name: str, least: int) -> DataFrame:
    """With KEPT false where the user or item has too few rows."""
    keyed = frame.withColumn(_ID, column_of(frame, name))
    many = keyed.groupBy(_ID).agg(F.count(F.lit(1)).alias(_N)).where(F.col(_N) >= least)
    joined = keyed.join(many, _ID, "left")
    return joined.withColumn(KEPT, F.col(KEPT) & F.col(_N).isNotNull()).drop(_ID, _N)


def _with_cut(frame: DataFrame, counts: Sequence[Column], share: Fraction) -> DataFrame:
    """The counts, and the smallest time such that at most a share of the rows are at it or later.

    The different times, each with its number of rows, pass through one task in their order. Rows do not.
    """
    times = frame.groupBy(TIME).agg(*counts)
    together = Window.partitionBy(F.lit(0))
    later = together.orderBy(F.col(TIME).desc()).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    summed = times.withColumns({"later": F.sum("kept").over(later), "all": F.sum("kept").over(together)})
    fits = (F.col("kept") > 0) & (F.col("later") * share.denominator <= F.col("all") * share.numerator)
    return summed.agg(
        *(F.coalesce(F.sum(key), F.lit(0)).alias(key) for key in ("rows", "user", "item", "time", "kept")),
        F.min(F.when(fits, F.col(TIME))).alias("cut"),
        F.max_by("kept", F.when(F.col("kept") > 0, F.col(TIME))).alias("last"),
    )


# Options --------------------------------------------------------------------------------------------------------------------


def checked_share(value: object) -> Fraction:
    """The share as a fraction: 0.29 of 100 rows are 29, and as floats they are less.

    Raises:
        ConfigError: It is no number above 0 and below 1.

    Example:
        >>> checked_share(0.29)
        Fraction(29, 100)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ConfigError(f"test_share: expected a number above 0 and below 1, found {value!r}")
    share = Fraction(value).limit_denominator(_FINEST)
    if not 0 < share < 1:
        raise ConfigError(f"test_share: expected a share of at least {1 / _FINEST}, and as much below 1, found {value!r}")
    return share


def _switch(value: object, name: str) -> bool:
    # A text such as "no" is true for Python.
    if not isinstance(value, bool):
        raise ConfigError(f"{name}: expected True or False, found {value!r}")
    return value


def _seed(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ConfigError(f"seed: expected a whole number of 64 bits, found {value!r}")
    return value
