"""Pictures of results, as figures of matplotlib. They show rows; `score_calibration` alone may ask a result for more.

Every function takes a result, or rows of its table: a list of mappings, what `collect()` gives, or a pandas frame. The label of
a figure, `figure.get_label()`, says in words what it shows, for readers who do not see it. Models have the same colour, marker
and line in all figures of a result; the colours differ for colour-blind readers, too, and without colour the markers do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics import parse
from spark_recmetrics.reports.drawing import (
    COLOURS,
    MOST_LINES,
    MOST_MODELS,
    MUTED,
    RULE,
    WIDE,
    Look,
    curve,
    dot,
    drawing,
    finished,
    finite,
    looks_of,
    name_lines,
    panels_of,
    short,
    wrapped,
)
from spark_recmetrics.reports.tables import leading, leading_first, models_of
from spark_recmetrics.request.slices import slice_name
from spark_recmetrics.runs.order import changes, newest_runs
from spark_recmetrics.text import brief, counted, did_you_mean, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


__all__ = ["differences", "history", "metric_by_k", "score_calibration", "slices"]

Row = Mapping[str, Any]

_TEXT_LINE, _TITLE = 0.15, 40
"""Inches of a line of text, and how many letters a title has over one panel."""

_LABEL = 1.3
"""How many letters of a label fit where one of a title does, which are larger and bold."""


def metric_by_k(result: Any, metrics: Sequence[str] | str | None = None, models: Sequence[str] | None = None) -> Figure:
    """Values against the cut-off, a panel for each metric, with intervals.

    Args:
        result: A result, or rows of SUMMARY; those of slices are left out.
        metrics: Metrics without cut-off, such as `ndcg`. None: all that have values at two cut-offs or more.
        models: Which models, in the order of their colours. None: all, or of many the twelve that are best by the first
            ranking metric.

    Raises:
        ConfigError: There is no such metric or model, or none has two cut-offs; or matplotlib is not installed.

    Example:
        >>> row = {"slice": "all", "metric": "hit@1", "k": 1, "model": "als", "value": 0.25, "ci_low": 0.125, "ci_high": 0.375}
        >>> print(metric_by_k([row, {**row, "metric": "hit@5", "k": 5, "value": 0.5, "ci_high": 0.75}]).get_label())
        hit against k. als: 0.2500 at 1, 0.5000 at 5.
    """
    rows = [row for row in _rows(result, "a result, or rows of SUMMARY", *_SUMMARY) if row["slice"] == "all"]
    found: dict[str, list[Row]] = {}
    for row in [row for row in rows if row["k"] is not None]:
        found.setdefault(without_k(row["metric"]), []).append(row)
    curves = {name: own for name, own in found.items() if len({row["k"] for row in own}) > 1}
    asked = [metrics] if isinstance(metrics, str) else list(curves if metrics is None else metrics)
    for name in asked:
        if name not in curves:
            raise ConfigError(f"metrics: expected a metric with two cut-offs or more, found {name!r}{_known(name, curves)}")
    if not asked:
        raise ConfigError("metrics: expected one with two cut-offs or more, found none: evaluate with k=[5, 10]")
    looks, left_out = _looks(rows, models)
    n_columns = min(3, len(asked))
    n_rows = math.ceil(len(asked) / n_columns)
    told, titles = [], [wrapped(name, 30) for name in asked]
    with drawing():
        height = 2.5 + _TEXT_LINE * max(title.count("\n") for title in titles)
        figure, panels = panels_of(n_rows, n_columns, (3.3 * n_columns, height * n_rows), looks)
        for name, title, panel in zip(asked, titles, panels, strict=False):
            texts = []
            for model, look in looks.items():
                points = sorted((row for row in curves[name] if row["model"] == model), key=lambda row: row["k"])
                curve(panel, [row["k"] for row in points], points, look)
                texts.append(f"{model}: {', '.join(_at_k(row) for row in points)}" if points else "")
            told.append(f"{name} against k. {'; '.join(text for text in texts if text)}.")
            cuts = sorted({row["k"] for row in curves[name]})
            if cuts[-1] / cuts[0] > 20:
                panel.set_xscale("log")
            panel.set_xticks(cuts, [str(k) for k in cuts])
            panel.minorticks_off()
            panel.set_title(title)
            panel.set_xlabel("k")
        for panel in panels[len(asked) :]:
            panel.remove()
        return finished(figure, " ".join(told), looks, left_out)


def differences(comparison: Any, metrics: Sequence[str] | str | None = None) -> Figure:
    """The differences of a comparison over all users with their intervals, a panel for each pair of models and scale.

    A filled dot is a difference that was found. A hollow one is none that was found, which is not the same as none: bars on
    both sides of 0 mark the smallest difference that these users could have shown with 80 % power. Values between 0 and 1
    share a scale; other metrics have their own.

    Args:
        comparison: Of `compare`, or rows of COMPARISON.
        metrics: Such as `ndcg@10`. None: all. Of more than 40 differences those of the best models by the headline
            are drawn.

    Raises:
        ConfigError: There is no such metric or no difference; or matplotlib is not installed.

    Example:
        >>> row = {"model_a": "pop", "model_b": "als", "slice": "all", "metric": "hit@1", "diff": 0.25, "ci_low": 0.125}
        >>> print(differences([{**row, "ci_high": 0.375, "winner": "als"}]).get_label())
        als minus pop. hit@1: +0.2500 (+0.1250 to +0.3750), als is better.
    """
    rows = [
        row
        for row in _rows(comparison, "a comparison, or rows of COMPARISON", "model_a", "model_b", "metric", "slice")
        if row["slice"] == "all"
    ]
    asked = [metrics] if isinstance(metrics, str) else metrics
    for name in asked or ():
        if name not in (compared := [row["metric"] for row in rows]):
            raise ConfigError(f"metrics: {name!r} was not compared{_known(name, compared)}")
    drawable = [row for row in rows if row["diff"] is not None and (asked is None or row["metric"] in asked)]
    if not drawable:
        raise ConfigError("comparison: expected a difference over all users, found none")
    rows = drawable
    if len(drawable) > MOST_LINES:
        rows = leading_first(drawable)[:MOST_LINES]
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["model_a"], row["model_b"], _scale(row["metric"])), []).append(row)
    told: dict[tuple[str, str], list[str]] = {}
    with drawing():
        names = {group: [wrapped(row["metric"], 28) for row in own] for group, own in groups.items()}
        room = _room(max(len(line) for own in names.values() for name in own for line in name.split("\n")))
        titles = {group: _minus(*group[:2], room) for group in groups}
        heights = [0.9 + sum(0.11 + _TEXT_LINE * (1 + name.count("\n")) for name in own) for own in names.values()]
        heights = [own + _TEXT_LINE * title.count("\n") for own, title in zip(heights, titles.values(), strict=True)]
        figure, panels = panels_of(len(groups), 1, (WIDE, sum(heights) + 0.2), {}, heights)
        for (group, own), panel in zip(groups.items(), panels, strict=True):
            panel.axvline(0, color=MUTED, linewidth=0.9)
            could_show = False
            for place, row in enumerate(own):
                is_found = row["winner"] is not None
                dot(panel, row["diff"], place, row, COLOURS[0] if is_found else MUTED, "o", filled=is_found)
                better = f"{short(row['winner'])} is better" if is_found else "no difference found"
                if not is_found and (least := finite(row["smallest_difference"])) is not None:
                    panel.plot([-least, least], [place, place], color=MUTED, marker="|", markersize=9, linestyle="")
                    better, could_show = f"{better} (could show {least:.4f})", True
                known = row["ci_low"] is not None and row["ci_high"] is not None
                interval = f" ({row['ci_low']:+.4f} to {row['ci_high']:+.4f})" if known else ""
                told.setdefault(group[:2], []).append(f"{row['metric']}: {row['diff']:+.4f}{interval}, {better}")
            lower = [not parse(row["metric"]).definition.higher_is_better for row in own]
            name_lines(panel, [f"{name}{' ↓' if below else ''}" for name, below in zip(names[group], lower, strict=True)])
            panel.set_title(titles[group])
            note = fill("| the smallest that these users could have shown", int(_LABEL * room)) if could_show else ""
            panel.set_xlabel(f"difference{' (↓ lower is better)' if any(lower) else ''}\n{note}".rstrip("\n"))
            panel.margins(x=0.08)
            panel.locator_params(axis="x", nbins=5)
        text = " ".join(f"{short(b)} minus {short(a)}. {'; '.join(lines)}." for (a, b), lines in told.items())
        return finished(figure, text, {}, {"difference": len(drawable) - len(rows)})


def slices(result: Any, metric: str | None = None, models: Sequence[str] | None = None) -> Figure:
    """One metric for all users and for each value of each slice, as dots with intervals; hollow are those over too few users.

    Args:
        result: A result, or rows of SUMMARY.
        metric: Such as `ndcg@10`. None: the first with values of slices.
        models: See `metric_by_k`.

    Raises:
        ConfigError: There is no slice, none with this metric, or no such model; or matplotlib is not installed.

    Example:
        >>> row = {"slice": "all", "slice_value": "all", "metric": "hit@1", "k": 1, "model": "als", "value": 0.25}
        >>> row |= {"ci_low": None, "ci_high": None, "n_users": 40, "small": False}
        >>> few = {"slice": "gender", "slice_value": "F", "value": 0.5, "n_users": 2, "small": True}
        >>> print(slices([row, {**row, **few}]).get_label())
        hit@1 by slice. all: als 0.2500; gender = F (too few users for a conclusion): als 0.5000.
    """
    rows = _rows(result, "a result, or rows of SUMMARY", *_SUMMARY)
    known = list(dict.fromkeys(row["metric"] for row in rows if row["slice"] != "all"))
    if not known:
        raise ConfigError("slices: expected values of slices, found none: evaluate with slices=[...]")
    metric = known[0] if metric is None else metric
    if metric not in known:
        raise ConfigError(f"metric: {metric!r} was not evaluated by slice{_known(metric, known)}")
    looks, left_out = _looks(rows, models)
    lines: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if row["metric"] == metric and row["model"] in looks:
            lines.setdefault((row["slice"], row["slice_value"]), {})[row["model"]] = row
    left_out["line"] = len(lines) - MOST_LINES
    shown = dict(list(lines.items())[:MOST_LINES])
    names, told = [], []
    with drawing():
        height = 0.16 + 0.08 * min(len(looks), 4)
        figure, (panel,) = panels_of(1, 1, (WIDE, 0.9 + height * len(shown)), looks)
        step = 0.6 / max(1, len(looks))
        for place, ((text, _), of_model) in enumerate(shown.items()):
            name, texts = printable(slice_name(next(iter(of_model.values())))), []
            for nth, (model, look) in enumerate(looks.items()):
                if (own := of_model.get(model)) is None:
                    continue
                texts.append(f"{model} {_number(own)}")
                if finite(own["value"]) is not None:
                    level = place + step * (nth - (len(looks) - 1) / 2)
                    dot(panel, own["value"], level, own, look.colour, look.marker, filled=not own["small"])
            few = any(row["small"] for row in of_model.values())
            names.append(short(name, 32) + (" ~" if few else ""))
            told.append(f"{name}{' (too few users for a conclusion)' if few else ''}: {', '.join(texts)}")
            if place and text != list(shown)[place - 1][0]:
                panel.axhline(place - 0.5, color=RULE, linewidth=0.9)
        name_lines(panel, names)
        panel.grid(visible=False, axis="y")
        panel.locator_params(axis="x", nbins=6)
        marked = any(name.endswith(" ~") for name in names)
        room = int(_LABEL * _room(max(map(len, names))))
        note = f"\n{fill('~ hollow: too few users for a conclusion', room)}" if marked else ""
        panel.set_xlabel(wrapped(metric, room) + note)
        return finished(figure, f"{metric} by slice. {'; '.join(told)}.", looks, left_out)


def history(rows: Any, metric: str | None = None, last: int = 30, models: Sequence[str] | None = None) -> Figure:
    """One metric over the last nights of a job, with intervals.

    A dotted line stands where truth, configuration or convention is another than the night before.

    Args:
        rows: Rows of `read_history`, of one job; a Spark frame is collected first, perhaps after a filter by metric.
        metric: Such as `ndcg@10`. None: the first.
        last: How many nights, from 1.
        models: See `metric_by_k`; the order is that of the rows of the newest night, and models of earlier nights follow. One
            that has no night with this metric is left out.

    Raises:
        ConfigError: There is no such metric or model; or matplotlib is not installed.

    Example:
        >>> row = {"run_id": "r", "model": "als", "convention": "default", "config_hash": "c", "data_hash": "d"}
        >>> row |= {"slice": "all", "metric": "hit@1", "k": 1, "ci_low": None, "ci_high": None, "computed_at": 0}
        >>> nights = [{**row, "as_of": "11-26", "value": 0.25}, {**row, "as_of": "11-27", "value": 0.5, "data_hash": "e"}]
        >>> print(history(nights).get_label())
        hit@1 over 2 nights, 11-26 to 11-27. als: from 0.2500 to 0.5000. The ground truth is another from 11-27 on.
    """
    if isinstance(last, bool) or not isinstance(last, int) or last < 1:
        raise ConfigError(f"last: expected a whole number from 1, found {brief(last)}")
    found = [row for row in _rows(rows, "rows of read_history", *_SUMMARY, "as_of") if row["slice"] == "all"]
    known = list(dict.fromkeys(row["metric"] for row in found))
    metric = known[0] if metric is None and known else metric
    if metric is None or metric not in known:
        raise ConfigError(f"metric: expected rows of {metric or 'a metric'}, found none{_known(metric or '', known)}")
    nights = newest_runs([row for row in found if row["metric"] == metric], last)
    # A model of tonight may have no earlier night, and keeps its colour.
    there = {model for _, of_night in nights for model in of_night}
    if models and not isinstance(models, str) and not there.intersection(models):
        raise ConfigError(f"models: expected one that has a night with {metric}, found none{_known(models[0], sorted(there))}")
    looks, left_out = _looks([*_newest_first(found, nights), *({"model": model} for model in models or ())], models)
    looks = {model: look for model, look in looks.items() if model in there}
    labels, told = [as_of for as_of, _ in nights], []
    with drawing():
        title = wrapped(metric, _TITLE)
        figure, (panel,) = panels_of(1, 1, (WIDE, 2.7 + _TEXT_LINE * title.count("\n")), looks)
        news, before = [], None
        for place, (as_of, of_night) in enumerate(nights):
            one = next(iter(of_night.values()))
            if before is not None and (new := changes(before, one)):
                panel.axvline(place - 0.5, color=MUTED, linewidth=0.9, linestyle=":")
                text = " and ".join(new)
                news.append(f"{text[0].upper()}{text[1:]} is another from {printable(as_of)} on.")
            before = one
        for model, look in looks.items():
            points = [of_night.get(model) for _, of_night in nights]
            curve(panel, list(range(len(points))), points, look)
            numbers = [_number(row) for row in points if row is not None and finite(row["value"]) is not None]
            text = f"from {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else numbers[0] if numbers else "undefined"
            told.append(f"{model}: {text}")
        every = max(1, math.ceil(len(labels) / 4))
        shown = list(range(len(labels) - 1, -1, -every))[::-1]
        panel.set_xticks(shown, [short(labels[place], 16) for place in shown])
        panel.set_xlim(-0.5, len(labels) - 0.5)
        panel.set_title(title)
        if news:
            panel.set_xlabel("dotted: another truth or configuration from there on")
        span = f"{printable(labels[0])} to {printable(labels[-1])}" if len(labels) > 1 else printable(labels[0])
        head = f"{metric} over {counted(len(nights), 'night')}, {span}."
        return finished(figure, " ".join([head, f"{'; '.join(told)}.", *news]), looks, left_out)


def score_calibration(result: Any, models: Sequence[str] | None = None) -> Figure:
    """A reliability diagram: the share of relevant rows, or the mean rating, against the mean score of each bin of scores.

    A panel for each model, and below it how many rows each bin has. On the dotted line a score is what comes of it; it is
    there for ratings, and for scores that are all from 0 to 1.

    Args:
        result: Of `evaluate`, whose `score_calibration()` starts a Spark job; or the rows of that.
        models: See `metric_by_k`; of rows alone, which have no metric, it is the first twelve.

    Raises:
        ConfigError: There is no such row, as in a result in memory, or no such model; or matplotlib is not installed.
        DataError: The evaluation has read no scores.

    Example:
        >>> row = {"model": "als", "against": "relevance", "mean_score": 0.25, "n_rows": 40, "value": 0.125}
        >>> print(score_calibration([row, {**row, "mean_score": 0.75, "value": 0.5}]).get_label())
        Share of relevant rows by score. als: 0.1250 at score 0.25 (40 rows), 0.5000 at score 0.75 (40 rows).
    """
    given = result.score_calibration() if hasattr(result, "score_calibration") else result
    rows = _rows(given, "a result of evaluate, or rows of its score_calibration(); one in memory has none", "against")
    if models is None and hasattr(result, "rows"):
        models = [model for model in leading(result.rows, MOST_MODELS) if model in models_of(rows)]
    (looks, left_out), is_rating = _looks(rows, models), rows[0]["against"] == "rating"
    what = "mean rating" if is_rating else "share of relevant rows"
    n_columns = min(3, len(looks))
    n_rows, told = math.ceil(len(looks) / n_columns), []
    lowest, highest = (end(row["value"] for row in rows) for end in (min, max))
    with drawing():
        size = (max(WIDE, 2.8 * n_columns), 3.2 * n_rows)
        figure, panels = panels_of(2 * n_rows, n_columns, size, {}, [3, 1] * n_rows)
        for nth, (model, look) in enumerate(looks.items()):
            first = 2 * n_columns * (nth // n_columns) + nth % n_columns
            panel, below = panels[first], panels[first + n_columns]
            own = sorted((row for row in rows if row["model"] == model), key=lambda row: row["mean_score"])
            scores = [row["mean_score"] for row in own]
            if is_rating or all(0 <= row["mean_score"] <= 1 for row in rows):
                panel.axline((scores[0], scores[0]), slope=1, color=MUTED, linewidth=0.9, linestyle=":")
            panel.plot(scores, [row["value"] for row in own], color=look.colour, marker=look.marker, linestyle=look.line)
            panel.set_ylim(*((lowest - 0.2, highest + 0.2) if is_rating else (0, 1.08 * highest or 1)))
            panel.set_title(short(model, 22))
            panel.tick_params(labelbottom=False)
            below.vlines(scores, 0, [row["n_rows"] for row in own], color=look.colour)
            below.set(xlim=panel.get_xlim(), ylim=(0, None), xlabel="score")
            panel.set_ylabel("" if nth % n_columns else what)
            below.set_ylabel("" if nth % n_columns else "rows")
            bins = (f"{row['value']:.4f} at score {row['mean_score']:.4g} ({counted(row['n_rows'], 'row')})" for row in own)
            told.append(f"{printable(str(model))}: {', '.join(bins)}")
        for panel in panels:
            if not panel.has_data():
                panel.remove()
        return finished(figure, f"{what[0].upper()}{what[1:]} by score. {'; '.join(told)}.", {}, left_out)


# What the figures have in common --------------------------------------------------------------------------------------------


def without_k(metric: str) -> str:
    """The text of a metric without its cut-off.

    Example:
        >>> without_k("f1(beta=0.5)@20"), without_k("rmse")
        ('f1(beta=0.5)', 'rmse')
    """
    return str(parse(metric).at(None))


_SUMMARY = ("metric", "model", "slice")


def _rows(given: Any, expected: str, *columns: str) -> list[Row]:
    """The rows of a result or comparison, or of a table as a list or a pandas frame, each with a value of each column."""
    is_ours = hasattr(given, "rows") and not callable(given.rows)
    rows = list(given.rows) if is_ours else _records(given)
    for column in columns:
        if any(row.get(column) is None for row in rows):
            raise ConfigError(f"rows: expected {expected}; found one without {column}")
    return rows


def _records(given: Any) -> list[Row]:
    if hasattr(given, "sparkSession"):
        raise ConfigError("rows: expected rows, found a Spark frame: give .collect() of it, or .toPandas()")
    records = given.to_dict("records") if hasattr(given, "iloc") else given
    if isinstance(records, str | bytes | Mapping) or not hasattr(records, "__iter__"):
        raise ConfigError(f"rows: expected a result, or rows of its table, found {brief(given)}")
    found = [row.asDict() if hasattr(row, "asDict") else row for row in records]
    if not found or not all(isinstance(row, Mapping) for row in found):
        raise ConfigError(f"rows: expected a result, or rows of its table, found {brief(records)}")
    # pandas has NaN where there is nothing, and beside one a cut-off of 5 is 5.0.
    rows = [{key: None if value != value else value for key, value in row.items()} for row in found]
    return [row if (k := row.get("k")) is None else {**row, "k": int(k)} for row in rows]


def _known(name: str, known: Any) -> str:
    return did_you_mean(str(name), dict.fromkeys(known))


def _looks(rows: Sequence[Row], asked: Sequence[str] | None) -> tuple[dict[str, Look], dict[str, int]]:
    """How each model that is shown is drawn, and how many are left out."""
    known = models_of(rows)
    if asked is not None and (isinstance(asked, str) or not asked):
        raise ConfigError(f"models: expected a list of names, found {brief(asked)}{_known(str(asked), known)}")
    for model in asked or ():
        if model not in known:
            raise ConfigError(f"models: expected a model of the rows, found {brief(model)}{_known(model, known)}")
    if asked is None:
        asked = leading(rows, MOST_MODELS) if "metric" in rows[0] else known[:MOST_MODELS]
    looks = looks_of(asked)
    return looks, {"model": len(known) - len(looks)}


def _newest_first(rows: Sequence[Row], nights: Sequence[tuple[str, Mapping[str, Row]]]) -> list[Row]:
    """Rows of the newest night, and behind them those of earlier ones for models that it lacks."""
    as_of, of_night = nights[-1]
    run_id = next(iter(of_night.values()))["run_id"]
    tonight = [row for row in rows if (row["as_of"], row["run_id"]) == (as_of, run_id)]
    known = set(models_of(tonight))
    earlier = [row for _, own in reversed(nights) for row in own.values() if row["model"] not in known]
    return [*tonight, *({**row, "value": None} for row in earlier)]


def _minus(a: str, b: str, room: int) -> str:
    """What a panel of differences is called, on two lines where the names are long."""
    one_line = f"{short(b)} minus {short(a)}"
    return one_line if len(one_line) <= room else f"{short(b, room)}\nminus {short(a, room - 6)}"


def _room(n_letters: int) -> int:
    """How many letters of a title there are over a panel with names of lines of so many letters to its left."""
    return _TITLE - int(0.95 * max(0, n_letters - 8))


def _scale(metric: str) -> str:
    """Metrics with the same of it share an axis."""
    definition = parse(metric).definition
    return "share" if (definition.lower, definition.upper) == (0.0, 1.0) else definition.name


def _at_k(row: Row) -> str:
    return f"{_number(row)} at {row['k']}"


def _number(row: Row) -> str:
    return "undefined" if row["value"] is None else f"{row['value']:.4f}"
