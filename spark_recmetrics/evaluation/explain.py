"""Explain the values of one user: the list row by row, and what each row adds to each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import KIND_LIST, KIND_TRAIN, KIND_TRUTH
from spark_recmetrics.conventions import MEMBERS, RATED
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.metrics import Metric, RankedBatch, parse, score
from spark_recmetrics.metrics.arrays import Floats, Ints
from spark_recmetrics.metrics.batch import Candidates
from spark_recmetrics.metrics.ranking import gain_of
from spark_recmetrics.reports.explanation import explanation_text
from spark_recmetrics.request.intervals import Intervals
from spark_recmetrics.request.request import SliceRequest
from spark_recmetrics.request.scoring import Scoring
from spark_recmetrics.scoring.kernel import rating_pairs, rating_values, read_bucket
from spark_recmetrics.scoring.workers import scoring_of
from spark_recmetrics.side_info.packed import SideRows
from spark_recmetrics.text import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from spark_recmetrics.conventions import Convention
    from spark_recmetrics.evaluation.engine import Evaluated
    from spark_recmetrics.ranking.arrays import ListRows
    from spark_recmetrics.request.request import Request


N_SHOWN = 50
"""How many rows of a list are shown at most."""


@dataclass(frozen=True)
class Explanation:
    """What `Result.explain` found. Its text is a table for each model.

    Args:
        user: The user as text.
        convention: The definitions as text.
        models: The models that are explained.
        rows: The lists: `model, rank, last_rank, item, score, n_tied, judged, rating, hit, gain`, and for each ranking metric,
            by its text, what the row adds to the value, None where the value is undefined. `n_tied` is how many other items of
            the list have the same score. With training rows also `seen`. A row of rank 0 is the value of the empty list, where
            some is not 0; one with another `last_rank` sums up the rows that are not shown.
        counts: Of each model: `model, n_recommended, n_relevant, n_truth`, the first of the whole list.
        values: `model, metric, value, reason, in_mean`: reason says why a value is undefined; in_mean is `value`, `0`, `pooled`
            or `left out`.
        missed: The relevant items that no row shows: `model, item, rating, rank`, the rank None where the list lacks the item.
        pairs: With rating metrics: `model, item, predicted, true, error`.
        notes: What else has to be known.
    """

    user: str
    convention: str
    models: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    counts: tuple[Mapping[str, Any], ...]
    values: tuple[Mapping[str, Any], ...]
    missed: tuple[Mapping[str, Any], ...]
    pairs: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))

    def __str__(self) -> str:
        return explanation_text(self.user, self.convention, self.models, vars(self), self.notes)


def explain_user(evaluated: Evaluated, user: Any, model: str | None = None) -> Explanation:
    """The rows of one user's lists with what each adds to the value of each metric.

    The user's rows come to the driver and are ranked and scored there by the code of the workers. What a row adds is the value
    of the list cut after it less that of the list cut before it; ground truth, cut-offs, catalog and training rows stay as
    they are. An undefined value counts as 0 in a difference. Nothing is approximated.

    Args:
        evaluated: The evaluation.
        user: The user; ids are compared as strings.
        model: The model, None for all.

    Raises:
        ConfigError: There is no such model.
        DataError: The user is in neither the ground truth nor the predictions.
    """
    request, inputs, models = evaluated.request, evaluated.inputs, evaluated.known.models
    if model is not None and model not in models:
        raise ConfigError(f"unknown model {model!r}{did_you_mean(str(model), models)}")
    asked = list(models) if model is None else [model]
    rating_table = request.rating_table if request.rating_metrics else None
    ranked = _read(evaluated, "predictions", user, asked) if request.ranking_metrics else None
    if rating_table is None:
        rated = None
    elif ranked is not None and rating_table == "predictions":
        rated = ranked
    else:
        rated = _read(evaluated, rating_table, user, asked)
    tables = [table for table in (ranked, rated) if table is not None]
    there = any(table.lists or table.truth for table in tables)
    if not there and not evaluated.engine.is_predicted(inputs, evaluated.known, user):
        raise DataError(
            f"user {str(user)!r} is in neither truth nor predictions: ids are compared as strings; "
            "check the spelling, and PER_USER for the users that there are; where ids were read as numbers, 012 is 12"
        )
    rows = _Rows(request, has_ratings=inputs.has_ratings)
    if ranked is not None:
        for code, name in enumerate(asked):
            rows.add_list(name, ranked.of_model(code), evaluated.scored.scoring or ranked.scoring)
    if rated is not None:
        clip = None if request.convention.rating_clip == "none" else evaluated.engine.rating_range(inputs)
        rows.add_ratings(rated, asked, clip)
    return Explanation(
        user=str(user),
        convention=str(request.convention),
        models=tuple(asked),
        rows=tuple(rows.rows),
        counts=tuple(rows.counts),
        values=tuple(rows.values),
        missed=tuple(rows.missed),
        pairs=tuple(rows.pairs),
        notes=tuple(dict.fromkeys(rows.notes)),
    )


def _read(evaluated: Evaluated, table: str, user: Any, models: Sequence[str]) -> _Table:
    """The user's lists out of a table of predictions."""
    request, known = evaluated.request, evaluated.known
    ranking = [metric for metric in request.metrics if metric.definition.kind == "ranking"] if table == "predictions" else []
    # The lists of the baseline are needed next to those that are explained.
    models = [*models, *(name for name in (request.compared_baseline,) if name is not None and name not in models)]
    # What is shown has scores and ties, of rows that are judged and of rows that are not.
    shown = [parse("dr"), parse("auc(candidates=listed, ties=half)")]
    of_user = replace(
        request,
        metrics=(*ranking, *shown),
        n_buckets=1,
        slices=SliceRequest((), {"user": (), "item": ()}, ()),
        intervals=Intervals(),
    )
    # What is known of items comes with the rows.
    of_models = replace(known, models=tuple(models), items_to_all=False, segments=None, bands={})
    inputs = evaluated.engine.inputs_of_user(evaluated.inputs, table, user)
    scoring = scoring_of(of_user, of_models, has_rank=inputs.has_rank, full_lists=False)
    if scoring is None:
        raise ValueError("there is no ranking metric")
    scoring = replace(
        scoring, trained=evaluated.scored.scoring.trained if evaluated.scored.scoring else inputs.train is not None
    )
    return _Table.of(*evaluated.engine.rows_by_kind(inputs, of_models, of_user, scoring), scoring)


@dataclass(frozen=True)
class _Table:
    """The user's lists and truth, as rows and as the metrics see them: a cell for each model."""

    lists: Sequence[Mapping[str, Any]]
    truth: Sequence[Mapping[str, Any]]
    ranked: ListRows
    batch: RankedBatch
    scoring: Scoring

    @classmethod
    def of(
        cls, rows: Mapping[int, Sequence[Mapping[str, Any]]], columns: Mapping[int, Sequence[str]], scoring: Scoring
    ) -> _Table:
        # Numbers in the order of the items, by which ties are broken.
        items = sorted({row["item"] for of_kind in rows.values() for row in of_kind})
        number = {item: place for place, item in enumerate(items)}
        coded = {kind: _coded(of_kind, columns[kind], number) for kind, of_kind in rows.items()}
        found = read_bucket(coded[KIND_LIST], coded[KIND_TRUTH], scoring, SideRows(coded.get(KIND_TRAIN)))
        batch = found.batch
        if not batch.size:
            nobody: list[Any] = [[] for _ in range(scoring.n_models)]
            batch = RankedBatch.of(nobody, [{} for _ in nobody], n_items=scoring.n_items)
        return cls(rows[KIND_LIST], rows[KIND_TRUTH], found.rows, batch, scoring)

    def of_model(self, code: int) -> _List:
        """The list of one of the models."""
        ranked = self.ranked.kept(self.ranked.cell == code)
        return _List([self.lists[row]["item"] for row in ranked.row], ranked, self.truth, self.batch, code, self.scoring)


def _coded(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], number: Mapping[Any, int]) -> pd.DataFrame:
    """The rows with numbers for ids. What else is not there is null, and whole numbers stay as they are."""
    import pandas as pd

    ids = {"user": [0] * len(rows), "item": [number[row["item"]] for row in rows]}
    ids |= {"model": [row["model"] for row in rows]} if "model" in columns else {}
    others = {name: pd.Series([row[name] for row in rows], dtype=object) for name in columns if name not in ids}
    return pd.DataFrame({**{name: np.array(values, dtype=np.int64) for name, values in ids.items()}, **others})


@dataclass(frozen=True)
class _List:
    """The list of one model, by rank, with the items of its rows."""

    items: Sequence[Any]
    ranked: ListRows
    truth: Sequence[Mapping[str, Any]]
    batch: RankedBatch
    cell: int
    scoring: Scoring

    def n(self, counts: Any) -> int:
        """The model's own of (U,) counts."""
        return 0 if counts is None else int(counts[self.cell])

    @property
    def length(self) -> int:
        return self.n(self.batch.n_recommended)

    def cut_behind(self, lengths: Ints) -> RankedBatch:
        """A batch of pseudo-users: the user with the list cut behind each of these ranks, and all else the same."""
        batch, size = self.batch, len(lengths)
        copy, hits = self._within(batch.hit_user, batch.hit_rank, lengths)
        ideal = np.flatnonzero(batch.ideal_user == self.cell)
        n_recommended = np.minimum(self.length, lengths)
        return RankedBatch(
            n_relevant=np.repeat(batch.n_relevant[self.cell], size),
            n_recommended=n_recommended,
            hit_user=copy,
            hit_rank=batch.hit_rank[hits],
            hit_rating=batch.hit_rating[hits],
            ideal_user=np.repeat(np.arange(size), len(ideal)),
            ideal_rating=np.tile(batch.ideal_rating[ideal], size),
            n_judged=None if batch.n_judged is None else np.repeat(batch.n_judged[self.cell], size),
            n_items=batch.n_items,
            matched=self._kept(batch.matched, lengths),
            list_scores=self._kept(batch.list_scores, lengths),
            candidates=self._candidates(batch.candidates, n_recommended),
            unseen_candidates=self._candidates(batch.unseen_candidates, self.n_unseen(n_recommended)),
            recommended=None if batch.recommended is None else self._kept(batch.recommended, lengths),
            popularity=batch.popularity,
            n_categories=batch.n_categories,
            ideal_item=None if batch.ideal_item is None else np.tile(batch.ideal_item[ideal], size),
        )

    def _within(self, user: Ints, rank: Ints, lengths: Ints) -> tuple[Ints, Ints]:
        own = np.flatnonzero(user == self.cell)
        copy, place = np.nonzero(rank[own][None, :] <= lengths[:, None])
        return copy, own[place]

    def _kept(self, part: Any, lengths: Ints) -> Any:
        """The rows of `matched` or `listed` before each cut."""
        copy, places = self._within(part.user, part.rank, lengths)
        return replace(part.kept(places), user=copy)

    def at(self, rank: int) -> int:
        """The place of the row of this rank."""
        return int(np.searchsorted(self.ranked.rank, rank))

    def n_unseen(self, lengths: Ints) -> Ints:
        """How many candidates that are not training rows each cut list has."""
        if self.batch.unseen_candidates is None or not self.scoring.trained:
            return lengths
        return np.append(0, self.ranked.unseen_position)[np.searchsorted(self.ranked.rank, lengths, side="right")]

    def _candidates(self, among: Candidates | None, n_listed: Ints) -> Candidates | None:
        if among is None:
            return None
        copy, places = self._within(among.user, among.position, n_listed)
        above = among.n_above[places]
        return Candidates(
            n_listed=n_listed,
            n_relevant=np.repeat(among.n_relevant[self.cell], len(n_listed)),
            n_seen=np.repeat(among.n_seen[self.cell], len(n_listed)),
            user=copy,
            position=among.position[places],
            n_above=above,
            # Of the rows of equal score only those before the cut are left.
            n_tied=np.minimum(among.n_tied[places], n_listed[copy] - above),
        )


class _Rows:
    """What is found out, model by model."""

    def __init__(self, request: Request, *, has_ratings: bool) -> None:
        self.convention, self.has_ratings = request.convention, has_ratings
        self.ranking = [metric for metric in request.metrics if metric.definition.kind == "ranking"]
        self.rating = request.rating_metrics
        self.rows: list[dict[str, Any]] = []
        self.counts: list[dict[str, Any]] = []
        self.values: list[dict[str, Any]] = []
        self.missed: list[dict[str, Any]] = []
        self.pairs: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def add_list(self, model: str, own: _List, scoring: Scoring) -> None:
        """The rows of a list, and the ranking metrics.

        Args:
            model: The model.
            own: Its list.
            scoring: How PER_USER was scored.
        """
        whole = own.length if scoring.k is None else min(own.length, scoring.k)
        # Behind the largest cut-off there is nothing, but a place among unseen candidates is before the rank of that number.
        longest = None if scoring.needs & {"candidates", "unseen_candidates"} else scoring.longest
        n_shown = min(whole, N_SHOWN if longest is None else min(longest, N_SHOWN))
        lengths = np.array([*range(n_shown + 1), whole], dtype=np.int64)
        cut = own.cut_behind(lengths)
        steps = {str(metric): score(metric, cut, self.convention) for metric in self.ranking}
        counts = {"n_recommended": own.length, "n_relevant": own.n(own.batch.n_relevant), "n_truth": own.n(own.batch.n_judged)}
        self.counts.append({"model": model, **counts})
        for metric in self.ranking:
            value = float(steps[str(metric)][-1])
            why = _reason(metric, own, cut, self.convention) if np.isnan(value) else None
            self._add_value(model, metric, value, why, counts)
        facts = self._facts(own, n_shown)
        nothing = dict.fromkeys(facts[0]) if facts else {}
        empty = {name: _difference(values, 0) for name, values in steps.items()}
        if any(empty.values()):
            self.rows.append({"model": model, "rank": 0, "last_rank": 0, **nothing, **empty})
        for rank, known in enumerate(facts, 1):
            added = {name: _difference(values, rank) for name, values in steps.items()}
            self.rows.append({"model": model, "rank": rank, "last_rank": rank, **known, **added})
        if n_shown < own.length:
            added = {name: _difference(values, n_shown + 1) for name, values in steps.items()}
            self.rows.append({"model": model, "rank": n_shown + 1, "last_rank": own.length, **nothing, **added})
        self._add_missed(model, own, n_shown)

    def add_ratings(self, table: _Table, models: Sequence[str], clip: tuple[float, float] | None) -> None:
        """The pairs of predicted and true ratings, and the rating metrics."""
        scoring = replace(table.scoring, rating=tuple(self.rating), clip=clip)
        pairs, values = rating_pairs(table.batch, scoring), rating_values(table.batch, scoring)
        for code, model in enumerate(models):
            own = np.flatnonzero(pairs.user == code)
            rated = table.of_model(code)
            for place in own:
                predicted, true = float(pairs.score[place]), float(pairs.rating[place])
                item = rated.items[rated.at(int(pairs.rank[place]))]
                known = {"predicted": predicted, "true": true, "error": predicted - true}
                self.pairs.append({"model": model, "item": item, **known})
            for metric in self.rating:
                value = float(values[metric.slug][code])
                why = "no pair of a predicted and a true rating" if not len(own) else "all true ratings are equal"
                self._add_value(model, metric, value, why, {"n_pairs": len(own)})

    def _add_value(self, model: str, metric: Metric, value: float, why: str | None, counts: Mapping[str, int]) -> None:
        undefined, rules = np.isnan(value), self.convention
        members = MEMBERS[RATED if metric.definition.kind == "rating" else metric.users(rules)]
        pooled = metric.definition.across_users or metric.average(rules) != "per_user"
        skipped = undefined and (pooled or rules.undefined == "skip" or metric.definition.skips_undefined)
        if skipped or any(counts[counter] == 0 for counter in members):
            in_mean = "left out"
        else:
            in_mean = "0" if undefined else "pooled" if pooled else "value"
        found = {"value": None if undefined else value, "reason": why if undefined else None, "in_mean": in_mean}
        self.values.append({"model": model, "metric": str(metric), **found})

    def _facts(self, own: _List, n_shown: int) -> list[dict[str, Any]]:
        """What is known of the first rows beside what they add."""
        matched, batch = own.batch.matched, own.batch
        if matched is None:
            raise ValueError("the batch lacks its matched pairs")
        parts = (part for metric in self.ranking for part in metric.tree() if "gain" in part.definition.options)
        rule = next((part.options(self.convention)["gain"] for part in parts), self.convention.gain)
        mine = batch.hit_user == own.cell
        gains = dict(zip(batch.hit_rank[mine].tolist(), gain_of(batch.hit_rating[mine], rule).tolist(), strict=True))
        mine = matched.user == own.cell
        judged = dict(zip(matched.rank[mine].tolist(), matched.rating[mine].tolist(), strict=True))
        seen = np.diff(own.n_unseen(np.arange(n_shown + 1))) == 0
        found, (first, last) = [], own.ranked.ties
        for rank in range(1, n_shown + 1):
            row = own.at(rank)
            predicted = float(own.ranked.score[row])
            rating = judged.get(rank) if self.has_ratings else None
            found.append(
                {
                    "item": own.items[row],
                    "score": None if np.isnan(predicted) else predicted,
                    "n_tied": int(last[row] - first[row]),
                    **({"seen": bool(seen[rank - 1])} if own.scoring.trained else {}),
                    "judged": rank in judged,
                    "rating": None if rating is None or np.isnan(rating) else rating,
                    "hit": rank in gains,
                    "gain": gains.get(rank, 0.0),
                }
            )
        return found

    def _add_missed(self, model: str, own: _List, n_shown: int) -> None:
        """The relevant items behind the rows that are shown, or nowhere."""
        ranks: dict[Any, int] = {}
        for item, rank in zip(own.items, own.ranked.rank.tolist(), strict=True):
            ranks.setdefault(item, rank)
        relevant: dict[Any, float] = {}
        for row in own.truth:
            if row["rating"] is not None:
                relevant[row["item"]] = max(row["rating"], relevant.get(row["item"], row["rating"]))
        for item, rating in sorted(relevant.items()):
            place = ranks.get(item)
            if place is None or place > n_shown:
                self.missed.append(
                    {"model": model, "item": item, "rating": rating if self.has_ratings else None, "rank": place}
                )


def _difference(values: Floats, place: int) -> float | None:
    """What the list gains from one cut to the next, None where its whole value is undefined; the first one is its start."""
    if np.isnan(values[-1]):
        return None
    filled = np.nan_to_num(values)
    return float(filled[place] - filled[place - 1] if place else filled[0])


def _reason(metric: Metric, own: _List, cut: RankedBatch, convention: Convention) -> str:
    """Why a ranking metric is undefined, from what it declares to need; the last of the cut lists is the whole one."""
    for part in metric.parts():
        if np.isnan(score(part, cut, convention)[-1]):
            return _reason(part, own, cut, convention)
    needs, within = metric.needs(convention), "" if metric.k is None else f" within {metric.k}"
    n_relevant = int(cut.n_relevant[-1])
    if needs & {"candidates", "unseen_candidates"}:
        listed = metric.options(convention).get("candidates") == "listed"
        among = cut.unseen_candidates if "unseen_candidates" in needs else cut.candidates
        n_candidates = 0 if among is None else int(np.sum(among.user == cut.size - 1) if listed else among.n_relevant[-1])
        return "no candidate to compare with" if n_candidates else "no relevant item among the candidates"
    if n_relevant == 0 and (metric.definition.needs_relevant or "matched" not in needs):
        return "no relevant item" if own.length else "no list and no relevant item"
    if own.length == 0:
        return "no list"
    if "matched" in needs and cut.matched is not None:
        own_pairs = (cut.matched.user == cut.size - 1) & (cut.matched.rank <= (metric.k or own.length))
        return "all judged items of the list are alike" if own_pairs.any() else f"no judged item{within}"
    # A metric that can be 0 is 0 without a hit.
    if int(cut.n_hits(metric.k)[-1]) == 0 and metric.definition.lower != 0:
        return f"no relevant item{within}"
    return "0 / 0"
