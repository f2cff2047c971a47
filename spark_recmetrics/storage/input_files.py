"""The files of an input table: what kind of table they are, and which columns the names of their folders hold."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import unquote

from spark_recmetrics.errors import reason_of
from spark_recmetrics.storage.formats import LOGS, FileFormat, format_of_files, format_of_table, glob_pattern
from spark_recmetrics.storage.reader_options import CHOICE_OF_FILES, without

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_GLOB = set("*?[]{}")

_N_FOLDERS = 20
"""In how many folders below the path a log is looked for."""


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
        raise ValueError(f"expected files, found none in {path}: check the location")
    if _GLOB & set(path):
        _check_glob(spark, path, files, options)
    folders = {file: _folders_below(options.get("basePath", path), file) for file in files}
    parents = dict.fromkeys(parent for file, below in folders.items() for parent in _parents(file, len(below)))
    for folder in islice(parents, _N_FOLDERS):
        if (log := _table_log(spark, literal_path(folder), options)) is not None:
            format_of_table(log, path, given, "contains")
    if options.get("recursiveFileLookup", "").lower() == "true":
        return InputFiles(format_of_files(files, given), tuple(files))
    columns = (unquote(folder.partition("=")[0]) for below in folders.values() for folder in below if "=" in folder)
    partitions = tuple(dict.fromkeys(column.lower() for column in columns))
    _check_folders(folders, partitions)
    return InputFiles(format_of_files(files, given), tuple(files), partitions)


def _check_glob(spark: SparkSession, path: str, files: Sequence[str], options: Mapping[str, str]) -> None:
    """Raise `ValueError` if a glob is also the name of a file, or if Spark would leave out a column that folders hold."""
    try:
        is_name = bool(_listed(spark, literal_path(path), options))
    except Exception as error:  # noqa: BLE001 - there is no such file, or it may not be read
        _log.debug("no file of the name %s: %s", path, reason_of(error))
        is_name = False
    if is_name:
        raise ValueError(f"{path} is a pattern, and also the name of a file or folder: set path: {literal_path(path)}")
    if "basePath" in options or options.get("recursiveFileLookup", "").lower() == "true":
        return
    patterns = _place(path).split("/")
    for match in filter(None, (_match(path, file) for file in files)):
        folders = match[1].split("/")[: -1 if match.end() == len(match.string) else None]
        for n, folder in enumerate(folders[: len(patterns)]):
            if "=" in folder and _GLOB & set(patterns[n]):
                first = next(n for n, pattern in enumerate(patterns) if _GLOB & set(pattern))
                base = "/".join(path.rstrip("/").split("/")[: first - len(patterns)])
                raise ValueError(
                    f"{path} leaves out the column {unquote(folder.partition('=')[0])!r}, which names of folders such as "
                    f"{folder} hold: set options: {{basePath: {base}}}"
                )


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
    """A file of the log of the table whose folder it is; None if it is no folder of a table."""
    try:
        logs = _listed(spark, f"{folder}/{LOGS}", without(options, *CHOICE_OF_FILES) | {"recursiveFileLookup": "true"})
    except Exception as error:  # noqa: BLE001 - nothing is there, or it may not be read
        _log.debug("no log of a table in %s: %s", folder, reason_of(error))
        return None
    return next(iter(logs), None)


def _folders_of_table(path: str) -> Iterator[str]:
    """The path and the folders above it that can be the folder of a table which has its files there.

    Above a table's files are folders of partitions such as `day=2026-11-28`, and for Iceberg a folder such as `data`.
    """
    place = path.rstrip("/")
    is_inside = True
    while is_inside:
        yield place
        parent, _, name = place.rpartition("/")
        is_inside = "=" in name or "." in name or bool(_GLOB & set(name))
        if not parent or parent.endswith("/"):
            return
        place = parent
    yield place


def _listed(spark: SparkSession, path: str, options: Mapping[str, str]) -> list[str]:
    """The files under a path as Spark lists them, sorted."""
    return sorted(unquote(file) for file in spark.read.options(**options).format("text").load(path).inputFiles())


def _folders_below(path: str, file: str) -> list[str]:
    """The folders between a path, which may be a glob or relative, and one of its files."""
    match = _match(path, file)
    return [] if match is None else match.string[match.end() :].split("/")[1:-1]


def _match(path: str, file: str) -> re.Match[str] | None:
    """The part of a file's path that a path, which may be a glob or relative, stands for, as the first group."""
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
    """The file as a path that is no glob."""
    return re.sub(r"([][{}*?\\])", r"\\\1", file)
