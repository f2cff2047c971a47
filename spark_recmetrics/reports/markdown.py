"""Results as Markdown, for pull requests. Rendering computes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from spark_recmetrics.metrics.objectives import Standing
from spark_recmetrics.reports.findings import findings, gates_summary
from spark_recmetrics.reports.formatting import Row
from spark_recmetrics.reports.selection import Cell, by_metric, models_of, of_all_users, value_lines
from spark_recmetrics.reports.tables import comparison_cells, pareto_cells
from spark_recmetrics.text import printable


def as_markdown(
    rows: Sequence[Row],
    *,
    gate_results: Sequence[Row],
    comparison: Sequence[Row],
    standings: Sequence[Standing],
    warnings: Sequence[str],
    confidence: float,
    alpha: float,
) -> str:
    """A result without slices as GitHub Markdown. Names are escaped: they cannot be links, mentions or HTML."""
    overall = of_all_users(rows)
    models = models_of(overall)
    level, summary = gates_summary(gate_results)
    blocks = [f"**{level.upper()}**: {summary}"] if gate_results else []
    blocks.append("\n".join(f"- {_escaped(text)}" for text in findings(rows, comparison, confidence, alpha)))
    if gate_results:
        lines = [[row["result"].upper(), row["model"] or "no model", row["gate"], row["reason"]] for row in gate_results]
        blocks.append(_table([["result", "model", "gate", "reason"], *lines]))
    values = [
        [_escaped(line.name), line.users, *map(_value, line.cells)] for line in value_lines(by_metric(overall).items(), models)
    ]
    blocks.append(_pipes([["metric", "users", *map(_escaped, models)], *values], n_left=1))
    blocks += ["**Several metrics at once**"] if standings else []
    blocks += map(_table, pareto_cells(standings))
    if pairs := of_all_users(comparison):
        blocks.append(_table(comparison_cells(pairs, alpha)))
    if warnings:
        blocks.append("\n".join(f"- warning: {_escaped(line)}" for line in warnings))
    return "\n\n".join(blocks) + "\n"


def _value(cell: Cell) -> str:
    value = f"**{cell.value}**" if cell.best else cell.value
    return " ".join(filter(None, (value, cell.interval, f"({cell.users})" if cell.users else "")))


def _escaped(text: str) -> str:
    """The text with entities for all characters that have a meaning in Markdown or on GitHub, except in intervals."""
    interval, special = r"\[-?\d+\.\d+, -?\d+\.\d+\](?![(:\[])", r"[^\w\s.,:;()+/=%@-]|_|:(?=\S)|(?<!\w)@|(?<=www)\."
    return re.sub(f"({interval})|{special}", lambda match: match[1] or f"&#{ord(match[0])};", printable(str(text)))


def _table(lines: Iterable[Sequence[str]]) -> str:
    return _pipes([[_escaped(cell) for cell in line] for line in lines])


def _pipes(lines: Sequence[Sequence[str]], n_left: int = 99) -> str:
    """The lines of a table, its header first, with columns flush left and then flush right."""
    rule = ["---" if column < n_left else "---:" for column in range(len(lines[0]))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))
