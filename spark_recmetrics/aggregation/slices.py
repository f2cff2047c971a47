"""The values of slices, and of all users resampled: from PER_USER, in parts that are put together. No Spark is needed here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.aggregation.means import Drawn, Mean, combined, drawn_of, drawn_values, means, replicated
from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.arrays import numbered, rows_by
from spark_recmetrics.request.intervals import Intervals
from spark_recmetrics.request.per_user import SumSpec
from spark_recmetrics.request.slices import ALL_USERS, Group, Slice, grouped, numbered_values
from spark_recmetrics.scoring.partial_sums import PartTotal, part_totals
from spark_recmetrics.stats.resample import bootstrap_sums, poisson_weights

if TYPE_CHECKING:
    import pandas as pd

    from spark_recmetrics.request.request import Request

PART_KEYS = ["model", "slice", "slice_value", "metric"]
PART_COLUMNS = ["model", "slice", "slice_value", "metric", "totals", "sums", "counts"]
MEAN_COLUMNS = ["model", "slice", "slice_value", "metric", "value", "n_users", "n_undefined", "std", "ci_low", "ci_high"]

SliceValues = dict[tuple[str, str], dict[str, list[Mean]]]
"""By slice and value, then by model, the values of the metrics."""

TOTALLED = -1
"""The number of no metric, in rows that have the totals of all."""

MOST_DRAWN = 1 << 16
"""How many users are resampled at once: their weights, one byte each, are held for all slices."""


@dataclass(frozen=True)
class Sliced:
    """What is to be known of slices.

    Args:
        slices: The slices, of users and of items.
        metrics: Metrics with a value per user.
        convention: Their definitions.
        intervals: How intervals are computed. Where values are resampled, all users are a slice, too.
    """

    slices: tuple[Slice, ...]
    metrics: tuple[Metric, ...]
    convention: Convention
    intervals: Intervals

    @classmethod
    def of(cls, request: Request) -> Sliced | None:
        """What is asked of slices and resampling; None where there is neither.

        A metric of items, or of the pairs of different users, has no value in a slice.
        """
        metrics = tuple(metric for metric in request.metrics if metric.has_users)
        if not metrics or not (request.slices.slices or request.intervals.method == "bootstrap"):
            return None
        return cls(request.slices.slices, metrics, request.convention, request.intervals)

    @property
    def resamples(self) -> bool:
        """Whether the values are resampled."""
        return self.intervals.method == "bootstrap"

    @cached_property
    def drawn(self) -> list[list[Drawn]]:
        """Of each metric, the columns that a replicate of its value is made of."""
        return [drawn_of(metric, self.convention) for metric in self.metrics]


def part_slices(rows: pd.DataFrame, sliced: Sliced) -> Iterator[pd.DataFrame]:
    """What a part of the rows of PER_USER adds to the values of slices.

    Args:
        rows: Some rows of PER_USER; where values are resampled, with `user_hash`.
        sliced: What is to be known.

    Yields:
        `schema.PART_SLICES`: for each slice and value, a row of totals per model, and a row of sums per model and metric.
    """
    for own, groups in grouped(rows, sliced.slices):
        yield from _part_totals(own, groups, sliced)
        if sliced.resamples:
            (user,), users = numbered(own["user"])
            for start in range(0, len(users), MOST_DRAWN):
                some = (user >= start) & (user < start + MOST_DRAWN)
                taken = [group._replace(code=group.code[some]) for group in groups]
                yield from _resampled(own[some], user[some] - start, taken, sliced)


def _part_totals(rows: pd.DataFrame, groups: Sequence[Group], sliced: Sliced) -> Iterator[pd.DataFrame]:
    """The rows of totals."""
    import pandas as pd

    wanted = SumSpec.of(sliced.metrics, sliced.convention)
    for place, code, values in groups:
        if place == ALL_USERS:
            continue  # the totals of all users are known
        for number, value in enumerate(values):
            totals = part_totals(rows[code == number], wanted)
            by_model = ((part["model"].iloc[0], part) for part in rows_by(totals, ["model"]))
            own = [(m, place, value, TOTALLED, part.to_dict("records"), None, None) for m, part in by_model]
            yield pd.DataFrame(own, columns=PART_COLUMNS)


def _resampled(rows: pd.DataFrame, user: Any, groups: Sequence[Group], sliced: Sliced) -> Iterator[pd.DataFrame]:
    """The rows of sums: in every replicate, the weighted sum of each column, and the weights that it is over."""
    import pandas as pd

    n_users = int(user.max(initial=-1)) + 1
    hashes = np.zeros(n_users, dtype=np.uint64)
    hashes[user] = rows["user_hash"].to_numpy(np.int64).view(np.uint64)
    weights = poisson_weights(hashes, sliced.intervals.n_resamples, sliced.intervals.seed)
    model, models = numbered_values(rows["model"])
    columns = {drawn: place for place, drawn in enumerate(dict.fromkeys(one for own in sliced.drawn for one in own))}
    # The models stand side by side, so that the weights of a user are multiplied once.
    table = np.full((n_users, len(models), len(columns)), np.nan)
    values_by_name = {str(name): column.to_numpy() for name, column in rows.items()}
    for drawn, place in columns.items():
        table[user, model, place] = drawn_values(values_by_name, drawn)
    for place, code, values in groups:
        of_user = np.zeros(n_users, dtype=np.int64)
        of_user[user] = code
        for number, value in enumerate(values):
            members = np.flatnonzero(of_user == number) if len(values) > 1 else slice(None)
            own = table[members].reshape(-1, len(models) * len(columns))
            if not len(own):
                continue
            sums, counts = bootstrap_sums(own, weights[:, members])
            found = []
            for m, name in enumerate(models):
                for metric, drawn_columns in enumerate(sliced.drawn):
                    wanted = [m * len(columns) + columns[drawn] for drawn in drawn_columns]
                    found.append((name, place, value, metric, None, sums[:, wanted].T.ravel(), counts[:, wanted].T.ravel()))
            yield pd.DataFrame(found, columns=PART_COLUMNS)


def whole_slice(parts: pd.DataFrame, sliced: Sliced) -> pd.DataFrame:
    """The values of one model for one value of a slice; or the interval of one of them.

    Args:
        parts: Rows of `part_slices` of one model, slice, value and metric.
        sliced: What is to be known.

    Returns:
        Rows of `schema.SLICE_MEANS`.
    """
    import pandas as pd

    key = tuple(parts[name].iloc[0] for name in ("model", "slice", "slice_value"))
    place = int(parts["metric"].iloc[0])
    if place == TOTALLED:
        rows = (tuple(row[name] for name in PartTotal._fields) for part in parts["totals"] for row in part)
        totals = combined(rows)[key[0]]
        found = means(totals, sliced.metrics, sliced.convention, {}, sliced.intervals.confidence)
        return pd.DataFrame(
            [(*key, metric, m.value, m.n_users, m.n_undefined, m.std, m.ci_low, m.ci_high) for metric, m in enumerate(found)],
            columns=MEAN_COLUMNS,
        )
    columns = sliced.drawn[place]
    sums, counts = (np.sum(np.stack(list(parts[name])), axis=0).reshape(len(columns), -1) for name in ("sums", "counts"))
    by_column = [dict(zip(columns, numbers, strict=True)) for numbers in (sums, counts)]
    values = np.asarray(replicated(sliced.metrics[place], sliced.convention, *by_column))
    values = values[np.isfinite(values)]
    tail = (1 - sliced.intervals.confidence) / 2
    ends = np.quantile(values, [tail, 1 - tail]) if len(values) else (None, None)
    return pd.DataFrame([(*key, place, None, None, None, None, *ends)], columns=MEAN_COLUMNS)


def sliced_values(
    rows: Iterable[Mapping[str, Any]], sliced: Sliced, request: Request, of_all: Mapping[str, list[Mean]]
) -> tuple[dict[str, list[Mean]], SliceValues]:
    """The values of all users, with their confidence intervals where these are resampled, and those of the slices.

    Args:
        rows: Rows of `whole_slice`.
        sliced: What was asked for.
        request: The evaluation.
        of_all: The values of all users, by model, with the intervals that need no resampling.
    """
    rows, slices = list(rows), request.slices.slices
    values: SliceValues = {}
    for row in sorted((row for row in rows if row["n_users"] is not None), key=lambda row: row["metric"]):
        slice_, metric = slices[row["slice"]], sliced.metrics[row["metric"]]
        if slice_ in request.slices.by_side["item"] and metric.definition.kind == "rating" and not request.rates_in_lists:
            continue  # errors of predicted ratings that are not in the lists are not known for some items alone
        numbers = {name: row[name] for name in ("value", "n_users", "n_undefined", "std", "ci_low", "ci_high")}
        mean = Mean(metric, **numbers, ci_method=None if row["ci_low"] is None else "normal")
        values.setdefault((str(slice_), row["slice_value"]), {}).setdefault(row["model"], []).append(mean)
    if sliced.resamples:
        ends = {
            (row["slice"], row["slice_value"], row["model"], sliced.metrics[row["metric"]]): (row["ci_low"], row["ci_high"])
            for row in rows
            if row["n_users"] is None
        }
        number = {str(slice_): place for place, slice_ in enumerate(slices)}

        def resampled(place: int, value: str, by_model: Mapping[str, list[Mean]]) -> dict[str, list[Mean]]:
            return {
                model: [_resampled_mean(mean, ends.get((place, value, model, mean.metric), (None, None))) for mean in means_]
                for model, means_ in by_model.items()
            }

        of_all = resampled(ALL_USERS, "", of_all)
        values = {(text, value): resampled(number[text], value, by_model) for (text, value), by_model in values.items()}
    in_order = {key: {model: by_model[model] for model in of_all if model in by_model} for key, by_model in values.items()}
    return dict(of_all), in_order


def _resampled_mean(mean: Mean, ends: tuple[float | None, float | None]) -> Mean:
    """The value with its resampled interval: none below two users, whose replicates are all the same."""
    low, high = ends if mean.value is not None and mean.n_users > 1 else (None, None)
    return replace(mean, ci_low=low, ci_high=high, ci_method=None if low is None else "bootstrap")
