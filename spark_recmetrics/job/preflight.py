"""The preflight job: check on the input tables that the evaluation measures what it should."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from spark_recmetrics.errors import DataError
from spark_recmetrics.job.arguments import common_arguments
from spark_recmetrics.job.console import print_text
from spark_recmetrics.job.session_spark import checked_session
from spark_recmetrics.storage.progress import step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_recmetrics.job.files.config import Config
    from spark_recmetrics.job.outcome import JobOutcome
    from spark_recmetrics.storage.credentials import Vault


def run_preflight(config: Config, outcome: JobOutcome, vault: Vault) -> None:
    """Run the checks, whether or not the configuration has `preflight: true`."""
    with checked_session() as spark:
        with step(spark, "tables"):
            arguments = common_arguments(spark, config, vault)
        check_inputs(spark, config, arguments, outcome)
    outcome.status = "ok"


def check_inputs(spark: SparkSession, config: Config, arguments: Mapping[str, Any], outcome: JobOutcome) -> None:
    """Run the checks of `prove` and print one line per check. Raises `DataError` if one fails."""
    from spark_recmetrics.diagnostics.preflight_spark import prove

    options = {} if config.preflight is None else config.preflight.model_dump()
    with step(spark, "preflight"):
        for check in prove(**arguments, **options):
            print_text(check)
            outcome.preflight.append(asdict(check))
    failed = [check["name"] for check in outcome.preflight if check["level"] == "FAIL"]
    if failed:
        n_checks = len(outcome.preflight)
        raise DataError(f"preflight: {len(failed)} of {n_checks} checks failed: {', '.join(failed)}: nothing was published")
