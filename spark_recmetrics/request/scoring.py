"""What those who score users need to know: the metrics, their definitions, and how far they look into lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics.group_sums import MeasureSpec
from spark_recmetrics.metrics.item_counts import CountSpec, count_specs
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.metrics.recommended_items import ItemSummary
from spark_recmetrics.metrics.registry import Metric, columns_of, cut_offs

if TYPE_CHECKING:
    from spark_recmetrics.metrics.registry import Need


_OF_FULL_LISTS = frozenset({"candidates", "unseen_candidates"})
"""Needs for which all rows of a list are looked at."""


@dataclass(frozen=True)
class Scoring:
    """What those who score need to know.

    Args:
        metrics: Ranking metrics to compute.
        rating: Rating metrics to compute, where the lists carry the predicted ratings as their scores.
        convention: Their definitions.
        n_models: Number of models; every user gets a row for each.
        whole_lists: Lists come whole even if they will be cut.
        max_per_user: How long a list may be, where that is declared.
        given_ranks: The ranks came with the predictions, so they are checked to run 1, 2, 3, …
        n_items: Size of the catalogue, where it is known.
        trained: There are training rows, so that unseen candidates are fewer than all.
        clip: Smallest and largest rating, which predicted ratings are clipped to, if they are.
        items: What is known of all items together.
        baseline: Place of the baseline among the models, if there is one.
        of_items: Metrics of items and of groups, for which items of lists are counted.
        measured: What is added up for those of groups.
        keeps_lists: Metrics of items are resampled, so that the lists are kept.
    """

    metrics: tuple[Metric, ...]
    rating: tuple[Metric, ...]
    convention: Convention
    n_models: int
    given_ranks: bool
    whole_lists: bool = False
    max_per_user: int | None = None
    n_items: int | None = None
    trained: bool = False
    clip: tuple[float, float] | None = None
    items: ItemSummary = field(default_factory=ItemSummary)
    baseline: int | None = None
    of_items: tuple[Metric, ...] = ()
    measured: tuple[MeasureSpec, ...] = ()
    keeps_lists: bool = False

    @classmethod
    def of(
        cls, metrics: Sequence[Metric], convention: Convention, n_models: int, *, rating: Sequence[Metric] = (), **known: Any
    ) -> Scoring:
        """The scoring of these metrics, and of the parts whose means make an F of means."""
        of_items = tuple(metric for metric in metrics if not metric.definition.by_user)
        metrics = [metric for metric in metrics if metric not in of_items]
        parts = [part for metric in metrics for part in metric.parts()] if convention.f1 == "of_means" else []
        wanted = dict.fromkeys([*metrics, *parts])
        return cls(tuple(wanted), tuple(rating), convention, n_models, **known, of_items=of_items)

    @cached_property
    def needs(self) -> frozenset[Need]:
        """All that some metric needs; without training rows every candidate is unseen."""
        rated: set[Need] = {"matched", "scores"} if self.rating else set()
        found = frozenset(rated).union(*(metric.needs(self.convention) for metric in (*self.metrics, *self.of_items)))
        return found if self.trained or "unseen_candidates" not in found else (found - {"unseen_candidates"}) | {"candidates"}

    @cached_property
    def columns(self) -> list[str]:
        """The columns of PER_USER that hold the values, and the sums of pooled metrics."""
        return [name for metric in self.metrics for name in columns_of(metric)]

    @cached_property
    def rating_columns(self) -> list[str]:
        """The columns of PER_USER that hold error moments and rating metrics."""
        return [*Moments._fields, "n_pair_duplicates", *(metric.slug for metric in self.rating)] if self.rating else []

    @cached_property
    def across(self) -> bool:
        """Some metric compares the pairs of different users, so the pairs are kept."""
        return any(metric.definition.across_users for metric in self.metrics)

    @cached_property
    def _of_lists(self) -> list[Metric]:
        """The metrics that look at lists; one of groups without a cut-off does not."""
        return [*self.metrics, *(metric for metric in self.of_items if metric.definition.has_cut_off)]

    @cached_property
    def longest(self) -> int | None:
        """The largest cut-off, None where a metric has none."""
        cuts = cut_offs(self._of_lists)
        return cuts[-1] if cuts else 1 if self.of_items else 0

    @cached_property
    def k(self) -> int | None:
        """What lists are cut at. None where whole lists are looked at."""
        whole = self.rating or self.convention.candidates == "judged" or self.needs & _OF_FULL_LISTS
        return None if whole else self.longest

    @property
    def ranks_lists(self) -> bool:
        """Full lists are ranked where they are scored; else they come ranked, and cut or reduced to judged items."""
        only_judged = self.convention.candidates == "judged" and not (self.rating or self.needs & _OF_FULL_LISTS)
        return self.whole_lists or (self.k is None and not only_judged)

    @cached_property
    def cuts(self) -> list[int]:
        """All cut-offs."""
        return [k for k in cut_offs(self._of_lists) if k is not None]

    @cached_property
    def longest_recommended(self) -> int | None:
        """Up to which rank all rows are looked at one by one, None for all rows, 0 for none."""
        every = [part for metric in self._of_lists for part in metric.tree()]
        asked = [part.k for part in every if "recommended" in part.needs(self.convention)]
        return None if None in asked else max((k for k in asked if k is not None), default=0)

    @cached_property
    def counted(self) -> list[CountSpec]:
        """What items are counted for."""
        return count_specs(self.of_items, self.convention)
