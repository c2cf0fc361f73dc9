"""One figure of several variants along a row of datasets."""

import numpy as np

from polyptrace.cli.ablate import in_order
from polyptrace.config import Config
from polyptrace.evaluate import Method, Metric, Results, Task
from polyptrace.report import MAIN, Line, markdown, sweep_table


def line(name: str, value: float, key: str, seeds: int = 1) -> Line:
    """A variant whose mAP hardly differs from draw to draw."""
    figure = Metric(value, value, value, 10, "queries")
    counts = {"tracklets": 10, "polyps": 40, "videos": 30}
    task = Task("track", "tracks", datasets=(key,), metrics={"map": figure}, counts=counts, draws_key=key, drawn=40)
    draws = np.random.default_rng(len(name)).normal(value, 0.01, 200)
    results = Results(Method(name, seeds=seeds), {"retrieval": task}, {"retrieval/draws/map": draws})
    return Line(name if seeds == 1 else f"{name} ({seeds} seeds)", results, Config())


def test_each_dataset_has_its_own_best_and_what_is_not_measured_has_no_figure() -> None:
    points = {
        "0": [line("naive one", 0.9, "a"), line("aware", 0.8, "a")],
        "0.5": [line("naive one", 0.3, "b"), line("aware", 0.6, "b")],
        "1": [line("aware", 0.4, "c")],
    }
    table = sweep_table("sweep", "Sweep", points, MAIN[0])
    cells = {row.name: [(cell.text, cell.mark) for cell in row.cells] for row in table.groups[0][1]}
    assert cells["naive one"] == [("90.00", "best"), ("30.00", "second"), ("–", "")]
    assert cells["aware"] == [("80.00", "second"), ("60.00", "best"), ("40.00", "")]
    assert "Holm-adjusted over the column" in table.notes[0]
    assert "0.5: 10 tracks of 40 polyps in 30 procedures (b)." in markdown(table)


def test_a_variant_has_one_row_however_many_seeds_each_point_has() -> None:
    points = {"0": [line("aware", 0.9, "a")], "0.5": [line("aware", 0.6, "b", seeds=3)]}
    table = sweep_table("sweep", "Sweep", points, MAIN[0])
    assert [row.name for row in table.groups[0][1]] == ["aware"]
    assert "0: 10 tracks of 40 polyps in 30 procedures (a). 0.5:" in markdown(table)
    assert "procedures (b), 3 training seeds." in markdown(table)


def test_points_that_are_numbers_come_by_size() -> None:
    assert sorted(["0.75", "often", "0", "10", "0.25"], key=in_order) == ["0", "0.25", "0.75", "10", "often"]
