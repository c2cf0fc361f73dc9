"""Tracklets: every 4th frame of a track, cut into runs of L = 8, or whole.

Of a track's frames f₀, f₀ + 1, ... one is kept in each `stride`: the first box at or after f₀, f₀ + 4, f₀ + 8, ... (a
detector may have missed frames in between). Runs of `length` kept frames follow each other without overlap, and an
incomplete last run is dropped. With `length=None` all kept frames of a track are one tracklet.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np

from polyptrace.data.boxes import Boxes, Floats, Ints, Strings
from polyptrace.data.identity import video_codes


@dataclass(frozen=True)
class LabelFreeTracklets:
    """N tracklets by unit, video, first frame and track: all that self-supervised training ever sees."""

    unit: Strings  # "tracklet" (L frames) or "track" (a whole track)
    dataset: Strings
    video: Strings
    track: Ints
    position: Ints  # first frame in the video
    last: Ints  # last frame in the video
    fps: Floats
    flat: Ints  # rows (of the box table or the crop store), tracklet after tracklet
    offset: Ints  # (N + 1,) where each tracklet begins in `flat`

    def __len__(self) -> int:
        return len(self.video)

    @cached_property
    def rows(self) -> list[Ints]:
        """Rows of each tracklet, in time."""
        return np.split(self.flat, self.offset[1:-1]) if len(self) else []

    @property
    def length(self) -> Ints:
        """Frames of each tracklet."""
        return np.diff(self.offset)


@dataclass(frozen=True)
class Tracklets(LabelFreeTracklets):
    """Tracklets with what is known about their polyps: "" and NaN where nothing is."""

    polyp: Strings  # of most of the tracklet's boxes
    size_mm: Floats
    histology: Strings

    def label_free(self) -> LabelFreeTracklets:
        """The same tracklets, without the labels."""
        return LabelFreeTracklets(**{f.name: getattr(self, f.name) for f in fields(LabelFreeTracklets)})

    @classmethod
    def concatenate(cls, first: Self, second: Self) -> Self:
        """The tracklets of two tables over the same rows, one after the other."""
        columns: dict[str, Any] = {
            f.name: np.concatenate([getattr(first, f.name), getattr(second, f.name)]) for f in fields(cls)
        }
        columns["offset"] = np.concatenate([first.offset, second.offset[1:] + first.offset[-1]])
        return cls(**columns)


def cut_tracklets(
    boxes: Boxes, track: Ints, length: int | None = 8, stride: int | Ints = 4, min_track: int | Ints = 30
) -> Tracklets:
    """Tracklets (rows of the box table) of the tracks that span at least `min_track` frames.

    `stride` and `min_track` are in frames: one number, or one per box where frame rates differ.
    """
    order = np.lexsort((boxes.frame_index, track))
    kept = order[_kept(boxes.frame_index[order], track[order], _each(stride, order), _each(min_track, order))]
    start = np.flatnonzero(np.diff(track[kept], prepend=-1))
    count = np.diff(start, append=len(kept))
    if length is not None:
        pieces = count // length
        inside = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        start, count = np.repeat(start, pieces) + inside * length, np.full(pieces.sum(), length)
    first = kept[start]
    by_time = np.lexsort((track[first], boxes.frame_index[first], video_codes(boxes.take(first))))
    start, count = start[by_time], count[by_time]
    offset = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    flat = kept[np.repeat(start - offset[:-1], count) + np.arange(offset[-1])].astype(np.int64)
    return _described(boxes, track, flat, offset, "track" if length is None else "tracklet")


def _each(setting: int | Ints, order: Ints) -> Ints:
    return setting[order] if isinstance(setting, np.ndarray) else np.full(len(order), setting)


def _kept(frame: Ints, track: Ints, stride: Ints, min_track: Ints) -> Ints:
    """Places, in boxes sorted by track and frame, of the frames that long enough tracks keep."""
    new_track = np.diff(track, prepend=-1) != 0
    starts = np.flatnonzero(new_track)
    count = np.diff(starts, append=len(track))
    begin = np.repeat(starts, count)
    span = frame[starts + count - 1] - frame[starts] + 1
    tick = (frame - frame[begin]) // stride[begin]
    new_tick = new_track | (np.diff(tick, prepend=-1) != 0)
    return np.flatnonzero(new_tick & np.repeat(span >= min_track[starts], count))


def _described(boxes: Boxes, track: Ints, flat: Ints, offset: Ints, unit: str) -> Tracklets:
    """Tracklets over these rows, with the columns that the box table gives them."""
    first, last = flat[offset[:-1]], flat[offset[1:] - 1]
    labelled = _majority_row(boxes.polyp, flat, offset)
    return Tracklets(
        unit=np.full(len(first), unit, object),
        dataset=boxes.dataset[first],
        video=boxes.video[first],
        track=track[first],
        position=boxes.frame_index[first],
        last=boxes.frame_index[last],
        fps=boxes.fps[first],
        flat=flat,
        offset=offset,
        polyp=boxes.polyp[labelled],
        size_mm=boxes.size_mm[labelled],
        histology=boxes.histology[labelled],
    )


def _majority_row(polyp: Strings, flat: Ints, offset: Ints) -> Ints:
    """For each tracklet its first row that shows the polyp of most of its boxes (ties: the one seen first)."""
    names = polyp[flat]
    chosen = flat[offset[:-1]]
    mixed = names != np.repeat(polyp[chosen], np.diff(offset))
    owner = np.repeat(np.arange(len(chosen)), np.diff(offset))
    for tracklet in np.unique(owner[mixed]):
        inside = names[offset[tracklet] : offset[tracklet + 1]].tolist()
        most = max(dict.fromkeys(inside), key=inside.count)
        chosen[tracklet] = flat[offset[tracklet] + inside.index(most)]
    return chosen
