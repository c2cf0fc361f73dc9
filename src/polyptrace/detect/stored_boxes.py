"""Boxes that exist already, in any format that `prepare` reads: `--detector mot:boxes.txt`."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from polyptrace.core.arrays import Ints
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError, warn
from polyptrace.data.boxes import Boxes
from polyptrace.data.sources import read_source
from polyptrace.data.sources.reading import NoBoxError
from polyptrace.detect.detector import Frame, ScoredBoxes


class StoredBoxes:
    """The boxes of one video in a source; boxes without a score get 1.

    They are found by the name of the video. Unless `by_name`, a source with boxes of one video is used for any name.
    """

    def __init__(self, source: str, path: Path, video: Path | None, *, by_name: bool = False) -> None:
        try:
            boxes = _of_video(read_source(source, path, {}, video=video), path, video, by_name).in_order()
        except NoBoxError as error:  # a procedure without a polyp
            warn(str(error))
            boxes = Boxes.concatenate([])
        scores = np.where(np.isnan(boxes.score), 1.0, boxes.score)
        self._frame = boxes.frame_index
        self._scored = np.column_stack([boxes.xywh, scores])
        self.fingerprint = f"{source} {hashlib.sha256(self._frame.tobytes() + self._scored.tobytes()).hexdigest()}"

    def __call__(self, _: Sequence[Frame], indices: Sequence[int]) -> list[ScoredBoxes]:
        begin, end = (np.searchsorted(self._frame, indices, side) for side in ("left", "right"))
        return [self._scored[a:b] for a, b in zip(begin, end, strict=True)]

    def frames(self) -> Ints:
        """The frames with a box."""
        return np.unique(self._frame[self._frame >= 0])

    def boxes_outside(self, frames: int) -> int:
        """Number of boxes that are of none of a video's frames 0, 1, ..., `frames` - 1."""
        return int(((self._frame < 0) | (self._frame >= frames)).sum())


def _of_video(boxes: Boxes, path: Path, video: Path | None, by_name: bool) -> Boxes:
    names = sorted(set(boxes.video))
    stem = video.stem if video else ""
    mine = [name for name in names if name == stem or Path(name).stem == stem]
    if len(mine) != 1 and (len(names) > 1 or by_name):
        raise UserError(
            f"{path}: has boxes of {counted(len(names), 'video')} ({', '.join(names[:3])}{', …' * (len(names) > 3)}), "
            f"and not exactly one is named {stem!r} -> rename the video to match its boxes; if it has none, give it "
            "alone with an empty file as mot:FILE"
        )
    if stem and not mine and Path(boxes.file[0]).stem != stem:
        warn(
            f"{path}: has boxes of the video {names[0]!r}, used for {stem!r} -> give the boxes of this video if"
            " they are of another recording"
        )
    return boxes.take(boxes.video == (mine or names)[0])
