"""Configuration files of splits."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from job_data import CONF

import spark_recmetrics as srm
from spark_recmetrics import splits
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.files.source import Source
from spark_recmetrics.job.files.split_config import OPTIONS, SplitConfig, SplitOptions

SMALLEST = "input: {path: /r}\nsplit: {method: random}\noutput: {path: /out}\n"


def load_split(path, as_of=None):
    return SplitConfig.read(Source(path, as_of=as_of))


def test_smallest_file_has_the_defaults_of_the_functions(write):
    config = load_split(write(SMALLEST))
    assert config.arguments == {"columns": srm.Columns(), "min_user_rows": 1, "min_item_rows": 1}
    assert (config.job, config.as_of, config.output) == ("split", None, srm.Output(path="/out"))


def test_documented_file_has_every_key_with_its_default(write):
    text = (CONF / "split.yaml").read_text()
    active, config = yaml.safe_load(text), load_split(CONF / "split.yaml")
    assert set(active) == set(SplitConfig.model_fields)
    assert set(active["split"]) == set(SplitOptions.model_fields)
    assert set(active["columns"]) == set(type(config.columns).model_fields)
    small = "input: {path: /data/ratings}\nsplit: {method: temporal, test_share: 0.2}\noutput: {path: /data/splits}\n"
    assert config.resolved() == load_split(write(small)).resolved()
    assert all(
        re.search(rf"\b{value}\b", text) for value in (*OPTIONS, "time", "hash", "parquet", "csv", "json", "orc", "delta")
    )
    again = load_split(write(json.dumps(config.resolved()), "r.json"))
    assert (again.hash, again.run_id) == (config.hash, config.run_id)
    assert set(OPTIONS) | {"publish"} == {name for name in splits.__all__ if name.islower()}


def test_options_of_the_file_are_those_of_the_functions():
    minima = {"min_user_rows", "min_item_rows"}
    for method, options in OPTIONS.items():
        parameters = set(getattr(splits, method).__kwdefaults__)
        assert {*options, *minima, "time", "columns"} == parameters, method


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ("split: {method: randm}", "split.method: expected one of 'temporal', 'leave_one_out', "),
        ("split: {method: random, cut: 5, n: 1}", "split.cut: not an option of random, which has test_share, seed, per_user"),
        ("split: {method: random, test_share: 2}", "split.test_share: expected a number above 0 and below 1, found 2"),
        ("split: {method: random, test_share: x}", "split.test_share: expected a finite number, found 'x'"),
        ("split: {method: random, per_user: 1}", "split.per_user: expected true or false, found 1"),
        ("split: {method: random, seed: x}", "split.seed: expected an integer, found 'x'"),
        (
            "split: {method: random, seed: 9223372036854775808}",
            "split.seed: expected a number below 9223372036854775808, found 9223372036854775808",
        ),
        (
            "split: {method: random, seed: -9223372036854775809}",
            "split.seed: expected a number of at least -9223372036854775808, found -9223372036854775809",
        ),
        ("split: {method: k_fold, n_folds: 1}", "split.n_folds: expected an integer of at least 2, found 1"),
        ("split: {method: temporal}", "split: expected either cut or test_share, found neither"),
        ("split: {method: temporal, cut: 1.5}", "split.cut: expected a time such as 2026-03-29T01:30:00+00:00, or an integer"),
        ("split: {method: temporal, cut: 2026-03-29T01:30}", "split.cut: '2026-03-29T01:30' has no time zone: "),
        ("split: {method: temporal, cut: 9223372036854775808}", "split.cut: expected a 64-bit integer, found 92233"),
        ("split: {method: temporal, cut: 5, zone: Mars}", "split.zone: expected the name of a time zone such as "),
        (
            "split: {method: random}\ncolumns: {user: a, item: a}",
            "columns.user and columns.item are both 'a': expected different columns",
        ),
        ("split: {method: random}\ncolumns: {usr: a}", "columns.usr: unknown key; did you mean 'user'?"),
        ("split: {method: random}\nmetrics: [ndcg]", "metrics: unknown key; known: "),
        ("split: {method: random}\nspark.x: 1", "['spark.x']: Spark settings belong in "),
    ],
)
def test_errors_have_key_and_remedy(write, changed, line):
    with pytest.raises(ConfigError) as caught:
        load_split(write(SMALLEST.replace("split: {method: random}", changed)))
    message = str(caught.value).split("\n")[0].partition("c.yaml:")[2].partition(": ")[2]
    assert message.startswith(line)


def test_a_path_with_as_of_needs_one(write):
    path = write(SMALLEST.replace("/r", "'/{as_of}/r'"))
    with pytest.raises(ConfigError, match=r"input\.path: '/\{as_of\}/r' needs an as_of"):
        load_split(path)
    config = load_split(path, as_of="2026-11-28")
    assert config.located(config.input).path == "/2026-11-28/r"


def test_an_output_in_its_input_is_rejected(write):
    with pytest.raises(ConfigError, match=r"output\.path: '/r/x' lies inside input\.path '/r'"):
        load_split(write(SMALLEST.replace("path: /out", "path: /r/x")))
