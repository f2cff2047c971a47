"""The job `split`."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from chispa_rows import assert_rows
from split_data import RATINGS, days

import spark_recmetrics as srm
from spark_recmetrics.job.cli import RESULT_MARK, main
from spark_recmetrics.storage.table_schemas import RUN_COLUMNS, SPLIT_TABLES

SMALLEST = "input: {path: /r}\nsplit: {method: random}\noutput: {path: /out}\n"


def test_commands_recognize_the_configuration_of_a_split(write, capsys):
    path = str(write(SMALLEST))
    assert main(["validate-config", "--config", path]) == 0
    assert capsys.readouterr().out.endswith(", random\n")
    assert main(["explain-config", "--config", path]) == 0
    assert "method: random" in capsys.readouterr().out
    assert main(["config-schema", "split"]) == 0
    assert "leave_n_out" in capsys.readouterr().out
    assert main(["split", "--config", path, "--set", "split.n=0"]) == 2
    last = json.loads(capsys.readouterr().out.splitlines()[-1].removeprefix(f"{RESULT_MARK} "))
    assert (last["exit_code"], last["error"]["type"], last["reports"]) == (2, "ConfigError", [])


@pytest.mark.spark
@pytest.mark.heavy
def test_the_job_publishes_all_tables_at_once(spark, tmp_path, write, capsys):
    spark.createDataFrame(days(*itertools.product(("u1", "u2"), range(4))), RATINGS).write.parquet(str(tmp_path / "r"))
    out = str(tmp_path / "out")
    conf = {"as_of": "2026-11-28", "input": {"path": str(tmp_path / "r")}, "output": {"path": out}}
    path = str(write(json.dumps(conf | {"split": {"method": "leave_n_out", "n": 2}}), "c.json"))
    lines = []
    for _ in range(2):  # a repeated run replaces its rows
        assert main(["split", "--config", path, "--result-json", str(tmp_path / "result.json")]) == 0
        lines.append(capsys.readouterr().out)
    outcome = json.loads(lines[1].splitlines()[-1].removeprefix(f"{RESULT_MARK} "))
    assert outcome == json.loads((tmp_path / "result.json").read_text())
    assert outcome["tables"] == {name: f"{out}/{name}" for name in ("train", "test", "split_report")}
    assert (outcome["status"], outcome["as_of"], outcome["warnings"]) == (
        "ok",
        "2026-11-28",
        ["4 of 4 items in test have no row in train"],
    )
    assert "train: 4 rows, 2 users, 4 items, until 1\ntest: 4 rows, 2 users, 4 items, from 2\n" in lines[1]
    found = srm.read_history(spark, out, table="test")
    assert found.columns == ["user_id", "item_id", "timestamp", "rating", *RUN_COLUMNS]
    assert_rows(found.select("timestamp"), [(2,), (2,), (3,), (3,)])
    # Older attempts were deleted, so reading the path gives the same rows.
    assert spark.read.parquet(f"{out}/train/as_of=2026-11-28").count() == 4
    (report,) = srm.read_history(spark, out, table="split_report").drop(*RUN_COLUMNS).collect()
    assert report.asDict() == outcome["reports"][0]

    assert main(["split", "--config", path, "--set", 'split={"method": "k_fold", "n_folds": 2}']) == 0
    assert srm.read_history(spark, out, table="folds").where("fold is not null").count() == 8
    assert {folder.name for folder in Path(out).iterdir()} == {*SPLIT_TABLES, "runs"}
    # With a cut before all rows nothing is published, and the previous tables stay.
    assert main(["split", "--config", path, "--set", 'split={"method": "temporal", "cut": -5}']) == 4
    assert "expected rows on both sides, found 0 in train and 8 in test: nothing was published" in capsys.readouterr().err
    assert srm.read_history(spark, out, table="train").count() == 4
