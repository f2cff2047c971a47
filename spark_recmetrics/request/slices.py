"""Slices: groups of users or items that are evaluated separately, too. Their syntax, and the rows of each group."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.columns import ITEM_SLICE, ITEM_VALUE, TABLE_OF, Side, near_column
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics.recommended_items import Popularity
from spark_recmetrics.text import brief, printable, writable

if TYPE_CHECKING:
    import pandas as pd

COUNTED: Mapping[Side, str] = {"user": "activity", "item": "popularity"}
"""The slices by the number of training rows of a user or an item."""

NO_VALUE = "(none)"
"""The value of users or items without one in the table."""

MOST_VALUES = 1000
"""The maximum number of values of a slice. Each is a row for every model and metric. A column with more is probably an id."""

MIN_USERS = 30
"""Values of slices over fewer users are marked as small, unless another number is given."""

_COUNTED_LABELS = {
    "activity": ("no training rows", "least active quarter", "second quarter", "third quarter", "most active quarter"),
    "popularity": ("no training rows", "long tail", "short head"),
}
"""The values of these slices without edges. `steps_of` computes where the bands end."""

HEAD_SHARE = 0.8
"""The share of training rows that belong to the short head, the most popular items."""

_BAND = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`*()]*[^`*()\s]))\s*(?:\((?P<edges>[^()]*)\))?\s*")
"""One column of a slice, optionally with edges."""


@dataclass(frozen=True)
class Band:
    """A column of a slice: its values as they are, or numbers cut into bands."""

    name: str  # column of a table of users or items, or `activity` or `popularity`
    edges: tuple[float, ...] = ()  # where bands begin, ascending: n edges make n + 1 bands
    labels: tuple[str, ...] = ()  # the names of the bands, lowest first

    def __str__(self) -> str:
        quoted = f"`{self.name.replace('`', '``')}`" if re.search(r"[`*()]|^\s|\s$", self.name) else self.name
        return f"{quoted}({', '.join(map(_shown, self.edges))})" if self.edges else quoted

    def limits(self, type_name: str) -> tuple[float, ...]:
        """The edges in the precision of the column: as a float, 0.7 is less than the double 0.7."""
        return tuple(float(np.float32(edge)) for edge in self.edges) if type_name == "float" else self.edges

    @property
    def column(self) -> str:
        """The column of PER_USER with the value of each user."""
        edges = (_shown(edge).replace("-", "minus").replace(".", "p").replace("+", "") for edge in self.edges)
        return "_".join(["slice", re.sub(r"\W+", "_", self.name).strip("_").lower(), *edges])


@dataclass(frozen=True)
class Slice:
    """Groups of users, or of items, by the values of one or several columns."""

    bands: tuple[Band, ...]

    @classmethod
    def parse(cls, text: object) -> Slice:
        """Parse `gender`, `age(18, 35)` or `gender*age(18, 35)`. Names with `*` or brackets need backticks."""
        if isinstance(text, Slice):
            return text
        if not isinstance(text, str) or not text.strip() or not writable(text):
            raise ConfigError(f"expected a slice such as 'gender' or 'age(18, 35)', found {brief(text)}")
        bands, start = [], 0
        while start <= len(text):
            band = _BAND.match(text, start)
            if band is None or text[band.end() : band.end() + 1] not in ("", "*"):
                raise ConfigError(
                    f"{text!r}: expected columns joined by *, optionally with edges as in 'gender*age(18, 35)', "
                    f"found {text[start:].strip() or 'nothing'!r}"
                )
            name = band["plain"] if band["quoted"] is None else band["quoted"].replace("``", "`")
            edges = () if band["edges"] is None else _edges(text, band["edges"])
            labels = _labels(edges) if edges else _COUNTED_LABELS.get(name, ())
            bands.append(Band(name, edges, labels))
            start = band.end() + 1
        if len({band.name for band in bands}) < len(bands):
            raise ConfigError(f"{text!r}: expected different columns, found one twice")
        return cls(tuple(bands))

    def __str__(self) -> str:
        return "*".join(map(str, self.bands))

    @property
    def names(self) -> str:
        """The columns without edges."""
        return "*".join(band.name for band in self.bands)

    def sort_key(self, value: str) -> tuple[Any, ...]:
        """The sort key of a value: bands by their edges, numbers as numbers, and `NO_VALUE` last."""
        keys: list[tuple[Any, ...]] = []
        parts = [re.sub(r"\\(.)", r"\1", part) for part in value.split(_SEPARATOR)] if len(self.bands) > 1 else [value]
        for band, part in zip(self.bands, parts, strict=False):
            position = band.labels.index(part) if part in band.labels else -1
            number = float(part) if re.fullmatch(r"-?\d{1,15}(\.\d+)?", part) else math.inf
            keys.append((part == NO_VALUE, position, number, part))
        return (*keys, value)


ALL_USERS = -1
"""The position of the slice of all users, before those of the caller."""

_SEPARATOR = " & "
"""Between the values of a slice over several columns."""


def joined(values: Sequence[str]) -> str:
    r"""Join the values of several columns. `&` and backslash within a value are escaped, so that the result is unique."""
    if len(values) == 1:
        return values[0]
    return _SEPARATOR.join(re.sub(r"([&\\])", r"\\\1", value) for value in values)


def _edges(text: str, inside: str) -> tuple[float, ...]:
    try:
        edges = tuple(float(edge) for edge in inside.split(","))
        exact = all(not re.fullmatch(r"\s*[-+]?\d+\s*", edge) or int(edge) == float(edge) for edge in inside.split(","))
    except ValueError:
        edges = (math.nan,)
    if not all(map(math.isfinite, edges)):
        raise ConfigError(f"{text!r}: expected numbers as edges, found {inside.strip() or 'nothing'}")
    if not exact:
        raise ConfigError(f"{text!r}: expected integer edges up to 2**53, which a double holds exactly, found {inside.strip()}")
    if any(low >= high for low, high in pairwise(edges)):
        raise ConfigError(f"{text!r}: expected ascending edges, found {', '.join(map(_shown, edges))}")
    return edges


def _shown(edge: float) -> str:
    return repr(edge).removesuffix(".0")


def _labels(edges: Sequence[float]) -> tuple[str, ...]:
    """The names of bands, such as `<18`, `18..<35` and `>=35`, which show to which band an edge belongs."""
    shown = [_shown(edge) for edge in edges]
    inner = (f"{low}..<{high}" for low, high in pairwise(shown))
    return (f"<{shown[0]}", *inner, f">={shown[-1]}")


def parse_slices(texts: object) -> tuple[Slice, ...]:
    """Parse a list of different slices."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise ConfigError(f"expected a list of slices such as ['gender', 'age(18, 35)'], found {brief(texts)}")
    slices = tuple(Slice.parse(text) for text in texts)
    if any(str(slice_) == "all" for slice_ in slices):
        raise ConfigError("all: expected another name, because results use it for all users: rename the column")
    by_column: dict[str, str] = {}
    for band in bands_of(slices):
        if by_column.setdefault(band.column, str(band)) != str(band):
            raise ConfigError(
                f"{band}: expected columns whose names differ in letters or digits, found also {by_column[band.column]}"
            )
    repeated = [str(slice_) for position, slice_ in enumerate(slices) if slice_ in slices[:position]]
    if repeated:
        raise ConfigError(f"expected each slice once, found {printable(repeated[0])} twice")
    return slices


def bands_of(slices: Sequence[Slice]) -> tuple[Band, ...]:
    """The columns of all slices, each once."""
    return tuple(dict.fromkeys(band for slice_ in slices for band in slice_.bands))


def by_side(
    slices: Sequence[Slice], columns: Mapping[Side, Sequence[str] | None], *, trained: bool
) -> dict[Side, tuple[Slice, ...]]:
    """The slices of users, and the slices of items, by the columns of the tables of users and items without their ids."""
    sliced: dict[Side, tuple[Slice, ...]] = {"user": (), "item": ()}
    for slice_ in slices:
        sides = {_side(band, columns, trained=trained) for band in slice_.bands}
        if len(sides) > 1:
            raise ConfigError(f"slices: {slice_}: expected columns of users or columns of items, found both together")
        sliced[sides.pop()] += (slice_,)
    return sliced


def _side(band: Band, columns: Mapping[Side, Sequence[str] | None], *, trained: bool) -> Side:
    sides: list[Side] = [side for side in TABLE_OF if band.name in (columns.get(side) or ())]
    if len(sides) > 1:
        raise ConfigError(f"slices: {band}: expected a column of user_segments or of item_groups, found it in both: rename one")
    if sides:
        return sides[0]
    for side, name in COUNTED.items():
        if band.name == name and trained:
            return side
        if band.name == name:
            raise ConfigError(f"slices: {band} needs train, or a column of that name in {TABLE_OF[side]}")
    names = [name for side in TABLE_OF for name in columns.get(side) or ()]
    given = [table for side, table in TABLE_OF.items() if columns.get(side) is not None]
    if not given:
        raise ConfigError(
            f"slices: {band} needs user_segments or item_groups, a table with a row for each user or item and a column "
            "of that name"
        )
    hint = near_column(band.name, [*names, *(COUNTED.values() if trained else [])])
    raise ConfigError(f"slices: {band}: no column {band.name!r} in {' or '.join(given)}{hint}")


def steps_of(band: Band, histogram: Mapping[int, int]) -> tuple[float, ...]:
    """The most training rows in each band but the first and the last, from the number of users or items by number of rows."""
    counts = sorted(histogram.items())
    if band.name == COUNTED["item"]:
        popularity = Popularity(tuple(n for n, _ in counts), tuple(n_items for _, n_items in counts))
        return (popularity.head_threshold(HEAD_SHARE) - 1,)
    n_users, up_to, steps = sum(histogram.values()), 0, list[float]()
    # A quarter ends at the smallest number of rows that at least this share of users does not exceed.
    for n, users in counts:
        up_to += users
        while len(steps) < 3 and up_to * 4 >= n_users * (len(steps) + 1):
            steps.append(n)
    return tuple(steps)


def exploded(slice_: Slice, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with one value in each column of the slice: a row with several values is repeated for each of them."""
    for band in slice_.bands:
        values = rows[band.column]
        if len(values) and not isinstance(values.iloc[0], str):
            rows = rows.explode(band.column, ignore_index=True)
    return rows


def slice_values(slice_: Slice, rows: pd.DataFrame) -> tuple[Any, list[str]]:
    """The value of a slice in each row: (R,) codes from 0, and the values by code."""
    code, values = np.zeros(len(rows), dtype=np.int64), list[tuple[str, ...]]([()])
    for band in slice_.bands:
        band_code, band_values = numbered_values(rows[band.column].fillna(NO_VALUE))
        pairs, code = np.unique(code * max(len(band_values), 1) + band_code, return_inverse=True)
        before, after = np.divmod(pairs, max(len(band_values), 1))
        values = [(*values[a], band_values[b]) for a, b in zip(before, after, strict=True)]
    return code, [joined(value) for value in values]


def numbered_values(values: Iterable[Any]) -> tuple[Any, list[Any]]:
    """Codes from 0 for values, and the values by code, ascending. Unlike pandas, strings may differ after a null character."""
    rows = list(values)
    different = sorted(set(rows))
    code_of = {value: code for code, value in enumerate(different)}
    return np.array([code_of[value] for value in rows], dtype=np.int64), different


class Group(NamedTuple):
    """The values of the slice at this position in rows: (R,) the code of each row's value, and the values by code."""

    position: int
    code: Any
    values: list[str]


def grouped(rows: pd.DataFrame, slices: Sequence[Slice]) -> Iterator[tuple[pd.DataFrame, list[Group]]]:
    """PER_USER as frames with one row per model and user, with their groups: all items, then each value of slices of items."""
    position = {str(slice_): number for number, slice_ in enumerate(slices)}
    has_item_slices = ITEM_SLICE in rows
    over_all_items = rows[rows[ITEM_SLICE].isna()] if has_item_slices else rows
    user_slices = [(n, slice_) for n, slice_ in enumerate(slices) if all(band.column in rows for band in slice_.bands)]
    all_users = Group(ALL_USERS, np.zeros(len(over_all_items), dtype=np.int64), [""])
    yield over_all_items, [all_users, *(Group(number, *slice_values(slice_, over_all_items)) for number, slice_ in user_slices)]
    if has_item_slices:
        sliced = rows[rows[ITEM_SLICE].notna()]
        code, keys = numbered_values(zip(sliced[ITEM_SLICE], sliced[ITEM_VALUE], strict=True))
        for number, with_value in sliced.groupby(code):
            text, value = map(str, keys[number])
            yield with_value, [Group(position[text], np.zeros(len(with_value), dtype=np.int64), [value])]


def slice_name(row: Mapping[str, Any]) -> str:
    """The slice and value of a row, such as `age = <18`, without edges, which the value shows."""
    return "all" if row["slice"] == "all" else f"{Slice.parse(row['slice']).names} = {row['slice_value']}"


def in_order(slices: Sequence[Slice], keys: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """The keys (slice, value) in the order of the slices and of their values. Other slices come last."""
    by_text = {str(slice_): (position, slice_) for position, slice_ in enumerate(slices)}
    by_text |= {text: (len(slices), Slice.parse(text)) for text, _ in sorted(keys) if text not in by_text}
    return sorted(keys, key=lambda key: (by_text[key[0]][0], key[0], by_text[key[0]][1].sort_key(key[1])))
