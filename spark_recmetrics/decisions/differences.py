"""What the tests of two models have to know of the differences of their users: PER_USER in, one row per pair and metric out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.aggregation.memory import kind_of, user_hashes
from spark_recmetrics.conventions import MEMBERS
from spark_recmetrics.metrics.arrays import numbered, rows_by
from spark_recmetrics.request.per_user import Tally
from spark_recmetrics.request.slices import Group, Slice, grouped
from spark_recmetrics.stats.paired import rank_sums
from spark_recmetrics.stats.resample import bootstrap_sums, poisson_weights
from spark_recmetrics.stats.result import ROUNDING

if TYPE_CHECKING:
    import pandas as pd


LISTED = MEMBERS["predicted"]

KEY = ("pair", "column", "slice", "slice_value")

_N_LISTS = ("n_lists_a", "n_lists_b")

LARGEST = 2.0**500
"""Users with a larger value than this, or an infinite one, are not compared: nothing could be said of the spread."""


class Asked(NamedTuple):
    """What is to be compared.

    Args:
        pairs: The models, a and b, of each pair.
        tallies: The columns, their user sets, and whether undefined values count as 0.
        slices: The slices that are compared, too.
        ranks: Whether rank sums of |d| are wanted.
        n_replicates: How many bootstrap replicates are wanted, 0 for none.
        seed: Of the bootstrap.
    """

    pairs: tuple[tuple[str, str], ...]
    tallies: tuple[Tally, ...]
    slices: tuple[Slice, ...] = ()
    ranks: bool = False
    n_replicates: int = 0
    seed: int = 0


def differences_in_memory(per_user: pd.DataFrame, asked: Asked) -> list[dict[str, Any]]:
    """One row per pair, column and value of a slice, as `whole_differences` gives them."""
    names = {model for pair in asked.pairs for model in pair}
    rows = per_user[per_user["model"].isin(names)]
    if not len(rows):
        return []
    parts = part_differences(rows.assign(user_hash=user_hashes(rows["user"], kind_of(per_user))), asked)
    return [
        dict(zip(map(str, whole), row, strict=True))
        for part in rows_by(parts, KEY)
        for whole in [whole_differences(part, asked)]
        for row in whole.itertuples(index=False, name=None)
    ]


def part_differences(rows: pd.DataFrame, asked: Asked) -> pd.DataFrame:
    """The sums of some users.

    Args:
        rows: All rows of PER_USER of these users, with `user_hash`.
        asked: What is to be compared.

    Returns:
        `schema.PART_DIFFERENCES`: one row per pair, column and value of a slice, with the histogram of |d| and the replicates
        if they are wanted.
    """
    import pandas as pd

    return pd.concat([_of_groups(own, groups, asked) for own, groups in grouped(rows, asked.slices)], ignore_index=True)


def _of_groups(rows: pd.DataFrame, groups: Sequence[Group], asked: Asked) -> pd.DataFrame:
    """The sums of some users, who stand once for each model, by the values of slices."""
    import pandas as pd

    (user,), users = numbered(rows["user"])
    place: dict[str, Any] = {}
    model = rows["model"].to_numpy()
    for name in {name for pair in asked.pairs for name in pair}:
        own = np.flatnonzero(model == name)
        place[name] = np.full(len(users), -1)
        place[name][user[own]] = own
    counters = {*LISTED, *(counter for tally in asked.tallies for counter in MEMBERS[tally.users])}
    values = {name: rows[name].to_numpy(np.float64) for name in counters | {tally.column for tally in asked.tallies}}
    # A row with a list in it says that the model was there at all.
    lists = {name: np.zeros(len(users), dtype=np.int64) for name in place}
    for name, own in place.items():
        lists[name][own >= 0] = np.all([values[counter][own[own >= 0]] > 0 for counter in LISTED], axis=0)
    hashes = np.zeros(len(users), dtype=np.uint64)
    hashes[user] = rows["user_hash"].to_numpy(np.int64).view(np.uint64)
    weights = poisson_weights(hashes, asked.n_replicates, asked.seed) if asked.n_replicates else None
    of_groups: list[tuple[int, str, Any]] = []
    for group in groups:
        of_user = np.zeros(len(users), dtype=np.int64)
        of_user[user] = group.code
        of_groups += [(group.position, text, of_user == value) for value, text in enumerate(group.values)]

    found, columns = [], []
    for pair, (a, b) in enumerate(asked.pairs):
        both = np.flatnonzero((place[a] >= 0) & (place[b] >= 0))
        one, other = place[a][both], place[b][both]
        for column, tally in enumerate(asked.tallies):
            member = np.ones(len(both), dtype=bool)
            for counter in MEMBERS[tally.users]:
                member &= (values[counter][one] > 0) & (values[counter][other] > 0)
            old, new = values[tally.column][one], values[tally.column][other]
            if tally.as_zero:
                old, new = np.nan_to_num(old, nan=0.0), np.nan_to_num(new, nan=0.0)
            known = member & (np.abs(old) < LARGEST) & (np.abs(new) < LARGEST)
            for number, text, of_group in of_groups:
                here = of_group[both]
                kept, n_left_out = known & here, int((member & ~known & here).sum())
                n_lists = [int(lists[name][of_group].sum()) for name in (a, b)]
                found.append((pair, column, number, text, *n_lists, *_sums(old[kept], new[kept], n_left_out=n_left_out)))
            columns.append(np.full(len(users), np.nan))
            columns[-1][both[known]] = _difference(old[known], new[known])
    frame = pd.DataFrame(found, columns=[*KEY, *_N_LISTS, *_Sums._fields])
    frame["sums"] = frame["counts"] = None
    if weights is not None:
        table = np.column_stack(columns)
        drawn = [bootstrap_sums(table[of_group], weights[:, of_group]) for _, _, of_group in of_groups]
        places = [(group, column) for column in range(len(columns)) for group in range(len(of_groups))]
        for of, name in enumerate(("sums", "counts")):
            frame[name] = pd.Series([drawn[group][of][:, column] for group, column in places], dtype=object)
    if not asked.ranks:
        frame["magnitudes"] = frame["n_positive"] = frame["n_negative"] = None
    return frame


class _Sums(NamedTuple):
    n: int
    n_left_out: int
    sum_a: float
    sum_b: float
    total: float
    deviation: float
    low: float
    high: float
    noise: float
    wins: int
    losses: int
    magnitudes: Any
    n_positive: Any
    n_negative: Any


def _difference(old: Any, new: Any) -> Any:
    """B - a, 0 where it is no more than rounding of the values."""
    difference = new - old
    difference[np.abs(difference) <= _noise(old, new)] = 0.0
    return difference


def _noise(old: Any, new: Any) -> Any:
    return ROUNDING * np.maximum(np.abs(old), np.abs(new))


def _sums(old: Any, new: Any, *, n_left_out: int) -> _Sums:
    difference = _difference(old, new)
    mean = difference.mean() if len(difference) else 0.0
    size, group = np.unique(np.abs(difference), return_inverse=True)
    up, down = (np.bincount(group[side], minlength=len(size)) for side in (difference > 0, difference < 0))
    some = size > 0
    return _Sums(
        n=len(difference),
        n_left_out=n_left_out,
        sum_a=float(old.sum()),
        sum_b=float(new.sum()),
        total=float(difference.sum()),
        deviation=float(((difference - mean) ** 2).sum()),
        low=float(difference.min(initial=math.inf)),
        high=float(difference.max(initial=-math.inf)),
        noise=float(_noise(old, new).max(initial=0.0)),
        wins=int(up.sum()),
        losses=int(down.sum()),
        magnitudes=size[some],
        n_positive=up[some],
        n_negative=down[some],
    )


def whole_differences(parts: pd.DataFrame, asked: Asked) -> pd.DataFrame:
    """The sums of all users of one pair, column and value of a slice.

    Args:
        parts: Rows of `part_differences`.
        asked: What is to be compared.

    Returns:
        One row of `schema.DIFFERENCES`; its sums are 0 where no user has both values.
    """
    import pandas as pd

    n = int(parts["n"].sum())
    known = parts[parts["n"] > 0]
    total = math.fsum(known["total"])
    mean = total / n if n else 0.0
    spread = math.fsum([*known["deviation"], *(known["n"] * (known["total"] / known["n"] - mean) ** 2)])
    # Differences that are apart by no more than rounding of the values are the same, as `stats` has it for arrays.
    if n and known["high"].max() - known["low"].min() <= known["noise"].max():
        spread = 0.0
    row: dict[str, Any] = {name: parts[name].iloc[0] for name in KEY} | {"n": n}
    row |= {name: int(parts[name].sum()) for name in (*_N_LISTS, "n_left_out", "wins", "losses")}
    row |= {"mean_a": math.fsum(parts["sum_a"]) / max(n, 1), "mean_b": math.fsum(parts["sum_b"]) / max(n, 1)}
    row |= {"mean": mean, "variance": spread / max(n - 1, 1)}
    row |= {"plus": None, "minus": None, "tied": None, "replicates": None}
    if asked.ranks:
        histogram = (np.concatenate([np.zeros(0), *parts[name]]) for name in ("magnitudes", "n_positive", "n_negative"))
        ranks = rank_sums(*histogram)
        row |= {"plus": ranks.plus, "minus": ranks.minus, "tied": ranks.tied}
    if asked.n_replicates:
        sums, counts = (np.sum(np.stack(list(parts[name])), axis=0) for name in ("sums", "counts"))
        with np.errstate(invalid="ignore"):
            row["replicates"] = sums / counts
    return pd.DataFrame([row])
