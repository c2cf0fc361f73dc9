"""Rendering: from a scene, views and conditions to the pictures of an endoscope.

Rays are traced and shaded; then come exposure, blur, colour fringes, sensor noise and the black mask.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.nn.functional import conv2d, pad

from polyptrace.synthetic.camera import Camera, CameraViews, border, camera_rays
from polyptrace.synthetic.colon import Colon, Lumen
from polyptrace.synthetic.conditions import Conditions
from polyptrace.synthetic.polyps import Polyp
from polyptrace.synthetic.shading import add_instruments, shade
from polyptrace.synthetic.tracing import in_reach, trace_polyp, trace_wall, turn_rays


@dataclass(frozen=True)
class Scene:
    """Everything that the pictures of one procedure are rendered from, except views and conditions."""

    colon: Colon
    lumen: Lumen
    polyps: tuple[Polyp, ...]
    camera: Camera
    grain: Tensor  # (3, 2 H, 2 W)

    def to(self, device: torch.device) -> "Scene":
        """The scene on another device."""
        polyps = tuple(polyp.to(device) for polyp in self.polyps)
        return Scene(self.colon.to(device), self.lumen.to(device), polyps, self.camera, self.grain.to(device))


def render(scene: Scene, views: CameraViews, conditions: Conditions, seeds: Tensor) -> tuple[Tensor, Tensor]:
    """Pictures (B, 3, H, W) uint8, and the polyp visible in each pixel (B, H, W) int8 (-1: none).

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
    picture = _expose(light * _vignette(camera, device), conditions, mask.reshape(-1))
    picture = _smear(picture.reshape(frames, 3, height, width), conditions)
    picture = _add_grain(picture, conditions, scene.grain, seeds) * mask
    return (picture.clamp_(0.0, 1.0) * 255.0).round_().to(torch.uint8), owner.reshape(frames, height, width)


def _expose(light: Tensor, conditions: Conditions, inside: Tensor) -> Tensor:
    """Picture values in [0, 1] (B, 3, P): automatic exposure over the mask `inside` (P,), colours, tone curve."""
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


def _smear(picture: Tensor, conditions: Conditions) -> Tensor:
    """The picture (B, 3, H, W) blurred by defocus and motion, with the red and blue fields shifted against green."""
    width = picture.shape[-1]
    for axis, deviation in ((3, conditions.blur_x), (2, conditions.blur_y)):
        shift = conditions.fringe[:, 3 - axis] * width
        shifts = torch.stack([shift, torch.zeros_like(shift), -shift], dim=1)  # (B, 3)
        picture = _blur(picture, deviation * width + 0.2, shifts, axis)
    return picture


def _blur(picture: Tensor, deviation: Tensor, shifts: Tensor, axis: int) -> Tensor:
    """Gaussian blur along one axis, with a deviation (B, 1) and a shift (B, 3) in pixels."""
    frames, channels, height, width = picture.shape
    reach = max(2, round(width * 0.022))
    taps = torch.arange(-reach, reach + 1, device=picture.device)
    weight = torch.exp(-0.5 * ((taps - shifts[..., None]) / deviation[:, :, None]) ** 2)  # (B, 3, taps)
    weight = weight / weight.sum(dim=-1, keepdim=True)
    kernel = weight.reshape(frames * channels, 1, *((1, -1) if axis == 3 else (-1, 1)))
    padding = (reach, reach, 0, 0) if axis == 3 else (0, 0, reach, reach)
    padded = pad(picture, padding, mode="replicate")
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


def _add_grain(picture: Tensor, conditions: Conditions, grain: Tensor, seeds: Tensor) -> Tensor:
    """Sensor noise, stronger in dark areas; the frame's number in `seeds` (B,) selects a window of `grain`."""
    height, width = picture.shape[-2:]
    windows = []
    for seed in seeds.tolist():
        top, left = seed * 7919 % height, seed * 104729 % width
        windows.append(grain[:, top : top + height, left : left + width])
    strength = conditions.noise[:, :, None, None] * (1.25 - 0.75 * picture)
    return picture + torch.stack(windows) * strength


def _vignette(camera: Camera, device: torch.device) -> Tensor:
    """Relative brightness (P,), lower towards the corners."""
    forward = camera_rays(camera, device)[2].clamp(0.0, 1.0)
    return 0.45 + 0.55 * forward
