"""The same evaluation in memory, for data that fits one machine: pandas frames in, and no Spark session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.bucket import Demand, Scoring, score_bucket
from spark_recmetrics.columns import PAIR_RANKS, PAIR_SCORES, PASSING, Columns, checked_columns
from spark_recmetrics.conventions import Convention
from spark_recmetrics.conventions import convention as named_convention
from spark_recmetrics.errors import ConfigError, DataError, brief, did_you_mean
from spark_recmetrics.facts import NEVER_MEET, Judge, checked_policies, data_report
from spark_recmetrics.means import N_EXAMPLES, Wanted, combined, means, nothing, part_totals, with_pairs
from spark_recmetrics.metrics import DEFAULT_K, DEFAULT_METRICS, Metric, RankedBatch, expand, score
from spark_recmetrics.metrics.batch import Floats, Ints, Matched, place_in_user
from spark_recmetrics.metrics.registry import LARGEST_CATALOG, whole_number
from spark_recmetrics.metrics.text import named_populations
from spark_recmetrics.outcome import Outcome, Run, refuse

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
        train: One row per (user, item) that the user had before, for metrics of unseen candidates.
        catalog_size: Number of items that could be recommended, for metrics that need it.
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
    for name, frame in {"predictions": predictions, "truth": truth, "train": train}.items():
        _check_frame(name, frame, optional=name == "train")
    if not isinstance(model_name, str) or not model_name:
        raise ConfigError(f"model_name: expected a text, found {brief(model_name)}")
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
    of_users = data.users.take(per_user["user"].to_numpy(np.int64))
    # The type is named because pandas would look for another one in objects.
    coded = per_user.assign(user=pd.Series(of_users, index=per_user.index, dtype=data.users.dtype))
    found = combined(part_totals(coded, Wanted.of(chosen, rules)).itertuples(index=False))
    totals = {name: found[code] for code, name in enumerate(data.models) if code in found}
    # A single user may be asked about here, and then a list without a truth row, or without a hit, is an answer.
    judge = Judge(
        checked_policies(dict.fromkeys(NEVER_MEET, "warn")),
        rules,
        {"predictions"} if demand.rating or demand.asked_by("listed") else (),
    )
    # Where nothing is ranked, nothing is said of lists.
    told = totals if ranking else {name: own | {"n_recommended": None, "n_matched": None} for name, own in totals.items()}
    in_both = data.items_in_both(told)
    facts = data_report(data.seen, told, data.models, judge, has_ratings=data.has_ratings, rated=bool(rating), in_both=in_both)
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
        per_user=coded.assign(model=coded["model"].map(dict(enumerate(data.models)))).drop(
            columns=list(PASSING), errors="ignore"
        ),
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
        lists = _chosen("predictions", predictions, modelled | ids | scored | by_rank, score=why)
        wanted = demand.rating or (None if threshold is None else "threshold")
        reasons = {"rating": wanted, "propensity": demand.asked_by("propensity")}
        told = {key: f"{asked} needs it" for key, asked in reasons.items() if asked}
        judged = _chosen("truth", truth, ids | rated | chance, **told)
        lists = _with_numbers("predictions", lists, scored | by_rank)
        judged = _with_numbers("truth", judged, rated | chance)
        tables = {"predictions": lists, "truth": judged, **({} if train is None else {"train": _chosen("train", train, ids)})}
        tables = _same_kind(tables, ids)
        lists, judged = tables["predictions"], tables["truth"]
        known = tables.get("train", judged.iloc[:0])
        if modelled:
            lists["model"] = lists["model"].map(str, na_action="ignore")
        models = sorted(set(lists["model"].dropna())) if modelled else [model_name]
        counts = {"predictions": _prediction_counts(lists), "truth": _truth_counts(judged, rules)}
        lists, judged, known = (
            frame.dropna(subset=[name for name in ("model", "user", "item") if name in frame])
            for frame in (lists, judged, known)
        )
        # Rows that will be refused are of no use, and nothing is divided by what they have, or squared.
        lists = lists[lists["rank"] >= 1] if by_rank else lists
        if scored and (demand.rating or demand.asked_by("listed")):
            lists = lists[~np.isinf(lists["score"].astype(np.float64))]
        judged = judged[_is_chance(judged["propensity"])] if chance else judged
        every_user = pd.concat([lists["user"], judged["user"], known["user"]], ignore_index=True)
        users = pd.Index(every_user.unique(), dtype=every_user.dtype)
        items = _in_order(pd.concat([lists["item"], judged["item"], known["item"]], ignore_index=True).unique())
        lists, judged, known = (
            # The type is named because pandas would look for another one in objects.
            frame.assign(
                user=users.get_indexer(pd.Index(frame["user"], dtype=frame["user"].dtype)),
                item=items.get_indexer(pd.Index(frame["item"], dtype=frame["item"].dtype)),
            )
            for frame in (lists, judged, known)
        )
        # Not by an index of pandas, to which texts are equal up to a null character.
        lists["model"] = (
            lists["model"].map({name: code for code, name in enumerate(models)}).astype(np.int64) if modelled else 0
        )
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

    def items_in_both(self, totals: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
        """Of models that predict no pair of truth: how many items of truth they predict at all, and how many there are."""
        items = self.truth["item"].unique()
        return {
            name: (int(np.isin(items, self.predictions["item"][self.predictions["model"] == code]).sum()), len(items))
            for code, name in enumerate(self.models)
            if name in totals and totals[name]["n_matched"] == 0 and totals[name]["users_truth_and_predicted"]
        }

    def ranked(self, scoring: Scoring) -> pd.DataFrame:
        """The rows that the kernels see: lists cut at k, or whole lists with places among candidates and ties."""
        import pandas as pd

        rows, rules = self.predictions, self.rules
        pairs = pd.MultiIndex.from_frame(self.truth[["user", "item"]])
        judged = pd.MultiIndex.from_frame(rows[["user", "item"]]).isin(pairs) | (rules.candidates != "judged")
        if self.has_rank:
            value = np.unique(rows["rank"].to_numpy(), return_inverse=True)[1]
        else:
            missing = -np.inf if rules.nan_scores == "first" else np.inf
            # Close whole or decimal scores would be ties as doubles, so their places among all scores are compared.
            places = np.unique(rows["score"].dropna().to_numpy(), return_inverse=True)[1]
            value = np.full(len(rows), missing)
            value[rows["score"].notna().to_numpy()] = -places
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
            rows["score"] = rows["score"].astype(np.float64)
        same = (cell[1:] == cell[:-1]) & (value[1:] == value[:-1]) & (judged[1:] == judged[:-1]) & (not self.has_rank)
        rows["tied"] = np.append(same, False)[: len(rows)] & rows["rank"].isin(scoring.cuts)
        if scoring.k is not None:
            cut = (rows["rank"] > scoring.k).to_numpy()
            if scoring.given_ranks:
                # The first row behind the cut tells whether ranks are missing before it.
                cut[1:] &= cut[:-1] & (cell[1:] == cell[:-1])
                cut[:1] = False
            return rows.loc[~cut]
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


def _check_frame(name: str, frame: object, *, optional: bool) -> None:
    import pandas as pd

    if not (isinstance(frame, pd.DataFrame) or (optional and frame is None)):
        found = f"{type(frame).__module__}.{type(frame).__name__}"
        raise ConfigError(f"{name}: expected a pandas DataFrame, found {found}: srm.evaluate takes frames of Spark")


def _chosen(table: str, frame: pd.DataFrame, names: Mapping[str, str], **reasons: str | None) -> pd.DataFrame:
    """The columns by our names. Why one is read is told where it is missing."""
    for key, name in names.items():
        if name not in frame:
            why = f" ({reasons[key]})" if reasons.get(key) else ""
            near = did_you_mean(name, map(str, frame.columns))
            raise DataError(f"{table}: no column {name!r} (columns.{key}){why}{near}")
        if (twins := list(frame.columns).count(name)) > 1:
            raise DataError(f"{table}: expected one column named {name!r} (columns.{key}), found {twins}: rename the others")
    return frame[list(names.values())].set_axis(list(names), axis=1).reset_index(drop=True)


def _with_numbers(table: str, rows: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """The rows, where these columns are numbers; of whatever type that they are in, unless Python objects have to be read."""
    for key, name in names.items():
        column = rows[key]
        if column.dtype.kind in "iuf":
            if not isinstance(column.dtype, np.dtype):
                # Types of pandas that know a missing value compare as three-valued logic.
                rows = rows.assign(**{key: column.to_numpy(np.float64) if column.isna().any() else column.to_numpy()})
            continue
        # As on Spark True is no number, although it is one of Python's.
        wrong = [value for value in column.dropna() if not isinstance(value, Number) or isinstance(value, bool | complex)]
        whole = "" if key != "rank" else "whole "
        if column.dtype.kind != "O" or wrong:
            found = brief(wrong[0]) if wrong else str(column.dtype)
            raise DataError(f"{table}: column {name!r} (columns.{key}): expected {whole}numbers, found {found}: cast it first")
        column = column.where(column.notna(), np.nan)
        try:
            doubles = column.astype(np.float64)
        except OverflowError as error:
            told = f"{table}: column {name!r} (columns.{key}): expected numbers that a double can hold, found larger ones"
            raise DataError(f"{told}: scale them down") from error
        if key != "score" or column.dtype != object:
            column = doubles
        rows = rows.assign(**{key: column})
    if "rank" in names:
        rank = rows["rank"].dropna().astype(np.float64)
        broken = rank[(rank % 1 != 0) | (rank.abs() >= 2.0**63)]
        if len(broken):
            told = (
                f"{table}: column {names['rank']!r} (columns.rank): expected whole numbers of 64 bits, found {broken.iloc[0]}"
            )
            raise DataError(f"{told}: ranks count from 1")
    return rows


def _same_kind(frames: Mapping[str, pd.DataFrame], ids: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """The frames with ids that can be compared. Refused are ids that are floating point numbers, and those of several kinds."""
    found = dict(frames)
    for key, name in ids.items():
        sides = {table: _kind(table, frame[key], f"column {name!r} (columns.{key})") for table, frame in frames.items()}
        sides = {table: kind for table, kind in sides.items() if kind}
        if len(set(sides.values())) > 1:
            told = ", ".join(f"{kind} in {table}" for table, kind in sides.items())
            raise DataError(
                f"column {name!r} (columns.{key}): expected one type on all sides, found {told}: cast one of them first"
            )
        types = {frame[key].dtype for frame in found.values()}
        if len(types) > 1 and not all(isinstance(kind, np.dtype) and kind.kind == "i" for kind in types):
            # Of whole numbers of different types pandas would make floats, in which close ids are equal.
            found = {table: frame.assign(**{key: _objects(frame[key])}) for table, frame in found.items()}
    return found


def _kind(table: str, ids: pd.Series[Any], where: str) -> str | None:
    """What the ids of a column are, None where there is none."""
    known = ids.dropna()
    if not len(known) or ids.dtype.kind in "iu":
        return "whole numbers" if len(known) else None
    # pandas makes floats of whole numbers beside a missing one.
    if ids.dtype.kind == "f" and ids.isna().any() and not (known % 1 != 0).any():
        return "whole numbers"
    names = sorted({_type_name(kind) for kind in known.map(type).unique()})
    if len(names) > 1:
        raise DataError(f"{ids.name}s: expected ids of one kind, found {', '.join(names)}: cast them to one type first")
    if names[0] not in _KINDS:
        raise DataError(f"{table}: {where}: expected whole numbers or texts as ids, found {names[0]}: cast them first")
    return _KINDS[names[0]]


_KINDS = {"int": "whole numbers", "str": "str", "Decimal": "Decimal"}
"""What an id can be, by the type of its values, as on Spark: True would be the same id as 1, and a float is never quite one."""


def _type_name(kind: type) -> str:
    if issubclass(kind, str):
        return "str"
    return "int" if issubclass(kind, int | np.integer) and kind is not bool else kind.__name__


def _objects(ids: pd.Series[Any]) -> pd.Series[Any]:
    """Ids as Python objects, with whole numbers among them that pandas has made floats."""
    found = ids.astype(object)
    return found.map(int, na_action="ignore").astype(object) if ids.dtype.kind == "f" else found


def _in_order(ids: Any) -> pd.Index[Any]:
    import pandas as pd

    try:
        ordered = sorted(ids)
    except TypeError as error:
        raise DataError(f"items: expected whole numbers or texts as ids, found {type(ids[0]).__name__}") from error
    found: pd.Index[Any] = pd.Index(ordered, dtype=ids.dtype)
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
