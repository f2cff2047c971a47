"""What an evaluation found, on Spark or in memory: the values of SUMMARY, and what is to be said about the input."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """Identity of a run, written into its tables.

    Args:
        run_id: Hash of job, as_of and configuration.
        as_of: The day, or other label, that the run speaks of.
        config_hash: Hash of the configuration.
        job: Name of the job that it is a run of.
    """

    run_id: str | None = None
    as_of: str | None = None
    config_hash: str | None = None
    job: str | None = None
