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
SKIN = ("vessel", "debris")
FIELDS = ("tone", "pale", "relief")
FOAM_MM = 30.0
FIELD_MM = 0.75  # texel of the fields


@dataclass(frozen=True)
class Colon:
    """Maps over (z, theta), each with its first row and column repeated at the end so that lookups wrap."""

    shape: Tensor  # (2, Z + 1, A + 1): base radius, height of folds, mm
    slope: Tensor  # (4, Z + 1, A + 1): their derivatives along z, then along theta
    skin: Tensor  # (1, len(SKIN), Z' + 1, A' + 1): what needs detail
    fields: Tensor  # (1, len(FIELDS), Z" + 1, A" + 1): what varies slowly
    fine: Tensor  # (1, 3, F + 1, F + 1): grain, and the two slopes of the wet film; repeats every fine_mm
    fine_mm: float
    foam: Tensor  # (1, 1, F + 1, F + 1): bubbles; repeats every FOAM_MM
    colour: Tensor  # (3,) linear albedo

    def to(self, device: torch.device) -> "Colon":
        """The same colon on another device."""
        maps = (self.shape, self.slope, self.skin, self.fields, self.fine, self.foam, self.colour)
        shape, slope, skin, fields, fine, foam, colour = (each.to(device) for each in maps)
        return Colon(shape, slope, skin, fields, fine, self.fine_mm, foam, colour)

    def skin_at(self, theta: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """What the wall looks like at angles and depths (B, P): (len(SKIN), B, P) and (len(FIELDS), B, P)."""
        depth = z * (1.0 / LENGTH_MM)
        grid = torch.stack([theta * (1.0 / np.pi), 2.0 * (depth - torch.floor(depth)) - 1.0], dim=-1)
        return _sample(self.skin, grid), _sample(self.fields, grid)

    def fine_at(self, theta: Tensor, z: Tensor) -> Tensor:
        """The small repeating texture of the wall at angles and depths (B, P): (3, B, P)."""
        return _sample(self.fine, _repeating(theta, z, self.fine_mm))

    def foam_at(self, theta: Tensor, z: Tensor) -> Tensor:
        """Bubbles at angles and depths (B, P)."""
        return _sample(self.foam, _repeating(theta, z, FOAM_MM))[0]


def _repeating(theta: Tensor, z: Tensor, every_mm: float) -> Tensor:
    place = torch.stack([theta * (RADIUS_MM / every_mm), z * (1.0 / every_mm)], dim=-1)
    return 2.0 * (place - torch.floor(place)) - 1.0


def _sample(maps: Tensor, grid: Tensor) -> Tensor:
    return grid_sample(maps, grid[None], mode="bilinear", padding_mode="border", align_corners=True)[0]


def grow_colon(rng: Rng, texel_mm: float) -> Colon:
    """A colon of its own: where its folds and vessels are, its colour, its grain."""
    shape, slope = _shape_maps(rng)
    rows, columns = int(LENGTH_MM / texel_mm), int(2 * np.pi * RADIUS_MM / texel_mm)
    roots = int(rng.integers(90, 170))
    skin = [
        vessel_map(rng, rows, columns, texel_mm, roots, widest_mm=0.8),
        _debris_map(rng, rows, columns, texel_mm),
    ]
    bands = ((40, 3, 1.2), (60, 6, 1.5), (9, 1.6, 1.0))  # longest and shortest wavelength (mm), slope
    rows, columns = int(LENGTH_MM / FIELD_MM), int(2 * np.pi * RADIUS_MM / FIELD_MM)
    fields = [band_noise(rng, rows, columns, a / FIELD_MM, b / FIELD_MM, slope) for a, b, slope in bands]
    fine, fine_mm = _fine_maps(rng, texel_mm)
    foam = spot_map(rng, 160, 160, 70, (2.0, 9.0), ring=0.75)[None]
    colour = torch.tensor([0.84, 0.29, 0.145]) * torch.from_numpy(
        np.exp(rng.normal(0, [0.03, 0.11, 0.16])).astype(np.float32)
    )
    skin_map, field_map = wrap(torch.stack(skin)), wrap(torch.stack(fields))
    return Colon(wrap(shape)[0], wrap(slope)[0], skin_map, field_map, wrap(fine), fine_mm, wrap(foam), colour)


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
        fold += (rng.uniform(5.5, 10.5) * height * crest) ** 3
    smooth: Array = np.cbrt(fold)  # where folds meet the higher one wins, without an edge
    return smooth


def _debris_map(rng: Rng, height: int, width: int, texel_mm: float) -> Tensor:
    """Where residue sticks: a ragged field, high in few places."""
    field = band_noise(rng, height, width, 50 / texel_mm, 6 / texel_mm, 1.2)
    grain = band_noise(rng, height, width, 4 / texel_mm, 0.8 / texel_mm, 0.6)
    return field + 0.45 * grain


def _fine_maps(rng: Rng, texel_mm: float) -> tuple[Tensor, float]:
    size, fine_mm = 256, 256 * texel_mm * 0.3
    grain = band_noise(rng, size, size, 24, 3, 0.4)
    film = band_noise(rng, size, size, 40, 4, 0.6)
    along_y = film - film.roll(1, 0)
    along_x = film - film.roll(1, 1)
    return torch.stack([grain, along_y / along_y.std(), along_x / along_x.std()]), fine_mm
