from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from polyptrace.encoders.foundation.foundation_encoder import clip_starts, cut_clips


@given(st.integers(1, 400), st.integers(1, 70))
def test_the_fewest_whole_clips_cover_every_frame_from_the_first_to_the_last(length: int, clip_length: int) -> None:
    starts = clip_starts(length, clip_length)
    taken = min(length, clip_length)
    assert len(starts) == -(-length // clip_length)
    assert {start + i for start in starts for i in range(taken)} == set(range(length))
    steps = [b - a for a, b in pairwise(starts)]
    assert not steps or (min(steps) > 0 and max(steps) - min(steps) <= 1)


def test_a_multiple_of_the_clip_is_cut_without_overlap() -> None:
    assert clip_starts(24, 8) == [0, 8, 16]
    assert clip_starts(20, 8) == [0, 6, 12]


@given(st.lists(st.lists(st.booleans(), min_size=9, max_size=9).filter(any), min_size=1, max_size=5))
def test_clips_hold_the_real_frames_of_their_tracklet_in_order(rows: list[list[bool]]) -> None:
    mask = torch.tensor(rows)
    seen: dict[int, set[int]] = {}
    for clips in cut_clips(mask, 4):
        for tracklet, number, frames in zip(*clips, strict=True):
            real = mask[tracklet].nonzero()[:, 0].tolist()
            start = clip_starts(len(real), 4)[int(number)]
            assert frames.tolist() == real[start : start + 4]
            seen.setdefault(int(tracklet), set()).update(frames.tolist())
    assert seen == {i: {j for j in range(9) if row[j]} for i, row in enumerate(rows)}
