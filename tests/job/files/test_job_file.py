"""What the configurations of all jobs have in common: as_of in paths, hash and run id, messages for errors of pydantic."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_data import CONF, SMALLEST, Rejected, Write, load

from spark_recmetrics.errors import ConfigError


def test_missing_sections(rejected: Rejected) -> None:
    assert rejected("job: x\n") == [
        "c.yaml: inputs: missing: this key has no default",
        "c.yaml: output: missing: this key has no default",
    ]


def resolved_paths(node: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*keys, key)
        yield from resolved_paths(value, (*keys, key))


RESOLVED = load(CONF / "demo.yaml").resolved()
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["ndcg@0", "f1(", "{as_of}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.sampled_from(list(resolved_paths(RESOLVED))), value=ANYTHING)
def test_any_value_anywhere_is_read_or_rejected(write: Write, keys: tuple[Any, ...], value: Any) -> None:
    changed = json.loads(json.dumps(RESOLVED))
    place = changed
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    try:
        config = load(write(json.dumps(changed), "c.json"))
    except ConfigError as error:
        assert all(line.isprintable() and "c.json: " in line for line in str(error).split("\n"))  # noqa: PT017
    else:
        assert json.dumps(config.resolved(), allow_nan=False)


def test_errors_of_file_and_overrides_are_reported_together(rejected: Rejected) -> None:
    assert rejected(SMALLEST + "jub: x\nevaluation: {k: 0}\n", "evaluation.k=5", "evaluation.threshold=x") == [
        "c.yaml:5: jub: unknown key; did you mean 'job'?",
        "--set evaluation.threshold=x: evaluation.threshold: expected a finite number, found 'x'",
    ]


def test_the_hash_without_a_format_is_that_of_versions_in_which_parquet_was_the_default(write: Write) -> None:
    tables = "inputs: {predictions: {path: /p}, truth: {path: /t}, catalog: {table: a.b}}\noutput: {path: /o}\n"
    assert load(write(tables)).hash == "fff6ee1e42e22b77"
    named = tables.replace("path: /p", "path: /p, format: parquet")
    assert load(write(named)).hash == "fff6ee1e42e22b77"


@pytest.mark.parametrize("as_of", ["2026-02-28", "2028-02-29T23:59", "2026-13", "20261301", "2026-13-011", "v2026-13-01"])
def test_a_label_is_a_valid_date_or_another_format(write: Write, as_of: str) -> None:
    assert load(write(SMALLEST), as_of=as_of).as_of == as_of


@pytest.mark.parametrize("as_of", ["", "a b", "a/b", "..", "a\n", "²", "\ud800", '"', "$x"])
def test_as_of_of_the_command_line_is_checked(write: Write, as_of: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^--as-of .*: as_of: expected a string (of the characters|that UTF-8 can encode)[^\n]*$"
    ):
        load(write(SMALLEST), as_of=as_of)


def test_as_of_of_the_command_line_overrides_the_file(write: Write) -> None:
    config = load(write(f"{SMALLEST}as_of: a\n"), ["as_of=b"], "20261128")
    assert config.as_of == "20261128"


@pytest.mark.parametrize("name", ["[table]", "[key]", "catalog"])
def test_models_can_be_named_like_parts_of_a_location(rejected: Rejected, name: str) -> None:
    models = json.dumps({name: {"predictions": {"path": "/p", "fromat": "csv"}}})
    (line,) = rejected(f"inputs: {{truth: {{path: /t}}, models: {models}}}\noutput: {{path: /o}}\n")
    assert line.endswith(".predictions.fromat: unknown key; did you mean 'format'?")


def test_equivalent_files_have_the_same_hash(write: Write) -> None:
    config = load(write(SMALLEST))
    assert re.fullmatch("[0-9a-f]{16}", config.hash)
    assert re.fullmatch("r[0-9a-f]{12}", config.run_id)
    same = [
        ("evaluation: {top_k: 10}", []),
        ("evaluation: {k: [10], metrics: [Precision, recall, nDCG, map, MRR, hit_rate]}", []),
        ("evaluation: {convention: {name: default, relevance: positive}}", []),
        ("columns: {item: item_id}", []),
        ("as_of: x", []),
        ("report: /r.html", []),
        ("job: x", ["job=evaluate"]),
    ]
    assert {load(write(f"{SMALLEST}{text}\n"), overrides).hash for text, overrides in same} == {config.hash}
    others = [
        "job: x",
        "evaluation: {top_k: 5}",
        "evaluation: {convention: mllib}",
        "evaluation: {threshold: 1}",
        "model_name: x",
    ]
    hashes = {load(write(f"{SMALLEST}{text}\n")).hash for text in others}
    assert len(hashes | {config.hash}) == len(others) + 1


def test_run_id_depends_on_job_as_of_and_configuration(write: Write) -> None:
    given = [([], None), ([], "a"), ([], "b"), (["job=x"], "a")]
    ids = [load(write(SMALLEST), overrides, as_of).run_id for overrides, as_of in given]
    assert len(set(ids)) == len(ids)
    assert ids[1] == load(write(SMALLEST), ["as_of=a"]).run_id


def test_reading_is_quick_starts_nothing_and_gives_the_same_hash_in_every_process(write: Write) -> None:
    valid, wrong = (
        write(SMALLEST + "evaluation: {convention: jurity}\n"),
        write(SMALLEST + "evaluation: {k: 0}\n", "wrong.yaml"),
    )
    code = """
import sys, time
from spark_recmetrics.job.files.config import Config
from spark_recmetrics.job.files.source import Source
from spark_recmetrics.errors import ConfigError
print(Config.read(Source(sys.argv[1])).hash)
try:
    Config.read(Source(sys.argv[2]))
except ConfigError as error:
    print(error.exit_code, time.process_time() < 3, "pandas" in sys.modules)  # CPU time: other processes may be busy
from pyspark.sql import SparkSession
print(SparkSession.getActiveSession())
"""
    command = [sys.executable, "-W", "error", "-c", code, str(valid), str(wrong)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONHASHSEED": "7"})
    assert run.stdout.split() == [load(valid).hash, "2", "True", "False", "None"]
