"""Learn what metrics and slices need to know besides lists and ground truth, in memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import ABOUT_ITEM, ITEM_GROUPS, Side
from spark_recmetrics.errors import DataError
from spark_recmetrics.inputs.contract import ColumnType
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
from spark_recmetrics.metrics.group_sums import GroupSizes, groupings_of, user_columns
from spark_recmetrics.metrics.recommended_items import Popularity, category_bits
from spark_recmetrics.request.needs import POPULARITY_NEEDS
from spark_recmetrics.request.slices import Band, Slice
from spark_recmetrics.side_info.bands_memory import check_bands, know_bands, read_bands
from spark_recmetrics.side_info.descriptions import beyond_one, check_categories, check_descriptions
from spark_recmetrics.side_info.known import Bands, Descriptions, GroupRows, Known, item_summary, models_of
from spark_recmetrics.side_info.packed import pack
from spark_recmetrics.side_info.vectors import categories_of, feature_vectors

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from spark_recmetrics.request.request import Request


def learn(inputs: MemoryInputs, request: Request) -> Known[pd.DataFrame]:
    """What is known of models, items, groups and slices.

    Raises:
        ConfigError: The baseline is none of the models.
        DataError: The catalog is empty, or a table of users or items cannot be used.
    """
    models = models_of(request, _models_in(inputs))
    n_items = request.catalog_size
    if request.needs.first_with("catalog") and inputs.catalog is not None:
        n_items = len(inputs.catalog)
    if n_items == 0:
        raise DataError("catalog: expected rows with an item, found none: check its location and filters")
    ids: dict[Side, ColumnType] = {
        "user": type_of_arrow(inputs.truth["user"].type),
        "item": type_of_arrow(inputs.truth["item"].type),
    }
    with example_in_errors():
        groups = _groups(inputs, request, ids)
        described = _descriptions(inputs, request, ids["item"])
        trained, popularity = _popularity(inputs, request)
        bands = know_bands(inputs, ids, request.slices, request.columns)
    return Known(
        models=models,
        n_items=n_items,
        summary=item_summary(popularity, described, groups),
        items=_items(trained, described, groups),
        group_sizes=groups.sizes,
        segments=groups.segments,
        bands=bands,
    )


def _models_in(inputs: MemoryInputs) -> Callable[[], list[str]] | None:
    tables = [rows for rows in inputs.predicted.values() if "model" in rows.column_names]
    if not tables:
        return None
    return lambda: sorted({name for rows in tables for name in rows["model"].unique().to_pylist() if name is not None})


def _popularity(inputs: MemoryInputs, request: Request) -> tuple[pd.DataFrame | None, Popularity | None]:
    """`item, n_rows, n_users` of the training rows, and how popular all items are."""
    import pandas as pd

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


def _frame(columns: dict[str, Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def _groups(inputs: MemoryInputs, request: Request, ids: dict[Side, ColumnType]) -> GroupRows:
    """The groups that metrics name, and how many items each has."""
    of_users = user_columns(request.measured)
    of_items = list(dict.fromkeys(one.column for one in groupings_of(request.measured) if one.column is not None))
    segments = items = None
    if of_users:
        rows = _group_bands("user", of_users, inputs, request, ids)
        segments = rows[["user"]].copy()
        for position, name in enumerate(of_users):
            segments[f"segment_{position}"] = rows[Band(name).column]
    if not of_items:
        return GroupRows(segments=segments)
    rows = _group_bands("item", of_items, inputs, request, ids)
    of_column = {name: [_groups_of(cell) for cell in rows[Band(name).column]] for name in of_items}
    sizes = {
        name: dict(sorted(Counter(group for cell in cells for group in cell).items())) for name, cells in of_column.items()
    }
    names = tuple((name, group) for name, groups in sizes.items() for group in groups)
    number = {pair: place for place, pair in enumerate(names)}
    positions = [
        np.array([number[name, group] for name in of_items for group in of_column[name][row]], dtype=np.int64)
        for row in range(len(rows))
    ]
    items = _frame({"item": rows["item"], ITEM_GROUPS: positions})
    return GroupRows(items, names, segments, GroupSizes(sizes, len(rows)))


def _groups_of(cell: Any) -> list[str]:
    """The groups in a cell, each once."""
    several = cell if isinstance(cell, list) else [cell]
    return [group for group in dict.fromkeys(several) if group is not None]


def _group_bands(
    side: Side, names: list[str], inputs: MemoryInputs, request: Request, ids: dict[Side, ColumnType]
) -> pd.DataFrame:
    table = inputs.segments if side == "user" else inputs.groups
    bands = [Band(name) for name in names]
    rows = read_bands(side, table, (request.columns.ids(side), ids[side]), bands, key="groups")
    check_bands(Bands(side, rows, {}), [Slice((band,)) for band in bands], key="groups")
    return rows


def _descriptions(inputs: MemoryInputs, request: Request, ids: ColumnType) -> Descriptions | None:
    """Features and categories of items; None where no metric needs any.

    Raises:
        DataError: Item features are of a wrong kind, repeated, or cannot be compared.
    """
    table, columns, needs = inputs.features, request.columns, request.needs.all
    if table is None:
        return None
    items = cast_ids(table.column(columns.item), ids)
    there = items.is_valid().to_numpy()
    rows: dict[str, Any] = {"item": ids_to_pandas(items.filter(there))}
    n_repeated, examples = beyond_one(rows["item"])
    counts: dict[str, Any] = {"rows": len(rows["item"]), "items": len(rows["item"]) - n_repeated}
    if "features" in needs:
        vectors = [vector for vector, kept in zip(feature_vectors(table, columns.features), there, strict=True) if kept]
        lengths = [vector.length for vector in vectors if vector.length is not None]
        counts |= {"shortest": min(lengths, default=None), "longest": max(lengths, default=None)}
        counts["misplaced"] = sum(vector.misplaced for vector in vectors)
        counts["broken"] = sum(not np.isfinite(vector.numbers).all() for vector in vectors if vector.numbers is not None)
        rows["features"] = [vector.numbers for vector in vectors]
    if "categories" in needs:
        cells = categories_of(table, columns.categories)
        rows["categories"] = [cell for cell, kept in zip(cells, there, strict=True) if kept]
    check_descriptions(counts, examples)
    names = tuple(sorted({name for cell in rows.get("categories", []) for name in cell}))
    check_categories(names)
    return Descriptions(_frame(rows), counts["items"], counts.get("longest") or 0, names)


def _items(trained: pd.DataFrame | None, described: Descriptions | None, groups: GroupRows) -> pd.DataFrame | None:
    """`item`, `ABOUT_ITEM` as it goes to workers, and `ITEM_GROUPS`; None where nothing is needed."""
    tables = [trained, None if described is None else described.rows, groups.items]
    if all(table is None for table in tables):
        return None
    codes, ids = numbered(*(table["item"] for table in tables if table is not None))
    rows_of = iter(codes)
    numbers = np.zeros((len(ids), 2), dtype=np.int64)
    features = np.full((len(ids), 0 if described is None else described.n_features), np.nan)
    of_items: list[Any] = [np.zeros(0, dtype=np.int64)] * len(ids)
    if trained is not None:
        rows = next(rows_of)
        numbers[rows] = trained[["n_rows", "n_users"]].to_numpy(np.int64)
    if described is not None:
        rows = next(rows_of)
        if described.n_features:
            for row, vector in zip(rows, described.rows["features"], strict=True):
                features[row] = np.nan if vector is None else vector
        if described.categories:
            bits = category_bits(described.rows["categories"].tolist(), list(described.categories))
            of_all = np.zeros((len(ids), bits.shape[1]), dtype=np.int64)
            of_all[rows] = bits
            numbers = np.column_stack([numbers, of_all])
    if groups.items is not None:
        for row, positions in zip(next(rows_of), groups.items[ITEM_GROUPS], strict=True):
            of_items[row] = positions
    return _frame({"item": ids, ABOUT_ITEM: pack(numbers, features, of_items), ITEM_GROUPS: of_items})
