"""Small data in memory: dicts of lists in, a dict of values out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_recmetrics.columns import Columns
from spark_recmetrics.conventions import Convention
from spark_recmetrics.conventions import convention as named_convention
from spark_recmetrics.errors import ConfigError, DataError, DataWarning
from spark_recmetrics.evaluation.stages import evaluate
from spark_recmetrics.inputs.data_report import DIFFERENT_IDS
from spark_recmetrics.inputs.tables import engine_of
from spark_recmetrics.metrics import DEFAULT_METRICS, Metric, expand
from spark_recmetrics.text import brief

if TYPE_CHECKING:
    import pandas as pd

    from spark_recmetrics.evaluation.result import Result


Values = dict[str, "float | None"]

_DISJOINT = dict.fromkeys(DIFFERENT_IDS, "warn")
"""A single user may be evaluated here, and then a list without a pair in common with the ground truth is an answer."""


def compute_metrics(
    user_pred_true: Mapping[Any, Sequence[tuple[Any, ...]]],
    metrics: Iterable[str | Metric] | str = ("precision", "recall"),
    k: Sequence[int] | int | None = 10,
    threshold: float | None = 3.5,
    *,
    convention: str | Mapping[str, Any] | Convention = "threshold",
) -> Values:
    """Metrics of predicted and true ratings of each user, as rating predictors give them.

    Args:
        user_pred_true: User -> pairs (predicted, true), in which the places are the items, or triples (item, predicted, true).
            A true rating of None is none.
        metrics: Texts such as `precision`, `ndcg@5`, `rmse`.
        k: Cut-off, or cut-offs, of ranking metrics that are written without one; None: the whole list.
        threshold: An item is relevant from this true rating on.
        convention: Definitions. `threshold` ranks the rated items by prediction, ties by item:
            the position of a pair, the item of a triple.

    Returns:
        Value by the text of the metric as it is asked for: `precision` for one k, `precision@5` for several. Undefined is None.

    Raises:
        ConfigError: A metric, a cut-off or the convention is wrong.
        DataError: An entry is no such tuple, or its numbers are refused, as by `evaluate`.

    Warns:
        DataWarning: There is nobody to average.

    Example:
        Ann's two best predictions hold one of her two relevant items. Bob has one item, and Cid none that is relevant:

        >>> rated = {"ann": [(4.5, 5.0), (4.0, 2.0), (3.0, 4.0)], "bob": [(3.5, 4.0)], "cid": [(2.0, 1.0)]}
        >>> compute_metrics(rated, ["precision", "recall", "mae"], k=2)
        {'precision': 0.3333333333333333, 'recall': 0.5, 'mae': 1.0}
    """
    if not isinstance(user_pred_true, Mapping):
        raise DataError(f"user_pred_true: expected a dict from user to pairs, found {type(user_pred_true).__name__}")
    rows = [
        (user, *_triple(user, place, entry))
        for user, entries in user_pred_true.items()
        for place, entry in enumerate(_entries(user, entries))
    ]
    if not isinstance(metrics, Iterable | Metric):
        raise ConfigError(f"metrics: expected strings such as 'ndcg@10', found {brief(metrics)}")
    wanted = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
    result = evaluate(
        _frame([(user, item, predicted) for user, item, predicted, _ in rows], "score"),
        _frame([(user, item, true) for user, item, _, true in rows if true is not None], "rating"),
        metrics=wanted,
        k=k,
        threshold=threshold,
        convention=convention,
        checks=_DISJOINT,
    )
    _warn(result)
    found = result.to_dict()["model"]
    values = {}
    for text in wanted:
        expanded = expand([text], k)
        single = len(expanded) == 1 and not isinstance(k, list | tuple)
        values.update({str(text if single else metric): found[str(metric)] for metric in expanded})
    return values


class Evaluator:
    """Ranking metrics of recommendation lists, in memory, or on Spark where the tables are there.

    Args:
        k_values: Cut-offs.
        metrics: Texts such as `ndcg`, `map@10`.
        convention: Name of a convention, its text, a mapping, or a `Convention`, see `srm.convention`.
        threshold: A true item is relevant from this rating on. None: as the convention says.

    Raises:
        ConfigError: A cut-off, a metric or the convention is wrong.

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
    ) -> None:
        self.metrics = expand(metrics, k_values)
        self.convention = named_convention(convention, threshold)
        self.threshold = threshold

    def evaluate(
        self,
        recommendations: Any,
        truth: Any,
        *,
        catalog_size: int | None = None,
        columns: Columns = Columns(),
    ) -> Values:
        """The value of every metric.

        Args:
            recommendations: User -> list of items, best first, or of pairs (item, score), or dict from item to score; or a
                pandas or Spark frame as `srm.evaluate` takes it, of one model.
            truth: User -> items, or dict from item to rating; or a frame of the same kind.
            catalog_size: Number of items that could be recommended, for metrics that need it.
            columns: The column names of frames.

        Returns:
            Value by the text of the metric; undefined is None.

        Raises:
            ConfigError: The two are of different kinds, or a metric needs the catalogue.
            DataError: There is a threshold, and truth has no ratings; or rows are refused, as by `srm.evaluate`.

        Warns:
            DataWarning: The two sides have no user, or no item, in common, or there are no users to average over.

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
        given: dict[str, Any] = {"metrics": self.metrics, "k": None, "convention": self.convention, "columns": columns}
        given["threshold"] = self.threshold
        given |= {"catalog": catalog_size, "checks": _DISJOINT}
        if kinds[0] == "dict":
            recommendations, truth = _lists(recommendations), _items(truth, rated=self.threshold is not None)
            given["columns"] = Columns(rank="rank" if "rank" in recommendations else None)
        result = evaluate(recommendations, truth, **given)
        result.release()
        _warn(result)
        return _only(result.to_dict())


def _warn(result: Result) -> None:
    """Warn the user of what makes the values meaningless, because plain values have no `warnings`."""
    different_ids = [check.line() for check in result.data_checks if check.level == "warn" and check.check in DIFFERENT_IDS]
    if lines := [*different_ids, *result.emptiness]:
        warnings.warn("\n".join(lines), DataWarning, stacklevel=3)


def _entries(user: Any, entries: Any) -> Iterable[Any]:
    if isinstance(entries, str | bytes | Mapping) or not isinstance(entries, Iterable):
        raise DataError(
            f"user {user!r}: expected a list of (predicted, true) or (item, predicted, true), found {type(entries).__name__}"
        )
    return entries


def _triple(user: Any, place: int, entry: Any) -> tuple[Any, Any, Any]:
    if not isinstance(entry, tuple | list) or len(entry) not in (2, 3):
        raise DataError(f"user {user!r}: expected (predicted, true) or (item, predicted, true), found {brief(entry)}")
    return (place, *entry) if len(entry) == 2 else tuple(entry)


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
        expected = "a dict, or a table of pandas, polars, pyarrow or Spark"
        raise ConfigError(f"{name}: expected {expected}, found {type(table).__name__}")
    return engine_of(name, table)


def _lists(recommendations: Mapping[Any, Any]) -> pd.DataFrame:
    """One row per recommendation, with a score where there is one, else with a rank."""
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
            ranked += [(user, item, place) for place, item in enumerate(pairs, 1)]
    if scored and ranked:
        raise DataError("recommendations: expected scores for all users or for none, found both")
    if scored:
        return _frame(scored, "score")
    return _frame(ranked, "rank").astype({"rank": "int64"})


def _items(truth: Mapping[Any, Any], *, rated: bool) -> pd.DataFrame:
    """One row per true item, with a rating where there is one."""
    for user, items in truth.items():
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise DataError(
                f"truth of user {user!r}: expected items, or a dict from item to rating, found {type(items).__name__}"
            )
    plain = [user for user, items in truth.items() if not isinstance(items, Mapping)]
    if plain and len(plain) < len(truth):
        raise DataError("truth: expected ratings for all users or for none, found both")
    if plain and rated:
        raise DataError(
            f"truth of user {plain[0]!r}: expected a dict from item to rating, found {type(truth[plain[0]]).__name__}: "
            "threshold needs ratings; leave it out where all true items are relevant"
        )
    rated = rated or (bool(truth) and not plain)
    rows = [
        (user, item, rating)
        for user, items in truth.items()
        for item, rating in (items.items() if isinstance(items, Mapping) else ((item, 1.0) for item in items))
    ]
    return _frame(rows, "rating") if rated else _frame(rows, "rating").drop(columns="rating")


def _only(values: dict[str, Values]) -> Values:
    if len(values) != 1:
        raise DataError(f"recommendations: expected one model, found {', '.join(values)}: use srm.evaluate for several")
    return next(iter(values.values()))
