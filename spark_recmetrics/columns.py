"""Names of columns: the caller's own, and those of PER_USER."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.text import brief, did_you_mean

Side = Literal["user", "item"]

TABLE_OF: Mapping[Side, str] = {"user": "user_segments", "item": "item_groups"}
"""The tables whose columns slices and metrics of groups name."""

_RARE = ("items", "propensity", "features", "categories")
"""Columns that many tables do not have."""


@dataclass(frozen=True)
class Columns:
    """The names that columns have in the caller's tables. Names may hold dots, spaces and backticks.

    Args:
        user: User id, in predictions and truth.
        item: Item id, in predictions and truth.
        score: Predicted score, higher is better; also the predicted rating of rating metrics. Not needed where `rank` is given.
        rating: True rating, in truth. A truth table without it is all relevant.
        model: Model name, in predictions. A table without it is one model.
        rank: Rank from 1, in predictions. Where given it wins over the score.
        items: Ordered array of items, best first, or of structs (item, score), in predictions that have one row per user.
        propensity: Probability of the item under the policy that the truth was logged with, in truth; for off-policy metrics.
        features: Feature vector of an item, in the table of item features: an array of numbers, a vector of Spark ML, or a
            struct of `size`, `indices` from 0 and `values`.
        categories: Categories of an item, one or an array of them, in the table of item features.

    Raises:
        ConfigError: A name is not a text with at least one character, or two names are equal.

    Example:
        >>> Columns(user="customer", rank="position").item
        'item_id'
    """

    user: str = "user_id"
    item: str = "item_id"
    score: str = "score"
    rating: str = "rating"
    model: str = "model"
    rank: str | None = None
    items: str = "items"
    propensity: str = "propensity"
    features: str = "features"
    categories: str = "categories"

    def __post_init__(self) -> None:
        taken: dict[str, str] = {}
        for column in fields(self):
            name = getattr(self, column.name)
            if name is None and column.name == "rank":
                continue
            if not isinstance(name, str) or not name:
                raise ConfigError(f"columns.{column.name}: expected the name of a column, found {brief(name)}")
            if name == getattr(Columns, column.name) and name in taken and column.name in _RARE:
                continue  # the caller has given this name to another column and has none of this kind
            # A score may be the predicted rating and a truth table may call the true one the same.
            twin = taken.setdefault(name, column.name)
            if twin != column.name and {twin, column.name} != {"score", "rating"}:
                raise ConfigError(f"columns.{twin} and columns.{column.name} are both {name!r}: expected different columns")

    def ids(self, side: Side) -> str:
        """The column of users, or that of items."""
        return self.user if side == "user" else self.item

    def beside(self, side: Side, names: Iterable[str]) -> list[str]:
        """The columns of a table of users, or of items, but for their ids."""
        return [name for name in names if name != self.ids(side)]


def checked_columns(columns: object) -> Columns:
    """The argument `columns`.

    Raises:
        ConfigError: It is none of `Columns`.
    """
    if not isinstance(columns, Columns):
        raise ConfigError(f"columns: expected srm.Columns(...), found {type(columns).__name__}")
    return columns


_USER_FAULTS = (
    "n_duplicates",
    "n_truth_duplicates",
    "n_rank_faults",
    "n_negative_gains",
    "n_beyond_catalog",
    "n_beyond_length",
)

USER_COUNTERS = ("n_relevant", "n_truth", "n_recommended", "n_matched", "n_tied_at_cut", *_USER_FAULTS)
"""The counters of PER_USER: columns beside `model` and `user`, before the metrics."""

COUNTERS = (*USER_COUNTERS, "n_pair_duplicates")
"""All counters, with that of the rating metrics, which stands beside their moments."""

FAULTS = (*_USER_FAULTS, "n_pair_duplicates")
"""Counters of what may be refused, whose users are named."""

PAIR_SCORES, PAIR_RANKS, PAIR_STARTS = "pair_scores", "pair_ranks", "pair_starts"
"""Columns of PER_USER, until the values across users are known: in one row of each model, of those who are scored at once, the
matched pairs of its users as arrays, ranks negative where an item is not relevant, and where the pairs of each user start."""

PART_TOTALS = "part_totals"
"""Column of PER_USER, until the values of the models are known: in one row of those who are scored at once, what they add to
the totals."""

ITEM_SLICE, ITEM_VALUE = "item_slice", "item_value"
"""Columns of PER_USER, until the values of slices are known: the slice and value of rows that look at items of one value alone,
null in the rows that look at all."""

ITEM_IDS, ITEM_MODELS = "item_ids", "item_models"
"""Columns of PER_USER, until the values of items are known: in one row of those who are scored at once, the items of their
lists and the models that list them, as arrays. A model that is negative, -1 - model, is an entry about its lists, not about
an item."""

ITEM_COUNTS, ITEM_WEIGHTS = "item_counts_", "item_weights_"
"""Beginnings of the names of such arrays of the same length: how often the model lists the item, or how many lists it has; and
the sum of 1 / sqrt(length) over these lists. One of each for every cut-off and user set."""

ITEM_ROWS, ITEM_TOTALS = "item_rows_", "item_totals_"
"""The same of what is measured item by item for metrics of groups: the number of rows, and the sum of their values."""

OF_ITEMS = (ITEM_COUNTS, ITEM_WEIGHTS, ITEM_ROWS, ITEM_TOTALS)

GROUP_ARRAYS = ("group_places", "group_models", "group_users", "group_items", "group_n", "group_totals")
"""Columns of PER_USER, until the values of groups are known: in one row of those who are scored at once, what
`metrics.group_sums` adds up, as arrays of one length: what is measured, the model, the group of users (null for all), the place
of the group of items (-1 for all items together), the number of rows, of users where all items are together, and the sum of
their values."""

LIST_ITEMS, LIST_RANKS = "list_items", "list_ranks"
"""Columns of PER_USER, until the intervals of metrics of items are known: the items of the user's list, and their ranks."""

ABOUT_ITEM, ITEM_GROUPS = "about_item", "groups"
"""Columns of what is known of an item: all of it in bytes, see `beside.pack`, null where nothing is; and its groups alone, an
array of places in `ItemSummary.groups`."""

KIND = "kind"
"""Column of rows of several tables that move together, which tells them apart."""

KIND_TRUTH, KIND_TRAIN, KIND_SEGMENT, KIND_ITEM, KIND_LIST = range(5)


def rows_of_kind(kind: int) -> str:
    """Column with an array of rows of a kind."""
    return f"rows_{kind}"


PASSING = (
    *(PAIR_SCORES, PAIR_RANKS, PAIR_STARTS, PART_TOTALS, ITEM_SLICE, ITEM_VALUE),
    *(ITEM_IDS, ITEM_MODELS, *GROUP_ARRAYS, LIST_ITEMS, LIST_RANKS),
)
"""The columns that PER_USER does not keep, with those that begin as `OF_ITEMS`."""


def passing(names: Iterable[str]) -> list[str]:
    """Those of the columns that PER_USER does not keep."""
    return [name for name in names if name in PASSING or name.startswith(OF_ITEMS)]


class WrongTypeError(DataError):
    """A column has a type that cannot serve. Its texts, which only a job can look at, may say why.

    Args:
        found: What was expected where, and what was found.
        advice: What to do.
        texts: By table, a Spark frame of the column where it has texts.
    """

    def __init__(self, found: str, advice: str, texts: Mapping[str, Any]) -> None:
        super().__init__(f"{found}: {advice}")
        self.found, self.advice, self.texts = found, advice, texts


def near_column(name: str, columns: Sequence[str]) -> str:
    """The tail of a message about a column that is not there: the nearest one, or that whole lines were read as one column.

    Example:
        >>> near_column("user_id", ["user", "item"])
        "; did you mean 'user'?"
        >>> near_column("user_id", ["user_id;item_id"]).partition(": ")[2]
        'if ";" separates columns, read with sep=";", in a configuration options: {sep: ";"} of the location'
    """
    marks = [mark for mark in ";,\t|" if mark in columns[0]] if len(columns) == 1 else []
    if not marks:
        return did_you_mean(name, columns)
    mark = json.dumps(max(marks, key=columns[0].count))
    return (
        f"; found one column, {brief(columns[0])}: if {mark} separates columns, read with sep={mark}, "
        f"in a configuration options: {{sep: {mark}}} of the location"
    )


DECIMAL_COMMA = "a decimal comma: write points, or let the reader of the file know (docs/inputs.md#decimal-commas)"
"""What is said of a text that would be a number with a point."""


def is_decimal_comma(text: str) -> bool:
    """Whether a text is a number with a decimal comma.

    Example:
        >>> [is_decimal_comma(text) for text in ("3,5", "-1.234,5", "3.5", "a,b")]
        [True, True, False, False]
    """
    return re.fullmatch(r"\s*[-+]?(\d+|\d{1,3}(\.\d{3})+)?,\d+\s*", text) is not None
