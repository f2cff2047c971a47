"""What somebody who writes a configuration, or only names a model, cannot do; and that no secret is told."""

from __future__ import annotations

import ast
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, get_args
from urllib.parse import quote, quote_plus

import pytest
import yaml

from spark_recmetrics import Run, read_history
from spark_recmetrics.aggregation.means import Mean
from spark_recmetrics.conventions import CONVENTIONS
from spark_recmetrics.diagnostics.doctor_spark import examine
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.evaluation.result import Outcome, refuse
from spark_recmetrics.inputs.data_report import DataCheck
from spark_recmetrics.job.cli import RESULT_MARK, main
from spark_recmetrics.job.files.config import json_schema, load
from spark_recmetrics.metrics import parse
from spark_recmetrics.runs.history_spark import publish
from spark_recmetrics.storage import credentials
from spark_recmetrics.storage.credentials import Secret, Vault, masked_override, names_credential, without_password
from spark_recmetrics.storage.locations import Location, Output, TableFormat
from spark_recmetrics.storage.read import read_table
from spark_recmetrics.storage.write import quoted
from spark_recmetrics.text import did_you_mean, printable

ROOT = Path(__file__).resolve().parents[2]
VALUE = "hunter2-öß"
"""A password that no message may hold, in none of the forms that it is written in."""

SMALLEST = """\
inputs:
  predictions: {path: /p}
  truth: {path: /t}
output: {path: /out}
"""
WITH_SECRETS = """\
inputs:
  predictions: {path: /p, options: {fs.s3a.secret.key: {secret: env:RECMETRICS_TEST_A}}}
  truth: {path: /t, options: {fs.s3a.secret.key: {secret: env:RECMETRICS_TEST_B}, sep: env:x}}
output: {path: /out}
"""
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(content: str, name: str = "c.yaml") -> Path:
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def refused(write: Write) -> Callable[..., list[str]]:
    """The lines of the error, without the folder of the file."""

    def lines(content: str, *overrides: str, name: str = "c.yaml") -> list[str]:
        path = write(content, name)
        with pytest.raises(ConfigError) as caught:
            load(path, overrides)
        return str(caught.value).replace(f"{path.parent}/", "").split("\n")

    return lines


Refused = Callable[..., list[str]]


def untold(text: str) -> bool:
    """Whether a text holds nothing of the password."""
    return "hunter2" not in text.lower()


def outcome_of(out: str) -> dict[str, Any]:
    (line,) = [line for line in out.splitlines() if line.startswith(RESULT_MARK)]
    assert out.splitlines()[-1] == line
    found: dict[str, Any] = json.loads(line.removeprefix(f"{RESULT_MARK} "))
    return found


# A configuration runs nothing


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
def test_object_tags_and_import_paths_are_refused(refused: Refused, write: Write, tmp_path: Path, key: str, value: str) -> None:
    mark = tmp_path / "mark"
    value = value.format(mark=mark)
    assert refused(f"{key}: {value}\n")
    try:  # what begins with !! is a plain text there, which a model may have as its name
        assert load(write(SMALLEST), [f"{key}={value}"]).model_name == value
    except ConfigError as error:
        assert error.exit_code == 2  # noqa: PT017
    assert not mark.exists()


@pytest.mark.parametrize(
    ("override", "told"),
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
def test_no_key_takes_the_name_of_something_to_import(refused: Refused, override: str, told: str) -> None:
    assert told in refused(SMALLEST, override)[0]


def test_no_code_is_made_of_text() -> None:
    banned = {"eval", "exec", "compile", "__import__", "system", "popen", "pickle", "unsafe_load", "full_load", "subprocess"}
    for path in (ROOT / "spark_recmetrics").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in banned, path.name
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id != "re":
                assert node.attr not in banned, path.name
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert not banned & {alias.name for alias in node.names} | {getattr(node, "module", "")} & banned, path.name


# References to secrets


def test_a_reference_is_read_and_a_text_keeps_its_meaning(write: Write) -> None:
    config = load(write(WITH_SECRETS))
    assert config.inputs.truth.options == {"fs.s3a.secret.key": Secret("env:RECMETRICS_TEST_B"), "sep": "env:x"}
    scoped = load(write(SMALLEST), ["inputs.truth.options.password={secret: recs.prod/s3-key}"])
    assert scoped.inputs.truth.options == {"password": Secret("recs.prod/s3-key")}


def test_the_value_is_in_no_hash_and_in_nothing_that_is_printed(write: Write, monkeypatch, capsys) -> None:
    path = write(WITH_SECRETS)
    hashes = set()
    for value in (VALUE, "another"):
        monkeypatch.setenv("RECMETRICS_TEST_A", value)
        monkeypatch.setenv("RECMETRICS_TEST_B", value)
        config = load(path)
        hashes.add((config.hash, config.run_id))
        for command in ("explain-config", "validate-config"):
            assert main([command, "--config", str(path)]) == 0
    printed = capsys.readouterr().out
    assert len(hashes) == 1
    assert untold(printed + repr(config) + str(config.resolved()))
    assert "secret: env:RECMETRICS_TEST_A" in printed
    assert load(path, ["inputs.truth.options['fs.s3a.secret.key']={secret: env:OTHER}"]).hash != config.hash


@pytest.mark.parametrize("key", ["train", "catalog", "rating_predictions"])
def test_every_table_may_have_one(write: Write, refused: Refused, monkeypatch, key: str) -> None:
    content = SMALLEST.replace(
        "inputs:", f"inputs:\n  {key}: {{path: /x, options: {{token: {{secret: env:RECMETRICS_TEST_A}}}}}}"
    )
    table = getattr(load(write(content)).inputs, key)
    monkeypatch.setenv("RECMETRICS_TEST_A", VALUE)
    assert Vault().options(table, f"inputs.{key}") == {"token": VALUE}
    (line,) = refused(content.replace("{secret: env:RECMETRICS_TEST_A}", "5"))
    assert line.startswith(f"c.yaml:2: inputs.{key}.options.token: expected a reference to the value")
    (line,) = refused(content.replace("token: {secret: env:RECMETRICS_TEST_A}", "header: 5"))
    assert line == f"c.yaml:2: inputs.{key}.options.header: expected a text, found 5: write it in quotes"


@pytest.mark.parametrize("name", ["r.yaml", "r.json"])
def test_what_is_resolved_reads_as_the_same_configuration(write: Write, name: str) -> None:
    config = load(write(WITH_SECRETS))
    text = json.dumps(config.resolved()) if name.endswith("json") else yaml.safe_dump(config.resolved())
    again = load(write(text, name))
    assert again == config
    assert again.hash == config.hash


def test_the_schema_has_both_forms() -> None:
    option = json_schema()["$defs"]["Location"]["properties"]["options"]["additionalProperties"]
    assert option["anyOf"][0] == {"type": "string"}
    assert option["anyOf"][1]["required"] == list(option["anyOf"][1]["properties"]) == ["secret"]
    assert option["anyOf"][1]["additionalProperties"] is False


def test_the_documented_alternative_is_valid(write: Write) -> None:
    text = (ROOT / "conf" / "evaluate.yaml").read_text(encoding="utf-8")
    lines = text[text.index("    # options:") :].splitlines()[:3]
    options = yaml.safe_load("\n".join(line.replace("    # ", "", 1).partition(" # ")[0] for line in lines))["options"]
    found = load(write(SMALLEST), [f"inputs.truth.options={json.dumps(options)}"]).inputs.truth.options
    assert list(found.values()) == [Secret("env:S3_SECRET")]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("{secret: hunter2}", "expected env:NAME or scope/key, found another text, which is not shown here"),
        ("{secret: 'env:hunter2!'}", "expected env:NAME or scope/key, found another text, which is not shown here"),
        ("{secret: 'hunter2/a+b=='}", "expected env:NAME or scope/key, found another text, which is not shown here"),
        ("{secret: 'env:'}", "expected env:NAME or scope/key, found another text, which is not shown here"),
        ("{secret: a/b/c}", "expected env:NAME or scope/key, found another text, which is not shown here"),
        ("{secret: [hunter2]}", "expected env:NAME or scope/key, found list, which is not shown here"),
        (
            "{secert: hunter2}",
            "expected a text, or {secret: env:NAME} or {secret: scope/key}, found a mapping of other keys",
        ),
        ("{secret: env:A, value: hunter2}", "expected a text, or {secret: env:NAME} or {secret: scope/key}, found a mapping"),
        ("{}", "expected a text, or {secret: env:NAME} or {secret: scope/key}, found a mapping of other keys"),
    ],
)
def test_wrong_references_are_told_by_key_and_not_shown(refused: Refused, value: str, told: str) -> None:
    content = SMALLEST.replace("{path: /t}", f"{{path: /t, fromat: x, options: {{header: {value}}}}}")
    lines = sorted(refused(content))
    assert lines[0] == "c.yaml:3: inputs.truth.fromat: unknown key; did you mean 'format'?"
    assert lines[1].startswith(f"c.yaml:3: inputs.truth.options.header: {told}")
    assert len(lines) == 2
    assert untold(str(lines))


@pytest.mark.parametrize("key", ["path", "table", "format"])
def test_only_options_may_be_secrets(refused: Refused, key: str) -> None:
    lines = refused(SMALLEST.replace("{path: /t}", f"{{{key}: {{secret: env:A}}}}"))
    assert any(line.startswith(f"c.yaml:3: inputs.truth.{key}: expected ") for line in lines)
    assert "expected a text" in refused(SMALLEST, "model_name={secret: env:A}")[0]


# Values that may not stand in a file


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *dict.fromkeys(
            ("password", "sslPassword", "fs.s3a.secret.key", "fs.s3a.session.token", "fs.azure.account.key.shop.example"), True
        ).items(),
        *dict.fromkeys(("fs.azure.account.oauth2.client.secret", "fs.gs.auth.service.account.private.key"), True).items(),
        *dict.fromkeys(("header", "sep", "nullValue", "fs.s3a.aws.credentials.provider", "fs.s3a.endpoint"), False).items(),
        *dict.fromkeys(("fs.azure.account.oauth2.token.file", "fs.s3a.access.key"), False).items(),
    ],
)
def test_names_of_credentials(name: str, *, expected: bool) -> None:
    assert names_credential(name) == expected


@pytest.mark.parametrize("value", ["hunter2", "'hunter2'", "123454321", "true"])
def test_a_plain_credential_is_refused_where_it_stands(refused: Refused, value: str) -> None:
    told = "expected a reference to the value, found the value itself: write {secret: env:NAME}, and set that variable"
    content = SMALLEST.replace("  truth: {path: /t}", f"  truth:\n    path: /t\n    options:\n      password: {value}")
    (line,) = refused(content)
    assert line == f"c.yaml:6: inputs.truth.options.password: {told}"
    for override in (f"inputs.truth.options.password={value}", f"inputs.truth={{path: /t, options: {{password: {value}}}}}"):
        (line,) = refused(SMALLEST, override)
        assert line == f"--set {override.partition('=')[0]}=***: inputs.truth.options.password: {told}"
    models = f"{{models: {{als: {{predictions: {{path: /p, options: {{secret: {value}}}}}}}}}, truth: {{path: /t}}}}"
    (line,) = refused(f"output: {{path: /o}}\ninputs: {models}\n")
    assert line == f"c.yaml:2: inputs.models.als.predictions.options.secret: {told}"


@pytest.mark.parametrize(
    "address",
    [
        "s3a://ann:hunter2@bucket/truth",
        "s3a://ann:hunter2/with+slash@bucket/{as_off}",
        "https://host.example/truth?sv=1&sig=hunter2",
        "jdbc:postgresql://host/shop?user=ann&password=hunter2",
        "jdbc:sqlserver://host;databaseName=shop;password=hunter2",
    ],
)
@pytest.mark.parametrize("key", ["inputs.truth.path", "inputs.predictions.path", "output.path", "inputs.truth.options.url"])
def test_an_address_with_a_password_is_refused(refused: Refused, key: str, address: str) -> None:
    (line,) = refused(SMALLEST, f"{key}={address}")
    assert line.startswith("--set ")
    assert f"{key}: expected an address without a password, found one, which is not shown here: " in line
    assert untold(line)
    for kind in (Location, Output):
        with pytest.raises(ConfigError, match=r"^path: expected an address without a password") as caught:
            kind(path=address)
        assert untold(str(caught.value))


@pytest.mark.parametrize(
    "address",
    [
        "hdfs://host:8020/a@b",
        "s3://bucket/a:b@c",
        "abfss://box@shop.example/x@y:z",
        "/data/{as_of}/x?y=1",
        "C:/x:y@z",
        "/tokens=3/x",
        "s3a://ann:***@bucket",
    ],
)
def test_other_addresses_stay(address: str) -> None:
    assert without_password(address) == address
    assert Location(path=address).path == address


def test_overrides_are_shown_without_what_may_be_a_credential(refused: Refused) -> None:
    assert masked_override("evaluation.k=5") == "evaluation.k=5"
    assert masked_override("inputs.truth={path: x, options: {token: hunter2}}") == "inputs.truth=***"
    (line,) = refused(SMALLEST.replace("/t", "s3://ann:hunter2@b"), "inputs.truth.path.x=5")[1:]
    assert line == "--set inputs.truth.path.x=5: inputs.truth.path is 's3://ann:***@b': there is no inputs.truth.path.x"


# Reading values


def test_missing_variables_are_told_together_before_a_session_starts(write: Write, monkeypatch, capsys) -> None:
    monkeypatch.setattr("spark_recmetrics.job.evaluate.session", lambda: pytest.fail("a session was started"))
    monkeypatch.delenv("RECMETRICS_TEST_A", raising=False)
    monkeypatch.setenv("RECMETRICS_TEST_B", " ")
    path = str(write(WITH_SECRETS))
    assert main(["validate-config", "--config", path]) == 0, "a configuration can be checked where its secrets are not"
    capsys.readouterr()
    assert main(["evaluate", "--config", path]) == 2
    printed = capsys.readouterr()
    told = "options['fs.s3a.secret.key']: expected a secret in the environment variable RECMETRICS_TEST"
    lines = [
        f"inputs.predictions.{told}_A, found no such variable: set it for the driver",
        f"inputs.truth.{told}_B, found an empty one: set it for the driver",
    ]
    assert printed.err.splitlines() == [f"error: {line}" for line in lines]
    assert outcome_of(printed.out)["error"] == {"type": "ConfigError", "message": "\n".join(lines)}


SCOPED = Location(path="/p", options={"password": Secret("recs/key"), "sep": ";"})


class Scopes:
    """As much of dbutils as is used."""

    def __init__(self, *_: object) -> None:
        self.secrets = self

    def get(self, scope: str, key: str) -> str:
        if (scope, key) != ("recs", "key"):
            raise PermissionError(f"no {scope}/{key} for you\nmore")
        return VALUE


def test_scopes_need_databricks(monkeypatch, write: Write, capsys) -> None:
    told = r"^inputs\.x\.options\.password: the secret recs/key is one of Databricks, found no dbutils here: .* write env:NAME$"
    for read in (lambda: Vault().options(SCOPED, "inputs.x"), lambda: Vault().check([("inputs.x", SCOPED)])):
        with pytest.raises(ConfigError, match=told):
            read()
    monkeypatch.setattr("spark_recmetrics.job.evaluate.session", lambda: pytest.fail("a session was started"))
    assert main(["evaluate", "--config", str(write(WITH_SECRETS.replace("env:RECMETRICS_TEST_A", "recs/key")))]) == 2
    assert "found no dbutils here" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["notebook", "job"])
def test_scopes_are_read_through_dbutils(monkeypatch, place: str) -> None:
    if place == "notebook":
        shell = SimpleNamespace(user_ns={"dbutils": Scopes()})
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    else:
        module = ModuleType("pyspark.dbutils")
        module.DBUtils = Scopes  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pyspark.dbutils", module)
        monkeypatch.setattr(credentials, "find_spec", lambda name: name == "pyspark.dbutils")
    vault = Vault()
    vault.check([("inputs.x", SCOPED)])
    assert vault.masked(VALUE) == VALUE, "nothing is asked for before there is a session"
    assert vault.options(SCOPED, "inputs.x") == {"password": VALUE, "sep": ";"}
    assert vault.masked(VALUE) == "***"
    with pytest.raises(ConfigError) as caught:
        vault.options(Location(path="/p", options={"password": Secret("recs/no")}), "inputs.x")
    assert str(caught.value) == (
        "inputs.x.options.password: cannot read the secret recs/no: no recs/no for you: check scope, key and who may read"
    )


@pytest.mark.parametrize(
    "value",
    [
        "hunter2",
        VALUE,
        "hunter2'\"\\x",
        "-----BEGIN KEY-----\nhunter2AAAA\nBBBBhunter2\n-----END KEY-----\n",
        " hunter2 ",
        "hunter2\ttab",
        "hunter2 with/slash&more=1",
    ],
)
def test_values_are_covered_however_they_are_written(monkeypatch, value: str) -> None:
    monkeypatch.setenv("RECMETRICS_TEST_A", value)
    monkeypatch.setenv("RECMETRICS_TEST_B", value + "longer")
    vault = Vault()
    for name in "AB":
        vault.options(Location(path="/p", options={"password": Secret(f"env:RECMETRICS_TEST_{name}")}), "inputs.x")
    texts = [value, repr(value), json.dumps(value), quote(value), quote_plus(value), " ".join(value.split())]
    texts += [value + "longer", value.replace("hunter", "Hunter")]
    texts += value.strip().splitlines()[:3]
    for text in texts:
        covered = vault.masked(f"Spark says: {text}.")
        assert untold(covered), text
        assert covered.startswith("Spark says: ")
        assert "***" in covered
    assert vault.masked("nothing here") == "nothing here"


def test_tracebacks_logs_and_the_result_are_covered(monkeypatch, write: Write, tmp_path, capsys, caplog) -> None:
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

    monkeypatch.setattr("spark_recmetrics.job.evaluate.session", fail)
    path, result = write(WITH_SECRETS), tmp_path / "result.json"
    assert main(["evaluate", "--config", str(path), "--result-json", str(result)]) == 1
    printed = capsys.readouterr()
    assert untold(printed.out + printed.err + result.read_text() + caplog.text)
    assert "RuntimeError: cannot reach s3a://ann:***@b with ***" in printed.err
    assert "ValueError: cause with ***" in printed.err
    assert printed.err.endswith("\n    at \ufffd[31m\n"), "the terminal is left as it is"
    assert outcome_of(printed.out)["error"] == {"type": "RuntimeError", "message": "cannot reach s3a://ann:***@b with ***"}
    assert "option password is '***'" in caplog.text
    assert "ValueError: cause with ***" in caplog.text
    handlers = logging.getLogger().handlers
    assert not any(getattr(f, "__name__", "") == "cover" for handler in handlers for f in handler.filters), "it is undone"


@pytest.mark.spark
def test_what_spark_says_of_a_table_is_covered(spark, monkeypatch, tmp_path) -> None:
    """Spark quotes a wrong `modifiedAfter`, which stands here for a credential that a storage refuses."""
    monkeypatch.setenv("RECMETRICS_TEST_A", VALUE)
    (tmp_path / "t.csv").write_text("a\n1\n")
    place = Location(path=str(tmp_path / "t.csv"), format="csv", options={"modifiedAfter": Secret("env:RECMETRICS_TEST_A")})
    with pytest.raises(DataError) as caught:
        read_table(spark, place, "inputs.truth", Vault())
    assert str(caught.value).startswith("inputs.truth: cannot read csv at ")
    assert "the provided timestamp: ***" in str(caught.value)
    assert untold(str(caught.value))
    assert caught.value.__cause__ is None


def write_tables(folder: Path, model: str = "als") -> dict[str, Any]:
    """Files of CSV and a configuration of them."""
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


@pytest.mark.spark
@pytest.mark.once
def test_a_run_uses_a_secret_and_tells_nobody(spark, monkeypatch, tmp_path, capsys, caplog) -> None:
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
    assert any("nan_ratings = 1" in line for line in outcome["warnings"]), "the option has had its value"
    tables = [read_history(spark, tmp_path / "out", table=name).collect() for name in ("summary", "per_user", "data_report")]
    assert untold(printed.out + printed.err + caplog.text + (tmp_path / "result.json").read_text() + str(tables))
    assert outcome["report"] == str(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "env:RECMETRICS_TEST_A" in page, "the page shows the configuration, with the reference"
    written = {one: one.read_bytes().decode("utf-8", "replace") for one in tmp_path.rglob("*") if one.is_file()}
    assert {one.name for one, text in written.items() if not untold(text)} == {"truth.csv"}, "where the test has put it"
    assert not any("hunter2" in str(one) for one in written)


# Names

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "../../etc/x",
    "=1+1",
    f'x\n{RESULT_MARK} {{"status": "ok"}}',
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
    outcome = Outcome(
        means={name: [nobody]}, data_checks=[fact], convention=CONVENTIONS["default"], run=Run(), data_hash=None, warnings=[]
    )
    assert [len(line.splitlines()) for line in outcome.emptiness] == [1, 1]
    with pytest.raises(DataError) as caught:
        refuse([fact._replace(check="duplicates")] * 2)
    assert len(str(caught.value).splitlines()) == 2


def test_printable_keeps_what_can_be_seen() -> None:
    assert printable("модель = a b, 模型 ⅔") == "модель = a b, 模型 ⅔"
    assert printable("a\nb\u2028c\u2029d\x85e\u202ef\ud800") == "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf\ufffd"


@pytest.mark.spark
@pytest.mark.once
def test_hostile_names_leave_neither_line_nor_folder(spark, tmp_path, capsys) -> None:
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
def test_the_names_of_a_run_leave_the_output_neither(spark, tmp_path) -> None:
    """`as_of` and job of a configuration have few characters; a caller from Python may give any."""
    out = tmp_path / "a" / "out"
    out.mkdir(parents=True)
    summary = spark.createDataFrame([("hit@1", 0.5)], "metric string, value double")
    run = Run(run_id="../../x\n", as_of="../../../etc/x")
    publish({"summary": summary}, Output(path=str(out)), run)
    assert [one for one in tmp_path.rglob("*") if one.is_file() and out not in one.parents] == []
    (row,) = read_history(spark, out).collect()
    assert (row["as_of"], row["run_id"]) == (run.as_of, run.run_id)


def test_no_table_is_published_as_text() -> None:
    """A cell such as =1+1 is a formula to a spreadsheet only: no table that a run publishes is a file that one opens.

    The one CSV is that of `to_csv`, which covers such cells (`test_f3_no_name_is_a_formula_in_csv`): none is written beside it.
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


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.b", "`a`.`b`"),
        ("my-cat.recs.`a.b`", "`my-cat`.`recs`.`a.b`"),
        ("`my-cat`.`s`.`t`", "`my-cat`.`s`.`t`"),
        ("a-b.c.d", "`a-b`.`c`.`d`"),
        ("a; DROP TABLE b", "`a; DROP TABLE b`"),
        ("a`; DROP TABLE b", "`a``; DROP TABLE b`"),
        ("`a`; DROP TABLE b", "```a``; DROP TABLE b`"),
        ("`a``b`.c", "`a``b`.`c`"),
    ],
)
def test_names_of_tables_stay_names(name: str, expected: str) -> None:
    assert quoted(name) == expected


@pytest.mark.spark
@pytest.mark.once
def test_i5_tables_with_hyphens_and_dots_are_read(spark) -> None:
    """In a catalog of a database in memory: that of Spark itself has letters, digits and underscores only."""
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", os.devnull)
    catalog = "spark.sql.catalog.my-cat"
    settings = {
        catalog: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"{catalog}.url": "jdbc:derby:memory:names;create=true",
        f"{catalog}.driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        spark.sql("CREATE NAMESPACE `my-cat`.`s-1`")
        for name in ("`my-cat`.`s-1`.`t`", "`my-cat`.`s-1`.`t.u`"):
            spark.createDataFrame([("u", name)], "user_id string, item_id string").writeTo(name).create()
        for name, same in (
            ("my-cat.s-1.t", "`my-cat`.`s-1`.`t`"),
            ("`my-cat`.`s-1`.`t`", "`my-cat`.`s-1`.`t`"),
            ("my-cat.s-1.`t.u`", "`my-cat`.`s-1`.`t.u`"),
        ):
            (row,) = read_table(spark, Location(table=name), "inputs.truth", Vault()).collect()
            assert row["item_id"] == same
        with pytest.raises(DataError, match=r"^inputs\.truth: cannot read table 'my-cat\.s-1\.t\.u': "):
            read_table(spark, Location(table="my-cat.s-1.t.u"), "inputs.truth", Vault())
    finally:
        for key in settings:
            spark.conf.unset(key)


def test_the_token_of_a_remote_session_is_not_told(monkeypatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark.example.com:443/;use_ssl=true;token=hunter2")

    def fail() -> Any:
        raise RuntimeError("no answer")

    lines = [str(check) for check in examine(fail)]
    assert lines[-1].endswith("is there a server at SPARK_REMOTE=sc://spark.example.com:443/?")
