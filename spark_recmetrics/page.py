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
from typing import TYPE_CHECKING, Any

from spark_recmetrics import plots
from spark_recmetrics.canvas import missing, svg
from spark_recmetrics.conventions import CONVENTIONS, Convention
from spark_recmetrics.errors import ConfigError, counted, printable
from spark_recmetrics.facts import ADVICE, Fact
from spark_recmetrics.metrics import parse
from spark_recmetrics.report import (
    UNDEFINED,
    best_values,
    by_metric,
    findings,
    found_of,
    gates_told,
    headline_of,
    interval_of,
    models_of,
    p_of,
    pareto_lines,
    users_of,
)
from spark_recmetrics.slices import slice_name
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

_LONGEST = 120
"""Letters of a name that are shown."""

_PACKAGES = ("pyspark", "numpy", "pandas", "pyarrow", "scipy", "matplotlib")


@dataclass(frozen=True, kw_only=True)
class Page:
    """What is shown of a result.

    Args:
        rows: Rows of SUMMARY.
        facts: Rows of DATA_REPORT.
        convention: The definitions.
        warnings: Lines, without those of what is empty.
        emptiness: Lines of what is empty and must not be.
        confidence: Of the intervals.
        verdicts: Rows of GATES.
        comparison: Rows of COMPARISON.
        alpha: The level of the comparison.
        standings: Of each model and cut-off of the objectives.
        history: Rows of SUMMARY of this run and earlier ones.
        configuration: The configuration as text.
    """

    rows: Sequence[Row]
    facts: Sequence[Fact]
    convention: Convention
    warnings: Sequence[str]
    emptiness: Sequence[str]
    confidence: float
    verdicts: Sequence[Row] = ()
    comparison: Sequence[Row] = ()
    alpha: float = 0.05
    standings: Sequence[Standing] = ()
    history: Sequence[Row] = ()
    configuration: str | None = None

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
        """The verdict and the values alone, for a notebook.

        Raises:
            ConfigError: jinja2 is not installed.
        """
        told = {"head": self._head(), "groups": self._groups(50), "warnings": self.warnings[:5], "more": len(self.warnings) - 5}
        return _environment().get_template("notebook.html").render(told)

    def _content(self, limit: int, draw: _Figures) -> dict[str, Any]:
        groups, metric = self._groups(limit), headline_of(self._everybody)
        most = min(limit, _FIGURES)
        for group in groups:
            rows = group.pop("rows")
            group["figures"] = [] if group["name"] == _TOGETHER else draw.curves(rows, most)
        pairs = [row for row in self.comparison if row["slice"] == "all"]
        by_pair: dict[tuple[str, str], list[Row]] = {}
        for row in pairs:
            by_pair.setdefault((row["model_a"], row["model_b"]), []).append(row)
        known = [own for own in by_pair.values() if any(row["diff"] is not None for row in own)]
        drawn = [draw.differences(own) for own in known[:most]]
        sliced = [row for row in self.rows if row["slice"] != "all" and row["metric"] == metric]
        several = len({row["as_of"] for row in self.history}) > 1
        nights = by_metric(self.history) if several else {}
        return {
            "head": self._head(),
            "groups": [group for group in groups if group["name"] in (_RANKING, _RATINGS)],
            "together": [group for group in groups if group["name"] == _TOGETHER],
            "standings": self._standings(limit),
            "beyond": [group for group in groups if group["name"] == _BEYOND],
            "pairs": self._pairs_of_groups(limit),
            "verdicts": [{**row, "model": row["model"] or "no model"} for row in self.verdicts[:limit]],
            "differences": {"figures": drawn, "lines": _differences(pairs[:limit]), "more": len(pairs) - limit},
            "found": self._found_in_slices(),
            "slices": {
                **self._by_slice(self.rows, metric, limit),
                "figure": draw.slices(self.rows, metric) if sliced else None,
            },
            "history": [draw.history(self.history, name) for name in list(nights)[:4]],
            "facts": _facts(self.facts, limit),
            "warnings": self.warnings[:limit],
            "n_warnings": len(self.warnings),
            "metrics": _definitions(self.rows),
            "convention": _options(self.convention),
            "configuration": self.configuration,
            "versions": versions(),
            "confidence": f"{100 * self.confidence:g} %",
            "level": f"{100 * (1 - self.alpha):g} %",
            "methods": sorted({row["ci_method"] for row in self.rows if row["ci_method"]}),
        }

    @property
    def _everybody(self) -> list[Row]:
        return [row for row in self.rows if row["slice"] == "all"]

    def _head(self) -> dict[str, Any]:
        one = self.rows[0]
        level, told = gates_told(self.verdicts)
        if self.emptiness:
            level, told = "fail", "values are undefined: there is nobody to average"
        computed: datetime = one["computed_at"]
        return {
            "level": level,
            "title": one["job"] or "Evaluation",
            "as_of": one["as_of"],
            "told": told[0].upper() + told[1:],
            "findings": [*self.emptiness, *findings(self.rows, self.comparison, self.confidence, self.alpha)],
            "run": {
                "run": one["run_id"],
                "as of": one["as_of"],
                "computed at": f"{computed:%Y-%m-%d %H:%M} UTC",
                "configuration": one["config_hash"],
                "truth": one["data_hash"],
                "convention": one["convention"],
            },
        }

    def _groups(self, limit: int) -> list[dict[str, Any]]:
        """The tables of values over all users, by what metrics look at."""
        found: dict[str, list[Row]] = {}
        for row in self._everybody:
            found.setdefault(_group(row["metric"]), []).append(row)
        return [
            {"name": name, "rows": rows, **_values(by_metric(rows), models_of(self._everybody), limit)}
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
        return {"metric": metric, **_values(lines, models_of(self._everybody), limit)}

    def _found_in_slices(self) -> list[str]:
        """By slice, in how many comparisons a difference was found."""
        by_slice: dict[str, list[Row]] = {}
        for row in self.comparison:
            if row["slice"] != "all":
                by_slice.setdefault(row["slice"], []).append(row)
        lines = []
        for name, own in by_slice.items():
            n_found = sum(row["winner"] is not None for row in own)
            few = sum(row["reason"] == "small_slice" for row in own)
            untested = f"; {few} with too few users to test" if few else ""
            lines.append(f"{name}: a difference found in {n_found} of {counted(len(own), 'comparison')}{untested}")
        return lines


_RANKING, _RATINGS, _TOGETHER, _BEYOND = "Ranking", "Ratings", "Several metrics at once", "Coverage, popularity and diversity"
_GROUPS = (_RANKING, _RATINGS, _TOGETHER, _BEYOND)


def _group(metric: str) -> str:
    definition = parse(metric).definition
    if not definition.accuracy:
        return _BEYOND
    if definition.kind == "objective":
        return _TOGETHER
    return _RATINGS if definition.kind == "rating" else _RANKING


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


def _values(lines: Mapping[str, Mapping[str, Row]], models: Sequence[str], limit: int) -> dict[str, Any]:
    """Models across, and a line for each metric or slice; the best value of a line is marked."""
    shown = list(models[: max(2, limit // 5)])
    table = []
    for name, of_model in list(lines.items())[:limit]:
        rows = list(of_model.values())
        # A preference of a group for a group is told, not judged.
        judged = rows[0]["slice"] == "all" or not parse(rows[0]["metric"]).definition.by_pair
        best = best_values(rows) if judged else set()
        users, small = users_of(of_model), any(row["small"] for row in rows)
        cells = [_cell(of_model.get(model), best, told=".." in users) for model in shown]
        table.append(
            {"name": name, "lower": judged and not rows[0]["higher_is_better"], "users": users, "small": small, "cells": cells}
        )
    return {"models": shown, "lines": table, "more": len(lines) - limit, "more_models": len(models) - len(shown)}


def _cell(row: Row | None, best: Collection[float], *, told: bool) -> dict[str, Any]:
    """A value with its interval, and with its number of users where that is to be told."""
    if row is None or row["value"] is None:
        return {"value": UNDEFINED, "interval": "", "users": "", "best": False}
    users = counted(row["n_users"], "user") if told else ""
    return {"value": f"{row['value']:.4f}", "interval": interval_of(row), "users": users, "best": row["value"] in best}


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


def _facts(facts: Sequence[Fact], limit: int) -> dict[str, Any]:
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

    def curves(self, rows: Sequence[Row], most: int) -> list[Markup]:
        """Metrics that have two cut-offs, one figure for each."""
        cuts: dict[str, set[int]] = {}
        for row in rows:
            if row["k"] is not None:
                cuts.setdefault(plots.without_k(row["metric"]), set()).add(row["k"])
        names = [name for name, own in cuts.items() if len(own) > 1][:most]
        return [self._once(("curves", name), partial(plots.metric_by_k, rows, name)) for name in names]

    def differences(self, rows: Sequence[Row]) -> Markup:
        pair = ("differences", rows[0]["model_a"], rows[0]["model_b"])
        return self._once(pair, partial(plots.differences, rows))

    def slices(self, rows: Sequence[Row], metric: str) -> Markup:
        return self._once(("slices", metric), partial(plots.slices, rows, metric))

    def history(self, rows: Sequence[Row], metric: str) -> Markup:
        return self._once(("history", metric), partial(plots.history, rows, metric))

    def _once(self, key: tuple[str, ...], draw: Callable[[], Figure]) -> Markup:
        if key not in self._made:
            self._made[key] = svg(draw(), f"f{len(self._made)}")
        return self._made[key]


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError as error:
        raise ConfigError(missing("HTML reports", "jinja2")) from error
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
