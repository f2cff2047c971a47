"""Slices: the groups of users for which every value is told, too. What their texts mean; no Spark is needed here."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.errors import ConfigError, brief, did_you_mean, printable, writable

if TYPE_CHECKING:
    import pandas as pd

ACTIVITY = "activity"
"""The slice by how many training rows a user has."""

NO_VALUE = "(none)"
"""The value of users of whom the table of segments says nothing."""

MOST_VALUES = 1000
"""How many values a slice may have. More of them are ids by mistake, and each is a row for every model and metric."""

MIN_USERS = 30
"""Values of slices over fewer users are marked as small, unless another number is given."""

QUARTERS = ("no training rows", "least active quarter", "second quarter", "third quarter", "most active quarter")
"""The values of `activity` without edges, which are the quartiles of the users who have training rows."""

_BAND = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`*()]*[^`*()\s]))\s*(?:\((?P<edges>[^()]*)\))?\s*")
"""One column of a slice, perhaps with edges."""


@dataclass(frozen=True)
class Band:
    """One column that a slice looks at: its values as they are, or numbers cut into bands.

    Args:
        name: Column of the table of segments, or `activity`.
        edges: Where bands begin, ascending: n edges make n + 1 bands.
        labels: What the bands are called, lowest first.
    """

    name: str
    edges: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        quoted = f"`{self.name.replace('`', '``')}`" if re.search(r"[`*()]|^\s|\s$", self.name) else self.name
        return f"{quoted}({', '.join(f'{edge:g}' for edge in self.edges)})" if self.edges else quoted

    @property
    def column(self) -> str:
        """The column of PER_USER that has the value of each user."""
        return f"slice_{re.sub(r'[^0-9A-Za-z]+', '_', str(self)).strip('_').lower()}"


@dataclass(frozen=True)
class Slice:
    """Groups of users by the values of one column, or of several together.

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
            labels = _labels(edges) if edges else QUARTERS if name == ACTIVITY else ()
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
        # A value with the separator in it is ordered as text.
        texts = value.split(SEPARATOR) if len(self.bands) > 1 else [value]
        for band, text in zip(self.bands, texts, strict=False):
            known = band.labels.index(text) if text in band.labels else -1
            number = float(text) if re.fullmatch(r"-?\d{1,15}(\.\d+)?", text) else math.inf
            found.append((text == NO_VALUE, known, number, text))
        return (*found, value)


EVERYBODY = -1
"""The number of the slice that is all users."""

SEPARATOR = " & "
"""Between the values of a slice over several columns."""


def _edges(text: str, inside: str) -> tuple[float, ...]:
    try:
        edges = tuple(float(edge) for edge in inside.split(","))
    except ValueError:
        edges = (math.nan,)
    if not all(map(math.isfinite, edges)):
        raise ConfigError(f"{text!r}: expected numbers as edges, found {inside.strip() or 'nothing'}")
    if any(low >= high for low, high in pairwise(edges)):
        raise ConfigError(f"{text!r}: expected edges that ascend, found {', '.join(f'{edge:g}' for edge in edges)}")
    return edges


def _labels(edges: Sequence[float]) -> tuple[str, ...]:
    """Names of bands that tell which side an edge belongs to.

    Example:
        >>> _labels([18, 35])
        ('<18', '18..<35', '>=35')
    """
    shown = [f"{edge:g}" for edge in edges]
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


def check_bands(slices: Sequence[Slice], columns: Sequence[str] | None, *, trained: bool) -> None:
    """Refuse slices that nothing is known of.

    Args:
        slices: The slices.
        columns: Columns of the table of segments but for the user's, None where there is no table.
        trained: Whether there are training rows.

    Raises:
        ConfigError: There is no such column.
    """
    for band in bands_of(slices):
        if band.name in (columns or ()) or (band.name == ACTIVITY and trained):
            continue
        if band.name == ACTIVITY:
            raise ConfigError(f"slices: {band} needs train, or a column of that name in user_segments")
        if columns is None:
            raise ConfigError(f"slices: {band} needs user_segments, a table with a row for each user and a column of that name")
        hint = did_you_mean(band.name, [*columns, *([ACTIVITY] if trained else [])])
        raise ConfigError(f"slices: {band}: user_segments has no column {band.name!r}{hint}")


def values_of(one: Slice, rows: pd.DataFrame) -> tuple[Any, list[str]]:
    """Which value of a slice each row has: (R,) numbers from 0, and the values by number.

    Args:
        one: The slice.
        rows: Rows of PER_USER with the columns of its bands.
    """
    import pandas as pd

    code, values = np.zeros(len(rows), dtype=np.int64), [""]
    for place, band in enumerate(one.bands):
        own, texts = pd.factorize(rows[band.column].fillna(NO_VALUE), sort=True)
        pairs, code = np.unique(code * max(len(texts), 1) + own, return_inverse=True)
        before, after = np.divmod(pairs, max(len(texts), 1))
        joint = SEPARATOR if place else ""
        values = [f"{values[a]}{joint}{texts[b]}" for a, b in zip(before, after, strict=True)]
    return code, values


def in_order(slices: Sequence[Slice], found: Mapping[tuple[str, str], Any]) -> list[tuple[str, str]]:
    """The keys (slice, value) by the order of the slices and of their values."""
    by_text = {str(one): (place, one) for place, one in enumerate(slices)}
    return sorted(found, key=lambda key: (by_text[key[0]][0], by_text[key[0]][1].place(key[1])))
