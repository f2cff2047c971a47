"""What a kernel sees of many users at once: hits, not lists, because most recommendations miss."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self

    from spark_recmetrics.metrics.recommended import Popularity, Recommended

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Part:
    """Columns of one length, by user and rank."""

    rank: Ints

    def kept(self, which: Any) -> Self:
        """The rows that a mask or an index names."""
        return type(self)(**{column.name: getattr(self, column.name)[which] for column in fields(self)})  # type: ignore[arg-type]

    def within(self, k: int | None) -> Self:
        """The rows within the first k ranks; all for k None."""
        return self if k is None else self.kept(self.rank <= k)


@dataclass(frozen=True)
class Listed(Part):
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
        place: (P,) its place among the listed candidates, from 1, ascending within a user.
        n_above: (P,) listed candidates with a better score.
        n_tied: (P,) listed candidates with the same score, itself among them.
    """

    n_listed: Ints
    n_relevant: Ints
    n_seen: Ints
    user: Ints
    place: Ints
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
        listed: All recommendations.
        every: Relevant items among all others.
        unseen: Relevant items among those that are not in the user's training rows.
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
    listed: Listed | None = None
    every: Candidates | None = None
    unseen: Candidates | None = None
    recommended: Recommended | None = None
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
            listed=Listed(_ints(row[0] for row in rows), _ints(row[1] for row in rows), _floats(row[4] for row in rows)),
            every=_candidates(lists, truth, scores, nothing),
            unseen=_candidates(lists, truth, scores, seen or nothing),
        )

    @property
    def size(self) -> int:
        """U."""
        return len(self.n_relevant)

    @cached_property
    def hit_number(self) -> Ints:
        """(H,) how many hits the user has up to and with this one."""
        return place_in_user(self.hit_user, self.size)

    @cached_property
    def ideal_rank(self) -> Ints:
        """(M,) the rank the relevant item has in the ideal list, from 1."""
        return place_in_user(self.ideal_user, self.size)

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
        place=_ints(row[1] for row in found),
        n_above=_ints(row[2] for row in found),
        n_tied=_ints(row[3] for row in found),
    )


def place_in_user(user: Ints, size: int) -> Ints:
    """For values sorted by user: the place of each among those of its user, from 1."""
    count = np.bincount(user, minlength=size)
    start = np.cumsum(count) - count
    return np.arange(1, len(user) + 1) - start[user]


def tie_edges(after: NDArray[np.bool_], before: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """For rows in order: the places of the first and of the last row that each is tied with, itself where it is with none.

    Args:
        after: (L,) whether the row is tied with the one before it. Of a tie there are the first and the last row at least.
        before: (L,) whether it is tied with the one behind it.

    Example:
        >>> tie_edges(np.array([False, False, True, True]), np.array([False, True, True, False]))
        (array([0, 1, 1, 1]), array([0, 3, 3, 3]))
    """
    place = np.arange(len(after))
    first = np.maximum.accumulate(np.where(after, 0, place))
    last = np.minimum.accumulate(np.where(before, len(after), place)[::-1])[::-1]
    return first, last


def placed_scores(score: Floats, *, first: bool = False) -> Floats:
    """Scores that can be compared: missing ones are tied, behind all others, infinite ones too, or before them.

    Example:
        >>> placed_scores(np.array([np.nan, -np.inf, 1.0]))
        array([            -inf, -1.79769313e+308,  1.00000000e+000])
    """
    largest = np.finfo(np.float64).max
    placed = np.minimum(score, largest) if first else np.maximum(score, -largest)
    return np.where(np.isnan(score), np.inf if first else -np.inf, placed)


def sum_by_user(user: Ints, values: Floats, size: int) -> Floats:
    """(size,) sums of the values of each user, added in the order given."""
    return np.asarray(np.bincount(user, weights=values, minlength=size), dtype=np.float64)


def ratio(numerator: NDArray[np.generic], denominator: NDArray[np.generic], defined: NDArray[np.bool_]) -> Floats:
    """(U,) numerator / denominator; 0 where the denominator is 0, and NaN where the value is not defined."""
    nonzero = denominator != 0
    out = np.zeros(len(numerator), dtype=np.float64)
    np.divide(numerator, denominator, out=out, where=nonzero)
    out[~defined] = np.nan
    return out
