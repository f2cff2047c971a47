"""Rows of lists as numbers, and the rank of each: by score, in a total order. No Spark is needed here."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.metrics.arrays import Floats, Ints, position_in_user, tie_edges
from spark_recmetrics.request.scoring import Scoring

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from typing_extensions import Self


@dataclass(frozen=True)
class Ranks:
    """Rows of a frame of lists, by list and rank where they were ranked here.

    Args:
        row: (L,) the place of the row in its frame.
        rank: (L,) rank from 1.
        before_tie: (L,) whether the row behind has the same score.
        after_tie: (L,) whether the row before has the same score.
    """

    row: Ints
    rank: Ints
    before_tie: NDArray[np.bool_]
    after_tie: NDArray[np.bool_]

    @classmethod
    def given(cls, frame: pd.DataFrame) -> Ranks:
        """The rows of a frame with ranks, and with `before_tie` where they come from a score."""
        nothing = np.zeros(len(frame), dtype=bool)
        before = frame["before_tie"].to_numpy(dtype=bool) if "before_tie" in frame else nothing
        return cls(np.arange(len(frame)), frame["rank"].to_numpy(np.int64), before, nothing)

    def kept(self, which: Any) -> Self:
        """The rows that a mask or an index names."""
        return replace(self, **{column.name: getattr(self, column.name)[which] for column in fields(self)})

    @cached_property
    def ties(self) -> tuple[Ints, Ints]:
        """The places of the first and of the last row of equal score, for each row of whole lists."""
        return tie_edges(self.after_tie, self.before_tie)


@dataclass(frozen=True)
class ListRows(Ranks):
    """The same, with what is known of each row.

    Args:
        cell: (L,) model and user, as a number.
        item: (L,) the number of the item.
        truth: (L,) the place of its truth row, -1 where there is none.
        score: (L,) score; NaN where it is missing.
        seen: (L,) whether the user has a training row of the item, where somebody asks.
    """

    cell: Ints
    item: Ints
    truth: Ints
    score: Floats
    seen: NDArray[np.bool_]

    @classmethod
    def of(cls, ranks: Ranks, **known: Any) -> ListRows:
        """The rows with these ranks, and what is known of each, in their order."""
        return cls(**{column.name: getattr(ranks, column.name) for column in fields(ranks)}, **known)

    @cached_property
    def unseen_place(self) -> Ints:
        """(L,) how many rows of the list up to this one the user has not seen in training."""
        so_far = np.cumsum(~self.seen)
        start = np.flatnonzero(np.append(True, ~_equal(self.cell))[: len(self.cell)])
        found: Ints = so_far - np.repeat(np.append(0, so_far)[start], np.diff(np.append(start, len(self.cell))))
        return found


def rank_rows(
    frame: pd.DataFrame, cell: Ints, item: Ints, judged: NDArray[np.bool_] | None, items: Any, scoring: Scoring
) -> Ranks:
    """The rows of whole lists in order, as a window of Spark would rank them.

    Args:
        frame: Rows in any order with `rank` and/or `score`, which is null or NaN where it is missing, and `place` where equal
            scores stay in the order of the rows.
        cell: (L,) model and user, as a number.
        item: (L,) the number of the item.
        judged: (L,) whether the row has a truth row, where only those with one compete. They come before all others.
        items: The ids of items by number.
        scoring: The convention, and whether ranks are given.

    Returns:
        The rows by cell and rank. If the convention has repeats out, the first row of each item is there.
    """
    convention, by_rank = scoring.convention, "rank" in frame
    group = cell if judged is None else cell * 2 + ~judged
    value = frame["rank"].to_numpy(np.int64) if by_rank else _descending(frame["score"], convention.nan_scores)
    order = np.argsort(value)
    order = order[_stable(group[order])]
    same = _equal(group[order]) & _equal(value[order])
    if same.any():
        # Only rows of equal value are compared by their items.
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = order[tied]
        run = np.cumsum(np.append(True, ~same))[tied]
        order[tied] = rows[np.lexsort((_tie(frame, item, items, convention.ties)(rows), run))]
    if convention.duplicates == "first":
        key = (cell * max(len(items), 1) + item)[order]
        first = np.sort(np.unique(key, return_index=True)[1])
        order = order[first]
        same = _equal(group[order]) & _equal(value[order])
    cell, size = cell[order], len(order)
    rank = value[order] if scoring.given_ranks else position_in_user(cell, int(cell.max(initial=-1)) + 1)
    # Ranks that were given leave no ties.
    equal = same & (not by_rank)
    return Ranks(order, rank, np.append(equal, False)[:size], np.append(False, equal)[:size])


def scores_of(frame: pd.DataFrame) -> Floats:
    """(L,) the scores of rows as doubles; NaN where they are missing."""
    return frame["score"].to_numpy(np.float64) if "score" in frame else np.full(len(frame), np.nan)


def _descending(score: pd.Series[Any], missing: str) -> Any:
    """(L,) numbers that ascend where scores descend; missing scores are behind all others, or before them for `first`."""
    there = score.notna().to_numpy()
    if score.dtype.kind == "f" and there.all():
        return -score.to_numpy()
    # Close whole or decimal scores would be ties as doubles, so their places among all scores are compared.
    found = np.full(len(score), -1 if missing == "first" else len(score), dtype=np.int64)
    known, place = np.unique(score[there].to_numpy(), return_inverse=True)
    found[there] = len(known) - 1 - place
    return found


def _stable(group: Ints) -> Ints:
    """The order of ascending groups, that of the rows within a group."""
    # numpy sorts small numbers by radix, in a tenth of the time.
    small = group.max(initial=0) < 2**16
    return np.argsort(group.astype(np.uint16) if small else group, kind="stable")


def _equal(values: Any) -> NDArray[np.bool_]:
    """(L - 1,) whether a value is the same as the one before it."""
    found: NDArray[np.bool_] = values[1:] == values[:-1]
    return found


def _tie(frame: pd.DataFrame, item: Ints, items: Any, ties: str) -> Any:
    """From places of rows to numbers that tell their order among equal scores."""
    if "place" in frame:
        place = frame["place"].to_numpy(np.int64)
        return lambda rows: place[rows]
    of_item = np.empty(len(items), dtype=np.int64)
    of_item[np.argsort(items, kind="stable")] = np.arange(len(items))
    return lambda rows: of_item[item[rows]] * (-1 if ties == "item_desc" else 1)
