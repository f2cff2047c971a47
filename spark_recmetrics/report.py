"""A result as text for a terminal. Rendering computes nothing: the rows are handed in."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from spark_recmetrics.errors import printable

_UNDEFINED = "undefined"

_LINE = 128
"""Width that tables keep to, if their columns let them."""

_SHOWN = 50
"""How many items a line or table names."""

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


def metric_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Metrics and cut-offs down, models across; the best value of a line has a star.

    Args:
        rows: Rows of SUMMARY for one slice.

    Example:
        >>> row = {"model": "als", "metric": "ndcg@10", "k": 10, "value": 0.25, "higher_is_better": True}
        >>> print(metric_table([row, {**row, "model": "popularity", "value": 0.125}]))
        metric   k     als   popularity
        ndcg    10  0.2500*      0.1250
    """
    models = list(dict.fromkeys(row["model"] for row in rows))
    lines: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        lines.setdefault(row["metric"], {})[row["model"]] = row
    table = [["metric", "k", *(printable(model) for model in models)]]
    for metric, of_model in lines.items():
        k = next(iter(of_model.values()))["k"]
        best = _best(list(of_model.values()))
        values = [_value(of_model.get(model), best) for model in models]
        table.append([metric.removesuffix(f"@{k}"), "" if k is None else str(k), *values])
    # A star stands in a column of its own, so that digits stay in line.
    table[0][2:] = [f"{name} " for name in table[0][2:]]
    return _aligned(table, n_left=1)


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
        blocks += [f"relevant and not in the list: {_some(absent)}"] if absent else []
        blocks += [f"relevant and not shown: {_some(behind)}"] if behind else []
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
    added = [[metric, *(_added(row[metric]) for row in rows), _number(values[metric])] for metric in metrics]
    tables, columns = [], [*ids, *facts]
    for column in added:
        if sum(2 + max(map(_width, kept)) for kept in (*columns, column)) - 2 > _LINE and len(columns) > len(ids):
            tables.append(columns)
            columns = [*ids]
        columns.append(column)
    return [_aligned(list(zip(*table, strict=True)), n_left=len(ids)) for table in (*tables, columns)]


def _ranks(row: Mapping[str, Any]) -> str:
    if row["rank"] == 0:
        return "empty list"
    if row["rank"] < row["last_rank"]:
        return f"ranks {row['rank']} to {row['last_rank']}"
    return str(row["rank"]) if row["item"] is not None else f"rank {row['rank']}"


def _fact(row: Mapping[str, Any], key: str) -> str:
    value = row[key]
    if value is None or value is False:
        return ""
    return "yes" if value is True else f"{value:g}"


def _added(value: float | None) -> str:
    return "" if value is None else f"{value:+.4f}" if value else "."


def _number(value: float | None) -> str:
    return _UNDEFINED if value is None else f"{value:.4f}"


def _value_table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [(row["metric"], _number(row["value"]), row["in_mean"], row["reason"] or "") for row in rows]
    return _aligned([("metric", "value", "in the mean", ""), *lines], n_left=1, n_last_left=2)


def _relevant(row: Mapping[str, Any]) -> str:
    rating = "" if row["rating"] is None else f" (rating {row['rating']:g})"
    return printable(f"{row['item']}{rating}")


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _pair_table(rows: Sequence[Mapping[str, Any]]) -> str:
    # No line begins with an id, which could be the mark of the result line.
    lines = [(*(f"{row[key]:.4f}" for key in ("predicted", "true", "error")), printable(str(row["item"]))) for row in rows]
    more = len(lines) - _SHOWN
    text = _aligned([("predicted", "true", "error", "item"), *lines[:_SHOWN]], n_left=0, n_last_left=1)
    return f"{text}\nand {more} more" if more > 0 else text


def _aligned(table: Sequence[Sequence[str]], *, n_left: int, n_last_left: int = 0) -> str:
    """Columns of one width: the first and the last ones flush left, the others flush right."""
    n = len(table[0])
    widths = [max(_width(line[column]) for line in table) for column in range(n)]
    return "\n".join(
        "  ".join(
            cell + " " * (width - _width(cell))
            if column < n_left or column >= n - n_last_left
            else " " * (width - _width(cell)) + cell
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    )


def _best(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The best value of a line, if there is more than one model and they differ."""
    values = [row["value"] for row in rows if row["value"] is not None]
    if len(values) < 2 or min(values) == max(values):
        return None
    best: float = max(values) if rows[0]["higher_is_better"] else min(values)
    return best


def _value(row: Mapping[str, Any] | None, best: float | None) -> str:
    if row is None or row["value"] is None:
        return f"{_UNDEFINED} "
    value = row["value"]
    return f"{value:.4f}{'*' if value == best else ' '}"


def _width(text: str) -> int:
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
