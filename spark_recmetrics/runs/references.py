"""What the value of a run is compared with: another model, earlier runs, all drops so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

from spark_recmetrics.runs.order import label_format

Row = Mapping[str, Any]
"""A row of SUMMARY."""


class Reference(NamedTuple):
    """What a value is compared with.

    Args:
        value: None: there is none.
        run: The run that it is of, where it is of one.
        other_data: Whether it was measured on another truth.
        problem: Why it cannot be compared with.
        variance: Its squared standard error; None where that cannot be known.
        left_out: Which earlier runs were left out, and why.
    """

    value: float | None = None
    run: str | None = None
    other_data: bool = False
    problem: str | None = None
    variance: float | None = None
    left_out: str = ""


def has_value(own: Row) -> bool:
    """Whether a row has a value, and a finite one."""
    return own["value"] is not None and math.isfinite(own["value"])


def same_metric(own: Row, row: Row) -> bool:
    """Whether two rows are of one metric and slice."""
    return all(own[key] == row[key] for key in ("metric", "slice", "slice_value"))


def drop_of(row: Row, reference: float) -> float:
    """By how much the value of a row is worse than the reference."""
    drop: float = reference - row["value"] if row["higher_is_better"] else row["value"] - reference
    return drop


def variance_of(row: Row) -> float | None:
    """The squared standard error of a value; None where it is no mean over users."""
    std = row.get("std")
    return None if std is None else float(std) ** 2 / row["n_users"]


def model_reference(row: Row, rows: Sequence[Row], model: str) -> Reference:
    """The value of another model of the same run."""
    other = next((own for own in rows if same_metric(own, row) and own["model"] == model), None)
    if other is None or not has_value(other):
        return Reference(problem=f"expected a value of model {model} to compare with, found none")
    return Reference(other["value"], variance=variance_of(other))


def run_reference(row: Row, history: Sequence[Row], run: str) -> Reference:
    """The value of the model in a run by its id."""
    chosen = [own for own in _earlier(row, history) if own["run_id"] == run][-1:]
    if not chosen:
        return Reference(problem=f"expected run {run} in the history, found none with this model and metric")
    return _median(row, chosen)


def last_reference(row: Row, history: Sequence[Row], n: int) -> Reference:
    """The median of the model in the last n runs before."""
    night = row["as_of"]
    if night in _UNDATED:
        return Reference(problem="expected an as_of, which orders the runs, found none")
    # Of several runs of one day, such as a repeated one with another configuration, the last counts.
    by_day = {own["as_of"]: own for own in sorted(_earlier(row, history), key=_age)}
    dated = [label for label in by_day if label not in _UNDATED]
    others = [label for label in dated if label_format(label) != label_format(night)]
    chosen = [by_day[label] for label in dated if label not in others and label < night][-n:]
    if others and not chosen:
        told = f"expected an as_of of the form of {night} before it, found {others[0]}, and nobody knows which is earlier"
        return Reference(problem=f"{told}: give labels of one form, such as 2026-11-28 or 0042, or the job another name")
    left_out = [f"{len(others)} with an as_of of another form, such as {others[0]}"] if others else []
    left_out += ["1 without an as_of"] if len(dated) < len(by_day) else []
    # Nights of the job on which the model has no value, behind the oldest one that it is compared with.
    nights = {
        own["as_of"] for own in history if same_metric(own, row) and label_format(_night(own)) == label_format(night)
    } - set(by_day)
    n_skipped = sum(chosen[0]["as_of"] < label < night if chosen else label < night for label in nights)
    left_out += [f"{n_skipped} without a value"] if n_skipped else []
    return _median(row, chosen)._replace(left_out=", ".join(left_out))


_UNDATED = (None, "none")
"""What stands as `as_of` of a run without one: in its own rows, and in tables."""


def _earlier(row: Row, history: Sequence[Row]) -> list[Row]:
    return [own for own in history if same_metric(own, row) and own["model"] == row["model"] and has_value(own)]


def _night(row: Row) -> str:
    return row["as_of"] or "none"


def _age(row: Row) -> tuple[Any, Any]:
    return _night(row), row["computed_at"]


def _median(row: Row, chosen: Sequence[Row]) -> Reference:
    others = {own["convention"] for own in chosen} - {row["convention"]}
    if others:
        return Reference(problem=f"expected convention {row['convention']} of the reference, found {', '.join(sorted(others))}")
    if not chosen:
        return Reference()
    other_data = any(own["data_hash"] != row["data_hash"] for own in chosen)
    run = chosen[0]["run_id"] if len(chosen) == 1 else None
    return Reference(median(own["value"] for own in chosen), run, other_data, variance=_variance_of_median(row, chosen))


def _variance_of_median(row: Row, chosen: Sequence[Row]) -> float | None:
    """The squared standard error of the median of N nights that have users of their own.

    That of one night times pi / (2 N + pi - 2), which is exact for one and right for many. For two to four it is wrong by up to
    a quarter, and the standard error of a drop, in which the night itself counts fully, by less than 4 %.
    """
    variances = [known for own in chosen if (known := variance_of(own)) is not None]
    # Where the truth is the same, so is the luck of its users: less of it is left in the drop, and nobody knows how much.
    same_truth = any(own["data_hash"] == row["data_hash"] for own in chosen)
    if same_truth or len(variances) < len(chosen):
        return None
    return fmean(variances) * math.pi / (2 * len(chosen) + math.pi - 2)


class Drops(NamedTuple):
    """The drops of a model against another one on all nights on which both have a value.

    Args:
        beyond: By how much each is beyond what is allowed, below 0 where it is not.
        allowed: What is allowed, on average.
        text: How many there are, and how many nights are left out and why.
    """

    beyond: list[float]
    allowed: float
    text: str


def drops_against(row: Row, reference: float, history: Sequence[Row], model: str, allowed: Callable[[float], float]) -> Drops:
    """The drops of all nights up to this one.

    The values are those that SUMMARY has: where both models have the same users, as they have by default, the difference of
    two means is the mean of the paired differences. Of several runs of one night the last with both models counts, and so
    does of several nights with the same truth: they have the luck of the same users, and are one observation.

    Args:
        row: The value of this night.
        reference: That of the other model.
        history: SUMMARY of earlier nights; what is not earlier is not looked at, and what has an `as_of` of another form is
            left out.
        model: The other model.
        allowed: From a reference to how much worse a value may be.

    Example:
        >>> row = {"as_of": "2", "run_id": "r", "model": "als", "metric": "hit@1", "slice": "all", "slice_value": "all"}
        >>> row |= {"value": 0.5, "higher_is_better": True, "convention": "default", "data_hash": "d2", "computed_at": 2}
        >>> before = {**row, "as_of": "1", "value": 0.25, "data_hash": "d1"}
        >>> history = [before, {**before, "model": "pop", "value": 0.75}, {**before, "as_of": "0"}]
        >>> drops_against(row, 0.75, history, "pop", lambda reference: 0.125)
        Drops(beyond=[0.375, 0.125], allowed=0.125, text='2 nights (left out: 1 without a value of both models)')
    """
    runs: dict[tuple[str, str], dict[str, Row]] = {}
    for own in sorted(history, key=_age):
        if same_metric(own, row) and own["model"] in (row["model"], model):
            runs.setdefault((_night(own), own["run_id"]), {})[own["model"]] = own
    found: dict[str, tuple[str, float, float]] = {}
    left_out: dict[str, str] = {}
    for (night, _), of_run in runs.items():
        if label_format(night) != label_format(_night(row)):
            left_out[night] = "without an as_of" if night in _UNDATED else "with an as_of of another form"
            continue
        if night >= _night(row):
            continue
        new, old = of_run.get(row["model"]), of_run.get(model)
        if new is None or old is None or not (has_value(new) and has_value(old)):
            left_out[night] = "without a value of both models"
        elif {new["convention"], old["convention"]} != {row["convention"]}:
            left_out[night] = "of another convention"
        else:
            found[night] = new["data_hash"] or night, drop_of(new, old["value"]), allowed(old["value"])
    found[_night(row)] = row["data_hash"] or _night(row), drop_of(row, reference), allowed(reference)
    by_truth = {truth: (drop, limit) for truth, drop, limit in found.values()}
    reasons = [why for night, why in left_out.items() if night not in found]
    reasons += ["with the truth of a later one"] * (len(found) - len(by_truth))
    told = ", ".join(f"{reasons.count(why)} {why}" for why in dict.fromkeys(reasons))
    text = f"{len(by_truth)} night{'' if len(by_truth) == 1 else 's'}{f' (left out: {told})' if told else ''}"
    limits = fmean(limit for _, limit in by_truth.values())
    return Drops([drop - limit for drop, limit in by_truth.values()], limits, text)
