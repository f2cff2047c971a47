"""Figures: their content, their labels, and the rows that they accept."""

from __future__ import annotations

import io
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from report_data import many_models, small_comparison, small_history, small_result, with_slices

import spark_recmetrics as srm
from spark_recmetrics import plots
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.reports import drawing as canvas


def lines_of(panel):
    """(x, y) of all lines with markers."""
    return [tuple(map(list, line.get_data())) for line in panel.lines if line.get_marker() not in ("", "None")]


def texts_of(figure):
    from matplotlib.text import Text

    return {text.get_text() for text in figure.findobj(Text)} - {""}


def test_values_against_k():
    figure = srm.plots.metric_by_k(small_result())
    mrr, hit, coverage = figure.axes
    assert [panel.get_title("left") for panel in (mrr, hit, coverage)] == ["mrr", "hit", "item_coverage"]
    # als is right at ranks 1, 2, 1, 2; popularity at 2, 2, 2 and never.
    assert lines_of(mrr) == [([1, 2], [2 / 4, 3 / 4]), ([1, 2], [0, 3 / 8])]
    assert lines_of(hit) == [([1, 2], [2 / 4, 4 / 4]), ([1, 2], [0, 3 / 4])]
    assert len(mrr.collections) == 2  # the bands of intervals
    assert {"als", "popularity", "k"} <= texts_of(figure)
    assert figure.get_label().startswith(
        "mrr by cut-off k. als: 0.5000 at 1, 0.7500 at 2; popularity: 0.0000 at 1, 0.3750 at 2."
    )


def test_one_metric_against_k():
    assert [panel.get_title("left") for panel in srm.plots.metric_by_k(small_result(), "hit").axes] == ["hit"]


def test_differences():
    figure = srm.plots.differences(small_comparison())
    (panel,) = figure.axes
    # Only differences that are not significant have bars at the minimum detectable effect.
    assert lines_of(panel) == [([0.375], [0]), ([0.375], [1]), ([-0.125, 0.125], [1, 1])]
    assert [line.get_marker() for line in panel.lines if line.get_marker() not in ("", "None")] == ["o", "o", "|"]
    assert panel.get_xlabel() == "difference\n| minimum detectable effect"
    filled = [line.get_markerfacecolor() for line in panel.lines if line.get_marker() == "o"]
    assert filled == [canvas.COLORS[0], "none"]  # the first is significant, the second is not
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["mrr@2", "hit@1"]
    assert figure.get_label() == (
        "als minus popularity. mrr@2: +0.3750 [0.2500, 0.5000], significant: als is better; "
        "hit@1: +0.3750 [-0.2500, 0.5000], not significant (minimum detectable effect 0.1250)."
    )
    unknown = srm.plots.differences([{**row, "smallest_difference": None} for row in small_comparison().rows])
    assert lines_of(unknown.axes[0]) == [([0.375], [0]), ([0.375], [1])]
    assert unknown.axes[0].get_xlabel() == "difference"
    assert unknown.get_label().endswith("[-0.2500, 0.5000], not significant.")


def test_differences_of_other_scales_have_panels_of_their_own():
    rows = [*small_comparison().rows, {**small_comparison().rows[0], "metric": "rmse", "k": None}]
    figure = srm.plots.differences(rows)
    assert [[tick.get_text() for tick in panel.get_yticklabels()] for panel in figure.axes] == [["mrr@2", "hit@1"], ["rmse ↓"]]
    assert len(srm.plots.differences(rows, "rmse").axes) == 1


def test_slices():
    figure = srm.plots.slices(with_slices(small_result()), "mrr@2")
    (panel,) = figure.axes
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["all", "gender = F ~", "gender = M"]
    dots = [line for line in panel.lines if line.get_marker() not in ("", "None")]
    assert [line.get_xdata()[0] for line in dots] == [3 / 4, 3 / 8] * 3
    assert [line.get_markerfacecolor() == "none" for line in dots] == [False, False, True, True, False, False]
    assert "gender = F (too few users for a conclusion): als 0.7500, popularity 0.3750" in figure.get_label()


def test_lines_beyond_the_limit_are_counted():
    groups = [("age", str(n), 40) for n in range(45)]
    figure = srm.plots.slices(with_slices(small_result(), groups), "mrr@2")
    assert len(figure.axes[0].get_yticklabels()) == canvas.MOST_LINES
    assert figure.get_label().endswith(" 6 more lines in the table.")
    assert "6 more lines in the table" in texts_of(figure)


def test_history():
    result = small_result()
    figure = srm.plots.history(small_history(result))
    (panel,) = figure.axes
    assert lines_of(panel) == [([0, 1, 2], [5 / 8, 4 / 8, 6 / 8]), ([0, 1, 2], [2 / 8, 1 / 8, 3 / 8])]
    assert [line.get_xdata()[0] for line in panel.lines if line.get_linestyle() == ":"] == [1.5]
    assert figure.get_label() == (
        "mrr@2 over 3 runs, 2026-11-26 to 2026-11-28. als: from 0.6250 to 0.7500; popularity: from 0.2500 to 0.3750. "
        "Changed on 2026-11-28: the ground truth."
    )
    assert lines_of(srm.plots.history(small_history(result), last=1).axes[0]) == [([0], [6 / 8]), ([0], [3 / 8])]


def colors_of(figure):
    """The colors of the models in the legend."""
    (legend,) = figure.legends
    return {text.get_text(): line.get_color() for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True)}


def test_a_run_with_one_model_changes_no_color():
    result = small_result()
    rows = [row for row in small_history(result) if (row["as_of"], row["model"]) != ("2026-11-26", "als")]
    assert rows[0]["model"] == "popularity"
    colors = dict(zip(("als", "popularity"), canvas.COLORS, strict=False))
    assert colors_of(srm.plots.history(rows)) == colors == colors_of(srm.plots.metric_by_k(result))
    # A model without a value in the newest run comes last.
    old = [{**row, "model": "aaa"} for row in rows[:1]]
    assert list(colors_of(srm.plots.history([*old, *rows]))) == ["als", "popularity", "aaa"]
    # A new model keeps its color if the models of a page are given.
    chosen = ["new", "als", "popularity"]
    assert colors_of(srm.plots.history(rows, models=chosen)) == {"als": canvas.COLORS[1], "popularity": canvas.COLORS[2]}


def test_the_best_of_many_models_are_drawn_and_the_others_counted():
    rows = many_models({f"m{n:02}": (n + 1) / 100 for n in range(14)})
    best = [f"m{n:02}" for n in range(2, 14)]
    sliced = [{**row, "slice": "age", "slice_value": "young"} for row in rows]
    history = [{**row, "as_of": as_of} for as_of in ("2026-11-27", "2026-11-28") for row in rows]
    for figure in (
        srm.plots.metric_by_k(rows),
        srm.plots.slices([*rows, *sliced], "mrr@2"),
        srm.plots.history(history, "mrr@2"),
    ):
        assert list(colors_of(figure)) == best
        assert "2 more models in the table" in texts_of(figure)
        assert figure.get_label().endswith(" 2 more models in the table.")
    figure = srm.plots.metric_by_k(rows, models=["m01", "m00"])
    assert colors_of(figure) == {"m01": canvas.COLORS[0], "m00": canvas.COLORS[1]}
    lower = [{**row, "metric": "rmse" if row["k"] == 1 else "mae", "k": None} for row in rows]
    of_lower = srm.plots.slices([*lower, *({**row, "slice": "age", "slice_value": "young"} for row in lower)])
    assert list(colors_of(of_lower)) == [f"m{n:02}" for n in range(12)]
    lines = [row for n in range(14) for row in bins(f"m{n:02}", (0.5, 1, 0.5))]
    figure = srm.plots.score_calibration(lines)
    assert figure.get_label().endswith(" 2 more models in the table.")


def test_of_many_differences_those_of_the_best_models_are_drawn():
    base = {**small_comparison().rows[0], "mean_a": 0.0}
    rows = [
        {**base, "model_b": f"m{n:02}", "mean_b": n / 100, "metric": metric} for n in range(30) for metric in ("mrr@2", "hit@2")
    ]
    figure = srm.plots.differences(rows)
    assert [panel.get_title("left").partition(" ")[0] for panel in figure.axes] == [f"m{n:02}" for n in range(29, 9, -1)]
    assert "20 more differences in the table" in texts_of(figure)
    assert figure.get_label().endswith(" 20 more differences in the table.")
    assert "more" not in srm.plots.differences(rows[:40]).get_label()


LONG = "bias_disparity_br(items=genre_of_the_recommended_item, users=gender_and_age_of_the_user)@{}"


def outside(figure):
    """Texts outside their figure. Numbers are skipped: ticks beyond the axes are not drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    renderer, box = FigureCanvasAgg(figure).get_renderer(), figure.bbox
    texts = [text for text in figure.findobj(Text) if re.search(r"[^\W\d]", text.get_text())]
    extents = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    return [text for text, extent in extents if extent.x0 < box.x0 - 1 or extent.x1 > box.x1 + 1]


def test_long_names_stay_inside_the_figure_and_are_complete_in_the_label():
    names = {"a" * 40: 0.25, "b" * 40: 0.5}
    rows = many_models(names, LONG.format(2))
    sliced = [{**row, "slice": "age", "slice_value": "young" * 10} for row in rows]
    pair = {**small_comparison().rows[0], "model_a": "a" * 40, "model_b": "b" * 40, "metric": LONG.format(2)}
    history = [{**row, "as_of": as_of} for as_of in ("2026-11-27", "2026-11-28") for row in rows]
    figures = [
        srm.plots.metric_by_k(rows),
        srm.plots.differences([pair]),
        srm.plots.slices([*rows, *sliced], LONG.format(2)),
        srm.plots.history(history, LONG.format(2)),
        srm.plots.score_calibration([row for name in names for row in bins(name, (0.5, 1, 0.5))]),
    ]
    for figure in figures:
        assert outside(figure) == []
    for figure, name in zip(figures, [LONG.partition("@")[0], *[LONG.format(2)] * 3], strict=False):
        assert name in figure.get_label()
        assert name not in texts_of(figure)


def test_a_run_without_a_value_is_a_gap():
    rows = small_history(small_result())
    rows = [{**row, "value": None} if row["as_of"] == "2026-11-27" and row["model"] == "als" else row for row in rows]
    ((_, values), _) = lines_of(srm.plots.history(rows).axes[0])
    assert np.isnan(values[1])
    assert values[::2] == [5 / 8, 6 / 8]


def bins(model, *of_bin, against="relevance"):
    """Rows of `score_calibration` by (mean score, rows, value)."""
    return [
        {"model": model, "against": against, "bin": n, "mean_score": score, "n_rows": n_rows, "value": value}
        for n, (score, n_rows, value) in enumerate(of_bin, 1)
    ]


def test_score_calibration():
    rows = [*bins("als", (0.25, 4, 0.125), (0.75, 4, 0.5)), *bins("popularity", (0.5, 8, 0.25))]
    figure = srm.plots.score_calibration(rows)
    als, popularity, als_rows, popularity_rows = figure.axes
    assert [panel.get_title("left") for panel in figure.axes] == ["als", "popularity", "", ""]
    assert lines_of(als) == [([0.25, 0.75], [0.125, 0.5])]
    assert lines_of(popularity) == [([0.5], [0.25])]
    assert als.get_ylim() == popularity.get_ylim()
    assert [line.get_slope() for line in als.lines if line.get_linestyle() == ":"] == [1]
    heights = [[segment[1][1] for segment in panel.collections[0].get_segments()] for panel in (als_rows, popularity_rows)]
    assert heights == [[4, 4], [8]]
    assert figure.get_label() == (
        "Share of relevant rows by score. als: 0.1250 at score 0.25 (4 rows), 0.5000 at score 0.75 (4 rows); "
        "popularity: 0.2500 at score 0.5 (8 rows)."
    )
    # Scores above 1 are not probabilities.
    beyond = srm.plots.score_calibration(bins("als", (0.5, 4, 0.0), (7.0, 4, 0.0)))
    assert [line for line in beyond.axes[0].lines if line.get_linestyle() == ":"] == []


def test_score_calibration_of_a_result():
    result = small_result()
    assert srm.plots.score_calibration(result).get_label() == (
        "Share of relevant rows by score. als: 0.5000 at score 3 (4 rows), 0.5000 at score 4 (4 rows); "
        "popularity: 0.7500 at score 3 (4 rows), 0.0000 at score 4 (4 rows)."
    )


def test_score_calibration_of_ratings():
    figure = srm.plots.score_calibration(bins("als", (1.5, 1, 2.0), (4.5, 1, 4.0), against="rating"))
    assert figure.axes[0].get_ylabel() == "mean rating"
    assert [line.get_slope() for line in figure.axes[0].lines if line.get_linestyle() == ":"] == [1]
    assert figure.get_label() == "Mean rating by score. als: 2.0000 at score 1.5 (1 row), 4.0000 at score 4.5 (1 row)."


def test_score_calibration_of_more_models_than_columns():
    figure = srm.plots.score_calibration([row for n in range(4) for row in bins(f"m{n}", (0.5, 1, 0.5))])
    assert len(figure.axes) == 8
    assert sorted(panel.get_title("left") for panel in figure.axes) == ["", "", "", "", "m0", "m1", "m2", "m3"]


@pytest.mark.parametrize("form", [list, pd.DataFrame, iter], ids=["list", "pandas", "iterator"])
def test_rows_in_any_form(form):
    rows = small_history(small_result())
    rows[0] = {**rows[0], "ci_low": None}  # NaN in pandas
    assert srm.plots.history(form(rows)).get_label() == srm.plots.history(rows).get_label()


def test_rows_of_spark():
    from pyspark.sql import Row

    rows = small_history(small_result())
    assert srm.plots.history([Row(**row) for row in rows]).get_label() == srm.plots.history(rows).get_label()


def test_a_spark_frame_is_rejected_with_advice():
    frame = type("DataFrame", (), {"sparkSession": None})()
    with pytest.raises(ConfigError, match=r"expected rows, found a Spark frame: pass its \.collect\(\) or \.toPandas\(\)"):
        srm.plots.history(frame)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.metric_by_k(small_result(), "mrr@2"), "expected a metric with two cut-offs or more, found 'mrr@2'"),
        (lambda: plots.metric_by_k(small_result(), "rmse"), "found 'rmse'; did you mean|found 'rmse'; known: hit"),
        (lambda: plots.metric_by_k(small_result(k=2)), r"found none: evaluate with k=\[5, 10\]"),
        (lambda: plots.differences(small_comparison(), "mrr@1"), "'mrr@1' was not compared; did you mean 'mrr@2'"),
        (lambda: plots.differences([{**small_comparison().rows[0], "diff": None}]), "expected a difference .* found none"),
        (
            lambda: plots.metric_by_k(small_result(), models=["pop"]),
            "models: expected a model of the rows, found 'pop'; known: als",
        ),
        (lambda: plots.metric_by_k(small_result(), models="als"), "models: expected a list of names, found 'als'"),
        (lambda: plots.metric_by_k(small_result(), models=[]), r"models: expected a list of names, found \[\]"),
        (
            lambda: plots.history(small_history(small_result()), models=["alz"]),
            "models: expected one with a run that has mrr@2, found none; did you mean 'als'",
        ),
        (lambda: plots.slices(small_result()), r"expected values of slices, found none: evaluate with slices=\[...\]"),
        (lambda: plots.slices(with_slices(small_result()), "ndcg@2"), "'ndcg@2' was not evaluated by slice"),
        (lambda: plots.history(small_history(small_result()), "hit@2"), "expected rows of hit@2, found none; known: mrr@2"),
        (lambda: plots.history(small_history(small_result()), last=0), "last: expected an integer of at least 1, found 0"),
        (
            lambda: plots.history(small_history(small_result()), last=True),
            "last: expected an integer of at least 1, found True",
        ),
        (lambda: plots.score_calibration(small_result().rows), r"rows of its score_calibration\(\)"),
        (lambda: plots.metric_by_k(small_result(), models="als"), "^models: expected a list of names, found 'als'$"),
        (lambda: plots.score_calibration([]), "rows: expected a result of evaluate, or rows of its score_calibration"),
        (lambda: plots.history([]), r"rows: expected rows of read_history, found \[\]"),
        (lambda: plots.history("mrr"), "rows: expected rows of read_history, found 'mrr'"),
        (lambda: plots.metric_by_k(None), "rows: expected a result, or rows of SUMMARY, found None"),
        (
            lambda: plots.differences(small_result()),
            "rows: expected a comparison, or rows of COMPARISON, found one without model_a",
        ),
        (lambda: plots.slices(small_comparison()), "rows: expected a result, or rows of SUMMARY, found one without model"),
        (lambda: plots.history(small_result()), "rows: expected rows of read_history, found one without as_of"),
    ],
)
def test_errors_of_figures(draw, message):
    with pytest.raises(ConfigError, match=message):
        draw()


def test_cut_offs_are_integers_next_to_metrics_without_cut_off():
    frame = pd.DataFrame(small_result(metrics=["mrr", "rmse"]).rows)
    assert frame["k"].dtype == "float64"
    assert " at 2" in (label := srm.plots.metric_by_k(frame, "mrr").get_label())
    assert " at 2.0" not in label


@pytest.mark.parametrize("name", ["$x^2$", "$\\frac{", "_hidden", "a\nb", "模型", "x" * 300, "<script>", "%s", ""])
def test_any_name_of_a_model_is_plain_text(name):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a warning about the font
        figure = srm.plots.metric_by_k(small_result(name, "popularity", metrics=["mrr"]))
        figure.savefig(io.BytesIO(), format="svg")
    shown = texts_of(figure) - {"popularity", "mrr", "k"}
    assert not name or canvas.short(name) in shown


def test_the_name_of_a_metric_without_cut_off():
    assert [plots.without_k(metric) for metric in ("f1(beta=0.5)@20", "rmse")] == ["f1(beta=0.5)", "rmse"]
