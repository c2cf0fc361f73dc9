"""Tracklets: every 4th frame of a track, cut into runs of L = 8, or whole.

Of a track's frames f₀, f₀ + 1, ... one is kept in each `stride`: the first box at or after f₀, f₀ + 4, f₀ + 8, ... (a
detector may have missed frames in between). Runs of `length` kept frames follow each other without overlap, and an
incomplete last run is dropped. With `length=None` all kept frames of a track are one tracklet.
"""

from dataclasses import dataclass

import numpy as np

from polyptrace.data.boxes import Boxes, Ints, Strings, codes


@dataclass(frozen=True)
class Tracklets:
    """N tracklets over a box table, by video, first frame and track; labels cannot change their order."""

    flat: Ints  # rows of the box table, tracklet after tracklet
    offset: Ints  # (N + 1,) where each begins in `flat`
    video: Strings
    track: Ints
    position: Ints  # first frame in the video
    polyp: Strings  # of most of its boxes; "" where unknown

    def __len__(self) -> int:
        return len(self.video)

    @property
    def rows(self) -> list[Ints]:
        """Rows of the box table of each tracklet, in time."""
        return np.split(self.flat, self.offset[1:-1]) if len(self) else []


def cut_tracklets(
    boxes: Boxes, track: Ints, length: int | None = 8, stride: int | Ints = 4, min_track: int | Ints = 30
) -> Tracklets:
    """Tracklets of the tracks that span at least `min_track` frames.

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
    by_time = np.lexsort(
        (track[first], boxes.frame_index[first], codes(boxes.video[first]), codes(boxes.dataset[first]))
    )
    start, count, first = start[by_time], count[by_time], first[by_time]
    offset = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    flat = kept[np.repeat(start - offset[:-1], count) + np.arange(offset[-1])].astype(np.int64)
    return Tracklets(
        flat,
        offset,
        boxes.video[first],
        track[first],
        boxes.frame_index[first],
        _majority(boxes.polyp, flat, offset),
    )


def _each(setting: int | Ints, order: Ints) -> Ints:
    return np.full(len(order), setting) if isinstance(setting, int) else setting[order]


def _kept(frame: Ints, track: Ints, stride: Ints, min_track: Ints) -> Ints:
    """Places, in boxes sorted by track and frame, of the frames that long enough tracks keep."""
    starts = np.flatnonzero(np.diff(track, prepend=-1))
    count = np.diff(starts, append=len(track))
    span = frame[starts + count - 1] - frame[starts] + 1 if len(starts) else np.empty(0, np.int64)
    begin = np.repeat(starts, count)
    tick = (frame - frame[begin]) // stride[begin]
    first_of_tick = (np.diff(track, prepend=-1) != 0) | (np.diff(tick, prepend=-1) != 0)
    return np.flatnonzero(first_of_tick & np.repeat(span >= min_track[starts], count))


def _majority(polyp: Strings, flat: Ints, offset: Ints) -> Strings:
    """The polyp of most boxes of each tracklet (ties: the one seen first)."""
    names = polyp[flat]
    majority = names[offset[:-1]].copy()
    mixed = names != np.repeat(majority, np.diff(offset))
    owner = np.repeat(np.arange(len(majority)), np.diff(offset))
    for tracklet in np.unique(owner[mixed]):
        inside = names[offset[tracklet] : offset[tracklet + 1]].tolist()
        majority[tracklet] = max(dict.fromkeys(inside), key=inside.count)
    return majority
