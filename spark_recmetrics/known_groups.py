"""What has to be known of groups before lists are scored, and the values of their metrics: small jobs beside the scoring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_recmetrics import tables
from spark_recmetrics.demand import Demand
from spark_recmetrics.grouped import KnownGroups, column_slice, group_sizes, item_groups, means_by_group, sums_by_group
from spark_recmetrics.metrics.groups import group_columns
from spark_recmetrics.metrics.measuring import (
    GroupFacts,
    GroupValue,
    all_measured,
    group_values,
    groupings_of,
    item_places,
    sums_of,
    user_columns,
)
from spark_recmetrics.segments import ALL_IDS, band_counts, check_bands, read_bands, repeated_ids
from spark_recmetrics.slices import parse_slices

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, Row

    from spark_recmetrics.columns import Columns, Side
    from spark_recmetrics.inputs import Inputs
    from spark_recmetrics.metrics import Metric
    from spark_recmetrics.plan import Plan


def named_columns(
    metrics: Sequence[Metric], given: Mapping[Side, DataFrame | None], columns: Columns
) -> dict[Metric, dict[str, str]]:
    """By metric of groups and option, the column that it names.

    Raises:
        ConfigError: There is no such column, or several where none is named.
    """
    known = {side: None if table is None else columns.beside(side, table.columns) for side, table in given.items()}
    return group_columns(metrics, known)


def know_groups(inputs: Inputs, demand: Demand, chosen: Mapping[Metric, Mapping[str, str]], columns: Columns) -> KnownGroups:
    """What metrics need to know of groups. Of items and users nothing comes to the driver but how many each group has.

    Args:
        inputs: The caller's tables.
        demand: What metrics need.
        chosen: By metric and option, the column with groups.
        columns: The caller's names.

    Raises:
        DataError: A column has a type that cannot serve or too many values, or an id stands there more than once.
    """
    measured = all_measured(demand.metrics, demand.convention, chosen)
    of_users = user_columns(measured)
    of_items = list(dict.fromkeys(one.column for one in groupings_of(measured) if one.column is not None))
    segments = items = None
    if of_users:
        found, _ = _bands("user", of_users, inputs, columns)
        own = {place: column_slice(name).bands[0].column for place, name in enumerate(of_users)}
        values = [F.col(name).alias(f"segment_{place}") for place, name in own.items()]
        segments = found.select("user", *values)
    names, facts = list[tuple[str, str]](), GroupFacts()
    if of_items:
        found, n_items = _bands("item", of_items, inputs, columns)
        sizes: dict[str, dict[str, int]] = {name: {} for name in of_items}
        for row in sorted(tables.collect_rows(group_sizes(found, of_items)), key=lambda row: (row["place"], row["group"])):
            sizes[of_items[row["place"]]][row["group"]] = row["n_items"]
        names = [(column, group) for column, groups in sizes.items() for group in groups]
        items, facts = item_groups(found, names), GroupFacts(sizes, n_items)
    return KnownGroups(chosen, measured, items, tuple(names), segments, facts)


def _bands(side: Side, names: Sequence[str], inputs: Inputs, columns: Columns) -> tuple[DataFrame, int]:
    """The values of columns with groups, and the number of ids. A small job sees that no id stands there twice."""
    table, id_col = (inputs.segments, columns.user) if side == "user" else (inputs.groups, columns.item)
    slices = parse_slices([column_slice(name) for name in names])
    bands = read_bands(side, table, id_col, inputs.truth.schema[side].dataType, slices, key="groups")
    found = tables.collect_rows(band_counts(bands, slices, "groups"))
    check_bands(bands, slices, found, lambda: tables.example_values(repeated_ids(bands)), key="groups")
    return bands.rows, next((row["rows"] for row in found if row["place"] == ALL_IDS), 0)


def user_sums(kept: DataFrame, plan: Plan) -> list[Row]:
    """What groups have in lists, added up over users: the rows that `group_means` takes.

    Args:
        kept: PER_USER with the arrays of sums.
        plan: How it was made.
    """
    return tables.collect_rows(sums_by_group(kept)) if plan.groups.measured else []


def item_sums(items: DataFrame | None, plan: Plan) -> list[Row]:
    """The same of what is measured item by item.

    Args:
        items: Items of lists by `catalog.counted_items`.
        plan: How they were made.
    """
    measured = plan.groups.measured
    if items is None or plan.items.rows is None or not item_places(measured):
        return []
    return tables.collect_rows(means_by_group(items, plan.items.rows, measured, plan.groups.names))


def group_means(rows: Iterable[Row], plan: Plan) -> dict[str, dict[Metric, GroupValue]]:
    """By model, the values of the metrics of groups.

    Args:
        rows: The rows of `user_sums` and `item_sums`.
        plan: How they were made.
    """
    measured, names = plan.groups.measured, plan.groups.names
    if not measured:
        return {}
    sums = sums_of((row.asDict() for row in rows), measured, names)
    return {
        name: group_values(plan.metrics, plan.convention, plan.groups.columns, sums, plan.groups.facts, code)
        for code, name in enumerate(plan.models)
    }
