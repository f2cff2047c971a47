"""Predictions that are lists already: arrays of items or of structs, and what ALS recommends."""

from __future__ import annotations

import statistics
import time

import oracle
import pytest
from evaluation.test_evaluate import evaluate_case, frame_of
from pyspark.sql import functions as F

import spark_recmetrics as srm
from spark_recmetrics.inputs.buckets_spark import bucket_numbers, bucket_of
from spark_recmetrics.inputs.spark import read_inputs
from spark_recmetrics.metrics import expand
from spark_recmetrics.scoring.spark import ranked_lists

pytestmark = pytest.mark.spark

METRICS = expand(
    ["ndcg", "hit", "lauc", "gauc(candidates=all)", "auc", "ctr(estimator=dr)", "matched_auc", "bpref", "map", "rmse"], 2
)


def as_lists(spark, rows):
    """One row per model and user: the items in rank order, as structs with their scores."""
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


@pytest.mark.parametrize("ids", ["int", "text"])
@pytest.mark.heavy
def test_lists_give_the_same_bits_as_rows_with_ranks(spark, ids):
    case = oracle.random_case(3, ids=ids, ratings=True, ranks=True, propensities=True)
    rows = evaluate_case(
        spark, case, "default", metrics=METRICS, k=None, train=frame_of(spark, case.train), catalog=len(case.catalog)
    )
    lists = evaluate_lists(spark, case, as_lists(spark, case.predictions))
    assert lists.to_dict() == rows.to_dict()
    found = {(row["model"], row["user"]): row.asDict() for row in lists.per_user.collect()}
    assert found == {(row["model"], row["user"]): row.asDict() for row in rows.per_user.collect()}


@pytest.mark.core
def test_arrays_of_items_alone(spark):
    lists = spark.createDataFrame([(1, [7, 8, 9]), (2, [8]), (3, [])], "user_id int, items array<int>")
    truth = spark.createDataFrame([(1, 8), (2, 8), (3, 8)], "user_id bigint, item_id bigint")
    result = srm.evaluate(lists, truth, metrics=["mrr", "precision", "map(normalizer=relevant)"], k=2, n_buckets=2)
    assert result.to_dict()["model"] == pytest.approx(
        {"mrr@2": 1 / 2, "precision@2": 1 / 3, "map(normalizer=relevant)@2": 1 / 2}
    )
    ranked = srm.rank_items(lists.select("user_id", F.col("items").alias("ranked")), k=1, columns=srm.Columns(items="ranked"))
    assert sorted(map(tuple, ranked.collect())) == [("model", 1, 7, 1), ("model", 2, 8, 1)]


@pytest.mark.once
def test_lists_are_not_sorted(spark, capsys):
    """The order is known: no window in the plan, and the arrays move before they become rows."""
    lists = spark.createDataFrame([(1, [7, 8])], "user_id int, items array<int>")
    truth = spark.createDataFrame([(1, 8)], "user_id int, item_id int")
    srm.evaluate(lists, truth, metrics="ndcg", k=2, n_buckets=2).evaluated.scored.kept.explain(extended=True)
    text = capsys.readouterr().out
    assert "Window" not in text
    assert text.index("Generate") < text.index("RepartitionBy")


@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        ([(1, [7, 7])], "array<int>", "duplicates = 1"),
        ([(1, [7, None])], "array<int>", "predictions: null_ids = 1"),
        ([(1, [7]), (1, [8])], "array<int>", "rank_faults = 1"),
        ([(1, "7")], "string", r"predictions: column 'items' \(columns.items\): expected an array of items"),
        ([(1, [7.5])], "array<double>", "expected a whole number or a string as an id"),
    ],
)
def test_wrong_lists_are_refused(spark, rows, kind, message):
    lists = spark.createDataFrame(rows, f"user_id int, items {kind}")
    truth = spark.createDataFrame([(1, 8)], "user_id int, item_id int")
    with pytest.raises(srm.DataError, match=message):
        srm.evaluate(lists, truth, metrics="ndcg", k=2, n_buckets=2)


def test_rating_metrics_of_lists_see_all_of_them(spark):
    lists = spark.createDataFrame([(1, [(7, 5.0), (8, 3.0)])], "user_id int, items array<struct<item_id: int, score: double>>")
    truth = spark.createDataFrame([(1, 8, 1.0)], "user_id int, item_id int, rating double")
    assert srm.evaluate(lists, truth, metrics=["hit@1", "mae"]).to_dict() == {"model": {"hit@1": 0.0, "mae": 2.0}}


@pytest.mark.core
def test_from_als(spark):
    from pyspark.ml.recommendation import ALS

    rows = [(user, item, float((user * item) % 5 + 1)) for user in range(1, 9) for item in range(1, 7) if (user + item) % 3]
    ratings = spark.createDataFrame(rows, "customer int, product int, rating float")
    model = ALS(rank=2, maxIter=3, seed=1, userCol="customer", itemCol="product").fit(ratings)
    lists = srm.from_als(model, k=3)
    assert lists.columns == ["user_id", "items"]
    truth = ratings.toDF("user_id", "item_id", "rating")
    found = srm.evaluate(lists, truth, metrics=["ndcg", "hit"], k=[1, 3], n_buckets=2, threshold=4.0).to_dict()["model"]
    # The same by score, from the rows that ALS predicts.
    pairs = ratings.select("customer").distinct().crossJoin(ratings.select("product").distinct())
    scored = model.transform(pairs).toDF("user_id", "item_id", "score")
    assert (
        found == srm.evaluate(scored, truth, metrics=["ndcg", "hit"], k=[1, 3], n_buckets=2, threshold=4.0).to_dict()["model"]
    )
    some = spark.createDataFrame([(2,), (3,), (3,)], "user_id int")
    assert sorted(row["user_id"] for row in srm.from_als(model, some, k=1).collect()) == [2, 3]
    with pytest.raises(srm.DataError, match=r"users: no column 'customer', .* none named 'user_id' \(columns.user\)"):
        srm.from_als(model, some.toDF("who"))
    with pytest.raises(srm.ConfigError, match="model: expected a fitted ALSModel, found ALS"):
        srm.from_als(ALS())
    with pytest.raises(srm.ConfigError, match="k: expected an integer of at least 1"):
        srm.from_als(model, k=0)


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "columns",
    [
        srm.Columns(user="customer", item="product"),
        srm.Columns(user="who is it", item="a.b", items="the `list`", score="how good", rating="rating"),
    ],
)
def test_lists_of_als_have_the_names_of_the_other_tables(spark, columns):
    """One `Columns` for the model's lists, the truth, and the users to recommend to."""
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


@pytest.mark.heavy
def test_two_million_candidates_of_one_user(spark):
    """Metrics of whole lists rank them in one worker; a metric of the test tells what it held."""
    from spark_recmetrics.metrics import registry

    saved = dict(registry.DEFINITIONS), dict(registry.ALIASES)
    n_items = 2_000_000
    candidates = spark.range(n_items).select(
        F.lit(1).alias("user_id"), F.col("id").alias("item_id"), (-F.col("id")).cast("double").alias("score")
    )
    truth = spark.createDataFrame([(1, place) for place in (0, 999_999, 1_999_999)], "user_id int, item_id bigint")
    try:

        @srm.metrics.register("worker_megabytes", upper=None)
        def worker_megabytes(batch, k):
            """Largest memory of the process so far."""
            import resource

            import numpy as np

            return np.full(batch.size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)

        metrics = ["auc", "map", "average_rank", "ndcg@10", "worker_megabytes"]
        found = srm.evaluate(candidates, truth, metrics=metrics, k=None, catalog=n_items, n_buckets=1).to_dict()["model"]
    finally:
        for registered, before in zip((registry.DEFINITIONS, registry.ALIASES), saved, strict=True):
            registered.clear()
            registered.update(before)
    assert found.pop("worker_megabytes") < 1000
    # Above the second relevant item stand 999,998 of 1,999,997 others, above the third all of them.
    auc = (1 + (1 - 999_998 / 1_999_997) + 0) / 3
    average_precision = (1 + 2 / 1_000_000 + 3 / 2_000_000) / 3
    assert found.pop("ndcg@10") == pytest.approx(1 / (1 + 1 / 1.584962500721156 + 1 / 2))
    assert found == pytest.approx({"auc": auc, "map": average_precision, "average_rank": 1.0}, rel=1e-12)


@pytest.mark.heavy
@pytest.mark.once
def test_c1_two_million_rows_of_one_user_are_cut_before_python(spark):
    n_items = 2_000_000
    candidates = spark.range(n_items).select(
        F.lit(1).alias("user_id"), F.col("id").alias("item_id"), (-F.col("id")).cast("double").alias("score")
    )
    truth = spark.createDataFrame([(1, place) for place in (0, 999_999)], "user_id int, item_id bigint")
    found = srm.evaluate(candidates, truth, metrics=["ndcg", "hit"], k=10, n_buckets=1)
    assert not found.evaluated.scored.scoring.ranks_lists
    evaluated = found.evaluated
    inputs = read_inputs(evaluated.engine.tables, evaluated.request)
    assert ranked_lists(inputs, evaluated.known, evaluated.request, evaluated.scored.scoring).count() == 10
    assert found.to_dict()["model"] == pytest.approx({"ndcg@10": 1 / (1 + 1 / 1.584962500721156), "hit@10": 1.0})


@pytest.mark.heavy
@pytest.mark.once
@pytest.mark.parametrize("max_per_user", [None, 10])
def test_c2_a_million_users_are_scored_in_batches(spark, max_per_user):
    """User u is shown items u to u + 9, best first, and item u + u % 20 is relevant: within 10 for half of the users."""
    n_users = 1_000_000
    users = spark.range(n_users).select(F.col("id").alias("user_id"))
    shown = users.select("user_id", F.explode(F.sequence(F.lit(0), F.lit(9))).alias("place"))
    predictions = shown.select(
        "user_id", (F.col("user_id") + F.col("place")).alias("item_id"), (-F.col("place")).cast("double").alias("score")
    )
    truth = users.select("user_id", (F.col("user_id") + F.col("user_id") % 20).alias("item_id"))
    start = time.monotonic()
    found = srm.evaluate(predictions, truth, metrics=["mrr", "hit"], k=10, max_per_user=max_per_user)
    # One call of Python for each user took half an hour.
    assert time.monotonic() - start < 600
    assert found.to_dict()["model"] == pytest.approx({"mrr@10": sum(1 / rank for rank in range(1, 11)) / 20, "hit@10": 0.5})


@pytest.mark.heavy
@pytest.mark.once
@pytest.mark.parametrize("ranking", ["window", "lists"])
def test_a_bucket_of_ten_times_the_users(spark, ranking):
    """User u is shown items u to u + 9, best first, and item u + u % 20 is relevant."""
    own = bucket_of(F.col("user_id"), 8)
    crowd = (own == bucket_numbers(8)[0]) | (F.pmod(F.xxhash64("user_id"), F.lit(10)) == 0)
    users = spark.range(200_000).select(F.col("id").alias("user_id")).where(crowd)
    crowded, *others = sorted((row["count"] for row in users.groupBy(own).count().collect()), reverse=True)
    assert len(others) == 7
    assert 9 < crowded / statistics.median(others) < 11
    places = users.select("user_id", F.explode(F.sequence(F.lit(0), F.lit(9))).alias("place"))
    item, score = F.col("user_id") + F.col("place"), (-F.col("place")).cast("double")
    predictions = places.select("user_id", item.alias("item_id"), score.alias("score"))
    truth = users.select("user_id", (F.col("user_id") + F.col("user_id") % 20).alias("item_id"))
    found = srm.evaluate(predictions, truth, metrics=["mrr", "hit"], k=10, n_buckets=8, ranking=ranking)
    n_by_place = {row["place"]: row["count"] for row in users.groupBy((F.col("user_id") % 20).alias("place")).count().collect()}
    n_users = sum(n_by_place.values())
    expected = {
        "mrr@10": sum(n_by_place[place] / (place + 1) for place in range(10)) / n_users,
        "hit@10": sum(n_by_place[place] for place in range(10)) / n_users,
    }
    assert found.to_dict()["model"] == pytest.approx(expected)
    assert found.per_user.count() == n_users


@pytest.mark.heavy
@pytest.mark.once
@pytest.mark.parametrize("ranking", ["window", "lists"])
def test_an_item_in_every_list(spark, ranking):
    """Item 0 stands first for everybody and is relevant to every second user; behind it stand four items of the user's own."""
    n_users = 300_000
    users = spark.range(n_users).select(F.col("id").alias("user_id"))
    places = users.select("user_id", F.explode(F.sequence(F.lit(0), F.lit(4))).alias("place"))
    own = F.col("user_id") * 4 + F.col("place")
    item, score = F.when(F.col("place") == 0, 0).otherwise(own), (-F.col("place")).cast("double")
    predictions = places.select("user_id", item.alias("item_id"), score.alias("score"))
    relevant = F.when(F.col("user_id") % 2 == 0, 0).otherwise(F.col("user_id") * 4 + 3)
    truth = users.select("user_id", relevant.alias("item_id"))
    n_items = 1 + 4 * n_users
    metrics = ["mrr", "hit@1", "item_coverage"]
    found = srm.evaluate(predictions, truth, metrics=metrics, k=5, catalog=n_items, n_buckets=8, ranking=ranking)
    assert found.to_dict()["model"] == pytest.approx({"mrr@5": (1 + 1 / 4) / 2, "hit@1": 1 / 2, "item_coverage@5": 1.0})
