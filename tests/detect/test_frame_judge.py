"""Frames that are black, frozen, or outside the body."""

from pathlib import Path

import numpy as np

from polyptrace.data.crops.videos import write_video
from polyptrace.detect import detect
from polyptrace.detect.frame_judge import FrameJudge
from tests.detect.conftest import Frozen, frames_in, numbered


def test_a_frame_is_frozen_after_ten_repetitions() -> None:
    judge = FrameJudge()
    reasons = [judge(numbered(max(index, 5)))[0] for index in range(20)]  # 5 is shown six times, then once each
    assert not any(reasons)
    reasons = [judge(numbered(30))[0] for _ in range(15)]
    assert reasons == [*10 * [""], *5 * ["frozen"]]
    assert judge(numbered(31)) == ("", True)


def test_only_the_field_of_the_endoscope_is_judged() -> None:
    frame, field = numbered(0), np.zeros_like(numbered(0))
    field[:, :70] = 255
    frame[:, :70] = 0
    assert FrameJudge()(frame)[0] == ""
    assert FrameJudge(field)(frame) == ("black", False)


def test_black_frames_and_those_outside_the_body_are_skipped_and_listed(tmp_path: Path) -> None:
    def picture(index: int) -> np.ndarray:
        shown = numbered(index)
        if index < 20 or index >= 140:  # a room: grey
            return shown.mean(2, keepdims=True).repeat(3, 2).astype(np.uint8)
        return np.zeros_like(shown) if 60 <= index < 65 else shown

    def dark_at_the_end(index: int) -> np.ndarray:
        return picture(index) if index < 150 else np.zeros_like(picture(index))

    video = tmp_path / "v.mp4"
    write_video(video, map(picture, range(160)))
    made = detect(video, Frozen(), tmp_path / "out")
    assert made.skipped == [[0, 19, "outside the body"], [60, 64, "black"], [140, 159, "outside the body"]]
    assert made.skipped_frames == {"outside the body": 40, "black": 5}
    assert [number - 1 for number in frames_in(made.path)] == [*range(20, 60), *range(65, 140)]
    assert made.boxes == 115
    write_video(tmp_path / "dark.mp4", map(dark_at_the_end, range(160)))
    dark = detect(tmp_path / "dark.mp4", Frozen(), tmp_path / "out")
    assert dark.skipped_frames == {"outside the body": 30, "black": 15}


def test_a_video_without_any_red_is_not_taken_for_the_outside(tmp_path: Path) -> None:
    video = tmp_path / "narrow-band.mp4"
    write_video(video, (numbered(index)[..., ::-1].copy() for index in range(40)))
    assert detect(video, Frozen(), tmp_path / "out").boxes == 40
