"""The values of slices and groups on Spark, from the caller's tables of users and items and from the training rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
)

from spark_recmetrics.columns import TABLE_OF, Columns, Side
from spark_recmetrics.inputs.contract import NUMBER_KINDS, PLAIN_KINDS
from spark_recmetrics.inputs.spark import clean_train, column_of, column_of_kind
from spark_recmetrics.request.request import SliceRequest
from spark_recmetrics.request.slices import COUNTED, NO_VALUE, Band, Slice, bands_of, steps_of
from spark_recmetrics.side_info.descriptions import GROUPS_FORM, check_once, check_values, wrong_group
from spark_recmetrics.side_info.known import Bands
from spark_recmetrics.storage import actions

if TYPE_CHECKING:
    from spark_recmetrics.inputs.spark import Inputs


def with_bands(rows: DataFrame, bands: Bands) -> DataFrame:
    """The rows with a column for each band after their other columns."""
    joined = rows.join(bands.rows, bands.side, "left")
    found = [F.coalesce(F.col(column), other).alias(column) for column, other in bands.defaults.items()]
    return joined.select(*rows.columns, *found)


N_TRAIN = "n_train"
"""How many training rows a user or item has."""


def training_rows(train: DataFrame, side: Side) -> DataFrame:
    """How many training rows each user or item has: its id and `n_train`.

    Args:
        train: `user, item`, as `inputs.read_inputs` gives them.
        side: `user` or `item`.
    """
    return clean_train(train).groupBy(side).agg(F.count(F.lit(1)).alias(N_TRAIN))


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
    key: str = "slices",
) -> Bands:
    """The value of every band that the slices look at, as text, for each user or item of which anything is known.

    Slices have the value `NO_VALUE` where there is none. In groups it stays null, so that they may have any name.

    Args:
        side: `user` or `item`.
        table: The caller's table, one row for each.
        id_col: Its column of ids.
        ids: Their type in predictions and truth.
        slices: The slices of this side.
        counts: `training_rows`, where a slice looks at them.
        steps: `slices.steps_of` each band without edges that looks at them.
        key: What the columns are named by: `slices`, or `groups`.

    Raises:
        DataError: A column has a type that cannot be cut into bands, or not be told as text.
    """
    parts = []
    own = [band for band in bands_of(slices) if table is not None and band.name in table.columns]
    if table is not None and own:
        values = [_value(side, table, band, key).alias(band.column) for band in own]
        known = table.select(column_of(table, id_col).cast(ids).alias(side), *values)
        parts.append(known.where(F.col(side).isNotNull()))
    counted = [band for band in bands_of(slices) if band not in own]
    if counts is not None and counted:
        numbers = [_counted(band, steps.get(band, ())).alias(band.column) for band in counted]
        parts.append(counts.select(side, *numbers))
    rows = reduce(lambda one, other: one.join(other, side, "full"), parts)
    nothing = {band.column: NO_VALUE for band in own} if key == "slices" else {}
    nothing |= {band.column: band.labels[bisect_right(band.edges, 0)] for band in counted}
    arrays = {field.name for field in rows.schema if isinstance(field.dataType, ArrayType)}
    defaults = {name: F.array(F.lit(value)) if name in arrays else F.lit(value) for name, value in nothing.items()}
    return Bands(side, rows, defaults)


ALL_IDS = -1
"""The place of the ids themselves in `band_counts`."""


def band_counts(bands: Bands, slices: Sequence[Slice], key: str = "slices") -> DataFrame:
    """How many rows and different values the ids (place -1) and the slices (their places) have: `place, rows, values`.

    One pass over the table, whatever the number of slices.

    Args:
        bands: What the slices look at.
        slices: The slices.
        key: What they are named by. No value, in an array or not, is one more value of a slice, and no group.
    """
    arrays = {field.name for field in bands.rows.schema if isinstance(field.dataType, ArrayType)}
    keys = [F.struct(F.lit(ALL_IDS).alias("place"), F.array(F.array(F.col(bands.side).cast("string"))).alias("values"))]
    for place, one in enumerate(slices):
        every = F.array(F.array().cast("array<string>"))
        for band in one.bands:
            own = F.col(band.column) if band.column in arrays else F.array(band.column)
            own = F.coalesce(own, F.array(F.lit(None).cast("string")))
            if key == "slices":
                own = F.transform(own, lambda value: F.coalesce(value, F.lit("")))
            else:
                own = F.filter(own, lambda value: value.isNotNull())
            every = _paired(every, own)
        keys.append(F.struct(F.lit(place).alias("place"), every.alias("values")))
    opened = bands.rows.select(F.inline(F.array(*keys))).select("place", F.explode("values").alias("value"))
    counts: DataFrame = opened.groupBy("place").agg(F.count(F.lit(1)).alias("rows"), F.count_distinct("value").alias("values"))
    return counts


def _paired(every: Column, own: Column) -> Column:
    """Each of the lists in `every` with each of the values behind it."""
    return F.flatten(F.transform(every, lambda before: F.transform(own, lambda value: F.concat(before, F.array(value)))))


def repeated_ids(bands: Bands) -> DataFrame:
    """The ids that have several rows."""
    n_rows = bands.rows.groupBy(bands.side).agg(F.count(F.lit(1)).alias("n"))
    repeated: DataFrame = n_rows.where(F.col("n") > 1).select(bands.side)
    return repeated


def check_bands(
    bands: Bands, slices: Sequence[Slice], counts: Iterable[Row], examples: Callable[[], str], key: str = "slices"
) -> None:
    """Refuse a table that would double users or items, and a slice of too many values.

    Args:
        bands: What the slices look at.
        slices: The slices.
        counts: The rows of `band_counts`.
        examples: Finds ids that stand there more than once.
        key: What slices are named by: `slices`, or `groups`.

    Raises:
        DataError: An id stands there more than once, or a slice has more than MOST_VALUES.
    """
    found, side = {row["place"]: row for row in counts}, bands.side
    more = found[ALL_IDS]["rows"] - found[ALL_IDS]["values"] if ALL_IDS in found else 0  # without a row there is no count
    check_once(TABLE_OF[side], side, more, examples() if more else "")
    for place, one in enumerate(slices):
        check_values(key, one if key == "slices" else one.names, found[place]["values"] if place in found else 0)


def _value(side: Side, table: DataFrame, band: Band, named_by: str) -> Column:
    if not band.edges:
        edges = "; give edges to other numbers, as in 'age(18, 35)'" if named_by == "slices" else ""
        expected = f"{GROUPS_FORM}{edges}"
        kinds = (*PLAIN_KINDS, "array") if side == "item" else PLAIN_KINDS
        column, column_type = column_of_kind(TABLE_OF[side], table, None, band.name, kinds, expected)
        if column_type.kind != "array":
            return column.cast("string")
        if column_type.element is None or column_type.element.kind not in PLAIN_KINDS:
            raise wrong_group(side, band.name, expected, column_type.name)
        # An item without a value in its array belongs to no group.
        values = column.cast("array<string>")
        named = F.transform(values, lambda value: F.coalesce(value, F.lit(NO_VALUE))) if named_by == "slices" else values
        return F.when(F.size(values) > 0, named)
    column, column_type = column_of_kind(TABLE_OF[side], table, None, band.name, NUMBER_KINDS, "a number, which has edges")
    fractional = column_type.kind in ("float", "decimal")
    banded = _banded(column.cast("double") if fractional else column, band.edges, band.labels)
    return F.when(~F.isnan(column.cast("double")), banded)


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


def know_bands(inputs: Inputs, slices: SliceRequest, columns: Columns) -> dict[Side, Bands]:
    """The values of the slices; small jobs check that no id is repeated and that values are few.

    Raises:
        DataError: An id is repeated, a slice has too many values, or a column has a type that cannot be used.
    """
    return {side: _bands_of(side, inputs, slices, columns) for side, of_side in slices.by_side.items() if of_side}


def _bands_of(side: Side, inputs: Inputs, request: SliceRequest, columns: Columns) -> Bands:
    table, slices = inputs.segments if side == "user" else inputs.groups, request.by_side[side]
    counted = [band for band in request.counted if band.name == COUNTED[side]]
    counts = training_rows(inputs.train, side) if counted and inputs.train is not None else None
    steps: dict[Band, Sequence[float]] = {}
    if counts is not None and not all(band.edges for band in counted):
        n_of = {row[N_TRAIN]: row["n"] for row in actions.collect_rows(histogram(counts))}
        steps = {band: steps_of(band, n_of) for band in counted if not band.edges}
    bands = read_bands(side, table, columns.ids(side), inputs.truth.schema[side].dataType, slices, counts, steps)
    rows = actions.collect_rows(band_counts(bands, slices))
    check_bands(bands, slices, rows, lambda: actions.example_values(repeated_ids(bands)))
    return bands
