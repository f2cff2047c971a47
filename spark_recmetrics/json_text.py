"""JSON for programs of any language."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any


def json_text(value: Any, indent: int | None = None) -> str:
    """The value as JSON: null for infinity and NaN, which JSON lacks, and times by ISO 8601.

    Example:
        >>> json_text({"value": float("nan"), "at": datetime(2026, 11, 28)})
        '{"value": null, "at": "2026-11-28T00:00:00"}'
    """
    return json.dumps(_plain(value), allow_nan=False, indent=indent)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "item"):  # a number of numpy
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
