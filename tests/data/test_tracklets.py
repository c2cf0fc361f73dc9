"""Cutting tracks into tracklets."""

from pathlib import Path

import numpy as np
import pytest

from polyptrace.data import Boxes, cut_tracklets, link_tracks, read_coco
from polyptrace.data.tracklets import pad_rows


def run(frames: list[int], polyp: object = "p", video: object = "v") -> tuple[Boxes, np.ndarray]:
    boxes = Boxes.of(video=video, frame_index=frames, xywh=np.tile([0.0, 0, 10, 10], (len(frames), 1)), polyp=polyp)
    return boxes, np.zeros(len(frames), np.int64)


def test_every_fourth_frame_is_kept_and_runs_of_eight_follow_each_other() -> None:
    boxes, track = run(list(range(5, 105)))
    tracklets = cut_tracklets(boxes, track)
    frames = [boxes.frame_index[rows].tolist() for rows in tracklets.rows]
    assert frames == [[5 + 32 * k + 4 * i for i in range(8)] for k in range(3)]
    assert tracklets.position.tolist() == [5, 37, 69]
    assert tracklets.last.tolist() == [33, 65, 97]


@pytest.mark.parametrize(("frames", "kept"), [(29, 0), (30, 1)])
def test_a_track_shorter_than_thirty_frames_is_dropped(frames: int, kept: int) -> None:
    boxes, track = run(list(range(frames)))
    assert len(cut_tracklets(boxes, track, length=None)) == kept


def test_an_incomplete_last_run_is_dropped_but_a_whole_track_keeps_it() -> None:
    boxes, track = run(list(range(60)))
    assert [len(rows) for rows in cut_tracklets(boxes, track).rows] == [8]
    assert [len(rows) for rows in cut_tracklets(boxes, track, length=None).rows] == [15]


def test_frames_that_a_detector_missed_are_replaced_by_the_next_of_their_stride() -> None:
    frames = [f for f in range(40) if f not in (4, 5, 8, 9, 10, 11)]
    boxes, track = run(frames)
    assert boxes.frame_index[cut_tracklets(boxes, track, length=None).rows[0]].tolist() == [
        0, 6, 12, 16, 20, 24, 28, 32, 36,
    ]  # fmt: skip


def test_stride_and_shortest_track_may_differ_from_box_to_box() -> None:
    boxes, _ = run([*range(40), *range(40)], video=np.repeat(["v", "w"], 40).astype(object))
    track = np.repeat([0, 1], 40)
    stride = np.repeat([4, 8], 40)
    lengths = [len(rows) for rows in cut_tracklets(boxes, track, None, stride, 30).rows]
    assert lengths == [10, 5]
    assert len(cut_tracklets(boxes, track, None, 4, np.repeat([30, 41], 40))) == 1


def test_the_polyp_of_a_tracklet_is_that_of_most_of_its_boxes() -> None:
    names = np.array(["a"] * 10 + ["b"] * 22, object)
    boxes, track = run(list(range(32)), polyp=names)
    assert cut_tracklets(boxes, track).polyp.tolist() == ["b"]


def test_tracklets_come_by_video_and_time_whatever_the_polyps_are_called() -> None:
    video = np.repeat(["w", "v", "v"], 32).astype(object)
    frames = [*range(32), *range(100, 132), *range(32)]
    for polyp in (["a", "b", "c"], ["c", "b", "a"]):
        boxes, _ = run(frames, polyp=np.repeat(polyp, 32).astype(object), video=video)
        tracklets = cut_tracklets(boxes, link_tracks(boxes))
        assert list(zip(tracklets.video, tracklets.position.tolist(), strict=True)) == [("v", 0), ("v", 100), ("w", 0)]


def test_no_track_gives_no_tracklet() -> None:
    boxes, track = run([])
    assert len(cut_tracklets(boxes, track)) == 0
    assert cut_tracklets(boxes, track, None).rows == []


@pytest.mark.parametrize(("name", "length"), [("L8", 8), ("Lall", None)])
def test_the_tracklets_are_those_of_the_authors(shared: Path, name: str, length: int | None) -> None:
    boxes = read_coco(shared / "oracles/a_annotations_0.json")
    oracle = np.load(shared / "oracles/a_tracklets_0.npz")
    expected = {
        (
            str(oracle[f"{name}_identities"][polyp]),
            tuple(oracle["instance_frame_id"][rows].tolist()),
            tuple(oracle["instance_bbox"][rows].ravel().tolist()),
        )
        for rows, polyp in zip(
            np.split(oracle[f"{name}_flat"], oracle[f"{name}_off"][1:-1]), oracle[f"{name}_y"], strict=True
        )
    }
    tracklets = cut_tracklets(boxes, link_tracks(boxes), length)
    actual = {
        (polyp, tuple(boxes.frame_index[rows].tolist()), tuple(boxes.xywh[rows].ravel().tolist()))
        for rows, polyp in zip(tracklets.rows, tracklets.polyp, strict=True)
    }
    assert actual == expected
    assert len(tracklets) == len(oracle[f"{name}_y"])


def test_shorter_tracklets_are_padded_with_minus_one() -> None:
    assert pad_rows([np.array([3, 4]), np.array([7])]).tolist() == [[3, 4], [7, -1]]
    assert pad_rows([]).shape == (0, 0)
