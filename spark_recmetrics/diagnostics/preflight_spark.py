"""Preflight: prove on the caller's own tables that an evaluation measures what it says, before anyone trusts its numbers.

Lists whose values are known beforehand go the whole way of an evaluation, and the tables are looked at for what would make
good values mean nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_recmetrics.columns import Columns, checked_columns
from spark_recmetrics.conventions import Convention
from spark_recmetrics.decisions.comparison import Question, TestOptions, compared
from spark_recmetrics.diagnostics.doctor_spark import Check
from spark_recmetrics.diagnostics.expected import best_bound, no_perfect_value, no_random_value, perfect_value, random_value
from spark_recmetrics.diagnostics.overlap_spark import Finding
from spark_recmetrics.diagnostics.sample_spark import Sample, Setup, hashed, within
from spark_recmetrics.errors import DataError
from spark_recmetrics.evaluation.result import Result
from spark_recmetrics.inputs.buckets_spark import default_n_buckets
from spark_recmetrics.inputs.spark import column_of
from spark_recmetrics.inputs.tables import Tables
from spark_recmetrics.metrics import DEFAULT_K, DEFAULT_METRICS, Metric
from spark_recmetrics.request.request import Request
from spark_recmetrics.storage import actions
from spark_recmetrics.text import counted

N_RANDOM_ROWS, MOST_DRAWS = 1_000_000, 32
"""About how many rows the random lists have together, and how many of them a user gets at most."""

FEWEST_CANDIDATES, MOST_CANDIDATES, MOST_JUDGED = 100, 2_000, 100
"""How many items are shuffled: ten times the largest cut-off within these bounds; of judged items no more than the last."""

STANDARD_ERRORS = 5
"""How far from chance a random ranking may score."""

_LENIENT = {
    **dict.fromkeys(("short_lists", "tied_at_cut", "users_without_list", "users_without_truth"), "info"),
    **dict.fromkeys(("users_in_both", "items_in_both"), "warn"),
}
"""Policies for lists that are made here: what these checks find says something about the lists of a model."""


def prove(  # noqa: PLR0913 - a public entry point: a keyword for each option
    predictions: DataFrame,
    truth: DataFrame,
    *,
    metrics: Iterable[str | Metric] | str = DEFAULT_METRICS,
    k: Sequence[int] | int | None = DEFAULT_K,
    threshold: float | None = None,
    convention: str | Mapping[str, Any] | Convention = "default",
    columns: Columns = Columns(),
    train: DataFrame | None = None,
    catalog: DataFrame | int | None = None,
    rating_predictions: DataFrame | None = None,
    model_name: str = "model",
    models: Sequence[str] | None = None,
    checks: Mapping[str, str] | None = None,
    cast_ids: str | None = None,
    n_buckets: int | None = None,
    allow_train: bool = False,
) -> Iterator[Check]:
    """Look at one thing after the other; what the data are refused for is a check that fails, and no exception.

    The perfect ranking, made of truth, scores for every user what it must. A random ranking scores what chance gives: within 5
    standard errors, and for few values as much more as Bernstein's inequality asks for, so that a right set-up fails by chance
    less often than once in 100,000 metrics. A model ties with itself. Lists hold no training row of their user, and neither
    does truth. Last, it is told how much of what is relevant the lists hold at all.

    All of it is done for a sample of users: for all where truth has at most about 20,000 and no table more than five million
    rows. Users, candidates and random orders are chosen by hashes, so that a second look finds the same. Nothing per user
    reaches the driver.

    Args:
        predictions: As for `evaluate`, as all others but the last.
        truth: What the users really did.
        metrics: What is to be evaluated.
        k: Cut-offs.
        threshold: Of relevance.
        convention: The definitions.
        columns: The caller's column names.
        train: What the users had before. Unlike in `evaluate`, it is looked at whatever the metrics are.
        catalog: All items, or their number.
        rating_predictions: Predicted ratings.
        model_name: Name of the one model of a frame without a model column.
        models: The models to evaluate.
        checks: What becomes of faulty rows.
        cast_ids: `string`: ids of different types become texts.
        n_buckets: Groups of users that are scored together.
        allow_train: What a user had in train may be recommended again; and truth rows that lie in train are only warned of,
            because they may be repetitions.

    Yields:
        A check as soon as it is done.

    Raises:
        ConfigError: An argument is wrong.

    Example:
        >>> predictions = spark.createDataFrame(
        ...     [("ann", "x", 0.9), ("ann", "y", 0.8), ("bob", "y", 0.7), ("cid", "x", 0.1)],
        ...     "user_id string, item_id string, score double",
        ... )
        >>> truth = spark.createDataFrame([("ann", "y"), ("bob", "y"), ("cid", "z")], "user_id string, item_id string")
        >>> train = spark.createDataFrame([("ann", "x")], "user_id string, item_id string")
        >>> found = prove(predictions, truth, metrics="hit", k=2, train=train, n_buckets=2)
        >>> for check in found:
        ...     print(check.level, check.name)
        ok sample
        ok perfect ranking
        ok random ranking
        ok itself
        FAIL recommendations and train
        ok truth and train
        ok candidates
    """
    size = catalog if isinstance(catalog, int) else None
    tables = Tables(predictions, truth, rating_predictions, train, None if size is not None else catalog)
    tables.check()
    request = Request.of(
        tables.columns,
        metrics=metrics,
        k=k,
        threshold=threshold,
        convention=convention,
        columns=checked_columns(columns),
        catalog_size=size,
        model_name=model_name,
        models=models,
        checks=checks,
        cast_ids=cast_ids,
        n_buckets=default_n_buckets(predictions.sparkSession) if n_buckets is None else n_buckets,
    )
    setup = Setup(tables, request)
    try:
        sample = Sample.of(setup)
    except DataError as error:
        yield _refused("sample", error)
        return
    yield Check("ok", "sample", sample.size)
    looks: dict[str, Callable[[], Finding]] = {
        "perfect ranking": lambda: _perfect(sample),
        "random ranking": lambda: _random(sample),
        "itself": lambda: _itself(sample.setup),
        "recommendations and train": lambda: sample.overlap.recommendations(allow_train=allow_train),
        "truth and train": lambda: sample.overlap.leakage(allow_train=allow_train),
        "candidates": sample.overlap.candidates,
    }
    try:
        yield from (_checked(name, look) for name, look in looks.items())
    finally:
        for frame in sample.setup.by_user.values():
            actions.release(frame)


def _checked(name: str, look: Callable[[], Finding]) -> Check:
    try:
        level, found, todo = look()
    except DataError as error:
        return _refused(name, error)
    return Check(level, name, found, todo)


def _refused(name: str, error: DataError) -> Check:
    return Check("FAIL", name, "; ".join(str(error).split("\n")))


def _collected(
    result: Result, keys: Sequence[str], metrics: Sequence[Metric], aggregates: Sequence[Callable[[Column], Column]]
) -> list[dict[str, Any]]:
    """The values of PER_USER, by counts of which there are not as many as users. PER_USER is given back."""
    named = [
        aggregate(F.col(metric.slug)).alias(f"{metric.slug} {aggregate.__name__}")
        for metric in metrics
        for aggregate in aggregates
    ]
    # Nothing is counted where there is no ranking metric.
    rows = result.per_user.where((F.col("n_relevant") > 0) | F.col("n_relevant").isNull())
    try:
        found = actions.collect_rows(rows.groupBy(*keys).agg(F.count(F.lit(1)).alias("n"), *named))
    finally:
        result.release()
    return [row.asDict() for row in found]


# The perfect ranking --------------------------------------------------------------------------------------------------------


def _perfect(sample: Sample) -> Finding:
    """The list of all relevant items, the best rating first, scores what it must, for every user."""
    own, rules = sample.setup, sample.setup.request.convention
    reasons = {metric: no_perfect_value(metric, rules) for metric in own.request.metrics}
    metrics = [metric for metric, reason in reasons.items() if reason is None]
    if not metrics:
        return Finding("ok", _left_out(reasons))
    columns = replace(own.request.columns, rank=None)
    named = {columns.user: "user", columns.item: "item", columns.score: "rating"}
    lists = sample.overlap.relevant.select(
        F.lit("perfect").alias(columns.model), *(F.col(name).alias(column) for column, name in named.items())
    )
    result = own.evaluated(lists, metrics, columns=columns, models=["perfect"], checks={**own.request.policies, **_LENIENT})
    groups = _collected(result, ["n_relevant"], metrics, (F.min, F.max, F.count))
    if not groups:
        return Finding("FAIL", "nobody has a relevant item", "check threshold against the ratings")
    wrong: list[str] = []
    full: list[str] = []
    less: list[str] = []
    for metric in metrics:
        # Without a ranking metric nothing is counted, and no value depends on the number of relevant items.
        dues = [
            (
                perfect_value(
                    metric, rules, group["n_relevant"] or 1, result.evaluated.known.n_items if result.evaluated else None
                ),
                group,
            )
            for group in groups
        ]
        known = [(due, group) for due, group in dues if not math.isnan(due)]
        wrong += [text for due, group in known if (text := _other_value(metric, group, due, rules))]
        if known:
            mean = sum(due * group["n"] for due, group in known) / sum(group["n"] for _, group in known)
            (full if mean == best_bound(metric.definition) else less).append(f"{metric} {mean:.4f}")
    if wrong:
        return _untrusted("", wrong)
    n_users = counted(sum(group["n"] for group in groups), "user")
    told = f"{counted(len(full), 'metric')} at the best value for each of {n_users}"
    also = f"below it, as they must be, in the mean: {', '.join(less)}" if less else ""
    return Finding("ok", "; ".join(filter(None, (told, also, _left_out(reasons)))))


def _other_value(metric: Metric, group: Mapping[str, Any], due: float, rules: Convention) -> str | None:
    """What is told of users who have another value than the one that is due, None if nobody has."""
    found = [group[f"{metric.slug} {which}"] for which in ("min", "max")]
    other = [
        f"{value:.6g}" for value in found if value is not None and not math.isclose(value, due, rel_tol=1e-9, abs_tol=1e-9)
    ]
    parts = list(metric.tree())
    # Without a gain there is no nDCG, and one rating has no variance.
    graded = any(part.options(rules).get("gain", "binary") != "binary" for part in parts)
    rated = any(part.definition.skips_undefined or part.definition.kind == "rating" for part in parts)
    if group["n"] > group[f"{metric.slug} count"] and not graded and not rated:
        other.append("an undefined value")
    if not other:
        return None
    among = f" (users with {counted(group['n_relevant'], 'relevant item')})" if group["n_relevant"] else ""
    return f"{metric} is {other[0]} where {due:.6g} is due{among}"


def _untrusted(told: str, wrong: Sequence[str]) -> Finding:
    more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return Finding("FAIL", told + "; ".join(wrong[:3]) + more, "trust no value of this set-up before it is understood")


def _left_out(reasons: Mapping[Metric, str | None]) -> str:
    by_reason: dict[str, list[str]] = {}
    for metric, reason in reasons.items():
        if reason is not None:
            by_reason.setdefault(reason, []).append(str(metric))
    told = ", ".join(f"{', '.join(metrics)} ({reason})" for reason, metrics in by_reason.items())
    return f"not looked at: {told}" if told else ""


# The random ranking ---------------------------------------------------------------------------------------------------------


class _Spread(NamedTuple):
    """The mean of a metric over random lists, what chance gives, and how far apart they may be."""

    metric: Metric
    found: float
    expected: float
    allowed: float

    @property
    def off(self) -> float:
        """The distance as a share of what is allowed."""
        distance = abs(self.found - self.expected)
        return distance / self.allowed if self.allowed else math.inf if distance > 1e-9 else 0.0

    def __str__(self) -> str:
        return f"{self.metric} is {self.found:.4f}, by chance {self.expected:.4f}, allowed ±{self.allowed:.4f}"


def _random(sample: Sample) -> Finding:
    """Candidates in random order score what chance gives."""
    own, overlap = sample.setup, sample.overlap
    reasons = {metric: no_random_value(metric, own.request.convention) for metric in own.request.metrics}
    metrics = [metric for metric, reason in reasons.items() if reason is None]
    if not metrics:
        return Finding("ok", _left_out(reasons))
    judged_only = own.request.convention.candidates == "judged"
    pool = _pool(sample, min(max(10 * (overlap.longest or 0), FEWEST_CANDIDATES), MOST_CANDIDATES))
    n_listed = MOST_JUDGED if judged_only else actions.count_distinct(pool)
    if not n_listed:
        return Finding("warn", "not looked at: there are no items")
    share = N_RANDOM_ROWS / (n_listed * max(sample.share * sample.n_users, 1))
    few = within(share, F.lit("few"), F.col("user"))
    candidates = _judged(overlap.judged.where(few)) if judged_only else _unjudged(overlap.relevant.where(few), pool, n_listed)
    draws = range(int(min(max(share, 1), MOST_DRAWS)))
    lists = candidates.withColumn("draw", F.explode(F.array(*map(F.lit, draws)))).select(
        F.concat(F.lit("draw "), F.col("draw").cast("string")).alias("model"),
        "user",
        "item",
        hashed(F.col("user"), F.col("item"), F.col("draw")).alias("score"),
    )
    # Whoever has more relevant items than there are candidates has no list.
    truth = overlap.judged.where(few).join(candidates.select("user").distinct(), "user", "left_semi")
    result = own.evaluated(
        lists,
        metrics,
        truth=truth if overlap.inputs.has_ratings else truth.drop("rating"),
        threshold=None,  # it is a part of the convention here
        columns=Columns(user="user", item="item"),
        train=None,
        catalog=None if judged_only else n_listed,
        checks={**own.request.policies, **_LENIENT},
        models=[f"draw {draw}" for draw in draws],
    )
    length = "n_truth" if judged_only else "n_relevant"
    groups = _collected(result, ["n_relevant", length] if judged_only else ["n_relevant"], metrics, (F.count, F.sum))
    groups = [
        {**group, "n_listed": group[length] if judged_only else n_listed} for group in groups if group[length] <= n_listed
    ]
    spreads = [spread for metric in metrics if (spread := _spread(metric, groups, own.request.convention))]
    if not spreads:
        return Finding("warn", f"not looked at: nobody has a relevant item, and not more than {n_listed}")
    among = "the judged items of a user" if judged_only else counted(n_listed, "item")
    told = f"{counted(sum(group['n'] for group in groups), 'list')} of {among} in random order: "
    wrong = [str(spread) for spread in spreads if spread.off > 1]
    if wrong:
        return _untrusted(told, wrong)
    of_all = f", the farthest of {counted(len(spreads), 'metric')}" if len(spreads) > 1 else ""
    farthest = f"{told}{max(spreads, key=lambda spread: spread.off)}{of_all}"
    return Finding("ok", "; ".join(filter(None, (farthest, _left_out(reasons)))))


def _spread(metric: Metric, groups: Sequence[Mapping[str, Any]], rules: Convention) -> _Spread | None:
    n, found, expected, variance, largest = 0, 0.0, 0.0, 0.0, 0.0
    for group in groups:
        known, of_group = random_value(metric, rules, group["n_relevant"], group["n_listed"]), group[f"{metric.slug} count"]
        if of_group and not math.isnan(known.mean):
            n, found = n + of_group, found + group[f"{metric.slug} sum"]
            expected, variance = expected + of_group * known.mean, variance + of_group * known.variance
            largest = max(largest, known.largest)
    if not n:
        return None
    # Bernstein's inequality: the second part is what few values can be off by, although their standard error is small.
    allowed = STANDARD_ERRORS * math.sqrt(variance) + STANDARD_ERRORS**2 / 3 * largest
    return _Spread(metric, found / n, expected / n, allowed / n)


def _pool(sample: Sample, n: int) -> DataFrame:
    """Up to n items of truth, predictions and catalogue."""
    overlap = sample.overlap
    frames = [overlap.judged, overlap.inputs.predicted["predictions"]]
    frames += [] if overlap.inputs.catalog is None else [overlap.inputs.catalog]
    items = reduce(lambda one, other: one.union(other), (frame.select("item") for frame in frames))
    return items.where(F.col("item").isNotNull()).distinct().orderBy(hashed(F.col("item")), "item").limit(n)


def _judged(truth: DataFrame) -> DataFrame:
    """The truth rows of users who have few enough of them."""
    rows = truth.select("user", "item").distinct()
    rows = rows.withColumn("n", F.count(F.lit(1)).over(Window.partitionBy("user")))
    return rows.where(F.col("n") <= MOST_JUDGED).drop("n")


def _unjudged(relevant: DataFrame, pool: DataFrame, n: int) -> DataFrame:
    """For each user with at most n relevant items these, and as many others of the pool as make them n."""
    of_user = Window.partitionBy("user")
    wanted = relevant.withColumn("m", F.count(F.lit(1)).over(of_user)).where(F.col("m") <= n)
    others = wanted.select("user").distinct().crossJoin(F.broadcast(pool)).withColumn("hit", F.lit(False))
    rows = others.unionByName(wanted.select("user", "item", F.lit(True).alias("hit")))
    rows = rows.groupBy("user", "item").agg(F.max("hit").alias("hit"))
    place = F.row_number().over(of_user.orderBy(F.col("hit").desc(), hashed(F.col("user"), F.col("item")), "item"))
    return rows.withColumn("place", place).where(F.col("place") <= n).select("user", "item")


# A model and itself ---------------------------------------------------------------------------------------------------------


def _itself(own: Setup) -> Finding:
    """The first model, under two names, ties with itself."""
    model = _first_model(own)
    if model is None:
        return Finding("warn", "not looked at: there are no predictions")
    names = [model, f"{model} again"]

    def twice(frame: DataFrame) -> DataFrame:
        column = own.request.columns.model
        rows = frame.where(column_of(frame, column).cast("string") == model) if column in frame.columns else frame
        return rows.withColumn(column, F.explode(F.array(*map(F.lit, names))))

    rated = None if own.tables.rating_predictions is None else twice(own.tables.rating_predictions)
    # What looks at items needs tables that are not read here.
    metrics = [metric for metric in own.request.metrics if metric.definition.accuracy and not metric.definition.across_users]
    if not metrics:
        return Finding("warn", "not looked at: no metric compares the lists of a user with truth")
    result = own.evaluated(twice(own.tables.predictions), metrics, rating_predictions=rated, models=names)
    try:
        question = Question(names, metrics, own.request.convention, model, TestOptions(correction="none"))
        rows = compared(result.per_user, question, n_parts=own.request.n_buckets).rows
    finally:
        result.release()
    known = [row for row in rows if row["n_users"] > 1]
    if not known:
        return Finding("warn", f"not looked at: no metric of {model} has a value for two users")
    apart = [row for row in known if row["diff"] or row["p_value"] != 1 or row["wins"] or row["losses"]]
    if apart:
        return _untrusted(f"{model}: ", [f"{row['metric']} differs by {row['diff']:+.6g}" for row in apart])
    n_users = counted(max(row["n_users"] for row in known), "user")
    return Finding("ok", f"{model}: {counted(len(known), 'metric')} with no difference for {n_users}, p = 1")


def _first_model(own: Setup) -> str | None:
    if own.request.models is not None:
        return own.request.models[0]
    column = own.request.columns.model
    if column not in own.tables.predictions.columns:
        return own.request.model_name
    named = own.tables.predictions.select(column_of(own.tables.predictions, column).cast("string").alias("model"))
    return next(iter(actions.distinct_models(named)), None)
