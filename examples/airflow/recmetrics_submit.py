"""Evaluate every night with spark-submit, then hold the gates."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Param
from recmetrics_result import keep, last_result, tell


class RecmetricsSubmit(SparkSubmitOperator):
    """A job of spark-recmetrics, with its result in XCom. The driver runs here (deploy mode client), and so is its file."""

    def execute(self, context: Any) -> None:
        """Submit, and keep the result whether or not the job failed."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "result.json"
            self.application_args = [*self.application_args, "--result-json", str(file)]
            try:
                super().execute(context)
            finally:
                text = file.read_text() if file.exists() else ""
                keep(context, last_result(f"RECMETRICS_RESULT {text}") if text else None)


with DAG(
    "recmetrics_submit",
    schedule="30 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,  # gates look at the nights before, so these come first
    params={
        "home": Param("/opt/spark_recmetrics", type="string", description="the checkout that has jobs/ and conf/"),
        "config": Param("/opt/spark_recmetrics/conf/evaluate.yaml", type="string", description="the configuration"),
    },
    default_args={"on_failure_callback": tell},
    doc_md=__doc__,
):
    words = ["--config", "{{ params.config }}", "--as-of", "{{ ds }}"]

    evaluate = RecmetricsSubmit(
        task_id="evaluate",
        conn_id="spark_default",
        application="{{ params.home }}/jobs/evaluate.py",
        application_args=[*words, "--no-gates"],
        properties_file="{{ params.home }}/conf/spark-defaults.conf",
        name="recmetrics-evaluate-{{ ds }}",
        retries=2,  # a run that is repeated replaces its own rows
        retry_delay=timedelta(minutes=10),
    )
    gate = RecmetricsSubmit(
        task_id="gate",
        conn_id="spark_default",
        application="{{ params.home }}/jobs/gate.py",
        application_args=words,
        properties_file="{{ params.home }}/conf/spark-defaults.conf",
        name="recmetrics-gate-{{ ds }}",
        retries=0,  # a verdict is not repeated until it passes
    )
    evaluate >> gate
