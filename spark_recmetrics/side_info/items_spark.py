"""What is known of items: how often they stand in the training rows, features and categories; and lists that have these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, LongType, StructField, StructType

from spark_recmetrics.columns import ABOUT_ITEM, ITEM_GROUPS
from spark_recmetrics.metrics.recommended_items import CATEGORIES_A_BLOCK
from spark_recmetrics.side_info.descriptions import MOST_CATEGORIES
from spark_recmetrics.side_info.packed import pack

if TYPE_CHECKING:
    import pandas as pd


from typing import TYPE_CHECKING

from pyspark.sql.types import (
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    NullType,
    NumericType,
    UserDefinedType,
)

from spark_recmetrics.inputs.contract import CATEGORY_KINDS, VECTOR_KINDS
from spark_recmetrics.inputs.spark import clean_train, column_of, column_of_kind
from spark_recmetrics.metrics.recommended_items import Popularity
from spark_recmetrics.request.needs import POPULARITY_NEEDS
from spark_recmetrics.side_info.descriptions import (
    CATEGORIES_FORM,
    FEATURES_FORM,
    MOST_FEATURES,
    SPARSE,
    check_categories,
    check_descriptions,
    wrong_form,
)
from spark_recmetrics.side_info.known import Descriptions, GroupRows
from spark_recmetrics.storage import actions

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from contextlib import ExitStack

    from spark_recmetrics.columns import Columns
    from spark_recmetrics.inputs.spark import Inputs


def trained_items(train: DataFrame, *, audience: bool) -> DataFrame:
    """`item, n_rows`, and with audience `n_users`, of every item with a training row.

    Args:
        train: `user, item`, as `inputs.read_inputs` gives them.
        audience: The users of an item are counted, too, which moves all rows.
    """
    rows = clean_train(train)
    if not audience:
        return rows.groupBy("item").agg(F.count(F.lit(1)).alias("n_rows"))
    pairs = rows.groupBy("item", "user").agg(F.count(F.lit(1)).alias("n"))
    return pairs.groupBy("item").agg(F.sum("n").alias("n_rows"), F.count(F.lit(1)).alias("n_users"))


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


LARGEST_BESIDE = 2**26
"""How many bytes of what is known of items come to every part of the users; more are joined to the rows that need them."""


def parts_of_items(n_buckets: int) -> int:
    """How many partitions items make: they are few beside the rows of users, and each partition costs a task."""
    return -(-n_buckets // 4)


def kept_training(inputs: Inputs, needs: Collection[str], resources: ExitStack) -> DataFrame | None:
    """Items by `trained_items`, kept in the cluster until `resources` is closed; None where no metric needs them."""
    if inputs.train is None or not POPULARITY_NEEDS & set(needs):
        return None
    rows = actions.materialize(trained_items(inputs.train, audience="audience" in needs))
    resources.callback(actions.release, rows)
    return rows


def know_popularity(trained: DataFrame | None, inputs: Inputs, needs: Collection[str]) -> Popularity | None:
    """How popular the items of the training rows are; None where no metric needs to know.

    Raises:
        DataError: There is no training row.
    """
    train, audience = inputs.train, "audience" in needs
    if trained is None or train is None:
        return None
    counts, n_users = actions.in_parallel(
        train.sparkSession,
        lambda: sorted((row["n_rows"], row["n_items"]) for row in actions.collect_rows(popularity_counts(trained))),
        lambda: actions.count_distinct(clean_train(train).select("user")) if audience else 0,
    )
    return Popularity.of_train([n for n, _ in counts], [n for _, n in counts], n_users)


def know_descriptions(inputs: Inputs, needs: Collection[str], columns: Columns) -> Descriptions | None:
    """Features and categories of items; None where no metric needs any.

    Raises:
        DataError: Item features are of a wrong type, repeated, or cannot be compared.
    """
    if inputs.features is None:
        return None
    rows = described_items(inputs.features, columns, inputs.truth.schema["item"].dataType, needs)
    counts = actions.collect_rows(description_counts(rows))[0].asDict()
    examples = actions.example_values(repeated_items(rows)) if counts["rows"] > counts["items"] else ""
    check_descriptions(counts, examples)
    names: tuple[str, ...] = ()
    if "categories" in rows.columns:
        names = tuple(row["category"] for row in actions.collect_rows(category_names(rows)))
        check_categories(names)
    return Descriptions(rows, counts["items"], counts.get("longest") or 0, names)


def kept_items(
    trained: DataFrame | None, described: Descriptions | None, groups: GroupRows, n_parts: int, resources: ExitStack
) -> DataFrame | None:
    """What is known of each item, kept in the cluster for all buckets; None where nothing is needed."""
    if trained is None and described is None and groups.items is None:
        return None
    names = () if described is None else described.categories
    rows = None if described is None else described.rows
    n_features = 0 if described is None else described.n_features
    kept = actions.materialize(item_sides(trained, rows, groups.items, names, n_features, n_parts))
    resources.callback(actions.release, kept)
    return kept


def described_items(table: DataFrame, columns: Columns, items: DataType, needs: Collection[str]) -> DataFrame:
    """`item`, and `features` or `categories` as they are needed; null where there is none.

    Features are an array of doubles, with its `length`, and whether it is a sparse vector that is `misplaced`; categories are
    an array of texts.

    Args:
        table: The caller's table of item features.
        columns: Its columns.
        items: The type of items in predictions and truth.
        needs: What is needed.

    Raises:
        DataError: A column is missing or of a wrong type.
    """
    found = [column_of(table, columns.item).cast(items).alias("item")]
    if "features" in needs:
        own, _ = column_of_kind("item_features", table, "features", columns.features, VECTOR_KINDS, FEATURES_FORM)
        kind = table.schema[columns.features].dataType
        if isinstance(kind, NullType):
            own, kind = own.cast("array<double>"), ArrayType(DoubleType())
        # A vector of Spark ML is a struct like our own, with a type beside: 0 for a sparse one and 1 for a dense one.
        if isinstance(kind, UserDefinedType) and kind.simpleString() == "vector":
            parts = _vector_parts(F.unwrap_udt(own), kind.sqlType())
        else:
            parts = _vector_parts(own, kind)
        if parts is None:
            raise wrong_form("features", columns.features, FEATURES_FORM, kind.simpleString())
        found += [part.alias(name) for part, name in zip(parts, ("features", "length", "misplaced"), strict=True)]
    if "categories" in needs:
        kinds = (*CATEGORY_KINDS, "array")
        own, of = column_of_kind("item_features", table, "categories", columns.categories, kinds, CATEGORIES_FORM)
        if of.element is not None and of.element.kind not in CATEGORY_KINDS:
            raise wrong_form("categories", columns.categories, CATEGORIES_FORM, of.name)
        several = own if of.kind == "array" else F.when(own.isNotNull(), F.array(own))
        found.append(F.filter(several.cast("array<string>"), lambda name: name.isNotNull()).alias("categories"))
    return table.select(*found).where(F.col("item").isNotNull())


def _vector_parts(own: Column, kind: DataType) -> tuple[Column, Column, Column] | None:
    """The numbers of a vector, its length, and whether it is a sparse one that does not fit its size; None for what is none."""
    if _has(kind, NumericType, NullType):
        numbers = _doubles(own, kind)
        return numbers, F.when(own.isNotNull(), F.size(own)), F.lit(False)
    kinds = {field.name: field.dataType for field in kind.fields} if isinstance(kind, StructType) else {}
    if not kinds.keys() >= set(SPARSE):
        return None
    if not (
        isinstance(kinds["size"], IntegralType) and _has(kinds["indices"], IntegralType) and _has(kinds["values"], NumericType)
    ):
        return None
    size, indices = own.getField("size").cast("long"), own.getField("indices").cast("array<long>")
    values = _doubles(own.getField("values"), kinds["values"])
    off = F.exists(indices, lambda place: place.isNull() | (place < 0) | (place >= size))
    repeated = F.size(F.array_distinct(indices)) < F.size(indices)
    fits = ~off & ~repeated & (F.size(indices) == F.size(values)) & (size >= 0)

    def number(place: Column) -> Column:
        at = F.call_function("array_position", indices, place).cast("int")
        return F.when(at > 0, F.get(values, at - 1)).otherwise(F.lit(0.0))

    # One that is too long is refused by its length, which must not take its memory.
    filled = F.when((size > 0) & (size <= MOST_FEATURES), F.transform(F.sequence(F.lit(0).cast("long"), size - 1), number))
    length, misplaced = F.when(own.isNotNull(), size), own.isNotNull() & ~F.coalesce(fits, F.lit(False))
    if not isinstance(kinds.get("type"), IntegralType):  # then it is not that of Spark ML
        return filled, length, misplaced
    form = F.coalesce(own.getField("type"), F.lit(0))
    dense = form == 1
    return (
        F.when(dense, values).otherwise(filled),
        F.when(dense, F.size(values).cast("long")).otherwise(length),
        own.isNotNull() & ~dense & (misplaced | (form != 0)),
    )


def _has(kind: DataType, *of: type[DataType]) -> bool:
    """Whether it is an array of these."""
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, of)


def _doubles(numbers: Column, kind: DataType) -> Column:
    """An array of numbers as doubles; singles stay singles: half as much to move."""
    return numbers if _has(kind, FloatType) else numbers.cast("array<double>")
