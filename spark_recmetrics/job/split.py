"""The split job: split a table of interactions into train and test."""

from __future__ import annotations

from spark_recmetrics import splits
from spark_recmetrics.job.files.split_config import SplitConfig
from spark_recmetrics.job.outcome import JobOutcome, print_text, print_warning
from spark_recmetrics.job.session_spark import session
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.progress import step
from spark_recmetrics.storage.read import read_table
from spark_recmetrics.storage.text_files import Roles


def run_split(config: SplitConfig, outcome: JobOutcome, vault: Vault) -> None:
    """Split the table, publish the parts, and print the reports."""
    with session() as spark:
        with step(spark, "splitting"):
            roles = Roles(ids=(config.columns.user, config.columns.item), numbers=(config.columns.time or "timestamp",))
            rows = read_table(spark, config.located(config.input), "input", vault, roles)
            split = getattr(splits, config.split.method)(rows, **config.arguments)
        outcome.tables = splits.publish(split, config.located(config.output), config.run)
        outcome.status, outcome.reports = "ok", [report.to_dict() for report in split.reports]
        outcome.warnings = [line for report in split.reports for line in report.warnings]
    print_text(f"{config.title}, {split.reports[0].method}\n")
    for report in split.reports:
        print_text(report)
    print_text()
    for warning in outcome.warnings:
        print_warning(warning)
    outcome.print_tables()
