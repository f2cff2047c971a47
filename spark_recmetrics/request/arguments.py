"""Checks of single arguments, before anything is planned, and the policies for faulty rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from spark_recmetrics.errors import ConfigError, check_argument
from spark_recmetrics.text import brief, did_you_mean, printable, writable

Ranking = Literal["auto", "window", "lists"]
"""Where Spark ranks lists: in a window function, or in the workers that score them. `auto`: in workers with `max_per_user`."""


def check_ranking(ranking: object, max_per_user: object) -> None:
    """Check how lists are ranked. A window function cannot check their length."""
    check_argument("ranking", ranking, "one of 'auto', 'window' or 'lists'", valid=ranking in get_args(Ranking))
    if ranking == "window" and max_per_user is not None:
        raise ConfigError(
            f"max_per_user: expected none with ranking='window', found {brief(max_per_user)}: remove it, or use 'lists'"
        )


def check_names(option: str, names: Sequence[str]) -> None:
    """Check that the value of an option is a list of different names."""
    check_argument(option, names, "a list of names", valid=isinstance(names, list | tuple) and bool(names))
    for name in names:
        is_name = isinstance(name, str) and bool(name) and writable(name)
        check_argument(option, name, "names, strings that UTF-8 can encode", valid=is_name)
    if len(set(names)) < len(names):
        raise ConfigError(f"{option}: expected different names, found {printable(', '.join(names))}")


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
    """The policy of every check: the chosen one, or the default."""
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
        check_argument(check, policy, " or ".join(POLICIES[check]), valid=isinstance(policy, str) and policy in POLICIES[check])
        policies[check] = policy
    return policies
