"""Polyps: geometry, appearance, and their sites in the colon.

A polyp has its own coordinates (u, v, h) in mm: u and v in the plane tangent to the wall at its anchor, h the height
above the wall, so that it follows the wall. Its head is an ellipsoid displaced by a relief map; the widest diameter in
the (u, v) plane is exactly `size_mm`. A pedunculated polyp has a stalk.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.nn.functional import normalize

from polyptrace.core.arrays import Floats
from polyptrace.core.randomness import numpy_generator
from polyptrace.synthetic.colon import LENGTH_MM, Lumen, band_noise, sample_maps, vessel_map
from polyptrace.synthetic.presets import Preset

Morphology = Literal["flat", "sessile", "pedunculated"]
MAX_PER_SITE = 4


@dataclass(frozen=True)
class Polyp:
    """One lesion; lengths in mm."""

    name: str
    size_mm: float
    histology: str
    morphology: Morphology
    theta: float  # anchor: angle and depth on the wall
    z: float
    radii: tuple[float, float, float]  # of the head along u, v, h
    lift: float  # height of the head's centre above the wall; negative: the widest part lies below the wall
    lean: tuple[float, float]  # (u, v) of the head's centre; not 0 for stalks
    stalk: float  # radius of the stalk; 0: none
    turn: float  # rotation of (u, v) about the normal
    relief: float  # amplitude of the relief, relative to the ellipsoid's radius
    colour: tuple[float, float, float]  # factor of the mucosa's albedo
    tint: tuple[float, float, float]  # factor where the tone is high
    pit_depth: float
    vessel_depth: float
    surface: Tensor  # (1, 4, T, T): relief, tone, pit, vessel; azimuthal projection, the rim is the lowest point

    @property
    def ball(self) -> tuple[tuple[float, float, float], float]:
        """Centre (u, v, h) and radius of a ball around the part above the wall, with a margin for a curved wall."""
        swell = 1.0 + self.relief
        top = self.lift + self.radii[2] * swell
        if self.stalk:
            middle = (self.lean[0] / 2, self.lean[1] / 2, top / 2)
            head = float(np.hypot(np.hypot(*self.lean) / 2, self.lift - top / 2)) + max(self.radii) * swell
            return middle, 1.08 * max(head, float(np.hypot(np.hypot(*self.lean) / 2, top / 2)) + self.stalk)
        sunk = min(self.lift / self.radii[2], 0.0)
        beside = max(self.radii[:2]) * float(np.sqrt(swell**2 - sunk**2))
        height = max(self.lift, 0.0)
        return (0.0, 0.0, height), 1.12 * max(beside, top - height)

    def height(self, above_wall: Tensor, along_normal: Tensor) -> Tensor:
        """Height h from the height above the wall and that along the normal; a stalk follows the normal at its top."""
        if self.stalk == 0.0:
            return above_wall
        share = torch.exp(along_normal.clamp_min(0.0) * (-3.0 / self.lift))
        return along_normal + (above_wall - along_normal) * share

    def direction(self, u: Tensor, v: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Surface map coordinates (2), level (1: on the ellipsoid) and mm per unit of level of points (n,)."""
        cosine, sine = float(np.cos(self.turn)), float(np.sin(self.turn))
        u, v, h = u - self.lean[0], v - self.lean[1], h - self.lift
        qu = (cosine * u + sine * v) / self.radii[0]
        qv = (cosine * v - sine * u) / self.radii[1]
        qh = h / self.radii[2]
        across = torch.sqrt(qu * qu + qv * qv + 1e-12)
        level = torch.sqrt(across * across + qh * qh + 1e-12)
        polar = torch.atan2(across, qh) * (1.0 / np.pi) / across
        steep = (qu / self.radii[0]) ** 2 + (qv / self.radii[1]) ** 2 + (qh / self.radii[2]) ** 2
        return qu * polar, qv * polar, level, level * torch.rsqrt(steep + 1e-12)

    def distance(self, u: Tensor, v: Tensor, h: Tensor) -> Tensor:
        """Approximate signed distance of points (n,) from the surface, mm; negative inside."""
        map_u, map_v, level, mm = self.direction(u, v, h)
        bump = self.sample(map_u, map_v, channels=1)[0]
        head = (level - 1.0 - self.relief * bump) * mm
        if self.stalk == 0.0:
            return head
        along = ((h + 2.0) / (self.lift + 2.0)).clamp(0.0, 1.0)
        bend = along * along
        stem = torch.sqrt((u - self.lean[0] * bend) ** 2 + (v - self.lean[1] * bend) ** 2 + 1e-12) - self.stalk
        stem = torch.maximum(stem, h - self.lift)
        blend = (0.5 + 0.5 * (stem - head) / self.stalk).clamp(0.0, 1.0)
        return stem + (head - stem) * blend - self.stalk * blend * (1.0 - blend)

    def sample(self, map_u: Tensor, map_v: Tensor, channels: int) -> Tensor:
        """The first channels (C, n) of the surface at map coordinates (n,)."""
        return sample_maps(self.surface[:, :channels], map_u, map_v)

    def outline(self, count: int) -> Tensor:
        """About `count` points (3, n) in (u, v, h), spread over the surface above the wall."""
        index = torch.arange(count, dtype=torch.float64) + 0.5
        sunk = -self.lift / self.radii[2]
        lowest = max(-1.0, sunk / (1.0 + self.relief) if sunk > 0 else sunk * 1.3)
        cosine = 1.0 - (1.0 - lowest) * index / count
        angle = index * (np.pi * (1.0 + 5**0.5))
        sine = torch.sqrt(1.0 - cosine**2)
        points = self._on_head(torch.stack([sine * torch.cos(angle), sine * torch.sin(angle), cosine]))
        points = torch.where(points[2] < 0.0, points[:, :1], points)  # points below the wall are replaced by the top
        if self.stalk:
            steps = torch.arange(count // 8, dtype=torch.float64)
            along, around = steps / len(steps), steps * 2.4
            stem = [self.lean[k] * along**2 + self.stalk * f(around) for k, f in enumerate((torch.cos, torch.sin))]
            points = torch.cat([points, torch.stack([*stem, along * self.lift])], dim=1)
        return points.to(torch.float32)

    def _on_head(self, direction: Tensor) -> Tensor:
        """Surface points (3, n) of the head in the directions (3, n), given in its unrotated axes."""
        across = torch.sqrt(direction[0] ** 2 + direction[1] ** 2).clamp_min(1e-9)
        polar = torch.atan2(across, direction[2]) / np.pi / across
        map_u, map_v = (direction[:2] * polar).to(torch.float32)
        bump = self.sample(map_u, map_v, channels=1)[0]
        level = 1.0 + self.relief * bump.to(torch.float64)
        a, b, c = (direction[k] * self.radii[k] * level for k in range(3))
        cosine, sine = np.cos(self.turn), np.sin(self.turn)
        return torch.stack([cosine * a - sine * b + self.lean[0], sine * a + cosine * b + self.lean[1], c + self.lift])


@dataclass(frozen=True)
class Site:
    """Position of one polyp in each of B frames: the anchor and the axes (u, v, normal) of its coordinates."""

    anchor: Tensor  # (B, 3)
    axes: Tensor  # (B, 3, 3), rows u, v, normal
    upright: Tensor  # (B, 1): height along the normal per radial height


def seat(lumen: Lumen, polyp: Polyp, state: Tensor) -> Site:
    """The position of a polyp on the wall in the states (B, 1) of the lumen."""
    theta, z = torch.full_like(state, polyp.theta), torch.full_like(state, polyp.z)
    radius = lumen.radius(theta, z, state)
    x, y = radius * torch.cos(theta), radius * torch.sin(theta)
    anchor = torch.cat([x, y, z], dim=1)
    normal = torch.cat(lumen.inward_normal(x, y, z, state), dim=1)
    along = torch.zeros_like(normal)
    along[:, 2] = -1.0  # u points towards the anus, where the endoscope enters
    along = normalize(along - (along * normal).sum(1, keepdim=True) * normal, dim=1)
    across = torch.linalg.cross(normal, along)
    inward = torch.cat([-torch.cos(theta), -torch.sin(theta)], dim=1)
    upright = (normal[:, :2] * inward).sum(dim=1, keepdim=True)
    return Site(anchor, torch.stack([along, across, normal], dim=1), upright)


def draw_polyps(
    rng: Generator, lumen: Lumen, video: str, count: int, preset: Preset, seed: int, number: int
) -> tuple[list[Polyp], list[list[int]]]:
    """The polyps of procedure `number`, and the polyps of each site in the order of withdrawal."""
    sites: list[list[int]] = []
    left = list(range(count))
    while left:
        together = min(1 + int(rng.poisson(preset.difficulty.polyps_per_site - 1.0)), MAX_PER_SITE)
        sites.append([left.pop(0) for _ in range(min(together, len(left)))])
    polyps: list[Polyp] = []
    for order, site in enumerate(sites):
        # The maps of the wall repeat after LENGTH_MM. Sites lie in different periods, so that no site is in view from
        # another, and at different depths of the period, so that their walls differ.
        middle = LENGTH_MM * (len(sites) - order - (order + rng.uniform(0.3, 0.6)) / len(sites))
        for rank, index in enumerate(site):
            histology = _draw_histology(rng, number, index)
            size = _draw_size_mm(rng, histology, number, index)
            typical = numpy_generator(seed, number, 7)
            polyp = draw_polyp(rng, f"{video}_{index + 1}", size, histology, preset.difficulty.alike, typical)
            adjacent = rank and not preset.separate and rng.random() < 0.4
            neighbour = polyps[site[rank - 1]] if adjacent else None
            apart = (50, 65) if preset.separate else (25, 45)  # mm; out of view of each other, or in view
            depth = middle + (rng.uniform(*apart) * (0, 1, -1, 2)[rank] if neighbour is None else 0.0)
            polyps.append(_place_polyp(rng, lumen, polyp, depth, neighbour))
    return polyps, sites


def _draw_histology(rng: Generator, number: int, index: int) -> str:
    """Mostly alternates between adenomas and others, so that most procedures have both."""
    adenoma = (number + index) % 2 == 0 if rng.random() < 0.8 else rng.random() < 0.5
    return "AD" if adenoma else "HP" if rng.random() < 0.75 else "SSL"


def _draw_size_mm(rng: Generator, histology: str, number: int, index: int) -> float:
    """Half of the polyps have at most 5 mm; adenomas are larger on average."""
    if (number + index // 2) % 2 == 0:
        size = rng.uniform(2.0, 5.0)
    else:
        size = 5.0 + rng.lognormal(np.log(3.5 if histology == "AD" else 2.2), 0.55)
    return float(np.round(min(size, 20.0), 1))


def _place_polyp(rng: Generator, lumen: Lumen, polyp: Polyp, depth: float, neighbour: Polyp | None) -> Polyp:
    """The polyp near a depth, or next to its neighbour, at a position where the wall is not steep."""
    best, best_cost = polyp, np.inf
    for _ in range(40):
        theta, z = float(rng.uniform(-np.pi, np.pi)), float(depth + rng.normal(0, 6))
        overlap = 0.0
        if neighbour is not None:
            theta = neighbour.theta + float(rng.choice([-1, 1]) * rng.uniform(0.35, 0.9))
            theta = float(np.mod(theta + np.pi, 2 * np.pi) - np.pi)
            z = neighbour.z + float(rng.normal(0, 6))
            apart = np.hypot((np.mod(theta - neighbour.theta + np.pi, 2 * np.pi) - np.pi) * 18, z - neighbour.z)
            overlap = max(0.0, neighbour.size_mm + polyp.size_mm - float(apart))
        point = (torch.full((1, 1), float(each)) for each in (np.cos(theta) * 20, np.sin(theta) * 20, z, 0.0))
        normal = torch.cat(lumen.inward_normal(*point), dim=1)
        steepness = 1.0 + float(normal[0, 0] * np.cos(theta) + normal[0, 1] * np.sin(theta))
        cost = steepness + overlap
        if cost < best_cost:
            best, best_cost = replace(polyp, theta=theta, z=z), cost
        if cost < 0.06:
            break
    return best


def draw_polyp(rng: Generator, name: str, size_mm: float, histology: str, alike: float, typical: Generator) -> Polyp:
    """A random polyp without a position. `alike` in [0, 1] interpolates its traits towards those of `typical`."""
    own, shared = _traits(rng, histology), _traits(typical, histology)
    trait = (1.0 - alike) * own + alike * shared
    adenoma = histology == "AD"
    morphology = _morphology(rng, adenoma, size_mm)
    long = float(np.clip(1.0 + 0.4 * abs(trait[0]), 1.0, 2.0))
    height = {"flat": 0.42, "sessile": 0.68, "pedunculated": 0.95}[morphology] * float(np.exp(0.16 * trait[1]))
    sunk = {"flat": -0.5, "sessile": float(rng.uniform(-0.35, 0.15)), "pedunculated": 1.7}[morphology]
    lean = rng.normal(0, 0.35, 2) if morphology == "pedunculated" else np.zeros(2)
    red, pale = 0.5 * trait[2], 0.5 * trait[3]
    colour = np.exp(np.array([0.02 * pale + 0.02, -0.30 * red + 0.20 * pale, -0.26 * red + 0.24 * pale]))
    warm = 0.5 * trait[4]
    tint = np.exp(np.array([-0.12, -0.62 + 0.35 * warm, -0.50 + 0.12 * warm]))
    polyp = Polyp(
        name=name,
        size_mm=size_mm,
        histology=histology,
        morphology=morphology,
        theta=0.0,
        z=0.0,
        radii=(long, 1.0, height),
        lift=sunk * height,
        lean=(float(lean[0]), float(lean[1])),
        stalk=0.34 if morphology == "pedunculated" else 0.0,
        turn=float(rng.uniform(0, np.pi)),
        relief=float(np.clip(0.10 * np.exp(0.35 * trait[5]), 0.04, 0.2)),
        colour=(float(colour[0]), float(colour[1]), float(colour[2])),
        tint=(float(tint[0]), float(tint[1]), float(tint[2])),
        pit_depth=float(np.clip(0.5 + 0.3 * trait[6], 0.1, 1.0)),
        vessel_depth=float(np.clip(0.55 + 0.35 * trait[7], 0.0, 1.0)),
        surface=_surface(rng, trait, adenoma, size_mm),
    )
    return _resize(polyp, size_mm)


def _resize(polyp: Polyp, size_mm: float) -> Polyp:
    """The polyp scaled to a widest diameter of `size_mm` in the (u, v) plane, measured on points of its head."""
    points = replace(polyp, stalk=0.0).outline(6000)[:2].to(torch.float64)
    angle = torch.linspace(0, np.pi, 181, dtype=torch.float64)[:-1]
    along = torch.stack([torch.cos(angle), torch.sin(angle)], dim=1) @ points
    factor = size_mm / float((along.amax(dim=1) - along.amin(dim=1)).max())
    radii = (polyp.radii[0] * factor, polyp.radii[1] * factor, polyp.radii[2] * factor)
    lean = (polyp.lean[0] * factor, polyp.lean[1] * factor)
    return replace(polyp, radii=radii, lift=polyp.lift * factor, lean=lean, stalk=polyp.stalk * factor)


def _traits(rng: Generator, histology: str) -> Floats:
    """Eight traits with unit deviation; histology shifts their means by less than one deviation, so classes overlap."""
    shift = {
        "AD": [0.0, 0.4, 0.7, -0.5, -0.3, 0.5, 0.4, 0.5],
        "HP": [0.0, -0.4, -0.7, 0.7, 0.3, -0.5, -0.3, -0.5],
        "SSL": [0.3, -0.5, -0.4, 0.5, 0.5, 0.0, 0.0, -0.3],
    }[histology]
    return rng.normal(0.0, 1.0, 8) + np.array(shift)


def _morphology(rng: Generator, adenoma: bool, size_mm: float) -> Morphology:
    stalked = 0.25 if size_mm > 7 and adenoma else 0.1 if size_mm > 5 else 0.02
    flat = 0.2 if adenoma else 0.4
    draw = rng.random()
    return "pedunculated" if draw < stalked else "flat" if draw < stalked + flat else "sessile"


def _surface(rng: Generator, trait: Floats, adenoma: bool, size_mm: float) -> Tensor:
    """Relief, tone, pits and vessels of the head; the pits have the same size in mm on every polyp."""
    texels = 160  # a side of the map
    texel_mm = size_mm * 1.6 / texels  # the upper half spans half the map and half a circumference
    lobe = (2.6, 0.9) if adenoma else (3.5, 1.3)
    relief = band_noise(rng, texels, texels, texels / lobe[1], texels / (3 * lobe[0]), 1.6)
    tone = band_noise(rng, texels, texels, texels / 1.5, texels / 14, 1.0)
    pit_texels = float(np.clip(0.55 * np.exp(0.2 * trait[6]) / texel_mm, 5.0, texels / 6))
    pits = band_noise(rng, texels, texels, pit_texels * 1.5, pit_texels * 0.75, 0.0)
    pits = torch.tanh(2.0 * pits) if adenoma else torch.tanh(2.5 * (pits - 0.9))
    vessels = vessel_map(rng, texels, texels, 0.2, roots=int(rng.integers(3, 9)), widest_mm=0.9)
    relief = relief.clamp(-2, 2) * 0.5 + 0.025 * pits * min(1.0, pit_texels / 10)
    axis = torch.linspace(-1, 1, texels)
    radius = torch.sqrt(axis[:, None] ** 2 + axis[None, :] ** 2)
    # The rim of the map is a single point of the head, so the relief must end before it.
    relief = relief * ((0.85 - radius) / 0.35).clamp(0, 1)
    return torch.stack([relief, torch.tanh(1.2 * tone), pits, vessels])[None].contiguous()
