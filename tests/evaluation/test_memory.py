"""Evaluation in memory: fifty random data sets under every convention against the oracle, and the forms of small data."""

from __future__ import annotations

import dataclasses
import math
import re
import subprocess
import sys

import numpy as np
import oracle
import pandas as pd
import pyarrow as pa
import pytest

import spark_recmetrics as srm
from spark_recmetrics.conventions import CONVENTIONS
from spark_recmetrics.metrics import DEFINITIONS, expand

COLUMNS = srm.Columns(user="user", item="item")
APART = {"users_in_both": "warn", "items_in_both": "warn"}
"""Lists without a user, or an item, of the ground truth have values, too."""


def frame(rows: list[dict]) -> pd.DataFrame:
    return pd.DataFrame(rows)


def in_memory(case, rules, metrics, **options):
    return srm.evaluate(
        frame(case.predictions),
        frame(case.truth),
        metrics=metrics,
        k=None,
        convention=rules,
        columns=COLUMNS,
        train=frame(case.train) if case.train else None,
        catalog=len(set(case.catalog)) if case.catalog else None,
        item_features=frame(case.described) if case.described else None,
        item_groups=frame(case.grouped) if case.grouped else None,
        user_segments=frame(case.segments) if case.segments else None,
        baseline=case.baseline,
        **options,
    )


def same(found, want) -> bool:
    if want is None or found is None or math.isnan(found):
        return want is None and (found is None or math.isnan(found))
    return abs(found - want) <= 1e-12 * max(1.0, abs(want))


def differences(result, expected, metrics):
    """Where PER_USER or SUMMARY are not the oracle's within 1e-12."""
    rows = {(row["model"], row["user"]): row for row in result.per_user.to_dict("records")}
    assert rows.keys() == expected.per_user.keys()
    for cell, values in expected.per_user.items():
        yield from ((cell, name) for name in ("n_relevant", "n_truth", "n_recommended") if rows[cell][name] != values[name])
        yield from ((cell, str(m)) for m in of_users(metrics) if not same(rows[cell][m.slug], values[str(m)]))
    of_pairs = {(row["model"], row["metric"], row["slice_value"]): row for row in result.rows if row["slice"] != "all"}
    assert of_pairs.keys() == expected.pairs.keys()
    for key, (value, n_users) in expected.pairs.items():
        if not same(of_pairs[key]["value"], value) or of_pairs[key]["n_users"] != n_users:
            yield of_pairs[key], value
    for row in result.rows:
        if row["slice"] != "all":
            continue
        want = expected.summary[row["model"], row["metric"]]
        if not same(row["value"], want["value"]) or (row["n_users"], row["n_undefined"]) != (
            want["n_users"],
            want["n_undefined"],
        ):
            yield row, want


def of_users(metrics):
    return [metric for metric in metrics if metric.definition.by_user]


OFTEN = ("default",)


@pytest.mark.parametrize(
    ("name", "n_sets"),
    [
        pytest.param(name, 50) if name in OFTEN else pytest.param(name, 20, marks=pytest.mark.heavy)
        for name in sorted(CONVENTIONS)
    ],
)
def test_random_data_sets_agree_with_the_oracle(name, n_sets):
    """With all edge users; a pandas frame has an order, which the oracle's `input` does not keep."""
    rules = CONVENTIONS[name]
    rules = rules.override(ties="item_asc") if rules.ties == "input" else rules
    metrics = [*expand([*DEFINITIONS, *oracle.VARIANTS], 3), *expand(["ndcg", "precision"], [1, 10])]
    case = oracle.merged_cases(range(n_sets), propensities=True)
    expected = oracle.evaluate(case.predictions, case.truth, rules, map(oracle.describe, metrics), **case.known)
    assert list(differences(in_memory(case, rules, metrics), expected, metrics)) == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    "options",
    [
        {"duplicates": "first"},
        {"nan_scores": "drop"},
        {"nan_scores": "last"},
        {"nan_scores": "first"},
        {"rating_clip": "truth_range", "rating_rows": "positive"},
        {"candidates": "judged", "users": "all", "f1": "of_means"},
    ],
    ids=str,
)
def test_policies_agree_with_the_oracle(options):
    rules = srm.convention("default").override(**options)
    faults = {"duplicates": "duplicates" in options, "missing_scores": "nan_scores" in options}
    metrics = expand([*DEFINITIONS, *oracle.VARIANTS], [2, 5])
    for seed in range(6):
        case = oracle.random_case(seed, ratings=True, propensities=True, **faults)
        expected = oracle.evaluate(case.predictions, case.truth, rules, map(oracle.describe, metrics), **case.known)
        assert list(differences(in_memory(case, rules, metrics), expected, metrics)) == []


@pytest.mark.parametrize("name", sorted(oracle.GOLDEN))
def test_golden_table(name):
    case = oracle.Case(oracle.GOLDEN_PREDICTIONS, oracle.GOLDEN_TRUTH)
    found = in_memory(case, CONVENTIONS[name], [f"{metric}@3" for metric in oracle.GOLDEN_METRICS]).to_dict()["model"]
    assert found == pytest.approx({f"{metric}@3": value for metric, value in oracle.GOLDEN[name].items()}, abs=1e-6)


def test_ids_break_ties():
    """Tables have no order: `input` is `item_asc`, as on Spark."""
    tied = pd.DataFrame({"user_id": "u", "item_id": ["b", "a"], "score": 0.5})
    truth = pd.DataFrame({"user_id": ["u"], "item_id": ["b"]})
    for ties, hit in (("input", 0.0), ("item_asc", 0.0), ("item_desc", 1.0)):
        rules = srm.convention("default").override(ties=ties)
        assert srm.evaluate(tied, truth, metrics="hit@1", convention=rules).to_dict() == {"model": {"hit@1": hit}}
    # Lists of dicts have an order, which are their ranks.
    assert srm.Evaluator(1, "hit", srm.convention("default").override(ties="input")).evaluate(
        {"u": ["b", "a"]}, {"u": ["b"]}
    ) == {"hit@1": 1.0}


def test_small_data_need_no_spark():
    code = """
import sys
sys.modules["pyspark"] = None
import spark_recmetrics as srm
print(srm.compute_metrics({"u": [(4.0, 5.0), (3.0, 1.0)]}, ["precision", "rmse"], k=1))
print(srm.Evaluator(k_values=[1]).evaluate({"u": ["a"]}, {"u": ["a"]})["ndcg@1"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["{'precision': 1.0, 'rmse': 1.5811388300841898}", "1.0"]


RATED = {"ann": [(4.5, 5.0), (4.0, 2.0), (3.0, 4.0)], "bob": [(3.9, 4.0)], "cid": [(2.0, 1.0)]}


def test_compute_metrics():
    # Ann 1/2 and 1/2, Bob 1/2 and 1, Cid 0 and, without a relevant item, 0.
    assert srm.compute_metrics(RATED, ["precision", "recall"], 2, 3.5) == {"precision": 1 / 3, "recall": 1 / 2}
    assert list(srm.compute_metrics(RATED, "hit", [1, 2])) == ["hit@1", "hit@2"]
    assert list(srm.compute_metrics(RATED, ["ndcg@1", "mae"], 5)) == ["ndcg@1", "mae"]
    assert srm.compute_metrics(RATED, "mae")["mae"] == pytest.approx((0.5 + 2 + 1 + 0.1 + 1) / 5), "and no word of lists"
    named = {user: [(f"i{place}", *pair) for place, pair in enumerate(pairs)] for user, pairs in RATED.items()}
    assert srm.compute_metrics(named, ["ndcg", "map"]) == srm.compute_metrics(RATED, ["ndcg", "map"])


def test_items_without_a_true_rating():
    """They are no candidates of `threshold`, and misses of a convention that ranks all items."""
    rated = {"ann": [("x", 5.0, None), ("y", 4.0, 5.0)]}
    assert srm.compute_metrics(rated, "mrr") == {"mrr": 1.0}
    assert srm.compute_metrics(rated, "mrr", convention="default") == {"mrr": 0.5}


def test_equal_predictions_stay_in_their_order():
    assert srm.compute_metrics({"u": [(3.0, 1.0), (3.0, 5.0)]}, "hit", 1) == {"hit": 0.0}
    assert srm.compute_metrics({"u": [(3.0, 5.0), (3.0, 1.0)]}, "hit", 1) == {"hit": 1.0}


@pytest.mark.parametrize(
    ("rated", "message"),
    [
        ({"u": [(1.0,)]}, r"user 'u': expected \(predicted, true\) or \(item, predicted, true\), found \(1\.0,\)"),
        ({"u": ["ab"]}, "user 'u': expected"),
        ({"u": [("x", "y")]}, "score: expected numbers"),
        ({"u": [(float("nan"), 4.0)]}, "predictions: nan_scores: 1 row"),
        ({"u": [(3.0, float("nan"))]}, "truth: nan_ratings: 1 row"),
        ({"u": [("i", 3.0, 4.0), ("i", 2.0, 4.0)]}, "duplicates: 1 repeated recommendation"),
    ],
)
def test_wrong_entries_are_refused(rated, message):
    with pytest.raises(srm.DataError, match=message):
        srm.compute_metrics(rated)


def test_nothing_at_all_is_undefined():
    for convention_of, value in (("default", None), ("threshold", 0.0)):
        with pytest.warns(srm.DataWarning, match=r"predictions: rows: the table is empty(?s:.*)no users to average for prec"):
            assert srm.compute_metrics({}, ["precision"], convention=convention_of) == {"precision": value}


LISTS = {"ann": ["x", "y"], "bob": ["y"], "cid": ["x"]}
WANTED = {"ann": ["y"], "bob": {"y"}, "cid": ["z"]}


@pytest.mark.parametrize("name", [name for name, rules in CONVENTIONS.items() if rules.empty == "zero"])
def test_the_mean_over_nobody_is_never_the_best_value(name):
    """A 0 is the worst value of a ranking metric, and the best one of an error; r2 is 0 for the mean rating."""
    metrics = sorted(name for name in DEFINITIONS if DEFINITIONS[name].accuracy)
    lists = pd.DataFrame({"user_id": [1], "item_id": [7], "score": [0.5]})
    nobody = pd.DataFrame({"user_id": [2], "item_id": [8], "rating": [5.0], "propensity": [0.5]})
    options = {"metrics": metrics, "k": 2, "convention": name, "catalog": 9, "checks": APART}
    values = srm.evaluate(lists, nobody, **options)
    never = {"average_rank@2", "rmse", "mse", "mae", "r2", "explained_variance"}
    empty = {row["metric"]: row["value"] for row in values.rows if row["n_users"] == 0}
    assert empty == {metric: None if metric in never else 0.0 for metric in empty}
    assert empty.keys() >= {*never, "hit@2", "f1@2", "auc"}
    for rated in ({}, {"a": [(3.0, None)]}):
        with pytest.warns(srm.DataWarning, match="no users to average for mae, rmse, r2, hit@2"):
            found = srm.compute_metrics(rated, ["mae", "rmse", "r2", "hit"], k=2, convention=name)
        assert found == {"mae": None, "rmse": None, "r2": None, "hit": 0.0}


def test_ids_that_do_not_meet_are_told():
    """In capitals on one side, they look like a bad model. A single user may be asked about, so it is no error."""
    evaluator = srm.Evaluator(2, "recall")
    case = r"\(ids differ only in letter case, for example '{}' and '{}'\)\. "
    users = r"predictions/model: users_in_both: no user of the ground truth has a list " + case.format("U1", "u1")
    items = r"predictions/model: items_in_both: no item of .* for any user " + case.format("X", "x")
    with pytest.warns(srm.DataWarning, match=users) as told:
        assert evaluator.evaluate({"u1": ["x"]}, {"U1": ["x"]}) == {"recall@2": 0.0}
    assert told[0].filename == __file__, "it is told where the values are used"
    with pytest.warns(srm.DataWarning, match=items):
        assert evaluator.evaluate({"u1": ["x"], "u2": ["y"]}, {"u1": ["X"], "u2": ["Y"]}) == {"recall@2": 0.0}
    lists = pd.DataFrame({"model": ["a", "a", "b"], "user_id": [1, 2, 1], "item_id": [7, 8, 9], "score": 0.5})
    truth = pd.DataFrame({"user_id": [1, 2], "item_id": [9, 9]})
    result = srm.evaluate(lists, truth, metrics="hit", k=1, checks=APART)
    apart = [line for line in result.warnings if "_in_both" in line]
    assert len(apart) == 1, "b has the item"
    assert apart[0].startswith("predictions/a: items_in_both: no item of the ground truth is predicted for any user")
    with pytest.raises(srm.DataError) as rejected:
        srm.evaluate(lists, truth, metrics="hit", k=1)
    assert str(rejected.value) == apart[0]
    unknown = truth.assign(user_id=truth["user_id"] + 10)
    with pytest.raises(srm.DataError, match="predictions/a: users_in_both: "):
        srm.evaluate(lists, unknown, metrics="hit", k=1)
    apart = srm.evaluate(lists, unknown, metrics="hit", k=1, checks=APART).warnings
    assert [": ".join(line.split(": ")[:2]) for line in apart if "_in_both" in line] == [
        "predictions/a: users_in_both",
        "predictions/b: users_in_both",
    ]


def test_what_is_empty_is_among_the_warnings_of_a_result():
    lists = pd.DataFrame({"user_id": [1, 1], "item_id": [7, 8], "score": [0.9, 0.8]})
    truth = pd.DataFrame({"user_id": [1], "item_id": [8], "rating": [5.0]})
    result = srm.evaluate(lists, truth, metrics=["hit", "mae"], k=1, threshold=99)
    assert (result.status, result.to_dict()) == ("undefined", {"model": {"hit@1": None, "mae": pytest.approx(4.2)}})
    assert result.warnings[-len(result.emptiness) :] == result.emptiness
    assert result.emptiness[-1] == "model model: no users to average for hit@1"
    good = srm.evaluate(lists, truth, metrics="hit", k=1)
    assert (good.status, good.emptiness, good.warnings) == ("ok", [], [])


def test_the_text_of_a_result_is_the_table_of_the_terminal():
    lists = pd.DataFrame({"model": ["als", "pop"], "user_id": 1, "item_id": [7, 8], "score": 0.5})
    truth = pd.DataFrame({"user_id": [1, 2], "item_id": [8, 9]})
    result = srm.evaluate(lists, truth, metrics=["hit", "mrr"], k=1, convention="mllib", checks=APART)
    table = [
        "convention mllib, evaluated users: als 1, pop 1; 3 warnings",
        "",
        "metric  k     als      pop",
        "hit     1  0.0000   1.0000*",
        "mrr     1  0.0000   1.0000*",
    ]
    assert [line.rstrip() for line in str(result).splitlines()] == table
    assert repr(result) == str(result)


def test_evaluator_takes_dicts_and_frames():
    evaluator = srm.Evaluator(k_values=[1, 2], metrics=["recall", "mrr"])
    want = {"recall@1": 1 / 3, "recall@2": 2 / 3, "mrr@1": 1 / 3, "mrr@2": 1 / 2}
    assert evaluator.evaluate(LISTS, WANTED) == pytest.approx(want)
    scored = {user: {item: -place for place, item in enumerate(items)} for user, items in LISTS.items()}
    assert evaluator.evaluate(scored, WANTED) == pytest.approx(want)
    assert evaluator.evaluate({u: list(of.items()) for u, of in scored.items()}, WANTED) == pytest.approx(want)
    rows = [(user, item, score) for user, of in scored.items() for item, score in of.items()]
    frames = (
        pd.DataFrame(rows, columns=["user_id", "item_id", "score"]),
        pd.DataFrame([(user, item) for user, items in WANTED.items() for item in items], columns=["user_id", "item_id"]),
    )
    assert evaluator.evaluate(*frames) == pytest.approx(want)


def test_evaluator_knows_ratings_and_the_catalogue():
    graded = {"ann": {"x": 1.0, "y": 3.0}}
    found = srm.Evaluator(2, "ndcg", convention="standard").evaluate({"ann": ["x", "y"]}, graded)
    assert found == {"ndcg@2": pytest.approx((1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)))}
    evaluator = srm.Evaluator(1, ["accuracy", "auc"])
    # Of 4 items: Ann's is below 1 of 3 others, Bob's above all, and Cid's behind the listed one and tied with the other two.
    assert evaluator.evaluate(LISTS, WANTED, catalog_size=4) == pytest.approx({"accuracy@1": 2 / 3, "auc": 2 / 3})
    with pytest.raises(srm.ConfigError, match="accuracy@1 needs the catalog: give catalog_size, the number of items"):
        evaluator.evaluate(LISTS, WANTED)


def test_streams_of_arrow_data_are_read_once():
    lists, truth = (
        pa.table({"user_id": [1, 2], "item_id": [7, 8], "score": [0.9, 0.8]}),
        pa.table({"user_id": [1], "item_id": [7]}),
    )
    options = {"metrics": ["hit", "novelty"], "k": 1}
    result = srm.evaluate(lists.to_reader(), truth.to_reader(), train=lists.to_reader(), catalog=lists.to_reader(), **options)
    assert result.to_dict() == srm.evaluate(lists, truth, train=lists, catalog=lists, **options).to_dict()
    assert len(srm.evaluate(lists.to_reader(), truth, metrics="hit").explain(1).rows) == 1
    assert srm.Evaluator(1, "hit").evaluate(lists.to_reader(), truth.to_reader()) == {"hit@1": 1.0}


def test_before_is_a_function():
    lists = pd.DataFrame({"user_id": [1], "item_id": [2], "score": [1.0]})
    with pytest.raises(srm.ConfigError, match="before: expected a function of the names of models, or None, found 5"):
        srm.evaluate(lists, lists, metrics="hit", before=5)


def test_evaluator_rejects_metrics_that_need_more_than_it_takes():
    told = "novelty@1 needs the training rows: use srm.evaluate, and give train, one row per (user, item) of earlier"
    with pytest.raises(srm.ConfigError, match=re.escape(told)):
        srm.Evaluator(1, ["hit", "novelty"])
    with pytest.raises(srm.ConfigError, match="item_coverage@10 needs the catalog: use srm"):
        srm.compute_metrics(RATED, ["mae", "item_coverage"])
    for metric, lists, truth, told in (
        ("rmse", ["a"], {"a": 4.0}, "recommendations: rmse needs a score of each item, found none"),
        ("rmse", {"a": 1.0}, ["a"], "truth: rmse needs a rating of each item, found none: give each user a dict"),
        ("ips", ["a"], ["a"], "truth: ctr(estimator=ips)@2 needs a propensity of each item, found none"),
    ):
        with pytest.raises(srm.DataError, match=re.escape(told)):
            srm.Evaluator(2, metric).evaluate({"u": lists}, {"u": truth})


def test_evaluator_handles_faulty_rows_as_checks_and_cast_ids_say():
    evaluator = srm.Evaluator(2, "mrr", checks={"null_ids": "drop"}, cast_ids="string")
    assert evaluator.evaluate({"ann": [None, 1]}, {"ann": ["1"]}) == {"mrr@2": 1.0}
    rated = {"ann": [(1.0, float("inf"), 4.0), (2.0, 3.0, 4.0)]}
    with pytest.raises(srm.DataError, match="expected an integer or a string as an id, found double"):
        srm.compute_metrics(rated, "mae", checks={"infinite_scores": "drop"})
    assert srm.compute_metrics(rated, "mae", checks={"infinite_scores": "drop"}, cast_ids="bigint") == {"mae": 1.0}
    with pytest.raises(srm.DataError, match="items_in_both"):
        srm.Evaluator(1, "mrr", checks={"items_in_both": "error"}).evaluate({"ann": ["x"]}, {"ann": ["y"]})
    with pytest.raises(srm.ConfigError, match="checks: expected a mapping of checks to policies, found 'drop'"):
        srm.Evaluator(1, "mrr", checks="drop")
    with pytest.raises(srm.ConfigError, match="cast_ids: expected 'string', 'bigint' or None, found 'int'"):
        srm.Evaluator(1, "mrr", cast_ids="int")


def test_evaluator_refuses_mixtures():
    evaluator = srm.Evaluator(1)
    with pytest.raises(srm.ConfigError, match="of one kind, found dict and pandas"):
        evaluator.evaluate(LISTS, pd.DataFrame())
    with pytest.raises(
        srm.ConfigError, match="recommendations: expected a dict, or a table of pandas, polars, pyarrow or Spark, found list"
    ):
        evaluator.evaluate([], WANTED)
    with pytest.raises(srm.DataError, match="expected scores for all users or for none"):
        evaluator.evaluate({"ann": ["x"], "bob": {"x": 1.0}}, WANTED)
    with pytest.raises(srm.DataError, match="expected ratings for all users or for none"):
        evaluator.evaluate(LISTS, {"ann": ["x"], "bob": {"x": 1.0}})
    told = "predictions: column 'item_id': expected values of one type, found int, str: cast them to one type first"
    with pytest.raises(srm.DataError, match=re.escape(told)):
        evaluator.evaluate({"ann": ["x", 1]}, WANTED)
    with pytest.raises(srm.DataError, match="duplicates: 1 repeated recommendation"):
        srm.Evaluator(2).evaluate({"ann": ["x", "x"]}, WANTED)
    with pytest.raises(srm.ConfigError, match="k: expected an integer of at least 1"):
        srm.Evaluator(k_values=[0])


# Ids ----------------------------------------------------------------------------------------------------------------------


def close_ids(predicted, true, **more):
    """Whether 2^53 + 1 is taken for 2^53, which it is as a double."""
    predictions = pd.DataFrame({"user_id": 1, "item_id": predicted, "score": [0.9, 0.8]})
    truth = pd.DataFrame({"user_id": 1, "item_id": true})
    return srm.evaluate(predictions, truth, metrics=["mrr@2", "auc"], catalog=9, checks=APART, **more).to_dict()["model"]


@pytest.mark.parametrize("predicted", ["uint64", "int64", "UInt64", "Int64", object])
@pytest.mark.parametrize("true", ["uint64", "int64", "UInt64", "Int64", object])
def test_whole_ids_of_any_type_stay_exact(predicted, true):
    ids = pd.Series([2**53 + 1, 5], dtype=predicted)
    assert close_ids(ids, pd.Series([2**53], dtype=true))["mrr@2"] == 0
    assert close_ids(ids, pd.Series([5], dtype=true))["mrr@2"] == 0.5


def test_ids_stay_exact_beside_a_training_table_with_a_missing_one():
    train = pd.DataFrame({"user_id": [2, 2], "item_id": [5, None]})
    assert close_ids([2**53 + 1, 5], [2**53], train=train)["mrr@2"] == 0
    # pandas has made floats of the ids there, and they still are those of the lists.
    train = train.assign(user_id=1)
    assert close_ids([5, 2**53 + 1], [2**53 + 1], train=train)["auc"] == 1


def test_users_of_several_kinds_are_refused():
    told = "predictions: column 'user_id': expected values of one type, found int, str: cast them to one type first"
    with pytest.raises(srm.DataError, match=re.escape(told)):
        srm.Evaluator(1, "mrr").evaluate({1: ["a"], "2": ["a"]}, {1: ["a"], 2: ["a"]})


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        ([1.5, 2.5], "double"),
        ([1.0, 2.0], "double"),
        ([True, False], "boolean"),
        (np.array([True, False], dtype=object), "boolean"),
        (pd.date_range("2026-01-01", periods=2), "timestamp"),
        ([("a",), ("b",)], "array<string>"),
        ([["a"], ["b"]], "array<string>"),
    ],
)
def test_ids_that_spark_would_refuse(ids, found):
    rows = pd.DataFrame({"user_id": 1, "item_id": ids})
    told = f"predictions: column 'item_id' (columns.item): expected an integer or a string as an id, found {found}: cast it"
    with pytest.raises(srm.DataError, match=re.escape(told)):
        srm.evaluate(rows.assign(score=[0.9, 0.8]), rows)
    if not isinstance(ids[0], list | pd.Timestamp):
        with pytest.raises(srm.DataError, match=re.escape(told)):
            srm.Evaluator(1).evaluate({1: list(ids)}, {1: list(ids)[:1]})


@pytest.mark.parametrize("ids", [np.array([5, 6]), np.array([5, 6], dtype="uint8"), pd.Categorical([5, 6]), [5, np.int64(6)]])
def test_whole_numbers_of_python_and_of_numpy_are_the_same_ids(ids):
    assert srm.Evaluator(2, "mrr").evaluate({1: ids}, {1: [6]}) == {"mrr@2": 0.5}
    predictions = pd.DataFrame({"user_id": 1, "item_id": ids, "score": [0.9, 0.8]})
    assert srm.Evaluator(2, "mrr").evaluate(predictions, pd.DataFrame({"user_id": [1], "item_id": 6})) == {"mrr@2": 0.5}


def test_a_missing_item_is_told_once():
    with pytest.raises(srm.DataError) as caught:
        srm.Evaluator(2, "mrr").evaluate({1: [None, "b"]}, {1: ["b"]})
    assert "null_ids: 1 row" in str(caught.value)
    assert "rank_faults" not in str(caught.value)


# Arguments and numbers ----------------------------------------------------------------------------------------------------


def test_a_threshold_needs_ratings():
    evaluator = srm.Evaluator(2, "mrr", threshold=4)
    told = "truth of user 1: expected a dict from item to rating, found list: threshold needs ratings"
    with pytest.raises(srm.DataError, match=told):
        evaluator.evaluate({1: ["a"]}, {1: ["a"]})
    rows = pd.DataFrame({"user_id": [1], "item_id": ["a"]})
    with pytest.raises(srm.DataError, match=re.escape("truth: no column 'rating' (columns.rating)")):
        evaluator.evaluate(rows.assign(score=1.0), rows)
    assert evaluator.evaluate({1: ["b", "a"]}, {1: {"a": 4, "b": 3}}) == {"mrr@2": 0.5}
    with pytest.warns(srm.DataWarning, match="truth: rows: the table is empty"):
        assert evaluator.evaluate({1: ["a"]}, {}) == {"mrr@2": None}


def test_two_models_in_one_table_without_their_column_are_told():
    lists = pd.DataFrame(
        [(model, user, item, score) for model, score in (("als", 0.9), ("pop", 0.5)) for user in "uv" for item in "ab"],
        columns=["algorithm", "user_id", "item_id", "score"],
    )
    truth = pd.DataFrame([("u", "a"), ("v", "b")], columns=["user_id", "item_id"])
    result = srm.evaluate(lists, truth, metrics="hit", k=2, convention={"duplicates": "first"})
    told = (
        "predictions/model: duplicates: 4 repeated recommendations of the same model, user and item, for example users u, v. "
        "If these are lists of several models, set columns.model to the model column. Otherwise remove the repeats."
    )
    assert told in result.warnings
    named = srm.evaluate(
        lists, truth, metrics="hit", k=2, convention={"duplicates": "first"}, columns=srm.Columns(model="algorithm")
    )
    assert not [line for line in named.warnings if "duplicates" in line]


@pytest.mark.parametrize(
    ("value", "found"), [("1", "string"), (True, "boolean"), (np.True_, "boolean"), (1j, "complex"), (b"1", "binary")]
)
def test_what_is_no_number_is_refused(value, found):
    with pytest.raises(srm.DataError, match=r"score: expected numbers, found .*: cast it first"):
        srm.compute_metrics({"u": [(value, 4.0)]})
    with pytest.raises(srm.DataError, match=r"rating: expected numbers, found .*: cast it first"):
        srm.Evaluator(1).evaluate({"u": ["a"]}, {"u": {"a": value}})
    rows = pd.DataFrame({"user_id": ["u"], "item_id": ["a"]})
    expected = ": expected values that Arrow can hold" if found == "complex" else r" \(columns.{}\): expected a number"
    with pytest.raises(srm.DataError, match=f"predictions: column 'score'{expected.format('score')}, found {found}: cast"):
        srm.evaluate(rows.assign(score=[value]), rows)
    with pytest.raises(srm.DataError, match=f"truth: column 'rating'{expected.format('rating')}, found {found}: cast"):
        srm.evaluate(rows.assign(score=1.0), rows.assign(rating=[value]))


@pytest.mark.parametrize(
    ("rows", "value"),
    [
        ([(1, 7, 1), (1, 8, 3), (2, 8, 1)], None),  # place 2 is missing
        ([(1, 7, 3), (1, 8, 4), (2, 8, 1)], None),  # no place up to the cut-off
        ([(1, 7, 2), (2, 8, 1)], None),
        ([(1, 7, 1), (1, 6, 1), (2, 8, 1)], None),
        ([(1, 7, 1), (1, 8, 2), (2, 8, 1)], 1.0),
        ([(1, 7, 1), (1, 8, 2), (1, 9, 3), (1, 10, 4), (2, 8, 1)], 1.0),
        ([(1, 7, 1), (1, 8, 2), (1, 9, 5), (2, 8, 1)], 1.0),
        ([(1, 7, 1), (2, 8, 1)], 0.5),
    ],
)
def test_ranks_up_to_the_cut_off(rows, value):
    predictions = pd.DataFrame(rows, columns=["user_id", "item_id", "rank"])
    truth = pd.DataFrame({"user_id": [1, 2], "item_id": 8})
    options = {"metrics": "recall", "k": 2, "columns": srm.Columns(rank="rank")}
    if value is None:
        with pytest.raises(srm.DataError, match=r"rank_faults: 1 row .*, for example users 1"):
            srm.evaluate(predictions, truth, **options)
    else:
        assert srm.evaluate(predictions, truth, **options).to_dict() == {"model": {"recall@2": value}}


def test_a_column_that_is_missing_is_named_with_what_needs_it():
    lists, truth = pd.DataFrame({"user_id": [1], "item_id": [2]}), pd.DataFrame({"user_id": [1], "item_id": [2]})
    for metrics, options, told in (
        ("hit", {}, "predictions: no column 'score' (columns.score) (or name a rank in columns.rank)"),
        ("rmse", {"score": 1.0}, "truth: no column 'rating' (columns.rating) (rmse needs it)"),
        ("ips", {"score": 1.0}, "truth: no column 'propensity' (columns.propensity) (ctr(estimator=ips)@10 needs it)"),
    ):
        with pytest.raises(srm.DataError, match=re.escape(told)):
            srm.evaluate(lists.assign(**options), truth, metrics=metrics)


def test_rows_of_several_models_are_told_apart_in_examples():
    lists = pd.DataFrame({"model": ["als", "pop"], "user_id": 1, "item_id": 7, "score": math.nan})
    with pytest.raises(
        srm.DataError, match=r"nan_scores: 2 rows .*, for example model als, user 1, item 7; model pop, user 1, item 7\."
    ):
        srm.evaluate(lists, pd.DataFrame({"user_id": [1], "item_id": [7]}), metrics="hit")


# Missing and infinite scores ----------------------------------------------------------------------------------------------


def test_rows_without_a_score_are_dropped_beside_ranks_too():
    predictions = pd.DataFrame({"user_id": 1, "item_id": [1, 2], "rank": [1, 2], "score": [0.5, math.nan]})
    truth = pd.DataFrame({"user_id": 1, "item_id": [1]})
    rules = srm.convention("default").override(nan_scores="drop", precision_denominator="recommended")
    options = {"metrics": "precision@2", "convention": rules, "columns": srm.Columns(rank="rank")}
    assert srm.evaluate(predictions, truth, **options).to_dict() == {"model": {"precision@2": 1}}
    without = predictions.drop(columns="score")
    assert srm.evaluate(without, truth, **options).to_dict() == {"model": {"precision@2": 1 / 2}}


BESIDE_INFINITY = ["mrr@2", "auc", "auc(candidates=listed)", "matched_auc@2"]


@pytest.mark.parametrize(
    ("nan_scores", "infinite", "values"), [("last", -math.inf, [1 / 2, 2 / 3, 0, 0]), ("first", math.inf, [1] * 4)]
)
def test_missing_scores_stand_beyond_infinite_ones(nan_scores, infinite, values):
    # Of 4 items the relevant one has no score. Last, it is above the 2 that are not listed; first, above all.
    predictions = pd.DataFrame({"user_id": 1, "item_id": [1, 2], "score": [math.nan, infinite]})
    truth = pd.DataFrame({"user_id": 1, "item_id": [1, 2], "rating": [1.0, 0.0]})
    rules = srm.convention("default").override(nan_scores=nan_scores)
    found = srm.evaluate(predictions, truth, metrics=BESIDE_INFINITY, catalog=4, convention=rules).to_dict()
    assert list(found["model"].values()) == pytest.approx(values)


@pytest.mark.parametrize("nan_scores", ["last", "first"])
def test_infinite_scores_beside_missing_ones_agree_with_the_oracle(nan_scores):
    rules = srm.convention("default").override(nan_scores=nan_scores)
    metrics = expand([name for name in DEFINITIONS if DEFINITIONS[name].kind == "ranking"], [2, 5])
    for seed in range(6):
        case = oracle.random_case(seed, ratings=True, propensities=True, missing_scores=True)
        ends = {-0.5: -math.inf, 6.0: math.inf}
        rows = [{**row, "score": ends.get(row["score"], row["score"])} for row in case.predictions]
        case = dataclasses.replace(case, predictions=rows)
        expected = oracle.evaluate(case.predictions, case.truth, rules, map(oracle.describe, metrics), **case.known)
        assert list(differences(in_memory(case, rules, metrics), expected, metrics)) == []


def test_whole_scores_beside_a_missing_one_stay_exact():
    """2^60 and 2^60 + 1 are one double."""
    scores = pd.array([2**60, 2**60 + 1, None], dtype="Int64")
    predictions = pd.DataFrame({"user_id": ["u"] * 3, "item_id": [7, 8, 9], "score": scores})
    truth = pd.DataFrame({"user_id": ["u"], "item_id": [8]})
    rules = srm.convention("default").override(nan_scores="last")
    found = srm.evaluate(predictions, truth, metrics="mrr", k=3, convention=rules)
    assert found.to_dict() == {"model": {"mrr@3": 1.0}}


COUNTED_WITHOUT_RELEVANT = (
    *("standard", "recbole", "rectools", "replay", "trec_eval", "mllib", "ranx", "lenskit"),
    *("recommenders", "laikallm", "laikallm_doc"),
)


@pytest.mark.parametrize("name", COUNTED_WITHOUT_RELEVANT)
@pytest.mark.parametrize("nothing", [set(), [], {}, ()])
def test_an_empty_set_is_a_user_with_ground_truth(name, nothing):
    evaluator = srm.Evaluator(1, ["precision"], convention=name)
    assert evaluator.evaluate({"a": ["x"], "b": ["y"]}, {"a": {"x"}, "b": nothing}) == {"precision@1": 0.5}
    assert evaluator.evaluate({"a": ["x"], "b": ["y"]}, {"a": {"x": 5.0}, "b": nothing}) == {"precision@1": 0.5}


@pytest.mark.parametrize("name", COUNTED_WITHOUT_RELEVANT)
def test_an_empty_list_is_a_list(name):
    evaluator = srm.Evaluator(1, ["precision"], convention=name)
    assert evaluator.evaluate({"a": ["x"], "b": []}, {"a": {"x"}, "b": {"y"}}) == {"precision@1": 0.5}
    both = evaluator.evaluate({"a": ["x"], "b": []}, {"a": {"x"}, "b": set()})
    assert both == {"precision@1": 1.0 if name == "lenskit" else 0.5}  # of LensKit, 0/0 is left out
    assert evaluator.evaluate({"a": {"x": 0.9}, "b": {}}, {"a": {"x"}, "b": {"y"}}) == {"precision@1": 0.5}


def test_users_without_items_count_as_the_convention_says():
    lists, truth = {1: ["x"], 2: ["y"], 3: []}, {1: {"x"}, 2: set(), 3: set(), 4: set()}
    for users, n in {"relevant": 1, "truth": 4, "predicted": 3, "truth_and_predicted": 3, "all": 4}.items():
        rules = srm.convention("default").override(users=users)
        assert srm.Evaluator(1, ["precision"], convention=rules).evaluate(lists, truth) == {"precision@1": pytest.approx(1 / n)}
    coverage = srm.Evaluator(1, ["item_coverage"], convention="standard").evaluate(lists, truth, catalog_size=4)
    assert coverage == {"item_coverage@1": 0.5}  # the list of user 2 counts


def test_users_without_items_have_the_ids_of_the_others():
    evaluator = srm.Evaluator(1, ["precision"])
    with pytest.raises(
        srm.DataError, match=r"column 'user_id' .*: expected one type on all sides, found bigint in truth, string"
    ):
        evaluator.evaluate({"a": ["x"]}, {"a": {"x"}, 3: set()})
    with pytest.raises(srm.DataError, match="truth: expected a user, found None with an empty list of items: remove it"):
        evaluator.evaluate({"a": ["x"]}, {"a": {"x"}, None: set()})
