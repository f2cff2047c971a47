"""A result as text, for a terminal. Rendering computes nothing: the rows are handed in."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_recmetrics.metrics import parse
from spark_recmetrics.metrics.objectives import equal
from spark_recmetrics.request.slices import slice_name
from spark_recmetrics.runs.order import changes, newest_runs
from spark_recmetrics.text import counted, printable

if TYPE_CHECKING:
    from spark_recmetrics.metrics import Metric
    from spark_recmetrics.metrics.objectives import Standing


RESULT_MARK = "RECMETRICS_RESULT"
"""First word of the last line of a job; JSON follows. No other line begins with it."""

UNDEFINED = "undefined"
"""What stands for a value that is undefined."""

SHOWN = 50
"""How many items a line or table names."""

_NAMED = 6
"""How many models a sentence names, and how many pairs of them have one."""


def unmarked(text: str) -> str:
    r"""The text with a blank before every line that begins with the mark: models, slices and jobs may be named like it.

    Example:
        >>> unmarked("a\nRECMETRICS_RESULT {}")
        'a\n RECMETRICS_RESULT {}'
    """
    return "\n".join(f" {line}" if line.startswith(RESULT_MARK) else line for line in text.split("\n"))


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
    models = models_of(rows)
    table = [["metric", "k", *(printable(model) for model in models)]]
    for metric, of_model in by_metric(rows).items():
        k = next(iter(of_model.values()))["k"]
        best = best_values(list(of_model.values()))
        table.append([metric.removesuffix(f"@{k}"), str(k or ""), *(_value(of_model.get(model), best) for model in models)])
    # A star stands in a column of its own, so that digits stay in line.
    table[0][2:] = [f"{name} " for name in table[0][2:]]
    return aligned(table, n_left=1)


def pareto_table(standings: Sequence[Standing]) -> str:
    """For each cut-off of the objectives one line per model: its values, and whether another model dominates it.

    Args:
        standings: Of each model and cut-off.

    Example:
        >>> from spark_recmetrics.metrics.objectives import Standing
        >>> als = Standing(10, "als", {"ndcg@10": 0.25, "gini@10": 0.5}, True, (), None)
        >>> pop = Standing(10, "popularity", {"ndcg@10": 0.125, "gini@10": 0.75}, False, ("als",), None)
        >>> print(pareto_table([als, pop]))
        model       ndcg@10  gini@10  Pareto-optimal
        als          0.2500   0.5000  yes
        popularity   0.1250   0.7500  no: dominated by als
    """
    return "\n\n".join(aligned(table, n_left=1, n_last_left=1) for table in pareto_lines(standings))


def pareto_lines(standings: Sequence[Standing]) -> list[list[list[str]]]:
    """For each cut-off of the objectives a table of texts, its heads first."""
    tables: dict[int | None, list[list[str]]] = {}
    for one in standings:
        known = f"no: dominated by {some_of(one.dominated_by)}" if one.dominated_by else "yes"
        found = f"unknown: {one.reason}" if one.optimal is None else known
        table = tables.setdefault(one.k, [["model", *one.values, "Pareto-optimal"]])
        table.append([printable(one.model), *(number_of(value) for value in one.values.values()), printable(found)])
    return list(tables.values())


def models_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The models in their order."""
    return list(dict.fromkeys(row["model"] for row in rows))


def by_metric(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The rows of one slice, by metric and then by model."""
    lines: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        lines.setdefault(row["metric"], {})[row["model"]] = row
    return lines


def slice_table(rows: Sequence[Mapping[str, Any]], metric: str) -> str:
    """One metric for all users and for each value of each slice, with its interval; the best value of a line has a star.

    Args:
        rows: Rows of SUMMARY.
        metric: Text of the metric.

    Example:
        >>> row = {"model": "als", "slice": "all", "slice_value": "all", "metric": "hit@1", "value": 0.5, "n_users": 40}
        >>> row |= {"ci_low": 0.345, "ci_high": 0.655, "small": False, "higher_is_better": True}
        >>> few = {"slice": "gender", "slice_value": "F", "n_users": 3, "small": True, "ci_low": 0.0, "ci_high": 1.0}
        >>> print(slice_table([row, {**row, **few}], "hit@1"))
        hit@1       users  als
        all            40  0.5000  0.3450..0.6550
        gender = F     ~3  0.5000  0.0000..1.0000
        <BLANKLINE>
        ~ too few users for a conclusion
    """
    models = list(dict.fromkeys(row["model"] for row in rows))
    lines: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["metric"] == metric:
            lines.setdefault((row["slice"], row["slice_value"]), {})[row["model"]] = row
    table = [[metric, "users", *(printable(model) for model in models)]]
    paired = parse(metric).definition.by_pair
    for name, of_model in lines.items():
        # A preference is told, not judged.
        best = set() if paired and name != ("all", "all") else best_values(list(of_model.values()))
        small = "~" if any(row["small"] for row in of_model.values()) else ""
        told = printable(slice_name(next(iter(of_model.values()))))
        table.append([told, small + users_of(of_model), *(_with_interval(of_model.get(model), best) for model in models)])
    note = "\n\n~ too few users for a conclusion" if any(line[1].startswith("~") for line in table) else ""
    # Names of slices are left, numbers of users right, and values left again, each as wide as the others of its model.
    return aligned(table, n_left=1, n_last_left=len(models)) + note


def users_of(of_model: Mapping[str, Mapping[str, Any]]) -> str:
    """How many users the values of a line rest on; from the fewest to the most where models differ."""
    counts = sorted({row["n_users"] for row in of_model.values()})
    return f"{counts[0]}..{counts[-1]}" if len(counts) > 1 else str(counts[0])


def _with_interval(row: Mapping[str, Any] | None, best: Collection[float]) -> str:
    return f"{_value(row, best)} {'' if row is None else interval_of(row)}".rstrip()


def comparison_table(rows: Sequence[Mapping[str, Any]], alpha: float) -> str:
    """One line per pair of models and metric, over all users: the difference, its interval, and which is better.

    Of slices it has the first metric where a model was found to be better, and how much else was found.

    Args:
        rows: Rows of COMPARISON.
        alpha: The level that winners are told at.

    Example:
        >>> row = {"model_a": "pop", "model_b": "als", "metric": "ndcg@10", "diff": 0.125, "ci_low": 0.0, "ci_high": 0.25}
        >>> row |= {"p_adjusted": 0.05, "wins": 3, "ties": 1, "losses": 0, "n_users": 4, "winner": None, "reason": None}
        >>> row |= {"slice": "all", "slice_value": "all", "smallest_difference": 0.5}
        >>> few = {"slice": "gender", "slice_value": "F", "p_adjusted": None, "reason": "small_slice"}
        >>> print(comparison_table([row, {**row, **few}], 0.01))
        a    b    metric     b - a   99 % interval      p  +/=/-  users  found
        pop  als  ndcg@10  +0.1250  0.0000..0.2500  0.050  3/1/0      4  no difference found (could show 0.5000)
        <BLANKLINE>
        gender: a difference found in 0 of 1 comparisons; 1 with too few users to test
    """
    by_slice: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_slice.setdefault(row["slice"], []).append(row)
    blocks = [_comparisons(by_slice.pop("all", []), alpha)]
    for name, own in by_slice.items():
        found = [row for row in own if row["winner"] is not None]
        first = [row for row in found if row["metric"] == own[0]["metric"]]
        blocks += [_comparisons(first, alpha)] if first else []
        small = sum(row["reason"] == "small_slice" for row in own)
        shown = f", {len(first)} of them shown" if first else ""
        untested = f"; {small} with too few users to test" if small else ""
        blocks.append(printable(f"{name}: a difference found in {len(found)} of {len(own)} comparisons{shown}{untested}"))
    return "\n\n".join(blocks)


def _comparisons(rows: Sequence[Mapping[str, Any]], alpha: float) -> str:
    table = pair_lines(rows, alpha)
    return aligned(table, n_left=table[0].index("metric") + 1, n_last_left=1)


def pair_lines(rows: Sequence[Mapping[str, Any]], alpha: float) -> list[list[str]]:
    """Rows of COMPARISON as a table of texts, its heads first."""
    sliced = any(row["slice"] != "all" for row in rows)
    heads = ["a", "b", *(["slice"] if sliced else []), "metric"]
    table = [[*heads, "b - a", f"{100 * (1 - alpha):g} % interval", "p", "+/=/-", "users", "found"]]
    for row in rows:
        where = [slice_name(row)] if sliced else []
        table.append(
            [
                *(printable(text) for text in (row["model_a"], row["model_b"], *where, row["metric"])),
                "" if row["diff"] is None else f"{row['diff']:+.4f}",
                interval_of(row),
                p_of(row),
                "" if row["wins"] is None else f"{row['wins']}/{row['ties']}/{row['losses']}",
                str(row["n_users"]),
                printable(found_of(row)),
            ]
        )
    return table


def found_of(row: Mapping[str, Any]) -> str:
    """What a row of COMPARISON found. Where it is nothing: the smallest difference that its users could have shown."""
    if row["winner"] is not None:
        return f"{row['winner']} is better"
    if row["p_adjusted"] is None:
        return f"undefined ({row['reason']})"
    least = row["smallest_difference"]
    return "no difference found" + ("" if least is None else f" (could show {least:.4f})")


def interval_of(row: Mapping[str, Any]) -> str:
    """The interval of a value or difference; nothing where there is none."""
    known = row["ci_low"] is not None and row["ci_high"] is not None
    return f"{row['ci_low']:.4f}..{row['ci_high']:.4f}" if known else ""


def p_of(row: Mapping[str, Any]) -> str:
    """The adjusted p of a row of COMPARISON; nothing where there is none."""
    p = row["p_adjusted"]
    return "" if p is None else f"{p:.3f}" if p >= 0.0005 else "<.001"


def history_table(rows: Sequence[Mapping[str, Any]], last: int) -> str:
    """One line per night, a column per model, and behind them a sparkline for each model.

    A line says what has changed since the one before: another truth, or another configuration, which the comparison is a
    part of. So a step that comes with other data can be told from one of the model.

    Args:
        rows: Rows of SUMMARY for one metric, of several runs. Of two runs of one `as_of` the later counts, with the models that
            it has.
        last: How many nights are shown.

    Example:
        >>> row = {"run_id": "r", "model": "als", "convention": "default", "config_hash": "c", "computed_at": 0}
        >>> nights = [("11-26", 0.25, "d"), ("11-27", 0.5, "d"), ("11-28", 0.125, "e")]
        >>> print(history_table([{**row, "as_of": a, "value": v, "data_hash": d} for a, v, d in nights], last=30))
        as_of     als  changed
        11-26  0.2500
        11-27  0.5000
        11-28  0.1250  the ground truth
        <BLANKLINE>
        als  ▃█▁
    """
    nights = newest_runs(rows, last)
    models = list(dict.fromkeys(model for _, of_night in nights for model in sorted(of_night)))
    table, before = [["as_of", *(printable(model) for model in models), "changed"]], None
    for as_of, of_night in nights:
        one = next(iter(of_night.values()))
        changed: list[str] = [] if before is None else changes(before, one)
        values = [number_of(of_night[model]["value"]) if model in of_night else "" for model in models]
        table.append([printable(as_of), *values, " and ".join(changed)])
        before = one
    lines = [
        [printable(model), _sparkline([of_night[model]["value"] if model in of_night else None for _, of_night in nights])]
        for model in models
    ]
    return f"{aligned(table, n_left=1, n_last_left=1)}\n\n{aligned(lines, n_left=1, n_last_left=1)}"


_BARS = "▁▂▃▄▅▆▇█"


def _sparkline(values: Sequence[float | None]) -> str:
    """A bar for each value, from the smallest to the largest; a blank where there is none, or an infinite one."""
    values = [value if value is not None and math.isfinite(value) else None for value in values]
    known = [value for value in values if value is not None]
    low, span = min(known, default=0.0), max(known, default=0.0) - min(known, default=0.0)
    steps = len(_BARS) - 1
    return "".join(" " if v is None else _BARS[round((v - low) / span * steps) if span else steps // 2] for v in values)


def headline_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """The metric that stands for a result.

    Example:
        >>> headline_of([{"metric": "arp@10", "model": "als"}, {"metric": "ndcg@10", "model": "als"}])
        'ndcg@10'
    """
    return str(first_judging([parse(metric) for metric in by_metric(rows)]))


def first_judging(metrics: Sequence[Metric]) -> Metric:
    """The first ranking metric of accuracy; where there is none, of the other ones that judge; then of all."""

    def place(metric: Metric) -> int:
        ranking, accurate = metric.definition.kind == "ranking", metric.definition.accuracy
        if metric.definition.kind == "objective":
            return 3
        return 0 if ranking and accurate else 1 if accurate else 2 if ranking else 3

    return min(metrics, key=place)


def leading(rows: Sequence[Mapping[str, Any]], most: int, keep: Collection[str] = ()) -> list[str]:
    """The models to show where not all can be: those with the best values of the headline over all users, in their order.

    Args:
        rows: Rows of SUMMARY.
        most: How many.
        keep: Models that are shown in any case, such as a baseline.

    Example:
        >>> row = {"slice": "all", "metric": "mrr@10"}
        >>> values = {"a": 0.25, "b": None, "c": 0.5, "d": 1.0}
        >>> rows = [{**row, "model": model, "value": value} for model, value in values.items()]
        >>> leading(rows, 2), leading(rows, 2, keep=["b"])
        (['c', 'd'], ['b', 'd'])
    """
    models = models_of(rows)
    if len(models) <= most:
        return models
    metric = headline_of(everybody := [row for row in rows if row["slice"] == "all"])
    values = {row["model"]: row["value"] for row in everybody if row["metric"] == metric}
    known = [model for model in models if values.get(model) is not None]
    known.sort(key=lambda model: values[model], reverse=parse(metric).definition.higher_is_better)
    ranked = dict.fromkeys([*(model for model in models if model in keep), *known, *models])
    chosen = list(ranked)[:most]
    return [model for model in models if model in chosen]


def leading_first(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of a comparison by pairs of models, those of the best models by the headline first.

    Args:
        rows: Rows of COMPARISON over all users.
    """
    metric = headline_of([{**row, "model": ""} for row in rows])
    sums = {
        (row["model_a"], row["model_b"]): row["mean_a"] + row["mean_b"]
        for row in rows
        if row["metric"] == metric and row["mean_a"] is not None and row["mean_b"] is not None
    }
    known = sorted(sums, key=lambda pair: sums[pair], reverse=parse(metric).definition.higher_is_better)
    place = {pair: n for n, pair in enumerate(known)}
    return sorted(rows, key=lambda row: place.get((row["model_a"], row["model_b"]), len(place)))


def gates_told(gate_results: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The worst result of the gates, `none` without any, and how many there are of it.

    Args:
        gate_results: Rows of GATES.

    Example:
        >>> gates_told([{"result": "pass"}, {"result": "fail"}])
        ('fail', 'gates failed: 1 of 2')
    """
    n = {level: sum(row["result"] == level for row in gate_results) for level in ("fail", "warn")}
    if not gate_results:
        return "none", "no gates were held"
    total = len(gate_results)
    if n["fail"]:
        return "fail", f"gates failed: {n['fail']} of {total}"
    if n["warn"]:
        return "warn", f"gates passed with warnings: {n['warn']} of {total}"
    return "pass", f"gates passed: {total} of {total}"


def findings(
    rows: Sequence[Mapping[str, Any]], comparison: Sequence[Mapping[str, Any]], confidence: float, alpha: float
) -> list[str]:
    """Which model is best by the headline over all users, and which differences were found, in words.

    Args:
        rows: Rows of SUMMARY.
        comparison: Rows of COMPARISON.
        confidence: Of the intervals of the values.
        alpha: The level of the comparison.

    Example:
        >>> row = {"slice": "all", "metric": "ndcg@10", "model": "als", "value": 0.25, "higher_is_better": True}
        >>> row |= {"ci_low": 0.125, "ci_high": 0.375, "n_users": 40}
        >>> findings([row, {**row, "model": "pop", "value": 0.125}], [], 0.95, 0.05)
        ['ndcg@10: als has the best value, 0.2500 (95 % interval 0.1250..0.3750, 40 users), before pop with 0.1250.']
    """
    everybody = [row for row in rows if row["slice"] == "all"]
    metric = headline_of(everybody)
    known = [row for row in by_metric(everybody)[metric].values() if row["value"] is not None]
    known.sort(key=lambda row: row["value"], reverse=bool(known) and known[0]["higher_is_better"])
    if not known:
        return [f"{metric} is undefined for all models."]
    first, interval = known[0], interval_of(known[0])
    told = number_of(first["value"])
    if interval:
        told += f" ({100 * confidence:g} % interval {interval}, {counted(first['n_users'], 'user')})"
    n_best = sum(equal(row["value"], first["value"]) for row in known)
    best = _listed([row["model"] for row in known[:n_best]])
    if len(known) == 1:
        sentences = [f"{metric}: {best} has {told}."]
    elif n_best == len(known):
        sentences = [f"{metric}: {best} have the same value, {told}."]
    else:
        others = ", ".join(f"{row['model']} with {number_of(row['value'])}" for row in known[n_best : n_best + 3])
        have = "has" if n_best == 1 else "have"
        sentences = [f"{metric}: {best} {have} the best value, {told}, before {others}."]
    compared = [row for row in comparison if row["slice"] == "all" and row["metric"] == metric]
    if len(compared) > _NAMED:
        compared = leading_first(compared)
    for row in compared[:_NAMED]:
        a, b, least = row["model_a"], row["model_b"], row["smallest_difference"]
        if row["winner"] is not None:
            worse, p = (a if row["winner"] == b else b), p_of(row)
            means = f"{abs(row['diff']):.4f} on average of {counted(row['n_users'], 'user')}"
            sentences.append(
                f"{row['winner']} is better than {worse}: by {means}, p {f'< {p[1:]}' if p[0] == '<' else f'= {p}'}."
            )
        elif row["p_adjusted"] is not None:
            shown = f": {counted(row['n_users'], 'user')} could have shown one of {least:.4f} with 80 % power" if least else ""
            none = f"no difference was found at the level {alpha:g}, which is not the same as none"
            sentences.append(f"Between {a} and {b} {none}{shown}.")
    if len(compared) > _NAMED:
        sentences.append(f"{counted(len(compared) - _NAMED, 'more pair')} of models are in the table of differences.")
    return [printable(text) for text in sentences]


def _listed(names: Sequence[str]) -> str:
    """Some names in a sentence, and how many more there are."""
    shown, n_more = list(names[:_NAMED]), len(names) - _NAMED
    last = shown.pop() if n_more <= 0 else f"{n_more} more"
    return f"{', '.join(shown)} and {last}" if shown else last


def number_of(value: float | None) -> str:
    """A value as tables show it."""
    return UNDEFINED if value is None else f"{value:.4f}"


def some_of(texts: Sequence[str]) -> str:
    """The first of these texts, and how many more there are."""
    more = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def aligned(table: Sequence[Sequence[str]], *, n_left: int, n_last_left: int = 0) -> str:
    """Columns of one width: the first and the last ones flush left, the others flush right."""
    n = len(table[0])
    widths = [max(width_of(line[column]) for line in table) for column in range(n)]
    lines = (
        "  ".join(
            cell + " " * (width - width_of(cell))
            if column < n_left or column >= n - n_last_left
            else " " * (width - width_of(cell)) + cell
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    )
    return unmarked("\n".join(lines))


def best_values(rows: Sequence[Mapping[str, Any]]) -> set[float]:
    """The best values of a line, equal up to rounding; none if there is one model, or if all are equal."""
    values: list[float] = [row["value"] for row in rows if row["value"] is not None]
    best = (max if rows[0]["higher_is_better"] else min)(values, default=math.nan)
    found = {value for value in values if equal(value, best)}
    return found if set(values) - found else set()


def _value(row: Mapping[str, Any] | None, best: Collection[float]) -> str:
    value = None if row is None else row["value"]
    return f"{number_of(value)}{'*' if value in best else ' '}"


def width_of(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
