"""Score a bucket of users in numpy: rows of lists and ground truth become rows of PER_USER."""

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
    repeated,
    run_starts,
    sum_by_user,
)
from spark_recmetrics.metrics.batch import Candidates, ListScores, Matched, given
from spark_recmetrics.metrics.group_sums import BatchUsers, measure_groups, user_columns
from spark_recmetrics.metrics.item_counts import count_items, kept_lists
from spark_recmetrics.metrics.ranking import LARGEST_GAIN, raw_gain
from spark_recmetrics.metrics.rating import Moments, pair_terms
from spark_recmetrics.metrics.recommended_items import ItemTable, RecommendedItems, baseline_ranks
from spark_recmetrics.metrics.registry import finished
from spark_recmetrics.ranking.arrays import ListRows, Ranks, rank_rows
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.request.slices import numbered_values
from spark_recmetrics.side_info.packed import SideRows, Trained, read_table

if TYPE_CHECKING:
    import pandas as pd


class Bucket(NamedTuple):
    """What metrics read: a batch and counters with a cell for each model and user, ordered by model, and the rows of lists."""

    ids: _Ids
    batch: RankedBatch
    counters: dict[str, Any]
    rows: ListRows


# The square of a very large error is infinite. This needs no warning.
@np.errstate(over="ignore", invalid="ignore")
def score_bucket(
    lists: pd.DataFrame, truth: pd.DataFrame, scoring: Scoring, side: SideRows, *, only_users: bool = False
) -> pd.DataFrame:
    """The rows of PER_USER for a bucket of users, one for each model and user.

    Lists have `[model,] user, item`, and `rank` or `score` or both: all rows if `scoring.ranks_lists`, otherwise those that
    `window_spark.without_repeats` and `top_rows` keep. Ground truth has `user, item, rating`, the rating NaN if the row is not
    relevant, and `value` and `propensity` if they are needed. With `only_users`, there are no sums over the lists of the
    bucket. If there are sums over training rows, but neither lists nor ground truth: one row with them and without a model.
    """
    import pandas as pd

    bucket = read_bucket(lists, truth, scoring, side)
    ids, batch, counters, _ = bucket
    sums = {} if only_users else _sums_of_items(bucket, scoring, side.segments)
    rows = {
        "model": np.repeat(np.arange(scoring.n_models, dtype=np.int32), ids.n_users),
        "user": ids.users[np.tile(np.arange(ids.n_users), scoring.n_models)],
        **counters,
        **_values(batch, scoring),
        **(_pairs(batch, scoring.n_models) if scoring.keeps_pairs else {}),
        **(kept_lists(batch, ids.items, scoring.counted) if scoring.stores_lists and not only_users else {}),
    }
    if not batch.size and any(len(values) for values in sums.values()):
        return pd.DataFrame([{**dict.fromkeys(rows), **sums}])
    return pd.DataFrame({**rows, **{name: in_first_row(values, batch.size) for name, values in sums.items()}})


def read_bucket(lists: pd.DataFrame, truth: pd.DataFrame, scoring: Scoring, side: SideRows) -> Bucket:
    """What metrics read of a bucket of users. The arguments are those of `score_bucket`."""
    only_judged, drops_repeats = scoring.convention.candidates == "judged", scoring.convention.duplicates == "first"
    ids = _Ids.of(lists, truth, scoring, side)
    true = _Truth(truth, ids)
    n_cells = scoring.n_models * ids.n_users
    cell = ids.list_user + (lists["model"].to_numpy(np.int64) * ids.n_users if "model" in lists else 0)
    truth_row = positions_of(ids.pairs(ids.list_user, ids.list_item), true.pair) if only_judged else None
    if scoring.ranks_lists:
        ranks = rank_rows(lists, cell, ids.list_item, None if truth_row is None else truth_row >= 0, ids.items, scoring)
    else:
        ranks = Ranks.given(lists)
    n_left_out = _n_left_out(lists, ids.pairs(cell, ids.list_item), ranks) if drops_repeats else None
    ranks, n_gaps = _cut(ranks, cell, n_cells, scoring)
    rows = _list_rows(lists, ranks, cell, truth_row, ids, true, scoring)
    if n_left_out is None:
        n_duplicates = _n_repeats(rows, n_cells, ids, scoring)
    else:
        n_duplicates = sum_by_user(rows.cell, n_left_out[rows.row].astype(np.float64), n_cells).astype(np.int64)
    if only_judged:
        # Only pairs of both tables count, so the ground truth differs between models.
        rows = rows.kept(rows.truth_row >= 0)
        truth_cells = _TruthCells(rows.cell, rows.truth_row)
    else:
        first_cell = np.arange(scoring.n_models, dtype=np.int64) * ids.n_users
        row = np.tile(np.arange(len(true.pair)), scoring.n_models)
        truth_cells = _TruthCells((first_cell[:, None] + true.user).ravel(), row)
    batch = _batch(n_cells, rows, true, truth_cells, scoring)
    if "recommended" in scoring.needs:
        batch = replace(batch, recommended=_recommended(rows, true, ids, scoring))
    n_beyond_length = np.zeros(n_cells, dtype=np.int64)
    if scoring.max_per_user is not None:
        n_beyond_length = np.maximum(np.bincount(cell, minlength=n_cells) - scoring.max_per_user, 0)
    counters = {
        **_counters(batch, rows, scoring),
        "n_duplicates": n_duplicates,
        "n_truth_duplicates": np.tile(true.n_repeats, scoring.n_models),
        "n_rank_faults": n_gaps + _n_wrong_ranks(rows, n_cells) if scoring.given_ranks else n_gaps,
        "n_beyond_length": n_beyond_length,
    }
    if side.members is not None and not only_judged:
        member_cell = (np.arange(scoring.n_models)[:, None] * ids.n_users + ids.member).ravel()
        for name in ("n_truth", "n_recommended"):
            np.add.at(counters[name], member_cell, np.tile(side.members[name].to_numpy(np.int64), scoring.n_models))
    return Bucket(ids, batch, counters, rows)


class _Ids(NamedTuple):
    """Users and items of a bucket as numbers: (L,) of the rows of lists, (T,) of those of the ground truth, (M,) of members."""

    users: Any  # ids by number
    n_users: int  # with a list or ground truth, or members: the first ones; the others have only training rows
    items: Any  # ids by number
    list_user: Ints
    list_item: Ints
    truth_user: Ints
    truth_item: Ints
    member: Ints
    trained: Trained
    table: ItemTable

    @classmethod
    def of(cls, lists: pd.DataFrame, truth: pd.DataFrame, scoring: Scoring, side: SideRows) -> _Ids:
        no_rows = truth[["user", "item"]].iloc[:0]
        train, described, members = (no_rows if rows is None else rows for rows in (side.train, side.items, side.members))
        columns = (rows["user"] for rows in (lists, truth, members, train))
        (list_user, truth_user, member, train_user), users = numbered(*columns)
        n_users = int(max(numbers.max(initial=-1) for numbers in (list_user, truth_user, member))) + 1
        (list_item, truth_item, train_item, described_item), items = numbered(
            *(frame["item"] for frame in (lists, truth, train, described))
        )
        # Items without a row are not needed.
        items = items[: max(code.max(initial=-1) for code in (list_item, truth_item, train_item)) + 1]
        needed = described_item < len(items)
        sources = [(lists, list_item), (truth, truth_item), (train, train_item), (described[needed], described_item[needed])]
        trained = Trained.of(train_user, train_item, max(len(items), 1))
        table = read_table(sources, len(items), scoring.items)
        return cls(users, n_users, items, list_user, list_item, truth_user, truth_item, member, trained, table)

    def pairs(self, user: Ints, item: Ints) -> Ints:
        """A number for each pair of a user (or cell) and an item."""
        return user * self.trained.n_items + item


class _Truth:
    """The ground truth of a bucket: each pair once, sorted by user and item, the rating NaN if it is not relevant."""

    def __init__(self, frame: pd.DataFrame, ids: _Ids) -> None:
        value = frame["value"].to_numpy(np.float64) if "value" in frame else None
        rating = frame["rating"].to_numpy(np.float64)
        self.pair, row, repeats = _distinct(ids.pairs(ids.truth_user, ids.truth_item), rating, value)
        self.n_repeats = np.bincount(ids.truth_user[repeats], minlength=ids.n_users)
        self.user, self.item = self.pair // ids.trained.n_items, self.pair % ids.trained.n_items
        self.rating = rating[row]
        self.value = self.rating if value is None else value[row]
        no_propensity = np.full(len(row), np.nan)
        self.propensity = frame["propensity"].to_numpy(np.float64)[row] if "propensity" in frame else no_propensity
        self.seen = ids.trained.have(self.user, self.item)
        self.n_seen = np.bincount(ids.trained.user, minlength=int(self.user.max(initial=-1)) + 1)[self.user]


class _TruthCells(NamedTuple):
    """The rows of the ground truth of each cell: (R,) the cell, and the position in `_Truth`."""

    cell: Ints
    row: Ints


def _distinct(pair: Any, rating: Any, value: Any) -> tuple[Any, Any, Any]:
    """The pairs in order, for each the row with the highest rating (NaN is lowest), and the other rows."""
    order = np.argsort(pair, kind="stable")
    if len(run_starts(pair[order])) < len(pair):
        order = np.lexsort((*(() if value is None else (-value,)), -rating, pair))
    first = run_starts(pair[order])
    return pair[order][first], order[first], np.delete(order, first)


def _cut(ranks: Ranks, cell: Ints, n_cells: int, scoring: Scoring) -> tuple[Ranks, Ints]:
    """The rows within the largest cut-off, and (n_cells,) 1 where a later rank shows that one up to the cut-off is missing."""
    n_gaps = np.zeros(n_cells, dtype=np.int64)
    if scoring.k is None or not (scoring.ranks_lists or scoring.given_ranks):
        return ranks, n_gaps
    after = ranks.rank > scoring.k
    if scoring.given_ranks:
        n_within = np.bincount(cell[ranks.row[~after]], minlength=n_cells)
        longer = cell[ranks.row[after]]
        n_gaps[longer] = n_within[longer] != scoring.k
    return ranks.kept(~after), n_gaps


def _list_rows(
    lists: pd.DataFrame, ranks: Ranks, cell: Ints, truth_row: Ints | None, ids: _Ids, true: _Truth, scoring: Scoring
) -> ListRows:
    row = ranks.row
    user, item = ids.list_user[row], ids.list_item[row]
    reads_scores = "scores" in scoring.needs and "score" in lists
    needs_seen = bool(scoring.needs & {"unseen_candidates", "history"})
    return ListRows.of(
        ranks,
        cell=cell[row],
        item=item,
        truth_row=positions_of(ids.pairs(user, item), true.pair) if truth_row is None else truth_row[row],
        # Without a metric that needs scores they are NaN, whether lists have them or not.
        score=lists["score"].to_numpy(np.float64)[row] if reads_scores else np.full(len(row), np.nan),
        seen=ids.trained.have(user, item) if needs_seen else np.zeros(len(row), dtype=bool),
    )


def _counters(batch: RankedBatch, rows: ListRows, scoring: Scoring) -> dict[str, Any]:
    longest, tied = scoring.longest, rows.before_tie & np.isin(rows.rank, scoring.cuts)
    matched = (rows.truth_row >= 0) & (True if longest is None else rows.rank <= longest)
    return {
        "n_relevant": batch.n_relevant,
        "n_truth": batch.n_judged,
        "n_recommended": batch.list_length(longest),
        "n_matched": np.bincount(rows.cell[matched], minlength=batch.size),
        "n_tied_at_cut": np.bincount(rows.cell[tied], minlength=batch.size),
        "n_negative_gains": np.bincount(batch.ideal_user[_has_bad_gain(batch.ideal_rating, scoring)], minlength=batch.size),
        "n_beyond_catalog": _n_beyond_catalog(batch),
    }


def rating_pairs(batch: RankedBatch, scoring: Scoring) -> Matched:
    """The matched pairs that rating metrics read, with clipped scores."""
    pairs = given(batch.matched, "matched")
    kept = np.isfinite(pairs.score) & np.isfinite(pairs.rating)
    if scoring.convention.rating_rows == "positive":
        kept &= pairs.rating > 0
    pairs = pairs.kept(kept)
    return pairs if scoring.clip is None else replace(pairs, score=np.clip(pairs.score, *scoring.clip))


def rating_values(batch: RankedBatch, scoring: Scoring) -> dict[str, Any]:
    """(U,) by column, the moments of rating errors and the rating metrics. NaN without a pair."""
    pairs = rating_pairs(batch, scoring)
    terms = {"n_pairs": np.ones(len(pairs.user)), **pair_terms(pairs.score - pairs.rating, pairs.rating, np.abs)}
    summed = Moments(**{name: sum_by_user(pairs.user, term, batch.size) for name, term in terms.items()})
    rated = summed.n_pairs > 0
    columns: dict[str, Any] = {name: np.where(rated, value, np.nan) for name, value in summed._asdict().items()}
    # Repeated pairs are counted as repeated items of the list.
    columns["n_pair_duplicates"] = np.where(rated, 0.0, np.nan)
    for metric in scoring.rating:
        columns[metric.slug] = np.full(batch.size, np.nan)
        sums = metric.definition.compute(Moments(*(value[rated] for value in summed)))
        columns[metric.slug][rated] = finished(metric, sums)
    return columns


def _pairs(batch: RankedBatch, n_models: int) -> dict[str, Any]:
    """The matched pairs of each model, in the row of its first user. See `columns.PAIR_SCORES`."""
    pairs = given(batch.matched, "matched")
    ranks = np.where(pairs.relevant, pairs.rank, -pairs.rank)
    n_users = batch.size // n_models
    columns = {name: np.full(batch.size, None) for name in (PAIR_SCORES, PAIR_RANKS, PAIR_STARTS)}
    ends = np.searchsorted(pairs.user, np.arange(n_models + 1) * n_users)
    for first, start, end in zip(range(0, batch.size, max(n_users, 1)), ends, ends[1:], strict=False):
        columns[PAIR_SCORES][first] = pairs.score[start:end]
        columns[PAIR_RANKS][first] = ranks[start:end]
        columns[PAIR_STARTS][first] = run_starts(pairs.user[start:end])
    return columns


def _sums_of_items(bucket: Bucket, scoring: Scoring, segments: pd.DataFrame | None) -> dict[str, Any]:
    """The sums over the lists of the bucket for metrics of items and of groups, as arrays by column."""
    ids, batch, counters, _ = bucket
    arrays, per_item = dict[str, Any](), list[tuple[Ints, Floats]]()
    if scoring.measured:
        groups = _user_groups(ids.users, user_columns(scoring.measured), segments)
        trained = ids.trained.user, ids.trained.item
        members = BatchUsers(scoring.n_models, ids.n_users, len(ids.users), counters, groups, trained, ids.table)
        arrays, per_item = measure_groups(batch, members, scoring.measured, scoring.convention, scoring.items)
    if scoring.counted or per_item:
        repeats = scoring.has_repeats
        arrays |= count_items(batch, counters, scoring.n_models, ids.items, scoring.counted, per_item, repeats=repeats)
    return arrays


def _user_groups(users: Any, columns: Sequence[str], segments: pd.DataFrame | None) -> dict[str, tuple[Ints, Any]]:
    """By column, the group of each user, -1 for none, and the names of the groups."""
    import pandas as pd

    if segments is None or not len(users):
        return {column: (np.full(len(users), -1, dtype=np.int64), np.zeros(0, dtype=object)) for column in columns}
    (segment_user, user), ids = numbered(segments["user"], pd.Series(users))
    groups = {}
    for position, column in enumerate(columns):
        segment = segments[f"segment_{position}"]
        present = segment.notna().to_numpy()
        group_of_id = np.full(len(ids), -1, dtype=np.int64)
        group_of_id[segment_user[present]], names = numbered_values(segment[present])
        groups[column] = group_of_id[user], np.asarray(names, dtype=object)
    return groups


def in_first_row(values: Any, size: int) -> Any:
    """A column of `size` rows with an array or a list in the first row."""
    column = np.full(size, None)
    if size:
        column[0] = values
    return column


def _batch(n_cells: int, rows: ListRows, true: _Truth, truth_cells: _TruthCells, scoring: Scoring) -> RankedBatch:
    judged = np.flatnonzero(rows.truth_row >= 0)
    judged = judged[np.lexsort((rows.rank[judged], rows.cell[judged]))]
    row, score = rows.truth_row[judged], rows.score[judged]
    matched = Matched(
        user=rows.cell[judged],
        rank=rows.rank[judged],
        relevant=~np.isnan(true.rating[row]),
        rating=true.value[row],
        score=comparable_scores(score, first=scoring.convention.nan_scores == "first") if scoring.keeps_pairs else score,
        propensity=true.propensity[row],
    )
    hit = judged[matched.relevant]
    truth_cell, truth_rating = truth_cells.cell, true.rating[truth_cells.row]
    ideal = np.flatnonzero(~np.isnan(truth_rating))
    ideal = ideal[np.lexsort((-truth_rating[ideal], truth_cell[ideal]))]
    n_recommended, n_relevant = (np.bincount(cell, minlength=n_cells) for cell in (rows.cell, truth_cell[ideal]))
    candidates = unseen = None
    if "candidates" in scoring.needs:
        candidates = _candidates(n_recommended, n_relevant, rows, hit)
        unseen = None if scoring.trained else candidates
    if "unseen_candidates" in scoring.needs:
        unseen = _unseen_candidates(n_cells, rows, true, hit, truth_cells)
    return RankedBatch(
        n_relevant=n_relevant,
        n_recommended=n_recommended,
        hit_user=rows.cell[hit],
        hit_rank=rows.rank[hit],
        hit_rating=true.rating[rows.truth_row[hit]],
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
        ideal_item=true.item[truth_cells.row[ideal]],
    )


def _recommended(rows: ListRows, true: _Truth, ids: _Ids, scoring: Scoring) -> RecommendedItems:
    longest = scoring.longest_recommended
    if longest is not None and np.any(rows.rank > longest):
        rows = rows.kept(rows.rank <= longest)
    key = rows.cell * (int(rows.rank.max(initial=0)) + 1) + rows.rank
    if np.any(key[1:] < key[:-1]):
        rows = rows.kept(np.argsort(key, kind="stable"))
    baseline_rank = np.zeros(len(key), dtype=np.int64)
    if scoring.baseline is not None:
        baseline_rank = baseline_ranks(rows.cell, rows.rank, rows.item, ids.n_users, scoring.baseline)
    return RecommendedItems(
        user=rows.cell,
        rank=rows.rank,
        item=rows.item,
        rating=np.where(rows.truth_row >= 0, np.append(true.rating, np.nan)[rows.truth_row], np.nan),
        score=rows.score,
        seen=rows.seen,
        baseline_rank=baseline_rank,
        table=ids.table,
    )


def _candidates(n_recommended: Ints, n_relevant: Ints, rows: ListRows, hit: Ints) -> Candidates:
    """All items are candidates. The positions are ranks."""
    first, last = (rows.rank[edge[hit]] for edge in rows.ties)
    return Candidates(
        n_listed=n_recommended,
        n_relevant=n_relevant,
        n_seen=np.zeros(len(n_relevant), dtype=np.int64),
        user=rows.cell[hit],
        position=rows.rank[hit],
        n_above=first - 1,
        n_tied=last - first + 1,
    )


def _unseen_candidates(n_cells: int, rows: ListRows, true: _Truth, hit: Ints, truth_cells: _TruthCells) -> Candidates:
    """Items without a training row of the user are candidates. Positions are counted among them."""
    position, truth_row = rows.unseen_position, truth_cells.row
    relevant = ~np.isnan(true.rating[truth_row]) & ~true.seen[truth_row]
    hit = hit[~true.seen[rows.truth_row[hit]]]
    first, last = (edge[hit] for edge in rows.ties)
    n_above = position[first] - ~rows.seen[first]
    return Candidates(
        n_listed=_largest(rows.cell, position, n_cells),
        n_relevant=np.bincount(truth_cells.cell[relevant], minlength=n_cells),
        n_seen=_largest(truth_cells.cell, true.n_seen[truth_row], n_cells),
        user=rows.cell[hit],
        position=position[hit],
        n_above=n_above,
        n_tied=position[last] - n_above,
    )


def _values(batch: RankedBatch, scoring: Scoring) -> dict[str, Any]:
    """(U,) by column, the values of all metrics, and the moments of rating errors. Metrics are not called without users."""
    if not batch.size:
        return dict.fromkeys([*scoring.columns, *scoring.rating_columns], np.zeros(0))
    values: dict[str, Any] = rating_values(batch, scoring) if scoring.rating else {}
    for metric in scoring.metrics:
        values |= dict(zip(columns_of(metric), score_columns(metric, batch, scoring.convention), strict=True))
    return values


def _largest(cell: Ints, values: Any, n_cells: int) -> Ints:
    """(n_cells,) the largest value of each cell, 0 if it has none."""
    largest = np.zeros(n_cells, dtype=np.int64)
    np.maximum.at(largest, cell, values)
    return largest


def _n_repeats(rows: ListRows, n_cells: int, ids: _Ids, scoring: Scoring) -> Ints:
    """(n_cells,) the number of rows that repeat an item of their list."""
    if scoring.convention.candidates == "judged" and scoring.longest is not None:
        # Of items without ground truth, only those up to the largest cut-off count.
        rows = rows.kept((rows.truth_row >= 0) | (rows.rank <= scoring.longest))
    return np.bincount(repeated(ids.pairs(rows.cell, rows.item)) // ids.trained.n_items, minlength=n_cells)


def _n_left_out(lists: pd.DataFrame, pair: Ints, ranks: Ranks) -> Ints:
    """(L,) for each row of the frame, how many repeats of its item were dropped from the list."""
    if "n_left_out" in lists:
        return lists["n_left_out"].to_numpy(np.int64)
    if len(ranks.row) == len(lists):
        return np.zeros(len(lists), dtype=np.int64)
    _, position, size = np.unique(pair, return_inverse=True, return_counts=True)
    return np.asarray(size[position] - 1)


def _n_wrong_ranks(rows: ListRows, n_cells: int) -> Ints:
    """(n_cells,) the number of rows whose rank is not their position in the list."""
    order = np.lexsort((rows.rank, rows.cell))
    wrong = rows.rank[order] != position_in_user(rows.cell[order], n_cells)
    return np.bincount(rows.cell[order][wrong], minlength=n_cells)


def _has_bad_gain(rating: Any, scoring: Scoring) -> Any:
    """(R,) whether any metric has a gain for the rating that is negative or too large."""
    bad = np.zeros(len(rating), dtype=bool)
    for metric in (*scoring.metrics, *scoring.item_metrics):
        for part in metric.tree():
            gains = raw_gain(rating, part.options(scoring.convention).get("gain", "binary"))
            bad |= ~((gains >= 0) & (gains <= LARGEST_GAIN))
    return bad


def _n_beyond_catalog(batch: RankedBatch) -> Any:
    """(n_cells,) the number of different items in list, ground truth and training rows beyond the size of the catalog."""
    if batch.n_items is None:
        return np.zeros(batch.size, dtype=np.int64)
    n_items = batch.n_recommended + batch.n_relevant - batch.n_hits(None)
    unseen = batch.unseen_candidates
    if unseen is not None:
        n_listed_relevant = np.bincount(unseen.user, minlength=batch.size)
        n_items = np.maximum(n_items, unseen.n_listed - n_listed_relevant + unseen.n_relevant + unseen.n_seen)
    return np.maximum(n_items - batch.n_items, 0)
