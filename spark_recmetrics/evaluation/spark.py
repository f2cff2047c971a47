"""Evaluate: from predictions and truth to PER_USER, SUMMARY and DATA_REPORT."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from numbers import Number
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_recmetrics.aggregation.groups_spark import group_means, item_sums, user_sums
from spark_recmetrics.aggregation.items_spark import counted_in, item_counts, with_item_intervals
from spark_recmetrics.aggregation.means import combined, means, nothing
from spark_recmetrics.aggregation.pooled_auc_spark import pooled_auc, won_in_ranges
from spark_recmetrics.aggregation.slicing_spark import Slicing
from spark_recmetrics.aggregation.spark import user_totals
from spark_recmetrics.columns import ITEM_SLICE, TABLE_OF, Columns, passing
from spark_recmetrics.conventions import Convention
from spark_recmetrics.conventions import convention as named_convention
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.evaluation.calibration_spark import Against, calibrate
from spark_recmetrics.evaluation.explain_spark import Explanation, explain_user
from spark_recmetrics.evaluation.result import Outcome, pair_means, refuse
from spark_recmetrics.inputs.data_report import Judge, checked_policies, data_report
from spark_recmetrics.inputs.spark import Inputs, clean_predictions, clean_truth, read_inputs
from spark_recmetrics.metrics import DEFAULT_K, DEFAULT_METRICS, DEFAULT_N_BUCKETS, Metric, expand
from spark_recmetrics.metrics.item_counts import item_values
from spark_recmetrics.metrics.objectives import read_objectives
from spark_recmetrics.metrics.parsing import named_populations
from spark_recmetrics.metrics.registry import LARGEST_CATALOG, checked_integer
from spark_recmetrics.request.arguments import Ranking, check_frames, check_names, check_ranking
from spark_recmetrics.request.intervals import IntervalMethod, Intervals
from spark_recmetrics.request.needs import OF_TRAIN, Needs
from spark_recmetrics.request.slices import MIN_USERS, Slice
from spark_recmetrics.runs.identity import Run
from spark_recmetrics.scoring.partial_sums import SCORE_EDGES, with_pairs
from spark_recmetrics.scoring.plan_spark import Plan
from spark_recmetrics.side_info.bands_spark import with_bands
from spark_recmetrics.side_info.groups_spark import know_groups, named_columns
from spark_recmetrics.side_info.items_spark import (
    OF_FEATURES,
    kept_training,
    know_descriptions,
    know_items,
    know_popularity,
    parts_of_items,
)
from spark_recmetrics.storage import actions, read
from spark_recmetrics.storage.progress import step
from spark_recmetrics.storage.row_counts import RowCounts
from spark_recmetrics.storage.schemas import DATA_REPORT, SUMMARY
from spark_recmetrics.text import brief, did_you_mean

_EXAMPLE = ("model", "user", "item")
"""How a row is named among the examples of a fault."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(Outcome):
    """What `evaluate` found.

    Args:
        per_user: PER_USER: one row per model and user of truth or predictions, a column per metric; null is undefined.
        plan: How the values were computed.
        kept: What is held in the cluster: PER_USER, and perhaps columns that only `evaluate` reads.
    """

    per_user: DataFrame
    plan: Plan
    kept: DataFrame

    @property
    def summary(self) -> DataFrame:
        """SUMMARY: one row per model, slice and metric."""
        rows = [tuple(row[name] for name in SUMMARY.names) for row in self.rows]
        return self.per_user.sparkSession.createDataFrame(rows, SUMMARY)

    @property
    def data_report(self) -> DataFrame:
        """DATA_REPORT: one row per fact about the input."""
        found: DataFrame = self.per_user.sparkSession.createDataFrame(list(self.data_checks), DATA_REPORT)
        return found

    def explain(self, user: Any, model: str | None = None) -> Explanation:
        """The lists of one user, row by row, with what each row adds to each metric. `str` of it is a table.

        Args:
            user: The user; ids are compared as text.
            model: The model, None for all.

        Raises:
            ConfigError: There is no such model.
            DataError: The user stands neither in truth nor in predictions.

        Example:
            >>> predictions = spark.createDataFrame(
            ...     [("ann", "x", 0.9), ("ann", "y", 0.8), ("bob", "y", 0.7), ("cid", "x", 0.1)],
            ...     "user_id string, item_id string, score double",
            ... )
            >>> truth = spark.createDataFrame([("ann", "y"), ("bob", "y"), ("cid", "z")], "user_id string, item_id string")
            >>> print(evaluate(predictions, truth, metrics=["mrr", "recall"], k=2).explain("ann"))
            user ann, model model, convention default
            list of 2, ground truth 1, relevant 1
            <BLANKLINE>
            rank   item  score  tied  judged  rating  hit  gain    mrr@2  recall@2
            1      x       0.9     0                          0        .         .
            2      y       0.8     0     yes          yes     1  +0.5000   +1.0000
            value                                                 0.5000    1.0000
        """
        return explain_user(self.plan, user, model)

    def score_calibration(self, n_bins: int = 20, *, against: Against | None = None) -> list[dict[str, Any]]:
        """How often rows with about the same score are relevant, or what they are rated: a reliability diagram in numbers.

        The scores of a model are cut at their quantiles into bins B of about as many rows each. The value of a bin is

            share of relevant rows = n_relevant(B) / n_rows(B),  or  mean rating = sum of true ratings(B) / n_rows(B)

        and a calibrated model has a value equal to `mean_score`, where its scores are probabilities or ratings; where they
        are any numbers, the values rise with the bins. The first counts all rows of users who stand in truth, wherever in
        the list: what truth lacks is not relevant. The second looks at the pairs that have a rating. Missing and infinite
        scores are left out, equal scores are in one bin, so that there may be fewer bins. Scores are not clipped. In large
        tables an edge is approximate, by a few rows. Starts one Spark job.

        Args:
            n_bins: How many bins, up to 1000.
            against: `relevance` or `rating`. None: ratings where the evaluation has rating metrics alone.

        Returns:
            A row for each model and bin: `model, against, bin` from 1, `score_low, score_high, mean_score, n_rows, value`.

        Raises:
            ConfigError: An argument is wrong.
            DataError: There are no scores, only ranks; or no ratings.

        Example:
            >>> lists = [("ann", "x", 0.9), ("ann", "y", 0.8), ("bob", "y", 0.2), ("bob", "x", 0.1)]
            >>> predictions = spark.createDataFrame(lists, "user_id string, item_id string, score double")
            >>> truth = spark.createDataFrame([("ann", "x"), ("ann", "y"), ("bob", "x")], "user_id string, item_id string")
            >>> for row in evaluate(predictions, truth, metrics="mrr", k=2).score_calibration(2):
            ...     print(row["bin"], round(row["mean_score"], 2), row["n_rows"], row["value"])
            1 0.15 2 0.5
            2 0.85 2 1.0
        """
        return calibrate(self.plan, n_bins, against)

    def release(self) -> None:
        """Give back the memory that PER_USER holds in the cluster. Its values are computed again if it is read later."""
        actions.release(self.kept)


def evaluate(
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
    user_segments: DataFrame | None = None,
    item_groups: DataFrame | None = None,
    item_features: DataFrame | None = None,
    slices: Sequence[str | Slice] = (),
    min_users: int = MIN_USERS,
    intervals: Intervals | IntervalMethod = "normal",
    rating_predictions: DataFrame | None = None,
    baseline: str | None = None,
    objectives: Mapping[str, Mapping[str, float] | None] | None = None,
    model_name: str = "model",
    models: Sequence[str] | None = None,
    checks: Mapping[str, str] | None = None,
    cast_ids: str | None = None,
    n_buckets: int = DEFAULT_N_BUCKETS,
    ranking: Ranking = "auto",
    max_per_user: int | None = None,
    run: Run = Run(),
    before: Callable[[], None] | None = None,
) -> Result:
    """Evaluate one or several recommenders against the truth.

    Args:
        predictions: One row per (model, user, item) with a score or a rank. A frame without a model column is one model.
        truth: One row per (user, item) with a rating, or without: then every row is relevant.
        metrics: Texts such as `ndcg`, `map@10`, `f1(beta=0.5)@20`, `rmse`.
        k: Cut-offs of ranking metrics that are written without one; None or empty: the whole list.
        threshold: A truth row is relevant from this rating on, under every convention. None: as the convention says.
        convention: Name of a convention, its text, a mapping, or a `Convention`, see `srm.convention`.
        columns: The caller's column names.
        train: One row per (user, item) that the user had before, for `auc`, `gauc` and `lauc`, whose candidates are unseen, and
            for metrics of popularity and of what users have seen. Where no metric needs it, it is named in the warnings; so are
            `user_segments`, `item_features` and `item_groups`.
        catalog: One row per item that could be recommended, or their number, for the metrics that need it.
        user_segments: One row per user, in the column `columns.user`, with columns that slices and metrics of groups name.
        item_features: One row per item, in the column `columns.item`, with feature vectors or categories, for metrics that
            need them; `Columns` says in which forms.
        item_groups: One row per item, in the column `columns.item`, with columns that slices and metrics of groups name; an
            array has several values.
        slices: Groups of users, or of items, for which every value is told, too: columns of these tables, as they are
            (`gender`) or cut into bands (`age(18, 35)`); `activity` and `popularity`, by the number of rows that the user or
            item has in `train`; several together (`gender*age(18, 35)`). See docs/slices.md for what a slice of items is.
        min_users: Values of slices over fewer users are marked as small.
        intervals: `normal`, `bootstrap`, or `srm.Intervals` with confidence, replicates and seed.
        rating_predictions: Predicted ratings in the score column, for rating metrics; None: the predictions.
        baseline: The model whose lists are what everybody expects, for `unexpectedness` and `serendipity(against=baseline)`.
        objectives: Metrics of this evaluation that are wanted together, each with its points, such as
            `{"ndcg": {"nadir": 0.1}, "novelty": {"utopia": 12, "nadir": 0}}`: for `euc_distance`, `hypervolume` and
            `result.pareto()`, see `metrics.objectives.read_objectives`.
        model_name: Name of the one model of a frame without a model column.
        models: The models to evaluate; rows of others are left out. None: all there are, found by an extra look at the column.
        checks: What becomes of faulty rows, by check, such as `{"null_ids": "drop"}`; None: see `data_report.POLICIES`.
        cast_ids: `string`: ids of different types become texts, `10` and `"10"` the same. None: they are refused.
        n_buckets: Groups of users that are scored together, on every model. More of them need less memory per worker; a
            group of about a million recommendations is a good size, or of rows of lists where these come whole.
        ranking: Where lists are ranked. `window`: by a window of Spark, which takes lists of any length and hands on the first
            rows. `lists`: whole lists go to the workers and are ranked there, which is faster where lists are not much longer
            than k; the lists of a user have to fit into the memory of a worker. `auto`: `lists` where `max_per_user` is given,
            else `window`. PER_USER is the same, bit for bit, and means up to their last digits. For metrics that look at whole
            lists it is always `lists`. Lists that come as arrays, or with ranks that are taken as they are, need no window: for
            these `auto` without a length is the fastest.
        max_per_user: How many rows the longest list has at most, repeats counted. A longer one is refused, and its users are
            named. A window would cut it uncounted, so it cannot be declared with `ranking="window"`.
        run: Identity that is written into the tables.
        before: Called when arguments, columns and the tables of users and items have been checked, before lists are scored;
            what it raises ends the evaluation.

    Returns:
        The result. PER_USER is computed once and kept until `result.release()`.

    Raises:
        ConfigError: A metric, a cut-off, the convention or another argument is wrong; no Spark job has run.
        DataError: A column is missing or of a wrong type, or rows are refused: null ids, NaN scores, repeated rows, ranks
            with gaps, negative gains, lists longer than declared. The message counts them and says which option admits them.

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
    goals = read_objectives(objectives, chosen)
    rules = named_populations(named_convention(convention, threshold))
    try:
        policies = checked_policies(checks)
    except ConfigError as error:
        raise ConfigError(f"checks: {error}") from error
    if not (cast_ids is None or isinstance(cast_ids, str)) or cast_ids not in (None, "string"):
        raise ConfigError(f"cast_ids: expected 'string' or None, found {brief(cast_ids)}")
    min_users = checked_integer(min_users, "min_users")
    if not isinstance(run, Run):
        raise ConfigError(f"run: expected srm.Run(...), found {brief(run)}")
    n_buckets = checked_integer(n_buckets, "n_buckets")
    max_per_user = None if max_per_user is None else checked_integer(max_per_user, "max_per_user")
    check_ranking(ranking, max_per_user)
    size = checked_integer(catalog, "catalog", LARGEST_CATALOG) if isinstance(catalog, int | Number) else None
    items = None if isinstance(catalog, int | Number) else catalog
    given = {
        "train": train,
        "catalog": items,
        "user_segments": user_segments,
        "item_groups": item_groups,
        "item_features": item_features,
    }
    check_frames(columns, {"predictions": predictions, "truth": truth}, rating_predictions=rating_predictions, **given)
    check_names("model_name", [model_name])
    if models is not None:
        check_names("models", models)
    needs = Needs(chosen, rules)
    needs.check()
    if baseline is not None:
        check_names("baseline", [baseline])
    there = {**given, "catalog": catalog, "baseline": baseline}
    needs.check_given({name for name, one in there.items() if one is not None})
    sized = bool(needs.asked_by("catalog"))
    slicing = Slicing.of(
        slices, intervals, {"user": user_segments, "item": item_groups}, columns, chosen, trained=train is not None
    )
    used = {"catalog": True, "item_features": bool(needs.all & OF_FEATURES), **slicing.used}
    used["train"] |= bool(needs.all & OF_TRAIN)
    used["user_segments"] |= "user_groups" in needs.all
    used["item_groups"] |= "item_groups" in needs.all
    grouped = named_columns(chosen, {"user": user_segments, "item": item_groups}, columns)
    warnings = [
        f"{name} is not used by any of the {'slices or metrics' if name in TABLE_OF.values() else 'metrics'}"
        for name, frame in given.items()
        if frame is not None and not used.get(name)
    ]
    if max_per_user is not None and all(metric.definition.kind == "rating" for metric in chosen):
        warnings.append("max_per_user is not looked at: none of the metrics looks at lists")
    drops = "drop" in (rules.nan_scores, *policies.values())
    with read.example_in_errors():
        inputs = read_inputs(
            predictions,
            truth,
            columns=columns,
            rating_predictions=rating_predictions if needs.rating else None,
            train=train if used["train"] else None,
            catalog=items,
            segments=user_segments if used["user_segments"] else None,
            groups=item_groups if used["item_groups"] else None,
            features=item_features if used["item_features"] else None,
            needs_score=needs.scores(rated_apart=rating_predictions is not None),
            needs_ratings=needs.rating or (None if threshold is None else "threshold"),
            needs_propensity=needs.asked_by("propensity"),
            cast_ids=cast_ids,
            n_buckets=n_buckets,
            # What stands behind a dropped row moves up, and which rows these are must not depend on the metrics.
            longest=None if drops or max_per_user is not None else needs.longest,
            reads_scores=rules.nan_scores == "drop",
        )
    by_model = any("model" in rows.columns for rows in inputs.predicted.values())
    if models is not None and len(models) > 1 and not by_model:
        raise ConfigError(
            f"models: expected a column {columns.model!r} (columns.model) that tells {', '.join(models)} apart, found none: "
            "give model_name for predictions of one model"
        )
    spark = predictions.sparkSession
    with step(spark, "models and catalog"):
        names = list(models) if models is not None else _models_of(inputs) or [model_name]
        n_items = actions.count_distinct(inputs.catalog) if sized and inputs.catalog is not None else size
    if n_items == 0:
        raise DataError("catalog: expected rows with an item, found none: check its location and filters")
    compared = baseline if needs.asked_by("baseline") else None
    if compared is not None and compared not in names:
        raise ConfigError(f"baseline: unknown model {compared!r}{did_you_mean(compared, names)}")
    with ExitStack() as spare:
        with step(spark, "items and groups"), read.example_in_errors():
            trained = kept_training(inputs, needs.all, spare)
            of_groups, described, popularity, bands = actions.in_parallel(
                spark,
                lambda: know_groups(inputs, needs, grouped, columns),
                lambda: know_descriptions(inputs, needs.all, columns),
                lambda: know_popularity(trained, inputs, needs.all),
                lambda: slicing.bands(inputs),
            )
        known = know_items(trained, popularity, described, of_groups, parts_of_items(n_buckets), spare)
        of_items = slicing.of_side["item"]
        plan = Plan(
            inputs,
            chosen,
            rules,
            policies,
            names,
            n_buckets,
            n_items,
            item_slices=of_items,
            item_bands=bands.get("item"),
            items=known,
            baseline=compared,
            groups=of_groups,
            resampled=slicing.intervals.method == "bootstrap",
            ranking=ranking,
            max_per_user=max_per_user,
        )
        if before is not None:
            before()
        kept = actions.materialize(with_bands(plan.per_user, bands["user"]) if "user" in bands else plan.per_user)
        lost = spare.enter_context(ExitStack())  # unless there is a result, which keeps it
        lost.callback(actions.release, kept)
        # A row without a model is nobody's.
        rows = kept.where(F.col("model").isNotNull()) if "trained_groups" in needs.all else kept
        whole = rows.where(F.col(ITEM_SLICE).isNull()) if of_items else rows
        per_user = whole.drop(*passing(kept.columns))
        with step(spark, "scoring") as told:
            totals = combined(actions.collect_rows(user_totals(whole, chosen, rules)))
            seen = {table: _observed(watch) for table, watch in plan.watched.items()}
            told.rows = sum(own.get("rows") or 0 for own in seen.values())
            told.users = max((own.get("users_all", 0) for own in totals.values()), default=0)
            in_both = _items_in_both(plan, totals)
        judge = Judge(policies, rules, plan.as_numbers)
        data_checks = data_report(
            seen,
            totals,
            names,
            judge,
            has_ratings=inputs.has_ratings,
            rated=bool(needs.rating),
            in_both=in_both,
        )
        refuse(data_checks)
        warnings += [fact.line() for fact in data_checks if fact.level == "warn"]
        listed = counted_in(whole, plan)
        if listed is not None:
            spare.callback(actions.release, listed)
        with step(spark, "adding up"):
            across, (counts, in_lists), in_users = actions.in_parallel(
                spark,
                lambda: _across_users(whole, totals, plan),
                lambda: (item_counts(listed, plan), item_sums(listed, plan)),
                lambda: user_sums(kept, plan),
            )
        for code, name in enumerate(names):
            across[name] |= item_values(chosen, rules, counts, code)
        in_groups = group_means([*in_users, *in_lists], plan)
        for name, own in in_groups.items():
            across[name] |= {metric.slug: (one.value, one.n_users) for metric, one in own.items()}
        served = {model: own for model, own in in_groups.items() if totals.get(model, {}).get("users_predicted")}
        values = {
            name: means(totals[name], chosen, rules, across[name], slicing.intervals.confidence)
            if name in totals
            else nothing(chosen, rules)
            for name in names
        }
        with step(spark, "slices and intervals"):
            values, sliced = slicing.values(rows, plan, values)
            values = with_item_intervals(values, whole, listed, plan, counts, slicing.intervals)
        lost.pop_all()
        return Result(
            per_user=per_user,
            means=values,
            slices=slicing.slices,
            sliced={**sliced, **pair_means(served)},
            min_users=min_users,
            objectives=goals,
            confidence=slicing.intervals.confidence,
            data_checks=data_checks,
            convention=rules,
            run=run,
            data_hash=_data_hash(seen["truth"]),
            warnings=warnings,
            plan=plan,
            kept=kept,
        )


def _models_of(inputs: Inputs) -> list[str]:
    """The names in every table that has a model column, by an extra look at that column."""
    return sorted(
        {name for rows in inputs.predicted.values() if "model" in rows.columns for name in actions.distinct_models(rows)}
    )


def _across_users(
    per_user: DataFrame, totals: Mapping[str, Mapping[str, Any]], plan: Plan
) -> dict[str, dict[str, tuple[float | None, int]]]:
    """By model and slug, value and number of users of the metrics that compare the pairs of different users."""
    metrics = [metric for metric in plan.metrics if metric.definition.across_users]
    found: dict[str, dict[str, tuple[float | None, int]]] = {model: {} for model in plan.models}
    if not metrics:
        return found
    edges = {model: own[SCORE_EDGES] for model, own in totals.items() if SCORE_EDGES in own}
    ranges = actions.collect_rows(won_in_ranges(per_user, [metric.k for metric in metrics], edges))
    for place, metric in enumerate(metrics):
        values = pooled_auc(ranges, place)
        for model, own in found.items():
            own[metric.slug] = (values.get(model), totals.get(model, {}).get(with_pairs(metric.k), 0))
    return found


def _observed(watch: RowCounts) -> dict[str, Any]:
    """What was counted of a table; of each fault that there is, a second look finds examples."""
    found = actions.observed_counts(watch)
    keys = [key for key in _EXAMPLE if key in watch.rows.columns]
    told = (F.concat(F.lit(f"{key} "), F.coalesce(F.col(key).cast("string"), F.lit("null"))) for key in keys)
    ids = F.concat_ws(", ", *told)
    for check, fault in watch.faults.items():
        if found.get(check):
            found[f"{check}_example"] = actions.example_values(watch.rows.where(fault).select(ids), sep="; ")
    return found


def _items_in_both(plan: Plan, totals: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Of models that predict no pair of truth: how many items of truth they predict at all, and how many there are.

    Ids of two kinds, such as those of the shop and those of the model, look like a bad model. It takes a second look at the
    tables, which a model with a single pair needs not.
    """
    asked = [model for model, own in totals.items() if own.get("n_matched") == 0 and own["users_truth_and_predicted"]]
    if not asked:
        return {}
    truth = clean_truth(plan.inputs.truth, plan.convention, plan.policies).select("item").distinct()
    n_items, found = actions.count_distinct(truth), {}
    for model in asked:
        rows = clean_predictions(plan.inputs.predicted["predictions"], plan.convention, plan.policies)
        rows = rows.where(F.col("model") == model) if "model" in rows.columns else rows
        found[model] = (actions.count_distinct(truth.join(rows.select("item"), "item", "left_semi")), n_items)
    return found


def _data_hash(observed: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{observed.get('rows', 0)} {observed.get('hash')}".encode()).hexdigest()[:16]
