"""Side information as workers get it: the rows of users, and the properties of items packed into bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spark_recmetrics.columns import ABOUT_ITEM, KIND, KIND_ITEM, KIND_SEGMENT, KIND_TRAIN, KIND_TRUTH
from spark_recmetrics.metrics.arrays import Floats, Ints, positions_of
from spark_recmetrics.metrics.recommended_items import ItemSummary, ItemTable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SideRows:
    """The side information of users. Tables that no metric needs are None."""

    train: pd.DataFrame | None = None  # `user, item` of training rows
    segments: pd.DataFrame | None = None  # `user`, and `segment_0`, …: the user's group, or None, by each column with groups
    # `item` and `ABOUT_ITEM`, each item once; None if lists, ground truth and training rows have the column `ABOUT_ITEM`
    items: pd.DataFrame | None = None
    members: pd.DataFrame | None = None  # the rows of `columns.KIND_MEMBER`


def split(rows: pd.DataFrame) -> tuple[pd.DataFrame, SideRows]:
    """Ground truth and side information, from the rows of all kinds, or from ground truth alone."""
    if KIND not in rows:
        return rows, SideRows()
    row_kind = rows[KIND].to_numpy()
    truth, train, segments, items = (rows[row_kind == kind] for kind in (KIND_TRUTH, KIND_TRAIN, KIND_SEGMENT, KIND_ITEM))
    if len(items):
        # The column is null in the other rows.
        truth, train = (part.drop(columns=ABOUT_ITEM) for part in (truth, train))
    return truth, SideRows(*(part if len(part) else None for part in (train, segments, items)))


@dataclass(frozen=True)
class Trained:
    """The distinct training rows of a bucket, with numbers for users and items."""

    user: Ints  # (T,) ascending
    item: Ints  # (T,) ascending within a user
    n_items: int  # above the numbers of all items

    @classmethod
    def of(cls, user: Ints, item: Ints, n_items: int) -> Trained:
        """From rows in any order, with repeats."""
        pair = np.unique(user * n_items + item)
        return cls(pair // n_items, pair % n_items, n_items)

    @cached_property
    def _pair(self) -> Ints:
        return self.user * self.n_items + self.item

    def have(self, user: Ints, item: Ints) -> NDArray[np.bool_]:
        """(L,) whether there is a training row of this user and item."""
        return positions_of(user * self.n_items + item, self._pair) >= 0


def pack(numbers: Ints, features: Floats, groups: Iterable[Ints]) -> list[bytes]:
    """The properties of each item as bytes, a multiple of 8."""
    # Not as arrays: to send one to Python, Spark reads all earlier rows of the batch.
    # `numbers`: (I, 2 + B) training rows of the item, users who have one, and its categories, one bit each.
    # `features`: (I, D), NaN without any. `groups`: (I,) arrays of indexes into `ItemSummary.groups`.
    fixed = np.concatenate([numbers.astype("<i8"), features.astype("<f8").view("<i8")], axis=1)
    return [row.tobytes() + of_item.astype("<i8").tobytes() for row, of_item in zip(fixed, groups, strict=True)]


def read_table(sources: Sequence[tuple[pd.DataFrame, Ints]], size: int, summary: ItemSummary) -> ItemTable:
    """The properties of `size` items, from frames with or without `ABOUT_ITEM` and the number of the item of each row."""
    import pandas as pd

    filled = [(code, frame[ABOUT_ITEM]) for frame, code in sources if ABOUT_ITEM in frame and len(frame)]
    numbers = np.zeros((size, 2 + summary.n_blocks), dtype=np.int64)
    features = np.full((size, summary.n_features), np.nan)
    n_groups, groups = np.zeros(size, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if filled:
        codes, values = np.concatenate([code for code, _ in filled]), pd.concat([values for _, values in filled])
        present = values.notna().to_numpy()
        code, first = np.unique(codes[present], return_index=True)
        packed = values.to_numpy()[present][first]
        length = np.fromiter(map(len, packed), dtype=np.int64, count=len(packed)) // 8
        flat, start = np.frombuffer(b"".join(packed), dtype="<i8"), np.cumsum(length) - length
        middle, end = numbers.shape[1], numbers.shape[1] + features.shape[1]
        numbers[code] = flat[start[:, None] + np.arange(middle)]
        features[code] = flat[start[:, None] + np.arange(middle, end)].view("<f8")
        n_groups[code] = length - end
        groups = flat[np.arange(len(flat)) - np.repeat(start, length) >= end].astype(np.int64)
    return ItemTable(
        n_rows=numbers[:, 0],
        n_users=numbers[:, 1],
        features=features,
        categories=np.ascontiguousarray(numbers[:, 2:]),
        group_starts=np.concatenate([[0], np.cumsum(n_groups)]),
        groups=groups,
    )
