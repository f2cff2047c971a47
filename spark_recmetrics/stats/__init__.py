"""Statistics: is the difference between two models statistically significant?

Paired tests of values per user, from arrays or from sums that Spark computes; corrections for many tests; confidence sequences
over many runs; and the Poisson bootstrap. Differences are always `b - a`: a is the old model, b is the new model.
"""

from spark_recmetrics.stats.many import adjust, confidence_sequence, false_alarm_rate
from spark_recmetrics.stats.paired import (
    RankSums,
    bootstrap_ci,
    bootstrap_from_replicates,
    bootstrap_test,
    paired_t_test,
    rank_sums,
    sign_from_counts,
    sign_test,
    t_from_moments,
    wilcoxon_from_histogram,
    wilcoxon_from_rank_sums,
    wilcoxon_test,
)
from spark_recmetrics.stats.resample import bootstrap_sums, poisson_weights
from spark_recmetrics.stats.result import REASONS, ROUNDING, Interval, TestResult, smallest_difference

__all__ = [
    "REASONS",
    "ROUNDING",
    "Interval",
    "RankSums",
    "TestResult",
    "adjust",
    "bootstrap_ci",
    "bootstrap_from_replicates",
    "bootstrap_sums",
    "bootstrap_test",
    "confidence_sequence",
    "false_alarm_rate",
    "paired_t_test",
    "poisson_weights",
    "rank_sums",
    "sign_from_counts",
    "sign_test",
    "smallest_difference",
    "t_from_moments",
    "wilcoxon_from_histogram",
    "wilcoxon_from_rank_sums",
    "wilcoxon_test",
]
