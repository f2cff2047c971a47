"""Random tables and arguments of evaluations, with every edge, the same for the same seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import oracle
from engines import Table

import spark_recmetrics as srm
from spark_recmetrics.conventions import CHOICES, CONVENTIONS
from spark_recmetrics.metrics import DEFINITIONS
from spark_recmetrics.request.arguments import POLICIES

IDS: dict[str, Callable[[int], Any]] = {
    "bigint": lambda n: 2**53 + n if n % 3 else n - 4,
    "int": lambda n: 10 - n,
    "string": lambda n: ("9", "10", "", "ü", "z z", "a\x00", "a", "B", "\U0001f600", "b,c", "d", "e", "f", "g", "h", "i")[n],
    "decimal(20,2)": lambda n: Decimal(n * 7 - 10).scaleb(-1).quantize(Decimal("0.01")),
    "decimal(10,1)": lambda n: Decimal(n - 3).quantize(Decimal("0.1")),
}
N_USERS, N_ITEMS = 10, 9
OF_GROUPS = (
    *("rsp(groups=genre)", "rsp(groups=era, pool=all)", "reo(groups=genre)", "pop_reo(share=0.5)", "pop_reo"),
    *("item_mad_ranking(groups=genre)", "item_mad_ranking(groups=price, gain=linear, discount=log2_plus1)"),
    *("item_mad_rating(groups=era)", "item_mad_rating(groups=genre, over=recommended)"),
    *("user_mad_ranking(groups=gender)", "user_mad_ranking(groups=member, gain=exponential, idcg=all)"),
    *("user_mad_rating(groups=gender)", "bias_disparity_bs(users=gender, items=genre)"),
    *("bias_disparity_br(users=level, items=era)", "bias_disparity_bd(items=genre, source=truth, users=gender)"),
)
METRICS = [
    *(
        text
        for text in (*DEFINITIONS, *oracle.VARIANTS)
        if DEFINITIONS.get(text.partition("(")[0]) is None
        or DEFINITIONS[text.partition("(")[0]].kind in ("ranking", "item", "rating")
    ),
    *OF_GROUPS,
]
RATING = ("mae", "mse", "rmse", "r2", "explained_variance")
OF_SCORES = ("matched_auc", "item_mad_rating", "user_mad_rating", "auc(candidates", "ctr(estimator=dr)")
NEEDS_CANDIDATES = ("auc", "gauc", "lauc", "pauc", "pap")


@dataclass
class RandomRequest:
    """Tables and arguments of `evaluate`, and what is asked of the result. Only faulty tables have null ids and NaN."""

    tables: dict[str, Any]
    options: dict[str, Any]
    faulty: bool
    compared: list[dict[str, Any]] = field(default_factory=list)
    explained: list[Any] = field(default_factory=list)
    calibrated: list[dict[str, Any]] = field(default_factory=list)


class Dice:
    """Random choices of one request."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.user_type, self.item_type = (self.rng.choice(["bigint", "string", *IDS]) for _ in range(2))
        self.faulty = self.rng.random() < 0.5

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def user(self, n: int) -> Any:
        return IDS[self.user_type](n)

    def item(self, n: int) -> Any:
        return IDS[self.item_type](n)

    def id_or_null(self, value: Any) -> Any:
        return None if self.faulty and self.chance(0.03) else value

    def number(self, kind: str, values: Sequence[float]) -> Any:
        """One of the numbers in a type, perhaps missing or infinite."""
        value = self.rng.choice(values)
        if self.faulty and self.chance(0.08):
            odd = [None] if kind not in ("double", "float") else [None, math.nan, math.inf, -math.inf, -0.0]
            return self.rng.choice(odd)
        if kind.startswith("decimal"):
            return Decimal(repr(value)).quantize(Decimal("0.01"))
        return int(value) if kind in ("int", "bigint") else float(value)


NUMBER_TYPES = ("double", "double", "float", "int", "bigint", "decimal(12,2)")


def random_request(seed: int) -> RandomRequest:
    dice = Dice(seed)
    rng = dice.rng
    options = _options(dice)
    tables: dict[str, Any] = {"predictions": _predictions(dice, options), "truth": _truth(dice)}
    metrics = rng.sample(METRICS, rng.randint(2, 7)) + rng.sample(["ndcg", "precision", "recall", "mrr", "hit", "map"], 2)
    if options["convention"].get("duplicates") == "keep":
        metrics = [text for text in metrics if not any(name in text for name in NEEDS_CANDIDATES)]
    if "propensity" not in tables["truth"].columns:
        metrics = [text for text in metrics if not any(name in text for name in ("ips", "dr)", "ess"))]
    columns = tables["predictions"].columns
    if "rating " not in tables["truth"].columns and dice.chance(0.9):
        metrics = [text for text in metrics if text.partition("(")[0] not in RATING]
        options.pop("threshold", None)
    if "score" not in columns and dice.chance(0.9):
        metrics = [text for text in metrics if text.partition("(")[0] not in (*RATING, *OF_SCORES) and "dr)" not in text]
    if "model " not in columns and dice.chance(0.9):
        options.pop("models", None)
    options["metrics"] = list(dict.fromkeys(metrics))
    needed = set().union(*(_needs(text, options["convention"]) for text in metrics))
    if dice.chance(0.7) or needed & {"popularity", "history", "trained_groups", "unseen_candidates", "audience"}:
        tables["train"] = _train(dice)
    if dice.chance(0.4) or "catalog" in needed:
        tables["catalog"] = _catalog(dice)
    if dice.chance(0.5) or "user_groups" in needed:
        tables["user_segments"] = _segments(dice)
    if dice.chance(0.5) or needed & {"item_groups"}:
        tables["item_groups"] = _groups(dice)
    if dice.chance(0.2) or needed & {"features", "categories"}:
        tables["item_features"] = _features(dice)
    if dice.chance(0.25):
        tables["rating_predictions"] = _rating_predictions(dice, tables["predictions"])
    if "baseline" in needed or dice.chance(0.1):
        options["baseline"] = "b" if "model " in tables["predictions"].columns else "model"
    _slices(dice, tables, options)
    request = RandomRequest(tables, options, dice.faulty)
    if dice.chance(0.6):
        request.compared = [{"test": rng.choice(["paired_t", "wilcoxon", "sign"])}]
        request.compared += [{"test": "bootstrap", "n_resamples": 100, "seed": 3}] if dice.chance(0.3) else []
    if dice.chance(0.3):
        request.explained = [dice.user(rng.randrange(N_USERS + 1))]
    if dice.chance(0.3):
        request.calibrated = [{"n_bins": rng.choice([1, 2, 3, 7, 20]), "against": rng.choice([None, "relevance", "rating"])}]
    return request


def _needs(text: str, convention: dict[str, Any]) -> set[str]:
    from spark_recmetrics.metrics import expand

    rules = srm.convention(convention)
    return set().union(*(metric.needs(rules) for metric in expand([text], 2)))


def _options(dice: Dice) -> dict[str, Any]:
    rng = dice.rng
    convention: dict[str, Any] = {"name": rng.choice(["default", *CONVENTIONS])}
    for option in rng.sample(list(CHOICES), rng.choice([0, 0, 2, 5])):
        convention[option] = rng.choice(CHOICES[option])
    checks = {}
    if dice.faulty and dice.chance(0.8):
        convention |= {
            "duplicates": rng.choice(["first", "first", "keep"]),
            "nan_scores": rng.choice(["drop", "last", "first"]),
        }
        convention["negative_gains"] = "clip"
        checks = dict.fromkeys(("null_ids", "bad_ranks", "infinite_scores", "bad_propensities"), "drop")
    for check in rng.sample(list(POLICIES), rng.choice([0, 0, 1, 3])):
        checks.setdefault(check, rng.choice(POLICIES[check]))
    options: dict[str, Any] = {
        "convention": convention,
        "checks": checks,
        "k": sorted(rng.sample([1, 2, 3, 5, 8], rng.choice([1, 2]))),
    }
    if dice.chance(0.2):
        options["threshold"] = rng.choice([1, 2.5, 4.1])
    if dice.chance(0.1):
        options["k"] = None
    if dice.chance(0.25):
        options["intervals"] = srm.Intervals("bootstrap", n_resamples=100, seed=rng.randrange(5), confidence=0.9)
    if dice.chance(0.15):
        options["max_per_user"] = rng.choice([2, 9, 40, 40, 40])
    if dice.chance(0.2):
        options["cast_ids"] = "string"
    if dice.chance(0.2):
        options["min_users"] = rng.choice([1, 2, 5])
    if dice.chance(0.15):
        options["models"] = rng.sample(["a", "b", "c d"], rng.choice([1, 2]))
    return options


def _predictions(dice: Dice, options: dict[str, Any]) -> Table:
    rng = dice.rng
    form = rng.choice(["scores", "scores", "scores", "ranks", "both", "arrays", "structs"])
    several, score_type = dice.chance(0.7), rng.choice(NUMBER_TYPES)
    models = ["a", "b", "c d"] if several else [None]
    if form in ("ranks", "both"):
        options["columns"] = srm.Columns(rank="rank")
    scores = [-0.5, 0.1, 1.0, 2.5, 2.5, 3.3, 4.7]
    rows: list[tuple[Any, ...]] = []
    for model in models:
        served = [n for n in range(1, N_USERS) if dice.chance(0.85 if model != "c d" else 0.3)]
        for n in served:
            chosen = rng.sample(range(N_ITEMS), rng.choice([1, 3, 6, 9]))
            if dice.faulty and dice.chance(0.2):
                chosen += rng.choices(chosen, k=2)
            name = (None if dice.faulty and dice.chance(0.05) else model,) if several else ()
            if form in ("arrays", "structs"):
                items = [dice.id_or_null(dice.item(i)) for i in chosen]
                cells = items if form == "arrays" else [(i, dice.number(score_type, scores)) for i in items]
                if dice.faulty and dice.chance(0.1):
                    cells = rng.choice([None, []])
                if form == "structs" and cells and dice.faulty and dice.chance(0.1):
                    cells = [*cells, None]
                rows.append((*name, dice.id_or_null(dice.user(n)), cells))
                continue
            for place, i in enumerate(chosen, 1):
                rank = rng.choice([None, 0, place, place + 1]) if dice.faulty and dice.chance(0.05) else place
                numbers = {"scores": (), "ranks": (rank,), "both": (rank,)}[form]
                numbers += () if form == "ranks" else (dice.number(score_type, scores),)
                rows.append((*name, dice.id_or_null(dice.user(n)), dice.id_or_null(dice.item(i)), *numbers))
    rng.shuffle(rows)
    if dice.chance(0.03):
        rows = []
    model = "model string, " if several else ""
    if form in ("arrays", "structs"):
        element = dice.item_type if form == "arrays" else f"struct<item_id:{dice.item_type},score:{score_type}>"
        return Table(f"{model}user_id {dice.user_type}, items array<{element}>", rows)
    numbers = {"scores": "", "ranks": ", rank int", "both": ", rank bigint"}[form]
    numbers += "" if form == "ranks" else f", score {score_type}"
    return Table(f"{model}user_id {dice.user_type}, item_id {dice.item_type}{numbers}", rows)


def _rating_predictions(dice: Dice, predictions: Table) -> Table:
    rng = dice.rng
    kind = rng.choice(NUMBER_TYPES)
    rows = [
        (model, dice.user(n), dice.item(i), dice.number(kind, [0.5, 1.1, 3.3, 4.7, 5.9]))
        for model in ("a", "b")
        for n in range(N_USERS)
        for i in rng.sample(range(N_ITEMS), 4)
    ]
    if "model" not in predictions.columns:
        rows = [row[1:] for row in rows if row[0] == "a"]
        return Table(f"user_id {dice.user_type}, item_id {dice.item_type}, score {kind}", rows)
    return Table(f"model string, user_id {dice.user_type}, item_id {dice.item_type}, score {kind}", rows)


def _truth(dice: Dice) -> Table:
    rng = dice.rng
    rated, propensity = dice.chance(0.85), dice.chance(0.4)
    kind = rng.choice(NUMBER_TYPES)
    rows: list[tuple[Any, ...]] = []
    for n in range(N_USERS - 1):
        for i in rng.sample(range(N_ITEMS), rng.choice([1, 2, 5, 8])):
            row: tuple[Any, ...] = (dice.id_or_null(dice.user(n)), dice.id_or_null(dice.item(i)))
            if rated:
                row += (dice.number(kind, [0.0, 0.0, 1.0, 2.0, 3.5, 4.1, 5.0]),)
            if propensity:
                row += (
                    rng.choice([None, 0.0, 1.5, math.nan]) if dice.faulty and dice.chance(0.05) else rng.choice([0.3, 1.0]),
                )
            rows += [row] * (2 if dice.faulty and dice.chance(0.05) else 1)
    rng.shuffle(rows)
    if dice.chance(0.03):
        rows = []
    columns = f"user_id {dice.user_type}, item_id {dice.item_type}"
    columns += f", rating {kind}" if rated else ""
    return Table(columns + (", propensity double" if propensity else ""), rows)


def _train(dice: Dice) -> Table:
    rng = dice.rng
    rows = [
        (dice.id_or_null(dice.user(n)), dice.id_or_null(dice.item(i)))
        for n in range(2, N_USERS + 2)
        for i in rng.choices(range(N_ITEMS + 1), k=rng.choice([0, 1, 4, 7]))
    ]
    return Table(f"user_id {dice.user_type}, item_id {dice.item_type}", [] if dice.chance(0.05) else rows)


def _catalog(dice: Dice) -> Any:
    if dice.chance(0.3):
        return N_ITEMS + 20
    first = dice.rng.choice([0, 0, 1, 3])
    return Table(f"item_id {dice.item_type}", [(dice.id_or_null(dice.item(i)),) for i in [*range(first, N_ITEMS + 2), first]])


def _segments(dice: Dice) -> Table:
    rng = dice.rng
    rows = []
    for n in rng.sample(range(N_USERS + 2), N_USERS - 1):
        gender, age = rng.choice(["F", "M", "d & e", None]), rng.choice([17.0, 18.0, 30.5, 70.0, None])
        rows.append((dice.id_or_null(dice.user(n)), gender, age, rng.choice([1, 2, None]), rng.choice([True, False, None])))
    rows += rows[:1] if dice.faulty and dice.chance(0.1) else []
    return Table(f"user_id {dice.user_type}, gender string, age double, level int, member boolean", rows)


def _groups(dice: Dice) -> Table:
    rng = dice.rng
    rows = []
    for i in rng.sample(range(N_ITEMS + 2), N_ITEMS - 1):
        genre = rng.choice([["war"], ["war", "love"], ["love", None, "love"], [], None])
        price = rng.choice([Decimal("1.50"), Decimal("20.00"), None])
        rows.append((dice.id_or_null(dice.item(i)), genre, price, rng.choice(["old", "new", None])))
    return Table(f"item_id {dice.item_type}, genre array<string>, price decimal(8,2), era string", rows)


def _features(dice: Dice) -> Table:
    rng = dice.rng
    rows = []
    for i in rng.sample(range(N_ITEMS + 2), N_ITEMS):
        vector = rng.choice([None, [0.0, 0.0, 0.0], [0.1, 1.0, -2.0], [rng.random() for _ in range(3)]])
        rows.append((dice.id_or_null(dice.item(i)), vector, rng.choice([None, [], ["war"], ["war", "love", None], ["x"]])))
    kind = rng.choice(["double", "float"])
    return Table(f"item_id {dice.item_type}, features array<{kind}>, categories array<string>", rows)


def _slices(dice: Dice, tables: dict[str, Any], options: dict[str, Any]) -> None:
    chosen: list[str] = []
    if "user_segments" in tables:
        chosen += ["gender", "age(18, 30.5)", "level", "member*gender"]
    if "item_groups" in tables:
        chosen += ["genre", "price(10)", "era*genre", "price"]
    if "train" in tables:
        chosen += ["activity", "activity(2, 5)", "popularity", "popularity(1, 3)"]
    if chosen and dice.chance(0.4):
        options["slices"] = dice.rng.sample(chosen, dice.rng.choice([1, 2]))
        if {"activity", "activity(2, 5)"} <= set(options["slices"]) or {"popularity", "popularity(1, 3)"} <= set(
            options["slices"]
        ):
            options["slices"] = options["slices"][:1]
