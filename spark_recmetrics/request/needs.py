"""The tables and columns that metrics need."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.registry import Need


class InputNeed(NamedTuple):
    """An input that a metric needs: what it is, the name of the argument or of the key under `inputs`, and its rows."""

    what: str
    key: str
    form: str


_TRAIN = InputNeed("the training rows", "train", "one row per (user, item) of earlier interactions")

INPUT_OF: Mapping[Need, InputNeed] = {
    "catalog": InputNeed("the catalog", "catalog", "one row per item that could be recommended, or their number"),
    "popularity": _TRAIN,
    "history": _TRAIN,
    "features": InputNeed(
        "features of items", "item_features", "one row per item, with an array of numbers in the column columns.features"
    ),
    "categories": InputNeed(
        "categories of items", "item_features", "one row per item, with categories in the column columns.categories"
    ),
    "item_groups": InputNeed("groups of items", "item_groups", "one row per item, with the columns that define groups"),
    "user_groups": InputNeed("groups of users", "user_segments", "one row per user, with the columns that define groups"),
    "trained_groups": _TRAIN,
    "baseline": InputNeed("a baseline", "baseline", "the name of the model to compare the lists with"),
}
"""The input that meets a need."""

POPULARITY_NEEDS = frozenset[Need]({"popularity", "audience"})
"""Needs that are met by the number of training rows of each item."""

TRAIN_NEEDS = frozenset[Need]({"unseen_candidates", "popularity", "history", "trained_groups"})
"""Needs that are met by training rows."""

HISTORY_NEEDS = TRAIN_NEEDS - POPULARITY_NEEDS
"""Needs that are met by the training rows of each user, which are sent to the workers with the lists."""


@dataclass(frozen=True)
class Needs:
    """What metrics need, and which metric needs it."""

    metrics: Sequence[Metric]
    convention: Convention

    @property
    def all(self) -> frozenset[Need]:
        """The needs of all metrics."""
        return frozenset[Need]().union(*(metric.needs(self.convention) for metric in self.metrics))

    def first_with(self, need: Need) -> str | None:
        """The first metric with this need, if there is one."""
        return next((str(metric) for metric in self.metrics if need in metric.needs(self.convention)), None)

    def lacking(self, given: Collection[str]) -> Iterator[tuple[Metric, InputNeed]]:
        """The metrics that need an input whose key is not given, each with the first such input."""
        for metric in self.metrics:
            inputs = [INPUT_OF[need] for need in sorted(metric.needs(self.convention)) if need in INPUT_OF]
            missing = [input_need for input_need in inputs if input_need.key not in given]
            if missing:
                yield metric, missing[0]
