"""python -m benchmarks.crops [--pictures 300]

Crop preparation, pictures per second, beside plain PIL (open, convert, crop, resize) in one process, in the same run:
the whole of it on one and on two threads, with full and with scaled decoding, each with its mean difference from the
float path in grey levels; then opening the dataset and gathering batches of 60 x 8 crops. Where there is a GPU, also
nvJPEG: its own rate for the same pictures, and what crop preparation with it reaches.

Pictures are 1350 x 1080 JPEGs of about 216 KiB: smooth colour with a little noise, about as many bytes a
pixel as the frames of real clips have.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms.v2.functional import resize

from polyptrace.codec import decode, decode_jpegs, encode_jpeg
from polyptrace.config import Crops, Tracks
from polyptrace.data import Boxes, Dataset, crop_regions, prepare
from polyptrace.data.store import PICTURES_PER_JOB, fill_store

WIDTH, HEIGHT, SIZE = 1350, 1080, 232


def make_source(root: Path, pictures: int) -> Boxes:
    """One JPEG a frame with one box; box sizes as in REAL-Colon (0.1 to 0.4 of the picture)."""
    generator = torch.Generator().manual_seed(0)
    rng = np.random.default_rng(0)
    coarse = torch.rand(8, 3, 34, 43, generator=generator)
    scenes = torch.nn.functional.interpolate(coarse, (HEIGHT, WIDTH), mode="bicubic").clamp(0, 1)
    for number in range(pictures):
        noise = torch.randn(3, HEIGHT, WIDTH, generator=generator) * 0.005
        picture = ((scenes[number % 8] + noise).clamp(0, 1) * 255).to(torch.uint8)
        (root / f"{number:05d}.jpg").write_bytes(encode_jpeg(picture, 90))
    side = rng.uniform(0.1, 0.4, pictures) * np.sqrt(WIDTH * HEIGHT)
    place = rng.uniform(0, 1, (pictures, 2)) * (np.array([WIDTH, HEIGHT]) - side[:, None])
    return Boxes.of(
        video="v",
        frame_index=np.arange(pictures),
        xywh=np.concatenate([place, side[:, None], side[:, None]], 1),
        file=np.array([f"{number:05d}.jpg" for number in range(pictures)], object),
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
        picture = decode((root / boxes.file[row]).read_bytes())[:, y : y + h, x : x + w].float()
        crops[row] = resize(picture, [SIZE, SIZE], antialias=True).permute(1, 2, 0).numpy()
    return crops


def report(name: str, seconds: float, pictures: int, reference: float, difference: float) -> None:
    rate = pictures / seconds
    print(f"{name:<34} {rate:8.1f} pictures/s {rate / reference:6.2f}x   {difference:.3f} grey levels from exact")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=300)
    pictures = parser.parse_args().pictures
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        boxes = make_source(root, pictures)
        few = boxes.take(np.arange(min(pictures, 60)))
        truth = exact(root, few)
        plain(root, few)  # the pictures are now in the page cache for everyone
        start = time.perf_counter()
        crops = plain(root, boxes)
        seconds = time.perf_counter() - start
        reference = pictures / seconds
        report("plain PIL, one process", seconds, pictures, reference, np.abs(crops[: len(few)] - truth).mean())
        for decoding in ("full", "scaled"):
            for workers in sorted({1, 2, os.cpu_count() or 2}):
                out = root / f"{decoding}{workers}.npy"
                start = time.perf_counter()
                assert not fill_store(out, boxes, root, decoding=decoding, workers=workers)
                seconds = time.perf_counter() - start
                difference = np.abs(np.load(out, mmap_mode="r")[: len(few)] - truth).mean()
                report(f"ours, {decoding} decoding, {workers} threads", seconds, pictures, reference, difference)
        if torch.cuda.is_available():
            on_gpu(root, boxes, reference, truth)
        prepare(boxes, root, root / "d", Tracks(iou=0.0, min_track=8, stride=1), Crops(size=SIZE))
        opening = min(_opening(root / "d") for _ in range(5))
        dataset = Dataset.open(root / "d")
        indices = np.resize(dataset.select("tracklet"), 60)
        dataset.gather(indices)
        start = time.perf_counter()
        for _ in range(10):
            frames, _ = dataset.gather(indices)
        seconds = (time.perf_counter() - start) / 10
        copied = frames.numel() / seconds / 1e9
        source = torch.empty_like(frames)
        start = time.perf_counter()
        for _ in range(10):
            source.copy_(frames)
        limit = frames.numel() * 10 / (time.perf_counter() - start) / 1e9
        print(f"open a dataset: {opening * 1e3:.1f} ms; gather 60 x 8 crops: {seconds * 1e3:.1f} ms,")
        print(f"{copied:.2f} GB/s, {copied / limit:.0%} of a plain copy of the same bytes ({limit:.2f} GB/s)")


def on_gpu(root: Path, boxes: Boxes, reference: float, truth: NDArray[np.float32]) -> None:
    """nvJPEG alone, pictures already in memory, beside the whole of crop preparation with it."""
    contents = [(root / file).read_bytes() for file in boxes.file]
    device = torch.device("cuda")
    for _ in range(2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for begin in range(0, len(contents), PICTURES_PER_JOB):
            decode_jpegs(contents[begin : begin + PICTURES_PER_JOB], device)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    limit = len(boxes) / seconds
    print(f"{'nvJPEG alone, no crops':<34} {limit:8.1f} pictures/s {limit / reference:6.2f}x")
    for workers in (1, 2, 4, 8):
        out = root / f"nvjpeg{workers}.npy"
        start = time.perf_counter()
        assert not fill_store(out, boxes, root, decoding="nvjpeg", workers=workers)
        seconds = time.perf_counter() - start
        difference = np.abs(np.load(out, mmap_mode="r")[: len(truth)] - truth).mean()
        report(f"ours, nvJPEG, {workers} threads", seconds, len(boxes), reference, difference)
        print(f"{'':<34} {len(boxes) / seconds / limit:.0%} of nvJPEG's own rate")


def _opening(path: Path) -> float:
    start = time.perf_counter()
    Dataset.open(path)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
