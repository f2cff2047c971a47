"""The tables between the stages: names of columns, schemas, and the caller's own column names."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pyspark.sql.types import BooleanType, DoubleType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from spark_recmetrics.errors import ConfigError


@dataclass(frozen=True)
class Columns:
    """The names that columns have in the caller's tables. Names may hold dots, spaces and backticks.

    Args:
        user: User id, in predictions and truth.
        item: Item id, in predictions and truth.
        score: Predicted score, higher is better; also the predicted rating of rating metrics. Not needed where `rank` is given.
        rating: True rating, in truth. A truth table without it is all relevant.
        model: Model name, in predictions. A table without it is one model.
        rank: Rank from 1, in predictions. Where given it wins over the score.

    Raises:
        ConfigError: A name is not a text with at least one character, or two names are equal.

    Example:
        >>> Columns(user="customer", rank="position").item
        'item_id'
    """

    user: str = "user_id"
    item: str = "item_id"
    score: str = "score"
    rating: str = "rating"
    model: str = "model"
    rank: str | None = None

    def __post_init__(self) -> None:
        taken: dict[str, str] = {}
        for column in fields(self):
            name = getattr(self, column.name)
            if name is None and column.name == "rank":
                continue
            if not isinstance(name, str) or not name:
                raise ConfigError(f"columns.{column.name}: expected the name of a column, found {name!r}")
            # A score may be the predicted rating and a truth table may call the true one the same.
            twin = taken.setdefault(name, column.name)
            if twin != column.name and {twin, column.name} != {"score", "rating"}:
                raise ConfigError(f"columns.{twin} and columns.{column.name} are both {name!r}: expected different columns")


SUMMARY = StructType(
    [
        StructField("run_id", StringType()),
        StructField("as_of", StringType()),
        StructField("model", StringType()),
        StructField("slice", StringType()),
        StructField("slice_value", StringType()),
        StructField("metric", StringType()),
        StructField("k", IntegerType()),
        StructField("convention", StringType()),
        StructField("value", DoubleType()),
        StructField("n_users", LongType()),
        StructField("n_undefined", LongType()),
        StructField("std", DoubleType()),
        StructField("ci_low", DoubleType()),
        StructField("ci_high", DoubleType()),
        StructField("ci_method", StringType()),
        StructField("higher_is_better", BooleanType()),
        StructField("config_hash", StringType()),
        StructField("data_hash", StringType()),
        StructField("version", StringType()),
        StructField("computed_at", TimestampType()),
    ]
)
"""One row per model, slice and metric. `metric` is the whole text of the metric, its cut-off included."""

DATA_REPORT = StructType(
    [
        StructField("check", StringType()),
        StructField("table", StringType()),
        StructField("level", StringType()),
        StructField("n_rows", LongType()),
        StructField("share", DoubleType()),
        StructField("example", StringType()),
    ]
)
"""One row per fact about the input; `level` is `info`, `warn` or `error`, `share` is of the rows or users of the table."""

USER_COUNTERS = ("n_relevant", "n_truth", "n_recommended", "n_duplicates", "n_truth_duplicates", "n_rank_faults", "n_negative_gains")
"""The counters of PER_USER: columns beside `model` and `user`, before the metrics."""

RUN_COLUMNS = ("as_of", "run_id")
"""The columns that every published table is partitioned by."""
