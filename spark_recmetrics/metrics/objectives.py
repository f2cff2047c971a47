"""Objectives: several metrics of a model combined into a distance, a volume, and Pareto optimality.

They are computed from the values of models, not from lists or ratings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast, get_args

from spark_recmetrics.errors import ConfigError, check_argument
from spark_recmetrics.metrics.parsing import parse
from spark_recmetrics.metrics.registry import COMBINED, Metric, register
from spark_recmetrics.text import brief, did_you_mean

Point = Literal["utopia", "nadir"]

_POINTS = get_args(Point)

_LARGEST = 1e100
"""The largest coordinate of a point. Volumes of larger ones would be infinite."""


def equal(value: float, other: float) -> bool:
    """Whether two means are equal up to the rounding errors of sums in another order."""
    return math.isclose(value, other, rel_tol=1e-12, abs_tol=1e-12)


@dataclass(frozen=True)
class Objective:
    """A metric to optimize, and the points with which its value is compared."""

    metric: Metric  # with its cut-off
    utopia: float | None = None  # the best possible value
    nadir: float | None = None  # the worst acceptable value

    def ahead(self, value: float, other: float) -> float:
        """By how much a value is better than another; 0 if they are `equal`."""
        if equal(value, other):
            return 0.0
        return value - other if self.metric.definition.higher_is_better else other - value


@register("euc_distance", kind="objective", aliases=("euclidean_distance", "eucdistance"), higher_is_better=False, upper=None)
def euclidean_distance(values: Sequence[float], objectives: Sequence[Objective]) -> float:
    """Distance of a model from the utopia point: sqrt(sum of (value - utopia)^2 over the objectives).

    Returns:
        A distance of 0 or more. Undefined if a value is undefined.

    Source:
        WarpRec 1.4.6, its metric EucDistance.

    Example:
        >>> goals = [Objective(parse("ndcg@10"), utopia=1.0), Objective(parse("item_coverage@10"), utopia=1.0)]
        >>> euclidean_distance([0.75, 1.0], goals), round(euclidean_distance([0.0, 0.0], goals) ** 2, 12)
        (0.25, 2.0)
    """
    return math.dist(values, [cast("float", goal.utopia) for goal in objectives])


@register("hypervolume", kind="objective", aliases=("hyper_volume",), upper=None)
def hypervolume(values: Sequence[float], objectives: Sequence[Objective]) -> float:
    """Volume between a model and the nadir point: product of max(value - nadir, 0) over the objectives.

    For metrics that are better if lower, the factor is max(nadir - value, 0).

    Returns:
        A volume of 0 or more; 0 if a value is not better than its nadir. Undefined if a value is undefined.

    Source:
        Zitzler and Thiele, Multiobjective evolutionary algorithms: a comparative case study and the strength Pareto approach,
        IEEE Transactions on Evolutionary Computation 3(4), 1999, for a single point; WarpRec 1.4.6, its metric Hypervolume.

    Example:
        >>> goals = [Objective(parse("ndcg@10"), nadir=0.25), Objective(parse("gini@10"), nadir=1.0)]
        >>> hypervolume([0.75, 0.5], goals), hypervolume([0.25, 0.5], goals)
        (0.25, 0.0)
    """
    gains = (goal.ahead(value, cast("float", goal.nadir)) for value, goal in zip(values, objectives, strict=True))
    return math.prod(max(gain, 0.0) for gain in gains)


class Standing(NamedTuple):
    """A model compared with others. Pareto-optimal: no other is at least as good in every objective and better in one."""

    k: int | None  # the cut-off of the objectives
    model: str
    values: Mapping[str, float | None]  # of each objective, by the string of the metric; None is undefined
    optimal: bool | None  # None if a value is undefined
    dominated_by: tuple[str, ...]
    reason: str | None  # why `optimal` is None


@dataclass(frozen=True)
class Objectives:
    """Objectives that are combined."""

    k: int | None  # their common cut-off, if they have one
    goals: tuple[Objective, ...]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that can be computed: every objective has the point that they need."""
        points = {"euc_distance": "utopia", "hypervolume": "nadir"}
        names = (name for name, point in points.items() if all(getattr(goal, point) is not None for goal in self.goals))
        return tuple(Metric(name, k=self.k) for name in names)

    def undefined(self, values: Mapping[Metric, float | None]) -> str | None:
        """Why the objectives cannot be combined for a model, None if they can."""
        missing = [str(goal.metric) for goal in self.goals if values.get(goal.metric) is None]
        verb = "is" if len(missing) == 1 else "are"
        return f"{' and '.join(missing)} {verb} undefined" if missing else None

    def value(self, metric: Metric, values: Mapping[Metric, float | None]) -> float | None:
        """The value of one of `metrics` for a model with these values of the objectives."""
        if self.undefined(values) is not None:
            return None
        value = float(metric.definition.compute(self._vector(values), self.goals))
        return None if math.isnan(value) else value

    def standings(self, models: Mapping[str, Mapping[Metric, float | None]]) -> list[Standing]:
        """Which models are Pareto-optimal, and which dominate the others. A model with an undefined value is not compared."""
        vectors = {model: self._vector(values) for model, values in models.items() if self.undefined(values) is None}
        standings = []
        for model, values in models.items():
            vector, reason = vectors.get(model), self.undefined(values)
            better = tuple(other for other, ahead in vectors.items() if vector is not None and self._dominates(ahead, vector))
            by_metric = {str(goal.metric): values.get(goal.metric) for goal in self.goals}
            standings.append(Standing(self.k, model, by_metric, None if vector is None else not better, better, reason))
        return standings

    def _vector(self, values: Mapping[Metric, float | None]) -> list[float]:
        """The value of each objective, all of them defined."""
        return [cast("float", values[goal.metric]) for goal in self.goals]

    def _dominates(self, values: Sequence[float], others: Sequence[float]) -> bool:
        ahead = [goal.ahead(a, b) for goal, a, b in zip(self.goals, values, others, strict=True)]
        return all(by >= 0 for by in ahead) and any(by > 0 for by in ahead)


def read_objectives(given: Any, metrics: Sequence[Metric]) -> tuple[Objectives, ...]:
    """The objectives that strings name, once for each cut-off at which all of them are evaluated.

    They are given by metric, with the points `utopia` and `nadir`. A missing point is the bound of the metric's values, if it
    has one. A metric without a cut-off stands for all its evaluated cut-offs. A `ConfigError` has a line for each error.
    """
    objectives, problems = checked_objectives(given, metrics)
    if problems:
        raise ConfigError("\n".join(f"{'.'.join(('objectives', *keys))}: {message}" for keys, message in problems.items()))
    return objectives


def checked_objectives(given: Any, metrics: Sequence[Metric]) -> tuple[tuple[Objectives, ...], dict[tuple[str, ...], str]]:
    """As `read_objectives`, but with the errors by key below `objectives` instead of an exception."""
    if not isinstance(given, Mapping | None):
        return (), {(): f"expected a mapping of metrics to their points, found {brief(given)}"}
    named, problems = dict[Metric, tuple[float | None, float | None]](), dict[tuple[str, ...], str]()
    for text, points in (given or {}).items():
        try:
            metric = _evaluated(text, metrics)
            if metric in named:
                raise ConfigError(f"{metric} is given twice")  # noqa: TRY301 - collected below
            named[metric] = _points(metric, points)
        except ConfigError as error:  # noqa: PERF203 - one message for each metric
            point, _, message = str(error).partition(": ")
            names_point = bool(message) and point in _POINTS
            problems[(str(text), point) if names_point else (str(text),)] = message if names_point else str(error)
    return ((), problems) if problems or not named else _by_cut_off(named, metrics)


def _by_cut_off(
    named: Mapping[Metric, tuple[float | None, float | None]], metrics: Sequence[Metric]
) -> tuple[tuple[Objectives, ...], dict[tuple[str, ...], str]]:
    """The objectives at each cut-off that all metrics without a cut-off share, or what is wrong with them."""
    # A metric without a cut-off stands for its metric at every cut-off.
    cuts = {
        metric: [evaluated.k for evaluated in metrics if evaluated.at(None) == metric]
        for metric in named
        if metric.k is None and metric.definition.has_cut_off
    }
    shared = [k for k in next(iter(cuts.values()), ()) if all(k in metric_cuts for metric_cuts in cuts.values())]
    if cuts and not shared:
        evaluated = "; ".join(f"{metric} at {', '.join(str(k or 'no cut-off') for k in ks)}" for metric, ks in cuts.items())
        return (), {(): f"expected a cut-off at which all of them are evaluated, found {evaluated}"}
    if not cuts:
        given_cuts = {metric.k for metric in named if metric.definition.has_cut_off}
        shared = [given_cuts.pop() if len(given_cuts) == 1 else None]
    twice = [metric for metric in named if metric not in cuts and metric.k in shared and metric.at(None) in cuts]
    if twice:
        return (), {(str(metric),): f"{metric} is given twice: {metric.at(None)} includes it" for metric in twice}
    return tuple(
        Objectives(k, tuple(Objective(m.at(k) if m in cuts else m, *points) for m, points in named.items())) for k in shared
    ), {}


def _evaluated(text: Any, metrics: Iterable[Metric]) -> Metric:
    metric = parse(text)
    if metric.name in COMBINED:
        raise ConfigError(f"{metric} is computed from objectives, and cannot be one")
    evaluated = dict.fromkeys(str(cut) for each in metrics for cut in (each, each.at(None)))
    if str(metric) not in evaluated:
        raise ConfigError(f"{metric} is not evaluated{did_you_mean(str(metric), evaluated)}")
    return metric


def _points(metric: Metric, points: Any) -> tuple[float | None, float | None]:
    if not isinstance(points, Mapping | None):
        raise ConfigError(f"expected a mapping with optional utopia and nadir, found {brief(points)}")
    definition = metric.definition
    bounds = (definition.upper, definition.lower) if definition.higher_is_better else (definition.lower, definition.upper)
    values = dict(zip(_POINTS, bounds, strict=True))
    for name, value in (points or {}).items():
        if name not in _POINTS:
            raise ConfigError(f"unknown key {brief(name)}{did_you_mean(str(name), _POINTS)}")
        if value is not None:
            values[name] = _coordinate(name, value)
    utopia, nadir = values["utopia"], values["nadir"]
    if utopia is not None and nadir is not None and Objective(metric).ahead(utopia, nadir) <= 0:
        side, better = ("above", "higher") if definition.higher_is_better else ("below", "lower")
        raise ConfigError(
            f"utopia: expected a number {side} the nadir, which is {nadir:g}, because {metric} is better if {better}, "
            f"found {utopia:g}"
        )
    return utopia, nadir


def _coordinate(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == math.inf:
        raise ConfigError(f"{name}: expected a finite number, found {brief(value)}")
    check_argument(name, value, f"a number from -{_LARGEST:g} to {_LARGEST:g}", valid=abs(value) <= _LARGEST)
    return float(value)
