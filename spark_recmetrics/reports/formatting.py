"""How values, intervals and tables look as text."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
"""A row of SUMMARY, COMPARISON or GATES."""

RESULT_MARK = "RECMETRICS_RESULT"
"""First word of the last line of a job, before its JSON. No other line begins with it."""

UNDEFINED = "undefined"

SHOWN = 50
"""How many items a line or table names."""

SMALL_NOTE = "~ too few users for a conclusion"


def unmarked(text: str) -> str:
    r"""The text with a blank before every line that begins with `RESULT_MARK`, which may be the name of a model or job.

    Example:
        >>> unmarked("a\nRECMETRICS_RESULT {}")
        'a\n RECMETRICS_RESULT {}'
    """
    return "\n".join(f" {line}" if line.startswith(RESULT_MARK) else line for line in text.split("\n"))


def value_text(value: float | None) -> str:
    """A value of a metric."""
    return UNDEFINED if value is None else f"{value:.4f}"


def interval_text(row: Row) -> str:
    """The confidence interval of a value or difference; empty if there is none.

    Example:
        >>> interval_text({"ci_low": 0.125, "ci_high": 0.25})
        '[0.1250, 0.2500]'
    """
    defined = row["ci_low"] is not None and row["ci_high"] is not None
    return f"[{row['ci_low']:.4f}, {row['ci_high']:.4f}]" if defined else ""


def difference_text(row: Row) -> str:
    """The mean difference of a row of COMPARISON, with its sign; empty if there is none."""
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


def shortened(texts: Sequence[str]) -> str:
    """The first texts, and how many more there are."""
    n_more = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {n_more} more" if n_more > 0 else "")


def aligned(table: Sequence[Sequence[str]], *, n_left: int, n_last_left: int = 0) -> str:
    """The table as text: its first and last columns are flush left, the others flush right."""
    n = len(table[0])
    widths = [max(width_of(line[column]) for line in table) for column in range(n)]
    lines = (
        "  ".join(
            cell + " " * (width - width_of(cell))
            if column < n_left or column >= n - n_last_left
            else " " * (width - width_of(cell)) + cell
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    )
    return unmarked("\n".join(lines))


def width_of(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
