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

_NAMES_OF = {
    "columns": ("Columns",),
    "conventions": ("CONVENTIONS", "Convention", "convention"),
    "decisions.comparison": ("Comparison", "compare"),
    "errors": ("ConfigError", "DataError", "DataWarning", "GateError", "PublishError", "RecMetricsError"),
    "evaluation.evaluator": ("Evaluator", "compute_metrics"),
    "evaluation.result": ("Result",),
    "evaluation.stages": ("evaluate",),
    "job.mlflow": ("log_to_mlflow",),
    "ranking.lists_spark": ("from_als", "rank_items"),
    "request.intervals": ("Intervals",),
    "runs.history_spark": ("read_history",),
    "runs.identity": ("Run",),
    "storage.locations": ("Output",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}
_MODULES = {"metrics": "metrics", "plots": "reports.plots", "splits": "splits", "stats": "stats"}

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
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
