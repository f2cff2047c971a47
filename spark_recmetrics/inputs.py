"""From the caller's tables to canonical rows, with their faults counted in the same pass.

Canonical predictions are `user, item, score` and, where there are any, `rank` and `model` (the place of the model in the
list of models, from 0). Canonical truth is `user, item, rating`; `relevant_only` then sets the rating of what is not
relevant to null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, FloatType, IntegralType, LongType, NumericType, StringType

from spark_recmetrics.conventions import Convention
from spark_recmetrics.errors import DataError, did_you_mean
from spark_recmetrics.schema import Columns


@dataclass(frozen=True)
class Inputs:
    """The caller's tables, checked against the contract by their schemas; no Spark job has run.

    Args:
        predicted: Canonical predictions by table (`predictions`, perhaps `rating_predictions`), `model` still the
            caller's name, and absent where there is one model.
        truth: Canonical truth.
        has_ratings: Whether the truth has a rating column.
    """

    predicted: Mapping[str, DataFrame]
    truth: DataFrame
    has_ratings: bool

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
    needs_score: str | None = None,
    needs_ratings: str | None = None,
) -> Inputs:
    """Canonical forms of the caller's tables.

    Args:
        predictions: One row per (model, user, item), with a score or a rank.
        truth: One row per (user, item), with a rating or without.
        columns: The caller's names.
        rating_predictions: Predicted ratings of (model, user, item) in the score column, where they are not the predictions.
        needs_score: What cannot do without the score that the ratings are predicted by, for the message.
        needs_ratings: What cannot do without a rating column in the truth, for the message.

    Raises:
        DataError: A column is missing or has a type that cannot serve; the message names table, column and key.
    """
    frames = {"predictions": predictions}
    if rating_predictions is not None:
        frames["rating_predictions"] = rating_predictions
    sides = {**frames, "truth": truth}
    users, items = (_common_type(key, sides, getattr(columns, key)) for key in ("user", "item"))
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
        rank = columns.rank if table == "predictions" else None
        # The last table is the one whose scores are predicted ratings.
        reason = needs_score if table == list(frames)[-1] else None
        predicted[table] = _canonical(
            table, frame, columns, users, items, rank=rank, score=rank is None or reason is not None, reason=reason
        )
    true = truth.select(
        column_of(truth, columns.user).cast(users).alias("user"),
        column_of(truth, columns.item).cast(items).alias("item"),
        rating.alias("rating"),
    )
    return Inputs(predicted, true, has_ratings)


def union_models(table: str, frames: Mapping[str, DataFrame], columns: Columns) -> DataFrame:
    """One table of predictions out of one per model.

    Args:
        table: `predictions` or `rating_predictions`.
        frames: The tables by model name; a model column of their own is not read.
        columns: The caller's names, which the result has, too.

    Raises:
        DataError: An id column is missing or its type differs between the tables.
    """
    named = {f"{table} of {model}": frame for model, frame in frames.items()}
    users, items = (_common_type(key, named, getattr(columns, key)) for key in ("user", "item"))
    numbers = {"rank": columns.rank} if columns.rank and table == "predictions" else {"score": columns.score}
    if "rank" in numbers and all(columns.score in frame.columns for frame in frames.values()):
        numbers["score"] = columns.score
    parts = []
    for (part, frame), model in zip(named.items(), frames, strict=True):
        chosen = [
            column_of(frame, columns.user).cast(users).alias(columns.user),
            column_of(frame, columns.item).cast(items).alias(columns.item),
            *(_number(part, frame, key, name).alias(name) for key, name in numbers.items()),
            F.lit(model).alias(columns.model),
        ]
        parts.append(frame.select(*chosen))
    return reduce(lambda one, other: one.union(other), parts)


def column_of(frame: DataFrame, name: str) -> Column:
    """The column of exactly that name, whatever characters it has."""
    return frame["`" + name.replace("`", "``") + "`"]


def read_predictions(predictions: DataFrame, columns: Columns) -> DataFrame:
    """Canonical form of predictions alone.

    Raises:
        DataError: A column is missing or has a type that cannot serve.
    """
    users, items = (_common_type(key, {"predictions": predictions}, getattr(columns, key)) for key in ("user", "item"))
    score = columns.rank is None or columns.score in predictions.columns
    return _canonical("predictions", predictions, columns, users, items, rank=columns.rank, score=score)


def prediction_counts(rows: DataFrame, *, as_ratings: bool) -> list[Column]:
    """What is counted of predictions: rows, and each fault with an example.

    Args:
        rows: Canonical predictions.
        as_ratings: The scores are predicted ratings, too, of which an infinite one would make every error infinite.
    """
    score = _double("score") if "score" in rows.columns else F.lit(0.0)
    faults = {"null_ids": _no_id(rows), "nan_scores": _missing_number(score), "bad_ranks": _no_rank(rows)}
    if as_ratings:
        faults["infinite_scores"] = F.abs(score) == float("inf")
    return _counts(faults)


def clean_predictions(rows: DataFrame, convention: Convention) -> DataFrame:
    """Canonical predictions without null ids and impossible ranks; descending scores put NaN where the convention says."""
    kept = rows.where(~_no_id(rows) & ~_no_rank(rows))
    if "score" not in rows.columns:
        return kept
    score, missing = F.col("score"), _missing_number(_double("score"))
    if convention.nan_scores == "drop":
        return kept.where(~missing)
    # In descending order Spark puts NaN first and null last.
    if convention.nan_scores == "first":
        return kept.withColumn("score", F.when(missing, F.lit(float("nan"))).otherwise(score))
    return kept.withColumn("score", F.when(~missing, score))


def truth_counts(rows: DataFrame, convention: Convention, *, has_ratings: bool) -> list[Column]:
    """What is counted of canonical truth: rows, faults with an example, relevant rows, the range of ratings, and a hash."""
    rating = _double("rating")
    bad_rating = _missing_number(rating) | (F.abs(rating) == float("inf"))
    return [
        *_counts({"null_ids": _no_id(rows), "nan_ratings": bad_rating}),
        F.count_if(_is_relevant(rows, convention, has_ratings=has_ratings)).alias("relevant"),
        F.min(F.when(~bad_rating, rating)).alias("lowest"),
        F.max(F.when(~bad_rating, rating)).alias("highest"),
        # A sum does not depend on the order of the rows, and as a decimal it cannot overflow.
        F.sum(F.xxhash64("user", "item", rating).cast("decimal(20,0)")).alias("hash"),
    ]


def clean_truth(rows: DataFrame, convention: Convention) -> DataFrame:
    """Canonical truth without null ids, and without missing ratings where these are to be dropped."""
    kept = rows.where(~_no_id(rows))
    return kept.where(~_missing_number(_double("rating"))) if convention.nan_scores == "drop" else kept


def relevant_only(truth: DataFrame, convention: Convention, *, has_ratings: bool) -> DataFrame:
    """Truth with `rating` as a double where the row is relevant and null where it is not: one column instead of two to move."""
    # A NaN rating can be relevant, to `truthy` and `present`; for graded gains it is a rating of 0.
    rating = F.nanvl(F.coalesce(F.col("rating").cast("double"), F.lit(0.0)), F.lit(0.0))
    relevant = _is_relevant(truth, convention, has_ratings=has_ratings)
    return truth.select("user", "item", F.when(relevant, rating).alias("rating"))


def with_model_codes(rows: DataFrame, models: Sequence[str]) -> DataFrame:
    """The rows of these models, its place in the list, from 0, for the name of each; all where there is no model column."""
    if "model" not in rows.columns:
        return rows
    place = F.array_position(F.array(*(F.lit(model) for model in models)), F.col("model")) - 1
    return rows.where(F.col("model").isin(*models)).withColumn("model", place.cast("int"))


def in_buckets(rows: DataFrame, n_buckets: int) -> DataFrame:
    """The rows with `bucket`, a hash of the user, each bucket in one partition.

    Both sides are partitioned by this one column, so that ranking and cogrouping need no further shuffle.
    """
    bucket = F.pmod(F.hash("user"), F.lit(n_buckets)).alias("bucket")
    return rows.select(bucket, *rows.columns).repartition(n_buckets, "bucket")


def _no_id(rows: DataFrame) -> Column:
    ids = [column for column in ("model", "user", "item") if column in rows.columns]
    return reduce(or_, (F.col(column).isNull() for column in ids))


def _no_rank(rows: DataFrame) -> Column:
    return (F.col("rank").isNull() | (F.col("rank") < 1)) if "rank" in rows.columns else F.lit(False)


def _double(column: str) -> Column:
    return F.col(column).cast("double")


def _missing_number(number: Column) -> Column:
    return number.isNull() | F.isnan(number)


def _counts(faults: Mapping[str, Column]) -> list[Column]:
    sides = (F.concat(F.lit(f"{side} "), F.coalesce(F.col(side).cast("string"), F.lit("null"))) for side in ("user", "item"))
    ids = F.concat_ws(", ", *sides)
    return [
        F.count(F.lit(1)).alias("rows"),
        *(F.count_if(fault).alias(check) for check, fault in faults.items()),
        *(F.max(F.when(fault, ids)).alias(f"{check}_example") for check, fault in faults.items()),
    ]


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
    chosen = [
        column_of(frame, columns.user).cast(users).alias("user"),
        column_of(frame, columns.item).cast(items).alias("item"),
    ]
    if columns.model in frame.columns:
        _type_of(table, frame, "model", columns.model)
        chosen.insert(0, column_of(frame, columns.model).cast("string").alias("model"))
    if rank is not None:
        chosen.append(_number(table, frame, "rank", rank).cast("bigint").alias("rank"))
    if score:
        number = _number(table, frame, "score", columns.score, reason or "or name a rank in columns.rank")
        chosen.append(number.alias("score"))
    return frame.select(*chosen)


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


def _type_of(table: str, frame: DataFrame, key: str, name: str, reason: str = "") -> DataType:
    twins = [column for column in frame.columns if column.lower() == name.lower()]
    if len(twins) > 1:
        raise DataError(f"{table}: expected one column named {name!r} (columns.{key}), in any case, found {', '.join(twins)}")
    if name not in frame.columns:
        raise _missing(table, frame, key, name, reason)
    return next(column.dataType for column in frame.schema.fields if column.name == name)


def _missing(table: str, frame: DataFrame, key: str, name: str, reason: str = "") -> DataError:
    reason = f" ({reason})" if reason else ""
    return DataError(f"{table}: no column {name!r} (columns.{key}){reason}{did_you_mean(name, frame.columns)}")


def _wrong_type(table: str, key: str, name: str, expected: str, found: DataType) -> DataError:
    return DataError(
        f"{table}: column {name!r} (columns.{key}): expected {expected}, found {found.simpleString()}: cast it first"
    )


def _number(table: str, frame: DataFrame, key: str, name: str, reason: str = "") -> Column:
    """A column of numbers in its own type: close whole or decimal scores would be ties as doubles."""
    found = _type_of(table, frame, key, name, reason)
    if key == "rank" and not isinstance(found, IntegralType):
        raise _wrong_type(table, key, name, "a whole number", found)
    if not isinstance(found, NumericType):
        raise _wrong_type(table, key, name, "a number", found)
    return column_of(frame, name)


def _common_type(key: str, frames: Mapping[str, DataFrame], name: str) -> DataType:
    found = {table: _type_of(table, frame, key, name) for table, frame in frames.items()}
    for table, kind in found.items():
        if not isinstance(kind, IntegralType | DecimalType | StringType):
            raise _wrong_type(table, key, name, "a whole number or a string as an id", kind)
    kinds = list(found.values())
    if all(isinstance(kind, IntegralType) for kind in kinds):
        return kinds[0] if all(kind == kinds[0] for kind in kinds) else LongType()
    if all(isinstance(kind, StringType) for kind in kinds):
        return StringType()
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    sides = ", ".join(f"{kind.simpleString()} in {table}" for table, kind in found.items())
    raise DataError(f"column {name!r} (columns.{key}): expected one type on all sides, found {sides}: cast one of them first")
