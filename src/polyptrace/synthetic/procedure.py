"""One procedure: its colon and polyps, the camera's way, and a box for every frame in which a polyp is seen."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from polyptrace.core.randomness import numpy_generator
from polyptrace.data import Boxes, cut_tracklets, link_tracks
from polyptrace.synthetic.camera import pick_camera
from polyptrace.synthetic.colon import Colon, grow_colon
from polyptrace.synthetic.conditions import draw_conditions
from polyptrace.synthetic.lumen import LENGTH_MM, Lumen, inflate
from polyptrace.synthetic.noise import Rng
from polyptrace.synthetic.optics import grain_tile
from polyptrace.synthetic.paths import Paths, draw_paths, draw_states
from polyptrace.synthetic.polyps import Polyp, draw_polyp
from polyptrace.synthetic.presets import Preset
from polyptrace.synthetic.render import Scene
from polyptrace.synthetic.shading import Conditions
from polyptrace.synthetic.sight import disturb, polyp_boxes
from polyptrace.synthetic.workflow import FPS, Look, plan_looks

MOST_PER_SITE = 4


@dataclass(frozen=True)
class Procedure:
    """All there is to know about a procedure before a picture of it is rendered."""

    dataset: str
    video: str
    split: str
    fps: float
    scene: Scene
    looks: list[Look]
    paths: Paths
    conditions: Conditions
    boxes: NDArray[np.float64]  # (F, number of polyps, 4) corners; NaN: no box
    clear_boxes: NDArray[np.float64]  # the same before jitter and dropout


def draw_procedure(seed: int, number: int, split: str, polyps: int, preset: Preset) -> Procedure:
    """Procedure `number` of a seed; it does not depend on the other procedures."""
    rng = numpy_generator(seed, number)
    video = f"synth-{seed}-{number:03d}"
    colon = grow_colon(rng, preset.texel_mm)
    camera = pick_camera(rng, preset.width, preset.height)
    lesions, sites = _draw_polyps(rng, colon, video, polyps, preset, seed, number)
    hard = preset.difficulty
    for extra in (1, 3, 6, 10):
        looks = plan_looks(rng, preset, sites, extra)
        states = draw_states(rng, looks, hard.view_change)
        lumen = inflate(colon.shape, colon.slope, states.inflation, states.fold_gain)
        paths = draw_paths(rng, lumen, lesions, sites, camera, looks, states, preset)
        clear = np.stack([polyp_boxes(lumen, each, paths.views, camera) for each in lesions], axis=1)
        if _fewest_tracklets(paths.frame_index, clear) >= preset.fewest_tracklets:
            break
    target = clear[np.arange(len(clear)), np.array([each.polyp for each in looks])[paths.look]]
    conditions = draw_conditions(rng, looks, paths.look, target, preset.width, hard)
    given = [disturb(rng, each, camera, hard.box_jitter, hard.box_dropout) for each in clear.swapaxes(0, 1)]
    boxes = np.stack(given, axis=1)
    scene = Scene(colon, lumen, tuple(lesions), camera, grain_tile(rng, camera, torch.device("cpu")))
    fps = float(rng.choice(FPS))
    return Procedure(f"synthetic-{seed}", video, split, fps, scene, looks, paths, conditions, boxes, clear)


def _fewest_tracklets(frame_index: NDArray[np.int64], corners: NDArray[np.float64]) -> int:
    """Tracklets of the polyp that has fewest, from boxes (F, number of polyps, 4)."""
    row, polyp = np.nonzero(~np.isnan(corners[:, :, 0]))
    box = corners[row, polyp]
    xywh = np.concatenate([box[:, :2], box[:, 2:] - box[:, :2]], axis=1)
    boxes = Boxes.of(video="", frame_index=frame_index[row], xywh=xywh, polyp=polyp.astype(str))
    found = cut_tracklets(boxes, link_tracks(boxes, "polyp")).polyp
    return min(int((found == str(index)).sum()) for index in range(corners.shape[1]))


def _draw_polyps(
    rng: Rng, colon: Colon, video: str, count: int, preset: Preset, seed: int, number: int
) -> tuple[list[Polyp], list[list[int]]]:
    """The polyps of a procedure and the sites they sit at, in the order of withdrawal."""
    sites: list[list[int]] = []
    left = list(range(count))
    while left:
        together = min(1 + int(rng.poisson(preset.difficulty.polyps_per_site - 1.0)), MOST_PER_SITE)
        sites.append([left.pop(0) for _ in range(min(together, len(left)))])
    polyps: list[Polyp] = []
    resting = inflate(colon.shape, colon.slope, torch.ones(1), torch.ones(1))
    for order, site in enumerate(sites):
        # The maps of the wall repeat after LENGTH_MM. Sites lie in different periods, so that no site is in view from
        # another, at different depths of the period, so that their walls differ.
        middle = LENGTH_MM * (len(sites) - order - (order + rng.uniform(0.3, 0.6)) / len(sites))
        for place, index in enumerate(site):
            histology = _histology(rng, number, index)
            size = _size_mm(rng, histology, number, index)
            typical = numpy_generator(seed, number, 7)
            polyp = draw_polyp(rng, f"{video}_{index + 1}", size, histology, preset.difficulty.alike, typical)
            beside = place and not preset.separate and rng.random() < 0.4
            near = polyps[site[place - 1]] if beside else None
            apart = (50, 65) if preset.separate else (25, 45)  # mm; beyond sight, or in view of each other
            depth = middle + (rng.uniform(*apart) * (0, 1, -1, 2)[place] if near is None else 0.0)
            polyps.append(_settle(rng, resting, polyp, depth, near))
    return polyps, sites


def _histology(rng: Rng, number: int, index: int) -> str:
    """Adenomas and others in turn, so that each procedure has both, shuffled a little."""
    adenoma = (number + index) % 2 == 0 if rng.random() < 0.8 else rng.random() < 0.5
    return "AD" if adenoma else "HP" if rng.random() < 0.75 else "SSL"


def _size_mm(rng: Rng, histology: str, number: int, index: int) -> float:
    """Small ones are frequent; large ones are more often adenomas."""
    if (number + index // 2) % 2 == 0:
        size = rng.uniform(2.0, 5.0)
    else:
        size = 5.0 + rng.lognormal(np.log(3.5 if histology == "AD" else 2.2), 0.55)
    return float(np.round(min(size, 20.0), 1))


def _settle(rng: Rng, lumen: Lumen, polyp: Polyp, middle: float, near: Polyp | None) -> Polyp:
    """The polyp at a place near depth `middle`, or beside another, where the wall is not steep."""
    best, best_steep = polyp, np.inf
    for _ in range(40):
        theta, z = float(rng.uniform(-np.pi, np.pi)), float(middle + rng.normal(0, 6))
        crowded = 0.0
        if near is not None:
            theta = near.theta + float(rng.choice([-1, 1]) * rng.uniform(0.35, 0.9))
            theta = float(np.mod(theta + np.pi, 2 * np.pi) - np.pi)
            z = near.z + float(rng.normal(0, 6))
            apart = np.hypot((np.mod(theta - near.theta + np.pi, 2 * np.pi) - np.pi) * 18, z - near.z)
            crowded = max(0.0, near.size_mm + polyp.size_mm - float(apart))
        here = (torch.full((1, 1), float(each)) for each in (np.cos(theta) * 20, np.sin(theta) * 20, z, 0.0))
        normal = torch.cat(lumen.inward_normal(*here), dim=1)
        steep = 1.0 + float(normal[0, 0] * np.cos(theta) + normal[0, 1] * np.sin(theta)) + crowded
        if steep < best_steep:
            best, best_steep = replace(polyp, theta=theta, z=z), steep
        if steep < 0.06:
            break
    return best
