"""The properties of items on Spark: popularity, features, categories and groups; and rows of lists with these properties."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, LongType, StructField, StructType, UserDefinedType

from spark_recmetrics.columns import ABOUT_ITEM, ITEM_GROUPS, Columns
from spark_recmetrics.inputs.accepted_columns import ColumnType
from spark_recmetrics.inputs.spark import Inputs, clean_train, column_of, column_type, schema_of
from spark_recmetrics.metrics.recommended_items import CATEGORIES_A_BLOCK, Popularity
from spark_recmetrics.request.needs import POPULARITY_NEEDS
from spark_recmetrics.side_info.bands_spark import example_ids
from spark_recmetrics.side_info.checks import (
    DENSE,
    INTEGER_KINDS,
    MOST_CATEGORIES,
    MOST_FEATURES,
    categories_type,
    check_categories,
    check_item_features,
    features_type,
)
from spark_recmetrics.side_info.known import Descriptions, GroupRows
from spark_recmetrics.side_info.packed import pack
from spark_recmetrics.storage import actions

if TYPE_CHECKING:
    import pandas as pd


def parts_of_items(n_buckets: int) -> int:
    """The number of partitions of items. There are few items compared with the rows of users, and each partition is a task."""
    return -(-n_buckets // 4)


def trained_items(inputs: Inputs, needs: Collection[str], resources: ExitStack) -> DataFrame | None:
    """`item, n_rows` of every item with a training row, kept until `resources` is closed; None if no metric needs them."""
    # If a metric needs the audience, `n_users` is counted, too, which shuffles all rows.
    if inputs.train is None or not POPULARITY_NEEDS & set(needs):
        return None
    rows, count = clean_train(inputs.train), F.count(F.lit(1))
    if "audience" in needs:
        pairs = rows.groupBy("item", "user").agg(count.alias("n"))
        items = pairs.groupBy("item").agg(F.sum("n").alias("n_rows"), count.alias("n_users"))
    else:
        items = rows.groupBy("item").agg(count.alias("n_rows"))
    kept = actions.materialize(items)
    resources.callback(actions.release, kept)
    return kept


def learn_popularity(trained: DataFrame | None, inputs: Inputs, needs: Collection[str]) -> Popularity | None:
    """The popularity of all items; None if no metric needs it."""
    train, audience = inputs.train, "audience" in needs
    if trained is None or train is None:
        return None
    # A histogram: there are at most about sqrt(2 rows) different numbers of rows.
    histogram = trained.groupBy("n_rows").agg(F.count(F.lit(1)).alias("n_items"))
    counts, n_users = actions.in_parallel(
        train.sparkSession,
        lambda: sorted((row["n_rows"], row["n_items"]) for row in actions.collect_rows(histogram)),
        lambda: actions.count_distinct(clean_train(train).select("user")) if audience else 0,
    )
    return Popularity.of_train([n for n, _ in counts], [n for _, n in counts], n_users)


def learn_descriptions(inputs: Inputs, needs: Collection[str], columns: Columns) -> Descriptions | None:
    """Features and categories of items, after small jobs have checked them; None if no metric needs them."""
    if inputs.features is None:
        return None
    rows = _described_items(inputs.features, columns, inputs.truth.schema["item"].dataType, needs)
    counts = actions.collect_rows(_description_counts(rows))[0].asDict()
    check_item_features(counts, example_ids(rows, "item") if counts["rows"] > counts["items"] else "")
    names: tuple[str, ...] = ()
    if "categories" in rows.columns:
        categories = rows.select(F.explode("categories").alias("category")).distinct().orderBy("category")
        # One more than allowed shows that there are too many.
        names = tuple(row["category"] for row in actions.collect_rows(categories.limit(MOST_CATEGORIES + 1)))
        check_categories(names)
    return Descriptions(rows, counts["items"], counts.get("longest") or 0, names)


def _description_counts(described: DataFrame) -> DataFrame:
    """One row, as `check_item_features` reads it."""
    counts = [F.count(F.lit(1)).alias("rows"), F.count_distinct("item").alias("items")]
    if "features" in described.columns:
        broken = F.exists("features", lambda x: x.isNull() | F.isnan(x) | (F.abs(x) == float("inf")))
        counts += [F.min("length").alias("shortest"), F.max("length").alias("longest")]
        counts.append(F.count_if("misplaced").alias("misplaced"))
        counts.append(F.count_if(F.coalesce(broken, F.lit(False))).alias("broken"))
    return described.agg(*counts)


def _described_items(table: DataFrame, columns: Columns, id_type: DataType, needs: Collection[str]) -> DataFrame:
    """`item`, and the columns that are needed: `features, length, misplaced`, see `_vector`; and `categories`, an array."""
    schema = schema_of("item_features", table)
    selected = [column_of(table, columns.item).cast(id_type).alias("item")]
    if "features" in needs:
        vector_type, vector = features_type(schema, columns.features), column_of(table, columns.features)
        spark_type = table.schema[columns.features].dataType
        if isinstance(spark_type, UserDefinedType):
            vector_type, vector = column_type(spark_type.sqlType()), F.unwrap_udt(vector)
        parts = zip(_vector(vector, vector_type), ("features", "length", "misplaced"), strict=True)
        selected += [part.alias(name) for part, name in parts]
    if "categories" in needs:
        category_type, categories = categories_type(schema, columns.categories), column_of(table, columns.categories)
        arrays = categories if category_type.kind == "array" else F.when(categories.isNotNull(), F.array(categories))
        selected.append(F.filter(arrays.cast("array<string>"), lambda name: name != "").alias("categories"))
    return table.select(*selected).where(F.col("item").isNotNull())


def _vector(vector: Column, vector_type: ColumnType) -> tuple[Column, Column, Column]:
    """The numbers of a vector, its length, and whether it is a sparse vector that does not fit its size."""
    if vector_type.kind != "struct":
        numbers = _doubles(vector, vector_type)
        return numbers, F.when(numbers.isNotNull(), F.size(numbers)), F.lit(False)
    fields = dict(vector_type.fields)
    size, indices = vector.getField("size").cast("long"), vector.getField("indices").cast("array<long>")
    values = _doubles(vector.getField("values"), fields["values"])
    off = F.exists(indices, lambda index: index.isNull() | (index < 0) | (index >= size))
    repeated = F.size(F.array_distinct(indices)) < F.size(indices)
    fits = ~off & ~repeated & (F.size(indices) == F.size(values)) & (size >= 0)

    def number(index: Column) -> Column:
        position = F.call_function("array_position", indices, index).cast("int")
        return F.when(position > 0, F.get(values, position - 1)).otherwise(F.lit(0.0))

    # A vector that is too long is rejected because of its length, so it is not filled.
    filled = F.when((size > 0) & (size <= MOST_FEATURES), F.transform(F.sequence(F.lit(0).cast("long"), size - 1), number))
    length, misplaced = F.when(vector.isNotNull(), size), vector.isNotNull() & ~F.coalesce(fits, F.lit(False))
    if "type" not in fields or fields["type"].kind not in INTEGER_KINDS:
        return filled, length, misplaced
    # Vectors of Spark ML are structs with a type.
    kind = F.coalesce(vector.getField("type"), F.lit(0))
    dense = kind == DENSE
    return (
        F.when(dense, values).otherwise(filled),
        F.when(dense, F.size(values).cast("long")).otherwise(length),
        vector.isNotNull() & ~dense & (misplaced | (kind != 0)),
    )


def _doubles(numbers: Column, array_type: ColumnType) -> Column:
    """An array of doubles. Numbers of single precision stay as they are, which moves half of the bytes."""
    single = array_type.element is not None and array_type.element.name == "float"
    return numbers if single else numbers.cast("array<double>")


def kept_items(
    trained: DataFrame | None, described: Descriptions | None, groups: GroupRows, n_parts: int, resources: ExitStack
) -> DataFrame | None:
    """The properties of each item, kept until `resources` is closed; None if no metric needs them."""
    if trained is None and described is None and groups.items is None:
        return None
    kept = actions.materialize(_properties(trained, described, groups.items, n_parts))
    resources.callback(actions.release, kept)
    return kept


def _properties(
    trained: DataFrame | None, described: Descriptions | None, grouped: DataFrame | None, n_parts: int
) -> DataFrame:
    """`item, groups, about_item`, one row per item of any of the tables."""
    names, n_features = ((), 0) if described is None else (described.categories, described.n_features)
    blocks = [names[first : first + CATEGORIES_A_BLOCK] for first in range(0, len(names), CATEGORIES_A_BLOCK)]
    bits = {f"categories_{place}": _bits(block) for place, block in enumerate(blocks)}
    numbers = ["n_rows", "n_users", *bits]
    types = {**dict.fromkeys(numbers, "bigint"), "features": "array<double>", ITEM_GROUPS: "array<bigint>"}

    def with_all_columns(table: DataFrame) -> DataFrame:
        columns = {name: F.col(name) if name in table.columns else F.lit(None) for name in types}
        return table.select("item", *(column.cast(types[name]).alias(name) for name, column in columns.items()))

    described_rows = None
    if described is not None:
        described_rows = described.rows.select("*", *(column.alias(name) for name, column in bits.items()))
    # Joins would use more partitions than so few rows need. A column has a value of an item in at most one table.
    tables = [with_all_columns(table) for table in (trained, described_rows, grouped) if table is not None]
    united = reduce(lambda upper, lower: upper.union(lower), tables).repartition(n_parts, "item")
    merged = united.groupBy("item").agg(*(F.max(name).alias(name) for name in types))
    arrays = [F.coalesce(name, F.array().cast(types[name])).alias(name) for name in ("features", ITEM_GROUPS)]
    rows = merged.select("item", F.array(*(F.coalesce(name, F.lit(0)) for name in numbers)).alias("numbers"), *arrays)
    groups_field, packed_field = StructField(ITEM_GROUPS, ArrayType(LongType())), StructField(ABOUT_ITEM, BinaryType())
    schema, n_numbers = StructType([rows.schema["item"], groups_field, packed_field]), len(numbers)

    def packed(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            counts = np.array(frame["numbers"].to_list(), dtype=np.int64).reshape(len(frame), n_numbers)
            features = np.full((len(frame), n_features), np.nan)
            has_features = np.fromiter(map(len, frame["features"]), dtype=np.int64, count=len(frame)) > 0
            if n_features and has_features.any():
                features[has_features] = np.stack(list(frame["features"][has_features]))
            yield frame.assign(**{ABOUT_ITEM: pack(counts, features, frame[ITEM_GROUPS])})[schema.names]

    return rows.mapInPandas(packed, schema)


def _bits(names: Sequence[str]) -> Column:
    """Which of these categories an item has, one bit each."""
    known_names = F.array(*map(F.lit, names))

    def with_bit(bits: Column, name: Column) -> Column:
        # Another category has position 0, and 2^-1 is 0 as an integer.
        power = F.pow(F.lit(2.0), F.call_function("array_position", known_names, name) - 1)
        return bits.bitwiseOR(F.floor(power).cast("long"))

    return F.coalesce(F.aggregate("categories", F.lit(0).cast("long"), with_bit), F.lit(0).cast("long"))


def with_items(rows: DataFrame, items: DataFrame) -> DataFrame:
    """Rows of lists, ground truth or training rows with the packed properties of their items, see `kept_items`."""
    # Spark cannot estimate the size of the items well, and might broadcast them through the driver.
    joined = rows.join(items.select("item", ABOUT_ITEM).hint("merge"), "item", "left")
    # Lists and ground truth both have this column. The alias lets Spark distinguish the two.
    return joined.select(*rows.columns, F.col(ABOUT_ITEM).alias(ABOUT_ITEM))
