"""Canonical rows of the caller's tables of pandas, polars, pyarrow and others, with their faults counted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import cached_property, reduce
from heapq import nsmallest
from operator import or_
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_recmetrics.columns import Columns, WrongTypeError, lost_value
from spark_recmetrics.conventions import Convention
from spark_recmetrics.errors import DataError, not_utf_8
from spark_recmetrics.inputs import row_rules
from spark_recmetrics.inputs.accepted_columns import (
    BIGINT,
    STRING,
    ChosenColumns,
    ColumnType,
    ListColumns,
    TableSchema,
    choose_columns,
    common_id,
)
from spark_recmetrics.inputs.data_report import N_EXAMPLES
from spark_recmetrics.inputs.hashing import xxhash64
from spark_recmetrics.inputs.tables import CanonicalTables, Tables, arrow_table
from spark_recmetrics.metrics.arrays import position_in_user
from spark_recmetrics.request.request import Request

_EXACT_INTEGERS = 2.0**53
"""Doubles have all smaller integers."""


class MemoryTable:
    """One of the caller's tables. Columns become Arrow data when they are read, and floats in `whole` become integers."""

    def __init__(self, name: str, table: Any, whole: Collection[str] = ()) -> None:
        self.name = name
        self._whole = whole
        self.is_pandas = type(table).__module__.partition(".")[0] == "pandas"
        self._table = table if self.is_pandas else arrow_table(name, table)
        self._columns: dict[str, pa.ChunkedArray] = {}

    @cached_property
    def schema(self) -> TableSchema:
        """The columns, for the rules of `accepted_columns`."""
        names = list(self._table.columns) if self.is_pandas else self._table.column_names
        return TableSchema(self.name, list(map(str, names)), self.type_of, self.column)

    def __len__(self) -> int:
        return len(self._table)

    def type_of(self, name: str) -> ColumnType:
        """The type of a column."""
        column = self.column(name)
        column_type = type_of_arrow(column.type)
        if self.is_pandas and column_type.kind in ("float", "string") and column.null_count == len(column):
            return ColumnType("empty", column_type.name)  # pandas stores a column without values in any type
        # pandas stores integers next to a missing value as floats.
        if column_type.kind != "float" or not (name in self._whole or (self.is_pandas and column.null_count)):
            return column_type
        numbers = column.drop_null().to_numpy()
        whole, exact = np.isfinite(numbers) & (np.trunc(numbers) == numbers), np.abs(numbers) < _EXACT_INTEGERS
        if name not in self._whole:
            return replace(column_type, integral=bool(whole.all()), inexact=bool(whole.all() and not exact.all()))
        if len(lost := numbers[~(whole & exact)]):
            raise lost_value(f"cast_ids: {self.name}.{name}", "bigint", min(map(_as_java, np.unique(lost))))
        return replace(column_type, integral=True)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column as Arrow data. `DataError` if its values are of several types, or its name is not a string."""
        if name not in self._columns:
            column = self._columns[name] = _plain(self._series(name) if self.is_pandas else self._table[name])
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                problem = not_utf_8(None) if "UTF8" in str(error) else f"cannot be read as Arrow data: {error}"
                raise DataError(f"{self.name}: column {name!r}: {problem}") from error
        return self._columns[name]

    def ordered(self, name: str) -> pa.ChunkedArray:
        """A column of arrays. `DataError` if pandas has sets, which Arrow reads in any order."""
        if self.is_pandas and any(isinstance(value, set | frozenset) for value in self._table[name]):
            raise DataError(
                f"{self.name}: column {name!r}: expected ordered lists, found a set: convert it to a list in its order"
            )
        return self.column(name)

    def _series(self, name: str) -> pa.ChunkedArray:
        if name not in self._table:
            other = next(column for column in self._table if str(column) == name)
            raise DataError(f"{self.name}: expected strings as names of columns, found {other!r}: rename it to {name!r}")
        series = self._table[name]
        try:
            array = _array_of(series)
        except (OverflowError, TypeError, ValueError, NotImplementedError) as error:  # or a subclass, from pyarrow
            types = sorted({_python_type(value) for value in series.dropna()})
            if types == ["int"]:
                problem = "integers of at most 38 digits, found a longer one: make strings of them first"
            elif isinstance(error, UnicodeEncodeError):
                problem = "strings of valid characters, found a surrogate: replace it"
            elif len(types) == 1:
                problem = f"values that Arrow can hold, found {types[0]}: cast them first"
            else:
                problem = f"values of one type, found {', '.join(types[:5])}: cast them to one type first"
            raise DataError(f"{self.name}: column {name!r}: expected {problem}") from error
        return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _array_of(series: pd.Series[Any]) -> pa.Array:
    if isinstance(series.dtype, pd.SparseDtype):
        series = pd.Series(np.asarray(series))
    try:
        return pa.array(series, from_pandas=True)
    except OverflowError:
        return pa.array(series, type=pa.decimal128(38, 0), from_pandas=True)


def _python_type(value: Any) -> str:
    name = type(value).__name__
    return f"{name} of {' and '.join(sorted(map(_python_type, value)))}" if isinstance(value, list | tuple | set) else name


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without encodings, and with plain strings and lists; unsigned integers beyond 64 bits are decimals."""
    if pa.types.is_dictionary(column.type):  # Arrow cannot decode one of views, such as polars writes
        values = _plain_type(column.type.value_type)
        chunks = [pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(values)) for part in column.chunks]
        column = pa.chunked_array(chunks, pa.dictionary(column.type.index_type, values))
    plain = _plain_type(column.type)
    if pa.types.is_uint64(plain) and (pc.max(column.cast(plain)).as_py() or 0) >= 2**63:
        plain = pa.decimal128(38, 0)
    return column if plain == column.type else column.cast(plain)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or getattr(pa.types, "is_string_view", lambda _: False)(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain_type(field.type)) for field in kind])
    return kind


_INTEGERS = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
_SIMPLE_TYPES = {
    **{kind: ColumnType("integer", name) for name, kind in _INTEGERS.items()},
    **dict.fromkeys((pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()), BIGINT),
    **dict.fromkeys((pa.float16(), pa.float32()), ColumnType("float", "float")),
    **dict.fromkeys((pa.date32(), pa.date64()), ColumnType("date", "date")),
    pa.float64(): ColumnType("float", "double"),
    pa.string(): STRING,
    pa.bool_(): ColumnType("boolean", "boolean"),
    pa.null(): ColumnType("empty", "void"),
}


def type_of_arrow(kind: pa.DataType) -> ColumnType:
    """The type of an Arrow column, with the name that Spark gives it."""
    if kind in _SIMPLE_TYPES:
        return _SIMPLE_TYPES[kind]
    if pa.types.is_decimal(kind):
        return ColumnType("decimal", f"decimal({kind.precision},{kind.scale})")
    if pa.types.is_list(kind):
        element = type_of_arrow(kind.value_type)
        return ColumnType("array", f"array<{element.name}>", element=element)
    if pa.types.is_struct(kind):
        fields = tuple((field.name, type_of_arrow(field.type)) for field in kind)
        named = ",".join(f"{name}:{field_type.name}" for name, field_type in fields)
        return ColumnType("struct", f"struct<{named}>", fields=fields)
    return ColumnType("other", "timestamp" if pa.types.is_timestamp(kind) else str(kind))


class MemoryInputs(CanonicalTables[pa.Table, MemoryTable]):
    """The caller's tables in canonical form. Faults have been counted."""


def rows_of_user(rows: pa.Table, user: object) -> pa.Table:
    """The rows of one user; ids are compared as strings."""
    return rows.filter(pc.equal(as_strings(rows["user"]), str(user)))


def read_inputs(tables: Tables, request: Request) -> MemoryInputs:
    """Canonical forms of the caller's tables, with their faults counted. `DataError` as from `choose_columns`."""
    columns = request.columns
    whole = (columns.user, columns.item) if request.cast_ids == "bigint" else ()
    sources = {name: MemoryTable(name, table, whole) for name, table in tables.by_name.items() if name in request.tables_read}
    with example_in_errors():
        chosen = choose_columns({name: source.schema for name, source in sources.items()}, request)
    predicted, uncut = dict[str, pa.Table](), dict[str, pa.Table]()
    for table, read in chosen.lists.items():
        longest = request.longest_array(table) if read.arrays else None
        predicted[table] = _canonical(sources[table], read, chosen, columns, longest)
        if longest is not None:
            uncut[table] = _canonical(sources[table], read, chosen, columns, None)
    source = sources["truth"]
    canonical = _ids(source, columns, chosen)
    canonical["rating"] = source.column(columns.rating) if chosen.has_ratings else pa.chunked_array([np.ones(len(source))])
    if chosen.propensity:
        canonical["propensity"] = as_doubles(source.column(columns.propensity))
    truth, catalog = pa.table(canonical), None
    if "catalog" in sources:
        catalog = cast_ids(sources["catalog"].column(columns.item), chosen.items)
        catalog = pa.chunked_array([pc.unique(catalog).drop_null()])
        predicted = {table: _with_catalog_flag(rows, catalog) for table, rows in predicted.items()}
        uncut = {table: _with_catalog_flag(rows, catalog) for table, rows in uncut.items()}
        truth = _with_catalog_flag(truth, catalog)
    inputs = MemoryInputs(
        predicted,
        truth,
        chosen.has_ratings,
        pa.table(_ids(sources["train"], columns, chosen)) if "train" in sources else None,
        catalog,
        sources.get("user_segments"),
        sources.get("item_groups"),
        sources.get("item_features"),
        uncut=uncut,
        members=_members(tables, sources, chosen, request),
    )
    by_table = row_rules.faults_by_table(inputs, request, _columns_of)
    counts = {table: _counted(rows, faults) for table, (rows, faults) in by_table.items()}
    for table, rows in predicted.items():
        counts[table] |= {name: int(is_first.sum()) for name, is_first in row_rules.first_ranks(_columns_of(rows)).items()}
    counts["truth"] |= _truth_counts(truth, request.convention, has_ratings=chosen.has_ratings)
    return replace(inputs, counts=counts)


def _members(tables: Tables, sources: Mapping[str, MemoryTable], chosen: ChosenColumns, request: Request) -> pa.Table | None:
    """The rows of `columns.KIND_MEMBER`. Raises `DataError` if the type of their ids is that of no other user."""
    parts, name = [], request.columns.user
    for table, users in tables.without_items.items():
        if not users:
            continue
        source = MemoryTable(table, pd.DataFrame({name: pd.Series(users, dtype=object)}))
        with example_in_errors():
            common_id("user", [source.schema, *(sources[other].schema for other in ("predictions", "truth"))], name)
        if source.column(name).null_count:
            raise DataError(f"{table}: expected a user, found None with an empty list of items: remove it")
        ids, n = cast_ids(source.column(name), chosen.users), len(users)
        counters = {"n_truth": [int(table == "truth")] * n, "n_recommended": [int(table == "predictions")] * n}
        parts.append(pa.table({"user": ids, **counters}))
    return pa.concat_tables(parts) if parts else None


def repeats_by_user(rows: pa.Table) -> pa.Table:
    """`[model,] user, n_repeats` of the lists with rows that repeat an item."""
    lists = [name for name in ("model", "user") if name in rows.column_names]
    pairs = rows.select([*lists, "item"]).group_by([*lists, "item"]).aggregate([([], "count_all")])
    repeated = pairs.filter(pc.greater(pairs["count_all"], 1))
    counts = repeated.group_by(lists).aggregate([("count_all", "sum"), ([], "count_all")])
    n_repeats = pc.subtract(counts["count_all_sum"], counts["count_all"])
    return counts.select(lists).append_column("n_repeats", n_repeats)


@contextmanager
def example_in_errors() -> Iterator[None]:
    """Raise `DataError` with an example instead of `WrongTypeError`, like `storage.read.example_in_errors`."""
    try:
        yield
    except WrongTypeError as error:
        raise DataError(error.with_examples(_first_word, lambda column: not len(column))) from None


def _first_word(column: pa.ChunkedArray, usual: str) -> str | None:
    """The first string that does not match the pattern."""
    strings = column.drop_null().unique()
    words = strings.filter(pc.invert(pc.match_substring_regex(strings, usual)))
    return words[0].as_py() if len(words) else None


def _ids(source: MemoryTable, columns: Columns, chosen: ChosenColumns) -> dict[str, pa.ChunkedArray]:
    return {
        "user": cast_ids(source.column(columns.user), chosen.users),
        "item": cast_ids(source.column(columns.item), chosen.items),
    }


def cast_ids(column: pa.ChunkedArray, to: ColumnType) -> pa.ChunkedArray:
    """Ids in the type that they have in the evaluation."""
    if pa.types.is_floating(column.type):  # integers of pandas next to a missing value
        column = column.cast(pa.int64())
    if to.kind == "decimal":
        precision, scale = to.name.removeprefix("decimal(").removesuffix(")").split(",")
        return column.cast(pa.decimal128(int(precision), int(scale)))
    return column.cast(_INTEGERS[to.name]) if to.kind == "integer" else as_strings(column)


def as_doubles(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as the nearest doubles. Arrow's cast of a decimal can be one double off."""
    column = column.cast(pa.string()) if pa.types.is_decimal(column.type) else column
    return column.cast(pa.float64(), safe=False)


def as_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values as Spark writes them."""
    if pa.types.is_decimal(column.type):
        strings = [None if number is None else f"{number:f}" for number in column.to_pylist()]
    elif pa.types.is_floating(column.type):
        null = column.is_null().to_numpy()
        strings = [None if missing else _as_java(number) for number, missing in zip(column.to_numpy(), null, strict=True)]
    else:
        return column.cast(pa.string())
    return pa.chunked_array([pa.array(strings, pa.string())])


def _as_java(number: np.floating[Any]) -> str:
    """A float as Java writes it: 0.001 and 1.0E-4, 1.0 and 1.0E7."""
    if not np.isfinite(number):
        return "NaN" if np.isnan(number) else f"{'-' if number < 0 else ''}Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return str(number)
    mantissa, _, exponent = f"{Decimal(str(number)).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}E{int(exponent)}"


def _canonical(
    source: MemoryTable, read: ListColumns, chosen: ChosenColumns, columns: Columns, longest: int | None
) -> pa.Table:
    """Canonical predictions. Arrays become rows, up to a length."""
    canonical = {"model": as_strings(source.column(columns.model))} if read.model else {}
    if not read.arrays:
        canonical |= _ids(source, columns, chosen)
        if read.rank is not None:
            canonical["rank"] = source.column(read.rank).cast(pa.int64())
        return pa.table(canonical if read.score is None else canonical | {"score": source.column(read.score)})
    canonical["user"] = cast_ids(source.column(columns.user), chosen.users)
    arrays = source.ordered(columns.items).combine_chunks()
    arrays = arrays if isinstance(arrays, pa.Array) else pa.concat_arrays(arrays.chunks)
    arrays = arrays if longest is None else pc.list_slice(arrays, 0, longest)
    row, elements = pc.list_parent_indices(arrays), pc.list_flatten(arrays)
    canonical = {name: column.take(row) for name, column in canonical.items()}
    item = elements if read.item_field is None else pc.struct_field(elements, read.item_field)
    canonical["item"] = cast_ids(pa.chunked_array([item]), chosen.items)
    canonical["rank"] = pa.chunked_array([position_in_user(row.to_numpy(zero_copy_only=False), len(source))])
    if read.score is not None:
        canonical["score"] = pa.chunked_array([pc.struct_field(elements, read.score)])
    return pa.table(canonical)


def _with_catalog_flag(rows: pa.Table, catalog: pa.ChunkedArray) -> pa.Table:
    in_catalog = pc.is_in(rows["item"], catalog.combine_chunks())
    return rows.append_column("in_catalog", pc.if_else(in_catalog, True, pa.scalar(None, pa.bool_())))


def _truth_counts(rows: pa.Table, convention: Convention, *, has_ratings: bool) -> dict[str, Any]:
    """Further counts of canonical ground truth: relevant rows, the range of ratings, and a hash."""
    rating = number_of(rows["rating"])
    usable = rating.value[~rating.unusable]
    hashed = xxhash64(rows["user"], rows["item"], as_doubles(rows["rating"])).view(np.int64)
    return {
        "relevant": int(relevant_rows(rows, convention, has_ratings=has_ratings).sum()),
        **({"lowest": float(usable.min()), "highest": float(usable.max())} if len(usable) else {}),
        # A sum does not depend on the order of the rows.
        "hash": sum(hashed.astype(object).tolist()) if len(rows) else None,
    }


def relevant_rows(rows: pa.Table, convention: Convention, *, has_ratings: bool) -> NDArray[np.bool_]:
    """Whether each row of canonical ground truth is relevant."""
    if not has_ratings:
        return np.ones(len(rows), dtype=bool)
    kind = rows["rating"].type
    single = pa.types.is_floating(kind) and kind.bit_width < 64
    relevant: NDArray[np.bool_] = row_rules.is_relevant(number_of(rows["rating"]), convention, single=single)
    return relevant


def number_of(column: pa.ChunkedArray) -> row_rules.Number:
    """A column as doubles, for the rules."""
    null = column.is_null().to_numpy()
    value = as_doubles(column).to_numpy()
    return row_rules.Number(value, null, np.isnan(value) & ~null, np.isinf(value))


def clean_predictions(rows: pa.Table, convention: Convention, policies: Mapping[str, str]) -> pa.Table:
    """Canonical predictions without faulty rows. Missing scores are null, and the type is kept."""
    kept = _without(rows, row_rules.left_out(row_rules.prediction_faults(_columns_of(rows)), convention, policies))
    if "score" not in kept.column_names or not pa.types.is_floating(kept["score"].type):
        return kept
    score, missing = kept["score"], number_of(kept["score"]).missing
    if not missing.any():
        return kept
    nulled = pc.if_else(pa.array(missing), pa.scalar(None, score.type), score)
    return kept.set_column(kept.column_names.index("score"), "score", nulled)


def clean_truth(rows: pa.Table, request: Request) -> pa.Table:
    """Canonical ground truth without faulty rows, and without missing ratings if the convention drops them."""
    return _without(rows, row_rules.left_out(row_rules.truth_faults(_columns_of(rows)), request.convention, request.policies))


def clean_train(rows: pa.Table) -> pa.Table:
    """Training rows that have a user and an item."""
    return _without(rows, [row_rules.null_ids(_columns_of(rows))])


def to_pandas(rows: pa.Table) -> pd.DataFrame:
    """The rows as workers get them. Integers next to a null stay integers, in a column of objects."""
    frame: pd.DataFrame = rows.to_pandas(integer_object_nulls=True)
    return frame


def ids_to_pandas(ids: pa.ChunkedArray) -> pd.Series[Any]:
    """Ids without a null, in the type that `to_pandas` gives them."""
    return to_pandas(pa.table({"id": ids}))["id"]


def _columns_of(rows: pa.Table) -> row_rules.RowColumns:
    return row_rules.RowColumns(
        rows.column_names, lambda name: rows[name].is_null().to_numpy(), lambda name: number_of(rows[name])
    )


def _without(rows: pa.Table, faults: Sequence[NDArray[np.bool_]]) -> pa.Table:
    """The rows without those that have a fault."""
    faulty = reduce(or_, faults)
    kept = rows.filter(pa.array(~faulty)) if faulty.any() else rows
    return kept.drop_columns(["in_catalog"]) if "in_catalog" in kept.column_names else kept


def _counted(rows: pa.Table, faults: Mapping[str, Any]) -> dict[str, Any]:
    """The number of rows and of each fault, with examples of each."""
    counts: dict[str, Any] = {"rows": len(rows)}
    for check, fault in faults.items():
        counts[check] = int(fault.sum())
        if counts[check]:
            keys = [key for key in row_rules.IDS if key in rows.column_names]
            wrong = rows.select(keys).filter(pa.array(fault)).to_pylist()
            counts[f"{check}_example"] = "; ".join(nsmallest(N_EXAMPLES, (_named(row, keys) for row in wrong)))
    return counts


def _named(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    return ", ".join(f"{key} {'null' if row[key] is None else row[key]}" for key in keys)
