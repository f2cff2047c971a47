"""Small worlds whose ids or names are easily taken for each other, with the values that are right for them.

Each world has hostile texts in one role: as users, items, models, values of a slice, and so on. A reader that parses, trims,
folds or normalizes them merges two of them, which changes a value or a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TEXTS: Mapping[str, tuple[str, str, str]] = {
    "leading zeros": ("007", "07", "7"),
    "signs": ("13", "+13", "-13"),
    "zeros": ("0", "-0", "00"),
    "exponents": ("1000", "1e3", "1E3"),
    "small numbers": ("0.001", "1e-3", ".001"),
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
    "numbers with words": ("-Infinity", "Infinity", "Inf"),
    "separators": ("a,b", "a;b", "a\tb"),
    "quotes": ('Film "A"', "Film 'A'", "Film A"),
    "escapes": ("a\\nb", "a\\\\nb", "anb"),
    "addresses": ("a%2Fb", "a/b", "a b"),
    "yes and no": ("yes", "Yes", "no"),
    "braces": ("{as_of}", "${HOME}", "*"),
    "look-alike letters": ("A", "\u0410", "\u0391"),
    "superscripts": ("x2", "x\u00b2", "x\u2082"),
    "long": ("x" * 300, "x" * 299, "x" * 301),
}
"""By kind, three different texts. No text is in two kinds, so that a world can have several kinds."""


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


Texts = Sequence[tuple[str, str, str]]
Table = tuple[Sequence[str], list[tuple[Any, ...]]]
LIST_COLUMNS, PAIR_COLUMNS = ("user_id", "item_id", "score"), ("user_id", "item_id")
MRR = {"metrics": ["mrr"], "k": 3}


def _numbered(name: str, n: int) -> Texts:
    """For each of n kinds, three usual texts."""
    return [(f"{name}{kind}.0", f"{name}{kind}.1", f"{name}{kind}.2") for kind in range(n)]


def _world(users: Texts, items: Texts) -> dict[str, Table]:
    """For each kind, three users with the three items in their order, of which user n has relevant item n.

    The reciprocal ranks are 1, 1/2 and 1/3.
    """
    pairs = list(zip(users, items, strict=True))
    lists = [(user, item, 3.0 - place) for three, of in pairs for user in three for place, item in enumerate(of)]
    truth = [pair for three, of in pairs for pair in zip(three, of, strict=True)]
    return {"predictions": (LIST_COLUMNS, lists), "truth": (PAIR_COLUMNS, truth)}


def of_users(texts: Texts) -> World:
    return World(_world(texts, _numbered("i", len(texts))), MRR, {("model", "all"): 11 / 18}, "user_id")


def of_items(texts: Texts) -> World:
    return World(_world(_numbered("u", len(texts)), texts), MRR, {("model", "all"): 11 / 18}, "item_id")


def of_models(texts: Texts) -> World:
    """The relevant item has rank 1, 2 and 3 in the lists of the three models of a kind."""
    turns = [(text, turn) for three in texts for turn, text in enumerate(three)]
    lists = [(text, "u", item, 3.0 - (place + turn) % 3) for text, turn in turns for place, item in enumerate("abc")]
    tables: dict[str, Table] = {"predictions": (("model", *LIST_COLUMNS), lists), "truth": (PAIR_COLUMNS, [("u", "a")])}
    return World(tables, MRR, {(text, "all"): 1 / (turn + 1) for text, turn in turns}, "model")


def _of_slices(table: str, columns: tuple[str, str], texts: Texts) -> World:
    """The value of a slice is the reciprocal rank of one user."""
    users, items = _numbered("u", len(texts)), _numbered("i", len(texts))
    ids = users if columns[0] == "user_id" else items
    rows = [pair for three, of in zip(ids, texts, strict=True) for pair in zip(three, of, strict=True)]
    values = {("model", text): 1 / (place + 1) for three in texts for place, text in enumerate(three)}
    tables = _world(users, items) | {table: (columns, rows)}
    return World(tables, MRR | {"slices": [columns[1]]}, values, columns[1], by_slice=True)


def of_segments(texts: Texts) -> World:
    return _of_slices("user_segments", ("user_id", "segment"), texts)


def of_groups(texts: Texts) -> World:
    """A user counts in the group of the relevant item."""
    return _of_slices("item_groups", ("item_id", "genre"), texts)


def of_train(texts: Texts) -> World:
    """One of the nine recommendations of a kind is a training row."""
    users = _numbered("u", len(texts))
    train = [(user, text) for (user, *_), (text, *_) in zip(users, texts, strict=True)]
    tables = _world(users, texts) | {"train": (PAIR_COLUMNS, train)}
    return World(tables, {"metrics": ["unseen"], "k": 3}, {("model", "all"): 8 / 9}, "item_id")


def of_catalog(texts: Texts) -> World:
    """Three of four items are recommended."""
    items = [(item,) for kind, three in enumerate(texts) for item in (*three, f"z{kind}")]
    tables = _world(_numbered("u", len(texts)), texts) | {"catalog": (("item_id",), items)}
    return World(tables, {"metrics": ["item_coverage"], "k": 3}, {("model", "all"): 3 / 4}, "item_id")


def of_features(texts: Texts) -> World:
    """No two of the three items of a list have a category in common."""
    items = _numbered("i", len(texts))
    rows = [pair for three, of in zip(items, texts, strict=True) for pair in zip(three, of, strict=True)]
    tables = _world(_numbered("u", len(texts)), items) | {"item_features": (("item_id", "categories"), rows)}
    return World(tables, {"metrics": ["ild(distance=jaccard)"], "k": 3}, {("model", "all"): 1.0}, "categories")


ROLES: Mapping[str, Callable[[Texts], World]] = {
    "users": of_users,
    "items": of_items,
    "models": of_models,
    "segments": of_segments,
    "groups": of_groups,
    "train": of_train,
    "catalog": of_catalog,
    "features": of_features,
}
