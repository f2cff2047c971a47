"""The stages of an evaluation on Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from spark_recmetrics.aggregation import spark as aggregation
from spark_recmetrics.aggregation.item_intervals import Shared
from spark_recmetrics.aggregation.means import combined
from spark_recmetrics.aggregation.slices import Sliced
from spark_recmetrics.aggregation.values import Aggregates, Totals
from spark_recmetrics.columns import ITEM_SLICE, Side, transient
from spark_recmetrics.evaluation.calibration import BIN_COLUMNS
from spark_recmetrics.evaluation.engine import CutLists, Scored, cut_lists, models_without_common_users, without_pairs
from spark_recmetrics.inputs.data_report import N_EXAMPLES, DataCheck, unmatched_check
from spark_recmetrics.inputs.similar_ids import N_SAMPLED, folded_forms, why_different
from spark_recmetrics.inputs.spark import (
    Inputs,
    clean_predictions,
    clean_truth,
    column_of,
    folded,
    of_some_users,
    read_inputs,
    relevant_pairs,
    repeats_by_user,
    rows_of_user,
    union_all,
    with_counts,
    with_model_codes,
)
from spark_recmetrics.inputs.tables import Tables
from spark_recmetrics.metrics.group_sums import per_item_indexes
from spark_recmetrics.metrics.item_counts import counts_of
from spark_recmetrics.request.request import Request
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.request.user_sums import SumSpec
from spark_recmetrics.scoring.partial_sums import SCORE_EDGES
from spark_recmetrics.scoring.plan_spark import clean_lists, distinct_items, rating_range, rows_by_kind, score, true_ratings
from spark_recmetrics.scoring.workers import scoring_of
from spark_recmetrics.side_info.bands_spark import with_bands
from spark_recmetrics.side_info.items_spark import parts_of_items
from spark_recmetrics.side_info.known import Known
from spark_recmetrics.side_info.spark import learn
from spark_recmetrics.storage import actions
from spark_recmetrics.storage.actions import RowCounts
from spark_recmetrics.storage.progress import step
from spark_recmetrics.storage.read import causes_named
from spark_recmetrics.storage.table_schemas import DATA_REPORT, SUMMARY

if TYPE_CHECKING:
    import pandas as pd

_ALL_COMPARED, _SOME_COMPARED = 1_000_000, 200_000
"""In tables with more rows than the first number, repeats after the cut-offs are looked for in lists with about as many rows as
the second. This takes less than a twentieth of the time of an evaluation."""

_REPEAT_PARTS = 4
"""The number of partitions of so few rows."""

_CUT_OFF = 10
"""How many times as long as the rows that were read arrays are taken to be."""

_QUANTILE_ACCURACY = 100_000
"""Spark approximates quantiles: the relative error of an edge's rank is at most 1 / accuracy."""


class SparkEngine(AbstractContextManager["SparkEngine"]):
    """Evaluate Spark tables. See `engine.Engine`."""

    def __init__(self, tables: Tables, request: Request) -> None:
        self.tables, self.request = tables, request
        self.session = tables.predictions.sparkSession
        self._resources, self._result = ExitStack(), ExitStack()
        self._resources.enter_context(causes_named())
        self._counts: dict[str, dict[str, Any]] = {}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._result.pop_all()
        with self._result:
            pass
        self._resources.__exit__(kind, error, trace)

    def read(self) -> Inputs:
        """Canonical rows; no job runs."""
        return read_inputs(self.tables, self.request)

    def learn(self, inputs: Inputs) -> Known[DataFrame]:
        """Models, items, groups and slices, by small jobs."""
        return learn(inputs, self.request, self._resources)

    def score(self, inputs: Inputs, known: Known[DataFrame]) -> Scored:
        """PER_USER, which stays in the cluster after its first use."""
        scoring = scoring_of(self.request, known, has_rank=inputs.has_rank, full_lists=self.request.full_lists)
        per_user = score(inputs, known, self.request, scoring)
        kept = actions.materialize(with_bands(per_user, known.bands["user"]) if "user" in known.bands else per_user)
        self._result.callback(actions.release, kept)
        # A row without a model belongs to no user: it has sums over training rows.
        rows = kept.where(F.col("model").isNotNull()) if "trained_groups" in self.request.needs.all else kept
        users = rows.where(F.col(ITEM_SLICE).isNull()) if self.request.slices.by_side["item"] else rows
        return Scored(kept, rows, users, users.drop(*transient(kept.columns)), scoring)

    def total(self, inputs: Inputs, scored: Scored) -> Totals:
        """The totals over users. This job scores them."""
        with step(self.session, "scoring") as seen:
            sums = SumSpec.of(self.request.metrics, self.request.convention)
            totals = combined(actions.collect_rows(aggregation.user_totals(scored.users, sums)))
            seen.rows = sum(counts.get("rows") or 0 for counts in self.row_counts(inputs).values())
            seen.users = max((model_totals.get("users_all", 0) for model_totals in totals.values()), default=0)
        return totals

    def row_counts(self, inputs: Inputs) -> dict[str, dict[str, Any]]:
        """What was counted while the tables were read, and examples of each fault from another job."""
        if not self._counts:
            self._counts = {table: _counted(counts) for table, counts in inputs.counts.items()}
        return self._counts

    def look_again(self, inputs: Inputs, scored: Scored, totals: Totals) -> dict[str, dict[str, Any]]:
        """Further totals. A job looks for repeats in lists that were cut; the others run only where no pair is in both."""
        further: dict[str, dict[str, Any]] = {model: {} for model in totals}
        for lists in cut_lists(self.request, scored, totals):
            if self._are_whole(inputs, lists, scored, totals):
                continue
            with step(self.session, "repeated rows"):
                self._count_repeats(inputs, lists, further)
        models, truth = without_pairs(totals), clean_truth(inputs.truth, self.request)
        if models:
            with step(self.session, "common items"):
                items = truth.select("item").distinct()
                n_items = actions.count_distinct(items)
                for model in models:
                    rows = self._uncut_lists(inputs, "predictions", [model]).select("item")
                    n_common = actions.count_distinct(items.join(rows, "item", "left_semi"))
                    further[model] |= {"items_in_both": n_common, "items_in_truth": n_items}
        different = [("user", model) for model in models_without_common_users(totals)]
        different += [("item", model) for model in models if not further[model]["items_in_both"]]
        for column, model in different:
            with step(self.session, "similar ids"):
                listed = self._uncut_lists(inputs, "predictions", [model])
                further[model][f"similar_{column}s"] = _similar(truth.select(column), listed.select(column))
        return further

    def unmatched(self, inputs: Inputs) -> list[DataCheck]:
        """The checks of side information. A table is joined with all ground truth only if a sample has none of its ids."""
        truth, checks, ids = clean_truth(inputs.truth, self.request), list[DataCheck](), dict[tuple[str, Side], DataFrame]()
        for name, side, table, column in inputs.side_ids(self.request.columns):
            ids[name, side] = table.select(column_of(table, column).cast(truth.schema[side].dataType).alias(side))
        if not ids:
            return checks
        with step(self.session, "side information"):
            sample = actions.collect_rows(truth.select("user", "item").limit(N_SAMPLED))
            if not sample:
                return checks
            matches = (
                rows.where(F.col(side).isin({row[side] for row in sample})).select(F.lit(n)).limit(1)
                for n, ((_, side), rows) in enumerate(ids.items())
            )
            matched = {row[0] for row in actions.collect_rows(union_all(matches))}
            for n, ((name, side), rows) in enumerate(ids.items()):
                true = truth.select(side)
                if n not in matched and not actions.collect_rows(rows.join(true, side, "left_semi").limit(1)):
                    checks.append(unmatched_check(name, side, _similar(true, rows)))
        return checks

    def _uncut_lists(self, inputs: Inputs, table: str, models: Sequence[str], share: float = 1.0) -> DataFrame:
        """Clean rows of these models with all rows of the lists, of about this share of the users."""
        rows = of_some_users(inputs.uncut_lists(table), share)
        rows = clean_predictions(rows, self.request.convention, self.request.policies)
        return rows.where(F.col("model").isin(*models)) if "model" in rows.columns else rows

    def _are_whole(self, inputs: Inputs, lists: CutLists, scored: Scored, totals: Totals) -> bool:
        """Whether no list was longer than its cut: as many rows were scored as read."""
        scoring = scored.scoring
        if scoring is None or scoring.ranks_lists or lists.table != "predictions" or lists.table in inputs.uncut:
            return False
        n_scored = sum(sums.get("n_recommended") or 0 for sums in totals.values())
        return n_scored == self.row_counts(inputs)[lists.table].get("rows")

    def _count_repeats(self, inputs: Inputs, lists: CutLists, further: dict[str, dict[str, Any]]) -> None:
        n_rows = (self.row_counts(inputs)[lists.table].get("rows") or 0) * (_CUT_OFF if lists.table in inputs.uncut else 1)
        share = 1.0 if n_rows <= _ALL_COMPARED else _SOME_COMPARED / n_rows
        by_user = repeats_by_user(self._uncut_lists(inputs, lists.table, lists.models, share), _REPEAT_PARTS)
        keys = [name for name in ("model",) if name in by_user.columns]
        for row in _rows(by_user.groupBy(*keys).agg(F.sum("n_repeats").alias("n"), F.count(F.lit(1)).alias("users"))):
            of_model = further[row.get("model", lists.models[0])]
            of_model |= {lists.counter: row["n"] or 0} | ({f"{lists.counter}_users": row["users"]} if share < 1 else {})
            if row["n"]:
                users = by_user.where(F.col("n_repeats") > 0)
                users = users.where(F.col("model") == row["model"]) if keys else users
                user = F.col("user").cast("string")
                first = users.select(user.alias("user")).orderBy(F.length(user), user).limit(N_EXAMPLES)
                of_model[f"{lists.counter}_example"] = [user["user"] for user in _rows(first)]

    def aggregate(
        self, inputs: Inputs, known: Known[DataFrame], scored: Scored, totals: Totals, sliced: Sliced | None
    ) -> Aggregates:
        """Small jobs over PER_USER."""
        scoring, measured = scored.scoring, self.request.measured
        n_counted, items = 0 if scoring is None else len(scoring.counted), None
        if scoring is not None and scoring.item_columns:
            n_parts = parts_of_items(self.request.n_buckets)
            items = actions.materialize(aggregation.counted_items(scored.users, scoring.item_columns, inputs.catalog, n_parts))
            self._resources.callback(actions.release, items)
        with step(self.session, "aggregating"):
            ranges, histogram, item_sums, user_sums = actions.in_parallel(
                self.session,
                lambda: self._ranges(scored, totals),
                lambda: _rows(aggregation.item_histogram(items, n_counted)) if items is not None and n_counted else [],
                lambda: self._sums_of_items(items, known),
                lambda: _rows(aggregation.sums_by_group(scored.kept)) if measured else [],
            )
        counts = counts_of(histogram, known.n_items)
        with step(self.session, "slices and intervals"):
            slices = [] if sliced is None else _rows(aggregation.slice_means(scored.rows, sliced))
            shared, ends = Shared.of(scoring, counts, self.request.intervals), list[Any]()
            if shared is not None and items is not None and scoring is not None:
                lists = aggregation.listed_items(
                    scored.users, items, known.models, scoring.counted, repeats=scoring.has_repeats
                )
                ends = actions.collect_rows(aggregation.interval_ends(lists, shared))
        groups = [*user_sums, *item_sums]
        return Aggregates(ranges, counts, groups, slices, {} if shared is None else shared.by_metric(ends))

    def _ranges(self, scored: Scored, totals: Totals) -> list[Any]:
        metrics = [metric for metric in self.request.metrics if metric.definition.across_users]
        if not metrics:
            return []
        edges = {model: sums[SCORE_EDGES] for model, sums in totals.items() if SCORE_EDGES in sums}
        return actions.collect_rows(aggregation.won_in_ranges(scored.users, [metric.k for metric in metrics], edges))

    def _sums_of_items(self, items: DataFrame | None, known: Known[DataFrame]) -> list[dict[str, Any]]:
        if items is None or known.items is None or not per_item_indexes(self.request.measured):
            return []
        return _rows(aggregation.means_by_group(items, known.items, self.request.measured, known.summary.groups))

    def inputs_of_user(self, inputs: Inputs, table: str, user: Any) -> Inputs:
        """The rows of one user, with the lists of one table as predictions."""
        return with_counts(inputs.filtered(table, lambda rows: rows_of_user(rows, user)), self.request)

    def rows_by_kind(
        self, inputs: Inputs, known: Known[DataFrame], request: Request, scoring: Scoring
    ) -> dict[int, pd.DataFrame]:
        """The rows of lists, ground truth and training rows, on the driver."""
        import pandas as pd

        frames = rows_by_kind(inputs, known, request, scoring)
        # In objects, integers next to a null stay integers.
        return {
            kind: pd.DataFrame(actions.collect_rows(frame), columns=frame.columns, dtype=object)
            for kind, frame in frames.items()
        }

    def is_predicted(self, inputs: Inputs, known: Known[DataFrame], user: Any) -> bool:
        """Whether the user is in predictions of any model or table."""
        tables = (with_model_codes(rows, known.models) for rows in inputs.predicted.values())
        return any(_rows(rows_of_user(rows, user).select("user").limit(1)) for rows in tables)

    def rating_range(self, inputs: Inputs) -> tuple[float, float] | None:
        """The smallest and the largest rating of all users."""
        lowest, highest = actions.collect_rows(rating_range(inputs.truth, self.request.convention))[0]
        return None if lowest is None else (lowest, highest)

    def calibration_bins(
        self, inputs: Inputs, known: Known[DataFrame], table: str, n_bins: int, *, by_rating: bool
    ) -> list[dict[str, Any]]:
        """The bins of each model, by the quantiles of its scores. Equal scores are in one bin."""
        return _rows(_binned(self._outcomes(inputs, known, table, by_rating=by_rating), n_bins))

    def _outcomes(self, inputs: Inputs, known: Known[DataFrame], table: str, *, by_rating: bool) -> DataFrame:
        """`code, score, outcome`: the clean rows with a finite score, and their rating or relevance (0 or 1)."""
        request = self.request
        rows = distinct_items(clean_lists(inputs.predicted[table], known, request), request)
        code = F.col("model") if "model" in rows.columns else F.lit(0)
        score = F.col("score").cast("double")
        rows = rows.where(F.abs(score) < float("inf")).select(code.alias("code"), "user", "item", score.alias("score"))
        truth = clean_truth(inputs.truth, self.request)
        if by_rating:
            ratings = true_ratings(truth, request.convention).withColumnRenamed("true", "outcome")
            return rows.join(ratings, ["user", "item"])
        relevant = relevant_pairs(truth, request.convention, has_ratings=inputs.has_ratings)
        # Users without ground truth are left out. For the others, an item without ground truth is not relevant.
        outcomes = rows.join(truth.select("user").distinct(), "user", "left_semi").join(relevant, ["user", "item"], "left")
        return outcomes.withColumn("outcome", F.col("rating").isNotNull().cast("double"))

    def frame(self, name: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
        """A Spark frame."""
        schema = {"summary": SUMMARY, "data_report": DATA_REPORT}[name]
        frame: DataFrame = self.session.createDataFrame([tuple(row[column] for column in schema.names) for row in rows], schema)
        return frame

    def release(self, scored: Scored) -> None:
        """Release the memory that PER_USER holds in the cluster. Spark computes it again if it is read later."""
        actions.release(scored.kept)


def _similar(true: DataFrame, others: DataFrame) -> str | None:
    """What ids of the ground truth and of another table differ in that look the same. Only strings can."""
    (column,) = true.columns
    if not isinstance(true.schema[column].dataType, StringType):
        return None
    ids = _sampled(true)
    return why_different(ids, _sampled(others.where(folded(F.col(column)).isin(folded_forms(ids)))))


def _sampled(ids: DataFrame) -> list[str]:
    """The first of the ids in the only column, each once."""
    return [row[0] for row in actions.collect_rows(ids.distinct().orderBy(ids.columns[0]).limit(N_SAMPLED))]


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in actions.collect_rows(frame)]


def _counted(counts: RowCounts) -> dict[str, Any]:
    """What was counted of a table, with examples of each fault."""
    numbers = counts.observed_counts()
    keys = [key for key in ("model", "user", "item") if key in counts.rows.columns]
    named = (F.concat(F.lit(f"{key} "), F.coalesce(F.col(key).cast("string"), F.lit("null"))) for key in keys)
    ids = F.concat_ws(", ", *named)
    for check, fault in counts.faults.items():
        if numbers.get(check):
            numbers[f"{check}_example"] = actions.example_values(counts.rows.where(fault).select(ids), sep="; ")
    return numbers


def _binned(rows: DataFrame, n_bins: int) -> DataFrame:
    binned = rows.withColumn("bin", F.lit(0))
    if n_bins > 1:
        shares = F.array(*(F.lit(number / n_bins) for number in range(1, n_bins)))
        edges = rows.groupBy("code").agg(F.percentile_approx("score", shares, _QUANTILE_ACCURACY).alias("edges"))
        n_below = F.size(F.filter(F.col("edges"), lambda edge: edge < F.col("score")))
        binned = rows.join(F.broadcast(edges), "code").withColumn("bin", n_below)
    values = F.min("score"), F.max("score"), F.avg("score"), F.count(F.lit(1)), F.avg("outcome")
    return binned.groupBy("code", "bin").agg(*(column.alias(name) for name, column in zip(BIN_COLUMNS, values, strict=True)))
