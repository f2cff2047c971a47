"""Count the rows of a table while a job reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

RECOUNTED = "partitions counted again"
"""Name of the count of partitions that were counted more than once."""

_ROW_NUMBER = "number of the row"
_PARTITION_BITS = 33
"""`monotonically_increasing_id` stores the partition above these bits and the position of the row in it below."""


class RowCounts(NamedTuple):
    """Counts of rows, of rows with the fault of each data check, and further aggregates, taken while a job reads a table.

    When an executor is lost, its tasks run again, and Spark adds their counts twice: an observation of 1,000 rows can report
    2,000 (seen on 4.2, with a persisted result). `RECOUNTED` detects this. It compares how often the first row of a partition
    was read with the number of distinct partitions.
    """

    observation: Observation
    rows: DataFrame
    faults: Mapping[str, Column]
    counts: Sequence[Column]

    @classmethod
    def of(cls, rows: DataFrame, faults: Mapping[str, Column] = {}, further: Sequence[Column] = ()) -> RowCounts:
        """New counts of these rows."""
        counts = [F.count(F.lit(1)).alias("rows"), *(F.count_if(fault).alias(check) for check, fault in faults.items())]
        return cls(Observation(), rows, faults, [*counts, *further])

    def observed_rows(self) -> DataFrame:
        """The rows, counted where a job reads them. Call it only once."""
        # A repeated task has the same partition, and numbers its first row the same way.
        number = F.col(_ROW_NUMBER)
        is_first = number.bitwiseAND(2**_PARTITION_BITS - 1) == 0
        # Bits of 0 and 1 coincide, hence + 1. With more than 32,768 partitions some share a bit and look as if counted again.
        partition = F.bitmap_bit_position(F.shiftright(number, _PARTITION_BITS) + 1)
        n_partitions = F.bitmap_count(F.bitmap_construct_agg(F.when(is_first, partition)))
        recounted = (F.count_if(is_first) - n_partitions).alias(RECOUNTED)
        numbered = self.rows.withColumn(_ROW_NUMBER, F.monotonically_increasing_id())
        return numbered.observe(self.observation, *self.counts, recounted).drop(_ROW_NUMBER)
