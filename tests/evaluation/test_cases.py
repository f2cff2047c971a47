"""Small inputs behind public bug reports, by their id: the number that a caller gets, in memory and on Spark."""

from __future__ import annotations

import math

import pandas as pd
import pytest

import spark_recmetrics as srm

LOG2_3 = math.log2(3)
Items = str | list[str] | dict[str, float]
APART = {"users_in_both": "warn", "items_in_both": "warn"}
"""Lists without a user, or an item, of the ground truth have values, too."""


TYPES = {"score": "double", "rating": "double", "features": "array<double>"}


class OnSpark:
    """A result on Spark, with its PER_USER as a pandas frame."""

    def __init__(self, result: srm.Result) -> None:
        self.result, self.per_user = result, result.per_user.toPandas()

    def __getattr__(self, name: str):
        return getattr(self.result, name)


_session = None


@pytest.fixture(autouse=True)
def _each_engine(request, session):
    global _session  # noqa: PLW0603 - the helpers below are called without fixtures
    _session = session if request.node.callspec.params["session"] == "spark" else None


def evaluate(*tables, **options):
    if _session is None:
        return srm.evaluate(*tables, **options)

    def on_spark(value):
        if not isinstance(value, pd.DataFrame):
            return value
        schema = ", ".join(f"`{name}` {TYPES.get(name, 'string')}" for name in value)
        return _session.createDataFrame(list(value.itertuples(index=False, name=None)), schema)

    options = {"n_buckets": 1, **{name: on_spark(value) for name, value in options.items()}}
    return OnSpark(srm.evaluate(*map(on_spark, tables), **options))


def frame(users: dict[str, Items], number: str, *, default: bool) -> pd.DataFrame:
    """Rows of items by user: dicts from item to number, or items in order, where `default` tells to number them downwards."""
    rows = [
        (user, item, items[item] if isinstance(items, dict) else -float(place))
        for user, items in users.items()
        for place, item in enumerate(items)
    ]
    found = pd.DataFrame(rows, columns=["user_id", "item_id", number])
    found = found.astype({"user_id": str, "item_id": str, number: float})
    with_number = default or any(isinstance(items, dict) for items in users.values())
    return found if with_number else found.drop(columns=number)


def run(lists: dict[str, Items], truth: dict[str, Items], metrics: str | list[str], **options):
    """Evaluate lists by user, best first or with scores, against truth by user, relevant items or items with ratings."""
    return evaluate(
        frame(lists, "score", default=True), frame(truth, "rating", default=False), metrics=metrics, **({"k": None} | options)
    )


def one(items: Items, truth: Items, metrics: str | list[str], **options) -> dict[str, float | None]:
    """The values of a model with one user."""
    return run({"u": items}, {"u": truth}, metrics, **options).to_dict()["model"]


def mean_of(result, text: str, model: str = "model") -> tuple[float | None, int, int]:
    (found,) = (mean for mean in result.means[model] if str(mean.metric) == text)
    return found.value, found.n_users, found.n_undefined


def values_of(result, column: str) -> dict[str, float | None]:
    """The column of PER_USER by user; undefined is None."""
    rows = zip(result.per_user["user"], result.per_user[column], strict=True)
    return {user: None if pd.isna(value) else value for user, value in rows}


def close(value: float) -> object:
    return pytest.approx(value, abs=1e-12)


def six(value: float) -> object:
    """A value printed with six digits."""
    return pytest.approx(value, abs=5e-7)


# Cut-offs and definitions -------------------------------------------------------------------------------------------------


def test_k1_a_hit_behind_the_cut_off_is_none():
    assert one("912", "12", ["recall", "hit"], k=1) == {"recall@1": 0, "hit@1": 0}


def test_k2_normalizers_of_map():
    # One hit at rank 1 of two, over min(m, k) = 2 and over m = 4; uncut (1 + 2/4) / 4.
    found = one("1982", "1234", ["map@2", "map(normalizer=relevant)@2", "map"])
    assert found == {"map@2": close(1 / 2), "map(normalizer=relevant)@2": close(1 / 4), "map": close(3 / 8)}


def test_k3_precision():
    assert one("123", "1", "precision", k=3) == {"precision@3": close(1 / 3)}


def test_k4_precision_of_a_short_list():
    found = one("1", "1", ["precision@5", "precision(denominator=recommended)@5"])
    assert found == {"precision@5": close(1 / 5), "precision(denominator=recommended)@5": 1}
    assert one("1", "1", "precision", k=5, convention="lenskit") == {"precision@5": 1}


def test_k5_reciprocal_rank_is_that_of_the_first_hit():
    assert one("129", "12", "mrr", k=3) == {"mrr@3": 1}  # not (1 + 1/2) / 2


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "10", "²"])
def test_k6_what_is_no_cut_off_is_refused_by_its_name(k):
    for value in (k, [5, k]):
        with pytest.raises(srm.ConfigError, match=r"^k: expected an integer of at least 1, found"):
            one("1", "1", "hit", k=value)


def test_k7_a_hit_at_rank_2_is_none_at_1():
    assert one("21", "1", ["hit", "precision", "ndcg"], k=1) == {"hit@1": 0, "precision@1": 0, "ndcg@1": 0}


def test_k8_recall_of_one_among_twenty():
    relevant = [f"i{number}" for number in range(20)]
    assert one(["i0", "x", "y"], relevant, "recall", k=10) == {"recall@10": close(1 / 20)}


def test_k9_a_threshold_above_the_scale_leaves_nobody():
    result = run({"u": "ab"}, {"u": {"a": 5.0, "b": 1.0}}, ["hit", "ndcg"], k=1, threshold=10)
    assert result.to_dict() == {"model": {"hit@1": None, "ndcg@1": None}}
    assert result.status == "undefined"


# nDCG ---------------------------------------------------------------------------------------------------------------------


def test_n1_a_perfect_list_shorter_than_k():
    assert one("12", "12", "ndcg", k=20) == {"ndcg@20": 1}


def test_n2_a_perfect_list_of_more_relevant_items_than_k():
    relevant = [f"i{number}" for number in range(12)]
    assert one(relevant[:10], relevant, "ndcg", k=10) == {"ndcg@10": close(1)}


def test_n3_the_ideal_list_is_that_of_the_truth():
    found = one("a", "ab", "ndcg", k=10)["ndcg@10"]
    assert found == close(1 / (1 + 1 / LOG2_3))
    assert found == six(0.613147)


def test_n4_gains():
    texts = [f"ndcg(gain={gain})@2" for gain in ("binary", "linear", "exponential")]
    # (1 + 3/log2 3) / (3 + 1/log2 3), and the same of 2^r - 1: 1 and 7.
    right = [close(1), six(0.796708), six(0.709810)]
    assert one("ba", {"a": 3.0, "b": 1.0}, texts) == dict(zip(texts, right, strict=True))


def test_n5_negative_gains_are_refused_or_clipped():
    scores = dict(zip("abcde", (0.07, 0.31, 0.75, 0.33, 0.27), strict=True))
    gains = dict(zip("abcde", (-0.89, -0.53, -0.47, 0.39, 0.56), strict=True))
    rules = srm.convention("default").override(relevance="present")
    with pytest.raises(srm.DataError, match="negative_gains: 3 relevant items"):
        one(scores, gains, "ndcg(gain=linear)", convention=rules)
    # d at rank 2 and e at rank 4: (.39/log2 3 + .56/log2 5) / (.56 + .39/log2 3).
    found = one(scores, gains, "ndcg(gain=linear)", convention=rules.override(negative_gains="clip"))
    assert found == {"ndcg(gain=linear)": six(0.604471)}


def test_n6_nothing_relevant_is_undefined_and_nothing_found_is_zero():
    everyone = srm.convention("default").override(users="all")
    result = run({"empty": "1", "missed": "1"}, {"missed": "2"}, "ndcg", k=1, convention=everyone, checks=APART)
    assert values_of(result, "ndcg_at_1") == {"empty": None, "missed": 0}
    assert mean_of(result, "ndcg@1") == (0, 1, 1)
    alone = run({"empty": "1"}, {"other": "2"}, "ndcg", k=1, convention=everyone.override(users="predicted"), checks=APART)
    assert mean_of(alone, "ndcg@1") == (None, 0, 1)


# Populations --------------------------------------------------------------------------------------------------------------

METRICS = ["recall", "precision", "hit", "mrr", "map", "mar", "ndcg", "f1"]


@pytest.mark.parametrize(("convention", "recall", "n_users"), [("default", 1 / 2, 2), ("mllib", 1, 1)])
def test_p1_users_without_a_list(convention, recall, n_users):
    result = run({"1": "a"}, {"1": "a", "2": "b"}, [*METRICS, "user_coverage"], k=1, convention=convention)
    assert mean_of(result, "recall@1") == (close(recall), n_users, 0)
    # One population for all metrics of a run: of the users that are averaged so many have a list.
    assert {mean.n_users for mean in result.means["model"]} == {n_users}
    assert mean_of(result, "user_coverage@1") == (close(recall), n_users, 0)
    # Next to both means, the share of all users that the lists cover, 1 of 2.
    found = {fact.check: (fact.n_rows, fact.share) for fact in result.data_checks if fact.table == "predictions/model"}
    assert (found["users"], found["users_with_list"]) == ((2, None), (1, close(1 / 2)))
    assert any("users_without_list: 1 user (50 %)" in warning for warning in result.warnings)


def test_o2_equal_scores_have_one_order():
    for order in ("ab", "ba"):
        result = run({"u": dict.fromkeys(order, 0.5)}, {"u": "b"}, "hit", k=1)
        assert result.to_dict() == {"model": {"hit@1": 0}}
        assert any("tied_at_cut: 1 list" in line for line in result.warnings)


def test_p2_models_are_compared_on_the_same_users():
    lists = pd.concat(
        frame(users, "score", default=True).assign(model=model)
        for model, users in {"A": {"1": "a", "2": "b"}, "B": {"1": "a"}}.items()
    )
    result = evaluate(lists, frame({"1": "a", "2": "b"}, "rating", default=False), metrics="recall", k=1)
    assert (mean_of(result, "recall@1", "A"), mean_of(result, "recall@1", "B")) == ((1, 2, 0), (close(1 / 2), 2, 0))
    of_b = result.per_user[result.per_user["model"] == "B"]
    assert dict(zip(of_b["user"], of_b["recall_at_1"], strict=True)) == {"1": 1, "2": 0}
    (row,) = srm.compare(getattr(result, "result", result)).rows
    assert (row["n_users"], row["diff"]) == (2, -0.5)


@pytest.mark.parametrize("n_unknown", [1, 1000], ids=["p3", "p4"])
def test_p3_p4_users_without_truth_are_ignored_and_told_once(n_unknown):
    unknown = {f"unknown {number}": "ab" for number in range(n_unknown)}
    result = run({"u": "ab", **unknown}, {"u": "b"}, METRICS, k=2)
    known = run({"u": "ab"}, {"u": "b"}, METRICS, k=2)
    assert [mean_of(result, str(mean.metric)) for mean in result.means["model"]] == [
        mean_of(known, str(mean.metric)) for mean in known.means["model"]
    ]
    (told,) = (warning for warning in result.warnings if "users_without_truth" in warning)
    assert f"users_without_truth: {n_unknown} user" in told
    assert not known.warnings


@pytest.mark.parametrize(
    ("lists", "truth"),
    [({}, {"u": {"a": 1.0}}), ({"u": "a"}, {"u": {"a": 0.0}}), ({"u": "a"}, {"v": {"a": 0.0}})],
    ids=["no_predictions", "nothing_relevant", "nobody_in_common"],
)
def test_p5_nobody_left_is_undefined(lists, truth):
    result = run(lists, truth, ["hit", "ndcg"], k=1, checks=APART)
    assert result.to_dict() == {"model": {"hit@1": None, "ndcg@1": None}}
    assert [mean.n_users for mean in result.means["model"]] == [0, 0]
    assert result.status == "undefined"


# AUC and ratings ----------------------------------------------------------------------------------------------------------


def test_a1_a_user_whose_items_are_all_relevant():
    # Of v one of two others stands above: 1/2. What is pooled and what is limited leaves u out too.
    listed = "candidates=listed"
    texts = [f"gauc({listed})", f"auc({listed})", f"lauc({listed})@2"]
    for undefined in ("skip", "zero"):
        rules = srm.convention("default").override(undefined=undefined)
        result = run({"u": "ab", "v": "xby"}, {"u": "ab", "v": "b"}, texts, convention=rules)
        assert [mean_of(result, text) for text in texts] == [(close(1 / 2), 1, 1)] * 3
    whole = run({"u": "ab"}, {"u": "ab"}, "auc", catalog=2)
    assert (mean_of(whole, "auc"), whole.status) == ((None, 0, 1), "undefined")


def test_a2_mean_over_users_and_mean_over_rows():
    lists, truth = {"u1": "ab", "u2": "abcdefgh"}, {"u1": "a", "u2": "ah"}
    uniform, by_rows = "gauc(candidates=listed)", "gauc(candidates=listed, weight=recommended)"
    result = run(lists, truth, [uniform, by_rows])
    # The relevant items of u2 beat all and none of six: 1/2. Then (1 + 1/2) / 2, and (2 + 8/2) / 10.
    assert result.to_dict() == {"model": {uniform: close(3 / 4), by_rows: close(3 / 5)}}
    assert values_of(result, "gauc_candidates_listed") == {"u1": 1, "u2": close(1 / 2)}


def test_a3_coverage_counts_no_item_twice():
    """That an item which a table of the catalogue lacks is reported, and not counted, is `test_a3_on_spark`."""
    result = run({"u": "xy", "v": "wx"}, {"u": "x", "v": "x"}, "item_coverage", catalog=3)
    assert mean_of(result, "item_coverage") == (1.0, 2, 0)
    with pytest.raises(srm.DataError, match=r"catalog: expected all items that can be recommended, found 1 more in the lists"):
        run({"u": "xy", "v": "wz"}, {"u": "x", "v": "x"}, "item_coverage", catalog=3)


def test_a4_coverage_is_that_of_lists_cut_at_k():
    assert one("ab", "a", ["item_coverage"], k=[1, 2], catalog=2) == {"item_coverage@1": 1 / 2, "item_coverage@2": 1}


def test_a5_gini_of_items_that_stand_equally_often():
    lists = {str(user): item for user, item in enumerate("aabbccddee")}
    asked = ["gini", "gini(population=recommended)", "gini(scale=n_minus_1)"]
    found = run(lists, dict.fromkeys(lists, "a"), asked, k=1, catalog=5).to_dict()["model"]
    assert found == {f"{text}@1": close(0) for text in asked}


def test_a6_gini_over_the_catalogue_and_over_what_is_recommended():
    lists = {"1": "a", "2": "a", "3": "a", "4": "b"}
    asked = ["gini", "gini(population=recommended)"]
    found = run(lists, dict.fromkeys(lists, "a"), asked, k=1, catalog=4).to_dict()["model"]
    assert found == {"gini@1": close(5 / 8), "gini(population=recommended)@1": close(1 / 4)}


def test_a7_diversity_of_one_item_or_without_features_is_undefined_and_counted():
    """Of four lists one has two items with features, which are at right angles."""
    features = pd.DataFrame({"item_id": ["a", "b"], "features": [[1.0, 0.0], [0.0, 2.0]], "categories": ["war", "love"]})
    lists = {"both": "ab", "one": "a", "unknown": "az", "nothing known": "yz"}
    truth = dict.fromkeys(lists, "a")
    result = run(lists, truth, ["ild", "ild(distance=jaccard)"], k=2, item_features=features)
    assert mean_of(result, "ild@2") == (close(1), 1, 3)
    assert mean_of(result, "ild(distance=jaccard)@2") == (close(1), 1, 3)
    undefined = {"one": None, "unknown": None, "nothing known": None}
    assert values_of(result, "ild_at_2") == {"both": close(1), **undefined}
    as_zero = run(lists, truth, "ild", k=2, item_features=features, convention={"undefined": "zero"})
    assert mean_of(as_zero, "ild@2") == (close(1 / 4), 4, 3)


@pytest.mark.parametrize(
    ("scores", "ratings", "fact"),
    [
        ({"a": 4.0, "b": math.nan}, {"a": 4.0, "b": 3.0}, "nan_scores: 1 row"),
        ({"a": 4.0, "b": 3.0}, {"a": 4.0, "b": math.nan}, "nan_ratings: 1 row"),
    ],
    ids=["prediction", "truth"],
)
def test_a8_a_rating_that_is_nan_is_refused_or_dropped_and_told(scores, ratings, fact):
    with pytest.raises(srm.DataError, match=fact):
        one(scores, ratings, "rmse")
    dropping = srm.convention("default").override(nan_scores="drop")
    result = run({"u": scores}, {"u": ratings}, "rmse", convention=dropping)
    assert mean_of(result, "rmse") == (0, 1, 0)
    assert any(fact in warning for warning in result.warnings)


def test_a9_explained_variance():
    truth = dict(zip("abcde", (0.0, 0.1, 0.2, 0.3, 0.4), strict=True))
    predicted = dict(zip("abcde", (0.1, 0.3, 0.2, 0.5, 0.7), strict=True))
    # Errors .1, .2, 0, .2, .3 vary by .0104, ratings by .02; and 1 - .18/.1.
    found = one(predicted, truth, ["explained_variance", "r2"])
    assert found == {"explained_variance": close(0.48), "r2": close(-0.8)}


# Duplicates ---------------------------------------------------------------------------------------------------------------

FIRST = srm.convention("default").override(duplicates="first")


def with_truth_rows(lists: dict[str, Items], rows: list[tuple[str, str]], metrics: list[str], **options):
    """Evaluate against truth rows that may repeat."""
    truth = pd.DataFrame(rows, columns=["user_id", "item_id"])
    found = evaluate(frame(lists, "score", default=True), truth, metrics=metrics, **options)
    return found.to_dict()["model"]


def test_d1_repeated_recommendations_raise_nothing():
    asked = ["recall", "precision", "ndcg"]
    with pytest.raises(srm.DataError, match="duplicates: 2 repeated recommendations"):
        one(["a", "a", "a"], "ab", asked, k=3)
    found = one(["a", "a", "a"], "ab", asked, k=3, convention=FIRST)
    assert found == {"recall@3": close(1 / 2), "precision@3": close(1 / 3), "ndcg@3": six(0.613147)}


def test_d2_d3_d4_repeated_truth_rows():
    repeated = [("u", "1"), ("u", "1")]
    with pytest.raises(srm.DataError, match="truth: truth_duplicates: 1 repeated row"):
        with_truth_rows({"u": "1"}, repeated, ["recall"], k=1)
    assert with_truth_rows({"u": "1"}, repeated, ["recall"], k=1, convention=FIRST) == {"recall@1": 1}
    found = with_truth_rows({"u": "123"}, repeated, ["precision", "recall", "hit"], k=3, convention=FIRST)
    assert found == {"precision@3": close(1 / 3), "recall@3": 1, "hit@3": 1}
    assert with_truth_rows({"u": "91"}, repeated, ["map"], k=2, convention=FIRST) == {"map@2": close(1 / 2)}


def test_d5_ids_are_never_rewritten():
    assert one(["a", "a", "z"], ["a_2"], "ndcg", k=3, convention=FIRST, checks=APART) == {"ndcg@3": 0}


# Versions -----------------------------------------------------------------------------------------------------------------

STRINGS = ["object", "string[python]", "string[pyarrow]", "category"]


@pytest.mark.parametrize("dtype", [None, *STRINGS])
def test_c7_string_ids_are_the_same_under_every_pandas(dtype):
    """Pandas 3 makes texts of a type of its own, where pandas 2 had objects; `make test-matrix` runs this under both.

    007 has its item at rank 2, and the user 7 one of two at rank 3: mrr (1/2 + 1/3) / 2, map (1/2 + 1/3/2) / 2.
    """
    lists = frame({"007": ["x", "y"], "7": ["y", "é", "x"]}, "score", default=True)
    truth = frame({"007": ["y"], "7": ["x", "w"]}, "rating", default=False)
    if dtype is not None:
        lists, truth = (rows.astype({"user_id": dtype, "item_id": dtype}) for rows in (lists, truth))
    result = evaluate(lists, truth, metrics=["mrr", "map", "recall@2", "precision@3"], k=None)
    values = {"mrr": close(5 / 12), "map": close(1 / 3), "recall@2": close(1 / 2), "precision@3": close(1 / 3)}
    assert result.to_dict() == {"model": values}
    assert values_of(result, "mrr") == {"007": close(1 / 2), "7": close(1 / 3)}
    assert {type(user) for user in result.per_user["user"]} == {str}
