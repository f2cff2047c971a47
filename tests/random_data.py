"""Random predictions, truth, train rows and catalogue, with every edge, the same for the same arguments."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

INT_USERS = [9007199254740992, 9007199254740993, 3, 20, 100, -5, 7, 8, 9, 10, 11, 12, 13, 14]
TEXT_USERS = [
    "u1",
    "U1",
    "user 2",
    "ü-é",
    "10",
    "9",
    "",
    "x1",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    "a.b",
    "a`b",
    "n",
    "o",
    "p",
]
INT_ITEMS = [9, 10, 100, 2, 30, 7, 1000, 55, 56, 57, 58, -1]
TEXT_ITEMS = ["9", "10", "100", "a", "B", "ü", "z z", "a_2", "a.2", "b", "c", "d"]
EXTRA_INT_ITEMS = [60, 61, 9007199254740993]
EXTRA_TEXT_ITEMS = ["A", "e", "ß"]
INT_STRANGER, TEXT_STRANGER = 424242, "only in train"


@dataclass
class Case:
    """Rows as the package gets them."""

    predictions: list[dict[str, Any]]
    truth: list[dict[str, Any]]
    train: list[dict[str, Any]] = field(default_factory=list)
    catalog: list[Any] | None = None
    described: list[dict[str, Any]] = field(default_factory=list)
    """Features and categories of items; None and [] where an item has none."""
    baseline: str = "pop"
    grouped: list[dict[str, Any]] = field(default_factory=list)
    """Groups of items: in `genre` an array, perhaps empty or missing."""
    segments: list[dict[str, Any]] = field(default_factory=list)
    """Groups of users: in `gender` a text, perhaps missing."""

    @property
    def known(self) -> dict[str, Any]:
        """What the oracle gets beside predictions and truth."""
        return {name: getattr(self, name) for name in ("train", "catalog", "described", "baseline", "grouped", "segments")}


def random_case(
    seed: int,
    *,
    ids: str | None = None,
    ratings: bool | None = None,
    ranks: bool = False,
    duplicates: bool = False,
    missing_scores: bool = False,
    propensities: bool = False,
) -> Case:
    """Random predictions of three models for 14 users and 12 items, the same for the same arguments.

    The first users are the edges: in truth only; in predictions only; nothing relevant; a list of one item; all scores
    equal; nothing found; a perfect list; a long truth. Scores have few values, so that ties are common; ratings may be 0
    or fractional. Model `few` serves few users. In train are items of lists, and of truth too, with repeats; a user who is
    nowhere else; one who has seen all that is relevant, and one who has seen all that is not; several users are not. The
    catalogue has items of no list and no truth.

    Args:
        seed: Any whole number.
        ids: `text` or `int`; the seed decides where it is None.
        ratings: Whether truth has a rating; where it is None, four seeds of five have.
        ranks: Predictions carry a rank, which disagrees with their score.
        duplicates: Some predictions and truth rows stand twice, with another score or rating.
        missing_scores: Some scores are NaN.
        propensities: Truth rows have a propensity, the same for the repeats of a row.
    """
    rng = random.Random(seed)
    text = seed % 2 == 0 if ids is None else ids == "text"
    users: list[Any] = list(TEXT_USERS if text else INT_USERS)
    items: list[Any] = list(TEXT_ITEMS if text else INT_ITEMS)
    with_ratings = seed % 5 != 4 if ratings is None else ratings
    rng.shuffle(users)
    truth_only, served_only, nothing_relevant, one_item, all_tied, nothing_found, perfect, long_truth = users[:8]

    judged: dict[Any, dict[Any, float]] = {}
    for user in users:
        if user == served_only:
            continue
        chosen = rng.sample(items, 11 if user == long_truth else rng.randint(1, 6))
        judged[user] = {item: rng.choice([0.0, 0.5, 1.0, 2.0, 3.0, 3.5, 4.0, 5.0]) for item in chosen}
        if user == nothing_relevant:
            judged[user] = dict.fromkeys(chosen, 0.0)

    predictions = []
    for model in ("als", "few", "pop"):
        served = {"als": users, "few": users[1:4], "pop": [user for user in users if rng.random() < 0.8]}[model]
        for user in served:
            if user == truth_only:
                continue
            chosen = rng.sample(items, 1 if user == one_item else rng.randint(1, len(items)))
            if user == nothing_found:
                chosen = [item for item in items if item not in judged[user]]
            if user == perfect:
                chosen = sorted(judged[user], key=lambda item: -judged[perfect][item])
            for place, item in enumerate(chosen):
                score = rng.choice([-0.5, 0.25, 1.0, 2.5, 3.0, 4.5, 6.0])
                score = 1.0 if user == all_tied else 10.0 - place if user == perfect else score
                predictions.append({"model": model, "user": user, "item": item, "score": score})
                if ranks:
                    predictions[-1]["rank"] = place + 1

    truth: list[dict[str, Any]] = [
        {"user": user, "item": item, "rating": rating} for user, own in judged.items() for item, rating in own.items()
    ]
    if duplicates:
        predictions += [{**row, "score": rng.choice([0.0, 3.0, 7.0])} for row in predictions if rng.random() < 0.2]
        truth += [{**row, "rating": rng.choice([0.0, 2.0, 5.0])} for row in truth if rng.random() < 0.2]
    if missing_scores:
        predictions = [{**row, "score": math.nan} if rng.random() < 0.2 else row for row in predictions]
    if not with_ratings:
        truth = [{"user": row["user"], "item": row["item"]} for row in truth]
    rng.shuffle(predictions)
    rng.shuffle(truth)

    # What follows has dice of its own, so that the rows above are the same with and without it.
    more = random.Random(f"more {seed}")
    catalog = [*items, *(EXTRA_TEXT_ITEMS if text else EXTRA_INT_ITEMS)]
    train = train_rows(more, [TEXT_STRANGER if text else INT_STRANGER, *users], items, catalog, truth)
    more.shuffle(catalog)
    rated = with_propensities(more, truth) if propensities else truth
    described = described_items(random.Random(f"items {seed}"), catalog)
    grouped = grouped_items(random.Random(f"groups {seed}"), catalog)
    segments = segmented_users(random.Random(f"segments {seed}"), [*users, TEXT_STRANGER if text else INT_STRANGER])
    return Case(predictions, rated, train, catalog, described, grouped=grouped, segments=segments)


def described_items(rng: random.Random, catalog: list[Any]) -> list[dict[str, Any]]:
    """Features and categories of most items; one has neither, one is not there, one vector is all zeros."""
    unknown, absent, zero = rng.sample(catalog, 3)
    rows = []
    for item in catalog:
        vector: list[float] | None = [rng.choice([-1.0, 0.0, 0.5, 2.0]) for _ in range(3)]
        kinds = rng.sample(["crime", "love", "war", "space", "ü b"], rng.randint(1, 3))
        if item == zero:
            vector = [0.0, 0.0, 0.0]
        rows.append(
            {"item": item, "features": None if item == unknown else vector, "categories": [] if item == unknown else kinds}
        )
    return [row for row in rows if row["item"] != absent]


def grouped_items(rng: random.Random, catalog: list[Any]) -> list[dict[str, Any]]:
    """Groups of most items, some in two, one named twice; one item has none, one a null, and one is not there."""
    nothing, null, absent, twice = rng.sample(catalog, 4)
    known = {item: rng.sample(["old", "new", "ü b"], rng.choice([1, 1, 2])) for item in catalog}
    known |= {nothing: [], null: None, twice: ["old", "old"]}
    return [{"item": item, "genre": own} for item, own in known.items() if item != absent]


def segmented_users(rng: random.Random, users: list[Any]) -> list[dict[str, Any]]:
    """Groups of most users: one has none, and one is not there."""
    nothing, absent = rng.sample(users, 2)
    known = {user: None if user == nothing else rng.choice(["F", "M", "d e"]) for user in users}
    return [{"user": user, "gender": own} for user, own in known.items() if user != absent]


def train_rows(
    rng: random.Random, users: list[Any], items: list[Any], catalog: list[Any], truth: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """What users have seen: the first a little; of the tenth and eleventh all that is liked and all that is not."""
    seen = {user: rng.sample(items, rng.randint(1, 5)) for user in [*users[:9:2], *users[11:13]]}
    all_liked_seen, all_else_seen = users[9:11]
    liked = {(row["user"], row["item"]) for row in truth if row.get("rating", 1.0) > 0}
    seen[all_liked_seen] = [item for item in catalog if (all_liked_seen, item) in liked]
    seen[all_else_seen] = [item for item in catalog if (all_else_seen, item) not in liked]
    train = [{"user": user, "item": item} for user, own in seen.items() for item in own]
    train += [row for row in train if rng.random() < 0.2]
    rng.shuffle(train)
    return train


def with_propensities(rng: random.Random, truth: list[dict[str, Any]]) -> list[dict[str, Any]]:
    drawn: dict[Any, float] = {}
    return [
        {**row, "propensity": drawn.setdefault((row["user"], row["item"]), rng.choice([0.1, 0.25, 0.5, 1.0]))} for row in truth
    ]


def merged_cases(seeds: range, **options: Any) -> Case:
    """Many random cases as one: their users are told apart by the seed, so that one evaluation looks at all of them."""
    found, catalog = Case([], []), set()
    for seed in seeds:
        case = random_case(seed, ids="text", ratings=True, **options)
        for rows, own in zip(
            (found.predictions, found.truth, found.train, found.segments),
            (case.predictions, case.truth, case.train, case.segments),
            strict=True,
        ):
            rows += [{**row, "user": f"{seed}/{row['user']}"} for row in own]
        catalog |= set(case.catalog or ())
    described = described_items(random.Random(f"items {seeds}"), sorted(catalog))
    grouped = grouped_items(random.Random(f"groups {seeds}"), sorted(catalog))
    return Case(
        found.predictions, found.truth, found.train, sorted(catalog), described, grouped=grouped, segments=found.segments
    )
