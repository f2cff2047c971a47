"""What is known of items: how often they stand in the training rows, features and categories; and lists that have these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, LongType, StructField, StructType

from spark_recmetrics.beside import pack
from spark_recmetrics.columns import ABOUT_ITEM, ITEM_COUNTS, ITEM_GROUPS, ITEM_IDS, ITEM_MODELS, ITEM_WEIGHTS
from spark_recmetrics.descriptions import MOST_CATEGORIES
from spark_recmetrics.metrics.recommended import CATEGORIES_A_BLOCK, ItemFacts

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class KnownItems:
    """What is known of items.

    Args:
        rows: One row per item, by `item_sides`; None where nobody needs to know.
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
        items: Items by `trained_items`.
    """
    return items.groupBy("n_rows").agg(F.count(F.lit(1)).alias("n_items"))


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
    trained: DataFrame | None,
    described: DataFrame | None,
    grouped: DataFrame | None,
    names: Sequence[str],
    n_features: int,
    n_parts: int,
) -> DataFrame:
    """`item, groups, about_item`, one row per item of any of the tables.

    Args:
        trained: Items by `trained_items`.
        described: Items by `described_items`.
        grouped: Items by `grouped.item_groups`.
        names: The categories, in the order of their bits.
        n_features: Length of the feature vectors.
        n_parts: Number of partitions.
    """
    blocks = [names[first : first + CATEGORIES_A_BLOCK] for first in range(0, len(names), CATEGORIES_A_BLOCK)]
    bits = [f"categories_{place}" for place in range(len(blocks))]
    if described is not None:
        described = described.select("*", *(_bits(own).alias(name) for name, own in zip(bits, blocks, strict=True)))
    counts = dict.fromkeys(("n_rows", "n_users", *bits), F.lit(0).cast("long"))
    arrays = {"features": F.array().cast("array<double>"), ITEM_GROUPS: F.array().cast("array<bigint>")}
    nothing = {name: F.lit(None).cast("array<double>" if name == "features" else "array<bigint>") for name in arrays}
    nothing |= dict.fromkeys(counts, F.lit(None).cast("long"))

    def wide(table: DataFrame) -> DataFrame:
        """The table with the columns of all."""
        own = {"features": F.col("features").cast("array<double>")} if "features" in table.columns else {}
        own |= {name: F.col(name) for name in nothing if name in table.columns and name not in own}
        return table.select("item", *(own.get(name, other).alias(name) for name, other in nothing.items()))

    # Joins would move them to more partitions than so few rows need. Of an item each column stands in one table only.
    tables = [wide(table) for table in (trained, described, grouped) if table is not None]
    together = reduce(lambda one, other: one.union(other), tables)
    merged = together.repartition(n_parts, "item").groupBy("item").agg(*(F.max(name).alias(name) for name in nothing))
    numbers = F.array(*(F.coalesce(name, nobody) for name, nobody in counts.items()))
    rows = merged.select("item", numbers.alias("numbers"), *(F.coalesce(name, own).alias(name) for name, own in arrays.items()))
    schema = StructType(
        [
            rows.schema["item"],
            StructField(ITEM_GROUPS, ArrayType(LongType())),
            StructField(ABOUT_ITEM, BinaryType()),
        ]
    )

    n_numbers = len(counts)

    def packed(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            numbers = np.array(frame["numbers"].to_list(), dtype=np.int64).reshape(len(frame), n_numbers)
            features = np.full((len(frame), n_features), np.nan)
            there = np.fromiter(map(len, frame["features"]), dtype=np.int64, count=len(frame)) > 0
            if n_features and there.any():
                features[there] = np.stack(list(frame["features"][there]))
            found = frame[["item", ITEM_GROUPS]].copy()
            found[ABOUT_ITEM] = pack(numbers, features, frame[ITEM_GROUPS])
            yield found[schema.names]

    return rows.mapInPandas(packed, schema)


def with_items(rows: DataFrame, items: DataFrame) -> DataFrame:
    """Rows of lists, truth or training rows with what is known of their items.

    Args:
        rows: Rows with `item`.
        items: Items by `item_sides`.
    """
    # Spark knows little of how large they are, and would perhaps send them to every executor by way of the driver.
    joined = rows.join(items.select("item", ABOUT_ITEM).hint("merge"), "item", "left")
    # A column of its own: lists and truth have both what is known of items, and Spark must tell the two apart.
    return joined.select(*rows.columns, F.col(ABOUT_ITEM).alias(ABOUT_ITEM))


def _bits(names: Sequence[str]) -> Column:
    """The categories of an item among these, a bit each."""
    places = F.array(*map(F.lit, names))

    def joined(bits: Column, name: Column) -> Column:
        # A name that is not among these has place 0, and 2^-1 is 0 as a whole number.
        power = F.pow(F.lit(2.0), F.call_function("array_position", places, name) - 1)
        return bits.bitwiseOR(F.floor(power).cast("long"))

    return F.coalesce(F.aggregate("categories", F.lit(0).cast("long"), joined), F.lit(0).cast("long"))


def counted_items(per_user: DataFrame, columns: Sequence[str], catalog: DataFrame | None, n_parts: int) -> DataFrame:
    """How often each item stands in the lists: `model, item, known`, and the numbers of `metrics.counting.item_columns`.

    Of a model -1 - m they are about its lists, not about the item.

    Args:
        per_user: PER_USER with the arrays of `metrics.counting.count_items`; `model` is the place of the model.
        columns: `metrics.counting.item_columns`.
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
