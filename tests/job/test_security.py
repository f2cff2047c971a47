"""What the author of a configuration, or of a model name, cannot do; and no secret is printed or stored."""

from __future__ import annotations

import ast
import json
import logging
from pathlib import Path
from typing import Any, get_args

import pytest
from job_data import ROOT, SMALLEST, VALUE, WITH_SECRETS, Rejected, Write, hides_password, load, outcome_of

from spark_recmetrics import Run, read_history
from spark_recmetrics.aggregation.means import Mean
from spark_recmetrics.conventions import CONVENTIONS
from spark_recmetrics.diagnostics.doctor_spark import examine
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.evaluation.result import Result, reject
from spark_recmetrics.inputs.data_report import DataCheck
from spark_recmetrics.job.cli import RESULT_MARK, main
from spark_recmetrics.metrics import parse
from spark_recmetrics.runs.history_spark import publish
from spark_recmetrics.storage.formats import TableFormat
from spark_recmetrics.storage.locations import Output
from spark_recmetrics.text import did_you_mean, printable


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch {mark}']",
        "!!python/object/new:os.system ['touch {mark}']",
        "!!python/name:os.system ''",
        "!!python/module:os ''",
        "!!python/object/apply:subprocess.run {{args: [touch, '{mark}']}}",
        "!!map {{_target_: os.system, command: 'touch {mark}'}}",
        "{{_target_: os.system, _args_: ['touch {mark}']}}",
    ],
)
@pytest.mark.parametrize("key", ["job", "inputs", "model_name", "evaluation", "columns", "output", "_target_"])
def test_object_tags_and_import_paths_are_rejected(
    rejected: Rejected, write: Write, tmp_path: Path, key: str, value: str
) -> None:
    mark = tmp_path / "mark"
    value = value.format(mark=mark)
    assert rejected(f"{key}: {value}\n")
    try:  # an override with !! is a plain string, which is a valid name of a model
        assert load(write(SMALLEST), [f"{key}={value}"]).model_name == value
    except ConfigError as error:
        assert error.exit_code == 2  # noqa: PT017
    assert not mark.exists()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("evaluation.metrics=[os.system]", "unknown metric"),
        ("evaluation.complex_metrics=[{name: my.module.metric}]", "unknown metric"),
        ("evaluation.convention=my.module:rules", "unknown convention"),
        ("evaluation.convention={_target_: os.system}", "_target_: unknown option"),
        ("inputs.predictions={path: /p, _target_: os.system}", "_target_: unknown key"),
        ("inputs.predictions={path: /p, format: com.example.Source}", "format: expected one of"),
        ("output={path: /o, format: com.example.Source}", "format: expected one of"),
    ],
)
def test_no_key_imports_a_name(rejected: Rejected, override: str, message: str) -> None:
    assert message in rejected(SMALLEST, override)[0]


def test_no_string_is_executed_as_code() -> None:
    banned = {"eval", "exec", "compile", "__import__", "system", "popen", "pickle", "unsafe_load", "full_load", "subprocess"}
    for path in (ROOT / "spark_recmetrics").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in banned, path.name
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id != "re":
                assert node.attr not in banned, path.name
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert not banned & {alias.name for alias in node.names} | {getattr(node, "module", "")} & banned, path.name


def test_missing_variables_are_reported_together_before_a_session_starts(write: Write, monkeypatch, capsys) -> None:
    monkeypatch.setattr("spark_recmetrics.job.session_spark.session", lambda: pytest.fail("a session was started"))
    monkeypatch.delenv("RECMETRICS_TEST_A", raising=False)
    monkeypatch.setenv("RECMETRICS_TEST_B", " ")
    path = str(write(WITH_SECRETS))
    assert main(["validate-config", "--config", path]) == 0, "a configuration can be checked where its secrets are not"
    capsys.readouterr()
    assert main(["evaluate", "--config", path]) == 2
    printed = capsys.readouterr()
    told = "options['fs.s3a.secret.key']: the environment variable RECMETRICS_TEST"
    lines = [
        f"inputs.predictions.{told}_A is not set: set it to the secret on the driver",
        f"inputs.truth.{told}_B is empty: set it to the secret on the driver",
    ]
    assert printed.err.splitlines() == [f"error: {line}" for line in lines]
    assert outcome_of(printed.out)["error"] == {"type": "ConfigError", "message": "\n".join(lines)}


def test_a_scope_outside_databricks_is_reported_before_a_session_starts(monkeypatch, write: Write, capsys) -> None:
    monkeypatch.setattr("spark_recmetrics.job.session_spark.session", lambda: pytest.fail("a session was started"))
    assert main(["evaluate", "--config", str(write(WITH_SECRETS.replace("env:RECMETRICS_TEST_A", "recs/key")))]) == 2
    assert "found no dbutils here" in capsys.readouterr().err


def test_secrets_are_masked_in_tracebacks_logs_and_the_result(monkeypatch, write: Write, tmp_path, capsys, caplog) -> None:
    monkeypatch.setenv("RECMETRICS_TEST_A", VALUE)
    monkeypatch.setenv("RECMETRICS_TEST_B", VALUE)

    def fail() -> None:
        log = logging.getLogger("py4j.somewhere")
        log.warning("option %s is %r", "password", VALUE)
        try:
            raise ValueError(f"cause with {VALUE}")  # noqa: TRY301 - there is to be a cause
        except ValueError as error:
            log.exception("failed")
            raise RuntimeError(f"cannot reach s3a://ann:{VALUE}@b with {VALUE}\n\tat \x1b[31m") from error

    monkeypatch.setattr("spark_recmetrics.job.session_spark.session", fail)
    path, result = write(WITH_SECRETS), tmp_path / "result.json"
    assert main(["evaluate", "--config", str(path), "--result-json", str(result)]) == 1
    printed = capsys.readouterr()
    assert hides_password(printed.out + printed.err + result.read_text() + caplog.text)
    assert "RuntimeError: cannot reach s3a://ann:***@b with ***" in printed.err
    assert "ValueError: cause with ***" in printed.err
    assert printed.err.endswith("\n    at \ufffd[31m\n"), "the terminal is left as it is"
    assert outcome_of(printed.out)["error"] == {"type": "RuntimeError", "message": "cannot reach s3a://ann:***@b with ***"}
    assert "option password is '***'" in caplog.text
    assert "ValueError: cause with ***" in caplog.text
    handlers = logging.getLogger().handlers
    assert not any(getattr(f, "__name__", "") == "cover" for handler in handlers for f in handler.filters), "it is undone"


def write_tables(folder: Path, model: str = "als") -> dict[str, Any]:
    """CSV files, and their configuration."""
    (folder / "predictions.csv").write_text("user_id,item_id,score\nu1,a,0.9\nu1,b,0.8\nu2,b,0.7\n")
    (folder / "truth.csv").write_text("user_id,item_id,rating\nu1,b,5\nu2,b,4\n")
    return {
        "inputs": {
            name: {"path": str(folder / f"{name}.csv"), "format": "csv", "options": {}} for name in ("predictions", "truth")
        },
        "model_name": model,
        "evaluation": {"metrics": ["hit"], "top_k": 2, "n_buckets": 2},
        "output": {"path": str(folder / "out")},
    }


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_a_run_uses_a_secret_and_never_prints_or_stores_it(spark, monkeypatch, tmp_path, capsys, caplog) -> None:
    conf = write_tables(tmp_path)
    for name in ("predictions", "truth"):
        conf["inputs"][name]["options"] = {"nullValue": {"secret": "env:RECMETRICS_TEST_A"}}
    (tmp_path / "truth.csv").write_text(f"user_id,item_id,rating\nu1,b,5\nu2,b,4\nu2,c,{VALUE}\n", encoding="utf-8")
    monkeypatch.setenv("RECMETRICS_TEST_A", VALUE)
    conf["report"] = str(tmp_path / "report.html")
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    rules = ["--set", "evaluation.convention.nan_scores=drop"]
    assert main(["evaluate", "--config", str(path), "--result-json", str(tmp_path / "result.json"), *rules]) == 0
    printed = capsys.readouterr()
    outcome = outcome_of(printed.out)
    assert outcome["models"] == {"als": {"hit@2": 1.0}}
    assert any("nan_ratings: 1 row" in line for line in outcome["warnings"]), "the option has had its value"
    tables = [read_history(spark, tmp_path / "out", table=name).collect() for name in ("summary", "per_user", "data_report")]
    assert hides_password(printed.out + printed.err + caplog.text + (tmp_path / "result.json").read_text() + str(tables))
    assert outcome["report"] == str(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "env:RECMETRICS_TEST_A" in page, "the page shows the configuration, with the reference"
    written = {one: one.read_bytes().decode("utf-8", "replace") for one in tmp_path.rglob("*") if one.is_file()}
    assert {one.name for one, text in written.items() if not hides_password(text)} == {"truth.csv"}, "where the test has put it"
    assert not any("hunter2" in str(one) for one in written)


HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "../../etc/x",
    "=1+1",
    f'x\n{RESULT_MARK} {{"status": "ok"}}\x1b[31m\u6a21',
    "a\rerror: all is lost",
    "b\u2028next\u2029line\x85end",
    "\x1b[31mred\x1b[2J",
    "\u202egnp.exe",
    "'; DROP TABLE summary; --",
    "`a`.`b`",
    'a,b;\t"c"',
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_stays_on_its_line(name: str) -> None:
    fact = DataCheck("users_with_list", f"predictions/{name}", "error", 1, None, f"users {name}")
    assert len(fact.line().splitlines()) == 1
    assert "\x1b" not in fact.line()
    assert len(did_you_mean("zzz", [name, "b"]).splitlines()) == 1
    nobody = Mean(parse("hit@1"), None, 0, 0, None)
    outcome = Result(
        means={name: [nobody]}, data_checks=[fact], convention=CONVENTIONS["default"], run=Run(), data_hash=None, warnings=[]
    )
    assert [len(line.splitlines()) for line in outcome.emptiness] == [1, 1]
    with pytest.raises(DataError) as caught:
        reject([fact._replace(check="duplicates")] * 2)
    assert len(str(caught.value).splitlines()) == 2


def test_printable_keeps_visible_characters() -> None:
    assert printable("модель = a b, 模型 ⅔") == "модель = a b, 模型 ⅔"
    assert printable("a\nb\u2028c\u2029d\x85e\u202ef\ud800") == "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf\ufffd"


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_hostile_names_stay_in_their_line_and_folder(spark, tmp_path, capsys) -> None:
    (tmp_path / "job").mkdir()
    folder = tmp_path / "job"
    rows = [(name, "u1", item, score) for name in HOSTILE for item, score in (("a", 0.9), ("b", 0.8))]
    rows += [(HOSTILE[0], name, "b", 0.7) for name in HOSTILE[1:]]
    spark.createDataFrame(rows, "model string, user_id string, item_id string, score double").write.parquet(str(folder / "p"))
    conf = write_tables(folder)
    conf["inputs"]["predictions"] = {"path": str(folder / "p")}
    path = folder / "conf.json"
    path.write_text(json.dumps(conf))
    before = {one for one in tmp_path.rglob("*") if folder / "p" not in one.parents}
    assert main(["evaluate", "--config", str(path), "--as-of", "2026-11-28"]) == 0
    printed = capsys.readouterr()
    outcome = outcome_of(printed.out)
    assert set(outcome["models"]) == set(HOSTILE)
    kinds = ("evaluate, as of", "metric", "hit", "* best", "warning: ", "data_report ", "per_user ", "summary ", RESULT_MARK)
    assert all(line.startswith(kinds) and line.isprintable() for line in printed.out.splitlines() if line)
    assert not any(line.isspace() or len(line.splitlines()) != 1 for line in outcome["warnings"])
    written = {one for one in tmp_path.rglob("*") if folder / "p" not in one.parents} - before
    assert all(one == folder / "out" or folder / "out" in one.parents for one in written)
    folders = {part.split("=")[0] for one in written for part in one.relative_to(folder / "out").parts if "=" in part}
    assert folders == {"as_of", "run_id", "attempt"}, "no name of the data is a part of a path"
    models = {row["model"] for row in read_history(spark, folder / "out").collect()}
    assert models == set(HOSTILE), "tables keep the names as they are"


@pytest.mark.spark
@pytest.mark.once
def test_hostile_run_ids_stay_in_the_output_folder(spark, tmp_path) -> None:
    """`as_of` and job of a configuration have few characters; a caller from Python may give any."""
    out = tmp_path / "a" / "out"
    out.mkdir(parents=True)
    summary = spark.createDataFrame([("hit@1", 0.5)], "metric string, value double")
    run = Run(run_id="../../x\n", as_of="../../../etc/x")
    publish({"summary": summary}, Output(path=str(out)), run)
    assert [one for one in tmp_path.rglob("*") if one.is_file() and out not in one.parents] == []
    (row,) = read_history(spark, out).collect()
    assert (row["as_of"], row["run_id"]) == (run.as_of, run.run_id)


def test_no_table_is_published_as_csv() -> None:
    """A cell such as =1+1 is only a formula in a spreadsheet, and no published table is a file that a spreadsheet opens.

    Only `to_csv` writes CSV, and it escapes such cells (`test_f3_no_name_is_a_formula_in_csv`).
    """
    assert set(get_args(TableFormat)) == {"parquet", "delta", "orc"}
    writers = []
    for path in (ROOT / "spark_recmetrics").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module] if isinstance(node, ast.ImportFrom) else []
            called = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
            if "csv" in imported or called in ("csv", "to_csv", "to_excel", "to_clipboard"):
                writers.append(path.name)
    assert writers == ["result.py"]


def test_the_token_of_a_remote_session_is_not_printed(monkeypatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark.example.com:443/;use_ssl=true;token=hunter2")

    def fail() -> Any:
        raise RuntimeError("no answer")

    lines = [str(check) for check in examine(fail)]
    assert lines[-1].endswith("check that a server runs at SPARK_REMOTE=sc://spark.example.com:443/")
