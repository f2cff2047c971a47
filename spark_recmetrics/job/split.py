"""The split job: split a table of interactions into train and test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_recmetrics.job.console import print_location, print_text, print_warning
from spark_recmetrics.job.session_spark import session
from spark_recmetrics.storage.progress import step

if TYPE_CHECKING:
    from spark_recmetrics.job.files.split_config import SplitConfig
    from spark_recmetrics.job.outcome import JobOutcome
    from spark_recmetrics.splits import SplitReport
    from spark_recmetrics.storage.credentials import Vault


def run_split(config: SplitConfig, outcome: JobOutcome, vault: Vault) -> None:
    """Split the table, publish the parts, and print the reports."""
    from spark_recmetrics import splits
    from spark_recmetrics.storage.read import read_table

    with session() as spark:
        with step(spark, "splitting"):
            rows = read_table(spark, config.located(config.input), "input", vault, (config.columns.user, config.columns.item))
            split = getattr(splits, config.split.method)(rows, **config.arguments)
        outcome.tables = splits.publish(split, config.located(config.output), config.run)
        outcome.status, outcome.reports = "ok", [report.to_dict() for report in split.reports]
        outcome.warnings = [line for report in split.reports for line in report.warnings]
    _print_split(config, split.reports, outcome)


def _print_split(config: SplitConfig, reports: Sequence[SplitReport], outcome: JobOutcome) -> None:
    print_text(f"{config.title}, {reports[0].method}\n")
    for report in reports:
        print_text(report)
    print_text()
    for warning in outcome.warnings:
        print_warning(warning)
    for name, location in outcome.tables.items():
        print_location(name, f"{location}  (as_of={config.as_of or 'none'}, run_id={config.run_id})")
