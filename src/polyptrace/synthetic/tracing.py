"""Ray tracing of the wall and the polyps, and the boxes of visible polyps.

Vectors are stored as separate components (B, P): B frames, P pixels.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.nn.functional import interpolate, max_pool2d, normalize

from polyptrace.core.arrays import Floats
from polyptrace.synthetic.camera import Camera, CameraViews, camera_rays
from polyptrace.synthetic.colon import Lumen
from polyptrace.synthetic.polyps import Polyp, Site, seat

FAR_MM = 150.0  # end of every ray
SIGHT_MM = 90.0  # polyps beyond this distance are not rendered
BOX_MM = 60.0  # polyps beyond this distance have no box
MIN_BOX = 0.03  # minimum box side, as a share of the image's width
MIN_VISIBLE = 0.4  # minimum share of a polyp's surface points that are in view
SIGHT_STEPS = 14  # points at which a line of sight is tested against folds
Rays = tuple[Tensor, Tensor, Tensor]


def turn_rays(views: CameraViews, rays: Tensor) -> Rays:
    """Directions (B, P) of camera rays (3, P) in the coordinates of the colon."""
    world = views.rotation @ rays  # (B, 3, P)
    return world[:, 0], world[:, 1], world[:, 2]


def trace_wall(lumen: Lumen, camera: Camera, views: CameraViews, rays: Rays) -> Tensor:
    """Distance (B, P) along each ray to the wall.

    A coarse grid of rays starts at the camera. Each finer grid starts just before the nearest hit in its
    neighbourhood. The few pixels that have not converged (beyond the edge of a fold) take additional steps.
    """
    start = torch.ones(len(views.position), 1, 1, 1, device=views.position.device)
    distance = start
    for shrink, steps in ((8, 0), (2, 5), (1, 2)):
        grid = (camera.height // shrink, camera.width // shrink)
        level = rays if shrink == 1 else turn_rays(views, camera_rays(camera, start.device, shrink))
        distance = interpolate(start, size=grid, mode="nearest").reshape(len(start), -1).contiguous()
        distance = _march(lumen, views, level, distance, steps)
        if shrink > 1:
            nearest = max_pool2d(-distance.reshape(-1, 1, *grid), 3, stride=1, padding=1)
            start = nearest * -0.985
    return distance


def _march(lumen: Lumen, views: CameraViews, rays: Rays, distance: Tensor, steps: int) -> Tensor:
    """Distances (B, P) after secant steps towards zero clearance; rays that have not converged take more steps.

    If the clearance falls by f mm per mm, the next step is the clearance times (f + 0.03) / (f² + 0.05): about 1 / f
    where the ray approaches the wall, and short where it does not.
    """
    if not steps:
        return _approach(lumen, views, rays, distance, steps=24)
    gap = _clearance(lumen, views, rays, distance)
    step = 0.62 * gap
    for _ in range(steps):
        distance = (distance + step).clamp_(0.05, FAR_MM)
        new = _clearance(lumen, views, rays, distance)
        falling = ((gap - new) * step / (step * step + 1e-9)).clamp_(0.0, 2.5)
        step = new * (falling + 0.03) / (falling * falling + 0.05)
        gap = new
    distance = (distance + step).clamp_(0.05, FAR_MM)
    unfinished = (step.abs() > 0.006 * distance + 0.03) & (distance < FAR_MM)
    flat = torch.nonzero(unfinished.reshape(-1))[:, 0]
    frame = flat // distance.shape[1]
    subset = CameraViews(views.position[frame], views.rotation[:1], views.state[frame])
    some = (rays[0].take(flat)[:, None], rays[1].take(flat)[:, None], rays[2].take(flat)[:, None])
    return distance.put(flat, _approach(lumen, subset, some, distance.take(flat)[:, None], steps=12)[:, 0])


def _approach(lumen: Lumen, views: CameraViews, rays: Rays, distance: Tensor, steps: int) -> Tensor:
    """Distances (B, P) after steps that are shorter than the clearance."""
    for _ in range(steps):
        distance = (distance + 0.62 * _clearance(lumen, views, rays, distance)).clamp_(0.05, FAR_MM)
    return distance


def points_on_rays(views: CameraViews, rays: Rays, distance: Tensor) -> Rays:
    """x, y, z (B, P) of the points at these distances along the rays."""
    x, y, z = (torch.addcmul(views.position[:, k : k + 1], rays[k], distance) for k in range(3))
    return x, y, z


def _clearance(lumen: Lumen, views: CameraViews, rays: Rays, distance: Tensor) -> Tensor:
    return lumen.clearance(*points_on_rays(views, rays, distance), views.state)


@dataclass(frozen=True)
class PolypHits:
    """Pixels (n,) in which a polyp is visible."""

    frame: Tensor
    pixel: Tensor
    distance: Tensor
    u: Tensor
    v: Tensor
    h: Tensor
    normal: Tensor  # (3, n)


def in_reach(lumen: Lumen, polyp: Polyp, views: CameraViews) -> bool:
    """Whether a polyp is within sight and not behind the camera in any of the frames."""
    away = seat(lumen, polyp, views.state).anchor - views.position
    distance = away.norm(dim=1)
    ahead = (away * views.rotation[:, :, 2]).sum(dim=1) / distance
    return bool(((distance < SIGHT_MM) & (ahead > -0.1) | (distance < 3 * polyp.size_mm)).any())


def trace_polyp(lumen: Lumen, polyp: Polyp, views: CameraViews, rays: Rays, wall: Tensor) -> PolypHits:
    """The pixels in which the polyp is in front of the wall, whose distances are (B, P)."""
    site = seat(lumen, polyp, views.state)
    ball_centre, reach = polyp.ball
    centre = torch.tensor(ball_centre, device=wall.device)
    away = site.anchor + torch.einsum("k,bkc->bc", centre, site.axes) - views.position  # (B, 3)
    along = away[:, 0:1] * rays[0] + away[:, 1:2] * rays[1] + away[:, 2:3] * rays[2]  # (B, P)
    miss = (away * away).sum(dim=1, keepdim=True) - along * along
    near = (miss < reach * reach) & (along > 0.0) & (along - reach < wall)
    flat = torch.nonzero(near.reshape(-1))[:, 0]
    frame, pixel = flat // wall.shape[1], flat % wall.shape[1]
    middle, limit, beside = along.take(flat), wall.take(flat), miss.take(flat)
    half = torch.sqrt(reach * reach - beside)
    bundle = _ray_bundle(lumen, polyp, views, site, frame, torch.stack([each.take(flat) for each in rays]))
    distance = (middle - half).clamp_min(0.05)
    end = torch.minimum(middle + half, limit)
    distance, _ = bundle.march(distance, end, steps=2)
    active = torch.nonzero(distance < end)[:, 0]  # the other rays miss the polyp or reach the wall first
    bundle, frame, pixel, end = bundle.take(active), frame[active], pixel[active], end[active]
    distance, gap = bundle.march(distance[active], end, steps=9)
    hit = torch.nonzero((gap < 0.012 * min(polyp.radii)) & (distance < end))[:, 0]
    bundle, distance, frame = bundle.take(hit), distance[hit], frame[hit]
    u, v, h = bundle.local(distance)
    return PolypHits(frame, pixel[hit], distance, u, v, h, bundle.normal(distance, site.axes[frame]))


@dataclass(frozen=True)
class _RayBundle:
    """A polyp and n rays, in the coordinates of the colon (x, y, z) and of the polyp (u, v, w along the normal)."""

    lumen: Lumen
    polyp: Polyp
    start: Tensor  # (6, n): x, y, z, u, v, w of the camera
    change: Tensor  # (6, n): their change per mm along the ray
    upright: Tensor  # (n,)
    state: Tensor  # (n,)

    def take(self, index: Tensor) -> "_RayBundle":
        columns = (self.start[:, index], self.change[:, index], self.upright[index], self.state[index])
        return _RayBundle(self.lumen, self.polyp, *columns)

    def march(self, distance: Tensor, end: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Distances (n,), at most `end`, after `steps` steps, and the remaining gaps."""
        gap = self.gap(distance)
        for _ in range(steps):
            distance = torch.minimum(distance + 0.9 * gap, end)
            gap = self.gap(distance)
        return distance, gap

    def local(self, distance: Tensor, shift: Tensor | float = 0.0) -> Rays:
        """Polyp coordinates (u, v, h) at distances (n,), after a shift (6, n) of all coordinates."""
        x, y, z, u, v, w = torch.addcmul(self.start, self.change, distance) + shift
        clearance = self.lumen.clearance(x, y, z, self.state)
        return u, v, self.polyp.height(clearance * self.upright, w)

    def gap(self, distance: Tensor, shift: Tensor | float = 0.0) -> Tensor:
        return self.polyp.distance(*self.local(distance, shift))

    def normal(self, distance: Tensor, axes: Tensor) -> Tensor:
        """Unit normals (3, n) from finite differences at the corners of a tetrahedron (axes: n, 3, 3)."""
        total = torch.zeros(3, len(distance), device=distance.device)
        for corner in ((1.0, -1.0, -1.0), (-1.0, -1.0, 1.0), (-1.0, 1.0, -1.0), (1.0, 1.0, 1.0)):
            corner_vector = torch.tensor(corner, device=distance.device)
            shift = torch.cat([corner_vector.expand(len(axes), 3).T, (axes @ corner_vector).T]) * (
                0.012 * self.polyp.size_mm
            )
            total += corner_vector[:, None] * self.gap(distance, shift)
        return normalize(total, dim=0)


def _ray_bundle(lumen: Lumen, polyp: Polyp, views: CameraViews, site: Site, frame: Tensor, ray: Tensor) -> _RayBundle:
    """The bundle of rays (3, n) in the frames (n,)."""
    local_start = torch.einsum("bkc,bc->bk", site.axes, views.position - site.anchor)  # (B, 3)
    start = torch.cat([views.position, local_start], dim=1)[frame].T.contiguous()
    axes = site.axes.reshape(-1, 9)[frame].T.reshape(3, 3, -1)
    change = torch.cat([ray, (axes * ray).sum(dim=1)])
    return _RayBundle(lumen, polyp, start, change, site.upright[frame, 0], views.state[frame, 0])


def surface_points(lumen: Lumen, polyp: Polyp, views: CameraViews, points: int) -> Tensor:
    """Points (B, 3, n) spread over the polyp's surface in each frame."""
    u, v, h = polyp.outline(points)
    site = seat(lumen, polyp, views.state)
    flat = u[None, None] * site.axes[:, 0, :, None] + v[None, None] * site.axes[:, 1, :, None]
    normal = site.axes[:, 2, :, None]
    point: Tensor = site.anchor[:, :, None] + flat + h * normal
    for _ in range(3):  # fixed-point iteration: heights are measured from the wall, which may be curved
        height = lumen.clearance(point[:, 0], point[:, 1], point[:, 2], views.state)
        above = ((point - site.anchor[:, :, None]) * normal).sum(dim=1)
        miss = h - polyp.height(height * site.upright, above)
        point = point + (miss * 0.9)[:, None] * normal
    return point


def visible_points(lumen: Lumen, polyp: Polyp, views: CameraViews, points: Tensor) -> Tensor:
    """Whether each of the polyp's surface points (B, 3, n) is not hidden by a fold: (B, n)."""
    tolerance = 0.12 * min(polyp.size_mm, 2.0 * (polyp.lift + polyp.radii[2]))  # mm behind the wall
    away = points - views.position[:, :, None]  # (B, 3, n)
    clearance = torch.full_like(points[:, 0], np.inf)
    for share in torch.linspace(0.06, 0.94, SIGHT_STEPS).tolist():
        at = views.position[:, :, None] + share * away
        clearance = torch.minimum(clearance, lumen.clearance(at[:, 0], at[:, 1], at[:, 2], views.state))
    return clearance > -tolerance


def polyp_boxes(lumen: Lumen, polyp: Polyp, views: CameraViews, camera: Camera, points: int = 220) -> Floats:
    """Box corners (B, 4) x0, y0, x1, y1 of the visible part of the polyp; NaN where it is not in view."""
    anchor = seat(lumen, polyp, views.state).anchor
    near = torch.nonzero((anchor - views.position).norm(dim=1) < BOX_MM)[:, 0]
    views = views.take(near)
    surface = surface_points(lumen, polyp, views, points)
    away = surface - views.position[:, :, None]
    right, down, forward = torch.einsum("bck,bcn->kbn", views.rotation, away)
    x, y = camera.project(right, down, forward)
    clear = visible_points(lumen, polyp, views, surface)
    in_view = clear & (camera.inside(x, y) > 0)
    pixel, image = torch.stack([x, y], dim=1), torch.tensor([camera.width, camera.height])  # (B, 2, n), (2,)
    low = torch.where(clear[:, None], pixel, np.inf).amin(dim=2).clamp_min(0).minimum(image)
    high = torch.where(clear[:, None], pixel, -np.inf).amax(dim=2).clamp_min(0).minimum(image)
    large = (high - low > MIN_BOX * camera.width).all(dim=1)
    valid = large & (in_view.to(torch.float32).mean(dim=1) > MIN_VISIBLE)
    boxes = torch.full((len(anchor), 4), torch.nan)
    boxes[near] = torch.where(valid[:, None], torch.cat([low, high], dim=1), torch.nan)
    return boxes.numpy().astype(np.float64)


def simulated_boxes(rng: Generator, boxes: Floats, camera: Camera, jitter: float, dropout: float) -> Floats:
    """Boxes (F, 4) of a simulated detector.

    `jitter` is the standard deviation of an edge relative to the box; a share `dropout` of the boxes becomes NaN.
    """
    size = boxes[:, 2:] - boxes[:, :2]
    moved = boxes + np.tile(size, 2) * jitter * rng.normal(0, 1, boxes.shape)
    bounds = np.array([camera.width, camera.height])
    low = np.clip(np.round(moved[:, :2], 1), 0.0, bounds - 1)
    high = np.clip(np.round(moved[:, 2:], 1), low + 1, bounds)  # at least one pixel
    detected = np.concatenate([low, high], axis=1)
    detected[rng.random(len(boxes)) < dropout] = np.nan
    return detected
