"""Which columns of PER_USER are aggregated for the metrics, and over which users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spark_recmetrics.conventions import RATED, Convention
from spark_recmetrics.metrics import Metric, cut_offs


class Tally(NamedTuple):
    """An aggregate of one column of PER_USER over one user set: mean, n, std, undefined, total, count."""

    column: str
    users: str
    as_zero: bool = False  # undefined values count as 0
    pooled: bool = False  # the columns `…_total` and `…_count` are summed, too

    @property
    def name(self) -> str:
        """Its name in the totals."""
        return f"{self.column} {self.users}"


class SumSpec(NamedTuple):
    """Everything that is aggregated over the users of a model."""

    tallies: tuple[Tally, ...]
    cuts: tuple[int | None, ...]  # those of metrics that compare pairs of different users
    largest_cut: int  # 0 without one; shorter lists are counted

    @classmethod
    def of(cls, metrics: Sequence[Metric], convention: Convention) -> SumSpec:
        """The aggregates for these metrics. Metrics of items and groups need none."""
        metrics = [metric for metric in metrics if metric.definition.by_user]
        distinct = {tally for metric in metrics for tally in tallies(metric, convention)}
        across = tuple(metric.k for metric in metrics if metric.definition.across_users)
        return cls(tuple(sorted(distinct)), across, max((k for k in cut_offs(metrics) if k is not None), default=0))


def tallies(metric: Metric, convention: Convention) -> list[Tally]:
    """The aggregates of a metric: of its column, and for an F-measure of means also of each part."""
    rated = metric.definition.kind == "rating"
    parts = metric.parts() if convention.f1 == "of_means" else ()
    return [
        Tally(
            part.slug,
            RATED if rated else metric.users(convention),
            as_zero=convention.undefined == "zero" and not part.definition.skips_undefined,
            pooled=part.definition.pooled is not None and not rated,
        )
        for part in (metric, *parts)
    ]
