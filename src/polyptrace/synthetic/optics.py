"""From linear light to the picture a scope shows: instrument, exposure, blur, fringes, noise, the black mask."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d

from polyptrace.synthetic.camera import Camera, camera_rays
from polyptrace.synthetic.shading import Conditions, narrow_band


def expose(light: Tensor, conditions: Conditions, inside: Tensor) -> Tensor:
    """Picture values in [0, 1] (B, 3, P): automatic exposure over the pixels `inside` (P,), colours, tone curve."""
    light = narrow_band(light, conditions.narrow_band)
    luminance = (0.3 * light[:, 0] + 0.55 * light[:, 1] + 0.15 * light[:, 2]).clamp_max(6.0)  # (B, P)
    level = ((luminance * inside).sum(dim=1, keepdim=True) / inside.sum()).clamp_min(1e-4)
    gain = 0.30 * torch.exp2(conditions.exposure) * level**-0.92
    light = light * (gain * conditions.balance)[:, :, None]
    veil = torch.tensor([[1.0], [0.62], [0.45]], device=light.device)
    light = light + (conditions.haze[:, :, None] + 0.007) * veil
    grey = light.mean(dim=1, keepdim=True)
    light = (grey + (light - grey) * conditions.saturation[:, :, None]).clamp_min_(0.0)
    return (1.0 - torch.exp(-1.55 * light)).clamp_min_(1e-6) ** 0.5


def smear(picture: Tensor, conditions: Conditions) -> Tensor:
    """The picture (B, 3, H, W) blurred by defocus and motion, red and blue fields displaced against green."""
    width = picture.shape[-1]
    for axis, deviation in ((3, conditions.blur_x), (2, conditions.blur_y)):
        shift = conditions.fringe[:, 3 - axis] * width
        shifts = torch.stack([shift, torch.zeros_like(shift), -shift], dim=1)  # (B, 3)
        picture = _blur(picture, deviation * width + 0.2, shifts, axis)
    return picture


def _blur(picture: Tensor, deviation: Tensor, shifts: Tensor, axis: int) -> Tensor:
    """One-dimensional Gaussians along `axis`, with a deviation (B, 1) and a shift (B, 3) in pixels."""
    frames, channels, height, width = picture.shape
    reach = max(2, round(width * 0.022))
    taps = torch.arange(-reach, reach + 1, device=picture.device)
    weight = torch.exp(-0.5 * ((taps - shifts[..., None]) / deviation[:, :, None]) ** 2)  # (B, 3, taps)
    weight = weight / weight.sum(dim=-1, keepdim=True)
    kernel = weight.reshape(frames * channels, 1, *((1, -1) if axis == 3 else (-1, 1)))
    pad = (reach, reach, 0, 0) if axis == 3 else (0, 0, reach, reach)
    padded = torch.nn.functional.pad(picture, pad, mode="replicate")
    flat = padded.reshape(1, frames * channels, *padded.shape[2:])
    return conv2d(flat, kernel, groups=frames * channels).reshape(frames, channels, height, width)


def grain_tile(generator: np.random.Generator, camera: Camera, device: torch.device) -> Tensor:
    """Sensor noise (3, 2 H, 2 W) that `add_grain` cuts a piece of for each frame."""
    tile = generator.standard_normal((3, 2 * camera.height, 2 * camera.width), dtype=np.float32)
    return torch.from_numpy(tile).to(device)


def add_grain(picture: Tensor, conditions: Conditions, tile: Tensor, seeds: Tensor) -> Tensor:
    """Noise, stronger in the dark; each frame takes the piece of the tile that its number `seeds` (B,) points at."""
    height, width = picture.shape[-2:]
    pieces = []
    for seed in seeds.tolist():
        top, left = seed * 7919 % height, seed * 104729 % width
        pieces.append(tile[:, top : top + height, left : left + width])
    strength = conditions.noise[:, :, None, None] * (1.25 - 0.75 * picture)
    return picture + torch.stack(pieces) * strength


def vignette(camera: Camera, device: torch.device) -> Tensor:
    """Light lost towards the corners, (P,)."""
    forward = camera_rays(camera, device)[2].clamp(0.0, 1.0)
    return 0.45 + 0.55 * forward
