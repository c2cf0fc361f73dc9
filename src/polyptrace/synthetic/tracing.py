"""Where rays meet the colon's wall and its polyps. Components are separate (B, P) tensors: B frames, P pixels."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate, max_pool2d

from polyptrace.synthetic.camera import Camera, camera_rays
from polyptrace.synthetic.lumen import Lumen
from polyptrace.synthetic.polyps import Polyp

FAR_MM = 150.0
SIGHT_MM = 90.0  # polyps farther away are not looked for
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
    late = (step.abs() > 0.006 * distance + 0.03) & (distance < FAR_MM)
    flat = torch.nonzero(late.reshape(-1))[:, 0]
    frame = flat // distance.shape[1]
    subset = Views(views.position[frame], views.rotation[:1], views.state[frame])
    few = (rays[0].take(flat)[:, None], rays[1].take(flat)[:, None], rays[2].take(flat)[:, None])
    here = distance.take(flat)[:, None]
    for _ in range(12):
        here = (here + 0.62 * _clearance(lumen, subset, few, here)).clamp_(0.05, FAR_MM)
    return distance.put(flat, here[:, 0])


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


def in_reach(lumen: Lumen, polyp: Polyp, views: Views) -> bool:
    """Whether a polyp is near enough, and not behind the camera, in any of the frames."""
    away = seat(lumen, polyp, views.state).anchor - views.position
    distance = away.norm(dim=1)
    ahead = (away * views.rotation[:, :, 2]).sum(dim=1) / distance
    return bool(((distance < SIGHT_MM) & (ahead > -0.1) | (distance < 3 * polyp.size_mm)).any())


def trace_polyp(lumen: Lumen, polyp: Polyp, views: Views, rays: Rays, wall: Tensor) -> PolypHits:
    """Where the polyp stands before the wall, whose distances are (B, P)."""
    site = seat(lumen, polyp, views.state)
    middle_of, reach = polyp.ball
    centre = torch.tensor(middle_of, device=wall.device)
    away = site.anchor + torch.einsum("k,bkc->bc", centre, site.axes) - views.position  # (B, 3)
    along = away[:, 0:1] * rays[0] + away[:, 1:2] * rays[1] + away[:, 2:3] * rays[2]  # (B, P)
    miss = (away * away).sum(dim=1, keepdim=True) - along * along
    near = (miss < reach * reach) & (along > 0.0) & (along - reach < wall)
    flat = torch.nonzero(near.reshape(-1))[:, 0]
    frame, pixel = flat // wall.shape[1], flat % wall.shape[1]
    middle, limit, beside = along.take(flat), wall.take(flat), miss.take(flat)
    half = torch.sqrt(reach * reach - beside)
    few = _aim_few(lumen, polyp, views, site, frame, torch.stack([each.take(flat) for each in rays]))
    distance = (middle - half).clamp_min(0.05)
    end = torch.minimum(middle + half, limit)
    distance, _ = few.march(distance, end, steps=2)
    under_way = torch.nonzero(distance < end)[:, 0]  # the others pass it by, or end at the wall before it
    few, frame, pixel = few.take(under_way), frame[under_way], pixel[under_way]
    distance, gap = few.march(distance[under_way], end[under_way], steps=9)
    hit = torch.nonzero((gap < 0.012 * min(polyp.radii)) & (distance < end[under_way]))[:, 0]
    few, distance, frame = few.take(hit), distance[hit], frame[hit]
    u, v, h = few.local(distance)
    return PolypHits(frame, pixel[hit], distance, u, v, h, few.normal(distance, site.axes[frame]))


@dataclass(frozen=True)
class _Few:
    """A polyp and a handful of rays, in the colon's coordinates (x, y, z) and in the polyp's (u, v, w: the normal)."""

    lumen: Lumen
    polyp: Polyp
    start: Tensor  # (6, n): x, y, z, u, v, w of the camera
    change: Tensor  # (6, n): the same per mm of way
    upright: Tensor  # (n,)
    state: Tensor  # (n,)

    def take(self, index: Tensor) -> "_Few":
        columns = (self.start[:, index], self.change[:, index], self.upright[index], self.state[index])
        return _Few(self.lumen, self.polyp, *columns)

    def march(self, distance: Tensor, end: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Distances (n,) so many steps later, at most `end`, and the gap that is left there."""
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
        """Unit normals (3, n), from the gap at the four corners of a small tetrahedron (axes: n, 3, 3)."""
        total = torch.zeros(3, len(distance), device=distance.device)
        for corner in ((1.0, -1.0, -1.0), (-1.0, -1.0, 1.0), (-1.0, 1.0, -1.0), (1.0, 1.0, 1.0)):
            way = torch.tensor(corner, device=distance.device)
            shift = torch.cat([way.expand(len(axes), 3).T, (axes @ way).T]) * (0.012 * self.polyp.size_mm)
            total += way[:, None] * self.gap(distance, shift)
        return torch.nn.functional.normalize(total, dim=0)


def _aim_few(lumen: Lumen, polyp: Polyp, views: Views, site: Site, frame: Tensor, ray: Tensor) -> _Few:
    """Rays (3, n) of the frames (n,) in both coordinates."""
    local_start = torch.einsum("bkc,bc->bk", site.axes, views.position - site.anchor)  # (B, 3)
    start = torch.cat([views.position, local_start], dim=1)[frame].T.contiguous()
    axes = site.axes.reshape(-1, 9)[frame].T.reshape(3, 3, -1)
    change = torch.cat([ray, (axes * ray).sum(dim=1)])
    return _Few(lumen, polyp, start, change, site.upright[frame, 0], views.state[frame, 0])
