"""Tracks: runs of boxes in consecutive frames, each overlapping the previous one.

Boxes of one group (a polyp, a given track, or a whole video) are matched one-to-one from frame to frame, best overlap
first, where IoU >= 0.1. With `max_gap`, boxes without a match in the next frame may be matched up to `max_gap` missing
frames later. All videos are matched at once, so the cost is that of sorting the boxes.

Three options are for detectors. With `start_score`, weaker boxes continue a track but never start one, as in ByteTrack.
With `min_score`, tracks whose boxes have a lower mean score are dropped: detectors are less confident about false
positives. With `margin`, boxes are enlarged before their overlap is computed, by this share of their size on each side
and per frame of distance, so that a track survives a movement of the camera.
"""

from itertools import product
from typing import Literal

import numpy as np

from polyptrace.config import Tracks
from polyptrace.core.arrays import Bools, Floats, Ints
from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.identity import codes, video_codes

Within = Literal["polyp", "track", "video"]

#: Datasets whose frames are sampled sparsely; `tracks.sampled_*` settings apply to them.
SAMPLED_DATASETS = ("polypsset", "artificial polypsset")


def link_tracks(
    boxes: Boxes,
    within: Within = "polyp",
    iou: float = 0.1,
    max_gap: int = 0,
    *,
    start_score: float = 0.0,
    min_score: float = 0.0,
    margin: float = 0.0,
) -> Ints:
    """Track of each box (n,), numbered by video, first frame and first box, independent of labels and row order.

    `within` is what linking may use: "polyp" (polyp ids), "track" (ids of a tracker) or "video" (boxes only). With
    `start_score`, weaker boxes that continue no track get -1, with `min_score`, those of tracks with a lower mean
    score; a box without a score is not weak. Boxes with an invalid frame (negative or NO_FRAME) get -1 too.
    """
    track = _link_strong(boxes, within, iou, max_gap, start_score, margin)
    weak = track_scores(boxes, track) < min_score
    number = np.append(np.where(weak, -1, np.cumsum(~weak) - 1), -1)  # the last one is that of no track
    return number[track]


def track_scores(boxes: Boxes, track: Ints) -> Floats:
    """The mean score of the boxes of each track 0, 1, ...; NaN if none has a score."""
    known = (track >= 0) & ~np.isnan(boxes.score)
    tracks = int(track.max(initial=-1)) + 1
    total, count = (np.bincount(track[known], weights, tracks) for weights in (boxes.score[known], None))
    means: Floats = np.divide(total, count, out=np.full(tracks, np.nan), where=count > 0)
    return means


def _link_strong(boxes: Boxes, within: Within, iou: float, max_gap: int, start_score: float, margin: float) -> Ints:
    """Track of each box; -1 for boxes below `start_score` that continue no track, and for invalid frames."""
    strong = ~(boxes.score < start_score)
    kept = np.flatnonzero(boxes.frame_index >= 0)
    while True:
        table = boxes.take(kept)
        linked = _link(table, within, iou, max_gap, margin, strong[kept])
        first = np.full(len(boxes), np.iinfo(np.int64).max)  # first strong frame of each track
        np.minimum.at(first, linked[strong[kept]], table.frame_index[strong[kept]])
        too_early = table.frame_index < first[linked]
        if not too_early.any():
            break
        kept = kept[~too_early]  # without them, other boxes may be linked
    track = np.full(len(boxes), -1)
    track[kept] = linked
    return track


def _link(boxes: Boxes, within: Within, iou: float, max_gap: int, margin: float, strong: Bools) -> Ints:
    if not len(boxes):
        return np.empty(0, np.int64)
    video = video_codes(boxes)
    group = video if within == "video" else video * (len(boxes) + 1) + _group_ids(boxes, within)
    order = boxes.order()
    by_group = np.argsort(group[order], kind="stable")  # indices into `order`, by group, frame and box
    rows = order[by_group]
    keys = _keys(group[rows], boxes.frame_index[rows], max_gap)
    previous = _previous(keys, boxes.xywh[rows], iou, max_gap, margin, strong[rows])
    starts = np.zeros(len(boxes), bool)
    starts[by_group[previous < 0]] = True
    track = np.empty(len(boxes), np.int64)
    track[rows] = (np.cumsum(starts) - 1)[by_group[_first(previous)]]
    return track


def link_with_settings(boxes: Boxes, settings: Tracks) -> Ints:
    """Track of each box, linked with the given settings; `sampled_iou` replaces `iou` where frames are sampled."""
    sampled = has_sampled_frames(boxes)
    sampled_iou = settings.iou if settings.sampled_iou is None else settings.sampled_iou
    options = {name: getattr(settings, name) for name in ("start_score", "min_score", "margin")}
    track = np.full(len(boxes), -1)
    for rows, iou in ((~sampled, settings.iou), (sampled, sampled_iou)):
        linked = link_tracks(boxes.take(rows), settings.link, iou, settings.max_gap, **options)
        track[rows] = np.where(linked < 0, -1, track.max(initial=-1) + 1 + linked)
    return track


def has_sampled_frames(boxes: Boxes) -> Bools:
    """Whether each box belongs to a dataset whose frames are sampled sparsely."""
    return np.isin(boxes.dataset, SAMPLED_DATASETS)


def box_iou(a: Floats, b: Floats) -> Floats:
    """Intersection over union of boxes (n, 4) x, y, w, h, row by row."""
    (ax, ay, aw, ah), (bx, by, bw, bh) = a.T, b.T
    width = np.minimum(ax + aw, bx + bw) - np.maximum(ax, bx)
    height = np.minimum(ay + ah, by + bh) - np.maximum(ay, by)
    intersection = np.maximum(width, 0) * np.maximum(height, 0)
    union = aw * ah + bw * bh - intersection
    overlap: Floats = np.divide(intersection, union, out=np.zeros(len(a)), where=union > 0)
    return overlap


def _enlarged(xywh: Floats, margin: float) -> Floats:
    """Boxes (n, 4) with a margin on each side, as a share of their size."""
    return np.concatenate([xywh[:, :2] - margin * xywh[:, 2:], (1 + 2 * margin) * xywh[:, 2:]], axis=1)


def _group_ids(boxes: Boxes, within: Within) -> Ints:
    names = boxes.polyp if within == "polyp" else boxes.track
    missing = np.flatnonzero(names == "")
    if len(missing):
        by_track = " or by the given tracks: --tracks.link track (if they are polyps: --identities polyp)"
        raise UserError(
            f"{boxes.where(missing[0])}: has no {within} id ({len(missing):,} of {len(boxes):,} boxes have none) "
            f"-> link by overlap alone: --tracks.link video{by_track if (boxes.track != '').all() else ''}"
        )
    return codes(names)


def _keys(group: Ints, frame: Ints, max_gap: int) -> Ints:
    """One ascending number per (group, frame): differences up to `max_gap` + 1 are those of frames of one group."""
    same_group = np.diff(group, prepend=group[:1]) == 0
    gap = np.where(same_group, np.diff(frame, prepend=frame[:1]), max_gap + 2)
    return np.cumsum(np.minimum(gap, max_gap + 2))  # limited, because frame numbers may have 18 digits


def _previous(key: Ints, xywh: Floats, iou: float, max_gap: int, margin: float, strong: Bools) -> Ints:
    """Index of the box before each box in its track; -1 where a track starts. Strong boxes are matched first."""
    previous = np.full(len(key), -1)
    open_end, open_start = np.ones(len(key), bool), np.ones(len(key), bool)
    for distance, kind in product(range(1, max_gap + 2), (strong, ~strong)):
        first, second = _candidates(key, distance, open_end, open_start & kind)
        overlap = box_iou(*(_enlarged(xywh[rows], distance * margin) for rows in (first, second)))
        keep = overlap >= iou
        first, second = _match(first[keep], second[keep], overlap[keep])
        previous[second] = first
        open_end[first] = open_start[second] = False
    return previous


def _first(previous: Ints) -> Ints:
    """Index of the first box of each box's track."""
    before = np.where(previous < 0, np.arange(len(previous)), previous)
    while ((further := before[before]) != before).any():  # each iteration doubles the distance
        before = further
    return before


def _candidates(key: Ints, distance: int, open_end: Bools, open_start: Bools) -> tuple[Ints, Ints]:
    """All pairs (box, box `distance` frames later) of one group that are not linked yet."""
    firsts, seconds = np.flatnonzero(open_end), np.flatnonzero(open_start)
    target = key[firsts] + distance
    begin, end = np.searchsorted(key[seconds], target, "left"), np.searchsorted(key[seconds], target, "right")
    count = end - begin
    first = np.repeat(firsts, count)
    inside = np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
    return first, seconds[np.repeat(begin, count) + inside]


def _match(first: Ints, second: Ints, overlap: Floats) -> tuple[Ints, Ints]:
    """One-to-one pairs, best overlap first (ties: lower rows)."""
    best_first = np.lexsort((second, first, -overlap))
    second_of: dict[int, int] = {}
    taken: set[int] = set()
    for a, b in zip(first[best_first].tolist(), second[best_first].tolist(), strict=True):
        if a not in second_of and b not in taken:
            second_of[a] = b
            taken.add(b)
    return np.array([*second_of], np.int64), np.array([*second_of.values()], np.int64)
