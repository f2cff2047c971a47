"""Explanations: values are those of PER_USER, rows sum to them, and a row adds what cutting the list there takes away."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError
from itertools import pairwise

import oracle
import pandas as pd
import pytest
from engines import records
from evaluation.test_evaluate import ALL, described, evaluate_case, frame_of, grouped

import spark_recmetrics as srm
from spark_recmetrics.conventions import CONVENTIONS
from spark_recmetrics.job import cli
from spark_recmetrics.metrics import expand
from spark_recmetrics.reports import explanation

LISTS = [("als", "ann", "x", 0.9), ("als", "ann", "y", 0.8), ("als", "ann", "z", 0.8), ("als", "ann", "w", 0.1)]
TRUTH = [("ann", "y", 5.0), ("ann", "w", 2.0), ("ann", "q", 4.0), ("bob", "y", 4.0)]


def tiny(spark, lists=LISTS, truth=TRUTH, **options):
    predictions = spark.createDataFrame(lists, "model string, user_id string, item_id string, score double")
    given = spark.createDataFrame(truth, "user_id string, item_id string, rating double")
    return srm.evaluate(
        predictions, given, **{"k": 3, "threshold": 3.0, "n_buckets": 2, "checks": {"users_in_both": "warn"}, **options}
    )


def per_user_of(result, user):
    return {row["model"]: row for row in records(result.per_user) if row["user"] == user}


def values_of(found):
    return found.values  # noqa: PD011


def assert_sums(found):
    """Each column of the rows sums to the value."""
    for value in values_of(found):
        name, rows = value["metric"], [row for row in found.rows if row["model"] == value["model"]]
        if rows and name in rows[0]:
            added = [row[name] for row in rows]
            if value["value"] is None:
                assert set(added) == {None}, name
            else:
                assert math.fsum(added) == pytest.approx(value["value"], abs=1e-12), name


CASES = {
    "default": {},
    "recbole": {"auc_candidates": "all"},
    "warprec": {"nan_scores": "last"},
    "ranx": {"duplicates": "first"},
    "torchmetrics": {"rating_clip": "truth_range"},
    "jurity": {"nan_scores": "first", "auc_ties": "order"},
    "lenskit": {"ranks": "yes"},
    "threshold": {"duplicates": "first", "auc_candidates": "listed"},
}


@pytest.mark.parametrize("name", [name if name == "default" else pytest.param(name, marks=pytest.mark.heavy) for name in CASES])
def test_values_are_those_of_per_user(session, name):
    options = {option: value for option, value in CASES[name].items() if option != "ranks"}
    rules = CONVENTIONS[name].override(**options)
    missing = "nan_scores" in options
    case = oracle.random_case(
        list(CASES).index(name) + 20,
        ratings=True,
        ranks="ranks" in CASES[name],
        duplicates=rules.duplicates == "first",
        missing_scores=missing,
        propensities=True,
    )
    metrics = [*expand([m for m in ALL if not (missing and "dr" in m)], 3), *expand(["ndcg", "lauc", "precision"], None)]
    known = {"train": frame_of(session, case.train), "catalog": len(set(case.catalog)), "baseline": case.baseline}
    known["item_features"] = described(session, case)
    known |= grouped(session, case)
    result = evaluate_case(session, case, rules, metrics=metrics, k=None, **known)
    users = sorted({row["user"] for row in case.truth + case.predictions}, key=str)
    for user in users[list(CASES).index(name) % 7 :: 7]:
        found, expected = result.explain(user), per_user_of(result, user)
        assert found.models == ("als", "few", "pop")
        assert [(value["model"], value["metric"]) for value in values_of(found) if value["model"] == "als"] == [
            ("als", str(metric)) for kind in ("ranking", "rating") for metric in metrics if metric.definition.kind == kind
        ]
        slugs = {str(metric): metric.slug for metric in metrics}
        for value in values_of(found):
            want = expected[value["model"]][slugs[value["metric"]]]
            assert value["value"] == pytest.approx(want, abs=1e-12), (user, value)
            assert (value["reason"] is None) == (want is not None), value
        for count in found.counts:
            for counter in ("n_relevant", "n_truth", "n_recommended"):
                assert count[counter] == expected[count["model"]][counter]
        assert_sums(found)
        assert str(found)
    result.release()


@pytest.mark.heavy
@pytest.mark.parametrize("k", [2, None])
def test_a_row_adds_what_cutting_the_list_behind_it_adds(session, k):
    case = oracle.random_case(31, ids="text", ratings=True, propensities=True)
    catalog = len(set(case.catalog))
    of_users = [metric for metric in expand(ALL, k) if metric.definition.kind == "ranking"]
    # The lists of a baseline are not cut with those of the others.
    metrics = [metric for metric in of_users if "baseline" not in metric.needs(CONVENTIONS["default"])]
    known = {"train": frame_of(session, case.train), "catalog": catalog, "item_features": described(session, case)}
    result = evaluate_case(session, case, "default", metrics=metrics, k=None, **known)
    names = {"user": "user_id", "item": "item_id"}
    truth, trained, features = (pd.DataFrame(rows).rename(columns=names) for rows in (case.truth, case.train, case.described))
    user = max({row["user"] for row in case.truth}, key=lambda u: sum(row["user"] == u for row in case.predictions))
    found = result.explain(user, "als")
    # Another user keeps the list: without any list of a user of the ground truth, the evaluation raises DataError.
    other_user = next(row["user"] for row in case.truth if row["user"] != user)
    other = [{**row, "user": other_user} for row in case.predictions if row["model"] == "als" and row["user"] == user]
    values = []
    items = [row["item"] for row in found.rows if row["item"] is not None]
    assert len(items) > 2
    for n in range(len(items) + 1):
        kept = [row for row in case.predictions if (row["model"], row["user"]) == ("als", user) and row["item"] in items[:n]]
        lists = pd.DataFrame([*kept, *other]).astype({"user": object}).rename(columns=names)
        cut = srm.evaluate(
            lists,
            truth.astype({"user_id": object}),
            metrics=metrics,
            k=None,
            train=trained,
            catalog=catalog,
            item_features=features,
        )
        values.append(cut.per_user[cut.per_user["user"] == user].iloc[0])
    for metric in metrics:
        steps = [row[str(metric)] for row in found.rows]
        if steps[0] is None:
            assert math.isnan(values[-1][metric.slug]), metric
            continue
        expected = [0.0 if math.isnan(value[metric.slug]) else value[metric.slug] for value in values]
        differences = [after - before for before, after in pairwise(expected)]
        differences = [expected[0], *differences] if found.rows[0]["rank"] == 0 else differences
        assert steps[: len(differences)] == pytest.approx(differences, abs=1e-12), metric
    result.release()


def test_the_rows_say_what_is_known_of_each_item(session):
    found = tiny(session, metrics=["ndcg(gain=linear)", "recall", "mae"]).explain("ann")
    assert [tuple(row.values())[1:10] for row in found.rows] == [
        (1, 1, "x", 0.9, 0, False, None, False, 0.0),
        (2, 2, "y", 0.8, 1, True, 5.0, True, 5.0),
        (3, 3, "z", 0.8, 1, False, None, False, 0.0),
        (4, 4, None, None, None, None, None, None, None),
    ]
    assert [row["recall@3"] for row in found.rows] == [0.0, 0.5, 0.0, 0.0]
    assert found.counts == ({"model": "als", "n_recommended": 4, "n_relevant": 2, "n_truth": 3},)
    assert found.missed == ({"model": "als", "item": "q", "rating": 4.0, "rank": None},)
    pairs = [(pair["item"], pair["predicted"], pair["true"], pair["error"]) for pair in found.pairs]
    assert pairs == [("y", 0.8, 5.0, 0.8 - 5.0), ("w", 0.1, 2.0, 0.1 - 2.0)]
    assert {value["metric"]: value["in_mean"] for value in values_of(found)} == {
        "ndcg(gain=linear)@3": "value",
        "recall@3": "value",
        "mae": "pooled",
    }
    assert list(found.to_pandas().columns) == list(found.rows[0])
    with pytest.raises(FrozenInstanceError):
        found.user = "bob"


def test_the_text_of_an_explanation(session):
    told = str(tiny(session, metrics=["ndcg", "average_rank", "rmse"], k=1, threshold=2.0).explain("ann"))
    assert told.splitlines() == [
        "user ann, model als, convention default(relevance=threshold, threshold=2)",
        "list of 4, ground truth 3, relevant 3",
        "",
        "rank          item  score  tied  judged  rating  hit  gain  ndcg@1  average_rank@1",
        "1             x       0.9     0                          0       .",
        "ranks 2 to 4                                                     .",
        "value                                                       0.0000       undefined",
        "",
        "metric              value  in the mean",
        "average_rank@1  undefined  left out     no relevant item within 1",
        "rmse               3.2596  pooled",
        "",
        "relevant and not in the list: q (rating 4)",
        "",
        "relevant and not shown: w (rating 2) at rank 4, y (rating 5) at rank 2",
        "",
        "predicted    true    error  item",
        "   0.8000  5.0000  -4.2000  y",
        "   0.1000  2.0000  -1.9000  w",
    ]


def test_training_rows_that_no_metric_reads_are_not_shown(session):
    train = session.createDataFrame([("ann", "x")], "user_id string, item_id string")
    found = tiny(session, metrics=["auc(candidates=unseen)", "ndcg"], catalog=10, train=train).explain("ann")
    assert [row["seen"] for row in found.rows if row["item"]] == [True, False, False, False]
    found = tiny(session, metrics=["ndcg", "unseen"], train=train).explain("ann")
    assert [row["seen"] for row in found.rows][:3] == [True, False, False]
    found = tiny(session, metrics=["ndcg"], train=train, slices=["activity"]).explain("ann")
    assert not [row for row in found.rows if "seen" in row]


def test_the_value_of_an_empty_list_comes_first(session):
    """The relevant item of a list without candidates is tied with all others."""
    found = tiny(
        session,
        metrics=["auc", "recall@2"],
        catalog=10,
        train=session.createDataFrame(TRUTH[3:], "user_id string, item_id string, rating double").drop("rating"),
    ).explain("ann")
    assert (found.rows[0]["rank"], found.rows[0]["last_rank"], found.rows[0]["recall@2"]) == (0, 0, 0.0)
    assert found.rows[0]["auc"] == pytest.approx(0.5)
    assert found.rows[1]["seen"] is False
    assert_sums(found)
    assert "empty list" in str(found)


def test_a_long_list_is_summed_up(session):
    lists = [("als", "ann", f"i{n:03}", -float(n)) for n in range(120)]
    truth = [("ann", f"i{n:03}", 5.0) for n in (3, 70, 119, 500)]
    found = tiny(
        session,
        lists,
        truth,
        metrics=["ndcg", "recall@2", "auc"],
        k=None,
        catalog=1000,
        convention=srm.convention("default").override(auc_candidates="all"),
    ).explain("ann", "als")
    assert [(row["rank"], row["last_rank"]) for row in found.rows[-2:]] == [(50, 50), (51, 120)]
    assert found.rows[-1]["ndcg"] > 0
    assert found.rows[-1]["recall@2"] == 0
    assert [(row["item"], row["rank"]) for row in found.missed] == [("i070", 71), ("i119", 120), ("i500", None)]
    assert_sums(found)


def test_scores_behind_the_rows_that_are_shown(session):
    lists = [("als", "ann", f"i{n:03}", -float(n)) for n in range(120)]
    predictions = session.createDataFrame(lists, "model string, user_id string, item_id string, score double")
    truth = session.createDataFrame(
        [("ann", "i003", 5.0, 0.5)], "user_id string, item_id string, rating double, propensity double"
    )
    found = srm.evaluate(predictions, truth, metrics=["dr", "dr@55", "map"], k=None).explain("ann")
    values = {value["metric"]: value["value"] for value in values_of(found)}
    assert values["ctr(estimator=dr)"] == pytest.approx((sum(-n for n in range(120)) + (5.0 + 3.0) / 0.5) / 120)
    assert values["ctr(estimator=dr)@55"] == pytest.approx((sum(-n for n in range(55)) + (5.0 + 3.0) / 0.5) / 55)


def test_judged_candidates_leave_the_rest_out(session):
    found = tiny(session, metrics=["precision"], convention="threshold", threshold=None).explain("ann")
    assert [(row["rank"], row["item"]) for row in found.rows] == [(1, "y"), (2, "w")]
    assert found.counts[0]["n_relevant"] == 1
    assert [row["item"] for row in found.missed] == ["q"]


@pytest.mark.parametrize(
    ("metrics", "lists", "user", "metric", "reason"),
    [
        (["ndcg"], LISTS, "cid", "ndcg@3", "no relevant item"),
        (["ndcg"], [*LISTS, ("pop", "dan", "x", 1.0)], "dan", "ndcg@3", "no list and no relevant item"),
        (["average_rank"], LISTS, "bob", "average_rank@3", "no list"),
        (["average_rank@1"], LISTS, "ann", "average_rank@1", "no relevant item within 1"),
        (["ctr"], [("als", "bob", "z", 1.0)], "bob", "ctr@3", "no judged item within 3"),
        (
            ["matched_auc"],
            [("als", "bob", "y", 1.0)],
            "bob",
            "matched_auc@3",
            "the judged items of the list are all relevant or all non-relevant",
        ),
        (["auc(candidates=listed)"], LISTS, "bob", "auc(candidates=listed)", "no relevant item among the candidates"),
        (
            ["f1(gauc(candidates=listed), map)"],
            LISTS,
            "cid",
            "f1(gauc(candidates=listed), map)@3",
            "no relevant item among the candidates",
        ),
        (["rmse"], LISTS, "bob", "rmse", "no pair of a predicted and a true rating"),
        (["r2"], [("als", "bob", "y", 1.0)], "bob", "r2", "all true ratings are equal"),
    ],
)
def test_undefined_values_have_a_reason(session, metrics, lists, user, metric, reason):
    truth = [*TRUTH, ("cid", "x", 1.0)]
    found = tiny(session, [*lists, ("als", "cid", "x", 1.0)], truth, metrics=metrics).explain(user, "als")
    assert {value["metric"]: (value["value"], value["reason"]) for value in values_of(found)} == {metric: (None, reason)}
    assert reason in str(found)


def test_how_a_value_enters_the_mean(session):
    rules = srm.convention("ranx").override(users="truth")
    found = tiny(session, metrics=["ndcg"], truth=[*TRUTH, ("cid", "x", 1.0)], convention=rules)
    assert [values_of(found.explain(user))[0]["in_mean"] for user in ("ann", "cid")] == ["value", "0"]


@pytest.mark.heavy
def test_rating_predictions_of_their_own(session):
    rated = session.createDataFrame([("als", "ann", "q", 3.0)], "model string, user_id string, item_id string, score double")
    result = tiny(session, metrics=["hit", "rmse"], rating_predictions=rated)
    found = result.explain("ann")
    assert [(pair["item"], pair["error"]) for pair in found.pairs] == [("q", -1.0)]
    assert {value["metric"]: value["value"] for value in values_of(found)} == {"hit@3": 1.0, "rmse": 1.0}
    assert len(tiny(session, metrics=["rmse"]).explain("ann").pairs) == 2


def test_unknown_users_and_models(session):
    result = tiny(session, [*LISTS, ("pop", "eve", "x", 1.0)], metrics=["hit"])
    with pytest.raises(
        srm.DataError, match=r"user 'Ann' is in neither the ground truth nor the predictions.*check the spelling"
    ):
        result.explain("Ann")
    with pytest.raises(srm.ConfigError, match=r"unknown model 'asl'; did you mean 'als'\?"):
        result.explain("ann", "asl")
    assert result.explain("eve", "als").counts[0]["n_recommended"] == 0


@pytest.mark.core
def test_ids_are_compared_as_text(session):
    predictions = session.createDataFrame([(7, 1, 0.5), (77, 2, 0.5)], "user_id long, item_id int, score double")
    truth = session.createDataFrame([(7, 1)], "user_id long, item_id int")
    result = srm.evaluate(predictions, truth, metrics="hit", k=1)
    for user in (7, "7"):
        assert [row["item"] for row in result.explain(user).rows] == [1]


def test_lists_that_come_as_arrays(session):
    predictions = session.createDataFrame([("ann", ["x", "y"]), ("bob", ["y"])], "user_id string, items array<string>")
    truth = session.createDataFrame([("ann", "y"), ("bob", "x")], "user_id string, item_id string")
    found = srm.evaluate(predictions, truth, metrics=["mrr"], k=2).explain("ann")
    assert [(row["item"], row["score"], row["rating"], row["mrr@2"]) for row in found.rows] == [
        ("x", None, None, 0.0),
        ("y", None, None, 0.5),
    ]


def test_hostile_ids_stay_in_their_line(session):
    lists = [("al\ns", "a\x1b[31mnn", "x\ny", 1.0)]
    text = str(
        tiny(session, lists, [("a\x1b[31mnn", "x\ny", 5.0), ("a\x1b[31mnn", "q\r", 5.0)], metrics="hit").explain("a\x1b[31mnn")
    )
    assert not {"\x1b", "\r"} & set(text)
    assert "x\N{REPLACEMENT CHARACTER}y" in text


def test_many_metrics_stand_in_tables_that_fit_a_line(session):
    text = str(tiny(session, metrics=["precision", "recall", "ndcg", "map", "mrr", "hit"], k=[1, 2, 3]).explain("ann"))
    assert text.count("rank ") > 1
    assert max(map(len, text.splitlines())) <= explanation._LINE


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize(
    ("user", "shown"), [("ann", "user ann, model als, convention default"), ("Ann", "warning: --explain-user: user 'Ann'")]
)
def test_the_command_line(spark, tmp_path, capsys, user, shown):
    """It comes behind the summary; that there is no such user changes no exit code."""
    frames = {
        "predictions": (LISTS, "model string, user_id string, item_id string, score double"),
        "truth": (TRUTH, "user_id string, item_id string, rating double"),
    }
    for name, (rows, schema) in frames.items():
        spark.createDataFrame(rows, schema).write.parquet(str(tmp_path / name))
    config = {
        "inputs": {name: {"path": str(tmp_path / name)} for name in frames},
        "evaluation": {"top_k": [2], "metrics": ["hit"], "n_buckets": 1},
        "output": {"path": str(tmp_path / "out")},
    }
    (tmp_path / "conf.json").write_text(json.dumps(config))
    assert cli.main(["evaluate", "--config", str(tmp_path / "conf.json"), "--explain-user", user]) == 0
    out = capsys.readouterr().out
    assert out.index("\nhit ") < out.index(f"\n{shown}") < out.index(f"\n{cli.RESULT_MARK}")
