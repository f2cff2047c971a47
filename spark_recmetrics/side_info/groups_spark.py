"""Which groups items belong to, how large these are, and what they have in the lists of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from spark_recmetrics.columns import ITEM_GROUPS
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.group_sums import (
    GroupSizes,
    MeasureSpec,
    group_columns,
    groupings_of,
    measure_specs,
    user_columns,
)
from spark_recmetrics.request.needs import Needs
from spark_recmetrics.request.slices import Slice, parse_slices
from spark_recmetrics.side_info.bands_spark import ALL_IDS, band_counts, check_bands, read_bands, repeated_ids
from spark_recmetrics.storage import actions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_recmetrics.columns import Columns, Side
    from spark_recmetrics.inputs.spark import Inputs
    from spark_recmetrics.metrics import Metric


@dataclass(frozen=True)
class KnownGroups:
    """What is known of groups before lists are scored.

    Args:
        columns: By metric of groups and option, the column with groups.
        measured: What is added up over lists.
        items: `item, groups`, the groups as places among the names; None where items are not grouped by columns.
        names: The groups of items, by column and name.
        segments: `user`, and `segment_0`, `segment_1`, …; None where users are not grouped.
        sizes: What is known beside lists.
    """

    columns: Mapping[Metric, Mapping[str, str]] = field(default_factory=dict)
    measured: tuple[MeasureSpec, ...] = ()
    items: DataFrame | None = None
    names: tuple[tuple[str, str], ...] = ()
    segments: DataFrame | None = None
    sizes: GroupSizes = field(default_factory=GroupSizes)


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


def named_columns(
    metrics: Sequence[Metric], given: Mapping[Side, DataFrame | None], columns: Columns
) -> dict[Metric, dict[str, str]]:
    """By metric of groups and option, the column that it names.

    Raises:
        ConfigError: There is no such column, or several where none is named.
    """
    known = {side: None if table is None else columns.beside(side, table.columns) for side, table in given.items()}
    return group_columns(metrics, known)


def know_groups(inputs: Inputs, demand: Needs, chosen: Mapping[Metric, Mapping[str, str]], columns: Columns) -> KnownGroups:
    """What metrics need to know of groups. Of items and users nothing comes to the driver but how many each group has.

    Args:
        inputs: The caller's tables.
        demand: What metrics need.
        chosen: By metric and option, the column with groups.
        columns: The caller's names.

    Raises:
        DataError: A column has a type that cannot serve or too many values, or an id stands there more than once.
    """
    measured = measure_specs(demand.metrics, demand.convention, chosen)
    of_users = user_columns(measured)
    of_items = list(dict.fromkeys(one.column for one in groupings_of(measured) if one.column is not None))
    segments = items = None
    if of_users:
        found, _ = _bands("user", of_users, inputs, columns)
        own = {place: column_slice(name).bands[0].column for place, name in enumerate(of_users)}
        values = [F.col(name).alias(f"segment_{place}") for place, name in own.items()]
        segments = found.select("user", *values)
    names, sizes = list[tuple[str, str]](), GroupSizes()
    if of_items:
        found, n_items = _bands("item", of_items, inputs, columns)
        n_items_by_group: dict[str, dict[str, int]] = {name: {} for name in of_items}
        for row in sorted(actions.collect_rows(group_sizes(found, of_items)), key=lambda row: (row["place"], row["group"])):
            n_items_by_group[of_items[row["place"]]][row["group"]] = row["n_items"]
        names = [(column, group) for column, groups in n_items_by_group.items() for group in groups]
        items, sizes = item_groups(found, names), GroupSizes(n_items_by_group, n_items)
    return KnownGroups(chosen, measured, items, tuple(names), segments, sizes)


def _bands(side: Side, names: Sequence[str], inputs: Inputs, columns: Columns) -> tuple[DataFrame, int]:
    """The values of columns with groups, and the number of ids. A small job sees that no id stands there twice."""
    table, id_col = (inputs.segments, columns.user) if side == "user" else (inputs.groups, columns.item)
    slices = parse_slices([column_slice(name) for name in names])
    bands = read_bands(side, table, id_col, inputs.truth.schema[side].dataType, slices, key="groups")
    found = actions.collect_rows(band_counts(bands, slices, "groups"))
    check_bands(bands, slices, found, lambda: actions.example_values(repeated_ids(bands)), key="groups")
    return bands.rows, next((row["rows"] for row in found if row["place"] == ALL_IDS), 0)
