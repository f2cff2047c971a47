"""What is known of items, in memory: the same columns as `known_items` and `catalog` give on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import ITEM_COUNTS, ITEM_GROUPS, ITEM_MODELS, ITEM_WEIGHTS
from spark_recmetrics.metrics.item_counts import ItemCounts, check_counts, counts_of, item_columns

if TYPE_CHECKING:
    import pandas as pd


from typing import TYPE_CHECKING

from spark_recmetrics.columns import GROUP_ARRAYS, ITEM_IDS, ITEM_ROWS, ITEM_TOTALS
from spark_recmetrics.metrics.group_sums import MeasureSpec, SumsByGroup, per_item_indexes, sums_from_rows

if TYPE_CHECKING:
    import pandas as pd


def counts_in_memory(per_user: pd.DataFrame, n_counted: int, n_items: int | None) -> dict[tuple[int, int], ItemCounts]:
    """By model and place among what is counted, how often items stand in the lists.

    Args:
        per_user: PER_USER with the arrays of `metrics.item_counts.count_items`.
        n_counted: How many things are counted.
        n_items: Size of the catalogue, where it is known.

    Raises:
        DataError: Lists have more items than the catalogue.
    """
    if not n_counted or not len(per_user):
        return {}
    arrays = {name: per_user[name].iloc[0] for name in item_columns(n_counted)}
    rows = []
    for place in range(n_counted):
        count, weight = arrays[f"{ITEM_COUNTS}{place}"], arrays[f"{ITEM_WEIGHTS}{place}"]
        for model in np.unique(arrays[ITEM_MODELS]):
            own = (arrays[ITEM_MODELS] == model) & (count > 0)
            for value in np.unique(count[own]):
                same = own & (count == value)
                known = {"model": int(model), "place": place, "count": int(value), "known": True}
                rows.append({**known, "n": int(same.sum()), "together": float((weight[same] ** 2).sum())})
    counts = counts_of(rows, n_items)
    check_counts(counts)
    return counts


def sums_in_memory(
    per_user: pd.DataFrame, measured: Sequence[MeasureSpec], known: pd.DataFrame | None, names: Sequence[tuple[str, str]]
) -> dict[tuple[int, int], SumsByGroup]:
    """By model and place among what is measured, the sums of groups.

    Args:
        per_user: PER_USER with the arrays of `metrics.group_sums.measure_groups` and `metrics.item_counts.count_items`.
        measured: What is measured.
        known: Items by `known_in_memory.known_items`.
        names: The groups of items, by column and name.
    """
    import pandas as pd

    if not measured or not len(per_user):
        return {}
    arrays = per_user.iloc[0]
    keys = ("place", "model", "users", "group", "n", "total")
    records: list[dict[Any, Any]] = [
        {**dict(zip(keys, row, strict=True)), "n_items": 0, "means": 0.0}
        for row in zip(*(arrays[name].tolist() for name in GROUP_ARRAYS), strict=True)
    ]
    for number, place in enumerate(per_item_indexes(measured)):
        if known is None:
            continue
        n, total = (arrays[f"{name}{number}"] for name in (ITEM_ROWS, ITEM_TOTALS))
        shown = pd.DataFrame({"item": arrays[ITEM_IDS], "model": arrays[ITEM_MODELS], "n": n, "total": total})
        shown = shown[(shown["n"] > 0) & (shown["model"] >= 0)]
        opened = shown.merge(known[["item", ITEM_GROUPS]], on="item").explode(ITEM_GROUPS).dropna(subset=[ITEM_GROUPS])
        grouping = measured[place].items
        own = [code for code, (column, _) in enumerate(names) if grouping is not None and column == grouping.column]
        opened = opened[opened[ITEM_GROUPS].isin(own)].assign(n_items=1)
        opened = opened.assign(means=opened["total"] / opened["n"], group=opened[ITEM_GROUPS].astype(int))
        summed = opened.groupby(["model", "group"], as_index=False)[["n", "total", "n_items", "means"]].sum()
        records += summed.assign(place=place, users=None).to_dict("records")
    return sums_from_rows(({str(name): value for name, value in row.items()} for row in records), measured, names)
