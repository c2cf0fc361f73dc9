"""The table object: order, cells, notes, captions."""

from collections.abc import Callable

import pytest

from polyptrace.evaluate import Results
from polyptrace.report.paper import PAPER
from polyptrace.report.standing import MAIN, Measure, standings
from polyptrace.report.tables import describe_counts, generated, method_table, number, span

Make = Callable[..., Results]
MAP = MAIN[0]


def table_of(rows: list[Results], **options: object) -> object:
    return method_table("t", "T", rows, [MAP], standings(rows, [MAP]), **options)


def test_groups_come_in_the_papers_order_with_baselines_before_them(make_row: Make) -> None:
    groups = ["Self-supervised", "Baseline", "Fully supervised", "Endoscopy FM", "General Purpose FM"]
    table = table_of([make_row(group, 0.5, group=group) for group in groups])
    assert [group for group, _ in table.groups] == [
        "Baseline",
        "General Purpose FM",
        "Endoscopy FM",
        "Fully supervised",
        "Self-supervised",
    ]


def test_a_cell_has_the_figure_its_interval_and_its_mark(make_row: Make) -> None:
    table = table_of([make_row("a", 0.6313, spread=0.02), make_row("b", 0.2)])
    cell = table.groups[0][1][0].cells[-1]
    assert (cell.text, cell.interval, cell.mark) == ("63.13", "59.1–67.1", "best")


def test_a_method_that_saw_test_data_has_a_sign_and_the_table_explains_it(make_row: Make) -> None:
    table = table_of([make_row("a", 0.5), make_row("b", 0.4), make_row("saw", 0.9, saw=("retrieval",))])
    assert table.groups[0][1][2].cells[-1].note == "*"
    assert any(note.startswith("*") for note in table.notes)


def test_without_such_a_method_there_is_no_such_note(make_row: Make) -> None:
    assert not any(note.startswith(("*", "†")) for note in table_of([make_row("a", 0.5)]).notes)


def test_both_counts_of_operations_are_named_and_explained(rows: list[Results]) -> None:
    table = table_of(rows)
    assert [column.name for column in table.columns[:4]] == ["Labels", "Params", "MACs", "FLOPs"]
    ours = next(row for _, lines in table.groups for row in lines if row.name == "Ours")
    assert [cell.text for cell in ours.cells[:4]] == ["none", "26.4", "33.1", "65.4"]
    assert sum(note.startswith(("MACs:", "FLOPs:")) for note in table.notes) == 2


def test_the_caption_counts_what_was_tested(make_row: Make) -> None:
    assert table_of([make_row("a", 0.5)]).caption == "Retrieval: 50 tracks of 20 polyps in 5 procedures (test)."


def test_generated_procedures_are_called_that() -> None:
    counts = {"tracklets": 5, "polyps": 2, "videos": 1}
    assert "1 generated procedure (" in describe_counts(counts, "track", ["synthetic"])
    assert "generated" not in describe_counts(counts, "track", ["REAL-Colon"])
    assert generated(["REAL-Colon", "synthetic", "Generated-2"]) == ["synthetic", "Generated-2"]


@pytest.mark.parametrize(
    ("percent", "low", "high", "printed"),
    [(True, 0.5, 0.6, "50.0–60.0"), (True, -0.02, 0.6, "−2.0 to 60.0"), (False, 1.0, 1.5, "1.00–1.50")],
)
def test_intervals_are_printed_without_doubt_about_signs(percent: bool, low: float, high: float, printed: str) -> None:
    assert span(Measure("t", "f", "", "", percent=percent), low, high) == printed


def test_an_undefined_interval_is_not_printed() -> None:
    assert span(MAP, float("nan"), 0.5) == ""


def test_a_minus_is_a_minus() -> None:
    assert number(MAP, -0.0512) == "−5.12"


def test_the_papers_rows_are_quoted_apart_and_never_ranked(make_row: Make) -> None:
    rows = [make_row("a", 0.5), make_row("b", 0.1)]
    table = table_of(rows, quoted=PAPER)
    group, lines = table.groups[-1]
    assert "paper" in group
    assert all(row.quoted for row in lines)
    assert not any(cell.mark or cell.interval for row in lines for cell in row.cells)
    assert [cell.mark for row in table.groups[0][1] for cell in row.cells[-1:]] == ["best", "second"]
