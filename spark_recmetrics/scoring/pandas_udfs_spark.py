"""Score thousands of users per call in Spark's workers: cut lists by buckets in a cogroup, full lists in a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

from spark_recmetrics import columns as col
from spark_recmetrics.scoring.chunks import arrays_together, frames_of, frames_of_arrays, users_together
from spark_recmetrics.scoring.workers import ROWS_AT_ONCE, Task
from spark_recmetrics.side_info.packed import SideRows, split
from spark_recmetrics.storage.table_schemas import TOTALS

if TYPE_CHECKING:
    import pyarrow as pa


def score_users(ranked: DataFrame, truth: DataFrame, task: Task) -> DataFrame:
    """The rows of PER_USER, `model` a number, with the metrics that need only the first rows of lists.

    Lists have `bucket, [model,] user, item, rank`, and the columns that `window_spark.without_repeats` and `top_rows` add.
    Ground truth has `bucket`, the columns of `inputs.spark.relevant_only` and those of the slices; with rows of other kinds, by
    `plan_spark.mixed`. The first row of each bucket has the totals of its rows; it may have no model. With slices of items
    there are further rows: for each value, the users with ground truth for such an item, scored as if there were no other.
    """
    schema = _schema(truth.schema, task)
    buckets = ranked.groupBy("bucket").cogroup(truth.groupBy("bucket"))
    scored = buckets.applyInPandas(lambda lists, rows: task.score(lists, *split(rows)), schema)
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
    schema = _schema(columns[col.KIND_LIST], task)
    arrow_schema = to_arrow_schema(schema)
    names = {kind: struct.names for kind, struct in columns.items()}
    tables_of, separated = (users_together, frames_of) if col.KIND in rows.columns else (arrays_together, frames_of_arrays)

    def score_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        items = None
        for table in tables_of(batches, ROWS_AT_ONCE):
            frames = separated(table, names)
            items = frames.get(col.KIND_ITEM) if items is None else items
            if not (len(frames[col.KIND_LIST]) or len(frames[col.KIND_TRUTH]) or col.KIND_TRAIN in frames):
                continue  # no user to score
            side = SideRows(frames.get(col.KIND_TRAIN), frames.get(col.KIND_SEGMENT), items)
            scored = task.score(frames[col.KIND_LIST], frames[col.KIND_TRUTH], side)
            yield from pa.Table.from_pandas(scored, schema=arrow_schema, preserve_index=False).to_batches()

    return rows.mapInArrow(score_partition, schema)


def _schema(ids: StructType, task: Task) -> StructType:
    """The columns of scored users, with the types of `user` and `item` in `ids`."""
    scoring = task.scoring
    types: dict[str, DataType] = {"model": IntegerType(), "user": ids["user"].dataType}
    types |= dict.fromkeys(col.USER_COUNTERS, LongType()) | dict.fromkeys(scoring.columns, DoubleType())
    types |= {name: LongType() if name.startswith("n_") else DoubleType() for name in scoring.rating_columns}
    if scoring.keeps_pairs:
        types |= {col.PAIR_SCORES: ArrayType(DoubleType())} | dict.fromkeys(
            (col.PAIR_RANKS, col.PAIR_STARTS), ArrayType(LongType())
        )
    if task.sum_spec:
        types[col.PART_TOTALS] = ArrayType(TOTALS)
    if task.slices:
        types |= dict.fromkeys((col.ITEM_SLICE, col.ITEM_VALUE), StringType())
    if scoring.item_columns:
        types |= {col.ITEM_IDS: ArrayType(ids["item"].dataType), col.ITEM_MODELS: ArrayType(IntegerType())}
        for name in scoring.item_columns[2:]:
            types[name] = ArrayType(LongType() if name.startswith((col.ITEM_COUNTS, col.ITEM_ROWS)) else DoubleType())
    if scoring.stores_lists:
        types |= {col.LIST_ITEMS: ArrayType(ids["item"].dataType), col.LIST_RANKS: ArrayType(LongType())}
    if scoring.measured:
        of_groups = (IntegerType(), IntegerType(), StringType(), IntegerType(), LongType(), DoubleType())
        types |= {name: ArrayType(type_) for name, type_ in zip(col.GROUP_ARRAYS, of_groups, strict=True)}
    labels = {metric.slug: {"label": str(metric)} for metric in (*scoring.metrics, *scoring.rating)}
    return StructType([StructField(name, type_, metadata=labels.get(name)) for name, type_ in types.items()])
