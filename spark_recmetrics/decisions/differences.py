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
    from numpy.typing import NDArray


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


class _Users:
    """Some users of PER_USER, one row of each model per user, and the values that are compared."""

    def __init__(self, rows: pd.DataFrame, asked: Asked) -> None:
        (self.number,), users = numbered(rows["user"])
        self.size = len(users)
        model = rows["model"].to_numpy()
        self.row = {name: np.full(self.size, -1) for name in {name for pair in asked.pairs for name in pair}}
        for name, row in self.row.items():
            rows_of_model = np.flatnonzero(model == name)
            row[self.number[rows_of_model]] = rows_of_model
        counters = {*LISTED, *(counter for tally in asked.tallies for counter in MEMBERS[tally.users])}
        self.values = {name: rows[name].to_numpy(np.float64) for name in counters | {tally.column for tally in asked.tallies}}
        self.hashes = np.zeros(self.size, dtype=np.uint64)
        self.hashes[self.number] = rows["user_hash"].to_numpy(np.int64).view(np.uint64)

    def lists(self, model: str) -> NDArray[np.int64]:
        """(U,) 1 for each user with a list of the model: without any, the model was not there at all."""
        row, lists = self.row[model], np.zeros(self.size, dtype=np.int64)
        lists[row >= 0] = np.all([self.values[counter][row[row >= 0]] > 0 for counter in LISTED], axis=0)
        return lists

    def compared(self, pair: tuple[str, str], tally: Tally) -> tuple[Any, Any, Any, Any]:
        """The users with rows of both models, the values of a and of b, which are members, and which can be compared."""
        rows = self.row[pair[0]], self.row[pair[1]]
        both = np.flatnonzero((rows[0] >= 0) & (rows[1] >= 0))
        member = np.ones(len(both), dtype=bool)
        for counter in MEMBERS[tally.users]:
            member &= (self.values[counter][rows[0][both]] > 0) & (self.values[counter][rows[1][both]] > 0)
        values = [self.values[tally.column][row[both]] for row in rows]
        old, new = (np.nan_to_num(own, nan=0.0) if tally.as_zero else own for own in values)
        return both, (old, new), member, member & (np.abs(old) < LARGEST) & (np.abs(new) < LARGEST)

    def in_groups(self, groups: Sequence[Group]) -> list[tuple[int, str, Any]]:
        """By slice and value, (U,) which users belong to it."""
        members: list[tuple[int, str, Any]] = []
        for group in groups:
            code = np.zeros(self.size, dtype=np.int64)
            code[self.number] = group.code
            members += [(group.position, text, code == value) for value, text in enumerate(group.values)]
        return members


def _of_groups(rows: pd.DataFrame, groups: Sequence[Group], asked: Asked) -> pd.DataFrame:
    """The sums of some users, by the values of slices."""
    import pandas as pd

    users = _Users(rows, asked)
    members, sums, differences = users.in_groups(groups), [], []
    lists = {model: users.lists(model) for model in users.row}
    for number, pair in enumerate(asked.pairs):
        for column, tally in enumerate(asked.tallies):
            both, (old, new), member, comparable = users.compared(pair, tally)
            for position, text, of_group in members:
                inside = of_group[both]
                kept, n_left_out = comparable & inside, int((member & ~comparable & inside).sum())
                n_lists = [int(lists[model][of_group].sum()) for model in pair]
                sums.append((number, column, position, text, *n_lists, *_sums(old[kept], new[kept], n_left_out=n_left_out)))
            differences.append(np.full(users.size, np.nan))
            differences[-1][both[comparable]] = _difference(old[comparable], new[comparable])
    frame = pd.DataFrame(sums, columns=[*KEY, *_N_LISTS, *_Sums._fields])
    frame["sums"] = frame["counts"] = None
    if asked.n_replicates:
        weights = poisson_weights(users.hashes, asked.n_replicates, asked.seed)
        table = np.column_stack(differences)
        drawn = [bootstrap_sums(table[of_group], weights[:, of_group]) for _, _, of_group in members]
        order = [(group, column) for column in range(len(differences)) for group in range(len(members))]
        for of, name in enumerate(("sums", "counts")):
            frame[name] = pd.Series([drawn[group][of][:, column] for group, column in order], dtype=object)
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
