"""Gates in jobs: results, exit codes, published tables and the page."""

from __future__ import annotations

import html
import json
import math
from statistics import NormalDist

import pytest
from job_data import write_parquet

import spark_recmetrics as srm
from spark_recmetrics import stats
from spark_recmetrics.decisions import gates
from spark_recmetrics.job.cli import RESULT_MARK, main


@pytest.fixture
def job(spark, tmp_path):
    """Writes the tables and a configuration with gates, and runs a command on it."""
    scores = [(user, item, score) for user in ("u", "v") for item, score in (("a", 0.9), ("b", 0.8))]
    columns = {"user_id": "string", "item_id": "string"}
    write_parquet(tmp_path / "predictions", scores, **columns, score="double")
    path = tmp_path / "conf.json"

    def run(command, capsys, *argv, as_of="2026-11-28", relevant=("a", "b"), gates=(), report=False):
        write_parquet(tmp_path / "truth", list(zip(("u", "v"), relevant, strict=True)), **columns)
        conf = {
            "as_of": as_of,
            "inputs": {name: {"path": str(tmp_path / name)} for name in ("predictions", "truth")},
            "evaluation": {"top_k": 1, "metrics": ["hit"], "n_buckets": 2},
            "gates": list(gates),
            "output": {"path": str(tmp_path / "out")},
            "report": str(tmp_path / "{as_of}.html") if report else None,
        }
        path.write_text(json.dumps(conf))
        code = main([command, "--config", str(path), *argv])
        captured = capsys.readouterr()
        outcome = json.loads(captured.out.strip().splitlines()[-1].removeprefix(RESULT_MARK))
        assert outcome["exit_code"] == code
        return code, outcome, captured

    return run


@pytest.mark.heavy
@pytest.mark.once
@pytest.mark.spark
@pytest.mark.core
def test_c10_a_failing_gate_ends_with_3_after_everything_is_written(job, spark, tmp_path, capsys):
    gates = [{"metric": "hit@1", "max_drop": 0.1, "against": "previous"}, {"metric": "hit@1", "min": 0.9, "severity": "warn"}]
    code, first, captured = job("evaluate", capsys, as_of="2026-11-27", relevant=("a", "a"), gates=gates)
    assert code == 0
    assert [gate["result"] for gate in first["gates"]] == ["pass", "pass"]
    assert "PASS  model: hit@1: max_drop 0.1 against previous: Skipped: there is no previous run" in captured.out

    result = tmp_path / "result.json"
    code, second, captured = job("evaluate", capsys, "--result-json", str(result), gates=gates)
    message = f"model 0.5000 vs. run {first['run_id']} 1.0000: 0.5000 lower, allowed 0.1; the ground truth has changed"
    assert code == 3
    assert f"error: FAIL  model: hit@1: max_drop 0.1 against previous: {message}" in captured.err
    assert second == json.loads(result.read_text())
    assert (second["status"], second["error"]["type"]) == ("ok", "GateError")
    assert [(gate["result"], gate["reference"]) for gate in second["gates"]] == [("fail", 1.0), ("warn", None)]
    assert set(second["tables"]) == {"data_report", "per_user", "summary", "gates"}
    published = srm.read_history(spark, str(tmp_path / "out"), table="gates").where("as_of = '2026-11-28'")
    # Values 1, 1 before and 0, 1 now: the standard error is sqrt(1/2) / sqrt(2) = 1/2, and 0.1 is a fifth of it.
    rate = pytest.approx(1 - NormalDist().cdf(0.2))
    columns = ("result", "drop", "false_alarm_rate")
    assert sorted(tuple(row[name] for name in columns) for row in published.collect()) == [
        ("fail", 0.5, rate),
        ("warn", None, None),
    ]
    assert [gate["false_alarm_rate"] for gate in second["gates"]] == [rate, None]
    summary = srm.read_history(spark, str(tmp_path / "out")).where("as_of = '2026-11-28'")
    assert [row["value"] for row in summary.collect()] == [0.5]

    # The command gate has the same results for the published run, and writes no table.
    again, third, _ = job("gate", capsys, gates=gates)
    assert (again, third["gates"]) == (3, second["gates"])
    assert main(["history", "--config", str(tmp_path / "conf.json"), "--metric", "HIT@1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "evaluate, hit@1",
        "",
        "as_of        model  changed",
        "2026-11-27  1.0000",
        "2026-11-28  0.5000  the ground truth",
        "",
        "model  █▁",
    ]
    # A configuration whose inputs and gates need an as_of. The command history does not use them.
    nightly = tmp_path / "nightly.yaml"
    nightly.write_text(
        "inputs: {predictions: {path: '/none/{as_of}'}, truth: {path: '/none/{as_of}'}}\n"
        "evaluation: {metrics: [hit@1]}\ngates: [{metric: hit@1, max_drop: 0.1, against: previous}]\n"
        f"output: {{path: '{tmp_path}/out'}}\n"
    )
    assert main(["history", "--config", str(nightly), "--metric", "hit@1", "--last", "1"]) == 0
    assert "2026-11-28  0.5000" in capsys.readouterr().out
    dated = [*("history", "--config", str(nightly), "--metric", "hit@1"), "--set", f"output.path={tmp_path}/{{as_of}}"]
    assert main(dated) == 2
    assert "needs an as_of: give --as-of, or as_of in the file" in capsys.readouterr().err
    # A label in another format.
    assert job("evaluate", capsys, as_of="20261129", relevant=("a", "a"), gates=gates)[0] == 3
    assert main(["history", "--config", str(tmp_path / "conf.json"), "--metric", "hit@1"]) == 0
    message = "warning: as_of: expected labels in one format, found 2026-11-27, 20261129: they are sorted as strings"
    assert capsys.readouterr().out.splitlines()[-1] == message
    for wrong, message in (
        (["--metric", "map@1"], "expected runs of job evaluate with map@1"),
        (["--metric", "hit@1", "--last", "0"], "--last"),
    ):
        assert main(["history", "--config", str(tmp_path / "conf.json"), *wrong]) in (2, 4)
        assert message in capsys.readouterr().err
    none, fourth, _ = job("gate", capsys, as_of="2026-11-29", gates=gates)
    assert none == 4
    assert "found none: run evaluate first" in fourth["error"]["message"]


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_a_gate_fails_and_is_published_without_its_model(job, spark, tmp_path, capsys):
    """The only model of the run is the reference of the gate."""
    gates = [{"metric": "hit@1", "max_drop": 0, "against": "model(model)"}]
    code, outcome, captured = job("evaluate", capsys, gates=gates)
    assert (code, outcome["gates"][0]["model"], outcome["gates"][0]["result"]) == (3, None, "fail")
    assert (
        "FAIL  no model: hit@1: max_drop 0 against model(model): the run has no model other than model to check" in captured.out
    )
    (row,) = srm.read_history(spark, str(tmp_path / "out"), table="gates").collect()
    assert (row["model"], row["result"]) == (None, "fail")
    assert job("gate", capsys, gates=gates)[0] == 3


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_run_after_a_rejected_one_is_a_first_run(job, spark, tmp_path, capsys):
    """The first run was rejected, so only its data report is published; a split has published into the same output."""
    rows = spark.createDataFrame([("u", "a"), ("u", "b")], "user_id string, item_id string")
    srm.splits.publish(srm.splits.leave_one_out(rows, by="hash"), srm.Output(path=str(tmp_path / "out")))
    gates = [{"metric": "hit@1", "max_drop": 0.1, "against": "previous"}]
    code, outcome, _ = job("evaluate", capsys, as_of="2026-11-27", relevant=("a", None), gates=gates)
    assert (code, list(outcome["tables"])) == (4, ["data_report"])
    code, outcome, _ = job("gate", capsys, gates=gates)
    assert (code, "found none: run evaluate first" in outcome["error"]["message"]) == (4, True)
    assert main(["history", "--config", str(tmp_path / "conf.json"), "--metric", "hit@1"]) == 4
    assert "expected runs of job evaluate with hit@1, found none" in capsys.readouterr().err
    code, outcome, captured = job("evaluate", capsys, gates=gates)
    assert (code, outcome["gates"][0]["result"]) == (0, "pass")
    assert "Skipped: there is no previous run (missing: pass)" in captured.out


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_of_two_tasks_only_the_second_fails(job, spark, tmp_path, capsys):
    """As in a scheduler: the first task checks, publishes and writes the page, the second ends the pipeline."""
    gates = [{"metric": "hit@1", "min": 0.9}, {"metric": "hit@1", "max_drop": 0.1, "against": "previous"}]
    assert job("evaluate", capsys, "--no-gates", as_of="2026-11-27", relevant=("a", "a"), gates=gates)[0] == 0
    code, first, captured = job("evaluate", capsys, "--no-gates", gates=gates, report=True)
    assert (code, first["exit_code"], first["status"], first["error"]) == (0, 0, "ok", None)
    assert [gate["result"] for gate in first["gates"]] == ["fail", "fail"]
    assert "FAIL  model: hit@1: min 0.9: 0.5000 is below min 0.9" in captured.out
    assert "--no-gates: failed gates are only reported; the command gate exits with code 3 for them" in captured.out
    page = (tmp_path / "2026-11-28.html").read_text()
    assert "Gates failed: 2 of 2" in page
    assert "0.5000 is below min 0.9" in page
    rows = srm.read_history(spark, str(tmp_path / "out"), table="gates").where("as_of = '2026-11-28'").collect()
    assert [row["result"] for row in rows] == ["fail", "fail"]
    code, second, captured = job("gate", capsys, gates=gates)
    assert (code, second["gates"]) == (3, first["gates"])
    assert "error: FAIL  model: hit@1: min 0.9" in captured.err
    # Other gates can be checked against the same run.
    code, outcome, _ = job("gate", capsys, "--set", "gates=[{metric: hit@1, min: 0.5}]", gates=gates)
    assert (code, outcome["run_id"], outcome["gates"][0]["gate"]) == (0, second["run_id"], "hit@1: min 0.5")
    code, outcome, _ = job("gate", capsys, "--set", "evaluation.convention=ranx", gates=gates)
    message = f"expected run {outcome['run_id']} as of 2026-11-28, found {second['run_id']} of another configuration"
    assert code == 4
    assert (
        f"{message}: run evaluate first with the same configuration; only its gates may differ" in outcome["error"]["message"]
    )


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_the_page_of_a_run_without_values_says_so(job, tmp_path, capsys, monkeypatch):
    page = tmp_path / "2026-11-28.html"
    assert job("evaluate", capsys, gates=[{"metric": "hit@1", "min": 0.1}], report=True)[0] == 0
    assert "Gates passed" in page.read_text()
    # No user of the ground truth has a relevant item.
    code, outcome, _ = job("evaluate", capsys, relevant=("a", None), report=True)
    text = page.read_text()
    assert (code, outcome["report"]) == (4, str(page))
    assert "The run was rejected" in text
    assert "Gates passed" not in text
    assert outcome["error"]["message"].splitlines()[0] in html.unescape(text)
    assert '<span class="chip error">error</span>' in text
    # A run that fails before it reads anything.
    (tmp_path / "predictions").rename(tmp_path / "gone")
    code, outcome, _ = job("evaluate", capsys, report=True)
    assert code == 4
    assert "The run was rejected" in page.read_text()
    assert outcome["error"]["message"].splitlines()[0] in html.unescape(page.read_text())
    monkeypatch.setattr("spark_recmetrics.job.preflight.read_table", lambda *_: 1 / 0)
    code, outcome, _ = job("evaluate", capsys, report=True)
    assert (code, outcome["error"]["type"]) == (1, "ZeroDivisionError")
    assert "The run failed" in page.read_text()
    assert "division by zero" in page.read_text()


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_only_a_significant_drop_fails(spark, tmp_path, capsys):
    """Of 40 users, a has a hit for all, b for 39 and c for 20."""
    lists = [("a", user, "x") for user in range(40)]
    lists += [("b", user, "x" if user else "y") for user in range(40)]
    lists += [("c", user, "x" if user % 2 else "y") for user in range(40)]
    frame = spark.createDataFrame([(*row, 1.0) for row in lists], "model string, user_id int, item_id string, score double")
    frame.write.parquet(str(tmp_path / "predictions"))
    truth = spark.createDataFrame([(user, "x") for user in range(40)], "user_id int, item_id string")
    truth.write.parquet(str(tmp_path / "truth"))
    conf = {
        "inputs": {name: {"path": str(tmp_path / name)} for name in ("predictions", "truth")},
        "evaluation": {"top_k": 1, "metrics": ["hit"], "n_buckets": 2},
        "comparison": {"baseline": "a"},
        "gates": [
            {"metric": "hit@1", "max_drop": 0, "against": "model(a)", "significant": True},
            {"metric": "hit@1", "max_drop": 0, "against": "model(a)", "model": "b", "severity": "warn"},
        ],
        "output": {"path": str(tmp_path / "out")},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    for command in ("evaluate", "gate"):
        assert main([command, "--config", str(path)]) == 3
        out = capsys.readouterr().out
        message = "hit@1: max_drop 0 against model(a), significant"
        assert f"PASS  b: {message}: b 0.9750 vs. a 1.0000: 2.5 % lower, allowed 0 %; " in out
        shown = stats.smallest_difference(math.sqrt((1 - 1 / 40) / 39), 40)
        assert f"not significant (p = 0.323, 40 users, minimum detectable effect {shown:.3g}); false alarm rate" in out
        assert f"FAIL  c: {message}: c 0.5000 vs. a 1.0000: 50 % lower, allowed 0 %; significant (p = " in out
        assert [line[:7] for line in out.splitlines() if line.endswith("; false alarm rate: 2.5 % of runs")] == [
            "PASS  b",
            "FAIL  c",
        ]
        message = "hit@1: max_drop 0 against model(a): b 0.9750 vs. a 1.0000: 2.5 % lower, allowed 0 %"
        assert f"WARN  b: {message}; false alarm rate: 50 % of runs" in out
    result = srm.read_history(spark, str(tmp_path / "out"), table="comparison").collect()
    assert {row["model_b"]: row["winner"] for row in result} == {"b": None, "c": "a"}, "written although a gate fails"


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_gate_over_all_runs_reads_them_from_the_history(spark, tmp_path, capsys, monkeypatch):
    """Three runs with different ground truth: b misses one, two and three of the ten users."""
    monkeypatch.setattr(gates, "FEWEST_RUNS", 3)
    conf = {
        "as_of": "0",
        "inputs": {"predictions": {"path": f"{tmp_path}/{{as_of}}"}, "truth": {"path": f"{tmp_path}/truth-{{as_of}}"}},
        "evaluation": {"top_k": 1, "metrics": ["hit"], "n_buckets": 2},
        "gates": [{"metric": "hit@1", "max_drop": 0, "against": "model(a)", "significant": "all_runs"}],
        "output": {"path": str(tmp_path / "out")},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    message = []
    for label, n_missed in (("1", 1), ("2", 2), ("3", 3)):
        lists = [(m, u, "y" if m == "b" and u < n_missed else f"x{label}", 1.0) for m in "ab" for u in range(10)]
        frame = spark.createDataFrame(lists, "model string, user_id int, item_id string, score double")
        frame.write.parquet(str(tmp_path / label))
        truth = spark.createDataFrame([(user, f"x{label}") for user in range(10)], "user_id int, item_id string")
        truth.write.parquet(str(tmp_path / f"truth-{label}"))
        assert main(["evaluate", "--config", str(path), "--as-of", label]) == 0
        message.append(capsys.readouterr().out)
    assert "b 0.9000 vs. a 1.0000: 10 % lower; 1 run, 3 required (missing: pass)" in message[0]
    # Mean 0.2 and standard deviation 0.1 of the drops 0.1, 0.2 and 0.3.
    (look,) = stats.confidence_sequence([(3, 0.2, 0.01)], n_target=90)
    mean = f"over 3 runs the mean drop is 0.2, 95 % confidence interval [{look.ci_low:.3g}, {look.ci_high:.3g}], allowed 0"
    assert f"b 0.7000 vs. a 1.0000: 30 % lower; {mean}; false alarm rate: at most 5 % of years" in message[2]
    assert main(["gate", "--config", str(path), "--as-of", "3"]) == 0
    assert mean in capsys.readouterr().out


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({"metric": "hit@5", "min": 0.5}, "gates[0].metric: hit@5 is not evaluated; did you mean 'hit@1'?"),
        ({"metric": "hit@1", "mim": 0.5}, "gates[0].mim: unknown key; did you mean 'min'?"),
        ({"metric": "hit@1", "min": "high"}, "gates[0].min: expected a finite number, found 'high'"),
        ({"metric": "hit@1", "max_drop": 0.1, "against": "previous"}, "gates[0].against: previous needs an as_of"),
        (
            {"metric": "hit@1", "max_drop": 0.1, "against": "model(a)", "significant": "all_runs"},
            "gates[0].significant: all_runs needs an as_of",
        ),
        (
            {"metric": "hit@1", "max_drop": 0.1, "against": "model(a)", "significant": "often"},
            "gates[0].significant: expected one of False, True or 'all_runs', found 'often'",
        ),
        (
            {"metric": "matched_auc@1", "max_drop": 0.1, "against": "model(a)", "significant": True},
            "gates[0].significant: matched_auc@1 cannot be tested, because it has no value for each user",
        ),
        ({"metric": "HR@1", "min": 0.5}, "gates[1]: expected different gates, found hit@1: min 0.5 twice: remove one"),
    ],
)
def test_a_gate_of_the_configuration_is_checked_when_it_is_read(gate, message, tmp_path, capsys):
    inputs = {name: {"path": "/nowhere"} for name in ("predictions", "truth")}
    conf = {
        "inputs": inputs,
        "evaluation": {"top_k": 1, "metrics": ["hit", "matched_auc"]},
        "gates": [gate, {"metric": "hit@1", "min": 0.5}],
        "output": {"path": "/elsewhere"},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    assert main(["validate-config", "--config", str(path)]) == 2
    assert message in capsys.readouterr().err
