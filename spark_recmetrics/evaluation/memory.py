"""The same evaluation in memory, for data that fits one machine: pandas frames in, and no Spark session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.aggregation.means import combined, means, nothing
from spark_recmetrics.aggregation.memory import counts_in_memory, sums_in_memory
from spark_recmetrics.columns import PAIR_RANKS, PAIR_SCORES, TABLE_OF, Columns, Side, checked_columns, passing
from spark_recmetrics.conventions import Convention
from spark_recmetrics.conventions import convention as named_convention
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.evaluation.result import Outcome, pair_means, refuse
from spark_recmetrics.inputs.data_report import NEVER_MEET, Judge, checked_policies, data_report
from spark_recmetrics.inputs.memory import Ids, check_frame, chosen_columns, same_kind, with_numbers
from spark_recmetrics.metrics import DEFAULT_K, DEFAULT_METRICS, Metric, RankedBatch, expand, score
from spark_recmetrics.metrics.arrays import Floats, Ints
from spark_recmetrics.metrics.batch import Matched
from spark_recmetrics.metrics.group_sums import GroupSizes, group_values
from spark_recmetrics.metrics.item_counts import item_values
from spark_recmetrics.metrics.objectives import read_objectives
from spark_recmetrics.metrics.parsing import named_populations
from spark_recmetrics.metrics.recommended_items import ItemSummary
from spark_recmetrics.metrics.registry import LARGEST_CATALOG, checked_integer
from spark_recmetrics.request.needs import OF_POPULARITY, OF_TRAIN, ROWS_OF_TRAIN, Needs
from spark_recmetrics.request.per_user import SumSpec
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.runs.identity import Run
from spark_recmetrics.scoring.kernel import score_bucket
from spark_recmetrics.scoring.partial_sums import N_EXAMPLES, part_totals, with_pairs
from spark_recmetrics.side_info.descriptions import beyond_one, check_once
from spark_recmetrics.side_info.groups_memory import GroupsInMemory
from spark_recmetrics.side_info.items_memory import (
    baseline_of,
    description_columns,
    descriptions_of,
    known_items,
    popularity_of,
)
from spark_recmetrics.side_info.packed import SideInfo
from spark_recmetrics.text import brief

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, repr=False)
class MemoryResult(Outcome):
    """What `evaluate_in_memory` found. Its text is the table that a job prints.

    Args:
        per_user: PER_USER: one row per model and user of truth or predictions, a column per metric; NaN is undefined.
    """

    per_user: pd.DataFrame


def evaluate_in_memory(
    predictions: pd.DataFrame,
    truth: pd.DataFrame,
    *,
    metrics: Iterable[str | Metric] | str = DEFAULT_METRICS,
    k: Sequence[int] | int | None = DEFAULT_K,
    threshold: float | None = None,
    convention: str | Mapping[str, Any] | Convention = "default",
    columns: Columns = Columns(),
    train: pd.DataFrame | None = None,
    catalog_size: int | None = None,
    user_segments: pd.DataFrame | None = None,
    item_groups: pd.DataFrame | None = None,
    item_features: pd.DataFrame | None = None,
    baseline: str | None = None,
    objectives: Mapping[str, Mapping[str, float] | None] | None = None,
    model_name: str = "model",
) -> MemoryResult:
    """Evaluate pandas frames by the kernels of `evaluate`, to the same numbers.

    The rows of a pandas frame have an order, so here `ties=input` keeps it.

    Args:
        predictions: One row per (model, user, item) with a score or a rank. A frame without a model column is one model.
        truth: One row per (user, item) with a rating, or without: then every row is relevant.
        metrics: Texts such as `ndcg`, `map@10`, `rmse`.
        k: Cut-offs of ranking metrics that are written without one; None or empty: the whole list.
        threshold: A truth row is relevant from this rating on, under every convention. None: as the convention says.
        convention: Name of a convention, its text, a mapping, or a `Convention`, see `srm.convention`.
        columns: The caller's column names.
        train: One row per (user, item) that the user had before, for metrics that need it.
        catalog_size: Number of items that could be recommended, for metrics that need it.
        user_segments: One row per user, with columns that metrics of groups name.
        item_groups: The same of items; an array has several values.
        item_features: One row per item, with feature vectors or categories, for metrics that need them. A vector is a list or
            an array of numbers, or a dict of `size`, `indices` and `values`.
        baseline: The model whose lists are what everybody expects, for metrics that need it.
        objectives: Metrics that are wanted together, each with its points, as for `evaluate`.
        model_name: Name of the one model of a frame without a model column.

    Returns:
        The result.

    Raises:
        ConfigError: A metric, a cut-off, the convention or another argument is wrong.
        DataError: A column is missing or of a wrong kind, or rows are refused, as by `evaluate`.

    Example:
        >>> import pandas as pd
        >>> predictions = pd.DataFrame({"user_id": [1, 1, 2, 3], "item_id": [7, 8, 8, 7], "score": [0.9, 0.8, 0.7, 0.1]})
        >>> truth = pd.DataFrame({"user_id": [1, 2, 3], "item_id": [8, 8, 9]})
        >>> evaluate_in_memory(predictions, truth, metrics=["mrr", "hit"], k=2).to_dict()
        {'model': {'mrr@2': 0.5, 'hit@2': 0.6666666666666666}}
    """
    import pandas as pd

    checked_columns(columns)
    beside = {"train": train, "item_features": item_features, "user_segments": user_segments, "item_groups": item_groups}
    for name, frame in {"predictions": predictions, "truth": truth, **beside}.items():
        check_frame(name, frame, optional=name in beside)
    if not isinstance(model_name, str) or not model_name:
        raise ConfigError(f"model_name: expected a text, found {brief(model_name)}")
    chosen = expand(metrics, k)
    goals = read_objectives(objectives, chosen)
    rules = named_populations(named_convention(convention, threshold))
    demand = Needs(chosen, rules)
    demand.check()
    if catalog_size is not None:
        catalog_size = checked_integer(catalog_size, "catalog_size", LARGEST_CATALOG)
    _check_given(demand, {"catalog": catalog_size, "baseline": baseline, **beside})
    groups = GroupsInMemory.of(chosen, rules, {"user": user_segments, "item": item_groups}, columns)
    if not demand.all & OF_TRAIN:
        beside["train"] = train = None
    data = _Data.read(predictions, truth, beside, groups, columns, demand, rules, threshold, model_name)
    ranking = [metric for metric in chosen if metric.definition.kind != "rating"]
    rating = [metric for metric in chosen if metric.definition.kind == "rating"]
    scoring = Scoring.of(
        ranking,
        rules,
        len(data.models),
        rating=rating,
        clip=data.rating_range if rules.rating_clip == "truth_range" else None,
        whole_lists=True,
        given_ranks=data.has_rank and rules.keeps_lists,
        n_items=catalog_size,
        trained=train is not None,
        items=data.items,
        baseline=baseline_of(data.models, baseline) if demand.asked_by("baseline") else None,
        measured=groups.measured,
    )
    scored = score_bucket(data.predictions, data.truth, scoring, data.beside)
    per_user = scored[scored["model"].notna()]  # a row without a model is nobody's
    of_users = data.users.index.take(per_user["user"].to_numpy(np.int64))
    # The type is named because pandas would look for another one in objects.
    coded = per_user.assign(user=pd.Series(of_users, index=per_user.index, dtype=data.users.index.dtype))
    found = combined(part_totals(coded, SumSpec.of(chosen, rules)).itertuples(index=False))
    totals = {name: found[code] for code, name in enumerate(data.models) if code in found}
    counts = counts_in_memory(per_user, len(scoring.counted), catalog_size)
    sums = sums_in_memory(scored, groups.measured, data.beside.items, data.items.groups)
    in_groups = {
        name: group_values(chosen, rules, groups.columns, sums, data.group_sizes, code)
        for code, name in enumerate(data.models)
        if name in totals and totals[name]["users_predicted"]
    }
    # A single user may be asked about here, and then a list without a truth row, or without a hit, is an answer.
    judge = Judge(
        checked_policies(dict.fromkeys(NEVER_MEET, "warn")),
        rules,
        {"predictions"} if demand.rating or demand.asked_by("list_scores") else (),
    )
    # Where nothing is ranked, nothing is said of lists.
    told = totals if ranking else {name: own | {"n_recommended": None, "n_matched": None} for name, own in totals.items()}
    in_both = data.items_in_both(told)
    data_checks = data_report(
        data.seen, told, data.models, judge, has_ratings=data.has_ratings, rated=bool(rating), in_both=in_both
    )
    refuse(data_checks)
    return MemoryResult(
        means={
            name: means(
                totals[name],
                chosen,
                rules,
                _across(per_user[per_user["model"] == code], totals[name], scoring)
                | item_values(chosen, rules, counts, code)
                | {metric.slug: (one.value, one.n_users) for metric, one in in_groups.get(name, {}).items()},
            )
            if name in totals
            else nothing(chosen, rules)
            for code, name in enumerate(data.models)
        },
        sliced=pair_means(in_groups),
        data_checks=data_checks,
        objectives=goals,
        convention=rules,
        run=Run(),
        data_hash=None,
        warnings=[fact.line() for fact in data_checks if fact.level == "warn"],
        per_user=coded.assign(model=coded["model"].map(dict(enumerate(data.models)))).drop(columns=passing(map(str, coded))),
    )


def _check_given(demand: Needs, given: Mapping[str, Any]) -> None:
    """Refuse metrics that ask for what is not there, or is not read here.

    Args:
        demand: What metrics ask for.
        given: The arguments of `evaluate_in_memory`, by the key of `evaluate`; None is not there.

    Raises:
        ConfigError: There is such a metric; the message says what it needs.
    """
    for metric, asked in demand.lacking({key for key, value in given.items() if value is not None}):
        told = f"give {asked.key}, {asked.form}"
        if asked.key == "catalog":
            told = "give catalog_size, the number of items that could be recommended"
        raise ConfigError(f"{metric} needs {asked.what}: {told}")


@dataclass(frozen=True)
class _Data:
    """The caller's frames with numbers for ids, without the rows that a policy drops, and what was counted of them."""

    predictions: pd.DataFrame
    truth: pd.DataFrame
    models: list[str]
    users: Ids
    has_rank: bool
    has_ratings: bool
    rules: Convention
    items: ItemSummary
    group_sizes: GroupSizes
    beside: SideInfo
    seen: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(
        cls,
        predictions: pd.DataFrame,
        truth: pd.DataFrame,
        beside: Mapping[str, pd.DataFrame | None],
        groups: GroupsInMemory,
        columns: Columns,
        demand: Needs,
        rules: Convention,
        threshold: float | None,
        model_name: str,
    ) -> _Data:
        import pandas as pd

        train, item_features = beside["train"], beside["item_features"]
        ids = {"user": columns.user, "item": columns.item}
        needs_score = demand.scores(rated_apart=False)
        by_rank = {} if columns.rank is None else {"rank": columns.rank}
        # Which rows are dropped must not depend on the metrics.
        reads_scores = needs_score or (rules.nan_scores == "drop" and columns.score in predictions)
        scored = {"score": columns.score} if not by_rank or reads_scores else {}
        modelled = {"model": columns.model} if columns.model in predictions or columns.model != Columns.model else {}
        needs_rating = demand.rating or threshold is not None or columns.rating != Columns.rating
        rated = {"rating": columns.rating} if columns.rating in truth or needs_rating else {}
        chance = {"propensity": columns.propensity} if demand.asked_by("propensity") else {}
        why = needs_score.get("predictions", "or name a rank in columns.rank")
        lists = chosen_columns("predictions", predictions, modelled | ids | scored | by_rank, score=why)
        wanted = demand.rating or (None if threshold is None else "threshold")
        reasons = {"rating": wanted, "propensity": demand.asked_by("propensity")}
        told = {key: f"{asked} needs it" for key, asked in reasons.items() if asked}
        judged = chosen_columns("truth", truth, ids | rated | chance, **told)
        lists = with_numbers("predictions", lists, scored | by_rank)
        judged = with_numbers("truth", judged, rated | chance)
        tables = {
            "predictions": lists,
            "truth": judged,
            **({} if train is None else {"train": chosen_columns("train", train, ids)}),
        }
        about = description_columns(demand.all, columns)
        if item_features is not None and about:
            tables["item_features"] = chosen_columns("item_features", item_features, {"item": columns.item, **about})
        for name, wanted_columns in groups.tables.items():
            if (frame := beside[name]) is not None:
                tables[name] = chosen_columns(name, frame, wanted_columns)
        tables = same_kind(tables, ids)
        lists, judged = tables["predictions"], tables["truth"]
        known = tables.get("train", judged.iloc[:0])
        if modelled:
            lists["model"] = lists["model"].map(str, na_action="ignore")
        models = sorted(set(lists["model"].dropna())) if modelled else []
        models = models or [model_name]
        counts = {"predictions": _prediction_counts(lists), "truth": _truth_counts(judged, rules)}
        if "train" in tables and demand.all & ROWS_OF_TRAIN:
            counts["train"] = _counted(known, {"null_ids": known[["user", "item"]].isna().any(axis=1)})
        lists, judged, known = (
            frame.dropna(subset=[name for name in ("model", "user", "item") if name in frame])
            for frame in (lists, judged, known)
        )
        # Rows that will be refused are of no use, and nothing is divided by what they have, or squared.
        lists = lists[lists["rank"] >= 1] if by_rank else lists
        if scored and (demand.rating or demand.asked_by("list_scores")):
            lists = lists[~np.isinf(lists["score"].astype(np.float64))]
        judged = judged[_is_chance(judged["propensity"])] if chance else judged
        users = Ids(*(frame["user"] for frame in (lists, judged, known)))
        items = Ids(*(frame["item"] for frame in (lists, judged, known)), ordered=True)
        lists, judged, known = (
            frame.assign(user=users.numbers(frame["user"]), item=items.numbers(frame["item"]))
            for frame in (lists, judged, known)
        )
        lists["model"] = Ids(pd.Series(models, dtype=object)).numbers(lists["model"]) if modelled else 0
        if rules.nan_scores == "drop":
            lists = lists[lists["score"].notna()] if scored else lists
            judged = judged[np.isfinite(judged["rating"].astype(np.float64))] if rated else judged
        judged["value"] = judged["rating"].astype(np.float64) if rated else 1.0
        judged["rating"] = judged["value"].fillna(0.0).where(_is_relevant(judged, rules)) if rated else 1.0

        def coded(side: Side, known_ids: Ids) -> pd.DataFrame | None:
            name = TABLE_OF[side]
            if name not in tables:
                return None
            table = tables[name].dropna(subset=[side])
            check_once(name, side, *beyond_one(table[side]))
            return table.assign(**{side: known_ids.numbers(table[side])})

        grouped, segments = coded("item", items), coded("user", users)
        features = categories = popularity = None
        summary = ItemSummary()
        if "item_features" in tables:
            described = tables["item_features"].dropna(subset=["item"])
            features, categories, summary = descriptions_of(described, items.numbers(described["item"]), len(items), columns)
        if train is not None and demand.all & OF_POPULARITY:
            n_rows, n_users, popular = popularity_of(known, len(items))
            popularity = n_rows, n_users
            summary = replace(summary, popularity=popular)
        of_items, names, of_groups = groups.items(grouped, len(items))
        if rules.ties == "input":
            lists["place"] = np.arange(len(lists))
        found = SideInfo(
            None if train is None else known[["user", "item"]],
            None if segments is None else groups.segments(segments),
            known_items(popularity, features, categories, of_items),
        )
        summary = replace(summary, groups=names)
        return cls(lists, judged, models, users, bool(by_rank), bool(rated), rules, summary, of_groups, found, counts)

    @property
    def rating_range(self) -> tuple[float, float]:
        """The smallest and the largest true rating that count for rating metrics."""
        known = self.truth["value"]
        known = known[np.isfinite(known) & ((known > 0) | (self.rules.rating_rows == "all"))]
        return float(known.min()), float(known.max())

    def items_in_both(self, totals: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
        """Of models that predict no pair of truth: how many items of truth they predict at all, and how many there are."""
        items = self.truth["item"].unique()
        return {
            name: (int(np.isin(items, self.predictions["item"][self.predictions["model"] == code]).sum()), len(items))
            for code, name in enumerate(self.models)
            if name in totals and totals[name]["n_matched"] == 0 and totals[name]["users_truth_and_predicted"]
        }


def _prediction_counts(rows: pd.DataFrame) -> dict[str, Any]:
    ids = [name for name in ("model", "user", "item") if name in rows]
    score = rows["score"].astype(np.float64) if "score" in rows else np.zeros(len(rows))
    faults = {"null_ids": rows[ids].isna().any(axis=1), "nan_scores": np.isnan(score), "infinite_scores": np.isinf(score)}
    if "rank" in rows:
        faults["bad_ranks"] = rows["rank"].isna() | (rows["rank"] < 1)
    return _counted(rows, faults)


def _truth_counts(rows: pd.DataFrame, rules: Convention) -> dict[str, Any]:
    rating = rows["rating"].astype(np.float64) if "rating" in rows else np.ones(len(rows))
    faults = {"null_ids": rows[["user", "item"]].isna().any(axis=1), "nan_ratings": ~np.isfinite(rating)}
    if "propensity" in rows:
        faults["bad_propensities"] = ~_is_chance(rows["propensity"])
    known = rating[np.isfinite(rating)]
    relevant = int(_is_relevant(rows, rules).sum()) if "rating" in rows else len(rows)
    spread = {"lowest": known.min(), "highest": known.max()} if len(known) else {}
    return {**_counted(rows, faults), "relevant": relevant, **spread}


def _is_chance(propensity: pd.Series[Any]) -> pd.Series[bool]:
    return (propensity > 0) & (propensity <= 1)


def _counted(rows: pd.DataFrame, faults: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": len(rows)}
    for check, fault in faults.items():
        wrong = rows[np.asarray(fault)]
        found[check] = len(wrong)
        few = wrong[[name for name in ("model", "user", "item") if name in wrong]].head(N_EXAMPLES).to_dict("records")
        found[f"{check}_example"] = "; ".join(", ".join(f"{key} {value}" for key, value in row.items()) for row in few)
    return found


def _is_relevant(truth: pd.DataFrame, rules: Convention) -> Any:
    rating = truth["rating"].astype(np.float64)
    if rules.relevance == "present":
        return np.ones(len(truth), dtype=bool)
    if rules.relevance == "truthy":
        return rating != 0
    if rules.relevance == "positive":
        return rating > 0
    # 4.1 stored as a float is below 4.1 as a double, so the threshold is compared in the type of the ratings.
    single = truth["rating"].dtype == np.float32
    return rating >= (float(np.float32(rules.threshold)) if single else rules.threshold)


def _across(rows: pd.DataFrame, totals: Mapping[str, Any], scoring: Scoring) -> dict[str, tuple[float | None, int]]:
    """By slug, the value over the pairs of all users of a model, and how many users have some."""
    found: dict[str, tuple[float | None, int]] = {}
    for metric in scoring.metrics:
        if metric.definition.across_users:
            ranks, scores = (np.concatenate(rows[name].dropna().to_list()) for name in (PAIR_RANKS, PAIR_SCORES))
            kept = np.abs(ranks) <= (np.inf if metric.k is None else metric.k)
            value = float(score(metric.at(None), _one_user(ranks[kept], scores[kept]), scoring.convention)[0])
            found[metric.slug] = (None if np.isnan(value) else value, totals[with_pairs(metric.k)])
    return found


def _one_user(ranks: Ints, scores: Floats) -> RankedBatch:
    """A batch of one user with all these matched pairs."""
    nobody, numbers = np.zeros(0, dtype=np.int64), np.zeros(len(ranks), dtype=np.float64)
    return RankedBatch(
        n_relevant=np.array([np.sum(ranks > 0)]),
        n_recommended=np.array([len(ranks)]),
        hit_user=nobody,
        hit_rank=nobody,
        hit_rating=nobody.astype(np.float64),
        ideal_user=nobody,
        ideal_rating=nobody.astype(np.float64),
        matched=Matched(numbers.astype(np.int64), np.abs(ranks), ranks > 0, numbers, scores, numbers),
    )
