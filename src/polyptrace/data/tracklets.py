"""Tracklets: every 4th frame of a track, cut into runs of L = 8 frames, or whole.

Of the frames f₀, f₀ + 1, ... of a track, one is kept per `stride`: the first box at or after f₀, f₀ + 4, f₀ + 8, ... (a
detector may have missed frames in between). Runs of `length` kept frames do not overlap, and an incomplete last run is
dropped. With `length=None` all kept frames of a track form one tracklet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np

from polyptrace.config import Tracks
from polyptrace.core.arrays import Floats, Ints, Strings
from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.identity import video_codes
from polyptrace.data.tracks import has_sampled_frames


@dataclass(frozen=True)
class LabelFreeTracklets:
    """N tracklets without labels, sorted by unit, video, first frame and track: all that label-free training sees.

    Their frames are rows of the box table that they were cut from, or in a dataset folder rows of its crop store.
    """

    unit: Strings  # "tracklet" (L frames) or "track" (a whole track)
    dataset: Strings
    video: Strings
    track: Ints
    position: Ints  # first frame in the video
    last: Ints  # last frame in the video
    fps: Floats
    offset: Ints  # (N + 1,) where each tracklet starts in `frame_rows`
    frame_rows: Ints  # row of each frame, tracklet by tracklet, in time order

    def __len__(self) -> int:
        return len(self.video)

    @property
    def length(self) -> Ints:
        """Number of frames of each tracklet."""
        return np.diff(self.offset)

    @cached_property
    def rows(self) -> list[Ints]:
        """Rows of the frames of each tracklet."""
        return np.split(self.frame_rows, self.offset[1:-1]) if len(self) else []


@dataclass(frozen=True)
class Tracklets(LabelFreeTracklets):
    """N tracklets with their labels; unknown labels are "" and NaN."""

    polyp: Strings  # of most of the tracklet's boxes
    size_mm: Floats
    histology: Strings

    def label_free(self) -> LabelFreeTracklets:
        """The same tracklets without labels."""
        return LabelFreeTracklets(**{f.name: getattr(self, f.name) for f in fields(LabelFreeTracklets)})

    @classmethod
    def concatenate(cls, first: Self, second: Self) -> Self:
        """The tracklets of two tables over the same boxes."""
        columns: dict[str, Any] = {
            f.name: np.concatenate([getattr(first, f.name), getattr(second, f.name)]) for f in fields(cls)
        }
        columns["offset"] = np.concatenate([first.offset, second.offset[1:] + first.offset[-1]])
        return cls(**columns)


def cut_tracklets(
    boxes: Boxes, track: Ints, length: int | None = 8, stride: int | Ints = 4, min_track: int | Ints = 30
) -> Tracklets:
    """Tracklets of the tracks that span at least `min_track` frames; boxes with a negative track are left out.

    `stride` and `min_track` are in frames: one number, or one per box where frame rates differ.
    """
    order = np.lexsort((boxes.frame_index, track))
    order = order[track[order] >= 0]
    per_box = (np.broadcast_to(setting, len(boxes))[order] for setting in (stride, min_track))
    kept = order[_kept(boxes.frame_index[order], track[order], *per_box)]
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
    frame_rows = kept[np.repeat(start - offset[:-1], count) + np.arange(offset[-1])].astype(np.int64)
    return _with_columns(boxes, track, frame_rows, offset, "track" if length is None else "tracklet")


def cut_both_units(boxes: Boxes, track: Ints, settings: Tracks) -> Tracklets:
    """Tracklets of L frames and whole tracks, cut with the given settings."""
    stride = _in_frames(boxes, settings.stride, settings.stride_seconds, settings.sampled_stride)
    min_track = _in_frames(boxes, settings.min_track, settings.min_track_seconds, settings.sampled_min_track)
    fixed = cut_tracklets(boxes, track, settings.length, stride, min_track)
    return Tracklets.concatenate(fixed, cut_tracklets(boxes, track, None, stride, min_track))


def pad_rows(rows: Sequence[Ints]) -> Ints:
    """Rows of several tracklets as one array (B, L), -1 in the padding; L is the length of the longest.

    >>> pad_rows([np.array([3, 4]), np.array([7])])
    array([[ 3,  4],
           [ 7, -1]])
    """
    lengths = np.array([len(some) for some in rows], np.int64)
    table = np.full((len(rows), lengths.max(initial=0)), -1, np.int64)
    if len(rows):
        table[np.arange(table.shape[1]) < lengths[:, None]] = np.concatenate(rows)
    return table


def _in_frames(boxes: Boxes, frames: int, seconds: float | None, sampled_frames: int | None) -> Ints:
    """A setting in frames for each box: as given, or converted from seconds with the frame rate of its video."""
    sampled = has_sampled_frames(boxes)
    of_sampled = frames if sampled_frames is None else sampled_frames
    if seconds is None:
        return np.where(sampled, of_sampled, frames)
    unknown = np.flatnonzero(~(boxes.fps > 0) & ~sampled)
    if len(unknown):
        raise UserError(
            f"{boxes.where(unknown[0])}: video {boxes.video[unknown[0]]!r} has no frame rate "
            "-> give settings in frames, or the frame rate with --fps"
        )
    from_seconds = np.maximum(1, np.rint(seconds * np.where(sampled, 1.0, boxes.fps)))
    return np.where(sampled, of_sampled, from_seconds).astype(np.int64)


def _kept(frame: Ints, track: Ints, stride: Ints, min_track: Ints) -> Ints:
    """Indices of the kept frames, in boxes sorted by track and frame."""
    new_track = np.diff(track, prepend=-1) != 0
    starts = np.flatnonzero(new_track)
    count = np.diff(starts, append=len(track))
    begin = np.repeat(starts, count)
    span = frame[starts + count - 1] - frame[starts] + 1
    tick = (frame - frame[begin]) // stride[begin]
    new_tick = new_track | (np.diff(tick, prepend=-1) != 0)
    return np.flatnonzero(new_tick & np.repeat(span >= min_track[starts], count))


def _with_columns(boxes: Boxes, track: Ints, frame_rows: Ints, offset: Ints, unit: str) -> Tracklets:
    """Tracklets over these rows, with their columns from the box table."""
    first, last = frame_rows[offset[:-1]], frame_rows[offset[1:] - 1]
    labelled = _majority_row(boxes.polyp, frame_rows, offset)
    return Tracklets(
        unit=np.full(len(first), unit, object),
        dataset=boxes.dataset[first],
        video=boxes.video[first],
        track=track[first],
        position=boxes.frame_index[first],
        last=boxes.frame_index[last],
        fps=boxes.fps[first],
        offset=offset,
        frame_rows=frame_rows,
        polyp=boxes.polyp[labelled],
        size_mm=boxes.size_mm[labelled],
        histology=boxes.histology[labelled],
    )


def _majority_row(polyp: Strings, frame_rows: Ints, offset: Ints) -> Ints:
    """The first row of each tracklet that shows the polyp of most of its boxes (ties: the polyp seen first)."""
    names = polyp[frame_rows]
    chosen = frame_rows[offset[:-1]]
    mixed = names != np.repeat(polyp[chosen], np.diff(offset))
    owner = np.repeat(np.arange(len(chosen)), np.diff(offset))
    for tracklet in np.unique(owner[mixed]):
        inside = names[offset[tracklet] : offset[tracklet + 1]].tolist()
        most = max(dict.fromkeys(inside), key=inside.count)
        chosen[tracklet] = frame_rows[offset[tracklet] + inside.index(most)]
    return chosen
