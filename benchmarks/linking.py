"""python -m benchmarks linking

Linking and cutting of 100k and 1M boxes, compared with a plain loop over the boxes of each polyp, which
finds the same tracks. The limit is the time to compute the IoU of all neighbouring boxes.
"""

from time import process_time

import numpy as np

from benchmarks.result import Result, Row
from benchmarks.timing import best_of
from polyptrace.data import Boxes, cut_tracklets, link_tracks
from polyptrace.data.tracks import box_iou

BOXES_PER_VIDEO = 5_000


def random_walk(n: int, seed: int = 0) -> Boxes:
    """Boxes of n / 5000 videos that drift, sometimes jump, and are sometimes missing for a few frames."""
    return Boxes.concatenate(
        [_video(f"{v:05d}", np.random.default_rng((seed, v))) for v in range(n // BOXES_PER_VIDEO)]
    )


def _video(name: str, rng: np.random.Generator) -> Boxes:
    n = BOXES_PER_VIDEO
    step = rng.normal(0, 4, (n, 2)) + (rng.random((n, 1)) < 0.01) * rng.normal(0, 400, (n, 2))
    corner = np.abs(np.cumsum(step, 0)) % 800
    return Boxes.of(
        video=name,
        frame_index=np.cumsum(np.where(rng.random(n) < 0.01, rng.integers(2, 60, n), 1)),
        xywh=np.concatenate([corner, np.full((n, 2), 120.0)], 1),
        polyp=[f"{name}_{1}" for _ in range(n)],  # a separate string object per row, as parsers make them
    )


def crowded(boxes: Boxes) -> Boxes:
    """The boxes, and in a tenth of the frames (runs of 50) a second polyp next to the first."""
    rows = np.flatnonzero(np.arange(len(boxes)) // 50 % 10 == 0)
    names = [f"{name}b" for name in boxes.polyp[rows]]
    second = Boxes.of(
        video=boxes.video[rows],
        frame_index=boxes.frame_index[rows],
        xywh=boxes.xywh[rows] + (200, 0, 0, 0),
        polyp=names,
    )
    return Boxes.concatenate([boxes, second]).in_order()


def plain_link(boxes: Boxes) -> list[list[int]]:
    """Tracks as a careful script links them: the boxes of each polyp, frame by frame."""
    of_polyp: dict[str, list[int]] = {}
    for row in range(len(boxes)):
        of_polyp.setdefault(boxes.polyp[row], []).append(row)
    tracks: list[list[int]] = []
    for rows in of_polyp.values():
        last = -1
        for row in sorted(rows, key=lambda r: boxes.frame_index[r]):
            if (
                last >= 0
                and boxes.frame_index[row] == boxes.frame_index[last] + 1
                and plain_iou(boxes, last, row) >= 0.1
            ):
                tracks[-1].append(row)
            else:
                tracks.append([row])
            last = row
    return tracks


def plain_iou(boxes: Boxes, a: int, b: int) -> float:
    """IoU of two rows."""
    ax, ay, aw, ah = boxes.xywh[a]
    bx, by, bw, bh = boxes.xywh[b]
    width = max(0.0, min(ax + aw, bx + bw) - max(ax, bx))
    height = max(0.0, min(ay + ah, by + bh) - max(ay, by))
    return width * height / (aw * ah + bw * bh - width * height)


def measure(quick: bool = False) -> Result:
    """Milliseconds to link by polyp and within videos, and to cut."""
    rows = []
    for n in (10_000,) if quick else (100_000, 1_000_000):
        boxes = random_walk(n)
        rows.append(linking_row(f"linking by polyp, {n:,} boxes", boxes))
        if n <= 100_000:
            several = crowded(boxes)
            what = f"linking by polyp, {len(several):,} boxes, two polyps in a tenth of the frames"
            rows.append(linking_row(what, several))
        by_video, track = best_of(9, lambda b=boxes: link_tracks(b, "video"), process_time)
        cut, _ = best_of(9, lambda b=boxes, t=track: cut_tracklets(b, t), process_time)
        rows.append(Row(f"linking without identities, {n:,} boxes", "ms", 1e3 * by_video))
        rows.append(Row(f"cutting tracklets, {n:,} boxes", "ms", 1e3 * cut))
    note = "Processor time of one core, best of several runs. Limit: the IoUs alone."
    return Result("linking", tuple(rows), note)


def linking_row(what: str, boxes: Boxes) -> Row:
    """Linking, the plain loop (for less than 200,000 boxes), and the IoUs alone."""
    ours, track = best_of(25, lambda: link_tracks(boxes), process_time)
    limit, _ = best_of(25, lambda: box_iou(boxes.xywh[:-1], boxes.xywh[1:]), process_time)
    plain = None
    if len(boxes) < 200_000:
        seconds, tracks = best_of(5, lambda: plain_link(boxes), process_time)
        assert len(tracks) == track.max() + 1, "both must find the same tracks"
        plain = 1e3 * seconds
    names = {"plain_name": "a loop over boxes", "limit_name": "the IoUs alone"}
    return Row(what, "ms", 1e3 * ours, plain, 1e3 * limit, **names)
