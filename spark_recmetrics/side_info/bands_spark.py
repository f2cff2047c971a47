"""The values of slices, and groups of users and items, on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from spark_recmetrics.columns import ITEM_GROUPS, TABLE_OF, Columns, Side
from spark_recmetrics.inputs.spark import Inputs, clean_train, column_of, schema_of
from spark_recmetrics.metrics.group_sums import GroupSizes, item_group_columns, user_columns
from spark_recmetrics.request.request import Request, SliceRequest
from spark_recmetrics.request.slices import NO_VALUE, Band, Slice, bands_of, steps_of
from spark_recmetrics.side_info.checks import band_type, check_once, check_values
from spark_recmetrics.side_info.known import Bands, GroupRows, counted_bands, group_slices
from spark_recmetrics.storage import actions

_N_TRAIN = "n_train"
"""The column with the number of training rows of a user or item."""

_ALL_IDS = -1
"""In `_value_counts`, the position of the ids, next to those of the slices."""


def with_bands(rows: DataFrame, bands: Bands) -> DataFrame:
    """The rows with a column for each band after their other columns."""
    values = [F.coalesce(column, F.lit(default)).alias(column) for column, default in bands.defaults.items()]
    return rows.join(bands.rows, bands.side, "left").select(*rows.columns, *values)


def learn_bands(inputs: Inputs, request: SliceRequest, columns: Columns) -> dict[Side, Bands]:
    """The values of the slices. Small jobs check that ids are unique and that slices have few values."""
    return {side: _bands_of(side, inputs, request, columns) for side, slices in request.by_side.items() if slices}


def _bands_of(side: Side, inputs: Inputs, request: SliceRequest, columns: Columns) -> Bands:
    parts, defaults = list[DataFrame](), dict[str, Any]()
    of_table = request.bands_of_table(side)
    if of_table:
        rows = _read(side, inputs, columns, of_table)
        for band in of_table:
            defaults[band.column] = [NO_VALUE] if _has_arrays(rows, band) else NO_VALUE
        parts.append(rows)
    counted = counted_bands(request, side)
    if counted and inputs.train is not None:
        counts = clean_train(inputs.train).groupBy(side).agg(F.count(F.lit(1)).alias(_N_TRAIN))
        n_by_count = dict[int, int]()
        if not all(band.edges for band in counted):
            histogram = counts.groupBy(_N_TRAIN).agg(F.count(F.lit(1)).alias("n"))
            n_by_count = {row[_N_TRAIN]: row["n"] for row in actions.collect_rows(histogram)}
        defaults |= {band.column: label for band, label in counted.items()}
        parts.append(counts.select(side, *(_counted(band, n_by_count).alias(band.column) for band in counted)))
    rows = reduce(lambda left, right: left.join(right, side, "full"), parts)
    _check_bands(side, rows, request.by_side[side])
    return Bands(side, rows, defaults)


def _has_arrays(rows: DataFrame, band: Band) -> bool:
    return isinstance(rows.schema[band.column].dataType, ArrayType)


def _counted(band: Band, n_by_count: Mapping[int, int]) -> Column:
    """The band of the number of training rows."""
    n_rows = F.col(_N_TRAIN)
    if band.edges:
        return _banded(n_rows, band.edges, band.labels)
    # The first band has no training rows.
    _, *labels = band.labels
    label = F.lit(labels[-1])
    for upper, lower_label in reversed(list(zip(steps_of(band, n_by_count), labels, strict=False))):
        label = F.when(n_rows <= upper, lower_label).otherwise(label)
    return label


def _banded(number: Column, edges: Sequence[float], labels: Sequence[str]) -> Column:
    label = F.when(number < edges[0], labels[0])
    for edge, lower_label in zip(edges[1:], labels[1:], strict=False):
        label = label.when(number < edge, lower_label)
    return F.when(number.isNotNull(), label.otherwise(labels[-1]))


def _read(side: Side, inputs: Inputs, columns: Columns, bands: Sequence[Band], key: str = "slices") -> DataFrame:
    """The ids of the caller's table, and `Band.column` for each band: a string or an array of strings. Ids may be repeated."""
    table = inputs.side_table(side)
    ids = column_of(table, columns.ids(side)).cast(inputs.truth.schema[side].dataType).alias(side)
    values = [_value(side, table, band, key).alias(band.column) for band in bands]
    return table.select(ids, *values).where(F.col(side).isNotNull())


def _value(side: Side, table: DataFrame, band: Band, key: str) -> Column:
    column_type, column = band_type(schema_of(TABLE_OF[side], table), side, band, key), column_of(table, band.name)
    if band.edges:
        fractional = column_type.kind in ("float", "decimal")
        number = column.cast("double") if fractional else column
        banded = _banded(number, band.limits(column_type.name), band.labels)
        return F.when(~F.isnan(column.cast("double")), banded)
    if column_type.kind != "array":
        return F.when(column.cast("string") != "", column.cast("string"))
    values = F.transform(column.cast("array<string>"), lambda value: F.when(value != "", value))
    named = F.transform(values, lambda value: F.coalesce(value, F.lit(NO_VALUE))) if key == "slices" else values
    # An item without a value in its array belongs to no group.
    return F.when(F.size(values) > 0, named)


def _check_bands(side: Side, rows: DataFrame, slices: Sequence[Slice], key: str = "slices") -> int:
    """The number of ids. Raises `DataError` if an id is repeated, or a slice or a column with groups has too many values."""
    counted = actions.collect_rows(_value_counts(side, rows, slices, key))
    counts: dict[int, tuple[int, int]] = {row["place"]: (row["rows"], row["values"]) for row in counted}
    n_rows, n_ids = counts.get(_ALL_IDS, (0, 0))  # a table without rows has no counts
    check_once(TABLE_OF[side], side, n_rows - n_ids, example_ids(rows, side) if n_rows > n_ids else "")
    for position, slice_ in enumerate(slices):
        check_values(key, slice_, counts.get(position, (0, 0))[1])
    return n_ids


def example_ids(rows: DataFrame, id_col: str) -> str:
    """Examples of repeated ids, by a job."""
    counts = rows.groupBy(id_col).agg(F.count(F.lit(1)).alias("n"))
    return actions.example_values(counts.where(F.col("n") > 1).select(id_col))


def _value_counts(side: Side, rows: DataFrame, slices: Sequence[Slice], key: str) -> DataFrame:
    """`place, rows, values`: the number of rows and distinct values of the ids (place -1) and of each slice, in one pass."""
    ids = F.array(F.array(F.col(side).cast("string")))
    entries = [F.struct(F.lit(_ALL_IDS).alias("place"), ids.alias("values"))]
    for position, slice_ in enumerate(slices):
        combinations = F.array(F.array().cast("array<string>"))
        for band in slice_.bands:
            values = F.col(band.column) if _has_arrays(rows, band) else F.array(band.column)
            values = F.coalesce(values, F.array(F.lit(None).cast("string")))
            # A missing value is a value of a slice, and no group.
            if key == "slices":
                values = F.transform(values, lambda value: F.coalesce(value, F.lit("")))
            else:
                values = F.filter(values, lambda value: value.isNotNull())
            combinations = _combined(combinations, values)
        entries.append(F.struct(F.lit(position).alias("place"), combinations.alias("values")))
    opened = rows.select(F.inline(F.array(*entries))).select("place", F.explode("values").alias("value"))
    counts: DataFrame = opened.groupBy("place").agg(F.count(F.lit(1)).alias("rows"), F.count_distinct("value").alias("values"))
    return counts


def _combined(combinations: Column, values: Column) -> Column:
    """Each combination extended by each value."""
    return F.flatten(F.transform(combinations, lambda left: F.transform(values, lambda value: F.concat(left, F.array(value)))))


def learn_groups(inputs: Inputs, request: Request) -> GroupRows:
    """The groups of users and items for group metrics. Only the sizes of the groups of items reach the driver."""
    users, items = user_columns(request.measured), item_group_columns(request.measured)
    segments = None
    if users:
        rows, bands, _ = _read_groups("user", users, inputs, request)
        segments = rows.select("user", *(F.col(band.column).alias(f"segment_{n}") for n, band in enumerate(bands)))
    if not items:
        return GroupRows(segments=segments)
    rows, bands, n_items = _read_groups("item", items, inputs, request)
    groups = [_groups(rows, band) for band in bands]
    sizes: dict[str, dict[str, int]] = {name: {} for name in items}
    for row in sorted(actions.collect_rows(_group_sizes(rows, groups)), key=lambda row: (row["place"], row["group"])):
        sizes[items[row["place"]]][row["group"]] = row["n_items"]
    indexes, n_before = [F.array().cast("array<bigint>")], 0
    for of_column, names in zip(groups, sizes.values(), strict=True):
        indexes += [_indexes(of_column, names, n_before)] if names else []
        n_before += len(names)
    return GroupRows(rows.select("item", F.concat(*indexes).alias(ITEM_GROUPS)), segments, GroupSizes(sizes, n_items))


def _read_groups(side: Side, names: Sequence[str], inputs: Inputs, request: Request) -> tuple[DataFrame, tuple[Band, ...], int]:
    """The ids and the values of columns with groups, their bands, and the number of ids."""
    slices = group_slices(names)
    rows = _read(side, inputs, request.columns, bands_of(slices), key="groups")
    return rows, bands_of(slices), _check_bands(side, rows, slices, key="groups")


def _groups(rows: DataFrame, band: Band) -> Column:
    """The groups of an item by a column, each once: an array of strings, empty or null for none."""
    groups = F.array_distinct(band.column) if _has_arrays(rows, band) else F.array(band.column)
    return F.filter(groups, lambda group: group.isNotNull())


def _group_sizes(rows: DataFrame, groups: Iterable[Column]) -> DataFrame:
    """`place, group, n_items`: by position of the column, the number of items of each group."""
    entries = [F.struct(F.lit(place).alias("place"), of_column.alias("groups")) for place, of_column in enumerate(groups)]
    opened = rows.select(F.inline(F.array(*entries))).select("place", F.explode("groups").alias("group"))
    return opened.groupBy("place", "group").agg(F.count(F.lit(1)).alias("n_items"))


def _indexes(groups: Column, names: Iterable[str], first: int) -> Column:
    """The indexes of the groups among these names, from `first`."""
    known_names = F.array(*map(F.lit, names))
    indexes = F.transform(groups, lambda group: F.call_function("array_position", known_names, group) + (first - 1))
    return F.coalesce(indexes, F.array().cast("array<bigint>"))
