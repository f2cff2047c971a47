"""Every feature of an evaluation, worked by hand, on both engines. Random tables are in `test_engines_agree.py`."""

from __future__ import annotations

import csv
import math
import statistics
from decimal import Decimal
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from engines import PANDAS, POLARS, PYARROW, Engine, Table, by_key, on_spark, records

import spark_recmetrics as srm
from spark_recmetrics.decisions.gates import Gate, check_gates
from spark_recmetrics.inputs.hashing import xxhash64
from spark_recmetrics.stats.resample import poisson_weights

LOG2_3 = math.log2(3)
LISTS = "user_id bigint, item_id bigint, score double"


@pytest.fixture(
    scope="module", params=[pytest.param(None, id="memory"), pytest.param("_session", id="spark", marks=pytest.mark.spark)]
)
def engine(request) -> Engine:
    return PANDAS if request.param is None else on_spark(request.getfixturevalue(request.param))


def values(result, model="model"):
    return result.to_dict()[model]


def close(value):
    return None if value is None else pytest.approx(float(value), rel=1e-12, abs=1e-12)


def rows_of(frame, *key):
    return by_key(records(frame), key)


# Two drifts of the former in-memory evaluation ------------------------------------------------------------------------------


def test_a_null_rating_is_not_relevant_under_truthy(engine):
    predictions = Table(LISTS, [(1, 7, 0.9), (1, 8, 0.8), (2, 7, 0.9), (2, 8, 0.8)])
    truth = Table("user_id bigint, item_id bigint, rating double", [(1, 7, None), (1, 8, 1.0), (2, 8, 1.0)])
    rules = {"relevance": "truthy", "nan_scores": "last"}
    result = engine.evaluate({"predictions": predictions, "truth": truth}, metrics="mrr", k=2, convention=rules)
    assert values(result) == {"mrr@2": 0.5}


def test_items_break_ties_in_the_convention_threshold(engine):
    predictions = Table(LISTS, [(1, 8, 0.5), (1, 7, 0.5)])
    truth = Table("user_id bigint, item_id bigint, rating double", [(1, 7, 5.0), (1, 8, 1.0)])
    result = engine.evaluate({"predictions": predictions, "truth": truth}, metrics="precision", k=1, convention="threshold")
    assert values(result) == {"precision@1": 1.0}


def test_judged_items_of_a_slice_are_ranked_among_themselves(engine):
    predictions = Table(LISTS, [(1, 7, 0.9), (1, 8, 0.8)])
    truth = Table("user_id bigint, item_id bigint, rating double", [(1, 7, 0.0), (1, 8, 5.0)])
    groups = Table("item_id bigint, genre string", [(7, "war"), (8, "love")])
    tables = {"predictions": predictions, "truth": truth, "item_groups": groups}
    result = engine.evaluate(tables, metrics="mrr", k=2, convention="threshold", slices=["genre"])
    assert {row["slice_value"]: row["value"] for row in result.rows} == {"all": 0.5, "love": 1.0, "war": 0.0}


def test_a_negative_zero_is_reported_as_zero(engine):
    truth = Table("user_id bigint, item_id bigint, rating double", [(1, 7, -0.0), (1, 8, 5.0)])
    result = engine.evaluate({"predictions": Table(LISTS, [(1, 7, 0.9)]), "truth": truth}, metrics="mrr", k=2)
    (rows,) = [check for check in result.data_checks if (check.check, check.table) == ("rows", "truth")]
    assert rows.example == "ratings 0 to 5"


# One evaluation with everything ---------------------------------------------------------------------------------------------
#
# Lists of two: als gives user 1 a b, user 2 b a, user 3 c; pop gives users 1, 2 and 3 a b. Relevant are a c; a; b; and a for
# user 4, whom no model serves.
ALS = [
    ("als", 1, "a", 0.9),
    ("als", 1, "b", 0.8),
    ("als", 1, "c", 0.7),
    ("als", 2, "b", 0.9),
    ("als", 2, "a", 0.1),
    ("als", 3, "c", 0.6),
]
POP = [("pop", user, item, score) for user in (1, 2, 3) for item, score in (("a", 3.0), ("b", 2.0))]
TABLES = {
    "predictions": Table("model string, user_id bigint, item_id string, score double", [*ALS, *POP]),
    "truth": Table(
        "user_id bigint, item_id string, rating double",
        [(1, "a", 5.0), (1, "c", 4.0), (1, "d", 1.0), (2, "a", 4.0), (3, "b", 5.0), (4, "a", 5.0)],
    ),
    "train": Table("user_id bigint, item_id string", [(1, "e"), (1, "b"), (2, "b"), (3, "b"), (3, "e")]),
    "catalog": Table("item_id string", [(item,) for item in "abcde"]),
    "user_segments": Table("user_id bigint, gender string, age double", [(1, "F", 17.0), (2, "M", 18.0), (3, "F", None)]),
    "item_groups": Table("item_id string, genre array<string>", [("a", ["x"]), ("b", ["x", "y"]), ("c", ["y"])]),
    "item_features": Table(
        "item_id string, features array<double>, categories array<string>",
        [("a", [1.0, 0.0], ["x"]), ("b", [3.0, 4.0], ["x", "y"]), ("c", [0.0, 1.0], ["y"])],
    ),
}
METRICS = [
    *("precision", "recall", "mrr", "ild", "srecall", "unexpectedness", "novelty", "arp", "item_coverage", "reo(groups=genre)"),
    *("user_mad_ranking(groups=gender)", "bias_disparity_br(users=gender, items=genre)", "unseen"),
]
OPTIONS = {
    "metrics": METRICS,
    "k": 2,
    "threshold": 4,
    "baseline": "pop",
    "slices": ["gender", "age(18)", "activity(1, 2)", "genre"],
    "min_users": 1,
    "objectives": {"mrr": {}, "item_coverage": {"nadir": 0}},
    "run": srm.Run(run_id="r1", as_of="2026-11-28", job="nightly"),
}


@pytest.fixture(scope="module")
def everything(engine):
    result = engine.evaluate(TABLES, **OPTIONS)
    yield result
    result.release()


def test_values_over_all_users(everything):
    als = {
        "precision@2": Fraction(1, 4),
        "recall@2": Fraction(1 + 2, 8),
        "mrr@2": Fraction(1 + Fraction(1, 2), 4),
        # The cosine of a and b is 3/5; user 3 has one item and user 4 none.
        "ild@2": Fraction(2, 5),
        # Both categories are in the lists of users 1 and 2, and one in that of user 3.
        "srecall@2": Fraction(1 + 1 + Fraction(1, 2) + 0, 4),
        # Lists of als without items of pop: none, none, c.
        "unexpectedness@2": Fraction(0 + 0 + 1, 3),
        # Users 1 and 2 have a of none and b of 3 training rows; c has none. An item without a row counts as one user of three.
        "arp@2": Fraction(Fraction(3, 2) + Fraction(3, 2) + 0, 3),
        "novelty@2": Fraction(LOG2_3 / 2 + LOG2_3 / 2 + LOG2_3) / 3,
        "item_coverage@2": Fraction(3, 5),
        "unseen@2": Fraction(Fraction(1, 2) + Fraction(1, 2) + 1, 3),
    }
    found = values(everything, "als")
    assert {name: found[name] for name in als} == {name: close(value) for name, value in als.items()}
    pop = {
        "precision@2": Fraction(3, 8),
        "recall@2": Fraction(5, 8),
        "mrr@2": Fraction(1 + 1 + Fraction(1, 2), 4),
        "ild@2": Fraction(2, 5),
        "unexpectedness@2": 0,
        "item_coverage@2": Fraction(2, 5),
    }
    found = values(everything, "pop")
    assert {name: found[name] for name in pop} == {name: close(value) for name, value in pop.items()}


def test_normal_confidence_intervals(everything):
    row = next(row for row in everything.rows if (row["model"], row["slice"], row["metric"]) == ("als", "all", "mrr@2"))
    each = [1, 1 / 2, 0, 0]
    half = NormalDist().inv_cdf(0.975) * statistics.stdev(each) / 2
    assert row["std"] == close(statistics.stdev(each))
    assert (row["ci_low"], row["ci_high"], row["ci_method"]) == (close(3 / 8 - half), close(3 / 8 + half), "normal")
    assert (row["n_users"], row["n_undefined"], row["run_id"], row["as_of"], row["job"]) == (
        4,
        0,
        "r1",
        "2026-11-28",
        "nightly",
    )


# Of (none) and of <1, user 4 alone is a member, whom als gives no list.
SLICED = {
    ("gender", "F"): (Fraction(1, 2), 2),
    ("gender", "M"): (Fraction(1, 2), 1),
    ("gender", "(none)"): (None, 0),
    ("age(18)", "<18"): (1, 1),
    ("age(18)", ">=18"): (Fraction(1, 2), 1),
    ("age(18)", "(none)"): (0, 2),
    ("activity(1, 2)", "<1"): (None, 0),
    ("activity(1, 2)", "1..<2"): (Fraction(1, 2), 1),
    ("activity(1, 2)", ">=2"): (Fraction(1, 2), 2),
    # Relevant items of genre x: a for users 1, 2 and 4, b for user 3. Of genre y: c for user 1, b for user 3.
    ("genre", "x"): (Fraction(1 + Fraction(1, 2), 4), 4),
    ("genre", "y"): (0, 2),
    ("genre", "(none)"): (None, 0),
}


def test_slices_of_users_and_items(everything):
    rows = [row for row in everything.rows if row["model"] == "als" and row["metric"] == "mrr@2" and row["slice"] != "all"]
    found = {(row["slice"], row["slice_value"]): (row["value"], row["n_users"]) for row in rows}
    assert found == {key: (close(value), n) for key, (value, n) in SLICED.items()}
    assert list(found) == list(SLICED), "in the order of the slices and their values"


def test_pairs_of_groups_are_slices(everything):
    pairs = {
        (row["model"], row["slice_value"]): row["value"]
        for row in everything.rows
        if row["slice"] == "gender*genre" and row["metric"].startswith("bias_disparity_br")
    }
    # Of the three items in the lists of F, which are a, b and c, two have genre x; so have two of the three items of the table.
    assert pairs["als", "F & x"] == close(Fraction(2, 3) / Fraction(2, 3))
    assert set(pairs) == {(model, f"{user} & {item}") for model in ("als", "pop") for user in "FM" for item in "xy"}


def test_per_user(everything):
    rows = rows_of(everything.per_user, "model", "user")
    assert set(rows) == {(model, user) for model in ("als", "pop") for user in (1, 2, 3, 4)}
    als = [rows["als", user] for user in (1, 2, 3, 4)]
    assert [row["mrr_at_2"] for row in als] == [1, 0.5, 0, 0]
    assert [row["ild_at_2"] for row in als] == [close(2 / 5), close(2 / 5), None, None]
    assert [row["slice_gender"] for row in als] == ["F", "M", "F", "(none)"]
    counters = ("n_relevant", "n_truth", "n_recommended", "n_matched")
    assert [tuple(row[name] for name in counters) for row in als] == [(2, 3, 2, 1), (1, 1, 2, 1), (1, 1, 1, 0), (1, 1, 0, 0)]


def test_summary_and_data_report_are_tables_of_the_engine(everything):
    key, without = ("model", "slice", "slice_value", "metric"), ("computed_at",)
    assert by_key(records(everything.summary), key, without) == by_key(everything.rows, key, without)
    assert list(records(everything.summary)[0]) == list(everything.rows[0])
    assert records(everything.data_report) == [check._asdict() for check in everything.data_checks]


def test_data_checks_and_warnings(everything):
    found = {
        (check.check, check.table): (check.level, check.n_rows, check.share, check.example) for check in everything.data_checks
    }
    assert found["rows", "predictions"] == ("info", 12, None, None)
    assert found["rows", "truth"] == ("info", 6, None, "ratings 1 to 5")
    assert found["relevant", "truth"] == ("info", 5, close(5 / 6), "ratings 1 to 5")
    assert found["rows", "train"] == ("info", 5, None, None)
    assert found["users_without_list", "predictions/als"] == ("warn", 1, 0.25, "users 4")
    assert found["short_lists", "predictions/als"] == ("info", 1, close(1 / 3), "users 3")
    assert found["unknown_items", "predictions"] == ("info", 0, 0.0, None)
    assert everything.status == "ok"
    assert [line.partition(":")[0] for line in everything.warnings] == ["predictions/als", "predictions/pop"]
    assert everything.data_hash == "6bd8233ddaa59fcc"


def test_compare(everything):
    comparison = srm.compare(everything, baseline="als", metrics=["mrr@2"])
    row = comparison.rows[0]
    each = [0, 1 / 2, 1 / 2, 0]
    assert (row["model_a"], row["model_b"], row["n_users"], row["wins"], row["ties"]) == ("als", "pop", 4, 2, 2)
    assert row["diff"] == close(Fraction(1, 4))
    assert row["effect_size"] == close(statistics.mean(each) / statistics.stdev(each))
    sliced = {(row["slice"], row["slice_value"]): row["diff"] for row in comparison.rows}
    assert sliced["gender", "F"] == close(Fraction(1, 4))
    assert sliced["genre", "y"] == close(Fraction(0 + Fraction(1, 2), 2))


def test_explain(everything):
    explanation = everything.explain(2)
    added = [(row["model"], row["item"], row["rank"], row["hit"], row["mrr@2"]) for row in explanation.rows]
    assert added == [("als", "b", 1, False, 0), ("als", "a", 2, True, 0.5), ("pop", "a", 1, True, 1), ("pop", "b", 2, False, 0)]
    missed = everything.explain(1, "pop").missed
    assert [(row["item"], row["rating"], row["rank"]) for row in missed] == [("c", 4.0, None)]
    with pytest.raises(srm.DataError, match=r"user '5' is in neither"):
        everything.explain(5)


def test_score_calibration(everything):
    bins = [row for row in everything.score_calibration(2) if row["model"] == "als"]
    assert [(row["score_low"], row["score_high"], row["n_rows"]) for row in bins] == [(0.1, 0.7, 3), (0.8, 0.9, 3)]
    # Of scores 0.1 (a of user 2), 0.6 (c of user 3) and 0.7 (c of user 1) two are relevant; of 0.8, 0.9 and 0.9 one is.
    assert [row["value"] for row in bins] == [close(Fraction(2, 3)), close(Fraction(1, 3))]
    assert [row["mean_score"] for row in bins] == [close(1.4 / 3), close(2.6 / 3)]


def test_gates(everything):
    comparison = srm.compare(everything, baseline="als", metrics=["mrr@2"])
    gates = [Gate("mrr@2", min=0.5), Gate("mrr@2", max_drop=0, against="model(als)", significant=True)]
    results = check_gates(gates, everything.rows, comparison=comparison.rows)
    assert [(row.model, row.result, row.value) for row in results] == [
        ("als", "fail", close(3 / 8)),
        ("pop", "pass", close(5 / 8)),
        ("pop", "pass", close(5 / 8)),
    ]


def test_reports(everything, tmp_path):
    comparison = srm.compare(everything, baseline="als", metrics=["mrr@2"])
    html = everything.to_html(tmp_path / "report.html", comparison=comparison).read_text(encoding="utf-8")
    assert "0.3750" in html
    markdown = everything.to_markdown(comparison=comparison)
    assert "| mrr@2 | 4 | 0.3750" in markdown
    with everything.to_csv(tmp_path / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(everything.rows)
    assert [row["value"] for row in rows if row["metric"] == "mrr@2" and row["slice"] == "all"] == ["0.375", "0.625"]
    assert everything.to_json(tmp_path / "result.json").exists()
    assert "evaluated users: als 4, pop 4" in str(everything)


def test_pareto(everything):
    assert [(standing.model, standing.optimal) for standing in everything.pareto()] == [("als", True), ("pop", True)]


# Features that need an evaluation of their own ------------------------------------------------------------------------------


def test_bootstrap_confidence_intervals(engine):
    tables = {name: TABLES[name] for name in ("predictions", "truth", "user_segments")}
    intervals = srm.Intervals("bootstrap", n_resamples=100, seed=7, confidence=0.9)
    options = {"metrics": ["mrr", "item_coverage"], "k": 2, "threshold": 4, "catalog": 5, "slices": ["gender"], "min_users": 1}
    result = engine.evaluate(tables, intervals=intervals, **options)
    weights = poisson_weights(xxhash64(Table("u bigint", [(1,), (2,), (3,), (4,)]).arrow()["u"]), 100, 7).astype(float)
    each = np.array([1, 0.5, 0, 0])
    found = {(row["slice_value"], row["metric"]): row for row in result.rows if row["model"] == "als"}
    for value, members in (("all", [0, 1, 2, 3]), ("F", [0, 2])):
        with np.errstate(invalid="ignore"):
            means = weights[:, members] @ each[members] / weights[:, members].sum(axis=1)
        low, high = np.quantile(means[~np.isnan(means)], [0.05, 0.95])
        row = found[value, "mrr@2"]
        assert (row["ci_low"], row["ci_high"], row["ci_method"]) == (close(low), close(high), "bootstrap")
    row = found["all", "item_coverage@2"]
    assert row["value"] == close(Fraction(3, 5))
    # Without a list that alone has c, which is that of user 3, coverage is lower by 1/5.
    assert row["ci_low"] < row["value"] < row["ci_high"]


FAULTY = {
    "predictions": Table(
        "user_id bigint, item_id bigint, score double",
        [(1, 7, 0.9), (1, 7, 0.5), (1, None, 0.8), (1, 8, math.inf), (2, 8, None), (2, 9, 0.3), (2, 99, 0.2), (None, 7, 0.1)],
    ),
    "truth": Table(
        "user_id bigint, item_id bigint, rating double", [(1, 7, 5.0), (1, 7, 4.0), (2, 9, None), (2, 8, 3.0), (2, None, 3.0)]
    ),
    "catalog": Table("item_id bigint", [(7,), (8,), (9,)]),
}


def test_faulty_rows_are_rejected(engine):
    with pytest.raises(srm.DataError) as rejected:
        engine.evaluate(FAULTY, metrics=["mrr", "rmse"], k=2)
    found = [line.partition(", for example")[0] for line in str(rejected.value).splitlines()]
    assert found == [
        "predictions: null_ids: 2 rows (25 %) with a null user, item or model",
        "predictions: nan_scores: 1 row (12.5 %) with a NaN or null score",
        "predictions: infinite_scores: 1 row (12.5 %) with an infinite score, which is not a predicted rating",
        "truth: null_ids: 1 row (20 %) with a null user, item or model",
        "truth: nan_ratings: 1 row (20 %) with a NaN, null or infinite rating",
        "truth: truth_duplicates: 1 repeated row of the same user and item",
        "predictions/model: duplicates: 1 repeated recommendation of the same model, user and item",
        "predictions/model: pair_duplicates: 1 repeated predicted rating of the same model, user and item",
    ]


def test_faulty_rows_are_dropped_by_policies(engine):
    checks = {"null_ids": "drop", "infinite_scores": "drop", "unknown_items": "drop"}
    rules = {"duplicates": "first", "nan_scores": "drop"}
    result = engine.evaluate(FAULTY, metrics=["mrr", "precision", "rmse"], k=2, checks=checks, convention=rules)
    # User 1 has 7, which is relevant; user 2 has 9 of no rating, and misses 8.
    assert values(result) == {"mrr@2": 0.5, "precision@2": 0.25, "rmse": close(5 - 0.9)}
    found = {(check.check, check.table): (check.level, check.n_rows) for check in result.data_checks if check.n_rows}
    assert found["null_ids", "predictions"] == ("warn", 2)
    assert found["unknown_items", "predictions"] == ("warn", 1)
    assert found["duplicates", "predictions/model"] == ("warn", 1)
    assert found["truth_duplicates", "truth"] == ("warn", 1)


def test_the_score_of_the_best_rank_counts(engine):
    """The repeat at rank 2 has a score, the first row of the item has none: the item has no predicted rating."""
    columns, schema = srm.Columns(rank="rank"), "user_id int, item_id int, score double, rank int"
    tables = {
        "predictions": Table(schema, [(1, 7, None, 1), (1, 7, 4.0, 2), (1, 8, 3.0, 3)]),
        "truth": Table("user_id int, item_id int, rating double", [(1, 7, 5.0), (1, 8, 1.0)]),
    }
    rules = {"duplicates": "first", "nan_scores": "last"}
    result = engine.evaluate(tables, metrics=["mae"], convention=rules, columns=columns)
    assert values(result) == {"mae": 2.0}


def test_ids_of_different_types(engine):
    tables = {
        "predictions": Table("user_id int, item_id string, score double", [(1, "10", 0.9), (2, "7", 0.8)]),
        "truth": Table("user_id bigint, item_id bigint", [(1, 10), (2, 7)]),
    }
    with pytest.raises(srm.DataError) as rejected:
        engine.evaluate(tables, metrics="mrr", k=1)
    assert str(rejected.value) == (
        "column 'item_id' (columns.item): expected one type on all sides, found string in predictions, bigint in truth: "
        "cast one of them first, or set cast_ids to string"
    )
    assert values(engine.evaluate(tables, metrics="mrr", k=1, cast_ids="string")) == {"mrr@1": 1.0}


def test_rating_predictions(engine):
    tables = {
        "predictions": Table("model string, user_id bigint, item_id bigint, rank int", [("m", 1, 7, 1), ("m", 2, 8, 1)]),
        "rating_predictions": Table(
            "model string, user_id bigint, item_id bigint, score float",
            [("m", 1, 7, 4.5), ("m", 1, 8, 2.0), ("m", 2, 8, 3.0), ("m", 3, 8, 3.0), ("other", 1, 7, 9.0)],
        ),
        "truth": Table("user_id bigint, item_id bigint, rating int", [(1, 7, 5), (1, 8, 1), (2, 8, 3)]),
    }
    options = {"columns": srm.Columns(rank="rank"), "models": ["m"], "k": 1}
    result = engine.evaluate(tables, metrics=["mrr", "mae", "rmse", "rmse(average=per_user)"], **options)
    found = values(result, "m")
    assert found["mrr@1"] == 1
    assert found["mae"] == close((0.5 + 1 + 0) / 3)
    assert found["rmse"] == close(math.sqrt((0.25 + 1 + 0) / 3))
    assert found["rmse(average=per_user)"] == close(math.sqrt((0.25 + 1) / 2) / 2)
    assert [(row["item"], row["error"]) for row in result.explain(1).pairs] == [(7, -0.5), (8, 1.0)]


@pytest.mark.parametrize("form", ["plain", "structs"])
def test_arrays(engine, form):
    cells = {"plain": [["b", "a"], ["a", None], [], None], "structs": [[("b", 2.5), ("a", 1.0)], [("a", 2.0), None], [], None]}[
        form
    ]
    element = {"plain": "string", "structs": "struct<item_id:string,score:double>"}[form]
    tables = {
        "predictions": Table(f"user_id bigint, items array<{element}>", list(enumerate(cells, 1))),
        "truth": Table("user_id bigint, item_id string, rating double", [(1, "a", 2.0), (2, "a", 2.0), (3, "a", 1.0)]),
    }
    metrics = ["mrr"] if form == "plain" else ["mrr", "mae"]
    result = engine.evaluate(tables, metrics=metrics, k=2, checks={"null_ids": "drop"}, convention="default(nan_scores=drop)")
    assert values(result)["mrr@2"] == close(Fraction(1 + Fraction(1, 2), 3))
    if form == "structs":
        assert values(result)["mae"] == close((1 + 0) / 2)


def test_ids_of_each_type(engine):
    one, two = 9007199254740992, 9007199254740993
    for kind, ids in (
        ("bigint", (one, two)),
        ("string", ("x1", "ü-é")),
        ("decimal(20,2)", (Decimal("0.10"), Decimal("-7.00"))),
    ):
        lists = [(user, item, 1.0) for user, item in zip(ids, ids[::-1], strict=True)]
        tables = {
            "predictions": Table(f"user_id {kind}, item_id {kind}, score double", lists),
            "truth": Table(f"user_id {kind}, item_id {kind}", [(ids[0], ids[1]), (ids[1], ids[1])]),
        }
        result = engine.evaluate(tables, metrics="hit", k=1)
        assert values(result) == {"hit@1": 0.5}
        assert {row["user"]: row["hit_at_1"] for row in records(result.per_user)} == {ids[0]: 1, ids[1]: 0}


def test_empty_tables(engine):
    tables = {"predictions": Table(LISTS), "truth": Table("user_id bigint, item_id bigint, rating double", [(1, 7, 5.0)])}
    result = engine.evaluate(tables, metrics=["mrr", "rmse"], k=1)
    assert values(result) == {"mrr@1": None, "rmse": None}
    assert result.status == "undefined"
    assert result.emptiness[0].startswith("predictions: rows: the table is empty")


# Columns and arguments that cannot be used ----------------------------------------------------------------------------------

GOOD = {
    "predictions": Table(LISTS, [(1, 7, 0.9)]),
    "truth": Table("user_id bigint, item_id bigint, rating double", [(1, 7, 5.0)]),
}
REJECTED = {
    "no column": ({"truth": Table("user bigint, item_id bigint", [(1, 7)])}, {}),
    "a type": ({"truth": Table("user_id double, item_id bigint", [(1.5, 7)])}, {}),
    "a string": ({"truth": Table("user_id bigint, item_id bigint, rating string", [(1, 7, "5"), (1, 8, "n/a")])}, {}),
    "a decimal comma": ({"truth": Table("user_id bigint, item_id bigint, rating string", [(1, 7, "3,5")])}, {}),
    "no rows": ({"truth": Table("user_id bigint, item_id bigint, rating string")}, {}),
    "twins": ({"truth": Table("user_id bigint, USER_ID bigint, item_id bigint", [(1, 1, 7)])}, {}),
    "no ratings": ({"truth": Table("user_id bigint, item_id bigint", [(1, 7)])}, {"threshold": 4}),
    "no scores": ({"predictions": Table("user_id bigint, item_id bigint", [(1, 7)])}, {}),
    "no array of items": ({"predictions": Table("user_id bigint, items string", [(1, "7")])}, {}),
    "a model of lists": ({"predictions": Table(f"{LISTS}, model array<string>", [(1, 7, 0.9, ["a"])])}, {}),
    "a repeated user": (
        {"user_segments": Table("user_id bigint, age double", [(2, 1.0), (1, 1.0), (1, 2.0)])},
        {"slices": ["age(3)"]},
    ),
    "a slice of strings": ({"user_segments": Table("user_id bigint, age string", [(1, "old")])}, {"slices": ["age(3)"]}),
    "a slice of numbers": ({"user_segments": Table("user_id bigint, age double", [(1, 3.5)])}, {"slices": ["age"]}),
    "too many values": (
        {"user_segments": Table("user_id bigint, code string", [(n, str(n)) for n in range(1001)])},
        {"slices": ["code"]},
    ),
    "too many pairs of values": (
        {
            "user_segments": Table("user_id bigint, code string", [(n, str(n % 600)) for n in range(1200)]),
            "train": Table("user_id bigint, item_id bigint", [(n, 7) for n in range(600, 1200)]),
        },
        {"slices": ["code*activity(1)"]},
    ),
    "no vectors": ({"item_features": Table("item_id bigint, features string", [(7, "1, 2")])}, {"metrics": "ild"}),
    "vectors of strings": (
        {"item_features": Table("item_id bigint, features array<string>", [(7, ["1"])])},
        {"metrics": "ild"},
    ),
    "vectors of two lengths": (
        {"item_features": Table("item_id bigint, features array<double>", [(7, [1.0]), (8, [1.0, 2.0])])},
        {"metrics": "ild"},
    ),
    "an empty catalog": ({"catalog": Table("item_id bigint")}, {"metrics": "item_coverage"}),
    "no training rows": ({"train": Table("user_id bigint, item_id bigint")}, {"metrics": "arp"}),
    "an unknown baseline": ({}, {"metrics": "unexpectedness", "baseline": "pop"}),
    "models without a column": ({}, {"models": ["a", "b"]}),
    "an unknown metric": ({}, {"metrics": "ndgc"}),
    "an unknown slice": ({}, {"slices": ["age"]}),
    "no cut-off": ({}, {"k": 0}),
}
MESSAGES = {
    "no column": "truth: no column 'user_id' (columns.user); did you mean 'user'?",
    "a type": "truth: column 'user_id' (columns.user): expected an integer or a string as an id, found double: cast it first, "
    "integers to bigint, others to string; in a configuration, set types: {user_id: bigint}",
    "a string": "truth: column 'rating' (columns.rating): expected a number, found string, e.g. 'n/a' in truth: cast it first",
    "a decimal comma": (
        "truth: column 'rating' (columns.rating): expected a number, found string, e.g. '3,5' in truth, with a decimal comma: "
        "write decimal points, or configure the reader (docs/inputs.md#decimal-commas)"
    ),
    "no rows": "truth: expected rows, found none, so its columns are read as strings: check its location and filters",
    "twins": "truth: expected one column named 'user_id' (columns.user), in any case, found user_id, USER_ID",
    "a repeated user": "user_segments: expected one row for each user, found 1 more, e.g. users 1: remove the repeats",
    "a slice of strings": (
        "user_segments: column 'age': expected a number, because the slice has edges, found string, e.g. 'old' in "
        "user_segments: cast it first"
    ),
    "too many values": (
        "slices: code: expected at most 1000 values, found 1001: give edges to numbers, as in 'age(18, 35)', or group the "
        "values first"
    ),
    "too many pairs of values": (
        "slices: code*activity(1): expected at most 1000 values, found 1200: give edges to numbers, as in 'age(18, 35)', or "
        "group the values first"
    ),
    "an unknown baseline": "baseline: unknown model 'pop'; known: model",
}


@pytest.mark.parametrize("case", REJECTED)
def test_what_cannot_be_used_is_rejected_with_a_message(case):
    tables, options = REJECTED[case]
    message = rejection(PYARROW, tables, options)
    # pandas knows no types of columns without a value.
    assert case == "no rows" or message == rejection(PANDAS, tables, options) or case == "no array of items"
    assert message == rejection(POLARS, tables, options)
    if case in MESSAGES:
        assert message == f"DataError: {MESSAGES[case]}" or message == f"ConfigError: {MESSAGES[case]}"


@pytest.mark.spark
@pytest.mark.by_turns
@pytest.mark.parametrize("case", REJECTED)
def test_the_same_is_rejected_on_spark_with_the_same_message(spark, case):
    assert rejection(on_spark(spark), *REJECTED[case]) == rejection(PYARROW, *REJECTED[case])


def rejection(engine, tables, options):
    with pytest.raises(srm.RecMetricsError) as rejected:
        engine.evaluate({**GOOD, **tables}, **{"metrics": "mrr", "k": 1, **options})
    return f"{type(rejected.value).__name__}: {rejected.value}"


def test_a3_an_unknown_item_is_not_counted(engine):
    lists = [("u", "x", 0.9), ("u", "y", 0.8), ("v", "w", 0.9), ("v", "z", 0.8)]
    tables = {
        "predictions": Table("user_id string, item_id string, score double", lists),
        "truth": Table("user_id string, item_id string", [("u", "x"), ("v", "w")]),
        "catalog": Table("item_id string", [("w",), ("x",), ("y",)]),
    }
    result = engine.evaluate(tables, metrics="item_coverage", k=2)
    assert values(result) == {"item_coverage@2": 1.0}
    assert any("unknown_items: 1 row" in line for line in result.warnings)


def test_k9_the_share_above_the_threshold_is_reported(engine):
    tables = {
        "predictions": Table("user_id string, item_id string, score double", [("u", "a", 1.0)]),
        "truth": Table("user_id string, item_id string, rating double", [("u", "a", 5.0)]),
    }
    result = engine.evaluate(tables, metrics="hit", k=1, threshold=10)
    (relevant,) = (check for check in result.data_checks if check.check == "relevant")
    assert (relevant.n_rows, relevant.share, relevant.level, result.status) == (0, 0.0, "error", "undefined")


def test_i5_names_of_columns_are_only_names(engine):
    columns = srm.Columns(user="user id", item="a.b", score="x) or 1=1 --")
    tables = {
        "predictions": Table("`user id` string, `a.b` string, `x) or 1=1 --` double", [("u", "a", 0.9), ("u", "b", 0.8)]),
        "truth": Table("`user id` string, `a.b` string", [("u", "b")]),
    }
    assert values(engine.evaluate(tables, metrics="mrr", k=2, columns=columns)) == {"mrr@2": 0.5}


def test_decimals_are_read_as_the_nearest_double(engine):
    """Arrow would cast 4.1 to 4.1000000000000005. Numbers, limits of slices and the hash of the ground truth depend on it."""
    numbers = [Decimal(n) / 10 for n in range(-100, 100)]
    lists = Table("user_id int, item_id int, score double", [(n, 1, float(number)) for n, number in enumerate(numbers)])
    rows = [(n, 1, number) for n, number in enumerate(numbers)]
    limit = {"threshold": -0.3, "slices": ["x(-0.3, 0.3)"], "metrics": ["rmse", "hit"], "k": 1}
    results = []
    for kind in ("decimal(5,1)", "double"):
        table = Table(
            f"user_id int, item_id int, rating {kind}",
            [(*row[:2], float(row[2]) if kind == "double" else row[2]) for row in rows],
        )
        segments = Table(f"user_id int, x {kind}", [(row[0], row[2]) for row in table.rows])
        result = engine.evaluate({"predictions": lists, "truth": table, "user_segments": segments}, **limit)
        results.append([(row["slice_value"], row["value"], row["n_users"], row["data_hash"]) for row in result.rows])
    assert results[0] == results[1]
    assert results[0][0][1] == 0.0
