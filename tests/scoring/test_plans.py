"""The shape of an evaluation, read from Spark's physical plan: a window, grouped pandas UDFs, plain aggregations."""

from __future__ import annotations

import re

import pytest

import spark_recmetrics as srm

pytestmark = [pytest.mark.spark, pytest.mark.once]

ORDINARY = ["ndcg", "map", "precision", "recall", "mrr", "hit"]


def plan_of(spark, capsys, **options):
    """The operators of the physical plan of PER_USER, from the last one to the first."""
    predictions = spark.createDataFrame([(1, 7, 0.9), (1, 8, 0.8), (2, 8, 0.7)], "user_id int, item_id int, score double")
    truth = spark.createDataFrame([(1, 8, 5.0), (2, 8, 4.0)], "user_id int, item_id int, rating double")
    result = srm.evaluate(predictions, truth, k=2, n_buckets=2, **options)
    capsys.readouterr()
    result.per_user.explain()
    text = capsys.readouterr().out
    result.release()
    # A frame that is kept shows the plan that made it once more, as the relation that is read.
    return re.findall(r"^[ :+|*()0-9-]*([A-Z][A-Za-z]+)", text, re.MULTILINE)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metrics": ORDINARY},
        {"metrics": ["ndcg", "rmse"]},
        {"convention": "threshold"},
        {"metrics": ["ndcg", "rmse", "mae"], "convention": "threshold"},
        {"metrics": ["ndcg"], "convention": "torchmetrics"},
    ],
    ids=str,
)
def test_lists_are_ranked_by_a_window_and_scored_by_a_grouped_pandas_udf(spark, capsys, options):
    operators = plan_of(spark, capsys, **options)
    assert "Window" in operators
    assert "FlatMapCoGroupsInPandas" in operators
    assert operators.index("FlatMapCoGroupsInPandas") < operators.index("Window"), "the window comes first"
    assert not {"MapInArrow", "PythonMapInArrow", "MapInPandas"} & set(operators)


@pytest.mark.parametrize("metrics", [["ndcg", "rmse"], ["rmse"], ["rmse", "mae", "r2"]], ids=str)
def test_rating_errors_are_a_join_and_an_aggregation(spark, capsys, metrics):
    operators = plan_of(spark, capsys, metrics=metrics)
    assert [name for name in operators if name.endswith("Join")]
    assert [name for name in operators if name.endswith("Aggregate")]
    if metrics[0] != "ndcg":
        assert not [name for name in operators if "Python" in name or "Pandas" in name or "Arrow" in name or name == "Window"]


def test_nothing_is_collected_into_lists_by_default(spark, capsys):
    predictions = spark.createDataFrame([(1, 7, 0.9)], "user_id int, item_id int, score double")
    truth = spark.createDataFrame([(1, 7, 5.0)], "user_id int, item_id int, rating double")
    result = srm.evaluate(predictions, truth, metrics=["ndcg", "rmse"], k=2, n_buckets=2)
    capsys.readouterr()
    result.per_user.explain()
    assert "collect_list" not in capsys.readouterr().out
    result.release()


def test_full_lists_are_the_documented_fast_lane(spark, capsys):
    operators = plan_of(spark, capsys, ranking="lists")
    assert "Window" not in operators
    assert {"MapInArrow", "PythonMapInArrow"} & set(operators)
