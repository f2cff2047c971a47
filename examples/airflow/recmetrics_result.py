"""The result of a command of spark-recmetrics, in XCom and for people. The DAGs beside this file share it."""

from __future__ import annotations

import json
import logging
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

KEY = "recmetrics"
"""The key of the result in XCom."""

FINAL = {2: "the configuration is wrong", 3: "a gate failed"}
"""Exit codes that another try does not change."""


def last_result(text: str) -> dict[str, Any] | None:
    """The object of the last RECMETRICS_RESULT line of an output; None where there is none."""
    mark = "RECMETRICS_RESULT "
    found = [line for line in text.splitlines() if line.startswith(mark)]
    return json.loads(found[-1].removeprefix(mark)) if found else None


def keep(context: Any, result: dict[str, Any] | None) -> None:
    """Push the result to XCom, also that of a run that failed; fail without another try where that is of no use."""
    if result is None:
        return
    context["ti"].xcom_push(key=KEY, value=result)
    if result["exit_code"] in FINAL:
        raise AirflowFailException(f"{FINAL[result['exit_code']]}: {result['error']['message']}")


def tell(context: Any) -> None:
    """Callback of a failed task: say what failed and why. Send the text to a chat or by mail here."""
    task = context["ti"]
    result = task.xcom_pull(task_ids=task.task_id, key=KEY) or {}
    why = (result.get("error") or {}).get("message") or context.get("exception")
    failed = [gate for gate in result.get("gates", []) if gate["result"] == "fail"]
    gates = [f"{gate['gate']}, {gate['model']}: {gate['reason']}" for gate in failed]
    text = "\n".join([f"{task.dag_id}.{task.task_id} as of {context['ds']} failed: {why}", *gates])
    logging.getLogger(__name__).error(text)
