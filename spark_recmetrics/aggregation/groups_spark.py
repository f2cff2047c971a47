"""Which groups items belong to, how large these are, and what they have in the lists of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.columns import GROUP_ARRAYS, ITEM_GROUPS, ITEM_ROWS, ITEM_TOTALS
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.group_sums import GroupValue, MeasureSpec, group_values, per_item_indexes, sums_from_rows
from spark_recmetrics.storage import actions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, Row

    from spark_recmetrics.metrics import Metric
    from spark_recmetrics.scoring.plan_spark import Plan


_KEYS = ("place", "model", "users", "group")


def sums_by_group(per_user: DataFrame) -> DataFrame:
    """What groups have in the lists of each model: the rows that `metrics.group_sums.sums_from_rows` reads.

    Args:
        per_user: PER_USER with the arrays of `metrics.group_sums.measure_groups`.
    """
    opened = per_user.where(F.col(GROUP_ARRAYS[0]).isNotNull()).select(F.inline(F.arrays_zip(*GROUP_ARRAYS)))
    rows = opened.toDF(*_KEYS, "n", "total")
    added = rows.groupBy(*_KEYS).agg(F.sum("n").alias("n"), F.sum("total").alias("total"))
    return added.withColumns({"n_items": F.lit(0).cast("long"), "means": F.lit(0.0)})


def means_by_group(
    items: DataFrame, known: DataFrame, measured: Sequence[MeasureSpec], names: Sequence[tuple[str, str]]
) -> DataFrame:
    """The same of what is measured item by item.

    Args:
        items: Items of lists by `catalog.counted_items`.
        known: Items by `catalog.item_sides`.
        measured: What is measured.
        names: The groups, by column and name.
    """
    grouped = items.where(F.col("model") >= 0).join(known.select("item", ITEM_GROUPS), "item")
    opened = grouped.withColumn("group", F.explode(ITEM_GROUPS))
    parts = []
    for number, place in enumerate(per_item_indexes(measured)):
        column = measured[place].items
        own = [code for code, (name, _) in enumerate(names) if column is not None and name == column.column]
        n, total = F.col(f"{ITEM_ROWS}{number}"), F.col(f"{ITEM_TOTALS}{number}")
        row = F.struct(F.lit(place).alias("place"), n.alias("n"), total.alias("total"))
        parts.append(F.when((n > 0) & F.col("group").isin(*own), row))
    rows = opened.select("model", F.col("group").cast("int").alias("group"), F.explode(F.array(*parts)).alias("row"))
    rows = rows.where(F.col("row").isNotNull()).select("model", "group", "row.*")
    sums = [F.sum("n").alias("n"), F.sum("total").alias("total"), F.count(F.lit(1)).alias("n_items")]
    found = rows.groupBy("place", "model", "group").agg(*sums, F.sum(F.col("total") / F.col("n")).alias("means"))
    return found.withColumn("users", F.lit(None).cast("string"))


def user_sums(kept: DataFrame, plan: Plan) -> list[Row]:
    """What groups have in lists, added up over users: the rows that `group_means` takes.

    Args:
        kept: PER_USER with the arrays of sums.
        plan: How it was made.
    """
    return actions.collect_rows(sums_by_group(kept)) if plan.groups.measured else []


def item_sums(items: DataFrame | None, plan: Plan) -> list[Row]:
    """The same of what is measured item by item.

    Args:
        items: Items of lists by `catalog.counted_items`.
        plan: How they were made.
    """
    measured = plan.groups.measured
    if items is None or plan.items.rows is None or not per_item_indexes(measured):
        return []
    return actions.collect_rows(means_by_group(items, plan.items.rows, measured, plan.groups.names))


def group_means(rows: Iterable[Row], plan: Plan) -> dict[str, dict[Metric, GroupValue]]:
    """By model, the values of the metrics of groups.

    Args:
        rows: The rows of `user_sums` and `item_sums`.
        plan: How they were made.
    """
    measured, names = plan.groups.measured, plan.groups.names
    if not measured:
        return {}
    sums = sums_from_rows((row.asDict() for row in rows), measured, names)
    return {
        name: group_values(plan.metrics, plan.convention, plan.groups.columns, sums, plan.groups.sizes, code)
        for code, name in enumerate(plan.models)
    }
