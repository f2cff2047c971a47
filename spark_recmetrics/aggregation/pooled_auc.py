"""ROC AUC over the matched pairs of all users, which compares scores of different users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def pooled_auc(ranges: Iterable[Sequence[Any]], cut: int) -> dict[str, float]:
    """By model, the probability that a relevant pair has a higher score than a non-relevant one; none if one kind is missing.

    It is computed from rows of `comparisons_won`, for the cut-off at the position `cut`.
    """
    by_model: dict[str, list[tuple[int, int, float]]] = {}
    for model, _, place, relevant, others, won in sorted(ranges, key=lambda row: (row[0], row[1])):
        if place == cut:
            by_model.setdefault(model, []).append((relevant, others, won))
    values = {}
    for model, of_model in by_model.items():
        below, won = 0, []
        for relevant, others, within in of_model:
            won += [within, float(relevant * below)]
            below += others
        compared = below * sum(relevant for relevant, _, _ in of_model)
        if compared:
            values[model] = math.fsum(won) / compared
    return values


def comparisons_won(pairs: pd.DataFrame, cuts: Sequence[int | None]) -> pd.DataFrame:
    """For one model and range of scores: the relevant and the other pairs by cut-off, and the comparisons that are won.

    The pairs are `model, range, score, rank`. The rank is negative if the item is not relevant.
    """
    import pandas as pd

    order = np.argsort(pairs["score"].to_numpy(), kind="stable")
    score, rank = pairs["score"].to_numpy()[order], pairs["rank"].to_numpy()[order]
    rows = []
    for cut, k in enumerate(cuts):
        kept = np.abs(rank) <= (np.inf if k is None else k)
        relevant, scores = rank[kept] > 0, score[kept]
        start = np.flatnonzero(np.append(True, scores[1:] != scores[:-1])[: len(scores)])
        size = np.diff(start, append=len(scores))
        hits = np.add.reduceat(relevant.astype(np.int64), start) if len(scores) else size
        others = size - hits
        won = float((hits * (np.cumsum(others) - others + others / 2)).sum())
        rows.append((pairs["model"].iloc[0], pairs["range"].iloc[0], cut, int(hits.sum()), int(others.sum()), won))
    return pd.DataFrame(rows, columns=["model", "range", "cut", "relevant", "others", "won"])
