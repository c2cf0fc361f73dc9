"""python -m benchmarks.linking [--full]

Linking and cutting for 10k, 100k (and with --full 1M) boxes: seconds, peak memory and growth, beside a plain loop over
boxes (one dictionary of open tracks per video, IoU box by box) that gives the same tracks.
"""

import argparse
import resource
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from polyptrace.data import Boxes, cut_tracklets, link_tracks

T = TypeVar("T")
BOXES_PER_VIDEO = 5_000


def random_walk(n: int, seed: int = 0) -> Boxes:
    """Boxes of n / 5000 videos that drift, jump now and then, and sometimes vanish for a few frames."""
    rng = np.random.default_rng(seed)
    videos = n // BOXES_PER_VIDEO
    step = rng.normal(0, 4, (n, 2)) + (rng.random((n, 1)) < 0.01) * rng.normal(0, 400, (n, 2))
    place = np.abs(np.cumsum(step, 0)) % 800
    gaps = np.where(rng.random(n) < 0.01, rng.integers(2, 60, n), 1).reshape(videos, -1)
    return Boxes.of(
        video=np.repeat([f"{v:05d}" for v in range(videos)], BOXES_PER_VIDEO).astype(object),
        frame_index=np.cumsum(gaps, 1).ravel(),
        xywh=np.concatenate([place, np.full((n, 2), 120.0)], 1),
        polyp=np.repeat([f"{v:05d}_1" for v in range(videos)], BOXES_PER_VIDEO).astype(object),
    )


def plain_link(boxes: Boxes) -> list[list[int]]:
    """What a careful script does: boxes of each polyp by frame, one after the other."""
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


def timed(function: Callable[[], T]) -> tuple[float, T]:
    """Seconds of the best of three runs, and the result."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="also one million boxes")
    sizes = [10_000, 100_000] + ([1_000_000] if parser.parse_args().full else [])
    names = ("link s", "video s", "cut s", "plain s")
    print(f"{'boxes':>10} {' '.join(f'{name:>8}' for name in names)} {'ratio':>6} {'peak MiB':>9} {'growth':>7}")
    before = 0.0
    for n in sizes:
        boxes = random_walk(n)
        link, track = timed(lambda b=boxes: link_tracks(b))
        by_video, _ = timed(lambda b=boxes: link_tracks(b, "video"))
        cut, _ = timed(lambda b=boxes, t=track: cut_tracklets(b, t))
        plain, tracks = timed(lambda b=boxes: plain_link(b)) if n <= 100_000 else (float("nan"), None)
        assert tracks is None or len(tracks) == track.max() + 1, "both ways find the same tracks"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        growth = f"{link / before:.1f}x" if before else ""
        print(
            f"{n:>10,} {link:8.3f} {by_video:8.3f} {cut:8.3f} {plain:8.3f} {plain / link:6.1f} {peak:9.0f} {growth:>7}"
        )
        before = link


if __name__ == "__main__":
    main()
