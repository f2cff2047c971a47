"""Preflight: each check passes on good data, and fails on data or metrics that are made bad for it alone."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from job_data import load

import spark_recmetrics as srm
from spark_recmetrics.diagnostics import preflight_spark as preflight
from spark_recmetrics.diagnostics.doctor_spark import Check
from spark_recmetrics.diagnostics.expected import best_bound
from spark_recmetrics.diagnostics.preflight_spark import Sample
from spark_recmetrics.inputs.tables import Tables
from spark_recmetrics.job.cli import RESULT_MARK, main
from spark_recmetrics.metrics import DEFINITIONS
from spark_recmetrics.request.request import Options, Request

PREDICTIONS = "model string, user_id int, item_id string, score double"
TRUTH = "user_id int, item_id string, rating double"
NAMES = [
    "sample",
    "perfect ranking",
    "random ranking",
    "model against itself",
    "recommendations and train",
    "truth and train",
    "candidates",
]
ALL = [name for name, definition in DEFINITIONS.items() if definition.accuracy and best_bound(definition) is not None]

# Users 0 to 9 have 1 to 4 relevant items, ratings from 2 to 5, and one more row with a rating of 0. Lists have 6 of 26 items.
ITEMS = [chr(ord("a") + place) for place in range(26)]
HAD = [(user, ITEMS[(3 * user + place) % 26], float(5 - place)) for user in range(10) for place in range(1 + user % 4)]
LIKED = {(user, item) for user, item, _ in HAD}
RATED = [*HAD, *((user, ITEMS[(3 * user + 20) % 26], 0.0) for user in range(10))]
LISTS = [("als", user, ITEMS[(3 * user + 2 * place) % 26], 1.0 - place / 9) for user in range(10) for place in range(6)]
LISTS += [("pop", user, ITEMS[place], 1.0 - place / 9) for user in range(10) for place in range(6)]
SEEN = [(user, item) for user in range(10) if (item := ITEMS[(3 * user + 13) % 26]) > "f"]


@pytest.fixture
def sampled(spark):
    """A sample of these rows, evaluated so."""

    def make(metrics="ndcg", k=(1, 3), convention="default", lists=LISTS, truth=RATED, train=SEEN, **changed):
        def frame(rows, schema):
            return spark.createDataFrame(rows, schema)

        size = changed.pop("catalog", 26)
        tables = Tables(
            predictions=lists if hasattr(lists, "columns") else frame(lists, PREDICTIONS),
            truth=frame(truth, TRUTH),
            rating_predictions=changed.pop("rating_predictions", None),
            train=None if train is None else frame(train, "user_id int, item_id string"),
            catalog=size,
        )
        asked = Options(metrics=metrics, k=k, convention=convention, n_buckets=2, **changed)
        return Sample.of(tables, Request.of(tables.columns, asked, tables.catalog_size))

    return make


def broken(monkeypatch, name, change):
    """The metric with its formula changed; the change travels to the workers by value."""
    right = DEFINITIONS[name].compute

    def compute(batch, k, **options):
        return change(right, batch, k, options)

    monkeypatch.setitem(DEFINITIONS, name, replace(DEFINITIONS[name], compute=compute))


# The perfect ranking ------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.spark
def test_the_perfect_ranking_of_every_metric(sampled):
    level, finding, *_ = preflight._perfect(sampled([*ALL, "ctr"]))
    assert level == "ok", finding
    full, less, left_out = finding.split("; ")
    assert full.endswith("metrics at the best value for each of 10 users")
    # Users with 1, 2, 3 and 4 relevant items are 3, 3, 2 and 2.
    assert "precision@1" not in less
    assert f"precision@3 {(3 * 1 + 3 * 2 + 4 * 3) / 3 / 10:.4f}" in less
    assert f"recall@3 {(8 + 2 * 3 / 4) / 10:.4f}" in less
    assert f"mar@3 {(3 * 1 + 3 * 3 / 4 + 2 * 4 / 6 + 2 * (1 + 2 + 3) / 4 / 3) / 10:.4f}" in less
    assert left_out.startswith("skipped: matched_auc@1, matched_auc@3 (a list with only relevant items")
    assert "ctr@1, ctr@3 (it has no best value)" in left_out


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "ndcg"),
    [
        # k hits are ideal, and the row with a rating of 0 is a relevant one: three users have two.
        ("rectools", (3 * (1 + 1 / math.log2(3)) / (1 + 1 / math.log2(3) + 1 / 2) + 7) / 10),
        # The ideal list is not cut: two users have four.
        ("jurity", (8 + 2 * (1 + 1 / math.log2(3) + 1 / 2) / (1 + 1 / math.log2(3) + 1 / 2 + 1 / math.log2(5))) / 10),
        *((name, 1.0) for name in ("ranx", "threshold", "lenskit", "warprec", "laikallm")),
    ],
)
def test_the_perfect_ranking_under_conventions(sampled, name, ndcg):
    level, finding, *_ = preflight._perfect(
        sampled(["ndcg", "map", "precision", "recall", "f1", "hit"], k=(3,), convention=name)
    )
    assert level == "ok", finding
    full, _, less = finding.partition("; ")
    assert full.endswith(" users")
    assert ("ndcg@3" in less, f"ndcg@3 {ndcg:.4f}" in less) == ((False, False) if ndcg == 1 else (True, True))


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_doubled_gains_are_found(sampled, monkeypatch):
    broken(monkeypatch, "ndcg", lambda right, batch, k, options: 2 * right(batch, k, **options))
    level, finding, advice, _ = preflight._perfect(sampled(["ndcg", "map"], k=(3,)))
    assert (level, advice) == ("FAIL", "find the cause before you trust values from this setup")
    assert "ndcg@3 is 2 for users with 2 relevant items, expected 1" in finding
    assert "; and 1 more" in finding
    assert "map" not in finding


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_a_missing_value_is_found(sampled, monkeypatch):
    broken(monkeypatch, "hit", lambda right, batch, k, options: np.full(batch.size, np.nan))
    level, finding, *_ = preflight._perfect(sampled("hit", k=(3,), truth=HAD[:1]))
    assert (level, finding) == ("FAIL", "hit@3 is undefined for users with 1 relevant item, expected 1")


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_the_perfect_ranking_of_ratings_alone(sampled):
    assert preflight._perfect(sampled(["rmse", "mae", "r2"])) == Check("ok", "3 metrics at the best value for each of 10 users")


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_nobody_has_a_relevant_item(sampled):
    truth = [row for row in RATED if row[2] == 0]
    level, finding, advice, _ = preflight._perfect(sampled(truth=truth))
    assert (level, finding, advice) == ("FAIL", "no user has a relevant item", "check the threshold against the ratings")


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize(
    ("truth", "catalog", "told"),
    [
        ([*RATED, RATED[0]], 26, "truth: truth_duplicates: 1 repeated row of the same user and item, for example users 0."),
        (RATED, 3, "predictions/perfect: beyond_catalog: 2 items beyond the catalog size"),
    ],
)
def test_what_the_data_are_refused_for_is_a_failed_check(sampled, truth, catalog, told):
    one = sampled(["ndcg", "accuracy"], truth=truth, catalog=catalog)
    check = preflight._checked("perfect ranking", lambda: preflight._perfect(one))
    assert (check.level, check.name) == ("FAIL", "perfect ranking")
    assert told in check.finding


# The random ranking -------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.connect
def test_a_random_ranking_of_every_metric(sampled):
    level, finding, *_ = preflight._random(sampled([*ALL, "ctr"]))
    assert level == "ok", finding
    assert finding.startswith("320 lists of 26 items in random order: "), "the items of both tables, and 32 lists for each user"
    assert "; skipped: " in finding
    assert "rmse" in finding.partition("; skipped: ")[2]
    assert ", expected 0." in finding


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_random_ranking_of_judged_items(sampled):
    level, finding, *_ = preflight._random(sampled(["precision", "mrr", "map"], convention="threshold"))
    assert level == "ok", finding
    assert finding.startswith("320 lists of the judged items of a user in random order: ")
    assert finding.endswith("the farthest of 6 metrics")


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_a_formula_that_looks_behind_the_cut_off_is_found_by_chance_alone(sampled, monkeypatch):
    """The perfect list has nothing behind its relevant items, so that it scores what it must."""
    broken(monkeypatch, "hit", lambda right, batch, k, options: right(batch, 3, **options))
    one = sampled("hit", k=(1, 3))
    assert preflight._perfect(one).level == "ok"
    level, finding, *_ = preflight._random(one)
    assert level == "FAIL"
    assert "320 lists of 26 items in random order: hit@1 is 0." in finding


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_random_ranking_is_the_same_again(sampled):
    assert preflight._random(sampled("mrr")) == preflight._random(sampled("mrr"))


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_random_ranking_of_few_users_of_many(sampled, monkeypatch):
    """Rows bound the users, and users with more relevant items than candidates are left out."""
    monkeypatch.setattr(preflight, "N_RANDOM_ROWS", 26)
    monkeypatch.setattr(preflight, "FEWEST_CANDIDATES", 3)
    level, finding, *_ = preflight._random(sampled("precision", k=(1, 2)))
    assert level == "ok"
    n, _, rest = finding.partition(" list")
    assert 1 <= int(n) < 10
    assert " of 20 items in random order" in rest


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_users_with_more_relevant_items_than_candidates_are_left_out(sampled, monkeypatch):
    monkeypatch.setattr(preflight, "FEWEST_CANDIDATES", 3)
    truth = [*RATED, *((10, item, 5.0) for item in ITEMS[:25])]
    level, finding, *_ = preflight._random(sampled("precision", k=(1, 2), truth=truth))
    assert level == "ok", finding
    assert finding.startswith("320 lists of 20 items in random order")


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_nothing_is_known_of_a_random_ranking(sampled):
    level, finding, *_ = preflight._random(sampled(["rmse", "ndcg(gain=linear)"], k=(3,)))
    told = "rmse (random lists have no predicted ratings), ndcg(gain=linear)@3 (its mean depends on the ratings)"
    assert (level, finding) == ("ok", f"skipped: {told}")
    level, finding, *_ = preflight._random(sampled("mrr", truth=[(1, "a", 0.0)]))
    assert (level, finding) == ("warn", "skipped: no user has between 1 and 26 relevant items")


# A model and itself -------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.spark
def test_a_model_ties_with_itself(sampled):
    finding = preflight._against_itself(sampled(ALL, k=(3,)))
    assert finding.level == "ok", finding
    n = len(ALL) - 1  # matched_auc has no value per user to compare
    assert finding.finding == f"als: {n} metrics without a difference for 10 users, p = 1"


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_a_value_that_depends_on_the_place_in_the_batch_is_found(sampled, monkeypatch):
    broken(monkeypatch, "hit", lambda right, batch, k, options: np.arange(batch.size) / batch.size)
    level, finding, *_ = preflight._against_itself(sampled("hit", k=(3,)))
    assert level == "FAIL"
    assert finding.startswith("als: hit@3 differs by +0.")


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_predictions_of_other_shapes(spark, sampled):
    """One model, ranks, arrays, and ratings in a table of their own."""
    rows = [(user, item, place) for place, (_, user, item, _) in enumerate(LISTS[:60])]
    ranked = spark.createDataFrame([(u, i, n % 6 + 1) for u, i, n in rows], "user_id int, item_id string, place int")
    one = sampled("mrr", lists=ranked, columns=srm.Columns(rank="place"))
    assert preflight._against_itself(one).finding == "model: 2 metrics without a difference for 10 users, p = 1"
    assert preflight._perfect(one).level == "ok"
    lists = [(user, [item for u, item, _ in rows if u == user]) for user in range(10)]
    arrays = spark.createDataFrame(lists, "user_id int, items array<string>")
    one = sampled("mrr", lists=arrays)
    assert preflight._against_itself(one).level == "ok"
    assert one.recommendations(allow_train=False).finding.startswith("none of 30 recommendations up to rank 3")
    rated = spark.createDataFrame([(*row[:3], 4.0) for row in LISTS], PREDICTIONS)
    one = sampled(["mrr", "rmse"], rating_predictions=rated)
    assert preflight._against_itself(one).finding == "als: 3 metrics without a difference for 10 users, p = 1"


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_there_are_no_predictions(sampled):
    assert preflight._against_itself(sampled(lists=[])) == Check("warn", "skipped: there are no predictions")
    finding = preflight._against_itself(sampled(truth=RATED[:1], lists=[row for row in LISTS if row[1] == 0]))
    assert finding == Check("warn", "skipped: no metric of als has a value for two users")


# The tables side by side --------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_training_rows_in_lists(sampled):
    at_1, at_5 = ("als", 0, "a"), ("als", 0, "i")
    assert {at_1, at_5} <= {row[:3] for row in LISTS}
    good = sampled().recommendations(allow_train=False)
    assert good == Check("ok", "none of 60 recommendations up to rank 3 is a training row of its user")
    assert sampled(train=[*SEEN, at_5[1:]]).recommendations(allow_train=False) == good, "it is after the cut-off"
    bad = sampled(train=[*SEEN, at_1[1:], at_1[1:]])
    finding = "als: 1 of 30 recommendations up to rank 3 are training rows of their user, for example user 0, item a"
    finding += "; pop: 1 of 30 recommendations up to rank 3 are training rows of their user, for example user 0, item a"
    advice = "remove these items from the lists, or set preflight.allow_train to true if they may be recommended again"
    assert bad.recommendations(allow_train=False) == Check("FAIL", finding, advice)
    assert bad.recommendations(allow_train=True) == Check("ok", f"{finding}; allow_train is set")


@pytest.mark.spark
@pytest.mark.once
def test_training_rows_in_lists_are_not_always_looked_at(sampled):
    told = "skipped: there is no table of training rows"
    without = sampled(train=None)
    assert without.recommendations(allow_train=False) == Check("warn", told, "add the table inputs.train")
    assert without.leakage(allow_train=False) == Check("warn", told, "add the table inputs.train")
    judged = sampled(convention="threshold")
    assert judged.recommendations(allow_train=False) == Check("ok", "skipped: only items with a ground truth row are ranked")


@pytest.mark.spark
@pytest.mark.connect
def test_training_rows_in_truth(sampled):
    n = len(RATED)
    assert sampled().leakage(allow_train=False) == Check("ok", f"none of {n} ground truth rows is in train")
    leaking = sampled(train=[*SEEN, RATED[0][:2]])
    finding = f"1 of {n} ground truth rows are in train, for example user 0, item a"
    advice = "remove these rows from train or split again: the model was trained on ground truth"
    assert leaking.leakage(allow_train=False) == Check("FAIL", finding, advice)
    assert leaking.leakage(allow_train=True) == Check("warn", finding, "check that these are repeated interactions")


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_the_ceiling_of_the_candidates(sampled):
    """Of two users with two relevant items each, lists have one and one, the first of them after the cut-off."""
    lists = [("als", 1, "x", 0.9), ("als", 1, "a", 0.8), ("als", 2, "c", 0.7), ("pop", 1, "y", 0.5)]
    truth = [(1, "a", 1.0), (1, "b", 1.0), (2, "c", 1.0), (2, "d", 1.0), (3, "e", 0.0)]
    level, finding, advice, _ = sampled("recall", k=(1,), lists=lists, truth=truth).candidates()
    shares = "als 50.0% (25.0% up to rank 1), pop 0.0% (0.0% up to rank 1)"
    expected = f"recall of full lists: {shares}; reordering these lists cannot increase it"
    assert (level, finding, advice) == ("warn", expected, "check how pop selects candidates")
    one = sampled("auc", lists=[*lists, lists[2]], truth=truth, models=["als"]).candidates()
    assert one.level == "ok"
    assert "recall of full lists: als 50.0%; reordering" in one.finding, "repeats count once"
    nobody = sampled(lists=lists, truth=truth[-1:]).candidates()
    assert nobody == Check("warn", "skipped: there are no relevant items, or no recommendations")


# The sample ---------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.core
def test_a_sample_has_the_same_users_in_all_tables(spark, sampled, monkeypatch):
    monkeypatch.setattr(preflight, "N_USERS", 4)
    one = sampled()
    users = {row[0] for row in one.tables.truth.select("user_id").distinct().collect()}
    assert 1 <= len(users) < 10
    predicted, trained = (
        {row[0] for row in frame.select("user_id").distinct().collect()} for frame in (one.tables.predictions, one.tables.train)
    )
    assert predicted == users
    assert trained == users & {user for user, _ in SEEN} != set()
    assert one.size == f"about 4 of about {one.n_users} users with ground truth"
    monkeypatch.setattr(preflight, "N_USERS", 20)
    assert sampled().size == "all users, about 10 of them with ground truth"


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_rows_of_long_lists_bound_the_sample(spark, sampled, monkeypatch):
    monkeypatch.setattr(preflight, "N_ROWS", 60)
    assert sampled().share == 0.5
    arrays = spark.createDataFrame([(user, ITEMS) for user in range(10)], "user_id int, items array<string>")
    assert sampled(lists=arrays).share == pytest.approx(60 / 260)


# The whole ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def job(spark, tmp_path):
    """A configuration with its tables."""

    def write(train=SEEN, **options):
        tables = {"predictions": (LISTS, PREDICTIONS), "truth": (RATED, TRUTH), "train": (train, "user_id int, item_id string")}
        for name, (rows, schema) in tables.items():
            spark.createDataFrame(rows, schema).write.mode("overwrite").parquet(str(tmp_path / name))
        conf = {
            "inputs": {name: {"path": str(tmp_path / name)} for name in tables},
            "evaluation": {"top_k": 3, "metrics": ["mrr"], "n_buckets": 2},
            "output": {"path": str(tmp_path / "out")},
            **options,
        }
        path = tmp_path / "conf.json"
        path.write_text(json.dumps(conf))
        return str(path)

    return write


def ended(capsys):
    """The lines of the checks, and the result line."""
    *lines, last = capsys.readouterr().out.strip().splitlines()
    return lines, json.loads(last.removeprefix(RESULT_MARK))


@pytest.mark.spark
@pytest.mark.heavy
def test_the_job_proves_its_set_up_first(job, tmp_path, capsys):
    assert main(["evaluate", "--config", job(preflight=True)]) == 0
    lines, outcome = ended(capsys)
    assert [line.split(": ")[0] for line in lines[:7]] == [f"ok    {name}" for name in NAMES]
    assert [(check["level"], check["name"]) for check in outcome["preflight"]] == [("ok", name) for name in NAMES]
    assert sorted(outcome["tables"]) == ["data_report", "per_user", "summary"]
    assert not [warning for warning in outcome["warnings"] if "train" in warning], "it is used, though by no metric"


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.connect
@pytest.mark.parametrize("command", [pytest.param("evaluate", marks=pytest.mark.heavy), "preflight"])
def test_a_failed_check_ends_the_job_before_anything_is_published(job, tmp_path, capsys, command):
    conf = job(train=[*SEEN, RATED[0][:2]], **({"preflight": True} if command == "evaluate" else {}))
    assert main([command, "--config", conf]) == 4
    lines, outcome = ended(capsys)
    assert (outcome["status"], outcome["exit_code"], outcome["tables"]) == ("failed", 4, {})
    told = "preflight: 2 of 7 checks failed: recommendations and train, truth and train: nothing was published"
    assert outcome["error"] == {"type": "DataError", "message": told}
    assert [line[:4].strip() for line in lines] == ["ok", "ok", "ok", "ok", "FAIL", "FAIL", "ok"]
    assert not (tmp_path / "out").exists()
    if command == "preflight":
        assert main([command, "--config", conf, "--set", "preflight.allow_train=true"]) == 0
        lines, outcome = ended(capsys)
        assert [line[:4].strip() for line in lines] == ["ok", "ok", "ok", "ok", "ok", "warn", "ok"]
        assert outcome["status"] == "ok"


@pytest.mark.spark
@pytest.mark.once
def test_what_would_be_refused_anyway_is_refused_before_the_preflight(job, spark, tmp_path, capsys):
    conf = job(preflight=True)
    segments = tmp_path / "segments"
    spark.createDataFrame([(1, "F"), (1, "M")], "user_id int, gender string").write.parquet(str(segments))
    asked = ["--set", f"inputs.user_segments.path={segments}", "--set", "evaluation.slices=[gender]"]
    assert main(["evaluate", "--config", conf, *asked]) == 4
    lines, outcome = ended(capsys)
    assert (lines, outcome["preflight"]) == ([], [])
    assert outcome["error"]["message"].startswith("user_segments: expected one row for each user, found 1 more, e.g. users 1: ")


@pytest.mark.spark
@pytest.mark.once
def test_a_table_that_cannot_be_sampled(spark):
    truth = spark.createDataFrame([(1, "a")], "user int, item_id string")
    (check,) = preflight.prove(spark.createDataFrame(LISTS, PREDICTIONS), truth)
    assert str(check) == "FAIL  sample: truth: no column 'user_id' (columns.user); did you mean 'user'?"


def test_the_key_of_the_configuration(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("inputs: {predictions: {path: /p}, truth: {path: /t}}\noutput: {path: /o}\n")
    default = load(path)
    assert default.preflight is None
    assert load(path, ["preflight=false"]).hash == default.hash
    asked = load(path, ["preflight=true"])
    assert asked.preflight is not None
    assert not asked.preflight.allow_train
    assert load(path, ["preflight={allow_train: false}"]).hash == asked.hash != default.hash
    for text, told in (
        ("preflight=yes", "preflight: expected "),
        ("preflight={allow: true}", "preflight.allow: unknown key; did you mean 'allow_train'?"),
        ("preflight={allow_train: 1}", "preflight.allow_train: expected true or false, found 1"),
    ):
        with pytest.raises(srm.ConfigError) as caught:
            load(path, [text])
        assert told in str(caught.value)


def test_an_unknown_argument_is_named():
    tables = pd.DataFrame({"user_id": [1], "item_id": [1], "score": [1.0]}), pd.DataFrame({"user_id": [1], "item_id": [1]})
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'treshold'$"):
        next(preflight.prove(*tables, treshold=1.0))
