"""The plan of an evaluation: from the caller's tables to PER_USER. Nothing runs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
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
from spark_recmetrics.inputs.spark import (
    clean_predictions,
    clean_truth,
    prediction_faults,
    relevant_only,
    train_faults,
    truth_counts,
    truth_faults,
    with_model_codes,
)
from spark_recmetrics.metrics.group_sums import per_item_indexes
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.ranking.window_spark import first_behind, top_rows, without_repeats
from spark_recmetrics.request.needs import ROWS_OF_TRAIN
from spark_recmetrics.request.per_user import SumSpec
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.scoring.exchange_spark import gathered, mixed
from spark_recmetrics.scoring.rating_errors_spark import rating_errors
from spark_recmetrics.scoring.workers_spark import score_lists, score_users
from spark_recmetrics.side_info.bands_spark import Bands, with_bands
from spark_recmetrics.side_info.groups_spark import KnownGroups
from spark_recmetrics.side_info.items_spark import KnownItems, with_items
from spark_recmetrics.storage.row_counts import RowCounts

if TYPE_CHECKING:
    from spark_recmetrics.conventions import Convention
    from spark_recmetrics.inputs.spark import Inputs
    from spark_recmetrics.metrics import Metric
    from spark_recmetrics.request.arguments import Ranking
    from spark_recmetrics.request.slices import Slice


LONGEST_ARRAY = 1_000
"""Up to how many recommendations of a user come to Python as one row, ten thousand of which may come at once."""


@dataclass(frozen=True)
class Plan:
    """An evaluation that can be run.

    Args:
        inputs: The caller's tables in canonical form.
        metrics: All metrics.
        convention: Their definitions.
        policies: What becomes of faulty rows, by check.
        models: The models to evaluate.
        n_buckets: Groups of users that are scored together.
        n_items: Size of the catalogue, where it is known.
        item_slices: Slices of items.
        item_bands: The values of items that these look at.
        items: What is known of items.
        baseline: The model that lists are compared with, if there is one.
        groups: What is known of groups.
        resampled: Intervals come from resampled users, so that metrics of items need their lists.
        ranking: Where lists are ranked that will be cut.
        max_per_user: How long a list may be, where that is declared.
    """

    inputs: Inputs
    metrics: Sequence[Metric]
    convention: Convention
    policies: Mapping[str, str]
    models: Sequence[str]
    n_buckets: int
    n_items: int | None = None
    item_slices: Sequence[Slice] = ()
    item_bands: Bands | None = None
    items: KnownItems = field(default_factory=KnownItems)
    baseline: str | None = None
    groups: KnownGroups = field(default_factory=KnownGroups)
    resampled: bool = False
    ranking: Ranking = "auto"
    max_per_user: int | None = None

    @cached_property
    def scoring(self) -> Scoring | None:
        """What to score per user, if there is a ranking metric."""
        ranking = [metric for metric in self.metrics if metric.definition.kind != "rating"]
        if not ranking:
            return None
        return Scoring.of(
            ranking,
            self.convention,
            len(self.models),
            rating=self.rating if self.rates_lists else (),
            # A list of declared length fits into a worker, which ranks it faster than a window of Spark.
            whole_lists=self.ranking == "lists" or (self.ranking == "auto" and self.max_per_user is not None),
            max_per_user=self.max_per_user,
            given_ranks=self.trusts_ranks,
            n_items=self.n_items,
            trained=self.inputs.train is not None,
            items=self.items.summary,
            baseline=None if self.baseline is None else list(self.models).index(self.baseline),
            measured=self.groups.measured,
            keeps_lists=self.resampled and any(metric.definition.left_out is not None for metric in ranking),
        )

    @cached_property
    def trusts_ranks(self) -> bool:
        """Ranks came with the predictions, and nothing is left out of the lists."""
        whole = self.convention.keeps_lists and "drop" not in self.policies.values()
        return whole and "rank" in self.inputs.predicted["predictions"].columns

    @cached_property
    def rating(self) -> list[Metric]:
        """The rating metrics."""
        return [metric for metric in self.metrics if metric.definition.kind == "rating"]

    @property
    def _errors(self) -> set[str]:
        """The columns of PER_USER that rating metrics are made of."""
        return {*Moments._fields, "n_pair_duplicates", *(metric.slug for metric in self.rating)}

    @property
    def rates_lists(self) -> bool:
        """The lists carry the predicted ratings, so their errors come out of the same pass as the ranking metrics."""
        return self.inputs.rating_table == "predictions" and self.convention.rating_clip == "none"

    @cached_property
    def watched(self) -> dict[str, RowCounts]:
        """Of each table that is read: its observation, rows and counts."""
        inputs = self.inputs
        reads = dict.fromkeys((*(["predictions"] if self.scoring else []), *([inputs.rating_table] if self.rating else [])))
        more = truth_counts(inputs.truth, self.convention, has_ratings=inputs.has_ratings)
        found = {"truth": RowCounts.of(inputs.truth, truth_faults(inputs.truth), more)}
        if inputs.train is not None and self.scoring and self.scoring.needs & ROWS_OF_TRAIN:
            found["train"] = RowCounts.of(inputs.train, train_faults(inputs.train))
        return found | {
            table: RowCounts.of(inputs.predicted[table], prediction_faults(inputs.predicted[table])) for table in reads
        }

    @cached_property
    def as_numbers(self) -> set[str]:
        """The tables whose scores are more than an order."""
        found = {self.inputs.rating_table} if self.rating else set()
        return found | ({"predictions"} if self.scoring is not None and "list_scores" in self.scoring.needs else set())

    @cached_property
    def predicted(self) -> Mapping[str, DataFrame]:
        """Clean predictions, `model` a number, by table."""
        return {
            table: self.clean(watch.observed_rows()) for table, watch in self.watched.items() if table in self.inputs.predicted
        }

    def clean(self, predictions: DataFrame) -> DataFrame:
        """Canonical predictions as they are scored: without faulty rows, `model` a number."""
        return with_model_codes(clean_predictions(predictions, self.convention, self.policies), self.models)

    def once(self, predictions: DataFrame) -> DataFrame:
        """The rows, those of one item in a list as one where the convention has repeats out."""
        return without_repeats(predictions, self.convention) if self.convention.duplicates == "first" else predictions

    @cached_property
    def truth(self) -> DataFrame:
        """Clean truth."""
        return clean_truth(self.watched["truth"].observed_rows(), self.convention, self.policies)

    @cached_property
    def per_user(self) -> DataFrame:
        """PER_USER."""
        rated = [self._rated()] if self.rating and not (self.scoring and self.rates_lists) else []
        wanted = None if rated else SumSpec.of(self.metrics, self.convention)
        scored = []
        if self.scoring is not None:
            how = self.scoring, self.models, wanted, self.item_slices
            if self.scoring.ranks_lists:
                columns = {kind: rows.drop("bucket").schema for kind, rows in self.whole_lists.items()}
                scored.append(score_lists(self._by_user, columns, *how))
            else:
                scored.append(score_users(self.ranked, self.beside, *how))
        # Every pair has a truth row, so a user with a pair has a row on the left; and there all truth rows are looked at.
        joined = reduce(lambda left, right: left.join(right.drop(*USER_COUNTERS), ["model", "user"], "left"), [*scored, *rated])
        if rated and self.item_slices:
            # Errors of all items of a user are not those of some of them.
            errors = {
                name: F.when(F.col(ITEM_SLICE).isNull(), F.col(name)) for name in rated[0].columns if name in self._errors
            }
            joined = joined.withColumns(errors)
        return _in_order(joined, self.models)

    @cached_property
    def judged(self) -> DataFrame:
        """Truth as it is scored: `user, item, rating`, the rating null where a row is not relevant."""
        needs = self.scoring.needs if self.scoring else frozenset()
        rows = relevant_only(self.truth, self.convention, has_ratings=self.inputs.has_ratings, judged="matched" in needs)
        rows = with_bands(rows, self.item_bands) if self.item_bands else rows
        return self._described(rows)

    @cached_property
    def _others(self) -> dict[int, DataFrame]:
        """Truth, and the rows of other kinds that metrics need, by `columns.KIND`; with `bucket`."""
        needs = self.scoring.needs if self.scoring else frozenset()
        tables = {KIND_TRUTH: self.judged}
        if "train" in self.watched:
            train = self.watched["train"].observed_rows().where(F.col("user").isNotNull() & F.col("item").isNotNull())
            tables[KIND_TRAIN] = self._described(train) if "trained_groups" in needs else train
        if self.groups.segments is not None:
            tables[KIND_SEGMENT] = self.groups.segments
        found = {kind: self._with_bucket(rows) for kind, rows in tables.items()}
        if self.items.beside and self.items.rows is not None:
            every = F.explode(F.array(*map(F.lit, bucket_numbers(self.n_buckets)))).alias("bucket")
            found[KIND_ITEM] = self.items.rows.select(every, "item", ABOUT_ITEM)
        return found

    @property
    def beside(self) -> DataFrame:
        """Truth in buckets, with the rows of other kinds."""
        # Together first, and moved once.
        return mixed(self._others, filled=True).repartition(self.n_buckets, "bucket")

    @cached_property
    def whole_lists(self) -> dict[int, DataFrame]:
        """The same with the rows of whole lists, each table for itself."""
        lists = self._described(self._lists)
        return {KIND_LIST: self._with_bucket(lists.drop("bucket")), **self._others}

    @property
    def _by_user(self) -> DataFrame:
        """The rows of whole lists, and what is beside them, user by user; scores are sorted where they are scored."""
        if self.gathers and KIND_ITEM not in self.whole_lists:
            return gathered({kind: rows.drop("bucket") for kind, rows in self.whole_lists.items()})
        # By one column of whole numbers Spark sorts by radix.
        return mixed(self.whole_lists).repartition(self.n_buckets, "bucket").sortWithinPartitions("user").drop("bucket")

    @property
    def gathers(self) -> bool:
        """All rows of a user fit into one: Spark sends some thousands of rows to Python at once."""
        return self.max_per_user is not None and self.max_per_user * len(self.models) <= LONGEST_ARRAY

    def _with_bucket(self, rows: DataFrame) -> DataFrame:
        return rows.select(bucket_of(F.col("user"), self.n_buckets), "*")

    def _described(self, rows: DataFrame) -> DataFrame:
        """The rows, with what is known of their items unless it comes beside."""
        return rows if self.items.rows is None or self.items.beside else with_items(rows, self.items.rows)

    @cached_property
    def ranked(self) -> DataFrame:
        """The rows of lists that are scored."""
        return self._described(self._ranked)

    @property
    def n_of_items(self) -> tuple[int, int]:
        """How many things are counted of each item of lists, and how many are summed."""
        return (0, 0) if self.scoring is None else (len(self.scoring.counted), len(per_item_indexes(self.scoring.measured)))

    @property
    def _lists(self) -> DataFrame:
        """Clean predictions with what is read of them."""
        rows = self.predicted["predictions"]
        scoring = self.scoring
        return rows.drop("score") if scoring and "rank" in rows.columns and "scores" not in scoring.needs else rows

    @cached_property
    def _ranked(self) -> DataFrame:
        scoring, convention, rows = self.scoring, self.convention, self._lists
        if scoring is None or scoring.k is None:
            raise ValueError("there is no ranking metric with a cut-off")
        if self.trusts_ranks and "bucket" not in rows.columns:
            # Most lists end at k or before, so that this second reader of the table finds next to nothing.
            behind = first_behind(self.clean(self.inputs.predicted["predictions"]).select(*rows.columns), scoring.k)
            return _without(in_buckets(rows.where(F.col("rank") <= scoring.k).union(behind), self.n_buckets), scoring)
        rows = in_buckets(rows, self.n_buckets)
        rows = top_rows(self.once(rows), k=scoring.k, convention=convention, trust_rank=self.trusts_ranks, cuts=scoring.cuts)
        return _without(rows, scoring)

    def _rated(self) -> DataFrame:
        """Error moments and rating metrics per user, `model` still a number."""
        rows = self.once(self.predicted[self.inputs.rating_table].drop("bucket"))
        errors = rating_errors(rows, self.truth, self.rating, self.convention)
        return errors if "model" in errors.columns else errors.withColumn("model", F.lit(0))


def _without(rows: DataFrame, scoring: Scoring) -> DataFrame:
    """Only the columns that the workers look at."""
    kept = rows if "scores" in scoring.needs else rows.drop("score")
    return kept.withColumn("score", F.col("score").cast("double")) if "score" in kept.columns else kept


def _in_order(per_user: DataFrame, models: Sequence[str]) -> DataFrame:
    """The columns of PER_USER in order: model, named, and user; counters, null where nothing was ranked; metrics."""
    found = per_user.columns
    # Rows of nobody stay without a model. In ANSI mode Spark takes an `element_at` for never null, and drops filters for nulls.
    model = F.get(F.array(*(F.lit(name) for name in models)), F.col("model")).alias("model")
    counters = [name if name in found else F.lit(None).cast("long").alias(name) for name in USER_COUNTERS]
    others = (name for name in found if name not in ("model", "user", *USER_COUNTERS))
    return per_user.select(model, "user", *counters, *others)
