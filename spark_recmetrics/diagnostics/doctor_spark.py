"""Check a session before a long run: versions on driver and worker, what it supports, and whether the output can be written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyspark
from pyspark.sql import functions as F

from spark_recmetrics.errors import PublishError
from spark_recmetrics.storage import actions, write
from spark_recmetrics.storage.credentials import without_password
from spark_recmetrics.text import printable

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from spark_recmetrics.storage.locations import Output


_MISMATCH = re.compile(r"different version:? (\d+\.\d+) than that in driver:? (\d+\.\d+)")
"""The error of Spark 3.5 to 4.x if worker and driver have different versions of Python."""

_ON_WORKERS = ("numpy", "pandas", "pyarrow", "spark_recmetrics")
"""Packages that workers need."""

_ON_DRIVER = (*_ON_WORKERS, "scipy")
"""Packages that the driver needs. pydantic and PyYAML are not here, because no command starts without them."""

_ABSENT = "absent: "
"""Precedes the reason, instead of a version, if a package cannot be imported."""

_SEND = "send its wheel with --py-files under a name that ends in .zip"
"""A standalone cluster gives a file that ends in .whl only to the driver."""


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Args:
        level: `ok`; `warn`, with which a run still succeeds; or `FAIL`.
        name: What was checked.
        finding: What was found.
        advice: What to do; empty if nothing.

    Example:
        >>> print(Check("warn", "cache", "tables are not kept", "expect longer runs"))
        warn  cache: tables are not kept: expect longer runs
    """

    level: Literal["ok", "warn", "FAIL"]
    name: str
    finding: str
    advice: str = ""

    def __str__(self) -> str:
        """The check on one line."""
        return printable(f"{self.level:<4}  {self.name}: {self.finding}{': ' if self.advice else ''}{self.advice}")


def examine(start: Callable[[], SparkSession], output: Output | None = None) -> Iterator[Check]:
    """Run all checks. A check that fails is reported, not raised.

    Args:
        start: Starts the session, after the driver was checked.
        output: Where the tables will go; None: nothing is written.

    Yields:
        Each check as soon as it is done, so that the next one is visible if it hangs.
    """
    yield examine_driver()
    try:
        spark = start()
    except Exception as error:  # noqa: BLE001 - sessions fail to start in many ways
        yield Check("FAIL", "session", f"cannot be started: {_reason(error)}", _start_advice(error))
        return
    yield _checked("session", partial(_session, spark))
    worker = examine_worker(spark)
    yield worker
    yield _checked("ANSI mode", partial(_setting, spark, "ANSI mode", "spark.sql.ansi.enabled"))
    yield _checked("time zone", partial(_setting, spark, "time zone", "spark.sql.session.timeZone"))
    yield _checked("cache", partial(_cache, spark))
    yield _checked("pandas UDFs", partial(_pandas_udfs, spark, worker))
    yield _checked("output", partial(_output, spark, output))


def _start_advice(error: Exception) -> str:
    if isinstance(error, ImportError):
        return "install the missing package; for Spark Connect install this package with the extra connect"
    remote = without_password(os.environ.get("SPARK_REMOTE", "").partition(";")[0])  # a token may follow
    return f"check that a server runs at SPARK_REMOTE={remote}" if remote else "check that JAVA_HOME is Java 17 or newer"


def examine_driver() -> Check:
    """Whether this process has all packages that a run imports later."""
    versions = _versions(_ON_DRIVER)
    return _missing("driver", versions) or Check("ok", "driver", _listed(versions))


def examine_worker(spark: SparkSession) -> Check:
    """Whether a worker has the same Python and packages as the driver. It takes a second."""
    of_server = " of the Spark Connect server" if _is_connect(spark) else ""
    return _checked("worker", partial(_worker, spark, _versions(_ON_WORKERS), of_server))


def _checked(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - the other checks still run
        return Check("FAIL", name, _reason(error), "see the log of Spark")


def _versions(names: Sequence[str]) -> dict[str, str]:
    """The versions of this process: of Python, and of packages."""
    versions: dict[str, str] = json.loads(_probe(names)())
    return versions


def _probe(names: Sequence[str]) -> Callable[..., str]:
    """A function that returns the versions of the process that calls it, as JSON.

    Spark sends an inner function to a worker by value, so a worker without this package can run it.
    """

    def versions(_: object = None) -> str:
        import importlib
        import json
        import platform
        import sys

        def version(name: str) -> str:
            try:
                return str(importlib.import_module(name).__version__)
            except Exception as error:  # noqa: BLE001 - a broken package can raise anything
                return f"absent: {str(error) or type(error).__name__}"

        packages = {name: version(name) for name in names}
        return json.dumps({"Python": platform.python_version(), **packages, "executable": sys.executable})

    return versions


def _missing(name: str, versions: dict[str, str], of_server: str = "") -> Check | None:
    missing = [package for package, version in versions.items() if version.startswith(_ABSENT)]
    if not missing:
        return None
    reasons = "; ".join(versions[package].removeprefix(_ABSENT) for package in missing)
    advice = f"install {', '.join(missing)} there"
    if name == "worker" and missing == ["spark_recmetrics"]:
        # A Python client of Spark Connect can send the wheel itself, the commands cannot.
        send = "start that server with spark.executorEnv.PYTHONPATH naming its wheel" if of_server else _SEND
        advice = f"{advice}, set PYSPARK_PYTHON{of_server} to a Python that has it, or {send}"
    elif name == "worker":
        advice = f"{advice}, or set PYSPARK_PYTHON{of_server} to a Python that has them"
    return Check("FAIL", name, f"{_listed(versions)}: {reasons}", advice)


def _listed(versions: dict[str, str]) -> str:
    named = [f"{name} {'absent' if version.startswith(_ABSENT) else version}" for name, version in versions.items()]
    return ", ".join(named[:-1]) + f" ({versions['executable']})"


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _session(spark: SparkSession) -> Check:
    client, server = pyspark.__version__, spark.version
    finding = f"{'Spark Connect' if _is_connect(spark) else 'classic'}, Spark {server}, pyspark {client}"
    if client.split(".")[:2] == server.split(".")[:2]:
        return Check("ok", "session", finding)
    return Check("warn", "session", finding, "install the same version of pyspark as Spark")


def _worker(spark: SparkSession, driver: dict[str, str], of_server: str) -> Check:
    # Without Arrow, which the worker may lack. A range runs on a worker; a local table would be computed on the driver.
    versions = F.udf(_probe(_ON_WORKERS), "string", useArrow=False)
    try:
        worker: dict[str, str] = json.loads(actions.collect_rows(spark.range(1).select(versions("id")))[0][0])
    except Exception as error:  # noqa: BLE001 - workers fail in many ways
        mismatch = _MISMATCH.search(str(error))
        if mismatch:
            return _other_python(mismatch[1], mismatch[2], of_server)
        advice = f"set PYSPARK_PYTHON{of_server} to a Python that runs"
        return Check("FAIL", "worker", f"Python does not run there: {_reason(error)}", advice)
    worker_minor, driver_minor = (".".join(side["Python"].split(".")[:2]) for side in (worker, driver))
    if worker_minor != driver_minor:
        return _other_python(worker_minor, driver_minor, of_server)
    missing = _missing("worker", worker, of_server)
    if missing:
        return missing
    others = [name for name in worker if name not in ("executable", "Python") and worker[name] != driver[name]]
    if not others:
        return Check("ok", "worker", _listed(worker))
    # Two versions of this package can give different numbers; two versions of another package rarely do.
    level: Literal["warn", "FAIL"] = "FAIL" if "spark_recmetrics" in others else "warn"
    on_driver = ", ".join(f"{name} {driver[name]}" for name in others)
    return Check(level, "worker", f"{_listed(worker)}, but the driver has {on_driver}", "install the same versions on both")


def _other_python(worker: str, driver: str, of_server: str) -> Check:
    advice = (
        f"set PYSPARK_PYTHON{of_server} to a Python {driver} before the session starts, or run the driver with Python {worker}"
    )
    return Check("FAIL", "worker", f"Python {worker} on the worker, Python {driver} on the driver", advice)


def _setting(spark: SparkSession, name: str, key: str) -> Check:
    return Check("ok", name, f"{key}={spark.conf.get(key)}; results do not depend on it")


def _cache(spark: SparkSession) -> Check:
    # A unique plan, because the session would take an equal one of the caller for this one, and release it.
    kept = actions.materialize(spark.range(1).select(F.lit("spark_recmetrics doctor").alias("probe")))
    try:
        actions.collect_rows(kept)
        is_kept = actions.is_kept(kept)
    finally:
        actions.release(kept)
    if is_kept:
        return Check("ok", "cache", "tables are kept")
    return Check("warn", "cache", "this session cannot keep tables", "expect longer runs: each reader computes PER_USER again")


def _pandas_udfs(spark: SparkSession, worker: Check) -> Check:
    if worker.level == "FAIL":
        # They would fail for the same reason, with a stack trace in the log of Spark.
        return Check("warn", "pandas UDFs", "not checked on a worker that failed", "fix the worker first")

    def unchanged(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        yield from parts

    rows: DataFrame = spark.range(1).mapInPandas(unchanged, "id long")
    actions.collect_rows(rows)
    return Check("ok", "pandas UDFs", "rows were sent to a worker and back through Arrow")


def _output(spark: SparkSession, output: Output | None) -> Check:
    if output is None:
        return Check("ok", "output", "skipped, no configuration was given", "add --config FILE to check it")
    tables, table = output.table("*"), f"a table ({output.format})"
    try:
        left_over = write.probe_output(spark, output)
    except PublishError as error:
        return Check("FAIL", "output", f"{output.format} to {tables}: {error}")
    if left_over is None:
        return Check("ok", "output", f"{table} was written next to {tables}, and removed")
    return Check("warn", "output", f"{table} was written to {left_over}, and cannot be removed from here", "delete it")


def _reason(error: BaseException) -> str:
    """The most informative line of an error: the last of a Python traceback, a missing program, or the first line."""
    text = str(error)
    _, traceback, python = text.rpartition("Traceback (most recent call last)")
    raised = re.findall(r"^((?:\w+\.)*\w+(?:Error|Exception): .+)$", python, re.MULTILINE) if traceback else []
    # The message of Java follows that of py4j, on a separate line.
    java = re.findall(r"Cannot run program .+", text) or re.findall(r"^: (.+)$", text, re.MULTILINE)
    lines = [*raised[:1], *java, *text.strip().splitlines(), type(error).__name__]
    return without_password(re.sub(r"\s+", " ", lines[0]).strip())
