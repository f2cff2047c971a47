"""From the caller's Spark tables to canonical rows, with their faults counted in the same pass.

Canonical predictions are `user, item`, `score` and/or `rank`, perhaps `model` (the caller's name until `with_model_codes` makes
it a number) and `bucket` (of those that came as arrays). Canonical ground truth is `user, item, rating`, and `propensity` where
it is needed; `relevant_only` then sets the rating of what is not relevant to null.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    NullType,
    StringType,
    StructType,
    UserDefinedType,
)

from spark_recmetrics.columns import Columns
from spark_recmetrics.conventions import Convention
from spark_recmetrics.inputs.buckets_spark import bucket_of
from spark_recmetrics.inputs.contract import (
    ChosenColumns,
    ColumnType,
    ListColumns,
    TableSchema,
    choose_columns,
    choose_list_columns,
    common_id,
)
from spark_recmetrics.inputs.rules import Number, any_null, is_relevant, prediction_faults, truth_faults
from spark_recmetrics.storage.read import example_in_errors
from spark_recmetrics.storage.row_counts import RowCounts

if TYPE_CHECKING:
    from spark_recmetrics.inputs.contract import Kind
    from spark_recmetrics.inputs.tables import Tables
    from spark_recmetrics.request.request import Request


@dataclass(frozen=True)
class Inputs:
    """The caller's tables in canonical form, checked by their schemas; no Spark job has run.

    Args:
        predicted: Canonical predictions by table (`predictions`, perhaps `rating_predictions`), `model` still the
            caller's name, and absent where there is one model.
        truth: Canonical ground truth.
        has_ratings: Whether the ground truth has a rating column.
        train: `user, item` of the training rows, where these are needed.
        catalog: `item` of the catalog, where there is a table of it.
        segments: The caller's table of users, as it is, where it is needed.
        groups: The same of items.
        features: The caller's table of item features, as it is, where metrics need it.
        counts: By table, the rows and faults that are counted while it is read.
    """

    predicted: Mapping[str, DataFrame]
    truth: DataFrame
    has_ratings: bool
    train: DataFrame | None = None
    catalog: DataFrame | None = None
    segments: DataFrame | None = None
    groups: DataFrame | None = None
    features: DataFrame | None = None
    counts: Mapping[str, RowCounts] = field(default_factory=dict)

    @property
    def has_rank(self) -> bool:
        """Predictions have ranks."""
        return "rank" in self.predicted["predictions"].columns

    def has_scores(self, table: str) -> bool:
        """A table of predictions has scores that are read."""
        return "score" in self.predicted[table].columns

    def of_user(self, table: str, user: object, request: Request) -> Inputs:
        """The rows of one user, with the lists of one table as predictions."""
        predicted = {"predictions": rows_of_user(self.predicted[table], user)}
        truth = rows_of_user(self.truth, user)
        train = None if self.train is None else rows_of_user(self.train, user)
        counts = _counts(predicted, truth, train, request, has_ratings=self.has_ratings)
        return replace(self, predicted=predicted, truth=truth, train=train, counts=counts)


def rows_of_user(rows: DataFrame, user: object) -> DataFrame:
    """The rows of one user; ids are compared as strings."""
    kept = rows.where(F.col("user").cast("string") == str(user))
    return kept.withColumn("bucket", F.lit(0)) if "bucket" in rows.columns else kept


def read_inputs(tables: Tables, request: Request, *, reads: Collection[str] = ()) -> Inputs:
    """Canonical forms of the caller's tables.

    Args:
        tables: The tables.
        request: What is asked.
        reads: Tables that are read even if no metric looks at them.

    Raises:
        DataError: A column is missing or has a type that cannot be used; the message names table, column and key.
    """
    frames = {name: table for name, table in tables.by_name.items() if name in request.tables_read | set(reads)}
    columns = request.columns
    with example_in_errors():
        chosen = choose_columns({name: schema_of(name, frame) for name, frame in frames.items()}, request)
    predicted = {}
    for table, read in chosen.lists.items():
        predicted[table] = _canonical(frames[table], read, chosen, columns, (request.n_buckets, request.longest_array(table)))
    truth = frames["truth"]
    rating = F.lit(1.0) if chosen.ratings is None else column_of(truth, columns.rating)
    canonical = [*_ids(truth, columns, chosen), rating.alias("rating")]
    if chosen.propensity:
        canonical.append(column_of(truth, columns.propensity).cast("double").alias("propensity"))
    truth = truth.select(*canonical)
    train = frames["train"].select(*_ids(frames["train"], columns, chosen)) if "train" in frames else None
    catalog = None
    if "catalog" in frames:
        catalog = frames["catalog"].select(column_of(frames["catalog"], columns.item).cast(chosen.items.name).alias("item"))
        predicted = {table: _with_known(rows, catalog) for table, rows in predicted.items()}
        truth = _with_known(truth, catalog)
    return Inputs(
        predicted,
        truth,
        chosen.ratings is not None,
        train,
        catalog,
        frames.get("user_segments"),
        frames.get("item_groups"),
        frames.get("item_features"),
        _counts(predicted, truth, train, request, has_ratings=chosen.ratings is not None),
    )


def _counts(
    predicted: Mapping[str, DataFrame], truth: DataFrame, train: DataFrame | None, request: Request, *, has_ratings: bool
) -> dict[str, RowCounts]:
    """What is counted of each table that is scored."""
    counts = {
        "truth": RowCounts.of(truth, faults_of_truth(truth), truth_counts(truth, request.convention, has_ratings=has_ratings))
    }
    if train is not None and request.counts_train:
        counts["train"] = RowCounts.of(train, {"null_ids": _no_id(train)})
    return counts | {table: RowCounts.of(rows, faults_of_predictions(rows)) for table, rows in predicted.items()}


def schema_of(table: str, frame: DataFrame) -> TableSchema:
    """The columns of a Spark table."""
    types = {column.name: column.dataType for column in frame.schema.fields}
    return TableSchema(
        table, frame.columns, lambda name: column_type(types[name]), lambda name: frame.select(column_of(frame, name))
    )


_KINDS: dict[type[DataType], Kind] = {
    IntegralType: "integer",
    FloatType: "float",
    DoubleType: "float",
    DecimalType: "decimal",
    StringType: "string",
    BooleanType: "boolean",
    DateType: "date",
    ArrayType: "array",
    StructType: "struct",
    NullType: "empty",
}


def column_type(kind: DataType) -> ColumnType:
    """The type of a Spark column."""
    name = kind.simpleString()
    if isinstance(kind, UserDefinedType):
        return ColumnType("vector" if name == "vector" else "other", name)
    element = column_type(kind.elementType) if isinstance(kind, ArrayType) else None
    fields = tuple((one.name, column_type(one.dataType)) for one in kind.fields) if isinstance(kind, StructType) else ()
    which: Kind = next((own for spark, own in _KINDS.items() if isinstance(kind, spark)), "other")
    return ColumnType(which, name, isinstance(kind, FloatType), element, fields)


def _with_known(rows: DataFrame, catalog: DataFrame) -> DataFrame:
    flagged = rows.join(catalog.distinct().withColumn("known", F.lit(True)), "item", "left")
    return flagged.select(*rows.columns, "known")


_BUCKET, _POSITION = "bucket of users", "position in the list"
"""Names of columns that come out of arrays, which no column of a caller's table has by accident."""


def _canonical(
    frame: DataFrame, read: ListColumns, chosen: ChosenColumns, columns: Columns, arrays: tuple[int, int | None]
) -> DataFrame:
    """Canonical predictions. Arrays become rows in so many buckets of users, up to a length."""
    rows = _exploded(frame, read, chosen, columns, arrays) if read.arrays else frame
    selected = _ids(rows, columns, chosen)
    if read.model:
        selected.insert(0, column_of(rows, columns.model).cast("string").alias("model"))
    rank = _POSITION if read.arrays else read.rank
    if rank is not None:
        selected.append(column_of(rows, rank).cast("bigint").alias("rank"))
    if read.score is not None:
        # In its own type: close integers or decimals would be ties as doubles.
        score = column_of(rows, columns.score)
        untyped = not read.arrays and isinstance(frame.schema[columns.score].dataType, NullType)
        selected.append((score.cast("double") if untyped else score).alias("score"))
    if read.arrays:
        selected.insert(0, column_of(rows, _BUCKET).alias("bucket"))
    return rows.select(*selected)


def _exploded(
    frame: DataFrame, read: ListColumns, chosen: ChosenColumns, columns: Columns, arrays: tuple[int, int | None]
) -> DataFrame:
    """One row per item, in the order of the arrays."""
    n_buckets, longest = arrays
    kept = [columns.model, columns.user] if read.model else [columns.user]
    items = column_of(frame, columns.items)
    # The arrays move, not the rows, and each bucket of users goes where its rows will be needed.
    bucket = bucket_of(column_of(frame, columns.user).cast(chosen.users.name), n_buckets).alias(_BUCKET)
    cut = (items if longest is None else F.slice(items, 1, longest)).alias(columns.items)
    moved = frame.select(bucket, *(column_of(frame, name).alias(name) for name in kept), cut)
    moved = moved.repartition(n_buckets, _BUCKET)
    kept = [_BUCKET, *kept]
    exploded = F.posexplode(column_of(moved, columns.items)).alias(_POSITION, columns.items)
    rows = moved.select(*(column_of(moved, name) for name in kept), exploded)
    element = column_of(rows, columns.items)
    item = element if read.item_field is None else element.getField(read.item_field)
    score = [] if read.score is None else [element.getField(read.score).alias(columns.score)]
    position = (column_of(rows, _POSITION) + 1).alias(_POSITION)
    return rows.select(*(column_of(rows, name) for name in kept), item.alias(columns.item), *score, position)


def _ids(frame: DataFrame, columns: Columns, chosen: ChosenColumns) -> list[Column]:
    return [
        column_of(frame, columns.user).cast(chosen.users.name).alias("user"),
        column_of(frame, columns.item).cast(chosen.items.name).alias("item"),
    ]


def union_models(table: str, frames: Mapping[str, DataFrame], columns: Columns, cast_ids: str | None = None) -> DataFrame:
    """One table of predictions out of one per model.

    Args:
        table: `predictions` or `rating_predictions`.
        frames: The tables by model name; a model column of their own is not read.
        columns: The caller's names, which the result has, too.
        cast_ids: As for `evaluate`.

    Raises:
        DataError: An id column is missing or its type differs between the tables.
    """
    schemas = {model: schema_of(f"{table} of {model}", frame) for model, frame in frames.items()}
    users = common_id("user", list(schemas.values()), columns.user, cast_ids)
    numbers: dict[str, str] = {}
    if all(schema.has_arrays(columns) for schema in schemas.values()):
        items = None
    else:
        items = common_id("item", list(schemas.values()), columns.item, cast_ids)
        numbers = {"rank": columns.rank} if columns.rank and table == "predictions" else {"score": columns.score}
        if "rank" in numbers and all(columns.score in frame.columns for frame in frames.values()):
            numbers["score"] = columns.score
    parts = []
    for model, frame in frames.items():
        for key, name in numbers.items():
            schemas[model].number(key, name)
        ids = column_of(frame, columns.items) if items is None else column_of(frame, columns.item).cast(items.name)
        selected = [
            column_of(frame, columns.user).cast(users.name).alias(columns.user),
            ids.alias(columns.items if items is None else columns.item),
            *(column_of(frame, name).alias(name) for name in numbers.values()),
            F.lit(model).alias(columns.model),
        ]
        parts.append(frame.select(*selected))
    return reduce(DataFrame.union, parts)


def column_of(frame: DataFrame, name: str) -> Column:
    """The column of exactly that name, whatever characters it has."""
    return frame["`" + name.replace("`", "``") + "`"]


def read_predictions(predictions: DataFrame, columns: Columns) -> DataFrame:
    """Canonical form of predictions alone.

    Raises:
        DataError: A column is missing or has a type that cannot be used.
    """
    chosen = choose_list_columns(schema_of("predictions", predictions), columns)
    return _canonical(predictions, chosen.lists["predictions"], chosen, columns, (1, None)).drop("bucket")


def faults_of_predictions(rows: DataFrame) -> dict[str, Column]:
    """What is wrong with a row of canonical predictions, by check."""
    numbers = {name: number_of(F.col(name).cast("double")) for name in ("rank", "score") if name in rows.columns}
    return prediction_faults(_nulls(rows), numbers.get("rank"), numbers.get("score")) | _unknown(rows)


def clean_predictions(rows: DataFrame, convention: Convention, policies: Mapping[str, str] = {}) -> DataFrame:
    """Canonical predictions without faulty rows. Scores that are missing are null, in the type that scores have."""
    kept = _without(rows, faults_of_predictions(rows), policies)
    if "score" not in rows.columns:
        return kept
    missing = number_of(F.col("score").cast("double")).missing
    if convention.nan_scores == "drop":
        return kept.where(~missing)
    return kept.withColumn("score", F.when(~missing, F.col("score")))


def faults_of_truth(rows: DataFrame) -> dict[str, Column]:
    """What is wrong with a row of canonical ground truth, by check."""
    propensity = number_of(F.col("propensity")) if "propensity" in rows.columns else None
    return truth_faults(_nulls(rows), number_of(F.col("rating").cast("double")), propensity) | _unknown(rows)


def truth_counts(rows: DataFrame, convention: Convention, *, has_ratings: bool) -> list[Column]:
    """What else is counted of canonical ground truth: relevant rows, the range of ratings, and a hash."""
    rating = F.col("rating").cast("double")
    number = F.when(~number_of(rating).unusable, rating)
    return [
        F.count_if(_relevant(rows, convention, has_ratings=has_ratings)).alias("relevant"),
        F.min(number).alias("lowest"),
        F.max(number).alias("highest"),
        # A sum does not depend on the order of the rows, and as a decimal it cannot overflow.
        F.sum(F.xxhash64("user", "item", rating).cast("decimal(20,0)")).alias("hash"),
    ]


def clean_truth(rows: DataFrame, convention: Convention, policies: Mapping[str, str] = {}) -> DataFrame:
    """Canonical ground truth without faulty rows, and without missing ratings where these are dropped."""
    kept = _without(rows, faults_of_truth(rows), policies)
    return kept.where(~number_of(F.col("rating").cast("double")).unusable) if convention.nan_scores == "drop" else kept


def clean_train(rows: DataFrame) -> DataFrame:
    """Training rows without those that have no user or no item."""
    return rows.where(~_no_id(rows))


def relevant_only(truth: DataFrame, convention: Convention, *, has_ratings: bool, judged: bool = False) -> DataFrame:
    """Ground truth with `rating` as a double where the row is relevant, else null: one column instead of two to move.

    Where what is judged matters, too, the rating of every row is `value`, null where it is missing.
    """
    # A NaN rating can be relevant, to `truthy` and `present`; for graded gains it is a rating of 0.
    rating = F.nanvl(F.coalesce(F.col("rating").cast("double"), F.lit(0.0)), F.lit(0.0))
    relevant = _relevant(truth, convention, has_ratings=has_ratings)
    values = [F.col("rating").cast("double").alias("value")] if judged else []
    # Rows that will be rejected are counted, and nothing is divided by their propensity.
    wrong = faults_of_truth(truth).get("bad_propensities")
    propensities = [] if wrong is None else [F.when(~wrong, F.col("propensity")).alias("propensity")]
    return truth.select("user", "item", F.when(relevant, rating).alias("rating"), *values, *propensities)


def relevant_pairs(truth: DataFrame, convention: Convention, *, has_ratings: bool) -> DataFrame:
    """`user, item, rating` of what is relevant, each pair once with its highest rating."""
    rows = relevant_only(truth, convention, has_ratings=has_ratings)
    return rows.where(F.col("rating").isNotNull()).groupBy("user", "item").agg(F.max("rating").alias("rating"))


def with_model_codes(rows: DataFrame, models: Sequence[str]) -> DataFrame:
    """The rows of these models, each with its position among them in place of its name; all where there is no model column."""
    if "model" not in rows.columns:
        return rows
    position = F.call_function("array_position", F.array(*(F.lit(model) for model in models)), F.col("model")) - 1
    return rows.where(F.col("model").isin(*models)).withColumn("model", position.cast("int"))


def number_of(number: Column) -> Number:
    """A column of doubles as the rules read it."""
    infinite = F.coalesce(F.abs(number) == float("inf"), F.lit(False))
    return Number(number, number.isNull(), F.isnan(number), infinite)


def _nulls(rows: DataFrame) -> dict[str, Column]:
    return {name: F.col(name).isNull() for name in ("model", "user", "item") if name in rows.columns}


def _no_id(rows: DataFrame) -> Column:
    null: Column = any_null(_nulls(rows))
    return null


def _unknown(rows: DataFrame) -> dict[str, Column]:
    """Which items the catalog lacks, where there is one."""
    return {"unknown_items": F.col("item").isNotNull() & F.col("known").isNull()} if "known" in rows.columns else {}


def _without(rows: DataFrame, faults: Mapping[str, Column], policies: Mapping[str, str]) -> DataFrame:
    """The rows without null ids and impossible ranks, which are never of use, and without those that a policy drops."""
    dropped = [fault for check, fault in faults.items() if check in ("null_ids", "bad_ranks") or policies.get(check) == "drop"]
    return reduce(lambda kept, fault: kept.where(~F.coalesce(fault, F.lit(False))), dropped, rows).drop("known")


def _relevant(truth: DataFrame, convention: Convention, *, has_ratings: bool) -> Column:
    if not has_ratings:
        return F.lit(True)
    threshold = F.lit(convention.threshold)
    single = isinstance(truth.schema["rating"].dataType, FloatType)
    rating = F.col("rating")
    number = Number(rating, rating.isNull(), F.isnan(rating), F.lit(False))
    relevant: Column = is_relevant(number, convention, threshold.cast("float") if single else threshold)
    return relevant


# Other packages read single columns of Spark tables, which are checked in the same words.


def typed_column(
    table: str, frame: DataFrame, key: str | None, name: str, kinds: tuple[type[DataType], ...], expected: str
) -> tuple[Column, DataType]:
    """A column of one of these Spark types, and its type. The key is None where `Columns` does not name it.

    Raises:
        DataError: There is no such column, or it has another type.
    """
    schema = schema_of(table, frame)
    actual = schema.type_of(key, name)
    found = frame.schema[name].dataType
    if not isinstance(found, kinds):
        raise schema.wrong_type(key, name, expected, actual)
    return column_of(frame, name), found


def column_of_kind(
    table: str, frame: DataFrame, key: str | None, name: str, kinds: Sequence[Kind], expected: str
) -> tuple[Column, ColumnType]:
    """The same by the kinds of `contract`."""
    return column_of(frame, name), schema_of(table, frame).typed(key, name, kinds, expected)


def id_column(table: str, frame: DataFrame, key: str, name: str) -> Column:
    """A column of ids.

    Raises:
        DataError: There is no such column, or its type cannot be used as an id.
    """
    schema_of(table, frame).id_type(key, name)
    return column_of(frame, name)
