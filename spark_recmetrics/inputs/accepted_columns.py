"""The columns that an evaluation reads from the caller's tables, and their types. Both engines use these rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from spark_recmetrics.columns import INTEGER, Columns, WrongTypeError, near_column
from spark_recmetrics.errors import DataError
from spark_recmetrics.request.request import Request

Kind = Literal["integer", "float", "decimal", "string", "boolean", "date", "array", "struct", "vector", "other", "empty"]

ID_KINDS: tuple[Kind, ...] = ("integer", "decimal", "string", "empty")
NUMBER_KINDS: tuple[Kind, ...] = ("integer", "float", "decimal", "empty")
PLAIN_KINDS: tuple[Kind, ...] = ("string", "integer", "decimal", "boolean", "date", "empty")
"""Types of columns whose values are names of groups and slices."""

CATEGORY_KINDS: tuple[Kind, ...] = ("string", "integer", "boolean", "empty")

VECTOR_KINDS: tuple[Kind, ...] = ("array", "struct", "vector", "empty")
"""Types of feature vectors."""

_LISTS = ("predictions", "rating_predictions")

_ID = "an integer or a string as an id"
_MODEL = "a string, an integer, a boolean or a date as the name of a model"

_CAST_IDS: Mapping[Kind, str] = {
    "float": ", integers to bigint, others to string",
    **dict.fromkeys(("boolean", "date", "other"), ", to string"),
}
"""By type of ids that are rejected, how to cast them."""


@dataclass(frozen=True)
class ColumnType:
    """The type of a column in either engine."""

    kind: Kind  # how its values can be used. `empty`: it has none, so it can be used as any kind
    name: str  # as Spark writes it
    element: ColumnType | None = None  # of an array
    fields: tuple[tuple[str, ColumnType], ...] = ()  # of a struct
    integral: bool = False  # floats that are all integers: pandas stores integers next to a missing value as floats
    inexact: bool = False  # some of these integers are so large that floats do not have their last digits


BIGINT, STRING = ColumnType("integer", "bigint"), ColumnType("string", "string")


@dataclass(frozen=True, eq=False)
class TableSchema:
    """The columns of one of the caller's tables."""

    table: str  # the name of the argument
    names: Sequence[str]  # of all columns
    read_type: Callable[[str], ColumnType]  # the type of a column, called only for those that are read
    sample: Callable[[str], Any]  # a column of strings, for an example in a message

    def type_of(self, key: str | None, name: str, reason: str = "") -> ColumnType:
        """The type of a column. The key is None if the column is not named by `Columns`."""
        twins = [column for column in self.names if column.lower() == name.lower()]
        if len(twins) > 1:
            where = f"{self.table}: expected one column named {name!r}{_named_by(key)}, in any case"
            raise DataError(f"{where}, found {', '.join(twins)}")
        if name not in self.names:
            raise self.missing(key, name, reason)
        return self.read_type(name)

    def has(self, key: str, name: str) -> bool:
        """Whether there is this column. Raises `DataError` if one differs only in letter case, blanks or invisible signs."""
        if name not in self.names and _letters(name) in map(_letters, self.names):
            raise self.missing(key, name)
        return name in self.names

    def typed(self, key: str | None, name: str, kinds: Sequence[Kind], expected: str, reason: str = "") -> ColumnType:
        """The type of a column that must be of one of these kinds."""
        column_type = self.type_of(key, name, reason)
        if column_type.integral and not column_type.inexact and "integer" in kinds and "float" not in kinds:
            return BIGINT
        if column_type.kind not in kinds:
            raise self.wrong_type(key, name, expected, column_type)
        return column_type

    def id_type(self, key: str, name: str) -> ColumnType:
        """The type of a column of ids."""
        return self.typed(key, name, ID_KINDS, _ID)

    def number(self, key: str, name: str, reason: str = "") -> ColumnType:
        """The type of a column of numbers; a rank is an integer."""
        kinds, expected = (("integer", "empty"), "an integer") if key == "rank" else (NUMBER_KINDS, "a number")
        return self.typed(key, name, kinds, expected, reason)

    def missing(self, key: str | None, name: str, reason: str = "") -> DataError:
        """The error for a missing column."""
        reason = f" ({reason})" if reason else ""
        return DataError(f"{self.table}: no column {name!r}{_named_by(key)}{reason}{near_column(name, self.names)}")

    def wrong_type(self, key: str | None, name: str, expected: str, actual: ColumnType) -> WrongTypeError:
        """The error for a column of the wrong type."""
        message = f"{self.table}: column {name!r}{_named_by(key)}: expected {expected}, found {actual.name}"
        samples = {self.table: self.sample(name)} if actual.kind == "string" and name in self.names else {}
        advice = "cast it first"
        if actual.inexact:
            message += ", in which pandas stores integers next to a missing value, and those above 2^53 lose digits"
            advice = "read the column as Int64 or as strings"
        else:
            advice += _cast_advice(name, expected, actual)
        return WrongTypeError(message, advice, samples)

    def has_arrays(self, columns: Columns) -> bool:
        """Whether each row is a user with an array of items."""
        return columns.item not in self.names and columns.items in self.names


def _letters(name: str) -> str:
    return re.sub("[\\s\u200b-\u200f\u2060\ufeff]", "", name).lower()


def _cast_advice(name: str, expected: str, actual: ColumnType) -> str:
    """How to cast ids and names of models, in Python and in a configuration."""
    if expected not in (_ID, _MODEL) or actual.kind not in _CAST_IDS:
        return ""
    to, advice = ("bigint", _CAST_IDS[actual.kind]) if expected == _ID and actual.kind == "float" else ("string", ", to string")
    return f"{advice}; in a configuration, set types: {{{name}: {to}}}"


def _named_by(key: str | None) -> str:
    return "" if key is None else f" (columns.{key})"


@dataclass(frozen=True)
class ListColumns:
    """The columns that are read from a table of predictions."""

    items: ColumnType  # the type of item ids
    model: bool  # whether the table has models
    rank: str | None = None  # None: the rows have no rank, or come from arrays, whose positions are the ranks
    score: str | None = None  # the column, or the field of the structs in an array
    arrays: bool = False  # whether each row is a user with an array of items
    item_field: str | None = None  # the field of the structs in an array that holds the item


@dataclass(frozen=True)
class ChosenColumns:
    """The columns that are read, and the types of ids in the evaluation. `lists` has the tables of predictions."""

    users: ColumnType
    items: ColumnType
    lists: Mapping[str, ListColumns]
    has_ratings: bool
    propensity: bool


def choose_columns(schemas: Mapping[str, TableSchema], request: Request) -> ChosenColumns:
    """Check the columns that an evaluation reads. `DataError` if one is missing or has the wrong type."""
    columns, cast = request.columns, request.cast_ids
    with_users = ("predictions", "rating_predictions", "truth", "train", "user_segments")
    users = common_id("user", [schemas[table] for table in with_users if table in schemas], columns.user, cast)
    lists = {table: _list_columns(schemas[table], columns) for table in _LISTS if table in schemas}
    with_items = (*_LISTS, "truth", "train", "catalog", "item_groups", "item_features")
    types = {table: read.items for table, read in lists.items()}
    items = common_id("item", [schemas[table] for table in with_items if table in schemas], columns.item, cast, types)
    truth = schemas["truth"]
    needs_ratings = request.needs_ratings or ("a name that is given" if columns.rating != Columns.rating else None)
    has_ratings = truth.has("rating", columns.rating) or needs_ratings is not None
    if has_ratings:
        truth.number("rating", columns.rating, f"{needs_ratings} needs it" if needs_ratings else "")
    _check_models(schemas, columns, lists)
    lists = {
        table: _with_numbers(schemas[table], read, columns, request.needs_score.get(table), reads_scores=request.reads_scores)
        for table, read in lists.items()
    }
    propensity = request.needs.first_with("propensity")
    if propensity is not None:
        truth.number("propensity", columns.propensity, f"{propensity} needs it")
    return ChosenColumns(users, items, lists, has_ratings, propensity is not None)


def choose_list_columns(schema: TableSchema, columns: Columns) -> ChosenColumns:
    """Check the columns of a single table of predictions, like `choose_columns`. Scores are read if it has any."""
    users = schema.id_type("user", columns.user)
    read = _with_numbers(schema, _list_columns(schema, columns), columns, None, reads_scores=True)
    return ChosenColumns(users, read.items, {schema.table: read}, has_ratings=False, propensity=False)


def common_id(
    key: str, schemas: Sequence[TableSchema], name: str, cast_ids: str | None = None, types: Mapping[str, ColumnType] = {}
) -> ColumnType:
    """The common type of ids. `types`: read before. `DataError` if types differ: such ids would never be equal."""
    kinds = {schema: types.get(schema.table) or schema.id_type(key, name) for schema in schemas}
    kinds = {schema: column_type for schema, column_type in kinds.items() if column_type.kind != "empty"}
    chosen = list(kinds.values())
    if cast_ids == "string" or not chosen:
        return STRING
    if all(column_type == chosen[0] for column_type in chosen):
        return chosen[0]
    if all(column_type.kind == "integer" for column_type in chosen):
        return BIGINT
    if (decimal := _common_decimal(chosen)) is not None:
        return decimal
    sides = ", ".join(f"{column_type.name} in {schema.table}" for schema, column_type in kinds.items())
    message = f"column {name!r} (columns.{key}): expected one type on all sides, found {sides}"
    strings = [schema for schema, column_type in kinds.items() if column_type.kind == "string" and name in schema.names]
    samples = {schema.table: schema.sample(name) for schema in strings}
    raise WrongTypeError(message, "cast one of them first, or set cast_ids to string", samples, INTEGER)


def _common_decimal(types: Sequence[ColumnType]) -> ColumnType | None:
    """The decimal type that holds ids of all these types; None if one is not a number, or more than 38 digits are needed."""
    if not all(kind.kind in ("integer", "decimal") for kind in types):
        return None
    sizes = [(19, 0) if kind.kind == "integer" else tuple(map(int, re.findall(r"\d+", kind.name))) for kind in types]
    scale = max(scale for _, scale in sizes)
    precision = max(precision - scale for precision, scale in sizes) + scale
    return ColumnType("decimal", f"decimal({precision},{scale})") if precision <= 38 else None


def _list_columns(schema: TableSchema, columns: Columns) -> ListColumns:
    """The columns of predictions without their ranks: rows, or arrays of items or of structs (item, score)."""
    model = schema.has("model", columns.model)
    if not schema.has_arrays(columns):
        return ListColumns(schema.id_type("item", columns.item), model)
    expected = "an array of items or of structs (item, score)"
    array = schema.typed("items", columns.items, ("array",), expected)
    element, item_field, score = array.element or array, None, None
    if element.kind == "struct":
        fields = dict(element.fields)
        if not fields or len({name.lower() for name in fields}) < len(fields):
            expected = "an array of structs (item, score), whose fields have different names in any case"
            raise schema.wrong_type("items", columns.items, expected, array)
        if columns.item not in fields:
            named = f"expected structs with a field {columns.item!r} (columns.item), found {', '.join(fields)}"
            advice = "set columns.item to the name of the item in all tables, or rename the field"
            raise DataError(f"{schema.table}: column {columns.items!r} (columns.items): {named}: {advice}")
        item_field = columns.item
        numbers = [name for name, field in fields.items() if name != item_field and field.kind in NUMBER_KINDS]
        score = columns.score if columns.score in fields else numbers[0] if len(numbers) == 1 else None
        element = fields[item_field]
    if element.kind not in ID_KINDS:
        raise (
            schema.wrong_type("items", columns.items, "an array of integers or strings as ids", array)
            if item_field is None
            else schema.wrong_type("item", columns.item, _ID, element)
        )
    return ListColumns(element, model, score=score, arrays=True, item_field=item_field)


def _check_models(schemas: Mapping[str, TableSchema], columns: Columns, lists: Mapping[str, ListColumns]) -> None:
    with_model = [table for table, read in lists.items() if read.model]
    if columns.model != Columns.model and not with_model:
        raise schemas["predictions"].missing("model", columns.model, "a name that is given needs it")
    if len(with_model) not in (0, len(lists)):
        without = next(table for table in lists if table not in with_model)
        raise schemas[without].missing("model", columns.model, f"{with_model[0]} has it")


def _with_numbers(
    schema: TableSchema, read: ListColumns, columns: Columns, reason: str | None, *, reads_scores: bool
) -> ListColumns:
    """The columns with those of ranks and scores. `reason`: the metric that needs scores, for messages."""
    if read.model:
        schema.typed("model", columns.model, PLAIN_KINDS, _MODEL)
    rank = columns.rank if schema.table == "predictions" and not read.arrays else None
    if rank is not None:
        schema.number("rank", rank)
    has_score = read.score is not None if read.arrays else schema.has("score", columns.score)
    in_order = read.arrays or rank is not None
    score = None
    if not in_order or reason is not None or (reads_scores and has_score):
        score = _score_column(schema, read, columns, reason or "or name a rank in columns.rank")
    return replace(read, rank=rank, score=score)


def _score_column(schema: TableSchema, read: ListColumns, columns: Columns, reason: str) -> str:
    """The column of scores, or the field of the structs that holds the score."""
    if not read.arrays:
        schema.number("score", columns.score, reason)
        return columns.score
    array = schema.read_type(columns.items)
    fields = dict(array.element.fields) if array.element else {}
    if read.score is None and fields:
        named = f"expected structs with a field {columns.score!r} (columns.score) ({reason}), found {', '.join(fields)}"
        advice = "set columns.score, or rename the field"
        raise DataError(f"{schema.table}: column {columns.items!r} (columns.items): {named}: {advice}")
    if read.score is None:
        raise schema.missing("score", columns.score, reason)
    field = fields[read.score]
    if field.kind not in NUMBER_KINDS:
        raise schema.wrong_type("score", columns.score, "a number", field)
    return read.score
