"""Tracks: runs of boxes in consecutive frames, each overlapping the last.

Boxes of one group (a polyp, a given track, or a whole video) are matched one-to-one from frame to frame, best overlap
first, where IoU >= 0.1. With `max_gap`, boxes that found no partner in the next frame may find one up to `max_gap`
missing frames later. All frames of all videos are matched at once, so the cost is linear in the number of boxes.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from polyptrace.data.boxes import Boxes, Floats, Ints, codes
from polyptrace.errors import UserError

Within = Literal["polyp", "track", "video"]


def link_tracks(boxes: Boxes, within: Within = "polyp", iou: float = 0.1, max_gap: int = 0) -> Ints:
    """Track of each box (n,), numbered by video, first frame and first box; labels and row order cannot change it.

    `within` says what linking may use: "polyp" (identities), "track" (ids of a tracker) or "video" (boxes alone).
    """
    order = boxes.order()
    ordered = boxes.take(order)
    group = codes(ordered.dataset) * (len(boxes) + 1) + codes(ordered.video)
    if within != "video":
        group = group * (len(boxes) + 1) + _identities(ordered, within)
    _, group = np.unique(group, return_inverse=True)

    previous = np.full(len(boxes), -1)  # box that comes before this one in its track
    following = np.full(len(boxes), -1)
    for distance in range(1, max_gap + 2):
        first, second = _candidates(group, ordered.frame_index, distance, following < 0, previous < 0)
        overlap = box_iou(ordered.xywh[first], ordered.xywh[second])
        keep = overlap >= iou
        first, second = _match(first[keep], second[keep], overlap[keep], len(boxes))
        following[first], previous[second] = second, first

    linked = np.flatnonzero(previous >= 0)
    graph = coo_array((np.ones(len(linked), np.int8), (linked, previous[linked])), shape=(len(boxes),) * 2)
    _, component = connected_components(graph, directed=False)
    track = np.empty(len(boxes), np.int64)
    track[order] = _by_first_row(component)
    return track


def box_iou(a: Floats, b: Floats) -> Floats:
    """Intersection over union of boxes (n, 4) x, y, w, h, row by row."""
    low = np.maximum(a[:, :2], b[:, :2])
    high = np.minimum(a[:, :2] + a[:, 2:], b[:, :2] + b[:, 2:])
    intersection = np.clip(high - low, 0, None).prod(1)
    union = a[:, 2:].prod(1) + b[:, 2:].prod(1) - intersection
    overlap: Floats = np.divide(intersection, union, out=np.zeros(len(a)), where=union > 0)
    return overlap


def _identities(boxes: Boxes, within: Within) -> Ints:
    names = boxes.polyp if within == "polyp" else boxes.track
    nameless = np.flatnonzero(names == "")
    if len(nameless):
        raise UserError(
            f"{boxes.where(nameless[0])}: has no {within} id ({len(nameless):,} of {len(boxes):,} boxes have none) "
            f"-> link without identities: --tracks.link video"
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
    order = np.lexsort((second, first, -overlap))
    first, second = first[order], second[order]
    taken: list[Ints] = []
    while len(first):
        rank = np.arange(len(first))
        best_of_first, best_of_second = np.full(n, len(first)), np.full(n, len(first))
        np.minimum.at(best_of_first, first, rank)
        np.minimum.at(best_of_second, second, rank)
        mutual = (best_of_first[first] == rank) & (best_of_second[second] == rank)
        taken.append(np.stack([first[mutual], second[mutual]]))
        used_first, used_second = np.zeros(n, bool), np.zeros(n, bool)
        used_first[first[mutual]] = used_second[second[mutual]] = True
        left = ~(used_first[first] | used_second[second])
        first, second = first[left], second[left]
    pairs = np.concatenate(taken, 1) if taken else np.empty((2, 0), np.int64)
    return pairs[0], pairs[1]


def _by_first_row(component: NDArray[np.integer]) -> Ints:
    """Components renumbered by the first row in which each appears."""
    _, first_row, inverse = np.unique(component, return_index=True, return_inverse=True)
    place = np.empty(len(first_row), np.int64)
    place[np.argsort(first_row)] = np.arange(len(first_row))
    return place[inverse]
