"""Evaluate: from predictions and truth to PER_USER, SUMMARY and DATA_REPORT."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from spark_recmetrics import tables
from spark_recmetrics.aggregate import Mean, means, nothing, user_totals
from spark_recmetrics.conventions import Convention
from spark_recmetrics.conventions import convention as named_convention
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.facts import EMPTINESS, Fact, prediction_facts, truth_facts, user_facts
from spark_recmetrics.inputs import (
    Inputs,
    clean_predictions,
    clean_truth,
    in_buckets,
    prediction_counts,
    read_inputs,
    read_predictions,
    relevant_only,
    truth_counts,
    with_model_codes,
)
from spark_recmetrics.metrics import DEFAULT_K, DEFAULT_METRICS, DEFAULT_N_BUCKETS, Metric, expand
from spark_recmetrics.metrics.registry import named_populations, whole_number
from spark_recmetrics.rank import top_rows, without_repeats
from spark_recmetrics.rating import rating_errors
from spark_recmetrics.schema import DATA_REPORT, SUMMARY, USER_COUNTERS, Columns
from spark_recmetrics.score import Scoring, named_models, score_users
from spark_recmetrics.version import __version__

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Run:
    """Identity of a run, written into its tables.

    Args:
        run_id: Hash of job, as_of and configuration.
        as_of: The day, or other label, that the run speaks of.
        config_hash: Hash of the configuration.
    """

    run_id: str | None = None
    as_of: str | None = None
    config_hash: str | None = None


@dataclass(frozen=True)
class Result:
    """What `evaluate` found.

    Args:
        per_user: PER_USER: one row per model and user of truth or predictions, a column per metric; null is undefined.
        means: The values of SUMMARY, by model.
        facts: The rows of DATA_REPORT.
        convention: The definitions that were used.
        run: Identity of the run.
        data_hash: Hash of the truth, whatever the order of its rows.
        warnings: One line per thing worth knowing.
    """

    per_user: DataFrame
    means: Mapping[str, Sequence[Mean]]
    facts: Sequence[Fact]
    convention: Convention
    run: Run
    data_hash: str
    warnings: Sequence[str]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of SUMMARY, on the driver."""
        computed_at = datetime.now(timezone.utc)
        return [
            {
                "run_id": self.run.run_id,
                "as_of": self.run.as_of,
                "model": model,
                "slice": "all",
                "slice_value": "all",
                "metric": str(mean.metric),
                "k": mean.metric.k,
                "convention": str(self.convention),
                "value": mean.value,
                "n_users": mean.n_users,
                "n_undefined": mean.n_undefined,
                "std": mean.std,
                "ci_low": mean.ci_low,
                "ci_high": mean.ci_high,
                "ci_method": None if mean.ci_low is None else "normal",
                "higher_is_better": mean.metric.definition.higher_is_better,
                "config_hash": self.run.config_hash,
                "data_hash": self.data_hash,
                "version": __version__,
                "computed_at": computed_at,
            }
            for model, of_model in self.means.items()
            for mean in of_model
        ]

    @property
    def status(self) -> str:
        """`ok`, or `undefined` where a table is empty or a metric has nobody to average."""
        return "undefined" if self.emptiness else "ok"

    @property
    def emptiness(self) -> list[str]:
        """What is empty and must not be, one line each; empty itself if all is well."""
        nobody = {model: [str(m.metric) for m in of_model if m.n_users == 0] for model, of_model in self.means.items()}
        return [
            *(fact.line() for fact in self.facts if fact.level == "error"),
            *(f"model {model}: nobody to average for {', '.join(metrics)}" for model, metrics in nobody.items() if metrics),
        ]

    @property
    def summary(self) -> DataFrame:
        """SUMMARY: one row per model, slice and metric."""
        rows = [tuple(row[name] for name in SUMMARY.names) for row in self.rows]
        return self.per_user.sparkSession.createDataFrame(rows, SUMMARY)

    @property
    def data_report(self) -> DataFrame:
        """DATA_REPORT: one row per fact about the input."""
        found: DataFrame = self.per_user.sparkSession.createDataFrame(list(self.facts), DATA_REPORT)
        return found

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """Values by model and metric; undefined is None."""
        return {model: {str(mean.metric): mean.value for mean in of_model} for model, of_model in self.means.items()}

    def to_pandas(self) -> pd.DataFrame:
        """SUMMARY as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=SUMMARY.names)

    def release(self) -> None:
        """Give back the memory that PER_USER holds in the cluster. Its values are computed again if it is read later."""
        tables.release(self.per_user)


def evaluate(
    predictions: DataFrame,
    truth: DataFrame,
    *,
    metrics: Iterable[str | Metric] | str = DEFAULT_METRICS,
    k: Sequence[int] | int | None = DEFAULT_K,
    threshold: float | None = None,
    convention: str | Convention = "default",
    columns: Columns = Columns(),  # noqa: B008 - frozen
    train: DataFrame | None = None,
    catalog: DataFrame | None = None,
    user_segments: DataFrame | None = None,
    item_features: DataFrame | None = None,
    slices: Sequence[str] = (),
    rating_predictions: DataFrame | None = None,
    model_name: str = "model",
    models: Sequence[str] | None = None,
    n_buckets: int = DEFAULT_N_BUCKETS,
    run: Run = Run(),
) -> Result:
    """Evaluate one or several recommenders against the truth.

    Args:
        predictions: One row per (model, user, item) with a score or a rank. A frame without a model column is one model.
        truth: One row per (user, item) with a rating, or without: then every row is relevant.
        metrics: Texts such as `ndcg`, `map@10`, `f1(beta=0.5)@20`, `rmse`.
        k: Cut-offs of ranking metrics that are written without one; None or empty: the whole list.
        threshold: A truth row is relevant from this rating on, under every convention. None: as the convention says.
        convention: Name of a convention, or a `Convention`.
        columns: The caller's column names.
        train: Not used by a metric of this version, and named in the warnings if given; so are the next three.
        catalog: See `train`.
        user_segments: See `train`.
        item_features: See `train`.
        slices: Not in this version.
        rating_predictions: Predicted ratings in the score column, for `rmse`, `mse` and `mae`; None: the predictions.
        model_name: Name of the one model of a frame without a model column.
        models: The models to evaluate; rows of others are left out. None: all there are, found by an extra look at the column.
        n_buckets: Groups of users that are scored together, on every model. More of them need less memory per worker; a
            group of about a million recommendations is a good size.
        run: Identity that is written into the tables.

    Returns:
        The result. PER_USER is computed once and kept until `result.release()`.

    Raises:
        ConfigError: A metric, a cut-off, the convention or another argument is wrong; no Spark job has run.
        DataError: A column is missing or of a wrong type, or rows are refused: null ids, NaN scores, repeated rows, ranks
            with gaps, negative gains. The message counts them and says which option admits them.

    Example:
        >>> predictions = spark.createDataFrame(
        ...     [("ann", "x", 0.9), ("ann", "y", 0.8), ("bob", "y", 0.7), ("cid", "x", 0.1)],
        ...     "user_id string, item_id string, score double",
        ... )
        >>> truth = spark.createDataFrame(
        ...     [("ann", "y", 5.0), ("bob", "y", 4.0), ("cid", "z", 1.0)], "user_id string, item_id string, rating double"
        ... )
        >>> evaluate(predictions, truth, metrics=["mrr", "hit"], k=[1, 2], threshold=4.0).to_dict()
        {'model': {'mrr@1': 0.5, 'mrr@2': 0.75, 'hit@1': 0.5, 'hit@2': 1.0}}
    """
    chosen = expand(metrics, k)
    rules = named_populations(named_convention(convention, threshold))
    if slices:
        raise ConfigError(f"slices: expected none in this version, found {', '.join(slices)}")
    n_buckets = whole_number(n_buckets, "n_buckets")
    _check_frames(columns, predictions=predictions, truth=truth, rating_predictions=rating_predictions)
    _check_names("model_name", [model_name])
    if models is not None:
        _check_names("models", models)
    given = {"train": train, "catalog": catalog, "user_segments": user_segments, "item_features": item_features}
    warnings = [f"{name} is not used by any of the metrics" for name, frame in given.items() if frame is not None]
    rating = [metric for metric in chosen if metric.definition.kind == "rating"]
    inputs = read_inputs(
        predictions,
        truth,
        columns=columns,
        rating_predictions=rating_predictions if rating else None,
        needs_score=f"{rating[0]} needs it" if rating else None,
        needs_ratings=_needs_ratings(rating, threshold),
    )
    names = list(models) if models is not None else _models_of(inputs) or [model_name]
    plan, watched = _plan(inputs, chosen, rules, names, n_buckets)
    per_user = tables.materialise(plan)
    totals = {row["model"]: row.asDict() for row in tables.collect_rows(user_totals(per_user, chosen, rules))}
    seen = {table: tables.observed(*watch) for table, watch in watched.items()}
    facts = [
        *(fact for table in watched if table != "truth" for fact in prediction_facts(table, seen[table], rules)),
        *truth_facts(seen["truth"], rules, has_ratings=inputs.has_ratings),
        *user_facts({name: totals.get(name, {}) for name in names}, rules, rated=bool(rating)),
    ]
    _refuse(facts, per_user)
    warnings += [fact.line() for fact in facts if fact.level == "warn"]
    return Result(
        per_user=per_user,
        means={name: means(totals[name], chosen, rules) if name in totals else nothing(chosen, rules) for name in names},
        facts=facts,
        convention=rules,
        run=run,
        data_hash=_data_hash(seen["truth"]),
        warnings=warnings,
    )


def rank_items(
    predictions: DataFrame,
    *,
    k: int | None = None,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    ties: str = "item_asc",
    nan_scores: str = "error",
    model_name: str = "model",
) -> DataFrame:
    """The ranked lists of every model and user, by score or by a given rank.

    Args:
        predictions: One row per (model, user, item) with a score or a rank.
        k: Length to cut at; None: whole lists.
        columns: The caller's column names.
        ties: Order of equal scores, see `Convention.ties`.
        nan_scores: What becomes of NaN and null scores, see `Convention.nan_scores`; `error` fails the job that meets one.
        model_name: Name of the one model of a frame without a model column.

    Returns:
        RANKED: `model, user, item, rank, score` (`score` only where there is one), `rank` from 1 to k without gaps. Nothing
        has run yet. Rows with a null id or a rank below 1 are left out; repeated items are not looked for.

    Raises:
        ConfigError: `k` or an option is wrong.
        DataError: A column is missing or of a wrong type.

    Example:
        >>> scores = spark.createDataFrame(
        ...     [("ann", "x", 0.5), ("ann", "y", 0.5), ("bob", "y", 0.7), ("cid", "z", 0.1)],
        ...     "user_id string, item_id string, score double",
        ... )
        >>> [tuple(row) for row in rank_items(scores, k=1).orderBy("user").collect()]
        [('model', 'ann', 'x', 1, 0.5), ('model', 'bob', 'y', 1, 0.7), ('model', 'cid', 'z', 1, 0.1)]
    """
    rules = named_convention("default").override(ties=ties, nan_scores=nan_scores)
    rows = read_predictions(predictions, columns)
    if nan_scores == "error" and "score" in rows.columns:
        fault = F.raise_error(F.lit("rank_items: a score is NaN or null: set nan_scores to drop, last or first")).cast("double")
        rows = rows.withColumn("score", F.when(F.isnan("score") | F.col("score").isNull(), fault).otherwise(F.col("score")))
    rows = clean_predictions(rows, rules)
    ranked = top_rows(rows, k=None if k is None else whole_number(k, "k"), ties=ties, trust_rank=False)
    if "model" not in ranked.columns:
        ranked = ranked.withColumn("model", F.lit(model_name))
    return ranked.select(*(name for name in ("model", "user", "item", "rank", "score") if name in ranked.columns))


def _check_frames(columns: Columns, **frames: DataFrame | None) -> None:
    if not isinstance(columns, Columns):
        raise ConfigError(f"columns: expected srm.Columns(...), found {type(columns).__name__}")
    for name, frame in frames.items():
        # On Spark 3.5 a frame of Connect is of another class, so its kind is told by what it can do.
        if frame is not None and not hasattr(frame, "sparkSession"):
            raise ConfigError(f"{name}: expected a Spark DataFrame, found {type(frame).__module__}.{type(frame).__name__}")


def _check_names(option: str, names: Sequence[str]) -> None:
    if isinstance(names, str) or not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"{option}: expected a list of names, found {names!r}")
    if len(set(names)) < len(names):
        raise ConfigError(f"{option}: expected different names, found {', '.join(names)}")


def _needs_ratings(rating: Sequence[Metric], threshold: float | None) -> str | None:
    if rating:
        return str(rating[0])
    return None if threshold is None else "threshold"


def _models_of(inputs: Inputs) -> list[str]:
    """The names in every table that has a model column, by an extra look at that column."""
    return sorted(
        {name for rows in inputs.predicted.values() if "model" in rows.columns for name in tables.distinct_models(rows)}
    )


def _plan(
    inputs: Inputs, metrics: Sequence[Metric], convention: Convention, models: Sequence[str], n_buckets: int
) -> tuple[DataFrame, dict[str, tuple[Observation, DataFrame, list[Column]]]]:
    """PER_USER, and of each table that it reads the observation, the rows and what is counted of them. Nothing runs yet."""
    ranking = [metric for metric in metrics if metric.definition.kind == "ranking"]
    rating = [metric for metric in metrics if metric.definition.kind == "rating"]
    for_ranking = ["predictions"] if ranking else []
    for_rating = [inputs.rating_table] if rating else []
    reads = dict.fromkeys((*for_ranking, *for_rating))
    counts = {"truth": (inputs.truth, truth_counts(inputs.truth, convention, has_ratings=inputs.has_ratings))}
    counts |= {t: (inputs.predicted[t], prediction_counts(inputs.predicted[t], as_ratings=t in for_rating)) for t in reads}
    watched = {table: (Observation(), rows, counted) for table, (rows, counted) in counts.items()}
    seen = {table: rows.observe(watch, *counted) for table, (watch, rows, counted) in watched.items()}
    truth = clean_truth(seen["truth"], convention)
    predicted = {table: with_model_codes(clean_predictions(seen[table], convention), models) for table in reads}
    scored = [
        _scored(
            predicted[table],
            relevant_only(truth, convention, has_ratings=inputs.has_ratings),
            ranking,
            convention,
            models,
            n_buckets,
        )
        for table in for_ranking
    ]
    rated = [_rated(predicted[table], truth, rating, convention) for table in for_rating]
    # Every pair has a truth row, so a user with a pair has a row on the left; and there all truth rows are looked at.
    per_user = reduce(lambda left, right: left.join(right.drop(*USER_COUNTERS), ["model", "user"], "left"), [*scored, *rated])
    return _named_columns(named_models(per_user, models), metrics), watched


def _named_columns(per_user: DataFrame, metrics: Sequence[Metric]) -> DataFrame:
    """The columns of PER_USER in order: counters, null where nothing was ranked, then metrics with their text as metadata."""
    labels = {metric.slug: {"label": str(metric)} for metric in metrics}
    found = per_user.columns
    counters = (F.col(name) if name in found else F.lit(None).cast("long").alias(name) for name in USER_COUNTERS)
    rest = (name for name in found if name not in ("model", "user", *USER_COUNTERS))
    return per_user.select(
        "model", "user", *counters, *(F.col(name).alias(name, metadata=labels.get(name, {})) for name in rest)
    )


def _scored(
    predictions: DataFrame,
    truth: DataFrame,
    metrics: Sequence[Metric],
    convention: Convention,
    models: Sequence[str],
    n_buckets: int,
) -> DataFrame:
    """Counters and ranking metrics per user, `model` still a number."""
    # The means of an F of means are those of its parts.
    parts = [part for metric in metrics for part in metric.parts()] if convention.f1 == "of_means" else []
    wanted = tuple(expand([*metrics, *parts]))
    judged = convention.candidates == "judged"
    k = None if any(metric.k is None for metric in wanted) else max(metric.k or 0 for metric in wanted)
    given_ranks = "rank" in predictions.columns
    rows = predictions.drop("score") if given_ranks else predictions
    if judged:
        known = truth.select("user", "item").distinct().withColumn("judged", F.lit(True))
        rows = rows.join(known, ["user", "item"], "left").withColumn("judged", F.coalesce("judged", F.lit(False)))
    rows = in_buckets(rows, n_buckets)
    if convention.duplicates == "first":
        rows = without_repeats(rows)
    trust_rank = given_ranks and not judged and convention.duplicates != "first"
    # Of a judged list everything is shipped: what was predicted is all the truth that there is.
    ranked = top_rows(rows, k=None if judged else k, ties=convention.ties, trust_rank=trust_rank)
    definitions = {part.name: part.definition for metric in wanted for part in metric.tree()}
    scoring = Scoring(wanted, tuple(definitions.values()), convention, len(models), k, trust_rank)
    return score_users(ranked, in_buckets(truth, n_buckets), scoring)


def _rated(predictions: DataFrame, truth: DataFrame, metrics: Sequence[Metric], convention: Convention) -> DataFrame:
    """Error moments and rating metrics per user, `model` still a number."""
    rows = without_repeats(predictions) if convention.duplicates == "first" else predictions
    errors = rating_errors(rows, truth, metrics, convention)
    return errors if "model" in errors.columns else errors.withColumn("model", F.lit(0))


def _refuse(facts: Sequence[Fact], per_user: DataFrame) -> None:
    """Raise for rows that would corrupt a number. Emptiness is no fault of a row: the values are undefined then."""
    wrong = {fact for fact in facts if fact.level == "error" and fact.check not in EMPTINESS}
    if not wrong:
        return
    told = [_with_users(fact, per_user) if fact in wrong else fact for fact in facts]
    tables.release(per_user)
    lines = [fact.line() for fact in told if fact.level == "error" and fact.check not in EMPTINESS]
    raise DataError("\n".join(lines), told)


def _with_users(fact: Fact, per_user: DataFrame) -> Fact:
    """The fact with users as its example, where PER_USER has counted it."""
    counter, (_, _, model) = f"n_{fact.check}", fact.table.partition("/")
    if counter not in per_user.columns:
        return fact
    rows = per_user.where(F.col(counter) > 0)
    users = tables.example_values(rows.where(F.col("model") == model) if model else rows, "user")
    return fact._replace(example=f"users {users}")


def _data_hash(observed: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{observed.get('rows', 0)} {observed.get('hash')}".encode()).hexdigest()[:16]
