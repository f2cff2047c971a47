"""A Spark cluster on this machine with a master and two workers, which ends with the test."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

N_WORKERS = 2
PATIENCE = 60
"""Seconds that a cluster may take to start."""
ROOT = Path(__file__).resolve().parents[1]


def environment(python: str = sys.executable, path: Sequence[Path] = (ROOT, ROOT / "tests")) -> dict[str, str]:
    """The variables of a cluster's processes and drivers.

    Args:
        python: The Python of drivers and workers; by default this one.
        path: Additional folders on the Python path; by default this package and its tests.
    """
    home = {"SPARK_HOME": str(_find_spark_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    pythons = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return {**os.environ, **home, **pythons}


@contextmanager
def cluster(folder: Path, variables: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of the master. At the end all processes are killed, also those that they have started.

    Args:
        folder: Where logs and the folders of the workers go.
        variables: The variables of its processes; by default `environment()`.
    """
    variables, port = variables or environment(), _free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as started:
        command = (*_daemon(variables, "master.Master", "127.0.0.1"), "--port", str(port))
        started.enter_context(_started(folder, "master", variables, *command))
        _wait_for(folder / "master.log", "New state: ALIVE", 1)
        for n in range(N_WORKERS):
            # Different hosts, because Spark starts the second attempt of a task only on another host.
            host = f"127.0.0.{n + 1}"
            work = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{n}"), master)
            local = {**variables, "SPARK_LOCAL_IP": host}
            started.enter_context(_started(folder, f"worker-{n}", local, *_daemon(variables, "worker.Worker", host), *work))
        _wait_for(folder / "master.log", "Registering worker", N_WORKERS)
        yield master


@contextmanager
def connect_server(folder: Path, variables: Mapping[str, str], *flags: str) -> Iterator[str]:
    """The address of a Spark Connect server, which is killed at the end. `flags` are flags of spark-submit."""
    port = _free_port()
    command = [
        f"{variables['SPARK_HOME']}/bin/spark-submit",
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]
    for key, value in {"address": "127.0.0.1", "port": port}.items():
        command += ["--conf", f"spark.connect.grpc.binding.{key}={value}"]
    # It is a driver, but gets the memory of a daemon.
    with _started(folder, "connect", variables, *command, *flags, memory="1g"):
        _wait_for(folder / "connect.log", "Spark Connect server started", 1)
        yield f"sc://127.0.0.1:{port}"


def _daemon(variables: Mapping[str, str], kind: str, host: str) -> list[str]:
    spark_class = f"{variables['SPARK_HOME']}/bin/spark-class"
    return [spark_class, f"org.apache.spark.deploy.{kind}", "--host", host, "--webui-port", "0"]


@contextmanager
def _started(folder: Path, name: str, variables: Mapping[str, str], *command: str, memory: str = "256m") -> Iterator[None]:
    with (folder / f"{name}.log").open("wb") as log:
        variables = {**variables, "SPARK_DAEMON_MEMORY": memory}
        # In a new session a worker and its executors are one process group, which can be killed together.
        process = subprocess.Popen(command, stdout=log, stderr=log, env=variables, start_new_session=True)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


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
