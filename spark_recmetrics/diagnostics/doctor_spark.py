"""Look at a session before a long run: versions on both sides, what it allows, and whether the output can be written."""

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
"""How Spark 3.5 to 4.x name the worker's Python and the driver's before a worker runs anything."""

_ON_WORKERS = ("numpy", "pandas", "pyarrow", "spark_recmetrics")
"""Packages that a run needs on workers."""

_ON_DRIVER = (*_ON_WORKERS, "scipy")
"""And on the driver. Without pydantic and PyYAML no command begins, so that nobody is left to look for them."""

_ABSENT = "absent: "
"""What stands before the reason, instead of a version, where a package cannot be imported."""

_SEND = "send its wheel with --py-files under a name that ends in .zip"
"""A cluster of Spark's own gives a file that ends in .whl to the driver, and to no worker."""


@dataclass(frozen=True)
class Check:
    """What one look has found.

    Args:
        level: `ok`; `warn`, which no run fails for; or `FAIL`.
        name: What was looked at.
        found: What was found.
        todo: What to do about it, empty if there is nothing.

    Example:
        >>> print(Check("warn", "cache", "tables are not kept", "expect longer runs"))
        warn  cache: tables are not kept: expect longer runs
    """

    level: Literal["ok", "warn", "FAIL"]
    name: str
    found: str
    todo: str = ""

    def __str__(self) -> str:
        """The check on one line."""
        return printable(f"{self.level:<4}  {self.name}: {self.found}{': ' if self.todo else ''}{self.todo}")


def examine(start: Callable[[], SparkSession], output: Output | None = None) -> Iterator[Check]:
    """Look at one thing after the other; what fails is a check, too, and no exception.

    Args:
        start: Gives the session. It is called after the driver was looked at.
        output: Where the tables are to go; None: nothing is written.

    Yields:
        A check as soon as it is done, so that the last line before a standstill says where it stands.
    """
    yield examine_driver()
    try:
        spark = start()
    except Exception as error:  # noqa: BLE001 - whatever keeps a session from starting is what was asked for
        remote = without_password(os.environ.get("SPARK_REMOTE", "").partition(";")[0])  # behind it may stand a token
        todo = (
            f"is there a server at SPARK_REMOTE={remote}?" if remote else "is Java 17 or newer installed, and JAVA_HOME right?"
        )
        if isinstance(error, ImportError):
            todo = "install what it needs, for Spark Connect the extra connect of this package"
        yield Check("FAIL", "session", f"cannot be started: {_reason(error)}", todo)
        return
    yield _checked("session", partial(_session, spark))
    worker = examine_worker(spark)
    yield worker
    yield _checked("ANSI mode", partial(_setting, spark, "ANSI mode", "spark.sql.ansi.enabled"))
    yield _checked("time zone", partial(_setting, spark, "time zone", "spark.sql.session.timeZone"))
    yield _checked("cache", partial(_cache, spark))
    yield _checked("pandas UDFs", partial(_pandas_udfs, spark, worker))
    yield _checked("output", partial(_output, spark, output))


def examine_driver() -> Check:
    """Whether this process has the packages that a run imports first when it has waited for Spark."""
    versions = _versions(_ON_DRIVER)
    return _missing("driver", versions) or Check("ok", "driver", _listed(versions))


def examine_worker(spark: SparkSession) -> Check:
    """Whether a worker has the Python and the packages of the driver; it takes a second, and no stage of a run has begun."""
    place = " of the Spark Connect server" if _is_connect(spark) else ""
    return _checked("worker", partial(_worker, spark, _versions(_ON_WORKERS), place))


def _checked(name: str, look: Callable[[], Check]) -> Check:
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - the next checks may still tell something
        return Check("FAIL", name, _reason(error), "the log of Spark says more")


def _versions(names: Sequence[str]) -> dict[str, str]:
    """The versions of this process: of Python, and of packages."""
    versions: dict[str, str] = json.loads(_probe(names)())
    return versions


def _probe(names: Sequence[str]) -> Callable[..., str]:
    """A function that returns the versions of the process that calls it, as JSON.

    It is made here because a function inside a function travels to a worker by value: a worker without this package can run it.
    """

    def versions(_: object = None) -> str:
        import importlib
        import json
        import platform
        import sys

        def version(name: str) -> str:
            try:
                return str(importlib.import_module(name).__version__)
            except Exception as error:  # noqa: BLE001 - a broken package raises what it likes
                return f"absent: {str(error) or type(error).__name__}"

        packages = {name: version(name) for name in names}
        return json.dumps({"Python": platform.python_version(), **packages, "executable": sys.executable})

    return versions


def _missing(name: str, versions: dict[str, str], place: str = "") -> Check | None:
    missing = [package for package, version in versions.items() if version.startswith(_ABSENT)]
    if not missing:
        return None
    reasons = "; ".join(versions[package].removeprefix(_ABSENT) for package in missing)
    todo = f"install {', '.join(missing)} there"
    if name == "worker" and missing == ["spark_recmetrics"]:
        # A client of Spark Connect may send it from Python, but the commands have no place to say so.
        send = "start that server with spark.executorEnv.PYTHONPATH naming its wheel" if place else _SEND
        todo = f"{todo}, set PYSPARK_PYTHON{place} to a Python that has it, or {send}"
    elif name == "worker":
        todo = f"{todo}, or set PYSPARK_PYTHON{place} to a Python that has them"
    return Check("FAIL", name, f"{_listed(versions)}: {reasons}", todo)


def _listed(versions: dict[str, str]) -> str:
    named = [f"{name} {'absent' if version.startswith(_ABSENT) else version}" for name, version in versions.items()]
    return ", ".join(named[:-1]) + f" ({versions['executable']})"


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _session(spark: SparkSession) -> Check:
    client, server = pyspark.__version__, spark.version
    found = f"{'Spark Connect' if _is_connect(spark) else 'classic'}, Spark {server}, pyspark {client}"
    if client.split(".")[:2] == server.split(".")[:2]:
        return Check("ok", "session", found)
    return Check("warn", "session", found, "install the pyspark of Spark's version")


def _worker(spark: SparkSession, driver: dict[str, str], place: str) -> Check:
    # Without Arrow, which the worker may lack. A range is no local table, which the driver would compute by itself.
    versions = F.udf(_probe(_ON_WORKERS), "string", useArrow=False)
    try:
        found: dict[str, str] = json.loads(actions.collect_rows(spark.range(1).select(versions("id")))[0][0])
    except Exception as error:  # noqa: BLE001 - a worker fails in as many ways as there are machines
        mismatch = _MISMATCH.search(str(error))
        if mismatch:
            return _other_python(mismatch[1], mismatch[2], place)
        return Check(
            "FAIL", "worker", f"no Python ran there: {_reason(error)}", f"set PYSPARK_PYTHON{place} to a Python that runs"
        )
    worker_minor, driver_minor = (".".join(side["Python"].split(".")[:2]) for side in (found, driver))
    if worker_minor != driver_minor:
        return _other_python(worker_minor, driver_minor, place)
    missing = _missing("worker", found, place)
    if missing:
        return missing
    others = [name for name in found if name not in ("executable", "Python") and found[name] != driver[name]]
    if not others:
        return Check("ok", "worker", _listed(found))
    # Two versions of this package may compute two numbers; other packages only might.
    level: Literal["warn", "FAIL"] = "FAIL" if "spark_recmetrics" in others else "warn"
    of_driver = ", ".join(f"{name} {driver[name]}" for name in others)
    return Check(level, "worker", f"{_listed(found)}, but the driver has {of_driver}", "install the same versions on both")


def _other_python(worker: str, driver: str, place: str) -> Check:
    todo = f"set PYSPARK_PYTHON{place} to a Python {driver} before the session starts, or run the driver with Python {worker}"
    return Check("FAIL", "worker", f"Python {worker} on the worker, Python {driver} on the driver", todo)


def _setting(spark: SparkSession, name: str, key: str) -> Check:
    return Check("ok", name, f"{key}={spark.conf.get(key)}; no value depends on it")


def _cache(spark: SparkSession) -> Check:
    # A plan of its own: the session would take an equal one of the caller's for this, and give it back.
    kept = actions.materialize(spark.range(1).select(F.lit("spark_recmetrics doctor").alias("probe")))
    try:
        actions.collect_rows(kept)
        is_kept = actions.is_kept(kept)
    finally:
        actions.release(kept)
    if is_kept:
        return Check("ok", "cache", "tables are kept")
    return Check("warn", "cache", "this session keeps no tables", "each reader computes PER_USER again; expect longer runs")


def _pandas_udfs(spark: SparkSession, worker: Check) -> Check:
    if worker.level == "FAIL":
        # It would fail for the same reason, with a stack trace in the log of Spark.
        return Check("warn", "pandas UDFs", "not tried on a worker that failed", "repair the worker first")

    def unchanged(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        yield from parts

    rows: DataFrame = spark.range(1).mapInPandas(unchanged, "id long")
    actions.collect_rows(rows)
    return Check("ok", "pandas UDFs", "rows went to a worker and back through Arrow")


def _output(spark: SparkSession, output: Output | None) -> Check:
    if output is None:
        return Check("ok", "output", "skipped, no configuration was given", "add --config FILE to try to write there")
    where = output.table("*")
    try:
        remains = write.probe_output(spark, output)
    except PublishError as error:
        return Check(
            "FAIL", "output", f"{output.format} to {where}: {error}", "check the location, the format, and who may write there"
        )
    if remains is None:
        return Check("ok", "output", f"a table ({output.format}) was written beside {where}, and removed")
    return Check(
        "warn", "output", f"a table ({output.format}) was written to {remains}, and cannot be removed from here", "delete it"
    )


def _reason(error: BaseException) -> str:
    """The line of an error that says most: the last of a Python traceback, a program that is not there, or the first."""
    text = str(error)
    _, traceback, python = text.rpartition("Traceback (most recent call last)")
    raised = re.findall(r"^((?:\w+\.)*\w+(?:Error|Exception): .+)$", python, re.MULTILINE) if traceback else []
    # What py4j says comes before what Java says, on a line of its own.
    java = re.findall(r"Cannot run program .+", text) or re.findall(r"^: (.+)$", text, re.MULTILINE)
    lines = [*raised[:1], *java, *text.strip().splitlines(), type(error).__name__]
    return without_password(re.sub(r"\s+", " ", lines[0]).strip())
