"""How faulty rows are handled, by check."""

from __future__ import annotations

from collections.abc import Mapping

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.text import brief, did_you_mean

POLICIES: Mapping[str, tuple[str, ...]] = {
    "null_ids": ("error", "drop"),
    "bad_ranks": ("error", "drop"),
    "infinite_scores": ("error", "drop"),
    "bad_propensities": ("error", "drop"),
    "unknown_items": ("warn", "info", "error", "drop"),
    "users_in_both": ("error", "warn"),
    "items_in_both": ("error", "warn"),
    "users_without_list": ("warn", "info", "error"),
    "users_without_truth": ("warn", "info", "error"),
    "short_lists": ("info", "warn", "error"),
    "tied_at_cut": ("warn", "info", "error"),
}
"""By check, the possible policies, the default first. `drop` leaves the rows out and warns."""

_CONVENTION_OPTIONS = ("duplicates", "nan_scores", "negative_gains")


def checked_policies(chosen: Mapping[str, str] | None) -> dict[str, str]:
    """The policy of every check: the chosen one, or the default.

    Example:
        >>> checked_policies({"null_ids": "drop"})["null_ids"]
        'drop'
        >>> checked_policies({"null_ids": "warn"})
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: null_ids: expected error or drop, found 'warn'
    """
    if not isinstance(chosen, Mapping | None):
        raise ConfigError(f"expected a mapping of checks to policies, found {brief(chosen)}")
    policies = {check: possible[0] for check, possible in POLICIES.items()}
    for check, policy in (chosen or {}).items():
        if not isinstance(check, str):
            raise ConfigError(f"expected the names of checks, found {brief(check)}")
        if check in _CONVENTION_OPTIONS:
            raise ConfigError(f"{check}: expected a check, found an option of the convention: set it in convention")
        if check not in POLICIES:
            raise ConfigError(f"{check}: unknown check{did_you_mean(check, POLICIES)}")
        if not isinstance(policy, str) or policy not in POLICIES[check]:
            raise ConfigError(f"{check}: expected {' or '.join(POLICIES[check])}, found {brief(policy)}")
        policies[check] = policy
    return policies
