"""Cuts regions (computed by `data.boxes.crop_regions`) out of images and resizes them to squares.

The resize is bilinear with antialiasing. On a CPU it is in 8-bit arithmetic: about 0.3 grey levels from the float
result on average. On a GPU it is in floating point.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from polyptrace.core.arrays import Ints

#: Crops that are converted to floats at a time.
CROPS_AT_ONCE = 128


def cut_crop(picture: Tensor, region: Ints, size: int) -> Tensor:
    """The region of a uint8 image (3, H, W) as a uint8 square (size, size, 3)."""
    x, y, w, h = region.tolist()
    # torch's fast kernel needs channels last; [None] after the permutation gives the batch dimension its stride
    cut = picture.permute(1, 2, 0)[None, y : y + h, x : x + w].permute(0, 3, 1, 2)
    cut = cut.contiguous(memory_format=torch.channels_last)
    return resize_frames(cut, size)[0].permute(1, 2, 0)


def cut_crops(images: Sequence[Tensor], regions: Ints, size: int) -> Tensor:
    """Regions (n, 4) of uint8 images (3, H, W), one each, as uint8 squares (n, size, size, 3), by floats: for a GPU."""
    cuts = (image[None, :, y : y + h, x : x + w] for image, (x, y, w, h) in zip(images, regions.tolist(), strict=True))
    return _to_crops(torch.cat([resize_frames(cut.to(torch.float32), size) for cut in cuts]))


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
    return torch.cat([_to_crops(resize_frames(part, size)) for part in parts])


def _to_crops(frames: Tensor) -> Tensor:
    """Float frames (n, 3, S, S), which are overwritten, as uint8 crops (n, S, S, 3)."""
    return frames.round_().clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
