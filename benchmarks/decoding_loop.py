"""A training loop that decodes JPEGs in every epoch, compared with a step of ours, which reads the crop store.

    PIL loop     a plain step, fed by a DataLoader of 16 processes that opens, crops and resizes 480 JPEGs with PIL
    PIL alone    that DataLoader without a network
    torchvision  the same two with torchvision's decoder

JPEGs have 1350 x 1080 pixels and about 350 KiB, as REAL-Colon's 2,757,723 frames (about 1 TB). Each process of a
DataLoader produces whole batches, so batches arrive in groups; the first two batches of every process are not counted.
"""

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset
from torchvision.transforms.v2 import functional as pictures

from benchmarks.result import Result, Row
from benchmarks.train_step import TINY as TINY_STEP
from benchmarks.train_step import Scale as StepScale
from benchmarks.train_step import make_dataset, plain_step, time_ours
from polyptrace.core.codec import decode_image

#: Batches of each process of a DataLoader before the measurement begins.
SETTLING = 2


@dataclass(frozen=True)
class Scale:
    """The size of the measurement."""

    step: StepScale
    picture: tuple[int, int]
    rounds: int  # batches of each process that are measured
    workers: int


class Pictures(TorchDataset[Tensor]):
    """Tracklets that are cut from JPEG files on every access."""

    def __init__(self, files: list[Path], scale: Scale, decoder: str) -> None:
        self.files, self.scale, self.decoder = files, scale, decoder

    def __len__(self) -> int:
        batches = self.scale.workers * (SETTLING + self.scale.rounds)
        return batches * self.scale.step.frames // self.scale.step.length

    def __getitem__(self, index: int) -> Tensor:
        torch.set_num_threads(1)
        random = np.random.default_rng(index)
        return torch.stack([self._crop(random) for _ in range(self.scale.step.length)])

    def _crop(self, random: np.random.Generator) -> Tensor:
        file = self.files[int(random.integers(len(self.files)))]
        width, height = self.scale.picture
        side = int(random.uniform(0.25, 0.9) * height)  # a box of 60 to 190 pixels, times 5, inside the picture
        x, y = int(random.integers(0, width - side)), int(random.integers(0, height - side))
        if self.decoder == "PIL":
            with Image.open(file) as picture:
                crop = picture.convert("RGB").crop((x, y, x + side, y + side))
            crop = crop.resize((self.scale.step.size, self.scale.step.size), Image.Resampling.BILINEAR)
            return torch.from_numpy(np.array(crop)).permute(2, 0, 1)
        whole = decode_image(file.read_bytes())
        return pictures.resize(whole[:, y : y + side, x : x + side], [self.scale.step.size] * 2)


def make_pictures(folder: Path, scale: Scale, count: int = 48) -> list[Path]:
    """JPEG files of about the size and detail of a colonoscopy frame."""
    folder.mkdir()
    random, files = np.random.default_rng(0), []
    for number in range(count):
        layers = [random.uniform(0, 255, (scale.picture[1] // n, scale.picture[0] // n, 3)) for n in (64, 16, 4)]
        whole = sum(
            share * np.asarray(Image.fromarray(layer.astype(np.uint8)).resize(scale.picture), np.float64)
            for share, layer in zip((0.58, 0.22, 0.2), layers, strict=True)
        )
        files.append(folder / f"{number}.jpg")
        Image.fromarray(np.asarray(whole).astype(np.uint8)).save(files[-1], quality=90)
    return files


def time_decoding(files: list[Path], scale: Scale, decoder: str, use: Callable[[Tensor], None]) -> float:
    """Milliseconds per batch of a loop that decodes and uses each batch, after the first batches."""
    loader = DataLoader(
        Pictures(files, scale, decoder),
        batch_size=scale.step.frames // scale.step.length,
        num_workers=scale.workers,
    )
    stamps = []
    for batch in loader:
        use(batch)
        stamps.append(time.perf_counter())
    counted = stamps[SETTLING * scale.workers - 1 :]
    return 1000 * (counted[-1] - counted[0]) / (len(counted) - 1)


def measure(quick: bool = False) -> Result:
    """Milliseconds per step or batch of every variant."""
    workers = min(16, os.cpu_count() or 1)
    scale = Scale(TINY_STEP, (160, 128), 1, 1) if quick else Scale(StepScale(), (1350, 1080), 2, workers)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory() as name:
        files = make_pictures(Path(name) / "pictures", scale)
        alone = {decoder: time_decoding(files, scale, decoder, lambda _: None) for decoder in ("PIL", "torchvision")}
        step = plain_step(scale.step, device)
        loops = {decoder: time_decoding(files, scale, decoder, step) for decoder in alone}
        dataset = make_dataset(Path(name) / "data", scale.step)
        ours, _ = time_ours(dataset, Path(name) / "ours", scale.step, device, "auto")
    rows = (
        *(_row(ours, alone[decoder], f"{decoder} alone, {scale.workers} processes") for decoder in alone),
        *(_row(ours, loops[decoder], f"a plain step fed by {decoder}") for decoder in loops),
    )
    return Result("decoding_loop", rows, f"{scale.step.frames} frames of {scale.step.size} px per step.")


def _row(ours: float, other: float, name: str) -> Row:
    return Row("training step", "ms", ours, other, least_ratio=8 if "PIL" in name else None, plain_name=name)
