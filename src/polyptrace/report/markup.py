"""A table as Markdown and LaTeX (booktabs), with names escaped; and as files, together with HTML."""

import re
from collections.abc import Sequence
from pathlib import Path

from polyptrace.report.page import render_table
from polyptrace.report.tables import Cell, Column, Row, Table

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "−": r"\ensuremath{-}",
    "↑": r"\ensuremath{\uparrow}",
    "↓": r"\ensuremath{\downarrow}",
    "†": r"\textdagger{}",
    "τ": r"\ensuremath{\tau}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "≤": r"\ensuremath{\leq}",
    "✓": r"\checkmark{}",
    "✗": r"\ensuremath{\times}",
    "\n": " ",
}


def escape_latex(text: str) -> str:
    """Text with the special characters of LaTeX escaped."""
    return "".join(_LATEX.get(character, character) for character in text)


def escape_markdown(text: str) -> str:
    """Text with the special characters of Markdown escaped, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>|#~&])", r"\\\1", " ".join(text.split()))


def markdown(table: Table) -> str:
    """A Markdown table. Each group begins with a row that has its name."""
    heads = ["Method", *(_markdown_head(column) for column in table.columns)]
    lines = [f"**{escape_markdown(table.title)}**", "", _markdown_row(heads)]
    lines.append(_markdown_row([":--", *["--:"] * len(table.columns)]))
    for group, rows in table.groups:
        if len(table.groups) > 1 or group:
            lines.append(_markdown_row([f"*{escape_markdown(group)}*", *[""] * len(table.columns)]))
        lines += [_markdown_row([escape_markdown(r.name), *map(_markdown_cell, r.cells)]) for r in rows]
    below = [escape_markdown(text) for text in (table.caption, *table.notes) if text]
    return "\n".join([*lines, "", "\n\n".join(below)]) + "\n"


def latex(table: Table) -> str:
    """A floating table with the intervals below each row. Needs the packages booktabs and amssymb."""
    width = 1 + len(table.columns)
    lines = [
        r"% needs \usepackage{booktabs,amssymb}",
        r"\begin{table}[t]",
        r"\centering",
        r"\setlength{\tabcolsep}{4pt}",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
    ]
    if any(over for over, _ in table.headings):
        lines += [
            _latex_row(["", *(rf"\multicolumn{{{n}}}{{c}}{{{_italic(over)}}}" for over, n in table.headings)]),
            *_rules(table.headings),
        ]
    lines.append(_latex_row(["Method", *(_latex_head(column) for column in table.columns)]))
    for group, rows in table.groups:
        lines.append(r"\midrule")
        if group:
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{{_italic(group)}}} \\")
        for row in rows:
            lines += _latex_lines(row)
    caption = " ".join(escape_latex(text) for text in (table.title + ".", table.caption, *table.notes) if text)
    end = [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", rf"\label{{tab:{table.name}}}", r"\end{table}"]
    return "\n".join([*lines, *end]) + "\n"


def write_table(folder: Path, table: Table) -> None:
    """Writes a table as Markdown, LaTeX and HTML."""
    for suffix, text in (("md", markdown(table)), ("tex", latex(table)), ("html", render_table(table))):
        (folder / f"{table.name}.{suffix}").write_text(text, encoding="utf-8")


def _markdown_head(column: Column) -> str:
    parts = (column.over, column.name, f"({column.unit})" if column.unit.isalnum() else column.unit)
    return escape_markdown(" ".join(part for part in parts if part))


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    text = escape_markdown(cell.text)
    text = {"best": f"**{text}**", "second": f"<u>{text}</u>", "": text}[cell.mark] + escape_markdown(cell.note)
    return f"{text} [{cell.interval}]" if cell.interval else text


def _italic(text: str) -> str:
    return rf"\textit{{{escape_latex(text)}}}" if text else ""


def _latex_head(column: Column) -> str:
    unit = escape_latex(column.unit)
    return escape_latex(column.name) + (f" ({unit})" if unit else "")


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _rules(headings: Sequence[tuple[str, int]]) -> list[str]:
    """Rules below the headings that span columns."""
    rules, begin = [], 2
    for over, count in headings:
        if over:
            rules.append(rf"\cmidrule(lr){{{begin}-{begin + count - 1}}}")
        begin += count
    return ["".join(rules)]


def _latex_lines(row: Row) -> list[str]:
    cells = []
    for cell in row.cells:
        text = escape_latex(cell.text)
        text = {"best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}", "": text}[cell.mark]
        cells.append(text + escape_latex(cell.note))
    name = escape_latex(row.name)
    lines = [_latex_row([rf"\textbf{{{name}}}" if row.focus else name, *cells])]
    if any(cell.interval for cell in row.cells):
        below = [rf"{{\scriptsize {escape_latex(c.interval)}}}" if c.interval else "" for c in row.cells]
        lines.append(_latex_row(["", *below]))
    return lines
