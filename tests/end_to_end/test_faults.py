"""Tasks that fail, run twice, or lose their executor: the numbers are those of a clean run."""

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
    pytest.mark.heavy,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the executor of a worker is looked up in /proc"),
]

SECONDS = 500
"""How long the evaluations of one session may take on a machine that is busy; on an idle one they take half a minute."""


def run(master, folder, *faults):
    """What `faulty_run.py` found: without a fault, and with each of them."""
    command = [sys.executable, str(Path(__file__).parents[1] / "faulty_run.py"), master, str(folder), *faults]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [one["fault"] for one in found] == ["none", *faults]
    return found


def assert_same_numbers(found, clean):
    assert found["per_user"] == clean["per_user"], "bit for bit"
    assert found["facts"] == clean["facts"], "what was counted of the input"
    assert found["data_hash"] == clean["data_hash"]
    assert len(found["summary"]) == len(clean["summary"])
    for row, wanted in zip(found["summary"], clean["summary"], strict=True):
        assert row[:2] == wanted[:2]
        for value, other in zip(row[2:], wanted[2:], strict=True):
            assert value == other if None in (value, other) else math.isclose(value, other, rel_tol=0, abs_tol=1e-12), row


def test_python_workers_that_die_once(tmp_path):
    """On the first attempt of a task: while predictions are read, and in every task that scores users."""
    clean, *found = run("local[2,4]", tmp_path, "worker-source", "worker-score")
    for one in found:
        assert one["struck"] > 0, "a worker was killed"
        assert_same_numbers(one, clean)


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def test_an_executor_that_is_lost(master, tmp_path):
    """While it reads predictions, while it scores users, and behind the evaluation, when it holds a part of PER_USER."""
    clean, *found = run(master, tmp_path, "executor-source", "executor-score", "executor-cache")
    for one in found:
        assert one["lost"] > 0, "an executor was killed"
        assert_same_numbers(one, clean)


def test_what_is_observed_of_rows_that_a_lost_executor_had_read(master, tmp_path):
    """Spark may count them again, and the counts are right all the same."""
    clean, lost = run(master, tmp_path, "executor-watch")
    assert lost["lost"] == 1, "an executor was killed"
    assert clean["watched"] == lost["watched"] == {"rows": 1000, "even": 500}


def test_speculation(master, tmp_path):
    """A task that does not end is run a second time on the other executor, while predictions are read and in scoring."""
    clean, *found = run(master, tmp_path, "slow-source", "slow-score")
    for one in found:
        assert one["struck"] > 0, "a task was slow"
        assert one["seconds"] < 60, "the second attempt was faster than the sleep of the first"
        assert_same_numbers(one, clean)
