"""The content of an HTML page as data, and the rendering of pages and tables with the templates.

Everything a user can name (methods, videos, datasets) is escaped by the templates.
"""

import re
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import polyptrace
from polyptrace.core.arrays import Pixels
from polyptrace.drawing import Drawing, inline
from polyptrace.film_strips import data_uri

#: A cell without a value.
MISSING = "–"

#: Tables with more rows may be split between printed pages.
LONG_TABLE = 14


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Legend:
    """Coloured squares with their meaning: (CSS class, text)."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Plots:
    """Drawings side by side, or one wide drawing that scrolls on narrow screens, with a caption."""

    drawings: tuple[Drawing, ...]
    caption: str
    wide: bool = False
    legend: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Facts:
    """A list of names and descriptions."""

    pairs: tuple[tuple[str, str], ...]
    title: str = ""


@dataclass(frozen=True)
class Strip:
    """A film strip (None: the dataset was not given) with a label, a name and a time below it.

    `role` is "query", "same", "other" or "match" (where polyps are unknown).
    """

    role: str
    image: Pixels | None
    label: str
    name: str
    time: str
    description: str


@dataclass(frozen=True)
class StripRow:
    heading: str
    strips: tuple[Strip, ...]


@dataclass(frozen=True)
class Strips:
    """Rows of film strips; `drawing` shows the same strips in one image file."""

    rows: tuple[StripRow, ...]
    drawing: Drawing | None = None


@dataclass(frozen=True)
class Picture:
    """An image with a caption."""

    image: Pixels
    caption: str
    description: str


@dataclass(frozen=True)
class Card:
    """A heading, a line of text, pictures side by side, and lines below; not split between printed pages."""

    title: str
    text: str
    pictures: tuple[Picture, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """A value as text, with its interval, its rank, a footnote sign and a tooltip."""

    text: str = MISSING
    interval: str = ""
    mark: Literal["", "best", "second"] = ""
    note: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Column:
    """A column heading: the heading above it, its name, its unit or direction. Costs come last on a web page."""

    over: str
    name: str
    unit: str = ""
    cost: bool = False


@dataclass(frozen=True)
class TableRow:
    """A method and its cells."""

    name: str
    cells: tuple[Cell, ...]
    focus: bool = False  # the method that the report is about
    quoted: bool = False  # printed elsewhere, not measured here


@dataclass(frozen=True)
class Table:
    """Rows in groups, with a caption and footnotes."""

    name: str  # file name without suffix
    title: str
    caption: str
    columns: tuple[Column, ...]
    groups: tuple[tuple[str, tuple[TableRow, ...]], ...]
    notes: tuple[str, ...] = ()

    @property
    def headings(self) -> list[tuple[str, int, int]]:
        """The headings above the columns, each with its first column (2: the one after the names) and its number."""
        runs = groupby(enumerate(self.columns, 2), key=lambda each: each[1].over)
        return [(over, columns[0][0], len(columns)) for over, run in runs for columns in [list(run)]]

    def with_costs_last(self) -> "Table":
        """The same table with the cost columns after the results."""
        order = sorted(range(len(self.columns)), key=lambda number: self.columns[number].cost)
        groups = tuple(
            (group, tuple(replace(row, cells=tuple(row.cells[number] for number in order)) for row in rows))
            for group, rows in self.groups
        )
        return replace(self, columns=tuple(self.columns[number] for number in order), groups=groups)


@dataclass(frozen=True)
class Details:
    """Blocks that the reader can unfold; they are not printed."""

    summary: str
    blocks: tuple["Block", ...]


Block: TypeAlias = Paragraph | Heading | Legend | Plots | Facts | Strips | Card | Table | Details


@dataclass(frozen=True)
class Section:
    """A section of the page. Its tables and drawings are also written as files."""

    name: str  # anchor
    title: str
    blocks: tuple[Block, ...]

    @property
    def tables(self) -> list[Table]:
        return [block for block in self.blocks if isinstance(block, Table)]

    @property
    def drawings(self) -> list[Drawing]:
        drawings: list[Drawing] = []
        for block in self.blocks:
            if isinstance(block, Plots):
                drawings += block.drawings
            elif isinstance(block, Strips) and block.drawing is not None:
                drawings.append(block.drawing)
        return drawings


@dataclass(frozen=True)
class Tile:
    """A main result at the top of the page; `range` is (low, value, high) in per cent."""

    name: str
    text: str
    interval: str
    range: tuple[float, float, float] | None


@dataclass(frozen=True)
class Page:
    """A whole page. If it shows `generated` images, a notice at the top says so."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    generated: bool
    brand: str = "polyptrace report"
    origin: str = ""  # in the footer, "on 3 May 2025" or "from vectors/mine"
    tiles: tuple[Tile, ...] = ()


def render_page(page: Page) -> str:
    """The page as one self-contained HTML file."""
    return _HTML.get_template("page.html.j2").render(page=page).lstrip()


def write_page(path: Path, page: Page) -> None:
    """Writes the page as one self-contained HTML file."""
    path.write_text(render_page(page), encoding="utf-8")


def render_table(table: Table) -> str:
    """One table as an HTML <figure>."""
    template = _HTML.get_template("table.html.j2")
    return f"{template.module.render_table(table.with_costs_last())}\n"  # type: ignore[attr-defined]


def markdown(table: Table) -> str:
    """One table in Markdown."""
    return _MARKDOWN.get_template("table.md.j2").render(table=table)


def latex(table: Table) -> str:
    """One floating table in LaTeX, which needs the packages booktabs and amssymb."""
    return _LATEX.get_template("table.tex.j2").render(table=table)


def write_table(folder: Path, table: Table) -> None:
    """Writes a table as Markdown, LaTeX and HTML."""
    for suffix, render in (("md", markdown), ("tex", latex), ("html", render_table)):
        (folder / f"{table.name}.{suffix}").write_text(render(table), encoding="utf-8")


_LATEX_CHARACTERS = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "†": r"\textdagger{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "✓": r"\checkmark{}",
        "✗": r"\ensuremath{\times}",
        "–": "--",
        "↑": r"\ensuremath{\uparrow}",
        "↓": r"\ensuremath{\downarrow}",
        "−": r"\ensuremath{-}",
        "\n": " ",
        "τ": r"\ensuremath{\tau}",
        "≤": r"\ensuremath{\leq}",
    }
)


def escape_latex(text: str) -> str:
    """Text with the special characters of LaTeX escaped."""
    return text.translate(_LATEX_CHARACTERS)


def escape_markdown(text: str) -> str:
    """Text with the special characters of Markdown escaped, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>|#~&])", r"\\\1", " ".join(text.split()))


_HTML = Environment(loader=PackageLoader("polyptrace.report"), autoescape=True, undefined=StrictUndefined)
_HTML.globals |= {"long_table": LONG_TABLE, "version": polyptrace.__version__}
_HTML.filters |= {
    "inline_svg": lambda drawing: Markup(inline(drawing)),  # noqa: S704 - escaped by matplotlib
    "data_uri": data_uri,
    "markdown": escape_markdown,
    "latex": escape_latex,
}
_MARKDOWN = _HTML.overlay(autoescape=False, trim_blocks=True, keep_trailing_newline=True)
_LATEX = _MARKDOWN.overlay(  # LaTeX is full of braces
    block_start_string="<%",
    block_end_string="%>",
    variable_start_string="<<",
    variable_end_string=">>",
    comment_start_string="<#",
    comment_end_string="#>",
)
