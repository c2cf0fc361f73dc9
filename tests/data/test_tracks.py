"""Linking boxes to tracks."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyptrace.core.arrays import Ints
from polyptrace.core.errors import UserError
from polyptrace.data import Boxes, link_tracks, read_coco
from polyptrace.data.boxes import NO_FRAME
from polyptrace.data.tracks import box_iou, track_scores


def boxes_at(frames: list[int], x: list[float], **columns: object) -> Boxes:
    xywh = [(left, 10.0, 10.0, 10.0) for left in x]
    return Boxes.of(frame_index=frames, xywh=xywh, **({"video": "v", "polyp": "p"} | columns))


def partition(track: Ints) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(track == t).tolist()) for t in np.unique(track)}


def plain_link(boxes: Boxes, within: str, iou: float, max_gap: int) -> set[frozenset[int]]:
    """Neighbouring frames first, then ever larger gaps, best overlap first: a slow reading of the definition."""
    group = boxes.polyp if within == "polyp" else np.full(len(boxes), "")
    index = list(zip(boxes.video, group, boxes.frame_index.tolist(), strict=True))
    following: dict[int, int] = {}
    for distance in range(1, max_gap + 2):
        pairs = [
            (float(box_iou(boxes.xywh[[a]], boxes.xywh[[b]])[0]), a, b)
            for a in range(len(boxes))
            for b in range(len(boxes))
            if index[a][:2] == index[b][:2] and index[b][2] - index[a][2] == distance
        ]
        for overlap, a, b in sorted(pairs, key=lambda p: -p[0]):
            if overlap >= iou and a not in following and b not in following.values():
                following[a] = b
    tracks = set()
    for first in set(range(len(boxes))) - set(following.values()):
        members = [first]
        while members[-1] in following:
            members.append(following[members[-1]])
        tracks.add(frozenset(members))
    return tracks


@st.composite
def random_boxes(draw: st.DrawFn) -> Boxes:
    n = draw(st.integers(0, 40))
    number = st.floats(0, 40, allow_nan=False)
    rows = draw(
        st.lists(
            st.tuples(st.sampled_from("vw"), st.integers(0, 8), number, number, st.sampled_from("abc")),
            min_size=n,
            max_size=n,
        )
    )
    xywh = [(x, y, 12.0 + i * 0.01, 12.0) for i, (_, _, x, y, _) in enumerate(rows)]
    columns = {"video": [r[0] for r in rows], "frame_index": [r[1] for r in rows], "polyp": [r[4] for r in rows]}
    return Boxes.of(xywh=xywh, **columns)


def test_iou_of_half_overlapping_boxes_is_a_third() -> None:
    a, b = np.array([[0.0, 0, 10, 10]]), np.array([[5.0, 0, 10, 10]])
    assert box_iou(a, b)[0] == pytest.approx(1 / 3)


def test_a_missing_frame_ends_a_track() -> None:
    assert link_tracks(boxes_at([0, 1, 3, 4], [0, 0, 0, 0])).tolist() == [0, 0, 1, 1]


def test_max_gap_bridges_missing_frames_and_no_more() -> None:
    boxes = boxes_at([0, 1, 4, 9], [0, 0, 0, 0])
    assert link_tracks(boxes, max_gap=2).tolist() == [0, 0, 0, 1]
    assert link_tracks(boxes, max_gap=1).tolist() == [0, 0, 1, 2]


def test_the_first_frame_of_videos_may_have_a_number_of_18_digits() -> None:
    frame, videos = np.arange(3), [f"v{number:02d}" for number in range(100)]
    tables = [boxes_at(list(10**17 + frame), [0, 0, 0], video=video) for video in videos]
    assert link_tracks(Boxes.concatenate(tables), "video").tolist() == [number for number in range(100) for _ in frame]


def test_a_jump_ends_a_track() -> None:
    assert link_tracks(boxes_at([0, 1, 2], [0, 1, 50])).tolist() == [0, 0, 1]


def test_an_overlap_of_exactly_the_threshold_links() -> None:
    boxes = boxes_at([0, 1], [0, 5])
    assert link_tracks(boxes, iou=1 / 3).tolist() == [0, 0]
    assert link_tracks(boxes, iou=np.nextafter(1 / 3, 1)).tolist() == [0, 1]


def test_two_polyps_that_pass_each_other_neither_swap_nor_merge(two_crossing: Boxes) -> None:
    by_identity = partition(link_tracks(two_crossing, "polyp"))
    assert partition(link_tracks(two_crossing, "video")) == by_identity
    assert partition(link_tracks(two_crossing, "track")) == by_identity
    assert len(by_identity) == 2


def test_two_boxes_of_one_frame_are_never_in_one_track() -> None:
    boxes = Boxes.of(video="v", frame_index=[0, 1, 1], xywh=[[0, 0, 10, 10], [1, 0, 10, 10], [2, 0, 10, 10]])
    assert link_tracks(boxes, "video").tolist() == [0, 0, 1]


def test_linking_by_polyp_without_polyps_says_how_to_link() -> None:
    with pytest.raises(UserError, match=r"has no polyp id .* --tracks.link video"):
        link_tracks(boxes_at([0], [0], polyp=""), "polyp")


def test_an_empty_table_has_no_tracks() -> None:
    assert link_tracks(Boxes.of(video=[], frame_index=[], xywh=[])).shape == (0,)


@pytest.mark.parametrize("frame", [-1, NO_FRAME])
def test_a_box_with_an_invalid_frame_is_in_no_track_and_changes_no_other(frame: int) -> None:
    boxes = boxes_at([0, 1, 2, 3, frame, 0, 1], [0.0] * 7)
    boxes = replace(boxes, video=np.array(list("aaaabbb"), object))
    assert link_tracks(boxes, "video").tolist() == [0, 0, 0, 0, -1, 1, 1]
    swapped = replace(boxes, video=np.array(list("bbbbaaa"), object))
    assert link_tracks(swapped, "video").tolist() == [1, 1, 1, 1, -1, 0, 0]


def test_the_tracks_are_those_of_the_authors(shared: Path) -> None:
    boxes = read_coco(shared / "oracles/a_annotations_0.json")
    oracle = np.load(shared / "oracles/a_tracklets_0.npz")
    frame, box = oracle["instance_frame_id"], oracle["instance_bbox"]
    parts = np.split(oracle["tracklets_flat"], oracle["tracklets_off"][1:-1])
    expected = {frozenset(zip(frame[p].tolist(), map(tuple, box[p].tolist()), strict=True)) for p in parts}
    actual = {
        frozenset((int(boxes.frame_index[row]), tuple(boxes.xywh[row].tolist())) for row in rows)
        for rows in partition(link_tracks(boxes))
    }
    assert actual == expected


@settings(max_examples=60, deadline=None)
@given(random_boxes(), st.sampled_from(["polyp", "video"]), st.sampled_from([0.1, 0.5]), st.integers(0, 3))
def test_linking_equals_a_slow_implementation_of_its_definition(
    boxes: Boxes, within: str, iou: float, max_gap: int
) -> None:
    assert partition(link_tracks(boxes, within, iou, max_gap)) == plain_link(boxes, within, iou, max_gap)


@settings(max_examples=60, deadline=None)
@given(random_boxes(), st.sampled_from(["polyp", "video"]), st.sampled_from([0.1, 0.5]), st.integers(0, 1))
def test_boxes_in_order_that_share_no_frame_are_linked_alike(
    boxes: Boxes, within: str, iou: float, max_gap: int
) -> None:
    first = {index: row for row, index in reversed(list(enumerate(zip(boxes.video, boxes.frame_index, strict=True))))}
    alone = boxes.take(np.array(sorted(first.values()), int)).in_order()
    track = link_tracks(alone, within, iou, max_gap)
    assert partition(track) == plain_link(alone, within, iou, max_gap)
    assert list(dict.fromkeys(track.tolist())) == list(range(len(set(track.tolist()))))


@settings(max_examples=60, deadline=None)
@given(random_boxes(), st.sampled_from(["polyp", "video"]))
def test_tracks_are_numbered_by_their_first_box(boxes: Boxes, within: str) -> None:
    actual = dict.fromkeys(link_tracks(boxes, within)[boxes.order()].tolist())
    assert list(actual) == list(range(len(actual)))


@settings(max_examples=60, deadline=None)
@given(random_boxes(), st.integers(0, 3), st.randoms(use_true_random=False))
def test_tracks_satisfy_their_definition_for_any_boxes(boxes: Boxes, max_gap: int, random: Random) -> None:
    track = link_tracks(boxes, "video", max_gap=max_gap)
    assert len(track) == len(boxes)
    for t in np.unique(track):
        rows = np.flatnonzero(track == t)
        rows = rows[np.argsort(boxes.frame_index[rows])]
        assert len(set(boxes.video[rows])) == 1
        step = np.diff(boxes.frame_index[rows])
        assert ((step >= 1) & (step <= 1 + max_gap)).all()
        assert (box_iou(boxes.xywh[rows[:-1]], boxes.xywh[rows[1:]]) >= 0.1).all()
    shuffle = list(range(len(boxes)))
    random.shuffle(shuffle)
    np.testing.assert_array_equal(
        link_tracks(boxes.take(np.array(shuffle, int)), "video", max_gap=max_gap), track[shuffle]
    )


def test_a_weak_box_continues_a_track_but_never_starts_one() -> None:
    frames, x = [0, 1, 2, 3, 4, 5, 5], [0.0, 0, 0, 0, 0, 0, 100]
    boxes = boxes_at(frames, x, score=[0.2, 0.3, 0.9, 0.2, 0.2, 0.8, 0.4])
    assert link_tracks(boxes, "video", start_score=0.5).tolist() == [-1, -1, 0, 0, 0, 0, -1]
    assert link_tracks(boxes, "video").tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert link_tracks(boxes_at(frames, x), "video", start_score=0.5).tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert (link_tracks(boxes, "video", start_score=1.0) == -1).all()


def test_tracks_with_a_low_mean_score_are_dropped_and_the_others_numbered_without_gaps() -> None:
    """Three tracks with mean scores of 0.3, 0.6 and 0.5."""
    frames, x = [0, 0, 0, 1, 1, 1], [0.0, 100, 200, 0, 100, 200]
    boxes = boxes_at(frames, x, score=[0.5, 0.9, 0.5, 0.1, 0.3, 0.5])
    assert link_tracks(boxes, "video", min_score=0.25).tolist() == [0, 1, 2, 0, 1, 2]
    assert link_tracks(boxes, "video", min_score=0.4).tolist() == [-1, 0, 1, -1, 0, 1]
    assert link_tracks(boxes, "video", min_score=0.5).tolist() == [-1, 0, 1, -1, 0, 1]
    assert (link_tracks(boxes, "video", min_score=0.7) == -1).all()
    assert link_tracks(boxes_at(frames, x), "video", min_score=0.7).tolist() == [0, 1, 2, 0, 1, 2]  # no scores


def test_the_score_of_a_track_is_the_mean_of_the_scores_that_are_known() -> None:
    boxes = boxes_at([0, 1, 2, 0, 0], [0.0, 0, 0, 100, 200], score=[0.2, np.nan, 0.6, np.nan, 0.9])
    np.testing.assert_allclose(track_scores(boxes, np.array([0, 0, 0, 1, -1])), [0.4, np.nan])


def test_a_strong_box_is_preferred_to_a_weak_one_that_overlaps_more() -> None:
    boxes = boxes_at([0, 1, 1], [0.0, 0.0, 3.0], score=[0.9, 0.2, 0.8])
    assert link_tracks(boxes, "video").tolist() == [0, 0, 1]
    assert link_tracks(boxes, "video", start_score=0.5).tolist() == [0, -1, 0]


def test_a_weak_box_before_a_track_does_not_take_its_continuation() -> None:
    """The weak box of frame 1 overlaps the box of frame 2 more than the track that it belongs to, from frame 0."""
    boxes = boxes_at([0, 1, 2], [0.0, 8.0, 5.0], score=[0.9, 0.2, 0.9])
    assert link_tracks(boxes, "video", iou=0.2, max_gap=1).tolist() == [0, 1, 1]
    assert link_tracks(boxes, "video", iou=0.2, max_gap=1, start_score=0.5).tolist() == [0, -1, 0]


def test_a_margin_bridges_a_jump_of_the_camera_that_grows_with_the_gap() -> None:
    boxes = boxes_at([0, 1, 3], [0.0, 14.0, 40.0])
    assert link_tracks(boxes, "video", max_gap=1).tolist() == [0, 1, 2]
    assert link_tracks(boxes, "video", max_gap=1, margin=0.5).tolist() == [0, 0, 1]
    assert link_tracks(boxes, "video", max_gap=1, margin=1.0).tolist() == [0, 0, 0]


@given(st.lists(st.tuples(st.integers(0, 12), st.floats(0, 60), st.floats(0, 1)), max_size=40), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_tracks_of_two_thresholds_start_with_a_strong_box(rows: list[tuple[int, float, float]], max_gap: int) -> None:
    boxes = boxes_at([r[0] for r in rows], [r[1] for r in rows], score=[r[2] for r in rows])
    track = link_tracks(boxes, "video", max_gap=max_gap, start_score=0.6)
    for number in np.unique(track[track >= 0]):
        mine = np.flatnonzero(track == number)
        assert boxes.score[mine[np.argmin(boxes.frame_index[mine])]] >= 0.6
        assert len(set(boxes.frame_index[mine])) == len(mine)
    assert (track[boxes.score >= 0.6] >= 0).all()
