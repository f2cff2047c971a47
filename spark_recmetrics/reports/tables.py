"""Results as tables of text, for a terminal. Rendering computes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from spark_recmetrics.metrics.objectives import Standing
from spark_recmetrics.reports.findings import slice_findings
from spark_recmetrics.reports.formatting import (
    SMALL_NOTE,
    Row,
    aligned,
    difference_text,
    finite,
    interval_text,
    p_text,
    result_text,
    shortened,
    value_text,
)
from spark_recmetrics.reports.selection import (
    best_values,
    by_metric,
    by_slice,
    models_of,
    of_all_users,
    run_changes,
    value_lines,
)
from spark_recmetrics.request.slices import slice_name
from spark_recmetrics.runs.references import newest_runs
from spark_recmetrics.text import printable


def metric_table(rows: Sequence[Row]) -> str:
    """Rows of SUMMARY of one slice: metrics and cut-offs down, models across; a star marks the best value in a row."""
    models = models_of(rows)
    table = [["metric", "k", *(f"{printable(model)} " for model in models)]]  # a blank above the stars
    for metric, by_model in by_metric(rows).items():
        k, best = next(iter(by_model.values()))["k"], best_values(list(by_model.values()))
        values = [by_model[model]["value"] if model in by_model else None for model in models]
        cells = (_starred(value_text(value), best=value in best) for value in values)
        table.append([metric.removesuffix(f"@{k}"), str(k or ""), *cells])
    return aligned(table, n_left=1)


def _starred(value: str, *, best: bool) -> str:
    return f"{value}{'*' if best else ' '}"


def pareto_table(standings: Sequence[Standing]) -> str:
    """A table for each cut-off of the objectives: the values of each model, and which models dominate it."""
    return "\n\n".join(aligned(table, n_left=1, n_last_left=1) for table in pareto_cells(standings))


def pareto_cells(standings: Sequence[Standing]) -> list[list[list[str]]]:
    """The cells of these tables, the header first."""
    tables: dict[int | None, list[list[str]]] = {}
    for standing in standings:
        optimal = f"no: dominated by {shortened(standing.dominated_by)}" if standing.dominated_by else "yes"
        optimal = f"unknown: {standing.reason}" if standing.optimal is None else optimal
        table = tables.setdefault(standing.k, [["model", *standing.values, "Pareto-optimal"]])
        table.append([printable(standing.model), *map(value_text, standing.values.values()), printable(optimal)])
    return list(tables.values())


def slice_table(rows: Sequence[Row], metric: str) -> str:
    """One metric for all users and for each slice, with confidence intervals; a star marks the best value in a row."""
    models = models_of(rows)
    lines = value_lines(by_slice(rows, metric), models)
    table = [[metric, "users", *map(printable, models)]]
    for line in lines:
        cells = (f"{_starred(cell.value, best=cell.best)} {cell.interval}".rstrip() for cell in line.cells)
        table.append([line.name, f"{'~' if line.small else ''}{line.users}", *cells])
    note = f"\n\n{SMALL_NOTE}" if any(line.small for line in lines) else ""
    return aligned(table, n_left=1, n_last_left=len(models)) + note


def comparison_table(rows: Sequence[Row], alpha: float) -> str:
    """Rows of COMPARISON over all users; of slices the significant ones of the first metric, and counts of the others."""
    blocks = [_comparison_block(of_all_users(rows), alpha)]
    sliced = [row for row in rows if row["slice"] != "all"]
    for name, sentence in zip(dict.fromkeys(row["slice"] for row in sliced), slice_findings(rows), strict=True):
        compared = [row for row in sliced if row["slice"] == name]
        shown = [row for row in compared if row["winner"] is not None and row["metric"] == compared[0]["metric"]]
        blocks += [_comparison_block(shown, alpha)] if shown else []
        blocks.append(f"{sentence}{f', {len(shown)} shown' if shown else ''}")
    return "\n\n".join(blocks)


def _comparison_block(rows: Sequence[Row], alpha: float) -> str:
    table = comparison_cells(rows, alpha)
    return aligned(table, n_left=table[0].index("metric") + 1, n_last_left=1)


def comparison_cells(rows: Sequence[Row], alpha: float) -> list[list[str]]:
    """Rows of COMPARISON as the cells of a table, its header first."""
    sliced = any(row["slice"] != "all" for row in rows)
    names = ["a", "b", *(["slice"] if sliced else []), "metric"]
    table = [[*names, "b - a", f"{100 * (1 - alpha):g} % CI", "p", "+/=/-", "users", "result"]]
    for row in rows:
        names = [row["model_a"], row["model_b"], *([slice_name(row)] if sliced else []), row["metric"]]
        wins = "" if row["wins"] is None else f"{row['wins']}/{row['ties']}/{row['losses']}"
        numbers = [difference_text(row), interval_text(row), p_text(row), wins, str(row["n_users"])]
        table.append([*map(printable, names), *numbers, printable(result_text(row))])
    return table


def history_table(rows: Sequence[Row], last: int) -> str:
    """The last runs of a job for one metric: a line for each run, and a column and a sparkline for each model."""
    # Of several runs with one `as_of` the last counts.
    runs = newest_runs(rows, last)
    models = list(dict.fromkeys(model for _, by_model in runs for model in sorted(by_model)))
    table = [["as_of", *map(printable, models), "changed"]]
    for (as_of, by_model), changed in zip(runs, run_changes(runs), strict=True):
        values = [value_text(by_model[model]["value"]) if model in by_model else "" for model in models]
        table.append([printable(as_of), *values, " and ".join(changed)])
    sparklines = []
    for model in models:
        values_of_runs = [by_model[model]["value"] if model in by_model else None for _, by_model in runs]
        sparklines.append([printable(model), _sparkline(values_of_runs)])
    return f"{aligned(table, n_left=1, n_last_left=1)}\n\n{aligned(sparklines, n_left=1, n_last_left=1)}"


_BARS = "▁▂▃▄▅▆▇█"


def _sparkline(values: Sequence[float | None]) -> str:
    """A bar for each value, from the smallest to the largest; a blank where it is missing or infinite."""
    heights = [finite(value) for value in values]
    low, high = (end((height for height in heights if height is not None), default=0.0) for end in (min, max))
    top = len(_BARS) - 1
    return "".join(
        " " if height is None else _BARS[round((height - low) / (high - low) * top) if high > low else top // 2]
        for height in heights
    )
