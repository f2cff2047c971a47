"""The exceptions of this package, with the exit codes of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from spark_recmetrics.text import brief


class RecMetricsError(Exception):
    """Base class of all exceptions of this package."""

    exit_code = 1


class ConfigError(RecMetricsError, ValueError):
    """A wrong metric, option, argument or configuration file, detected before any Spark job that scores lists."""

    exit_code = 2


class GateError(RecMetricsError):
    """A quality gate of the configuration failed."""

    exit_code = 3


class DataError(RecMetricsError):
    """The input data are missing or rejected, or a check of `doctor` or of the preflight failed.

    Args:
        message: What is wrong, where, what was expected, and what to do.
        data_checks: Rows of DATA_REPORT that were collected before the data were rejected, so that a caller can publish them.
    """

    exit_code = 4

    def __init__(self, message: str, data_checks: Sequence[tuple[object, ...]] = ()) -> None:
        super().__init__(message)
        self.data_checks = tuple(data_checks)


class PublishError(RecMetricsError):
    """The output tables could not be replaced, for example because their columns differ."""

    exit_code = 5


def check_argument(name: str, value: object, expected: str, *, valid: bool) -> None:
    """Raise `ConfigError` if an argument is not valid."""
    if not valid:
        raise ConfigError(f"{name}: expected {expected}, found {brief(value)}")


class DataWarning(UserWarning):
    """Predictions and truth have no ids in common, or there are no users to average.

    `Evaluator` and `compute_metrics` emit it, because they return plain values. Results have `warnings` instead.
    """


def not_utf_8(example: str | None) -> str:
    """The message about a string with bytes that are not UTF-8."""
    shown = f", for example {example!r}" if example else ""
    return (
        f"expected ids and names in UTF-8, found bytes that are not valid UTF-8{shown}: write the table in UTF-8, or decode "
        "the column first. In Spark: decode(cast(NAME as binary), 'ISO-8859-1')"
    )


def reason_of(error: BaseException, mask: Callable[[str], str] = str) -> str:
    """The first line of the error's message; for an error of the JVM, of the Java exception's message."""
    try:
        java = error.java_exception  # type: ignore[attr-defined]  # errors of py4j have it
        message = java.getMessage()
        if "MULTIPLE_FAILURES" in message and java.getCause() is not None:
            # Stages that ran at the same time have failed; the cause is the first failure.
            message = java.getCause().getMessage()
    except Exception:  # noqa: BLE001 - another error, or a JVM that has died
        message = None
    # Secrets are masked in the whole message, because they may have several lines.
    lines = mask(str(message or error)).strip().splitlines()
    return re.sub(r"\s+", " ", lines[0]) if lines else type(error).__name__


EXTRAS = {"report": ("jinja2>=3.1", "matplotlib>=3.8"), "mlflow": ("mlflow-skinny>=2.14",)}
"""The packages of the extras."""


def without_extra(need: str, extra: str) -> str:
    """The message if a package of an extra is not installed. It names the packages, because this package is not on PyPI."""
    packages = " ".join(f"'{package}'" for package in EXTRAS[extra])
    return f"{need}, found none: install the extra {extra}, pip install {packages}"
