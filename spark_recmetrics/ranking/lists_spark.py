"""Ranked lists from scores, and recommendations of a fitted ALS model."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, FloatType, IntegerType, IntegralType, StructField, StructType

from spark_recmetrics.columns import Columns, checked_columns
from spark_recmetrics.conventions import convention as named_convention
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.inputs.spark import check_frame, clean_predictions, column_of, read_predictions
from spark_recmetrics.metrics.registry import checked_integer
from spark_recmetrics.ranking.window_spark import top_rows
from spark_recmetrics.request.arguments import check_names
from spark_recmetrics.storage.read import example_in_errors


def rank_items(
    predictions: DataFrame,
    *,
    k: int | None = None,
    columns: Columns = Columns(),
    ties: str = "item_asc",
    nan_scores: str = "error",
    model_name: str = "model",
) -> DataFrame:
    """The ranked lists of each model and user, by score or given rank. No job runs.

    Args:
        predictions: One row per (model, user, item) with a score or a rank.
        k: Length of the lists; None: full lists.
        columns: The caller's column names.
        ties: Order of equal scores, see `Convention.ties`.
        nan_scores: How NaN and null scores are handled, see `Convention.nan_scores`; with `error` a job that reads one fails.
        model_name: Name of the model if there is no model column.

    Returns:
        RANKED: `model, user, item, rank, score`. `rank` is from 1 to k without gaps. `score` is there if the input has scores,
        and null for NaN. Rows with a null id or a rank below 1 are left out. Duplicates are not detected.

    Raises:
        ConfigError: An argument is wrong.
        DataError: A column is missing or has the wrong type.

    Example:
        >>> scores = spark.createDataFrame(
        ...     [("ann", "x", 0.5), ("ann", "y", 0.5), ("bob", "y", 0.7), ("cid", "z", 0.1)],
        ...     "user_id string, item_id string, score double",
        ... )
        >>> [tuple(row) for row in rank_items(scores, k=1).orderBy("user").collect()]
        [('model', 'ann', 'x', 1, 0.5), ('model', 'bob', 'y', 1, 0.7), ('model', 'cid', 'z', 1, 0.1)]
    """
    rules = named_convention("default").override(ties=ties, nan_scores=nan_scores)
    checked_columns(columns)
    check_frame("predictions", predictions)
    check_names("model_name", [model_name])
    with example_in_errors():
        rows = read_predictions(predictions, columns)
    if nan_scores == "error" and "score" in rows.columns:
        fault = F.raise_error(F.lit("rank_items: a score is NaN or null: set nan_scores to drop, last or first"))
        score = F.col("score")
        # Keep the type of the scores: close integers or decimals would be ties as doubles.
        error = fault.cast(rows.schema["score"].dataType)
        rows = rows.withColumn("score", F.when(F.isnan(score.cast("double")) | score.isNull(), error).otherwise(score))
    rows = clean_predictions(rows, rules)
    ranked = top_rows(rows, k=None if k is None else checked_integer(k, "k"), convention=rules, trust_rank=False)
    if "model" not in ranked.columns:
        ranked = ranked.withColumn("model", F.lit(model_name))
    return ranked.select(*(name for name in ("model", "user", "item", "rank", "score") if name in ranked.columns))


def from_als(model: Any, users: DataFrame | None = None, k: int = 10, *, columns: Columns = Columns()) -> DataFrame:
    """The recommendations of a fitted ALS model as predictions for `evaluate`: one list per user.

    ALS also recommends items that a user has already interacted with.

    Args:
        model: A fitted `pyspark.ml.recommendation.ALSModel`.
        users: The users, in a column named like the model's user column or `columns.user`; None: all users of the model.
        k: Length of the lists.
        columns: Column names of the result. Use those of the ground truth that you compare it with.

    Returns:
        `user_id, items`, or the names in `columns`: one row per user. `items` is an array of structs (item_id, score), best
        first.

    Raises:
        ConfigError: `k` is not an integer of at least 1, or the model is not an ALS model.
        DataError: `users` lacks the column, or its ids are not integers.

    Example:
        >>> from pyspark.ml.recommendation import ALS
        >>> rows = [(1, 7, 5.0), (1, 8, 1.0), (2, 7, 4.0), (3, 8, 2.0)]
        >>> ratings = spark.createDataFrame(rows, "user int, item int, rating float")
        >>> model = ALS(rank=2, maxIter=2, seed=1, userCol="user", itemCol="item").fit(ratings)
        >>> from_als(model, k=1).columns, from_als(model, k=1, columns=Columns(user="user", item="item")).columns
        (['user_id', 'items'], ['user', 'items'])
    """
    if not hasattr(model, "recommendForAllUsers"):
        raise ConfigError(f"model: expected a fitted ALSModel, found {type(model).__name__}")
    k = checked_integer(k, "k")
    checked_columns(columns)
    name = model.getUserCol()
    if users is None:
        lists = model.recommendForAllUsers(k)
    else:
        check_frame("users", users)
        id_col = next((column for column in (name, columns.user) if column in users.columns), None)
        if id_col is None:
            raise DataError(f"users: no column {name!r}, like the model, and no column {columns.user!r} (columns.user)")
        id_type = users.schema[id_col].dataType
        if not isinstance(id_type, IntegralType):
            raise DataError(f"users: column {id_col!r}: expected integers, as ALS requires, found {id_type.simpleString()}")
        lists = model.recommendForUserSubset(users.select(column_of(users, id_col).alias(name)).distinct(), k)
    kind = ArrayType(StructType([StructField(columns.item, IntegerType()), StructField(columns.score, FloatType())]))
    renamed: DataFrame = lists.select(
        column_of(lists, name).alias(columns.user), F.col("recommendations").cast(kind).alias(columns.items)
    )
    return renamed
