"""Which slices users and items belong to: from their tables and the training rows to one row for each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
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
from spark_recmetrics.match import Bands
from spark_recmetrics.slices import MOST_VALUES, NO_VALUE, TABLES, Band, Side, Slice, bands_of

N_TRAIN = "n_train"
"""How many training rows a user or item has."""

_PLAIN = (StringType, IntegralType, BooleanType, DateType, DecimalType)


def training_rows(train: DataFrame, side: Side) -> DataFrame:
    """How many training rows each user or item has: its id and `n_train`.

    Args:
        train: `user, item`, as `inputs.read_inputs` gives them.
        side: `user` or `item`.
    """
    rows = train.where(F.col("user").isNotNull() & F.col("item").isNotNull())
    return rows.groupBy(side).agg(F.count(F.lit(1)).alias(N_TRAIN))


def histogram(counts: DataFrame) -> DataFrame:
    """How many users or items have each number of training rows: few rows."""
    return counts.groupBy(N_TRAIN).agg(F.count(F.lit(1)).alias("n"))


def read_bands(
    side: Side,
    table: DataFrame | None,
    id_col: str,
    ids: DataType,
    slices: Sequence[Slice],
    counts: DataFrame | None = None,
    steps: Mapping[Band, Sequence[float]] = {},
) -> Bands:
    """The value of every band that the slices look at, as text, for each user or item of which anything is known.

    Args:
        side: `user` or `item`.
        table: The caller's table, one row for each.
        id_col: Its column of ids.
        ids: Their type in predictions and truth.
        slices: The slices of this side.
        counts: `training_rows`, where a slice looks at them.
        steps: `slices.steps_of` each band without edges that looks at them.

    Raises:
        DataError: A column has a type that cannot be cut into bands, or not be told as text.
    """
    parts = []
    own = [band for band in bands_of(slices) if table is not None and band.name in table.columns]
    if table is not None and own:
        values = [_value(side, table, band).alias(band.column) for band in own]
        known = table.select(column_of(table, id_col).cast(ids).alias(side), *values)
        parts.append(known.where(F.col(side).isNotNull()))
    counted = [band for band in bands_of(slices) if band not in own]
    if counts is not None and counted:
        numbers = [_counted(band, steps.get(band, ())).alias(band.column) for band in counted]
        parts.append(counts.select(side, *numbers))
    rows = reduce(lambda one, other: one.join(other, side, "full"), parts)
    nothing = {band.column: NO_VALUE for band in own}
    nothing |= {band.column: band.labels[bisect_right(band.edges, 0)] for band in counted}
    arrays = {field.name for field in rows.schema if isinstance(field.dataType, ArrayType)}
    others = {name: F.array(F.lit(value)) if name in arrays else F.lit(value) for name, value in nothing.items()}
    return Bands(side, rows, others)


def band_counts(bands: Bands, one: Slice) -> DataFrame:
    """One row: how many rows and different ids there are, and how many values the slice has."""
    rows = bands.rows.select(bands.side, *(band.column for band in one.bands))
    opened = rows
    for band in one.bands:
        if isinstance(rows.schema[band.column].dataType, ArrayType):
            opened = opened.withColumn(band.column, F.explode_outer(band.column))
    values = F.struct(*(F.coalesce(F.col(band.column), F.lit("")) for band in one.bands))
    of_ids = rows.agg(F.count(F.lit(1)).alias("rows"), F.count_distinct(bands.side).alias("ids"))
    return of_ids.join(opened.agg(F.count_distinct(values).alias("values")), how="cross")


def repeated_ids(bands: Bands) -> DataFrame:
    """The ids that stand there more than once."""
    return bands.rows.groupBy(bands.side).agg(F.count(F.lit(1)).alias("n")).where(F.col("n") > 1).select(bands.side)


def check_counts(side: Side, one: Slice, counts: Mapping[str, Any], examples: str) -> None:
    """Refuse a table that would double users or items, or a slice of too many values.

    Args:
        side: `user` or `item`.
        one: The slice.
        counts: The row of `band_counts`.
        examples: Ids that stand there more than once.

    Raises:
        DataError: An id stands there more than once, or the slice has too many values.
    """
    more = counts["rows"] - counts["ids"]
    if more:
        raise DataError(
            f"{TABLES[side]}: expected one row for each {side}, found {more} more, e.g. {side}s {printable(examples)}: "
            f"decide which row of a {side} counts"
        )
    if counts["values"] > MOST_VALUES:
        raise DataError(
            f"slices: {one}: expected at most {MOST_VALUES} values, found {counts['values']}: "
            "give edges to numbers, as in 'age(18, 35)', or group the values first"
        )


def _value(side: Side, table: DataFrame, band: Band) -> Column:
    name, key = TABLES[side], f"slices.{band}"
    if not band.edges:
        expected = "a text, a whole number, true or false, or a date; give edges to other numbers, as in 'age(18, 35)'"
        kinds = (*_PLAIN, *([ArrayType] if side == "item" else []))
        column, kind = typed_column(name, table, key, band.name, kinds, expected)
        if not isinstance(kind, ArrayType):
            return column.cast("string")
        # An item without a value in its array belongs to none.
        values = column.cast("array<string>")
        return F.when(F.size(values) > 0, F.transform(values, lambda value: F.coalesce(value, F.lit(NO_VALUE))))
    column, kind = typed_column(name, table, key, band.name, (NumericType,), "a number, which has edges")
    found = _banded(column.cast("double") if isinstance(kind, FractionalType) else column, band.edges, band.labels)
    return F.when(~F.isnan(column.cast("double")), found)


def _counted(band: Band, steps: Sequence[float]) -> Column:
    n = F.col(N_TRAIN)
    if band.edges:
        return _banded(n, band.edges, band.labels)
    _, *labels = band.labels
    found = F.lit(labels[-1])
    for upper, label in reversed(list(zip(steps, labels, strict=False))):
        found = F.when(n <= upper, label).otherwise(found)
    return found


def _banded(number: Column, edges: Sequence[float], labels: Sequence[str]) -> Column:
    found = F.when(number < edges[0], labels[0])
    for edge, label in zip(edges[1:], labels[1:], strict=False):
        found = found.when(number < edge, label)
    return F.when(number.isNotNull(), found.otherwise(labels[-1]))
