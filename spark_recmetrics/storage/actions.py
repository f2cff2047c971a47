"""Start Spark jobs: collect small tables, count rows, run several reads in parallel, keep tables in memory."""

from __future__ import annotations

import inspect
import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from spark_recmetrics.errors import reason_of

_log = logging.getLogger(__name__)

T = TypeVar("T")

NOT_ON_SERVERLESS = "NOT_SUPPORTED_WITH_SERVERLESS"
"""Databricks' error class for what a session on serverless compute may not do."""

NOT_FOUND = re.compile("PATH_NOT_FOUND|PATH_DOES_NOT_EXIST|UNABLE_TO_INFER_SCHEMA|DELTA_TABLE_NOT_FOUND")
"""Errors of Spark and Delta for a path without files, or a Delta log just begun. A killed run can leave either."""

RETRIES = 3
"""How often an action is repeated after another process has interfered."""

_THREADS_HAVE_SESSION = "session" in inspect.signature(InheritableThread.__init__).parameters
"""True since Spark 4. On 3.5 a cast written in another thread ignores the session's ANSI mode and returns null for what it
cannot cast (seen on 3.5.0)."""

_N_EXAMPLES = 5
"""The number of values that an error shows."""

_OBSERVATION_TIMEOUT = 10.0
"""Seconds until the observation of a finished job counts as lost. Spark delivers it in less than one second."""


def in_parallel(spark: SparkSession, *reads: Callable[[], Any]) -> list[Any]:
    """The results of functions that start jobs, in parallel, because a single small job leaves the cluster idle."""
    # If functions fail, the first error is raised when all have ended.
    if not _THREADS_HAVE_SESSION:
        return [read() for read in reads]
    results: list[Any] = [None] * len(reads)
    errors: dict[int, BaseException] = {n: RuntimeError("the thread did not begin") for n in range(len(reads))}

    def run(n: int) -> None:
        try:
            results[n] = reads[n]()
            del errors[n]
        except BaseException as error:  # noqa: BLE001 - raised after all threads have ended
            errors[n] = error

    # These threads inherit the caller's job group (by which a notebook cancels its jobs), pool and tags.
    threads = [InheritableThread(target=run, args=(n,), session=spark, daemon=True) for n in range(len(reads))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, error in sorted(errors.items())[1:]:
        _log.debug("read %d also failed: %s", n, reason_of(error))
    if errors:
        raise errors[min(errors)]
    return results


def distinct_models(predictions: DataFrame) -> list[str]:
    """The model names in a table of predictions, sorted, without null."""
    rows = predictions.select("model").where(F.col("model").isNotNull()).distinct().collect()
    return sorted(row["model"] for row in rows)


def collect_rows(frame: DataFrame) -> list[Row]:
    """The rows of a table whose size does not depend on the number of users."""
    return frame.collect()


def with_retries(action: Callable[[], T], transient: re.Pattern[str], cause: str) -> T:
    """The result of an action, which is repeated if it fails with a transient error."""
    for _ in range(RETRIES):
        try:
            return action()
        except Exception as error:  # noqa: PERF203 - each attempt may fail
            if not transient.search(str(error)):
                raise
            _log.warning("%s, trying again: %s", cause, reason_of(error))
    return action()


def count_distinct(frame: DataFrame) -> int:
    """The number of distinct values in the only column of a table, without null."""
    return int(frame.agg(F.count_distinct(frame.columns[0])).collect()[0][0])


RECOUNTED = "partitions counted again"
"""Name of the count of partitions that were counted more than once."""

_ROW_NUMBER = "number of the row"
_PARTITION_BITS = 33
"""`monotonically_increasing_id` stores the partition above these bits and the position of the row in it below."""


class RowCounts(NamedTuple):
    """Counts of rows, of rows with the fault of each data check, and further aggregates, taken while a job reads a table.

    When an executor is lost, its tasks run again, and Spark adds their counts twice (seen on 4.2, with a persisted result).
    `RECOUNTED` detects this. It compares how often the first row of a partition was read with the number of partitions.
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

    def observed_counts(self) -> dict[str, Any]:
        """The counts that a finished job observed. If they are lost, or an executor was lost, another job counts the rows."""
        # Spark loses an observation when it removes its branch from the plan, for instance next to an empty table.
        observed = self._observed()
        if "rows" in observed and observed.pop(RECOUNTED, None) == 0:
            return observed
        if observed:
            _log.warning("Spark counted some rows twice, so a second job counts them again")
        return self.rows.agg(*self.counts).collect()[0].asDict()

    def _observed(self) -> dict[str, Any]:
        """What Spark observed; empty if the observation is lost."""
        observed = dict[str, Any]()

        def get() -> None:
            try:
                observed.update(self.observation.get)
            except Exception as error:  # noqa: BLE001 - Spark raises internal assertions, which differ by kind of session
                _log.debug("observation lost: %s", reason_of(error))

        # Before 3.5.8, 4.0.2 and 4.1 (SPARK-54620) Spark waits forever for a lost observation: let a daemon thread wait.
        thread = threading.Thread(target=get, name="observation", daemon=True)
        thread.start()
        thread.join(_OBSERVATION_TIMEOUT)
        return {} if thread.is_alive() else observed


def example_values(frame: DataFrame, sep: str = ", ") -> str:
    """The smallest values of the only column of a table, as a string."""
    return sep.join(str(row[0]) for row in frame.orderBy(frame.columns[0]).limit(_N_EXAMPLES).collect())


def materialize(frame: DataFrame) -> DataFrame:
    """The frame, kept after its first use. If the session (serverless compute) cannot keep it, each use computes it again."""
    try:
        return frame.persist()
    except PySparkException as error:
        _log.warning("this session cannot cache tables, so Spark recomputes this one for each use: %s", reason_of(error))
        return frame


def is_kept(frame: DataFrame) -> bool:
    """Whether the session keeps a materialized frame."""
    try:
        level = frame.storageLevel
    except PySparkException as error:  # sessions that cannot keep tables may reject the question
        _log.debug("no storage level: %s", reason_of(error))
        return False
    return level.useMemory or level.useDisk


def release(frame: DataFrame) -> None:
    """Free what `materialize` keeps."""
    try:
        frame.unpersist()
    except PySparkException as error:
        _log.debug("not released: %s", reason_of(error))
