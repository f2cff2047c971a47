"""The JSON Schema, and the files in conf/: every key is documented with its default."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from job_data import CONF, DEFAULT_METRICS, Write, load

from spark_recmetrics.columns import Columns
from spark_recmetrics.conventions import CHOICES, CONVENTIONS
from spark_recmetrics.job.files.config import Config, Inputs
from spark_recmetrics.metrics import parse
from spark_recmetrics.storage.locations import Location


def keys_of(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from node.get("properties", ())
        for value in node.values():
            yield from keys_of(value)
    elif isinstance(node, list):
        for value in node:
            yield from keys_of(value)


def test_schema_has_every_key_and_default() -> None:
    schema = Config.file_schema()
    assert json.loads(json.dumps(schema)) == schema
    assert set(schema["properties"]) == set(Config.model_fields)
    evaluation = schema["$defs"]["Evaluation"]["properties"]
    assert evaluation["metrics"]["default"] == DEFAULT_METRICS
    assert {"k", "top_k", "convention"} <= set(evaluation)
    assert evaluation["convention"]["default"] == "default"
    assert schema["$defs"]["Inputs"]["properties"]["truth"]["description"].startswith("Ground truth")
    objects = [node for node in schema["$defs"].values() if node.get("type") == "object"]
    assert all(node["additionalProperties"] is False for node in [schema, *objects])


EVALUATE = CONF / "evaluate.yaml"


def uncommented(key: str) -> Any:
    """The value of an alternative in conf/evaluate.yaml: the comment lines from `# key:`."""
    lines = EVALUATE.read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if re.match(rf"\s*# {key}:", line))
    depth = lines[start].index("#")
    block = [lines[start][depth + 2 :]]
    for line in lines[start + 1 :]:
        if line[:depth].strip() or not line[depth:].startswith("#   "):
            break
        block.append(line[depth + 2 :])
    return yaml.safe_load("\n".join(block))[key]


def test_documented_file_has_every_key_with_its_default(write: Write) -> None:
    text = EVALUATE.read_text()
    missing = {key for key in keys_of(Config.file_schema()) if not re.search(rf"^[\s#{{-]*{key}: ?", text, re.MULTILINE)}
    assert not missing
    without_defaults = {
        "inputs": {"predictions": {"path": "/data/predictions"}, "truth": {"path": "/data/truth"}},
        "output": {"path": "/data/results"},
    }
    assert load(EVALUATE).resolved() == load(write(json.dumps(without_defaults), "c.json")).resolved()
    active = yaml.safe_load(text)
    for section, model in (("evaluation", load(EVALUATE).evaluation), ("inputs", load(EVALUATE).inputs)):
        assert set(type(model).model_fields) - set(active[section]) <= {"models"}
    assert set(active) == set(Config.model_fields)
    assert set(active["columns"]) == {f.name for f in dataclasses.fields(Columns)}


def test_documented_convention_is_the_default_one() -> None:
    written = uncommented("convention")
    default = load(EVALUATE).resolved()["evaluation"]["convention"]
    assert written == default
    assert load(EVALUATE, [f"evaluation.convention={json.dumps(written)}"]).hash == load(EVALUATE).hash


def test_documented_file_names_every_legal_value() -> None:
    text = EVALUATE.read_text()
    for option, values in CHOICES.items():
        (rest,) = re.findall(rf"^  #   {option}: (.*(?:\n  #    +#.*)*)", text, re.MULTILINE)
        assert not [value for value in values if not re.search(rf"\b{value}\b", rest)], option
    assert not [name for name in CONVENTIONS if not re.search(rf"\b{name}\b", text)]
    for kind in ("parquet", "csv", "json", "orc", "delta"):
        assert kind in text


def test_documented_alternatives_are_valid() -> None:
    models = json.dumps(uncommented("models"))
    config = load(EVALUATE, ["inputs.predictions=", f"inputs.models={models}"])
    assert isinstance(config.inputs, Inputs)
    assert list(config.inputs.models or ()) == ["als"]
    table = uncommented("table")
    assert load(EVALUATE, [f"inputs.predictions={{table: {table}}}"]).inputs.predictions == Location(table=table)
    prefix = uncommented("table_prefix")
    config = load(EVALUATE, [f"output={{table_prefix: {prefix}}}"])
    assert config.output.table("summary") == f"{prefix}summary"
    metrics = json.dumps(uncommented("complex_metrics"))
    assert load(EVALUATE, [f"evaluation.complex_metrics={metrics}"]).evaluation.expanded[-1] == parse(
        "f1(ndcg, map, beta=0.5)@10"
    )
    assert uncommented("k") == 10


@pytest.mark.parametrize("path", sorted({*CONF.glob("*.yaml")} - {CONF / "split.yaml"}), ids=lambda path: path.name)
def test_files_of_conf_are_valid(path: Path) -> None:
    assert load(path).evaluation.expanded


def test_spark_defaults_are_settings_of_spark() -> None:
    lines = (CONF / "spark-defaults.conf").read_text().splitlines()
    settings = dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))
    assert all(name.startswith("spark.") and value == value.strip() for name, value in settings.items())
    assert settings["spark.sql.session.timeZone"] == "UTC"
    # The workers use the Python of the driver; a path here would break other machines.
    assert not [name for name in settings if "python" in name and "arrow" not in name]
