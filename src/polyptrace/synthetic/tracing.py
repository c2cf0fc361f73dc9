"""Where rays meet the colon's wall and its polyps. Components are separate (B, P) tensors: B frames, P pixels."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate, max_pool2d

from polyptrace.synthetic.camera import Camera, camera_rays
from polyptrace.synthetic.lumen import Lumen
from polyptrace.synthetic.polyps import Polyp

FAR_MM = 150.0
Rays = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Views:
    """Where the camera is in each of B frames, and in which state the lumen lies around it."""

    position: Tensor  # (B, 3) mm
    rotation: Tensor  # (B, 3, 3), columns right, down, forward
    state: Tensor  # (B, 1)

    def take(self, index: Tensor) -> "Views":
        """The views of some frames."""
        return Views(self.position[index], self.rotation[index], self.state[index])

    def to(self, device: torch.device) -> "Views":
        """The same views on another device."""
        return Views(self.position.to(device), self.rotation.to(device), self.state.to(device))


@dataclass(frozen=True)
class Site:
    """Where one polyp sits in each of B frames: the anchor and the axes (u, v, normal) of its coordinates."""

    anchor: Tensor  # (B, 3)
    axes: Tensor  # (B, 3, 3), rows u, v, normal
    upright: Tensor  # (B, 1): height along the normal per height away from the axis

    def take(self, index: Tensor) -> "Site":
        """The seats of some frames."""
        return Site(self.anchor[index], self.axes[index], self.upright[index])


def seat(lumen: Lumen, polyp: Polyp, state: Tensor) -> Site:
    """Seats a polyp on the wall as it lies in the states (B, 1)."""
    theta, z = torch.full_like(state, polyp.theta), torch.full_like(state, polyp.z)
    radius = lumen.radius(theta, z, state)
    x, y = radius * torch.cos(theta), radius * torch.sin(theta)
    anchor = torch.cat([x, y, z], dim=1)
    normal = torch.cat(lumen.inward_normal(x, y, z, state), dim=1)
    along = torch.zeros_like(normal)
    along[:, 2] = -1.0  # u looks back along the colon, to where the scope comes from
    along = torch.nn.functional.normalize(along - (along * normal).sum(1, keepdim=True) * normal, dim=1)
    across = torch.linalg.cross(normal, along)
    inward = torch.cat([-torch.cos(theta), -torch.sin(theta)], dim=1)
    upright = (normal[:, :2] * inward).sum(dim=1, keepdim=True)
    return Site(anchor, torch.stack([along, across, normal], dim=1), upright)


def turn_rays(views: Views, rays: Tensor) -> Rays:
    """Directions (B, P) in the colon of camera rays (3, P)."""
    world = views.rotation @ rays  # (B, 3, P)
    return world[:, 0], world[:, 1], world[:, 2]


def trace_wall(lumen: Lumen, camera: Camera, views: Views, rays: Rays) -> Tensor:
    """Distance (B, P) along each ray to the wall.

    Few coarse rays feel their way from the camera; each finer grid starts before the nearest hit around it, and the
    pixels that are then still under way (past the edge of a fold) go on alone.
    """
    start = torch.ones(len(views.position), 1, 1, 1, device=views.position.device)
    distance = start
    for shrink, steps in ((8, 24), (2, 6), (1, 3)):
        grid = (camera.height // shrink, camera.width // shrink)
        level = rays if shrink == 1 else turn_rays(views, camera_rays(camera, start.device, shrink))
        distance = interpolate(start, size=grid, mode="nearest").reshape(len(start), -1).contiguous()
        distance = _march(lumen, views, level, distance, steps)
        if shrink > 1:
            nearest = max_pool2d(-distance.reshape(-1, 1, *grid), 3, stride=1, padding=1)
            start = nearest * -0.985
    return distance


def _march(lumen: Lumen, views: Views, rays: Rays, distance: Tensor, steps: int) -> Tensor:
    """Steps to where the clearance would be 0 if it went on falling as it did, within limits."""
    gap = _clearance(lumen, views, rays, distance)
    step = 0.62 * gap
    for _ in range(steps):
        distance = (distance + step).clamp_(0.05, FAR_MM)
        new = _clearance(lumen, views, rays, distance)
        falling = (gap - new) / torch.where(step.abs() > 1e-5, step, 1.0)  # mm of clearance per mm of way
        step = new * torch.where(falling > 0.1, 1.0 / falling, 0.62).clamp_(0.4, 2.0)
        gap = new
    frame, pixel = torch.nonzero((gap.abs() > 0.004 * distance + 0.02) & (distance < FAR_MM), as_tuple=True)
    if len(frame):
        few = (rays[0][frame, pixel][:, None], rays[1][frame, pixel][:, None], rays[2][frame, pixel][:, None])
        subset = Views(views.position[frame], views.rotation[:1], views.state[frame])
        here = distance[frame, pixel][:, None]
        for _ in range(14):
            here = (here + 0.62 * _clearance(lumen, subset, few, here)).clamp_(0.05, FAR_MM)
        distance[frame, pixel] = here[:, 0]
    return distance


def _clearance(lumen: Lumen, views: Views, rays: Rays, distance: Tensor) -> Tensor:
    position = views.position
    x = torch.addcmul(position[:, 0:1], rays[0], distance)
    y = torch.addcmul(position[:, 1:2], rays[1], distance)
    z = torch.addcmul(position[:, 2:3], rays[2], distance)
    return lumen.clearance(x, y, z, views.state)


@dataclass(frozen=True)
class PolypHits:
    """Pixels (n,) where a polyp is what the camera sees."""

    frame: Tensor
    pixel: Tensor
    distance: Tensor
    u: Tensor
    v: Tensor
    h: Tensor
    normal: Tensor  # (3, n)


def trace_polyp(lumen: Lumen, polyp: Polyp, views: Views, rays: Rays, wall: Tensor) -> PolypHits:
    """Where the polyp stands before the wall, whose distances are (B, P)."""
    site = seat(lumen, polyp, views.state)
    centre = torch.tensor([*polyp.lean, polyp.lift], device=wall.device)
    away = site.anchor + torch.einsum("k,bkc->bc", centre, site.axes) - views.position  # (B, 3)
    along = away[:, 0:1] * rays[0] + away[:, 1:2] * rays[1] + away[:, 2:3] * rays[2]  # (B, P)
    miss = (away * away).sum(dim=1, keepdim=True) - along * along
    reach = polyp.reach
    frame, pixel = torch.nonzero((miss < reach * reach) & (along > 0.0) & (along - reach < wall), as_tuple=True)
    ray = torch.stack([each[frame, pixel] for each in rays])  # (3, n)
    half, middle, limit = torch.sqrt(reach * reach - miss[frame, pixel]), along[frame, pixel], wall[frame, pixel]
    few = _Few(lumen, polyp, views.position[frame].T, views.state[frame, 0], site.take(frame))
    distance = (middle - half).clamp_min(0.05)
    end = torch.minimum(middle + half, limit + 0.3)
    gap = few.distance(torch.addcmul(few.origin, ray, distance))
    for _ in range(18):
        distance = torch.minimum(distance + 0.8 * gap, end)
        gap = few.distance(torch.addcmul(few.origin, ray, distance))
    chosen = torch.nonzero((gap < 0.02 * min(polyp.radii)) & (distance < limit))[:, 0]
    few, distance = few.take(chosen), distance[chosen]
    point = torch.addcmul(few.origin, ray[:, chosen], distance)
    u, v, h = few.local(point)
    return PolypHits(frame[chosen], pixel[chosen], distance, u, v, h, few.normal(point))


@dataclass(frozen=True)
class _Few:
    """A polyp and a handful of rays (n,), each with its own origin, state and seat."""

    lumen: Lumen
    polyp: Polyp
    origin: Tensor  # (3, n)
    state: Tensor  # (n,)
    site: Site

    def take(self, index: Tensor) -> "_Few":
        return _Few(self.lumen, self.polyp, self.origin[:, index], self.state[index], self.site.take(index))

    def local(self, point: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Polyp coordinates (u, v, h) of points (3, n)."""
        away = point.T - self.site.anchor
        u = (away * self.site.axes[:, 0]).sum(dim=1)
        v = (away * self.site.axes[:, 1]).sum(dim=1)
        height = self.lumen.clearance(point[0], point[1], point[2], self.state)
        return u, v, height * self.site.upright[:, 0]

    def distance(self, point: Tensor) -> Tensor:
        return self.polyp.distance(*self.local(point))

    def normal(self, point: Tensor) -> Tensor:
        """Unit normals (3, n), from differences of the distance at four corners of a small tetrahedron."""
        corners = torch.tensor([[1.0, -1, -1], [-1, -1, 1], [-1, 1, -1], [1, 1, 1]], device=point.device)
        size = 0.012 * self.polyp.size_mm
        total = torch.zeros_like(point)
        for corner in corners[:, :, None]:
            total += corner * self.distance(point + size * corner)
        return torch.nn.functional.normalize(total, dim=0)
