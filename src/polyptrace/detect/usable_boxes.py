"""Calls a detector and checks what it returns, for `detect` and its preview."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError, failure_text
from polyptrace.detect.detector import Detector, Frame, ScoredBoxes

MOST_BOXES = 100  # of a frame; the weakest are dropped
ROUNDING = 0.01  # by which a score of low precision may be outside of 0 to 1

NOT_A_NUMBER = "not a number"
SHARES = "between 0 and 1, but pixels are expected"
OUTSIDE_OR_EMPTY = "outside the picture or empty"
TOO_MANY = f"more than {MOST_BOXES} in a frame"


class DetectorError(UserError):
    """A detector that raised an exception or returned something that cannot be used."""


class UsableBoxes(NamedTuple):
    """The boxes of a frame, best first; how many were dropped, by reason; and how many have too low a score."""

    boxes: ScoredBoxes
    dropped: dict[str, int]
    weak: int


def usable_boxes(
    detector: Detector, frames: Sequence[Frame], indices: Sequence[int], where: str, min_score: float
) -> list[UsableBoxes]:
    """The boxes of each frame that have at least `min_score`, clipped to the picture. Errors begin with `where`."""
    try:
        returned: Any = detector(frames, indices)
        is_list = isinstance(returned, Iterable) and not isinstance(returned, Mapping)
        results = list(returned) if is_list else []  # a generator runs the detector's code here
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise DetectorError(
            f"{where}: the detector failed ({failure_text(error)}) -> correct it and run the same command again"
        ) from error
    try:
        if not is_list:
            raise ValueError("None" if returned is None else f"a {type(returned).__name__}")
        if len(results) != len(frames):
            raise ValueError(f"{counted(len(results), 'result')} for {counted(len(frames), 'frame')}")
        arrays = [_array(each) for each in results]
    except ValueError as error:
        raise DetectorError(
            f"{where}: the detector returned {error} -> return a list with one array (n, 5) of x, y, width, height and "
            "score per frame"
        ) from None
    for scored in arrays:
        scores = scored[np.isfinite(scored).all(axis=1), 4]
        if wrong := scores[(scores < -ROUNDING) | (scores > 1 + ROUNDING)].tolist():
            raise DetectorError(
                f"{where}: scores must be from 0 to 1, found {wrong[0]:g} -> divide per cent by 100, or apply the "
                "sigmoid to logits; for an ONNX file, check the layout in its TOML file"
            )
    return [_usable(scored, frame, min_score) for scored, frame in zip(arrays, frames, strict=True)]


def _array(result: Any) -> ScoredBoxes:
    """What a detector returned for a frame as an array (n, 5); a `ValueError` says what it is instead."""
    if result is None:
        raise ValueError("None for a frame")
    try:
        scored = np.asarray(result, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor with a gradient
        raise ValueError(f"a {type(result).__name__} that is not an array of numbers ({error})") from None
    if scored.size and (scored.ndim != 2 or scored.shape[1] != 5):
        raise ValueError(f"an array of shape {scored.shape} for a frame")
    return scored.reshape(-1, 5)


def _usable(scored: ScoredBoxes, frame: Frame, min_score: float) -> UsableBoxes:
    """The boxes clipped to the picture, without those that are unusable or too weak."""
    size = frame.shape[1::-1]
    finite = np.isfinite(scored).all(axis=1)
    weak = finite & (scored[:, 4] < min_score)
    strong = scored[finite & ~weak]
    low, high = strong[:, :2].clip(0, size), (strong[:, :2] + strong[:, 2:4]).clip(0, size)
    inside = (high - low >= 1).all(axis=1)  # also removes boxes without width or height
    shares = ~inside & (strong[:, :4] >= 0).all(axis=1) & (strong[:, :4] <= 1).all(axis=1) & (strong[:, 2:4] > 0).all(1)
    boxes = np.column_stack([low, high - low, strong[:, 4].clip(0, 1)])[inside]
    dropped = {
        NOT_A_NUMBER: (~finite).sum(),
        SHARES: shares.sum(),
        OUTSIDE_OR_EMPTY: (~inside & ~shares).sum(),
        TOO_MANY: max(0, len(boxes) - MOST_BOXES),
    }
    best = np.argsort(-boxes[:, 4], kind="stable")[:MOST_BOXES]
    counts = {reason: int(count) for reason, count in dropped.items() if count}
    return UsableBoxes(boxes[best], counts, int(weak.sum()))
