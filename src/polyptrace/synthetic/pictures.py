"""Simple statistics of pictures, to hold generated ones beside real ones.

Of each recording (a procedure or a clip) some pictures are taken, at one common height, and pixels of the black border
left out: those that are dark in all of them. A recording's number is the mean over its pictures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision.transforms.v2.functional import resize

from polyptrace.core.codec import decode
from polyptrace.core.errors import UserError

HEIGHT = 224  # at most
MEASURES = (
    "L mean",
    "a mean",
    "b mean",
    "L spread",
    "a spread",
    "b spread",
    "specular share",
    "near-black share",
    "spectrum slope",
    "sharpness",
)


@dataclass(frozen=True)
class Comparison:
    """One measure of generated recordings beside real ones: 10th, 50th, 90th percentile over recordings."""

    measure: str
    generated: tuple[float, float, float]
    real: tuple[float, float, float]

    @property
    def within(self) -> bool:
        """Whether the generated median lies inside the real recordings' own spread."""
        return self.real[0] <= self.generated[1] <= self.real[2]


def compare(generated: NDArray[np.float64], real: NDArray[np.float64]) -> list[Comparison]:
    """The rows of the table, from measures (recordings, len(MEASURES)) of both kinds."""
    both = (np.percentile(each, [10, 50, 90], axis=0).T.tolist() for each in (generated, real))
    return [
        Comparison(name, (ours[0], ours[1], ours[2]), (theirs[0], theirs[1], theirs[2]))
        for name, ours, theirs in zip(MEASURES, *both, strict=True)
    ]


def find_recordings(root: Path, most: int) -> list[list[Path]]:
    """At most `most` JPEGs, evenly spread, of every recording below `root`: a folder, or files named alike."""
    files = sorted(root.rglob("*.jpg"))
    if not files:
        raise UserError(f"{root}: no .jpg below it -> give a folder of clips")
    groups: dict[str, list[Path]] = {}
    for file in files:
        key = file.stem.rpartition("_")[0] if file.parent.name == "images" else str(file.parent)
        groups.setdefault(key, []).append(file)
    return [
        [group[int(place)] for place in np.unique(np.linspace(0, len(group) - 1, most).astype(int))]
        for group in groups.values()
    ]


def measure_recording(files: Sequence[Path], height: int = HEIGHT) -> NDArray[np.float64]:
    """The measures (len(MEASURES),) of one recording, from some of its pictures at this height."""
    pictures = torch.stack([_read(file, height) for file in files])  # (n, 3, H, W) in [0, 1]
    inside = pictures.amax(dim=(0, 1)) > 0.12  # (H, W)
    measures: NDArray[np.float64] = np.mean([_measure(picture, inside) for picture in pictures], axis=0)
    return measures


def _read(file: Path, height: int) -> Tensor:
    picture = decode(file.read_bytes())
    width = round(picture.shape[2] * height / picture.shape[1])
    small: Tensor = resize(picture.to(torch.float32) / 255.0, [height, width], antialias=True)
    return small


def _measure(picture: Tensor, inside: Tensor) -> list[float]:
    lab = to_lab(picture)[:, inside]  # (3, n)
    grey = picture.mean(dim=0)
    low, high = picture.amin(dim=0)[inside], picture.amax(dim=0)[inside]
    specular = ((low > 0.86) & (high > 0.94)).to(torch.float32).mean()
    black = (high < 0.12).to(torch.float32).mean()
    return [
        *lab.mean(dim=1).tolist(),
        *lab.std(dim=1).tolist(),
        float(specular),
        float(black),
        spectrum_slope(grey),
        sharpness(grey, inside),
    ]


def to_lab(picture: Tensor) -> Tensor:
    """CIE Lab (3, ...) of an sRGB picture (3, ...) in [0, 1], white point D65."""
    linear = torch.where(picture <= 0.04045, picture / 12.92, ((picture + 0.055) / 1.055) ** 2.4)
    matrix = torch.tensor([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    white = torch.tensor([0.9505, 1.0, 1.089])
    xyz = torch.einsum("ij,j...->i...", matrix / white[:, None], linear)
    root = torch.where(xyz > 0.008856, xyz.clamp_min(1e-9) ** (1 / 3), 7.787 * xyz + 16 / 116)
    return torch.stack([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def spectrum_slope(grey: Tensor) -> float:
    """Slope of log power over log frequency of the middle square, from 4 cycles to a quarter of the sampling rate."""
    side = grey.shape[0] * 5 // 7
    top, left = (grey.shape[0] - side) // 2, (grey.shape[1] - side) // 2
    middle = grey[top : top + side, left : left + side]
    window = torch.hann_window(side)
    power = torch.fft.fft2((middle - middle.mean()) * window[:, None] * window[None, :]).abs() ** 2
    frequency = torch.fft.fftfreq(side) * side
    radius = torch.sqrt(frequency[:, None] ** 2 + frequency[None, :] ** 2)
    ring = radius.round().long().reshape(-1)
    count = torch.bincount(ring)
    total = torch.bincount(ring, weights=power.reshape(-1).to(torch.float64))
    place = torch.arange(4, side // 4)
    level = torch.log(total[place] / count[place] + 1e-12)
    return float(np.polyfit(np.log(place.numpy()), level.numpy(), 1)[0])


def sharpness(grey: Tensor, inside: Tensor) -> float:
    """Logarithm of the deviation of the Laplacian, away from the border."""
    middle = grey[1:-1, 1:-1]
    laplacian = grey[2:, 1:-1] + grey[:-2, 1:-1] + grey[1:-1, 2:] + grey[1:-1, :-2] - 4 * middle
    solid = -torch.nn.functional.max_pool2d(-inside.to(torch.float32)[None, None], 5, 1, 2)[0, 0] > 0.5
    return float(torch.log(laplacian[solid[1:-1, 1:-1]].std()))
