"""Learn what metrics and slices need to know besides lists and ground truth, in memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import ABOUT_ITEM, ITEM_GROUPS, Side
from spark_recmetrics.errors import DataError
from spark_recmetrics.inputs.contract import ColumnType
from spark_recmetrics.inputs.memory import MemoryInputs, cast_ids, clean_train, to_pandas, type_of_arrow
from spark_recmetrics.metrics.group_sums import GroupSizes, groupings_of, user_columns
from spark_recmetrics.metrics.recommended_items import Popularity, category_bits
from spark_recmetrics.request.needs import POPULARITY_NEEDS
from spark_recmetrics.request.slices import Band, Slice
from spark_recmetrics.side_info.bands_memory import check_bands, know_bands, read_bands
from spark_recmetrics.side_info.descriptions import beyond_one, check_categories, check_descriptions
from spark_recmetrics.side_info.known import Descriptions, GroupRows, Known, item_summary, models_of
from spark_recmetrics.side_info.packed import pack
from spark_recmetrics.side_info.vectors import categories_in, vector_in

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
    trained, popularity = _popularity(inputs, request)
    groups = _groups(inputs, request, ids)
    described = _descriptions(inputs, request, ids["item"])
    return Known(
        models=models,
        n_items=n_items,
        summary=item_summary(popularity, described, groups),
        items=_items(trained, described, groups),
        group_sizes=groups.sizes,
        segments=groups.segments,
        bands=know_bands(inputs, ids, request.slices, request.columns),
    )


def _models_in(inputs: MemoryInputs) -> Callable[[], list[str]] | None:
    tables = [rows for rows in inputs.predicted.values() if "model" in rows.column_names]
    if not tables:
        return None
    return lambda: sorted({name for rows in tables for name in rows["model"].unique().to_pylist() if name is not None})


def _popularity(inputs: MemoryInputs, request: Request) -> tuple[pd.DataFrame | None, Popularity | None]:
    """`item, n_rows, n_users` of the training rows, and how popular all items are."""
    needs = request.needs.all
    if inputs.train is None or not POPULARITY_NEEDS & needs:
        return None, None
    train = to_pandas(clean_train(inputs.train))
    n_rows, n_users = Counter(train["item"]), Counter(item for item, _ in set(zip(train["item"], train["user"], strict=True)))
    counts = Counter(n_rows.values())
    audience = len(set(train["user"])) if "audience" in needs else 0
    popularity = Popularity.of_train(sorted(counts), [counts[n] for n in sorted(counts)], audience)
    return _frame(
        {"item": list(n_rows), "n_rows": list(n_rows.values()), "n_users": [n_users[item] for item in n_rows]}
    ), popularity


def _frame(columns: dict[str, list[Any]]) -> pd.DataFrame:
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
    items = _frame({"item": rows["item"].tolist(), ITEM_GROUPS: positions})
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
    check_bands(side, rows, [Slice((band,)) for band in bands], bands, key="groups")
    return rows


def _descriptions(inputs: MemoryInputs, request: Request, ids: ColumnType) -> Descriptions | None:
    """Features and categories of items; None where no metric needs any.

    Raises:
        DataError: Item features are of a wrong kind, repeated, or cannot be compared.
    """
    table, columns, needs = inputs.features, request.columns, request.needs.all
    if table is None:
        return None
    items = cast_ids(table.column(columns.item), ids).to_pylist()
    there = [item is not None for item in items]
    rows = {"item": [item for item in items if item is not None]}
    n_repeated, examples = beyond_one(rows["item"])
    counts: dict[str, Any] = {"rows": len(rows["item"]), "items": len(rows["item"]) - n_repeated}
    if "features" in needs:
        table.schema.type_of("features", columns.features) if columns.features not in table.schema.names else None
        cells = [cell for cell, kept in zip(table.cells(columns.features), there, strict=True) if kept]
        vectors = [vector_in(cell, columns.features) for cell in cells]
        lengths = [vector.length for vector in vectors if vector.length is not None]
        counts |= {"shortest": min(lengths, default=None), "longest": max(lengths, default=None)}
        counts["misplaced"] = sum(vector.misplaced for vector in vectors)
        counts["broken"] = sum(not np.isfinite(vector.numbers).all() for vector in vectors if vector.numbers is not None)
        rows["features"] = [vector.numbers for vector in vectors]
    if "categories" in needs:
        table.schema.type_of("categories", columns.categories) if columns.categories not in table.schema.names else None
        cells = [cell for cell, kept in zip(table.cells(columns.categories), there, strict=True) if kept]
        rows["categories"] = [categories_in(cell, columns.categories) for cell in cells]
    check_descriptions(counts, examples)
    names = tuple(sorted({name for cell in rows.get("categories", []) for name in cell}))
    check_categories(names)
    return Descriptions(_frame(rows), counts["items"], counts.get("longest") or 0, names)


def _items(trained: pd.DataFrame | None, described: Descriptions | None, groups: GroupRows) -> pd.DataFrame | None:
    """`item`, `ABOUT_ITEM` as it goes to workers, and `ITEM_GROUPS`; None where nothing is needed."""
    tables = [trained, None if described is None else described.rows, groups.items]
    if all(table is None for table in tables):
        return None
    ids = list(dict.fromkeys(item for table in tables if table is not None for item in table["item"]))
    place = {item: number for number, item in enumerate(ids)}
    numbers = np.zeros((len(ids), 2), dtype=np.int64)
    features = np.full((len(ids), 0 if described is None else described.n_features), np.nan)
    of_items: list[Any] = [np.zeros(0, dtype=np.int64)] * len(ids)
    if trained is not None:
        rows = [place[item] for item in trained["item"]]
        numbers[rows] = trained[["n_rows", "n_users"]].to_numpy(np.int64)
    if described is not None:
        rows = [place[item] for item in described.rows["item"]]
        if described.n_features:
            for row, vector in zip(rows, described.rows["features"], strict=True):
                features[row] = np.nan if vector is None else vector
        if described.categories:
            bits = category_bits(described.rows["categories"].tolist(), list(described.categories))
            codes = np.zeros((len(ids), bits.shape[1]), dtype=np.int64)
            codes[rows] = bits
            numbers = np.column_stack([numbers, codes])
    if groups.items is not None:
        for item, positions in zip(groups.items["item"], groups.items[ITEM_GROUPS], strict=True):
            of_items[place[item]] = positions
    return _frame({"item": ids, ABOUT_ITEM: pack(numbers, features, of_items), ITEM_GROUPS: of_items})
