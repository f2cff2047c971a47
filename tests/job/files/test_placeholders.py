"""Placeholders in a configuration: `{as_of}` is filled in everywhere in inputs and output, and any other one is rejected."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from job_data import SMALLEST, Rejected, Write, load

from spark_recmetrics.job.files.job_file import Job
from spark_recmetrics.job.files.source import Source
from spark_recmetrics.storage.locations import Location, Output

PLACED = """\
inputs:
  models: {als: {predictions: {path: "/p/{as_of}/{a,b}"}}}
  truth: {path: "/t/{as_of}"}
  train: {path: "/s/{as_of}"}
  catalog: {path: "/c/{as_of}"}
output: {path: "/out/{as_of}"}
"""


def test_placeholder_is_filled_in_and_not_hashed(write: Write) -> None:
    config = load(write(PLACED), as_of="2026-11-28")
    inputs = config.inputs
    assert config.as_of == "2026-11-28"
    assert inputs.models is not None
    assert inputs.train is not None
    assert isinstance(inputs.catalog, Location)
    places = (inputs.models["als"].predictions, inputs.truth, inputs.train, inputs.catalog)
    paths = [config.located(place).path for place in places]
    assert paths == ["/p/2026-11-28/{a,b}", "/t/2026-11-28", "/s/2026-11-28", "/c/2026-11-28"]
    assert config.located(config.output).table("summary") == "/out/2026-11-28/summary"
    assert inputs.truth.path == "/t/{as_of}"
    other = load(write(PLACED), as_of="2026-11-29")
    assert (other.hash, other.run_id == config.run_id) == (config.hash, False)
    assert load(write(f"{PLACED}as_of: x\n"), ["as_of=2026-11-28"]).run_id == config.run_id


def test_a_placeholder_without_as_of_is_rejected_by_key(rejected: Rejected) -> None:
    assert rejected(PLACED) == [
        f"c.yaml:{line}: {key}.path: {path!r} needs an as_of: give --as-of, or as_of in the file"
        for line, key, path in (
            (2, "inputs.models.als.predictions", "/p/{as_of}/{a,b}"),
            (3, "inputs.truth", "/t/{as_of}"),
            (4, "inputs.train", "/s/{as_of}"),
            (5, "inputs.catalog", "/c/{as_of}"),
            (6, "output", "/out/{as_of}"),
        )
    ]


EVERYWHERE = """\
as_of: "2026-11-28"
inputs:
  predictions: {table: "recs.lists_{as_of}", options: {versionAsOf: "v{as_of}"}, where: {day: "{as_of}", t: [a, "{as_of}"]}}
  truth: {path: "/t/{as_of}", where: {n: 7, ok: true}}
output: {table_prefix: "recs.out_{as_of}_"}
report: "/r/{as_of}.html"
"""


def test_as_of_is_filled_in_everywhere(write: Write) -> None:
    config = load(write(EVERYWHERE))
    assert config.located(config.inputs.predictions or Location()) == Location(
        table="recs.lists_2026-11-28",
        options={"versionAsOf": "v2026-11-28"},
        where={"day": "2026-11-28", "t": ["a", "2026-11-28"]},
    )
    assert config.located(config.inputs.truth) == Location(path="/t/2026-11-28", where={"n": 7, "ok": True})
    assert config.located(config.output) == Output(table_prefix="recs.out_2026-11-28_")
    assert config.report_path == "/r/2026-11-28.html"


def test_all_places_that_need_an_as_of_are_named_at_once(rejected: Rejected) -> None:
    needs = "needs an as_of: give --as-of, or as_of in the file"
    assert rejected(EVERYWHERE.replace('as_of: "2026-11-28"', "jub: x")) == [
        "c.yaml:1: jub: unknown key; did you mean 'job'?",
        f"c.yaml:3: inputs.predictions.table: 'recs.lists_{{as_of}}' {needs}",
        f"c.yaml:3: inputs.predictions.options.versionAsOf: 'v{{as_of}}' {needs}",
        f"c.yaml:3: inputs.predictions.where.day: '{{as_of}}' {needs}",
        f"c.yaml:3: inputs.predictions.where.t[1]: '{{as_of}}' {needs}",
        f"c.yaml:4: inputs.truth.path: '/t/{{as_of}}' {needs}",
        f"c.yaml:5: output.table_prefix: 'recs.out_{{as_of}}_' {needs}",
        f"c.yaml:6: report: '/r/{{as_of}}.html' {needs}",
    ]


TEMPLATE = (
    "found '{{ ds }}', which nothing fills in: Airflow fills its templates only in fields that are templated: "
    "write {as_of} here, and give --as-of there"
)
VARIABLE = "found '${DAY}', which nothing fills in: write the value, or give it with --set"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("inputs.truth.path", "s3://x/{{ ds }}", TEMPLATE),
        ("inputs.truth.path", "s3://x/${DAY}", VARIABLE),
        ("inputs.truth.path", "s3://x/$(date +%F)", "found '$(date +%F)', which nothing fills in: write the value"),
        ("inputs.truth.path", "s3://x/{date}/{as_of}", "unknown placeholder {date} in 's3://x/{date}/{as_of}'; known: as_of"),
        ("inputs.truth.path", "s3://x/{ as_of }", "unknown placeholder { as_of } in 's3://x/{ as_of }'; did you mean 'as_of'?"),
        ("inputs.truth.path", "s3://x/{}", "unknown placeholder {} in 's3://x/{}'; known: as_of"),
        ("inputs.truth.path", "s3://x/{date:%Y}", "unknown placeholder {date:%Y} in 's3://x/{date:%Y}'; known: as_of"),
        ("inputs.truth.options.timestampAsOf", "{{ ds }}", TEMPLATE),
        ("inputs.truth.options.timestampAsOf", "${DAY}", f"{VARIABLE}, or {{secret: env:NAME}} for a secret"),
        ("inputs.truth.options.timestampAsOf", "{day}", "unknown placeholder {day} in '{day}'; known: as_of"),
        ("inputs.truth.where.day", "{{ ds }}", TEMPLATE),
        ("inputs.truth.where.day", "{as_off}", "unknown placeholder {as_off} in '{as_off}'; did you mean 'as_of'?"),
        ("output.path", "/out/{run_id}", "unknown placeholder {run_id} in '/out/{run_id}'; known: as_of"),
        ("report", "/r/{{ ds }}.html", TEMPLATE),
        ("job", "nightly-${DAY}", VARIABLE),
        ("model_name", "{{ ds }}", "found '{{ ds }}', which nothing fills in: Airflow fills its templates only in fields that"),
        (
            "model_name",
            "als {as_of}",
            "{as_of} is filled in only in path, table, table_prefix, options, where and report, found",
        ),
    ],
)
def test_a_placeholder_that_nothing_fills_is_rejected(rejected: Rejected, key: str, value: str, problem: str) -> None:
    (line,) = rejected(f"as_of: x\n{SMALLEST}", f'{key}="{value}"')
    assert line.startswith(f'--set {key}="{value}": {key}: {problem}')


def test_a_key_that_nothing_fills_is_rejected(rejected: Rejected) -> None:
    (line,) = rejected("inputs: {models: {'${M}': {predictions: {path: /p}}}, truth: {path: /t}}\noutput: {path: /o}\n")
    assert re.match(r"c\.yaml:1: inputs\.models\['\$\{M\}'\]: found '\$\{M\}', which nothing fills in: write the value", line)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inputs.truth.path", "/t/{2025,2026}/{{a,b},{c,d}}/[0-9]"),
        ("inputs.truth.path", r"/t/\{date\}"),
        ("inputs.truth.path", "/t/part$1"),
        ("inputs.truth.options.avroSchema", '{"type": "record", "fields": [{"name": "x"}]}'),
        ("inputs.truth.options.nullValue", "{}"),
        ("inputs.truth.where.day", "{a, b}"),
        ("columns.user", "{user}"),
    ],
)
def test_globs_json_and_names_stay(write: Write, key: str, value: str) -> None:
    path = write(f"as_of: x\n{SMALLEST}")
    config = load(path, [f"{key}='{value}'"])
    place = config.located(config.inputs.truth)
    assert value in (place.path, *place.options.values(), *place.where.values(), config.columns.user)


def test_a_dot_in_as_of_would_split_the_name_of_a_table(rejected: Rejected, write: Write) -> None:
    text = SMALLEST.replace("path: /t", "table: 'recs.{as_of}'")
    assert rejected(f"as_of: v1.2\n{text}") == [
        "c.yaml:4: inputs.truth.table: expected an as_of without dots in the name of a table, found 'v1.2'"
    ]
    assert load(write(f"as_of: v1.2\n{text.replace('table', 'path')}")).as_of == "v1.2"


def test_braces_without_quotes_are_a_mapping(rejected: Rejected) -> None:
    smallest = SMALLEST.replace("{path: /t}", "{path: /t, where: {day: {as_of}}}")
    assert rejected(f"as_of: x\n{smallest}") == [
        (
            "c.yaml:4: inputs.truth.where.day: expected a string, an integer, true, false or a list of them, found a mapping: "
            "write it in quotes"
        )
    ]


def test_keys_that_a_command_does_not_read_are_not_checked(write: Write) -> None:
    """`history` reads only the output, and needs no `as_of` for inputs with `{as_of}`."""

    class OutputOnly(Job):
        model_config = {"extra": "ignore"}
        output: Output

    OutputOnly.model_rebuild(_types_namespace={"Output": Output})
    assert OutputOnly.read(Source(write(f"job: x\n{SMALLEST}"), ["inputs.truth.path='/{as_of}'"])).output == Output(path="/out")


def test_a_filter_is_hashed_only_if_there_is_one(write: Write, evaluation_of: Callable[..., object]) -> None:
    plain = load(write(SMALLEST))
    assert "where" not in plain.resolved()["inputs"]["truth"]
    assert load(write(SMALLEST), ["inputs.truth.where={}"]).hash == plain.hash
    hashes = {load(write(SMALLEST), [f"inputs.truth.where={where}"]).hash for where in ("{a: 1}", "{a: '1'}", "{a: [1, 2]}")}
    assert len(hashes | {plain.hash}) == 4


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("[day]", ": expected a mapping of keys to values, found a list"),
        ("{day: null}", ".day: expected a string, an integer, true, false or a list of them, found nothing"),
        ("{day: []}", ".day: expected a string, an integer, true, false or a list of them, found a list"),
        ("{day: [a, [b]]}", ".day: expected a string, an integer, true, false or a list of them, found a list"),
        ("{day: 0.1}", ".day: expected a string, an integer, true, false or a list of them, found 0.1: write it in quotes"),
        ("{day: ' '}", ".day: expected a non-blank string without control characters, found ' '"),
    ],
)
def test_wrong_filters(rejected: Rejected, where: str, line: str) -> None:
    found = rejected(SMALLEST.replace("{path: /t}", f"{{path: /t, where: {where}}}"))
    assert found == [f"c.yaml:3: inputs.truth.where{line}"]
