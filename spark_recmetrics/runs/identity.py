"""The identity of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """Identity of a run, written into its tables.

    Args:
        run_id: Hash of job, as_of and configuration.
        as_of: The day of the run, or another label.
        config_hash: Hash of the configuration.
        job: Name of the job.
    """

    run_id: str | None = None
    as_of: str | None = None
    config_hash: str | None = None
    job: str | None = None
