"""A table of interactions to split, with checked columns, and without nulls in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from spark_recmetrics.columns import Columns, checked_columns
from spark_recmetrics.errors import DataError
from spark_recmetrics.inputs.spark import check_frame, column_of, schema_of
from spark_recmetrics.metrics.registry import checked_integer
from spark_recmetrics.splits.times_spark import TIME_TYPES, Clock, clock_of
from spark_recmetrics.storage import actions, read
from spark_recmetrics.text import printable

SIDE, FOLD = "side", "fold"
"""The columns that a split adds: the side, or the fold, of a row."""

TRAIN, TEST, LEFT_OUT = "train", "test", "left_out"
"""The values of SIDE."""

TIME, KEPT, POSITION, N_OF_USER = "time of the row", "row is kept", "position of the row", "rows of the user"
_ID, _N = "id of the row", "rows of the id"
"""Names of temporary columns. No caller's table has them by accident."""

BITS = 53
"""The number of bits that are used of a hash."""


@dataclass(frozen=True)
class Interactions:
    """A table of interactions with checked columns. `frame` has the caller's columns, KEPT, and TIME if there are times."""

    frame: DataFrame
    columns: Columns
    time: str | None
    clock: Clock | None

    @property
    def user(self) -> Column:
        """The user of a row."""
        return column_of(self.frame, self.columns.user)

    @property
    def item(self) -> Column:
        """The item of a row."""
        return column_of(self.frame, self.columns.item)

    def check(self) -> None:
        """Run a job that raises `DataError` if a user, item or time is null, or no row is kept."""
        self._check(self.frame.agg(*self._counts()))

    def cut(self, share: Fraction) -> int:
        """The smallest time such that at most this share of the kept rows is at this time or later, by the job of `check`."""
        row = self._check(_with_cut(self.frame, self._counts(), share))
        if row["cut"] is None:
            raise DataError(
                f"rows: expected at most {float(share):g} of the rows at the last time, found {row['last']} of {row['kept']}: "
                "set a larger test_share, or a cut"
            )
        return int(row["cut"])

    @property
    def _names(self) -> dict[str, str]:
        names = {"user": self.columns.user, "item": self.columns.item}
        return names if self.time is None else {**names, "time": self.time}

    def _counts(self) -> list[Column]:
        nulls = [F.count_if(column_of(self.frame, name).isNull()).alias(key) for key, name in self._names.items()]
        return [F.count(F.lit(1)).alias("rows"), F.count_if(F.col(KEPT)).alias("kept"), *nulls]

    def _check(self, counts: DataFrame) -> Row:
        (row,) = actions.collect_rows(counts)
        nulls = [f"{row[key]} without a {key} ({name!r} is null)" for key, name in self._names.items() if row[key]]
        if nulls:
            raise DataError(f"rows: expected {', '.join(self._names)} in every row, found {', '.join(nulls)}: drop them first")
        if not row["rows"]:
            raise DataError("rows: expected at least one row, found none")
        if not row["kept"]:
            problem = f"all {row['rows']} rows have a user or item with too few rows"
            raise DataError(f"rows: expected at least one row, found none: {problem}: lower min_user_rows or min_item_rows")
        return row

    def bits(self, seed: int, *, user_only: bool = False) -> Column:
        """A hash of the ids and the seed, as a number with BITS bits. The type of an id does not matter."""
        ids = [self.user] if user_only else [self.user, self.item]
        hashed = F.xxhash64(*(id_.cast("string") for id_ in ids), F.lit(seed).cast("bigint"))
        return F.shiftrightunsigned(hashed, 64 - BITS)

    def ranked(self, first: Sequence[Column]) -> DataFrame:
        """With the position of each row among the kept rows of its user, from 1, and the number of these."""
        # The order must be total even if user and item repeat: all other columns follow, by name.
        ids = {self.columns.user, self.columns.item}
        fields = sorted(self.frame.drop(TIME, KEPT).schema.fields, key=lambda field: field.name)
        names = [field.name.lower() for field in fields]
        equal = [field.name for field in fields if names.count(field.name.lower()) > 1]
        if equal:
            raise DataError(
                f"rows: expected column names that differ not only in case, found {printable(', '.join(equal))}: rename one"
            )
        rest = [_sortable(column_of(self.frame, field.name), field.dataType) for field in fields if field.name not in ids]
        by_user = Window.partitionBy(self.user)
        # Items are ordered as strings, as they are hashed: 9 follows 10 whatever the type of the ids.
        order = by_user.orderBy(F.col(KEPT).desc(), *first, self.item.cast("string").desc(), *rest)
        n_kept = F.count_if(F.col(KEPT)).over(by_user)
        return self.frame.withColumns({POSITION: F.row_number().over(order), N_OF_USER: n_kept})

    def sides(self, frame: DataFrame, is_test: Column) -> DataFrame:
        """The caller's columns, and SIDE."""
        side = F.when(~F.col(KEPT), LEFT_OUT).when(is_test, TEST).otherwise(TRAIN)
        return frame.withColumn(SIDE, side).drop(TIME, KEPT, POSITION, N_OF_USER)


@read.example_in_errors()
def read_interactions(
    rows: DataFrame, columns: Columns, time: str | None, *, min_user_rows: int, min_item_rows: int, zone: str | None = None
) -> Interactions:
    """The caller's table with checked columns. No job has run yet."""
    checked_columns(columns)
    check_frame("rows", rows)
    schema = schema_of("rows", rows)
    for key in ("user", "item"):
        schema.id_type(key, getattr(columns, key))
    taken = {name.lower() for name in rows.columns} & {SIDE, FOLD}
    if taken:
        raise DataError(f"rows: expected no column {', '.join(sorted(taken))}, which the split adds: rename it first")
    added, clock = {KEPT: F.lit(True)}, None
    if time is not None:
        found = schema.type_of("time", time)
        if not isinstance(rows.schema[time].dataType, TIME_TYPES):
            raise schema.wrong_type("time", time, "a timestamp, a date or an integer", found)
        clock = clock_of(rows.schema[time].dataType, zone)
        added[TIME] = clock.number(column_of(rows, time))
    frame = rows.withColumns(added)
    minima = ((columns.user, "min_user_rows", min_user_rows), (columns.item, "min_item_rows", min_item_rows))
    for name, option, minimum in minima:
        least = checked_integer(minimum, option)
        if least > 1:
            frame = _frequent(frame, name, least)
    return Interactions(frame, columns, time, clock)


def _frequent(frame: DataFrame, name: str, least: int) -> DataFrame:
    """With KEPT false if the user or item has too few rows."""
    keyed = frame.withColumn(_ID, column_of(frame, name))
    frequent = keyed.groupBy(_ID).agg(F.count(F.lit(1)).alias(_N)).where(F.col(_N) >= least)
    joined = keyed.join(frequent, _ID, "left")
    return joined.withColumn(KEPT, F.col(KEPT) & F.col(_N).isNotNull()).drop(_ID, _N)


def _with_cut(frame: DataFrame, counts: Sequence[Column], share: Fraction) -> DataFrame:
    """The counts, and the smallest time such that at most a share of the rows is at this time or later."""
    # One task sorts the distinct times with their numbers of rows; the rows themselves do not move there.
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


def _sortable(column: Column, kind: DataType) -> Column:
    return column if _has_order(kind) else F.to_json(F.struct(column))


def _has_order(kind: DataType) -> bool:
    if isinstance(kind, MapType) or kind.typeName() in ("variant", "interval"):
        return False
    if isinstance(kind, ArrayType):
        return _has_order(kind.elementType)
    return all(_has_order(field.dataType) for field in kind.fields) if isinstance(kind, StructType) else True
