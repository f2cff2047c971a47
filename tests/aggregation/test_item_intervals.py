"""Intervals of metrics of items: against lists that are really left out, and in simulations of many samples of users."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import spark_recmetrics as srm
from spark_recmetrics.aggregation.means import resampled_ends
from spark_recmetrics.conventions import convention
from spark_recmetrics.metrics import parse
from spark_recmetrics.metrics.item_counts import DistinctItems, ItemCounts, list_shares
from spark_recmetrics.stats import bootstrap_sums, poisson_weights

DEFAULT = convention("default")
METRICS = [
    "item_coverage@3",
    "item_coverage(measure=count)@5",
    "gini@3",
    "gini(population=recommended)@3",
    "gini(scale=n_minus_1)@5",
    "gini(population=recommended, scale=n_minus_1)@5",
    "entropy@5",
    "entropy(base=2, scale=distinct)@3",
    "inter_list_diversity@3",
]


def listed(lists, catalog, *, repeats=False):
    """The entries that kernels see of plain lists, by loops."""
    holding, times = {}, {}
    for user, items in enumerate(lists):
        for item in items:
            times[user, item] = times.get((user, item), 0) + 1
            holding.setdefault(item, []).append(len(set(items)))
    assert repeats or max(times.values()) == 1
    known = [isinstance(catalog, int) or item in catalog for _, item in times]
    weight = [sum(1 / math.sqrt(len(set(items))) for items in lists if item in items) for _, item in times]
    return DistinctItems(
        user=np.array([user for user, _ in times]),
        times=np.array(list(times.values())),
        count=np.array([len(holding[item]) for _, item in times]),
        in_catalog=np.array(known),
        weight=np.array(weight),
        n_users=len(lists),
    )


def values(metric, lists, catalog):
    return metric.definition.compute(ItemCounts.of(lists, catalog), **metric.options(DEFAULT))


@pytest.mark.parametrize("text", METRICS)
def test_a_value_without_a_list_is_that_of_the_other_lists(text):
    metric, chance = parse(text), random.Random(7)
    for trial in range(60):
        n_items = chance.choice([5, 8, 20])
        lists = [chance.sample(range(n_items), chance.randint(1, 5)) for _ in range(chance.randint(2, 9))]
        catalog = chance.sample(range(n_items), chance.randint(2, n_items)) if trial % 2 else n_items
        own = ItemCounts.of(lists, catalog)
        found = metric.definition.left_out(own, listed(lists, catalog), **metric.options(DEFAULT))
        expected = [values(metric, lists[:user] + lists[user + 1 :], catalog) for user in range(len(lists))]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13, err_msg=f"{lists} {catalog}")


@pytest.mark.parametrize(
    ("text", "without_ann"),
    [
        # Ann a b, Bob b c, Cid b; of five items. Without Ann b stands in two lists, c in one.
        ("item_coverage@2", 2 / 5),
        ("gini@2", (-4 * 0 - 2 * 0 + 0 * 0 + 2 * 1 + 4 * 2) / (5 * 3)),
        ("gini(population=recommended)@2", (-1 * 1 + 1 * 2) / (2 * 3)),
        ("entropy(base=2)@2", 2 / 3 * math.log2(3 / 2) + 1 / 3 * math.log2(3)),
        ("inter_list_diversity@2", 1 - 1 / math.sqrt(2)),
    ],
)
def test_without_one_list_by_hand(text, without_ann):
    metric, lists = parse(text), [["a", "b"], ["b", "c"], ["b"]]
    found = metric.definition.left_out(ItemCounts.of(lists, 5), listed(lists, 5), **metric.options(DEFAULT))
    assert found[0] == pytest.approx(without_ann, abs=1e-14)


@pytest.mark.parametrize("text", ["item_coverage@9", "entropy@9", "entropy(scale=distinct)@9"])
def test_repeated_items_of_a_list_leave_together(text):
    metric, lists = parse(text), [["a", "a", "b"], ["b", "c", "c", "c"], ["b"], ["a", "d"]]
    found = metric.definition.left_out(ItemCounts.of(lists, 6), listed(lists, 6, repeats=True), **metric.options(DEFAULT))
    expected = [values(metric, lists[:user] + lists[user + 1 :], 6) for user in range(4)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


# On Spark -----------------------------------------------------------------------------------------------------------------

N_ITEMS = 40
CATALOG = [item for item in range(N_ITEMS + 3) if item % 5]


def data(seed=3, n_users=30):
    """Predictions of two models, of lists of different lengths, and truth of some of the users."""
    chance = random.Random(seed)
    predictions = [
        (model, f"u{user}", item, round(5 * chance.random(), 4))
        for model, most in (("a", N_ITEMS), ("b", 9))
        for user in range(2, n_users)
        for item in chance.sample(range(most), chance.randint(1, 7))
    ]
    truth = [(f"u{user}", item, 1.0) for user in range(n_users - 5) for item in chance.sample(range(N_ITEMS), 3)]
    return predictions, truth


def evaluate(spark, rows, metrics, **options):
    predictions, truth = rows
    return srm.evaluate(
        spark.createDataFrame(predictions, "model string, user_id string, item_id int, score double"),
        spark.createDataFrame(truth, "user_id string, item_id int, rating double"),
        metrics=metrics,
        catalog=spark.createDataFrame([(item,) for item in CATALOG], "item_id int"),
        **options,
    )


def cut(predictions, model, k, users=None):
    """By user, the list of a model."""
    found = {}
    for name, user, item, score in predictions:
        if name == model and (users is None or user in users):
            found.setdefault(user, []).append((-score, item))
    return {user: [item for _, item in sorted(rows)][:k] for user, rows in found.items()}


def expected_ends(lists, metric, hashes, n, seed):
    """The interval by the definition: leave out each list, draw the users, and take the percentiles."""
    users = list(lists)
    whole = values(metric, list(lists.values()), CATALOG)
    without = [values(metric, [lists[other] for other in users if other != user], CATALOG) for user in users]
    shares = [(len(users) - 1) * (whole - value) for value in without]
    drawn = poisson_weights(np.array([hashes[user] for user in users], dtype=np.int64), n, seed).astype(float)
    found = []
    for weights in drawn:
        if weights.sum():
            mean = sum(weight * share for weight, share in zip(weights, shares, strict=True)) / weights.sum()
            found.append(whole + mean - sum(shares) / len(shares))
    return np.quantile(found, [0.05, 0.95])


def user_hashes(spark, users):
    from pyspark.sql import functions as F

    rows = spark.createDataFrame([(user,) for user in users], "user string").select("user", F.xxhash64("user").alias("hash"))
    return {row["user"]: row["hash"] for row in rows.collect()}


BOOTSTRAP = srm.Intervals("bootstrap", confidence=0.9, n_resamples=150, seed=4)


@pytest.mark.slow
@pytest.mark.spark
def test_intervals_are_the_percentiles_over_users_drawn_anew(spark):
    rows = data()
    result = evaluate(spark, rows, [*METRICS, "ndcg@4"], intervals=BOOTSTRAP, n_buckets=3)
    hashes = user_hashes(spark, {user for _, user, *_ in rows[0]})
    n_checked = 0
    for row in result.rows:
        metric = parse(row["metric"])
        assert row["ci_method"] == "bootstrap", row
        if metric.definition.kind == "item":
            lists = cut(rows[0], row["model"], metric.k)
            assert row["value"] == pytest.approx(values(metric, list(lists.values()), CATALOG), abs=1e-12)
            expected = expected_ends(lists, metric, hashes, 150, 4)
            assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(expected), abs=1e-12), row
            # Where every item that is listed stands in two lists or more, no user's list is missed.
            wide = metric.name != "item_coverage" or row["model"] == "a"
            assert (row["ci_low"] < row["value"] < row["ci_high"]) == wide, row
            n_checked += 1
    assert n_checked == 2 * len(METRICS)
    assert not [name for name in result.per_user.columns if name.startswith(("item_", "list_"))]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.once
def test_intervals_look_at_the_users_that_the_value_looks_at(spark):
    rows = data(5)
    asked = "gini@3"
    how = {"users_by_metric": {"gini": "truth_and_predicted"}}
    result = evaluate(spark, rows, [asked], convention=how, intervals=BOOTSTRAP, n_buckets=2)
    known = {user for user, *_ in rows[1]}
    hashes = user_hashes(spark, known)
    assert len(result.rows) == len({row[0] for row in rows[0]}) == 2
    for row in result.rows:
        lists = cut(rows[0], row["model"], 3, known)
        assert row["n_users"] == len(lists) < len(cut(rows[0], row["model"], 3))
        expected = expected_ends(lists, parse(asked), hashes, 150, 4)
        assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(expected), abs=1e-12)


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.slow
def test_intervals_do_not_depend_on_order_or_partitioning(spark):
    rows = data(8)
    shuffled = tuple(random.Random(1).sample(table, len(table)) for table in rows)
    one = evaluate(spark, rows, METRICS, intervals=BOOTSTRAP, n_buckets=7)
    other = evaluate(spark, shuffled, METRICS, intervals=BOOTSTRAP, n_buckets=1)
    assert len(one.rows) == len(other.rows) == 2 * len(METRICS)
    for a, b in zip(one.rows, other.rows, strict=True):
        assert (a["ci_low"], a["ci_high"]) == pytest.approx((b["ci_low"], b["ci_high"]), abs=1e-12)


def test_where_nothing_is_resampled_no_list_is_kept(session):
    rows = data()
    normal = evaluate(session, rows, ["gini@3", "ndcg@3"], n_buckets=2)
    assert not [name for name in normal.evaluated.scored.kept.columns if name.startswith("list_")]
    assert {row["metric"]: row["ci_method"] for row in normal.rows} == {"gini@3": None, "ndcg@3": "normal"}
    no_items = evaluate(session, rows, ["ndcg@3"], intervals=BOOTSTRAP, n_buckets=2)
    assert not [name for name in no_items.evaluated.scored.kept.columns if name.startswith("list_")]


def test_an_undefined_value_has_no_interval(session):
    rows = ([("a", "u1", 1, 1.0), ("b", "u1", 1, 1.0), ("b", "u2", 1, 1.0)], [("u1", 1, 1.0), ("u2", 2, 1.0)])
    asked = ["gini(population=recommended, scale=n_minus_1)@1", "inter_list_diversity@1", "entropy@1"]
    found = {(row["model"], row["metric"]): row for row in evaluate(session, rows, asked, intervals=BOOTSTRAP).rows}
    ends = {key: (row["value"], row["ci_low"], row["ci_high"], row["ci_method"]) for key, row in found.items()}
    nothing = (None, None, None, None)
    assert ends == {
        ("a", asked[0]): nothing,
        ("b", asked[0]): nothing,
        ("a", asked[1]): nothing,
        # Without one of two lists there is no pair.
        ("b", asked[1]): (0.0, None, None, None),
        # One list: nothing can be left out.
        ("a", asked[2]): (0.0, None, None, None),
        ("b", asked[2]): (0.0, 0.0, 0.0, "bootstrap"),
    }


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.once
def test_lists_that_hold_an_item_twice(spark):
    chance = random.Random(2)
    predictions = [("a", f"u{user}", chance.randrange(9), float(-place)) for user in range(12) for place in range(5)]
    result = evaluate(
        spark,
        (predictions, [("u1", 1, 1.0)]),
        ["item_coverage@4", "entropy@3"],
        convention={"duplicates": "keep"},
        intervals=BOOTSTRAP,
        n_buckets=3,
    )
    hashes = user_hashes(spark, {user for _, user, *_ in predictions})
    assert [row["metric"] for row in result.rows] == ["item_coverage@4", "entropy@3"]
    for row in result.rows:
        metric = parse(row["metric"])
        lists = {user: [] for user in hashes}
        for _, user, item, _ in predictions:
            lists[user].append(item)
        lists = {user: items[: metric.k] for user, items in lists.items()}
        assert any(len(set(items)) < len(items) for items in lists.values())
        expected = expected_ends(lists, metric, hashes, 150, 4)
        assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(expected), abs=1e-12), row


# In simulations -----------------------------------------------------------------------------------------------------------


class Population:
    """Users of five tastes, who like items by a power law, each taste others; their lists are drawn by Gumbel numbers."""

    def __init__(self, n_users, n_items, k, skew, seed):
        self.n_users, self.n_items, self.k = n_users, n_items, k
        self.chance = np.random.default_rng(seed)
        liking = -skew * np.log(np.arange(1, n_items + 1))
        self.tastes = np.array([self.chance.permutation(liking) for _ in range(5)])

    def sample(self):
        """The entries of the lists of a sample of users, as `list_shares` reads them, and how often items stand in them."""
        taste = self.chance.integers(0, 5, self.n_users)
        liked = self.tastes[taste] + self.chance.gumbel(size=(self.n_users, self.n_items))
        item = np.argpartition(-liked, self.k - 1, axis=1)[:, : self.k].ravel()
        count = np.bincount(item, minlength=self.n_items)
        weight = count / math.sqrt(self.k)
        levels, many = np.unique(count[count > 0], return_counts=True)
        by_count = {(int(level), True): int(n) for level, n in zip(levels, many, strict=True)}
        rows = {
            "user": np.repeat(np.arange(self.n_users), self.k),
            "model": np.zeros(len(item), dtype=np.int64),
            "known": np.ones(len(item), dtype=bool),
            "item_counts_0": count[item],
            "item_weights_0": weight[item],
        }
        return rows, ItemCounts(by_count, self.n_users, self.n_items, float((weight**2).sum()))


SIMULATED = ["item_coverage@9", "gini@9", "gini(population=recommended)@9", "entropy@9", "inter_list_diversity@9"]


def covered(population, n_samples, n_more):
    """By metric, the share of intervals that hold the true value, and their mean width by that of ± 1.96 true deviations."""
    metrics = [parse(text) for text in SIMULATED]
    found, ends = [], []
    for number in range(n_samples + n_more):
        rows, counts = population.sample()
        found.append([metric.definition.compute(counts, **metric.options(DEFAULT)) for metric in metrics])
        if number < n_samples:
            shares = list_shares(rows, population.n_users, metrics, DEFAULT, {(0, 0): counts}, 1)
            hashes = population.chance.integers(-(2**63), 2**63, population.n_users)
            sums, n = bootstrap_sums(shares, poisson_weights(hashes, 300))
            own = (
                resampled_ends(sums[:, m], n[:, m], float(shares[:, m].sum()), len(shares), 0.95) for m in range(len(metrics))
            )
            ends.append(list(own))
    true, deviation = np.mean(found, axis=0), np.std(found, axis=0)
    low, high = np.moveaxis(np.array(ends), 2, 0) + np.array(found)[:n_samples]
    return np.mean((low <= true) & (true <= high), axis=0), np.mean(high - low, axis=0) / (2 * 1.96 * deviation)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_users", "n_items", "k", "skew"),
    [(100, 300, 10, 1.0), (300, 300, 5, 2.5), (100, 1000, 10, 1.0)],
    ids=["items in several lists", "few popular items", "items in one list"],
)
def test_intervals_cover_the_true_value(n_users, n_items, k, skew):
    share, width = covered(Population(n_users, n_items, k, skew, 1), 300, 1200)
    assert (share >= 0.92).all(), share
    coverage, gini, of_recommended, entropy, diversity = width
    assert min(gini, entropy, diversity) >= 0.9, width
    assert max(gini, entropy, diversity) <= 1.25, width
    assert max(coverage, of_recommended) <= 1.7, width


@pytest.mark.heavy
def test_where_hardly_an_item_stands_in_one_list_the_interval_of_coverage_says_nothing():
    share, _ = covered(Population(140, 100, 10, 1.0, 2), 200, 600)
    assert share[0] < 0.5
    assert (share[1:] >= 0.9).all(), share
