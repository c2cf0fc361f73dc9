"""Camera paths: for each look a smooth path around its polyp, inside the lumen, with the polyp in view.

A pose is eight numbers: log distance (mm), the direction from the polyp to the camera (u, v, normal; not normalised),
the polyp's place in the picture (x, y, as shares of the width from the centre), roll, and nothing else moves.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.synthetic.camera import Camera, aim
from polyptrace.synthetic.lumen import Lumen
from polyptrace.synthetic.noise import Rng
from polyptrace.synthetic.polyps import Polyp
from polyptrace.synthetic.presets import Preset
from polyptrace.synthetic.sight import seen
from polyptrace.synthetic.tracing import Views, seat
from polyptrace.synthetic.workflow import Look

Array = NDArray[np.float64]
KEY_FRAMES = 40  # between two keys of a path
CANDIDATES = 10


@dataclass(frozen=True)
class Paths:
    """Every frame in which some look is under way, in time order."""

    frame_index: NDArray[np.int64]  # (F,)
    look: NDArray[np.int64]  # (F,)
    views: Views


def draw_states(rng: Rng, looks: list[Look], change: float) -> tuple[Tensor, Tensor]:
    """Inflation and fold gain (S,) of the colon during each look: it has time to change before a fresh one."""
    inflation = 1.0 + 0.07 * change * np.clip(rng.normal(size=len(looks)), -2, 2)
    fold_gain = np.clip(1.0 + 0.25 * change * rng.normal(size=len(looks)), 0.4, 1.4)
    for number, look in enumerate(looks):
        if not look.fresh:
            inflation[number], fold_gain[number] = inflation[number - 1], fold_gain[number - 1]
    return torch.from_numpy(inflation.astype(np.float32)), torch.from_numpy(fold_gain.astype(np.float32))


def draw_paths(rng: Rng, lumen: Lumen, polyps: list[Polyp], camera: Camera, looks: list[Look], preset: Preset) -> Paths:
    """Paths for all looks of a procedure, each in its own state of the lumen."""
    change = preset.difficulty.view_change
    keys: list[Array] = []
    for number, look in enumerate(looks):
        before = None if look.fresh else keys[-1][-1]
        polyp = polyps[look.polyp]
        drawn = np.stack([_draw_keys(rng, polyp, look, change, preset.leaving, before) for _ in range(CANDIDATES)])
        keys.append(_choose(lumen, polyp, camera, drawn, number))
    poses = np.concatenate([_interpolate(rng, key, look.frames) for key, look in zip(keys, looks, strict=True)])
    owner = np.repeat(np.arange(len(looks)), [look.frames for look in looks])
    position = torch.zeros(len(poses), 3)
    rotation = torch.zeros(len(poses), 3, 3)
    state = torch.from_numpy(owner.astype(np.float32))[:, None]
    target = np.array([look.polyp for look in looks])[owner]
    for index, polyp in enumerate(polyps):
        at = torch.from_numpy(np.flatnonzero(target == index))
        if len(at):
            views = place(lumen, polyp, camera, torch.from_numpy(poses[at.numpy()].astype(np.float32)), state[at])
            position[at], rotation[at] = views.position, views.rotation
    frame_index = np.concatenate([look.start + np.arange(look.frames) for look in looks])
    return Paths(frame_index.astype(np.int64), owner, Views(position, rotation, state))


def place(lumen: Lumen, polyp: Polyp, camera: Camera, pose: Tensor, state: Tensor) -> Views:
    """Views for poses (F, 7) around a polyp, pushed inwards where they would leave the lumen."""
    site = seat(lumen, polyp, state)
    middle = site.anchor + polyp.lift * site.axes[:, 2]
    direction = torch.nn.functional.normalize(pose[:, 1:4], dim=1)
    away = torch.einsum("fk,fkc->fc", direction, site.axes)
    position = middle + torch.exp(pose[:, 0:1]) * away
    across = torch.sqrt(position[:, :1] ** 2 + position[:, 1:2] ** 2 + 1e-9)
    theta = torch.atan2(position[:, 1:2], position[:, :1])
    limit = (lumen.radius(theta, position[:, 2:3], state) - 3.5).clamp_min(1.0)
    factor = torch.minimum(torch.ones_like(across), limit / across)
    position = torch.cat([position[:, :2] * factor, position[:, 2:]], dim=1)
    u, v = pose[:, 4] * camera.width, pose[:, 5] * camera.width
    return Views(position, aim(position, middle, u, v, pose[:, 6], camera), state)


def _draw_keys(rng: Rng, polyp: Polyp, look: Look, change: float, leaving: float, before: Array | None) -> Array:
    """Keys (K, 7) of one candidate path; it starts where the last look ended when there is a `before`."""
    count = 2 + look.frames // KEY_FRAMES
    first = _draw_pose(rng, polyp, look, change) if before is None else before + _step(rng) * 0.6
    keys = [first]
    for _ in range(count - 1):
        keys.append(keys[-1] + _step(rng))
        reach = np.hypot(keys[-1][4], keys[-1][5])
        keys[-1][4:6] *= min(1.0, 0.36 / max(reach, 1e-6))
        keys[-1][0] = np.clip(keys[-1][0], np.log(4.5), np.log(70.0))
    if count > 2 and rng.random() < leaving:
        keys[0][4:6] = _outside(rng)
    if count > 2 and rng.random() < leaving:
        keys[-1][4:6] = _outside(rng)
    return np.stack(keys)


def _draw_pose(rng: Rng, polyp: Polyp, look: Look, change: float) -> Array:
    """A viewpoint as it fits what is being done: from afar along the lumen, or close."""
    closeness = {"survey": 0.14, "approach": 0.22, "inspect": 0.33, "wash": 0.24, "remove": 0.26}[look.phase]
    share = closeness * np.exp(rng.normal(0, 0.2 + 0.35 * change))  # of the picture's width that the polyp spans
    spread = 0.25 + 0.75 * change
    tilt = float(np.clip(rng.normal(0.75, 0.45 * spread), 0.0, 1.35))
    side = rng.normal(0, 1.1 * spread)
    distance = np.clip(0.45 * polyp.size_mm**0.85 * 1.35 / share, 4.5, 70.0)
    direction = [np.sin(tilt) * np.cos(side), np.sin(tilt) * np.sin(side), np.cos(tilt)]
    spot = rng.normal(0, 0.04 + 0.12 * change, 2)
    return np.array([np.log(distance), *direction, *spot, rng.normal(0, 1.6 * change)])


def _step(rng: Rng) -> Array:
    """How a pose changes from one key to the next."""
    return rng.normal(0, [0.16, 0.18, 0.18, 0.10, 0.085, 0.085, 0.12])


def _outside(rng: Rng) -> Array:
    angle = rng.uniform(0, 2 * np.pi)
    return np.array([0.56 * np.cos(angle), 0.5 * np.sin(angle)])


def _choose(lumen: Lumen, polyp: Polyp, camera: Camera, drawn: Array, state: int) -> Array:
    """The first of the candidates (C, K, 7) on which the polyp is well seen from every key, or the best."""
    flat = torch.from_numpy(drawn.reshape(-1, 7).astype(np.float32))
    views = place(lumen, polyp, camera, flat, torch.full((len(flat), 1), float(state)))
    share = seen(lumen, polyp, views, points=24).to(torch.float32).mean(dim=1).reshape(drawn.shape[:2])
    worst = share.amin(dim=1)
    good = torch.nonzero(worst > 0.6)[:, 0]
    chosen: Array = drawn[int(good[0]) if len(good) else int(worst.argmax())]
    return chosen


def _interpolate(rng: Rng, keys: Array, frames: int) -> Array:
    """Poses (frames, 7) along the keys: cubic between them, with the tremor of a hand."""
    at = np.linspace(0, len(keys) - 1, frames) if frames > 1 else np.zeros(1)
    left = np.minimum(at.astype(int), len(keys) - 2)
    part = (at - left)[:, None]
    before, after = keys[np.maximum(left - 1, 0)], keys[np.minimum(left + 2, len(keys) - 1)]
    here, there = keys[left], keys[left + 1]
    slope_here, slope_there = 0.5 * (there - before), 0.5 * (after - here)
    cube, square = part**3, part**2
    smooth = (
        (2 * cube - 3 * square + 1) * here
        + (cube - 2 * square + part) * slope_here
        + (3 * square - 2 * cube) * there
        + (cube - square) * slope_there
    )
    tremor = rng.normal(0, 1, (frames, 7)) * np.array([0.006, 0.005, 0.005, 0.004, 0.0035, 0.0035, 0.004])
    for row in range(1, frames):
        tremor[row] += 0.9 * tremor[row - 1]
    poses: Array = smooth + tremor
    return poses
