"""Fixtures: configuration files, the errors of wrong ones, and a configuration of small tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from job_data import LISTS, SMALLEST, TRUTH, Rejected, Write, load, write_parquet

from spark_recmetrics.errors import ConfigError


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(content: str | bytes, name: str = "c.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.fixture
def rejected(write: Write) -> Rejected:
    """The lines of the error message, without the folder of the file."""

    def lines(content: str | bytes, *overrides: str, name: str = "c.yaml") -> list[str]:
        path = write(content, name)
        with pytest.raises(ConfigError) as caught:
            load(path, overrides)
        assert caught.value.exit_code == 2
        return str(caught.value).replace(f"{path.parent}{os.sep}", "").split("\n")

    return lines


@pytest.fixture
def evaluation_of(write: Write) -> Callable[..., Any]:
    def read(text: str, *overrides: str) -> Any:
        return load(write(f"{SMALLEST}evaluation: {text}\n"), overrides).evaluation

    return read


@pytest.fixture
def job(spark, tmp_path):
    """Write a configuration and its tables to a new folder."""

    def write(predictions=LISTS, truth=TRUTH, **options):
        columns = {"user_id": "string", "item_id": "string"}
        write_parquet(tmp_path / "predictions", predictions, model="string", **columns, score="double")
        write_parquet(tmp_path / "truth", truth, **columns, rating="double")
        conf = {
            "job": "nightly",
            "as_of": "2026-11-28",
            "inputs": {"predictions": {"path": str(tmp_path / "predictions")}, "truth": {"path": str(tmp_path / "truth")}},
            "evaluation": {"top_k": [1, 2], "metrics": ["hit", "ndcg", "mae"], "threshold": 4.0, "n_buckets": 2},
            "output": {"path": str(tmp_path / "out")},
        }
        for section, values in options.items():
            conf[section] = values if not isinstance(values, dict) else {**conf.get(section, {}), **values}
        path = tmp_path / "conf.json"
        path.write_text(json.dumps(conf))
        return str(path)

    return write
