"""The report of an evaluation job: the text on stdout, and the HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from spark_recmetrics.decisions.comparison import Comparison
from spark_recmetrics.decisions.gates import GateResult
from spark_recmetrics.errors import DataError, RecMetricsError, reason_of
from spark_recmetrics.evaluation.result import Result, headline, write_whole
from spark_recmetrics.inputs.data_report import DataCheck
from spark_recmetrics.job.files.config import Config
from spark_recmetrics.job.files.source import as_yaml
from spark_recmetrics.job.outcome import JobOutcome, print_location
from spark_recmetrics.reports.page import Page, can_be_made
from spark_recmetrics.reports.selection import headline_of
from spark_recmetrics.reports.tables import metric_table, pareto_table, slice_table
from spark_recmetrics.runs.history_spark import published_rows
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.progress import step
from spark_recmetrics.text import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Evaluation:
    """The values of a run, and what follows from them."""

    result: Result
    gate_results: Sequence[GateResult]
    comparison: Comparison | None


def report_text(config: Config, evaluation: Evaluation, outcome: JobOutcome) -> str:
    """Values, slices, comparison and warnings as text."""
    result = evaluation.result
    users = ", ".join(f"{printable(model)} {n}" for model, n in outcome.n_users.items())
    blocks = [
        f"{config.title}, convention {result.convention}, evaluated users: {users}",
        metric_table([row for row in result.rows if row["slice"] == "all"]),
    ]
    if len(outcome.n_users) > 1:
        blocks.append("* best value in the row")
    if result.objectives:
        blocks.append(pareto_table(result.pareto()))
    means = next(iter(result.means.values()))
    sliced_metrics = [headline(means).metric] if result.slices else []
    sliced_metrics += [mean.metric for mean in means if mean.metric.definition.by_pair]
    blocks += [slice_table(result.rows, str(metric)) for metric in dict.fromkeys(sliced_metrics)]
    if evaluation.comparison is not None:
        blocks.append(str(evaluation.comparison))
    if outcome.warnings:
        blocks.append("\n".join(f"warning: {printable(warning)}" for warning in outcome.warnings))
    return "\n\n".join(blocks)


def make_page(spark: SparkSession, config: Config, evaluation: Evaluation, outcome: JobOutcome, vault: Vault) -> str | None:
    """Write the HTML report to the configured file, and return it for MLflow. None if neither needs it.

    The tables are already published, so a page that cannot be made or written is a warning.
    """
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


def write_failure_page(config: Config, error: Exception, outcome: JobOutcome, vault: Vault) -> None:
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
