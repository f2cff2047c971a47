"""The same evaluation on both engines: tables from plain rows, and results in a form that can be compared."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa

import spark_recmetrics as srm
from spark_recmetrics.errors import RecMetricsError

Rows = Sequence[Sequence[Any]]

_TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}


@dataclass(frozen=True)
class Table:
    """A table of plain Python rows.

    Args:
        columns: Names and types as Spark writes them: `user_id bigint, items array<string>`.
        rows: The rows.
    """

    columns: str
    rows: Rows = ()

    def arrow(self) -> pa.Table:
        schema = pa.schema([field.split(" ", 1) and _field(field) for field in _parts(self.columns)])
        columns = list(zip(*self.rows, strict=True)) or [()] * len(schema)
        arrays = [pa.array(_plain(values, kind.type), kind.type) for values, kind in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def spark(self, session: Any) -> Any:
        return session.createDataFrame([tuple(row) for row in self.rows], self.columns)

    def polars(self) -> Any:
        import polars as pl

        return pl.from_arrow(self.arrow())

    def pandas(self) -> pd.DataFrame:
        return self.arrow().to_pandas()


def _parts(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _field(text: str, mark: str = " ") -> pa.Field:
    name, kind = text.rsplit("` ", 1) if text.startswith("`") else text.split(mark, 1)
    return pa.field(name.strip(" `"), _type(kind.strip()))


def _type(text: str) -> pa.DataType:
    if text.startswith("array<"):
        return pa.list_(_type(text[len("array<") : -1]))
    if text.startswith("struct<"):
        return pa.struct([_field(part, ":") for part in _parts(text[len("struct<") : -1])])
    if match := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", text):
        return pa.decimal128(int(match[1]), int(match[2]))
    return _TYPES[text]


def _plain(values: Sequence[Any], kind: pa.DataType) -> Sequence[Any]:
    """Structs as dicts, which Arrow reads in place of tuples."""
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        names = [part.name for part in kind.value_type]
        return [cell and [None if row is None else dict(zip(names, row, strict=True)) for row in cell] for cell in values]
    return values


@dataclass(frozen=True)
class Engine:
    """Where tables are evaluated.

    Args:
        name: `spark`, or the library of the frames.
        frame: Makes a frame of a table.
    """

    name: str
    frame: Callable[[Table], Any]

    def evaluate(self, tables: Mapping[str, Any], **options: Any) -> srm.Result:
        """`srm.evaluate` of these tables; what is no `Table`, such as the size of the catalog, is given as it is."""
        return srm.evaluate(**{name: self.frame(t) if isinstance(t, Table) else t for name, t in tables.items()}, **options)


PANDAS = Engine("pandas", Table.pandas)
PYARROW = Engine("pyarrow", Table.arrow)
POLARS = Engine("polars", Table.polars)


def on_spark(session: Any) -> Engine:
    return Engine("spark", lambda table: table.spark(session))


@dataclass
class Outcome:
    """Everything that an evaluation returns, or its error.

    Args:
        error: The class and the message of the error.
        values: By key, rows that both engines must agree on.
    """

    error: tuple[str, str] | None = None
    values: dict[str, dict[Any, Any]] = field(default_factory=dict)


def outcome(
    engine: Engine,
    tables: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    compared: Sequence[Mapping[str, Any]] = (),
    explained: Sequence[Any] = (),
    calibrated: Sequence[Mapping[str, Any]] = (),
) -> Outcome:
    """Evaluate, and collect all that the result has.

    Args:
        engine: Where.
        tables: The tables by the name of the argument.
        options: The other arguments.
        compared: Arguments of `srm.compare`, for a comparison each.
        explained: Users to explain.
        calibrated: Arguments of `score_calibration`, for a calibration each.
    """
    try:
        result = engine.evaluate(tables, **options)
    except RecMetricsError as error:
        return Outcome((type(error).__name__, str(error)))
    try:
        return Outcome(values=_values(result, compared, explained, calibrated))
    finally:
        result.release()


def attempt(call: Callable[[], Any]) -> Any:
    """What the call returns, or its error."""
    try:
        return call()
    except RecMetricsError as error:
        return f"{type(error).__name__}: {error}"


def _values(
    result: srm.Result, compared: Sequence[Mapping[str, Any]], explained: Sequence[Any], calibrated: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": by_key(result.rows, ("model", "slice", "slice_value", "metric"), ("computed_at",)),
        "order": [tuple(row[name] for name in ("model", "slice", "slice_value", "metric")) for row in result.rows],
        "checks": [check._asdict() for check in result.data_checks],
        "warnings": list(result.warnings),
        "status": result.status,
        "data_hash": result.data_hash,
        "per_user": by_key(records(result.per_user), ("model", "user")),
        "text": str(result),
        "markdown": result.to_markdown(),
        "pareto": [standing._asdict() for standing in result.pareto()],
    }
    for number, options in enumerate(compared):
        rows = attempt(lambda options=options: list(srm.compare(result, **options).rows))
        found[f"compared {number}"] = rows
    for user in explained:
        found[f"explained {user}"] = attempt(lambda user=user: _explanation(result, user))
    for number, options in enumerate(calibrated):
        found[f"calibrated {number}"] = attempt(lambda options=options: result.score_calibration(**options))
    return found


def _explanation(result: srm.Result, user: Any) -> dict[str, Any]:
    explanation = result.explain(user)
    return {**vars(explanation), "text": str(explanation)}


def records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame of either engine as dictionaries; NaN, which pandas has for null, is None."""
    rows = frame.to_dict("records") if isinstance(frame, pd.DataFrame) else [row.asDict() for row in frame.collect()]
    return [{str(name): None if is_missing(value) else value for name, value in row.items()} for row in rows]


def in_pandas(frame: Any) -> pd.DataFrame:
    """A table of either engine."""
    return frame if isinstance(frame, pd.DataFrame) else frame.toPandas()


def is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


def by_key(rows: Sequence[Mapping[str, Any]], key: Sequence[str], without: Sequence[str] = ()) -> dict[Any, dict[str, Any]]:
    found = {tuple(row[name] for name in key): {n: v for n, v in row.items() if n not in (*key, *without)} for row in rows}
    assert len(found) == len(rows), "rows with the same key"
    return found


TOLERANCE = 1e-12


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two outcomes differ: numbers by more than 1e-12, relative or absolute."""
    if isinstance(one, Outcome) and isinstance(other, Outcome):
        return [*differences(one.error, other.error, "error"), *differences(one.values, other.values)]
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        found = [
            f"{where}/{key}: only in the {side}"
            for side, a, b in (("first", one, other), ("second", other, one))
            for key in a
            if key not in b
        ]
        return found + [line for key in one if key in other for line in differences(one[key], other[key], f"{where}/{key}")]
    if is_sequence(one) and is_sequence(other):
        if len(one) != len(other):
            return [f"{where}: {one} and {other}"]
        return [line for n, pair in enumerate(zip(one, other, strict=True)) for line in differences(*pair, f"{where}/{n}")]
    return [] if same(one, other) else [f"{where}: {one!r} and {other!r}"]


def is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple)


def same(one: Any, other: Any) -> bool:
    if is_missing(one) or is_missing(other):
        return is_missing(one) and is_missing(other)
    if isinstance(one, float) or isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(one == other)
