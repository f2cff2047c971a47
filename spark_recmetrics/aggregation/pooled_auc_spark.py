"""ROC AUC over the matched pairs of all users: scores of different users compared with one another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.columns import PAIR_RANKS, PAIR_SCORES

if TYPE_CHECKING:
    import pandas as pd


_SCHEMA = "model string, range int, cut int, relevant bigint, others bigint, won double"


def won_in_ranges(per_user: DataFrame, cuts: Sequence[int | None], edges: Mapping[str, Sequence[float]]) -> DataFrame:
    """Within ranges of scores: relevant pairs, others, and how many comparisons of the two the relevant ones win.

    Args:
        per_user: `model`, and arrays of pairs: PAIR_SCORES, and PAIR_RANKS, negative where an item is not relevant.
        cuts: Cut-offs of the ranks, None for whole lists.
        edges: By model, where its ranges end, as `means.combined` has them. They change nothing but the work that a task has.

    Returns:
        One row per model, range and place of a cut-off; `range` ascends with the scores, and a tie is half a win.
    """
    place = F.lit(0)
    for model, ends in edges.items():
        place = F.when(F.col("model") == model, _range(ends, 0)).otherwise(place)

    def of_range(pairs: pd.DataFrame) -> pd.DataFrame:
        return _won(pairs, cuts)

    return _pairs(per_user).withColumn("range", place).groupBy("model", "range").applyInPandas(of_range, _SCHEMA)


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


def _won(pairs: pd.DataFrame, cuts: Sequence[int | None]) -> pd.DataFrame:
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


def _pairs(per_user: DataFrame) -> DataFrame:
    return per_user.select("model", F.inline(F.arrays_zip(PAIR_SCORES, PAIR_RANKS))).toDF("model", "score", "rank")


def _range(ends: Sequence[float], first: int) -> Column:
    """The number of the range that a score falls into, found by halving."""
    if not ends:
        return F.lit(first)
    half = len(ends) // 2
    lower, upper = _range(ends[:half], first), _range(ends[half + 1 :], first + half + 1)
    return F.when(F.col("score") <= ends[half], lower).otherwise(upper)
