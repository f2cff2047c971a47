"""Feature vectors and categories of items in memory, from the columns of the caller's table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_recmetrics.inputs.accepted_columns import STRING
from spark_recmetrics.inputs.memory import MemoryTable, as_doubles, cast_ids
from spark_recmetrics.side_info.checks import DENSE, INTEGER_KINDS, MOST_FEATURES, categories_type, features_type


class Vector(NamedTuple):
    """The numbers of a feature vector, its length, and whether it is a sparse vector that does not fit its size."""

    numbers: NDArray[np.float64] | None = None
    length: int | None = None
    misplaced: bool = False

    @classmethod
    def dense(cls, numbers: NDArray[np.float64] | None) -> Vector:
        """The vector with these numbers."""
        return cls() if numbers is None else cls(numbers, len(numbers))


def feature_vectors(table: MemoryTable, name: str) -> list[Vector]:
    """The feature vector of each row."""
    column_type, column = features_type(table.schema, name), table.ordered(name)
    if column_type.kind == "empty":
        return [Vector()] * len(column)
    if column_type.kind == "array":
        return list(map(Vector.dense, _arrays(column)))
    fields = dict(column_type.fields)
    sizes = pc.struct_field(column, "size").to_pylist()
    indices, values = (_arrays(pc.struct_field(column, part)) for part in ("indices", "values"))
    has_type = "type" in fields and fields["type"].kind in INTEGER_KINDS
    types = pc.struct_field(column, "type").to_pylist() if has_type else [0] * len(column)
    rows = zip(column.is_valid().to_pylist(), sizes, indices, values, types, strict=True)
    return [_of_struct(*parts) if valid else Vector() for valid, *parts in rows]


def _of_struct(size: int | None, indices: Any, values: Any, vector_type: int | None) -> Vector:
    if vector_type == DENSE:
        return Vector.dense(values)
    if vector_type or size is None or size < 0 or indices is None or values is None:
        return Vector(length=size, misplaced=True)
    in_range = (indices >= 0) & (indices < size)  # false for NaN
    if not in_range.all() or not len(np.unique(indices)) == len(indices) == len(values):
        return Vector(length=size, misplaced=True)
    if size > MOST_FEATURES:  # rejected because of its length, so do not fill it
        return Vector(length=size)
    filled = np.zeros(size)
    filled[indices.astype(np.int64)] = values
    return Vector(filled, size)


def categories_of(table: MemoryTable, name: str) -> list[list[str]]:
    """The categories of each row."""
    column_type, column = categories_type(table.schema, name), table.column(name)
    if column_type.kind != "array":
        return [[] if value is None else [value] for value in plain_strings(column)]
    return [[value for value in values or () if value is not None] for values in arrays_of_strings(column)]


def plain_strings(column: pa.ChunkedArray) -> list[str | None]:
    """The values as Spark writes them; an empty string is no value."""
    return [value or None for value in cast_ids(column, STRING).to_pylist()]


def arrays_of_strings(column: pa.ChunkedArray) -> list[list[str | None] | None]:
    """The arrays, with values as Spark writes them."""
    values, ends = plain_strings(pc.list_flatten(column)), _ends(column)
    rows = zip(column.is_valid().to_pylist(), ends[:-1], ends[1:], strict=True)
    return [values[start:end] if valid else None for valid, start, end in rows]


def _arrays(column: pa.ChunkedArray) -> list[NDArray[np.float64] | None]:
    """The numbers of each array, NaN where one is missing."""
    if pa.types.is_null(column.type):
        return [None] * len(column)
    numbers = as_doubles(pc.list_flatten(column)).to_numpy()
    parts = np.split(numbers, _ends(column)[1:-1]) if len(column) else []
    return [part if valid else None for valid, part in zip(column.is_valid().to_pylist(), parts, strict=True)]


def _ends(column: pa.ChunkedArray) -> list[int]:
    """Where each array starts and ends among all elements."""
    lengths = pc.list_value_length(column).fill_null(0).to_numpy()
    ends: list[int] = np.append(0, np.cumsum(lengths)).tolist()
    return ends
