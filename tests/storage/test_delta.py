"""Delta Lake itself: a session with its jar, in another process. `test_write.py` tests conflicts without the jar."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyspark
import pytest
from cluster import environment

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.slow]

VERSIONS = {"4.2": "io.delta:delta-spark_4.2_2.13:4.4.0"}
"""The package of Delta Lake for each version of Spark, which is the first number of the artifact."""
SECONDS_TO_START = 180
"""How long downloading the jar and starting a session may take. Without a network it fails within seconds."""
SECONDS = 900
"""How long all runs may take on a busy machine."""


def first_line(process):
    """The line that it prints when the session has started; empty if it fails or takes too long."""
    limit = threading.Timer(SECONDS_TO_START, process.kill)
    limit.start()
    try:
        return process.stdout.readline()
    finally:
        limit.cancel()


def rest_of(process):
    try:
        return process.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        raise


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("delta")


@pytest.fixture(scope="module")
def results(folder):
    """The results of `delta_runs.py` by name."""
    release = ".".join(pyspark.__version__.split(".")[:2])
    if release not in VERSIONS:
        pytest.skip(f"no package of Delta Lake is listed for Spark {release}")
    package = VERSIONS[release]
    command = [sys.executable, "-u", str(Path(__file__).parents[1] / "delta_runs.py"), str(folder), package]
    log = folder / "stderr"
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment(), cwd=folder) as process,
    ):
        started = first_line(process)
        out = rest_of(process) if started else ""
    errors = log.read_text()
    if not started:
        failure = re.search(r".*(?:unresolved dependency|Server access error|download failed).*", errors)
        if failure is None and process.returncode != -signal.SIGKILL:
            pytest.fail(f"no session started:\n{errors[-3000:]}")
        pytest.skip(f"cannot get {package}: {failure[0].strip() if failure else f'no answer in {SECONDS_TO_START} s'}")
    assert process.returncode == 0, errors[-3000:]
    return dict(json.loads(line.removeprefix("RESULT ")) for line in out.splitlines() if line.startswith("RESULT "))


@pytest.mark.parametrize("kind", ["path", "catalog"])
def test_a_run_published_again_and_twice_at_once(results, kind):
    assert results[f"{kind}: again"]
    assert results[f"{kind}: at once"], "the rows of one of the two"


def test_the_tables_are_of_delta(results):
    assert results["formats"] == ["delta", "delta"]


@pytest.mark.parametrize("kind", ["path", "catalog"])
def test_a_new_column_is_added(results, kind):
    columns, rows = results[f"{kind}: columns"]
    assert sorted(columns) == sorted(["model", "metric", "n_users", "value", "as_of", "run_id"])
    assert rows == [["r1", None], ["r2", 0.5]]


@pytest.mark.parametrize("kind", ["path", "catalog"])
def test_a_column_with_another_type_is_rejected(results, kind):
    assert "column metric: expected string, as in the published runs, found int" in results[f"{kind}: type"]


@pytest.mark.parametrize("kind", ["path", "catalog"])
def test_an_older_version_is_read_if_an_option_names_it(results, kind):
    assert results[f"versions: {kind}"] == [1, 2]


def test_only_the_rows_in_the_log_are_read(results, folder):
    table = f"{folder}/inputs"
    assert results["folders: table as None"] == results["folders: table as delta"] == [["u", "b"]]
    assert results["folders: table as parquet"] == f"inputs.truth: {table} is a Delta table: set format: delta"
    for given in (None, "parquet"):
        assert results[f"folders: partition as {given}"] == (
            f"inputs.truth: {table}/day=1 is inside a Delta table: set path: file://{table} and format: delta, and where for a "
            "part of its rows"
        )
    assert "is inside a Delta table" in results["folders: file as None"]
    assert results["folders: advice"] == [["u", "b"]]


def test_three_runs_create_the_same_tables_at_once(results):
    """They conflict, and all are complete, because rejected writes are repeated."""
    assert results["created at once"]
    assert results["conflicts"] > 0


def test_doctor_writes_a_table_and_removes_it(results, folder):
    for kind in ("path", "catalog"):
        code, line = results[f"doctor: {kind}"]
        assert code == 0
        assert re.match(r"ok +output: wrote a table \(delta\) next to .+ and removed it", line), line
    assert not Path(folder / "new").exists()
    assert [name for name in results["tables"] if "new" in name or "probe" in name] == []
