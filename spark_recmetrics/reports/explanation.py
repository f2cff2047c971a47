"""The lists of one user as text. Rendering computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_recmetrics.reports.formatting import SHOWN, Row, aligned, shortened, value_text, width_of
from spark_recmetrics.text import printable

_LINE = 128  # width of a table, unless its columns need more
_PROPERTIES = ("score", "n_tied", "seen", "judged", "rating", "hit", "gain")  # columns after rank and item


def explanation_text(user: str, convention: str, models: Sequence[str], tables: Mapping[str, Sequence[Row]]) -> str:
    """The lists of one user, row by row, for each model; `tables` are those of an `Explanation`, by their names."""
    blocks = []
    for model in models:
        names = ("rows", "counts", "values", "missed", "pairs")
        lists, counts, values, missed, pairs = ([row for row in tables[name] if row["model"] == model] for name in names)
        lines = [f"user {printable(user)}, model {printable(model)}, convention {printable(convention)}"]
        lines += [f"list of {n['n_recommended']}, ground truth {n['n_truth']}, relevant {n['n_relevant']}" for n in counts]
        blocks.append("\n".join(lines))
        columns = [row["metric"] for row in values if lists and row["metric"] in lists[0]]
        blocks += _list_tables(lists, {row["metric"]: row["value"] for row in values}, columns) if lists else []
        others = [row for row in values if row["metric"] not in columns or row["in_mean"] != "value"]
        blocks += [_value_table(others)] if others else []
        absent = [_relevant(row) for row in missed if row["rank"] is None]
        below = [f"{_relevant(row)} at rank {row['rank']}" for row in missed if row["rank"] is not None]
        blocks += [f"relevant and not in the list: {shortened(absent)}"] if absent else []
        blocks += [f"relevant and not shown: {shortened(below)}"] if below else []
        blocks += [_pair_table(pairs)] if pairs else []
    return "\n\n".join(blocks)


def _list_tables(rows: Sequence[Row], values: Mapping[str, float | None], metrics: Sequence[str]) -> list[str]:
    """The rows with their properties and what they add to each metric, in as many tables as the width of a line needs."""
    first = next((row for row in rows if row["rank"] == row["last_rank"] > 0), None)
    labels = [_ranks(row) for row in rows]
    items = ["" if row.get("item") is None else printable(str(row["item"])) for row in rows]
    ids = [["rank", *labels, "value"], ["item", *items, ""]]
    shown = [key for key in _PROPERTIES if first and key in first]
    properties = [[key.removeprefix("n_"), *(_property(row, key) for row in rows), ""] for key in shown]
    added = [[metric, *(_added(row[metric]) for row in rows), value_text(values[metric])] for metric in metrics]
    tables, columns = [], [*ids, *properties]
    for column in added:
        if sum(2 + max(map(width_of, kept)) for kept in (*columns, column)) - 2 > _LINE and len(columns) > len(ids):
            tables.append(columns)
            columns = [*ids]
        columns.append(column)
    return [aligned(list(zip(*table, strict=True)), n_left=len(ids)) for table in (*tables, columns)]


def _ranks(row: Row) -> str:
    if row["rank"] == 0:
        return "empty list"
    if row["rank"] < row["last_rank"]:
        return f"ranks {row['rank']} to {row['last_rank']}"
    return str(row["rank"]) if row["item"] is not None else f"rank {row['rank']}"


def _property(row: Row, key: str) -> str:
    value = row[key]
    return "" if value is None or value is False else "yes" if value is True else f"{value:g}"


def _added(value: float | None) -> str:
    return "" if value is None else f"{value:+.4f}" if value else "."


def _value_table(rows: Sequence[Row]) -> str:
    lines = [(row["metric"], value_text(row["value"]), row["in_mean"], row["reason"] or "") for row in rows]
    return aligned([("metric", "value", "in the mean", ""), *lines], n_left=1, n_last_left=2)


def _relevant(row: Row) -> str:
    rating = "" if row["rating"] is None else f" (rating {row['rating']:g})"
    return printable(f"{row['item']}{rating}")


def _pair_table(rows: Sequence[Row]) -> str:
    # No line begins with an id, because an id may look like the mark of the result line.
    lines = [(*(f"{row[key]:.4f}" for key in ("predicted", "true", "error")), printable(str(row["item"]))) for row in rows]
    n_more = len(lines) - SHOWN
    text = aligned([("predicted", "true", "error", "item"), *lines[:SHOWN]], n_left=0, n_last_left=1)
    return f"{text}\nand {n_more} more" if n_more > 0 else text
