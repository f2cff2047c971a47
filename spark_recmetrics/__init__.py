"""Evaluate recommender systems on Spark.

The names below are the public ones. They are loaded when they are first used, so that importing the package starts
neither Spark nor pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spark_recmetrics.version import __version__

if TYPE_CHECKING:
    from spark_recmetrics import metrics
    from spark_recmetrics.conventions import CONVENTIONS, Convention, convention
    from spark_recmetrics.errors import ConfigError, DataError, GateError, PublishError, RecMetricsError
    from spark_recmetrics.pipeline import Result, Run, evaluate, rank_items
    from spark_recmetrics.schema import Columns

_HOME = {
    "CONVENTIONS": "conventions",
    "Columns": "schema",
    "ConfigError": "errors",
    "Convention": "conventions",
    "DataError": "errors",
    "GateError": "errors",
    "PublishError": "errors",
    "RecMetricsError": "errors",
    "Result": "pipeline",
    "Run": "pipeline",
    "convention": "conventions",
    "evaluate": "pipeline",
    "metrics": "metrics",
    "rank_items": "pipeline",
}

__all__ = [
    "CONVENTIONS",
    "Columns",
    "ConfigError",
    "Convention",
    "DataError",
    "GateError",
    "PublishError",
    "RecMetricsError",
    "Result",
    "Run",
    "__version__",
    "convention",
    "evaluate",
    "metrics",
    "rank_items",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_HOME[name]}")
    return module if name == _HOME[name] else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
