"""The side information of an evaluation in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from spark_recmetrics.columns import ABOUT_ITEM, ITEM_GROUPS
from spark_recmetrics.inputs.memory import (
    MemoryInputs,
    cast_ids,
    clean_train,
    example_in_errors,
    ids_to_pandas,
    to_pandas,
    type_of_arrow,
)
from spark_recmetrics.metrics.arrays import numbered
from spark_recmetrics.metrics.recommended_items import Popularity, category_bits
from spark_recmetrics.request.needs import POPULARITY_NEEDS
from spark_recmetrics.request.request import Request
from spark_recmetrics.side_info.bands_memory import learn_bands, learn_groups
from spark_recmetrics.side_info.checks import check_categories, check_item_features, repeated_ids
from spark_recmetrics.side_info.known import Descriptions, GroupRows, Known, catalog_size, item_summary, models_of
from spark_recmetrics.side_info.packed import pack
from spark_recmetrics.side_info.vectors import categories_of, feature_vectors


def learn(inputs: MemoryInputs, request: Request) -> Known[pd.DataFrame]:
    """The side information of an evaluation."""
    with_model = [rows for rows in inputs.predicted.values() if "model" in rows.column_names]
    models = models_of(request, with_model, lambda rows: rows["model"].unique().drop_null().to_pylist())
    n_items = catalog_size(request, inputs.catalog, len)
    with example_in_errors():
        groups = learn_groups(inputs, request)
        described = _descriptions(inputs, request)
        trained, popularity = _popularity(inputs, request)
        bands = learn_bands(inputs, request.slices, request.columns)
    return Known(
        models=models,
        n_items=n_items,
        summary=item_summary(popularity, described, groups),
        items=_items(trained, described, groups),
        group_sizes=groups.sizes,
        segments=groups.segments,
        bands=bands,
    )


def _popularity(inputs: MemoryInputs, request: Request) -> tuple[pd.DataFrame | None, Popularity | None]:
    """`item, n_rows, n_users` of the training rows, and the popularity of all items; None if no metric needs them."""
    needs = request.needs.all
    if inputs.train is None or not POPULARITY_NEEDS & needs:
        return None, None
    train = to_pandas(clean_train(inputs.train))
    (user,), users = numbered(train["user"])
    (item,), items = numbered(train["item"])
    pairs = np.unique(item * max(len(users), 1) + user)
    n_rows, n_users = np.bincount(item), np.bincount(pairs // max(len(users), 1))
    counts, n_items = np.unique(n_rows, return_counts=True)
    popularity = Popularity.of_train(counts.tolist(), n_items.tolist(), len(users) if "audience" in needs else 0)
    return pd.DataFrame({"item": items, "n_rows": n_rows, "n_users": n_users}), popularity


def _descriptions(inputs: MemoryInputs, request: Request) -> Descriptions | None:
    """Features and categories of items; None if no metric needs them."""
    table, columns, needs = inputs.features, request.columns, request.needs.all
    if table is None:
        return None
    items = cast_ids(table.column(columns.item), type_of_arrow(inputs.truth["item"].type))
    has_id = items.is_valid().to_numpy()
    rows: dict[str, Any] = {"item": ids_to_pandas(items.filter(has_id))}
    n_repeated, examples = repeated_ids(rows["item"])
    counts: dict[str, Any] = {"rows": len(rows["item"]), "items": len(rows["item"]) - n_repeated}
    if "features" in needs:
        vectors = [vector for vector, kept in zip(feature_vectors(table, columns.features), has_id, strict=True) if kept]
        lengths = [vector.length for vector in vectors if vector.length is not None]
        counts |= {"shortest": min(lengths, default=None), "longest": max(lengths, default=None)}
        counts["misplaced"] = sum(vector.misplaced for vector in vectors)
        counts["broken"] = sum(not np.isfinite(vector.numbers).all() for vector in vectors if vector.numbers is not None)
        rows["features"] = [vector.numbers for vector in vectors]
    if "categories" in needs:
        cells = categories_of(table, columns.categories)
        rows["categories"] = [cell for cell, kept in zip(cells, has_id, strict=True) if kept]
    check_item_features(counts, examples)
    names = tuple(sorted({name for cell in rows.get("categories", []) for name in cell}))
    check_categories(names)
    return Descriptions(_frame(rows), counts["items"], counts.get("longest") or 0, names)


def _items(trained: pd.DataFrame | None, described: Descriptions | None, groups: GroupRows) -> pd.DataFrame | None:
    """`item`, `ABOUT_ITEM` as workers get it, and `ITEM_GROUPS`; None if no metric needs them."""
    tables = [trained, None if described is None else described.rows, groups.items]
    if all(table is None for table in tables):
        return None
    no_rows = _frame({"item": []})
    codes, ids = numbered(*((no_rows if table is None else table)["item"] for table in tables))
    numbers = np.zeros((len(ids), 2), dtype=np.int64)
    features = np.full((len(ids), 0 if described is None else described.n_features), np.nan)
    of_items: list[Any] = [np.zeros(0, dtype=np.int64)] * len(ids)
    if trained is not None:
        numbers[codes[0]] = trained[["n_rows", "n_users"]].to_numpy(np.int64)
    if described is not None and described.n_features:
        for row, vector in zip(codes[1], described.rows["features"], strict=True):
            features[row] = np.nan if vector is None else vector
    if described is not None and described.categories:
        bits = category_bits(described.rows["categories"].tolist(), list(described.categories))
        of_all = np.zeros((len(ids), bits.shape[1]), dtype=np.int64)
        of_all[codes[1]] = bits
        numbers = np.column_stack([numbers, of_all])
    if groups.items is not None:
        for row, indexes in zip(codes[2], groups.items[ITEM_GROUPS], strict=True):
            of_items[row] = indexes
    return _frame({"item": ids, ABOUT_ITEM: pack(numbers, features, of_items), ITEM_GROUPS: of_items})


def _frame(columns: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
