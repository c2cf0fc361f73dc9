"""Boxes that exist already belong to the video that is given, wherever they are."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.data.crops.videos import write_video
from polyptrace.detect import detect, load_detector
from tests.detect.conftest import HEIGHT, WIDTH, frames_in, pictures


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """A video of 12 frames, alone in its folder."""
    path = tmp_path / "videos/mine.mp4"
    path.parent.mkdir()
    write_video(path, pictures(12))
    return path


def write_mot(path: Path, frames: Iterable[int], box: str = "11,21,30,20", score: object = 0.9) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{frame},-1,{box},{score},-1,-1,-1\n" for frame in frames))
    return path


def test_a_mot_file_of_any_name_and_place_is_used(short: Path, tmp_path: Path) -> None:
    write_mot(tmp_path / "mot/ok.txt", [2, 5])
    made = detect(short, load_detector(f"mot:{tmp_path}/mot/ok.txt", video=short), tmp_path / "out")
    assert frames_in(made.path) == [2, 5]


def test_of_a_folder_the_mot_file_with_the_name_of_the_video_is_used(short: Path, tmp_path: Path) -> None:
    write_mot(tmp_path / "mot/mine.txt", [3])
    write_mot(tmp_path / "mot/other.txt", [4])
    (tmp_path / "mot/readme.txt").write_text("not a table\n")
    made = detect(short, load_detector(f"mot:{tmp_path}/mot", video=short), tmp_path / "out")
    assert frames_in(made.path) == [3]
    with pytest.raises(UserError, match=r"mot: has no lost\.txt -> name the boxes after the video, or give their file"):
        load_detector(f"mot:{tmp_path}/mot", video=tmp_path / "lost.mp4")


@pytest.mark.parametrize("name", ["mine", "ok"])
def test_yolo_labels_get_the_size_of_the_video(short: Path, tmp_path: Path, name: str) -> None:
    labels = tmp_path / "yolo/labels"
    labels.mkdir(parents=True)
    (labels / f"{name}_000004.txt").write_text("0 0.5 0.5 0.25 0.5 0.75\n")
    (actual,) = load_detector(f"yolo:{tmp_path}/yolo", video=short)([], [3])
    assert actual.tolist() == [[0.375 * WIDTH, 0.25 * HEIGHT, 0.25 * WIDTH, 0.5 * HEIGHT, 0.75]]


def test_for_several_videos_the_names_must_match(short: Path, tmp_path: Path) -> None:
    table = write_mot(tmp_path / "mot/ok.txt", [2])
    with pytest.raises(UserError, match=r"boxes of 1 video \(ok\), and not exactly one is named 'mine' -> rename"):
        load_detector(f"mot:{table}", video=short, by_name=True)
    table = table.rename(table.with_name("mine.txt"))
    assert len(load_detector(f"mot:{table}", video=short, by_name=True)([], [1])[0]) == 1


def test_a_moved_file_is_the_same_detector(short: Path, tmp_path: Path) -> None:
    table = write_mot(tmp_path / "mot/ok.txt", [2])
    before = load_detector(f"mot:{table}", video=short).fingerprint
    moved = table.rename(tmp_path / "moved.txt")
    assert load_detector(f"mot:{moved}", video=short.rename(tmp_path / "mine.mp4")).fingerprint == before


def test_a_mot_file_that_counts_from_zero_is_an_error_with_advice_for_every_command(
    short: Path, tmp_path: Path
) -> None:
    table = write_mot(tmp_path / "zero.txt", range(5))
    advice = "give 'polyptrace prepare' --first-frame 0; for other commands, add 1 to its frames"
    with pytest.raises(UserError, match=advice):
        load_detector(f"mot:{table}", video=short)


def test_boxes_without_a_score_are_kept(short: Path, tmp_path: Path) -> None:
    table = write_mot(tmp_path / "boxes.txt", [2, 5], score=-1)
    made = detect(short, load_detector(f"mot:{table}", video=short), tmp_path / "out", min_score=0.1)
    assert [line.split(",")[6] for line in made.path.read_text().splitlines()] == ["1.0000", "1.0000"]


def test_scores_that_are_not_shares_are_an_error(short: Path, tmp_path: Path) -> None:
    table = write_mot(tmp_path / "boxes.txt", [2, 5], score=90)
    with pytest.raises(UserError, match=r"scores must be from 0 to 1, found 90 -> divide per cent by 100"):
        detect(short, load_detector(f"mot:{table}", video=short), tmp_path / "out")


def test_boxes_of_frames_that_the_video_does_not_have_are_counted(short: Path, tmp_path: Path) -> None:
    detector = load_detector(f"mot:{write_mot(tmp_path / 'boxes.txt', range(1, 41))}", video=short)
    with pytest.warns(PolyptraceWarning, match=r"28 boxes .* not in the 12 frames of the video, .* another recording"):
        made = detect(short, detector, tmp_path / "out")
    assert frames_in(made.path) == list(range(1, 13))


@pytest.mark.parametrize("source", ["mot", "yolo"])
def test_a_procedure_without_a_box_is_possible(short: Path, tmp_path: Path, source: str) -> None:
    boxes = tmp_path / "boxes"
    boxes.mkdir()
    (boxes / "mine.txt").touch()
    (boxes / "mine_1.txt").touch()
    with pytest.warns(PolyptraceWarning, match="contains no box|no text file contains a box"):
        made = detect(short, load_detector(f"{source}:{boxes}", video=short), tmp_path / "out")
    assert (made.boxes, made.path.read_text()) == (0, "")


def test_the_frames_with_boxes_are_known(short: Path, tmp_path: Path) -> None:
    from polyptrace.detect.stored_boxes import StoredBoxes

    detector = StoredBoxes("mot", write_mot(tmp_path / "boxes.txt", [7, 2, 2, -3]), short)
    assert detector.frames().tolist() == [1, 6]
    assert np.array_equal([detector.boxes_outside(n) for n in (0, 6, 7)], [4, 2, 1])
