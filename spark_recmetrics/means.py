"""The values of a model: from the totals over its users to means, pooled values and their spread. No Spark is needed here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from spark_recmetrics.columns import COUNTERS, FAULTS, PAIR_RANKS, PAIR_SCORES, PAIR_STARTS
from spark_recmetrics.conventions import MEMBERS, RATED, Convention
from spark_recmetrics.errors import ConfigError, brief, did_you_mean
from spark_recmetrics.metrics import Metric, Sums, cut_offs
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.metrics.registry import finished
from spark_recmetrics.stats.result import level

if TYPE_CHECKING:
    import pandas as pd

N_EXAMPLES = 5
"""How many users are named of those that a check counts."""


IntervalMethod = Literal["normal", "bootstrap"]


@dataclass(frozen=True)
class Intervals:
    """How the intervals of SUMMARY are computed.

    Args:
        method: `normal`: mean ± z std / sqrt(n) of the values of the users; a pooled value has none. `bootstrap`: the
            percentiles of the value over resampled users, for pooled values, too; see `stats.poisson_weights`. For metrics of
            items, the percentiles of what the lists of resampled users add to the value.
        confidence: Of the intervals.
        n_resamples: Replicates of the bootstrap, from 100.
        seed: Of the bootstrap: a user has the same weights for every model, metric and slice, on every cluster.

    Raises:
        ConfigError: A field is not such a value.

    Example:
        >>> Intervals("bootstrap").n_resamples
        1000
        >>> Intervals("bootstrap", n_resamples=10)
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: n_resamples: expected a whole number from 100, below 2^32, found 10
    """

    method: IntervalMethod = "normal"
    confidence: float = 0.95
    n_resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in get_args(IntervalMethod):
            known = get_args(IntervalMethod)
            raise ConfigError(f"method: unknown method {brief(self.method)}{did_you_mean(str(self.method), known)}")
        level(self.confidence, "confidence")
        for name, lowest in (("n_resamples", 100), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value < 1 << 32:
                raise ConfigError(f"{name}: expected a whole number from {lowest}, below 2^32, found {brief(value)}")


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


class Wanted(NamedTuple):
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
    def of(cls, metrics: Sequence[Metric], convention: Convention) -> Wanted:
        """What these metrics are made of; those of items and groups are made of something else."""
        metrics = [metric for metric in metrics if metric.definition.by_user]
        found = {tally for metric in metrics for tally in tallies(metric, convention)}
        across = tuple(metric.k for metric in metrics if metric.definition.across_users)
        return cls(tuple(sorted(found)), across, max((k for k in cut_offs(metrics) if k is not None), default=0))


_SETS = ("all", "truth", "relevant", "predicted", "truth_and_predicted")


SCORE_EDGES = "edges of score ranges"
"""Name of the scores that cut the pairs of a model into ranges of about equal size, among the totals."""

PAIRS_A_RANGE, MOST_RANGES = 1_000_000, 64
"""How many pairs a range of scores has at most, as long as there are no more ranges than these."""

_STEPS = np.arange(1, MOST_RANGES) / MOST_RANGES


def with_pairs(k: int | None) -> str:
    """Name of the user set with a matched pair within k, among the totals."""
    return f"users_with_pairs_{k}"


# The square of a very large error is infinite, and how far it is from an infinite mean is no number: no reason to warn.
@np.errstate(over="ignore", invalid="ignore")
def part_totals(rows: pd.DataFrame, wanted: Wanted) -> pd.DataFrame:
    """What a part of the rows of PER_USER adds to the totals: few rows, however many users there are.

    Args:
        rows: Some rows of PER_USER.
        wanted: What is asked for.

    Returns:
        `schema.TOTALS`, one row per model and name of a tally, user set (`users_…`), counter or moment: the number of values,
        their sum, the sum of their squared deviations from their own mean, the undefined ones, the sums of a pooled metric,
        and of what is perhaps to be reported, up to five users.
    """
    import pandas as pd

    found: list[tuple[Any, ...]] = []
    whole = {str(name): column.to_numpy() for name, column in rows.items()}
    sets = (*_SETS, *([RATED] if "n_pairs" in rows else []))
    for model in rows["model"].unique():
        of_model = whole["model"] == model
        own = {name: values if of_model.all() else values[of_model] for name, values in whole.items()}
        belongs = {users: _belongs(own, users) for users in {*sets, *(tally.users for tally in wanted.tallies)}}
        found += [(model, f"users_{users}", int(belongs[users].sum()), 0.0, 0.0, 0, 0.0, 0.0, []) for users in sets]
        listed = belongs["predicted"]
        told = {
            "users_without_list": belongs["truth"] & ~listed,
            "users_without_truth": listed & ~belongs["truth"],
            "users_with_short_list": listed & (_numbers(own["n_recommended"]) < wanted.largest_cut),
            "users_with_tie_at_cut": _numbers(own["n_tied_at_cut"]) > 0,
        }
        found += [
            (model, name, int(which.sum()), 0.0, 0.0, 0, 0.0, 0.0, _examples(own["user"], which))
            for name, which in told.items()
        ]
        if wanted.cuts:
            # Few rows have pairs, those of many users.
            known = np.array([ranks is not None for ranks in own[PAIR_RANKS]])
            pairs = [own[name][known] for name in (PAIR_RANKS, PAIR_STARTS)]
            # The first pair of a user has the smallest rank.
            first = np.concatenate([np.zeros(0), *(np.abs(ranks[starts]) for ranks, starts in zip(*pairs, strict=True))])
            within = {with_pairs(k): int((first <= (k or np.inf)).sum()) for k in wanted.cuts}
            found += [(model, name, n, 0.0, 0.0, 0, 0.0, 0.0, []) for name, n in within.items()]
            scores = np.concatenate([np.zeros(0), *own[PAIR_SCORES][known]])
            edges = np.quantile(scores, _STEPS, method="lower") if len(scores) else ()
            # The first edge of a part carries how many pairs the part has.
            counts = [len(scores), *[0] * len(edges)]
            found += [
                (model, SCORE_EDGES, n, float(edge), 0.0, 0, 0.0, 0.0, []) for edge, n in zip(edges, counts, strict=False)
            ]
        for name in (*COUNTERS, *Moments._fields):
            if name in own:
                values = _numbers(own[name])
                known = values[~np.isnan(values)]
                examples = _examples(own["user"], values > 0) if name in FAULTS else []
                found.append((model, name, len(known), float(known.sum()), 0.0, 0, 0.0, 0.0, examples))
        for tally in wanted.tallies:
            members = belongs[tally.users]
            values = _numbers(own[tally.column])[members]
            missing = np.isnan(values)
            counted = np.where(missing, 0.0, values) if tally.as_zero else values[~missing]
            mean = counted.mean() if len(counted) else 0.0
            deviation = float(((counted - mean) ** 2).sum())
            sums = [
                float(_numbers(own[f"{tally.column}_{of}"])[members].sum()) if tally.pooled else 0.0
                for of in ("total", "count")
            ]
            found.append((model, tally.name, len(counted), float(counted.sum()), deviation, int(missing.sum()), *sums, []))
    columns = ["model", "name", "n", "sum", "deviation", "undefined", "total", "count", "examples"]
    return pd.DataFrame(found, columns=columns)


def _examples(users: Any, which: Any) -> list[str]:
    """Up to five users, as text. Of each part the same ones in every run, whatever the order of its rows."""
    return _first(str(user) for user in users[which])


def _first(users: Iterable[str]) -> list[str]:
    # By length first, numbers come in their own order.
    return nsmallest(N_EXAMPLES, users, key=lambda user: (len(user), user))


def _belongs(own: Mapping[str, Any], users: str) -> Any:
    found = np.ones(len(own["model"]), dtype=bool)
    for counter in MEMBERS[users]:
        # A counter that is missing is NaN, which is not above 0.
        found &= _numbers(own[counter]) > 0
    return found


def _numbers(values: Any) -> Any:
    """A column as doubles, None as NaN."""
    return np.asarray(values, dtype=np.float64)


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
        | {name: _first(users) for name, users in examples[model].items() if users}
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
    values = _numbers(rows[drawn.column])
    return np.where(_belongs(rows, drawn.users), np.nan_to_num(values, nan=0.0) if drawn.as_zero else values, np.nan)


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
