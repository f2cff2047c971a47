"""Nights of a job: in order, and what the value of one is compared with: another model, earlier runs, all drops so far."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
"""A row of SUMMARY."""


def label_format(as_of: str) -> str:
    """The form of the label of a night: labels of one form stand in their order as texts, and of two forms nobody knows.

    Example:
        >>> label_format("2026-11-28"), label_format("20261128"), label_format("9"), label_format("10")
        ('9999-99-99', '99999999', '9', '99')
    """
    return re.sub("[0-9]", "9", as_of)


def newest_runs(rows: Sequence[Row], last: int) -> list[tuple[str, dict[str, Row]]]:
    """The last nights with their rows by model. Of two runs of one `as_of` the later counts, with the models that it has.

    Args:
        rows: Rows of SUMMARY for one metric, of several runs.
        last: How many nights.

    Example:
        >>> row = {"run_id": "r", "model": "als", "as_of": "2", "value": 0.5, "computed_at": 0}
        >>> nights = newest_runs([row, {**row, "run_id": "s", "value": 0.25, "computed_at": 1}, {**row, "as_of": "1"}], 2)
        >>> [(as_of, of_night["als"]["value"]) for as_of, of_night in nights]
        [('1', 0.5), ('2', 0.25)]
    """
    ordered = sorted(rows, key=lambda row: (row["as_of"], row["computed_at"]))
    last_run = {row["as_of"]: row["run_id"] for row in ordered}
    newest: dict[str, dict[str, Row]] = {}
    for row in ordered:
        if row["run_id"] == last_run[row["as_of"]]:
            newest.setdefault(row["as_of"], {})[row["model"]] = row
    return list(newest.items())[-last:]


def changes(before: Row, now: Row) -> list[str]:
    """What is another between the rows of two nights, in words: a step that comes with it may be none of the model.

    Example:
        >>> night = {"data_hash": "d", "config_hash": "c", "convention": "default"}
        >>> changes(night, {**night, "data_hash": "e"})
        ['the truth']
    """
    return [text for key, text in _CHANGES.items() if now[key] != before[key]]


_CHANGES = {
    "data_hash": "the truth",
    "config_hash": "the configuration (perhaps of the comparison alone)",
    "convention": "the convention",
}
