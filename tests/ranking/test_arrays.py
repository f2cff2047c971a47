"""Ranks of whole lists without Spark, and rows cut between users."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import spark_recmetrics as srm
from spark_recmetrics.columns import KIND_ITEM, KIND_LIST, KIND_TRUTH, rows_of_kind
from spark_recmetrics.ranking.arrays import ListRows, Ranks, rank_rows
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.scoring.chunks import arrays_together, frames_of, frames_of_arrays, users_together


def ranked(frame, cell, item, *, items=None, judged=None, given_ranks=False, **convention):
    frame, item = pd.DataFrame(frame), np.array(item)
    items = np.arange(item.max(initial=-1) + 1) if items is None else np.array(items, dtype=object)
    scoring = Scoring.of([], srm.convention("default").override(**convention), 1, given_ranks=given_ranks)
    return rank_rows(frame, np.array(cell), item, None if judged is None else np.array(judged), items, scoring)


def test_rows_are_ranked_by_score_and_then_by_item():
    found = ranked({"score": [0.5, 0.9, 0.5, 0.1, 0.7]}, [0, 0, 0, 1, 1], [2, 0, 1, 0, 1])
    assert found.row.tolist() == [1, 2, 0, 4, 3]
    assert found.rank.tolist() == [1, 2, 3, 1, 2]
    assert found.before_tie.tolist() == [False, True, False, False, False]
    assert found.after_tie.tolist() == [False, False, True, False, False]
    assert [edge.tolist() for edge in found.ties] == [[0, 1, 1, 3, 4], [0, 2, 2, 3, 4]]


@pytest.mark.parametrize(("ties", "rows"), [("item_asc", [0, 2, 1]), ("input", [0, 2, 1]), ("item_desc", [1, 2, 0])])
def test_ties_are_broken_by_the_ids_and_not_by_their_numbers(ties, rows):
    # Numbers are given as ids come; the texts are in another order.
    assert ranked({"score": [1.0] * 3}, [0] * 3, [1, 0, 2], items=["z", "a", "m"], ties=ties).row.tolist() == rows


@pytest.mark.parametrize(("nan_scores", "rows"), [("last", [1, 2, 3, 0]), ("first", [0, 1, 2, 3])])
def test_missing_scores_are_beyond_infinite_ones(nan_scores, rows):
    found = ranked({"score": [np.nan, np.inf, 0.0, -np.inf]}, [0] * 4, [3, 2, 1, 0], nan_scores=nan_scores)
    assert found.row.tolist() == rows
    assert not found.before_tie.any()


def test_missing_scores_are_tied_with_one_another():
    found = ranked({"score": [None, 7, None]}, [0] * 3, [1, 2, 0], nan_scores="last")
    assert found.row.tolist() == [1, 2, 0]
    assert found.before_tie.tolist() == [False, True, False]


def test_whole_numbers_that_are_equal_as_doubles_are_no_ties():
    large = 2**60
    found = ranked({"score": pd.Series([large, large + 1, None], dtype=object)}, [0] * 3, [0, 1, 2], nan_scores="last")
    assert found.row.tolist() == [1, 0, 2]
    assert not found.before_tie.any()


def test_more_cells_than_two_bytes_can_tell_apart():
    cell = np.arange(2**16 + 3)[::-1]
    found = ranked({"score": np.ones(len(cell))}, cell, np.zeros(len(cell), dtype=np.int64))
    assert cell[found.row].tolist() == sorted(cell.tolist())
    assert set(found.rank.tolist()) == {1}


def test_judged_rows_come_first_where_only_they_compete():
    found = ranked({"score": [0.9, 0.8, 0.8]}, [0] * 3, [0, 1, 2], judged=[False, True, False])
    assert found.row.tolist() == [1, 0, 2]
    assert found.rank.tolist() == [1, 2, 3]
    # The second and the third have equal places in no list of judged rows.
    assert not found.before_tie.any()


def test_of_repeats_the_best_one_stays():
    found = ranked({"score": [0.2, 0.9, 0.5, 0.4]}, [0, 0, 0, 1], [0, 1, 0, 0], duplicates="first")
    assert found.row.tolist() == [1, 2, 3]
    assert found.rank.tolist() == [1, 2, 1]


def test_given_ranks_stay_and_leave_no_ties():
    found = ranked({"rank": [3, 1, 1], "score": [0.5, 0.5, 0.5]}, [0] * 3, [0, 2, 1], given_ranks=True)
    assert found.rank.tolist() == [1, 1, 3]
    assert found.row.tolist() == [2, 1, 0]
    assert not found.before_tie.any()


def test_unseen_rows_are_counted_along_each_list():
    nothing, cell = np.zeros(5), np.array([0, 0, 0, 1, 1])
    ranks = Ranks.given(pd.DataFrame({"rank": [1, 2, 3, 1, 2]}))
    seen = np.array([True, False, False, False, True])
    found = ListRows.of(ranks, cell=cell, item=nothing, truth_row=nothing, score=nothing, seen=seen)
    assert found.unseen_position.tolist() == [0, 1, 2, 1, 1]


def test_no_row_at_all():
    found = ranked({"score": np.zeros(0)}, np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert len(found.rank) == 0
    none = dict.fromkeys(("cell", "item", "truth_row", "score"), np.zeros(0))
    assert len(ListRows.of(found, **none, seen=np.zeros(0, bool)).unseen_position) == 0


def batches(users, *, size):
    return pa.table({"user": pa.array(users, pa.string())}).to_batches(max_chunksize=size)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("at_once", [1, 2, 4, 100])
def test_users_stay_together(size, at_once):
    users = [None, None, "a", "b", "b", "b", "b", "c", "d", "d"]
    found = [table["user"].to_pylist() for table in users_together(batches(users, size=size), at_once)]
    assert [user for table in found for user in table] == users
    assert all(one[-1] != other[0] for one, other in pairwise(found))
    if at_once == 1 and size == 1:
        assert [set(table) for table in found] == [{None}, {"a"}, {"b"}, {"c"}, {"d"}]


def test_a_batch_that_is_too_large_is_cut():
    users = [str(n // 3) for n in range(30)]
    found = [table["user"].to_pylist() for table in users_together(batches(users, size=100), 4)]
    assert [user for table in found for user in table] == users
    assert all(one[-1] != other[0] for one, other in pairwise(found))
    assert max(map(len, found)) <= 6


def test_no_batch_and_empty_batches():
    assert list(users_together([], 5)) == []
    empty = pa.RecordBatch.from_pydict({"user": pa.array([], pa.string())})
    assert list(users_together([empty, empty], 1)) == []


def test_kinds_have_their_own_columns():
    large = 2**60 + 1
    rows = pa.table(
        {
            "user": pa.array(["a", "a", "a"]),
            "score": pa.array([large, None, None], pa.int64()),
            "rating": pa.array([None, None, 4.0]),
            "kind": pa.array([KIND_LIST, KIND_LIST, KIND_TRUTH], pa.int8()),
        }
    )
    found = frames_of(rows, {KIND_LIST: ["user", "score"], KIND_TRUTH: ["user", "rating"], KIND_ITEM: ["user"]})
    assert set(found) == {KIND_LIST, KIND_TRUTH}
    assert found[KIND_LIST]["score"].tolist() == [large, None]
    assert found[KIND_TRUTH]["rating"].tolist() == [4.0]


LISTS = {"a": [1], "b": [], "c": [2, 3, 4, 5], "d": [6, 7], "e": [8]}


def arrays(*, size):
    """Of each user a list, and of `a` and `d` a row of truth; a closer number would be equal as a double."""
    lists = [[{"item": 2**60 + item, "score": None} for item in items] for items in LISTS.values()]
    truth = [[{"rating": 4.0, "item": 9}] if user in "ad" else [] for user in LISTS]
    kinds = {
        rows_of_kind(KIND_LIST): pa.array(lists, pa.list_(pa.struct({"item": pa.int64(), "score": pa.int64()}))),
        rows_of_kind(KIND_TRUTH): pa.array(truth, pa.list_(pa.struct({"rating": pa.float64(), "item": pa.int64()}))),
    }
    return pa.table({"user": list(LISTS), **kinds}).to_batches(max_chunksize=size)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("at_once", "expected"),
    [
        (1, [["a"], ["b", "c"], ["d"], ["e"]]),
        (3, [["a", "b", "c"], ["d"], ["e"]]),
        (4, [["a", "b", "c"], ["d", "e"]]),
        (9, [["a", "b", "c", "d"], ["e"]]),
        (100, [["a", "b", "c", "d", "e"]]),
    ],
)
def test_arrays_come_in_tables_of_about_so_many_rows(size, at_once, expected):
    found = list(arrays_together(arrays(size=size), at_once))
    assert [table["user"].to_pylist() for table in found] == expected
    names = {KIND_LIST: ["score", "user", "item"], KIND_TRUTH: ["user", "rating"]}
    frames = [frames_of_arrays(table, names) for table in found]
    lists = pd.concat([own[KIND_LIST] for own in frames])
    assert list(lists) == ["score", "user", "item"]
    assert list(zip(lists["user"], lists["item"], strict=True)) == [(u, 2**60 + n) for u, own in LISTS.items() for n in own]
    truth = pd.concat([own[KIND_TRUTH] for own in frames])
    assert truth.to_dict("records") == [{"user": "a", "rating": 4.0}, {"user": "d", "rating": 4.0}]


def test_no_array_at_all():
    assert list(arrays_together([], 5)) == []
    assert list(arrays_together([batch.slice(0, 0) for batch in arrays(size=2)], 1)) == []
    (nobody,) = arrays_together([batch for batch in arrays(size=1) if batch["user"][0].as_py() == "b"], 5)
    found = frames_of_arrays(nobody, {KIND_LIST: ["user", "item"], KIND_TRUTH: ["user"]})
    assert {kind: len(frame) for kind, frame in found.items()} == {KIND_LIST: 0, KIND_TRUTH: 0}
