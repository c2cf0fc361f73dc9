"""python benchmarks/bags.py [--full]

An epoch's batches (12 bags of 1 + 4, τ = 12, 500 tracklets a video) for more and more tracklets, beside the plain way,
an N x N matrix of distances and a loop over anchors, at the sizes that it can do. --full goes to a million tracklets.

Each measurement is a process of its own. Seconds are those of one core; memory is the peak beyond what imports need.
Expected: under 10 s and 2 GiB for a million tracklets in 2,000 videos, and time that grows as tracklets to the power 1.
"""

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
import torch

from polyptrace.supervision import epoch_batches

TRACKLETS_PER_VIDEO = 500
BAG_SIZE, TEMPERATURE = 4, 12.0


def table(tracklets: int) -> tuple[np.ndarray, np.ndarray]:
    """Video and position: tracks of about ten tracklets 32 frames apart, short breaks between them."""
    random = np.random.default_rng(0)
    steps = np.where(random.random(tracklets) < 0.9, 32, random.integers(33, 400, tracklets))
    return np.arange(tracklets) // min(TRACKLETS_PER_VIDEO, tracklets), np.cumsum(steps)


def ours(tracklets: int, composition: str) -> None:
    """The batches of one epoch."""
    video, position = table(tracklets)
    epoch_batches(video, position, seed=0, epoch=1, temperature=TEMPERATURE, bag_size=BAG_SIZE, composition=composition)


def plain(tracklets: int) -> None:
    """The same bags without any thought: all distances at once, then anchor by anchor."""
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


def measured(way: str, tracklets: int) -> tuple[float, float]:
    """(seconds, MiB) of one way in a process of its own."""
    command = [sys.executable, __file__, "--one", way, str(tracklets)]
    seconds, mebibytes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), float(mebibytes)


def measure_here(way: str, tracklets: int) -> None:
    """Prints seconds and MiB of one way in this process."""
    torch.set_num_threads(1)
    imports = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    plain(tracklets) if way == "plain" else ours(tracklets, way)
    seconds = time.process_time() - start
    print(seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - imports) / 1024)


def main() -> None:
    """Measures every way at every size and prints how each grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="up to a million tracklets")
    parser.add_argument("--one", nargs=2, metavar=("WAY", "TRACKLETS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        measure_here(arguments.one[0], int(arguments.one[1]))
        return
    sizes = [1_000, 10_000, 100_000, *([1_000_000] if arguments.full else [])]
    ways = {"any": sizes, "no-overlap": sizes, "one-per-video": sizes, "plain": [1_000, 3_000, 10_000]}
    print(f"{'way':>14} {'tracklets':>10} {'core s':>9} {'MiB':>7} {'µs each':>8}  time grows as tracklets to the")
    for way, tracklets in ways.items():
        before = None
        for n in tracklets:
            seconds, mebibytes = measured(way, n)
            power = "" if before is None else f"{np.log(seconds / before[1]) / np.log(n / before[0]):.2f}"
            print(
                f"{way:>14} {n:>10,} {seconds:>9.3f} {mebibytes:>7.0f} {1e6 * seconds / n:>8.1f}  {power}", flush=True
            )
            before = n, seconds


if __name__ == "__main__":
    main()
