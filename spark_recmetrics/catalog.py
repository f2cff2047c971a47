"""What is known of items: how often they stand in the training rows, features and categories; and lists that have these."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.columns import (
    ITEM_COUNTS,
    ITEM_FEATURES,
    ITEM_GROUPS,
    ITEM_IDS,
    ITEM_MODELS,
    ITEM_NUMBERS,
    ITEM_WEIGHTS,
    OF_ITEM,
)
from spark_recmetrics.descriptions import MOST_CATEGORIES
from spark_recmetrics.metrics.recommended import CATEGORIES_A_BLOCK, ItemFacts


@dataclass(frozen=True)
class KnownItems:
    """What is known of items.

    Args:
        rows: `item` and the columns `OF_ITEM` that are needed, one row per item; None where nobody needs to know.
        facts: What is known of all together.
        beside: Every bucket gets all rows; else rows of lists bring along what is known of their items.
    """

    rows: DataFrame | None = None
    facts: ItemFacts = field(default_factory=ItemFacts)
    beside: bool = True


def trained_items(train: DataFrame, *, audience: bool) -> DataFrame:
    """`item, n_rows`, and with audience `n_users`, of every item with a training row.

    Args:
        train: `user, item`, as `inputs.read_inputs` gives them.
        audience: The users of an item are counted, too, which moves all rows.
    """
    rows = train.where(F.col("user").isNotNull() & F.col("item").isNotNull())
    if not audience:
        return rows.groupBy("item").agg(F.count(F.lit(1)).alias("n_rows"))
    pairs = rows.groupBy("item", "user").agg(F.count(F.lit(1)).alias("n"))
    return pairs.groupBy("item").agg(F.sum("n").alias("n_rows"), F.count(F.lit(1)).alias("n_users"))


def trained_users(train: DataFrame) -> DataFrame:
    """`user` of every training row."""
    return train.where(F.col("user").isNotNull() & F.col("item").isNotNull()).select("user")


def popularity_counts(items: DataFrame) -> DataFrame:
    """`n_rows, n_items`: how many items have so many training rows. There are at most about sqrt(2 rows) such numbers.

    Args:
        items: Items by `item_sides`; where their training rows are not known, they have 0.
    """
    n_rows = F.element_at(ITEM_NUMBERS, 1) if ITEM_NUMBERS in items.columns else F.lit(0)
    return items.groupBy(n_rows.alias("n_rows")).agg(F.count(F.lit(1)).alias("n_items"))


def description_counts(described: DataFrame) -> DataFrame:
    """One row, as `descriptions.check_descriptions` reads it.

    Args:
        described: Items by `known_items.described_items`.
    """
    counts = [F.count(F.lit(1)).alias("rows"), F.count_distinct("item").alias("items")]
    if "features" in described.columns:
        broken = F.exists("features", lambda x: x.isNull() | F.isnan(x) | (F.abs(x) == float("inf")))
        counts += [F.min("length").alias("shortest"), F.max("length").alias("longest")]
        counts.append(F.count_if("misplaced").alias("misplaced"))
        counts.append(F.count_if(F.coalesce(broken, F.lit(False))).alias("broken"))
    return described.agg(*counts)


def repeated_items(described: DataFrame) -> DataFrame:
    """The items that stand there more than once."""
    return described.groupBy("item").agg(F.count(F.lit(1)).alias("n")).where(F.col("n") > 1).select("item")


def category_names(described: DataFrame) -> DataFrame:
    """`category`: each that an item has, one more than there may be at most."""
    names = described.select(F.explode("categories").alias("category")).distinct()
    return names.orderBy("category").limit(MOST_CATEGORIES + 1)


def item_sides(
    trained: DataFrame | None, described: DataFrame | None, grouped: DataFrame | None, names: Sequence[str]
) -> DataFrame:
    """One row per item of any of the tables, with the columns `OF_ITEM` that there are.

    Args:
        trained: Items by `trained_items`.
        described: Items by `described_items`.
        grouped: Items by `grouped.item_groups`.
        names: The categories, in the order of their bits.
    """
    tables = [table for table in (trained, described, grouped) if table is not None]
    joined = reduce(lambda one, other: one.join(other, "item", "full"), tables)
    blocks = [names[first : first + CATEGORIES_A_BLOCK] for first in range(0, len(names), CATEGORIES_A_BLOCK)]
    counts = [F.coalesce(name, F.lit(0)) if name in joined.columns else F.lit(0) for name in ("n_rows", "n_users")]
    numbers = F.array(*(one.cast("long") for one in (*counts, *map(_bits, blocks))))
    found = [numbers.alias(ITEM_NUMBERS)] if trained is not None or names else []
    return joined.select("item", *found, *(name for name in (ITEM_FEATURES, ITEM_GROUPS) if name in joined.columns))


def with_items(rows: DataFrame, items: DataFrame, columns: Collection[str] = OF_ITEM) -> DataFrame:
    """Rows of lists, truth or training rows with what is known of their items.

    Args:
        rows: Rows with `item`.
        items: Items by `item_sides`.
        columns: Only these columns of items.
    """
    kept = [name for name in items.columns if name in columns]
    joined = rows.join(items.select("item", *kept), "item", "left")
    # Columns of their own: lists and truth have both what is known of items, and Spark must tell the two apart.
    return joined.select(*rows.columns, *(F.col(name).alias(name) for name in kept))


def _bits(names: Sequence[str]) -> Column:
    """The categories of an item among these, a bit each."""
    places = F.array(*map(F.lit, names))

    def joined(bits: Column, name: Column) -> Column:
        # A name that is not among these has place 0, and 2^-1 is 0 as a whole number.
        power = F.pow(F.lit(2.0), F.call_function("array_position", places, name) - 1)
        return bits.bitwiseOR(F.floor(power).cast("long"))

    return F.coalesce(F.aggregate("categories", F.lit(0).cast("long"), joined), F.lit(0).cast("long"))


def counted_items(per_user: DataFrame, columns: Sequence[str], catalog: DataFrame | None) -> DataFrame:
    """How often each item stands in the lists: `model, item, known`, and the numbers of `metrics.counting.item_columns`.

    Of a model -1 - m they are about its lists, not about the item.

    Args:
        per_user: PER_USER with the arrays of `metrics.counting.count_items`; `model` is the place of the model.
        columns: `metrics.counting.item_columns`.
        catalog: `item` of the catalogue, where there is a table of it; else every item is known.
    """
    rows = per_user.where(F.col(ITEM_IDS).isNotNull()).select(F.inline(F.arrays_zip(*columns)))
    sums = [F.sum(name).alias(name) for name in columns[2:]]
    items = rows.groupBy(F.col(ITEM_MODELS).alias("model"), F.col(ITEM_IDS).alias("item")).agg(*sums)
    if catalog is None:
        return items.withColumn("known", F.lit(True))
    items = items.join(catalog.distinct().withColumn("known", F.lit(True)), "item", "left")
    return items.withColumn("known", F.coalesce("known", F.lit(False)))


def item_histogram(items: DataFrame, n_counted: int) -> DataFrame:
    """How many items a model lists how often: `model, place, count, known, n, together`, as `counting.counts_of` reads it.

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
