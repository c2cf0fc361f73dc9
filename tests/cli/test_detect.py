"""`polyptrace detect` on the command line."""

import re
from pathlib import Path

import numpy as np
import pytest

from polyptrace.cli import main
from polyptrace.data.crops.videos import write_video
from tests.detect.conftest import numbered

pytest.importorskip("av")


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return int(end.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A video of 60 frames with a moving texture, and a detector."""
    wave = np.sin(np.arange(128) / 9.0)
    frames = (np.clip(120 + 90 * np.roll(wave, 3 * i), 0, 255).astype(np.uint8) for i in range(60))
    colours = (
        np.stack([np.tile(row, (96, 1)), np.tile(row // 2, (96, 1)), np.tile(row // 3, (96, 1))], 2) for row in frames
    )
    write_video(tmp_path / "one.mp4", colours)
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def find(frames):\n    return [np.array([[30, 20, 40, 30, 0.8], [5, 5, 9, 9, 0.2]])] * len(frames)\n"
    )
    return tmp_path


def test_detections_lead_to_a_dataset(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [folder / "one.mp4", "--detector", f"{folder}/mine.py:find", "--out", folder / "boxes"]
    assert run("detect", *words) == 0
    assert "one.txt: 120 boxes (60 with a score of 0.5 or more) in 60 frames" in capsys.readouterr().out
    assert run("detect", *words) == 0
    options = ["--tracks.link", "video", "--min-score", "0.5", "--crops.size", "16", "--out", folder / "data"]
    assert run("prepare", "mot", folder / "boxes", *options) == 0
    assert (folder / "data/crops.npy").is_file()


def test_the_preview_shows_twenty_frames_and_writes_nothing_else(folder: Path) -> None:
    words = [folder / "one.mp4", "--detector", f"{folder}/mine.py:find", "--preview", "--out", folder / "boxes"]
    assert run("detect", *words) == 0
    page = (folder / "boxes/preview.html").read_text(encoding="utf-8")
    assert page.count("<img ") == 20
    assert page.count("1 strong, 1 weak") == 2 * 20  # also for screen readers
    assert [file.name for file in (folder / "boxes").iterdir()] == ["preview.html"]


def test_without_a_folder_everything_is_written_beside_the_video(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["detect", folder / "one.mp4", "--detector", f"{folder}/mine.py:find"]
    before = {file.name for file in folder.iterdir()}
    assert run(*words, "--preview") == 0
    assert {file.name for file in folder.iterdir()} - before == {"preview.html"}
    assert run(*words) == 0
    assert {file.name for file in folder.iterdir()} - before == {"preview.html", "one.txt", "one.json", "one.field.png"}
    assert not (folder / "one.mp4").is_symlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/two.mp4").symlink_to(folder / "one.mp4")
    assert run(*words[:2], tmp_path / "other/two.mp4", *words[2:]) == 2
    assert "the videos are in several folders" in capsys.readouterr().err


def test_the_preview_shows_only_what_detect_keeps_and_says_what_is_dropped(folder: Path) -> None:
    boxes = "[[float('nan')] * 5, [0.1, 0.2, 0.3, 0.3, 0.9], [30, 20, 40, 30, 0.8]]"
    (folder / "mine.py").write_text(f"def find(frames):\n    return [{boxes}] * len(frames)\n")
    words = [folder / "one.mp4", "--detector", f"{folder}/mine.py:find", "--preview", "--out", folder / "boxes"]
    assert run("detect", *words) == 0
    page = (folder / "boxes/preview.html").read_text(encoding="utf-8")
    assert "20 boxes dropped: not a number. 20 boxes dropped: between 0 and 1, but pixels are expected." in page
    assert "1 strong, 0 weak, 2 dropped" in page


def test_a_preview_that_fails_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.py").write_text("def find(frames):\n    return {}[0]\n")
    words = [folder / "one.mp4", "--detector", f"{folder}/mine.py:find", "--preview", "--out", folder / "boxes"]
    assert run("detect", *words) == 2
    assert "the detector failed (KeyError: 0, at " in capsys.readouterr().err
    assert not (folder / "boxes").exists()


def test_the_preview_leaves_out_black_and_repeated_frames(tmp_path: Path) -> None:
    """2 seconds black, 8 seconds frozen, 2 seconds that move."""
    frames = [*[np.zeros_like(numbered(0))] * 50, *[numbered(0)] * 200, *map(numbered, range(1, 50))]
    write_video(tmp_path / "v.mp4", frames)
    (tmp_path / "mine.py").write_text("def find(frames):\n    return [[] for _ in frames]\n")
    words = [tmp_path / "v.mp4", "--detector", f"{tmp_path}/mine.py:find", "--preview", "--out", tmp_path / "out"]
    assert run("detect", *words, "--keep-border") == 0
    times = re.findall(r"<figcaption>0:(\d+):", (tmp_path / "out/preview.html").read_text(encoding="utf-8"))
    assert len(times) == 20
    assert sum(int(time) < 10 for time in times) == 1  # the first of the frozen ones


def test_the_preview_of_stored_boxes_shows_frames_that_have_one(folder: Path) -> None:
    (folder / "one.txt").write_text("".join(f"{frame},-1,5,5,20,20,0.{frame}\n" for frame in (17, 31, 58)))
    words = [folder / "one.mp4", "--detector", f"mot:{folder}/one.txt", "--preview", "--out", folder / "boxes"]
    assert run("detect", *words) == 0
    page = (folder / "boxes/preview.html").read_text(encoding="utf-8")
    assert page.count("<img ") == 3
    captions = re.findall(r"<figcaption>[^:]*:\d\d: ([^<]*)<", page)
    assert captions == ["0 strong, 1 weak", "0 strong, 1 weak", "1 strong, 0 weak"]


def test_the_preview_of_no_stored_boxes_shows_frames_without(folder: Path) -> None:
    (folder / "one.txt").touch()
    words = [folder / "one.mp4", "--detector", f"mot:{folder}/one.txt", "--preview", "--out", folder / "boxes"]
    assert run("detect", *words) == 0
    assert (folder / "boxes/preview.html").read_text(encoding="utf-8").count("0 strong, 0 weak") >= 20


def test_stored_boxes_of_several_videos_are_matched_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "two.mp4").symlink_to(folder / "one.mp4")
    (folder / "mot").mkdir()
    for name, frame in (("one", 3), ("two", 5)):
        (folder / f"mot/{name}.txt").write_text(f"{frame},-1,5,5,20,20,0.9\n")
    videos = [folder / "one.mp4", folder / "two.mp4"]
    assert run("detect", *videos, "--detector", f"mot:{folder}/mot", "--out", folder / "out") == 0
    assert [(folder / f"out/{name}.txt").read_text()[:2] for name in ("one", "two")] == ["3,", "5,"]
    assert run("detect", *videos, "--detector", f"mot:{folder}/mot/one.txt", "--out", folder / "other") == 2
    assert "not exactly one is named 'two'" in " ".join(capsys.readouterr().err.split())


def test_the_detector_for_generated_videos_refuses_recordings(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (video,) = folder.glob("*.mp4")
    assert run("detect", video, "--detector", "generated", "--out", tmp_path / "out") == 2
    message = capsys.readouterr().err
    assert "was not written by 'polyptrace synth'" in message
    assert "give a detector that was trained on recordings" in message
    assert not (tmp_path / "out").exists()


def test_a_missing_video_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("detect", folder / "lost.mp4", "--detector", f"{folder}/mine.py:find", "--out", folder / "boxes") == 2
    assert "lost.mp4: no such video file -> check the path" in capsys.readouterr().err
    assert run("detect", folder, "--detector", f"{folder}/mine.py:find", "--out", folder / "boxes") == 2
    assert f"is a folder -> give its video files, such as {folder}/*.mp4" in capsys.readouterr().err


def test_boxes_of_a_video_with_another_name_are_used_with_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "boxes.txt").write_text("1,-1,5,5,20,20,0.9\n")
    (folder / "boxes.mp4").symlink_to(folder / "one.mp4")
    assert run("detect", folder / "one.mp4", "--detector", f"mot:{folder}/boxes.txt", "--out", folder / "out") == 0
    assert "has boxes of the video 'boxes', used for 'one'" in " ".join(capsys.readouterr().err.split())
