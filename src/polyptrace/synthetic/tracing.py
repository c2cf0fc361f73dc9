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
    for shrink, steps in ((8, 0), (2, 5), (1, 2)):
        grid = (camera.height // shrink, camera.width // shrink)
        level = rays if shrink == 1 else turn_rays(views, camera_rays(camera, start.device, shrink))
        distance = interpolate(start, size=grid, mode="nearest").reshape(len(start), -1).contiguous()
        distance = _march(lumen, views, level, distance, steps)
        if shrink > 1:
            nearest = max_pool2d(-distance.reshape(-1, 1, *grid), 3, stride=1, padding=1)
            start = nearest * -0.985
    return distance


def _march(lumen: Lumen, views: Views, rays: Rays, distance: Tensor, steps: int) -> Tensor:
    """Steps to about where the clearance would be 0 if it went on falling as it did; more for the few that need it.

    With f mm of clearance lost per mm of way the next step is the clearance times (f + 0.03) / (f² + 0.05): about 1 / f
    where the ray nears the wall, and cautious where it does not.
    """
    if not steps:
        for _ in range(24):
            distance = (distance + 0.62 * _clearance(lumen, views, rays, distance)).clamp_(0.05, FAR_MM)
        return distance
    gap = _clearance(lumen, views, rays, distance)
    step = 0.62 * gap
    for _ in range(steps):
        distance = (distance + step).clamp_(0.05, FAR_MM)
        new = _clearance(lumen, views, rays, distance)
        falling = ((gap - new) * step / (step * step + 1e-9)).clamp_(0.0, 2.5)
        step = new * (falling + 0.03) / (falling * falling + 0.05)
        gap = new
    distance = (distance + step).clamp_(0.05, FAR_MM)
    frame, pixel = torch.nonzero((step.abs() > 0.006 * distance + 0.03) & (distance < FAR_MM), as_tuple=True)
    few = (rays[0][frame, pixel][:, None], rays[1][frame, pixel][:, None], rays[2][frame, pixel][:, None])
    subset = Views(views.position[frame], views.rotation[:1], views.state[frame])
    here = distance[frame, pixel][:, None]
    for _ in range(12):
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
    near = (miss < reach * reach) & (along > 0.0) & (along - reach < wall)
    frame, pixel = torch.nonzero(near, as_tuple=True)
    ray = torch.stack([each[frame, pixel] for each in rays])  # (3, n)
    half, middle, limit = torch.sqrt(reach * reach - miss[frame, pixel]), along[frame, pixel], wall[frame, pixel]
    few = _aim_few(lumen, polyp, views, site, frame, ray)
    distance = (middle - half).clamp_min(0.05)
    end = torch.minimum(middle + half, limit + 0.3)
    gap = few.gap(distance)
    for _ in range(11):
        distance = torch.minimum(distance + 0.9 * gap, end)
        gap = few.gap(distance)
    chosen = torch.nonzero((gap < 0.03 * min(polyp.radii)) & (distance < limit))[:, 0]
    few, distance = few.take(chosen), distance[chosen]
    u, v, h = few.local(distance)
    normal = torch.einsum("kn,nkc->cn", few.normal(distance), site.axes[frame[chosen]])
    return PolypHits(frame[chosen], pixel[chosen], distance, u, v, h, normal)


@dataclass(frozen=True)
class _Few:
    """A polyp and a handful of rays, in the colon's coordinates (x, y, z) and in the polyp's (u, v, w: the normal)."""

    lumen: Lumen
    polyp: Polyp
    start: Tensor  # (6, n): x, y, z, u, v, w of the camera
    change: Tensor  # (6, n): the same per mm of way
    turn: Tensor  # (9, n): dx/du, dy/du, dz/du, dx/dv, ...
    upright: Tensor  # (n,)
    state: Tensor  # (n,)

    def take(self, index: Tensor) -> "_Few":
        columns = (self.start[:, index], self.change[:, index], self.turn[:, index])
        return _Few(self.lumen, self.polyp, *columns, self.upright[index], self.state[index])

    def local(self, distance: Tensor, shift: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Rays:
        """Polyp coordinates (u, v, h) at distances (n,), after a shift in (u, v, w)."""
        x, y, z, u, v, w = torch.addcmul(self.start, self.change, distance)
        if any(shift):
            x, y, z = (
                each + sum(shift[k] * self.turn[3 * k + axis] for k in range(3)) for axis, each in enumerate((x, y, z))
            )
            u, v, w = u + shift[0], v + shift[1], w + shift[2]
        clearance = self.lumen.clearance(x, y, z, self.state)
        return u, v, self.polyp.height(clearance * self.upright, w)

    def gap(self, distance: Tensor, shift: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Tensor:
        return self.polyp.distance(*self.local(distance, shift))

    def normal(self, distance: Tensor) -> Tensor:
        """Unit normals (3, n) in (u, v, w), from the gap at the four corners of a small tetrahedron."""
        size = 0.012 * self.polyp.size_mm
        total = torch.zeros(3, len(distance), device=distance.device)
        for corner in ((1, -1, -1), (-1, -1, 1), (-1, 1, -1), (1, 1, 1)):
            gap = self.gap(distance, (size * corner[0], size * corner[1], size * corner[2]))
            total += torch.tensor(corner, device=gap.device)[:, None] * gap
        return torch.nn.functional.normalize(total, dim=0)


def _aim_few(lumen: Lumen, polyp: Polyp, views: Views, site: Site, frame: Tensor, ray: Tensor) -> _Few:
    """Rays (3, n) of the frames (n,) in both coordinates."""
    axes = site.axes[frame]  # (n, 3, 3)
    local_start = torch.einsum("bkc,bc->bk", site.axes, views.position - site.anchor)  # (B, 3)
    start = torch.cat([views.position, local_start], dim=1)[frame].T.contiguous()
    change = torch.cat([ray, torch.einsum("nkc,cn->kn", axes, ray)])
    turn = axes.reshape(-1, 9).T.contiguous()
    return _Few(lumen, polyp, start, change, turn, site.upright[frame, 0], views.state[frame, 0])
