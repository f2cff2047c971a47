"""From totals and sums to the values of the models, for both engines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_recmetrics.aggregation.means import Mean, means, without_users
from spark_recmetrics.aggregation.pooled_auc import pooled_auc
from spark_recmetrics.aggregation.slices import Sliced, SliceValues, sliced_values
from spark_recmetrics.columns import ITEM_ROWS, ITEM_TOTALS
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.group_sums import GroupValue, MeasureSpec, group_values, per_item_indexes, sums_from_rows
from spark_recmetrics.metrics.item_counts import ItemCounts, item_values
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.request.request import Request
from spark_recmetrics.request.slices import Band, Slice, joined
from spark_recmetrics.scoring.partial_sums import with_pairs
from spark_recmetrics.side_info.known import Known
from spark_recmetrics.text import printable

Totals = Mapping[str, Mapping[str, Any]]
"""By model, the totals over its users."""


@dataclass(frozen=True)
class Aggregates:
    """What an engine aggregates from PER_USER in addition to the totals. The size does not depend on the number of users."""

    ranges: Sequence[Sequence[Any]]  # rows that `pooled_auc` reads
    items: Mapping[tuple[int, int], ItemCounts]  # by model and index of the `CountSpec`, how often items are in the lists
    groups: Sequence[Mapping[str, Any]]  # rows that `group_sums.sums_from_rows` reads
    slices: Sequence[Mapping[str, Any]]  # rows of `slices.whole_slice`
    item_ends: Mapping[tuple[int, Metric], tuple[float, float]]  # see `Shared.by_metric`


def sums_of_items(
    measured: Sequence[MeasureSpec], names: Sequence[tuple[str, str]]
) -> Iterator[tuple[int, str, str, list[int]]]:
    """For each measure that is summed per item: its index, its columns of `item_columns`, and the indexes of its groups."""
    for number, place in enumerate(per_item_indexes(measured)):
        grouping = measured[place].items
        groups = [index for index, (column, _) in enumerate(names) if grouping is not None and column == grouping.column]
        yield place, f"{ITEM_ROWS}{number}", f"{ITEM_TOTALS}{number}", groups


def values_of(
    totals: Totals, sums: Aggregates, request: Request, side_info: Known[Any], sliced: Sliced | None
) -> tuple[dict[str, list[Mean]], SliceValues]:
    """By model, even without totals, the values over all users; and the values of slices and of pairs of groups."""
    metrics, convention, confidence = request.metrics, request.convention, request.intervals.confidence
    in_groups, aucs = _group_values(sums.groups, request, side_info), pooled_auc(sums.ranges)
    by_model: dict[str, list[Mean]] = {}
    for code, model in enumerate(side_info.models):
        if model not in totals:
            by_model[model] = [without_users(metric, convention) for metric in metrics]
            continue
        across = _across_users(aucs, totals[model], request, model)
        across |= item_values(metrics, convention, sums.items, code)
        across |= {metric.slug: (value.value, value.n_users) for metric, value in in_groups.get(model, {}).items()}
        by_model[model] = means(totals[model], metrics, convention, across, confidence)
    of_slices: SliceValues = {}
    if sliced is not None:
        by_model, of_slices = sliced_values(sums.slices, sliced, request, by_model)
    if sums.item_ends:
        by_model = {
            model: [mean.around(sums.item_ends.get((code, mean.metric))) for mean in by_model[model]]
            for code, model in enumerate(side_info.models)
        }
    with_lists = {model: values for model, values in in_groups.items() if totals.get(model, {}).get("users_predicted")}
    return by_model, {**of_slices, **_pair_means(with_lists)}


def too_large(means: dict[str, list[Mean]], sliced: SliceValues, totals: Totals) -> list[str]:
    """A message for each model and metric with a value, or a part of it, that is too large for a double."""
    of_groups = [("", means), *((f" in {name}={value}", of_slice) for (name, value), of_slice in sliced.items())]
    return [
        f"predictions/{printable(model)}: {mean.metric}{printable(group)}: expected numbers whose sums and squares are below "
        f"1e308, found larger ones: check scores and ratings. Divide them by the same number, or remove {mean.metric}."
        for group, by_model in of_groups
        for model, of_model in by_model.items()
        for mean in of_model
        if not _is_finite(mean, {} if group else totals.get(model, {}))
    ]


def _is_finite(mean: Mean, totals: Mapping[str, Any]) -> bool:
    """Whether a value and what it is computed from are finite. An infinite sum of squares may make `r2` undefined."""
    parts: list[float | None] = [mean.value, mean.ci_low, mean.ci_high]
    if mean.metric.definition.kind == "rating" and totals.get("n_pairs"):
        parts += mean.metric.definition.compute(Moments(*(totals[name] for name in Moments._fields)))
    return all(part is None or math.isfinite(part) for part in parts)


def _across_users(
    aucs: Mapping[tuple[str, int], float], totals: Mapping[str, Any], request: Request, model: str
) -> dict[str, tuple[float | None, int]]:
    """By slug, value and number of users of the metrics that compare pairs of different users."""
    metrics = [metric for metric in request.metrics if metric.definition.across_users]
    return {
        metric.slug: (aucs.get((model, position)), totals.get(with_pairs(metric.k), 0))
        for position, metric in enumerate(metrics)
    }


def _group_values(
    rows: Sequence[Mapping[str, Any]], request: Request, side_info: Known[Any]
) -> dict[str, dict[Metric, GroupValue]]:
    """By model, the values of the group metrics."""
    if not request.measured:
        return {}
    sums = sums_from_rows(rows, request.measured, side_info.summary.groups)
    return {
        model: group_values(request.metrics, request.convention, request.group_columns, sums, side_info.group_sizes, code)
        for code, model in enumerate(side_info.models)
    }


def _pair_means(by_model: Mapping[str, Mapping[Metric, GroupValue]]) -> SliceValues:
    """The values of pairs of groups as those of slices: by the two columns and the two groups, then by model."""
    values: SliceValues = {}
    for model, of_model in by_model.items():
        for metric, group_value in of_model.items():
            for pair in group_value.pairs:
                columns = Slice(tuple(Band(column) for column in pair.columns))
                of_pair = values.setdefault((str(columns), joined(pair.groups)), {})
                of_pair.setdefault(model, []).append(Mean(metric, pair.value, pair.n_users, 0))
    return values
