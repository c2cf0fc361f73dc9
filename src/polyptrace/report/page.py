"""The content of an HTML page as data, and the rendering of pages and tables with the templates.

Everything a user can name (methods, videos, datasets) is escaped by the templates.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import polyptrace
from polyptrace.core.arrays import Pixels
from polyptrace.core.console import counted
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
class Plots:
    """Drawings side by side, or one wide drawing that scrolls on narrow screens, with a caption."""

    drawings: tuple[Drawing, ...]
    caption: str
    wide: bool = False


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
    """Film strips. With a `summary` they are folded, with a text above them; the printed page unfolds them."""

    rows: tuple[StripRow, ...]
    summary: str = ""
    text: str = ""


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
class Part:
    """The values of a template, by name; texts that depend on them are in the template."""

    template: str
    values: Mapping[str, Any]


Block: TypeAlias = Paragraph | Plots | Strips | Card | Part


@dataclass(frozen=True)
class Section:
    """A section of the page. Its tables and drawings are also written as files."""

    name: str  # anchor
    title: str
    blocks: tuple[Block, ...]

    @property
    def tables(self) -> list[Table]:
        return [each for each in self._contents() if isinstance(each, Table)]

    @property
    def drawings(self) -> list[Drawing]:
        return [each for each in self._contents() if isinstance(each, Drawing)]

    def _contents(self) -> Iterator[object]:
        for block in self.blocks:
            values = block.values.values() if isinstance(block, Part) else vars(block).values()
            for value in values:
                yield from value if isinstance(value, tuple) else (value,)


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
    return f"{_HTML.get_template('table.html.j2').module.render_table(table)}\n"  # type: ignore[attr-defined]


def markdown(table: Table) -> str:
    """One table in Markdown."""
    return _MARKDOWN.get_template("table.md.j2").render(table=table)


def latex(table: Table) -> str:
    """One floating table in LaTeX, which needs the packages booktabs and amssymb."""
    return _LATEX.get_template("table.tex.j2").render(table=table)


def table_notes(name: str, /, **values: Any) -> tuple[str, ...]:
    """The notes of a table, from a macro of `notes.j2` that has one per line."""
    return tuple(str(getattr(_MARKDOWN.get_template("notes.j2").module, name)(**values)).splitlines())


def write_table(folder: Path, table: Table) -> None:
    """Writes a table as Markdown, LaTeX and HTML."""
    for suffix, render in (("md", markdown), ("tex", latex), ("html", render_table)):
        (folder / f"{table.name}.{suffix}").write_text(render(table), encoding="utf-8")


_LATEX_TEXT = {
    "\\": "textbackslash",
    "~": "textasciitilde",
    "^": "textasciicircum",
    "<": "textless",
    ">": "textgreater",
}
_LATEX_MARKS = {"†": "textdagger", "✓": "checkmark"}
_LATEX_MATHS = {"✗": r"\times", "↑": r"\uparrow", "↓": r"\downarrow", "−": "-", "τ": r"\tau", "≤": r"\leq"}
_LATEX_CHARACTERS = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {character: f"\\{name}{{}}" for character, name in (_LATEX_TEXT | _LATEX_MARKS).items()}
    | {character: rf"\ensuremath{{{formula}}}" for character, formula in _LATEX_MATHS.items()}
    | {"–": "--", "\n": " "}
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
    "counted": counted,
    "render_part": lambda part: Markup(_HTML.get_template(part.template).render(part.values)),  # noqa: S704 - escaped
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
