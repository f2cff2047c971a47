"""The HTML report and the notebook output: their content, and that names are always escaped."""

from __future__ import annotations

import math
import re
import sys
from datetime import datetime, timezone
from html.parser import HTMLParser

import pytest
from colors import SIGHTS, contrast, nearest
from report_data import (
    everything,
    in_two_ways,
    many_models,
    small_comparison,
    small_gates,
    small_history,
    small_result,
    with_slices,
)

from spark_recmetrics.conventions import convention
from spark_recmetrics.decisions.comparison import Comparison
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.evaluation.evaluator import evaluate
from spark_recmetrics.inputs.data_report import DataCheck
from spark_recmetrics.reports import drawing as canvas
from spark_recmetrics.reports import page as page_module

HOSTILE = "<script>alert(1)</script>\"'&{{ 7*7 }}</style></svg>$x$"


class Read(HTMLParser):
    """A parsed page: its elements with attributes, and the text of each section."""

    VOID = {"meta", "link", "br", "hr", "img"}

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.sections, self.styles, self.section = [], [], {}, [], "head"
        self.feed(text)
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "section":
            self.section = dict(attrs)["aria-labelledby"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.styles.append(data)
        elif data.strip():
            self.sections.setdefault(self.section, []).append(" ".join(data.split()))

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, section):
        return " ".join(self.sections.get(section, []))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    result, more = everything()
    return result.to_html(tmp_path_factory.mktemp("report") / "new" / "report.html", **more).read_text()


@pytest.fixture(scope="module")
def read(written):
    return Read(written)


def page_of(result, tmp_path, **more):
    return Read(result.to_html(tmp_path / "report.html", **more).read_text())


def test_every_section_is_there_in_order(read):
    page = [attributes["aria-labelledby"] for attributes in read.all("section")]
    assert page == ["gates", "values", "differences", "slices", "history", "beyond", "data", "definitions", "run"]
    linked = [attributes["href"] for attributes in read.all("a")]
    assert linked == [f"#{section}" for section in page]


def test_the_summary_comes_first(read):
    head = read.text("head")
    assert "✓ Gates passed: 2 of 2" not in head  # popularity has 3/8, and the gate is at 1/2
    assert "✗ Gates failed: 1 of 2" in head
    assert "popularity fails mrr@2: min 0.5: 0.3750 is below min 0.5." in head
    assert "mrr@1: als is best with 0.5000" in head
    assert "✗ fail popularity mrr@2: min 0.5 0.3750 is below min 0.5" in read.text("gates")


def test_gates_and_configuration_cannot_reverse_the_text_of_the_page(tmp_path):
    reversing = "x\u202ey\x1bz"
    result = small_result(metrics=["mrr"], k=2)
    gates = [gate._replace(gate=reversing, reason=reversing, model=reversing) for gate in small_gates(result, min=2.0)]
    text = result.to_html(tmp_path / "r.html", gates=gates, configuration=f"a: {reversing}\nb: 1").read_text("utf-8")
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "x\ufffdy\ufffdz fails x\ufffdy\ufffdz" in text
    assert "a: x\ufffdy\ufffdz\nb: 1</pre>" in text


def test_a_history_of_other_models_has_no_figure(tmp_path):
    result = small_result(metrics=["mrr"], k=2)
    renamed = small_history(small_result("old", "older", metrics=["mrr"], k=2))
    assert "history" not in [
        attributes["aria-labelledby"] for attributes in page_of(result, tmp_path, history=renamed).all("section")
    ]


def test_failed_gates_are_never_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "_LIMITS", (3,))
    result = small_result(metrics=["mrr"], k=2)
    passes, fails = small_gates(result, min=0.1), small_gates(result, min=2.0)
    warns = [gate._replace(result="warn") for gate in passes]
    page = page_of(result, tmp_path, gates=[*passes, *warns, *fails, *fails])
    assert [attributes["class"] for attributes in page.all("span") if "chip" in attributes["class"]][:4] == ["chip fail"] * 4
    assert "4 more results are in the table gates; none of them failed." in page.text("gates")
    page = page_of(result, tmp_path, gates=[*passes, *warns, *fails[:1]])
    chips = [attributes["class"] for attributes in page.all("span") if "chip" in attributes["class"]][:3]
    assert chips == ["chip fail", "chip warn", "chip warn"]
    assert "2 more results" in page.text("gates")
    assert "more results" not in page_of(result, tmp_path, gates=fails).text("gates")


def test_warnings_beyond_the_limit_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "_LIMITS", (3,))
    result = small_result(metrics=["mrr"], k=2)
    object.__setattr__(result, "warnings", [f"warning {n}" for n in range(5)])
    assert "warning 2 2 more warnings are in warnings of the result." in page_of(result, tmp_path).text("data")


def page_without_values(**more):
    run = dict.fromkeys(("run_id", "config_hash", "data_hash"), "x" * 16)
    run |= {"job": "nightly", "as_of": "2026-11-28", "computed_at": datetime(2026, 11, 29, 3, 30, tzinfo=timezone.utc)}
    lines = ["truth: null_users = 1: expected ids <b>"]
    checks = [DataCheck("null_users", "truth", "error", 1, 0.25, None)]
    rules = convention("default")
    more = {"emptiness": lines, "data_checks": checks, "ended": "the run was rejected", **more}
    return page_module.Page(run=run, rows=(), convention=rules, warnings=(), confidence=0.95, **more)


def test_a_run_without_values_has_a_page():
    page = Read(page_without_values(configuration="job: nightly").html())
    assert [attributes["aria-labelledby"] for attributes in page.all("section")] == ["data", "definitions", "run"]
    assert [attributes["href"] for attributes in page.all("a")] == ["#data", "#definitions", "#run"]
    assert "✗ The run was rejected truth: null_users = 1: expected ids <b>" in page.text("head")
    assert "nightly as of 2026-11-28" in page.text("head")
    assert "error truth null_users" in page.text("data")
    assert "2026-11-29 03:30 UTC" in page.text("run")
    assert "job: nightly" in page.text("run")


def test_significant_differences_are_in_the_summary(tmp_path):
    result = small_result()
    read = page_of(result, tmp_path, comparison=small_comparison(metric="mrr@1", k=1))
    assert "als is significantly better than popularity: mean difference 0.3750 (4 users, p < .001)." in read.text("head")


def test_a_difference_that_is_not_significant_has_its_minimum_detectable_effect(read):
    differences = read.text("differences")
    assert "hit@1 +0.3750 [-0.2500, 0.5000] 0.300 3/1/0 4 not significant (minimum detectable effect 0.1250)" in differences
    assert differences.count("(minimum detectable effect") == 1  # the other one is significant


def test_values_intervals_and_the_best_one(read):
    values = read.text("values")
    # The mean of 1, 1/2, 1, 1/2; its standard deviation is 1 / sqrt(12), and the half width 1.96 / sqrt(12) / sqrt(4) = 0.2829.
    half = 1.959964 / math.sqrt(12) / 2
    assert f"mrr@2 4 0.7500 ★ [{0.75 - half:.4f}, {0.75 + half:.4f}] 0.3750" in values
    assert "rmse ↓" in values
    best = [attributes for attributes in read.all("td") if attributes.get("class") == "number best"]
    # mrr and hit at two cut-offs, rmse, coverage at 1 (at 2 the models are equal), and mrr@1 by slice
    assert len(best) == 4 + 1 + 1 + 3


def test_the_users_of_each_value_are_shown(tmp_path, read):
    # popularity does not rate the item of the fourth user.
    values = read.text("values")
    assert f"rmse ↓ 3 to 4 {math.sqrt(2 / 4):.4f} ★ 4 users 1.0000 3 users" in values
    assert len(re.findall(r"\d users?\b", values)) == 2  # only if models differ
    result = small_result(metrics=["mrr"], k=2)
    result.__dict__["rows"] = [{**row, "n_users": n} for row, n in zip(result.rows, (1, 3), strict=True)]
    assert re.search(r"mrr@2 1 to 3 0\.7500 ★ \[.+?\] 1 user 0\.3750 \[.+?\] 3 users", page_of(result, tmp_path).text("values"))
    assert re.search(
        r"\| mrr@2 \| 1 to 3 \| \*\*0\.7500\*\* \[.+?\] \(1 user\) \| 0\.3750 \[.+?\] \(3 users\) \|", result.to_markdown()
    )


def test_several_metrics_at_once(tmp_path, read):
    # mrr and items at 2: 1 and 1; 1/2 and 2; 0 and 1; and 1/2 and 2 again, equal to its twin.
    result = in_two_ways({"<als>": "x", "knn": "yx", "pop": "y", "twin": "zx"})
    section = page_of(result, tmp_path).text("together")
    assert (
        "model mrr@2 item_coverage(measure=count)@2 Pareto-optimal <als> 1.0000 1.0000 yes knn 0.5000 2.0000 yes "
        "pop 0.0000 1.0000 no: dominated by <als>, knn, twin twin 0.5000 2.0000 yes"
    ) in section
    assert "pop 0.0000 1.0000 no: dominated by <als>" in section  # at 1
    assert "hypervolume@2 1 1.0000" in section  # 1 * 1; 1/2 * 2; 0; 1/2 * 2
    assert "hypervolume" not in page_of(result, tmp_path).text("values")
    lines = result.to_markdown().splitlines()
    assert "| pop | 0.0000 | 1.0000 | no: dominated by &#60;als&#62;, knn, twin |" in lines
    assert "| model | mrr@2 | item&#95;coverage(measure=count)&#64;2 | Pareto-optimal |" in lines
    assert "together" not in read.sections
    assert "**Several metrics at once**" in lines
    message = small_result().to_markdown()
    assert "Pareto" not in message
    assert "Several" not in message


def test_preferences_of_groups_are_in_the_page(tmp_path, read):
    import pandas as pd

    predictions = pd.DataFrame(
        [("als", 1, "x"), ("als", 2, "y"), ("pop", 1, "x"), ("pop", 2, "x")], columns=["model", "user_id", "item_id"]
    ).assign(score=1.0)
    result = evaluate(
        predictions,
        pd.DataFrame({"user_id": [1, 2], "item_id": ["x", "y"]}),
        metrics=["mrr", "bias_disparity_br(users=gender, items=age)"],
        k=1,
        user_segments=pd.DataFrame({"user_id": [1, 2], "gender": ["F", "M"]}),
        item_groups=pd.DataFrame({"item_id": ["x", "y"], "age": ["old", "new"]}),
    )
    page = page_of(result, tmp_path)
    # Half of the items are old. als recommends them to F only, popularity to all users; each group has one user.
    pairs = page.text("beyond").partition("by pair of groups")[2]
    assert re.findall(r"gender\*age = (\w & \w+) ~ 1 (\S+) (\S+)", pairs) == [
        ("F & new", "0.0000", "0.0000"),
        ("F & old", "2.0000", "2.0000"),
        ("M & new", "2.0000", "0.0000"),
        ("M & old", "0.0000", "2.0000"),
    ]
    assert "★" not in pairs
    assert "by pair of groups" not in read.text("beyond")


def test_coverage_has_its_own_section(read):
    assert "item_coverage@1" in read.text("beyond")
    assert "item_coverage" not in read.text("values")


def test_empty_sections_are_left_out(tmp_path):
    read = page_of(small_result(metrics=["mrr"], k=2), tmp_path)
    assert [attributes["aria-labelledby"] for attributes in read.all("section")] == ["values", "data", "definitions", "run"]
    assert "○ No gates were checked" in read.text("head")
    assert read.all("svg") == []


def test_one_run_is_no_history(tmp_path):
    result = small_result(k=2)
    rows = small_history(result)
    assert page_of(result, tmp_path, history=rows[-2:]).text("history") == ""
    assert page_of(result, tmp_path, history=rows).text("history") != ""


def test_a_model_has_the_same_color_in_all_figures(tmp_path):
    result = small_result(k=[1, 2], metrics=["mrr"])
    rows = sorted(small_history(result), key=lambda row: (row["as_of"], row["model"] == "als"))
    # The oldest run has only popularity.
    rows = [row for row in rows if (row["as_of"], row["model"]) != ("2026-11-26", "als")]
    colors = []
    for figure in re.findall(r"<svg.*?</svg>", result.to_html(tmp_path / "report.html", history=rows).read_text(), re.DOTALL):
        legend = re.search(r'id="f\d+-legend_1">(.*)', figure, re.DOTALL)[1]
        colors.append((re.findall(r"<text.*?>(.*?)</text>", legend), list(dict.fromkeys(re.findall(r"--model-\d", legend)))))
    assert colors == [(["als", "popularity"], ["--model-0", "--model-1"])] * 2


def test_the_best_of_many_models_and_the_baseline_are_shown(tmp_path):
    values = {"base": 0.0, **{f"m{n:02}": (n + 1) / 100 for n in range(40)}}
    result = small_result(metrics=["mrr"])
    result.__dict__["rows"] = many_models(values)
    pairs = [
        {**small_comparison().rows[0], "model_a": "base", "model_b": model, "mean_a": 0.0, "mean_b": value}
        for model, value in values.items()
        if model != "base"
    ]
    page = page_of(result, tmp_path, comparison=Comparison(tuple(pairs), 0.05))
    shown = [f"m{n:02}" for n in range(40)]
    heads = page.text("values").partition("users base")[2]
    assert heads.split()[:29] == shown[11:], "150 lines of a table are 30 models"
    assert "11 more models are in the table summary." in page.text("values")
    figure, *of_pairs = page.all("svg")
    assert "base: 0.0000 at 1" in figure["aria-label"]
    assert "m28:" not in figure["aria-label"]
    assert "m29: 0.1500 at 1, 0.3000 at 2" in figure["aria-label"]
    assert figure["aria-label"].endswith("29 more models in the table.")
    assert "29 more models in the table" in page.text("values")
    assert [attributes["aria-label"].partition(" ")[0] for attributes in of_pairs] == shown[:-13:-1]
    assert "28 more pairs have no figure." in page.text("differences")


def test_figures_beyond_the_limit_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "_FIGURES", 1)
    monkeypatch.setattr(page_module, "_HISTORIES", 1)
    result = small_result(metrics=["mrr", "hit"])
    page = page_of(result, tmp_path, history=small_history(result, metrics=("mrr@2", "hit@2", "hit@1")))
    assert len(page.all("svg")) == 2
    assert "1 more metrics have no figure." in page.text("values")
    assert "popularity 2 more metrics are in the table summary." in page.text("history")


def test_undefined_values_come_first(tmp_path):
    import pandas as pd

    predictions = pd.DataFrame({"user_id": [1], "item_id": ["x"], "score": [0.5]})
    truth = pd.DataFrame({"user_id": [1], "item_id": ["x"], "rating": [0.0]})
    result = evaluate(predictions, truth, metrics=["mrr"], k=[1, 2])
    read = page_of(result, tmp_path)
    assert "✗ Values are undefined: there are no users to evaluate" in read.text("head")
    assert result.emptiness[0] in read.text("head")
    assert "mrr@1 0 undefined" in read.text("values")


def test_definitions_and_options_of_the_convention(tmp_path, read):
    message = page_module.parse("mrr").definition.summary
    assert f"mrr {message} higher is better" in read.text("definitions")
    assert "Where it differs" not in read.text("definitions")
    result = small_result()
    object.__setattr__(result, "convention", convention("ranx"))
    assert "gain linear (default: binary)" in page_of(result, tmp_path).text("definitions")


def test_hashes_versions_and_configuration_of_the_run(read):
    run = read.text("run")
    assert f"spark_recmetrics {page_module.__version__}" in run
    assert re.search(r"matplotlib \d", run)
    assert "job: nightly" in run


def test_the_data_report_is_complete(read):
    result, _ = everything()
    data = read.text("data")
    for fact in result.data_checks:
        assert f"{fact.table} {fact.check}" in data
    for line in result.warnings:
        assert line in data


def test_figures_have_text_and_a_label(read):
    figures = read.all("svg")
    assert len(figures) == 3 + 1 + 1 + 1  # mrr, hit and coverage against k; differences, slices, history
    for figure in figures:
        assert figure["role"] == "img"
        assert len(figure["aria-label"]) > 40
    assert "popularity" in read.sections["history"]  # of the legend
    assert not [name for name, _ in read.elements if name in ("image", "metadata")]


def test_ids_are_unique_and_references_have_a_target(read):
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = [value for _, attributes in read.elements for key, value in attributes.items() if key in ("href", "xlink:href")]
    used += [f"#{page}" for _, attributes in read.elements for page in re.findall(r"url\(#([^)]+)\)", str(attributes))]
    assert {name.removeprefix("#") for name in used if name != "data:,"} <= set(ids)


def test_every_color_of_a_figure_is_one_of_the_page(read):
    of_figures = [
        attributes["style"] for name, attributes in read.elements if name in ("path", "text", "use") and "style" in attributes
    ]
    assert of_figures
    assert not [style for style in of_figures if re.search(r"#[0-9a-f]{3,6}\b", style)]


def palettes(read):
    light, dark = re.findall(r":root \{(.*?)\}", read.styles[0], re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", palette)) for palette in (light, dark)]


def test_colors_can_be_distinguished_and_read_in_light_and_dark(read):
    light, dark = palettes(read)
    assert light.keys() == dark.keys()
    assert [light[f"model-{n}"] for n in range(len(canvas.COLORS))] == list(canvas.COLORS)
    for palette in (light, dark):
        models = [palette[f"model-{n}"] for n in range(len(canvas.COLORS))]
        assert min(nearest(models, sight) for sight in SIGHTS) > 15
        assert min(contrast(color, palette["page"]) for color in models) >= 3
        for name in ("ink", "muted", "link", "pass", "warn", "fail", "none"):
            assert min(contrast(palette[name], palette[ground]) for ground in ("page", "panel")) >= 4.5, name


def test_the_page_loads_nothing(read, written):
    assert not {"script", "iframe", "img", "object", "embed", "form", "base"} & {name for name, _ in read.elements}
    addresses = {
        value for _, attributes in read.elements for key, value in attributes.items() if key in ("href", "src", "xlink:href")
    }
    assert all(value.startswith(("#", "data:")) for value in addresses)
    assert not re.search(r"@import|url\((?!#)", " ".join(read.styles))
    (policy,) = [
        attributes["content"] for attributes in read.all("meta") if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    # XML namespaces are not addresses.
    assert set(re.findall(r"https?://[^\s\"'<]+", written)) <= {canvas.SVG, canvas.XLINK}


def test_a_hostile_name_is_escaped_everywhere(tmp_path, written, read):
    result, more = everything(first=HOSTILE)
    hostile = page_of(result, tmp_path, **{**more, "configuration": f"job: {HOSTILE}"})
    # The same elements as with a harmless name, also in figures.
    drawn = {"path", "g", "use", "defs", "text", "clippath", "rect"}  # a longer name changes the layout
    assert [name for name, _ in hostile.elements if name not in drawn] == [
        name for name, _ in read.elements if name not in drawn
    ]
    assert not [key for _, attributes in hostile.elements for key in attributes if key.startswith("on")]
    for section in ("values", "gates", "differences", "run"):
        assert HOSTILE in hostile.text(section), section
    assert canvas.short(HOSTILE) in hostile.sections["history"]


@pytest.mark.slow
def test_long_pages_are_cut_below_a_megabyte(tmp_path):
    import pandas as pd

    models = [f"{'m' * 200}{n}" for n in range(40)]
    predictions = pd.DataFrame([(model, 1, "x", 1.0) for model in models], columns=["model", "user_id", "item_id", "score"])
    truth = pd.DataFrame({"user_id": [1], "item_id": ["x"]})
    wanted = {"mrr": {}, "hit": {}}
    result = evaluate(predictions, truth, metrics=list(wanted), k=list(range(1, 61)), objectives=wanted)
    with_slices(result, [("age", str(n), 40) for n in range(20)])
    preference = "bias_disparity_br(items=genre, users=age)"
    ones = [row for row in result.rows if row["metric"] == "mrr@1" and row["slice"] == "all"]
    result.rows.extend({**row, "metric": preference, "k": None} for row in ones)
    result.rows.extend(
        {**row, "metric": preference, "k": None, "slice": "age*genre", "slice_value": f"{n} & war"}
        for n in range(300)
        for row in ones
    )
    pairs = Comparison(
        tuple({**small_comparison().rows[0], "model_a": model} for model in models[:3] for _ in range(400)), 0.05
    )
    path = result.to_html(tmp_path / "report.html", comparison=pairs, gates=small_gates(small_result()) * 500)
    assert path.stat().st_size < page_module.LARGEST_PAGE
    page = Read(path.read_text())
    more = r"\d+ more rows are in the table summary\. \d+ more models are in the table summary\."
    assert re.search(more, page.text("values"))
    assert re.search(more, page.text("beyond").partition("by pair of groups")[2])
    assert re.search(
        r"\d+ more models are in pareto of the result\. .*\d+ more cut-offs are in pareto of the result\.",
        page.text("together"),
    )


@pytest.mark.parametrize(("package", "what"), [("jinja2", "HTML reports need jinja2"), ("matplotlib", "plots need matplotlib")])
def test_without_the_extra_it_is_named(monkeypatch, tmp_path, package, what):
    page_module._environment.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"^{what}, found none: .* pip install 'jinja2>=3\.1' 'matplotlib>=3\.8'$"):
        small_result().to_html(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
    page_module._environment.cache_clear()


# Notebooks ------------------------------------------------------------------------------------------------------------------


def test_a_result_shows_itself_in_a_notebook():
    read = Read(small_result(HOSTILE)._repr_html_())
    assert "mrr@2" in read.text("head")
    assert HOSTILE in read.text("head")
    assert not {"script", "svg"} & {name for name, _ in read.elements}
    # The style of a cell applies to the whole notebook.
    assert all(line.startswith(".recmetrics ") for line in "".join(read.styles).strip().splitlines())


def test_a_comparison_shows_itself_in_a_notebook():
    comparison = small_comparison(HOSTILE)
    read = Read(comparison._repr_html_())
    assert f"popularity {HOSTILE} mrr@2 +0.3750 [0.2500, 0.5000] <.001 3/1/0 4" in read.text("head")
    assert "gender: 0 of 1 comparisons significant, 1 with too few users to test" in read.text("head")
    assert not {"script", "svg"} & {name for name, _ in read.elements}
    assert repr(comparison) == str(comparison)
    assert repr(comparison).splitlines()[0].split()[:3] == ["a", "b", "metric"]


def test_without_jinja2_a_notebook_shows_the_text(monkeypatch):
    page_module._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert small_result()._repr_html_() is None
    assert small_comparison()._repr_html_() is None
    page_module._environment.cache_clear()


def test_warnings_beyond_the_limit_of_a_cell_are_counted():
    result = small_result()
    object.__setattr__(result, "warnings", [f"warning {n}" for n in range(7)])
    text = Read(result._repr_html_()).text("head")
    assert "⚠ warning 4" in text
    assert "⚠ 2 more warnings are in result.warnings ." in text
