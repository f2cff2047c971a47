"""Slices of users and intervals: against evaluations of the slice alone, and against a bootstrap by loops."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pandas as pd
import pytest
from engines import in_pandas

import spark_recmetrics as srm
from spark_recmetrics.aggregation.spark import Sliced, part_slices, whole_slice
from spark_recmetrics.columns import ITEM_SLICE, ITEM_VALUE
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.job.cli import main
from spark_recmetrics.metrics import parse
from spark_recmetrics.request.slices import Slice, by_side, grouped, in_order, parse_slices, slice_values
from spark_recmetrics.side_info.checks import check_values
from spark_recmetrics.stats import poisson_weights

METRICS = ["ndcg@3", "precision@3", "f1@3", "rmse", "r2", "ctr@3"]
N_USERS, N_ITEMS = 48, 12


def data(seed=3):
    """Predictions of two models, truth, train and segments, of users of whom some stand on one side only."""
    chance = random.Random(seed)
    predictions = [
        (model, user, item, round(5 * chance.random(), 3))
        for model in ("a", "b")
        for user in range(2, N_USERS)
        for item in chance.sample(range(N_ITEMS), 5)
    ]
    truth = [
        (user, item, float(chance.randint(1, 5))) for user in range(N_USERS - 3) for item in chance.sample(range(N_ITEMS), 4)
    ]
    train = [(user, item) for user in range(0, N_USERS, 2) for item in chance.sample(range(N_ITEMS), 1 + user % 7)]
    segments = [(user, "FM"[user % 2], user if user % 5 else None, user % 3 == 0) for user in range(N_USERS - 6)]
    return predictions, truth, train, segments


def frames(spark, rows):
    predictions, truth, train, segments = rows
    return {
        "predictions": spark.createDataFrame(predictions, "model string, user_id int, item_id int, score double"),
        "truth": spark.createDataFrame(truth, "user_id int, item_id int, rating double"),
        "train": spark.createDataFrame(train, "user_id int, item_id int"),
        "user_segments": spark.createDataFrame(segments, "user_id bigint, gender string, age int, `is new` boolean"),
    }


def value_of(rows, text, user):
    """The value of a slice by a chain of ifs."""
    _, _, train, segments = rows
    own = next((segment for segment in segments if segment[0] == user), None)
    n = sum(trained == user for trained, _ in train)
    counts = sorted(sum(trained == user for trained, _ in train) for user in {user for user, _ in train})
    quarters = np.quantile(counts, [0.25, 0.5, 0.75], method="inverted_cdf")
    names = ["least active quarter", "second quarter", "third quarter", "most active quarter"]

    def band(number, edges):
        if number is None:
            return "(none)"
        for low, high in zip([None, *edges], [*edges, None], strict=True):
            if (low is None or number >= low) and (high is None or number < high):
                return f"<{high}" if low is None else f">={low}" if high is None else f"{low}..<{high}"
        raise AssertionError(number)

    gender = own[1] if own else "(none)"
    return {
        "gender": gender,
        "age(10, 20)": band(own[2] if own else None, [10, 20]),
        "is new": str(own[3]).lower() if own else "(none)",
        "activity": "no training rows" if n == 0 else names[int((n > quarters).sum())],
        "activity(1, 4)": band(n, [1, 4]),
        "gender*activity(1, 4)": f"{gender} & {band(n, [1, 4])}",
    }[text]


SLICES = ["gender", "age(10, 20)", "is new", "activity(1, 4)", "gender*activity(1, 4)"]


_EVALUATED = {}


@pytest.fixture
def evaluated(session):
    """Evaluated once: for each kind of session."""
    if type(session) not in _EVALUATED:
        _EVALUATED[type(session)] = evaluate(session)
    return _EVALUATED[type(session)]


def evaluate(session):
    rows = data()
    result = srm.evaluate(
        **frames(session, rows),
        metrics=METRICS,
        threshold=3.0,
        slices=SLICES,
        min_users=7,
        intervals=srm.Intervals("bootstrap", n_resamples=200, seed=5),
        n_buckets=5,
    )
    return rows, result


def test_the_values_of_a_slice_are_those_of_an_evaluation_of_its_users_alone(session, evaluated):
    rows, result = evaluated
    predictions, truth, *_ = rows
    for text, wanted in (("gender*activity(1, 4)", "F & 1..<4"), ("age(10, 20)", "(none)"), ("is new", "true")):
        users = {user for user in range(N_USERS) if value_of(rows, text, user) == wanted}
        alone = srm.evaluate(
            pd.DataFrame([row for row in predictions if row[1] in users], columns=["model", "user_id", "item_id", "score"]),
            pd.DataFrame([row for row in truth if row[0] in users], columns=["user_id", "item_id", "rating"]),
            metrics=METRICS,
            threshold=3.0,
        )
        expected = {(row["model"], row["metric"]): row for row in alone.rows}
        found = [row for row in result.rows if (row["slice"], row["slice_value"]) == (text, wanted)]
        assert [(row["model"], row["metric"]) for row in found] == list(expected)
        for row in found:
            other = expected[row["model"], row["metric"]]
            assert (row["n_users"], row["n_undefined"]) == (other["n_users"], other["n_undefined"])
            for name in ("value", "std"):
                assert row[name] == (None if other[name] is None else pytest.approx(other[name], abs=1e-12)), row


def test_every_user_has_one_value_of_each_slice(evaluated):
    rows, result = evaluated
    per_user = in_pandas(result.per_user)
    assert [name for name in per_user if name.startswith("slice_")] == [
        "slice_gender",
        "slice_age_10_20",
        "slice_is_new",
        "slice_activity_1_4",
    ]
    for text, column in zip(SLICES, [name for name in per_user if name.startswith("slice_")], strict=False):
        assert list(per_user[column]) == [value_of(rows, text, user) for user in per_user["user"]]
    n_users = {(row["slice"], row["model"]): 0 for row in result.rows}
    for row in result.rows:
        if row["metric"] == "ndcg@3":
            n_users[row["slice"], row["model"]] += row["n_users"]
    assert len(set(n_users.values())) == 1


def test_slices_come_in_the_order_of_their_bands_and_small_ones_are_marked(evaluated):
    _, result = evaluated
    ages = dict.fromkeys(row["slice_value"] for row in result.rows if row["slice"] == "age(10, 20)")
    assert list(ages) == ["<10", "10..<20", ">=20", "(none)"]
    assert [row["slice"] for row in result.rows] == [
        text for text in ["all", *SLICES] for row in result.rows if row["slice"] == text
    ]
    for row in result.rows:
        assert row["small"] == (row["slice"] != "all" and row["n_users"] < 7)
    assert any(row["small"] for row in result.rows)


def replicates(per_user, row, seed, n):
    """The replicates of a value, by the definition: every user counts as often as it is drawn."""
    own = per_user[per_user["model"] == row["model"]]
    if row["slice"] != "all":
        own = own[own["value"] == row["slice_value"]]
    weights = poisson_weights(own["user_hash"].to_numpy(np.int64).view(np.uint64), n, seed).astype(float)
    if row["metric"] in ("rmse", "r2"):
        names = ["n_pairs", "sum_squared_error", "sum_rating", "sum_squared_rating"]
        pairs, squares, ratings, ratings2 = (weights @ own[name].fillna(0).to_numpy(float) for name in names)
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = ratings2 - ratings**2 / pairs
            found = np.sqrt(squares / pairs) if row["metric"] == "rmse" else 1 - squares / spread
        return found[(pairs > 0) & ((row["metric"] == "rmse") | (spread > 1e-9))]
    slug = parse(row["metric"]).slug
    if row["metric"] == "ctr@3":
        total, count = (weights @ own[f"{slug}_{of}"].fillna(0).to_numpy(float) for of in ("total", "count"))
    else:
        member = (own["n_relevant"] > 0) & own[slug].notna()
        total, count = weights[:, member] @ own.loc[member, slug].to_numpy(float), weights[:, member].sum(axis=1)
    return (total / np.maximum(count, 1))[count > 0]


@pytest.mark.spark
@pytest.mark.slow
def test_resampled_intervals_are_the_percentiles_over_users_drawn_anew(spark):
    from pyspark.sql import functions as F

    rows, result = evaluate(spark)
    per_user = result.per_user.withColumn("user_hash", F.xxhash64("user")).toPandas()
    n_checked = 0
    for row in result.rows:
        if row["slice"] not in ("all", "gender"):
            continue
        per_user["value"] = [value_of(rows, "gender", user) for user in per_user["user"]]
        found = replicates(per_user, row, seed=5, n=200)
        expected = np.quantile(found, [0.025, 0.975])
        assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(expected), abs=1e-9), row
        assert row["ci_method"] == "bootstrap"
        n_checked += 1
    assert n_checked == 2 * len(METRICS) * 4


def test_intervals_do_not_depend_on_partitioning_or_order(session, evaluated):
    rows, result = evaluated
    shuffled = [random.Random(9).sample(table, len(table)) for table in rows]
    again = srm.evaluate(
        **frames(session, shuffled),
        metrics=METRICS,
        threshold=3.0,
        slices=SLICES,
        min_users=7,
        intervals=srm.Intervals("bootstrap", n_resamples=200, seed=5),
        n_buckets=2,
    )
    for one, other in zip(result.rows, again.rows, strict=True):
        for name in ("slice", "slice_value", "metric", "model", "n_users", "small"):
            assert one[name] == other[name]
        for name in ("value", "ci_low", "ci_high"):
            assert one[name] == (None if other[name] is None else pytest.approx(other[name], abs=1e-12))


def test_quarters_of_activity_and_normal_intervals(session):
    rows = data(4)
    tables = {name: frame for name, frame in frames(session, rows).items() if name != "user_segments"}
    result = srm.evaluate(**tables, metrics=["hit@3", "rmse"], threshold=3.0, slices=["activity"], intervals="normal")
    per_user = in_pandas(result.per_user)
    assert list(per_user["slice_activity"]) == [value_of(rows, "activity", user) for user in per_user["user"]]
    values = [row["slice_value"] for row in result.rows if row["slice"] != "all" and row["metric"] == "rmse"]
    assert values[::2] == ["no training rows", "least active quarter", "second quarter", "third quarter", "most active quarter"]
    for row in result.rows:
        if row["metric"] == "rmse":
            assert (row["ci_low"], row["ci_method"]) == (None, None)
        elif row["n_users"] > 1:
            half = 1.959963984540054 * row["std"] / math.sqrt(row["n_users"])
            assert (row["ci_low"], row["ci_high"]) == pytest.approx((row["value"] - half, row["value"] + half), abs=1e-12)


ITEMS = [(item, ["odd", "even"][item % 2 == 0], [f"g{item % 3}", "late"][: 1 + (item > 8)]) for item in range(N_ITEMS - 1)]
"""Item, a text, and an array; the last item stands nowhere."""


def item_values(rows, text, item):
    """The values of a slice of items by a chain of ifs."""
    counts = {}
    for _, trained in rows[2]:
        counts[trained] = counts.get(trained, 0) + 1
    own = next((known for known in ITEMS if known[0] == item), (item, "(none)", ["(none)"]))
    n = counts.get(item, 0)
    above = sum(other for other in counts.values() if other > n)
    head = "short head" if above < 0.8 * sum(counts.values()) else "long tail"
    return {
        "parity": {own[1]},
        "genres": set(own[2]),
        "parity*genres": {f"{own[1]} & {genre}" for genre in own[2]},
        "popularity": {head if n else "no training rows"},
        "popularity(20, 26)": {"<20" if n < 20 else "20..<26" if n < 26 else ">=26"},
    }[text]


ITEM_SLICES = ["parity", "genres", "parity*genres", "popularity", "popularity(20, 26)"]


@pytest.mark.parametrize("judged", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_a_slice_of_items_is_an_evaluation_of_the_users_who_have_one_in_truth(session, judged):
    rows = data()
    predictions, truth, *_ = rows
    tables = frames(session, rows) | {
        "item_groups": session.createDataFrame(ITEMS, "item_id int, parity string, genres array<string>")
    }
    options = {"metrics": METRICS, "threshold": 3.0, "convention": "threshold" if judged else "default"}
    result = srm.evaluate(**tables, **options, slices=[*ITEM_SLICES, "gender"], min_users=7, intervals="bootstrap", n_buckets=3)
    found = {}
    for row in result.rows:
        found.setdefault((row["slice"], row["slice_value"]), {})[row["model"], row["metric"]] = row
    for text in ITEM_SLICES:
        values = {value for _, item, _ in truth for value in item_values(rows, text, item)}
        assert {value for name, value in found if name == text} == values
        for value in sorted(values)[:2]:
            inside = [row for row in truth if value in item_values(rows, text, row[1])]
            users = {user for user, *_ in inside}
            alone = srm.evaluate(
                pd.DataFrame([row for row in predictions if row[1] in users], columns=["model", "user_id", "item_id", "score"]),
                pd.DataFrame(inside, columns=["user_id", "item_id", "rating"]),
                **options,
            )
            own = found[text, value]
            assert list(own) == [(row["model"], row["metric"]) for row in alone.rows]
            for row in alone.rows:
                other = own[row["model"], row["metric"]]
                assert (other["n_users"], other["n_undefined"]) == (row["n_users"], row["n_undefined"]), row
                assert other["value"] == (None if row["value"] is None else pytest.approx(row["value"], abs=1e-12)), row
    assert not [name for name in result.per_user.columns if name.startswith("item_")]
    assert len(in_pandas(result.per_user)) == 2 * N_USERS
    compared = srm.compare(result, metrics=["ndcg@3"], correction="none")
    genres = [row for row in compared.rows if row["slice"] == "genres"]
    means = {key: row for (name, _), own in found.items() if name == "genres" for key, row in own.items()}
    assert len(genres) == len({row["slice_value"] for row in genres}) >= 3
    assert means
    for row in genres:
        values = [found["genres", row["slice_value"]][model, "ndcg@3"] for model in ("a", "b")]
        if values[0]["n_users"] == values[1]["n_users"] == row["n_users"]:
            assert (row["mean_a"], row["mean_b"]) == pytest.approx(tuple(value["value"] for value in values), abs=1e-12)
            ci = [value for value in values if value["ci_method"] == "bootstrap"]
            assert all(value["ci_low"] <= value["value"] <= value["ci_high"] for value in ci)


@pytest.mark.core
def test_only_judged_items_of_a_slice_compete_and_ids_are_texts(session):
    """By hand: of genre X, a is relevant and c is not, a stands first, and b of genre Y above both is no part of it."""
    predictions = session.createDataFrame(
        [("u", "b", 3.0), ("u", "a", 2.0), ("u", "c", 1.0)], "user_id string, item_id string, score double"
    )
    truth = session.createDataFrame(
        [("u", "b", 5.0, 1.0), ("u", "a", 5.0, 1.0), ("u", "c", 1.0, 1.0)],
        "user_id string, item_id string, rating double, propensity double",
    )
    groups = session.createDataFrame([("a", "X"), ("b", "Y"), ("c", "X")], "item_id string, genre string")
    result = srm.evaluate(
        predictions,
        truth,
        metrics=["auc(candidates=unseen)", "dr", "mrr"],
        k=None,
        convention="threshold",
        train=session.createDataFrame([("u", "z")], "user_id string, item_id string"),
        catalog=5,
        item_groups=groups,
        slices=["genre"],
    )
    values = {row["metric"]: row["value"] for row in result.rows if row["slice_value"] == "X"}
    # Doubly robust: the predicted scores 2 and 1, and what the ratings 5 and 1 differ from them.
    assert values == {"auc(candidates=unseen)": 1.0, "ctr(estimator=dr)": pytest.approx((2 + 3 + 1 + 0) / 2), "mrr": 1.0}
    # Lists that are cut come to Python another way; there a is the second of all.
    cut = srm.evaluate(predictions, truth, metrics="mrr", k=2, item_groups=groups, slices=["genre"])
    assert [row["value"] for row in cut.rows if row["slice_value"] == "X"] == [0.5]


@pytest.mark.heavy
def test_errors_of_ratings_that_stand_apart_have_no_slice_of_items(session):
    rows = data()
    tables = frames(session, rows)
    tables["rating_predictions"] = tables["predictions"]
    tables["item_groups"] = session.createDataFrame(ITEMS, "item_id int, parity string, genres array<string>")
    result = srm.evaluate(**tables, metrics=["ndcg@3", "rmse"], threshold=3.0, slices=["parity", "gender"])
    by_slice = {}
    for row in result.rows:
        by_slice.setdefault(row["slice"], set()).add(row["metric"])
    assert by_slice == {"all": {"ndcg@3", "rmse"}, "parity": {"ndcg@3"}, "gender": {"ndcg@3", "rmse"}}


def test_models_are_compared_in_every_slice(session, evaluated):
    rows, result = evaluated
    found = srm.compare(result, metrics=["ndcg@3", "rmse"], test="bootstrap", n_resamples=300, seed=2)
    whole = srm.compare(result, metrics=["ndcg@3", "rmse"], correction="none")
    assert [row["slice"] for row in found.rows[:2]] == ["all", "all"]
    per_user = in_pandas(result.per_user)
    per_user["value"] = [value_of(rows, "gender", user) for user in per_user["user"]]
    for row in whole.rows:
        if row["slice"] not in ("all", "gender"):
            continue
        own = per_user if row["slice"] == "all" else per_user[per_user["value"] == row["slice_value"]]
        own = own[own["n_relevant"] > 0] if row["metric"] == "ndcg@3" else own
        wide = own.set_index(["user", "model"])[parse(row["metric"]).slug]
        expected = srm.stats.paired_t_test(*(wide.xs(model, level="model").sort_index() for model in "ab"))
        assert row["n_users"] == expected.n
        assert row["diff"] == pytest.approx(expected.mean_difference, abs=1e-12)
        if row["slice"] != "all" and expected.n < 7:
            assert (row["p_value"], row["winner"], row["reason"]) == (None, None, "small_slice")
        else:
            assert row["p_value"] == pytest.approx(expected.p_value, abs=1e-9)
    assert any(row["reason"] == "small_slice" for row in whole.rows)
    drawn = [row for row in found.rows if row["slice"] == "gender" and row["slice_value"] == "F"]
    assert all(row["p_value"] is not None and row["ci_low"] < row["diff"] < row["ci_high"] for row in drawn)


def test_a_further_slice_changes_no_other_p(session, evaluated):
    _, result = evaluated
    found = srm.compare(result, metrics=["ndcg@3", "rmse"])
    for name in ("all", *SLICES):
        family = [row for row in found.rows if row["slice"] == name]
        assert [row["p_adjusted"] for row in family] == srm.stats.adjust([row["p_value"] for row in family], "holm")
    assert "gender" in str(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slices": ["gendre"]}, "slices: gendre: no column 'gendre' in user_segments; did you mean 'gender'?"),
        ({"slices": ["gender", "gender"]}, "slices: expected each slice once, found gender twice"),
        ({"slices": ["all"]}, "slices: all: expected another name, because results use it for all users: rename the column"),
        ({"slices": "gender"}, "slices: expected a list of slices such as ['gender', 'age(18, 35)'], found 'gender'"),
        ({"slices": ["gender"], "min_users": 0}, "min_users: expected an integer of at least 1"),
        ({"slices": ["gender(1, 2)"]}, "expected a number, because the slice has edges, found string, e.g. '"),
        (
            {"slices": ["gender"], "user_segments": None},
            "slices: gender needs user_segments or item_groups, a table with a row for each",
        ),
        ({"slices": ["activity"], "train": None}, "slices: activity needs train, or a column of that name in user_segments"),
        (
            {"slices": ["gender*popularity"]},
            "slices: gender*popularity: expected columns of users or columns of items, found both",
        ),
        (
            {"slices": ["popularity"], "metrics": ["rmse"]},
            "slices: popularity: expected a ranking metric, found none: item slices need one",
        ),
        ({"intervals": "normla"}, "intervals: method: unknown method 'normla'; did you mean 'normal'?"),
    ],
)
def test_what_is_wrong_with_slices_is_told(session, change, message):
    with pytest.raises((ConfigError, DataError)) as caught:
        srm.evaluate(**{**frames(session, data()), "metrics": ["hit@1"], **change})
    assert message in str(caught.value)


def test_a_user_with_two_rows_of_segments_is_refused(session):
    rows = data()
    tables = frames(session, (*rows[:3], [*rows[3], (7, "F", 3, True)]))
    with pytest.raises(DataError) as caught:
        srm.evaluate(**tables, metrics=["hit@1"], slices=["gender"])
    assert str(caught.value).startswith("user_segments: expected one row for each user, found 1 more, e.g. users 7: ")


@pytest.mark.heavy
@pytest.mark.spark
def test_users_of_another_type_are_refused_or_cast(spark):
    tables = frames(spark, data())
    tables["user_segments"] = tables["user_segments"].withColumn("user_id", tables["user_segments"]["user_id"].cast("string"))
    with pytest.raises(DataError) as caught:
        srm.evaluate(**tables, metrics=["hit@1"], slices=["gender"])
    assert "string in user_segments" in str(caught.value)
    result = srm.evaluate(**tables, metrics=["hit@1"], slices=["gender"], cast_ids="string")
    assert {row["slice_value"] for row in result.rows} == {"all", "F", "M", "(none)"}


def test_segments_that_no_slice_looks_at_are_told(session):
    result = srm.evaluate(**frames(session, data()), metrics=["hit@1"])
    assert "user_segments is not used by any of the slices or metrics" in result.warnings


def test_too_many_values_are_refused():
    with pytest.raises(DataError) as caught:
        check_values("slices", Slice.parse("zip"), 5000)
    assert str(caught.value) == (
        "slices: zip: expected at most 1000 values, found 5000: "
        "give edges to numbers, as in 'age(18, 35)', or group the values first"
    )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("gender", "gender"),
        (" gender * age( 18,35.0 ) ", "gender*age(18, 35)"),
        ("`a*b`", "`a*b`"),
        ("`back``tick` * x", "`back``tick`*x"),
        ("is new", "is new"),
        ("score(-0.5, 0.5)", "score(-0.5, 0.5)"),
        ("signup(20230101, 1700003600)", "signup(20230101, 1700003600)"),
        ("land.größe", "land.größe"),
    ],
)
def test_texts_of_slices_round_trip(text, canonical):
    one = Slice.parse(text)
    assert str(one) == canonical
    assert Slice.parse(canonical) == one


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        None,
        3,
        "a*",
        "*a",
        "a**b",
        "a(",
        "a()",
        "a(x)",
        "a(1, 1)",
        "a(2, 1)",
        "a(nan)",
        "a(inf)",
        "a*a",
        "a)b",
        "\ud800",
    ],
)
def test_other_texts_are_no_slices(text):
    with pytest.raises(ConfigError):
        Slice.parse(text)


def test_columns_that_would_collide_are_refused():
    with pytest.raises(ConfigError) as caught:
        parse_slices(["a b", "a.b"])
    names = ["年齢", "性別", "r(-5)", "r(5)", "t(1.5)", "t(1, 5)"]
    assert len({band.column for one in parse_slices(names) for band in one.bands}) == len(names)
    assert "expected columns whose names differ in letters or digits" in str(caught.value)


def test_a_column_of_the_caller_named_activity_is_taken():
    activity = parse_slices(["activity"])
    assert by_side(activity, {"user": ["activity"], "item": None}, trained=False) == {"user": activity, "item": ()}
    assert by_side(activity, {"user": ["other"], "item": ["activity"]}, trained=True) == {"user": (), "item": activity}
    with pytest.raises(ConfigError):
        by_side(activity, {"user": ["other"], "item": None}, trained=False)


def test_values_of_several_columns_are_joined_and_ordered():
    one = Slice.parse("g*n(2, 10)")
    rows = pd.DataFrame({"slice_g": ["b", "a", None, "a"], "slice_n_2_10": [">=10", "2..<10", "<2", ">=10"]})
    code, values = slice_values(one, rows)
    assert [values[number] for number in code] == ["b & >=10", "a & 2..<10", "(none) & <2", "a & >=10"]
    found = in_order([one], {(str(one), value): None for value in values})
    assert [value for _, value in found] == ["a & 2..<10", "a & >=10", "b & >=10", "(none) & <2"]


def test_values_that_differ_behind_a_null_character_are_different():
    one, names = Slice.parse("g"), ["a\0y", "a\0x", "a\0y"]
    code, values = slice_values(one, pd.DataFrame({"slice_g": names}))
    assert [values[number] for number in code] == names
    rows = pd.DataFrame({ITEM_SLICE: "g", ITEM_VALUE: names, "n": [1, 2, 3]})
    _, *of_items = grouped(rows, [one])
    assert [own["n"].tolist() for own, _ in of_items] == [[2], [1, 3]]


@pytest.mark.heavy
def test_one_user_has_no_resampled_interval_of_width_zero(session):
    predictions = session.createDataFrame([("a", 1, 1, 1.0)], "model string, user_id int, item_id int, score double")
    truth = session.createDataFrame([(1, 1, 5.0)], "user_id int, item_id int, rating double")
    result = srm.evaluate(predictions, truth, metrics=["hit@1", "rmse"], intervals="bootstrap")
    assert [(row["value"], row["ci_low"], row["ci_method"]) for row in result.rows] == [(1.0, None, None), (4.0, None, None)]


@pytest.mark.heavy
def test_intervals_cover_the_true_value_in_95_of_100_data_sets():
    """500 data sets of 200 users each, whose values are skewed; the mean, and the root of a pooled mean."""
    convention, intervals = srm.convention("default"), srm.Intervals("bootstrap", n_resamples=400)
    sliced = Sliced((), (parse("ndcg@10"), parse("rmse")), convention, intervals)
    chance = np.random.default_rng(11)
    n_users, covered = 200, np.zeros(2, dtype=int)
    for _ in range(500):
        pairs = chance.integers(1, 6, n_users)
        squares = chance.gamma(pairs / 2.0, 2.0)
        rows = pd.DataFrame(
            {
                "model": "m",
                "user": np.arange(n_users),
                "user_hash": chance.integers(-(2**63), 2**63, n_users),
                **dict.fromkeys(["n_relevant", "n_truth", "n_recommended", "n_tied_at_cut", "n_matched"], 1),
                **dict.fromkeys(["n_duplicates", "n_truth_duplicates", "n_rank_faults", "n_negative_gains"], 0),
                **dict.fromkeys(["n_beyond_catalog", "n_beyond_length", "n_pair_duplicates"], 0),
                "ndcg_at_10": chance.beta(0.5, 1.5, n_users),
                "n_pairs": pairs.astype(float),
                "sum_squared_error": squares,
                **dict.fromkeys(["sum_absolute_error", "sum_error", "sum_rating", "sum_squared_rating", "rmse"], 1.0),
            }
        )
        parts = pd.concat(part_slices(rows, sliced))
        for place, truth in enumerate((0.25, 1.0)):
            low, high = whole_slice(parts[parts["metric"] == place], sliced)[["ci_low", "ci_high"]].iloc[0]
            covered[place] += low <= truth <= high
    assert (covered >= 0.93 * 500).all(), covered
    assert (covered <= 0.97 * 500).all(), covered


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_slices_of_a_configuration(spark, tmp_path, capsys):
    for name, frame in frames(spark, data()).items():
        frame.write.parquet(str(tmp_path / name))
    conf = tmp_path / "conf.json"
    options = {"metrics": ["ndcg@3", "rmse"], "threshold": 3, "slices": ["gender", "age(10, 20)"], "min_users": 7}
    written = {
        "inputs": {name: {"path": str(tmp_path / name)} for name in ("predictions", "truth", "user_segments")},
        "evaluation": {**options, "intervals": {"method": "bootstrap", "n_resamples": 100}},
        "comparison": {"correction": "none"},
        "output": {"path": str(tmp_path / "out")},
    }
    conf.write_text(json.dumps(written))
    assert main(["evaluate", "--config", str(conf)]) == 0
    printed = capsys.readouterr().out
    assert "\nndcg@3 " in printed
    assert "\nage = >=20 " in printed
    assert "~ too few users for a conclusion" in printed
    summary = srm.read_history(spark, tmp_path / "out").toPandas()
    assert set(summary["slice"]) == {"all", "gender", "age(10, 20)"}
    assert set(summary["ci_method"].dropna()) == {"bootstrap"}
    compared = srm.read_history(spark, tmp_path / "out", table="comparison").toPandas()
    assert set(compared["slice"]) == {"all", "gender", "age(10, 20)"}
    again = ["compare", "--config", str(conf), "--set", "comparison.test=sign"]
    assert main([*again, "--result-json", str(tmp_path / "result.json")]) == 0
    told = json.loads((tmp_path / "result.json").read_text())
    assert told["run_id"] == summary["run_id"][0]
    per_user = srm.read_history(spark, tmp_path / "out", table="per_user").toPandas()
    assert {(row["slice"], row["slice_value"]) for row in told["comparison"]} >= {
        ("all", "all"),
        ("gender", "F"),
        ("gender", "M"),
    }
    assert {row["slice"] for row in told["comparison"]} == {"all", "gender", "age(10, 20)"}
    for row in (row for row in told["comparison"] if row["slice"] != "age(10, 20)"):
        own = per_user[(per_user["n_relevant"] > 0) | (row["metric"] == "rmse")]
        own = own[(own["slice_gender"] == row["slice_value"]) | (row["slice"] == "all")]
        values = own.set_index(["user", "model"])[parse(row["metric"]).slug]
        expected = srm.stats.sign_test(*(values.xs(model, level="model").sort_index() for model in "ab"))
        assert (row["test"], row["n_users"]) == ("sign", expected.n)
        if row["reason"] is None:
            assert row["p_value"] == pytest.approx(expected.p_value, abs=1e-12)
    assert main(["compare", "--config", str(conf), "--set", "evaluation.threshold=2"]) == 4
    assert "expected the convention of the configuration, default(relevance=threshold, threshold=2)" in capsys.readouterr().err
    assert main(["compare", "--config", str(conf), "--set", "comparison.baseline=gone"]) == 4
    assert "expected the baseline 'gone' among its models, found " in capsys.readouterr().err
    assert main(["compare", "--config", str(conf), "--run", "r000000000000"]) == 4
    assert "expected run r000000000000 as of none with ndcg@3, rmse, found none" in capsys.readouterr().err


def test_values_of_several_columns_are_told_apart_whatever_stands_in_them():
    (one,) = parse_slices(["a*b"])
    columns = [band.column for band in one.bands]
    pairs = [("x & y", "z"), ("x", "y & z"), ("x &", "y"), ("x", "& y"), ("x\\", "y"), ("x", "y")]
    code, values = slice_values(one, pd.DataFrame(pairs, columns=columns))
    assert len(set(values)) == len(pairs)
    assert [values[number] for number in code][:2] == [r"x \& y & z", r"x & y \& z"]
    # They are ordered by what stands in them, not by the backslash.
    assert [known[3] for known in one.sort_key(r"x \& y & 35")[:2]] == ["x & y", "35"]


def test_a_table_with_other_ids_is_noticed(session):
    lists = session.createDataFrame([("a", "x", 2.0), ("b", "y", 1.0)], "user_id string, item_id string, score double")
    truth = session.createDataFrame([("a", "x"), ("b", "x")], "user_id string, item_id string")
    others = {
        "user_segments": session.createDataFrame([("A", "f")], "user_id string, gender string"),
        "item_groups": session.createDataFrame([("X", "g")], "item_id string, genre string"),
        "train": session.createDataFrame([("A", "X")], "user_id string, item_id string"),
    }
    slices = ["gender", "genre", "activity", "gender*activity"]
    result = srm.evaluate(lists, truth, metrics="hit", k=1, slices=slices, n_buckets=2, **others)
    assert [line for line in result.warnings if line.startswith("slices: ")] == [
        "slices: gender: no user of the ground truth has a value in user_segments",
        "slices: activity: no user of the ground truth has training rows in train",
        "slices: genre: no item of the ground truth has a value in item_groups",
    ]
    same = session.createDataFrame([("a", "f")], "user_id string, gender string")
    result = srm.evaluate(lists, truth, metrics="hit", k=1, slices=["gender"], n_buckets=2, user_segments=same)
    assert not [line for line in result.warnings if line.startswith("slices: ")]
