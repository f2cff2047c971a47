"""What is known of items: how often they stand in the training rows, features and categories; and lists that have these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.aggregation.item_intervals_spark import Shared, interval_ends, listed_items
from spark_recmetrics.columns import ITEM_COUNTS, ITEM_IDS, ITEM_MODELS, ITEM_WEIGHTS
from spark_recmetrics.metrics.item_counts import check_counts, counts_of, item_columns
from spark_recmetrics.storage import actions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_recmetrics.aggregation.means import Mean
    from spark_recmetrics.metrics.item_counts import ItemCounts
    from spark_recmetrics.request.intervals import Intervals
    from spark_recmetrics.scoring.plan_spark import Plan

from spark_recmetrics.side_info.items_spark import parts_of_items


def counted_items(per_user: DataFrame, columns: Sequence[str], catalog: DataFrame | None, n_parts: int) -> DataFrame:
    """How often each item stands in the lists: `model, item, known`, and the numbers of `metrics.item_counts.item_columns`.

    Of a model -1 - m they are about its lists, not about the item.

    Args:
        per_user: PER_USER with the arrays of `metrics.item_counts.count_items`; `model` is the place of the model.
        columns: `metrics.item_counts.item_columns`.
        catalog: `item` of the catalogue, where there is a table of it; else every item is known.
        n_parts: Number of partitions.
    """
    rows = per_user.where(F.col(ITEM_IDS).isNotNull()).select(F.inline(F.arrays_zip(*columns)))
    sums = [F.sum(name).alias(name) for name in columns[2:]]
    rows = rows.withColumnsRenamed({ITEM_MODELS: "model", ITEM_IDS: "item"}).repartition(n_parts, "item")
    items = rows.groupBy("model", "item").agg(*sums)
    if catalog is None:
        return items.withColumn("known", F.lit(True))
    items = items.join(catalog.distinct().withColumn("known", F.lit(True)), "item", "left")
    return items.withColumn("known", F.coalesce("known", F.lit(False)))


def item_histogram(items: DataFrame, n_counted: int) -> DataFrame:
    """How many items a model lists how often: `model, place, count, known, n, together`, as `item_counts.counts_of` reads it.

    Its size does not depend on the number of items: there are at most about sqrt(2 rows) different counts.

    Args:
        items: The rows of `counted_items`.
        n_counted: How many things are counted.
    """
    parts = [
        F.struct(
            F.lit(place).alias("place"),
            F.col(f"{ITEM_COUNTS}{place}").alias("count"),
            (F.col(f"{ITEM_WEIGHTS}{place}") * F.col(f"{ITEM_WEIGHTS}{place}")).alias("together"),
        )
        for place in range(n_counted)
    ]
    long = items.select("model", "known", F.explode(F.array(*parts)).alias("part")).select("model", "known", "part.*")
    kept = long.where(F.col("count") > 0)
    return kept.groupBy("model", "place", "count", "known").agg(
        F.count(F.lit(1)).alias("n"), F.sum("together").alias("together")
    )


def counted_in(kept: DataFrame, plan: Plan) -> DataFrame | None:
    """How often items stand in the lists, by `catalog.counted_items`, kept for its readers; None where nobody needs to know.

    Args:
        kept: PER_USER with the arrays of counts.
        plan: How it was made.
    """
    if not any(plan.n_of_items):
        return None
    found = counted_items(kept, item_columns(*plan.n_of_items), plan.inputs.catalog, parts_of_items(plan.n_buckets))
    return actions.materialize(found)


def item_counts(items: DataFrame | None, plan: Plan) -> dict[tuple[int, int], ItemCounts]:
    """By model and place among what is counted, how often items stand in the lists.

    Args:
        items: Items by `counted_in`.
        plan: How it was made.

    Raises:
        DataError: Lists have more items than the catalogue.
    """
    n_counted, _ = plan.n_of_items
    if items is None or not n_counted:
        return {}
    counts = counts_of([row.asDict() for row in actions.collect_rows(item_histogram(items, n_counted))], plan.n_items)
    check_counts(counts)
    return counts


def with_item_intervals(
    values: Mapping[str, list[Mean]],
    kept: DataFrame,
    items: DataFrame | None,
    plan: Plan,
    counts: Mapping[tuple[int, int], ItemCounts],
    intervals: Intervals,
) -> dict[str, list[Mean]]:
    """The values of all users by model, those of items with their intervals, where users are resampled.

    Args:
        values: The values.
        kept: PER_USER with the items of lists.
        items: Items by `counted_in`.
        plan: How it was made.
        counts: The counts of `item_counts`.
        intervals: How intervals are computed.
    """
    scoring = plan.scoring
    if scoring is None or not scoring.keeps_lists or items is None or not counts:
        return dict(values)
    metrics = tuple(metric for metric in scoring.of_items if metric.definition.left_out is not None)
    if not metrics:
        return dict(values)
    shared = Shared(metrics, plan.convention, counts, len(plan.models), intervals)
    repeats = plan.convention.duplicates == "keep"
    lists = listed_items(kept, items, plan.models, scoring.counted, repeats=repeats)
    ends = {row["place"]: (row["low"], row["high"]) for row in actions.collect_rows(interval_ends(lists, shared))}
    by_metric = {
        (model, metric): ends[m * len(metrics) + place]
        for m, model in enumerate(plan.models)
        for place, metric in enumerate(metrics)
        if m * len(metrics) + place in ends
    }
    return {model: [mean.around(by_metric.get((model, mean.metric))) for mean in own] for model, own in values.items()}
