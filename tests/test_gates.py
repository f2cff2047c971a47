"""Gates: each condition, each reference, each way of having no data; and what a job makes of them."""

from __future__ import annotations

import json

import pytest

import spark_recmetrics as srm
from spark_recmetrics.cli import RESULT_MARK, main
from spark_recmetrics.gates import Gate, judge


def row(value, model="als", metric="ndcg@10", **more):
    """A row of SUMMARY of the night 2026-11-28."""
    own = {"run_id": "now", "as_of": "2026-11-28", "model": model, "metric": metric, "slice": "all", "slice_value": "all"}
    own |= {
        "value": value,
        "n_users": 100,
        "convention": "default",
        "higher_is_better": True,
        "data_hash": "d",
        "computed_at": 0,
    }
    return own | more


def night(day, value, **more):
    return row(value, run_id=f"r{day}", as_of=f"2026-11-{day:02}", **more)


def verdict(gate, rows, history=(), p_values=None):
    """The verdict and the reason of one gate."""
    (found,) = judge([gate], rows if isinstance(rows, list) else [rows], history, p_values or {})
    return found.verdict, found.reason


@pytest.mark.parametrize(
    ("bounds", "value", "expected"),
    [
        ({"min": 0.2}, 0.25, ("pass", "0.25 is within its bounds")),
        ({"min": 0.2}, 0.2 - 1e-13, ("pass", "0.2 is within its bounds")),
        ({"min": 0.2}, 0.1999, ("fail", "0.1999 is below 0.2")),
        ({"max": 1.0}, 1.5, ("fail", "1.5 is above 1")),
        ({"min": 0.2, "max": 1.0, "severity": "warn"}, 1.5, ("warn", "1.5 is above 1")),
        ({"min": 0.2}, None, ("fail", "expected a value, found an undefined one")),
        ({"min": 0.2, "min_users": 101}, 0.5, ("fail", "expected at least 101 users, found 100")),
    ],
)
def test_bounds_of_the_value(bounds, value, expected):
    assert verdict(Gate("ndcg@10", **bounds), row(value)) == expected


def test_a_metric_or_model_that_the_run_lacks_fails():
    told = ("fail", "expected a value, found none: the run has no such model and metric")
    assert verdict(Gate("map@10", min=0.0), row(0.5)) == told
    assert verdict(Gate("ndcg@10", model="other", min=0.0), row(0.5)) == told


def test_every_model_has_a_verdict_but_the_baseline():
    rows = [row(0.5), row(0.3, "pop"), row(0.2, "random")]
    assert [found.model for found in judge([Gate("ndcg@10", min=0.0)], rows)] == ["als", "pop", "random"]
    against = Gate("ndcg@10", max_drop=0.0, against="model(pop)")
    assert [(found.model, found.verdict, found.reference) for found in judge([against], rows)] == [
        ("als", "pass", 0.3),
        ("random", "fail", 0.3),
    ]


@pytest.mark.parametrize(
    ("drop", "expected"),
    [
        ({"max_drop": 0.1}, ("pass", "0.5 is 0.05 worse than 0.55 of run r27")),
        ({"max_drop": 0.01}, ("fail", "0.5 is 0.05 worse than 0.55 of run r27, allowed are 0.01")),
        ({"max_drop_share": 0.1}, ("pass", "0.5 is 0.05 worse than 0.55 of run r27")),
        ({"max_drop_share": 0.05}, ("fail", "0.5 is 0.05 worse than 0.55 of run r27, allowed are 0.0275")),
        ({"max_drop": 0.1, "max_drop_share": 0.05}, ("fail", "0.5 is 0.05 worse than 0.55 of run r27, allowed are 0.0275")),
    ],
)
def test_the_previous_run(drop, expected):
    history = [night(27, 0.55), night(26, 0.1), night(28, 0.9), night(29, 0.9)]
    assert verdict(Gate("ndcg@10", against="previous", **drop), row(0.5), history) == expected


def test_direction_is_that_of_the_metric():
    now, before = row(1.0, metric="rmse", higher_is_better=False), night(27, 0.9, metric="rmse")
    assert verdict(Gate("rmse", max_drop=0.05, against="previous"), now, [before])[0] == "fail"
    assert verdict(Gate("rmse", max_drop=0.05, against="previous"), {**now, "value": 0.8}, [before]) == (
        "pass",
        "0.8 is 0.1 better than 0.9 of run r27",
    )


def test_the_median_of_the_last_runs_and_one_by_name():
    history = [night(day, value) for day, value in ((20, 9.0), (24, 0.5), (25, 0.7), (26, 0.6))]
    assert verdict(Gate("ndcg@10", max_drop=0.05, against="median(3)"), row(0.5), history) == (
        "fail",
        "0.5 is 0.1 worse than 0.6 of median(3), allowed are 0.05",
    )
    assert verdict(Gate("ndcg@10", max_drop=0.05, against="run(r24)"), row(0.5), history)[0] == "pass"
    assert verdict(Gate("ndcg@10", max_drop=0.05, against="run(r99)"), row(0.5), history) == (
        "fail",
        "expected run r99 in the history, found none with this model and metric",
    )


def test_of_two_runs_of_one_day_the_last_counts():
    history = [night(27, 0.9, computed_at=1), night(27, 0.5, computed_at=2) | {"run_id": "again"}]
    found = judge([Gate("ndcg@10", max_drop=0.0, against="previous")], [row(0.5)], history)
    assert [(one.verdict, one.reference_run) for one in found] == [("pass", "again")]


@pytest.mark.parametrize("missing", ["pass", "fail"])
def test_the_first_night(missing):
    gate = Gate("ndcg@10", max_drop=0.0, against="previous", missing=missing)
    for history in ([], [night(27, None)], [night(27, 0.5, model="pop")], [night(27, 0.5, metric="map@10")]):
        assert verdict(gate, row(0.5), history) == (missing, f"no earlier value to compare with: missing is {missing}")


def test_another_convention_fails_and_other_data_are_told():
    gate = Gate("ndcg@10", max_drop=0.0, against="previous")
    assert verdict(gate, row(0.5), [night(27, 0.5, convention="recbole")]) == (
        "fail",
        "expected convention default of the reference, found recbole",
    )
    assert verdict(gate, row(0.5), [night(27, 0.4, data_hash="e")]) == (
        "pass",
        "0.5 is 0.1 better than 0.4 of run r27, and the truth is another",
    )


def test_a_baseline_without_a_value_fails():
    gate = Gate("ndcg@10", max_drop=0.0, against="model(pop)")
    for rows in ([row(0.5)], [row(0.5), row(None, "pop")]):
        assert verdict(gate, rows) == ("fail", "expected a value of model pop to compare with, found none")


def test_o6_the_order_of_a_sum_trips_no_gate():
    values = (24.621, 12.14, 0.169, 6.865, 1.879, 16.326)
    one, other = sum(values) / 6, sum(sorted(values)) / 6
    assert abs(one - other) < 1e-12
    gate = Gate("ndcg@10", max_drop=0.0, against="previous")
    assert verdict(gate, row(min(one, other)), [night(27, max(one, other))])[0] == "pass"
    assert verdict(gate, row(one - 1e-9), [night(27, one)])[0] == "fail"


@pytest.mark.parametrize(("p", "expected"), [(0.04, "fail"), (0.06, "pass"), (None, "fail")])
def test_a_drop_that_must_be_significant(p, expected):
    gate = Gate("ndcg@10", max_drop=0.0, against="model(pop)", significant=True)
    found, reason = verdict(gate, [row(0.5), row(0.6, "pop")], p_values={("als", "pop", "ndcg@10"): p})
    assert found == expected
    assert ("chance" in reason) == (p is None or p >= 0.05)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "expected one of min, max, max_drop, max_drop_share, found none"),
        ({"min": True}, "min: expected a finite number, found True"),
        ({"min": float("nan")}, "min: expected a finite number, found nan"),
        ({"max_drop": -1, "against": "previous"}, "max_drop: expected a number from 0, found -1"),
        ({"max_drop": 0.1}, "expected max_drop or max_drop_share together with against, found max_drop alone"),
        ({"min": 0.1, "against": "previous"}, "expected max_drop or max_drop_share together with against, found against"),
        ({"max_drop": 0.1, "against": "yesterday"}, r"against: expected previous, median\(N\), run\(ID\) or model\(NAME\)"),
        ({"max_drop": 0.1, "against": "median(0)"}, r"against: expected previous, median\(N\)"),
        ({"max_drop": 0.1, "against": "previous", "significant": True}, r"significant: expected against: model\(NAME\)"),
        ({"min": 0.1, "min_users": -1}, "min_users: expected a whole number from 0, found -1"),
        ({"min": 0.1, "severity": "loud"}, "severity: expected fail or warn, found 'loud'"),
        ({"min": 0.1, "missing": "skip"}, "missing: expected pass or fail, found 'skip'"),
    ],
)
def test_what_is_no_gate_is_refused(fields, told):
    with pytest.raises(srm.ConfigError, match=told):
        Gate("ndcg@10", **fields)
    with pytest.raises(srm.ConfigError, match="unknown metric"):
        Gate("ndgc@10", min=0.1)


# The job ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def job(spark, tmp_path):
    """Write the tables and a configuration with gates; the result of a command on it."""
    scores = [(user, item, score) for user in ("u", "v") for item, score in (("a", 0.9), ("b", 0.8))]
    frame = spark.createDataFrame(scores, "user_id string, item_id string, score double")
    frame.write.parquet(str(tmp_path / "predictions"))
    path = tmp_path / "conf.json"

    def run(command, capsys, *argv, as_of="2026-11-28", found=("a", "b"), gates=()):
        truth = spark.createDataFrame(list(zip(("u", "v"), found, strict=True)), "user_id string, item_id string")
        truth.write.mode("overwrite").parquet(str(tmp_path / "truth"))
        conf = {
            "as_of": as_of,
            "inputs": {name: {"path": str(tmp_path / name)} for name in ("predictions", "truth")},
            "evaluation": {"top_k": 1, "metrics": ["hit"], "n_buckets": 2},
            "gates": list(gates),
            "output": {"path": str(tmp_path / "out")},
        }
        path.write_text(json.dumps(conf))
        code = main([command, "--config", str(path), *argv])
        captured = capsys.readouterr()
        outcome = json.loads(captured.out.strip().splitlines()[-1].removeprefix(RESULT_MARK))
        assert outcome["exit_code"] == code
        return code, outcome, captured

    return run


@pytest.mark.spark
def test_c10_a_failing_gate_ends_with_3_after_everything_is_written(job, spark, tmp_path, capsys):
    gates = [
        {"metric": "hit@1", "max_drop": 0.1, "against": "previous"},
        {"metric": "hit@1", "min": 0.9, "severity": "warn"},
    ]
    code, first, captured = job("evaluate", capsys, as_of="2026-11-27", found=("a", "a"), gates=gates)
    assert code == 0
    assert [gate["verdict"] for gate in first["gates"]] == ["pass", "pass"]
    assert "PASS  model: hit@1: max_drop 0.1 against previous: no earlier value to compare with" in captured.out

    result = tmp_path / "result.json"
    code, second, captured = job("evaluate", capsys, "--result-json", str(result), gates=gates)
    told = f"0.5 is 0.5 worse than 1 of run {first['run_id']}, and the truth is another, allowed are 0.1"
    assert code == 3
    assert f"error: FAIL  model: hit@1: max_drop 0.1 against previous: {told}" in captured.err
    assert second == json.loads(result.read_text())
    assert (second["status"], second["error"]["type"]) == ("ok", "GateError")
    assert [(gate["verdict"], gate["reference"]) for gate in second["gates"]] == [("fail", 1.0), ("warn", None)]
    assert set(second["tables"]) == {"data_report", "per_user", "summary", "gates"}
    published = srm.read_history(spark, str(tmp_path / "out"), table="gates").where("as_of = '2026-11-28'")
    assert {(row["verdict"], row["drop"]) for row in published.collect()} == {("fail", 0.5), ("warn", None)}
    summary = srm.read_history(spark, str(tmp_path / "out")).where("as_of = '2026-11-28'")
    assert [row["value"] for row in summary.collect()] == [0.5]

    # Apart from the evaluation: the same verdict for the run that is published, and nothing written.
    again, third, _ = job("gate", capsys, gates=gates)
    assert (again, third["gates"]) == (3, second["gates"])
    assert main(["history", "--config", str(tmp_path / "conf.json"), "--metric", "HIT@1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "evaluate, hit@1",
        "",
        "as_of        model  changed",
        "2026-11-27  1.0000",
        "2026-11-28  0.5000  the truth",
        "",
        "model  █▁",
    ]
    for wrong, told in (
        (["--metric", "map@1"], "expected runs of job evaluate with map@1"),
        (["--metric", "hit@1", "--last", "0"], "--last"),
    ):
        assert main(["history", "--config", str(tmp_path / "conf.json"), *wrong]) in (2, 4)
        assert told in capsys.readouterr().err
    none, fourth, _ = job("gate", capsys, as_of="2026-11-29", gates=gates)
    assert none == 4
    assert "found none: run evaluate first" in fourth["error"]["message"]


@pytest.mark.spark
@pytest.mark.once
def test_gates_can_be_left_to_the_other_job(job, capsys):
    gates = [{"metric": "hit@1", "min": 0.9}]
    code, outcome, _ = job("evaluate", capsys, "--no-gates", gates=gates)
    assert (code, outcome["gates"], "gates" in outcome["tables"]) == (0, [], False)
    code, outcome, _ = job("gate", capsys, gates=gates)
    assert (code, outcome["gates"][0]["verdict"]) == (3, "fail")


@pytest.mark.spark
@pytest.mark.once
def test_a_drop_that_is_chance_passes_and_one_that_is_not_fails(spark, tmp_path, capsys):
    """Of 40 users model b misses one and c half of those that a serves."""
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
        "gates": [{"metric": "hit@1", "max_drop": 0, "against": "model(a)", "significant": True}],
        "output": {"path": str(tmp_path / "out")},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    for command in ("evaluate", "gate"):
        assert main([command, "--config", str(path)]) == 3
        out = capsys.readouterr().out
        assert "PASS  b: hit@1: max_drop 0 against model(a): 0.975 is 0.025 worse than 1 of model(a), allowed are 0, " in out
        assert "which may be chance (p = 0.323)" in out
        assert "FAIL  c: hit@1: max_drop 0 against model(a): 0.5 is 0.5 worse than 1 of model(a) (p = " in out


@pytest.mark.parametrize(
    ("gate", "told"),
    [
        ({"metric": "hit@5", "min": 0.5}, "gates[0].metric: hit@5 is not evaluated; did you mean 'hit@1'?"),
        ({"metric": "hit@1", "mim": 0.5}, "gates[0].mim: unknown key; did you mean 'min'?"),
        ({"metric": "hit@1", "min": "high"}, "gates[0].min: expected a finite number, found 'high'"),
        ({"metric": "hit@1", "max_drop": 0.1, "against": "previous"}, "gates[0].against: previous needs an as_of"),
        (
            {"metric": "matched_auc@1", "max_drop": 0.1, "against": "model(a)", "significant": True},
            "gates[0].significant: matched_auc@1 has no value for each user",
        ),
    ],
)
def test_a_gate_of_the_configuration_is_checked_when_it_is_read(gate, told, tmp_path, capsys):
    inputs = {name: {"path": "/nowhere"} for name in ("predictions", "truth")}
    conf = {
        "inputs": inputs,
        "evaluation": {"top_k": 1, "metrics": ["hit", "matched_auc"]},
        "gates": [gate],
        "output": {"path": "/nowhere"},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    assert main(["validate-config", "--config", str(path)]) == 2
    assert told in capsys.readouterr().err
