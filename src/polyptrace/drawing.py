"""The style of all figures: palette, matplotlib settings, and output as SVG and PNG.

Most colours are Okabe and Ito's, which colour-blind readers can distinguish, and no meaning is carried by colour alone.
A page replaces the colours in `PAGE_COLOURS` by CSS variables, so that figures follow its dark mode.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

INK, SOFT, LINE, PAPER = "#1d2733", "#66717e", "#d9dee4", "#fffffe"

#: The method in focus; the same polyp; another polyp.
ACCENT, RIGHT, WRONG = "#0072b2", "#009e73", "#d55e00"

#: CSS variables of a page.
PAGE_COLOURS = {
    "ink": INK,
    "soft": SOFT,
    "line": LINE,
    "paper": PAPER,
    "accent": ACCENT,
    "right": RIGHT,
    "wrong": WRONG,
}

#: Other methods, in the order of the table. Baselines are grey.
METHOD_COLOURS = ("#cc79a7", "#e69f00", "#44aa99", "#8c6bb1", "#999933", "#882255")
GREY = "#8b95a1"

#: Polyps and clusters. There may be more of them than colours, so each also has a number or a marker. None is a colour
#: of a page: its dark mode would make two of them alike.
POLYP_COLOURS = (
    *("#0072b3", "#e69f00", "#009e74", "#cc79a7", "#56b4e9"),
    *("#d55e01", "#8c6bb1", "#999933", "#b04a6f", "#6f8f7a"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

DASHES: tuple[Any, ...] = ("-", (0, (4, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)))

STYLE = rc_params_from_file(str(files("polyptrace") / "drawing.mplstyle"), use_default_template=True)

#: Decorates a drawing function: it uses our settings and ignores the user's matplotlibrc.
styled = matplotlib.rc_context(STYLE)


@dataclass(frozen=True)
class Drawing:
    """A finished figure: its file name without suffix, a description for screen readers, and both file formats."""

    name: str
    description: str
    svg: str
    png: bytes

    def save(self, folder: Path) -> None:
        """Writes NAME.svg and NAME.png."""
        (folder / f"{self.name}.svg").write_text(self.svg, encoding="utf-8")
        (folder / f"{self.name}.png").write_bytes(self.png)


@dataclass(frozen=True)
class LineStyle:
    """The line style of one method, in every figure of a page."""

    colour: str
    dash: Any = "-"
    width: float = 1.4


def canvas(width: float, height: float) -> Figure:
    """An empty figure, in inches, with a layout that leaves room for labels."""
    return Figure(figsize=(width, height), layout="constrained")


def finished(figure: Figure, name: str, description: str) -> Drawing:
    """The figure as SVG (transparent, text stays text) and PNG (on white)."""
    vector, pixels = io.StringIO(), io.BytesIO()
    figure.savefig(vector, format="svg", metadata={"Date": None, "Creator": None})
    figure.set_layout_engine("none")  # the layout is final
    figure.savefig(pixels, format="png", facecolor="white", metadata={"Software": None})
    smooth = vector.getvalue().replace("image-rendering:crisp-edges;image-rendering:pixelated", "image-rendering:auto")
    return Drawing(name, description, smooth, pixels.getvalue())


def line_styles(baseline: Sequence[bool], focus: int) -> list[LineStyle]:
    """A line style for each row of the table: the row in focus stands out, baselines are grey."""
    greys = (LineStyle(GREY, dash) for dash in cycle(DASHES))
    others = (LineStyle(colour, dash) for dash in cycle(DASHES) for colour in METHOD_COLOURS)
    return [
        LineStyle(ACCENT, width=2.2) if row == focus else next(greys if grey else others)
        for row, grey in enumerate(baseline)
    ]


def shortened(name: str, length: int = 30) -> str:
    """A name, cut to at most `length` characters."""
    return name if len(name) <= length else f"{name[: length - 1].rstrip()}…"


def panel(width: float, height: float, left: float, bottom: float) -> Figure:
    """A figure with one pair of axes at a fixed position (inches), so that several figures align."""
    figure = Figure(figsize=(width, height))
    figure.add_axes((left / width, bottom / height, 1 - (left + 0.12) / width, 1 - (bottom + 0.32) / height))
    return figure


def legend(target: Axes | Figure, entries: Sequence[tuple[Line2D, str]], **options: Any) -> None:
    """A legend of lines or markers. Names may begin with an underscore, which matplotlib hides."""
    drawn = target.legend([line for line, _ in entries], [" "] * len(entries), alignment="left", **options)
    for text, (_, name) in zip(drawn.get_texts(), entries, strict=True):
        text.set_text(name)


#: What is left out: everything before <svg>, the metadata, and matplotlib's own style sheet.
_LEFT_OUT = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<defs>\s*<style[^>]*>.*?</style>\s*</defs>", re.DOTALL)
_OPENING = re.compile(r"<svg[^>]*>")
_VIEW = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_ID = re.compile(r' id="([^"]*)"')
_NEEDED = re.compile(r'(?:url\(#|href="#)([^")]+)')
_IDS = re.compile(r'(\bid="|url\(#|href="#)')
_STYLE = re.compile(r'style="[^"]*"')
_FONT = re.compile(r"'?DejaVu Sans'?(, ?sans-serif)?")


def inline(drawing: Drawing) -> str:
    """The drawing as an <svg> element of a page: unique ids, the page's colours and font, no external references."""
    text = _LEFT_OUT.sub("", drawing.svg)
    view = _VIEW.search(text)
    assert view is not None, "matplotlib writes a viewBox"
    width, height = (float(side) for side in view.groups())
    body = _OPENING.sub("", text, count=1)
    needed = set(_NEEDED.findall(body))
    body = _ID.sub(lambda match: match.group() if match.group(1) in needed else "", body)
    body = _IDS.sub(rf"\g<1>{drawing.name}-", body).replace("xlink:href", "href")
    body = _STYLE.sub(lambda match: _page_style(match.group()), body)
    opening = (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(drawing.description)}" '
        f'style="width:{width * 4 / 3:.0f}px">'
    )
    return opening + body


def _page_style(style: str) -> str:
    """A style attribute of matplotlib with the page's colours and font."""
    for name, colour in PAGE_COLOURS.items():
        style = style.replace(colour, f"var(--{name})")
    return _FONT.sub("var(--sans)", style)
