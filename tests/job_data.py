"""Small tables and configurations for the tests of jobs, and what a job printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_recmetrics.reports.formatting import RESULT_MARK

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"

SMALLEST = """\
inputs:
  predictions: {path: /p}
  truth: {path: /t}
output: {path: /out}
"""
"""A configuration with everything that has no default."""

DEFAULT_METRICS = ["precision", "recall", "ndcg", "map", "mrr", "hit"]

ALS = [("als", "u1", "a", 0.9), ("als", "u1", "b", 0.8), ("als", "u2", "b", 0.7)]
LISTS = [*ALS, ("pop", "u1", "a", 5.0), ("pop", "u1", "b", 1.0), ("pop", "u2", "a", 5.0)]
TRUTH = [("u1", "b", 5.0), ("u2", "b", 4.0), ("u3", "c", 1.0)]

VALUE = "hunter2-öß"
"""A password that no message may hold, in none of the forms that it is written in."""

WITH_SECRETS = """\
inputs:
  predictions: {path: /p, options: {fs.s3a.secret.key: {secret: env:RECMETRICS_TEST_A}}}
  truth: {path: /t, options: {fs.s3a.secret.key: {secret: env:RECMETRICS_TEST_B}, sep: env:x}}
output: {path: /out}
"""

Write = Callable[..., Path]
Refused = Callable[..., list[str]]


def result_of(capsys):
    """Everything that was printed, and the JSON of the last line."""
    out = capsys.readouterr().out
    last = out.strip().splitlines()[-1]
    assert last.startswith(f"{RESULT_MARK} ")
    return out, json.loads(last.removeprefix(f"{RESULT_MARK} "))


def outcome_of(out: str) -> dict[str, Any]:
    (line,) = [line for line in out.splitlines() if line.startswith(RESULT_MARK)]
    assert out.splitlines()[-1] == line
    found: dict[str, Any] = json.loads(line.removeprefix(f"{RESULT_MARK} "))
    return found


def untold(text: str) -> bool:
    """Whether a text holds nothing of the password."""
    return "hunter2" not in text.lower()
