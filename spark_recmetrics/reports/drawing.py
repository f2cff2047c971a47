"""Parts of figures: colors, panels, lines and texts; and figures as SVG."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree as ET

from spark_recmetrics.errors import ConfigError, without_extra
from spark_recmetrics.reports.formatting import Row, finite
from spark_recmetrics.text import counted, printable

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, RULE = "#1d2329", "#5b6570", "#d9dee3"
COLORS = ("#0072b2", "#d55e00", "#4b0082", "#cc79a7", "#5a3315", "#14213d")
"""Colors of models, in their order. After the last color they repeat, with other markers."""

MOST_MODELS, MOST_LINES = 12, 40  # in a figure; tables have the others
WIDE = 4.6  # inches; texts stay readable on a phone

_MARKERS, _LINES = "osD^vPX", ("-", "--", "-.", ":")
_LONGEST, _MOST_TEXT_LINES = 30, 3

_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # a model may be named $x$
    "axes.labelcolor": MUTED,
    "axes.edgecolor": RULE,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "figure.constrained_layout.use": True,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "recmetrics",  # the same ids in every run
}


@contextmanager
def drawing() -> Iterator[None]:
    """Settings of matplotlib, without warnings about characters that its font lacks: readers have other fonts."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ConfigError(without_extra("plots need matplotlib", "report")) from error
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        settings: Any = mpl.rcParams
        settings.update(_STYLE)
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


class Look(NamedTuple):
    """How a model looks in all figures."""

    color: str
    marker: str
    line: Any


def looks_of(models: Sequence[str]) -> dict[str, Look]:
    """How each model looks."""
    return {
        model: Look(COLORS[n % len(COLORS)], _MARKERS[n % len(_MARKERS)], _LINES[n % len(_LINES)])
        for n, model in enumerate(models)
    }


def panels_of(
    n_rows: int, n_columns: int, size: tuple[float, float], looks: Mapping[str, Look], heights: Any = None
) -> tuple[Figure, list[Axes]]:
    """A figure of this size in inches plus room for a legend above it, and its panels."""
    # Not pyplot, which keeps every figure and selects a window system.
    from matplotlib.figure import Figure

    width, height = size
    legend = math.ceil(len(looks) / _legend_columns(looks, width)) if len(looks) > 1 else 0
    figure = Figure(figsize=(width, height + 0.2 * legend))
    panels = figure.subplots(n_rows, n_columns, squeeze=False, height_ratios=heights)
    return figure, list(panels.ravel())


def curve(panel: Axes, positions: Sequence[float], points: Sequence[Row | None], look: Look) -> None:
    """A line through the values and a band of their confidence intervals; missing values are gaps."""

    def column(key: str) -> list[float]:
        return [math.nan if row is None or finite(row[key]) is None else row[key] for row in points]

    panel.fill_between(positions, column("ci_low"), column("ci_high"), color=look.color, alpha=0.14, linewidth=0)
    panel.plot(positions, column("value"), color=look.color, marker=look.marker, linestyle=look.line)


def dot(panel: Axes, value: float, position: float, row: Row, color: str, marker: str, *, filled: bool) -> None:
    """A value at its position, over the line of its confidence interval."""
    low, high = finite(row["ci_low"]), finite(row["ci_high"])
    if low is not None and high is not None:
        panel.plot([low, high], [position, position], color=color, linewidth=1.4, solid_capstyle="round")
    # "none" and not white, which would look filled on a dark page.
    panel.plot([value], [position], color=color, marker=marker, markerfacecolor=color if filled else "none", linestyle="")


def name_lines(panel: Axes, names: Sequence[str]) -> None:
    """Name the lines, from top to bottom."""
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0, labelcolor=INK)
    panel.spines["left"].set_visible(False)


def finished(figure: Figure, text: str, looks: Mapping[str, Look], left_out: Mapping[str, int] | None = None) -> Figure:
    """The figure with its layout, a label, a legend if there are several models, and a note on what is left out."""
    from matplotlib.lines import Line2D

    if len(looks) > 1:
        handles = [Line2D([], [], color=look.color, marker=look.marker, linestyle=look.line) for look in looks.values()]
        columns = _legend_columns(looks, figure.get_figwidth())
        legend = figure.legend(handles, [str(n) for n in range(len(looks))], loc="outside upper left", ncols=columns)
        # Set afterwards, because matplotlib skips names that begin with an underscore.
        for label, model in zip(legend.get_texts(), looks, strict=True):
            label.set_text(short(model))
    if more := " and ".join(counted(n, f"more {name}") for name, n in (left_out or {}).items() if n > 0):
        figure.set_figheight(figure.get_figheight() + 0.2)
        figure.supxlabel(f"{more} in the table", x=0.01, ha="left", fontsize=9, color=MUTED)
        text = f"{text} {more} in the table."
    figure.set_label(printable(text))
    figure.draw_without_rendering()  # makes all texts while the settings hold
    return figure


def _legend_columns(looks: Mapping[str, Look], inches: float) -> int:
    longest = max(len(short(model)) for model in looks)
    return max(1, min(len(looks), int(inches / (0.75 + 0.075 * longest))))


def short(text: str, longest: int = _LONGEST) -> str:
    """The text on one line, cut if it is too long."""
    text = printable(str(text))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def wrapped(text: str, longest: int) -> str:
    """The text of a metric on up to three lines, split between its options; longer lines are cut in the middle."""
    lines: list[str] = []
    for piece in re.split(r"(?<=,) ", printable(text)):
        if lines and len(lines[-1]) + 1 + len(piece) <= longest:
            lines[-1] = f"{lines[-1]} {piece}"
        else:
            lines.append(piece)
    if len(lines) > _MOST_TEXT_LINES:
        lines = [*lines[: _MOST_TEXT_LINES - 1], f"… {lines[-1]}"]
    return "\n".join(line if len(line) <= longest else f"{line[: longest - 12]}…{line[-11:]}" for line in lines)


SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_VARIABLES = {INK: "var(--ink)", MUTED: "var(--muted)", RULE: "var(--rule)", "#000000": "var(--ink)"}
_VARIABLES |= {color: f"var(--model-{n})" for n, color in enumerate(COLORS)}


def svg(figure: Figure, prefix: str) -> Markup:
    """A figure as an element of HTML, with text as text, and colors as variables of the page. Its ids begin with `prefix`."""
    from markupsafe import Markup

    out = BytesIO()
    figure.set_layout_engine("none")  # the figure is laid out already, and layout is slow
    with drawing():
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    root = ET.fromstring(out.getvalue())  # noqa: S314 - written by matplotlib
    for parent in list(root.iter()):
        for child in list(parent):
            # A style of the figure would apply to the whole page.
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        for key, value in list(element.items()):
            if key == "id":
                element.set(key, f"{prefix}-{value}")
            elif key == f"{{{XLINK}}}href":
                element.set(key, f"#{prefix}-{value.removeprefix('#')}")
            else:
                prefixed = value.replace("url(#", f"url(#{prefix}-")
                element.set(key, re.sub(r"#[0-9a-f]{6}\b", lambda color: _VARIABLES.get(color[0], color[0]), prefixed))
    width = float(root.get("width", "0").removesuffix("pt")) * 4 / 3
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib.update({"style": f"max-width: {width:.0f}px", "role": "img", "aria-label": str(figure.get_label())})
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704 - escaped by ElementTree
