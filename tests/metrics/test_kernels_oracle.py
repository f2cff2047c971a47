"""Batches compared with their users alone, and every metric and option with the oracle."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from metrics.test_kernels import DEFAULT, RANKING, RATING, UNDEFINED, VARIANTS, at_cuts, close, values_of
from oracle import POOLED, Cell, all_cells, describe, random_case, rating_error, value_of

from spark_recmetrics.conventions import CONVENTIONS, Convention
from spark_recmetrics.metrics import DEFINITIONS, Metric, RankedBatch, Sums, score, score_columns
from spark_recmetrics.metrics.batch import with_items
from spark_recmetrics.metrics.rating import Moments


def every_combination() -> Iterator[Metric]:
    """Every ranking metric with every combination of its options."""
    for name in RANKING:
        options = sorted(DEFINITIONS[name].options)
        for chosen in product(*(values_of(name, option) for option in options)):
            yield Metric(name, params=tuple(zip(options, chosen, strict=True)))


# Many users at once -------------------------------------------------------------------------------------------------------


def random_users(seed: int, n_users: int) -> dict[str, list]:
    """Lists and relevant items with all edge cases: empty, disjoint, long, graded, fractional, zero."""
    rng = random.Random(seed)
    items = [f"i{number}" for number in range(15)]
    lists = [rng.sample(items, rng.choice([0, 1, 2, 5, 15])) for _ in range(n_users)]
    truth = [
        {item: rng.choice([0.0, 0.5, 1.0, 2.0, 3.5, 5.0]) for item in rng.sample(items, rng.choice([0, 1, 2, 4, 12]))}
        for _ in range(n_users)
    ]
    others = [{item: rng.choice([0.0, 1.0]) for item in items if item not in own and rng.random() < 0.4} for own in truth]
    return {
        "lists": lists,
        "truth": truth,
        "judged": others,
        "scores": [sorted((rng.choice([-0.5, 0.25, 1.0]) for _ in own), reverse=True) for own in lists],
        "propensities": [{item: rng.choice([0.1, 0.5, 1.0]) for item in items} for _ in range(n_users)],
        "seen": [rng.sample(items, rng.choice([0, 0, 2, 14])) for _ in range(n_users)],
    }


def described(users: dict[str, list]) -> RankedBatch:
    """The batch with information on items, which does not depend on the users."""
    rng = random.Random("items")
    items = [f"i{number}" for number in range(15)]
    return with_items(
        RankedBatch.of(**users, n_items=16),
        users["lists"],
        users["truth"],
        train=[(str(user), item) for item in items[1:] for user in range(rng.choice([1, 1, 2, 7]))],
        history=users["seen"],
        features={item: [rng.uniform(-1, 1) for _ in range(5)] for item in items[:14]},
        categories={item: {f"c{rng.randrange(70)}" for _ in range(3)} for item in items[1:]},
        baseline=users["seen"],
    )


@pytest.fixture(scope="module")
def users_together_and_alone() -> tuple[RankedBatch, list[RankedBatch]]:
    users = random_users(seed=7, n_users=60)
    alone = [{name: [values[place]] for name, values in users.items()} for place in range(60)]
    return described(users), [described(user) for user in alone]


@pytest.mark.parametrize("metric", VARIANTS, ids=str)
def test_a_batch_has_the_values_of_its_users_alone(metric, users_together_and_alone):
    batch, alone = users_together_and_alone
    # With a graded gain the order of the ideal list matters.
    for cut, how in product(at_cuts([metric]), (DEFAULT, DEFAULT.override(gain="linear"))):
        together = score(cut, batch, how)
        assert together.shape == (60,)
        assert together.dtype == np.float64
        np.testing.assert_array_equal(together, np.concatenate([score(cut, one_user, how) for one_user in alone]))


@pytest.mark.parametrize("metric", VARIANTS, ids=str)
def test_an_empty_batch(metric):
    for cut in at_cuts([metric]):
        columns = score_columns(cut, with_items(RankedBatch.of([], [], n_items=5), [], []), DEFAULT)
        assert [column.shape for column in columns] == [(0,)] * (1 if metric.definition.pooled is None else 3)


def arrays_in(batch: RankedBatch) -> dict[str, np.ndarray]:
    result = {}
    for name, value in vars(batch).items():
        parts = vars(value) if hasattr(value, "__dict__") and not isinstance(value, np.ndarray) else {"": value}
        result |= {f"{name}.{part}": array for part, array in parts.items() if isinstance(array, np.ndarray)}
    return result


def test_formulas_do_not_change_the_batch():
    batch = described(random_users(seed=8, n_users=20))
    before = {name: array.copy() for name, array in arrays_in(batch).items()}
    assert len(before) > 25
    for metric in at_cuts(VARIANTS):
        score(metric, batch, DEFAULT)
        for name, array in before.items():
            np.testing.assert_array_equal(arrays_in(batch)[name], array, str(metric))


# Against the oracle -------------------------------------------------------------------------------------------------------


def batch_of(cells: list[Cell], how: Convention) -> RankedBatch:
    """Missing scores are ranked as the convention says. Given ranks are never tied."""
    missing = math.inf if how.nan_scores == "first" else -math.inf
    scores = [[missing if math.isnan(row["score"]) else row["score"] for row in cell.rows] for cell in cells]
    given = {
        "lists": [cell.items for cell in cells],
        "truth": [cell.relevant for cell in cells],
        "judged": [{item: value for item, value in cell.judged.items() if item not in cell.relevant} for cell in cells],
        "propensities": [cell.propensity for cell in cells],
        "seen": [cell.seen for cell in cells],
        "n_items": len(cells[0].catalog),
    }
    world = cells[0].world
    batch = with_items(
        RankedBatch.of(**given, scores=scores),
        given["lists"],
        given["truth"],
        train=[(row["user"], row["item"]) for row in world.train],
        history=given["seen"],
        features={item: vector for item, vector in world.features.items() if vector is not None},
        categories=world.categories,
        baseline=[world.expected.get(cell.user, ()) for cell in cells],
    )
    if any("rank" in row for cell in cells for row in cell.rows):
        ranked = RankedBatch.of(**given)
        batch = replace(batch, candidates=ranked.candidates, unseen_candidates=ranked.unseen_candidates)
    return batch


def against_the_oracle(seed: int, how: Convention, metrics: Iterable[Metric], **faults: bool) -> None:
    case = random_case(seed, propensities=True, **faults)
    cells = list(all_cells(case.predictions, case.truth, how, **case.known).values())
    batch = batch_of(cells, how)
    for metric in metrics:
        wanted = describe(metric)
        values, *sums = score_columns(metric, batch, how)
        for cell, value in zip(cells, values, strict=True):
            right = value_of(wanted, cell, how)
            result = UNDEFINED if math.isnan(value) else value
            assert result == (UNDEFINED if right is UNDEFINED else close(right)), (str(metric), str(how), cell)
        if sums:
            # The oracle computes the values of models without sums.
            right = POOLED[metric.name](wanted, cells, how)
            summed = Sums(*(column.sum() for column in sums))
            if right is UNDEFINED:
                assert summed.count == 0, (str(metric), str(how))
                continue
            result = summed.total if metric.average(how) == "total" else metric.definition.pooled(summed)
            assert result == close(right), (str(metric), str(how))


@pytest.mark.parametrize("name", CONVENTIONS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.heavy)])
def test_every_metric_against_the_oracle_under_every_convention(name, seed):
    against_the_oracle(seed, CONVENTIONS[name], at_cuts(VARIANTS))


WITH_REPEATS = [metric for metric in VARIANTS if not metric.needs(DEFAULT) & {"candidates", "unseen_candidates"}]
"""Metrics that compare relevant items with candidates are rejected with `duplicates=keep`."""


@pytest.mark.parametrize("name", CONVENTIONS)
def test_kept_repeated_items_against_the_oracle(name):
    against_the_oracle(0, CONVENTIONS[name].override(duplicates="keep"), at_cuts(WITH_REPEATS), duplicates=True)


def test_all_options_together_against_the_oracle():
    against_the_oracle(5, DEFAULT, at_cuts(every_combination(), (3, None)))


@pytest.mark.parametrize("nan_scores", ["first", "last"])
def test_missing_scores_against_the_oracle(nan_scores):
    against_the_oracle(6, DEFAULT.override(nan_scores=nan_scores), at_cuts(VARIANTS), missing_scores=True)


def test_ranks_against_the_oracle():
    against_the_oracle(7, DEFAULT, at_cuts(VARIANTS), ranks=True)


# Rating metrics -----------------------------------------------------------------------------------------------------------


def moments_of(pairs: list[tuple[float, float]]) -> Moments:
    rows = [[1, abs(p - r), (p - r) ** 2, p - r, r, r * r] for p, r in pairs]
    return Moments(*(sum(column) for column in zip(*rows, strict=True)))


def finished(name: str, sums: Sums) -> object:
    return DEFINITIONS[name].pooled(sums)


@pytest.mark.parametrize("name", RATING)
def test_a_rating_metric_against_the_oracle(name):
    """For each of four users, for all of them from the sums of their moments, and divided by users instead of pairs."""
    rng = random.Random(name)
    users = [[(rng.uniform(-1, 6), rng.choice([0.0, 2.5, 5.0])) for _ in range(n)] for n in (3, 8, 8, 30)]
    compute = DEFINITIONS[name].compute
    for pairs in users:
        assert finished(name, compute(moments_of(pairs))) == close(rating_error(name, pairs, len(pairs)))
    added = Moments(*map(sum, zip(*map(moments_of, users), strict=True)))
    every = [pair for pairs in users for pair in pairs]
    assert finished(name, compute(added)) == close(rating_error(name, every, len(every)))
    if DEFINITIONS[name].divides_by_pairs:
        of_users = compute(added)._replace(count=len(users))
        assert finished(name, of_users) == close(rating_error(name, every, len(users)))


def test_rating_formulas_take_arrays():
    # Users with the errors (1, -3) of ratings 1 and 3, and with (4,) of a rating 2.
    moments = Moments(*map(np.array, zip([2, 4.0, 10.0, -2.0, 4.0, 10.0], [1, 4.0, 16.0, 4.0, 2.0, 4.0], strict=True)))
    sums = {name: DEFINITIONS[name].compute(moments) for name in RATING}
    for name, right in [("mae", [2, 4]), ("mse", [5, 16]), ("rmse", [math.sqrt(5), 4])]:
        np.testing.assert_allclose(finished(name, sums[name]), right)
    for name, right in [("r2", 1 - 10 / 2), ("explained_variance", 1 - 8 / 2)]:
        np.testing.assert_array_equal(sums[name].count > sums[name].floor, [True, False])
        assert finished(name, sums[name]._replace(count=np.array([sums[name].count[0], 1.0])))[0] == close(right)


@pytest.mark.parametrize("name", ["r2", "explained_variance"])
@pytest.mark.parametrize("rating", [0.1, 4.2, 1e6 / 3])
def test_r2_is_undefined_if_ratings_are_equal_up_to_rounding(name, rating):
    for n in (1, 2, 3, 7, 100):
        sums = DEFINITIONS[name].compute(moments_of([(1.0, rating)] * n))
        assert sums.count <= sums.floor
