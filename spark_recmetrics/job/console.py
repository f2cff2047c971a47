"""What a job prints: text for people on stdout, errors on stderr, and the result line for programs."""

from __future__ import annotations

import sys

from spark_recmetrics.reports.formatting import RESULT_MARK, unmarked
from spark_recmetrics.text import printable


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


def print_result_line(result_json: str) -> None:
    """Print the last line of a job."""
    print(f"{RESULT_MARK} {result_json}", flush=True)
