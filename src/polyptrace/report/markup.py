"""One table as Markdown, as LaTeX (booktabs) and as HTML. Whatever a user named is escaped for each."""

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby

from polyptrace.report.tables import Cell, Column, Row, Table

#: Rows from which a table may go over the end of a printed page.
LONG = 14

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
    "✓": r"\checkmark{}",
    "✗": r"\ensuremath{\times}",
    "\n": " ",
}


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def escape_markdown(text: str) -> str:
    """Text that Markdown prints as it is, inside a table."""
    return re.sub(r"([\\`*_{}\[\]<>|#~&])", r"\\\1", " ".join(text.split()))


def markdown(table: Table) -> str:
    """A table for a README or an issue; groups are rows of their own."""
    heads = ["Method", *(_flat_head(column) for column in table.columns)]
    lines = [f"**{escape_markdown(table.title)}**", "", _markdown_row(heads)]
    lines.append(_markdown_row([":--", *["--:"] * len(table.columns)]))
    for group, rows in table.groups:
        if len(table.groups) > 1 or group:
            lines.append(_markdown_row([f"*{escape_markdown(group)}*", *[""] * len(table.columns)]))
        lines += [_markdown_row([escape_markdown(r.name), *map(_markdown_cell, r.cells)]) for r in rows]
    below = [escape_markdown(text) for text in (table.caption, *table.notes) if text]
    return "\n".join([*lines, "", *("\n\n".join(below)).split("\n")]) + "\n"


def latex(table: Table) -> str:
    """A floating table; intervals stand in a line of their own below each row. Needs booktabs, and amssymb for ✓."""
    width = 1 + len(table.columns)
    runs = [(over, len(list(run))) for over, run in groupby(table.columns, key=lambda column: column.over)]
    lines = [
        r"% needs \usepackage{booktabs,amssymb}",
        r"\begin{table}[t]",
        r"\centering",
        r"\setlength{\tabcolsep}{4pt}",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
    ]
    if any(over for over, _ in runs):
        lines += [
            _latex_row(["", *(rf"\multicolumn{{{n}}}{{c}}{{{_italic(over)}}}" for over, n in runs)]),
            *_rules(runs),
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


def html(table: Table) -> str:
    """A <figure> with the table, its caption and its notes; wide ones scroll by themselves."""
    runs = [(over, len(list(run))) for over, run in groupby(table.columns, key=lambda column: column.over)]
    head = ""
    if any(over for over, _ in runs):
        spans = "".join(
            f'<th colspan="{n}" scope="colgroup" class="over">{escape(over)}</th>'
            if over
            else f'<td colspan="{n}"></td>'
            for over, n in runs
        )
        head = f"<tr><td></td>{spans}</tr>"
    names = "".join(f'<th scope="col">{_html_head(column)}</th>' for column in table.columns)
    body = "".join(_html_group(group, rows, len(table.columns)) for group, rows in table.groups)
    notes = "".join(f"<p>{escape(text)}</p>" for text in (table.caption, *table.notes) if text)
    kind = "table long" if sum(len(rows) for _, rows in table.groups) > LONG else "table"
    return (
        f'<figure class="{kind}" id="{escape(table.name)}"><figcaption><h3>{escape(table.title)}</h3></figcaption>'
        f'<div class="wide" tabindex="0"><table><thead>{head}<tr><th scope="col">Method</th>{names}</tr></thead>{body}'
        f"</table></div>"
        f'<div class="notes">{notes}</div></figure>'
    )


def _flat_head(column: Column) -> str:
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


def _rules(runs: Sequence[tuple[str, int]]) -> list[str]:
    """Short rules below the heads that span columns."""
    rules, begin = [], 2
    for over, count in runs:
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
    lines = [_latex_row([rf"\textbf{{{name}}}" if row.shown else name, *cells])]
    if any(cell.interval for cell in row.cells):
        below = [rf"{{\scriptsize {escape_latex(c.interval)}}}" if c.interval else "" for c in row.cells]
        lines.append(_latex_row(["", *below]))
    return lines


def _html_head(column: Column) -> str:
    unit = f' <span class="unit">{escape(column.unit)}</span>' if column.unit else ""
    return escape(column.name) + unit


def _html_group(group: str, rows: Sequence[Row], columns: int) -> str:
    head = (
        f'<tr class="group"><th scope="rowgroup" colspan="{columns + 1}"><span>{escape(group)}</span></th></tr>'
        if group
        else ""
    )
    lines = "".join(
        f"<tr{' class=shown' if row.shown else ' class=quoted' if row.quoted else ''}>"
        f'<th scope="row">{escape(row.name)}</th>{"".join(map(_html_cell, row.cells))}</tr>'
        for row in rows
    )
    return f"<tbody>{head}{lines}</tbody>"


def _html_cell(cell: Cell) -> str:
    text = escape(cell.text)
    value = {"best": f"<b>{text}</b>", "second": f"<u>{text}</u>", "": text}[cell.mark]
    note = f"<sup>{escape(cell.note)}</sup>" if cell.note else ""
    interval = f"<small>{escape(cell.interval)}</small>" if cell.interval else ""
    title = f' title="{escape(cell.remark)}"' if cell.remark else ""
    return f"<td{title}>{value}{note}{interval}</td>"
