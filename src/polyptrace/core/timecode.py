"""Frame numbers as times and times as frame numbers. Without a frame rate (NaN), times are frame numbers."""

import math

import numpy as np

from polyptrace.core.arrays import Floats
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError

#: Tick intervals of a time axis, in seconds.
TICK_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)


def has_rate(fps: float) -> bool:
    """Whether a frame rate is known."""
    return math.isfinite(fps) and fps > 0


def timecode(frame: float, fps: float) -> str:
    """A moment in a video.

    >>> timecode(1525, 25), timecode(93125, 25), timecode(12345, float("nan"))
    ('1:01', '1:02:05', 'frame 12,345')
    """
    if not has_rate(fps):
        return f"frame {frame:,.0f}"
    minutes, seconds = divmod(round(frame / fps), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def time_range(first: float, last: float, fps: float) -> str:
    """From one moment to another.

    >>> time_range(25, 75, 25), time_range(25, 75, float("nan"))
    ('0:01 to 0:03', 'frame 25 to 75')
    """
    return f"{timecode(first, fps)} to {timecode(last, fps).removeprefix('frame ')}"


def time_offset(frames: float, fps: float) -> str:
    """A signed distance between two frames.

    >>> time_offset(40, 25), time_offset(-5000, 25), time_offset(-40, float("nan"))
    ('+1.6 s', '−3 min 20 s', '−40 frames')
    """
    if not has_rate(fps):
        return ("−" if round(frames) < 0 else "+") + counted(abs(round(frames)), "frame")
    seconds = abs(frames) / fps
    sign = "−" if frames < 0 and round(seconds, 1) else "+"
    if seconds < 10:
        return f"{sign}{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{sign}{minutes} min {rest} s" if minutes else f"{sign}{rest} s"


def seconds_text(frame: int, fps: float) -> str:
    """The time of a frame in seconds for a CSV file, "" if it is unknown."""
    return f"{frame / fps:.2f}" if has_rate(fps) and frame >= 0 else ""


def parse_timecode(text: str) -> int:
    """Seconds of a time written as MM:SS or H:MM:SS.

    >>> parse_timecode("1:02:05")
    3725
    """
    parts = text.split(":")
    numeric = all(part.isascii() and part.isdigit() for part in parts)
    if not 2 <= len(parts) <= 3 or not numeric or any(int(part) >= 60 for part in parts[1:]):
        raise UserError(f"--at {text}: not a time -> write MM:SS or H:MM:SS")
    return sum(60**power * int(part) for power, part in enumerate(reversed(parts)))


def time_ticks(first: float, last: float, fps: float, count: int = 9) -> tuple[Floats, list[str]]:
    """Up to about `count` ticks for an axis of frames from first to last: their frames and labels."""
    span = max(last - first, 1.0)
    if has_rate(fps):
        step = next((s for s in TICK_SECONDS if span / fps / s <= count), TICK_SECONDS[-1]) * fps
    else:
        power = 10.0 ** math.floor(math.log10(span / count)) if span > count else 1.0
        step = next(m * power for m in (1, 2, 5, 10, 20) if span / (m * power) <= count)
    ticks = (np.arange(math.ceil(first / step), math.floor(last / step) + 1) * step).astype(np.float64)
    return ticks, [timecode(tick, fps).removeprefix("frame ") for tick in ticks]
