"""The command line: usage, commands without Spark, and a job through a real spark-submit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from job_data import ROOT

from spark_recmetrics import __version__
from spark_recmetrics.job.cli import RESULT_MARK, main, run

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


def test_a_wrong_configuration_is_reported_within_3_seconds_without_a_session(tmp_path):
    conf = tmp_path / "wrong.yaml"
    conf.write_text(WRONG)
    before = os.times()
    command = [str(Path(sys.executable).parent / "spark-recmetrics"), "evaluate", "--config", str(conf)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "JAVA_HOME": "/nowhere"})
    after = os.times()
    cpu_seconds = sum(after[2:4]) - sum(before[2:4])  # of child processes; other processes may be busy
    assert done.returncode == 2
    assert cpu_seconds < 3, "no session may be started for it"
    for part in (
        f"{conf}:5: evaluation.treshold: unknown key; did you mean 'threshold'?",
        f"{conf}:6: evaluation.k: expected an integer of at least 1, found 0",
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
def test_wrong_usage_exits_with_2(arguments, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err


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
    assert len({line.index("aliases: ") for line in lines[::2]}) == 1
    assert len({len(line) - len(line.lstrip()) for line in lines[1::2]}) == 1


def test_one_metric_is_singular(tmp_path, capsys):
    conf = tmp_path / "c.yaml"
    conf.write_text("inputs: {predictions: {path: a}, truth: {path: b}}\noutput: {path: c}\nevaluation: {metrics: [mrr]}\n")
    assert main(["validate-config", "--config", str(conf)]) == 0
    assert capsys.readouterr().out.endswith(", 1 metric\n")


def test_a_format_that_the_files_contradict_is_reported_without_spark(tmp_path, capsys):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "2026-11-28.csv").write_text("user_id,item_id\n1,2\n")
    conf = tmp_path / "c.yaml"

    def validate(location, **more):
        lines = [f"  truth: {json.dumps({'path': f'{tmp_path}/t', **location})}", "  predictions: {path: s3a://bucket/p}"]
        conf.write_text("\n".join(["as_of: '2026-11-28'", "inputs:", *lines, "output: {path: c}", ""]))
        return main(["validate-config", "--config", str(conf)]), capsys.readouterr().err

    found = f"found {tmp_path}/t/2026-11-28.csv: set format: csv"
    assert validate({"format": "parquet"}) == (2, f"error: {conf}:3: inputs.truth: expected parquet files, {found}\n")
    by_day = {"path": f"{tmp_path}/t/{{as_of}}.csv", "format": "parquet"}
    assert validate(by_day) == (2, f"error: {conf}:3: inputs.truth: expected parquet files, {found}\n")
    for location in ({"format": "csv"}, {}):
        assert validate(location) == (0, "")
    (tmp_path / "t" / "_delta_log").mkdir()
    (tmp_path / "t" / "_delta_log" / "0.json").touch()
    assert validate({"format": "csv"}) == (
        2,
        f"error: {conf}:3: inputs.truth: {tmp_path}/t is a Delta table: set format: delta\n",
    )
    assert validate({"format": "delta"}) == validate({}) == (0, "")


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
