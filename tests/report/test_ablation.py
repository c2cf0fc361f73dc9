"""Table 2 from results and the runs they came from."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from polyptrace.config import Config, Loss, Supervision, as_toml
from polyptrace.core.errors import UserError
from polyptrace.evaluate import Results, compare
from polyptrace.report.ablation import ablation_table, switches, training_settings
from polyptrace.report.standing import MAIN

FULL = Config()
NEAREST = replace(FULL, supervision=Supervision(sampling="nearest"))
FIXED = replace(FULL, supervision=Supervision(curriculum="fixed"))
FRAMES = replace(FULL, loss=Loss(tracklet_weight=0.0))
MULTI = replace(FULL, loss=Loss(name="multi-positive"))


def test_the_papers_switches_are_read_from_the_settings() -> None:
    assert switches(FULL) == (True, True, True, True)
    assert switches(NEAREST) == (False, False, True, True)
    assert switches(FIXED) == (True, False, True, True)
    assert switches(FRAMES) == (True, True, True, False)


def test_rows_stand_in_the_papers_two_blocks_and_the_full_method_in_both(make_row: Callable[..., Results]) -> None:
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
    assert "Holm-adjusted over a column of the block" in table.notes[0]


def test_settings_come_from_the_run_that_the_vectors_name(make_row: Callable[..., Results], tmp_path: Path) -> None:
    run = tmp_path / "elsewhere" / "nearest"
    run.mkdir(parents=True)
    (run / "config.toml").write_text(as_toml(NEAREST, ("supervision", "loss")), encoding="utf-8")
    row = replace(make_row("a", 0.5), embeddings=[{"info": {"from": "runs/nearest"}}])
    assert training_settings(row, [run]).supervision.sampling == "nearest"
    with pytest.raises(UserError, match="--run"):
        training_settings(row, [])
