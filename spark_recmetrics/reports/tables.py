"""Results as tables of text, for a terminal. Rendering computes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_recmetrics.reports.findings import slice_findings
from spark_recmetrics.reports.formatting import (
    SMALL_NOTE,
    Row,
    aligned,
    difference_text,
    interval_text,
    p_text,
    result_text,
    shortened,
    value_text,
)
from spark_recmetrics.reports.selection import best_values, by_metric, by_slice, models_of, of_all_users, value_lines
from spark_recmetrics.request.slices import slice_name
from spark_recmetrics.runs.order import changes, newest_runs
from spark_recmetrics.text import printable

if TYPE_CHECKING:
    from spark_recmetrics.metrics.objectives import Standing


def metric_table(rows: Sequence[Row]) -> str:
    """Rows of SUMMARY of one slice: metrics and cut-offs down, models across; a star marks the best value in a row.

    Example:
        >>> row = {"model": "als", "metric": "ndcg@10", "k": 10, "value": 0.25, "higher_is_better": True}
        >>> print(metric_table([row, {**row, "model": "popularity", "value": 0.125}]))
        metric   k     als   popularity
        ndcg    10  0.2500*      0.1250
    """
    models = models_of(rows)
    # The star has a column of its own, so that digits stay in line.
    table = [["metric", "k", *(f"{printable(model)} " for model in models)]]
    for metric, of_model in by_metric(rows).items():
        k, best = next(iter(of_model.values()))["k"], best_values(list(of_model.values()))
        values = [of_model[model]["value"] if model in of_model else None for model in models]
        cells = (_starred(value_text(value), best=value in best) for value in values)
        table.append([metric.removesuffix(f"@{k}"), str(k or ""), *cells])
    return aligned(table, n_left=1)


def _starred(value: str, *, best: bool) -> str:
    return f"{value}{'*' if best else ' '}"


def pareto_table(standings: Sequence[Standing]) -> str:
    """A table for each cut-off of the objectives: the values of each model, and whether another model dominates it.

    Example:
        >>> from spark_recmetrics.metrics.objectives import Standing
        >>> als = Standing(10, "als", {"ndcg@10": 0.25, "gini@10": 0.5}, True, (), None)
        >>> pop = Standing(10, "popularity", {"ndcg@10": 0.125, "gini@10": 0.75}, False, ("als",), None)
        >>> print(pareto_table([als, pop]))
        model       ndcg@10  gini@10  Pareto-optimal
        als          0.2500   0.5000  yes
        popularity   0.1250   0.7500  no: dominated by als
    """
    return "\n\n".join(aligned(table, n_left=1, n_last_left=1) for table in pareto_cells(standings))


def pareto_cells(standings: Sequence[Standing]) -> list[list[list[str]]]:
    """The cells of a table for each cut-off of the objectives, its header first."""
    tables: dict[int | None, list[list[str]]] = {}
    for standing in standings:
        optimal = f"no: dominated by {shortened(standing.dominated_by)}" if standing.dominated_by else "yes"
        optimal = f"unknown: {standing.reason}" if standing.optimal is None else optimal
        table = tables.setdefault(standing.k, [["model", *standing.values, "Pareto-optimal"]])
        table.append([printable(standing.model), *map(value_text, standing.values.values()), printable(optimal)])
    return list(tables.values())


def slice_table(rows: Sequence[Row], metric: str) -> str:
    """One metric for all users and for each slice, with confidence intervals; a star marks the best value in a row.

    Example:
        >>> row = {"model": "als", "slice": "all", "slice_value": "all", "metric": "hit@1", "value": 0.5, "n_users": 40}
        >>> row |= {"ci_low": 0.345, "ci_high": 0.655, "small": False, "higher_is_better": True}
        >>> few = {"slice": "gender", "slice_value": "F", "n_users": 3, "small": True, "ci_low": 0.0, "ci_high": 1.0}
        >>> print(slice_table([row, {**row, **few}], "hit@1"))
        hit@1       users  als
        all            40  0.5000  [0.3450, 0.6550]
        gender = F     ~3  0.5000  [0.0000, 1.0000]
        <BLANKLINE>
        ~ too few users for a conclusion
    """
    models = models_of(rows)
    lines = value_lines(by_slice(rows, metric), models)
    table = [[metric, "users", *map(printable, models)]]
    for line in lines:
        cells = (f"{_starred(cell.value, best=cell.best)} {cell.interval}".rstrip() for cell in line.cells)
        table.append([line.name, f"{'~' if line.small else ''}{line.users}", *cells])
    note = f"\n\n{SMALL_NOTE}" if any(line.small for line in lines) else ""
    return aligned(table, n_left=1, n_last_left=len(models)) + note


def comparison_table(rows: Sequence[Row], alpha: float) -> str:
    """Rows of COMPARISON over all users; of slices the significant differences in the first metric, and counts of the others.

    Example:
        >>> row = {"model_a": "pop", "model_b": "als", "metric": "ndcg@10", "diff": 0.125, "ci_low": 0.0, "ci_high": 0.25}
        >>> row |= {"p_adjusted": 0.05, "wins": 3, "ties": 1, "losses": 0, "n_users": 4, "winner": None, "reason": None}
        >>> row |= {"slice": "all", "slice_value": "all", "smallest_difference": 0.5}
        >>> few = {"slice": "gender", "slice_value": "F", "p_adjusted": None, "reason": "small_slice"}
        >>> print(comparison_table([row, {**row, **few}], 0.01))
        a    b    metric     b - a           99 % CI      p  +/=/-  users  result
        pop  als  ndcg@10  +0.1250  [0.0000, 0.2500]  0.050  3/1/0      4  not significant (minimum detectable effect 0.5000)
        <BLANKLINE>
        gender: 0 of 1 comparisons significant, 1 with too few users to test
    """
    blocks = [_comparison_block(of_all_users(rows), alpha)]
    sliced = [row for row in rows if row["slice"] != "all"]
    for name, sentence in zip(dict.fromkeys(row["slice"] for row in sliced), slice_findings(rows), strict=True):
        of_slice = [row for row in sliced if row["slice"] == name]
        shown = [row for row in of_slice if row["winner"] is not None and row["metric"] == of_slice[0]["metric"]]
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
    """The last runs of a job for one metric: a line for each run, a column and a sparkline for each model.

    The last column names what has changed since the previous run, such as the ground truth or the configuration. Of several
    runs with one `as_of` the last counts.

    Example:
        >>> row = {"run_id": "r", "model": "als", "convention": "default", "config_hash": "c", "computed_at": 0}
        >>> runs = [("11-26", 0.25, "d"), ("11-27", 0.5, "d"), ("11-28", 0.125, "e")]
        >>> print(history_table([{**row, "as_of": a, "value": v, "data_hash": d} for a, v, d in runs], last=30))
        as_of     als  changed
        11-26  0.2500
        11-27  0.5000
        11-28  0.1250  the ground truth
        <BLANKLINE>
        als  ▃█▁
    """
    runs = newest_runs(rows, last)
    models = list(dict.fromkeys(model for _, of_run in runs for model in sorted(of_run)))
    table, previous = [["as_of", *map(printable, models), "changed"]], None
    for as_of, of_run in runs:
        row = next(iter(of_run.values()))
        changed: list[str] = [] if previous is None else changes(previous, row)
        values = [value_text(of_run[model]["value"]) if model in of_run else "" for model in models]
        table.append([printable(as_of), *values, " and ".join(changed)])
        previous = row
    sparklines = [
        [printable(model), _sparkline([of_run[model]["value"] if model in of_run else None for _, of_run in runs])]
        for model in models
    ]
    return f"{aligned(table, n_left=1, n_last_left=1)}\n\n{aligned(sparklines, n_left=1, n_last_left=1)}"


_BARS = "▁▂▃▄▅▆▇█"


def _sparkline(values: Sequence[float | None]) -> str:
    """A bar for each value, from the smallest to the largest; a blank where it is missing or infinite."""
    values = [value if value is not None and math.isfinite(value) else None for value in values]
    finite = [value for value in values if value is not None]
    low, span = min(finite, default=0.0), max(finite, default=0.0) - min(finite, default=0.0)
    steps = len(_BARS) - 1
    return "".join(" " if v is None else _BARS[round((v - low) / span * steps) if span else steps // 2] for v in values)
