"""Results as HTML: one self-contained file for a browser or paper, and a fragment for notebooks. Rendering computes nothing.

The page has no script and loads nothing; its content security policy forbids both. Text from data is escaped by the template,
or by matplotlib in figures. Figures use the colors of the page, light or dark.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from spark_recmetrics.conventions import CONVENTIONS, Convention
from spark_recmetrics.errors import ConfigError, without_extra
from spark_recmetrics.inputs.data_report import DataCheck
from spark_recmetrics.metrics import parse
from spark_recmetrics.metrics.objectives import Standing
from spark_recmetrics.reports import plots
from spark_recmetrics.reports.drawing import MOST_MODELS, short, svg
from spark_recmetrics.reports.findings import findings, gates_summary, slice_findings
from spark_recmetrics.reports.formatting import SMALL_NOTE, Row
from spark_recmetrics.reports.selection import (
    best_models,
    best_pairs_first,
    by_metric,
    by_slice,
    headline_of,
    models_of,
    of_all_users,
    value_lines,
)
from spark_recmetrics.reports.tables import comparison_cells, pareto_cells
from spark_recmetrics.text import counted, printable
from spark_recmetrics.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure

LARGEST_PAGE = 1_000_000
"""Bytes. Long tables are cut until the page is smaller."""

_LIMITS = (150, 50, 15, 5)
"""Most lines of a table. The page uses the first limit with which it is small enough."""

_FIGURES = 12  # most figures of a kind
_FAILED = 3  # most failed gates in the summary; the table of gates has all of them
_HISTORIES = 4  # most metrics that are drawn over the last runs
_LONGEST = 120  # most characters of a name
_NOTEBOOK = 50  # most lines of a table in a notebook

_PACKAGES = ("pyspark", "numpy", "pandas", "pyarrow", "scipy", "matplotlib")


@dataclass(frozen=True, kw_only=True)
class Page:
    """The data of a report, for a result or for a run that ended without values, which has no rows of SUMMARY."""

    run: Row  # job, as_of, run_id, config_hash, data_hash, computed_at
    rows: Sequence[Row]
    data_checks: Sequence[DataCheck]
    convention: Convention
    warnings: Sequence[str]  # except those about undefined values
    emptiness: Sequence[str]  # errors about undefined values, or why there are no values
    confidence: float
    gate_results: Sequence[Row] = ()
    comparison: Sequence[Row] = ()
    alpha: float = 0.05
    standings: Sequence[Standing] = ()
    history: Sequence[Row] = ()  # of this run and previous ones
    configuration: str | None = None
    ended: str | None = None  # how a run without values ended

    def html(self) -> str:
        """The page. Raises `ConfigError` if jinja2 or matplotlib is not installed."""
        template = _environment().get_template("report.html")
        text, draw = "", _Figures()
        for limit in _LIMITS:
            text = template.render(self._content(limit, draw))
            if len(text.encode()) < LARGEST_PAGE:
                break
        return text

    def fragment(self) -> str:
        """The summary and the values, for a notebook. Raises `ConfigError` if jinja2 is not installed."""
        return _fragment(
            findings=self._head()["findings"],
            groups=self._groups(_NOTEBOOK),
            note=f"★ best value in the row. Convention {_shortened(self.convention)}.",
            warnings=self.warnings,
        )

    def _content(self, limit: int, draw: _Figures) -> dict[str, Any]:
        content = {
            "head": self._head(),
            "evaluated": bool(self.rows),
            "several": len(models_of(self._overall)) > 1,
            "gates": self._gates(limit),
            "checks": sorted(self.data_checks, key=lambda check: ("error", "warn", "info").index(check.level)),
            "limit": limit,
            "warnings": self.warnings[:limit],
            "n_warnings": len(self.warnings),
            "definitions": {plots.without_k(row["metric"]): parse(row["metric"]).definition for row in self.rows},
            "convention": _options(self.convention),
            "configuration": "\n".join(map(printable, (self.configuration or "").split("\n"))),
            "versions": versions(),
            "confidence": f"{100 * self.confidence:g} %",
            "methods": sorted({row["ci_method"] for row in self.rows if row["ci_method"]}),
            "small_note": SMALL_NOTE,
        }
        return {**content, **self._values(limit, draw)} if self.rows else content

    def _values(self, limit: int, draw: _Figures) -> dict[str, Any]:
        """The sections that need values."""
        groups, metric = self._groups(limit), headline_of(self._overall)
        most, models = min(limit, _FIGURES), best_models(self.rows, MOST_MODELS, self._baseline)
        for group in groups:
            rows = group.pop("rows")
            names = [] if group["name"] == _TOGETHER else list(plots.curves_by_metric(rows))
            group["figures"] = [draw(name, plots.metric_by_k, rows, name, models) for name in names[:most]]
            group["more_figures"] = len(names[most:])
        sliced = any(row["slice"] != "all" and row["metric"] == metric for row in self.rows)
        return {
            "groups": [group for group in groups if group["name"] in (_RANKING, _RATINGS)],
            "together": [group for group in groups if group["name"] == _TOGETHER],
            "beyond": [group for group in groups if group["name"] == _BEYOND],
            "standings": self._standings(limit),
            "pairs": self._pairs_of_groups(limit),
            "differences": self._differences(limit, draw),
            "slice_findings": slice_findings(self.comparison),
            "slices": {
                **self._by_slice(self.rows, metric, limit),
                "figure": draw("slices", plots.slices, self.rows, metric, models) if sliced else None,
            },
            "history": self._history(draw, models),
        }

    def _gates(self, limit: int) -> dict[str, Any]:
        """The results of the gates, failures first; no failure is left out."""
        ordered = sorted(self.gate_results, key=lambda row: ("fail", "warn", "pass").index(row["result"]))
        shown = ordered[: max(limit, sum(row["result"] == "fail" for row in ordered))]
        return {"lines": shown, "more": len(ordered) - len(shown)}

    def _differences(self, limit: int, draw: _Figures) -> dict[str, Any]:
        """Figures and a table of pairs of models; of many pairs those of the best models."""
        rows = _leading_differences(self.comparison, limit)
        by_pair: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            by_pair.setdefault((row["model_a"], row["model_b"]), []).append(row)
        drawable = [(pair, group) for pair, group in by_pair.items() if any(row["diff"] is not None for row in group)]
        most = min(limit, _FIGURES)
        return {
            "figures": [draw(pair, plots.differences, group) for pair, group in drawable[:most]],
            "more_figures": len(drawable) - most,
            **_cut(comparison_cells(rows, self.alpha), limit),
        }

    def _history(self, draw: _Figures, models: Sequence[str]) -> dict[str, Any]:
        several = len({row.get("as_of") for row in self.history}) > 1
        # A metric needs a model of this run: others would have an empty figure.
        metrics = list(by_metric(row for row in self.history if row["model"] in models)) if several else []
        shown = [draw(name, plots.history, self.history, name, models=models) for name in metrics[:_HISTORIES]]
        return {"figures": shown, "more": len(metrics) - len(shown)}

    @property
    def _baseline(self) -> set[str]:
        """The model that all others are compared with, if there is one."""
        models = {row["model_a"] for row in self.comparison}
        return models if len(models) == 1 else set()

    @property
    def _overall(self) -> list[Row]:
        return of_all_users(self.rows)

    def _head(self) -> dict[str, Any]:
        level, summary = gates_summary(self.gate_results)
        if self.emptiness:
            level, summary = "fail", self.ended or "values are undefined: there are no users to evaluate"
        sentences = findings(self.rows, self.comparison, self.confidence, self.alpha) if self.rows else []
        failed = [
            printable(f"{row['model'] or 'no model'} fails {row['gate']}: {row['reason']}.")
            for row in self.gate_results
            if row["result"] == "fail"
        ]
        if len(failed) > _FAILED:
            failed[_FAILED:] = [f"{counted(len(failed) - _FAILED, 'more failed gate')} below."]
        computed = f"{self.run['computed_at']:%Y-%m-%d %H:%M} UTC"
        return {
            "level": level,
            "title": self.run["job"] or "Evaluation",
            "as_of": self.run["as_of"],
            "summary": summary[0].upper() + summary[1:],
            "findings": [*self.emptiness, *failed, *sentences],
            "computed": computed,
            "run": {
                "run": self.run["run_id"],
                "as of": self.run["as_of"],
                "computed at": computed,
                "configuration": self.run["config_hash"],
                "ground truth": self.run["data_hash"],
                "convention": str(self.convention),
            },
        }

    def _groups(self, limit: int) -> list[dict[str, Any]]:
        """The tables of values over all users, by group of metrics."""
        groups: dict[str, list[Row]] = {}
        for row in self._overall:
            groups.setdefault(_group(row["metric"]), []).append(row)
        return [
            {"name": name, "rows": groups[name], **self._table(by_metric(groups[name]).items(), limit)}
            for name in _GROUPS
            if name in groups
        ]

    def _standings(self, limit: int) -> dict[str, Any]:
        """For each cut-off of the objectives a table of models, their values, and the models that dominate them."""
        tables = pareto_cells(self.standings)
        return {"tables": [_cut(table, limit) for table in tables[:limit]], "more": len(tables) - limit}

    def _pairs_of_groups(self, limit: int) -> dict[str, Any]:
        """For each metric of pairs of groups a table: the preference of each model, by group of users and group of items."""
        rows = [row for row in self.rows if row["slice"] != "all" and parse(row["metric"]).definition.by_pair]
        metrics = list(by_metric(rows))
        return {"tables": [self._by_slice(rows, name, limit) for name in metrics[:limit]], "more": len(metrics) - limit}

    def _by_slice(self, rows: Sequence[Row], metric: str, limit: int) -> dict[str, Any]:
        return {"metric": metric, **self._table(by_slice(rows, metric), limit)}

    def _table(self, lines: Iterable[tuple[str, Mapping[str, Row]]], limit: int) -> dict[str, Any]:
        """Models across, and a line for each metric or slice."""
        lines = list(lines)
        shown = best_models(self._overall, max(2, limit // 5), self._baseline)
        return {
            "models": shown,
            "lines": value_lines(lines[:limit], shown),
            "more": len(lines) - limit,
            "more_models": len(models_of(self._overall)) - len(shown),
        }


_RANKING, _RATINGS, _TOGETHER, _BEYOND = "Ranking", "Ratings", "Several metrics at once", "Coverage, popularity and diversity"
_GROUPS = (_RANKING, _RATINGS, _TOGETHER, _BEYOND)


def _group(metric: str) -> str:
    definition = parse(metric).definition
    if not definition.accuracy:
        return _BEYOND
    return {"objective": _TOGETHER, "rating": _RATINGS}.get(definition.kind, _RANKING)


def can_be_made() -> bool:
    """Whether the packages of a page are installed."""
    return all(find_spec(package) is not None for package in ("jinja2", "matplotlib"))


def versions() -> dict[str, str]:
    """Versions of the packages on the driver that affect the numbers or the page."""
    versions = {"spark_recmetrics": __version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # noqa: PERF203 - a cluster may provide it without metadata
            continue
    return versions


def _cut(table: Sequence[Sequence[str]], limit: int) -> dict[str, Any]:
    """The header and the first lines of a table, and how many more lines there are."""
    header, *lines = table
    return {"header": header, "lines": lines[:limit], "more": len(lines) - limit}


def differences_fragment(comparison: Sequence[Row], alpha: float) -> str:
    """The rows of COMPARISON for a notebook. Raises `ConfigError` if jinja2 is not installed."""
    return _fragment(
        findings=slice_findings(comparison),
        differences=_cut(comparison_cells(_leading_differences(comparison, _NOTEBOOK), alpha), _NOTEBOOK),
        note="CI: confidence interval. p is adjusted for the number of tests. Not significant does not mean equal.",
    )


def _fragment(**content: Any) -> str:
    empty: dict[str, Any] = {"groups": (), "differences": {"lines": ()}, "warnings": ()}
    return _environment().get_template("notebook.html").render(empty | content)


def _leading_differences(comparison: Sequence[Row], limit: int) -> list[Row]:
    """The rows over all users; if there are too many for a table or figures, the pairs of the best models come first."""
    rows = of_all_users(comparison)
    if len(rows) <= limit and len({(row["model_a"], row["model_b"]) for row in rows}) <= _FIGURES:
        return rows
    return best_pairs_first(rows)


def _options(convention: Convention) -> dict[str, Any]:
    defaults = dict(CONVENTIONS["default"].options())
    options = [
        {"name": name, "value": _text(value), "default": _text(defaults[name]), "differs": value != defaults[name]}
        for name, value in convention.options()
    ]
    return {"text": str(convention), "options": sorted(options, key=lambda option: not option["differs"])}


def _text(value: Any) -> str:
    if isinstance(value, tuple | Mapping):
        return ", ".join(f"{key}: {item}" for key, item in dict(value).items()) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


class _Figures:
    """Makes the figures of a page, each with an id and only once, because they take most of the time."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, object], Markup] = {}

    def __call__(self, name: object, plot: Callable[..., Figure], *args: Any, **kwargs: Any) -> Markup:
        key = (plot.__name__, name)
        if key not in self._made:
            self._made[key] = svg(plot(*args, **kwargs), f"f{len(self._made)}")
        return self._made[key]


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError as error:
        raise ConfigError(without_extra("HTML reports need jinja2", "report")) from error
    folder = files("spark_recmetrics.reports").joinpath("templates")  # may be inside a zip file
    environment = Environment(
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"name": _shortened, "printable": printable}
    return environment


def _shortened(value: object) -> str:
    return short(str(value), _LONGEST)
