"""The Spark session of a job, and what it prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_recmetrics.reports.formatting import unmarked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def tell(text: object = "") -> None:
    """Print for people. No line begins with the mark of the result line, which is for programs."""
    print(unmarked(str(text)), flush=True)


@contextmanager
def session() -> Iterator[SparkSession]:
    """The session that is there, or a new one, which is stopped at the end.

    On Databricks none is stopped: there, `getOrCreate` gives the session of the platform, which the next task of the job uses.
    """
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        # No spark-submit has chosen a Python for the workers, and theirs would be the python3 of the path.
        os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    own = SparkSession.builder.appName("spark-recmetrics").getOrCreate()
    try:
        yield own
    finally:
        if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
            own.stop()
