"""What is known of items, in memory: the same columns of lists as `known_items` and `catalog` give on Spark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import ITEM_COUNTS, ITEM_MODELS, ITEM_WEIGHTS
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.metrics.counting import check_counts, counts_of, item_columns
from spark_recmetrics.metrics.items import ItemCounts
from spark_recmetrics.metrics.recommended import ItemFacts, Popularity, category_bits

if TYPE_CHECKING:
    import pandas as pd

    from spark_recmetrics.columns import Columns


def with_popularity(lists: pd.DataFrame, train: pd.DataFrame, n_items: int, facts: ItemFacts) -> tuple[pd.DataFrame, ItemFacts]:
    """The lists with `n_rows` and `n_users` of their items, and what is known of all items.

    Args:
        lists: `item`, a number below that of items.
        train: `user, item` as numbers, with repeats.
        n_items: The number of items.
        facts: What else is known of them.
    """
    n_rows = np.bincount(train["item"], minlength=n_items)
    n_users = np.bincount(train.drop_duplicates()["item"], minlength=n_items)
    counts, n_of = np.unique(n_rows[n_rows > 0], return_counts=True)
    popularity = Popularity.of_train(counts.tolist(), n_of.tolist(), int(train["user"].nunique()))
    return lists.assign(n_rows=n_rows[lists["item"]], n_users=n_users[lists["item"]]), replace(facts, popularity=popularity)


def description_columns(needs: Collection[str], columns: Columns) -> dict[str, str]:
    """The columns of item features that are needed, by our names."""
    found = {"features": columns.features} if "features" in needs else {}
    return found | ({"categories": columns.categories} if {"categories", "true_categories"} & set(needs) else {})


def with_descriptions(
    lists: pd.DataFrame, truth: pd.DataFrame, table: pd.DataFrame, n_items: int
) -> tuple[pd.DataFrame, pd.DataFrame, ItemFacts]:
    """The lists, and truth, with features and categories of their items, and what is known of all items.

    Args:
        lists: `item`, a number below that of items.
        truth: The same.
        table: `item`, -1 where it is none of them, and `features` or `categories`.
        n_items: The number of items.

    Raises:
        DataError: An item stands in the table twice, or vectors have several lengths or are not all finite numbers.
    """
    repeated = table["item"][table["item"] >= 0].duplicated()
    if repeated.any():
        more = int(repeated.sum())
        raise DataError(f"item_features: expected one row for each item, found {more} more: decide which row counts")
    size, names, found = 0, list[str](), dict[str, Any]()
    place = table["item"].to_numpy(np.int64)
    if "features" in table:
        vectors = [None if own is None or np.ndim(own) == 0 else np.asarray(own, dtype=np.float64) for own in table["features"]]
        lengths = sorted({len(own) for own in vectors if own is not None})
        if len(lengths) != 1 or not all(np.isfinite(own).all() for own in vectors if own is not None):
            raise DataError(f"item_features: expected finite feature vectors of one length, found the lengths {lengths}")
        size = lengths[0]
        # One more row than items takes what is no item of lists or truth.
        matrix = np.full((n_items + 1, size), np.nan)
        matrix[place] = [np.full(size, np.nan) if own is None else own for own in vectors]
        matrix[-1] = np.nan
        found = {f"feature_{column}": matrix[:, column] for column in range(size)}
    if "categories" in table:
        groups = [_several(own) for own in table["categories"]]
        names = sorted({name for own in groups for name in own})
        bits = category_bits(groups, names)
        codes = np.zeros((n_items + 1, bits.shape[1]), dtype=np.int64)
        codes[place] = bits
        codes[-1] = 0
        found |= {f"categories_{block}": codes[:, block] for block in range(bits.shape[1])}
    of_categories = {name: values for name, values in found.items() if name.startswith("categories_")}
    lists = lists.assign(**{name: values[lists["item"]] for name, values in found.items()})
    truth = truth.assign(**{name: values[truth["item"]] for name, values in of_categories.items()})
    return lists, truth, ItemFacts(n_features=size, n_categories=len(names))


def counts_in_memory(per_user: pd.DataFrame, n_counted: int, n_items: int | None) -> dict[tuple[int, int], ItemCounts]:
    """By model and place among what is counted, how often items stand in the lists.

    Args:
        per_user: PER_USER with the arrays of `metrics.counting.count_items`.
        n_counted: How many things are counted.
        n_items: Size of the catalogue, where it is known.

    Raises:
        DataError: Lists have more items than the catalogue.
    """
    if not n_counted or not len(per_user):
        return {}
    arrays = {name: per_user[name].iloc[0] for name in item_columns(n_counted)}
    rows = []
    for place in range(n_counted):
        count, weight = arrays[f"{ITEM_COUNTS}{place}"], arrays[f"{ITEM_WEIGHTS}{place}"]
        for model in np.unique(arrays[ITEM_MODELS]):
            own = (arrays[ITEM_MODELS] == model) & (count > 0)
            for value in np.unique(count[own]):
                same = own & (count == value)
                known = {"model": int(model), "place": place, "count": int(value), "known": True}
                rows.append({**known, "n": int(same.sum()), "together": float((weight[same] ** 2).sum())})
    counts = counts_of(rows, n_items)
    check_counts(counts)
    return counts


def _several(own: Any) -> list[str]:
    """The categories of an item, of which it may have one, several or none."""
    if own is None or (isinstance(own, float) and np.isnan(own)):
        return []
    return [str(own)] if isinstance(own, str | int) else [str(name) for name in own if name is not None]


def baseline_of(models: Sequence[str], baseline: str | None) -> int | None:
    """The place of the baseline among the models.

    Raises:
        ConfigError: It is none of them.
    """
    if baseline is None:
        return None
    if baseline not in models:
        raise ConfigError(f"baseline: expected one of {', '.join(models)}, found {baseline!r}")
    return list(models).index(baseline)
