"""Evaluate recommender systems on Spark.

The names below are the public ones. They are loaded when they are first used, so that importing the package starts
neither Spark nor pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spark_recmetrics.version import __version__

if TYPE_CHECKING:
    from spark_recmetrics import metrics, plots, splits, stats
    from spark_recmetrics.columns import Columns
    from spark_recmetrics.comparison import Comparison, compare
    from spark_recmetrics.conventions import CONVENTIONS, Convention, convention
    from spark_recmetrics.errors import ConfigError, DataError, DataWarning, GateError, PublishError, RecMetricsError
    from spark_recmetrics.evaluator import Evaluator, compute_metrics
    from spark_recmetrics.history import read_history
    from spark_recmetrics.lists import from_als, rank_items
    from spark_recmetrics.means import Intervals
    from spark_recmetrics.memory import MemoryResult, evaluate_in_memory
    from spark_recmetrics.outcome import Run
    from spark_recmetrics.pipeline import Result, evaluate
    from spark_recmetrics.schema import Output
    from spark_recmetrics.tracking import log_to_mlflow

_HOME = {
    "CONVENTIONS": "conventions",
    "Columns": "columns",
    "Comparison": "comparison",
    "ConfigError": "errors",
    "Convention": "conventions",
    "DataError": "errors",
    "DataWarning": "errors",
    "Evaluator": "evaluator",
    "GateError": "errors",
    "Intervals": "means",
    "MemoryResult": "memory",
    "Output": "schema",
    "PublishError": "errors",
    "RecMetricsError": "errors",
    "Result": "pipeline",
    "Run": "outcome",
    "compare": "comparison",
    "compute_metrics": "evaluator",
    "convention": "conventions",
    "evaluate": "pipeline",
    "evaluate_in_memory": "memory",
    "from_als": "lists",
    "log_to_mlflow": "tracking",
    "metrics": "metrics",
    "plots": "plots",
    "rank_items": "lists",
    "read_history": "history",
    "splits": "splits",
    "stats": "stats",
}

__all__ = [
    "CONVENTIONS",
    "Columns",
    "Comparison",
    "ConfigError",
    "Convention",
    "DataError",
    "DataWarning",
    "Evaluator",
    "GateError",
    "Intervals",
    "MemoryResult",
    "Output",
    "PublishError",
    "RecMetricsError",
    "Result",
    "Run",
    "__version__",
    "compare",
    "compute_metrics",
    "convention",
    "evaluate",
    "evaluate_in_memory",
    "from_als",
    "log_to_mlflow",
    "metrics",
    "plots",
    "rank_items",
    "read_history",
    "splits",
    "stats",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_HOME[name]}")
    return module if name == _HOME[name] else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
