"""Why ids that look the same are different: blanks, letter case, Unicode form, and how numbers are written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import reduce

from spark_recmetrics.text import brief, printable

N_SAMPLED = 1000
"""How many ids are compared."""

_DIFFERENCES: Mapping[str, Callable[[str], str]] = {
    "blanks at an end": str.strip,
    "letter case": str.lower,
    "a decimal part .0": lambda text: re.sub(r"\.0+$", "", text),
    "leading zeros": lambda text: re.sub(r"^0+(?=.)", "", text),
    "Unicode form (NFC, NFD)": lambda text: unicodedata.normalize("NFC", text),
}
"""What may differ, and the function that removes the difference."""

FOLDED_BY = ((r"^[\s\p{Z}]+|[\s\p{Z}]+$", ""), (r"\.0+$", ""), (r"^0+(?=.)", ""))
"""Patterns of Java and their replacements that, on lower case, do the same but for the Unicode form."""


def folded_forms(ids: Iterable[str]) -> list[str]:
    """The ids without these differences, in each Unicode form."""
    return sorted({unicodedata.normalize(form, _folded(text)) for text in ids for form in ("NFC", "NFD")})


def why_different(ids: Iterable[str], others: Iterable[str]) -> str | None:
    """What two ids differ in that look the same, the first in `ids` and the second in `others`; None without such ids."""
    by_folded = {_folded(other): other for other in sorted(others, reverse=True)}
    for one in sorted(ids):
        other = by_folded.get(_folded(one), one)
        if other != one:
            needed = [name for name in _DIFFERENCES if _folded(one, without=name) != _folded(other, without=name)]
            return f"ids differ only in {' and '.join(needed)}, for example {_shown(one)} and {_shown(other)}"
    return None


def _folded(text: str, without: str | None = None) -> str:
    return reduce(lambda folded, name: folded if name == without else _DIFFERENCES[name](folded), _DIFFERENCES, text)


def _shown(text: str) -> str:
    """The id in quotes. Of a Unicode form other than NFC, with its code points, because both forms look the same."""
    return brief(printable(text)) if unicodedata.is_normalized("NFC", text) else ascii(text)
