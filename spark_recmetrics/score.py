"""Score users: both sides cogrouped by bucket, thousands of users of every model in one vectorised call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, LongType, StructField, StructType

from spark_recmetrics.conventions import Convention
from spark_recmetrics.metrics import DEFINITIONS, Definition, Metric, RankedBatch, score
from spark_recmetrics.metrics.batch import place_in_user
from spark_recmetrics.metrics.ranking import raw_gain
from spark_recmetrics.schema import USER_COUNTERS

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Scoring:
    """What the workers need to know.

    Args:
        metrics: Ranking metrics to compute, each a column.
        definitions: Theirs and those of their parts, because a metric that was registered in a notebook or script is known
            to the driver only.
        convention: Their definitions.
        n_models: Number of models; every user gets a row for each.
        k: The largest cut-off, None for whole lists.
        given_ranks: The ranks came with the predictions, so they are checked to run 1, 2, 3, …
    """

    metrics: tuple[Metric, ...]
    definitions: tuple[Definition, ...]
    convention: Convention
    n_models: int
    k: int | None
    given_ranks: bool


def score_users(ranked: DataFrame, truth: DataFrame, scoring: Scoring) -> DataFrame:
    """Per-user values of every ranking metric.

    Args:
        ranked: `bucket, [model,] user, item, rank`; each list cut at the largest k, but whole where only judged items count.
        truth: `bucket, user, item, rating`, the rating null where the row is not relevant.
        scoring: Metrics and their definitions.

    Returns:
        One row per model and user of truth or predictions: `model` (its place in the list of models), `user`, the
        counters of `schema.USER_COUNTERS`, and one nullable double per metric, named by its slug.
    """
    schema = StructType(
        [
            StructField("model", IntegerType()),
            StructField("user", truth.schema["user"].dataType),
            *(StructField(name, LongType()) for name in USER_COUNTERS),
            *(StructField(metric.slug, DoubleType()) for metric in scoring.metrics),
        ]
    )

    def of_bucket(lists: pd.DataFrame, relevant: pd.DataFrame) -> pd.DataFrame:
        return score_bucket(lists, relevant, scoring)

    kept = [column for column in ("model", "user", "item", "rank") if column in ranked.columns]
    scored = (
        ranked.select("bucket", *kept)
        .groupBy("bucket")
        .cogroup(truth.select("bucket", "user", "item", "rating").groupBy("bucket"))
        .applyInPandas(of_bucket, schema)
    )
    # A Connect client (seen on 4.2) reports the observations of the left side of a cogroup alone. It does look into both sides
    # of a union, and the optimiser removes this one, because its other side is empty.
    nobody = truth.where(F.lit(False)).select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in schema))
    return scored.union(nobody)


def named_models(per_user: DataFrame, models: Sequence[str]) -> DataFrame:
    """PER_USER with the models' names in place of their places in the list."""
    names = F.array(*(F.lit(model) for model in models))
    return per_user.withColumn("model", F.element_at(names, F.col("model") + 1))


def score_bucket(lists: pd.DataFrame, truth: pd.DataFrame, scoring: Scoring) -> pd.DataFrame:
    """The rows of PER_USER for one bucket of users. Runs on the workers."""
    import pandas as pd

    DEFINITIONS.update({definition.name: definition for definition in scoring.definitions})
    (list_user, truth_user), users = _numbered(lists["user"], truth["user"])
    (list_item, truth_item), items = _numbered(lists["item"], truth["item"])
    n_users, n_items = len(users), max(len(items), 1)
    n_cells = scoring.n_models * n_users
    model = lists["model"].to_numpy(np.int64) if "model" in lists else 0
    cell = model * n_users + list_user
    rank = lists["rank"].to_numpy(np.int64)

    key, rating, repeated = _distinct(truth_user * n_items + truth_item, truth["rating"].to_numpy(np.float64))
    wanted = list_user * n_items + list_item
    place = np.searchsorted(key, wanted)
    place[place == len(key)] = 0
    matched = key[place] == wanted if len(key) else np.zeros(len(wanted), dtype=bool)
    list_rating = np.full(len(wanted), np.nan)
    list_rating[matched] = rating[place[matched]]

    if scoring.convention.candidates == "judged":
        # Only what stands on both sides exists, so each model has its own truth.
        truth_cell, truth_rating = cell[matched], list_rating[matched]
        kept = matched if scoring.k is None else matched & (rank <= scoring.k)
        cell, rank, list_item, list_rating = cell[kept], rank[kept], list_item[kept], list_rating[kept]
    else:
        start = np.arange(scoring.n_models, dtype=np.int64) * n_users
        truth_cell = (start[:, None] + key // n_items).ravel()
        truth_rating = np.tile(rating, scoring.n_models)

    batch = _batch(n_cells, cell, rank, list_rating, truth_cell, truth_rating)
    counters = {
        "n_relevant": batch.n_relevant,
        "n_truth": np.bincount(truth_cell, minlength=n_cells),
        "n_recommended": batch.n_recommended,
        "n_duplicates": _repeats(cell * n_items + list_item, n_cells, n_items),
        "n_truth_duplicates": np.tile(np.bincount(truth_user[repeated], minlength=n_users), scoring.n_models),
        "n_rank_faults": _rank_faults(cell, rank, n_cells) if scoring.given_ranks else np.zeros(n_cells, dtype=np.int64),
        "n_negative_gains": np.bincount(batch.ideal_user[_negative(batch.ideal_rating, scoring)], minlength=n_cells),
    }
    return pd.DataFrame(
        {
            "model": np.repeat(np.arange(scoring.n_models, dtype=np.int32), n_users),
            "user": users[np.tile(np.arange(n_users), scoring.n_models)],
            **counters,
            **{metric.slug: score(metric, batch, scoring.convention) for metric in scoring.metrics},
        }
    )


def _numbered(*columns: pd.Series[Any]) -> tuple[list[Any], Any]:
    """Numbers from 0 for the ids of all columns together: the numbers of each column, and the ids by number."""
    import pandas as pd
    import pyarrow as pa

    # An empty side has no type of its own and would turn the other side's ids into objects.
    values = [column.to_numpy() for column in columns]
    filled = [value for value in values if len(value)] or values[:1]
    joined = np.concatenate(filled)
    if joined.dtype == object:
        # pandas tells texts apart only up to a NUL character.
        encoded = pa.array(joined).dictionary_encode()
        codes, ids = encoded.indices.to_numpy(), encoded.dictionary.to_numpy(zero_copy_only=False)
    else:
        codes, ids = pd.factorize(joined)
    ends = np.cumsum([len(value) for value in values])
    return np.split(codes.astype(np.int64), ends[:-1]), ids


def _distinct(key: Any, rating: Any) -> tuple[Any, Any, Any]:
    """Truth as a set, sorted by key: keys, the highest rating of each (NaN is lowest), and which rows were repeats."""
    order = np.argsort(key, kind="stable")
    repeats = key[order][1:] == key[order][:-1]
    if repeats.any():
        order = np.lexsort((-rating, key))
        repeats = key[order][1:] == key[order][:-1]
    first = np.concatenate([np.ones(min(len(key), 1), dtype=bool), ~repeats])
    return key[order][first], rating[order][first], order[~first]


def _batch(n_cells: int, cell: Any, rank: Any, list_rating: Any, truth_cell: Any, truth_rating: Any) -> RankedBatch:
    hit = np.flatnonzero(~np.isnan(list_rating))
    hit = hit[np.lexsort((rank[hit], cell[hit]))]
    relevant = np.flatnonzero(~np.isnan(truth_rating))
    relevant = relevant[np.lexsort((-truth_rating[relevant], truth_cell[relevant]))]
    return RankedBatch(
        n_relevant=np.bincount(truth_cell[relevant], minlength=n_cells),
        n_recommended=np.bincount(cell, minlength=n_cells),
        hit_user=cell[hit],
        hit_rank=rank[hit],
        hit_rating=list_rating[hit],
        ideal_user=truth_cell[relevant],
        ideal_rating=truth_rating[relevant],
    )


def _repeats(key: Any, n_cells: int, n_items: int) -> Any:
    """(n_cells,) how many recommendations of a cell repeat an item of its list."""
    ordered = np.sort(key)
    return np.bincount(ordered[1:][ordered[1:] == ordered[:-1]] // n_items, minlength=n_cells)


def _rank_faults(cell: Any, rank: Any, n_cells: int) -> Any:
    """(n_cells,) how many rows of a cell have another rank than their place in the list."""
    order = np.lexsort((rank, cell))
    wrong = rank[order] != place_in_user(cell[order], n_cells)
    return np.bincount(cell[order][wrong], minlength=n_cells)


def _negative(rating: Any, scoring: Scoring) -> Any:
    """Which ratings have a gain below 0, or too large to be a number, for some metric in use."""
    negative = np.zeros(len(rating), dtype=bool)
    for metric in scoring.metrics:
        for part in metric.tree():
            gains = raw_gain(rating, part.options(scoring.convention).get("gain", "binary"))
            negative |= ~((gains >= 0) & (gains < np.inf))
    return negative
