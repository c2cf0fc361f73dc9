"""Frames as times that people read: minutes and seconds where the frame rate is known, else frames."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.console import counted

#: Steps between ticks that a clock has, in seconds.
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)


@dataclass(frozen=True)
class Clock:
    """The time of a video; `fps` NaN: not known, and times are frames."""

    fps: float

    @property
    def known(self) -> bool:
        return math.isfinite(self.fps) and self.fps > 0

    def at(self, frame: float) -> str:
        """A moment: 12:34, or frame 12,345."""
        if not self.known:
            return f"frame {frame:,.0f}"
        seconds = round(frame / self.fps)
        hours, rest = divmod(seconds, 3600)
        return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"

    def apart(self, frames: float) -> str:
        """A distance with its sign: +12 s, −3 min 20 s, +450 frames."""
        sign = "−" if frames < 0 else "+"
        if not self.known:
            return sign + counted(round(abs(frames)), "frame")
        seconds = abs(frames) / self.fps
        if seconds < 10:
            return f"{sign}{seconds:.1f} s"
        minutes, rest = divmod(round(seconds), 60)
        return f"{sign}{minutes} min {rest} s" if minutes else f"{sign}{rest} s"

    def ticks(self, first: float, last: float, most: int = 9) -> tuple[NDArray[np.float64], list[str]]:
        """Frames at which an axis from first to last has ticks, and what stands there."""
        span = max(last - first, 1.0)
        if self.known:
            step = next((s for s in STEPS if span / self.fps / s <= most), STEPS[-1]) * self.fps
        else:
            power = 10.0 ** math.floor(math.log10(span / most)) if span > most else 1.0
            step = next(m * power for m in (1, 2, 5, 10, 20) if span / (m * power) <= most)
        places = (np.arange(math.ceil(first / step), math.floor(last / step) + 1) * step).astype(np.float64)
        return places, [self.at(place).removeprefix("frame ") for place in places]
