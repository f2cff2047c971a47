"""The command line: exit codes through `main`, and the job through a real spark-submit."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_recmetrics import Output, __version__, read_history
from spark_recmetrics.job.cli import RESULT_MARK, main, run
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import read_table

ROOT = Path(__file__).resolve().parents[2]
ALS = [("als", "u1", "a", 0.9), ("als", "u1", "b", 0.8), ("als", "u2", "b", 0.7)]
LISTS = [*ALS, ("pop", "u1", "a", 5.0), ("pop", "u1", "b", 1.0), ("pop", "u2", "a", 5.0)]
TRUTH = [("u1", "b", 5.0), ("u2", "b", 4.0), ("u3", "c", 1.0)]


def result_of(capsys):
    """Everything that was printed, and the JSON of the last line."""
    out = capsys.readouterr().out
    last = out.strip().splitlines()[-1]
    assert last.startswith(f"{RESULT_MARK} ")
    return out, json.loads(last.removeprefix(f"{RESULT_MARK} "))


@pytest.fixture
def job(spark, tmp_path):
    """A configuration with its tables, in a folder of its own."""

    def write(predictions=LISTS, truth=TRUTH, **options):
        frame = spark.createDataFrame(predictions, "model string, user_id string, item_id string, score double")
        frame.write.mode("overwrite").parquet(str(tmp_path / "predictions"))
        frame = spark.createDataFrame(truth, "user_id string, item_id string, rating double")
        frame.write.mode("overwrite").parquet(str(tmp_path / "truth"))
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


@pytest.mark.spark
@pytest.mark.core
def test_evaluate_writes_its_tables_and_says_where(job, spark, tmp_path, capsys):
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
    assert report.where("check = 'rows' and table = 'truth'").first()["n_rows"] == 3


@pytest.mark.spark
@pytest.mark.heavy
def test_the_report_is_written_before_a_failed_gate_ends_the_run(job, tmp_path, capsys):
    gates = [{"metric": "hit@1", "min": 2.0}]
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
    assert "hit@1 over 2 nights, 2026-11-27 to 2026-11-28." in text
    for section in ("gates", "values", "differences", "history", "data", "definitions", "run"):
        assert f'<section aria-labelledby="{section}">' in text
    assert result["run_id"] in text
    assert "job: nightly" in text  # the configuration


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_report_that_fails_is_a_warning_and_loses_nothing(job, spark, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["evaluate", "--config", job(report=str(tmp_path / "file" / "report.html"))]) == 0
    out, result = result_of(capsys)
    assert result["report"] is None
    (told,) = [line for line in result["warnings"] if line.startswith("report: not written: ")]
    assert "cannot be written: File exists" in told
    assert f"warning: {told}" in out
    assert read_history(spark, tmp_path / "out").count() > 0


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_report_without_its_packages_is_a_warning(job, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["evaluate", "--config", job(report=str(tmp_path / "report.html"))]) == 0
    _, result = result_of(capsys)
    assert "report: not written: plots need matplotlib, found none: install the extra report" in "\n".join(result["warnings"])


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
    """In AUC the seen item of u1 is no candidate; with it, one of three others stands above the relevant one."""
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
    found = result_of(capsys)[1]["models"]
    assert found == {"als": {"auc": pytest.approx((2 / 3 + 1) / 2)}, "pop": {"auc": pytest.approx((2 / 3 + 1 / 3) / 2)}}
    assert main(["evaluate", "--config", conf, "--as-of", "2026-11-29"]) == 4
    message = result_of(capsys)[1]["error"]["message"]
    assert f"inputs.train: cannot read parquet at '{tmp_path}/train/2026-11-29'" in message


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
def test_no_cut_off_is_the_whole_list(job, capsys):
    assert main(["evaluate", "--config", job(evaluation={"top_k": [], "metrics": ["mrr"]})]) == 0
    assert result_of(capsys)[1]["models"] == {"als": {"mrr": 0.75}, "pop": {"mrr": 0.25}}


def test_a_missing_catalog_is_found_before_a_session_starts(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("spark_recmetrics.job.evaluate.session", lambda: pytest.fail("a session was started"))
    conf = tmp_path / "conf.yaml"
    conf.write_text(
        "inputs:\n  predictions: {path: a}\n  truth: {path: b}\noutput: {path: out}\nevaluation:\n  metrics: [mrr, mcc]\n"
    )
    assert main(["evaluate", "--config", str(conf)]) == 2
    message = result_of(capsys)[1]["error"]["message"]
    assert message.startswith(f"{conf}:6: evaluation.metrics[1]: mcc needs the catalogue: give inputs.catalog")


@pytest.mark.spark
def test_refused_data_end_with_4_and_a_report(job, spark, capsys):
    code = main(["evaluate", "--config", job(predictions=[*LISTS, LISTS[0]])])
    captured = capsys.readouterr()
    outcome = json.loads(captured.out.strip().splitlines()[-1].removeprefix(RESULT_MARK))
    assert (code, outcome["exit_code"], outcome["status"]) == (4, 4, "failed")
    assert "error: predictions/als: duplicates = 1, e.g. users u1" in captured.err
    assert list(outcome["tables"]) == ["data_report"]
    report = spark.read.parquet(outcome["tables"]["data_report"])
    assert report.where("check = 'duplicates' and level = 'error'").count() == 1


@pytest.mark.spark
@pytest.mark.connect
def test_an_infinite_score_ends_with_4_and_a_report(job, spark, capsys):
    conf = job(predictions=[*LISTS, ("als", "u9", "a", math.inf)], truth=[*TRUTH, ("u9", "a", 3.0)])
    assert main(["evaluate", "--config", conf, "--set", "evaluation.metrics=[rmse]"]) == 4
    captured = capsys.readouterr()
    outcome = json.loads(captured.out.strip().splitlines()[-1].removeprefix(RESULT_MARK))
    assert "error: predictions: infinite_scores = 1 (" in captured.err
    report = spark.read.parquet(outcome["tables"]["data_report"])
    assert report.where("check = 'infinite_scores' and level = 'error'").count() == 1


@pytest.mark.spark
@pytest.mark.once
def test_nobody_to_average_ends_with_4_after_everything_is_written(job, spark, capsys):
    code = main(["evaluate", "--config", job(), "--set", "evaluation.threshold=10"])
    outcome = result_of(capsys)[1]
    assert (code, outcome["exit_code"], outcome["status"]) == (4, 4, "undefined")
    assert outcome["models"]["als"]["hit@1"] is None
    assert "truth: relevant = 0 (0.000%)" in outcome["error"]["message"]
    assert spark.read.parquet(outcome["tables"]["summary"]).where("value is not null and metric <> 'mae'").count() == 0


@pytest.mark.spark
@pytest.mark.connect
@pytest.mark.parametrize("empty", ["predictions", pytest.param("truth", marks=pytest.mark.heavy)])
def test_p5_an_empty_table_ends_with_4_and_the_result_file_is_written(job, spark, tmp_path, capsys, empty):
    file = tmp_path / "result.json"
    assert main(["evaluate", "--config", job(**{empty: []}), "--result-json", str(file)]) == 4
    told = json.loads(file.read_text())
    assert told == result_of(capsys)[1]
    assert (told["exit_code"], told["status"], told["error"]["type"]) == (4, "undefined", "DataError")
    nobody = dict.fromkeys(["hit@1", "hit@2", "ndcg@1", "ndcg@2", "mae"])
    models = ["model"] if empty == "predictions" else ["als", "pop"]
    assert told["models"] == dict.fromkeys(models, nobody)
    assert told["n_users"] == dict.fromkeys(models, 0)
    assert f"{empty}: rows = 0" in told["error"]["message"]
    summary = spark.read.parquet(told["tables"]["summary"])
    assert (summary.count(), summary.where("value is not null").count()) == (5 * len(models), 0)


@pytest.mark.by_turns
@pytest.mark.spark
@pytest.mark.parametrize("key", ["predictions", "truth"])
def test_a_missing_path_ends_with_4_and_names_key_and_path(job, capsys, key):
    code = main(["evaluate", "--config", job(), "--set", f"inputs.{key}.path=/nowhere/at/all"])
    captured = capsys.readouterr()
    assert code == 4
    assert f"error: inputs.{key}: cannot read parquet at '/nowhere/at/all'" in captured.err


@pytest.mark.by_turns
@pytest.mark.spark
@pytest.mark.parametrize(
    "location", [{"format": "orc"}, {"format": "csv", "options": {"header": "maybe"}}, {"path": "foo://bar"}]
)
def test_a_location_that_cannot_be_read_ends_with_4(job, tmp_path, capsys, location):
    truth = {"path": str(tmp_path / "truth"), **location}
    assert main(["evaluate", "--config", job(inputs={"truth": truth})]) == 4
    assert "inputs.truth: cannot read" in result_of(capsys)[1]["error"]["message"]


@pytest.mark.spark
def test_options_beside_a_table_of_the_catalog_are_its_readers(spark):
    """Delta and Iceberg read an older version by them. Here `nullValue` of CSV shows whether they arrive."""
    rows = spark.createDataFrame([("NA",), ("v",)], "user_id string")
    rows.write.format("csv").mode("overwrite").saveAsTable("with_options")
    try:
        place = Location(table="with_options", options={"nullValue": "NA"})
        assert sorted(map(str, read_table(spark, place, "inputs.truth", Vault()).toPandas()["user_id"])) == ["None", "v"]
    finally:
        spark.sql("DROP TABLE with_options")


@pytest.mark.spark
@pytest.mark.once
def test_an_error_that_nobody_expected_says_what_the_jvm_said(job, tmp_path, capsys):
    """A file of parquet whose pages are broken and whose schema is not: that is found where rows are counted."""
    conf = job()
    file = max((tmp_path / "truth").glob("*.parquet"), key=lambda one: one.stat().st_size)
    content = bytearray(file.read_bytes())
    content[4:60] = bytes(56)
    file.write_bytes(content)
    file.with_name(f".{file.name}.crc").unlink()
    assert main(["evaluate", "--config", conf]) == 1
    message = result_of(capsys)[1]["error"]["message"]
    assert file.name in message
    assert "An error occurred while calling" not in message


@pytest.mark.spark
def test_an_output_that_cannot_be_written_ends_with_5(job, tmp_path, capsys, monkeypatch):
    released = []
    monkeypatch.setattr("spark_recmetrics.storage.actions.release", released.append)
    (tmp_path / "file").write_text("")
    assert main(["evaluate", "--config", job(output={"path": str(tmp_path / "file")})]) == 5
    assert "cannot write" in result_of(capsys)[1]["error"]["message"]
    assert len(released) == 1, "PER_USER must not stay in a session that goes on"
    released[0].unpersist()


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_one_line_begins_with_the_mark_whatever_is_named_like_it(job, spark, tmp_path, capsys):
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
    for line in (f" {RESULT_MARK}, as of 2026-11-28", f" {name}  a ", f" {RESULT_MARK} = {name}", f" {RESULT_MARK}: a diff"):
        assert f"\n{line}" in f"\n{out}", line
    assert main(["compare", "--config", path]) == 0
    assert capsys.readouterr().out.count(f"\n{RESULT_MARK}") == 1
    assert main(["history", "--config", path, "--metric", "hit@1"]) == 0
    assert RESULT_MARK not in [line[: len(RESULT_MARK)] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.spark
@pytest.mark.connect
def test_a_hostile_model_name_stays_in_its_line(job, capsys):
    name = f'x\n{RESULT_MARK} {{"status": "ok"}}\x1b[31m\u6a21'
    lists = [(name, *row[1:]) for row in ALS]
    assert main(["evaluate", "--config", job(predictions=lists)]) == 0
    out, outcome = result_of(capsys)
    assert out.count(f"\n{RESULT_MARK}") == 1
    assert "\x1b" not in out
    assert list(outcome["models"]) == [name]


@pytest.mark.spark
def test_a_borrowed_session_is_left_running(job, spark):
    assert main(["evaluate", "--config", job()]) == 0
    assert spark.range(1).count() == 1


WRONG = """\
inputs:
  predictions: {path: a}
  truth: {path: b}
evaluation:
  treshold: 4
  k: 0
  metrics: [ndgc]
output: {path: out}
"""


def test_a_wrong_configuration_is_one_message_within_3_seconds_without_a_session(tmp_path):
    conf = tmp_path / "wrong.yaml"
    conf.write_text(WRONG)
    start = time.monotonic()
    command = [str(Path(sys.executable).parent / "spark-recmetrics"), "evaluate", "--config", str(conf)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "JAVA_HOME": "/nowhere"})
    seconds = time.monotonic() - start
    assert done.returncode == 2
    assert seconds < 3, "no session may be started to find this"
    for part in (
        f"{conf}:5: evaluation.treshold: unknown key; did you mean 'threshold'?",
        f"{conf}:6: evaluation.k: expected a whole number from 1, found 0",
        f"{conf}:7: evaluation.metrics[0]: 'ndgc': unknown metric 'ndgc'; did you mean 'ndcg'?",
    ):
        assert part in done.stderr
    outcome = json.loads(done.stdout.strip().splitlines()[-1].removeprefix(RESULT_MARK))
    assert (outcome["exit_code"], outcome["error"]["type"]) == (2, "ConfigError")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nope"],
        ["evaluate"],
        ["evaluate", "--config"],
        ["evaluate", "--config", "no.yaml"],
        ["validate-config", "--config", "."],
    ],
)
def test_wrong_usage_ends_with_2(arguments, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err


def test_a_result_file_that_cannot_be_written_is_found_first(tmp_path, capsys):
    code = main(["evaluate", "--config", "no.yaml", "--result-json", str(tmp_path / "no" / "result.json")])
    assert code == 2
    assert "--result-json" in result_of(capsys)[1]["error"]["message"]


def test_an_unexpected_error_ends_with_1_and_is_told(monkeypatch, capsys):
    def fail(*_):
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr("spark_recmetrics.job.cli._load", fail)
    assert main(["evaluate", "--config", "x.yaml"]) == 1
    assert result_of(capsys)[1]["error"] == {"type": "RuntimeError", "message": "the disk is on fire"}


def test_an_interrupt_ends_with_130(monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("spark_recmetrics.job.cli._load", interrupt)
    assert main(["evaluate", "--config", "x.yaml"]) == 130
    assert result_of(capsys)[1]["exit_code"] == 130


def test_commands_without_spark(capsys):
    for arguments, expected in (
        (["validate-config", "--config", str(ROOT / "conf" / "evaluate.yaml")], "valid"),
        (["explain-config", "--config", str(ROOT / "conf" / "demo.yaml"), "--as-of", "2026-11-28"], "config_hash"),
        (["config-schema"], '"properties"'),
        (["metrics"], "ndcg"),
        (["--version"], __version__),
    ):
        assert main(arguments) == 0
        assert expected in capsys.readouterr().out


def test_the_table_of_metrics_is_aligned(capsys):
    assert main(["metrics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len({line.index("options: ") for line in lines[::2]}) == 1
    assert len({line.index("also: ") for line in lines[::2]}) == 1
    assert len({len(line) - len(line.lstrip()) for line in lines[1::2]}) == 1


def test_one_metric_is_one_metric(tmp_path, capsys):
    conf = tmp_path / "c.yaml"
    conf.write_text("inputs: {predictions: {path: a}, truth: {path: b}}\noutput: {path: c}\nevaluation: {metrics: [mrr]}\n")
    assert main(["validate-config", "--config", str(conf)]) == 0
    assert capsys.readouterr().out.endswith(", 1 metric\n")


def test_success_returns_and_failure_exits(capsys):
    assert run(["metrics"]) is None
    with pytest.raises(SystemExit) as leaving:
        run(["nope"])
    assert leaving.value.code == 2
    source = (ROOT / "spark_recmetrics" / "job" / "cli.py").read_text() + (ROOT / "jobs" / "evaluate.py").read_text()
    assert "sys.exit(0)" not in source.replace("`sys.exit(0)`", "")
    capsys.readouterr()


@pytest.mark.heavy
def test_the_job_through_spark_submit(tmp_path, session_kind):
    """As a nightly run, from another working directory."""
    if session_kind == "connect":
        pytest.skip("spark-submit starts its own classic session; once is enough")
    (tmp_path / "predictions.csv").write_text("user_id,item_id,score\n1,10,0.9\n1,11,0.8\n2,11,0.7\n")
    (tmp_path / "truth.csv").write_text("user_id,item_id,rating\n1,11,5\n2,11,4\n")
    conf = tmp_path / "conf.yaml"
    conf.write_text(
        "inputs:\n"
        f"  predictions: {{path: {tmp_path}/predictions.csv, format: csv}}\n"
        f"  truth: {{path: {tmp_path}/truth.csv, format: csv}}\n"
        "evaluation: {top_k: [1, 2], metrics: [mrr, rmse]}\n"
        f"output: {{path: {tmp_path}/out}}\n"
    )
    submit = Path(sys.executable).parent / "spark-submit"
    settings = ROOT / "conf" / "spark-defaults.conf"
    command = [str(submit), "--properties-file", str(settings), str(ROOT / "jobs" / "evaluate.py"), "--config", str(conf)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = json.loads(done.stdout.strip().splitlines()[-1].removeprefix(RESULT_MARK))
    assert outcome["models"]["model"]["mrr@2"] == 0.75
    assert (tmp_path / "out" / "summary").is_dir()
    assert "INFO spark_recmetrics.storage.progress: scoring: 5 rows, 2 users, " in done.stdout + done.stderr
    wrong = subprocess.run(
        [*command[:-1], str(tmp_path / "no.yaml")], capture_output=True, text=True, check=False, env=environment
    )
    assert wrong.returncode == 2


def test_check_java(tmp_path):
    """The Makefile's first step, with a java that is too old, one that will do, and none."""
    script = ROOT / "scripts" / "check-java"
    path = f"{tmp_path}:/usr/bin:/bin"
    shell = shutil.which("sh") or "/bin/sh"
    java = tmp_path / "java"
    for version, expected in (
        ('openjdk version "1.8.0_392"', 1),
        ('openjdk version "11.0.2"', 1),
        ('openjdk version "17.0.15"', 0),
    ):
        java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
        java.chmod(0o755)
        done = subprocess.run([shell, str(script)], capture_output=True, text=True, check=False, env={"PATH": path})
        assert done.returncode == expected, (version, done.stderr)
        if expected:
            for system in ("apt-get install", "brew install", "conda install"):
                assert system in done.stdout + done.stderr
