"""Parsing metrics: every metric round-trips through its string, and wrong strings are rejected."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np
import pytest

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics import DEFINITIONS, Metric, Parameter, expand, parse

NUMBERS = (0.5, 1.0, 2.0, 1e-7, 1e22, 12345.678)


def every_metric() -> Iterator[Metric]:
    """Every metric with every option value, pair of option values and cut-off, and some combined metrics."""
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
    for text in COMBINED_METRICS:
        yield parse(text)


COMBINED_METRICS = (
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


def test_every_metric_round_trips():
    count = 0
    for metric in every_metric():
        count += 1
        assert parse(str(metric)) == metric
        assert str(parse(str(metric))) == str(metric)
        # Column names are case-sensitive.
        names_column = any(isinstance(source, Parameter) and source.column for source in metric.definition.options.values())
        assert names_column or parse(str(metric).upper()) == metric
        assert parse(metric) is metric
        assert hash(parse(str(metric))) == hash(metric)
    assert count > 400


@pytest.mark.parametrize("text", COMBINED_METRICS)
def test_combined_metrics_round_trip(text):
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
def test_aliases_case_and_blanks(written, canonical):
    assert str(parse(written)) == canonical


def test_every_alias():
    for name, definition in DEFINITIONS.items():
        for alias, fixed in definition.aliases.items():
            for text in (alias, alias.upper(), alias.replace("_", " "), alias.replace("_", "-")):
                assert parse(text) == Metric(name, params=fixed)


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
        ("ndcg@", "'ndcg@': expected an integer of at least 1 after @, found nothing"),
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
        ("f1(", "'f1(': expected a metric or a parameter of f1, written beta=1, found nothing"),
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
def test_errors(text, message):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["hit@-1", "hit@²", "hit@\uff11", "hit@+5", "hit@ ", "hit@k"])
def test_invalid_cut_offs(text):
    with pytest.raises(ConfigError, match="expected an integer of at least 1 after @"):
        parse(text)


@pytest.mark.parametrize("text", ["f1(beta=-1)", "f1(beta=0)", "f1(beta=1.2.3)", "f1(beta=)", "f1(beta=½)"])
def test_invalid_betas(text):
    with pytest.raises(ConfigError, match="beta: expected a finite number above 0"):
        parse(text)


def test_an_unknown_metric_unlike_all_names_lists_all_names():
    with pytest.raises(ConfigError, match=r"unknown metric 'zzzz'; known: .*ndcg.*rmse"):
        parse("zzzz@5")


@pytest.mark.parametrize("thing", [None, 5, 2.5, ["ndcg"], b"ndcg"])
def test_only_strings_are_parsed(thing):
    with pytest.raises(ConfigError, match=re.escape(f"expected a metric as a string, such as 'ndcg@10', found {thing!r}")):
        parse(thing)


# expand -----------------------------------------------------------------------------------------------------------------


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
def test_expand_rejects_invalid_cut_offs(k):
    wrong = next(value for value in (k if isinstance(k, list) else [k]) if value != 5)
    with pytest.raises(ConfigError, match=re.escape(f"k: expected an integer of at least 1, found {wrong!r}")):
        expand(["ndcg"], k)


def test_expand_rejects_an_invalid_k_that_no_metric_needs():
    with pytest.raises(ConfigError, match="k: expected an integer of at least 1, found 0"):
        expand(["rmse"], [0])


@pytest.mark.parametrize("metrics", [[], ()])
def test_expand_rejects_an_empty_list(metrics):
    with pytest.raises(ConfigError, match=re.escape("metrics: expected at least one metric, found none")):
        expand(metrics, [5])


@pytest.mark.parametrize("metrics", [b"ndcg", {"ndcg": {"gain": "linear"}}, 5])
def test_expand_rejects_what_is_no_list_of_strings(metrics):
    message = f"metrics: expected strings such as 'ndcg@10' or 'ndcg(gain=linear)', found {metrics!r}"
    with pytest.raises(ConfigError, match=re.escape(message)):
        expand(metrics, [5])


def test_expand_reports_all_errors():
    with pytest.raises(ConfigError) as caught:
        expand(["ndgc", "map@10", "recal@5", None], [5])
    assert str(caught.value).splitlines() == [
        "'ndgc': unknown metric 'ndgc'; did you mean 'ndcg'?",
        "'recal@5': unknown metric 'recal'; did you mean 'recall'?",
        "expected a metric as a string, such as 'ndcg@10', found None",
    ]


def test_expand_rejects_two_metrics_with_one_slug():
    message = "metrics f1(beta=1e+22) and f1(beta=1e-22) would share the column f1_beta_1e_22: keep one of them"
    with pytest.raises(ConfigError, match=re.escape(message)):
        expand(["f1(beta=1e22)", "f1(beta=1e-22)"])
