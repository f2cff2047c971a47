"""Preflight: full evaluations of lists with known values, and checks for leaks, on the caller's tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_recmetrics.columns import Columns
from spark_recmetrics.conventions import Convention
from spark_recmetrics.decisions.comparison import Question, TestOptions, compared
from spark_recmetrics.diagnostics.doctor_spark import Check
from spark_recmetrics.diagnostics.expected import best_bound, no_perfect_value, no_random_value, perfect_value, random_value
from spark_recmetrics.errors import DataError
from spark_recmetrics.evaluation.result import Result
from spark_recmetrics.evaluation.stages import evaluate, request_of
from spark_recmetrics.inputs.spark import (
    Inputs,
    clean_predictions,
    clean_truth,
    column_of,
    id_column,
    read_inputs,
    relevant_pairs,
    union_all,
)
from spark_recmetrics.inputs.tables import Tables
from spark_recmetrics.metrics import Metric, cut_offs, parse
from spark_recmetrics.ranking.window_spark import top_rows, without_repeats
from spark_recmetrics.request.request import Options, Request
from spark_recmetrics.storage import actions, read
from spark_recmetrics.text import counted

N_USERS, N_ROWS = 20_000, 5_000_000
"""The approximate maximum number of users with ground truth, and of rows per table, in the sample."""

LOW_RECALL = 0.1
"""A lower recall of the full lists of a model is a warning."""

_NO_TRAIN = Check("warn", "skipped: there is no table of training rows", "add the table inputs.train")

_BITS = 53

N_RANDOM_ROWS, MOST_DRAWS = 1_000_000, 32
"""The approximate number of rows of all random lists together, and the maximum number of random lists per user."""

FEWEST_CANDIDATES, MOST_CANDIDATES, MOST_JUDGED = 100, 2_000, 100
"""The number of shuffled items: ten times the largest cut-off within the first two; the maximum number of judged items."""

STANDARD_ERRORS = 5
"""The allowed distance of a random ranking from its expected value."""

_LENIENT = {
    **dict.fromkeys(("short_lists", "tied_at_cut", "users_without_list", "users_without_truth"), "info"),
    **dict.fromkeys(("users_in_both", "items_in_both"), "warn"),
}
"""Policies for the perfect and the random lists: these checks are about the lists of a model."""


def prove(
    predictions: DataFrame,
    truth: DataFrame,
    *,
    train: DataFrame | None = None,
    catalog: DataFrame | int | None = None,
    rating_predictions: DataFrame | None = None,
    allow_train: bool = False,
    **options: Any,
) -> Iterator[Check]:
    """Run the checks one after the other, and yield each as soon as it is done.

    The arguments are those of `evaluate`. Training rows are checked whatever the metrics are. With `allow_train` items of a
    user's training rows may be recommended again, and ground truth rows in train are a warning, because they may be repeated
    interactions. Data that an evaluation rejects are a failed check, not an exception; a wrong argument is a `ConfigError`.

    The perfect ranking, made of the ground truth, has the known value for every user. The mean of random rankings is within 5
    standard errors of its expected value. For few values Bernstein's inequality allows more, so that a correct setup fails for
    less than one in 100,000 metrics. A model compared with itself has no difference. Lists and ground truth have no rows of
    train. The last check reports the recall of the full lists.

    The checks use a sample of the users: all users if about 20,000 or fewer have ground truth and no table has more than five
    million rows. Hashes select users, candidates and random orders, so the same tables give the same result. No data per user
    reach the driver.
    """
    tables = Tables(predictions, truth, rating_predictions, train, catalog)
    request = request_of(tables, Options(**options))
    try:
        sample = Sample.of(tables, request)
    except DataError as error:
        yield _rejected("sample", error)
        return
    yield Check("ok", sample.size, name="sample")
    checks_by_name: dict[str, Callable[[], Check]] = {
        "perfect ranking": lambda: _perfect(sample),
        "random ranking": lambda: _random(sample),
        "model against itself": lambda: _against_itself(sample),
        "recommendations and train": lambda: sample.recommendations(allow_train=allow_train),
        "truth and train": lambda: sample.leakage(allow_train=allow_train),
        "candidates": sample.candidates,
    }
    try:
        yield from (_checked(name, find) for name, find in checks_by_name.items())
    finally:
        sample.release()


def _checked(name: str, find: Callable[[], Check]) -> Check:
    try:
        return find()._replace(name=name)
    except DataError as error:
        return _rejected(name, error)


def _rejected(name: str, error: DataError) -> Check:
    return Check("FAIL", "; ".join(str(error).split("\n")), name=name)


def _collected(
    result: Result, keys: Sequence[str], metrics: Sequence[Metric], aggregates: Sequence[Callable[[Column], Column]]
) -> list[dict[str, Any]]:
    """Aggregates of the values of PER_USER by counters with few different values. PER_USER is released."""
    columns = [
        aggregate(F.col(metric.slug)).alias(f"{metric.slug} {aggregate.__name__}")
        for metric in metrics
        for aggregate in aggregates
    ]
    # Without ranking metrics the counters are null.
    rows = result.per_user.where((F.col("n_relevant") > 0) | F.col("n_relevant").isNull())
    try:
        return [row.asDict() for row in actions.collect_rows(rows.groupBy(*keys).agg(F.count(F.lit(1)).alias("n"), *columns))]
    finally:
        result.release()


def _untrusted(context: str, wrong: Sequence[str]) -> Check:
    others = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return Check("FAIL", context + "; ".join(wrong[:3]) + others, "find the cause before you trust values from this setup")


def _computable(sample: Sample, reason_of: Callable[[Metric, Convention], str | None]) -> tuple[list[Metric], str]:
    """The metrics whose expected value is known, and a message about the others."""
    by_reason: dict[str | None, list[Metric]] = {None: []}
    for metric in sample.request.metrics:
        by_reason.setdefault(reason_of(metric, sample.request.convention), []).append(metric)
    computable = by_reason.pop(None)
    skipped = ", ".join(f"{', '.join(map(str, metrics))} ({reason})" for reason, metrics in by_reason.items())
    return computable, f"skipped: {skipped}" if skipped else ""


def _perfect(sample: Sample) -> Check:
    """The list of all relevant items, the highest rating first, has the known value of each metric for every user."""
    rules = sample.request.convention
    metrics, skipped = _computable(sample, no_perfect_value)
    if not metrics:
        return Check("ok", skipped)
    columns = replace(sample.request.columns, rank=None)
    named = {columns.user: "user", columns.item: "item", columns.score: "rating"}
    lists = sample.relevant.select(
        F.lit("perfect").alias(columns.model), *(F.col(name).alias(column) for column, name in named.items())
    )
    checks = {**sample.request.policies, **_LENIENT}
    result = sample.evaluated(lists, metrics, columns=columns, models=["perfect"], checks=checks)
    groups = _collected(result, ["n_relevant"], metrics, (F.min, F.max, F.count))
    if not groups:
        return Check("FAIL", "no user has a relevant item", "check the threshold against the ratings")
    n_items = result.evaluated.known.n_items if result.evaluated else None
    wrong, best, lower = list[str](), list[str](), list[str]()
    for metric in metrics:
        # Without ranking metrics there are no counters, and no value depends on the number of relevant items.
        values = [(perfect_value(metric, rules, group["n_relevant"] or 1, n_items), group) for group in groups]
        defined = [(value, group) for value, group in values if not math.isnan(value)]
        wrong += [text for value, group in defined if (text := _other_value(metric, group, value, rules))]
        if defined:
            mean = sum(value * group["n"] for value, group in defined) / sum(group["n"] for _, group in defined)
            (best if mean == best_bound(metric.definition) else lower).append(f"{metric} {mean:.4f}")
    if wrong:
        return _untrusted("", wrong)
    n_users = counted(sum(group["n"] for group in groups), "user")
    at_best = f"{counted(len(best), 'metric')} at the best value for each of {n_users}"
    means = f"cannot reach the best value by definition: {', '.join(lower)}" if lower else ""
    return Check("ok", "; ".join(filter(None, (at_best, means, skipped))))


def _other_value(metric: Metric, group: Mapping[str, Any], expected: float, rules: Convention) -> str | None:
    """The message about users with another value than the expected one, None without such a user."""
    extremes = [value for which in ("min", "max") if (value := group[f"{metric.slug} {which}"]) is not None]
    other = [f"{value:.6g}" for value in extremes if not math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-9)]
    parts = list(metric.tree())
    # Without a gain the nDCG is undefined, and a single rating has no variance.
    graded = any(part.options(rules).get("gain", "binary") != "binary" for part in parts)
    rated = any(part.definition.skips_undefined or part.definition.kind == "rating" for part in parts)
    if group["n"] > group[f"{metric.slug} count"] and not graded and not rated:
        other.append("undefined")
    if not other:
        return None
    users = f" for users with {counted(group['n_relevant'], 'relevant item')}" if group["n_relevant"] else ""
    return f"{metric} is {other[0]}{users}, expected {expected:.6g}"


def _random(sample: Sample) -> Check:
    """The means over lists of candidates in random order are close to their expected values."""
    rules = sample.request.convention
    metrics, skipped = _computable(sample, no_random_value)
    if not metrics:
        return Check("ok", skipped)
    only_judged = rules.candidates == "judged"
    pool = _pool(sample, min(max(10 * (sample.longest or 0), FEWEST_CANDIDATES), MOST_CANDIDATES))
    n_listed = MOST_JUDGED if only_judged else actions.count_distinct(pool)
    if not n_listed:
        return Check("warn", "skipped: there are no items")
    share = N_RANDOM_ROWS / (n_listed * max(sample.share * sample.n_users, 1))
    chosen = within(share, F.lit("few"), F.col("user"))
    judged, relevant = sample.judged.where(chosen), sample.relevant.where(chosen)
    candidates = _judged_items(judged) if only_judged else _pool_items(relevant, pool, n_listed)
    draws = range(int(min(max(share, 1), MOST_DRAWS)))
    lists = candidates.withColumn("draw", F.explode(F.array(*map(F.lit, draws)))).select(
        F.concat(F.lit("draw "), F.col("draw").cast("string")).alias("model"),
        "user",
        "item",
        hashed(F.col("user"), F.col("item"), F.col("draw")).alias("score"),
    )
    # Users with more relevant items than candidates have no list.
    truth = judged.join(candidates.select("user").distinct(), "user", "left_semi")
    result = sample.evaluated(
        lists,
        metrics,
        truth=truth if sample.inputs.has_ratings else truth.drop("rating"),
        threshold=None,  # it is a part of the convention here
        columns=Columns(user="user", item="item"),
        train=None,
        catalog=None if only_judged else n_listed,
        checks={**sample.request.policies, **_LENIENT},
        models=[f"draw {draw}" for draw in draws],
    )
    keys = ["n_relevant", "n_truth"] if only_judged else ["n_relevant"]
    groups = [
        {**group, "n_listed": group["n_truth"] if only_judged else n_listed}
        for group in _collected(result, keys, metrics, (F.count, F.sum))
        if group[keys[-1]] <= n_listed
    ]
    means = [mean for metric in metrics if (mean := _mean(metric, groups, rules))]
    if not means:
        return Check("warn", f"skipped: no user has between 1 and {n_listed} relevant items")
    items = "the judged items of a user" if only_judged else counted(n_listed, "item")
    context = f"{counted(sum(group['n'] for group in groups), 'list')} of {items} in random order: "
    wrong = [text for distance, text in means if distance > 1]
    if wrong:
        return _untrusted(context, wrong)
    _, farthest = max(means, key=itemgetter(0))
    among = f", the farthest of {counted(len(means), 'metric')}" if len(means) > 1 else ""
    return Check("ok", "; ".join(filter(None, (f"{context}{farthest}{among}", skipped))))


def _mean(metric: Metric, groups: Sequence[Mapping[str, Any]], rules: Convention) -> tuple[float, str] | None:
    """The distance of the mean of the metric from its expected value, as a share of the allowed distance, and a message."""
    n, total, expected, variance, largest = 0, 0.0, 0.0, 0.0, 0.0
    for group in groups:
        random, n_lists = random_value(metric, rules, group["n_relevant"], group["n_listed"]), group[f"{metric.slug} count"]
        if n_lists and not math.isnan(random.mean):
            n, total = n + n_lists, total + group[f"{metric.slug} sum"]
            expected, variance = expected + n_lists * random.mean, variance + n_lists * random.variance
            largest = max(largest, random.largest)
    if not n:
        return None
    # Bernstein's inequality: the second term allows for large distances of few values with a small standard error.
    allowed = (STANDARD_ERRORS * math.sqrt(variance) + STANDARD_ERRORS**2 / 3 * largest) / n
    value, expected = total / n, expected / n
    distance = abs(value - expected)
    text = f"{metric} is {value:.4f}, expected {expected:.4f}, allowed [{expected - allowed:.4f}, {expected + allowed:.4f}]"
    return distance / allowed if allowed else math.inf if distance > 1e-9 else 0.0, text


def _pool(sample: Sample, n: int) -> DataFrame:
    """Up to n items of ground truth, predictions and catalog."""
    frames = [sample.judged, sample.inputs.predicted["predictions"]]
    frames += [] if sample.inputs.catalog is None else [sample.inputs.catalog]
    items = union_all(frame.select("item") for frame in frames)
    return items.where(F.col("item").isNotNull()).distinct().orderBy(hashed(F.col("item")), "item").limit(n)


def _judged_items(truth: DataFrame) -> DataFrame:
    """The judged items of users with at most `MOST_JUDGED` of them."""
    rows = truth.select("user", "item").distinct()
    rows = rows.withColumn("n", F.count(F.lit(1)).over(Window.partitionBy("user")))
    return rows.where(F.col("n") <= MOST_JUDGED).drop("n")


def _pool_items(relevant: DataFrame, pool: DataFrame, n: int) -> DataFrame:
    """For each user with at most n relevant items: these, and other items of the pool, n in total."""
    by_user = Window.partitionBy("user")
    hits = relevant.withColumn("m", F.count(F.lit(1)).over(by_user)).where(F.col("m") <= n)
    others = hits.select("user").distinct().crossJoin(F.broadcast(pool)).withColumn("hit", F.lit(False))
    rows = others.unionByName(hits.select("user", "item", F.lit(True).alias("hit")))
    rows = rows.groupBy("user", "item").agg(F.max("hit").alias("hit"))
    position = F.row_number().over(by_user.orderBy(F.col("hit").desc(), hashed(F.col("user"), F.col("item")), "item"))
    return rows.withColumn("position", position).where(F.col("position") <= n).select("user", "item")


def _against_itself(sample: Sample) -> Check:
    """The first model, under two names, has the same values for every user."""
    model = _first_model(sample)
    if model is None:
        return Check("warn", "skipped: there are no predictions")
    names = [model, f"{model} again"]

    def twice(frame: DataFrame) -> DataFrame:
        column = sample.request.columns.model
        rows = frame.where(column_of(frame, column).cast("string") == model) if column in frame.columns else frame
        return rows.withColumn(column, F.explode(F.array(*map(F.lit, names))))

    rated = None if sample.tables.rating_predictions is None else twice(sample.tables.rating_predictions)
    # Metrics of items need tables that are not read here.
    metrics = [metric for metric in sample.request.metrics if metric.definition.accuracy and not metric.definition.across_users]
    if not metrics:
        return Check("warn", "skipped: no metric compares the lists of a user with ground truth")
    result = sample.evaluated(twice(sample.tables.predictions), metrics, rating_predictions=rated, models=names)
    try:
        question = Question(names, metrics, sample.request.convention, model, TestOptions(correction="none"))
        rows = compared(result.per_user, question, n_parts=sample.request.n_buckets).rows
    finally:
        result.release()
    tested = [row for row in rows if row["n_users"] > 1]
    if not tested:
        return Check("warn", f"skipped: no metric of {model} has a value for two users")
    different = [row for row in tested if row["diff"] or row["p_value"] != 1 or row["wins"] or row["losses"]]
    if different:
        return _untrusted(f"{model}: ", [f"{row['metric']} differs by {row['diff']:+.6g}" for row in different])
    n_users = counted(max(row["n_users"] for row in tested), "user")
    return Check("ok", f"{model}: {counted(len(tested), 'metric')} without a difference for {n_users}, p = 1")


def _first_model(sample: Sample) -> str | None:
    if sample.request.models is not None:
        return sample.request.models[0]
    column, predictions = sample.request.columns.model, sample.tables.predictions
    if column not in predictions.columns:
        return sample.request.model_name
    names = predictions.select(column_of(predictions, column).cast("string").alias("model"))
    return next(iter(actions.distinct_models(names)), None)


@dataclass(frozen=True)
class Sample:
    """A sample of the users of an evaluation, and what their recommendations, ground truth and training rows have in common."""

    tables: Tables  # with only the rows of these users
    request: Request
    inputs: Inputs  # the tables in canonical form
    n_users: int  # approximate number of users with ground truth, in the sample or not
    share: float  # of these users in the sample

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
            "catalog": tables.catalog,
            "checks": request.policies,
            "cast_ids": request.cast_ids,
            "n_buckets": request.n_buckets,
        }
        return evaluate(predictions, metrics=metrics, k=None, **arguments | changed)

    @cached_property
    def judged(self) -> DataFrame:
        """Clean ground truth."""
        return clean_truth(self.inputs.truth, self.request)

    @cached_property
    def relevant(self) -> DataFrame:
        """`user, item, rating` of relevant items, each once."""
        return relevant_pairs(self.judged, self.request.convention, has_ratings=self.inputs.has_ratings)

    @cached_property
    def longest(self) -> int | None:
        """The largest cut-off, None without one."""
        return max((k for k in cut_offs(self.request.metrics) if k is not None), default=None)

    def recommendations(self, *, allow_train: bool) -> Check:
        """No list has a training row of its user, unless `allow_train`."""
        if self.inputs.train is None:
            return _NO_TRAIN
        if self.request.convention.candidates == "judged":
            return Check("ok", "skipped: only items with a ground truth row are ranked")
        finding = "; ".join(
            f"{model}: {counts['n_seen']} of {counted(counts['n'], 'recommendation')}{self._up_to} are training rows of their "
            f"user, for example {counts['example']}"
            for model, counts in self._lists.items()
            if counts["n_seen"]
        )
        if not finding:
            n = sum(counts["n"] for counts in self._lists.values())
            return Check("ok", f"none of {counted(n, 'recommendation')}{self._up_to} is a training row of its user")
        if allow_train:
            return Check("ok", f"{finding}; allow_train is set")
        advice = "remove these items from the lists, or set preflight.allow_train to true if they may be recommended again"
        return Check("FAIL", finding, advice)

    def leakage(self, *, allow_train: bool) -> Check:
        """No row of the ground truth is in train. With `allow_train` it may be a repeated interaction, and is a warning."""
        if self._trained is None:
            return _NO_TRAIN
        rows = self.judged.join(self._trained, ["user", "item"], "left")
        counts = (F.count(F.lit(1)), F.count("seen"), F.min(F.when(F.col("seen"), _pair())))
        n, n_seen, example = actions.collect_rows(rows.agg(*counts))[0]
        if not n_seen:
            return Check("ok", f"none of {counted(n, 'ground truth row')} is in train")
        finding = f"{n_seen} of {counted(n, 'ground truth row')} are in train, for example {example}"
        if allow_train:
            return Check("warn", finding, "check that these are repeated interactions")
        return Check("FAIL", finding, "remove these rows from train or split again: the model was trained on ground truth")

    def candidates(self) -> Check:
        """The mean recall of the full lists, which no other order of the lists can exceed."""
        n_users = actions.count_distinct(self.relevant.select("user"))
        if not n_users or not self._lists:
            return Check("warn", "skipped: there are no relevant items, or no recommendations")
        recalls = {model: (lists["recall"] / n_users, lists["recall_at_cut"] / n_users) for model, lists in self._lists.items()}
        shown = ", ".join(
            f"{model} {full:.1%}" + ("" if self.longest is None else f" ({at_cut:.1%}{self._up_to})")
            for model, (full, at_cut) in recalls.items()
        )
        finding = f"recall of full lists: {shown}; reordering these lists cannot increase it"
        low = [model for model, (full, _) in recalls.items() if full < LOW_RECALL]
        return Check("warn", finding, f"check how {', '.join(low)} selects candidates") if low else Check("ok", finding)

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
