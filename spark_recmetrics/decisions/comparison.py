"""Compare models on the users that they share: which is better, and is the difference statistically significant?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.conventions import Convention
from spark_recmetrics.decisions.differences import DifferenceSpec, differences_in_memory
from spark_recmetrics.errors import ConfigError, check_argument
from spark_recmetrics.evaluation.result import Result
from spark_recmetrics.metrics import Metric, expand
from spark_recmetrics.reports.tables import comparison_table
from spark_recmetrics.request.slices import ALL_USERS, MIN_USERS, Slice, in_order
from spark_recmetrics.request.user_sums import tallies
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
from spark_recmetrics.text import did_you_mean

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

_ALL = ("all", "all")
"""The slice and value of all users."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of `compare`. Its text is a table. `not significant` does not mean `equal`.

    Args:
        rows: The rows of COMPARISON.
        alpha: Significance level. A row has a `winner` if its adjusted p value is at most alpha.
    """

    rows: tuple[Mapping[str, Any], ...]
    alpha: float

    def to_pandas(self) -> pd.DataFrame:
        """COMPARISON as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """COMPARISON as a Spark frame."""
        from spark_recmetrics.storage.table_schemas import COMPARISON

        rows = [tuple(row[name] for name in COMPARISON.names) for row in self.rows]
        return spark.createDataFrame(rows, COMPARISON)

    def __str__(self) -> str:
        return comparison_table(self.rows, self.alpha)

    __repr__ = __str__

    def _repr_html_(self) -> str | None:
        """The HTML for a notebook; None without jinja2, so that the notebook shows the text."""
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
    """Compare the models of a result, paired by user: which is better, and is the difference statistically significant?

    The slices of the result are compared, too. p values are corrected within all users and within each slice, so that another
    slice does not change them. Values of a slice over fewer users than `min_users` of the result are not tested.

    Args:
        result: The result of `evaluate` with at least two models.
        baseline: The model that all others are compared with. None: all pairs.
        metrics: Metrics of the result. None: all metrics with a value for each user.
        test: `paired_t`, `wilcoxon`, `sign` or `bootstrap`, see `stats`. The winner has the better mean, the better rank sum
            (`wilcoxon`) or the better value for more users (`sign`).
        correction: Correction for the number of pairs, metrics and slice values: `holm`, `bonferroni`, `benjamini_hochberg` or
            `none`.
        alpha: Significance level of the tests; the confidence intervals have level 1 - alpha.
        n_resamples: Number of bootstrap replicates, at least 100.
        seed: Seed of the bootstrap. A user has the same weights for every pair and metric, and on every cluster.

    Raises:
        ConfigError: A model, metric or option is invalid.

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
    check_argument("result", result, "the result of srm.evaluate", valid=isinstance(result, Result))
    evaluated = result.evaluated
    if evaluated is None:
        raise ConfigError("result: expected the result of srm.evaluate, found values without their users")
    request = evaluated.request
    names = list(map(str, request.metrics))
    chosen = expand(metrics, None) if metrics is not None else [metric for metric in request.metrics if metric.has_users]
    if not chosen:
        raise ConfigError(f"metrics: expected at least one with a value for each user, found {', '.join(names)}")
    for name in map(str, chosen):
        if name not in names:
            raise ConfigError(f"metrics: {name} was not evaluated{did_you_mean(name, names)}")
    options = TestOptions(test, correction, alpha, n_resamples, seed)
    question = Question(
        evaluated.known.models, tuple(chosen), request.convention, baseline, options, request.slices.slices, request.min_users
    )
    return compared(evaluated.scored.kept, question, n_parts=request.n_buckets)


@dataclass(frozen=True)
class TestOptions:
    """How differences are tested: arguments of `compare`."""

    __test__ = False  # otherwise pytest collects the class as a test

    test: Test = "paired_t"
    correction: Correction = "holm"
    alpha: float = 0.05
    n_resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_options(self.test, self.correction, self.alpha, self.n_resamples, self.seed)


@dataclass(frozen=True)
class Question:
    """Which models and metrics are compared, and how."""

    models: Sequence[str]
    metrics: Sequence[Metric]  # those pooled over users, such as RMSE over pairs, are tested by their values per user
    convention: Convention
    baseline: str | None = None
    options: TestOptions = TestOptions()
    slices: Sequence[Slice] = ()
    min_users: int = MIN_USERS

    def __post_init__(self) -> None:
        if len(self.models) < 2:
            raise ConfigError(f"models: expected at least two to compare, found {', '.join(self.models) or 'none'}")
        check_argument("baseline", self.baseline, "the name of a model", valid=isinstance(self.baseline, str | None))
        if self.baseline is not None and self.baseline not in self.models:
            raise ConfigError(f"baseline: unknown model {self.baseline!r}{did_you_mean(self.baseline, self.models)}")
        for metric in self.metrics:
            if not metric.has_users:
                raise ConfigError(f"{metric}: expected a metric with a value for each user, found one without")

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The models a and b of each pair: a is the baseline or, without one, the earlier model."""
        if self.baseline:
            return [(self.baseline, other) for other in self.models if other != self.baseline]
        return list(combinations(self.models, 2))

    @property
    def differences(self) -> DifferenceSpec:
        """The differences that the tests need."""
        options = self.options
        columns = tuple(tallies(metric, self.convention)[0] for metric in self.metrics)
        n_replicates = options.n_resamples if options.test == "bootstrap" else 0
        return DifferenceSpec(
            tuple(self.pairs), columns, tuple(self.slices), options.test == "wilcoxon", n_replicates, options.seed
        )


def compared(per_user: Any, question: Question, *, n_parts: int) -> Comparison:
    """Test the differences on the users for whom both models have a value; PER_USER may be a frame of Spark or pandas."""
    sums: dict[tuple[str, str], dict[tuple[int, int], Any]] = {_ALL: {}}
    for row in _differences(per_user, question.differences, n_parts):
        group = _ALL if row["slice"] == ALL_USERS else (str(question.slices[row["slice"]]), row["slice_value"])
        sums.setdefault(group, {})[row["pair"], row["column"]] = row
    families: dict[str, list[_Tested]] = {}
    for group in (_ALL, *in_order(question.slices, sums.keys() - {_ALL})):
        families.setdefault(group[0], []).extend(_tests_of(group, sums[group], question))
    options, rows = question.options, []
    for family in families.values():
        adjusted = adjust([tested.result.p_value for tested in family], options.correction)
        rows += [_row(tested, p, options) for tested, p in zip(family, adjusted, strict=True)]
    return Comparison(tuple(rows), options.alpha)


def _differences(per_user: Any, spec: DifferenceSpec, n_parts: int) -> Iterable[Mapping[str, Any]]:
    if not hasattr(per_user, "sparkSession"):
        return differences_in_memory(per_user, spec)
    from spark_recmetrics.decisions.differences_spark import differences_on_spark

    return differences_on_spark(per_user, spec, n_parts=n_parts)


class _Tested(NamedTuple):
    group: tuple[str, str]
    models: tuple[str, str]
    metric: Metric
    sums: Any
    result: TestResult


def _tests_of(group: tuple[str, str], sums: Mapping[tuple[int, int], Any], question: Question) -> Iterator[_Tested]:
    """The tests of all pairs and metrics, over all users or over the users of a slice."""
    for pair, models in enumerate(question.pairs):
        for column, metric in enumerate(question.metrics):
            row = sums.get((pair, column))
            if group != _ALL and (row is None or not row["n"]):
                continue
            result = _test(row, metric, question.options)
            if group != _ALL and result.n < question.min_users and result.reason != "no_list":
                result = replace(result, statistic=None, p_value=None, reason="small_slice")
            yield _Tested(group, models, metric, row, result)


def _test(sums: Any, metric: Metric, options: TestOptions) -> TestResult:
    test, alpha = options.test, options.alpha
    # As in SUMMARY, the values of a model without any list are undefined and not 0.
    is_list_missing = sums is not None and metric.definition.kind == "ranking" and 0 in (sums["n_lists_a"], sums["n_lists_b"])
    if sums is None or is_list_missing:
        empty = t_from_moments(0, None, None, alpha=alpha)
        return replace(empty, test=test, wins=0, ties=0, losses=0, reason="no_list" if is_list_missing else empty.reason)
    n, mean, variance, wins, losses = (sums[key] for key in ("n", "mean", "variance", "wins", "losses"))
    ties = n - wins - losses
    if test == "wilcoxon":
        ranks = RankSums(wins, losses, sums["plus"], sums["minus"], sums["tied"])
        result = wilcoxon_from_rank_sums(ranks, ties=ties, mean=mean, variance=variance, alpha=alpha)
    elif test == "sign":
        result = sign_from_counts(wins, losses, ties=ties, mean=mean, variance=variance, alpha=alpha)
    elif test == "bootstrap":
        replicates = np.array(sums["replicates"], dtype=np.float64)  # Spark has None for a replicate without users
        result = bootstrap_from_replicates(mean, replicates, n=n, variance=variance, alpha=alpha)
    else:
        result = t_from_moments(n, mean, variance, alpha=alpha)
    return replace(result, wins=wins, ties=ties, losses=losses, n_left_out=sums["n_left_out"])


def _row(tested: _Tested, p_adjusted: float | None, options: TestOptions) -> dict[str, Any]:
    """A row of COMPARISON."""
    (a, b), metric, result = tested.models, tested.metric, tested.result
    higher = metric.definition.higher_is_better
    winner = None
    if p_adjusted is not None and p_adjusted <= options.alpha and result.direction:
        winner = b if (result.direction > 0) == higher else a
    wins, losses = (result.wins, result.losses) if higher else (result.losses, result.wins)
    return {
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
