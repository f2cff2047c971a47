"""Evaluate recommender systems on Spark.

The names below are the public ones. They are loaded when they are first used, so that importing the package starts
neither Spark nor pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spark_recmetrics.version import __version__

if TYPE_CHECKING:
    from spark_recmetrics import metrics, splits, stats
    from spark_recmetrics.columns import Columns
    from spark_recmetrics.conventions import CONVENTIONS, Convention, convention
    from spark_recmetrics.decisions.comparison import Comparison, compare
    from spark_recmetrics.errors import ConfigError, DataError, DataWarning, GateError, PublishError, RecMetricsError
    from spark_recmetrics.evaluation.evaluator import Evaluator, compute_metrics
    from spark_recmetrics.evaluation.result import Result
    from spark_recmetrics.evaluation.stages import evaluate
    from spark_recmetrics.job.mlflow import log_to_mlflow
    from spark_recmetrics.ranking.lists_spark import from_als, rank_items
    from spark_recmetrics.reports import plots
    from spark_recmetrics.request.intervals import Intervals
    from spark_recmetrics.runs.history_spark import read_history
    from spark_recmetrics.runs.identity import Run
    from spark_recmetrics.storage.locations import Output

_HOME = {
    "CONVENTIONS": "conventions",
    "Columns": "columns",
    "Comparison": "decisions.comparison",
    "ConfigError": "errors",
    "Convention": "conventions",
    "DataError": "errors",
    "DataWarning": "errors",
    "Evaluator": "evaluation.evaluator",
    "GateError": "errors",
    "Intervals": "request.intervals",
    "Output": "storage.locations",
    "PublishError": "errors",
    "RecMetricsError": "errors",
    "Result": "evaluation.result",
    "Run": "runs.identity",
    "compare": "decisions.comparison",
    "compute_metrics": "evaluation.evaluator",
    "convention": "conventions",
    "evaluate": "evaluation.stages",
    "from_als": "ranking.lists_spark",
    "log_to_mlflow": "job.mlflow",
    "metrics": "metrics",
    "plots": "reports.plots",
    "rank_items": "ranking.lists_spark",
    "read_history": "runs.history_spark",
    "splits": "splits",
    "stats": "stats",
}

_MODULES = {"metrics", "plots", "splits", "stats"}

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
    return module if name in _MODULES else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
