"""What a result says, in sentences: gates, the best model, and which differences are significant."""

from __future__ import annotations

from collections.abc import Sequence

from spark_recmetrics.metrics.objectives import equal
from spark_recmetrics.reports.formatting import Row, interval_text, p_text, value_text
from spark_recmetrics.reports.selection import best_pairs_first, by_metric, headline_of, of_all_users
from spark_recmetrics.text import counted, printable

_NAMED = 6  # most models that a sentence names, and most pairs of models with a sentence


def gates_summary(gate_results: Sequence[Row]) -> tuple[str, str]:
    """The worst result in rows of GATES, `none` if there are no rows, and a sentence with its count."""
    if not gate_results:
        return "none", "no gates were checked"
    n = {level: sum(row["result"] == level for row in gate_results) for level in ("pass", "warn", "fail")}
    level = "fail" if n["fail"] else "warn" if n["warn"] else "pass"
    label = {"fail": "failed", "warn": "passed with warnings", "pass": "passed"}[level]
    return level, f"gates {label}: {n[level]} of {len(gate_results)}"


def findings(rows: Sequence[Row], comparison: Sequence[Row], confidence: float, alpha: float) -> list[str]:
    """The best model by the headline metric over all users, and which differences are significant."""
    overall = of_all_users(rows)
    metric = headline_of(overall)
    ranked = [row for row in by_metric(overall)[metric].values() if row["value"] is not None]
    if not ranked:
        return [f"{metric} is undefined for all models."]
    ranked.sort(key=lambda row: row["value"], reverse=ranked[0]["higher_is_better"])
    compared = [row for row in comparison if row["slice"] == "all" and row["metric"] == metric]
    n_more = len(compared) - _NAMED
    shown = (best_pairs_first(compared) if n_more > 0 else compared)[:_NAMED]
    sentences = [f"{metric}: {_best(ranked, confidence)}.", *(_difference(row, alpha) for row in shown)]
    sentences += [f"The table of differences has {counted(n_more, 'more pair')} of models."] if n_more > 0 else []
    return [printable(sentence) for sentence in sentences if sentence]


def _best(ranked: Sequence[Row], confidence: float) -> str:
    """The best models, their value, and the next models."""
    first, interval = ranked[0], interval_text(ranked[0])
    value = value_text(first["value"])
    if interval:
        value += f" ({100 * confidence:g} % confidence interval {interval}, {counted(first['n_users'], 'evaluated user')})"
    n_best = sum(equal(row["value"], first["value"]) for row in ranked)
    best = _listed([row["model"] for row in ranked[:n_best]])
    if len(ranked) == 1:
        return f"{best} has {value}"
    if n_best == len(ranked):
        return f"{best} have the same value, {value}"
    others = ", ".join(f"{row['model']} with {value_text(row['value'])}" for row in ranked[n_best : n_best + 3])
    return f"{best} {'is' if n_best == 1 else 'are'} best with {value}, followed by {others}"


def _difference(row: Row, alpha: float) -> str:
    """What a row of COMPARISON shows; nothing where its test is undefined."""
    a, b, users = row["model_a"], row["model_b"], counted(row["n_users"], "user")
    if row["winner"] is not None:
        worse, p = (a if row["winner"] == b else b), p_text(row)
        p = f"p {p[0]} {p[1:]}" if p[0] == "<" else f"p = {p}"
        return f"{row['winner']} is significantly better than {worse}: mean difference {abs(row['diff']):.4f} ({users}, {p})."
    if row["p_adjusted"] is None:
        return ""
    least = row["smallest_difference"]
    effect = f": the minimum detectable effect is {least:.4f} ({users}, 80 % power)" if least else ""
    return f"The difference between {a} and {b} is not significant at level {alpha:g}{effect}."


def _listed(names: Sequence[str]) -> str:
    """The first names in a sentence, and how many more there are."""
    shown, n_more = list(names[:_NAMED]), len(names) - _NAMED
    last = shown.pop() if n_more <= 0 else f"{n_more} more"
    return f"{', '.join(shown)} and {last}" if shown else last


def slice_findings(comparison: Sequence[Row]) -> list[str]:
    """For each slice, how many of its comparisons are significant."""
    sliced = [row for row in comparison if row["slice"] != "all"]
    sentences = []
    for name in dict.fromkeys(row["slice"] for row in sliced):
        rows = [row for row in sliced if row["slice"] == name]
        n_significant = sum(row["winner"] is not None for row in rows)
        n_small = sum(row["reason"] == "small_slice" for row in rows)
        untested = f", {n_small} with too few users to test" if n_small else ""
        sentences.append(printable(f"{name}: {n_significant} of {len(rows)} comparisons significant{untested}"))
    return sentences
