"""The result line: printed after every run, the only line with its mark. Files that a job replaces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from job_data import SMALLEST, Write, result_of

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.cli import RESULT_MARK, main
from spark_recmetrics.job.outcome import JobOutcome, check_replaceable


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

    monkeypatch.setattr("spark_recmetrics.job.cli._source", fail)
    assert main(["evaluate", "--config", "x.yaml"]) == 1
    assert result_of(capsys)[1]["error"] == {"type": "RuntimeError", "message": "the disk is on fire"}


def test_an_interrupt_exits_with_130(monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("spark_recmetrics.job.cli._source", interrupt)
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


NO_REPORT = "report of spark-recmetrics, which would be replaced, found another file: give another path"


def wrong_run(write: Write, result: Path, content: str = "job: x\n") -> int:
    """A run of a wrong configuration, which writes its result, too."""
    return main(["evaluate", "--config", str(write(content)), "--result-json", str(result)])


def test_a_result_file_replaces_results_and_empty_files_only(write: Write, tmp_path: Path, capsys: Any) -> None:
    result = tmp_path / "result.json"
    result.touch()
    for _ in range(2):
        assert wrong_run(write, result) == 2
        assert json.loads(result.read_text()) == result_of(capsys)[1]
    for other in ("[1]", '{"status": "ok", "rows": 5}', "user_id,item_id\n"):
        result.write_text(other)
        assert wrong_run(write, result) == 2
        assert result.read_text() == other
        message = result_of(capsys)[1]["error"]["message"]
        assert message.startswith(f"--result-json {result}: expected no file, or a result of spark-recmetrics, which would be")


def test_a_full_disk_is_named_and_the_result_line_is_printed(write: Write, capsys: Any) -> None:
    assert wrong_run(write, Path("/dev/full")) == 2
    output = capsys.readouterr()
    assert "error: --result-json /dev/full: cannot be written: No space left on device\n" in output.err
    assert "RECMETRICS_RESULT" in output.out


def test_a_result_file_never_replaces_the_configuration_or_an_input(write: Write, tmp_path: Path, capsys: Any) -> None:
    config = write("job: x\n")
    assert main(["evaluate", "--config", str(config), "--result-json", str(config)]) == 2
    assert config.read_text() == "job: x\n"
    (tmp_path / "t").mkdir()
    assert wrong_run(write, tmp_path / "t" / "r.json", SMALLEST.replace("path: /t", f"path: {tmp_path}/t")) == 2
    assert list((tmp_path / "t").iterdir()) == []
    assert "expected a file outside the inputs, found one in inputs.truth, " in result_of(capsys)[1]["error"]["message"]


@pytest.mark.parametrize(("content", "own"), [("", True), ("<!doctype html><title>mine</title>", False), ("a,b\n", False)])
def test_a_report_replaces_reports_and_empty_files_only(
    write: Write, tmp_path: Path, capsys: Any, content: str, own: bool
) -> None:
    page = tmp_path / "r.html"
    page.write_text(content)
    if own:
        check_replaceable(page, "report", "report")
        return
    assert main(["evaluate", "--config", str(write(f"{SMALLEST}report: {page}\n"))]) == 2
    assert result_of(capsys)[1]["error"]["message"] == f"report {page}: expected no file, or a {NO_REPORT}"
    assert page.read_text() == content


def test_a_report_of_this_package_is_recognized(tmp_path: Path, small_page: Callable[[], str]) -> None:
    (tmp_path / "r.html").write_text(small_page())
    check_replaceable(tmp_path / "r.html", "report", "report")
    with pytest.raises(ConfigError, match=r"^--result-json .*r\.html: expected no file, or a result of spark-recmetrics"):
        check_replaceable(tmp_path / "r.html", "--result-json", "result")


@pytest.fixture
def small_page() -> Callable[[], str]:
    pytest.importorskip("matplotlib")
    from report_data import small_result

    return lambda: small_result().as_html()
