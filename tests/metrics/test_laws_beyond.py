"""Laws of the metrics beyond accuracy, which hold for all lists, ground truths and groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics.test_laws import DEFAULT, ITEMS, LAWS, LISTS, TRAIN

import spark_recmetrics as srm
from spark_recmetrics.conventions import CHOICES
from spark_recmetrics.metrics import DEFINITIONS, Metric, RankedBatch, parse, score
from spark_recmetrics.metrics.batch import with_items
from spark_recmetrics.metrics.item_counts import ItemCounts

BEYOND = [definition for definition in DEFINITIONS.values() if not definition.accuracy]
HELD: set[str] = set()
"""The names of the metrics with a law below."""


def law(*names: str) -> Callable[[Any], Any]:
    """Marks the law of these metrics."""
    HELD.update(names)
    return LAWS


def test_every_metric_beyond_accuracy_has_a_law():
    assert {definition.name for definition in BEYOND} == HELD


def close(value: float) -> Any:
    return pytest.approx(value, abs=1e-12, rel=1e-12)


# Values of one user -------------------------------------------------------------------------------------------------------

SOME_LIST = st.lists(st.sampled_from(ITEMS), unique=True, min_size=1)
VECTOR = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0]), min_size=3, max_size=3)
VECTORS = st.fixed_dictionaries(dict.fromkeys(ITEMS, VECTOR))
KINDS = st.fixed_dictionaries(dict.fromkeys(ITEMS, st.sets(st.sampled_from(["crime", "love", "war", "space"]))))
RELEVANT = st.sets(st.sampled_from(ITEMS), min_size=1)
N_ROWS = {item: sum(other == item for _, other in TRAIN) for item in ITEMS}


def one(text: str, items: Sequence[str], relevant: Any = (), n_items: int = 10, **known: Any) -> float:
    """The value of a user with this list and these relevant items."""
    lists, truth = [list(items)], [dict.fromkeys(relevant, 1.0)]
    batch = with_items(RankedBatch.of(lists, truth, n_items=n_items), lists, truth, **{"train": TRAIN, **known})
    return float(score(parse(text), batch, DEFAULT)[0])


@law("idcg")
@given(
    items=st.lists(st.sampled_from(ITEMS), unique=True),
    truth=st.dictionaries(st.sampled_from(ITEMS), st.sampled_from([0.0, 0.5, 1.0, 3.0, 5.0])),
    k=st.sampled_from([None, 1, 2, 3, 10]),
    how=st.fixed_dictionaries({option: st.sampled_from(CHOICES[option]) for option in ("gain", "idcg", "discount")}),
)
def test_ndcg_is_dcg_over_idcg(items, truth, k, how):
    """For every combination of options. 0/0 is undefined, or 0 if the ideal list does not consist of the relevant items."""
    batch, rules = RankedBatch.of([items], [truth]), DEFAULT.override(**how)
    dcg, idcg, ndcg = (float(score(Metric(name, k=k), batch, rules)[0]) for name in ("dcg", "idcg", "ndcg"))
    of_truth = how["idcg"] in ("at_k", "all")
    assert dcg >= 0
    assert math.isnan(ndcg) == (not truth or (of_truth and idcg == 0))
    if idcg > 0 and truth:
        assert ndcg == dcg / idcg
    elif truth and not of_truth:
        assert ndcg == dcg == 0
    if of_truth:
        assert idcg == float(score(Metric("idcg", k=k), RankedBatch.of([items[::-1]], [truth]), rules)[0])
        assert dcg <= idcg + 1e-12


@law("ild")
@given(items=st.lists(st.sampled_from(ITEMS), unique=True, min_size=2), features=VECTORS, categories=KINDS, data=st.data())
def test_intra_list_diversity_is_a_mean_distance(items, features, categories, data):
    """It is the mean over all pairs, does not depend on the order or the lengths of vectors, and is 0 for equal items."""
    other = data.draw(st.permutations(items))
    result = one("ild", items, features=features)
    assert 0 <= result <= 2
    assert one("ild", other, features=features) == close(result)
    lengths = dict(zip(ITEMS, data.draw(st.lists(st.sampled_from([0.1, 3.0, 1e6]), min_size=8, max_size=8)), strict=True))
    scaled = {item: [lengths[item] * number for number in vector] for item, vector in features.items()}
    assert one("ild", items, features=scaled) == close(result)
    if any(features[items[0]]):
        assert one("ild", items, features=dict.fromkeys(ITEMS, features[items[0]])) == close(0)
    pairs = list(itertools.combinations(items, 2))
    assert math.fsum(one("ild", pair, features=features) for pair in pairs) / len(pairs) == close(result)
    assert one("ild", pairs[0], features={pairs[0][0]: [2.0, -1.0], pairs[0][1]: [-4.0, 2.0]}) == close(2)
    for distance, highest in (("jaccard", 1), ("hamming", 4)):
        text = f"ild(distance={distance})"
        result = one(text, items, categories=categories)
        if all(categories[item] for item in items):
            assert 0 <= result <= highest
            assert (result == 0) == all(categories[a] == categories[b] for a, b in pairs)
            assert one(text, other, categories=categories) == close(result)
        else:
            assert math.isnan(result)


@law("srecall")
@given(items=LISTS, categories=KINDS, data=st.data())
def test_coverage_of_categories_is_a_union(items, categories, data):
    """Concatenated lists cover no less than either list, and no more than the sum of both, in any order."""
    if not any(categories.values()):
        assert math.isnan(one("srecall", items, categories=categories))
        return
    cut = data.draw(st.integers(0, len(items)))
    first, second = items[:cut], items[cut:]
    whole, a, b = (one("srecall", own, categories=categories) for own in (items, first, second))
    assert max(a, b) <= whole <= a + b + 1e-12
    assert one("srecall", second + first, categories=categories) == whole
    assert one("srecall", ITEMS, categories=categories) == 1
    of_relevant = one("srecall(of=relevant)", items, ITEMS, categories=categories)
    assert of_relevant == whole, "all is relevant"
    if any(categories[item] for item in first):
        assert one("srecall(of=relevant)", items, first, categories=categories) == 1


@law("unexpectedness")
@given(items=SOME_LIST, k=st.integers(1, 8), data=st.data())
def test_items_of_the_baseline_are_expected(items, k, data):
    other = data.draw(st.permutations(ITEMS))[: len(items)]
    there = one(f"unexpectedness@{k}", items, baseline=[other])
    assert one(f"unexpectedness@{k}", other, baseline=[items]) == close(there), "of lists of one length it is a distance"
    assert one(f"unexpectedness@{k}", items, baseline=[items]) == 0
    assert one(f"unexpectedness@{k}", items, baseline=[[item for item in ITEMS if item not in items]]) == 1
    result = one(f"unexpectedness(denominator=k)@{k}", items, baseline=[items])
    assert result == close(1 - min(len(items), k) / k), "empty places are not expected"


@law("unseen")
@given(items=SOME_LIST, seen=st.sets(st.sampled_from(ITEMS)), data=st.data())
def test_a_seen_item_lowers_the_unseen_share(items, seen, data):
    more = data.draw(st.sampled_from(items))
    before, after = (one("unseen", items, history=[own]) for own in (seen - {more}, seen | {more}))
    assert before - after == close(1 / len(items))
    assert one("unseen", items, history=[items]) == 0
    assert one("unseen", items, history=[set(ITEMS) - set(items)]) == 1


@law("num_retrieved", "user_coverage", "sufficient_reco", "unrepeated_reco")
@given(items=LISTS, k=st.integers(1, 10), n=st.integers(1, 9))
def test_metrics_of_the_length_of_a_list(items, k, n):
    length = one(f"num_retrieved@{k}", items)
    assert length == min(len(items), k)
    assert one(f"user_coverage(n={n})@{k}", items) == (length >= n)
    assert one(f"sufficient_reco@{k}", items) == (length == k)
    assert one(f"sufficient_reco(per=place)@{k}", items) == close(length / k)
    if items:
        assert one("unrepeated_reco", items) == one("unrepeated_reco(per=place)", items) == 1
        assert one("unrepeated_reco", items * 3) == 0
        assert one("unrepeated_reco(per=place)", items * 3) == close(1 / 3)


RARER = [(item, other) for item in ITEMS for other in ITEMS if N_ROWS[other] < N_ROWS[item]]


@law("novelty", "arp", "aplt", "aclt", "efd", "epc", "serendipity")
@given(pair=st.sampled_from(RARER), others=LISTS, place=st.integers(0, 6), relevant=st.sets(st.sampled_from(ITEMS)))
def test_replacing_an_item_by_a_rarer_one(pair, others, place, relevant):
    """The list is more novel and less popular then, with no fewer long-tail items. The novelty of the hits grows only if the
    item is relevant. The novelty of a cold item is that of an item with one row."""
    kept = [item for item in others if item not in pair]
    before, after = ([*kept[:place], item, *kept[place:]] for item in pair)
    as_rare = max(N_ROWS[pair[1]], 1) == N_ROWS[pair[0]]
    for text in ("arp", "arp(scale=share)"):
        assert one(text, after) < one(text, before), text
    for text in ("novelty(of=rows)", "novelty(of=rows, denominator=k)@9"):
        assert one(text, after) == close(one(text, before)) if as_rare else one(text, after) > one(text, before), text
    assert one("aplt(share=0.5)", after) >= one("aplt(share=0.5)", before)
    assert one("aclt(share=0.5)", after) == close(one("aplt(share=0.5)", after) * len(after))
    for text in ("efd(of=rows)", "epc(of=rows)", "serendipity"):
        hit, rarer_hit = (one(text, items, {*relevant, *pair}) for items in (before, after))
        assert rarer_hit >= hit, text
        assert rarer_hit > hit or text == "serendipity" or as_rare, text
        miss, rarer_miss = (one(text, items, {*relevant, "never"} - {*pair}) for items in (before, after))
        assert rarer_miss == miss, text


@law("novelty", "arp", "aplt", "aclt", "pop_rsp", "efd", "epc", "serendipity")
@given(items=st.lists(st.sampled_from(ITEMS[:6]), unique=True, min_size=1), relevant=RELEVANT)
def test_twice_as_many_users_with_the_same_training_rows(items, relevant):
    """Shares and rarity do not change, the numbers of rows double. None of these items is cold."""
    twice = [*TRAIN, *((f"other {user}", item) for user, item in TRAIN)]
    same = ("novelty", "novelty(of=rows)", "arp(scale=share)", "aplt(share=0.5)", "aclt", "pop_rsp(share=0.5)")
    for text in (*same, "efd", "efd(of=users)", "epc", "epc(of=rows)", "serendipity"):
        assert one(text, items, relevant, train=twice) == close(one(text, items, relevant)), text
    assert one("arp", items, train=twice) == close(2 * one("arp", items))


@law("novelty", "efd", "epc")
@given(items=SOME_LIST, n_users=st.integers(2, 9))
def test_equally_rare_items(items, n_users):
    """Each item has one user. If all items are relevant, the discounts cancel."""
    train = [(f"u{n % n_users}", item) for n, item in enumerate([*ITEMS, *(f"other {n}" for n in range(n_users))])]
    assert one("novelty", items, train=train) == close(math.log2(n_users))
    assert one("novelty(scale=max)", items, train=train) == close(1)
    assert one("efd(of=users)", items, items, train=train) == close(math.log2(n_users))
    assert one("epc(of=users)", items, items, train=train) == close(1 - 1 / n_users)


@law("serendipity")
@given(items=SOME_LIST, relevant=RELEVANT, n_items=st.integers(8, 20))
def test_popular_items_are_not_serendipitous(items, relevant, n_items):
    """And serendipity is at most the share of relevant items."""
    by_popularity = sorted(ITEMS[1:6], key=lambda item: -N_ROWS[item])
    assert one("serendipity", by_popularity, relevant, n_items) == 0
    assert one("serendipity(against=baseline)", items, relevant, n_items, baseline=[items]) == 0
    precision = one("precision(denominator=recommended)", items, relevant)
    for text in ("serendipity", "serendipity(against=baseline)"):
        result = one(text, items, relevant, n_items, baseline=[ITEMS[:3]])
        assert 0 <= result <= precision + 1e-12, text
        assert one(text, items, (), n_items, baseline=[ITEMS[:3]]) == 0, text


@law("pop_rsp")
@given(data=st.data(), share=st.sampled_from([0.3, 0.5, 0.8]))
def test_head_and_tail_recommended_equally_and_one_of_them_alone(data, share):
    """A list of the full catalog has rate 1 for both; a list of one side has rate 0 for the other."""
    text = f"pop_rsp(share={share})"
    assert one(text, data.draw(st.permutations(ITEMS)), n_items=len(ITEMS)) == 0
    tail = [item for item in ITEMS if one(f"aclt(share={share})", [item])]
    for side in (tail, [item for item in ITEMS if item not in tail]):
        alone = data.draw(st.lists(st.sampled_from(side), unique=True, min_size=1))
        assert one(text, alone) == 1


# Items of all lists -------------------------------------------------------------------------------------------------------

MANY_LISTS = st.lists(LISTS, min_size=1, max_size=8).filter(any)


def of_lists(text: str, lists: Sequence[Sequence[str]], n_items: int | None = None, k: int | None = None) -> float:
    metric = parse(text)
    counts = ItemCounts.of([items[:k] for items in lists], catalog=n_items)
    return float(metric.definition.compute(counts, **metric.options(DEFAULT)))


@law("item_coverage")
@given(lists=MANY_LISTS, more=LISTS, k=st.integers(1, 8), n_items=st.integers(8, 20))
def test_more_and_longer_lists_never_cover_fewer_items(lists, more, k, n_items):
    result = of_lists("item_coverage", lists, n_items, k)
    assert 0 < result <= 1
    assert of_lists("item_coverage", lists, n_items, k + 1) >= result
    assert of_lists("item_coverage", [*lists, more], n_items, k) >= result
    assert of_lists("item_coverage", [*lists, *lists], n_items, k) == result
    assert of_lists("item_coverage(measure=count)", lists, n_items, k) == close(result * n_items)
    assert of_lists("item_coverage", [*lists, ITEMS], len(ITEMS)) == 1


@law("gini", "entropy")
@given(lists=MANY_LISTS, n=st.integers(1, 8), times=st.integers(1, 4), n_items=st.integers(8, 20))
def test_equal_counts_are_most_even(lists, n, times, n_items):
    """Entropy is at most the logarithm of the number of items. It reaches it if all counts are equal; the Gini index is 0 then.
    Duplicating all lists changes neither."""
    shown = len({item for items in lists for item in items})
    for text in ("gini", "gini(population=catalog)", "entropy", "entropy(scale=distinct)"):
        assert of_lists(text, lists * times, n_items) == close(of_lists(text, lists, n_items)), text
    uneven, spread = of_lists("gini", lists), of_lists("entropy", lists)
    assert 0 <= uneven <= of_lists("gini(population=catalog)", lists, n_items) <= 1
    assert 0 <= spread <= math.log(shown) + 1e-12
    assert of_lists("entropy(base=2)", lists) == close(spread / math.log(2))
    assert of_lists("entropy(scale=distinct)", lists) == close(spread / shown)
    assert (uneven == 0) == (spread == close(math.log(shown))), "both know when all stand there equally often"
    equal = [ITEMS[:n]] * times
    assert of_lists("gini", equal) == of_lists("gini(population=catalog)", equal, n) == 0
    assert of_lists("entropy", equal) == close(math.log(n))


@law("gini", "entropy")
@given(others=st.lists(st.integers(0, 9), max_size=6), poor=st.integers(0, 6), apart=st.integers(2, 6))
def test_moving_a_recommendation_to_a_rarer_item_is_more_even(others, poor, apart):
    """Entropy grows then, and the Gini index falls."""
    counts = [*others, poor, poor + apart], [*others, poor + 1, poor + apart - 1]
    before, after = ([[ITEMS[place]] for place, n in enumerate(own) for _ in range(n)] for own in counts)
    for text in ("gini(population=catalog)", "gini(population=catalog, scale=n_minus_1)"):
        assert of_lists(text, after, len(others) + 2) < of_lists(text, before, len(others) + 2), text
    assert of_lists("entropy", after) > of_lists("entropy", before)


@law("inter_list_diversity")
@given(lists=MANY_LISTS, n=st.integers(2, 5), data=st.data())
def test_equal_lists_and_disjoint_lists(lists, n, data):
    text, items = "inter_list_diversity", next(filter(None, lists))
    assert of_lists(text, [data.draw(st.permutations(items)) for _ in range(n)]) == close(0)
    apart = [[f"{place} {item}" for item in own] for place, own in enumerate([*lists, items])]
    assert of_lists(text, apart) == close(1) or sum(map(bool, apart)) < 2
    result = of_lists(text, [*lists, items])
    pairs = list(itertools.combinations(filter(None, [*lists, items]), 2))
    if pairs:
        alone = [of_lists(text, pair) for pair in pairs]
        assert all(-1e-12 <= value <= 1 + 1e-12 for value in alone)
        assert result == close(math.fsum(alone) / len(alone)), "it is the mean over all pairs of lists"


# Groups -------------------------------------------------------------------------------------------------------------------


class World(NamedTuple):
    """The tables of an evaluation. The first user has a hit; every item has a training row."""

    lists: Mapping[str, Sequence[str]]
    expected: Mapping[str, Sequence[str]]
    truth: Mapping[str, Sequence[str]]
    train: Sequence[tuple[str, str]]
    genre: Mapping[str, Sequence[str]]
    gender: Mapping[str, str | None]
    features: Mapping[str, Sequence[float]]
    kinds: Mapping[str, Sequence[str]]

    def values(self, metrics: Any, k: int | None = None, scale: float = 1.0, shift: float = 0.0) -> dict[str, float | None]:
        """The value of each metric, and of each pair of groups by `metric, pair`."""
        rows = [
            (model, user, item, (9.0 - place) * scale + shift)
            for model, lists in (("als", self.lists), ("pop", self.expected))
            for user, items in lists.items()
            for place, item in enumerate(items)
        ]
        result = srm.evaluate(
            pd.DataFrame(rows, columns=["model", "user_id", "item_id", "score"]),
            frame((user, item) for user, items in self.truth.items() for item in items),
            metrics=metrics,
            k=k,
            columns=srm.Columns(model="model"),
            train=frame(self.train),
            catalog=len(ITEMS) + 2,
            item_groups=pd.DataFrame({"item_id": list(self.genre), "genre": [sorted(own) for own in self.genre.values()]}),
            user_segments=pd.DataFrame({"user_id": list(self.gender), "gender": list(self.gender.values())}),
            item_features=pd.DataFrame(
                [(item, vector, sorted(self.kinds[item])) for item, vector in self.features.items()],
                columns=["item_id", "features", "categories"],
            ),
            baseline="pop",
        )
        return {
            row["metric"] if row["slice"] == "all" else f"{row['metric']}, {row['slice_value']}": row["value"]
            for row in result.rows
            if row["model"] == "als"
        }


def frame(rows: Any) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["user_id", "item_id"])


@st.composite
def worlds(draw: Any, genres: Any = None) -> World:
    """Items have any number of genres, and most users have one of two groups."""
    genres = st.sets(st.sampled_from(["old", "new", "mid"])) if genres is None else genres
    users = [f"u{n}" for n in range(draw(st.integers(2, 4)))]
    lists = {user: draw(SOME_LIST) for user in users}
    hit = lists["u0"][0]
    expected = {user: draw(SOME_LIST) for user in users}
    truth = {user: draw(st.sets(st.sampled_from(ITEMS), min_size=1, max_size=5)) for user in users}
    for own in (expected, truth):
        own["u0"] = [hit, *sorted(set(own["u0"]) - {hit})]
    train = {("s", item) for item in ITEMS} | draw(st.sets(st.tuples(st.sampled_from(users), st.sampled_from(ITEMS))))
    genre = {item: draw(genres) for item in ITEMS}
    genre[hit] = genre[hit] or {"old"}
    gender = {"u0": "F", "u1": "M", **{user: draw(st.sampled_from(["F", "M", None])) for user in users[2:]}}
    truth = {user: sorted(own) for user, own in truth.items()}
    return World(lists, expected, truth, sorted(train), genre, gender, draw(VECTORS), draw(KINDS))


@law("rsp", "reo", "item_mad_ranking", "item_mad_rating")
@given(world=worlds())
def test_equal_groups_are_served_equally(world):
    names = ["rsp", "rsp(pool=all)", "reo", "item_mad_ranking", "item_mad_rating", "item_mad_rating(over=hits)"]
    genre = {item: {"old", "new"} if own else own for item, own in world.genre.items()}
    alike = world._replace(genre=genre, train=[*world.train, ("another", "other")])
    assert alike.values(names) == dict.fromkeys(names, 0)


@pytest.mark.slow
@law("rsp")
@given(world=worlds())
def test_the_size_of_a_group_does_not_matter_if_all_its_items_are_recommended(world):
    """All users get all items that are new to them, and then all items."""
    train = [*((user, item) for user, item in world.train if user != "u0"), ("u0", "i7")]
    lists = {user: [item for item in ITEMS if (user, item) not in train] for user, _ in train}
    genre = {**world.genre, "i0": {"old"}, "i1": {"new"}}
    served = world._replace(lists=lists, expected={"u0": ["i0"]}, truth={"u0": ["i0"]}, train=train, genre=genre)
    assert served.values("rsp") == {"rsp": close(0)}
    assert served._replace(lists=dict.fromkeys(lists, ITEMS)).values("rsp(pool=all)") == {"rsp(pool=all)": close(0)}


@pytest.mark.slow
@law("rsp", "reo", "pop_reo")
@given(world=worlds(), data=st.data())
def test_only_one_group_is_recommended(world, data):
    """The value is sqrt(2) for three groups and 1 for two. It is 0 if all relevant items of all groups are recommended."""
    shown = st.lists(st.sampled_from(ITEMS[2:6]), unique=True, min_size=1)
    lists = {user: data.draw(shown) for user in world.lists}
    genre = {item: {"old"} for item in ITEMS} | {"i0": {"new"}, "i1": {"mid"}}
    truth = {**world.truth, "u0": [lists["u0"][0], "i0", "i1"]}
    train = [*world.train, ("another", "other")]
    served = world._replace(lists=lists, genre=genre, truth=truth, expected=truth, train=train)
    result = served.values(["rsp", "rsp(pool=all)", "reo"])
    assert result == {"rsp": close(math.sqrt(2)), "rsp(pool=all)": close(math.sqrt(2)), "reo": close(math.sqrt(2))}
    # The head is "i5" alone: a list of it has no hit in the tail.
    head = served._replace(lists={"u0": ["i5"]}, truth={"u0": ["i5", "i0"]}, train=[("s", "i0"), ("s", "i5"), ("t", "i5")])
    assert head.values("pop_reo(share=0.5)") == {"pop_reo(share=0.5)": 1}
    both = head._replace(lists={"u0": ["i5", "i0"]})
    assert both.values(["pop_reo(share=0.5)", "reo"]) == {"pop_reo(share=0.5)": 0, "reo": 0}


def doubled(world: World) -> World:
    """The tables with a copy of every user, with a mark after the name."""
    users = {}
    for table in ("lists", "expected", "truth", "gender"):
        users[table] = {f"{user}{mark}": value for user, value in getattr(world, table).items() for mark in ("", "'")}
    return world._replace(**users, train=[(f"{user}{mark}", item) for user, item in world.train for mark in ("", "'")])


PAIRED = ["bias_disparity_bs", "bias_disparity_bs(source=truth)", "bias_disparity_br", "bias_disparity_bd"]


@pytest.mark.slow
@law("user_mad_ranking", "user_mad_rating", "bias_disparity_bs", "bias_disparity_br", "bias_disparity_bd")
@given(world=worlds())
def test_groups_of_identical_users_are_served_equally(world):
    twins = doubled(world)
    twins = twins._replace(gender={user: "M" if user.endswith("'") else "F" for user in twins.gender})
    result = twins.values(["user_mad_ranking", "user_mad_rating", *PAIRED])
    assert result["user_mad_ranking"] == result["user_mad_rating"] == close(0)
    of_pairs = {name: value for name, value in result.items() if "," in name}
    assert any("bias_disparity_br" in name for name in of_pairs)
    for name, value in of_pairs.items():
        assert value == close(of_pairs[name.replace("F", "M") if "F" in name else name.replace("M", "F")]), name


@law("user_mad_ranking")
@given(world=worlds(), k=st.integers(1, 3))
def test_a_perfect_and_an_empty_group_differ_by_1(world, k):
    lists = {user: world.truth[user] if world.gender[user] == "F" else ["never"] for user in world.lists}
    assert world._replace(lists=lists).values("user_mad_ranking", k) == {f"user_mad_ranking@{k}": close(1)}


@pytest.mark.slow
@law("user_mad_rating", "item_mad_rating")
@given(world=worlds(st.sampled_from([{"old"}, {"new"}, {"old", "mid"}])))
def test_differences_have_the_unit_of_the_scores(world):
    """Doubled scores have doubled differences. A constant added to all scores changes nothing, unless misses count 0."""
    names = ["user_mad_rating", "item_mad_rating", "item_mad_rating(over=recommended)"]
    before, twice, more = world.values(names), world.values(names, scale=2.0), world.values(names, shift=64.0)
    assert twice == {name: value if value is None else close(2 * value) for name, value in before.items()}
    kept = names[:2]
    assert [more[name] for name in kept] == [value if value is None else close(value) for value in map(before.get, kept)]


@pytest.mark.slow
@law("item_mad_ranking", "item_mad_rating")
@given(world=worlds(st.sampled_from([{"old"}, {"new"}])))
def test_items_that_are_always_hits_and_items_that_never_are(world):
    """Their gains differ by 1: one group has only hits, the other only misses."""
    lists = {user: ["i0", "i1"] for user in world.lists}
    truth = {user: ["i0"] for user in world.lists}
    apart = world._replace(lists=lists, truth=truth, expected=truth, genre={"i0": ["old"], "i1": ["new"]})
    names = ["item_mad_ranking", "item_mad_rating(over=recommended)", "item_mad_rating"]
    assert list(apart.values(names).values()) == [1, 9, None], "an item without a hit has no mean over hits"
    right = world._replace(truth=world.lists, expected=world.lists)
    result = right.values(names, scale=0.0, shift=4.0)
    assert all(value in (None, close(0)) for value in result.values()), "all is right and has one score, whatever the group is"


@pytest.mark.slow
@law("bias_disparity_bs", "bias_disparity_br", "bias_disparity_bd")
@given(world=worlds(st.sampled_from([{"old"}, {"new"}, {"mid"}])))
def test_preferences_are_shares(world):
    """If every item has one group, the preferences weighted by group size sum to 1. Lists of the training rows or of the
    relevant items have no disparity, and a user with all items prefers no group."""
    result = world.values(PAIRED)
    size = {name: sum(name in own for own in world.genre.values()) / len(ITEMS) for name in ("old", "new", "mid")}
    for metric in PAIRED[:-1]:
        for user in ("F", "M"):
            own = {name: value for name, value in result.items() if name.startswith(f"{metric},") and user in name}
            weighed = [value * next(n for name, n in size.items() if name in pair) for pair, value in own.items()]
            assert own or metric == PAIRED[0], "of training rows a group of users may have none"
            assert math.fsum(weighed) == close(1 if own else 0), metric
    same = world._replace(train=[(user, item) for user, items in world.lists.items() for item in items], truth=world.lists)
    none = same.values(["bias_disparity_bd", "bias_disparity_bd(source=truth)"])
    assert set(none.values()) == {0}
    for name, value in world._replace(genre={item: ["old"] for item in ITEMS}).values(PAIRED).items():
        assert value in (None, close(1 if "," in name and "_bd" not in name else 0)), name


# All of them --------------------------------------------------------------------------------------------------------------

VARIANTS = [
    Metric(definition.name, params=params)
    for definition in BEYOND
    for params in [(), *(((key, value),) for key in definition.options for value in definition.choices(key))]
]
"""Each metric without options, and with each name of each option."""


def renamed(names: Mapping[str, str], own: Any) -> Any:
    """The tables with other names of users, items and groups, and with rows in another order."""
    if isinstance(own, Mapping):
        return {names.get(key, key): renamed(names, value) for key, value in reversed(list(own.items()))}
    if isinstance(own, str):
        return names.get(own, own)
    if isinstance(own, set):
        return {renamed(names, one) for one in own}
    return type(own)(renamed(names, one) for one in own) if isinstance(own, list | tuple) else own


@pytest.mark.slow
@LAWS
@given(world=worlds(), k=st.sampled_from([None, 1, 3]), data=st.data())
def test_names_and_order_of_rows_do_not_matter(world, k, data):
    """The new names of users, items and groups sort differently."""
    old = [*ITEMS, *world.lists, "s", "old", "new", "mid", "F", "M", "crime", "love", "war", "space"]
    new = data.draw(st.permutations(["ü", "10", "9", "z z", "A", "a", "é", *(f"name {n}" for n in range(len(old) - 7))]))
    names = dict(zip(old, new, strict=True))
    other = World(*(renamed(names, own) for own in world))._replace(train=renamed(names, world.train[::-1]))
    right = {}
    for name, value in world.values(VARIANTS, k).items():
        metric, *pair = name.split(", ")
        renamed_pair = [" & ".join(names[group] for group in groups.split(" & ")) for groups in pair]
        right[", ".join([metric, *renamed_pair])] = None if value is None else close(value)
    assert other.values(VARIANTS, k) == right


TWICE = ("arp", "arp(cold=zero)", "arp(cold=one)", "arp(scale=none)", "user_coverage(measure=count)")
OTHERS = ("inter_list_diversity", "novelty(scale=max)")
"""Metrics that double are numbers of users or rows. `inter_list_diversity` compares lists with their copies, and `surprisal`
divides by the logarithm of the number of users."""


@pytest.mark.slow
@LAWS
@given(world=worlds(), k=st.sampled_from([None, 1, 3]))
def test_duplicating_all_users_changes_no_mean_and_no_share(world, k):
    asked = [metric for metric in VARIANTS if str(metric) not in OTHERS]
    right = world.values(asked, k)
    for name, value in doubled(world).values(asked, k).items():
        times = 2 if name.split("@")[0] in TWICE else 1
        assert value == (None if right[name] is None else close(times * right[name])), name
