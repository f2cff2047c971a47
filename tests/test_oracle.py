"""The oracle is right: it gives the golden table, and cases that can be worked by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from oracle import (
    GOLDEN,
    GOLDEN_K,
    GOLDEN_METRICS,
    GOLDEN_PREDICTIONS,
    GOLDEN_TRUTH,
    Result,
    Wanted,
    all_cells,
    evaluate,
    random_case,
)

from spark_recmetrics.conventions import CONVENTIONS, Convention, convention

DEFAULT = convention("default")
FIRST = DEFAULT.override(duplicates="first")
LOG2_3 = math.log2(3)


def one_user(items: str | list, truth: dict | list, metrics: list[Wanted], how: Convention = DEFAULT) -> dict:
    """The per-user row of a single user; `truth` is a dict from item to rating, or a list of items."""
    ratings = truth if isinstance(truth, dict) else None
    rows = [{"user": "u", "item": item, **({"rating": ratings[item]} if ratings else {})} for item in truth]
    return evaluate(ranked(u=items), rows, how, metrics).per_user["m", "u"]


def ranked(**lists: str | list) -> list[dict]:
    return [
        {"model": "m", "user": user, "item": item, "score": -float(place)}
        for user, items in lists.items()
        for place, item in enumerate(items)
    ]


def summary(predictions: list[dict], truth: list[dict], metric: Wanted, how: Convention = DEFAULT) -> tuple:
    found = evaluate(predictions, truth, how, [metric]).summary["m", metric.label]
    return found["value"], found["n_users"], found["n_undefined"]


def test_golden_names_every_convention_but_our_own():
    assert set(GOLDEN) == set(CONVENTIONS) - {"default"}
    assert len(GOLDEN) == 18


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("metric", GOLDEN_METRICS)
def test_golden_table(name, metric):
    result = evaluate(GOLDEN_PREDICTIONS, GOLDEN_TRUTH, CONVENTIONS[name], [Wanted(metric, GOLDEN_K)])
    assert result.summary["model", f"{metric}@3"]["value"] == pytest.approx(GOLDEN[name][metric], abs=1e-6)


def test_golden_data_with_ranks_instead_of_scores():
    rows = [{**row, "rank": round(1 / row["score"]), "score": 0.0} for row in GOLDEN_PREDICTIONS]
    for name in GOLDEN:
        result = evaluate(rows, GOLDEN_TRUTH, CONVENTIONS[name], [Wanted(metric, GOLDEN_K) for metric in GOLDEN_METRICS])
        found = {metric: result.summary["model", f"{metric}@3"]["value"] for metric in GOLDEN_METRICS}
        assert found == pytest.approx(GOLDEN[name], abs=1e-6)


class TestCases:
    """Small inputs behind public bug reports, by their id."""

    def test_d1_a_repeated_prediction(self):
        asked = [Wanted("recall", 3), Wanted("precision", 3), Wanted("ndcg", 3)]
        row = one_user("aaa", ["a", "b"], asked, FIRST)
        assert row["recall@3"] == Fraction(1, 2)
        assert row["precision@3"] == pytest.approx(Fraction(1, 3))
        assert row["ndcg@3"] == pytest.approx(1 / (1 + 1 / LOG2_3))
        assert row["ndcg@3"] == pytest.approx(0.613147, abs=1e-6)
        assert row["n_recommended"] == 1
        with pytest.raises(ValueError, match="two predictions"):
            one_user("aaa", ["a", "b"], asked)
        kept = one_user("aaa", ["a", "b"], asked, DEFAULT.override(duplicates="keep"))
        assert kept["recall@3"] == Fraction(3, 2)
        assert kept["ndcg@3"] == pytest.approx(1.306574, abs=1e-6)

    def test_d2_d3_d4_repeated_truth(self):
        asked = [Wanted("precision", 3), Wanted("recall", 3), Wanted("hit", 3), Wanted("map", 2)]
        row = one_user([1, 2, 3], [1, 1], asked, FIRST)
        assert row["precision@3"] == pytest.approx(Fraction(1, 3))
        assert row["recall@3"] == row["hit@3"] == row["n_relevant"] == row["n_truth"] == 1
        assert one_user([9, 1], [1, 1], asked, FIRST)["map@2"] == Fraction(1, 2)
        with pytest.raises(ValueError, match="two truth rows"):
            one_user("g", ["g", "g"], asked)

    def test_of_two_ratings_the_highest_counts(self):
        rows = [{"user": "u", "item": "a", "rating": rating} for rating in (0.0, 3.0, 1.0)]
        assert all_cells(ranked(u="a"), rows, FIRST)["m", "u"].relevant == {"a": 3.0}

    def test_o2_ties_by_item(self):
        rows = [{"model": "m", "user": "u", "item": item, "score": 0.5} for item in ("b", "a")]
        truth = [{"user": "u", "item": "b"}]
        for ties, hit in [("item_asc", 0), ("item_desc", 1), ("input", 0)]:
            assert summary(rows, truth, Wanted("hit", 1), DEFAULT.override(ties=ties)) == (hit, 1, 0)

    def test_o3_scores_that_are_nan(self):
        rows = [{"model": "m", "user": "u", "item": i, "score": s} for i, s in [("a", math.nan), ("b", 0.9), ("c", 0.5)]]
        truth = [{"user": "u", "item": "b"}]
        for nan_scores, mrr in [("drop", 1), ("last", 1), ("first", Fraction(1, 2))]:
            assert summary(rows, truth, Wanted("mrr"), DEFAULT.override(nan_scores=nan_scores)) == (mrr, 1, 0)
        with pytest.raises(ValueError, match="without a number"):
            summary(rows, truth, Wanted("mrr"))

    def test_k2_map(self):
        asked = [
            Wanted("map", 2, text="min_k"),
            Wanted("map", 2, {"normalizer": "relevant"}, text="relevant"),
            Wanted("map", text="uncut"),
        ]
        row = one_user([1, 9, 8, 2], [1, 2, 3, 4], asked)
        assert (row["min_k"], row["relevant"], row["uncut"]) == (Fraction(1, 2), Fraction(1, 4), Fraction(3, 8))

    def test_n4_gains(self):
        asked = [Wanted("ndcg", 2, {"gain": gain}, text=gain) for gain in ("binary", "linear", "exponential")]
        row = one_user("ba", {"a": 3, "b": 1}, asked)
        assert row["binary"] == 1
        assert row["linear"] == pytest.approx((1 + 3 / LOG2_3) / (3 + 1 / LOG2_3))
        assert row["exponential"] == pytest.approx((1 + 7 / LOG2_3) / (7 + 1 / LOG2_3))
        assert row["linear"] == pytest.approx(0.796708, abs=1e-6)
        assert row["exponential"] == pytest.approx(0.709810, abs=1e-6)

    def test_n5_negative_gains(self):
        scores = [0.07, 0.31, 0.75, 0.33, 0.27]
        ratings = [-0.89, -0.53, -0.47, 0.39, 0.56]
        rows = [{"model": "m", "user": "u", "item": item, "score": score} for item, score in enumerate(scores)]
        truth = [{"user": "u", "item": item, "rating": rating} for item, rating in enumerate(ratings)]
        value, _, _ = summary(rows, truth, Wanted("ndcg", options={"gain": "linear"}), DEFAULT.override(relevance="present"))
        assert value == pytest.approx(0.604471, abs=1e-6)

    def test_n6_nothing_relevant_is_undefined_and_nothing_found_is_zero(self):
        truth = [{"user": "u1", "item": "a", "rating": 0.0}, {"user": "u2", "item": "b", "rating": 1.0}]
        rows = ranked(u1="a", u2="a")
        everyone = DEFAULT.override(users="truth")
        assert summary(rows, truth, Wanted("ndcg", 1), everyone) == (0, 1, 1)
        assert summary(rows, truth, Wanted("ndcg", 1), everyone.override(undefined="zero")) == (0, 2, 1)
        assert summary(rows[:1], truth[:1], Wanted("ndcg", 1), everyone) == (None, 0, 1)
        assert summary(rows[:1], truth[:1], Wanted("ndcg", 1), everyone.override(empty="zero")) == (0, 0, 1)

    def test_p1_p2_populations(self):
        truth = [{"user": 1, "item": "a"}, {"user": 2, "item": "b"}]
        rows = [{"model": model, "user": user, "item": item, "score": 1.0} for model, user, item in
                [("A", 1, "a"), ("A", 2, "b"), ("B", 1, "a")]]  # fmt: skip
        over_truth = evaluate(rows, truth, DEFAULT, [Wanted("recall", 1)]).summary
        assert over_truth["A", "recall@1"] == {"value": 1, "n_users": 2, "n_undefined": 0}
        assert over_truth["B", "recall@1"] == {"value": Fraction(1, 2), "n_users": 2, "n_undefined": 0}
        covered = evaluate(rows, truth, DEFAULT.override(users="truth_and_predicted"), [Wanted("recall", 1)]).summary
        assert covered["B", "recall@1"] == {"value": 1, "n_users": 1, "n_undefined": 0}

    def test_p3_a_user_without_truth_counts_for_all_only(self):
        rows = [*ranked(u="a", v="a"), {"model": "other", "user": "w", "item": "a", "score": 1.0}]
        truth = [{"user": "u", "item": "a"}]
        for users, n_users in [("relevant", 1), ("truth", 1), ("predicted", 2), ("truth_and_predicted", 1), ("all", 3)]:
            value = summary(rows, truth, Wanted("hit", 1), DEFAULT.override(users=users))
            assert value == (pytest.approx(1 / n_users), n_users, 0)

    def test_a8_a_rating_that_is_nan(self):
        rows = [{"model": "m", "user": "u", "item": item, "score": score} for item, score in [("a", 4.0), ("b", math.nan)]]
        truth = [{"user": "u", "item": item, "rating": rating} for item, rating in [("a", 4.0), ("b", 3.0)]]
        assert summary(rows, truth, Wanted("rmse"), DEFAULT.override(nan_scores="drop")) == (0, 1, 0)


class TestRatings:
    """User u errs by 1 and 3, user v by 4; v's second item has no prediction, and w's prediction no rating."""

    ROWS = [
        {"model": "m", "user": user, "item": item, "score": score}
        for user, item, score in [("u", "a", 2.0), ("u", "b", 0.0), ("v", "a", 9.0), ("w", "a", 1.0)]
    ]
    TRUTH = [
        {"user": user, "item": item, "rating": rating}
        for user, item, rating in [("u", "a", 1.0), ("u", "b", 3.0), ("v", "a", 5.0), ("v", "b", 0.0)]
    ]

    @pytest.mark.parametrize(
        ("average", "mae", "mse", "rmse"),
        [
            ("pairs", Fraction(8, 3), Fraction(26, 3), math.sqrt(26 / 3)),
            ("users", Fraction(8, 2), Fraction(26, 2), math.sqrt(26 / 2)),
            ("per_user", Fraction(2 + 4, 2), Fraction(5 + 16, 2), (math.sqrt(5) + 4) / 2),
        ],
    )
    def test_average(self, average, mae, mse, rmse):
        how = DEFAULT.override(rating_average=average)
        for name, value in [("mae", mae), ("mse", mse), ("rmse", rmse)]:
            assert summary(self.ROWS, self.TRUTH, Wanted(name), how) == (pytest.approx(float(value)), 2, 0)

    def test_per_user(self):
        result = evaluate(self.ROWS, self.TRUTH, DEFAULT, [Wanted("mae")])
        assert {user: row["mae"] for (_, user), row in result.per_user.items()} == {"u": 2, "v": 4, "w": None}

    def test_clip(self):
        # Truth lies in [0, 5], so that 9 becomes 5.
        clipped = DEFAULT.override(rating_clip="truth_range")
        assert summary(self.ROWS, self.TRUTH, Wanted("mae"), clipped)[0] == pytest.approx(4 / 3)

    def test_positive_rows(self):
        rows = [*self.ROWS, {"model": "m", "user": "v", "item": "b", "score": 5.0}]
        assert summary(rows, self.TRUTH, Wanted("mae"))[0] == Fraction(13, 4)
        positive = DEFAULT.override(rating_rows="positive")
        assert summary(rows, self.TRUTH, Wanted("mae"), positive)[0] == pytest.approx(8 / 3)

    def test_positive_rows_and_clip(self):
        # The lowest of the ratings above 0 is 1.
        how = DEFAULT.override(rating_rows="positive", rating_clip="truth_range")
        assert summary(self.ROWS, self.TRUTH, Wanted("mae"), how)[0] == Fraction(1 + 2 + 0, 3)

    def test_nobody(self):
        assert summary(self.ROWS[3:], self.TRUTH, Wanted("mae")) == (None, 0, 0)


def test_n_recommended_is_cut_at_the_largest_k():
    assert one_user("abcde", ["a"], [Wanted("hit", 2), Wanted("ndcg", 3), Wanted("mae")])["n_recommended"] == 3
    assert one_user("abcde", ["a"], [Wanted("hit", 2), Wanted("ndcg")])["n_recommended"] == 5


def test_f_of_means():
    rows, truth = ranked(u="ab", v="x"), [{"user": "u", "item": "a"}, {"user": "v", "item": "y"}]
    # u: precision 1/2, recall 1; v: 0 and 0.
    assert summary(rows, truth, Wanted("f1", 2)) == (pytest.approx(1 / 3), 2, 0)
    p, r = Fraction(1, 4), Fraction(1, 2)
    assert summary(rows, truth, Wanted("f1", 2), DEFAULT.override(f1="of_means")) == (pytest.approx(2 * p * r / (p + r)), 2, 0)


class TestRandomCase:
    """The generator gives what it promises, so that a comparison on its data means something."""

    SEEDS = range(40)

    def results(self) -> list[Result]:
        asked = [Wanted("ndcg", 3), Wanted("rmse")]
        return [evaluate(case.predictions, case.truth, DEFAULT, asked) for case in map(random_case, self.SEEDS)]

    def test_the_same_seed_gives_the_same_rows(self):
        assert random_case(3) == random_case(3)
        assert random_case(3) != random_case(5)

    def test_every_edge_is_there(self):
        for result in self.results():
            rows = [row for (model, _), row in result.per_user.items() if model == "als"]
            assert any(row["n_truth"] and not row["n_recommended"] for row in rows), "truth only"
            assert any(row["n_recommended"] and not row["n_truth"] for row in rows), "predictions only"
            assert any(row["n_recommended"] == 1 for row in rows), "a short list"
            assert any(row["ndcg@3"] == 1 for row in rows), "a perfect list"
            assert any(row["n_relevant"] and row["ndcg@3"] == 0 for row in rows), "nothing found"
            few = [row for (model, _), row in result.per_user.items() if model == "few" and row["n_recommended"]]
            assert 0 < len(few) <= 3

    def test_what_only_some_seeds_have(self):
        cases = [random_case(seed) for seed in self.SEEDS]
        assert {type(row["user"]) for case in cases for row in case.predictions} == {int, str}
        assert {"rating" in row for case in cases for row in case.truth} == {True, False}
        rated = [row["rating"] for case in cases for row in case.truth if "rating" in row]
        assert 0 in rated
        assert 3.5 in rated
        rows = [row for result in self.results() for row in result.per_user.values()]
        assert any(row["n_truth"] and not row["n_relevant"] for row in rows), "no relevant item"

    def test_ties_decide(self):
        asked = [Wanted("ndcg", 3)]
        case = random_case(0)
        found = [
            evaluate(case.predictions, case.truth, DEFAULT.override(ties=ties), asked).per_user
            for ties in ("item_asc", "item_desc", "input")
        ]
        assert found[0] != found[1]
        assert found[0] == found[2]

    def test_faults_on_request(self):
        with pytest.raises(ValueError, match="two "):
            evaluate(**vars(random_case(1, duplicates=True)), convention=DEFAULT, metrics=[])
        with pytest.raises(ValueError, match="without a number"):
            evaluate(**vars(random_case(1, missing_scores=True)), convention=DEFAULT, metrics=[])
        assert all("rank" in row for row in random_case(1, ranks=True).predictions)
