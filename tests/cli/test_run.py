"""`polyptrace run`: from a video to its lesions, resumable at every stage."""

import json
from pathlib import Path

import pytest

from polyptrace.cli import main
from polyptrace.cli import run as run_command
from polyptrace.data.crops.videos import write_video
from tests.detect.conftest import pictures

pytest.importorskip("av")

OPTIONS = ["--crops.size", "32", "--embed.device", "cpu", "--encoder", "colour-grid"]


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(["run", *map(str, words)])
    return int(end.value.code or 0)


def words(case: Path, out: Path) -> list[object]:
    (video,) = case.glob("videos/*.mp4")
    return [video, "--detector", f"coco:{case}", "--out", out, *OPTIONS]


def test_a_video_becomes_a_page_of_lesions_and_a_second_run_does_nothing_twice(
    tiny_videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(*words(tiny_videos, out)) == 0
    page = (out / "lesions/lesions.html").read_text(encoding="utf-8")
    assert page.count("<img ") >= 1
    assert json.loads((out / "lesions/lesions.json").read_text())["procedures"][0]["lesions"] >= 1
    settings = json.loads((out / "data/dataset.json").read_text())["settings"]
    assert settings["tracks"]["start_score"] == run_command.LINKING.start_score
    assert settings["crops"]["border"] == "blank"

    def again(*_: object, **__: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(run_command, "write_vectors", again)
    assert run(*words(tiny_videos, out)) == 0
    assert run(*words(tiny_videos, out), "--encoder", "default") == 2
    assert "vectors: already exists, made with other settings\n  encoder: 'colour-grid' -> 'default'" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("boxes", "reason"), [("[]", "The detector found no box."), ("[[30, 20, 40, 30, 0.8]]", "no track is long enough")]
)
def test_without_boxes_or_tracks_the_page_says_so(tmp_path: Path, boxes: str, reason: str) -> None:
    write_video(tmp_path / "short.mp4", pictures(20))
    (tmp_path / "find.py").write_text(f"def find(frames):\n    return [{boxes} for _ in frames]\n")
    out = tmp_path / "out"
    assert run(tmp_path / "short.mp4", "--detector", f"{tmp_path}/find.py:find", "--out", out, *OPTIONS) == 0
    page = (out / "lesions/lesions.html").read_text(encoding="utf-8")
    assert "No lesions were found" in page
    assert reason in page
    assert (out / "lesions/lesions.csv").read_text().count("\n") == 1
