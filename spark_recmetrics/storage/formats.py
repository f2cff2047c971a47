"""The formats of input files and of published tables."""

from __future__ import annotations

import re
from typing import Literal

FileFormat = Literal["parquet", "csv", "json", "orc", "delta"]
"""The formats of files that can be read."""

TableFormat = Literal["parquet", "delta", "orc"]
"""The formats of tables that can be written."""

_SUFFIX = re.compile(r"\.(csv|tsv|json|jsonl|ndjson|orc|parquet)(?:\.\w+)?$", re.IGNORECASE)
"""The suffix of a file name; that of a compression may follow."""

_FORMATS = {"tsv": "csv", "jsonl": "json", "ndjson": "json"}
"""Formats of the suffixes that are not named like their format."""


def other_format(path: str | None, read: FileFormat) -> str | None:
    """Advice to set the format that the file name suggests; None if it is the format that was read."""
    ending = _SUFFIX.search(path or "")
    if ending is None:
        return None
    suffix = ending[1].lower()
    suggested = _FORMATS.get(suffix, suffix)
    if suggested == read:
        return None
    separator = ', and options: {sep: "\\t"}' if suffix == "tsv" else ""
    return f"its name ends in {ending[0]}: set format: {suggested}{separator}"
