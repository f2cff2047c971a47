"""Slices: the groups of users or items for which every value is told, too. What their texts mean; no Spark is needed here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_recmetrics.columns import ITEM_SLICE, ITEM_VALUE, TABLE_OF, Side, near_column
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.text import brief, printable, writable

if TYPE_CHECKING:
    import pandas as pd


COUNTED: Mapping[Side, str] = {"user": "activity", "item": "popularity"}
"""The slices by how many training rows a user has, or an item."""

NO_VALUE = "(none)"
"""The value of users or items of which the table says nothing."""

MOST_VALUES = 1000
"""How many values a slice may have. More of them are ids by mistake, and each is a row for every model and metric."""

MIN_USERS = 30
"""Values of slices over fewer users are marked as small, unless another number is given."""

_COUNTED_LABELS = {
    "activity": ("no training rows", "least active quarter", "second quarter", "third quarter", "most active quarter"),
    "popularity": ("no training rows", "long tail", "short head"),
}
"""The values of these slices without edges; `steps_of` says where the bands end."""

HEAD_SHARE = 0.8
"""The share of the training rows that the most popular items hold, which are the short head."""

_BAND = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`*()]*[^`*()\s]))\s*(?:\((?P<edges>[^()]*)\))?\s*")
"""One column of a slice, perhaps with edges."""


@dataclass(frozen=True)
class Band:
    """One column that a slice looks at: its values as they are, or numbers cut into bands.

    Args:
        name: Column of a table of users or items, or `activity` or `popularity`.
        edges: Where bands begin, ascending: n edges make n + 1 bands.
        labels: What the bands are called, lowest first.
    """

    name: str
    edges: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        quoted = f"`{self.name.replace('`', '``')}`" if re.search(r"[`*()]|^\s|\s$", self.name) else self.name
        return f"{quoted}({', '.join(map(_shown, self.edges))})" if self.edges else quoted

    @property
    def column(self) -> str:
        """The column of PER_USER that has the value of each user."""
        edges = (_shown(edge).replace("-", "minus").replace(".", "p").replace("+", "") for edge in self.edges)
        return "_".join(["slice", re.sub(r"\W+", "_", self.name).strip("_").lower(), *edges])


@dataclass(frozen=True)
class Slice:
    """Groups of users, or of items, by the values of one column, or of several together.

    Args:
        bands: The columns.

    Example:
        >>> str(Slice.parse(" gender * age(18,35.0)"))
        'gender*age(18, 35)'
        >>> Slice.parse("age(35, 18)")
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: 'age(35, 18)': expected edges that ascend, found 35, 18
    """

    bands: tuple[Band, ...]

    @classmethod
    def parse(cls, text: object) -> Slice:
        """The slice that a text names: `gender`, `age(18, 35)`, `gender*age(18, 35)`, with backticks around odd names.

        Raises:
            ConfigError: It is not such a text.
        """
        if isinstance(text, Slice):
            return text
        if not isinstance(text, str) or not text.strip() or not writable(text):
            raise ConfigError(f"expected the text of a slice such as 'gender' or 'age(18, 35)', found {brief(text)}")
        found, start = [], 0
        while start <= len(text):
            band = _BAND.match(text, start)
            if band is None or text[band.end() : band.end() + 1] not in ("", "*"):
                raise ConfigError(
                    f"{text!r}: expected columns joined by *, each perhaps with edges as in 'gender*age(18, 35)', "
                    f"found {text[start:].strip() or 'nothing'!r}"
                )
            name = band["plain"] if band["quoted"] is None else band["quoted"].replace("``", "`")
            edges = () if band["edges"] is None else _edges(text, band["edges"])
            labels = _labels(edges) if edges else _COUNTED_LABELS.get(name, ())
            found.append(Band(name, edges, labels))
            start = band.end() + 1
        if len({band.name for band in found}) < len(found):
            raise ConfigError(f"{text!r}: expected different columns, found one twice")
        return cls(tuple(found))

    def __str__(self) -> str:
        return "*".join(map(str, self.bands))

    @property
    def names(self) -> str:
        """The columns alone, for readers who see the values beside them."""
        return "*".join(band.name for band in self.bands)

    def place(self, value: str) -> tuple[Any, ...]:
        """What values are ordered by: bands by their edges, numbers as numbers, and the users without one last."""
        found: list[tuple[Any, ...]] = []
        texts = [re.sub(r"\\(.)", r"\1", text) for text in value.split(_SEPARATOR)] if len(self.bands) > 1 else [value]
        for band, text in zip(self.bands, texts, strict=False):
            known = band.labels.index(text) if text in band.labels else -1
            number = float(text) if re.fullmatch(r"-?\d{1,15}(\.\d+)?", text) else math.inf
            found.append((text == NO_VALUE, known, number, text))
        return (*found, value)


EVERYBODY = -1
"""The number of the slice that is all users."""

_SEPARATOR = " & "
"""Between the values of a slice over several columns."""


def joined(values: Sequence[str]) -> str:
    r"""The values of several columns as one text, which no others have: within a value, `&` and backslash get a backslash.

    Example:
        >>> print(joined(["R&D", "old"]))
        R\&D & old
    """
    if len(values) == 1:
        return values[0]
    return _SEPARATOR.join(re.sub(r"([&\\])", r"\\\1", value) for value in values)


def _edges(text: str, inside: str) -> tuple[float, ...]:
    try:
        edges = tuple(float(edge) for edge in inside.split(","))
    except ValueError:
        edges = (math.nan,)
    if not all(map(math.isfinite, edges)):
        raise ConfigError(f"{text!r}: expected numbers as edges, found {inside.strip() or 'nothing'}")
    if any(low >= high for low, high in pairwise(edges)):
        raise ConfigError(f"{text!r}: expected edges that ascend, found {', '.join(map(_shown, edges))}")
    return edges


def _shown(edge: float) -> str:
    """The number with all of its digits."""
    return repr(edge).removesuffix(".0")


def _labels(edges: Sequence[float]) -> tuple[str, ...]:
    """Names of bands that tell which side an edge belongs to.

    Example:
        >>> _labels([18.0, 35.0])
        ('<18', '18..<35', '>=35')
    """
    shown = [_shown(edge) for edge in edges]
    inner = (f"{low}..<{high}" for low, high in pairwise(shown))
    return (f"<{shown[0]}", *inner, f">={shown[-1]}")


def parse_slices(texts: object) -> tuple[Slice, ...]:
    """The slices that a list of texts names.

    Raises:
        ConfigError: It is no list, a text is wrong, or two are the same slice.

    Example:
        >>> [str(one) for one in parse_slices(["gender", "activity(5)"])]
        ['gender', 'activity(5)']
    """
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise ConfigError(f"expected a list of texts such as ['gender', 'age(18, 35)'], found {brief(texts)}")
    found = tuple(Slice.parse(text) for text in texts)
    taken: dict[str, str] = {}
    for one in found:
        for band in one.bands:
            if taken.setdefault(band.column, str(band)) != str(band):
                raise ConfigError(f"{band}: expected columns that differ by more than signs, found {taken[band.column]}, too")
    twice = [str(one) for place, one in enumerate(found) if one in found[:place]]
    if twice:
        raise ConfigError(f"expected each slice once, found {printable(twice[0])} twice")
    return found


def bands_of(slices: Sequence[Slice]) -> tuple[Band, ...]:
    """Every column that the slices look at, once."""
    return tuple(dict.fromkeys(band for one in slices for band in one.bands))


def by_side(
    slices: Sequence[Slice], columns: Mapping[Side, Sequence[str] | None], *, trained: bool
) -> dict[Side, tuple[Slice, ...]]:
    """Which slices are of users, and which of items.

    Args:
        slices: The slices.
        columns: The columns of the tables of users and items but for the ids, None where there is no table.
        trained: Whether there are training rows.

    Raises:
        ConfigError: There is no such column, or both tables have it, or a slice looks at users and items.

    Example:
        >>> found = by_side(parse_slices(["gender", "popularity"]), {"user": ["gender"], "item": None}, trained=True)
        >>> [str(one) for one in found["item"]]
        ['popularity']
    """
    found: dict[Side, list[Slice]] = {"user": [], "item": []}
    for one in slices:
        sides = {_side(band, columns, trained=trained) for band in one.bands}
        if len(sides) > 1:
            raise ConfigError(f"slices: {one}: expected columns of users or columns of items, found both together")
        found[sides.pop()].append(one)
    return {side: tuple(own) for side, own in found.items()}


def _side(band: Band, columns: Mapping[Side, Sequence[str] | None], *, trained: bool) -> Side:
    having: list[Side] = [side for side in TABLE_OF if band.name in (columns.get(side) or ())]
    if len(having) > 1:
        raise ConfigError(f"slices: {band}: expected a column of user_segments or of item_groups, found it in both: rename one")
    if having:
        return having[0]
    for side, name in COUNTED.items():
        if band.name == name and trained:
            return side
        if band.name == name:
            raise ConfigError(f"slices: {band} needs train, or a column of that name in {TABLE_OF[side]}")
    known = [name for side in TABLE_OF for name in columns.get(side) or ()]
    given = [table for side, table in TABLE_OF.items() if columns.get(side) is not None]
    if not given:
        raise ConfigError(
            f"slices: {band} needs user_segments or item_groups, a table with a row for each user or item and a column "
            "of that name"
        )
    hint = near_column(band.name, [*known, *(COUNTED.values() if trained else [])])
    raise ConfigError(f"slices: {band}: no column {band.name!r} in {' or '.join(given)}{hint}")


def steps_of(band: Band, histogram: Mapping[int, int]) -> tuple[float, ...]:
    """Where the bands of a counted slice without edges end, upper ends included, behind that of no training rows.

    A quarter of activity ends at the smallest number of rows that so many users reach or stay below. An item belongs to the
    short head if the items with more rows than it hold less than `HEAD_SHARE` of all rows: equally popular items stay together.

    Args:
        band: The band.
        histogram: How many users, or items, have each number of training rows.

    Example:
        >>> steps_of(Band("activity"), {1: 2, 3: 1, 9: 1}), steps_of(Band("popularity"), {1: 20, 40: 1, 50: 1})
        ((1, 1, 3), (1,))
    """
    counts = sorted(histogram.items())
    if band.name == COUNTED["item"]:
        rows, above, tail = sum(n * items for n, items in counts), 0, 0
        for n, items in reversed(counts):
            if above >= HEAD_SHARE * rows:
                tail = max(tail, n)
            above += n * items
        return (tail,)
    users, below, found = sum(histogram.values()), 0, list[float]()
    for n, own in counts:
        below += own
        while len(found) < 3 and below * 4 >= users * (len(found) + 1):
            found.append(n)
    return tuple(found)


def opened(one: Slice, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with one value in each column of the slice: a row with several stands once for each of them."""
    for band in one.bands:
        values = rows[band.column]
        if len(values) and not isinstance(values.iloc[0], str):
            rows = rows.explode(band.column, ignore_index=True)
    return rows


def values_of(one: Slice, rows: pd.DataFrame) -> tuple[Any, list[str]]:
    """Which value of a slice each row has: (R,) numbers from 0, and the values by number.

    Args:
        one: The slice.
        rows: Rows with the columns of its bands.
    """
    code, values = np.zeros(len(rows), dtype=np.int64), list[tuple[str, ...]]([()])
    for band in one.bands:
        own, texts = numbered_values(rows[band.column].fillna(NO_VALUE))
        pairs, code = np.unique(code * max(len(texts), 1) + own, return_inverse=True)
        before, after = np.divmod(pairs, max(len(texts), 1))
        values = [(*values[a], texts[b]) for a, b in zip(before, after, strict=True)]
    return code, [joined(value) for value in values]


def numbered_values(values: Iterable[Any]) -> tuple[Any, list[Any]]:
    """Numbers from 0 for values, and the values by number, which ascend. For pandas texts are equal up to a null character."""
    rows = list(values)
    different = sorted(set(rows))
    number = {value: code for code, value in enumerate(different)}
    return np.array([number[value] for value in rows], dtype=np.int64), different


class Group(NamedTuple):
    """The values of one slice.

    Args:
        place: The number of the slice.
        code: (R,) which value each row has.
        values: The values.
    """

    place: int
    code: Any
    values: list[str]


def grouped(rows: pd.DataFrame, slices: Sequence[Slice]) -> Iterator[tuple[pd.DataFrame, list[Group]]]:
    """Rows in which a user stands once for each model, and the slices that they are grouped by.

    Args:
        rows: Rows of PER_USER with the columns of the bands of users, and with the rows of slices of items.
        slices: The slices.

    Yields:
        The rows that look at all items, by everybody and by the slices of users; and those of each value of a slice of items.
    """
    place = {str(one): number for number, one in enumerate(slices)}
    of_items = ITEM_SLICE in rows
    whole = rows[rows[ITEM_SLICE].isna()] if of_items else rows
    of_users = [(number, one) for number, one in enumerate(slices) if all(band.column in rows for band in one.bands)]
    everybody = Group(EVERYBODY, np.zeros(len(whole), dtype=np.int64), [""])
    yield whole, [everybody, *(Group(number, *values_of(one, whole)) for number, one in of_users)]
    if of_items:
        sliced = rows[rows[ITEM_SLICE].notna()]
        code, keys = numbered_values(zip(sliced[ITEM_SLICE], sliced[ITEM_VALUE], strict=True))
        for number, own in sliced.groupby(code):
            text, value = map(str, keys[number])
            yield own, [Group(place[text], np.zeros(len(own), dtype=np.int64), [value])]


def slice_name(row: Mapping[str, Any]) -> str:
    """The slice and the value that a row is of; where bands begin is told by the value.

    Example:
        >>> slice_name({"slice": "age(18, 35)", "slice_value": "<18"})
        'age = <18'
    """
    if row["slice"] == "all":
        return "all"
    return f"{Slice.parse(row['slice']).names} = {row['slice_value']}"


def in_order(slices: Sequence[Slice], found: Mapping[tuple[str, str], Any]) -> list[tuple[str, str]]:
    """The keys (slice, value) by the order of the slices and of their values; those of other slices come last."""
    by_text = {str(one): (place, one) for place, one in enumerate(slices)}
    by_text |= {text: (len(slices), Slice.parse(text)) for text, _ in sorted(found) if text not in by_text}
    return sorted(found, key=lambda key: (by_text[key[0]][0], key[0], by_text[key[0]][1].place(key[1])))
