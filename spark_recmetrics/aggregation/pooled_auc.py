"""ROC AUC over the matched pairs of all users, which compares scores of different users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.metrics.arrays import run_starts

if TYPE_CHECKING:
    import pandas as pd


class ScoreRange(NamedTuple):
    """The pairs of a model with scores in a range, up to a cut-off."""

    model: str
    range: int
    cut: int  # the position of the cut-off
    relevant: int
    others: int
    won: float  # comparisons within the range


def pooled_auc(rows: Iterable[Sequence[Any]]) -> dict[tuple[str, int], float]:
    """By model and position of the cut-off, the AUC over all users' pairs, from `comparisons_won`; absent if undefined."""
    ranges: dict[tuple[str, int], list[ScoreRange]] = {}
    for row in sorted(ScoreRange(*row) for row in rows):
        ranges.setdefault((row.model, row.cut), []).append(row)
    values = {}
    for key, in_order in ranges.items():
        below, won = 0, []
        for row in in_order:
            won += [row.won, float(row.relevant * below)]
            below += row.others
        compared = below * sum(row.relevant for row in in_order)
        if compared:
            values[key] = math.fsum(won) / compared
    return values


def comparisons_won(pairs: pd.DataFrame, cuts: Sequence[int | None]) -> pd.DataFrame:
    """Rows of `ScoreRange` for one model and range of scores. The ranks of items that are not relevant are negative."""
    import pandas as pd

    order = np.argsort(pairs["score"].to_numpy(), kind="stable")
    score, rank = pairs["score"].to_numpy()[order], pairs["rank"].to_numpy()[order]
    rows = []
    for cut, k in enumerate(cuts):
        kept = np.abs(rank) <= (np.inf if k is None else k)
        relevant, scores = rank[kept] > 0, score[kept]
        start = run_starts(scores)
        size = np.diff(start, append=len(scores))
        hits = np.add.reduceat(relevant.astype(np.int64), start) if len(scores) else size
        others = size - hits
        won = float((hits * (np.cumsum(others) - others + others / 2)).sum())
        rows.append((pairs["model"].iloc[0], pairs["range"].iloc[0], cut, int(hits.sum()), int(others.sum()), won))
    return pd.DataFrame(rows, columns=ScoreRange._fields)
