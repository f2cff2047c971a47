"""The same evaluation in memory, for data that fits one machine: pandas frames in, and no Spark session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.bucket import Demand, Scoring, score_bucket
from spark_recmetrics.columns import PAIR_RANKS, PAIR_SCORES, PASSING, Columns
from spark_recmetrics.conventions import Convention
from spark_recmetrics.conventions import convention as named_convention
from spark_recmetrics.errors import ConfigError, DataError, did_you_mean
from spark_recmetrics.facts import Judge, checked_policies, data_report
from spark_recmetrics.means import N_EXAMPLES, Wanted, combined, means, nothing, part_totals, with_pairs
from spark_recmetrics.metrics import DEFAULT_K, DEFAULT_METRICS, Metric, RankedBatch, expand, score
from spark_recmetrics.metrics.batch import Floats, Ints, Matched, place_in_user
from spark_recmetrics.metrics.registry import LARGEST_CATALOG, whole_number
from spark_recmetrics.metrics.text import named_populations
from spark_recmetrics.outcome import Outcome, Run, refuse

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class MemoryResult(Outcome):
    """What `evaluate_in_memory` found.

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
    convention: str | Convention = "default",
    columns: Columns = Columns(),
    train: pd.DataFrame | None = None,
    catalog_size: int | None = None,
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
        convention: Name of a convention, or a `Convention`.
        columns: The caller's column names.
        train: One row per (user, item) that the user had before, for metrics of unseen candidates.
        catalog_size: Number of items that could be recommended, for metrics that need it.
        model_name: Name of the one model of a frame without a model column.

    Returns:
        The result.

    Raises:
        ConfigError: A metric, a cut-off, the convention or another argument is wrong.
        DataError: A column is missing, or rows are refused, as by `evaluate`.

    Example:
        >>> import pandas as pd
        >>> predictions = pd.DataFrame({"user_id": [1, 1, 2, 3], "item_id": [7, 8, 8, 7], "score": [0.9, 0.8, 0.7, 0.1]})
        >>> truth = pd.DataFrame({"user_id": [1, 2, 3], "item_id": [8, 8, 9]})
        >>> evaluate_in_memory(predictions, truth, metrics=["mrr", "hit"], k=2).to_dict()
        {'model': {'mrr@2': 0.5, 'hit@2': 0.6666666666666666}}
    """
    chosen = expand(metrics, k)
    rules = named_populations(named_convention(convention, threshold))
    demand = Demand(chosen, rules)
    demand.check()
    if catalog_size is not None:
        catalog_size = whole_number(catalog_size, "catalog_size", LARGEST_CATALOG)
    if catalog_size is None and (first := demand.asked_by("catalog")):
        raise ConfigError(f"{first} needs the catalogue: give catalog_size, the number of items that could be recommended")
    if demand.asked_by("unseen") is None:
        train = None
    data = _Data.read(predictions, truth, train, columns, demand, rules, threshold, model_name)
    ranking = [metric for metric in chosen if metric.definition.kind == "ranking"]
    rating = [metric for metric in chosen if metric.definition.kind == "rating"]
    scoring = Scoring.of(
        ranking,
        rules,
        len(data.models),
        rating=rating,
        clip=data.rating_range if rules.rating_clip == "truth_range" else None,
        given_ranks=data.has_rank and rules.keeps_lists,
        n_items=catalog_size,
        trained=train is not None,
    )
    lists = data.ranked(scoring)
    per_user = score_bucket(lists, data.truth, scoring)
    named = per_user.assign(
        model=per_user["model"].map(dict(enumerate(data.models))),
        user=data.users.take(per_user["user"].to_numpy(np.int64)),
    )
    totals = combined(part_totals(named, Wanted.of(chosen, rules)).itertuples(index=False))
    # A single user may be asked about here, and then a list without a truth row is an answer.
    judge = Judge(
        checked_policies({"users_in_both": "warn"}),
        rules,
        {"predictions"} if demand.rating or demand.asked_by("listed") else (),
    )
    facts = data_report(data.seen, totals, data.models, judge, has_ratings=data.has_ratings, rated=bool(rating))
    refuse(facts)
    return MemoryResult(
        means={
            name: means(totals[name], chosen, rules, _across(per_user[per_user["model"] == code], totals[name], scoring))
            if name in totals
            else nothing(chosen, rules)
            for code, name in enumerate(data.models)
        },
        facts=facts,
        convention=rules,
        run=Run(),
        data_hash=None,
        warnings=[fact.line() for fact in facts if fact.level == "warn"],
        per_user=named.drop(columns=list(PASSING), errors="ignore"),
    )


@dataclass(frozen=True)
class _Data:
    """The caller's frames with numbers for ids, without the rows that a policy drops, and what was counted of them."""

    predictions: pd.DataFrame
    truth: pd.DataFrame
    models: list[str]
    users: pd.Index[Any]
    has_rank: bool
    has_ratings: bool
    rules: Convention
    seen: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(
        cls,
        predictions: pd.DataFrame,
        truth: pd.DataFrame,
        train: pd.DataFrame | None,
        columns: Columns,
        demand: Demand,
        rules: Convention,
        threshold: float | None,
        model_name: str,
    ) -> _Data:
        import pandas as pd

        ids = {"user": columns.user, "item": columns.item}
        _same_kind({"predictions": predictions, "truth": truth, **({} if train is None else {"train": train})}, ids)
        needs_score = demand.scores(rated_apart=False)
        by_rank = {} if columns.rank is None else {"rank": columns.rank}
        scored = {"score": columns.score} if not by_rank or needs_score else {}
        modelled = {"model": columns.model} if columns.model in predictions or columns.model != Columns.model else {}
        needs_rating = demand.rating or threshold is not None or columns.rating != Columns.rating
        rated = {"rating": columns.rating} if columns.rating in truth or needs_rating else {}
        chance = {"propensity": columns.propensity} if demand.asked_by("propensity") else {}
        lists = _chosen("predictions", predictions, modelled | ids | scored | by_rank)
        judged = _chosen("truth", truth, ids | rated | chance)
        known = _chosen("train", train, ids) if train is not None else judged.iloc[:0]
        if modelled:
            lists["model"] = lists["model"].map(str, na_action="ignore")
        models = sorted(lists["model"].dropna().unique()) if modelled else [model_name]
        counts = {"predictions": _prediction_counts(lists), "truth": _truth_counts(judged, rules)}
        lists, judged, known = (
            frame.dropna(subset=[name for name in ("model", "user", "item") if name in frame])
            for frame in (lists, judged, known)
        )
        users = pd.Index(pd.concat([lists["user"], judged["user"], known["user"]], ignore_index=True).unique())
        items = _in_order(pd.concat([lists["item"], judged["item"], known["item"]], ignore_index=True).unique())
        lists, judged, known = (
            frame.assign(user=users.get_indexer(pd.Index(frame["user"])), item=items.get_indexer(pd.Index(frame["item"])))
            for frame in (lists, judged, known)
        )
        lists["model"] = pd.Index(models).get_indexer(pd.Index(lists["model"])) if modelled else 0
        if rules.nan_scores == "drop":
            lists = lists[lists["score"].notna()] if scored else lists
            judged = judged[np.isfinite(judged["rating"].astype(np.float64))] if rated else judged
        judged["value"] = judged["rating"].astype(np.float64) if rated else 1.0
        judged["rating"] = judged["value"].fillna(0.0).where(_is_relevant(judged, rules)) if rated else 1.0
        if train is not None:
            known = known.drop_duplicates()
            pairs = pd.MultiIndex.from_frame(known[["user", "item"]])
            judged["seen"] = pd.MultiIndex.from_frame(judged[["user", "item"]]).isin(pairs)
            judged["n_seen"] = judged["user"].map(known["user"].value_counts()).fillna(0).astype(np.int64)
            lists["seen"] = pd.MultiIndex.from_frame(lists[["user", "item"]]).isin(pairs)
        return cls(lists, judged, models, users, bool(by_rank), bool(rated), rules, counts)

    @property
    def rating_range(self) -> tuple[float, float]:
        """The smallest and the largest true rating that count for rating metrics."""
        known = self.truth["value"]
        known = known[np.isfinite(known) & ((known > 0) | (self.rules.rating_rows == "all"))]
        return float(known.min()), float(known.max())

    def ranked(self, scoring: Scoring) -> pd.DataFrame:
        """The rows that the kernels see: lists cut at k, or whole lists with places among candidates and ties."""
        import pandas as pd

        rows, rules = self.predictions, self.rules
        pairs = pd.MultiIndex.from_frame(self.truth[["user", "item"]])
        judged = pd.MultiIndex.from_frame(rows[["user", "item"]]).isin(pairs) | (rules.candidates != "judged")
        if self.has_rank:
            value = rows["rank"].to_numpy(np.float64)
        else:
            missing = -np.inf if rules.nan_scores == "first" else np.inf
            value = np.where(rows["score"].isna(), missing, -rows["score"].to_numpy(np.float64))
        item = rows["item"].to_numpy(np.int64)
        tie = {"item_asc": item, "item_desc": -item, "input": np.arange(len(rows))}[rules.ties]
        order = np.lexsort((tie, value, ~judged, rows["user"].to_numpy(), rows["model"].to_numpy()))
        if rules.duplicates == "first":
            order = order[~rows[["model", "user", "item"]].iloc[order].duplicated().to_numpy()]
        rows, value, judged = rows.iloc[order].reset_index(drop=True), value[order], judged[order]
        cell = np.unique(rows["model"] * len(self.users) + rows["user"], return_inverse=True)[1]
        if not scoring.given_ranks:
            rows["rank"] = place_in_user(cell, int(cell.max(initial=-1)) + 1)
        if "score" in rows:
            # Missing scores stand where they are ranked: behind all numbers, or before them.
            rows["score"] = rows["score"].astype(np.float64).fillna(np.inf if rules.nan_scores == "first" else -np.inf)
        same = (cell[1:] == cell[:-1]) & (value[1:] == value[:-1]) & (judged[1:] == judged[:-1]) & (not self.has_rank)
        rows["tied"] = np.append(same, False)[: len(rows)] & rows["rank"].isin(scoring.cuts)
        if scoring.k is not None:
            return rows[rows["rank"] <= scoring.k]
        peers = np.unique(np.column_stack([cell, ~judged, value]), axis=0, return_inverse=True)[1].ravel()
        peers = np.arange(len(rows)) if self.has_rank else peers
        every = np.ones(len(rows), dtype=np.int64)
        rows["n_above"], rows["n_tied"], _ = _standing(cell, peers, every)
        if "seen" in rows:
            rows["unseen_above"], rows["unseen_tied"], rows["unseen_place"] = _standing(cell, peers, every - rows["seen"])
        kept: pd.DataFrame = rows[judged | (rows["rank"] == 1) | rows["tied"]]
        return kept


def _standing(cell: Any, peers: Any, counts: Any) -> tuple[Any, Any, Any]:
    """Of rows sorted by cell and then by peers of equal score: what counts above the peers, among them, and up to the row."""
    import pandas as pd

    counted = pd.Series(np.asarray(counts))
    up_to = counted.groupby(cell).cumsum()
    tied = counted.groupby(peers).transform("sum")
    return (up_to - counted).groupby(peers).transform("first"), tied, up_to


def _chosen(table: str, frame: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """The columns by our names."""
    for key, name in names.items():
        if name not in frame:
            raise DataError(f"{table}: no column {name!r} (columns.{key}){did_you_mean(name, map(str, frame.columns))}")
    return frame[list(names.values())].set_axis(list(names), axis=1).reset_index(drop=True)


def _same_kind(frames: Mapping[str, pd.DataFrame], ids: Mapping[str, str]) -> None:
    """Refuse ids that are floating point numbers, and those of one kind here and of another there."""
    import pandas as pd

    kinds = {"i": "whole numbers", "u": "whole numbers", "f": "floating point numbers"}
    for key, name in ids.items():
        found: dict[str, str] = {}
        for table, frame in frames.items():
            known = frame[name].dropna() if name in frame else pd.Series(dtype=object)
            if len(known):
                inside = "whole numbers" if isinstance(known.iloc[0], int) else type(known.iloc[0]).__name__
                found[table] = kinds.get(known.dtype.kind, inside)
            if found.get(table) == "floating point numbers":
                # pandas makes floats of whole numbers beside a missing one.
                if not frame[name].isna().any() or (known % 1 != 0).any():
                    raise DataError(f"{table}: column {name!r} (columns.{key}): expected whole numbers or texts, found floats")
                found[table] = "whole numbers"
        if len(set(found.values())) > 1:
            sides = ", ".join(f"{kind} in {table}" for table, kind in found.items())
            told = f"column {name!r} (columns.{key}): expected one type on all sides, found {sides}"
            raise DataError(f"{told}: cast one of them first")


def _in_order(ids: Any) -> pd.Index[Any]:
    import pandas as pd

    try:
        found: pd.Index[Any] = pd.Index(sorted(ids))
    except TypeError as error:
        raise DataError(
            f"items: expected ids of one kind, found {', '.join(sorted({type(i).__name__ for i in ids}))}"
        ) from error
    return found


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
        faults["bad_propensities"] = ~((rows["propensity"] > 0) & (rows["propensity"] <= 1))
    known = rating[np.isfinite(rating)]
    relevant = int(_is_relevant(rows, rules).sum()) if "rating" in rows else len(rows)
    spread = {"lowest": known.min(), "highest": known.max()} if len(known) else {}
    return {**_counted(rows, faults), "relevant": relevant, **spread}


def _counted(rows: pd.DataFrame, faults: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": len(rows)}
    for check, fault in faults.items():
        wrong = rows[np.asarray(fault)]
        found[check] = len(wrong)
        few = wrong.head(N_EXAMPLES)
        found[f"{check}_example"] = "; ".join(
            f"user {user}, item {item}" for user, item in zip(few["user"], few["item"], strict=True)
        )
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
