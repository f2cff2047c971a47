"""Canonical rows of the caller's Spark tables, with a `bucket` if they come from arrays. The same pass counts faulty rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_recmetrics.columns import Columns
from spark_recmetrics.conventions import Convention
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.inputs import accepted_columns, row_rules
from spark_recmetrics.inputs.accepted_columns import ChosenColumns, ColumnType, Kind, ListColumns, TableSchema
from spark_recmetrics.inputs.buckets_spark import bucket_of
from spark_recmetrics.inputs.similar_ids import FOLDED_BY
from spark_recmetrics.inputs.tables import CanonicalTables, Tables, is_on_spark, type_name
from spark_recmetrics.request.request import Request
from spark_recmetrics.storage.actions import RowCounts, collect_rows
from spark_recmetrics.storage.locations import quoted_part
from spark_recmetrics.storage.read import example_in_errors
from spark_recmetrics.storage.typed_columns import with_types

_RETAINS_KEYS = "spark.sql.retainGroupColumns"


def check_frame(name: str, frame: DataFrame) -> None:
    """Check that a table is a Spark DataFrame and not a stream."""
    if not is_on_spark(name, frame):
        raise ConfigError(f"{name}: expected a Spark DataFrame, found {type_name(frame)}")
    check_session(frame.sparkSession)


def check_session(session: SparkSession) -> None:
    """Check the only setting of a session with which Spark would leave out columns that are read."""
    try:
        retains = session.conf.get(_RETAINS_KEYS, "true")
    except Exception:  # noqa: BLE001 - serverless sessions have the default, and may not be asked
        return
    if str(retains).lower() != "true":
        raise ConfigError(f"{_RETAINS_KEYS}: expected true, found {retains}: set it to true in this session")


class Inputs(CanonicalTables[DataFrame, DataFrame]):
    """The caller's tables in canonical form, checked by their schemas. No job has run, so `counts` are of type `RowCounts`."""


def rows_of_user(rows: DataFrame, user: object) -> DataFrame:
    """The rows of one user; ids are compared as strings."""
    kept = rows.where(F.col("user").cast("string") == str(user))
    return kept.withColumn("bucket", F.lit(0)) if "bucket" in rows.columns else kept


def read_inputs(tables: Tables, request: Request, *, reads: Collection[str] = ()) -> Inputs:
    """Canonical forms of the tables that a metric needs or that are in `reads`. `DataError` as from `choose_columns`."""
    columns = request.columns
    frames = {
        name: with_whole_ids(name, table, columns) if request.cast_ids == "bigint" else table
        for name, table in tables.by_name.items()
        if name in request.tables_read | set(reads)
    }
    with example_in_errors():
        chosen = accepted_columns.choose_columns({name: schema_of(name, frame) for name, frame in frames.items()}, request)
    predicted, uncut = dict[str, DataFrame](), dict[str, DataFrame]()
    for table, read in chosen.lists.items():
        longest = request.longest_array(table) if read.arrays else None
        predicted[table] = _canonical(frames[table], read, chosen, columns, n_buckets=request.n_buckets, longest=longest)
        if longest is not None:
            uncut[table] = _canonical(frames[table], read, chosen, columns, n_buckets=request.n_buckets, longest=None)
    truth = frames["truth"]
    rating = column_of(truth, columns.rating) if chosen.has_ratings else F.lit(1.0)
    canonical = [*_ids(truth, columns, chosen), rating.alias("rating")]
    if chosen.propensity:
        canonical.append(column_of(truth, columns.propensity).cast("double").alias("propensity"))
    truth = truth.select(*canonical)
    train = frames["train"].select(*_ids(frames["train"], columns, chosen)) if "train" in frames else None
    catalog = None
    if "catalog" in frames:
        catalog = frames["catalog"].select(column_of(frames["catalog"], columns.item).cast(chosen.items.name).alias("item"))
        predicted = {table: _with_catalog_flag(rows, catalog) for table, rows in predicted.items()}
        uncut = {table: _with_catalog_flag(rows, catalog) for table, rows in uncut.items()}
        truth = _with_catalog_flag(truth, catalog)
    inputs = Inputs(
        predicted,
        truth,
        chosen.has_ratings,
        train,
        catalog,
        frames.get("user_segments"),
        frames.get("item_groups"),
        frames.get("item_features"),
        uncut=uncut,
    )
    return with_counts(inputs, request)


def with_whole_ids(table: str, frame: DataFrame, columns: Columns) -> DataFrame:
    """The table with integers in place of floats as ids. Raises `DataError` if one has a fraction."""
    floats = [field.name for field in frame.schema if isinstance(field.dataType, T.FloatType | T.DoubleType)]
    ids = [name for name in (columns.user, columns.item) if name in floats]
    return with_types(frame, dict.fromkeys(ids, "bigint"), f"cast_ids: {table}", {})


def with_counts(inputs: Inputs, request: Request) -> Inputs:
    """The inputs, whose rows and faults are counted when they are read."""
    further = {"truth": _truth_counts(inputs.truth, request.convention, has_ratings=inputs.has_ratings)}
    for table, rows in inputs.predicted.items():
        ranks = row_rules.first_ranks(_columns_of(rows))
        further[table] = [F.count_if(is_first).alias(name) for name, is_first in ranks.items()]
    by_table = row_rules.faults_by_table(inputs, request, _columns_of)
    counts = {table: RowCounts.of(rows, faults, further.get(table, ())) for table, (rows, faults) in by_table.items()}
    return replace(inputs, counts=counts)


def schema_of(table: str, frame: DataFrame) -> TableSchema:
    """The columns of a Spark table."""
    types = {column.name: column.dataType for column in frame.schema.fields}
    return TableSchema(
        table, frame.columns, lambda name: column_type(types[name]), lambda name: frame.select(column_of(frame, name))
    )


_KINDS: dict[type[T.DataType], Kind] = {
    T.IntegralType: "integer",
    T.FloatType: "float",
    T.DoubleType: "float",
    T.DecimalType: "decimal",
    T.StringType: "string",
    T.BooleanType: "boolean",
    T.DateType: "date",
    T.ArrayType: "array",
    T.StructType: "struct",
    T.NullType: "empty",
}


def column_type(spark_type: T.DataType) -> ColumnType:
    """The type of a Spark column."""
    name = spark_type.simpleString()
    if isinstance(spark_type, T.UserDefinedType):
        return ColumnType("vector" if name == "vector" else "other", name)
    element = column_type(spark_type.elementType) if isinstance(spark_type, T.ArrayType) else None
    struct_fields = spark_type.fields if isinstance(spark_type, T.StructType) else ()
    fields = tuple((struct_field.name, column_type(struct_field.dataType)) for struct_field in struct_fields)
    kind: Kind = next((kind for base, kind in _KINDS.items() if isinstance(spark_type, base)), "other")
    return ColumnType(kind, name, element, fields)


def _with_catalog_flag(rows: DataFrame, catalog: DataFrame) -> DataFrame:
    flagged = rows.join(catalog.distinct().withColumn("in_catalog", F.lit(True)), "item", "left")
    return flagged.select(*rows.columns, "in_catalog")


def _canonical(
    frame: DataFrame, read: ListColumns, chosen: ChosenColumns, columns: Columns, *, n_buckets: int, longest: int | None
) -> DataFrame:
    """Canonical predictions. Arrays are cut at the length `longest`."""
    model = [column_of(frame, columns.model).cast("string").alias("model")] if read.model else []
    if read.arrays:
        return _exploded(frame, read, chosen, columns, model, n_buckets=n_buckets, longest=longest)
    selected = [*model, *_ids(frame, columns, chosen)]
    if read.rank is not None:
        selected.append(column_of(frame, read.rank).cast("bigint").alias("rank"))
    if read.score is not None:
        # In its own type: close integers or decimals would be ties as doubles.
        score, untyped = column_of(frame, read.score), isinstance(frame.schema[read.score].dataType, T.NullType)
        selected.append((score.cast("double") if untyped else score).alias("score"))
    return frame.select(*selected)


def _exploded(
    frame: DataFrame,
    read: ListColumns,
    chosen: ChosenColumns,
    columns: Columns,
    model: Sequence[Column],
    *,
    n_buckets: int,
    longest: int | None,
) -> DataFrame:
    """One row per item, in the order of the arrays."""
    user, items = column_of(frame, columns.user).cast(chosen.users.name), column_of(frame, columns.items)
    items = items if longest is None else F.slice(items, 1, longest)
    # The shuffle by bucket moves arrays, which are smaller than rows.
    lists = frame.select(bucket_of(user, n_buckets), *model, user.alias("user"), items.alias("items"))
    lists = lists.repartition(n_buckets, "bucket")
    keys = [name for name in lists.columns if name != "items"]
    element, rank = F.col("element"), (F.col("position") + 1).cast("bigint").alias("rank")
    item = element if read.item_field is None else element.getField(read.item_field)
    score = [] if read.score is None else [element.getField(read.score).alias("score")]
    rows = lists.select(*keys, F.posexplode("items").alias("position", "element"))
    return rows.select(*keys, item.cast(chosen.items.name).alias("item"), rank, *score)


def _ids(frame: DataFrame, columns: Columns, chosen: ChosenColumns) -> list[Column]:
    return [
        column_of(frame, columns.user).cast(chosen.users.name).alias("user"),
        column_of(frame, columns.item).cast(chosen.items.name).alias("item"),
    ]


def union_models(table: str, frames: Mapping[str, DataFrame], columns: Columns, cast_ids: str | None = None) -> DataFrame:
    """One table from a table of each model. `DataError` if id types differ, or a table has a column with several models."""
    _check_single_models(table, frames, columns)
    if cast_ids == "bigint":
        frames = {model: with_whole_ids(f"{table} of {model}", frame, columns) for model, frame in frames.items()}
    schemas = [schema_of(f"{table} of {model}", frame) for model, frame in frames.items()]
    ids, others = {columns.user: accepted_columns.common_id("user", schemas, columns.user, cast_ids)}, [columns.items]
    if not all(schema.has_arrays(columns) for schema in schemas):
        ids[columns.item] = accepted_columns.common_id("item", schemas, columns.item, cast_ids)
        numbers = {"rank": columns.rank} if columns.rank and table == "predictions" else {"score": columns.score}
        if all(columns.score in schema.names for schema in schemas):
            numbers["score"] = columns.score
        for schema in schemas:
            for key, name in numbers.items():
                schema.number(key, name)
        others = list(numbers.values())
    parts = []
    for model, frame in frames.items():
        cast = [column_of(frame, name).cast(id_type.name).alias(name) for name, id_type in ids.items()]
        kept = [column_of(frame, name).alias(name) for name in others]
        parts.append(frame.select(*cast, *kept, F.lit(model).alias(columns.model)))
    return union_all(parts)


def _check_single_models(table: str, frames: Mapping[str, DataFrame], columns: Columns) -> None:
    """Raise `DataError` if a model column, which is not read, has several models. A job runs only if there is such a column."""
    named = [
        (model, frame.select(column_of(frame, columns.model).cast("string").alias("name")))
        for model, frame in frames.items()
        if columns.model in frame.columns
    ]
    ends = [names.agg(F.lit(model), F.min("name"), F.max("name")) for model, names in named]
    for model, first, last in collect_rows(union_all(ends)) if ends else ():
        if first != last:
            raise DataError(
                f"{table} of {model}: expected one model, found {first!r} and {last!r} in column {columns.model!r}: set "
                f"where: {{{columns.model}: {first}}}, or give one table of all models as predictions"
            )


def of_some_users(rows: DataFrame, share: float) -> DataFrame:
    """All rows of about this share of the users, chosen by a hash."""
    n_hashes = 2**40
    return rows if share >= 1 else rows.where(F.pmod(F.xxhash64("user"), F.lit(n_hashes)) < int(share * n_hashes))


def repeats_by_user(rows: DataFrame, n_parts: int) -> DataFrame:
    """`[model,] user, n_repeats`: how many rows of each list repeat an item."""
    lists = [name for name in ("model", "user") if name in rows.columns]
    # Both aggregations need no further shuffle then.
    pairs = rows.select(*lists, "item").repartition(n_parts, "user").groupBy(*lists, "item").agg(F.count(F.lit(1)).alias("n"))
    return pairs.groupBy(*lists).agg((F.sum("n") - F.count(F.lit(1))).alias("n_repeats"))


def folded(ids: Column) -> Column:
    """The strings without the differences of `similar_ids`, in their Unicode form."""
    return reduce(lambda text, replaced: F.regexp_replace(text, *replaced), FOLDED_BY, F.lower(ids))


def union_all(frames: Iterable[DataFrame]) -> DataFrame:
    """The rows of all frames, whose columns are the same in the same order."""
    # Not DataFrame.union: the frames of Spark Connect 3.5 are of another class.
    return reduce(lambda left, right: left.union(right), frames)


def column_of(frame: DataFrame, name: str) -> Column:
    """The column with exactly this name, whatever characters it has."""
    column: Column = frame[quoted_part(name)]
    return column


def read_predictions(predictions: DataFrame, columns: Columns) -> DataFrame:
    """Canonical form of a single table of predictions. `DataError` if a column is missing or has the wrong type."""
    chosen = accepted_columns.choose_list_columns(schema_of("predictions", predictions), columns)
    return _canonical(predictions, chosen.lists["predictions"], chosen, columns, n_buckets=1, longest=None).drop("bucket")


def clean_predictions(rows: DataFrame, convention: Convention, policies: Mapping[str, str] = {}) -> DataFrame:
    """Canonical predictions without faulty rows. Missing scores are null, and the type is kept."""
    kept = _without(rows, row_rules.left_out(row_rules.prediction_faults(_columns_of(rows)), convention, policies))
    if "score" not in rows.columns or convention.nan_scores == "drop":
        return kept
    return kept.withColumn("score", F.when(~number_of(F.col("score")).missing, F.col("score")))


def clean_truth(rows: DataFrame, request: Request) -> DataFrame:
    """Canonical ground truth without faulty rows, and without missing ratings if the convention drops them."""
    return _without(rows, row_rules.left_out(row_rules.truth_faults(_columns_of(rows)), request.convention, request.policies))


def clean_train(rows: DataFrame) -> DataFrame:
    """Training rows that have a user and an item."""
    return _without(rows, [row_rules.null_ids(_columns_of(rows))])


def _truth_counts(rows: DataFrame, convention: Convention, *, has_ratings: bool) -> list[Column]:
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


def relevant_only(truth: DataFrame, convention: Convention, *, has_ratings: bool, judged: bool = False) -> DataFrame:
    """Ground truth whose `rating` is null if not relevant: one column to shuffle. With `judged`, `value` has every rating."""
    # A NaN rating is relevant under `truthy` and `present`. For graded gains it is a rating of 0.
    rating = F.nanvl(F.coalesce(F.col("rating").cast("double"), F.lit(0.0)), F.lit(0.0))
    columns = [F.when(_relevant(truth, convention, has_ratings=has_ratings), rating).alias("rating")]
    if judged:
        columns.append(F.col("rating").cast("double").alias("value"))
    if "propensity" in truth.columns:
        # Rows with a wrong propensity will be rejected. Until then, nothing is divided by it.
        propensity = F.col("propensity")
        columns.append(F.when(~row_rules.bad_propensity(number_of(propensity)), propensity).alias("propensity"))
    return truth.select("user", "item", *columns)


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


def number_of(column: Column) -> row_rules.Number:
    """A column as doubles, for the rules."""
    number = column.cast("double")
    return row_rules.Number(number, number.isNull(), F.isnan(number), F.coalesce(F.abs(number) == float("inf"), F.lit(False)))


def _columns_of(rows: DataFrame) -> row_rules.RowColumns:
    return row_rules.RowColumns(rows.columns, lambda name: F.col(name).isNull(), lambda name: number_of(F.col(name)))


def _without(rows: DataFrame, faults: Sequence[Column]) -> DataFrame:
    """The rows without those that have a fault."""
    return reduce(lambda kept, fault: kept.where(~F.coalesce(fault, F.lit(False))), faults, rows).drop("in_catalog")


def _relevant(truth: DataFrame, convention: Convention, *, has_ratings: bool) -> Column:
    if not has_ratings:
        return F.lit(True)
    single = isinstance(truth.schema["rating"].dataType, T.FloatType)
    relevant: Column = row_rules.is_relevant(number_of(F.col("rating")), convention, single=single)
    return relevant


def id_column(table: str, frame: DataFrame, key: str, name: str) -> Column:
    """A column of ids. `DataError` if it is missing or has another type."""
    schema_of(table, frame).id_type(key, name)
    return column_of(frame, name)
