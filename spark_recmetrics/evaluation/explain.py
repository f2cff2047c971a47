"""Explain the values of one user: the list row by row, and what each row adds to each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import KIND_LIST, KIND_TRAIN, KIND_TRUTH
from spark_recmetrics.conventions import MEMBERS, RATED, Convention
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.evaluation.engine import Evaluated
from spark_recmetrics.metrics import Metric, RankedBatch, parse, score
from spark_recmetrics.metrics.arrays import Floats, Ints
from spark_recmetrics.metrics.batch import Candidates, given
from spark_recmetrics.metrics.ranking import gain_of
from spark_recmetrics.ranking.arrays import ListRows
from spark_recmetrics.reports.explanation import explanation_text
from spark_recmetrics.request.intervals import Intervals
from spark_recmetrics.request.request import Request, SliceRequest
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.scoring.per_user import rating_pairs, rating_values, read_bucket
from spark_recmetrics.scoring.workers import scoring_of
from spark_recmetrics.side_info.packed import SideRows
from spark_recmetrics.text import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

N_SHOWN = 50
"""The maximum number of rows of a list that are shown."""


@dataclass(frozen=True)
class Explanation:
    """The lists of one user, from `Result.explain`. Its text is a table for each model.

    Args:
        user: The id of the user, as a string.
        convention: The definitions, as a string.
        models: The models that are explained.
        rows: The lists: `model, rank, last_rank, item, score, n_tied, judged, rating, hit, gain`, and for each ranking metric,
            by its string, what the row adds to the value, None if the value is undefined. `n_tied` is the number of other items
            of the list with the same score. `seen`, if a metric reads it: the row is a training row. A row of rank 0 has
            the value of the empty list, if any is not 0. A row with another `last_rank` summarizes the rows that are not shown.
        counts: For each model: `model, n_recommended, n_relevant, n_truth`, the first of the full list.
        values: `model, metric, value, reason, in_mean`: why a value is undefined, and how it enters the mean of the model:
            `value`, `0`, `pooled` or `left out`.
        missed: The relevant items that no row shows: `model, item, rating, rank`, the rank None if the item is not in the list.
        pairs: For rating metrics: `model, item, predicted, true, error`.
    """

    user: str
    convention: str
    models: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    counts: tuple[Mapping[str, Any], ...]
    values: tuple[Mapping[str, Any], ...]
    missed: tuple[Mapping[str, Any], ...]
    pairs: tuple[Mapping[str, Any], ...]

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))

    def __str__(self) -> str:
        return explanation_text(self.user, self.convention, self.models, vars(self))


def explain_user(evaluated: Evaluated, user: Any, model: str | None) -> Explanation:
    """See `Result.explain`. A row adds the value of the list cut after it minus that before it; undefined counts as 0."""
    request, inputs, models = evaluated.request, evaluated.inputs, evaluated.known.models
    if model is not None and model not in models:
        raise ConfigError(f"unknown model {model!r}{did_you_mean(str(model), models)}")
    explained = list(models) if model is None else [model]
    ranked = _read(evaluated, "predictions", user, explained) if request.ranking_metrics else None
    rated = None
    if request.rating_metrics:
        reuse = request.rating_table == "predictions"
        rated = ranked if reuse and ranked is not None else _read(evaluated, request.rating_table, user, explained)
    has_rows = any(len(rows.lists) or len(rows.truth) for rows in (ranked, rated) if rows is not None)
    if not has_rows and not evaluated.engine.is_predicted(inputs, evaluated.known, user):
        raise DataError(
            f"user {str(user)!r} is in neither the ground truth nor the predictions. Ids are compared as strings: "
            "check the spelling, or look up the user in PER_USER. If ids were read as numbers, write 12 instead of 012"
        )
    tables = _Tables(request, has_ratings=inputs.has_ratings)
    if ranked is not None:
        for code, name in enumerate(explained):
            tables.add_list(name, ranked.of_model(code), evaluated.scored.scoring or ranked.scoring)
    if rated is not None:
        clip = None if request.convention.rating_clip == "none" else evaluated.engine.rating_range(inputs)
        tables.add_ratings(rated, explained, clip)
    return Explanation(
        user=str(user),
        convention=str(request.convention),
        models=tuple(explained),
        **{name: tuple(rows) for name, rows in tables.by_name.items()},
    )


def _read(evaluated: Evaluated, table: str, user: Any, models: Sequence[str]) -> _UserRows:
    """The user's lists in a table of predictions, and the ground truth."""
    request, known, baseline = evaluated.request, evaluated.known, evaluated.request.compared_baseline
    metrics = _ranking(request) if table == "predictions" else []
    if baseline is not None and baseline not in models:
        models = [*models, baseline]
    user_request = replace(
        request,
        # Scores and ties are shown, of rows with and without ground truth. These metrics read them.
        metrics=(*metrics, parse("dr"), parse("auc(candidates=listed, ties=half)")),
        n_buckets=1,
        slices=SliceRequest((), {"user": (), "item": ()}, ()),
        intervals=Intervals(),
    )
    # The rows come with the side information of their items.
    user_known = replace(known, models=tuple(models), items_to_all=False, segments=None, bands={})
    inputs = evaluated.engine.inputs_of_user(evaluated.inputs, table, user)
    scoring = scoring_of(user_request, user_known, has_rank=inputs.has_rank, full_lists=False)
    if scoring is None:
        raise ValueError("there is no ranking metric")
    scoring = replace(scoring, trained="train" in request.tables_read)
    rows = evaluated.engine.rows_by_kind(inputs, user_known, user_request, scoring)
    bucket = read_bucket(rows[KIND_LIST], rows[KIND_TRUTH], scoring, SideRows(rows.get(KIND_TRAIN)))
    batch = bucket.batch
    if not batch.size:
        batch = RankedBatch.of([[]] * len(models), [{}] * len(models), n_items=scoring.n_items)
    return _UserRows(rows[KIND_LIST], rows[KIND_TRUTH], bucket.rows, batch, scoring)


def _ranking(request: Request) -> list[Metric]:
    return [metric for metric in request.metrics if metric.definition.kind == "ranking"]


@dataclass(frozen=True)
class _UserRows:
    """The user's lists and ground truth, as frames and as metrics read them: the batch has a cell for each model."""

    lists: pd.DataFrame
    truth: pd.DataFrame
    ranked: ListRows
    batch: RankedBatch
    scoring: Scoring

    def of_model(self, code: int) -> _RankedList:
        ranked = self.ranked.kept(self.ranked.cell == code)
        items = self.lists["item"].iloc[ranked.row].tolist()
        return _RankedList(items, ranked, self.truth, self.batch, code, self.scoring)


@dataclass(frozen=True)
class _RankedList:
    """The list of one model, by rank, with the items of its rows."""

    items: Sequence[Any]
    rows: ListRows
    truth: pd.DataFrame
    batch: RankedBatch
    cell: int
    scoring: Scoring

    @property
    def length(self) -> int:
        return int(self.batch.n_recommended[self.cell])

    def cut_after(self, lengths: Ints) -> RankedBatch:
        """A batch of pseudo-users: the user with the list cut after each of these ranks, and all else the same."""
        batch, size = self.batch, len(lengths)
        copy, hits = self._within(batch.hit_user, batch.hit_rank, lengths)
        ideal = np.flatnonzero(batch.ideal_user == self.cell)
        n_recommended = np.minimum(self.length, lengths)
        return replace(
            batch,
            n_relevant=np.repeat(batch.n_relevant[self.cell], size),
            n_recommended=n_recommended,
            hit_user=copy,
            hit_rank=batch.hit_rank[hits],
            hit_rating=batch.hit_rating[hits],
            ideal_user=np.repeat(np.arange(size), len(ideal)),
            ideal_rating=np.tile(batch.ideal_rating[ideal], size),
            n_judged=None if batch.n_judged is None else np.repeat(batch.n_judged[self.cell], size),
            matched=self._kept(batch.matched, lengths),
            list_scores=self._kept(batch.list_scores, lengths),
            candidates=self._candidates(batch.candidates, n_recommended),
            unseen_candidates=self._candidates(batch.unseen_candidates, self.n_unseen(n_recommended)),
            recommended=None if batch.recommended is None else self._kept(batch.recommended, lengths),
            ideal_item=None if batch.ideal_item is None else np.tile(batch.ideal_item[ideal], size),
        )

    def _within(self, user: Ints, rank: Ints, lengths: Ints) -> tuple[Ints, Ints]:
        """The pseudo-user and the position of each row within its cut list."""
        rows = np.flatnonzero(user == self.cell)
        copy, position = np.nonzero(rank[rows][None, :] <= lengths[:, None])
        return copy, rows[position]

    def _kept(self, part: Any, lengths: Ints) -> Any:
        copy, rows = self._within(part.user, part.rank, lengths)
        return replace(part.kept(rows), user=copy)

    def _candidates(self, among: Candidates | None, n_listed: Ints) -> Candidates | None:
        if among is None:
            return None
        copy, rows = self._within(among.user, among.position, n_listed)
        n_above = among.n_above[rows]
        return Candidates(
            n_listed=n_listed,
            n_relevant=np.repeat(among.n_relevant[self.cell], len(n_listed)),
            n_seen=np.repeat(among.n_seen[self.cell], len(n_listed)),
            user=copy,
            position=among.position[rows],
            n_above=n_above,
            # The rows of equal score after the cut are left out.
            n_tied=np.minimum(among.n_tied[rows], n_listed[copy] - n_above),
        )

    def n_unseen(self, lengths: Ints) -> Ints:
        """How many candidates that are not training rows each cut list has."""
        if self.batch.unseen_candidates is None or not self.scoring.trained:
            return lengths
        return np.append(0, self.rows.unseen_position)[np.searchsorted(self.rows.rank, lengths, side="right")]


class _Tables:
    """The tables of an `Explanation`."""

    def __init__(self, request: Request, *, has_ratings: bool) -> None:
        self.convention, self.has_ratings = request.convention, has_ratings
        self.ranking, self.rating = _ranking(request), request.rating_metrics
        self.by_name: dict[str, list[dict[str, Any]]] = {name: [] for name in ("rows", "counts", "values", "missed", "pairs")}

    def add_list(self, model: str, ranked: _RankedList, scoring: Scoring) -> None:
        """Add a list and the ranking metrics, which were computed with this scoring."""
        batch, cell, length = ranked.batch, ranked.cell, ranked.length
        full = length if scoring.k is None else min(length, scoring.k)
        # No metric reads rows after the largest cut-off, but positions among unseen candidates are smaller than ranks.
        longest = None if scoring.needs & {"candidates", "unseen_candidates"} else scoring.longest
        n_shown = min(full, N_SHOWN if longest is None else min(longest, N_SHOWN))
        cut = ranked.cut_after(np.array([*range(n_shown + 1), full], dtype=np.int64))
        n_truth = given(batch.n_judged, "n_judged")[cell]
        counts = {"n_recommended": length, "n_relevant": int(batch.n_relevant[cell]), "n_truth": int(n_truth)}
        self.by_name["counts"].append({"model": model, **counts})
        values_of = {metric: score(metric, cut, self.convention) for metric in self.ranking}
        for metric, values in values_of.items():
            reason = _reason(metric, ranked, cut, self.convention) if np.isnan(values[-1]) else None
            self._add_value(model, metric, float(values[-1]), reason, counts)
        shown = self._properties(ranked, n_shown)
        no_row = dict.fromkeys(shown[0]) if shown else {}
        lines = [(0, 0, no_row), *((rank, rank, row) for rank, row in enumerate(shown, 1)), (n_shown + 1, length, no_row)]
        for position, (rank, last_rank, row) in enumerate(lines):
            added = {str(metric): _difference(values, position) for metric, values in values_of.items()}
            if rank <= last_rank and (rank or any(added.values())):
                self.by_name["rows"].append({"model": model, "rank": rank, "last_rank": last_rank, **row, **added})
        self._add_missed(model, ranked, n_shown)

    def add_ratings(self, user_rows: _UserRows, models: Sequence[str], clip: tuple[float, float] | None) -> None:
        """Add the pairs of predicted and true ratings, and the rating metrics."""
        scoring = replace(user_rows.scoring, rating=tuple(self.rating), clip=clip)
        pairs, values = rating_pairs(user_rows.batch, scoring), rating_values(user_rows.batch, scoring)
        for code, model in enumerate(models):
            ranked, pairs_of_model = user_rows.of_model(code), pairs.kept(pairs.user == code)
            for rank, predicted, true in zip(pairs_of_model.rank, pairs_of_model.score, pairs_of_model.rating, strict=True):
                ratings = {"predicted": float(predicted), "true": float(true), "error": float(predicted) - float(true)}
                item = ranked.items[np.searchsorted(ranked.rows.rank, rank)]
                self.by_name["pairs"].append({"model": model, "item": item, **ratings})
            n_pairs = len(pairs_of_model.rank)
            reason = "all true ratings are equal" if n_pairs else "no pair of a predicted and a true rating"
            for metric in self.rating:
                self._add_value(model, metric, float(values[metric.slug][code]), reason, {"n_pairs": n_pairs})

    def _add_value(self, model: str, metric: Metric, value: float, reason: str | None, counts: Mapping[str, int]) -> None:
        undefined, rules = bool(np.isnan(value)), self.convention
        members = MEMBERS[RATED if metric.definition.kind == "rating" else metric.users(rules)]
        pooled = metric.definition.across_users or metric.average(rules) != "per_user"
        skipped = undefined and (pooled or rules.undefined == "skip" or metric.definition.skips_undefined)
        if skipped or any(counts[counter] == 0 for counter in members):
            in_mean = "left out"
        else:
            in_mean = "0" if undefined else "pooled" if pooled else "value"
        shown = {"value": None, "reason": reason} if undefined else {"value": value, "reason": None}
        self.by_name["values"].append({"model": model, "metric": str(metric), **shown, "in_mean": in_mean})

    def _properties(self, ranked: _RankedList, n_shown: int) -> list[dict[str, Any]]:
        """The first rows, without what they add to metrics."""
        batch, matched, rows = ranked.batch, given(ranked.batch.matched, "matched"), ranked.rows
        parts = (part for metric in self.ranking for part in metric.tree() if "gain" in part.definition.options)
        gain = next((part.options(self.convention)["gain"] for part in parts), self.convention.gain)
        hits = batch.hit_user == ranked.cell
        gains = dict(zip(batch.hit_rank[hits].tolist(), gain_of(batch.hit_rating[hits], gain).tolist(), strict=True))
        matched = matched.kept(matched.user == ranked.cell)
        ratings = dict(zip(matched.rank.tolist(), matched.rating.tolist(), strict=True))
        shows_seen = ranked.scoring.trained and ranked.scoring.needs & {"unseen_candidates", "history"}
        first, last = rows.ties
        return [
            {
                "item": ranked.items[row],
                "score": _defined(float(rows.score[row])),
                "n_tied": int(last[row] - first[row]),
                **({"seen": bool(rows.seen[row])} if shows_seen else {}),
                "judged": rank in ratings,
                "rating": _defined(ratings.get(rank)) if self.has_ratings else None,
                "hit": rank in gains,
                "gain": gains.get(rank, 0.0),
            }
            for rank, row in enumerate(np.searchsorted(rows.rank, np.arange(1, n_shown + 1)), 1)
        ]

    def _add_missed(self, model: str, ranked: _RankedList, n_shown: int) -> None:
        """Add the relevant items that are after the rows that are shown, or not in the list."""
        ranks: dict[Any, int] = {}
        for item, rank in zip(ranked.items, ranked.rows.rank.tolist(), strict=True):
            ranks.setdefault(item, rank)
        ratings: dict[Any, float] = {}
        relevant = ranked.truth[ranked.truth["rating"].notna()]
        for item, rating in zip(relevant["item"].tolist(), relevant["rating"].tolist(), strict=True):
            ratings[item] = max(rating, ratings.get(item, rating))
        self.by_name["missed"] += [
            {"model": model, "item": item, "rating": rating if self.has_ratings else None, "rank": ranks.get(item)}
            for item, rating in sorted(ratings.items())
            if item not in ranks or ranks[item] > n_shown
        ]


def _defined(value: float | None) -> float | None:
    return None if value is None or np.isnan(value) else value


def _difference(values: Floats, cut: int) -> float | None:
    """What a cut list gains over the previous one, the first one over 0. None if the value of the full list is undefined."""
    if np.isnan(values[-1]):
        return None
    filled = np.nan_to_num(values)
    return float(filled[cut] - filled[cut - 1] if cut else filled[0])


def _reason(metric: Metric, ranked: _RankedList, cut: RankedBatch, convention: Convention) -> str:
    """Why a ranking metric is undefined, from its needs. The last of the cut lists is the full one."""
    for part in metric.parts():
        if np.isnan(score(part, cut, convention)[-1]):
            return _reason(part, ranked, cut, convention)
    needs, within = metric.needs(convention), "" if metric.k is None else f" within {metric.k}"
    if needs & {"candidates", "unseen_candidates"}:
        listed = metric.options(convention).get("candidates") == "listed"
        among = cut.unseen_candidates if "unseen_candidates" in needs else cut.candidates
        n_candidates = 0 if among is None else int(np.sum(among.user == cut.size - 1) if listed else among.n_relevant[-1])
        return "no candidate to compare with" if n_candidates else "no relevant item among the candidates"
    if cut.n_relevant[-1] == 0 and (metric.definition.needs_relevant or "matched" not in needs):
        return "no relevant item" if ranked.length else "no list and no relevant item"
    if ranked.length == 0:
        return "no list"
    if "matched" in needs and cut.matched is not None:
        pairs = (cut.matched.user == cut.size - 1) & (cut.matched.rank <= (metric.k or ranked.length))
        return "the judged items of the list are all relevant or all non-relevant" if pairs.any() else f"no judged item{within}"
    # A metric that can be 0 is 0 without a hit.
    if cut.n_hits(metric.k)[-1] == 0 and metric.definition.lower != 0:
        return f"no relevant item{within}"
    return "0 / 0"
