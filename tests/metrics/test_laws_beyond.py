"""Laws of the metrics beyond accuracy: what is true of each by its definition, whatever the lists, truth and groups are."""

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
"""The metrics of which a law below speaks by name."""


def law(*names: str) -> Callable[[Any], Any]:
    """A law of these metrics."""
    HELD.update(names)
    return LAWS


def test_every_metric_beyond_accuracy_has_a_law_of_its_own():
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
    """For every combination of options; and 0/0 is undefined, or 0 if the ideal list does not consist of relevant items."""
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
def test_the_distance_within_a_list_is_one_of_directions_and_of_sets(items, features, categories, data):
    """It is the mean over all pairs, the same in another order and of vectors of other lengths, and 0 of equal items."""
    other = data.draw(st.permutations(items))
    found = one("ild", items, features=features)
    assert 0 <= found <= 2
    assert one("ild", other, features=features) == close(found)
    lengths = dict(zip(ITEMS, data.draw(st.lists(st.sampled_from([0.1, 3.0, 1e6]), min_size=8, max_size=8)), strict=True))
    scaled = {item: [lengths[item] * number for number in vector] for item, vector in features.items()}
    assert one("ild", items, features=scaled) == close(found)
    if any(features[items[0]]):
        assert one("ild", items, features=dict.fromkeys(ITEMS, features[items[0]])) == close(0)
    pairs = list(itertools.combinations(items, 2))
    assert math.fsum(one("ild", pair, features=features) for pair in pairs) / len(pairs) == close(found)
    assert one("ild", pairs[0], features={pairs[0][0]: [2.0, -1.0], pairs[0][1]: [-4.0, 2.0]}) == close(2)
    for distance, highest in (("jaccard", 1), ("hamming", 4)):
        text = f"ild(distance={distance})"
        found = one(text, items, categories=categories)
        if all(categories[item] for item in items):
            assert 0 <= found <= highest
            assert (found == 0) == all(categories[a] == categories[b] for a, b in pairs)
            assert one(text, other, categories=categories) == close(found)
        else:
            assert math.isnan(found)


@law("srecall")
@given(items=LISTS, categories=KINDS, data=st.data())
def test_categories_are_covered_once(items, categories, data):
    """Two lists cover what one behind the other does: no less than either, no more than both together, whatever the order."""
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
def test_what_the_baseline_recommends_is_expected(items, k, data):
    other = data.draw(st.permutations(ITEMS))[: len(items)]
    there = one(f"unexpectedness@{k}", items, baseline=[other])
    assert one(f"unexpectedness@{k}", other, baseline=[items]) == close(there), "of lists of one length it is a distance"
    assert one(f"unexpectedness@{k}", items, baseline=[items]) == 0
    assert one(f"unexpectedness@{k}", items, baseline=[[item for item in ITEMS if item not in items]]) == 1
    found = one(f"unexpectedness(denominator=k)@{k}", items, baseline=[items])
    assert found == close(1 - min(len(items), k) / k), "empty places are not expected"


@law("unseen")
@given(items=SOME_LIST, seen=st.sets(st.sampled_from(ITEMS)), data=st.data())
def test_an_item_that_was_seen_takes_its_share(items, seen, data):
    more = data.draw(st.sampled_from(items))
    before, after = (one("unseen", items, history=[own]) for own in (seen - {more}, seen | {more}))
    assert before - after == close(1 / len(items))
    assert one("unseen", items, history=[items]) == 0
    assert one("unseen", items, history=[set(ITEMS) - set(items)]) == 1


@law("num_retrieved", "user_coverage", "sufficient_reco", "unrepeated_reco")
@given(items=LISTS, k=st.integers(1, 10), n=st.integers(1, 9))
def test_how_long_a_list_is(items, k, n):
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
def test_a_rarer_item_in_the_place_of_another(pair, others, place, relevant):
    """A list is more novel then and less popular, and no less of it is long tail. What is relevant is more novel if such an
    item is; what is not does not count. Of cold items novelty is that of an item with one row."""
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
def test_as_many_users_again_with_the_same_training_rows(items, relevant):
    """Shares stay, so that rarity does. The number of rows is twice as large. None of these items is cold."""
    twice = [*TRAIN, *((f"other {user}", item) for user, item in TRAIN)]
    same = ("novelty", "novelty(of=rows)", "arp(scale=share)", "aplt(share=0.5)", "aclt", "pop_rsp(share=0.5)")
    for text in (*same, "efd", "efd(of=users)", "epc", "epc(of=rows)", "serendipity"):
        assert one(text, items, relevant, train=twice) == close(one(text, items, relevant)), text
    assert one("arp", items, train=twice) == close(2 * one("arp", items))


@law("novelty", "efd", "epc")
@given(items=SOME_LIST, n_users=st.integers(2, 9))
def test_equally_rare_items_are_as_novel_as_each(items, n_users):
    """Each item has one user of so many. Where all is relevant the discounts are those that it is divided by."""
    train = [(f"u{n % n_users}", item) for n, item in enumerate([*ITEMS, *(f"other {n}" for n in range(n_users))])]
    assert one("novelty", items, train=train) == close(math.log2(n_users))
    assert one("novelty(scale=max)", items, train=train) == close(1)
    assert one("efd(of=users)", items, items, train=train) == close(math.log2(n_users))
    assert one("epc(of=users)", items, items, train=train) == close(1 - 1 / n_users)


@law("serendipity")
@given(items=SOME_LIST, relevant=RELEVANT, n_items=st.integers(8, 20))
def test_what_everybody_gets_is_not_serendipitous(items, relevant, n_items):
    """Nor is more of a list serendipitous than is relevant."""
    by_popularity = sorted(ITEMS[1:6], key=lambda item: -N_ROWS[item])
    assert one("serendipity", by_popularity, relevant, n_items) == 0
    assert one("serendipity(against=baseline)", items, relevant, n_items, baseline=[items]) == 0
    precision = one("precision(denominator=recommended)", items, relevant)
    for text in ("serendipity", "serendipity(against=baseline)"):
        found = one(text, items, relevant, n_items, baseline=[ITEMS[:3]])
        assert 0 <= found <= precision + 1e-12, text
        assert one(text, items, (), n_items, baseline=[ITEMS[:3]]) == 0, text


@law("pop_rsp")
@given(data=st.data(), share=st.sampled_from([0.3, 0.5, 0.8]))
def test_head_and_tail_alike_and_one_of_them_alone(data, share):
    """The whole catalogue has each item once; of a list of one side alone the other has a rate of 0."""
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
def test_longer_and_more_lists_never_cover_less(lists, more, k, n_items):
    found = of_lists("item_coverage", lists, n_items, k)
    assert 0 < found <= 1
    assert of_lists("item_coverage", lists, n_items, k + 1) >= found
    assert of_lists("item_coverage", [*lists, more], n_items, k) >= found
    assert of_lists("item_coverage", [*lists, *lists], n_items, k) == found
    assert of_lists("item_coverage(measure=count)", lists, n_items, k) == close(found * n_items)
    assert of_lists("item_coverage", [*lists, ITEMS], len(ITEMS)) == 1


@law("gini", "entropy")
@given(lists=MANY_LISTS, n=st.integers(1, 8), times=st.integers(1, 4), n_items=st.integers(8, 20))
def test_equally_often_is_most_even(lists, n, times, n_items):
    """Entropy is at most the logarithm of the number of items, and that if each stands in as many lists: Gini is 0 then.
    As many lists again change neither."""
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
def test_a_recommendation_given_from_the_rich_to_the_poor(others, poor, apart):
    """Lists are evener then."""
    counts = [*others, poor, poor + apart], [*others, poor + 1, poor + apart - 1]
    before, after = ([[ITEMS[place]] for place, n in enumerate(own) for _ in range(n)] for own in counts)
    for text in ("gini(population=catalog)", "gini(population=catalog, scale=n_minus_1)"):
        assert of_lists(text, after, len(others) + 2) < of_lists(text, before, len(others) + 2), text
    assert of_lists("entropy", after) > of_lists("entropy", before)


@law("inter_list_diversity")
@given(lists=MANY_LISTS, n=st.integers(2, 5), data=st.data())
def test_lists_that_are_the_same_or_have_nothing_in_common(lists, n, data):
    text, items = "inter_list_diversity", next(filter(None, lists))
    assert of_lists(text, [data.draw(st.permutations(items)) for _ in range(n)]) == close(0)
    apart = [[f"{place} {item}" for item in own] for place, own in enumerate([*lists, items])]
    assert of_lists(text, apart) == close(1) or sum(map(bool, apart)) < 2
    found = of_lists(text, [*lists, items])
    pairs = list(itertools.combinations(filter(None, [*lists, items]), 2))
    if pairs:
        alone = [of_lists(text, pair) for pair in pairs]
        assert all(-1e-12 <= value <= 1 + 1e-12 for value in alone)
        assert found == close(math.fsum(alone) / len(alone)), "it is the mean over all pairs of lists"


# Groups -------------------------------------------------------------------------------------------------------------------


class World(NamedTuple):
    """All tables of an evaluation. The first user has a hit; every item has a training row."""

    lists: Mapping[str, Sequence[str]]
    expected: Mapping[str, Sequence[str]]
    truth: Mapping[str, Sequence[str]]
    train: Sequence[tuple[str, str]]
    genre: Mapping[str, Sequence[str]]
    gender: Mapping[str, str | None]
    features: Mapping[str, Sequence[float]]
    kinds: Mapping[str, Sequence[str]]

    def values(self, metrics: Any, k: int | None = None, scale: float = 1.0, shift: float = 0.0) -> dict[str, float | None]:
        """The value of each metric, and those of pairs of groups, by `metric, pair`."""
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
    """Items have some genres, and users mostly one group, of which there are two."""
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
def test_groups_of_the_same_items_are_served_alike(world):
    names = ["rsp", "rsp(pool=all)", "reo", "item_mad_ranking", "item_mad_rating", "item_mad_rating(over=hits)"]
    genre = {item: {"old", "new"} if own else own for item, own in world.genre.items()}
    alike = world._replace(genre=genre, train=[*world.train, ("another", "other")])
    assert alike.values(names) == dict.fromkeys(names, 0)


@law("rsp")
@given(world=worlds())
def test_a_group_with_its_whole_pool_is_served_like_any_other(world):
    """Everybody gets all that is new to them, and then all items: how large a group is makes no difference."""
    train = [*((user, item) for user, item in world.train if user != "u0"), ("u0", "i7")]
    lists = {user: [item for item in ITEMS if (user, item) not in train] for user, _ in train}
    genre = {**world.genre, "i0": {"old"}, "i1": {"new"}}
    served = world._replace(lists=lists, expected={"u0": ["i0"]}, truth={"u0": ["i0"]}, train=train, genre=genre)
    assert served.values("rsp") == {"rsp": close(0)}
    assert served._replace(lists=dict.fromkeys(lists, ITEMS)).values("rsp(pool=all)") == {"rsp(pool=all)": close(0)}


@law("rsp", "reo", "pop_reo")
@given(world=worlds(), data=st.data())
def test_one_group_that_gets_all(world, data):
    """Of three it is sqrt(2), of two 1. What is found of all groups is 0."""
    shown = st.lists(st.sampled_from(ITEMS[2:6]), unique=True, min_size=1)
    lists = {user: data.draw(shown) for user in world.lists}
    genre = {item: {"old"} for item in ITEMS} | {"i0": {"new"}, "i1": {"mid"}}
    truth = {**world.truth, "u0": [lists["u0"][0], "i0", "i1"]}
    train = [*world.train, ("another", "other")]
    served = world._replace(lists=lists, genre=genre, truth=truth, expected=truth, train=train)
    found = served.values(["rsp", "rsp(pool=all)", "reo"])
    assert found == {"rsp": close(math.sqrt(2)), "rsp(pool=all)": close(math.sqrt(2)), "reo": close(math.sqrt(2))}
    # The head has "i5" alone: a list of it finds nothing of the tail.
    head = served._replace(lists={"u0": ["i5"]}, truth={"u0": ["i5", "i0"]}, train=[("s", "i0"), ("s", "i5"), ("t", "i5")])
    assert head.values("pop_reo(share=0.5)") == {"pop_reo(share=0.5)": 1}
    both = head._replace(lists={"u0": ["i5", "i0"]})
    assert both.values(["pop_reo(share=0.5)", "reo"]) == {"pop_reo(share=0.5)": 0, "reo": 0}


def doubled(world: World) -> World:
    """Every user once more, the copy with a mark behind the name."""
    users = {}
    for table in ("lists", "expected", "truth", "gender"):
        users[table] = {f"{user}{mark}": value for user, value in getattr(world, table).items() for mark in ("", "'")}
    return world._replace(**users, train=[(f"{user}{mark}", item) for user, item in world.train for mark in ("", "'")])


PAIRED = ["bias_disparity_bs", "bias_disparity_bs(source=truth)", "bias_disparity_br", "bias_disparity_bd"]


@law("user_mad_ranking", "user_mad_rating", "bias_disparity_bs", "bias_disparity_br", "bias_disparity_bd")
@given(world=worlds())
def test_groups_of_twins_are_served_alike(world):
    twins = doubled(world)
    twins = twins._replace(gender={user: "M" if user.endswith("'") else "F" for user in twins.gender})
    found = twins.values(["user_mad_ranking", "user_mad_rating", *PAIRED])
    assert found["user_mad_ranking"] == found["user_mad_rating"] == close(0)
    of_pairs = {name: value for name, value in found.items() if "," in name}
    assert any("bias_disparity_br" in name for name in of_pairs)
    for name, value in of_pairs.items():
        assert value == close(of_pairs[name.replace("F", "M") if "F" in name else name.replace("M", "F")]), name


@law("user_mad_ranking")
@given(world=worlds(), k=st.integers(1, 3))
def test_all_and_nothing_are_1_apart(world, k):
    lists = {user: world.truth[user] if world.gender[user] == "F" else ["never"] for user in world.lists}
    assert world._replace(lists=lists).values("user_mad_ranking", k) == {f"user_mad_ranking@{k}": close(1)}


@law("user_mad_rating", "item_mad_rating")
@given(world=worlds(st.sampled_from([{"old"}, {"new"}, {"old", "mid"}])))
def test_differences_of_ratings_have_their_unit(world):
    """Twice the scores are twice as far apart. What is added to all scores makes no difference, unless misses count 0."""
    names = ["user_mad_rating", "item_mad_rating", "item_mad_rating(over=recommended)"]
    before, twice, more = world.values(names), world.values(names, scale=2.0), world.values(names, shift=64.0)
    assert twice == {name: value if value is None else close(2 * value) for name, value in before.items()}
    kept = names[:2]
    assert [more[name] for name in kept] == [value if value is None else close(value) for value in map(before.get, kept)]


@law("item_mad_ranking", "item_mad_rating")
@given(world=worlds(st.sampled_from([{"old"}, {"new"}])))
def test_items_that_are_always_right_and_never(world):
    """They are a gain of 1 apart: a hit of everybody is one group, and misses are the other."""
    lists = {user: ["i0", "i1"] for user in world.lists}
    truth = {user: ["i0"] for user in world.lists}
    apart = world._replace(lists=lists, truth=truth, expected=truth, genre={"i0": ["old"], "i1": ["new"]})
    names = ["item_mad_ranking", "item_mad_rating(over=recommended)", "item_mad_rating"]
    assert list(apart.values(names).values()) == [1, 9, None], "an item without a hit has no mean over hits"
    right = world._replace(truth=world.lists, expected=world.lists)
    found = right.values(names, scale=0.0, shift=4.0)
    assert all(value in (None, close(0)) for value in found.values()), "all is right and has one score, whatever the group is"


@law("bias_disparity_bs", "bias_disparity_br", "bias_disparity_bd")
@given(world=worlds(st.sampled_from([{"old"}, {"new"}, {"mid"}])))
def test_preferences_are_shares_of_what_a_group_has(world):
    """Where every item has one group they add up to 1, weighed by the size of groups; lists of the training rows or of what is
    relevant have no disparity, and nobody prefers a part of what has all items."""
    found = world.values(PAIRED)
    size = {name: sum(name in own for own in world.genre.values()) / len(ITEMS) for name in ("old", "new", "mid")}
    for metric in PAIRED[:-1]:
        for user in ("F", "M"):
            own = {name: value for name, value in found.items() if name.startswith(f"{metric},") and user in name}
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
"""Each metric alone, and with each name that one of its options may have."""


def renamed(names: Mapping[str, str], own: Any) -> Any:
    """The same tables with other names of users, items and groups, and their rows in another order."""
    if isinstance(own, Mapping):
        return {names.get(key, key): renamed(names, value) for key, value in reversed(list(own.items()))}
    if isinstance(own, str):
        return names.get(own, own)
    if isinstance(own, set):
        return {renamed(names, one) for one in own}
    return type(own)(renamed(names, one) for one in own) if isinstance(own, list | tuple) else own


@LAWS
@given(world=worlds(), k=st.sampled_from([None, 1, 3]), data=st.data())
def test_other_names_and_another_order_of_the_rows_change_nothing(world, k, data):
    """The names of users, items and groups are in another order than the old ones, too."""
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
"""Of numbers of users or rows there are twice as many. The first of the others compares lists with their copies, too, and the
second divides by the logarithm of the number of users."""


@LAWS
@given(world=worlds(), k=st.sampled_from([None, 1, 3]))
def test_every_user_once_more_changes_no_mean_and_no_share(world, k):
    asked = [metric for metric in VARIANTS if str(metric) not in OTHERS]
    right = world.values(asked, k)
    for name, value in doubled(world).values(asked, k).items():
        times = 2 if name.split("@")[0] in TWICE else 1
        assert value == (None if right[name] is None else close(times * right[name])), name
