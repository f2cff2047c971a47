"""Which rows are faulty, left out, or relevant: the same comparisons, `&`, `|` and `~` for Spark columns and numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np

from spark_recmetrics.conventions import Convention
from spark_recmetrics.inputs.tables import CanonicalTables, Rows
from spark_recmetrics.request.request import Request

IDS = ("model", "user", "item")
"""Columns of canonical rows that must not be null."""


class Number(NamedTuple):
    """A column of doubles, and whether each value is null, NaN or infinite."""

    value: Any
    null: Any
    nan: Any
    infinite: Any

    @property
    def missing(self) -> Any:
        """Whether it is null or NaN."""
        return self.null | self.nan

    @property
    def unusable(self) -> Any:
        """Whether it is null, NaN or infinite."""
        return self.missing | self.infinite


class RowColumns(NamedTuple):
    """The names of the columns of canonical rows; by name, which values are null, and the values as doubles."""

    names: Collection[str]
    null: Callable[[str], Any]
    number: Callable[[str], Number]


def faults_by_table(
    tables: CanonicalTables[Rows, Any], request: Request, columns_of: Callable[[Rows], RowColumns]
) -> dict[str, tuple[Rows, dict[str, Any]]]:
    """By table that is counted, its rows, and by check, whether a row fails it."""
    faults = {"truth": (tables.truth, truth_faults(columns_of(tables.truth)))}
    if tables.train is not None and request.counts_train:
        faults["train"] = (tables.train, {"null_ids": null_ids(columns_of(tables.train))})
    return faults | {table: (rows, prediction_faults(columns_of(rows))) for table, rows in tables.predicted.items()}


def null_ids(rows: RowColumns) -> Any:
    """Whether the model, user or item of a row is null."""
    return reduce(or_, (rows.null(name) for name in IDS if name in rows.names))


def prediction_faults(rows: RowColumns) -> dict[str, Any]:
    """By check, whether a row of predictions fails it."""
    faults = {"null_ids": null_ids(rows)}
    if "rank" in rows.names:
        rank = rows.number("rank")
        faults["bad_ranks"] = rank.null | (rank.value < 1)
    if "score" in rows.names:
        score = rows.number("score")
        faults |= {"nan_scores": score.missing, "infinite_scores": score.infinite}
    return faults | _unknown_items(rows)


def first_ranks(rows: RowColumns) -> dict[str, Any]:
    """By name of a count, whether a row of predictions has this rank. They show whether ranks start at 0 or at 1."""
    rank = rows.number("rank").value if "rank" in rows.names else None
    return {} if rank is None else {"ranks_0": rank == 0, "ranks_1": rank == 1}


def truth_faults(rows: RowColumns) -> dict[str, Any]:
    """By check, whether a row of the ground truth fails it."""
    faults = {"null_ids": null_ids(rows), "nan_ratings": rows.number("rating").unusable}
    if "propensity" in rows.names:
        faults["bad_propensities"] = bad_propensity(rows.number("propensity"))
    return faults | _unknown_items(rows)


def bad_propensity(propensity: Number) -> Any:
    """Whether a propensity is not a probability above 0."""
    return propensity.missing | (propensity.value <= 0) | (propensity.value > 1)


def _unknown_items(rows: RowColumns) -> dict[str, Any]:
    return {"unknown_items": ~rows.null("item") & rows.null("in_catalog")} if "in_catalog" in rows.names else {}


def left_out(faults: Mapping[str, Any], convention: Convention, policies: Mapping[str, str]) -> list[Any]:
    """The faults whose rows are left out: null ids, impossible ranks, and those that a policy drops."""
    checks = {"null_ids", "bad_ranks", *(check for check, policy in policies.items() if policy == "drop")}
    if convention.nan_scores == "drop":
        checks |= {"nan_scores", "nan_ratings"}
    return [fault for check, fault in faults.items() if check in checks]


def is_relevant(rating: Number, convention: Convention, *, single: bool) -> Any:
    """Whether a rating is relevant. A NaN is relevant under `truthy`, a null only under `present`."""
    if convention.relevance == "present":
        return rating.null | ~rating.null
    if convention.relevance == "truthy":
        return ~rating.null & (rating.nan | (rating.value != 0))
    if convention.relevance == "positive":
        return ~rating.missing & (rating.value > 0)
    # If ratings are of single precision, so is the threshold: the float 4.1 is below the double 4.1.
    return ~rating.missing & (rating.value >= (float(np.float32(convention.threshold)) if single else convention.threshold))
