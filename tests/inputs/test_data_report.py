"""What is counted of the input, and what a policy makes of it; the cases about repeats, ids, order and NaN, on Spark."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from engines import records
from pyspark.sql import functions as F

import spark_recmetrics as srm
from spark_recmetrics.aggregation.means import combined
from spark_recmetrics.inputs.data_report import EMPTINESS, MEANINGS, WAYS_OUT, Levels
from spark_recmetrics.request.arguments import POLICIES, checked_policies

PREDICTIONS, TRUTH = "user_id string, item_id string, score double", "user_id string, item_id string, rating double"
ONE_GAIN_OF_TWO = 1 / (1 + 1 / math.log2(3))


def run(spark, predictions, truth, metrics="hit", **options):
    """Evaluate rows of (user, item, score) and (user, item, rating)."""
    lists = predictions if hasattr(predictions, "columns") else spark.createDataFrame(predictions, PREDICTIONS)
    wanted = truth if hasattr(truth, "columns") else spark.createDataFrame(truth, TRUTH)
    return srm.evaluate(lists, wanted, metrics=metrics, **{"k": 2, "n_buckets": 2, **options})


def fact(source, check: str, table: str = "predictions/model") -> tuple[str, int, float | None, str | None]:
    """Level, number, share and examples of a fact of a result or of an error."""
    (found,) = (fact for fact in source.data_checks if (fact.check, fact.table) == (check, table))
    return found.level, found.n_rows, found.share, found.example


# Policies -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", WAYS_OUT)
def test_the_option_that_admits_rows_is_named_only_if_they_are_rejected(check):
    options = {
        "nan_scores": {"nan_scores": "drop"},
        "nan_ratings": {"nan_scores": "drop"},
        "negative_gains": {"negative_gains": "clip"},
        **{check: {"duplicates": "first"} for check in ("duplicates", "truth_duplicates", "pair_duplicates")},
    }
    strict, lenient = srm.convention("default"), srm.convention("default").override(**options.get(check, {}))
    policies = checked_policies({check: "drop"} if check in POLICIES else {})
    rejected = Levels(checked_policies({}), strict).unwanted(check, "truth", 1)
    admitted = Levels(policies, lenient).unwanted(check, "truth", 1)
    assert (rejected.level, admitted.level) == ("error", "warn")
    assert rejected.line() == f"{admitted.line()[:-1]}{WAYS_OUT[check]}."
    assert " or set " not in admitted.line()


def test_every_check_with_a_policy_has_a_meaning():
    assert set(POLICIES) <= set(MEANINGS)
    assert set(EMPTINESS) <= set(MEANINGS)
    assert not set(EMPTINESS) & set(POLICIES)


@pytest.mark.parametrize(
    ("checks", "told"),
    [
        ({"null_id": "drop"}, r"checks: null_id: unknown check; did you mean 'null_ids'\?"),
        ({"null_ids": "warn"}, "checks: null_ids: expected error or drop, found 'warn'"),
        ({"null_ids": None}, "checks: null_ids: expected error or drop, found None"),
        (
            {"duplicates": "first"},
            "checks: duplicates: expected a check, found an option of the convention: set it in convention",
        ),
    ],
)
def test_what_is_no_policy_is_refused(session, checks, told):
    with pytest.raises(srm.ConfigError, match=told):
        run(session, [("u", "a", 1.0)], [("u", "a", 1.0)], checks=checks)


NULLS = [("u", "a", 0.9), (None, "a", 0.8), ("u", None, 0.95), *((f"u{n}", None, 0.1) for n in range(10, 16))]


@pytest.mark.core
def test_i3_null_ids_are_refused_or_dropped_and_never_a_user(session):
    truth = [("u", "a", 1.0), ("u", None, 1.0), (None, "b", 1.0)]
    with pytest.raises(srm.DataError) as caught:
        run(session, NULLS, truth)
    examples = "user null, item a; user u, item null; user u10, item null; user u11, item null; user u12, item null"
    assert fact(caught.value, "null_ids", "predictions") == ("error", 8, 8 / 9, examples)
    assert fact(caught.value, "null_ids", "truth") == ("error", 2, 2 / 3, "user null, item b; user u, item null")
    result = run(session, NULLS, truth, ["hit", "precision"], k=1, checks={"null_ids": "drop"})
    assert result.to_dict() == {"model": {"hit@1": 1.0, "precision@1": 1.0}}
    assert [row["user"] for row in records(result.per_user)] == ["u"]
    assert fact(result, "null_ids", "predictions")[:2] == ("warn", 8)
    assert sum("null_ids: 8 rows (88.9 %)" in line for line in result.warnings) == 1


def test_rows_of_several_models_are_told_apart_in_examples(session):
    lists = session.createDataFrame([("pop", "u", "a", math.nan), ("als", "u", "a", None)], f"model string, {PREDICTIONS}")
    with pytest.raises(srm.DataError) as caught:
        run(session, lists, [("u", "a", 1.0)])
    examples = "model als, user u, item a; model pop, user u, item a"
    assert fact(caught.value, "nan_scores", "predictions") == ("error", 2, 1.0, examples)


def test_a_list_that_loses_a_row_moves_up(session):
    """Lists that came as arrays, too: they are not cut before the rows are dropped."""
    schema = "user_id string, items array<string>"
    lists = session.createDataFrame([("u", [None, "x", "a"]), ("v", ["a"])], schema)
    truth = [("u", "a", 1.0), ("v", "a", 1.0)]
    dropped = run(session, lists, truth, "hit", k=[1, 2], checks={"null_ids": "drop"})
    assert dropped.to_dict() == {"model": {"hit@1": 0.5, "hit@2": 1.0}}
    catalog = session.createDataFrame([("a",), ("z",)], "item_id string")
    whole = session.createDataFrame([("u", ["y", "x", "a"]), ("v", ["a"])], schema)
    known = run(session, whole, truth, "hit", k=1, catalog=catalog, checks={"unknown_items": "drop"})
    assert known.to_dict() == {"model": {"hit@1": 1.0}}


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_ranks_infinities_and_propensities_that_are_dropped(spark):
    ranked = spark.createDataFrame(
        [("u", "x", -1), ("u", "a", 1), ("u", "b", None)], "user_id string, item_id string, place int"
    )
    columns = srm.Columns(rank="place")
    with pytest.raises(
        srm.DataError, match=r"predictions: bad_ranks: 2 rows \(66\.7 %\) .*, for example user u, item b; user u, item x\."
    ):
        run(spark, ranked, [("u", "a", 1.0)], columns=columns)
    assert run(spark, ranked, [("u", "a", 1.0)], k=1, columns=columns, checks={"bad_ranks": "drop"}).rows[0]["value"] == 1.0

    infinite = [("u", "a", math.inf), ("u", "b", 3.0)]
    truth = [("u", "a", 5.0), ("u", "b", 4.0)]
    with pytest.raises(srm.DataError, match="infinite_scores: 1 row"):
        run(spark, infinite, truth, "mae")
    result = run(spark, infinite, truth, "mae", checks={"infinite_scores": "drop"})
    assert result.to_dict() == {"model": {"mae": 1.0}}
    assert fact(result, "infinite_scores", "predictions") == ("warn", 1, 0.5, "user u, item a")
    assert fact(run(spark, infinite, truth), "infinite_scores", "predictions")[:2] == ("info", 1), "an order takes them"

    logged = spark.createDataFrame([("u", "a", 1.0, 0.5), ("u", "b", 1.0, 0.0)], f"{TRUTH}, propensity double")
    with pytest.raises(srm.DataError, match="bad_propensities: 1 row"):
        run(spark, [("u", "a", 0.9), ("u", "b", 0.8)], logged, "ess")
    kept = run(spark, [("u", "a", 0.9), ("u", "b", 0.8)], logged, "ess", checks={"bad_propensities": "drop"})
    assert fact(kept, "bad_propensities", "truth")[:2] == ("warn", 1)
    assert kept.to_dict() == run(spark, [("u", "a", 0.9), ("u", "b", 0.8)], logged.limit(1), "ess").to_dict()


@pytest.mark.parametrize("metric", ["ips@2", "ips", "dr@2", "dr", "ess@2"])
def test_impossible_propensities_are_named_whatever_they_would_make_of_a_mean(session, metric):
    """What is divided by 0 is infinite, and its distance from an infinite mean is NaN, which Spark gives back as null."""
    lists = [(user, item, score) for user in "uv" for item, score in (("a", 0.9), ("b", 0.8))]
    truth = [("u", "b", 1.0, 0.5), ("v", "a", 1.0, 0.5), ("v", "b", 0.0, 1.0)]
    for chance in (0.0, None, math.nan):
        logged = session.createDataFrame([("u", "a", 1.0, chance), *truth], f"{TRUTH}, propensity double")
        with pytest.raises(srm.DataError) as caught:
            run(session, lists, logged, metric, k=None)
        assert fact(caught.value, "bad_propensities", "truth") == ("error", 1, 1 / 4, "user u, item a")
        assert [found.check for found in caught.value.data_checks if found.level == "error"] == ["bad_propensities"]


@pytest.mark.parametrize("metrics", ["rmse", ["mae", "r2"], ["rmse", "hit"], "dr", "dr@2"], ids=str)
def test_infinite_scores_are_named_whatever_they_would_make_of_a_mean(session, metrics):
    lists = [("u", "a", math.inf), ("u", "b", -math.inf), ("v", "a", 3.0), ("v", "b", math.inf)]
    truth = [(user, item, 4.0, 0.5) for user in "uv" for item in "ab"]
    with pytest.raises(srm.DataError) as caught:
        run(session, lists, session.createDataFrame(truth, f"{TRUTH}, propensity double"), metrics, k=None)
    assert fact(caught.value, "infinite_scores", "predictions")[:3] == ("error", 3, 3 / 4)
    assert [found.check for found in caught.value.data_checks if found.level == "error"] == ["infinite_scores"]


HUGE = [("u", "a", 1e200), ("u", "b", -1e200), ("v", "a", 3.0), ("v", "b", 1e308), ("w", "a", 1.0)]
HUGE_TRUTH = [(user, item, 5.0) for user in "uvw" for item in "ab"]


@pytest.mark.parametrize("intervals", ["normal", "bootstrap"])
@pytest.mark.parametrize("apart", [False, True])
def test_errors_too_large_to_square_are_refused(session, intervals, apart):
    """On Spark as in memory. Apart, predicted ratings come as a table of their own, which is joined and not scored."""
    more = {"rating_predictions": session.createDataFrame(HUGE, PREDICTIONS)} if apart else {}
    with pytest.raises(srm.DataError) as rejected:
        run(session, HUGE, HUGE_TRUTH, ["rmse", "rmse(average=per_user)", "mae", "hit@2"], intervals=intervals, **more)
    named = [line.split(": ")[:2] for line in str(rejected.value).splitlines()]
    assert named == [["predictions/model", "rmse"], ["predictions/model", "rmse(average=per_user)"]]
    result = run(session, HUGE, HUGE_TRUTH, ["mae", "hit@2"], intervals=intervals, **more)
    assert result.to_dict()["model"] == {"mae": pytest.approx((2e200 + 1e308) / 5, rel=1e-12), "hit@2": 1.0}


def test_errors_too_large_to_square_in_memory_warn_of_nothing():
    lists, truth = pd.DataFrame(HUGE, columns=["user_id", "item_id", "score"]), pd.DataFrame(HUGE_TRUTH)
    truth = truth.set_axis(["user_id", "item_id", "rating"], axis=1)
    for metric in ("rmse(average=per_user)", "r2"):
        with pytest.raises(
            srm.DataError, match=": expected numbers whose sums and squares are below 1e308, found larger ones: "
        ):
            srm.evaluate(lists, truth, metrics=[metric])
    assert srm.evaluate(lists, truth, metrics=["mae"]).to_dict()["model"]["mae"] == pytest.approx((2e200 + 1e308) / 5)


def test_totals_are_added_exactly_also_beyond_the_doubles_and_whatever_spark_makes_of_nan():
    def whole(*parts):
        return combined([("m", "mean all", 1, total, 0.0, 0, total, 1.0, []) for total in parts])["m"]["mean all"]

    assert whole(1e308, 1e308, -1e308)["total"] == 1e308, "no partial sum is infinite"
    assert whole(1e308, 1e308)["total"] == math.inf
    for parts in ((1.0, None), (1.0, math.nan), (math.inf, -math.inf), (math.inf, 1.0, -math.inf)):
        found = whole(*parts)
        assert (found["mean"], found["std"], found["n"]) == (None, None, len(parts))
        assert math.isnan(found["total"])
    assert whole(math.inf, 1.0) == {"mean": math.inf, "n": 2, "std": None, "undefined": 0, "total": math.inf, "count": 2.0}


@pytest.mark.heavy
def test_items_that_the_catalogue_lacks(session):
    """A3: counted on both sides, told once, dropped on request."""
    lists = [("u", "x", 0.9), ("u", "y", 0.8), ("v", "w", 0.9), ("v", "z", 0.8)]
    truth = [("u", "y", 1.0), ("v", "q", 1.0)]
    catalog = session.createDataFrame([("w",), ("x",), ("y",), ("y",), (None,)], "item_id string")
    result = run(session, lists, truth, catalog=catalog)
    assert fact(result, "unknown_items", "predictions") == ("warn", 1, 0.25, "user v, item z")
    assert fact(result, "unknown_items", "truth") == ("warn", 1, 0.5, "user v, item q")
    assert run(session, lists, truth, catalog=catalog, checks={"unknown_items": "info"}).warnings == []
    with pytest.raises(srm.DataError, match="unknown_items: 1 row"):
        run(session, lists, truth, catalog=catalog, checks={"unknown_items": "error"})
    dropped = run(session, lists, truth, ["recall", "accuracy"], catalog=catalog, checks={"unknown_items": "drop"})
    assert dropped.to_dict()["model"]["recall@2"] == 1.0, "v has no item of truth left"
    assert {row["user"]: row["n_recommended"] for row in records(dropped.per_user)} == {"u": 2, "v": 1}


@pytest.mark.core
def test_users_and_lists_are_counted_with_five_examples(session):
    lists = [("u", "a", 0.9), ("u", "b", 0.8), *((f"only{n}", "a", 0.5) for n in range(7))]
    truth = [("u", "a", 1.0), *((f"none{n}", "a", 1.0) for n in range(3, 10))]
    result = run(session, lists, truth)
    assert fact(result, "users_without_list") == ("warn", 7, 7 / 15, "users none3, none4, none5, none6, none7")
    assert fact(result, "users_without_truth") == ("warn", 7, 7 / 15, "users only0, only1, only2, only3, only4")
    assert fact(result, "short_lists") == ("info", 7, 7 / 8, "users only0, only1, only2, only3, only4")
    assert fact(result, "matched") == ("info", 1, 1 / 9, None)
    assert len(result.warnings) == 2
    loud = {"users_without_list": "error", "users_without_truth": "info", "short_lists": "warn"}
    with pytest.raises(srm.DataError, match="users_without_list: 7 users") as caught:
        run(session, lists, truth, checks=loud)
    assert [fact(caught.value, check)[0] for check in loud] == ["error", "info", "warn"]


@pytest.mark.by_turns
@pytest.mark.spark
@pytest.mark.parametrize("metrics", ["hit", ["hit", "gauc(candidates=listed)"], ["hit", "map(normalizer=relevant)@1000000"]])
def test_ties_at_a_cut_off_are_counted_whichever_way_lists_are_ranked(spark, metrics):
    """At the cut-offs 1 and 2: u is tied at both, v behind them only, w at the first, x at the end of its list."""
    lists = [
        *(("u", item, 0.5) for item in "abc"),
        *zip("vvvv", "abcd", (0.9, 0.8, 0.7, 0.7), strict=True),
        *zip("www", "abc", (0.9, 0.9, 0.1), strict=True),
        *zip("xx", "ab", (0.9, 0.8), strict=True),
    ]
    result = run(spark, lists, [(user, "a", 1.0) for user in "uvwx"], metrics, k=[1, 2])
    assert {row["user"]: row["n_tied_at_cut"] for row in records(result.per_user)} == {"u": 2, "v": 0, "w": 1, "x": 0}
    assert fact(result, "tied_at_cut") == ("warn", 2, 0.5, "users u, w")


# Repeats, ids and types ---------------------------------------------------------------------------------------------------


def test_d1_repeated_recommendations(session):
    lists = session.createDataFrame([("u", "a", n) for n in (1, 2, 3)], "user_id string, item_id string, score int")
    truth = [("u", "a", 1.0), ("u", "b", 1.0)]
    asked = ["recall@3", "precision@3", "ndcg@3"]
    with pytest.raises(srm.DataError, match=r"duplicates: 2 repeated recommendations .*, for example users u"):
        run(session, lists, truth, asked)
    values = run(session, lists, truth, asked, convention=srm.convention("default").override(duplicates="first")).to_dict()
    assert values["model"] == pytest.approx({"recall@3": 1 / 2, "precision@3": 1 / 3, "ndcg@3": ONE_GAIN_OF_TWO}, abs=1e-12)
    assert pytest.approx(0.613147, abs=5e-7) == ONE_GAIN_OF_TWO


@pytest.mark.spark
def test_i1_ids_of_two_types(spark):
    lists = spark.createDataFrame([(1, "10", 0.9)], "user_id bigint, item_id string, score double")
    truth = spark.createDataFrame([(1, 10, 5.0)], "user_id bigint, item_id bigint, rating double")
    told = r"column 'item_id' .*string in predictions, bigint in truth: cast one of them first, or set cast_ids to string"
    with pytest.raises(srm.DataError, match=told):
        run(spark, lists, truth)
    assert run(spark, lists, truth, ["ndcg", "recall"], k=1, cast_ids="string").to_dict() == {
        "model": {"ndcg@1": 1.0, "recall@1": 1.0}
    }
    with pytest.raises(srm.ConfigError, match="cast_ids: expected 'string', 'bigint' or None, found 'int'"):
        run(spark, lists, truth, cast_ids="int")
    floats = lists.withColumn("item_id", F.lit(10.0))
    with pytest.raises(srm.DataError, match="expected an integer or a string as an id, found double"):
        run(spark, floats, truth, cast_ids="string")


@pytest.mark.spark
@pytest.mark.core
def test_c7_string_ids_of_pandas_frames_are_the_same_under_every_pandas(spark):
    """The values of the case of the same name in test_cases.py, where the frames go through Spark and come back."""
    lists = [("007", "x", 2.0), ("007", "y", 1.0), ("7", "y", 3.0), ("7", "é", 2.0), ("7", "x", 1.0)]
    predictions = spark.createDataFrame(pd.DataFrame(lists, columns=["user_id", "item_id", "score"]))
    truth = spark.createDataFrame(pd.DataFrame([("007", "y"), ("7", "x"), ("7", "w")], columns=["user_id", "item_id"]))
    result = srm.evaluate(predictions, truth, metrics=["mrr", "map", "recall@2", "precision@3"], k=None, n_buckets=2)
    found = result.to_dict()["model"]
    assert found == pytest.approx({"mrr": 5 / 12, "map": 1 / 3, "recall@2": 1 / 2, "precision@3": 1 / 3}, abs=1e-12)
    per_user = result.per_user.select("user", "mrr").toPandas()
    assert dict(zip(per_user["user"], per_user["mrr"], strict=True)) == pytest.approx({"007": 1 / 2, "7": 1 / 3})


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.core
def test_i2_ids_stay_intact(spark):
    large = [9007199254740992, 9007199254740993]
    items = ["x1", "ü-é", "0f8fad5b-d9cb-469f-a165-70867728950e"]
    lists = spark.createDataFrame(
        [(user, item, float(place)) for user in large for place, item in enumerate(items)],
        "user_id bigint, item_id string, score double",
    )
    truth = spark.createDataFrame(
        [(user, item, 1.0) for user, item in zip(large, items, strict=False)], "user_id bigint, item_id string, rating double"
    )
    result = run(spark, lists, truth, "mrr", k=3)
    assert {row["user"]: row["mrr_at_3"] for row in records(result.per_user)} == {large[0]: 1 / 3, large[1]: 1 / 2}
    ranked = srm.rank_items(lists, k=3).where(F.col("user") == large[1]).orderBy("rank").collect()
    assert [row["item"] for row in ranked] == items[::-1]


def test_i4_nothing_in_common_is_no_table_of_zeros(session):
    lists = [("u", "1", 0.9), ("v", "2", 0.9)]
    with pytest.raises(srm.DataError, match=r"items_in_both: no item of the ground truth is predicted for any user") as caught:
        run(session, lists, [("u", "sku-1", 1.0), ("v", "sku-2", 1.0)])
    assert fact(caught.value, "matched")[1] == 0
    crossed = run(session, lists, [("u", "2", 1.0), ("v", "1", 1.0)])
    assert crossed.to_dict() == {"model": {"hit@2": 0.0}}, "items in common, and a bad model"
    assert fact(crossed, "items_in_both") == ("info", 2, 1.0, None)
    allowed = run(session, lists, [("u", "sku-1", 1.0), ("v", "sku-2", 1.0)], checks={"items_in_both": "warn"})
    assert allowed.to_dict() == {"model": {"hit@2": 0.0}}
    assert sum("items_in_both: no item of the ground truth is predicted for any user" in line for line in allowed.warnings) == 1


def test_i4_one_model_of_two_has_ids_of_its_own(session):
    lists = session.createDataFrame([("good", "u", "a", 0.9), ("bad", "u", "7", 0.9)], f"model string, {PREDICTIONS}")
    with pytest.raises(
        srm.DataError, match="predictions/bad: items_in_both: no item of the ground truth is predicted for any user"
    ) as caught:
        run(session, lists, [("u", "a", 1.0)])
    assert "predictions/good" not in str(caught.value)


@pytest.mark.spark
@pytest.mark.parametrize("names", [("a.b", "a`b", "x) or 1=1 --"), ("user id", "item-id", "sum(score)"), ("`", "`.`", "``")])
@pytest.mark.once
def test_i5_names_of_columns_are_only_names(spark, names):
    user, item, score = names
    lists = spark.createDataFrame([("u", "a", 0.9), ("u", "b", 0.8)], PREDICTIONS).toDF(user, item, score)
    truth = spark.createDataFrame([("u", "b")], "user_id string, item_id string").toDF(user, item)
    columns = srm.Columns(user=user, item=item, score=score)
    assert run(spark, lists, truth, "mrr", columns=columns).to_dict() == {"model": {"mrr@2": 0.5}}


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_c6_a_text_is_no_rating_and_nothing_is_divided_by_zero(spark, tmp_path, ansi):
    """On Spark the column is one of texts, which the schema tells; a look for the first that is no number follows."""
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    (tmp_path / "truth.csv").write_text("user_id,item_id,rating\nu,a,5.0\nu,b,n/a\n")
    read = spark.read.csv(str(tmp_path / "truth.csv"), header=True, inferSchema=True)
    told = (
        r"^truth: column 'rating' \(columns\.rating\): expected a number, found string, e\.g\. 'n/a' in truth: cast it first$"
    )
    with pytest.raises(srm.DataError, match=told):
        run(spark, [("u", "a", 0.9)], read, ["hit", "mae"])
    lists = pd.DataFrame([("u", "a", 0.9)], columns=["user_id", "item_id", "score"])
    frame = pd.DataFrame([("u", "a", 5.0), ("u", "b", "n/a")], columns=["user_id", "item_id", "rating"])
    told = r"^truth: column 'rating': expected values of one type, found float, str: cast them to one type first$"
    with pytest.raises(srm.DataError, match=told):
        srm.evaluate(lists, frame, metrics=["hit", "mae"], k=2)
    # Read as a number, what is none is null, and counted with the row as its example.
    cast = read.withColumn("rating", F.when(F.col("rating") != "n/a", F.col("rating")).cast("double"))
    with pytest.raises(srm.DataError, match=r"truth: nan_ratings: 1 row \(50 %\) .*, for example user u, item b"):
        run(spark, [("u", "a", 0.9)], cast, ["hit", "mae"])
    # Nothing relevant is 0 of 0 for ranking metrics, and no pair of score and rating is for those of ratings.
    metrics = ["recall", "ndcg", "map", "mae", "r2"]
    nobody = run(spark, [("u", "a", 0.9), ("v", "b", 0.8)], [("u", "b", 0.0), ("v", "a", 0.0)], metrics, k=1)
    assert nobody.to_dict() == {"model": dict.fromkeys(["recall@1", "ndcg@1", "map@1", "mae", "r2"])}
    assert nobody.status == "undefined"


# Order, ties and NaN ------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_o2_a_tie_has_one_order_and_is_told(spark):
    rows = [("u", "b", 0.5), ("u", "a", 0.5)]
    for lists in (rows, rows[::-1]):
        for n_parts in (1, 7):
            frame = spark.createDataFrame(lists, PREDICTIONS).repartition(n_parts)
            result = run(spark, frame, [("u", "b", 1.0)], k=1)
            assert result.to_dict() == {"model": {"hit@1": 0.0}}
            assert fact(result, "tied_at_cut") == ("warn", 1, 1.0, "users u")


def test_o3_nan_is_not_the_best_score(session):
    lists = [("u", "a", math.nan), ("u", "b", 0.9), ("u", "c", 0.5)]
    with pytest.raises(srm.DataError, match="nan_scores: 1 row"):
        run(session, lists, [("u", "b", 1.0)], "mrr")
    for policy, value in (("drop", 1.0), ("last", 1.0), ("first", 0.5)):
        rules = srm.convention("default").override(nan_scores=policy)
        assert run(session, lists, [("u", "b", 1.0)], "mrr", k=3, convention=rules).to_dict() == {"model": {"mrr@3": value}}


def test_o4_equal_scores_are_never_ordered_by_the_label(session):
    """Grades 10, 0, 0, 1, 5 by item: the list is a, b, c, d, e, whoever has the grades."""
    rules = srm.convention("default").override(gain="linear", relevance="present")
    lists = [("u", item, 0.5) for item in "abcde"]
    for grades in ((10, 0, 0, 1, 5), (0, 10, 0, 5, 1)):
        truth = [("u", item, float(grade)) for item, grade in zip("abcde", grades, strict=True)]
        gain = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))
        ideal = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(sorted(grades, reverse=True), 1))
        value = run(session, lists, truth, "ndcg", k=5, convention=rules).to_dict()["model"]["ndcg@5"]
        assert value == pytest.approx(gain / ideal, abs=1e-12)


# Given ranks --------------------------------------------------------------------------------------------------------------

RANKED = "user_id int, item_id int, place int"
BY_PLACE = srm.Columns(rank="place")


@pytest.mark.parametrize(
    ("rows", "users"),
    [
        ([(1, 8, 1), (1, 9, 2), (2, 8, 3), (2, 9, 4)], "2"),  # numbered over the whole table
        ([(1, 7, 1), (1, 8, 3), (2, 8, 1)], "1"),  # place 2 is missing
        ([(1, 8, 5), (2, 8, 1)], "1"),
        ([(1, 8, 2), (2, 8, 1)], "1"),
    ],
)
def test_ranks_that_leave_a_place_within_k_empty_are_refused(session, rows, users):
    lists = session.createDataFrame(rows, RANKED)
    truth = session.createDataFrame([(1, 8), (2, 8)], "user_id int, item_id int")
    with pytest.raises(srm.DataError, match=rf"rank_faults: 1 row .*, for example users {users}\."):
        run(session, lists, truth, "mrr", columns=BY_PLACE)


def test_ranks_are_looked_at_no_further_than_k(session):
    """A list that ends before k, one that ends at it, and one that goes on, with a gap behind."""
    rows = [(1, 8, 1), (2, 9, 1), (2, 8, 2), (3, 7, 1), (3, 9, 2), (3, 8, 3), (3, 6, 9)]
    lists = session.createDataFrame(rows, RANKED)
    truth = session.createDataFrame([(1, 8), (2, 8), (3, 8)], "user_id int, item_id int")
    result = run(session, lists, truth, ["mrr", "recall"], columns=BY_PLACE)
    assert result.to_dict() == {"model": {"mrr@2": 0.5, "recall@2": pytest.approx(2 / 3)}}
    found = {row["user"]: (row["n_recommended"], row["n_matched"]) for row in records(result.per_user)}
    assert found == {1: (1, 1), 2: (2, 1), 3: (2, 0)}


@pytest.mark.parametrize("metrics", [["precision"], ["precision", "matched_auc"]])
def test_a_dropped_score_does_not_depend_on_the_metrics(session, metrics):
    schema = "user_id int, items array<struct<item_id: int, score: double>>"
    lists = session.createDataFrame([(1, [(8, 0.9), (7, math.nan)]), (2, [(8, 0.5)])], schema)
    truth = session.createDataFrame([(1, 8), (2, 8)], "user_id int, item_id int")
    rules = srm.convention("default").override(nan_scores="drop", precision_denominator="recommended")
    assert run(session, lists, truth, metrics, convention=rules).to_dict()["model"]["precision@2"] == 1.0


def test_models_without_a_column_that_tells_them_apart(session):
    with pytest.raises(srm.ConfigError, match=r"models: expected a column 'model' .* with the values als, pop, found none"):
        run(session, [("u", "a", 1.0)], [("u", "a", 1.0)], models=["als", "pop"])
    with pytest.raises(srm.ConfigError, match="models: expected 'pop' as in model_name, found 'als': set only one"):
        run(session, [("u", "a", 1.0)], [("u", "a", 1.0)], models=["als"], model_name="pop")
    for names in ({"models": ["als"]}, {"model_name": "als"}, {"models": ["als"], "model_name": "als"}):
        assert list(run(session, [("u", "a", 1.0)], [("u", "a", 1.0)], **names).to_dict()) == ["als"]


# Training rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("metrics", [["unseen"], ["auc", "unseen"]], ids="+".join)
def test_training_rows_that_are_nobodys_are_counted_and_none_at_all_is_told(spark, metrics):
    """In the pass that scores: cut lists in a cogroup, whole ones in a stream; and in memory."""
    lists, truth = [("u", "a", 0.9), ("v", "b", 0.8)], [("u", "a", 1.0), ("v", "a", 1.0)]
    rows = [("u", "a"), (None, "a"), ("v", None), ("v", "x")]
    train = spark.createDataFrame(rows, "user_id string, item_id string")
    found = run(spark, lists, truth, metrics, train=train, catalog=9, k=1)
    (line,) = (line for line in found.warnings if line.startswith("train: "))
    assert "user null, item a" in line
    assert "user v, item null" in line
    assert line.startswith("train: null_ids: 2 rows (50 %) with a null user, item or model, for example user ")
    assert line.endswith("Remove such rows.")
    assert [fact[2:4] for fact in found.data_checks if fact[:2] == ("rows", "train")] == [("info", 4)]
    frames = [
        pd.DataFrame(own, columns=["user_id", "item_id", *more])
        for own, *more in ((lists, "score"), (truth, "rating"), (rows,))
    ]
    same = srm.evaluate(*frames[:2], metrics=metrics, train=frames[2], catalog=9, k=1)
    assert [line[:33] for line in same.warnings if line.startswith("train: ")] == ["train: null_ids: 2 rows (50 %) wi"]
    assert same.to_dict() == found.to_dict()
    empty = run(spark, lists, truth, metrics, train=train.where(F.lit(False)), catalog=9, k=1)
    assert "train: rows: the table is empty. Check its location and filters." in empty.warnings
    assert empty.to_dict()["model"]["unseen@1"] == 1.0
    none = srm.evaluate(*frames[:2], metrics=metrics, train=frames[2][:0], catalog=9, k=1)
    assert "train: rows: the table is empty. Check its location and filters." in none.warnings
