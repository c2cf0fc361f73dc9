"""Times that people read."""

import math

import pytest

from polyptrace.core.timecode import time_offset, time_ticks, timecode


@pytest.mark.parametrize(
    ("fps", "frame", "said"),
    [(25, 0, "0:00"), (25, 25 * 61, "1:01"), (30, 30 * 3725, "1:02:05"), (math.nan, 12345, "frame 12,345")],
)
def test_a_moment_is_minutes_and_seconds_or_a_frame(fps: float, frame: int, said: str) -> None:
    assert timecode(frame, fps) == said


@pytest.mark.parametrize(
    ("fps", "frames", "said"),
    [(25, 40, "+1.6 s"), (25, -500, "−20 s"), (25, 25 * 200, "+3 min 20 s"), (math.nan, -40, "−40 frames")],
)
def test_a_distance_has_its_sign(fps: float, frames: int, said: str) -> None:
    assert time_offset(frames, fps) == said


@pytest.mark.parametrize("fps", [25.0, math.nan])
@pytest.mark.parametrize("span", [0, 3, 40, 900, 45_000, 10_000_000])
def test_ticks_are_few_and_inside(fps: float, span: int) -> None:
    places, texts = time_ticks(100, 100 + span, fps, 9)
    assert len(places) == len(texts) <= (10 if math.isnan(fps) or span < 9_000_000 else 200)
    assert all(100 <= place <= 100 + span for place in places)
    assert len(set(texts)) == len(texts)
