"""Feature vectors and categories of items in memory, from the columns of the caller's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.inputs.contract import CATEGORY_KINDS, VECTOR_KINDS, ColumnType, Kind
from spark_recmetrics.inputs.memory import MemoryTable, as_strings
from spark_recmetrics.side_info.descriptions import CATEGORIES_FORM, FEATURES_FORM, MOST_FEATURES, SPARSE, wrong_form

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_NUMERIC: tuple[Kind, ...] = ("integer", "float", "decimal", "empty")
_INTEGER: tuple[Kind, ...] = ("integer", "empty")
_DENSE = 1
"""The type of dense vectors of Spark ML; that of sparse ones is 0."""


class Vector(NamedTuple):
    """The numbers of a feature vector, its length, and whether it is a sparse one that does not fit its size."""

    numbers: NDArray[np.float64] | None = None
    length: int | None = None
    misplaced: bool = False


def feature_vectors(table: MemoryTable, name: str) -> list[Vector]:
    """The feature vector of each row.

    Raises:
        DataError: There is no such column, or it holds something else.
    """
    column_type = table.schema.typed("features", name, VECTOR_KINDS, FEATURES_FORM)
    column = table.column(name)
    if column_type.kind == "empty":
        return [Vector()] * len(column)
    if _is_array_of(column_type, _NUMERIC):
        return [Vector() if numbers is None else Vector(numbers, len(numbers)) for numbers in _arrays(column)]
    fields = dict(column_type.fields)
    if not _is_sparse(fields):
        raise wrong_form("features", name, FEATURES_FORM, column_type.name)
    forms = _cells(column, "type") if "type" in fields and fields["type"].kind in _INTEGER else [0] * len(column)
    parts = (_cells(column, "size"), _arrays(_field(column, "indices")), _arrays(_field(column, "values")), forms)
    rows = zip(column.is_valid().to_pylist(), *parts, strict=True)
    return [_sparse(size, places, numbers, form or 0) if valid else Vector() for valid, size, places, numbers, form in rows]


def categories_of(table: MemoryTable, name: str) -> list[list[str]]:
    """The categories of each row.

    Raises:
        DataError: There is no such column, or it holds something else.
    """
    column_type = table.schema.typed("categories", name, (*CATEGORY_KINDS, "array"), CATEGORIES_FORM)
    if column_type.kind != "array":
        return [[] if value is None else [value] for value in plain_strings(table.column(name))]
    if not _is_array_of(column_type, CATEGORY_KINDS):
        raise wrong_form("categories", name, CATEGORIES_FORM, column_type.name)
    return [[value for value in values or () if value is not None] for values in arrays_of_strings(table.column(name))]


def plain_strings(column: pa.ChunkedArray) -> list[str | None]:
    """The values as Spark writes them."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):  # integers of pandas next to a missing value
        column = column.cast(pa.int64())
    strings: list[str | None] = as_strings(column).to_pylist()
    return strings


def arrays_of_strings(column: pa.ChunkedArray) -> list[list[str | None] | None]:
    """The same for arrays."""
    import pyarrow.compute as pc

    values, ends = plain_strings(pc.list_flatten(column)), _ends(column)
    rows = zip(column.is_valid().to_pylist(), ends[:-1], ends[1:], strict=True)
    return [values[start:end] if valid else None for valid, start, end in rows]


def _ends(column: pa.ChunkedArray) -> list[int]:
    """Where each array starts and ends among all elements."""
    import pyarrow.compute as pc

    lengths = pc.list_value_length(column).fill_null(0).to_numpy()
    ends: list[int] = np.append(0, np.cumsum(lengths)).tolist()
    return ends


def _arrays(column: pa.ChunkedArray) -> list[NDArray[np.float64] | None]:
    """The numbers of each array, NaN where one is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(column.type):
        return [None] * len(column)
    numbers = pc.list_flatten(column).cast(pa.float64(), safe=False).to_numpy()
    parts = np.split(numbers, _ends(column)[1:-1]) if len(column) else []
    return [part if valid else None for valid, part in zip(column.is_valid().to_pylist(), parts, strict=True)]


def _field(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return pc.struct_field(column, name)


def _cells(column: pa.ChunkedArray, name: str) -> list[Any]:
    cells: list[Any] = _field(column, name).to_pylist()
    return cells


def _is_array_of(column_type: ColumnType | None, kinds: Sequence[Kind]) -> bool:
    return column_type is not None and column_type.element is not None and column_type.element.kind in kinds


def _is_sparse(fields: Mapping[str, ColumnType]) -> bool:
    """Whether a struct has the fields of a sparse vector."""
    if not fields.keys() >= set(SPARSE) or fields["size"].kind not in _INTEGER:
        return False
    arrays = (("indices", _INTEGER), ("values", _NUMERIC))
    return all(fields[name].kind == "empty" or _is_array_of(fields[name], kinds) for name, kinds in arrays)


def _sparse(size: int | None, places: Any, numbers: Any, form: int) -> Vector:
    """The vector of a struct."""
    if form == _DENSE:
        return Vector() if numbers is None else Vector(numbers, len(numbers))
    if form != 0 or size is None or places is None or numbers is None:
        return Vector(length=size, misplaced=True)
    fits = bool(((places >= 0) & (places < size)).all()) and len(np.unique(places)) == len(places) == len(numbers)
    if not fits or size < 0:
        return Vector(length=size, misplaced=True)
    if size > MOST_FEATURES:  # rejected by its length, without taking its memory
        return Vector(length=size)
    filled = np.zeros(size)
    filled[places.astype(np.int64)] = numbers
    return Vector(filled, size)
