"""Figures of results, made with matplotlib.

Every function takes a result, or rows of its table: a list of mappings, the output of `collect()`, or a pandas frame. Only
`score_calibration` may start a Spark job. The label of a figure, `figure.get_label()`, describes its content in words. A model
has the same color, marker and line style in all figures of a result. Color-blind readers can distinguish the colors, and
the markers distinguish models without color.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from spark_recmetrics.errors import ConfigError, check_argument
from spark_recmetrics.metrics import parse
from spark_recmetrics.metrics.registry import checked_integer
from spark_recmetrics.reports import drawing as draw
from spark_recmetrics.reports.formatting import SMALL_NOTE, Row, difference_text, finite, interval_text, result_text, value_text
from spark_recmetrics.reports.selection import best_models, best_pairs_first, by_slice, models_of, of_all_users, run_changes
from spark_recmetrics.runs.references import newest_runs
from spark_recmetrics.text import brief, counted, did_you_mean, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["differences", "history", "metric_by_k", "score_calibration", "slices"]

_TEXT_LINE = 0.15  # height of a line of text in inches
_TITLE = 40  # how many characters of a title fit over one panel
_LABEL = 1.3  # how many characters of a label fit in the width of a character of a title, which is larger and bold


def metric_by_k(result: Any, metrics: Sequence[str] | str | None = None, models: Sequence[str] | None = None) -> Figure:
    """Values by cut-off, with confidence intervals as bands and a panel for each metric.

    Args:
        result: A result, or rows of SUMMARY. Slices are left out.
        metrics: Metrics without cut-off, such as `ndcg`. None: all metrics with values at two cut-offs or more.
        models: Models, in the order of their colors. None: all models; if there are more than twelve, the twelve best by the
            headline metric.

    Raises:
        ConfigError: A metric or model is unknown, no metric has two cut-offs, or matplotlib is not installed.

    Example:
        >>> row = {"slice": "all", "metric": "hit@1", "k": 1, "model": "als", "value": 0.25, "ci_low": 0.125, "ci_high": 0.375}
        >>> print(metric_by_k([row, {**row, "metric": "hit@5", "k": 5, "value": 0.5, "ci_high": 0.75}]).get_label())
        hit by cut-off k. als: 0.2500 at 1, 0.5000 at 5.
    """
    rows = of_all_users(_rows(result, "a result, or rows of SUMMARY", *_SUMMARY))
    curves = curves_by_metric(rows)
    asked = [metrics] if isinstance(metrics, str) else list(curves if metrics is None else metrics)
    for name in asked:
        if name not in curves:
            raise ConfigError(
                f"metrics: expected a metric with two cut-offs or more, found {name!r}{did_you_mean(str(name), curves)}"
            )
    if not asked:
        raise ConfigError("metrics: expected a metric with two cut-offs or more, found none: evaluate with k=[5, 10]")
    looks, left_out = _looks(rows, models)
    n_columns = min(3, len(asked))
    sentences, titles = [], [draw.wrapped(name, 30) for name in asked]
    with draw.drawing():
        height = 2.5 + _TEXT_LINE * max(title.count("\n") for title in titles)
        n_rows = math.ceil(len(asked) / n_columns)
        figure, panels = draw.panels_of(n_rows, n_columns, (3.3 * n_columns, height * n_rows), looks)
        for name, title, panel in zip(asked, titles, panels, strict=False):
            texts = []
            for model, look in looks.items():
                points = sorted((row for row in curves[name] if row["model"] == model), key=lambda row: row["k"])
                draw.curve(panel, [row["k"] for row in points], points, look)
                values = ", ".join(f"{value_text(row['value'])} at {row['k']}" for row in points)
                texts += [f"{model}: {values}"] if points else []
            sentences.append(f"{name} by cut-off k. {'; '.join(texts)}.")
            cuts = sorted({row["k"] for row in curves[name]})
            if cuts[-1] / cuts[0] > 20:
                panel.set_xscale("log")
            panel.set_xticks(cuts, [str(k) for k in cuts])
            panel.minorticks_off()
            panel.set(title=title, xlabel="k")
        for panel in panels[len(asked) :]:
            panel.remove()
        return draw.finished(figure, " ".join(sentences), looks, left_out)


def differences(comparison: Any, metrics: Sequence[str] | str | None = None) -> Figure:
    """The differences of a comparison over all users with confidence intervals, a panel for each pair of models and scale.

    A filled dot is a significant difference. A hollow dot is not significant, which does not mean that the models are equal:
    bars on both sides of 0 mark the minimum detectable effect, the smallest difference that a test on these users detects with
    80 % power. Metrics with values between 0 and 1 share a scale; other metrics have their own.

    Args:
        comparison: The output of `compare`, or rows of COMPARISON.
        metrics: Metrics, such as `ndcg@10`. None: all. If there are more than 40 differences, those of the best models by the
            headline metric are drawn.

    Raises:
        ConfigError: A metric was not compared, there is no difference, or matplotlib is not installed.

    Example:
        >>> row = {"model_a": "pop", "model_b": "als", "slice": "all", "metric": "hit@1", "diff": 0.25, "ci_low": 0.125}
        >>> print(differences([{**row, "ci_high": 0.375, "winner": "als"}]).get_label())
        als minus pop. hit@1: +0.2500 [0.1250, 0.3750], significant: als is better.
    """
    expected = "a comparison, or rows of COMPARISON"
    rows = of_all_users(_rows(comparison, expected, "model_a", "model_b", "metric", "slice"))
    compared = list(dict.fromkeys(row["metric"] for row in rows))
    asked = [metrics] if isinstance(metrics, str) else compared if metrics is None else metrics
    for name in asked:
        if name not in compared:
            raise ConfigError(f"metrics: {name!r} was not compared{did_you_mean(str(name), compared)}")
    drawable = [row for row in rows if row["diff"] is not None and row["metric"] in asked]
    if not drawable:
        raise ConfigError("comparison: expected a difference over all users, found none")
    rows = best_pairs_first(drawable)[: draw.MOST_LINES] if len(drawable) > draw.MOST_LINES else drawable
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["model_a"], row["model_b"], _scale(row["metric"])), []).append(row)
    texts: dict[tuple[str, str], list[str]] = {}
    with draw.drawing():
        names = {group: [draw.wrapped(row["metric"], 28) for row in members] for group, members in groups.items()}
        room = _room(max(len(line) for lines in names.values() for name in lines for line in name.split("\n")))
        titles = {group: _minus(*group[:2], room) for group in groups}
        heights = [
            0.9 + _TEXT_LINE * titles[group].count("\n") + sum(0.11 + _TEXT_LINE * (1 + name.count("\n")) for name in lines)
            for group, lines in names.items()
        ]
        figure, panels = draw.panels_of(len(groups), 1, (draw.WIDE, sum(heights) + 0.2), {}, heights)
        for (group, members), panel in zip(groups.items(), panels, strict=True):
            panel.axvline(0, color=draw.MUTED, linewidth=0.9)
            for position, row in enumerate(members):
                _draw_difference(panel, position, row)
                result = result_text({**row, "winner": row["winner"] and draw.short(row["winner"])})
                difference = f"{difference_text(row)} {interval_text(row)}".rstrip()
                texts.setdefault(group[:2], []).append(f"{row['metric']}: {difference}, {result}")
            arrows = ["" if parse(row["metric"]).definition.higher_is_better else " ↓" for row in members]
            draw.name_lines(panel, [f"{name}{arrow}" for name, arrow in zip(names[group], arrows, strict=True)])
            has_bars = any(_detectable(row) is not None for row in members)
            note = fill("| minimum detectable effect", int(_LABEL * room)) if has_bars else ""
            label = f"difference{' (↓ lower is better)' if any(arrows) else ''}\n{note}".rstrip("\n")
            panel.set(title=titles[group], xlabel=label)
            panel.margins(x=0.08)
            panel.locator_params(axis="x", nbins=5)
        text = " ".join(
            f"{draw.short(b)} minus {draw.short(a)}. {'; '.join(sentences)}." for (a, b), sentences in texts.items()
        )
        return draw.finished(figure, text, {}, {"difference": len(drawable) - len(rows)})


def _draw_difference(panel: Axes, position: int, row: Row) -> None:
    significant, least = row["winner"] is not None, _detectable(row)
    draw.dot(panel, row["diff"], position, row, draw.COLORS[0] if significant else draw.MUTED, "o", filled=significant)
    if least is not None:
        panel.plot([-least, least], [position, position], color=draw.MUTED, marker="|", markersize=9, linestyle="")


def _detectable(row: Row) -> float | None:
    """The minimum detectable effect of a difference that is not significant."""
    return finite(row["smallest_difference"]) if row["winner"] is None else None


def slices(result: Any, metric: str | None = None, models: Sequence[str] | None = None) -> Figure:
    """One metric for all users and for each slice, as dots with confidence intervals; hollow dots have too few users.

    Args:
        result: A result, or rows of SUMMARY.
        metric: A metric, such as `ndcg@10`. None: the first with values of slices.
        models: See `metric_by_k`.

    Raises:
        ConfigError: There are no slices, none has this metric, a model is unknown, or matplotlib is not installed.

    Example:
        >>> row = {"slice": "all", "slice_value": "all", "metric": "hit@1", "k": 1, "model": "als", "value": 0.25}
        >>> row |= {"ci_low": None, "ci_high": None, "n_users": 40, "small": False}
        >>> few = {"slice": "gender", "slice_value": "F", "value": 0.5, "n_users": 2, "small": True}
        >>> print(slices([row, {**row, **few}]).get_label())
        hit@1 by slice. all: als 0.2500; gender = F (too few users for a conclusion): als 0.5000.
    """
    rows = _rows(result, "a result, or rows of SUMMARY", *_SUMMARY)
    sliced = list(dict.fromkeys(row["metric"] for row in rows if row["slice"] != "all"))
    if not sliced:
        raise ConfigError("slices: expected values of slices, found none: evaluate with slices=[...]")
    metric = sliced[0] if metric is None else metric
    if metric not in sliced:
        raise ConfigError(f"metric: {metric!r} was not evaluated by slice{did_you_mean(str(metric), sliced)}")
    looks, left_out = _looks(rows, models)
    lines = by_slice((row for row in rows if row["model"] in looks), metric)
    left_out["line"] = len(lines) - draw.MOST_LINES
    lines = lines[: draw.MOST_LINES]
    names, texts, previous = [], [], None
    with draw.drawing():
        height = 0.16 + 0.08 * min(len(looks), 4)
        figure, (panel,) = draw.panels_of(1, 1, (draw.WIDE, 0.9 + height * len(lines)), looks)
        step = 0.6 / max(1, len(looks))
        for position, (name, by_model) in enumerate(lines):
            values = []
            for nth, (model, look) in enumerate(looks.items()):
                if (row := by_model.get(model)) is None:
                    continue
                values.append(f"{model} {value_text(row['value'])}")
                if finite(row["value"]) is not None:
                    level = position + step * (nth - (len(looks) - 1) / 2)
                    draw.dot(panel, row["value"], level, row, look.color, look.marker, filled=not row["small"])
            is_small = any(row["small"] for row in by_model.values())
            names.append(draw.short(name, 32) + (" ~" if is_small else ""))
            texts.append(f"{name}{' (too few users for a conclusion)' if is_small else ''}: {', '.join(values)}")
            slice_ = next(iter(by_model.values()))["slice"]
            if previous not in (None, slice_):
                panel.axhline(position - 0.5, color=draw.RULE, linewidth=0.9)
            previous = slice_
        draw.name_lines(panel, names)
        panel.grid(visible=False, axis="y")
        panel.locator_params(axis="x", nbins=6)
        room = int(_LABEL * _room(max(map(len, names))))
        note = f"\n{fill(SMALL_NOTE.replace('~', '~ hollow:'), room)}" if any(name.endswith(" ~") for name in names) else ""
        panel.set_xlabel(draw.wrapped(metric, room) + note)
        return draw.finished(figure, f"{metric} by slice. {'; '.join(texts)}.", looks, left_out)


def history(rows: Any, metric: str | None = None, last: int = 30, models: Sequence[str] | None = None) -> Figure:
    """One metric over the last runs of a job, with confidence intervals as bands.

    A dotted line marks a run whose ground truth, configuration or convention differs from the previous run.

    Args:
        rows: Rows of `read_history` of one job. Collect a Spark frame first, if possible after a filter by metric.
        metric: A metric, such as `ndcg@10`. None: the first.
        last: Number of runs, at least 1.
        models: See `metric_by_k`. By default the models of the newest run come first. Models without a value in these runs are
            left out.

    Raises:
        ConfigError: `last` is invalid, a metric or model is unknown, or matplotlib is not installed.

    Example:
        >>> row = {"run_id": "r", "model": "als", "convention": "default", "config_hash": "c", "data_hash": "d"}
        >>> row |= {"slice": "all", "metric": "hit@1", "k": 1, "ci_low": None, "ci_high": None, "computed_at": 0}
        >>> runs = [{**row, "as_of": "11-26", "value": 0.25}, {**row, "as_of": "11-27", "value": 0.5, "data_hash": "e"}]
        >>> print(history(runs).get_label())
        hit@1 over 2 runs, 11-26 to 11-27. als: from 0.2500 to 0.5000. Changed on 11-27: the ground truth.
    """
    last = checked_integer(last, "last")
    summary = of_all_users(_rows(rows, _HISTORY, *_SUMMARY, "as_of"))
    metrics = list(dict.fromkeys(row["metric"] for row in summary))
    metric = metrics[0] if metric is None and metrics else metric
    if metric is None or metric not in metrics:
        raise ConfigError(
            f"metric: expected rows of {metric or 'a metric'}, found none{did_you_mean(str(metric or ''), metrics)}"
        )
    runs = newest_runs([row for row in summary if row["metric"] == metric], last)
    # A model of the newest run keeps its color even if it has no value of this metric.
    shown = {model for _, by_model in runs for model in by_model}
    if models and not isinstance(models, str) and not shown.intersection(models):
        raise ConfigError(f"models: expected one with a run that has {metric}, found none{did_you_mean(str(models[0]), shown)}")
    looks, left_out = _looks([*_newest_first(summary, runs), *({"model": model} for model in models or ())], models)
    looks = {model: look for model, look in looks.items() if model in shown}
    labels, texts = [as_of for as_of, _ in runs], []
    with draw.drawing():
        title = draw.wrapped(metric, _TITLE)
        figure, (panel,) = draw.panels_of(1, 1, (draw.WIDE, 2.7 + _TEXT_LINE * title.count("\n")), looks)
        changed = []
        for position, what in enumerate(run_changes(runs)):
            if what:
                panel.axvline(position - 0.5, color=draw.MUTED, linewidth=0.9, linestyle=":")
                changed.append(f"Changed on {printable(labels[position])}: {' and '.join(what)}.")
        for model, look in looks.items():
            points = [by_model.get(model) for _, by_model in runs]
            draw.curve(panel, list(range(len(points))), points, look)
            values = [value_text(row["value"]) for row in points if row is not None and finite(row["value"]) is not None]
            text = f"from {values[0]} to {values[-1]}" if len(values) > 1 else values[0] if values else "undefined"
            texts.append(f"{model}: {text}")
        every = max(1, math.ceil(len(labels) / 4))
        ticks = list(range(len(labels) - 1, -1, -every))[::-1]
        panel.set_xticks(ticks, [draw.short(labels[position], 16) for position in ticks])
        note = "dotted: ground truth or configuration changed" if changed else ""
        panel.set(xlim=(-0.5, len(labels) - 0.5), title=title, xlabel=note)
        span = f"{printable(labels[0])} to {printable(labels[-1])}" if len(labels) > 1 else printable(labels[0])
        head = f"{metric} over {counted(len(runs), 'run')}, {span}."
        return draw.finished(figure, " ".join([head, f"{'; '.join(texts)}.", *changed]), looks, left_out)


def score_calibration(result: Any, models: Sequence[str] | None = None) -> Figure:
    """A reliability diagram: the share of relevant rows, or the mean rating, by the mean score of each bin of scores.

    Each model has a panel, with the number of rows of each bin below it. On the dotted line scores equal the observed values;
    it is drawn for ratings, and if all scores are between 0 and 1.

    Args:
        result: A result of `evaluate`, or rows of its `score_calibration()`, which starts a Spark job for tables of Spark.
        models: See `metric_by_k`. Rows alone have no metric, so by default their first twelve models are drawn.

    Raises:
        ConfigError: There are no rows, a model is unknown, or matplotlib is not installed.
        DataError: The evaluation has read no scores.

    Example:
        >>> row = {"model": "als", "against": "relevance", "mean_score": 0.25, "n_rows": 40, "value": 0.125}
        >>> print(score_calibration([row, {**row, "mean_score": 0.75, "value": 0.5}]).get_label())
        Share of relevant rows by score. als: 0.1250 at score 0.25 (40 rows), 0.5000 at score 0.75 (40 rows).
    """
    given = result.score_calibration() if hasattr(result, "score_calibration") else result
    rows = _rows(given, "a result of evaluate, or rows of its score_calibration()", "against")
    if models is None and hasattr(result, "rows"):
        models = [model for model in best_models(result.rows, draw.MOST_MODELS) if model in models_of(rows)]
    (looks, left_out), is_rating = _looks(rows, models), rows[0]["against"] == "rating"
    what = "mean rating" if is_rating else "share of relevant rows"
    n_columns = min(3, len(looks))
    n_rows, texts = math.ceil(len(looks) / n_columns), []
    lowest, highest = (end(row["value"] for row in rows) for end in (min, max))
    with draw.drawing():
        size = (max(draw.WIDE, 2.8 * n_columns), 3.2 * n_rows)
        figure, panels = draw.panels_of(2 * n_rows, n_columns, size, {}, [3, 1] * n_rows)
        for nth, (model, look) in enumerate(looks.items()):
            first = 2 * n_columns * (nth // n_columns) + nth % n_columns
            panel, below = panels[first], panels[first + n_columns]
            bins = sorted((row for row in rows if row["model"] == model), key=lambda row: row["mean_score"])
            scores = [row["mean_score"] for row in bins]
            if is_rating or all(0 <= row["mean_score"] <= 1 for row in rows):
                panel.axline((scores[0], scores[0]), slope=1, color=draw.MUTED, linewidth=0.9, linestyle=":")
            panel.plot(scores, [row["value"] for row in bins], color=look.color, marker=look.marker, linestyle=look.line)
            limits = (lowest - 0.2, highest + 0.2) if is_rating else (0, 1.08 * highest or 1)
            panel.set(ylim=limits, title=draw.short(model, 22), ylabel="" if nth % n_columns else what)
            panel.tick_params(labelbottom=False)
            below.vlines(scores, 0, [row["n_rows"] for row in bins], color=look.color)
            below.set(xlim=panel.get_xlim(), ylim=(0, None), xlabel="score", ylabel="" if nth % n_columns else "rows")
            values = (f"{row['value']:.4f} at score {row['mean_score']:.4g} ({counted(row['n_rows'], 'row')})" for row in bins)
            texts.append(f"{printable(str(model))}: {', '.join(values)}")
        for panel in panels:
            if not panel.has_data():
                panel.remove()
        return draw.finished(figure, f"{what[0].upper()}{what[1:]} by score. {'; '.join(texts)}.", {}, left_out)


def history_rows(given: Any) -> list[Row]:
    """The rows over all users of the argument `history` of a report."""
    return of_all_users(_rows(given, _HISTORY, *_SUMMARY, name="history"))


def without_k(metric: str) -> str:
    """The text of a metric without its cut-off, such as `f1(beta=0.5)`."""
    return str(parse(metric).at(None))


def curves_by_metric(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each metric with two cut-offs or more, by its text without cut-off."""
    curves: dict[str, list[Row]] = {}
    for row in rows:
        if row["k"] is not None:
            curves.setdefault(without_k(row["metric"]), []).append(row)
    return {name: points for name, points in curves.items() if len({row["k"] for row in points}) > 1}


_SUMMARY = ("metric", "model", "slice")
_HISTORY = "rows of read_history"


def _rows(given: Any, expected: str, *columns: str, name: str = "rows") -> list[Row]:
    """The rows of a result or comparison, or of a table as a list or pandas frame, checked to have these columns."""
    if hasattr(given, "sparkSession"):
        raise ConfigError(f"{name}: expected rows, found a Spark frame: pass its .collect() or .toPandas()")
    if hasattr(given, "rows") and not callable(given.rows):
        rows = list(given.rows)
    else:
        rows = _records(given.to_dict("records") if hasattr(given, "iloc") else given)
        check_argument(name, given, expected, valid=bool(rows))
    for column in columns:
        if any(row.get(column) is None for row in rows):
            raise ConfigError(f"{name}: expected {expected}, found one without {column}")
    return rows


def _records(given: Any) -> list[Row]:
    """The rows of a table, none if it is no table."""
    is_list = hasattr(given, "__iter__") and not isinstance(given, str | bytes | Mapping)
    rows = [row.asDict() if hasattr(row, "asDict") else row for row in given] if is_list else []
    if not all(isinstance(row, Mapping) for row in rows):
        return []
    # pandas stores missing values as NaN, and a cut-off of 5 in a column with NaN as 5.0.
    rows = [{key: None if value != value else value for key, value in row.items()} for row in rows]
    return [row if (k := row.get("k")) is None else {**row, "k": int(k)} for row in rows]


def _looks(rows: Sequence[Row], asked: Sequence[str] | None) -> tuple[dict[str, draw.Look], dict[str, int]]:
    """How each model that is drawn looks, and how many models are left out."""
    models = models_of(rows)
    check_argument("models", asked, "a list of names", valid=asked is None or (bool(asked) and not isinstance(asked, str)))
    for model in asked or ():
        if model not in models:
            raise ConfigError(f"models: expected a model of the rows, found {brief(model)}{did_you_mean(str(model), models)}")
    if asked is None:
        asked = best_models(rows, draw.MOST_MODELS) if "metric" in rows[0] else models[: draw.MOST_MODELS]
    looks = draw.looks_of(asked)
    return looks, {"model": len(models) - len(looks)}


def _newest_first(rows: Sequence[Row], runs: Sequence[tuple[str, Mapping[str, Row]]]) -> list[Row]:
    """Rows of the newest run, and after them rows of previous runs for models that it lacks."""
    as_of, by_model = runs[-1]
    run_id = next(iter(by_model.values()))["run_id"]
    newest = [row for row in rows if (row["as_of"], row["run_id"]) == (as_of, run_id)]
    models = set(models_of(newest))
    previous = [row for _, by_model in reversed(runs) for row in by_model.values() if row["model"] not in models]
    return [*newest, *({**row, "value": None} for row in previous)]


def _minus(a: str, b: str, room: int) -> str:
    one_line = f"{draw.short(b)} minus {draw.short(a)}"
    return one_line if len(one_line) <= room else f"{draw.short(b, room)}\nminus {draw.short(a, room - 6)}"


def _room(n_characters: int) -> int:
    """How many characters of a title fit over a panel whose lines have names of this length to their left."""
    return _TITLE - int(0.95 * max(0, n_characters - 8))


def _scale(metric: str) -> str:
    """Metrics with the same scale share an axis."""
    definition = parse(metric).definition
    return "share" if (definition.lower, definition.upper) == (0.0, 1.0) else definition.name
