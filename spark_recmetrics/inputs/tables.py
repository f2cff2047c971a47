"""The caller's tables as they are given, and in canonical form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Number
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spark_recmetrics.columns import Columns, Side
from spark_recmetrics.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self

SPARK, MEMORY = "Spark", "memory"

Rows = TypeVar("Rows")
"""Canonical rows of an engine."""

Source = TypeVar("Source")
"""A table of the caller as an engine reads it."""


@dataclass(frozen=True)
class Tables:
    """The caller's tables, see `evaluate`: Spark DataFrames, or tables of pandas, polars, pyarrow and other Arrow data."""

    predictions: Any
    truth: Any
    rating_predictions: Any = None
    train: Any = None
    catalog: Any = None  # or the number of items
    user_segments: Any = None
    item_groups: Any = None
    item_features: Any = None
    without_items: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # by table from a dict, users with no items

    def __post_init__(self) -> None:
        for name, table in self.by_name.items():
            # A stream of Arrow data has no columns and can be read only once.
            if hasattr(table, "__arrow_c_stream__") and not (hasattr(table, "columns") or hasattr(table, "column_names")):
                object.__setattr__(self, name, arrow_table(name, table))

    @property
    def catalog_size(self) -> Number | None:
        """The number of items, if it is given instead of a catalog table."""
        return self.catalog if isinstance(self.catalog, Number) else None

    @property
    def by_name(self) -> dict[str, Any]:
        """The tables that are given, by the name of the argument."""
        others = {"without_items"} if self.catalog_size is None else {"without_items", "catalog"}
        names = (argument.name for argument in fields(self) if argument.name not in others)
        return {name: table for name in names if (table := getattr(self, name)) is not None}

    @property
    def columns(self) -> dict[str, list[str]]:
        """The names of the columns of each table."""
        return {name: column_names(name, table) for name, table in self.by_name.items()}

    def check(self) -> str:
        """The engine of these tables, `SPARK` or `MEMORY`. `ConfigError` if one is missing or needs the other engine."""
        engines = {name: engine_of(name, getattr(self, name)) for name in ("predictions", "truth", *self.by_name)}
        chosen = engines["predictions"]
        for name, engine in engines.items():
            if engine != chosen:
                expected = "a Spark DataFrame" if chosen == SPARK else "a pandas, polars or pyarrow table"
                raise ConfigError(f"{name}: expected {expected} like predictions, found {type_name(getattr(self, name))}")
        return chosen


@dataclass(frozen=True)
class CanonicalTables(Generic[Rows, Source]):
    """The caller's tables in canonical form. Tables that are not needed are None."""

    # `in_catalog` of predictions and ground truth, if there is a catalog, is null for other items.
    predicted: Mapping[str, Rows]  # `user, item`, `score` or `rank` or both, `model` if there are several; by table
    truth: Rows  # `user, item, rating`, and `propensity` if it is needed
    has_ratings: bool  # the ground truth has a rating column
    train: Rows | None = None  # `user, item`
    catalog: Any = None  # the items
    segments: Source | None = None  # the caller's table of users
    groups: Source | None = None  # the caller's table of items
    features: Source | None = None  # the caller's table of item features
    counts: Mapping[str, Any] = field(default_factory=dict)  # by table, the numbers of rows and of faults
    uncut: Mapping[str, Rows] = field(default_factory=dict)  # by table of arrays that were cut, the rows of the full arrays
    members: Rows | None = None  # the users of `Tables.without_items`, see `columns.KIND_MEMBER`

    def side_ids(self, columns: Columns) -> list[tuple[str, Side, Any, str]]:
        """The ids in side information: the table's name, the kind of id, the table, and the name of the column."""
        sides: tuple[Side, Side] = ("user", "item")
        ids: list[tuple[str, Side, Any, str]] = [
            *(("train", side, self.train, side) for side in sides),
            ("user_segments", "user", self.segments, columns.user),
            ("item_groups", "item", self.groups, columns.item),
            ("item_features", "item", self.features, columns.item),
        ]
        return [(name, side, table, column) for name, side, table, column in ids if table is not None]

    def side_table(self, side: Side) -> Source:
        """The caller's table of users, or of items."""
        table = self.segments if side == "user" else self.groups
        if table is None:
            raise ValueError(f"there is no table of {side}s")
        return table

    @property
    def has_rank(self) -> bool:
        """Predictions have ranks."""
        return "rank" in column_names("predictions", self.predicted["predictions"])

    def has_scores(self, table: str) -> bool:
        """A table of predictions has scores that are read."""
        return "score" in column_names(table, self.predicted[table])

    def uncut_lists(self, table: str) -> Rows:
        """Canonical predictions of a table with all rows of the lists."""
        return self.uncut.get(table, self.predicted[table])

    def filtered(self, table: str, keep: Callable[[Rows], Rows]) -> Self:
        """The kept rows of each table, with the lists of one table as predictions."""
        train = None if self.train is None else keep(self.train)
        predicted = {"predictions": keep(self.predicted[table])}
        return replace(self, predicted=predicted, truth=keep(self.truth), train=train, uncut={})


def is_on_spark(name: str, table: Any) -> bool:
    """Whether a table is a Spark DataFrame. `ConfigError` if it is a stream."""
    # Frames of Spark Connect 3.5 are of another class, so they are recognized by their attributes.
    if not (hasattr(table, "sparkSession") and hasattr(table, "isStreaming")):
        return False
    if table.isStreaming:
        raise ConfigError(f"{name}: expected a table, found a stream: write it to a table and evaluate that")
    return True


def engine_of(name: str, table: object) -> str:
    """The engine that reads a table, or `ConfigError`. Spark reads its DataFrames even if they can export Arrow data."""
    if is_on_spark(name, table):
        return SPARK
    if hasattr(table, "__arrow_c_stream__") or type_name(table).startswith("pandas."):
        return MEMORY
    expected = "a Spark DataFrame, a table of pandas, polars or pyarrow"
    expected += ", or the number of items" if name == "catalog" else ""
    raise ConfigError(f"{name}: expected {expected}, found {type_name(table)}")


def arrow_table(name: str, table: Any) -> pa.Table:
    """Arrow data as a table of pyarrow. `DataError` if they cannot be read."""
    import pyarrow as pa

    try:
        return table if isinstance(table, pa.Table) else pa.table(table)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{name}: cannot be read as Arrow data: {error}") from error


def column_names(name: str, table: Any) -> list[str]:
    """The names of the columns of a table. `ConfigError` if a pandas object is not a DataFrame."""
    # A pyarrow table has a list. In other frames such an attribute is a column, which Spark Connect finds for any name.
    if isinstance(names := getattr(table, "column_names", None), list):
        return names
    if not hasattr(table, "columns"):
        raise ConfigError(f"{name}: expected a table with named columns, found {type_name(table)}")
    return list(map(str, table.columns))


def type_name(table: object) -> str:
    """The type of a table in messages."""
    return f"{type(table).__module__}.{type(table).__name__}"
