"""Clocks: the best of several runs, and seconds and memory in a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
#: The libraries of products read it when they start.
ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def best_of(repeats: int, function: Callable[[], T], clock: Callable[[], float] = time.perf_counter) -> tuple[float, T]:
    """Seconds of the best of several runs, and the result: the best is what others disturbed least.

    For work on one core `time.process_time` is the fairer clock where the machine is shared.
    """
    best = float("inf")
    for _ in range(repeats):
        start = clock()
        result = function()
        best = min(best, clock() - start)
    return best, result


def mebibytes(kind: str) -> float:
    """Memory of this process: "VmRSS" now, "VmHWM" at most since it was last forgotten, "RssAnon" without files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:")) / 1024


def forget_peak() -> float:
    """The peak counts from here on; returns the memory now."""
    Path("/proc/self/clear_refs").write_text("5")
    return mebibytes("VmRSS")


def report_work(work: Callable[[], object], before: float | None = None, repeats: int = 1) -> None:
    """Prints processor seconds of some work, and its peak in MiB beyond `before` (what is there now): see `apart`."""
    now = forget_peak()
    seconds, _ = best_of(repeats, work, time.process_time)
    print(seconds, mebibytes("VmHWM") - (now if before is None else before))


def apart(module: str, *arguments: object) -> list[tuple[float, float]]:
    """(seconds, MiB) of each line of `python -m MODULE ARGUMENTS`: a process of its own, on one core."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env={**os.environ, **ONE_CORE})
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed:\n{done.stderr}")
    return [(float(seconds), float(memory)) for seconds, memory in map(str.split, done.stdout.splitlines())]
