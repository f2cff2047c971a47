"""Gates: what a value must reach, and how far it may fall behind a reference, before a pipeline goes on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Annotated, Any, Literal, NamedTuple, get_args

from spark_recmetrics.errors import ConfigError
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
from spark_recmetrics.stats import Interval, confidence_sequence, false_alarm_rate
from spark_recmetrics.text import brief, did_you_mean, printable

Severity = Literal["fail", "warn"]
Missing = Literal["pass", "fail"]
Significant = Literal[False, True, "all_runs"]

_AGAINST = re.compile(
    r"(?P<kind>previous)|(?P<median>median)\((?P<n>[1-9]\d{0,2})\)|(?P<run>run|model)\((?P<name>.+)\)", re.DOTALL
)

ALPHA = 0.05
"""A drop with a smaller p is significant; and the chance of ever being wrong over all nights."""

N_TARGET = 90
"""Nights at which the interval over all nights is narrowest. It is 3 % wider at 365 than one made for a year, and a fifth
narrower at the 30th."""

FEWEST_RUNS = 30
"""Before, an interval over all nights promises too much, see `stats.confidence_sequence`."""

RUNS_PER_YEAR = 365

NOISE = 1e-12
"""Values that differ by less, of 1 or of themselves, are the same: sums in another order differ so."""


class _Strict:
    """Tells the reader of a configuration that a text which looks like a number is none."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "strict": True}


_Number = Annotated[float, _Strict()]


@dataclass(frozen=True)
class Gate:
    """One condition on one metric of each model.

    `min` and `max` bound the value itself. `max_drop` and `max_drop_share` bound by how much it is worse than the reference
    `against`: reference less value where higher is better, value less reference where lower is; as a share of the reference.

    Args:
        metric: Text of the metric, such as `ndcg@10`.
        model: The model; None: every model but that of `against: model(NAME)`.
        min: The value must not be below.
        max: The value must not be above.
        max_drop: How much worse than the reference it may be.
        max_drop_share: How much worse as a share of the reference, above 0.
        against: The reference: `previous`, the last run of the job before this one; `median(N)` of the last N runs;
            `run(ID)`; or `model(NAME)` of this run.
        significant: The drop against `model(NAME)` must be significant, too, for the gate to fail. True: that of this night, by
            a paired t test at 5 %. `all_runs`: the mean drop of all nights of the job must be beyond what is allowed with its
            whole 95 % confidence sequence. At most 5 % of such gates ever fail by chance, however many nights they are held.
        min_users: The value must rest on as many users.
        missing: What a missing reference means, as on the first night, and fewer than 30 nights for `all_runs`: `pass` or
            `fail`.
        severity: `fail` ends the job with exit code 3, `warn` only tells.

    Raises:
        ConfigError: The fields do not make a condition.

    Example:
        >>> Gate("ndcg@10", max_drop_share=0.02, against="previous").text
        'ndcg@10: max_drop_share 0.02 against previous'
        >>> Gate("ndcg@10", max_drop=0, against="model(popularity)", significant="all_runs").text
        'ndcg@10: max_drop 0 against model(popularity), significant over all nights'
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
    min_users: Annotated[int, _Strict()] = 0
    missing: Missing = "pass"
    severity: Severity = "fail"

    def __post_init__(self) -> None:
        for name, choices in (("missing", get_args(Missing)), ("severity", get_args(Severity))):
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name}: expected {' or '.join(choices)}, found {getattr(self, name)!r}")
        if not (isinstance(self.significant, bool) or self.significant == "all_runs"):
            raise ConfigError(f"significant: expected true, false or all_runs, found {self.significant!r}")
        if not self.limits:
            raise ConfigError(f"expected one of {', '.join(_LIMITS)}, found none")
        for name, limit in self.limits.items():
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not math.isfinite(limit):
                raise ConfigError(f"{name}: expected a finite number, found {limit!r}")
            if name.startswith("max_drop") and limit < 0:
                raise ConfigError(f"{name}: expected a number from 0, found {limit!r}")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ConfigError(f"min: expected no more than max, which is {self.max:g}, found {self.min:g}")
        if self.model is not None and (not isinstance(self.model, str) or not self.model):
            raise ConfigError(f"model: expected the name of a model, found {brief(self.model)}")
        if isinstance(self.min_users, bool) or not isinstance(self.min_users, int) or self.min_users < 0:
            raise ConfigError(f"min_users: expected a whole number from 0, found {self.min_users!r}")
        self._check_reference()
        object.__setattr__(self, "metric", str(parse(self.metric)))

    def _check_reference(self) -> None:
        drops = [name for name in self.limits if name.startswith("max_drop")]
        if bool(drops) != (self.against is not None):
            found = f"{drops[0]} alone" if drops else f"against {self.against!r} alone"
            raise ConfigError(f"expected max_drop or max_drop_share together with against, found {found}")
        if self.against is not None and not (isinstance(self.against, str) and _AGAINST.fullmatch(self.against)):
            raise ConfigError(f"against: expected previous, median(N), run(ID) or model(NAME), found {brief(self.against)}")
        if self.model is not None and self.model == self.baseline:
            raise ConfigError(
                f"against: expected another model than {self.model!r}, which the gate is held for, found the same"
            )
        if self.significant and self.baseline is None:
            raise ConfigError(f"significant: expected against: model(NAME), whose users can be paired, found {self.against!r}")

    @property
    def limits(self) -> dict[str, float]:
        """The bounds that are given."""
        return {name: getattr(self, name) for name in _LIMITS if getattr(self, name) is not None}

    @property
    def baseline(self) -> str | None:
        """The model of this run that is the reference, if one is."""
        found = _AGAINST.fullmatch(self.against or "")
        return found["name"] if found and found["run"] == "model" else None

    @property
    def needs_history(self) -> bool:
        """Whether earlier runs are looked at."""
        return self.against is not None and (self.baseline is None or self.significant == "all_runs")

    @property
    def needs_pairs(self) -> bool:
        """Whether the users of this run are paired: for the test, or for how often the gate fails by chance."""
        of_users = parse(self.metric).has_users
        return of_users and self.baseline is not None and self.significant != "all_runs"

    @property
    def text(self) -> str:
        """The condition on one line."""
        bounds = ", ".join(f"{name} {limit:g}" for name, limit in self.limits.items())
        tested = {True: ", significant", "all_runs": ", significant over all nights"}.get(self.significant, "")
        return f"{self.metric}: {bounds}" + (f" against {self.against}{tested}" if self.against else "")


_LIMITS = ("min", "max", "max_drop", "max_drop_share")


def problems_of(gates: Sequence[Gate], metrics: Sequence[Metric], *, dated: bool) -> dict[tuple[int, str], str]:
    """What keeps gates from being held against a run, by place and field.

    Args:
        gates: The conditions.
        metrics: The metrics of the run.
        dated: Whether the run has an `as_of`.
    """
    computed, found = [str(metric) for metric in metrics], dict[tuple[int, str], str]()
    for place, gate in enumerate(gates):
        if gate.metric not in computed:
            found[place, "metric"] = f"{gate.metric} is not evaluated{did_you_mean(gate.metric, computed)}"
        if gate.significant is True and not parse(gate.metric).has_users:
            found[place, "significant"] = f"{gate.metric} has no value for each user, so that it cannot be tested"
        if gate.needs_history and not dated:
            key = "against" if gate.baseline is None else "significant"
            found[place, key] = f"{getattr(gate, key)} needs an as_of, which orders the runs"
    return found


class GateResult(NamedTuple):
    """One row of GATES: a gate held against one model.

    Args:
        gate: The condition as text.
        metric: The metric.
        model: The model; None: the run has none that the gate could be held against, and so it fails.
        value: Its value; None is undefined.
        n_users: Users that it is the mean of.
        reference: What it was compared with; None: with nothing, or there was none.
        reference_run: The run of the reference, where it is of one run.
        drop: By how much the value is worse than the reference; below 0 it is better.
        result: `pass`, `warn` or `fail`.
        reason: Why, in words.
        false_alarm_rate: The chance that a night fails the gate by its drop while in truth there is none; None: there is no
            drop, or it cannot be told.
        false_alarm_rate_year: The chance that one of 365 independent nights does; of `all_runs`, at most that.
    """

    gate: str
    metric: str
    model: str | None
    value: float | None
    n_users: int
    reference: float | None
    reference_run: str | None
    drop: float | None
    result: str
    reason: str
    false_alarm_rate: float | None
    false_alarm_rate_year: float | None

    def line(self) -> str:
        """The result on one line, with how often chance alone would fail the gate."""
        alarms = ""
        if self.false_alarm_rate is not None:
            alarms = f"; false alarms: {_percent(self.false_alarm_rate)} of nights"
        elif self.false_alarm_rate_year is not None:
            alarms = f"; false alarms: at most {_percent(self.false_alarm_rate_year)} of years"
        named = "no model" if self.model is None else self.model
        return printable(f"{self.result.upper():<4}  {named}: {self.gate}: {self.reason}{alarms}")


def _percent(rate: float) -> str:
    return f"{100 * rate:.2g} %" if rate >= 1e-4 else "below 0.01 %"


def check_gates(
    gates: Iterable[Gate], rows: Sequence[Row], history: Sequence[Row] = (), comparison: Sequence[Row] = ()
) -> list[GateResult]:
    """Hold every gate against the values of a run.

    Args:
        gates: The conditions.
        rows: SUMMARY of the run.
        history: SUMMARY of earlier runs of the job, for gates against them. Rows of this run are not looked at.
        comparison: COMPARISON of the run with the models of `against: model(NAME)` as baselines, by the paired t test at 0.05:
            for gates that ask for significance, and for the rate of false alarms.

    Returns:
        A result for each gate and model. A gate fails without data, too: where its metric was not computed or is undefined,
        with too few users, where the run has no model to hold it against, and where the reference was computed under another
        convention.

    Example:
        >>> now = {"run_id": "r2", "as_of": "2", "model": "als", "slice": "all", "slice_value": "all", "metric": "hit@1"}
        >>> now |= {"value": 0.5, "n_users": 16, "std": 0.5, "convention": "default", "higher_is_better": True}
        >>> now |= {"data_hash": "d2", "computed_at": 2}
        >>> before = {**now, "run_id": "r1", "as_of": "1", "value": 0.75, "data_hash": "d1"}
        >>> found = check_gates([Gate("hit@1", max_drop=0.1, against="previous")], [now], [before])
        >>> print(found[0].reason)
        0.5 is 0.25 worse than 0.75 of run r1, and the truth is another, allowed are 0.1
        >>> round(found[0].false_alarm_rate, 3)
        0.286
    """
    found = []
    for gate in gates:
        of_metric = [row for row in rows if row["metric"] == gate.metric and row["slice"] == "all"]
        names = {row["model"] for row in rows} - {gate.baseline} if gate.model is None else {gate.model}
        if not names:
            # A gate that nothing can be held against must not be silent.
            found.append(_without_model(gate))
        for model in sorted(names):
            row = next((row for row in of_metric if row["model"] == model), None)
            found.append(_judge(gate, model, row, rows, history, comparison))
    return found


def _without_model(gate: Gate) -> GateResult:
    told = "expected a model to hold the gate against, found none in this run"
    if gate.baseline is not None:
        told = f"expected a model beside {gate.baseline} to hold the gate against, found none in this run"
    unknown = (None, 0, None, None, None)
    return GateResult(gate.text, gate.metric, None, *unknown, gate.severity, told, *_NEVER_TOLD)


def _judge(
    gate: Gate, model: str, row: Row | None, rows: Sequence[Row], history: Sequence[Row], comparison: Sequence[Row]
) -> GateResult:
    value, n_users = (None, 0) if row is None else (row["value"], row["n_users"])
    reference, drop, alarms = Reference(), None, _NEVER_TOLD

    def result(reason: str, *, failed: bool) -> GateResult:
        level = gate.severity if failed else "pass"
        compared = (reference.value, reference.run, drop)
        return GateResult(gate.text, gate.metric, model, value, n_users, *compared, level, reason, *alarms)

    problem = _missed(gate, row)
    if row is None or value is None or problem:
        return result(problem or "expected a value, found none", failed=True)
    if gate.against is None:
        return result(f"{value:.6g} is within its bounds", failed=False)
    reference = _reference(gate, row, rows, history)
    if reference.problem is not None:
        return result(reference.problem, failed=True)
    left_out = f" (left out: {reference.left_out})" if reference.left_out else ""
    if reference.value is None:
        told = f"no earlier value to compare with{left_out}: missing is {gate.missing}"
        return result(told, failed=gate.missing == "fail")
    drop = drop_of(row, reference.value)
    named = ((reference.run and f" of run {reference.run}") or f" of {gate.against}") + left_out
    if abs(drop) <= _slack(value):
        told = f"{value:.6g} is the same as {reference.value:.6g}{named}"
    else:
        told = f"{value:.6g} is {abs(drop):.6g} {'worse' if drop > 0 else 'better'} than {reference.value:.6g}{named}"
    told += ", and the truth is another" if reference.other_data else ""
    if gate.significant == "all_runs":
        nights = drops_against(row, reference.value, history, gate.baseline or "", partial(_allowed, gate))
        if len(nights.beyond) < FEWEST_RUNS:
            few = f"{told}; {nights.text} of the {FEWEST_RUNS} that are needed: missing is {gate.missing}"
            return result(few, failed=gate.missing == "fail")
        alarms = _Alarms(None, ALPHA)
        look = confidence_sequence([(1, beyond, None) for beyond in nights.beyond], n_target=N_TARGET, alpha=ALPHA)[-1]
        told += f"; over {nights.text} {_told_mean(look, nights.allowed)}, allowed are {nights.allowed:.6g}"
        # Without any spread there is no interval, and no doubt either.
        least = look.mean if look.ci_low is None else look.ci_low
        return result(told, failed=least is not None and least > _slack(value))
    allowed = _allowed(gate, reference.value)
    pair = _pair_of(gate, row, comparison)
    alarms = _alarms(gate, row, reference, pair, allowed)
    if drop <= allowed + _slack(value):
        return result(told, failed=False)
    told += f", allowed are {allowed:.6g}"
    if gate.significant:
        if pair is None or pair["p_value"] is None:
            return result(f"{told}; whether that is chance cannot be told", failed=True)
        # The test is of values per user, which a pooled value may contradict.
        worse = pair["diff"] < 0 if row["higher_is_better"] else pair["diff"] > 0
        if not worse:
            return result(f"{told}, but the mean of its {pair['n_users']} users is not worse", failed=False)
        told_p = f"p = {pair['p_value']:.3g}"
        if pair["p_value"] >= ALPHA:
            least = pair["smallest_difference"]
            shown = "" if least is None else f"; {pair['n_users']} users could show {least:.3g}"
            return result(f"{told}, which may be chance ({told_p}{shown})", failed=False)
        told += f" ({told_p}, {pair['n_users']} users)"
    return result(told, failed=True)


def _allowed(gate: Gate, reference: float) -> float:
    """How much worse than this reference a value may be: the stricter of both limits."""
    share = math.inf if gate.max_drop_share is None else gate.max_drop_share * abs(reference)
    return min(share, math.inf if gate.max_drop is None else gate.max_drop)


# False alarms -------------------------------------------------------------------------------------------------------------


class _Alarms(NamedTuple):
    """How often a gate fails by chance: in a night, and in a year."""

    night: float | None
    year: float | None


_NEVER_TOLD = _Alarms(None, None)


def _alarms(gate: Gate, row: Row, reference: Reference, pair: Row | None, allowed: float) -> _Alarms:
    """The false alarms of a drop that is looked at every night anew, from the spread of the values or of their differences."""
    own = variance_of(row)
    spread = None if own is None or reference.variance is None else own + reference.variance
    rate = None
    if gate.baseline is None and spread is not None:
        rate = false_alarm_rate(_Z * math.sqrt(spread), allowed=allowed, alpha=ALPHA)
    elif pair is not None and pair["ci_low"] is not None and (spread is not None or gate.significant):
        # Of a pooled value only the test has a known rate: what is allowed is in another unit than the mean of its users.
        half, limit = (pair["ci_high"] - pair["ci_low"]) / 2, 0.0 if spread is None else allowed
        rate = false_alarm_rate(half, pair["n_users"], allowed=limit, tested=bool(gate.significant), alpha=ALPHA)
    return _NEVER_TOLD if rate is None else _Alarms(rate, -math.expm1(RUNS_PER_YEAR * math.log1p(-rate)))


_Z = NormalDist().inv_cdf(1 - ALPHA / 2)


def _pair_of(gate: Gate, row: Row, comparison: Sequence[Row]) -> Row | None:
    """The row of COMPARISON with the model of the gate and its baseline."""
    models = (gate.baseline, row["model"])
    return next((own for own in comparison if same_metric(own, row) and (own["model_a"], own["model_b"]) == models), None)


def _told_mean(look: Interval, allowed: float) -> str:
    """The mean drop, which is above 0 where the model is worse."""
    mean = f"a mean drop of {(look.mean or 0.0) + allowed:.3g}"
    if look.ci_low is None or look.ci_high is None:
        return f"{mean}, the same every night"
    return f"{mean} ({100 * (1 - ALPHA):g} % interval {look.ci_low + allowed:.3g}..{look.ci_high + allowed:.3g})"


def _slack(value: float) -> float:
    return NOISE * max(1.0, abs(value))


def _missed(gate: Gate, row: Row | None) -> str | None:
    """What is wrong with the value itself."""
    if row is None:
        return "expected a value, found none: the run has no such model and metric"
    value = row["value"]
    if not has_value(row):
        return "expected a value, found an undefined one"
    if row["n_users"] < gate.min_users:
        return f"expected at least {gate.min_users} users, found {row['n_users']}"
    slack = _slack(value)
    if gate.min is not None and value < gate.min - slack:
        return f"{value:.6g} is below {gate.min:g}"
    if gate.max is not None and value > gate.max + slack:
        return f"{value:.6g} is above {gate.max:g}"
    return None


def _reference(gate: Gate, row: Row, rows: Sequence[Row], history: Sequence[Row]) -> Reference:
    if gate.baseline is not None:
        return model_reference(row, rows, gate.baseline)
    found = _AGAINST.fullmatch(gate.against or "")
    if found is not None and found["run"]:
        return run_reference(row, history, found["name"])
    return last_reference(row, history, int(found["n"] or 1) if found is not None else 1)
