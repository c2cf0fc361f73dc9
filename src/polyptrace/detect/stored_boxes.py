"""Boxes that exist already, in any format that `prepare` reads: `--detector mot:boxes.txt`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError, warn
from polyptrace.data.preparation import boxes_hash
from polyptrace.data.sources import read_source
from polyptrace.detect.detector import Found, Frame


class StoredBoxes:
    """The boxes of one video in a source; boxes without a score get 1."""

    def __init__(self, source: str, path: Path, video: Path | None) -> None:
        boxes = read_source(source, path, {})
        names = sorted(set(boxes.video))
        stem = video.stem if video else ""
        mine = [name for name in names if name == stem or Path(name).stem == stem]
        if len(mine) != 1 and len(names) > 1:
            raise UserError(
                f"{path}: has boxes of {counted(len(names), 'video')} ({', '.join(names[:3])}, …), not exactly one of"
                f" them named {stem!r} -> rename the video to match its boxes"
            )
        if stem and not mine:
            warn(
                f"{path}: has boxes of the video {names[0]!r}, used for {stem!r} -> give the boxes of this video if"
                " they are of another recording"
            )
        boxes = boxes.take(boxes.video == (mine or names)[0]).in_order()
        self.fingerprint = f"{source} {boxes_hash(boxes)}"
        self._frame = boxes.frame_index
        self._found = np.column_stack([boxes.xywh, np.where(np.isnan(boxes.score), 1.0, boxes.score)])

    def __call__(self, _: Sequence[Frame], indices: Sequence[int]) -> list[Found]:
        begin, end = (np.searchsorted(self._frame, indices, side) for side in ("left", "right"))
        return [self._found[a:b] for a, b in zip(begin, end, strict=True)]
