"""What of a polyp the camera can see, from its geometry alone, and the box around it."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.synthetic.camera import Camera
from polyptrace.synthetic.lumen import Lumen
from polyptrace.synthetic.noise import Rng
from polyptrace.synthetic.polyps import Polyp
from polyptrace.synthetic.tracing import Views, seat

FARTHEST_MM = 60.0  # nobody marks a polyp that is farther away in the dark
SMALLEST = 0.03  # or smaller, as a share of the picture's width
PROBES = 14  # places along a line of sight where it may meet a fold


def surface_points(lumen: Lumen, polyp: Polyp, views: Views, points: int) -> Tensor:
    """Points (B, 3, n) spread over the polyp as it sits in each frame."""
    u, v, h = polyp.outline(points).to(views.position.device)
    site = seat(lumen, polyp, views.state)
    flat = u[None, None] * site.axes[:, 0, :, None] + v[None, None] * site.axes[:, 1, :, None]
    normal = site.axes[:, 2, :, None]
    place: Tensor = site.anchor[:, :, None] + flat + h * normal
    for _ in range(3):  # the height is measured from the wall below, which need not be flat
        height = lumen.clearance(place[:, 0], place[:, 1], place[:, 2], views.state)
        above = ((place - site.anchor[:, :, None]) * normal).sum(dim=1)
        miss = h - polyp.height(height * site.upright, above)
        place = place + (miss * 0.9)[:, None] * normal
    return place


def seen(lumen: Lumen, polyp: Polyp, views: Views, points: int, place: Tensor | None = None) -> Tensor:
    """Whether no fold hides each of the polyp's points: (B, n)."""
    place = surface_points(lumen, polyp, views, points) if place is None else place
    slack = 0.12 * min(polyp.size_mm, 2.0 * (polyp.lift + polyp.radii[2]))  # how deep a point may seem to be hidden
    away = place - views.position[:, :, None]  # (B, 3, n)
    free = torch.full_like(place[:, 0], np.inf)
    for share in torch.linspace(0.06, 0.94, PROBES).tolist():
        at = views.position[:, :, None] + share * away
        free = torch.minimum(free, lumen.clearance(at[:, 0], at[:, 1], at[:, 2], views.state))
    return free > -slack


def polyp_boxes(lumen: Lumen, polyp: Polyp, views: Views, camera: Camera, points: int = 220) -> NDArray[np.float64]:
    """Corners (B, 4) x0, y0, x1, y1 of the box around what is seen of the polyp; NaN where it is not in view."""
    anchor = seat(lumen, polyp, views.state).anchor
    near = torch.nonzero((anchor - views.position).norm(dim=1) < FARTHEST_MM)[:, 0]
    boxes = torch.full((len(anchor), 4), torch.nan)
    boxes[near] = _near_boxes(lumen, polyp, views.take(near), camera, points)
    return boxes.numpy().astype(np.float64)


def _near_boxes(lumen: Lumen, polyp: Polyp, views: Views, camera: Camera, points: int) -> Tensor:
    place = surface_points(lumen, polyp, views, points)
    away = place - views.position[:, :, None]
    right, down, forward = torch.einsum("bck,bcn->kbn", views.rotation, away)
    x, y = camera.project(right, down, forward)
    clear = seen(lumen, polyp, views, points, place)
    shown = clear & (camera.inside(x, y) > 0)
    low_x = torch.where(clear, x, np.inf).amin(dim=1).clamp(0, camera.width)
    high_x = torch.where(clear, x, -np.inf).amax(dim=1).clamp(0, camera.width)
    low_y = torch.where(clear, y, np.inf).amin(dim=1).clamp(0, camera.height)
    high_y = torch.where(clear, y, -np.inf).amax(dim=1).clamp(0, camera.height)
    least = SMALLEST * camera.width
    good = (shown.to(torch.float32).mean(dim=1) > 0.4) & (high_x - low_x > least) & (high_y - low_y > least)
    return torch.where(good[:, None], torch.stack([low_x, low_y, high_x, high_y], dim=1), torch.nan)


def disturb(rng: Rng, boxes: NDArray[np.float64], camera: Camera, jitter: float, dropout: float) -> NDArray[np.float64]:
    """Boxes (F, 4) as a detector gives them: edges moved by about `jitter` of the box, a share `dropout` missing."""
    size = boxes[:, 2:] - boxes[:, :2]
    moved = boxes + np.tile(size, 2) * jitter * rng.normal(0, 1, boxes.shape)
    bounds = np.array([camera.width, camera.height])
    low = np.clip(np.round(moved[:, :2], 1), 0.0, bounds - 1)
    high = np.clip(np.round(moved[:, 2:], 1), low + 1, bounds)  # a pixel is left of any box
    given = np.concatenate([low, high], axis=1)
    given[rng.random(len(boxes)) < dropout] = np.nan
    return given
