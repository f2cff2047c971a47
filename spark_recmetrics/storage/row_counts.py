"""Count the rows of a table while a job reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

RECOUNTED = "counted again"
"""How many partitions were counted more than once."""

_AT = "place of the row in its partition"
_PARTITION_BITS = 33
"""`monotonically_increasing_id` has the partition above these bits and the place of the row in it below."""


class RowCounts(NamedTuple):
    """What is counted of a table while it is read.

    Spark adds up what tasks have counted. Where an executor is lost and with it what its tasks had written, they run again
    and count again, so that an observation of 1,000 rows can say 2,000 (seen on 4.2, with the result of the job persisted).
    So the partitions are counted, too: how often the first row of one was seen, and how many different ones there were. They
    differ where the counts are too large.

    Args:
        observation: What will know the counts.
        rows: The rows that it looks at.
        faults: What is wrong with a row, by check.
        counts: All that is counted: the rows, those with each fault, and more.
    """

    observation: Observation
    rows: DataFrame
    faults: Mapping[str, Column]
    counts: Sequence[Column]

    @classmethod
    def of(cls, rows: DataFrame, faults: Mapping[str, Column] = {}, more: Sequence[Column] = ()) -> RowCounts:
        """A new observation of these rows."""
        counted = [F.count(F.lit(1)).alias("rows"), *(F.count_if(fault).alias(check) for check, fault in faults.items())]
        return cls(Observation(), rows, faults, [*counted, *more])

    def observed_rows(self) -> DataFrame:
        """The rows, which are counted where they are read. It can be asked for once."""
        # A task that is run again is of the same partition, and gives its first row the same number.
        at = F.col(_AT)
        first = at.bitwiseAND(2**_PARTITION_BITS - 1) == 0
        # The position of 0 is that of 1. Of more than 32,768 partitions some share one, and look as if counted again.
        partition = F.bitmap_bit_position(F.shiftright(at, _PARTITION_BITS) + 1)
        different = F.bitmap_count(F.bitmap_construct_agg(F.when(first, partition)))
        again = (F.count_if(first) - different).alias(RECOUNTED)
        counted = self.rows.withColumn(_AT, F.monotonically_increasing_id()).observe(self.observation, *self.counts, again)
        return counted.drop(_AT)
