"""The registry and the text form of metrics: what is written is what is meant, and what is meant has one text."""

from __future__ import annotations

import io
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spark_recmetrics.conventions import convention
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics import (
    COMBINED,
    DEFINITIONS,
    Metric,
    Parameter,
    RankedBatch,
    columns_of,
    expand,
    names,
    parse,
    register,
    score,
)
from spark_recmetrics.metrics import registry as module

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
NUMBERS = (0.5, 1.0, 2.0, 1e-7, 1e22, 12345.678)


def every_metric() -> Iterator[Metric]:
    """Every name, option value, pair of option values and cut-off, and metrics of metrics."""
    for name, definition in DEFINITIONS.items():
        chosen: list[tuple[tuple[str, str | float], ...]] = [()]
        for option, source in sorted(definition.options.items()):
            below = source.below if isinstance(source, Parameter) else math.inf
            lowest = 1.0 if source == "entropy_base" else 0.0
            values = definition.choices(option) or [number for number in NUMBERS if lowest < number < below]
            if isinstance(source, Parameter) and source.counts:
                values = [1.0, 2.0, 10_000_000.0]
            if isinstance(source, Parameter) and source.column is not None:
                values = ["genre", "Main genre", "age_2"]
            chosen += [(*before, (option, value)) for before in chosen for value in values]
        for params in chosen:
            for k in (None, 1, 10, 1_000_000) if definition.has_cut_off else (None,):
                yield Metric(name, params=params, k=k)
    for text in METRICS_OF_METRICS:
        yield parse(text)


METRICS_OF_METRICS = (
    "f1(ndcg, map)@10",
    "f1(ndcg, map, beta=0.5)@10",
    "f1(recall, precision)",
    "f1(hit, mrr)@1",
    "f1(precision(denominator=recommended), recall)@5",
    "f1(ndcg(gain=linear, idcg=all), map(normalizer=relevant), beta=2)@5",
    "f1(f1(map, mar), f1(beta=2))@5",
    "f1(gauc, ndcg)@10",
    "f1(gauc(candidates=listed, weight=relevant), r_precision)@10",
    "f1(rbp(p=0.5), gauc(weight=relevant), beta=3)",
)


@pytest.fixture
def registry():
    """A registry that a test may add to."""
    before = dict(module.DEFINITIONS), dict(module.ALIASES)
    yield module
    for changed, kept in zip((module.DEFINITIONS, module.ALIASES), before, strict=True):
        changed.clear()
        changed.update(kept)


# The text form ------------------------------------------------------------------------------------------------------------


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


def test_every_text_reads_back_as_the_same_metric():
    count = 0
    for metric in every_metric():
        count += 1
        assert parse(str(metric)) == metric
        assert str(parse(str(metric))) == str(metric)
        # Names of columns are read as they are written.
        names_column = any(isinstance(source, Parameter) and source.column for source in metric.definition.options.values())
        assert names_column or parse(str(metric).upper()) == metric
        assert parse(metric) is metric
        assert hash(parse(str(metric))) == hash(metric)
    assert count > 400


@pytest.mark.parametrize("text", METRICS_OF_METRICS)
def test_metrics_of_metrics_have_canonical_texts(text):
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("rbp(p=0.8)@10", "rbp(p=0.8)@10"),
        ("RBP(p=.5)", "rbp(p=0.5)"),
        ("Rank Biased Precision(P=5e-1)@3", "rbp(p=0.5)@3"),
        ("IPS@5", "ctr(estimator=ips)@5"),
        ("dr", "ctr(estimator=dr)"),
        ("ips(estimator=IPS)@5", "ctr(estimator=ips)@5"),
        ("Click-Through-Rate", "ctr"),
        ("CTR(estimator=matching)@3", "ctr(estimator=matching)@3"),
        ("Group AUC(weight=Recommended, ties=order)", "gauc(ties=order, weight=recommended)"),
        ("AUC(negatives=plus_one, candidates=all)", "auc(candidates=all, negatives=plus_one)"),
        ("Limited AUC@5", "lauc@5"),
        ("PartialAUC@5", "pauc@5"),
        ("PAP(insufficient=exclude)@5", "pap(insufficient=exclude)@5"),
        ("UserCoverageAtN(n=5)@10", "user_coverage(n=5)@10"),
        ("covered users@10", "user_coverage@10"),
        ("MCC(denominator=recommended)@5", "mcc(denominator=recommended)@5"),
        ("RPrec", "r_precision"),
        ("R-Precision", "r_precision"),
        ("R@5", "recall@5"),
        ("RMSE(average=per_user)", "rmse(average=per_user)"),
        ("R2(average=pairs)", "r2(average=pairs)"),
        ("R squared", "r2"),
        ("ExpVar", "explained_variance"),
        ("ndcg@10", "ndcg@10"),
        ("nDCG@10", "ndcg@10"),
        ("NDCG", "ndcg"),
        ("Normalized Discounted Cumulative Gain@5", "ndcg@5"),
        ("nDCGRendle2020@3", "ndcg(gain=binary)@3"),
        ("ndcg_rendle2020", "ndcg(gain=binary)"),
        ("nDCGRendle2020(idcg=all)@3", "ndcg(gain=binary, idcg=all)@3"),
        ("nDCGRendle2020(gain=binary)@3", "ndcg(gain=binary)@3"),
        ("ndcg( idcg = ALL , gain = Exponential_Plus1 ) @ 10", "ndcg(gain=exponential_plus1, idcg=all)@10"),
        ("hit_rate@5", "hit@5"),
        ("hitrate@5", "hit@5"),
        ("HitRate@5", "hit@5"),
        ("Hit Rate@5", "hit@5"),
        ("hit-rate@5", "hit@5"),
        ("Hit_Rate @5", "hit@5"),
        (" HR@5 ", "hit@5"),
        ("HIT@2", "hit@2"),
        ("MRR@10", "mrr@10"),
        ("mean reciprocal rank", "mrr"),
        ("MAP@10", "map@10"),
        ("mean_average_precision", "map"),
        ("Average Precision@3", "map@3"),
        ("MAR@10", "mar@10"),
        ("Precision@1", "precision@1"),
        ("Recall", "recall"),
        ("F1@20", "f1@20"),
        ("f-beta(beta=0.5)@20", "f1(beta=0.5)@20"),
        ("F1_Score@5", "f1@5"),
        ("f1(beta=2.0)@20", "f1(beta=2)@20"),
        ("f1(beta=5e-1)", "f1(beta=0.5)"),
        ("f1(beta=0.5, nDCG, MAP)@10", "f1(ndcg, map, beta=0.5)@10"),
        ("f1(precision, recall)@10", "f1@10"),
        ("RMSE", "rmse"),
        ("Mean Absolute Error", "mae"),
    ],
)
def test_what_people_write(written, canonical):
    assert str(parse(written)) == canonical


def test_every_alias_means_its_metric():
    for name, definition in DEFINITIONS.items():
        for alias, fixed in definition.aliases.items():
            for text in (alias, alias.upper(), alias.replace("_", " "), alias.replace("_", "-")):
                assert parse(text) == Metric(name, params=fixed)


def test_a_parameter_wins_over_the_convention():
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
    # No convention knows of these.
    assert parse("rbp").options(how) == {"p": 0.8}
    assert parse("rbp(p=0.5)").options(how) == {"p": 0.5}
    assert parse("ctr").options(how) == {"estimator": "matching"}
    assert parse("dr@3").options(how) == {"estimator": "dr"}


def test_parts_have_the_cut_off_of_the_whole():
    assert [str(part) for part in parse("f1@5").parts()] == ["precision@5", "recall@5"]
    assert [str(part) for part in parse("f1(ndcg(gain=linear), map)@5").parts()] == ["ndcg(gain=linear)@5", "map@5"]
    assert [str(part) for part in parse("f1").parts()] == ["precision", "recall"]
    assert parse("ndcg@5").parts() == ()


def test_a_part_without_a_cut_off_keeps_none():
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
    ("text", "message"),
    [
        ("", "'': expected the name of a metric"),
        ("@5", "'@5': expected the name of a metric"),
        ("10", "'10': expected the name of a metric"),
        ("ndgc@10", "'ndgc@10': unknown metric 'ndgc'; did you mean 'ndcg'?"),
        ("Precison", "'Precison': unknown metric 'Precison'; did you mean 'precision'?"),
        ("ndcg@0", "'ndcg@0': expected an integer of at least 1 after @, found '0'"),
        ("ndcg@2.5", "'ndcg@2.5': expected an integer of at least 1 after @, found '2.5'"),
        ("ndcg@010", "'ndcg@010': expected an integer of at least 1 after @, found '010'"),
        ("ndcg@1e1", "'ndcg@1e1': expected an integer of at least 1 after @, found '1e1'"),
        ("ndcg@true", "'ndcg@true': expected an integer of at least 1 after @, found 'true'"),
        ("ndcg@", "'ndcg@': expected an integer of at least 1 after @, found 'nothing'"),
        ("ndcg@2@3", "'ndcg@2@3': expected name, name@k or name(parameter=value)@k"),
        ("ndcg 10", "'ndcg 10': expected name, name@k or name(parameter=value)@k"),
        ("ndcg@10!", "'ndcg@10!': expected name, name@k or name(parameter=value)@k"),
        ("f1(beta=1)x", "'f1(beta=1)x': expected name, name@k or name(parameter=value)@k"),
        ("rmse@5", "'rmse@5': rmse has no cut-off: write it without @5"),
        ("auc@10", "'auc@10': auc has no cut-off: write it without @10"),
        ("gauc(weight=uniform)@3", "'gauc(weight=uniform)@3': gauc has no cut-off: write it without @3"),
        ("r_precision@5", "'r_precision@5': r_precision has no cut-off: write it without @5"),
        ("BPref@5", "'BPref@5': bpref has no cut-off: write it without @5"),
        ("rbp(p=0)@10", "'rbp(p=0)@10': p: expected a finite number above 0 and below 1, found '0'"),
        ("rbp(p=1)", "'rbp(p=1)': p: expected a finite number above 0 and below 1, found '1'"),
        ("rbp(p=-0.5)", "'rbp(p=-0.5)': p: expected a finite number above 0 and below 1, found '-0.5'"),
        ("rbp(p=half)", "'rbp(p=half)': p: expected a finite number above 0 and below 1, found 'half'"),
        ("f1(ndcg, mcc)@3", "'f1(ndcg, mcc)@3': f1 combines metrics that start at 0 and are better if higher, mcc is not one"),
        ("f1(ess, recall)", "'f1(ess, recall)': f1 combines metrics that start at 0 and are better if higher, ess is not one"),
        ("ctr(estimator=snips)", "'ctr(estimator=snips)': estimator: expected one of matching, ips, dr, found 'snips'"),
        ("ips(estimator=dr)", "'ips(estimator=dr)': estimator is given twice"),
        ("gauc(weight=pairs)", "'gauc(weight=pairs)': weight: expected one of uniform, relevant, recommended, found 'pairs'"),
        ("auc(weight=uniform)", "'auc(weight=uniform)': auc has no parameter 'weight'; known: candidates, negatives, ties"),
        ("rmse(average=mean)", "'rmse(average=mean)': average: expected one of pairs, per_user, users, found 'mean'"),
        ("f1(ndcg, r2)", "'f1(ndcg, r2)': f1 combines per-user ranking metrics, r2 is not one"),
        ("f1()", "'f1()': expected a metric or a parameter of f1, written beta=1, found ')'"),
        ("f1(", "'f1(': expected a metric or a parameter of f1, written beta=1, found 'nothing'"),
        ("f1(map, ndcg,)", "'f1(map, ndcg,)': expected a metric or a parameter of f1, written beta=1, found ')'"),
        ("rbp(0.8)@5", "'rbp(0.8)@5': expected a parameter of rbp, written p=0.8, found '0.8'"),
        ("entropy(2)", "'entropy(2)': expected a parameter of entropy, written base=2.71828 or scale=none, found '2'"),
        ("rsp(genre)@5", "'rsp(genre)@5': expected a parameter of rsp, written groups=COLUMN or pool=unseen, found 'genre'"),
        ("hit()@5", "'hit()@5': hit has no parameters: write it without (…), found ')'"),
        ("ild(jaccard)@5", "'ild(jaccard)@5': 'jaccard' is a value of a parameter of ild: write distance=jaccard"),
        ("ctr(IPS)@5", "'ctr(IPS)@5': 'IPS' is a value of a parameter of ctr: write estimator=ips"),
        ("ild(jaccad)@5", "'ild(jaccad)@5': expected a parameter of ild, written distance=cosine, found 'jaccad'"),
        ("user_coverage(n=2.5)@5", "'user_coverage(n=2.5)@5': n: expected an integer of at least 1, found '2.5'"),
        ("user_coverage(n=0)", "'user_coverage(n=0)': n: expected an integer of at least 1, found '0'"),
        ("user_coverage(n=two)", "'user_coverage(n=two)': n: expected an integer of at least 1, found 'two'"),
        ("user_coverage(n=1e8)", "'user_coverage(n=1e8)': n: expected an integer from 1 to 10000000, found '1e8'"),
        ("f1(beta=1", "'f1(beta=1': expected , or )"),
        ("f1(beta=1 beta=2)", "'f1(beta=1 beta=2)': expected , or )"),
        ("f1(beta=1, beta=2)", "'f1(beta=1, beta=2)': beta is given twice"),
        ("ndcg(gain=linear, gain=binary)", "'ndcg(gain=linear, gain=binary)': gain is given twice"),
        ("nDCGRendle2020(gain=linear)", "'nDCGRendle2020(gain=linear)': gain is given twice"),
        ("f1(beta=0)", "'f1(beta=0)': beta: expected a finite number above 0, found '0'"),
        ("f1(beta=1e999)", "'f1(beta=1e999)': beta: expected a finite number above 0, found '1e999'"),
        ("f1(beta=1-1)", "'f1(beta=1-1)': beta: expected a finite number above 0, found '1-1'"),
        ("f1(beta=nan)", "'f1(beta=nan)': beta: expected a finite number above 0, found 'nan'"),
        ("ndcg(gian=linear)", "'ndcg(gian=linear)': ndcg has no parameter 'gian'; did you mean 'gain'?"),
        ("hit(gain=linear)", "'hit(gain=linear)': hit has no parameter 'gain'"),
        (
            "ndcg(gain=lin)",
            "'ndcg(gain=lin)': gain: expected one of binary, linear, exponential, exponential_plus1, found 'lin'",
        ),
        ("ndcg(gain=2)", "'ndcg(gain=2)': gain: expected one of binary, linear, exponential, exponential_plus1, found '2'"),
        ("f1(ndcg)", "'f1(ndcg)': f1 takes 2 metrics, found 1"),
        (
            "ndcg@10, map@10",
            "'ndcg@10, map@10': expected name, name@k or name(parameter=value)@k: give several metrics as a list of strings",
        ),
        ("f1(ndcg, map, hit)", "'f1(ndcg, map, hit)': f1 takes 2 metrics, found 3"),
        ("ndcg(map, hit)", "'ndcg(map, hit)': ndcg takes no metrics, found 2"),
        ("f1(ndcg, rmse)", "'f1(ndcg, rmse)': f1 combines per-user ranking metrics, rmse is not one"),
        ("f1(ndcg@5, map)", "'f1(ndcg@5, map)': write the cut-off once, after f1(…)"),
        ("f1(ndcg@5, map)@5", "'f1(ndcg@5, map)@5': write the cut-off once, after f1(…)"),
    ],
)
def test_refused(text, message):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["hit@-1", "hit@²", "hit@\uff11", "hit@+5", "hit@ ", "hit@k"])
def test_a_cut_off_that_only_looks_like_one(text):
    with pytest.raises(ConfigError, match="expected an integer of at least 1 after @"):
        parse(text)


@pytest.mark.parametrize("text", ["f1(beta=-1)", "f1(beta=0)", "f1(beta=1.2.3)", "f1(beta=)", "f1(beta=½)"])
def test_a_beta_that_only_looks_like_one(text):
    with pytest.raises(ConfigError, match="beta: expected a finite number above 0"):
        parse(text)


def test_an_unknown_metric_far_from_all_names_gets_the_list():
    with pytest.raises(ConfigError, match=r"unknown metric 'zzzz'; known: .*ndcg.*rmse"):
        parse("zzzz@5")


@pytest.mark.parametrize("thing", [None, 5, 2.5, ["ndcg"], b"ndcg"])
def test_what_is_no_text_is_refused(thing):
    with pytest.raises(ConfigError, match=re.escape(f"expected a metric as a string, such as 'ndcg@10', found {thing!r}")):
        parse(thing)


# Slugs --------------------------------------------------------------------------------------------------------------------


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


def test_slugs_are_legal_and_unique():
    taken: dict[str, Metric] = {}
    for metric in every_metric():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.slug), str(metric)
        assert taken.setdefault(metric.slug, metric) == metric
    assert len(taken) > 400


# Several metrics at several cut-offs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metrics", "k", "expected"),
    [
        (["ndcg", "map@10", "rmse"], [5, 10], ["ndcg@5", "ndcg@10", "map@10", "rmse"]),
        (["ndcg", "rmse"], None, ["ndcg", "rmse"]),
        (["auc", "ndcg"], [5, 10], ["auc", "ndcg@5", "ndcg@10"]),
        (["gauc", "lauc", "GAUC", "bpref"], [5, 10], ["gauc", "lauc@5", "lauc@10", "bpref"]),
        (["f1(gauc, ndcg)", "rbp(p=0.5)"], [5], ["f1(gauc, ndcg)@5", "rbp(p=0.5)@5"]),
        (["ctr", "ips", "dr"], 3, ["ctr@3", "ctr(estimator=ips)@3", "ctr(estimator=dr)@3"]),
        (["ndcg", "rmse"], [], ["ndcg", "rmse"]),
        (["ndcg"], 7, ["ndcg@7"]),
        ("nDCG", (20, 3), ["ndcg@20", "ndcg@3"]),
        (["hit_rate", "hit@5", "HR@5"], [5, 5], ["hit@5"]),
        (["f1(ndcg, map)"], [5], ["f1(ndcg, map)@5"]),
        (parse("mrr"), np.array([2, 4]).tolist(), ["mrr@2", "mrr@4"]),
        ([parse("mrr@3"), "mrr"], list(np.array([2, 4])), ["mrr@3", "mrr@2", "mrr@4"]),
    ],
)
def test_expand(metrics, k, expected):
    assert [str(metric) for metric in expand(metrics, k)] == expected


@pytest.mark.parametrize("k", [0, -1, True, False, [0], [5, -1], [2.5], [True], ["10"], ["²"], [None], [float("nan")]])
def test_expand_refuses_what_is_no_cut_off(k):
    wrong = next(value for value in (k if isinstance(k, list) else [k]) if value != 5)
    with pytest.raises(ConfigError, match=re.escape(f"k: expected an integer of at least 1, found {wrong!r}")):
        expand(["ndcg"], k)


def test_expand_refuses_a_wrong_k_also_where_no_metric_needs_it():
    with pytest.raises(ConfigError, match="k: expected an integer of at least 1, found 0"):
        expand(["rmse"], [0])


@pytest.mark.parametrize("metrics", [[], ()])
def test_expand_of_nothing_is_refused(metrics):
    with pytest.raises(ConfigError, match=re.escape("metrics: expected at least one metric, found none")):
        expand(metrics, [5])


def test_expand_names_all_that_is_wrong():
    with pytest.raises(ConfigError) as caught:
        expand(["ndgc", "map@10", "recal@5", None], [5])
    assert str(caught.value).splitlines() == [
        "'ndgc': unknown metric 'ndgc'; did you mean 'ndcg'?",
        "'recal@5': unknown metric 'recal'; did you mean 'recall'?",
        "expected a metric as a string, such as 'ndcg@10', found None",
    ]


def test_expand_refuses_two_metrics_that_would_share_a_column():
    message = "metrics f1(beta=1e+22) and f1(beta=1e-22) would share the column f1_beta_1e_22: keep one of them"
    with pytest.raises(ConfigError, match=re.escape(message)):
        expand(["f1(beta=1e22)", "f1(beta=1e-22)"])


# Registration -------------------------------------------------------------------------------------------------------------


def test_a_new_metric_is_known_everywhere(registry):
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
def test_a_taken_name_is_refused(registry, taken):
    with pytest.raises(ValueError, match=re.escape(f"metric name {taken!r} is registered already")):
        register(taken)(lambda batch, k: None)


def test_a_taken_alias_is_refused(registry):
    with pytest.raises(ValueError, match="metric name 'HR' is registered already"):
        register("brand_new", aliases=("bn", "HR"))(lambda batch, k: None)
    assert "brand_new" not in registry.names()


@pytest.mark.parametrize("text", [*names(), *COMBINED, *METRICS_OF_METRICS])
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


def test_every_metric_says_what_it_is():
    for name, definition in DEFINITIONS.items():
        assert definition.summary.endswith("."), name
        for section in ("Args:", "Returns:", "Source:", "Example:"):
            assert section in (definition.compute.__doc__ or ""), (name, section)
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


def test_the_docs_have_no_heading_of_a_metric_that_does_not_exist():
    named = re.findall(r"^## `(\w+)`", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= set(DEFINITIONS) | set(COMBINED)
