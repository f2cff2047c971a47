"""Gates: what a value must reach, and how far it may fall behind a reference, before a pipeline goes on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any, Literal, NamedTuple, get_args

from spark_recmetrics.errors import ConfigError, did_you_mean, printable
from spark_recmetrics.metrics import Metric, parse

Row = Mapping[str, Any]
"""A row of SUMMARY."""

Severity = Literal["fail", "warn"]
Missing = Literal["pass", "fail"]

_AGAINST = re.compile(r"(?P<kind>previous)|(?P<median>median)\((?P<n>[1-9]\d{0,2})\)|(?P<run>run|model)\((?P<name>.+)\)")

ALPHA = 0.05
"""A drop with a smaller p is significant."""

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
        significant: The drop must be significant, too, for the gate to fail: a paired t test against `model(NAME)`, at 5 %.
        min_users: The value must rest on as many users.
        missing: What a missing reference means, as on the first night: `pass` or `fail`.
        severity: `fail` ends the job with exit code 3, `warn` only tells.

    Raises:
        ConfigError: The fields do not make a condition.

    Example:
        >>> Gate("ndcg@10", max_drop_share=0.02, against="previous").text
        'ndcg@10: max_drop_share 0.02 against previous'
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
    significant: Annotated[bool, _Strict()] = False
    min_users: Annotated[int, _Strict()] = 0
    missing: Missing = "pass"
    severity: Severity = "fail"

    def __post_init__(self) -> None:
        for name, choices in (("missing", get_args(Missing)), ("severity", get_args(Severity))):
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name}: expected {' or '.join(choices)}, found {getattr(self, name)!r}")
        if not self.limits:
            raise ConfigError(f"expected one of {', '.join(_LIMITS)}, found none")
        for name, limit in self.limits.items():
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not math.isfinite(limit):
                raise ConfigError(f"{name}: expected a finite number, found {limit!r}")
            if name.startswith("max_drop") and limit < 0:
                raise ConfigError(f"{name}: expected a number from 0, found {limit!r}")
        if isinstance(self.min_users, bool) or not isinstance(self.min_users, int) or self.min_users < 0:
            raise ConfigError(f"min_users: expected a whole number from 0, found {self.min_users!r}")
        drops = [name for name in self.limits if name.startswith("max_drop")]
        if bool(drops) != (self.against is not None):
            found = f"{drops[0]} alone" if drops else f"against {self.against!r} alone"
            raise ConfigError(f"expected max_drop or max_drop_share together with against, found {found}")
        if self.against is not None and not _AGAINST.fullmatch(self.against):
            raise ConfigError(f"against: expected previous, median(N), run(ID) or model(NAME), found {self.against!r}")
        if self.significant and self.baseline is None:
            raise ConfigError(f"significant: expected against: model(NAME), whose users can be paired, found {self.against!r}")
        object.__setattr__(self, "metric", str(parse(self.metric)))

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
        """Whether earlier runs are the reference."""
        return self.against is not None and self.baseline is None

    @property
    def text(self) -> str:
        """The condition on one line."""
        bounds = ", ".join(f"{name} {limit:g}" for name, limit in self.limits.items())
        return f"{self.metric}: {bounds}" + (f" against {self.against}" if self.against else "")


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
        if gate.significant and parse(gate.metric).definition.across_users:
            found[place, "significant"] = f"{gate.metric} has no value for each user, so that it cannot be tested"
        if gate.needs_history and not dated:
            found[place, "against"] = f"{gate.against} needs an as_of, which orders the runs"
    return found


class Verdict(NamedTuple):
    """One row of GATES: a gate held against one model.

    Args:
        gate: The condition as text.
        metric: The metric.
        model: The model.
        value: Its value; None is undefined.
        n_users: Users that it is the mean of.
        reference: What it was compared with; None: with nothing, or there was none.
        reference_run: The run of the reference, where it is of one run.
        drop: By how much the value is worse than the reference; below 0 it is better.
        verdict: `pass`, `warn` or `fail`.
        reason: Why, in words.
    """

    gate: str
    metric: str
    model: str
    value: float | None
    n_users: int
    reference: float | None
    reference_run: str | None
    drop: float | None
    verdict: str
    reason: str

    def line(self) -> str:
        """The verdict on one line."""
        return printable(f"{self.verdict.upper():<4}  {self.model}: {self.gate}: {self.reason}")


class _Reference(NamedTuple):
    """What a value is compared with; the problem says why it cannot be."""

    value: float | None = None
    run: str | None = None
    other_data: bool = False
    problem: str | None = None


def judge(
    gates: Iterable[Gate],
    rows: Sequence[Row],
    history: Sequence[Row] = (),
    p_values: Mapping[tuple[str, str, str], float | None] = {},
) -> list[Verdict]:
    """Hold every gate against the values of a run.

    Args:
        gates: The conditions.
        rows: SUMMARY of the run.
        history: SUMMARY of earlier runs of the job, for gates against them. Rows of this run are not looked at.
        p_values: By model, baseline and metric, the p of the paired test, for gates that ask for significance.

    Returns:
        A verdict for each gate and model. A gate fails without data, too: where its metric was not computed or is undefined,
        with too few users, and where the reference was computed under another convention.

    Example:
        >>> now = {"run_id": "r2", "as_of": "2", "model": "als", "slice": "all", "slice_value": "all", "metric": "hit@1"}
        >>> now |= {"value": 0.5, "n_users": 10, "convention": "default", "higher_is_better": True, "data_hash": "d"}
        >>> now |= {"computed_at": 2}
        >>> before = {**now, "run_id": "r1", "as_of": "1", "value": 0.75}
        >>> found = judge([Gate("hit@1", max_drop=0.1, against="previous")], [now], [before])
        >>> print(found[0].line())
        FAIL  als: hit@1: max_drop 0.1 against previous: 0.5 is 0.25 worse than 0.75 of run r1, allowed are 0.1
    """
    found = []
    for gate in gates:
        of_metric = [row for row in rows if row["metric"] == gate.metric and row["slice"] == "all"]
        names = {row["model"] for row in rows} - {gate.baseline} if gate.model is None else {gate.model}
        for model in sorted(names):
            row = next((row for row in of_metric if row["model"] == model), None)
            found.append(_judge(gate, model, row, rows, history, p_values))
    return found


def _judge(
    gate: Gate,
    model: str,
    row: Row | None,
    rows: Sequence[Row],
    history: Sequence[Row],
    p_values: Mapping[tuple[str, str, str], float | None],
) -> Verdict:
    value, n_users = (None, 0) if row is None else (row["value"], row["n_users"])
    reference, drop = _Reference(), None

    def verdict(reason: str, *, failed: bool) -> Verdict:
        level = gate.severity if failed else "pass"
        return Verdict(gate.text, gate.metric, model, value, n_users, reference.value, reference.run, drop, level, reason)

    problem = _missed(gate, row)
    if row is None or value is None or problem:
        return verdict(problem or "expected a value, found none", failed=True)
    if gate.against is None:
        return verdict(f"{value:.6g} is within its bounds", failed=False)
    reference = _reference(gate, row, rows, history)
    if reference.problem is not None:
        return verdict(reference.problem, failed=True)
    if reference.value is None:
        return verdict(f"no earlier value to compare with: missing is {gate.missing}", failed=gate.missing == "fail")
    drop = reference.value - value if row["higher_is_better"] else value - reference.value
    named = (reference.run and f" of run {reference.run}") or f" of {gate.against}"
    told = f"{value:.6g} is {abs(drop):.6g} {'worse' if drop > 0 else 'better'} than {reference.value:.6g}{named}"
    told += ", and the truth is another" if reference.other_data else ""
    allowed = gate.max_drop
    if gate.max_drop_share is not None:
        share = gate.max_drop_share * abs(reference.value)
        allowed = share if allowed is None else min(allowed, share)
    if allowed is None or drop <= allowed + _slack(value):
        return verdict(told, failed=False)
    if gate.significant:
        p = p_values.get((model, gate.baseline or "", gate.metric))
        if p is None:
            return verdict(f"{told}, allowed are {allowed:.6g}; whether that is chance cannot be told", failed=True)
        if p >= ALPHA:
            return verdict(f"{told}, allowed are {allowed:.6g}, which may be chance (p = {p:.3g})", failed=False)
        told += f" (p = {p:.3g})"
    return verdict(f"{told}, allowed are {allowed:.6g}", failed=True)


def _slack(value: float) -> float:
    return NOISE * max(1.0, abs(value))


def _missed(gate: Gate, row: Row | None) -> str | None:
    """What is wrong with the value itself."""
    if row is None:
        return "expected a value, found none: the run has no such model and metric"
    value = row["value"]
    if value is None or not math.isfinite(value):
        return "expected a value, found an undefined one"
    if row["n_users"] < gate.min_users:
        return f"expected at least {gate.min_users} users, found {row['n_users']}"
    slack = _slack(value)
    if gate.min is not None and value < gate.min - slack:
        return f"{value:.6g} is below {gate.min:g}"
    if gate.max is not None and value > gate.max + slack:
        return f"{value:.6g} is above {gate.max:g}"
    return None


def _reference(gate: Gate, row: Row, rows: Sequence[Row], history: Sequence[Row]) -> _Reference:
    if gate.baseline is not None:
        other = next((own for own in rows if _is_same(own, row) and own["model"] == gate.baseline), None)
        if other is None or other["value"] is None:
            return _Reference(problem=f"expected a value of model {gate.baseline} to compare with, found none")
        return _Reference(other["value"])
    found = _AGAINST.fullmatch(gate.against or "")
    earlier = [own for own in history if _is_same(own, row) and own["model"] == row["model"] and own["value"] is not None]
    if found is not None and found["run"]:
        chosen = [own for own in earlier if own["run_id"] == found["name"]][-1:]
        if not chosen:
            return _Reference(problem=f"expected run {found['name']} in the history, found none with this model and metric")
    else:
        # Of several runs of one day, such as a repeated one with another configuration, the last counts.
        by_day = {own["as_of"]: own for own in sorted(earlier, key=_age) if own["as_of"] < (row["as_of"] or "none")}
        chosen = list(by_day.values())[-int(found["n"] or 1) :] if found is not None else []
    others = {own["convention"] for own in chosen} - {row["convention"]}
    if others:
        return _Reference(
            problem=f"expected convention {row['convention']} of the reference, found {', '.join(sorted(others))}"
        )
    if not chosen:
        return _Reference()
    other_data = any(own["data_hash"] != row["data_hash"] for own in chosen)
    run = chosen[0]["run_id"] if len(chosen) == 1 else None
    return _Reference(median(own["value"] for own in chosen), run, other_data)


def _is_same(own: Row, row: Row) -> bool:
    return all(own[key] == row[key] for key in ("metric", "slice", "slice_value"))


def _age(row: Row) -> tuple[Any, Any]:
    return row["as_of"], row["computed_at"]
