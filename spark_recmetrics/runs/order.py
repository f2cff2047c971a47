"""The order of the runs of a job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
"""A row of SUMMARY."""


def label_format(as_of: str) -> str:
    """The format of an `as_of`. Labels of one format sort by time as strings; labels of two formats have no order.

    Example:
        >>> label_format("2026-11-28"), label_format("20261128"), label_format("9"), label_format("10")
        ('9999-99-99', '99999999', '9', '99')
    """
    return re.sub("[0-9]", "9", as_of)


def newest_runs(rows: Sequence[Row], last: int) -> list[tuple[str, dict[str, Row]]]:
    """The `as_of` of the last runs, with their rows of one metric by model. Of runs with the same `as_of` the latest counts.

    Example:
        >>> row = {"run_id": "r", "model": "als", "as_of": "2", "value": 0.5, "computed_at": 0}
        >>> runs = newest_runs([row, {**row, "run_id": "s", "value": 0.25, "computed_at": 1}, {**row, "as_of": "1"}], 2)
        >>> [(as_of, models["als"]["value"]) for as_of, models in runs]
        [('1', 0.5), ('2', 0.25)]
    """
    ordered = sorted(rows, key=lambda row: (row["as_of"], row["computed_at"]))
    latest = {row["as_of"]: row["run_id"] for row in ordered}
    newest: dict[str, dict[str, Row]] = {}
    for row in ordered:
        if row["run_id"] == latest[row["as_of"]]:
            newest.setdefault(row["as_of"], {})[row["model"]] = row
    return list(newest.items())[-last:]


_CHANGES = {
    "data_hash": "the ground truth",
    "config_hash": "the configuration (or only that of the comparison)",
    "convention": "the convention",
}


def changes(before: Row, now: Row) -> list[str]:
    """What has changed between two runs, other than the model."""
    return [text for key, text in _CHANGES.items() if now[key] != before[key]]
