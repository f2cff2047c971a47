"""Placeholders in the values of a configuration: `{as_of}` is filled in, and any other one is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from spark_recmetrics.job.files.source import Keys
from spark_recmetrics.text import brief, did_you_mean

AS_OF = "{as_of}"

_NAMES = ("path", "table", "table_prefix", "report")
_MAPPINGS = ("options", "where")

# Braces around a comma are a glob. Options and values of columns may also be JSON, so there only one word is a placeholder.
_IN_NAMES = re.compile(r"(?<!\\)\{([^{},]*)\}")
_IN_VALUES = re.compile(r"(?<!\\)\{\s*([\w.-]+)\s*\}")
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}|\{%.*?%\}")
_VARIABLE = re.compile(r"\$\{[^{}]*\}|\$\([^()]*\)")


def fill_as_of(value: Any, as_of: str | None) -> Any:
    """The value with `as_of` filled into its strings, if it is known."""
    if isinstance(value, str):
        return value if as_of is None else value.replace(AS_OF, as_of)
    if isinstance(value, dict):
        return {key: fill_as_of(item, as_of) for key, item in value.items()}
    return [fill_as_of(item, as_of) for item in value] if isinstance(value, list) else value


def placeholder_problems(data: Mapping[str, Any]) -> dict[Keys, str]:
    """Problems of placeholders in the values of a file, by key."""
    as_of = data.get("as_of")
    problems = {keys: _problem(keys, text, is_key=is_key, as_of=as_of) for keys, text, is_key in _strings(data, ())}
    return {keys: problem for keys, problem in problems.items() if problem is not None}


def _strings(value: Any, keys: Keys) -> Iterator[tuple[Keys, str, bool]]:
    """All strings of the file with their path, and whether each is a key."""
    if isinstance(value, str):
        yield keys, value, False
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(key, str):
                yield (*keys, key), key, True
            yield from _strings(item, (*keys, key))


def _problem(keys: Keys, text: str, *, is_key: bool, as_of: object) -> str | None:
    if "{" not in text and "$(" not in text:
        return None
    in_mapping = any(key in _MAPPINGS for key in keys[:-1])
    filled = not is_key and (in_mapping or keys[-1] in _NAMES)
    if found := _TEMPLATE.search(text):
        advice = f"write {AS_OF} here, and give --as-of there" if filled else "write the value, or give it with --set there"
        return (
            f"found {brief(found[0])}, which nothing fills in: Airflow fills its templates only in fields that are templated: "
            f"{advice}"
        )
    if found := _VARIABLE.search(text):
        others = ", or {secret: env:NAME} for a secret" if "options" in keys[:-1] else ""
        return f"found {brief(found[0])}, which nothing fills in: write the value, or give it with --set{others}"
    if not filled:
        places = ", ".join((*_NAMES[:-1], *_MAPPINGS))
        return f"{AS_OF} is filled in only in {places} and report, found {brief(text)}" if AS_OF in text else None
    for found in (_IN_VALUES if in_mapping else _IN_NAMES).finditer(text):
        if found[0] != AS_OF:
            return f"unknown placeholder {found[0]} in {brief(text)}{did_you_mean(found[1].strip(), ['as_of'])}"
    if AS_OF not in text:
        return None
    if as_of is None:
        return f"{brief(text)} needs an as_of: give --as-of, or as_of in the file"
    splits = keys[-1] in ("table", "table_prefix") and "." in str(as_of)
    return f"expected an as_of without dots in the name of a table, found {brief(as_of)}" if splits else None
