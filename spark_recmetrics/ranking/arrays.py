"""Rank the rows of lists in numpy, in the same total order as the window function of Spark."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spark_recmetrics.metrics.arrays import Floats, Ints, RankedRows, position_in_user, run_starts, tie_edges
from spark_recmetrics.request.scoring import Scoring

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Ranks(RankedRows):
    """(L,) the ranked rows of a frame of lists. `rank_rows` sorts them by list and rank."""

    row: Ints  # the position in the frame
    rank: Ints  # from 1
    before_tie: NDArray[np.bool_]  # whether the next row has the same score
    after_tie: NDArray[np.bool_]  # whether the previous row has the same score

    @classmethod
    def given(cls, frame: pd.DataFrame) -> Ranks:
        """The rows of a frame with ranks, and `before_tie` if the ranks come from a score."""
        no_tie = np.zeros(len(frame), dtype=bool)
        before = frame["before_tie"].to_numpy(dtype=bool) if "before_tie" in frame else no_tie
        return cls(np.arange(len(frame)), frame["rank"].to_numpy(np.int64), before, no_tie)

    @cached_property
    def ties(self) -> tuple[Ints, Ints]:
        """For each row of full lists, the positions of the first and the last row with the same score."""
        return tie_edges(self.after_tie, self.before_tie)


@dataclass(frozen=True)
class ListRows(Ranks):
    """(L,) ranked rows with their items, ground truth and scores."""

    cell: Ints  # the number of the model and user
    item: Ints  # the number of the item
    truth_row: Ints  # the position of the pair in the ground truth, -1 if it is not there
    score: Floats  # NaN if it is missing
    seen: NDArray[np.bool_]  # whether the user has a training row of the item; False if no metric needs it

    @classmethod
    def of(cls, ranks: Ranks, **columns: Any) -> ListRows:
        """The ranked rows with further columns in the same order."""
        return cls(**{column.name: getattr(ranks, column.name) for column in fields(ranks)}, **columns)

    @cached_property
    def unseen_position(self) -> Ints:
        """(L,) the number of rows of the list, up to this row, that the user has not seen in training."""
        n_unseen = np.cumsum(~self.seen)
        start = run_starts(self.cell)
        before: Ints = np.repeat(np.append(0, n_unseen)[start], np.diff(np.append(start, len(self.cell))))
        return n_unseen - before


def rank_rows(
    frame: pd.DataFrame, cell: Ints, item: Ints, judged: NDArray[np.bool_] | None, items: Any, scoring: Scoring
) -> Ranks:
    """The rows of full lists by cell and rank. If the convention drops repeats, only the first row of each item."""
    # The frame has `rank`, `score` (null or NaN if it is missing), or both. (L,) `judged`: whether rows have ground truth, if
    # only such rows compete; these come before all others. `items` are the item ids by number.
    convention, by_rank = scoring.convention, "rank" in frame
    group = cell if judged is None else cell * 2 + ~judged
    value = frame["rank"].to_numpy(np.int64) if by_rank else _descending(frame["score"], convention.nan_scores)
    # numpy sorts 16-bit integers by radix, in a tenth of the time.
    group = group.astype(np.uint16) if group.max(initial=0) < 2**16 else group
    order = np.argsort(value)
    order = order[np.argsort(group[order], kind="stable")]
    tied = _same_as_previous(group[order]) & _same_as_previous(value[order])
    if tied.any():
        # Only tied rows are compared by their items.
        positions = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
        rows = order[positions]
        tie = np.cumsum(np.append(True, ~tied))[positions]
        order[positions] = rows[np.lexsort((_item_order(items, convention.ties)[item[rows]], tie))]
    if convention.duplicates == "first":
        pair = (cell * max(len(items), 1) + item)[order]
        first = np.sort(np.unique(pair, return_index=True)[1])
        order = order[first]
        tied = _same_as_previous(group[order]) & _same_as_previous(value[order])
    cell, size = cell[order], len(order)
    rank = value[order] if scoring.given_ranks else position_in_user(cell, int(cell.max(initial=-1)) + 1)
    tied = tied & (not by_rank)  # given ranks have no ties
    return Ranks(order, rank, np.append(tied, False)[:size], np.append(False, tied)[:size])


def _descending(score: pd.Series[Any], missing: str) -> Any:
    """(L,) numbers in ascending order of descending scores. Missing scores are last, or first if `missing` is `first`."""
    present = score.notna().to_numpy()
    if score.dtype.kind == "f" and present.all():
        return -score.to_numpy()
    # Close integers or decimals would be ties as doubles. Their ranks among all scores replace them.
    value = np.full(len(score), -1 if missing == "first" else len(score), dtype=np.int64)
    different, rank = np.unique(score[present].to_numpy(), return_inverse=True)
    value[present] = len(different) - 1 - rank
    return value


def _same_as_previous(values: Any) -> NDArray[np.bool_]:
    """(L - 1,) whether a value equals the value before it."""
    same: NDArray[np.bool_] = values[1:] == values[:-1]
    return same


def _item_order(items: Any, ties: str) -> Ints:
    """(I,) by item number, its position in the order that breaks ties."""
    order = np.empty(len(items), dtype=np.int64)
    order[np.argsort(items, kind="stable")] = np.arange(len(items))
    return -order if ties == "item_desc" else order
