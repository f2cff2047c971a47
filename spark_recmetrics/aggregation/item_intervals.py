"""Confidence intervals of item metrics: the contribution of each list to a value, resampled over users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.aggregation.means import resampled_ends
from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.item_counts import ItemCounts, list_shares
from spark_recmetrics.request.intervals import Intervals
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.stats.resample import bootstrap_sums, poisson_weights

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_USERS_AT_ONCE = 4096
"""How many users are resampled at once. Their weights take one byte for each replicate."""


@dataclass(frozen=True)
class Shared:
    """The item metrics with resampled confidence intervals."""

    metrics: tuple[Metric, ...]
    convention: Convention
    counts: Mapping[tuple[int, int], ItemCounts]  # by model and index of the `CountSpec`, how often items are in all lists
    n_models: int
    intervals: Intervals

    @classmethod
    def of(cls, scoring: Scoring | None, counts: Mapping[tuple[int, int], ItemCounts], intervals: Intervals) -> Shared | None:
        """None if there are no such metrics, or nothing is resampled."""
        if scoring is None or not scoring.stores_lists or not counts:
            return None
        metrics = tuple(metric for metric in scoring.item_metrics if metric.definition.left_out is not None)
        return cls(metrics, scoring.convention, counts, scoring.n_models, intervals) if metrics else None

    def by_metric(self, rows: Iterable[Sequence[Any]]) -> dict[tuple[int, Metric], tuple[float, float]]:
        """By index of the model, and metric: the confidence limits as distances from the value, from rows of `share_ends`."""
        n = len(self.metrics)
        return {(place // n, self.metrics[place % n]): (low, high) for place, low, high in rows}


def part_shares(batches: Iterator[pa.RecordBatch], shared: Shared) -> Iterator[pa.RecordBatch]:
    """One batch of `table_schemas.PART_SHARES` for some rows of `listed_items`. A place is model * metrics + metric."""
    import pyarrow as pa

    n_columns, n = shared.n_models * len(shared.metrics), shared.intervals.n_resamples
    sums, counts = np.zeros((n, n_columns)), np.zeros((n, n_columns), dtype=np.int64)
    totals, n_lists = np.zeros(n_columns), np.zeros(n_columns, dtype=np.int64)
    for batch in batches:
        for start in range(0, batch.num_rows, _USERS_AT_ONCE):
            users = batch.slice(start, _USERS_AT_ONCE)
            shares = list_shares(
                *_entries(users.column("rows")), shared.metrics, shared.convention, shared.counts, shared.n_models
            )
            hashes = users.column("user_hash").to_numpy().view(np.uint64)
            drawn, weights = bootstrap_sums(shares, poisson_weights(hashes, n, shared.intervals.seed))
            sums, counts = sums + drawn, counts + weights
            totals, n_lists = totals + np.nansum(shares, axis=0), n_lists + np.sum(~np.isnan(shares), axis=0)
    present = np.flatnonzero(n_lists)
    columns = {
        "place": pa.array(present, pa.int32()),
        "sums": pa.array(list(sums.T[present]), pa.list_(pa.float64())),
        "counts": pa.array(list(counts.T[present]), pa.list_(pa.int64())),
        "total": pa.array(totals[present], pa.float64()),
        "n": pa.array(n_lists[present], pa.int64()),
    }
    yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _entries(rows: Any) -> tuple[dict[str, Any], int]:
    """The columns of an array of arrays of structs, with the index of the user of each entry; and the number of users."""
    user = np.repeat(np.arange(len(rows)), rows.value_lengths().to_numpy())
    entries = rows.flatten()
    names = [field.name for field in entries.type]
    return {"user": user, **{name: entries.field(name).to_numpy(zero_copy_only=False) for name in names}}, len(rows)


def share_ends(parts: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """From rows of `part_shares` of one place: the confidence limits as distances from the value, in a row or none."""
    import pandas as pd

    sums, counts = (np.sum(np.stack(list(parts[name])), axis=0) for name in ("sums", "counts"))
    ends = resampled_ends(sums, counts, float(parts["total"].sum()), int(parts["n"].sum()), confidence)
    return pd.DataFrame([] if ends is None else [(parts["place"].iloc[0], *ends)], columns=["place", "low", "high"])
