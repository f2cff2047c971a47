"""Row filters in jobs: a repair or backfill of a catalog table evaluates the rows of its day."""

from __future__ import annotations

import json

import pytest
from job_data import LISTS, TRUTH, result_of, write_parquet

from spark_recmetrics.job.cli import main

DAYS = ("2026-11-27", "2026-11-28")
PAIRS = [("als", "u1"), ("als", "u2"), ("pop", "u1"), ("pop", "u2")]
FILTER = {"where": {"day": "{as_of}"}}


@pytest.fixture
def by_day(spark, job, tmp_path):
    """A configuration that reads the rows of one day from two catalog tables. Only the first day has the rows of `LISTS`."""
    columns = {"user_id": "string", "item_id": "string"}
    lists = [*((*row, DAYS[0]) for row in LISTS), *((model, user, "a", 0.5, DAYS[1]) for model, user in PAIRS)]
    truth = [(*row, day) for day in DAYS for row in TRUTH]
    write_parquet(tmp_path / "lists", lists, model="string", **columns, score="double", day="string")
    write_parquet(tmp_path / "days", truth, **columns, rating="double", day="string")
    for name, folder in (("lists_by_day", "lists"), ("truth_by_day", "days")):
        spark.read.parquet(str(tmp_path / folder)).write.mode("overwrite").saveAsTable(name)
    yield job(inputs={"predictions": {"table": "lists_by_day", **FILTER}, "truth": {"table": "truth_by_day", **FILTER}})
    for name in ("lists_by_day", "truth_by_day"):
        spark.sql(f"DROP TABLE {name}")


def evaluated(capsys, config, *words):
    code = main(["evaluate", "--config", config, *words])
    return code, result_of(capsys)[1]


@pytest.mark.heavy
@pytest.mark.spark
def test_the_backfill_of_an_old_day_gives_the_numbers_of_that_day(by_day, capsys):
    code, old = evaluated(capsys, by_day, "--as-of", DAYS[0])
    assert (code, old["n_users"]) == (0, {"als": 2, "pop": 2})
    assert (old["models"]["als"]["hit@1"], old["models"]["als"]["mae"]) == (0.5, pytest.approx((4.2 + 3.3) / 2))
    code, none = evaluated(capsys, by_day, "--as-of", "2026-11-29")
    assert code == 4
    assert 'inputs.truth: only rows with {"day": "2026-11-29"} were read' in none["error"]["message"].split("\n")


@pytest.mark.spark
@pytest.mark.heavy
def test_every_command_reads_the_rows_of_the_day(by_day, capsys, tmp_path):
    assert main(["preflight", "--config", by_day, "--as-of", DAYS[0]]) == 0
    assert "about 3 of them with ground truth" in capsys.readouterr().out
    changed = ["--set", "checks.items_in_both=warn", "--set", "evaluation.metrics=[hit]"]
    code, last = evaluated(capsys, by_day, "--as-of", DAYS[1], *changed)
    assert (code, last["models"]["als"]["hit@2"], last["models"]["pop"]["hit@2"]) == (0, 0.0, 0.0)
    split = {"as_of": DAYS[0], "input": {"table": "truth_by_day", **FILTER}, "output": {"path": str(tmp_path / "split")}}
    (tmp_path / "split.json").write_text(json.dumps({**split, "split": {"method": "random", "test_share": 0.5}}))
    assert main(["split", "--config", str(tmp_path / "split.json")]) == 0
    (report,) = result_of(capsys)[1]["reports"]
    assert report["n_rows"] == len(TRUTH)
