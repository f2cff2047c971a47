"""Which slices a user belongs to: from the table of segments and the training rows to one row per user."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    NumericType,
    StringType,
)

from spark_recmetrics.errors import DataError, printable
from spark_recmetrics.inputs import column_of, typed_column
from spark_recmetrics.slices import MOST_VALUES, NO_VALUE, Band, Slice, bands_of

_ACTIVE = "n_train"


class UserBands(NamedTuple):
    """What is known of users.

    Args:
        rows: `user`, and `Band.column` for each band. Users of the table of segments stand as often as they do there.
        others: By `Band.column`, the value of users who are not in these rows.
    """

    rows: DataFrame
    others: Mapping[str, Column]


def user_activity(train: DataFrame) -> DataFrame:
    """`user, n_train`: how many training rows each user has.

    Args:
        train: `user, item`, as `inputs.read_inputs` gives them.
    """
    rows = train.where(F.col("user").isNotNull() & F.col("item").isNotNull())
    return rows.groupBy("user").agg(F.count(F.lit(1)).alias(_ACTIVE))


def activity_quartiles(activity: DataFrame) -> DataFrame:
    """One row: the exact quartiles of the numbers of training rows, over the users who have any."""
    return activity.agg(F.percentile(_ACTIVE, F.array(*(F.lit(q) for q in (0.25, 0.5, 0.75)))).alias("quartiles"))


def user_bands(
    segments: DataFrame | None,
    user_col: str,
    users: DataType,
    slices: Sequence[Slice],
    activity: DataFrame | None = None,
    quartiles: Sequence[float] = (),
) -> UserBands:
    """The value of every band that the slices look at, as text, for each user of whom anything is known.

    Args:
        segments: The caller's table, one row per user.
        user_col: Its column of users.
        users: The type of users in predictions and truth.
        slices: The slices.
        activity: `user_activity`, where a slice looks at it.
        quartiles: `activity_quartiles`, where a slice looks at them.

    Raises:
        DataError: A column has a type that cannot be cut into bands, or not be told as text.
    """
    parts = []
    own = [band for band in bands_of(slices) if segments is not None and band.name in segments.columns]
    if segments is not None and own:
        values = [_value(segments, band).alias(band.column) for band in own]
        known = segments.select(column_of(segments, user_col).cast(users).alias("user"), *values)
        parts.append(known.where(F.col("user").isNotNull()))
    counted = [band for band in bands_of(slices) if band not in own]
    if activity is not None and counted:
        numbers = [_activity(band, quartiles).alias(band.column) for band in counted]
        parts.append(activity.select("user", *numbers))
    others = {band.column: F.lit(NO_VALUE) for band in own}
    others |= {band.column: F.lit(band.labels[bisect_right(band.edges, 0)]) for band in counted}
    return UserBands(reduce(lambda one, other: one.join(other, "user", "full"), parts), others)


def with_bands(per_user: DataFrame, bands: UserBands) -> DataFrame:
    """PER_USER with the value of every band behind its other columns."""
    joined = per_user.join(bands.rows, "user", "left")
    found = [F.coalesce(F.col(column), other).alias(column) for column, other in bands.others.items()]
    return joined.select(*per_user.columns, *found)


def band_counts(bands: UserBands, slices: Sequence[Slice]) -> DataFrame:
    """One row: how many rows and users there are, and how many values each slice has."""
    values = [
        F.count_distinct(F.struct(*(F.coalesce(F.col(band.column), F.lit("")) for band in one.bands))).alias(str(place))
        for place, one in enumerate(slices)
    ]
    return bands.rows.agg(F.count(F.lit(1)).alias("rows"), F.count_distinct("user").alias("users"), *values)


def repeated_users(bands: UserBands) -> DataFrame:
    """The users who stand there more than once."""
    return bands.rows.groupBy("user").agg(F.count(F.lit(1)).alias("n")).where(F.col("n") > 1).select("user")


def check_counts(counts: Mapping[str, Any], slices: Sequence[Slice], examples: str) -> None:
    """Refuse a table of segments that would double users, or slices of too many values.

    Args:
        counts: The row of `band_counts`.
        slices: The slices.
        examples: Users who stand there more than once.

    Raises:
        DataError: A user stands there more than once, or a slice has too many values.
    """
    more = counts["rows"] - counts["users"]
    if more:
        raise DataError(
            f"user_segments: expected one row for each user, found {more} more, e.g. users {printable(examples)}: "
            "decide which row of a user counts"
        )
    for place, one in enumerate(slices):
        if counts[str(place)] > MOST_VALUES:
            raise DataError(
                f"slices: {one}: expected at most {MOST_VALUES} values, found {counts[str(place)]}: "
                "give edges to numbers, as in 'age(18, 35)', or group the values first"
            )


def _value(segments: DataFrame, band: Band) -> Column:
    key = f"slices.{band}"
    if not band.edges:
        kinds = (StringType, IntegralType, BooleanType, DateType, DecimalType)
        expected = "a text, a whole number, true or false, or a date; give edges to other numbers, as in 'age(18, 35)'"
        return typed_column("user_segments", segments, key, band.name, kinds, expected)[0].cast("string")
    column, kind = typed_column("user_segments", segments, key, band.name, (NumericType,), "a number, which has edges")
    number = column.cast("double") if isinstance(kind, FractionalType) else column
    found = _banded(number, band.edges, band.labels)
    return F.when(~F.isnan(column.cast("double")), found)


def _activity(band: Band, quartiles: Sequence[float]) -> Column:
    n = F.col(_ACTIVE)
    if band.edges:
        return _banded(n, band.edges, band.labels)
    _, *quarters = band.labels
    found = F.lit(quarters[-1])
    for upper, label in reversed(list(zip(quartiles, quarters, strict=False))):
        found = F.when(n <= upper, label).otherwise(found)
    return found


def _banded(number: Column, edges: Sequence[float], labels: Sequence[str]) -> Column:
    found = F.when(number < edges[0], labels[0])
    for edge, label in zip(edges[1:], labels[1:], strict=False):
        found = found.when(number < edge, label)
    return F.when(number.isNotNull(), found.otherwise(labels[-1]))
