"""The look of every figure: one palette, one set of rules, and SVG and PNG out of the same drawing.

The colours are Okabe and Ito's, which the colour-blind can tell apart; nothing is said by colour alone. The first seven
are exact values that a page exchanges for its own in the dark.
"""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from html import escape
from typing import Any, ParamSpec, TypeVar

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

INK, SOFT, LINE, PAPER = "#1d2733", "#66717e", "#d9dee4", "#fffffe"

#: The method that the page is about; the same polyp; another polyp.
ACCENT, RIGHT, WRONG = "#0072b2", "#009e73", "#d55e00"

#: The names of these in the style of a page, which has others in the dark.
PAGE = {"ink": INK, "soft": SOFT, "line": LINE, "paper": PAPER, "accent": ACCENT, "right": RIGHT, "wrong": WRONG}

#: Other methods, in the order of the table; baselines are grey.
OTHERS = ("#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#999933", "#882255")
GREY = "#8b95a1"

#: Polyps and clusters. There are more of them than colours, so each also has a letter or a shape.
LESIONS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#8c6bb1",
    "#999933",
    "#b04a6f",
    "#6f8f7a",
)
SHAPES = ("o", "s", "^", "D", "v", "P", "X")

DASHES: tuple[Any, ...] = ("-", (0, (4, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)))

RULES: dict[Any, Any] = {
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "text.color": INK,
    "text.parse_math": False,  # names come from users, and may hold a dollar sign
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelsize": 8.5,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": SOFT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "lines.linewidth": 1.5,
    "lines.solid_capstyle": "round",
    "patch.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.handlelength": 1.8,
    "legend.borderaxespad": 0,
    "svg.fonttype": "none",
    "svg.hashsalt": "polyptrace",
    "savefig.dpi": 200,
}

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Drawing:
    """A finished figure: its file name without ending, what it shows in words, and both of its forms."""

    name: str
    words: str
    svg: str
    png: bytes


@dataclass(frozen=True)
class Pen:
    """How the lines of one method look, in every figure of a page."""

    colour: str
    dash: Any = "-"
    width: float = 1.4


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """A function that draws under our rules, whatever the user's matplotlibrc says."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            for name, value in RULES.items():
                matplotlib.rcParams[name] = value
            return draw(*args, **kwargs)

    return drawn


def canvas(width: float, height: float) -> Figure:
    """An empty figure, in inches, that makes room for its labels."""
    return Figure(figsize=(width, height), layout="constrained")


def finished(figure: Figure, name: str, words: str) -> Drawing:
    """The figure as SVG (see-through, text as text) and PNG (on white)."""
    vector, pixels = io.StringIO(), io.BytesIO()
    figure.savefig(vector, format="svg", metadata={"Date": None, "Creator": None})
    figure.set_layout_engine("none")  # everything has its place by now
    figure.savefig(pixels, format="png", facecolor="white", metadata={"Software": None})
    return Drawing(name, words, vector.getvalue(), pixels.getvalue())


def pens(groups: Sequence[str], shown: int) -> list[Pen]:
    """A pen for each row of the table, by its group: the shown one stands out, baselines are grey."""
    chosen: list[Pen] = []
    others = greys = 0
    for row, group in enumerate(groups):
        if row == shown:
            chosen.append(Pen(ACCENT, width=2.2))
        elif group == "Baseline":
            chosen.append(Pen(GREY, DASHES[greys % len(DASHES)]))
            greys += 1
        else:
            chosen.append(Pen(OTHERS[others % len(OTHERS)], DASHES[others // len(OTHERS) % len(DASHES)]))
            others += 1
    return chosen


def shortened(name: str, most: int = 30) -> str:
    """A name that fits beside a figure."""
    return name if len(name) <= most else f"{name[: most - 1].rstrip()}…"


def panel(width: float, height: float, left: float, bottom: float) -> Figure:
    """A figure with one pair of axes at a fixed place (inches), so that several of them line up."""
    figure = Figure(figsize=(width, height))
    figure.add_axes((left / width, bottom / height, 1 - (left + 0.12) / width, 1 - (bottom + 0.32) / height))
    return figure


def legend(place: Axes | Figure, entries: Sequence[tuple[Pen, str]], title: str | None = None) -> Legend:
    """A legend of lines, below a figure or inside axes; names may begin with an underscore, which matplotlib hides."""
    handles = [Line2D([], [], color=pen.colour, linestyle=pen.dash, linewidth=pen.width) for pen, _ in entries]
    blanks = [" "] * len(handles)
    if isinstance(place, Figure):
        shown = place.legend(handles, blanks, loc="outside lower left", title=title, alignment="left")
    else:
        shown = place.legend(handles, blanks, loc="best", title=title, alignment="left")
    for text, (_, name) in zip(shown.get_texts(), entries, strict=True):
        text.set_text(name)
    return shown


_HEAD = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_RULE = re.compile(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", re.DOTALL)
_OPENING = re.compile(r"<svg[^>]*>")
_VIEW = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_ID = re.compile(r' id="([^"]*)"')
_NEEDED = re.compile(r'(?:url\(#|href="#)([^")]+)')
_IDS = re.compile(r'(\bid="|url\(#|href="#)')
_STYLE = re.compile(r'style="[^"]*"')
_FONT = re.compile(r"'?DejaVu Sans'?(, ?sans-serif)?")


def inline(drawing: Drawing) -> str:
    """The drawing as an <svg> element of a page: its own ids, the page's colours and font, no reference outside."""
    text = _RULE.sub("", _METADATA.sub("", _HEAD.sub("", drawing.svg)))
    view = _VIEW.search(text)
    assert view is not None, "matplotlib writes a viewBox"
    width, height = (float(side) for side in view.groups())
    body = _OPENING.sub("", text, count=1)
    needed = set(_NEEDED.findall(body))
    body = _ID.sub(lambda found: found.group() if found.group(1) in needed else "", body)
    body = _IDS.sub(rf"\g<1>{drawing.name}-", body).replace("xlink:href", "href")
    body = _STYLE.sub(lambda found: _of_page(found.group()), body)
    opening = (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(drawing.words)}" '
        f'style="width:{width * 4 / 3:.0f}px">'
    )
    return opening + body


def _of_page(style: str) -> str:
    """A style of matplotlib's in the page's colours and font."""
    for name, colour in PAGE.items():
        style = style.replace(colour, f"var(--{name})")
    return _FONT.sub("var(--sans)", style)
