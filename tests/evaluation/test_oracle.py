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
    MetricSpec,
    Result,
    all_cells,
    evaluate,
    random_case,
)

from spark_recmetrics.conventions import CONVENTIONS, Convention, convention

DEFAULT = convention("default")
FIRST = DEFAULT.override(duplicates="first")
LOG2_3 = math.log2(3)


def one_user(
    items: str | list | dict, truth: dict | list | str, metrics: list[MetricSpec], how: Convention = DEFAULT, **more
) -> dict:
    """The per-user row of a single user; `truth` is a dict from item to rating, or a list of items."""
    ratings = truth if isinstance(truth, dict) else None
    rows = [{"user": "u", "item": item, **({"rating": ratings[item]} if ratings else {})} for item in truth]
    return evaluate(ranked(u=items), rows, how, metrics, **more).per_user["m", "u"]


def value(
    items: str | list | dict, truth: dict | list | str, metric: MetricSpec, how: Convention = DEFAULT, **more
) -> float | None:
    """The value of a single user."""
    return one_user(items, truth, [metric], how, **more)[metric.label]


def ranked(**lists: str | list | dict) -> list[dict]:
    """Lists by user, best first, or as dicts from item to score."""
    return [
        {"model": "m", "user": user, "item": item, "score": items[item] if isinstance(items, dict) else -float(place)}
        for user, items in lists.items()
        for place, item in enumerate(items)
    ]


def rated(**users: str | dict) -> list[dict]:
    """Truth by user: dicts from item to rating, or items with rating 1; and from item to (rating, propensity)."""
    rows = []
    for user, items in users.items():
        for item in items:
            rating = items[item] if isinstance(items, dict) else 1.0
            known = {"rating": rating[0], "propensity": rating[1]} if isinstance(rating, tuple) else {"rating": rating}
            rows.append({"user": user, "item": item, **known})
    return rows


def summary(predictions: list[dict], truth: list[dict], metric: MetricSpec, how: Convention = DEFAULT, **more) -> tuple:
    found = evaluate(predictions, truth, how, [metric], **more).summary["m", metric.label]
    return found["value"], found["n_users"], found["n_undefined"]


def users_of(predictions: list[dict], truth: list[dict], metric: MetricSpec, how: Convention = DEFAULT, **more) -> dict:
    """The value of every user."""
    found = evaluate(predictions, truth, how, [metric], **more).per_user
    return {user: row[metric.label] for (_, user), row in found.items()}


def close(fraction: Fraction | float) -> object:
    return pytest.approx(float(fraction), abs=1e-12)


def test_golden_names_every_convention_but_our_own():
    assert set(GOLDEN) == set(CONVENTIONS) - {"default"}
    assert len(GOLDEN) == 18


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("metric", GOLDEN_METRICS)
def test_golden_table(name, metric):
    result = evaluate(GOLDEN_PREDICTIONS, GOLDEN_TRUTH, CONVENTIONS[name], [MetricSpec(metric, GOLDEN_K)])
    assert result.summary["model", f"{metric}@3"]["value"] == pytest.approx(GOLDEN[name][metric], abs=1e-6)


def test_golden_data_with_ranks_instead_of_scores():
    rows = [{**row, "rank": round(1 / row["score"]), "score": 0.0} for row in GOLDEN_PREDICTIONS]
    for name in GOLDEN:
        result = evaluate(rows, GOLDEN_TRUTH, CONVENTIONS[name], [MetricSpec(metric, GOLDEN_K) for metric in GOLDEN_METRICS])
        found = {metric: result.summary["model", f"{metric}@3"]["value"] for metric in GOLDEN_METRICS}
        assert found == pytest.approx(GOLDEN[name], abs=1e-6)


class TestCases:
    """Small inputs behind public bug reports, by their id."""

    def test_d1_a_repeated_prediction(self):
        asked = [MetricSpec("recall", 3), MetricSpec("precision", 3), MetricSpec("ndcg", 3)]
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
        asked = [MetricSpec("precision", 3), MetricSpec("recall", 3), MetricSpec("hit", 3), MetricSpec("map", 2)]
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
            assert summary(rows, truth, MetricSpec("hit", 1), DEFAULT.override(ties=ties)) == (hit, 1, 0)

    def test_o3_scores_that_are_nan(self):
        rows = [{"model": "m", "user": "u", "item": i, "score": s} for i, s in [("a", math.nan), ("b", 0.9), ("c", 0.5)]]
        truth = [{"user": "u", "item": "b"}]
        for nan_scores, mrr in [("drop", 1), ("last", 1), ("first", Fraction(1, 2))]:
            assert summary(rows, truth, MetricSpec("mrr"), DEFAULT.override(nan_scores=nan_scores)) == (mrr, 1, 0)
        with pytest.raises(ValueError, match="without a number"):
            summary(rows, truth, MetricSpec("mrr"))

    def test_k2_map(self):
        asked = [
            MetricSpec("map", 2, text="min_k"),
            MetricSpec("map", 2, {"normalizer": "relevant"}, text="relevant"),
            MetricSpec("map", text="uncut"),
        ]
        row = one_user([1, 9, 8, 2], [1, 2, 3, 4], asked)
        assert (row["min_k"], row["relevant"], row["uncut"]) == (Fraction(1, 2), Fraction(1, 4), Fraction(3, 8))

    def test_n4_gains(self):
        asked = [MetricSpec("ndcg", 2, {"gain": gain}, text=gain) for gain in ("binary", "linear", "exponential")]
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
        value, _, _ = summary(
            rows, truth, MetricSpec("ndcg", options={"gain": "linear"}), DEFAULT.override(relevance="present")
        )
        assert value == pytest.approx(0.604471, abs=1e-6)

    def test_n6_nothing_relevant_is_undefined_and_nothing_found_is_zero(self):
        truth = [{"user": "u1", "item": "a", "rating": 0.0}, {"user": "u2", "item": "b", "rating": 1.0}]
        rows = ranked(u1="a", u2="a")
        everyone = DEFAULT.override(users="truth")
        assert summary(rows, truth, MetricSpec("ndcg", 1), everyone) == (0, 1, 1)
        assert summary(rows, truth, MetricSpec("ndcg", 1), everyone.override(undefined="zero")) == (0, 2, 1)
        assert summary(rows[:1], truth[:1], MetricSpec("ndcg", 1), everyone) == (None, 0, 1)
        assert summary(rows[:1], truth[:1], MetricSpec("ndcg", 1), everyone.override(empty="zero")) == (0, 0, 1)

    def test_p1_p2_populations(self):
        truth = [{"user": 1, "item": "a"}, {"user": 2, "item": "b"}]
        rows = [{"model": model, "user": user, "item": item, "score": 1.0} for model, user, item in
                [("A", 1, "a"), ("A", 2, "b"), ("B", 1, "a")]]  # fmt: skip
        over_truth = evaluate(rows, truth, DEFAULT, [MetricSpec("recall", 1)]).summary
        assert over_truth["A", "recall@1"] == {"value": 1, "n_users": 2, "n_undefined": 0}
        assert over_truth["B", "recall@1"] == {"value": Fraction(1, 2), "n_users": 2, "n_undefined": 0}
        covered = evaluate(rows, truth, DEFAULT.override(users="truth_and_predicted"), [MetricSpec("recall", 1)]).summary
        assert covered["B", "recall@1"] == {"value": 1, "n_users": 1, "n_undefined": 0}

    def test_p3_a_user_without_truth_counts_for_all_only(self):
        rows = [*ranked(u="a", v="a"), {"model": "other", "user": "w", "item": "a", "score": 1.0}]
        truth = [{"user": "u", "item": "a"}]
        for users, n_users in [("relevant", 1), ("truth", 1), ("predicted", 2), ("truth_and_predicted", 1), ("all", 3)]:
            value = summary(rows, truth, MetricSpec("hit", 1), DEFAULT.override(users=users))
            assert value == (pytest.approx(1 / n_users), n_users, 0)

    def test_a8_a_rating_that_is_nan(self):
        rows = [{"model": "m", "user": "u", "item": item, "score": score} for item, score in [("a", 4.0), ("b", math.nan)]]
        truth = [{"user": "u", "item": item, "rating": rating} for item, rating in [("a", 4.0), ("b", 3.0)]]
        assert summary(rows, truth, MetricSpec("rmse"), DEFAULT.override(nan_scores="drop")) == (0, 1, 0)


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
            assert summary(self.ROWS, self.TRUTH, MetricSpec(name), how) == (pytest.approx(float(value)), 2, 0)

    @pytest.mark.parametrize("convention_of", ["default", "warprec", "laikallm_doc"])
    def test_average_of_the_text_wins_over_the_convention(self, convention_of):
        how = convention(convention_of)
        for average, mae in [("pairs", Fraction(8, 3)), ("users", 4), ("per_user", 3)]:
            assert summary(self.ROWS, self.TRUTH, MetricSpec("mae", options={"average": average}), how)[0] == close(mae)

    def test_per_user(self):
        result = evaluate(self.ROWS, self.TRUTH, DEFAULT, [MetricSpec("mae")])
        assert {user: row["mae"] for (_, user), row in result.per_user.items()} == {"u": 2, "v": 4, "w": None}

    def test_clip(self):
        # Truth lies in [0, 5], so that 9 becomes 5.
        clipped = DEFAULT.override(rating_clip="truth_range")
        assert summary(self.ROWS, self.TRUTH, MetricSpec("mae"), clipped)[0] == pytest.approx(4 / 3)

    def test_positive_rows(self):
        rows = [*self.ROWS, {"model": "m", "user": "v", "item": "b", "score": 5.0}]
        assert summary(rows, self.TRUTH, MetricSpec("mae"))[0] == Fraction(13, 4)
        positive = DEFAULT.override(rating_rows="positive")
        assert summary(rows, self.TRUTH, MetricSpec("mae"), positive)[0] == pytest.approx(8 / 3)

    def test_positive_rows_and_clip(self):
        # The lowest of the ratings above 0 is 1.
        how = DEFAULT.override(rating_rows="positive", rating_clip="truth_range")
        assert summary(self.ROWS, self.TRUTH, MetricSpec("mae"), how)[0] == Fraction(1 + 2 + 0, 3)

    def test_nobody(self):
        assert summary(self.ROWS[3:], self.TRUTH, MetricSpec("mae")) == (None, 0, 0)


class TestExplained:
    """y of user u is predicted well, of v by its mean; w has one pair."""

    ROWS = ranked(u={"a": 1.0, "b": 3.0}, v={"a": 2.0, "b": 2.0}, w={"a": 5.0})
    TRUTH = rated(u={"a": 1.0, "b": 3.0}, v={"a": 1.0, "b": 3.0}, w={"a": 3.0})

    @pytest.mark.parametrize(("name", "value"), [("r2", Fraction(-1, 4)), ("explained_variance", Fraction(-1, 12))])
    def test_average(self, name, value):
        # Pairs: SST 24/5 and SSE 6; errors 0, 0, 1, -1, 2 of variance 26/25, ratings of variance 24/25.
        for average in ("pairs", "users"):
            for metric, how in [
                (MetricSpec(name, options={"average": average}), DEFAULT.override(rating_average="per_user")),
                (MetricSpec(name), DEFAULT.override(rating_average=average, undefined="zero")),
            ]:
                assert summary(self.ROWS, self.TRUTH, metric, how) == (close(value), 3, 1)
        for undefined in ("skip", "zero"):
            how = DEFAULT.override(rating_average="per_user", undefined=undefined)
            assert summary(self.ROWS, self.TRUTH, MetricSpec(name), how) == (Fraction(1, 2), 2, 1)

    def test_per_user(self):
        for name in ("r2", "explained_variance"):
            assert users_of(self.ROWS, self.TRUTH, MetricSpec(name)) == {"u": 1, "v": 0, "w": None}

    def test_ratings_that_are_all_alike(self):
        truth = rated(u={"a": 3.0, "b": 3.0}, v={"a": 3.0})
        for name in ("r2", "explained_variance"):
            assert summary(self.ROWS, truth, MetricSpec(name)) == (None, 0, 2)
            assert summary(self.ROWS, truth, MetricSpec(name), DEFAULT.override(empty="zero")) == (None, 0, 2)

    def test_a9(self):
        rows = ranked(u=dict(zip("abcde", (0.1, 0.3, 0.2, 0.5, 0.7), strict=True)))
        truth = rated(u=dict(zip("abcde", (0.0, 0.1, 0.2, 0.3, 0.4), strict=True)))
        assert summary(rows, truth, MetricSpec("explained_variance")) == (close(Fraction(48, 100)), 1, 0)
        # SSE .18 over SST .1.
        assert summary(rows, truth, MetricSpec("r2")) == (close(Fraction(-8, 10)), 1, 0)


# Of ten items u has seen two; b and c are tied, and j is not listed.
CATALOG = "abcdefghij"
U_LIST, U_TRUTH = {"a": 0.9, "b": 0.5, "c": 0.5, "d": 0.1}, "bdj"
U_SEEN = [{"user": "u", "item": item} for item in "aia"]


class TestAuc:
    @pytest.mark.parametrize(
        ("candidates", "ties", "negatives", "beaten"),
        [
            # Against a, c and five unlisted ones.
            ("all", "half", "exact", {"b": Fraction(11, 14), "d": Fraction(5, 7), "j": Fraction(5, 14)}),
            ("all", "order", "exact", {"b": Fraction(6, 7), "d": Fraction(5, 7), "j": 0}),
            ("all", "half", "plus_one", {"b": Fraction(13, 16), "d": Fraction(3, 4), "j": Fraction(7, 16)}),
            ("all", "order", "plus_one", {"b": Fraction(7, 8), "d": Fraction(3, 4), "j": Fraction(1, 8)}),
            # Against c and four unlisted ones.
            ("unseen", "half", "exact", {"b": Fraction(9, 10), "d": Fraction(4, 5), "j": Fraction(2, 5)}),
            ("unseen", "order", "exact", {"b": 1, "d": Fraction(4, 5), "j": 0}),
            ("unseen", "half", "plus_one", {"b": Fraction(11, 12), "d": Fraction(5, 6), "j": Fraction(1, 2)}),
            ("unseen", "order", "plus_one", {"b": 1, "d": Fraction(5, 6), "j": Fraction(1, 6)}),
            # Against a and c.
            ("listed", "half", "exact", {"b": Fraction(1, 4), "d": 0}),
            ("listed", "order", "exact", {"b": Fraction(1, 2), "d": 0}),
            ("listed", "half", "plus_one", {"b": Fraction(1, 2), "d": Fraction(1, 3)}),
            ("listed", "order", "plus_one", {"b": Fraction(2, 3), "d": Fraction(1, 3)}),
        ],
    )
    def test_every_option(self, candidates, ties, negatives, beaten):
        options = {"candidates": candidates, "ties": ties, "negatives": negatives}
        places = {"unseen": "bcd"}.get(candidates, "abcd")
        right = {"auc": sum(beaten.values()) / Fraction(len(beaten)), "gauc": sum(beaten.values()) / Fraction(len(beaten))}
        for k in (1, 2, 3, 4, 9, None):
            found = sum(beaten.get(item, 0) for item in places[:k])
            right[f"lauc@{k}"] = found / Fraction(min(len(beaten), k or 9))
        asked = [MetricSpec("auc", options=options), MetricSpec("gauc", options=options)]
        asked += [MetricSpec("lauc", k, options, text=f"lauc@{k}") for k in (1, 2, 3, 4, 9, None)]
        row = one_user(U_LIST, U_TRUTH, asked, train=U_SEEN, catalog=CATALOG)
        assert {label: row[label] for label in right} == {label: close(value) for label, value in right.items()}
        as_rules = DEFAULT.override(auc_ties=ties, auc_negatives=negatives)
        without = MetricSpec("auc", options={"candidates": candidates})
        assert value(U_LIST, U_TRUTH, without, as_rules, train=U_SEEN, catalog=CATALOG) == close(right["auc"])

    def test_lauc_by_hand(self):
        for k, right in [(1, Fraction(9, 10)), (2, Fraction(9, 20)), (3, Fraction(17, 30)), (None, Fraction(17, 30))]:
            assert value(U_LIST, U_TRUTH, MetricSpec("lauc", k), train=U_SEEN, catalog=CATALOG) == close(right)

    def test_a_relevant_item_that_was_seen_is_no_positive(self):
        seen = [{"user": "u", "item": "a"}, {"user": "other", "item": "b"}]
        for candidates, right in [("unseen", Fraction(6, 8)), ("all", Fraction(13, 16)), ("listed", Fraction(1, 4))]:
            metric = MetricSpec("auc", options={"candidates": candidates})
            assert value("cadb", "ab", metric, train=seen, catalog=CATALOG) == close(right)

    def test_summaries(self):
        # u has 3 positives worth 21/10 in 3 candidates, v one worth 8/9 in 2, w has seen all that it likes.
        rows, truth = ranked(u=U_LIST, v="ab", w="cd"), rated(u=U_TRUTH, v="b", w="c")
        train = [*U_SEEN, {"user": "w", "item": "c"}]
        values = {"u": close(Fraction(7, 10)), "v": close(Fraction(8, 9)), "w": None}
        weighted = {
            "uniform": (Fraction(7, 10) + Fraction(8, 9)) / 2,
            "relevant": (Fraction(21, 10) + Fraction(8, 9)) / 4,
            "recommended": (Fraction(21, 10) + Fraction(16, 9)) / 5,
        }
        for how in (DEFAULT, DEFAULT.override(undefined="zero")):
            assert users_of(rows, truth, MetricSpec("auc"), how, train=train, catalog=CATALOG) == values
            pooled = summary(rows, truth, MetricSpec("auc"), how, train=train, catalog=CATALOG)
            assert pooled == (close((Fraction(21, 10) + Fraction(8, 9)) / 4), 2, 1)
            for weight, right in weighted.items():
                metric = MetricSpec("gauc", options={"weight": weight})
                assert summary(rows, truth, metric, how, train=train, catalog=CATALOG) == (close(right), 2, 1)
            assert summary(rows, truth, MetricSpec("lauc", 2), how, train=train, catalog=CATALOG) == (
                close((Fraction(9, 20) + Fraction(8, 9)) / 2),
                2,
                1,
            )

    def test_a1_nothing_but_relevant_items(self):
        rows, truth = ranked(u="ab", v="cd"), rated(u="ab", v="d")
        listed = MetricSpec("gauc", options={"candidates": "listed"})
        assert summary(rows, truth, listed, DEFAULT.override(undefined="zero")) == (0, 1, 1)
        assert summary(rows[:2], truth[:2], listed) == (None, 0, 1)
        assert value("ab", CATALOG, MetricSpec("auc"), catalog=CATALOG) is None
        assert value("ab", CATALOG, MetricSpec("auc", options={"negatives": "plus_one"}), catalog=CATALOG) == 1

    def test_a2_mean_over_users_and_over_rows(self):
        rows, truth = ranked(u1="ab", u2="abcdefgh"), rated(u1="a", u2="ah")
        options = {"candidates": "listed"}
        assert users_of(rows, truth, MetricSpec("auc", options=options)) == {"u1": 1, "u2": Fraction(1, 2)}
        assert summary(rows, truth, MetricSpec("gauc", options=options)) == (Fraction(3, 4), 2, 0)
        assert summary(rows, truth, MetricSpec("gauc", options={**options, "weight": "recommended"})) == (
            close(Fraction(3, 5)),
            2,
            0,
        )
        assert summary(rows, truth, MetricSpec("gauc", options={**options, "weight": "relevant"})) == (
            close(Fraction(2, 3)),
            2,
            0,
        )
        assert summary(rows, truth, MetricSpec("auc", options=options)) == (close(Fraction(2, 3)), 2, 0)

    def test_the_worst_ranking_of_warprec_is_not_0(self):
        for items in (CATALOG, "abc"):
            assert value(items, "j", MetricSpec("auc"), convention("warprec"), catalog=CATALOG) == close(Fraction(1, 10))
        # Of two of them the second is no negative.
        assert value(CATALOG, "ij", MetricSpec("auc"), convention("warprec"), catalog=CATALOG) == close(Fraction(1, 9))
        assert value(CATALOG, "j", MetricSpec("auc"), catalog=CATALOG) == 0

    def test_sampled_candidates(self):
        listed = MetricSpec("auc", options={"candidates": "listed"})
        assert value(CATALOG, "j", listed) == 0
        assert value(CATALOG, "a", listed) == 1
        assert value(CATALOG, "j", MetricSpec("auc", options={"candidates": "listed", "negatives": "plus_one"})) == close(0.1)
        assert value("abc", "j", listed) is None

    def test_a_user_without_a_list(self):
        truth = rated(u="b", v="ab")
        for options, right in [({}, Fraction(1, 2)), ({"ties": "order"}, 0)]:
            assert users_of(ranked(u="b"), truth, MetricSpec("auc", options=options), catalog=CATALOG) == {"u": 1, "v": right}
        worst = users_of(ranked(u="b"), truth, MetricSpec("auc"), convention("warprec"), catalog=CATALOG)
        assert worst == {"u": 1, "v": close(Fraction(1, 9))}
        # There is no candidate in its list, so that its value would weigh nothing.
        weighted = MetricSpec("gauc", options={"weight": "recommended"})
        for how in (DEFAULT, DEFAULT.override(undefined="zero")):
            assert users_of(ranked(u="b"), truth, weighted, how, catalog=CATALOG) == {"u": 1, "v": None}
            assert summary(ranked(u="b"), truth, weighted, how, catalog=CATALOG) == (1, 1, 1)
        assert summary(ranked(w="b"), rated(v="b"), weighted, catalog=CATALOG) == (None, 0, 1)

    def test_missing_scores_are_tied(self):
        rows = {"x": math.nan, "a": math.nan, "b": 0.5}
        for nan_scores, half, order in [("last", Fraction(1, 4), Fraction(1, 2)), ("first", Fraction(3, 4), 1)]:
            how = DEFAULT.override(nan_scores=nan_scores)
            for ties, right in [("half", half), ("order", order)]:
                assert value(rows, "a", MetricSpec("auc", options={"candidates": "listed", "ties": ties}), how) == right

    def test_ranks_are_never_tied(self):
        rows = [{"model": "m", "user": "u", "item": item, "rank": rank} for rank, item in enumerate("xay", 1)]
        for row in (rows, [{**row, "score": 0.0} for row in rows]):
            for ties in ("half", "order"):
                metric = MetricSpec("auc", options={"candidates": "listed", "ties": ties})
                assert summary(row, rated(u="a"), metric) == (Fraction(1, 2), 1, 0)

    def test_judged_lists(self):
        how = convention("threshold")
        truth = rated(u={"a": 5.0, "b": 1.0, "c": 5.0})
        # Of the join a, b are left; c has no prediction and x no judgement.
        assert summary(ranked(u="xba"), truth, MetricSpec("auc", options={"candidates": "listed"}), how) == (0, 1, 0)
        assert summary(ranked(u="xba"), truth, MetricSpec("auc"), how, catalog="abcx") == (close(Fraction(2, 3)), 1, 0)

    def test_repeats_that_are_kept_are_compared_once(self):
        how = DEFAULT.override(duplicates="keep")
        for negatives, right in [("exact", 0), ("plus_one", Fraction(1, 2))]:
            assert value("xxpp", "p", MetricSpec("auc", options={"candidates": "listed", "negatives": negatives}), how) == right

    def test_the_catalogue_has_every_item(self):
        for more in ({"catalog": "ab"}, {"catalog": "abx", "train": [{"user": "v", "item": "y"}]}, {"catalog": "bx"}):
            with pytest.raises(ValueError, match="not in the catalogue"):
                value("ax", "b", MetricSpec("hit", 1), **more)
        for metric in (MetricSpec("auc"), MetricSpec("lauc", 2), MetricSpec("accuracy", 2), MetricSpec("mcc")):
            with pytest.raises(ValueError, match="needs a catalogue"):
                value("ax", "b", metric)
        assert value("ax", "b", MetricSpec("auc"), catalog="abxa") == close(Fraction(1 - 1))


class TestMatched:
    """Ratings and propensities of a and b for u, of c for v; x is not judged, w has no truth and t no list."""

    ROWS = ranked(u={"a": 0.8, "b": 0.4, "x": 0.2}, v={"c": 0.5}, w={})
    TRUTH = rated(u={"a": (1.0, 0.5), "b": (0.0, 0.25)}, v={"c": (1.0, 0.1)}, t={"a": (1.0, 0.5)})

    def test_ctr_of_5_and_2(self):
        rows, truth = ranked(u="ax", v="yb", w="z"), rated(u={"a": 5.0}, v={"b": 2.0}, t="a")
        assert summary(rows, truth, MetricSpec("ctr", 2)) == (Fraction(7, 2), 2, 2)
        assert summary(rows, truth, MetricSpec("ctr", 1)) == (5, 1, 3)
        assert users_of(rows, truth, MetricSpec("ctr")) == {"u": 5, "v": 2, "w": None, "t": None}
        unrated = [{"user": row["user"], "item": row["item"]} for row in truth]
        assert summary(rows, unrated, MetricSpec("ctr")) == (1, 2, 2)

    def test_what_was_not_clicked_counts_though_it_is_not_relevant(self):
        rows = ranked(u="abc")
        assert summary(rows, rated(u={"a": 1.0, "b": 0.0}), MetricSpec("ctr")) == (Fraction(1, 2), 1, 0)
        how = DEFAULT.override(nan_scores="last")
        assert summary(rows, rated(u={"a": 1.0, "b": None, "c": math.nan}), MetricSpec("ctr"), how) == (
            close(Fraction(1, 3)),
            1,
            0,
        )

    @pytest.mark.parametrize(
        ("name", "options", "k", "pooled", "of_users"),
        [
            ("ctr", {}, None, Fraction(2, 3), {"u": Fraction(1, 2), "v": 1}),
            # Clicks weigh 2 and 10, over four rows.
            ("ctr", {"estimator": "ips"}, None, 3, {"u": Fraction(2, 3), "v": 10}),
            ("ctr", {"estimator": "ips"}, 1, 6, {"u": 2, "v": 10}),
            # Scores 1.9, and residuals .2/.5, -.4/.25 and .5/.1.
            ("ctr", {"estimator": "dr"}, None, Fraction(57, 40), {"u": Fraction(1, 15), "v": Fraction(11, 2)}),
            ("ctr", {"estimator": "dr"}, 1, Fraction(67, 20), {"u": Fraction(6, 5), "v": Fraction(11, 2)}),
            # Weights 2, 4 and 10.
            ("ess", {}, None, Fraction(16**2, 120), {"u": Fraction(36, 20), "v": 1}),
            ("ess", {}, 1, Fraction(12**2, 104), {"u": 1, "v": 1}),
        ],
    )
    def test_propensities(self, name, options, k, pooled, of_users):
        metric = MetricSpec(name, k, options)
        assert summary(self.ROWS, self.TRUTH, metric) == (close(pooled), 2, 1)
        found = users_of(self.ROWS, self.TRUTH, metric)
        assert found == {**{user: close(value) for user, value in of_users.items()}, "t": None}

    def test_a_list_without_a_matched_pair(self):
        rows, truth = ranked(u={"x": 0.5}), rated(u={"a": (1.0, 0.5)})
        for options, right in [({}, (None, 0, 1)), ({"estimator": "ips"}, (0, 1, 0)), ({"estimator": "dr"}, (0.5, 1, 0))]:
            assert summary(rows, truth, MetricSpec("ctr", 3, options)) == right
        assert summary(rows, truth, MetricSpec("ess", 3), DEFAULT.override(undefined="zero")) == (None, 0, 1)

    def test_two_propensities_of_one_pair(self):
        with pytest.raises(ValueError, match="two propensities"):
            summary(self.ROWS, [*self.TRUTH, {**self.TRUTH[0], "propensity": 1.0}], MetricSpec("ess"), FIRST)

    def test_population(self):
        rows, truth = ranked(u="a", v="b", w="z"), rated(u={"a": 4.0}, v={"b": 0.0}, t="a")
        for users in ("relevant", "truth_and_predicted"):
            assert summary(rows, truth, MetricSpec("ctr"), DEFAULT.override(users=users)) == (2, 2, 2)
            assert summary(rows, truth, MetricSpec("matched_auc"), DEFAULT.override(users=users))[2] == 4
        only = DEFAULT.override(users_by_metric={"ctr": "relevant"})
        assert summary(rows, truth, MetricSpec("ctr"), only) == (4, 1, 1)

    def test_matched_auc(self):
        rows = ranked(u={"a": 0.9, "b": 0.5}, v={"e": 0.6, "c": 0.5}, w={"f": 0.55, "x": 0.1})
        truth = rated(u={"a": 1.0, "b": 0.0}, v={"c": 1.0, "e": 0.0}, w="f", t="a")
        # a beats b and e; c is tied with b; f beats b.
        assert summary(rows, truth, MetricSpec("matched_auc")) == (close(Fraction(7, 12)), 3, 2)
        assert users_of(rows, truth, MetricSpec("matched_auc")) == {"u": 1, "v": 0, "w": None, "t": None}
        # a and f against e.
        assert summary(rows, truth, MetricSpec("matched_auc", 1)) == (Fraction(1, 2), 3, 4)
        assert summary(rows[4:], truth, MetricSpec("matched_auc")) == (None, 0, 4)


class TestMoreRanking:
    @pytest.mark.parametrize(
        ("items", "truth", "right"),
        [
            ("axb", "abz", Fraction(2, 3)),
            ("xab", "ab", Fraction(1, 2)),
            ("a", "ab", Fraction(1, 2)),
            ("x", "a", 0),
            ("x", "", None),
        ],
    )
    def test_r_precision(self, items, truth, right):
        assert value(items, truth, MetricSpec("r_precision")) == (None if right is None else close(right))

    def test_rbp(self):
        for metric, right in [
            (MetricSpec("rbp"), Fraction(41, 125)),  # .2 (1 + .64)
            (MetricSpec("rbp", 2), Fraction(1, 5)),
            (MetricSpec("rbp", 3, {"p": 0.5}), Fraction(5, 8)),
            (MetricSpec("rbp", 9, {"p": 0.5}), Fraction(5, 8)),
        ]:
            assert value("axb", "abz", metric) == close(right)
        assert value("xa", "a", MetricSpec("rbp", options={"p": 0.5})) == Fraction(1, 4)
        assert value("xa", "", MetricSpec("rbp")) is None

    @pytest.mark.parametrize(
        ("items", "relevant", "others", "right"),
        [
            ("xayb", "ab", "xyz", Fraction(1, 4)),
            ("axb", "abc", "xy", Fraction(1, 2)),  # c is not listed
            ("qarb", "ab", "", 1),  # nobody judged q and r
            ("qarb", "ab", "x", 1),
            ("xyza", "a", "xyz", 0),  # three above count as one
            ("xa", "abcd", "x", 0),
            ("xyab", "abc", "xyz", Fraction(2, 9)),
            ("x", "", "x", None),
        ],
    )
    def test_bpref(self, items, relevant, others, right):
        truth = {**dict.fromkeys(relevant, 1.0), **dict.fromkeys(others, 0.0)}
        assert value(items, truth, MetricSpec("bpref")) == (None if right is None else close(right))

    def test_bpref_of_judged_lists(self):
        truth = {"a": 5.0, "b": 5.0, "x": 1.0, "y": 1.0}
        assert value("qxa", truth, MetricSpec("bpref"), convention("threshold")) == 0
        assert value("qax", truth, MetricSpec("bpref"), convention("threshold")) == 1

    @pytest.mark.parametrize(
        ("items", "truth", "k", "denominator", "accuracy", "mcc"),
        [
            ("abx", "abc", 3, "k", Fraction(8, 10), Fraction(11, 21)),  # TP 2, FP 1, FN 1, TN 6
            ("abx", "abc", 5, "recommended", Fraction(8, 10), Fraction(11, 21)),
            ("abx", "abc", None, "k", Fraction(8, 10), Fraction(11, 21)),
            ("abx", "abc", 5, "k", Fraction(6, 10), 5 / math.sqrt(525)),  # TP 2, FP 3, FN 1, TN 4
            ("abx", "abc", 1, "k", Fraction(8, 10), 7 / math.sqrt(189)),  # TP 1, FP 0, FN 2, TN 7
            ("abx", "ab", 50, "k", Fraction(2, 10), None),  # everything is recommended
            ("abx", "abc", 50, "k", Fraction(2, 10), -math.sqrt(Fraction(7, 27))),  # TP 2, FP 7 at most, FN 1, TN 0
            ("abx", "abcdefghxy", 12, "k", Fraction(3, 10), None),  # TP 3, FP 0, FN 7, TN 0
            ("", "a", 2, "k", Fraction(7, 10), Fraction(-1, 6)),  # TP 0, FP 2, FN 1, TN 7
            ("", "a", 2, "recommended", Fraction(9, 10), None),
            ("xy", "", 2, "k", Fraction(8, 10), None),
            ("xy", "ab", 2, "k", Fraction(6, 10), Fraction(-1, 4)),  # TP 0, FP 2, FN 2, TN 6
        ],
    )
    def test_confusion_over_ten_items(self, items, truth, k, denominator, accuracy, mcc):
        catalog = "abcdefghxy"
        rows = ranked(u=items, other="a")
        liked = rated(u=truth, other="a")
        for name, right in [("accuracy", accuracy), ("mcc", mcc)]:
            expected = None if right is None else close(right)
            metric = MetricSpec(name, k, {"denominator": denominator})
            assert users_of(rows, liked, metric, catalog=catalog)["u"] == expected
            how = DEFAULT.override(precision_denominator=denominator)
            assert users_of(rows, liked, MetricSpec(name, k), how, catalog=catalog)["u"] == expected

    def test_neither_list_nor_relevant_item_is_not_accurate(self):
        rows, truth = ranked(u="ab"), rated(u="ab", v={"a": 0.0})
        assert users_of(rows, truth, MetricSpec("accuracy", 2), catalog="abcd") == {"u": 1, "v": None}
        everyone = DEFAULT.override(users="all", undefined="zero")
        assert summary(rows, truth, MetricSpec("accuracy", 2), everyone, catalog="abcd") == (Fraction(1, 2), 2, 1)
        # TP 0, FP 2, FN 0: the value of v is 0/0, and 0, which is no correlation, where the convention says so.
        assert summary(rows, truth, MetricSpec("mcc", 2), everyone, catalog="abcd") == (Fraction(1, 2), 2, 1)
        assert summary(rows, truth, MetricSpec("mcc", 2), DEFAULT.override(users="all"), catalog="abcd") == (1, 1, 1)

    def test_average_rank(self):
        rows, truth = ranked(u="xa", v="wxyab", w="x"), rated(u="a", v="ab", w="a")
        for undefined in ("skip", "zero"):
            how = DEFAULT.override(undefined=undefined)
            assert summary(rows, truth, MetricSpec("average_rank"), how) == (3, 2, 1)
            assert summary(rows, truth, MetricSpec("average_rank", 3), how) == (2, 1, 2)
        assert users_of(rows, truth, MetricSpec("average_rank", 4)) == {"u": 2, "v": 4, "w": None}


def test_n_recommended_is_cut_at_the_largest_k():
    assert one_user("abcde", ["a"], [MetricSpec("hit", 2), MetricSpec("ndcg", 3), MetricSpec("mae")])["n_recommended"] == 3
    assert one_user("abcde", ["a"], [MetricSpec("hit", 2), MetricSpec("ndcg")])["n_recommended"] == 5


@pytest.mark.parametrize("name", ["auc", "gauc"])
def test_n_recommended_is_not_cut_where_a_metric_looks_behind_k(name):
    part = MetricSpec(name, 2, {"candidates": "listed"})
    for metric in (part, MetricSpec("f1", 2, operands=(MetricSpec("hit"), part), text="of two")):
        row = one_user("abxyz", ["a"], [MetricSpec("hit", 1), metric])
        assert row["n_recommended"] == 5
        assert row[metric.label] == 1


def test_f_of_means():
    rows, truth = ranked(u="ab", v="x"), [{"user": "u", "item": "a"}, {"user": "v", "item": "y"}]
    # u: precision 1/2, recall 1; v: 0 and 0.
    assert summary(rows, truth, MetricSpec("f1", 2)) == (pytest.approx(1 / 3), 2, 0)
    p, r = Fraction(1, 4), Fraction(1, 2)
    assert summary(rows, truth, MetricSpec("f1", 2), DEFAULT.override(f1="of_means")) == (
        pytest.approx(2 * p * r / (p + r)),
        2,
        0,
    )


class TestRandomCase:
    """The generator gives what it promises, so that a comparison on its data means something."""

    SEEDS = range(40)

    def results(self) -> list[Result]:
        asked = [MetricSpec("ndcg", 3), MetricSpec("rmse")]
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
        asked = [MetricSpec("ndcg", 3)]
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

    def test_train_and_catalogue(self):
        for case in map(random_case, self.SEEDS):
            items = {row["item"] for row in [*case.predictions, *case.truth]}
            users = {row["user"] for row in [*case.predictions, *case.truth]}
            seen = {(row["user"], row["item"]) for row in case.train}
            assert len(set(case.catalog)) == len(case.catalog) > len(items)
            assert items | {item for _, item in seen} <= set(case.catalog)
            assert len(seen) < len(case.train), "repeats"
            assert {user for user, _ in seen} - users, "a user of train alone"
            assert len(users - {user for user, _ in seen}) >= 3, "users who have seen nothing"
            for rows in (case.predictions, case.truth):
                assert seen & {(row["user"], row["item"]) for row in rows}

    def test_propensities(self):
        case = random_case(3, propensities=True, duplicates=True)
        assert {row["propensity"] for row in case.truth} == {0.1, 0.25, 0.5, 1.0}
        evaluate(**vars(case), convention=FIRST, metrics=[MetricSpec("ess")])
        without = random_case(3, duplicates=True)
        assert case.train == without.train
        assert [{**row, "propensity": None} for row in without.truth] == [{**row, "propensity": None} for row in case.truth]

    def test_undefined_auc_of_both_kinds(self):
        asked = [MetricSpec("auc"), MetricSpec("auc", options={"negatives": "plus_one"}, text="plus_one"), MetricSpec("ctr", 3)]
        rows = [row for case in map(random_case, self.SEEDS)
                for row in evaluate(**vars(case), convention=DEFAULT, metrics=asked).per_user.values()]  # fmt: skip
        assert any(row["n_relevant"] and row["plus_one"] is None for row in rows), "all that is relevant was seen"
        assert any(row["auc"] is None and row["plus_one"] == 1 for row in rows), "all that is not relevant was seen"
        assert len({row["auc"] for row in rows}) > 100
