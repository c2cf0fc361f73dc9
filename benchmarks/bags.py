"""python -m benchmarks bags

The time to draw the batches of an epoch (12 bags of 1 + 4, τ = 12, 500 tracklets per video), compared with a plain
implementation: an N x N matrix of distances and a loop over anchors, where that is feasible.

Each measurement runs in its own process on one core. Memory is the peak above that of the imports.
Expected: less than 10 s and 2 GiB for a million tracklets in 2,000 videos, and time proportional to the tracklets.
"""

import sys

import numpy as np

from benchmarks.result import Result, Row, number_text
from benchmarks.timing import apart, report_work
from polyptrace.config import Supervision
from polyptrace.supervision.batches import epoch_batches

TRACKLETS_PER_VIDEO = 500
BAG_SIZE, TEMPERATURE = 4, 12.0


def table(tracklets: int) -> tuple[np.ndarray, np.ndarray]:
    """Video and position of tracks of about ten tracklets, 32 frames apart, with short breaks between tracks."""
    random = np.random.default_rng(0)
    steps = np.where(random.random(tracklets) < 0.9, 32, random.integers(33, 400, tracklets))
    return np.arange(tracklets) // min(TRACKLETS_PER_VIDEO, tracklets), np.cumsum(steps)


def ours(tracklets: int, composition: str) -> None:
    """The batches of one epoch."""
    video, position = table(tracklets)
    settings = Supervision(bag_size=BAG_SIZE, composition=composition)
    epoch_batches(video, position, settings, seed=0, epoch=1, temperature=lambda *_: TEMPERATURE)


def plain(tracklets: int) -> None:
    """The plain implementation: all distances at once, then anchor by anchor."""
    video, position = table(tracklets)
    random = np.random.default_rng(0)
    distance = np.abs(position[:, None] - position[None, :]).astype(np.float64)
    distance[video[:, None] != video[None, :]] = np.inf
    np.fill_diagonal(distance, np.inf)
    bags = []
    for row in distance:
        order = np.argsort(row)[: np.isfinite(row).sum()]
        weight = np.exp(-np.arange(1, len(order) + 1) / TEMPERATURE)
        bags.append(order[random.choice(len(order), BAG_SIZE, replace=False, p=weight / weight.sum())])
    random.permutation(len(bags))


def measure(quick: bool = False) -> Result:
    """Time for 10,000 tracklets; time and memory for a million. The details have all compositions of batches."""
    common, most = (1_000, 10_000) if quick else (10_000, 1_000_000)
    ((plain_seconds, plain_mebibytes),) = apart("benchmarks.bags", "plain", common)
    details = [("composition", "tracklets", "seconds", "MiB", "µs each")]
    times = {}
    for way in ("any",) if quick else ("any", "no-overlap", "one-per-video"):
        for tracklets in (common, most):
            ((seconds, mebibytes),) = apart("benchmarks.bags", way, tracklets)
            times[way, tracklets] = seconds, mebibytes
            numbers = map(number_text, (seconds, mebibytes, 1e6 * seconds / tracklets))
            details.append((way, f"{tracklets:,}", *numbers))
    target = {"least_ratio": None if quick else 100, "plain_name": "an N x N matrix of distances"}
    seconds, mebibytes = times["any", most]
    rows = (
        Row(f"bags of an epoch, {common:,} tracklets", "s", times["any", common][0], plain_seconds, **target),
        Row(f"bags of an epoch, {most:,} tracklets", "s", seconds, most=10),
        Row(f"bags of an epoch, {most:,} tracklets, memory", "MiB", mebibytes, most=2048),
    )
    details.append(("plain", f"{common:,}", number_text(plain_seconds), number_text(plain_mebibytes), ""))
    note = "One core, one process per measurement; memory above that of the imports."
    return Result("bags", rows, note, tuple(details))


if __name__ == "__main__":  # the measurement of one process
    way, tracklets = sys.argv[1], int(sys.argv[2])
    report_work(lambda: plain(tracklets) if way == "plain" else ours(tracklets, way))
