"""From the caller's tables to canonical rows, with their faults counted in the same pass.

Canonical predictions are `user, item`, `score` and/or `rank`, perhaps `model` (the caller's name until `with_model_codes` makes
it a number) and `bucket` (of those that came as arrays). Canonical truth is `user, item, rating`, and `propensity` where it is
needed; `relevant_only` then sets the rating of what is not relevant to null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    FloatType,
    IntegralType,
    LongType,
    NumericType,
    StringType,
    StructType,
)

from spark_recmetrics.columns import Columns, WrongTypeError, near_column
from spark_recmetrics.conventions import Convention
from spark_recmetrics.errors import DataError
from spark_recmetrics.inputs.buckets_spark import bucket_of


@dataclass(frozen=True)
class Inputs:
    """The caller's tables, checked against the contract by their schemas; no Spark job has run.

    Args:
        predicted: Canonical predictions by table (`predictions`, perhaps `rating_predictions`), `model` still the
            caller's name, and absent where there is one model.
        truth: Canonical truth.
        has_ratings: Whether the truth has a rating column.
        train: `user, item` of the training rows, where these are needed.
        catalog: `item` of the catalogue, where there is a table of it.
        segments: The caller's table of users, as it is, where slices look at it.
        groups: The same of items.
        features: The caller's table of item features, as it is, where metrics need it.
    """

    predicted: Mapping[str, DataFrame]
    truth: DataFrame
    has_ratings: bool
    train: DataFrame | None = None
    catalog: DataFrame | None = None
    segments: DataFrame | None = None
    groups: DataFrame | None = None
    features: DataFrame | None = None

    @property
    def rating_table(self) -> str:
        """The table whose scores are predicted ratings."""
        return "rating_predictions" if "rating_predictions" in self.predicted else "predictions"


def read_inputs(
    predictions: DataFrame,
    truth: DataFrame,
    *,
    columns: Columns,
    rating_predictions: DataFrame | None = None,
    train: DataFrame | None = None,
    catalog: DataFrame | None = None,
    segments: DataFrame | None = None,
    groups: DataFrame | None = None,
    features: DataFrame | None = None,
    needs_score: Mapping[str, str] | None = None,
    needs_ratings: str | None = None,
    needs_propensity: str | None = None,
    cast_ids: str | None = None,
    n_buckets: int = 1,
    longest: int | None = None,
    reads_scores: bool = False,
) -> Inputs:
    """Canonical forms of the caller's tables.

    Args:
        predictions: One row per (model, user, item), with a score or a rank; or one per (model, user), with an array of items.
        truth: One row per (user, item), with a rating or without.
        columns: The caller's names.
        rating_predictions: Predicted ratings of (model, user, item) in the score column, where they are not the predictions.
        train: One row per (user, item), for metrics that leave out what a user has seen.
        catalog: One row per item. Predictions and truth get `known`, null where it lacks the item.
        segments: One row per user, whose columns are slices.
        groups: The same of items.
        features: One row per item.
        needs_score: By table, what cannot do without its score, for the message.
        needs_ratings: What cannot do without a rating column in the truth, for the message.
        needs_propensity: What cannot do without a propensity column in the truth, for the message.
        cast_ids: `string`: ids of different types become texts. None: they are refused.
        n_buckets: Arrays are moved to this many buckets of users before they become rows.
        longest: Arrays are cut at this length, None for no cut.
        reads_scores: Scores are read where there are any, also beside a rank.

    Raises:
        DataError: A column is missing or has a type that cannot serve; the message names table, column and key.
    """
    given = {"predictions": predictions}
    if rating_predictions is not None:
        given["rating_predictions"] = rating_predictions
    needs_score = needs_score or {}
    beside = {"truth": truth, **({} if train is None else {"train": train})}
    of_users = {} if segments is None else {"user_segments": segments}
    users = _common_type("user", {**given, **beside, **of_users}, columns.user, cast_ids)
    frames = {
        table: _opened(table, frame, columns, users, n_buckets, None if table in needs_score else longest)
        for table, frame in given.items()
    }
    named = {"catalog": catalog, "item_groups": groups, "item_features": features}
    of_items = {name: table for name, table in named.items() if table is not None}
    with_items = {**frames, **beside, **of_items}
    items = _common_type("item", with_items, columns.item, cast_ids)
    has_ratings = columns.rating in truth.columns
    if columns.rating != Columns.rating:
        needs_ratings = needs_ratings or "a name that is given"
    if needs_ratings and not has_ratings:
        raise _missing("truth", truth, "rating", columns.rating, f"{needs_ratings} needs it")
    rating = _number("truth", truth, "rating", columns.rating) if has_ratings else F.lit(1.0)
    with_model = [table for table, frame in frames.items() if columns.model in frame.columns]
    if columns.model != Columns.model and not with_model:
        raise _missing("predictions", predictions, "model", columns.model, "a name that is given needs it")
    if len(with_model) not in (0, len(frames)):
        other = next(table for table in frames if table not in with_model)
        raise _missing(other, frames[other], "model", columns.model, f"{with_model[0]} has it")
    predicted = {}
    for table, frame in frames.items():
        rank = _PLACE if frame is not given[table] else columns.rank if table == "predictions" else None
        reason = needs_score.get(table)
        score = rank is None or reason is not None or (reads_scores and columns.score in frame.columns)
        predicted[table] = _canonical(table, frame, columns, users, items, rank=rank, score=score, reason=reason)
    chosen = [*_ids(truth, columns, users, items), rating.alias("rating")]
    if needs_propensity is not None:
        reason = f"{needs_propensity} needs it"
        chosen.append(_number("truth", truth, "propensity", columns.propensity, reason).cast("double").alias("propensity"))
    canonical = truth.select(*chosen)
    known = None if catalog is None else catalog.select(column_of(catalog, columns.item).cast(items).alias("item"))
    if known is not None:
        predicted = {table: _with_known(rows, known) for table, rows in predicted.items()}
        canonical = _with_known(canonical, known)
    had = None if train is None else train.select(*_ids(train, columns, users, items))
    return Inputs(predicted, canonical, has_ratings, had, known, segments, groups, features)


def _with_known(rows: DataFrame, catalog: DataFrame) -> DataFrame:
    flagged = rows.join(catalog.distinct().withColumn("known", F.lit(True)), "item", "left")
    return flagged.select(*rows.columns, "known")


_ID_TYPES, _ID = (IntegralType, DecimalType, StringType), "a whole number or a string as an id"

_BUCKET, _PLACE = "bucket of users", "place in the list"
"""Names of columns that come out of arrays, which no column of a caller's table has by accident."""


def _opened(table: str, frame: DataFrame, columns: Columns, users: DataType, n_buckets: int, longest: int | None) -> DataFrame:
    """One row per item, in the order of the arrays; a table that has rows already as it is."""
    if not _has_arrays(frame, columns):
        return frame
    kind = _type_of(table, frame, "items", columns.items)
    if not isinstance(kind, ArrayType):
        raise _wrong_type(table, frame, "items", columns.items, "an array of items or of structs (item, score)", kind)
    named = {"model": columns.model, "user": columns.user}
    kept = [name for key, name in named.items() if name in frame.columns and _type_of(table, frame, key, name)]
    items = column_of(frame, columns.items)
    # The arrays move, not the rows, and each bucket of users goes where its rows will be wanted.
    bucket = bucket_of(column_of(frame, columns.user).cast(users), n_buckets).alias(_BUCKET)
    cut = (items if longest is None else F.slice(items, 1, longest)).alias(columns.items)
    moved = frame.select(bucket, *(column_of(frame, name).alias(name) for name in kept), cut).repartition(n_buckets, _BUCKET)
    kept = [_BUCKET, *kept]
    exploded = F.posexplode(column_of(moved, columns.items)).alias(_PLACE, columns.items)
    rows = moved.select(*(column_of(moved, name) for name in kept), exploded)
    item = column_of(rows, columns.items)
    found: list[Column] = []
    if isinstance(kind.elementType, StructType):
        fields = kind.elementType.fieldNames()
        if not fields or len({name.lower() for name in fields}) < len(fields):
            expected = "an array of structs (item, score), whose fields have different names in any case"
            raise _wrong_type(table, frame, "items", columns.items, expected, kind)
        first = columns.item if columns.item in fields else fields[0]
        second = columns.score if columns.score in fields else next((name for name in fields if name != first), None)
        if second is not None:
            found.append(item.getField(second).alias(columns.score))
        item = item.getField(first)
    place = (column_of(rows, _PLACE) + 1).alias(_PLACE)
    return rows.select(*(column_of(rows, name) for name in kept), item.alias(columns.item), *found, place)


def _ids(frame: DataFrame, columns: Columns, users: DataType, items: DataType) -> list[Column]:
    return [
        column_of(frame, columns.user).cast(users).alias("user"),
        column_of(frame, columns.item).cast(items).alias("item"),
    ]


def union_models(table: str, frames: Mapping[str, DataFrame], columns: Columns, cast_ids: str | None = None) -> DataFrame:
    """One table of predictions out of one per model.

    Args:
        table: `predictions` or `rating_predictions`.
        frames: The tables by model name; a model column of their own is not read.
        columns: The caller's names, which the result has, too.
        cast_ids: As for `read_inputs`.

    Raises:
        DataError: An id column is missing or its type differs between the tables.
    """
    named = {f"{table} of {model}": frame for model, frame in frames.items()}
    users = _common_type("user", named, columns.user, cast_ids)
    if all(_has_arrays(frame, columns) for frame in frames.values()):
        numbers, item = {}, None
    else:
        item = _common_type("item", named, columns.item, cast_ids)
        numbers = {"rank": columns.rank} if columns.rank and table == "predictions" else {"score": columns.score}
        if "rank" in numbers and all(columns.score in frame.columns for frame in frames.values()):
            numbers["score"] = columns.score
    parts = []
    for (part, frame), model in zip(named.items(), frames, strict=True):
        ids = column_of(frame, columns.items) if item is None else column_of(frame, columns.item).cast(item)
        chosen = [
            column_of(frame, columns.user).cast(users).alias(columns.user),
            ids.alias(columns.items if item is None else columns.item),
            *(_number(part, frame, key, name).alias(name) for key, name in numbers.items()),
            F.lit(model).alias(columns.model),
        ]
        parts.append(frame.select(*chosen))
    return reduce(lambda one, other: one.union(other), parts)


def _has_arrays(frame: DataFrame, columns: Columns) -> bool:
    """Whether a table has one row per user, with an array of items."""
    return columns.item not in frame.columns and columns.items in frame.columns


def column_of(frame: DataFrame, name: str) -> Column:
    """The column of exactly that name, whatever characters it has."""
    return frame["`" + name.replace("`", "``") + "`"]


def typed_column(
    table: str, frame: DataFrame, key: str | None, name: str, kinds: tuple[type[DataType], ...], expected: str
) -> tuple[Column, DataType]:
    """A column of one of these types, and its type. The key is None where something else than `Columns` names it.

    Raises:
        DataError: There is no such column, or it has another type.
    """
    found = _type_of(table, frame, key, name)
    if not isinstance(found, kinds):
        raise _wrong_type(table, frame, key, name, expected, found)
    return column_of(frame, name), found


def id_column(table: str, frame: DataFrame, key: str, name: str) -> Column:
    """A column of ids.

    Raises:
        DataError: There is no such column, or its type can be no id.
    """
    return typed_column(table, frame, key, name, _ID_TYPES, _ID)[0]


def read_predictions(predictions: DataFrame, columns: Columns) -> DataFrame:
    """Canonical form of predictions alone.

    Raises:
        DataError: A column is missing or has a type that cannot serve.
    """
    users = _common_type("user", {"predictions": predictions}, columns.user)
    rows = _opened("predictions", predictions, columns, users, 1, None)
    items = _common_type("item", {"predictions": rows}, columns.item)
    rank = columns.rank if rows is predictions else _PLACE
    return _canonical(
        "predictions", rows, columns, users, items, rank=rank, score=rank is None or columns.score in rows.columns
    ).drop("bucket")


def prediction_faults(rows: DataFrame) -> dict[str, Column]:
    """What is wrong with a row of canonical predictions, by check."""
    faults = {"null_ids": _no_id(rows), "bad_ranks": _no_rank(rows), **_unknown(rows)}
    if "score" in rows.columns:
        faults |= {"nan_scores": _missing_number(_double("score")), "infinite_scores": _infinite(_double("score"))}
    return faults


def clean_predictions(rows: DataFrame, convention: Convention, policies: Mapping[str, str] = {}) -> DataFrame:
    """Canonical predictions without faulty rows. Scores that are missing are null, in the type that scores have."""
    kept = _without(rows, prediction_faults(rows), policies)
    if "score" not in rows.columns:
        return kept
    missing = _missing_number(_double("score"))
    if convention.nan_scores == "drop":
        return kept.where(~missing)
    return kept.withColumn("score", F.when(~missing, F.col("score")))


def truth_faults(rows: DataFrame) -> dict[str, Column]:
    """What is wrong with a row of canonical truth, by check."""
    faults = {"null_ids": _no_id(rows), "nan_ratings": _no_finite_number(_double("rating")), **_unknown(rows)}
    if "propensity" in rows.columns:
        chance = F.col("propensity")
        faults["bad_propensities"] = _missing_number(chance) | (chance <= 0) | (chance > 1)
    return faults


def train_faults(rows: DataFrame) -> dict[str, Column]:
    """What is wrong with a training row, by check."""
    return {"null_ids": _no_id(rows)}


def truth_counts(rows: DataFrame, convention: Convention, *, has_ratings: bool) -> list[Column]:
    """What else is counted of canonical truth: relevant rows, the range of ratings, and a hash."""
    rating = _double("rating")
    number = F.when(~_no_finite_number(rating), rating)
    return [
        F.count_if(_is_relevant(rows, convention, has_ratings=has_ratings)).alias("relevant"),
        F.min(number).alias("lowest"),
        F.max(number).alias("highest"),
        # A sum does not depend on the order of the rows, and as a decimal it cannot overflow.
        F.sum(F.xxhash64("user", "item", rating).cast("decimal(20,0)")).alias("hash"),
    ]


def clean_truth(rows: DataFrame, convention: Convention, policies: Mapping[str, str] = {}) -> DataFrame:
    """Canonical truth without faulty rows, and without missing ratings where these are to be dropped."""
    kept = _without(rows, truth_faults(rows), policies)
    return kept.where(~_no_finite_number(_double("rating"))) if convention.nan_scores == "drop" else kept


def relevant_only(truth: DataFrame, convention: Convention, *, has_ratings: bool, judged: bool = False) -> DataFrame:
    """Truth with `rating` as a double where the row is relevant and null where it is not: one column instead of two to move.

    Where what is judged matters, too, the rating of every row is `value`, null where it is missing.
    """
    # A NaN rating can be relevant, to `truthy` and `present`; for graded gains it is a rating of 0.
    rating = F.nanvl(F.coalesce(F.col("rating").cast("double"), F.lit(0.0)), F.lit(0.0))
    relevant = _is_relevant(truth, convention, has_ratings=has_ratings)
    values = [F.col("rating").cast("double").alias("value")] if judged else []
    # Rows that will be refused are counted, and nothing is divided by what they have.
    wrong = truth_faults(truth).get("bad_propensities")
    chances = [] if wrong is None else [F.when(~wrong, F.col("propensity")).alias("propensity")]
    return truth.select("user", "item", F.when(relevant, rating).alias("rating"), *values, *chances)


def relevant_pairs(truth: DataFrame, convention: Convention, *, has_ratings: bool) -> DataFrame:
    """`user, item, rating` of what is relevant, each pair once with its highest rating."""
    rows = relevant_only(truth, convention, has_ratings=has_ratings)
    return rows.where(F.col("rating").isNotNull()).groupBy("user", "item").agg(F.max("rating").alias("rating"))


def with_model_codes(rows: DataFrame, models: Sequence[str]) -> DataFrame:
    """The rows of these models, its place in the list, from 0, for the name of each; all where there is no model column."""
    if "model" not in rows.columns:
        return rows
    place = F.call_function("array_position", F.array(*(F.lit(model) for model in models)), F.col("model")) - 1
    return rows.where(F.col("model").isin(*models)).withColumn("model", place.cast("int"))


def _no_id(rows: DataFrame) -> Column:
    ids = [column for column in ("model", "user", "item") if column in rows.columns]
    return reduce(or_, (F.col(column).isNull() for column in ids))


def _no_rank(rows: DataFrame) -> Column:
    return (F.col("rank").isNull() | (F.col("rank") < 1)) if "rank" in rows.columns else F.lit(False)


def _double(column: str) -> Column:
    return F.col(column).cast("double")


def _missing_number(number: Column) -> Column:
    return number.isNull() | F.isnan(number)


def _no_finite_number(number: Column) -> Column:
    return _missing_number(number) | _infinite(number)


def _infinite(number: Column) -> Column:
    return F.abs(number) == float("inf")


def _unknown(rows: DataFrame) -> dict[str, Column]:
    """Which items the catalogue lacks, where there is one."""
    return {"unknown_items": F.col("item").isNotNull() & F.col("known").isNull()} if "known" in rows.columns else {}


def _without(rows: DataFrame, faults: Mapping[str, Column], policies: Mapping[str, str]) -> DataFrame:
    """The rows without null ids and impossible ranks, which are nowhere of use, and without those that a policy drops."""
    left_out = [fault for check, fault in faults.items() if check in ("null_ids", "bad_ranks") or policies.get(check) == "drop"]
    return reduce(lambda kept, fault: kept.where(~F.coalesce(fault, F.lit(False))), left_out, rows).drop("known")


def _canonical(
    table: str,
    frame: DataFrame,
    columns: Columns,
    users: DataType,
    items: DataType,
    *,
    rank: str | None,
    score: bool,
    reason: str | None = None,
) -> DataFrame:
    chosen = _ids(frame, columns, users, items)
    if columns.model in frame.columns:
        _type_of(table, frame, "model", columns.model)
        chosen.insert(0, column_of(frame, columns.model).cast("string").alias("model"))
    if rank is not None:
        chosen.append(_number(table, frame, "rank", rank).cast("bigint").alias("rank"))
    if score:
        number = _number(table, frame, "score", columns.score, reason or "or name a rank in columns.rank")
        chosen.append(number.alias("score"))
    moved = [column_of(frame, _BUCKET).alias("bucket")] if rank == _PLACE else []
    return frame.select(*moved, *chosen)


def _is_relevant(truth: DataFrame, convention: Convention, *, has_ratings: bool) -> Column:
    if not has_ratings or convention.relevance == "present":
        return F.lit(True)
    rating = F.col("rating")
    number = rating.isNotNull() & ~F.isnan(rating)
    if convention.relevance == "truthy":
        return F.coalesce(F.isnan(rating) | (rating != 0), F.lit(False))
    if convention.relevance == "positive":
        return number & (rating > 0)
    # 4.1 stored as a float is below 4.1 as a double, so the threshold is compared in the type of the ratings.
    threshold = F.lit(convention.threshold)
    kept_type = truth.schema["rating"].dataType
    return number & (rating >= (threshold.cast("float") if isinstance(kept_type, FloatType) else threshold))


def _type_of(table: str, frame: DataFrame, key: str | None, name: str, reason: str = "") -> DataType:
    twins = [column for column in frame.columns if column.lower() == name.lower()]
    if len(twins) > 1:
        raise DataError(f"{table}: expected one column named {name!r}{_named_by(key)}, in any case, found {', '.join(twins)}")
    if name not in frame.columns:
        raise _missing(table, frame, key, name, reason)
    return next(column.dataType for column in frame.schema.fields if column.name == name)


def _missing(table: str, frame: DataFrame, key: str | None, name: str, reason: str = "") -> DataError:
    reason = f" ({reason})" if reason else ""
    return DataError(f"{table}: no column {name!r}{_named_by(key)}{reason}{near_column(name, frame.columns)}")


def _wrong_type(table: str, frame: DataFrame, key: str | None, name: str, expected: str, found: DataType) -> DataError:
    place = f"{table}: column {name!r}{_named_by(key)}"
    told = f"{place}: expected {expected}, found {found.simpleString()}"
    return WrongTypeError(told, "cast it first", _texts({table: frame}, name, {table: found}))


def _texts(frames: Mapping[str, DataFrame], name: str, kinds: Mapping[str, DataType]) -> dict[str, DataFrame]:
    """The column of that name of each table in which it has texts."""
    texts = (table for table, kind in kinds.items() if isinstance(kind, StringType))
    return {table: frames[table].select(column_of(frames[table], name)) for table in texts}


def _named_by(key: str | None) -> str:
    return "" if key is None else f" (columns.{key})"


def _number(table: str, frame: DataFrame, key: str, name: str, reason: str = "") -> Column:
    """A column of numbers in its own type: close whole or decimal scores would be ties as doubles."""
    found = _type_of(table, frame, key, name, reason)
    if key == "rank" and not isinstance(found, IntegralType):
        raise _wrong_type(table, frame, key, name, "a whole number", found)
    if not isinstance(found, NumericType):
        raise _wrong_type(table, frame, key, name, "a number", found)
    return column_of(frame, name)


def _common_type(key: str, frames: Mapping[str, DataFrame], name: str, cast_ids: str | None = None) -> DataType:
    found = {table: _type_of(table, frame, key, name) for table, frame in frames.items()}
    for table, kind in found.items():
        if not isinstance(kind, _ID_TYPES):
            raise _wrong_type(table, frames[table], key, name, _ID, kind)
    kinds = list(found.values())
    if cast_ids == "string":
        return StringType()
    if all(isinstance(kind, IntegralType) for kind in kinds):
        return kinds[0] if all(kind == kinds[0] for kind in kinds) else LongType()
    if all(isinstance(kind, StringType) for kind in kinds):
        return StringType()
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    sides = ", ".join(f"{kind.simpleString()} in {table}" for table, kind in found.items())
    told = f"column {name!r} (columns.{key}): expected one type on all sides, found {sides}"
    raise WrongTypeError(told, "cast one of them first, or set cast_ids to string", _texts(frames, name, found))
