"""The evaluation job: evaluate, check the gates, compare, publish, report, and log to MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from spark_recmetrics.decisions.comparison import Comparison, compare
from spark_recmetrics.decisions.gates import GateResult
from spark_recmetrics.errors import ConfigError, DataError, GateError, PublishError, RecMetricsError, reason_of
from spark_recmetrics.evaluation.result import Result, report_text, write_whole
from spark_recmetrics.evaluation.stages import evaluate
from spark_recmetrics.inputs.data_report import DataCheck
from spark_recmetrics.job.files.config import Config
from spark_recmetrics.job.files.source import as_yaml
from spark_recmetrics.job.mlflow import check_installed, track
from spark_recmetrics.job.outcome import JobOutcome, check_replaceable, print_location, print_text, print_warning
from spark_recmetrics.job.preflight import check_inputs, common_arguments, evaluation_arguments
from spark_recmetrics.job.published import gate_results, previous_rows, print_gates
from spark_recmetrics.job.session_spark import checked_session
from spark_recmetrics.reports.page import Page, can_be_made
from spark_recmetrics.reports.selection import headline_of
from spark_recmetrics.runs.history_spark import publish, published_rows
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.progress import step
from spark_recmetrics.storage.table_schemas import DATA_REPORT, GATES
from spark_recmetrics.text import did_you_mean, printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class EvaluatedRun:
    """The values of a run, what follows from them, and its reports as text and as HTML."""

    result: Result
    gate_results: Sequence[GateResult]
    comparison: Comparison | None
    text: str = ""
    html: str | None = None


def run_evaluation(
    config: Config, outcome: JobOutcome, vault: Vault, *, explain_user: str | None = None, fail_on_gates: bool = True
) -> None:
    """Run the job. Also print the recommendations of the user `explain_user`."""
    if config.report_path is not None:
        check_replaceable(Path(config.report_path), "report", "report")
    try:
        evaluation = _evaluate_and_publish(config, outcome, vault, explain_user)
    except Exception as error:
        if outcome.report is None:
            _write_failure_page(config, error, outcome, vault)
        raise
    tracking_error = _log_to_mlflow(config, evaluation, outcome)
    try:
        _check_values(evaluation, fail_on_gates=fail_on_gates)
    except (DataError, GateError):
        if tracking_error is not None:  # a job reports one error; the other one becomes a warning
            outcome.warn(str(tracking_error))
        raise
    if tracking_error is not None:
        raise tracking_error


def _evaluate_and_publish(config: Config, outcome: JobOutcome, vault: Vault, explain_user: str | None) -> EvaluatedRun:
    if config.tracking is not None:
        check_installed("tracking.mlflow")
    with checked_session() as spark:
        result = _evaluate(spark, config, outcome, vault)
        try:
            results: list[GateResult] = []
            if config.gates:
                with step(spark, "gates"):
                    results = gate_results(config, result.rows, previous_rows(spark, config), result.per_user)
            evaluation = EvaluatedRun(result, results, _compare(config, result, outcome))
            outcome.tables = _publish(spark, config, evaluation)
        finally:
            result.release()
        _fill(outcome, evaluation)
        html = _make_page(spark, config, evaluation, outcome, vault)
        text = report_text(result, config.title, comparison=evaluation.comparison, warnings=outcome.warnings)
        print_text(text)
        outcome.print_tables()
        if outcome.report is not None:
            print_location("report", printable(outcome.report))
        if explain_user is not None:
            with step(spark, "explain user"):
                try:
                    print_text(f"\n{result.explain(explain_user)}\n")
                except DataError as error:  # an unknown user; all tables are published
                    print_warning(f"--explain-user: {error}")
    return replace(evaluation, text=text, html=html)


def _evaluate(spark: SparkSession, config: Config, outcome: JobOutcome, vault: Vault) -> Result:
    """The result. If the input data are rejected, their data report is published."""
    with step(spark, "tables"):
        common, specific = common_arguments(spark, config, vault), evaluation_arguments(spark, config, vault)

    def before(models: Sequence[str]) -> None:
        """Check what depends on the models. The preflight takes minutes, so it runs after the cheap check."""
        baseline = None if config.comparison is None else config.comparison.baseline
        if baseline is not None and baseline not in models:
            raise ConfigError(f"comparison.baseline: unknown model {baseline!r}{did_you_mean(baseline, models)}")
        if config.preflight is not None:
            check_inputs(spark, config, common, outcome)

    # Without a metric that reads train, only the preflight needs it.
    needed = common if config.evaluation.reads_train else common | {"train": None}
    try:
        return evaluate(**needed, **specific, run=config.run, before=before)
    except DataError as error:
        if error.data_checks:
            data_report = spark.createDataFrame(list(error.data_checks), DATA_REPORT)
            outcome.tables = publish({"data_report": data_report}, config.located(config.output), config.run)
        raise


def _compare(config: Config, result: Result, outcome: JobOutcome) -> Comparison | None:
    """The configured comparison. If there is only one model, a warning says so."""
    if config.comparison is None:
        return None
    if len(result.n_users) < 2:
        outcome.warnings.append("comparison: expected at least two models, found one")
        return None
    return compare(result, **config.comparison.model_dump())


def _publish(spark: SparkSession, config: Config, evaluation: EvaluatedRun) -> dict[str, str]:
    result = evaluation.result
    frames = {"data_report": result.data_report, "per_user": result.per_user, "summary": result.summary}
    if evaluation.gate_results:
        frames["gates"] = spark.createDataFrame(list(evaluation.gate_results), GATES)
    if evaluation.comparison is not None:
        frames["comparison"] = evaluation.comparison.to_spark(spark)
    return publish(frames, config.located(config.output), config.run)


def _fill(outcome: JobOutcome, evaluation: EvaluatedRun) -> None:
    result = evaluation.result
    outcome.status, outcome.models, outcome.n_users = result.status, result.to_dict(), result.n_users
    outcome.gates = [row._asdict() for row in evaluation.gate_results]
    outcome.pareto = [standing._asdict() for standing in result.pareto()]
    # Lines about empty tables are the error of the job.
    outcome.warnings = [line for line in result.warnings if line not in result.emptiness] + outcome.warnings


def _log_to_mlflow(config: Config, evaluation: EvaluatedRun, outcome: JobOutcome) -> PublishError | None:
    """Log the published run to MLflow if it is configured. Returns the error if it fails and `on_error` is `fail`."""
    if config.tracking is None:
        return None
    options = config.tracking.mlflow
    fields = {name: getattr(outcome, name) for name in ("warnings", "gates", "tables", "preflight")}
    fields["comparison"] = [] if evaluation.comparison is None else evaluation.comparison.rows
    try:
        tracked = track(evaluation.result, options, report=evaluation.text, page=evaluation.html, fields=fields)
    except PublishError as error:
        outcome.tracking = {"mlflow": {}}
        if options.on_error == "fail":
            return error
        warnings = [f"{error}: the tables are published; run the job again to log it"]
    else:
        outcome.tracking, warnings = {"mlflow": tracked.runs}, tracked.warnings
        print_location("mlflow", ", ".join(f"{printable(model)} {run_id}" for model, run_id in tracked.runs.items()))
    for warning in warnings:
        outcome.warn(warning)
    return None


def _check_values(evaluation: EvaluatedRun, *, fail_on_gates: bool) -> None:
    """Print the gates, and raise an error if there are no users to evaluate or a gate failed."""
    if evaluation.result.status != "ok":
        raise DataError("\n".join(evaluation.result.emptiness))
    print_gates(evaluation.gate_results, enforced=fail_on_gates)


def _make_page(spark: SparkSession, config: Config, evaluation: EvaluatedRun, outcome: JobOutcome, vault: Vault) -> str | None:
    """Write the configured report, and return its HTML for MLflow, None if neither needs it. A failure is a warning."""
    if config.report_path is None and (config.tracking is None or not can_be_made()):
        return None
    html = None
    metrics = dict.fromkeys([headline_of(evaluation.result.rows), *(gate.metric for gate in config.gates)])
    try:
        with step(spark, "report"):
            html = evaluation.result.as_html(
                comparison=evaluation.comparison,
                gates=evaluation.gate_results,
                history=published_rows(spark, config.located(config.output), config.job, list(metrics)),
                configuration=as_yaml(config.resolved()),
            )
        if config.report_path is not None:
            outcome.report = str(write_whole(config.report_path, html))
    except Exception as error:  # noqa: BLE001 - a report must not fail a run whose values are published
        outcome.warnings.append(f"report: not written: {reason_of(error, vault.masked)}")
    return html


def _write_failure_page(config: Config, error: Exception, outcome: JobOutcome, vault: Vault) -> None:
    """Write the HTML report of a run that failed without values, so that the file does not keep an older report."""
    if config.report_path is None:
        return
    try:
        message = vault.masked(str(error)) if isinstance(error, RecMetricsError) else reason_of(error, vault.masked)
        run = {"job": config.job, "as_of": config.as_of, "run_id": config.run_id, "config_hash": config.hash}
        page = Page(
            run={**run, "data_hash": None, "computed_at": datetime.now(timezone.utc)},
            rows=(),
            data_checks=[DataCheck._make(row) for row in error.data_checks] if isinstance(error, DataError) else (),
            convention=config.evaluation.chosen_convention,
            warnings=outcome.warnings,
            emptiness=[printable(line) for line in message.split("\n")],
            confidence=config.evaluation.intervals.chosen.confidence,
            configuration=as_yaml(config.resolved()),
            ended="the run was rejected" if isinstance(error, DataError) else "the run failed",
        )
        outcome.report = str(write_whole(config.report_path, page.html()))
        print_location("report", printable(outcome.report))
    except Exception as page_error:  # noqa: BLE001 - the job reports the error of the run, not this one
        outcome.warn(f"report: not written: {reason_of(page_error, vault.masked)}")
