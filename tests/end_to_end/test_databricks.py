"""databricks.yml and the notebook: held against the package, and run in a session that refuses what serverless does."""

from __future__ import annotations

import ast
import json
import re
from importlib import import_module
from math import log2
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from job_data import load
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_recmetrics.diagnostics.doctor_spark import examine
from spark_recmetrics.errors import PublishError
from spark_recmetrics.job import cli
from spark_recmetrics.job import session_spark as job_session
from spark_recmetrics.runs.history_spark import read_history
from spark_recmetrics.storage.locations import Output
from spark_recmetrics.storage.write import published_table

try:
    import tomllib
except ImportError:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "databricks"
BUNDLE = yaml.safe_load((ROOT / "databricks.yml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENTRY_POINTS = PROJECT["entry-points"]["databricks"]
JOBS = BUNDLE["resources"]["jobs"]
TASKS = [pytest.param(job, task, id=f"{name}-{task['task_key']}") for name, job in JOBS.items() for task in job["tasks"]]
AS_OF = "2026-11-28"
EXTRAS = PROJECT["optional-dependencies"]
PACKAGES = [*EXTRAS["report"], *EXTRAS["mlflow"]]
"""Packages of the extras for the report and MLflow."""


def words_of(task, **values):
    """The command line of a task."""
    wheel = task["python_wheel_task"]
    words = [*wheel.get("parameters", ()), *(f"--{name}={value}" for name, value in wheel.get("named_parameters", {}).items())]
    given = {"${var.config}": str(EXAMPLES / "nightly.yaml"), "{{job.parameters.as_of}}": AS_OF, **values}
    return [re.sub("|".join(map(re.escape, given)), lambda found: given[found[0]], word) for word in words]


@pytest.fixture
def serverless(spark, monkeypatch):
    """A session that rejects what serverless compute rejects, which is not available without an account."""

    def refuse(*_, **__):
        raise PySparkException("[NOT_SUPPORTED_WITH_SERVERLESS] this is not supported on serverless compute. SQLSTATE: 0A000")

    refused = {"persist", "cache", "unpersist", "checkpoint", "localCheckpoint", "storageLevel", "rdd", "sparkContext"}
    refused |= {"refreshTable", "cacheTable", "uncacheTable", "clearCache", "isCached", "refreshByPath"}
    for kind in (type(spark.range(1)), type(spark.catalog)):
        for base in kind.__mro__[:-1]:
            for name in refused & vars(base).keys():
                monkeypatch.setattr(base, name, property(refuse) if isinstance(vars(base)[name], property) else refuse)
    with pytest.raises(PySparkException, match="NOT_SUPPORTED_WITH_SERVERLESS"):
        spark.range(1).persist()
    yield spark
    monkeypatch.undo()  # before the fixture spark clears the cache


@pytest.fixture
def tables(spark):
    """Two models and 24 users with one relevant item each. The candidate ranks it first, the baseline third or second.

    All rows are there for two days: without a filter, every pair would be there twice.
    """
    rows = []
    for user in range(24):
        for model, place in (("als", 0), ("popularity", 2 if user % 4 else 1)):
            items = [(user + n) % 12 for n in range(1, 10)]
            items.insert(place, user % 12)
            rows += [(model, f"u{user}", f"i{item}", 1.0 - n / 20) for n, item in enumerate(items)]
    frames = {
        "predictions": spark.createDataFrame(rows, "model string, user_id string, item_id string, score double"),
        "truth": spark.createDataFrame(
            [(f"u{user}", f"i{user % 12}", 5.0) for user in range(24)], "user_id string, item_id string, rating double"
        ),
    }
    names = {name: f"default.hosts_{name}" for name in frames}
    for name, frame in frames.items():
        days = F.explode(F.array(F.lit(AS_OF), F.lit("2020-01-01"))).alias("day")
        frame.select("*", days).write.mode("overwrite").saveAsTable(names[name])
    yield names
    for table in spark.sql("show tables in default like 'hosts_*'").collect():
        spark.sql(f"drop table default.{table.tableName}")


# The bundle -----------------------------------------------------------------------------------------------------------------


def test_entry_points_are_functions():
    for target in ENTRY_POINTS.values():
        module, _, function = target.partition(":")
        assert callable(getattr(import_module(module), function))


@pytest.mark.parametrize(("job", "task"), TASKS)
def test_every_task_is_a_valid_command(job, task):
    wheel = task["python_wheel_task"]
    assert wheel["package_name"] == PROJECT["name"].replace("-", "_")
    assert ENTRY_POINTS[wheel["entry_point"]] == f"spark_recmetrics.job.cli:{wheel['entry_point']}"
    arguments = cli._parser().parse_args([wheel["entry_point"], *words_of(task)])
    assert arguments.as_of == AS_OF
    loaded = load(arguments.config, arguments.set, arguments.as_of)
    assert loaded.gates
    assert loaded.output.format == "delta"
    assert loaded.report == "/Volumes/main/recs/reports/{as_of}.html"
    assert loaded.tracking is not None
    assert wheel["entry_point"] != "evaluate" or arguments.no_gates
    # The package and the packages of the configuration are installed. The gate writes no report and does not use MLflow.
    if "environment_key" in task:
        specs = {one["environment_key"]: one["spec"] for one in job["environments"]}
        assert specs[task["environment_key"]]["dependencies"] == ["./dist/*.whl", *PACKAGES]
    else:
        assert task["job_cluster_key"] in {one["job_cluster_key"] for one in job["job_clusters"]}
        more = [{"pypi": {"package": name}} for name in PACKAGES] if wheel["entry_point"] == "evaluate" else []
        assert task["libraries"] == [{"whl": "./dist/*.whl"}, *more]


@pytest.mark.parametrize("name", JOBS)
def test_evaluations_are_retried_and_gates_are_not(name):
    job = JOBS[name]
    evaluate, gate = job["tasks"]
    assert job["schedule"]["quartz_cron_expression"].split()[3:] == ["*", "*", "?"]
    assert [one["name"] for one in job["parameters"]] == ["as_of"]
    assert evaluate["max_retries"] > 0 == gate["max_retries"]
    assert gate["depends_on"] == [{"task_key": evaluate["task_key"]}]
    # By default, serverless compute retries failed tasks.
    assert gate.get("disable_auto_optimization", False) == ("environment_key" in gate)


def test_one_job_is_serverless_and_one_is_classic_and_only_one_is_scheduled():
    kinds = {"environments" in job: job["schedule"]["pause_status"] for job in JOBS.values()}
    assert kinds == {True: "UNPAUSED", False: "PAUSED"}
    for job in JOBS.values():
        assert ("environments" in job) != ("job_clusters" in job)


def test_the_configuration_is_synchronized():
    default = BUNDLE["variables"]["config"]["default"].removeprefix("${workspace.file_path}/")
    assert (ROOT / default).is_file()
    assert any((ROOT / folder) in (ROOT / default).parents for folder in BUNDLE["sync"]["paths"])
    named = set(re.findall(r"\$\{var\.(\w+)\}", (ROOT / "databricks.yml").read_text()))
    assert named == BUNDLE["variables"].keys()


@pytest.mark.spark
@pytest.mark.heavy
def test_the_tasks_of_the_nightly_job_run(serverless, tables, tmp_path, capsys, monkeypatch):
    """The arguments of the bundle, on catalog tables, in the active session."""
    text = (EXAMPLES / "nightly.yaml").read_text().replace("main.recs.", "default.hosts_")
    text = text.replace("format: delta", "format: parquet").replace("/Volumes/main/recs", str(tmp_path))
    own = tmp_path / "nightly.yaml"
    own.write_text(text.replace("min_users: 100", "min_users: 20").replace("n_buckets: 64", "n_buckets: 2"))
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: serverless)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())  # on Databricks it is the workspace
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    results = []
    for task in JOBS["nightly_serverless"]["tasks"]:
        entry = getattr(cli, task["python_wheel_task"]["entry_point"])
        entry(words_of(task, **{"${var.config}": str(own)}))  # it exits if it fails
        last = capsys.readouterr().out.splitlines()[-1]
        results.append(json.loads(last.removeprefix("RECMETRICS_RESULT ")))
    evaluated, held = results
    assert evaluated["run_id"] == held["run_id"]
    # The only relevant item first, so 1; third for three of four users and second for the fourth: (3/2 + 1/log2(3)) / 4.
    assert evaluated["models"]["als"]["ndcg@10"] == pytest.approx(1)
    assert evaluated["models"]["popularity"]["mrr@10"] == pytest.approx((3 / 3 + 1 / 2) / 4)
    assert evaluated["gates"] == held["gates"]
    assert evaluated["report"] == str(tmp_path / "reports" / f"{AS_OF}.html")
    assert "als is best with" in Path(evaluated["report"]).read_text()
    assert set(evaluated["tracking"]["mlflow"]) == {"als", "popularity"}
    assert [gate["result"] for gate in held["gates"]] == ["pass"] * 3
    assert read_history(serverless, Output(table_prefix="default.hosts_nightly_")).count() > 0


# What serverless compute rejects ---------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_doctor_warns_that_serverless_caches_nothing(serverless):
    checks = {check.name: check for check in examine(lambda: serverless, Output(table_prefix="default.hosts_doctor_"))}
    assert checks["cache"].level == "warn"
    assert checks["cache"].finding == "this session cannot cache tables"
    assert {check.level for name, check in checks.items() if name != "cache"} == {"ok"}


@pytest.mark.spark
def test_other_errors_are_not_ignored_as_those_of_serverless(spark, tables, monkeypatch):
    def fail(*_):
        raise PySparkException("the metastore is gone")

    monkeypatch.setattr(type(spark.catalog), "refreshTable", fail)
    with pytest.raises(PublishError, match="the metastore is gone"):
        published_table(spark, Output(table_prefix="default.hosts_"), "truth")


@pytest.mark.spark
@pytest.mark.parametrize(("variable", "stopped"), [("DATABRICKS_RUNTIME_VERSION", 0), ("ANOTHER_VERSION", 1)])
def test_the_session_of_databricks_is_left_running(spark, monkeypatch, variable, stopped):
    """The next task of the job uses the session. In a wheel task it may not be the active one."""
    stops = []
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: SimpleNamespace(stop=lambda: stops.append(1)))
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    monkeypatch.setenv(variable, "17.3")
    with job_session.session():
        pass
    assert len(stops) == stopped


# The notebook -----------------------------------------------------------------------------------------------------------------


class LeftError(Exception):
    """The notebook exited with this result."""


class Dbutils:
    """The part of dbutils that the notebook uses."""

    def __init__(self, **given):
        self.given, self.defaults = given, {}
        self.widgets = SimpleNamespace(text=self._text, get=lambda name: self.given.get(name, self.defaults[name]))
        self.notebook = SimpleNamespace(exit=self._exit)

    def _text(self, name, default, label):
        assert label
        self.defaults[name] = default

    def _exit(self, value):
        raise LeftError(value)


def cells():
    text = (EXAMPLES / "decision.py").read_text()
    head, _, rest = text.partition("\n")
    assert head == "# Databricks notebook source"
    return [cell.strip("\n") for cell in rest.split("\n# COMMAND ----------\n")]


def test_a_cell_is_python_or_magic():
    for cell in cells():
        lines = [line for line in cell.splitlines() if line]
        magic = [line.startswith("# MAGIC") for line in lines]
        assert lines
        assert all(magic) or not any(magic)
        assert not magic[0] or re.match(r"# MAGIC %(md|pip)\b", lines[0])


def run_cell(cell, name, namespace):
    """Run a cell like a notebook: the value of the last line is displayed, as HTML if possible."""
    tree = ast.parse(cell, name)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    value = eval(compile(ast.Expression(last.value), name, "eval"), namespace) if last is not None else None
    return value._repr_html_() if hasattr(value, "_repr_html_") else None


@pytest.mark.spark
@pytest.mark.heavy
def test_the_notebook_goes_from_tables_to_a_decision(serverless, tables, tmp_path, capsys):
    shown = []
    page = tmp_path / "decision.html"
    dbutils = Dbutils(**tables, as_of=AS_OF, n_buckets="2", report=str(page))
    namespace = {"spark": serverless, "dbutils": dbutils, "display": lambda frame: shown.append(frame.collect())}
    python = [cell for cell in cells() if not cell.startswith("# MAGIC")]
    in_html = [run_cell(cell, f"cell {number}", namespace) for number, cell in enumerate(python[:-1])]
    with pytest.raises(LeftError) as left:
        exec(compile(python[-1], "the last cell", "exec"), namespace)
    decision = json.loads(str(left.value))
    assert decision["decision"] == "go live"
    assert decision["candidate"] == "als"
    assert decision["better_in"] == ["ndcg@5", "ndcg@10", "mrr@5", "mrr@10"]
    assert len(shown) == 3
    assert all(shown)
    # The ten smallest gains: six users had their item at rank 2, 1/log2(3), the others at rank 3, 1/log2(4).
    assert [row["difference"] for row in shown[2]] == pytest.approx([1 - 1 / log2(3)] * 6 + [1 - 1 / 2] * 4)
    printed = capsys.readouterr().out
    assert "PASS  als: ndcg@10: min 0.1: 1.0000 is within bounds" in printed
    assert str(page) in printed
    (shown_by_itself,) = filter(None, in_html)
    for text in (shown_by_itself, page.read_text()):
        assert "als is best with" in text
