"""What an engine does for an evaluation. There are two: `spark.SparkEngine` and `memory.MemoryEngine`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from spark_recmetrics.aggregation.slices import Sliced
from spark_recmetrics.aggregation.values import Aggregates, Totals
from spark_recmetrics.inputs.data_report import DataCheck
from spark_recmetrics.request.request import Request
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.side_info.known import Known

if TYPE_CHECKING:
    import pandas as pd


class Scored(NamedTuple):
    """PER_USER, and what only the aggregation reads."""

    kept: Any  # all rows and columns: also rows without a model, which hold sums over training rows
    rows: Any  # the rows of users, and those of the slices of items
    users: Any  # one row for each model and user
    per_user: Any  # the same with the columns that are published
    scoring: Scoring | None  # how the ranking metrics were scored, None without any


class Engine(AbstractContextManager["Engine"], Protocol):
    """The stages of an evaluation. Each takes what earlier stages have returned."""

    request: Request

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Release the resources. PER_USER is kept unless there was an error."""

    def read(self) -> Any:
        """The caller's tables as canonical rows. Raises `DataError` if a column is missing or has a wrong type."""

    def learn(self, inputs: Any) -> Known[Any]:
        """Models, items, groups and slices. Raises `ConfigError` or `DataError` if a table contradicts the arguments."""

    def score(self, inputs: Any, known: Known[Any]) -> Scored:
        """PER_USER."""

    def total(self, inputs: Any, scored: Scored) -> Totals:
        """By model, the totals over its users."""

    def row_counts(self, inputs: Any) -> Mapping[str, Mapping[str, Any]]:
        """By table, the number of rows and of each fault, with examples."""

    def look_again(self, inputs: Any, scored: Scored, totals: Totals) -> Mapping[str, Mapping[str, Any]]:
        """By model, further totals, which the data checks need only in some runs.

        For lists that were cut: `n_duplicates` or `n_pair_duplicates`, with `_example` users, and `_users`, the number of users
        that were checked unless these were all. For models that share no pair with the ground truth: `items_in_both`, how many
        of its items they predict, and `items_in_truth`, how many it has. Where no id is in both: `similar_users` and
        `similar_items`, what ids differ in that look the same.
        """

    def unmatched(self, inputs: Any) -> Sequence[DataCheck]:
        """The checks of tables of side information that have no user, or no item, of the ground truth."""

    def aggregate(self, inputs: Any, known: Known[Any], scored: Scored, totals: Totals, sliced: Sliced | None) -> Aggregates:
        """The sums from which values are computed, in addition to the totals."""

    def inputs_of_user(self, inputs: Any, table: str, user: Any) -> Any:
        """The rows of one user, with the lists of one table as predictions; ids are compared as strings."""

    def rows_by_kind(self, inputs: Any, known: Known[Any], request: Request, scoring: Scoring) -> Mapping[int, pd.DataFrame]:
        """The rows of lists, ground truth and training rows on the driver, by `columns.KIND`."""

    def is_predicted(self, inputs: Any, known: Known[Any], user: Any) -> bool:
        """Whether the user is in predictions of any model or table."""

    def rating_range(self, inputs: Any) -> tuple[float, float] | None:
        """The smallest and the largest rating of all users."""

    def calibration_bins(
        self, inputs: Any, known: Known[Any], table: str, n_bins: int, *, by_rating: bool
    ) -> Sequence[Mapping[str, Any]]:
        """Rows `code, bin` with the columns of `calibration.BIN_COLUMNS`."""

    def frame(self, name: str, rows: Sequence[Mapping[str, Any]]) -> Any:
        """A table of the result, `summary` or `data_report`, as a frame of this engine."""

    def release(self, scored: Scored) -> None:
        """Release the memory that PER_USER holds."""


class Evaluated(NamedTuple):
    """What the stages of an evaluation have returned."""

    request: Request
    inputs: Any
    known: Known[Any]
    scored: Scored
    engine: Engine


class CutLists(NamedTuple):
    """A table of lists that were cut before repeats were counted, the counter, and the models without a repeat so far."""

    table: str
    counter: str
    models: list[str]


def cut_lists(request: Request, scored: Scored, totals: Totals) -> Iterator[CutLists]:
    """The lists whose rows have not all been compared with each other, although repeats are faults."""
    if request.convention.duplicates == "first":
        return
    scoring = scored.scoring
    tables = {"predictions": "n_duplicates"} if scoring is not None and scoring.cuts_repeats else {}
    if request.rating_metrics and (scoring is None or request.rating_table != "predictions"):
        tables[request.rating_table] = "n_pair_duplicates"
    for table, counter in tables.items():
        models = [model for model, sums in totals.items() if sums.get(counter) == 0]
        if models:
            yield CutLists(table, counter, models)


def without_pairs(totals: Totals) -> list[str]:
    """The models with lists that share no pair with the ground truth."""
    return [model for model, sums in totals.items() if sums.get("n_matched") == 0 and sums["users_truth_and_predicted"]]


def models_without_common_users(totals: Totals) -> list[str]:
    """The models with lists that share no user with the ground truth."""
    listed = [(model, sums) for model, sums in totals.items() if sums.get("n_recommended") and sums["users_truth"]]
    return [model for model, sums in listed if not sums["users_truth_and_predicted"]]
