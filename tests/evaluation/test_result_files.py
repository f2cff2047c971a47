"""Results as CSV and JSON, and how files are written."""

from __future__ import annotations

import csv
import json
import math

import pandas as pd
import pytest
from report_data import in_two_ways, small_comparison, small_gates, small_history, small_result, with_slices

from spark_recmetrics.errors import ConfigError, PublishError


def test_a_page_is_replaced_completely_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(PublishError, match=r"report\.html: cannot be written: No space left on device: give the path"):
        small_result(k=2).to_html(path)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("write", ["to_html", "to_csv", "to_json"])
def test_paths_that_cannot_be_written(write, tmp_path):
    result = small_result(metrics=["mrr"], k=2)
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "below", f"{tmp_path}/a\0b"):
        with pytest.raises(PublishError, match="cannot be written"):
            getattr(result, write)(path)
    with pytest.raises(ConfigError, match="path: expected the path of a file, found None"):
        getattr(result, write)(None)


@pytest.mark.parametrize("write", ["as_html", "to_markdown"])
def test_decisions_of_another_type(write):
    report = getattr(small_result(k=2), write)
    for comparison in ([{"a": 1}], small_result(k=2), "als"):
        with pytest.raises(ConfigError, match=r"comparison: expected the result of srm\.compare, found"):
            report(comparison=comparison)
    for gates in (5, ["mrr@2"], [{"gate": "mrr@2"}], small_gates(small_result(k=2))[0]):
        with pytest.raises(ConfigError, match="gates: expected a list of results of check_gates, found"):
            report(gates=gates)


def test_a_history_is_a_table_of_runs():
    result = small_result()
    history = small_history(result)
    page = result.as_html(history=history)
    assert "over 3 runs" in page
    assert result.as_html(history=pd.DataFrame(history)) == page
    for wrong, found in ((5, "5"), ("mrr", "'mrr'"), ([{"as_of": "1"}], "one without metric")):
        with pytest.raises(ConfigError, match=f"history: expected rows of read_history, found {found}"):
            result.as_html(history=wrong)


def test_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "other").write_text("")
    path = small_result(metrics=["mrr"], k=2).to_csv(tmp_path / "summary.csv")
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_csv(tmp_path):
    result = small_result()
    with result.to_csv(tmp_path / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["metric"] for row in rows] == [row["metric"] for row in result.rows]
    assert list(rows[0]) == list(result.rows[0])
    assert [float(row["value"]) for row in rows] == [row["value"] for row in result.rows]
    assert rows[0]["as_of"] == ""


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t'=1"),
        ("\r=1", "'\r'=1"),
        ("\n=1", "'\n'=1"),
        ("a;=1+1", "a;'=1+1"),
        ('a"\n@x', "a\"\n'@x"),
        ("a=1+1", "a=1+1"),
        ("a, -b; c", "a, -b; c"),
        ("'=1+1", "'=1+1"),
    ],
)
def test_f3_no_name_is_a_formula_in_csv(name, cell, tmp_path):
    result = with_slices(small_result(name), [(name, name, 40)])
    # A negative number stays a number.
    result.__dict__["rows"] = [{**row, "ci_low": -0.25} for row in result.rows]
    with result.to_csv(tmp_path / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["model"] for row in rows} == {cell, "popularity"}
    assert {(row["slice"], row["slice_value"]) for row in rows} == {("all", "all"), (cell, cell)}
    assert {row["ci_low"] for row in rows} == {"-0.25"}


def test_f3_a_null_character_does_not_hide_a_formula(tmp_path):
    text = small_result("\0=1+1", metrics=["mrr"], k=2).to_csv(tmp_path / "summary.csv").read_text()
    assert text.splitlines()[1].startswith(",,'\0=1+1,all,all,mrr@2,")


def test_json(tmp_path):
    result = small_result()
    result.__dict__["rows"] = [{**result.rows[0], "value": math.inf}, *result.rows[1:]]
    document = json.loads(result.to_json(tmp_path / "result.json").read_text())
    assert list(document) == ["status", "warnings", "summary", "data_report", "pareto", "comparison", "gates"]
    assert document["pareto"] == document["comparison"] == document["gates"] == []
    assert document["status"] == "ok"
    assert document["summary"][0]["value"] is None
    assert [row["value"] for row in document["summary"][1:]] == [row["value"] for row in result.rows[1:]]
    assert document["summary"][0]["computed_at"] == result.rows[0]["computed_at"].isoformat()
    assert [row["check"] for row in document["data_report"]] == [check.check for check in result.data_checks]
    path = tmp_path / "all.json"
    more = {"comparison": small_comparison(ci_low=-math.inf), "gates": small_gates(result)}
    whole = json.loads(result.to_json(path, **more).read_text())
    assert [row["ci_low"] for row in whole["comparison"]] == [None, -0.25, 0.25]
    assert [(row["model"], row["result"]) for row in whole["gates"]] == [("als", "pass"), ("popularity", "fail")]
    pareto = json.loads(in_two_ways({"als": "x", "pop": "y"}).to_json(path).read_text())["pareto"]
    assert [(row["k"], row["model"], row["dominated_by"]) for row in pareto][:2] == [(1, "als", []), (1, "pop", ["als"])]


def test_the_users_of_a_result_are_those_of_its_headline_metric():
    # popularity has ratings for three of the four users; both models have lists for all.
    result = small_result(metrics=["rmse", "item_coverage", "hit"], k=2)
    assert result.n_users == {"als": 4, "popularity": 4}
    assert small_result(metrics=["item_coverage", "rmse"], k=2).n_users == {"als": 4, "popularity": 3}
