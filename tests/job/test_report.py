"""The HTML report of a run: written before a gate fails the run, and never the reason for a failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from job_data import result_of

from spark_recmetrics import read_history
from spark_recmetrics.job.cli import main


@pytest.mark.spark
@pytest.mark.heavy
def test_the_report_is_written_before_a_failed_gate_ends_the_run(job, tmp_path, capsys):
    gates = [{"metric": "hit@1", "min": 1.0}]
    config = job(gates=gates, comparison={}, report=str(tmp_path / "reports" / "{as_of}.html"))
    for night in ("2026-11-27", "2026-11-28"):
        assert main(["evaluate", "--config", config, "--as-of", night]) == 3
    out, result = result_of(capsys)
    assert result["report"] == str(tmp_path / "reports" / "2026-11-28.html")
    assert f"report       {result['report']}" in out
    text = Path(result["report"]).read_text()
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == ["2026-11-27.html", "2026-11-28.html"]
    n_gates = len(result["gates"])
    assert f"Gates failed: {n_gates} of {n_gates}" in text
    assert "hit@1 over 2 runs, 2026-11-27 to 2026-11-28." in text
    for section in ("gates", "values", "differences", "history", "data", "definitions", "run"):
        assert f'<section aria-labelledby="{section}">' in text
    assert result["run_id"] in text
    assert "job: nightly" in text  # the configuration


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_report_that_cannot_be_written_is_a_warning(job, spark, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["evaluate", "--config", job(report=str(tmp_path / "file" / "report.html"))]) == 0
    out, result = result_of(capsys)
    assert result["report"] is None
    (warning,) = [line for line in result["warnings"] if line.startswith("report: not written: ")]
    assert "cannot be written: File exists" in warning
    assert f"warning: {warning}" in out
    assert read_history(spark, tmp_path / "out").count() > 0


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_report_without_its_packages_is_a_warning(job, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["evaluate", "--config", job(report=str(tmp_path / "report.html"))]) == 0
    _, result = result_of(capsys)
    assert "report: not written: plots need matplotlib, found none: install the extra report" in "\n".join(result["warnings"])
