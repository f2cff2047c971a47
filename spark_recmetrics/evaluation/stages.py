"""The evaluation: its stages, in order. Both engines, Spark and memory, do the same in each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_recmetrics.aggregation.slices import Sliced, without_values
from spark_recmetrics.aggregation.values import too_large, values_of
from spark_recmetrics.columns import Columns, checked_columns
from spark_recmetrics.conventions import Convention
from spark_recmetrics.errors import DataError, check_argument
from spark_recmetrics.evaluation.engine import Engine, Evaluated
from spark_recmetrics.evaluation.result import Result, reject
from spark_recmetrics.inputs.data_report import Levels, data_report
from spark_recmetrics.inputs.tables import SPARK, Tables, engine_of
from spark_recmetrics.metrics import DEFAULT_K, DEFAULT_METRICS, Metric
from spark_recmetrics.request.arguments import Ranking
from spark_recmetrics.request.intervals import IntervalMethod, Intervals
from spark_recmetrics.request.request import Options, Request
from spark_recmetrics.request.slices import MIN_USERS, Slice
from spark_recmetrics.runs.identity import Run


def evaluate(  # noqa: PLR0913 - the public entry point: a keyword for each option
    predictions: Any,
    truth: Any,
    *,
    metrics: Iterable[str | Metric] | str = DEFAULT_METRICS,
    k: Sequence[int] | int | None = DEFAULT_K,
    threshold: float | None = None,
    convention: str | Mapping[str, Any] | Convention = "default",
    columns: Columns = Columns(),
    train: Any = None,
    catalog: Any = None,
    user_segments: Any = None,
    item_groups: Any = None,
    item_features: Any = None,
    slices: Sequence[str | Slice] = (),
    min_users: int = MIN_USERS,
    intervals: Intervals | IntervalMethod = "normal",
    rating_predictions: Any = None,
    baseline: str | None = None,
    objectives: Mapping[str, Mapping[str, float] | None] | None = None,
    model_name: str = "model",
    models: Sequence[str] | None = None,
    checks: Mapping[str, str] | None = None,
    cast_ids: str | None = None,
    n_buckets: int | None = None,
    ranking: Ranking = "auto",
    max_per_user: int | None = None,
    run: Run = Run(),
    before: Callable[[Sequence[str]], None] | None = None,
) -> Result:
    """Evaluate one or several recommenders against the ground truth.

    Spark evaluates Spark DataFrames. Frames of pandas, polars, pyarrow or DuckDB are evaluated in memory, without Spark and
    Java. The values, warnings and messages are the same.

    Args:
        predictions: One row per (model, user, item) with a score or a rank; or one row per (model, user) with an array of
            items, best first. Without a model column, the table is one model.
        truth: The ground truth: one row per (user, item), with a rating. Without ratings, every row is relevant.
        metrics: Names such as `ndcg`, `map@10`, `f1(beta=0.5)@20`, `rmse`.
        k: Cut-offs of ranking metrics that are written without one; None or empty: the full list.
        threshold: A row of the ground truth is relevant if its rating is at least this. None: as the convention says.
        convention: The name of a convention, its text, a mapping, or a `Convention`, see `srm.convention`.
        columns: The caller's column names.
        train: One row per (user, item) of training. `auc`, `gauc` and `lauc` use it, because their candidates are unseen items,
            and metrics of popularity and of seen items. If no metric uses a given table, a warning says so.
        catalog: One row per item that could be recommended, or their number.
        user_segments: One row per user, in the column `columns.user`, with the columns that slices and metrics of groups name.
        item_features: One row per item, in the column `columns.item`, with feature vectors or categories, see `Columns`.
        item_groups: One row per item, in the column `columns.item`, with the columns that slices and metrics of groups name;
            an array holds several values.
        slices: Groups of users or items that are also evaluated separately: columns of these tables, as they are (`gender`) or
            cut into bands (`age(18, 35)`); `activity` and `popularity`, the number of rows of the user or item in `train`; or
            several columns together (`gender*age(18, 35)`). See docs/slices.md.
        min_users: Values of slices over fewer users are marked as small.
        intervals: How confidence intervals are computed: `normal`, `bootstrap`, or `srm.Intervals` with confidence, replicates
            and seed.
        rating_predictions: Predicted ratings in the score column, for rating metrics; None: the predictions.
        baseline: The model whose lists users expect, for `unexpectedness` and `serendipity(against=baseline)`.
        objectives: Metrics of this evaluation that are combined, each with its reference points, such as
            `{"ndcg": {"nadir": 0.1}, "novelty": {"utopia": 12, "nadir": 0}}`: for `euc_distance`, `hypervolume` and
            `result.pareto()`, see `metrics.objectives.read_objectives`.
        model_name: Name of the model if predictions have no model column.
        models: The models to evaluate; other rows are left out. None: all, which takes an extra pass over the model column.
        checks: How faulty rows are handled, by check, such as `{"null_ids": "drop"}`; None: see `request.arguments.POLICIES`.
        cast_ids: `string`: ids of different types become strings, so that `10` equals `"10"`. `bigint`: floats become integers,
            and one with a fraction is an error. None: ids of different types, and floats, are rejected.
        n_buckets: Number of groups of users that Spark scores together. More groups need less memory per worker. A good size of
            a group is about a million rows of lists. None: 32, or `spark.sql.shuffle.partitions` if that is less.
        ranking: Where Spark ranks lists. `window`: by a window function, which takes lists of any length and keeps the first
            rows. `lists`: in the workers, which is faster for lists not much longer than k. The lists of a user must fit into
            the memory of a worker. `auto`: `lists` if `max_per_user` is given, otherwise `window`. PER_USER is the same, bit
            for bit. Metrics of full lists always use `lists`. For arrays and ranks, `auto` without `max_per_user` is fastest.
        max_per_user: The maximum number of rows of a list, with repeats. A longer list is rejected, and the message has its
            users. Not with `ranking="window"`, which does not count rows after k.
        run: Identity that is written into the tables.
        before: Called with the names of the models after the arguments and tables have been checked, before lists are scored.
            Its exceptions end the evaluation.

    Returns:
        The result. PER_USER is computed once and kept until `result.release()`.

    Raises:
        ConfigError: A metric, a cut-off, the convention or another argument is wrong; no Spark job has run.
        DataError: A column is missing or has a wrong type, or rows are rejected: null ids, NaN scores, repeated rows, ranks
            with gaps, negative gains, lists that are too long. The message counts them and names the option that admits them.

    Example:
        >>> import pandas as pd
        >>> predictions = pd.DataFrame(
        ...     {"user_id": ["ann", "ann", "bob", "cid"], "item_id": ["x", "y", "y", "x"], "score": [0.9, 0.8, 0.7, 0.1]}
        ... )
        >>> truth = pd.DataFrame({"user_id": ["ann", "bob", "cid"], "item_id": ["y", "y", "z"], "rating": [5.0, 4.0, 1.0]})
        >>> evaluate(predictions, truth, metrics=["mrr", "hit"], k=[1, 2], threshold=4.0).to_dict()
        {'model': {'mrr@1': 0.5, 'mrr@2': 0.75, 'hit@1': 0.5, 'hit@2': 1.0}}
        >>> on_spark = spark.createDataFrame(predictions), spark.createDataFrame(truth)
        >>> evaluate(*on_spark, metrics="mrr", k=2, threshold=4.0).to_dict()
        {'model': {'mrr@2': 0.75}}
    """
    return evaluate_tables(
        Tables(predictions, truth, rating_predictions, train, catalog, user_segments, item_groups, item_features),
        before,
        metrics=metrics,
        k=k,
        threshold=threshold,
        convention=convention,
        columns=columns,
        slices=slices,
        min_users=min_users,
        intervals=intervals,
        baseline=baseline,
        objectives=objectives,
        model_name=model_name,
        models=models,
        checks=checks,
        cast_ids=cast_ids,
        n_buckets=n_buckets,
        ranking=ranking,
        max_per_user=max_per_user,
        run=run,
    )


def evaluate_tables(tables: Tables, before: Callable[[Sequence[str]], None] | None = None, **options: Any) -> Result:
    """The result of `evaluate`."""
    check_argument("before", before, "a function of the names of models, or None", valid=before is None or callable(before))
    request = request_of(tables, Options(**options))
    request.check_given()
    return _run_stages(tables, request, before)


def request_of(tables: Tables, options: Options) -> Request:
    """The arguments of an evaluation of these tables, checked. Raises `ConfigError`."""
    checked_columns(options.columns)
    if tables.check() == SPARK:
        from spark_recmetrics.inputs.buckets_spark import default_n_buckets
        from spark_recmetrics.inputs.spark import check_session

        check_session(tables.predictions.sparkSession)
        if options.n_buckets is None:
            options = replace(options, n_buckets=default_n_buckets(tables.predictions.sparkSession))
    return Request.of(tables.columns, options, tables.catalog_size)


def _run_stages(tables: Tables, request: Request, before: Callable[[Sequence[str]], None] | None) -> Result:
    with _engine_of(tables, request) as engine:
        inputs = engine.read()
        known = engine.learn(inputs)
        if before is not None:
            before(known.models)
        scored = engine.score(inputs, known)
        totals = engine.total(inputs, scored)
        counts = engine.row_counts(inputs)
        again = engine.look_again(inputs, scored, totals)
        checks = data_report(
            counts,
            {model: {**sums, **again[model]} for model, sums in totals.items()},
            known.models,
            Levels(request.policies, request.convention, request.scores_are_numbers, bool(request.ranking_metrics)),
            has_ratings=inputs.has_ratings,
            rated=bool(request.rating_metrics),
        )
        reject(checks)
        checks += engine.unmatched(inputs)
        sliced = Sliced.of(request)
        sums = engine.aggregate(inputs, known, scored, totals, sliced)
        means, of_slices = values_of(totals, sums, request, known, sliced)
        if overflows := too_large(means, of_slices, totals):
            raise DataError("\n".join(overflows), checks)
        hashed = f"{counts['truth'].get('rows', 0)} {counts['truth'].get('hash')}"
        return Result(
            means=means,
            sliced=of_slices,
            data_checks=checks,
            convention=request.convention,
            run=request.run,
            data_hash=hashlib.sha256(hashed.encode()).hexdigest()[:16],
            warnings=[
                *request.warnings,
                *(check.line() for check in checks if check.level == "warn"),
                *without_values(request.slices, of_slices),
            ],
            slices=request.slices.slices,
            min_users=request.min_users,
            objectives=request.objectives,
            confidence=request.intervals.confidence,
            evaluated=Evaluated(request, inputs, known, scored, engine),
        )


def _engine_of(tables: Tables, request: Request) -> Engine:
    if engine_of("predictions", tables.predictions) == SPARK:
        from spark_recmetrics.evaluation.spark import SparkEngine

        return SparkEngine(tables, request)
    from spark_recmetrics.evaluation.memory import MemoryEngine

    return MemoryEngine(tables, request)
