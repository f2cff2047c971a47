"""Match the rows of predictions, truth, training tables and slices, all in canonical form, without moving any of them twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType

from spark_recmetrics.columns import KIND, KIND_TRUTH, Side

_JUDGED = 2**32
"""What a truth row counts where a prediction counts 1: no pair has as many rows as would make one the other."""


class Bands(NamedTuple):
    """The values of users, or of items.

    Args:
        side: `user` or `item`, which is the name of the ids, too.
        rows: The ids, and `Band.column` for each band: a text, or an array of texts. Ids stand as often as in their table.
        others: By `Band.column`, the value of what is not in these rows.
    """

    side: Side
    rows: DataFrame
    others: Mapping[str, Column]


def with_bands(rows: DataFrame, bands: Bands) -> DataFrame:
    """The rows with the value of every band behind their other columns."""
    joined = rows.join(bands.rows, bands.side, "left")
    found = [F.coalesce(F.col(column), other).alias(column) for column, other in bands.others.items()]
    return joined.select(*rows.columns, *found)


def with_beside(truth: DataFrame, kinds: Mapping[int, DataFrame | None]) -> DataFrame:
    """Truth with rows of other kinds, which `columns.KIND` tells apart and `beside.split` takes apart.

    So they come to the users by the move that truth makes anyway: a join would move lists and truth once more.

    Args:
        truth: Truth with `bucket`.
        kinds: By kind, rows with `bucket` and some of the columns of truth, or further ones; None is not there.
    """
    tables = {KIND_TRUTH: truth, **{kind: rows for kind, rows in kinds.items() if rows is not None}}
    if len(tables) == 1:
        return truth
    fields = {field.name: field.dataType for rows in tables.values() for field in rows.schema}

    def marked(kind: int, rows: DataFrame) -> DataFrame:
        # A null among whole numbers would make doubles of all of them in pandas, in which close ids are equal.
        missing = {
            name: F.lit(0 if isinstance(of, IntegralType) else None).cast(of).alias(name)
            for name, of in fields.items()
            if name not in rows.columns
        }
        return rows.select(*(missing.get(name, F.col(name)) for name in fields), F.lit(kind).cast("byte").alias(KIND))

    return reduce(lambda one, other: one.union(other), (marked(kind, rows) for kind, rows in tables.items()))


def with_flags(rows: DataFrame, truth: DataFrame, train: DataFrame | None, *, n_models: int, n_parts: int) -> DataFrame:
    """Predictions, one row per (model, user, item), with what truth and training rows say about each.

    A join would move both sides again, because Spark wants them partitioned by all of its keys. So the three tables become one,
    move once, and one aggregation matches their rows and finds repeats. Partitions by user serve
    a window, too, and need no bucket to hash and sort by; buckets are made of the few rows that are left behind the window.

    Args:
        rows: Predictions with `score` and/or `rank`.
        truth: Truth with `user` and `item`.
        train: `user, item` of training rows, where these matter.
        n_models: Number of models, where predictions have `model`.
        n_parts: Number of partitions.

    Returns:
        `[model,] user, item`, the best `rank` or `score`, `copies`, how many rows there were, `judged`, and `seen`.
    """
    values = [name for name in ("score", "rank") if name in rows.columns]
    by_model = "model" in rows.columns
    models = [F.explode(F.array(*map(F.lit, range(n_models)))).alias("model")] if by_model else []
    nothing = [F.lit(None).cast(rows.schema[name].dataType).alias(name) for name in values]

    def marked(frame: DataFrame, mark: int, *, seen: bool = False) -> DataFrame:
        """Rows of one table in the shape of all."""
        own: Sequence[Column | str] = ["model"] if by_model and frame is rows else models
        found: Sequence[Column | str] = values if frame is rows else nothing
        flags = [] if train is None else [F.lit(seen).alias("seen")]
        return frame.select(*own, "user", "item", *found, F.lit(mark).cast("long").alias("mark"), *flags)

    tables = [marked(rows, 1), marked(truth, _JUDGED), *([] if train is None else [marked(train, 0, seen=True)])]
    together = reduce(lambda one, other: one.unionByName(other), tables).repartition(n_parts, "user")
    best = {"score": F.max("score"), "rank": F.min("rank")}
    if len(values) == 2:
        best["score"] = F.min_by("score", "rank")
    keys = [*(["model"] if by_model else []), "user", "item"]
    # One sum counts the rows of two tables: a column less to move, to hash and to sort is an eighth of the time.
    matched = together.groupBy(*keys).agg(
        *(best[name].alias(name) for name in values),
        F.sum("mark").alias("mark"),
        *([] if train is None else [F.max("seen").alias("seen")]),
    )
    copies = F.col("mark").bitwiseAND(F.lit(_JUDGED - 1)).alias("copies")
    judged = (F.col("mark") >= _JUDGED).alias("judged")
    kept: list[Column | str] = [*keys, *values, copies, judged, *([] if train is None else ["seen"])]
    return matched.select(*kept).where(F.col("copies") > 0)


def with_judged(rows: DataFrame, truth: DataFrame) -> DataFrame:
    """Predictions with `judged`: whether they have a truth row. Both have `bucket`."""
    keys = ["bucket", "user", "item"]
    known = truth.select(*keys).distinct().withColumn("judged", F.lit(True))
    return rows.join(known, keys, "left").withColumn("judged", F.coalesce("judged", F.lit(False)))
