"""Metrics: the registry, the text form, and the formulas.

`parse` reads a metric, `names` lists them, `expand` takes a list of them at several cut-offs, `score` computes one for a
batch of users.
"""

from spark_recmetrics.metrics import ranking, rating  # noqa: F401 - importing them registers the metrics
from spark_recmetrics.metrics.batch import RankedBatch
from spark_recmetrics.metrics.registry import (
    DEFAULT_K,
    DEFAULT_METRICS,
    DEFAULT_N_BUCKETS,
    DEFINITIONS,
    Definition,
    Metric,
    expand,
    names,
    parse,
    register,
    score,
)

__all__ = [
    "DEFAULT_K",
    "DEFAULT_METRICS",
    "DEFAULT_N_BUCKETS",
    "DEFINITIONS",
    "Definition",
    "Metric",
    "RankedBatch",
    "expand",
    "names",
    "parse",
    "register",
    "score",
]
