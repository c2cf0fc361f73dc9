"""The camera: an equidistant fisheye lens behind an octagonal or round mask, and its views.

A ray at angle a from the optical axis falls focal_px * a pixels from the centre, so a small object on the axis spans
focal_px * size / distance pixels. Camera axes: right, down, forward.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor


@dataclass(frozen=True)
class Camera:
    """Image size, lens and black border of one endoscope."""

    width: int
    height: int
    focal_px: float
    mask: Literal["octagon", "round"]
    cut: float  # share of the height that the mask removes at the corners

    def directions(self, u: Tensor, v: Tensor) -> Tensor:
        """Unit directions (3, ...) of pixels; u and v are measured from the centre."""
        radius = torch.sqrt(u * u + v * v).clamp_min(1e-6)
        angle = radius / self.focal_px
        sine = torch.sin(angle) / radius
        return torch.stack([u * sine, v * sine, torch.cos(angle)])

    def project(self, right: Tensor, down: Tensor, forward: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels (x, y), measured from the image's corner, of points in camera axes."""
        across = torch.sqrt(right * right + down * down).clamp_min(1e-9)
        radius = torch.atan2(across, forward) * self.focal_px
        return self.width / 2 + right / across * radius, self.height / 2 + down / across * radius

    def inside(self, x: Tensor, y: Tensor) -> Tensor:
        """Distance in pixels from the mask's edge; negative in the black border."""
        u, v = (x - self.width / 2).abs(), (y - self.height / 2).abs()
        half_width, half_height = self.width / 2, self.height / 2
        edge = torch.minimum(half_width - u, half_height - v)
        if self.mask == "round":
            reach = half_width * (1.06 - 0.12 * self.cut)
            return torch.minimum(edge, reach - torch.sqrt(u * u + v * v))
        corner = (half_width + half_height - self.cut * self.height - u - v) * float(np.sqrt(0.5))
        return torch.minimum(edge, corner)


@dataclass(frozen=True)
class CameraViews:
    """Camera position and orientation in each of B frames, and the state of the lumen."""

    position: Tensor  # (B, 3) mm
    rotation: Tensor  # (B, 3, 3), columns right, down, forward
    state: Tensor  # (B, 1)

    def take(self, index: Tensor) -> "CameraViews":
        """The views of the given frames."""
        return CameraViews(self.position[index], self.rotation[index], self.state[index])


def pixel_centres(camera: Camera, device: torch.device, shrink: int = 1) -> tuple[Tensor, Tensor]:
    """x and y (height / shrink, width / shrink) of the pixels' centres, from the image's corner."""
    rows = (torch.arange(camera.height // shrink, device=device) + 0.5) * shrink
    columns = (torch.arange(camera.width // shrink, device=device) + 0.5) * shrink
    x, y = torch.meshgrid(columns, rows, indexing="xy")
    return x, y


@lru_cache(maxsize=16)
def camera_rays(camera: Camera, device: torch.device, shrink: int = 1) -> Tensor:
    """Unit directions (3, height / shrink * width / shrink) through the pixel centres, row by row."""
    x, y = pixel_centres(camera, device, shrink)
    return camera.directions((x - camera.width / 2).reshape(-1), (y - camera.height / 2).reshape(-1))


@lru_cache(maxsize=16)
def border(camera: Camera, device: torch.device) -> Tensor:
    """The mask (H, W): 1 inside, 0 in the black border, with an edge one pixel wide."""
    return (camera.inside(*pixel_centres(camera, device)) + 0.5).clamp(0.0, 1.0)


def draw_camera(rng: Generator, width: int, height: int) -> Camera:
    """A random endoscope: field of view and mask."""
    half_angle = np.deg2rad(rng.uniform(57, 66))  # to the middle of the left and right edge
    mask: Literal["octagon", "round"] = "octagon" if rng.random() < 0.75 else "round"
    return Camera(width, height, width / 2 / half_angle, mask, float(rng.uniform(0.13, 0.22)))


def aim(position: Tensor, target: Tensor, u: Tensor, v: Tensor, roll: Tensor, camera: Camera) -> Tensor:
    """Rotations (F, 3, 3), columns right, down, forward, that show `target` at pixel (u, v) from the centre."""
    forward = torch.nn.functional.normalize(target - position, dim=-1)
    axis = torch.zeros_like(forward)
    axis[:, 1] = 1.0
    down = torch.nn.functional.normalize(axis - (axis * forward).sum(-1, keepdim=True) * forward, dim=-1)
    right = torch.linalg.cross(down, forward)
    cosine, sine = torch.cos(roll)[:, None], torch.sin(roll)[:, None]
    down, right = cosine * down + sine * right, cosine * right - sine * down
    rotation = torch.stack([right, down, forward], dim=-1)  # (F, 3, 3)
    return rotation @ _turn_to_axis(camera.directions(u, v))


def _turn_to_axis(direction: Tensor) -> Tensor:
    """The smallest rotations (F, 3, 3) that map unit directions (3, F) to the forward axis."""
    a, b, c = direction
    share = 1.0 / (1.0 + c)
    right = (1 - a * a * share, -a * b * share, -a)
    down = (-a * b * share, 1 - b * b * share, -b)
    return torch.stack([*right, *down, a, b, c], dim=-1).reshape(-1, 3, 3)
