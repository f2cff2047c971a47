"""Names of columns: in the caller's tables, and in PER_USER."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from spark_recmetrics.errors import ConfigError, DataError, check_argument, not_utf_8
from spark_recmetrics.text import brief, did_you_mean, printable

Side = Literal["user", "item"]

TABLE_OF: Mapping[Side, str] = {"user": "user_segments", "item": "item_groups"}
"""The tables with the columns of slices and group metrics."""

_RARE = ("items", "propensity", "features", "categories")
"""Columns that many tables do not have. Their default names may be used for other columns."""


@dataclass(frozen=True)
class Columns:
    """The names of columns in the caller's tables. Names may contain dots, spaces and backticks.

    Args:
        user: User id, in predictions and truth.
        item: Item id, in predictions and truth.
        score: Predicted score, higher is better; for rating metrics the predicted rating. Optional if there is a `rank`.
        rating: True rating, in truth. Without this column all truth rows are relevant.
        model: Model name, in predictions. Without this column the table belongs to one model.
        rank: Rank from 1, in predictions. It takes precedence over the score.
        items: Ordered array of items, best first, or of structs (item, score), in predictions with one row per user.
        propensity: Probability of the item under the logging policy, in truth; for off-policy metrics.
        features: Feature vector of an item, in the table of item features: an array of numbers, a Spark ML vector, or a struct
            of `size`, `indices` from 0 and `values`.
        categories: Category of an item, or an array of categories, in the table of item features.

    Raises:
        ConfigError: A name is not a non-empty string, or two names are equal.

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
            is_name = isinstance(name, str) and bool(name)
            check_argument(f"columns.{column.name}", name, "the name of a column", valid=is_name)
            if name == getattr(Columns, column.name) and name in taken and column.name in _RARE:
                continue  # the default name of a column that the caller does not have
            # Predicted and true ratings may have the same column name.
            first = taken.setdefault(name, column.name)
            if first != column.name and {first, column.name} != {"score", "rating"}:
                raise ConfigError(f"columns.{first} and columns.{column.name} are both {name!r}: expected different columns")

    def ids(self, side: Side) -> str:
        """The id column of users or of items."""
        return self.user if side == "user" else self.item

    def without_ids(self, side: Side, names: Iterable[str]) -> list[str]:
        """These columns of a user or item table without the id column."""
        return [name for name in names if name != self.ids(side)]


def checked_columns(columns: object) -> Columns:
    """The argument `columns`. Raises `ConfigError` if it is not an instance of `Columns`."""
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
"""The counters of PER_USER: the columns between `model`, `user` and the metrics."""

COUNTERS = (*USER_COUNTERS, "n_pair_duplicates")
"""All counters, including the counter of the rating metrics."""

FAULTS = (*_USER_FAULTS, "n_pair_duplicates")
"""Counters of faults that may be rejected, with example users."""

PAIR_SCORES, PAIR_RANKS, PAIR_STARTS = "pair_scores", "pair_ranks", "pair_starts"
"""Transient columns of PER_USER for metrics across users. One row of each model and scored batch has the matched pairs of the
users as arrays, with negative ranks for items that are not relevant, and the start of the pairs of each user."""

PART_TOTALS = "part_totals"
"""Transient column of PER_USER. One row of each scored batch has the contribution of the batch to the totals."""

ITEM_SLICE, ITEM_VALUE = "item_slice", "item_value"
"""Transient columns of PER_USER for slices of items: the slice and value of rows for a part of the items, null in rows for all
items."""

ITEM_IDS, ITEM_MODELS = "item_ids", "item_models"
"""Transient columns of PER_USER for item metrics. One row of each scored batch has the items of the lists and the models that
list them, as arrays. A negative model, -1 - model, marks an entry about the lists of a model, not about an item."""

ITEM_COUNTS, ITEM_WEIGHTS = "item_counts_", "item_weights_"
"""Prefixes of further such arrays, two for every cut-off and user set: how often the model lists the item (or its number of
lists), and the sum of 1 / sqrt(length) over these lists."""

ITEM_ROWS, ITEM_TOTALS = "item_rows_", "item_totals_"
"""Prefixes of such arrays for group metrics that are measured per item: the number of rows, and the sum of their values."""

_ITEM_PREFIXES = (ITEM_COUNTS, ITEM_WEIGHTS, ITEM_ROWS, ITEM_TOTALS)

GROUP_ARRAYS = ("group_places", "group_models", "group_users", "group_items", "group_n", "group_totals")
"""Transient columns of PER_USER for group metrics. One row of each scored batch has the sums of `metrics.group_sums` as arrays:
the index of the measure, the model, the group of users (null for all), the index of the group of items (-1 for all items), the
number of rows (of users for all items), and the sum of their values."""

LIST_ITEMS, LIST_RANKS = "list_items", "list_ranks"
"""Transient columns of PER_USER for confidence intervals of item metrics: the items of the user's list, and their ranks."""

ABOUT_ITEM, ITEM_GROUPS = "about_item", "groups"
"""Columns of an item's properties: all of them as bytes, see `side_info.packed`, null if there are none; and its groups, as an
array of indexes into `ItemSummary.groups`."""

KIND = "kind"
"""Column with the source table, for rows of several tables in one frame."""

KIND_TRUTH, KIND_TRAIN, KIND_SEGMENT, KIND_ITEM, KIND_LIST, KIND_MEMBER = range(6)
"""The kinds of rows. Members are users of dicts without items, who belong to user sets all the same: `user`, and the counters
`n_truth` and `n_recommended`, 1 for an entry in the ground truth or the recommendations."""


def rows_of_kind(kind: int) -> str:
    """Column with an array of the rows of a kind."""
    return f"rows_{kind}"


TRANSIENT = (
    *(PAIR_SCORES, PAIR_RANKS, PAIR_STARTS, PART_TOTALS, ITEM_SLICE, ITEM_VALUE),
    *(ITEM_IDS, ITEM_MODELS, *GROUP_ARRAYS, LIST_ITEMS, LIST_RANKS),
)
"""Columns that are dropped from PER_USER before it is published, in addition to columns with `_ITEM_PREFIXES`."""


def transient(names: Iterable[str]) -> list[str]:
    """The columns that are dropped from PER_USER before it is published."""
    return [name for name in names if name in TRANSIENT or name.startswith(_ITEM_PREFIXES)]


class WrongTypeError(DataError):
    """A column has a wrong type. Strings of `samples`, frames by table, that do not match the pattern `usual` may show why."""

    def __init__(self, problem: str, advice: str, samples: Mapping[str, Any], usual: str | None = None) -> None:
        super().__init__(f"{problem}: {advice}")
        self.problem, self.advice, self.samples, self.usual = problem, advice, samples, usual or NUMBER

    def with_examples(self, first_word: Callable[[Any, str], str | None], is_empty: Callable[[Any], bool]) -> str:
        """The message with the first string of each sample that does not match `usual`, or that a table has no rows."""
        message, advice = self.problem, self.advice
        for table, sample in self.samples.items():
            word = first_word(sample, self.usual)
            if word is None and is_empty(sample):
                return f"{table}: expected rows, found none, so its columns are read as strings: check its location and filters"
            if word is not None and _WITH_THOUSANDS.fullmatch(word):
                return f"{message}, e.g. {brief(word)} in {table}: {_WITHOUT_THOUSANDS}"
            if word is not None and word.strip().lower() in ("inf", "-inf"):
                advice = "in a configuration, set options: {{positiveInf: {0}, negativeInf: -{0}}}".format(word.strip(" -"))
                return f"{message}, e.g. {brief(word)} in {table}: {advice}"
            if word is not None and is_decimal_comma(word):
                return f"{message}, e.g. {brief(word)} in {table}, with {_DECIMAL_COMMA}"
            if word is None and self.usual == NUMBER:  # such as numbers in the names of folders
                kind = "int" if "expected an integer" in self.problem else "double"
                advice = f"{self.advice}; in a configuration, set its type, such as {kind}, in types of {table}"
            message += "" if word is None else f", e.g. {printable(brief(word))} in {table}"
            if word is not None and self.usual == INTEGER and re.match(NUMBER, word):
                advice = (
                    f"{self.advice}; if {printable(word)} is a number, cast it, or set its type to bigint in types of {table}"
                )
        return f"{message}: {advice}"


def lost_value(place: str, type_name: str, value: object) -> DataError:
    """The error for a value that a type cannot hold."""
    if type_name == "string":
        return DataError(f"{place}: {not_utf_8(str(value))}")
    advice = "set another type, such as string, or correct the values"
    if _WITH_THOUSANDS.fullmatch(str(value)):
        advice = _WITHOUT_THOUSANDS
    elif is_decimal_comma(str(value)):
        advice = "write decimal points, or set options: {locale: de} and a decimal type (docs/inputs.md#decimal-commas)"
    found = f"found {printable(brief(value))}, which would be lost"
    return DataError(f"{place}: expected values that {type_name} can hold, {found}: {advice}")


def near_column(name: str, columns: Sequence[str]) -> str:
    """The end of a message about a missing column: the most similar column, or that a CSV was read with a wrong separator."""
    marks = [mark for mark in ";,\t|" if mark in columns[0]] if len(columns) == 1 else []
    if not marks:
        return did_you_mean(name, columns)
    mark = json.dumps(max(marks, key=columns[0].count))
    return (
        f"; found one column, {brief(columns[0])}: if {mark} is the separator, read the file with sep={mark} "
        f"(in a configuration file: options: {{sep: {mark}}} of the location)"
    )


NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
"""A string that is a number, as a pattern of Java and RE2."""

INTEGER = r"^(0|-?[1-9][0-9]*)$"
"""A string that is an integer in its only usual form, as a pattern of Java and RE2: 012, +12 and -0 are other strings."""

_WITH_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?\s*")
_WITHOUT_THOUSANDS = "1,234 may be 1234 or 1.234: write decimal points, and no separators of thousands"

_DECIMAL_COMMA = "a decimal comma: write decimal points, or configure the reader (docs/inputs.md#decimal-commas)"
"""The advice for a string that would be a number if it had a decimal point."""


def is_decimal_comma(text: str) -> bool:
    """Whether a string is a number with a decimal comma, such as 3,5 or -1.234,5."""
    return re.fullmatch(r"\s*[-+]?(\d+|\d{1,3}(\.\d{3})+)?,\d+\s*", text) is not None
