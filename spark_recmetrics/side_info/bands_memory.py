"""The values of slices and groups in memory, from the caller's tables of users and items."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import TABLE_OF, Columns, Side
from spark_recmetrics.inputs.contract import NUMBER_KINDS, PLAIN_KINDS, ColumnType
from spark_recmetrics.inputs.memory import MemoryInputs, MemoryTable, cast_ids, clean_train, ids_to_pandas
from spark_recmetrics.metrics.arrays import numbered
from spark_recmetrics.request.request import SliceRequest
from spark_recmetrics.request.slices import COUNTED, NO_VALUE, Band, Slice, steps_of
from spark_recmetrics.side_info.descriptions import GROUPS_FORM, beyond_one, check_once, check_values, wrong_group
from spark_recmetrics.side_info.known import Bands
from spark_recmetrics.side_info.vectors import arrays_of_strings, plain_strings

if TYPE_CHECKING:
    import pandas as pd

Counts = tuple["pd.Series[Any]", Any]
"""Ids, and how many training rows each has."""


def with_bands(rows: pd.DataFrame, bands: Bands) -> pd.DataFrame:
    """The rows with the value of every band after their other columns."""
    import pandas as pd

    (number, known), ids = numbered(rows[bands.side], bands.rows[bands.side])
    # A row without an id has the number -1, and the default, which is the last one.
    place = np.full(len(ids) + 1, len(known))
    place[known] = np.arange(len(known))
    joined = rows.assign()
    for column, default in bands.defaults.items():
        values = [*(default if value is None else value for value in bands.rows[column]), default]
        joined[column] = pd.Series(values, dtype=object).to_numpy()[place[number]]
    return joined


def know_bands(
    inputs: MemoryInputs, ids: Mapping[Side, ColumnType], slices: SliceRequest, columns: Columns
) -> dict[Side, Bands]:
    """The values of the slices.

    Raises:
        DataError: An id is repeated, a slice has too many values, or a column has a type that cannot be used.
    """
    return {side: _bands_of(side, inputs, ids[side], slices, columns) for side, of_side in slices.by_side.items() if of_side}


def _bands_of(side: Side, inputs: MemoryInputs, ids: ColumnType, request: SliceRequest, columns: Columns) -> Bands:
    of_table = request.bands_of_table(side)
    rows = None
    if of_table:
        table = inputs.segments if side == "user" else inputs.groups
        rows = read_bands(side, table, (columns.ids(side), ids), of_table)
    counted = [band for band in request.counted if band.name == COUNTED[side]]
    counts = _training_rows(inputs, side) if counted else None
    bands = _joined(side, rows, of_table, counts, counted)
    check_bands(bands, request.by_side[side])
    return bands


def _training_rows(inputs: MemoryInputs, side: Side) -> Counts:
    if inputs.train is None:
        raise ValueError("there are no training rows")
    counts = clean_train(inputs.train)[side].value_counts()
    return ids_to_pandas(counts.field("values")), counts.field("counts").to_numpy()


def _joined(
    side: Side, rows: pd.DataFrame | None, of_table: Sequence[Band], counts: Counts | None, counted: Sequence[Band]
) -> Bands:
    """The bands of columns, and those by the number of training rows, of all ids of either."""
    import pandas as pd

    of_rows = [] if rows is None else [rows[side]]
    of_train = [] if counts is None else [counts[0]]
    codes, ids = numbered(*of_rows, *of_train)
    joined = pd.DataFrame({side: ids})
    defaults: dict[str, Any] = {}
    if rows is not None:
        for band in of_table:
            joined[band.column] = _placed(rows[band.column], codes[0], len(ids))
            several = any(isinstance(value, list) for value in rows[band.column])
            defaults[band.column] = [NO_VALUE] if several else NO_VALUE
    if counts is not None:
        n = counts[1]
        for band in counted:
            if band.edges:
                labels, bins = band.labels, np.searchsorted(np.asarray(band.edges), n, side="right")
            else:
                steps = np.asarray(steps_of(band, Counter(n.tolist())))
                labels, bins = band.labels[1:], np.searchsorted(steps, n, side="left")
            joined[band.column] = _placed(np.array(labels, dtype=object)[bins], codes[-1], len(ids))
            defaults[band.column] = band.labels[bisect_right(band.edges, 0)]
    return Bands(side, joined, defaults)


def _placed(values: Iterable[Any], codes: Any, size: int) -> Any:
    placed = np.full(size, None)
    for code, value in zip(codes.tolist(), values, strict=True):
        placed[code] = value
    return placed


def read_bands(
    side: Side, table: MemoryTable | None, ids: tuple[str, ColumnType], bands: Sequence[Band], key: str = "slices"
) -> pd.DataFrame:
    """The ids of a table, each once, and `Band.column` for each band: a string, a list of strings, or None.

    Args:
        side: `user` or `item`.
        table: The caller's table.
        ids: The name and the type of its column of ids.
        bands: The columns.
        key: What the columns are named by: `slices`, or `groups`.

    Raises:
        DataError: A column has a type that cannot be used, or an id is repeated.
    """
    import pandas as pd

    if table is None:
        raise ValueError(f"there is no table of {side}s")
    name, column_type = ids
    values = {band.column: _values(side, table, band, key) for band in bands}
    column = cast_ids(table.column(name), column_type)
    there = column.is_valid().to_numpy()
    rows = pd.DataFrame({side: ids_to_pandas(column.filter(there))})
    for band, cells in values.items():
        rows[band] = pd.Series(cells, dtype=object)[there].to_numpy()
    check_once(TABLE_OF[side], side, *beyond_one(rows[side]))
    return rows


def check_bands(bands: Bands, slices: Sequence[Slice], key: str = "slices") -> None:
    """Reject slices, or columns with groups, with too many values.

    Raises:
        DataError: There is one.
    """
    for slice_ in slices:
        cells = [[_cell(value, key) for value in bands.rows[band.column]] for band in slice_.bands]
        different = {values for row in zip(*cells, strict=True) for values in product(*row)}
        check_values(key, slice_ if key == "slices" else slice_.names, len(different))


def _cell(value: Any, key: str) -> list[str]:
    several = value if isinstance(value, list) else [value]
    return [one or "" for one in several] if key == "slices" else [one for one in several if one is not None]


def _values(side: Side, table: MemoryTable, band: Band, named_by: str) -> list[Any]:
    import pyarrow as pa

    if band.edges:
        table.schema.typed(None, band.name, NUMBER_KINDS, "a number, which has edges")
        numbers = table.column(band.name).cast(pa.float64(), safe=False).to_pylist()
        return [None if n is None or n != n else band.labels[bisect_right(band.edges, n)] for n in numbers]
    edges = "; give edges to other numbers, as in 'age(18, 35)'" if named_by == "slices" else ""
    expected = f"{GROUPS_FORM}{edges}"
    kinds = (*PLAIN_KINDS, "array") if side == "item" else PLAIN_KINDS
    column_type = table.schema.typed(None, band.name, kinds, expected)
    column = table.column(band.name)
    if column_type.kind != "array":
        return plain_strings(column)
    if column_type.element is None or column_type.element.kind not in PLAIN_KINDS:
        raise wrong_group(side, band.name, expected, column_type.name)
    missing = NO_VALUE if named_by == "slices" else None
    # An item without a value in its array belongs to no group.
    return [[missing if value is None else value for value in cell] if cell else None for cell in arrays_of_strings(column)]
