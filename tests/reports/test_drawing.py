"""Colors, markers and settings of figures."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
from colors import SIGHTS, contrast, nearest
from report_data import small_result

import spark_recmetrics as srm
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.reports import drawing as canvas


def test_settings_of_matplotlib_are_neither_changed_nor_used():
    import matplotlib as mpl

    with mpl.rc_context({"axes.grid": False, "font.size": 30}):
        before = dict(mpl.rcParams)
        figure = srm.plots.metric_by_k(small_result())
        assert dict(mpl.rcParams) == before
        assert figure.axes[0].title.get_fontsize() == 10


def test_models_with_the_same_color_have_other_markers():
    looks = list(canvas.looks_of([f"m{n}" for n in range(canvas.MOST_MODELS)]).values())
    assert len(set(looks)) == canvas.MOST_MODELS
    for first, second in itertools.combinations(looks, 2):
        assert first.color != second.color or first.marker != second.marker


@pytest.mark.parametrize("sight", SIGHTS)
def test_colors_differ_for_color_blind_readers(sight):
    assert nearest(canvas.COLORS, sight) > 15  # a distance of about 2 is just visible


def test_colors_have_enough_contrast_on_paper():
    assert min(contrast(color, "#ffffff") for color in canvas.COLORS) >= 3  # WCAG 2.2, 1.4.11


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        ConfigError, match=r"^plots need matplotlib, found none: .* pip install 'jinja2>=3\.1' 'matplotlib>=3\.8'$"
    ):
        srm.plots.metric_by_k(small_result())


def test_importing_plots_does_not_load_matplotlib():
    code = "import sys; from spark_recmetrics.reports import page, plots; print({'matplotlib', 'jinja2'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"


def test_a_long_metric_is_split_between_its_options_and_else_cut():
    text = "bias_disparity_br(items=genre, users=gender)@10"
    assert canvas.wrapped(text, 30) == "bias_disparity_br(items=genre,\nusers=gender)@10"
    assert canvas.wrapped("intra_list_diversity(features=genre_of_the_item)@10", 30) == "intra_list_diversi…he_item)@10"
