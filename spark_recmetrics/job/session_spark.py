"""The Spark session of a job."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_recmetrics.diagnostics.doctor_spark import examine_driver, examine_worker
from spark_recmetrics.errors import DataError
from spark_recmetrics.storage.progress import step
from spark_recmetrics.storage.read import causes_named


@contextmanager
def session() -> Iterator[SparkSession]:
    """The active session, or a new one, which is stopped at the end."""
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        # Without spark-submit, Spark would start workers with the first python3 on the path.
        os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    created = SparkSession.builder.appName("spark-recmetrics").getOrCreate()
    try:
        yield created
    finally:
        # On Databricks `getOrCreate` returns the session of the platform, which the next task uses, too.
        if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
            created.stop()


@contextmanager
def checked_session() -> Iterator[SparkSession]:
    """A session whose driver and workers have all required packages. Raises `DataError` if one is missing."""
    check = examine_driver()
    if check.level != "FAIL":
        with session() as spark, causes_named():
            with step(spark, "workers"):
                check = examine_worker(spark)
            if check.level != "FAIL":
                yield spark
                return
    raise DataError(f"{check}: nothing was read or written")
