"""Which groups items belong to, how large these are, and what they have in the lists of a model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from spark_recmetrics.columns import ITEM_GROUPS
from spark_recmetrics.metrics.group_sums import GroupSizes, groupings_of, user_columns
from spark_recmetrics.request.slices import Slice, parse_slices
from spark_recmetrics.side_info.bands_spark import ALL_IDS, band_counts, check_bands, read_bands, repeated_ids
from spark_recmetrics.side_info.known import GroupRows
from spark_recmetrics.storage import actions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from spark_recmetrics.columns import Side
    from spark_recmetrics.inputs.spark import Inputs
    from spark_recmetrics.request.request import Request


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


def know_groups(inputs: Inputs, request: Request) -> GroupRows:
    """What metrics need to know of groups. Only how many items each group has reaches the driver.

    Raises:
        DataError: A column has a type that cannot be used or too many values, or an id is repeated.
    """
    of_users = user_columns(request.measured)
    of_items = list(dict.fromkeys(one.column for one in groupings_of(request.measured) if one.column is not None))
    segments = items = None
    if of_users:
        rows, _ = _bands("user", of_users, inputs, request)
        names_of = {position: column_slice(name).bands[0].column for position, name in enumerate(of_users)}
        values = [F.col(name).alias(f"segment_{position}") for position, name in names_of.items()]
        segments = rows.select("user", *values)
    names, group_sizes_ = list[tuple[str, str]](), GroupSizes()
    if of_items:
        rows, n_items = _bands("item", of_items, inputs, request)
        sizes: dict[str, dict[str, int]] = {name: {} for name in of_items}
        for row in sorted(actions.collect_rows(group_sizes(rows, of_items)), key=lambda row: (row["place"], row["group"])):
            sizes[of_items[row["place"]]][row["group"]] = row["n_items"]
        names = [(column, group) for column, groups in sizes.items() for group in groups]
        items, group_sizes_ = item_groups(rows, names), GroupSizes(sizes, n_items)
    return GroupRows(items, tuple(names), segments, group_sizes_)


def _bands(side: Side, names: Sequence[str], inputs: Inputs, request: Request) -> tuple[DataFrame, int]:
    """The values of columns with groups, and the number of ids. A small job checks that no id is repeated."""
    table, ids = inputs.segments if side == "user" else inputs.groups, request.columns.ids(side)
    slices = parse_slices([column_slice(name) for name in names])
    bands = read_bands(side, table, ids, inputs.truth.schema[side].dataType, slices, key="groups")
    counts = actions.collect_rows(band_counts(bands, slices, "groups"))
    check_bands(bands, slices, counts, lambda: actions.example_values(repeated_ids(bands)), key="groups")
    return bands.rows, next((row["rows"] for row in counts if row["place"] == ALL_IDS), 0)
