"""Interrupted and concurrent publishing: each run stays complete, with its previous or with its new rows."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.fs
import pytest
from published_runs import NUMBER, RUN, attempts, complete, frames_of, numbers

from spark_recmetrics import DataError, Output, Run, read_history
from spark_recmetrics.runs.history_spark import publish
from spark_recmetrics.storage import write

STAGED, COMMITTED = 3, 4
"""The number of writes after which all rows are staged, and after which the run is committed."""

N_CYCLES = int(os.environ.get("RECMETRICS_CYCLES", "12"))
"""How often a run is published and perhaps killed; a cycle takes seconds."""


class Killed(BaseException):
    """No code catches it, like a kill."""


class Steps:
    """Counts the steps of publishing, and kills it at one. Each write or removal is two steps: before and after it."""

    def __init__(self, monkeypatch):
        self.left = None
        self.taken = 0
        add, system = write.add_partitions, pyarrow.fs.FileSystem
        steps = self

        class Counted:
            def __init__(self, files):
                self.get_file_info = files.get_file_info
                self.delete_dir = steps.counted(files.delete_dir)

            @staticmethod
            def from_uri(uri):
                files, root = system.from_uri(uri)
                return Counted(files), root

        monkeypatch.setattr(write, "add_partitions", self.counted(add))
        monkeypatch.setattr(pyarrow.fs, "FileSystem", Counted)

    def counted(self, function):
        def call(*arguments):
            self.step()
            function(*arguments)
            self.step()

        return call

    def step(self):
        self.taken += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    def publish(self, *arguments, until=None):
        """Publish, and return whether it was committed: whether the step after the fourth write was reached."""
        self.left, self.taken = until, 0
        try:
            publish(*arguments)
        except Killed:
            pass
        finally:
            self.left = None
        return self.taken >= 2 * COMMITTED


@pytest.fixture
def steps(monkeypatch):
    return Steps(monkeypatch)


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.slow
def test_killed_at_every_step_and_run_again(spark, tmp_path, steps):
    """Before the commit the previous rows stay, after it the new ones are complete."""
    folder = str(tmp_path)
    publish(frames_of(spark, 0), Output(path=folder), RUN)
    shown, n_committed, last = 0, 0, 2 * (COMMITTED + len(NUMBER))
    for until in range(last):
        committed = steps.publish(frames_of(spark, until + 1), Output(path=folder), RUN, until=until)
        assert committed == (until >= 2 * COMMITTED - 1)
        shown, n_committed = (until + 1, n_committed + 1) if committed else (shown, n_committed)
        assert numbers(spark, folder) == complete(shown), f"killed at step {until}"
    assert steps.publish(frames_of(spark, 99), Output(path=folder), RUN)
    assert numbers(spark, folder) == complete(99)
    assert len(attempts(folder, "runs")) == n_committed + 2


@pytest.mark.spark
@pytest.mark.heavy
def test_a_first_run_that_is_killed_is_no_run(spark, tmp_path, steps):
    folder = str(tmp_path)
    for until in (1, 2 * STAGED):
        assert not steps.publish(frames_of(spark, 1), Output(path=folder), RUN, until=until)
        with pytest.raises(DataError, match=f"{folder}/summary: expected published runs, found none: check the output"):
            read_history(spark, folder)
    assert steps.publish(frames_of(spark, 2), Output(path=folder), RUN)
    assert numbers(spark, folder) == complete(2)


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.slow
def test_cycles_with_a_kill_at_a_random_step(spark, tmp_path, steps):
    folder, chance, shown, n_killed = str(tmp_path), random.Random(4), {}, 0
    runs = [RUN, Run(run_id="r2", as_of="2026-11-28")]
    for run in runs:
        publish(frames_of(spark, 0), Output(path=folder), run)
        shown[run] = (0, 3)
    for cycle in range(1, N_CYCLES + 1):
        run, n_users = chance.choice(runs), chance.randint(1, 4)
        until = chance.randrange(2 * (COMMITTED + len(NUMBER)))
        if steps.publish(frames_of(spark, cycle, n_users), Output(path=folder), run, until=until):
            shown[run] = (cycle, n_users)
        else:
            n_killed += 1
        both = [complete(*shown[run], run=run) for run in runs]
        assert numbers(spark, folder) == {table: both[0][table] + both[1][table] for table in NUMBER}, f"cycle {cycle}"
    assert N_CYCLES / 4 < n_killed < N_CYCLES * 3 / 4, "as many before the commit as after it"


PUBLISHES = """
import sys
sys.path.insert(0, sys.argv[2])
from pyspark.sql import SparkSession
from spark_recmetrics import Output
from spark_recmetrics.runs.history_spark import publish
from published_runs import RUN, frames_of

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
for value in range(1, 1000):
    publish(frames_of(spark, value), Output(path=sys.argv[1]), RUN)
    print(value, flush=True)
"""


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.slow
def test_a_process_that_is_really_killed(spark, tmp_path):
    """Python and the JVM are killed at a random moment, while they publish for the third time or later."""
    folder, tests = str(tmp_path / "out"), Path(__file__).parents[1]
    command = [sys.executable, "-c", PUBLISHES, folder, str(tests)]
    environment = {**os.environ, "PYTHONPATH": str(tests.parent)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True, env=environment
    ) as process:
        try:
            done = [int(process.stdout.readline()) for _ in range(2)]
            time.sleep(random.random())
        finally:
            os.killpg(process.pid, signal.SIGKILL)
        done += [int(line) for line in process.stdout.read().split()]
    value = numbers(spark, folder)["summary"][0][2]
    assert value in (done[-1], done[-1] + 1)
    assert numbers(spark, folder) == complete(value)
    publish(frames_of(spark, 0), Output(path=folder), RUN)
    assert numbers(spark, folder) == complete(0)


@pytest.mark.spark
@pytest.mark.heavy
def test_two_jobs_publish_the_same_run_at_once(spark, tmp_path):
    folder = str(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        for first in (1, 3):
            list(pool.map(lambda value: publish(frames_of(spark, value, value), Output(path=folder), RUN), (first, first + 1)))
            rows = numbers(spark, folder)
            assert rows in [complete(first, first), complete(first + 1, first + 1)]
    publish(frames_of(spark, 9), Output(path=folder), RUN)
    assert [len(attempts(folder, table)) for table in NUMBER] == [1] * 3


@pytest.mark.spark
@pytest.mark.slow
def test_rows_of_a_killed_run_are_removed_after_a_week(spark, tmp_path, steps):
    folder = str(tmp_path)
    assert not steps.publish(frames_of(spark, 1), Output(path=folder), RUN, until=2 * STAGED)
    (left,) = attempts(folder, "summary")
    publish(frames_of(spark, 2), Output(path=folder), RUN)
    assert left in attempts(folder, "summary"), "it may belong to a run that is still writing"
    old = time.time() - 8 * 24 * 3600
    staging = tmp_path / "summary" / ".spark-staging-1"
    staging.mkdir()
    for stale in (*tmp_path.rglob("attempt=*"), staging):
        os.utime(stale, (old, old))
    publish(frames_of(spark, 3), Output(path=folder), RUN)
    assert [len(attempts(folder, table)) for table in NUMBER] == [1] * 3
    assert not staging.exists()
    assert numbers(spark, folder) == complete(3)
