"""Metrics of small data in memory, from dicts of lists to a dict of values."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_recmetrics.columns import Columns
from spark_recmetrics.conventions import Convention
from spark_recmetrics.conventions import convention as named_convention
from spark_recmetrics.errors import ConfigError, DataError, DataWarning
from spark_recmetrics.evaluation.result import Result
from spark_recmetrics.evaluation.stages import evaluate, evaluate_tables
from spark_recmetrics.inputs.data_report import DIFFERENT_IDS
from spark_recmetrics.inputs.tables import Tables, engine_of
from spark_recmetrics.metrics import DEFAULT_METRICS, Metric, expand
from spark_recmetrics.metrics.registry import LARGEST_CATALOG, checked_integer
from spark_recmetrics.request.needs import Needs
from spark_recmetrics.request.request import Options, Request
from spark_recmetrics.text import brief

if TYPE_CHECKING:
    import pandas as pd

Values = dict[str, "float | None"]

_DISJOINT = dict.fromkeys(DIFFERENT_IDS, "warn")
"""Different ids are a warning: a single user may have a list without any item of the ground truth."""


def compute_metrics(
    user_pred_true: Mapping[Any, Sequence[tuple[Any, ...]]],
    metrics: Iterable[str | Metric] | str = ("precision", "recall"),
    k: Sequence[int] | int | None = 10,
    threshold: float | None = 3.5,
    *,
    convention: str | Mapping[str, Any] | Convention = "threshold",
    checks: Mapping[str, str] | None = None,
    cast_ids: str | None = None,
) -> Values:
    """Metrics from the predicted and true ratings of each user, as rating predictors return them.

    Args:
        user_pred_true: User -> pairs (predicted, true), whose positions are the items, or triples (item, predicted, true).
            None is a missing true rating.
        metrics: Names such as `precision`, `ndcg@5`, `rmse`.
        k: Cut-off, or cut-offs, of ranking metrics that are written without one; None: the full list.
        threshold: An item is relevant if its true rating is at least this.
        convention: Definitions. `threshold` ranks the rated items by prediction. The item breaks ties: the position of a pair,
            the item of a triple.
        checks: How faulty rows are handled, by check, such as `{"infinite_scores": "drop"}`, as for `evaluate`.
        cast_ids: How ids of different types are handled, as for `evaluate`.

    Returns:
        Value by metric, as it was requested: `precision` for one k, `precision@5` for several. Undefined is None.

    Raises:
        ConfigError: A metric, a cut-off, the convention or an option is wrong, or a metric needs more than ratings.
        DataError: An entry is not such a tuple, or `evaluate` rejects its numbers.

    Warns:
        DataWarning: There are no users to average.

    Example:
        Ann's two best predictions include one of her two relevant items. Bob has one item, and Cid none that is relevant:

        >>> rated = {"ann": [(4.5, 5.0), (4.0, 2.0), (3.0, 4.0)], "bob": [(3.5, 4.0)], "cid": [(2.0, 1.0)]}
        >>> compute_metrics(rated, ["precision", "recall", "mae"], k=2)
        {'precision': 0.3333333333333333, 'recall': 0.5, 'mae': 1.0}
    """
    if not isinstance(user_pred_true, Mapping):
        raise DataError(f"user_pred_true: expected a dict from user to pairs, found {type(user_pred_true).__name__}")
    rows = [(user, *triple) for user, entries in user_pred_true.items() for triple in _triples(user, entries)]
    several = isinstance(metrics, Iterable) and not isinstance(metrics, str | bytes | Mapping)
    requested: list[Any] = list(metrics) if several else [metrics]
    _check_given(Needs(expand(requested, k), named_convention(convention, threshold)), ())
    result = evaluate(
        _frame([(user, item, predicted) for user, item, predicted, _ in rows], "score"),
        _frame([(user, item, true) for user, item, _, true in rows if true is not None], "rating"),
        metrics=requested,
        k=k,
        threshold=threshold,
        convention=convention,
        checks=_with_defaults(checks),
        cast_ids=cast_ids,
    )
    _warn(result)
    by_metric, values = result.to_dict()["model"], {}
    for text in requested:
        expanded = expand([text], k)
        single = len(expanded) == 1 and not isinstance(k, list | tuple)
        values.update({str(text if single else metric): by_metric[str(metric)] for metric in expanded})
    return values


class Evaluator:
    """Ranking metrics of recommendation lists, in memory, or on Spark for Spark DataFrames.

    Args:
        k_values: Cut-offs.
        metrics: Names such as `ndcg`, `map@10`.
        convention: Name of a convention, its text, a mapping, or a `Convention`, see `srm.convention`.
        threshold: An item is relevant if its true rating is at least this. None: as the convention says.
        checks: How faulty rows are handled, by check, such as `{"null_ids": "drop"}`, as for `srm.evaluate`.
        cast_ids: `string`: ids of different types become strings. `bigint`: floats become integers. None: both are rejected.

    Raises:
        ConfigError: An argument is wrong, or a metric needs a table that only `srm.evaluate` takes.

    Example:
        >>> evaluator = Evaluator(k_values=[1, 2], metrics=["recall", "mrr"])
        >>> evaluator.evaluate({"ann": ["x", "y"], "bob": ["y"], "cid": ["x"]}, {"ann": ["y"], "bob": ["y"], "cid": ["z"]})
        {'recall@1': 0.3333333333333333, 'recall@2': 0.6666666666666666, 'mrr@1': 0.3333333333333333, 'mrr@2': 0.5}
    """

    def __init__(
        self,
        k_values: Sequence[int] | int = (5, 10, 20),
        metrics: Iterable[str | Metric] | str = DEFAULT_METRICS,
        convention: str | Mapping[str, Any] | Convention = "default",
        threshold: float | None = None,
        *,
        checks: Mapping[str, str] | None = None,
        cast_ids: str | None = None,
    ) -> None:
        self.metrics = expand(metrics, k_values)
        self.convention = named_convention(convention, threshold)
        self.threshold = threshold
        self.checks, self.cast_ids = _with_defaults(checks), cast_ids
        options = Options(metrics=self.metrics, k=None, convention=self.convention, checks=self.checks, cast_ids=cast_ids)
        self._needs = Request.of({}, options, None).needs
        _check_given(self._needs, ("catalog",))

    def evaluate(
        self, recommendations: Any, truth: Any, *, catalog_size: int | None = None, columns: Columns = Columns()
    ) -> Values:
        """The value of every metric.

        Args:
            recommendations: User -> list of items, best first, or of pairs (item, score), or dict from item to score; or a
                frame of one model, as for `srm.evaluate`. A user with an empty list counts as one with a list.
            truth: User -> items, or dict from item to rating; or a frame of the same kind. A user with an empty set counts
                where users with ground truth count (`users` of the convention), also without a relevant item.
            catalog_size: Number of items that could be recommended, for metrics that need it.
            columns: The column names of frames.

        Returns:
            Value by metric; undefined is None.

        Raises:
            ConfigError: The two arguments are of different kinds, or a metric needs the catalog.
            DataError: A threshold is given, and truth has no ratings; or `srm.evaluate` rejects rows.

        Warns:
            DataWarning: The two arguments have no user or no item in common, or there are no users to average.

        Example:
            >>> recommendations = {"ann": {"x": 0.2, "y": 0.9}, "bob": {"y": 0.7}, "cid": {"x": 0.5}}
            >>> Evaluator(1, "ndcg").evaluate(recommendations, {"ann": {"y": 5.0}, "bob": {"x": 4.0}, "cid": {}})
            {'ndcg@1': 0.5}
        """
        kinds = [_kind(recommendations, "recommendations"), _kind(truth, "truth")]
        if kinds[0] != kinds[1]:
            named = " and ".join(
                "dict" if isinstance(table, Mapping) else type(table).__module__.partition(".")[0]
                for table in (recommendations, truth)
            )
            raise ConfigError(f"expected recommendations and truth of one kind, found {named}")
        if (metric := self._needs.first_with("catalog")) is not None and catalog_size is None:
            raise ConfigError(f"{metric} needs the catalog: give catalog_size, the number of items that could be recommended")
        size = None if catalog_size is None else checked_integer(catalog_size, "catalog_size", LARGEST_CATALOG)
        tables = Tables(recommendations, truth, catalog=size)
        if kinds[0] == "dict":
            frames = {"predictions": _lists(recommendations), "truth": _items(truth, rated=self.threshold is not None)}
            _check_columns(frames, self._needs)
            users = {"predictions": recommendations, "truth": truth}
            columns = Columns(rank="rank" if "rank" in frames["predictions"] else None)
            without_items = {name: _without_items(users[name], frames[name]) for name in frames}
            tables = Tables(**frames, catalog=size, without_items=without_items)
        result = evaluate_tables(
            tables,
            metrics=self.metrics,
            k=None,
            threshold=self.threshold,
            convention=self.convention,
            columns=columns,
            checks=self.checks,
            cast_ids=self.cast_ids,
        )
        result.release()
        _warn(result)
        values = result.to_dict()
        if len(values) != 1:
            raise DataError(f"recommendations: expected one model, found {', '.join(values)}: use srm.evaluate for several")
        return next(iter(values.values()))


def _with_defaults(checks: Mapping[str, str] | None) -> Mapping[str, str]:
    return {**_DISJOINT, **checks} if isinstance(checks, Mapping) else _DISJOINT if checks is None else checks


def _check_given(needs: Needs, given: Collection[str]) -> None:
    """Raise `ConfigError` if a metric needs a table that cannot be given here."""
    for metric, missing in needs.lacking(given):
        raise ConfigError(f"{metric} needs {missing.what}: use srm.evaluate, and give {missing.key}, {missing.form}")


def _check_columns(frames: Mapping[str, pd.DataFrame], needs: Needs) -> None:
    """Raise `DataError` if a metric needs numbers that the dicts do not have."""
    rating = next((str(metric) for metric in needs.metrics if metric.definition.kind == "rating"), None)
    needed = {"score": rating or needs.first_with("scores"), "rating": rating, "propensity": needs.first_with("propensity")}
    for column, metric in needed.items():
        name = "recommendations" if column == "score" else "truth"
        if metric is not None and not any(column in frame for frame in frames.values()):
            advice = "tables with a propensity column" if column == "propensity" else f"each user a dict from item to {column}"
            raise DataError(f"{name}: {metric} needs a {column} of each item, found none: give {advice}")


def _warn(result: Result) -> None:
    """Warn if the values are meaningless, because plain values have no `warnings`."""
    different_ids = [check.line() for check in result.data_checks if check.level == "warn" and check.check in DIFFERENT_IDS]
    if lines := [*different_ids, *result.emptiness]:
        warnings.warn("\n".join(lines), DataWarning, stacklevel=3)


def _triples(user: Any, entries: Any) -> Iterator[tuple[Any, ...]]:
    """The items of a user with their predicted and true ratings."""
    if isinstance(entries, str | bytes | Mapping) or not isinstance(entries, Iterable):
        raise DataError(
            f"user {user!r}: expected a list of (predicted, true) or (item, predicted, true), found {type(entries).__name__}"
        )
    for position, entry in enumerate(entries):
        if not isinstance(entry, tuple | list) or len(entry) not in (2, 3):
            raise DataError(f"user {user!r}: expected (predicted, true) or (item, predicted, true), found {brief(entry)}")
        yield (position, *entry) if len(entry) == 2 else tuple(entry)


def _frame(rows: list[tuple[Any, ...]], number: str) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame(rows, columns=["user_id", "item_id", number], dtype=object)
    for value in frame[number]:
        if isinstance(value, str | bytes | bool | complex | np.bool_ | np.complexfloating):
            raise DataError(f"{number}: expected numbers, found {brief(value)}: cast it first")
    try:
        return frame.astype({number: "float64"})
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{number}: expected numbers: {error}") from error


def _kind(table: Any, name: str) -> str:
    if isinstance(table, Mapping):
        return "dict"
    if not (hasattr(table, "columns") or hasattr(table, "__arrow_c_stream__")):
        kind = type(table).__name__
        raise ConfigError(f"{name}: expected a dict, or a table of pandas, polars, pyarrow or Spark, found {kind}")
    return engine_of(name, table)


def _lists(recommendations: Mapping[Any, Any]) -> pd.DataFrame:
    """One row per recommendation, with a score if there are scores, otherwise with a rank."""
    scored, ranked = [], []
    for user, entries in recommendations.items():
        if isinstance(entries, str | bytes | set | frozenset) or not isinstance(entries, Iterable):
            raise DataError(
                f"recommendations of user {user!r}: expected a list of items in order, found {type(entries).__name__}"
            )
        pairs = list(entries.items() if isinstance(entries, Mapping) else entries)
        if all(isinstance(entry, tuple) and len(entry) == 2 for entry in pairs):
            scored += [(user, item, value) for item, value in pairs]
        else:
            ranked += [(user, item, rank) for rank, item in enumerate(pairs, 1)]
    if scored and ranked:
        raise DataError("recommendations: expected scores for all users or for none, found both")
    return _frame(scored, "score") if scored else _frame(ranked, "rank").astype({"rank": "int64"})


def _without_items(by_user: Mapping[Any, Any], frame: pd.DataFrame) -> list[Any]:
    """The users of a dict without a row in the frame that was made of it: those without items."""
    users = set(frame["user_id"])
    return [user for user in by_user if user not in users]


def _items(truth: Mapping[Any, Any], *, rated: bool) -> pd.DataFrame:
    """One row per item of the ground truth, with a rating if there are ratings."""
    for user, items in truth.items():
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise DataError(
                f"truth of user {user!r}: expected items, or a dict from item to rating, found {type(items).__name__}"
            )
    filled = {user: items for user, items in truth.items() if not hasattr(items, "__len__") or len(items)}
    plain = [user for user, items in filled.items() if not isinstance(items, Mapping)]
    if plain and len(plain) < len(filled):
        raise DataError("truth: expected ratings for all users or for none, found both")
    if plain and rated:
        raise DataError(
            f"truth of user {plain[0]!r}: expected a dict from item to rating, found {type(truth[plain[0]]).__name__}: "
            "threshold needs ratings; leave it out if all true items are relevant"
        )
    rows = [
        (user, item, rating)
        for user, items in truth.items()
        for item, rating in (items.items() if isinstance(items, Mapping) else ((item, 1.0) for item in items))
    ]
    frame = _frame(rows, "rating")
    return frame if rated or (truth and not plain) else frame.drop(columns="rating")
