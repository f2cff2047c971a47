"""Calibration of scores: bins worked by hand, what is left out, and what is refused."""

from __future__ import annotations

import math

import pytest

import spark_recmetrics as srm
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.storage import actions

LISTS = "model string, user_id string, item_id string, score double"
TRUTH = "user_id string, item_id string, rating double"


def evaluated(spark, lists, truth, schema=LISTS, metrics="mrr", **options):
    predictions, given = spark.createDataFrame(lists, schema), spark.createDataFrame(truth, TRUTH)
    return srm.evaluate(predictions, given, **{"metrics": metrics, "k": 2, "n_buckets": 2, "threshold": 3.0, **options})


def one_model(scores, relevant, model="als"):
    """Rows of one user, items by their place, and a truth in which those of these places are relevant."""
    lists = [(model, "ann", f"i{place}", score) for place, score in enumerate(scores)]
    return lists, [("ann", f"i{place}", 5.0) for place in relevant]


def short(rows):
    return [(row["bin"], row["score_low"], row["score_high"], row["n_rows"], row["value"]) for row in rows]


@pytest.mark.core
def test_bins_by_hand(session):
    # Truth has items 0, 2 and 3 of scores 0.1 to 0.8.
    lists, truth = one_model([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], [0, 2, 3])
    found = evaluated(session, lists, truth).score_calibration(4)
    assert short(found) == [(1, 0.1, 0.2, 2, 1 / 2), (2, 0.3, 0.4, 2, 2 / 2), (3, 0.5, 0.6, 2, 0), (4, 0.7, 0.8, 2, 0)]
    assert [row["mean_score"] for row in found] == pytest.approx([0.15, 0.35, 0.55, 0.75])
    assert {(row["model"], row["against"]) for row in found} == {("als", "relevance")}


def test_equal_scores_are_in_one_bin(session):
    # Quantiles at 1/4, 2/4, 3/4 are 0.5, 0.5, 0.5: two bins are left, and their numbers have no gap.
    lists, truth = one_model([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.9], [0, 7])
    assert short(evaluated(session, lists, truth).score_calibration(4)) == [(1, 0.5, 0.5, 7, 1 / 7), (2, 0.9, 0.9, 1, 1)]
    low = [0.1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.9]
    assert short(evaluated(session, *one_model(low, [0])).score_calibration(8)) == [
        (1, 0.1, 0.1, 1, 1),
        (2, 0.5, 0.5, 6, 0),
        (3, 0.9, 0.9, 1, 0),
    ]


def test_missing_and_infinite_scores_are_left_out(session):
    lists, truth = one_model([math.nan, None, math.inf, -math.inf, 0.1, 0.2], [0, 1, 2, 3, 5])
    for nan_scores in ("drop", "last", "first"):
        rules = srm.convention("default").override(nan_scores=nan_scores)
        found = evaluated(session, lists, truth, convention=rules, threshold=None).score_calibration(2)
        assert short(found) == [(1, 0.1, 0.1, 1, 0), (2, 0.2, 0.2, 1, 1)], nan_scores


def test_each_model_has_its_own_bins(session):
    als, truth = one_model([0.1, 0.2], [1])
    popular, _ = one_model([100.0, 200.0, 300.0, 400.0], [], model="popularity")
    found = evaluated(session, als + popular, truth, models=["popularity", "als"]).score_calibration(2)
    assert [row["model"] for row in found] == ["popularity", "popularity", "als", "als"]
    assert short(found) == [(1, 100, 200, 2, 1 / 2), (2, 300, 400, 2, 0), (1, 0.1, 0.1, 1, 0), (2, 0.2, 0.2, 1, 1)]


def test_relevant_is_what_the_threshold_says_and_users_without_truth_do_not_count(session):
    lists = [("ann", "x", 0.9), ("ann", "y", 0.8), ("ann", "z", 0.7), ("bob", "x", 0.9), ("cid", "x", 0.6)]
    truth = [("ann", "x", 4.0), ("ann", "y", 2.0), ("cid", "q", 1.0)]
    result = evaluated(session, lists, truth, "user_id string, item_id string, score double", model_name="mine")
    # Bob is nobody of truth. Cid has a row there, which is not relevant, and so is not averaged, but counts here.
    assert short(result.score_calibration(1)) == [(1, 0.6, 0.9, 4, 1 / 4)]
    assert result.score_calibration(1)[0]["model"] == "mine"


def test_against_ratings(session):
    lists = [("ann", "x", 4.5), ("ann", "y", 2.0), ("bob", "x", 4.0), ("bob", "z", 1.0)]
    truth = [("ann", "x", 5.0), ("ann", "y", 1.0), ("bob", "x", 3.0), ("bob", "q", 5.0)]
    result = evaluated(session, lists, truth, "user_id string, item_id string, score double", ["rmse"], threshold=None)
    # Three pairs have a rating. A half of three ends behind the second, 4.0.
    expected = [(1, 2.0, 4.0, 2, (1 + 3) / 2), (2, 4.5, 4.5, 1, 5)]
    assert short(result.score_calibration(2)) == short(result.score_calibration(2, against="rating")) == expected
    assert {row["against"] for row in result.score_calibration()} == {"rating"}
    assert short(result.score_calibration(1, against="relevance")) == [(1, 1.0, 4.5, 4, 3 / 4)]


def test_predicted_ratings_of_their_own(session):
    own = session.createDataFrame([("als", "ann", "i0", 4.0)], LISTS)
    result = evaluated(session, *one_model([0.1, 0.2], [0]), metrics=["mrr", "rmse"], rating_predictions=own)
    assert short(result.score_calibration(1)) == [(1, 0.1, 0.2, 2, 1 / 2)]
    assert short(result.score_calibration(1, against="rating")) == [(1, 4.0, 4.0, 1, 5)]


def test_predicted_ratings_that_no_metric_reads(session):
    own = session.createDataFrame([("u0", "i0", 1.0)], "user_id string, item_id string, score double")
    result = evaluated(session, *one_model([0.1, 0.2], [0]), metrics=["mrr"], rating_predictions=own)
    with pytest.raises(
        srm.DataError, match="rating_predictions: expected a metric that reads it, found none: add a rating metric"
    ):
        result.score_calibration(against="rating")


def test_repeated_rows_count_once_where_they_are_admitted(session):
    rules = srm.convention("default").override(duplicates="first")
    lists, truth = one_model([0.2, 0.1], [0])
    found = evaluated(session, [*lists, ("als", "ann", "i0", 0.1)], truth * 2, convention=rules).score_calibration(1)
    assert short(found) == [(1, 0.1, 0.2, 2, 1 / 2)]


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["float", "decimal(20,10)", "bigint"])
def test_scores_of_any_type(spark, kind):
    lists, truth = one_model([1.0, 2.0, 3.0, 4.0], [3])
    predictions = spark.createDataFrame(lists, LISTS)
    predictions = predictions.withColumn("score", predictions["score"].cast(kind))
    result = srm.evaluate(predictions, spark.createDataFrame(truth, TRUTH), metrics="mrr", k=2)
    assert short(result.score_calibration(2)) == [(1, 1, 2, 2, 0), (2, 3, 4, 2, 1 / 2)]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_rows_do_not_depend_on_partitions(spark, ansi):
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    lists = [("als", f"u{user}", f"i{item}", (user * 7 + item * 13) % 32 / 32) for user in range(20) for item in range(10)]
    truth = [(f"u{user}", f"i{user % 10}", 5.0) for user in range(20)]
    found = []
    for n in (1, 7):
        predictions = spark.createDataFrame(lists, LISTS).repartition(n, "item_id")
        found.append(srm.evaluate(predictions, spark.createDataFrame(truth, TRUTH), metrics="mrr", k=2).score_calibration())
    # Scores of so few binary digits add up exactly in any order.
    assert found[0] == found[1]
    assert sum(row["n_rows"] for row in found[0]) == 200
    assert sum(row["n_rows"] * row["value"] for row in found[0]) == pytest.approx(20)
    assert len(found[0]) == 20


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.connect
def test_only_bins_come_to_the_driver_in_one_look(spark, monkeypatch):
    result = evaluated(spark, *one_model([0.1, 0.2, 0.3], [0]))
    looks, collect = [], actions.collect_rows
    monkeypatch.setattr(actions, "collect_rows", lambda frame: looks.append(collect(frame)) or looks[-1])
    result.score_calibration(2)
    ((*rows,),) = looks
    assert len(rows) == 2
    assert "user" not in rows[0].asDict()


def test_nobody_has_no_bins(session):
    lists, truth = one_model([math.inf, -math.inf], [0])
    result = evaluated(session, lists, truth)
    assert result.score_calibration() == []
    with pytest.raises(ConfigError, match=r"rows: expected a result of evaluate, or rows of its score_calibration\(\), found"):
        srm.plots.score_calibration(result)


def test_what_is_refused(session):
    lists, truth = one_model([1, 2], [0])
    ranked = evaluated(
        session, lists, truth, "model string, user_id string, item_id string, place int", columns=srm.Columns(rank="place")
    )
    with pytest.raises(DataError, match=r"^predictions: expected scores, found only ranks: remove columns\.rank, or"):
        ranked.score_calibration()
    result = evaluated(session, *one_model([0.1, 0.2], [0]))
    with pytest.raises(ConfigError, match=r"^n_bins: expected an integer of at least 1, found 0$"):
        result.score_calibration(0)
    with pytest.raises(ConfigError, match=r"^n_bins: expected an integer from 1 to 1000, found 1001$"):
        result.score_calibration(1001)
    with pytest.raises(ConfigError, match=r"^against: expected one of relevance, rating, or None, found 'stars'$"):
        result.score_calibration(against="stars")
    present = srm.evaluate(
        session.createDataFrame([("ann", "x", 0.1)], "user_id string, item_id string, score double"),
        session.createDataFrame([("ann", "x")], "user_id string, item_id string"),
        metrics="mrr",
        k=1,
    )
    with pytest.raises(
        DataError, match=r"^truth: expected ratings to compare scores with, found none: give them in columns\.rating$"
    ):
        present.score_calibration(against="rating")


def test_the_figure_asks_the_result(session):
    result = evaluated(session, *one_model([0.1, 0.2, 0.3, 0.4], [3]))
    assert (
        srm.plots.score_calibration(result).get_label() == srm.plots.score_calibration(result.score_calibration()).get_label()
    )
