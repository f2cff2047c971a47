"""From the totals over users to the values of a model: means, pooled values and their spread; and values of resampled users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from spark_recmetrics.conventions import RATED, Convention
from spark_recmetrics.metrics import Metric, Sums
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.metrics.registry import finished
from spark_recmetrics.request.user_sums import Tally, tallies
from spark_recmetrics.scoring.partial_sums import (
    MOST_RANGES,
    PAIRS_A_RANGE,
    SCORE_EDGES,
    PartTotal,
    as_doubles,
    first_users,
    in_population,
)


@dataclass(frozen=True)
class Mean:
    """One value of SUMMARY, with the limits of its confidence interval, if there is one."""

    metric: Metric
    value: float | None  # mean over the users; None if it is undefined
    n_users: int  # that the value is the mean of
    n_undefined: int  # users whose value is 0/0: as the convention says, they are left out or count as 0
    std: float | None = None  # over the users (n - 1); None for pooled values, below two users, and if it is infinite
    ci_low: float | None = None
    ci_high: float | None = None
    ci_method: str | None = None

    def around(self, ends: tuple[float, float] | None) -> Mean:
        """With a resampled confidence interval, whose limits are given as distances from the value."""
        if ends is None or self.value is None:
            return self
        return replace(self, ci_low=self.value + ends[0], ci_high=self.value + ends[1], ci_method="bootstrap")


def combined(rows: Iterable[Sequence[Any]]) -> dict[Any, dict[str, Any]]:
    """By model, totals of rows of `part_totals`: numbers, a mapping for each tally, and examples of users in `…_example`."""
    # Sums are exact before they are rounded, so the order of the rows changes nothing.
    parts: dict[Any, dict[str, list[PartTotal]]] = {}
    for row in rows:
        part = PartTotal._make(math.nan if value is None else value for value in row)  # Spark returns NaN as null
        parts.setdefault(part.model, {}).setdefault(part.name, []).append(part)
    totals = {model: {name: _total(name, of_name) for name, of_name in by_name.items()} for model, by_name in parts.items()}
    for model, by_name in parts.items():
        for name, of_name in by_name.items():
            if users := [user for part in of_name for user in part.examples]:
                totals[model][f"{name}_example"] = first_users(users)
    return totals


def _exact_sum(numbers: Iterable[float]) -> float:
    """The sum, exact before it is rounded; NaN if infinite numbers cancel."""
    numbers = list(numbers)
    if infinite := [number for number in numbers if not math.isfinite(number)]:
        return sum(infinite)
    try:
        return math.fsum(numbers)
    except OverflowError:  # a partial sum is too large, the whole sum may not be
        return math.fsum(number * 2.0**-64 for number in numbers) * 2.0**64


def _total(name: str, parts: Sequence[PartTotal]) -> Any:
    n = sum(part.n for part in parts)
    if name == SCORE_EDGES:
        # Quantiles of the parts' quantiles: any scores will do if the ranges between them have about the same size.
        n_ranges = min(math.ceil(n / PAIRS_A_RANGE), MOST_RANGES)
        steps = np.arange(1, n_ranges) / n_ranges
        return sorted(set(np.quantile([part.sum for part in parts], steps, method="lower").tolist()))
    total = _exact_sum(part.sum for part in parts)
    if name.startswith("users_"):
        return n
    if " " not in name:
        if n == 0:
            return None
        return int(total) if name.startswith("n_") else total
    mean = total / n if n else math.nan
    std = None
    if n > 1 and not math.isnan(mean):
        distances = [(part.n, part.sum / part.n - mean) for part in parts if part.n]
        squares = (size * (distance * distance) for size, distance in distances)
        deviation = _exact_sum([*(part.deviation for part in parts if part.n), *squares])
        std = math.sqrt(deviation / (n - 1)) if math.isfinite(deviation) else None
    undefined = sum(part.undefined for part in parts)
    pooled = {"total": _exact_sum(part.total for part in parts), "count": _exact_sum(part.count for part in parts)}
    return {"mean": None if math.isnan(mean) else mean, "n": n, "std": std, "undefined": undefined, **pooled}


def means(
    totals: Mapping[str, Any],
    metrics: Sequence[Metric],
    convention: Convention,
    across: Mapping[str, tuple[float | None, int]],
    confidence: float,
) -> list[Mean]:
    """The values of one model. `across`: by slug, value and number of users of the metrics without a value per user."""
    # A model without lists is absent: its values are undefined, not 0.
    absent = totals["users_predicted"] == 0
    values = []
    for metric in metrics:
        definition = metric.definition
        if absent and definition.kind != "rating":
            values.append(without_users(metric, convention))
        elif definition.by_user and not definition.across_users:
            values.append(_mean(totals, metric, convention, confidence))
        else:
            value, n_users = across[metric.slug]
            n_undefined = totals[tallies(metric, convention)[0].name]["undefined"] if definition.by_user else 0
            undefined = without_users(metric, convention, n_undefined)
            values.append(undefined if value is None else Mean(metric, value, n_users, n_undefined))
    return values


def without_users(metric: Metric, convention: Convention, n_undefined: int = 0) -> Mean:
    """The value without users: undefined, or 0 if the convention says so and 0 is the worst value."""
    is_zero = convention.empty == "zero" and metric.definition.empty_is_zero
    return Mean(metric, 0.0 if is_zero else None, 0, n_undefined)


def _mean(totals: Mapping[str, Any], metric: Metric, convention: Convention, confidence: float) -> Mean:
    total, *parts = (totals[tally.name] for tally in tallies(metric, convention))
    average = metric.average(convention)
    if metric.definition.kind == "rating" and average != "per_user":
        return _pooled_rating(totals, metric, convention, average)
    n_users, n_undefined = total["n"], total["undefined"]
    if n_users == 0:
        return without_users(metric, convention, n_undefined)
    if average == "total":
        return Mean(metric, total["total"], n_users, n_undefined)
    if average != "per_user":
        return _pooled(metric, convention, Sums(total["total"], total["count"]), n_users, n_undefined)
    if parts:
        part_means = (np.array([np.nan if part["mean"] is None else part["mean"]]) for part in parts)
        value = float(metric.definition.compute(*part_means, **metric.options(convention))[0])
        return Mean(metric, None if math.isnan(value) else value, n_users, n_undefined)
    mean, std = total["mean"], total["std"]
    if std is None:
        return Mean(metric, mean, n_users, n_undefined)
    half = NormalDist().inv_cdf((1 + confidence) / 2) * std / math.sqrt(n_users)
    return Mean(metric, mean, n_users, n_undefined, std, mean - half, mean + half, "normal")


def _pooled_rating(totals: Mapping[str, Any], metric: Metric, convention: Convention, average: str) -> Mean:
    """A rating metric of the sums over all users: per pair, or per user if the convention divides by users."""
    n_users, n_undefined = totals[f"users_{RATED}"], totals[tallies(metric, convention)[0].name]["undefined"]
    if not n_users:
        return without_users(metric, convention)
    sums: Sums = metric.definition.compute(Moments(*(totals[moment] for moment in Moments._fields)))
    return _pooled(metric, convention, sums._replace(count=n_users) if average == "users" else sums, n_users, n_undefined)


def _pooled(metric: Metric, convention: Convention, sums: Sums, n_users: int, n_undefined: int) -> Mean:
    pooled = metric.definition.pooled
    if pooled is None or sums.count <= sums.floor:
        return without_users(metric, convention, n_undefined)
    value = float(pooled(sums))
    return Mean(metric, None if math.isnan(value) else value, n_users, n_undefined)


def drawn_of(metric: Metric, convention: Convention) -> list[Tally]:
    """The columns that a replicate of the metric is computed from: those of the metric, then those of its parts."""
    if metric.definition.kind == "rating" and metric.average(convention) != "per_user":
        return [Tally(moment, RATED) for moment in Moments._fields]
    columns = []
    for tally in tallies(metric, convention):
        pooled = [f"{tally.column}_{part}" for part in ("total", "count")] if tally.pooled else []
        columns += [tally._replace(pooled=False), *(Tally(name, tally.users) for name in pooled)]
    return columns


def drawn_values(rows: Mapping[str, Any], drawn: Tally) -> Any:
    """(R,) the values of a column of PER_USER, NaN if a user is not in the user set or has no value."""
    values = as_doubles(rows[drawn.column])
    return np.where(in_population(rows, drawn.users), np.nan_to_num(values, nan=0.0) if drawn.as_zero else values, np.nan)


def replicated(metric: Metric, convention: Convention, sums: Mapping[Tally, Any], counts: Mapping[Tally, Any]) -> Any:
    """(B,) the value in each replicate, NaN without users, from (B,) weighted sums and sums of weights by `drawn_of`."""
    columns, average = drawn_of(metric, convention), metric.average(convention)
    # A replicate without users is 0/0.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if metric.definition.kind == "rating" and average != "per_user":
            pooled: Sums = metric.definition.compute(Moments(*(sums[column] for column in columns)))
            return finished(metric, pooled._replace(count=counts[columns[0]] * 1.0) if average == "users" else pooled)
        if average == "total":
            return sums[columns[1]]
        if average != "per_user":
            return finished(metric, Sums(*(sums[column] for column in columns[1:3])))
        first, *parts = (tally._replace(pooled=False) for tally in tallies(metric, convention))
        by_tally = [sums[column] / counts[column] for column in (parts or [first])]
        return metric.definition.compute(*by_tally, **metric.options(convention)) if parts else by_tally[0]


def resampled_ends(sums: Any, counts: Any, total: float, n: int, confidence: float) -> tuple[float, float] | None:
    """The confidence limits of a mean as distances from it, from (B,) weighted sums and sums of weights; None without any."""
    drawn = counts > 0
    if n < 2 or not drawn.any():
        return None
    low, high = np.quantile(sums[drawn] / counts[drawn] - total / n, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
