"""The order of runs, and references: what a value is compared with, such as another model, a previous run, or all runs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

from spark_recmetrics.text import counted

Row = Mapping[str, Any]
"""A row of SUMMARY."""


def label_format(as_of: str) -> str:
    """The format of an `as_of`, such as 9999-99-99. Labels of one format sort by time; labels of two formats have no order."""
    return re.sub("[0-9]", "9", as_of)


def newest_runs(rows: Sequence[Row], last: int) -> list[tuple[str, dict[str, Row]]]:
    """The `as_of` of the last runs, with their rows of one metric by model. Of runs with the same `as_of` the latest counts."""
    ordered = sorted(rows, key=lambda row: (row["as_of"], row["computed_at"]))
    latest = {row["as_of"]: row["run_id"] for row in ordered}
    newest: dict[str, dict[str, Row]] = {}
    for row in ordered:
        if row["run_id"] == latest[row["as_of"]]:
            newest.setdefault(row["as_of"], {})[row["model"]] = row
    return list(newest.items())[-last:]


_CHANGES = {
    "data_hash": "the ground truth",
    "config_hash": "the configuration (or only that of the comparison)",
    "convention": "the convention",
}


def changes(before: Row, now: Row) -> list[str]:
    """What has changed between two runs, other than the model."""
    return [text for key, text in _CHANGES.items() if now[key] != before[key]]


class Reference(NamedTuple):
    """What a value is compared with."""

    value: float | None = None
    run: str | None = None  # id of the run, if the value comes from one run
    other_data: bool = False  # whether the value was computed on another ground truth
    problem: str | None = None  # why there is no comparison
    variance: float | None = None  # squared standard error of the value, if known
    left_out: str = ""  # which previous runs were left out, and why


def has_value(row: Row) -> bool:
    """Whether a row has a finite value."""
    return row["value"] is not None and math.isfinite(row["value"])


def same_metric(row: Row, other: Row) -> bool:
    """Whether two rows have the same metric and slice."""
    return all(row[key] == other[key] for key in ("metric", "slice", "slice_value"))


def drop_of(row: Row, reference: float) -> float:
    """By how much the value of a row is worse than the reference."""
    drop: float = reference - row["value"] if row["higher_is_better"] else row["value"] - reference
    return drop


def variance_of(row: Row) -> float | None:
    """The squared standard error of a value; None if it is not a mean over users."""
    std = row.get("std")
    return None if std is None else float(std) ** 2 / row["n_users"]


def model_reference(row: Row, rows: Sequence[Row], model: str) -> Reference:
    """The value of another model in the same run."""
    other = next((other for other in rows if same_metric(other, row) and other["model"] == model), None)
    if other is None or not has_value(other):
        return Reference(problem=f"expected a value of model {model} to compare with, found none")
    return Reference(other["value"], variance=variance_of(other))


def run_reference(row: Row, history: Sequence[Row], run: str) -> Reference:
    """The value of the model in the run with this id."""
    chosen = [other for other in _values_of_model(row, history) if other["run_id"] == run][-1:]
    if not chosen:
        return Reference(problem=f"expected run {run} in the history, found none with this model and metric")
    return _median(row, chosen)


def last_reference(row: Row, history: Sequence[Row], n: int) -> Reference:
    """The median value of the model in the last n runs before this one."""
    label = _label(row)
    if label == _NO_LABEL:
        return Reference(problem="expected an as_of, which orders the runs, found none")
    # Of several runs with one label, such as a repeated one with another configuration, the latest counts.
    by_label = {_label(other): other for other in sorted(_values_of_model(row, history), key=_order)}
    dated = [other for other in by_label if other != _NO_LABEL]
    unordered = [other for other in dated if label_format(other) != label_format(label)]
    chosen = [by_label[other] for other in dated if other not in unordered and other < label][-n:]
    if unordered and not chosen:
        return Reference(
            problem=f"expected a previous run with an as_of in the format of {label}, found {unordered[0]}: "
            "use labels of one format, such as 2026-11-28 or 0042, or rename the job"
        )
    all_labels = {_label(other) for other in history if same_metric(other, row)}
    without_value = {other for other in all_labels if label_format(other) == label_format(label)} - by_label.keys()
    oldest = _label(chosen[0]) if chosen else ""
    n_skipped = sum(oldest < other < label for other in without_value)
    left_out = [f"{len(unordered)} with an as_of in another format, such as {unordered[0]}"] if unordered else []
    left_out += ["1 without an as_of"] if _NO_LABEL in by_label else []
    left_out += [f"{n_skipped} without a value"] if n_skipped else []
    return _median(row, chosen)._replace(left_out=", ".join(left_out))


_NO_LABEL = "none"
"""The `as_of` in tables of a run that has none. In the rows of the current run it is None."""


def _label(row: Row) -> str:
    return row["as_of"] or _NO_LABEL


def _order(row: Row) -> tuple[Any, Any]:
    return _label(row), row["computed_at"]


def _values_of_model(row: Row, history: Sequence[Row]) -> list[Row]:
    return [other for other in history if same_metric(other, row) and other["model"] == row["model"] and has_value(other)]


def _median(row: Row, chosen: Sequence[Row]) -> Reference:
    conventions = {other["convention"] for other in chosen} - {row["convention"]}
    if conventions:
        expected = f"expected convention {row['convention']} of the reference"
        return Reference(problem=f"{expected}, found {', '.join(sorted(conventions))}")
    if not chosen:
        return Reference()
    other_data = any(other["data_hash"] != row["data_hash"] for other in chosen)
    run = chosen[0]["run_id"] if len(chosen) == 1 else None
    return Reference(median(other["value"] for other in chosen), run, other_data, variance=_variance_of_median(row, chosen))


def _variance_of_median(row: Row, chosen: Sequence[Row]) -> float | None:
    """The squared standard error of the median of N independent runs; None if unknown."""
    variances = [variance for other in chosen if (variance := variance_of(other)) is not None]
    # Runs on the same ground truth have correlated errors, by an unknown amount.
    same_truth = any(other["data_hash"] == row["data_hash"] for other in chosen)
    if same_truth or len(variances) < len(chosen):
        return None
    # Exact for N = 1 and for large N. For 2 to 4 it is off by up to a quarter, the standard error of a drop by less than 4 %.
    return fmean(variances) * math.pi / (2 * len(chosen) + math.pi - 2)


class Drops(NamedTuple):
    """The drops of a model against another one, in all runs in which both have a value."""

    excess: list[float]  # drop minus allowed drop, by run
    allowed: float  # mean allowed drop
    text: str  # number of runs, and how many were left out and why


class _Drop(NamedTuple):
    truth: str
    drop: float
    allowed: float


def drops_against(row: Row, reference: float, history: Sequence[Row], model: str, allowed: Callable[[float], float]) -> Drops:
    """The drops against another model, with the value `reference` in this run; by `as_of`, the latest run with both counts."""
    # A difference of means in SUMMARY is the mean of the paired differences, if both models have the same users.
    runs: dict[tuple[str, str], dict[str, Row]] = {}
    for other in sorted(history, key=_order):
        if same_metric(other, row) and other["model"] in (row["model"], model):
            runs.setdefault((_label(other), other["run_id"]), {})[other["model"]] = other
    drops: dict[str, _Drop] = {}
    reasons: dict[str, str] = {}
    for (label, _), models in runs.items():
        drop = _previous_drop(row, label, models.get(row["model"]), models.get(model), allowed)
        if isinstance(drop, str):
            reasons[label] = drop
        elif drop is not None:
            drops[label] = drop
    drops[_label(row)] = _Drop(row["data_hash"] or _label(row), drop_of(row, reference), allowed(reference))
    # Runs on one ground truth have the same users and are one observation: the latest counts.
    by_truth = {drop.truth: drop for drop in drops.values()}
    left_out = [reason for label, reason in reasons.items() if label not in drops]
    left_out += ["on the ground truth of a later run"] * (len(drops) - len(by_truth))
    counts = ", ".join(f"{left_out.count(reason)} {reason}" for reason in dict.fromkeys(left_out))
    text = f"{counted(len(by_truth), 'run')}{f' (left out: {counts})' if counts else ''}"
    mean_allowed = fmean(drop.allowed for drop in by_truth.values())
    return Drops([drop.drop - drop.allowed for drop in by_truth.values()], mean_allowed, text)


def _previous_drop(
    row: Row, label: str, new: Row | None, baseline: Row | None, allowed: Callable[[float], float]
) -> _Drop | str | None:
    """The drop in a previous run, or why it is left out; None if the run is not a previous one."""
    if label_format(label) != label_format(_label(row)):
        return "without an as_of" if label == _NO_LABEL else "with an as_of in another format"
    if label >= _label(row):
        return None
    if new is None or baseline is None or not (has_value(new) and has_value(baseline)):
        return "without a value of both models"
    if {new["convention"], baseline["convention"]} != {row["convention"]}:
        return "with another convention"
    return _Drop(new["data_hash"] or label, drop_of(new, baseline["value"]), allowed(baseline["value"]))
