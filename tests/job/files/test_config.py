"""The configuration of an evaluation: its defaults, its keys, and the messages about wrong values."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from job_data import DEFAULT_METRICS, SMALLEST, Rejected, Write, load
from pydantic import ValidationError

from spark_recmetrics.columns import Columns
from spark_recmetrics.conventions import CONVENTIONS
from spark_recmetrics.job.files.config import Config
from spark_recmetrics.storage.locations import Location, Output


def test_smallest_file_has_the_defaults(write: Write) -> None:
    config = load(write(SMALLEST))
    assert (config.job, config.as_of, config.model_name, config.columns) == ("evaluate", None, "model", Columns())
    assert config.inputs.predictions == Location(path="/p", format=None)
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
    assert (config.inputs.train, config.inputs.catalog) == (Location(table="c.d.train"), Location(path="/items", format="csv"))
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


def test_no_cut_off_is_the_full_list(evaluation_of: Callable[..., Any]) -> None:
    assert [str(m) for m in evaluation_of("{top_k: [], metrics: [ndcg, map@5]}").expanded] == ["ndcg", "map@5"]


def test_misspelt_key_unknown_metric_and_wrong_k_are_reported_together(rejected: Rejected) -> None:
    assert rejected(SMALLEST + "evaluation:\n  k: 0\n  metrics:\n    - ndcg\n    - ndgc\n  treshold: 4\n") == [
        "c.yaml:6: evaluation.k: expected an integer of at least 1, found 0",
        "c.yaml:9: evaluation.metrics[1]: 'ndgc': unknown metric 'ndgc'; did you mean 'ndcg'?",
        "c.yaml:10: evaluation.treshold: unknown key; did you mean 'threshold'?",
    ]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("evaluation: {k: 5, top_k: 5}", "evaluation.k: alias of another key in the file: keep one"),
        ("evaluation: {threshold: '4'}", "evaluation.threshold: expected a finite number, found '4'"),
        ("evaluation: {threshold: true}", "evaluation.threshold: expected a finite number, found True"),
        ("evaluation: {threshold: .nan}", "evaluation.threshold: expected a finite number, found nan"),
        ("evaluation: {threshold: 1e999}", "evaluation.threshold: expected a finite number, found inf"),
        ("evaluation: {n_buckets: 0}", "evaluation.n_buckets: expected an integer of at least 1, found 0"),
        ("evaluation: {ranking: fast}", "evaluation.ranking: expected one of 'auto', 'window' or 'lists', found 'fast'"),
        ("evaluation: {max_per_user: 0}", "evaluation.max_per_user: expected an integer of at least 1, found 0"),
        (
            "evaluation: {ranking: window, max_per_user: 5}",
            "evaluation.max_per_user: expected none with ranking='window', found 5: remove it, or use 'lists'",
        ),
        ("evaluation: {metrics: []}", "evaluation: metrics: expected at least one metric, found none"),
        ("evaluation: {metrics: ndcg}", "evaluation.metrics: expected a list, found 'ndcg'"),
        ("evaluation: {metrics: [5]}", "evaluation.metrics[0]: expected a metric as a string, such as 'ndcg@10', found 5"),
        (
            "evaluation: {metrics: [ndcg@0]}",
            "evaluation.metrics[0]: 'ndcg@0': expected an integer of at least 1 after @, found '0'",
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
        ("evaluation: {convention: {name: {name: ranx}}}", "evaluation.convention.name: unknown convention {'name': 'ranx'}"),
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
        ("columns: {user: 5}", "columns.user: expected a string, found 5: write it in quotes"),
        ("columns: {user: ''}", "columns.user: expected the name of a column, found ''"),
        ("columns: {user: a, item: a}", "columns.user and columns.item are both 'a': expected different columns"),
        ("job: a b", "job: expected a string of the characters A-Za-z0-9._-, found 'a b'"),
        ("job: '..'", "job: expected a string of the characters "),
        ("job: x²", "job: expected a string of the characters "),
        ('job: "x\\n"', "job: expected a string of the characters "),
        ("job:", "job: expected a string of the characters A-Za-z0-9._-, found nothing"),
        ("as_of: 20261128", "as_of: expected a string of the characters A-Za-z0-9._:+-, found 20261128: write it in quotes"),
        ("as_of: 2026/11/28", "as_of: expected a string of the characters "),
        ("as_of: '2026-13-01'", "as_of: expected a valid date, or a label in another format, found '2026-13-01'"),
        ("as_of: 2026-02-30T06", "as_of: expected a valid date, or a label in another format, found '2026-02-30T06'"),
        ("evaluation: {intervals: boot}", "evaluation.intervals: expected one of 'normal' or 'bootstrap', found 'boot'"),
        ("evaluation: {intervals: {methd: normal}}", "evaluation.intervals.methd: unknown key; did you mean 'method'?"),
        ("evaluation: {intervals: [normal]}", "evaluation.intervals: expected a mapping of keys to values, found a list"),
        ("model_name: ''", "model_name: expected a non-blank string without control characters, found ''"),
        ('model_name: "a\\nb"', "model_name: expected a non-blank string without control characters, found 'a\\nb'"),
        ("max_drop: 1e-3", "max_drop: unknown key; known: as_of, checks, columns, comparison, evaluation, gates, inputs, "),
        ("no: 1", "no: unknown key; "),
        ("_target_: os.system", "_target_: unknown key; "),
        ("<<: {job: x}", "['<<']: unknown key; "),
    ],
)
def test_errors_have_place_and_remedy(rejected: Rejected, more: str, line: str) -> None:
    (error,) = rejected(f"{SMALLEST}{more}\n")
    assert error.startswith(f"c.yaml:5: {line}")


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
            "inputs: expected no rating_predictions next to models, found both: set it under each model",
        ),
        ("{predictions: {path: /p}}", "inputs.truth: missing: this key has no default"),
        ("{predictions: {path: /p}, truth: {}}", "inputs.truth: expected either path or table, found neither"),
        (
            "{predictions: {path: /p, table: t}, truth: {path: /t}}",
            "inputs.predictions: expected either path or table, found both",
        ),
        (
            "{predictions: {path: ''}, truth: {path: /t}}",
            "inputs.predictions: expected a non-blank string without control characters, found ''",
        ),
        (
            "{predictions: {table: t, format: csv}, truth: {path: /t}}",
            "inputs.predictions: expected no format for a catalog table, which has its own, found 'csv'",
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
            "{predictions: {path: /p, options: {header: true}}, truth: {path: /t}}",
            "inputs.predictions.options.header: expected a string, found True: write it in quotes",
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
        (
            "{models: {'': {predictions: {path: /p}}}, truth: {path: /t}}",
            "inputs.models['']: expected a non-blank string without control",
        ),
        (
            '{models: {"a\\nb": {predictions: {path: /p}}}, truth: {path: /t}}',
            "inputs.models['a\\nb']: expected a non-blank string without control characters, found 'a\\nb'",
        ),
        ("{models: [als], truth: {path: /t}}", "inputs.models: expected a mapping of keys to values, found a list"),
    ],
)
def test_inputs(rejected: Rejected, inputs: str, line: str) -> None:
    (error,) = rejected(f"output: {{path: /out}}\ninputs: {inputs}\n")
    assert error.startswith(f"c.yaml:2: {line}")


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
def test_output(rejected: Rejected, output: str, line: str) -> None:
    content = SMALLEST.replace("output: {path: /out}", f"output: {output}")
    assert rejected(content) == [f"c.yaml:4: {line}"]


@pytest.mark.parametrize(
    ("report", "line"),
    [
        ("/r/report.txt", "expected the path of a .html file that the driver can write, found '/r/report.txt'"),
        ("s3://bucket/r.html", "expected the path of a .html file that the driver can write, found 's3://bucket/r.html'"),
        ("dbfs:/r.html", "expected the path of a .html file that the driver can write, found 'dbfs:/r.html'"),
        ("'/r/{date}.html'", "unknown placeholder {date} in '/r/{date}.html'; known: as_of"),
        ("'/r/{as_of}.html'", "'/r/{as_of}.html' needs an as_of: give --as-of, or as_of in the file"),
        ("[a]", "expected a string, found a list"),
    ],
)
def test_report(rejected: Rejected, report: str, line: str) -> None:
    assert rejected(f"{SMALLEST}report: {report}\n") == [f"c.yaml:5: report: {line}"]


def test_the_path_of_the_report(write: Write) -> None:
    config = load(write(f"{SMALLEST}report: '/r/{{as_of}}.html'\n"), as_of="2026-11-28")
    assert (config.report, config.report_path) == ("/r/{as_of}.html", "/r/2026-11-28.html")
    assert load(write(SMALLEST)).report_path is None


@pytest.mark.parametrize("name", ["</script><img src=x onerror=alert(1)>", "../../etc/x", "=1+1", "модель", "a b"])
def test_model_names_are_any_string(write: Write, name: str) -> None:
    models = json.dumps({name: {"predictions": {"path": "/p"}}})
    config = load(write(f"inputs: {{truth: {{path: /t}}, models: {models}}}\noutput: {{path: /o}}\n"))
    assert list(config.inputs.models or ()) == [name]


def test_a_string_is_the_method_of_the_intervals(write: Write) -> None:
    short, long = (load(write(f"{SMALLEST}evaluation: {{intervals: {how}}}\n")) for how in ("bootstrap", "{method: bootstrap}"))
    assert short == long
    assert short.evaluation.intervals.chosen.method == "bootstrap"
    assert {"enum": ["normal", "bootstrap"]} in Config.file_schema()["$defs"]["Evaluation"]["properties"]["intervals"]["anyOf"]


def test_metrics_that_need_the_catalog_are_reported_early(rejected: Rejected, write: Write) -> None:
    text = """\
evaluation:
  metrics:
    - ndcg
    - AUC
    - gauc(candidates=listed)
  complex_metrics:
    - {name: f1, params: {metric_name_1: ndcg, metric_name_2: accuracy}}
"""
    told = "needs the catalog: give inputs.catalog, one row per item that could be recommended, or their number"
    assert rejected(SMALLEST + text) == [
        f"c.yaml:8: evaluation.metrics[1]: auc {told}",
        f"c.yaml:11: evaluation.complex_metrics[0]: f1(ndcg, accuracy) {told}",
    ]
    assert load(write(SMALLEST + text), ["inputs.catalog=9"]).inputs.catalog == 9
    assert rejected(SMALLEST, "evaluation.metrics=[mcc@5]") == [
        f"--set evaluation.metrics=[mcc@5]: evaluation.metrics[0]: mcc@5 {told}"
    ]
    assert load(write(SMALLEST), ["evaluation.metrics=[auc]", "evaluation.convention.auc_candidates=listed"])


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


WRONG_EVERYWHERE = """\
inputs:
  models: {als: {predictions: {path: /p}}}
  truth: {path: /t}
output: {path: /out, formt: delta}
metrics: [ndcg]
comparison: {baseline: alss, test: t}
columns: {usr: x}
gates:
  - {metric: map@10, min: 0.1}
"""


def test_problems_between_sections_are_reported_although_others_are_wrong(rejected: Rejected) -> None:
    lines = rejected(WRONG_EVERYWHERE.replace("metrics: [ndcg]", "evaluation: {metrics: [ndcg, auc], baseline: pop}"))
    assert [line.split(": ", 2)[1:] for line in lines] == [
        ["output.formt", "unknown key; did you mean 'format'?"],
        ["evaluation.metrics[1]", AUC_NEEDS],
        ["evaluation.baseline", "unknown model 'pop'; known: als"],
        ["comparison.test", "expected one of 'paired_t', 'wilcoxon', 'sign' or 'bootstrap', found 't'"],
        ["columns.usr", "unknown key; did you mean 'user'?"],
        ["gates[0].metric", "map@10 is not evaluated; known: auc, ndcg@10"],
    ]


AUC_NEEDS = "auc needs the catalog: give inputs.catalog, one row per item that could be recommended, or their number"


def test_a_section_that_an_unknown_key_may_belong_to_is_not_checked(rejected: Rejected) -> None:
    """Otherwise the gate would be compared with the default metrics."""
    text = f"{SMALLEST}evaluation: {{metrics: [auc]}}\ngates: [{{metric: auc, min: 0.1}}]\n"
    flat = text.replace("evaluation: {metrics: [auc]}", "metrics: [auc]")
    assert rejected(flat) == ["c.yaml:5: metrics: unknown key; it belongs in evaluation"]
    assert len(rejected(text.replace("evaluation", "evalution").replace("min: 0.1", "min: 2"))) == 2  # needs no other section
    assert rejected(text.replace("evaluation", "evalution")) == ["c.yaml:5: evalution: unknown key; did you mean 'evaluation'?"]


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("metrics=[ndcg]", "metrics: unknown key; it belongs in evaluation"),
        ("baseline=x", "baseline: unknown key; it belongs in evaluation or comparison"),
        ("evaluation.truth=x", "evaluation.truth: unknown key; it belongs in inputs"),
        (
            "inputs.truth.header=true",
            'inputs.truth.header: unknown key; it is an option of the reader: write options: {header: "..."}',
        ),
        ("inputs.truth.sep=;", 'inputs.truth.sep: unknown key; it is an option of the reader: write options: {sep: "..."}'),
        (
            "inputs.predictions=file.csv",
            "inputs.predictions: expected a mapping of keys to values, found 'file.csv': write {path: file.csv}",
        ),
        (
            "inputs.catalog=file.csv",
            "inputs.catalog: expected a location, or the number of items, found 'file.csv': write {path: file.csv}",
        ),
        ("output=/out", "output: expected a mapping of keys to values, found '/out': write {path: /out}"),
        ("output=a\xa0b", "output: expected a mapping of keys to values, found 'a\\xa0b': write {path: ...}"),
        ("evaluation=x", "evaluation: expected a mapping of keys to values, found 'x'"),
    ],
)
def test_hints(rejected: Rejected, override: str, problem: str) -> None:
    assert rejected(SMALLEST, override) == [f"--set {override}: {problem}"]


@pytest.mark.parametrize(
    ("gate", "problem"),
    [
        ("{min: 20}", "min: values of ndcg@10 are from 0 to 1, found 20: the gate could never pass"),
        ("{min: -0.1}", "min: values of ndcg@10 are from 0 to 1, found -0.1: the gate could never fail"),
        ("{max: -1}", "max: values of ndcg@10 are from 0 to 1, found -1: the gate could never pass"),
        ("{max: 1.5}", "max: values of ndcg@10 are from 0 to 1, found 1.5: the gate could never fail"),
        ("{max_drop: 1, against: model(a)}", "max_drop: values of ndcg@10 are from 0 to 1, found 1: the gate could never fail"),
        (
            "{max_drop_share: 5, against: model(a)}",
            "max_drop_share: expected a number below 1, found 5: the gate could never fail; 5 % is 0.05",
        ),
        ("{metric: rmse, max: -1}", "max: values of rmse are from 0 to inf, found -1: the gate could never pass"),
        ("{metric: r2, min: 1.1}", "min: values of r2 are from -inf to 1, found 1.1: the gate could never pass"),
    ],
)
def test_gates_that_cannot_fail_or_cannot_pass(rejected: Rejected, gate: str, problem: str) -> None:
    text = f"{SMALLEST}evaluation: {{metrics: [ndcg, rmse, r2]}}\ngates:\n  - {gate.replace('{m', '{metric: ndcg@10, m')}\n"
    assert rejected(text.replace("metric: ndcg@10, metric", "metric")) == [f"c.yaml:7: gates[0].{problem}"]


def test_gates_at_the_ends_of_the_range_and_large_drops_of_errors(write: Write) -> None:
    gates = ["{metric: ndcg@10, min: 0, min_users: 9}", "{metric: ndcg@10, min: 1, max: 1}", "{metric: rmse, min: 7}"]
    gates += ["{metric: rmse, max_drop: 9, max_drop_share: 5, against: model(a)}"]
    gates += ["{metric: r2, max_drop_share: 2, against: model(a)}"]
    text = f"{SMALLEST}evaluation: {{metrics: [ndcg, rmse, r2]}}\ngates: [{', '.join(gates)}]\n"
    assert len(load(write(text)).gates) == 5


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (["output.path=/p/x"], "output.path: '/p/x' lies inside inputs.predictions.path '/p'"),
        (["output.path=file:/p/../t/"], "output.path: 'file:/p/../t/' is the same place as inputs.truth.path '/t'"),
        (
            ["output.path=/t/{as_of}", "inputs.truth.path=/t/1/x"],
            "output.path: '/t/{as_of}' contains inputs.truth.path '/t/1/x'",
        ),
        (
            ["output={table_prefix: a.b_}", "inputs.truth={table: A.b_runs}"],
            "output.table_prefix: 'a.b_' includes inputs.truth.table 'A.b_runs'",
        ),
        (["inputs.catalog={path: /out/summary}"], "output.path: '/out' contains inputs.catalog.path '/out/summary'"),
        (["report=/t/r.html"], "report: '/t/r.html' lies inside inputs.truth.path '/t'"),
    ],
)
def test_an_output_in_the_place_of_an_input_is_rejected(rejected: Rejected, overrides: list[str], problem: str) -> None:
    (line,) = rejected(SMALLEST, "as_of='1'", *overrides)
    assert line.endswith(f"{problem}: set another place: the run would change its own input")


def test_a_report_next_to_inputs_and_a_table_that_is_not_written(write: Write) -> None:
    assert load(write(SMALLEST), ["report=/r.html", "inputs.truth.path=/r"]).report == "/r.html"
    assert load(write(SMALLEST), ["output={table_prefix: a.}", "inputs.truth={table: a.test}"]).output.table_prefix == "a."


def test_gates_on_unknown_models_could_never_pass(rejected: Rejected) -> None:
    models = SMALLEST.replace("predictions: {path: /p}", "models: {als: {predictions: {path: /p}}}")
    gates = "{metric: ndcg@10, model: asl, min: 0.1}, {metric: ndcg@10, max_drop: 0.1, against: model(pop)}"
    assert rejected(f"{models}gates: [{gates}]\n") == [
        "c.yaml:5: gates[0].model: unknown model 'asl'; did you mean 'als'?",
        "c.yaml:5: gates[1].against: unknown model 'pop'; known: als",
    ]
