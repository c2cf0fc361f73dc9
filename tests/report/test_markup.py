"""Markdown, LaTeX and HTML of one table: the same numbers, and nothing that a name can break."""

import re
from collections.abc import Callable
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from polyptrace.evaluate import Results
from polyptrace.report.page import (
    Cell,
    Column,
    Table,
    TableRow,
    escape_latex,
    escape_markdown,
    latex,
    markdown,
    render_table,
)
from polyptrace.report.ranking import MAIN
from polyptrace.report.tables import method_table

Make = Callable[..., Results]


def small(name: str = "a", mark: str = "best") -> Table:
    cells = (Cell("26.4"), Cell("63.13", "58.2–68.9", mark, "*", "p = 0.01"))
    columns = (Column("", "Params", "M"), Column("Retrieval", "mAP", "↑"))
    return Table(
        "t", "Title & more", "Caption_1", columns, (("Group", (TableRow(name, cells, focus=True),)),), ("Note %",)
    )


class Text(HTMLParser):
    """The tags and the text of some HTML."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_all_three_say_the_same_numbers(rows: list[Results]) -> None:
    table = method_table("t", "T", rows, list(MAIN))
    pages = table.with_costs_last()
    for content, shown in ((markdown(table), table), (latex(table), table), (render_table(table), pages)):
        values = [c.text for _, lines in shown.groups for row in lines for c in row.cells if re.match(r"^\d", c.text)]
        assert len(values) > 20
        position = 0
        for value in values:
            position = content.index(value, position)


def test_best_is_bold_and_second_is_underlined_in_each() -> None:
    best, second = small(mark="best"), small(mark="second")
    assert "**63.13**" in markdown(best)
    assert r"\textbf{63.13}" in latex(best)
    assert "<b>63.13</b>" in render_table(best)
    assert "<u>63.13</u>" in markdown(second)
    assert r"\underline{63.13}" in latex(second)
    assert "<u>63.13</u>" in render_table(second)


def test_each_line_of_the_latex_has_as_many_cells_as_the_table_has_columns() -> None:
    body = latex(small("a & b"))
    lines = [line for line in body.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert len(lines) == 3  # heads, figures, intervals
    assert all(len(re.findall(r"(?<!\\)&", line)) == 2 for line in lines)
    assert r"\begin{tabular}{lrr}" in body


def test_each_line_of_the_markdown_has_as_many_cells_as_the_table_has_columns() -> None:
    lines = [line for line in markdown(small("a | b")).splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 4 for line in lines)


def test_latex_prints_special_letters() -> None:
    assert escape_latex(r"a_b & 100% $x$ #1 {y} ~ ^ \z") == (
        r"a\_b \& 100\% \$x\$ \#1 \{y\} \textasciitilde{} \textasciicircum{} \textbackslash{}z"
    )


@given(st.text(max_size=30))
def test_no_text_opens_or_closes_a_group_of_latex(text: str) -> None:
    escaped = escape_latex(text)
    depth = 0
    for sign in re.findall(r"\\.|[{}]", escaped, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0
    assert not re.search(r"(?<!\\)[&%$#_]", escaped)


@given(st.text(max_size=30))
def test_no_text_ends_a_cell_of_markdown(text: str) -> None:
    escaped = escape_markdown(text)
    assert not re.search(r"(?<!\\)(\\\\)*[|]", escaped)
    assert "\n" not in escaped


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=30))
def test_html_shows_any_name_and_takes_none_for_a_tag(name: str) -> None:
    plain, named = Text(render_table(small("a"))), Text(render_table(small(name)))
    assert named.tags == plain.tags
    assert name in "".join(named.text)


def test_html_is_well_formed_and_names_rows_and_columns() -> None:
    content = render_table(small())
    assert not Text(content).open
    for scope in ("col", "colgroup", "row", "rowgroup"):
        assert f'scope="{scope}"' in content
