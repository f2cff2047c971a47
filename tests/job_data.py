"""Small tables and configurations for the tests of jobs, and the output of a job."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_recmetrics.job.files.config import Config
from spark_recmetrics.job.files.source import Source
from spark_recmetrics.reports.formatting import RESULT_MARK

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"

SMALLEST = """\
inputs:
  predictions: {path: /p}
  truth: {path: /t}
output: {path: /out}
"""
"""A configuration with only the required keys."""

DEFAULT_METRICS = ["precision", "recall", "ndcg", "map", "mrr", "hit"]

ALS = [("als", "u1", "a", 0.9), ("als", "u1", "b", 0.8), ("als", "u2", "b", 0.7)]
LISTS = [*ALS, ("pop", "u1", "a", 5.0), ("pop", "u1", "b", 1.0), ("pop", "u2", "a", 5.0)]
TRUTH = [("u1", "b", 5.0), ("u2", "b", 4.0), ("u3", "c", 1.0)]

VALUE = "hunter2-öß"
"""A password that no message may contain in any encoding."""

WITH_SECRETS = """\
inputs:
  predictions: {path: /p, options: {fs.s3a.secret.key: {secret: env:RECMETRICS_TEST_A}}}
  truth: {path: /t, options: {fs.s3a.secret.key: {secret: env:RECMETRICS_TEST_B}, sep: env:x}}
output: {path: /out}
"""

Write = Callable[..., Path]
Rejected = Callable[..., list[str]]


def load(path: str | os.PathLike[str], overrides: Sequence[str] = (), as_of: str | None = None) -> Config:
    """The configuration of an evaluation in a file."""
    return Config.read(Source(path, overrides, as_of))


def write_parquet(folder, rows, **columns):
    """Write rows as a parquet folder without a Spark job. Columns are `name="string"` or `name="double"`."""
    folder.mkdir(exist_ok=True)
    table = pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], pa.schema(list(columns.items())))
    pq.write_table(table, folder / "part.parquet")


def result_of(capsys):
    """The output on stdout, and the JSON of its last line."""
    out = capsys.readouterr().out
    last = out.strip().splitlines()[-1]
    assert last.startswith(f"{RESULT_MARK} ")
    return out, json.loads(last.removeprefix(f"{RESULT_MARK} "))


def outcome_of(out: str) -> dict[str, Any]:
    """The JSON of the only result line, which is the last line."""
    (line,) = [line for line in out.splitlines() if line.startswith(RESULT_MARK)]
    assert out.splitlines()[-1] == line
    outcome: dict[str, Any] = json.loads(line.removeprefix(f"{RESULT_MARK} "))
    return outcome


def hides_password(text: str) -> bool:
    """Whether the text does not contain the password."""
    return "hunter2" not in text.lower()
