"""A sample of the users of an evaluation: everything that is known of them, and of nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.columns import Columns
from spark_recmetrics.conventions import Convention
from spark_recmetrics.diagnostics.overlap_spark import Overlap
from spark_recmetrics.evaluation.spark import Result, evaluate
from spark_recmetrics.inputs.spark import column_of, id_column, read_inputs
from spark_recmetrics.metrics import Metric
from spark_recmetrics.storage import actions, read

N_USERS, N_ROWS = 20_000, 5_000_000
"""About how many users of truth, and rows of one table, are looked at."""

_BITS = 53


@dataclass(frozen=True)
class Setup:
    """The arguments of an evaluation: its tables, perhaps with some users only, and its definitions."""

    predictions: DataFrame
    truth: DataFrame
    train: DataFrame | None
    rating_predictions: DataFrame | None
    catalog: DataFrame | int | None
    metrics: Sequence[Metric]
    convention: Convention
    threshold: float | None
    checks: Mapping[str, str]
    columns: Columns
    model_name: str
    models: Sequence[str] | None
    cast_ids: str | None
    n_buckets: int

    @property
    def by_user(self) -> dict[str, DataFrame]:
        """The tables that have a user in each row."""
        names = ("truth", "predictions", "rating_predictions", "train")
        return {name: frame for name in names if (frame := getattr(self, name)) is not None}

    def evaluated(self, predictions: DataFrame, metrics: Sequence[Metric], **changed: Any) -> Result:
        """The result for these lists, all else being as it is but for what is changed."""
        names = ("truth", "threshold", "convention", "columns", "train", "catalog", "checks", "cast_ids", "n_buckets")
        given = {name: getattr(self, name) for name in names}
        return evaluate(predictions, metrics=metrics, k=None, **given | changed)


@dataclass(frozen=True)
class Sample:
    """The users that are looked at.

    Args:
        setup: The set-up with their rows alone.
        overlap: The tables side by side.
        n_users: About how many users truth has.
        share: How many of them are looked at.
    """

    setup: Setup
    overlap: Overlap
    n_users: int
    share: float

    @classmethod
    @read.example_in_errors()
    def of(cls, whole: Setup) -> Sample:
        """The users whose hashes are smallest.

        Raises:
            DataError: A table lacks a column, or one has a type that cannot serve.
        """
        users = {table: id_column(table, frame, "user", whole.columns.user) for table, frame in whole.by_user.items()}
        n_users = actions.collect_rows(whole.truth.agg(F.approx_count_distinct(users["truth"])))[0][0]
        n_rows = [actions.collect_rows(frame.agg(_n_rows(frame, whole.columns)))[0][0] for frame in whole.by_user.values()]
        share = min(1.0, N_USERS / max(n_users, 1), N_ROWS / max(*n_rows, 1))
        # Where all are looked at, too, so that what is kept and given back is never a table of the caller's.
        few = {table: frame.where(within(share, users[table])) for table, frame in whole.by_user.items()}
        others: dict[str, Any] = {"rating_predictions": few.get("rating_predictions"), "train": few.get("train")}
        setup = replace(whole, truth=few["truth"], predictions=few["predictions"], **others)
        catalog = None if isinstance(setup.catalog, int | Number) else setup.catalog
        given: dict[str, Any] = {"columns": setup.columns, "cast_ids": setup.cast_ids, "n_buckets": setup.n_buckets}
        inputs = read_inputs(setup.predictions, setup.truth, train=setup.train, catalog=catalog, **given)
        for frame in few.values():
            actions.materialize(frame)
        overlap = Overlap(inputs, setup.metrics, setup.convention, setup.checks, setup.models, setup.model_name)
        return cls(setup, overlap, n_users, share)

    @property
    def size(self) -> str:
        """Who is looked at, in words."""
        if self.share == 1:
            return f"all users, about {self.n_users} of them in truth"
        return f"about {round(self.share * self.n_users)} of about {self.n_users} users of truth"


def _n_rows(frame: DataFrame, columns: Columns) -> Column:
    """How many rows a table has, an array of items counting as many."""
    if columns.item not in frame.columns and columns.items in frame.columns:
        return F.coalesce(F.sum(F.greatest(F.size(column_of(frame, columns.items)), F.lit(0))), F.lit(0))
    return F.count(F.lit(1))


def within(share: float, *ids: Column) -> Column:
    """Whether the hash of the ids is among the smallest, of which there is such a share."""
    return hashed(*ids) < int(min(share, 1.0) * 2**_BITS)


def hashed(*ids: Column) -> Column:
    """A number that the ids decide, as texts. It has nothing to do with the hash that a split by the same ids looks at."""
    found = F.xxhash64(F.lit("preflight"), *(id_.cast("string") for id_ in ids))
    return F.shiftrightunsigned(found, 64 - _BITS)
