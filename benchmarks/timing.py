"""Time of the best of several runs, and time and memory of a separate process."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

T = TypeVar("T")
#: Environment variables that limit numerical libraries to one thread; read when they are loaded.
ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def best_of(repeats: int, function: Callable[[], T], clock: Callable[[], float] = time.perf_counter) -> tuple[float, T]:
    """Seconds of the best of several runs, which other processes disturbed least, and the result.

    On a shared machine, use `time.process_time` for work on one core.
    """
    best = float("inf")
    for _ in range(repeats):
        start = clock()
        result = function()
        best = min(best, clock() - start)
    return best, result


def synchronise(device: torch.device) -> None:
    """Waits until the device has finished its queue."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def now(device: torch.device) -> float:
    """Seconds on the clock, after the device has finished its queue."""
    synchronise(device)
    return time.perf_counter()


def mebibytes(kind: str, process: int | str = "self") -> float:
    """MiB of a process: "VmRSS" now, "VmHWM" the peak (since `forget_peak`), "RssAnon" without files; 0 if it ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{kind}:")), 0) / 1024


def forget_peak() -> float:
    """Resets the peak; returns the MiB in use."""
    Path("/proc/self/clear_refs").write_text("5")
    return mebibytes("VmRSS")


def report_work(work: Callable[[], object], before: float | None = None, repeats: int = 1) -> None:
    """Prints the processor seconds of `work` and its peak MiB above `before` (default: now); see `apart`."""
    now = forget_peak()
    seconds, _ = best_of(repeats, work, time.process_time)
    print(seconds, mebibytes("VmHWM") - (now if before is None else before))


def apart(module: str, *arguments: object) -> list[tuple[float, float]]:
    """(seconds, MiB) of each line that `python -m MODULE ARGUMENTS` prints, in a separate process on one core."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env={**os.environ, **ONE_CORE})
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed:\n{done.stderr}")
    return [(float(seconds), float(memory)) for seconds, memory in map(str.split, done.stdout.splitlines())]
