"""From PER_USER to the totals that the values of a model are made of, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.columns import COUNTERS
from spark_recmetrics.conventions import Convention
from spark_recmetrics.means import MEMBERS, RATED, Tally, tallies
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.rating import Moments


def user_totals(per_user: DataFrame, metrics: Sequence[Metric], convention: Convention) -> DataFrame:
    """Everything that `means` and the data report need.

    Args:
        per_user: PER_USER.
        metrics: Metrics to average.
        convention: Populations, and what an undefined value counts.

    Returns:
        One row per model: the number of users in each user set, the sums of all counters and moments, and a struct per tally.
    """
    counters = [name for name in per_user.columns if name in COUNTERS or name in Moments._fields]
    wanted = {tally for metric in metrics for tally in tallies(metric, convention)}
    rated = [RATED] if "n_pairs" in per_user.columns else []
    return per_user.groupBy("model").agg(
        *(
            F.count_if(_belongs(users)).alias(f"users_{users}")
            for users in ("all", "truth", "relevant", "predicted", "truth_and_predicted", *rated)
        ),
        *(F.sum(name).alias(name) for name in counters),
        *(_tallied(tally) for tally in sorted(wanted)),
    )


def _belongs(users: str) -> Column:
    return reduce(and_, (F.coalesce(F.col(counter), F.lit(0)) > 0 for counter in MEMBERS[users]), F.lit(True))


def _tallied(tally: Tally) -> Column:
    value, belongs = F.col(tally.column), _belongs(tally.users)
    counted = F.when(belongs, F.coalesce(value, F.lit(0.0)) if tally.as_zero else value)
    sums = [F.sum(F.when(belongs, F.col(f"{tally.column}_{of}"))).alias(of) for of in ("total", "count") if tally.pooled]
    return F.struct(
        F.avg(counted).alias("mean"),
        F.count(counted).alias("n"),
        F.stddev_samp(counted).alias("std"),
        F.count_if(belongs & value.isNull()).alias("undefined"),
        *sums,
    ).alias(tally.name)
