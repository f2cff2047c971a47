"""Which columns of the caller's tables are read, and whether their types can be used: the same rules for both engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from spark_recmetrics.columns import Columns, WrongTypeError, near_column
from spark_recmetrics.errors import DataError

if TYPE_CHECKING:
    from spark_recmetrics.request.request import Request

Kind = Literal["integer", "float", "decimal", "string", "boolean", "date", "array", "struct", "vector", "other", "empty"]

ID_KINDS: tuple[Kind, ...] = ("integer", "decimal", "string", "empty")
NUMBER_KINDS: tuple[Kind, ...] = ("integer", "float", "decimal", "empty")
PLAIN_KINDS: tuple[Kind, ...] = ("string", "integer", "decimal", "boolean", "date", "empty")
"""Types whose values name groups and slices."""

CATEGORY_KINDS: tuple[Kind, ...] = ("string", "integer", "boolean", "empty")

VECTOR_KINDS: tuple[Kind, ...] = ("array", "struct", "vector", "empty")
"""Types of feature vectors."""

_MODEL_KINDS: tuple[Kind, ...] = (*PLAIN_KINDS, "float")

_LISTS = ("predictions", "rating_predictions")

_ID = "a whole number or a string as an id"


@dataclass(frozen=True)
class ColumnType:
    """The type of a column, whichever engine holds it.

    Args:
        kind: What can be done with its values. `empty`: the column has no value, so that any kind is right.
        name: The type as Spark writes it, for messages.
        single: Numbers of single precision.
        element: Type of the elements of an array.
        fields: Names and types of the fields of a struct.
        whole: Floats that are integers, which pandas makes of integers next to a missing value.
    """

    kind: Kind
    name: str
    single: bool = False
    element: ColumnType | None = None
    fields: tuple[tuple[str, ColumnType], ...] = ()
    whole: bool = False


BIGINT, STRING, DOUBLE = ColumnType("integer", "bigint"), ColumnType("string", "string"), ColumnType("float", "double")


@dataclass(frozen=True, eq=False)
class TableSchema:
    """The columns of one of the caller's tables.

    Args:
        table: The name of the argument.
        names: The names of all columns.
        read_type: The type of a column, which is looked at only when the column is read.
        sample: Values of a column, as the engine looks for an example in a column of strings.
    """

    table: str
    names: Sequence[str]
    read_type: Callable[[str], ColumnType]
    sample: Callable[[str], Any]

    def type_of(self, key: str | None, name: str, reason: str = "") -> ColumnType:
        """The type of a column. The key is None where the column is not named by `Columns`.

        Raises:
            DataError: There is no such column, or several that differ in case only.
        """
        twins = [column for column in self.names if column.lower() == name.lower()]
        if len(twins) > 1:
            where = f"{self.table}: expected one column named {name!r}{_named_by(key)}, in any case"
            raise DataError(f"{where}, found {', '.join(twins)}")
        if name not in self.names:
            raise self.missing(key, name, reason)
        return self.read_type(name)

    def typed(self, key: str | None, name: str, kinds: Sequence[Kind], expected: str, reason: str = "") -> ColumnType:
        """The type of a column that has to be of one of these kinds.

        Raises:
            DataError: There is no such column, or it has another type.
        """
        column_type = self.type_of(key, name, reason)
        if column_type.whole and "integer" in kinds and "float" not in kinds:
            return BIGINT
        if column_type.kind not in kinds:
            raise self.wrong_type(key, name, expected, column_type)
        return column_type

    def id_type(self, key: str, name: str) -> ColumnType:
        """The type of a column of ids."""
        return self.typed(key, name, ID_KINDS, _ID)

    def number(self, key: str, name: str, reason: str = "") -> ColumnType:
        """The type of a column of numbers; a rank is an integer."""
        if key == "rank":
            return self.typed(key, name, ("integer", "empty"), "a whole number", reason)
        return self.typed(key, name, NUMBER_KINDS, "a number", reason)

    def missing(self, key: str | None, name: str, reason: str = "") -> DataError:
        """The error for a column that is not there."""
        reason = f" ({reason})" if reason else ""
        return DataError(f"{self.table}: no column {name!r}{_named_by(key)}{reason}{near_column(name, self.names)}")

    def wrong_type(self, key: str | None, name: str, expected: str, actual: ColumnType) -> WrongTypeError:
        """The error for a column of another type."""
        message = f"{self.table}: column {name!r}{_named_by(key)}: expected {expected}, found {actual.name}"
        samples = {self.table: self.sample(name)} if actual.kind == "string" and name in self.names else {}
        return WrongTypeError(message, "cast it first", samples)

    def has_arrays(self, columns: Columns) -> bool:
        """Whether there is one row per user, with an array of items."""
        return columns.item not in self.names and columns.items in self.names


def _named_by(key: str | None) -> str:
    return "" if key is None else f" (columns.{key})"


@dataclass(frozen=True)
class ListColumns:
    """What is read of a table of predictions.

    Args:
        table: Its name.
        items: The type of its items.
        model: Whether it has a column of models.
        rank: The column of ranks. None: the rows have no rank, or come from arrays, whose positions are the ranks.
        score: The column of scores, or the field of the structs in an array.
        arrays: There is one row per user, with an array of items.
        item_field: The field of the structs in an array that is the item.
    """

    table: str
    items: ColumnType
    model: bool
    rank: str | None = None
    score: str | None = None
    arrays: bool = False
    item_field: str | None = None


@dataclass(frozen=True)
class ChosenColumns:
    """What is read of the caller's tables.

    Args:
        users: The type that user ids have in the evaluation.
        items: The same of item ids.
        lists: By table, what is read of predictions.
        ratings: The type of the ratings; None: the ground truth has none.
        propensity: Whether the ground truth has propensities that are read.
    """

    users: ColumnType
    items: ColumnType
    lists: Mapping[str, ListColumns]
    ratings: ColumnType | None
    propensity: bool


def choose_columns(schemas: Mapping[str, TableSchema], request: Request) -> ChosenColumns:
    """Check the columns that an evaluation reads.

    Args:
        schemas: The tables that are read, by the name of the argument.
        request: What is asked.

    Raises:
        DataError: A column is missing or has a type that cannot be used; the message names table, column and key.
    """
    columns, cast = request.columns, request.cast_ids
    with_users = ("predictions", "rating_predictions", "truth", "train", "user_segments")
    users = common_id("user", [schemas[table] for table in with_users if table in schemas], columns.user, cast)
    lists = {table: _list_columns(schemas[table], columns) for table in _LISTS if table in schemas}
    with_items = (*_LISTS, "truth", "train", "catalog", "item_groups", "item_features")
    types = {table: read.items for table, read in lists.items()}
    items = common_id("item", [schemas[table] for table in with_items if table in schemas], columns.item, cast, types)
    truth, ratings = schemas["truth"], None
    needs_ratings = request.needs_ratings or ("a name that is given" if columns.rating != Columns.rating else None)
    if columns.rating in truth.names or needs_ratings:
        ratings = truth.number("rating", columns.rating, f"{needs_ratings} needs it" if needs_ratings else "")
    _check_models({table: schemas[table] for table in lists}, columns, lists)
    reasons = request.needs_score
    lists = {
        table: _with_numbers(schemas[table], read, columns, reasons.get(table), reads_scores=request.reads_scores)
        for table, read in lists.items()
    }
    propensity = request.needs.first_with("propensity")
    if propensity is not None:
        truth.number("propensity", columns.propensity, f"{propensity} needs it")
    return ChosenColumns(users, items, lists, ratings, propensity is not None)


def choose_list_columns(schema: TableSchema, columns: Columns) -> ChosenColumns:
    """The same for predictions alone, with their scores where there are any.

    Raises:
        DataError: A column is missing or has a type that cannot be used.
    """
    users = schema.id_type("user", columns.user)
    read = _list_columns(schema, columns)
    lists = {schema.table: _with_numbers(schema, read, columns, None, reads_scores=True)}
    return ChosenColumns(users, read.items, lists, None, propensity=False)


def common_id(
    key: str,
    schemas: Sequence[TableSchema],
    name: str,
    cast_ids: str | None = None,
    types: Mapping[str, ColumnType] = {},
) -> ColumnType:
    """The type that the ids of all tables can have.

    Args:
        key: The key of the column in `Columns`.
        schemas: The tables.
        name: The name of the column.
        cast_ids: `string`: ids of different types become strings.
        types: By table, types that are known already.

    Raises:
        DataError: There is none, because ids of different types are never equal; or a column cannot hold ids.
    """
    kinds = {schema: types.get(schema.table) or schema.id_type(key, name) for schema in schemas}
    kinds = {schema: column_type for schema, column_type in kinds.items() if column_type.kind != "empty"}
    chosen = list(kinds.values())
    if cast_ids == "string" or not chosen:
        return STRING
    if all(column_type == chosen[0] for column_type in chosen):
        return chosen[0]
    if all(column_type.kind == "integer" for column_type in chosen):
        return BIGINT
    sides = ", ".join(f"{column_type.name} in {schema.table}" for schema, column_type in kinds.items())
    message = f"column {name!r} (columns.{key}): expected one type on all sides, found {sides}"
    strings = [schema for schema, column_type in kinds.items() if column_type.kind == "string" and name in schema.names]
    samples = {schema.table: schema.sample(name) for schema in strings}
    raise WrongTypeError(message, "cast one of them first, or set cast_ids to string", samples)


def _list_columns(schema: TableSchema, columns: Columns) -> ListColumns:
    """What a table of predictions holds: rows, or arrays of items or of structs (item, score)."""
    model = columns.model in schema.names
    if not schema.has_arrays(columns):
        return ListColumns(schema.table, schema.id_type("item", columns.item), model)
    expected = "an array of items or of structs (item, score)"
    array = schema.typed("items", columns.items, ("array",), expected)
    element, item_field, score = array.element or array, None, None
    if element.kind == "struct":
        fields = dict(element.fields)
        if not fields or len({name.lower() for name in fields}) < len(fields):
            expected = "an array of structs (item, score), whose fields have different names in any case"
            raise schema.wrong_type("items", columns.items, expected, array)
        names = list(fields)
        item_field = columns.item if columns.item in names else names[0]
        others = [name for name in names if name != item_field]
        score = columns.score if columns.score in others else next(iter(others), None)
        element = fields[item_field]
    if element.kind not in ID_KINDS:
        raise schema.wrong_type("item", columns.item, _ID, element)
    return ListColumns(schema.table, element, model, score=score, arrays=True, item_field=item_field)


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
    """The same with the columns of ranks and scores. The reason is that of a metric that cannot do without scores."""
    if read.model:
        schema.typed("model", columns.model, _MODEL_KINDS, "a string, an integer, a boolean or a date as the name of a model")
    has_score = read.score is not None if read.arrays else columns.score in schema.names
    rank = columns.rank if schema.table == "predictions" and not read.arrays else None
    by_rank = read.arrays or rank is not None
    if rank is not None:
        schema.number("rank", rank)
    score = None
    if not by_rank or reason is not None or (reads_scores and has_score):
        why = reason or "or name a rank in columns.rank"
        if read.arrays:
            score = _array_score(schema, read, columns, why)
        else:
            schema.number("score", columns.score, why)
            score = columns.score
    return ListColumns(read.table, read.items, read.model, rank, score, read.arrays, read.item_field)


def _array_score(schema: TableSchema, read: ListColumns, columns: Columns, reason: str) -> str:
    """The field of the structs that is the score."""
    if read.score is None:
        raise schema.missing("score", columns.score, reason)
    array = schema.read_type(columns.items)
    field = dict(array.element.fields)[read.score] if array.element else array
    if field.kind not in NUMBER_KINDS:
        raise schema.wrong_type("score", columns.score, "a number", field)
    return read.score
