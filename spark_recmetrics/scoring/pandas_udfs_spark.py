"""Score thousands of users per call in Spark's workers: cut lists by buckets in a cogroup, full lists in a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

from spark_recmetrics.columns import (
    GROUP_ARRAYS,
    ITEM_COUNTS,
    ITEM_IDS,
    ITEM_MODELS,
    ITEM_ROWS,
    ITEM_SLICE,
    ITEM_VALUE,
    KIND,
    KIND_ITEM,
    KIND_LIST,
    KIND_SEGMENT,
    KIND_TRAIN,
    KIND_TRUTH,
    LIST_ITEMS,
    LIST_RANKS,
    PAIR_RANKS,
    PAIR_SCORES,
    PAIR_STARTS,
    PART_TOTALS,
    USER_COUNTERS,
)
from spark_recmetrics.metrics.group_sums import per_item_indexes
from spark_recmetrics.metrics.item_counts import item_columns
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.scoring.chunks import arrays_together, frames_of, frames_of_arrays, users_together
from spark_recmetrics.scoring.workers import ROWS_AT_ONCE, Task, scorer
from spark_recmetrics.side_info.packed import SideRows, split
from spark_recmetrics.storage.table_schemas import TOTALS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def score_users(ranked: DataFrame, truth: DataFrame, task: Task) -> DataFrame:
    """The rows of PER_USER, `model` a number, with the metrics that need only the first rows of lists.

    Lists have `bucket, [model,] user, item, rank`, and the columns that `window_spark.without_repeats` and `top_rows` add.
    Ground truth has `bucket`, the columns of `inputs.spark.relevant_only` and those of the slices; with rows of other kinds, by
    `plan_spark.mixed`. The first row of each bucket has the totals of its rows; it may have no model. With slices of items
    there are further rows: for each value, the users with ground truth for such an item, scored as if there were no other.
    """
    schema, score = _schema(truth.schema, task), scorer(task)

    def score_rows(lists: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
        return score(lists, *split(rows))

    scored = ranked.groupBy("bucket").cogroup(truth.groupBy("bucket")).applyInPandas(score_rows, schema)
    # A Connect client (seen on 4.2) reports only the observations of the left side of a cogroup, but both sides of a union.
    # The optimizer removes this union, because the other side is empty.
    no_rows = truth.where(F.lit(False)).select(F.lit(None).cast(schema).alias("row")).select("row.*")
    return scored.union(no_rows)


def score_lists(rows: DataFrame, columns: Mapping[int, StructType], task: Task) -> DataFrame:
    """The rows of PER_USER like `score_users`, with all metrics, from full lists in any order.

    Users are scored in the order in which they arrive. A worker holds about `ROWS_AT_ONCE` rows, or those of a single user.
    Lists, with `rank` or `score` or both, ground truth and side information come by `plan_spark.gathered`. Or by `mixed`,
    sorted by user within a partition, with the rows of items, which have no user, first. `columns` are those of each kind.
    """
    schema, score = _schema(columns[KIND_LIST], task), scorer(task)
    arrow_schema = to_arrow_schema(schema)
    names = {kind: struct.names for kind, struct in columns.items()}
    tables_of, separated = (users_together, frames_of) if KIND in rows.columns else (arrays_together, frames_of_arrays)

    def score_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        items = None
        for table in tables_of(batches, ROWS_AT_ONCE):
            frames = separated(table, names)
            items = frames.get(KIND_ITEM) if items is None else items
            if not (len(frames[KIND_LIST]) or len(frames[KIND_TRUTH]) or KIND_TRAIN in frames):
                continue  # no user to score
            side = SideRows(frames.get(KIND_TRAIN), frames.get(KIND_SEGMENT), items)
            scored = score(frames[KIND_LIST], frames[KIND_TRUTH], side)
            yield from pa.Table.from_pandas(scored, schema=arrow_schema, preserve_index=False).to_batches()

    return rows.mapInArrow(score_partition, schema)


def _schema(ids: StructType, task: Task) -> StructType:
    """The columns of scored users, with the types of `user` and `item` in `ids`."""
    scoring = task.scoring
    labels = {metric.slug: {"label": str(metric)} for metric in (*scoring.metrics, *scoring.rating)}
    return StructType(
        [
            StructField("model", IntegerType()),
            StructField("user", ids["user"].dataType),
            *(StructField(name, LongType()) for name in USER_COUNTERS),
            *(StructField(name, DoubleType(), metadata=labels.get(name)) for name in scoring.columns),
            *(
                StructField(name, LongType() if name.startswith("n_") else DoubleType(), metadata=labels.get(name))
                for name in scoring.rating_columns
            ),
            *([StructField(PAIR_SCORES, ArrayType(DoubleType()))] if scoring.keeps_pairs else []),
            *([StructField(name, ArrayType(LongType())) for name in (PAIR_RANKS, PAIR_STARTS)] if scoring.keeps_pairs else []),
            *([StructField(PART_TOTALS, ArrayType(TOTALS))] if task.sum_spec else []),
            *([StructField(name, StringType()) for name in (ITEM_SLICE, ITEM_VALUE)] if task.slices else []),
            *_item_fields(ids["item"].dataType, scoring),
            *(_group_fields() if scoring.measured else []),
        ]
    )


def _item_fields(items: DataType, scoring: Scoring) -> list[StructField]:
    """The arrays for metrics of items and their confidence intervals."""
    n_counted, n_summed = len(scoring.counted), len(per_item_indexes(scoring.measured))
    kinds = {ITEM_IDS: items, ITEM_MODELS: IntegerType(), LIST_ITEMS: items, LIST_RANKS: LongType()}
    names = item_columns(n_counted, n_summed) if n_counted or n_summed else []
    names += [LIST_ITEMS, LIST_RANKS] if scoring.keeps_lists else []

    def kind(name: str) -> DataType:
        return kinds.get(name) or (LongType() if name.startswith((ITEM_COUNTS, ITEM_ROWS)) else DoubleType())

    return [StructField(name, ArrayType(kind(name))) for name in names]


def _group_fields() -> list[StructField]:
    """The arrays for metrics of groups."""
    kinds = (IntegerType(), IntegerType(), StringType(), IntegerType(), LongType(), DoubleType())
    return [StructField(name, ArrayType(kind)) for name, kind in zip(GROUP_ARRAYS, kinds, strict=True)]
