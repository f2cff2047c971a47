"""Tasks that fail, run twice, or lose their executor: the results are those of a clean run."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import cluster, environment

pytestmark = [
    pytest.mark.spark,
    pytest.mark.once,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find the executor of a worker"),
]

SECONDS = 500
"""How long the evaluations of one session may take on a busy machine; on an idle one they take half a minute."""


def run(master, folder, *faults):
    """The reports of `faulty_run.py`: without a fault, and with each fault."""
    command = [sys.executable, str(Path(__file__).parents[1] / "faulty_run.py"), master, str(folder), *faults]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [report["fault"] for report in reports] == ["none", *faults]
    return reports


def assert_same_results(report, clean):
    assert report["per_user"] == clean["per_user"], "bit for bit"
    assert report["data_checks"] == clean["data_checks"]
    assert report["data_hash"] == clean["data_hash"]
    assert len(report["summary"]) == len(clean["summary"])
    for row, expected in zip(report["summary"], clean["summary"], strict=True):
        assert row[:2] == expected[:2]
        for value, other in zip(row[2:], expected[2:], strict=True):
            assert value == other if None in (value, other) else math.isclose(value, other, rel_tol=0, abs_tol=1e-12), row


def test_python_workers_that_die_once(tmp_path):
    """In the first attempt of a task: while predictions are read, and in every task that scores users."""
    clean, *reports = run("local[2,4]", tmp_path, "worker-source", "worker-score")
    for report in reports:
        assert report["struck"] > 0, "a worker was killed"
        assert_same_results(report, clean)


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def test_an_executor_that_is_lost(master, tmp_path):
    """While it reads predictions, while it scores users, and after the evaluation, when it keeps a part of PER_USER."""
    clean, *reports = run(master, tmp_path, "executor-source", "executor-score", "executor-cache")
    for report in reports:
        assert report["lost"] > 0, "an executor was killed"
        assert_same_results(report, clean)


def test_the_counts_of_rows_that_a_lost_executor_had_read(master, tmp_path):
    """Spark may count them twice, but the counts are right."""
    clean, lost = run(master, tmp_path, "executor-observe")
    assert lost["lost"] == 1, "an executor was killed"
    assert clean["observed"] == lost["observed"] == {"rows": 1000, "even": 500}


def test_speculation(master, tmp_path):
    """A task that hangs runs a second time on the other executor, while predictions are read and in scoring."""
    clean, *reports = run(master, tmp_path, "slow-source", "slow-score")
    for report in reports:
        assert report["struck"] > 0, "a task was slow"
        assert report["seconds"] < 60, "the second attempt was faster than the sleep of the first"
        assert_same_results(report, clean)
