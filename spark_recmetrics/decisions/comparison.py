"""Compare models on the users that they share: is the difference more than chance, and which is better?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.decisions.differences import Asked, differences_in_memory
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics import DEFAULT_N_BUCKETS, expand
from spark_recmetrics.reports.tables import comparison_table
from spark_recmetrics.request.per_user import tallies
from spark_recmetrics.request.slices import ALL_USERS, MIN_USERS, Slice, in_order
from spark_recmetrics.stats import (
    RankSums,
    TestResult,
    adjust,
    bootstrap_from_replicates,
    sign_from_counts,
    t_from_moments,
    wilcoxon_from_rank_sums,
)
from spark_recmetrics.stats.many import Correction, Test, check_options
from spark_recmetrics.text import brief, did_you_mean

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from spark_recmetrics.conventions import Convention
    from spark_recmetrics.evaluation.result import Result
    from spark_recmetrics.metrics import Metric


COLUMNS = (
    "model_a",
    "model_b",
    "slice",
    "slice_value",
    "metric",
    "k",
    "mean_a",
    "mean_b",
    "diff",
    "ci_low",
    "ci_high",
    "test",
    "statistic",
    "p_value",
    "p_adjusted",
    "effect_size",
    "wins",
    "ties",
    "losses",
    "n_users",
    "smallest_difference",
    "winner",
    "reason",
    "seed",
)
"""The columns of COMPARISON."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `compare` found. Its text, also in a notebook, is a table; `not significant` does not mean `equal`.

    Args:
        rows: The rows of COMPARISON.
        alpha: Level of the tests, which `winner` is told at, by the adjusted p.
    """

    rows: tuple[Mapping[str, Any], ...]
    alpha: float

    def to_pandas(self) -> pd.DataFrame:
        """COMPARISON as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(list(self.rows), columns=list(COLUMNS))

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """COMPARISON as a Spark frame."""
        from spark_recmetrics.storage.schemas import COMPARISON

        rows = [tuple(row[name] for name in COMPARISON.names) for row in self.rows]
        found: DataFrame = spark.createDataFrame(rows, COMPARISON)
        return found

    def __str__(self) -> str:
        return comparison_table(self.rows, self.alpha)

    __repr__ = __str__

    def _repr_html_(self) -> str | None:
        """How a notebook shows it. Without jinja2 it is the text."""
        from spark_recmetrics.reports.page import differences_fragment

        try:
            return differences_fragment(self.rows, self.alpha)
        except ConfigError:
            return None


def compare(
    result: Result,
    *,
    baseline: str | None = None,
    metrics: Iterable[str | Metric] | None = None,
    test: Test = "paired_t",
    correction: Correction = "holm",
    alpha: float = 0.05,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Which model of a result is better, and is it more than chance? The models are paired by user.

    The slices of the result are compared, too. All users are one family of the correction, and each slice is another, so that
    a further slice changes no other p. Values of a slice over fewer users than `min_users` of the result are not tested.

    Args:
        result: Of `evaluate`, with at least two models.
        baseline: The model that all others are compared with; None: all pairs.
        metrics: Texts of metrics of the result; None: all that have a value per user.
        test: `paired_t`, `wilcoxon`, `sign` or `bootstrap`, see `stats`. Which model is better is told by what it looks at: the
            mean, the rank sums, or the number of users.
        correction: For testing many pairs, metrics and values of a slice at once: `holm`, `bonferroni`, `benjamini_hochberg`
            or `none`.
        alpha: Level of the tests, and of the intervals.
        n_resamples: Of the bootstrap, from 100.
        seed: Of the bootstrap: the same users have the same weights for every pair and metric, on every cluster.

    Raises:
        ConfigError: There is no such model, metric or option.

    Example:
        >>> from spark_recmetrics.evaluation.stages import evaluate
        >>> scores = [("pop", user, "xyz"[(n + user) % 3], 1.0 - n / 9) for user in range(6) for n in range(3)]
        >>> scores += [("als", user, "xyz"[(n + user // 5) % 3], 1.0 - n / 9) for user in range(6) for n in range(3)]
        >>> predictions = spark.createDataFrame(scores, "model string, user_id int, item_id string, score double")
        >>> truth = spark.createDataFrame([(user, "x") for user in range(6)], "user_id int, item_id string")
        >>> print(compare(evaluate(predictions, truth, metrics="mrr", k=3), baseline="pop"))
        a    b    metric    b - a            95 % CI      p  +/=/-  users  result
        pop  als  mrr@3   +0.2778  [-0.1159, 0.6715]  0.129  3/2/1      6  not significant (minimum detectable effect 0.5382)
    """
    evaluated = result.evaluated
    if evaluated is None:
        raise ConfigError("result: expected the result of srm.evaluate, found values without their users")
    request = evaluated.request
    known = {str(metric): metric for metric in request.metrics}
    chosen = expand(metrics, None) if metrics is not None else [metric for metric in request.metrics if metric.has_users]
    if not chosen:
        raise ConfigError(f"metrics: expected at least one with a value for each user, found {', '.join(known)}")
    for metric in chosen:
        if str(metric) not in known:
            raise ConfigError(f"metrics: {metric} was not evaluated{did_you_mean(str(metric), known)}")
    options = TestOptions(test, correction, alpha, n_resamples, seed)
    question = Question(
        evaluated.known.models, tuple(chosen), request.convention, baseline, options, request.slices.slices, request.min_users
    )
    return compared(evaluated.scored.kept, question, n_parts=request.n_buckets)


@dataclass(frozen=True)
class TestOptions:
    """How differences are tested. The arguments are those of `compare`.

    Raises:
        ConfigError: An option is wrong.
    """

    __test__ = False  # pytest takes the name for that of a test

    test: Test = "paired_t"
    correction: Correction = "holm"
    alpha: float = 0.05
    n_resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_options(self.test, self.correction, self.alpha, self.n_resamples, self.seed)


@dataclass(frozen=True)
class Question:
    """What is compared.

    Args:
        models: The models, at least two.
        metrics: Metrics with a value per user. A pooled metric, such as RMSE over pairs, is tested by its values per user.
        convention: Whose users are averaged, and what an undefined value counts.
        baseline: The model a of every pair; None: all pairs, the earlier name being a.
        options: How differences are tested.
        slices: The slices, whose columns and rows PER_USER has.
        min_users: Values of a slice over fewer users are not tested.

    Raises:
        ConfigError: There is no such model, or a metric has no value per user.
    """

    models: Sequence[str]
    metrics: Sequence[Metric]
    convention: Convention
    baseline: str | None = None
    options: TestOptions = TestOptions()
    slices: Sequence[Slice] = ()
    min_users: int = MIN_USERS

    def __post_init__(self) -> None:
        _check(self.models, self.baseline)
        for metric in self.metrics:
            if not metric.has_users:
                raise ConfigError(f"{metric}: expected a metric with a value for each user, found one without")

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The models a and b of every pair."""
        if self.baseline:
            return [(self.baseline, other) for other in self.models if other != self.baseline]
        return list(combinations(self.models, 2))

    @property
    def differences(self) -> Asked:
        """What has to be known of the differences."""
        options = self.options
        columns = tuple(tallies(metric, self.convention)[0] for metric in self.metrics)
        n_replicates = options.n_resamples if options.test == "bootstrap" else 0
        return Asked(tuple(self.pairs), columns, tuple(self.slices), options.test == "wilcoxon", n_replicates, options.seed)


def compared(per_user: Any, question: Question, *, n_parts: int = DEFAULT_N_BUCKETS) -> Comparison:
    """Test the differences of models, metric by metric, on the users whom both have a value for.

    Args:
        per_user: PER_USER of these models and metrics, a Spark frame or one of pandas.
        question: What is compared.
        n_parts: Groups of users on Spark.
    """
    sums: dict[tuple[str, str], dict[tuple[int, int], Any]] = {("all", "all"): {}}
    for row in _differences(per_user, question.differences, n_parts):
        of_all = row["slice"] == ALL_USERS
        key = ("all", "all") if of_all else (str(question.slices[row["slice"]]), row["slice_value"])
        sums.setdefault(key, {})[row["pair"], row["column"]] = row
    families: dict[str, list[_Tested]] = {}
    groups = [("all", "all"), *in_order(question.slices, {key: own for key, own in sums.items() if key[0] != "all"})]
    for group in groups:
        families.setdefault(group[0], []).extend(_tests_of(group, sums[group], question))
    options, rows = question.options, []
    for family in families.values():
        adjusted = adjust([tested.result.p_value for tested in family], options.correction)
        rows += [_row(tested, p, options) for tested, p in zip(family, adjusted, strict=True)]
    return Comparison(tuple(rows), options.alpha)


def _differences(per_user: Any, asked: Asked, n_parts: int) -> Iterable[Mapping[str, Any]]:
    if not hasattr(per_user, "sparkSession"):
        return differences_in_memory(per_user, asked)
    from spark_recmetrics.decisions.differences_spark import collected_differences

    return collected_differences(per_user, asked, n_parts=n_parts)


class _Tested(NamedTuple):
    """One test of a comparison."""

    group: tuple[str, str]
    models: tuple[str, str]
    metric: Metric
    sums: Any
    result: TestResult


def _tests_of(group: tuple[str, str], sums: Mapping[tuple[int, int], Any], question: Question) -> Iterator[_Tested]:
    """The tests of all pairs and metrics, over all users or over those of a slice."""
    for pair, models in enumerate(question.pairs):
        for column, metric in enumerate(question.metrics):
            known = sums.get((pair, column))
            if group[0] != "all" and (known is None or not known["n"]):
                continue
            result = _tested(known, question.options.test, question.options.alpha, listed=metric.definition.kind == "ranking")
            if group[0] != "all" and result.n < question.min_users and result.reason != "no_list":
                result = replace(result, statistic=None, p_value=None, reason="small_slice")
            yield _Tested(group, models, metric, known, result)


def _check(models: Sequence[str], baseline: str | None) -> None:
    if len(models) < 2:
        raise ConfigError(f"models: expected at least two to compare, found {', '.join(models) or 'none'}")
    if baseline is not None and not isinstance(baseline, str):
        raise ConfigError(f"baseline: expected the name of a model, found {brief(baseline)}")
    if baseline is not None and baseline not in models:
        raise ConfigError(f"baseline: unknown model {baseline!r}{did_you_mean(baseline, models)}")


def _tested(known: Any, test: str, alpha: float, *, listed: bool) -> TestResult:
    # A model without a single list was not there: as in SUMMARY, its values are undefined and not 0.
    absent = known is not None and listed and not (known["n_lists_a"] and known["n_lists_b"])
    if known is None or absent:
        nobody = t_from_moments(0, None, None, alpha=alpha)
        return replace(nobody, test=test, wins=0, ties=0, losses=0, reason="no_list" if absent else nobody.reason)
    n, mean, variance = known["n"], known["mean"], known["variance"]
    wins, losses = known["wins"], known["losses"]
    ties = n - wins - losses
    if test == "wilcoxon":
        ranks = RankSums(wins, losses, known["plus"], known["minus"], known["tied"])
        result = wilcoxon_from_rank_sums(ranks, ties=ties, mean=mean, variance=variance, alpha=alpha)
    elif test == "sign":
        result = sign_from_counts(wins, losses, ties=ties, mean=mean, variance=variance, alpha=alpha)
    elif test == "bootstrap":
        replicates = np.array(known["replicates"], dtype=np.float64)  # Spark gives None for one that drew nobody
        result = bootstrap_from_replicates(mean, replicates, n=n, variance=variance, alpha=alpha)
    else:
        result = t_from_moments(n, mean, variance, alpha=alpha)
    return replace(result, wins=wins, ties=ties, losses=losses, n_left_out=known["n_left_out"])


def _row(tested: _Tested, p_adjusted: float | None, options: TestOptions) -> dict[str, Any]:
    """A row of COMPARISON."""
    (a, b), metric, result = tested.models, tested.metric, tested.result
    higher = metric.definition.higher_is_better
    winner = None
    if p_adjusted is not None and p_adjusted <= options.alpha and result.direction:
        winner = b if (result.direction > 0) == higher else a
    wins, losses = (result.wins, result.losses) if higher else (result.losses, result.wins)
    row = {
        "model_a": a,
        "model_b": b,
        "slice": tested.group[0],
        "slice_value": tested.group[1],
        "metric": str(metric),
        "k": metric.k,
        "mean_a": tested.sums["mean_a"] if result.n else None,
        "mean_b": tested.sums["mean_b"] if result.n else None,
        "diff": result.mean_difference,
        "ci_low": result.ci_low,
        "ci_high": result.ci_high,
        "test": result.test,
        "statistic": result.statistic,
        "p_value": result.p_value,
        "p_adjusted": p_adjusted,
        "effect_size": result.effect_size,
        "wins": wins,
        "ties": result.ties,
        "losses": losses,
        "n_users": result.n,
        "smallest_difference": result.smallest_difference,
        "winner": winner,
        "reason": result.reason,
        "seed": options.seed if options.test == "bootstrap" else None,
    }
    return {name: row[name] for name in COLUMNS}
