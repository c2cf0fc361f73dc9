"""The table object: order, cells, notes, captions."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyptrace.config import Config, Loss, Supervision
from polyptrace.evaluate import Results
from polyptrace.evaluate.results import Method, Metric, Task, compare
from polyptrace.report.page import Table, markdown
from polyptrace.report.ranking import MAIN, Measure, has_intervals
from polyptrace.report.tables import (
    ablation_table,
    counting_table,
    difference_table,
    method_table,
    sweep_difference_table,
    sweep_table,
    switches,
)

Make = Callable[..., Results]
MAP = MAIN[0]


def table_of(rows: list[Results], **options: object) -> Table:
    return method_table("t", "T", rows, [MAP], **options)


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


def test_a_method_that_saw_test_data_is_marked_and_the_table_explains_the_mark(make_row: Make) -> None:
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
    assert sum(note.startswith(("MACs,", "FLOPs,")) for note in table.notes) == 2


def test_labels_are_none_tracks_polyps_or_not_stated_and_explained(make_row: Make) -> None:
    uses = {"label-free": "none", "label-free given tracks": "tracks", "labels": "polyps", "": "–"}
    rows = [make_row(use or "theirs", 0.5) for use in uses]
    rows = [replace(row, method=replace(row.method, labels=use)) for row, use in zip(rows, uses, strict=True)]
    table = table_of(rows)
    assert [row.cells[0].text for _, lines in table.groups for row in lines] == list(uses.values())
    assert sum(note.startswith("Labels:") for note in table.notes) == 1


def test_the_counting_table_explains_a_clustering_that_joins_nothing(make_row: Make) -> None:
    for recall, explained in ((0.0, 1), (0.4, 0)):
        table = counting_table([make_row("a", recall, task="counting.affinity", figure="recall")], 0)
        assert table is not None
        assert sum("leaves every track alone" in note for note in table.notes) == explained


def test_the_caption_counts_what_was_tested(make_row: Make) -> None:
    assert table_of([make_row("a", 0.5)]).caption == "Retrieval: 50 tracks of 20 polyps in 5 procedures (test)."


def test_generated_procedures_are_called_that(make_row: Make) -> None:
    named_alike = make_row("a", 0.5)
    marked = replace(named_alike, generated=True)
    assert "5 procedures" in table_of([named_alike]).caption
    assert "5 generated procedures" in table_of([marked]).caption


def test_the_costs_come_last_on_a_page_so_that_a_phone_shows_the_results_first(rows: list[Results]) -> None:
    table = table_of(rows)
    reordered = table.with_costs_last()
    assert [column.name for column in reordered.columns] == ["mAP", "Labels", "Params", "MACs", "FLOPs"]
    for (_, before), (_, after) in zip(table.groups, reordered.groups, strict=True):
        assert [row.cells for row in after] == [(*row.cells[4:], *row.cells[:4]) for row in before]


@pytest.mark.parametrize(
    ("percent", "low", "high", "printed"),
    [(True, 0.5, 0.6, "50.0–60.0"), (True, -0.02, 0.6, "−2.0 to 60.0"), (False, 1.0, 1.5, "1.00–1.50")],
)
def test_intervals_are_printed_without_doubt_about_signs(percent: bool, low: float, high: float, printed: str) -> None:
    assert Measure("t", "f", "", "", percent=percent).interval_text(low, high) == printed


def test_an_undefined_interval_is_not_printed() -> None:
    assert MAP.interval_text(float("nan"), 0.5) == ""


def test_a_minus_is_a_minus() -> None:
    assert MAP.value_text(-0.0512) == "−5.12"


def test_the_papers_rows_are_quoted_apart_and_never_ranked(make_row: Make) -> None:
    rows = [make_row("a", 0.5), make_row("b", 0.1)]
    table = table_of(rows, paper=True)
    group, lines = table.groups[-1]
    assert "paper" in group
    assert all(row.quoted for row in lines)
    assert not any(cell.mark or cell.interval for row in lines for cell in row.cells)
    assert [cell.mark for row in table.groups[0][1] for cell in row.cells[-1:]] == ["best", "second"]


def test_trained_rows_with_one_seed_are_named_where_others_have_several(make_row: Make) -> None:
    rows = [make_row("grid", 0.1, group="Baseline"), make_row("once", 0.5), make_row("often", 0.6)]
    several = [*rows[:2], replace(rows[2], method=replace(rows[2].method, seeds=3))]
    differences = difference_table(several, MAIN[:1], focus=2)
    assert differences is not None
    for notes in (table_of(several).notes, differences.notes):
        assert [note.split(". ")[0] for note in notes if "One training seed" in note] == ["One training seed: once"]
    assert not any("One training seed" in note for note in table_of(rows).notes)
    blocks = ablation_table({name: [(row, Config()) for row in several[1:]] for name in ("a", "b")}, MAIN[:1])
    assert [note.split(". ")[0] for note in blocks.notes if "One training" in note] == ["One training seed: once"]


def test_a_difference_is_the_shown_method_minus_the_other(make_row: Make) -> None:
    rows = [make_row("a", 0.50, seed=1), make_row("b", 0.90, seed=2), make_row("c", 0.95, seed=3)]
    table = difference_table(rows, MAIN[:1], focus=1)
    assert table is not None
    cells = {row.name: row.cells[0] for _, lines in table.groups for row in lines}
    assert {name: cell.text for name, cell in cells.items()} == {"a": "+40.00", "c": "−5.00"}
    assert "b minus each other" in table.title


def test_its_interval_is_of_the_draws_difference_not_of_two_intervals(make_row: Make) -> None:
    shared = make_row("a", 0.5, spread=0.1, seed=1)
    shifted = make_row("b", 0.6, spread=0.1, seed=1)  # the same draws, 0.1 higher each time
    noise = np.random.default_rng(5).normal(scale=0.001, size=200)
    shifted.arrays["retrieval/draws/map"] = shared.arrays["retrieval/draws/map"] + 0.1 + noise
    table = difference_table([shared, shifted], MAIN[:1], focus=1)
    assert table is not None
    cell = table.groups[0][1][0].cells[0]
    low, high = (float(end) for end in cell.interval.split("–"))
    assert (low, high) == (pytest.approx(10, abs=0.5), pytest.approx(10, abs=0.5))
    assert cell.mark == "best"  # significant, though each figure alone varies by 20 points


@pytest.mark.parametrize("spread", [0.01, float("nan")])
def test_intervals_are_mentioned_only_where_there_are_any(make_row: Make, spread: float) -> None:
    rows = [make_row("a", 0.5, spread=spread), make_row("b", 0.6, spread=spread)]
    differences = difference_table(rows, MAIN[:1], focus=0)
    assert differences is not None
    notes = " ".join((*table_of(rows).notes, *differences.notes))
    assert has_intervals(rows, [MAP]) == ("Intervals: 95 %" in notes) == ("Not tested" not in notes) == (spread > 0)


def test_methods_on_other_tracklets_are_not_compared(make_row: Make) -> None:
    assert difference_table([make_row("a", 0.5), make_row("b", 0.6, key="other")], MAIN[:1], focus=0) is None


def test_differences_of_a_sweep_are_between_rows_of_the_same_point(make_row: Make) -> None:
    points = {
        "calm": [make_row("a", 0.5), make_row("ours", 0.7)],
        "restless": [make_row("a", 0.4), make_row("b", 0.6), make_row("ours", 0.5)],
        "unfinished": [make_row("a", 0.4)],
    }
    table = sweep_difference_table(points, MAIN[:1], "ours")
    assert table is not None
    cells = {point: {row.name: row.cells[0].text for row in rows} for point, rows in table.groups}
    assert cells == {"calm": {"a": "+20.00"}, "restless": {"a": "+10.00", "b": "−10.00"}}
    assert sweep_difference_table({"unfinished": points["unfinished"]}, MAIN[:1], "ours") is None


FULL = Config()
NEAREST = replace(FULL, supervision=Supervision(sampling="nearest"))
FIXED = replace(FULL, supervision=Supervision(curriculum="fixed"))
FRAMES = replace(FULL, loss=Loss(tracklet_weight=0.0))


def line(name: str, value: float, key: str, seeds: int = 1) -> Results:
    """A variant whose mAP hardly differs from draw to draw."""
    figure = Metric(value, value, value, 10, "queries")
    counts = {"tracklets": 10, "polyps": 40, "videos": 30}
    task = Task("track", "tracks", datasets=(key,), metrics={"map": figure}, counts=counts, draws_key=key, drawn=40)
    draws = np.random.default_rng(len(name)).normal(value, 0.01, 200)
    return Results(Method(name, seeds=seeds), {"retrieval": task}, {"retrieval/draws/map": draws})


def test_each_dataset_has_its_own_best_and_what_is_not_measured_has_no_figure() -> None:
    points = {
        "0": [line("naive one", 0.9, "a"), line("aware", 0.8, "a")],
        "0.5": [line("naive one", 0.3, "b"), line("aware", 0.6, "b")],
        "1": [line("aware", 0.4, "c")],
    }
    table = sweep_table("sweep", points, MAIN[0])
    cells = {row.name: [(cell.text, cell.mark) for cell in row.cells] for row in table.groups[0][1]}
    assert cells["naive one"] == [("90.00", "best"), ("30.00", "second"), ("–", "")]
    assert cells["aware"] == [("80.00", "second"), ("60.00", "best"), ("40.00", "")]
    assert "Holm-adjusted within the column" in table.notes[0]
    assert "0.5: 10 tracks of 40 polyps in 30 procedures (b)." in markdown(table)


def test_a_variant_has_one_row_however_many_seeds_each_point_has() -> None:
    points = {"0": [line("aware", 0.9, "a")], "0.5": [line("aware", 0.6, "b", seeds=3)]}
    table = sweep_table("sweep", points, MAIN[0])
    assert [row.name for row in table.groups[0][1]] == ["aware"]
    assert "0: 10 tracks of 40 polyps in 30 procedures (a). 0.5:" in markdown(table)
    assert "procedures (b), 3 training seeds." in markdown(table)


def test_the_papers_switches_are_read_from_the_settings() -> None:
    assert switches(FULL) == (True, True, True, True)
    assert switches(NEAREST) == (False, False, True, True)
    assert switches(FIXED) == (True, False, True, True)
    assert switches(FRAMES) == (True, True, True, False)


def test_rows_have_the_papers_switches_and_blocks_are_adjusted_alone(make_row: Make) -> None:
    full, nearest, fixed, frames = (
        make_row(name, 0.5 + n / 20, seed=n) for n, name in enumerate(("full", "nearest", "fixed", "frames"))
    )
    blocks = {
        "Sampling": [(full, FULL), (nearest, NEAREST), (fixed, FIXED)],
        "Level": [(frames, FRAMES), (full, FULL)],
    }
    table = ablation_table(blocks, MAIN[:1])
    assert {title: [row.name for row in rows] for title, rows in table.groups} == {
        "Sampling": ["full", "nearest", "fixed"],
        "Level": ["frames", "full"],
    }
    marks = [[cell.text for cell in row.cells[:4]] for row in table.groups[0][1]]
    assert marks == [["✓"] * 4, ["✗", "✗", "✓", "✓"], ["✓", "✗", "✓", "✓"]]
    p = compare(frames, full, "retrieval", "map").p  # the only comparison of its block
    assert table.groups[1][1][1].cells[-1].remark == f"against the best: p = {p:.3g}, Holm-adjusted"
    assert "Holm-adjusted within the column of a block" in table.notes[0]


def test_every_quoted_number_is_the_papers(shared: Path, make_row: Make) -> None:
    text = (shared / "paper.tex").read_text(encoding="utf-8")
    body = text[text.index(r"\multirow{3}{*}{Method}") : text.index(r"\label{tab:sota}")]
    printed = {}
    for line in body.split(r"\\"):
        name, *cells = line.split("&")
        numbers = re.findall(r"\d+\.?\d*", " ".join(cells))
        name = re.sub(r"\\(textbf|rowcolor|hline|textit)|~\\cite\{[^}]*\}|orange!20|[{}]", "", name).strip()
        if len(numbers) == 9:
            printed[name.split()[-1]] = [float(n) for n in numbers]
    table = method_table("t", "T", [make_row("a", 0.5)], MAIN, paper=True)
    quoted = table.groups[-1][1]
    assert len(printed) == len(quoted) == 18
    for row in quoted:
        assert [float(cell.text) for cell in row.cells[1:]] == printed[row.name], row.name
        assert [cell.note for cell in row.cells] == ["*" if row.name == "EndoFM" and n == 8 else "" for n in range(10)]
