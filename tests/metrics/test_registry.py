"""The registry of metrics, and metrics as values."""

from __future__ import annotations

import io
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from metrics.test_parsing import COMBINED_METRICS, every_metric

from spark_recmetrics.conventions import convention
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics import (
    COMBINED,
    DEFINITIONS,
    Metric,
    Parameter,
    RankedBatch,
    columns_of,
    names,
    parse,
    register,
    score,
)
from spark_recmetrics.metrics import registry as module
from spark_recmetrics.metrics.registry import Sums, quotient

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.fixture
def registry():
    """The registry, restored after the test."""
    before = dict(module.DEFINITIONS), dict(module.ALIASES)
    yield module
    for changed, kept in zip((module.DEFINITIONS, module.ALIASES), before, strict=True):
        changed.clear()
        changed.update(kept)


# The metrics and the docs -----------------------------------------------------------------------------------------------


def test_the_table_in_the_docs_has_every_metric():
    rows = re.findall(r"^\| \[`(\w+)`\]\(#\w+\) \| (\w+) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(rows) == {name: definition.kind for name, definition in {**DEFINITIONS, **COMBINED}.items()}
    assert len(rows) == len(dict(rows))
    assert names() == sorted(DEFINITIONS)


def test_the_docs_say_which_ranking_metrics_do_not_measure_accuracy():
    accuracy, heading, beyond = DOCS.read_text(encoding="utf-8").partition("\n## Beyond accuracy\n")
    assert heading
    for name, definition in DEFINITIONS.items():
        section = " ".join(accuracy.partition(f"\n## `{name}`\n")[2].partition("\n## ")[0].split())
        named_otherwise = f"\n## `{name}`\n" in beyond or "does not measure accuracy" in section
        assert definition.kind != "ranking" or definition.accuracy != named_otherwise, name


def test_every_definition_is_complete():
    for name, definition in DEFINITIONS.items():
        assert definition.summary.endswith("."), name
        described = definition.compute.__doc__ or ""
        for section in ("Returns:", "Source:", "Example:"):
            assert section in described, (name, section)
        # Modules describe the option of rating metrics, and those that name a column with groups.
        own = definition.options.keys() - definition.side_options.keys() if definition.kind != "rating" else ()
        options = described.partition("Options:")[2].partition("Returns:")[0]
        assert bool(options) == bool(own), name
        assert all(re.search(rf"\b{option}\b.*: ", options) for option in own), name
        assert all(operand.name in DEFINITIONS for operand in definition.operands), name
        for option, source in definition.options.items():
            if isinstance(source, Parameter):
                if source.column is not None:
                    assert source.default == ""
                    continue
                legal = source.default in source.choices if source.choices else 0 < source.default < source.below
                assert legal, (name, option)
            else:
                assert hasattr(convention("default"), source), (name, source)
        assert definition.averaged_by is None or {definition.averaged_by} <= set(definition.options), name
        assert definition.averaged_by is None or definition.pooled is not None, name
        assert definition.kind != "rating" or not definition.has_cut_off, name


@pytest.mark.parametrize("name", [*names(), *COMBINED])
def test_every_metric_has_a_heading_in_the_docs(name):
    headings = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if re.match("^## .*", line)]
    assert any(f"`{name}`" in heading for heading in headings), f"docs/metrics.md: no heading with `{name}`"


def test_the_docs_have_no_heading_of_an_unknown_metric():
    named = re.findall(r"^## `(\w+)`", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= set(DEFINITIONS) | set(COMBINED)


# Metrics as values ------------------------------------------------------------------------------------------------------


def test_a_parameter_overrides_the_convention():
    how = convention("ranx")
    assert parse("ndcg@3").options(how) == {"gain": "linear", "idcg": "at_k", "discount": "log2_plus1"}
    assert parse("ndcg(gain=binary)@3").options(how) == {"gain": "binary", "idcg": "at_k", "discount": "log2_plus1"}
    assert parse("f1(beta=0.5)").options(how.override(beta=3)) == {"beta": 0.5}
    assert parse("f1").options(how.override(beta=3)) == {"beta": 3.0}
    assert parse("rmse").options(how) == {"average": "pairs"}
    assert parse("rmse(average=users)").options(how) == {"average": "users"}
    assert parse("rmse").options(convention("warprec")) == {"average": "per_user"}
    listed = {"candidates": "listed", "negatives": "plus_one", "ties": "order", "weight": "uniform"}
    assert parse("gauc(candidates=listed)").options(convention("warprec")) == listed
    # Parameters without a field in the convention.
    assert parse("rbp").options(how) == {"p": 0.8}
    assert parse("rbp(p=0.5)").options(how) == {"p": 0.5}
    assert parse("ctr").options(how) == {"estimator": "matching"}
    assert parse("dr@3").options(how) == {"estimator": "dr"}


def test_parts_have_the_cut_off_of_the_metric():
    assert [str(part) for part in parse("f1@5").parts()] == ["precision@5", "recall@5"]
    assert [str(part) for part in parse("f1(ndcg(gain=linear), map)@5").parts()] == ["ndcg(gain=linear)@5", "map@5"]
    assert [str(part) for part in parse("f1").parts()] == ["precision", "recall"]
    assert parse("ndcg@5").parts() == ()


def test_a_part_that_cannot_be_cut_has_no_cut_off():
    metric = parse("f1(gauc, ndcg)@10")
    assert (str(metric), metric.slug) == ("f1(gauc, ndcg)@10", "f1_gauc_ndcg_at_10")
    assert [str(part) for part in metric.parts()] == ["gauc", "ndcg@10"]
    assert [str(part) for part in metric.tree()] == ["f1(gauc, ndcg)@10", "gauc", "ndcg@10"]
    assert [str(metric.at(5)), str(metric.at(None))] == ["f1(gauc, ndcg)@5", "f1(gauc, ndcg)"]
    nested = parse("f1(f1(r_precision, lauc), bpref)@3")
    assert [str(part) for part in nested.tree()][2:] == ["r_precision", "lauc@3", "bpref"]


@pytest.mark.parametrize(
    ("text", "how", "average"),
    [
        ("ndcg", "default", "per_user"),
        ("f1(gauc, auc)", "default", "per_user"),
        ("auc", "default", "pairs"),
        ("ctr@3", "default", "pairs"),
        ("gauc", "default", "per_user"),
        ("gauc", "recbole", "pairs"),
        ("gauc(weight=recommended)", "default", "pairs"),
        ("gauc(weight=uniform)", "recbole", "per_user"),
        ("mae", "default", "pairs"),
        ("mae", "warprec", "per_user"),
        ("mae", "laikallm_doc", "users"),
        ("mae(average=pairs)", "laikallm_doc", "pairs"),
        ("r2", "laikallm_doc", "pairs"),
        ("r2(average=users)", "default", "pairs"),
        ("r2", "warprec", "per_user"),
    ],
)
def test_average(text, how, average):
    assert parse(text).average(convention(how)) == average


def test_users():
    how = convention("mllib")
    assert parse("ndcg").users(how) == parse("auc").users(how) == "truth_and_predicted"
    for name in ("ctr", "ess", "matched_auc"):
        assert parse(f"{name}@3").users(how) == "all"
        assert parse(name).users(how.override(users_by_metric={name: "relevant"})) == "relevant"


def test_columns():
    assert columns_of(parse("ndcg@10")) == ["ndcg_at_10"]
    assert columns_of(parse("lauc@3")) == ["lauc_at_3"]
    assert columns_of(parse("ips@3")) == [
        "ctr_estimator_ips_at_3",
        "ctr_estimator_ips_at_3_total",
        "ctr_estimator_ips_at_3_count",
    ]
    assert columns_of(parse("f1(gauc, ndcg)@3")) == ["f1_gauc_ndcg_at_3"]


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("ndcg", "ndcg"),
        ("ndcg@10", "ndcg_at_10"),
        ("ndcg(gain=exponential)@10", "ndcg_gain_exponential_at_10"),
        ("f1(beta=0.5)@20", "f1_beta_0_5_at_20"),
        ("f1(ndcg, map, beta=0.5)@10", "f1_ndcg_map_beta_0_5_at_10"),
        ("rmse", "rmse"),
        ("rmse(average=per_user)", "rmse_average_per_user"),
        ("rbp(p=0.8)@10", "rbp_p_0_8_at_10"),
        ("ips@5", "ctr_estimator_ips_at_5"),
        ("gauc(candidates=listed, weight=relevant)", "gauc_candidates_listed_weight_relevant"),
    ],
)
def test_slug(text, slug):
    assert parse(text).slug == slug


def test_slugs_are_valid_column_names_and_unique():
    taken: dict[str, Metric] = {}
    for metric in every_metric():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.slug), str(metric)
        assert taken.setdefault(metric.slug, metric) == metric
    assert len(taken) > 400


# Registration -------------------------------------------------------------------------------------------------------------


def test_registering_a_metric(registry):
    before = names()

    @register("share_of_first", options={"cut": "idcg"}, aliases=("sof",), upper=None, higher_is_better=False)
    def share(batch, k, *, cut):
        """A made-up metric.

        More.
        """
        return np.full(batch.size, 0.5 if cut == "all" else 0.25)

    assert str(parse("SOF(cut=all)@3")) == "share_of_first(cut=all)@3"
    assert registry.names() == sorted([*before, "share_of_first"])
    definition = registry.DEFINITIONS["share_of_first"]
    assert definition.summary == "A made-up metric."
    assert (definition.kind, definition.upper, definition.higher_is_better) == ("ranking", None, False)
    assert (definition.needs_relevant, definition.grows_with_k, definition.has_cut_off) == (False, False, True)
    assert (definition.lower, definition.pooled, definition.averaged_by, definition.users) == (0, None, None, None)
    assert (definition.skips_undefined, definition.across_users, parse("sof").needs(convention("default"))) == (
        False,
        False,
        set(),
    )
    assert definition.compute is share


@pytest.mark.parametrize("taken", ["ndcg", "nDCG", "hit_rate", "Hit Rate", "HIT-RATE", "MRR", "ndcgRendle2020"])
def test_a_name_cannot_be_registered_twice(registry, taken):
    with pytest.raises(ValueError, match=re.escape(f"metric name {taken!r} is registered already")):
        register(taken)(lambda batch, k: None)


def test_an_alias_cannot_be_registered_twice(registry):
    with pytest.raises(ValueError, match="metric name 'HR' is registered already"):
        register("brand_new", aliases=("bn", "HR"))(lambda batch, k: None)
    assert "brand_new" not in registry.names()


@pytest.mark.parametrize("name", ["", "a b", "Upper", "x@5", "5", "x-y", 5])
def test_a_name_that_cannot_be_written_is_rejected(registry, name):
    message = f"metric name: expected lower case letters, digits and _, with a letter first, found {name!r}"
    with pytest.raises(ConfigError, match=re.escape(message)):
        register(name)(lambda batch, k: None)
    with pytest.raises(ConfigError, match=r"metric name: expected lower case letters, .*, found 'x@5'"):
        register("brand_new", aliases=("Brand New", "x@5"))(lambda batch, k: None)
    assert "brand_new" not in registry.names()


@pytest.mark.parametrize(
    ("traits", "message"),
    [
        ({"kind": "rankin"}, "metric brand_new: kind: unknown 'rankin'; did you mean 'ranking'?"),
        ({"users": "nobody"}, "metric brand_new: users: unknown 'nobody'; known: "),
        ({"options": {"gain": "no_such_field"}}, "metric brand_new: options: unknown 'no_such_field'; known: "),
        ({"needs": ("catalogue",)}, "metric brand_new: needs: unknown 'catalogue'; did you mean 'catalog'?"),
        ({"needs": "features"}, "metric brand_new: needs: unknown 'f'; known: audience, "),
    ],
)
def test_unknown_traits_of_a_metric_are_rejected(registry, traits, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        register("brand_new", **traits)(lambda batch, k: None)
    assert "brand_new" not in registry.names()


def test_a_formula_is_a_function(registry):
    with pytest.raises(ConfigError, match="metric brand_new: expected a function, found 5"):
        register("brand_new")(5)


@pytest.mark.parametrize("values", [None, np.zeros(1), 0.5, Sums(np.zeros(2), np.ones(2))])
def test_a_formula_that_does_not_return_a_number_for_each_user_is_named(registry, values):
    register("brand_new")(lambda batch, k: values)
    register("pooled_one", pooled=quotient)(lambda batch, k: values and np.ones(2))
    batch = RankedBatch.of(lists=[["a"], ["b"]], truth=[{"a": 1}, {"a": 1}])
    with pytest.raises(ConfigError, match="brand_new@3: expected an array with a number for each of 2 users from its formula"):
        score(parse("brand_new@3"), batch, convention("default"))
    with pytest.raises(ConfigError, match="pooled_one@3: expected Sums with a number for each of 2 users from its formula"):
        score(parse("pooled_one@3"), batch, convention("default"))


@pytest.mark.parametrize("text", [*names(), *COMBINED, *COMBINED_METRICS])
def test_a_pickled_metric_keeps_its_definition(text):
    metric = parse(text)
    copy = pickle.loads(pickle.dumps(metric))
    assert (copy, hash(copy), repr(copy)) == (metric, hash(metric), repr(metric))
    assert copy.definition == metric.definition


NOTEBOOK = """
import sys
import numpy as np
from pyspark import cloudpickle
from spark_recmetrics.metrics import parse, register

@register("first_half", aliases=("fh",))
def first_half(batch, k):
    return np.full(batch.size, 0.5)

@register("mean_of_two", operands=("first_half", "hit"))
def mean_of_two(first, second):
    return (first + second) / 2

sys.stdout.buffer.write(cloudpickle.dumps(parse("mean_of_two(hit, fh)@3")))
sys.stdout.buffer.write(cloudpickle.dumps(parse("mean_of_two@3")))
"""


def test_a_metric_of_a_notebook_works_where_it_is_not_registered():
    """Spark pickles with cloudpickle, which sends functions of `__main__` by value."""
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, check=True)
    stream = io.BytesIO(done.stdout)
    batch = RankedBatch.of(lists=[["a"], ["b"]], truth=[{"a": 1}, {"a": 1}])
    for text in ("mean_of_two(hit, first_half)@3", "mean_of_two@3"):
        metric = pickle.load(stream)
        assert str(metric) == text
        assert score(metric, batch, convention("default")).tolist() == [0.75, 0.25]
        assert score(metric.at(1), batch, convention("default")).tolist() == [0.75, 0.25]
    assert not {"mean_of_two", "first_half"} & {*names()}
    with pytest.raises(ConfigError, match="unknown metric 'mean_of_two'"):
        parse(text)


def test_a_metric_keeps_the_definition_that_it_was_made_with(registry):
    before = parse("hit@3")
    registry.DEFINITIONS["hit"] = replace(before.definition, upper=2.0)
    after = parse("hit@3")
    assert before == after
    assert (before.at(5).definition.upper, after.at(5).definition.upper) == (1.0, 2.0)
