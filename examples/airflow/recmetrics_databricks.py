"""Evaluate every night on Databricks with wheel tasks on serverless compute, then check the gates."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.providers.databricks.hooks.databricks import DatabricksHook
from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator
from airflow.sdk import DAG, Param
from recmetrics_result import last_result, push_result, report_failure


class RecmetricsRun(DatabricksSubmitRunOperator):
    """Run a wheel task of spark-recmetrics and push its result, the last line of its log, to XCom."""

    def execute(self, context: Any) -> None:
        """Submit the run and wait, and push the result of a successful or failed task."""
        self.params = {}  # already rendered; the provider would add them to the command line of the wheel task
        try:
            super().execute(context)
        finally:
            if self.run_id is not None:
                hook = DatabricksHook(self.databricks_conn_id)
                (task,) = hook.get_run(self.run_id)["tasks"]
                push_result(context, last_result(hook.get_run_output(task["run_id"]).get("logs") or ""))


def wheel_task(name: str, wheel: dict[str, Any]) -> dict[str, Any]:
    """The request of the operator: one run with one task."""
    packages = ["jinja2>=3.1", "matplotlib>=3.8", "mlflow-skinny>=2.14"]  # for the report and MLflow
    spec = {"environment_version": "4", "dependencies": ["{{ params.wheel }}", *packages]}
    return {
        "run_name": f"recmetrics-{name}-{{{{ ds }}}}",
        "tasks": [
            {
                "task_key": name,
                "environment_key": "recmetrics",
                "disable_auto_optimization": True,  # otherwise serverless compute retries failed tasks; here Airflow does
                "python_wheel_task": {"package_name": "spark_recmetrics", "entry_point": name, **wheel},
            }
        ],
        "environments": [{"environment_key": "recmetrics", "spec": spec}],
    }


with DAG(
    "recmetrics_databricks",
    schedule="30 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    params={
        "wheel": Param("/Volumes/main/recs/packages/spark_recmetrics-0.1.0-py3-none-any.whl", type="string"),
        "config": Param("/Volumes/main/recs/conf/nightly.yaml", type="string", description="configuration file"),
    },
    default_args={"on_failure_callback": report_failure},
    doc_md=__doc__,
):
    # In the configuration, {as_of} is this day: where: {day: "{as_of}"} reads its rows of a catalog table, also in a backfill.
    config, as_of = "{{ params.config }}", "{{ ds }}"

    evaluate = RecmetricsRun(
        task_id="evaluate",
        json=wheel_task("evaluate", {"parameters": ["--config", config, "--as-of", as_of, "--no-gates"]}),
        retries=2,  # a repeated run replaces its own rows
        retry_delay=timedelta(minutes=10),
    )
    gate = RecmetricsRun(
        task_id="gate",
        json=wheel_task("gate", {"named_parameters": {"config": config, "as-of": as_of}}),
        retries=0,  # a gate must not be retried until it passes
    )
    evaluate >> gate
