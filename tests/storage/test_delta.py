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

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.heavy]

VERSIONS = {"4.2": "io.delta:delta-spark_4.2_2.13:4.4.0"}
"""The Delta Lake that fits a Spark. The first number of the artifact is that of Spark."""
SECONDS_TO_GET = 180
"""How long the jar, and a session with it, may take. Where there is no network, the answer comes in seconds."""
SECONDS = 900
"""How long all of it may take on a machine that is busy."""

SESSION = """
import sys
from pyspark.sql import SparkSession

def session(folder, package):
    builder = SparkSession.builder.master("local[2]")
    for key, value in {
        "spark.jars.packages": package,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()

spark = session(*sys.argv[1:3])
print("SESSION", flush=True)
"""

RUNS = """
import contextlib, io, json, logging
from concurrent.futures import ThreadPoolExecutor
from spark_recmetrics import Output, PublishError, Run, read_history, tables
from spark_recmetrics.job.cli import main
from spark_recmetrics.runs.history_spark import publish
from published_runs import RUN, complete, frames_of, numbers

found, folder = {}, sys.argv[1]

def tell(name, value):
    print("FOUND " + json.dumps([name, value]), flush=True)

class Heard(logging.Handler):
    lines = []
    def emit(self, record):
        self.lines.append(record.getMessage())

logging.getLogger("spark_recmetrics").addHandler(Heard())

def columns_added(output):
    wide = spark.createDataFrame([("als", "hit@1", 1, 0.5)], "model string, metric string, n_users long, value double")
    publish({"summary": wide}, output, Run(run_id="r2", as_of="2026-11-29"))
    frame = read_history(spark, output)
    return [frame.columns, sorted((row["run_id"], row["value"]) for row in frame.collect())]

def other_type(output):
    try:
        publish({"summary": spark.createDataFrame([("als", 1)], "model string, metric int")}, output, RUN)
    except PublishError as error:
        return str(error)

for name, output in (
    ("path", Output(path=f"{folder}/out", format="delta")),
    ("catalog", Output(table_prefix="default.nightly_", format="delta")),
):
    for value in (1, 2):
        publish(frames_of(spark, value), output, RUN)
    tell(f"{name}: again", numbers(spark, output) == complete(2))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda value: publish(frames_of(spark, value, value), output, RUN), (3, 4)))
    tell(f"{name}: at once", numbers(spark, output) in [complete(3, 3), complete(4, 4)])
    tell(f"{name}: columns", columns_added(output))
    tell(f"{name}: type", other_type(output))

kinds = [spark.sql(f"describe detail delta.`{folder}/out/runs`").collect()[0]["format"]]
kinds.append(spark.sql("describe detail default.nightly_runs").collect()[0]["format"])
tell("formats", kinds)

# Two that make the same table at once: one of them finds that it has been made, or that its columns have changed.
Heard.lines.clear()
for n in range(1):
    output = Output(path=f"{folder}/first-{n}", format="delta")
    with ThreadPoolExecutor(3) as pool:
        runs = [Run(run_id=f"r{k}", as_of="2026-11-28") for k in range(3)]
        list(pool.map(lambda run: publish(frames_of(spark, n), output, run), runs))
    expected = {table: sorted(row for run in runs for row in complete(n, run=run)[table]) for table in complete(n)}
    tell(f"first {n}", numbers(spark, output) == expected)
tell("conflicts", sum("concurrent write" in line for line in Heard.lines))

from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location

def older(**place):
    # Rows of the first version of a table, and of the newest.
    kinds = ({"versionAsOf": "0"}, {})
    return [tables.read_table(spark, Location(**place, options=kind), "truth", Vault()).count() for kind in kinds]

for value in (1, 2):
    rows = spark.range(value)
    rows.write.format("delta").mode("overwrite").save(f"{folder}/older")
    rows.write.format("delta").mode("overwrite").saveAsTable("default.older")
tell("older: path", older(path=f"{folder}/older", format="delta"))
tell("older: catalog", older(table="default.older"))

def doctor(name, **output):
    conf = f"{folder}/{name}.json"
    inputs = {"predictions": {"path": "/nowhere"}, "truth": {"path": "/nowhere"}}
    settings = {"inputs": inputs, "evaluation": {"metrics": ["mrr"]}, "output": {"format": "delta", **output}}
    with open(conf, "w") as file:
        json.dump(settings, file)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = main(["doctor", "--config", conf])
    return [code, out.getvalue().strip().splitlines()[-1]]

tell("doctor: path", doctor("path", path=f"{folder}/new"))
tell("doctor: catalog", doctor("catalog", table_prefix="default.new_"))
tell("tables", sorted(row["tableName"] for row in spark.sql("show tables in default").collect()))
"""


def first_line(process):
    """What it says when it has its jar; nothing if that cannot be had, or takes too long."""
    limit = threading.Timer(SECONDS_TO_GET, process.kill)
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
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("delta")


@pytest.fixture(scope="module")
def found(place):
    """What a session with Delta Lake found."""
    release = ".".join(pyspark.__version__.split(".")[:2])
    if release not in VERSIONS:
        pytest.skip(f"no Delta Lake is known for Spark {release}")
    package = VERSIONS[release]
    command = [sys.executable, "-u", "-c", SESSION + RUNS, str(place), package]
    log = place / "stderr"
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment(), cwd=place) as process,
    ):
        started = first_line(process)
        out = rest_of(process) if started else ""
    said = log.read_text()
    if not started:
        wrong = re.search(r".*(?:unresolved dependency|Server access error|download failed).*", said)
        if wrong is None and process.returncode != -signal.SIGKILL:
            pytest.fail(f"no session started:\n{said[-3000:]}")
        pytest.skip(f"{package} cannot be had: {wrong[0].strip() if wrong else f'no answer in {SECONDS_TO_GET} s'}")
    assert process.returncode == 0, said[-3000:]
    return dict(json.loads(line.removeprefix("FOUND ")) for line in out.splitlines() if line.startswith("FOUND "))


@pytest.mark.parametrize("kind", ["path", "catalog"])
def test_a_run_published_again_and_twice_at_once(found, kind):
    assert found[f"{kind}: again"]
    assert found[f"{kind}: at once"], "the rows of one of the two"


def test_the_tables_are_of_delta(found):
    assert found["formats"] == ["delta", "delta"]


@pytest.mark.parametrize("kind", ["path", "catalog"])
def test_a_column_more_is_added(found, kind):
    columns, rows = found[f"{kind}: columns"]
    assert sorted(columns) == sorted(["model", "metric", "n_users", "value", "as_of", "run_id"])
    assert rows == [["r1", None], ["r2", 0.5]]


@pytest.mark.parametrize("kind", ["path", "catalog"])
def test_a_column_of_another_type_is_refused(found, kind):
    assert "column metric: expected string, as in the published runs, found int" in found[f"{kind}: type"]


@pytest.mark.parametrize("kind", ["path", "catalog"])
def test_an_older_version_is_read_where_an_option_names_it(found, kind):
    assert found[f"older: {kind}"] == [1, 2]


def test_three_runs_at_once_make_the_same_tables(found):
    """They are in each other's way, and all are complete: what Delta refuses is tried again."""
    assert found["first 0"]
    assert found["conflicts"] > 0


def test_doctor_writes_a_table_and_removes_it(found, place):
    for kind in ("path", "catalog"):
        code, line = found[f"doctor: {kind}"]
        assert code == 0
        assert re.match(r"ok +output: a table \(delta\) was written next to .+, and removed", line), line
    assert not Path(place / "new").exists()
    assert [name for name in found["tables"] if "new" in name or "probe" in name] == []
