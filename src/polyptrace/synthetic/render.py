"""Rendering: from a scene, views and conditions to the images of an endoscope.

Rays are traced and shaded; then come exposure, blur, colour fringes, sensor noise and the black mask.
"""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.nn.functional import conv2d, pad

from polyptrace.synthetic.camera import Camera, CameraViews, border, camera_rays, pixel_centres
from polyptrace.synthetic.colon import FOAM_MM, RADIUS_MM, Colon, Lumen, sample_periodic
from polyptrace.synthetic.conditions import Conditions
from polyptrace.synthetic.polyps import Polyp
from polyptrace.synthetic.tracing import PolypHits, Rays, in_reach, points_on_rays, trace_polyp, trace_wall, turn_rays

SNARE = 2  # value of Conditions.instrument
T = TypeVar("T")
CHANNEL_ANGLE = np.deg2rad(52.0)  # the working channel opens at about five o'clock


def shade(
    colon: Colon,
    lumen: Lumen,
    views: CameraViews,
    conditions: Conditions,
    rays: Rays,
    wall: Tensor,
    polyps: list[tuple[Polyp, PolypHits]],
) -> Tensor:
    """Linear light (B, 3, P) that reaches the camera, before exposure."""
    x, y, z = points_on_rays(views, rays, wall)
    theta = torch.atan2(y, x)
    normal = list(lumen.inward_normal(x, y, z, views.state))
    (vessel, debris), (tone, pale, relief) = colon.mucosa_at(theta, z)  # each (B, P)
    fine = sample_periodic(colon.fine, theta, z, colon.fine_mm)  # (3, B, P)
    albedo = _mucosa(colon, vessel * conditions.vessel, tone, pale, fine[0])  # 3 x (B, P)
    distance = wall.clone()
    seam = 1.0 + 0.05 * relief + 0.05 * fine[1]
    for polyp, hits in polyps:
        _shade_polyp(colon, polyp, hits, conditions, albedo, normal, distance, seam, fine[0])
    foaming = bool((conditions.bubbles > 0).any())
    foam = sample_periodic(colon.foam, theta, z, FOAM_MM)[0] if foaming else torch.zeros_like(tone)
    foam = foam * torch.sigmoid((tone - 1.6 + 2.4 * conditions.bubbles) * 4.0) * (conditions.bubbles > 0)
    depth = x * conditions.down[:, 0:1] + y * conditions.down[:, 1:2] - RADIUS_MM * lumen.inflation[views.state.long()]
    pool = torch.sigmoid((depth + conditions.pool_level) * 1.5)
    gloss = _stain(albedo, torch.sigmoid((debris - 2.6 + conditions.debris) * 5.0) * 0.85, pool, foam)
    facing = (normal[0] * rays[0] + normal[1] * rays[1] + normal[2] * rays[2]).neg_().clamp_(0.0, 1.0)
    outward = torch.rsqrt(x * x + y * y)
    cosine, sine = x * outward, y * outward
    slope = conditions.roughness * (0.7 + 0.3 * relief)
    off_z = rays[2] + facing * (normal[2] + slope * fine[1])
    off_a = rays[1] * cosine - rays[0] * sine + facing * (normal[1] * cosine - normal[0] * sine + slope * fine[2])
    shine = torch.exp((off_z * off_z + off_a * off_a) * -110.0) * (conditions.gloss * gloss)
    return _light(albedo, facing, distance, seam, shine)


def _mucosa(colon: Colon, vessel: Tensor, tone: Tensor, pale: Tensor, grain: Tensor) -> list[Tensor]:
    """Albedo of the wall: pale and reddish fields, vessels and grain."""
    red = colon.colour[0] * (1.0 + 0.03 * pale + 0.03 * grain)
    green = colon.colour[1] * (1.0 - 0.12 * tone + 0.11 * pale + 0.07 * grain)
    blue = colon.colour[2] * (1.0 - 0.10 * tone + 0.03 * pale + 0.07 * grain)
    return [red * (1.0 - 0.22 * vessel), green * (1.0 - 0.62 * vessel), blue * (1.0 - 0.50 * vessel)]


def _shade_polyp(
    colon: Colon,
    polyp: Polyp,
    hits: PolypHits,
    conditions: Conditions,
    albedo: list[Tensor],
    normal: list[Tensor],
    distance: Tensor,
    seam: Tensor,
    grain: Tensor,
) -> None:
    """Overwrites the wall's colour, normal and distance with those of the polyp, blended at its base."""
    at = hits.frame, hits.pixel
    map_u, map_v, _, _ = polyp.direction(hits.u, hits.v, hits.h)
    _, tone, pit, vessel = polyp.sample(map_u, map_v, channels=4)
    mix = (0.5 + 0.5 * tone).clamp(0, 1)
    vessel = vessel * polyp.vessel_depth * (0.5 + 0.5 * conditions.vessel[hits.frame, 0])
    height = hits.h / (polyp.lift + polyp.radii[2])  # 0 at the wall, 1 at the top
    share = smoothstep(height * 5.0)
    rounding = smoothstep(height * 2.2)
    fine = grain[at]
    for channel, (dark, bright) in enumerate(((0.25, 0.08), (0.62, 0.22), (0.55, 0.20))):
        base = colon.colour[channel] * polyp.colour[channel]
        value = base * (1.0 - mix * (1.0 - polyp.tint[channel]))
        value = value * (1.0 + bright * polyp.pit_depth * pit + 0.03 * fine) * (1.0 - dark * vessel)
        albedo[channel][at] = albedo[channel][at] * (1.0 - share) + value * share
        normal[channel][at] = normal[channel][at] * (1.0 - rounding) + hits.normal[channel] * rounding
    scale = torch.rsqrt(sum((normal[k][at] ** 2 for k in range(3)), torch.tensor(1e-9, device=distance.device)))
    for channel in range(3):
        normal[channel][at] = normal[channel][at] * scale
    distance[at] = hits.distance
    seam[at] = 0.9 + 0.1 * share


def smoothstep(share: Tensor) -> Tensor:
    """A smooth step: 0 below 0, 1 above 1."""
    share = share.clamp(0.0, 1.0)
    return share * share * (3.0 - 2.0 * share)


def _stain(albedo: list[Tensor], residue: Tensor, pool: Tensor, foam: Tensor) -> Tensor:
    """Changes the albedo by residue, standing water and bubbles; returns a factor for the highlights."""
    for channel, (dirt, water) in enumerate(((0.62, 0.50), (0.42, 0.33), (0.10, 0.09))):
        albedo[channel] += (dirt - albedo[channel]) * residue
        albedo[channel] += (water - albedo[channel]) * (pool * 0.6)
        albedo[channel] += (0.75 - albedo[channel]) * (foam * 0.45)
    return (1.0 + 2.5 * foam + 0.8 * residue) * (1.0 - 0.5 * pool)


def _light(albedo: list[Tensor], facing: Tensor, distance: Tensor, seam: Tensor, shine: Tensor) -> Tensor:
    """Direct light with inverse-square fall-off, light reflected within the colon, and highlights."""
    squared = distance * distance
    power = 400.0 / (squared + 16.0)
    direct = power * (0.16 + facing * (0.34 + 0.5 * facing)) * seam
    bounce = (0.4 + 0.6 * facing) * seam * 55.0 / (squared + 500.0)
    shine = shine * (power + 0.3)
    colours = [each * (direct + bounce * glow) + shine for each, glow in zip(albedo, (1.0, 0.62, 0.5), strict=True)]
    return torch.stack(colours, dim=1)


def add_instruments(light: Tensor, conditions: Conditions, camera: Camera, owner: Tensor) -> Tensor:
    """Linear light (B, 3, P) with the instruments drawn over it; `owner` (B, P) is -1 outside the polyps."""
    chosen = torch.nonzero(conditions.instrument[:, 0] > 0)[:, 0]
    if not len(chosen):
        return light
    width, device = camera.width, light.device
    x, y = (each.reshape(1, -1) / width for each in pixel_centres(camera, device))
    tip = conditions.tip[chosen]  # (b, 2)
    level = light[chosen].mean(dim=(1, 2))[:, None]  # (b, 1)
    snare = conditions.instrument[chosen] == SNARE
    reach = torch.where(snare, 0.80, 0.97)  # the sheath of a snare ends in front of the polyp
    across, along, size = _rod(x, y, tip, reach, camera)
    inside = smoothstep((1.0 - across.abs()) * size * width) * (along < 1.0)
    round_light = torch.sqrt((1.0 - across * across).clamp_min(0.0))
    stripe = torch.exp(-((across - 0.25) ** 2) * 60.0)
    bright = level * (2.6 - 1.5 * along) * (0.25 + 0.75 * round_light) + level * stripe * 1.5
    sheath = torch.tensor([[0.55, 0.85, 0.95], [1.0, 1.0, 0.98]], device=device)  # plastic, metal
    colour = torch.where(snare, sheath[0], sheath[1])[:, :, None]  # (b, 3, 1)
    wire, wire_light = _wire(x, y, conditions.loop[chosen], tip, width)
    wire = wire * snare * (owner[chosen] < 0)
    drawn = light[chosen]
    drawn = drawn + (bright[:, None] * colour - drawn) * inside[:, None]
    drawn = drawn + ((level * 2.2 * wire_light)[:, None] - drawn) * wire[:, None]
    return light.index_copy(0, chosen, drawn)


def _rod(x: Tensor, y: Tensor, tip: Tensor, reach: Tensor, camera: Camera) -> tuple[Tensor, Tensor, Tensor]:
    """Per pixel: the coordinate across the rod (-1 to 1 inside), along it (1 at the tip), and half its width."""
    start_x = 0.5 + 0.68 * float(np.cos(CHANNEL_ANGLE))
    start_y = camera.height / camera.width / 2 + 0.68 * float(np.sin(CHANNEL_ANGLE))
    rod_x, rod_y = (tip[:, 0:1] - start_x) * reach, (tip[:, 1:2] - start_y) * reach
    length = torch.sqrt(rod_x**2 + rod_y**2).clamp_min(1e-3)
    along = ((x - start_x) * rod_x + (y - start_y) * rod_y) / (length * length)
    across = ((x - start_x) * rod_y - (y - start_y) * rod_x) / length
    size = 0.045 - 0.022 * along.clamp(0.0, 1.0)
    return (across / size).clamp(-3.0, 3.0), along, size


def _wire(x: Tensor, y: Tensor, loop: Tensor, tip: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Coverage and brightness of the snare's loop, an ellipse around the polyp, per pixel."""
    u, v = (x - tip[:, 0:1]) / loop[:, 0:1], (y - tip[:, 1:2]) / loop[:, 1:2]
    radius = torch.sqrt(u * u + v * v).clamp_min(1e-3)
    distance = (radius - 1.0).abs() * loop.mean(dim=1, keepdim=True)
    coverage = smoothstep(1.0 - (distance - 0.004) * width * 0.7) * (distance < 0.03)
    return coverage, 0.6 + 0.4 * torch.cos(6.0 * u / radius)


@dataclass(frozen=True)
class Scene:
    """Everything that the images of one procedure are rendered from, except views and conditions."""

    colon: Colon
    lumen: Lumen
    polyps: tuple[Polyp, ...]
    camera: Camera
    grain: Tensor  # (3, 2 H, 2 W)


def on_device(value: T, device: torch.device) -> T:
    """A scene, views or conditions with all tensors on another device."""
    moved: Any = value
    if isinstance(value, Tensor):
        moved = value.to(device)
    elif isinstance(value, tuple):
        moved = tuple(on_device(each, device) for each in value)
    elif is_dataclass(value) and not isinstance(value, type):
        moved = replace(value, **{f.name: on_device(getattr(value, f.name), device) for f in fields(value)})
    return moved


def render(scene: Scene, views: CameraViews, conditions: Conditions, seeds: Tensor) -> tuple[Tensor, Tensor]:
    """Images (B, 3, H, W) uint8, and the polyp visible in each pixel (B, H, W) int8 (-1: none).

    `seeds` (B,) select the sensor noise.
    """
    camera, device = scene.camera, views.position.device
    frames, height, width = len(views.position), camera.height, camera.width
    rays = turn_rays(views, camera_rays(camera, device))
    wall = trace_wall(scene.lumen, camera, views, rays)
    owner = torch.full(wall.shape, -1, dtype=torch.int8, device=device)
    nearest = wall
    visible = []
    for index, polyp in enumerate(scene.polyps):
        if not in_reach(scene.lumen, polyp, views):
            continue
        hits = trace_polyp(scene.lumen, polyp, views, rays, nearest)
        if len(hits.frame):
            nearest = nearest.index_put((hits.frame, hits.pixel), hits.distance)
            owner[hits.frame, hits.pixel] = index
            visible.append((polyp, hits))
    light = shade(scene.colon, scene.lumen, views, conditions, rays, wall, visible)
    mask = border(camera, device)
    light = add_instruments(light, conditions, camera, owner)
    vignette = 0.45 + 0.55 * camera_rays(camera, device)[2].clamp(0.0, 1.0)  # (P,) lower towards the corners
    image = _expose(light * vignette, conditions, mask.reshape(-1))
    image = _smear(image.reshape(frames, 3, height, width), conditions)
    image = _add_grain(image, conditions, scene.grain, seeds) * mask
    return (image.clamp_(0.0, 1.0) * 255.0).round_().to(torch.uint8), owner.reshape(frames, height, width)


def _expose(light: Tensor, conditions: Conditions, inside: Tensor) -> Tensor:
    """Image values in [0, 1] (B, 3, P): automatic exposure over the mask `inside` (P,), colours, tone curve."""
    light = _narrow_band(light, conditions.narrow_band)
    luminance = (0.3 * light[:, 0] + 0.55 * light[:, 1] + 0.15 * light[:, 2]).clamp_max(6.0)  # (B, P)
    level = ((luminance * inside).sum(dim=1, keepdim=True) / inside.sum()).clamp_min(1e-4)
    gain = 0.30 * torch.exp2(conditions.exposure) * level**-0.92
    light = light * (gain * conditions.balance)[:, :, None]
    veil = torch.tensor([[1.0], [0.62], [0.45]], device=light.device)
    light = light + (conditions.haze[:, :, None] + 0.007) * veil
    grey = light.mean(dim=1, keepdim=True)
    light = (grey + (light - grey) * conditions.saturation[:, :, None]).clamp_min_(0.0)
    return (1.0 - torch.exp(-1.55 * light)).clamp_min_(1e-6) ** 0.5


def _smear(image: Tensor, conditions: Conditions) -> Tensor:
    """The image (B, 3, H, W) blurred by defocus and motion, with the red and blue fields shifted against green."""
    width = image.shape[-1]
    for axis, deviation in ((3, conditions.blur_x), (2, conditions.blur_y)):
        shift = conditions.fringe[:, 3 - axis] * width
        shifts = torch.stack([shift, torch.zeros_like(shift), -shift], dim=1)  # (B, 3)
        image = _blur(image, deviation * width + 0.2, shifts, axis)
    return image


def _blur(image: Tensor, deviation: Tensor, shifts: Tensor, axis: int) -> Tensor:
    """Gaussian blur along one axis, with a deviation (B, 1) and a shift (B, 3) in pixels."""
    frames, channels, height, width = image.shape
    reach = max(2, round(width * 0.022))
    taps = torch.arange(-reach, reach + 1, device=image.device)
    weight = torch.exp(-0.5 * ((taps - shifts[..., None]) / deviation[:, :, None]) ** 2)  # (B, 3, taps)
    weight = weight / weight.sum(dim=-1, keepdim=True)
    kernel = weight.reshape(frames * channels, 1, *((1, -1) if axis == 3 else (-1, 1)))
    padding = (reach, reach, 0, 0) if axis == 3 else (0, 0, reach, reach)
    padded = pad(image, padding, mode="replicate")
    flat = padded.reshape(1, frames * channels, *padded.shape[2:])
    return conv2d(flat, kernel, groups=frames * channels).reshape(frames, channels, height, width)


def _narrow_band(light: Tensor, share: Tensor) -> Tensor:
    """Narrow-band imaging: only blue and green light, displayed as cyan and brown."""
    grey_blue, green = light[:, 2:3] * 1.5, light[:, 1:2] * 1.25
    shown = torch.cat([green * 0.75, grey_blue * 1.05, grey_blue], dim=1)
    return light + (shown - light) * share[:, :, None]


def draw_grain(rng: Generator, camera: Camera) -> Tensor:
    """Sensor noise (3, 2 H, 2 W), of which every frame uses one window."""
    return torch.from_numpy(rng.standard_normal((3, 2 * camera.height, 2 * camera.width), dtype=np.float32))


def _add_grain(image: Tensor, conditions: Conditions, grain: Tensor, seeds: Tensor) -> Tensor:
    """Sensor noise, stronger in dark areas; the frame's number in `seeds` (B,) selects a window of `grain`."""
    height, width = image.shape[-2:]
    windows = []
    for seed in seeds.tolist():
        top, left = seed * 7919 % height, seed * 104729 % width
        windows.append(grain[:, top : top + height, left : left + width])
    strength = conditions.noise[:, :, None, None] * (1.25 - 0.75 * image)
    return image + torch.stack(windows) * strength
