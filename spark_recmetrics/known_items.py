"""What has to be known of items before lists are scored: small jobs that look at training rows and item features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    FloatType,
    IntegralType,
    NumericType,
    StringType,
    StructType,
    UserDefinedType,
)

from spark_recmetrics import tables
from spark_recmetrics.catalog import (
    KnownItems,
    category_names,
    counted_items,
    description_counts,
    item_histogram,
    item_sides,
    popularity_counts,
    repeated_items,
    trained_items,
    trained_users,
)
from spark_recmetrics.demand import OF_POPULARITY
from spark_recmetrics.descriptions import (
    CATEGORIES_FORM,
    FEATURES_FORM,
    MOST_FEATURES,
    SPARSE,
    check_categories,
    check_descriptions,
    wrong_form,
)
from spark_recmetrics.inputs import column_of, typed_column
from spark_recmetrics.item_intervals import Shared, interval_ends, listed_items
from spark_recmetrics.metrics.counting import check_counts, counts_of, item_columns
from spark_recmetrics.metrics.recommended import ItemFacts, Popularity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from contextlib import ExitStack

    from spark_recmetrics.columns import Columns
    from spark_recmetrics.grouped import KnownGroups
    from spark_recmetrics.inputs import Inputs
    from spark_recmetrics.means import Intervals, Mean
    from spark_recmetrics.metrics.items import ItemCounts
    from spark_recmetrics.plan import Plan

OF_FEATURES = frozenset({"features", "categories"})
"""Needs that the table of item features meets."""

LARGEST_BESIDE = 2**26
"""How many bytes of what is known of items come to every part of the users; more are joined to the rows that need them."""


def parts_of_items(n_buckets: int) -> int:
    """How many partitions items make: they are few beside the rows of users, and each partition costs a task."""
    return -(-n_buckets // 4)


@dataclass(frozen=True)
class DescribedItems:
    """What a table of item features tells.

    Args:
        rows: Items by `described_items`.
        n_items: How many items it has.
        n_features: Length of the feature vectors.
        categories: The names of all categories.
    """

    rows: DataFrame
    n_items: int
    n_features: int
    categories: Sequence[str]


def kept_training(inputs: Inputs, needs: Collection[str], spare: ExitStack) -> DataFrame | None:
    """Items by `catalog.trained_items`, kept in the cluster until `spare` is closed; None where no metric needs them."""
    if inputs.train is None or not OF_POPULARITY & set(needs):
        return None
    rows = tables.materialise(trained_items(inputs.train, audience="audience" in needs))
    spare.callback(tables.release, rows)
    return rows


def know_popularity(trained: DataFrame | None, inputs: Inputs, needs: Collection[str]) -> Popularity | None:
    """How popular the items of the training rows are; None where no metric needs to know.

    Args:
        trained: The rows of `kept_training`.
        inputs: The caller's tables.
        needs: What metrics need.

    Raises:
        DataError: There is no training row.
    """
    train, audience = inputs.train, "audience" in needs
    if trained is None or train is None:
        return None
    counts, n_users = tables.at_once(
        train.sparkSession,
        lambda: sorted((row["n_rows"], row["n_items"]) for row in tables.collect_rows(popularity_counts(trained))),
        lambda: tables.count_distinct(trained_users(train)) if audience else 0,
    )
    return Popularity.of_train([n for n, _ in counts], [n for _, n in counts], n_users)


def know_descriptions(inputs: Inputs, needs: Collection[str], columns: Columns) -> DescribedItems | None:
    """What metrics need to know of features and categories; None where none needs any.

    Args:
        inputs: The caller's tables.
        needs: What metrics need.
        columns: The caller's names.

    Raises:
        DataError: Item features are of a wrong type, repeated, or cannot be compared.
    """
    if inputs.features is None or not OF_FEATURES & set(needs):
        return None
    rows = described_items(inputs.features, columns, inputs.truth.schema["item"].dataType, needs)
    counts = tables.collect_rows(description_counts(rows))[0].asDict()
    examples = tables.example_values(repeated_items(rows)) if counts["rows"] > counts["items"] else ""
    check_descriptions(counts, examples)
    names = []
    if "categories" in rows.columns:
        names = [row["category"] for row in tables.collect_rows(category_names(rows))]
        check_categories(names)
    return DescribedItems(rows, counts["items"], counts.get("longest") or 0, names)


def know_items(
    trained: DataFrame | None,
    popularity: Popularity | None,
    described: DescribedItems | None,
    groups: KnownGroups,
    n_parts: int,
    spare: ExitStack,
) -> KnownItems:
    """What is known of items. Nothing of the catalogue's size comes to the driver.

    The rows are kept in the cluster, for all buckets, until `spare` is closed.

    Args:
        trained: The rows of `kept_training`.
        popularity: What `know_popularity` found in them.
        described: What the table of item features tells.
        groups: The groups that items belong to.
        n_parts: Number of partitions.
        spare: What is to be given back.
    """
    if trained is None and described is None and groups.items is None:
        return KnownItems()
    names = [] if described is None else list(described.categories)
    n_features = 0 if described is None else described.n_features
    facts = ItemFacts(popularity, n_features, len(names), groups.names)
    rows = tables.materialise(
        item_sides(trained, None if described is None else described.rows, groups.items, names, n_features, n_parts)
    )
    spare.callback(tables.release, rows)
    # The tables are about the same items, more or less.
    known = 0 if popularity is None else sum(popularity.n_items), 0 if described is None else described.n_items
    n_items = max(*known, groups.facts.n_items)
    size = n_items * 8 * (2 + facts.n_blocks + facts.n_features)
    return KnownItems(rows, facts, beside=size <= LARGEST_BESIDE)


def counted_in(kept: DataFrame, plan: Plan) -> DataFrame | None:
    """How often items stand in the lists, by `catalog.counted_items`, kept for its readers; None where nobody needs to know.

    Args:
        kept: PER_USER with the arrays of counts.
        plan: How it was made.
    """
    if not any(plan.n_of_items):
        return None
    found = counted_items(kept, item_columns(*plan.n_of_items), plan.inputs.catalog, parts_of_items(plan.n_buckets))
    return tables.materialise(found)


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
    counts = counts_of([row.asDict() for row in tables.collect_rows(item_histogram(items, n_counted))], plan.n_items)
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
    definitions = tuple({metric.name: metric.definition for metric in metrics}.values())
    shared = Shared(metrics, definitions, plan.convention, counts, len(plan.models), intervals)
    repeats = plan.convention.duplicates == "keep"
    lists = listed_items(kept, items, plan.models, scoring.counted, repeats=repeats)
    ends = {row["place"]: (row["low"], row["high"]) for row in tables.collect_rows(interval_ends(lists, shared))}
    by_metric = {
        (model, metric): ends[m * len(metrics) + place]
        for m, model in enumerate(plan.models)
        for place, metric in enumerate(metrics)
        if m * len(metrics) + place in ends
    }
    return {model: [mean.around(by_metric.get((model, mean.metric))) for mean in own] for model, own in values.items()}


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
        kinds: tuple[type[DataType], ...] = (ArrayType, StructType, UserDefinedType)
        own, kind = typed_column("item_features", table, "features", columns.features, kinds, FEATURES_FORM)
        # A vector of Spark ML is a struct like our own, with a type beside: 0 for a sparse one and 1 for a dense one.
        if isinstance(kind, UserDefinedType) and kind.simpleString() == "vector":
            parts = _vector_parts(F.unwrap_udt(own), kind.sqlType())
        else:
            parts = _vector_parts(own, kind)
        if parts is None:
            raise wrong_form("features", columns.features, FEATURES_FORM, kind.simpleString())
        found += [part.alias(name) for part, name in zip(parts, ("features", "length", "misplaced"), strict=True)]
    if "categories" in needs:
        kinds = (ArrayType, StringType, IntegralType, BooleanType)
        own, kind = typed_column("item_features", table, "categories", columns.categories, kinds, CATEGORIES_FORM)
        if isinstance(kind, ArrayType) and not isinstance(kind.elementType, (StringType, IntegralType, BooleanType)):
            raise wrong_form("categories", columns.categories, CATEGORIES_FORM, kind.simpleString())
        several = own if isinstance(kind, ArrayType) else F.when(own.isNotNull(), F.array(own))
        found.append(F.filter(several.cast("array<string>"), lambda name: name.isNotNull()).alias("categories"))
    return table.select(*found).where(F.col("item").isNotNull())


def _vector_parts(own: Column, kind: DataType) -> tuple[Column, Column, Column] | None:
    """The numbers of a vector, its length, and whether it is a sparse one that does not fit its size; None for what is none."""
    if _has(kind, NumericType):
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


def _has(kind: DataType, of: type[DataType]) -> bool:
    """Whether it is an array of these."""
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, of)


def _doubles(numbers: Column, kind: DataType) -> Column:
    """An array of numbers as doubles; singles stay singles: half as much to move."""
    return numbers if _has(kind, FloatType) else numbers.cast("array<double>")
