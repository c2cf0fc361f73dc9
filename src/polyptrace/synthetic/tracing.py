"""Where rays meet the colon's wall and its polyps. Components are separate (B, P) tensors: B frames, P pixels."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate, max_pool2d

from polyptrace.synthetic.camera import Camera
from polyptrace.synthetic.colon import Colon
from polyptrace.synthetic.polyps import Polyp

FAR_MM = 160.0


@dataclass(frozen=True)
class Views:
    """Where the camera is in each of B frames, and how the colon lies around it."""

    position: Tensor  # (B, 3) mm
    rotation: Tensor  # (B, 3, 3), columns right, down, forward
    inflation: Tensor  # (B, 1)
    fold_gain: Tensor  # (B, 1)

    def take(self, index: Tensor) -> "Views":
        """The views of some frames."""
        return Views(self.position[index], self.rotation[index], self.inflation[index], self.fold_gain[index])

    def to(self, device: torch.device) -> "Views":
        """The same views on another device."""
        return Views(*(each.to(device) for each in (self.position, self.rotation, self.inflation, self.fold_gain)))


@dataclass(frozen=True)
class Site:
    """Where one polyp sits in each of B frames: the anchor and the axes (u, v, normal) of its coordinates."""

    anchor: Tensor  # (B, 3)
    axes: Tensor  # (B, 3, 3), rows u, v, normal
    upright: Tensor  # (B,): height along the normal per height away from the axis


def seat(colon: Colon, polyp: Polyp, inflation: Tensor, fold_gain: Tensor) -> Site:
    """Seats a polyp on the wall as it lies with the inflation and fold_gain (B, 1) of each frame."""
    theta, z = torch.full_like(inflation, polyp.theta), torch.full_like(inflation, polyp.z)
    radius = colon.radius(theta, z, inflation, fold_gain)
    anchor = torch.cat([radius * torch.cos(theta), radius * torch.sin(theta), z], dim=1)
    normal = torch.cat(colon.inward_normal(theta, z, inflation, fold_gain), dim=1)
    along = torch.zeros_like(normal)
    along[:, 2] = -1.0  # u looks back along the colon, to where the scope comes from
    along = torch.nn.functional.normalize(along - (along * normal).sum(1, keepdim=True) * normal, dim=1)
    across = torch.linalg.cross(normal, along)
    inward = torch.cat([-torch.cos(theta), -torch.sin(theta)], dim=1)
    upright = (normal[:, :2] * inward).sum(dim=1)
    return Site(anchor, torch.stack([along, across, normal], dim=1), upright)


def turn_rays(views: Views, rays: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Directions (B, P) in the colon of camera rays (3, P)."""
    world = views.rotation @ rays  # (B, 3, P)
    return world[:, 0], world[:, 1], world[:, 2]


def trace_wall(colon: Colon, camera: Camera, views: Views, rays: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Distance (B, P) along each ray to the wall: coarse rays first, then each pixel from the nearest coarse hit."""
    shrink = 4
    coarse_rays = turn_rays(views, camera.rays(views.position.device, shrink))
    coarse = torch.full_like(coarse_rays[0], 1.0)
    for _ in range(36):
        coarse += 0.62 * _clearance(colon, views, coarse_rays, coarse)
        coarse.clamp_(0.05, FAR_MM)
    grid = coarse.reshape(-1, 1, camera.height // shrink, camera.width // shrink)
    nearest = -max_pool2d(-grid, 3, stride=1, padding=1)
    start = interpolate(nearest, size=(camera.height, camera.width), mode="nearest")
    distance = start.reshape(len(coarse), -1) * 0.97
    gap = _clearance(colon, views, rays, distance)
    for _ in range(3):
        step = 0.62 * gap
        distance = (distance + step).clamp_(0.05, FAR_MM)
        new = _clearance(colon, views, rays, distance)
        rate = (gap - new) / step
        gap = new
        near = rate > 0.3
        distance = (distance + torch.where(near, gap / rate, 0.0)).clamp_(0.05, FAR_MM)
        gap = _clearance(colon, views, rays, distance)
    return _finish(colon, views, rays, distance, gap)


def _finish(colon: Colon, views: Views, rays: tuple[Tensor, Tensor, Tensor], distance: Tensor, gap: Tensor) -> Tensor:
    """More steps for the few pixels that have not arrived: those past the edge of a fold."""
    frame, pixel = torch.nonzero((gap.abs() > 0.004 * distance + 0.01) & (distance < FAR_MM), as_tuple=True)
    if not len(frame):
        return distance
    few = tuple(ray[frame, pixel][:, None] for ray in rays)
    subset = views.take(frame)
    here = distance[frame, pixel][:, None]
    for _ in range(20):
        here = (here + 0.62 * _clearance(colon, subset, (few[0], few[1], few[2]), here)).clamp_(0.05, FAR_MM)
    distance[frame, pixel] = here[:, 0]
    return distance


def _clearance(colon: Colon, views: Views, rays: tuple[Tensor, Tensor, Tensor], distance: Tensor) -> Tensor:
    position = views.position
    x = torch.addcmul(position[:, 0:1], rays[0], distance)
    y = torch.addcmul(position[:, 1:2], rays[1], distance)
    z = torch.addcmul(position[:, 2:3], rays[2], distance)
    return colon.clearance(x, y, z, views.inflation, views.fold_gain)


@dataclass(frozen=True)
class PolypHits:
    """Pixels (n,) where a polyp is what the camera sees."""

    frame: Tensor
    pixel: Tensor
    distance: Tensor
    u: Tensor
    v: Tensor
    h: Tensor
    normal: Tensor  # (n, 3)


def trace_polyp(
    colon: Colon, polyp: Polyp, views: Views, rays: tuple[Tensor, Tensor, Tensor], wall: Tensor
) -> PolypHits:
    """Where the polyp stands before the wall, whose distances are (B, P)."""
    site = seat(colon, polyp, views.inflation, views.fold_gain)
    centre = torch.tensor([*polyp.lean, polyp.lift], device=wall.device)
    middle = site.anchor + torch.einsum("k,bkc->bc", centre, site.axes)
    away = middle - views.position  # (B, 3)
    along = away[:, 0:1] * rays[0] + away[:, 1:2] * rays[1] + away[:, 2:3] * rays[2]  # (B, P)
    miss = (away * away).sum(dim=1, keepdim=True) - along * along
    reach = polyp.reach
    near = (miss < reach * reach) & (along > -reach) & (along - reach < wall)
    frame, pixel = torch.nonzero(near, as_tuple=True)
    ray = torch.stack([each[frame, pixel] for each in rays], dim=1)  # (n, 3)
    half = torch.sqrt(reach * reach - miss[frame, pixel])
    few = _Few(colon, polyp, views.take(frame), Site(site.anchor[frame], site.axes[frame], site.upright[frame]))
    middle_t = along[frame, pixel]
    distance = (middle_t - half).clamp_min(0.05)
    end = torch.minimum(middle_t + half, wall[frame, pixel] + 0.3)
    gap = torch.zeros_like(distance)
    for _ in range(28):
        gap = few.distance(few.views.position + distance[:, None] * ray)
        distance = torch.minimum(distance + 0.7 * gap, end)
    hit = (gap < 0.02 * min(polyp.radii)) & (distance < wall[frame, pixel])
    chosen = torch.nonzero(hit)[:, 0]
    few = few.take(chosen)
    point = few.views.position + distance[chosen][:, None] * ray[chosen]
    u, v, h = few.local(point)
    return PolypHits(frame[chosen], pixel[chosen], distance[chosen], u, v, h, few.normal(point))


@dataclass(frozen=True)
class _Few:
    """A polyp and a handful of rays, each with its own view and seat."""

    colon: Colon
    polyp: Polyp
    views: Views
    site: Site

    def take(self, index: Tensor) -> "_Few":
        site = Site(self.site.anchor[index], self.site.axes[index], self.site.upright[index])
        return _Few(self.colon, self.polyp, self.views.take(index), site)

    def local(self, point: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Polyp coordinates (u, v, h) of points (n, 3)."""
        away = point - self.site.anchor
        u = (away * self.site.axes[:, 0]).sum(dim=1)
        v = (away * self.site.axes[:, 1]).sum(dim=1)
        columns = (point[:, 0:1], point[:, 1:2], point[:, 2:3])
        height = self.colon.clearance(*columns, self.views.inflation, self.views.fold_gain)[:, 0]
        return u, v, height * self.site.upright

    def distance(self, point: Tensor) -> Tensor:
        return self.polyp.distance(*self.local(point))

    def normal(self, point: Tensor) -> Tensor:
        """Unit normals (n, 3), from differences of the distance at four corners of a small tetrahedron."""
        corners = torch.tensor([[1, -1, -1], [-1, -1, 1], [-1, 1, -1], [1, 1, 1]], device=point.device)
        size = 0.012 * self.polyp.size_mm
        total = torch.zeros_like(point)
        for corner in corners.to(point.dtype):
            total += corner * self.distance(point + size * corner)[:, None]
        return torch.nn.functional.normalize(total, dim=1)
