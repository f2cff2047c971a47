"""What a worker does with some users: their rows of PER_USER, partial sums, and the rows of slices of items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from spark_recmetrics.columns import ITEM_SLICE, ITEM_VALUE, PART_TOTALS
from spark_recmetrics.metrics.arrays import numbered, positions_of
from spark_recmetrics.request.per_user import SumSpec
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.request.slices import Slice, exploded, values_of
from spark_recmetrics.scoring.kernel import score_bucket
from spark_recmetrics.scoring.partial_sums import part_totals
from spark_recmetrics.side_info.packed import SideInfo

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 1_000_000
"""How many rows are scored at once, where a user has not more. More of them need more memory, and fewer more time."""


def scorer(
    scoring: Scoring, models: Sequence[str], wanted: SumSpec | None, slices: Sequence[Slice]
) -> Callable[[pd.DataFrame, pd.DataFrame, SideInfo], pd.DataFrame]:
    """From lists, truth and what is known beside to the rows of their users, and of slices."""

    def score(lists: pd.DataFrame, truth: pd.DataFrame, beside: SideInfo) -> pd.DataFrame:
        import pandas as pd

        rows = score_bucket(lists, truth, scoring, beside)
        if wanted:
            totals = part_totals(rows[rows["model"].notna()], wanted)
            totals["model"] = [models[code] for code in totals["model"]]
            column = np.empty(len(rows), dtype=object)
            column[:1] = [totals.to_dict("records")][: len(rows)]
            rows[PART_TOTALS] = column
        if not slices:
            return rows
        # Every frame has every column: what pandas would fill in is NaN, which is no list and no text.
        whole = rows.assign(**{ITEM_SLICE: None, ITEM_VALUE: None})
        parts = (
            part.assign(**{str(name): None for name in whole if name not in part})
            for part in _of_items(lists, truth, scoring, slices, beside)
        )
        found = pd.concat([whole, *parts], ignore_index=True)
        # pandas 3 makes texts of several pieces, which Spark's own way to Arrow does not take in a cogroup.
        return found.astype({name: object for name, kind in found.dtypes.items() if pd.api.types.is_string_dtype(kind)})

    return score


def _of_items(
    lists: pd.DataFrame, truth: pd.DataFrame, scoring: Scoring, slices: Sequence[Slice], beside: SideInfo
) -> Iterator[pd.DataFrame]:
    """The rows of each value of each slice of items."""
    judged = scoring.convention.candidates == "judged"
    for one in slices:
        each = exploded(one, truth)
        code, values = values_of(one, each)
        (user, each_user), _ = numbered(lists["user"], each["user"])
        (item, each_item), items = numbered(lists["item"], each["item"])
        # Where only judged items compete, only those of the value are ranked; else the whole lists of their users.
        row, each_row = (user * len(items) + item, each_user * len(items) + each_item) if judged else (user, each_user)
        keys, each_place = np.unique(each_row, return_inverse=True)
        place = positions_of(row, keys)
        known, place = lists[place >= 0], place[place >= 0]
        for number, value in enumerate(values):
            of_value = np.zeros(len(keys), dtype=bool)
            of_value[each_place[code == number]] = True
            scored = score_bucket(known[of_value[place]], each[code == number], scoring, beside, of_users=True)
            yield scored.assign(**{ITEM_SLICE: str(one), ITEM_VALUE: value})
