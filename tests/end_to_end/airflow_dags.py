"""The DAGs of examples/airflow on the real Airflow, and databricks.yml by Databricks' own classes: `make test-airflow`.

Not a part of the suite: Airflow needs an environment of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import closing, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from sqlite3 import connect
from threading import Thread

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DAGS = ROOT / "examples" / "airflow"
HOME = Path(tempfile.mkdtemp(prefix="airflow-"))
AS_OF = "2026-11-28"

# Airflow reads these when it is imported.
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
        {"conn_type": "spark", "host": "local[2]", "extra": {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}}
    ),
    # spark-submit starts the first python3 on the path, and Airflow the first spark-submit.
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}
sys.path.insert(0, str(DAGS))

import recmetrics_databricks  # noqa: E402
import recmetrics_pyspark  # noqa: E402
import recmetrics_result  # noqa: E402
import recmetrics_submit  # noqa: E402
from airflow.sdk.exceptions import AirflowFailException  # noqa: E402

from spark_recmetrics.job import cli  # noqa: E402

DAG_OF = {
    "recmetrics_submit": recmetrics_submit.evaluate.dag,
    "recmetrics_pyspark": recmetrics_pyspark.recmetrics_pyspark(),
    "recmetrics_databricks": recmetrics_databricks.evaluate.dag,
}


def airflow(*words, check=True):
    """The output of an Airflow command."""
    done = subprocess.run(
        ["airflow", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=900
    )
    assert not check or done.returncode == 0, done.stdout[-5000:]
    return done.stdout


@pytest.fixture(scope="session", autouse=True)
def database():
    airflow("db", "migrate")
    airflow("dags", "reserialize")  # parse the DAGs like the DAG processor


def rows(query, *values):
    with closing(connect(HOME / "airflow.db")) as database:
        return database.execute(query, values).fetchall()


def run(dag_id, least, folder, **params):
    """Run a DAG with a gate on the MRR of als. Returns the results in XCom, the states of the tasks, and the log."""
    day = folder / AS_OF
    day.mkdir()
    places = [(user, place) for user in range(12) for place in range(5)]
    lines = [f"u{user},i{place},{1 - place / 9},als\nu{user},i{4 - place},{1 - place / 9},pop" for user, place in places]
    (day / "predictions.csv").write_text("\n".join(["user_id,item_id,score,model", *lines]))
    (day / "truth.csv").write_text("\n".join(["user_id,item_id", *(f"u{user},i{user % 2}" for user in range(12))]))
    configuration = folder / "nightly.yaml"
    configuration.write_text(
        "job: nightly\n"
        "inputs:\n"
        f'  predictions: {{path: "{folder}/{{as_of}}/predictions.csv", format: csv}}\n'
        f'  truth: {{path: "{folder}/{{as_of}}/truth.csv", format: csv}}\n'
        "evaluation: {metrics: [mrr@5], n_buckets: 2}\n"
        f"gates: [{{metric: mrr@5, model: als, min: {least}}}]\n"
        f"output: {{path: {folder}/results}}\n"
    )
    before = {found for (found,) in rows("select run_id from dag_run")}
    log = airflow("dags", "test", dag_id, AS_OF, "--conf", json.dumps({"config": str(configuration), **params}), check=False)
    (run_id,) = {found for (found,) in rows("select run_id from dag_run")} - before
    found = rows("select task_id, value from xcom where run_id = ? and key = 'recmetrics'", run_id)
    states = rows("select task_id, state, try_number from task_instance where run_id = ?", run_id)
    results = {}
    for task, value in found:
        results[task] = json.loads(value)
        if isinstance(results[task], str):  # in some versions
            results[task] = json.loads(results[task])
    return results, {task: (state, tries) for task, state, tries in states}, log


# Each of 12 users has one relevant item, which als ranks first for every second user and second for the others: (1 + 1/2) / 2.
MRR = 3 / 4


def test_every_dag_is_parsed():
    assert json.loads(airflow("dags", "list-import-errors", "-o", "json").splitlines()[-1]) == []
    listed = json.loads(airflow("dags", "list", "-o", "json").splitlines()[-1])
    assert {dag["dag_id"] for dag in listed} == DAG_OF.keys()


@pytest.mark.parametrize("dag", DAG_OF.values(), ids=DAG_OF)
def test_evaluations_are_retried_and_gates_are_not(dag):
    evaluate, gate = dag.get_task("evaluate"), dag.get_task("gate")
    assert evaluate.retries > 0 == gate.retries
    assert gate.upstream_task_ids == {"evaluate"}
    assert [task.on_failure_callback for task in (evaluate, gate)] == [[recmetrics_result.report_failure]] * 2
    assert dag.max_active_runs == 1
    assert not dag.catchup


@pytest.mark.parametrize("module", [recmetrics_submit, recmetrics_databricks], ids=lambda module: module.__name__)
def test_the_arguments_are_valid(module):
    for task in (module.evaluate, module.gate):
        if module is recmetrics_submit:
            words, command = task.application_args, Path(task.application).stem
            assert (ROOT / "jobs" / f"{command}.py").is_file()
        else:
            wheel = task.json["tasks"][0]["python_wheel_task"]
            words, command = words_of(wheel), wheel["entry_point"]
        arguments = cli._parser().parse_args([command, *words])
        assert (arguments.config, arguments.as_of) == ("{{ params.config }}", "{{ ds }}")
        assert command == task.task_id
        assert command == "gate" or arguments.no_gates


def words_of(wheel):
    return [*wheel.get("parameters", ()), *(f"--{name}={value}" for name, value in wheel.get("named_parameters", {}).items())]


@pytest.mark.parametrize(("code", "again"), [(0, True), (1, True), (2, False), (3, False), (4, True), (5, True)])
def test_permanent_failures_are_not_retried(code, again):
    kept = []

    class Task:
        def xcom_push(self, key, value):
            kept.append((key, value))

    result = {"exit_code": code, "error": {"message": "why"}}
    with nullcontext() if again else pytest.raises(AirflowFailException, match=r": why$"):
        recmetrics_result.push_result({"ti": Task()}, result)
    assert kept == [("recmetrics", result)]


def test_the_result_is_the_last_line_with_the_mark():
    text = 'RECMETRICS_RESULT {"exit_code": 4}\nmore\nRECMETRICS_RESULT {"exit_code": 0}\n INFO stopped'
    assert recmetrics_result.last_result(text) == {"exit_code": 0}
    assert recmetrics_result.last_result("killed") is None


def test_a_run_with_spark_submit(tmp_path):
    results, states, log = run("recmetrics_submit", 0.7, tmp_path, home=str(ROOT))
    assert states == {"evaluate": ("success", 1), "gate": ("success", 1)}, log[-5000:]
    assert results["evaluate"]["as_of"] == AS_OF
    assert results["evaluate"]["models"]["als"]["mrr@5"] == pytest.approx(MRR)
    assert results["evaluate"]["gates"] == results["gate"]["gates"]
    assert results["evaluate"]["run_id"] == results["gate"]["run_id"]
    assert [(gate["result"], gate["value"]) for gate in results["gate"]["gates"]] == [("pass", pytest.approx(MRR))]
    assert (tmp_path / "results" / "summary").is_dir()


def test_a_gate_fails_once_and_reports_the_reason(tmp_path):
    results, states, log = run("recmetrics_pyspark", 0.8, tmp_path)
    assert states == {"evaluate": ("success", 1), "gate": ("failed", 1)}, log[-5000:]
    assert results["gate"]["exit_code"] == 3
    assert [gate["result"] for gate in results["gate"]["gates"]] == ["fail"]
    assert f"recmetrics_pyspark.gate as of {AS_OF} failed: " in log
    assert "mrr@5: min 0.8, als: 0.7500 is below min 0.8" in log


class Databricks(BaseHTTPRequestHandler):
    """A fake of the Databricks jobs API, which needs an account. It runs the entry point of a wheel task."""

    runs: list[dict] = []

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (task,) = asked["tasks"]
        wheel = task["python_wheel_task"]
        name = wheel["entry_point"]
        code = f"from importlib.metadata import entry_points; entry_points(group='databricks')[{name!r}].load()()"
        words = [sys.executable, "-c", code, *words_of(wheel)]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.runs.append({"asked": asked, "logs": done.stdout, "state": "SUCCESS" if done.returncode == 0 else "FAILED"})
        self.answer({"run_id": len(self.runs)})

    def do_GET(self):
        number = int(self.path.partition("run_id=")[2].partition("&")[0] or self.body().get("run_id"))
        place = (number - 1) % 100
        if "get-output" in self.path:
            self.answer({"logs": self.runs[place]["logs"], "error": "a task failed"})
            return
        state = {"life_cycle_state": "TERMINATED", "result_state": self.runs[place]["state"], "state_message": ""}
        tasks = [{"run_id": number + 100, "task_key": "one", "state": state}]
        self.answer({"run_id": number, "job_id": 7, "run_page_url": "http://host/run", "state": state, "tasks": tasks})

    def body(self):
        length = int(self.headers.get("Content-Length") or 0)
        return json.loads(self.rfile.read(length)) if length else {}

    def answer(self, value):
        text = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def test_a_run_on_databricks(tmp_path, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Databricks)
    Thread(target=server.serve_forever, daemon=True).start()
    place = {"conn_type": "databricks", "host": "127.0.0.1", "port": server.server_port, "schema": "http", "password": "none"}
    monkeypatch.setenv("AIRFLOW_CONN_DATABRICKS_DEFAULT", json.dumps(place))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master local[2] --conf spark.sql.shuffle.partitions=2 pyspark-shell")
    try:
        results, states, log = run("recmetrics_databricks", 0.8, tmp_path, wheel="/Volumes/a/b/c.whl")
    finally:
        server.shutdown()
    assert states == {"evaluate": ("success", 1), "gate": ("failed", 1)}, log[-5000:]
    assert results["evaluate"]["models"]["als"]["mrr@5"] == pytest.approx(MRR)
    assert [gate["result"] for gate in results["gate"]["gates"]] == ["fail"]
    assert "mrr@5: min 0.8, als: 0.7500 is below min 0.8" in log
    bundle = yaml.safe_load((ROOT / "databricks.yml").read_text())["resources"]["jobs"]["nightly_serverless"]
    needed = ["/Volumes/a/b/c.whl", *bundle["environments"][0]["spec"]["dependencies"][1:]]
    assert [one["asked"]["environments"][0]["spec"]["dependencies"] for one in Databricks.runs] == [needed] * 2
    names = [one["asked"]["run_name"] for one in Databricks.runs]
    assert names == [f"recmetrics-evaluate-{AS_OF}", f"recmetrics-gate-{AS_OF}"]


def test_the_bundle_has_the_fields_of_databricks():
    from databricks.bundles.jobs import Job

    for job in yaml.safe_load((ROOT / "databricks.yml").read_text())["resources"]["jobs"].values():
        assert [task.python_wheel_task.package_name for task in Job.from_dict(job).tasks] == ["spark_recmetrics"] * 2
        job["tasks"][0]["max_retry"] = 1
        with pytest.raises(ValueError, match="max_retry"):
            Job.from_dict(job)
