"""From PER_USER to the totals that the values of a model are made of, in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from spark_recmetrics.columns import COUNTERS, PAIR_RANKS, PAIR_SCORES
from spark_recmetrics.conventions import Convention
from spark_recmetrics.means import part_totals, tallies
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.rating import Moments

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

_SCHEMA = "model string, name string, n bigint, sum double, deviation double, undefined bigint, total double, count double"


def user_totals(per_user: DataFrame, metrics: Sequence[Metric], convention: Convention) -> DataFrame:
    """What each partition of PER_USER adds to the totals; `means.combined` puts the parts together.

    Hundreds of aggregates as Spark expressions take longer to plan than all users take in numpy.

    Args:
        per_user: PER_USER.
        metrics: Metrics to average.
        convention: Populations, and what an undefined value counts.

    Returns:
        The rows of `means.part_totals`, whose number does not depend on that of users.
    """
    wanted = sorted({tally for metric in metrics for tally in tallies(metric, convention)})
    cuts = [metric.k for metric in metrics if metric.definition.across_users]
    named = {tally.column for tally in wanted}
    pooled = {f"{tally.column}_{of}" for tally in wanted for of in ("total", "count") if tally.pooled}
    used = {"model", PAIR_RANKS, PAIR_SCORES, *COUNTERS, *Moments._fields, *named, *pooled}
    kept = [name for name in per_user.columns if name in used]

    def of_part(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for rows in parts:
            yield part_totals(rows, wanted, cuts)

    return per_user.select(*kept).mapInPandas(of_part, _SCHEMA)
