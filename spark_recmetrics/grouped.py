"""Which groups items belong to, how large these are, and what they have in the lists of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from spark_recmetrics.columns import GROUP_ARRAYS, ITEM_GROUPS, ITEM_ROWS, ITEM_TOTALS
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.groups import Measured
from spark_recmetrics.metrics.measuring import GroupFacts, item_places
from spark_recmetrics.slices import Slice


@dataclass(frozen=True)
class KnownGroups:
    """What is known of groups before lists are scored.

    Args:
        columns: By metric of groups and option, the column with groups.
        measured: What is added up over lists.
        items: `item, groups`, the groups as places among the names; None where items are not grouped by columns.
        names: The groups of items, by column and name.
        segments: `user`, and `segment_0`, `segment_1`, …; None where users are not grouped.
        facts: What is known beside lists.
    """

    columns: Mapping[Metric, Mapping[str, str]] = field(default_factory=dict)
    measured: tuple[Measured, ...] = ()
    items: DataFrame | None = None
    names: tuple[tuple[str, str], ...] = ()
    segments: DataFrame | None = None
    facts: GroupFacts = field(default_factory=GroupFacts)


def column_slice(name: str) -> Slice:
    """The slice of a column as it is."""
    return Slice.parse(f"`{name.replace('`', '``')}`")


def column_groups(rows: DataFrame, column: str) -> Column:
    """The groups of an item by a column, each once: an array of texts, null for none.

    Args:
        rows: `item` and the bands of columns, as `segments.read_bands` gives them.
        column: The column.
    """
    name = column_slice(column).bands[0].column
    own = F.array_distinct(name) if isinstance(rows.schema[name].dataType, ArrayType) else F.array(name)
    return F.filter(own, lambda group: group.isNotNull())


def group_sizes(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """`place, group, n_items`: by place of the column, how many items each group has.

    Args:
        rows: As for `column_groups`.
        columns: The columns.
    """
    parts = [
        rows.select(F.lit(place).alias("place"), F.explode(column_groups(rows, column)).alias("group"))
        for place, column in enumerate(columns)
    ]
    opened = reduce(lambda one, other: one.union(other), parts)
    return opened.groupBy("place", "group").agg(F.count(F.lit(1)).alias("n_items"))


def item_groups(rows: DataFrame, names: Sequence[tuple[str, str]]) -> DataFrame:
    """`item, groups`: the groups of each item as places among the names.

    Args:
        rows: As for `column_groups`.
        names: The groups, by column and name.
    """
    parts = []
    for column in dict.fromkeys(column for column, _ in names):
        first = next(place for place, (own, _) in enumerate(names) if own == column)
        known = F.array(*(F.lit(name) for own, name in names if own == column))
        parts.append(_places(column_groups(rows, column), known, first))
    groups = F.concat(*parts) if parts else F.array().cast("array<bigint>")
    return rows.select("item", groups.alias(ITEM_GROUPS))


def _places(groups: Column, names: Column, first: int) -> Column:
    """The places of the groups among the names, from the first one on."""
    places = F.transform(groups, lambda group: F.call_function("array_position", names, group) + (first - 1))
    return F.coalesce(places, F.array().cast("array<bigint>"))


_KEYS = ("place", "model", "users", "group")


def sums_by_group(per_user: DataFrame) -> DataFrame:
    """What groups have in the lists of each model: the rows that `metrics.measuring.sums_of` reads.

    Args:
        per_user: PER_USER with the arrays of `metrics.measuring.measure_groups`.
    """
    opened = per_user.where(F.col(GROUP_ARRAYS[0]).isNotNull()).select(F.inline(F.arrays_zip(*GROUP_ARRAYS)))
    rows = opened.toDF(*_KEYS, "n", "total")
    added = rows.groupBy(*_KEYS).agg(F.sum("n").alias("n"), F.sum("total").alias("total"))
    return added.withColumns({"n_items": F.lit(0).cast("long"), "means": F.lit(0.0)})


def means_by_group(
    items: DataFrame, known: DataFrame, measured: Sequence[Measured], names: Sequence[tuple[str, str]]
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
    for number, place in enumerate(item_places(measured)):
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
