"""PER_USER from canonical rows in memory, computed by the code of Spark's workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from spark_recmetrics import columns as col
from spark_recmetrics.conventions import Convention
from spark_recmetrics.inputs.memory import (
    MemoryInputs,
    clean_predictions,
    clean_train,
    clean_truth,
    number_of,
    relevant_rows,
    to_pandas,
)
from spark_recmetrics.inputs.row_rules import bad_propensity
from spark_recmetrics.metrics.arrays import numbered
from spark_recmetrics.metrics.rating import Moments, pair_terms
from spark_recmetrics.metrics.registry import finished
from spark_recmetrics.request.request import Request
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.scoring.workers import ROWS_AT_ONCE, Task
from spark_recmetrics.side_info.bands_memory import with_bands
from spark_recmetrics.side_info.known import Known
from spark_recmetrics.side_info.packed import SideRows

if TYPE_CHECKING:
    import pyarrow as pa


def score(inputs: MemoryInputs, known: Known[pd.DataFrame], request: Request, scoring: Scoring | None) -> pd.DataFrame:
    """PER_USER, with the columns that only the aggregation reads."""
    if scoring is None:
        rated = _rated(inputs, known, request)
        return _named(rated.assign(**{name: np.nan for name in col.USER_COUNTERS if name not in rated}), known)
    task = Task(scoring, known.models, None, request.slices.by_side["item"])
    parts = [task.score(*batch) for batch in _batches(rows_by_kind(inputs, known, request, scoring), known)]
    per_user = parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
    if request.rating_metrics and not request.rates_in_lists:
        errors = _rated(inputs, known, request).drop(columns=list(col.USER_COUNTERS), errors="ignore")
        per_user = per_user.merge(errors, on=["model", "user"], how="left")
        if request.slices.by_side["item"]:
            # Errors over all items of a user are not those over the items of a slice.
            names = [name for name in errors if name not in ("model", "user")]
            per_user.loc[per_user[col.ITEM_SLICE].notna(), names] = np.nan
    return _named(per_user, known)


def _named(per_user: pd.DataFrame, known: Known[pd.DataFrame]) -> pd.DataFrame:
    """PER_USER with the names of models, None in rows without a user."""
    names = [None if pd.isna(code) else known.models[int(code)] for code in per_user["model"]]
    per_user = per_user.assign(model=pd.Series(names, index=per_user.index, dtype=object))
    leading = ["model", "user", *col.USER_COUNTERS]
    return per_user[[*leading, *(name for name in per_user if name not in leading)]]


def clean_lists(rows: pa.Table, known: Known[pd.DataFrame], request: Request) -> pd.DataFrame:
    """Canonical predictions without faulty rows, `model` a number."""
    lists = to_pandas(clean_predictions(rows, request.convention, request.policies))
    if "model" not in lists:
        return lists
    code = {model: number for number, model in enumerate(known.models)}
    models = np.fromiter((code.get(model, -1) for model in lists["model"]), dtype=np.int64, count=len(lists))
    return lists.assign(model=models)[models >= 0].reset_index(drop=True)


def rows_by_kind(
    inputs: MemoryInputs, known: Known[pd.DataFrame], request: Request, scoring: Scoring
) -> dict[int, pd.DataFrame]:
    """By `columns.KIND`, the rows of full lists, ground truth and side information."""
    lists = clean_lists(inputs.predicted["predictions"], known, request)
    if "rank" in lists and "scores" not in scoring.needs:
        lists = lists.drop(columns="score", errors="ignore")
    truth = _relevant_only(inputs, request, judged="matched" in scoring.needs)
    truth = with_bands(truth, known.bands["item"]) if "item" in known.bands else truth
    rows = {col.KIND_LIST: _described(lists, known), col.KIND_TRUTH: _described(truth, known)}
    if inputs.train is not None and request.counts_train:
        rows[col.KIND_TRAIN] = _described(to_pandas(clean_train(inputs.train)), known)
    if known.segments is not None:
        rows[col.KIND_SEGMENT] = known.segments
    if inputs.members is not None:
        rows[col.KIND_MEMBER] = to_pandas(inputs.members)
    return rows


def _described(rows: pd.DataFrame, known: Known[pd.DataFrame]) -> pd.DataFrame:
    """The rows with the side information of their items, unless every batch gets all items."""
    if known.items is None or known.items_to_all:
        return rows
    about = dict(zip(known.items["item"], known.items[col.ABOUT_ITEM], strict=True))
    column = np.empty(len(rows), dtype=object)
    column[:] = [about.get(item) for item in rows["item"]]
    return rows.assign(**{col.ABOUT_ITEM: column})


def _relevant_only(inputs: MemoryInputs, request: Request, *, judged: bool) -> pd.DataFrame:
    """Ground truth whose `rating` is NaN if the row is not relevant. With `judged`, `value` has the rating of every row."""
    rows = clean_truth(inputs.truth, request)
    relevant = relevant_rows(rows, request.convention, has_ratings=inputs.has_ratings)
    value = number_of(rows["rating"]).value
    truth = to_pandas(rows.select(["user", "item"]))
    # A NaN rating is relevant under `truthy` and `present`. For graded gains it is a rating of 0.
    truth["rating"] = np.where(relevant, np.nan_to_num(value, nan=0.0, posinf=np.inf, neginf=-np.inf), np.nan)
    if judged:
        truth["value"] = value
    if "propensity" in rows.column_names:
        propensity = number_of(rows["propensity"])
        # The data report rejects wrong propensities later, so nothing may be divided by them here.
        truth["propensity"] = np.where(bad_propensity(propensity), np.nan, propensity.value)
    return truth


def _batches(
    rows: Mapping[int, pd.DataFrame], known: Known[pd.DataFrame]
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame, SideRows]]:
    """Lists, ground truth and side information of batches of users, each with about `ROWS_AT_ONCE` rows."""
    items = known.items if known.items_to_all else None
    kinds = [
        kind for kind in (col.KIND_LIST, col.KIND_TRUTH, col.KIND_TRAIN, col.KIND_SEGMENT, col.KIND_MEMBER) if kind in rows
    ]
    n_parts = -(-sum(len(rows[kind]) for kind in kinds) // ROWS_AT_ONCE)
    if n_parts <= 1:
        yield rows[col.KIND_LIST], rows[col.KIND_TRUTH], _side_rows(rows, items)
        return
    codes, _ = numbered(*(rows[kind]["user"] for kind in kinds))
    part_of = {kind: code % n_parts for kind, code in zip(kinds, codes, strict=True)}
    order = {kind: np.argsort(part.astype(np.uint16), kind="stable") for kind, part in part_of.items()}
    starts = {kind: np.searchsorted(part[order[kind]], np.arange(n_parts + 1)) for kind, part in part_of.items()}
    for part in range(n_parts):
        batch = {
            kind: rows[kind].take(order[kind][starts[kind][part] : starts[kind][part + 1]]).reset_index(drop=True)
            for kind in kinds
        }
        if any(len(batch.get(kind, ())) for kind in (col.KIND_LIST, col.KIND_TRUTH, col.KIND_TRAIN, col.KIND_MEMBER)):
            yield batch[col.KIND_LIST], batch[col.KIND_TRUTH], _side_rows(batch, items)


def _side_rows(rows: Mapping[int, pd.DataFrame], items: pd.DataFrame | None) -> SideRows:
    return SideRows(rows.get(col.KIND_TRAIN), rows.get(col.KIND_SEGMENT), items, rows.get(col.KIND_MEMBER))


def with_numbers(*tables: pd.DataFrame) -> tuple[list[pd.DataFrame], Any]:
    """The tables with numbers instead of ids, which pandas groups exactly, and the users by number."""
    users, ids = numbered(*(rows["user"] for rows in tables))
    items, _ = numbered(*(rows["item"] for rows in tables))
    return [rows.assign(user=user, item=item) for rows, user, item in zip(tables, users, items, strict=True)], ids


def true_ratings(truth: pa.Table, convention: Convention) -> pd.DataFrame:
    """`user, item, true`: the ratings that count."""
    rating = number_of(truth["rating"])
    counts = ~rating.unusable & ((rating.value > 0) if convention.rating_rows == "positive" else True)
    rows: pd.DataFrame = to_pandas(truth.select(["user", "item"])).assign(true=rating.value).loc[counts]
    return rows


def highest_ratings(rows: pd.DataFrame) -> pd.DataFrame:
    """Each pair of numbers once, with its highest rating and the number of its repeats."""
    by_pair = rows.groupby(["user", "item"], sort=False)["true"]
    pairs: pd.DataFrame = by_pair.agg(true="max", repeats="size").reset_index()
    return pairs.assign(repeats=pairs["repeats"] - 1)


def rating_range(truth: pa.Table, convention: Convention) -> tuple[float, float] | None:
    """The smallest and the largest rating that counts, None without one."""
    (rows,), _ = with_numbers(true_ratings(truth, convention))
    ratings = highest_ratings(rows)["true"]
    return (float(ratings.min()), float(ratings.max())) if len(ratings) else None


def distinct_items(lists: pd.DataFrame, request: Request) -> pd.DataFrame:
    """If repeats are dropped: one row per item of a list, with `n_left_out`, its repeats. Users and items are numbers."""
    if request.convention.duplicates != "first":
        return lists
    keys = [name for name in ("model", "user", "item") if name in lists]
    by, ascending = ("rank", True) if "rank" in lists else ("score", False)
    missing: Literal["first", "last"] = "first" if request.convention.nan_scores == "first" else "last"
    best_first = lists.sort_values(by, ascending=ascending, na_position=missing, kind="stable")
    n_left_out = best_first.groupby(keys, sort=False)["item"].transform("size") - 1
    return best_first.assign(n_left_out=n_left_out).drop_duplicates(keys, ignore_index=True)


def _rated(inputs: MemoryInputs, known: Known[pd.DataFrame], request: Request) -> pd.DataFrame:
    """Moments of rating errors, and rating metrics, of each (model, user) with a pair. See `spark.rating_errors`."""
    convention = request.convention
    lists = clean_lists(inputs.predicted[request.rating_table], known, request)
    truth = clean_truth(inputs.truth, request)
    (lists, rated), users = with_numbers(lists, true_ratings(truth, convention))
    lists = distinct_items(lists if "model" in lists else lists.assign(model=0), request)
    score = lists["score"].astype(np.float64)
    lists = lists.assign(score=score)[np.isfinite(score)]
    limits = rating_range(truth, convention) if convention.rating_clip == "truth_range" else None
    if limits is not None:
        lists = lists.assign(score=lists["score"].clip(*limits))
    pairs = lists.merge(highest_ratings(rated), on=["user", "item"])
    repeated = pairs["n_left_out"] if "n_left_out" in pairs else pairs.duplicated(["model", "user", "item"]).astype(np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        values: dict[str, Any] = {
            "n_pairs": 1,
            **pair_terms(pairs["score"] - pairs["true"], pairs["true"], np.abs),
            "n_pair_duplicates": repeated,
            "n_truth_duplicates": pairs["repeats"],
        }
        summed = pairs[["model", "user"]].assign(**values).groupby(["model", "user"], sort=False).sum().reset_index()
        moments = Moments(*(summed[name].to_numpy(np.float64) for name in Moments._fields))
        for metric in request.rating_metrics:
            summed[metric.slug] = finished(metric, metric.definition.compute(moments))
    return summed.assign(user=users[summed["user"]])
