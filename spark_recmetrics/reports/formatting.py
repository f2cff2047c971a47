"""Values, confidence intervals and tables as text."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
"""A row of SUMMARY, COMPARISON or GATES."""

RESULT_MARK = "RECMETRICS_RESULT"
"""First word of the last line of a job, before its JSON. No other line begins with it."""

SHOWN = 50  # most items that a line or table names

SMALL_NOTE = "~ too few users for a conclusion"


def unmarked(text: str) -> str:
    """The text with a blank before every line that begins with `RESULT_MARK`, such as the name of a model."""
    return "\n".join(f" {line}" if line.startswith(RESULT_MARK) else line for line in text.split("\n"))


def finite(value: float | None) -> float | None:
    """The value, or None if it is missing or infinite."""
    return value if value is not None and math.isfinite(value) else None


def value_text(value: float | None) -> str:
    """A value of a metric."""
    return "undefined" if value is None else f"{value:.4f}"


def interval_text(row: Row) -> str:
    """The confidence interval of a value or difference; empty if there is none."""
    defined = row["ci_low"] is not None and row["ci_high"] is not None
    return f"[{row['ci_low']:.4f}, {row['ci_high']:.4f}]" if defined else ""


def difference_text(row: Row) -> str:
    """The mean difference in a row of COMPARISON; empty if there is none."""
    return "" if row["diff"] is None else f"{row['diff']:+.4f}"


def p_text(row: Row) -> str:
    """The adjusted p value of a row of COMPARISON; empty if there is none."""
    p = row["p_adjusted"]
    return "" if p is None else f"{p:.3f}" if p >= 0.0005 else "<.001"


def result_text(row: Row) -> str:
    """The result of a row of COMPARISON: the better model, or the minimum detectable effect where nothing is significant."""
    if row["winner"] is not None:
        return f"significant: {row['winner']} is better"
    if row["p_adjusted"] is None:
        return f"undefined ({row['reason']})"
    least = row["smallest_difference"]
    return "not significant" + ("" if least is None else f" (minimum detectable effect {least:.4f})")


def shortened(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    n_more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {n_more} more" if n_more > 0 else "")


def aligned(table: Sequence[Sequence[str]], *, n_left: int, n_last_left: int = 0) -> str:
    """The table as text: its first and last columns are flush left, the others flush right."""
    widths = [max(map(width_of, column)) for column in zip(*table, strict=True)]
    lines = []
    for line in table:
        padding = [" " * (width - width_of(cell)) for cell, width in zip(line, widths, strict=True)]
        is_left = [n < n_left or n >= len(line) - n_last_left for n in range(len(line))]
        cells = (cell + pad if left else pad + cell for cell, pad, left in zip(line, padding, is_left, strict=True))
        lines.append("  ".join(cells).rstrip())
    return unmarked("\n".join(lines))


def width_of(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
