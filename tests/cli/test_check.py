"""`polyptrace check` as a user types it: every finding, and an exit code that a script can go by."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polyptrace.cli import main
from polyptrace.config import Crops
from polyptrace.data import Boxes, prepare

FRAMES = 40


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A dataset of one video with 40 boxes, and crops of 10 of them."""
    Image.linear_gradient("L").resize((64, 48)).convert("RGB").save(tmp_path / "a.jpg")
    boxes = Boxes.of(
        video="v",
        frame_index=np.arange(FRAMES),
        xywh=np.tile([20.0, 20, 10, 10], (FRAMES, 1)),
        file="a.jpg",
        polyp="p",
        source="gt.txt",
        line=np.arange(FRAMES) + 1,
    )
    return prepare(boxes, tmp_path, tmp_path / "d", crops=Crops(size=16)).path


def check(dataset: Path, *words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["check", str(dataset), *words])
    return int(end.value.code or 0)


def test_a_good_dataset_has_no_findings(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(dataset) == 0
    assert "no problems found" in capsys.readouterr().out


def test_every_fatal_finding_is_printed_unless_a_limit_is_given(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    boxes = Boxes.load(dataset / "boxes.parquet")
    replace(boxes, xywh=boxes.xywh * (1, 1, 0, 1)).save(dataset / "boxes.parquet")
    assert check(dataset) == 1
    text = capsys.readouterr().out
    assert "fatal: empty box: 40" in text
    assert [f"gt.txt:{line}: box has no width" in text for line in range(1, FRAMES + 1)] == [True] * FRAMES
    assert check(dataset, "--most", "3") == 1
    text = capsys.readouterr().out
    assert (text.count("box has no width"), "... and 37 more" in text) == (3, True)


def test_of_warnings_the_first_twenty_are_printed_unless_more_are_asked_for(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    boxes = Boxes.load(dataset / "boxes.parquet")
    replace(boxes, xywh=np.tile([-5.0, 5, 20, 20], (40, 1))).save(dataset / "boxes.parquet")
    assert check(dataset) == 0
    text = capsys.readouterr().out
    assert "warning: past the edge: 40" in text
    assert (text.count("reaches past the edge"), "... and 20 more" in text) == (20, True)
    assert check(dataset, "--most", "100") == 0
    assert capsys.readouterr().out.count("reaches past the edge") == 40


def test_black_crops_are_fatal_and_counted(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crops = np.load(dataset / "crops.npy", "r+")
    crops[[2, 5]] = 0
    crops.flush()
    assert check(dataset) == 1
    assert "fatal: 2 of 10 checked crops are black" in capsys.readouterr().out
