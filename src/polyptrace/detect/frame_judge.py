"""Judges the frames of a video: black, frozen, or outside the body.

Frames that do not show the colon are skipped: black and frozen ones before detection, and those before or after the
examination (outside the body) after it. The tissue under white light is red and a room is not, but narrow-band imaging
is not red either. Therefore only frames before the first and after the last red frame are outside.
"""

from typing import Any

import numpy as np

from polyptrace.detect.detector import Frame
from polyptrace.detect.unfinished import State

OUTSIDE = "outside the body"
POINTS = 64  # pixels along the width that are looked at
BLACK = 12.0  # mean grey level
SAME = 0.4  # mean difference in grey levels below which a frame repeats the previous one
FROZEN = 10  # repeated frames from which a video is frozen; fewer are duplicates of a frame-rate conversion
RED = 0.37  # mean share of red in red + green + blue
LEAST_RED = 25  # frames; with fewer, the colours of this video say nothing


class FrameJudge:
    """Judges the frames of a video in their order. `field` is the mask of the endoscope's field, None: everything."""

    def __init__(self, field: Frame | None = None) -> None:
        self._field = field
        self._last = np.empty((0, 3), np.int16)
        self.repeated = 0  # frames in a row that repeat the one before

    def __call__(self, frame: Frame) -> tuple[str, bool]:
        """Why the frame is skipped ("" if it is not), and whether it is red."""
        step = max(1, frame.shape[1] // POINTS)
        points = frame[::step, ::step].astype(np.int16)
        if self._field is not None:
            points = points[self._field[::step, ::step, 0] > 0]
        points = points.reshape(-1, 3)
        same = self._last.shape == points.shape and np.abs(points - self._last).mean() < SAME
        self.repeated = self.repeated + 1 if same else 0
        self._last = points
        red, total = points[:, 0].mean(), 3 * points.mean()
        if total < 3 * BLACK:
            return "black", False
        return "frozen" if self.repeated >= FROZEN else "", bool(red / total > RED)


def outside_body(state: State) -> list[list[Any]]:
    """Runs of frames before the first and after the last red frame that are not skipped already."""
    runs = []
    ends = [(0, state.first_red - 1), (state.last_red + 1, state.frames - 1)] if state.red >= LEAST_RED else []
    for first, last in ends:
        for begin, end, _ in [run for run in state.skipped if first <= run[1] and run[0] <= last]:
            runs.append([first, begin - 1, OUTSIDE])
            first = end + 1
        runs.append([first, last, OUTSIDE])
    return [run for run in runs if run[0] <= run[1]]
