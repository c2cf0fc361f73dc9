"""Imaging conditions: light, focus, colour, water, residue and instruments of every frame.

White balance, processor colours, gloss and sensor noise belong to the procedure and drift a little. Light, focus, water
and residue belong to a look and change with its renewal. Exposure, focus and motion also vary from frame to frame.
"""

from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.random import Generator
from scipy.signal import lfilter
from scipy.special import ndtr
from torch import Tensor

from polyptrace.core.arrays import Floats, Ints
from polyptrace.synthetic.presets import Difficulty
from polyptrace.synthetic.workflow import Look

COLOURS = 7  # latent numbers of a procedure
VIEWS = 13  # latent numbers of a look
#: Conditions that are the same in all frames of a look.
UNCHANGED = (
    *("saturation", "haze", "gloss", "roughness", "vessel"),
    *("debris", "bubbles", "narrow_band", "noise"),
)


@dataclass(frozen=True)
class Conditions:
    """Imaging conditions of B frames; each (B, 1) unless noted."""

    exposure: Tensor  # stops
    balance: Tensor  # (B, 3) gains of red, green, blue
    saturation: Tensor
    haze: Tensor  # scattered light
    blur_x: Tensor  # standard deviation, as a share of the image's width
    blur_y: Tensor
    fringe: Tensor  # (B, 2) shift between the red and blue fields, as a share of the width
    gloss: Tensor  # strength of the highlights
    roughness: Tensor  # of the wet film
    vessel: Tensor  # contrast of the vessels
    debris: Tensor  # amount of residue, in deviations of the debris map
    bubbles: Tensor
    pool_level: Tensor  # mm above the lowest wall
    down: Tensor  # (B, 2) direction of gravity in the colon's cross-section
    instrument: Tensor  # 0: none, 1: forceps, 2: snare
    tip: Tensor  # (B, 2) image position of the instrument's tip, as shares of the width
    loop: Tensor  # (B, 2) half axes of the snare's loop, as shares of the width
    narrow_band: Tensor  # 1: narrow-band imaging
    noise: Tensor

    def take(self, index: Tensor) -> "Conditions":
        """The conditions of the given frames."""
        return Conditions(*(getattr(self, field.name)[index] for field in fields(self)))


def draw_conditions(
    rng: Generator, looks: list[Look], owner: Ints, target: Floats, width: int, difficulty: Difficulty
) -> Conditions:
    """Conditions of every frame (F, ...); `owner` (F,) is the look of each frame.

    `target` (F, 4) are the box corners of the polyp that the look shows (NaN: out of view); instruments point at it.
    """
    down = rng.uniform(0, 2 * np.pi)
    warmth = rng.normal(0, 0.05)
    drift_share = difficulty.colour_drift
    of_procedure = rng.normal(size=COLOURS)
    of_look = _chain(rng, looks, COLOURS)
    colours = np.sqrt(1.0 - drift_share**2) * of_procedure + drift_share * of_look
    views = _chain(rng, looks, VIEWS)
    of_looks = _look_conditions(looks, difficulty.view_change, warmth, colours.T, views.T)
    table = {name: values[owner] for name, values in of_looks.items()}
    frames = len(owner)
    drift = _drift(rng, frames)
    focus = np.exp(0.5 * _drift(rng, frames))
    motion = np.abs(rng.normal(0, 1, (2, frames))) ** 2 * table["motion"]
    fringe = rng.normal(0, 1, (frames, 2)) * table["fringe"][:, None]
    return Conditions(
        exposure=_column(table["exposure"] + 0.12 * drift),
        balance=_tensor(np.stack([table["red"], np.ones(frames), table["blue"]], axis=1)),
        blur_x=_column(table["defocus"] * focus + motion[0]),
        blur_y=_column(table["defocus"] * focus + motion[1]),
        fringe=_tensor(fringe),
        pool_level=_column(table["pool"]),
        down=_tensor(np.tile([np.cos(down), np.sin(down)], (frames, 1))),
        instrument=_column(table["instrument"] * ~np.isnan(target[:, 0])),
        tip=_tensor(np.nan_to_num(target[:, :2] + target[:, 2:]) / (2 * width)),
        loop=_tensor(np.nan_to_num((target[:, 2:] - target[:, :2]) * table["loop"][:, None], nan=1.0) / width),
        **{name: _column(table[name]) for name in UNCHANGED},
    )


def _chain(rng: Generator, looks: list[Look], size: int) -> Floats:
    """Standard normal numbers (looks, size); each row differs from the previous one by the look's renewal."""
    rows = rng.normal(size=(len(looks), size))
    for number in range(1, len(looks)):
        renewal = looks[number].renewal
        rows[number] = np.sqrt(1.0 - renewal**2) * rows[number - 1] + renewal * rows[number]
    return rows


def _look_conditions(
    looks: list[Look], change: float, warmth: float, colour: Floats, view: Floats
) -> dict[str, Floats]:
    """The conditions of N looks from standard normal numbers (COLOURS, N) and (VIEWS, N) and their phases."""
    washing, removing = (np.array([look.phase == phase for look in looks]) for phase in ("wash", "remove"))
    bubbles, bubble_amount, pool, pool_amount, instrument, loop = ndtr(view[7:])
    return {
        "red": np.exp(0.045 * colour[0] + warmth),
        "blue": np.exp(0.075 * np.clip(colour[1], -1.6, 1.6) - 1.5 * warmth),
        "saturation": np.clip(1.16 + 0.08 * colour[2], 0.9, 1.4),
        "vessel": np.clip(1.0 + 0.18 * colour[3], 0.25, 1.2),
        "noise": 0.012 * np.exp(0.4 * colour[4]),
        "exposure": 0.4 * change * view[0],
        "haze": np.maximum(0.0, 0.03 * change * view[1]) + np.where(washing, 0.03, 0.0),
        "defocus": 0.0010 * np.exp(0.7 * change * view[2]),
        "motion": 0.0012 * np.exp(0.8 * change * view[3]),
        "fringe": 0.0018 * np.exp(0.8 * change * view[4]),
        "gloss": 1.25 * np.exp(0.3 * colour[5] + 0.4 * change * view[5]) * np.where(washing, 1.5, 1.0),
        "roughness": 0.19 * np.exp(0.4 * colour[6]),
        "debris": -0.2 + 0.6 * view[6] - np.where(washing | removing, 0.5, 0.0),
        "bubbles": np.where(bubbles < np.where(washing, 0.6, 0.06), 0.2 + 0.6 * bubble_amount, 0.0),
        "pool": np.where(pool < np.where(washing, 0.5, 0.2), 2.0 + 7.0 * pool_amount, -8.0),
        "instrument": np.where(removing, 1.0 + (instrument > 0.5), 0.0),
        "loop": 0.55 + 0.2 * loop,
        "narrow_band": np.array([float(look.narrow_band) for look in looks]),
    }


def _drift(rng: Generator, frames: int) -> Floats:
    """A slow autoregressive process with mean 0 and standard deviation 1."""
    first, *steps = rng.normal(0, 1, frames)
    return np.concatenate([[first], lfilter([0.243], [1.0, -0.97], steps, zi=[0.97 * first])[0]])


def _tensor(values: Floats) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))


def _column(values: Floats) -> Tensor:
    return _tensor(values)[:, None]
