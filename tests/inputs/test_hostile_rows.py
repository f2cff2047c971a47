"""Rows that would give a wrong number without a word: each gives the right value, or an error whose advice gives it."""

from __future__ import annotations

import math

import pandas as pd
import pytest

import spark_recmetrics as srm

TRUTH = "user_id int, item_id int"
RANKED = "user_id int, item_id int, position int"
BY_RANK = srm.Columns(rank="position")


def evaluate(session, lists, truth, metrics="hit", k=1, **options):
    tables = (
        session.createDataFrame(list(table[1]), table[0]) if isinstance(table, tuple) else table for table in (lists, truth)
    )
    options.setdefault("n_buckets", 2)
    return srm.evaluate(*tables, metrics=metrics, k=k, **options)


# Structs in arrays --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metrics", ["hit", "matched_auc"])
def test_fields_of_structs_are_found_by_name(session, metrics):
    lists = ("user_id int, items array<struct<score: int, movie: int>>", [(1, [(5, 20), (4, 30)])])
    told = (
        r"^predictions: column 'items' \(columns\.items\): expected structs with a field 'item_id' \(columns\.item\), "
        r"found score, movie: set columns\.item to the name of the item in all tables, or rename the field$"
    )
    with pytest.raises(srm.DataError, match=told):
        evaluate(session, lists, (TRUTH, [(1, 5)]), metrics)


def test_the_advice_about_fields_of_structs(session):
    renamed = ("user_id int, items array<struct<score: int, item_id: int>>", [(1, [(5, 20), (4, 30)])])
    assert evaluate(session, renamed, (TRUTH, [(1, 5)]), checks={"items_in_both": "warn"}).to_dict() == {
        "model": {"hit@1": 0.0}
    }
    assert evaluate(session, renamed, (TRUTH, [(1, 20)])).to_dict() == {"model": {"hit@1": 1.0}}
    named = ("user_id int, items array<struct<score: int, movie: int>>", [(1, [(5, 20), (4, 30)])])
    result = evaluate(session, named, ("user_id int, movie int", [(1, 20)]), columns=srm.Columns(item="movie"))
    assert result.to_dict() == {"model": {"hit@1": 1.0}}


def test_the_only_other_number_of_a_struct_is_the_score(session):
    lists = (
        "user_id int, items array<struct<why: string, rating: double, item_id: int>>",
        [(1, [("a", 4.0, 20), ("b", 3.0, 30)])],
    )
    truth = ("user_id int, item_id int, rating double", [(1, 20, 5.0), (1, 30, 3.0)])
    assert evaluate(session, lists, truth, "mae").to_dict() == {"model": {"mae": 0.5}}
    two = ("user_id int, items array<struct<first: double, second: double, item_id: int>>", [(1, [(4.0, 1.0, 20)])])
    assert evaluate(session, two, truth).to_dict() == {"model": {"hit@1": 1.0}}  # no score is needed
    with pytest.raises(
        srm.DataError, match=r"field 'score' \(columns\.score\) \(mae needs it\), found first, second, item_id: set"
    ):
        evaluate(session, two, truth, "mae")


# Ranks --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["error", "drop"])
def test_ranks_from_0(session, policy):
    rows, truth = [(1, 5, 0), (1, 6, 1), (2, 5, 0), (2, 6, 1)], (TRUTH, [(1, 5), (2, 5)])
    told = r"predictions: zero_based_ranks: 2 rows \(50 %\) .* the ranks start at 0, .*\. Add 1 to all ranks, .* view\.$"
    with pytest.raises(srm.DataError, match=told):
        evaluate(session, (RANKED, rows), truth, columns=BY_RANK, checks={"bad_ranks": policy})
    plus_1 = (RANKED, [(user, item, rank + 1) for user, item, rank in rows])
    assert evaluate(session, plus_1, truth, columns=BY_RANK).to_dict() == {"model": {"hit@1": 1.0}}


def test_a_single_rank_of_0(session):
    rows = [(1, 5, 1), (1, 6, 2), (2, 5, 1), (2, 6, 0), (3, 5, 1)]
    with pytest.raises(srm.DataError, match=r"predictions: bad_ranks: 1 row .* or set checks\.bad_ranks: drop\.$"):
        evaluate(session, (RANKED, rows), (TRUTH, [(1, 5)]), columns=BY_RANK)


# Numbers ------------------------------------------------------------------------------------------------------------------


def test_rating_metrics_do_not_depend_on_relevance(session):
    lists = ("user_id int, item_id int, score double", [(1, 5, 0.0), (2, 6, 1.0)])
    truth = ("user_id int, item_id int, rating double", [(1, 5, 0.0), (2, 6, -1.0)])
    result = evaluate(session, lists, truth, "rmse")
    assert (result.to_dict(), result.status, result.warnings) == ({"model": {"rmse": math.sqrt(2)}}, "ok", [])
    both = evaluate(session, lists, truth, ["rmse", "hit"])
    assert both.to_dict()["model"] == {"rmse": math.sqrt(2), "hit@1": None}
    assert (both.status, both.emptiness[0][:15]) == ("undefined", "truth: relevant")


# Ids ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "advice"),
    [
        ("double", 7.0, r"found double: cast it first, integers to bigint, others to string$"),
        ("boolean", True, r"found boolean: cast it first, to string$"),
    ],
)
def test_ids_of_other_types(session, kind, value, advice):
    with pytest.raises(srm.DataError, match=advice):
        evaluate(session, (f"user_id int, item_id {kind}, score double", [(1, value, 1.0)]), (TRUTH, [(1, 7)]))


def test_large_ids_next_to_a_missing_value():
    truth = pd.DataFrame({"user_id": [1], "item_id": [2**53 + 1]})
    lists = pd.DataFrame({"user_id": [1, 1, 1], "item_id": [2**53 + 1, None, 2**53], "score": [1.0, 0.9, 2.0]})
    told = (
        r"'item_id' .* found double, in which pandas stores .* above 2\^53 lose digits: read the column as Int64 or as strings$"
    )
    with pytest.raises(srm.DataError, match=told):
        srm.evaluate(lists, truth, metrics="hit", k=1, checks={"null_ids": "drop"})
    lists["item_id"] = pd.array([2**53 + 1, None, 2**53], "Int64")
    result = srm.evaluate(lists, truth, metrics="mrr", k=2, checks={"null_ids": "drop"})
    assert result.to_dict() == {"model": {"mrr@2": 0.5}}
