"""The request: all arguments of an evaluation, checked once, before any table is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from spark_recmetrics.columns import TABLE_OF, Columns, Side
from spark_recmetrics.conventions import Convention
from spark_recmetrics.conventions import convention as named_convention
from spark_recmetrics.errors import ConfigError, check_argument
from spark_recmetrics.metrics import DEFAULT_K, DEFAULT_METRICS, DEFAULT_N_BUCKETS, Metric, expand
from spark_recmetrics.metrics.group_sums import MeasureSpec, group_columns, measure_specs
from spark_recmetrics.metrics.objectives import Objectives, read_objectives
from spark_recmetrics.metrics.parsing import named_populations
from spark_recmetrics.metrics.registry import LARGEST_CATALOG, checked_integer
from spark_recmetrics.request.arguments import Ranking, check_names, check_ranking, checked_policies
from spark_recmetrics.request.intervals import IntervalMethod, Intervals
from spark_recmetrics.request.needs import HISTORY_NEEDS, TRAIN_NEEDS, Needs
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.request.slices import MIN_USERS, Band, Slice, bands_of, by_side, parse_slices
from spark_recmetrics.runs.identity import Run
from spark_recmetrics.text import brief


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of `evaluate` that are not tables."""

    metrics: Iterable[str | Metric] | str = DEFAULT_METRICS
    k: Sequence[int] | int | None = DEFAULT_K
    threshold: float | None = None
    convention: str | Mapping[str, Any] | Convention = "default"
    columns: Columns = Columns()
    slices: Sequence[str | Slice] = ()
    min_users: int = MIN_USERS
    intervals: Intervals | IntervalMethod = "normal"
    baseline: str | None = None
    objectives: Mapping[str, Mapping[str, float] | None] | None = None
    model_name: str = "model"
    models: Sequence[str] | None = None
    checks: Mapping[str, str] | None = None
    cast_ids: str | None = None
    n_buckets: int | None = None
    ranking: Ranking = "auto"
    max_per_user: int | None = None
    run: Run = Run()


@dataclass(frozen=True)
class SliceRequest:
    """The requested slices: in the caller's order, by side, and the bands of the number of training rows."""

    slices: tuple[Slice, ...]
    by_side: Mapping[Side, tuple[Slice, ...]]
    counted: tuple[Band, ...]

    def bands_of_table(self, side: Side) -> tuple[Band, ...]:
        """The bands of columns of the table of users, or of items."""
        return tuple(band for band in bands_of(self.by_side[side]) if band not in self.counted)


@dataclass(frozen=True)
class Request:
    """The checked arguments of an evaluation, see `evaluate`."""

    metrics: tuple[Metric, ...]
    convention: Convention
    objectives: Sequence[Objectives]
    columns: Columns
    slices: SliceRequest
    intervals: Intervals
    min_users: int
    policies: Mapping[str, str]  # how faulty rows are handled, by check
    given: Mapping[str, Sequence[str]]  # by the name of the argument, the columns of each table that is given
    catalog_size: int | None  # the number of items, if it is given instead of a table
    baseline: str | None
    models: tuple[str, ...] | None
    model_name: str
    has_threshold: bool  # a threshold is given, so the ground truth needs ratings
    cast_ids: str | None
    n_buckets: int
    ranking: Ranking
    max_per_user: int | None
    run: Run

    @classmethod
    def of(cls, given: Mapping[str, Sequence[str]], options: Options, catalog_size: object = None) -> Request:
        """Check the columns of the given tables and the other arguments. Raises `ConfigError`."""
        metrics = tuple(expand(options.metrics, options.k))
        objectives = read_objectives(options.objectives, metrics)
        convention = named_populations(named_convention(options.convention, options.threshold))
        plain, needs = _plain_options(options), Needs(metrics, convention)
        compares = needs.first_with("candidates") or needs.first_with("unseen_candidates")
        if compares and convention.duplicates == "keep":
            raise ConfigError(
                f"{compares}: expected duplicates=error or first, found keep, which compares a repeated item twice"
            )
        size = None if catalog_size is None else checked_integer(catalog_size, "catalog", LARGEST_CATALOG)
        return cls(
            metrics=metrics,
            convention=convention,
            objectives=objectives,
            columns=options.columns,
            slices=_slices(options.slices, given, options.columns, metrics),
            intervals=_intervals(options.intervals),
            given=given,
            catalog_size=size,
            baseline=options.baseline,
            has_threshold=options.threshold is not None,
            **plain,
        )

    def check_given(self) -> None:
        """Check that the tables and group columns that metrics need are given. Raises `ConfigError`."""
        others = {"catalog": self.catalog_size, "baseline": self.baseline}
        for metric, missing in self.needs.lacking({*self.given, *(name for name in others if others[name] is not None)}):
            raise ConfigError(f"{metric} needs {missing.what}: give {missing.key}, {missing.form}")
        _ = self.group_columns

    @property
    def compared_baseline(self) -> str | None:
        """The baseline, if a metric reads it."""
        return self.baseline if self.needs.first_with("baseline") else None

    @cached_property
    def needs(self) -> Needs:
        """What the metrics need of the tables."""
        return Needs(self.metrics, self.convention)

    @cached_property
    def ranking_metrics(self) -> tuple[Metric, ...]:
        """All metrics except the rating metrics."""
        return tuple(metric for metric in self.metrics if metric.definition.kind != "rating")

    @cached_property
    def rating_metrics(self) -> tuple[Metric, ...]:
        """The metrics of predicted ratings."""
        return tuple(metric for metric in self.metrics if metric.definition.kind == "rating")

    @property
    def rating_table(self) -> str:
        """The table whose scores are predicted ratings."""
        return "rating_predictions" if "rating_predictions" in self.given else "predictions"

    @cached_property
    def tables_read(self) -> frozenset[str]:
        """The tables that metrics or slices read."""
        needs, sliced = self.needs.all, self.slices
        read = {"predictions", "truth", "catalog"}
        read |= {"rating_predictions"} if self.rating_metrics else set()
        read |= {"train"} if sliced.counted or needs & TRAIN_NEEDS else set()
        read |= {"user_segments"} if sliced.bands_of_table("user") or "user_groups" in needs else set()
        read |= {"item_groups"} if sliced.bands_of_table("item") or "item_groups" in needs else set()
        read |= {"item_features"} if needs & {"features", "categories"} else set()
        return frozenset(read & set(self.given))

    @property
    def counts_train(self) -> bool:
        """The training rows of each user are sent to the workers with the lists, and are counted on the way."""
        return bool(self.ranking_metrics) and bool(self.needs.all & HISTORY_NEEDS)

    @property
    def keeps_lists(self) -> bool:
        """No row is removed from lists before they are ranked, so that given ranks are positions."""
        return self.convention.keeps_lists and "drop" not in self.policies.values()

    @property
    def full_lists(self) -> bool:
        """Full lists are sent to the workers, even if they will be cut."""
        # Each slice of items ranks its own judged items, which a window over the full list has not done.
        if self.convention.candidates == "judged" and self.slices.by_side["item"]:
            return True
        return self.ranking == "lists" or (self.ranking == "auto" and self.max_per_user is not None)

    @property
    def rates_in_lists(self) -> bool:
        """Workers compute the errors of predicted ratings with the lists, also for slices of items."""
        possible = self.rating_table == "predictions" and self.convention.rating_clip == "none"
        needed = bool(self.rating_metrics) and bool(self.ranking_metrics)
        return possible and needed and (self.full_lists or bool(self.slices.by_side["item"]))

    @property
    def warnings(self) -> list[str]:
        """A line for each argument that is given and not used."""
        optional = ("train", "catalog", "user_segments", "item_groups", "item_features")
        warnings = [
            f"{name} is not used by any of the {'slices or metrics' if name in TABLE_OF.values() else 'metrics'}"
            for name in optional
            if name in self.given and name not in self.tables_read
        ]
        if self.max_per_user is not None and not self.ranking_metrics:
            warnings.append("max_per_user is not used: none of the metrics reads lists")
        return warnings

    @property
    def needs_score(self) -> dict[str, str]:
        """By table, why its scores are needed, for messages."""
        by_table = {"predictions": self.needs.first_with("scores")}
        by_table[self.rating_table] = by_table.get(self.rating_table) or self._rating_metric
        return {table: f"{metric} needs it" for table, metric in by_table.items() if metric}

    @property
    def needs_ratings(self) -> str | None:
        """The metric or option that needs ratings in the ground truth, for messages."""
        return self._rating_metric or ("threshold" if self.has_threshold else None)

    @property
    def _rating_metric(self) -> str | None:
        return next(map(str, self.rating_metrics), None)

    @property
    def reads_scores(self) -> bool:
        """Scores are read even if there are ranks, so that the rows that are dropped do not depend on the metrics."""
        return self.convention.nan_scores == "drop"

    def longest_array(self, table: str) -> int | None:
        """How many items of each array in a table are read; None: all, because a later row can move up or is counted."""
        moves_up = "drop" in (self.convention.nan_scores, *self.policies.values()) or self.convention.duplicates == "first"
        if moves_up or self.max_per_user is not None or table in self.needs_score or not self.ranking_metrics:
            return None
        return Scoring.of(self.ranking_metrics, self.convention, 1, given_ranks=False).k

    @cached_property
    def group_columns(self) -> dict[Metric, dict[Side, str]]:
        """For metrics of groups, the columns with groups of users and of items."""
        return group_columns(self.metrics, _side_columns(self.given, self.columns))

    @cached_property
    def measured(self) -> tuple[MeasureSpec, ...]:
        """What is aggregated over lists for the metrics of groups."""
        return measure_specs(self.metrics, self.convention, self.group_columns)

    @property
    def scores_are_numbers(self) -> set[str]:
        """The tables whose scores are used as numbers, not only for the order."""
        tables = {self.rating_table} if self.rating_metrics else set()
        listed = any("list_scores" in metric.needs(self.convention) for metric in self.ranking_metrics)
        return tables | ({"predictions"} if listed else set())


def _plain_options(options: Options) -> dict[str, Any]:
    """The options that are checked independently of each other."""
    cast_ids, models, n_buckets, max_per_user = options.cast_ids, options.models, options.n_buckets, options.max_per_user
    try:
        policies = checked_policies(options.checks)
    except ConfigError as error:
        raise ConfigError(f"checks: {error}") from error
    if cast_ids is not None and not (isinstance(cast_ids, str) and cast_ids in ("string", "bigint")):
        raise ConfigError(f"cast_ids: expected 'string', 'bigint' or None, found {brief(cast_ids)}")
    check_argument("run", options.run, "srm.Run(...)", valid=isinstance(options.run, Run))
    max_per_user = None if max_per_user is None else checked_integer(max_per_user, "max_per_user")
    check_ranking(options.ranking, max_per_user)
    check_names("model_name", [options.model_name])
    if models is not None:
        check_names("models", models)
    if options.baseline is not None:
        check_names("baseline", [options.baseline])
    return {
        "policies": policies,
        "cast_ids": cast_ids,
        "min_users": checked_integer(options.min_users, "min_users"),
        "run": options.run,
        "n_buckets": checked_integer(DEFAULT_N_BUCKETS if n_buckets is None else n_buckets, "n_buckets"),
        "ranking": options.ranking,
        "max_per_user": max_per_user,
        "models": None if models is None else tuple(models),
        "model_name": options.model_name,
    }


def _side_columns(given: Mapping[str, Sequence[str]], columns: Columns) -> dict[Side, list[str] | None]:
    """The columns of the tables of users and of items without their ids, None without a table."""
    return {side: columns.without_ids(side, given[table]) if table in given else None for side, table in TABLE_OF.items()}


def _slices(
    slices: Sequence[str | Slice], given: Mapping[str, Sequence[str]], columns: Columns, metrics: Sequence[Metric]
) -> SliceRequest:
    try:
        parsed = parse_slices(slices)
    except ConfigError as error:
        raise ConfigError(f"slices: {error}") from error
    side_columns = _side_columns(given, columns)
    sides = by_side(parsed, side_columns, trained="train" in given)
    if sides["item"] and not any(metric.definition.kind == "ranking" for metric in metrics):
        raise ConfigError(f"slices: {sides['item'][0]}: expected a ranking metric, found none: item slices need one")
    counted = (band for side in sides for band in bands_of(sides[side]) if band.name not in (side_columns[side] or ()))
    return SliceRequest(parsed, sides, tuple(counted))


def _intervals(intervals: Intervals | IntervalMethod) -> Intervals:
    is_choice = isinstance(intervals, str | Intervals)
    check_argument("intervals", intervals, "'normal', 'bootstrap' or an srm.Intervals", valid=is_choice)
    try:
        return intervals if isinstance(intervals, Intervals) else Intervals(intervals)
    except ConfigError as error:
        raise ConfigError(f"intervals: {error}") from error
