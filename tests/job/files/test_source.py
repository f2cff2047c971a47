"""Parsing YAML, TOML and JSON files, and overrides."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from time import process_time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from job_data import SMALLEST, Rejected, Write, load

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.files.source import DEEPEST, LARGEST_FILE
from spark_recmetrics.storage.locations import Location, Output

TOML = """
as_of = 2026-11-28
inputs = {predictions = {path = "/p"}, truth = {path = "/t"}}
output = {path = "/out"}
[evaluation]
top_k = [5]
"""
JSON = """{
\t"as_of": "2026-11-28",
\t"inputs": {"predictions": {"path": "/p"}, "truth": {"path": "/t"}},
\t"output": {"path": "/out"}, "evaluation": {"top_k": [5]}
}"""
YAML = f"as_of: 2026-11-28\n{SMALLEST}evaluation: {{top_k: [5]}}\n"


@pytest.mark.parametrize(("name", "content"), [("c.toml", TOML), ("c.json", JSON), ("c.yml", YAML)])
def test_all_formats_give_the_same_configuration(write: Write, name: str, content: str) -> None:
    config = load(write(content, name))
    assert config == load(write(f"{SMALLEST}as_of: '2026-11-28'\nevaluation: {{top_k: 5}}\n"))
    assert config.evaluation.top_k == (5,)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a\ud800", "string that UTF-8 can encode"),
        *((name, "non-blank string without control characters") for name in ("a\u2028b", "\x7f", "\x00")),
    ],
)
def test_names_that_break_lines_are_rejected(rejected: Rejected, name: str, expected: str) -> None:
    (line,) = rejected(
        json.dumps(
            {"inputs": {"predictions": {"path": "p"}, "truth": {"path": "t"}}, "output": {"path": "o"}, "model_name": name}
        ),
        name="c.json",
    )
    assert line.startswith(f"c.json: model_name: expected a {expected}, found ")
    line.encode()


def test_a_key_that_is_not_text_hides_no_other_error(rejected: Rejected) -> None:
    inputs = {"predictions": {"path": "p"}, "truth": {"path": "t"}}
    content = {"inputs": inputs, "output": {"path": "o"}, "a\ud800": 1, "evaluation": {"metrics": ["ndcg@"]}}
    lines = rejected(json.dumps(content), name="c.json")
    assert [line.split(": ", 2)[1] for line in lines] == [r"['a\ud800']", "evaluation.metrics[0]"]


@pytest.mark.parametrize("place", ["", "evaluation: ", "columns: ", "evaluation: {convention: ", "inputs: {truth: {options: "])
@pytest.mark.parametrize("key", ["spark", "spark.sql.shuffle.partitions"])
def test_spark_settings_are_rejected_anywhere(rejected: Rejected, place: str, key: str) -> None:
    nested = f"{place}{{{key}: 5}}" + "}" * place.count("{") if place else f"{key}: 5"
    lines = rejected(f"output: {{path: /o}}\n{nested}\n")
    matches = [line for line in lines if "Spark settings belong in spark-submit --conf or conf/spark-defaults.conf" in line]
    assert len(matches) == 1
    assert matches[0].startswith("c.yaml:2: ")
    assert key in matches[0]
    assert not [line for line in lines if "unknown key" in line and "spark" in line]


@pytest.mark.parametrize(
    ("content", "name", "line"),
    [
        ("", "c.yaml", "c.yaml: expected a mapping of keys to values, found nothing: the file is empty"),
        ("# only this\n", "c.yaml", "c.yaml: expected a mapping of keys to values, found nothing: the file is empty"),
        (" \n", "c.json", "c.json: expected a mapping of keys to values, found nothing: the file is empty"),
        ("", "c.toml", "c.toml: expected a mapping of keys to values, found nothing: the file is empty"),
        ("- 1\n", "c.yaml", "c.yaml: expected a mapping of keys to values, found a list"),
        ("text", "c.yaml", "c.yaml: expected a mapping of keys to values, found 'text'"),
        ("[1]", "c.json", "c.json: expected a mapping of keys to values, found a list"),
        (b"job: a\nas_of: \xff\n", "c.yaml", "c.yaml:2: expected UTF-8, found the byte 0xff"),
        (b"\xef\xbb\xbfa: \xff\nb: c\n", "c.yaml", "c.yaml:1: expected UTF-8, found the byte 0xff"),
        ("job: x\n", "c.txt", "c.txt: expected a file that ends in .yaml, .yml, .json, .toml"),
        ("job: a\njob: b\n", "c.yaml", "c.yaml:2: job: duplicate key, first in line 1"),
        (
            f"{SMALLEST}evaluation:\n  k: 5\n  metrics: [hit]\n  k: 10\n",
            "c.yaml",
            "c.yaml:8: evaluation.k: duplicate key, first in line 6",
        ),
        (
            f"{SMALLEST}evaluation: {{top_k: 5,\n  top_k: 10}}\n",
            "c.yaml",
            "c.yaml:6: evaluation.top_k: duplicate key, first in line 5",
        ),
        ('{"job": 1,\n\t"job": 2}', "c.json", "c.json:2: job: duplicate key, first in line 1"),
        ("job = 1\njob = 2\n", "c.toml", "c.toml: Cannot overwrite a value"),
        ('{"job":\n 1,}', "c.json", "c.json:2: "),
        ("job: [\n", "c.yaml", "c.yaml:2: expected the node content, but found '<stream end>'"),
        ("job: a\n\x07: b\n", "c.yaml", "c.yaml:2: special characters are not allowed"),
        ("a: 1\n---\nb: 2\n", "c.yaml", "c.yaml:2: but found another document"),
        ("a: &x [1]\nb: *x\n", "c.yaml", "c.yaml:2: aliases (*name) are not supported: repeat the value"),
        ("a: &a\n  b: *a\n", "c.yaml", "c.yaml:2: aliases (*name) are not supported"),
        (
            "job: !!python/object/apply:os.system [echo]\n",
            "c.yaml",
            "c.yaml:1: job: the tag !!python/object/apply:os.system is not supported",
        ),
        ("job: !!timestamp 2026-11-28\n", "c.yaml", "c.yaml:1: job: the tag !!timestamp is not supported"),
        ("inputs: !x {}\n", "c.yaml", "c.yaml:1: inputs: the tag !x is not supported: write a plain value"),
        ("job: !!int x\n", "c.yaml", "c.yaml:1: job: expected int, found 'x'"),
        ("? [a]\n: b\n", "c.yaml", "c.yaml:1: expected a plain string as key"),
        ("? !!python/name:os.system x\n: b\n", "c.yaml", "c.yaml:1: expected a plain string as key"),
        (f"job: {'1' * 5000}\n", "c.yaml", "c.yaml:1: job: expected int, found '1111"),
        (f"job: {'[' * 10_000}\n", "c.yaml", f"c.yaml:1: nested deeper than {DEEPEST} levels"),
        ("- " * 10_000, "c.yaml", f"c.yaml:1: nested deeper than {DEEPEST} levels"),
        (f'{{"job": {"[" * 100}{"]" * 100}}}', "c.json", f"c.json: job[0]: nested deeper than {DEEPEST} levels"),
        (f'{{"job": {"[" * 200_000}{"]" * 200_000}}}', "c.json", f"c.json: nested deeper than {DEEPEST} levels"),
        (f"job = {'[' * 20_000}{']' * 20_000}\n", "c.toml", f"c.toml: nested deeper than {DEEPEST} levels"),
        ("#" * (LARGEST_FILE + 1), "c.yaml", f"c.yaml: expected at most {LARGEST_FILE} bytes of configuration"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_unreadable_files(rejected: Rejected, content: str | bytes, name: str, line: str) -> None:
    assert any(error.startswith(line) for error in rejected(content, name=name))


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("c.yaml", f"job: x\nevaluation:\n  n_buckets: {'1' * 5000}\n", "3: evaluation.n_buckets: expected int, found '1111"),
        (
            "c.json",
            f'{{"job": "{"2" * 5000}",\n "evaluation":\n {{"top_k": [5, -{"1" * 5000}]}}}}',
            "3: evaluation.top_k[1]: expected a number that a double can hold, found -1111",
        ),
        (
            "c.toml",
            f"[evaluation]\nthreshold = {'0.' + '2' * 5000}\nn_buckets = {'1' * 5000}\n",
            "3: evaluation.n_buckets: expected a number that a double can hold, found 1111",
        ),
    ],
)
def test_an_integer_of_thousands_of_digits_has_its_key_and_line(
    rejected: Rejected, name: str, content: str, place: str
) -> None:
    lines = rejected(content, name=name)
    assert [line for line in lines if line.startswith(f"{name}:{place}")]
    assert all(len(line) < 200 for line in lines)


@pytest.mark.parametrize(("name", "form"), [("c.yaml", "k{}: 1"), ("c.json", '"k{}": 1'), ("c.toml", "k{} = 1")])
def test_files_of_many_keys_are_rejected_quickly(rejected: Rejected, name: str, form: str) -> None:
    """The numbers of a file with 100,000 unknown keys: one error in less than 2 seconds of CPU time."""
    separator, around = (",\n", "{{{}}}") if name == "c.json" else ("\n", "{}")
    begun = process_time()
    lines = rejected(around.format(separator.join(form.format(n) for n in range(70_000))), name=name)
    assert process_time() - begun < 2
    assert re.fullmatch(rf"{re.escape(name)}(:\d+)?: expected at most 10000 values", lines[0])


def test_at_most_fifty_errors_are_shown_and_keys_are_cut(rejected: Rejected) -> None:
    lines = rejected(SMALLEST + "".join(f"{'k' * 100}{n}: 1\n" for n in range(9000)))
    assert len(lines) == 51
    assert lines[0].startswith(f"c.yaml:5: {'k' * 77}...: unknown key; known: as_of, ")
    assert lines[-1] == "c.yaml: and 8950 more errors"


def test_a_pipe_is_rejected_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.yaml")
    (tmp_path / "null.yaml").symlink_to("/dev/zero")
    for name in ("c.yaml", "null.yaml"):
        with pytest.raises(ConfigError, match=r"cannot read the configuration: expected a file, found a pipe or a device$"):
            load(tmp_path / name)


def test_alias_bomb_stays_small(rejected: Rejected) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert rejected(bomb) == ["c.yaml:2: aliases (*name) are not supported: repeat the value"]


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.yaml: cannot read the configuration: No such file or directory"):
        load(tmp_path / "no.yaml")
    (tmp_path / "d.yaml").mkdir()
    with pytest.raises(ConfigError, match=r"d\.yaml: cannot read the configuration: Is a directory"):
        load(tmp_path / "d.yaml")
    with pytest.raises(ConfigError, match="cannot read the configuration: embedded null byte"):
        load("x\0.yaml")


def test_byte_order_mark_is_ignored(write: Write) -> None:
    assert load(write(b"\xef\xbb\xbf" + SMALLEST.encode())) == load(write(SMALLEST))


def test_yaml_1_2_values(write: Write) -> None:
    options = "{a: no, b: on, c: 2026-11-28, d: 12:30:45, e: 1_000, f: Yes, g: '1e-3', h: '=', no: x, on: x, 1: x, ~: x}"
    config = load(
        write(SMALLEST.replace("{path: /t}", f"{{path: /t, options: {options}}}") + "evaluation: {threshold: 1e-3}\n")
    )
    values = {"a": "no", "b": "on", "c": "2026-11-28", "d": "12:30:45", "e": "1_000", "f": "Yes", "g": "1e-3", "h": "="}
    assert config.inputs.truth.options == values | dict.fromkeys(("no", "on", "1", "~"), "x")
    assert config.evaluation.threshold == 1 / 1000


def test_f1_the_limit_of_a_gate_in_scientific_notation_is_a_number(write: Write) -> None:
    gate = "{metric: ndcg@10, max_drop: 1e-3, against: model(pop), model: als}"
    (read,) = load(write(f"{SMALLEST}gates: [{gate}]\n")).gates
    assert isinstance(read.max_drop, float)
    assert read.max_drop == 1 / 1000
    (changed,) = load(write(f"{SMALLEST}gates: [{gate}]\n"), ["gates[0].max_drop=5e-4"]).gates
    assert changed.max_drop == 5 / 10_000


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(st.sampled_from("ab:-?[]{}&*!#|>'\"%@`,\n\t ~1.\x85\u2028\ud7ff")), override=st.text(max_size=12))
@example(content="%YAML 9.9\n---\na: 1", override="a=%")
@example(content="a: !<tag:yaml.org,2002:python/none> x", override="a=[")
@example(content="a: 1\n", override="a[\u00b2]=1")
def test_any_text_is_read_or_rejected(write: Write, content: str, override: str) -> None:
    for text, overrides in ((content, []), (SMALLEST, [override]), (SMALLEST, [f"job={content}"])):
        with suppress(ConfigError):
            load(write(text), overrides)


def test_overrides(write: Write) -> None:
    text = SMALLEST + "evaluation:\n  metrics: [ndcg, map]\n  threshold: 3\n"
    overrides = [
        "evaluation.top_k=[5, 20]",
        "evaluation.metrics[1]=f1(ndcg, map, beta=0.5)",
        "evaluation.threshold=",
        "inputs.truth.path=s3://b/t=1 # x",
        'inputs.truth.options.header="true"',
        "inputs.truth.options['a.b']=x: y",
        "columns.rank=position",
        "evaluation.convention={name: ranx, users: all}",
        "as_of=2026-11-28",
        "output={table_prefix: a.b_}",
    ]
    config = load(write(text), overrides)
    assert config.evaluation.top_k == (5, 20)
    assert [str(m) for m in config.evaluation.metrics] == ["ndcg", "f1(ndcg, map, beta=0.5)"]
    assert config.evaluation.threshold is None
    assert config.inputs.truth == Location(path="s3://b/t=1 # x", options={"header": "true", "a.b": "x: y"})
    assert config.columns.rank == "position"
    assert str(config.evaluation.convention) == "ranx(users=all)"
    assert config.as_of == "2026-11-28"
    assert config.output == Output(table_prefix="a.b_")


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("evaluation.k=0", "evaluation.k: expected an integer of at least 1, found 0"),
        ("evaluation.k=[5, 0]", "evaluation.k[1]: expected an integer of at least 1, found 0"),
        ("evaluation.metrics=[ndgc]", "evaluation.metrics[0]: 'ndgc': unknown metric 'ndgc'; did you mean 'ndcg'?"),
        ("evalation.k=5", "evalation: unknown key; did you mean 'evaluation'?"),
        ("evaluation.kk=5", "evaluation.kk: unknown key; "),
        ("inputs.truth.fromat=csv", "inputs.truth.fromat: unknown key; did you mean 'format'?"),
        ("spark.sql.ansi.enabled=true", "spark: Spark settings belong in "),
        ("job=[a", "job: expected ',' or ']', but got '<stream end>': write a string in quotes"),
        ("job={a: *b}", "job: aliases (*name) are not supported"),
        ("job={a: 1, a: 1}", "job.a: duplicate key"),
        ("job=[!!python/name:os.system x]", "job[0]: the tag !!python/name:os.system is not supported"),
        ("evaluation.top_k[0]=5", "evaluation.top_k is nothing: there is no evaluation.top_k[0]"),
        ("inputs.predictions[0]=5", "inputs.predictions is a mapping: there is no inputs.predictions[0]"),
        ("inputs.truth.path.x=5", "inputs.truth.path is '/t': there is no inputs.truth.path.x"),
        ("[0]=5", "the file is a mapping: there is no [0]"),
        ("job", "expected key.key=value or key[index]=value"),
        ("=5", "expected key.key=value or key[index]=value"),
        ("a..b=5", "expected key.key=value or key[index]=value"),
        ("a[x]=5", "expected key.key=value or key[index]=value"),
        ("", "expected key.key=value or key[index]=value"),
    ],
)
def test_wrong_overrides_name_themselves(rejected: Rejected, override: str, line: str) -> None:
    lines = rejected(SMALLEST, override)
    assert lines[0].startswith(f"--set {override}: {line}")


def test_index_out_of_range(rejected: Rejected) -> None:
    assert rejected(SMALLEST + "evaluation: {metrics: [ndcg]}\n", "evaluation.metrics[1]=map") == [
        "--set evaluation.metrics[1]=map: evaluation.metrics is a list of 1: there is no evaluation.metrics[1]"
    ]


def test_an_error_has_no_control_characters(rejected: Rejected) -> None:
    (line,) = rejected(SMALLEST + 'evaluation: {slices: ["\\b"]}\n')
    assert line.startswith("c.yaml:5: evaluation.slices[0]: \N{REPLACEMENT CHARACTER}")
