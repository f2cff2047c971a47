"""Objectives: metrics of one model taken together, as a distance, a volume, and the models that no other one beats.

They are made of the values of models, so that nothing is computed from lists or ratings for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics.parsing import parse
from spark_recmetrics.metrics.registry import COMBINED, Metric, register
from spark_recmetrics.text import brief, did_you_mean

Point = Literal["utopia", "nadir"]

_LARGEST = 1e100
"""Of points: volumes of larger ones are infinite."""

_POINTS = get_args(Point)


def equal(value: float, other: float) -> bool:
    """Whether two means are one: sums in another order differ by their last digits."""
    return math.isclose(value, other, rel_tol=1e-12, abs_tol=1e-12)


@dataclass(frozen=True)
class Objective:
    """A metric that is wanted to be good, and what its value is measured against.

    Args:
        metric: The metric, with its cut-off.
        utopia: The best value that there could be; None: not known.
        nadir: A value that is as bad as is worth looking at; None: not known.
    """

    metric: Metric
    utopia: float | None = None
    nadir: float | None = None

    def ahead(self, value: float, other: float) -> float:
        """By how much a value is better than another; nothing where they differ by what adding up in another order does."""
        if equal(value, other):
            return 0.0
        return value - other if self.metric.definition.higher_is_better else other - value


@register("euc_distance", kind="objective", aliases=("euclidean_distance", "eucdistance"), higher_is_better=False, upper=None)
def euclidean_distance(values: Sequence[float], objectives: Sequence[Objective]) -> float:
    """How far a model is from the best that there could be: sqrt(sum of (value - utopia)^2 over the objectives).

    Args:
        values: The model's value of each objective.
        objectives: The objectives, all with a utopia.

    Returns:
        A distance from 0. Undefined where a value is.

    Source:
        WarpRec 1.4.6, its metric EucDistance.

    Example:
        Three quarters and 1 of what could be 1 and 1; then 0 and 0:

        >>> goals = [Objective(parse("ndcg@10"), utopia=1.0), Objective(parse("item_coverage@10"), utopia=1.0)]
        >>> euclidean_distance([0.75, 1.0], goals), round(euclidean_distance([0.0, 0.0], goals) ** 2, 12)
        (0.25, 2.0)
    """
    return math.dist(values, [_known(goal.utopia) for goal in objectives])


@register("hypervolume", kind="objective", aliases=("hyper_volume",), upper=None)
def hypervolume(values: Sequence[float], objectives: Sequence[Objective]) -> float:
    """The volume that a model dominates over a bad point: product of max(value - nadir, 0) over the objectives.

    Of metrics that are better if lower it is max(nadir - value, 0).

    Args:
        values: The model's value of each objective.
        objectives: The objectives, all with a nadir.

    Returns:
        A volume from 0, and 0 where one value is no better than its nadir. Undefined where a value is.

    Source:
        Zitzler and Thiele, Multiobjective evolutionary algorithms: a comparative case study and the strength Pareto approach,
        IEEE Transactions on Evolutionary Computation 3(4), 1999, of a single point; WarpRec 1.4.6, its metric Hypervolume.

    Example:
        >>> goals = [Objective(parse("ndcg@10"), nadir=0.25), Objective(parse("gini@10"), nadir=1.0)]
        >>> hypervolume([0.75, 0.5], goals), hypervolume([0.25, 0.5], goals)
        (0.25, 0.0)
    """
    return math.prod(max(goal.ahead(value, _known(goal.nadir)), 0.0) for value, goal in zip(values, objectives, strict=True))


class Standing(NamedTuple):
    """Where a model stands among the models of a run.

    Args:
        k: The cut-off of the objectives.
        model: The model.
        values: Its value of each objective, by the text of the metric; None is undefined.
        optimal: Whether no other model dominates it: is as good in every objective and better in one. None where it cannot be
            known.
        dominated_by: The models that do.
        reason: Why it cannot be known.
    """

    k: int | None
    model: str
    values: Mapping[str, float | None]
    optimal: bool | None
    dominated_by: tuple[str, ...]
    reason: str | None


@dataclass(frozen=True)
class Objectives:
    """Objectives that are looked at together.

    Args:
        k: Their cut-off, None where they have none in common.
        goals: The objectives.
    """

    k: int | None
    goals: tuple[Objective, ...]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that are made of them: those for which every objective has its point."""
        points = {"euc_distance": "utopia", "hypervolume": "nadir"}
        known = (name for name, point in points.items() if all(getattr(goal, point) is not None for goal in self.goals))
        return tuple(Metric(name, k=self.k) for name in known)

    def undefined(self, values: Mapping[Metric, float | None]) -> str | None:
        """Why nothing can be made of the values of a model, None if it can."""
        missing = [str(goal.metric) for goal in self.goals if values.get(goal.metric) is None]
        verb = "is" if len(missing) == 1 else "are"
        return f"{' and '.join(missing)} {verb} undefined" if missing else None

    def value(self, metric: Metric, values: Mapping[Metric, float | None]) -> float | None:
        """The value of one of `metrics` for one model.

        Args:
            metric: The metric.
            values: The model's values of the objectives.
        """
        if self.undefined(values) is not None:
            return None
        found = float(metric.definition.compute(self._vector(values), self.goals))
        return None if math.isnan(found) else found

    def standings(self, models: Mapping[str, Mapping[Metric, float | None]]) -> list[Standing]:
        """Which models are Pareto-optimal, and which ones dominate the others. A model alone is optimal.

        Args:
            models: By model, its values. A model with an undefined value is neither better nor worse than another.

        Example:
            >>> goals = Objectives(10, (Objective(parse("ndcg@10")), Objective(parse("gini@10"))))
            >>> ndcg, gini = (goal.metric for goal in goals.goals)
            >>> of = {"als": {ndcg: 0.3, gini: 0.5}, "pop": {ndcg: 0.2, gini: 0.9}, "random": {ndcg: 0.0, gini: 0.1}}
            >>> [(one.model, one.optimal, one.dominated_by) for one in goals.standings(of)]
            [('als', True, ()), ('pop', False, ('als',)), ('random', True, ())]
        """
        known = {model: self._vector(own) for model, own in models.items() if self.undefined(own) is None}
        found = []
        for model, own in models.items():
            better = tuple(other for other, vector in known.items() if model in known and self._dominates(vector, known[model]))
            values = {str(goal.metric): own.get(goal.metric) for goal in self.goals}
            optimal = None if model not in known else not better
            found.append(Standing(self.k, model, values, optimal, better, self.undefined(own)))
        return found

    def _vector(self, values: Mapping[Metric, float | None]) -> list[float]:
        return [_known(values[goal.metric]) for goal in self.goals]

    def _dominates(self, one: Sequence[float], other: Sequence[float]) -> bool:
        ahead = [goal.ahead(a, b) for goal, a, b in zip(self.goals, one, other, strict=True)]
        return all(by >= 0 for by in ahead) and any(by > 0 for by in ahead)


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("a point or a value is not known: look at Objectives.metrics and undefined first")
    return value


# Reading ------------------------------------------------------------------------------------------------------------------


def read_objectives(given: Any, metrics: Sequence[Metric]) -> tuple[Objectives, ...]:
    """The objectives that texts name, once for each cut-off at which all of them are evaluated.

    Args:
        given: Metric -> its points, a mapping that may have `utopia` and `nadir`; None: no objectives. A point that is left out
            is the bound of the metric's values, if it has one. A metric without a cut-off stands for itself at every cut-off of
            the evaluation.
        metrics: The metrics that are evaluated.

    Raises:
        ConfigError: Something is wrong; a line for each thing.

    Example:
        >>> asked = [parse(text) for text in ("ndcg@5", "ndcg@10", "gini@5", "gini@10", "rmse")]
        >>> for one in read_objectives({"ndcg": {"nadir": 0.1}, "gini": {}, "rmse": {"nadir": 2}}, asked):
        ...     print(*one.metrics, [(str(goal.metric), goal.utopia, goal.nadir) for goal in one.goals])
        euc_distance@5 hypervolume@5 [('ndcg@5', 1.0, 0.1), ('gini@5', 0.0, 1.0), ('rmse', 0.0, 2.0)]
        euc_distance@10 hypervolume@10 [('ndcg@10', 1.0, 0.1), ('gini@10', 0.0, 1.0), ('rmse', 0.0, 2.0)]
    """
    found, problems = checked_objectives(given, metrics)
    if problems:
        raise ConfigError("\n".join(f"{'.'.join(('objectives', *keys))}: {told}" for keys, told in problems.items()))
    return found


def checked_objectives(given: Any, metrics: Sequence[Metric]) -> tuple[tuple[Objectives, ...], dict[tuple[str, ...], str]]:
    """The objectives that texts name, or what is wrong with them, by the keys below them.

    Args:
        given: As for `read_objectives`.
        metrics: The metrics that are evaluated.
    """
    if not isinstance(given, Mapping | None):
        return (), {(): f"expected a mapping of metrics to their points, found {brief(given)}"}
    named, problems = dict[Metric, tuple[float | None, float | None]](), dict[tuple[str, ...], str]()
    for text, points in (given or {}).items():
        try:
            metric = _evaluated(text, metrics)
            if metric in named:
                raise ConfigError(f"{metric} is given twice")  # noqa: TRY301 - collected below
            named[metric] = _points(metric, points)
        except ConfigError as error:  # noqa: PERF203 - one message for each of them
            place, colon, told = str(error).partition(": ")
            inside = bool(colon) and place in _POINTS
            problems[(str(text), place) if inside else (str(text),)] = told if inside else str(error)
    if problems or not named:
        return (), problems
    cuts = {metric: [own.k for own in metrics if own.at(None) == metric] for metric in named if _floats(metric)}
    shared = [k for k in next(iter(cuts.values()), ()) if all(k in own for own in cuts.values())]
    if cuts and not shared:
        told = "; ".join(f"{metric} at {', '.join(str(k or 'no cut-off') for k in own)}" for metric, own in cuts.items())
        return (), {(): f"expected a cut-off at which all of them are evaluated, found {told}"}
    if not cuts:
        own_cuts = {metric.k for metric in named if metric.definition.has_cut_off}
        shared = [own_cuts.pop() if len(own_cuts) == 1 else None]
    doubled = [metric for metric in named if metric not in cuts and metric.k in shared and metric.at(None) in cuts]
    if doubled:
        return (), {(str(one),): f"{one} is given twice: {one.at(None)} is it, too" for one in doubled}
    return tuple(
        Objectives(k, tuple(Objective(m.at(k) if m in cuts else m, *points) for m, points in named.items())) for k in shared
    ), {}


def _floats(metric: Metric) -> bool:
    """Whether an objective stands for its metric at every cut-off."""
    return metric.k is None and metric.definition.has_cut_off


def _evaluated(text: Any, metrics: Iterable[Metric]) -> Metric:
    metric = parse(text)
    if metric.name in COMBINED:
        raise ConfigError(f"{metric} is made of objectives, and cannot be one")
    known = dict.fromkeys(_spellings(metrics))
    if str(metric) not in known:
        raise ConfigError(f"{metric} is not evaluated{did_you_mean(str(metric), known)}")
    return metric


def _spellings(metrics: Iterable[Metric]) -> Iterator[str]:
    for metric in metrics:
        yield str(metric)
        yield str(metric.at(None))


def _points(metric: Metric, points: Any) -> tuple[float | None, float | None]:
    if not isinstance(points, Mapping | None):
        raise ConfigError(f"expected a mapping that may have utopia and nadir, found {brief(points)}")
    definition = metric.definition
    bounds = (definition.upper, definition.lower) if definition.higher_is_better else (definition.lower, definition.upper)
    found = dict(zip(_POINTS, bounds, strict=True))
    for name, value in (points or {}).items():
        if name not in _POINTS:
            raise ConfigError(f"unknown key {brief(name)}{did_you_mean(str(name), _POINTS)}")
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == math.inf:
            raise ConfigError(f"{name}: expected a finite number, found {brief(value)}")
        if abs(value) > _LARGEST:
            raise ConfigError(f"{name}: expected a number from -{_LARGEST:g} to {_LARGEST:g}, found {brief(value)}")
        found[name] = float(value)
    utopia, nadir = found["utopia"], found["nadir"]
    if utopia is not None and nadir is not None and Objective(metric).ahead(utopia, nadir) <= 0:
        better = "above" if definition.higher_is_better else "below"
        raise ConfigError(
            f"utopia: expected a number {better} the nadir, which is {nadir:g}, because {metric} is better if "
            f"{'higher' if definition.higher_is_better else 'lower'}, found {utopia:g}"
        )
    return utopia, nadir
