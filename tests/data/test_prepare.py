"""From boxes and real JPEG files to a dataset folder."""

import csv
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from polyptrace.config import Crops, Tracks
from polyptrace.core.arrays import Ints
from polyptrace.core.codec import decode_image
from polyptrace.core.errors import UserError
from polyptrace.data import Boxes, Dataset, prepare
from polyptrace.data.boxes import NO_FRAME, crop_regions
from polyptrace.data.crops.filling import fill_store
from polyptrace.data.crops.resize import cut_crop
from polyptrace.data.crops.store import SECONDS_BETWEEN_SYNCS, Failures, PartialStore
from polyptrace.data.crops.videos import write_video
from polyptrace.data.dataset import LabelFree

Source = Callable[..., tuple[Boxes, Path]]
SMALL = Crops(size=32)


def files_of(folder: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in folder.iterdir() if f.suffix != ".json"}


def test_a_dataset_holds_tracklets_whole_tracks_and_the_crops_of_both(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    dataset = prepare(boxes, root, tmp_path / "d", crops=SMALL)
    assert dataset.info["counts"] == {
        "boxes": 144, "rejected": 0, "short tracks": 0, "videos": 2, "tracks": 2, "tracklets": 4, "crops": 36,
    }  # fmt: skip
    assert dataset.info["labels"] == {"polyps": 2, "with size": 2, "with histology": 2}
    assert dataset.crops.shape == (36, 32, 32, 3)
    assert dataset.tracklets.length[dataset.select("track")].tolist() == [18, 18]
    assert not (tmp_path / "d.partial").exists()


def test_each_crop_is_the_crop_of_its_box(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    dataset = prepare(boxes, root, tmp_path / "d", crops=SMALL)
    table, row_of = dataset.boxes(), dataset.box_of_crop()
    for crop in (0, 17, 35):
        row = row_of[crop]
        picture = decode_image((root / table.file[row]).read_bytes())
        region = crop_regions(table.xywh[[row]], table.image_width[[row]], table.image_height[[row]])[0]
        np.testing.assert_array_equal(dataset.crops[crop], cut_crop(picture, region, 32).numpy())


def test_a_batch_is_padded_and_masked(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    dataset = prepare(boxes, root, tmp_path / "d", crops=SMALL)
    tracklet, track = dataset.select("tracklet")[0], dataset.select("track")[0]
    frames, mask = dataset.gather([tracklet, track])
    assert frames.shape == (2, 18, 32, 32, 3)
    assert frames.dtype == torch.uint8
    assert mask.sum(1).tolist() == [8, 18]
    np.testing.assert_array_equal(frames[0, :8].numpy(), dataset.crops[dataset.tracklets.rows[tracklet]])
    assert not frames[0, 8:].any()


def test_preparing_twice_gives_the_same_bytes_whatever_the_order_of_the_rows(
    make_source: Source, tmp_path: Path
) -> None:
    boxes, root = make_source()
    prepare(boxes, root, tmp_path / "a", crops=SMALL)
    prepare(
        boxes.take(np.random.default_rng(0).permutation(len(boxes))),
        root,
        tmp_path / "b",
        crops=replace(SMALL, workers=1),
    )
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def test_the_label_free_view_has_no_way_to_the_labels(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    view = prepare(boxes, root, tmp_path / "d", crops=SMALL).label_free()
    assert type(view) is LabelFree
    for name in ("polyp", "size_mm", "histology"):
        assert not hasattr(view.tracklets, name)
    assert "polyp" not in json.dumps(view.info["counts"])
    assert "labels" not in view.info


def test_scrambled_labels_change_no_crop_and_no_tracklet_when_linking_by_video(
    make_source: Source, tmp_path: Path
) -> None:
    boxes, root = make_source()
    scrambled = replace(boxes, polyp=np.random.default_rng(0).choice(["x", "y", ""], len(boxes)).astype(object))
    plain = prepare(boxes, root, tmp_path / "a", Tracks(link="video"), SMALL).label_free()
    mixed = prepare(scrambled, root, tmp_path / "b", Tracks(link="video"), SMALL).label_free()
    np.testing.assert_array_equal(plain.crops, mixed.crops)
    for name in ("video", "track", "position", "row_index", "offset"):
        np.testing.assert_array_equal(getattr(plain.tracklets, name), getattr(mixed.tracklets, name))


def test_settings_in_seconds_follow_the_frame_rate(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    dataset = prepare(boxes, root, tmp_path / "d", Tracks(stride_seconds=0.32, min_track_seconds=1.0), SMALL)
    assert dataset.tracklets.length[dataset.select("track")].tolist() == [9, 9]


def test_sampled_frames_are_cut_as_videos_are_unless_they_have_settings_of_their_own(
    make_source: Source, tmp_path: Path
) -> None:
    boxes, root = make_source()
    sampled = boxes.video == "v1"
    boxes = replace(
        boxes,
        dataset=np.where(sampled, "polypsset", "realcolon").astype(object),
        fps=np.where(sampled, np.nan, 25.0),
        xywh=boxes.xywh + sampled[:, None] * np.array([1.0, 0, 0, 0]) * (boxes.frame_index % 2 * 9)[:, None],
    )
    settings = Tracks(stride_seconds=0.16, min_track_seconds=1.2)
    dataset = prepare(boxes, root, tmp_path / "a", settings, SMALL)
    whole = dataset.select("track")
    assert dataset.tracklets.dataset[whole].tolist() == ["polypsset", "realcolon"]
    assert dataset.tracklets.length[whole].tolist() == [18, 18]
    assert len(np.unique(dataset.tracklets.track[whole])) == 2
    dense = prepare(boxes, root, tmp_path / "b", replace(settings, sampled_stride=1, sampled_min_track=8), SMALL)
    assert dense.tracklets.length[dense.select("track")].tolist() == [72, 18]
    strict = prepare(boxes, root, tmp_path / "c", replace(settings, sampled_iou=0.5), SMALL)
    assert strict.tracklets.dataset[strict.select("track")].tolist() == ["realcolon"]


def test_settings_in_seconds_without_a_frame_rate_are_refused(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    with pytest.raises(UserError, match="has no frame rate"):
        prepare(replace(boxes, fps=np.full(len(boxes), np.nan)), root, tmp_path / "d", Tracks(stride_seconds=0.2))


def test_an_existing_folder_is_never_overwritten(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    (tmp_path / "d").mkdir()
    with pytest.raises(UserError, match="already exists"):
        prepare(boxes, root, tmp_path / "d")


def test_an_unwritable_output_is_refused_before_anything_is_read(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file cannot be written to -> choose another folder"):
        prepare(boxes, root, tmp_path / "file" / "a" / "d")


def break_missing(path: Path) -> None:
    path.unlink()


def break_truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def break_empty(path: Path) -> None:
    path.write_bytes(b"")


def break_text(path: Path) -> None:
    path.write_bytes(b"not an image at all")


BREAKS = {
    break_missing: "image is missing",
    break_truncated: "image is truncated",
    break_empty: "image cannot be decoded",
    break_text: "image cannot be decoded",
}


@pytest.mark.parametrize(("break_it", "message"), BREAKS.items())
def test_a_bad_image_is_named_and_can_be_left_out(
    make_source: Source, tmp_path: Path, break_it: Callable[[Path], None], message: str
) -> None:
    boxes, root = make_source()
    boxes = replace(boxes, source=np.full(len(boxes), "boxes.txt", object), line=np.arange(len(boxes)) + 1)
    break_it(root / "v0_0008.jpg")
    with pytest.raises(UserError, match=rf"boxes\.txt:9: v0_0008\.jpg: {message}"):
        prepare(boxes, root, tmp_path / "d", crops=SMALL)
    assert not (tmp_path / "d").exists()
    dataset = prepare(boxes, root, tmp_path / "d", crops=SMALL, skip_bad=True)
    assert dataset.info["counts"]["rejected"] == 1
    rejected = list(csv.DictReader((tmp_path / "d/rejected.csv").open(encoding="utf-8")))
    assert [(r["where"], r["file"]) for r in rejected] == [("boxes.txt:9", "v0_0008.jpg")]
    first = dataset.tracklets.video == "v0"
    assert dataset.tracklets.position[first & (dataset.tracklets.unit == "track")].tolist() == [9]


def test_rows_without_a_whole_frame_are_left_out_counted_once_and_listed(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source(videos=1)
    frames, xywh = boxes.frame_index.copy(), boxes.xywh.copy()
    frames[60], frames[61] = NO_FRAME, -1
    xywh[61] = np.nan  # two things wrong with one row
    bad = replace(boxes, frame_index=frames, xywh=xywh, source=np.full(72, "gt.txt", object), line=np.arange(72) + 1)
    with pytest.raises(UserError, match=r"fatal: no frame: 1\n  gt\.txt:61: frame index is not a whole number"):
        prepare(bad, root, tmp_path / "d", crops=SMALL)
    dataset = prepare(bad, root, tmp_path / "d", crops=SMALL, skip_bad=True)
    assert (dataset.info["counts"]["boxes"], dataset.info["counts"]["rejected"]) == (70, 2)
    rejected = list(csv.DictReader((tmp_path / "d/rejected.csv").open(encoding="utf-8")))
    assert sorted((r["where"], r["kind"], r["frame_index"]) for r in rejected) == [
        ("gt.txt:61", "no frame", ""),
        ("gt.txt:62", "negative frame", "-1"),
        ("gt.txt:62", "not a number", "-1"),
    ]


def test_bad_rows_and_boxes_without_a_track_are_not_given_other_polyps(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    boxes = boxes.in_order()
    frame, score, xywh = boxes.frame_index.copy(), np.full(len(boxes), 0.9), boxes.xywh.copy()
    frame[40], xywh[41, 2] = NO_FRAME, 0.0
    score[0] = 0.1  # too weak to start a track
    boxes = replace(boxes, frame_index=frame, xywh=xywh, score=score)
    given: list[tuple[Boxes, Ints]] = []

    def relabel(table: Boxes, track: Ints) -> Boxes:
        given.append((table, track))
        return replace(table, polyp=np.array([f"p{number}" for number in track], object))

    settings = Tracks(link="video", start_score=0.5)
    dataset = prepare(boxes, root, tmp_path / "d", settings, SMALL, skip_bad=True, relabel=relabel)
    [(table, track)] = given
    assert len(table) == len(boxes) - 3
    assert (table.frame_index >= 0).all()
    assert (track >= 0).all()
    assert dataset.tracklets.polyp.tolist() == [f"p{number}" for number in dataset.tracklets.track]
    assert dataset.boxes().polyp[0] == ""


def test_after_a_bad_image_only_the_crops_of_its_track_are_cut_again(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source(videos=4)
    break_missing(root / "v1_0008.jpg")
    break_missing(root / "v1_0021.jpg")  # not wanted before the first is left out
    filled = []

    def fill(path: Path, some: Boxes, *rest: Any) -> Failures:
        filled.append(len(some))
        return fill_store(path, some, *rest)

    actual = prepare(boxes, root, tmp_path / "d", crops=SMALL, skip_bad=True, fill=fill)
    assert actual.info["counts"]["rejected"] == 2
    assert filled[0] == 72
    assert sum(filled[1:]) < 36
    assert sorted(file.name for file in (tmp_path / "d").iterdir()) == [
        "boxes.parquet", "crops.npy", "dataset.json", "rejected.csv", "tracklets.parquet",
    ]  # fmt: skip
    left = boxes.take(~np.isin(boxes.file, ["v1_0008.jpg", "v1_0021.jpg"]))
    at_once = prepare(left, root, tmp_path / "e", crops=SMALL)
    np.testing.assert_array_equal(actual.crops, at_once.crops)
    np.testing.assert_array_equal(actual.tracklets.row_index, at_once.tracklets.row_index)


def test_a_run_killed_after_a_bad_image_resumes_in_the_same_round(
    make_source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes, root = make_source()
    break_missing(root / "v1_0008.jpg")
    with monkeypatch.context() as patched:
        patched.setattr(PartialStore, "finish", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            prepare(boxes, root, tmp_path / "d", crops=SMALL, skip_bad=True)
    (kept,) = (tmp_path / "d.partial").glob("crops-1-*.done")
    assert np.fromfile(kept, np.uint64).all()
    actual = prepare(boxes, root, tmp_path / "d", crops=SMALL, skip_bad=True)
    left = boxes.take(boxes.file != "v1_0008.jpg")
    np.testing.assert_array_equal(actual.crops, prepare(left, root, tmp_path / "e", crops=SMALL).crops)


def test_a_full_disk_does_not_lose_the_crops_that_were_cut(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    advances: list[int] = []
    skipped: list[int] = []

    def fill(path: Path, some: Boxes, images: Path, crops: Crops, *_: object) -> Failures:
        fill_store(path, some, images, crops, advances.append, skipped.append)
        raise OSError(errno.ENOSPC, "No space left on device")

    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            prepare(boxes, root, tmp_path / "d", crops=SMALL, fill=fill)
    assert skipped == [0, len(advances)]  # the second time all were finished


def test_a_killed_run_leaves_nothing_after_its_bad_image_was_restored(
    make_source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes, root = make_source()
    picture = (root / "v1_0008.jpg").read_bytes()
    break_missing(root / "v1_0008.jpg")
    with monkeypatch.context() as patched:
        patched.setattr(PartialStore, "finish", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            prepare(boxes, root, tmp_path / "d", crops=SMALL, skip_bad=True)
    (tmp_path / "d.partial/crops-gathered.npy").write_bytes(b"half of it")
    (root / "v1_0008.jpg").write_bytes(picture)
    prepare(boxes, root, tmp_path / "d", crops=SMALL)
    prepare(boxes, root, tmp_path / "whole", crops=SMALL)
    assert files_of(tmp_path / "d") == files_of(tmp_path / "whole")


def raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_if_no_track_is_long_enough_the_error_says_what_to_change(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    with pytest.raises(UserError, match=r"the longest of 2 has 10 frames, and --tracks.min-track is 30"):
        prepare(boxes.take(boxes.frame_index < 10), root, tmp_path / "d", crops=SMALL)
    with pytest.raises(UserError, match="no box is left"):
        prepare(boxes.take([]), root, tmp_path / "d", crops=SMALL)
    assert not list(tmp_path.glob("d*"))


def test_a_dataset_records_that_its_images_are_generated(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    generated = replace(boxes, generated=boxes.video == "v1")
    assert prepare(generated, root, tmp_path / "a", crops=SMALL).generated
    assert not prepare(boxes, root, tmp_path / "b", crops=SMALL).generated


def test_dropped_tracks_are_counted(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    gap = boxes.take((boxes.video == "v0") | (boxes.frame_index != 20))
    assert prepare(gap, root, tmp_path / "d", crops=SMALL).info["counts"]["short tracks"] == 1
    scored = replace(gap, score=np.where(gap.video == "v0", 0.9, 0.3))
    counts = prepare(scored, root, tmp_path / "s", Tracks(min_score=0.5), SMALL).info["counts"]
    assert (counts["tracks"], counts["short tracks"], counts["weak tracks"]) == (1, 0, 2)
    assert "weak tracks" not in prepare(scored, root, tmp_path / "all", crops=SMALL).info["counts"]


@pytest.mark.parametrize(
    ("tracks", "options"),
    [
        (Tracks(start_score=0.9), "--tracks.start-score 0.9"),
        (Tracks(min_score=0.8), "--tracks.min-score 0.8"),
        (Tracks(start_score=0.4, min_score=0.8), "--tracks.start-score 0.4 and --tracks.min-score 0.8"),
    ],
)
def test_the_thresholds_that_leave_no_track_are_named(
    tracks: Tracks, options: str, make_source: Source, tmp_path: Path
) -> None:
    boxes, root = make_source()
    weak = replace(boxes, score=np.full(len(boxes), 0.5))
    with pytest.raises(UserError, match=f"no track is left with {options} ->"):
        prepare(weak, root, tmp_path / "d", tracks, SMALL)


@pytest.mark.parametrize(
    ("tracks", "crops", "message"),
    [
        (Tracks(stride=0), SMALL, "--tracks.stride 0: out of range -> give 1 or more"),
        (Tracks(length=0), SMALL, "--tracks.length 0"),
        (Tracks(max_gap=-1), SMALL, "--tracks.max-gap -1"),
        (Tracks(iou=7.0), SMALL, "--tracks.iou 7.0: out of range -> give a number from 0 to 1"),
        (Tracks(sampled_iou=float("nan")), SMALL, "--tracks.sampled-iou nan"),
        (Tracks(), Crops(size=-3), "--crops.size -3"),
        (Tracks(), Crops(scale=0.0), "--crops.scale 0.0: out of range -> give a number above 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    make_source: Source, tmp_path: Path, tracks: Tracks, crops: Crops, message: str
) -> None:
    boxes, root = make_source()
    with pytest.raises(UserError, match=message):
        prepare(boxes, root, tmp_path / "d", tracks, crops)


def test_an_image_of_another_size_than_stated_is_named(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    with pytest.raises(UserError, match="image is 96 x 72, its boxes say 200 x 72"):
        prepare(replace(boxes, image_width=np.full(len(boxes), 200)), root, tmp_path / "d", crops=SMALL)


def test_images_of_unknown_size_are_taken_as_they_are(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    unknown = replace(boxes, image_width=np.zeros(len(boxes), int), image_height=np.zeros(len(boxes), int))
    known = prepare(boxes, root, tmp_path / "a", crops=SMALL)
    np.testing.assert_array_equal(prepare(unknown, root, tmp_path / "b", crops=SMALL).crops, known.crops)


@pytest.mark.parametrize(("file", "message"), [("../secret.jpg", "leaves its folder"), ("", "a box names no image")])
def test_a_file_name_that_leaves_its_folder_or_is_empty_is_refused(
    file: str, message: str, make_source: Source, tmp_path: Path
) -> None:
    boxes, root = make_source()
    outside = replace(boxes, file=np.full(len(boxes), file, object))
    with pytest.raises(UserError, match=message):
        prepare(outside, root, tmp_path / "d", crops=SMALL)


SCRIPT = """
import sys
from pathlib import Path
from polyptrace.config import Crops
from polyptrace.data import Boxes, prepare
from polyptrace.data.crops import store
store.SECONDS_BETWEEN_SYNCS = 0
prepare(Boxes.load(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]), crops=Crops(size=32, workers=1))
"""


def test_a_killed_run_resumes_and_gives_the_same_bytes(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source(videos=12)
    boxes.save(tmp_path / "boxes.parquet")
    out = tmp_path / "d"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, tmp_path / "boxes.parquet", root, out])
    deadline = time.monotonic() + 60
    while not marks_of(tmp_path / "d.partial").any() and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not out.exists()
    assert marks_of(tmp_path / "d.partial").any()
    assert not marks_of(tmp_path / "d.partial").all()  # it was killed before the end
    dataset = prepare(boxes, root, out, crops=SMALL)
    prepare(boxes, root, tmp_path / "whole", crops=SMALL)
    assert files_of(dataset.path) == files_of(tmp_path / "whole")


def marks_of(folder: Path) -> NDArray[np.bool_]:
    """Which crops of an unfinished dataset are marked as finished."""
    return np.concatenate([[False], *(np.fromfile(file, np.uint64) != 0 for file in folder.glob("*.done"))])[1:]


VIDEO_SCRIPT = """
import sys, time
from pathlib import Path
from polyptrace.config import Crops, Tracks
from polyptrace.data import prepare
from polyptrace.data.crops import field, filling, videos
numbered, cut, sampled = videos._numbered, filling.cut_crop, field.sample_frames
log = open(sys.argv[3], "a", buffering=1)

def slow_frames(frames, first):
    for position, frame in numbered(frames, first):
        time.sleep(0.01)
        print("decoded", position.frame, file=log)
        yield position, frame

def counted_cut(*args):
    print("cut", file=log)
    return cut(*args)

def counted_search(*args):
    print("searched", file=log)
    videos._numbered = numbered  # what the search decodes is not counted
    yield from sampled(*args)
    videos._numbered = slow_frames

videos._numbered, filling.cut_crop, field.sample_frames = slow_frames, counted_cut, counted_search
prepare("mot", Path(sys.argv[1]), Path(sys.argv[2]), Tracks(link="video", stride=1), Crops(size=32))
"""


@pytest.mark.parametrize("boxes_from", [0, 460], ids=["boxes everywhere", "boxes at the end"])
def test_a_run_killed_inside_a_video_repeats_only_the_last_seconds(tmp_path: Path, boxes_from: int) -> None:
    source, out, frames = tmp_path / "videos", tmp_path / "d", 500
    source.mkdir()
    lines = [f"{frame},1,20,20,16,16,1\n" for frame in range(1 + boxes_from, frames + 1)]
    (source / "v.txt").write_text("".join(lines))
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    write_video(source / "v.mp4", (np.roll(noise, number, 1) for number in range(frames)))

    def start(log: Path) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-c", VIDEO_SCRIPT, source, out, log])

    def count(log: Path, what: str) -> int:
        return sum(line.startswith(what) for line in log.read_text().splitlines()) if log.exists() else 0

    first, second = tmp_path / "first.log", tmp_path / "second.log"
    process = start(first)
    while count(first, "decoded") < 350 and process.poll() is None:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert count(first, "decoded") < frames  # it was killed before the end
    assert start(second).wait() == 0
    decoded_twice = count(first, "decoded") + count(second, "decoded") - frames
    cut_twice = count(first, "cut") + count(second, "cut") - len(lines)
    assert 0 <= cut_twice <= decoded_twice
    assert decoded_twice * 0.01 < SECONDS_BETWEEN_SYNCS + 1
    assert (count(first, "searched"), count(second, "searched")) == (1, 0)  # for the endoscope's field
    prepare("mot", source, tmp_path / "whole", Tracks(link="video", stride=1), SMALL)
    assert files_of(out) == files_of(tmp_path / "whole")


def test_a_folder_that_is_no_dataset_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="polyptrace prepare"):
        Dataset.open(tmp_path)


def test_a_video_that_ends_early_is_kept_up_to_there(make_source: Source, tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    boxes, root = make_source(videos=2)
    for video in ("v0", "v1"):
        with av.open(str(root / f"{video}.mp4"), "w") as container:
            stream = container.add_stream("libx264", rate=25)
            stream.width, stream.height, stream.pix_fmt = 96, 72, "yuv420p"
            for name in boxes.file[boxes.video == video][: 40 if video == "v1" else 72]:
                picture = decode_image((root / name).read_bytes()).permute(1, 2, 0).contiguous().numpy()
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            container.mux(stream.encode())
    films = replace(boxes, file=np.array([f"{name}.mp4" for name in boxes.video], object))
    with pytest.warns(UserWarning, match=r"v1\.mp4: the stream ends early .* from frame 40 on"):
        dataset = prepare(films, root, tmp_path / "d", Tracks(max_gap=3), SMALL)
    assert dataset.info["counts"]["rejected"] == 32
    whole = dataset.select("track")
    assert dataset.tracklets.last[whole].tolist() == [68, 36]
    rejected = list(csv.DictReader((tmp_path / "d/rejected.csv").open(encoding="utf-8")))
    assert {int(row["frame_index"]) for row in rejected} == set(range(40, 72))


def test_a_replaced_image_is_noticed_in_a_finished_folder_and_cut_again_in_an_unfinished_one(
    make_source: Source, tmp_path: Path
) -> None:
    boxes, root = make_source()
    dataset = prepare(boxes, root, tmp_path / "d", crops=SMALL)
    rows, before = dataset.box_of_crop(), np.array(dataset.crops)
    assert prepare(boxes, root, tmp_path / "d", crops=SMALL).path == tmp_path / "d"
    store = PartialStore(tmp_path / "p", boxes.in_order(), root, SMALL, fill_store)
    assert not store.cut(rows)

    (root / boxes.file[rows[0]]).write_bytes((root / boxes.file[rows[-1]]).read_bytes())
    with pytest.raises(UserError, match="made from other images"):
        prepare(boxes, root, tmp_path / "d", crops=SMALL)
    resumed = PartialStore(tmp_path / "p", boxes.in_order(), root, SMALL, fill_store)
    assert not resumed.cut(rows)
    resumed.finish(rows)
    changed = (np.load(tmp_path / "p/crops.npy") != before).any((1, 2, 3))
    assert np.flatnonzero(changed).tolist() == [0]


def test_a_replaced_video_is_noticed(tmp_path: Path) -> None:
    video, out = tmp_path / "videos/v.mp4", tmp_path / "d"
    video.parent.mkdir()
    (video.parent / "v.txt").write_text("".join(f"{frame},1,20,20,16,16,1\n" for frame in range(1, 41)))
    write_video(video, np.full((40, 64, 64, 3), 80, np.uint8))
    before = prepare("mot", video.parent, out, Tracks(link="video"), SMALL).crops.mean()
    assert prepare("mot", video.parent, out, Tracks(link="video"), SMALL).crops.mean() == before
    write_video(video, np.full((40, 64, 64, 3), 160, np.uint8))
    with pytest.raises(UserError, match=r"made from other images below"):
        prepare("mot", video.parent, out, Tracks(link="video"), SMALL)
    shutil.rmtree(out)
    assert prepare("mot", video.parent, out, Tracks(link="video"), SMALL).crops.mean() > before + 50
