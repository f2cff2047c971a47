"""Small worlds whose ids or names are easily taken for each other, with the values that are right for them.

Each world has three hostile texts in one role: as users, items, models, values of a slice, and so on. A reader that parses,
trims, folds or normalizes them merges two of them, which changes a value or a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TEXTS: Mapping[str, tuple[str, str, str]] = {
    "leading zeros": ("007", "07", "7"),
    "signs": ("12", "+12", "-12"),
    "zeros": ("0", "-0", "00"),
    "exponents": ("1000", "1e3", "1E3"),
    "decimals": ("0.1", "0.10", "1.0"),
    "truth values": ("true", "True", "TRUE"),
    "dates": ("2026-01-01", "2026-1-1", "20260101"),
    "times": ("2026-01-01 00:00:00", "2026-01-01T00:00:00", "2026-01-01T00:00:00Z"),
    "large integers": ("9007199254740993", "9007199254740992", "9007199254740994"),
    "integers beyond 64 bits": ("99999999999999999999", "99999999999999999998", "1"),
    "digits of another script": ("12", "\u0661\u0662", "\uff11\uff12"),
    "Unicode forms": ("M\u00fcller", "Mu\u0308ller", "Muller"),
    "blanks": ("a", "a ", " a"),
    "letter case": ("straße", "STRASSE", "Straße"),
    "words for nothing": ("null", "NaN", "None"),
    "numbers with words": ("NaN", "Infinity", "-1"),
    "separators": ("a,b", "a;b", "a\tb"),
    "quotes": ('Film "A"', "Film 'A'", "Film A"),
    "escapes": ("a\\nb", "a\\\\nb", "anb"),
    "addresses": ("a%2Fb", "a/b", "a b"),
    "yes and no": ("yes", "Yes", "no"),
    "braces": ("{as_of}", "${HOME}", "*"),
    "long": ("x" * 300, "x" * 299, "x" * 301),
}
"""By kind, three different texts."""


@dataclass(frozen=True)
class World:
    """Tables of plain rows, how to evaluate them, and the right values.

    Args:
        tables: By argument of `evaluate`, the columns and the rows. Ids and names are strings.
        options: The other arguments of `evaluate`.
        expected: By model and value of the slice, the right value.
        hostile: The column with the hostile texts.
    """

    tables: Mapping[str, tuple[Sequence[str], Sequence[tuple[Any, ...]]]]
    options: Mapping[str, Any]
    expected: Mapping[tuple[str, str], float]
    hostile: str
    by_slice: bool = field(default=False)

    def found(self, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
        """The values of a result in the form of `expected`."""
        return {(row["model"], row["slice_value"]): row["value"] for row in rows if (row["slice"] != "all") == self.by_slice}


USERS, ITEMS = ("u0", "u1", "u2"), ("a", "b", "c")
LIST_COLUMNS, PAIR_COLUMNS = ("user_id", "item_id", "score"), ("user_id", "item_id")
MRR = {"metrics": ["mrr"], "k": 3}


def _lists(users: Sequence[str], items: Sequence[str]) -> list[tuple[Any, ...]]:
    """Every user gets the three items in their order."""
    return [(user, item, float(3 - place)) for user in users for place, item in enumerate(items)]


def _world(users: Sequence[str] = USERS, items: Sequence[str] = ITEMS) -> dict[str, Any]:
    """User n has relevant item n, so the reciprocal ranks are 1, 1/2 and 1/3."""
    truth = list(zip(users, items, strict=True))
    return {"predictions": (LIST_COLUMNS, _lists(users, items)), "truth": (PAIR_COLUMNS, truth)}


def of_users(texts: tuple[str, str, str]) -> World:
    return World(_world(users=texts), MRR, {("model", "all"): 11 / 18}, "user_id")


def of_items(texts: tuple[str, str, str]) -> World:
    return World(_world(items=texts), MRR, {("model", "all"): 11 / 18}, "item_id")


def of_models(texts: tuple[str, str, str]) -> World:
    """The relevant item has rank 1, 2 and 3 in the lists of the three models."""
    lists = [
        (text, "u0", item, float(3 - (place + turn) % 3)) for turn, text in enumerate(texts) for place, item in enumerate(ITEMS)
    ]
    tables = {"predictions": (("model", *LIST_COLUMNS), lists), "truth": (PAIR_COLUMNS, [("u0", "a")])}
    return World(tables, MRR, {(text, "all"): 1 / (turn + 1) for turn, text in enumerate(texts)}, "model")


def of_segments(texts: tuple[str, str, str]) -> World:
    tables = _world() | {"user_segments": (("user_id", "segment"), list(zip(USERS, texts, strict=True)))}
    values = {("model", text): 1 / (place + 1) for place, text in enumerate(texts)}
    return World(tables, MRR | {"slices": ["segment"]}, values, "segment", by_slice=True)


def of_groups(texts: tuple[str, str, str]) -> World:
    """A user counts in the group of the relevant item."""
    tables = _world() | {"item_groups": (("item_id", "genre"), list(zip(ITEMS, texts, strict=True)))}
    values = {("model", text): 1 / (place + 1) for place, text in enumerate(texts)}
    return World(tables, MRR | {"slices": ["genre"]}, values, "genre", by_slice=True)


def of_train(texts: tuple[str, str, str]) -> World:
    """One of the nine recommendations is a training row."""
    tables = _world(items=texts) | {"train": (PAIR_COLUMNS, [("u0", texts[0])])}
    return World(tables, {"metrics": ["unseen"], "k": 3}, {("model", "all"): 8 / 9}, "item_id")


def of_catalog(texts: tuple[str, str, str]) -> World:
    """Three of the four items are recommended."""
    tables = _world(items=texts) | {"catalog": (("item_id",), [(text,) for text in (*texts, "zz")])}
    return World(tables, {"metrics": ["item_coverage"], "k": 3}, {("model", "all"): 3 / 4}, "item_id")


def of_features(texts: tuple[str, str, str]) -> World:
    """No two of the three items have a category in common."""
    tables = _world() | {"item_features": (("item_id", "categories"), list(zip(ITEMS, texts, strict=True)))}
    return World(tables, {"metrics": ["ild(distance=jaccard)"], "k": 3}, {("model", "all"): 1.0}, "categories")


ROLES: Mapping[str, Callable[[tuple[str, str, str]], World]] = {
    "users": of_users,
    "items": of_items,
    "models": of_models,
    "segments": of_segments,
    "groups": of_groups,
    "train": of_train,
    "catalog": of_catalog,
    "features": of_features,
}
