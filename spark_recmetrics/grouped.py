"""Which groups items belong to, how large these are, and what they have in the lists of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from spark_recmetrics.columns import (
    GROUP_ARRAYS,
    GROUP_ITEMS,
    GROUP_MODELS,
    GROUP_N,
    GROUP_PLACES,
    GROUP_TOTALS,
    GROUP_USERS,
)
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.groups import HEAD, TAIL, Grouping, Measured
from spark_recmetrics.metrics.measuring import GroupFacts, groupings_of
from spark_recmetrics.slices import NO_VALUE, Slice

_KEYS = ("place", "model", "users")


@dataclass(frozen=True)
class KnownGroups:
    """What is known of groups before lists are scored.

    Args:
        columns: By metric of groups and option, the column with groups.
        measured: What is added up over lists.
        items: `grouping, item, group`, by the place of the grouping among those of what is measured; None where items are not
            grouped.
        segments: `user`, and `segment_0`, `segment_1`, …; None where users are not grouped.
        facts: What is known beside lists.
    """

    columns: Mapping[Metric, Mapping[str, str]] = field(default_factory=dict)
    measured: tuple[Measured, ...] = ()
    items: DataFrame | None = None
    segments: DataFrame | None = None
    facts: GroupFacts = field(default_factory=GroupFacts)


def column_slice(name: str) -> Slice:
    """The slice of a column as it is."""
    return Slice.parse(f"`{name.replace('`', '``')}`")


def column_groups(rows: DataFrame, column: str, grouping: int) -> DataFrame:
    """`grouping, item, group`: each group that an item belongs to by a column, once.

    Args:
        rows: `item` and the bands of columns, as `segments.read_bands` gives them.
        column: The column.
        grouping: The number of the grouping.
    """
    name = column_slice(column).bands[0].column
    several = isinstance(rows.schema[name].dataType, ArrayType)
    groups = F.array_distinct(name) if several else F.array(name)
    found = rows.select(F.lit(grouping).alias("grouping"), "item", F.explode(groups).alias("group"))
    return found.where(F.col("group").isNotNull() & (F.col("group") != NO_VALUE))


def popularity_groups(trained: DataFrame, lowest: int, grouping: int) -> DataFrame:
    """The same of items by popularity. An item without a training row is not there, and belongs to the tail.

    Args:
        trained: Items with `n_rows`, null where they have none.
        lowest: How many training rows an item of the head has at least.
        grouping: The number of the grouping.
    """
    group = F.when(F.col("n_rows") >= lowest, HEAD).otherwise(TAIL)
    rows = trained.where(F.col("n_rows") > 0)
    return rows.select(F.lit(grouping).alias("grouping"), "item", group.alias("group"))


def all_groups(parts: Sequence[DataFrame]) -> DataFrame:
    """The groups of items of several groupings."""
    return reduce(lambda one, other: one.union(other), parts)


def group_sizes(items: DataFrame, pairs: DataFrame | None) -> DataFrame:
    """`grouping, group, n_items, n_pairs`: how many items each group has, and pairs of user and item.

    Args:
        items: Items by `all_groups`.
        pairs: `user, item` of training rows, each once; None where nobody needs to know.
    """
    keys = ["grouping", "group"]
    sizes = items.groupBy(*keys).agg(F.count(F.lit(1)).alias("n_items"))
    if pairs is None:
        return sizes.withColumn("n_pairs", F.lit(0).cast("long"))
    of_items = pairs.groupBy("item").agg(F.count(F.lit(1)).alias("n"))
    found = items.join(of_items, "item", "left").groupBy(*keys)
    return found.agg(F.count(F.lit(1)).alias("n_items"), F.coalesce(F.sum("n"), F.lit(0)).alias("n_pairs"))


def trained_sums(pairs: DataFrame, segments: DataFrame, items: DataFrame) -> DataFrame:
    """`users, group, n, total` of training rows, as `sums_by_group` has them of lists.

    Args:
        pairs: `user, item` of training rows, each once.
        segments: `user, users`: the group of each user.
        items: `item, group`.
    """
    own = pairs.join(segments.where(F.col("users").isNotNull()), "user")
    n = F.count(F.lit(1))
    whole = own.groupBy("users").agg(F.count_distinct("user").alias("n"), n.alias("total"))
    nobody = F.lit(None).cast("string").alias("group")
    by_group = own.join(items, "item").groupBy("users", "group").agg(n.alias("n"), n.alias("total"))
    return whole.select("users", nobody, "n", "total").union(by_group)


def sums_by_group(per_user: DataFrame, measured: Sequence[Measured], items: DataFrame | None) -> DataFrame:
    """What groups have in the lists of each model: the rows that `metrics.measuring.sums_of` reads.

    Their number depends on that of groups, not on that of items.

    Args:
        per_user: PER_USER with the arrays of `metrics.measuring.measure_groups`.
        measured: What is measured.
        items: Items by `all_groups`, None where they are not grouped.
    """
    names = {GROUP_PLACES: "place", GROUP_MODELS: "model", GROUP_USERS: "users", GROUP_ITEMS: "item"}
    opened = per_user.where(F.col(GROUP_PLACES).isNotNull()).select(F.inline(F.arrays_zip(*GROUP_ARRAYS)))
    rows = opened.select(*(F.col(name).alias(names.get(name, name)) for name in GROUP_ARRAYS))
    added = [F.sum(GROUP_N).alias("n"), F.sum(GROUP_TOTALS).alias("total")]
    together = rows.where(F.col("model") < 0).withColumn("model", -1 - F.col("model")).groupBy(*_KEYS).agg(*added)
    nobody, no_item = F.lit(None).cast("string").alias("group"), F.lit(0).cast("long").alias("n_items")
    whole: DataFrame = together.select(*_KEYS, nobody, "n", "total", no_item, F.lit(0.0).alias("means"))
    if items is None:
        return whole
    of_items = rows.where(F.col("model") >= 0).groupBy(*_KEYS, "item").agg(*added)
    groupings = groupings_of(measured)
    numbers = [-1 if one.items is None else groupings.index(one.items) for one in measured]
    number = F.element_at(F.array(*map(F.lit, numbers)), F.col("place") + 1)
    joined = of_items.withColumn("grouping", number).join(items, ["grouping", "item"], "left")
    by_popularity = [place for place, one in enumerate(groupings) if _is_by_popularity(one)]
    if by_popularity:
        cold = F.when(F.col("grouping").isin(*by_popularity), TAIL)
        joined = joined.withColumn("group", F.coalesce(F.col("group"), cold))
    by_group = joined.where(F.col("group").isNotNull()).groupBy(*_KEYS, "group")
    sums = [F.sum("n").alias("n"), F.sum("total").alias("total"), F.count(F.lit(1)).alias("n_items")]
    return whole.union(by_group.agg(*sums, F.sum(F.col("total") / F.col("n")).alias("means")))


def _is_by_popularity(one: Grouping) -> bool:
    return one.column is None
