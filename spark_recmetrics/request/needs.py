"""The tables and columns that metrics need, and the messages if they are missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_recmetrics.conventions import Convention
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.registry import Need
from spark_recmetrics.request.scoring import Scoring


class InputNeed(NamedTuple):
    """An input that a metric needs, as a message names it.

    Args:
        what: What it is.
        key: Name of the argument, and of the key under `inputs`.
        form: What it looks like.
    """

    what: str
    key: str
    form: str


_TRAIN = InputNeed("the training rows", "train", "one row per user and item that users had before")
_CATEGORIES = InputNeed(
    "categories of items", "item_features", "one row per item, with categories in the column columns.categories"
)

INPUT_OF: Mapping[Need, InputNeed] = {
    "catalog": InputNeed("the catalog", "catalog", "one row per item that could be recommended, or their number"),
    "popularity": _TRAIN,
    "history": _TRAIN,
    "features": InputNeed(
        "features of items", "item_features", "one row per item, with an array of numbers in the column columns.features"
    ),
    "categories": _CATEGORIES,
    "item_groups": InputNeed("groups of items", "item_groups", "one row per item, with columns that groups are named by"),
    "user_groups": InputNeed("groups of users", "user_segments", "one row per user, with columns that groups are named by"),
    "trained_groups": _TRAIN,
    "baseline": InputNeed("a baseline", "baseline", "the name of the model that lists are compared with"),
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
    """What metrics need, with the metric that needs it, for messages."""

    metrics: Sequence[Metric]
    convention: Convention

    @property
    def all(self) -> frozenset[Need]:
        """The needs of all metrics."""
        return frozenset[Need]().union(*(metric.needs(self.convention) for metric in self.metrics))

    def first_with(self, need: Need) -> str | None:
        """The first metric with this need, if there is one."""
        return next((str(metric) for metric in self.metrics if need in metric.needs(self.convention)), None)

    @property
    def rating(self) -> str | None:
        """The first rating metric, if there is one."""
        return next((str(metric) for metric in self.metrics if metric.definition.kind == "rating"), None)

    def lacking(self, given: Collection[str]) -> Iterator[tuple[Metric, InputNeed]]:
        """The metrics that need a missing input, each with the first such input.

        Args:
            given: The keys of the inputs that are given.
        """
        for metric in self.metrics:
            inputs = [INPUT_OF[need] for need in sorted(metric.needs(self.convention)) if need in INPUT_OF]
            missing = [input_need for input_need in inputs if input_need.key not in given]
            if missing:
                yield metric, missing[0]

    def check_given(self, given: Collection[str]) -> None:
        """Check that no metric needs a missing input.

        Raises:
            ConfigError: A metric does. The message says what it needs.
        """
        for metric, missing in self.lacking(given):
            raise ConfigError(f"{metric} needs {missing.what}: give {missing.key}, {missing.form}")

    def check(self) -> None:
        """Check that repeated items are not kept if a metric compares relevant items with candidates.

        Raises:
            ConfigError: They are.
        """
        compares = self.first_with("candidates") or self.first_with("unseen_candidates")
        if self.convention.duplicates == "keep" and compares:
            raise ConfigError(
                f"{compares}: expected duplicates error or first, found keep: a repeated item would be compared twice"
            )

    def scores(self, *, separate_ratings: bool) -> dict[str, str]:
        """By table, the metric that needs its scores, for messages."""
        by_table = {"predictions": self.first_with("scores")}
        rated = "rating_predictions" if separate_ratings else "predictions"
        by_table[rated] = by_table.get(rated) or self.rating
        return {table: f"{metric} needs it" for table, metric in by_table.items() if metric}

    @property
    def longest(self) -> int | None:
        """The rank after which no metric reads a list, None without such a rank."""
        ranking = [metric for metric in self.metrics if metric.definition.kind != "rating"]
        # If repeats are dropped, items after rank k move up.
        cut = bool(ranking) and self.convention.duplicates != "first"
        return Scoring.of(ranking, self.convention, 1, given_ranks=False).k if cut else None
