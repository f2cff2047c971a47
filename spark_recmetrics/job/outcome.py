"""What a job prints: text for people on stdout, errors on stderr, and the result line for programs, also after an error."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from spark_recmetrics.errors import ConfigError, DataError, PublishError, RecMetricsError, reason_of
from spark_recmetrics.job.files.job_file import Job
from spark_recmetrics.job.files.source import dotted
from spark_recmetrics.reports.formatting import RESULT_MARK, unmarked
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import path_in_input
from spark_recmetrics.storage.progress import show_steps
from spark_recmetrics.text import json_text, printable
from spark_recmetrics.version import __version__

_Job = TypeVar("_Job", bound=Job)
Command = Literal["evaluate", "preflight", "gate", "compare", "split"]

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

_FIELDS: dict[Command, tuple[str, ...]] = {
    "evaluate": ("models", "n_users", "gates", "pareto", "preflight", "tracking", "report"),
    "preflight": ("preflight",),
    "gate": ("gates",),
    "compare": ("comparison",),
    "split": ("reports",),
}
"""The fields of the result line that only some commands have."""


@dataclass
class JobOutcome:
    """What a job reports in its result line. A failed job reports what it completed. docs/outputs.md documents the fields."""

    command: Command
    status: str = "failed"
    exit_code: int = 1
    job: str | None = None
    run_id: str | None = None
    as_of: str | None = None
    config_hash: str | None = None
    tables: dict[str, str] = field(default_factory=dict)
    models: dict[str, dict[str, float | None]] = field(default_factory=dict)
    n_users: dict[str, int] = field(default_factory=dict)
    gates: list[dict[str, Any]] = field(default_factory=list)
    pareto: list[dict[str, Any]] = field(default_factory=list)
    preflight: list[dict[str, Any]] = field(default_factory=list)
    tracking: dict[str, dict[str, str]] = field(default_factory=dict)
    report: str | None = None
    comparison: list[dict[str, Any]] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    error: dict[str, str] | None = None

    def fail(self, error: BaseException, message: str, exit_code: int) -> None:
        """Record the error that ended the job."""
        self.error, self.exit_code = {"type": type(error).__name__, "message": message}, exit_code

    def warn(self, warning: str) -> None:
        """Record and print a warning."""
        self.warnings.append(warning)
        print_warning(warning)

    def print_tables(self) -> None:
        """Print where the tables of the run are."""
        for name, location in self.tables.items():
            print_location(name, f"{location}  (as_of={self.as_of or 'none'}, run_id={self.run_id})")

    def as_dict(self) -> dict[str, Any]:
        """The object of the result line. Without a valid configuration it has no `job` and no `config_hash`."""
        names = ("status", "exit_code", "run_id", "as_of", "tables", *_FIELDS[self.command], "warnings", "error")
        result = {name: getattr(self, name) for name in names} | {"version": __version__}
        return result if self.job is None else {**result, "job": self.job, "config_hash": self.config_hash}


def run_job(
    command: Command, load: Callable[[], _Job], work: Callable[[_Job, JobOutcome, Vault], None], result_json: str | None = None
) -> int:
    """Load the configuration, do the work, print the result line, also after an error, and return the exit code."""
    outcome, vault, result_file, config = JobOutcome(command), Vault(), None, None
    try:
        try:
            config = load()
        finally:  # the errors of a configuration are reported in the file, too
            result_file = None if result_json is None else _emptied_result_file(result_json, config)
        outcome.job, outcome.run_id, outcome.as_of, outcome.config_hash = config.job, config.run_id, config.as_of, config.hash
        vault.check((dotted(keys), place.options) for keys, place in config.located_inputs.items())
        with _masked_logs(vault), show_steps():
            work(config, outcome, vault)
        outcome.exit_code = 0
    except RecMetricsError as error:
        message = vault.masked("\n".join([str(error), *_filters(error, config)]))
        print_error(message)
        outcome.fail(error, message, error.exit_code)
    except KeyboardInterrupt as error:
        outcome.fail(error, "interrupted", INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - every job ends with its result line
        print_traceback(vault.masked(traceback.format_exc()))
        outcome.fail(error, reason_of(error, vault.masked), 1)
    if result_file is not None:
        try:
            result_file.write_text(json_text(outcome.as_dict()) + "\n", encoding="utf-8")
        except OSError as error:
            message = f"--result-json {result_file}: cannot be written: {error.strerror}"
            print_error(message)
            if outcome.exit_code == 0:
                outcome.fail(error, message, PublishError.exit_code)
    print(f"{RESULT_MARK} {json_text(outcome.as_dict())}", flush=True)
    return outcome.exit_code


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


def _emptied_result_file(name: str, config: Job | None) -> Path:
    """The file for the result, emptied. A file that must or can not be written is an error before the job starts."""
    path, option = Path(name), "--result-json"
    check_replaceable(path, option, "result")
    for keys, place in ({} if config is None else config.located_inputs).items():
        if path_in_input(path, place) is not None:
            raise ConfigError(f"{option} {path}: expected a file outside the inputs, found one in {dotted(keys)}, {place.path}")
    try:
        path.write_text("", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{option} {name}: cannot be written: {error.strerror}") from error
    return path


def _filters(error: RecMetricsError, config: Job | None) -> list[str]:
    """One line for each filtered input, if the data are rejected: the filter may be the reason, above all without rows."""
    if config is None or not isinstance(error, DataError):
        return []
    places = config.located_inputs.items()
    return [f"{dotted(keys)}: only rows with {json_text(place.where)} were read" for keys, place in places if place.where]


@contextmanager
def _masked_logs(vault: Vault) -> Iterator[None]:
    """Mask secrets in all log records, including those of other libraries that quote an error of Spark."""

    def mask(record: logging.LogRecord) -> bool:
        if record.exc_info:
            trace = "".join(traceback.format_exception(*record.exc_info)).rstrip()
            record.exc_info, record.exc_text = None, vault.masked(trace)
        record.msg, record.args = vault.masked(record.getMessage()), ()
        return True

    handlers = list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(mask)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(mask)


def print_text(text: object = "") -> None:
    """Print text for people. None of its lines begins with the mark of the result line."""
    print(unmarked(str(text)), flush=True)


def print_warning(warning: object) -> None:
    """Print one line of warning for people."""
    print_text(f"warning: {printable(str(warning))}")


def print_location(name: str, location: str) -> None:
    """Print where something was written."""
    print_text(f"{name:<12} {location}")


def print_error(message: str) -> None:
    """Print an error message to stderr."""
    for line in message.split("\n"):
        print(f"error: {printable(line)}", file=sys.stderr)


def print_traceback(text: str) -> None:
    """Print a traceback to stderr, which `spark-submit` shows on its stdout."""
    for line in text.expandtabs(4).rstrip("\n").split("\n"):
        print(unmarked(printable(line)), file=sys.stderr)
