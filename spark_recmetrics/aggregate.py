"""From PER_USER to the totals that the values of a model are made of, in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_recmetrics.columns import COUNTERS, PART_TOTALS, PASSING
from spark_recmetrics.conventions import Convention
from spark_recmetrics.means import Wanted, part_totals
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.schema import TOTALS

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


def user_totals(per_user: DataFrame, metrics: Sequence[Metric], convention: Convention) -> DataFrame:
    """What each part of PER_USER adds to the totals; `means.combined` puts the parts together.

    The workers that score add up what they score. Where PER_USER is joined of two tables, they are given its rows once more:
    hundreds of aggregates as Spark expressions take longer to plan than all users take in numpy.

    Args:
        per_user: PER_USER.
        metrics: Metrics to average.
        convention: Populations, and what an undefined value counts.

    Returns:
        The rows of `means.part_totals`, whose number does not depend on that of users.
    """
    if PART_TOTALS in per_user.columns:
        return per_user.select(F.inline(PART_TOTALS))
    wanted = Wanted.of(metrics, convention)
    named = {tally.column for tally in wanted.tallies}
    pooled = {f"{tally.column}_{of}" for tally in wanted.tallies for of in ("total", "count") if tally.pooled}
    used = {"model", "user", *PASSING, *COUNTERS, *Moments._fields, *named, *pooled}
    kept = [name for name in per_user.columns if name in used]

    def of_part(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for rows in parts:
            yield part_totals(rows, wanted)

    return per_user.select(*kept).mapInPandas(of_part, TOTALS)
