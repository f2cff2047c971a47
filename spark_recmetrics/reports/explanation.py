"""The lists of one user as text, row by row. Rendering computes nothing: the rows are handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_recmetrics.reports.tables import SHOWN, aligned, number_of, some_of, width_of
from spark_recmetrics.text import printable

_LINE = 128
"""Width that tables keep to, if their columns let them."""


_FACTS = {
    "score": "score",
    "n_tied": "tied",
    "seen": "seen",
    "judged": "judged",
    "rating": "rating",
    "hit": "hit",
    "gain": "gain",
}
"""What is known of a row of a list, with the heads of the columns."""


def explanation(
    *,
    user: str,
    convention: str,
    models: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    counts: Sequence[Mapping[str, Any]],
    values: Sequence[Mapping[str, Any]],
    missed: Sequence[Mapping[str, Any]],
    pairs: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
) -> str:
    """One user's lists, row by row, for each model. The arguments are the fields of an `Explanation`."""
    blocks = []
    for model in models:
        lists, of_model = _of(model, rows), _of(model, values)
        lines = [f"user {printable(user)}, model {printable(model)}, convention {printable(convention)}"]
        lines += [f"list of {n['n_recommended']}, truth {n['n_truth']}, relevant {n['n_relevant']}" for n in _of(model, counts)]
        blocks.append("\n".join(lines))
        columns = [row["metric"] for row in of_model if lists and row["metric"] in lists[0]]
        blocks += _list_tables(lists, {row["metric"]: row["value"] for row in of_model}, columns) if lists else []
        told = [row for row in of_model if row["metric"] not in columns or row["in_mean"] != "value"]
        blocks += [_value_table(told)] if told else []
        absent = [_relevant(row) for row in _of(model, missed) if row["rank"] is None]
        behind = [f"{_relevant(row)} at rank {row['rank']}" for row in _of(model, missed) if row["rank"] is not None]
        blocks += [f"relevant and not in the list: {some_of(absent)}"] if absent else []
        blocks += [f"relevant and not shown: {some_of(behind)}"] if behind else []
        blocks += [_pair_table(own)] if (own := _of(model, pairs)) else []
    return "\n\n".join([*blocks, *(printable(note) for note in notes)])


def _of(model: str, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["model"] == model]


def _list_tables(rows: Sequence[Mapping[str, Any]], values: Mapping[str, float | None], metrics: Sequence[str]) -> list[str]:
    """The rows with what is known of them and what they add; metrics for which the line is too short in tables of their own."""
    first = next((row for row in rows if row["rank"] == row["last_rank"] > 0), None)
    labels = [_ranks(row) for row in rows]
    items = ["" if row.get("item") is None else printable(str(row["item"])) for row in rows]
    ids = [["rank", *labels, "value"], ["item", *items, ""]]
    facts = [[name, *(_fact(row, key) for row in rows), ""] for key, name in _FACTS.items() if first and key in first]
    added = [[metric, *(_added(row[metric]) for row in rows), number_of(values[metric])] for metric in metrics]
    tables, columns = [], [*ids, *facts]
    for column in added:
        if sum(2 + max(map(width_of, kept)) for kept in (*columns, column)) - 2 > _LINE and len(columns) > len(ids):
            tables.append(columns)
            columns = [*ids]
        columns.append(column)
    return [aligned(list(zip(*table, strict=True)), n_left=len(ids)) for table in (*tables, columns)]


def _ranks(row: Mapping[str, Any]) -> str:
    if row["rank"] == 0:
        return "empty list"
    if row["rank"] < row["last_rank"]:
        return f"ranks {row['rank']} to {row['last_rank']}"
    return str(row["rank"]) if row["item"] is not None else f"rank {row['rank']}"


def _fact(row: Mapping[str, Any], key: str) -> str:
    value = row[key]
    return "" if value is None or value is False else "yes" if value is True else f"{value:g}"


def _added(value: float | None) -> str:
    return "" if value is None else f"{value:+.4f}" if value else "."


def _value_table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [(row["metric"], number_of(row["value"]), row["in_mean"], row["reason"] or "") for row in rows]
    return aligned([("metric", "value", "in the mean", ""), *lines], n_left=1, n_last_left=2)


def _relevant(row: Mapping[str, Any]) -> str:
    rating = "" if row["rating"] is None else f" (rating {row['rating']:g})"
    return printable(f"{row['item']}{rating}")


def _pair_table(rows: Sequence[Mapping[str, Any]]) -> str:
    # No line begins with an id, which could be the mark of the result line.
    lines = [(*(f"{row[key]:.4f}" for key in ("predicted", "true", "error")), printable(str(row["item"]))) for row in rows]
    more = len(lines) - SHOWN
    text = aligned([("predicted", "true", "error", "item"), *lines[:SHOWN]], n_left=0, n_last_left=1)
    return f"{text}\nand {more} more" if more > 0 else text
