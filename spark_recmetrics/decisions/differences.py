"""The sums that tests need of the differences between two models: PER_USER in, one row per pair, metric and slice value out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_recmetrics.conventions import MEMBERS
from spark_recmetrics.inputs.hashing import user_hashes
from spark_recmetrics.metrics.arrays import numbered, rows_by
from spark_recmetrics.request.slices import Group, Slice, grouped
from spark_recmetrics.request.user_sums import Tally
from spark_recmetrics.stats.paired import rank_sums
from spark_recmetrics.stats.resample import bootstrap_sums, poisson_weights
from spark_recmetrics.stats.result import rounded_differences

if TYPE_CHECKING:
    import pandas as pd

KEY = ("pair", "column", "slice", "slice_value")

LARGEST = 2.0**500
"""Users with a larger value, or an infinite one, are left out: the sum of squares would be infinite."""

_LISTED = MEMBERS["predicted"]


class DifferenceSpec(NamedTuple):
    """Which differences are summed, and what their tests need."""

    pairs: tuple[tuple[str, str], ...]  # the models a and b
    tallies: tuple[Tally, ...]  # the columns of the metrics, and their user sets
    slices: tuple[Slice, ...] = ()
    ranks: bool = False  # whether the histograms of |d| are needed
    n_replicates: int = 0  # of the bootstrap
    seed: int = 0

    @property
    def models(self) -> list[str]:
        """The models of all pairs."""
        return sorted({model for pair in self.pairs for model in pair})

    @property
    def columns(self) -> list[str]:
        """The columns of PER_USER with values, and those that decide which users are in a user set."""
        counters = {counter for tally in self.tallies for counter in MEMBERS[tally.users]}
        return sorted(counters.union(_LISTED, (tally.column for tally in self.tallies)))


def differences_in_memory(per_user: pd.DataFrame, spec: DifferenceSpec) -> list[dict[str, Any]]:
    """The rows of `whole_differences`, for PER_USER as a pandas frame."""
    rows = per_user[per_user["model"].isin(spec.models)]
    if not len(rows):
        return []
    parts = part_differences(rows.assign(user_hash=user_hashes(rows["user"], per_user)), spec)
    return [whole_differences(part, spec) for part in rows_by(parts, KEY)]


def part_differences(rows: pd.DataFrame, spec: DifferenceSpec) -> pd.DataFrame:
    """`storage.table_schemas.PART_DIFFERENCES` for some users, from all of their rows of PER_USER, with `user_hash`."""
    import pandas as pd

    return pd.concat([_sums_by_group(part, groups, spec) for part, groups in grouped(rows, spec.slices)], ignore_index=True)


class _Users:
    """The users of a part of PER_USER with at most one row per model and user, and their values."""

    def __init__(self, rows: pd.DataFrame, spec: DifferenceSpec) -> None:
        (self.number,), users = numbered(rows["user"])
        self.size = len(users)
        model = rows["model"].to_numpy()
        self.row = {name: np.full(self.size, -1) for name in spec.models}
        for name, row in self.row.items():
            rows_of_model = np.flatnonzero(model == name)
            row[self.number[rows_of_model]] = rows_of_model
        self.values = {name: rows[name].to_numpy(np.float64) for name in spec.columns}
        self.hashes = np.zeros(self.size, dtype=np.uint64)
        self.hashes[self.number] = rows["user_hash"].to_numpy(np.int64).view(np.uint64)

    def lists(self, model: str) -> NDArray[np.int64]:
        """(U,) 1 for each user with a list of the model, else 0."""
        row, lists = self.row[model], np.zeros(self.size, dtype=np.int64)
        lists[row >= 0] = np.all([self.values[counter][row[row >= 0]] > 0 for counter in _LISTED], axis=0)
        return lists

    def paired(self, pair: tuple[str, str], tally: Tally) -> tuple[Any, Any, Any, Any]:
        """The users with rows of both models, the values of a and of b, who is in the user set, and who is compared."""
        rows = self.row[pair[0]], self.row[pair[1]]
        both = np.flatnonzero((rows[0] >= 0) & (rows[1] >= 0))
        member = np.ones(len(both), dtype=bool)
        for counter in MEMBERS[tally.users]:
            member &= (self.values[counter][rows[0][both]] > 0) & (self.values[counter][rows[1][both]] > 0)
        values = [self.values[tally.column][row[both]] for row in rows]
        a, b = (np.nan_to_num(value, nan=0.0) if tally.as_zero else value for value in values)
        return both, (a, b), member, member & (np.abs(a) < LARGEST) & (np.abs(b) < LARGEST)

    def in_groups(self, groups: Sequence[Group]) -> list[tuple[int, str, Any]]:
        """For each value of a slice its position and text, and (U,) which users belong to it."""
        members: list[tuple[int, str, Any]] = []
        for group in groups:
            code = np.zeros(self.size, dtype=np.int64)
            code[self.number] = group.code
            members += [(group.position, text, code == value) for value, text in enumerate(group.values)]
        return members


def _sums_by_group(rows: pd.DataFrame, groups: Sequence[Group], spec: DifferenceSpec) -> pd.DataFrame:
    import pandas as pd

    users = _Users(rows, spec)
    members, sums, differences = users.in_groups(groups), [], []
    lists = {model: users.lists(model) for model in users.row}
    for number, pair in enumerate(spec.pairs):
        for column, tally in enumerate(spec.tallies):
            both, (a, b), member, compared = users.paired(pair, tally)
            for position, text, in_group in members:
                inside = in_group[both]
                row = dict(zip(KEY, (number, column, position, text), strict=True))
                row |= {f"n_lists_{end}": int(lists[model][in_group].sum()) for end, model in zip("ab", pair, strict=True)}
                row["n_left_out"] = int((member & ~compared & inside).sum())
                sums.append(row | _sums(a[compared & inside], b[compared & inside], ranks=spec.ranks))
            differences.append(np.full(users.size, np.nan))
            differences[-1][both[compared]] = rounded_differences(a[compared], b[compared])[0]
    frame = pd.DataFrame(sums)
    frame["sums"] = frame["counts"] = None
    if spec.n_replicates:
        weights = poisson_weights(users.hashes, spec.n_replicates, spec.seed)
        table = np.column_stack(differences)
        drawn = [bootstrap_sums(table[in_group], weights[:, in_group]) for _, _, in_group in members]
        order = [(group, column) for column in range(len(differences)) for group in range(len(members))]
        for part, name in enumerate(("sums", "counts")):
            frame[name] = pd.Series([drawn[group][part][:, column] for group, column in order], dtype=object)
    return frame


def _sums(a: Any, b: Any, *, ranks: bool) -> dict[str, Any]:
    difference, noise = rounded_differences(a, b)
    mean = difference.mean() if len(difference) else 0.0
    sums = {
        "n": len(difference),
        "sum_a": float(a.sum()),
        "sum_b": float(b.sum()),
        "total": float(difference.sum()),
        "deviation": float(((difference - mean) ** 2).sum()),
        "low": float(difference.min(initial=math.inf)),
        "high": float(difference.max(initial=-math.inf)),
        "noise": float(noise.max(initial=0.0)),
        "wins": int((difference > 0).sum()),
        "losses": int((difference < 0).sum()),
    }
    if not ranks:
        return sums | dict.fromkeys(("magnitudes", "n_positive", "n_negative"))
    sizes, code = np.unique(np.abs(difference[difference != 0]), return_inverse=True)
    positive = difference[difference != 0] > 0
    counts = [np.bincount(code[side], minlength=len(sizes)) for side in (positive, ~positive)]
    return sums | {"magnitudes": sizes, "n_positive": counts[0], "n_negative": counts[1]}


def whole_differences(parts: pd.DataFrame, spec: DifferenceSpec) -> dict[str, Any]:
    """A row of `storage.table_schemas.DIFFERENCES`, from the parts with its `KEY`. Means are 0 if no user has both values."""
    n = int(parts["n"].sum())
    filled = parts[parts["n"] > 0]
    total = math.fsum(filled["total"])
    mean = total / n if n else 0.0
    squares = math.fsum([*filled["deviation"], *(filled["n"] * (filled["total"] / filled["n"] - mean) ** 2)])
    # As in `stats`, differences are equal if rounding errors of the values explain how far they are apart.
    if n and filled["high"].max() - filled["low"].min() <= filled["noise"].max():
        squares = 0.0
    row: dict[str, Any] = {name: parts[name].iloc[0] for name in KEY} | {"n": n}
    row |= {name: int(parts[name].sum()) for name in ("n_lists_a", "n_lists_b", "n_left_out", "wins", "losses")}
    row |= {"mean_a": math.fsum(parts["sum_a"]) / max(n, 1), "mean_b": math.fsum(parts["sum_b"]) / max(n, 1)}
    row |= {"mean": mean, "variance": squares / max(n - 1, 1)}
    row |= {"plus": None, "minus": None, "tied": None, "replicates": None}
    if spec.ranks:
        histogram = (np.concatenate([np.zeros(0), *parts[name]]) for name in ("magnitudes", "n_positive", "n_negative"))
        ranks = rank_sums(*histogram)
        row |= {"plus": ranks.plus, "minus": ranks.minus, "tied": ranks.tied}
    if spec.n_replicates:
        sums, counts = (np.sum(np.stack(list(parts[name])), axis=0) for name in ("sums", "counts"))
        with np.errstate(invalid="ignore"):
            row["replicates"] = sums / counts
    return row
