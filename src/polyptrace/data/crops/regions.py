"""Regions (see `crop_regions` of the box table) cut out of their image and resized to a square.

The resize is bilinear with antialiasing in 8-bit arithmetic: about 0.3 grey levels from the float result on average.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional

from polyptrace.core.arrays import Floats, Ints

#: Crops that are converted to floats at a time.
CHUNK = 128


def cut_crop(picture: Tensor, region: NDArray[np.integer | np.floating], size: int) -> Tensor:
    """The region of a uint8 image (3, H, W) as a uint8 square (size, size, 3); float regions may split pixels."""
    x, y, w, h = region.tolist()
    if region.dtype.kind == "f":
        image = Image.fromarray(picture.permute(1, 2, 0).numpy())
        return torch.from_numpy(np.array(image.resize((size, size), Image.Resampling.BILINEAR, (x, y, x + w, y + h))))
    # torch's fast kernel needs channels last; [None] after the permutation gives the batch dimension its stride
    cut = picture.permute(1, 2, 0)[None, y : y + h, x : x + w].permute(0, 3, 1, 2)
    cut = cut.contiguous(memory_format=torch.channels_last)
    return resize_frames(cut, size)[0].permute(1, 2, 0)


def shrink_factor(regions: NDArray[np.integer], size: int) -> int:
    """The largest of 1, 2, 4, 8 by which an image may shrink while every region keeps `size` pixels a side."""
    largest = int(regions[:, 2:].min()) // size
    return next(factor for factor in (8, 4, 2, 1) if factor <= max(largest, 1))


def scale_regions(regions: Ints, full: tuple[int, int], shrunk: tuple[int, int]) -> Floats:
    """Regions of an image of the size `full` (width, height), in pixels of the same image decoded at `shrunk`."""
    ratio: Floats = np.tile(np.array(shrunk) / np.array(full), 2)
    return regions * ratio


def resize_frames(frames: Tensor, size: int) -> Tensor:
    """Frames (n, 3, H, W) as squares (n, 3, size, size), in their own type; not copied if they have that size."""
    if frames.shape[-2:] == (size, size):
        return frames
    return functional.interpolate(frames, size=(size, size), mode="bilinear", antialias=True)


def resize_crops(crops: Tensor, size: int) -> Tensor:
    """uint8 crops (n, H, W, 3) as uint8 squares (n, size, size, 3), rounded to the nearest grey level."""
    if crops.shape[1:3] == (size, size):
        return crops
    return torch.cat([_resized(part, size) for part in crops.split(CHUNK)])


def _resized(crops: Tensor, size: int) -> Tensor:
    frames = resize_frames(crops.permute(0, 3, 1, 2).to(torch.float32), size)
    return frames.round_().clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
