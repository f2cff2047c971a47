"""What workers compute for users: their rows of PER_USER and of slices of items, and their part of the totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.columns import ITEM_SLICE, ITEM_VALUE, PART_TOTALS
from spark_recmetrics.metrics.arrays import numbered, positions_of
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.request.slices import Slice, exploded, slice_values
from spark_recmetrics.request.user_sums import SumSpec
from spark_recmetrics.scoring.partial_sums import part_totals
from spark_recmetrics.scoring.per_user import in_first_row, score_bucket
from spark_recmetrics.side_info.packed import SideRows

if TYPE_CHECKING:
    import pandas as pd

    from spark_recmetrics.request.request import Request
    from spark_recmetrics.side_info.known import Known

ROWS_AT_ONCE = 1_000_000
"""How many rows are scored in one call, unless a single user has more. More rows need more memory and less time."""


def scoring_of(request: Request, known: Known[Any], *, has_rank: bool, full_lists: bool) -> Scoring | None:
    """What to compute for the ranking metrics of a request, None without such a metric."""
    metrics = request.ranking_metrics
    if not metrics:
        return None
    resampled = request.intervals.method == "bootstrap"
    return Scoring.of(
        metrics,
        request.convention,
        len(known.models),
        rating=request.rating_metrics if request.rates_in_lists else (),
        full_lists=full_lists,
        max_per_user=request.max_per_user,
        given_ranks=has_rank and request.keeps_lists,
        n_items=known.n_items,
        trained="train" in request.tables_read,
        items=known.summary,
        baseline=None if request.compared_baseline is None else known.models.index(request.compared_baseline),
        measured=request.measured,
        stores_lists=resampled and any(metric.definition.left_out is not None for metric in metrics),
    )


class Task(NamedTuple):
    """What a worker computes, for models in this order: values, totals if there is a `sum_spec`, and slices of items."""

    scoring: Scoring
    models: Sequence[str]
    sum_spec: SumSpec | None
    slices: Sequence[Slice]

    def score(self, lists: pd.DataFrame, truth: pd.DataFrame, side: SideRows) -> pd.DataFrame:
        """Score lists and ground truth of users with their side information."""
        import pandas as pd

        rows = score_bucket(lists, truth, self.scoring, side)
        if self.sum_spec:
            totals = part_totals(rows[rows["model"].notna()], self.sum_spec)
            totals["model"] = [self.models[code] for code in totals["model"]]
            rows[PART_TOTALS] = in_first_row(totals.to_dict("records"), len(rows))
        if not self.slices:
            return rows
        # Every frame gets every column: pandas would fill missing columns with NaN, which is neither a list nor a string.
        rows = rows.assign(**{ITEM_SLICE: None, ITEM_VALUE: None})
        parts = (
            part.assign(**{str(name): None for name in rows if name not in part})
            for part in _rows_of_item_slices(lists, truth, self.scoring, self.slices, side)
        )
        rows = pd.concat([rows, *parts], ignore_index=True)
        # The chunked strings of pandas 3 cannot be converted by Spark in a cogroup.
        return rows.astype({name: object for name, kind in rows.dtypes.items() if pd.api.types.is_string_dtype(kind)})


def _rows_of_item_slices(
    lists: pd.DataFrame, truth: pd.DataFrame, scoring: Scoring, slices: Sequence[Slice], side: SideRows
) -> Iterator[pd.DataFrame]:
    """The rows of PER_USER of each value of each slice of items."""
    only_judged = scoring.convention.candidates == "judged"
    for slice_ in slices:
        sliced = exploded(slice_, truth)
        code, values = slice_values(slice_, sliced)
        (user, sliced_user), _ = numbered(lists["user"], sliced["user"])
        (item, sliced_item), items = numbered(lists["item"], sliced["item"])
        # If only judged items compete, only those with the value are ranked, otherwise the full lists of their users.
        key, sliced_key = user, sliced_user
        if only_judged:
            key, sliced_key = user * len(items) + item, sliced_user * len(items) + sliced_item
        keys, sliced_position = np.unique(sliced_key, return_inverse=True)
        position = positions_of(key, keys)
        ranked, position = lists[position >= 0], position[position >= 0]
        for number, value in enumerate(values):
            has_value = np.zeros(len(keys), dtype=bool)
            has_value[sliced_position[code == number]] = True
            rows = score_bucket(ranked[has_value[position]], sliced[code == number], scoring, side, only_users=True)
            yield rows.assign(**{ITEM_SLICE: str(slice_), ITEM_VALUE: value})
