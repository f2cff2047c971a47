"""Progress of a run: names of jobs in the Spark UI, lines in the log, and lines on a terminal."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
import threading

import pytest

import spark_recmetrics as srm
from spark_recmetrics.decisions import differences_spark
from spark_recmetrics.evaluation import spark as pipeline
from spark_recmetrics.job.cli import main
from spark_recmetrics.runs import history_spark as history
from spark_recmetrics.side_info import spark as learning
from spark_recmetrics.storage import progress
from spark_recmetrics.storage.progress import StepCounts, show_steps, step

DESCRIPTION = "spark.job.description"
LISTS = [
    ("als", "u1", "a", 0.9),
    ("als", "u1", "b", 0.8),
    ("als", "u2", "b", 0.7),
    ("pop", "u1", "a", 5.0),
    ("pop", "u2", "a", 1.0),
    ("pop", "u3", "b", 1.0),
]
TRUTH = [("u1", "b", 5.0), ("u2", "b", 4.0), ("u3", "c", 1.0)]
TRAIN = [("u1", "c"), ("u2", "c"), ("u3", "a"), ("u3", "b")]

SECONDS = r"\d+\.\d s"
LINES = [
    f"workers: {SECONDS}",
    f"tables: {SECONDS}",
    f"models and catalog: {SECONDS}",
    f"items and groups: {SECONDS}",
    f"preflight: {SECONDS}",
    # Six predictions and three rows of ground truth; each model has three users.
    f"scoring: 9 rows, 3 users, {SECONDS}",
    # Of the second model, no item is a relevant one.
    f"common items: {SECONDS}",
    f"side information: {SECONDS}",
    f"aggregating: {SECONDS}",
    f"slices and intervals: {SECONDS}",
    f"comparing models: {SECONDS}",
    f"published runs: {SECONDS}",
    rf"writing data_report: \d+ rows, {SECONDS}",
    f"writing per_user: 6 rows, {SECONDS}",
    rf"writing summary: \d+ rows, {SECONDS}",
    rf"writing comparison: \d rows, {SECONDS}",
    f"publishing: {SECONDS}",
]


@pytest.fixture
def job(tmp_path):
    """A configuration with its tables as CSV files, which are written without a session."""
    columns = {
        "predictions": (LISTS, "model,user_id,item_id,score"),
        "truth": (TRUTH, "user_id,item_id,rating"),
        "train": (TRAIN, "user_id,item_id"),
    }
    inputs = {}
    for name, (rows, header) in columns.items():
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
        inputs[name] = {"path": str(tmp_path / f"{name}.csv"), "format": "csv"}
    conf = {
        "inputs": inputs,
        "evaluation": {"top_k": [2], "metrics": ["hit"], "slices": ["activity(1, 3)"], "n_buckets": 2},
        "comparison": {},
        "preflight": {"allow_train": True},
        "output": {"path": str(tmp_path / "out")},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    return str(path)


def tables_of(spark):
    return {
        "predictions": spark.createDataFrame(LISTS, "model string, user_id string, item_id string, score double"),
        "truth": spark.createDataFrame(TRUTH, "user_id string, item_id string, rating double"),
        "train": spark.createDataFrame(TRAIN, "user_id string, item_id string"),
    }


def evaluate(spark, **options):
    wanted = {"metrics": ["hit", "coverage", "novelty"], "k": 2, "slices": ["activity(1, 3)"], "catalog": 5}
    return srm.evaluate(n_buckets=2, **{**tables_of(spark), **wanted, **options})


def descriptions(spark):
    """By job id, the descriptions of all jobs so far in the UI; None without one."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    all_jobs = (jobs.apply(n) for n in range(jobs.size()))
    return {job.jobId(): job.description().get() if job.description().isDefined() else None for job in all_jobs}


def classic(session_kind):
    if session_kind == "connect":
        pytest.skip("a Connect client cannot see the server's jobs")


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "spark_recmetrics.storage.progress"]


@pytest.mark.heavy
@pytest.mark.spark
def test_the_jobs_of_an_evaluation_have_names(spark, session_kind):
    classic(session_kind)
    spark.sparkContext.setJobDescription("a notebook")
    before = descriptions(spark)
    srm.compare(evaluate(spark))
    assert {text for job, text in descriptions(spark).items() if job not in before} == {
        f"spark-recmetrics: {name}"
        for name in (
            "models and catalog",
            "items and groups",
            "scoring",
            "common items",
            "side information",
            "aggregating",
            "slices and intervals",
            "comparing models",
        )
    }
    assert spark.sparkContext.getLocalProperty(DESCRIPTION) == "a notebook"
    spark.sparkContext.setLocalProperty(DESCRIPTION, None)


@pytest.mark.heavy
@pytest.mark.spark
def test_a_job_logs_a_line_for_each_step_and_names_its_jobs(spark, session_kind, job, caplog):
    before = {} if session_kind == "connect" else descriptions(spark)
    assert main(["evaluate", "--config", job]) == 0
    lines = messages(caplog)
    assert len(lines) == len(LINES), lines
    for line, expected in zip(lines, LINES, strict=True):
        assert re.fullmatch(expected, line), line
    assert {record.levelno for record in caplog.records if record.name == progress.__name__} == {logging.INFO}
    if session_kind == "connect":
        return  # its server sets descriptions, which its client cannot see
    # All have a description. Otherwise the UI would show a line of Spark's code.
    texts = {text for number, text in descriptions(spark).items() if number not in before}
    assert all(str(text).startswith("spark-recmetrics: ") for text in texts), texts
    names = {text.removeprefix("spark-recmetrics: ") for text in texts}
    assert {"workers", "tables", "preflight: scoring", "scoring", "writing per_user", "publishing"} <= names
    assert spark.sparkContext.getLocalProperty(DESCRIPTION) is None


@pytest.mark.spark
def test_the_library_logs_steps_only_if_asked(spark, job, caplog):
    assert main(["evaluate", "--config", job, "--set", "inputs.truth.path=/nowhere"]) == 4  # show_steps ends with it
    caplog.clear()
    few = {"metrics": "hit", "slices": [], "models": ["als", "pop"], "train": None, "catalog": None}
    evaluate(spark, **few)
    assert messages(caplog) == []
    with caplog.at_level(logging.INFO, "spark_recmetrics"):
        evaluate(spark, **few)
    (line,) = [line for line in messages(caplog) if line.startswith("scoring")]
    assert re.fullmatch(f"scoring: 9 rows, 3 users, {SECONDS}", line)


@pytest.mark.heavy
@pytest.mark.spark
def test_progress_starts_no_job(spark, session_kind, monkeypatch):
    classic(session_kind)
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # adaptive execution runs a job per stage

    def n_jobs():
        before = descriptions(spark)
        srm.compare(evaluate(spark))
        return len(descriptions(spark).keys() - before.keys())

    with show_steps():
        with_progress = n_jobs()

    class NoStep:
        def __enter__(self):
            return StepCounts()

        def __exit__(self, *_):
            pass

    for module in (pipeline, differences_spark, learning, history):
        monkeypatch.setattr(module, "step", lambda *_: NoStep())
    assert n_jobs() == with_progress


@pytest.mark.spark
def test_a_description_is_restored_after_an_error(spark, session_kind, caplog):
    classic(session_kind)
    context = spark.sparkContext
    context.setJobDescription("mine")

    def fail():
        with show_steps(), step(spark, "outer"), step(spark, "inner") as counts:
            assert context.getLocalProperty(DESCRIPTION) == "spark-recmetrics: outer: inner"
            counts.rows = 1
            raise ValueError("no good")

    with pytest.raises(ValueError, match="no good"):
        fail()
    assert context.getLocalProperty(DESCRIPTION) == "mine"
    with step(spark, "next"):
        assert context.getLocalProperty(DESCRIPTION) == "spark-recmetrics: next"
    context.setLocalProperty(DESCRIPTION, None)
    assert messages(caplog) == []


@pytest.mark.spark
def test_threads_have_independent_steps(spark, session_kind):
    classic(session_kind)
    context, here, there, names = spark.sparkContext, threading.Event(), threading.Event(), []

    def other():
        with step(spark, "theirs"):
            there.set()
            here.wait(30)
            names.append(context.getLocalProperty(DESCRIPTION))

    thread = threading.Thread(target=other)
    with step(spark, "mine"):
        thread.start()
        there.wait(30)
        names.append(context.getLocalProperty(DESCRIPTION))
    here.set()
    thread.join()
    assert names == ["spark-recmetrics: mine", "spark-recmetrics: theirs"]


class Context:
    """A session whose context has died."""

    @property
    def sparkContext(self):  # noqa: N802 - Spark's name
        return self

    def getLocalProperty(self, key):  # noqa: N802 - Spark's name
        return None

    def setLocalProperty(self, key, value):  # noqa: N802 - Spark's name
        raise ConnectionError("connection refused")


@pytest.mark.parametrize("nameless", [Context(), object()])
def test_a_job_runs_without_a_name(nameless, caplog):
    """If Spark has no context, or denies access to it."""
    with show_steps(), step(nameless, "scoring") as counts:
        counts.rows = 1234567
        counts.users = 1
    assert messages(caplog) == ["scoring: 1,234,567 rows, 1 user, 0.0 s"]


def test_a_short_step_has_a_line_too(caplog, monkeypatch):
    """So that each run has the same lines."""
    times = iter([1.0, 1.0, 1.0, 3.25])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    with show_steps():
        for name in ("gates", "aggregating"):
            with step(object(), name):
                pass
    assert messages(caplog) == ["gates: 0.0 s", "aggregating: 2.2 s"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_the_plain_line_once(monkeypatch, caplog):
    monkeypatch.setattr(sys, "stderr", Terminal())
    for _ in range(2):
        with show_steps(), step(object(), "scoring") as counts:
            counts.rows = 2
    assert sys.stderr.getvalue() == 2 * "scoring: 2 rows, 0.0 s\n"
    assert messages(caplog) == []


@pytest.mark.spark
def test_a_terminal_shows_the_tasks_of_connect(spark, session_kind, monkeypatch):
    if session_kind == "classic" or not hasattr(spark, "registerProgressHandler"):
        pytest.skip("classic Spark shows its own bar; Connect reports tasks since Spark 4.0")
    from pyspark.sql import functions as F

    def slow(number):
        import time

        time.sleep(3)
        return number

    monkeypatch.setattr(sys, "stderr", Terminal())
    with show_steps(), step(spark, "scoring"):
        spark.range(1).select(F.udf(slow, "bigint")("id")).collect()
    text = sys.stderr.getvalue()
    assert re.search(r"\rscoring: \d of [12] tasks *\r", text)
    # The line is cleared before the next one is written.
    assert re.search(rf"\r {{70}}\rscoring: {SECONDS}\n$", text)
    spark.range(1).collect()
    assert sys.stderr.getvalue() == text


@pytest.mark.slow
def test_a_job_on_a_terminal(job, tmp_path):
    """A process whose stderr is a terminal. A line may follow a cleared bar of Spark."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", "from spark_recmetrics.job.cli import evaluate; evaluate()", "--config", job]
    flags = "--conf spark.log.level=ERROR --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 pyspark-shell"
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": f"--master local[2] {flags}"}
    with (tmp_path / "stdout").open("wb") as stdout:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=follower, env=environment)
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # raised by Linux when the terminal is closed
            break
        if not part:
            break
        shown += part
    os.close(leader)
    text = shown.decode().replace("\r\n", "\n")
    assert process.wait() == 0, text
    lines = [line.rpartition("\r")[2] for line in text.splitlines()]
    positions = [next((n for n, line in enumerate(lines) if re.fullmatch(expected, line)), None) for expected in LINES]
    assert None not in positions, text
    assert positions == sorted(positions)
    assert "spark_recmetrics.storage.progress" not in text
    assert b"scoring:" not in (tmp_path / "stdout").read_bytes()


def test_a_job_without_stderr(monkeypatch, caplog):
    """As when a scheduler starts a job with `2>&-`."""
    monkeypatch.setattr(sys, "stderr", None)
    with show_steps(), step(object(), "scoring"):
        pass
    assert messages(caplog) == ["scoring: 0.0 s"]
