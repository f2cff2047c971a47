"""Check a session before a long run: versions on driver and worker, what the session supports, and the output location."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_recmetrics.errors import PublishError
from spark_recmetrics.storage import actions, write
from spark_recmetrics.storage.credentials import without_password
from spark_recmetrics.text import printable

if TYPE_CHECKING:
    import pandas as pd

    from spark_recmetrics.storage.locations import Output

Level = Literal["ok", "warn", "FAIL"]
"""With `warn` a run still succeeds."""

_MISMATCH = re.compile(r"different version:? (\d+\.\d+) than that in driver:? (\d+\.\d+)")
"""The error of Spark 3.5 to 4.x if worker and driver have different versions of Python."""

_ON_WORKERS = ("numpy", "pandas", "pyarrow", "spark_recmetrics")
_ON_DRIVER = (*_ON_WORKERS, "scipy")
"""The packages that are needed. pydantic and PyYAML are not here, because no command starts without them."""

_ABSENT = "absent: "
"""Precedes the reason, in place of a version, if a package cannot be imported."""

_SEND = "rename its wheel to end in .zip and pass it with --py-files"
"""A standalone cluster gives a file that ends in .whl only to the driver."""


class Check(NamedTuple):
    """The result of one check."""

    level: Level
    finding: str
    advice: str = ""
    name: str = ""

    def __str__(self) -> str:
        return printable(f"{self.level:<4}  {self.name}: {self.finding}{': ' if self.advice else ''}{self.advice}")


def failures(checks: Sequence[Check]) -> str:
    """How many checks failed, and their names; empty if none failed."""
    failed = [check.name for check in checks if check.level == "FAIL"]
    return f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}" if failed else ""


def examine(start: Callable[[], SparkSession], output: Output | None = None) -> Iterator[Check]:
    """Run all checks, and yield each as soon as it is done, so that a check that hangs can be identified."""
    yield examine_driver()
    try:
        spark = start()
    except Exception as error:  # noqa: BLE001 - sessions fail to start in many ways
        yield Check("FAIL", f"cannot be started: {_reason(error)}", _start_advice(error), "session")
        return
    yield _checked("session", partial(_session, spark))
    worker = examine_worker(spark)
    yield worker
    yield _checked("ANSI mode", partial(_setting, spark, "spark.sql.ansi.enabled"))
    yield _checked("time zone", partial(_setting, spark, "spark.sql.session.timeZone"))
    yield _checked("cache", partial(_cache, spark))
    yield _checked("pandas UDFs", partial(_pandas_udfs, spark, worker.level))
    yield _checked("output", partial(_output, spark, output))


def _start_advice(error: Exception) -> str:
    if isinstance(error, ImportError):
        return "install the missing package; for Spark Connect install this package with the extra connect"
    remote = without_password(os.environ.get("SPARK_REMOTE", "").partition(";")[0])  # a token may follow
    return f"check that a server runs at SPARK_REMOTE={remote}" if remote else "check that JAVA_HOME is Java 17 or newer"


def examine_driver() -> Check:
    """Whether this process has all packages that a run imports later."""
    versions = _versions(_ON_DRIVER)
    return (_missing(versions) or Check("ok", _listed(versions)))._replace(name="driver")


def examine_worker(spark: SparkSession) -> Check:
    """Whether a worker has the same Python and packages as the driver. It takes a second."""
    server = " of the Spark Connect server" if _is_connect(spark) else ""
    return _checked("worker", partial(_worker, spark, _versions(_ON_WORKERS), server))


def _checked(name: str, find: Callable[[], Check]) -> Check:
    try:
        return find()._replace(name=name)
    except Exception as error:  # noqa: BLE001 - the other checks still run
        return Check("FAIL", _reason(error), "see the log of Spark", name)


def _versions(names: Sequence[str]) -> dict[str, str]:
    """The versions of Python and of packages in this process."""
    versions: dict[str, str] = json.loads(_probe(names)())
    return versions


def _probe(names: Sequence[str]) -> Callable[..., str]:
    """A function that returns versions as JSON. Spark sends it by value, so a worker without this package can run it."""

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


def _missing(versions: dict[str, str], server: str | None = None) -> Check | None:
    """Packages that cannot be imported, on the driver if `server` is None, otherwise on a worker."""
    missing = [package for package, version in versions.items() if version.startswith(_ABSENT)]
    if not missing:
        return None
    reasons = "; ".join(versions[package].removeprefix(_ABSENT) for package in missing)
    advice = f"install {', '.join(missing)} there"
    if server is not None and missing == ["spark_recmetrics"]:
        # A Python client of Spark Connect can send the wheel itself, the commands cannot.
        send = "start that server with spark.executorEnv.PYTHONPATH set to its wheel" if server else _SEND
        advice = f"{advice}, set PYSPARK_PYTHON{server} to a Python that has it, or {send}"
    elif server is not None:
        advice = f"{advice}, or set PYSPARK_PYTHON{server} to a Python that has them"
    return Check("FAIL", f"{_listed(versions)}: {reasons}", advice)


def _listed(versions: dict[str, str]) -> str:
    named = [f"{name} {'absent' if version.startswith(_ABSENT) else version}" for name, version in versions.items()]
    return ", ".join(named[:-1]) + f" ({versions['executable']})"


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _session(spark: SparkSession) -> Check:
    client, server = pyspark.__version__, spark.version
    finding = f"{'Spark Connect' if _is_connect(spark) else 'classic'}, Spark {server}, pyspark {client}"
    if client.split(".")[:2] == server.split(".")[:2]:
        return Check("ok", finding)
    return Check("warn", finding, "install the same version of pyspark as Spark")


def _worker(spark: SparkSession, driver: dict[str, str], server: str) -> Check:
    # Without Arrow, which the worker may lack. A range runs on a worker; a local table would be computed on the driver.
    versions = F.udf(_probe(_ON_WORKERS), "string", useArrow=False)
    try:
        worker: dict[str, str] = json.loads(actions.collect_rows(spark.range(1).select(versions("id")))[0][0])
    except Exception as error:  # noqa: BLE001 - workers fail in many ways
        if mismatch := _MISMATCH.search(str(error)):
            return _other_python(mismatch[1], mismatch[2], server)
        advice = f"set PYSPARK_PYTHON{server} to a working Python executable"
        return Check("FAIL", f"Python does not run there: {_reason(error)}", advice)
    worker_minor, driver_minor = (".".join(side["Python"].split(".")[:2]) for side in (worker, driver))
    if worker_minor != driver_minor:
        return _other_python(worker_minor, driver_minor, server)
    others = [name for name in worker if name not in ("executable", "Python") and worker[name] != driver[name]]
    if missing := _missing(worker, server):
        return missing
    if not others:
        return Check("ok", _listed(worker))
    # Two versions of this package can give different numbers; two versions of another package rarely do.
    level: Level = "FAIL" if "spark_recmetrics" in others else "warn"
    on_driver = ", ".join(f"{name} {driver[name]}" for name in others)
    return Check(level, f"{_listed(worker)}, but the driver has {on_driver}", "install the same versions on both")


def _other_python(worker: str, driver: str, server: str) -> Check:
    set_python = f"set PYSPARK_PYTHON{server} to a Python {driver} before the session starts"
    finding = f"Python {worker} on the worker, Python {driver} on the driver"
    return Check("FAIL", finding, f"{set_python}, or run the driver with Python {worker}")


def _setting(spark: SparkSession, key: str) -> Check:
    return Check("ok", f"{key}={spark.conf.get(key)}; results do not depend on it")


def _cache(spark: SparkSession) -> Check:
    # A unique plan, because the session would take an equal one of the caller for this one, and release it.
    kept = actions.materialize(spark.range(1).select(F.lit("spark_recmetrics doctor").alias("probe")))
    try:
        actions.collect_rows(kept)
        is_kept = actions.is_kept(kept)
    finally:
        actions.release(kept)
    if is_kept:
        return Check("ok", "this session can cache tables")
    return Check("warn", "this session cannot cache tables", "expect longer runs: Spark recomputes PER_USER for each use")


def _pandas_udfs(spark: SparkSession, worker: Level) -> Check:
    if worker == "FAIL":
        # UDFs would fail for the same reason, with a stack trace in the log of Spark.
        return Check("warn", "not checked on a worker that failed", "fix the worker first")

    def unchanged(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        yield from parts

    rows: DataFrame = spark.range(1).mapInPandas(unchanged, "id long")
    actions.collect_rows(rows)
    return Check("ok", "rows were sent to a worker and back through Arrow")


def _output(spark: SparkSession, output: Output | None) -> Check:
    if output is None:
        return Check("ok", "skipped, no configuration was given", "add --config FILE to check it")
    tables, table = output.table("*"), f"a table ({output.format})"
    try:
        left_over = write.probe_output(spark, output)
    except PublishError as error:
        return Check("FAIL", f"{output.format} to {tables}: {error}")
    if left_over is None:
        return Check("ok", f"wrote {table} next to {tables} and removed it")
    return Check("warn", f"{table} was written to {left_over}, and cannot be removed from here", "delete it")


def _reason(error: BaseException) -> str:
    """The most informative line of an error: the last of a Python traceback, a missing program, or the first line."""
    text = str(error)
    _, traceback, python = text.rpartition("Traceback (most recent call last)")
    raised = re.findall(r"^((?:\w+\.)*\w+(?:Error|Exception): .+)$", python, re.MULTILINE) if traceback else []
    # The message of Java follows that of py4j, on a separate line.
    java = re.findall(r"Cannot run program .+", text) or re.findall(r"^: (.+)$", text, re.MULTILINE)
    lines = [*raised[:1], *java, *text.strip().splitlines(), type(error).__name__]
    return without_password(re.sub(r"\s+", " ", lines[0]).strip())
