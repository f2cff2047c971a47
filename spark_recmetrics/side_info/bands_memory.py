"""The values of slices and groups in memory, from the caller's tables of users and items."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import TABLE_OF, Columns, Side
from spark_recmetrics.inputs.contract import NUMBER_KINDS, PLAIN_KINDS, ColumnType
from spark_recmetrics.inputs.memory import MemoryInputs, MemoryTable, cast_ids, clean_train
from spark_recmetrics.request.request import SliceRequest
from spark_recmetrics.request.slices import COUNTED, NO_VALUE, Band, Slice, steps_of
from spark_recmetrics.side_info.descriptions import GROUPS_FORM, beyond_one, check_once, check_values, wrong_group
from spark_recmetrics.side_info.known import Bands

if TYPE_CHECKING:
    import pandas as pd


def with_bands(rows: pd.DataFrame, bands: Bands) -> pd.DataFrame:
    """The rows with the value of every band after their other columns."""
    values = bands.rows.set_index(bands.side)
    joined = rows.assign()
    for column, default in bands.defaults.items():
        by_id = dict(zip(values.index, values[column], strict=True))
        filled = np.empty(len(rows), dtype=object)
        filled[:] = [default if (value := by_id.get(id_)) is None else value for id_ in rows[bands.side]]
        joined[column] = filled
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
    counted = [band for band in request.counted if band.name == COUNTED[side]]
    counts: dict[Any, int] = {}
    steps: dict[Band, Sequence[float]] = {}
    if counted and inputs.train is not None:
        counts = Counter(clean_train(inputs.train)[side].to_pylist())
        histogram = Counter(counts.values())
        steps = {band: steps_of(band, histogram) for band in counted if not band.edges}
    table = inputs.segments if side == "user" else inputs.groups
    own = request.bands_of_table(side)
    rows = read_bands(side, table if own else None, (columns.ids(side), ids), own)
    check_bands(side, rows, request.by_side[side], own)
    return _with_counted(side, rows, own, counted, (counts, steps))


def _with_counted(
    side: Side, rows: pd.DataFrame, own: Sequence[Band], counted: Sequence[Band], trained: tuple[Mapping[Any, int], Any]
) -> Bands:
    """The bands of columns, and those by the number of training rows."""
    import pandas as pd

    counts, steps = trained
    ids = list(dict.fromkeys([*rows[side], *counts])) if counted else list(rows[side])
    found = pd.DataFrame({side: pd.Series(ids, dtype=object)})
    defaults: dict[str, Any] = {}
    for band in own:
        by_id = dict(zip(rows[side], rows[band.column], strict=True))
        found[band.column] = pd.Series([by_id.get(id_) for id_ in ids], dtype=object)
        several = any(isinstance(value, list) for value in rows[band.column])
        defaults[band.column] = [NO_VALUE] if several else NO_VALUE
    for band in counted:
        edges = band.edges or steps.get(band, ())
        labels = band.labels if band.edges else band.labels[1:]
        side_of = bisect_right if band.edges else _first_step
        found[band.column] = pd.Series(
            [labels[side_of(edges, counts[id_])] if id_ in counts else None for id_ in ids], dtype=object
        )
        defaults[band.column] = band.labels[bisect_right(band.edges, 0)]
    return Bands(side, found, defaults)


def _first_step(steps: Sequence[float], n: int) -> int:
    return next((place for place, upper in enumerate(steps) if n <= upper), len(steps))


def read_bands(
    side: Side, table: MemoryTable | None, ids: tuple[str, ColumnType], bands: Sequence[Band], key: str = "slices"
) -> pd.DataFrame:
    """The ids of a table, and `Band.column` for each band: a string, a list of strings, or None.

    Args:
        side: `user` or `item`.
        table: The caller's table.
        ids: The name and the type of its column of ids.
        bands: The columns.
        key: What the columns are named by: `slices`, or `groups`.

    Raises:
        DataError: A column has a type that cannot be used.
    """
    import pandas as pd

    if table is None:
        return pd.DataFrame({side: pd.Series([], dtype=object)})
    name, column_type = ids
    values: dict[str, list[Any]] = {side: cast_ids(table.column(name), column_type).to_pylist()}
    values |= {band.column: _values(side, table, band, key) for band in bands}
    rows = pd.DataFrame({column: pd.Series(cells, dtype=object) for column, cells in values.items()})
    return rows[[id_ is not None for id_ in rows[side]]].reset_index(drop=True)


def check_bands(side: Side, rows: pd.DataFrame, slices: Sequence[Slice], bands: Sequence[Band], key: str = "slices") -> None:
    """Reject repeated ids, and slices with too many values.

    Raises:
        DataError: There are some.
    """
    check_once(TABLE_OF[side], side, *beyond_one(rows[side].tolist()))
    for slice_ in slices:
        if not all(band in bands for band in slice_.bands):
            continue
        cells = [[_cell(value, key) for value in rows[band.column]] for band in slice_.bands]
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
        return _as_strings(column)
    if column_type.element is None or column_type.element.kind not in PLAIN_KINDS:
        raise wrong_group(side, band.name, expected, column_type.name)
    missing = NO_VALUE if named_by == "slices" else None
    cells = column.cast(pa.list_(pa.string())).to_pylist()
    # An item without a value in its array belongs to no group.
    return [[missing if value is None else value for value in cell] if cell else None for cell in cells]


def _as_strings(column: Any) -> list[str | None]:
    """The values as Spark writes them."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):  # integers of pandas next to a missing value
        column = column.cast(pa.int64())
    strings: list[str | None] = column.cast(pa.string()).to_pylist()
    return strings
