"""How light, lens and dirt differ from look to look, and drift within one."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.synthetic.noise import Rng
from polyptrace.synthetic.shading import Conditions
from polyptrace.synthetic.workflow import Look

Array = NDArray[np.float64]


def draw_conditions(
    rng: Rng, looks: list[Look], owner: NDArray[np.int64], target: Array, width: int, change: float
) -> Conditions:
    """Conditions of every frame (F, ...); `owner` (F,) is the look of each, `change` in [0, 1] their spread.

    `target` (F, 4) are the corners of the box around what each look is about (NaN: out of view), for instruments.
    """
    down = rng.uniform(0, 2 * np.pi)
    gloss = 1.25 * np.exp(rng.normal(0, 0.3))
    warmth = rng.normal(0, 0.05)
    rows = [_draw_look(rng, look, change, gloss, warmth) for look in looks]
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


def _draw_look(rng: Rng, look: Look, change: float, gloss: float, warmth: float) -> dict[str, float]:
    """One look's numbers; what is being done to the polyp decides about water, bubbles and instruments."""
    normal = rng.normal(0, 1, 12)
    washing, removing = look.phase == "wash", look.phase == "remove"
    return {
        "exposure": 0.4 * change * normal[0],
        "red": float(np.exp(0.06 * change * normal[1] + warmth)),
        "blue": float(np.exp(0.10 * change * float(np.clip(normal[2], -1.6, 1.6)) - 1.5 * warmth)),
        "saturation": float(np.clip(1.16 + 0.11 * change * normal[3], 0.9, 1.4)),
        "haze": max(0.0, 0.03 * change * normal[4]) + (0.03 if washing else 0.0),
        "defocus": 0.0010 * float(np.exp(0.7 * change * normal[5])),
        "motion": 0.0012 * float(np.exp(0.8 * change * normal[6])),
        "fringe": 0.0018 * float(np.exp(0.8 * change * normal[7])),
        "gloss": gloss * float(np.exp(0.4 * change * normal[8])) * (1.5 if washing else 1.0),
        "roughness": 0.19 * float(np.exp(0.4 * normal[9])),
        "vessel": float(np.clip(1.0 + 0.25 * change * normal[10], 0.25, 1.2)),
        "debris": float(rng.normal(-0.2, 0.6)) - (0.5 if washing or removing else 0.0),
        "bubbles": float(rng.uniform(0.2, 0.8)) if rng.random() < (0.6 if washing else 0.06) else 0.0,
        "pool": float(rng.uniform(2, 9)) if rng.random() < (0.5 if washing else 0.2) else -8.0,
        "instrument": float(rng.integers(1, 3)) if removing else 0.0,
        "loop": float(rng.uniform(0.55, 0.75)),
        "narrow_band": float(look.phase == "inspect" and rng.random() < 0.12 * change),
        "noise": 0.012 * float(np.exp(0.4 * normal[11])),
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
