"""PER_USER from canonical Spark tables, as a plan: scored lists, and rating errors. No job runs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StructType

from spark_recmetrics import columns as col
from spark_recmetrics.conventions import Convention
from spark_recmetrics.inputs.buckets_spark import bucket_numbers, bucket_of, in_buckets
from spark_recmetrics.inputs.spark import (
    Inputs,
    clean_predictions,
    clean_train,
    clean_truth,
    number_of,
    relevant_only,
    union_all,
    with_model_codes,
)
from spark_recmetrics.metrics import Metric
from spark_recmetrics.metrics.rating import Moments, pair_terms
from spark_recmetrics.metrics.registry import quotient
from spark_recmetrics.ranking.window_spark import first_after, top_rows, without_repeats
from spark_recmetrics.request.request import Request
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.request.user_sums import SumSpec
from spark_recmetrics.scoring.pandas_udfs_spark import score_lists, score_users
from spark_recmetrics.scoring.workers import Task
from spark_recmetrics.side_info.bands_spark import with_bands
from spark_recmetrics.side_info.items_spark import with_items
from spark_recmetrics.side_info.known import Known

LONGEST_ARRAY = 1_000
"""The maximum number of recommendations of a user in a single row. Spark may send ten thousand such rows at once."""


def score(inputs: Inputs, known: Known[DataFrame], request: Request, scoring: Scoring | None) -> DataFrame:
    """PER_USER, with the transient columns for the aggregation."""
    rated = bool(request.rating_metrics) and not request.rates_in_lists
    if scoring is None:
        return _in_order(_rated(inputs, known, request, inputs.counts["truth"].observed_rows(), counted=True), known.models)
    sums = None if rated else SumSpec.of(request.metrics, request.convention)
    task = Task(scoring, known.models, sums, request.slices.by_side["item"])
    if scoring.ranks_lists:
        rows = rows_by_kind(inputs, known, request, scoring)
        if (known.items is not None and known.items_to_all) or not gathers(request, len(known.models)):
            rows = _in_buckets(rows, known, request)
            # Spark sorts by radix if the key is a single column of integers.
            by_user = mixed(rows).repartition(request.n_buckets, "bucket").sortWithinPartitions("user").drop("bucket")
        else:
            by_user = gathered(rows)
        per_user = score_lists(by_user, {kind: table.drop("bucket").schema for kind, table in rows.items()}, task)
    else:
        rows = _in_buckets(_other_rows(inputs, known, request, scoring), known, request)
        # One shuffle moves the rows of all kinds.
        side_rows = mixed(rows, filled=True).repartition(request.n_buckets, "bucket")
        per_user = score_users(ranked_lists(inputs, known, request, scoring), side_rows, task)
    if rated:
        # Every pair is in the ground truth, so every user with a pair has a row on the left, where all rows are counted.
        errors = _rated(inputs, known, request, inputs.truth, counted="rating_predictions" in inputs.predicted)
        per_user = per_user.join(errors.drop(*col.USER_COUNTERS), ["model", "user"], "left")
        if request.slices.by_side["item"]:
            # Errors over all items of a user are not those over the items of a slice.
            names = {*Moments._fields, "n_pair_duplicates", *(metric.slug for metric in request.rating_metrics)}
            over_all_items = {name: F.when(F.col(col.ITEM_SLICE).isNull(), F.col(name)) for name in names}
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
    return {col.KIND_LIST: lists.drop("bucket"), **_other_rows(inputs, known, request, scoring)}


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
            rows = _judged_first(rows, clean_truth(inputs.truth, request), request.n_buckets)
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
    """Clean predictions, without scores that no metric reads."""
    rows = clean_lists(predictions, known, request)
    return rows.drop("score") if "rank" in rows.columns and "scores" not in scoring.needs else rows


def _other_rows(inputs: Inputs, known: Known[DataFrame], request: Request, scoring: Scoring) -> dict[int, DataFrame]:
    """By `columns.KIND`, the rows of the ground truth and side information."""
    judged = "matched" in scoring.needs
    truth = clean_truth(inputs.counts["truth"].observed_rows(), request)
    truth = relevant_only(truth, request.convention, has_ratings=inputs.has_ratings, judged=judged)
    truth = with_bands(truth, known.bands["item"]) if "item" in known.bands else truth
    rows = {col.KIND_TRUTH: _described(truth, known)}
    if "train" in inputs.counts:
        train = clean_train(inputs.counts["train"].observed_rows())
        rows[col.KIND_TRAIN] = _described(train, known) if "trained_groups" in scoring.needs else train
    if known.segments is not None:
        rows[col.KIND_SEGMENT] = known.segments
    return rows


def _described(rows: DataFrame, known: Known[DataFrame]) -> DataFrame:
    """The rows with the side information of their items, unless every bucket gets all items."""
    return rows if known.items is None or known.items_to_all else with_items(rows, known.items)


def _in_buckets(rows: Mapping[int, DataFrame], known: Known[DataFrame], request: Request) -> dict[int, DataFrame]:
    """The rows with their bucket, and the side information of items for every bucket."""
    bucketed = {kind: table.select(bucket_of(F.col("user"), request.n_buckets), "*") for kind, table in rows.items()}
    if known.items is not None and known.items_to_all:
        every = F.explode(F.array(*map(F.lit, bucket_numbers(request.n_buckets)))).alias("bucket")
        bucketed[col.KIND_ITEM] = known.items.select(every, "item", col.ABOUT_ITEM)
    return bucketed


def mixed(tables: Mapping[int, DataFrame], *, filled: bool = False) -> DataFrame:
    """The union of tables by kind. If there are several, the column `columns.KIND` has the kind of each row."""
    # A union needs one shuffle. A join would shuffle lists and ground truth once more.
    # With `filled`, missing integers are 0: pandas would read a column with a null as doubles, in which close ids are equal.
    if len(tables) == 1:
        return next(iter(tables.values()))
    types = {field.name: field.dataType for rows in tables.values() for field in rows.schema}

    def marked(kind: int, rows: DataFrame) -> DataFrame:
        missing = {
            name: F.lit(0 if filled and isinstance(type_, IntegralType) else None).cast(type_).alias(name)
            for name, type_ in types.items()
            if name not in rows.columns
        }
        return rows.select(*(missing.get(name, F.col(name)) for name in types), F.lit(kind).cast("byte").alias(col.KIND))

    return union_all(marked(kind, rows) for kind, rows in tables.items())


def gathered(tables: Mapping[int, DataFrame]) -> DataFrame:
    """A row for each user: `user`, never null, and for each kind an array of its rows, in the column `columns.rows_of_kind`."""
    # Spark collects a user's rows within a partition before the shuffle. It shuffles far fewer rows, and need not sort by user.
    structs = {kind: StructType([field for field in rows.schema if field.name != "user"]) for kind, rows in tables.items()}

    def in_column(kind: int, rows: DataFrame) -> DataFrame:
        columns = {other: F.lit(None).cast(struct) for other, struct in structs.items()}
        columns[kind] = F.struct(*structs[kind].names)
        return rows.select("user", *(column.alias(col.rows_of_kind(other)) for other, column in columns.items()))

    rows = union_all(in_column(kind, rows) for kind, rows in tables.items())
    # A null is a row of another kind, and is not collected.
    return rows.groupBy("user").agg(*(F.collect_list(col.rows_of_kind(kind)).alias(col.rows_of_kind(kind)) for kind in structs))


def gathers(request: Request, n_models: int) -> bool:
    """Whether all rows of a user are sent as a single row."""
    return request.max_per_user is not None and request.max_per_user * n_models <= LONGEST_ARRAY


def _rated(inputs: Inputs, known: Known[DataFrame], request: Request, truth: DataFrame, *, counted: bool) -> DataFrame:
    """Moments of rating errors and rating metrics per user, `model` a number. With `counted`, the rows read are counted."""
    table = request.rating_table
    rows = inputs.counts[table].observed_rows() if counted else inputs.predicted[table]
    rows = distinct_items(clean_lists(rows, known, request).drop("bucket"), request)
    errors = rating_errors(rows, clean_truth(truth, request), request.rating_metrics, request.convention)
    return errors if "model" in errors.columns else errors.withColumn("model", F.lit(0))


def _in_order(per_user: DataFrame, models: Sequence[str]) -> DataFrame:
    """The columns of PER_USER in order: model (its name), user, counters (null without ranking metrics), metrics."""
    names = per_user.columns
    # Rows without a user have no model. In ANSI mode, Spark assumes that `element_at` is never null, and drops null filters.
    model = F.get(F.array(*(F.lit(name) for name in models)), F.col("model")).alias("model")
    counters = [name if name in names else F.lit(None).cast("long").alias(name) for name in col.USER_COUNTERS]
    others = (name for name in names if name not in ("model", "user", *col.USER_COUNTERS))
    return per_user.select(model, "user", *counters, *others)


def rating_errors(predictions: DataFrame, truth: DataFrame, metrics: Sequence[Metric], convention: Convention) -> DataFrame:
    """Moments of the rating errors, and the rating metrics, of each (model, user) with a pair: a join and a `groupBy`."""
    # Rows with an unusable score or rating make no pair. `n_pair_duplicates` are pairs that repeat an item, or that
    # `without_repeats` dropped; `n_truth_duplicates` are rows of the ground truth that repeat an item with a pair.
    predicted = predictions.withColumn("score", F.col("score").cast("double"))
    predicted = predicted.where(~number_of(F.col("score")).unusable)
    if convention.rating_clip == "truth_range":
        limits = rating_range(truth, convention)
        clipped = F.greatest("lowest", F.least("highest", "score"))
        predicted = predicted.crossJoin(F.broadcast(limits)).withColumn("score", clipped)
    pairs = predicted.join(true_ratings(truth, convention), ["user", "item"])
    pairs = pairs.withColumn("error", F.col("score") - F.col("true"))
    n_pairs, terms = F.count(F.lit(1)), pair_terms(F.col("error"), F.col("true"), F.abs)
    repeated = F.sum("n_left_out") if "n_left_out" in pairs.columns else n_pairs - F.count_distinct("item")
    moments = pairs.groupBy(*(key for key in ("model", "user") if key in pairs.columns)).agg(
        n_pairs.alias("n_pairs"),
        repeated.alias("n_pair_duplicates"),
        F.sum("repeats").alias("n_truth_duplicates"),
        *(F.sum(term).alias(name) for name, term in terms.items()),
    )
    return moments.select("*", *(_value(metric).alias(metric.slug, metadata={"label": str(metric)}) for metric in metrics))


def rating_range(truth: DataFrame, convention: Convention) -> DataFrame:
    """`lowest, highest`: one row with the range of the true ratings that count."""
    return true_ratings(truth, convention).agg(F.min("true").alias("lowest"), F.max("true").alias("highest"))


def true_ratings(truth: DataFrame, convention: Convention) -> DataFrame:
    """`user, item, true, repeats`: the ratings that count, each pair once with its highest rating."""
    rating = F.col("rating").cast("double")
    rated = truth.where(~number_of(rating).unusable & (F.lit(convention.rating_rows == "all") | (rating > 0)))
    return rated.groupBy("user", "item").agg(F.max(rating).alias("true"), (F.count(F.lit(1)) - 1).alias("repeats"))


def _value(metric: Metric) -> Column:
    """The metric of each row of moments, null if undefined."""
    sums = metric.definition.compute(Moments(*map(F.col, Moments._fields)))
    pooled = metric.definition.pooled or quotient
    return F.when(sums.count > sums.floor, pooled(sums))
