"""Which metrics, models and rows of a result a report shows, and which values are best."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from spark_recmetrics.metrics import Metric, parse
from spark_recmetrics.metrics.objectives import equal
from spark_recmetrics.reports.formatting import Row, interval_text, value_text
from spark_recmetrics.request.slices import slice_name
from spark_recmetrics.runs.order import changes
from spark_recmetrics.text import counted, printable


def models_of(rows: Iterable[Row]) -> list[str]:
    """The models in their order."""
    return list(dict.fromkeys(row["model"] for row in rows))


def of_all_users(rows: Iterable[Row]) -> list[Row]:
    """The rows that are not of a slice."""
    return [row for row in rows if row["slice"] == "all"]


def by_metric(rows: Iterable[Row]) -> dict[str, dict[str, Row]]:
    """The rows of one slice, by metric and then by model."""
    lines: dict[str, dict[str, Row]] = {}
    for row in rows:
        lines.setdefault(row["metric"], {})[row["model"]] = row
    return lines


def by_slice(rows: Iterable[Row], metric: str) -> list[tuple[str, dict[str, Row]]]:
    """The rows of one metric by model, for each slice with its name."""
    lines: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if row["metric"] == metric:
            lines.setdefault((row["slice"], row["slice_value"]), {})[row["model"]] = row
    return [(printable(slice_name(next(iter(by_model.values())))), by_model) for by_model in lines.values()]


def run_changes(runs: Iterable[tuple[str, Mapping[str, Row]]]) -> list[list[str]]:
    """What has changed in each of the `newest_runs` since the run before it; nothing in the first run."""
    rows = [next(iter(by_model.values())) for _, by_model in runs]
    return [[], *(changes(before, now) for before, now in pairwise(rows))]


class Cell(NamedTuple):
    """The value of one model, as text; `users` is empty unless models differ in their number."""

    value: str
    interval: str
    users: str
    best: bool


class Line(NamedTuple):
    """One metric or slice of a table with a column for each model."""

    name: str
    users: str
    small: bool
    lower: bool
    cells: list[Cell]


def value_lines(lines: Iterable[tuple[str, Mapping[str, Row]]], models: Sequence[str]) -> list[Line]:
    """The lines of a table of values, from their names and their rows by model."""
    table = []
    for name, by_model in lines:
        rows = list(by_model.values())
        counts = sorted({row["n_users"] for row in rows})
        differ = len(counts) > 1
        # The preference of a group of users for a group of items is neither good nor bad.
        ranked = rows[0]["slice"] == "all" or not parse(rows[0]["metric"]).definition.by_pair
        best = best_values(rows) if ranked else set()
        users = f"{counts[0]} to {counts[-1]}" if differ else str(counts[0])
        cells = [_cell(by_model.get(model), best, with_users=differ) for model in models]
        lower = ranked and not rows[0]["higher_is_better"]
        table.append(Line(name, users, any(row.get("small") for row in rows), lower, cells))
    return table


def _cell(row: Row | None, best: Collection[float], *, with_users: bool) -> Cell:
    if row is None or row["value"] is None:
        return Cell(value_text(None), "", "", best=False)
    users = counted(row["n_users"], "user") if with_users else ""
    return Cell(value_text(row["value"]), interval_text(row), users, row["value"] in best)


def best_values(rows: Sequence[Row]) -> set[float]:
    """The best values in a row, equal up to rounding; none if there is one model, or if all are equal."""
    values: list[float] = [row["value"] for row in rows if row["value"] is not None]
    top = (max if rows[0]["higher_is_better"] else min)(values, default=math.nan)
    best = {value for value in values if equal(value, top)}
    return best if set(values) - best else set()


def headline_of(rows: Iterable[Row]) -> str:
    """The metric that represents a result."""
    return str(headline_metric([parse(metric) for metric in by_metric(rows)]))


def headline_metric(metrics: Sequence[Metric]) -> Metric:
    """The first ranking metric of accuracy; else the first other metric of accuracy, ranking metric, or metric at all."""

    def priority(metric: Metric) -> int:
        kind, accurate = metric.definition.kind, metric.definition.accuracy
        if kind == "objective":
            return 3
        return 0 if kind == "ranking" and accurate else 1 if accurate else 2 if kind == "ranking" else 3

    return min(metrics, key=priority)


def best_models(rows: Sequence[Row], most: int, keep: Collection[str] = ()) -> list[str]:
    """At most so many models, in their order: those to keep, then those with the best headline values over all users."""
    models = models_of(rows)
    if len(models) <= most:
        return models
    overall = of_all_users(rows)
    metric = headline_of(overall)
    values = {row["model"]: row["value"] for row in overall if row["metric"] == metric}
    ranked = [model for model in models if values.get(model) is not None]
    ranked.sort(key=lambda model: values[model], reverse=parse(metric).definition.higher_is_better)
    chosen = list(dict.fromkeys([*(model for model in models if model in keep), *ranked, *models]))[:most]
    return [model for model in models if model in chosen]


def best_pairs_first(comparison: Sequence[Row]) -> list[Row]:
    """The rows of COMPARISON over all users, with the pairs of the best models by the headline first."""
    metric = headline_of([{**row, "model": ""} for row in comparison])
    sums = {
        (row["model_a"], row["model_b"]): row["mean_a"] + row["mean_b"]
        for row in comparison
        if row["metric"] == metric and row["mean_a"] is not None and row["mean_b"] is not None
    }
    ranked = sorted(sums, key=lambda pair: sums[pair], reverse=parse(metric).definition.higher_is_better)
    position = {pair: n for n, pair in enumerate(ranked)}
    return sorted(comparison, key=lambda row: position.get((row["model_a"], row["model_b"]), len(position)))
