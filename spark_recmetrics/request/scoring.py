"""What is computed from lists and ground truth: the metrics, their definitions, and the length of lists that they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics.group_sums import MeasureSpec, per_item_indexes
from spark_recmetrics.metrics.item_counts import CountSpec, count_specs, item_columns
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.metrics.recommended_items import ItemSummary
from spark_recmetrics.metrics.registry import Metric, Need, columns_of, cut_offs

_FULL_LIST_NEEDS = frozenset({"candidates", "unseen_candidates"})
"""Needs for which all rows of a list are read."""


@dataclass(frozen=True)
class Scoring:
    """What workers compute. Each user gets a row for each model."""

    metrics: tuple[Metric, ...]  # ranking metrics of users
    rating: tuple[Metric, ...]  # rating metrics, if the scores of the lists are predicted ratings
    convention: Convention
    n_models: int
    given_ranks: bool  # predictions have ranks, which must be 1, 2, 3, …
    full_lists: bool = False  # lists are not cut before they are scored
    max_per_user: int | None = None
    n_items: int | None = None  # the size of the catalog, if it is known
    trained: bool = False  # there are training rows, so that unseen candidates are fewer than all candidates
    clip: tuple[float, float] | None = None  # the smallest and the largest rating, if predicted ratings are clipped
    items: ItemSummary = field(default_factory=ItemSummary)
    baseline: int | None = None  # its position among the models
    item_metrics: tuple[Metric, ...] = ()  # metrics of items and of groups, for which the items of lists are counted
    measured: tuple[MeasureSpec, ...] = ()  # what is summed for metrics of groups
    stores_lists: bool = False  # lists are stored, because metrics of items are resampled

    @classmethod
    def of(
        cls, metrics: Sequence[Metric], convention: Convention, n_models: int, *, rating: Sequence[Metric] = (), **options: Any
    ) -> Scoring:
        """The scoring of these metrics, and of the parts of an F-measure of means."""
        item_metrics = tuple(metric for metric in metrics if not metric.definition.by_user)
        metrics = [metric for metric in metrics if metric not in item_metrics]
        parts = [part for metric in metrics for part in metric.parts()] if convention.f1 == "of_means" else []
        different = dict.fromkeys([*metrics, *parts])
        return cls(tuple(different), tuple(rating), convention, n_models, **options, item_metrics=item_metrics)

    @cached_property
    def needs(self) -> frozenset[Need]:
        """The needs of all metrics. Without training rows, every candidate is unseen."""
        rated: set[Need] = {"matched", "scores"} if self.rating else set()
        needs = frozenset(rated).union(*(metric.needs(self.convention) for metric in (*self.metrics, *self.item_metrics)))
        return needs if self.trained or "unseen_candidates" not in needs else (needs - {"unseen_candidates"}) | {"candidates"}

    @cached_property
    def columns(self) -> list[str]:
        """The columns of PER_USER with values, and with sums of pooled metrics."""
        return [name for metric in self.metrics for name in columns_of(metric)]

    @cached_property
    def rating_columns(self) -> list[str]:
        """The columns of PER_USER with error moments and rating metrics."""
        return [*Moments._fields, "n_pair_duplicates", *(metric.slug for metric in self.rating)] if self.rating else []

    @cached_property
    def keeps_pairs(self) -> bool:
        """Pairs are kept, because a metric compares pairs of different users."""
        return any(metric.definition.across_users for metric in self.metrics)

    @cached_property
    def _list_metrics(self) -> list[Metric]:
        """The metrics that read lists. Metrics of groups without a cut-off do not."""
        return [*self.metrics, *(metric for metric in self.item_metrics if metric.definition.has_cut_off)]

    @cached_property
    def longest(self) -> int | None:
        """The largest cut-off, None if a metric has none."""
        cuts = cut_offs(self._list_metrics)
        return cuts[-1] if cuts else 1 if self.item_metrics else 0

    @cached_property
    def k(self) -> int | None:
        """The rank after which lists are cut, None for full lists."""
        full = self.rating or self.convention.candidates == "judged" or self.needs & _FULL_LIST_NEEDS
        return None if full else self.longest

    @property
    def cuts_repeats(self) -> bool:
        """Repeats after the largest cut-off are not counted with the others."""
        return self.k is not None or (self.convention.candidates == "judged" and self.longest is not None)

    @property
    def ranks_lists(self) -> bool:
        """Full lists are ranked by the workers. Otherwise they arrive ranked, and cut or reduced to judged items."""
        only_judged = self.convention.candidates == "judged" and not (self.rating or self.needs & _FULL_LIST_NEEDS)
        return self.full_lists or (self.k is None and not only_judged)

    @cached_property
    def cuts(self) -> list[int]:
        """All cut-offs."""
        return [k for k in cut_offs(self._list_metrics) if k is not None]

    @cached_property
    def longest_recommended(self) -> int | None:
        """The rank up to which metrics read recommended items one by one, None for all rows, 0 for none."""
        parts = [part for metric in self._list_metrics for part in metric.tree()]
        cuts = [part.k for part in parts if "recommended" in part.needs(self.convention)]
        return None if None in cuts else max((k for k in cuts if k is not None), default=0)

    @cached_property
    def counted(self) -> list[CountSpec]:
        """The cut-offs and user sets for which items are counted."""
        return count_specs(self.item_metrics, self.convention)

    @cached_property
    def item_columns(self) -> list[str]:
        """The names of the arrays of `count_items`; none if no metric counts items."""
        n_counted, n_summed = len(self.counted), len(per_item_indexes(self.measured))
        return item_columns(n_counted, n_summed) if n_counted or n_summed else []

    @property
    def has_repeats(self) -> bool:
        """Lists may hold an item more than once."""
        return self.convention.duplicates == "keep"
