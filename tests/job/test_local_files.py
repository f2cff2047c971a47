"""The result file and the report replace only files that this package wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from job_data import SMALLEST, Write, result_of

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.cli import main
from spark_recmetrics.job.local_files import check_replaceable

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
