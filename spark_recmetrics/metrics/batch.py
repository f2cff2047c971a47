"""What a kernel sees of many users at once: hits, not lists, because most recommendations miss."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.metrics.arrays import Floats, Ints, Part, position_in_user, sum_by_user
from spark_recmetrics.metrics.recommended_items import ItemTable, Popularity, RecommendedItems, category_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ListScores(Part):
    """Every recommended item, for formulas that misses count in.

    Args:
        user: (L,) index into the batch.
        rank: (L,) rank from 1.
        score: (L,) score; NaN where it is missing.
    """

    user: Ints
    rank: Ints
    score: Floats


@dataclass(frozen=True)
class Matched(Part):
    """The recommended items that have a truth row, relevant or not.

    Args:
        user: (J,) index into the batch, ascending.
        rank: (J,) rank from 1, ascending within a user.
        relevant: (J,) whether the item is relevant.
        rating: (J,) rating of the truth row; NaN where it is missing.
        score: (J,) score of the recommendation; NaN where there is none.
        propensity: (J,) how likely the policy that the truth was logged under was to show the item; NaN where unknown.
    """

    user: Ints
    rank: Ints
    relevant: NDArray[np.bool_]
    rating: Floats
    score: Floats
    propensity: Floats


@dataclass(frozen=True)
class Candidates:
    """Where the relevant items stand among the items that they compete with.

    Args:
        n_listed: (U,) candidates in the list.
        n_relevant: (U,) relevant candidates, in the list or not.
        n_seen: (U,) items of the catalogue that are no candidates.
        user: (P,) index into the batch of every relevant candidate in the list, ascending.
        position: (P,) its position among the listed candidates, from 1, ascending within a user.
        n_above: (P,) listed candidates with a better score.
        n_tied: (P,) listed candidates with the same score, itself among them.
    """

    n_listed: Ints
    n_relevant: Ints
    n_seen: Ints
    user: Ints
    position: Ints
    n_above: Ints
    n_tied: Ints


@dataclass(frozen=True)
class RankedBatch:
    """U users (or cells of model and user) in compressed form.

    What a metric `needs` (see `register`) is there for it; the rest may be None.

    Args:
        n_relevant: (U,) number m of relevant items.
        n_recommended: (U,) length n of the list.
        hit_user: (H,) index into the batch, ascending.
        hit_rank: (H,) rank from 1, ascending within a user.
        hit_rating: (H,) rating of the relevant item found there; 1 where the truth has no ratings.
        ideal_user: (M,) index into the batch of every relevant item, ascending.
        ideal_rating: (M,) its rating, descending within a user.
        n_judged: (U,) items with a truth row, relevant or not.
        n_items: Size N of the catalogue.
        matched: Recommendations with a truth row.
        list_scores: Scores of all recommendations.
        candidates: Relevant items among all others.
        unseen_candidates: Relevant items among those that are not in the user's training rows.
        recommended: All recommendations with what is known of the items, see `recommended.with_items`.
        popularity: How often items stand in the training rows.
        n_categories: How many categories items have, all together.
        ideal_item: (M,) the number of every relevant item, as in `Recommended`.

    Example:
        Three users: one found both of its items, one found nothing, one has nothing to find.

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
    ) -> RankedBatch:
        """A batch from plain lists, for examples and small data.

        Args:
            lists: (U,) lists of items, best first.
            truth: (U,) dicts from relevant item to rating.
            judged: (U,) dicts from judged but not relevant item to rating.
            scores: (U,) lists of scores, beside the lists; without them nothing is tied.
            propensities: (U,) dicts from judged item to propensity.
            seen: (U,) items in the user's training rows.
            n_items: Size of the catalogue.
        """
        nothing: list[Any] = [{}] * len(lists)
        if scores is not None:
            # Missing scores come last, and are tied.
            scores = [[-np.inf if np.isnan(value) else value for value in values] for values in scores]
        users = list(zip(lists, truth, judged or nothing, scores or nothing, propensities or nothing, strict=True))
        rows = [
            (user, rank, item in own, {**others, **own}.get(item), values[rank - 1] if values else np.nan, chances.get(item))
            for user, (items, own, others, values, chances) in enumerate(users)
            for rank, item in enumerate(items, 1)
        ]
        matched = [row for row in rows if row[3] is not None]
        hits = [row for row in matched if row[2]]
        ideal = [(user, rating) for user, items in enumerate(truth) for rating in sorted(items.values(), reverse=True)]
        return cls(
            n_relevant=_ints(len(items) for items in truth),
            n_recommended=_ints(len(items) for items in lists),
            hit_user=_ints(row[0] for row in hits),
            hit_rank=_ints(row[1] for row in hits),
            hit_rating=_floats(row[3] for row in hits),
            ideal_user=_ints(item[0] for item in ideal),
            ideal_rating=_floats(item[1] for item in ideal),
            n_judged=_ints(len({**own, **others}) for _, own, others, _, _ in users),
            n_items=n_items,
            matched=Matched(
                user=_ints(row[0] for row in matched),
                rank=_ints(row[1] for row in matched),
                relevant=np.array([row[2] for row in matched], dtype=bool),
                rating=_floats(row[3] for row in matched),
                score=_floats(row[4] for row in matched),
                propensity=_floats(row[5] for row in matched),
            ),
            list_scores=ListScores(
                user=_ints(row[0] for row in rows), rank=_ints(row[1] for row in rows), score=_floats(row[4] for row in rows)
            ),
            candidates=_candidates(lists, truth, scores, nothing),
            unseen_candidates=_candidates(lists, truth, scores, seen or nothing),
        )

    @property
    def size(self) -> int:
        """U."""
        return len(self.n_relevant)

    @cached_property
    def hit_number(self) -> Ints:
        """(H,) how many hits the user has up to and with this one."""
        return position_in_user(self.hit_user, self.size)

    @cached_property
    def ideal_rank(self) -> Ints:
        """(M,) the rank the relevant item has in the ideal list, from 1."""
        return position_in_user(self.ideal_user, self.size)

    def sum_hits(self, values: Floats, k: int | None) -> Floats:
        """(U,) sum of (H,) values over the hits within the first k ranks; added in rank order, so always to the same bits."""
        if k is None:
            return sum_by_user(self.hit_user, values, self.size)
        within = self.hit_rank <= k
        return sum_by_user(self.hit_user[within], values[within], self.size)

    def n_hits(self, k: int | None) -> Ints:
        """(U,) relevant items within the first k ranks; of the whole list for k None."""
        return np.bincount(self.hit_user if k is None else self.hit_user[self.hit_rank <= k], minlength=self.size)

    def list_length(self, k: int | None) -> Ints:
        """(U,) length of the list cut at k."""
        return self.n_recommended if k is None else np.minimum(self.n_recommended, k)

    def n_within(self, k: int | None) -> Ints:
        """(U,) min(m, k), the relevant items that a list of length k can hold; m where there is no cut-off."""
        return self.n_relevant if k is None else np.minimum(self.n_relevant, k)

    def cut_off(self, k: int | None) -> Ints:
        """(U,) the k that a formula divides by: k itself, or the length of the list where there is no cut-off."""
        return self.n_recommended if k is None else np.full(self.size, k, dtype=np.int64)


def _ints(values: Any) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _floats(values: Any) -> Floats:
    return np.array(list(values), dtype=np.float64)


def _candidates(
    lists: Sequence[Sequence[str]],
    truth: Sequence[Mapping[str, float]],
    scores: Sequence[Sequence[float]] | None,
    seen: Sequence[Collection[str]],
) -> Candidates:
    found: list[tuple[int, int, int, int]] = []
    n_listed = []
    for user, items in enumerate(lists):
        values = scores[user] if scores else [-float(rank) for rank in range(len(items))]
        kept = [(item, value) for item, value in zip(items, values, strict=True) if item not in seen[user]]
        n_listed.append(len(kept))
        for place, (item, value) in enumerate(kept, 1):
            if item in truth[user]:
                above = sum(other > value for _, other in kept)
                found.append((user, place, above, sum(other == value for _, other in kept)))
    return Candidates(
        n_listed=_ints(n_listed),
        n_relevant=_ints(len(own.keys() - gone) for own, gone in zip(truth, seen, strict=True)),
        n_seen=_ints(len(gone) for gone in seen),
        user=_ints(row[0] for row in found),
        position=_ints(row[1] for row in found),
        n_above=_ints(row[2] for row in found),
        n_tied=_ints(row[3] for row in found),
    )


def recommended(batch: RankedBatch) -> RecommendedItems:
    """The recommended items of a batch that has them.

    Raises:
        ValueError: It has none, because the metric does not declare that it needs them.
    """
    if batch.recommended is None:
        raise ValueError("the batch lacks its recommended items: declare needs=('recommended',)")
    return batch.recommended


def popularity(batch: RankedBatch) -> Popularity:
    """How popular the items of the training rows are.

    Raises:
        ValueError: The batch does not know.
    """
    if batch.popularity is None:
        raise ValueError("the batch lacks the popularity of items: declare needs=('recommended', 'popularity')")
    return batch.popularity


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
    """A batch of plain lists with what is known of the recommended items, for examples and small data.

    Args:
        batch: The batch, by `RankedBatch.of`.
        lists: The lists that it was made of.
        truth: The truth that it was made of.
        train: Training rows (user, item) of all users.
        history: (U,) the items in the user's training rows.
        features: Feature vectors by item.
        categories: Categories by item.
        baseline: (U,) lists of the baseline model.

    Example:
        >>> lists, truth = [["a", "b"], ["x"], []], [{"a": 1}, {"y": 1}, {}]
        >>> batch = with_items(RankedBatch.of(lists, truth), lists, truth, train=[("ann", "a"), ("bob", "a"), ("bob", "x")])
        >>> recommended(batch).table.n_rows, popularity(batch)
        (array([2, 0, 1, 0]), Popularity(counts=(1, 2), n_items=(1, 1), n_users=2))
    """
    rows = [(user, rank, item) for user, items in enumerate(lists) for rank, item in enumerate(items, 1)]
    relevant = [item for own in truth for item in sorted(own, key=lambda item, own=own: -own[item])]  # type: ignore[misc]
    items = sorted({item for _, _, item in rows} | set(relevant))
    number = {item: place for place, item in enumerate(items)}
    n_rows = {item: sum(other == item for _, other in train) for _, item in train}
    n_users = {item: len({user for user, other in train if other == item}) for item in n_rows}
    vectors, groups = features or {}, categories or {}
    size = max((len(vector) for vector in vectors.values()), default=0)
    names = sorted({name for own in groups.values() for name in own})
    places = [{item: rank for rank, item in reversed(list(enumerate(own, 1)))} for own in baseline] or [{} for _ in lists]
    seen = history or [() for _ in lists]
    counts = sorted(set(n_rows.values()))

    def array(values: Any, kind: Any) -> Any:
        return np.array(list(values), dtype=kind)

    return replace(
        batch,
        recommended=RecommendedItems.of(
            array((user for user, _, _ in rows), np.int64),
            array((rank for _, rank, _ in rows), np.int64),
            array((number[item] for _, _, item in rows), np.int64),
            array((truth[user].get(item, np.nan) for user, _, item in rows), np.float64),
            ItemTable.of(
                len(items),
                n_rows=array((n_rows.get(item, 0) for item in items), np.int64),
                n_users=array((n_users.get(item, 0) for item in items), np.int64),
                features=array((vectors.get(item, [np.nan] * size) for item in items), np.float64).reshape(len(items), size),
                categories=category_bits([groups.get(item, ()) for item in items], names),
            ),
            seen=array((item in seen[user] for user, _, item in rows), bool),
            baseline_rank=array((places[user].get(item, 0) for user, _, item in rows), np.int64),
        ),
        popularity=Popularity(
            tuple(counts),
            tuple(sum(value == count for value in n_rows.values()) for count in counts),
            len({user for user, _ in train}),
        ),
        n_categories=len(names),
        ideal_item=array((number[item] for item in relevant), np.int64),
    )
