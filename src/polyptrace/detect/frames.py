"""Which frames do not show the colon: black, frozen, and before or after the examination (outside the body).

Black and frozen frames are skipped before detection. The tissue under white light is red and a room is not, but
narrow-band imaging is not red either. Therefore only frames before the first and after the last red frame are outside.
"""

import numpy as np
from numpy.typing import NDArray

POINTS = 64  # pixels along the width that are looked at
BLACK = 12.0  # mean grey level
SAME = 0.4  # mean difference in grey levels below which a frame repeats the previous one
FROZEN = 10  # repeated frames from which a video is frozen; fewer are duplicates of a frame-rate conversion
RED = 0.37  # mean share of red in red + green + blue
LEAST_RED = 25  # frames; with fewer, the colours of this video say nothing


class FrameJudge:
    """Judges the frames of a video in their order. `field` is the mask of the endoscope's field, None: everything."""

    def __init__(self, field: NDArray[np.uint8] | None = None) -> None:
        self._field = field
        self._last = np.empty((0, 3), np.int16)
        self._repeated = 0

    def __call__(self, frame: NDArray[np.uint8]) -> tuple[str, bool]:
        """Why the frame is skipped ("" if it is not), and whether it is red."""
        step = max(1, frame.shape[1] // POINTS)
        points = frame[::step, ::step].astype(np.int16)
        if self._field is not None:
            points = points[self._field[::step, ::step, 0] > 0]
        points = points.reshape(-1, 3)
        same = self._last.shape == points.shape and np.abs(points - self._last).mean() < SAME
        self._repeated = self._repeated + 1 if same else 0
        self._last = points
        red, total = points[:, 0].mean(), 3 * points.mean()
        if total < 3 * BLACK:
            return "black", False
        return "frozen" if self._repeated >= FROZEN else "", bool(red / total > RED)


def is_black(frame: NDArray[np.uint8]) -> bool:
    """Whether a single frame is black."""
    return FrameJudge()(frame)[0] == "black"
