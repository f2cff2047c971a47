"""Jobs on published runs: check their gates, compare their models, and show previous values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_recmetrics.decisions.comparison import Question, TestOptions, compared
from spark_recmetrics.decisions.gates import ALPHA, GateResult, check_gates
from spark_recmetrics.errors import ConfigError, DataError, GateError
from spark_recmetrics.job.files.config import ComparisonOptions, Config, Published
from spark_recmetrics.job.outcome import JobOutcome, print_text
from spark_recmetrics.job.session_spark import session
from spark_recmetrics.metrics import Metric, parse
from spark_recmetrics.reports.tables import history_table
from spark_recmetrics.request.slices import Slice, bands_of
from spark_recmetrics.runs.history_spark import published_rows, rows_of_run
from spark_recmetrics.runs.identity import Run
from spark_recmetrics.runs.references import label_format
from spark_recmetrics.storage.actions import collect_rows
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.text import printable

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
            config.evaluation.chosen_convention,
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


def run_comparison(config: Config, outcome: JobOutcome, _: Vault, *, run_id: str | None = None) -> None:
    """Compare the models of a run, `run_id` or the latest with this `as_of`, by its PER_USER, which has no slices of items."""
    output, options = config.located(config.output), config.comparison or ComparisonOptions()
    metrics = [metric for metric in config.evaluation.expanded if metric.has_users]
    if not metrics:
        names = ", ".join(map(str, config.evaluation.expanded))
        raise ConfigError(f"evaluation.metrics: expected at least one metric with a value per user, found {names}")
    with session() as spark:
        rows = _rows_to_compare(spark, config, metrics, run_id)
        run = Run(rows[0]["run_id"], config.as_of)
        convention = config.evaluation.chosen_convention
        models, published_metrics = {row["model"] for row in rows}, {row["metric"] for row in rows}
        _check_published(run, {row["convention"] for row in rows}, str(convention), models, options.baseline)
        per_user = rows_of_run(spark, output, run, table="per_user")
        question = Question(
            models=[model for model in config.inputs.models or sorted(models) if model in models],
            metrics=[metric for metric in metrics if str(metric) in published_metrics],
            convention=convention,
            baseline=options.baseline,
            options=TestOptions(**options.model_dump(exclude={"baseline"})),
            slices=_user_slices(rows_of_run(spark, output, run, table="summary"), per_user),
            min_users=config.evaluation.min_users,
        )
        comparison = compared(per_user, question, n_parts=config.evaluation.n_buckets)
    print_text(f"{config.job}, run {run.run_id} as of {config.as_of or 'none'}\n\n{comparison}")
    outcome.status, outcome.run_id, outcome.comparison = "ok", run.run_id, [dict(row) for row in comparison.rows]


def _rows_to_compare(
    spark: SparkSession, config: Config, metrics: Sequence[Metric], run_id: str | None
) -> list[dict[str, Any]]:
    """Rows of SUMMARY of one run: the given run, or the latest one with the `as_of` of the configuration."""
    output, as_of, names = config.located(config.output), config.as_of or "none", list(map(str, metrics))
    rows = published_rows(spark, output, config.job, names)
    rows = [row for row in rows if row["as_of"] == as_of and run_id in (None, row["run_id"])]
    if not rows:
        run = f"run {run_id}" if run_id else f"a run of job {config.job}"
        expected = f"{run} as of {as_of} with {', '.join(names)}"
        raise DataError(f"{output.table('summary')}: expected {expected}, found none: run evaluate first")
    latest = max(rows, key=lambda row: row["computed_at"])["run_id"]
    return [row for row in rows if row["run_id"] == latest]


def _check_published(run: Run, conventions: set[str], convention: str, models: set[str], baseline: str | None) -> None:
    if others := conventions - {convention}:
        names = printable(", ".join(sorted(others)))
        raise DataError(f"run {run.run_id}: expected the convention of the configuration, {convention}, found {names}")
    if baseline is not None and baseline not in models:
        names = printable(", ".join(sorted(models)))
        raise DataError(f"run {run.run_id}: expected the baseline {baseline!r} among its models, found {names}")


def _user_slices(summary: DataFrame, per_user: DataFrame) -> list[Slice]:
    """The slices of a published run whose columns are in PER_USER."""
    texts = sorted({row["slice"] for row in collect_rows(summary.select("slice").distinct())} - {"all"})
    slices = [Slice.parse(text) for text in texts]
    return [each for each in slices if all(band.column in per_user.columns for band in bands_of([each]))]


def history_of(config: Published, metric: str, last: int) -> str:
    """The values of a metric in the last runs of a job, as text. Ends with a warning if the labels `as_of` have no order."""
    output, name = config.located(config.output), str(parse(metric))
    with session() as spark:
        rows = published_rows(spark, output, config.job, [name])
    if not rows:
        expected = f"runs of job {config.job} with {name}"
        raise DataError(f"{output.table('summary')}: expected {expected}, found none: check --metric and job")
    text = f"{config.job}, {name}\n\n{history_table(rows, last)}"
    example_of_format = {label_format(as_of): as_of for as_of in sorted({row["as_of"] for row in rows}, reverse=True)}
    if len(example_of_format) == 1:
        return text
    labels = ", ".join(sorted(example_of_format.values()))
    return f"{text}\n\nwarning: as_of: expected labels in one format, found {labels}: they are sorted as strings"
