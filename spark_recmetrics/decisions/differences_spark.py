"""The differences between models on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.columns import ITEM_SLICE, ITEM_VALUE
from spark_recmetrics.decisions.differences import KEY, DifferenceSpec, part_differences, whole_differences
from spark_recmetrics.request.slices import bands_of
from spark_recmetrics.storage import actions
from spark_recmetrics.storage.progress import step
from spark_recmetrics.storage.table_schemas import DIFFERENCES, PART_DIFFERENCES

if TYPE_CHECKING:
    import pandas as pd


def differences_on_spark(per_user: DataFrame, spec: DifferenceSpec, *, n_parts: int) -> list[dict[str, Any]]:
    """The rows of `whole_differences`. The number of rows that reach the driver does not depend on the number of users."""
    slices = [ITEM_SLICE, ITEM_VALUE, *(band.column for band in bands_of(spec.slices))]
    kept = ["model", "user", *(name for name in slices if name in per_user.columns), *spec.columns]
    rows = per_user.where(F.col("model").isin(spec.models)).select(*kept, F.xxhash64("user").alias("user_hash"))

    def sum_part(part: pd.DataFrame) -> pd.DataFrame:
        return part_differences(part, spec)

    def combine(parts: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([whole_differences(parts, spec)])

    parts = rows.groupBy(F.pmod("user_hash", F.lit(n_parts)).alias("part")).applyInPandas(sum_part, PART_DIFFERENCES)
    differences = parts.groupBy(*KEY).applyInPandas(combine, DIFFERENCES)
    with step(per_user.sparkSession, "comparing models"):
        return [row.asDict() for row in actions.collect_rows(differences)]
