"""The same input gives the same numbers: PER_USER bit for bit, whatever rows, partitions, session and names of ids."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from decimal import Decimal

import pytest
import random_data

import spark_recmetrics as srm
from spark_recmetrics.storage import actions
from spark_recmetrics.storage.actions import RowCounts

pytestmark = pytest.mark.spark

# Whole lists, cut lists, sums over pairs, and a value that compares the pairs of different users.
METRICS = ["precision@2", "ndcg@3", "ndcg(gain=exponential)", "map", "mrr", "f1@2", "auc", "gauc", "bpref", "rbp", "mcc@2"]
METRICS += ["ctr@2", "ctr(estimator=ips)@2", "matched_auc@3", "rmse", "mae", "r2"]
# Beyond accuracy: of a user, with every table beside; of items; and of groups of items, of users, and of pairs of both.
METRICS += ["novelty@2", "serendipity@3", "unexpectedness@3", "unseen@3", "ild@3", "ild(distance=jaccard)@2", "srecall@3"]
METRICS += ["gini@2", "inter_list_diversity@3", "rsp@2", "item_mad_rating@3", "user_mad_ranking@3", "bias_disparity_bd@2"]
RULES = srm.convention("default").override(duplicates="first")


def frames_of(spark, case, order, n_partitions, ids="string"):
    """The tables of a case, shuffled by the seed `order`."""
    types = {"model": "string", "user": f"user_id {ids}", "item": f"item_id {ids}", "gender": "string"}
    types |= {"features": "array<double>", "categories": "array<string>", "genre": "array<string>"}
    frames = []
    for rows in (case.predictions, case.truth, case.train, case.described, case.grouped, case.segments):
        shuffled = random.Random(order).sample(rows, len(rows))
        columns = ", ".join(
            types[name] if name in ("user", "item") else f"{name} {types.get(name, 'double')}" for name in rows[0]
        )
        frame = spark.createDataFrame([tuple(row.values()) for row in shuffled], columns)
        frames.append(frame.repartition(n_partitions) if n_partitions > 1 else frame.coalesce(1))
    return frames


def bits(value):
    """A value that is equal to another only if it is the same bits."""
    return value.hex() if isinstance(value, float) else value


def found_in(result, users=lambda user: user, items=lambda item: item):
    """PER_USER bit for bit, the means, and the counts of the data report; ids by their old names."""
    rows = {(row["model"], users(row["user"])): [bits(value) for value in row[2:]] for row in result.per_user.collect()}
    means = {
        (row["model"], row["metric"], row["slice_value"]): (row["value"], row["n_users"], row["n_undefined"])
        for row in result.rows
    }
    facts = [fact[:5] for fact in result.data_checks]
    result.release()
    return rows, means, facts


def assert_same(found, wanted):
    assert found[0] == wanted[0]
    assert found[1].keys() == wanted[1].keys()
    for key, (value, *counts) in found[1].items():
        mean, *others = wanted[1][key]
        assert counts == others, key
        assert value == mean if None in (value, mean) else math.isclose(value, mean, rel_tol=0, abs_tol=1e-12), key
    assert found[2] == wanted[2]


def evaluate(spark, case, *, order, n_partitions, n_buckets, ids="string"):
    predictions, truth, train, features, groups, segments = frames_of(spark, case, order, n_partitions, ids)
    options = {"metrics": METRICS, "k": None, "convention": RULES, "train": train, "catalog": len(case.catalog)}
    options |= {"item_features": features, "item_groups": groups, "user_segments": segments, "baseline": case.baseline}
    return srm.evaluate(predictions, truth, n_buckets=n_buckets, **options)


ANSI, AQE, ZONE = "spark.sql.ansi.enabled", "spark.sql.adaptive.enabled", "spark.sql.session.timeZone"
# Partitions, buckets, ANSI, AQE and time zone. Every two values of two different settings stand together in some row or
# beside the first evaluation, which has 1, 3, true, true and UTC.
VARIANTS = [
    (7, 1, "false", "false", "America/New_York"),
    (1, 32, "false", "true", "Asia/Kathmandu"),
    (7, 3, "true", "false", "Asia/Kathmandu"),
    (7, 32, "true", "true", "UTC"),
    (1, 1, "true", "false", "America/New_York"),
]


@pytest.mark.slow
def test_per_user_is_the_same_bit_for_bit_whatever_the_rows_and_the_session(spark):
    case = random_data.merged_cases(range(3), duplicates=True, propensities=True)
    first = evaluate(spark, case, order=0, n_partitions=1, n_buckets=3)
    data_hash = first.data_hash
    wanted = found_in(first)
    assert len({model for model, _ in wanted[0]}) == 3
    assert any(fact[0] == "truth_duplicates" and fact[3] for fact in wanted[2]), "repeats are admitted"
    assert any(fact[0] == "tied_at_cut" and fact[3] for fact in wanted[2]), "and there are ties"
    for order, (n_partitions, n_buckets, ansi, adaptive, zone) in enumerate(VARIANTS, 1):
        for key, value in ((ANSI, ansi), (AQE, adaptive), (ZONE, zone)):
            spark.conf.set(key, value)
        result = evaluate(spark, case, order=order, n_partitions=n_partitions, n_buckets=n_buckets)
        assert result.data_hash == data_hash
        assert_same(found_in(result), wanted)


@pytest.mark.slow
def test_renamed_ids_change_nothing_but_the_names(spark):
    """Texts become whole numbers. The new ids keep the order of the old ones, which decides between equal scores."""
    case = random_data.merged_cases(range(2), duplicates=True, propensities=True)
    tables = {name: rows for name, rows in vars(case).items() if isinstance(rows, list) and name != "catalog"}
    every = [row for rows in tables.values() for row in rows]
    old = {kind: sorted({row[kind] for row in every if kind in row}) for kind in ("user", "item")}
    new = {kind: {name: 2**53 + n for n, name in enumerate(names)} for kind, names in old.items()}
    renamed = replace(
        case,
        **{
            table: [{name: new[name][value] if name in new else value for name, value in row.items()} for row in rows]
            for table, rows in tables.items()
        },
    )
    wanted = found_in(evaluate(spark, case, order=1, n_partitions=2, n_buckets=3))
    result = evaluate(spark, renamed, order=2, n_partitions=3, n_buckets=3, ids="bigint")
    assert_same(found_in(result, users=lambda user: old["user"][user - 2**53]), wanted)


@pytest.mark.heavy
def test_o1_a_list_over_many_partitions(spark):
    predictions = spark.createDataFrame([("u", "r", 0.9), ("u", "x", 0.1)], "user_id string, item_id string, score double")
    truth = spark.createDataFrame([("u", "r")], "user_id string, item_id string")
    result = srm.evaluate(predictions.repartition(200), truth.repartition(200), metrics="ndcg@2", n_buckets=2)
    assert result.to_dict() == {"model": {"ndcg@2": 1.0}}


@pytest.mark.slow
def test_o2_equal_scores_have_one_order(spark):
    """Twenty orders of the rows, as twenty models, so that one evaluation looks at all of them."""
    pairs = ["a", "b"]
    rows = []
    for n in range(20):
        random.Random(n).shuffle(pairs)
        rows += [(f"m{n}", "u", item, 0.5) for item in pairs]
    truth = spark.createDataFrame([("u", "b")], "user_id string, item_id string")
    lists = spark.createDataFrame(rows, "model string, user_id string, item_id string, score double")
    for n_partitions in (1, 7, 200):
        result = srm.evaluate(lists.repartition(n_partitions), truth, metrics=["hit@1", "ndcg@1"], n_buckets=2)
        assert result.to_dict() == {f"m{n}": {"hit@1": 0.0, "ndcg@1": 0.0} for n in range(20)}, "a stands before b"
        tied = [fact for fact in result.data_checks if fact.check == "tied_at_cut"]
        assert [(fact.n_rows, fact.level) for fact in tied] == [(1, "warn")] * 20
        assert any("tied_at_cut: 1 list" in warning for warning in result.warnings)


ERRORS = [24.621, 12.14, 0.169, 6.865, 1.879, 16.326]


@pytest.mark.slow
def test_o6_values_summed_in_another_order(spark):
    """Six users with these errors, in six orders and over as many partitions."""
    means = set()
    for order in range(6):
        users = [f"u{(n + order) % 6}" for n in range(6)]
        rows = list(zip(users, ["i"] * 6, ERRORS, strict=True))
        predictions = spark.createDataFrame(rows, "user_id string, item_id string, score double").repartition(order + 1)
        truth = spark.createDataFrame([(user, "i", 0.0) for user in users], "user_id string, item_id string, rating double")
        result = srm.evaluate(predictions, truth, metrics=["mae", "mae(average=per_user)"], n_buckets=order + 1)
        means |= set(result.to_dict()["model"].values())
    exact = float(sum(map(Decimal, map(str, ERRORS))) / 6)
    assert all(math.isclose(mean, exact, rel_tol=0, abs_tol=1e-12) for mean in means)


def test_rows_that_spark_counts_twice_are_counted_once(spark, caplog):
    """A global sort reads its rows twice, once for a sample, and so adds up an observation twice, as after a lost executor."""
    rows = spark.range(1000, numPartitions=5)
    for sort, warned in ((False, False), (True, True)):
        caplog.clear()
        watch = RowCounts.of(rows, {"even": rows["id"] % 2 == 0})
        seen = watch.observed_rows()
        assert seen.columns == rows.columns
        actions.collect_rows(seen.orderBy(seen["id"] % 3) if sort else seen)
        assert watch.observed_counts() == {"rows": 1000, "even": 500}
        assert ("Spark counted some rows twice" in caplog.text) == warned
