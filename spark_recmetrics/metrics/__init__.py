"""Metrics: the registry, the text form, and the formulas.

`parse` reads a metric, `names` lists them, `expand` reads a list of metrics and cut-offs, `score` computes a metric of a batch.

Formulas have options as keywords. What else they take depends on their kind: `batch`, a `RankedBatch` of U users, and `k`, the
cut-off, None for the full list; `moments`, the `Moments` of one user or of many; `counts`, the `ItemCounts` of all lists of a
model; `sums`, their `GroupSums`; or the `values` of a model for `objectives`. (U,) is an array with a value for each user.
"""

# ruff: noqa: F401 - importing the modules registers the metrics

from spark_recmetrics.metrics import auc, clicks, coverage, diversity, groups, objectives, popularity, ranking, rating
from spark_recmetrics.metrics.batch import RankedBatch
from spark_recmetrics.metrics.parsing import expand, parse
from spark_recmetrics.metrics.registry import (
    COMBINED,
    DEFAULT_K,
    DEFAULT_METRICS,
    DEFAULT_N_BUCKETS,
    DEFINITIONS,
    Definition,
    Metric,
    Parameter,
    Sums,
    columns_of,
    cut_offs,
    names,
    register,
    score,
    score_columns,
)

__all__ = [
    "COMBINED",
    "DEFAULT_K",
    "DEFAULT_METRICS",
    "DEFAULT_N_BUCKETS",
    "DEFINITIONS",
    "Definition",
    "Metric",
    "Parameter",
    "RankedBatch",
    "Sums",
    "columns_of",
    "cut_offs",
    "expand",
    "names",
    "parse",
    "register",
    "score",
    "score_columns",
]
