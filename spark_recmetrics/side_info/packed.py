"""What comes to a bucket of users beside lists and truth: training rows, groups of users, and what is known of items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from spark_recmetrics.columns import ABOUT_ITEM, KIND, KIND_ITEM, KIND_SEGMENT, KIND_TRAIN, KIND_TRUTH
from spark_recmetrics.metrics.arrays import Floats, Ints
from spark_recmetrics.metrics.recommended_items import ItemSummary, ItemTable

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

from spark_recmetrics.metrics.arrays import positions_of


@dataclass(frozen=True)
class SideInfo:
    """What comes beside lists and truth, where it is needed.

    Args:
        train: `user, item` of training rows.
        segments: `user`, and `segment_0`, `segment_1`, …: the groups by each of the columns that users are grouped by, None
            where there is none.
        items: `item` and `ABOUT_ITEM`, each item once; None where rows of lists, truth and training rows have this column
            themselves.
    """

    train: pd.DataFrame | None = None
    segments: pd.DataFrame | None = None
    items: pd.DataFrame | None = None


def split(rows: pd.DataFrame) -> tuple[pd.DataFrame, SideInfo]:
    """Truth, and what came beside it.

    Args:
        rows: Truth; with `KIND`, rows of all kinds together.
    """
    if KIND not in rows:
        return rows, SideInfo()
    kind = rows[KIND].to_numpy()
    truth, train, segments, items = (rows[kind == one] for one in (KIND_TRUTH, KIND_TRAIN, KIND_SEGMENT, KIND_ITEM))
    if len(items):
        # It is null in the other rows.
        truth, train = (part.drop(columns=ABOUT_ITEM) for part in (truth, train))
    return truth, SideInfo(*(part if len(part) else None for part in (train, segments, items)))


@dataclass(frozen=True)
class Trained:
    """The training rows of a bucket, each once, by the numbers of users and items.

    Args:
        user: (T,) users, ascending.
        item: (T,) items, ascending within a user.
        n_items: A number above those of items.
    """

    user: Ints
    item: Ints
    n_items: int

    @classmethod
    def of(cls, user: Ints, item: Ints, n_items: int) -> Trained:
        """Rows in any order, with repeats."""
        key = np.unique(user * n_items + item)
        return cls(key // n_items, key % n_items, n_items)

    @cached_property
    def _key(self) -> Ints:
        return self.user * self.n_items + self.item

    def have(self, user: Ints, item: Ints) -> NDArray[np.bool_]:
        """(L,) whether there is a row of this user and item."""
        return positions_of(user * self.n_items + item, self._key) >= 0


def pack(numbers: Ints, features: Floats, groups: Iterable[Ints]) -> list[bytes]:
    """What is known of items as bytes, whose number is a multiple of 8.

    Arrays would be slow to move: for each row that it sends to Python, Spark looks at all rows of the batch before it.

    Args:
        numbers: (I, 2 + B) training rows of the item, users who have one, and its categories, a bit each.
        features: (I, D) feature vector, NaN where there is none.
        groups: (I,) places in `ItemSummary.groups`.
    """
    fixed = np.concatenate([numbers.astype("<i8"), features.astype("<f8").view("<i8")], axis=1)
    return [row.tobytes() + own.astype("<i8").tobytes() for row, own in zip(fixed, groups, strict=True)]


def read_table(sources: Sequence[tuple[pd.DataFrame, Ints]], size: int, summary: ItemSummary) -> ItemTable:
    """What is known of the items of a bucket.

    Args:
        sources: Frames with `ABOUT_ITEM`, or without, and the number of the item of each row.
        size: How many items there are.
        summary: What is known of all together.
    """
    import pandas as pd

    own = [(code, frame[ABOUT_ITEM]) for frame, code in sources if ABOUT_ITEM in frame and len(frame)]
    numbers = np.zeros((size, 2 + summary.n_blocks), dtype=np.int64)
    features = np.full((size, summary.n_features), np.nan)
    n_groups, groups = np.zeros(size, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if own:
        codes, values = np.concatenate([code for code, _ in own]), pd.concat([values for _, values in own])
        there = values.notna().to_numpy()
        code, first = np.unique(codes[there], return_index=True)
        packed = values.to_numpy()[there][first]
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
