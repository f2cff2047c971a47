"""A sample of the users of an evaluation: everything that is known of them, and of nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.columns import Columns
from spark_recmetrics.diagnostics.overlap_spark import Overlap
from spark_recmetrics.evaluation.result import Result
from spark_recmetrics.evaluation.stages import evaluate
from spark_recmetrics.inputs.spark import column_of, id_column, read_inputs
from spark_recmetrics.inputs.tables import Tables
from spark_recmetrics.metrics import Metric, parse
from spark_recmetrics.request.request import Request
from spark_recmetrics.storage import actions, read

N_USERS, N_ROWS = 20_000, 5_000_000
"""About how many users of truth, and rows of one table, are looked at."""

_BITS = 53


@dataclass(frozen=True)
class Setup:
    """An evaluation that is checked: its tables, perhaps with some users only, and what is asked."""

    tables: Tables
    request: Request

    @property
    def by_user(self) -> dict[str, DataFrame]:
        """The tables that have a user in each row."""
        names = ("truth", "predictions", "rating_predictions", "train")
        return {name: frame for name in names if (frame := getattr(self.tables, name)) is not None}

    def evaluated(self, predictions: DataFrame, metrics: Sequence[Metric], **changed: Any) -> Result:
        """The result for these lists, everything else unchanged except for what is given."""
        tables, request = self.tables, self.request
        given: dict[str, Any] = {
            "truth": tables.truth,
            "threshold": request.convention.threshold if request.has_threshold else None,
            "convention": request.convention,
            "columns": request.columns,
            "train": tables.train,
            "catalog": request.catalog_size if tables.catalog is None else tables.catalog,
            "checks": request.policies,
            "cast_ids": request.cast_ids,
            "n_buckets": request.n_buckets,
        }
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
        columns = whole.request.columns
        users = {table: id_column(table, frame, "user", columns.user) for table, frame in whole.by_user.items()}
        n_users = actions.collect_rows(whole.tables.truth.agg(F.approx_count_distinct(users["truth"])))[0][0]
        n_rows = [actions.collect_rows(frame.agg(_n_rows(frame, columns)))[0][0] for frame in whole.by_user.values()]
        share = min(1.0, N_USERS / max(n_users, 1), N_ROWS / max(*n_rows, 1))
        # Also where all are looked at, so that what is kept and released is never a table of the caller's.
        few = {table: frame.where(within(share, users[table])) for table, frame in whole.by_user.items()}
        setup = replace(whole, tables=replace(whole.tables, **few))
        lists = replace(setup.request, metrics=(parse("hit"),), has_threshold=False)
        inputs = read_inputs(replace(setup.tables, rating_predictions=None), lists, reads=("train", "catalog"))
        for frame in few.values():
            actions.materialize(frame)
        return cls(setup, Overlap(inputs, setup.request), n_users, share)

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
