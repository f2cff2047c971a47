"""The errors that users meet. Each has the exit code that the command line ends with."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence


class RecMetricsError(Exception):
    """Root of all errors raised on purpose by this package."""

    exit_code = 1


class ConfigError(RecMetricsError, ValueError):
    """A wrong metric, option, argument or configuration file. Found before any Spark job that scores lists."""

    exit_code = 2


class GateError(RecMetricsError):
    """A quality gate of the configuration did not hold."""

    exit_code = 3


class DataError(RecMetricsError):
    """The input data are missing or refused; or a check of `doctor` or of the preflight failed.

    Args:
        message: What is wrong, where, what was expected, and what to do.
        data_checks: Rows of DATA_REPORT gathered before the data were refused, so that a caller can publish them.
    """

    exit_code = 4

    def __init__(self, message: str, data_checks: Sequence[tuple[object, ...]] = ()) -> None:
        super().__init__(message)
        self.data_checks = tuple(data_checks)


class PublishError(RecMetricsError):
    """The output tables could not be replaced, for instance because their columns differ."""

    exit_code = 5


class DataWarning(UserWarning):
    """Ids of the two sides that never meet, or nobody to average, where only plain values are returned.

    `Evaluator` and `compute_metrics` give it; results have `warnings`.
    """


def reason_of(error: BaseException, cover: Callable[[str], str] = str) -> str:
    """The first line of what an error says; of one out of the JVM what was said there, not which call it comes out of.

    Args:
        error: The error.
        cover: Covers secrets, some of which have several lines.
    """
    try:
        told = error.java_exception.getMessage()  # type: ignore[attr-defined]  # errors of py4j have it
    except Exception:  # noqa: BLE001 - another error, or a JVM that has died
        told = None
    lines = cover(str(told or error)).strip().splitlines()
    return re.sub(r"\s+", " ", lines[0]) if lines else type(error).__name__


EXTRAS = {"report": ("jinja2>=3.1", "matplotlib>=3.8"), "mlflow": ("mlflow-skinny>=2.14",)}
"""What the extras bring that a user can lack."""


def without_extra(wanted: str, extra: str) -> str:
    """What is said where a package of an extra is not installed. The packages are named, since this one is on no index.

    Example:
        >>> without_extra("plots need matplotlib", "report")
        "plots need matplotlib, found none: install the extra report, pip install 'jinja2>=3.1' 'matplotlib>=3.8'"
    """
    packages = " ".join(f"'{package}'" for package in EXTRAS[extra])
    return f"{wanted}, found none: install the extra {extra}, pip install {packages}"
