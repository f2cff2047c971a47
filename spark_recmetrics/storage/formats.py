"""The formats of input files and of published tables, and how the names of files show a format."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Literal, cast

from spark_recmetrics.storage.reader_options import with_usual_names

FileFormat = Literal["parquet", "csv", "json", "orc", "delta"]
"""The formats of files that can be read."""

TableFormat = Literal["parquet", "delta", "orc"]
"""The formats of tables that can be written."""

_LOGS = ("_delta_log", "metadata/*.metadata.json", ".hoodie/hoodie.properties")
LOGS = f"{{{','.join(_LOGS)}}}"
"""The logs of Delta, Iceberg and Hudi in the folder of a table, as a glob. A log says which files belong to the table."""

_LOG = re.compile(r"(?P<folder>.*)/(?:(?P<Delta>_delta_log)(?:/.*)?|(?P<Iceberg>metadata)/[^/]*|(?P<Hudi>\.hoodie)/[^/]*)")

_SUFFIX = re.compile(
    r"\.(csv|tsv|json|jsonl|ndjson|orc|parquet)(?:\.(?:gz|gzip|bz2|zst|zstd|snappy|lz4|lzo|deflate|xz))?$", re.IGNORECASE
)
"""The suffix of a file name; that of a compression may follow."""

_OTHER_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,9}$")

_FORMATS = {"tsv": "csv", "jsonl": "json", "ndjson": "json"}
"""Formats of the suffixes that are not named like their format."""

_N_LOCAL_FILES = 1000
"""How many files of a local folder are listed before a session starts."""


def format_of_table(
    log: str, path: str, given: FileFormat | None, relation: Literal["is", "is inside", "contains"] = "is"
) -> FileFormat:
    """The format of a table, from a file of its log. Raises `ValueError` if the path is not to be read as files of that format.

    `relation`: whether the path is the folder of the table, or is inside it or contains it.
    """
    match = cast("re.Match[str]", _LOG.fullmatch(log))
    kind = next(kind for kind in ("Delta", "Iceberg", "Hudi") if match[kind])
    place = f"{path} {relation} {'an' if kind == 'Iceberg' else 'a'} {kind} table"
    if kind != "Delta":
        raise ValueError(f"{place}: set table to its name in the catalog, instead of path and format")
    if relation == "is inside":
        raise ValueError(f"{place}: set path: {match['folder']} and format: delta, and where for a part of its rows")
    if relation == "contains":
        raise ValueError(f"{place}: set path: {match['folder']} and format: delta, because each table is read by itself")
    if given not in (None, "delta"):
        raise ValueError(f"{place}: set format: delta")
    return "delta"


def format_of_files(files: Sequence[str], given: FileFormat | None) -> FileFormat:
    """The format of files by their names; parquet if they show none. Raises `ValueError` if they contradict it."""
    suffixes = {file: suffix for file in files if (suffix := _SUFFIX.search(file)) is not None}
    formats = {file: _format(suffix) for file, suffix in suffixes.items()}
    chosen: FileFormat = "parquet" if given is None else given
    if given is None and formats:
        chosen = next(iter(formats.values()))
    expected = next((file for file in formats if formats[file] == chosen), None)
    other = next((file for file in formats if formats[file] != chosen), None)
    if expected is None:
        if other is None:
            return chosen
        separator = ', and options: {sep: "\\t"}' if suffixes[other][1].lower() == "tsv" else ""
        raise ValueError(f"expected {chosen} files, found {other}: set format: {formats[other]}{separator}")
    if other is None:
        other = next((file for file in files if file not in formats and _OTHER_SUFFIX.search(file)), None)
    if other is not None:
        glob = f"*{suffixes[expected][0]}"
        raise ValueError(
            f"expected files of one format, found {expected} and {other}: move one of them to another folder, or set "
            f'options: {{pathGlobFilter: "{glob}"}}'
        )
    return chosen


def _format(suffix: re.Match[str]) -> FileFormat:
    name = suffix[1].lower()
    return cast("FileFormat", _FORMATS.get(name, name))


def local_problem(path: str, given: FileFormat | None, options: Mapping[str, object] = {}) -> str | None:
    """Why the files at a path of this machine cannot be read as files of one format; None without files or a problem."""
    place = Path(re.sub("^file:/+", "/", path))
    if given == "delta" or not place.exists() or "pathGlobFilter" in with_usual_names(options):
        return None
    files = (
        str(file) for file in chain([place], place.rglob("*")) if not _is_hidden(file.relative_to(place)) and file.is_file()
    )
    try:
        if (log := next(chain.from_iterable(map(place.glob, _LOGS)), None)) is not None:
            format_of_table(str(log), path, given)
        else:
            format_of_files(list(islice(files, _N_LOCAL_FILES)), given)
    except ValueError as error:
        return str(error)
    return None


_GLOB = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}


def glob_pattern(glob: str) -> str:
    """The regular expression of the paths that a glob of Hadoop matches. One that is not valid matches only itself."""
    depth, parts = 0, []
    for sign in re.findall(r"\\.|\[[^\]]*\]|\*+|.", glob, re.DOTALL):
        depth += (sign == "{") - (sign == "}")
        if sign.startswith("[") and len(sign) > 2:
            parts.append(sign.replace("[!", "[^"))
        elif sign[0] in _GLOB and (sign != "," or depth):
            parts.append(_GLOB[sign[0]])
        else:
            parts.append(re.escape(sign[-1]))
    pattern = "".join(parts)
    try:
        re.compile(pattern)
    except re.error:
        return re.escape(glob)
    return pattern


def _is_hidden(file: Path) -> bool:
    """Whether Spark ignores a file below the path that it reads."""
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in file.parts)
