"""The two sides of a split, and what leaks from one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from spark_recmetrics.columns import Columns
from spark_recmetrics.errors import DataError
from spark_recmetrics.inputs.spark import column_of
from spark_recmetrics.splits.times_spark import Clock
from spark_recmetrics.storage import actions
from spark_recmetrics.text import printable

SIDE, FOLD = "side", "fold"
"""The columns that say where a row has landed."""

TRAIN, TEST, LEFT_OUT = "train", "test", "left_out"
"""The values of SIDE."""

TIME, KEPT, PLACE, N_OF_USER = "time of the row", "row is kept", "place of the row", "rows of the user"
"""Names of columns that no caller's table has by accident."""

BITS = 53
"""How many bits of a hash are looked at."""


@dataclass(frozen=True)
class SplitReport:
    """What lies on the two sides of a split, and what leaks from one to the other.

    Args:
        method: The call, such as `leave_n_out(n=1, by='time')`.
        fold: The fold that is the test side, from 0; None where there are no folds.
        cut: The cut in time of a temporal split: of instants in UTC.
        n_rows: Rows of the input.
        n_train_rows: Rows in train.
        n_test_rows: Rows in test.
        n_left_out_rows: Rows on neither side, since their user or item has too few.
        n_train_users: Users with a row in train.
        n_test_users: Users with a row in test.
        n_train_items: Items with a row in train.
        n_test_items: Items with a row in test.
        n_cold_users: Users in test and not in train.
        n_cold_items: Items in test and not in train.
        n_short_users: Users with too few rows for a row in test, where each user is split; all their rows are in train.
        n_future_users: Users with a row in train that is later than their first one in test. None without times.
        max_train_time: The last time in train: of instants in UTC. None without times.
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
        until, since = f", until {self.max_train_time}", f", from {self.min_test_time}"
        of_fold = "" if self.fold is None else f"fold {self.fold}, "
        return (
            f"{of_fold}train: {self.n_train_rows} rows, {self.n_train_users} users, {self.n_train_items} items"
            f"{until if self.max_train_time else ''}\n"
            f"{of_fold}test: {self.n_test_rows} rows, {self.n_test_users} users, {self.n_test_items} items"
            f"{since if self.min_test_time else ''}"
        )

    @property
    def warnings(self) -> list[str]:
        """One line per thing worth knowing."""
        of_fold = "" if self.fold is None else f"fold {self.fold}: "
        found = (
            (self.n_left_out_rows, f"of {self.n_rows} rows are on neither side, since their user or item has too few"),
            (self.n_short_users, f"of {self.n_train_users} users have too few rows for one in test: all theirs are in train"),
            (self.n_cold_users, f"of {self.n_test_users} users in test have no row in train"),
            (self.n_cold_items, f"of {self.n_test_items} items in test have no row in train"),
            (self.n_future_users, f"of {self.n_test_users} users in test have a row in train later than their first in test"),
        )
        return [f"{of_fold}{n} {text}" for n, text in found if n]


@dataclass(frozen=True)
class Table:
    """The caller's table, looked through.

    Args:
        frame: The caller's columns, KEPT, and TIME where there are times.
        columns: Names of the user and item columns.
        time: Name of the column of times.
        clock: How these are read.
        cut: The cut that a share of the rows asks for.
    """

    frame: DataFrame
    columns: Columns
    time: str | None
    clock: Clock | None
    cut: int | None = None

    @property
    def user(self) -> Column:
        """The user of a row."""
        return column_of(self.frame, self.columns.user)

    @property
    def item(self) -> Column:
        """The item of a row."""
        return column_of(self.frame, self.columns.item)

    def bits(self, seed: int, *, of_user: bool = False) -> Column:
        """A number of BITS bits that only the ids and the seed decide. An id is read as text: its type does not matter."""
        ids = [self.user] if of_user else [self.user, self.item]
        hashed = F.xxhash64(*(id_.cast("string") for id_ in ids), F.lit(seed).cast("bigint"))
        return F.shiftrightunsigned(hashed, 64 - BITS)

    def ranked(self, first: Sequence[Column]) -> DataFrame:
        """With the place of each row among those of its user that are kept, from 1, and how many these are.

        Raises:
            DataError: Two columns have one name.
        """
        # Rows may be equal in user and item, too, and yet the order must be total, wherever their other columns stand.
        known = {self.columns.user, self.columns.item}
        fields = sorted(self.frame.drop(TIME, KEPT).schema.fields, key=lambda field: field.name)
        _refuse_twins([field.name for field in fields])
        rest = [_sortable(column_of(self.frame, field.name), field.dataType) for field in fields if field.name not in known]
        of_user = Window.partitionBy(self.user)
        # An item is read as text, as by `bits`: 9 stands behind 10 whatever the type of the ids.
        order = of_user.orderBy(F.col(KEPT).desc(), *first, self.item.cast("string").desc(), *rest)
        counted = F.count_if(F.col(KEPT)).over(of_user)
        return self.frame.withColumns({PLACE: F.row_number().over(order), N_OF_USER: counted})

    def sides(self, frame: DataFrame, is_test: Column) -> DataFrame:
        """The caller's columns, and SIDE."""
        side = F.when(~F.col(KEPT), LEFT_OUT).when(is_test, TEST).otherwise(TRAIN)
        return frame.withColumn(SIDE, side).drop(TIME, KEPT, PLACE, N_OF_USER)


@dataclass(frozen=True, eq=False)
class Split:
    """One train and one test side. Lazy: what is used is computed.

    Args:
        rows: The rows of the input with their columns, and `side`: `train`, `test`, or `left_out` for those that a minimum
            leaves out.
        method: The call, such as `leave_n_out(n=1, by='time')`.
    """

    rows: DataFrame
    method: str
    _table: Table
    _cut: int | None = None
    _per_user: bool = False

    @property
    def train(self) -> DataFrame:
        """The rows to train on, with the columns of the input."""
        return self.rows.where(F.col(SIDE) == TRAIN).drop(SIDE)

    @property
    def test(self) -> DataFrame:
        """The rows to test with, with the columns of the input."""
        return self.rows.where(F.col(SIDE) == TEST).drop(SIDE)

    @cached_property
    def report(self) -> SplitReport:
        """What lies on the two sides. It is computed at its first use, in one pass for users and one for items."""
        (found,) = _reports(self.rows, self._table, None)
        return _report(found, self._table, self.method, cut=self._cut, per_user=self._per_user)

    @property
    def reports(self) -> tuple[SplitReport, ...]:
        """The report, as Folds have several."""
        return (self.report,)


@dataclass(frozen=True, eq=False)
class Folds:
    """The rows in groups, each of which is the test side once. Lazy, as a Split is.

    Args:
        rows: The rows of the input with their columns, and `fold`, from 0; null for rows that a minimum leaves out.
        method: The call.
        n_folds: How many folds there are.
    """

    rows: DataFrame
    method: str
    n_folds: int
    _table: Table

    @property
    def folds(self) -> tuple[tuple[DataFrame, DataFrame], ...]:
        """Train and test of each fold, with the columns of the input."""
        return tuple(
            (self.rows.where(F.col(FOLD) != fold).drop(FOLD), self.rows.where(F.col(FOLD) == fold).drop(FOLD))
            for fold in range(self.n_folds)
        )

    @cached_property
    def reports(self) -> tuple[SplitReport, ...]:
        """What lies on the two sides of each fold, computed together."""
        found = _reports(self.rows, self._table, self.n_folds)
        return tuple(_report(one, self._table, self.method, fold=one["part"]) for one in found)


# The report ----------------------------------------------------------------------------------------------------------------


def _reports(rows: DataFrame, table: Table, n_folds: int | None) -> list[dict[str, Any]]:
    """By fold, what lies on the two sides: one row for each."""
    time = table.clock.number(column_of(rows, table.time)) if table.clock and table.time else F.lit(None).cast("bigint")
    group = column_of(rows, SIDE if n_folds is None else FOLD)

    def of(name: str) -> DataFrame:
        ids = rows.groupBy(column_of(rows, name).alias("id"), group.alias("group"))
        counted = ids.agg(F.count(F.lit(1)).alias("n"), F.min(time).alias("first"), F.max(time).alias("last"))
        if n_folds is None:
            counted = counted.withColumn("part", F.lit(0))
            in_train, in_test = F.col("group") == TRAIN, F.col("group") == TEST
        else:
            counted = counted.withColumn("part", F.explode(F.array(*(F.lit(fold) for fold in range(n_folds)))))
            in_train, in_test = F.col("group") != F.col("part"), F.col("group") == F.col("part")
        return counted.groupBy("part", "id").agg(
            F.sum(F.when(in_train, F.col("n"))).alias("train"),
            F.sum(F.when(in_test, F.col("n"))).alias("test"),
            F.max(F.when(in_train, F.col("last"))).alias("last"),
            F.min(F.when(in_test, F.col("first"))).alias("first"),
            F.sum("n").alias("all"),
        )

    cold = F.count_if(F.col("train").isNull() & F.col("test").isNotNull())
    users = (
        of(table.columns.user)
        .groupBy("part")
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
        of(table.columns.item)
        .groupBy("part")
        .agg(F.count("train").alias("n_train_items"), F.count("test").alias("n_test_items"), cold.alias("n_cold_items"))
    )
    found = [row.asDict() for row in actions.collect_rows(users.join(items, "part"))]
    return sorted(found, key=lambda one: int(one["part"]))


def _report(
    found: dict[str, Any], table: Table, method: str, *, fold: int | None = None, cut: int | None = None, per_user: bool = False
) -> SplitReport:
    clock = table.clock
    counts: dict[str, Any] = {key: n for key, n in found.items() if key.startswith("n_")}
    counts["n_left_out_rows"] = found["n_rows"] - found["n_train_rows"] - found["n_test_rows"]
    counts["n_short_users"] = found["n_short_users"] if per_user else 0
    counts["n_future_users"] = found["n_future_users"] if clock else None
    counts |= {key: clock.text(found[key]) if clock else None for key in ("max_train_time", "min_test_time")}
    return SplitReport(method=method, fold=fold, cut=clock.text(cut) if clock else None, **counts)


def _refuse_twins(names: Sequence[str]) -> None:
    twins = [name for name in names if sum(name.lower() == other.lower() for other in names) > 1]
    if twins:
        raise DataError(
            f"rows: expected columns with different names in any case, found {printable(', '.join(twins))}: rename or drop one"
        )


def _sortable(column: Column, kind: DataType) -> Column:
    return column if _has_order(kind) else F.to_json(F.struct(column))


def _has_order(kind: DataType) -> bool:
    if isinstance(kind, MapType) or kind.typeName() in ("variant", "interval"):
        return False
    if isinstance(kind, ArrayType):
        return _has_order(kind.elementType)
    return all(_has_order(field.dataType) for field in kind.fields) if isinstance(kind, StructType) else True
