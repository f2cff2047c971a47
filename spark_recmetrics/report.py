"""A result as text for a terminal. Rendering computes nothing: the rows are handed in."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

_UNDEFINED = "undefined"


def metric_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Metrics and cut-offs down, models across; the best value of a line has a star.

    Args:
        rows: Rows of SUMMARY for one slice.

    Example:
        >>> row = {"model": "als", "metric": "ndcg@10", "k": 10, "value": 0.25, "higher_is_better": True}
        >>> print(metric_table([row, {**row, "model": "popularity", "value": 0.125}]))
        metric   k     als   popularity
        ndcg    10  0.2500*      0.1250
    """
    models = list(dict.fromkeys(row["model"] for row in rows))
    lines: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        lines.setdefault(row["metric"], {})[row["model"]] = row
    table = [["metric", "k", *(printable(model) for model in models)]]
    for metric, of_model in lines.items():
        k = next(iter(of_model.values()))["k"]
        best = _best(list(of_model.values()))
        values = [_value(of_model.get(model), best) for model in models]
        table.append([metric.removesuffix(f"@{k}"), "" if k is None else str(k), *values])
    # A star stands in a column of its own, so that digits stay in line.
    table[0][2:] = [f"{name} " for name in table[0][2:]]
    widths = [max(_width(line[column]) for line in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(
            cell + " " * (width - _width(cell)) if column == 0 else " " * (width - _width(cell)) + cell
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    )


def _best(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The best value of a line, if there is more than one model and they differ."""
    values = [row["value"] for row in rows if row["value"] is not None]
    if len(values) < 2 or min(values) == max(values):
        return None
    best: float = max(values) if rows[0]["higher_is_better"] else min(values)
    return best


def _value(row: Mapping[str, Any] | None, best: float | None) -> str:
    if row is None or row["value"] is None:
        return f"{_UNDEFINED} "
    value = row["value"]
    return f"{value:.4f}{'*' if value == best else ' '}"


def printable(text: str) -> str:
    """The text on one line, without anything that could move the cursor."""
    return "".join(char if unicodedata.category(char)[0] != "C" else "\N{REPLACEMENT CHARACTER}" for char in text)


def _width(text: str) -> int:
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
