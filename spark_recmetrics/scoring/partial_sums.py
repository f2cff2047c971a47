"""Partial sums of PER_USER: what a part of its rows adds to the values of the models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import COUNTERS, FAULTS, PAIR_RANKS, PAIR_SCORES, PAIR_STARTS
from spark_recmetrics.conventions import MEMBERS, RATED
from spark_recmetrics.metrics.rating import Moments

if TYPE_CHECKING:
    import pandas as pd

from spark_recmetrics.request.per_user import SumSpec

TOTALS_COLUMNS = ["model", "name", "n", "sum", "deviation", "undefined", "total", "count", "examples"]
"""The columns of partial sums, as in `storage.schemas.TOTALS`."""

N_EXAMPLES = 5
"""How many users are named of those that a check counts."""


_SETS = ("all", "truth", "relevant", "predicted", "truth_and_predicted")


SCORE_EDGES = "edges of score ranges"
"""Name of the scores that cut the pairs of a model into ranges of about equal size, among the totals."""

PAIRS_A_RANGE, MOST_RANGES = 1_000_000, 64
"""How many pairs a range of scores has at most, as long as there are no more ranges than these."""

_STEPS = np.arange(1, MOST_RANGES) / MOST_RANGES


def with_pairs(k: int | None) -> str:
    """Name of the user set with a matched pair within k, among the totals."""
    return f"users_with_pairs_{k}"


# The square of a very large error is infinite, and how far it is from an infinite mean is no number: no reason to warn.
@np.errstate(over="ignore", invalid="ignore")
def part_totals(rows: pd.DataFrame, wanted: SumSpec) -> pd.DataFrame:
    """What a part of the rows of PER_USER adds to the totals: few rows, however many users there are.

    Args:
        rows: Some rows of PER_USER.
        wanted: What is asked for.

    Returns:
        `schema.TOTALS`, one row per model and name of a tally, user set (`users_…`), counter or moment: the number of values,
        their sum, the sum of their squared deviations from their own mean, the undefined ones, the sums of a pooled metric,
        and of what is perhaps to be reported, up to five users.
    """
    import pandas as pd

    found: list[tuple[Any, ...]] = []
    whole = {str(name): column.to_numpy() for name, column in rows.items()}
    sets = (*_SETS, *([RATED] if "n_pairs" in rows else []))
    for model in dict.fromkeys(rows["model"]):
        of_model = whole["model"] == model
        own = {name: values if of_model.all() else values[of_model] for name, values in whole.items()}
        belongs = {users: in_population(own, users) for users in {*sets, *(tally.users for tally in wanted.tallies)}}
        found += [(model, f"users_{users}", int(belongs[users].sum()), 0.0, 0.0, 0, 0.0, 0.0, []) for users in sets]
        listed = belongs["predicted"]
        told = {
            "users_without_list": belongs["truth"] & ~listed,
            "users_without_truth": listed & ~belongs["truth"],
            "users_with_short_list": listed & (as_doubles(own["n_recommended"]) < wanted.largest_cut),
            "users_with_tie_at_cut": as_doubles(own["n_tied_at_cut"]) > 0,
        }
        found += [
            (model, name, int(which.sum()), 0.0, 0.0, 0, 0.0, 0.0, _examples(own["user"], which))
            for name, which in told.items()
        ]
        if wanted.cuts:
            # Few rows have pairs, those of many users.
            known = np.array([ranks is not None for ranks in own[PAIR_RANKS]])
            pairs = [own[name][known] for name in (PAIR_RANKS, PAIR_STARTS)]
            # The first pair of a user has the smallest rank.
            first = np.concatenate([np.zeros(0), *(np.abs(ranks[starts]) for ranks, starts in zip(*pairs, strict=True))])
            within = {with_pairs(k): int((first <= (k or np.inf)).sum()) for k in wanted.cuts}
            found += [(model, name, n, 0.0, 0.0, 0, 0.0, 0.0, []) for name, n in within.items()]
            scores = np.concatenate([np.zeros(0), *own[PAIR_SCORES][known]])
            edges = np.quantile(scores, _STEPS, method="lower") if len(scores) else ()
            # The first edge of a part carries how many pairs the part has.
            counts = [len(scores), *[0] * len(edges)]
            found += [
                (model, SCORE_EDGES, n, float(edge), 0.0, 0, 0.0, 0.0, []) for edge, n in zip(edges, counts, strict=False)
            ]
        for name in (*COUNTERS, *Moments._fields):
            if name in own:
                values = as_doubles(own[name])
                known = values[~np.isnan(values)]
                examples = _examples(own["user"], values > 0) if name in FAULTS else []
                found.append((model, name, len(known), float(known.sum()), 0.0, 0, 0.0, 0.0, examples))
        for tally in wanted.tallies:
            members = belongs[tally.users]
            values = as_doubles(own[tally.column])[members]
            missing = np.isnan(values)
            counted = np.where(missing, 0.0, values) if tally.as_zero else values[~missing]
            mean = counted.mean() if len(counted) else 0.0
            deviation = float(((counted - mean) ** 2).sum())
            sums = [
                float(as_doubles(own[f"{tally.column}_{of}"])[members].sum()) if tally.pooled else 0.0
                for of in ("total", "count")
            ]
            found.append((model, tally.name, len(counted), float(counted.sum()), deviation, int(missing.sum()), *sums, []))
    return pd.DataFrame(found, columns=TOTALS_COLUMNS)


def _examples(users: Any, which: Any) -> list[str]:
    """Up to five users, as text. Of each part the same ones in every run, whatever the order of its rows."""
    return first_users(str(user) for user in users[which])


def first_users(users: Iterable[str]) -> list[str]:
    """Up to `N_EXAMPLES` of these users, the same ones whatever their order."""
    # By length first, numbers come in their own order.
    return nsmallest(N_EXAMPLES, users, key=lambda user: (len(user), user))


def in_population(own: Mapping[str, Any], users: str) -> Any:
    """(U,) whether each row of PER_USER belongs to a user set."""
    found = np.ones(len(own["model"]), dtype=bool)
    for counter in MEMBERS[users]:
        # A counter that is missing is NaN, which is not above 0.
        found &= as_doubles(own[counter]) > 0
    return found


def as_doubles(values: Any) -> Any:
    """A column as doubles, None as NaN."""
    return np.asarray(values, dtype=np.float64)
