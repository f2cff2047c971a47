"""The files of input tables: their format, the columns in the names of their folders, and the options of their readers.

Spark ignores the case of options, and knows some by two names. Here each has one name.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast
from urllib.parse import unquote

from spark_recmetrics.errors import reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

FileFormat = Literal["parquet", "csv", "json", "orc", "delta"]
"""The formats of files that can be read."""

TableFormat = Literal["parquet", "delta", "orc"]
"""The formats of tables that can be written."""

_LOGS = ("_delta_log", "metadata/*.metadata.json", ".hoodie/hoodie.properties")
LOGS = f"{{{','.join(_LOGS)}}}"
"""The logs of Delta, Iceberg and Hudi in the folder of a table, as a glob. A log says which files belong to the table."""

_LOG_FILE = re.compile(r"(?P<folder>.*)/(?:(?P<Delta>_delta_log)(?:/.*)?|(?P<Iceberg>metadata)/[^/]*|(?P<Hudi>\.hoodie)/[^/]*)")

_SUFFIX = re.compile(
    r"\.(csv|tsv|json|jsonl|ndjson|orc|parquet)(?:\.(?:gz|gzip|bz2|zst|zstd|snappy|lz4|lzo|deflate|xz))?$", re.IGNORECASE
)
"""The suffix of a file name; that of a compression may follow."""

_OTHER_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,9}$")

_FORMATS = {"tsv": "csv", "jsonl": "json", "ndjson": "json"}
"""Formats of the suffixes that are not named like their format."""

_N_LOCAL_FILES = 1000
"""How many files of a local folder are listed before a session starts."""

_N_FOLDERS = 20
"""In how many folders below the path a log is looked for."""

_GLOB_SIGNS = set("*?[]{}")


def format_of_table(
    log: str, path: str, given: FileFormat | None, relation: Literal["is", "is inside", "contains"] = "is"
) -> FileFormat:
    """The format of a table, from a file of its log. Raises `ValueError` if the path is not to be read as its files."""
    match = cast("re.Match[str]", _LOG_FILE.fullmatch(log))
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
    """Why the files at a path of this machine cannot be read as files of one format; None without a problem."""
    place = Path(re.sub("^file:/+", "/", path))
    # A path without a scheme may be on another file system.
    if path.startswith("file:") and not place.exists() and not _GLOB_SIGNS & set(path):
        return f"expected files, found none in {path} on this machine: check the path"
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


_Value = TypeVar("_Value")

NUMBERS_AND_TIMES = (
    *("locale", "dateFormat", "timestampFormat", "timestampNTZFormat"),
    *("timeZone", "nanValue", "positiveInf", "negativeInf"),
)
"""Options of the readers of CSV and JSON that say how numbers and times are written."""

CHOICE_OF_FILES = ("pathGlobFilter", "modifiedBefore", "modifiedAfter", "basePath", "recursiveFileLookup")
"""Options that say which files are read."""

_OTHERS = (
    *(
        "ignoreCorruptFiles",
        "ignoreMissingFiles",
        "columnNameOfCorruptRecord",
        "emptyValue",
        "encoding",
        "escape",
        "header",
        "inferSchema",
        "mergeSchema",
        "mode",
    ),
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


@dataclass(frozen=True)
class InputFiles:
    """The files of an input table."""

    format: FileFormat
    names: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()  # columns that the names of their folders hold, such as day=2026-11-28, in lower case


def input_files(spark: SparkSession, path: str, given: FileFormat | None, options: Mapping[str, str]) -> InputFiles:
    """The files under a path, without a job. Raises `ValueError` if they cannot be read as files of one format."""
    if given == "delta":
        return InputFiles(given)
    for folder in _folders_of_table(path):
        if (log := _table_log(spark, folder, options)) is not None:
            return InputFiles(format_of_table(log, path, given, "is" if folder == path.rstrip("/") else "is inside"))
    files = _listed(spark, path, {**options, "recursiveFileLookup": "true"})
    if not files:
        hidden = "Spark hides files whose names begin with _ or ."
        raise ValueError(f"expected files, found none in {path}: check the location. {hidden}")
    if _GLOB_SIGNS & set(path):
        _check_glob(spark, path, files, options)
    folders = {file: _folders_below(options.get("basePath", path), file) for file in files}
    parents = dict.fromkeys(parent for file, below in folders.items() for parent in _parents(file, len(below)))
    for folder in islice(parents, _N_FOLDERS):
        if (log := _table_log(spark, literal_path(folder), options)) is not None:
            format_of_table(log, path, given, "contains")
    if _ignores_folders(options):
        return InputFiles(format_of_files(files, given), tuple(files))
    columns = (unquote(folder.partition("=")[0]) for below in folders.values() for folder in below if "=" in folder)
    partitions = tuple(dict.fromkeys(column.lower() for column in columns))
    _check_folders(folders, partitions)
    return InputFiles(format_of_files(files, given), tuple(files), partitions)


def _check_glob(spark: SparkSession, path: str, files: Sequence[str], options: Mapping[str, str]) -> None:
    """Raise `ValueError` if a glob is also the name of a file, or if Spark would leave out a column that folders hold."""
    if _first_file(spark, literal_path(path), options) is not None:
        raise ValueError(f"{path} is a pattern, and also the name of a file: to read that file, set path: {literal_path(path)}")
    if "basePath" in options or _ignores_folders(options):
        return
    names = _place(path).split("/")
    globs = [n for n, name in enumerate(names) if _GLOB_SIGNS & set(name)]
    for match in filter(None, (_match(path, file) for file in files)):
        folders = match[1].split("/")[: -1 if match.end() == len(match.string) else None]
        folder = next((folders[n] for n in globs if n < len(folders) and "=" in folders[n]), None)
        if folder is not None:
            base = "/".join(path.rstrip("/").split("/")[: globs[0] - len(names)])
            raise ValueError(
                f"with the pattern {path} Spark leaves out the column {unquote(folder.partition('=')[0])!r} of folders "
                f"such as {folder}: set options: {{basePath: {base}}}"
            )


def _ignores_folders(options: Mapping[str, str]) -> bool:
    """Whether Spark reads the files of all subfolders, without columns from the names of folders."""
    return options.get("recursiveFileLookup", "").lower() == "true"


def _check_folders(folders: Mapping[str, Sequence[str]], partitions: Sequence[str]) -> None:
    """Raise `ValueError` if Spark would read other values from the folders of a file than their names say, or skip the file."""
    encoded = (folder for below in folders.values() for folder in below if re.search("%[89A-Fa-f][0-9A-Fa-f]", folder))
    if (folder := next(encoded, None)) is not None:
        raise ValueError(
            f"expected folders as Spark names them, found {folder}, in which {unquote(folder)!r} is written as bytes: Spark "
            "would read other letters: write the table with Spark, or without folders for its values"
        )
    skipped = next((file for file, below in folders.items() if below), None)
    if skipped is not None and not partitions:
        raise ValueError(
            f"{skipped} is in a subfolder, which Spark does not read: "
            'set options: {recursiveFileLookup: "true"}, or move it to another folder'
        )


def _table_log(spark: SparkSession, folder: str, options: Mapping[str, str]) -> str | None:
    """A file of the log of the Delta, Iceberg or Hudi table in this folder; None if there is no such table."""
    return _first_file(spark, f"{folder}/{LOGS}", without(options, *CHOICE_OF_FILES) | {"recursiveFileLookup": "true"})


def _folders_of_table(path: str) -> Iterator[str]:
    """The path and the folders above it that can be the folder of a table which has its files there."""
    # Above a table's files are folders of partitions such as `day=2026-11-28`, and for Iceberg a folder such as `data`.
    place = path.rstrip("/")
    is_inside = True
    while is_inside:
        yield place
        parent, _, name = place.rpartition("/")
        is_inside = "=" in name or "." in name or bool(_GLOB_SIGNS & set(name))
        if not parent or parent.endswith("/"):
            return
        place = parent
    yield place


def _listed(spark: SparkSession, path: str, options: Mapping[str, str]) -> list[str]:
    """The files under a path as Spark lists them, sorted."""
    return sorted(unquote(file) for file in spark.read.options(**options).format("text").load(path).inputFiles())


def _first_file(spark: SparkSession, path: str, options: Mapping[str, str]) -> str | None:
    """The first file under a path; None if nothing is there, or it may not be read."""
    try:
        return next(iter(_listed(spark, path, options)), None)
    except Exception as error:  # noqa: BLE001 - readers fail in many ways
        _log.debug("no file in %s: %s", path, reason_of(error))
        return None


def _folders_below(path: str, file: str) -> list[str]:
    """The folders between a path, which may be a glob or relative, and one of its files."""
    match = _match(path, file)
    return [] if match is None else match.string[match.end() :].split("/")[1:-1]


def _match(path: str, file: str) -> re.Match[str] | None:
    """Match a path, which may be a glob or relative, with that of a file. The first group is what it stands for."""
    place = _place(path)
    above = ".*/" if place and not place.startswith("/") else ""
    return re.match(f"{above}({glob_pattern(place)})(?=/|$)", _place(file))


def _place(path: str) -> str:
    """A path without its scheme, its host and slashes at the end."""
    return re.sub("^[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?", "", path).rstrip("/")


def _parents(file: str, n: int) -> Iterator[str]:
    """The n folders above a file, the nearest first."""
    for _ in range(n):
        file = file.rpartition("/")[0]
        yield file


def literal_path(file: str) -> str:
    """The path of a file, with the signs of a glob escaped."""
    return re.sub(r"([][{}*?\\])", r"\\\1", file)
