"""The values of a model: from the totals over its users to means, pooled values and their spread. No Spark is needed here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from spark_recmetrics.conventions import RATED, Convention
from spark_recmetrics.metrics import Metric, Sums
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.metrics.registry import finished
from spark_recmetrics.request.intervals import Intervals
from spark_recmetrics.request.per_user import tallies
from spark_recmetrics.scoring.partial_sums import (
    MOST_RANGES,
    PAIRS_A_RANGE,
    SCORE_EDGES,
    as_doubles,
    first_users,
    in_population,
)


@dataclass(frozen=True)
class Mean:
    """One value of SUMMARY.

    Args:
        metric: The metric.
        value: Mean over the population; None where it is undefined.
        n_users: Users that the value is the mean of.
        n_undefined: Users of the population whose own value is 0/0: left out, or counted as 0, as the convention says.
        std: Standard deviation over these users (n - 1); None for pooled values, below two users, and where it is infinite.
        ci_low: Lower end of the interval of the value, None where there is none.
        ci_high: Upper end.
        ci_method: How the interval was computed.
    """

    metric: Metric
    value: float | None
    n_users: int
    n_undefined: int
    std: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    ci_method: str | None = None

    def around(self, ends: tuple[float, float] | None) -> Mean:
        """The value with a resampled interval, whose ends lie so far from it; as it is without them, or without a value."""
        if ends is None or self.value is None:
            return self
        return replace(self, ci_low=self.value + ends[0], ci_high=self.value + ends[1], ci_method="bootstrap")


def combined(parts: Iterable[Sequence[Any]]) -> dict[Any, dict[str, Any]]:
    """By model, the totals of all parts: a number for each user set, counter and moment, a mapping for each tally.

    Under `…_example` stand some users, as text, of what is perhaps to be reported.
    Sums are exact before they are rounded, so the order of the parts changes nothing.
    """
    found: dict[Any, dict[str, list[Sequence[Any]]]] = {}
    examples: dict[Any, dict[str, list[str]]] = {}
    for model, name, *numbers, users in parts:
        found.setdefault(model, {}).setdefault(name, []).append(numbers)
        examples.setdefault(model, {}).setdefault(f"{name}_example", []).extend(users)
    return {
        model: {name: _whole(name, own) for name, own in names.items()}
        | {name: first_users(users) for name, users in examples[model].items() if users}
        for model, names in found.items()
    }


def _added(numbers: Iterable[float]) -> float:
    """The sum, exact before it is rounded; NaN where infinite numbers cancel."""
    numbers = list(numbers)
    if beyond := [number for number in numbers if not math.isfinite(number)]:
        return sum(beyond)
    try:
        return math.fsum(numbers)
    except OverflowError:  # on the way, perhaps, and not at its end
        return math.fsum(number * 2.0**-64 for number in numbers) * 2.0**64


def _whole(name: str, parts: list[Sequence[Any]]) -> Any:
    # NaN comes back from Spark as null.
    parts = [[math.nan if number is None else number for number in part] for part in parts]
    n = sum(part[0] for part in parts)
    if name == SCORE_EDGES:
        # Quantiles of the parts' quantiles; any scores will do, so long as the ranges between them are of like size.
        n_ranges = min(math.ceil(n / PAIRS_A_RANGE), MOST_RANGES)
        steps = np.arange(1, n_ranges) / n_ranges
        return sorted(set(np.quantile([part[1] for part in parts], steps, method="lower").tolist()))
    total = _added(part[1] for part in parts)
    if name.startswith("users_"):
        return n
    if " " not in name:
        whole = None if n == 0 else total
        return int(whole) if whole is not None and name.startswith("n_") else whole
    mean = total / n if n else None
    std = None
    if mean is not None and math.isnan(mean):
        mean = None
    if mean is not None and n > 1:
        off = [(part[0], part[1] / part[0] - mean) for part in parts if part[0]]
        spread = _added([*(part[2] for part in parts if part[0]), *(size * (away * away) for size, away in off)])
        std = math.sqrt(spread / (n - 1)) if math.isfinite(spread) else None
    undefined = sum(part[3] for part in parts)
    pooled = {of: _added(part[place] for part in parts) for place, of in ((4, "total"), (5, "count"))}
    return {"mean": mean, "n": n, "std": std, "undefined": undefined, **pooled}


def means(
    totals: Mapping[str, Any],
    metrics: Sequence[Metric],
    convention: Convention,
    across: Mapping[str, tuple[float | None, int]],
    confidence: float = Intervals.confidence,
) -> list[Mean]:
    """The values of one model.

    Args:
        totals: By the name of a tally, its numbers; the sums of `Moments`; and `users_…`, how many users there are in a set.
        metrics: The metrics to name.
        convention: Their definitions.
        across: By slug, value and number of users of metrics of items and groups, and of those that compare the pairs of
            different users.
        confidence: Of the normal intervals.
    """
    # A model without a single list was not there: its values are undefined, not 0.
    absent = totals["users_predicted"] == 0
    found = []
    for metric in metrics:
        if absent and metric.definition.kind != "rating":
            found += nothing([metric], convention)
        elif not metric.definition.by_user:
            value, n_users = across[metric.slug]
            found.append(nothing([metric], convention)[0] if value is None else Mean(metric, value, n_users, 0))
        elif metric.definition.across_users:
            value, n_users = across[metric.slug]
            n_undefined = totals[tallies(metric, convention)[0].name]["undefined"]
            none = replace(nothing([metric], convention)[0], n_undefined=n_undefined)
            found.append(none if value is None else Mean(metric, value, n_users, n_undefined))
        else:
            found.append(_mean(totals, metric, convention, confidence))
    return found


def nothing(metrics: Sequence[Metric], convention: Convention) -> list[Mean]:
    """The values where there is nobody to average: 0 at most where that is the worst value, and never the best."""
    zero = convention.empty == "zero"
    return [Mean(metric, 0.0 if zero and metric.definition.empty_is_zero else None, 0, 0) for metric in metrics]


def _mean(totals: Mapping[str, Any], metric: Metric, convention: Convention, confidence: float) -> Mean:
    own, *parts = (totals[tally.name] for tally in tallies(metric, convention))
    average = metric.average(convention)
    if metric.definition.kind == "rating" and average != "per_user":
        return _pooled_rating(totals, metric, convention, average)
    n_users, n_undefined = own["n"], own["undefined"]
    if n_users == 0:
        return replace(nothing([metric], convention)[0], n_undefined=n_undefined)
    if average == "total":
        return Mean(metric, own["total"], n_users, n_undefined)
    if average != "per_user":
        return _pooled(metric, convention, Sums(own["total"], own["count"]), n_users, n_undefined)
    if parts:
        values = (np.array([np.nan if part["mean"] is None else part["mean"]]) for part in parts)
        value = float(metric.definition.compute(*values, **metric.options(convention))[0])
        return Mean(metric, None if math.isnan(value) else value, n_users, n_undefined)
    if own["std"] is None:
        return Mean(metric, own["mean"], n_users, n_undefined)
    half = NormalDist().inv_cdf((1 + confidence) / 2) * own["std"] / math.sqrt(n_users)
    return Mean(metric, own["mean"], n_users, n_undefined, own["std"], own["mean"] - half, own["mean"] + half, "normal")


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
    value = float(pooled(sums))
    return Mean(metric, None if math.isnan(value) else value, n_users, n_undefined)


class Drawn(NamedTuple):
    """A column of PER_USER that is resampled: its weighted sum, and the weights that it is over.

    Args:
        column: The column.
        users: The user set that it is over.
        as_zero: Missing values count as 0.
    """

    column: str
    users: str
    as_zero: bool = False


def drawn_of(metric: Metric, convention: Convention) -> list[Drawn]:
    """The columns that a replicate of the metric's value is made of; those of its parts come behind its own."""
    if metric.definition.kind == "rating" and metric.average(convention) != "per_user":
        return [Drawn(moment, RATED) for moment in Moments._fields]
    found = []
    for tally in tallies(metric, convention):
        sums = [f"{tally.column}_{of}" for of in ("total", "count")] if tally.pooled else []
        found += [Drawn(tally.column, tally.users, tally.as_zero), *(Drawn(name, tally.users) for name in sums)]
    return found


def drawn_values(rows: Mapping[str, Any], drawn: Drawn) -> Any:
    """(R,) the values of a column, NaN where a user is not in the user set or has none.

    Args:
        rows: Columns of PER_USER.
        drawn: The column.
    """
    values = as_doubles(rows[drawn.column])
    return np.where(in_population(rows, drawn.users), np.nan_to_num(values, nan=0.0) if drawn.as_zero else values, np.nan)


def replicated(metric: Metric, convention: Convention, sums: Mapping[Drawn, Any], counts: Mapping[Drawn, Any]) -> Any:
    """(B,) the value of the metric in every replicate, NaN where it has drawn nobody.

    Args:
        metric: The metric.
        convention: Its definitions.
        sums: (B,) the weighted sum of each column of `drawn_of`.
        counts: (B,) the weights that it is over.
    """
    columns, average = drawn_of(metric, convention), metric.average(convention)
    # A replicate without anybody is 0/0.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if metric.definition.kind == "rating" and average != "per_user":
            found: Sums = metric.definition.compute(Moments(*(sums[column] for column in columns)))
            return finished(metric, found._replace(count=counts[columns[0]] * 1.0) if average == "users" else found)
        if average == "total":
            return sums[columns[1]]
        if average != "per_user":
            return finished(metric, Sums(*(sums[column] for column in columns[1:3])))
        own, *parts = (Drawn(tally.column, tally.users, tally.as_zero) for tally in tallies(metric, convention))
        by_tally = [sums[column] / counts[column] for column in (parts or [own])]
        return metric.definition.compute(*by_tally, **metric.options(convention)) if parts else by_tally[0]


def resampled_ends(sums: Any, counts: Any, total: float, n: int, confidence: float) -> tuple[float, float] | None:
    """Of the mean of n shares over users drawn anew, how far the percentiles lie from the mean; None without a replicate.

    Args:
        sums: (B,) the weighted sum of the shares in every replicate.
        counts: (B,) the weights that it is over.
        total: The sum of the shares.
        n: How many there are.
        confidence: Of the interval.
    """
    drawn = counts > 0
    if n < 2 or not drawn.any():
        return None
    low, high = np.quantile(sums[drawn] / counts[drawn] - total / n, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
