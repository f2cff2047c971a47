"""Evaluate every night in the process of the task, with the session of @task.pyspark, then hold the gates."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task
from recmetrics_result import keep, last_result, tell


def run(*words: str) -> None:
    """Run a command of spark-recmetrics in the session that is there, and keep its result in XCom."""
    from spark_recmetrics.job.cli import main

    with TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        code = main([*words, "--result-json", str(file)])
        keep(get_current_context(), last_result(f"RECMETRICS_RESULT {file.read_text()}"))
    if code:
        raise RuntimeError(f"{words[0]} ended with exit code {code}")


@task.pyspark(conn_id="spark_default", retries=2, retry_delay=timedelta(minutes=10))
def evaluate(config: str, as_of: str, spark: Any) -> None:
    """A run that is repeated replaces its own rows."""
    run("evaluate", "--config", config, "--as-of", as_of, "--no-gates")


@task.pyspark(conn_id="spark_default", retries=0)
def gate(config: str, as_of: str, spark: Any) -> None:
    """A verdict is not repeated until it passes."""
    run("gate", "--config", config, "--as-of", as_of)


@dag(
    schedule="30 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    params={"config": Param("/opt/spark_recmetrics/conf/evaluate.yaml", type="string", description="the configuration")},
    default_args={"on_failure_callback": tell},
    doc_md=__doc__,
)
def recmetrics_pyspark() -> None:
    """Two tasks, one after the other."""
    words = {"config": "{{ params.config }}", "as_of": "{{ ds }}"}
    evaluate(**words) >> gate(**words)


recmetrics_pyspark()
