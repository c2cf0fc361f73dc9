"""python -m benchmarks.crops [--pictures N]

Crop preparation, pictures per second, beside plain PIL (open, convert, crop, resize) in one process, in the same run:
the whole of it on one and on two threads, with full and with scaled decoding, each with its mean difference from the
float path in grey levels; then opening the dataset and gathering batches of 60 x 8 crops. Where there is a GPU, also
nvJPEG: the best rate that it reaches alone for the same pictures, forty times over and already in memory; what crop
preparation with it reaches; and how fast each of its steps alone would be.

Pictures are 1350 x 1080 JPEGs of about 216 KiB: smooth colour with a little noise, about as many bytes a
pixel as the frames of real clips have.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms.v2.functional import resize

from benchmarks.result import Result, Row, number
from benchmarks.timing import best_of
from polyptrace.config import Crops, Tracks
from polyptrace.core.codec import decode_jpegs, encode_jpeg
from polyptrace.data import Boxes, Dataset, crop_regions, prepare
from polyptrace.data.crops import fill_store
from polyptrace.data.crops.nvjpeg import PICTURES_PER_BATCH, cut_crops, to_host
from polyptrace.data.crops.pictures import decode_picture
from polyptrace.data.crops.regions import shrink_factor

WIDTH, HEIGHT, SIZE = 1350, 1080, 232
PLAIN = "plain PIL, one process"
STORE = "crops.npy"


class Rate(NamedTuple):
    """Pictures per second by the clock on the wall, and per second of processor time."""

    wall: float = 0.0
    core: float = 0.0


def make_source(root: Path, pictures: int) -> Boxes:
    """One JPEG a frame with one box; box sizes as in REAL-Colon (0.1 to 0.4 of the picture)."""
    generator = torch.Generator().manual_seed(0)
    rng = np.random.default_rng(0)
    coarse = torch.rand(8, 3, 34, 43, generator=generator)
    scenes = torch.nn.functional.interpolate(coarse, (HEIGHT, WIDTH), mode="bicubic").clamp(0, 1)
    for place in range(pictures):
        noise = torch.randn(3, HEIGHT, WIDTH, generator=generator) * 0.005
        picture = ((scenes[place % 8] + noise).clamp(0, 1) * 255).to(torch.uint8)
        (root / f"{place:05d}.jpg").write_bytes(encode_jpeg(picture, 90))
    side = rng.uniform(0.1, 0.4, pictures) * np.sqrt(WIDTH * HEIGHT)
    place = rng.uniform(0, 1, (pictures, 2)) * (np.array([WIDTH, HEIGHT]) - side[:, None])
    return Boxes.of(
        video="v",
        frame_index=np.arange(pictures),
        xywh=np.concatenate([place, side[:, None], side[:, None]], 1),
        file=np.array([f"{place:05d}.jpg" for place in range(pictures)], object),
        image_width=WIDTH,
        image_height=HEIGHT,
        polyp="p",
    )


def plain(root: Path, boxes: Boxes) -> NDArray[np.uint8]:
    """What a careful script does with PIL."""
    regions = crop_regions(boxes.xywh, boxes.image_width, boxes.image_height)
    crops = np.empty((len(boxes), SIZE, SIZE, 3), np.uint8)
    for row, (x, y, w, h) in enumerate(regions.tolist()):
        picture = Image.open(root / boxes.file[row]).convert("RGB")
        crops[row] = np.asarray(picture.crop((x, y, x + w, y + h)).resize((SIZE, SIZE), Image.Resampling.BILINEAR))
    return crops


def exact(root: Path, boxes: Boxes) -> NDArray[np.float32]:
    """The float path: decode, crop, antialiased resize of floats."""
    regions = crop_regions(boxes.xywh, boxes.image_width, boxes.image_height)
    crops = np.empty((len(boxes), SIZE, SIZE, 3), np.float32)
    for row, (x, y, w, h) in enumerate(regions.tolist()):
        picture = decode_picture((root / boxes.file[row]).read_bytes())[:, y : y + h, x : x + w].float()
        crops[row] = resize(picture, [SIZE, SIZE], antialias=True).permute(1, 2, 0).numpy()
    return crops


def measure(quick: bool = False, pictures: int = 0) -> Result:
    """Pictures per second of every way to crops; then opening a dataset and gathering from it."""
    with_gpu = torch.cuda.is_available()
    pictures = pictures or (24 if quick else 120 if with_gpu else 300)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        boxes = make_source(root, pictures)
        truth = exact(root, boxes.take(np.arange(min(pictures, 60))))
        rates, differences = on_cpu(root, boxes, truth, 1 if quick else 3 if with_gpu else 10)
        details: list[tuple[str, ...]] = [("way", "pictures/s", "per processor second", "grey levels from exact")]
        details += [(way, *map(number, rates[way]), difference) for way, difference in differences.items()]
        rows = [
            Row(
                f"crops, {decoding} decoding, one core",
                "pictures/s",
                rates[_ours(decoding, 1)].core,
                rates[PLAIN].core,
                rates[f"decoding alone, {decoding}"].core,
                more_is_better=True,
                least_ratio=target,
            )
            for decoding, target in (("full", 2.0), ("scaled", 4.0))
        ]
        two = rates[_ours("full", 2)].wall
        rows.append(Row("… two threads", "pictures/s", two, rates[PLAIN].wall, more_is_better=True, least_ratio=4))
        if with_gpu:
            rows.append(on_gpu(root, _again(boxes, 1 if quick else 40), rates[PLAIN].wall, truth, details))
        rows += reading(root, boxes)
    note = (
        f"{pictures} JPEGs of {WIDTH} × {HEIGHT}, crops of {SIZE} pixels; all rounds together, in which the ways take "
        "turns. Plain: PIL in one process; limit: decoding alone at the same scale, for gathering a copy of the bytes. "
        "One core: processor time; else the clock's."
    )
    return Result("crops", tuple(rows), note, tuple(details))


def on_cpu(root: Path, boxes: Boxes, truth: NDArray[np.float32], rounds: int) -> tuple[dict[str, Rate], dict[str, str]]:
    """Rates of every way over all rounds together, and how far from exact those are that give crops.

    Ways take turns: what disturbs a machine for a while then disturbs all of them. Several threads get three times the
    pictures, or they would mostly start and end.
    """
    several = _again(boxes, 3)
    ways: dict[str, tuple[Boxes, Callable[[], NDArray[np.uint8] | None]]]
    ways = {PLAIN: (boxes, partial(plain, root, boxes))}
    for decoding in ("full", "scaled"):
        for workers in sorted({1, 2, len(os.sched_getaffinity(0))}):
            some = boxes if workers == 1 else several
            ways[_ours(decoding, workers)] = some, partial(_filled, root, some, decoding, workers)
        ways[f"decoding alone, {decoding}"] = boxes, partial(decode_only, root, boxes, decoding == "scaled")
    spent, differences = {name: np.zeros(2) for name in ways}, dict[str, str]()
    for _ in range(rounds):
        for name, (_, way) in ways.items():
            (root / STORE).unlink(missing_ok=True)
            began = np.array([perf_counter(), process_time()])
            crops = way()
            spent[name] += np.array([perf_counter(), process_time()]) - began
            if crops is not None:
                differences[name] = _difference(crops, truth)
    rates = {name: Rate(*(rounds * len(some) / spent[name]).tolist()) for name, (some, _) in ways.items()}
    return rates, differences


def decode_only(root: Path, boxes: Boxes, scaled: bool) -> None:
    """Our decoder at the scale that the regions allow; nothing is cut."""
    regions = crop_regions(boxes.xywh, boxes.image_width, boxes.image_height)
    for file, region in zip(boxes.file, regions, strict=True):
        decode_picture((root / file).read_bytes(), shrink_factor(region[None], SIZE) if scaled else 1)


def on_gpu(root: Path, boxes: Boxes, rate: float, truth: NDArray[np.float32], details: list[tuple[str, ...]]) -> Row:
    """The whole of crop preparation with nvJPEG, beside the best that nvJPEG alone reaches with pictures in memory."""
    contents = [bytearray((root / file).read_bytes()) for file in boxes.file]
    device = torch.device("cuda")
    limit = 0.0
    for batch in (16, 32, 64, 128):
        for threads in (1, 4):
            reached = nvjpeg_alone(contents, device, batch, threads)
            details.append((_threads(f"nvJPEG alone, {batch} at a time", threads), number(reached), "", ""))
            limit = max(limit, reached)
    ours = 0.0
    for workers in (1, 2, 4, 8):
        found = []
        for _ in range(3):
            (root / STORE).unlink(missing_ok=True)
            found.append(best_of(1, partial(_filled, root, boxes, "nvjpeg", workers)))
        seconds, crops = min(found, key=itemgetter(0))
        details.append((_ours("nvJPEG", workers), number(len(boxes) / seconds), "", _difference(crops, truth)))
        ours = max(ours, len(boxes) / seconds)
    for step, seconds in steps(root, boxes, device).items():
        details.append((f"one thread: {step} alone", number(len(boxes) / seconds), "", ""))
    return Row("crops, nvJPEG", "pictures/s", ours, rate, limit, more_is_better=True, least_share=0.8)


def nvjpeg_alone(contents: list[bytearray], device: torch.device, batch: int, threads: int) -> float:
    """Pictures per second of nvJPEG and nothing else."""
    batches = [contents[first : first + batch] for first in range(0, len(contents), batch)]

    def decode_all() -> None:
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(lambda some: len(decode_jpegs(some, device)), batches):
                pass
        _wait(device)

    decode_all()
    return len(contents) / best_of(3, decode_all)[0]


def steps(root: Path, boxes: Boxes, device: torch.device) -> dict[str, float]:
    """Seconds that each step of crop preparation takes for all pictures, one after the other, each waited for."""
    regions = crop_regions(boxes.xywh, boxes.image_width, boxes.image_height)
    spent = dict.fromkeys(("reading", "decoding", "cutting", "copying", "writing"), 0.0)
    began = perf_counter()

    def took(step: str) -> None:
        nonlocal began
        _wait(device)
        now = perf_counter()
        spent[step] += now - began
        began = now

    with (root / "steps.npy").open("wb", buffering=0) as file:
        for first in range(-PICTURES_PER_BATCH, len(boxes), PICTURES_PER_BATCH):  # the first batch twice: to warm up
            if first == 0:
                spent = dict.fromkeys(spent, 0.0)
            rows = np.arange(max(first, 0), min(max(first, 0) + PICTURES_PER_BATCH, len(boxes)))
            contents = [bytearray((root / name).read_bytes()) for name in boxes.file[rows]]
            took("reading")
            pictures = decode_jpegs(contents, device)
            took("decoding")
            crops = [some for _, some in cut_crops(pictures, np.arange(len(rows)), regions[rows], SIZE)]
            took("cutting")
            fetched = [to_host(some) for some in crops]
            took("copying")
            for some in fetched:
                file.write(some.numpy().data)
            took("writing")
    return spent


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _again(boxes: Boxes, times: int) -> Boxes:
    """The same pictures several times over, as so many frames: what starting and ending cost is not to be seen."""
    several = boxes.take(np.tile(np.arange(len(boxes)), times))
    return replace(several, frame_index=np.arange(len(several)))


def reading(root: Path, boxes: Boxes) -> list[Row]:
    """How long a dataset takes to open, and a batch of 60 x 8 crops to gather, beside a copy of its bytes."""
    prepare(boxes, root, root / "d", Tracks(iou=0.0, min_track=8, stride=1), Crops(size=SIZE))
    opening, dataset = best_of(5, lambda: Dataset.open(root / "d"))
    indices = np.resize(dataset.select("tracklet"), 60)
    frames, _ = dataset.gather(indices)
    gathering, _ = best_of(10, lambda: dataset.gather(indices))
    target = torch.empty_like(frames)
    copying, _ = best_of(10, lambda: target.copy_(frames))
    return [
        Row("opening a dataset", "ms", 1e3 * opening),
        Row("gathering 60 × 8 crops", "ms", 1e3 * gathering, limit=1e3 * copying),
    ]


def _filled(root: Path, boxes: Boxes, decoding: str, workers: int) -> NDArray[np.uint8]:
    """The crops of a store that is filled in some way, and that is not there before."""
    bad = fill_store(root / STORE, boxes, root, decoding=decoding, workers=workers)
    assert not bad
    crops: NDArray[np.uint8] = np.load(root / STORE, mmap_mode="r")
    return crops


def _ours(decoding: str, workers: int) -> str:
    return _threads(f"ours, {decoding}", workers)


def _threads(way: str, count: int) -> str:
    return f"{way}, {count} thread{'s' * (count > 1)}"


def _difference(crops: NDArray[np.uint8], truth: NDArray[np.float32]) -> str:
    return f"{np.abs(crops[: len(truth)] - truth).mean():.3f}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=0, help="300 if not given, 120 where there is a GPU")
    print(measure(pictures=parser.parse_args().pictures).text())


if __name__ == "__main__":
    main()
