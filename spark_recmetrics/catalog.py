"""What is known of items: how often they stand in the training rows, features and categories; and lists that have these."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.columns import ITEM_COUNTS, ITEM_IDS, ITEM_MODELS, ITEM_WEIGHTS
from spark_recmetrics.descriptions import MOST_CATEGORIES
from spark_recmetrics.metrics.counting import item_columns
from spark_recmetrics.metrics.recommended import CATEGORIES_A_BLOCK, ItemFacts


@dataclass(frozen=True)
class KnownItems:
    """What is known of items.

    Args:
        rows: `item` and its columns, one row per item; None where nobody needs to know.
        facts: What is known of all together.
    """

    rows: DataFrame | None = None
    facts: ItemFacts = field(default_factory=ItemFacts)


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
        items: Items with `n_rows`, null where they have none.
    """
    return items.where(F.col("n_rows") > 0).groupBy("n_rows").agg(F.count(F.lit(1)).alias("n_items"))


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


def item_sides(trained: DataFrame | None, described: DataFrame | None, facts: ItemFacts, names: Sequence[str]) -> DataFrame:
    """One row per item, with the columns that rows of lists get.

    Args:
        trained: Items by `trained_items`.
        described: Items by `described_items`.
        facts: The names of columns.
        names: The categories, in the order of their bits.
    """
    if described is None:
        if trained is None:
            raise ValueError("there is nothing to know of items")
        return trained
    known: list[Column] = [
        F.col("features").getItem(place).alias(name)
        for place, name in enumerate(facts.feature_columns if facts.n_features else ())
    ]
    for block, name in enumerate(facts.category_columns):
        own = names[block * CATEGORIES_A_BLOCK : (block + 1) * CATEGORIES_A_BLOCK]
        known.append(_bits(own).alias(name))
    own_rows = described.select("item", *known)
    return own_rows if trained is None else trained.join(own_rows, "item", "full")


def with_items(rows: DataFrame, items: DataFrame, columns: Collection[str] | None = None) -> DataFrame:
    """Rows of lists or truth with what is known of their items: counts and categories 0 and features null where nothing is.

    Args:
        rows: Rows with `item`.
        items: Items by `item_sides`.
        columns: Only these columns of items.
    """
    kept = [name for name in items.columns if name != "item" and (columns is None or name in columns)]
    joined = rows.join(items.select("item", *kept), "item", "left")
    filled = [F.col(name) if name.startswith("feature_") else F.coalesce(F.col(name), F.lit(0)).alias(name) for name in kept]
    return joined.select(*rows.columns, *filled)


def with_history(rows: DataFrame, train: DataFrame) -> DataFrame:
    """Rows of lists with `seen`, whether the user has a training row of the item.

    Args:
        rows: Rows with `bucket`, `user` and `item`.
        train: `bucket, user, item`, each once.
    """
    joined = rows.join(train.withColumn("seen", F.lit(True)), ["bucket", "user", "item"], "left")
    return joined.select(*rows.columns, F.coalesce("seen", F.lit(False)).alias("seen"))


def _bits(names: Sequence[str]) -> Column:
    """The categories of an item among these, a bit each."""
    places = F.array(*map(F.lit, names))

    def joined(bits: Column, name: Column) -> Column:
        # A name that is not among these has place 0, and 2^-1 is 0 as a whole number.
        power = F.pow(F.lit(2.0), F.call_function("array_position", places, name) - 1)
        return bits.bitwiseOR(F.floor(power).cast("long"))

    return F.coalesce(F.aggregate("categories", F.lit(0).cast("long"), joined), F.lit(0).cast("long"))


def counted_items(per_user: DataFrame, n_counted: int, catalog: DataFrame | None) -> DataFrame:
    """How often each item stands in the lists: `model, item, known`, and the numbers of `metrics.counting.item_columns`.

    Of a model -1 - m they are about its lists, not about the item.

    Args:
        per_user: PER_USER with the arrays of `metrics.counting.count_items`; `model` is the place of the model.
        n_counted: How many things are counted.
        catalog: `item` of the catalogue, where there is a table of it; else every item is known.
    """
    names = item_columns(n_counted)
    rows = per_user.where(F.col(ITEM_IDS).isNotNull()).select(F.inline(F.arrays_zip(*names)))
    sums = [F.sum(name).alias(name) for name in names[2:]]
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
