"""Secrets in a configuration: references, and values that may not be in a file."""

from __future__ import annotations

import json

import pytest
import yaml
from job_data import ROOT, SMALLEST, VALUE, WITH_SECRETS, Rejected, Write, hides_password, load

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.cli import main
from spark_recmetrics.job.files.config import Config
from spark_recmetrics.storage.credentials import Secret, Vault, masked_override
from spark_recmetrics.storage.locations import Location, Output


def test_a_reference_is_read_and_a_string_stays_a_string(write: Write) -> None:
    config = load(write(WITH_SECRETS))
    assert config.inputs.truth.options == {"fs.s3a.secret.key": Secret("env:RECMETRICS_TEST_B"), "sep": "env:x"}
    scoped = load(write(SMALLEST), ["inputs.truth.options.password={secret: recs.prod/s3-key}"])
    assert scoped.inputs.truth.options == {"password": Secret("recs.prod/s3-key")}


def test_secrets_are_not_hashed_and_not_printed(write: Write, monkeypatch, capsys) -> None:
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
    assert hides_password(printed + repr(config) + str(config.resolved()))
    assert "secret: env:RECMETRICS_TEST_A" in printed
    assert load(path, ["inputs.truth.options['fs.s3a.secret.key']={secret: env:OTHER}"]).hash != config.hash


@pytest.mark.parametrize("key", ["train", "catalog", "rating_predictions"])
def test_every_table_can_have_a_secret(write: Write, rejected: Rejected, monkeypatch, key: str) -> None:
    content = SMALLEST.replace(
        "inputs:", f"inputs:\n  {key}: {{path: /x, options: {{token: {{secret: env:RECMETRICS_TEST_A}}}}}}"
    )
    table = getattr(load(write(content)).inputs, key)
    monkeypatch.setenv("RECMETRICS_TEST_A", VALUE)
    assert Vault().options(table.options, f"inputs.{key}") == {"token": VALUE}
    (line,) = rejected(content.replace("{secret: env:RECMETRICS_TEST_A}", "5"))
    assert line.startswith(f"c.yaml:2: inputs.{key}.options.token: expected a reference to a secret")
    (line,) = rejected(content.replace("token: {secret: env:RECMETRICS_TEST_A}", "header: 5"))
    assert line == f"c.yaml:2: inputs.{key}.options.header: expected a string, found 5: write it in quotes"


@pytest.mark.parametrize("name", ["r.yaml", "r.json"])
def test_resolved_secrets_read_as_the_same_configuration(write: Write, name: str) -> None:
    config = load(write(WITH_SECRETS))
    text = json.dumps(config.resolved()) if name.endswith("json") else yaml.safe_dump(config.resolved())
    again = load(write(text, name))
    assert again == config
    assert again.hash == config.hash


def test_the_schema_has_both_forms() -> None:
    option = Config.file_schema()["$defs"]["Location"]["properties"]["options"]["additionalProperties"]
    assert option["anyOf"][0] == {"type": "string"}
    assert option["anyOf"][1]["required"] == list(option["anyOf"][1]["properties"]) == ["secret"]
    assert option["anyOf"][1]["additionalProperties"] is False


def test_the_documented_alternative_is_valid(write: Write) -> None:
    text = (ROOT / "conf" / "evaluate.yaml").read_text(encoding="utf-8")
    lines = text[text.index("    # options:") :].splitlines()[:3]
    options = yaml.safe_load("\n".join(line.replace("    # ", "", 1).partition(" # ")[0] for line in lines))["options"]
    read_options = load(write(SMALLEST), [f"inputs.truth.options={json.dumps(options)}"]).inputs.truth.options
    assert list(read_options.values()) == [Secret("env:S3_SECRET")]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{secret: hunter2}", "expected env:NAME or scope/key, found another string, which is not shown here"),
        ("{secret: 'env:hunter2!'}", "expected env:NAME or scope/key, found another string, which is not shown here"),
        ("{secret: 'hunter2/a+b=='}", "expected env:NAME or scope/key, found another string, which is not shown here"),
        ("{secret: 'env:'}", "expected env:NAME or scope/key, found another string, which is not shown here"),
        ("{secret: a/b/c}", "expected env:NAME or scope/key, found another string, which is not shown here"),
        ("{secret: [hunter2]}", "expected env:NAME or scope/key, found list, which is not shown here"),
        ("{secert: hunter2}", "expected a string, {secret: env:NAME} or {secret: scope/key}, found a mapping with other keys"),
        ("{secret: env:A, value: hunter2}", "expected a string, {secret: env:NAME} or {secret: scope/key}, found a mapping"),
        ("{}", "expected a string, {secret: env:NAME} or {secret: scope/key}, found a mapping with other keys"),
    ],
)
def test_wrong_references_are_reported_by_key_and_not_shown(rejected: Rejected, value: str, message: str) -> None:
    content = SMALLEST.replace("{path: /t}", f"{{path: /t, fromat: x, options: {{header: {value}}}}}")
    lines = sorted(rejected(content))
    assert lines[0] == "c.yaml:3: inputs.truth.fromat: unknown key; did you mean 'format'?"
    assert lines[1].startswith(f"c.yaml:3: inputs.truth.options.header: {message}")
    assert len(lines) == 2
    assert hides_password(str(lines))


@pytest.mark.parametrize("key", ["path", "table", "format"])
def test_only_options_can_be_secrets(rejected: Rejected, key: str) -> None:
    lines = rejected(SMALLEST.replace("{path: /t}", f"{{{key}: {{secret: env:A}}}}"))
    assert any(line.startswith(f"c.yaml:3: inputs.truth.{key}: expected ") for line in lines)
    assert "expected a string" in rejected(SMALLEST, "model_name={secret: env:A}")[0]


@pytest.mark.parametrize("value", ["hunter2", "'hunter2'", "123454321", "true"])
def test_a_plain_credential_is_rejected_at_its_line(rejected: Rejected, value: str) -> None:
    told = "expected a reference to a secret, found its value: write {secret: env:NAME}, and set that environment variable"
    content = SMALLEST.replace("  truth: {path: /t}", f"  truth:\n    path: /t\n    options:\n      password: {value}")
    (line,) = rejected(content)
    assert line == f"c.yaml:6: inputs.truth.options.password: {told}"
    for override in (f"inputs.truth.options.password={value}", f"inputs.truth={{path: /t, options: {{password: {value}}}}}"):
        (line,) = rejected(SMALLEST, override)
        assert line == f"--set {override.partition('=')[0]}=***: inputs.truth.options.password: {told}"
    models = f"{{models: {{als: {{predictions: {{path: /p, options: {{secret: {value}}}}}}}}}, truth: {{path: /t}}}}"
    (line,) = rejected(f"output: {{path: /o}}\ninputs: {models}\n")
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
def test_an_address_with_a_password_is_rejected(rejected: Rejected, key: str, address: str) -> None:
    (line,) = rejected(SMALLEST, f"{key}={address}")
    assert line.startswith("--set ")
    assert f"{key}: expected an address without a password, found one (not shown): " in line
    assert hides_password(line)
    for kind in (Location, Output):
        with pytest.raises(ConfigError, match=r"^path: expected an address without a password") as caught:
            kind(path=address)
        assert hides_password(str(caught.value))


def test_overrides_are_shown_without_credentials(rejected: Rejected) -> None:
    assert masked_override("evaluation.k=5") == "evaluation.k=5"
    assert masked_override("inputs.truth={path: x, options: {token: hunter2}}") == "inputs.truth=***"
    (line,) = rejected(SMALLEST.replace("/t", "s3://ann:hunter2@b"), "inputs.truth.path.x=5")[1:]
    assert line == "--set inputs.truth.path.x=5: inputs.truth.path is 's3://ann:***@b': there is no inputs.truth.path.x"
