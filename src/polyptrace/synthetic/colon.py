"""The colon: where its bends and folds are, and what its wall looks like.

Depth z (mm) grows from the anus towards the caecum; theta is the angle around the axis.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import grid_sample

from polyptrace.synthetic.lumen import LENGTH_MM
from polyptrace.synthetic.noise import Rng, band_noise, spot_map, vessel_map

Array = NDArray[np.float64]
RADIUS_MM = 22.0
SHAPE_STEPS = (384, 128)  # texels of the shape maps along z and theta: 1 mm
SKIN = ("vessel", "tone", "pale", "relief", "debris", "bubble")


@dataclass(frozen=True)
class Colon:
    """Maps over (z, theta), each with its first row and column repeated at the end so that lookups wrap."""

    shape: Tensor  # (2, Z + 1, A + 1): base radius, height of folds, mm
    slope: Tensor  # (4, Z + 1, A + 1): their derivatives along z, then along theta
    skin: Tensor  # (1, len(SKIN), Z' + 1, A' + 1)
    fine: Tensor  # (1, 3, F + 1, F + 1): grain, and the two slopes of the wet film; repeats every fine_mm
    fine_mm: float
    colour: Tensor  # (3,) linear albedo

    def to(self, device: torch.device) -> "Colon":
        """The same colon on another device."""
        maps = (self.shape, self.slope, self.skin, self.fine)
        shape, slope, skin, fine = (each.to(device) for each in maps)
        return Colon(shape, slope, skin, fine, self.fine_mm, self.colour.to(device))

    def skin_at(self, theta: Tensor, z: Tensor) -> Tensor:
        """What the wall looks like at angles and depths (B, P): (len(SKIN), B, P)."""
        depth = z * (1.0 / LENGTH_MM)
        return _sample(self.skin, theta * (1.0 / np.pi), 2.0 * (depth - torch.floor(depth)) - 1.0)

    def fine_at(self, theta: Tensor, z: Tensor) -> Tensor:
        """The small repeating texture of the wall at angles and depths (B, P): (3, B, P)."""
        across, along = theta * (RADIUS_MM / self.fine_mm), z * (1.0 / self.fine_mm)
        across, along = across - torch.floor(across), along - torch.floor(along)
        return _sample(self.fine, 2.0 * across - 1.0, 2.0 * along - 1.0)


def _sample(maps: Tensor, across: Tensor, along: Tensor) -> Tensor:
    grid = torch.stack([across, along], dim=-1)[None]
    return grid_sample(maps, grid, mode="bilinear", padding_mode="border", align_corners=True)[0]


def grow_colon(rng: Rng, texel_mm: float) -> Colon:
    """A colon of its own: where its folds and vessels are, its colour, its grain."""
    shape, slope = _shape_maps(rng)
    height, width = int(LENGTH_MM / texel_mm), int(2 * np.pi * RADIUS_MM / texel_mm)
    per_mm = 1.0 / texel_mm
    skin = [
        vessel_map(rng, height, width, texel_mm, roots=int(rng.integers(90, 170)), widest_mm=0.8),
        band_noise(rng, height, width, 40 * per_mm, 3 * per_mm, 1.2),
        band_noise(rng, height, width, 60 * per_mm, 6 * per_mm, 1.5),
        band_noise(rng, height, width, 9 * per_mm, 1.6 * per_mm, 1.0),
        _debris_map(rng, height, width, texel_mm),
        _bubble_map(rng, height, width, texel_mm),
    ]
    fine, fine_mm = _fine_maps(rng, texel_mm)
    colour = torch.tensor([0.80, 0.36, 0.205]) * torch.from_numpy(
        np.exp(rng.normal(0, [0.03, 0.11, 0.16])).astype(np.float32)
    )
    return Colon(wrap(shape)[0], wrap(slope)[0], wrap(torch.stack(skin)), wrap(fine), fine_mm, colour)


def wrap(maps: Tensor) -> Tensor:
    """Maps (C, H, W) as (1, C, H + 1, W + 1): the first row and column once more at the end."""
    maps = torch.cat([maps, maps[:, :1]], dim=1)
    return torch.cat([maps, maps[:, :, :1]], dim=2)[None].to(torch.float32).contiguous()


def _shape_maps(rng: Rng) -> tuple[Tensor, Tensor]:
    rows, columns = SHAPE_STEPS
    z: Array = np.arange(rows, dtype=np.float64)[:, None] * (LENGTH_MM / rows)
    theta: Array = -np.pi + np.arange(columns, dtype=np.float64)[None, :] * (2 * np.pi / columns)
    base = RADIUS_MM * (1.0 + 0.0 * theta) + 0.0 * z
    for harmonic in (1, 2, 3):  # bends: the axis leaves the middle
        phase, angle = rng.uniform(0, 2 * np.pi, 2)
        swing = rng.uniform(2.0, 5.0) / harmonic**0.5
        base += swing * np.cos(2 * np.pi * harmonic * z / LENGTH_MM + phase) * np.cos(theta - angle)
    corner = rng.uniform(0, 2 * np.pi)  # three bands of muscle make the lumen a triangle
    base += rng.uniform(0.6, 1.8) * np.cos(3 * (theta - corner))
    base += 0.7 * band_noise(rng, rows, columns, 40, 9, 1.0).numpy()
    fold = _fold_map(rng, z, theta, corner)
    maps = np.stack([base, fold])
    along_z = (np.roll(maps, -1, 1) - np.roll(maps, 1, 1)) / (2 * LENGTH_MM / rows)
    along_a = (np.roll(maps, -1, 2) - np.roll(maps, 1, 2)) / (4 * np.pi / columns)
    return torch.from_numpy(maps), torch.from_numpy(np.concatenate([along_z, along_a]))


def _fold_map(rng: Rng, z: Array, theta: Array, corner: float) -> Array:
    """Semilunar folds: ridges across the tube, highest between the bands of muscle, some sides missing."""
    fold = np.zeros(np.broadcast_shapes(z.shape, theta.shape))
    count = int(rng.integers(13, 20))
    spacing = LENGTH_MM / count
    for place in (np.arange(count) + rng.uniform(-0.22, 0.22, count)) * spacing:
        tilt, direction = rng.uniform(0, 4.0), rng.uniform(0, 2 * np.pi)
        wave = rng.uniform(0, 1.2) * np.cos(2 * theta + rng.uniform(0, 2 * np.pi))
        away = z - place - tilt * np.cos(theta - direction) - wave
        away = away - LENGTH_MM * np.round(away / LENGTH_MM)
        side = np.floor((theta - corner) / (2 * np.pi / 3)).astype(int) % 3
        height = rng.uniform(0.35, 1.0, 3)[side] * (0.5 - 0.5 * np.cos(3 * (theta - corner)))
        height = 0.18 + 0.82 * height
        thickness = rng.uniform(2.4, 4.2)
        crest = np.exp(-((away / thickness) ** 2))
        fold = np.maximum(fold, rng.uniform(5.5, 10.5) * height * crest)
    return fold


def _debris_map(rng: Rng, height: int, width: int, texel_mm: float) -> Tensor:
    """Where residue sticks: a ragged field, high in few places."""
    field = band_noise(rng, height, width, 50 / texel_mm, 6 / texel_mm, 1.2)
    grain = band_noise(rng, height, width, 4 / texel_mm, 0.8 / texel_mm, 0.6)
    return field + 0.45 * grain


def _bubble_map(rng: Rng, height: int, width: int, texel_mm: float) -> Tensor:
    tile = 192
    spots = spot_map(rng, tile, tile, 110, (0.4 / texel_mm, 1.6 / texel_mm), ring=0.75)
    repeats = (height // tile + 1, width // tile + 1)
    return spots.repeat(*repeats)[:height, :width]


def _fine_maps(rng: Rng, texel_mm: float) -> tuple[Tensor, float]:
    size, fine_mm = 256, 256 * texel_mm * 0.3
    grain = band_noise(rng, size, size, 24, 3, 0.4)
    film = band_noise(rng, size, size, 60, 5, 1.0)
    along_y = film - film.roll(1, 0)
    along_x = film - film.roll(1, 1)
    return torch.stack([grain, along_y / along_y.std(), along_x / along_x.std()]), fine_mm
