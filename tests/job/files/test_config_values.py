"""Types of values in a configuration: cut-offs, metrics, conventions, slices, catalogs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from job_data import SMALLEST, Rejected, Write, load

from spark_recmetrics.conventions import CONVENTIONS, convention
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics import parse
from spark_recmetrics.storage.locations import Location


@pytest.mark.parametrize(("text", "expected"), [("5", (5,)), ("[5, 10]", (5, 10)), ("null", ()), ("[]", ()), ("010", (10,))])
@pytest.mark.parametrize("key", ["k", "top_k"])
def test_cut_offs(evaluation_of: Callable[..., Any], key: str, text: str, expected: tuple[int, ...]) -> None:
    assert evaluation_of(f"{{{key}: {text}}}").top_k == expected


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
    metric = evaluation_of(f"{{metrics: [], complex_metrics: [{written}]}}").complex_metrics[0].metric
    assert metric == parse(text)
    assert str(metric) == text


def test_a_convention_is_read_as_results_print_it(evaluation_of: Callable[..., Any]) -> None:
    texts = ["recommenders(relevance=positive)", "lenskit(users_by_metric=Hit:truth+MRR:relevant, undefined=zero)"]
    for text in texts:
        chosen = evaluation_of(f"{{convention: '{text}'}}").convention
        assert str(chosen) == text.replace("Hit", "hit").replace("MRR", "mrr")
        again = evaluation_of(f"{{convention: {{name: '{text}', gain: linear}}}}").convention
        assert again == chosen.override(gain="linear")


@pytest.mark.parametrize(
    ("written", "first"),
    [
        ("metrics: [ndcg, f1(auc, gauc)]", "evaluation.metrics[1]: 'f1(auc': expected , or )"),
        ("slices: [age(18, 35)]", "evaluation.slices[0]: "),
    ],
)
def test_a_string_that_yaml_split_at_its_comma(write: Callable[..., str], written: str, first: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(SMALLEST + f"evaluation: {{{written}}}\n"))
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert first in lines[0]
    assert all(line.endswith(": in a list, write a string with a comma in quotes") for line in lines)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_convention_by_name_with_a_threshold(evaluation_of: Callable[..., Any], name: str) -> None:
    assert evaluation_of(f"{{convention: {name}}}").chosen_convention == CONVENTIONS[name]
    assert evaluation_of(f"{{convention: {name}, threshold: 3.5}}").chosen_convention == convention(name, 3.5)


@pytest.mark.parametrize("value", ["0", "-1", "2.5", "true", '"10"', "²", "1e1", "0.0", "~x", "{a: 1}"])
@pytest.mark.parametrize("key", ["k", "top_k"])
def test_wrong_cut_offs_are_rejected_by_key(rejected: Rejected, key: str, value: str) -> None:
    (line,) = rejected(f"{SMALLEST}evaluation:\n  {key}: {value}\n")
    assert re.match(rf"c.yaml:6: evaluation\.{key}: expected (an integer of at least 1|a list), found ", line)
    (line,) = rejected(f"{SMALLEST}evaluation:\n  {key}:\n  - 5\n  - {value}\n")
    assert line.startswith(f"c.yaml:8: evaluation.{key}[1]: expected an integer of at least 1, found ")


@pytest.mark.parametrize("text", ["99999999999", "[99999999999]"])
def test_cut_offs_fit_an_integer_of_spark(rejected: Rejected, text: str) -> None:
    (line,) = rejected(f"{SMALLEST}evaluation: {{k: {text}}}\n")
    assert line.endswith(": expected an integer from 1 to 10000000, found 99999999999")
    (line,) = rejected(SMALLEST + "evaluation: {metrics: [ndcg@99999999999]}\n")
    told = "'ndcg@99999999999': expected an integer from 1 to 10000000 after @, found '99999999999'"
    assert line == f"c.yaml:5: evaluation.metrics[0]: {told}"


def test_deeply_nested_metrics_are_rejected(rejected: Rejected) -> None:
    (line,) = rejected(f"{SMALLEST}evaluation: {{metrics: ['{'f1(' * 5000}']}}\n")
    assert line.startswith("c.yaml:5: evaluation.metrics[0]: expected a metric as a string, such as 'ndcg@10', found 'f1(f1(")
    assert len(line) < 200


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
        ("0", "catalog: expected an integer of at least 1, found 0"),
        ("true", "catalog: expected a location, or the number of items, found True"),
        ("4e3", "catalog: expected a location, or the number of items, found 4000.0"),
        ("/c", "catalog: expected a location, or the number of items, found '/c': write {path: /c}"),
        ("[1]", "catalog: expected a location, or the number of items, found a list"),
        ("{}", "catalog: expected either path or table, found neither"),
        ("{path: 5}", "catalog.path: expected a string, found 5: write it in quotes"),
        ("{path: /c, fromat: csv}", "catalog.fromat: unknown key; did you mean 'format'?"),
        ('{path: "/c/{day}"}', "catalog.path: unknown placeholder {day} in '/c/{day}'; known: as_of"),
    ],
)
def test_wrong_catalogs(rejected: Rejected, catalog: str, line: str) -> None:
    assert rejected(SMALLEST.replace("inputs:", f"inputs:\n  catalog: {catalog}")) == [f"c.yaml:2: inputs.{line}"]
