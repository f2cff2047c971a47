"""Score users, thousands of them in one vectorised call: cut lists in a cogroup of buckets, whole ones in a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

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
from spark_recmetrics.request.per_user import SumSpec
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.request.slices import Slice
from spark_recmetrics.scoring.chunks import arrays_together, frames_of, frames_of_arrays, users_together
from spark_recmetrics.scoring.workers import ROWS_AT_ONCE, scorer
from spark_recmetrics.side_info.packed import SideInfo, split
from spark_recmetrics.storage.schemas import TOTALS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def score_users(
    ranked: DataFrame,
    truth: DataFrame,
    scoring: Scoring,
    models: Sequence[str],
    wanted: SumSpec | None = None,
    slices: Sequence[Slice] = (),
) -> DataFrame:
    """Per-user values of every metric that can be computed from the first rows of lists.

    Args:
        ranked: `bucket, [model,] user, item, rank`, and what `rank.without_repeats` and `rank.top_rows` add.
        truth: `bucket, user, item, rating`, the rating null where the row is not relevant, and what `inputs.relevant_only`
            adds; the columns of the slices; and rows of other kinds, by `match.mixed`.
        scoring: Metrics and their definitions.
        models: Names of the models.
        wanted: What is to be added up, too, where the rows below are all that the values of the models are made of.
        slices: Slices of items.

    Returns:
        One row per model and user of truth or predictions: `model` (its place in the list of models), `user`, the
        counters of `columns.USER_COUNTERS`, nullable doubles (`Scoring.columns` and `Scoring.rating_columns`), and arrays of
        pairs where a metric compares those of different users. One row of each bucket has the totals of all its rows; if that
        is one without a model, it is nobody's.
        With slices of items there are further rows, which have `columns.ITEM_SLICE` and `ITEM_VALUE`: for each value, the users
        with a truth row of such an item, scored as if truth had only these items.
    """
    schema = _schema(truth.schema, scoring, wanted, slices)
    score = scorer(scoring, models, wanted, slices)

    def of_bucket(lists: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
        return score(lists, *split(rows))

    scored = ranked.groupBy("bucket").cogroup(truth.groupBy("bucket")).applyInPandas(of_bucket, schema)
    # A Connect client (seen on 4.2) reports the observations of the left side of a cogroup alone. It does look into both sides
    # of a union, and the optimiser removes this one, because its other side is empty.
    nobody = truth.where(F.lit(False)).select(F.lit(None).cast(schema).alias("row")).select("row.*")
    return scored.union(nobody)


def score_lists(
    rows: DataFrame,
    columns: Mapping[int, StructType],
    scoring: Scoring,
    models: Sequence[str],
    wanted: SumSpec | None = None,
    slices: Sequence[Slice] = (),
) -> DataFrame:
    """Per-user values of every metric, out of whole lists in any order.

    Users are scored as they come, many at once: a worker holds about `ROWS_AT_ONCE` rows, or those of one user.

    Args:
        rows: Lists `[model,] user, item`, `rank` and/or `score`, truth as for `score_users`, and what is known beside, by
            `match.gathered`; or by `match.mixed`, where in a partition those of a user stand one behind the other, and before
            them the rows of items, which have no user.
        columns: By `columns.KIND`, the columns of its rows.
        scoring: As for `score_users`.
        models: As for `score_users`.
        wanted: As for `score_users`.
        slices: As for `score_users`.

    Returns:
        As `score_users` does, those who are scored at once in place of a bucket.
    """
    schema = _schema(columns[KIND_LIST], scoring, wanted, slices)
    score, sent = scorer(scoring, models, wanted, slices), to_arrow_schema(schema)
    names = {kind: own.names for kind, own in columns.items()}
    together, taken = (users_together, frames_of) if KIND in rows.columns else (arrays_together, frames_of_arrays)

    def of_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        items = None
        for some in together(batches, ROWS_AT_ONCE):
            frames = taken(some, names)
            items = frames.get(KIND_ITEM) if items is None else items
            if not (len(frames[KIND_LIST]) or len(frames[KIND_TRUTH]) or KIND_TRAIN in frames):
                continue  # nobody to score
            beside = SideInfo(frames.get(KIND_TRAIN), frames.get(KIND_SEGMENT), items)
            scored = score(frames[KIND_LIST], frames[KIND_TRUTH], beside)
            yield from pa.Table.from_pandas(scored, schema=sent, preserve_index=False).to_batches()

    return rows.mapInArrow(of_partition, schema)


def _schema(given: StructType, scoring: Scoring, wanted: SumSpec | None, slices: Sequence[Slice]) -> StructType:
    """The columns of what is scored."""
    labels = {metric.slug: {"label": str(metric)} for metric in (*scoring.metrics, *scoring.rating)}
    return StructType(
        [
            StructField("model", IntegerType()),
            StructField("user", given["user"].dataType),
            *(StructField(name, LongType()) for name in USER_COUNTERS),
            *(StructField(name, DoubleType(), metadata=labels.get(name)) for name in scoring.columns),
            *(
                StructField(name, LongType() if name.startswith("n_") else DoubleType(), metadata=labels.get(name))
                for name in scoring.rating_columns
            ),
            *([StructField(PAIR_SCORES, ArrayType(DoubleType()))] if scoring.keeps_pairs else []),
            *([StructField(name, ArrayType(LongType())) for name in (PAIR_RANKS, PAIR_STARTS)] if scoring.keeps_pairs else []),
            *([StructField(PART_TOTALS, ArrayType(TOTALS))] if wanted else []),
            *([StructField(name, StringType()) for name in (ITEM_SLICE, ITEM_VALUE)] if slices else []),
            *_item_fields(given["item"].dataType, scoring),
            *(_group_fields() if scoring.measured else []),
        ]
    )


def _item_fields(items: DataType, scoring: Scoring) -> list[StructField]:
    """The arrays that metrics of items, and their intervals, are made of."""
    n_counted, n_summed = len(scoring.counted), len(per_item_indexes(scoring.measured))
    kinds = {ITEM_IDS: items, ITEM_MODELS: IntegerType(), LIST_ITEMS: items, LIST_RANKS: LongType()}
    names = item_columns(n_counted, n_summed) if n_counted or n_summed else []
    names += [LIST_ITEMS, LIST_RANKS] if scoring.keeps_lists else []

    def kind(name: str) -> DataType:
        return kinds.get(name) or (LongType() if name.startswith((ITEM_COUNTS, ITEM_ROWS)) else DoubleType())

    return [StructField(name, ArrayType(kind(name))) for name in names]


def _group_fields() -> list[StructField]:
    """The arrays that metrics of groups are made of."""
    kinds = (IntegerType(), IntegerType(), StringType(), IntegerType(), LongType(), DoubleType())
    return [StructField(name, ArrayType(kind)) for name, kind in zip(GROUP_ARRAYS, kinds, strict=True)]
