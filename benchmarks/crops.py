"""python -m benchmarks crops

Crop preparation in pictures per second, compared with plain PIL (open, convert, crop, resize) in one process: on one
thread and on all cores, each with its mean difference from the float result in grey levels. Then the time to open a
dataset and to gather a batch of 60 x 8 crops.

Pictures are 1350 x 1080 JPEGs of about 216 KiB: smooth colour with a little noise, with about as many bytes per pixel
as the frames of real clips.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms.v2.functional import resize

from benchmarks.result import Result, Row, number_text
from benchmarks.timing import best_of
from polyptrace.config import Crops, Tracks
from polyptrace.core.arrays import Float32s
from polyptrace.core.codec import decode_image, encode_jpeg
from polyptrace.core.console import counted
from polyptrace.data import Boxes, Dataset, prepare
from polyptrace.data.boxes import crop_regions
from polyptrace.data.crops.filling import fill_store

WIDTH, HEIGHT, SIZE = 1350, 1080, 232
PLAIN, DECODING = "plain PIL, one process", "decoding alone"
STORE = "crops.npy"


class Rate(NamedTuple):
    """Pictures per second of wall-clock time and of processor time."""

    wall: float = 0.0
    core: float = 0.0


def make_source(root: Path, pictures: int) -> Boxes:
    """One JPEG per frame with one box; box sizes as in REAL-Colon (0.1 to 0.4 of the picture)."""
    generator = torch.Generator().manual_seed(0)
    rng = np.random.default_rng(0)
    coarse = torch.rand(8, 3, 34, 43, generator=generator)
    scenes = torch.nn.functional.interpolate(coarse, (HEIGHT, WIDTH), mode="bicubic").clamp(0, 1)
    for index in range(pictures):
        noise = torch.randn(3, HEIGHT, WIDTH, generator=generator) * 0.005
        picture = ((scenes[index % 8] + noise).clamp(0, 1) * 255).to(torch.uint8)
        (root / f"{index:05d}.jpg").write_bytes(encode_jpeg(picture, 90))
    side = rng.uniform(0.1, 0.4, pictures) * np.sqrt(WIDTH * HEIGHT)
    corner = rng.uniform(0, 1, (pictures, 2)) * (np.array([WIDTH, HEIGHT]) - side[:, None])
    return Boxes.of(
        video="v",
        frame_index=np.arange(pictures),
        xywh=np.concatenate([corner, side[:, None], side[:, None]], 1),
        file=np.array([f"{index:05d}.jpg" for index in range(pictures)], object),
        image_width=WIDTH,
        image_height=HEIGHT,
        polyp="p",
    )


def repeated(boxes: Boxes, times: int) -> Boxes:
    """The same pictures several times, as different frames, so that start-up costs do not matter."""
    several = boxes.take(np.tile(np.arange(len(boxes)), times))
    return replace(several, frame_index=np.arange(len(several)))


def plain(root: Path, boxes: Boxes) -> NDArray[np.uint8]:
    """Crops as a careful script cuts them with PIL."""
    regions = crop_regions(boxes.xywh, boxes.image_width, boxes.image_height)
    crops = np.empty((len(boxes), SIZE, SIZE, 3), np.uint8)
    for row, (x, y, w, h) in enumerate(regions.tolist()):
        picture = Image.open(root / boxes.file[row]).convert("RGB")
        crops[row] = np.asarray(picture.crop((x, y, x + w, y + h)).resize((SIZE, SIZE), Image.Resampling.BILINEAR))
    return crops


def exact(root: Path, boxes: Boxes) -> Float32s:
    """Crops resized in floats."""
    regions = crop_regions(boxes.xywh, boxes.image_width, boxes.image_height)
    crops = np.empty((len(boxes), SIZE, SIZE, 3), np.float32)
    for row, (x, y, w, h) in enumerate(regions.tolist()):
        picture = decode_image((root / boxes.file[row]).read_bytes())[:, y : y + h, x : x + w].float()
        crops[row] = resize(picture, [SIZE, SIZE], antialias=True).permute(1, 2, 0).numpy()
    return crops


def filled(root: Path, boxes: Boxes, decoding: str, workers: int) -> NDArray[np.uint8]:
    """Crops of a new store."""
    assert not fill_store(root / STORE, boxes, root, Crops(decoding=decoding, workers=workers))
    crops: NDArray[np.uint8] = np.load(root / STORE, mmap_mode="r")
    return crops


def decode_only(root: Path, boxes: Boxes) -> None:
    """Decodes every picture; nothing is cut."""
    for file in boxes.file:
        decode_image((root / file).read_bytes())


def measure(quick: bool = False) -> Result:
    """Pictures per second of every variant; then opening a dataset and gathering from it."""
    pictures = 24 if quick else 300
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        boxes = make_source(root, pictures)
        truth = exact(root, boxes.take(np.arange(min(pictures, 60))))
        rates, differences = measure_rates(root, boxes, truth, 1 if quick else 10)
        row = Row(
            "crops, one core",
            "pictures/s",
            rates[_variant(1)].core,
            rates[PLAIN].core,
            rates[DECODING].core,
            more_is_better=True,
            least_ratio=2.0,
            plain_name="PIL",
            limit_name=DECODING,
        )
        rows = (row, *measure_reading(root, boxes))
    details: list[tuple[str, ...]] = [("variant", "pictures/s", "per processor second", "grey levels from exact")]
    details += [(name, *map(number_text, rates[name]), difference) for name, difference in differences.items()]
    note = (
        f"{pictures} JPEGs of {WIDTH} × {HEIGHT}, crops of {SIZE} pixels; the variants alternate. "
        "Plain: PIL in one process. Limit: decoding alone; for gathering, a copy of the bytes. "
        "One core: processor time."
    )
    return Result("crops", rows, note, tuple(details))


def measure_rates(root: Path, boxes: Boxes, truth: Float32s, rounds: int) -> tuple[dict[str, Rate], dict[str, str]]:
    """Rates of all variants over all rounds, and the difference from exact of those that cut crops.

    The variants alternate, so that a disturbance of the machine affects all of them. Several threads get three times
    the pictures; otherwise starting and ending would dominate.
    """
    several = repeated(boxes, 3)
    variants: dict[str, tuple[Boxes, Callable[[], NDArray[np.uint8] | None]]]
    variants = {PLAIN: (boxes, partial(plain, root, boxes))}
    for workers in sorted({1, len(os.sched_getaffinity(0))}):
        some = boxes if workers == 1 else several
        variants[_variant(workers)] = some, partial(filled, root, some, "full", workers)
    variants[DECODING] = boxes, partial(decode_only, root, boxes)
    spent, differences = {name: np.zeros(2) for name in variants}, dict[str, str]()
    for _ in range(rounds):
        for name, (_, variant) in variants.items():
            (root / STORE).unlink(missing_ok=True)
            start = np.array([perf_counter(), process_time()])
            crops = variant()
            spent[name] += np.array([perf_counter(), process_time()]) - start
            if crops is not None:
                differences[name] = f"{np.abs(crops[: len(truth)] - truth).mean():.3f}"
    rates = {name: Rate(*(rounds * len(some) / spent[name]).tolist()) for name, (some, _) in variants.items()}
    return rates, differences


def measure_reading(root: Path, boxes: Boxes) -> list[Row]:
    """Milliseconds to open a dataset and to gather a batch of 60 x 8 crops, and to copy its bytes."""
    prepare(boxes, root, root / "d", Tracks(iou=0.0, min_track=8, stride=1), Crops(size=SIZE))
    opening, dataset = best_of(5, lambda: Dataset.open(root / "d"))
    indices = np.resize(dataset.select("tracklet"), 60)
    frames, _ = dataset.gather(indices)
    gathering, _ = best_of(10, lambda: dataset.gather(indices))
    target = torch.empty_like(frames)
    copying, _ = best_of(10, lambda: target.copy_(frames))
    return [
        Row("opening a dataset", "ms", 1e3 * opening),
        Row("gathering 60 × 8 crops", "ms", 1e3 * gathering, limit=1e3 * copying, limit_name="a copy of the bytes"),
    ]


def _variant(workers: int) -> str:
    return f"ours, {counted(workers, 'thread')}"
