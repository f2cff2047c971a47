"""A second opinion on every number: a slow, obvious evaluation of recommenders in plain Python.

It shares no formula with the package. It takes a `Convention` only as a holder of options. `tests/test_oracle.py` proves
it against the golden table below; everything else is then proved against it.

    result = evaluate(predictions, truth, convention("default"), [Wanted("ndcg", 10), Wanted("rmse")])
    result.per_user["als", "u1"]["ndcg@10"], result.summary["als", "ndcg@10"]["value"]

Choices that the conventions leave open are marked CHOICE.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

RATING_METRICS = ("rmse", "mse", "mae")


# What is asked for, and what comes back ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """A metric to compute: options that are not named here are those of the convention."""

    name: str
    k: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    operands: tuple[Wanted, ...] = ()
    text: str = ""

    @property
    def label(self) -> str:
        return self.text or (self.name if self.k is None else f"{self.name}@{self.k}")

    def at(self, k: int | None) -> Wanted:
        return Wanted(self.name, k, self.options, self.operands)


def describe(metric: Any) -> Wanted:
    """The same for a metric of the package, which is only read as name, k, params and operands."""
    operands = tuple(describe(operand) for operand in metric.operands)
    return Wanted(metric.name, metric.k, dict(metric.params), operands, str(metric))


@dataclass
class Cell:
    """One user of one model: the whole list, best first, and what is relevant."""

    items: list[Any] = field(default_factory=list)
    relevant: dict[Any, float] = field(default_factory=dict)
    n_truth: int = 0

    def is_in(self, users: str) -> bool:
        has_truth, has_relevant, has_list = self.n_truth > 0, len(self.relevant) > 0, len(self.items) > 0
        return {
            "truth": has_truth,
            "relevant": has_relevant,
            "predicted": has_list,
            "truth_and_predicted": has_truth and has_list,
            "relevant_and_predicted": has_relevant and has_list,
            "all": True,
        }[users]


@dataclass
class Result:
    """per_user[model, user] has n_relevant, n_truth, n_recommended and a value or None per label; summary[model, label] has
    value, n_users (users that the value is the mean of) and n_undefined (users of the population whose value is undefined:
    left out, or counted as 0 and then among n_users too)."""

    per_user: dict[tuple[Any, Any], dict[str, Any]]
    summary: dict[tuple[Any, str], dict[str, Any]]


def evaluate(
    predictions: Sequence[Mapping[str, Any]], truth: Sequence[Mapping[str, Any]], convention: Any, metrics: Iterable[Wanted]
) -> Result:
    """Everything about predictions (model, user, item, score and/or rank) against truth (user, item, rating or not)."""
    metrics = list(metrics)
    if len({metric.label for metric in metrics}) != len(metrics):
        raise ValueError("two metrics have one label: give them a text")
    cells = all_cells(predictions, truth, convention)
    pairs = rating_pairs(predictions, truth, convention)
    cuts = [metric.k for metric in metrics if metric.name not in RATING_METRICS]
    longest = None if not cuts or None in cuts else max(cuts)

    per_user: dict[tuple[Any, Any], dict[str, Any]] = {}
    for key, cell in cells.items():
        row: dict[str, Any] = {
            "n_relevant": len(cell.relevant),
            "n_truth": cell.n_truth,
            "n_recommended": len(cell.items[:longest]),
        }
        for metric in metrics:
            if metric.name in RATING_METRICS:
                own = pairs.get(key, [])
                row[metric.label] = rating_error(metric.name, own, len(own)) if own else None
            else:
                row[metric.label] = value_of(metric, cell, convention)
        per_user[key] = row

    summary: dict[tuple[Any, str], dict[str, Any]] = {}
    for model in models_of(predictions):
        own_cells = [cell for (of_model, _), cell in cells.items() if of_model == model]
        own_pairs = {user: found for (of_model, user), found in pairs.items() if of_model == model}
        for metric in metrics:
            if metric.name in RATING_METRICS:
                summary[model, metric.label] = summarise_rating(metric, own_pairs, convention)
            else:
                summary[model, metric.label] = summarise_ranking(metric, own_cells, convention)
    return Result(per_user, summary)


# Lists and relevant items ------------------------------------------------------------------------------------------------


def models_of(predictions: Sequence[Mapping[str, Any]]) -> list[Any]:
    return sorted({row["model"] for row in predictions})


def all_cells(
    predictions: Sequence[Mapping[str, Any]], truth: Sequence[Mapping[str, Any]], convention: Any
) -> dict[tuple[Any, Any], Cell]:
    """A cell for every model and every user of truth or predictions.

    CHOICE: a user who is only in the predictions of another model has an empty cell in this one, so that the population
    `all` is the same for every model.
    """
    ratings = truth_by_user(truth, convention)
    lists = ranked_rows(predictions, convention)
    cells = {}
    for model in models_of(predictions):
        for user in {*ratings, *(user for _, user in lists)}:
            items = [row["item"] for row in lists.get((model, user), [])]
            known = ratings.get(user, {})
            if convention.candidates == "judged":
                # The inner join of predictions and truth: neither side keeps what the other one lacks.
                predicted = set(items)
                items = [item for item in items if item in known]
                known = {item: rating for item, rating in known.items() if item in predicted}
            relevant = {
                item: 1.0 if rating is NO_RATING else 0.0 if is_missing(rating) else rating
                for item, rating in known.items()
                if rating is NO_RATING or is_relevant(rating, convention)
            }
            cells[model, user] = Cell(items, relevant, len(known))
    return cells


NO_RATING = object()
"""Stands for the rating where the truth table has no rating column: the item is relevant, with gain 1."""


def is_relevant(rating: float | None, convention: Any) -> bool:
    """CHOICE: a null rating is relevant to `present` alone, a NaN to `truthy` too; where relevant, both gain as rating 0."""
    if convention.relevance == "present":
        return True
    if rating is None:
        return False
    if convention.relevance == "truthy":
        return rating != 0  # NaN counts
    if convention.relevance == "positive":
        return rating > 0  # NaN does not
    return rating >= convention.threshold


def is_missing(value: Any) -> bool:
    return value is None or math.isnan(value)


def truth_by_user(truth: Sequence[Mapping[str, Any]], convention: Any) -> dict[Any, dict[Any, Any]]:
    """Per user: item to rating. Of two rows for one item the highest rating counts; truth is a set even under `keep`."""
    found: dict[Any, dict[Any, Any]] = {}
    for row in truth:
        rating = row.get("rating", NO_RATING)
        if rating is not NO_RATING and is_missing(rating):
            if convention.nan_scores == "error":
                raise ValueError(f"rating without a number: {row}")
            if convention.nan_scores == "drop":
                continue
        own = found.setdefault(row["user"], {})
        if row["item"] in own:
            if convention.duplicates == "error":
                raise ValueError(f"two truth rows: {row}")
            before = own[row["item"]]
            if rating is NO_RATING or is_missing(rating) or not (is_missing(before) or rating > before):
                continue
        own[row["item"]] = rating
    return found


def ranked_rows(predictions: Sequence[Mapping[str, Any]], convention: Any) -> dict[tuple[Any, Any], list[Mapping[str, Any]]]:
    """Per model and user: the rows of its list, best first. A rank wins over the score."""
    rows_of: dict[tuple[Any, Any], list[Mapping[str, Any]]] = {}
    for row in predictions:
        if row.get("rank") is None and is_missing(row["score"]):
            if convention.nan_scores == "error":
                raise ValueError(f"score without a number: {row}")
            if convention.nan_scores == "drop":
                continue
        rows_of.setdefault((row["model"], row["user"]), []).append(row)

    lists = {}
    for key, rows in rows_of.items():
        # Python's sort is stable, so the order of the items survives among equal scores.
        by_item = sorted(rows, key=lambda row: row["item"], reverse=convention.ties == "item_desc")
        if rows[0].get("rank") is not None:
            ordered = sorted(by_item, key=lambda row: row["rank"])
        else:
            numbers = [row for row in by_item if not is_missing(row["score"])]
            missing = [row for row in by_item if is_missing(row["score"])]
            numbers = sorted(numbers, key=lambda row: -row["score"])
            ordered = missing + numbers if convention.nan_scores == "first" else numbers + missing
        kept: list[Mapping[str, Any]] = []
        for row in ordered:
            if row["item"] in [other["item"] for other in kept]:
                if convention.duplicates == "error":
                    raise ValueError(f"two predictions: {row}")
                if convention.duplicates == "first":
                    continue
            kept.append(row)
        lists[key] = kept
    return lists


# Ranking metrics, one user ------------------------------------------------------------------------------------------------


def value_of(metric: Wanted, cell: Cell, convention: Any) -> float | None:
    """The value of one user, None where it is undefined."""
    if metric.name == "f1":
        first, second = (value_of(operand, cell, convention) for operand in operands_of(metric))
        return f_beta(first, second, metric.options.get("beta", convention.beta))
    k = len(cell.items) if metric.k is None else metric.k
    # Without a cut-off nothing limits how many relevant items could be found.
    findable = len(cell.relevant) if metric.k is None else min(len(cell.relevant), metric.k)
    top = cell.items[:k]
    hits = [rank for rank, item in enumerate(top, 1) if item in cell.relevant]
    m = len(cell.relevant)

    if metric.name == "precision":
        denominator = metric.options.get("denominator", convention.precision_denominator)
        divisor = {"k": k, "recommended": len(top)}[denominator]
        if divisor == 0:
            return None if m == 0 else 0.0
        return len(hits) / divisor
    if metric.name == "hit":
        return 1.0 if hits else 0.0
    if metric.name == "mrr":
        return 1.0 / hits[0] if hits else 0.0
    if m == 0:
        return None

    if metric.name == "recall":
        denominator = metric.options.get("denominator", convention.recall_denominator)
        divisor = {"relevant": m, "min_k": findable}[denominator]
        return len(hits) / divisor if divisor else 0.0
    if metric.name in ("map", "mar"):
        at_hit = [(number / rank, number / m) for number, rank in enumerate(hits, 1)]
        total = sum(precision if metric.name == "map" else recall for precision, recall in at_hit)
        normalizer = metric.options.get("normalizer", convention.map_normalizer)
        divisor = {
            "min_k": findable,
            "relevant": m,
            "hits": len(hits),
            "k": k,
            "min_recommended": min(m, len(top)),
        }[normalizer]
        return total / divisor if divisor else 0.0
    if metric.name == "ndcg":
        return ndcg(metric, cell, convention, k, findable)
    raise NotImplementedError(f"the oracle does not know {metric.name}")


def operands_of(metric: Wanted) -> list[Wanted]:
    return [operand.at(metric.k) for operand in metric.operands or (Wanted("precision"), Wanted("recall"))]


def f_beta(first: float | None, second: float | None, beta: float) -> float | None:
    if first is None or second is None:
        return None
    if first == 0 and second == 0:
        return 0.0
    return (1 + beta**2) * first * second / (beta**2 * first + second)


def ndcg(metric: Wanted, cell: Cell, convention: Any, k: int, findable: int) -> float | None:
    gain = metric.options.get("gain", convention.gain)
    idcg = metric.options.get("idcg", convention.idcg)
    discount = metric.options.get("discount", convention.discount)

    def gain_of(rating: float) -> float:
        value = {
            "binary": lambda r: 1.0,
            "linear": lambda r: r,
            "exponential": lambda r: 2.0**r - 1,
            "exponential_plus1": lambda r: 2.0 ** (r + 1) - 1,
        }[gain](rating)
        return max(value, 0.0)

    def dcg(gains: list[float]) -> float:
        total = 0.0
        for rank, value in enumerate(gains, 1):
            total += value / math.log2({"log2_plus1": rank + 1, "log2_clipped": max(rank, 2)}[discount])
        return total

    found = [gain_of(cell.relevant[item]) if item in cell.relevant else 0.0 for item in cell.items[:k]]
    wanted = sorted((gain_of(rating) for rating in cell.relevant.values()), reverse=True)
    best = dcg({"at_k": wanted[:findable], "all": wanted, "list": sorted(found, reverse=True), "full_k": [1.0] * k}[idcg])
    if best == 0:
        # Nothing to gain is 0/0; but a list without a gain is measured against itself, and so is one without a length.
        return 0.0 if idcg in ("list", "full_k") else None
    return dcg(found) / best


# Rating metrics -----------------------------------------------------------------------------------------------------------


def rating_pairs(
    predictions: Sequence[Mapping[str, Any]], truth: Sequence[Mapping[str, Any]], convention: Any
) -> dict[tuple[Any, Any], list[tuple[float, float]]]:
    """Per model and user, if there is one: the (prediction, rating) pairs of items that both sides have.

    CHOICE: `truth_range` is the range of all true ratings that `rating_rows` admits, also of those without a prediction.
    """

    def counts(rating: Any) -> bool:
        if rating is NO_RATING or is_missing(rating):
            return False
        return convention.rating_rows == "all" or rating > 0

    ratings = {
        user: {item: rating for item, rating in items.items() if counts(rating)}
        for user, items in truth_by_user(truth, convention).items()
    }
    every = [rating for items in ratings.values() for rating in items.values()]
    pairs: dict[tuple[Any, Any], list[tuple[float, float]]] = {}
    for (model, user), rows in ranked_rows(predictions, convention).items():
        for row in rows:
            rating = ratings.get(user, {}).get(row["item"])
            score = row.get("score")
            if rating is None or is_missing(score):
                continue
            if convention.rating_clip == "truth_range":
                score = min(max(score, min(every)), max(every))
            pairs.setdefault((model, user), []).append((score, rating))
    return pairs


def rating_error(name: str, pairs: list[tuple[float, float]], divisor: int) -> float:
    if name == "mae":
        return sum(abs(score - rating) for score, rating in pairs) / divisor
    squares = sum((score - rating) ** 2 for score, rating in pairs) / divisor
    return math.sqrt(squares) if name == "rmse" else squares


def summarise_rating(metric: Wanted, pairs: Mapping[Any, list[tuple[float, float]]], convention: Any) -> dict[str, Any]:
    if not pairs:
        return {"value": empty_value(convention), "n_users": 0, "n_undefined": 0}
    every = [pair for own in pairs.values() for pair in own]
    if convention.rating_average == "pairs":
        value = rating_error(metric.name, every, len(every))
    elif convention.rating_average == "users":
        value = rating_error(metric.name, every, len(pairs))
    else:
        value = sum(rating_error(metric.name, own, len(own)) for own in pairs.values()) / len(pairs)
    return {"value": value, "n_users": len(pairs), "n_undefined": 0}


# Means --------------------------------------------------------------------------------------------------------------------


def empty_value(convention: Any) -> float | None:
    return 0.0 if convention.empty == "zero" else None


def summarise_ranking(metric: Wanted, cells: list[Cell], convention: Any) -> dict[str, Any]:
    """CHOICE: F of the means takes both means over the population of F itself; its counts are those of F per user."""
    users = dict(convention.users_by_metric).get(metric.name, convention.users)
    population = [cell for cell in cells if cell.is_in(users)]
    value, n_users, n_undefined = mean_over(metric, population, convention)
    if metric.name == "f1" and convention.f1 == "of_means":
        first, second = (mean_over(operand, population, convention)[0] for operand in operands_of(metric))
        value = f_beta(first, second, metric.options.get("beta", convention.beta))
    return {"value": value, "n_users": n_users, "n_undefined": n_undefined}


def mean_over(metric: Wanted, population: list[Cell], convention: Any) -> tuple[float | None, int, int]:
    """The mean, the number of users in it, and the number of users whose value is undefined."""
    values = [value_of(metric, cell, convention) for cell in population]
    n_undefined = values.count(None)
    averaged = [0.0 if value is None else value for value in values if value is not None or convention.undefined == "zero"]
    mean = sum(averaged) / len(averaged) if averaged else empty_value(convention)
    return mean, len(averaged), n_undefined


# The golden table, checked against the systems themselves ---------------------------------------------------------------

GOLDEN_K = 3
GOLDEN_LISTS = {"A": "abcd", "B": "abc", "C": "xc", "E": "abc"}
GOLDEN_PREDICTIONS = [
    {"model": "model", "user": user, "item": item, "score": 1.0 / rank}
    for user, items in GOLDEN_LISTS.items()
    for rank, item in enumerate(items, 1)
]
GOLDEN_TRUTH = [
    {"user": user, "item": item, "rating": float(rating)}
    for user, item, rating in [
        ("A", "a", 1), ("A", "c", 5), ("A", "d", 4), ("A", "z", 3), ("B", "a", 0), ("C", "c", 4), ("D", "a", 5),
    ]
]  # fmt: skip
GOLDEN_METRICS = ("precision", "recall", "f1", "hit", "mrr", "map", "mar", "ndcg")
GOLDEN: dict[str, dict[str, float]] = {
    name: dict(zip(GOLDEN_METRICS, map(float, values.split()), strict=True))
    for name, values in {
        "standard": "0.333333 0.500000 0.400000 0.666667 0.500000 0.351852 0.416667 0.339599",
        "threshold": "0.333333 0.666667 0.433333 0.666667 0.500000 0.527778 0.583333 0.564475",
        "threshold_skip": "0.333333 1.000000 0.650000 0.666667 0.500000 0.791667 0.875000 0.846713",
        "warprec": "0.333333 0.500000 0.214286 0.666667 0.500000 0.351852 0.416667 0.338004",
        "warprec_doc": "0.333333 0.500000 0.357143 0.666667 0.500000 0.351852 0.416667 0.335412",
        "laikallm": "0.333333 0.625000 0.392857 0.750000 0.625000 0.583333 0.593750 0.637663",
        "laikallm_doc": "0.333333 0.625000 0.392857 0.750000 0.625000 0.479167 0.546875 0.637663",
        "jurity": "0.583333 0.500000 0.412698 0.666667 0.500000 0.527778 0.416667 0.405500",
        "jurity_doc": "0.583333 0.500000 0.412698 0.666667 0.500000 0.351852 0.416667 0.405500",
        "recommenders": "0.444444 0.833333 0.523810 1.000000 0.833333 0.685185 0.750000 0.583712",
        "mllib": "0.444444 0.833333 0.523810 1.000000 0.833333 0.685185 0.750000 0.778283",
        "replay": "0.333333 0.625000 0.392857 0.750000 0.625000 0.513889 0.562500 0.583712",
        "rectools": "0.333333 0.625000 0.392857 0.750000 0.625000 0.479167 0.546875 0.367320",
        "recbole": "0.250000 0.375000 0.267857 0.500000 0.375000 0.263889 0.312500 0.333712",
        "ranx": "0.250000 0.375000 0.267857 0.500000 0.375000 0.229167 0.296875 0.254699",
        "trec_eval": "0.333333 0.500000 0.357143 0.666667 0.500000 0.305556 0.395833 0.339599",
        "lenskit": "0.375000 0.888889 0.611111 0.750000 0.625000 0.685185 0.750000 0.873302",
        "torchmetrics": "0.444444 0.666667 0.500000 0.666667 0.666667 0.666667 0.555556 0.589019",
    }.items()
}
"""Convention to metric to value at k = 3, rounded to six digits."""


# Random data --------------------------------------------------------------------------------------------------------------

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


@dataclass
class Case:
    """Rows as the package gets them."""

    predictions: list[dict[str, Any]]
    truth: list[dict[str, Any]]


def random_case(
    seed: int,
    *,
    ids: str | None = None,
    ratings: bool | None = None,
    ranks: bool = False,
    duplicates: bool = False,
    missing_scores: bool = False,
) -> Case:
    """Random predictions of three models for 14 users and 12 items, the same for the same arguments.

    The first users are the edges: in truth only; in predictions only; nothing relevant; a list of one item; all scores
    equal; nothing found; a perfect list; a long truth. Scores have few values, so that ties are common; ratings may be 0
    or fractional. Model `few` serves few users.

    Args:
        seed: Any whole number.
        ids: `text` or `int`; the seed decides where it is None.
        ratings: Whether truth has a rating; where it is None, four seeds of five have.
        ranks: Predictions carry a rank, which disagrees with their score.
        duplicates: Some predictions and truth rows stand twice, with another score or rating.
        missing_scores: Some scores are NaN.
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
    return Case(predictions, truth)
