"""The stages of an evaluation in memory, without Spark and Java, for data that fits one machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from spark_recmetrics.aggregation import memory as aggregation
from spark_recmetrics.aggregation.item_intervals import Shared
from spark_recmetrics.aggregation.means import combined
from spark_recmetrics.aggregation.slices import Sliced
from spark_recmetrics.aggregation.values import Aggregates, Totals
from spark_recmetrics.columns import ITEM_SLICE, transient
from spark_recmetrics.evaluation.calibration import BIN_COLUMNS
from spark_recmetrics.evaluation.engine import Scored, cut_lists, models_without_common_users, without_pairs
from spark_recmetrics.inputs.data_report import DataCheck, unmatched_check
from spark_recmetrics.inputs.hashing import USER_TYPE
from spark_recmetrics.inputs.memory import (
    MemoryInputs,
    as_strings,
    cast_ids,
    clean_predictions,
    clean_truth,
    read_inputs,
    relevant_rows,
    repeats_by_user,
    rows_of_user,
    to_pandas,
    type_of_arrow,
)
from spark_recmetrics.inputs.similar_ids import N_SAMPLED, why_different
from spark_recmetrics.inputs.tables import Tables
from spark_recmetrics.metrics.group_sums import per_item_indexes
from spark_recmetrics.metrics.item_counts import counts_of
from spark_recmetrics.request.request import Request
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.request.user_sums import SumSpec
from spark_recmetrics.scoring.memory import (
    clean_lists,
    distinct_items,
    highest_ratings,
    rating_range,
    rows_by_kind,
    score,
    true_ratings,
    with_numbers,
)
from spark_recmetrics.scoring.partial_sums import first_users, part_totals
from spark_recmetrics.scoring.workers import scoring_of
from spark_recmetrics.side_info.bands_memory import with_bands
from spark_recmetrics.side_info.known import Known
from spark_recmetrics.side_info.memory import learn


def _of_model(rows: pa.Table, model: str) -> pa.Table:
    return rows.filter(pc.equal(rows["model"], model)) if "model" in rows.column_names else rows


def _similar(true: pa.Array, others: pa.Array) -> str | None:
    """What ids of the ground truth and of another table differ in that look the same. Only strings can."""
    if not pa.types.is_string(true.type):
        return None
    return why_different(sorted(true.to_pylist())[:N_SAMPLED], others.drop_null().to_pylist())


class MemoryEngine(AbstractContextManager["MemoryEngine"]):
    """Evaluate tables of pandas, polars, pyarrow and others. See `engine.Engine`."""

    def __init__(self, tables: Tables, request: Request) -> None:
        self.tables, self.request = tables, request

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """There is nothing to release."""

    def read(self) -> MemoryInputs:
        """Canonical rows."""
        return read_inputs(self.tables, self.request)

    def learn(self, inputs: MemoryInputs) -> Known[pd.DataFrame]:
        """Models, items, groups and slices."""
        return learn(inputs, self.request)

    def score(self, inputs: MemoryInputs, known: Known[pd.DataFrame]) -> Scored:
        """PER_USER."""
        scoring = scoring_of(self.request, known, has_rank=inputs.has_rank, full_lists=True)
        kept = score(inputs, known, self.request, scoring)
        kept = with_bands(kept, known.bands["user"]) if "user" in known.bands else kept
        kept.attrs[USER_TYPE] = inputs.truth["user"].type
        # A row without a model belongs to no user: it has sums over training rows.
        rows = kept[kept["model"].notna()]
        users = rows[rows[ITEM_SLICE].isna()] if ITEM_SLICE in rows else rows
        return Scored(kept, rows, users, users.drop(columns=transient(map(str, kept))), scoring)

    def total(self, inputs: MemoryInputs, scored: Scored) -> Totals:
        """The totals over users."""
        parts = part_totals(scored.users, SumSpec.of(self.request.metrics, self.request.convention))
        return combined(parts.itertuples(index=False))

    def row_counts(self, inputs: MemoryInputs) -> Mapping[str, Mapping[str, Any]]:
        """The counts that reading the tables returned."""
        return inputs.counts

    def look_again(self, inputs: MemoryInputs, scored: Scored, totals: Totals) -> dict[str, dict[str, Any]]:
        """Further totals."""
        further: dict[str, dict[str, Any]] = {model: {} for model in totals}
        for table, counter, models in cut_lists(self.request, scored, totals):
            repeats = repeats_by_user(self._uncut_lists(inputs, table))
            for model in models:
                of_model = _of_model(repeats, model)
                further[model][counter] = sum(of_model["n_repeats"].to_pylist())
                further[model][f"{counter}_example"] = first_users(as_strings(of_model["user"]).to_pylist())
        without = {"user": models_without_common_users(totals), "item": without_pairs(totals)}
        lists = self._uncut_lists(inputs, "predictions") if any(without.values()) else None
        for column, models in without.items() if lists is not None else ():
            ids = clean_truth(inputs.truth, self.request)[column].unique()
            for model in models:
                listed = _of_model(lists, model)[column].unique()
                n_common = pc.sum(pc.is_in(ids, listed)).as_py() or 0
                further[model] |= {"items_in_both": n_common, "items_in_truth": len(ids)} if column == "item" else {}
                if not n_common:
                    further[model][f"similar_{column}s"] = _similar(ids, listed)
        return further

    def unmatched(self, inputs: MemoryInputs) -> list[DataCheck]:
        """The checks of tables of side information."""
        truth, checks = clean_truth(inputs.truth, self.request), []
        for name, side, table, column in inputs.side_ids(self.request.columns):
            true = truth[side].unique()
            ids = cast_ids(table.column(column), type_of_arrow(true.type)).unique()
            if len(true) and not pc.any(pc.is_in(true, ids)).as_py():
                checks.append(unmatched_check(name, side, _similar(true, ids)))
        return checks

    def _uncut_lists(self, inputs: MemoryInputs, table: str) -> pa.Table:
        """Clean rows with all rows of the lists."""
        return clean_predictions(inputs.uncut_lists(table), self.request.convention, self.request.policies)

    def aggregate(
        self, inputs: MemoryInputs, known: Known[pd.DataFrame], scored: Scored, totals: Totals, sliced: Sliced | None
    ) -> Aggregates:
        """The sums from which values are computed, in addition to the totals."""
        scoring, measured, request = scored.scoring, self.request.measured, self.request
        groups = aggregation.sums_by_group(scored.kept) if measured else []
        items, histogram = None, list[dict[str, Any]]()
        if scoring is not None and scoring.item_columns:
            items = aggregation.counted_items(scored.users, scoring.item_columns, inputs.catalog)
            histogram = aggregation.item_histogram(items, len(scoring.counted))
            if known.items is not None and per_item_indexes(measured):
                groups = [*groups, *aggregation.means_by_group(items, known.items, measured, known.summary.groups)]
        ranges = aggregation.won_in_ranges(
            scored.users, [metric.k for metric in request.metrics if metric.definition.across_users]
        )
        slices = [] if sliced is None else aggregation.slice_means(scored.rows, sliced)
        counts = counts_of(histogram, known.n_items)
        shared, ends = Shared.of(scoring, counts, request.intervals), list[tuple[Any, ...]]()
        if shared is not None and items is not None and scoring is not None:
            lists = aggregation.listed_items(scored.users, items, known.models, scoring.counted, repeats=scoring.has_repeats)
            ends = aggregation.interval_ends(lists, shared)
        return Aggregates(ranges, counts, groups, slices, {} if shared is None else shared.by_metric(ends))

    def inputs_of_user(self, inputs: MemoryInputs, table: str, user: Any) -> MemoryInputs:
        """The rows of one user, with the lists of one table as predictions."""
        return inputs.filtered(table, lambda rows: rows_of_user(rows, user))

    def rows_by_kind(
        self, inputs: MemoryInputs, known: Known[pd.DataFrame], request: Request, scoring: Scoring
    ) -> dict[int, pd.DataFrame]:
        """The rows of lists, ground truth and training rows."""
        return rows_by_kind(inputs, known, request, scoring)

    def is_predicted(self, inputs: MemoryInputs, known: Known[pd.DataFrame], user: Any) -> bool:
        """Whether the user is in predictions of any model or table."""
        for rows in inputs.predicted.values():
            user_rows = rows_of_user(rows, user)
            models = user_rows["model"].to_pylist() if "model" in user_rows.column_names else known.models[: len(user_rows)]
            if set(models) & set(known.models):
                return True
        return False

    def rating_range(self, inputs: MemoryInputs) -> tuple[float, float] | None:
        """The smallest and the largest rating of all users."""
        return rating_range(inputs.truth, self.request.convention)

    def calibration_bins(
        self, inputs: MemoryInputs, known: Known[pd.DataFrame], table: str, n_bins: int, *, by_rating: bool
    ) -> list[dict[str, Any]]:
        """The bins of each model, by the quantiles of its scores. Equal scores are in one bin."""
        request = self.request
        lists = clean_lists(inputs.predicted[table], known, request)
        truth = clean_truth(inputs.truth, self.request)
        if by_rating:
            outcomes = true_ratings(truth, request.convention)
        else:
            relevant = relevant_rows(truth, request.convention, has_ratings=inputs.has_ratings)
            outcomes = to_pandas(truth.select(["user", "item"])).assign(true=relevant.astype(np.float64))
        (lists, outcomes), _ = with_numbers(lists, outcomes)
        lists = distinct_items(lists if "model" in lists else lists.assign(model=0), request)
        lists = lists.assign(score=lists["score"].astype(np.float64))
        lists = lists[np.isfinite(lists["score"])]
        # Users without ground truth are left out. For the others, an item without ground truth is not relevant.
        lists = lists if by_rating else lists[lists["user"].isin(set(outcomes["user"]))]
        rows = lists.merge(highest_ratings(outcomes), on=["user", "item"], how="inner" if by_rating else "left")
        rows = rows.fillna({"true": 0.0})
        bins: list[dict[str, Any]] = []
        for code, model_rows in rows.groupby("model", sort=True):
            scores = model_rows["score"].to_numpy()
            edges = np.quantile(scores, np.arange(1, n_bins) / n_bins, method="inverted_cdf") if n_bins > 1 else np.zeros(0)
            for number, bin_rows in model_rows.groupby(np.searchsorted(edges, scores, side="left")):
                score, outcome = bin_rows["score"], bin_rows["true"]
                values = score.min(), score.max(), score.mean(), len(bin_rows), outcome.mean()
                bins.append({"code": code, "bin": number, **dict(zip(BIN_COLUMNS, values, strict=True))})
        return bins

    def frame(self, name: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
        """A pandas frame."""
        return pd.DataFrame(list(rows))

    def release(self, scored: Scored) -> None:
        """PER_USER is in the result."""
