"""Regions (see `crop_regions` of the box table) cut out of their images and resized to squares.

The resize is bilinear with antialiasing. On a CPU it is in 8-bit arithmetic: about 0.3 grey levels from the float
result on average. On a GPU the crops of a batch are resized together. The resize is linear in the rows and in the
columns of a region, so it is two matrix products per colour: `down @ image @ across.T`. A row of `down` is the triangle
filter of one row of the crop, `max(0, 1 - |distance| / max(scale, 1))` over the pixels of the region, divided by its
sum; outside the region it is 0. The products are in half precision there: pixels are exact in it, and its 11 bits keep
weights and sums within a quarter of a grey level.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from polyptrace.core.arrays import Ints

#: Crops that are converted to floats at a time.
CROPS_AT_ONCE = 128
BYTES_AT_ONCE = 1 << 28  # of images in the precision of the products
ALIGNMENT = 8  # the fast half-precision kernels need rows that start at multiples of 16 bytes


def cut_crop(picture: Tensor, region: Ints, size: int) -> Tensor:
    """The region of a uint8 image (3, H, W) as a uint8 square (size, size, 3)."""
    x, y, w, h = region.tolist()
    # torch's fast kernel needs channels last; [None] after the permutation gives the batch dimension its stride
    cut = picture.permute(1, 2, 0)[None, y : y + h, x : x + w].permute(0, 3, 1, 2)
    cut = cut.contiguous(memory_format=torch.channels_last)
    return resize_frames(cut, size)[0].permute(1, 2, 0)


def cut_crops(
    images: Sequence[Tensor], picture_of: Ints, regions: Ints, size: int, dtype: torch.dtype | None = None
) -> Iterator[tuple[Ints, Tensor]]:
    """Yields (indices of regions, their crops (m, size, size, 3)) of uint8 images (3, H, W), some at a time.

    Region i is x, y, w, h in `images[picture_of[i]]`. Images of the same size are resized together.
    """
    precision = dtype or (torch.float16 if images[0].is_cuda else torch.float32)
    shapes = np.array([image.shape[1:] for image in images])[picture_of]  # (n, 2)
    for height, width in np.unique(shapes, axis=0).tolist():
        same_size = np.flatnonzero((shapes == (height, width)).all(1))
        at_once = max(1, BYTES_AT_ONCE // (3 * height * width * precision.itemsize))
        for first in range(0, len(same_size), at_once):
            index = same_size[first : first + at_once]
            stack = torch.stack([images[picture] for picture in picture_of[index].tolist()])
            yield index, _resize_regions(stack, regions[index], size, precision)


def triangle_weights(begin: Tensor, extent: Tensor, length: int, size: int) -> Tensor:
    """Weights (n, size, length) of a side's pixels in its crop's; the region is `extent` pixels from `begin` on."""
    pixel = torch.arange(length, device=begin.device) + 0.5 - begin[:, None, None]  # (n, 1, length) inside the region
    scale = (extent / size)[:, None, None]
    centre = (torch.arange(size, device=begin.device)[:, None] + 0.5) * scale  # (n, size, 1)
    weights = (1 - (pixel - centre).abs() / scale.clamp(min=1)).clamp_(min=0)
    weights *= (pixel > 0) & (pixel < extent[:, None, None])
    return weights / weights.sum(2, keepdim=True)


def _resize_regions(stack: Tensor, regions: Ints, size: int, dtype: torch.dtype) -> Tensor:
    """Regions of images of the same size (n, 3, H, W), one each, as squares (n, size, size, 3)."""
    n, _, height, width = stack.shape
    aligned = [-(-side // ALIGNMENT) * ALIGNMENT for side in (height, width)]
    padded = torch.zeros((n, 3, *aligned), dtype=dtype, device=stack.device)
    padded[:, :, :height, :width] = stack
    x, y, w, h = torch.from_numpy(regions).to(stack.device, torch.float32).T
    down = triangle_weights(y, h, aligned[0], size).to(dtype)[:, None]  # (n, 1, size, H)
    across = triangle_weights(x, w, aligned[1], size).to(dtype)[:, None]  # (n, 1, size, W)
    squares = down @ padded @ across.mT  # (n, 3, size, size)
    return squares.round_().clamp_(max=255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def resize_frames(frames: Tensor, size: int) -> Tensor:
    """Frames (n, 3, H, W) as squares (n, 3, size, size), in their own type; not copied if they have that size."""
    if frames.shape[-2:] == (size, size):
        return frames
    return functional.interpolate(frames, size=(size, size), mode="bilinear", antialias=True)


def resize_crops(crops: Tensor, size: int) -> Tensor:
    """uint8 crops (n, H, W, 3) as uint8 squares (n, size, size, 3), rounded to the nearest grey level."""
    if crops.shape[1:3] == (size, size):
        return crops
    return torch.cat([_resized(part, size) for part in crops.split(CROPS_AT_ONCE)])


def _resized(crops: Tensor, size: int) -> Tensor:
    frames = resize_frames(crops.permute(0, 3, 1, 2).to(torch.float32), size)
    return frames.round_().clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
