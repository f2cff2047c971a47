"""A Spark cluster on this machine, a master and two workers, that is gone when the test is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

N_WORKERS = 2
PATIENCE = 60
"""How many seconds a cluster may take to start."""


def environment() -> dict[str, str]:
    """What the processes of a cluster and their drivers see: this Python, the package, and no name of the machine."""
    spark, root = Path(_find_spark_home()), Path(__file__).parents[1]
    path = os.pathsep.join([str(root), str(root / "tests")])
    own = {"SPARK_HOME": str(spark), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    return {**os.environ, **own, "PYSPARK_DRIVER_PYTHON": sys.executable}


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The address of the master. Whatever happens, its processes are killed in the end, and those that they have started."""
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_start(folder, "master", "master.Master", "--port", str(port)))
        _wait_for(folder / "master.log", "New state: ALIVE", 1)
        for n in range(N_WORKERS):
            work = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{n}"), master)
            # Hosts of their own: Spark starts a second attempt of a task on another host only.
            started.append(_start(folder, f"worker-{n}", "worker.Worker", *work, host=f"127.0.0.{n + 1}"))
        _wait_for(folder / "master.log", "Registering worker", N_WORKERS)
        yield master
    finally:
        for process in reversed(started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(folder: Path, name: str, kind: str, *arguments: str, host: str = "127.0.0.1") -> subprocess.Popen[bytes]:
    own = environment()
    command = [f"{own['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{kind}"]
    command += ["--host", host, "--webui-port", "0", *arguments]
    own |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": host}
    with (folder / f"{name}.log").open("wb") as log:
        # A session of its own: a worker and its executors are one group, which is killed at once.
        return subprocess.Popen(command, stdout=log, stderr=log, env=own, start_new_session=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(log: Path, text: str, n_times: int) -> None:
    end = time.monotonic() + PATIENCE
    while log.read_text(errors="replace").count(text) < n_times:
        if time.monotonic() > end:
            raise TimeoutError(f"no {text!r} in {PATIENCE} s:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.1)
