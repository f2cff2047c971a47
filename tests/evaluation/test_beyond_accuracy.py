"""Metrics beyond accuracy: values worked by hand, cases of public reports under their ids, and what is refused."""

from __future__ import annotations

import json
import math
import re
from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from engines import records
from job_data import load
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import spark_recmetrics as srm
from spark_recmetrics.conventions import convention
from spark_recmetrics.inputs.accepted_columns import BIGINT
from spark_recmetrics.inputs.memory import MemoryTable
from spark_recmetrics.job.cli import main
from spark_recmetrics.metrics import RankedBatch, parse, registry, score
from spark_recmetrics.metrics.batch import with_items
from spark_recmetrics.metrics.item_counts import ItemCounts
from spark_recmetrics.metrics.recommended_items import Popularity
from spark_recmetrics.metrics.registry import Parameter
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.request.slices import Band
from spark_recmetrics.scoring.per_user import score_bucket
from spark_recmetrics.side_info.bands_memory import read_bands
from spark_recmetrics.side_info.packed import SideRows
from spark_recmetrics.storage import actions

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
    assert [two.head_threshold(share) for share in (0.4, 0.5, 0.51, 0.9)] == [5, 5, 1, 1]
    assert Popularity((), ()).head_threshold(0.8) == 1


class TestCases:
    """Cases of public reports, by their id."""

    def test_a3_an_unknown_item_never_lifts_coverage_above_1(self):
        counts = ItemCounts.of([["x", "y"], ["w", "z"]], catalog="wxy")
        assert parse("item_coverage@2").definition.compute(counts, measure="fraction") == 1.0

    def test_a4_half_of_the_catalogue(self):
        counts = ItemCounts.of([["a"]], catalog="ab")
        assert parse("item_coverage@1").definition.compute(counts, measure="fraction") == Fraction(1, 2)

    def test_a5_items_that_stand_equally_often(self):
        gini = parse("gini@1").definition.compute
        equal = ItemCounts.of([[item] for item in "aabbccddee"], catalog="abcde")
        assert gini(equal, population="catalog", scale="n") == 0
        assert gini(equal, population="recommended", scale="n_minus_1") == 0

    def test_a6_three_and_one_of_four(self):
        gini = parse("gini@1").definition.compute
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
    # A cosine is a sum of rounded shares; it is not above 1.
    assert all(0 <= diversity(ItemCounts.of([["a", "b", "c"]] * n)) < 1e-12 for n in range(2, 60))
    assert diversity(ItemCounts.of([["a"], ["b"]])) == 1
    assert math.isnan(diversity(ItemCounts.of([["a"]])))


# Groups -------------------------------------------------------------------------------------------------------------------


def of_groups(metrics, scores=True, **options):
    """Three users, u and v of group F and w of M; items a and b are old, b, c and d new, and z, in no list, is neither."""
    lists = [("u", "a", 4.0), ("u", "b", 2.0), ("v", "c", 3.0), ("v", "a", 1.0), ("w", "b", 5.0)]
    predictions = pd.DataFrame(lists, columns=["user_id", "item_id", "score"])
    truth = pd.DataFrame([("u", "a"), ("u", "d"), ("v", "c"), ("w", "b")], columns=["user_id", "item_id"])
    groups = {"a": ["old"], "b": ["old", "new", "new"], "c": ["new"], "d": ["new"], "z": []}
    tables = {
        "train": pd.DataFrame([("u", "c"), ("v", "b"), ("v", "b"), ("x", "z")], columns=["user_id", "item_id"]),
        "item_groups": pd.DataFrame({"item_id": list(groups), "age": list(groups.values())}),
        "user_segments": pd.DataFrame({"user_id": ["u", "v", "w"], "gender": ["F", "F", "M"]}),
    }
    return srm.evaluate(predictions, truth, metrics=metrics, k=None, **{**tables, **options})


def value_of_groups(text, **options):
    return of_groups(text, **options).to_dict()["model"][text]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # Old a, b, a, b are 4 of 2 items; new b, c, b are 3 of 3.
        ("rsp(pool=all)", (2 - 1) / Fraction(2 + 1)),
        # Of 3 users with training rows: old 6 less v's b; new 9 less b and u's c.
        ("rsp", (Fraction(4, 5) - Fraction(3, 7)) / (Fraction(4, 5) + Fraction(3, 7))),
        ("rsp(groups=age, pool=all)@1", (Fraction(2, 2) - Fraction(2, 3)) / (Fraction(2, 2) + Fraction(2, 3))),
        # Old: u's a and w's b are relevant, and both are found; new: d, c and b, and c and b are found.
        ("reo", (1 - Fraction(2, 3)) / (1 + Fraction(2, 3))),
        ("reo@1", (1 - Fraction(2, 3)) / (1 + Fraction(2, 3))),
        # b has 2 of 4 training rows: the head. Its only relevant one is found, and of a, d and c two.
        ("pop_reo(share=0.5)", (1 - Fraction(2, 3)) / (1 + Fraction(2, 3))),
        # a is a hit in one of two, b too, c always; d is in no list.
        ("item_mad_ranking", (Fraction(1, 2) + 1) / 2 - Fraction(1, 2)),
        ("item_mad_ranking@1", 0),
        # a 4 and nothing, b nothing and 5, c 3.
        ("item_mad_rating(over=recommended)", (Fraction(5, 2) + 3) / 2 - (2 + Fraction(5, 2)) / 2),
        ("item_mad_rating", Fraction(4 + 5, 2) - Fraction(5 + 3, 2)),
        # u finds a of two at rank 1, v and w all that there is.
        ("user_mad_ranking", 1 - (1 / (1 + 1 / LOG2_3) + 1) / 2),
        ("user_mad_ranking@1", 0),
        ("user_mad_rating", 5 - Fraction(3 + 2, 2)),
        ("user_mad_rating@1", 5 - Fraction(4 + 3, 2)),
    ],
)
def test_groups(text, value):
    assert value_of_groups(text) == close(value)


@pytest.fixture
def own_metrics():
    saved = dict(registry.DEFINITIONS), dict(registry.ALIASES)
    yield
    for registered, before in zip((registry.DEFINITIONS, registry.ALIASES), saved, strict=True):
        registered.clear()
        registered.update(before)


def test_an_own_metric_of_pairs_of_groups(own_metrics):
    """What is wanted item by item elsewhere is added up by pairs of groups here."""
    users, items = (Parameter("", column=side) for side in ("user", "item"))

    @registry.register("own_score", kind="group", options={"users": users, "groups": items}, measures=("score",), upper=None)
    def own_score(found, *, users, groups):
        """Sum of the scores of the hits of F among the new items."""
        return {}, found.sums["score"]["F", "new"].total + 100 * found.sums["score"]["F", "old"].total

    # u's a and v's c are hits, w's b is of group M.
    found = of_groups(["own_score", "item_mad_rating"]).to_dict()["model"]
    assert next(iter(found.values())) == 3 + 400
    assert found["item_mad_rating"] == value_of_groups("item_mad_rating")


def test_a_kernel_is_not_asked_for_nobody(own_metrics):
    @registry.register("own_longest", upper=None)
    def own_longest(batch, k):
        """Of nobody there is no maximum."""
        return np.full(batch.size, float(np.max(batch.n_recommended)))

    scoring = Scoring.of([parse("own_longest")], srm.convention("default"), 1, given_ranks=False, full_lists=True)
    lists = pd.DataFrame({"user": np.zeros(0, np.int64), "item": np.zeros(0, np.int64), "score": np.zeros(0)})
    truth = lists.rename(columns={"score": "rating"})
    train = pd.DataFrame({"user": [1], "item": [1]})
    found = score_bucket(lists, truth, scoring, SideRows(train))
    assert (len(found), "own_longest" in found) == (0, True)


def test_three_groups():
    """Rates 2, 1 and 0 of one item each: the deviation is the square root of 2/3. Differences 2, 1 and 1 of user means."""
    three = pd.DataFrame({"item_id": ["a", "b", "d"], "age": ["x", "y", "z"]})
    lists = pd.DataFrame({"user_id": ["u", "v", "v"], "item_id": ["a", "a", "b"], "score": [3.0, 2.0, 2.0]})
    truth = lists[["user_id", "item_id"]]
    found = srm.evaluate(lists, truth, metrics="rsp(pool=all)", k=2, item_groups=three).to_dict()["model"]
    assert found == {"rsp(pool=all)@2": close(math.sqrt(2 / 3))}
    users = pd.DataFrame({"user_id": ["u", "v", "w"], "age": [1, 2, 3]})
    lists = pd.DataFrame({"user_id": ["u", "v", "w"], "item_id": "a", "score": [5.0, 4.0, 3.0]})
    found = srm.evaluate(lists, truth, metrics="user_mad_rating", k=2, user_segments=users).to_dict()["model"]
    assert found == {"user_mad_rating@2": close(Fraction(2 + 1 + 1, 3))}


# Of 5 items a and b are old, and b, c and d new: shares 2/5 and 3/5. F has the training rows c and b, M has none, and x is of
# neither. F gets a, b, c, a; M gets b. F likes a, d and c; M likes b.
BIAS = [
    ("bias_disparity_bs", {"F & new": Fraction(2, 2) / Fraction(3, 5), "F & old": Fraction(1, 2) / Fraction(2, 5)}),
    (
        "bias_disparity_bs(source=truth)",
        {
            "F & new": Fraction(2, 3) / Fraction(3, 5),
            "F & old": Fraction(1, 3) / Fraction(2, 5),
            "M & new": 1 / Fraction(3, 5),
            "M & old": 1 / Fraction(2, 5),
        },
    ),
    (
        "bias_disparity_br",
        {
            "F & new": Fraction(2, 4) / Fraction(3, 5),
            "F & old": Fraction(3, 4) / Fraction(2, 5),
            "M & new": 1 / Fraction(3, 5),
            "M & old": 1 / Fraction(2, 5),
        },
    ),
    (
        "bias_disparity_br@1",
        {
            "F & new": Fraction(1, 2) / Fraction(3, 5),
            "F & old": Fraction(1, 2) / Fraction(2, 5),
            "M & new": 1 / Fraction(3, 5),
            "M & old": 1 / Fraction(2, 5),
        },
    ),
    ("bias_disparity_bd", {"F & new": Fraction(1, 2) - 1, "F & old": Fraction(3, 2) - 1}),
    (
        "bias_disparity_bd(source=truth)",
        {"F & new": Fraction(3, 4) - 1, "F & old": Fraction(9, 4) - 1, "M & new": 0, "M & old": 0},
    ),
]


@pytest.mark.parametrize(("text", "values"), BIAS)
def test_bias_disparity(text, values):
    """Each pair is a row, and `all` has how far they are from no bias."""
    result = of_groups(text)
    pairs = [row for row in result.rows if row["slice"] != "all"]
    assert [(row["slice"], row["slice_value"], row["metric"]) for row in pairs] == [("gender*age", key, text) for key in values]
    assert [row["value"] for row in pairs] == [close(value) for value in values.values()]
    assert [row["n_users"] for row in pairs] == [2 if key.startswith("F") else 1 for key in values]
    assert all(row["small"] and row["ci_low"] is None for row in pairs)
    middle = 0 if "_bd" in text else 1
    whole = sum((abs(value - middle) for value in values.values()), Fraction(0)) / len(values)
    assert result.to_dict() == {"model": {text: close(whole)}}
    assert next(row["n_users"] for row in result.rows) == (3 if "M & new" in values else 2)


def test_nobody_of_a_pair_has_a_bias():
    nobody = pd.DataFrame({"user_id": ["u"], "gender": [None]})
    result = of_groups(["bias_disparity_br", "ndcg"], user_segments=nobody)
    assert [(row["slice"], row["metric"], row["value"] is None) for row in result.rows] == [
        ("all", "bias_disparity_br", True),
        ("all", "ndcg", False),
    ]
    assert result.status == "undefined"


def test_the_columns_of_a_pair_have_different_names():
    rows = pd.DataFrame({"user_id": ["u"], "age": ["F"]})
    told = "bias_disparity_br: expected columns of different names, found age twice: rename one"
    with pytest.raises(srm.ConfigError, match=re.escape(told)):
        of_groups("bias_disparity_br", user_segments=rows)


@pytest.mark.parametrize("text", ["rsp(pool=all)", "reo", "item_mad_ranking", "item_mad_rating"])
def test_one_group_of_items_is_undefined(text):
    one_group = pd.DataFrame({"item_id": ["a", "b", "z"], "age": ["old", "old", None]})
    result = of_groups(text, item_groups=one_group)
    assert result.to_dict() == {"model": {text: None}}
    assert result.status == "undefined"


@pytest.mark.parametrize("text", ["user_mad_ranking", "user_mad_rating"])
def test_one_group_of_users_is_undefined(text):
    assert value_of_groups(text, user_segments=pd.DataFrame({"user_id": ["u", "w"], "gender": ["F", None]})) is None


def test_the_column_with_groups_is_named_or_the_only_one():
    two = pd.DataFrame({"item_id": ["a", "b"], "age": ["old", "new"], "Main genre": ["war", "love"]})
    text = "rsp(groups=Main genre, pool=all)"
    assert value_of_groups(text, item_groups=two) == 0
    assert str(parse(" RSP( pool = all, groups = Main genre )@3")) == f"{text}@3"
    told = "reo: expected one column with groups in item_groups, found age, Main genre: write reo(groups=age)"
    with pytest.raises(srm.ConfigError, match=re.escape(told)):
        of_groups("reo", item_groups=two)
    with pytest.raises(srm.ConfigError, match=r"reo\(groups=agee\): no column 'agee' in item_groups; did you mean 'age'"):
        of_groups("reo(groups=agee)", item_groups=two)
    with pytest.raises(srm.ConfigError, match="reo: expected one column with groups in item_groups, found none"):
        of_groups("reo", item_groups=two[["item_id"]])
    with pytest.raises(srm.ConfigError, match="groups: expected the name of a column, of letters, digits and _, found '3'"):
        parse("reo(groups=3)")


@pytest.mark.parametrize(("table", "id_col"), [("item_groups", "item_id"), ("user_segments", "user_id")])
def test_tables_of_groups_with_repeats_are_refused(table, id_col):
    side = id_col.removesuffix("_id")
    rows = pd.DataFrame({id_col: ["a", "a", "b"], "kind": ["x", "y", "y"]})
    told = f"{table}: expected one row for each {side}, found 1 more, e.g. {side}s a: remove the repeats"
    with pytest.raises(srm.DataError, match=re.escape(told)):
        of_groups(["reo", "user_mad_rating"], **{table: rows})


GROUPS = "column 'kind': expected a string, an integer, a boolean or a date, found {}: cast it first"


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ([0.5, None], "double"),
        ([1.0, 2.0], "double"),  # pandas makes floats of integers next to a missing one only
        ([{"a": 1}, None], "struct<a:bigint>"),
        ([b"x", None], "binary"),
        ([math.inf, None], "double"),
        ([pd.Timestamp("2026-11-28"), None], "timestamp"),
        ([[["a"], ["b", "c"]], None], "array<array<string>>"),
    ],
)
def test_groups_of_other_types_are_rejected(cells, found):
    kind = pd.Series(cells, dtype=float if isinstance(cells[0], float) else object)
    rows = pd.DataFrame({"item_id": ["a", "b"], "kind": kind})
    with pytest.raises(srm.DataError) as refused:
        of_groups("reo", item_groups=rows)
    assert str(refused.value) == f"item_groups: {GROUPS.format(found)}"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([1j, None], "values that Arrow can hold, found complex: cast them first"),
        ([10**38, None], "integers of at most 38 digits, found a longer one: make strings of them first"),
        (["3", 3], "values of one type, found int, str: cast them to one type first"),
        ([[["a"]], ["b"]], "values of one type, found list of list of str, list of str: cast them to one type first"),
        (
            [["a"], [0.5, None]],
            "values of one type, found list of NoneType and float, list of str: cast them to one type first",
        ),
        (["\ud800", "b"], "strings of valid characters, found a surrogate: replace it"),
    ],
)
def test_columns_that_arrow_cannot_hold_are_rejected(cells, message):
    rows = pd.DataFrame({"item_id": ["a", "b"], "kind": pd.Series(cells, dtype=object)})
    with pytest.raises(srm.DataError) as rejected:
        of_groups("reo", item_groups=rows)
    assert str(rejected.value) == f"item_groups: column 'kind': expected {message}"


def test_a_set_of_groups_is_like_a_list():
    groups = [["old"], ["old", "new"], ["new"], ["new"]]
    rows = pd.DataFrame({"item_id": list("abcd"), "age": groups})
    in_sets = rows.assign(age=rows["age"].map(set))
    assert value_of_groups("reo", item_groups=rows) == value_of_groups("reo", item_groups=in_sets)


def test_a_user_has_one_group():
    rows = pd.DataFrame({"user_id": ["u", "v"], "kind": [["F", "M"], ["F"]]})
    with pytest.raises(srm.DataError) as refused:
        of_groups("user_mad_rating", user_segments=rows)
    assert str(refused.value) == f"user_segments: {GROUPS.format('array<string>')}"


def test_there_are_a_thousand_groups_at_most():
    rows = pd.DataFrame({"user_id": [f"u{n}" for n in range(1002)], "kind": [None, *range(1001)]})
    told = "groups: kind: expected at most 1000 values, found 1001: group the values first"
    with pytest.raises(srm.DataError, match=f"^{told}$"):
        of_groups("user_mad_rating", user_segments=rows)
    with pytest.raises(srm.DataError, match=f"^{told}$"):
        of_groups("reo", item_groups=rows.rename(columns={"user_id": "item_id"}))
    assert of_groups("user_mad_rating", user_segments=rows[:-1]).status == "undefined"  # of users in no list


def names_of_groups(cells):
    table = MemoryTable("item_groups", pd.DataFrame({"item_id": range(len(cells)), "kind": cells}))
    return read_bands("item", table, [Band("kind")], "groups", id_col="item_id", id_type=BIGINT)["slice_kind"].tolist()


def test_groups_have_the_names_that_spark_writes():
    assert names_of_groups([True, False, None]) == ["true", "false", None]
    assert names_of_groups([[True], [False, None], None]) == [["true"], ["false", None], None]
    assert names_of_groups([date(2026, 11, 28), float("nan")]) == ["2026-11-28", None]
    assert names_of_groups([Decimal("1.5"), Decimal("1.50"), Decimal("1E+1")]) == ["1.50", "1.50", "10.00"]
    assert names_of_groups(pd.Series([2**53 - 1, None])) == [str(2**53 - 1), None]


def test_names_of_columns_are_texts():
    rows = pd.DataFrame({"item_id": ["a", "b"], 0: ["old", "new"]})
    told = "item_groups: expected strings as names of columns, found 0: rename it to '0'"
    with pytest.raises(srm.DataError, match=f"^{told}$"):
        of_groups("reo", item_groups=rows)
    twice = pd.DataFrame([["a", "old", "new"]], columns=["item_id", "age", "age"])
    told = "item_groups: expected one column named 'age', in any case, found age, age"
    with pytest.raises(srm.DataError, match=f"^{told}$"):
        of_groups("reo(groups=age)", item_groups=twice)


def test_texts_that_differ_behind_a_null_character_are_different():
    """As users, items, groups and items with features: the same values as with another character."""
    asked = [
        "ndcg@1",
        "user_coverage(measure=count)@1",
        "item_coverage(measure=count)@2",
        "reo@1",
        "user_mad_rating@1",
        "ild@2",
    ]

    def found(sign):
        ids = {name: f"{name[0]}{sign}{name[1]}" for name in ("ua", "ub", "ia", "ib", "ic", "ga", "gb")}
        lists = [("ua", "ia", 3.0), ("ua", "ib", 2.0), ("ub", "ib", 5.0), ("ub", "ic", 1.0)]
        lists = pd.DataFrame([(ids[u], ids[i], s) for u, i, s in lists], columns=["user_id", "item_id", "score"])
        truth = pd.DataFrame({"user_id": [ids["ua"], ids["ub"]], "item_id": [ids["ia"], ids["ic"]]})
        items = pd.DataFrame({"item_id": [ids["ia"], ids["ib"], ids["ic"]], "kind": [ids["ga"], ids["gb"], ids["gb"]]})
        users = pd.DataFrame({"user_id": [ids["ua"], ids["ub"]], "kind": [ids["ga"], ids["gb"]]})
        vectors = items[["item_id"]].assign(features=[[1.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
        tables = {"item_groups": items, "user_segments": users, "item_features": vectors}
        return srm.evaluate(lists, truth, metrics=asked, k=None, **tables).to_dict()["model"]

    # The first list has a hit at 1. Of old and new one and none are found at 1. Cosines are 3/5 and 4/5.
    expected = [Fraction(1, 2), 2, 3, 1, 5 - 3, 1 - (Fraction(3, 5) + Fraction(4, 5)) / 2]
    assert found("-") == found("\0") == {text: close(value) for text, value in zip(asked, expected, strict=True)}


def test_metrics_of_groups_have_no_value_per_user():
    result = of_groups(["ndcg", "reo", "user_mad_ranking"])
    assert not parse("reo").has_users
    assert [name for name in result.per_user if "reo" in name or "mad" in name or "group" in name] == []


# Refused ------------------------------------------------------------------------------------------------------------------

LACKING = [
    ("arp@3", "arp@3 needs the training rows: give {}train, one row per (user, item) of earlier interactions", "inputs."),
    ("unseen@3", "unseen@3 needs the training rows: give {}train, one row per (user, item) of earlier interactions", "inputs."),
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
        "reo@3",
        "reo@3 needs groups of items: give {}item_groups, one row per item, with the columns that define groups",
        "inputs.",
    ),
    (
        "user_mad_ranking@3",
        (
            "user_mad_ranking@3 needs groups of users: give {}user_segments, one row per user, with the columns that "
            "define groups"
        ),
        "inputs.",
    ),
    (
        "unexpectedness@3",
        "unexpectedness@3 needs a baseline: give {}baseline, the name of the model to compare the lists with",
        "evaluation.",
    ),
    (
        "gini@3",
        "gini@3 needs the catalog: give {}catalog, one row per item that could be recommended, or their number",
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
    told = message.format("") if metric != "gini@3" else "gini@3 needs the catalog: give catalog, one row per item"
    with pytest.raises(srm.ConfigError, match=re.escape(told)):
        srm.evaluate(lists, lists[["user_id", "item_id"]], metrics=metric)


def test_a_count_needs_no_catalogue():
    lists = pd.DataFrame({"user_id": [1, 1, 2], "item_id": ["a", "b", "a"], "score": [2.0, 1.0, 1.0]})
    asked = ["item_coverage(measure=count)", "gini(population=recommended)", "user_coverage(measure=count)"]
    found = srm.evaluate(lists, lists[["user_id", "item_id"]], metrics=asked, k=2).to_dict()["model"]
    assert list(found.values()) == [2, close(Fraction(1, 6)), 2]


# Sparse vectors as Spark and pandas hold them.
SPARSE = "struct<size: int, indices: array<int>, values: array<double>>"
TYPED = SPARSE.replace("<size", "<type: {}, size")


def sparse(size, indices, values):
    return {"size": size, "indices": indices, "values": values}


LENGTHS = (
    "item_features: expected feature vectors of one length from 1 to 1024, found {}: fill or shorten them; use null for "
    "an item without features"
)
NUMBERS = (
    "item_features: expected finite numbers as features, found 1 with a null or non-finite number: use null for an item "
    "without features"
)
PLACES = (
    "item_features: expected sparse vectors with as many indices as values, and different indices from 0 to size - 1, "
    "found {} invalid vectors: use null for an item without features"
)
VECTOR = (
    "item_features: column 'about' (columns.features): expected an array of numbers, a vector, or a struct of size, "
    "indices and values, found {}: cast it first"
)
ARROW = "item_features: column 'about': expected values that Arrow can hold, found {}: cast them first"
CATEGORY = (
    "item_features: column 'about' (columns.categories): expected a string, an integer, or an array of these, found {}: "
    "cast it first"
)
# Metric, type on Spark, what items have, the whole message; and the type in it.
REFUSED = [
    (
        "ild",
        "array<double>",
        [("x", [1.0]), ("x", [2.0]), ("of no list", [1.0]), ("of no list", [1.0])],
        ("item_features: expected one row for each item, found 2 more, e.g. items of no list, x: remove the repeats"),
        None,
    ),
    ("ild", "array<double>", [("x", [1.0]), ("y", [1.0, 2.0])], LENGTHS.format("1 to 2"), None),
    ("ild", "array<double>", [("x", [1.0]), ("of no list", [])], LENGTHS.format("0 to 1"), None),
    ("ild", "array<double>", [("x", []), ("y", [])], LENGTHS.format("0"), None),
    ("ild", "array<double>", [("x", [1.0] * 1025)], LENGTHS.format("1025"), None),
    ("ild", SPARSE, [("x", sparse(2**31 - 1, [7], [1.0]))], LENGTHS.format("2147483647"), None),
    ("ild", SPARSE, [("x", sparse(0, [], []))], LENGTHS.format("0"), None),
    ("ild", "array<double>", [("x", [math.inf]), ("y", [1.0])], NUMBERS, None),
    ("ild", "array<double>", [("x", [math.nan]), ("y", [1.0])], NUMBERS, None),
    ("ild", "array<double>", [("x", [1.0, None]), ("y", [1.0, 2.0])], NUMBERS, None),
    ("ild", SPARSE, [("x", sparse(3, [1], [None])), ("y", sparse(3, [1], [2.0]))], NUMBERS, None),
    ("ild", SPARSE, [("x", sparse(3, [3], [1.0])), ("y", sparse(3, [-1], [1.0]))], PLACES.format(2), None),
    ("ild", SPARSE, [("x", sparse(3, [1, 2], [1.0])), ("y", sparse(3, [1, 1], [1.0, 2.0]))], PLACES.format(2), None),
    ("ild", SPARSE, [("x", sparse(None, [1], [1.0])), ("y", sparse(3, None, [1.0]))], PLACES.format(2), None),
    ("ild", SPARSE, [("x", sparse(3, [None], [1.0])), ("y", sparse(-1, [], []))], PLACES.format(2), None),
    ("ild", TYPED.format("int"), [("x", {"type": 7, **sparse(3, [1], [1.0])})], PLACES.format(1), None),
    ("ild", "double", [("x", 1.0)], VECTOR, "double"),
    ("ild", "array<string>", [("x", ["1"])], VECTOR, "array<string>"),
    ("ild", "struct<size: bigint>", [("x", {"size": 3})], VECTOR, "struct<size:bigint>"),
    (
        "ild",
        "struct<size: bigint, indices: array<double>, values: array<double>>",
        [("x", sparse(3, [0.5], [1.0]))],
        VECTOR,
        "struct<size:bigint,indices:array<double>,values:array<double>>",
    ),
    ("srecall", "double", [("x", 1.5)], CATEGORY, "double"),
    (
        "srecall",
        "array<int>",
        [("x", list(range(4000))), ("of no list", list(range(3999, 4097)))],
        "item_features: expected at most 4096 categories, found more: group them first",
        None,
    ),
]
ABOUT = {"ild": srm.Columns(features="about"), "srecall": srm.Columns(categories="about")}


def lists_in_memory():
    """The tables of `spark_frames`."""
    lists = [("u", "x", 2.0), ("u", "y", 1.0), ("v", "w", 2.0), ("v", "z", 1.0)]
    predictions = pd.DataFrame(lists, columns=["user_id", "item_id", "score"])
    return predictions, predictions[["user_id", "item_id"]]


@pytest.mark.parametrize(("metric", "kind", "rows", "message", "found"), REFUSED)
def test_item_features_that_cannot_be_compared_are_refused(metric, kind, rows, message, found):
    features = pd.DataFrame({"item_id": [item for item, _ in rows], "about": [own for _, own in rows]})
    with pytest.raises(srm.DataError) as refused:
        srm.evaluate(*lists_in_memory(), metrics=metric, k=2, item_features=features, columns=ABOUT[metric])
    assert str(refused.value) == (message.format(found) if found else message)


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
@pytest.mark.parametrize(("metric", "kind", "rows", "message", "found"), REFUSED[::4])
def test_and_on_spark(spark, metric, kind, rows, message, found):
    features = spark.createDataFrame(rows, f"item_id string, about {kind}")
    with pytest.raises(srm.DataError) as refused:
        srm.evaluate(*spark_frames(spark), metrics=metric, k=2, item_features=features, columns=ABOUT[metric], n_buckets=2)
    assert str(refused.value) == (message.format(found) if found else message)


# What is no vector and no category on either side, and whole numbers of which pandas makes floats: x and w have 1, y has 2.
ACCEPTED = [
    ("ild", "array<double>", [("x", None), ("y", None)], None),
    ("ild", SPARSE, [("x", None), ("y", None)], None),
    # A field of that name is that of Spark ML only if it is a number.
    ("ild", TYPED.format("string"), [(i, {"type": "1", **sparse(2, [n], [1.0])}) for n, i in enumerate("xy")], 1),
    ("ild", TYPED.format("int"), [(i, {"type": None, **sparse(2, [n], [1.0])}) for n, i in enumerate("xy")], 1),
    (
        "ild",
        TYPED.format("int"),
        [(i, {"type": 1, **sparse(None, None, [n, 1.0 - n])}) for n, i in ((0.0, "x"), (1.0, "y"))],
        1,
    ),
    ("srecall", "int", [("x", 1), ("y", 2), ("w", 1), ("z", None), ("of no list", 3)], Fraction(2 + 1, 2 * 3)),
    ("srecall", "array<int>", [("x", [1, None]), ("y", [2]), ("w", [1]), ("z", None)], Fraction(2 + 1, 2 * 2)),
    ("srecall", "boolean", [("x", True), ("y", False), ("w", True), ("z", None)], Fraction(2 + 1, 2 * 2)),
]


@pytest.mark.parametrize(("metric", "kind", "rows", "value"), ACCEPTED)
def test_items_without_features_or_with_one_number(metric, kind, rows, value):
    features = pd.DataFrame({"item_id": [item for item, _ in rows], "about": [own for _, own in rows]})
    found = srm.evaluate(*lists_in_memory(), metrics=metric, k=2, item_features=features, columns=ABOUT[metric])
    assert found.to_dict()["model"] == {f"{metric}@2": None if value is None else close(value)}


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
@pytest.mark.parametrize(("metric", "kind", "rows", "value"), ACCEPTED)
def test_the_same_on_spark(spark, metric, kind, rows, value):
    features = spark.createDataFrame(rows, f"item_id string, about {kind}")
    found = srm.evaluate(*spark_frames(spark), metrics=metric, k=2, item_features=features, columns=ABOUT[metric], n_buckets=2)
    assert found.to_dict()["model"] == {f"{metric}@2": None if value is None else close(value)}


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ([10**400, 0], ARROW.format("list of int and int")),
        (sparse(2, [0], [-(10**400)]), ARROW.format("dict")),
        (sparse(2, [10**400], [1.0]), ARROW.format("dict")),
        (sparse(10**400, [0], [1.0]), ARROW.format("dict")),
        ([[1.0], [2.0, 3.0]], VECTOR.format("array<array<double>>")),
    ],
)
def test_numbers_too_large_for_a_double_are_no_features(own, message):
    features = pd.DataFrame({"item_id": ["x"], "about": [own]})
    with pytest.raises(srm.DataError) as refused:
        srm.evaluate(*lists_in_memory(), metrics="ild", k=2, item_features=features, columns=ABOUT["ild"])
    assert str(refused.value) == message


def test_categories_in_whole_numbers_of_pandas_that_know_a_missing_one():
    features = pd.DataFrame({"item_id": ["x", "y", "w", "z"], "about": pd.array([1, 2, 1, None], dtype="Int64")})
    found = srm.evaluate(*lists_in_memory(), metrics="srecall", k=2, item_features=features, columns=ABOUT["srecall"])
    assert found.to_dict()["model"] == {"srecall@2": close(Fraction(3, 4))}


# The cosine of x and y is 4/5, that of w and z 14 / sqrt(50 · 13).
DENSE = {"x": [3.0, 4.0, 0.0, 0.0], "y": [0.0, 1.0, 0.0, 0.0], "w": [0.0, 0.1, 0.0, 0.7], "z": [0.3, 0.0, 0.0, 0.2]}
# The places of w are not in order, and one of z is given although its number is 0.
PARTS = {
    "x": sparse(4, [0, 1], [3.0, 4.0]),
    "y": sparse(4, [1], [1.0]),
    "w": sparse(4, [3, 1], [0.7, 0.1]),
    "z": sparse(4, [0, 2, 3], [0.3, 0.0, 0.2]),
}
BY_USER = {"u": close(Fraction(1, 5)), "v": close(1 - 14 / math.sqrt(50 * 13))}


def in_memory(vectors):
    features = pd.DataFrame({"item_id": list(vectors), "features": list(vectors.values())})
    result = srm.evaluate(*lists_in_memory(), metrics="ild", k=2, item_features=features)
    return dict(zip(result.per_user["user"], result.per_user["ild_at_2"], strict=True))


def test_sparse_vectors_in_memory():
    dense = in_memory({item: np.array(own) for item, own in DENSE.items()})
    assert dense == BY_USER
    assert in_memory(PARTS) == dense
    arrays = {item: {**own, "indices": np.array(own["indices"]), "size": np.int64(4)} for item, own in PARTS.items()}
    assert in_memory(arrays) == dense
    assert in_memory({**PARTS, "none": None}) == dense
    with pytest.raises(srm.DataError) as rejected:
        in_memory({**PARTS, "x": DENSE["x"]})
    assert str(rejected.value) == (
        "item_features: column 'features': expected values of one type, found dict, list of float and float and float and "
        "float: cast them to one type first"
    )


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize(
    "form",
    ["both", *(pytest.param(form, marks=pytest.mark.heavy) for form in ("struct", "struct of singles", "sparse", "dense"))],
)
def test_vectors_on_spark(spark, form):
    linalg = pytest.importorskip("pyspark.ml.linalg")
    types = StructType().add("item_id", "string").add("features", linalg.VectorUDT())
    vectors = {item: linalg.Vectors.dense(own) for item, own in DENSE.items()}
    if form.startswith("struct"):
        sizes = {"struct": SPARSE, "struct of singles": "struct<size: bigint, indices: array<bigint>, values: array<float>>"}
        types, vectors = f"item_id string, features {sizes[form]}", PARTS
    elif form != "dense":
        of_places = {item: dict(zip(own["indices"], own["values"], strict=True)) for item, own in PARTS.items()}
        vectors = {
            item: dense if form == "both" and item in "xw" else linalg.Vectors.sparse(4, of_places[item])
            for item, dense in vectors.items()
        }
    features = spark.createDataFrame([*vectors.items(), ("none", None)], types)
    result = srm.evaluate(*spark_frames(spark), metrics="ild", k=2, item_features=features, n_buckets=2)
    found = {row["user"]: row["ild_at_2"] for row in records(result.per_user)}
    if form == "struct of singles":
        assert found == {user: pytest.approx(value.expected, rel=1e-6) for user, value in BY_USER.items()}
    else:
        assert found == in_memory(DENSE)


def test_an_unknown_baseline_is_refused():
    lists = pd.DataFrame({"model": ["m"], "user_id": [1], "item_id": ["a"], "score": [1.0]})
    with pytest.raises(srm.ConfigError, match="baseline: unknown model 'n'; known: m"):
        srm.evaluate(lists, lists[["user_id", "item_id"]], metrics="unexpectedness@1", baseline="n")


# On Spark -----------------------------------------------------------------------------------------------------------------


def spark_frames(spark):
    """Case A3: two lists of two, of a catalogue that lacks z."""
    predictions = spark.createDataFrame(
        [("u", "x", 2.0), ("u", "y", 1.0), ("v", "w", 2.0), ("v", "z", 1.0)], "user_id string, item_id string, score double"
    )
    return predictions, predictions.select(["user_id", "item_id"])


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.core
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_users_of_training_rows_alone_have_no_row(spark, ansi):
    """They are added up where lists and truth have nobody, in buckets and in a stream of users."""
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    ids = "user_id string, item_id string"
    train = spark.createDataFrame([(f"u{n}", "xy"[n % 2]) for n in range(20)], ids)
    groups = spark.createDataFrame([("x", "old"), ("y", "new")], "item_id string, genre string")
    lists, truth = spark.createDataFrame([("u0", "y", 1.0)], f"{ids}, score double"), spark.createDataFrame([("u0", "y")], ids)
    known = {"metrics": ["bias_disparity_bd", "hit"], "k": 1, "train": train, "item_groups": groups, "n_buckets": 8}
    known["user_segments"] = spark.createDataFrame([(f"u{n}", "all") for n in range(20)], "user_id string, gender string")
    for ranking in ("window", "lists"):
        found = srm.evaluate(lists, truth, **known, ranking=ranking)
        assert [(row["model"], row["user"]) for row in records(found.per_user)] == [("model", "u0")]
        # Half of the training rows are of either group, and all of the list is of one: 2 - 1, and 0 - 1.
        assert found.to_dict()["model"]["bias_disparity_bd@1"] == pytest.approx(1.0)


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
    assert any("unknown_items: 1 row" in line for line in result.warnings)
    assert not [name for name in result.per_user.columns if name.startswith(("item_", "gini", "entropy"))]
    with pytest.raises(srm.DataError, match=r"catalog: expected all items that can be recommended, found 1 more in the lists"):
        srm.evaluate(predictions, truth, metrics=asked, k=2, catalog=3, n_buckets=2)


def test_a_missing_column_of_item_features_is_refused(session):
    features = session.createDataFrame([("x", [1.0])], "item_id string, features array<double>")
    with pytest.raises(srm.DataError, match=r"item_features: no column 'categories' \(columns\.categories\)"):
        srm.evaluate(*spark_frames(session), metrics="srecall", k=2, item_features=features, n_buckets=2)


def test_a_baseline_is_one_of_the_models(session):
    with pytest.raises(srm.ConfigError, match="baseline: unknown model 'pop'"):
        srm.evaluate(*spark_frames(session), metrics="unexpectedness", k=2, baseline="pop", n_buckets=2)


def test_more_categories_than_one_number_has_bits(session):
    """A category of its own for each of 130 items, and two for one of them."""
    items = [f"i{n:03}" for n in range(130)]
    lists = session.createDataFrame(
        [("u", item, float(-n)) for n, item in enumerate(items)], "user_id string, item_id string, score double"
    )
    kinds = [(item, [f"c{n:03}", *(["c129"] if n == 0 else [])]) for n, item in enumerate(items)]
    table = session.createDataFrame(kinds, "item_id string, categories array<string>")
    truth = session.createDataFrame([("u", "i000"), ("u", "i064")], "user_id string, item_id string")
    asked = ["srecall@1", "srecall@65", "srecall(of=relevant)@64", "ild(distance=hamming)@2", "ild(distance=jaccard)@130"]
    found = srm.evaluate(lists, truth, metrics=asked, item_features=table, n_buckets=2).to_dict()["model"]
    pairs = 130 * 129 / 2
    expected = [Fraction(2, 130), Fraction(66, 130), Fraction(2, 3), 3, (pairs - 1 / 2) / pairs]
    assert list(found.values()) == [close(value) for value in expected]


# Groups on Spark ----------------------------------------------------------------------------------------------------------


def grouped_frames(spark):
    """The tables of `of_groups`."""
    lists = [("u", "a", 4.0), ("u", "b", 2.0), ("v", "c", 3.0), ("v", "a", 1.0), ("w", "b", 5.0)]
    truth = [("u", "a"), ("u", "d"), ("v", "c"), ("w", "b")]
    groups = [("a", ["old"]), ("b", ["old", "new", "new"]), ("c", ["new"]), ("d", ["new"]), ("z", [])]
    return {
        "predictions": spark.createDataFrame(lists, "user_id string, item_id string, score double"),
        "truth": spark.createDataFrame(truth, "user_id string, item_id string"),
        "train": spark.createDataFrame([("u", "c"), ("v", "b"), ("v", "b"), ("x", "z")], "user_id string, item_id string"),
        "item_groups": spark.createDataFrame(groups, "item_id string, age array<string>"),
        "user_segments": spark.createDataFrame([("u", "F"), ("v", "F"), ("w", "M")], "user_id string, gender string"),
    }


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_job_tells_groups_and_pairs(spark, tmp_path, capsys):
    """From a configuration to the printed tables and to the table of values, beside a slice and a gate."""
    for name, table in grouped_frames(spark).items():
        table.write.parquet(str(tmp_path / name))
    inputs = {
        name: {"path": str(tmp_path / name)} for name in ("predictions", "truth", "train", "item_groups", "user_segments")
    }
    asked = ["ndcg", "rsp", "reo", "user_mad_ranking", "bias_disparity_br", "bias_disparity_bd"]
    conf = {
        "inputs": inputs,
        "evaluation": {"metrics": asked, "top_k": 2, "slices": ["gender"]},
        "gates": [{"metric": "reo@2", "max": 0.5}],
        "output": {"path": str(tmp_path / "out")},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    assert main(["evaluate", "--config", str(path)]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^reo +2 +0\.2000", told, re.MULTILINE)
    assert re.search(r"^bias_disparity_br@2 +users +model\nall +3 +0\.8021\n", told, re.MULTILINE)
    assert re.search(r"^gender\*age = F & old +~2 +1\.8750$", told, re.MULTILINE)
    assert re.search(r"^gender = F +~2 ", told, re.MULTILINE)
    rows = spark.read.parquet(str(tmp_path / "out" / "summary")).where("slice = 'gender*age'").collect()
    found = {(row["metric"], row["slice_value"]): row["value"] for row in rows}
    assert found["bias_disparity_bd@2", "F & old"] == close(Fraction(1, 2))
    assert len(found) == 4 + 2
    conf["gates"] = [{"metric": "reo@2", "max_drop": 0.1, "against": "model(model)", "significant": True}]
    path.write_text(json.dumps(conf))
    assert main(["validate-config", "--config", str(path)]) == 2
    assert "gates[0].significant: reo@2 cannot be tested, because it has no value for each user" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.once
def test_groups_are_checked_on_spark(spark):
    tables = grouped_frames(spark)
    first, second = tables.pop("predictions"), tables.pop("truth")
    twice = tables["user_segments"].union(tables["user_segments"].where("gender = 'M'"))
    told = "user_segments: expected one row for each user, found 1 more, e.g. users w: remove the repeats"
    with pytest.raises(srm.DataError, match=re.escape(told)):
        srm.evaluate(first, second, metrics="user_mad_rating", n_buckets=2, user_segments=twice)
    score = spark.createDataFrame([("a", 0.5)], "item_id string, price double")
    with pytest.raises(srm.DataError, match=r"item_groups: column 'price': expected a string, .* or a date, found double"):
        srm.evaluate(first, second, metrics="reo", n_buckets=2, item_groups=score)
    for kind in ("double", "binary", "array<string>"):
        several = spark.createDataFrame([], f"item_id string, kind array<{kind}>")
        with pytest.raises(srm.DataError, match=re.escape(f"item_groups: {GROUPS.format(f'array<{kind}>')}")):
            srm.evaluate(first, second, metrics="reo", n_buckets=2, item_groups=several)
    with pytest.raises(srm.ConfigError, match="reo@10: expected one column with groups in item_groups, found age, more"):
        srm.evaluate(first, second, metrics="reo", item_groups=tables["item_groups"].withColumn("more", F.lit(1)))


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_a_group_may_have_the_name_of_those_without_value(spark):
    given = grouped_frames(spark)
    named = F.when(F.col("gender") == "F", "(none)").otherwise(F.col("gender"))
    given["user_segments"] = given["user_segments"].withColumn("gender", named)
    groups = [("a", ["(none)"]), ("b", ["(none)", "new", None]), ("c", ["new"]), ("d", ["new"]), ("z", [None])]
    given["item_groups"] = spark.createDataFrame(groups, "item_id string, age array<string>")
    asked = ["reo", "user_mad_rating", "bias_disparity_bs", "item_mad_rating"]
    result = srm.evaluate(**given, metrics=asked, k=None, n_buckets=2)
    assert result.to_dict()["model"] == {text: close(value) for text, value in of_groups(asked).to_dict()["model"].items()}
    pairs = {row["slice_value"] for row in result.rows if row["slice"] != "all"}
    assert pairs == {"(none) & (none)", "(none) & new"}
    result.release()


def test_a_catalogue_without_items_is_refused(session):
    catalog = session.createDataFrame([(None,)], "item_id string")
    with pytest.raises(
        srm.DataError, match=r"^catalog: expected rows with an item, found none: check its location and filters$"
    ):
        srm.evaluate(*spark_frames(session), metrics=["item_coverage", "auc"], k=2, catalog=catalog, n_buckets=2)


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_models_are_not_compared_by_groups(spark):
    tables = grouped_frames(spark)
    one, truth = tables.pop("predictions"), tables.pop("truth")
    both = one.withColumn("model", F.lit("a")).union(one.withColumn("model", F.lit("b")))
    result = srm.evaluate(both, truth, metrics=["ndcg", "reo", "bias_disparity_br"], k=2, n_buckets=2, **tables)
    assert [row["metric"] for row in srm.compare(result).rows] == ["ndcg@2"]
    with pytest.raises(srm.ConfigError, match="reo@2: expected a metric with a value for each user, found one without"):
        srm.compare(result, metrics=["reo@2"])
    result.release()


@pytest.mark.spark
@pytest.mark.heavy
def test_close_whole_numbers_are_different_ids_of_groups(spark):
    """Rows of groups of users stand beside truth, and must not make doubles of its ids."""
    first, second = 2**53, 2**53 + 1
    lists = spark.createDataFrame([(first, first, 2.0), (second, second, 4.0)], "user_id bigint, item_id bigint, score double")
    users = spark.createDataFrame([(first, "F"), (second, "M"), (7, "M"), (8, None)], "user_id bigint, gender string")
    items = spark.createDataFrame([(first, "old"), (second, "new")], "item_id bigint, age string")
    truth = lists.select("user_id", "item_id").where(F.col("user_id") == first)
    asked = ["user_mad_rating", "user_mad_ranking(groups=gender)", "reo", "hit"]
    rules = srm.convention("default").override(users="all")
    found = srm.evaluate(
        lists, truth, metrics=asked, k=1, convention=rules, user_segments=users, item_groups=items, n_buckets=4
    ).to_dict()["model"]
    # M has no relevant item, so no nDCG; and no new item is relevant.
    assert list(found.values()) == [2.0, None, None, 0.5]


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize("why", ["refused before", "refused behind", "a result"])
def test_nothing_stays_in_the_cluster_but_a_result(spark, monkeypatch, why):
    kept, released = [], []
    materialize, release = actions.materialize, actions.release
    monkeypatch.setattr(actions, "materialize", lambda frame: kept.append(materialize(frame)) or kept[-1])
    monkeypatch.setattr(actions, "release", lambda frame: released.append(frame) or release(frame))
    predictions = spark.createDataFrame([(1, item, 1.0) for item in "abcd"], "user_id int, item_id string, score double")
    truth = spark.createDataFrame([(1, "a")], "user_id int, item_id string")

    def refuse(_):
        raise srm.DataError("no")

    def found(**options):
        return srm.evaluate(predictions, truth, metrics=["gini", "arp"], k=4, train=truth, n_buckets=2, **options)

    if why == "a result":
        result = found(catalog=4)
        trained, items, per_user, listed = kept
        assert [frame in released for frame in (trained, items, per_user, listed)] == [True, True, False, True]
        result.release()
    else:
        with pytest.raises(srm.DataError):
            found(**({"catalog": 4, "before": refuse} if why == "refused before" else {"catalog": 3}))
    assert len(kept) == {"refused before": 2, "refused behind": 3, "a result": 4}[why]
    assert {id(frame) for frame in kept} == {id(frame) for frame in released}


@pytest.mark.parametrize("scale", [1e200, 1e-200, 1.0])
def test_directions_of_features_count_and_not_their_size(scale):
    """Of four vectors two pairs of equal ones, and the others at right angles: the mean distance of six pairs is 4/6."""
    batch = with_items(
        RankedBatch.of([["a", "b", "c", "d"]], [{}]),
        [["a", "b", "c", "d"]],
        [{}],
        features={"a": [scale, 0], "b": [2 * scale, 0], "c": [0, scale], "d": [0, 3 * scale]},
    )
    assert score(parse("ild@4"), batch, srm.convention("default")).tolist() == pytest.approx([4 / 6])


def test_the_share_of_the_short_head_is_that_which_is_written():
    """55 of 100 rows are 55 %, although 0.55 * 100 is 55.00000000000001."""
    assert Popularity((20, 25, 55), (1, 1, 1)).head_threshold(0.55) == 55


def test_training_rows_are_wanted_where_popularity_is():
    frames = {"predictions": pd.DataFrame({"user_id": [1], "item_id": ["a"], "score": [1.0]})}
    frames["truth"] = pd.DataFrame({"user_id": [1], "item_id": ["a"]})
    nothing = frames["truth"].iloc[:0]
    with pytest.raises(srm.DataError, match=r"^train: expected rows with a user and an item, found none"):
        srm.evaluate(**frames, metrics=["novelty"], k=1, train=nothing)
    found = srm.evaluate(**frames, metrics=["auc", "unseen"], k=1, train=nothing, catalog=4)
    assert found.to_dict() == {"model": {"auc": 1.0, "unseen@1": 1.0}}
