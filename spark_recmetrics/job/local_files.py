"""The files of the driver that a job writes. They replace only files that this package wrote."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.files.job_file import Job, locations_in
from spark_recmetrics.job.files.source import dotted
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.places import related_paths

_HEAD = 4096
_OWN = {
    "result": re.compile(rb'\{"status": "\w+", "exit_code": '),
    "report": re.compile(rb'<!doctype html>.*<meta name="generator" content="spark-recmetrics">', re.DOTALL),
}
"""How the files begin that this package writes."""


def check_replaceable(path: Path, key: str, kind: Literal["result", "report"]) -> None:
    """Raises `ConfigError` if the path is a file of something else. An empty file may be replaced."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).strip()
    except OSError as error:
        raise ConfigError(f"{key} {path}: cannot be read: {error.strerror}") from error
    if head and _OWN[kind].match(head) is None:
        raise ConfigError(
            f"{key} {path}: expected no file, or a {kind} of spark-recmetrics, which would be replaced, found another file: "
            "give another path"
        )


def emptied_result_file(name: str, config: Job | None) -> Path:
    """The file for the result, emptied. A file that must or can not be written is an error before the job starts."""
    path, option = Path(name), "--result-json"
    check_replaceable(path, option, "result")
    for keys, place in [] if config is None else locations_in(config):
        source = config.located(place).path if config is not None and isinstance(place, Location) else None
        if source is not None and related_paths(f"file:{Path.cwd() / path}", source) in ("is the same place as", "lies inside"):
            raise ConfigError(f"{option} {path}: expected a file outside the inputs, found one in {dotted(keys)}, {source}")
    try:
        path.write_text("", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{option} {name}: cannot be written: {error.strerror}") from error
    return path
