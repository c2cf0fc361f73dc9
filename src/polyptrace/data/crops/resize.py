"""Cuts regions (computed by `data.boxes.crop_regions`) out of images and resizes them to squares.

The resize is bilinear with antialiasing. On a CPU it is in 8-bit arithmetic: about 0.3 grey levels from the float
result on average. On a GPU it is in floating point.
"""

import torch
from torch import Tensor
from torch.nn import functional

from polyptrace.core.arrays import Ints

#: Crops that are converted to floats at a time.
CROPS_AT_ONCE = 128


def cut_crop(picture: Tensor, region: Ints, size: int) -> Tensor:
    """The region of a uint8 image (3, H, W) as a uint8 square (size, size, 3)."""
    x, y, w, h = region.tolist()
    cut = picture.permute(1, 2, 0)[None, y : y + h, x : x + w]
    if picture.is_cuda:
        return resize_crops(cut, size)[0]
    # torch's fast kernel needs channels last; [None] after the permutation gives the batch dimension its stride
    frames = cut.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
    return resize_frames(frames, size)[0].permute(1, 2, 0)


def resize_frames(frames: Tensor, size: int) -> Tensor:
    """Frames (n, 3, H, W) as squares (n, 3, size, size), in their own type; not copied if they have that size."""
    if frames.shape[-2:] == (size, size):
        return frames
    return functional.interpolate(frames, size=(size, size), mode="bilinear", antialias=True)


def resize_crops(crops: Tensor, size: int) -> Tensor:
    """uint8 crops (n, H, W, 3) as uint8 squares (n, size, size, 3), rounded to the nearest grey level."""
    if crops.shape[1:3] == (size, size):
        return crops
    parts = (part.permute(0, 3, 1, 2).to(torch.float32) for part in crops.split(CROPS_AT_ONCE))
    resized = (resize_frames(part, size).round_().clamp_(0, 255).to(torch.uint8) for part in parts)
    return torch.cat([part.permute(0, 2, 3, 1).contiguous() for part in resized])
