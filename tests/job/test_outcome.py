"""The result line: printed after every run, and the only line with its mark."""

from __future__ import annotations

import pytest
from job_data import result_of

from spark_recmetrics.job.cli import RESULT_MARK, main
from spark_recmetrics.job.outcome import JobOutcome


@pytest.mark.spark
@pytest.mark.once
def test_a_damaged_file_is_named(job, tmp_path, capsys):
    """A parquet file with an intact schema and broken pages, which Spark only notices when it counts rows."""
    conf = job()
    file = max((tmp_path / "truth").glob("*.parquet"), key=lambda one: one.stat().st_size)
    content = bytearray(file.read_bytes())
    content[4:60] = bytes(56)
    file.write_bytes(content)
    assert main(["evaluate", "--config", conf]) == 4
    message = result_of(capsys)[1]["error"]["message"]
    assert file.name in message
    assert "An error occurred while calling" not in message


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_only_the_result_line_begins_with_the_mark(job, spark, tmp_path, capsys):
    name = f'{RESULT_MARK} {{"status": "ok"}}'
    lists = [(model, f"u{n}", item, 0.5) for n in range(1, 4) for model, item in ((name, "b"), ("a", "c"))]
    users = spark.createDataFrame([(f"u{n}", name) for n in range(1, 4)], f"user_id string, {RESULT_MARK} string")
    users.write.parquet(str(tmp_path / "users"))
    path = job(
        lists,
        job=RESULT_MARK,
        inputs={"user_segments": {"path": str(tmp_path / "users")}},
        evaluation={"slices": [RESULT_MARK], "min_users": 1},
        comparison={"correction": "none"},
    )
    assert main(["evaluate", "--config", path, "--explain-user", "u1"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith(RESULT_MARK)] == [out.splitlines()[-1]]
    for line in (f" {RESULT_MARK}, as of 2026-11-28", f" {name}  a ", f" {RESULT_MARK} = {name}", f" {RESULT_MARK}: 0 of "):
        assert f"\n{line}" in f"\n{out}", line
    assert main(["compare", "--config", path]) == 0
    assert capsys.readouterr().out.count(f"\n{RESULT_MARK}") == 1
    assert main(["history", "--config", path, "--metric", "hit@1"]) == 0
    assert RESULT_MARK not in [line[: len(RESULT_MARK)] for line in capsys.readouterr().out.splitlines()]


def test_an_unwritable_result_file_is_reported_first(tmp_path, capsys):
    code = main(["evaluate", "--config", "no.yaml", "--result-json", str(tmp_path / "no" / "result.json")])
    assert code == 2
    assert "--result-json" in result_of(capsys)[1]["error"]["message"]


def test_an_unexpected_error_exits_with_1_and_is_reported(monkeypatch, capsys):
    def fail(*_):
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr("spark_recmetrics.job.cli._load", fail)
    assert main(["evaluate", "--config", "x.yaml"]) == 1
    assert result_of(capsys)[1]["error"] == {"type": "RuntimeError", "message": "the disk is on fire"}


def test_an_interrupt_exits_with_130(monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("spark_recmetrics.job.cli._load", interrupt)
    assert main(["evaluate", "--config", "x.yaml"]) == 130
    assert result_of(capsys)[1]["exit_code"] == 130


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("evaluate", ["models", "n_users", "gates", "pareto", "preflight", "tracking", "report"]),
        ("preflight", ["preflight"]),
        ("gate", ["gates"]),
        ("compare", ["comparison"]),
        ("split", ["reports"]),
    ],
)
def test_the_fields_of_the_result_line_are_in_order(command, fields):
    outcome = JobOutcome(command)
    names = ["status", "exit_code", "run_id", "as_of", "tables", *fields, "warnings", "error", "version"]
    assert list(outcome.as_dict()) == names, "no job and no hash without a configuration"
    assert (outcome.status, outcome.exit_code) == ("failed", 1)
    outcome.job, outcome.config_hash = "nightly", "0" * 16
    assert list(outcome.as_dict()) == [*names, "job", "config_hash"]
