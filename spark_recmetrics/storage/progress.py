"""Say what a run is doing: in the Spark UI, and behind each step in the log or on a terminal. No job is started for it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession


_log = logging.getLogger(__name__)

_DESCRIPTION = "spark.job.description"
"""The local property that the Spark UI shows of a job, and of a query."""

_around: ContextVar[str] = ContextVar("around", default="")
_terminal: TextIO | None = None


@dataclass
class StepCounts:
    """What a step has seen, as far as it is known without a Spark job of its own."""

    rows: int | None = None
    users: int | None = None


@contextmanager
def step(spark: SparkSession, text: str) -> Iterator[StepCounts]:
    """Give the Spark jobs of a block their name, and log at its end what it saw and how long it took.

    A block within another has no line of its own. One that fails has none, either: its error is told.

    Args:
        spark: The session.
        text: What the block does.

    Yields:
        What the block may fill.
    """
    outer, begun, seen = _around.get(), time.monotonic(), StepCounts()
    path = f"{outer}: {text}" if outer else text
    token = _around.set(path)
    try:
        with _named(spark, path):
            yield seen
    finally:
        _around.reset(token)
    seconds = time.monotonic() - begun
    counts = [(seen.rows, "row"), (seen.users, "user")]
    told = [f"{n:,} {what}{'' if n == 1 else 's'}" for n, what in counts if n is not None]
    if not outer:
        _log.info("%s: %s", text, ", ".join([*told, f"{seconds:.1f} s"]))


@contextmanager
def show_steps() -> Iterator[None]:
    """Show the steps of a job: on a terminal as they are, else among the other lines of the log."""
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


def _named(spark: SparkSession, path: str) -> AbstractContextManager[None]:
    """Gives jobs a description on classic Spark. On Connect, whose server writes them itself, a terminal gets a bar."""
    # Connect has no context, and some platforms refuse it. That a job has no name may not end a run.
    with suppress(Exception):
        context: Any = spark.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setLocalProperty(_DESCRIPTION, f"spark-recmetrics: {path}")
        return _restored(context, before)
    if _terminal is not None and hasattr(spark, "registerProgressHandler"):  # from Spark 4.0 on
        return _followed(spark, _bar(path, _terminal))
    return nullcontext()


@contextmanager
def _restored(context: Any, before: str | None) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(Exception):  # of a session that has died in the block; the error of the block is the one to tell
            context.setLocalProperty(_DESCRIPTION, before)


@contextmanager
def _followed(spark: SparkSession, bar: Any) -> Iterator[None]:
    spark.registerProgressHandler(bar)
    try:
        yield
    finally:
        spark.removeProgressHandler(bar)


def _bar(path: str, stream: TextIO) -> Callable[..., None]:
    """Tells how far the tasks of an operation are, on a line that is empty at its end, as classic Spark does by itself."""

    def show(stages: Sequence[Any] | None, *, done: bool, **_: object) -> None:
        n, n_done = (sum(getattr(one, name) for one in stages or ()) for name in ("num_tasks", "num_completed_tasks"))
        text = f"{path}: {n_done} of {n} tasks" if n and not done else ""
        stream.write(f"\r{text:<70}\r")
        stream.flush()

    return show
