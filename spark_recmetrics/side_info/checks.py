"""Checks of the tables of users and items, with the same messages for Spark and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from spark_recmetrics.columns import Side
from spark_recmetrics.errors import DataError
from spark_recmetrics.inputs.accepted_columns import (
    CATEGORY_KINDS,
    NUMBER_KINDS,
    PLAIN_KINDS,
    VECTOR_KINDS,
    ColumnType,
    Kind,
    TableSchema,
)
from spark_recmetrics.request.slices import MOST_VALUES, Band, Slice
from spark_recmetrics.text import printable

MOST_CATEGORIES = 4096
"""The maximum number of categories. The driver collects them, and each is one bit of every recommended item."""

MOST_FEATURES = 1024
"""The maximum length of a feature vector. Each number takes 8 bytes wherever an item's properties are sent."""

SPARSE = ("size", "indices", "values")
"""The fields of a sparse vector: its length, the indices (from 0) of the given numbers, and these numbers. All others are 0."""

DENSE = 1
"""The type of dense vectors in Spark ML; that of sparse vectors is 0."""

INTEGER_KINDS: tuple[Kind, ...] = ("integer", "empty")

_FEATURES_FORM = f"an array of numbers, a vector, or a struct of {', '.join(SPARSE[:-1])} and {SPARSE[-1]}"
_CATEGORIES_FORM = "a string, an integer, or an array of these"
_GROUPS_FORM = "a string, an integer, a boolean or a date"


def band_type(schema: TableSchema, side: Side, band: Band, key: str) -> ColumnType:
    """The type of a column of `slices` or `groups`, which is the key. Only items can have several values, in an array."""
    if band.edges:
        return schema.typed(None, band.name, NUMBER_KINDS, "a number, because the slice has edges")
    edges = "; give edges to other numbers, as in 'age(18, 35)'" if key == "slices" else ""
    return _scalar_or_array(schema, None, band.name, PLAIN_KINDS, f"{_GROUPS_FORM}{edges}", arrays=side == "item")


def categories_type(schema: TableSchema, name: str) -> ColumnType:
    """The type of the column of categories, see `band_type`."""
    return _scalar_or_array(schema, "categories", name, CATEGORY_KINDS, _CATEGORIES_FORM, arrays=True)


def features_type(schema: TableSchema, name: str) -> ColumnType:
    """The type of the column of feature vectors, see `band_type`. It is an array, a struct, a vector or empty."""
    column_type = schema.typed("features", name, VECTOR_KINDS, _FEATURES_FORM)
    if column_type.kind in ("array", "struct") and not (is_array_of(column_type, NUMBER_KINDS) or _is_sparse(column_type)):
        raise schema.wrong_type("features", name, _FEATURES_FORM, column_type)
    return column_type


def _scalar_or_array(
    schema: TableSchema, key: str | None, name: str, kinds: Sequence[Kind], expected: str, *, arrays: bool
) -> ColumnType:
    column_type = schema.typed(key, name, (*kinds, "array") if arrays else kinds, expected)
    if column_type.kind == "array" and not is_array_of(column_type, kinds):
        raise schema.wrong_type(key, name, expected, column_type)
    return column_type


def is_array_of(column_type: ColumnType, kinds: Sequence[Kind]) -> bool:
    """Whether a type is an array of elements of these kinds."""
    return column_type.element is not None and column_type.element.kind in kinds


def _is_sparse(column_type: ColumnType) -> bool:
    fields = dict(column_type.fields)
    if not fields.keys() >= set(SPARSE) or fields["size"].kind not in INTEGER_KINDS:
        return False
    arrays = (("indices", INTEGER_KINDS), ("values", NUMBER_KINDS))
    return all(fields[name].kind == "empty" or is_array_of(fields[name], kinds) for name, kinds in arrays)


def check_once(table: str, side: Side, n_repeated: int, examples: str) -> None:
    """Raise `DataError` if a table has rows in addition to one row for each id."""
    if n_repeated:
        extra = f"{n_repeated} more, e.g. {side}s {printable(examples)}"
        raise DataError(f"{table}: expected one row for each {side}, found {extra}: remove the repeats")


def repeated_ids(ids: Collection[Any]) -> tuple[int, str]:
    """The number of ids minus the number of different ids, and up to five ids that are repeated."""
    # pandas compares strings only up to a NUL character.
    counts = Counter(ids)
    repeated = sorted(value for value, n in counts.items() if n > 1)
    return len(ids) - len(counts), ", ".join(map(str, repeated[:5]))


def check_values(key: str, slice_: Slice, n_values: int) -> None:
    """Raise `DataError` if a slice, or a column with groups (the key is `groups`), has more than `MOST_VALUES` values."""
    if n_values > MOST_VALUES:
        name, edges = slice_.names, ""
        if key == "slices":
            name, edges = str(slice_), "give edges to numbers, as in 'age(18, 35)', or "
        expected = f"expected at most {MOST_VALUES} values, found {n_values}"
        raise DataError(f"{key}: {name}: {expected}: {edges}group the values first")


def check_item_features(counts: Mapping[str, Any], examples: str) -> None:
    """Check that each item has one row, with examples of others, and that feature vectors can be compared."""
    # Sparse vectors that do not fit their size are `misplaced`. Vectors with a missing or non-finite number are `broken`.
    check_once("item_features", "item", counts["rows"] - counts["items"], examples)
    if counts.get("misplaced"):
        raise DataError(
            "item_features: expected sparse vectors with as many indices as values, and different indices from 0 to size - 1, "
            f"found {counts['misplaced']} invalid vectors: use null for an item without features"
        )
    shortest, longest = counts.get("shortest"), counts.get("longest")
    if shortest != longest or longest == 0 or (longest or 0) > MOST_FEATURES:
        lengths = f"{shortest}" if shortest == longest else f"{shortest} to {longest}"
        raise DataError(
            f"item_features: expected feature vectors of one length from 1 to {MOST_FEATURES}, found {lengths}: "
            "fill or shorten them; use null for an item without features"
        )
    if counts.get("broken"):
        raise DataError(
            f"item_features: expected finite numbers as features, found {counts['broken']} with a null or non-finite number: "
            "use null for an item without features"
        )


def check_categories(names: Sequence[str]) -> None:
    """Raise `DataError` if there are more than `MOST_CATEGORIES` categories."""
    if len(names) > MOST_CATEGORIES:
        raise DataError(f"item_features: expected at most {MOST_CATEGORIES} categories, found more: group them first")
