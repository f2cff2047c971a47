"""A second opinion on every number: a slow, obvious evaluation of recommenders in plain Python.

It shares no formula with the package. It takes a `Convention` only as a holder of options. `tests/evaluation/test_oracle.py`
proves it against the golden table; everything else is then proved against it.

    result = evaluate(predictions, truth, convention("default"), [MetricSpec("ndcg", 10), MetricSpec("rmse")])
    result.per_user["als", "u1"]["ndcg@10"], result.summary["als", "ndcg@10"]["value"]

Choices that the conventions leave open are marked CHOICE.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# A part of what tests import from here.
from golden_table import GOLDEN, GOLDEN_K, GOLDEN_METRICS, GOLDEN_PREDICTIONS, GOLDEN_TRUTH  # noqa: F401
from oracle_items import AVERAGED, OF_GROUPS, OF_ITEMS, OF_LISTS, POOLED_OF_LISTS, PREDICTED, World, pairs_of
from random_data import Case, merged_cases, random_case  # noqa: F401

VARIANTS = (
    "f1(ndcg, map, beta=0.5)",
    "f1(gauc, rbp)",
    "ndcg(gain=exponential, idcg=all)",
    "dcg(gain=exponential_plus1, discount=log2_clipped)",
    "idcg(gain=linear, idcg=list)",
    "idcg(idcg=full_k)",
    "recall(denominator=min_k)",
    "ctr(estimator=ips)",
    "ctr(estimator=dr)",
    "rbp(p=0.5)",
    "auc(candidates=all, ties=order)",
    "gauc(candidates=listed, weight=recommended)",
    "lauc(negatives=plus_one)",
    "pauc(insufficient=exclude)",
    "pap(insufficient=exclude)",
    "rmse(average=per_user)",
    "surprisal",
    "novelty(of=rows, cold=zero, average=recommendations)",
    "arp(cold=one, scale=share)",
    "aplt(share=0.5, denominator=k)",
    "efd(gain=linear, of=users)",
    "pop_rsp(share=0.5)",
    "epc(of=rows)",
    "serendipity(against=baseline)",
    "ild(distance=jaccard)",
    "ild(distance=hamming)",
    "srecall(of=relevant)",
    "unexpectedness(denominator=k)",
    "unseen(denominator=k)",
    "user_coverage(measure=count, n=2)",
    "sufficient_reco(per=place)",
    "unrepeated_reco(per=place)",
    "item_coverage(measure=count)",
    "gini(population=recommended, scale=n_minus_1)",
    "entropy(base=2, scale=distinct)",
    "rsp(groups=genre, pool=all)",
    "pop_reo(share=0.5)",
    "item_mad_ranking(gain=linear, discount=log2_plus1)",
    "item_mad_rating(over=recommended)",
    "user_mad_ranking(groups=gender, gain=exponential, idcg=all)",
    "bias_disparity_bs(source=truth)",
    "bias_disparity_bd(items=genre, source=truth, users=gender)",
)
"""For every plain metric, its options, and metrics of metrics."""

RATING_METRICS = ("rmse", "mse", "mae", "r2", "explained_variance")
ALWAYS_SKIP = ("auc", "gauc", "lauc", "ctr", "ess", "matched_auc", "average_rank", "r2", "explained_variance", "pop_rsp")
"""Metrics for which 0 would be no neutral value: a user whose value is undefined is left out under every convention."""

NEVER_ZERO_OF_NOBODY = (*RATING_METRICS, "average_rank", "arp", "pop_rsp", *OF_ITEMS, *OF_GROUPS)
"""Metrics of which 0 is the best value, or a good one: the mean over nobody is undefined under every convention."""

OWN_USERS = {"ctr": "all", "ess": "all", "matched_auc": "all", **dict.fromkeys(PREDICTED, "predicted")}
"""Metrics whose population only `users_by_metric` changes."""

WITHOUT_CUT_OFF = {"auc", "gauc", "bpref", "r_precision"}
"""Metrics of whole lists, also where they are a part of another one: `n_recommended` is not cut then."""

# What is asked for, and what comes back ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MetricSpec:
    """A metric to compute: options that are not named here are those of the convention."""

    name: str
    k: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    operands: tuple[MetricSpec, ...] = ()
    text: str = ""

    @property
    def label(self) -> str:
        return self.text or (self.name if self.k is None else f"{self.name}@{self.k}")

    def at(self, k: int | None) -> MetricSpec:
        return MetricSpec(self.name, k, self.options, self.operands)

    def names(self) -> set[str]:
        """Its own name and those of the metrics that it is made of."""
        return {self.name}.union(*(operand.names() for operand in self.operands))


def describe(metric: Any) -> MetricSpec:
    """The same for a metric of the package, which is only read as name, k, params and operands."""
    operands = tuple(describe(operand) for operand in metric.operands)
    return MetricSpec(metric.name, metric.k, dict(metric.params), operands, str(metric))


@dataclass
class Cell:
    """One user of one model: the rows of the whole list, best first, and what is known of the items."""

    rows: list[Mapping[str, Any]] = field(default_factory=list)
    judged: dict[Any, float] = field(default_factory=dict)
    relevant: dict[Any, float] = field(default_factory=dict)
    propensity: dict[Any, float] = field(default_factory=dict)
    seen: set[Any] = field(default_factory=set)
    catalog: set[Any] | None = None
    user: Any = None
    world: World = field(default_factory=World)

    @property
    def items(self) -> list[Any]:
        return [row["item"] for row in self.rows]

    @property
    def n_truth(self) -> int:
        return len(self.judged)

    def is_in(self, users: str) -> bool:
        has_truth, has_relevant, has_list = len(self.judged) > 0, len(self.relevant) > 0, len(self.rows) > 0
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
    left out, or counted as 0 and then among n_users too).

    CHOICE: a pooled value has the users who give anything to it in n_users, also where their own value is undefined (the
    pairs of one class of `matched_auc`, the only pair of a user of `r2`); and nobody where it is undefined itself.
    """

    per_user: dict[tuple[Any, Any], dict[str, Any]]
    summary: dict[tuple[Any, str], dict[str, Any]]
    pairs: dict[tuple[Any, str, str], tuple[float, int]] = field(default_factory=dict)
    """By model, label, and a group of users and one of items: value and number of users."""


def evaluate(
    predictions: Sequence[Mapping[str, Any]],
    truth: Sequence[Mapping[str, Any]],
    convention: Any,
    metrics: Iterable[MetricSpec],
    train: Sequence[Mapping[str, Any]] = (),
    catalog: Collection[Any] | None = None,
    described: Sequence[Mapping[str, Any]] = (),
    baseline: Any = None,
    grouped: Sequence[Mapping[str, Any]] = (),
    segments: Sequence[Mapping[str, Any]] = (),
) -> Result:
    """Everything about predictions (model, user, item, score and/or rank) against truth (user, item, rating and propensity
    or not), where users have seen the items of train (user, item), there are the items of the catalogue, items are described
    (item, features, categories), one of the models is the baseline, and items and users are grouped (item, genre and user,
    gender)."""
    metrics = list(metrics)
    if len({metric.label for metric in metrics}) != len(metrics):
        raise ValueError("two metrics have one label: give them a text")
    cells = all_cells(predictions, truth, convention, train, catalog, described, baseline, grouped, segments)
    pairs = rating_pairs(predictions, truth, convention)
    # How users are by themselves looks at no list.
    ranking = [metric for metric in metrics if metric.name not in (*RATING_METRICS, "bias_disparity_bs")]
    of_users = [metric for metric in metrics if metric.name not in (*OF_ITEMS, *OF_GROUPS)]
    cuts = [None if metric.names() & WITHOUT_CUT_OFF else metric.k for metric in ranking]
    longest = None if not cuts or None in cuts else max(cuts)

    per_user: dict[tuple[Any, Any], dict[str, Any]] = {}
    for key, cell in cells.items():
        row: dict[str, Any] = {
            "n_relevant": len(cell.relevant),
            "n_truth": cell.n_truth,
            "n_recommended": len(cell.items[:longest]),
        }
        for metric in of_users:
            if metric.name in RATING_METRICS:
                own = pairs.get(key, [])
                row[metric.label] = rating_error(metric.name, own, len(own)) if own else None
            else:
                row[metric.label] = value_of(metric, cell, convention)
        per_user[key] = row

    summary: dict[tuple[Any, str], dict[str, Any]] = {}
    pairs_found: dict[tuple[Any, str, str], tuple[float, int]] = {}
    for model in models_of(predictions):
        own_cells = [cell for (of_model, _), cell in cells.items() if of_model == model]
        own_pairs = {user: found for (of_model, user), found in pairs.items() if of_model == model}
        for metric in metrics:
            if metric.name in RATING_METRICS:
                summary[model, metric.label] = summarise_rating(metric, own_pairs, convention)
            elif metric.name in OF_ITEMS:
                users = dict(convention.users_by_metric).get(metric.name, "predicted")
                lists = [cell.items[: metric.k] for cell in own_cells if cell.is_in(users) and cell.items]
                value = OF_ITEMS[metric.name](metric, lists, catalog, convention) if lists else None
                n_users = 0 if value is None else len(lists)
                value = empty_value(metric, convention) if value is None else value
                summary[model, metric.label] = {"value": value, "n_users": n_users, "n_undefined": 0}
            elif metric.name in OF_GROUPS:
                users = dict(convention.users_by_metric).get(metric.name, OWN_USERS.get(metric.name, convention.users))
                population = [cell for cell in own_cells if cell.is_in(users)]
                value, n_users = OF_GROUPS[metric.name](metric, population, convention, ndcg_of)
                n_users = 0 if value is None else n_users
                if metric.name.startswith("bias_disparity"):
                    own = pairs_of(metric, population)
                    pairs_found |= {(model, metric.label, f"{u} & {g}"): one for (u, g), one in own.items()}
                summary[model, metric.label] = {"value": value, "n_users": n_users, "n_undefined": 0}
            else:
                summary[model, metric.label] = summarise_ranking(metric, own_cells, convention)
    return Result(per_user, summary, pairs_found)


# Lists and relevant items ------------------------------------------------------------------------------------------------


def models_of(predictions: Sequence[Mapping[str, Any]]) -> list[Any]:
    return sorted({row["model"] for row in predictions})


def all_cells(
    predictions: Sequence[Mapping[str, Any]],
    truth: Sequence[Mapping[str, Any]],
    convention: Any,
    train: Sequence[Mapping[str, Any]] = (),
    catalog: Collection[Any] | None = None,
    described: Sequence[Mapping[str, Any]] = (),
    baseline: Any = None,
    grouped: Sequence[Mapping[str, Any]] = (),
    segments: Sequence[Mapping[str, Any]] = (),
) -> dict[tuple[Any, Any], Cell]:
    """A cell for every model and every user of truth or predictions.

    CHOICE: a user who is only in the predictions of another model has an empty cell in this one, so that the population
    `all` is the same for every model.
    """
    if catalog is not None and not {row["item"] for row in [*predictions, *truth, *train]} <= set(catalog):
        raise ValueError("an item is not in the catalogue")
    ratings = truth_by_user(truth, convention)
    propensities = propensities_by_user(truth)
    lists = ranked_rows(predictions, convention)
    cells = {}
    for model in models_of(predictions):
        for user in {*ratings, *(user for _, user in lists)}:
            rows = lists.get((model, user), [])
            known = ratings.get(user, {})
            if convention.candidates == "judged":
                # The inner join of predictions and truth: neither side keeps what the other one lacks.
                predicted = {row["item"] for row in rows}
                rows = [row for row in rows if row["item"] in known]
                known = {item: rating for item, rating in known.items() if item in predicted}
            judged = {
                item: 1.0 if rating is NO_RATING else 0.0 if is_missing(rating) else rating for item, rating in known.items()
            }
            relevant = {
                item: judged[item] for item, rating in known.items() if rating is NO_RATING or is_relevant(rating, convention)
            }
            seen = {row["item"] for row in train if row["user"] == user}
            everything = None if catalog is None else set(catalog)
            cells[model, user] = Cell(rows, judged, relevant, propensities.get(user, {}), seen, everything, user)
    world = World(
        train,
        {row["item"]: row["features"] for row in described},
        {row["item"]: row["categories"] or () for row in described},
        {user: cell.items for (model, user), cell in cells.items() if model == baseline},
        {row["item"]: set(row["genre"] or ()) for row in grouped},
        {row["user"]: row["gender"] for row in segments if row["gender"] is not None},
    )
    for cell in cells.values():
        cell.world = world
    return cells


def ndcg_of(metric: MetricSpec, cell: Cell, convention: Any) -> float | None:
    """The nDCG of one user with the options of another metric."""
    return value_of(MetricSpec("ndcg", metric.k, metric.options), cell, convention)


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


def propensities_by_user(truth: Sequence[Mapping[str, Any]]) -> dict[Any, dict[Any, float]]:
    """Per user: item to propensity, where truth has one. Which one counts where two rows disagree is not for us to say."""
    found: dict[Any, dict[Any, float]] = {}
    for row in truth:
        if "propensity" in row:
            first = found.setdefault(row["user"], {}).setdefault(row["item"], row["propensity"])
            if first != row["propensity"]:
                raise ValueError(f"two propensities, {first} and another: {row}")
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


def value_of(metric: MetricSpec, cell: Cell, convention: Any) -> float | None:
    """The value of one user, None where it is undefined."""
    if metric.name in POOLED:
        return POOLED[metric.name](metric, [cell], convention)
    if metric.name in MORE:
        return MORE[metric.name](metric, cell, convention)
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
    if metric.name in ("dcg", "idcg"):
        return dcg_and_idcg(metric, cell, convention, k, findable)[metric.name]
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
        divisor = {"min_k": findable, "relevant": m, "hits": len(hits), "k": k, "min_recommended": min(m, len(top))}[normalizer]
        return total / divisor if divisor else 0.0
    if metric.name == "ndcg":
        return ndcg(metric, cell, convention, k, findable)
    raise NotImplementedError(f"the oracle does not know {metric.name}")


def operands_of(metric: MetricSpec) -> list[MetricSpec]:
    return [operand.at(metric.k) for operand in metric.operands or (MetricSpec("precision"), MetricSpec("recall"))]


def f_beta(first: float | None, second: float | None, beta: float) -> float | None:
    if first is None or second is None:
        return None
    if first == 0 and second == 0:
        return 0.0
    return (1 + beta**2) * first * second / (beta**2 * first + second)


def dcg_and_idcg(metric: MetricSpec, cell: Cell, convention: Any, k: int, findable: int) -> dict[str, float]:
    gain = metric.options.get("gain", convention.gain)
    idcg = metric.options.get("idcg", convention.idcg)
    discount = metric.options.get("discount", convention.discount)

    def gain_of(rating: float) -> float:
        value = {
            "binary": lambda r: 1.0,
            "linear": lambda r: r,
            "exponential": lambda r: 2.0 ** min(r, 1001) - 1,
            "exponential_plus1": lambda r: 2.0 ** (min(r, 1001) + 1) - 1,
        }[gain](rating)
        return min(max(value, 0.0), 2.0**1000)  # CHOICE: larger gains are all the same

    def dcg(gains: list[float]) -> float:
        total = 0.0
        for rank, value in enumerate(gains, 1):
            total += value / math.log2({"log2_plus1": rank + 1, "log2_clipped": max(rank, 2)}[discount])
        return total

    found = [gain_of(cell.relevant[item]) if item in cell.relevant else 0.0 for item in cell.items[:k]]
    wanted = sorted((gain_of(rating) for rating in cell.relevant.values()), reverse=True)
    best = dcg({"at_k": wanted[:findable], "all": wanted, "list": sorted(found, reverse=True), "full_k": [1.0] * k}[idcg])
    return {"dcg": dcg(found), "idcg": best}


def ndcg(metric: MetricSpec, cell: Cell, convention: Any, k: int, findable: int) -> float | None:
    dcg, best = dcg_and_idcg(metric, cell, convention, k, findable).values()
    if best == 0:
        # All gains are 0: 0/0. But a list without a gain is compared with itself, and so is an empty list.
        return 0.0 if metric.options.get("idcg", convention.idcg) in ("list", "full_k") else None
    return dcg / best


def r_precision(metric: MetricSpec, cell: Cell, convention: Any) -> float | None:
    m = len(cell.relevant)
    return len([item for item in cell.items[:m] if item in cell.relevant]) / m if m else None


def rbp(metric: MetricSpec, cell: Cell, convention: Any) -> float | None:
    if not cell.relevant:
        return None
    p = metric.options.get("p", 0.8)
    return sum((1 - p) * p**place for place, item in enumerate(cell.items[: metric.k]) if item in cell.relevant)


def bpref(metric: MetricSpec, cell: Cell, convention: Any) -> float | None:
    n_relevant, n_others = len(cell.relevant), len(cell.judged) - len(cell.relevant)
    if n_relevant == 0:
        return None
    total, before = 0.0, 0
    for item in cell.items:
        if item in cell.relevant:
            total += 1 - min(before, n_relevant) / min(n_relevant, n_others) if before else 1
        elif item in cell.judged:
            before += 1
    return total / n_relevant


def average_rank(metric: MetricSpec, cell: Cell, convention: Any) -> float | None:
    return next((float(rank) for rank, item in enumerate(cell.items[: metric.k], 1) if item in cell.relevant), None)


def confusion(metric: MetricSpec, cell: Cell, convention: Any) -> tuple[int, int, int, int]:
    """True and false positives, false and true negatives, of all items that there are.

    Places that a short list leaves empty count as false positives, but not more of them than there are other items.
    """
    others = len(the_catalog(metric, cell)) - len(cell.relevant)
    top = cell.items[: metric.k]
    denominator = metric.options.get("denominator", convention.precision_denominator)
    n_places = len(top) if metric.k is None or denominator == "recommended" else metric.k
    hits = len([item for item in top if item in cell.relevant])
    wrong = min(n_places - hits, others)
    return hits, wrong, len(cell.relevant) - hits, others - wrong


def accuracy(metric: MetricSpec, cell: Cell, convention: Any) -> float | None:
    tp, fp, fn, tn = confusion(metric, cell, convention)
    return (tp + tn) / (tp + fp + fn + tn) if cell.rows or cell.relevant else None


def mcc(metric: MetricSpec, cell: Cell, convention: Any) -> float | None:
    tp, fp, fn, tn = confusion(metric, cell, convention)
    square = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(square) if square else None


def the_catalog(metric: MetricSpec, cell: Cell) -> set[Any]:
    if cell.catalog is None:
        raise ValueError(f"{metric.label} needs a catalogue")
    return cell.catalog


# AUC ----------------------------------------------------------------------------------------------------------------------


@dataclass
class Compared:
    """The candidates of a list, best first, and the share of the negatives that each positive beats."""

    listed: list[Any]
    beaten: dict[Any, float]


def compare(metric: MetricSpec, cell: Cell, convention: Any) -> Compared | None:
    """Every positive against every negative; None where one of them is missing.

    CHOICE: an item is compared once, at its best place, even where repeated predictions are kept.
    """
    candidates = metric.options.get("candidates", getattr(convention, "auc_candidates", "unseen"))
    negatives_are = metric.options.get("negatives", convention.auc_negatives)
    ties = metric.options.get("ties", convention.auc_ties)

    seen = cell.seen if candidates == "unseen" else set()
    rows: dict[Any, Mapping[str, Any]] = {}
    for row in cell.rows:
        if row["item"] not in seen:
            rows.setdefault(row["item"], row)
    listed = list(rows)
    everything = set(listed) if candidates == "listed" else the_catalog(metric, cell) - seen
    positives = everything & set(cell.relevant)
    negatives = everything - positives
    n_negatives = len(negatives) + (1 if negatives_are == "plus_one" else 0)
    if not positives or not n_negatives:
        return None

    def height(item: Any, if_unlisted: float) -> tuple[float, float]:
        if item not in rows:
            return (if_unlisted, 0)
        return (0, -listed.index(item)) if ties == "order" else level(rows[item], convention)

    beaten = {}
    for positive in positives:
        # Unlisted items are behind every list: tied, or such that a positive loses.
        own = height(positive, -9 if ties == "order" else -8)
        lost = 0.0
        for negative in negatives:
            other = height(negative, -8)
            lost += 1 if other > own else 0.5 if other == own else 0
        beaten[positive] = 1 - lost / n_negatives
    return Compared(listed, beaten)


def level(row: Mapping[str, Any], convention: Any) -> tuple[float, float]:
    """Larger is better, equal is tied. Ranks are never tied, and win over scores; missing scores are tied with each other."""
    if row.get("rank") is not None:
        return (0, -row["rank"])
    if is_missing(row["score"]):
        return (1 if convention.nan_scores == "first" else -1, 0)
    return (0, row["score"])


def auc(metric: MetricSpec, cells: list[Cell], convention: Any) -> float | None:
    compared = [compare(metric, cell, convention) for cell in cells]
    beaten = [value for one in compared if one for value in one.beaten.values()]
    return sum(beaten) / len(beaten) if beaten else None


def gauc(metric: MetricSpec, cells: list[Cell], convention: Any) -> float | None:
    """Of one cell its AUC, if that weighs anything."""
    weight = metric.options.get("weight", convention.gauc_weight)
    total = weights = 0.0
    for cell in cells:
        found = compare(metric, cell, convention)
        if found is not None:
            own = {"uniform": 1, "relevant": len(found.beaten), "recommended": len(found.listed)}[weight]
            total += own * sum(found.beaten.values()) / len(found.beaten)
            weights += own
    return total / weights if weights else None


def lauc(metric: MetricSpec, cell: Cell, convention: Any) -> float | None:
    found = compare(metric, cell, convention)
    if found is None:
        return None
    top = found.listed[: metric.k]
    n_positives = len(found.beaten)
    return sum(found.beaten.get(item, 0.0) for item in top) / min(n_positives, metric.k or n_positives)


def partial_auc(metric: MetricSpec, cell: Cell, convention: Any) -> float | None:
    """Every relevant item, of `pap` the first k, against each of the first k misses. What is not in the list loses."""
    k = len(cell.items) if metric.k is None else metric.k
    misses = [place for place, item in enumerate(cell.items) if item not in cell.relevant]
    found = [place for place, item in enumerate(cell.items) if item in cell.relevant]
    most = len(cell.relevant) if metric.name == "pauc" else min(k, len(cell.relevant))
    if not cell.relevant:
        return None
    if metric.options.get("insufficient") == "exclude" and len(misses) < k and len(found) < len(cell.relevant):
        return None
    # Places that a short list leaves empty are misses that stand last.
    rivals = [*misses, *[math.inf] * k][:k]
    won = [place < rival for place in found[:most] for rival in rivals]
    return sum(won) / (most * k) if most * k else 0.0


# Metrics of the pairs that lists and truth share, of one user or of many --------------------------------------------------


def matched(metric: MetricSpec, cell: Cell) -> list[Mapping[str, Any]]:
    return [row for row in cell.rows[: metric.k] if row["item"] in cell.judged]


def ctr(metric: MetricSpec, cells: list[Cell], convention: Any) -> float | None:
    """CHOICE: a missing score predicts 0."""
    estimator = metric.options.get("estimator", "matching")
    total, count = 0.0, 0
    for cell in cells:
        if estimator == "matching":
            total += sum(cell.judged[row["item"]] for row in matched(metric, cell))
            count += len(matched(metric, cell))
            continue
        count += len(cell.rows[: metric.k])
        for row in cell.rows[: metric.k]:
            expected = 0.0 if estimator == "ips" or is_missing(row["score"]) else row["score"]
            total += expected
            if row["item"] in cell.judged:
                total += (cell.judged[row["item"]] - expected) / cell.propensity[row["item"]]
    return total / count if count else None


def ess(metric: MetricSpec, cells: list[Cell], convention: Any) -> float | None:
    weights = [1 / cell.propensity[row["item"]] for cell in cells for row in matched(metric, cell)]
    return sum(weights) ** 2 / sum(weight**2 for weight in weights) if weights else None


def matched_auc(metric: MetricSpec, cells: list[Cell], convention: Any) -> float | None:
    """CHOICE: missing scores are tied with each other across lists too, and below or above every number."""
    positives, negatives = [], []
    for cell in cells:
        for row in matched(metric, cell):
            one_of = positives if row["item"] in cell.relevant else negatives
            one_of.append(level({"score": row["score"]}, convention))
    won = [1 if p > n else 0.5 if p == n else 0 for p in positives for n in negatives]
    return sum(won) / len(won) if won else None


MORE = {
    "r_precision": r_precision,
    "rbp": rbp,
    "bpref": bpref,
    "average_rank": average_rank,
    "accuracy": accuracy,
    "mcc": mcc,
    "lauc": lauc,
    "pauc": partial_auc,
    "pap": partial_auc,
    **OF_LISTS,
}
POOLED = {"auc": auc, "gauc": gauc, "ctr": ctr, "ess": ess, "matched_auc": matched_auc, **POOLED_OF_LISTS}
"""Metrics whose summary is no plain mean: of one cell they are the value of the user, of all cells the summary."""


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


def rating_error(name: str, pairs: list[tuple[float, float]], divisor: int) -> float | None:
    if name in ("r2", "explained_variance"):
        errors, ratings = [score - rating for score, rating in pairs], [rating for _, rating in pairs]
        if min(ratings) == max(ratings):
            return None
        missed = variance(errors) if name == "explained_variance" else sum(error**2 for error in errors) / len(errors)
        return 1 - missed / variance(ratings)
    if name == "mae":
        return sum(abs(score - rating) for score, rating in pairs) / divisor
    squares = sum((score - rating) ** 2 for score, rating in pairs) / divisor
    return math.sqrt(squares) if name == "rmse" else squares


def variance(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def summarise_rating(metric: MetricSpec, pairs: Mapping[Any, list[tuple[float, float]]], convention: Any) -> dict[str, Any]:
    average = metric.options.get("average", convention.rating_average)
    every = [pair for own in pairs.values() for pair in own]
    values = [rating_error(metric.name, own, len(own)) for own in pairs.values()]
    defined = [value for value in values if value is not None]
    if average == "per_user":
        value, n_users = sum(defined) / len(defined) if defined else None, len(defined)
    else:
        value = rating_error(metric.name, every, len(pairs) if average == "users" else len(every)) if every else None
        n_users = 0 if value is None else len(pairs)
    return {
        "value": empty_value(metric, convention) if value is None else value,
        "n_users": n_users,
        "n_undefined": len(values) - len(defined),
    }


# Means --------------------------------------------------------------------------------------------------------------------


def empty_value(metric: MetricSpec, convention: Any) -> float | None:
    return 0.0 if convention.empty == "zero" and metric.name not in NEVER_ZERO_OF_NOBODY else None


def summarise_ranking(metric: MetricSpec, cells: list[Cell], convention: Any) -> dict[str, Any]:
    """CHOICE: F of the means takes both means over the population of F itself; its counts are those of F per user."""
    users = dict(convention.users_by_metric).get(metric.name, OWN_USERS.get(metric.name, convention.users))
    population = [cell for cell in cells if cell.is_in(users)]
    value, n_users, n_undefined = mean_over(metric, population, convention)
    option, as_mean = AVERAGED.get(metric.name, ("", None))
    usual = {"average": "per_user", "measure": convention.coverage}.get(option)
    if metric.name in POOLED and (metric.name not in AVERAGED or metric.options.get(option, usual) != as_mean):
        value = POOLED[metric.name](metric, population, convention)
        if metric.name == "matched_auc":
            n_users = len([cell for cell in population if matched(metric, cell)])
        if value is None:
            value, n_users = empty_value(metric, convention), 0
    if metric.name == "f1" and convention.f1 == "of_means":
        first, second = (mean_over(operand, population, convention)[0] for operand in operands_of(metric))
        value = f_beta(first, second, metric.options.get("beta", convention.beta))
    return {"value": value, "n_users": n_users, "n_undefined": n_undefined}


def mean_over(metric: MetricSpec, population: list[Cell], convention: Any) -> tuple[float | None, int, int]:
    """The mean, the number of users in it, and the number of users whose value is undefined."""
    values = [value_of(metric, cell, convention) for cell in population]
    n_undefined = values.count(None)
    as_zero = convention.undefined == "zero" and metric.name not in ALWAYS_SKIP
    averaged = [0.0 if value is None else value for value in values if value is not None or as_zero]
    mean = sum(averaged) / len(averaged) if averaged else empty_value(metric, convention)
    return mean, len(averaged), n_undefined
