"""SFE's optional augmentation of single frames: flips, small affine transforms, colour jitter.

It works on float frames (n, 3, H, W) in [0, 255], on their device, with torch's global generator, which every step
seeds.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

DEGREES, SHIFT, SMALLEST, LARGEST = 15.0, 0.1, 0.9, 1.1
BRIGHTNESS, CONTRAST, SATURATION, HUE = 0.2, 0.2, 0.2, 0.1

#: RGB to luma and two chroma axes (YIQ); a rotation of the chroma plane shifts the hue.
TO_YIQ = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))


def augment(frames: Tensor) -> Tensor:
    """The frames (n, 3, H, W) after a random geometric and colour change."""
    return jitter(transform(frames))


def transform(frames: Tensor) -> Tensor:
    """Random flips (each with probability 0.5), rotations, shifts and scalings about the centre."""
    n = len(frames)
    angle = _uniform(frames, n, -math.radians(DEGREES), math.radians(DEGREES))
    flip = torch.sign(torch.rand(n, 2, device=frames.device) - 0.5) / _uniform(frames, n, SMALLEST, LARGEST)[:, None]
    rotation = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], 1).reshape(n, 2, 2)
    shift = 2 * _uniform(frames, 2 * n, -SHIFT, SHIFT).reshape(n, 2, 1)
    grid = functional.affine_grid(
        torch.cat([rotation * flip[:, None], shift], 2), list(frames.shape), align_corners=False
    )
    return functional.grid_sample(frames, grid.to(frames.dtype), align_corners=False)


def jitter(frames: Tensor) -> Tensor:
    """Random changes of brightness, contrast, saturation and hue."""
    n = len(frames)
    to_yiq = torch.tensor(TO_YIQ, device=frames.device, dtype=frames.dtype)
    frames = frames * _uniform(frames, n, 1 - BRIGHTNESS, 1 + BRIGHTNESS)[:, None, None, None]
    mean = (frames.mean((-2, -1)) * to_yiq[0]).sum(1)[:, None, None, None]  # luma of each frame
    contrast = _uniform(frames, n, 1 - CONTRAST, 1 + CONTRAST)[:, None, None, None]
    frames = mean + (frames - mean) * contrast
    saturation = _uniform(frames, n, 1 - SATURATION, 1 + SATURATION)
    rotation = _uniform(frames, n, -2 * math.pi * HUE, 2 * math.pi * HUE)
    zero, one = torch.zeros_like(rotation), torch.ones_like(rotation)
    cosine, sine = saturation * rotation.cos(), saturation * rotation.sin()
    chroma = torch.stack([one, zero, zero, zero, cosine, -sine, zero, sine, cosine], 1).reshape(n, 3, 3)
    matrix = torch.linalg.inv(to_yiq) @ chroma @ to_yiq  # (n, 3, 3)
    return torch.einsum("nij,njhw->nihw", matrix, frames).clamp(0, 255)


def _uniform(frames: Tensor, n: int, low: float, high: float) -> Tensor:
    return torch.rand(n, device=frames.device, dtype=frames.dtype) * (high - low) + low
