"""Confidence intervals of metrics of items: what each list adds to a value, over users drawn anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.aggregation.means import resampled_ends
from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.item_counts import ItemCounts, list_shares
from spark_recmetrics.request.intervals import Intervals
from spark_recmetrics.stats.resample import bootstrap_sums, poisson_weights

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from spark_recmetrics.request.scoring import Scoring

SHARE_COLUMNS = ["place", "sums", "counts", "total", "n"]
END_COLUMNS = ["place", "low", "high"]

USERS_AT_ONCE = 4096
"""How many users are resampled at once: their weights are a byte for each replicate."""


@dataclass(frozen=True)
class Shared:
    """What is to be known of the lists of users.

    Args:
        metrics: Metrics of items.
        convention: Their options.
        counts: By model and place among what is counted, how often items stand in all lists.
        n_models: The number of models.
        intervals: How intervals are computed.
    """

    metrics: tuple[Metric, ...]
    convention: Convention
    counts: Mapping[tuple[int, int], ItemCounts]
    n_models: int
    intervals: Intervals

    @classmethod
    def of(cls, scoring: Scoring | None, counts: Mapping[tuple[int, int], ItemCounts], intervals: Intervals) -> Shared | None:
        """The metrics of items that have resampled intervals; None where there is none."""
        if scoring is None or not scoring.keeps_lists or not counts:
            return None
        metrics = tuple(metric for metric in scoring.item_metrics if metric.definition.left_out is not None)
        return cls(metrics, scoring.convention, counts, scoring.n_models, intervals) if metrics else None


def part_shares(batches: Iterator[pa.RecordBatch], shared: Shared) -> Iterator[pa.RecordBatch]:
    """What some lists add to the values: in every replicate the weighted sum, and the weights that it is over.

    Args:
        batches: Rows of `listed_items`.
        shared: What is to be known.

    Yields:
        `schema.PART_SHARES`, once for all batches.
    """
    import pyarrow as pa

    n_columns, n = shared.n_models * len(shared.metrics), shared.intervals.n_resamples
    sums, counts = np.zeros((n, n_columns)), np.zeros((n, n_columns), dtype=np.int64)
    totals, n_lists = np.zeros(n_columns), np.zeros(n_columns, dtype=np.int64)
    for batch in batches:
        for start in range(0, batch.num_rows, USERS_AT_ONCE):
            some = batch.slice(start, USERS_AT_ONCE)
            shares = list_shares(
                *_entries(some.column("rows")), shared.metrics, shared.convention, shared.counts, shared.n_models
            )
            hashes = some.column("user_hash").to_numpy().view(np.uint64)
            found = bootstrap_sums(shares, poisson_weights(hashes, n, shared.intervals.seed))
            sums, counts = sums + found[0], counts + found[1]
            totals, n_lists = totals + np.nansum(shares, axis=0), n_lists + np.sum(~np.isnan(shares), axis=0)
    some_lists = np.flatnonzero(n_lists)
    columns = [some_lists.astype(np.int32), list(sums.T[some_lists]), list(counts.T[some_lists])]
    columns += [totals[some_lists], n_lists[some_lists]]
    kinds = [pa.int32(), pa.list_(pa.float64()), pa.list_(pa.int64()), pa.float64(), pa.int64()]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, names=SHARE_COLUMNS)


def _entries(rows: Any) -> tuple[dict[str, Any], int]:
    """The columns of an array of arrays of structs, with the number of the user of each entry, and how many users there are."""
    user = np.repeat(np.arange(len(rows)), rows.value_lengths().to_numpy())
    flat = rows.flatten()
    names = [field.name for field in flat.type]
    return {"user": user, **{name: flat.field(name).to_numpy(zero_copy_only=False) for name in names}}, len(rows)


def share_ends(parts: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How far the ends of the interval of one model and metric lie from its value.

    Args:
        parts: Rows of `part_shares` of one place.
        confidence: Of the interval.

    Returns:
        A row of `schema.SHARE_ENDS`, or none.
    """
    import pandas as pd

    sums, counts = (np.sum(np.stack(list(parts[name])), axis=0) for name in ("sums", "counts"))
    ends = resampled_ends(sums, counts, float(parts["total"].sum()), int(parts["n"].sum()), confidence)
    return pd.DataFrame([] if ends is None else [(parts["place"].iloc[0], *ends)], columns=END_COLUMNS)
