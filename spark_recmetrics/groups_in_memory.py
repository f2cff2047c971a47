"""Groups of items and users in memory: the same sums as `known_groups` and `grouped` give on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import GROUP_ARRAYS, TABLE_OF
from spark_recmetrics.descriptions import texts_of
from spark_recmetrics.errors import DataError
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.groups import (
    HEAD,
    TAIL,
    Grouping,
    GroupSize,
    GroupSum,
    Measured,
    Sums,
    columns_by_side,
    group_columns,
)
from spark_recmetrics.metrics.measuring import GroupFacts, all_measured, groupings_of, sums_of, user_columns
from spark_recmetrics.metrics.recommended import Popularity

if TYPE_CHECKING:
    import pandas as pd

    from spark_recmetrics.columns import Columns, Side
    from spark_recmetrics.conventions import Convention


@dataclass(frozen=True)
class GroupsInMemory:
    """What is known of groups before lists are scored.

    Args:
        columns: By metric of groups and option, the column with groups.
        measured: What is added up over lists.
        tables: By the name of the table, its columns: the ids, and `group NAME` for each column with groups.
    """

    columns: Mapping[Metric, Mapping[str, str]]
    measured: tuple[Measured, ...]
    tables: Mapping[str, dict[str, str]]

    @classmethod
    def of(
        cls, metrics: Sequence[Metric], convention: Convention, given: Mapping[Side, pd.DataFrame | None], columns: Columns
    ) -> GroupsInMemory:
        """The groups that metrics name.

        Raises:
            ConfigError: There is no such column, or several where none is named.
        """
        beside = {side: None if table is None else columns.beside(side, map(str, table)) for side, table in given.items()}
        chosen = group_columns(metrics, beside)
        measured = all_measured(metrics, convention, chosen)
        named: Mapping[Side, Iterable[str | None]] = {
            "user": user_columns(measured),
            "item": (one.column for one in groupings_of(measured)),
        }
        tables = {
            TABLE_OF[side]: {side: columns.ids(side), **{f"group {name}": name for name in own if name is not None}}
            for side, own in named.items()
        }
        return cls(chosen, measured, {table: own for table, own in tables.items() if len(own) > 1})

    def items(self, table: pd.DataFrame | None, n_rows: Any, popularity: Popularity | None) -> pd.DataFrame:
        """`grouping, item, group`, by the place of the grouping among those of what is measured.

        Args:
            table: `item`, a number from 0, -1 where it is in no list, truth or training row; and the columns with groups.
            n_rows: By item, its training rows, where these matter.
            popularity: How popular items are.

        Raises:
            DataError: An item stands in the table twice.
        """
        import pandas as pd

        nothing = {"grouping": np.zeros(0, dtype=int), "item": np.zeros(0, dtype=int), "group": np.zeros(0, dtype=object)}
        parts = [pd.DataFrame(nothing)]
        for place, one in enumerate(groupings_of(self.measured)):
            if one.column is None and popularity is not None:
                head = n_rows >= popularity.short_head(one.share)
                parts.append(pd.DataFrame({"item": np.arange(len(n_rows)), "group": np.where(head, HEAD, TAIL)}))
            elif table is not None:
                several = pd.Series([texts_of(own) for own in table[f"group {one.column}"]], index=table.index, dtype=object)
                opened = table[["item"]].assign(group=several).explode("group")
                parts.append(opened[opened["group"].notna()])
            parts[-1] = parts[-1].assign(grouping=place)
        return pd.concat(parts, ignore_index=True)

    def segments(self, table: pd.DataFrame) -> pd.DataFrame:
        """`user`, and `segment_0`, `segment_1`, … for the columns that users are grouped by.

        Args:
            table: `user`, a number, -1 where the user has no list, truth or training row; and the columns with groups.
        """
        own = table.loc[table["user"] >= 0]
        found = own[["user"]].copy()
        for place, name in enumerate(user_columns(self.measured)):
            # Of a user there is one value, or none.
            found[f"segment_{place}"] = [next(iter(texts_of(value)), None) for value in own[f"group {name}"]]
        return found

    def facts(self, items: pd.DataFrame, n_items: int, pairs: pd.DataFrame | None, segments: pd.DataFrame | None) -> GroupFacts:
        """What is known of groups beside lists.

        Args:
            items: Items by `items`.
            n_items: The number of items in the table of groups.
            pairs: `user, item` of training rows, each once; None where nobody needs to know.
            segments: Users by `segments`.
        """
        sizes: dict[str, dict[str, GroupSize]] = {}
        of_items = {} if pairs is None else pairs["item"].value_counts().to_dict()
        for place, one in enumerate(groupings_of(self.measured)):
            if one.column is not None:
                own = items[items["grouping"] == place]
                n_pairs = own["item"].map(of_items).fillna(0).astype(np.int64)
                sizes[one.column] = {
                    str(group): GroupSize(len(rows), int(n_pairs[rows.index].sum())) for group, rows in own.groupby("group")
                }
        trained: dict[tuple[str, str], Sums] = {}
        for metric in self.columns:
            if pairs is not None and segments is not None and metric.definition.by_pair:
                sides = columns_by_side(metric, self.columns[metric])
                place = user_columns(self.measured).index(sides["user"])
                grouping = groupings_of(self.measured).index(Grouping(sides["item"]))
                users = segments.rename(columns={f"segment_{place}": "users"})[["user", "users"]].dropna()
                own = pairs.merge(users, on="user")
                known: dict[tuple[str | None, str | None], GroupSum] = {}
                for user_group, rows in own.groupby("users"):
                    known[str(user_group), None] = GroupSum(rows["user"].nunique(), len(rows))
                both = own.merge(items[items["grouping"] == grouping], on="item")
                for pair in zip(both["users"], both["group"], strict=True):
                    n = known.get(pair, GroupSum(0, 0.0)).n + 1
                    known[pair] = GroupSum(n, n)
                trained[sides["user"], sides["item"]] = known
        return GroupFacts(sizes, n_items, 0 if pairs is None else int(pairs["user"].nunique()), trained)


def check_once(side: Side, table: pd.DataFrame) -> None:
    """Refuse a table in which an id stands twice.

    Raises:
        DataError: There is one.
    """
    more = int(table[side].duplicated().sum())
    if more:
        raise DataError(f"{TABLE_OF[side]}: expected one row for each {side}, found {more} more: decide which row counts")


def sums_in_memory(per_user: pd.DataFrame, measured: Sequence[Measured], items: pd.DataFrame) -> dict[tuple[int, int], Sums]:
    """By model and place among what is measured, the sums of groups.

    Args:
        per_user: PER_USER with the arrays of `metrics.measuring.measure_groups`.
        measured: What is measured.
        items: Items by `GroupsInMemory.items`.
    """
    import pandas as pd

    if not measured or not len(per_user):
        return {}
    names = ("place", "model", "users", "item", "n", "total")
    rows = pd.DataFrame({new: per_user[name].iloc[0] for new, name in zip(names, GROUP_ARRAYS, strict=True)})
    whole = rows[rows["model"] < 0]
    whole = whole.assign(model=-1 - whole["model"], group=None, n_items=0, means=0.0)
    groupings = groupings_of(measured)
    numbers = np.array([-1 if one.items is None else groupings.index(one.items) for one in measured])
    own = rows[rows["model"] >= 0]
    joined = own.assign(grouping=numbers[own["place"]]).merge(items, on=["grouping", "item"])
    joined = joined.assign(n_items=1, means=joined["total"] / joined["n"])
    by_group = joined.groupby(["place", "model", "users", "group"], dropna=False, as_index=False)[
        ["n", "total", "n_items", "means"]
    ].sum()
    by_group["users"] = by_group["users"].astype(object).where(by_group["users"].notna(), None)
    records = [row for part in (whole, by_group) for row in part.to_dict("records")]
    return sums_of({str(name): value for name, value in row.items()} for row in records)
