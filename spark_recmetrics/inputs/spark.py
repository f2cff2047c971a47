"""Canonical rows of the caller's Spark tables. Faulty rows are counted in the same pass.

Canonical predictions have the columns `user, item`, and `score`, `rank` or both. They have `model` if there are several models:
the name until `with_model_codes` replaces it by a number. They have `bucket` if they come from arrays. Canonical ground truth
has `user, item, rating`, and `propensity` if it is needed.
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
from spark_recmetrics.storage.identifiers import quoted_part
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
        predicted: By table (`predictions`, and `rating_predictions` if given), canonical predictions.
        truth: Canonical ground truth.
        has_ratings: The ground truth has a rating column.
        train: `user, item` of the training rows, if they are needed.
        catalog: `item` of the catalog, if there is a table.
        segments: The caller's table of users, if it is needed.
        groups: The caller's table of items, if it is needed.
        features: The caller's table of item features, if it is needed.
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
        """A table of predictions has scores, and they are read."""
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
        tables: The caller's tables.
        request: Decides which tables and columns are read.
        reads: Tables that are read even if no metric needs them.

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
        predicted = {table: _with_catalog_flag(rows, catalog) for table, rows in predicted.items()}
        truth = _with_catalog_flag(truth, catalog)
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
    """The counts of each table that is scored."""
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


def column_type(spark_type: DataType) -> ColumnType:
    """The type of a Spark column."""
    name = spark_type.simpleString()
    if isinstance(spark_type, UserDefinedType):
        return ColumnType("vector" if name == "vector" else "other", name)
    element = column_type(spark_type.elementType) if isinstance(spark_type, ArrayType) else None
    struct_fields = spark_type.fields if isinstance(spark_type, StructType) else ()
    fields = tuple((struct_field.name, column_type(struct_field.dataType)) for struct_field in struct_fields)
    kind: Kind = next((kind for base, kind in _KINDS.items() if isinstance(spark_type, base)), "other")
    return ColumnType(kind, name, isinstance(spark_type, FloatType), element, fields)


def _with_catalog_flag(rows: DataFrame, catalog: DataFrame) -> DataFrame:
    flagged = rows.join(catalog.distinct().withColumn("in_catalog", F.lit(True)), "item", "left")
    return flagged.select(*rows.columns, "in_catalog")


_BUCKET, _POSITION = "bucket of users", "position in the list"
"""Names of columns that come from arrays. No column of a caller's table has them by accident."""


def _canonical(
    frame: DataFrame, read: ListColumns, chosen: ChosenColumns, columns: Columns, arrays: tuple[int, int | None]
) -> DataFrame:
    """Canonical predictions. `arrays`: the number of buckets, and the length at which arrays are cut."""
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
    # The shuffle by bucket moves arrays, which are smaller than rows.
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
    """One table of the predictions of several models.

    Args:
        table: `predictions` or `rating_predictions`.
        frames: By model, its table. A model column in it is not read.
        columns: The caller's column names, also of the result.
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
    """The column with exactly this name, whatever characters it has."""
    column: Column = frame[quoted_part(name)]
    return column


def read_predictions(predictions: DataFrame, columns: Columns) -> DataFrame:
    """Canonical form of a single table of predictions.

    Raises:
        DataError: A column is missing or has a type that cannot be used.
    """
    chosen = choose_list_columns(schema_of("predictions", predictions), columns)
    return _canonical(predictions, chosen.lists["predictions"], chosen, columns, (1, None)).drop("bucket")


def faults_of_predictions(rows: DataFrame) -> dict[str, Column]:
    """By check, whether a row of canonical predictions fails it."""
    numbers = {name: number_of(F.col(name).cast("double")) for name in ("rank", "score") if name in rows.columns}
    return prediction_faults(_nulls(rows), numbers.get("rank"), numbers.get("score")) | _unknown_items(rows)


def clean_predictions(rows: DataFrame, convention: Convention, policies: Mapping[str, str] = {}) -> DataFrame:
    """Canonical predictions without faulty rows. Missing scores are null, and the type is kept."""
    kept = _without(rows, faults_of_predictions(rows), policies)
    if "score" not in rows.columns:
        return kept
    missing = number_of(F.col("score").cast("double")).missing
    if convention.nan_scores == "drop":
        return kept.where(~missing)
    return kept.withColumn("score", F.when(~missing, F.col("score")))


def faults_of_truth(rows: DataFrame) -> dict[str, Column]:
    """By check, whether a row of canonical ground truth fails it."""
    propensity = number_of(F.col("propensity")) if "propensity" in rows.columns else None
    return truth_faults(_nulls(rows), number_of(F.col("rating").cast("double")), propensity) | _unknown_items(rows)


def truth_counts(rows: DataFrame, convention: Convention, *, has_ratings: bool) -> list[Column]:
    """Further aggregates of canonical ground truth: relevant rows, the range of ratings, and a hash."""
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
    """Canonical ground truth without faulty rows, and without missing ratings if the convention drops them."""
    kept = _without(rows, faults_of_truth(rows), policies)
    return kept.where(~number_of(F.col("rating").cast("double")).unusable) if convention.nan_scores == "drop" else kept


def clean_train(rows: DataFrame) -> DataFrame:
    """Training rows that have a user and an item."""
    return rows.where(~_no_id(rows))


def relevant_only(truth: DataFrame, convention: Convention, *, has_ratings: bool, judged: bool = False) -> DataFrame:
    """Ground truth whose `rating` is a double if the row is relevant, else null: one column instead of two to shuffle.

    With `judged`, the column `value` has the rating of every row.
    """
    # A NaN rating is relevant under `truthy` and `present`. For graded gains it is a rating of 0.
    rating = F.nanvl(F.coalesce(F.col("rating").cast("double"), F.lit(0.0)), F.lit(0.0))
    relevant = _relevant(truth, convention, has_ratings=has_ratings)
    values = [F.col("rating").cast("double").alias("value")] if judged else []
    # Rows with a wrong propensity will be rejected. Until then, nothing is divided by it.
    wrong = faults_of_truth(truth).get("bad_propensities")
    propensities = [] if wrong is None else [F.when(~wrong, F.col("propensity")).alias("propensity")]
    return truth.select("user", "item", F.when(relevant, rating).alias("rating"), *values, *propensities)


def relevant_pairs(truth: DataFrame, convention: Convention, *, has_ratings: bool) -> DataFrame:
    """`user, item, rating` of relevant rows, each pair once with its highest rating."""
    rows = relevant_only(truth, convention, has_ratings=has_ratings)
    return rows.where(F.col("rating").isNotNull()).groupBy("user", "item").agg(F.max("rating").alias("rating"))


def with_model_codes(rows: DataFrame, models: Sequence[str]) -> DataFrame:
    """The rows of these models, with the position of the model instead of its name. All rows if there is no model column."""
    if "model" not in rows.columns:
        return rows
    position = F.call_function("array_position", F.array(*(F.lit(model) for model in models)), F.col("model")) - 1
    return rows.where(F.col("model").isin(*models)).withColumn("model", position.cast("int"))


def number_of(number: Column) -> Number:
    """A column of doubles as `rules` reads it."""
    infinite = F.coalesce(F.abs(number) == float("inf"), F.lit(False))
    return Number(number, number.isNull(), F.isnan(number), infinite)


def _nulls(rows: DataFrame) -> dict[str, Column]:
    return {name: F.col(name).isNull() for name in ("model", "user", "item") if name in rows.columns}


def _no_id(rows: DataFrame) -> Column:
    null: Column = any_null(_nulls(rows))
    return null


def _unknown_items(rows: DataFrame) -> dict[str, Column]:
    return {"unknown_items": F.col("item").isNotNull() & F.col("in_catalog").isNull()} if "in_catalog" in rows.columns else {}


def _without(rows: DataFrame, faults: Mapping[str, Column], policies: Mapping[str, str]) -> DataFrame:
    """The rows without null ids and impossible ranks, and without those that a policy drops."""
    dropped = [fault for check, fault in faults.items() if check in ("null_ids", "bad_ranks") or policies.get(check) == "drop"]
    return reduce(lambda kept, fault: kept.where(~F.coalesce(fault, F.lit(False))), dropped, rows).drop("in_catalog")


def _relevant(truth: DataFrame, convention: Convention, *, has_ratings: bool) -> Column:
    if not has_ratings:
        return F.lit(True)
    threshold = F.lit(convention.threshold)
    single = isinstance(truth.schema["rating"].dataType, FloatType)
    rating = F.col("rating")
    number = Number(rating, rating.isNull(), F.isnan(rating), F.lit(False))
    relevant: Column = is_relevant(number, convention, threshold.cast("float") if single else threshold)
    return relevant


# Other packages read single columns of Spark tables with the same error messages.


def typed_column(
    table: str, frame: DataFrame, key: str | None, name: str, kinds: tuple[type[DataType], ...], expected: str
) -> tuple[Column, DataType]:
    """A column of one of these Spark types, and its type. The key is None if `Columns` does not name it.

    Raises:
        DataError: The column does not exist, or has another type.
    """
    schema = schema_of(table, frame)
    actual = schema.type_of(key, name)
    spark_type = frame.schema[name].dataType
    if not isinstance(spark_type, kinds):
        raise schema.wrong_type(key, name, expected, actual)
    return column_of(frame, name), spark_type


def id_column(table: str, frame: DataFrame, key: str, name: str) -> Column:
    """A column of ids.

    Raises:
        DataError: The column does not exist, or its type cannot be used for ids.
    """
    schema_of(table, frame).id_type(key, name)
    return column_of(frame, name)
