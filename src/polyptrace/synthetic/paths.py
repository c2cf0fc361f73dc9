"""Camera paths: for each look a smooth path around its polyp, inside the lumen, with the polyp in view.

A pose is seven numbers: log distance (mm), the direction from the polyp to the camera (u, v, normal; not normalised),
the polyp's position in the image (x, y, from the centre, as shares of the width), and roll.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from scipy.signal import lfilter

from polyptrace.core.arrays import Floats, Ints
from polyptrace.synthetic.camera import Camera, CameraViews, aim
from polyptrace.synthetic.colon import Colon, Lumen, inflate
from polyptrace.synthetic.polyps import Polyp, seat
from polyptrace.synthetic.presets import Preset
from polyptrace.synthetic.tracing import polyp_boxes, surface_points, visible_points
from polyptrace.synthetic.workflow import Look

KEY_FRAMES = 40  # frames between two key poses of a path
CANDIDATES = 10  # paths drawn for each look
PERSISTENCE = 0.8  # autocorrelation of successive key poses around the look's viewpoint
MIN_RENEWAL = 0.1  # smaller changes keep the shape of the lumen


@dataclass(frozen=True)
class Paths:
    """The frames of all looks in time order, with their views."""

    frame_index: Ints  # (F,)
    look: Ints  # (F,)
    views: CameraViews


def draw_lumen(rng: Generator, colon: Colon, looks: list[Look], change: float) -> tuple[Lumen, Ints]:
    """The lumen and its state in each look; inflation and folds change with the renewal between looks."""
    latent, rows, of_look, pending = rng.normal(size=2), [], [], 0.0
    for number, look in enumerate(looks):
        pending = 1.0 - (1.0 - pending) * (1.0 - look.renewal)
        if number == 0 or pending > MIN_RENEWAL:
            latent = np.sqrt(1.0 - pending**2) * latent + pending * rng.normal(size=2)
            rows.append(latent)
            pending = 0.0
        of_look.append(len(rows) - 1)
    table = np.stack(rows)
    inflation = 1.0 + 0.07 * change * np.clip(table[:, 0], -2, 2)
    fold_gain = np.clip(1.0 + 0.25 * change * table[:, 1], 0.4, 1.4)
    states = (torch.from_numpy(each.astype(np.float32)) for each in (inflation, fold_gain))
    return inflate(colon.shape, colon.slope, *states), np.array(of_look, dtype=np.int64)


def draw_paths(
    rng: Generator,
    lumen: Lumen,
    polyps: list[Polyp],
    sites: list[list[int]],
    camera: Camera,
    looks: list[Look],
    states: Ints,
    preset: Preset,
) -> Paths:
    """The camera paths of all looks of a procedure; `states` are those of the lumen in each look."""
    keys: list[Floats] = []
    last: dict[int, tuple[Floats, Floats]] = {}  # latent view and last key of each polyp
    beside = {polyp: [other for other in site if other != polyp] for site in sites for polyp in site}
    for look, state in zip(looks, states.tolist(), strict=True):
        polyp = polyps[look.polyp]
        drawn = [_draw_keys(rng, polyp, look, preset, last.get(look.polyp), index) for index in range(CANDIDATES)]
        others = [polyps[each] for each in beside[look.polyp]] if preset.separate else []
        candidates = np.stack([each for _, each in drawn])
        best = _choose(lumen, polyp, others, camera, candidates, state)
        latent, key = drawn[best]
        keys.append(key)
        last[look.polyp] = latent, key[-1]
    views = [
        _views(lumen, polyps[look.polyp], camera, _interpolate(rng, key, look.frames), state)
        for look, key, state in zip(looks, keys, states.tolist(), strict=True)
    ]
    joined = {name: torch.cat([getattr(each, name) for each in views]) for name in ("position", "rotation", "state")}
    frame_index = np.concatenate([look.start + np.arange(look.frames) for look in looks])
    owner = np.repeat(np.arange(len(looks)), [look.frames for look in looks])
    return Paths(frame_index.astype(np.int64), owner, CameraViews(**joined))


def _views(lumen: Lumen, polyp: Polyp, camera: Camera, poses: Floats, lumen_state: int) -> CameraViews:
    """Views of poses (F, 7) around a polyp; positions outside the lumen are moved inside."""
    pose, state = torch.from_numpy(poses.astype(np.float32)), torch.full((len(poses), 1), float(lumen_state))
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
    return CameraViews(position, aim(position, middle, u, v, pose[:, 6], camera), state)


def _draw_keys(
    rng: Generator, polyp: Polyp, look: Look, preset: Preset, before: tuple[Floats, Floats] | None, candidate: int
) -> tuple[Floats, Floats]:
    """The latent view (6,) and the keys (K, 7) of one candidate path.

    `before` holds the latent view and the last key of the polyp's previous look; `look.view_renewal` is the share that
    changes. Later candidates change more, in case the polyp is hidden from the previous viewpoint.
    """
    change = preset.difficulty.view_change
    renewal = max(look.view_renewal, 0.6 if candidate >= CANDIDATES // 2 else 0.0) if before else 1.0
    fresh = rng.normal(size=6)
    latent = fresh if before is None else np.sqrt(1.0 - renewal**2) * before[0] + renewal * fresh
    home = _pose(latent, polyp, look, change)
    first = home if before is None else home + (1.0 - renewal) * (before[1] - home) + _step(rng) * min(0.6, 2 * renewal)
    count = 2 + look.frames // KEY_FRAMES
    keys = [first]
    for _ in range(count - 1):
        keys.append(home + PERSISTENCE * (keys[-1] - home) + _step(rng))
        reach = np.hypot(keys[-1][4], keys[-1][5])
        keys[-1][4:6] *= min(1.0, 0.42 / max(reach, 1e-6))
        keys[-1][0] = np.clip(keys[-1][0], np.log(4.5), np.log(70.0))
    for end in (0, -1):
        if count > 2 and rng.random() < preset.leaving:
            keys[end][4:6] = _outside(rng)
    return latent, np.stack(keys)


def _pose(latent: Floats, polyp: Polyp, look: Look, change: float) -> Floats:
    """The pose (7,) of a latent view (6,); the phase sets the distance."""
    closeness = {"survey": 0.19, "approach": 0.28, "inspect": 0.42, "wash": 0.31, "remove": 0.33}[look.phase]
    share = closeness * np.exp((0.2 + 0.35 * change) * latent[0])  # of the image's width that the polyp spans
    spread = 0.25 + 0.75 * change
    tilt = float(np.clip(0.75 + 0.45 * spread * latent[1], 0.0, 1.35))
    side = 1.1 * spread * latent[2]
    distance = np.clip(0.45 * polyp.size_mm**0.85 * 1.35 / share, 4.5, 70.0)
    direction = [np.sin(tilt) * np.cos(side), np.sin(tilt) * np.sin(side), np.cos(tilt)]
    offset = (0.10 + 0.12 * change) * latent[3:5]
    return np.array([np.log(distance), *direction, *offset, 1.6 * change * latent[5]])


def _step(rng: Generator) -> Floats:
    """The random change from one key to the next."""
    return rng.normal(0, [0.16, 0.18, 0.18, 0.10, 0.085, 0.085, 0.12])


def _outside(rng: Generator) -> Floats:
    """A position just outside the image."""
    angle = rng.uniform(0, 2 * np.pi)
    return np.array([0.56 * np.cos(angle), 0.5 * np.sin(angle)])


def _choose(lumen: Lumen, polyp: Polyp, others: list[Polyp], camera: Camera, candidates: Floats, state: int) -> int:
    """Index of the first candidate (C, K, 7) whose keys all show the polyp and none of `others`, or of the best one."""
    views = _views(lumen, polyp, camera, candidates.reshape(-1, 7), state)
    points = surface_points(lumen, polyp, views, 24)
    share = visible_points(lumen, polyp, views, points).to(torch.float32).mean(dim=1)
    for other in others:
        visible = ~np.isnan(polyp_boxes(lumen, other, views, camera, points=24)[:, 0])
        share = torch.where(torch.from_numpy(visible), share - 0.5, share)
    worst = share.reshape(candidates.shape[:2]).amin(dim=1)
    suitable = torch.nonzero(worst > 0.6)[:, 0]
    return int(suitable[0]) if len(suitable) else int(worst.argmax())


def _interpolate(rng: Generator, keys: Floats, frames: int) -> Floats:
    """Poses (frames, 7): cubic interpolation of the keys, with a small hand tremor."""
    at = np.linspace(0, len(keys) - 1, frames) if frames > 1 else np.zeros(1)
    left = np.minimum(at.astype(int), len(keys) - 2)
    part = (at - left)[:, None]
    before, after = keys[np.maximum(left - 1, 0)], keys[np.minimum(left + 2, len(keys) - 1)]
    start, end = keys[left], keys[left + 1]
    start_slope, end_slope = 0.5 * (end - before), 0.5 * (after - start)
    cube, square = part**3, part**2
    smooth = (
        (2 * cube - 3 * square + 1) * start
        + (cube - 2 * square + part) * start_slope
        + (3 * square - 2 * cube) * end
        + (cube - square) * end_slope
    )
    tremor = rng.normal(0, 1, (frames, 7)) * np.array([0.006, 0.005, 0.005, 0.004, 0.0035, 0.0035, 0.004])
    return np.asarray(smooth + lfilter([1.0], [1.0, -0.9], tremor, axis=0))
