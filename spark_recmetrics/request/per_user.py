"""The values of a model: from the totals over its users to means, pooled values and their spread. No Spark is needed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spark_recmetrics.conventions import RATED, Convention
from spark_recmetrics.metrics import Metric, cut_offs


class Tally(NamedTuple):
    """What has to be known of one column of PER_USER over one user set, to average it: mean, n, std, undefined, total, count.

    Args:
        column: The column of the values.
        users: The user set.
        as_zero: Undefined values count as 0.
        pooled: The sums behind the values are wanted, too, from the columns `…_total` and `…_count`.
    """

    column: str
    users: str
    as_zero: bool
    pooled: bool

    @property
    def name(self) -> str:
        """The tally's name among the totals."""
        return f"{self.column} {self.users}"


class SumSpec(NamedTuple):
    """What has to be known of PER_USER, so that every value of a model can be told.

    Args:
        tallies: Of its columns.
        cuts: The cut-offs of metrics that compare the pairs of different users.
        largest_cut: How long a list has to be, 0 where there is no cut-off.
    """

    tallies: tuple[Tally, ...]
    cuts: tuple[int | None, ...]
    largest_cut: int

    @classmethod
    def of(cls, metrics: Sequence[Metric], convention: Convention) -> SumSpec:
        """What these metrics are made of; those of items and groups are made of something else."""
        metrics = [metric for metric in metrics if metric.definition.by_user]
        found = {tally for metric in metrics for tally in tallies(metric, convention)}
        across = tuple(metric.k for metric in metrics if metric.definition.across_users)
        return cls(tuple(sorted(found)), across, max((k for k in cut_offs(metrics) if k is not None), default=0))


def tallies(metric: Metric, convention: Convention) -> list[Tally]:
    """What the value of a metric is made of: a tally of its own column, and for an F of means one of each part."""
    definition = metric.definition
    as_zero = convention.undefined == "zero"
    if definition.kind == "rating":
        return [Tally(metric.slug, RATED, as_zero and not definition.skips_undefined, pooled=False)]
    parts = metric.parts() if convention.f1 == "of_means" else ()
    return [
        Tally(
            part.slug,
            metric.users(convention),
            as_zero and not part.definition.skips_undefined,
            pooled=part.definition.pooled is not None,
        )
        for part in (metric, *parts)
    ]
