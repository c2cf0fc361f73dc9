"""Crops cut many at a time, for a GPU: a few launches for a whole batch of pictures.

A bilinear resize with antialiasing is linear in the rows and in the columns of a region, so the crops of a batch are
two products of matrices: `down @ picture @ across.T`, for each colour. A row of `down` is the triangle of one row of
the crop, `max(0, 1 - |distance| / max(scale, 1))` over the pixels of the region, divided by its sum; outside the region
it is 0. On a GPU the products are in half precision: pixels are exact in it, and its 11 bits keep weights and sums
within a quarter of a grey level.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from polyptrace.data.boxes import Ints

BYTES_AT_ONCE = 1 << 28  # of pictures as the products take them
ALIGNMENT = 8  # halves: the fast kernels want rows that begin at multiples of 16 bytes
_idle: dict[torch.device, list[torch.cuda.Stream]] = {}  # taken and given back by several threads


def cut_crops(
    pictures: Sequence[Tensor], picture_of: Ints, regions: Ints, size: int, dtype: torch.dtype | None = None
) -> Iterator[tuple[Ints, Tensor]]:
    """The crops (n, size, size, 3) of regions (n, 4) of uint8 pictures (3, H, W), some at a time, with their places.

    Region i is x, y, w, h in `pictures[picture_of[i]]`. Pictures of one size go together.
    """
    precision = dtype or (torch.float16 if pictures[0].is_cuda else torch.float32)
    shapes = np.array([picture.shape[1:] for picture in pictures])[picture_of]  # (n, 2)
    for height, width in np.unique(shapes, axis=0).tolist():
        alike = np.flatnonzero((shapes == (height, width)).all(1))
        at_once = max(1, BYTES_AT_ONCE // (3 * height * width * precision.itemsize))
        for first in range(0, len(alike), at_once):
            places = alike[first : first + at_once]
            stack = torch.stack([pictures[picture] for picture in picture_of[places].tolist()])
            yield places, _resize(stack, regions[places], size, precision)


def triangles(begin: Tensor, extent: Tensor, length: int, size: int) -> Tensor:
    """Weights (n, size, length) of the pixels of a side for those of its crop; the region is `extent` from `begin`."""
    pixel = (
        torch.arange(length, device=begin.device) + 0.5 - begin[:, None, None]
    )  # (n, 1, length) from the region's edge
    scale = (extent / size)[:, None, None]
    centre = (torch.arange(size, device=begin.device)[:, None] + 0.5) * scale  # (n, size, 1)
    weights = (1 - (pixel - centre).abs() / scale.clamp(min=1)).clamp_(min=0)
    weights *= (pixel > 0) & (pixel < extent[:, None, None])
    return weights / weights.sum(2, keepdim=True)


def fetch(crops: Tensor) -> Tensor:
    """Crops in host memory; waits until everything that this thread has asked of the GPU is done."""
    if not crops.is_cuda:
        return crops
    host = torch.empty(crops.shape, dtype=crops.dtype, pin_memory=True)
    host.copy_(crops, non_blocking=True)
    torch.cuda.current_stream(crops.device).synchronize()
    return host


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """A queue of the GPU for this thread alone: its products and copies then run while another thread decodes.

    nvJPEG writes into memory of the current stream without waiting for that stream, so before decoding nothing may be
    left in it: `fetch` sees to that. Streams are used again, since torch keeps the freed memory of each for itself.
    """
    if device.type == "cpu":
        yield
        return
    idle = _idle.setdefault(device, [])
    try:
        stream = idle.pop()
    except IndexError:
        stream = torch.cuda.Stream(device)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        stream.synchronize()
        idle.append(stream)


def _resize(stack: Tensor, regions: Ints, size: int, dtype: torch.dtype) -> Tensor:
    """The regions of equally large pictures (n, 3, H, W), one each, as squares (n, size, size, 3)."""
    n, _, height, width = stack.shape
    whole = [-(-side // ALIGNMENT) * ALIGNMENT for side in (height, width)]
    padded = torch.zeros((n, 3, *whole), dtype=dtype, device=stack.device)
    padded[:, :, :height, :width] = stack
    x, y, w, h = torch.from_numpy(regions).to(stack.device, torch.float32).T
    down = triangles(y, h, whole[0], size).to(dtype)[:, None]  # (n, 1, size, H)
    across = triangles(x, w, whole[1], size).to(dtype)[:, None]  # (n, 1, size, W)
    squares = down @ padded @ across.mT  # (n, 3, size, size)
    return squares.round_().clamp_(max=255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
