"""Ranked lists, predictions that are arrays of items or of structs, and recommendations of ALS."""

from __future__ import annotations

import oracle
import pytest
from chispa import assert_df_equality
from chispa_rows import assert_rows
from evaluation.test_evaluate import evaluate_case, frame_of
from pyspark.sql import functions as F

import spark_recmetrics as srm
from spark_recmetrics.metrics import expand

METRICS = expand(
    ["ndcg", "hit", "lauc", "gauc(candidates=all)", "auc", "ctr(estimator=dr)", "matched_auc", "bpref", "map", "rmse"], 2
)


def as_lists(spark, rows):
    """One row per model and user: structs of item and score, in rank order."""
    frame = frame_of(spark, rows)
    entry = F.struct("item_id", F.col("score").cast("float").alias("rating"))
    ordered = F.array_sort(F.collect_list(F.struct("rank", entry.alias("entry")))).getField("entry")
    return frame.groupBy("model", "user_id").agg(ordered.alias("items"))


def evaluate_lists(spark, case, lists, **options):
    return srm.evaluate(
        lists,
        frame_of(spark, case.truth),
        metrics=METRICS,
        k=None,
        train=frame_of(spark, case.train),
        catalog=len(case.catalog),
        n_buckets=3,
        **options,
    )


@pytest.mark.spark
@pytest.mark.parametrize("ids", ["int", "text"])
@pytest.mark.heavy
def test_lists_give_the_same_bits_as_rows_with_ranks(spark, ids):
    case = oracle.random_case(3, ids=ids, ratings=True, ranks=True, propensities=True)
    rows = evaluate_case(
        spark, case, "default", metrics=METRICS, k=None, train=frame_of(spark, case.train), catalog=len(case.catalog)
    )
    lists = evaluate_lists(spark, case, as_lists(spark, case.predictions))
    assert lists.to_dict() == rows.to_dict()
    assert_df_equality(lists.per_user, rows.per_user, ignore_row_order=True, ignore_nullable=True)


@pytest.mark.spark
@pytest.mark.core
def test_arrays_of_items_alone(spark):
    lists = spark.createDataFrame([(1, [7, 8, 9]), (2, [8]), (3, [])], "user_id int, items array<int>")
    truth = spark.createDataFrame([(1, 8), (2, 8), (3, 8)], "user_id bigint, item_id bigint")
    result = srm.evaluate(lists, truth, metrics=["mrr", "precision", "map(normalizer=relevant)"], k=2, n_buckets=2)
    assert result.to_dict()["model"] == pytest.approx(
        {"mrr@2": 1 / 2, "precision@2": 1 / 3, "map(normalizer=relevant)@2": 1 / 2}
    )
    ranked = srm.rank_items(lists.select("user_id", F.col("items").alias("ranked")), k=1, columns=srm.Columns(items="ranked"))
    assert_rows(ranked, [("model", 1, 7, 1), ("model", 2, 8, 1)], "model string, user int, item int, rank int")


@pytest.mark.spark
@pytest.mark.once
def test_lists_are_not_sorted(spark, capsys):
    """Arrays have an order: the plan has no window, and shuffles the arrays before they become rows."""
    lists = spark.createDataFrame([(1, [7, 8])], "user_id int, items array<int>")
    truth = spark.createDataFrame([(1, 8)], "user_id int, item_id int")
    srm.evaluate(lists, truth, metrics="ndcg", k=2, n_buckets=2).evaluated.scored.kept.explain(extended=True)
    text = capsys.readouterr().out
    assert "Window" not in text
    assert text.index("Generate") < text.index("RepartitionBy")


@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        ([(1, [7, 7])], "array<int>", "duplicates: 1 repeated recommendation"),
        ([(1, [7, None])], "array<int>", "predictions: null_ids: 1 row"),
        ([(1, [7]), (1, [8])], "array<int>", "rank_faults: 1 row"),
        ([(1, "7")], "string", r"predictions: column 'items' \(columns.items\): expected an array of items"),
        ([(1, [7.5])], "array<double>", "expected an array of integers or strings as ids"),
    ],
)
def test_wrong_lists_are_rejected(session, rows, kind, message):
    lists = session.createDataFrame(rows, f"user_id int, items {kind}")
    truth = session.createDataFrame([(1, 8)], "user_id int, item_id int")
    with pytest.raises(srm.DataError, match=message):
        srm.evaluate(lists, truth, metrics="ndcg", k=2, n_buckets=2)


def test_rating_metrics_use_full_lists(session):
    lists = session.createDataFrame(
        [(1, [(7, 5.0), (8, 3.0)])], "user_id int, items array<struct<item_id: int, score: double>>"
    )
    truth = session.createDataFrame([(1, 8, 1.0)], "user_id int, item_id int, rating double")
    assert srm.evaluate(lists, truth, metrics=["hit@1", "mae"]).to_dict() == {"model": {"hit@1": 0.0, "mae": 2.0}}


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.core
def test_from_als(spark):
    from pyspark.ml.recommendation import ALS

    rows = [(user, item, float((user * item) % 5 + 1)) for user in range(1, 9) for item in range(1, 7) if (user + item) % 3]
    ratings = spark.createDataFrame(rows, "customer int, product int, rating float")
    model = ALS(rank=2, maxIter=3, seed=1, userCol="customer", itemCol="product").fit(ratings)
    lists = srm.from_als(model, k=3)
    assert lists.columns == ["user_id", "items"]
    truth = ratings.toDF("user_id", "item_id", "rating")
    options = {"metrics": ["ndcg", "hit"], "k": [1, 3], "n_buckets": 2, "threshold": 4.0}
    # The predicted scores of all pairs give the same values.
    pairs = ratings.select("customer").distinct().crossJoin(ratings.select("product").distinct())
    scored = model.transform(pairs).toDF("user_id", "item_id", "score")
    assert srm.evaluate(lists, truth, **options).to_dict() == srm.evaluate(scored, truth, **options).to_dict()
    users = spark.createDataFrame([(2,), (3,), (3,)], "user_id int")
    assert_rows(srm.from_als(model, users, k=1).select("user_id"), [(2,), (3,)])
    with pytest.raises(srm.DataError, match=r"users: no column 'customer', .* no column 'user_id' \(columns.user\)"):
        srm.from_als(model, users.toDF("who"))
    with pytest.raises(srm.DataError, match="users: column 'user_id': expected integers, as ALS requires, found string"):
        srm.from_als(model, users.withColumn("user_id", F.col("user_id").cast("string")))
    with pytest.raises(srm.ConfigError, match="model: expected a fitted ALSModel, found ALS"):
        srm.from_als(ALS())
    with pytest.raises(srm.ConfigError, match="k: expected an integer of at least 1"):
        srm.from_als(model, k=0)


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.by_turns
@pytest.mark.parametrize(
    "columns",
    [
        srm.Columns(user="customer", item="product"),
        srm.Columns(user="who is it", item="a.b", items="the `list`", score="how good", rating="rating"),
    ],
)
def test_lists_of_als_have_the_names_of_the_other_tables(spark, columns):
    """One `Columns` for the lists, the ground truth, and the users to recommend to."""
    from pyspark.ml.recommendation import ALS

    rows = [(1, 7, 5.0), (1, 8, 1.0), (2, 7, 4.0), (3, 8, 2.0)]
    ratings = spark.createDataFrame(rows, "customer int, product int, rating float")
    model = ALS(rank=2, maxIter=2, seed=1, userCol="customer", itemCol="product").fit(ratings)
    truth = spark.createDataFrame([(1, 8, 5.0), (2, 8, 5.0), (3, 9, 5.0)], "u int, i int, rating double")
    named = truth.toDF(columns.user, columns.item, "rating")
    lists = srm.from_als(model, named, k=2, columns=columns)
    assert lists.columns == [columns.user, columns.items]
    assert lists.schema[columns.items].dataType.elementType.names == [columns.item, columns.score]
    assert srm.evaluate(lists, named, metrics="hit", k=2, n_buckets=2, columns=columns).to_dict() == {"model": {"hit@2": 2 / 3}}
