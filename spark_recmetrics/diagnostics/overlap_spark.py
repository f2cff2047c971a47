"""What recommendations, truth and training rows have in common: what leaks, and how much a list can find at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_recmetrics.inputs.spark import Inputs, clean_predictions, clean_truth, relevant_pairs
from spark_recmetrics.metrics import cut_offs
from spark_recmetrics.ranking.window_spark import top_rows, without_repeats
from spark_recmetrics.request.request import Request
from spark_recmetrics.storage import actions
from spark_recmetrics.text import counted

LOW_CEILING = 0.1
"""A model whose lists hold a smaller share of what is relevant is warned of."""

_NO_TRAIN = "not looked at: there is no table of training rows", "give inputs.train"


class Finding(NamedTuple):
    """What a look has found: a check of `doctor` without its name."""

    level: Literal["ok", "warn", "FAIL"]
    found: str
    todo: str = ""


@dataclass(frozen=True)
class Overlap:
    """The tables of an evaluation, side by side.

    Args:
        inputs: In canonical form.
        request: What is asked. Lists are looked at up to the largest cut-off, in full where there is none.
    """

    inputs: Inputs
    request: Request

    @cached_property
    def judged(self) -> DataFrame:
        """Clean truth."""
        return clean_truth(self.inputs.truth, self.request.convention, self.request.policies)

    @cached_property
    def relevant(self) -> DataFrame:
        """`user, item, rating` of what is relevant, each once."""
        return relevant_pairs(self.judged, self.request.convention, has_ratings=self.inputs.has_ratings)

    @cached_property
    def longest(self) -> int | None:
        """The largest cut-off."""
        return max((k for k in cut_offs(self.request.metrics) if k is not None), default=None)

    def recommendations(self, *, allow_train: bool) -> Finding:
        """No list holds a training row of its user, unless that is allowed."""
        if self.inputs.train is None:
            return Finding("warn", *_NO_TRAIN)
        if self.request.convention.candidates == "judged":
            return Finding("ok", "not looked at: only items with a truth row are ranked")
        found = "; ".join(
            f"{model}: {own['n_seen']} of {counted(own['n'], 'recommendation')}{self._up_to} are training rows of their user, "
            f"e.g. {own['example']}"
            for model, own in self._lists.items()
            if own["n_seen"]
        )
        if not found:
            n = sum(own["n"] for own in self._lists.values())
            return Finding("ok", f"none of {counted(n, 'recommendation')}{self._up_to} is a training row of its user")
        if allow_train:
            return Finding("ok", f"{found}, which is allowed")
        todo = "recommend what is new to a user, or set preflight.allow_train to true where it may be had again"
        return Finding("FAIL", found, todo)

    def leakage(self, *, allow_train: bool) -> Finding:
        """No truth row lies in train. Where users have things again, it may be a repetition, and is warned of."""
        if self._trained is None:
            return Finding("warn", *_NO_TRAIN)
        rows = self.judged.join(self._trained, ["user", "item"], "left")
        counts = (F.count(F.lit(1)), F.count("seen"), F.min(F.when(F.col("seen"), _pair())))
        n, n_seen, example = actions.collect_rows(rows.agg(*counts))[0]
        if not n_seen:
            return Finding("ok", f"none of {counted(n, 'truth row')} lies in train")
        found = f"{n_seen} of {counted(n, 'truth row')} lie in train, e.g. {example}"
        if allow_train:
            return Finding("warn", found, "allowed, but only repetitions may be among them")
        return Finding("FAIL", found, "a model that has seen the answers is not measured: split again, or leave these rows out")

    def candidates(self) -> Finding:
        """How much of what is relevant the lists hold, in the mean over users: no order of them has a higher recall."""
        n_users = actions.count_distinct(self.relevant.select("user"))
        if not n_users or not self._lists:
            return Finding("warn", "not looked at: nothing is relevant, or nothing recommended")
        shares = {model: (own["whole"] / n_users, own["within"] / n_users) for model, own in self._lists.items()}
        told = ", ".join(
            f"{model} {whole:.1%}" + ("" if self.longest is None else f" ({within:.1%}{self._up_to})")
            for model, (whole, within) in shares.items()
        )
        found = f"of what is relevant to a user, lists hold at all: {told}; no order of these lists has a higher recall"
        low = [model for model, (whole, _) in shares.items() if whole < LOW_CEILING]
        if low:
            return Finding("warn", found, f"look where the candidates of {', '.join(low)} come from")
        return Finding("ok", found)

    @property
    def _up_to(self) -> str:
        return "" if self.longest is None else f" up to rank {self.longest}"

    @cached_property
    def _trained(self) -> DataFrame | None:
        """`user, item` of training rows, each once, and `seen`."""
        return None if self.inputs.train is None else self.inputs.train.distinct().withColumn("seen", F.lit(True))

    @cached_property
    def _lists(self) -> dict[str, Mapping[str, Any]]:
        """By model: rows of lists, training rows among them, and shares of relevant items that they hold, summed over users."""
        rows = self.inputs.predicted["predictions"]
        rows = rows if "model" in rows.columns else rows.withColumn("model", F.lit(self.request.model_name))
        rows = rows if self.request.models is None else rows.where(F.col("model").isin(*self.request.models))
        rows = without_repeats(clean_predictions(rows, self.request.convention, self.request.policies), self.request.convention)
        if self.request.convention.candidates == "judged":
            rows = rows.join(self.judged.select("user", "item"), ["user", "item"], "left_semi")
        rows = top_rows(rows, k=None, convention=self.request.convention, trust_rank=False)
        n_relevant = F.count(F.lit(1)).over(Window.partitionBy("user"))
        rows = rows.join(self.relevant.select("user", "item", (1 / n_relevant).alias("share")), ["user", "item"], "left")
        unseen = rows.withColumn("seen", F.lit(None).cast("boolean"))
        rows = unseen if self._trained is None else rows.join(self._trained, ["user", "item"], "left")
        within = F.lit(True) if self.longest is None else F.col("rank") <= self.longest
        found = rows.groupBy("model").agg(
            F.count_if(within).alias("n"),
            F.count(F.when(within, F.col("seen"))).alias("n_seen"),
            F.min(F.when(within & F.col("seen"), _pair())).alias("example"),
            F.coalesce(F.sum("share"), F.lit(0.0)).alias("whole"),
            F.coalesce(F.sum(F.when(within, F.col("share"))), F.lit(0.0)).alias("within"),
        )
        by_model = {row["model"]: row.asDict() for row in actions.collect_rows(found)}
        nothing = {"n": 0, "n_seen": 0, "example": None, "whole": 0.0, "within": 0.0}
        return {model: by_model.get(model, nothing) for model in self.request.models or sorted(by_model)}


def _pair() -> Column:
    return F.concat(F.lit("user "), F.col("user").cast("string"), F.lit(", item "), F.col("item").cast("string"))
