"""One HTML page with everything in it: no network, no script, light and dark, screen and paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from polyptrace.report.style import Drawing, inline
from polyptrace.report.tables import Table

#: The browser itself refuses whatever is not in the page.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class Section:
    """A part of the page, with the tables and drawings that are also written as files."""

    name: str  # its place in the page's address
    title: str
    html: str
    tables: tuple[Table, ...] = ()
    drawings: tuple[Drawing, ...] = ()


def page(title: str, lead: str, opening: str, sections: Sequence[Section], footer: str) -> str:
    """The whole page. `opening` and the sections are HTML, the rest is text."""
    style = files("polyptrace.report").joinpath("page.css").read_text(encoding="utf-8")
    links = "".join(f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in sections)
    body = "".join(f'<section id="{s.name}"><h2>{escape(s.title)}</h2>{s.html}</section>' for s in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<div class="sheet">\n<nav aria-label="Contents"><ol>{links}</ol></nav>\n'
        f'<header><p class="brand">polyptrace report</p><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>'
        f"{opening}</header>\n<main>\n{body}\n<footer>{escape(footer)}</footer>\n</main>\n</div>\n</body>\n</html>\n"
    )


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def plots(drawings: Sequence[Drawing], caption: str, *, wide: bool = False, key: str = "") -> str:
    """Drawings side by side, as many as fit, or a wide one that scrolls by itself; the caption below."""
    kind = "wide" if wide else "plots three" if len(drawings) > 2 else "plots"
    shown = "".join(inline(drawing) for drawing in drawings)
    box = f'<div class="{kind}"{" tabindex=0" if wide else ""}>{shown}</div>'
    return f"<figure>{key}{box}<figcaption>{escape(caption)}</figcaption></figure>"


def tiles(figures: Sequence[tuple[str, float, float, float]]) -> str:
    """The figures that a page opens with, (what, value, low, high) in per cent, each over its interval."""
    cells = "".join(
        f'<div class="tile"><dt>{escape(what)}</dt><dd><span class="value">{value:.1f}</span>'
        f'<span class="interval">{low:.1f}–{high:.1f}</span>'
        f'<span class="range"><i style="left:{low:.1f}%;width:{max(high - low, 0):.1f}%"></i>'
        f'<em style="left:{value:.1f}%"></em></span></dd></div>'
        for what, value, low, high in figures
    )
    return f'<dl class="tiles">{cells}</dl>'


def notice(strong: str, text: str) -> str:
    """A remark that nobody should miss."""
    return f'<div class="notice" role="note"><p><b>{escape(strong)}</b> {escape(text)}</p></div>'


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and what they are, as a list of two columns; code where it is one."""
    return f'<dl class="facts">{"".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in pairs)}</dl>'


def folded(summary: str, html: str) -> str:
    """Something to open; it is not printed."""
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"
