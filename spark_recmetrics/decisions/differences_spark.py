"""The differences of models on Spark: PER_USER in, one row per pair and metric out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.columns import ITEM_SLICE, ITEM_VALUE
from spark_recmetrics.conventions import MEMBERS
from spark_recmetrics.decisions.differences import KEY, LISTED, Asked, part_differences, whole_differences
from spark_recmetrics.request.slices import bands_of
from spark_recmetrics.storage import actions
from spark_recmetrics.storage.progress import step
from spark_recmetrics.storage.schemas import DIFFERENCES, PART_DIFFERENCES

if TYPE_CHECKING:
    import pandas as pd


def paired_differences(per_user: DataFrame, asked: Asked, *, n_parts: int) -> DataFrame:
    """The sums of b - a over the users whom both models have a value for.

    The users of a part are paired in numpy; then the parts of a pair and metric are put together on one worker. How much
    reaches the driver does not depend on the number of users.

    Args:
        per_user: PER_USER with the columns of the slices of users, and the rows of those of items.
        asked: What is to be compared.
        n_parts: Groups of users.

    Returns:
        `schema.DIFFERENCES`: one row per pair, column and value of a slice that has a user; all users are slice `ALL_USERS`.
    """
    counters = {*LISTED, *(counter for tally in asked.tallies for counter in MEMBERS[tally.users])}
    bands = [ITEM_SLICE, ITEM_VALUE, *(band.column for band in bands_of(asked.slices))]
    known = [name for name in bands if name in per_user.columns]
    kept = ["model", "user", *known, *sorted(counters | {tally.column for tally in asked.tallies})]
    names = {model for pair in asked.pairs for model in pair}
    rows = per_user.where(F.col("model").isin(*names)).select(*kept, F.xxhash64("user").alias("user_hash"))

    def of_part(part: pd.DataFrame) -> pd.DataFrame:
        return part_differences(part, asked)

    def together(parts: pd.DataFrame) -> pd.DataFrame:
        return whole_differences(parts, asked)

    parts = rows.groupBy(F.pmod("user_hash", F.lit(n_parts)).alias("part")).applyInPandas(of_part, PART_DIFFERENCES)
    return parts.groupBy(*KEY).applyInPandas(together, DIFFERENCES)


def collected_differences(per_user: DataFrame, asked: Asked, *, n_parts: int) -> list[dict[str, Any]]:
    """The rows of `paired_differences`, whose number does not depend on that of users."""
    with step(per_user.sparkSession, "comparing models"):
        return [row.asDict() for row in actions.collect_rows(paired_differences(per_user, asked, n_parts=n_parts))]
