"""The configuration file: everything wrong is told at once, with its place; defaults, overrides, hash and schema."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from spark_recmetrics.columns import Columns
from spark_recmetrics.conventions import CHOICES, CONVENTIONS, convention
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.files.config import Config, Inputs, json_schema, load
from spark_recmetrics.job.files.source import DEEPEST, LARGEST_FILE
from spark_recmetrics.metrics import parse
from spark_recmetrics.storage.locations import Location, Output

CONF = Path(__file__).parents[2] / "conf"
SMALLEST = """\
inputs:
  predictions: {path: /p}
  truth: {path: /t}
output: {path: /out}
"""
DEFAULT_METRICS = ["precision", "recall", "ndcg", "map", "mrr", "hit"]

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(content: str | bytes, name: str = "c.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.fixture
def refused(write: Write) -> Callable[..., list[str]]:
    """The lines of the error, without the folder of the file."""

    def lines(content: str | bytes, *overrides: str, name: str = "c.yaml") -> list[str]:
        path = write(content, name)
        with pytest.raises(ConfigError) as caught:
            load(path, overrides)
        assert caught.value.exit_code == 2
        return str(caught.value).replace(f"{path.parent}{os.sep}", "").split("\n")

    return lines


@pytest.fixture
def evaluation_of(write: Write) -> Callable[..., Any]:
    def read(text: str, *overrides: str) -> Any:
        return load(write(f"{SMALLEST}evaluation: {text}\n"), overrides).evaluation

    return read


Refused = Callable[..., list[str]]


# What a file says


def test_smallest_file_has_the_defaults(write: Write) -> None:
    config = load(write(SMALLEST))
    assert (config.job, config.as_of, config.model_name, config.columns) == ("evaluate", None, "model", Columns())
    assert config.inputs.predictions == Location(path="/p", format="parquet")
    assert config.inputs.truth == Location(path="/t")
    assert config.output == Output(path="/out")
    assert [str(m) for m in config.evaluation.expanded] == [f"{m}@10" for m in DEFAULT_METRICS]
    assert config.evaluation.chosen_convention == CONVENTIONS["default"]
    assert config.evaluation.n_buckets == 32


def test_all_keys(write: Write) -> None:
    config = load(
        write(
            """
job: nightly-2.0
as_of: 2026-11-28
inputs:
  models:
    als: {predictions: {path: /als, format: csv, options: {header: "true"}}, rating_predictions: {table: c.d.als}}
    1: {predictions: {table: c.d.one}}
  truth: {path: /t, format: delta}
  train: {table: c.d.train}
  catalog: {path: /items, format: csv}
columns: {user: "customer id", item: sku, score: s, rating: s, model: m, rank: r, items: i, propensity: p}
model_name: pop
evaluation:
  k: [5, 10]
  metrics: [nDCG, map@3, rmse]
  complex_metrics: [{name: F1, params: {metric_name_1: ndcg, metric_name_2: map, beta: 0.5}}]
  threshold: 4
  convention: {name: WarpRec, users: truth, users_by_metric: {F1: predicted}}
  n_buckets: 8
output: {table_prefix: main.recs.nightly_, format: delta}
"""
        )
    )
    assert (config.job, config.as_of) == ("nightly-2.0", "2026-11-28")
    assert config.inputs.models is not None
    assert list(config.inputs.models) == ["als", "1"]
    als = config.inputs.models["als"]
    assert als.predictions == Location(path="/als", format="csv", options={"header": "true"})
    assert als.rating_predictions == Location(table="c.d.als")
    assert (config.inputs.train, config.inputs.catalog) == (
        Location(table="c.d.train"),
        Location(path="/items", format="csv"),
    )
    assert config.columns == Columns("customer id", "sku", "s", "s", "m", "r", "i", "p")
    texts = ["ndcg@5", "ndcg@10", "map@3", "rmse", "f1(ndcg, map, beta=0.5)@5", "f1(ndcg, map, beta=0.5)@10"]
    assert [str(m) for m in config.evaluation.expanded] == texts
    chosen = config.evaluation.chosen_convention
    assert str(chosen) == "warprec(relevance=threshold, threshold=4, users=truth, users_by_metric=f1:predicted)"
    assert config.output.table("summary") == "main.recs.nightly_summary"


def test_configuration_is_frozen(write: Write) -> None:
    config = load(write(SMALLEST))
    with pytest.raises(ValidationError, match="frozen"):
        config.job = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.inputs.truth.path = "/other"  # type: ignore[misc]


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
def test_languages_say_the_same(write: Write, name: str, content: str) -> None:
    config = load(write(content, name))
    assert config == load(write(f"{SMALLEST}as_of: '2026-11-28'\nevaluation: {{top_k: 5}}\n"))
    assert config.evaluation.top_k == (5,)


@pytest.mark.parametrize(("text", "expected"), [("5", (5,)), ("[5, 10]", (5, 10)), ("null", ()), ("[]", ()), ("010", (10,))])
@pytest.mark.parametrize("key", ["k", "top_k"])
def test_cut_offs(evaluation_of: Callable[..., Any], key: str, text: str, expected: tuple[int, ...]) -> None:
    assert evaluation_of(f"{{{key}: {text}}}").top_k == expected


def test_no_cut_off_is_the_whole_list(evaluation_of: Callable[..., Any]) -> None:
    assert [str(m) for m in evaluation_of("{top_k: [], metrics: [ndcg, map@5]}").expanded] == ["ndcg", "map@5"]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("{name: f1}", "f1"),
        ("{name: F_Score@5, params: {}}", "f1@5"),
        ("{name: f1, params: {beta: 2}}", "f1(beta=2)"),
        ("{name: f1, params: {metric_name_1: nDCG, metric_name_2: MAP}}", "f1(ndcg, map)"),
        ("{name: f1, params: {metric_name_1: ndcg, metric_name_2: map, beta: 0.5}}", "f1(ndcg, map, beta=0.5)"),
        ("{name: f1, params: {metric_name_1: ndcg}}", "f1(ndcg, recall)"),
        ("{name: f1@7, params: {metric_name_2: ndcg, beta: 2}}", "f1(precision, ndcg, beta=2)@7"),
        ("{name: f1, params: {metric_name_1: precision}}", "f1"),
        ("{name: nDCGRendle2020}", "ndcg(gain=binary)"),
        (
            "{name: f1, params: {metric_name_1: rbp(p=0.5), metric_name_2: ndcg(gain=linear)}}",
            "f1(rbp(p=0.5), ndcg(gain=linear))",
        ),
        ("{name: IPS@3}", "ctr(estimator=ips)@3"),
    ],
)
def test_complex_metrics(evaluation_of: Callable[..., Any], written: str, text: str) -> None:
    found = evaluation_of(f"{{metrics: [], complex_metrics: [{written}]}}").complex_metrics[0].metric
    assert found == parse(text)
    assert str(found) == text


def test_the_text_of_a_convention_in_results_is_one_of_a_file(evaluation_of: Callable[..., Any]) -> None:
    texts = ["recommenders(relevance=positive)", "lenskit(users_by_metric=Hit:truth+MRR:relevant, undefined=zero)"]
    for text in texts:
        found = evaluation_of(f"{{convention: '{text}'}}").convention
        assert str(found) == text.replace("Hit", "hit").replace("MRR", "mrr")
        again = evaluation_of(f"{{convention: {{name: '{text}', gain: linear}}}}").convention
        assert again == found.override(gain="linear")


@pytest.mark.parametrize(
    ("written", "first"),
    [
        ("metrics: [ndcg, f1(auc, gauc)]", "evaluation.metrics[1]: 'f1(auc': expected , or )"),
        ("slices: [age(18, 35)]", "evaluation.slices[0]: "),
    ],
)
def test_a_text_that_a_list_has_cut_at_its_comma(write: Callable[..., str], written: str, first: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(SMALLEST + f"evaluation: {{{written}}}\n"))
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert first in lines[0]
    assert all(line.endswith(": in a list, write a text with a comma in quotes") for line in lines)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_convention_by_name_with_a_threshold(evaluation_of: Callable[..., Any], name: str) -> None:
    assert evaluation_of(f"{{convention: {name}}}").chosen_convention == CONVENTIONS[name]
    assert evaluation_of(f"{{convention: {name}, threshold: 3.5}}").chosen_convention == convention(name, 3.5)


# What is wrong with it


def test_misspelt_key_unknown_metric_and_wrong_k_are_told_together(refused: Refused) -> None:
    assert refused(SMALLEST + "evaluation:\n  k: 0\n  metrics:\n    - ndcg\n    - ndgc\n  treshold: 4\n") == [
        "c.yaml:6: evaluation.k: expected a whole number from 1, found 0",
        "c.yaml:9: evaluation.metrics[1]: 'ndgc': unknown metric 'ndgc'; did you mean 'ndcg'?",
        "c.yaml:10: evaluation.treshold: unknown key; did you mean 'threshold'?",
    ]


@pytest.mark.parametrize("value", ["0", "-1", "2.5", "true", '"10"', "²", "1e1", "0.0", "~x", "{a: 1}"])
@pytest.mark.parametrize("key", ["k", "top_k"])
def test_wrong_cut_offs_are_refused_by_key(refused: Refused, key: str, value: str) -> None:
    (line,) = refused(f"{SMALLEST}evaluation:\n  {key}: {value}\n")
    assert re.match(rf"c.yaml:6: evaluation\.{key}: expected a (whole number from 1|list), found ", line)
    (line,) = refused(f"{SMALLEST}evaluation:\n  {key}:\n  - 5\n  - {value}\n")
    assert line.startswith(f"c.yaml:8: evaluation.{key}[1]: expected a whole number from 1, found ")


@pytest.mark.parametrize("text", ["99999999999", "[99999999999]"])
def test_cut_offs_fit_an_integer_of_spark(refused: Refused, text: str) -> None:
    (line,) = refused(f"{SMALLEST}evaluation: {{k: {text}}}\n")
    assert line.endswith(": expected a whole number from 1 to 10000000, found 99999999999")
    (line,) = refused(SMALLEST + "evaluation: {metrics: [ndcg@99999999999]}\n")
    told = "'ndcg@99999999999': expected a whole number from 1 to 10000000 behind @, found '99999999999'"
    assert line == f"c.yaml:5: evaluation.metrics[0]: {told}"


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("evaluation: {k: 5, top_k: 5}", "evaluation.k: another name of a key that is given, too: keep one"),
        ("evaluation: {threshold: '4'}", "evaluation.threshold: expected a finite number, found '4'"),
        ("evaluation: {threshold: true}", "evaluation.threshold: expected a finite number, found True"),
        ("evaluation: {threshold: .nan}", "evaluation.threshold: expected a finite number, found nan"),
        ("evaluation: {threshold: 1e999}", "evaluation.threshold: expected a finite number, found inf"),
        ("evaluation: {n_buckets: 0}", "evaluation.n_buckets: expected a whole number from 1, found 0"),
        ("evaluation: {ranking: fast}", "evaluation.ranking: expected one of 'auto', 'window' or 'lists', found 'fast'"),
        ("evaluation: {max_per_user: 0}", "evaluation.max_per_user: expected a whole number from 1, found 0"),
        (
            "evaluation: {ranking: window, max_per_user: 5}",
            "evaluation.max_per_user: expected none with ranking window, which does not count rows behind k, found 5",
        ),
        ("evaluation: {metrics: []}", "evaluation: metrics: expected at least one metric, found none"),
        ("evaluation: {metrics: ndcg}", "evaluation.metrics: expected a list, found 'ndcg'"),
        ("evaluation: {metrics: [5]}", "evaluation.metrics[0]: expected the text of a metric such as 'ndcg@10', found 5"),
        (
            "evaluation: {metrics: [ndcg@0]}",
            "evaluation.metrics[0]: 'ndcg@0': expected a whole number from 1 behind @, found '0'",
        ),
        ("evaluation: {metrics: [rmse@5]}", "evaluation.metrics[0]: 'rmse@5': rmse has no cut-off: write it without @5"),
        ("evaluation: [k]", "evaluation: expected a mapping of keys to values, found a list"),
        ("evaluation:", "evaluation: expected a mapping of keys to values, found nothing"),
        (
            "evaluation: {complex_metrics: [{name: f1, params: {metric_name: map}}]}",
            "evaluation.complex_metrics[0].params.metric_name: unknown key; did you mean 'metric_name_2'?",
        ),
        (
            "evaluation: {complex_metrics: [{params: {}}]}",
            "evaluation.complex_metrics[0].name: missing: this key has no default",
        ),
        (
            "evaluation: {complex_metrics: [{name: f1, params: {metric_name_1: ndgc}}]}",
            "evaluation.complex_metrics[0].params.metric_name_1: 'ndgc': unknown metric 'ndgc'; did you mean 'ndcg'?",
        ),
        (
            "evaluation: {complex_metrics: [{name: ndcg, params: {metric_name_1: map}}]}",
            "evaluation.complex_metrics[0]: 'ndcg(map)': ndcg takes no metrics, found 1",
        ),
        (
            "evaluation: {complex_metrics: [{name: 'f1(ndcg, map)', params: {metric_name_1: map}}]}",
            "evaluation.complex_metrics[0]: 'f1(ndcg, map, map)': f1 takes 2 metrics, found 3",
        ),
        (
            "evaluation: {convention: 'ranx(gian=binary)'}",
            "evaluation.convention: convention 'ranx' has no option 'gian'; did you mean 'gain'?",
        ),
        (
            "evaluation: {convention: {name: {name: ranx}}}",
            "evaluation.convention.name: unknown convention {'name': 'ranx'}",
        ),
        (
            "evaluation: {complex_metrics: [{name: ndcg, params: {beta: 2}}]}",
            "evaluation.complex_metrics[0]: 'ndcg(beta=2.0)': ",
        ),
        ("evaluation: {complex_metrics: [{name: f1, params: {beta: -1}}]}", "evaluation.complex_metrics[0]: 'f1(beta=-1.0)': "),
        ("evaluation: {convention: rankx}", "evaluation.convention: unknown convention 'rankx'; did you mean 'ranx'?"),
        (
            "evaluation: {convention: {name: rankx}}",
            "evaluation.convention.name: unknown convention 'rankx'; did you mean 'ranx'?",
        ),
        ("evaluation: {convention: {gian: linear}}", "evaluation.convention.gian: unknown option; did you mean 'gain'?"),
        ("evaluation: {convention: {self: 1}}", "evaluation.convention.self: unknown option; known: "),
        ("evaluation: {convention: {gain: [1]}}", "evaluation.convention.gain: expected one of binary, linear, "),
        ("evaluation: {convention: {beta: 0}}", "evaluation.convention.beta: expected a finite number above 0, found 0"),
        (
            "evaluation: {convention: {users_by_metric: 5}}",
            "evaluation.convention.users_by_metric: expected a mapping of metrics",
        ),
        (
            "evaluation: {convention: {users_by_metric: {mapp: all}}}",
            "evaluation.convention.users_by_metric: 'mapp': unknown metric",
        ),
        (
            "evaluation: {convention: {users_by_metric: {map: al}}}",
            "evaluation.convention.users_by_metric.map: expected one of",
        ),
        ("evaluation: {convention: 5}", "evaluation.convention: expected the name of a convention, or a mapping"),
        ("columns: {usr: x}", "columns.usr: unknown key; did you mean 'user'?"),
        ("columns: {user: 5}", "columns.user: expected a text, found 5: write it in quotes"),
        ("columns: {user: ''}", "columns.user: expected the name of a column, found ''"),
        ("columns: {user: a, item: a}", "columns.user and columns.item are both 'a': expected different columns"),
        ("job: a b", "job: expected a text of the characters A-Za-z0-9._-, found 'a b'"),
        ("job: '..'", "job: expected a text of the characters "),
        ("job: x²", "job: expected a text of the characters "),
        ('job: "x\\n"', "job: expected a text of the characters "),
        ("job:", "job: expected a text of the characters A-Za-z0-9._-, found nothing"),
        ("as_of: 20261128", "as_of: expected a text of the characters A-Za-z0-9._:+-, found 20261128: write it in quotes"),
        ("as_of: 2026/11/28", "as_of: expected a text of the characters "),
        ("as_of: '2026-13-01'", "as_of: expected a day that there is, or a label of another form, found '2026-13-01'"),
        ("as_of: 2026-02-30T06", "as_of: expected a day that there is, or a label of another form, found '2026-02-30T06'"),
        ("evaluation: {intervals: boot}", "evaluation.intervals: expected one of 'normal' or 'bootstrap', found 'boot'"),
        ("evaluation: {intervals: {methd: normal}}", "evaluation.intervals.methd: unknown key; did you mean 'method'?"),
        ("evaluation: {intervals: [normal]}", "evaluation.intervals: expected a mapping of keys to values, found a list"),
        ("model_name: ''", "model_name: expected a text without control characters, found ''"),
        ('model_name: "a\\nb"', "model_name: expected a text without control characters, found 'a\\nb'"),
        ("max_drop: 1e-3", "max_drop: unknown key; known: as_of, checks, columns, comparison, evaluation, gates, inputs, "),
        ("no: 1", "no: unknown key; "),
        ("_target_: os.system", "_target_: unknown key; "),
        ("<<: {job: x}", "['<<']: unknown key; "),
    ],
)
def test_errors_have_place_and_remedy(refused: Refused, more: str, line: str) -> None:
    (found,) = refused(f"{SMALLEST}{more}\n")
    assert found.startswith(f"c.yaml:5: {line}")


@pytest.mark.parametrize(
    ("inputs", "line"),
    [
        ("{truth: {path: /t}}", "inputs: expected either predictions or models, found neither"),
        ("{truth: {path: /t}, models: {}}", "inputs: expected either predictions or models, found neither"),
        (
            "{truth: {path: /t}, predictions: {path: /p}, models: {a: {predictions: {path: /p}}}}",
            "inputs: expected either predictions or models, found both",
        ),
        (
            "{truth: {path: /t}, rating_predictions: {path: /r}, models: {a: {predictions: {path: /p}}}}",
            "inputs: expected no rating_predictions beside models: write it under each model",
        ),
        ("{predictions: {path: /p}}", "inputs.truth: missing: this key has no default"),
        ("{predictions: {path: /p}, truth: {}}", "inputs.truth: expected either path or table, found neither"),
        (
            "{predictions: {path: /p, table: t}, truth: {path: /t}}",
            "inputs.predictions: expected either path or table, found both",
        ),
        (
            "{predictions: {path: ''}, truth: {path: /t}}",
            "inputs.predictions: expected a text without control characters, found ''",
        ),
        (
            "{predictions: {table: t, format: csv}, truth: {path: /t}}",
            "inputs.predictions: expected no format beside a table, found 'csv': a table of the catalog knows its own",
        ),
        (
            "{predictions: {path: /p, format: parket}, truth: {path: /t}}",
            "inputs.predictions.format: expected one of 'parquet', 'csv', 'json', 'orc' or 'delta', found 'parket'",
        ),
        (
            "{predictions: {path: /p, format: csv, types: {user_id: strng}}, truth: {path: /t}}",
            "inputs.predictions.types.user_id: unknown type 'strng'; did you mean 'string'?",
        ),
        (
            "{predictions: {path: /p, format: csv, types: {'a b': 'decimal(39, 2)'}}, truth: {path: /t}}",
            "inputs.predictions.types['a b']: unknown type 'decimal(39, 2)'; did you mean 'decimal(10, 2)'?",
        ),
        (
            "{predictions: {path: /p, format: csv, types: {user_id: 7}}, truth: {path: /t}}",
            "inputs.predictions.types.user_id: expected the name of a type such as string, found 7",
        ),
        (
            "{predictions: {path: /p, types: {user_id: string}}, truth: {path: /t}}",
            "inputs.predictions: types: expected none of parquet, which knows its own: cast_ids makes texts of ids",
        ),
        (
            "{predictions: {table: t, types: {user_id: string}}, truth: {path: /t}}",
            (
                "inputs.predictions: types: expected none of a table of the catalog, which knows its own: "
                "cast_ids makes texts of ids"
            ),
        ),
        (
            "{predictions: {path: /p, options: {header: true}}, truth: {path: /t}}",
            "inputs.predictions.options.header: expected a text, found True: write it in quotes",
        ),
        (
            '{predictions: {path: "/p/{as_off}"}, truth: {path: /t}}',
            "inputs.predictions.path: unknown placeholder {as_off} in '/p/{as_off}'; did you mean 'as_of'?",
        ),
        ("{predictions: /p, truth: {path: /t}}", "inputs.predictions: expected a mapping of keys to values, found '/p'"),
        (
            "{models: {v1.2: {prediction: {path: /p}, predictions: {path: /p}}}, truth: {path: /t}}",
            "inputs.models['v1.2'].prediction: unknown key; did you mean 'predictions'?",
        ),
        ("{models: {'': {predictions: {path: /p}}}, truth: {path: /t}}", "inputs.models['']: expected a text without control"),
        (
            '{models: {"a\\nb": {predictions: {path: /p}}}, truth: {path: /t}}',
            "inputs.models['a\\nb']: expected a text without control characters, found 'a\\nb'",
        ),
        ("{models: [als], truth: {path: /t}}", "inputs.models: expected a mapping of keys to values, found a list"),
    ],
)
def test_inputs(refused: Refused, inputs: str, line: str) -> None:
    (found,) = refused(f"output: {{path: /out}}\ninputs: {inputs}\n")
    assert found.startswith(f"c.yaml:2: {line}")


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("{}", "output: expected either path or table_prefix, found neither"),
        ("{path: /o, table_prefix: t_}", "output: expected either path or table_prefix, found both"),
        ("{path: /o, format: csv}", "output.format: expected one of 'parquet', 'delta' or 'orc', found 'csv'"),
        ('{path: "/o/{date}"}', "output.path: unknown placeholder {date} in '/o/{date}'; known: as_of"),
        ("{path: /o, tabel_prefix: x}", "output.tabel_prefix: unknown key; did you mean 'table_prefix'?"),
    ],
)
def test_output(refused: Refused, output: str, line: str) -> None:
    content = SMALLEST.replace("output: {path: /out}", f"output: {output}")
    assert refused(content) == [f"c.yaml:4: {line}"]


@pytest.mark.parametrize(
    ("report", "line"),
    [
        ("/r/report.txt", "expected the path of a .html file that the driver can write, found '/r/report.txt'"),
        ("s3://bucket/r.html", "expected the path of a .html file that the driver can write, found 's3://bucket/r.html'"),
        ("dbfs:/r.html", "expected the path of a .html file that the driver can write, found 'dbfs:/r.html'"),
        ("'/r/{date}.html'", "unknown placeholder {date} in '/r/{date}.html'; known: as_of"),
        ("'/r/{as_of}.html'", "'/r/{as_of}.html' needs an as_of: give --as-of, or as_of in the file"),
        ("[a]", "expected a text, found a list"),
    ],
)
def test_report(refused: Refused, report: str, line: str) -> None:
    assert refused(f"{SMALLEST}report: {report}\n") == [f"c.yaml:5: report: {line}"]


def test_the_path_of_the_report(write: Write) -> None:
    config = load(write(f"{SMALLEST}report: '/r/{{as_of}}.html'\n"), as_of="2026-11-28")
    assert (config.report, config.report_path) == ("/r/{as_of}.html", "/r/2026-11-28.html")
    assert load(write(SMALLEST)).report_path is None


@pytest.mark.parametrize("name", ["</script><img src=x onerror=alert(1)>", "../../etc/x", "=1+1", "модель", "a b"])
def test_model_names_are_any_text(write: Write, name: str) -> None:
    models = json.dumps({name: {"predictions": {"path": "/p"}}})
    config = load(write(f"inputs: {{truth: {{path: /t}}, models: {models}}}\noutput: {{path: /o}}\n"))
    assert list(config.inputs.models or ()) == [name]


@pytest.mark.parametrize("name", ["a\ud800", "a\u2028b", "\x7f", "\x00"])
def test_names_that_break_lines_are_refused(refused: Refused, name: str) -> None:
    (line,) = refused(
        json.dumps(
            {"inputs": {"predictions": {"path": "p"}, "truth": {"path": "t"}}, "output": {"path": "o"}, "model_name": name}
        ),
        name="c.json",
    )
    assert line.startswith("c.json: model_name: expected a text without control characters, found ")
    line.encode()


def test_missing_sections(refused: Refused) -> None:
    assert refused("job: x\n") == [
        "c.yaml: inputs: missing: this key has no default",
        "c.yaml: output: missing: this key has no default",
    ]


@pytest.mark.parametrize("place", ["", "evaluation: ", "columns: ", "evaluation: {convention: ", "inputs: {truth: {options: "])
@pytest.mark.parametrize("key", ["spark", "spark.sql.shuffle.partitions"])
def test_spark_settings_are_refused_anywhere(refused: Refused, place: str, key: str) -> None:
    nested = f"{place}{{{key}: 5}}" + "}" * place.count("{") if place else f"{key}: 5"
    found = refused(f"output: {{path: /o}}\n{nested}\n")
    told = [line for line in found if "Spark settings belong to spark-submit --conf or conf/spark-defaults.conf" in line]
    assert len(told) == 1
    assert told[0].startswith("c.yaml:2: ")
    assert key in told[0]
    assert not [line for line in found if "unknown key" in line and "spark" in line]


# Files that are no configuration


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
        ("job: x\n", "c.txt", "c.txt: expected a file that ends in .yaml, .yml, .json, .toml"),
        ("job: a\njob: b\n", "c.yaml", "c.yaml:2: job: the key is given twice, first in line 1"),
        (
            f"{SMALLEST}evaluation:\n  k: 5\n  metrics: [hit]\n  k: 10\n",
            "c.yaml",
            "c.yaml:8: evaluation.k: the key is given twice, first in line 6",
        ),
        (
            f"{SMALLEST}evaluation: {{top_k: 5,\n  top_k: 10}}\n",
            "c.yaml",
            "c.yaml:6: evaluation.top_k: the key is given twice, first in line 5",
        ),
        ('{"job": 1, "job": 2}', "c.json", "c.json: the key 'job' is given twice in one mapping"),
        ("job = 1\njob = 2\n", "c.toml", "c.toml: Cannot overwrite a value"),
        ('{"job":\n 1,}', "c.json", "c.json:2: "),
        ("job: [\n", "c.yaml", "c.yaml:2: expected the node content, but found '<stream end>'"),
        ("job: a\n\x07: b\n", "c.yaml", "c.yaml:2: special characters are not allowed"),
        ("a: 1\n---\nb: 2\n", "c.yaml", "c.yaml:2: but found another document"),
        ("a: &x [1]\nb: *x\n", "c.yaml", "c.yaml:2: aliases (*name) are not read: write the value out"),
        ("a: &a\n  b: *a\n", "c.yaml", "c.yaml:2: aliases (*name) are not read"),
        (
            "job: !!python/object/apply:os.system [echo]\n",
            "c.yaml",
            "c.yaml:1: job: the tag !!python/object/apply:os.system is refused",
        ),
        ("job: !!timestamp 2026-11-28\n", "c.yaml", "c.yaml:1: job: the tag !!timestamp is refused"),
        ("inputs: !x {}\n", "c.yaml", "c.yaml:1: inputs: the tag !x is refused: write a plain value"),
        ("job: !!int x\n", "c.yaml", "c.yaml:1: job: expected int, found 'x'"),
        ("? [a]\n: b\n", "c.yaml", "c.yaml:1: expected a plain text as key"),
        ("? !!python/name:os.system x\n: b\n", "c.yaml", "c.yaml:1: expected a plain text as key"),
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
def test_unreadable_files(refused: Refused, content: str | bytes, name: str, line: str) -> None:
    assert any(found.startswith(line) for found in refused(content, name=name))


def test_alias_bomb_stays_small(refused: Refused) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert refused(bomb) == ["c.yaml:2: aliases (*name) are not read: write the value out"]


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.yaml: cannot read the configuration: No such file or directory"):
        load(tmp_path / "no.yaml")
    (tmp_path / "d.yaml").mkdir()
    with pytest.raises(ConfigError, match=r"d\.yaml: cannot read the configuration: Is a directory"):
        load(tmp_path / "d.yaml")
    with pytest.raises(ConfigError, match="cannot read the configuration: embedded null byte"):
        load("x\0.yaml")


def test_metric_text_nested_deeply_is_refused(refused: Refused) -> None:
    (line,) = refused(f"{SMALLEST}evaluation: {{metrics: ['{'f1(' * 5000}']}}\n")
    assert line.startswith("c.yaml:5: evaluation.metrics[0]: expected the text of a metric such as 'ndcg@10', found 'f1(f1(")
    assert len(line) < 200


def test_byte_order_mark_is_no_part_of_the_first_key(write: Write) -> None:
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
    (found,) = load(write(f"{SMALLEST}gates: [{gate}]\n")).gates
    assert isinstance(found.max_drop, float)
    assert found.max_drop == 1 / 1000
    (changed,) = load(write(f"{SMALLEST}gates: [{gate}]\n"), ["gates[0].max_drop=5e-4"]).gates
    assert changed.max_drop == 5 / 10_000


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
def test_any_value_anywhere_is_read_or_refused(write: Write, keys: tuple[Any, ...], value: Any) -> None:
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


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(st.sampled_from("ab:-?[]{}&*!#|>'\"%@`,\n\t ~1.\x85\u2028\ud7ff")), override=st.text(max_size=12))
@example(content="%YAML 9.9\n---\na: 1", override="a=%")
@example(content="a: !<tag:yaml.org,2002:python/none> x", override="a=[")
@example(content="a: 1\n", override="a[\u00b2]=1")
def test_any_text_is_read_or_refused(write: Write, content: str, override: str) -> None:
    for text, overrides in ((content, []), (SMALLEST, [override]), (SMALLEST, [f"job={content}"])):
        with suppress(ConfigError):
            load(write(text), overrides)


# Overrides


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
        ("evaluation.k=0", "evaluation.k: expected a whole number from 1, found 0"),
        ("evaluation.k=[5, 0]", "evaluation.k[1]: expected a whole number from 1, found 0"),
        ("evaluation.metrics=[ndgc]", "evaluation.metrics[0]: 'ndgc': unknown metric 'ndgc'; did you mean 'ndcg'?"),
        ("evalation.k=5", "evalation: unknown key; did you mean 'evaluation'?"),
        ("evaluation.kk=5", "evaluation.kk: unknown key; "),
        ("inputs.truth.fromat=csv", "inputs.truth.fromat: unknown key; did you mean 'format'?"),
        ("spark.sql.ansi.enabled=true", "spark: Spark settings belong to "),
        ("job=[a", "job: expected ',' or ']', but got '<stream end>': write a text in quotes"),
        ("job={a: *b}", "job: aliases (*name) are not read"),
        ("job={a: 1, a: 1}", "job.a: the key is given twice"),
        ("job=[!!python/name:os.system x]", "job[0]: the tag !!python/name:os.system is refused"),
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
def test_wrong_overrides_name_themselves(refused: Refused, override: str, line: str) -> None:
    found = refused(SMALLEST, override)
    assert found[0].startswith(f"--set {override}: {line}")


def test_index_behind_the_end(refused: Refused) -> None:
    assert refused(SMALLEST + "evaluation: {metrics: [ndcg]}\n", "evaluation.metrics[1]=map") == [
        "--set evaluation.metrics[1]=map: evaluation.metrics is a list of 1: there is no evaluation.metrics[1]"
    ]


def test_errors_of_file_and_overrides_stand_together(refused: Refused) -> None:
    assert refused(SMALLEST + "jub: x\nevaluation: {k: 0}\n", "evaluation.k=5", "evaluation.threshold=x") == [
        "c.yaml:5: jub: unknown key; did you mean 'job'?",
        "--set evaluation.threshold=x: evaluation.threshold: expected a finite number, found 'x'",
    ]


# As-of, hash and run id


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
    found = [config.located(place).path for place in places]
    assert found == ["/p/2026-11-28/{a,b}", "/t/2026-11-28", "/s/2026-11-28", "/c/2026-11-28"]
    assert config.located(config.output).table("summary") == "/out/2026-11-28/summary"
    assert config.located(Location(table="{as_of}")) == Location(table="{as_of}")
    assert inputs.truth.path == "/t/{as_of}"
    other = load(write(PLACED), as_of="2026-11-29")
    assert (other.hash, other.run_id == config.run_id) == (config.hash, False)
    assert load(write(f"{PLACED}as_of: x\n"), ["as_of=2026-11-28"]).run_id == config.run_id


def test_a_placeholder_without_as_of_is_refused_by_key(refused: Refused) -> None:
    assert refused(PLACED) == [
        f"c.yaml:{line}: {key}.path: {path!r} needs an as_of: give --as-of, or as_of in the file"
        for line, key, path in (
            (2, "inputs.models.als.predictions", "/p/{as_of}/{a,b}"),
            (3, "inputs.truth", "/t/{as_of}"),
            (4, "inputs.train", "/s/{as_of}"),
            (5, "inputs.catalog", "/c/{as_of}"),
            (6, "output", "/out/{as_of}"),
        )
    ]


@pytest.mark.parametrize("as_of", ["2026-02-28", "2028-02-29T23:59", "2026-13", "20261301", "2026-13-011", "v2026-13-01"])
def test_a_label_that_is_a_day_or_no_date_is_taken(write: Write, as_of: str) -> None:
    assert load(write(SMALLEST), as_of=as_of).as_of == as_of


def test_a_text_is_the_method_of_the_intervals(write: Write) -> None:
    short, long = (load(write(f"{SMALLEST}evaluation: {{intervals: {how}}}\n")) for how in ("bootstrap", "{method: bootstrap}"))
    assert short == long
    assert short.evaluation.intervals.chosen.method == "bootstrap"
    assert {"enum": ["normal", "bootstrap"]} in json_schema()["$defs"]["Evaluation"]["properties"]["intervals"]["anyOf"]


@pytest.mark.parametrize("as_of", ["", "a b", "a/b", "..", "a\n", "²", "\ud800", '"', "${x}"])
def test_as_of_of_the_command_line_is_checked(write: Write, as_of: str) -> None:
    with pytest.raises(ConfigError, match=r"^--as-of .*: as_of: expected a text (of the|without control) characters[^\n]*$"):
        load(write(SMALLEST), as_of=as_of)


def test_as_of_of_the_command_line_is_the_strongest(write: Write) -> None:
    config = load(write(f"{SMALLEST}as_of: a\n"), ["as_of=b"], "20261128")
    assert config.as_of == "20261128"


# The catalogue


@pytest.mark.parametrize("catalog", ["4000", "{path: /c}", "{table: c.items}"])
def test_catalog_is_a_number_or_a_location_and_hashed(write: Write, catalog: str) -> None:
    text = SMALLEST.replace("inputs:", f"inputs:\n  train: {{path: /s}}\n  catalog: {catalog}")
    text += "evaluation: {metrics: [auc, mcc]}\n"
    config = load(write(text))
    expected = yaml.safe_load(catalog)
    assert config.inputs.catalog == (expected if isinstance(expected, int) else Location(**expected))
    assert load(write(json.dumps(config.resolved()), "r.json")) == config
    for other in (["inputs.catalog=4001"], ["inputs.train="]):
        assert load(write(text), other).hash != config.hash


@pytest.mark.parametrize(
    ("catalog", "line"),
    [
        ("0", "catalog: expected a whole number from 1, found 0"),
        ("true", "catalog: expected a location, or the number of items, found True"),
        ("4e3", "catalog: expected a location, or the number of items, found 4000.0"),
        ("/c", "catalog: expected a location, or the number of items, found '/c'"),
        ("[1]", "catalog: expected a location, or the number of items, found a list"),
        ("{}", "catalog: expected either path or table, found neither"),
        ("{path: 5}", "catalog.path: expected a text, found 5: write it in quotes"),
        ("{path: /c, fromat: csv}", "catalog.fromat: unknown key; did you mean 'format'?"),
        ('{path: "/c/{day}"}', "catalog.path: unknown placeholder {day} in '/c/{day}'; known: as_of"),
    ],
)
def test_wrong_catalogs(refused: Refused, catalog: str, line: str) -> None:
    assert refused(SMALLEST.replace("inputs:", f"inputs:\n  catalog: {catalog}")) == [f"c.yaml:2: inputs.{line}"]


def test_metrics_that_need_the_catalogue_are_found_early(refused: Refused, write: Write) -> None:
    text = """\
evaluation:
  metrics:
    - ndcg
    - AUC
    - gauc(candidates=listed)
  complex_metrics:
    - {name: f1, params: {metric_name_1: ndcg, metric_name_2: accuracy}}
"""
    told = "needs the catalogue: give inputs.catalog, one row per item that could be recommended, or their number"
    assert refused(SMALLEST + text) == [
        f"c.yaml:8: evaluation.metrics[1]: auc {told}",
        f"c.yaml:11: evaluation.complex_metrics[0]: f1(ndcg, accuracy) {told}",
    ]
    assert load(write(SMALLEST + text), ["inputs.catalog=9"]).inputs.catalog == 9
    assert refused(SMALLEST, "evaluation.metrics=[mcc@5]") == [
        f"--set evaluation.metrics=[mcc@5]: evaluation.metrics[0]: mcc@5 {told}"
    ]
    assert load(write(SMALLEST), ["evaluation.metrics=[auc]", "evaluation.convention.auc_candidates=listed"])


@pytest.mark.parametrize("name", ["[table]", "[key]", "catalog"])
def test_models_may_be_named_like_parts_of_a_message(refused: Refused, name: str) -> None:
    models = json.dumps({name: {"predictions": {"path": "/p", "fromat": "csv"}}})
    (line,) = refused(f"inputs: {{truth: {{path: /t}}, models: {models}}}\noutput: {{path: /o}}\n")
    assert line.endswith(".predictions.fromat: unknown key; did you mean 'format'?")


def test_hash_stands_for_the_meaning_and_not_for_the_text(write: Write) -> None:
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


def test_hash_does_not_change_between_processes(write: Write) -> None:
    path = write(SMALLEST + "evaluation: {convention: jurity}\n")
    code = "import sys; from spark_recmetrics.job.files.config import load; print(load(sys.argv[1]).hash)"
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "7"},
    )
    assert run.stdout.strip() == load(path).hash


@pytest.mark.parametrize("name", CONVENTIONS)
def test_resolved_file_reads_as_the_same_configuration(write: Write, name: str) -> None:
    chosen = f"{{convention: {name}, threshold: 2.5, k: [3], complex_metrics: [{{name: f1, params: {{beta: 2}}}}]}}"
    text = f"{SMALLEST}evaluation: {chosen}\n"
    config = load(write(text.replace("{path: /p}", "{table: a.b, options: {x: y}}")))
    resolved = config.resolved()
    for file in (write(json.dumps(resolved), "r.json"), write(yaml.safe_dump(resolved, sort_keys=False), "r.yaml")):
        again = load(file)
        assert again.resolved() == resolved
        assert again.hash == config.hash
        assert again.evaluation.expanded == config.evaluation.expanded
        assert again.evaluation.chosen_convention == config.evaluation.chosen_convention
    assert set(resolved["evaluation"]["convention"]) == {f.name for f in dataclasses.fields(CONVENTIONS[name])} - {"overrides"}


# The schema and the files in conf/


def keys_of(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from node.get("properties", ())
        for value in node.values():
            yield from keys_of(value)
    elif isinstance(node, list):
        for value in node:
            yield from keys_of(value)


def test_schema_tells_every_key_and_default() -> None:
    schema = json_schema()
    assert json.loads(json.dumps(schema)) == schema
    assert set(schema["properties"]) == set(Config.model_fields)
    evaluation = schema["$defs"]["Evaluation"]["properties"]
    assert evaluation["metrics"]["default"] == DEFAULT_METRICS
    assert {"k", "top_k", "convention"} <= set(evaluation)
    assert evaluation["convention"]["default"] == "default"
    assert schema["$defs"]["Inputs"]["properties"]["truth"]["description"].startswith("What the users really did")
    objects = [node for node in schema["$defs"].values() if node.get("type") == "object"]
    assert all(node["additionalProperties"] is False for node in [schema, *objects])


EVALUATE = CONF / "evaluate.yaml"


def uncommented(key: str) -> Any:
    """The value of an alternative of conf/evaluate.yaml: the lines from `# key:` on that belong to it."""
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
    missing = {key for key in keys_of(json_schema()) if not re.search(rf"^[\s#{{-]*{key}: ?", text, re.MULTILINE)}
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
    # The driver's Python is the worker's: a path here would break the other machines.
    assert not [name for name in settings if "python" in name and "arrow" not in name]


def test_reading_is_quick_and_starts_nothing(write: Write) -> None:
    path = write(SMALLEST + "evaluation: {k: 0}\n")
    code = """
import sys, time
from spark_recmetrics.job.files.config import load
from spark_recmetrics.errors import ConfigError
try:
    load(sys.argv[1])
except ConfigError as error:
    print(error.exit_code, time.process_time() < 3, "pandas" in sys.modules)  # time of this process: others may be busy
from pyspark.sql import SparkSession
print(SparkSession.getActiveSession())
"""
    run = subprocess.run([sys.executable, "-W", "error", "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["2", "True", "False", "None"]
