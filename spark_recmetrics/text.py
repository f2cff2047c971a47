"""How values look in messages."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Any


def writable(text: str) -> bool:
    """Whether the string can be encoded as UTF-8: lone surrogates cannot."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def brief(value: object) -> str:
    """The value as error messages show it: on one line, with at most 60 characters."""
    try:
        text = " ".join(repr(value).split("\n"))
    except (ValueError, RecursionError):  # Python does not print integers of thousands of digits
        return f"{type(value).__name__} too long to be written"
    return text if len(text) <= 60 else f"{text[:57]}..."


def brief_value(value: object) -> str:
    """The value of a configuration for a message: short, and without the content of lists and mappings."""
    if value is None or isinstance(value, dict | list):
        return "nothing" if value is None else "a list" if isinstance(value, list) else "a mapping"
    return brief(value)


def counted(n: int, what: str) -> str:
    """A number with its noun, in the plural if it is not 1."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def printable(text: str) -> str:
    """The string on one line, with `�` in place of control characters."""
    # Line and paragraph separators are not control characters, but break lines.
    categories = ((char, unicodedata.category(char)) for char in text)
    return "".join("\N{REPLACEMENT CHARACTER}" if kind[0] == "C" or kind in ("Zl", "Zp") else char for char, kind in categories)


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar name, or all names if none is similar."""
    names = sorted(printable(choice) for choice in choices)  # columns and models may have any name
    similar = get_close_matches(name.lower(), [choice.lower() for choice in names], n=1, cutoff=0.6)
    if similar:
        return f"; did you mean {next(choice for choice in names if choice.lower() == similar[0])!r}?"
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"; known: {', '.join(names[:_MOST_NAMES])}{more}" if names else ""


_MOST_NAMES = 200


def json_text(value: Any, indent: int | None = None) -> str:
    """The value as JSON, with null for infinity and NaN, and times in ISO 8601."""
    return json.dumps(_plain(value), allow_nan=False, indent=indent)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
