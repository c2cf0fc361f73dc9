"""Random textures that repeat without a seam: band-limited noise, branching vessels, round spots."""

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor


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
    total: Tensor = torch.fft.irfft2(spectrum, s=(height, width))
    return total


def _grow_vessels(
    rng: Generator, height: int, width: int, texel_mm: float, roots: int, widest_mm: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Points (y, x, radius in mm), one texel apart, along trees whose branches bend, taper and fork."""
    thinnest = 0.075 * widest_mm
    y, x = rng.uniform(0, height, roots), rng.uniform(0, width, roots)
    course = rng.uniform(0, 2 * np.pi, roots)
    wobble = np.zeros(roots)
    radius = widest_mm / 2 * rng.uniform(0.35, 1.0, roots)
    points = []
    keep = float(np.exp(-texel_mm / 1.3))  # the wobble decorrelates over 1.3 mm
    for step in range(int(70 / texel_mm)):
        wobble = keep * wobble + rng.normal(0, 0.5 * np.sqrt(1 - keep**2), len(y))
        course = course + rng.normal(0, 0.09 * np.sqrt(texel_mm), len(y))
        y, x = y + np.sin(course + wobble), x + np.cos(course + wobble)
        radius = radius * (1.0 - 0.012 * texel_mm)
        emergence = min(1.0, 0.25 + step * texel_mm / 7.0)  # a root emerges from deeper tissue
        points.append(np.stack([y, x, radius * emergence]))
        fork = rng.random(len(y)) < 0.17 * texel_mm
        side = np.where(rng.random(len(y)) < 0.5, -1.0, 1.0) * rng.uniform(0.45, 1.1, len(y))
        children = (y[fork], x[fork], course[fork] + side[fork], wobble[fork], radius[fork] * rng.uniform(0.45, 0.8))
        course = course - np.where(fork, 0.2 * side, 0.0)
        radius = np.where(fork, radius * 0.9, radius)
        y, x, course, wobble, radius = (
            np.concatenate(pair) for pair in zip((y, x, course, wobble, radius), children, strict=True)
        )
        alive = radius > thinnest
        y, x, course, wobble, radius = y[alive], x[alive], course[alive], wobble[alive], radius[alive]
        if not len(y):
            break
    y, x, radius = np.concatenate(points, axis=1)
    return y, x, radius


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
