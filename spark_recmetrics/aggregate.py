"""From PER_USER to the values of SUMMARY: means over the population that the convention names, with their spread."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from statistics import NormalDist
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.rating import Moments

CONFIDENCE = 0.95
"""Of the intervals in SUMMARY."""

_RATED = "rated"


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


def user_totals(per_user: DataFrame, metrics: Sequence[Metric], convention: Convention) -> DataFrame:
    """Everything that `means` and the data report need, in one pass over PER_USER.

    Args:
        per_user: PER_USER.
        metrics: Metrics to average.
        convention: Populations, and what an undefined value counts.

    Returns:
        One row per model: the number of users in each user set, the sums of all counters, and a struct per mean.
    """
    counters = [name for name in per_user.columns if name.startswith("n_")]
    moments = [name for name in Moments._fields if name in per_user.columns and name not in counters]
    averages = {average for metric in metrics for average in _averages(metric, convention)}
    return per_user.groupBy("model").agg(
        F.count(F.lit(1)).alias("users_all"),
        *(
            F.count_if(_belongs(users)).alias(f"users_{users}")
            for users in ("truth", "relevant", "predicted", "truth_and_predicted", *([_RATED] if moments else []))
        ),
        *(F.sum(name).alias(name) for name in (*counters, *moments)),
        *(_average(slug, users, convention) for slug, users in sorted(averages)),
    )


def means(totals: Mapping[str, Any], metrics: Sequence[Metric], convention: Convention) -> list[Mean]:
    """The values of one model.

    Args:
        totals: Its row of `user_totals`.
        metrics: The metrics to name.
        convention: Their definitions.
    """
    # A model without a single list was not there: its values are undefined, not 0.
    absent = totals["users_predicted"] == 0
    return [
        nothing([metric], convention)[0]
        if absent and metric.definition.kind == "ranking"
        else _mean(totals, metric, convention)
        for metric in metrics
    ]


def nothing(metrics: Sequence[Metric], convention: Convention) -> list[Mean]:
    """The values where there is nobody to average."""
    return [Mean(metric, 0.0 if convention.empty == "zero" else None, 0, 0) for metric in metrics]


def _averages(metric: Metric, convention: Convention) -> Iterator[tuple[str, str]]:
    """The (column, user set) pairs whose means make the value of a metric: its own, or those of its parts for an F of means."""
    if metric.definition.kind == "rating":
        yield metric.slug, _RATED
    elif metric.parts() and convention.f1 == "of_means":
        yield from ((part.slug, convention.users_of(metric.name)) for part in metric.parts())
    else:
        yield metric.slug, convention.users_of(metric.name)


def _belongs(users: str) -> Column:
    members = {
        "truth": ["n_truth"],
        "relevant": ["n_relevant"],
        "predicted": ["n_recommended"],
        "truth_and_predicted": ["n_truth", "n_recommended"],
        "relevant_and_predicted": ["n_relevant", "n_recommended"],
        _RATED: ["n_pairs"],
        "all": [],
    }
    return reduce(and_, (F.coalesce(F.col(counter), F.lit(0)) > 0 for counter in members[users]), F.lit(True))


def _average(slug: str, users: str, convention: Convention) -> Column:
    value = F.col(slug)
    counted = F.when(_belongs(users), F.coalesce(value, F.lit(0.0)) if convention.undefined == "zero" else value)
    return F.struct(
        F.avg(counted).alias("mean"),
        F.count(counted).alias("n"),
        F.stddev_samp(counted).alias("std"),
        F.count_if(_belongs(users) & value.isNull()).alias("undefined"),
    ).alias(f"{slug} {users}")


def _mean(totals: Mapping[str, Any], metric: Metric, convention: Convention) -> Mean:
    parts = [totals[f"{slug} {users}"] for slug, users in _averages(metric, convention)]
    # The parts of an F of means share a population, but may be undefined for different users.
    n_users, n_undefined = min(part["n"] for part in parts), max(part["undefined"] for part in parts)
    first = parts[0]
    if metric.definition.kind == "rating" and convention.rating_average != "per_user":
        return Mean(metric, _pooled(totals, metric, convention, n_users=n_users), n_users, 0)
    if n_users == 0:
        return replace(nothing([metric], convention)[0], n_undefined=n_undefined)
    if len(parts) > 1:
        value = metric.definition.compute(*(np.array([part["mean"]]) for part in parts), **metric.options(convention))[0]
        return Mean(metric, float(value), n_users, n_undefined)
    if n_users == 1:
        return Mean(metric, first["mean"], 1, n_undefined)
    half = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * first["std"] / math.sqrt(n_users)
    return Mean(metric, first["mean"], n_users, n_undefined, first["std"], first["mean"] - half, first["mean"] + half)


def _pooled(totals: Mapping[str, Any], metric: Metric, convention: Convention, *, n_users: int) -> float | None:
    """A rating metric of the sums over all users: per pair, or per user where the convention divides by users."""
    if not n_users:
        return 0.0 if convention.empty == "zero" else None
    sums = Moments(*(totals[moment] for moment in Moments._fields))
    return float(metric.definition.compute(sums._replace(n_pairs=n_users) if convention.rating_average == "users" else sums))
