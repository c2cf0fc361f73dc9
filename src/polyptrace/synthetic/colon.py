"""The colon: the shape of its lumen and the appearance of its wall.

Depth z (mm) increases from the anus towards the caecum; theta is the angle around the axis. All maps repeat after
LENGTH_MM. The radius at (theta, z) is inflation * base - fold_gain * fold. Each pair (inflation, fold_gain) is a state;
the maps of all states are stacked vertically, so that points in different states need one lookup.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.nn.functional import grid_sample

from polyptrace.core.arrays import Floats


def band_noise(rng: Generator, height: int, width: int, longest: float, shortest: float, slope: float) -> Tensor:
    """Periodic noise (height, width) with mean 0 and standard deviation 1.

    Wavelengths lie between `shortest` and `longest` (texels); the amplitude is proportional to frequency ** -slope.
    """
    white = torch.from_numpy(rng.standard_normal((height, width), dtype=np.float32))
    fy = torch.fft.fftfreq(height)[:, None]
    fx = torch.fft.rfftfreq(width)[None, :]
    frequency = torch.sqrt(fy**2 + fx**2).clamp_min(0.25 / max(height, width))
    band = torch.sigmoid((frequency * longest - 1.0) * 6.0) * torch.sigmoid((1.0 - frequency * shortest) * 6.0)
    spectrum = torch.fft.rfft2(white) * band * frequency**-slope
    spectrum[0, 0] = 0
    noise: Tensor = torch.fft.irfft2(spectrum, s=(height, width))
    return noise / noise.std()


def vessel_map(rng: Generator, height: int, width: int, texel_mm: float, roots: int, widest_mm: float) -> Tensor:
    """Branching vessels on a periodic (height, width) map; 0: none, 1: the centre line of a thick vessel."""
    y, x, radius = _grow_vessels(rng, height, width, texel_mm, roots, widest_mm)
    classes = np.linspace(0.18, 1.0, 4) * widest_mm / 2
    nearest = np.abs(radius[:, None] - classes[None, :]).argmin(axis=1)
    layers = []
    for index, class_radius in enumerate(classes):
        chosen = nearest == index
        cell = np.mod(np.rint(y[chosen]), height).astype(np.int64) * width
        cell += np.mod(np.rint(x[chosen]), width).astype(np.int64)
        count = np.bincount(cell, minlength=height * width).astype(np.float32)
        deviation = max(class_radius / texel_mm, 0.55)
        # A line of unit density per texel has a blurred peak of 1 / (deviation * sqrt(2 pi)).
        strength = deviation * np.sqrt(2 * np.pi) * (0.55 + 0.45 * index / 3)
        layers.append((torch.from_numpy(count).reshape(height, width).clamp_max(1.5) * strength, deviation))
    return 1.0 - torch.exp(-blur_periodic(layers).clamp_min(0.0))


def blur_periodic(layers: list[tuple[Tensor, float]]) -> Tensor:
    """The sum of periodic images (height, width), each blurred by a Gaussian of the given deviation (texels)."""
    height, width = layers[0][0].shape
    fy = torch.fft.fftfreq(height)[:, None]
    fx = torch.fft.rfftfreq(width)[None, :]
    squared = fy**2 + fx**2
    spectrum = torch.zeros(height, width // 2 + 1, dtype=torch.complex64)
    for image, deviation in layers:
        spectrum += torch.fft.rfft2(image) * torch.exp(-2.0 * (np.pi * deviation) ** 2 * squared)
    return torch.fft.irfft2(spectrum, s=(height, width))


def _grow_vessels(rng: Generator, height: int, width: int, texel_mm: float, roots: int, widest_mm: float) -> Floats:
    """Points (3, n): y, x, radius in mm, one texel apart, along trees whose branches bend, taper and fork."""
    thinnest = 0.075 * widest_mm
    y, x, course = (rng.uniform(0, end, roots) for end in (height, width, 2 * np.pi))
    tips = np.stack([y, x, course, np.zeros(roots), widest_mm / 2 * rng.uniform(0.35, 1.0, roots)])  # of the branches
    points = []
    keep = float(np.exp(-texel_mm / 1.3))  # the wobble decorrelates over 1.3 mm
    for step in range(int(70 / texel_mm)):
        y, x, course, wobble, radius = tips
        wobble = keep * wobble + rng.normal(0, 0.5 * np.sqrt(1 - keep**2), len(y))
        course = course + rng.normal(0, 0.09 * np.sqrt(texel_mm), len(y))
        y, x = y + np.sin(course + wobble), x + np.cos(course + wobble)
        radius = radius * (1.0 - 0.012 * texel_mm)
        emergence = min(1.0, 0.25 + step * texel_mm / 7.0)  # a root emerges from deeper tissue
        points.append(np.stack([y, x, radius * emergence]))
        fork = rng.random(len(y)) < 0.17 * texel_mm
        side = np.where(rng.random(len(y)) < 0.5, -1.0, 1.0) * rng.uniform(0.45, 1.1, len(y))
        children = np.stack([y, x, course + side, wobble, radius * rng.uniform(0.45, 0.8)])[:, fork]
        parents = np.stack(
            [y, x, course - np.where(fork, 0.2 * side, 0.0), wobble, np.where(fork, radius * 0.9, radius)]
        )
        tips = np.concatenate([parents, children], axis=1)
        tips = tips[:, tips[4] > thinnest]
        if not tips.size:
            break
    return np.concatenate(points, axis=1)


def spot_map(rng: Generator, height: int, width: int, count: int, radii: tuple[float, float], ring: float) -> Tensor:
    """Round spots on a periodic (height, width) map; `ring` in [0, 1] hollows them out, as bubbles are."""
    value = torch.zeros(height, width)
    sizes = rng.uniform(0, 1, count) ** 2 * (radii[1] - radii[0]) + radii[0]
    for radius in sizes:
        reach = int(np.ceil(radius)) + 2
        cy, cx = rng.uniform(0, height), rng.uniform(0, width)
        rows = torch.arange(int(cy) - reach, int(cy) + reach + 1)
        columns = torch.arange(int(cx) - reach, int(cx) + reach + 1)
        distance = torch.sqrt((rows[:, None] - cy) ** 2 + (columns[None, :] - cx) ** 2)
        disc = torch.sigmoid((radius - distance) * 3.0)
        spot = disc * (1.0 - ring + ring * (distance / radius).clamp(0, 1) ** 4)
        cells = (rows % height)[:, None], (columns % width)[None, :]
        value[cells] = torch.maximum(value[cells], spot)
    return value


def sample_maps(maps: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Values (C, ...) of maps (1, C, H, W) at coordinates x, y (...), which are -1 and 1 at the edges; bilinear."""
    grid = torch.stack([x, y], dim=-1)
    values = grid_sample(maps, grid.reshape(1, 1, -1, 2), padding_mode="border", align_corners=True)
    return values.reshape(maps.shape[1], *x.shape)


LENGTH_MM = 384.0
RADIUS_MM = 22.0
SHAPE_STEPS = (384, 128)  # texels of the shape maps along z and theta: about 1 mm
FIELD_MM = 0.75  # texel of the fields
FOAM_MM = 30.0  # period of the foam map


@dataclass(frozen=True)
class Lumen:
    """The lumen in S states. The state of a point is a float, because it is part of the lookup coordinate."""

    radius_map: Tensor  # (1, 1, S * (Z + 1), A + 1), mm
    slope_map: Tensor  # (1, 2, S * (Z + 1), A + 1), derivatives of the radius along z and theta
    inflation: Tensor  # (S,)

    def radius(self, theta: Tensor, z: Tensor, state: Tensor) -> Tensor:
        """Radius in mm; the arguments broadcast to the shape of `theta`."""
        return self._look_up(self.radius_map, theta, z, state)[0]

    def clearance(self, x: Tensor, y: Tensor, z: Tensor, state: Tensor) -> Tensor:
        """Radial distance in mm from a point to the wall; negative outside the lumen."""
        return self.radius(torch.atan2(y, x), z, state) - torch.sqrt(x * x + y * y)

    def inward_normal(self, x: Tensor, y: Tensor, z: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Components of the wall's unit normal, pointing into the lumen, at points on the wall."""
        along_z, along_a = self._look_up(self.slope_map, torch.atan2(y, x), z, state)
        outward = torch.rsqrt(x * x + y * y)
        cosine, sine, along_a = x * outward, y * outward, along_a * outward
        nx = -cosine - along_a * sine
        ny = -sine + along_a * cosine
        scale = torch.rsqrt(nx * nx + ny * ny + along_z * along_z)
        return nx * scale, ny * scale, along_z * scale

    def _look_up(self, maps: Tensor, theta: Tensor, z: Tensor, state: Tensor) -> Tensor:
        """Values (C, n) or (C, B, P) of the stacked maps at points (n,) or (B, P)."""
        total_rows = maps.shape[2]
        rows = total_rows // len(self.inflation)
        depth = z * (1.0 / LENGTH_MM)
        depth = depth - torch.floor(depth)
        depth = depth * (2.0 * (rows - 1) / (total_rows - 1)) + (state * (2.0 * rows / (total_rows - 1)) - 1.0)
        return sample_maps(maps, theta * (1.0 / np.pi), depth)


def inflate(shape: Tensor, slope: Tensor, inflation: Tensor, fold_gain: Tensor) -> Lumen:
    """The lumen in the states (S,), from a colon's `shape` and `slope`."""
    stretch, gain = inflation[:, None, None], fold_gain[:, None, None]
    radius = stretch * shape[0] - gain * shape[1]  # (S, Z + 1, A + 1)
    along_z = stretch * slope[0] - gain * slope[1]
    along_a = stretch * slope[2] - gain * slope[3]
    stacked = (1, -1, len(inflation) * radius.shape[1], radius.shape[2])
    return Lumen(radius.reshape(stacked), torch.stack([along_z, along_a]).reshape(stacked), inflation)


@dataclass(frozen=True)
class Colon:
    """Maps over (z, theta). Each map repeats its first row and column at the end, so that lookups wrap around."""

    shape: Tensor  # (2, Z + 1, A + 1): base radius and fold height, mm
    slope: Tensor  # (4, Z + 1, A + 1): their derivatives along z, then along theta
    detail: Tensor  # (1, 2, Z' + 1, A' + 1): vessel, debris; high resolution
    fields: Tensor  # (1, 3, Z" + 1, A" + 1): tone, pale, relief; low resolution
    fine: Tensor  # (1, 3, F + 1, F + 1): grain and the two slopes of the wet film; period fine_mm
    fine_mm: float
    foam: Tensor  # (1, 1, F + 1, F + 1): bubbles; period FOAM_MM
    colour: Tensor  # (3,) linear albedo

    def mucosa_at(self, theta: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """The detail (2, B, P) and the fields (3, B, P) at angles and depths (B, P)."""
        depth = z * (1.0 / LENGTH_MM)
        coordinates = theta * (1.0 / np.pi), 2.0 * (depth - torch.floor(depth)) - 1.0
        return sample_maps(self.detail, *coordinates), sample_maps(self.fields, *coordinates)


def sample_periodic(maps: Tensor, theta: Tensor, z: Tensor, period_mm: float) -> Tensor:
    """Values (C, B, P) of maps (1, C, H, W) that repeat on the wall after `period_mm`, at angles and depths (B, P)."""
    phases = theta * (RADIUS_MM / period_mm), z * (1.0 / period_mm)
    return sample_maps(maps, *(2.0 * (phase - torch.floor(phase)) - 1.0 for phase in phases))


def draw_colon(rng: Generator, texel_mm: float) -> Colon:
    """A random colon: folds, vessels, colour and grain."""
    shape, slope = _shape_maps(rng)
    rows, columns = int(LENGTH_MM / texel_mm), int(2 * np.pi * RADIUS_MM / texel_mm)
    vessels = vessel_map(rng, rows, columns, texel_mm, roots=int(rng.integers(90, 170)), widest_mm=0.8)
    detail = torch.stack([vessels, _debris_map(rng, rows, columns, texel_mm)])
    bands = ((40, 3, 1.2), (60, 6, 1.5), (9, 1.6, 1.0))  # longest and shortest wavelength (mm), slope
    rows, columns = int(LENGTH_MM / FIELD_MM), int(2 * np.pi * RADIUS_MM / FIELD_MM)
    fields = torch.stack([band_noise(rng, rows, columns, a / FIELD_MM, b / FIELD_MM, c) for a, b, c in bands])
    fine, fine_mm = _fine_maps(rng, texel_mm)
    foam = spot_map(rng, 160, 160, 70, (2.0, 9.0), ring=0.75)[None]
    colour = np.array([0.84, 0.29, 0.145], np.float32) * np.exp(rng.normal(0, [0.03, 0.11, 0.16])).astype(np.float32)
    detail, fields, fine, foam = map(_wrap, (detail, fields, fine, foam))
    return Colon(_wrap(shape)[0], _wrap(slope)[0], detail, fields, fine, fine_mm, foam, torch.from_numpy(colour))


def _wrap(maps: Tensor) -> Tensor:
    """Maps (C, H, W) as (1, C, H + 1, W + 1), with the first row and column repeated at the end."""
    maps = torch.cat([maps, maps[:, :1]], dim=1)
    return torch.cat([maps, maps[:, :, :1]], dim=2)[None].to(torch.float32).contiguous()


def _shape_maps(rng: Generator) -> tuple[Tensor, Tensor]:
    rows, columns = SHAPE_STEPS
    z: Floats = np.arange(rows, dtype=np.float64)[:, None] * (LENGTH_MM / rows)
    theta: Floats = -np.pi + np.arange(columns, dtype=np.float64)[None, :] * (2 * np.pi / columns)
    base = RADIUS_MM * (1.0 + 0.0 * theta) + 0.0 * z
    for harmonic in (1, 2, 3):  # bends: the centre of the lumen leaves the axis
        phase, angle = rng.uniform(0, 2 * np.pi, 2)
        swing = rng.uniform(2.0, 5.0) / harmonic**0.5
        base += swing * np.cos(2 * np.pi * harmonic * z / LENGTH_MM + phase) * np.cos(theta - angle)
    corner = rng.uniform(0, 2 * np.pi)  # the three taeniae give a triangular lumen
    base += rng.uniform(0.6, 1.8) * np.cos(3 * (theta - corner))
    base += 0.7 * band_noise(rng, rows, columns, 40, 9, 1.0).numpy()
    fold = _fold_map(rng, z, theta, corner)
    maps = np.stack([base, fold])
    along_z = (np.roll(maps, -1, 1) - np.roll(maps, 1, 1)) / (2 * LENGTH_MM / rows)
    along_a = (np.roll(maps, -1, 2) - np.roll(maps, 1, 2)) / (4 * np.pi / columns)
    return torch.from_numpy(maps), torch.from_numpy(np.concatenate([along_z, along_a]))


def _fold_map(rng: Generator, z: Floats, theta: Floats, corner: float) -> Floats:
    """Semilunar folds: transverse ridges, highest between the taeniae, absent on some sides."""
    fold = np.zeros(np.broadcast_shapes(z.shape, theta.shape))
    count = int(rng.integers(13, 20))
    spacing = LENGTH_MM / count
    for depth in (np.arange(count) + rng.uniform(-0.22, 0.22, count)) * spacing:
        tilt, direction = rng.uniform(0, 4.0), rng.uniform(0, 2 * np.pi)
        wave = rng.uniform(0, 1.2) * np.cos(2 * theta + rng.uniform(0, 2 * np.pi))
        offset = z - depth - tilt * np.cos(theta - direction) - wave
        offset = offset - LENGTH_MM * np.round(offset / LENGTH_MM)
        side = np.floor((theta - corner) / (2 * np.pi / 3)).astype(int) % 3
        height = rng.uniform(0.35, 1.0, 3)[side] * (0.5 - 0.5 * np.cos(3 * (theta - corner)))
        height = 0.18 + 0.82 * height
        thickness = rng.uniform(2.4, 4.2)
        crest = np.exp(-((offset / thickness) ** 2))
        fold += (rng.uniform(5.5, 10.5) * height * crest) ** 3
    return np.cbrt(fold)  # a smooth maximum where folds meet


def _debris_map(rng: Generator, height: int, width: int, texel_mm: float) -> Tensor:
    """Residue: an irregular field that is high in few places."""
    field = band_noise(rng, height, width, 50 / texel_mm, 6 / texel_mm, 1.2)
    grain = band_noise(rng, height, width, 4 / texel_mm, 0.8 / texel_mm, 0.6)
    return field + 0.45 * grain


def _fine_maps(rng: Generator, texel_mm: float) -> tuple[Tensor, float]:
    size, fine_mm = 256, 256 * texel_mm * 0.3
    grain = band_noise(rng, size, size, 24, 3, 0.4)
    film = band_noise(rng, size, size, 40, 4, 0.6)
    along_y = film - film.roll(1, 0)
    along_x = film - film.roll(1, 1)
    return torch.stack([grain, along_y / along_y.std(), along_x / along_x.std()]), fine_mm
