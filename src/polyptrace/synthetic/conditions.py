"""Light, lens, colour and residue of every frame: what belongs to the procedure, to a look, and to a frame."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from torch import Tensor

from polyptrace.synthetic.noise import Rng
from polyptrace.synthetic.presets import Difficulty
from polyptrace.synthetic.shading import Conditions
from polyptrace.synthetic.workflow import Look

Array = NDArray[np.float64]
COLOURS = 7  # numbers that belong to the procedure
VIEWS = 13  # numbers that belong to a look


def draw_conditions(
    rng: Rng, looks: list[Look], owner: NDArray[np.int64], target: Array, width: int, difficulty: Difficulty
) -> Conditions:
    """Conditions of every frame (F, ...); `owner` (F,) is the look of each frame.

    Light, focus, water and residue change with the renewal between looks. White balance, processor colours, gloss and
    sensor noise belong to the procedure and drift a little. `target` (F, 4) are the box corners of the polyp that each
    look shows (NaN: out of view); instruments point at it.
    """
    down = rng.uniform(0, 2 * np.pi)
    warmth = rng.normal(0, 0.05)
    drift_share = difficulty.colour_drift
    of_procedure = rng.normal(size=COLOURS)
    of_look = _chain(rng, looks, COLOURS)
    colours = np.sqrt(1.0 - drift_share**2) * of_procedure + drift_share * of_look
    views = _chain(rng, looks, VIEWS)
    rows = [
        _look_conditions(look, difficulty.view_change, warmth, colour, view)
        for look, colour, view in zip(looks, colours, views, strict=True)
    ]
    table = {name: np.array([row[name] for row in rows])[owner] for name in rows[0]}
    frames = len(owner)
    drift = _drift(rng, frames)
    focus = np.exp(0.5 * _drift(rng, frames))
    motion = np.abs(rng.normal(0, 1, (2, frames))) ** 2 * table["motion"]
    fringe = rng.normal(0, 1, (frames, 2)) * table["fringe"][:, None]
    return Conditions(
        exposure=_column(table["exposure"] + 0.12 * drift),
        balance=_tensor(np.stack([table["red"], np.ones(frames), table["blue"]], axis=1)),
        saturation=_column(table["saturation"]),
        haze=_column(table["haze"]),
        blur_x=_column(table["defocus"] * focus + motion[0]),
        blur_y=_column(table["defocus"] * focus + motion[1]),
        fringe=_tensor(fringe),
        gloss=_column(table["gloss"]),
        roughness=_column(table["roughness"]),
        vessel=_column(table["vessel"]),
        debris=_column(table["debris"]),
        bubbles=_column(table["bubbles"]),
        pool_level=_column(table["pool"]),
        down=_tensor(np.tile([np.cos(down), np.sin(down)], (frames, 1))),
        instrument=_column(table["instrument"] * ~np.isnan(target[:, 0])),
        tip=_tensor(np.nan_to_num(target[:, :2] + target[:, 2:]) / (2 * width)),
        loop=_tensor(np.nan_to_num((target[:, 2:] - target[:, :2]) * table["loop"][:, None], nan=1.0) / width),
        narrow_band=_column(table["narrow_band"]),
        noise=_column(table["noise"]),
    )


def _chain(rng: Rng, looks: list[Look], size: int) -> Array:
    """Standard normal numbers (looks, size), each row as different from the last one as the look's renewal says."""
    rows = rng.normal(size=(len(looks), size))
    for number in range(1, len(looks)):
        renewal = looks[number].renewal
        rows[number] = np.sqrt(1.0 - renewal**2) * rows[number - 1] + renewal * rows[number]
    return rows


def _look_conditions(look: Look, change: float, warmth: float, colour: Array, view: Array) -> dict[str, float]:
    """One look's conditions from standard normal numbers (COLOURS,) and (VIEWS,), and from its phase."""
    washing, removing = look.phase == "wash", look.phase == "remove"
    bubbles, bubble_amount, pool, pool_amount, instrument, loop = ndtr(view[7:])
    return {
        "red": float(np.exp(0.045 * colour[0] + warmth)),
        "blue": float(np.exp(0.075 * float(np.clip(colour[1], -1.6, 1.6)) - 1.5 * warmth)),
        "saturation": float(np.clip(1.16 + 0.08 * colour[2], 0.9, 1.4)),
        "vessel": float(np.clip(1.0 + 0.18 * colour[3], 0.25, 1.2)),
        "noise": 0.012 * float(np.exp(0.4 * colour[4])),
        "exposure": 0.4 * change * view[0],
        "haze": max(0.0, 0.03 * change * view[1]) + (0.03 if washing else 0.0),
        "defocus": 0.0010 * float(np.exp(0.7 * change * view[2])),
        "motion": 0.0012 * float(np.exp(0.8 * change * view[3])),
        "fringe": 0.0018 * float(np.exp(0.8 * change * view[4])),
        "gloss": 1.25 * float(np.exp(0.3 * colour[5] + 0.4 * change * view[5])) * (1.5 if washing else 1.0),
        "roughness": 0.19 * float(np.exp(0.4 * colour[6])),
        "debris": -0.2 + 0.6 * view[6] - (0.5 if washing or removing else 0.0),
        "bubbles": 0.2 + 0.6 * bubble_amount if bubbles < (0.6 if washing else 0.06) else 0.0,
        "pool": 2.0 + 7.0 * pool_amount if pool < (0.5 if washing else 0.2) else -8.0,
        "instrument": float(1 + (instrument > 0.5)) if removing else 0.0,
        "loop": 0.55 + 0.2 * loop,
        "narrow_band": float(look.narrow_band),
    }


def _drift(rng: Rng, frames: int) -> Array:
    """A slow random walk around 0 with deviation 1."""
    steps = rng.normal(0, 1, frames)
    value = np.empty(frames)
    value[0] = steps[0]
    for index in range(1, frames):
        value[index] = 0.97 * value[index - 1] + 0.243 * steps[index]
    return value


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))


def _column(values: Array) -> Tensor:
    return _tensor(values)[:, None]
