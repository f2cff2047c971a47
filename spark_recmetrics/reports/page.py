"""A result as a page of HTML: one file that needs nothing else, for a browser, paper or a notebook.

Rendering computes nothing: the rows are handed in. The page has no script, asks for nothing, and forbids both to itself; what
comes from data is escaped by the template, or by matplotlib in the figures. Colours of figures are those of the page, light or
dark.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from spark_recmetrics.conventions import CONVENTIONS, Convention
from spark_recmetrics.errors import ConfigError, without_extra
from spark_recmetrics.inputs.data_report import ADVICE, DataCheck
from spark_recmetrics.metrics import parse
from spark_recmetrics.reports import plots
from spark_recmetrics.reports.drawing import MOST_MODELS, svg
from spark_recmetrics.reports.tables import (
    UNDEFINED,
    best_values,
    by_metric,
    findings,
    found_of,
    gates_told,
    headline_of,
    interval_of,
    leading,
    leading_first,
    models_of,
    p_of,
    pareto_lines,
    users_of,
)
from spark_recmetrics.request.slices import slice_name
from spark_recmetrics.text import counted, printable
from spark_recmetrics.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure

    from spark_recmetrics.metrics.objectives import Standing


Row = Mapping[str, Any]

LARGEST_PAGE = 1_000_000
"""Bytes. Long tables are cut until the page is smaller."""

_LIMITS, _FIGURES = (150, 50, 15, 5), 12
"""How many lines a table has, at most; the first that makes the page small enough. And how many figures of a kind there are."""

_FAILED = 3
"""How many failed gates are in the first lines of the page; all of them stand in its table."""

_NIGHTS = 4
"""How many metrics are drawn over the nights."""

_LONGEST = 120
"""Letters of a name that are shown."""

_PACKAGES = ("pyspark", "numpy", "pandas", "pyarrow", "scipy", "matplotlib")


@dataclass(frozen=True, kw_only=True)
class Page:
    """What is shown of a result, or of a run that has none.

    Args:
        run: `job`, `as_of`, `run_id`, `config_hash`, `data_hash` and `computed_at`.
        rows: Rows of SUMMARY; none of a run that ended before it had values.
        data_checks: Rows of DATA_REPORT.
        convention: The definitions.
        warnings: Lines, without those of what is empty.
        emptiness: Lines of what is empty and must not be, or why there are no values.
        confidence: Of the intervals.
        gate_results: Rows of GATES.
        comparison: Rows of COMPARISON.
        alpha: The level of the comparison.
        standings: Of each model and cut-off of the objectives.
        history: Rows of SUMMARY of this run and earlier ones.
        configuration: The configuration as text.
        ended: How a run without values ended, as the first line of the page says it.
    """

    run: Row
    rows: Sequence[Row]
    data_checks: Sequence[DataCheck]
    convention: Convention
    warnings: Sequence[str]
    emptiness: Sequence[str]
    confidence: float
    gate_results: Sequence[Row] = ()
    comparison: Sequence[Row] = ()
    alpha: float = 0.05
    standings: Sequence[Standing] = ()
    history: Sequence[Row] = ()
    configuration: str | None = None
    ended: str | None = None

    def html(self) -> str:
        """The whole page.

        Raises:
            ConfigError: jinja2 or matplotlib is not installed.
        """
        template = _environment().get_template("report.html")
        text, draw = "", _Figures()
        for limit in _LIMITS:
            text = template.render(self._content(limit, draw))
            if len(text.encode()) < LARGEST_PAGE:
                break
        return text

    def fragment(self) -> str:
        """The summary and the values alone, for a notebook.

        Raises:
            ConfigError: jinja2 is not installed.
        """
        told: dict[str, Any] = {"findings": self._head()["findings"], "groups": self._groups(50), "differences": {"lines": ()}}
        told["note"] = f"★ best value of the line. Convention {_name(self.convention)}."
        told |= {"warnings": self.warnings[:5], "more": len(self.warnings) - 5}
        return _environment().get_template("notebook.html").render(told)

    def _content(self, limit: int, draw: _Figures) -> dict[str, Any]:
        told = {
            "head": self._head(),
            "evaluated": bool(self.rows),
            "several": len(models_of(self._everybody)) > 1,
            "gates": self._gates(limit),
            "facts": _facts(self.data_checks, limit),
            "warnings": self.warnings[:limit],
            "n_warnings": len(self.warnings),
            "metrics": _definitions(self.rows),
            "convention": _options(self.convention),
            "configuration": "\n".join(map(printable, (self.configuration or "").split("\n"))),
            "versions": versions(),
            "confidence": f"{100 * self.confidence:g} %",
            "level": f"{100 * (1 - self.alpha):g} %",
            "methods": sorted({row["ci_method"] for row in self.rows if row["ci_method"]}),
        }
        return {**told, **(self._values(limit, draw) if self.rows else _NO_VALUES)}

    def _values(self, limit: int, draw: _Figures) -> dict[str, Any]:
        """What there is to show where there are values."""
        groups, metric = self._groups(limit), headline_of(self._everybody)
        most, models = min(limit, _FIGURES), leading(self.rows, MOST_MODELS, self._baseline)
        for group in groups:
            rows = group.pop("rows")
            drawn, n_left_out = ([], 0) if group["name"] == _TOGETHER else draw.curves(rows, most, models)
            group |= {"figures": drawn, "more_figures": n_left_out}
        sliced = [row for row in self.rows if row["slice"] != "all" and row["metric"] == metric]
        return {
            "groups": [group for group in groups if group["name"] in (_RANKING, _RATINGS)],
            "together": [group for group in groups if group["name"] == _TOGETHER],
            "standings": self._standings(limit),
            "beyond": [group for group in groups if group["name"] == _BEYOND],
            "pairs": self._pairs_of_groups(limit),
            "differences": self._differences(limit, draw),
            "found": _found_in_slices(self.comparison),
            "slices": {
                **self._by_slice(self.rows, metric, limit),
                "figure": draw.slices(self.rows, metric, models) if sliced else None,
            },
            "history": self._history(draw, models),
        }

    def _gates(self, limit: int) -> dict[str, Any]:
        """The results of the gates, failures first. One that failed is never left out."""
        ordered = sorted(self.gate_results, key=lambda row: ("fail", "warn", "pass").index(row["result"]))
        shown = ordered[: max(limit, sum(row["result"] == "fail" for row in ordered))]
        texts = ({key: printable(row[key]) for key in ("gate", "reason")} for row in shown)
        lines = [{**row, "model": row["model"] or "no model", **own} for row, own in zip(shown, texts, strict=True)]
        return {"lines": lines, "more": len(ordered) - len(shown)}

    def _differences(self, limit: int, draw: _Figures) -> dict[str, Any]:
        """Figures and a table of pairs of models; of many pairs those of the best models."""
        by_pair: dict[tuple[str, str], list[Row]] = {}
        lines = _leading_lines(self.comparison, limit)
        for row in lines:
            by_pair.setdefault((row["model_a"], row["model_b"]), []).append(row)
        known = [own for own in by_pair.values() if any(row["diff"] is not None for row in own)]
        return {
            "figures": [draw.differences(own) for own in known[: min(limit, _FIGURES)]],
            "more_figures": len(known) - min(limit, _FIGURES),
            "lines": _differences(lines[:limit]),
            "more": len(lines) - limit,
        }

    def _history(self, draw: _Figures, models: Sequence[str]) -> dict[str, Any]:
        several = len({row["as_of"] for row in self.history}) > 1
        # A metric that only models of the past have has no line here; nor has one where all of tonight's are new to it.
        tonight = [row for row in self.history if row["model"] in models]
        metrics = list(by_metric(tonight)) if several else []
        shown = [draw.history(self.history, name, models) for name in metrics[:_NIGHTS]]
        return {"figures": shown, "more": len(metrics) - len(shown)}

    @property
    def _baseline(self) -> set[str]:
        """The model that all others are compared with, if one is."""
        found = {row["model_a"] for row in self.comparison}
        return found if len(found) == 1 else set()

    @property
    def _everybody(self) -> list[Row]:
        return [row for row in self.rows if row["slice"] == "all"]

    def _head(self) -> dict[str, Any]:
        level, told = gates_told(self.gate_results)
        if self.emptiness:
            level, told = "fail", self.ended or "values are undefined: there is nobody to average"
        found = findings(self.rows, self.comparison, self.confidence, self.alpha) if self.rows else []
        failed = [
            printable(f"{row['model']} fails {row['gate']}: {row['reason']}.")
            for row in self.gate_results
            if row["result"] == "fail"
        ]
        if len(failed) > _FAILED:
            failed[_FAILED:] = [f"{counted(len(failed) - _FAILED, 'more failed gate')} below."]
        computed: datetime = self.run["computed_at"]
        return {
            "level": level,
            "title": self.run["job"] or "Evaluation",
            "as_of": self.run["as_of"],
            "told": told[0].upper() + told[1:],
            "findings": [*self.emptiness, *failed, *found],
            "computed": f"{computed:%Y-%m-%d %H:%M} UTC",
            "run": {
                "run": self.run["run_id"],
                "as of": self.run["as_of"],
                "computed at": f"{computed:%Y-%m-%d %H:%M} UTC",
                "configuration": self.run["config_hash"],
                "truth": self.run["data_hash"],
                "convention": str(self.convention),
            },
        }

    def _groups(self, limit: int) -> list[dict[str, Any]]:
        """The tables of values over all users, by what metrics look at."""
        found: dict[str, list[Row]] = {}
        for row in self._everybody:
            found.setdefault(_group(row["metric"]), []).append(row)
        return [
            {"name": name, "rows": rows, **self._table(by_metric(rows), limit)}
            for name, rows in sorted(found.items(), key=lambda one: _GROUPS.index(one[0]))
        ]

    def _standings(self, limit: int) -> dict[str, Any]:
        """For each cut-off of the objectives a table: models, their values, and who dominates them."""
        short = [
            one._replace(model=_name(one.model), dominated_by=tuple(map(_name, one.dominated_by))) for one in self.standings
        ]
        shown = pareto_lines(short)[:limit]
        tables = [{"heads": heads, "lines": lines[:limit], "more": len(lines) - limit} for heads, *lines in shown]
        return {"tables": tables, "more": len({one.k for one in self.standings}) - limit}

    def _pairs_of_groups(self, limit: int) -> dict[str, Any]:
        """For each metric of them a table: the pairs of a group of users and one of items, and the preference of each model."""
        rows = [row for row in self.rows if row["slice"] != "all" and parse(row["metric"]).definition.by_pair]
        metrics = list(by_metric(rows))
        return {"tables": [self._by_slice(rows, one, limit) for one in metrics[:limit]], "more": len(metrics) - limit}

    def _by_slice(self, rows: Sequence[Row], metric: str, limit: int) -> dict[str, Any]:
        lines: dict[str, dict[str, Row]] = {}
        for row in rows:
            if row["metric"] == metric:
                lines.setdefault(printable(slice_name(row)), {})[row["model"]] = row
        return {"metric": metric, **self._table(lines, limit)}

    def _table(self, lines: Mapping[str, Mapping[str, Row]], limit: int) -> dict[str, Any]:
        """Models across, and a line for each metric or slice; the best value of a line is marked."""
        shown = leading(self._everybody, max(2, limit // 5), self._baseline)
        table = []
        for name, of_model in list(lines.items())[:limit]:
            rows = list(of_model.values())
            # A preference of a group for a group is told, not judged.
            judged = rows[0]["slice"] == "all" or not parse(rows[0]["metric"]).definition.by_pair
            best = best_values(rows) if judged else set()
            users, small = users_of(of_model), any(row["small"] for row in rows)
            lower = judged and not rows[0]["higher_is_better"]
            cells = [_cell(of_model.get(model), best, told=".." in users) for model in shown]
            table.append({"name": name, "lower": lower, "users": users, "small": small, "cells": cells})
        n_models = len(models_of(self._everybody))
        return {"models": shown, "lines": table, "more": len(lines) - limit, "more_models": n_models - len(shown)}


_NO_VALUES: dict[str, Any] = {
    **dict.fromkeys(("groups", "together", "beyond", "found"), ()),
    **{key: {"tables": (), "more": 0} for key in ("standings", "pairs")},
    "differences": {"figures": (), "more_figures": 0, "lines": (), "more": 0},
    "slices": {"figure": None},
    "history": {"figures": (), "more": 0},
}
"""What a template is given of a run without values."""

_RANKING, _RATINGS, _TOGETHER, _BEYOND = "Ranking", "Ratings", "Several metrics at once", "Coverage, popularity and diversity"
_GROUPS = (_RANKING, _RATINGS, _TOGETHER, _BEYOND)


def _group(metric: str) -> str:
    definition = parse(metric).definition
    if not definition.accuracy:
        return _BEYOND
    if definition.kind == "objective":
        return _TOGETHER
    return _RATINGS if definition.kind == "rating" else _RANKING


def can_be_made() -> bool:
    """Whether the packages of a page are installed."""
    return all(find_spec(package) is not None for package in ("jinja2", "matplotlib"))


def versions() -> dict[str, str]:
    """The packages on the driver that had a part in the numbers and in the page."""
    found = {"spark_recmetrics": __version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # noqa: PERF203 - a cluster has its own way to bring one
            continue
    return found


# Tables ---------------------------------------------------------------------------------------------------------------------


def _cell(row: Row | None, best: Collection[float], *, told: bool) -> dict[str, Any]:
    """A value with its interval, and with its number of users where that is to be told."""
    if row is None or row["value"] is None:
        return {"value": UNDEFINED, "interval": "", "users": "", "best": False}
    users = counted(row["n_users"], "user") if told else ""
    return {"value": f"{row['value']:.4f}", "interval": interval_of(row), "users": users, "best": row["value"] in best}


def differences_fragment(comparison: Sequence[Row], alpha: float) -> str:
    """The differences of a comparison, for a notebook.

    Args:
        comparison: Rows of COMPARISON.
        alpha: Level of the tests.

    Raises:
        ConfigError: jinja2 is not installed.
    """
    lines = _leading_lines(comparison, 50)
    told: dict[str, Any] = {"groups": (), "warnings": (), "more": 0, "findings": _found_in_slices(comparison)}
    told["differences"] = {"lines": _differences(lines[:50]), "more": len(lines) - 50}
    told["note"] = f"{100 * (1 - alpha):g} % intervals, p adjusted for the number of tests. No difference found is not equal."
    return _environment().get_template("notebook.html").render(told)


def _leading_lines(comparison: Sequence[Row], limit: int) -> list[Row]:
    """The differences over all users; where there are too many for a table or figures, those of the best models first."""
    rows = [row for row in comparison if row["slice"] == "all"]
    if len(rows) <= limit and len({(row["model_a"], row["model_b"]) for row in rows}) <= _FIGURES:
        return rows
    return leading_first(rows)


def _found_in_slices(comparison: Sequence[Row]) -> list[str]:
    """By slice, in how many comparisons a difference was found."""
    by_slice: dict[str, list[Row]] = {}
    for row in comparison:
        if row["slice"] != "all":
            by_slice.setdefault(row["slice"], []).append(row)
    lines = []
    for name, own in by_slice.items():
        n_found = sum(row["winner"] is not None for row in own)
        few = sum(row["reason"] == "small_slice" for row in own)
        untested = f"; {few} with too few users to test" if few else ""
        lines.append(f"{printable(name)}: a difference found in {n_found} of {counted(len(own), 'comparison')}{untested}")
    return lines


def _differences(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "diff": "" if row["diff"] is None else f"{row['diff']:+.4f}",
            "interval": interval_of(row),
            "p": p_of(row),
            "users": row["n_users"],
            "told": found_of(row),
        }
        for row in rows
    ]


def _facts(facts: Sequence[DataCheck], limit: int) -> dict[str, Any]:
    """Rows of DATA_REPORT, the loud ones first."""
    order = ("error", "warn", "info")
    ordered = sorted(facts, key=lambda fact: order.index(fact.level))
    lines = [
        {
            **fact._asdict(),
            "share": "" if fact.share is None else f"{fact.share:.3%}",
            "example": fact.example or "",
            "advice": ADVICE.get(fact.check, "") if fact.level != "info" else "",
        }
        for fact in ordered[:limit]
    ]
    return {"lines": lines, "more": len(facts) - limit}


def _definitions(rows: Sequence[Row]) -> list[dict[str, str]]:
    found = {}
    for row in rows:
        definition = parse(row["metric"]).definition
        better = "higher" if definition.higher_is_better else "lower"
        found[plots.without_k(row["metric"])] = {"summary": definition.summary, "better": f"{better} is better"}
    return [{"name": name, **told} for name, told in found.items()]


def _options(convention: Convention) -> dict[str, Any]:
    usual = dict(CONVENTIONS["default"].options())
    options = [
        {"name": name, "value": _text(value), "usual": _text(usual[name]), "other": value != usual[name]}
        for name, value in convention.options()
    ]
    return {"text": str(convention), "options": sorted(options, key=lambda option: not option["other"])}


def _text(value: Any) -> str:
    if isinstance(value, tuple | Mapping):
        return ", ".join(f"{key}: {own}" for key, own in dict(value).items()) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


# Figures --------------------------------------------------------------------------------------------------------------------


class _Figures:
    """Makes figures, each with an id of its own, and each only once: that takes most of the time."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ...], Markup] = {}

    def curves(self, rows: Sequence[Row], most: int, models: Sequence[str]) -> tuple[list[Markup], int]:
        """Metrics that have two cut-offs, one figure for each, and how many are left out."""
        cuts: dict[str, set[int]] = {}
        for row in rows:
            if row["k"] is not None:
                cuts.setdefault(plots.without_k(row["metric"]), set()).add(row["k"])
        names = [name for name, own in cuts.items() if len(own) > 1]
        made = [self._once(("curves", name), partial(plots.metric_by_k, rows, name, models)) for name in names[:most]]
        return made, len(names) - len(made)

    def differences(self, rows: Sequence[Row]) -> Markup:
        pair = ("differences", rows[0]["model_a"], rows[0]["model_b"])
        return self._once(pair, partial(plots.differences, rows))

    def slices(self, rows: Sequence[Row], metric: str, models: Sequence[str]) -> Markup:
        return self._once(("slices", metric), partial(plots.slices, rows, metric, models))

    def history(self, rows: Sequence[Row], metric: str, models: Sequence[str]) -> Markup:
        return self._once(("history", metric), partial(plots.history, rows, metric, models=models))

    def _once(self, key: tuple[str, ...], draw: Callable[[], Figure]) -> Markup:
        if key not in self._made:
            self._made[key] = svg(draw(), f"f{len(self._made)}")
        return self._made[key]


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError as error:
        raise ConfigError(without_extra("HTML reports need jinja2", "report")) from error
    folder = files("spark_recmetrics").joinpath("templates")  # which may lie in a zip file
    environment = Environment(
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["name"] = _name
    return environment


def _name(value: object) -> str:
    text = printable(str(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
