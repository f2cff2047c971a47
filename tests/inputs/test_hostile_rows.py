"""Rows that would give a wrong number without a word: each gives the right value, or an error whose advice gives it."""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import Decimal

import pandas as pd
import pyarrow as pa
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


@pytest.mark.parametrize(
    ("scores", "metric"),
    [
        ([1e200, 1.0], "rmse"),
        ([1e200, 1.0], "mse"),
        ([1e200, 1.0], "r2"),
        ([1e200, 1.0], "explained_variance"),
        ([1e308, -1e308], "mae"),
    ],
)
def test_overflow_is_an_error_with_a_way_out(session, scores, metric):
    lists = ("user_id int, item_id int, score double", [(1, 5, scores[0]), (2, 6, scores[1])])
    truth = ("user_id int, item_id int, rating double", [(1, 5, 1.0), (2, 6, 2.0)])
    told = rf"^predictions/model: {metric}: expected .* below 1e308, found larger ones: .* same number, or remove {metric}\.$"
    with pytest.raises(srm.DataError, match=told) as rejected:
        evaluate(session, lists, truth, metric)
    assert rejected.value.data_checks


def test_large_scores_that_do_not_overflow(session):
    lists = ("user_id int, item_id int, score double", [(1, 5, 1e150), (2, 6, 0.0)])
    truth = ("user_id int, item_id int, rating double", [(1, 5, 0.0), (2, 6, 0.0)])
    assert evaluate(session, lists, truth, "rmse").to_dict()["model"]["rmse"] == pytest.approx(1e150 / math.sqrt(2))
    divided = ("user_id int, item_id int, score double", [(1, 5, 1e200 / 1e100), (2, 6, 1.0 / 1e100)])  # the advice
    assert evaluate(session, divided, truth, "rmse").to_dict()["model"]["rmse"] * 1e100 == pytest.approx(1e200 / math.sqrt(2))


# Ids ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "advice"),
    [
        (
            "double",
            7.0,
            r"found double: cast it first, integers to bigint, others to string; in a config.* types: \{item_id: bigint\}$",
        ),
        (
            "date",
            date(2026, 11, 28),
            r"found date: cast it first, to string; in a configuration, set types: \{item_id: string\}$",
        ),
        ("boolean", True, r"found boolean: cast it first, to string; in a configuration, set types: \{item_id: string\}$"),
    ],
)
def test_ids_of_other_types(session, kind, value, advice):
    with pytest.raises(srm.DataError, match=advice):
        evaluate(session, (f"user_id int, item_id {kind}, score double", [(1, value, 1.0)]), (TRUTH, [(1, 7)]))


def test_ids_of_other_types_that_were_cast(session):
    day = date(2026, 11, 28)
    for kind, value in (("string", "true"), ("string", str(day)), ("bigint", 7)):
        lists = (f"user_id int, item_id {kind}, score double", [(1, value, 1.0)])
        assert evaluate(session, lists, (f"user_id int, item_id {kind}", [(1, value)])).to_dict() == {"model": {"hit@1": 1.0}}


def test_floats_become_integers_as_ids(session):
    lists = ("user_id float, item_id double, score double", [(1.0, 7.0, 1.0), (2.0, 8.0, 1.0)])
    truth = (TRUTH, [(1, 7), (2, 7)])
    assert evaluate(session, lists, truth, cast_ids="bigint").to_dict() == {"model": {"hit@1": 0.5}}
    examples = {"7.5": [7.5], "NaN": [float("nan")], "Infinity": [float("inf")], "9.007199254740992E15": [2.0**53]}
    for example, wrong in {**examples, "1.0E16": [float("nan"), 2.5, 1e16]}.items():  # the first as a string
        rows = [(1.0, 7.0, 1.0), *((2.0, value, 1.0) for value in wrong)]
        told = (
            f"^cast_ids: predictions.item_id: expected values that bigint can hold, found '{example}', which would be lost: set"
        )
        with pytest.raises(srm.DataError, match=told):
            evaluate(session, (lists[0], rows), truth, cast_ids="bigint")
    segments = session.createDataFrame([(1.0, "a"), (2.0, "b")], "user_id double, segment string")
    by_segment = evaluate(session, lists, truth, cast_ids="bigint", user_segments=segments, slices=["segment"])
    assert {row["slice_value"]: row["value"] for row in by_segment.rows} == {"all": 0.5, "a": 1.0, "b": 0.0}


def test_decimal_ids_of_different_scales_are_the_same_numbers(session):
    lists = ("user_id int, item_id decimal(10,2), score double", [(1, Decimal("7.00"), 2.0), (1, Decimal("7.50"), 1.0)])
    truth = ("user_id bigint, item_id decimal(5,1)", [(1, Decimal("7.5"))])
    assert evaluate(session, lists, truth, "mrr", 2).to_dict() == {"model": {"mrr@2": 0.5}}
    whole = ("user_id int, item_id int", [(1, 7)])
    assert evaluate(session, lists, whole, "mrr", 2).to_dict() == {"model": {"mrr@2": 1.0}}


@pytest.mark.parametrize("name", [" rating", "rating\u200b", "Rating"])
def test_a_blank_in_the_name_of_a_column_is_not_overlooked(name):
    lists = pd.DataFrame({"user_id": [1, 1], "item_id": [5, 6], "score": [2.0, 1.0]})
    truth = pd.DataFrame({"user_id": [1, 1], "item_id": [5, 6], name: [0.0, 5.0]})
    with pytest.raises(srm.DataError, match=r"^truth: no column 'rating'.*; did you mean "):
        srm.evaluate(lists, truth, metrics="hit", k=1)


def test_categories_of_polars():
    pl = pytest.importorskip("polars")
    for kind in (pl.Categorical, pl.Enum(["a", "b", "x", "y"])):
        truth = pl.DataFrame({"user_id": ["a", "b"], "item_id": ["x", "y"]}).with_columns(pl.all().cast(kind))
        lists = pl.DataFrame({"user_id": ["a", "b"], "item_id": ["x", "x"], "score": [1.0, 1.0]})
        lists = lists.with_columns(pl.col("user_id", "item_id").cast(kind))
        assert srm.evaluate(lists, truth, metrics="hit", k=1).to_dict() == {"model": {"hit@1": 0.5}}


@pytest.mark.parametrize("column", ["user_id", "item_id", "model"])
def test_strings_in_another_encoding(column):
    latin_1 = pa.Array.from_buffers(pa.string(), 2, pa.array([b"M\xfcller", b"M\xf6ller"], pa.binary()).buffers())
    lists = pa.table({"user_id": ["u", "v"], "item_id": ["x", "y"], "score": [2.0, 1.0], column: latin_1})
    with pytest.raises(srm.DataError, match=f"^predictions: column '{column}': expected ids and names in UTF-8"):
        srm.evaluate(lists, pa.table({"user_id": ["u"], "item_id": ["x"]}), metrics="hit", k=1)


def test_sparse_columns_of_pandas():
    truth = pd.DataFrame({"user_id": [1, 2], "item_id": [7, 8], "rating": pd.arrays.SparseArray([0.0, 1.0], fill_value=0.0)})
    lists = pd.DataFrame({"user_id": [1, 2], "item_id": [7, 8], "score": pd.arrays.SparseArray([0.0, 1.0], fill_value=0.0)})
    assert srm.evaluate(lists, truth, metrics=["hit", "mae"], k=1, threshold=1.0).to_dict() == {
        "model": {"hit@1": 1.0, "mae": 0.0}  # user 1 has no relevant item
    }


def test_floats_as_items_in_arrays(session):
    lists = ("user_id int, items array<double>", [(1, [7.0, 8.0])])
    told = r"column 'items' .*: expected an array of integers or strings as ids, found array<double>: cast it first$"
    with pytest.raises(srm.DataError, match=told):
        evaluate(session, lists, ("user_id int, item_id int", [(1, 7)]))
    cast = ("user_id int, items array<bigint>", [(1, [7, 8])])
    assert evaluate(session, cast, ("user_id int, item_id int", [(1, 7)])).to_dict() == {"model": {"hit@1": 1.0}}


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


# Repeats ------------------------------------------------------------------------------------------------------------------

REPEATED = (
    r"predictions/model: duplicates: 1 repeated recommendation of the same model, user and item, for example users 1\. If"
)
SEVERAL = [("a", 1, 5, 0.9), ("a", 1, 6, 0.8), ("b", 1, 5, 0.7), ("b", 1, 7, 0.6), ("a", 2, 5, 0.5), ("b", 2, 6, 0.4)]


def test_lists_of_several_models_read_as_one(session):
    lists = ("algo string, user_id int, item_id int, score double", SEVERAL)
    truth = (TRUTH, [(1, 5), (2, 6)])
    for k in (1, [1, 2], 10, None):
        with pytest.raises(
            srm.DataError, match=REPEATED + r" these are lists of several models, set columns\.model to the model"
        ):
            evaluate(session, lists, truth, "ndcg", k)
    result = evaluate(session, lists, truth, "ndcg", [1, 2], columns=srm.Columns(model="algo"))
    assert {model: values["ndcg@1"] for model, values in result.to_dict().items()} == {"a": 0.5, "b": 1.0}
    kept = evaluate(session, lists, truth, "hit", 1, convention={"name": "default", "duplicates": "keep"})
    assert [line.partition(":")[0] for line in kept.warnings if "duplicates: 1 repeated" in line] == ["predictions/model"]
    first = evaluate(session, lists, truth, "hit", 1, convention={"name": "default", "duplicates": "first"})
    assert first.to_dict() == {"model": {"hit@1": 0.5}}


@pytest.mark.parametrize("checks", [{}, {"bad_ranks": "drop"}])
def test_repeats_in_arrays_after_the_cut(session, checks):
    lists = ("user_id int, items array<int>", [(1, [8, 9, 5, 9]), (2, [8, 9, 6, None])])
    with pytest.raises(srm.DataError, match=REPEATED):
        evaluate(session, lists, (TRUTH, [(1, 8), (2, 6)]), checks={"null_ids": "drop", **checks})
    lists = ("user_id int, items array<int>", [(1, [8, 9, 5]), (2, [8, 9, 6])])
    assert evaluate(session, lists, (TRUTH, [(1, 8), (2, 6)]), checks=checks).to_dict() == {"model": {"hit@1": 0.5}}


def test_repeated_predicted_ratings_without_a_true_one(session):
    lists = ("user_id int, item_id int, score double", [(1, 5, 3.0), (1, 6, 2.0), (1, 6, 4.0)])
    truth = ("user_id int, item_id int, rating double", [(1, 5, 3.0)])
    told = r"^predictions/model: pair_duplicates: 1 repeated predicted rating of .* users 1\. If these are lists of several"
    with pytest.raises(srm.DataError, match=told):
        evaluate(session, lists, truth, "rmse")


def test_rows_that_a_policy_drops_are_no_repeats(session):
    rows = [(1, 5, 0.9), (1, 6, 0.8), (1, 6, float("nan"))]
    result = evaluate(
        session,
        ("user_id int, item_id int, score double", rows),
        (TRUTH, [(1, 5)]),
        convention={"name": "default", "nan_scores": "drop"},
    )
    assert result.to_dict() == {"model": {"hit@1": 1.0}}


@pytest.mark.spark
def test_repeats_in_a_large_table_are_looked_for_in_some_lists(spark, monkeypatch):
    monkeypatch.setattr("spark_recmetrics.evaluation.spark._ALL_COMPARED", 100)
    monkeypatch.setattr("spark_recmetrics.evaluation.spark._SOME_COMPARED", 80)
    rows = [(user, item, -float(place)) for user in range(100) for place, item in enumerate((1, 2, 3, 2))]
    truth = (TRUTH, [(user, 1) for user in range(100)])
    with pytest.raises(
        srm.DataError, match=r"duplicates: \d\d repeated .*users (\d+, ){4}\d+; after the largest cut-off \d\d users w"
    ):
        evaluate(spark, ("user_id int, item_id int, score double", rows), truth)
    once = evaluate(spark, ("user_id int, item_id int, score double", [row for row in rows if row[2] > -3]), truth)
    (check,) = (check for check in once.data_checks if check.check == "duplicates")
    assert (check.level, check.n_rows) == ("info", 0)
    assert check.example is not None
    assert check.example.endswith("users were checked")


# Ids that look the same ---------------------------------------------------------------------------------------------------


LOOK_THE_SAME = [
    (["ann", "Zo\u00eb"], ["Zoe\u0308"], r"Unicode form (NFC, NFD), for example 'Zoë' and 'Zoe\u0308'"),
    (["x"], ["x ", "y"], "blanks at an end, for example 'x' and 'x '"),
    (["Bob"], ["bob"], "letter case, for example 'Bob' and 'bob'"),
    (["7", "8"], ["007"], "leading zeros, for example '7' and '007'"),
    (["7.0"], ["7"], "a decimal part .0, for example '7.0' and '7'"),
    (["\u00c4 "], ["a\u0308"], r"blanks at an end and letter case and Unicode form (NFC, NFD), for example 'Ä ' and 'a\u0308'"),
    (["x"], ["y"], None),
]


@pytest.mark.parametrize(("ids", "others", "why"), LOOK_THE_SAME)
@pytest.mark.parametrize("column", ["user", "item"])
def test_ids_that_look_the_same(session, ids, others, why, column):
    lists, truth = ([(name, "i") if column == "user" else ("u", name) for name in names] for names in (others, ids))
    with pytest.raises(srm.DataError) as rejected:
        evaluate(
            session,
            ("user_id string, item_id string, score double", [(*row, 1.0) for row in lists]),
            ("user_id string, item_id string", truth),
        )
    (line,) = (line for line in str(rejected.value).splitlines() if f"{column}s_in_both" in line)
    assert line.partition("(ids differ only in ")[2].partition("). Check that ")[0] == (why or "")


@pytest.mark.spark
@pytest.mark.heavy
def test_ids_that_look_the_same_on_spark(spark):
    """Its patterns are those of Java, so that each of them runs there."""
    for ids, others, why in LOOK_THE_SAME:
        lists = ("user_id string, item_id string, score double", [("u", item, 1.0) for item in others])
        told = re.escape(f"ids differ only in {why}" if why else "items_in_both")
        with pytest.raises(srm.DataError, match=told):
            evaluate(spark, lists, ("user_id string, item_id string", [("u", item) for item in ids]))


def test_bands_in_single_precision(session):
    lists = ("user_id string, item_id string, score double", [("a", "x", 1.0), ("b", "x", 1.0)])
    for kind in ("float", "double"):
        segments = session.createDataFrame([("a", 0.7), ("b", 0.05)], f"user_id string, w {kind}")
        result = evaluate(
            session,
            lists,
            ("user_id string, item_id string", [("a", "x"), ("b", "y")]),
            slices=["w(0.7)"],
            user_segments=segments,
        )
        values = {row["slice_value"]: row["value"] for row in result.rows}
        assert values == {"all": 0.5, ">=0.7": 1.0, "<0.7": 0.0}
    with pytest.raises(srm.ConfigError, match=r"expected integer edges up to 2\*\*53, .* found 9007199254740993"):
        evaluate(session, lists, lists, slices=["w(9007199254740993)"], user_segments=segments)


def test_empty_strings_are_no_groups(session):
    lists = ("user_id string, item_id string, score double", [("a", "x", 2.0), ("a", "y", 1.0), ("b", "x", 1.0)])
    truth = ("user_id string, item_id string", [("a", "x"), ("b", "y")])
    segments = session.createDataFrame([("a", ""), ("b", "gold")], "user_id string, plan string")
    result = evaluate(session, lists, truth, slices=["plan"], user_segments=segments)
    assert {row["slice_value"] for row in result.rows} == {"all", "(none)", "gold"}
    categories = [("x", ["w", None, ""]), ("y", ["d", "d"])]
    features = session.createDataFrame(categories, "item_id string, categories array<string>")
    result = evaluate(session, lists, truth, "srecall", k=2, item_features=features)
    assert result.to_dict() == {"model": {"srecall@2": 0.75}}


def test_sets_have_no_order():
    truth = pd.DataFrame({"user_id": ["a"], "item_id": ["x"]})
    with pytest.raises(srm.DataError, match=r"^predictions: column 'items': expected ordered lists, found a set"):
        srm.evaluate(pd.DataFrame({"user_id": ["a"], "items": [{"x", "y"}]}), truth, metrics="mrr", k=2)
    lists = pd.DataFrame({"user_id": ["a"], "items": [["y", "x"]]})
    assert srm.evaluate(lists, truth, metrics="mrr", k=2).to_dict() == {"model": {"mrr@2": 0.5}}
    features = pd.DataFrame({"item_id": ["x", "y"], "features": [{1.0, 3.0}, {2.0, 0.5}]})
    with pytest.raises(srm.DataError, match=r"^item_features: column 'features': expected ordered lists"):
        srm.evaluate(lists, truth, metrics="ild", k=2, item_features=features)


SIDE_TABLES = {
    "train": ("user_id string, item_id string", [("U1", "X"), ("U2", "Y")], {"metrics": "novelty"}),
    "user_segments": ("user_id string, plan string", [("U1", "free")], {"metrics": "hit", "slices": ["plan"]}),
    "item_groups": ("item_id string, genre string", [("X", "a"), ("Y", "b")], {"metrics": "hit", "slices": ["genre"]}),
    "item_features": ("item_id string, features array<double>", [("X", [1.0]), ("Y", [0.5])], {"metrics": "ild"}),
}


@pytest.mark.parametrize("table", SIDE_TABLES)
def test_side_information_whose_ids_are_written_differently(session, table):
    schema, rows, options = SIDE_TABLES[table]
    lists = ("user_id string, item_id string, score double", [("u1", "x", 2.0), ("u1", "y", 1.0), ("u2", "y", 1.0)])
    truth = ("user_id string, item_id string", [("u1", "x"), ("u2", "z")])

    def unmatched(rows):
        result = evaluate(session, lists, truth, **options, **{table: session.createDataFrame(rows, schema)})
        return [line for line in result.warnings if "_in_truth: " in line]

    sides = [side for side in ("user", "item") if f"{side}_id" in schema]
    ids = {"user": "'u1' and 'U1'", "item": "'x' and 'X'"}
    differ = "(ids differ only in letter case, for example {}). Check that {}s have the same ids in both tables."
    assert unmatched(rows) == [
        f"{table}: no_{side}s_in_truth: no {side} in this table appears in the ground truth {differ.format(ids[side], side)}"
        for side in sides
    ]
    assert not unmatched([tuple(cell.lower() if isinstance(cell, str) else cell for cell in row) for row in rows])


def test_items_in_arrays_are_in_both_if_they_follow_the_cut(session):
    lists = ("user_id int, items array<int>", [(1, [8, 9, 5]), (2, [8, 9, 6])])
    result = evaluate(session, lists, (TRUTH, [(1, 5), (2, 6)]))
    assert result.to_dict() == {"model": {"hit@1": 0.0}}
    (check,) = (check for check in result.data_checks if check.check == "items_in_both")
    assert (check.level, check.n_rows, check.share) == ("info", 2, 1.0)


# Settings of the session --------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_a_session_that_drops_columns(spark):
    spark.conf.set("spark.sql.retainGroupColumns", "false")
    told = r"^spark\.sql\.retainGroupColumns: expected true, found false: set it to true in this session$"
    lists, truth = ("user_id int, item_id int, score double", [(1, 5, 1.0)]), (TRUTH, [(1, 5)])
    rows = spark.createDataFrame(truth[1], truth[0])
    try:
        for call in (lambda: evaluate(spark, lists, truth), lambda: srm.splits.random(rows)):
            with pytest.raises(srm.ConfigError, match=told):
                call()
        spark.conf.set("spark.sql.retainGroupColumns", "true")
        assert evaluate(spark, lists, truth).to_dict() == {"model": {"hit@1": 1.0}}
    finally:
        spark.conf.unset("spark.sql.retainGroupColumns")


@pytest.mark.spark
@pytest.mark.slow
def test_settings_of_the_session_change_no_number(spark):
    rows = [("a", 1, 5, 0.9), ("a", 1, 6, 0.8), ("a", 2, 6, 0.7), ("b", 1, 6, 0.6), ("b", 2, 5, 0.5)]
    lists = ("model string, user_id int, item_id int, score double", rows)
    truth = ("user_id int, item_id int, rating double", [(1, 6, 5.0), (2, 5, 4.0)])
    found = []
    for key, value in (
        ("spark.sql.caseSensitive", "true"),
        ("spark.sql.caseSensitive", "false"),
        ("spark.sql.ansi.enabled", "true"),
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.session.timeZone", "America/New_York"),
    ):
        spark.conf.set(key, value)
        try:
            found.append(evaluate(spark, lists, truth, ["ndcg", "rmse", "item_coverage"], 2, catalog=9).to_dict())
        finally:
            spark.conf.unset(key)
    assert all(values == found[0] for values in found)
    assert found[0]["b"]["ndcg@2"] == 1.0
