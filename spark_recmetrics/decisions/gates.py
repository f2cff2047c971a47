"""Gates: conditions on the metrics of a run. A gate that fails stops a pipeline."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import Strict

from spark_recmetrics.errors import ConfigError, check_argument
from spark_recmetrics.metrics import Metric, parse
from spark_recmetrics.runs.references import (
    Reference,
    Row,
    drop_of,
    drops_against,
    has_value,
    last_reference,
    model_reference,
    run_reference,
    same_metric,
    variance_of,
)
from spark_recmetrics.stats import confidence_sequence, false_alarm_rate
from spark_recmetrics.stats.result import count, number
from spark_recmetrics.text import brief, did_you_mean, printable

Severity = Literal["fail", "warn"]
Missing = Literal["pass", "fail"]
Significant = Literal[False, True, "all_runs"]

_AGAINST = re.compile(r"previous|median\((?P<n>[1-9]\d{0,2})\)|(?P<kind>run|model)\((?P<name>.+)\)", re.DOTALL)

ALPHA = 0.05
"""Significance level: of the test in one run, and of the confidence sequence over all runs."""

N_TARGET = 90
"""Number of runs at which the confidence sequence is narrowest. Compared with a target of 365 runs, it is a fifth narrower
after 30 runs and 3 % wider after 365."""

FEWEST_RUNS = 30
"""With fewer runs the confidence sequence is too narrow, see `stats.confidence_sequence`."""

RUNS_PER_YEAR = 365

NOISE = 1e-12
"""Values that differ by less, absolute or relative, are equal: the order of summation changes the last bits."""

_Number = Annotated[float, Strict()]


@dataclass(frozen=True)
class Gate:
    """One condition on one metric of each model.

    `min` and `max` bound the value. `max_drop` and `max_drop_share` bound how much worse the value is than the reference
    `against`: reference - value where higher is better, value - reference where lower is better.

    Args:
        metric: Metric, such as `ndcg@10`.
        model: Model to check. None: all models, except the reference of `against: model(NAME)`.
        min: Lowest value that passes.
        max: Highest value that passes.
        max_drop: Largest drop that passes, at least 0.
        max_drop_share: Largest drop that passes, as a share of the reference, at least 0.
        against: Reference: `previous`, the previous run of the job; `median(N)`, the median of the last N runs; `run(ID)`,
            a run by its id; or `model(NAME)`, another model of the same run.
        significant: Whether a drop against `model(NAME)` must also be statistically significant to fail. True: the drop of this
            run, by a paired t test at 5 %. `all_runs`: the 95 % confidence sequence of the mean drop over all runs of the job
            must be above the allowed drop. If the true mean drop is allowed, at most 5 % of such gates ever fail, however
            many runs there are.
        min_users: Fewest evaluated users that the value needs.
        missing: Result if there is no reference (first run), or `all_runs` has fewer than 30 runs: `pass` or `fail`.
        severity: `fail` ends the job with exit code 3, `warn` only reports.

    Raises:
        ConfigError: A field is invalid, or the fields contradict each other.

    Example:
        >>> Gate("ndcg@10", max_drop_share=0.02, against="previous").text
        'ndcg@10: max_drop_share 0.02 against previous'
        >>> Gate("ndcg@10", max_drop=0, against="model(popularity)", significant="all_runs").text
        'ndcg@10: max_drop 0 against model(popularity), significant over all runs'
        >>> Gate("ndcg@10")
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: expected one of min, max, max_drop, max_drop_share, found none
    """

    metric: str
    model: str | None = None
    min: _Number | None = None
    max: _Number | None = None
    max_drop: _Number | None = None
    max_drop_share: _Number | None = None
    against: str | None = None
    significant: Significant = False
    min_users: Annotated[int, Strict()] = 0
    missing: Missing = "pass"
    severity: Severity = "fail"

    def __post_init__(self) -> None:
        self._check_options()
        self._check_limits()
        self._check_reference()
        object.__setattr__(self, "metric", str(parse(self.metric)))

    def _check_options(self) -> None:
        for name, choices in (("missing", get_args(Missing)), ("severity", get_args(Severity))):
            check_argument(name, getattr(self, name), " or ".join(choices), valid=getattr(self, name) in choices)
        is_choice = isinstance(self.significant, bool) or self.significant == "all_runs"
        check_argument("significant", self.significant, "true, false or all_runs", valid=is_choice)
        if self.model is not None and (not isinstance(self.model, str) or not self.model):
            raise ConfigError(f"model: expected the name of a model, found {brief(self.model)}")
        count(self.min_users, "min_users")

    def _check_limits(self) -> None:
        if not self.limits:
            raise ConfigError(f"expected one of {', '.join(_LIMITS)}, found none")
        for name, limit in self.limits.items():
            is_possible = number(limit, name) >= 0 or not name.startswith("max_drop")
            check_argument(name, limit, "a number of at least 0", valid=is_possible)
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ConfigError(f"min: expected at most max, which is {self.max:g}, found {self.min:g}")

    def _check_reference(self) -> None:
        drops = [name for name in self.limits if name.startswith("max_drop")]
        if bool(drops) != (self.against is not None):
            given = f"{drops[0]} alone" if drops else f"against {self.against!r} alone"
            raise ConfigError(f"expected max_drop or max_drop_share together with against, found {given}")
        if self.against is not None and not (isinstance(self.against, str) and _AGAINST.fullmatch(self.against)):
            raise ConfigError(f"against: expected previous, median(N), run(ID) or model(NAME), found {brief(self.against)}")
        if self.model is not None and self.model == self.baseline:
            raise ConfigError(f"against: expected a model other than {self.model!r}, which the gate checks, found the same")
        if self.significant and self.baseline is None:
            raise ConfigError(f"significant: expected against: model(NAME), because users are paired, found {self.against!r}")

    @property
    def limits(self) -> dict[str, float]:
        """The bounds that are given."""
        return {name: getattr(self, name) for name in _LIMITS if getattr(self, name) is not None}

    @property
    def baseline(self) -> str | None:
        """The name in `against: model(NAME)`."""
        match = _AGAINST.fullmatch(self.against or "")
        return match["name"] if match and match["kind"] == "model" else None

    @property
    def needs_history(self) -> bool:
        """Whether the gate reads previous runs."""
        return self.against is not None and (self.baseline is None or self.significant == "all_runs")

    @property
    def needs_pairs(self) -> bool:
        """Whether the gate compares two models user by user, for its test or its false alarm rate."""
        return parse(self.metric).has_users and self.baseline is not None and self.significant != "all_runs"

    @property
    def text(self) -> str:
        """The condition on one line."""
        bounds = ", ".join(f"{name} {limit:g}" for name, limit in self.limits.items())
        tested = {True: ", significant", "all_runs": ", significant over all runs"}.get(self.significant, "")
        return f"{self.metric}: {bounds}" + (f" against {self.against}{tested}" if self.against else "")

    def allowed(self, reference: float) -> float:
        """Largest drop from this reference that passes: the stricter of the two limits."""
        share = math.inf if self.max_drop_share is None else self.max_drop_share * abs(reference)
        return min(share, math.inf if self.max_drop is None else self.max_drop)


_LIMITS = ("min", "max", "max_drop", "max_drop_share")


def problems_of(gate: Gate, metrics: Sequence[Metric], *, dated: bool) -> dict[str, str]:
    """Why the gate cannot be checked in a run with these metrics, by field; `dated`: the run has an `as_of`."""
    evaluated, problems = [str(metric) for metric in metrics], dict[str, str]()
    if gate.metric not in evaluated:
        problems["metric"] = f"{gate.metric} is not evaluated{did_you_mean(gate.metric, evaluated)}"
    if gate.significant is True and not parse(gate.metric).has_users:
        problems["significant"] = f"{gate.metric} cannot be tested, because it has no value for each user"
    if gate.needs_history and not dated:
        key = "against" if gate.baseline is None else "significant"
        problems[key] = f"{getattr(gate, key)} needs an as_of, which orders the runs"
    return problems


def limit_problems(gate: Gate) -> dict[str, str]:
    """By field, limits with which the gate could never fail or never pass. `min` or `max` at the end of the range may be."""
    definition, problems = parse(gate.metric).definition, dict[str, str]()
    lower = -math.inf if definition.lower is None else definition.lower
    upper = math.inf if definition.upper is None else definition.upper
    values = f"values of {gate.metric} are from {lower:g} to {upper:g}"
    for name, limit in (("min", gate.min), ("max", gate.max)):
        if limit is not None and not lower <= limit <= upper:
            can_pass = (name == "min") == (limit < lower)
            problems[name] = f"{values}, found {limit:g}: the gate could never {'fail' if can_pass else 'pass'}"
    if gate.max_drop is not None and gate.max_drop >= upper - lower:
        problems["max_drop"] = f"{values}, found {gate.max_drop:g}: the gate could never fail"
    share = gate.max_drop_share
    if share is not None and share >= 1 and definition.higher_is_better and lower >= 0:
        problems["max_drop_share"] = f"expected a number below 1, found {share:g}: the gate could never fail; 5 % is 0.05"
    return problems


class GateResult(NamedTuple):
    """One row of GATES: the result of a gate for one model."""

    gate: str  # the condition as text
    metric: str
    model: str | None  # None: the run has no model to check, so the gate fails
    value: float | None  # None is undefined
    n_users: int
    reference: float | None  # None: the gate has no reference, or none was available
    reference_run: str | None  # if the reference is from a single run
    drop: float | None  # how much worse the value is than the reference; below 0 it is better
    result: str  # pass, warn or fail
    reason: str
    false_alarm_rate: float | None  # probability that it fails in one run although the true drop is 0, if known
    false_alarm_rate_year: float | None  # that it fails in at least one of 365 independent runs; for all_runs an upper bound

    def line(self) -> str:
        """The result on one line, with the false alarm rate."""
        rate = ""
        if self.false_alarm_rate is not None:
            rate = f"; false alarm rate: {_rate(self.false_alarm_rate)} of runs"
        elif self.false_alarm_rate_year is not None:
            rate = f"; false alarm rate: at most {_rate(self.false_alarm_rate_year)} of years"
        model = "no model" if self.model is None else self.model
        return printable(f"{self.result.upper():<4}  {model}: {self.gate}: {self.reason}{rate}")


def _rate(rate: float) -> str:
    return f"{100 * rate:.2g} %" if rate >= 1e-4 else "below 0.01 %"


class _Decision(NamedTuple):
    """The result of one gate for one model, before `severity` applies. The rates are those of a run and of a year."""

    reason: str
    failed: bool
    reference: Reference = Reference()
    drop: float | None = None
    false_alarm_rates: tuple[float | None, float | None] = (None, None)


def check_gates(
    gates: Iterable[Gate], rows: Sequence[Row], history: Sequence[Row] = (), comparison: Sequence[Row] = ()
) -> list[GateResult]:
    """Check every gate against the values of a run.

    A gate also fails if there is nothing to check: the metric was not computed or is undefined, it has fewer evaluated users
    than `min_users`, the run has no model to check, or the reference was computed with another convention.

    `rows` and `history` are SUMMARY of the run and of previous runs of the job; rows of this run are ignored in the latter.
    `significant: true` and false alarm rates need `comparison`: COMPARISON of the run, by the paired t test at 0.05, with the
    models of `against: model(NAME)` as baselines.
    """
    results = []
    for gate in gates:
        models = {row["model"] for row in rows} - {gate.baseline} if gate.model is None else {gate.model}
        for model in sorted(models) or [None]:
            key = (model, gate.metric, "all")
            row = next((row for row in rows if (row["model"], row["metric"], row["slice"]) == key), None)
            problem = _problem_of_value(gate, model, row)
            if row is None or problem:
                decision = _Decision(problem, failed=True)
            else:
                decision = _decide(gate, row, rows, history, comparison)
            results.append(_result(gate, model, row, decision))
    return results


def _result(gate: Gate, model: str | None, row: Row | None, decision: _Decision) -> GateResult:
    value, n_users = (None, 0) if row is None else (row["value"], row["n_users"])
    compared = (decision.reference.value, decision.reference.run, decision.drop)
    level = gate.severity if decision.failed else "pass"
    return GateResult(
        gate.text, gate.metric, model, value, n_users, *compared, level, decision.reason, *decision.false_alarm_rates
    )


def _decide(gate: Gate, row: Row, rows: Sequence[Row], history: Sequence[Row], comparison: Sequence[Row]) -> _Decision:
    if gate.against is None:
        return _Decision(f"{row['value']:.4f} is within bounds", failed=False)
    reference = _reference(gate, row, rows, history)
    if reference.problem is not None:
        return _Decision(reference.problem, failed=True, reference=reference)
    if reference.value is None:
        done = "Skipped" if gate.missing == "pass" else "Failed"
        left_out = f"left out: {reference.left_out}; " if reference.left_out else ""
        reason = f"{done}: there is no previous run ({left_out}missing: {gate.missing})"
        return _Decision(reason, failed=gate.missing == "fail", reference=reference)
    if gate.significant == "all_runs":
        return _decide_over_all_runs(gate, row, reference, reference.value, history)
    return _decide_this_run(gate, row, reference, reference.value, comparison)


def _problem_of_value(gate: Gate, model: str | None, row: Row | None) -> str:
    """Why the value alone fails the gate; empty if it does not."""
    if model is None:
        return f"the run has no model{f' other than {gate.baseline}' if gate.baseline else ''} to check"
    if row is None:
        return "no value: the run has no such model or metric"
    if not has_value(row):
        return "the value is undefined"
    if row["n_users"] < gate.min_users:
        return f"{row['n_users']} evaluated users, expected at least {gate.min_users}"
    value = row["value"]
    if gate.min is not None and value < gate.min - _slack(value):
        return f"{value:.{_digits(value, gate.min)}f} is below min {gate.min:g}"
    if gate.max is not None and value > gate.max + _slack(value):
        return f"{value:.{_digits(value, gate.max)}f} is above max {gate.max:g}"
    return ""


def _reference(gate: Gate, row: Row, rows: Sequence[Row], history: Sequence[Row]) -> Reference:
    if gate.baseline is not None:
        return model_reference(row, rows, gate.baseline)
    match = _AGAINST.fullmatch(gate.against or "")
    if match is not None and match["kind"]:
        return run_reference(row, history, match["name"])
    return last_reference(row, history, int(match["n"] or 1) if match is not None else 1)


def _decide_over_all_runs(gate: Gate, row: Row, reference: Reference, value: float, history: Sequence[Row]) -> _Decision:
    drop, reason = drop_of(row, value), _compared(gate, row, reference, value)
    drops = drops_against(row, value, history, gate.baseline or "", gate.allowed)
    if len(drops.excess) < FEWEST_RUNS:
        reason += f"; {drops.text}, {FEWEST_RUNS} required (missing: {gate.missing})"
        return _Decision(reason, failed=gate.missing == "fail", reference=reference, drop=drop)
    interval = confidence_sequence([(1, excess, None) for excess in drops.excess], n_target=N_TARGET, alpha=ALPHA)[-1]
    reason += f"; over {drops.text} the mean drop is {(interval.mean or 0.0) + drops.allowed:.3g}"
    if interval.ci_low is None or interval.ci_high is None:
        reason += ", the same in every run"
    else:
        low, high = interval.ci_low + drops.allowed, interval.ci_high + drops.allowed
        reason += f", {100 * (1 - ALPHA):g} % confidence interval [{low:.3g}, {high:.3g}]"
    reason += f", allowed {drops.allowed:.4g}"
    # If all drops are equal there is no interval, and the mean decides.
    lowest = interval.mean if interval.ci_low is None else interval.ci_low
    failed = lowest is not None and lowest > _slack(row["value"])
    return _Decision(reason, failed, reference, drop, (None, ALPHA))


def _decide_this_run(gate: Gate, row: Row, reference: Reference, value: float, comparison: Sequence[Row]) -> _Decision:
    drop, allowed, pair = drop_of(row, value), gate.allowed(value), _pair_of(gate, row, comparison)
    rates = _false_alarm_rates(gate, row, reference, pair, allowed)
    decide = partial(_Decision, reference=reference, drop=drop, false_alarm_rates=rates)
    reason = _compared(gate, row, reference, value)
    if drop <= allowed + _slack(row["value"]):
        return decide(reason, failed=False)
    if not gate.significant:
        return decide(reason, failed=True)
    if pair is None or pair["p_value"] is None:
        return decide(f"{reason}; its significance cannot be tested", failed=True)
    # The test compares values per user. A pooled value, such as RMSE over all pairs, can point the other way.
    worse = pair["diff"] < 0 if row["higher_is_better"] else pair["diff"] > 0
    if not worse:
        return decide(f"{reason}; the mean over its {pair['n_users']} users is not worse", failed=False)
    p_value, users, least = f"p = {pair['p_value']:.3g}", f"{pair['n_users']} users", pair["smallest_difference"]
    if pair["p_value"] < ALPHA:
        return decide(f"{reason}; significant ({p_value}, {users})", failed=True)
    effect = "" if least is None else f", minimum detectable effect {least:.3g}"
    return decide(f"{reason}; not significant ({p_value}, {users}{effect})", failed=False)


def _false_alarm_rates(
    gate: Gate, row: Row, reference: Reference, pair: Row | None, allowed: float
) -> tuple[float | None, float | None]:
    """From the variance of the values or of their paired differences."""
    parts = variance_of(row), reference.variance
    variance = None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    rate = None
    if gate.baseline is None and variance is not None:
        rate = false_alarm_rate(_Z * math.sqrt(variance), allowed=allowed, alpha=ALPHA)
    elif pair is not None and pair["ci_low"] is not None and (variance is not None or gate.significant):
        # For a pooled value only the rate of the test is known: `allowed` has another unit than the mean over users.
        half, limit = (pair["ci_high"] - pair["ci_low"]) / 2, 0.0 if variance is None else allowed
        rate = false_alarm_rate(half, pair["n_users"], allowed=limit, tested=bool(gate.significant), alpha=ALPHA)
    return rate, None if rate is None else -math.expm1(RUNS_PER_YEAR * math.log1p(-rate))


_Z = NormalDist().inv_cdf(1 - ALPHA / 2)


def _pair_of(gate: Gate, row: Row, comparison: Sequence[Row]) -> Row | None:
    models = (gate.baseline, row["model"])
    return next((pair for pair in comparison if same_metric(pair, row) and (pair["model_a"], pair["model_b"]) == models), None)


def _compared(gate: Gate, row: Row, reference: Reference, other: float) -> str:
    """Both values, their difference, and what is allowed where the value is worse."""
    value, drop = row["value"], drop_of(row, other)
    name = gate.baseline or (f"run {reference.run}" if reference.run else gate.against)
    digits = _digits(value, other)
    left_out = f" (left out: {reference.left_out})" if reference.left_out else ""
    text = f"{row['model']} {value:.{digits}f} vs. {name} {other:.{digits}f}{left_out}: "
    if abs(drop) <= _slack(value):
        text += "no difference"
    else:
        change, allowed = _change(gate, abs(drop), other)
        text += f"{change} {'higher' if value > other else 'lower'}"
        text += "" if row["higher_is_better"] else " (worse)" if drop > 0 else " (better)"
        text += f", allowed {allowed}" if drop > 0 and gate.significant != "all_runs" else ""
    return text + ("; the ground truth has changed" if reference.other_data else "")


def _change(gate: Gate, change: float, reference: float) -> tuple[str, str]:
    """A change and the allowed drop, both in the unit of the stricter limit: percent of the reference, or absolute."""
    allowed = gate.allowed(reference)
    by_share = gate.max_drop is None or allowed < gate.max_drop
    if not reference or not (by_share or allowed == 0):
        return f"{change:.{_digits(change, allowed)}f}", f"{allowed:g}"
    percent, limit = 100 * change / abs(reference), 100 * allowed / abs(reference)
    two_significant = max(0, 1 - math.floor(math.log10(float(f"{percent:.2g}"))))
    return f"{percent:.{_digits(percent, limit, two_significant)}f} %", f"{limit:g} %"


def _digits(value: float, other: float, fewest: int = 4) -> int:
    """The fewest decimals with which two different numbers look different."""
    if abs(value - other) <= _slack(value):
        return fewest
    return next((n for n in range(fewest, 15) if round(value, n) != round(other, n)), 15)


def _slack(value: float) -> float:
    return NOISE * max(1.0, abs(value))
