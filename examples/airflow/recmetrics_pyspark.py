"""Evaluate every night in the process of the task, with the session of @task.pyspark, then check the gates."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task
from recmetrics_result import last_result, push_result, report_failure


def run(*words: str) -> None:
    """Run a spark-recmetrics command in the active session, and push its result to XCom."""
    from spark_recmetrics.job.cli import main

    with TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        code = main([*words, "--result-json", str(file)])
        push_result(get_current_context(), last_result(f"RECMETRICS_RESULT {file.read_text()}"))
    if code:
        raise RuntimeError(f"{words[0]} ended with exit code {code}")


@task.pyspark(conn_id="spark_default", retries=2, retry_delay=timedelta(minutes=10))
def evaluate(config: str, as_of: str, spark: Any) -> None:
    """Evaluate. A repeated run replaces its own rows."""
    run("evaluate", "--config", config, "--as-of", as_of, "--no-gates")


@task.pyspark(conn_id="spark_default", retries=0)
def gate(config: str, as_of: str, spark: Any) -> None:
    """Check the gates, without retries."""
    run("gate", "--config", config, "--as-of", as_of)


@dag(
    schedule="30 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    params={"config": Param("/opt/spark_recmetrics/conf/evaluate.yaml", type="string", description="configuration file")},
    default_args={"on_failure_callback": report_failure},
    doc_md=__doc__,
)
def recmetrics_pyspark() -> None:
    """Evaluate, then check the gates."""
    # In the configuration, {as_of} is this day: where: {day: "{as_of}"} reads its rows of a catalog table, also in a backfill.
    words = {"config": "{{ params.config }}", "as_of": "{{ ds }}"}
    evaluate(**words) >> gate(**words)


recmetrics_pyspark()
