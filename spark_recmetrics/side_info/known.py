"""The side information of an evaluation: everything that is known before users are scored. The rules for both engines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from spark_recmetrics.columns import Side
from spark_recmetrics.errors import ConfigError, DataError, not_utf_8
from spark_recmetrics.metrics.group_sums import GroupSizes
from spark_recmetrics.metrics.recommended_items import ItemSummary, Popularity
from spark_recmetrics.request.request import Options, Request, SliceRequest
from spark_recmetrics.request.slices import COUNTED, Band, Slice, parse_slices
from spark_recmetrics.text import did_you_mean

Frame = TypeVar("Frame")


class Bands(NamedTuple):
    """The values of the slices of users, or of items."""

    side: Side  # also the name of the id column
    rows: Any  # the ids, each once, and `Band.column` for each band: a string, or an array of strings
    defaults: Mapping[str, Any]  # by `Band.column`, the value of ids that are not in the rows, and of null values


class GroupRows(NamedTuple):
    """The groups of users and items, for group metrics. What no metric needs is None."""

    items: Any = None  # `item, groups`: the groups are indexes into the names of the sizes
    segments: Any = None  # `user`, and `segment_0`, `segment_1`, … for each column with groups of users
    sizes: GroupSizes = GroupSizes()


class Descriptions(NamedTuple):
    """Features and categories of items."""

    rows: Any  # `item`, and its features and categories
    n_items: int
    n_features: int  # the length of the feature vectors
    categories: tuple[str, ...]  # the names of all categories, sorted


@dataclass(frozen=True)
class Known(Generic[Frame]):
    """The side information of an evaluation."""

    models: tuple[str, ...]
    n_items: int | None = None  # the size of the catalog, None if it is not known
    summary: ItemSummary = field(default_factory=ItemSummary)
    items: Frame | None = None  # `item`, its properties packed into bytes, and its groups; None if no metric needs them
    items_to_all: bool = True  # all these rows are sent to every bucket of users; else they are joined to the rows of lists
    group_sizes: GroupSizes = field(default_factory=GroupSizes)
    segments: Frame | None = None  # the groups of users
    bands: Mapping[Side, Bands] = field(default_factory=dict)  # the values of slices


def item_summary(popularity: Popularity | None, described: Descriptions | None, groups: GroupRows) -> ItemSummary:
    """What all items have in common."""
    n_features, n_categories = (0, 0) if described is None else (described.n_features, len(described.categories))
    return ItemSummary(popularity, n_features, n_categories, group_names(groups.sizes.sizes))


def models_of(request: Request, tables: Sequence[Frame], read_names: Callable[[Frame], Iterable[str]]) -> tuple[str, ...]:
    """The evaluated models. Their names are read from the tables with a model column only if the request names none."""
    if request.models is not None and len(request.models) > 1 and not tables:
        expected = f"a column {request.columns.model!r} (columns.model) with the values {', '.join(request.models)}"
        raise ConfigError(f"models: expected {expected}, found none: give model_name for predictions of one model")
    if request.models is not None and not tables and request.model_name not in (*request.models, Options.model_name):
        expected = f"{request.model_name!r} as in model_name"
        raise ConfigError(f"models: expected {expected}, found {request.models[0]!r}: set only one of models and model_name")
    names = request.models or tuple(sorted({name for table in tables for name in read_names(table)})) or (request.model_name,)
    if (unreadable := next((name for name in names if "\ufffd" in name), None)) is not None:
        raise DataError(f"column {request.columns.model!r} (columns.model): {not_utf_8(unreadable)}")
    baseline = request.compared_baseline
    if baseline is not None and baseline not in names:
        raise ConfigError(f"baseline: unknown model {baseline!r}{did_you_mean(baseline, names)}")
    return names


def catalog_size(request: Request, catalog: Frame | None, count: Callable[[Frame], int]) -> int | None:
    """The number of items in the catalog, which is counted only if a metric needs it. None if it is not known."""
    n_items = request.catalog_size
    if catalog is not None and request.needs.first_with("catalog"):
        n_items = count(catalog)
    if n_items == 0:
        raise DataError("catalog: expected rows with an item, found none: check its location and filters")
    return n_items


def counted_bands(request: SliceRequest, side: Side) -> dict[Band, str]:
    """The bands of the number of training rows of users or items, and the label of 0 rows in each."""
    return {band: band.labels[bisect_right(band.edges, 0)] for band in request.counted if band.name == COUNTED[side]}


def group_slices(columns: Iterable[str]) -> tuple[Slice, ...]:
    """Columns with groups as slices of one column each. `ConfigError` if two of them differ only by punctuation."""
    try:
        return parse_slices([Slice((Band(column),)) for column in columns])
    except ConfigError as error:
        raise ConfigError(f"groups: {error}") from error


def group_names(sizes: Mapping[str, Mapping[str, int]]) -> tuple[tuple[str, str], ...]:
    """The column and the name of each group of items. Rows contain the indexes of these."""
    return tuple((column, group) for column, groups in sizes.items() for group in groups)
