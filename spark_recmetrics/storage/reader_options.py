"""Options of Spark's readers under one name each: Spark ignores the case of names, and knows some options by two names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

_Value = TypeVar("_Value")

NUMBERS_AND_TIMES = (
    "locale",
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "timeZone",
    "nanValue",
    "positiveInf",
    "negativeInf",
)
"""Options of the readers of CSV and JSON that say how numbers and times are written."""

CHOICE_OF_FILES = ("pathGlobFilter", "modifiedBefore", "modifiedAfter", "basePath", "recursiveFileLookup")
"""Options that say which files are read."""

_OTHERS = (
    *("columnNameOfCorruptRecord", "emptyValue", "encoding", "escape", "header", "inferSchema", "mergeSchema", "mode"),
    *("multiLine", "nullValue", "primitivesAsString", "quote", "sep", "wholetext"),
)
_USUAL = {name.lower(): name for name in (*NUMBERS_AND_TIMES, *CHOICE_OF_FILES, *_OTHERS)} | {
    "charset": "encoding",
    "delimiter": "sep",
}


def with_usual_names(options: Mapping[str, _Value]) -> dict[str, _Value]:
    """The options with the names used here. Names that Spark hands on to a file system stay as they are."""
    return {_USUAL.get(name.lower(), name): value for name, value in options.items()}


def without(options: Mapping[str, _Value], *names: str) -> dict[str, _Value]:
    """The options, apart from these."""
    return {name: value for name, value in options.items() if name not in names}
