"""`polyptrace run`: from a video to its lesions, resumable at every stage."""

import base64
import io
import json
import re
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from polyptrace.cli import main
from polyptrace.cli import run as run_command
from polyptrace.cli.detect import LINKING
from polyptrace.core.files import atomic_file
from polyptrace.data import Dataset
from polyptrace.data.crops.videos import write_video
from polyptrace.embed import Embeddings
from polyptrace.encoders import TrackletEncoder, save_encoder
from polyptrace.lesions import SameModel
from tests.data.crops.test_field import PLACES, recording
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
    assert "Generated procedures." in page
    assert json.loads((out / "lesions/lesions.json").read_text())["procedures"][0]["lesions"] >= 1
    settings = json.loads((out / "data/dataset.json").read_text())["settings"]
    assert settings["tracks"]["start_score"] == LINKING.start_score
    assert settings["tracks"]["min_score"] == LINKING.min_score
    assert settings["crops"]["border"] == "blank"

    def again(*_: object, **__: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(run_command, "write_vectors", again)
    assert run(*words(tiny_videos, out), "--embed.batch-frames", "8", "--embed.block-frames", "64") == 0
    other = ["default" if word == "colour-grid" else word for word in words(tiny_videos, out)]
    assert run(*other, "--embed.enlarge", "true") == 2
    error = capsys.readouterr().err
    assert "vectors: already exists, made with other settings, existing -> requested:\n  " in error
    assert "encoder: 'colour-grid' -> 'default'" in error


def test_the_probability_of_other_procedures_is_used_and_stored_beside_the_vectors(
    tiny_videos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, same = tmp_path / "out", tmp_path / "same.json"
    assert run(*words(tiny_videos, out)) == 0
    own = SameModel.load(out / "vectors/same.json")
    replace(own, dataset="others").save(same)
    assert run(*words(tiny_videos, out), "--same", same) == 0
    for folder in ("lesions", "vectors"):
        assert SameModel.load(out / folder / "same.json").dataset == "others"
    replace(own, encoder="b" * 64).save(same)
    for folder in (out, tmp_path / "new"):
        assert run(*words(tiny_videos, folder), "--same", same) == 2
        assert "same.json: fitted on vectors of another encoder" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new").exists(), "an error before the detector runs"


def test_an_outdated_probability_beside_the_vectors_is_an_error_before_the_detector_runs(
    tiny_videos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert run(*words(tiny_videos, out)) == 0
    stored = out / "vectors/same.json"
    content = json.loads(stored.read_text())
    stored.write_text(json.dumps(content | {"format": 2, "encoder": "a" * 64}))  # of the weights alone

    def again(*_: object, **__: object) -> None:
        raise AssertionError("the detector ran")

    with monkeypatch.context() as patched:
        patched.setattr(run_command.detect, "run_detector", again)
        assert run(*words(tiny_videos, out)) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "vectors/same.json: content: format 2, expected 3 -> delete it, or fit it again" in error
    stored.unlink()
    assert run(*words(tiny_videos, out)) == 0
    assert json.loads(stored.read_text()) == content


def test_a_folder_of_another_command_is_refused_before_the_detector_runs(
    tiny_videos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dataset.json").touch()
    assert run(*words(tiny_videos, tmp_path)) == 2
    assert "contains a dataset, written by 'polyptrace prepare' -> give another folder" in capsys.readouterr().err


def test_other_videos_in_the_folder_of_a_case_are_refused_before_the_detector_runs(
    tiny_videos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(*words(tiny_videos, out)) == 0
    video, *options = words(tiny_videos, out)
    other = tmp_path / "other.mp4"
    shutil.copy2(Path(str(video)), other)
    before = sorted(out.rglob("*"))
    capsys.readouterr()
    for videos, message in (
        ([other], f"contains boxes of {Path(str(video)).stem}, not among the given videos"),
        ([video, other], "data: was made without other -> give another folder"),
    ):
        assert run(*videos, *options) == 2
        assert message in " ".join(capsys.readouterr().err.split())
        assert sorted(out.rglob("*")) == before
    assert run(*words(tiny_videos, out)) == 0


def test_a_case_is_resumed_after_a_kill_while_the_boxes_were_written(tiny_videos: Path, tmp_path: Path) -> None:
    with suppress(FileNotFoundError), atomic_file(tmp_path / "out/detections/video.txt") as leftover:
        pass
    leftover.write_text("1,-1,")
    assert run(*words(tiny_videos, tmp_path / "out")) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--encoder", "colour-gird"], "colour-gird: no such"),
        (["--encoder", "colour-grid", "--weights", "w.pth"], "leave out --weights"),
        (["--crops.size", "32", "--encoder", "default"], "32 pixels, but the encoder takes 112"),
        (["--encoder", "colour-grid", "--embed.device", "cuda"], "--embed.device cuda: torch finds no GPU"),
        (["--crops.size", "16", "--encoder", "EXPORT"], "crops of 16 pixels, but the encoder takes 24"),
        (["--encoder", "EXPORT", "--embed.pooling", "cls"], "an exported encoder takes no --embed.pooling"),
    ],
)
def test_a_wrong_option_of_a_later_stage_is_an_error_before_the_detector_runs(
    tmp_path: Path,
    exported: Path,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    write_video(tmp_path / "short.mp4", pictures(20))
    (tmp_path / "find.py").write_text("def find(frames):\n    raise AssertionError('the detector ran')\n")
    out = tmp_path / "out"
    options = [str(exported) if word == "EXPORT" else word for word in options]
    assert run(tmp_path / "short.mp4", "--detector", f"{tmp_path}/find.py:find", "--out", out, *options) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_file_that_is_no_video_is_an_error_before_the_detector_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_video(tmp_path / "short.mp4", pictures(20))
    (tmp_path / "text.mp4").write_text("not a video")
    (tmp_path / "find.py").write_text("def find(frames):\n    raise AssertionError('the detector ran')\n")
    shutil.copy(tmp_path / "short.mp4", tmp_path / "other.flv")
    for name, problem in {"text.mp4": "cannot be opened as a video", "other.flv": "not a known type of video"}.items():
        videos = [tmp_path / "short.mp4", tmp_path / name]
        assert run(*videos, "--detector", f"{tmp_path}/find.py:find", "--out", tmp_path / "out", *OPTIONS) == 2
        assert f"{name}: {problem}" in capsys.readouterr().err


def test_vectors_of_other_weights_or_settings_are_refused_and_those_of_a_moved_encoder_are_kept(
    tiny_videos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, encoder, moved = tmp_path / "out", tmp_path / "encoder", tmp_path / "moved"
    settings = {"width": 16, "layers": 1, "heads": 2, "feed_forward": 16, "projection": 8, "size": 32}

    def save(seed: int, folder: Path) -> None:
        torch.manual_seed(seed)
        save_encoder(TrackletEncoder("test_resnet", **settings), folder)

    def again(folder: Path, *options: str) -> int:
        return run(*words(tiny_videos, out)[:-1], folder, *options)

    save(0, encoder)
    assert again(encoder) == 0
    before = (out / "vectors/embeddings.parquet").stat().st_mtime_ns
    assert again(encoder.rename(moved)) == 0
    assert (out / "vectors/embeddings.parquet").stat().st_mtime_ns == before
    assert again(moved, "--embed.enlarge", "true") == 2
    assert "embed.enlarge: False -> True" in capsys.readouterr().err
    save(1, encoder)
    assert again(encoder) == 2
    assert "fingerprint: " in capsys.readouterr().err


def test_data_that_are_removed_and_made_again_get_new_vectors(tiny_videos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(*words(tiny_videos, out)) == 0
    changed = [*words(tiny_videos, out), "--tracks.min-track", "40"]
    assert run(*changed) == 2
    shutil.rmtree(out / "data")
    (out / "vectors/answers.jsonl").write_text('{"format": 1}\n')
    assert run(*changed) == 0
    assert (out / "vectors/answers.jsonl").is_file(), "the answers belong to the user"
    made = json.loads((out / "data/dataset.json").read_text())["hashes"]
    assert Embeddings.load(out / "vectors").info["dataset"]["hashes"] == made


def test_a_video_that_ends_early_is_named_on_the_page_and_in_every_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, cut = tmp_path / "whole.mkv", tmp_path / "cut.mkv"
    write_video(whole, pictures(200))
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    (tmp_path / "find.py").write_text("def find(frames):\n    return [[[30, 20, 40, 30, 0.8]] for _ in frames]\n")
    words = [cut, "--detector", f"{tmp_path}/find.py:find", "--out", tmp_path / "out", *OPTIONS]
    for _ in range(2):
        assert run(*words) == 0
        assert "cut.mkv: the stream ends early or is damaged, at 0:0" in " ".join(capsys.readouterr().err.split())
        page = (tmp_path / "out/lesions/lesions.html").read_text(encoding="utf-8")
        assert "cut: the stream ends early or is damaged, at 0:0" in page


def test_a_copy_of_a_video_is_the_same_video(tiny_videos: Path, tmp_path: Path) -> None:
    out, (video,) = tmp_path / "out", tiny_videos.glob("videos/*.mp4")
    detector = ["--detector", f"coco:{tiny_videos}", "--out", out, *OPTIONS]
    assert run(video, *detector) == 0
    copy = tmp_path / video.name
    shutil.copy2(video, copy)
    assert run(copy, *detector) == 0
    copy.write_bytes(copy.read_bytes() + b" ")
    assert run(copy, *detector) == 2


@pytest.mark.parametrize(
    ("boxes", "reason", "generated"),
    [
        ("[]", "The detector found no box.", True),
        ("[[0.1, 0.2, 0.3, 0.3, 0.9]]", "no usable box. short: 20 boxes dropped: between 0 and 1, but pixels", False),
        ("[[30, 20, 40, 30, 0.8]]", "no track is long enough", False),
        ("[[30, 20, 40, 30, 0.3]]", "no track is left with --tracks.start-score 0.5 and --tracks.min-score 0.4", False),
    ],
)
def test_without_boxes_or_tracks_the_page_says_so(tmp_path: Path, boxes: str, reason: str, generated: bool) -> None:
    write_video(tmp_path / "short.mp4", pictures(20), generated=generated)
    (tmp_path / "find.py").write_text(f"def find(frames):\n    return [{boxes} for _ in frames]\n")
    out = tmp_path / "out"
    assert run(tmp_path / "short.mp4", "--detector", f"{tmp_path}/find.py:find", "--out", out, *OPTIONS) == 0
    page = (out / "lesions/lesions.html").read_text(encoding="utf-8")
    assert "No lesions were found" in page
    assert reason in page
    assert ("Generated procedures." in page) == generated
    assert (out / "lesions/lesions.csv").read_text().count("\n") == 1


def test_a_video_without_a_track_is_named_on_the_page_of_the_others(tmp_path: Path) -> None:
    write_video(tmp_path / "polyp.mp4", pictures(60))
    write_video(tmp_path / "black.mp4", [np.zeros_like(picture) for picture in pictures(60)])
    (tmp_path / "find.py").write_text(
        "def find(frames):\n    return [[[30, 20, 40, 30, 0.8]] if frame.any() else [] for frame in frames]\n"
    )
    videos = [tmp_path / "black.mp4", tmp_path / "polyp.mp4"]
    assert run(*videos, "--detector", f"{tmp_path}/find.py:find", "--out", tmp_path / "out", *OPTIONS) == 0
    page = (tmp_path / "out/lesions/lesions.html").read_text(encoding="utf-8")
    assert "black: 0 boxes in 60 frames; 60 frames skipped: 60 black (nothing can be seen); no track." in page
    assert "Lesions of procedure polyp" in page


def page_images(page: Path) -> list[np.ndarray]:
    """The images inside a page."""
    encoded = re.findall(r"data:image/[a-z]+;base64,([A-Za-z0-9+/=]+)", page.read_text(encoding="utf-8"))
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(each))).convert("RGB")) for each in encoded]


def test_names_outside_of_the_field_are_in_no_crop_and_on_no_page(tmp_path: Path) -> None:
    """Names at twelve places around the field, read by OCR; images of one size are read as their maximum."""
    read = pytest.importorskip("rapidocr").RapidOCR(params={"Global.log_level": "error"})

    def texts(image: np.ndarray) -> int:
        """Number of texts of two letters or more in an image, enlarged, because small text is hard to read.

        A single letter is also found in the pattern of the field.
        """
        enlarged = Image.fromarray(image).resize((640, 640 * len(image) // image.shape[1]))
        return sum(len(text) > 1 for text in read(np.asarray(enlarged)).txts or ())

    video = recording(tmp_path / "v.mp4", "octagon")
    (tmp_path / "find.py").write_text(
        "def find(frames, score=0.8):\n    return [[[128, 88, 64, 64, score]] for _ in frames]\n"
        "def weak(frames):\n    return find(frames, 0.3)\n"
    )
    detector = ["--detector", f"{tmp_path}/find.py:find"]
    unlabelled = ["--detector", f"{tmp_path}/find.py:weak"]  # a preview labels strong boxes with their score
    options = ["--crops.size", "480", "--embed.device", "cpu", "--encoder", "colour-grid"]
    actual = {}
    for name, border in (("blank", ()), ("keep", ("--keep-border",))):
        out = tmp_path / name
        assert run(video, *detector, "--out", out, *options, *border) == 0
        with pytest.raises(SystemExit):
            main([str(word) for word in ("detect", video, *unlabelled, "--preview", "--out", out, *border)])
        (lesion,), preview = page_images(out / "lesions/lesions.html"), page_images(out / "preview.html")
        crops = np.asarray(Dataset.open(out / "data").crops)
        actual[name] = [texts(crops.max(axis=0)), texts(lesion), texts(np.stack(preview).max(axis=0))]
    assert actual["blank"] == [0, 0, 0]
    assert min(actual["keep"]) > 2
    assert actual["keep"][2] > 0.7 * len(PLACES)  # whole frames
