"""The evaluation job: its published tables, its inputs, and the exit code of each kind of failure."""

from __future__ import annotations

import json
import math
import re

import pytest
from job_data import LISTS, TRUTH, result_of

from spark_recmetrics import Output, read_history
from spark_recmetrics.job.cli import RESULT_MARK, main


@pytest.mark.spark
@pytest.mark.core
def test_evaluate_publishes_its_tables_and_prints_their_locations(job, spark, tmp_path, capsys):
    code = main(["evaluate", "--config", job(), "--result-json", str(tmp_path / "result.json")])
    out, outcome = result_of(capsys)
    assert code == 0
    assert outcome == json.loads((tmp_path / "result.json").read_text())
    assert (outcome["status"], outcome["exit_code"], outcome["as_of"], outcome["job"]) == ("ok", 0, "2026-11-28", "nightly")
    assert outcome["n_users"] == {"als": 2, "pop": 2}
    assert outcome["models"]["als"]["hit@1"] == 0.5
    assert outcome["models"]["als"]["mae"] == pytest.approx((4.2 + 3.3) / 2)
    ndcg = 0.5 / math.log2(3)
    assert outcome["models"]["pop"] == pytest.approx({"hit@1": 0.0, "hit@2": 0.5, "ndcg@1": 0.0, "ndcg@2": ndcg, "mae": 4.0})
    assert "hit" in out
    out = str(tmp_path / "out")
    assert outcome["tables"] == {name: f"{out}/{name}" for name in ("data_report", "per_user", "summary")}
    summary = read_history(spark, out)
    assert summary.count() == 10
    assert {(row["run_id"], str(row["as_of"])) for row in summary.collect()} == {(outcome["run_id"], "2026-11-28")}
    per_user = read_history(spark, out, table="per_user")
    assert {(row["model"], row["user"]) for row in per_user.collect()} == {
        (m, f"u{n}") for m in ("als", "pop") for n in (1, 2, 3)
    }
    assert "label" in next(field for field in per_user.schema.fields if field.name == "hit_at_1").metadata
    report = read_history(spark, out, table="data_report")
    assert report.where("check = 'rows' and table = 'truth'").first()["n_rows"] == 3, "the session is still running"


@pytest.mark.spark
def test_rejected_data_exit_with_4_and_a_data_report(job, spark, capsys):
    predictions = [*LISTS, LISTS[0], ("als", "u9", "a", math.inf)]
    config = job(predictions, [*TRUTH, ("u9", "a", 3.0)], evaluation={"metrics": ["hit", "rmse"]})
    code = main(["evaluate", "--config", config])
    captured = capsys.readouterr()
    outcome = json.loads(captured.out.strip().splitlines()[-1].removeprefix(RESULT_MARK))
    assert (code, outcome["exit_code"], outcome["status"]) == (4, 4, "failed")
    duplicates = "duplicates: 1 repeated recommendation of the same model, user and item, for example users u1"
    assert f"error: predictions/als: {duplicates}" in captured.err
    assert "error: predictions: infinite_scores: 1 row (" in captured.err
    assert list(outcome["tables"]) == ["data_report"]
    report = spark.read.parquet(outcome["tables"]["data_report"])
    assert {row["check"] for row in report.where("level = 'error'").collect()} == {"duplicates", "infinite_scores"}


@pytest.mark.spark
@pytest.mark.heavy
def test_a_repeated_run_replaces_its_own_rows_and_no_others(job, spark, tmp_path, capsys):
    conf = job()
    runs = []
    for day in ("2026-11-27", "2026-11-28", "2026-11-28"):
        assert main(["evaluate", "--config", conf, "--as-of", day]) == 0
        runs.append(result_of(capsys)[1])
    assert runs[1]["run_id"] == runs[2]["run_id"] != runs[0]["run_id"]
    for table, n in (("summary", 10), ("per_user", 6)):
        for frame in (read_history(spark, tmp_path / "out", table=table), spark.read.parquet(runs[0]["tables"][table])):
            rows = frame.groupBy("run_id").count().collect()
            assert {row["run_id"]: row["count"] for row in rows} == {runs[0]["run_id"]: n, runs[1]["run_id"]: n}


@pytest.mark.spark
@pytest.mark.heavy
def test_catalog_tables(job, spark, capsys):
    for name in ("summary", "per_user", "data_report", "runs"):
        spark.sql(f"drop table if exists nightly_{name}")
    conf = job(output={"path": None, "table_prefix": "default.nightly_"})
    for _ in range(2):
        assert main(["evaluate", "--config", conf]) == 0
    outcome = result_of(capsys)[1]
    assert outcome["tables"]["summary"] == "`default`.`nightly_summary`"
    assert read_history(spark, Output(table_prefix="default.nightly_")).count() == 10
    assert main(["evaluate", "--config", conf, "--set", "evaluation.metrics=[map]"]) == 5
    outcome = result_of(capsys)[1]
    assert outcome["error"]["type"] == "PublishError"
    assert "nightly_per_user" in outcome["error"]["message"]
    assert outcome["tables"] == {}


@pytest.mark.spark
@pytest.mark.heavy
def test_inputs_in_other_formats_and_one_location_per_model(job, spark, tmp_path, capsys):
    (tmp_path / "als.csv").write_text("user_id,item_id,score\nu1,b,0.9\nu2,b,0.5\n")
    (tmp_path / "pop.json").write_text('{"user_id": "u1", "item_id": "b", "score": 3.0}\n')
    spark.createDataFrame([("u1", "b", 4.5)], "user_id string, item_id string, score double").write.orc(
        str(tmp_path / "ratings")
    )
    spark.createDataFrame(TRUTH, "user_id string, item_id string, rating double").write.mode("overwrite").saveAsTable(
        "truth_table"
    )
    models = {
        "als": {
            "predictions": {"path": str(tmp_path / "als.csv"), "format": "csv"},
            "rating_predictions": {"path": str(tmp_path / "ratings"), "format": "orc"},
        },
        "pop": {"predictions": {"path": str(tmp_path / "pop.json"), "format": "json"}},
    }
    conf = job(inputs={"predictions": None, "models": models, "truth": {"table": "truth_table"}})
    assert main(["evaluate", "--config", conf]) == 0
    outcome = result_of(capsys)[1]
    assert outcome["models"]["als"] == {"hit@1": 1.0, "hit@2": 1.0, "ndcg@1": 1.0, "ndcg@2": 1.0, "mae": 0.5}
    assert outcome["models"]["pop"] == pytest.approx({"hit@1": 0.5, "hit@2": 0.5, "ndcg@1": 0.5, "ndcg@2": 0.5, "mae": 2.0})


@pytest.mark.spark
@pytest.mark.heavy
def test_train_and_catalog(job, spark, tmp_path, capsys):
    """AUC excludes the item that u1 has in train. Without train it is a candidate, ranked above the relevant item."""
    spark.createDataFrame([("u1", "a")], "user_id string, item_id string").write.parquet(str(tmp_path / "train" / "2026-11-28"))
    (tmp_path / "items.csv").write_text("item_id\na\nb\nc\nd\nd\n")
    known = {
        "train": {"path": str(tmp_path / "train" / "{as_of}")},
        "catalog": {"path": str(tmp_path / "items.csv"), "format": "csv"},
    }
    conf = job(inputs=known, evaluation={"metrics": ["auc"]})
    assert main(["evaluate", "--config", conf]) == 0
    assert result_of(capsys)[1]["models"] == {"als": {"auc": 1.0}, "pop": {"auc": pytest.approx((1 + 1 / 3) / 2)}}
    assert main(["evaluate", "--config", conf, "--set", "inputs.train=", "--set", "inputs.catalog=4"]) == 0
    values = result_of(capsys)[1]["models"]
    assert values == {"als": {"auc": pytest.approx((2 / 3 + 1) / 2)}, "pop": {"auc": pytest.approx((2 / 3 + 1 / 3) / 2)}}
    assert main(["evaluate", "--config", conf, "--as-of", "2026-11-29"]) == 4
    message = result_of(capsys)[1]["error"]["message"]
    assert f"inputs.train: cannot read files at '{tmp_path}/train/2026-11-29'" in message


@pytest.mark.spark
@pytest.mark.connect
def test_lists_in_arrays(job, spark, tmp_path, capsys):
    conf = job(evaluation={"metrics": ["mrr"]})
    frame = spark.createDataFrame([("u1", ["a", "b"]), ("u2", ["b"])], "user_id string, items array<string>")
    frame.write.parquet(str(tmp_path / "arrays"))
    assert main(["evaluate", "--config", conf, "--set", f"inputs.predictions.path={tmp_path}/arrays"]) == 0
    assert result_of(capsys)[1]["models"] == {"model": {"mrr@1": 0.5, "mrr@2": 0.75}}


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_no_cut_off_is_the_full_list(job, capsys):
    assert main(["evaluate", "--config", job(evaluation={"top_k": [], "metrics": ["mrr"]})]) == 0
    assert result_of(capsys)[1]["models"] == {"als": {"mrr": 0.75}, "pop": {"mrr": 0.25}}


def test_a_missing_catalog_is_reported_before_a_session_starts(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("spark_recmetrics.job.session_spark.session", lambda: pytest.fail("a session was started"))
    conf = tmp_path / "conf.yaml"
    conf.write_text(
        "inputs:\n  predictions: {path: a}\n  truth: {path: b}\noutput: {path: out}\nevaluation:\n  metrics: [mrr, mcc]\n"
    )
    assert main(["evaluate", "--config", str(conf)]) == 2
    message = result_of(capsys)[1]["error"]["message"]
    assert message.startswith(f"{conf}:6: evaluation.metrics[1]: mcc needs the catalog: give inputs.catalog")


@pytest.mark.spark
@pytest.mark.once
def test_no_evaluated_users_exit_with_4_after_publishing(job, spark, capsys):
    code = main(["evaluate", "--config", job(), "--set", "evaluation.threshold=10"])
    outcome = result_of(capsys)[1]
    assert (code, outcome["exit_code"], outcome["status"]) == (4, 4, "undefined")
    assert outcome["models"]["als"]["hit@1"] is None
    assert "truth: relevant: no row is relevant" in outcome["error"]["message"]
    assert spark.read.parquet(outcome["tables"]["summary"]).where("value is not null and metric <> 'mae'").count() == 0


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("empty", ["predictions", pytest.param("truth", marks=pytest.mark.heavy)])
def test_p5_an_empty_table_exits_with_4_and_writes_the_result_file(job, spark, tmp_path, capsys, empty):
    file = tmp_path / "result.json"
    assert main(["evaluate", "--config", job(**{empty: []}), "--result-json", str(file)]) == 4
    result = json.loads(file.read_text())
    assert result == result_of(capsys)[1]
    assert (result["exit_code"], result["status"], result["error"]["type"]) == (4, "undefined", "DataError")
    nobody = dict.fromkeys(["hit@1", "hit@2", "ndcg@1", "ndcg@2", "mae"])
    models = ["model"] if empty == "predictions" else ["als", "pop"]
    assert result["models"] == dict.fromkeys(models, nobody)
    assert result["n_users"] == dict.fromkeys(models, 0)
    assert f"{empty}: rows: the table is empty" in result["error"]["message"]
    summary = spark.read.parquet(result["tables"]["summary"])
    assert (summary.count(), summary.where("value is not null").count()) == (5 * len(models), 0)


@pytest.mark.by_turns
@pytest.mark.spark
@pytest.mark.parametrize("key", ["predictions", "truth"])
def test_a_missing_path_exits_with_4_and_names_key_and_path(job, capsys, key):
    code = main(["evaluate", "--config", job(), "--set", f"inputs.{key}.path=/nowhere/at/all"])
    captured = capsys.readouterr()
    assert code == 4
    assert f"error: inputs.{key}: cannot read files at '/nowhere/at/all'" in captured.err


@pytest.mark.by_turns
@pytest.mark.spark
@pytest.mark.parametrize(
    ("location", "found"),
    [
        ({"format": "orc"}, "expected orc files, found "),
        ({"path": "t.csv", "options": {"header": "maybe"}}, "cannot read "),
        ({"path": "foo://bar"}, "cannot read "),
    ],
)
def test_an_unreadable_location_exits_with_4(job, tmp_path, capsys, location, found):
    (tmp_path / "t.csv").write_text("user_id,item_id\n1,2\n")
    truth = {"path": str(tmp_path / "truth"), **location}
    truth["path"] = truth["path"].replace("t.csv", str(tmp_path / "t.csv"))
    assert main(["evaluate", "--config", job(inputs={"truth": truth})]) == 4
    assert f"inputs.truth: {found}" in result_of(capsys)[1]["error"]["message"]


@pytest.mark.spark
@pytest.mark.parametrize("end", [4000, pytest.param(None, marks=pytest.mark.heavy)])
def test_a_damaged_file_exits_with_4_and_is_named(job, tmp_path, capsys, end):
    """Spark notices a file without its end before the job, and zeros in its middle in the middle of the job."""
    conf = job(truth=[(f"u{n}", "b", float(n)) for n in range(5000)])
    file = tmp_path / "truth" / "part.parquet"
    content = file.read_bytes()
    file.write_bytes(content[:1000] if end is None else content[:500] + bytes(end - 500) + content[end:])
    assert main(["evaluate", "--config", conf]) == 4
    captured = capsys.readouterr()
    (error,) = captured.err.splitlines()
    assert re.fullmatch(
        rf"error: .*cannot read file:/+{str(file)[1:]}: it is damaged, .*: write it again, or set format", error
    )
    outcome = json.loads(captured.out.splitlines()[-1].partition(" ")[2])
    assert (outcome["exit_code"], outcome["error"]["type"]) == (4, "DataError")
    file.write_bytes(content)  # the advice
    assert main(["evaluate", "--config", conf]) == 0
    capsys.readouterr()


@pytest.mark.spark
def test_an_unwritable_output_exits_with_5(job, tmp_path, capsys, monkeypatch):
    released = []
    monkeypatch.setattr("spark_recmetrics.storage.actions.release", released.append)
    (tmp_path / "file").write_text("")
    assert main(["evaluate", "--config", job(output={"path": str(tmp_path / "file")})]) == 5
    assert "cannot write" in result_of(capsys)[1]["error"]["message"]
    assert len(released) == 1, "PER_USER must not stay in a session that goes on"
    released[0].unpersist()
