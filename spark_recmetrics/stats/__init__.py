"""Statistics: is the difference between two models more than chance?

Tests on pairs of values per user, from arrays or from the sums that Spark makes; many tests and many nights at once; and the
Poisson bootstrap. Differences are `b - a` throughout: a is the old model, b the new one.
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
