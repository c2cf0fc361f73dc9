"""python -m benchmarks nvjpeg

Crop preparation with nvJPEG in pictures per second, end to end, compared with full decoding on all cores of the same
machine: nvJPEG is worth its code if it is at least 1.5 times as fast. The limit is nvJPEG alone with the pictures
already in memory.
"""

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch

from benchmarks.crops import STORE, filled, make_source, repeated
from benchmarks.result import Result, Row, number_text
from benchmarks.timing import best_of
from polyptrace.core.codec import decode_jpegs
from polyptrace.data import Boxes

BATCH_SIZES, THREADS = (32, 64, 128), (1, 2, 4, 8)


def measure(quick: bool = False) -> Result:
    """Pictures per second with nvJPEG and with all cores."""
    pictures, times = (24, 1) if quick else (120, 40)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        boxes = repeated(make_source(root, pictures), times)
        cores = len(os.sched_getaffinity(0))
        rates = {f"full decoding, {cores} threads": _rate(root, boxes, "full", cores)}
        rates |= {f"nvJPEG, {threads} threads": _rate(root, boxes, "nvjpeg", threads) for threads in THREADS}
        limit = max(_nvjpeg_alone(root, boxes, batch) for batch in BATCH_SIZES)
    plain, *ours = rates.values()
    row = Row(
        "crops, nvJPEG",
        "pictures/s",
        max(ours),
        plain,
        limit,
        more_is_better=True,
        least_ratio=1.5,
        least_share=0.8,
        plain_name=f"full decoding, {cores} threads",
        limit_name="nvJPEG alone",
    )
    details = (("variant", "pictures/s"), *((name, number_text(rate)) for name, rate in rates.items()))
    return Result("nvjpeg", (row,), f"{len(boxes):,} pictures. Plain: full decoding on all cores.", details)


def _rate(root: Path, boxes: Boxes, decoding: str, workers: int) -> float:
    def fill() -> None:
        (root / STORE).unlink(missing_ok=True)
        filled(root, boxes, decoding, workers)

    return len(boxes) / best_of(3, fill)[0]


def _nvjpeg_alone(root: Path, boxes: Boxes, batch: int) -> float:
    contents = [bytearray((root / file).read_bytes()) for file in boxes.file]
    batches = [contents[first : first + batch] for first in range(0, len(contents), batch)]
    device = torch.device("cuda")

    def decode_all() -> None:
        with ThreadPoolExecutor(4) as pool:
            for _ in pool.map(partial(decode_jpegs, device=device), batches):
                pass
        torch.cuda.synchronize(device)

    decode_all()
    return len(contents) / best_of(3, decode_all)[0]
