"""The methods of splitting. No random numbers are drawn, and every order is total, so that a split is reproducible."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.columns import Columns
from spark_recmetrics.errors import ConfigError, check_argument
from spark_recmetrics.metrics.registry import checked_integer
from spark_recmetrics.splits.interactions_spark import (
    BITS,
    FOLD,
    KEPT,
    N_OF_USER,
    POSITION,
    TIME,
    Interactions,
    read_interactions,
)
from spark_recmetrics.splits.split_spark import Folds, Split
from spark_recmetrics.text import did_you_mean


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
    """Split all users at one time: `train: t < cut`, `test: t >= cut`.

    With `test_share` the cut is the smallest time of a row such that the rows at this time or later are at most `test_share` of
    the kept rows. Rows with equal times stay on the same side, so there may be fewer. The cut is exact, not estimated.

    Args:
        rows: One row per interaction, with user, item and time.
        cut: The time of the cut: an integer if the times are integers, a date if they are dates, and otherwise a date or a
            time, as an object or as a string in ISO 8601. Set either this or `test_share`.
        test_share: Share of the rows in test, between 0 and 1, rounded to six digits.
        time: Name of the time column: timestamps with or without a time zone, dates, or integers in any unit.
        zone: Name of the time zone of a cut without one, and of timestamps without one, which require it.
        columns: Names of the user and item columns.
        min_user_rows: Users with fewer rows are left out. Both minima refer to the rows of the input.
        min_item_rows: Items with fewer rows are left out.

    Returns:
        The split, whose sides are computed when they are used.

    Raises:
        ConfigError: The cut does not fit the type of the times, has no time zone, or does not exist or is ambiguous there, when
            clocks are changed.
        DataError: A column is missing or has the wrong type, a user, item or time is null, there is no row, or more rows than
            `test_share` are at the last time.

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
    table = read_interactions(rows, columns, time, min_user_rows=min_user_rows, min_item_rows=min_item_rows, zone=zone)
    clock = table.clock
    if clock is None:
        raise ConfigError("time: expected the name of a column, found None")
    if clock.kind == "wall" and zone is None:
        raise ConfigError(f"zone: expected the time zone of column {time!r}, whose times have none, found none")
    if share is None:
        number = clock.cut(cut)
        table.check()
        method = f"temporal(cut={clock.text(number)!r})"
    else:
        number, method = table.cut(share), f"temporal(test_share={test_share})"
    return Split(table.sides(table.frame, F.col(TIME) >= number), method, table, number)


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
    """Test on n rows of each user: the last ones, or a choice by a seeded hash.

    A user with more than n rows has exactly n in test. Other users have all their rows in train and are reported as
    `n_short_users`. If times are equal, the rows with the greatest item, compared as strings, are the last.

    Args:
        rows: One row per interaction, with user, item and, for `by="time"`, a time.
        n: Number of test rows per user.
        by: `time` for the last rows, `hash` for the first rows by a hash of user, item and seed.
        seed: Another seed gives another choice by hash.
        time: Name of the time column, as for `temporal`. None: `timestamp` for `by="time"`; for `by="hash"` times are not used.
        columns: Names of the user and item columns.
        min_user_rows: Users with fewer rows are left out.
        min_item_rows: Items with fewer rows are left out.

    Returns:
        The split, whose sides are computed when they are used.

    Raises:
        ConfigError: An option has no such value.
        DataError: A column is missing or has the wrong type, a user, item or time is null, or there is no row.

    Example:
        >>> ratings = spark.createDataFrame(
        ...     [("ann", "x", 1), ("ann", "y", 2), ("ann", "z", 2), ("bob", "x", 5)],
        ...     "user_id string, item_id string, timestamp bigint",
        ... )
        >>> split = leave_n_out(ratings)
        >>> [(row.user_id, row.item_id) for row in split.test.collect()], split.report.n_short_users
        ([('ann', 'z')], 1)
    """
    n = checked_integer(n, "n")
    if by not in ("time", "hash"):
        raise ConfigError(f"by: expected one of time, hash, found {by!r}{did_you_mean(str(by), ('time', 'hash'))}")
    seed = _seed(seed)
    time = "timestamp" if time is None and by == "time" else time
    table = _checked(rows, columns, time, min_user_rows=min_user_rows, min_item_rows=min_item_rows)
    ranked = table.ranked([F.col(TIME).desc()] if by == "time" else [table.bits(seed).asc()])
    method = f"leave_n_out(n={n}, by={by!r}{'' if by == 'time' else f', seed={seed}'})"
    is_test = (F.col(POSITION) <= n) & (F.col(N_OF_USER) > n)
    return Split(table.sides(ranked, is_test), method, table, _per_user=True)


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
    """Test on one row of each user: `leave_n_out` with `n=1`."""
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
    """Test on a share of the rows, chosen by a seeded hash of user and item.

    Over all rows, each row is chosen independently: the test side has the share on average, and rows with the same user and
    item stay together. Per user, exactly `floor(test_share * n)` of the n rows are in test; users with 0 are reported as
    `n_short_users`.

    Args:
        rows: One row per interaction, with user and item.
        test_share: Share of the rows in test, between 0 and 1, rounded to six digits.
        seed: Another seed gives another split.
        per_user: Whether the share applies to each user.
        time: Name of the time column, for the report. None: times are not used.
        columns: Names of the user and item columns.
        min_user_rows: Users with fewer rows are left out.
        min_item_rows: Items with fewer rows are left out.

    Returns:
        The split, whose sides are computed when they are used.

    Raises:
        ConfigError: An option has no such value.
        DataError: A column is missing or has the wrong type, a user, item or time is null, or there is no row.

    Example:
        >>> ratings = spark.createDataFrame([(u, i) for u in range(3) for i in range(10)], "user_id int, item_id int")
        >>> report = random(ratings, test_share=0.3, per_user=True).report
        >>> report.n_train_rows, report.n_test_rows, report.n_cold_users
        (21, 9, 0)
    """
    share, seed, per_user = checked_share(test_share), _seed(seed), _switch(per_user, "per_user")
    table = _checked(rows, columns, time, min_user_rows=min_user_rows, min_item_rows=min_item_rows)
    method = f"random(test_share={test_share}, seed={seed}, per_user={per_user})"
    if not per_user:
        is_test = table.bits(seed) < share.numerator * 2**BITS // share.denominator
        return Split(table.sides(table.frame, is_test), method, table)
    is_test = F.col(POSITION).cast("bigint") * share.denominator <= F.col(N_OF_USER) * share.numerator
    return Split(table.sides(table.ranked([table.bits(seed).asc()]), is_test), method, table, _per_user=True)


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
    """Assign rows to folds by a seeded hash of user and item. Each fold is the test side once.

    Over all rows, each row is assigned independently, and rows with the same user and item are in the same fold. Per user, rows
    are assigned in turn, in the order of the hash, so that the folds of a user differ by at most one row.

    Args:
        rows: One row per interaction, with user and item.
        n_folds: Number of folds, at least 2.
        seed: Another seed gives other folds.
        per_user: Whether the rows of each user are distributed evenly.
        time: Name of the time column, for the reports. None: times are not used.
        columns: Names of the user and item columns.
        min_user_rows: Users with fewer rows are left out.
        min_item_rows: Items with fewer rows are left out.

    Returns:
        The folds, which are computed when they are used.

    Raises:
        ConfigError: An option has no such value.
        DataError: A column is missing or has the wrong type, a user, item or time is null, or there is no row.

    Example:
        >>> ratings = spark.createDataFrame([(u, i) for u in range(3) for i in range(4)], "user_id int, item_id int")
        >>> folds = k_fold(ratings, n_folds=2, per_user=True)
        >>> [(report.n_train_rows, report.n_test_rows) for report in folds.reports]
        [(6, 6), (6, 6)]
    """
    n_folds, seed, per_user = checked_integer(n_folds, "n_folds"), _seed(seed), _switch(per_user, "per_user")
    if n_folds < 2:
        raise ConfigError(f"n_folds: expected an integer of at least 2, found {n_folds}")
    table = _checked(rows, columns, time, min_user_rows=min_user_rows, min_item_rows=min_item_rows)
    frame, number = table.frame, table.bits(seed)
    if per_user:
        # Users start with different folds. Otherwise the few rows of short users would all be in the first folds.
        number, frame = F.col(POSITION) + table.bits(seed, user_only=True), table.ranked([table.bits(seed).asc()])
    fold = F.when(F.col(KEPT), F.pmod(number, F.lit(n_folds)).cast("int"))
    assigned = frame.withColumn(FOLD, fold).drop(TIME, KEPT, POSITION, N_OF_USER)
    return Folds(assigned, f"k_fold(n_folds={n_folds}, seed={seed}, per_user={per_user})", n_folds, table)


def _checked(rows: DataFrame, columns: Columns, time: str | None, *, min_user_rows: int, min_item_rows: int) -> Interactions:
    table = read_interactions(rows, columns, time, min_user_rows=min_user_rows, min_item_rows=min_item_rows)
    table.check()
    return table


def checked_share(value: object) -> Fraction:
    """The share as a fraction, because 0.29 of 100 rows are 29, but less with floats."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ConfigError(f"test_share: expected a number above 0 and below 1, found {value!r}")
    share = Fraction(value).limit_denominator(1_000_000)
    check_argument("test_share", value, "a share from 1e-06 to 1 - 1e-06", valid=0 < share < 1)
    return share


def _switch(value: object, name: str) -> bool:
    # A string such as "no" would be true.
    if not isinstance(value, bool):
        raise ConfigError(f"{name}: expected True or False, found {value!r}")
    return value


def _seed(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ConfigError(f"seed: expected a 64-bit integer, found {value!r}")
    return value
