"""Totals over users: what a part of the rows of PER_USER contributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.columns import COUNTERS, FAULTS, PAIR_RANKS, PAIR_SCORES, PAIR_STARTS
from spark_recmetrics.conventions import MEMBERS, RATED
from spark_recmetrics.inputs.data_report import N_EXAMPLES
from spark_recmetrics.metrics.rating import Moments
from spark_recmetrics.request.user_sums import SumSpec, Tally

if TYPE_CHECKING:
    import pandas as pd

_SETS = ("all", "truth", "relevant", "predicted", "truth_and_predicted")

SCORE_EDGES = "edges of score ranges"
"""The name, in the totals, of the scores that cut the pairs of a model into ranges of about equal size."""

PAIRS_A_RANGE, MOST_RANGES = 1_000_000, 64
"""The maximum number of pairs per range of scores, unless this needs more ranges than the second number."""


class PartTotal(NamedTuple):
    """A row of `storage.table_schemas.TOTALS`: the contribution of a part of the users to a total."""

    model: Any
    name: str  # a tally, a user set (`users_…`), a counter or a moment
    n: int  # the number of values
    sum: float = 0.0
    deviation: float = 0.0  # the sum of squared deviations from their mean
    undefined: int = 0  # the number of undefined values
    total: float = 0.0  # the sum of the numerators of a pooled metric
    count: float = 0.0  # type: ignore[assignment]  # the sum of its denominators
    examples: list[str] = []  # up to `N_EXAMPLES` users, if a check may report them


def with_pairs(k: int | None) -> str:
    """The name, in the totals, of the users with a matched pair within k."""
    return f"users_with_pairs_{k}"


# The square of a very large error is infinite, and its distance from an infinite mean is NaN. This needs no warning.
@np.errstate(over="ignore", invalid="ignore")
def part_totals(rows: pd.DataFrame, sum_spec: SumSpec) -> pd.DataFrame:
    """The totals of a part of the rows of PER_USER: few rows, whatever the number of users. The columns are `PartTotal`."""
    import pandas as pd

    totals: list[PartTotal] = []
    columns = {str(name): column.to_numpy() for name, column in rows.items()}
    sets = (*_SETS, *([RATED] if "n_pairs" in rows else []))
    for model in dict.fromkeys(rows["model"]):
        is_model = columns["model"] == model
        users = {name: values if is_model.all() else values[is_model] for name, values in columns.items()}
        members = {name: in_population(users, name) for name in {*sets, *(tally.users for tally in sum_spec.tallies)}}
        totals += [PartTotal(model, f"users_{name}", int(members[name].sum())) for name in sets]
        totals += _checked_users(model, users, members, sum_spec.largest_cut)
        totals += _pairs(model, users, sum_spec.cuts) if sum_spec.cuts else []
        totals += _counters(model, users)
        totals += [_tally(model, users, members[tally.users], tally) for tally in sum_spec.tallies]
    return pd.DataFrame(totals, columns=PartTotal._fields)


def _checked_users(model: Any, users: Mapping[str, Any], members: Mapping[str, Any], largest_cut: int) -> Iterator[PartTotal]:
    """The users that data checks count, with examples."""
    in_truth, listed = members["truth"], members["predicted"]
    checked = {
        "users_without_list": in_truth & ~listed,
        "users_without_truth": listed & ~in_truth,
        "users_with_short_list": listed & (as_doubles(users["n_recommended"]) < largest_cut),
        "users_with_tie_at_cut": as_doubles(users["n_tied_at_cut"]) > 0,
    }
    for name, which in checked.items():
        yield PartTotal(model, name, int(which.sum()), examples=first_users(map(str, users["user"][which])))


def _pairs(model: Any, users: Mapping[str, Any], cuts: Iterable[int | None]) -> Iterator[PartTotal]:
    """The users with matched pairs within each cut-off, and quantiles of the scores of pairs."""
    # Few rows have pairs, each those of many users.
    has_pairs = np.array([ranks is not None for ranks in users[PAIR_RANKS]])
    pairs = [users[name][has_pairs] for name in (PAIR_RANKS, PAIR_STARTS)]
    # The first pair of a user has the smallest rank.
    first = np.concatenate([np.zeros(0), *(np.abs(ranks[starts]) for ranks, starts in zip(*pairs, strict=True))])
    for name, k in {with_pairs(k): k for k in cuts}.items():
        yield PartTotal(model, name, int((first <= (k or np.inf)).sum()))
    scores = np.concatenate([np.zeros(0), *users[PAIR_SCORES][has_pairs]])
    edges = np.quantile(scores, np.arange(1, MOST_RANGES) / MOST_RANGES, method="lower") if len(scores) else ()
    for position, edge in enumerate(edges):
        # The total of the first edge has the number of pairs.
        yield PartTotal(model, SCORE_EDGES, 0 if position else len(scores), float(edge))


def _counters(model: Any, users: Mapping[str, Any]) -> Iterator[PartTotal]:
    for name in (*COUNTERS, *Moments._fields):
        if name in users:
            values = as_doubles(users[name])
            defined = values[~np.isnan(values)]
            examples = first_users(map(str, users["user"][values > 0])) if name in FAULTS else []
            yield PartTotal(model, name, len(defined), float(defined.sum()), examples=examples)


def _tally(model: Any, users: Mapping[str, Any], is_member: Any, tally: Tally) -> PartTotal:
    values = as_doubles(users[tally.column])[is_member]
    missing = np.isnan(values)
    averaged = np.where(missing, 0.0, values) if tally.as_zero else values[~missing]
    mean = averaged.mean() if len(averaged) else 0.0
    deviation = float(((averaged - mean) ** 2).sum())
    total, count = (
        float(as_doubles(users[f"{tally.column}_{part}"])[is_member].sum()) if tally.pooled else 0.0
        for part in ("total", "count")
    )
    n_missing = int(missing.sum())
    return PartTotal(model, tally.name, len(averaged), float(averaged.sum()), deviation, n_missing, total, count, [])


def first_users(users: Iterable[str]) -> list[str]:
    """Up to `N_EXAMPLES` of these users, independent of their order."""
    # Ordered by length first, numbers are in ascending order.
    return nsmallest(N_EXAMPLES, users, key=lambda user: (len(user), user))


def in_population(columns: Mapping[str, Any], users: str) -> Any:
    """(U,) whether each row of PER_USER belongs to a user set."""
    is_member = np.ones(len(columns["model"]), dtype=bool)
    for counter in MEMBERS[users]:
        # A missing counter is NaN, which is not above 0.
        is_member &= as_doubles(columns[counter]) > 0
    return is_member


def as_doubles(values: Any) -> Any:
    """A column as doubles, None as NaN."""
    return np.asarray(values, dtype=np.float64)
