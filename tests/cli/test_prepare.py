"""`polyptrace prepare` as a user types it: what is printed, and what is refused."""

import errno
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from polyptrace.cli import main
from polyptrace.cli.prepare import DEFAULT_ENCODER_SIZE
from polyptrace.config import Crops
from polyptrace.data import Dataset, prepare
from polyptrace.data.crops import images as pictures
from polyptrace.data.crops.videos import read_frames
from polyptrace.data.splits import Selection
from polyptrace.encoders import load_encoder
from tests.command import call

FRAMES = 40
LONG = 120  # times 200 frames


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    """Two MOT sequences of one polyp, with scores in `det` and identities in `gt`."""
    root = tmp_path / "clips"
    for name in ("a", "b"):
        for folder in ("img1", "gt", "det"):
            (root / name / folder).mkdir(parents=True)
        picture = Image.linear_gradient("L").resize((64, 48)).convert("RGB")
        for frame in range(1, FRAMES + 1):
            picture.save(root / name / "img1" / f"{frame:06d}.jpg")
        for kind, identity, score in (("gt", 1, 1), ("det", -1, 0.75)):
            rows = [f"{frame},{identity},20,20,10,10,{score}\n" for frame in range(1, FRAMES + 1)]
            (root / name / kind / f"{kind}.txt").write_text("".join(rows))
    return root


def prepare_small(*words: object) -> int:
    return call("prepare", *words, "--crops.size", "16")


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]):
    """What was printed since, in one line."""

    def read() -> str:
        actual = capsys.readouterr()
        return " ".join((actual.out + actual.err).split())

    return read


def test_what_came_out_is_printed_and_recorded(clips: Path, tmp_path: Path, printed) -> None:
    assert prepare_small("mot", clips, "--identities", "polyp", "--out", tmp_path / "d") == 0
    text = printed()
    assert "videos 2 polyps 2 boxes 80 rejected 0 short tracks 0 tracks 2 tracklets 2 crops 20" in text
    assert "frames kept per track: 10 / 10 / 10" in text
    assert json.loads((tmp_path / "d/dataset.json").read_text())["source"]["path"] == "clips"


def test_the_python_function_writes_what_the_command_writes(clips: Path, tmp_path: Path) -> None:
    words = ("--identities", "polyp", "--share", 0.5, "--rest", "--join-clips", 2, "--fps", 30, "--seed", 1)
    assert prepare_small("mot", clips, *words, "--out", tmp_path / "command") == 0
    selection = Selection(fps=30.0, share=0.5, rest=True, join_clips=2, seed=1)
    options = {"identities": "polyp"}
    crops = Crops(size=16)
    actual = prepare("mot", clips, tmp_path / "python", crops=crops, options=options, selection=selection)
    for name in ("boxes.parquet", "tracklets.parquet", "crops.npy"):
        assert (tmp_path / "command" / name).read_bytes() == (actual.path / name).read_bytes()
    command = json.loads((tmp_path / "command/dataset.json").read_text())
    assert {**command, "made_by": None} == {**actual.info, "made_by": None}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clips", "command", "python"]


def test_missing_identities_are_an_error_that_lists_all_options(clips: Path, tmp_path: Path, printed) -> None:
    assert prepare_small("mot", clips, "--out", tmp_path / "d") == 2
    assert "--tracks.link video or by the given tracks: --tracks.link track" in printed()
    assert prepare_small("mot", clips, "--boxes", "det", "--out", tmp_path / "d") == 2
    assert printed().endswith("link by overlap alone: --tracks.link video")
    assert prepare_small("mot", clips, "--boxes", "det", "--tracks.link", "video", "--out", tmp_path / "d") == 0


def test_a_missing_or_unreachable_score_is_reported(clips: Path, tmp_path: Path, printed) -> None:
    link = ("--tracks.link", "video", "--out", tmp_path / "d")
    assert prepare_small("mot", clips, "--boxes", "det", "--min-score", 0.9, *link) == 2
    assert "--min-score 0.9: no box is left -> the highest score is 0.75" in printed()
    assert prepare_small("mot", clips, "--boxes", "gt", "--min-score", 0.9, *link) == 0
    assert "--min-score 0.9: no box has a score; all boxes are kept" in printed()


def test_a_misspelt_option_is_answered_with_the_right_one(clips: Path, tmp_path: Path, printed) -> None:
    assert prepare_small("mot", clips, "--identity", "polyp", "--out", tmp_path / "d") == 2
    assert "--identity: no such option or setting -> did you mean --identities?" in printed()
    assert prepare_small("mot", clips, "--tracks.strid", "2", "--out", tmp_path / "d") == 2
    assert "did you mean --tracks.stride?" in printed()
    assert prepare_small("mot", clips, "--max_gap", "2", "--out", tmp_path / "d") == 2
    assert "did you mean --tracks.max-gap?" in printed()


def test_a_missing_path_or_split_is_named_in_the_error(tmp_path: Path, printed) -> None:
    assert prepare_small("coco", tmp_path / "nowhere", "--out", tmp_path / "d") == 2
    assert "nowhere: no such file or folder" in printed()
    (tmp_path / "instances_train.json").write_text("{}")
    (tmp_path / "instances_test.json").write_text("{}")
    assert prepare_small("coco", tmp_path, "--split", "tst", "--out", tmp_path / "d") == 2
    assert "has no split 'tst' -> --split is one of test, train" in printed()


def test_an_existing_folder_is_refused_before_anything_is_read(tmp_path: Path, printed) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "empty").mkdir()
    assert prepare_small("mot", tmp_path / "empty", "--out", tmp_path / "d") == 2
    assert "d: already exists" in printed()


def test_a_misspelt_source_or_option_is_named_before_an_existing_folder(clips: Path, tmp_path: Path, printed) -> None:
    prepare_small("mot", clips, "--identities", "polyp", "--out", tmp_path / "d")
    printed()
    for words, message in (
        (("mto", clips), "mto: is not a source"),
        (("mot", tmp_path / "clip"), "clip: no such file or folder"),
        (("mot", clips, "--identities", "polyps"), "--identities polyps: not a choice"),
    ):
        assert prepare_small(*words, "--out", tmp_path / "d") == 2
        text = printed()
        assert message in text
        assert "other settings" not in text


def test_an_existing_dataset_is_not_changed_and_reported(clips: Path, tmp_path: Path, printed) -> None:
    words = ("mot", clips, "--identities", "polyp", "--out", tmp_path / "d")
    assert prepare_small(*words) == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "d").rglob("*")}
    printed()
    assert prepare_small(*words, "--crops.workers", 1) == 0
    text = printed()
    assert "videos 2 polyps 2" in text
    assert "d: already exists, made from the same boxes with the same settings" in text
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "d").rglob("*")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clips", "d"]


def test_a_dataset_that_was_made_otherwise_is_refused_with_what_differs(clips: Path, tmp_path: Path, printed) -> None:
    words = ("mot", clips, "--identities", "polyp", "--out", tmp_path / "d")
    assert prepare_small(*words) == 0
    for more, text in (
        (("--tracks.stride", 2), "tracks.stride: 4 -> 2 ->"),
        (("--share", 0.5), "source.share: None -> 0.5"),
        (("--skip-bad",), "skip_bad: False -> True ->"),
        (("--fps", 25), "made from other boxes"),
    ):
        printed()
        assert prepare_small(*words, *more) == 2
        text_printed = printed()
        assert "d: already exists, made " in text_printed
        assert text in text_printed
        assert "give another folder, or remove this one first" in text_printed
    rows = (clips / "a/gt/gt.txt").read_text().replace("20,20,10,10", "21,20,10,10", 1)
    (clips / "a/gt/gt.txt").write_text(rows)
    assert prepare_small(*words) == 2
    assert "made from other boxes, options or videos" in printed()


def test_left_out_rows_are_pointed_at(clips: Path, tmp_path: Path, printed) -> None:
    (clips / "a/img1/000005.jpg").write_bytes(b"")
    words = ("mot", clips, "--identities", "polyp", "--out", tmp_path / "d")
    assert prepare_small(*words) == 2
    assert "a/gt/gt.txt:5: a/img1/000005.jpg: image cannot be decoded" in printed()
    assert prepare_small(*words, "--skip-bad") == 0
    assert "d/rejected.csv" in printed()


def test_the_papers_counts_are_shown_with_a_combination_of_that_name(tmp_path: Path, clips: Path, printed) -> None:
    prepare_small("mot", clips, "--identities", "polyp", "--out", tmp_path / "d")
    info = json.loads((tmp_path / "d/dataset.json").read_text())
    info["source"] = {"format": "rsp", "path": "rspp", "split": None}
    (tmp_path / "d/dataset.json").write_text(json.dumps(info))
    printed()
    with pytest.raises(SystemExit):
        main(["check", str(tmp_path / "d")])
    assert "videos 2 161 polyps 2 189" in printed()


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "read-only")])
def test_a_disk_that_refuses_is_one_line(
    clips: Path, tmp_path: Path, printed, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr("polyptrace.data.crops.store.PartialStore.cut", refuse)
    assert prepare_small("mot", clips, "--identities", "polyp", "--out", tmp_path / "d") == 2
    assert words in printed()


def test_ctrl_c_prints_how_to_resume(clips: Path, tmp_path: Path, printed, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("polyptrace.data.crops.store.PartialStore.cut", interrupt)
    assert prepare_small("mot", clips, "--identities", "polyp", "--out", tmp_path / "d") == 130
    assert "interrupted -> run the same command again; it resumes" in printed()


def test_ctrl_c_stops_inside_a_long_video_and_the_same_command_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    films, out = tmp_path / "films", tmp_path / "d"
    write_film(films / "short/film.mp4", 1)
    write_film(films / "long/film.mp4", LONG, scale=10)  # many seconds to its boxes, which are at its end
    words = ["cvat", films, "--out", out, "--tracks.link", "track", "--crops.workers", 2]
    process = subprocess.Popen(
        [sys.executable, "-m", "polyptrace", "prepare", *map(str, words), "--crops.size", "16"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    while not any(np.fromfile(file, np.uint64).any() for file in (tmp_path / "d.partial").glob("*.done")):
        assert process.poll() is None  # until the short one is done
        time.sleep(0.01)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - began < 10
    assert process.returncode == 130
    assert "run the same command again" in errors.decode()
    write_film(films / "long/film.mp4", LONG)  # the same frames, decoded sooner
    read: list[str] = []

    def recorded(path: Path, *rest: Any) -> Any:
        read.append(path.parent.name)
        return read_frames(path, *rest)

    monkeypatch.setattr(pictures, "read_frames", recorded)
    assert prepare_small(*words) == 0
    assert read == ["long"]
    assert set(Dataset.open(out).tracklets.video) == {"short", "long"}
    assert Dataset.open(out).crops.any((1, 2, 3)).all()


def write_film(path: Path, times: int, scale: int = 1) -> None:
    """A video that repeats the same 200 frames, and the CVAT task of a track in the last 40."""
    av = pytest.importorskip("av")
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64 * scale, 48 * scale, "yuv420p"
        stream.options = {"bf": "0", "preset": "ultrafast", "crf": "40"}
        packets = []
        for index in range(200):
            picture = np.kron(np.roll(noise, index, 1), np.ones((scale, scale, 1), np.uint8))
            packets += stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24"))
        packets += stream.encode()
        step, base = packets[1].pts - packets[0].pts, packets[0].time_base
        encoded = [(bytes(packet), packet.is_keyframe) for packet in packets]
        for number in range(200 * times):
            content, key = encoded[number % 200]
            packet = av.Packet(content)
            packet.stream, packet.time_base, packet.is_keyframe = stream, base, key
            packet.pts = packet.dts = number * step
            container.mux(packet)
    box = '<box frame="{}" outside="0" xtl="20" ytl="20" xbr="30" ybr="30"/>'
    boxes = "".join(box.format(frame) for frame in range(200 * times - 40, 200 * times))
    task = f"<meta><task><source>{path.name}</source></task></meta><track id='1'>{boxes}</track>"
    path.with_name("annotations.xml").write_text(f"<annotations>{task}</annotations>")


def test_spaces_other_alphabets_and_links_in_paths_are_no_matter(clips: Path, tmp_path: Path) -> None:
    odd = tmp_path / "mes vidéos 日本"
    odd.mkdir()
    shutil.move(clips / "a", odd / "Prozedur ä 1")
    (tmp_path / "link").symlink_to(odd)
    assert prepare_small("mot", tmp_path / "link", "--identities", "polyp", "--out", tmp_path / "données ß") == 0
    assert (tmp_path / "données ß" / "crops.npy").exists()


def test_a_second_prepare_is_refused_while_the_first_runs_and_starts_after_it_was_killed(
    clips: Path, tmp_path: Path, printed, start_waiting: Callable[..., "subprocess.Popen[str]"]
) -> None:
    words = ["mot", clips, "--identities", "polyp", "--out", tmp_path / "d"]
    first = start_waiting("polyptrace.data.preparation._write_folder", "prepare", *words)
    assert prepare_small(*words) == 2
    assert f"in use by process {first.pid} on " in printed()
    first.kill()
    first.wait()
    assert prepare_small(*words) == 0
    assert not list(tmp_path.glob(".d.*"))


def test_the_default_encoder_is_suggested_from_its_own_input_size_on() -> None:
    assert load_encoder("default").preprocess.size == DEFAULT_ENCODER_SIZE
