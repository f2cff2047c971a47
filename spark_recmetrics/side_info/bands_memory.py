"""The values of slices, and groups of users and items, in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from spark_recmetrics.columns import ITEM_GROUPS, TABLE_OF, Columns, Side
from spark_recmetrics.inputs.accepted_columns import ColumnType
from spark_recmetrics.inputs.memory import (
    MemoryInputs,
    MemoryTable,
    as_doubles,
    cast_ids,
    clean_train,
    ids_to_pandas,
    type_of_arrow,
)
from spark_recmetrics.metrics.arrays import numbered
from spark_recmetrics.metrics.group_sums import GroupSizes, item_group_columns, user_columns
from spark_recmetrics.request.request import Request, SliceRequest
from spark_recmetrics.request.slices import NO_VALUE, Band, Slice, bands_of, steps_of
from spark_recmetrics.side_info.checks import band_type, check_once, check_values, repeated_ids
from spark_recmetrics.side_info.known import Bands, GroupRows, counted_bands, group_names, group_slices
from spark_recmetrics.side_info.vectors import arrays_of_strings, plain_strings


def with_bands(rows: pd.DataFrame, bands: Bands) -> pd.DataFrame:
    """The rows with a column for each band after their other columns."""
    (number, band_number), ids = numbered(rows[bands.side], bands.rows[bands.side])
    # A row without an id has the number -1, and so the last position, which is that of the default.
    position = np.full(len(ids) + 1, len(band_number))
    position[band_number] = np.arange(len(band_number))
    joined = rows.assign()
    for column, default in bands.defaults.items():
        values = [*(default if value is None else value for value in bands.rows[column]), default]
        joined[column] = pd.Series(values, dtype=object).to_numpy()[position[number]]
    return joined


def learn_bands(inputs: MemoryInputs, request: SliceRequest, columns: Columns) -> dict[Side, Bands]:
    """The values of the slices."""
    return {side: _bands_of(side, inputs, request, columns) for side, slices in request.by_side.items() if slices}


def _bands_of(side: Side, inputs: MemoryInputs, request: SliceRequest, columns: Columns) -> Bands:
    parts, defaults = list[pd.DataFrame](), dict[str, Any]()
    of_table = request.bands_of_table(side)
    if of_table:
        rows = _read(side, inputs, columns, of_table)
        for band in of_table:
            has_arrays = any(isinstance(value, list) for value in rows[band.column])
            defaults[band.column] = [NO_VALUE] if has_arrays else NO_VALUE
        parts.append(rows)
    counted = counted_bands(request, side)
    if counted and inputs.train is not None:
        counts = clean_train(inputs.train)[side].value_counts()
        n_rows = counts.field("counts").to_numpy()
        values = {band.column: _counted(band, n_rows) for band in counted}
        defaults |= {band.column: label for band, label in counted.items()}
        parts.append(pd.DataFrame({side: ids_to_pandas(counts.field("values")), **values}))
    codes, ids = numbered(*(part[side] for part in parts))
    joined = pd.DataFrame({side: ids})
    for code, part in zip(codes, parts, strict=True):
        for column in part.columns[1:]:
            values_of_ids = np.full(len(ids), None)
            values_of_ids[code] = part[column].to_numpy()
            joined[column] = values_of_ids
    _check_bands(joined, request.by_side[side])
    return Bands(side, joined, defaults)


def _counted(band: Band, n_rows: Any) -> Any:
    """The band of each number of training rows."""
    if band.edges:
        position = np.searchsorted(np.asarray(band.edges), n_rows, side="right")
    else:
        # The first band has no training rows.
        position = 1 + np.searchsorted(np.asarray(steps_of(band, Counter(n_rows.tolist()))), n_rows, side="left")
    return np.array(band.labels, dtype=object)[position]


def _read(side: Side, inputs: MemoryInputs, columns: Columns, bands: Sequence[Band], key: str = "slices") -> pd.DataFrame:
    id_type = type_of_arrow(inputs.truth[side].type)
    return read_bands(side, inputs.side_table(side), bands, key, id_col=columns.ids(side), id_type=id_type)


def read_bands(
    side: Side, table: MemoryTable, bands: Sequence[Band], key: str, *, id_col: str, id_type: ColumnType
) -> pd.DataFrame:
    """The ids, and `Band.column` for each band: a string, a list of strings, or None. Repeated ids raise `DataError`."""
    values = {band.column: _values(side, table, band, key) for band in bands}
    column = cast_ids(table.column(id_col), id_type)
    has_id = column.is_valid().to_numpy()
    rows = pd.DataFrame({side: ids_to_pandas(column.filter(has_id))})
    for band_column, cells in values.items():
        rows[band_column] = pd.Series(cells, dtype=object)[has_id].to_numpy()
    check_once(TABLE_OF[side], side, *repeated_ids(rows[side]))
    return rows


def _values(side: Side, table: MemoryTable, band: Band, key: str) -> list[Any]:
    column_type, column = band_type(table.schema, side, band, key), table.column(band.name)
    if band.edges:
        numbers = as_doubles(column).to_pylist()
        limits = band.limits(column_type.name)
        return [None if n is None or n != n else band.labels[bisect_right(limits, n)] for n in numbers]
    if column_type.kind != "array":
        return plain_strings(column)
    missing = NO_VALUE if key == "slices" else None
    # An item without a value in its array belongs to no group.
    return [[missing if value is None else value for value in cell] if cell else None for cell in arrays_of_strings(column)]


def _check_bands(rows: pd.DataFrame, slices: Sequence[Slice], key: str = "slices") -> None:
    """Raise `DataError` if a slice or a column with groups has too many values."""
    for slice_ in slices:
        cells = [[_cell(value, key) for value in rows[band.column]] for band in slice_.bands]
        check_values(key, slice_, len({values for row in zip(*cells, strict=True) for values in product(*row)}))


def _cell(value: Any, key: str) -> list[str]:
    """The values of a cell. A missing value is a value of a slice, and no group."""
    values = value if isinstance(value, list) else [value]
    return [value or "" for value in values] if key == "slices" else [value for value in values if value is not None]


def learn_groups(inputs: MemoryInputs, request: Request) -> GroupRows:
    """The groups of users and items for group metrics, and the number of items of each."""
    users, items = user_columns(request.measured), item_group_columns(request.measured)
    segments = None
    if users:
        ids, columns = _read_groups("user", users, inputs, request)
        segments = pd.DataFrame({"user": ids} | {f"segment_{n}": column for n, column in enumerate(columns)})
    if not items:
        return GroupRows(segments=segments)
    ids, columns = _read_groups("item", items, inputs, request)
    groups = [[list(dict.fromkeys(_cell(cell, "groups"))) for cell in column] for column in columns]
    counts = (Counter(group for cell in cells for group in cell) for cells in groups)
    sizes = {name: dict(sorted(of_column.items())) for name, of_column in zip(items, counts, strict=True)}
    index = {name: position for position, name in enumerate(group_names(sizes))}
    indexes = [
        np.array([index[name, group] for name, cell in zip(items, row, strict=True) for group in cell], dtype=np.int64)
        for row in zip(*groups, strict=True)
    ]
    rows = pd.DataFrame({"item": ids.astype(object), ITEM_GROUPS: pd.Series(indexes, dtype=object)})
    return GroupRows(rows, segments, GroupSizes(sizes, len(rows)))


def _read_groups(
    side: Side, names: Sequence[str], inputs: MemoryInputs, request: Request
) -> tuple[pd.Series[Any], list[pd.Series[Any]]]:
    """The ids, and the values of each column."""
    slices = group_slices(names)
    rows = _read(side, inputs, request.columns, bands_of(slices), key="groups")
    _check_bands(rows, slices, key="groups")
    return rows[side], [rows[band.column] for band in bands_of(slices)]
