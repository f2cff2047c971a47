"""The gates of a configuration: checked with the values of a run, printed, and enforced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_recmetrics.decisions.comparison import Question, TestOptions, compared
from spark_recmetrics.decisions.gates import ALPHA, GateResult, check_gates
from spark_recmetrics.errors import ConfigError, DataError, GateError
from spark_recmetrics.job.files.config import Config
from spark_recmetrics.job.outcome import JobOutcome, print_text
from spark_recmetrics.job.session_spark import session
from spark_recmetrics.metrics import parse
from spark_recmetrics.metrics.parsing import named_populations
from spark_recmetrics.runs.history_spark import published_rows, rows_of_run
from spark_recmetrics.storage.credentials import Vault

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_gates(config: Config, outcome: JobOutcome, _: Vault) -> None:
    """Check the gates with the values of a published run."""
    if not config.gates:
        raise ConfigError("gates: expected at least one, found none")
    output, as_of = config.located(config.output), config.as_of or "none"
    with session() as spark:
        published = published_rows(spark, output, config.job, sorted({gate.metric for gate in config.gates}))
        rows = [row for row in published if (row["run_id"], row["as_of"]) == (config.run_id, as_of)]
        if not rows:
            others = sorted({row["run_id"] for row in published if row["as_of"] == as_of})
            published_runs = f"{', '.join(others)} of another configuration" if others else "none"
            raise DataError(
                f"{output.table('summary')}: expected run {config.run_id} as of {as_of}, found {published_runs}: "
                "run evaluate first with the same configuration; only its gates may differ"
            )
        results = gate_results(config, rows, published, rows_of_run(spark, output, config.run, table="per_user"))
    outcome.status, outcome.gates = "ok", [row._asdict() for row in results]
    print_gates(results)


def previous_rows(spark: SparkSession, config: Config) -> list[dict[str, Any]]:
    """Published values of the job, over all users, of the metrics whose gates refer to previous runs."""
    metrics = sorted({gate.metric for gate in config.gates if gate.needs_history})
    return published_rows(spark, config.located(config.output), config.job, metrics) if metrics else []


def gate_results(
    config: Config, rows: Sequence[dict[str, Any]], previous: Sequence[dict[str, Any]], per_user: DataFrame
) -> list[GateResult]:
    """The results of all gates, from rows of SUMMARY of this run and of previous runs, and PER_USER of this run."""
    return check_gates(config.gates, rows, previous, _comparisons(config, rows, per_user))


def _comparisons(config: Config, rows: Sequence[dict[str, Any]], per_user: DataFrame) -> list[Mapping[str, Any]]:
    """COMPARISON of the models with the baselines of the gates, by the paired t test."""
    models, metrics_of_baseline = {row["model"] for row in rows}, dict[str, set[str]]()
    # Without a test, paired differences are only used for metrics that are means over users.
    means_over_users = {row["metric"] for row in rows if row["std"] is not None}
    for gate in config.gates:
        is_paired = gate.needs_pairs and (gate.significant or gate.metric in means_over_users)
        if is_paired and gate.baseline is not None and gate.baseline in models and len(models) > 1:
            metrics_of_baseline.setdefault(gate.baseline, set()).add(gate.metric)
    comparisons: list[Mapping[str, Any]] = []
    for baseline, metrics in metrics_of_baseline.items():
        question = Question(
            sorted(models),
            [parse(metric) for metric in sorted(metrics)],
            named_populations(config.evaluation.chosen_convention),
            baseline,
            TestOptions(correction="none", alpha=ALPHA),
        )
        comparisons += compared(per_user, question, n_parts=config.evaluation.n_buckets).rows
    return comparisons


def print_gates(results: Sequence[GateResult], *, enforced: bool = True) -> None:
    """Print one line per gate and model. Raises `GateError` if a gate failed and they are enforced."""
    for result in results:
        print_text(result.line())
    failed = [result.line() for result in results if result.result == "fail"]
    if failed and enforced:
        raise GateError("\n".join(failed))
    if results and not enforced:
        print_text("--no-gates: failed gates are only reported; the command gate exits with code 3 for them")
