"""The values of a model: from the totals over its users to means, pooled values and their spread. No Spark is needed here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics import Metric, Sums
from spark_recmetrics.metrics.rating import Moments

CONFIDENCE = 0.95
"""Of the intervals in SUMMARY."""

RATED = "rated"
"""The user set of rating metrics: users with a pair."""


@dataclass(frozen=True)
class Mean:
    """One value of SUMMARY.

    Args:
        metric: The metric.
        value: Mean over the population; None where it is undefined.
        n_users: Users that the value is the mean of.
        n_undefined: Users of the population whose own value is 0/0: left out, or counted as 0, as the convention says.
        std: Standard deviation over these users (n - 1); None for pooled values and below two users.
        ci_low: Lower end of the normal interval of the mean, None where there is no `std`.
        ci_high: Upper end.
    """

    metric: Metric
    value: float | None
    n_users: int
    n_undefined: int
    std: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None


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


MEMBERS: Mapping[str, tuple[str, ...]] = {
    "truth": ("n_truth",),
    "relevant": ("n_relevant",),
    "predicted": ("n_recommended",),
    "truth_and_predicted": ("n_truth", "n_recommended"),
    "relevant_and_predicted": ("n_relevant", "n_recommended"),
    RATED: ("n_pairs",),
    "all": (),
}
"""Who belongs to a user set: those for whom all of these counters are above 0."""


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


def means(
    totals: Mapping[str, Any],
    metrics: Sequence[Metric],
    convention: Convention,
    across: Mapping[str, tuple[float | None, int]] | None = None,
) -> list[Mean]:
    """The values of one model.

    Args:
        totals: By the name of a tally, its numbers; the sums of `Moments`; and `users_…`, how many users there are in a set.
        metrics: The metrics to name.
        convention: Their definitions.
        across: By slug, value and number of users of metrics that compare the pairs of different users.
    """
    # A model without a single list was not there: its values are undefined, not 0.
    absent = totals["users_predicted"] == 0
    found = []
    for metric in metrics:
        if absent and metric.definition.kind == "ranking":
            found += nothing([metric], convention)
        elif metric.definition.across_users:
            value, n_users = (across or {})[metric.slug]
            n_undefined = totals[tallies(metric, convention)[0].name]["undefined"]
            none = replace(nothing([metric], convention)[0], n_undefined=n_undefined)
            found.append(none if value is None else Mean(metric, value, n_users, n_undefined))
        else:
            found.append(_mean(totals, metric, convention))
    return found


def nothing(metrics: Sequence[Metric], convention: Convention) -> list[Mean]:
    """The values where there is nobody to average."""
    return [Mean(metric, 0.0 if convention.empty == "zero" else None, 0, 0) for metric in metrics]


def _mean(totals: Mapping[str, Any], metric: Metric, convention: Convention) -> Mean:
    own, *parts = (totals[tally.name] for tally in tallies(metric, convention))
    average = metric.average(convention)
    if metric.definition.kind == "rating" and average != "per_user":
        return _pooled_rating(totals, metric, convention, average)
    n_users, n_undefined = own["n"], own["undefined"]
    if n_users == 0:
        return replace(nothing([metric], convention)[0], n_undefined=n_undefined)
    if average != "per_user":
        return _pooled(metric, convention, Sums(own["total"], own["count"]), n_users, n_undefined)
    if parts:
        values = (np.array([np.nan if part["mean"] is None else part["mean"]]) for part in parts)
        value = float(metric.definition.compute(*values, **metric.options(convention))[0])
        return Mean(metric, None if math.isnan(value) else value, n_users, n_undefined)
    if n_users == 1:
        return Mean(metric, own["mean"], 1, n_undefined)
    half = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * own["std"] / math.sqrt(n_users)
    return Mean(metric, own["mean"], n_users, n_undefined, own["std"], own["mean"] - half, own["mean"] + half)


def _pooled_rating(totals: Mapping[str, Any], metric: Metric, convention: Convention, average: str) -> Mean:
    """A rating metric of the sums over all users: per pair, or per user where the convention divides by users."""
    n_users, n_undefined = totals[f"users_{RATED}"], totals[tallies(metric, convention)[0].name]["undefined"]
    if not n_users:
        return nothing([metric], convention)[0]
    sums: Sums = metric.definition.compute(Moments(*(totals[moment] for moment in Moments._fields)))
    return _pooled(metric, convention, sums._replace(count=n_users) if average == "users" else sums, n_users, n_undefined)


def _pooled(metric: Metric, convention: Convention, sums: Sums, n_users: int, n_undefined: int) -> Mean:
    pooled = metric.definition.pooled
    if pooled is None or sums.count <= sums.floor:
        return replace(nothing([metric], convention)[0], n_undefined=n_undefined)
    return Mean(metric, float(pooled(sums)), n_users, n_undefined)
