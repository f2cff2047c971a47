"""Many rows of one user, many users, and uneven distributions."""

from __future__ import annotations

import statistics
import time

import pytest
from pyspark.sql import functions as F

import spark_recmetrics as srm
from spark_recmetrics.inputs.buckets_spark import bucket_numbers, bucket_of
from spark_recmetrics.inputs.spark import read_inputs
from spark_recmetrics.scoring.plan_spark import ranked_lists

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _compiled(spark):
    """Spark compiles its plans, as it does outside the tests: for so many rows this pays."""
    settings = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


def test_two_million_candidates_of_one_user(spark):
    """Metrics of full lists rank them in one worker. An additional metric returns the memory of the worker."""
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
        values = srm.evaluate(candidates, truth, metrics=metrics, k=None, catalog=n_items, n_buckets=1).to_dict()["model"]
    finally:
        for registered, before in zip((registry.DEFINITIONS, registry.ALIASES), saved, strict=True):
            registered.clear()
            registered.update(before)
    assert values.pop("worker_megabytes") < 1000
    # 999,998 of the 1,999,997 other items are above the second relevant item, all are above the third.
    auc = (1 + (1 - 999_998 / 1_999_997) + 0) / 3
    average_precision = (1 + 2 / 1_000_000 + 3 / 2_000_000) / 3
    assert values.pop("ndcg@10") == pytest.approx(1 / (1 + 1 / 1.584962500721156 + 1 / 2))
    assert values == pytest.approx({"auc": auc, "map": average_precision, "average_rank": 1.0}, rel=1e-12)


@pytest.mark.once
def test_c1_two_million_rows_of_one_user_are_cut_before_python(spark):
    n_items = 2_000_000
    candidates = spark.range(n_items).select(
        F.lit(1).alias("user_id"), F.col("id").alias("item_id"), (-F.col("id")).cast("double").alias("score")
    )
    truth = spark.createDataFrame([(1, place) for place in (0, 999_999)], "user_id int, item_id bigint")
    result = srm.evaluate(candidates, truth, metrics=["ndcg", "hit"], k=10, n_buckets=1)
    evaluated = result.evaluated
    assert not evaluated.scored.scoring.ranks_lists
    inputs = read_inputs(evaluated.engine.tables, evaluated.request)
    assert ranked_lists(inputs, evaluated.known, evaluated.request, evaluated.scored.scoring).count() == 10
    assert result.to_dict()["model"] == pytest.approx({"ndcg@10": 1 / (1 + 1 / 1.584962500721156), "hit@10": 1.0})


@pytest.mark.once
@pytest.mark.parametrize("max_per_user", [None, 10])
def test_c2_a_million_users_are_scored_in_batches(spark, max_per_user):
    """User u gets the items u to u + 9, best first. Item u + u % 20 is relevant: in the top 10 for half of the users."""
    n_users = 1_000_000
    users = spark.range(n_users).select(F.col("id").alias("user_id"))
    shown = users.select("user_id", F.explode(F.sequence(F.lit(0), F.lit(9))).alias("place"))
    predictions = shown.select(
        "user_id", (F.col("user_id") + F.col("place")).alias("item_id"), (-F.col("place")).cast("double").alias("score")
    )
    truth = users.select("user_id", (F.col("user_id") + F.col("user_id") % 20).alias("item_id"))
    start = time.monotonic()
    result = srm.evaluate(predictions, truth, metrics=["mrr", "hit"], k=10, max_per_user=max_per_user, n_buckets=32)
    # With one Python call per user this took half an hour.
    assert time.monotonic() - start < 600
    assert result.to_dict()["model"] == pytest.approx({"mrr@10": sum(1 / rank for rank in range(1, 11)) / 20, "hit@10": 0.5})


@pytest.mark.once
@pytest.mark.parametrize("ranking", ["window", "lists"])
def test_a_bucket_of_ten_times_the_users(spark, ranking):
    """User u gets the items u to u + 9, best first. Item u + u % 20 is relevant."""
    bucket = bucket_of(F.col("user_id"), 8)
    crowd = (bucket == bucket_numbers(8)[0]) | (F.pmod(F.xxhash64("user_id"), F.lit(10)) == 0)
    users = spark.range(200_000).select(F.col("id").alias("user_id")).where(crowd)
    crowded, *others = sorted((row["count"] for row in users.groupBy(bucket).count().collect()), reverse=True)
    assert len(others) == 7
    assert 9 < crowded / statistics.median(others) < 11
    places = users.select("user_id", F.explode(F.sequence(F.lit(0), F.lit(9))).alias("place"))
    item, score = F.col("user_id") + F.col("place"), (-F.col("place")).cast("double")
    predictions = places.select("user_id", item.alias("item_id"), score.alias("score"))
    truth = users.select("user_id", (F.col("user_id") + F.col("user_id") % 20).alias("item_id"))
    result = srm.evaluate(predictions, truth, metrics=["mrr", "hit"], k=10, n_buckets=8, ranking=ranking)
    n_by_place = {row["place"]: row["count"] for row in users.groupBy((F.col("user_id") % 20).alias("place")).count().collect()}
    n_users = sum(n_by_place.values())
    expected = {
        "mrr@10": sum(n_by_place[place] / (place + 1) for place in range(10)) / n_users,
        "hit@10": sum(n_by_place[place] for place in range(10)) / n_users,
    }
    assert result.to_dict()["model"] == pytest.approx(expected)
    assert result.per_user.count() == n_users


@pytest.mark.once
@pytest.mark.parametrize("ranking", ["window", "lists"])
def test_an_item_in_every_list(spark, ranking):
    """Item 0 is first for all users and relevant to every second one; four items of the user's own follow."""
    n_users = 300_000
    users = spark.range(n_users).select(F.col("id").alias("user_id"))
    places = users.select("user_id", F.explode(F.sequence(F.lit(0), F.lit(4))).alias("place"))
    other = F.col("user_id") * 4 + F.col("place")
    item, score = F.when(F.col("place") == 0, 0).otherwise(other), (-F.col("place")).cast("double")
    predictions = places.select("user_id", item.alias("item_id"), score.alias("score"))
    relevant = F.when(F.col("user_id") % 2 == 0, 0).otherwise(F.col("user_id") * 4 + 3)
    truth = users.select("user_id", relevant.alias("item_id"))
    n_items = 1 + 4 * n_users
    metrics = ["mrr", "hit@1", "item_coverage"]
    result = srm.evaluate(predictions, truth, metrics=metrics, k=5, catalog=n_items, n_buckets=8, ranking=ranking)
    assert result.to_dict()["model"] == pytest.approx({"mrr@5": (1 + 1 / 4) / 2, "hit@1": 1 / 2, "item_coverage@5": 1.0})
