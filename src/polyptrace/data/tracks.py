"""Tracks: runs of boxes in consecutive frames, each overlapping the last.

Boxes of one group (a polyp, a given track, or a whole video) are matched one-to-one from frame to frame, best overlap
first, where IoU >= 0.1. With `max_gap`, boxes that found no partner in the next frame may find one up to `max_gap`
missing frames later. All frames of all videos are matched at once, so the cost is linear in the number of boxes.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polyptrace.data.boxes import Boxes, Floats, Ints, codes
from polyptrace.errors import UserError

Within = Literal["polyp", "track", "video"]


def link_tracks(boxes: Boxes, within: Within = "polyp", iou: float = 0.1, max_gap: int = 0) -> Ints:
    """Track of each box (n,), numbered by video, first frame and first box; labels and row order cannot change it.

    `within` says what linking may use: "polyp" (identities), "track" (ids of a tracker) or "video" (boxes alone).
    """
    order = boxes.order()
    group = boxes.procedure()
    if within != "video":
        group = group * (len(boxes) + 1) + _identities(boxes, within)
    group, frame, xywh = group[order], boxes.frame_index[order], boxes.xywh[order]

    previous, following = (
        np.full(len(boxes), -1),
        np.full(len(boxes), -1),
    )  # neighbours in the track, as places in order
    for distance in range(1, max_gap + 2):
        first, second = _candidates(group, frame, distance, following < 0, previous < 0)
        overlap = box_iou(xywh[first], xywh[second])
        keep = overlap >= iou
        first, second = _match(first[keep], second[keep], overlap[keep], len(boxes))
        following[first], previous[second] = second, first

    begin = np.where(previous < 0, np.arange(len(boxes)), previous)
    while ((further := begin[begin]) != begin).any():  # each round doubles how far back it looks
        begin = further
    track = np.empty(len(boxes), np.int64)
    track[order] = (np.cumsum(previous < 0) - 1)[begin]
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
    nameless = np.flatnonzero(names == "")
    if len(nameless):
        raise UserError(
            f"{boxes.where(nameless[0])}: has no {within} id ({len(nameless):,} of {len(boxes):,} boxes have none) "
            "-> link without identities: --tracks.link video"
        )
    return codes(names)


def _candidates(
    group: Ints, frame: Ints, distance: int, open_end: NDArray[np.bool_], open_start: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """All pairs (box, box `distance` frames later) in one group whose ends are still free."""
    firsts, seconds = np.flatnonzero(open_end), np.flatnonzero(open_start)
    span = int(frame.max(initial=0)) + distance + 2
    key = group[seconds] * span + frame[seconds]
    by_key = np.argsort(key, kind="stable")
    key, seconds = key[by_key], seconds[by_key]
    wanted = group[firsts] * span + frame[firsts] + distance
    begin, end = np.searchsorted(key, wanted, "left"), np.searchsorted(key, wanted, "right")
    count = end - begin
    first = np.repeat(firsts, count)
    inside = np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
    return first, seconds[np.repeat(begin, count) + inside]


def _match(first: Ints, second: Ints, overlap: Floats, n: int) -> tuple[Ints, Ints]:
    """One-to-one pairs, best overlap first (ties: lower rows), as rounds of pairs that are best for both ends."""
    alone = (np.bincount(first, minlength=n)[first] == 1) & (np.bincount(second, minlength=n)[second] == 1)
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
