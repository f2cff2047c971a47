"""Read and write tables. The only place that starts Spark jobs."""

from __future__ import annotations

import inspect
import logging
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_recmetrics.errors import reason_of
from spark_recmetrics.storage.row_counts import RECOUNTED

if TYPE_CHECKING:
    from spark_recmetrics.storage.row_counts import RowCounts

_log = logging.getLogger(__name__)

NOT_ON_SERVERLESS = "NOT_SUPPORTED_WITH_SERVERLESS"
"""The error class of Databricks for what serverless compute does not let a session do."""

NOT_FOUND = re.compile("PATH_NOT_FOUND|PATH_DOES_NOT_EXIST|UNABLE_TO_INFER_SCHEMA|DELTA_TABLE_NOT_FOUND")
"""What Spark and Delta say of a path without files, or with a log of Delta that another run has just begun. A killed run may
leave an empty folder, or such a log."""

_GONE = re.compile("FILE_NOT_EXIST|FileNotFoundException|File .* does not exist")
"""What Spark says where a file was removed between looking for it and reading it."""

RETRIES = 3
"""How often what another process has hindered is tried again."""

_THREADS_HAVE_SESSION = "session" in inspect.signature(InheritableThread.__init__).parameters
"""From Spark 4 on. On 3.5 a cast that is written in another thread has not the session's ANSI mode: it gives null for what it
cannot cast (seen on 3.5.0)."""

_PATIENCE = 10.0
"""Seconds until an observation of a finished job counts as lost. Spark tells it in less than one."""


def in_parallel(spark: SparkSession, *looks: Callable[[], Any]) -> list[Any]:
    """What several looks at tables find, by their order. Their jobs share the cluster, which small ones leave idle alone.

    Args:
        spark: The session.
        looks: Functions that start jobs, none of which needs what another one finds.

    Raises:
        BaseException: What the first of them raises that fails, when all have ended.
    """
    if not _THREADS_HAVE_SESSION:
        return [look() for look in looks]
    found: list[Any] = [None] * len(looks)
    failed: dict[int, BaseException] = {place: RuntimeError("the thread did not begin") for place in range(len(looks))}

    def look(place: int) -> None:
        try:
            found[place] = looks[place]()
            del failed[place]
        except BaseException as error:  # noqa: BLE001 - it is raised where the looks are waited for
            failed[place] = error

    # So they have the caller's job group, by which a notebook cancels its jobs, pool and tags.
    threads = [InheritableThread(target=look, args=(place,), session=spark, daemon=True) for place in range(len(looks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place, error in sorted(failed.items())[1:]:
        _log.debug("look %d failed, too: %s", place, reason_of(error))
    if failed:
        raise failed[min(failed)]
    return found


def distinct_models(predictions: DataFrame) -> list[str]:
    """The model names in a table of predictions, sorted; null is not a name."""
    rows = predictions.select("model").where(F.col("model").isNotNull()).distinct().collect()
    return sorted(row["model"] for row in rows)


def collect_rows(frame: DataFrame) -> list[Row]:
    """The rows of a table whose size does not depend on the number of users."""
    return frame.collect()


def collect_with_retry(look: Callable[[], DataFrame | None], tries: int = RETRIES) -> list[Row]:
    """The rows of a small table that others may be cleaning; none where there is no table.

    Args:
        look: Looks the table up.
        tries: How often it is asked again where a file has gone since it looked.
    """
    try:
        frame = look()
        return [] if frame is None else frame.collect()
    except Exception as error:
        if not tries or not _GONE.search(str(error)):
            raise
        _log.debug("looking again: %s", reason_of(error))
    return collect_with_retry(look, tries - 1)


def count_distinct(frame: DataFrame) -> int:
    """How many different values the only column of a table has, null left out."""
    found: int = frame.agg(F.count_distinct(frame.columns[0])).collect()[0][0]
    return found


def observed_counts(watch: RowCounts) -> dict[str, Any]:
    """What a finished job observed of the rows of a table.

    Spark loses an observation where it finds that a branch of the plan cannot give a row, for instance beside an empty
    table, and counts rows again that an executor had read before it was lost. What was to be counted is counted by a job of
    its own then.
    """
    found = _told(watch)
    if "rows" in found and found.pop(RECOUNTED, None) == 0:
        return found
    if found:
        _log.warning("tasks were run again and counted rows again; they are counted once more in a job of their own")
    return watch.rows.agg(*watch.counts).collect()[0].asDict()


def _told(watch: RowCounts) -> dict[str, Any]:
    """What Spark says of an observation; nothing if it was lost."""
    told = dict[str, Any]()

    def ask() -> None:
        try:
            told.update(watch.observation.get)
        except Exception as error:  # noqa: BLE001 - what is raised for a lost one is an internal assertion, and differs by session
            _log.debug("observation lost: %s", reason_of(error))

    # Before 3.5.8, 4.0.2 and 4.1 (SPARK-54620) Spark waits for a lost one for ever: then nobody waits with it.
    asking = threading.Thread(target=ask, name="observation", daemon=True)
    asking.start()
    asking.join(_PATIENCE)
    return {} if asking.is_alive() else told


def example_values(frame: DataFrame, n: int = 5, sep: str = ", ") -> str:
    """Up to n smallest values of the only column of a table, as text."""
    return sep.join(str(row[0]) for row in frame.orderBy(frame.columns[0]).limit(n).collect())


def materialize(frame: DataFrame) -> DataFrame:
    """The frame kept after its first use, so that later readers do not compute it again.

    A session that refuses to keep it (serverless compute does) computes it anew for each reader, to the same rows.
    """
    try:
        return frame.persist()
    except PySparkException as error:
        _log.warning("this session does not keep tables, each reader computes this one again: %s", reason_of(error))
        return frame


def is_kept(frame: DataFrame) -> bool:
    """Whether the session keeps a frame of `materialize`; one that lets nobody ask keeps nothing."""
    try:
        level = frame.storageLevel
    except PySparkException as error:
        _log.debug("nothing to ask for: %s", reason_of(error))
        return False
    return level.useMemory or level.useDisk


def release(frame: DataFrame) -> None:
    """Give back what `materialize` holds."""
    try:
        frame.unpersist()
    except PySparkException as error:
        _log.debug("nothing to give back: %s", reason_of(error))
