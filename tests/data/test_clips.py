"""Artificial procedures of clips."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyptrace.core.errors import UserError
from polyptrace.data import Boxes, cut_tracklets, link_tracks
from polyptrace.data.boxes import NO_FRAME
from polyptrace.data.splits import GAP, join_clips


def clips(number: int, frames: int = 40, start: int = 100) -> Boxes:
    """Clips of one polyp each, with the same box in every frame."""
    video = np.repeat([f"clip{n}" for n in range(number)], frames)
    return Boxes.of(
        video=video,
        frame_index=np.tile(np.arange(start, start + frames), number),
        xywh=np.tile([10.0, 10.0, 50.0, 50.0], (number * frames, 1)),
        file=[f"{name}/img1/{n}.jpg" for n, name in enumerate(video)],
        track="1",
        polyp=[f"{name}/1" for name in video],
    )


@settings(deadline=None)
@given(number=st.integers(1, 30), size=st.integers(1, 6), seed=st.integers(0, 5))
def test_every_clip_is_in_one_procedure_of_limited_size(number: int, size: int, seed: int) -> None:
    joined = join_clips(clips(number, frames=3), size, seed)
    of_polyp = {
        polyp: set(joined.video[joined.polyp == polyp].tolist()) for polyp in sorted(set(joined.polyp.tolist()))
    }
    assert len(of_polyp) == number
    assert all(len(procedures) == 1 for procedures in of_polyp.values())
    sizes = [sum(name in procedures for procedures in of_polyp.values()) for name in set(joined.video.tolist())]
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1


def test_clips_follow_each_other_with_a_gap_and_keep_their_own_time() -> None:
    boxes = clips(8)
    joined = join_clips(boxes, 4, seed=3)
    for name in set(joined.video.tolist()):
        inside = joined.take(joined.video == name)
        spans = sorted(
            (int(inside.frame_index[inside.polyp == p].min()), int(inside.frame_index[inside.polyp == p].max()))
            for p in set(inside.polyp.tolist())
        )
        assert spans[0][0] == 0
        assert all(begin - end == GAP + 1 for (_, end), (begin, _) in pairwise(spans))
    for polyp in set(boxes.polyp.tolist()):
        shift = joined.frame_index[joined.polyp == polyp] - boxes.frame_index[boxes.polyp == polyp]
        assert len(set(shift.tolist())) == 1


def test_missing_frame_numbers_stay_missing_and_shift_no_other() -> None:
    boxes = clips(3, frames=4)
    frames = boxes.frame_index.copy()
    frames[[1, 6]] = -4, NO_FRAME
    frames[8:] = NO_FRAME  # nothing is left of the last clip
    joined = join_clips(replace(boxes, frame_index=frames), 3, seed=1)
    assert joined.frame_index[[1, 6]].tolist() == [-4, NO_FRAME]
    assert (joined.frame_index[8:] == NO_FRAME).all()
    for clip in (slice(0, 4), slice(4, 8)):
        there = frames[clip] >= 0
        assert len(set((joined.frame_index - frames)[clip][there].tolist())) == 1
    assert 0 <= joined.frame_index[joined.frame_index >= 0].max() < 3 * (4 + GAP)


def test_boxes_of_two_clips_are_never_linked() -> None:
    joined = join_clips(clips(6), 3).in_order()
    for within in ("video", "track", "polyp"):
        tracklets = cut_tracklets(joined, link_tracks(joined, within), length=None)
        assert all(len(set(joined.polyp[rows].tolist())) == 1 for rows in tracklets.rows)
        assert len(tracklets.rows) == 6


def test_joined_clips_say_that_they_are_artificial() -> None:
    boxes = clips(4)
    joined = join_clips(boxes, 4)
    assert set(joined.video.tolist()) == {"artificial-00"}
    assert set(joined.dataset.tolist()) == {"artificial"}
    assert set(joined.track.tolist()) == {f"clip{n}/1" for n in range(4)}
    assert joined.file.tolist() == boxes.file.tolist()


def test_another_seed_gives_another_order_and_the_same_seed_the_same() -> None:
    boxes = clips(12)
    assert join_clips(boxes, 4, 1).video.tolist() == join_clips(boxes, 4, 1).video.tolist()
    assert join_clips(boxes, 4, 1).video.tolist() != join_clips(boxes, 4, 2).video.tolist()


def test_clips_in_video_files_are_refused() -> None:
    boxes = Boxes.of(video=["a"], frame_index=[0], xywh=[[0, 0, 1, 1]], file=["a.mp4"])
    with pytest.raises(UserError, match="extract them to images"):
        join_clips(boxes, 4)
