"""Tracklets: every 4th frame of a track, cut into runs of L = 8 frames, or whole.

Of the frames f₀, f₀ + 1, ... of a track, one is kept per `stride`: the first box at or after f₀, f₀ + 4, f₀ + 8, ... (a
detector may have missed frames in between). Runs of `length` kept frames do not overlap, and an incomplete last run is
dropped. With `length=None` all kept frames of a track form one tracklet.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from polyptrace.config import Tracks
from polyptrace.core.arrays import Floats, Ints, Strings
from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.identity import group_rows, video_codes
from polyptrace.data.tracks import has_sampled_frames


@dataclass(frozen=True, kw_only=True)
class LabelFreeTracklets:
    """N tracklets without labels, sorted by unit, video, first frame and track: all that self-supervised training sees.

    Rows are those of the table that the tracklets were cut from: a box table, or the crop store of a dataset.
    """

    unit: Strings  # "tracklet" (L frames) or "track" (a whole track)
    dataset: Strings
    video: Strings
    track: Ints
    position: Ints  # first frame in the video
    last: Ints  # last frame in the video
    fps: Floats
    row_index: Ints  # rows, tracklet by tracklet
    offset: Ints  # (N + 1,) where each tracklet starts in `row_index`

    def __len__(self) -> int:
        return len(self.video)

    @property
    def length(self) -> Ints:
        """Number of frames of each tracklet."""
        return np.diff(self.offset)

    @cached_property
    def rows(self) -> list[Ints]:
        """Rows of each tracklet, in time order."""
        return np.split(self.row_index, self.offset[1:-1]) if len(self) else []


@dataclass(frozen=True, kw_only=True)
class Tracklets(LabelFreeTracklets):
    """Tracklets with labels; unknown ones are "" and NaN."""

    polyp: Strings  # of most of the tracklet's boxes
    size_mm: Floats
    histology: Strings

    def label_free(self) -> LabelFreeTracklets:
        """The same tracklets without labels."""
        return LabelFreeTracklets(**{f.name: getattr(self, f.name) for f in fields(LabelFreeTracklets)})


def cut_tracklets(
    boxes: Boxes, track: Ints, length: int | None = 8, stride: int | Ints = 4, min_track: int | Ints = 30
) -> Tracklets:
    """Tracklets of the tracks that span at least `min_track` frames; boxes with a negative track are left out.

    `stride` and `min_track` are in frames: one number, or one per box where frame rates differ.
    """
    rows = _cut(boxes, track, length, stride, min_track)
    return _with_columns(boxes, track, rows, ["track" if length is None else "tracklet"] * len(rows))


def _cut(boxes: Boxes, track: Ints, length: int | None, stride: int | Ints, min_track: int | Ints) -> list[Ints]:
    """The box rows of each tracklet, in the order of tracklets."""
    stride, min_track = np.broadcast_to(stride, len(boxes)), np.broadcast_to(min_track, len(boxes))
    by_frame = np.lexsort((boxes.frame_index, track))
    by_frame = by_frame[track[by_frame] >= 0]
    pieces: list[Ints] = []
    for group in group_rows(track[by_frame]):
        rows = by_frame[group]
        frame = boxes.frame_index[rows]
        if frame[-1] - frame[0] + 1 < min_track[rows[0]]:
            continue
        kept = rows[np.unique((frame - frame[0]) // stride[rows[0]], return_index=True)[1]]
        size = length or len(kept)
        pieces += [kept[start : start + size] for start in range(0, len(kept) - size + 1, size)]
    first = np.array([piece[0] for piece in pieces], np.int64)
    by_time = np.lexsort((track[first], boxes.frame_index[first], video_codes(boxes.take(first))))
    return [pieces[index] for index in by_time]


def cut_both_units(boxes: Boxes, track: Ints, settings: Tracks) -> Tracklets:
    """Tracklets of L frames and whole tracks, cut with the given settings."""
    stride = _in_frames(boxes, settings.stride, settings.stride_seconds, settings.sampled_stride)
    min_track = _in_frames(boxes, settings.min_track, settings.min_track_seconds, settings.sampled_min_track)
    fixed = _cut(boxes, track, settings.length, stride, min_track)
    whole = _cut(boxes, track, None, stride, min_track)
    return _with_columns(boxes, track, fixed + whole, ["tracklet"] * len(fixed) + ["track"] * len(whole))


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


def _with_columns(boxes: Boxes, track: Ints, rows: list[Ints], unit: list[str]) -> Tracklets:
    """Tracklets of these box rows, with their columns from the box table."""
    first, last = (np.array([each[index] for each in rows], np.int64) for index in (0, -1))
    labelled = np.array([_majority_row(boxes.polyp, each) for each in rows], np.int64)
    return Tracklets(
        unit=np.array(unit, object),
        dataset=boxes.dataset[first],
        video=boxes.video[first],
        track=track[first],
        position=boxes.frame_index[first],
        last=boxes.frame_index[last],
        fps=boxes.fps[first],
        offset=np.cumsum([0, *map(len, rows)]),
        row_index=np.concatenate([np.empty(0, np.int64), *rows]),
        polyp=boxes.polyp[labelled],
        size_mm=boxes.size_mm[labelled],
        histology=boxes.histology[labelled],
    )


def _majority_row(polyp: Strings, rows: Ints) -> int:
    """The first of a tracklet's rows that shows the polyp of most of them (ties: the polyp seen first)."""
    names = polyp[rows].tolist()
    most_frequent = Counter(names).most_common(1)[0][0]
    return int(rows[names.index(most_frequent)])
