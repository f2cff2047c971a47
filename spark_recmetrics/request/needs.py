"""What metrics need of the caller's tables, and what is said where it is not there."""

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
    """An input that a metric asks for.

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

ASKED: Mapping[Need, InputNeed] = {
    "catalog": InputNeed("the catalogue", "catalog", "one row per item that could be recommended, or their number"),
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
"""What needs are met by."""

OF_POPULARITY = frozenset[Need]({"popularity", "audience"})
"""Needs for which the training rows of each item are counted."""

OF_TRAIN = frozenset[Need]({"unseen_candidates", "popularity", "history", "trained_groups"})
"""Needs for which training rows are read."""

ROWS_OF_TRAIN = OF_TRAIN - OF_POPULARITY
"""Needs for which the training rows of each user come to where lists are scored, and are counted on their way."""


@dataclass(frozen=True)
class Needs:
    """What the metrics need of the caller's tables, with the metric that needs it, for messages.

    Args:
        metrics: All metrics.
        convention: Their definitions.
    """

    metrics: Sequence[Metric]
    convention: Convention

    @property
    def all(self) -> frozenset[Need]:
        """All that some metric needs."""
        return frozenset[Need]().union(*(metric.needs(self.convention) for metric in self.metrics))

    def asked_by(self, need: Need) -> str | None:
        """The first metric with a need, if there is one."""
        return next((str(metric) for metric in self.metrics if need in metric.needs(self.convention)), None)

    @property
    def rating(self) -> str | None:
        """The first rating metric, if there is one."""
        return next((str(metric) for metric in self.metrics if metric.definition.kind == "rating"), None)

    def lacking(self, given: Collection[str]) -> Iterator[tuple[Metric, InputNeed]]:
        """The metrics that ask for what is not there, each with the first of these inputs.

        Args:
            given: The keys of the inputs that are there.
        """
        for metric in self.metrics:
            wanted = [ASKED[need] for need in sorted(metric.needs(self.convention)) if need in ASKED]
            missing = [asked for asked in wanted if asked.key not in given]
            if missing:
                yield metric, missing[0]

    def check_given(self, given: Collection[str]) -> None:
        """Refuse metrics that ask for what is not there.

        Raises:
            ConfigError: There is such a metric; the message says what it needs.
        """
        for metric, asked in self.lacking(given):
            raise ConfigError(f"{metric} needs {asked.what}: give {asked.key}, {asked.form}")

    def check(self) -> None:
        """Refuse what cannot be computed together.

        Raises:
            ConfigError: Repeated items are kept, and a metric compares relevant items with candidates.
        """
        compares = self.asked_by("candidates") or self.asked_by("unseen_candidates")
        if self.convention.duplicates == "keep" and compares:
            raise ConfigError(
                f"{compares}: expected duplicates error or first, found keep: a repeated item would be compared twice"
            )

    def scores(self, *, rated_apart: bool) -> dict[str, str]:
        """By table, the metric that cannot do without its scores."""
        by_table = {"predictions": self.asked_by("scores")}
        rated = "rating_predictions" if rated_apart else "predictions"
        by_table[rated] = by_table.get(rated) or self.rating
        return {table: f"{metric} needs it" for table, metric in by_table.items() if metric}

    @property
    def longest(self) -> int | None:
        """Behind which rank nothing of a list is wanted, None if all is."""
        ranking = [metric for metric in self.metrics if metric.definition.kind != "rating"]
        # Repeats that are dropped let what stands behind k move up.
        cut = bool(ranking) and self.convention.duplicates != "first"
        return Scoring.of(ranking, self.convention, 1, given_ranks=False).k if cut else None
