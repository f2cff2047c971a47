"""From totals and sums to the values of the models: the same for both engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_recmetrics.aggregation.means import Mean, means, nothing
from spark_recmetrics.aggregation.pooled_auc import pooled_auc
from spark_recmetrics.aggregation.slices import Sliced, SliceValues, sliced_values
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.group_sums import GroupValue, group_values, sums_from_rows
from spark_recmetrics.metrics.item_counts import ItemCounts, check_counts, counts_of, item_values
from spark_recmetrics.request.request import Request
from spark_recmetrics.request.slices import Band, Slice, joined
from spark_recmetrics.scoring.partial_sums import with_pairs
from spark_recmetrics.side_info.known import Known

Totals = Mapping[str, Mapping[str, Any]]
"""By model, the totals over its users."""


@dataclass(frozen=True)
class Sums:
    """What an engine has aggregated of PER_USER besides the totals, as rows of a size that does not depend on the users.

    Args:
        ranges: Rows that `pooled_auc` reads.
        items: How often items are in the lists, by model and position among what is counted.
        groups: Rows that `group_sums.sums_from_rows` reads.
        slices: Rows of `slices.whole_slice`.
        item_ends: By position of a model and metric of items, how far the ends of its interval are from the value.
        item_metrics: The metrics of items that have such intervals.
    """

    ranges: Sequence[Sequence[Any]] = ()
    items: Mapping[tuple[int, int], ItemCounts] = field(default_factory=dict)
    groups: Sequence[Mapping[str, Any]] = ()
    slices: Sequence[Mapping[str, Any]] = ()
    item_ends: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    item_metrics: Sequence[Metric] = ()


@dataclass(frozen=True)
class Values:
    """The values of an evaluation.

    Args:
        means: By model, the values over all users.
        sliced: The values of slices, and of pairs of groups, by slice and value, then by model.
    """

    means: dict[str, list[Mean]]
    sliced: SliceValues


def item_counts(rows: Iterable[Mapping[str, Any]], n_items: int | None) -> dict[tuple[int, int], ItemCounts]:
    """How often items are in the lists, by model and position among what is counted.

    Raises:
        DataError: Lists have more items than the catalog.
    """
    counts = counts_of(rows, n_items)
    check_counts(counts)
    return counts


def values_of(totals: Totals, sums: Sums, request: Request, known: Known[Any], sliced: Sliced | None) -> Values:
    """The values of all metrics, models and slices.

    Args:
        totals: By model, the totals over its users; a model without users has none.
        sums: What else was aggregated.
        request: What is asked.
        known: What was known before users were scored.
        sliced: What is asked of slices and resampling, if anything is.
    """
    metrics, convention, confidence = request.metrics, request.convention, request.intervals.confidence
    in_groups = _group_values(sums.groups, request, known)
    by_model: dict[str, list[Mean]] = {}
    for code, model in enumerate(known.models):
        across = _across_users(sums.ranges, totals.get(model, {}), request, model)
        across |= item_values(metrics, convention, sums.items, code)
        across |= {metric.slug: (one.value, one.n_users) for metric, one in in_groups.get(model, {}).items()}
        of_model = totals.get(model)
        by_model[model] = (
            nothing(metrics, convention) if of_model is None else means(of_model, metrics, convention, across, confidence)
        )
    of_slices: SliceValues = {}
    if sliced is not None:
        by_model, of_slices = sliced_values(sums.slices, sliced, request, by_model)
    by_model = _with_item_ends(by_model, sums, known)
    served = {model: values for model, values in in_groups.items() if totals.get(model, {}).get("users_predicted")}
    return Values(by_model, {**of_slices, **pair_means(served)})


def _across_users(
    ranges: Sequence[Sequence[Any]], totals: Mapping[str, Any], request: Request, model: str
) -> dict[str, tuple[float | None, int]]:
    """By slug, value and number of users of the metrics that compare the pairs of different users."""
    metrics = [metric for metric in request.metrics if metric.definition.across_users]
    return {
        metric.slug: (pooled_auc(ranges, position).get(model), totals.get(with_pairs(metric.k), 0))
        for position, metric in enumerate(metrics)
    }


def _group_values(
    rows: Sequence[Mapping[str, Any]], request: Request, known: Known[Any]
) -> dict[str, dict[Metric, GroupValue]]:
    """By model, the values of the metrics of groups."""
    if not request.measured:
        return {}
    sums = sums_from_rows(rows, request.measured, known.summary.groups)
    return {
        model: group_values(request.metrics, request.convention, request.group_columns, sums, known.group_sizes, code)
        for code, model in enumerate(known.models)
    }


def _with_item_ends(by_model: dict[str, list[Mean]], sums: Sums, known: Known[Any]) -> dict[str, list[Mean]]:
    """The values of metrics of items with their resampled intervals."""
    if not sums.item_ends:
        return by_model
    ends: dict[tuple[str, Metric], tuple[float, float]] = {}
    metrics = sums.item_metrics
    for position, pair in sums.item_ends.items():
        ends[known.models[position // len(metrics)], metrics[position % len(metrics)]] = pair
    return {model: [mean.around(ends.get((model, mean.metric))) for mean in values] for model, values in by_model.items()}


def pair_means(by_model: Mapping[str, Mapping[Metric, GroupValue]]) -> SliceValues:
    """The values of pairs of groups, as those of slices: by the two columns and the two groups, then by model."""
    values: SliceValues = {}
    for model, of_model in by_model.items():
        for metric, group_value in of_model.items():
            for pair in group_value.pairs:
                columns = Slice(tuple(Band(column) for column in pair.columns))
                of_pair = values.setdefault((str(columns), joined(pair.groups)), {})
                of_pair.setdefault(model, []).append(Mean(metric, pair.value, pair.n_users, 0))
    return values
