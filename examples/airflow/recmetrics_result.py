"""The result of a spark-recmetrics command: pushed to XCom, and logged if a task failed. All DAGs in this folder use it."""

from __future__ import annotations

import json
import logging
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

KEY = "recmetrics"
"""XCom key of the result."""

FINAL = {2: "the configuration is wrong", 3: "a gate failed"}
"""Exit codes that a retry does not change."""


def last_result(text: str) -> dict[str, Any] | None:
    """The JSON object of the last RECMETRICS_RESULT line, or None if there is none."""
    mark = "RECMETRICS_RESULT "
    lines = [line for line in text.splitlines() if line.startswith(mark)]
    return json.loads(lines[-1].removeprefix(mark)) if lines else None


def push_result(context: Any, result: dict[str, Any] | None) -> None:
    """Push the result of a successful or failed run to XCom. Fail without retries if a retry cannot succeed."""
    if result is None:
        return
    context["ti"].xcom_push(key=KEY, value=result)
    if result["exit_code"] in FINAL:
        raise AirflowFailException(f"{FINAL[result['exit_code']]}: {result['error']['message']}")


def report_failure(context: Any) -> None:
    """Callback of a failed task: log what failed and why. Change this function to send a message or an email."""
    task = context["ti"]
    result = task.xcom_pull(task_ids=task.task_id, key=KEY) or {}
    reason = (result.get("error") or {}).get("message") or context.get("exception")
    failed = [gate for gate in result.get("gates", []) if gate["result"] == "fail"]
    gates = [f"{gate['gate']}, {gate['model']}: {gate['reason']}" for gate in failed]
    text = "\n".join([f"{task.dag_id}.{task.task_id} as of {context['ds']} failed: {reason}", *gates])
    logging.getLogger(__name__).error(text)
