"""Training curves, and Table 2 from results and the runs they came from."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyptrace.config import Config, Loss, Supervision, as_toml
from polyptrace.core.errors import UserError
from polyptrace.evaluate import Results
from polyptrace.evaluate.results import compare
from polyptrace.report.ranking import MAIN
from polyptrace.report.runs import ablation_table, load_run, running_mean, switches, training_curves, training_settings

FULL = Config()
NEAREST = replace(FULL, supervision=Supervision(sampling="nearest"))
FIXED = replace(FULL, supervision=Supervision(curriculum="fixed"))
FRAMES = replace(FULL, loss=Loss(tracklet_weight=0.0))
MULTI = replace(FULL, loss=Loss(name="multi-positive"))


def test_a_run_gives_its_figures_settings_and_data(run: Path) -> None:
    loaded = load_run(run)
    assert loaded.step.tolist() == list(range(1, 41))
    assert loaded.metrics["tau"][0] == 0.3
    assert loaded.config.supervision.tau_max == 12.0
    assert loaded.data is not None
    assert loaded.data.name == "coloured"


def test_each_logged_figure_is_drawn(run: Path) -> None:
    drawings = training_curves([load_run(run)])
    assert [drawing.name for drawing in drawings] == ["training_loss", "training_condition", "training_tau"]


def test_figures_that_a_method_does_not_log_are_left_out(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "sfe"
    other.mkdir()
    (other / "config.toml").write_text("", encoding="utf-8")
    (other / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n', encoding="utf-8")
    assert [drawing.name for drawing in training_curves([load_run(other)])] == ["training_loss"]
    both = training_curves([load_run(run), load_run(other)])
    assert "sfe" in both[0].svg


def test_a_running_mean_is_the_mean_of_the_available_values() -> None:
    values = np.array([4.0, 0.0, 2.0, 6.0, 3.0])
    expected = [values[max(0, n - 1) : n + 2].mean() for n in range(5)]
    np.testing.assert_allclose(running_mean(values, 3), expected)


@pytest.mark.parametrize(
    ("content", "message"), [(None, "not a run"), ("", "completed a step"), ('{"step": 1}\n{"st', "line 2")]
)
def test_a_broken_run_is_an_error_that_says_where(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "metrics.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        load_run(tmp_path)


def test_the_papers_switches_are_read_from_the_settings() -> None:
    assert switches(FULL) == (True, True, True, True)
    assert switches(NEAREST) == (False, False, True, True)
    assert switches(FIXED) == (True, False, True, True)
    assert switches(FRAMES) == (True, True, True, False)


def test_rows_are_in_the_papers_two_blocks_and_the_full_method_in_both(make_row: Callable[..., Results]) -> None:
    names = ("full", "nearest", "fixed", "frames", "multi")
    rows = [make_row(name, 0.5 + n / 20, seed=n) for n, name in enumerate(names)]
    table = ablation_table(rows, [FULL, NEAREST, FIXED, FRAMES, MULTI], MAIN[:1])
    shown = {title: [row.name for row in lines] for title, lines in table.groups}
    assert shown["Sampling and curriculum"] == ["full", "nearest", "fixed"]
    assert shown["Level of the loss"] == ["full", "frames"]
    assert shown["Other settings"] == ["multi, loss.name = multi-positive"]
    marks = [[cell.text for cell in row.cells[:4]] for row in table.groups[0][1]]
    assert marks == [["✓"] * 4, ["✗", "✗", "✓", "✓"], ["✓", "✗", "✓", "✓"]]


def test_a_block_is_adjusted_alone_and_the_note_says_so(make_row: Callable[..., Results]) -> None:
    rows = [make_row(name, 0.5 + n / 20, seed=n) for n, name in enumerate(("full", "nearest", "fixed", "frames"))]
    table = ablation_table(rows, [FULL, NEAREST, FIXED, FRAMES], MAIN[:1])
    level = dict(table.groups)["Level of the loss"]  # of two rows: a single comparison
    p = compare(rows[3], rows[0], "retrieval", "map").p
    assert level[0].cells[-1].remark == f"against the best: p = {p:.3g}, Holm-adjusted"
    assert "Holm-adjusted within the column of a block" in table.notes[0]


def test_settings_come_from_the_run_that_the_vectors_name(make_row: Callable[..., Results], tmp_path: Path) -> None:
    run = tmp_path / "elsewhere" / "nearest"
    run.mkdir(parents=True)
    (run / "config.toml").write_text(as_toml(NEAREST, ("supervision", "loss")), encoding="utf-8")
    row = replace(make_row("a", 0.5), embeddings=[{"info": {"from": "runs/nearest"}}])
    assert training_settings(row, [run]).supervision.sampling == "nearest"
    with pytest.raises(UserError, match="--run"):
        training_settings(row, [])
