"""Tracks: runs of boxes in consecutive frames, each overlapping the last.

Boxes of one group (a polyp, a given track, or a whole video) are matched one-to-one from frame to frame, best overlap
first, where IoU >= 0.1. With `max_gap`, boxes that found no partner in the next frame may find one up to `max_gap`
missing frames later. All frames of all videos are matched at once, so the cost is linear in the number of boxes; a
search is only for boxes that share their frame with others of their group, or have one missing next to them.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes, Floats, Ints, stable_order
from polyptrace.data.identity import codes, video_codes

Within = Literal["polyp", "track", "video"]


def link_tracks(boxes: Boxes, within: Within = "polyp", iou: float = 0.1, max_gap: int = 0) -> Ints:
    """Track of each box (n,), numbered by video, first frame and first box; labels and row order cannot change it.

    `within` says what linking may use: "polyp" (identities), "track" (ids of a tracker) or "video" (boxes alone).
    """
    if not len(boxes):
        return np.empty(0, np.int64)
    video = video_codes(boxes)
    group = video if within == "video" else video * (len(boxes) + 1) + _identities(boxes, within)
    if max_gap == 0 and _one_a_frame(video, boxes.frame_index):
        linked = (group[1:] == group[:-1]) & (np.diff(boxes.frame_index) == 1)
        linked &= box_iou(boxes.xywh[:-1], boxes.xywh[1:]) >= iou
        return np.cumsum(np.append(False, ~linked))
    order = boxes.order()
    by_group = stable_order(group[order])  # places in `order`, by group, frame and box
    rows = order[by_group]
    previous = _previous(_keys(group[rows], boxes.frame_index[rows], max_gap), boxes.xywh[rows], iou, max_gap)
    begins = np.zeros(len(boxes), bool)
    begins[by_group[previous < 0]] = True
    track = np.empty(len(boxes), np.int64)
    track[rows] = (np.cumsum(begins) - 1)[by_group[_first(previous)]]
    return track


def box_iou(a: Floats, b: Floats) -> Floats:
    """Intersection over union of boxes (n, 4) x, y, w, h, row by row."""
    (ax, ay, aw, ah), (bx, by, bw, bh) = a.T, b.T
    width = np.minimum(ax + aw, bx + bw) - np.maximum(ax, bx)
    height = np.minimum(ay + ah, by + bh) - np.maximum(ay, by)
    intersection = np.maximum(width, 0) * np.maximum(height, 0)
    union = aw * ah + bw * bh - intersection
    overlap: Floats = np.divide(intersection, union, out=np.zeros(len(a)), where=union > 0)
    return overlap


def _identities(boxes: Boxes, within: Within) -> Ints:
    names = boxes.polyp if within == "polyp" else boxes.track
    identities = codes(names)
    nameless = np.flatnonzero(identities == 0)  # if "" is among the names it is the first
    if len(nameless) and names[nameless[0]] == "":
        other = " or by the tracks that are there: --tracks.link track (if they are polyps: --identities polyp)"
        raise UserError(
            f"{boxes.where(nameless[0])}: has no {within} id ({len(nameless):,} of {len(boxes):,} boxes have none) "
            f"-> link by overlap alone: --tracks.link video{other if (boxes.track != '').all() else ''}"
        )
    return identities


def _one_a_frame(video: Ints, frame: Ints) -> bool:
    """Whether the rows are in order and no two share a frame: a box can then only follow the one before it."""
    step = np.diff(video)
    return bool(((step > 0) | ((step == 0) & (frame[1:] > frame[:-1]))).all())


def _keys(group: Ints, frame: Ints, max_gap: int) -> Ints:
    """One number for group and frame, rising with the boxes: frames lie as far apart as they are, groups further."""
    number = np.cumsum(np.diff(group, prepend=group[:1]) != 0)
    keys: Ints = number * (int(frame.max(initial=0)) + max_gap + 2) + frame
    return keys


def _previous(key: Ints, xywh: Floats, iou: float, max_gap: int) -> Ints:
    """Place of the box before each box in its track; -1 where a track begins."""
    step = np.diff(key, prepend=-2, append=-2)  # from each box to the one after it; 0 in the same frame
    lone = (step[:-2] != 0) & (step[1:-1] == 1) & (step[2:] != 0)  # neighbours that could have no other partner
    linked = lone & (box_iou(xywh[:-1], xywh[1:]) >= iou)
    previous = np.full(len(key), -1)
    np.copyto(previous[1:], np.arange(len(linked)), where=linked)
    open_end, open_start = np.append(~linked, True), previous < 0
    for distance in range(1, max_gap + 2):
        first, second = _candidates(key, distance, open_end, open_start)
        overlap = box_iou(xywh[first], xywh[second])
        keep = overlap >= iou
        first, second = _match(first[keep], second[keep], overlap[keep])
        previous[second] = first
        open_end[first] = open_start[second] = False
    return previous


def _first(previous: Ints) -> Ints:
    """Place of the first box of each box's track."""
    place = np.arange(len(previous))
    heads = np.flatnonzero((previous < 0) | (previous != place - 1))  # of runs of neighbours: mostly whole tracks
    run = np.repeat(np.arange(len(heads)), np.diff(heads, append=len(previous)))
    before = np.where(previous[heads] < 0, np.arange(len(heads)), run[previous[heads]])
    while ((further := before[before]) != before).any():  # each round doubles how far back it looks
        before = further
    return heads[before][run]


def _candidates(
    key: Ints, distance: int, open_end: NDArray[np.bool_], open_start: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """All pairs (box, box `distance` frames later) in one group whose ends are still free."""
    firsts, seconds = np.flatnonzero(open_end), np.flatnonzero(open_start)
    wanted = key[firsts] + distance
    begin, end = np.searchsorted(key[seconds], wanted, "left"), np.searchsorted(key[seconds], wanted, "right")
    count = end - begin
    first = np.repeat(firsts, count)
    inside = np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
    return first, seconds[np.repeat(begin, count) + inside]


def _match(first: Ints, second: Ints, overlap: Floats) -> tuple[Ints, Ints]:
    """One-to-one pairs, best overlap first (ties: lower rows), as rounds of pairs that are best for both ends."""
    alone = (np.bincount(first)[first] == 1) & (np.bincount(second)[second] == 1)
    taken = [np.stack([first[alone], second[alone]])]
    contested = np.flatnonzero(~alone)
    contested = contested[np.lexsort((second[contested], first[contested], -overlap[contested]))]
    first, second = first[contested], second[contested]
    while len(first):
        best_of_first, best_of_second = np.unique(first, return_index=True)[1], np.unique(second, return_index=True)[1]
        mutual = np.intersect1d(best_of_first, best_of_second)
        taken.append(np.stack([first[mutual], second[mutual]]))
        left = ~(np.isin(first, first[mutual]) | np.isin(second, second[mutual]))
        first, second = first[left], second[left]
    pairs = np.concatenate(taken, axis=1)
    return pairs[0], pairs[1]
