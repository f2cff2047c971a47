"""From the caller's tables of pandas, polars, pyarrow and others to canonical rows, in the form that `spark` describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import DECIMAL_COMMA, Columns, WrongTypeError, is_decimal_comma
from spark_recmetrics.conventions import Convention
from spark_recmetrics.errors import DataError
from spark_recmetrics.inputs.contract import ChosenColumns, ColumnType, ListColumns, TableSchema, choose_columns
from spark_recmetrics.inputs.hashing import xxhash64
from spark_recmetrics.inputs.rules import Number, any_null, is_relevant, prediction_faults, truth_faults
from spark_recmetrics.text import brief, printable

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    from spark_recmetrics.inputs.tables import Tables
    from spark_recmetrics.request.request import Request


N_EXAMPLES = 5
"""How many rows are named of those that a check counts."""


@dataclass(frozen=True)
class MemoryInputs:
    """The caller's tables in canonical form. The arguments are those of `spark.Inputs`; counts are numbers already."""

    predicted: Mapping[str, pa.Table]
    truth: pa.Table
    has_ratings: bool
    counts: Mapping[str, Mapping[str, Any]]
    train: pa.Table | None = None
    catalog: pa.ChunkedArray | None = None
    segments: MemoryTable | None = None
    groups: MemoryTable | None = None
    features: MemoryTable | None = None

    @property
    def has_rank(self) -> bool:
        """Predictions have ranks."""
        return "rank" in self.predicted["predictions"].column_names

    def has_scores(self, table: str) -> bool:
        """A table of predictions has scores that are read."""
        return "score" in self.predicted[table].column_names

    def of_user(self, table: str, user: object) -> MemoryInputs:
        """The rows of one user, with the lists of one table as predictions."""
        predicted = {"predictions": rows_of_user(self.predicted[table], user)}
        train = None if self.train is None else rows_of_user(self.train, user)
        return replace(self, predicted=predicted, truth=rows_of_user(self.truth, user), train=train)


def rows_of_user(rows: pa.Table, user: object) -> pa.Table:
    """The rows of one user; ids are compared as strings."""
    import pyarrow.compute as pc

    return rows.filter(pc.equal(as_strings(rows["user"]), str(user)))


class MemoryTable:
    """One of the caller's tables, whose columns are read as Arrow data when they are needed."""

    def __init__(self, name: str, table: Any) -> None:
        self.name = name
        self.is_pandas = type(table).__module__.partition(".")[0] == "pandas"
        self._table = table if self.is_pandas else _arrow_table(name, table)
        self._columns: dict[str, pa.ChunkedArray] = {}

    @cached_property
    def schema(self) -> TableSchema:
        """The columns, as the rules of `contract` read them."""
        names = list(self._table.columns) if self.is_pandas else self._table.column_names
        return TableSchema(self.name, list(map(str, names)), self.type_of, self.column)

    def __len__(self) -> int:
        return len(self._table)

    def type_of(self, name: str) -> ColumnType:
        """The type of a column."""
        column = self.column(name)
        column_type = type_of_arrow(column.type)
        if column_type.kind == "float" and self.is_pandas and column.null_count:
            # pandas makes floats of integers next to a missing value.
            numbers = column.drop_null().to_numpy()
            if len(numbers) and np.isfinite(numbers).all() and np.abs(numbers).max() < 2.0**63 and not (numbers % 1 != 0).any():
                return replace(column_type, whole=True)
        # pandas writes a column without values in any type.
        untyped = self.is_pandas and column_type.kind in ("float", "string") and column.null_count == len(column)
        return ColumnType("empty", column_type.name) if untyped else column_type

    def column(self, name: str) -> pa.ChunkedArray:
        """A column as Arrow data.

        Raises:
            DataError: Its values are of several types, or its name is no string.
        """
        if name not in self._columns:
            self._columns[name] = self._read(name)
        return self._columns[name]

    def _read(self, name: str) -> pa.ChunkedArray:
        import pyarrow as pa

        if not self.is_pandas:
            return _plain(self._table[name])
        if name not in self._table:
            other = next(column for column in self._table if str(column) == name)
            raise DataError(f"{self.name}: expected strings as names of columns, found {other!r}: rename it to {name!r}")
        series = self._table[name]
        try:
            array = _array_of(series)
        except (OverflowError, TypeError, ValueError, NotImplementedError) as error:  # of pyarrow, too
            types = sorted({_python_type(value) for value in series if not _is_missing(value)})
            if types == ["int"]:
                wanted, advice = "integers of at most 38 digits, found a longer one", "make strings of them first"
            elif isinstance(error, UnicodeEncodeError):
                wanted, advice = "strings of valid characters, found a surrogate", "replace it"
            elif len(types) == 1:
                wanted, advice = f"values that Arrow can hold, found {types[0]}", "cast them first"
            else:
                wanted, advice = f"values of one type, found {', '.join(types[:5])}", "cast them to one type first"
            raise DataError(f"{self.name}: column {name!r}: expected {wanted}: {advice}") from error
        return _plain(array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array]))


def _array_of(series: pd.Series[Any]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(series, from_pandas=True)
    except OverflowError:
        return pa.array(series, type=pa.decimal128(38, 0), from_pandas=True)


def _arrow_table(name: str, table: Any) -> pa.Table:
    import pyarrow as pa

    if isinstance(table, pa.Table):
        return table
    try:
        return pa.table(table)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{name}: cannot be read as Arrow data: {error}") from error


def _python_type(value: Any) -> str:
    name = type(value).__name__
    return f"{name} of {' and '.join(sorted(map(_python_type, value)))}" if isinstance(value, list | tuple | set) else name


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without encodings, and with plain strings and lists; unsigned integers beyond 64 bits are decimals."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = _plain_type(column.type)
    if pa.types.is_uint64(plain) and (pc.max(column.cast(plain)).as_py() or 0) >= 2**63:
        plain = pa.decimal128(38, 0)
    return column if plain == column.type else column.cast(plain)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if types.is_large_string(kind) or getattr(types, "is_string_view", lambda _: False)(kind):
        return pa.string()
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([(field.name, _plain_type(field.type)) for field in kind])
    return kind


_INTEGERS = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}


def type_of_arrow(kind: pa.DataType) -> ColumnType:
    """The type of an Arrow column, named as Spark names it."""
    import pyarrow as pa

    types = pa.types
    if types.is_integer(kind):
        return ColumnType("integer", _INTEGERS[kind.bit_width] if types.is_signed_integer(kind) else "bigint")
    if types.is_floating(kind):
        return ColumnType("float", "double" if kind.bit_width == 64 else "float", single=kind.bit_width < 64)
    if types.is_decimal(kind):
        return ColumnType("decimal", f"decimal({kind.precision},{kind.scale})")
    if types.is_list(kind):
        element = type_of_arrow(kind.value_type)
        return ColumnType("array", f"array<{element.name}>", element=element)
    if types.is_struct(kind):
        fields = tuple((field.name, type_of_arrow(field.type)) for field in kind)
        named = ",".join(f"{name}:{of.name}" for name, of in fields)
        return ColumnType("struct", f"struct<{named}>", fields=fields)
    named_types = (("string", "string"), ("boolean", "boolean"), ("date", "date"), ("null", "void"))
    for test, name in named_types:
        if getattr(types, f"is_{test}")(kind):
            return ColumnType("empty" if test == "null" else test, name)  # type: ignore[arg-type]
    return ColumnType("other", "timestamp" if types.is_timestamp(kind) else str(kind))


def arrow_type(column_type: ColumnType) -> pa.DataType:
    """The Arrow type of ids."""
    import pyarrow as pa

    name = column_type.name
    if name.startswith("decimal("):
        precision, scale = name[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}.get(name, pa.string())


def read_inputs(tables: Tables, request: Request) -> MemoryInputs:
    """Canonical forms of the caller's tables, with their faults counted.

    Raises:
        DataError: A column is missing or has a type that cannot be used; the message names table, column and key.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    sources = {name: MemoryTable(name, table) for name, table in tables.by_name.items() if name in request.tables_read}
    columns = request.columns
    with example_in_errors():
        chosen = choose_columns({name: source.schema for name, source in sources.items()}, request)
    predicted = {
        table: _canonical(sources[table], read, chosen, columns, request.longest_array(table))
        for table, read in chosen.lists.items()
    }
    source = sources["truth"]
    canonical = _ids(source, columns, chosen)
    if chosen.ratings is None:
        canonical["rating"] = pa.chunked_array([pa.array(np.ones(len(source)))])
    else:
        canonical["rating"] = source.column(columns.rating)
    if chosen.propensity:
        canonical["propensity"] = source.column(columns.propensity).cast(pa.float64(), safe=False)
    truth = pa.table(canonical)
    train = pa.table(_ids(sources["train"], columns, chosen)) if "train" in sources else None
    catalog = None
    if "catalog" in sources:
        catalog = cast_ids(sources["catalog"].column(columns.item), chosen.items)
        catalog = pa.chunked_array([pc.unique(catalog).drop_null()])
        predicted = {table: _with_known(rows, catalog) for table, rows in predicted.items()}
        truth = _with_known(truth, catalog)
    has_ratings = chosen.ratings is not None
    counts = {"truth": _truth_counts(truth, request.convention, has_ratings=has_ratings)}
    if train is not None and request.counts_train:
        counts["train"] = _counted(train, {"null_ids": any_null(_nulls(train))})
    counts |= {table: _counted(rows, faults_of_predictions(rows)) for table, rows in predicted.items()}
    return MemoryInputs(
        predicted,
        truth,
        has_ratings,
        counts,
        train,
        catalog,
        sources.get("user_segments"),
        sources.get("item_groups"),
        sources.get("item_features"),
    )


@contextmanager
def example_in_errors() -> Iterator[None]:
    """Raise `DataError` with an example instead of `WrongTypeError`, as `storage.read.example_in_errors` does for Spark."""
    try:
        yield
    except WrongTypeError as error:
        raise DataError(_with_example(error)) from None


def _with_example(error: WrongTypeError) -> str:
    """The message with a string of the column, in which a number was expected."""
    import pyarrow.compute as pc

    message = error.problem
    for table, column in error.samples.items():
        if not len(column):
            return f"{table}: expected rows, found none, so its columns are read as strings: check its location and filters"
        strings = column.drop_null().unique()
        words = strings.filter(pc.invert(pc.match_substring_regex(strings, r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$")))
        if len(words) and is_decimal_comma(words[0].as_py()):
            return f"{message}, e.g. {brief(words[0].as_py())} in {table}, with {DECIMAL_COMMA}"
        if len(words):
            message += f", e.g. {printable(brief(words[0].as_py()))} in {table}"
    return f"{message}: {error.advice}"


def _ids(source: MemoryTable, columns: Columns, chosen: ChosenColumns) -> dict[str, pa.ChunkedArray]:
    return {
        "user": cast_ids(source.column(columns.user), chosen.users),
        "item": cast_ids(source.column(columns.item), chosen.items),
    }


def cast_ids(column: pa.ChunkedArray, to: ColumnType) -> pa.ChunkedArray:
    """Ids in the type that they have in the evaluation."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):  # integers of pandas next to a missing value
        column = column.cast(pa.int64())
    kind = arrow_type(to)
    return as_strings(column) if pa.types.is_string(kind) else column.cast(kind)


def as_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values as Spark writes them."""
    import pyarrow as pa

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
    import pyarrow as pa

    if read.arrays:
        return _exploded(source, read, chosen, columns, longest)
    canonical = {"model": as_strings(source.column(columns.model))} if read.model else {}
    canonical |= _ids(source, columns, chosen)
    if read.rank is not None:
        canonical["rank"] = source.column(read.rank).cast(pa.int64())
    if read.score is not None:
        canonical["score"] = source.column(read.score)
    return pa.table(canonical)


def _exploded(source: MemoryTable, read: ListColumns, chosen: ChosenColumns, columns: Columns, longest: int | None) -> pa.Table:
    """One row per item, in the order of the arrays; the position is the rank."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = source.column(columns.items).combine_chunks()
    arrays = arrays if isinstance(arrays, pa.Array) else pa.concat_arrays(arrays.chunks)
    arrays = arrays if longest is None else pc.list_slice(arrays, 0, longest)
    parent = pc.list_parent_indices(arrays)
    elements = pc.list_flatten(arrays)
    rows = parent.to_numpy(zero_copy_only=False)
    first = np.flatnonzero(np.append(True, rows[1:] != rows[:-1])[: len(rows)])
    rank = np.arange(len(rows)) - np.repeat(first, np.diff(np.append(first, len(rows)))) + 1
    canonical = {"model": as_strings(source.column(columns.model)).take(parent)} if read.model else {}
    item = elements if read.item_field is None else pc.struct_field(elements, read.item_field)
    canonical["user"] = cast_ids(source.column(columns.user), chosen.users).take(parent)
    canonical["item"] = cast_ids(pa.chunked_array([item]), chosen.items)
    canonical["rank"] = pa.chunked_array([pa.array(rank, pa.int64())])
    if read.score is not None:
        canonical["score"] = pa.chunked_array([pc.struct_field(elements, read.score)])
    return pa.table(canonical)


def _with_known(rows: pa.Table, catalog: pa.ChunkedArray) -> pa.Table:
    import pyarrow.compute as pc

    return rows.append_column("known", pc.is_in(rows["item"], catalog.combine_chunks()))


def faults_of_predictions(rows: pa.Table) -> dict[str, NDArray[np.bool_]]:
    """What is wrong with a row of canonical predictions, by check."""
    numbers = {name: number_of(rows[name]) for name in ("rank", "score") if name in rows.column_names}
    return prediction_faults(_nulls(rows), numbers.get("rank"), numbers.get("score")) | _unknown(rows)


def faults_of_truth(rows: pa.Table) -> dict[str, NDArray[np.bool_]]:
    """What is wrong with a row of canonical ground truth, by check."""
    propensity = number_of(rows["propensity"]) if "propensity" in rows.column_names else None
    return truth_faults(_nulls(rows), number_of(rows["rating"]), propensity) | _unknown(rows)


def _truth_counts(rows: pa.Table, convention: Convention, *, has_ratings: bool) -> dict[str, Any]:
    import pyarrow as pa

    rating = number_of(rows["rating"])
    usable = rating.value[~rating.unusable]
    spread = {"lowest": float(usable.min()), "highest": float(usable.max())} if len(usable) else {}
    hashed = xxhash64(rows["user"], rows["item"], rows["rating"].cast(pa.float64(), safe=False)).view(np.int64)
    relevant = int(relevant_rows(rows, convention, has_ratings=has_ratings).sum())
    # A sum does not depend on the order of the rows.
    fingerprint = sum(hashed.astype(object).tolist()) if len(rows) else None
    return {**_counted(rows, faults_of_truth(rows)), "relevant": relevant, **spread, "hash": fingerprint}


def relevant_rows(rows: pa.Table, convention: Convention, *, has_ratings: bool) -> NDArray[np.bool_]:
    """Whether each row of canonical ground truth is relevant."""
    import pyarrow as pa

    if not has_ratings:
        return np.ones(len(rows), dtype=bool)
    single = pa.types.is_floating(rows["rating"].type) and rows["rating"].type.bit_width < 64
    threshold = float(np.float32(convention.threshold)) if single else convention.threshold
    relevant: NDArray[np.bool_] = is_relevant(number_of(rows["rating"]), convention, threshold)
    return relevant


def number_of(column: pa.ChunkedArray) -> Number:
    """A column of numbers as the rules read it."""
    import pyarrow as pa

    null = column.is_null().to_numpy()
    value = column.cast(pa.float64(), safe=False).to_numpy()
    return Number(value, null, np.isnan(value) & ~null, np.isinf(value))


def clean_predictions(rows: pa.Table, convention: Convention, policies: Mapping[str, str]) -> pa.Table:
    """Canonical predictions without faulty rows. Scores that are missing are null, in the type that scores have."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kept = _without(rows, faults_of_predictions(rows), policies)
    if "score" not in kept.column_names:
        return kept
    missing = number_of(kept["score"]).missing
    if convention.nan_scores == "drop":
        return kept.filter(pa.array(~missing))
    if pa.types.is_floating(kept["score"].type) and missing.any():
        place = kept.column_names.index("score")
        score = pc.if_else(pa.array(missing), pa.scalar(None, kept["score"].type), kept["score"])
        kept = kept.set_column(place, "score", score)
    return kept


def clean_truth(rows: pa.Table, convention: Convention, policies: Mapping[str, str]) -> pa.Table:
    """Canonical ground truth without faulty rows, and without missing ratings where these are dropped."""
    import pyarrow as pa

    kept = _without(rows, faults_of_truth(rows), policies)
    return kept.filter(pa.array(~number_of(kept["rating"]).unusable)) if convention.nan_scores == "drop" else kept


def clean_train(rows: pa.Table) -> pa.Table:
    """Training rows without those that have no user or no item."""
    import pyarrow as pa

    return rows.filter(pa.array(~any_null(_nulls(rows))))


def to_pandas(rows: pa.Table) -> pd.DataFrame:
    """The rows as workers get them: integers next to a null stay integers, in objects."""
    frame: pd.DataFrame = rows.to_pandas(integer_object_nulls=True)
    return frame


def ids_to_pandas(ids: pa.ChunkedArray) -> pd.Series[Any]:
    """Ids without a null, in the type that they have in the rows of `to_pandas`."""
    import pyarrow as pa

    return to_pandas(pa.table({"id": ids}))["id"]


def _nulls(rows: pa.Table) -> dict[str, NDArray[np.bool_]]:
    return {name: rows[name].is_null().to_numpy() for name in ("model", "user", "item") if name in rows.column_names}


def _unknown(rows: pa.Table) -> dict[str, NDArray[np.bool_]]:
    if "known" not in rows.column_names:
        return {}
    return {"unknown_items": ~rows["item"].is_null().to_numpy() & ~rows["known"].to_numpy()}


def _without(rows: pa.Table, faults: Mapping[str, Any], policies: Mapping[str, str]) -> pa.Table:
    import pyarrow as pa

    dropped = np.zeros(len(rows), dtype=bool)
    for check, fault in faults.items():
        if check in ("null_ids", "bad_ranks") or policies.get(check) == "drop":
            dropped |= fault
    kept = rows.filter(pa.array(~dropped)) if dropped.any() else rows
    return kept.drop_columns(["known"]) if "known" in kept.column_names else kept


def _counted(rows: pa.Table, faults: Mapping[str, Any]) -> dict[str, Any]:
    """The number of rows and of each fault, with examples of each."""
    import pyarrow as pa

    counts: dict[str, Any] = {"rows": len(rows)}
    for check, fault in faults.items():
        counts[check] = int(fault.sum())
        if counts[check]:
            keys = [key for key in ("model", "user", "item") if key in rows.column_names]
            wrong = rows.select(keys).filter(pa.array(fault)).to_pylist()
            counts[f"{check}_example"] = "; ".join(nsmallest(N_EXAMPLES, (_named(row, keys) for row in wrong)))
    return counts


def _named(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    return ", ".join(f"{key} {'null' if row[key] is None else row[key]}" for key in keys)
