"""A sample of the users of an evaluation, and what their recommendations, ground truth and training rows have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_recmetrics.columns import Columns
from spark_recmetrics.diagnostics.doctor_spark import Finding
from spark_recmetrics.evaluation.result import Result
from spark_recmetrics.evaluation.stages import evaluate
from spark_recmetrics.inputs.spark import (
    Inputs,
    clean_predictions,
    clean_truth,
    column_of,
    id_column,
    read_inputs,
    relevant_pairs,
)
from spark_recmetrics.inputs.tables import Tables
from spark_recmetrics.metrics import Metric, cut_offs, parse
from spark_recmetrics.ranking.window_spark import top_rows, without_repeats
from spark_recmetrics.request.request import Request
from spark_recmetrics.storage import actions, read
from spark_recmetrics.text import counted

N_USERS, N_ROWS = 20_000, 5_000_000
"""The approximate maximum number of users with ground truth, and of rows per table, in the sample."""

LOW_RECALL = 0.1
"""A lower recall of the full lists of a model is a warning."""

_NO_TRAIN = Finding("warn", "skipped: there is no table of training rows", "add the table inputs.train")

_BITS = 53


@dataclass(frozen=True)
class Sample:
    """A sample of the users of an evaluation.

    Args:
        tables: The tables with only their rows.
        request: The request of the evaluation.
        inputs: The tables in canonical form.
        n_users: The approximate number of users with ground truth, in the sample or not.
        share: The share of these users in the sample.
    """

    tables: Tables
    request: Request
    inputs: Inputs
    n_users: int
    share: float

    @classmethod
    @read.example_in_errors()
    def of(cls, tables: Tables, request: Request) -> Sample:
        """The users with the smallest hashes. Raises `DataError` if a table lacks a column, or a column has a wrong type."""
        columns, by_user = request.columns, _tables_by_user(tables)
        users = {table: id_column(table, frame, "user", columns.user) for table, frame in by_user.items()}
        n_users = actions.collect_rows(tables.truth.agg(F.approx_count_distinct(users["truth"])))[0][0]
        n_rows = [actions.collect_rows(frame.agg(_n_rows(frame, columns)))[0][0] for frame in by_user.values()]
        share = min(1.0, N_USERS / max(n_users, 1), N_ROWS / max(*n_rows, 1))
        # A sample of all users is filtered too, so that the caller's tables are never cached and released.
        sampled: dict[str, Any] = {table: frame.where(within(share, users[table])) for table, frame in by_user.items()}
        tables = replace(tables, **sampled)
        lists = replace(request, metrics=(parse("hit"),), has_threshold=False)
        inputs = read_inputs(replace(tables, rating_predictions=None), lists, reads=("train", "catalog"))
        for frame in _tables_by_user(tables).values():
            actions.materialize(frame)
        return cls(tables, request, inputs, n_users, share)

    def release(self) -> None:
        """Give back the memory that the tables hold in the cluster."""
        for frame in _tables_by_user(self.tables).values():
            actions.release(frame)

    @property
    def size(self) -> str:
        """The size of the sample in words."""
        if self.share == 1:
            return f"all users, about {self.n_users} of them with ground truth"
        return f"about {round(self.share * self.n_users)} of about {self.n_users} users with ground truth"

    def evaluated(self, predictions: DataFrame, metrics: Sequence[Metric], **changed: Any) -> Result:
        """The result for these lists and metrics, with the other arguments of the evaluation unless they are given here."""
        tables, request = self.tables, self.request
        arguments: dict[str, Any] = {
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
        return evaluate(predictions, metrics=metrics, k=None, **arguments | changed)

    @cached_property
    def judged(self) -> DataFrame:
        """Clean ground truth."""
        return clean_truth(self.inputs.truth, self.request.convention, self.request.policies)

    @cached_property
    def relevant(self) -> DataFrame:
        """`user, item, rating` of relevant items, each once."""
        return relevant_pairs(self.judged, self.request.convention, has_ratings=self.inputs.has_ratings)

    @cached_property
    def longest(self) -> int | None:
        """The largest cut-off, None without one."""
        return max((k for k in cut_offs(self.request.metrics) if k is not None), default=None)

    def recommendations(self, *, allow_train: bool) -> Finding:
        """No list has a training row of its user, unless `allow_train`."""
        if self.inputs.train is None:
            return _NO_TRAIN
        if self.request.convention.candidates == "judged":
            return Finding("ok", "skipped: only items with a ground truth row are ranked")
        finding = "; ".join(
            f"{model}: {counts['n_seen']} of {counted(counts['n'], 'recommendation')}{self._up_to} are training rows of their "
            f"user, for example {counts['example']}"
            for model, counts in self._lists.items()
            if counts["n_seen"]
        )
        if not finding:
            n = sum(counts["n"] for counts in self._lists.values())
            return Finding("ok", f"none of {counted(n, 'recommendation')}{self._up_to} is a training row of its user")
        if allow_train:
            return Finding("ok", f"{finding}; allow_train is set")
        advice = "remove these items from the lists, or set preflight.allow_train to true if they may be recommended again"
        return Finding("FAIL", finding, advice)

    def leakage(self, *, allow_train: bool) -> Finding:
        """No row of the ground truth is in train. With `allow_train` it may be a repeated interaction, and is a warning."""
        if self._trained is None:
            return _NO_TRAIN
        rows = self.judged.join(self._trained, ["user", "item"], "left")
        counts = (F.count(F.lit(1)), F.count("seen"), F.min(F.when(F.col("seen"), _pair())))
        n, n_seen, example = actions.collect_rows(rows.agg(*counts))[0]
        if not n_seen:
            return Finding("ok", f"none of {counted(n, 'ground truth row')} is in train")
        finding = f"{n_seen} of {counted(n, 'ground truth row')} are in train, for example {example}"
        if allow_train:
            return Finding("warn", finding, "check that these are repeated interactions")
        return Finding("FAIL", finding, "remove these rows from train or split again: the model was trained on ground truth")

    def candidates(self) -> Finding:
        """The mean recall of the full lists, which no other order of the lists can exceed."""
        n_users = actions.count_distinct(self.relevant.select("user"))
        if not n_users or not self._lists:
            return Finding("warn", "skipped: there are no relevant items, or no recommendations")
        recalls = {model: (lists["recall"] / n_users, lists["recall_at_cut"] / n_users) for model, lists in self._lists.items()}
        shown = ", ".join(
            f"{model} {full:.1%}" + ("" if self.longest is None else f" ({at_cut:.1%}{self._up_to})")
            for model, (full, at_cut) in recalls.items()
        )
        finding = f"recall of full lists: {shown}; reordering these lists cannot increase it"
        low = [model for model, (full, _) in recalls.items() if full < LOW_RECALL]
        return Finding("warn", finding, f"check how {', '.join(low)} selects candidates") if low else Finding("ok", finding)

    @property
    def _up_to(self) -> str:
        return "" if self.longest is None else f" up to rank {self.longest}"

    @cached_property
    def _trained(self) -> DataFrame | None:
        """`user, item` of training rows, each once, and `seen`."""
        return None if self.inputs.train is None else self.inputs.train.distinct().withColumn("seen", F.lit(True))

    @cached_property
    def _lists(self) -> dict[str, Mapping[str, Any]]:
        """By model: rows of lists, training rows among them, and recalls, summed over users."""
        convention, models = self.request.convention, self.request.models
        rows = self.inputs.predicted["predictions"]
        rows = rows if "model" in rows.columns else rows.withColumn("model", F.lit(self.request.model_name))
        rows = rows if models is None else rows.where(F.col("model").isin(*models))
        rows = without_repeats(clean_predictions(rows, convention, self.request.policies), convention)
        if convention.candidates == "judged":
            rows = rows.join(self.judged.select("user", "item"), ["user", "item"], "left_semi")
        rows = top_rows(rows, k=None, convention=convention, trust_rank=False)
        n_relevant = F.count(F.lit(1)).over(Window.partitionBy("user"))
        rows = rows.join(self.relevant.select("user", "item", (1 / n_relevant).alias("share")), ["user", "item"], "left")
        unseen = rows.withColumn("seen", F.lit(None).cast("boolean"))
        rows = unseen if self._trained is None else rows.join(self._trained, ["user", "item"], "left")
        is_in_cut = F.lit(True) if self.longest is None else F.col("rank") <= self.longest
        counts = rows.groupBy("model").agg(
            F.count_if(is_in_cut).alias("n"),
            F.count(F.when(is_in_cut, F.col("seen"))).alias("n_seen"),
            F.min(F.when(is_in_cut & F.col("seen"), _pair())).alias("example"),
            F.coalesce(F.sum("share"), F.lit(0.0)).alias("recall"),
            F.coalesce(F.sum(F.when(is_in_cut, F.col("share"))), F.lit(0.0)).alias("recall_at_cut"),
        )
        by_model = {row["model"]: row.asDict() for row in actions.collect_rows(counts)}
        no_rows = {"n": 0, "n_seen": 0, "example": None, "recall": 0.0, "recall_at_cut": 0.0}
        return {model: by_model.get(model, no_rows) for model in models or sorted(by_model)}


def _tables_by_user(tables: Tables) -> dict[str, DataFrame]:
    """The tables with a column of users."""
    names = ("truth", "predictions", "rating_predictions", "train")
    return {name: frame for name in names if (frame := getattr(tables, name)) is not None}


def _n_rows(frame: DataFrame, columns: Columns) -> Column:
    """The number of rows of a table. An array of items counts as one row per item."""
    if columns.item not in frame.columns and columns.items in frame.columns:
        return F.coalesce(F.sum(F.greatest(F.size(column_of(frame, columns.items)), F.lit(0))), F.lit(0))
    return F.count(F.lit(1))


def within(share: float, *ids: Column) -> Column:
    """Whether the hash of the ids is in the smallest `share` of all hashes."""
    return hashed(*ids) < int(min(share, 1.0) * 2**_BITS)


def hashed(*ids: Column) -> Column:
    """A hash of the ids as strings. It is independent of the hash in splits."""
    return F.shiftrightunsigned(F.xxhash64(F.lit("preflight"), *(id_.cast("string") for id_ in ids)), 64 - _BITS)


def _pair() -> Column:
    return F.concat(F.lit("user "), F.col("user").cast("string"), F.lit(", item "), F.col("item").cast("string"))
