"""`RankedBatch`: the ranked lists and the ground truth of many users, as metric formulas see them.

It holds hits, not lists, because most recommendations miss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from spark_recmetrics.metrics.arrays import Bools, Floats, Ints, Numbers, RankedRows, position_in_user, sum_by_user
from spark_recmetrics.metrics.recommended_items import ItemTable, Popularity, RecommendedItems, category_bits

_T = TypeVar("_T")


@dataclass(frozen=True)
class ListScores(RankedRows):
    """The score of every recommendation."""

    user: Ints  # (L,) index into the batch
    rank: Ints  # (L,) rank from 1
    score: Floats  # (L,) NaN if it is missing


@dataclass(frozen=True)
class Matched(RankedRows):
    """The recommended items with a truth row, relevant or not."""

    user: Ints  # (J,) index into the batch, ascending
    rank: Ints  # (J,) rank from 1, ascending within a user
    relevant: Bools  # (J,) whether the item is relevant
    rating: Floats  # (J,) rating of the truth row; NaN if it is missing
    score: Floats  # (J,) score of the recommendation; NaN if it is missing
    propensity: Floats  # (J,) probability with which the logging policy showed the item; NaN if it is unknown


@dataclass(frozen=True)
class Candidates:
    """The positions of relevant items among the candidates: the items that could have been recommended."""

    n_listed: Ints  # (U,) candidates in the list
    n_relevant: Ints  # (U,) relevant candidates, in the list or not
    n_seen: Ints  # (U,) items of the catalog that are not candidates
    user: Ints  # (P,) for each relevant candidate in the list, the index into the batch, ascending
    position: Ints  # (P,) its position among the listed candidates, from 1, ascending within a user
    n_above: Ints  # (P,) listed candidates with a better score
    n_tied: Ints  # (P,) listed candidates with the same score, including itself


@dataclass(frozen=True)
class RankedBatch:
    """U users (or pairs of model and user) in compressed form.

    A part that no metric needs may be None or incomplete, see `Definition.needs`.

    Args:
        n_relevant: (U,) number m of relevant items.
        n_recommended: (U,) length n of the list.
        hit_user: (H,) for each hit, the index into the batch, ascending.
        hit_rank: (H,) its rank from 1, ascending within a user.
        hit_rating: (H,) the rating of the relevant item; 1 if the truth has no ratings.
        ideal_user: (M,) for each relevant item, the index into the batch, ascending.
        ideal_rating: (M,) its rating, descending within a user.
        n_judged: (U,) items with a truth row, relevant or not.
        n_items: Size N of the catalog.
        matched: Recommendations with a truth row.
        list_scores: Scores of all recommendations.
        candidates: Positions of relevant items in the list.
        unseen_candidates: The same without the items of the user's training rows.
        recommended: All recommendations with information on the items, the `item_data` of `of`.
        popularity: Distribution of the training rows over items.
        n_categories: Number of different categories of items.
        ideal_item: (M,) the number of each relevant item, as in `recommended`.

    Example:
        Three users: one with two hits, one with a miss, and one without a relevant item.

        >>> batch = RankedBatch.of(lists=[["a", "b", "c"], ["x"], ["a"]], truth=[{"a": 1, "c": 1}, {"y": 1}, {}])
        >>> batch.n_hits(k=2), batch.n_hits(k=None)
        (array([1, 0, 0]), array([2, 0, 0]))
    """

    n_relevant: Ints
    n_recommended: Ints
    hit_user: Ints
    hit_rank: Ints
    hit_rating: Floats
    ideal_user: Ints
    ideal_rating: Floats
    n_judged: Ints | None = None
    n_items: int | None = None
    matched: Matched | None = None
    list_scores: ListScores | None = None
    candidates: Candidates | None = None
    unseen_candidates: Candidates | None = None
    recommended: RecommendedItems | None = None
    popularity: Popularity | None = None
    n_categories: int | None = None
    ideal_item: Ints | None = None

    @classmethod
    def of(
        cls,
        lists: Sequence[Sequence[str]],
        truth: Sequence[Mapping[str, float]],
        *,
        judged: Sequence[Mapping[str, float]] | None = None,
        scores: Sequence[Sequence[float]] | None = None,
        propensities: Sequence[Mapping[str, float]] | None = None,
        seen: Sequence[Collection[str]] | None = None,
        n_items: int | None = None,
        **item_data: Any,
    ) -> RankedBatch:
        """A batch from plain lists, for examples and small data.

        Args:
            lists: (U,) lists of items, best first.
            truth: (U,) dicts from relevant item to rating.
            judged: (U,) dicts from judged but not relevant item to rating.
            scores: (U,) lists of scores, parallel to the lists. Without scores there are no ties.
            propensities: (U,) dicts from judged item to propensity.
            seen: (U,) items in the user's training rows.
            n_items: Size of the catalog.
            **item_data: Information on the recommended items: `train`, the training rows (user, item) of all users; `history`,
                (U,) the items in the user's training rows; `features` and `categories`, the feature vector and the categories
                of each item; `baseline`, (U,) lists of the baseline model.
        """
        empty: list[Any] = [{}] * len(lists)
        if scores is not None:
            # Missing scores come last, and are tied.
            scores = [[-np.inf if np.isnan(value) else value for value in values] for values in scores]
        users = list(zip(lists, truth, judged or empty, scores or empty, propensities or empty, strict=True))
        rows = [
            (
                user,
                rank,
                item in liked,
                {**others, **liked}.get(item),
                values[rank - 1] if values else np.nan,
                chances.get(item),
            )
            for user, (items, liked, others, values, chances) in enumerate(users)
            for rank, item in enumerate(items, 1)
        ]
        columns = np.array([row for row in rows if row[3] is not None], dtype=np.float64).reshape(-1, 6).T
        matched = Matched(columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2] > 0, *columns[3:])
        hits = matched.kept(matched.relevant)
        ideal = [(user, rating) for user, items in enumerate(truth) for rating in sorted(items.values(), reverse=True)]
        batch = cls(
            n_relevant=_ints(map(len, truth)),
            n_recommended=_ints(map(len, lists)),
            hit_user=hits.user,
            hit_rank=hits.rank,
            hit_rating=hits.rating,
            ideal_user=_ints(user for user, _ in ideal),
            ideal_rating=_floats(rating for _, rating in ideal),
            n_judged=_ints(len({**ratings, **others}) for _, ratings, others, _, _ in users),
            n_items=n_items,
            matched=matched,
            list_scores=ListScores(
                _ints(row[0] for row in rows), _ints(row[1] for row in rows), _floats(row[4] for row in rows)
            ),
            candidates=_candidates(lists, truth, scores, empty),
            unseen_candidates=_candidates(lists, truth, scores, seen or empty),
        )
        return with_items(batch, lists, truth, **item_data) if item_data else batch

    @property
    def size(self) -> int:
        """The number U of users."""
        return len(self.n_relevant)

    @cached_property
    def hit_number(self) -> Ints:
        """(H,) the number of hits of the user up to and including this one."""
        return position_in_user(self.hit_user, self.size)

    @cached_property
    def ideal_rank(self) -> Ints:
        """(M,) the rank of the relevant item in the ideal list, from 1."""
        return position_in_user(self.ideal_user, self.size)

    def sum_hits(self, values: Numbers, k: int | None) -> Floats:
        """(U,) sums of (H,) values over the hits within the first k ranks, added in rank order."""
        if k is None:
            return sum_by_user(self.hit_user, values, self.size)
        within = self.hit_rank <= k
        return sum_by_user(self.hit_user[within], values[within], self.size)

    def n_hits(self, k: int | None) -> Ints:
        """(U,) hits within the first k ranks; in the full list if k is None."""
        return np.bincount(self.hit_user if k is None else self.hit_user[self.hit_rank <= k], minlength=self.size)

    def list_length(self, k: int | None) -> Ints:
        """(U,) length of the list cut at k."""
        return self.n_recommended if k is None else np.minimum(self.n_recommended, k)

    def n_within(self, k: int | None) -> Ints:
        """(U,) min(m, k), the number of relevant items that fit into the list; m if k is None."""
        return self.n_relevant if k is None else np.minimum(self.n_relevant, k)

    def cut_off(self, k: int | None) -> Ints:
        """(U,) the k by which formulas divide; the length of the list if k is None."""
        return self.n_recommended if k is None else np.full(self.size, k, dtype=np.int64)


def given(part: _T | None, need: str) -> _T:
    """A part of a batch. Raises ValueError if it is missing, because the metric does not declare that it needs it."""
    if part is None:
        raise ValueError(f"the batch has no {need}: declare needs=({need!r},)")
    return part


def recommended(batch: RankedBatch) -> RecommendedItems:
    """The recommended items of a batch."""
    return given(batch.recommended, "recommended")


def popularity(batch: RankedBatch) -> Popularity:
    """The popularity of items in the training rows."""
    return given(batch.popularity, "popularity")


def with_items(
    batch: RankedBatch,
    lists: Sequence[Sequence[str]],
    truth: Sequence[Mapping[str, float]],
    *,
    train: Sequence[tuple[str, str]] = (),
    history: Sequence[Collection[str]] = (),
    features: Mapping[str, Sequence[float]] | None = None,
    categories: Mapping[str, Collection[str]] | None = None,
    baseline: Sequence[Sequence[str]] = (),
) -> RankedBatch:
    """The batch that `RankedBatch.of` makes of these lists and ground truth, with its `item_data`."""
    rows = [(user, rank, item) for user, items in enumerate(lists) for rank, item in enumerate(items, 1)]
    relevant = [item for ratings in truth for item in sorted(ratings, key=ratings.__getitem__, reverse=True)]
    items = sorted({item for _, _, item in rows} | set(relevant))
    number = {item: index for index, item in enumerate(items)}
    n_rows, n_users = (Counter(item for _, item in pairs) for pairs in (train, set(train)))
    vectors, kinds = features or {}, categories or {}
    dimension = max(map(len, vectors.values()), default=0)
    names = sorted(set().union(*kinds.values()))
    ranks = [{item: rank for rank, item in reversed(list(enumerate(items, 1)))} for items in baseline] or [{} for _ in lists]
    seen = history or [() for _ in lists]
    histogram = sorted(Counter(n_rows.values()).items())
    return replace(
        batch,
        recommended=RecommendedItems(
            user=_ints(user for user, _, _ in rows),
            rank=_ints(rank for _, rank, _ in rows),
            item=_ints(number[item] for _, _, item in rows),
            rating=_floats(truth[user].get(item, np.nan) for user, _, item in rows),
            score=np.full(len(rows), np.nan),
            seen=np.array([item in seen[user] for user, _, item in rows], dtype=bool),
            baseline_rank=_ints(ranks[user].get(item, 0) for user, _, item in rows),
            table=ItemTable(
                n_rows=_ints(n_rows[item] for item in items),
                n_users=_ints(n_users[item] for item in items),
                features=_floats(vectors.get(item, [np.nan] * dimension) for item in items).reshape(len(items), dimension),
                categories=category_bits([kinds.get(item, ()) for item in items], names),
                group_starts=np.zeros(len(items) + 1, dtype=np.int64),
                groups=np.zeros(0, dtype=np.int64),
            ),
        ),
        popularity=Popularity(
            tuple(count for count, _ in histogram), tuple(n for _, n in histogram), len({user for user, _ in train})
        ),
        n_categories=len(names),
        ideal_item=_ints(number[item] for item in relevant),
    )


def _ints(values: Iterable[Any]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _floats(values: Iterable[Any]) -> Floats:
    return np.array(list(values), dtype=np.float64)


def _candidates(
    lists: Sequence[Sequence[str]],
    truth: Sequence[Mapping[str, float]],
    scores: Sequence[Sequence[float]] | None,
    seen: Sequence[Collection[str]],
) -> Candidates:
    rows: list[tuple[int, int, int, int]] = []
    n_listed = []
    for user, items in enumerate(lists):
        values = scores[user] if scores else [-float(rank) for rank in range(len(items))]
        candidates = [(item, value) for item, value in zip(items, values, strict=True) if item not in seen[user]]
        n_listed.append(len(candidates))
        for position, (item, value) in enumerate(candidates, 1):
            if item in truth[user]:
                above = sum(other > value for _, other in candidates)
                rows.append((user, position, above, sum(other == value for _, other in candidates)))
    n_relevant = _ints(len(ratings.keys() - excluded) for ratings, excluded in zip(truth, seen, strict=True))
    return Candidates(_ints(n_listed), n_relevant, _ints(map(len, seen)), *np.array(rows, dtype=np.int64).reshape(-1, 4).T)
