"""Frame numbers as times."""

import math

import pytest

from polyptrace.core.errors import UserError
from polyptrace.core.timecode import parse_timecode, time_offset, time_range, time_ticks, timecode


@pytest.mark.parametrize(
    ("fps", "frame", "expected"),
    [(25, 0, "0:00"), (25, 25 * 61, "1:01"), (30, 30 * 3725, "1:02:05"), (math.nan, 12345, "frame 12,345")],
)
def test_a_moment_is_minutes_and_seconds_or_a_frame(fps: float, frame: int, expected: str) -> None:
    assert timecode(frame, fps) == expected


@pytest.mark.parametrize(
    ("fps", "frames", "expected"),
    [
        (25, 40, "+1.6 s"),
        (25, -500, "−20 s"),
        (25, 25 * 200, "+3 min 20 s"),
        (math.nan, -40, "−40 frames"),
        (math.nan, -0.4, "+0 frames"),
        (25, -0.4, "+0.0 s"),
    ],
)
def test_a_distance_has_its_sign(fps: float, frames: float, expected: str) -> None:
    assert time_offset(frames, fps) == expected


@pytest.mark.parametrize("fps", [25.0, math.nan])
@pytest.mark.parametrize("span", [0, 3, 40, 900, 45_000, 10_000_000])
def test_ticks_are_few_and_inside(fps: float, span: int) -> None:
    ticks, labels = time_ticks(100, 100 + span, fps, 9)
    assert len(ticks) == len(labels) <= (10 if math.isnan(fps) or span < 9_000_000 else 200)
    assert all(100 <= tick <= 100 + span for tick in ticks)
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(("text", "seconds"), [("0:59", 59), ("90:00", 5400), ("12:34", 754), ("1:02:05", 3725)])
def test_a_time_is_read_as_seconds(text: str, seconds: int) -> None:
    assert parse_timecode(text) == seconds


@pytest.mark.parametrize("text", ["soon", "12", "1:2:3:4", "1:99", "1:60:00", "1:-2", "", "1:٣"])
def test_what_is_not_a_time_is_an_error(text: str) -> None:
    with pytest.raises(UserError, match="MM:SS"):
        parse_timecode(text)


def test_a_range_names_the_frame_once_without_a_rate() -> None:
    assert time_range(25, 75, 25) == "0:01 to 0:03"
    assert time_range(25, 75, math.nan) == "frame 25 to 75"
