"""From PER_USER to the totals that the values of a model are made of, and to the values of slices with their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F

from spark_recmetrics.aggregation.means import Drawn, combined, drawn_of, drawn_values, means, replicated
from spark_recmetrics.columns import COUNTERS, ITEM_SLICE, ITEM_VALUE, PART_TOTALS, PASSING
from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.arrays import numbered
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.request.intervals import Intervals
from spark_recmetrics.request.per_user import SumSpec
from spark_recmetrics.request.slices import EVERYBODY, Group, Slice, bands_of, grouped
from spark_recmetrics.scoring.partial_sums import part_totals
from spark_recmetrics.stats.resample import bootstrap_sums, poisson_weights
from spark_recmetrics.storage.schemas import PART_SLICES, SLICE_MEANS, TOTALS

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


def user_totals(per_user: DataFrame, metrics: Sequence[Metric], convention: Convention) -> DataFrame:
    """What each part of PER_USER adds to the totals; `means.combined` puts the parts together.

    The workers that score add up what they score. Where PER_USER is joined of two tables, they are given its rows once more:
    hundreds of aggregates as Spark expressions take longer to plan than all users take in numpy.

    Args:
        per_user: PER_USER.
        metrics: Metrics to average.
        convention: Populations, and what an undefined value counts.

    Returns:
        The rows of `means.part_totals`, whose number does not depend on that of users.
    """
    if PART_TOTALS in per_user.columns:
        return per_user.select(F.inline(PART_TOTALS))
    wanted = SumSpec.of(metrics, convention)
    kept = _used(per_user, wanted, PASSING)

    def of_part(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for rows in parts:
            yield part_totals(rows, wanted)

    return per_user.select(*kept).mapInPandas(of_part, TOTALS)


def _used(per_user: DataFrame, wanted: SumSpec, more: Sequence[str]) -> list[str]:
    """The columns of PER_USER that `part_totals` looks at, and more."""
    named = {tally.column for tally in wanted.tallies}
    pooled = {f"{tally.column}_{of}" for tally in wanted.tallies for of in ("total", "count") if tally.pooled}
    used = {"model", "user", *more, *COUNTERS, *Moments._fields, *named, *pooled}
    return [name for name in per_user.columns if name in used]


TOTALLED = -1
"""The number of no metric, in rows that have the totals of all."""

MOST_DRAWN = 1 << 16
"""How many users are resampled at once: their weights, one byte each, are held for all slices."""


@dataclass(frozen=True)
class Sliced:
    """What is to be known of slices.

    Args:
        slices: The slices, of users and of items.
        metrics: Metrics with a value per user.
        convention: Their definitions.
        intervals: How intervals are computed. Where values are resampled, all users are a slice, too.
    """

    slices: tuple[Slice, ...]
    metrics: tuple[Metric, ...]
    convention: Convention
    intervals: Intervals

    @classmethod
    def of(cls, slices: Sequence[Slice], metrics: Sequence[Metric], convention: Convention, intervals: Intervals) -> Sliced:
        """What is to be known of these metrics; one of items, or of the pairs of different users, has no value in a slice."""
        known = tuple(metric for metric in metrics if metric.has_users)
        return cls(tuple(slices), known, convention, intervals)

    @property
    def resamples(self) -> bool:
        """Whether the values are resampled."""
        return self.intervals.method == "bootstrap"

    @cached_property
    def drawn(self) -> list[list[Drawn]]:
        """Of each metric, the columns that a replicate of its value is made of."""
        return [drawn_of(metric, self.convention) for metric in self.metrics]


def slice_means(per_user: DataFrame, sliced: Sliced) -> DataFrame:
    """The values of every model for every value of a slice, with their intervals, in one pass over PER_USER.

    Neither what reaches the driver nor what a worker holds depends on the number of users.

    Args:
        per_user: PER_USER with the columns of the slices of users, and the rows of those of items.
        sliced: What is to be known.

    Returns:
        `schema.SLICE_MEANS`: a row for each model, slice, value and metric; and a further row with the interval alone where
        values are resampled.
    """
    wanted = SumSpec.of(sliced.metrics, sliced.convention)
    kept = _used(per_user, wanted, [ITEM_SLICE, ITEM_VALUE, *(band.column for band in bands_of(sliced.slices))])
    hashed = [F.xxhash64("user").alias("user_hash")] if sliced.resamples else []

    def of_part(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd

        rows = [part for part in parts if len(part)]
        if rows:
            yield from part_slices(pd.concat(rows, ignore_index=True), sliced)

    def together(parts: pd.DataFrame) -> pd.DataFrame:
        return whole_slice(parts, sliced)

    parts = per_user.select(*kept, *hashed).mapInPandas(of_part, PART_SLICES)
    return parts.groupBy("model", "slice", "slice_value", "metric").applyInPandas(together, SLICE_MEANS)


def part_slices(rows: pd.DataFrame, sliced: Sliced) -> Iterator[pd.DataFrame]:
    """What a part of the rows of PER_USER adds to the values of slices.

    Args:
        rows: Some rows of PER_USER; where values are resampled, with `user_hash`.
        sliced: What is to be known.

    Yields:
        `schema.PART_SLICES`: for each slice and value, a row of totals per model, and a row of sums per model and metric.
    """
    for own, groups in grouped(rows, sliced.slices):
        yield from _part_totals(own, groups, sliced)
        if sliced.resamples:
            (user,), users = numbered(own["user"])
            for start in range(0, len(users), MOST_DRAWN):
                some = (user >= start) & (user < start + MOST_DRAWN)
                taken = [group._replace(code=group.code[some]) for group in groups]
                yield from _resampled(own[some], user[some] - start, taken, sliced)


def _part_totals(rows: pd.DataFrame, groups: Sequence[Group], sliced: Sliced) -> Iterator[pd.DataFrame]:
    """The rows of totals."""
    import pandas as pd

    wanted = SumSpec.of(sliced.metrics, sliced.convention)
    for place, code, values in groups:
        if place == EVERYBODY:
            continue  # the totals of all users are known
        for number, value in enumerate(values):
            totals = part_totals(rows[code == number], wanted)
            own = [(m, place, value, TOTALLED, part.to_dict("records"), None, None) for m, part in totals.groupby("model")]
            yield pd.DataFrame(own, columns=PART_SLICES.names)


def _resampled(rows: pd.DataFrame, user: Any, groups: Sequence[Group], sliced: Sliced) -> Iterator[pd.DataFrame]:
    """The rows of sums: in every replicate, the weighted sum of each column, and the weights that it is over."""
    import pandas as pd

    n_users = int(user.max(initial=-1)) + 1
    hashes = np.zeros(n_users, dtype=np.uint64)
    hashes[user] = rows["user_hash"].to_numpy(np.int64).view(np.uint64)
    weights = poisson_weights(hashes, sliced.intervals.n_resamples, sliced.intervals.seed)
    model, models = pd.factorize(rows["model"], sort=True)
    columns = {drawn: place for place, drawn in enumerate(dict.fromkeys(one for own in sliced.drawn for one in own))}
    # The models stand side by side, so that the weights of a user are multiplied once.
    table = np.full((n_users, len(models), len(columns)), np.nan)
    values_by_name = {str(name): column.to_numpy() for name, column in rows.items()}
    for drawn, place in columns.items():
        table[user, model, place] = drawn_values(values_by_name, drawn)
    for place, code, values in groups:
        of_user = np.zeros(n_users, dtype=np.int64)
        of_user[user] = code
        for number, value in enumerate(values):
            members = np.flatnonzero(of_user == number) if len(values) > 1 else slice(None)
            own = table[members].reshape(-1, len(models) * len(columns))
            if not len(own):
                continue
            sums, counts = bootstrap_sums(own, weights[:, members])
            found = []
            for m, name in enumerate(models):
                for metric, drawn_columns in enumerate(sliced.drawn):
                    wanted = [m * len(columns) + columns[drawn] for drawn in drawn_columns]
                    found.append((name, place, value, metric, None, sums[:, wanted].T.ravel(), counts[:, wanted].T.ravel()))
            yield pd.DataFrame(found, columns=PART_SLICES.names)


def whole_slice(parts: pd.DataFrame, sliced: Sliced) -> pd.DataFrame:
    """The values of one model for one value of a slice; or the interval of one of them.

    Args:
        parts: Rows of `part_slices` of one model, slice, value and metric.
        sliced: What is to be known.

    Returns:
        Rows of `schema.SLICE_MEANS`.
    """
    import pandas as pd

    key = tuple(parts[name].iloc[0] for name in ("model", "slice", "slice_value"))
    place = int(parts["metric"].iloc[0])
    if place == TOTALLED:
        rows = (tuple(row[name] for name in TOTALS.names) for part in parts["totals"] for row in part)
        totals = combined(rows)[key[0]]
        found = means(totals, sliced.metrics, sliced.convention, {}, sliced.intervals.confidence)
        return pd.DataFrame(
            [(*key, metric, m.value, m.n_users, m.n_undefined, m.std, m.ci_low, m.ci_high) for metric, m in enumerate(found)],
            columns=SLICE_MEANS.names,
        )
    columns = sliced.drawn[place]
    sums, counts = (np.sum(np.stack(list(parts[name])), axis=0).reshape(len(columns), -1) for name in ("sums", "counts"))
    by_column = [dict(zip(columns, numbers, strict=True)) for numbers in (sums, counts)]
    values = np.asarray(replicated(sliced.metrics[place], sliced.convention, *by_column))
    values = values[np.isfinite(values)]
    tail = (1 - sliced.intervals.confidence) / 2
    ends = np.quantile(values, [tail, 1 - tail]) if len(values) else (None, None)
    return pd.DataFrame([(*key, place, None, None, None, None, *ends)], columns=SLICE_MEANS.names)
