"""Report the progress of a run: names of jobs in the Spark UI, and a line per step in the log or on a terminal."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_DESCRIPTION = "spark.job.description"
"""The local property that the Spark UI shows for a job and a query."""

_outer_steps: ContextVar[str] = ContextVar("outer_steps", default="")
_terminal: TextIO | None = None


@dataclass
class StepCounts:
    """The numbers of rows and users that a step has read; None if they would need another Spark job."""

    rows: int | None = None
    users: int | None = None


@contextmanager
def step(spark: SparkSession, text: str) -> Iterator[StepCounts]:
    """Name the Spark jobs of a block. When it ends, log its duration and counts, unless it fails or is inside another block."""
    outer, start, counts = _outer_steps.get(), time.monotonic(), StepCounts()
    path = f"{outer}: {text}" if outer else text
    token = _outer_steps.set(path)
    try:
        with _named(spark, path):
            yield counts
    finally:
        _outer_steps.reset(token)
    seconds = time.monotonic() - start
    if not outer:
        numbers = ((counts.rows, "row"), (counts.users, "user"))
        parts = [f"{n:,} {noun}{'' if n == 1 else 's'}" for n, noun in numbers if n is not None]
        _log.info("%s: %s", text, ", ".join([*parts, f"{seconds:.1f} s"]))


@contextmanager
def show_steps() -> Iterator[None]:
    """Show the steps of a job: as plain lines on a terminal, otherwise with the other lines of the log."""
    global _terminal
    level, before = _log.level, (_log.propagate, _terminal)
    lines = logging.StreamHandler(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else None
    _log.setLevel(logging.INFO)
    if lines is not None:
        _log.addHandler(lines)
        _log.propagate, _terminal = False, sys.stderr
    try:
        yield
    finally:
        _log.setLevel(level)
        _log.propagate, _terminal = before
        if lines is not None:
            _log.removeHandler(lines)


def _named(spark: SparkSession, path: str) -> ExitStack:
    """Give jobs a description on classic Spark. On Connect, where the server sets it, show a progress bar on a terminal."""
    undo = ExitStack()
    # Connect has no context, and some platforms deny access to it. A missing name must not end a run.
    with suppress(Exception):
        context: Any = spark.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setLocalProperty(_DESCRIPTION, f"spark-recmetrics: {path}")
        undo.callback(_describe, context, before)
        return undo
    if _terminal is not None and hasattr(spark, "registerProgressHandler"):  # since Spark 4.0
        handler: Any = _bar(path, _terminal)
        spark.registerProgressHandler(handler)
        undo.callback(spark.removeProgressHandler, handler)
    return undo


def _describe(context: Any, description: str | None) -> None:
    with suppress(Exception):  # if the session died in the block, the block's error is the one to raise
        context.setLocalProperty(_DESCRIPTION, description)


def _bar(path: str, stream: TextIO) -> Callable[..., None]:
    """A handler that shows the finished tasks on one line, which it clears at the end, like the bar of classic Spark."""

    def show(stages: Sequence[Any] | None, *, done: bool, **_: object) -> None:
        n, n_done = (sum(getattr(stage, name) for stage in stages or ()) for name in ("num_tasks", "num_completed_tasks"))
        text = f"{path}: {n_done} of {n} tasks" if n and not done else ""
        stream.write(f"\r{text:<70}\r")
        stream.flush()

    return show
