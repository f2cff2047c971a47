"""What has to be known of groups before lists are scored, and the values of their metrics: small jobs beside the scoring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_recmetrics import tables
from spark_recmetrics.demand import Demand
from spark_recmetrics.grouped import (
    KnownGroups,
    all_groups,
    column_groups,
    column_slice,
    group_sizes,
    popularity_groups,
    sums_by_group,
    trained_sums,
)
from spark_recmetrics.metrics.groups import Grouping, GroupSize, GroupSum, Sums, columns_by_side, group_columns
from spark_recmetrics.metrics.measuring import (
    GroupFacts,
    GroupValue,
    all_measured,
    group_values,
    groupings_of,
    sums_of,
    user_columns,
)
from spark_recmetrics.segments import band_counts, check_bands, read_bands, repeated_ids
from spark_recmetrics.slices import NO_VALUE, parse_slices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_recmetrics.catalog import KnownItems
    from spark_recmetrics.columns import Columns, Side
    from spark_recmetrics.inputs import Inputs
    from spark_recmetrics.match import Bands
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


def know_groups(
    inputs: Inputs, demand: Demand, chosen: Mapping[Metric, Mapping[str, str]], items: KnownItems, columns: Columns
) -> KnownGroups:
    """What metrics need to know of groups. Of items and users nothing comes to the driver but how many each group has.

    Args:
        inputs: The caller's tables.
        demand: What metrics need.
        chosen: By metric and option, the column with groups.
        items: What is known of items.
        columns: The caller's names.

    Raises:
        DataError: A column has a type that cannot serve or too many values, or an id stands there more than once.
    """
    measured = all_measured(demand.metrics, demand.convention, chosen)
    if not measured:
        return KnownGroups()
    groupings, of_users = groupings_of(measured), user_columns(measured)
    of_items = list(dict.fromkeys(one.column for one in groupings if one.column is not None))
    bands = _bands("item", of_items, inputs, columns) if of_items else None
    parts = [
        column_groups(bands.rows, one.column, place) for place, one in enumerate(groupings) if bands is not None and one.column
    ]
    popularity = items.facts.popularity
    if items.rows is not None and popularity is not None:
        by_share = [(place, one.share) for place, one in enumerate(groupings) if one.column is None]
        parts += [popularity_groups(items.rows, popularity.short_head(share), place) for place, share in by_share]
    rows = all_groups(parts) if parts else None
    segments = None
    if of_users:
        found = _bands("user", of_users, inputs, columns).rows
        names = {name: column_slice(name).bands[0].column for name in of_users}
        values = [
            F.when(F.col(names[name]) != NO_VALUE, F.col(names[name])).alias(f"segment_{place}")
            for place, name in enumerate(of_users)
        ]
        segments = found.select("user", *values)
    facts = GroupFacts()
    if bands is not None and rows is not None:
        pairs = None
        if "trained_groups" in demand.all and inputs.train is not None:
            whole = inputs.train.where(F.col("user").isNotNull() & F.col("item").isNotNull())
            pairs = tables.materialise(whole.select("user", "item").distinct())
        sizes: dict[str, dict[str, GroupSize]] = {name: {} for name in of_items}
        for row in tables.collect_rows(group_sizes(rows, pairs)):
            column = groupings[row["grouping"]].column
            if column is not None:
                sizes[column][row["group"]] = GroupSize(row["n_items"], row["n_pairs"])
        n_users = 0 if pairs is None else tables.count_distinct(pairs.select("user"))
        trained: dict[tuple[str, str], Sums] = {}
        for metric in demand.metrics:
            of_train = metric.definition.by_pair and "trained_groups" in metric.needs(demand.convention)
            if pairs is not None and segments is not None and of_train:
                sides = columns_by_side(metric, chosen[metric])
                place, grouping = of_users.index(sides["user"]), groupings.index(Grouping(sides["item"]))
                of_column = segments.select("user", F.col(f"segment_{place}").alias("users"))
                in_groups = rows.where(F.col("grouping") == grouping).select("item", "group")
                if (sides["user"], sides["item"]) not in trained:
                    known = tables.collect_rows(trained_sums(pairs, of_column, in_groups))
                    trained[sides["user"], sides["item"]] = {
                        (row["users"], row["group"]): GroupSum(row["n"], row["total"]) for row in known
                    }
        facts = GroupFacts(sizes, tables.count_distinct(bands.rows.select("item")), n_users, trained)
        if pairs is not None:
            tables.release(pairs)
    return KnownGroups(chosen, measured, rows, segments, facts)


def _bands(side: Side, names: Sequence[str], inputs: Inputs, columns: Columns) -> Bands:
    """The values of columns with groups; small jobs see that no id stands there twice, and that values are few."""
    table, id_col = (inputs.segments, columns.user) if side == "user" else (inputs.groups, columns.item)
    slices = parse_slices([column_slice(name) for name in names])
    bands = read_bands(side, table, id_col, inputs.truth.schema[side].dataType, slices, key="groups")
    found = tables.collect_rows(band_counts(bands, slices))
    check_bands(bands, slices, found, lambda: tables.example_values(repeated_ids(bands)), key="groups")
    return bands


def group_means(kept: DataFrame, plan: Plan) -> dict[str, dict[Metric, GroupValue]]:
    """By model, the values of the metrics of groups.

    Args:
        kept: PER_USER with the arrays of sums.
        plan: How it was made.
    """
    groups = plan.groups
    if not groups.measured:
        return {}
    rows = tables.collect_rows(sums_by_group(kept, groups.measured, groups.items))
    sums = sums_of(row.asDict() for row in rows)
    return {
        name: group_values(plan.metrics, plan.convention, groups.columns, sums, groups.facts, code)
        for code, name in enumerate(plan.models)
    }
