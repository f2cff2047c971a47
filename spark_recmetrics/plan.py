"""The plan of an evaluation: from the caller's tables to PER_USER. Nothing runs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.catalog import KnownItems, with_items
from spark_recmetrics.columns import ABOUT_ITEM, ITEM_SLICE, KIND_ITEM, KIND_SEGMENT, KIND_TRAIN, USER_COUNTERS
from spark_recmetrics.grouped import KnownGroups
from spark_recmetrics.inputs import (
    bucket_of,
    clean_predictions,
    clean_truth,
    in_buckets,
    prediction_faults,
    relevant_only,
    truth_counts,
    truth_faults,
    with_model_codes,
)
from spark_recmetrics.match import Bands, with_bands, with_beside, with_flags, with_judged
from spark_recmetrics.means import Wanted
from spark_recmetrics.metrics.measuring import item_places
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.metrics.scoring import Scoring
from spark_recmetrics.rank import first_behind, rows_that_matter, top_rows, without_repeats
from spark_recmetrics.rating import rating_errors
from spark_recmetrics.score import named_models, score_users
from spark_recmetrics.watch import Watch

if TYPE_CHECKING:
    from spark_recmetrics.conventions import Convention
    from spark_recmetrics.inputs import Inputs
    from spark_recmetrics.metrics import Metric
    from spark_recmetrics.slices import Slice

PARTS_A_BUCKET = 4
"""Whole lists are matched and ranked in smaller parts than those that Python sees: hash tables and sorts fit into caches."""


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
        n_shown: The first rows of each list that are wanted as they are, to be shown.
        item_slices: Slices of items.
        item_bands: The values of items that these look at.
        items: What is known of items.
        baseline: The model that lists are compared with, if there is one.
        groups: What is known of groups.
        resampled: Intervals come from resampled users, so that metrics of items need their lists.
    """

    inputs: Inputs
    metrics: Sequence[Metric]
    convention: Convention
    policies: Mapping[str, str]
    models: Sequence[str]
    n_buckets: int
    n_items: int | None = None
    n_shown: int = 0
    item_slices: Sequence[Slice] = ()
    item_bands: Bands | None = None
    items: KnownItems = field(default_factory=KnownItems)
    baseline: str | None = None
    groups: KnownGroups = field(default_factory=KnownGroups)
    resampled: bool = False

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
            given_ranks=self.trusts_ranks,
            n_items=self.n_items,
            trained=self.inputs.train is not None,
            n_shown=self.n_shown,
            items=self.items.facts,
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
    def watched(self) -> dict[str, Watch]:
        """Of each table that is read: its observation, rows and counts."""
        inputs = self.inputs
        reads = dict.fromkeys((*(["predictions"] if self.scoring else []), *([inputs.rating_table] if self.rating else [])))
        more = truth_counts(inputs.truth, self.convention, has_ratings=inputs.has_ratings)
        found = {"truth": Watch.of(inputs.truth, truth_faults(inputs.truth), more)}
        return found | {table: Watch.of(inputs.predicted[table], prediction_faults(inputs.predicted[table])) for table in reads}

    @cached_property
    def as_numbers(self) -> set[str]:
        """The tables whose scores are more than an order."""
        found = {self.inputs.rating_table} if self.rating else set()
        return found | ({"predictions"} if self.scoring is not None and "listed" in self.scoring.needs else set())

    @cached_property
    def predicted(self) -> Mapping[str, DataFrame]:
        """Clean predictions, `model` a number, by table."""
        return {table: self._clean(watch.seen()) for table, watch in self.watched.items() if table != "truth"}

    def _clean(self, predictions: DataFrame) -> DataFrame:
        return with_model_codes(clean_predictions(predictions, self.convention, self.policies), self.models)

    @cached_property
    def truth(self) -> DataFrame:
        """Clean truth."""
        return clean_truth(self.watched["truth"].seen(), self.convention, self.policies)

    @cached_property
    def per_user(self) -> DataFrame:
        """PER_USER."""
        rated = [self._rated()] if self.rating and not (self.scoring and self.rates_lists) else []
        wanted = None if rated else Wanted.of(self.metrics, self.convention)
        scored = []
        if self.scoring is not None:
            scored.append(score_users(self.ranked, self.beside, self.scoring, self.models, wanted, self.item_slices))
        # Every pair has a truth row, so a user with a pair has a row on the left; and there all truth rows are looked at.
        joined = reduce(lambda left, right: left.join(right.drop(*USER_COUNTERS), ["model", "user"], "left"), [*scored, *rated])
        if rated and self.item_slices:
            # Errors of all items of a user are not those of some of them.
            errors = {
                name: F.when(F.col(ITEM_SLICE).isNull(), F.col(name)) for name in rated[0].columns if name in self._errors
            }
            joined = joined.withColumns(errors)
        return _in_order(named_models(joined, self.models))

    @cached_property
    def judged(self) -> DataFrame:
        """Truth as it is scored: `user, item, rating`, the rating null where a row is not relevant."""
        needs = self.scoring.needs if self.scoring else frozenset()
        rows = relevant_only(self.truth, self.convention, has_ratings=self.inputs.has_ratings, judged="matched" in needs)
        rows = with_bands(rows, self.item_bands) if self.item_bands else rows
        return self._described(rows)

    @cached_property
    def beside(self) -> DataFrame:
        """The same in buckets, with the rows of other kinds that metrics need."""
        needs = self.scoring.needs if self.scoring else frozenset()
        items = train = None
        if self.items.beside and self.items.rows is not None:
            every = F.explode(F.sequence(F.lit(0), F.lit(self.n_buckets - 1))).alias("bucket")
            items = self.items.rows.select(every, "item", ABOUT_ITEM)
        if self.inputs.train is not None and needs & {"unseen", "history", "trained_groups"}:
            train = self.inputs.train.where(F.col("user").isNotNull() & F.col("item").isNotNull())
            train = self._described(train) if "trained_groups" in needs else train
        of_users = {KIND_TRAIN: train, KIND_SEGMENT: self.groups.segments}
        numbered = {kind: None if rows is None else self._with_bucket(rows) for kind, rows in of_users.items()}
        # Together first, and moved once.
        rows = with_beside(self._with_bucket(self.judged), {**numbered, KIND_ITEM: items})
        return rows.repartition(self.n_buckets, "bucket")

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
        return (0, 0) if self.scoring is None else (len(self.scoring.counted), len(item_places(self.scoring.measured)))

    @cached_property
    def _ranked(self) -> DataFrame:
        scoring, convention, judged_only = self.scoring, self.convention, self.convention.candidates == "judged"
        if scoring is None:
            raise ValueError("there is no ranking metric")
        rows = self.predicted["predictions"]
        if "rank" in rows.columns and "scores" not in scoring.needs:
            rows = rows.drop("score")
        if scoring.k is not None:
            if self.trusts_ranks and "bucket" not in rows.columns:
                # Most lists end at k or before, so that this second reader of the table finds next to nothing.
                behind = first_behind(self._clean(self.inputs.predicted["predictions"]).select(*rows.columns), scoring.k)
                return _without(in_buckets(rows.where(F.col("rank") <= scoring.k).union(behind), self.n_buckets), scoring)
            rows = in_buckets(rows, self.n_buckets)
            rows = without_repeats(rows) if convention.duplicates == "first" else rows
            return _without(
                top_rows(rows, k=scoring.k, cuts=scoring.cuts, ties=convention.ties, trust_rank=self.trusts_ranks), scoring
            )
        if convention.duplicates == "keep":
            # No metric that has to know what a user has seen is computed here.
            rows = with_judged(in_buckets(rows, self.n_buckets), in_buckets(self.judged, self.n_buckets))
        else:
            train = self.inputs.train if "unseen" in scoring.needs else None
            # The truth is counted where it is scored; here it is read once more.
            truth = clean_truth(self.inputs.truth, convention, self.policies)
            rows = with_flags(rows, truth, train, n_models=len(self.models), n_parts=PARTS_A_BUCKET * self.n_buckets)
            if convention.duplicates == "first":
                rows = rows.drop("copies")
        longest = scoring.longest_recommended
        n_shown = None if longest is None else max(scoring.n_shown, longest)
        found = rows_that_matter(
            rows,
            cuts=scoring.cuts,
            cuts_listed=scoring.cuts_listed,
            n_shown=n_shown,
            ties=convention.ties,
            trust_rank=self.trusts_ranks,
            judged_only=judged_only,
            needs=scoring.needs,
        )
        return in_buckets(_without(found, scoring), self.n_buckets)

    def _rated(self) -> DataFrame:
        """Error moments and rating metrics per user, `model` still a number."""
        rows = self.predicted[self.inputs.rating_table].drop("bucket")
        rows = without_repeats(rows) if self.convention.duplicates == "first" else rows
        errors = rating_errors(rows, self.truth, self.rating, self.convention)
        return errors if "model" in errors.columns else errors.withColumn("model", F.lit(0))


def _without(rows: DataFrame, scoring: Scoring) -> DataFrame:
    """Only the columns that the workers look at."""
    spare = {"judged", "last", "seen"}
    spare |= set() if "scores" in scoring.needs else {"score"}
    kept = rows.select(*(name for name in rows.columns if name not in spare))
    if "score" not in kept.columns:
        return kept
    score = F.col("score").cast("double")
    return kept.withColumn("score", F.when(~F.isnan(score), score))


def _in_order(per_user: DataFrame) -> DataFrame:
    """The columns of PER_USER in order: counters, null where nothing was ranked, then metrics."""
    found = per_user.columns
    counters = [name if name in found else F.lit(None).cast("long").alias(name) for name in USER_COUNTERS]
    return per_user.select(
        "model", "user", *counters, *(name for name in found if name not in ("model", "user", *USER_COUNTERS))
    )
