"""The values of slices, and of resampled users, from PER_USER: parts of the rows first, then each value of a slice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.aggregation.means import Mean, combined, drawn_of, drawn_values, means, replicated
from spark_recmetrics.columns import TABLE_OF
from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.arrays import numbered, rows_by
from spark_recmetrics.request.intervals import Intervals
from spark_recmetrics.request.request import Request, SliceRequest
from spark_recmetrics.request.slices import ALL_USERS, NO_VALUE, Group, Slice, grouped, numbered_values
from spark_recmetrics.request.user_sums import SumSpec, Tally
from spark_recmetrics.scoring.partial_sums import PartTotal, part_totals
from spark_recmetrics.stats.resample import bootstrap_sums, poisson_weights

if TYPE_CHECKING:
    import pandas as pd

PART_KEYS = ["model", "slice", "slice_value", "metric"]
_PART_COLUMNS = [*PART_KEYS, "totals", "sums", "counts"]
MEAN_COLUMNS = [*PART_KEYS, "value", "n_users", "n_undefined", "std", "ci_low", "ci_high"]

SliceValues = dict[tuple[str, str], dict[str, list[Mean]]]
"""By slice and value, then by model, the values of the metrics."""

_TOTALED = -1
"""The number of the metric in rows that have the totals of all metrics."""

_MOST_DRAWN = 1 << 16
"""How many users are resampled at once. Their weights, one byte for each replicate, are used for all slices."""


@dataclass(frozen=True)
class Sliced:
    """The requested slices and the metrics that have values in them."""

    slices: tuple[Slice, ...]  # of users and of items
    metrics: tuple[Metric, ...]  # those with a value per user
    convention: Convention
    intervals: Intervals  # if values are resampled, all users are a slice, too

    @classmethod
    def of(cls, request: Request) -> Sliced | None:
        """None if there are no slices and nothing is resampled, or no metric has a value per user."""
        metrics = tuple(metric for metric in request.metrics if metric.has_users)
        if not metrics or not (request.slices.slices or request.intervals.method == "bootstrap"):
            return None
        return cls(request.slices.slices, metrics, request.convention, request.intervals)

    @property
    def resamples(self) -> bool:
        """Whether the values are resampled."""
        return self.intervals.method == "bootstrap"

    @cached_property
    def drawn(self) -> list[list[Tally]]:
        """For each metric, the columns that a replicate is computed from."""
        return [drawn_of(metric, self.convention) for metric in self.metrics]


def part_slices(rows: pd.DataFrame, sliced: Sliced) -> Iterator[pd.DataFrame]:
    """`table_schemas.PART_SLICES` for some rows of PER_USER, which have `user_hash` if values are resampled."""
    for part, groups in grouped(rows, sliced.slices):
        yield from _part_totals(part, groups, sliced)
        if sliced.resamples:
            (user,), users = numbered(part["user"])
            for start in range(0, len(users), _MOST_DRAWN):
                inside = (user >= start) & (user < start + _MOST_DRAWN)
                groups_inside = [group._replace(code=group.code[inside]) for group in groups]
                yield from _resampled(part[inside], user[inside] - start, groups_inside, sliced)


def _part_totals(rows: pd.DataFrame, groups: Sequence[Group], sliced: Sliced) -> Iterator[pd.DataFrame]:
    import pandas as pd

    sums = SumSpec.of(sliced.metrics, sliced.convention)
    for place, code, values in groups:
        if place == ALL_USERS:
            continue  # the totals of all users are aggregated separately
        for number, value in enumerate(values):
            totals = part_totals(rows[code == number], sums)
            by_model = ((part["model"].iloc[0], part) for part in rows_by(totals, ["model"]))
            parts = [(model, place, value, _TOTALED, part.to_dict("records"), None, None) for model, part in by_model]
            yield pd.DataFrame(parts, columns=_PART_COLUMNS)


def _resampled(rows: pd.DataFrame, user: Any, groups: Sequence[Group], sliced: Sliced) -> Iterator[pd.DataFrame]:
    """In each bootstrap replicate, the weighted sum of each column, and the sum of the weights."""
    import pandas as pd

    n_users = int(user.max(initial=-1)) + 1
    hashes = np.zeros(n_users, dtype=np.uint64)
    hashes[user] = rows["user_hash"].to_numpy(np.int64).view(np.uint64)
    weights = poisson_weights(hashes, sliced.intervals.n_resamples, sliced.intervals.seed)
    model, models = numbered_values(rows["model"])
    columns = {drawn: place for place, drawn in enumerate(dict.fromkeys(chain.from_iterable(sliced.drawn)))}
    # All models of a user are in one row, so that the weights are multiplied once.
    table = np.full((n_users, len(models), len(columns)), np.nan)
    values_by_name = {str(name): column.to_numpy() for name, column in rows.items()}
    for drawn, place in columns.items():
        table[user, model, place] = drawn_values(values_by_name, drawn)
    for place, code, values in groups:
        code_of_user = np.zeros(n_users, dtype=np.int64)
        code_of_user[user] = code
        for number, value in enumerate(values):
            members = np.flatnonzero(code_of_user == number) if len(values) > 1 else slice(None)
            of_members = table[members].reshape(-1, len(models) * len(columns))
            if not len(of_members):
                continue
            sums, counts = bootstrap_sums(of_members, weights[:, members])
            parts = []
            for model_number, name in enumerate(models):
                for metric, drawn_columns in enumerate(sliced.drawn):
                    places = [model_number * len(columns) + columns[drawn] for drawn in drawn_columns]
                    resampled = sums[:, places].T.ravel(), counts[:, places].T.ravel()
                    parts.append((name, place, value, metric, None, *resampled))
            yield pd.DataFrame(parts, columns=_PART_COLUMNS)


def whole_slice(parts: pd.DataFrame, sliced: Sliced) -> pd.DataFrame:
    """From rows of `part_slices` with the same `PART_KEYS`: the values of all metrics, or the confidence interval of one."""
    import pandas as pd

    *key, number = (parts[name].iloc[0] for name in PART_KEYS)
    if number == _TOTALED:
        totals = combined(tuple(row[name] for name in PartTotal._fields) for part in parts["totals"] for row in part)
        values = means(totals[key[0]], sliced.metrics, sliced.convention, {}, sliced.intervals.confidence)
        rows = [(*key, n, m.value, m.n_users, m.n_undefined, m.std, m.ci_low, m.ci_high) for n, m in enumerate(values)]
        return pd.DataFrame(rows, columns=MEAN_COLUMNS)
    metric, columns = sliced.metrics[number], sliced.drawn[number]
    sums, counts = (np.sum(np.stack(list(parts[name])), axis=0).reshape(len(columns), -1) for name in ("sums", "counts"))
    by_column = [dict(zip(columns, numbers, strict=True)) for numbers in (sums, counts)]
    replicates = np.asarray(replicated(metric, sliced.convention, *by_column))
    replicates = replicates[np.isfinite(replicates)]
    tail = (1 - sliced.intervals.confidence) / 2
    ends = np.quantile(replicates, [tail, 1 - tail]) if len(replicates) else (None, None)
    return pd.DataFrame([(*key, number, None, None, None, None, *ends)], columns=MEAN_COLUMNS)


def sliced_values(
    rows: Iterable[Mapping[str, Any]], sliced: Sliced, request: Request, of_all: Mapping[str, list[Mean]]
) -> tuple[dict[str, list[Mean]], SliceValues]:
    """The values of all users, with resampled confidence intervals if any, and of the slices, from rows of `whole_slice`."""
    rows, slices = list(rows), request.slices.slices
    ends = {tuple(row[name] for name in PART_KEYS): (row["ci_low"], row["ci_high"]) for row in rows if row["n_users"] is None}
    number = {metric: position for position, metric in enumerate(sliced.metrics)}

    def with_ends(place: int, value: str, by_model: Mapping[str, list[Mean]]) -> dict[str, list[Mean]]:
        if not sliced.resamples:
            return dict(by_model)
        return {
            model: [_resampled_mean(mean, ends.get((model, place, value, number.get(mean.metric)))) for mean in of_model]
            for model, of_model in by_model.items()
        }

    by_slice: dict[tuple[int, str], dict[str, list[Mean]]] = {}
    for row in sorted((row for row in rows if row["n_users"] is not None), key=lambda row: row["metric"]):
        slice_, metric = slices[row["slice"]], sliced.metrics[row["metric"]]
        if slice_ in request.slices.by_side["item"] and metric.definition.kind == "rating" and not request.rates_in_lists:
            continue  # errors of ratings that are not predicted in the lists are known for all items only
        numbers = {name: row[name] for name in ("value", "n_users", "n_undefined", "std", "ci_low", "ci_high")}
        mean = Mean(metric, **numbers, ci_method=None if row["ci_low"] is None else "normal")
        by_slice.setdefault((row["slice"], row["slice_value"]), {}).setdefault(row["model"], []).append(mean)
    of_slices = {
        (str(slices[place]), value): with_ends(place, value, {model: by_model[model] for model in of_all if model in by_model})
        for (place, value), by_model in by_slice.items()
    }
    return with_ends(ALL_USERS, "", of_all), of_slices


def without_values(request: SliceRequest, of_slices: SliceValues) -> list[str]:
    """Warnings about slices in which no user or item of the ground truth has a value."""
    warnings = []
    for side, slices in request.by_side.items():
        for slice_ in slices:
            counted = slice_.bands[0] in request.counted
            nothing = slice_.bands[0].labels[0] if counted else NO_VALUE
            if len(slice_.bands) == 1 and {value for name, value in of_slices if name == str(slice_)} == {nothing}:
                found, table = ("training rows", "train") if counted else ("a value", TABLE_OF[side])
                warnings.append(f"slices: {slice_}: no {side} of the ground truth has {found} in {table}")
    return warnings


def _resampled_mean(mean: Mean, ends: tuple[float | None, float | None] | None) -> Mean:
    """The value with its resampled confidence interval: none below two users, whose replicates are all the same."""
    low, high = ends if ends is not None and mean.value is not None and mean.n_users > 1 else (None, None)
    return replace(mean, ci_low=low, ci_high=high, ci_method=None if low is None else "bootstrap")
