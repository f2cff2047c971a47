"""Evaluate every night with spark-submit, then check the gates."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Param
from recmetrics_result import last_result, push_result, report_failure


class RecmetricsSubmit(SparkSubmitOperator):
    """Submit a spark-recmetrics job and push its result to XCom. In deploy mode client, the result file is local."""

    def execute(self, context: Any) -> None:
        """Submit the job, and push the result of a successful or failed job."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "result.json"
            self.application_args = [*self.application_args, "--result-json", str(file)]
            try:
                super().execute(context)
            finally:
                text = file.read_text() if file.exists() else ""
                push_result(context, last_result(f"RECMETRICS_RESULT {text}") if text else None)


with DAG(
    "recmetrics_submit",
    schedule="30 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,  # gates need the previous runs, so runs are sequential
    params={
        "home": Param("/opt/spark_recmetrics", type="string", description="checkout with jobs/ and conf/"),
        "config": Param("/opt/spark_recmetrics/conf/evaluate.yaml", type="string", description="configuration file"),
    },
    default_args={"on_failure_callback": report_failure},
    doc_md=__doc__,
):
    # In the configuration, {as_of} is this day: where: {day: "{as_of}"} reads its rows of a catalog table, also in a backfill.
    words = ["--config", "{{ params.config }}", "--as-of", "{{ ds }}"]

    evaluate = RecmetricsSubmit(
        task_id="evaluate",
        conn_id="spark_default",
        application="{{ params.home }}/jobs/evaluate.py",
        application_args=[*words, "--no-gates"],
        properties_file="{{ params.home }}/conf/spark-defaults.conf",
        name="recmetrics-evaluate-{{ ds }}",
        retries=2,  # a repeated run replaces its own rows
        retry_delay=timedelta(minutes=10),
    )
    gate = RecmetricsSubmit(
        task_id="gate",
        conn_id="spark_default",
        application="{{ params.home }}/jobs/gate.py",
        application_args=words,
        properties_file="{{ params.home }}/conf/spark-defaults.conf",
        name="recmetrics-gate-{{ ds }}",
        retries=0,  # a gate must not be retried until it passes
    )
    evaluate >> gate
