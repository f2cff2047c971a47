"""PER_USER from canonical Spark tables, as a plan. Nothing runs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.columns import (
    ABOUT_ITEM,
    ITEM_SLICE,
    KIND_ITEM,
    KIND_LIST,
    KIND_SEGMENT,
    KIND_TRAIN,
    KIND_TRUTH,
    USER_COUNTERS,
)
from spark_recmetrics.inputs.buckets_spark import bucket_numbers, bucket_of, in_buckets
from spark_recmetrics.inputs.spark import clean_predictions, clean_train, clean_truth, relevant_only, with_model_codes
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.ranking.window_spark import first_after, top_rows, without_repeats
from spark_recmetrics.request.per_user import SumSpec
from spark_recmetrics.scoring.exchange_spark import gathered, mixed
from spark_recmetrics.scoring.rating_errors_spark import rating_errors
from spark_recmetrics.scoring.workers_spark import score_lists, score_users
from spark_recmetrics.side_info.bands_spark import with_bands
from spark_recmetrics.side_info.items_spark import with_items

if TYPE_CHECKING:
    from spark_recmetrics.inputs.spark import Inputs
    from spark_recmetrics.request.request import Request
    from spark_recmetrics.request.scoring import Scoring
    from spark_recmetrics.side_info.known import Known

LONGEST_ARRAY = 1_000
"""The maximum number of recommendations of a user in a single row. Spark may send ten thousand such rows at once."""


def score(inputs: Inputs, known: Known[DataFrame], request: Request, scoring: Scoring | None) -> DataFrame:
    """PER_USER, with the columns that only the aggregation reads."""
    rated = bool(request.rating_metrics) and not request.rates_in_lists
    if scoring is None:
        return _in_order(_rated(inputs, known, request, inputs.counts["truth"].observed_rows(), counted=True), known.models)
    sums = None if rated else SumSpec.of(request.metrics, request.convention)
    options = scoring, known.models, sums, request.slices.by_side["item"]
    if scoring.ranks_lists:
        rows = rows_by_kind(inputs, known, request, scoring)
        if (known.items is not None and known.items_to_all) or not gathers(request, len(known.models)):
            rows = _in_buckets(rows, known, request)
        columns = {kind: of_kind.drop("bucket").schema for kind, of_kind in rows.items()}
        per_user = score_lists(_by_user(rows, request), columns, *options)
    else:
        rows = _in_buckets(_other_rows(inputs, known, request, scoring), known, request)
        # One shuffle moves the rows of all kinds.
        side_rows = mixed(rows, filled=True).repartition(request.n_buckets, "bucket")
        per_user = score_users(ranked_lists(inputs, known, request, scoring), side_rows, *options)
    if rated:
        # Every pair is in the ground truth, so every user with a pair has a row on the left, where all rows are counted.
        errors = _rated(inputs, known, request, inputs.truth, counted="rating_predictions" in inputs.predicted)
        per_user = per_user.join(errors.drop(*USER_COUNTERS), ["model", "user"], "left")
        if request.slices.by_side["item"]:
            # Errors over all items of a user are not those over the items of a slice.
            names = {*Moments._fields, "n_pair_duplicates", *(metric.slug for metric in request.rating_metrics)}
            over_all_items = {name: F.when(F.col(ITEM_SLICE).isNull(), F.col(name)) for name in names}
            per_user = per_user.withColumns(over_all_items)
    return _in_order(per_user, known.models)


def clean_lists(predictions: DataFrame, known: Known[DataFrame], request: Request) -> DataFrame:
    """Canonical predictions without faulty rows, `model` a number."""
    return with_model_codes(clean_predictions(predictions, request.convention, request.policies), known.models)


def distinct_items(lists: DataFrame, request: Request) -> DataFrame:
    """If the convention drops repeats: one row per item of a list."""
    return without_repeats(lists, request.convention) if request.convention.duplicates == "first" else lists


def rows_by_kind(inputs: Inputs, known: Known[DataFrame], request: Request, scoring: Scoring) -> dict[int, DataFrame]:
    """By `columns.KIND`, the rows of full lists, ground truth and side information."""
    lists = _described(_lists(inputs.counts["predictions"].observed_rows(), known, request, scoring), known)
    return {KIND_LIST: lists.drop("bucket"), **_other_rows(inputs, known, request, scoring)}


def ranked_lists(inputs: Inputs, known: Known[DataFrame], request: Request, scoring: Scoring) -> DataFrame:
    """The first rows of every list, ranked by a window function, partitioned by bucket of users."""
    rows = _lists(inputs.counts["predictions"].observed_rows(), known, request, scoring)
    k = scoring.longest
    if scoring.given_ranks and k is not None and "bucket" not in rows.columns:
        # This reads the table a second time. It yields few rows, because most lists end at k or before.
        after = first_after(_lists(inputs.predicted["predictions"], known, request, scoring), k)
        ranked = in_buckets(rows.where(F.col("rank") <= k).union(after.select(*rows.columns)), request.n_buckets)
    else:
        rows = distinct_items(in_buckets(rows, request.n_buckets), request)
        if request.convention.candidates == "judged":
            rows = _judged_first(rows, _clean_truth(inputs.truth, request), request.n_buckets)
        ranked = top_rows(rows, k=k, convention=request.convention, trust_rank=scoring.given_ranks, cuts=scoring.cuts)
    kept = ranked if "scores" in scoring.needs else ranked.drop("score")
    kept = kept.withColumn("score", F.col("score").cast("double")) if "score" in kept.columns else kept
    return _described(kept, known)


def _judged_first(rows: DataFrame, truth: DataFrame, n_buckets: int) -> DataFrame:
    """The rows with `judged`: whether the ground truth has the pair."""
    pairs = truth.select("user", "item").distinct().withColumn("judged", F.lit(True))
    joined = rows.join(pairs, ["user", "item"], "left").withColumn("judged", F.coalesce("judged", F.lit(False)))
    return joined.select(*rows.columns, "judged").repartition(n_buckets, "bucket")


def _lists(predictions: DataFrame, known: Known[DataFrame], request: Request, scoring: Scoring) -> DataFrame:
    """Clean predictions with the columns that metrics read."""
    rows = clean_lists(predictions, known, request)
    return rows.drop("score") if "rank" in rows.columns and "scores" not in scoring.needs else rows


def _clean_truth(truth: DataFrame, request: Request) -> DataFrame:
    return clean_truth(truth, request.convention, request.policies)


def _other_rows(inputs: Inputs, known: Known[DataFrame], request: Request, scoring: Scoring) -> dict[int, DataFrame]:
    """By `columns.KIND`, the rows of the ground truth and side information."""
    judged = "matched" in scoring.needs
    truth = _clean_truth(inputs.counts["truth"].observed_rows(), request)
    truth = relevant_only(truth, request.convention, has_ratings=inputs.has_ratings, judged=judged)
    truth = with_bands(truth, known.bands["item"]) if "item" in known.bands else truth
    rows = {KIND_TRUTH: _described(truth, known)}
    if "train" in inputs.counts:
        train = clean_train(inputs.counts["train"].observed_rows())
        rows[KIND_TRAIN] = _described(train, known) if "trained_groups" in scoring.needs else train
    if known.segments is not None:
        rows[KIND_SEGMENT] = known.segments
    return rows


def _described(rows: DataFrame, known: Known[DataFrame]) -> DataFrame:
    """The rows with the side information of their items, unless that is sent to all buckets."""
    return rows if known.items is None or known.items_to_all else with_items(rows, known.items)


def _in_buckets(rows: Mapping[int, DataFrame], known: Known[DataFrame], request: Request) -> dict[int, DataFrame]:
    """The rows with their bucket, and the side information of items for every bucket."""
    bucketed = {kind: of_kind.select(bucket_of(F.col("user"), request.n_buckets), "*") for kind, of_kind in rows.items()}
    if known.items is not None and known.items_to_all:
        every = F.explode(F.array(*map(F.lit, bucket_numbers(request.n_buckets)))).alias("bucket")
        bucketed[KIND_ITEM] = known.items.select(every, "item", ABOUT_ITEM)
    return bucketed


def _by_user(rows: Mapping[int, DataFrame], request: Request) -> DataFrame:
    """All rows, together for each user. The workers rank the lists."""
    if "bucket" not in rows[KIND_LIST].columns:
        return gathered(rows)
    # Spark sorts by radix if the key is a single column of integers.
    return mixed(rows).repartition(request.n_buckets, "bucket").sortWithinPartitions("user").drop("bucket")


def gathers(request: Request, n_models: int) -> bool:
    """Whether all rows of a user are sent as a single row. Spark sends thousands of these to Python at once."""
    return request.max_per_user is not None and request.max_per_user * n_models <= LONGEST_ARRAY


def _rated(inputs: Inputs, known: Known[DataFrame], request: Request, truth: DataFrame, *, counted: bool) -> DataFrame:
    """Moments of rating errors and rating metrics per user, `model` a number. `counted`: count the rows that are read."""
    table = request.rating_table
    rows = inputs.counts[table].observed_rows() if counted else inputs.predicted[table]
    rows = distinct_items(clean_lists(rows, known, request).drop("bucket"), request)
    errors = rating_errors(rows, _clean_truth(truth, request), request.rating_metrics, request.convention)
    return errors if "model" in errors.columns else errors.withColumn("model", F.lit(0))


def _in_order(per_user: DataFrame, models: Sequence[str]) -> DataFrame:
    """The columns of PER_USER in order: model (its name), user, counters (null without ranking metrics), metrics."""
    names = per_user.columns
    # Rows that belong to no user have no model. In ANSI mode, Spark assumes that `element_at` is never null, and drops filters
    # for nulls.
    model = F.get(F.array(*(F.lit(name) for name in models)), F.col("model")).alias("model")
    counters = [name if name in names else F.lit(None).cast("long").alias(name) for name in USER_COUNTERS]
    others = (name for name in names if name not in ("model", "user", *USER_COUNTERS))
    return per_user.select(model, "user", *counters, *others)
