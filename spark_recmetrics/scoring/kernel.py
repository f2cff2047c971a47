"""Score a bucket of users in numpy: from rows of lists and truth to rows of PER_USER. No Spark is needed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.columns import PAIR_RANKS, PAIR_SCORES, PAIR_STARTS
from spark_recmetrics.metrics import RankedBatch, columns_of, score_columns
from spark_recmetrics.metrics.arrays import (
    Floats,
    Ints,
    comparable_scores,
    numbered,
    position_in_user,
    positions_of,
    sum_by_user,
)
from spark_recmetrics.metrics.batch import Candidates, ListScores, Matched
from spark_recmetrics.metrics.group_sums import BatchUsers, measure_groups, user_columns
from spark_recmetrics.metrics.item_counts import count_items, kept_lists
from spark_recmetrics.metrics.ranking import LARGEST_GAIN, raw_gain
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.metrics.recommended_items import ItemTable, RecommendedItems, baseline_ranks
from spark_recmetrics.metrics.registry import finished
from spark_recmetrics.ranking.arrays import ListRows, Ranks, rank_rows, scores_of
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.request.slices import numbered_values
from spark_recmetrics.side_info.packed import SideInfo, Trained, read_table

if TYPE_CHECKING:
    import pandas as pd


class Bucket(NamedTuple):
    """A bucket as it was read.

    Args:
        users: The ids of users by number: first those of lists and truth, then those with training rows alone.
        n_users: How many stand in lists or truth.
        items: The ids of items by number.
        batch: What metrics see of users, one cell per model and user, by model.
        counters: Counters of each cell.
        trained: The training rows.
        table: What is known of items.
        rows: The rows of lists.
    """

    users: Any
    n_users: int
    items: Any
    batch: RankedBatch
    counters: dict[str, Any]
    trained: Trained
    table: ItemTable
    rows: ListRows


# The square of a very large error is infinite, which is no reason to warn.
@np.errstate(over="ignore", invalid="ignore")
def score_bucket(
    lists: pd.DataFrame, truth: pd.DataFrame, scoring: Scoring, beside: SideInfo, *, of_users: bool = False
) -> pd.DataFrame:
    """The rows of PER_USER for one bucket of users.

    Args:
        lists: `[model,] user, item`, and `rank` and/or `score`: whole lists where the scoring `ranks_lists`; else what
            `rank.without_repeats` and `rank.top_rows` leave of them.
        truth: `user, item, rating`, the rating NaN where the row is not relevant. With `value` and `propensity` where they are
            needed.
        scoring: What to compute.
        beside: What is known beside.
        of_users: The values of users alone are wanted, and nothing that is added up over all lists of the bucket.

    Returns:
        A row of each model and user. If nobody has a list or a truth row, but there are training rows that are added up, one
        row without a model has the sums.
    """
    import pandas as pd

    bucket = read_bucket(lists, truth, scoring, beside)
    batch, n_users = bucket.batch, bucket.n_users
    added = {} if of_users else _added_up(bucket, scoring, beside.segments)
    rows = {
        "model": np.repeat(np.arange(scoring.n_models, dtype=np.int32), n_users),
        "user": bucket.users[np.tile(np.arange(n_users), scoring.n_models)],
        **bucket.counters,
        **_values(batch, scoring),
        **(_pairs(batch, scoring.n_models) if scoring.keeps_pairs else {}),
        **(kept_lists(batch, bucket.items, scoring.counted) if scoring.keeps_lists and not of_users else {}),
    }
    if not batch.size and any(len(values) for values in added.values()):
        return pd.DataFrame([{**dict.fromkeys(rows), **added}])
    return pd.DataFrame({**rows, **_in_first_row(added, batch.size)})


def read_bucket(lists: pd.DataFrame, truth: pd.DataFrame, scoring: Scoring, beside: SideInfo) -> Bucket:
    """The users of a bucket and what metrics see of them.

    Args:
        lists: As for `score_bucket`.
        truth: As for `score_bucket`.
        scoring: What to compute.
        beside: What is known beside.
    """
    nobody = truth[["user", "item"]].iloc[:0]
    train, known = (nobody if frame is None else frame for frame in (beside.train, beside.items))
    (list_user, truth_user, train_user), users = numbered(lists["user"], truth["user"], train["user"])
    n_users = int(max(list_user.max(initial=-1), truth_user.max(initial=-1))) + 1
    sources = lists, truth, train, known
    codes, items = numbered(*(frame["item"] for frame in sources))
    list_item, truth_item, train_item, known_item = codes
    # Of items that stand nowhere else nobody asks.
    items = items[: max(part.max(initial=-1) for part in codes[:3]) + 1]
    there = known_item < len(items)
    sources, codes = (*sources[:3], known[there]), [*codes[:3], known_item[there]]
    n_items = max(len(items), 1)
    table = read_table(list(zip(sources, codes, strict=True)), len(items), scoring.items)
    trained = Trained.of(train_user, train_item, n_items)
    n_cells = scoring.n_models * n_users
    model = lists["model"].to_numpy(np.int64) if "model" in lists else 0
    cell = model * n_users + list_user
    values = truth["value"].to_numpy(np.float64) if "value" in truth else None
    key, truth_row, repeated = _distinct(truth_user * n_items + truth_item, truth["rating"].to_numpy(np.float64), values)
    judged = _Truth(truth.take(truth_row), key // n_items, key % n_items, trained)
    wanted = list_user * n_items + list_item
    place = positions_of(wanted, key) if scoring.convention.candidates == "judged" else None
    if scoring.ranks_lists:
        ranks = rank_rows(lists, cell, list_item, None if place is None else place >= 0, items, scoring)
    else:
        ranks = Ranks.given(lists)
    left_out = _left_out(lists, cell * n_items + list_item, ranks) if scoring.convention.duplicates == "first" else None
    faults_behind = np.zeros(n_cells, dtype=np.int64)
    if scoring.k is not None and (scoring.ranks_lists or scoring.given_ranks):
        behind = ranks.rank > scoring.k
        if scoring.given_ranks:
            # A row behind k tells that there is one, and is no part of the list that is scored.
            within = np.bincount(cell[ranks.row[~behind]], minlength=n_cells)
            cut = cell[ranks.row[behind]]
            faults_behind[cut] = within[cut] != scoring.k
        ranks = ranks.kept(~behind)
    # Of rows behind the largest cut-off nobody asks.
    row = ranks.row
    asked, scored = scoring.needs & {"unseen_candidates", "history"}, "scores" in scoring.needs
    rows = ListRows.of(
        ranks,
        cell=cell[row],
        item=list_item[row],
        truth=positions_of(wanted[row], key) if place is None else place[row],
        # They are there if some metric has said that it needs them, whichever way its lists came.
        score=scores_of(lists)[row] if scored else np.full(len(row), np.nan),
        seen=trained.have(list_user[row], list_item[row]) if asked else np.zeros(len(row), dtype=bool),
    )
    if left_out is None:
        n_duplicates = _repeats(_competing(rows, scoring), n_cells, n_items)
    else:
        n_duplicates = sum_by_user(rows.cell, left_out[row].astype(np.float64), n_cells).astype(np.int64)
    if scoring.convention.candidates == "judged":
        # Only what stands on both sides exists, so each model has its own truth.
        rows = rows.kept(rows.truth >= 0)
        truth_cell, truth_place = rows.cell, rows.truth
    else:
        start = np.arange(scoring.n_models, dtype=np.int64) * n_users
        truth_cell = (start[:, None] + judged.user).ravel()
        truth_place = np.tile(np.arange(len(key)), scoring.n_models)

    batch = _batch(n_cells, rows, judged, truth_cell, truth_place, scoring)
    if "recommended" in scoring.needs:
        batch = replace(batch, recommended=_recommended(rows, judged, n_users, scoring, table))
    counters = {
        "n_relevant": batch.n_relevant,
        "n_truth": batch.n_judged,
        "n_recommended": batch.list_length(scoring.longest),
        "n_matched": np.bincount(rows.cell[_is_matched(rows, scoring)], minlength=n_cells),
        "n_tied_at_cut": np.bincount(rows.cell[rows.before_tie & np.isin(rows.rank, scoring.cuts)], minlength=n_cells),
        "n_duplicates": n_duplicates,
        "n_truth_duplicates": np.tile(np.bincount(truth_user[repeated], minlength=n_users), scoring.n_models),
        "n_rank_faults": _rank_faults(rows, n_cells, scoring) + faults_behind,
        "n_negative_gains": np.bincount(batch.ideal_user[_negative(batch.ideal_rating, scoring)], minlength=n_cells),
        "n_beyond_catalog": _beyond_catalog(batch),
        "n_beyond_length": _beyond_length(cell, n_cells, scoring.max_per_user),
    }
    return Bucket(users, n_users, items, batch, counters, trained, table, rows)


def rating_pairs(batch: RankedBatch, scoring: Scoring) -> Matched:
    """The matched pairs that rating metrics look at, the score clipped where predicted ratings are."""
    pairs = batch.matched
    if pairs is None:
        raise ValueError("the batch lacks its pairs")
    kept = np.isfinite(pairs.score) & np.isfinite(pairs.rating)
    if scoring.convention.rating_rows == "positive":
        kept &= pairs.rating > 0
    found = pairs.kept(kept)
    return found if scoring.clip is None else replace(found, score=np.clip(found.score, *scoring.clip))


def rating_values(batch: RankedBatch, scoring: Scoring) -> dict[str, Any]:
    """Moments of the rating errors, and the rating metrics; NaN without a pair."""
    pairs = rating_pairs(batch, scoring)
    user, rating, error = pairs.user, pairs.rating, pairs.score - pairs.rating
    values = (np.ones(len(user)), np.abs(error), error**2, error, rating, rating**2)
    summed = Moments(*(sum_by_user(user, value, batch.size) for value in values))
    some = summed.n_pairs > 0
    found: dict[str, Any] = {name: np.where(some, value, np.nan) for name, value in summed._asdict().items()}
    # Repeated pairs are repeated items of the list, which are counted there.
    found["n_pair_duplicates"] = np.where(some, 0.0, np.nan)
    for metric in scoring.rating:
        found[metric.slug] = np.full(batch.size, np.nan)
        sums = metric.definition.compute(Moments(*(value[some] for value in summed)))
        found[metric.slug][some] = finished(metric, sums)
    return found


def _pairs(batch: RankedBatch, n_models: int) -> dict[str, Any]:
    """The matched pairs of each model, in the row of its first user: see `columns.PAIR_SCORES`."""
    pairs = batch.matched
    if pairs is None:
        raise ValueError("the batch lacks its pairs")
    ranks = np.where(pairs.relevant, pairs.rank, -pairs.rank)
    n_users = batch.size // n_models
    found = {name: np.full(batch.size, None) for name in (PAIR_SCORES, PAIR_RANKS, PAIR_STARTS)}
    ends = np.searchsorted(pairs.user, np.arange(n_models + 1) * n_users)
    for first, start, end in zip(range(0, batch.size, max(n_users, 1)), ends, ends[1:], strict=False):
        new = np.diff(pairs.user[start:end], prepend=-1) != 0
        found[PAIR_SCORES][first] = pairs.score[start:end]
        found[PAIR_RANKS][first] = ranks[start:end]
        found[PAIR_STARTS][first] = np.flatnonzero(new)
    return found


def _added_up(bucket: Bucket, scoring: Scoring, segments: pd.DataFrame | None) -> dict[str, Any]:
    """What metrics of items and of groups are made of."""
    batch, arrays, of_items = bucket.batch, dict[str, Any](), list[tuple[Ints, Floats]]()
    if scoring.measured:
        members = BatchUsers(
            scoring.n_models,
            bucket.n_users,
            len(bucket.users),
            bucket.counters,
            _user_groups(bucket.users, user_columns(scoring.measured), segments),
            (bucket.trained.user, bucket.trained.item),
            bucket.table,
        )
        arrays, of_items = measure_groups(batch, members, scoring.measured, scoring.convention, scoring.items)
    if scoring.counted or of_items:
        repeats = scoring.convention.duplicates == "keep"
        counted = scoring.counted, of_items
        arrays |= count_items(batch, bucket.counters, scoring.n_models, bucket.items, *counted, repeats=repeats)
    return arrays


def _user_groups(users: Any, columns: Sequence[str], segments: pd.DataFrame | None) -> dict[str, tuple[Ints, Any]]:
    """By column, the group of each user, -1 for none, and the names of the groups."""
    import pandas as pd

    found = {}
    for place, column in enumerate(columns):
        group, names = np.full(len(users), -1, dtype=np.int64), np.zeros(0, dtype=object)
        if segments is not None and len(users):
            texts = segments[f"segment_{place}"]
            known = texts.notna().to_numpy()
            code = np.full(len(texts), -1, dtype=np.int64)
            code[known], values = numbered_values(texts[known])
            (known, own), ids = numbered(segments["user"], pd.Series(users))
            of_id = np.full(len(ids), -1, dtype=np.int64)
            of_id[known] = code
            group, names = of_id[own], np.asarray(values, dtype=object)
        found[column] = group, names
    return found


def _in_first_row(arrays: dict[str, Any], size: int) -> dict[str, Any]:
    """Columns of so many rows, with these arrays in the first one."""
    found = {name: np.full(size, None) for name in arrays}
    for name, values in arrays.items():
        if size:
            found[name][0] = values
    return found


class _Truth:
    """Distinct truth rows, sorted by user and item."""

    def __init__(self, frame: pd.DataFrame, user: Ints, item: Ints, trained: Trained) -> None:
        self.user, self.item, self.trained = user, item, trained
        self.rating = frame["rating"].to_numpy(np.float64)
        self.value = frame["value"].to_numpy(np.float64) if "value" in frame else self.rating
        self.propensity = frame["propensity"].to_numpy(np.float64) if "propensity" in frame else np.full(len(user), np.nan)
        self.seen = trained.have(user, item)
        self.n_seen = np.bincount(trained.user, minlength=int(user.max(initial=-1)) + 1)[user]


def _distinct(key: Any, rating: Any, value: Any) -> tuple[Any, Any, Any]:
    """Truth as a set, sorted by key: keys, the row of the highest rating of each (NaN is lowest), and the repeating rows."""
    order = np.argsort(key, kind="stable")
    repeats = key[order][1:] == key[order][:-1]
    if repeats.any():
        order = np.lexsort((*(() if value is None else (-value,)), -rating, key))
        repeats = key[order][1:] == key[order][:-1]
    first = np.concatenate([np.ones(min(len(key), 1), dtype=bool), ~repeats])
    return key[order][first], order[first], order[~first]


def _batch(n_cells: int, rows: ListRows, truth: _Truth, truth_cell: Ints, truth_place: Ints, scoring: Scoring) -> RankedBatch:
    judged = np.flatnonzero(rows.truth >= 0)
    judged = judged[np.lexsort((rows.rank[judged], rows.cell[judged]))]
    cell, rank, place = rows.cell[judged], rows.rank[judged], rows.truth[judged]
    score, relevant = rows.score[judged], ~np.isnan(truth.rating[place])
    hit = judged[relevant]
    truth_rating = truth.rating[truth_place]
    ideal = np.flatnonzero(~np.isnan(truth_rating))
    ideal = ideal[np.lexsort((-truth_rating[ideal], truth_cell[ideal]))]
    n_recommended = np.bincount(rows.cell, minlength=n_cells)
    matched = Matched(
        user=cell,
        rank=rank,
        relevant=relevant,
        rating=truth.value[place],
        score=comparable_scores(score, first=scoring.convention.nan_scores == "first") if scoring.keeps_pairs else score,
        propensity=truth.propensity[place],
    )
    n_relevant = np.bincount(truth_cell[ideal], minlength=n_cells)
    candidates = unseen = None
    if "candidates" in scoring.needs:
        first, last = (rows.rank[edge[hit]] for edge in rows.ties)
        nobody = np.zeros(n_cells, dtype=np.int64)
        candidates = Candidates(
            n_recommended, n_relevant, nobody, rows.cell[hit], rows.rank[hit], n_above=first - 1, n_tied=last - first + 1
        )
        unseen = None if scoring.trained else candidates
    if "unseen_candidates" in scoring.needs:
        unseen = _unseen(n_cells, rows, truth, hit, truth_cell, truth_place)
    return RankedBatch(
        n_relevant=n_relevant,
        n_recommended=n_recommended,
        hit_user=rows.cell[hit],
        hit_rank=rows.rank[hit],
        hit_rating=truth.rating[rows.truth[hit]],
        ideal_user=truth_cell[ideal],
        ideal_rating=truth_rating[ideal],
        n_judged=np.bincount(truth_cell, minlength=n_cells),
        n_items=scoring.n_items,
        matched=matched,
        list_scores=ListScores(rows.cell, rows.rank, rows.score),
        candidates=candidates,
        unseen_candidates=unseen,
        popularity=scoring.items.popularity,
        n_categories=scoring.items.n_categories,
        ideal_item=truth.item[truth_place[ideal]],
    )


def _recommended(rows: ListRows, truth: _Truth, n_users: int, scoring: Scoring, table: ItemTable) -> RecommendedItems:
    longest = scoring.longest_recommended
    if longest is not None and np.any(rows.rank > longest):
        rows = rows.kept(rows.rank <= longest)
    known: dict[str, Any] = {"score": rows.score, "seen": rows.seen}
    if scoring.baseline is not None:
        known["baseline_rank"] = baseline_ranks(rows.cell, rows.rank, rows.item, n_users, scoring.baseline)
    rating = np.where(rows.truth >= 0, np.append(truth.rating, np.nan)[rows.truth], np.nan)
    return RecommendedItems.of(rows.cell, rows.rank, rows.item, rating, table, **known)


def _unseen(n_cells: int, rows: ListRows, truth: _Truth, hit: Ints, truth_cell: Ints, truth_place: Ints) -> Candidates:
    place = rows.unseen_place
    wanted = ~np.isnan(truth.rating[truth_place]) & ~truth.seen[truth_place]
    new = hit[~truth.seen[rows.truth[hit]]]
    first, last = (edge[new] for edge in rows.ties)
    above = place[first] - ~rows.seen[first]
    return Candidates(
        n_listed=_largest(rows.cell, place, n_cells),
        n_relevant=np.bincount(truth_cell[wanted], minlength=n_cells),
        n_seen=_largest(truth_cell, truth.n_seen[truth_place], n_cells),
        user=rows.cell[new],
        position=place[new],
        n_above=above,
        n_tied=place[last] - above,
    )


def _values(batch: RankedBatch, scoring: Scoring) -> dict[str, Any]:
    """(U,) the values of all metrics, and what rating metrics are made of. Nobody is asked for the values of no user."""
    if not batch.size:
        return dict.fromkeys([*scoring.columns, *scoring.rating_columns], np.zeros(0))
    found: dict[str, Any] = rating_values(batch, scoring) if scoring.rating else {}
    for metric in scoring.metrics:
        found |= dict(zip(columns_of(metric), score_columns(metric, batch, scoring.convention), strict=True))
    return found


def _largest(cell: Ints, values: Any, n_cells: int) -> Ints:
    """(n_cells,) the largest value of each cell, 0 where it has none."""
    found = np.zeros(n_cells, dtype=np.int64)
    np.maximum.at(found, cell, values)
    return found


def _competing(rows: ListRows, scoring: Scoring) -> ListRows:
    """The rows in which repeats are looked for: where only judged items compete, these and the first rows of the list."""
    if scoring.convention.candidates != "judged" or scoring.longest is None:
        return rows
    return rows.kept((rows.truth >= 0) | (rows.rank <= scoring.longest))


def _repeats(rows: ListRows, n_cells: int, n_items: int) -> Ints:
    """(n_cells,) how many recommendations of a cell repeat an item of its list."""
    ordered = np.sort(rows.cell * n_items + rows.item)
    return np.bincount(ordered[1:][ordered[1:] == ordered[:-1]] // n_items, minlength=n_cells)


def _left_out(lists: pd.DataFrame, key: Ints, ranks: Ranks) -> Ints:
    """(L,) how many rows of the same item were left out of its list in favour of a row, by its place in the frame."""
    if "n_left_out" in lists:
        return lists["n_left_out"].to_numpy(np.int64)
    if len(ranks.row) == len(lists):
        return np.zeros(len(lists), dtype=np.int64)
    _, place, size = np.unique(key, return_inverse=True, return_counts=True)
    found: Ints = size[place] - 1
    return found


def _rank_faults(rows: ListRows, n_cells: int, scoring: Scoring) -> Ints:
    """(n_cells,) how many rows of a cell have another rank than their place in the list."""
    if not scoring.given_ranks:
        return np.zeros(n_cells, dtype=np.int64)
    order = np.lexsort((rows.rank, rows.cell))
    wrong = rows.rank[order] != position_in_user(rows.cell[order], n_cells)
    return np.bincount(rows.cell[order][wrong], minlength=n_cells)


def _is_matched(rows: ListRows, scoring: Scoring) -> Any:
    """Which rows have a truth row, up to the largest cut-off."""
    return (rows.truth >= 0) & (True if scoring.longest is None else rows.rank <= scoring.longest)


def _negative(rating: Any, scoring: Scoring) -> Any:
    """Which ratings have a gain below 0, or too large to be a number, for some metric in use."""
    negative = np.zeros(len(rating), dtype=bool)
    for metric in (*scoring.metrics, *scoring.item_metrics):
        for part in metric.tree():
            gains = raw_gain(rating, part.options(scoring.convention).get("gain", "binary"))
            negative |= ~((gains >= 0) & (gains <= LARGEST_GAIN))
    return negative


def _beyond_length(cell: Ints, n_cells: int, declared: int | None) -> Ints:
    """(n_cells,) by how many rows a list is longer than declared, repeats counted: they take memory, too."""
    if declared is None:
        return np.zeros(n_cells, dtype=np.int64)
    return np.maximum(np.bincount(cell, minlength=n_cells) - declared, 0)


def _beyond_catalog(batch: RankedBatch) -> Any:
    """(n_cells,) by how many items list, relevant items and training rows of a cell exceed the catalogue."""
    if batch.n_items is None:
        return np.zeros(batch.size, dtype=np.int64)
    known = batch.n_recommended + batch.n_relevant - batch.n_hits(None)
    unseen = batch.unseen_candidates
    if unseen is not None:
        n_listed_relevant = np.bincount(unseen.user, minlength=batch.size)
        known = np.maximum(known, unseen.n_listed - n_listed_relevant + unseen.n_relevant + unseen.n_seen)
    return np.maximum(known - batch.n_items, 0)
