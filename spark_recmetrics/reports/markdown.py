"""A result as Markdown, for pull requests. Rendering computes nothing: the rows are handed in."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_recmetrics.reports.tables import (
    UNDEFINED,
    best_values,
    by_metric,
    findings,
    gates_told,
    interval_of,
    models_of,
    pair_lines,
    pareto_lines,
    users_of,
)
from spark_recmetrics.text import counted, printable

if TYPE_CHECKING:
    from spark_recmetrics.metrics.objectives import Standing


def as_markdown(
    rows: Sequence[Mapping[str, Any]],
    *,
    gate_results: Sequence[Mapping[str, Any]] = (),
    comparison: Sequence[Mapping[str, Any]] = (),
    standings: Sequence[Standing] = (),
    warnings: Sequence[str] = (),
    confidence: float = 0.95,
    alpha: float = 0.05,
) -> str:
    """A result as Markdown of GitHub, for pull requests: summary, gates, values, objectives, differences, warnings.

    Names are texts there, whatever they look like: no link, no mention, no HTML.

    Args:
        rows: Rows of SUMMARY; those of slices are left out.
        gate_results: Rows of GATES.
        comparison: Rows of COMPARISON; those of slices are left out.
        standings: Of each model and cut-off of the objectives.
        warnings: Lines.
        confidence: Of the intervals of the values.
        alpha: The level of the comparison.

    Example:
        >>> row = {"slice": "all", "metric": "hit@1", "model": "a|b", "value": 0.25, "higher_is_better": True}
        >>> print(as_markdown([row | {"ci_low": 0.125, "ci_high": 0.375, "n_users": 40}]), end="")
        - hit@1: a&#124;b has 0.2500 (95 % interval 0.1250..0.3750, 40 users).
        <BLANKLINE>
        | metric | users | a&#124;b |
        | --- | ---: | ---: |
        | hit@1 | 40 | 0.2500 0.1250..0.3750 |
    """
    everybody = [row for row in rows if row["slice"] == "all"]
    models = models_of(everybody)
    level, told = gates_told(gate_results)
    blocks = [f"**{level.upper()}**: {told}"] if gate_results else []
    blocks.append("\n".join(f"- {_plain(text)}" for text in findings(rows, comparison, confidence, alpha)))
    if gate_results:
        lines = [[row["result"].upper(), row["model"] or "no model", row["gate"], row["reason"]] for row in gate_results]
        blocks.append(_pipes(["result", "model", "gate", "why"], [[_plain(cell) for cell in line] for line in lines]))
    lines = []
    for metric, of_model in by_metric(everybody).items():
        best = best_values(list(of_model.values()))
        users = users_of(of_model)
        cells = (_bold(of_model.get(model), best, told=".." in users) for model in models)
        lines.append([_plain(metric), users, *cells])
    blocks.append(_pipes(["metric", "users", *map(_plain, models)], lines, n_left=1))
    blocks += ["**Several metrics at once**"] if standings else []
    for heads, *lines in pareto_lines(standings):
        blocks.append(_pipes([_plain(head) for head in heads], [[_plain(cell) for cell in line] for line in lines]))
    pairs = [row for row in comparison if row["slice"] == "all"]
    if pairs:
        heads, *lines = pair_lines(pairs, alpha)
        blocks.append(_pipes([_plain(head) for head in heads], [[_plain(cell) for cell in line] for line in lines]))
    if warnings:
        blocks.append("\n".join(f"- warning: {_plain(line)}" for line in warnings))
    return "\n\n".join(blocks) + "\n"


def _bold(row: Mapping[str, Any] | None, best: Collection[float], *, told: bool) -> str:
    """A value with its interval, and with its number of users where that is to be told."""
    if row is None or row["value"] is None:
        return UNDEFINED
    value = f"**{row['value']:.4f}**" if row["value"] in best else f"{row['value']:.4f}"
    users = f" ({counted(row['n_users'], 'user')})" if told else ""
    return f"{value} {interval_of(row)}".rstrip() + users


def _plain(text: str) -> str:
    """The text with entities for all that Markdown, or GitHub, would make something of."""
    return re.sub(
        r"[^\w\s.,:;()+/=%@-]|_|:(?=\S)|(?<!\w)@|(?<=www)\.", lambda found: f"&#{ord(found[0])};", printable(str(text))
    )


def _pipes(heads: Sequence[str], lines: Sequence[Sequence[str]], n_left: int = 9) -> str:
    rule = ["---" if place < n_left else "---:" for place in range(len(heads))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *lines))
