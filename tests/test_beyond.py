"""Metrics beyond accuracy: values worked by hand, cases of public reports under their ids, and what is refused."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pandas as pd
import pytest

import spark_recmetrics as srm
from spark_recmetrics.config import load
from spark_recmetrics.conventions import convention
from spark_recmetrics.metrics import RankedBatch, parse, score
from spark_recmetrics.metrics.items import ItemCounts
from spark_recmetrics.metrics.recommended import Popularity, with_items

DEFAULT = convention("default")
LOG2_3 = math.log2(3)

# Ten training rows of eight users: a has 5, b has 3, c and d one each; x has none.
TRAIN = [(user, "a") for user in "12345"] + [(user, "b") for user in "126"] + [("7", "c"), ("8", "d")]
FEATURES = {"a": [1.0, 0.0], "b": [0.0, 2.0], "c": [-3.0, 0.0], "d": [0.0, 0.0]}
KINDS = {"a": ["war"], "b": ["war", "love"], "c": ["love", "crime", "space"]}


def one(text, items, relevant="", how=DEFAULT, **known):
    """The value of one user."""
    lists, truth = [list(items)], [relevant if isinstance(relevant, dict) else dict.fromkeys(relevant, 1.0)]
    known = {"train": TRAIN, "features": FEATURES, "categories": KINDS, **known}
    batch = with_items(RankedBatch.of(lists, truth, n_items=5), lists, truth, **known)
    value = float(score(parse(text), batch, how)[0])
    return None if math.isnan(value) else value


def close(value):
    return pytest.approx(float(value), abs=1e-12, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "items", "relevant", "value"),
    [
        # Of eight users five have a, three have b, one has c; of ten rows 1/2, 3/10 and 1/10.
        ("novelty@2", "ac", "", (math.log2(8 / 5) + 3) / 2),
        ("novelty@1", "ac", "", math.log2(8 / 5)),
        ("novelty(of=rows)", "ab", "", (1 + math.log2(10 / 3)) / 2),
        ("novelty(scale=max)@1", "c", "", 1),
        ("novelty@1", "x", "", 3),
        ("novelty(cold=zero)@1", "x", "", 0),
        ("novelty(denominator=k)@4", "cd", "", Fraction(6, 4)),
        ("novelty@4", "", "", None),
        ("arp@3", "abx", "", Fraction(8, 3)),
        ("arp(cold=one, scale=share)@3", "abx", "", Fraction(9, 30)),
        # 80 % of ten rows: a and b hold eight, so that c and d are left.
        ("aplt@3", "abc", "", Fraction(1, 3)),
        ("aplt(share=0.81)@3", "abc", "", 0),
        ("aplt(share=0.5)@3", "abc", "", Fraction(2, 3)),
        ("aplt(denominator=k)@4", "xc", "", Fraction(2, 4)),
        ("aclt@3", "cdxa", "", 3),
        # Head a and b; tail c, d and x of five items: 2/2 against 1/3, and 0/2 against 1/3.
        ("pop_rsp@3", "abc", "", (1 - Fraction(1, 3)) / (1 + Fraction(1, 3))),
        ("pop_rsp@1", "c", "", 1),
        ("pop_rsp@1", "", "", None),
        ("efd@2", "xa", "a", (1 / LOG2_3) / (1 + 1 / LOG2_3)),
        ("efd(of=users)@1", "c", "c", 3),
        ("efd(gain=linear)@1", "a", {"a": 4.0}, 4),
        ("efd@2", "a", "", None),
        ("efd@2", "", "a", 0),
        ("epc@1", "a", "a", Fraction(3, 8)),
        ("epc(of=rows)@1", "a", "a", Fraction(1, 2)),
        # Places 1, 2, 3, 3 of five items; P(1) = 1, P(2) = 4/5.
        ("serendipity@2", "ab", "ab", 0),
        ("serendipity@2", "cx", "cx", (Fraction(2, 5) + Fraction(4, 5)) / 2),
        ("serendipity@2", "cx", "x", Fraction(4, 5) / 2),
        # a and b at right angles, a and c opposite; d has no length.
        ("ild@2", "ab", "", 1),
        ("ild@2", "ac", "", 2),
        ("ild@3", "abc", "", Fraction(1 + 2 + 1, 3)),
        ("ild@2", "ad", "", 1),
        ("ild(distance=jaccard)@3", "abc", "", (Fraction(1, 2) + 1 + Fraction(3, 4)) / 3),
        ("ild(distance=hamming)@3", "abc", "", Fraction(1 + 4 + 3, 3)),
        ("ild(distance=jaccard)@2", "ad", "", None),
        ("srecall@1", "bc", "", Fraction(2, 4)),
        ("srecall@2", "bc", "", 1),
        ("srecall@2", "", "", 0),
        ("srecall(of=relevant)@2", "ac", "ab", Fraction(1, 2)),
        ("srecall(of=relevant)@2", "ac", "d", None),
        ("num_retrieved@3", "ab", "", 2),
        ("user_coverage(n=3)@5", "abc", "", 1),
        ("user_coverage(n=3)@2", "abc", "", 0),
        ("sufficient_reco@3", "ab", "", 0),
        ("sufficient_reco(per=place)@4", "ab", "", Fraction(1, 2)),
        ("unrepeated_reco@2", "aab", "", 0),
        ("unrepeated_reco@1", "aab", "", 1),
        ("unrepeated_reco(per=place)@3", "aab", "", Fraction(2, 3)),
    ],
)
def test_formula(text, items, relevant, value):
    assert one(text, items, relevant) == (None if value is None else close(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("unexpectedness@3", Fraction(1, 3)),
        ("unexpectedness@1", 1),
        ("unexpectedness(denominator=k)@4", Fraction(2, 4)),
        ("unseen@3", Fraction(2, 3)),
        ("unseen(denominator=k)@6", Fraction(5, 6)),
        # The baseline has b at 1 and a at 2, but within 1 only b.
        ("serendipity(against=baseline)@3", Fraction(1, 5) / 3),
        ("serendipity(against=baseline)@1", 1),
    ],
)
def test_baseline_and_history(text, value):
    assert one(text, "abc", "a", baseline=["bad"], history=["c"]) == close(value)


def test_equally_popular_items_stand_on_one_side_of_the_tail():
    two = Popularity((1, 5), (5, 1))
    assert [two.short_head(share) for share in (0.4, 0.5, 0.51, 0.9)] == [5, 5, 1, 1]
    assert Popularity((), ()).short_head(0.8) == 1


class TestCases:
    """Cases of public reports, by their id."""

    def test_a3_an_unknown_item_never_lifts_coverage_above_1(self):
        counts = ItemCounts.of([["x", "y"], ["w", "z"]], catalog="wxy")
        assert parse("item_coverage@2").definition.compute(counts, measure="fraction") == 1.0

    def test_a4(self):
        counts = ItemCounts.of([["a"]], catalog="ab")
        assert parse("item_coverage@1").definition.compute(counts, measure="fraction") == Fraction(1, 2)

    def test_a5_a6(self):
        gini = parse("gini@1").definition.compute
        equal = ItemCounts.of([[item] for item in "aabbccddee"], catalog="abcde")
        assert gini(equal, population="catalog", scale="n") == 0
        uneven = ItemCounts.of([["a"], ["a"], ["a"], ["b"]], catalog="abcd")
        assert gini(uneven, population="catalog", scale="n") == Fraction(5, 8)
        assert gini(uneven, population="recommended", scale="n") == Fraction(1, 4)
        assert gini(uneven, population="catalog", scale="n_minus_1") == close(Fraction(10, 12))
        assert math.isnan(gini(ItemCounts.of([["a"]], catalog="a"), population="catalog", scale="n_minus_1"))
        everybody = ItemCounts.of([["a"]] * 9, catalog=100)
        assert gini(everybody, population="catalog", scale="n_minus_1") == 1
        assert gini(everybody, population="recommended", scale="n") == 0

    @pytest.mark.parametrize("items", ["a", "ax"])
    def test_a7_diversity_of_one_item_or_of_an_unknown_one_is_undefined(self, items):
        assert one("ild@2", items) is None
        assert one("ild(distance=jaccard)@2", items) is None


def test_entropy_and_personalisation():
    counts = ItemCounts.of([["a", "b"], ["a", "c"]])
    entropy = parse("entropy@2").definition.compute
    assert entropy(counts, base=2, scale="none") == close(Fraction(3, 2))
    assert entropy(counts, base=2, scale="distinct") == close(Fraction(1, 2))
    diversity = parse("inter_list_diversity@2").definition.compute
    assert diversity(counts) == close(Fraction(1, 2))
    assert diversity(ItemCounts.of([["a", "b"], ["a", "b"]])) == close(0)
    assert diversity(ItemCounts.of([["a"], ["b"]])) == 1
    assert math.isnan(diversity(ItemCounts.of([["a"]])))


# Refused ------------------------------------------------------------------------------------------------------------------

LACKING = [
    ("arp@3", "arp@3 needs the training rows: give {}train, one row per user and item that users had before", "inputs."),
    ("unseen@3", "unseen@3 needs the training rows: give {}train, one row per user and item that users had before", "inputs."),
    (
        "ild@3",
        (
            "ild@3 needs features of items: give {}item_features, one row per item, with an array of numbers in the column "
            "columns.features"
        ),
        "inputs.",
    ),
    (
        "srecall@3",
        (
            "srecall@3 needs categories of items: give {}item_features, one row per item, with categories in the column "
            "columns.categories"
        ),
        "inputs.",
    ),
    (
        "unexpectedness@3",
        "unexpectedness@3 needs a baseline: give {}baseline, the name of the model that lists are compared with",
        "evaluation.",
    ),
    (
        "gini@3",
        "gini@3 needs the catalogue: give {}catalog, one row per item that could be recommended, or their number",
        "inputs.",
    ),
]


@pytest.mark.parametrize(("metric", "message", "place"), LACKING)
def test_a_metric_without_its_input_is_refused_when_the_configuration_is_read(tmp_path, metric, message, place):
    conf = tmp_path / "conf.yaml"
    conf.write_text(
        f"inputs:\n  predictions: {{path: /p}}\n  truth: {{path: /t}}\nevaluation: {{metrics: ['{metric}']}}\n"
        "output: {path: /o}\n",
        encoding="utf-8",
    )
    with pytest.raises(srm.ConfigError, match=re.escape(f"evaluation.metrics[0]: {message.format(place)}")):
        load(conf)


@pytest.mark.parametrize(("metric", "message", "place"), LACKING)
def test_and_in_memory(metric, message, place):
    lists = pd.DataFrame({"user_id": [1], "item_id": ["a"], "score": [1.0]})
    told = message.format("") if metric != "gini@3" else "gini@3 needs the catalogue: give catalog_size"
    with pytest.raises(srm.ConfigError, match=re.escape(told)):
        srm.evaluate_in_memory(lists, lists[["user_id", "item_id"]], metrics=metric)


def test_a_count_needs_no_catalogue():
    lists = pd.DataFrame({"user_id": [1, 1, 2], "item_id": ["a", "b", "a"], "score": [2.0, 1.0, 1.0]})
    asked = ["item_coverage(measure=count)", "gini(population=recommended)", "user_coverage(measure=count)"]
    found = srm.evaluate_in_memory(lists, lists[["user_id", "item_id"]], metrics=asked, k=2).to_dict()["model"]
    assert list(found.values()) == [2, close(Fraction(1, 6)), 2]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", [1.0], None), ("a", [2.0], None)], "item_features: expected one row for each item, found 1 more"),
        ([("a", [1.0], None), ("b", [1.0, 2.0], None)], "item_features: expected"),
        ([("a", [1.0, math.inf], None)], "item_features: expected finite"),
    ],
)
def test_item_features_that_cannot_be_compared_are_refused(rows, message):
    lists = pd.DataFrame({"user_id": [1, 1], "item_id": ["a", "b"], "score": [2.0, 1.0]})
    features = pd.DataFrame(rows, columns=["item_id", "features", "categories"])
    with pytest.raises(srm.DataError, match=re.escape(message)):
        srm.evaluate_in_memory(lists, lists[["user_id", "item_id"]], metrics="ild@2", item_features=features)


def test_an_unknown_baseline_is_refused():
    lists = pd.DataFrame({"model": ["m"], "user_id": [1], "item_id": ["a"], "score": [1.0]})
    with pytest.raises(srm.ConfigError, match="baseline: expected one of m, found 'n'"):
        srm.evaluate_in_memory(lists, lists[["user_id", "item_id"]], metrics="unexpectedness@1", baseline="n")


# On Spark -----------------------------------------------------------------------------------------------------------------


def spark_frames(spark):
    """Case A3: two lists of two, of a catalogue that lacks z."""
    predictions = spark.createDataFrame(
        [("u", "x", 2.0), ("u", "y", 1.0), ("v", "w", 2.0), ("v", "z", 1.0)], "user_id string, item_id string, score double"
    )
    return predictions, predictions.select("user_id", "item_id")


@pytest.mark.spark
@pytest.mark.core
def test_a3_on_spark(spark):
    """The unknown item is reported, and counts neither for coverage nor for a Gini over the catalogue."""
    catalog = spark.createDataFrame([("w",), ("x",), ("y",)], "item_id string")
    predictions, truth = spark_frames(spark)
    asked = ["item_coverage", "item_coverage(measure=count)", "gini", "entropy(base=2)"]
    result = srm.evaluate(predictions, truth, metrics=asked, k=[1, 2], catalog=catalog, n_buckets=2)
    assert result.to_dict()["model"] == {
        "item_coverage@1": close(Fraction(2, 3)),
        "item_coverage@2": 1.0,
        "item_coverage(measure=count)@1": 2.0,
        "item_coverage(measure=count)@2": 3.0,
        "gini@1": close(Fraction(1, 3)),
        "gini@2": 0.0,
        "entropy(base=2)@1": 1.0,
        "entropy(base=2)@2": 2.0,
    }
    assert any("unknown_items = 1" in line for line in result.warnings)
    assert not [name for name in result.per_user.columns if name.startswith(("item_", "gini", "entropy"))]
    with pytest.raises(srm.DataError, match=r"catalog: expected all items .*, found 1 more in lists: give their number"):
        srm.evaluate(predictions, truth, metrics=asked, k=2, catalog=3, n_buckets=2)


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize(
    ("kind", "rows", "metric", "message"),
    [
        ("array<double>", [("x", [1.0]), ("x", [2.0])], "ild", "item_features: expected one row for each item, found 1 more"),
        ("array<double>", [("x", [1.0]), ("y", [])], "ild", "found 0 to 1"),
        ("array<double>", [("x", [math.nan])], "ild", "item_features: expected finite numbers as features, found 1 vectors"),
        ("double", [("x", 1.0)], "ild", "item_features: column 'features' (columns.features): expected an array of numbers"),
        ("array<double>", [("x", [1.0])], "srecall", "item_features: no column 'categories' (columns.categories)"),
    ],
)
def test_item_features_are_checked_on_spark(spark, kind, rows, metric, message):
    features = spark.createDataFrame(rows, f"item_id string, features {kind}")
    with pytest.raises(srm.DataError, match=re.escape(message)):
        srm.evaluate(*spark_frames(spark), metrics=metric, k=2, item_features=features, n_buckets=2)


@pytest.mark.spark
@pytest.mark.once
def test_a_baseline_is_one_of_the_models(spark):
    with pytest.raises(srm.ConfigError, match="baseline: unknown model 'pop'"):
        srm.evaluate(*spark_frames(spark), metrics="unexpectedness", k=2, baseline="pop", n_buckets=2)


@pytest.mark.spark
def test_more_categories_than_one_number_has_bits(spark):
    """A category of its own for each of 130 items, and two for one of them."""
    items = [f"i{n:03}" for n in range(130)]
    lists = spark.createDataFrame(
        [("u", item, float(-n)) for n, item in enumerate(items)], "user_id string, item_id string, score double"
    )
    kinds = [(item, [f"c{n:03}", *(["c129"] if n == 0 else [])]) for n, item in enumerate(items)]
    table = spark.createDataFrame(kinds, "item_id string, categories array<string>")
    truth = spark.createDataFrame([("u", "i000"), ("u", "i064")], "user_id string, item_id string")
    asked = ["srecall@1", "srecall@65", "srecall(of=relevant)@64", "ild(distance=hamming)@2", "ild(distance=jaccard)@130"]
    found = srm.evaluate(lists, truth, metrics=asked, item_features=table, n_buckets=2).to_dict()["model"]
    pairs = 130 * 129 / 2
    expected = [Fraction(2, 130), Fraction(66, 130), Fraction(2, 3), 3, (pairs - 1 / 2) / pairs]
    assert list(found.values()) == [close(value) for value in expected]
