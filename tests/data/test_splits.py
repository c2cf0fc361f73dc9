"""Splits by group, and selections of videos."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.data import Boxes
from polyptrace.data.splits import Selection, split_by


def clips(number: int, frames: int = 3) -> Boxes:
    """Clips of one box per frame."""
    return Boxes.of(
        video=np.repeat([f"clip{n}" for n in range(number)], frames),
        frame_index=np.tile(np.arange(frames), number),
        xywh=np.tile([10.0, 10.0, 50.0, 50.0], (number * frames, 1)),
    )


def test_no_group_is_on_both_sides() -> None:
    group = np.random.default_rng(0).integers(0, 40, 500)
    test = split_by(group, seed=3)
    assert not set(group[test]) & set(group[~test])


def test_the_share_is_kept_in_every_stratum() -> None:
    group = np.arange(100)
    label = np.repeat([0, 1], [70, 30])
    test = split_by(group, strata=[label], test_share=0.3, seed=1)
    assert [int(test[label == value].sum()) for value in (0, 1)] == [21, 9]


@pytest.mark.parametrize("seed", range(5))
def test_small_strata_together_still_give_the_share(seed: int) -> None:
    group = np.arange(20)
    assert split_by(group, strata=[group % 10], test_share=0.3, seed=seed).sum() == 6


def test_the_seed_determines_the_split() -> None:
    group = np.arange(50)
    np.testing.assert_array_equal(split_by(group, seed=5), split_by(group, seed=5))
    assert (split_by(group, seed=5) != split_by(group, seed=6)).any()


@settings(deadline=None)
@given(share=st.floats(0.1, 0.9), seed=st.integers(0, 100))
def test_a_share_of_the_videos_and_its_rest_have_no_video_in_common_and_all_together(share: float, seed: int) -> None:
    boxes = clips(10, frames=2)
    part, rest = (Selection(share=share, seed=seed, rest=other).apply(boxes) for other in (False, True))
    assert not set(part.video.tolist()) & set(rest.video.tolist())
    assert set(part.video.tolist()) | set(rest.video.tolist()) == set(boxes.video.tolist())
    assert abs(len(set(part.video.tolist())) - 10 * share) <= 0.5 + 1e-9


def test_named_videos_are_selected_and_an_unknown_one_is_an_error() -> None:
    boxes = clips(4)
    assert set(Selection(videos=("clip1", "clip3")).apply(boxes).video.tolist()) == {"clip1", "clip3"}
    assert set(Selection(videos=("clip1", "clip3"), rest=True).apply(boxes).video.tolist()) == {"clip0", "clip2"}
    with pytest.raises(UserError, match="there is no clip9"):
        Selection(videos=("clip9",)).apply(boxes)


def test_named_videos_and_a_share_of_all_are_an_error() -> None:
    with pytest.raises(UserError, match=r"--share 0\.5: --videos names the videos already -> give one"):
        Selection(videos=("clip1",), share=0.5).apply(clips(4))


def test_the_rest_of_nothing_is_an_error() -> None:
    with pytest.raises(UserError, match=r"--rest: .* neither is given"):
        Selection(rest=True).apply(clips(2))


def test_a_selection_filters_scores_completes_frame_rates_and_joins_clips() -> None:
    boxes = clips(4)
    score = np.tile([0.2, 0.8, np.nan], 4)
    fps = np.repeat([25.0, np.nan], 6)
    selected = Selection(min_score=0.5, fps=30.0, videos=("clip0", "clip3"), join_clips=2).apply(
        replace(boxes, score=score, fps=fps)
    )
    assert selected.frame_index.min() == 0
    assert len(selected) == 4
    assert sorted(set(selected.fps.tolist())) == [25.0, 30.0]
    assert set(selected.video.tolist()) == {"artificial-00"}


def test_a_frame_rate_that_is_not_used_is_reported() -> None:
    boxes = replace(clips(2), fps=np.repeat([25.0, np.nan], 3))
    with pytest.warns(PolyptraceWarning, match=r"--fps 30: not used for .* such as clip0 \(25\)"):
        selected = Selection(fps=30.0).apply(boxes)
    assert selected.fps.tolist() == [25.0] * 3 + [30.0] * 3
    for rate in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(UserError, match="not a frame rate"):
            Selection(fps=rate).apply(boxes)


def test_a_minimum_score_that_no_box_has_or_reaches_is_reported() -> None:
    with pytest.warns(PolyptraceWarning, match="no box has a score"):
        assert len(Selection(min_score=0.5).apply(clips(1))) == 3
    scored = replace(clips(1), score=np.full(3, 0.25))
    with pytest.raises(UserError, match=r"no box is left -> the highest score is 0\.25"):
        Selection(min_score=0.5).apply(scored)


def test_nothing_of_an_empty_table_is_selected() -> None:
    empty = clips(2).take([])
    assert len(Selection(min_score=0.5).apply(empty)) == 0
    assert len(Selection(join_clips=4).apply(empty)) == 0


def test_a_selection_records_only_what_was_selected() -> None:
    assert Selection(fps=30.0, seed=3).as_dict() == {}
    assert Selection(share=0.5, rest=True).as_dict() == {"videos": None, "share": 0.5, "rest": True, "seed": 0}
    assert Selection(join_clips=4).as_dict() == {"artificial": "up to 4 clips in a row", "seed": 0}
