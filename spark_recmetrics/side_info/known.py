"""What is known besides lists and ground truth, before users are scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from spark_recmetrics.columns import Side
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics.group_sums import GroupSizes
from spark_recmetrics.metrics.recommended_items import ItemSummary, Popularity
from spark_recmetrics.text import did_you_mean

if TYPE_CHECKING:
    from spark_recmetrics.request.request import Request

Frame = TypeVar("Frame")


class Bands(NamedTuple):
    """The values of the slices of users, or of items.

    Args:
        side: `user` or `item`, which is also the name of the column of ids.
        rows: The ids, and `Band.column` for each band: a string, or an array of strings.
        defaults: By `Band.column`, the value of an id that these rows lack.
    """

    side: Side
    rows: Any
    defaults: Mapping[str, Any]


class GroupRows(NamedTuple):
    """The groups of users and items that metrics of groups look at.

    Args:
        items: `item, groups`, the groups as positions among the names; None where items are not grouped by columns.
        names: The groups of items, by column and name.
        segments: `user`, and `segment_0`, `segment_1`, … for each column of users; None where users are not grouped.
        sizes: How many items each group has.
    """

    items: Any = None
    names: tuple[tuple[str, str], ...] = ()
    segments: Any = None
    sizes: GroupSizes = GroupSizes()


class Descriptions(NamedTuple):
    """Features and categories of items.

    Args:
        rows: `item`, and its features and categories.
        n_items: How many items have some.
        n_features: Length of the feature vectors.
        categories: The names of all categories.
    """

    rows: Any
    n_items: int
    n_features: int
    categories: tuple[str, ...]


@dataclass(frozen=True)
class Known(Generic[Frame]):
    """What is known before users are scored.

    Args:
        models: The models that are evaluated.
        n_items: The size of the catalog, where it is known.
        summary: What is known of all items together.
        items: `item`, what is known of each one in bytes, and its groups; None where no metric looks at items.
        items_to_all: Every bucket of users gets all these rows; else rows of lists carry what is known of their items.
        group_sizes: How many items each group has.
        segments: The groups of users.
        bands: The values of slices.
    """

    models: tuple[str, ...]
    n_items: int | None = None
    summary: ItemSummary = field(default_factory=ItemSummary)
    items: Frame | None = None
    items_to_all: bool = True
    group_sizes: GroupSizes = field(default_factory=GroupSizes)
    segments: Frame | None = None
    bands: Mapping[Side, Bands] = field(default_factory=dict)


def item_summary(popularity: Popularity | None, described: Descriptions | None, groups: GroupRows) -> ItemSummary:
    """What is known of all items together."""
    if described is None:
        return ItemSummary(popularity, 0, 0, groups.names)
    return ItemSummary(popularity, described.n_features, len(described.categories), groups.names)


def models_of(request: Request, in_tables: Callable[[], Sequence[str]] | None) -> tuple[str, ...]:
    """The models that are evaluated.

    Args:
        request: What is asked.
        in_tables: Looks the models up in predictions; None where these have no column of models.

    Raises:
        ConfigError: Several models are asked for, and no column tells them apart; or the baseline is none of the models.
    """
    if request.models is not None and len(request.models) > 1 and in_tables is None:
        expected = f"a column {request.columns.model!r} (columns.model) that tells {', '.join(request.models)} apart"
        raise ConfigError(f"models: expected {expected}, found none: give model_name for predictions of one model")
    names = request.models or tuple(in_tables() if in_tables is not None else ()) or (request.model_name,)
    if request.compared_baseline is not None and request.compared_baseline not in names:
        raise ConfigError(
            f"baseline: unknown model {request.compared_baseline!r}{did_you_mean(request.compared_baseline, names)}"
        )
    return names
