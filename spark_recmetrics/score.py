"""Score users: both sides cogrouped by bucket, thousands of users of every model in one vectorised call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
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

from spark_recmetrics.beside import Beside, split
from spark_recmetrics.bucket import score_bucket
from spark_recmetrics.columns import (
    GROUP_ARRAYS,
    ITEM_COUNTS,
    ITEM_IDS,
    ITEM_MODELS,
    ITEM_ROWS,
    ITEM_SLICE,
    ITEM_VALUE,
    LIST_ITEMS,
    LIST_RANKS,
    PAIR_RANKS,
    PAIR_SCORES,
    PAIR_STARTS,
    PART_TOTALS,
    USER_COUNTERS,
)
from spark_recmetrics.means import Wanted, part_totals
from spark_recmetrics.metrics.batch import tie_edges
from spark_recmetrics.metrics.counting import item_columns
from spark_recmetrics.metrics.measuring import item_places
from spark_recmetrics.metrics.scoring import Scoring
from spark_recmetrics.schema import TOTALS
from spark_recmetrics.slices import Slice, opened, values_of

if TYPE_CHECKING:
    import pandas as pd


def score_users(
    ranked: DataFrame,
    truth: DataFrame,
    scoring: Scoring,
    models: Sequence[str],
    wanted: Wanted | None = None,
    slices: Sequence[Slice] = (),
) -> DataFrame:
    """Per-user values of every metric that can be computed from lists.

    Args:
        ranked: `bucket, [model,] user, item, rank`, and what `rank.rows_that_matter` adds for the metrics that need it.
        truth: `bucket, user, item, rating`, the rating null where the row is not relevant, and what `inputs.relevant_only`
            adds; the columns of the slices; and the rows of other kinds that `match.with_beside` adds.
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
    labels = {metric.slug: {"label": str(metric)} for metric in (*scoring.metrics, *scoring.rating)}
    schema = StructType(
        [
            StructField("model", IntegerType()),
            StructField("user", truth.schema["user"].dataType),
            *(StructField(name, LongType()) for name in USER_COUNTERS),
            *(StructField(name, DoubleType(), metadata=labels.get(name)) for name in scoring.columns),
            *(
                StructField(name, LongType() if name.startswith("n_") else DoubleType(), metadata=labels.get(name))
                for name in scoring.rating_columns
            ),
            *([StructField(PAIR_SCORES, ArrayType(DoubleType()))] if scoring.across else []),
            *([StructField(name, ArrayType(LongType())) for name in (PAIR_RANKS, PAIR_STARTS)] if scoring.across else []),
            *([StructField(PART_TOTALS, ArrayType(TOTALS))] if wanted else []),
            *([StructField(name, StringType()) for name in (ITEM_SLICE, ITEM_VALUE)] if slices else []),
            *_item_fields(truth.schema["item"].dataType, scoring),
            *(_group_fields() if scoring.measured else []),
        ]
    )

    def of_bucket(lists: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        relevant, beside = split(rows)
        rows = score_bucket(lists, relevant, scoring, beside)
        if wanted:
            totals = part_totals(rows[rows["model"].notna()], wanted)
            totals["model"] = [models[code] for code in totals["model"]]
            column = np.empty(len(rows), dtype=object)
            column[:1] = [totals.to_dict("records")][: len(rows)]
            rows[PART_TOTALS] = column
        if not slices:
            return rows
        # Every frame has every column: what pandas would fill in is NaN, which is no list and no text.
        whole = rows.assign(**{ITEM_SLICE: None, ITEM_VALUE: None})
        parts = (
            part.assign(**{str(name): None for name in whole if name not in part})
            for part in _of_items(lists, relevant, scoring, slices, beside)
        )
        return pd.concat([whole, *parts], ignore_index=True)

    scored = ranked.groupBy("bucket").cogroup(truth.groupBy("bucket")).applyInPandas(of_bucket, schema)
    # A Connect client (seen on 4.2) reports the observations of the left side of a cogroup alone. It does look into both sides
    # of a union, and the optimiser removes this one, because its other side is empty.
    nobody = truth.where(F.lit(False)).select(F.lit(None).cast(schema).alias("row")).select("row.*")
    return scored.union(nobody)


def _item_fields(items: DataType, scoring: Scoring) -> list[StructField]:
    """The arrays that metrics of items, and their intervals, are made of."""
    n_counted, n_summed = len(scoring.counted), len(item_places(scoring.measured))
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


def _of_items(
    lists: pd.DataFrame, truth: pd.DataFrame, scoring: Scoring, slices: Sequence[Slice], beside: Beside
) -> Iterator[pd.DataFrame]:
    """The rows of each value of each slice of items."""
    import pandas as pd

    lists_of, ties = [name for name in ("model", "user") if name in lists], None
    if "after_tie" in lists:
        # A number for each tie, because rows of it may be left out below.
        ordered = lists.sort_values([*lists_of, "rank"])
        flags = (ordered[name].to_numpy() for name in ("after_tie", "before_tie"))
        ties = pd.Series(tie_edges(*flags)[0], index=ordered.index)
    for one in slices:
        each = opened(one, truth)
        code, values = values_of(one, each)
        for number, value in enumerate(values):
            of_value = each[code == number]
            own = lists[lists["user"].isin(of_value["user"].unique())]
            if scoring.convention.candidates == "judged":
                # Only these items are ranked, so that the ranks close up.
                pairs = [pd.MultiIndex.from_frame(rows[["user", "item"]]) for rows in (own, of_value)]
                own = own[pairs[0].isin(pairs[1])].copy()
                own["rank"] = own.groupby(lists_of)["rank"].rank(method="first").astype("int64")
                if ties is not None:
                    own = own.sort_values([*lists_of, "rank"])
                    same = np.diff(ties[own.index].to_numpy()) == 0
                    own["before_tie"], own["after_tie"] = np.append(same, False)[: len(own)], np.append(False, same)[: len(own)]
            scored = score_bucket(own, of_value, scoring, beside, of_users=True)
            yield scored.assign(**{ITEM_SLICE: str(one), ITEM_VALUE: value})


def named_models(per_user: DataFrame, models: Sequence[str]) -> DataFrame:
    """PER_USER with the models' names in place of their places in the list."""
    names = F.array(*(F.lit(model) for model in models))
    return per_user.withColumn("model", F.element_at(names, F.col("model") + 1))
