"""ROC AUC over the matched pairs of all users: scores of different users compared with one another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def pooled_auc(ranges: Iterable[Sequence[Any]], cut: int) -> dict[str, float]:
    """By model, how often a relevant pair has a higher score than one that is not; none if all are relevant or none is.

    Args:
        ranges: Rows of `won_in_ranges`.
        cut: Place of the cut-off.

    Example:
        Two relevant pairs and one other below, where one of two comparisons is won; above them one that is relevant:

        >>> pooled_auc([("als", 1, 0, 1, 0, 0.0), ("als", 0, 0, 2, 1, 1.0), ("pop", 0, 0, 3, 0, 0.0)], 0)
        {'als': 0.6666666666666666}
    """
    by_model: dict[str, list[tuple[int, int, float]]] = {}
    for model, _, place, relevant, others, won in sorted(ranges, key=lambda row: (row[0], row[1])):
        if place == cut:
            by_model.setdefault(model, []).append((relevant, others, won))
    found = {}
    for model, own in by_model.items():
        below, won = 0, []
        for relevant, others, within in own:
            won += [within, float(relevant * below)]
            below += others
        compared = below * sum(relevant for relevant, _, _ in own)
        if compared:
            found[model] = math.fsum(won) / compared
    return found


def comparisons_won(pairs: pd.DataFrame, cuts: Sequence[int | None]) -> pd.DataFrame:
    """The counts of `pooled_auc` for one model and range of scores.

    Args:
        pairs: `model, range, score, rank`, the rank negative where the item is not relevant.
        cuts: Cut-offs of the ranks, None for full lists.
    """
    import pandas as pd

    order = np.argsort(pairs["score"].to_numpy(), kind="stable")
    score, rank = pairs["score"].to_numpy()[order], pairs["rank"].to_numpy()[order]
    rows = []
    for cut, k in enumerate(cuts):
        kept = np.abs(rank) <= (np.inf if k is None else k)
        relevant, own = rank[kept] > 0, score[kept]
        start = np.flatnonzero(np.append(True, own[1:] != own[:-1])[: len(own)])
        size = np.diff(start, append=len(own))
        hits = np.add.reduceat(relevant.astype(np.int64), start) if len(own) else size
        others = size - hits
        won = float((hits * (np.cumsum(others) - others + others / 2)).sum())
        rows.append((pairs["model"].iloc[0], pairs["range"].iloc[0], cut, int(hits.sum()), int(others.sum()), won))
    return pd.DataFrame(rows, columns=["model", "range", "cut", "relevant", "others", "won"])
