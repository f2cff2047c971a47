"""The slices and intervals of an evaluation: what they need, who belongs to them, and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_recmetrics.aggregation.means import Mean
from spark_recmetrics.aggregation.spark import Sliced, slice_means
from spark_recmetrics.columns import TABLE_OF, Columns, Side
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.inputs.spark import Inputs
from spark_recmetrics.metrics import Metric
from spark_recmetrics.request.intervals import IntervalMethod, Intervals
from spark_recmetrics.request.slices import COUNTED, EVERYBODY, Band, Slice, bands_of, by_side, parse_slices, steps_of
from spark_recmetrics.scoring.plan_spark import Plan
from spark_recmetrics.side_info.bands_spark import (
    Bands,
    band_counts,
    check_bands,
    histogram,
    read_bands,
    repeated_ids,
    training_rows,
)
from spark_recmetrics.storage import actions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Values = dict[tuple[str, str], dict[str, list[Mean]]]
"""By slice and value, then by model, the values of the metrics."""


@dataclass(frozen=True)
class Slicing:
    """What an evaluation is asked for beside the values of all users.

    Args:
        slices: The slices, in the caller's order.
        of_side: Those of users, and those of items.
        counted: The bands that look at the number of training rows.
        intervals: How intervals are computed.
        columns: The caller's names.
    """

    slices: tuple[Slice, ...]
    of_side: Mapping[Side, tuple[Slice, ...]]
    counted: tuple[Band, ...]
    intervals: Intervals
    columns: Columns

    @classmethod
    def of(
        cls,
        slices: Sequence[str | Slice],
        intervals: Intervals | IntervalMethod,
        given: Mapping[Side, DataFrame | None],
        columns: Columns,
        metrics: Sequence[Metric],
        *,
        trained: bool,
    ) -> Slicing:
        """Read the arguments.

        Args:
            slices: Slices or their texts.
            intervals: How intervals are computed, or the name of the method.
            given: The tables of users and items.
            columns: The caller's names.
            metrics: The metrics of the evaluation.
            trained: Whether there are training rows.

        Raises:
            ConfigError: There is no such slice or method.
        """
        try:
            parsed = parse_slices(slices)
        except ConfigError as error:
            raise ConfigError(f"slices: {error}") from error
        try:
            chosen = intervals if isinstance(intervals, Intervals) else Intervals(intervals)
        except ConfigError as error:
            raise ConfigError(f"intervals: {error}") from error
        known = {side: None if table is None else columns.beside(side, table.columns) for side, table in given.items()}
        of_side = by_side(parsed, known, trained=trained)
        if of_side["item"] and not any(metric.definition.kind == "ranking" for metric in metrics):
            raise ConfigError(
                f"slices: {of_side['item'][0]}: expected a ranking metric, whose lists items stand in, found none"
            )
        counted = (band for side, own in of_side.items() for band in bands_of(own) if band.name not in (known[side] or ()))
        return cls(parsed, of_side, tuple(counted), chosen, columns)

    @property
    def used(self) -> dict[str, bool]:
        """Whether a slice looks at a table, by the name of the table."""
        of_tables = {TABLE_OF[side]: any(b not in self.counted for b in bands_of(own)) for side, own in self.of_side.items()}
        return {"train": bool(self.counted), **of_tables}

    def bands(self, inputs: Inputs) -> dict[Side, Bands]:
        """What the slices look at; small jobs see that no id stands there twice, and that values are few.

        Raises:
            DataError: They do, or are not; or a column has a type that cannot serve.
        """
        return {side: self._bands_of(side, own, inputs) for side, own in self.of_side.items() if own}

    def _bands_of(self, side: Side, slices: Sequence[Slice], inputs: Inputs) -> Bands:
        table, id_col = (inputs.segments, self.columns.user) if side == "user" else (inputs.groups, self.columns.item)
        counted = [band for band in self.counted if band.name == COUNTED[side]]
        counts = training_rows(inputs.train, side) if counted and inputs.train is not None else None
        steps: dict[Band, Sequence[float]] = {}
        if counts is not None and not all(band.edges for band in counted):
            n_of = {row["n_train"]: row["n"] for row in actions.collect_rows(histogram(counts))}
            steps = {band: steps_of(band, n_of) for band in counted if not band.edges}
        bands = read_bands(side, table, id_col, inputs.truth.schema[side].dataType, slices, counts, steps)
        found = actions.collect_rows(band_counts(bands, slices))
        check_bands(bands, slices, found, lambda: actions.example_values(repeated_ids(bands)))
        return bands

    def values(self, kept: DataFrame, plan: Plan, whole: Mapping[str, list[Mean]]) -> tuple[dict[str, list[Mean]], Values]:
        """The values of all users, with their intervals where these are resampled, and those of the slices.

        Args:
            kept: PER_USER with the columns of slices of users, and the rows of those of items.
            plan: How it was made.
            whole: The values of all users, by model, with the intervals that need no resampling.
        """
        sliced = Sliced.of(self.slices, plan.metrics, plan.convention, self.intervals)
        if not (sliced.slices or sliced.resamples) or not sliced.metrics:
            return dict(whole), {}
        rows = actions.collect_rows(slice_means(kept, sliced))
        found: Values = {}
        for row in sorted((row for row in rows if row["n_users"] is not None), key=lambda row: row["metric"]):
            one, metric = self.slices[row["slice"]], sliced.metrics[row["metric"]]
            if one in self.of_side["item"] and metric.definition.kind == "rating" and not plan.rates_lists:
                continue  # errors of predicted ratings that stand apart from the lists are not known for some items alone
            numbers = {name: row[name] for name in ("value", "n_users", "n_undefined", "std", "ci_low", "ci_high")}
            mean = Mean(metric, **numbers, ci_method=None if row["ci_low"] is None else "normal")
            found.setdefault((str(one), row["slice_value"]), {}).setdefault(row["model"], []).append(mean)
        if sliced.resamples:
            ends = {
                (row["slice"], row["slice_value"], row["model"], sliced.metrics[row["metric"]]): (row["ci_low"], row["ci_high"])
                for row in rows
                if row["n_users"] is None
            }
            place = {str(one): number for number, one in enumerate(self.slices)}

            def resampled(number: int, value: str, own: Mapping[str, list[Mean]]) -> dict[str, list[Mean]]:
                key = (number, value)
                return {
                    model: [_resampled(mean, ends.get((*key, model, mean.metric), (None, None))) for mean in means]
                    for model, means in own.items()
                }

            whole = resampled(EVERYBODY, "", whole)
            found = {(text, value): resampled(place[text], value, own) for (text, value), own in found.items()}
        return dict(whole), {key: {name: own[name] for name in whole if name in own} for key, own in found.items()}


def _resampled(mean: Mean, ends: tuple[float | None, float | None]) -> Mean:
    """The value with its resampled interval: none below two users, whose replicates are all the same."""
    low, high = ends if mean.value is not None and mean.n_users > 1 else (None, None)
    return replace(mean, ci_low=low, ci_high=high, ci_method=None if low is None else "bootstrap")
