"""Groups of items and users in memory: the same sums as `known_groups` and `grouped` give on Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import TABLE_OF
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.group_sums import (
    GroupSizes,
    MeasureSpec,
    group_columns,
    groupings_of,
    measure_specs,
    user_columns,
)
from spark_recmetrics.side_info.descriptions import groups_in

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
    measured: tuple[MeasureSpec, ...]
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
        measured = measure_specs(metrics, convention, chosen)
        named: Mapping[Side, Iterable[str | None]] = {
            "user": user_columns(measured),
            "item": (one.column for one in groupings_of(measured)),
        }
        tables = {
            TABLE_OF[side]: {side: columns.ids(side), **{f"group {name}": name for name in own if name is not None}}
            for side, own in named.items()
        }
        return cls(chosen, measured, {table: own for table, own in tables.items() if len(own) > 1})

    def items(self, table: pd.DataFrame | None, size: int) -> tuple[list[Any] | None, tuple[tuple[str, str], ...], GroupSizes]:
        """The groups of each of so many items, as places among names; these, by column and name; and how large groups are.

        Args:
            table: `item`, a number from 0, -1 where it is in no list, truth or training row; and the columns with groups.
            size: How many items there are.

        Raises:
            DataError: A column holds what cannot be groups, or too many of them.
        """
        if table is None:
            return None, (), GroupSizes()
        of_columns = {
            column: groups_in("item", column, table[f"group {column}"])
            for column in dict.fromkeys(one.column for one in groupings_of(self.measured) if one.column is not None)
        }
        sizes = {column: dict(sorted(Counter(chain.from_iterable(own)).items())) for column, own in of_columns.items()}
        place = {pair: number for number, pair in enumerate((column, name) for column, own in sizes.items() for name in own)}
        found: list[Any] = [np.zeros(0, dtype=np.int64)] * (size + 1)  # one more takes what is nowhere else
        for row, item in enumerate(table["item"]):
            found[item] = np.array(
                [place[column, name] for column, own in of_columns.items() for name in sorted(own[row])], int
            )
        return found[:-1], tuple(place), GroupSizes(sizes, len(table))

    def segments(self, table: pd.DataFrame) -> pd.DataFrame:
        """`user`, and `segment_0`, `segment_1`, … for the columns that users are grouped by.

        Args:
            table: `user`, a number, -1 where the user has no list, truth or training row; and the columns with groups.

        Raises:
            DataError: A column holds what cannot be groups, or too many of them.
        """
        found = table[["user"]].copy()
        for place, name in enumerate(user_columns(self.measured)):
            # Of a user there is one value, or none.
            found[f"segment_{place}"] = [next(iter(own), None) for own in groups_in("user", name, table[f"group {name}"])]
        return found.loc[found["user"] >= 0]
