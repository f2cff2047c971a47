"""The pipeline on Spark: against the oracle, against the golden table, and under every setting that must not matter."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace

import numpy as np
import oracle
import pandas as pd
import pytest
from chispa import assert_df_equality
from engines import records
from pyspark.sql import functions as F

import spark_recmetrics as srm
from spark_recmetrics.conventions import CONVENTIONS
from spark_recmetrics.metrics import DEFINITIONS, expand, parse
from spark_recmetrics.scoring.plan_spark import gathers
from spark_recmetrics.side_info import spark as side_info
from spark_recmetrics.storage import actions
from spark_recmetrics.storage import table_schemas as schema

RANKING = ["precision", "recall", "f1", "hit", "mrr", "map", "mar", "ndcg"]
RATING = ["rmse", "mse", "mae"]
EVERYTHING = [*RANKING, *RATING, "f1(ndcg, map, beta=0.5)", "ndcg(gain=exponential, idcg=all)", "recall(denominator=min_k)"]
BEYOND = ["ild", "srecall", "novelty", "unexpectedness", "gini", "rsp", "item_mad_ranking", "user_mad_ranking"]
"""Of each kind beyond accuracy some: of a user, of items, of groups of items and of users; with every table that there is."""
ALL = [*DEFINITIONS, *oracle.VARIANTS]


def frame_of(spark, rows, partitions=None):
    """A Spark frame of the oracle's rows: the caller's usual column names, the ids' own type."""
    kind = "string" if isinstance(rows[0]["user"], str) else "bigint"
    types = {"model": "string", "user": f"`user_id` {kind}", "item": f"`item_id` {kind}", "rank": "int"}
    columns = list(rows[0])
    schema = ", ".join(types[c] if c in ("user", "item") else f"`{c}` {types.get(c, 'double')}" for c in columns)
    frame = spark.createDataFrame([tuple(row[c] for c in columns) for row in rows], schema)
    return frame if partitions is None else frame.repartition(partitions)


def described(spark, case):
    """Features and categories of items as the package reads them."""
    kind = "string" if isinstance(case.catalog[0], str) else "bigint"
    rows = [(row["item"], row["features"], row["categories"]) for row in case.described]
    return spark.createDataFrame(rows, f"item_id {kind}, features array<double>, categories array<string>")


def grouped(spark, case):
    """Groups of items and users as the package reads them."""
    items, users = ("string" if isinstance(ids[0], str) else "bigint" for ids in (case.catalog, [case.segments[0]["user"]]))
    of_items = [(row["item"], row["genre"]) for row in case.grouped]
    of_users = [(row["user"], row["gender"]) for row in case.segments]
    return {
        "item_groups": spark.createDataFrame(of_items, f"item_id {items}, genre array<string>"),
        "user_segments": spark.createDataFrame(of_users, f"user_id {users}, gender string"),
    }


def evaluate_case(spark, case, rules, *, partitions=None, metrics=EVERYTHING, k=(1, 3), **options):
    ranked = "rank" in case.predictions[0]
    return srm.evaluate(
        frame_of(spark, case.predictions, partitions),
        frame_of(spark, case.truth, partitions),
        metrics=metrics,
        k=k,
        convention=rules,
        columns=srm.Columns(rank="rank" if ranked else None),
        n_buckets=3,
        **options,
    )


def evaluate_all(spark, case, rules, metrics, **options):
    """With training rows and a catalogue, for metrics that need them."""
    expected = oracle.evaluate(case.predictions, case.truth, rules, map(oracle.describe, metrics), **case.known)
    return evaluate_case(spark, case, rules, metrics=metrics, k=None, **known_beside(spark, case), **options), expected


def known_beside(spark, case):
    """Every table that a metric may need, and the size of the catalogue."""
    known = {"train": frame_of(spark, case.train), "catalog": len(set(case.catalog)), "baseline": case.baseline}
    return {**known, "item_features": described(spark, case), **grouped(spark, case)}


def rows_by_cell(result):
    return {(row["model"], row["user"]): row for row in records(result.per_user)}


def assert_agrees(result, expected, metrics):
    """PER_USER and SUMMARY are the oracle's within 1e-12."""
    rows = rows_by_cell(result)
    assert rows.keys() == expected.per_user.keys()
    for cell, values in expected.per_user.items():
        for name in ("n_relevant", "n_truth", "n_recommended"):
            assert rows[cell][name] == values[name], (cell, name)
        for metric in metrics:
            if not metric.definition.by_user:
                assert metric.slug not in rows[cell]
                continue
            assert rows[cell][metric.slug] == pytest.approx(values[str(metric)], abs=1e-12), (cell, str(metric))
    of_pairs = {(row["model"], row["metric"], row["slice_value"]): row for row in result.rows if row["slice"] != "all"}
    assert of_pairs.keys() == expected.pairs.keys()
    for key, (value, n_users) in expected.pairs.items():
        assert (of_pairs[key]["value"], of_pairs[key]["n_users"]) == (pytest.approx(value, abs=1e-12), n_users), key
    for row in result.rows:
        if row["slice"] != "all":
            continue
        want = expected.summary[row["model"], row["metric"]]
        assert row["value"] == pytest.approx(want["value"], abs=1e-12), row
        assert (row["n_users"], row["n_undefined"]) == (want["n_users"], want["n_undefined"]), row


ACROSS = ("default", "threshold", "jurity")
"""Under these the pairs of different users are compared, too."""

ON_SPARK = (*ACROSS, "ranx", "recommenders", "warprec")
"""Conventions that differ in which rows Spark ranks, keeps or drops. The tests in memory have all conventions."""


@pytest.mark.spark
@pytest.mark.parametrize(
    "convention_name",
    [pytest.param(name, marks=pytest.mark.core if name == "default" else pytest.mark.slow) for name in ON_SPARK],
)
def test_every_metric_agrees_with_the_oracle_on_spark(spark, convention_name):
    """Five random data sets at once; tests/evaluation/test_memory.py has fifty for each convention."""
    across = convention_name in ACROSS
    metrics = expand([name for name in ALL if across or name != "matched_auc"], 3)
    case = oracle.merged_cases(range(5), propensities=True)
    result, expected = evaluate_all(spark, case, CONVENTIONS[convention_name], metrics)
    assert_agrees(result, expected, metrics)
    result.release()


@pytest.mark.slow
@pytest.mark.spark
def test_cut_lists_agree_with_the_oracle(spark):
    """Without a metric that looks at whole lists, these are cut before they leave the JVM."""
    for seed, name in enumerate(("default", "lenskit", "jurity")):
        case = oracle.random_case(seed)
        metrics = expand(["precision", "ndcg", "map", "ctr", "f1"], [1, 3])
        expected = oracle.evaluate(case.predictions, case.truth, CONVENTIONS[name], map(oracle.describe, metrics))
        assert_agrees(evaluate_case(spark, case, CONVENTIONS[name], metrics=metrics), expected, metrics)


OPTIONS = [
    {"duplicates": "first"},
    {"duplicates": "keep"},
    {"nan_scores": "drop"},
    {"nan_scores": "last"},
    {"nan_scores": "first"},
    {"ties": "item_desc", "users": "all"},
    {"candidates": "judged", "relevance": "threshold", "threshold": 3.0, "undefined": "zero"},
    {"f1": "of_means", "rating_average": "per_user", "rating_clip": "truth_range", "rating_rows": "positive"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options.values())))
def test_options_agree_with_the_oracle(session, options):
    rules = srm.convention("default").override(**options)
    seed = 100 + OPTIONS.index(options)
    case = oracle.random_case(
        seed, ratings=True, duplicates=rules.duplicates != "error", missing_scores=rules.nan_scores != "error"
    )
    metrics = expand(EVERYTHING, [1, 3])
    expected = oracle.evaluate(case.predictions, case.truth, rules, map(oracle.describe, metrics))
    assert_agrees(evaluate_case(session, case, rules, metrics=metrics), expected, metrics)


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_the_properties_of_many_items_are_joined_to_the_rows_of_lists(spark, monkeypatch):
    """Those of few items are sent to every bucket, as in all other tests."""
    monkeypatch.setattr(side_info, "LARGEST_TO_ALL", 0)
    metrics = expand([name for name in ALL if not parse(name).definition.accuracy], 3)
    assert len(metrics) > 25
    result, expected = evaluate_all(spark, oracle.merged_cases(range(3)), CONVENTIONS["default"], metrics)
    assert_agrees(result, expected, metrics)
    result.release()


@pytest.mark.parametrize("duplicates", ["error", "first"])
def test_given_ranks_win_over_scores(session, duplicates):
    rules = srm.convention("default").override(duplicates=duplicates)
    case = oracle.random_case(7, ratings=True, ranks=True)
    metrics = expand(EVERYTHING, [1, 3])
    expected = oracle.evaluate(case.predictions, case.truth, rules, map(oracle.describe, metrics))
    assert_agrees(evaluate_case(session, case, rules, metrics=metrics), expected, metrics)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.heavy),
        pytest.param({"duplicates": "first"}, marks=pytest.mark.heavy),
        {"nan_scores": "last", "auc_ties": "half"},
    ],
    ids=str,
)
def test_whole_lists_without_a_cut_off(spark, options):
    rules = srm.convention("mllib").override(**options)
    case = oracle.random_case(
        11, ratings=True, duplicates="duplicates" in options, missing_scores="nan_scores" in options, propensities=True
    )
    metrics = expand([m for m in ALL if "dr" not in m or not options], None)
    result, expected = evaluate_all(spark, case, rules, metrics)
    assert_agrees(result, expected, metrics)


@pytest.mark.spark
@pytest.mark.connect
def test_given_ranks_of_whole_lists(spark):
    """A rank wins over the score, and leaves no ties."""
    case = oracle.random_case(13, ratings=True, ranks=True)
    metrics = expand(["auc", "gauc(weight=recommended)", "lauc@2", "bpref", "map", "matched_auc"], None)
    result, expected = evaluate_all(spark, case, srm.convention("default"), metrics)
    assert_agrees(result, expected, metrics)


@pytest.mark.heavy
@pytest.mark.spark
def test_a_catalogue_is_a_table_or_a_number(spark):
    case = oracle.random_case(3, ids="text", ratings=True)
    table = spark.createDataFrame([(item,) for item in [*case.catalog, *case.catalog]], "item_id string")
    found = [
        evaluate_case(spark, case, "default", metrics=["accuracy"], k=2, catalog=catalog).to_dict()
        for catalog in (table, len(case.catalog))
    ]
    assert found[0] == found[1]
    with pytest.raises(srm.ConfigError, match=r"accuracy@2 needs the catalog: give catalog, one row per item"):
        evaluate_case(spark, case, "default", metrics=["accuracy"], k=2)
    with pytest.raises(srm.DataError, match=r"predictions/als: beyond_catalog: .*, for example users .*Give the full catalog"):
        evaluate_case(spark, case, "default", metrics=["accuracy"], k=2, catalog=2)


@pytest.mark.spark
@pytest.mark.connect
def test_propensities_are_probabilities(spark):
    case = oracle.random_case(3, ids="text", ratings=True)
    with pytest.raises(srm.DataError, match=r"truth: no column 'propensity' \(columns\.propensity\).*ctr.*needs it"):
        evaluate_case(spark, case, "default", metrics=["ctr(estimator=ips)"])
    wrong = oracle.Case(case.predictions, [{**row, "propensity": 0.0} for row in case.truth])
    with pytest.raises(srm.DataError, match=r"truth: bad_propensities: .*probability that the item was shown"):
        evaluate_case(spark, wrong, "default", metrics=["ess"])


def test_repeated_items_are_not_compared_twice(session):
    rules = srm.convention("default").override(duplicates="keep")
    with pytest.raises(srm.ConfigError, match="gauc: expected duplicates=error or first, found keep"):
        evaluate_case(session, oracle.random_case(1), rules, metrics=["gauc"], catalog=20)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("options", "case"),
    [
        ({}, {"ids": "text", "ratings": True}),
        ({"nan_scores": "last", "ties": "item_desc"}, {"ratings": True, "missing_scores": True}),
        ({"nan_scores": "first", "duplicates": "first"}, {"duplicates": True, "missing_scores": True}),
        ({"duplicates": "keep"}, {"ids": "text", "duplicates": True}),
        ({}, {"ratings": True, "ranks": True}),
    ],
    ids=["default", "last", "first", "keep", "ranks"],
)
def test_lists_and_windows_rank_alike_bit_for_bit(spark, options, case):
    case = oracle.random_case(29, **case)
    rules = srm.convention("default").override(**options)
    metrics = ["ndcg", "map", "mrr", "matched_auc", "item_coverage", "unrepeated_reco"]
    known = {"metrics": metrics, "k": (1, 3), "catalog": len(set(case.catalog)) + 9}
    window, lists, declared = (
        evaluate_case(spark, case, rules, **known, **ranking)
        for ranking in ({"ranking": "window"}, {"ranking": "lists"}, {"max_per_user": 50})
    )
    assert not window.evaluated.scored.scoring.ranks_lists
    assert lists.evaluated.scored.scoring.ranks_lists
    assert declared.evaluated.scored.scoring.ranks_lists
    assert gathers(declared.evaluated.request, len(declared.means))
    assert not gathers(lists.evaluated.request, len(lists.means))
    assert rows_by_cell(window) == rows_by_cell(lists) == rows_by_cell(declared)
    assert len(rows_by_cell(window)) > 10
    # Means add the same values in another order.
    for other in (lists, declared):
        for name, values in window.to_dict().items():
            assert other.to_dict()[name] == pytest.approx(values, abs=1e-12)
    facts = [[fact[:4] for fact in one.data_checks if fact.check != "beyond_length"] for one in (window, lists, declared)]
    assert facts[0] == facts[1] == facts[2]


@pytest.mark.slow
@pytest.mark.spark
def test_items_of_lists_are_the_same_wherever_they_are_ranked(spark):
    case = oracle.random_case(31, ratings=True, missing_scores=True)
    rules = srm.convention("default").override(nan_scores="last")
    metrics = srm.metrics.expand(["ild", "novelty", "serendipity(against=baseline)", "gini", "ndcg"], (2, 3))
    window, _ = evaluate_all(spark, case, rules, metrics, ranking="window")
    lists, expected = evaluate_all(spark, case, rules, metrics, ranking="lists")
    assert not window.evaluated.scored.scoring.ranks_lists
    assert lists.evaluated.scored.scoring.ranks_lists
    assert rows_by_cell(window) == rows_by_cell(lists)
    assert_agrees(lists, expected, metrics)


def test_training_rows_and_groups_come_in_the_row_of_their_user(session):
    case = oracle.random_case(31, ratings=True)
    metrics = srm.metrics.expand(["lauc", "user_mad_ranking(groups=gender)", "ndcg"], (2, 3))
    gathered, expected = evaluate_all(session, case, srm.convention("default"), metrics, max_per_user=50)
    assert gathers(gathered.evaluated.request, len(gathered.means))
    assert len(gathered.evaluated.inputs.counts) == 3
    assert_agrees(gathered, expected, metrics)


def test_arrays_are_the_same_wherever_they_are_ranked(session):
    rows = [(f"u{n}", [(f"i{(n + place) % 7}", float(-place)) for place in range(1, 2 + n % 5)]) for n in range(12)]
    arrays = session.createDataFrame(rows, "user_id string, items array<struct<item_id: string, score: double>>")
    truth = session.createDataFrame([(f"u{n}", f"i{(n + 1 + n % 3) % 7}") for n in range(12)], "user_id string, item_id string")
    window, lists, declared = (
        srm.evaluate(arrays, truth, metrics=["ndcg", "map"], k=(1, 3), **ranking)
        for ranking in ({"ranking": "window"}, {"ranking": "lists"}, {"max_per_user": 6})
    )
    assert rows_by_cell(window) == rows_by_cell(lists) == rows_by_cell(declared)
    assert 0 < window.to_dict()["model"]["ndcg@3"] < 1


def test_a_list_that_is_longer_than_declared_is_refused(session):
    rows = [("ann", f"i{n}", float(n)) for n in range(4)] + [("bob", "i0", 1.0)]
    told = r"predictions/model: beyond_length: 1 row of lists beyond max_per_user, for example users ann\."
    with pytest.raises(srm.DataError, match=told):
        pairs(session, rows, [("ann", "i0", 1.0)], metrics="mrr", k=2, max_per_user=3)
    assert pairs(session, rows, [("ann", "i0", 1.0)], metrics="mrr", k=2, max_per_user=4).to_dict() == {"model": {"mrr@2": 0.0}}
    arrays = session.createDataFrame([("ann", ["x", "y", "z"])], "user_id string, items array<string>")
    truth = session.createDataFrame([("ann", "x")], "user_id string, item_id string")
    with pytest.raises(srm.DataError, match="beyond_length: 1 row"):
        srm.evaluate(arrays, truth, metrics="mrr", k=1, max_per_user=2, n_buckets=2)
    repeated = [("ann", "i0", float(n)) for n in range(4)]
    with pytest.raises(srm.DataError, match="beyond_length: 2 rows"):
        pairs(session, repeated, [("ann", "i0", 1.0)], metrics="mrr", max_per_user=2, convention={"duplicates": "first"})
    rated = pairs(session, rows, [("ann", "i0", 1.0)], metrics="rmse", max_per_user=2)
    assert "max_per_user is not used: none of the metrics reads lists" in rated.warnings
    with pytest.raises(srm.ConfigError, match=r"max_per_user: expected none with ranking='window', found 3"):
        pairs(session, rows, [("ann", "i0", 1.0)], metrics="mrr", ranking="window", max_per_user=3)
    with pytest.raises(srm.ConfigError, match=r"ranking: expected one of 'auto', 'window' or 'lists', found 'fast'"):
        pairs(session, rows, [("ann", "i0", 1.0)], metrics="mrr", ranking="fast")


@pytest.mark.parametrize("convention_name", ["lenskit", "recommenders", "torchmetrics"])
def test_golden_table(session, convention_name):
    """The others are read in memory."""
    case = oracle.Case(oracle.GOLDEN_PREDICTIONS, oracle.GOLDEN_TRUTH)
    found = evaluate_case(session, case, convention_name, metrics=RANKING, k=3).to_dict()["model"]
    assert found == pytest.approx({f"{metric}@3": v for metric, v in oracle.GOLDEN[convention_name].items()}, abs=1e-6)


@pytest.mark.slow
@pytest.mark.spark
def test_nothing_about_the_layout_of_the_rows_changes_a_bit(spark):
    """Rows shuffled, 1, 3 and 17 partitions, adaptive execution and ANSI on and off, another number of buckets."""
    case = oracle.random_case(5, ratings=True)
    metrics = ["ndcg(gain=linear)", "map", "f1", "mrr", "rmse", *BEYOND]
    known = known_beside(spark, case)
    reference = evaluate_case(spark, case, "default", metrics=metrics, **known)
    want, means = reference.per_user.orderBy("model", "user"), reference.to_dict()
    variants = [
        (1, {}, 1),
        (3, {"spark.sql.ansi.enabled": "false"}, 2),
        (17, {"spark.sql.adaptive.enabled": "false", "spark.sql.session.timeZone": "America/New_York"}, 64),
    ]
    for n, (partitions, settings, n_buckets) in enumerate(variants):
        for key, value in settings.items():
            spark.conf.set(key, value)
        tables = ("predictions", "truth", "train", "described", "grouped", "segments")
        rows = {table: getattr(case, table) for table in tables}
        shuffled = replace(case, **{table: random.Random(n).sample(own, len(own)) for table, own in rows.items()})
        known = known_beside(spark, shuffled)
        result = srm.evaluate(
            frame_of(spark, shuffled.predictions, partitions),
            frame_of(spark, shuffled.truth, partitions),
            metrics=metrics,
            k=(1, 3),
            n_buckets=n_buckets,
            **{name: own.repartition(partitions) if hasattr(own, "repartition") else own for name, own in known.items()},
        )
        assert_df_equality(result.per_user.orderBy("model", "user"), want, ignore_metadata=True)
        assert result.data_hash == reference.data_hash
        for model, values in result.to_dict().items():
            assert values == pytest.approx(means[model], abs=1e-12)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.connect
def test_renamed_ids_change_no_value(spark):
    case = oracle.random_case(4, ids="text", ratings=True)
    users = {row["user"]: n for n, row in enumerate(case.predictions + case.truth)}
    # Ties are broken by item, so the new ids keep the order of the old ones.
    items = {item: n for n, item in enumerate(sorted({row["item"] for row in case.predictions + case.truth}))}
    renamed = oracle.Case(
        *(
            [{**row, "user": users[row["user"]], "item": items[row["item"]]} for row in rows]
            for rows in (case.predictions, case.truth)
        )
    )
    before, after = evaluate_case(spark, case, "default"), evaluate_case(spark, renamed, "default")
    for model, values in after.to_dict().items():
        assert values == pytest.approx(before.to_dict()[model], abs=1e-12)


def pairs(spark, predictions, truth, **options):
    """Evaluate lists of (user, item, score) and (user, item, rating)."""
    return srm.evaluate(
        spark.createDataFrame(predictions, "user_id string, item_id string, score double"),
        spark.createDataFrame(truth, "user_id string, item_id string, rating double"),
        n_buckets=2,
        **options,
    )


@pytest.mark.spark
@pytest.mark.connect
def test_a_model_must_not_look_better_by_serving_fewer_users(spark):
    predictions = spark.createDataFrame(
        [("A", "1", "x", 1.0), ("A", "2", "y", 1.0), ("B", "1", "x", 1.0)],
        "model string, user_id string, item_id string, score double",
    )
    truth = spark.createDataFrame([("1", "x"), ("2", "y")], "user_id string, item_id string")
    result = srm.evaluate(predictions, truth, metrics="recall", k=1, n_buckets=2)
    assert result.to_dict() == {"A": {"recall@1": 1.0}, "B": {"recall@1": 0.5}}
    assert [row["n_users"] for row in result.rows] == [2, 2]
    assert "predictions/B: users_without_list: 1 user (50 %)" in result.warnings[0]
    covered = srm.evaluate(predictions, truth, metrics="recall", k=1, n_buckets=2, convention="mllib")
    assert covered.to_dict()["B"] == {"recall@1": 1.0}


@pytest.mark.spark
@pytest.mark.connect
def test_models_can_be_chosen(spark):
    case = oracle.random_case(2, ratings=True)
    result = evaluate_case(spark, case, "default", models=["pop", "absent"], metrics=["hit"])
    assert list(result.to_dict()) == ["pop", "absent"]
    assert result.to_dict()["absent"] == {"hit@1": None, "hit@3": None}
    assert result.status == "undefined"


def test_ids_that_a_double_cannot_tell_apart(session):
    big = 9007199254740992
    predictions = session.createDataFrame([(big, 1, 1.0), (big + 1, 2, 1.0)], "user_id bigint, item_id int, score float")
    truth = session.createDataFrame([(big, 1, 5), (big + 1, 1, 5)], "user_id bigint, item_id bigint, rating int")
    result = srm.evaluate(predictions, truth, metrics="hit", k=1, n_buckets=2)
    assert {row["user"]: row["hit_at_1"] for row in records(result.per_user)} == {big: 1.0, big + 1: 0.0}


@pytest.mark.spark
@pytest.mark.connect
def test_a_threshold_is_compared_in_the_type_of_the_ratings(spark):
    predictions = spark.createDataFrame([("u", "i", 1.0)], "user_id string, item_id string, score double")
    truth = spark.createDataFrame([("u", "i", 4.1)], "user_id string, item_id string, rating float")
    assert srm.evaluate(predictions, truth, metrics="hit", k=1, threshold=4.1).to_dict() == {"model": {"hit@1": 1.0}}


@pytest.mark.spark
@pytest.mark.core
def test_column_names_of_any_kind(spark):
    names = srm.Columns(user="user id", item="a.b", score="x) or 1=1 --", rating="a`b", model="the model")
    predictions = spark.createDataFrame([("m", "u", "i", 1.0)], "model string, user string, item string, score double")
    predictions = predictions.toDF(names.model, names.user, names.item, names.score)
    truth = spark.createDataFrame([("u", "i", 5.0)], "user string, item string, rating double")
    truth = truth.toDF(names.user, names.item, names.rating)
    assert srm.evaluate(predictions, truth, metrics=["hit", "mae"], k=1, columns=names).to_dict() == {
        "m": {"hit@1": 1.0, "mae": 4.0}
    }


@pytest.mark.spark
@pytest.mark.connect
def test_rating_predictions_of_their_own(spark):
    lists = spark.createDataFrame([("u", "i", 99.0)], "user_id string, item_id string, score double")
    ratings = spark.createDataFrame([("u", "i", 4.0), ("u", "j", 2.0)], "user_id string, item_id string, score double")
    truth = spark.createDataFrame(
        [("u", "i", 5.0), ("u", "j", 2.0), ("v", "k", 1.0)], "user_id string, item_id string, rating double"
    )
    result = srm.evaluate(lists, truth, metrics=["hit@1", "rmse", "mae"], rating_predictions=ratings, n_buckets=2)
    assert result.to_dict()["model"] == pytest.approx({"hit@1": 0.5, "rmse": math.sqrt(0.5), "mae": 0.5})
    assert srm.evaluate(lists, truth, metrics=["mae"], rating_predictions=ratings).to_dict() == {"model": {"mae": 0.5}}


DUPLICATES = [("u", "a", 0.9), ("u", "a", 0.8), ("u", "a", 0.7)]


@pytest.mark.spark
@pytest.mark.connect
def test_d1_repeated_recommendations(spark):
    truth = [("u", "a", 1.0), ("u", "b", 1.0)]
    told = r"predictions/model: duplicates: 2 repeated .*, for example users u\. .* set duplicates to first \(convention: "
    with pytest.raises(srm.DataError, match=told):
        pairs(spark, DUPLICATES, truth, k=3)
    first = srm.convention("default").override(duplicates="first")
    found = pairs(spark, DUPLICATES, truth, k=3, metrics=["recall", "precision", "ndcg"], convention=first).to_dict()["model"]
    assert found == pytest.approx({"recall@3": 1 / 2, "precision@3": 1 / 3, "ndcg@3": 0.613147}, abs=1e-6)


def left_out_by_hand(case, rules, k):
    """By model and user: the rows beyond one of each item among the first k items of the list."""
    found = {}
    for cell, kept in oracle.ranked_rows(case.predictions, rules).items():
        items = [row["item"] for row in case.predictions if (row["model"], row["user"]) == cell]
        found[cell] = sum(items.count(row["item"]) - 1 for row in kept[:k])
    return found


@pytest.mark.parametrize("given", [{}, {"ranks": True}], ids=["scores", "ranks"])
def test_repeats_that_are_left_out_are_counted(session, given):
    rules = srm.convention("default").override(duplicates="first", nan_scores="last")
    case = oracle.random_case(5, duplicates=True, **given)
    expected = left_out_by_hand(case, rules, 3)
    assert sum(expected.values()) > 3
    for ranking in ("window", "lists"):
        result = evaluate_case(session, case, rules, metrics=["ndcg"], ranking=ranking)
        rows = rows_by_cell(result)
        assert {cell: row["n_duplicates"] for cell, row in rows.items()} == {cell: expected.get(cell, 0) for cell in rows}
        for fact in result.data_checks:
            if fact.check == "duplicates":
                n = sum(n for (model, _), n in expected.items() if fact.table == f"predictions/{model}")
                assert (fact.n_rows, fact.level) == (n, "warn" if n else "info")
                assert (fact.line() in result.warnings) == bool(n)


def test_pairs_of_ratings_that_are_left_out_are_counted(session):
    rules = srm.convention("default").override(duplicates="first")
    lists = [("u", "a", 4.0), ("u", "a", 3.0), ("u", "a", 2.0), ("u", "b", 1.0), ("u", "b", 2.0), ("v", "a", 1.0)]
    found = pairs(session, lists, [("u", "a", 5.0), ("v", "a", 5.0)], metrics="mae", convention=rules)
    assert found.to_dict() == {"model": {"mae": 2.5}}
    (line,) = (line for line in found.warnings if "pair_duplicates" in line)
    assert line.startswith("predictions/model: pair_duplicates: 2 repeated predicted ratings of the same")


@pytest.mark.parametrize(
    ("recommended", "truth", "expected"),
    [
        ("g", "gg", {"recall@3": 1.0}),
        ("123", "11", {"precision@3": 1 / 3, "recall@3": 1.0, "hit@3": 1.0}),
        ("91", "11", {"map@2": 1 / 2}),
    ],
    ids=["D2", "D3", "D4"],
)
def test_repeated_truth_rows(session, recommended, truth, expected):
    predictions = [("u", item, -float(n)) for n, item in enumerate(recommended)]
    rows = [("u", item, 1.0) for item in truth]
    with pytest.raises(srm.DataError, match="truth: truth_duplicates: 1 repeated row"):
        pairs(session, predictions, rows)
    for duplicates in ("first", "keep"):
        rules = srm.convention("default").override(duplicates=duplicates)
        assert pairs(session, predictions, rows, metrics=list(expected), convention=rules).to_dict()["model"] == pytest.approx(
            expected
        )


def test_i1_ids_of_different_types(session):
    predictions = session.createDataFrame([("u", "10", 1.0)], "user_id string, item_id string, score double")
    truth = session.createDataFrame([("u", 10)], "user_id string, item_id bigint")
    with pytest.raises(srm.DataError, match=r"'item_id' \(columns\.item\).*string in predictions, bigint in truth"):
        srm.evaluate(predictions, truth)


@pytest.mark.parametrize(
    ("predictions", "truth", "message"),
    [
        (
            [("u", "a", float("nan")), ("u", "b", 0.9)],
            [("u", "b", 1.0)],
            "predictions: nan_scores: 1 row .*, for example user u, item a",
        ),
        ([("u", "a", None)], [("u", "b", 1.0)], "predictions: nan_scores: 1 row"),
        ([(None, "a", 0.5)], [("u", "b", 1.0)], "predictions: null_ids: 1 row .*, for example user null, item a"),
        ([("u", "a", 0.5)], [("u", None, 1.0)], "truth: null_ids: 1 row"),
        ([("u", "a", 0.5)], [("u", "b", float("nan"))], "truth: nan_ratings: 1 row"),
    ],
)
def test_rows_that_are_refused(session, predictions, truth, message):
    with pytest.raises(srm.DataError, match=message) as caught:
        pairs(session, predictions, truth)
    assert any(fact.level == "error" and fact.n_rows == 1 for fact in caught.value.data_checks)


@pytest.mark.parametrize("nan_scores", ["drop", "last"])
def test_o3_nan_scores_never_come_first_unless_asked(session, nan_scores):
    rules = srm.convention("default").override(nan_scores=nan_scores)
    lists = [("u", "a", float("nan")), ("u", "b", 0.9), ("u", "c", 0.5)]
    result = pairs(session, lists, [("u", "b", 1.0)], metrics="mrr", k=3, convention=rules)
    assert result.to_dict() == {"model": {"mrr@3": 1.0}}
    assert any("nan_scores: 1 row" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([0, 1], "zero_based_ranks: 1 row"),
        ([1, 3], "rank_faults: 1 row"),
        ([1, 1], "rank_faults: 1 row"),
        ([2, 3], "rank_faults: 2 rows"),
    ],
)
def test_ranks_with_gaps_or_repeats_are_refused(session, ranks, message):
    rows = [("u", item, rank) for item, rank in zip("ab", ranks, strict=True)]
    predictions = session.createDataFrame(rows, "user_id string, item_id string, rank int")
    truth = session.createDataFrame([("u", "a")], "user_id string, item_id string")
    with pytest.raises(srm.DataError, match=message):
        srm.evaluate(predictions, truth, columns=srm.Columns(rank="rank"), k=3, n_buckets=2)


@pytest.mark.spark
@pytest.mark.connect
def test_n5_negative_gains(spark):
    gains, scores = [-0.89, -0.53, -0.47, 0.39, 0.56], [0.07, 0.31, 0.75, 0.33, 0.27]
    predictions = [("u", str(n), score) for n, score in enumerate(scores)]
    truth = [("u", str(n), gain) for n, gain in enumerate(gains)]
    rules = srm.convention("default").override(relevance="present", gain="linear")
    with pytest.raises(srm.DataError, match="negative_gains: 3 relevant items"):
        pairs(spark, predictions, truth, metrics="ndcg", k=5, convention=rules)
    clipped = pairs(spark, predictions, truth, metrics="ndcg", k=5, convention=rules.override(negative_gains="clip"))
    assert clipped.to_dict()["model"]["ndcg@5"] == pytest.approx(0.604471, abs=1e-6)


def test_p5_nobody_to_average_is_undefined(session):
    one = [("u", "a", 1.0)]
    for predictions, truth in ((one, []), ([], one), ([], []), (one, [("u", "a", 0.0)])):
        result = pairs(session, predictions, truth, metrics="hit", k=1)
        assert result.to_dict() == {"model": {"hit@1": None}}, (predictions, truth)
        assert result.status == "undefined"


@pytest.mark.spark
@pytest.mark.connect
def test_k9_a_threshold_above_the_scale(spark):
    result = pairs(spark, [("u", "a", 1.0)], [("u", "a", 5.0)], metrics="hit", k=1, threshold=10)
    fact = next(fact for fact in result.data_checks if fact.check == "relevant")
    assert (fact.n_rows, fact.share, fact.level, result.status) == (0, 0.0, "error", "undefined")


@pytest.mark.spark
@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("user_id string, item_id string, scor double", r"predictions: no column 'score' .*did you mean 'scor'\?"),
        ("user_id double, item_id string, score double", "expected an integer or a string as an id, found double"),
        ("User_id string, item_id string, score double", r"no column 'user_id' \(columns.user\); did you mean 'User_id'"),
    ],
)
def test_the_contract_is_checked_before_any_job(spark, columns, message):
    truth = spark.createDataFrame([], "user_id string, item_id string, rating double")
    with pytest.raises(srm.DataError, match=message):
        srm.evaluate(spark.createDataFrame([], columns), truth)


def test_a_score_that_is_a_text_is_shown(session):
    lists = session.createDataFrame([("u", "a", "high")], "user_id string, item_id string, score string")
    truth = session.createDataFrame([], "user_id string, item_id string, rating double")
    with pytest.raises(srm.DataError, match=r"expected a number, found string, e\.g\. 'high' in predictions"):
        srm.evaluate(lists, truth)


@pytest.mark.spark
@pytest.mark.connect
def test_arguments_are_checked_before_any_job(spark):
    frame = spark.createDataFrame([], "user_id string, item_id string, score double")
    for options, message in (
        ({"metrics": ["ndgc"]}, "did you mean 'ndcg'"),
        ({"metrics": []}, "at least one metric"),
        ({"k": 0}, "k: expected an integer of at least 1, found 0"),
        ({"convention": "rankx"}, "did you mean 'ranx'"),
        ({"n_buckets": 0}, "n_buckets"),
        ({"slices": ["age"]}, "slices"),
    ):
        with pytest.raises(srm.ConfigError, match=message):
            srm.evaluate(frame, frame, **options)
    with pytest.raises(srm.DataError, match="rmse needs it"):
        srm.evaluate(frame, frame, metrics="rmse")
    with pytest.raises(srm.DataError, match="threshold needs it"):
        srm.evaluate(frame, frame, threshold=4)


@pytest.mark.spark
def test_tables_have_the_documented_columns(spark):
    result = evaluate_case(spark, oracle.random_case(3, ratings=True), "default", metrics=["f1(beta=0.5)", "rmse"], k=3)
    assert result.summary.schema == schema.SUMMARY
    assert result.data_report.schema == schema.DATA_REPORT
    assert result.per_user.columns[:2] == ["model", "user"]
    field = next(field for field in result.per_user.schema.fields if field.name == "f1_beta_0_5_at_3")
    assert field.metadata == {"label": "f1(beta=0.5)@3"}
    pd.testing.assert_frame_equal(
        result.to_pandas().drop(columns="computed_at"), result.summary.toPandas().drop(columns="computed_at"), check_dtype=False
    )


@pytest.mark.core
def test_a_metric_of_a_script_runs_on_the_workers(session):
    """Workers import the package anew and know only what it registers itself, so the driver sends the formula along."""
    from spark_recmetrics.metrics import registry

    saved = dict(registry.DEFINITIONS), dict(registry.ALIASES)
    try:

        @srm.metrics.register("own_rank", upper=None)
        def own_rank(batch, k):
            """Rank of the first relevant item."""
            return batch.sum_hits((batch.hit_number == 1) * batch.hit_rank.astype(float), k)

        result = pairs(session, [("u", "a", 2.0), ("u", "b", 1.0)], [("u", "b", 1.0)], metrics="own_rank@2")
        assert result.to_dict() == {"model": {"own_rank@2": 2.0}}
    finally:
        for registered, before in zip((registry.DEFINITIONS, registry.ALIASES), saved, strict=True):
            registered.clear()
            registered.update(before)


@pytest.mark.spark
@pytest.mark.connect
def test_a_population_without_anybody_is_undefined(spark):
    """Everybody with a list lacks truth and the other way round."""
    checks = {"users_in_both": "warn"}
    result = pairs(spark, [("u", "a", 1.0)], [("v", "a", 1.0)], metrics="hit", k=1, convention="mllib", checks=checks)
    assert result.to_dict() == {"model": {"hit@1": None}}
    assert (result.status, result.emptiness[-1]) == ("undefined", "model model: no users to average for hit@1")


@pytest.mark.spark
@pytest.mark.connect
def test_repeated_truth_rows_are_refused_without_ranking_too(spark):
    predictions = spark.createDataFrame(
        [("m", "u", "a", 1.0), ("n", "u", "b", 1.0)], "model string, user_id string, item_id string, score double"
    )
    truth = spark.createDataFrame(
        [("u", "a", 1.0), ("u", "b", 1.0), ("u", "b", 2.0)], "user_id string, item_id string, rating double"
    )
    with pytest.raises(srm.DataError, match="truth: truth_duplicates: 1 repeated row"):
        srm.evaluate(predictions, truth, metrics="mae")


@pytest.mark.heavy
@pytest.mark.spark
def test_a_session_that_refuses_to_keep_tables(spark, monkeypatch, caplog):
    """C4: serverless compute raises on persist."""
    from pyspark.errors import PySparkException

    case = oracle.random_case(9, ratings=True)
    want = evaluate_case(spark, case, "default").to_dict()

    def refuse(*_):
        raise PySparkException("PERSIST TABLE is not supported on serverless compute")

    frame = frame_of(spark, case.predictions)
    for kind in type(frame).__mro__[:-1]:
        if "persist" in vars(kind):
            monkeypatch.setattr(kind, "persist", refuse)
    for model, values in evaluate_case(spark, case, "default").to_dict().items():
        assert values == pytest.approx(want[model], abs=1e-12)
    assert "cannot cache tables" in caplog.text


@pytest.mark.heavy
@pytest.mark.spark
def test_the_number_of_jobs_does_not_grow_with_metrics_or_cut_offs(spark, session_kind):
    if session_kind == "connect":
        pytest.skip("a Connect client cannot see the server's jobs")
    case = oracle.random_case(6, ratings=True)

    def jobs(group, **options):
        context = spark.sparkContext
        context.setJobGroup(group, group)
        evaluate_case(spark, case, "default", **options)
        return len(context.statusTracker().getJobIdsForGroup(group))

    spark.conf.set("spark.sql.adaptive.enabled", "false")  # adaptive execution runs a job per stage
    # Each kind beyond accuracy has jobs of its own, whatever the number of its metrics is.
    known = known_beside(spark, case)
    few = jobs("few", metrics=["ndcg", *BEYOND], k=5, **known)
    many = jobs("many", metrics=[*RANKING, *BEYOND, "arp", "entropy", "reo", "user_mad_rating"], k=[1, 2, 5, 10], **known)
    assert few == many


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_predictions_are_sorted_once_for_all_metrics(spark, monkeypatch, capsys):
    """Metrics of items, of features and of groups come out of the lists that others are made of: of all plans that are run,
    one reads predictions, and has one sort by score and two windows behind it, for ranks and for ties."""
    plans = []
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # of a finished plan Spark would show more

    def planned(run):
        def then_run(frame):
            capsys.readouterr()
            frame.explain()
            plans.append(not_kept(capsys.readouterr().out))
            return run(frame)

        return then_run

    for name in ("materialize", "collect_rows"):
        monkeypatch.setattr(actions, name, planned(getattr(actions, name)))
    case = oracle.random_case(6, ratings=True)
    known = {"models": ["als", "few", "pop"], **known_beside(spark, case)}
    result = evaluate_case(spark, case, "default", metrics=["ndcg", *BEYOND], **known)
    assert sum(row["value"] is not None for row in result.rows) > 3 * len(BEYOND)
    assert len(plans) > 5
    operators = [line.strip(" :+-") for plan in plans for line in plan]
    assert sum(line.startswith(("Scan ", "LocalTableScan ")) and "score#" in line for line in operators) == 1
    assert sum(line.startswith("Sort ") and "score#" in line for line in operators) == 1
    assert sum(line.startswith("Window ") for line in operators) == 2


def not_kept(plan):
    """The lines of a plan without what is below a table that the session keeps, which another plan has made."""
    deepest, found = math.inf, []
    for line in plan.splitlines():
        depth = len(line) - len(line.lstrip(" :+-"))
        if depth <= deepest:
            found.append(line)
            deepest = depth if "InMemoryRelation" in line else math.inf
    return found


def test_ids_that_differ_behind_a_nul_character(session):
    lists = [("a", "x", 2.0), ("a", "y\0z", 1.0), ("a\0b", "x", 1.0)]
    result = pairs(session, lists, [("a", "y", 1.0), ("a\0b", "x", 1.0)], metrics="hit", k=2)
    assert {row["user"]: row["hit_at_2"] for row in records(result.per_user)} == {"a": 0.0, "a\0b": 1.0}


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["bigint", pytest.param("decimal(38,18)", marks=pytest.mark.heavy)])
def test_close_scores_are_no_ties(spark, kind):
    from decimal import Decimal

    scores = [9007199254740992, 9007199254740993] if kind == "bigint" else [Decimal("0.5"), Decimal("0.500000000000000001")]
    predictions = spark.createDataFrame(
        [("u", "a", scores[0]), ("u", "b", scores[1])], f"user_id string, item_id string, score {kind}"
    )
    truth = spark.createDataFrame([("u", "b")], "user_id string, item_id string")
    for nan_scores in ("error", "drop", "last", "first"):
        rules = srm.convention("default").override(nan_scores=nan_scores)
        assert srm.evaluate(predictions, truth, metrics="hit", k=1, convention=rules).to_dict() == {"model": {"hit@1": 1.0}}
        (first,) = srm.rank_items(predictions, k=1, nan_scores=nan_scores).collect()
        assert (first["item"], first["score"]) == ("b", scores[1])


@pytest.mark.parametrize(("nan_scores", "first"), [("last", "b"), ("first", "a")])
def test_a_repeat_without_a_score_is_the_best_or_the_worst(session, nan_scores, first):
    rows = [("u", "a", None), ("u", "a", 1.0), ("u", "b", 2.0)]
    rules = srm.convention("default").override(nan_scores=nan_scores, duplicates="first")
    for ranking in ("window", "lists"):
        found = pairs(session, rows, [("u", first, 1.0)], metrics="hit", k=1, convention=rules, ranking=ranking)
        assert found.to_dict() == {"model": {"hit@1": 1.0}}


@pytest.mark.spark
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_rank_too_large_for_an_integer_does_not_wrap(spark, ansi):
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    predictions = spark.createDataFrame([("u", "a", 2**32 + 1)], "user_id string, item_id string, place bigint")
    truth = spark.createDataFrame([("u", "a")], "user_id string, item_id string")
    with pytest.raises(srm.DataError, match="rank_faults: 1 row"):
        srm.evaluate(predictions, truth, metrics="mrr", k=None, columns=srm.Columns(rank="place"))


@pytest.mark.spark
@pytest.mark.connect
def test_the_first_of_repeats_is_the_best_ranked_one(spark):
    predictions = spark.createDataFrame(
        [("u", "b", 1, 4.0), ("u", "b", 2, 9.0)], "user_id string, item_id string, place int, score double"
    )
    truth = spark.createDataFrame([("u", "b", 5.0)], "user_id string, item_id string, rating double")
    rules = srm.convention("default").override(duplicates="first")
    result = srm.evaluate(predictions, truth, metrics="mae", convention=rules, columns=srm.Columns(rank="place"))
    assert result.to_dict() == {"model": {"mae": 1.0}}


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.by_turns
@pytest.mark.parametrize("convention_of", ["default", "threshold"])
@pytest.mark.parametrize("metrics", [["mrr@1"], ["mae"], pytest.param(["mrr@1", "mae"], marks=pytest.mark.core)], ids="+".join)
def test_emptiness_is_undefined_whatever_spark_makes_of_the_plan(spark, monkeypatch, metrics, convention_of):
    """Spark prunes branches that cannot give a row, and loses the observations in them; some versions wait for ever."""
    monkeypatch.setattr(actions, "_OBSERVATION_TIMEOUT", 1.0)
    predictions = spark.createDataFrame([("u", "a", 1.0)], "user_id string, item_id string, score double")
    truth = spark.createDataFrame([("u", "a", 5.0)], "user_id string, item_id string, rating double")
    none = F.lit(False)
    for lists, wanted in ((predictions.where(none), truth), (predictions, truth.where(none))):
        result = srm.evaluate(lists, wanted, metrics=metrics, convention=convention_of, n_buckets=2)
        assert result.status == "undefined"
        empty = {"mrr@1": 0.0 if convention_of == "threshold" else None, "mae": None}
        assert result.to_dict() == {"model": {metric: empty[metric] for metric in metrics}}, "an error of 0 would be the best"


@pytest.mark.heavy
@pytest.mark.spark
def test_no_user_in_common_is_refused_and_no_pair_is_undefined(spark):
    lists, truth = [("zz", "q", 1.0)], [("u", "a", 5.0)]
    with pytest.raises(
        srm.DataError, match=r"predictions/model: users_in_both: no user of the ground truth has a list"
    ) as caught:
        pairs(spark, lists, truth, metrics=["hit@1", "mae"])
    assert {fact.check for fact in caught.value.data_checks} >= {"rows", "users", "users_in_both"}, (
        "the report can be published"
    )
    result = pairs(spark, lists, truth, metrics=["hit@1", "mae"], checks={"users_in_both": "warn"})
    assert result.to_dict() == {"model": {"hit@1": 0.0, "mae": None}}
    assert pairs(spark, [("u", "q", 1.0)], [("u", "a", 5.0)], metrics="mae").to_dict() == {"model": {"mae": None}}


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.connect
def test_infinite_numbers_are_refused_where_they_would_spread(spark):
    infinite = float("inf")
    with pytest.raises(srm.DataError, match="predictions: infinite_scores: 1 row"):
        pairs(spark, [("u", "a", infinite)], [("u", "a", 5.0)], metrics="mae")
    assert pairs(spark, [("u", "a", infinite)], [("u", "a", 5.0)], metrics="hit", k=1).to_dict() == {"model": {"hit@1": 1.0}}
    with pytest.raises(srm.DataError, match="truth: nan_ratings: 1 row"):
        pairs(spark, [("u", "a", 1.0)], [("u", "a", infinite)])
    with pytest.raises(srm.DataError, match="negative_gains: 1 relevant item"):
        pairs(spark, [("u", "a", 1.0)], [("u", "a", 1100.0)], metrics="ndcg(gain=exponential)")


@pytest.mark.spark
@pytest.mark.connect
def test_a_column_that_is_named_must_be_there(spark):
    predictions = spark.createDataFrame([("u", "a", 1.0)], "user_id string, item_id string, score double")
    truth = spark.createDataFrame([("u", "a", 5.0)], "user_id string, item_id string, rating double")
    for columns, message in (
        (srm.Columns(rating="raiting"), r"truth: no column 'raiting' \(columns.rating\).*did you mean 'rating'"),
        (srm.Columns(model="algo"), r"predictions: no column 'algo' \(columns.model\)"),
    ):
        with pytest.raises(srm.DataError, match=message):
            srm.evaluate(predictions, truth, columns=columns)
    for options in ({"models": ["a", "a"]}, {"models": "als"}, {"models": [None]}, {"model_name": None}, {"columns": {}}):
        with pytest.raises(srm.ConfigError, match=next(iter(options))):
            srm.evaluate(predictions, truth, **options)
    small = r"truth: expected a pandas, polars or pyarrow table like predictions, found pyspark\..*DataFrame"
    with pytest.raises(srm.ConfigError, match=small):
        srm.evaluate(pd.DataFrame(), truth)
    upper = predictions.withColumn("MODEL", F.lit("m"))
    with pytest.raises(srm.DataError, match="in any case, found SCORE, score"):
        srm.evaluate(predictions.select(F.col("score").alias("SCORE"), "*"), truth)
    with pytest.raises(srm.DataError, match=r"^predictions: no column 'model' \(columns.model\); did you mean 'MODEL'"):
        srm.evaluate(upper, truth)


@pytest.mark.spark
@pytest.mark.connect
def test_the_size_of_the_catalogue(spark):
    predictions = spark.createDataFrame([("u", "a", 1.0)], "user_id string, item_id string, score double")
    told = {
        3.0: "catalog: expected an integer of at least 1, found 3.0",
        np.int64(0): "catalog: expected an integer of at least 1, found",
        "x": "catalog: expected a Spark DataFrame, a table of pandas, polars or pyarrow, or the number of items, found",
    }
    for size, message in told.items():
        with pytest.raises(srm.ConfigError, match=re.escape(message)):
            srm.evaluate(predictions, predictions, metrics="accuracy", catalog=size)
    found = srm.evaluate(predictions, predictions, metrics="accuracy", k=1, catalog=np.int64(5), n_buckets=1)
    assert found.to_dict() == {"model": {"accuracy@1": 1.0}}


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.by_turns
@pytest.mark.parametrize(("nan_scores", "infinite", "won"), [("last", -math.inf, 0), ("first", math.inf, 1)])
def test_missing_scores_stand_beyond_infinite_ones(spark, nan_scores, infinite, won):
    rows = [("u", "a", math.nan, 1.0), ("u", "b", infinite, 0.0), ("v", "a", None, 1.0), ("v", "b", infinite, 0.0)]
    table = spark.createDataFrame(rows, "user_id string, item_id string, score double, rating double")
    rules = srm.convention("default").override(nan_scores=nan_scores)
    metrics = ["mrr@2", "auc(candidates=listed)", "matched_auc@2"]
    result = srm.evaluate(table, table, metrics=metrics, catalog=4, convention=rules, n_buckets=2)
    assert list(result.to_dict()["model"].values()) == [(1 + won) / 2, won, won]
    assert [row["matched_auc_at_2"] for row in records(result.per_user)] == [won, won]
    shown = {row["item"]: row["score"] for row in result.explain("u").rows if row["item"]}
    assert shown == {"a": None, "b": infinite}


@pytest.mark.spark
def test_rank_items(spark):
    frame = spark.createDataFrame(
        [("m", 1, 10, 0.5), ("m", 1, 9, 0.5), ("m", 1, 8, 0.9), ("n", 1, 7, 0.1)],
        "model string, user_id int, item_id int, score double",
    )
    expected = spark.createDataFrame(
        [("m", 1, 8, 1, 0.9), ("m", 1, 9, 2, 0.5), ("n", 1, 7, 1, 0.1)],
        "model string, user int, item int, rank int, score double",
    )
    assert_df_equality(srm.rank_items(frame, k=2), expected, ignore_row_order=True, ignore_nullable=True)
    bad = frame.withColumn("score", F.lit(float("nan")))
    with pytest.raises(Exception, match="a score is NaN or null"):
        srm.rank_items(bad).collect()
