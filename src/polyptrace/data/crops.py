"""Crops: the box scaled by 5 about its centre, cut out of its picture and resized to a square.

The scaled box is clamped to the picture and x, y, w, h are truncated to whole pixels, as in the authors' release. The
resize is bilinear with antialiasing, in 8-bit arithmetic: about 0.3 grey levels from the float path on average.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional

from polyptrace.data.boxes import Floats, Ints

#: Torch resizes the columns of all rows first. From a region that is so many times as high as its crop, it pays to
#: have it make fewer rows first; and where the region is so much of its picture's width, of whole rows, without a copy.
ROWS_FIRST, WHOLE_ROWS = 1.5, 0.7


def crop_regions(xywh: Floats, image_width: Ints, image_height: Ints, scale: float = 5.0) -> Ints:
    """Regions (n, 4) x, y, w, h in whole pixels of pictures of these sizes; each at least one pixel wide and high."""
    size = np.stack([image_width, image_height], 1)
    centre = xywh[:, :2] + xywh[:, 2:] / 2
    low = np.clip(centre - xywh[:, 2:] * scale / 2, 0, size)
    high = np.clip(centre + xywh[:, 2:] * scale / 2, 0, size)
    origin = np.minimum(np.trunc(low), size - 1)
    extent = np.maximum(np.trunc(high - low), 1)
    return np.concatenate([origin, extent], 1).astype(np.int64)


def cut_crop(picture: Tensor, region: NDArray[np.integer | np.floating], size: int) -> Tensor:
    """The region of a uint8 picture (3, H, W), as a uint8 square (size, size, 3); it may begin inside a pixel."""
    x, y, w, h = region.tolist()
    if region.dtype.kind == "f":
        image = Image.fromarray(picture.permute(1, 2, 0).numpy())
        return torch.from_numpy(np.array(image.resize((size, size), Image.Resampling.BILINEAR, (x, y, x + w, y + h))))
    rows = picture.permute(1, 2, 0)[y : y + h]  # (h, W, 3), as decoders give it
    if h < ROWS_FIRST * size:
        cut = rows[:, x : x + w]
    elif w < WHOLE_ROWS * rows.shape[1]:
        cut = _resize(rows[:, x : x + w], size, w)
    else:
        cut = _resize(rows, size, rows.shape[1])[:, x : x + w]
    return _resize(cut, size, size)


def _resize(pixels: Tensor, rows: int, columns: int) -> Tensor:
    """Pixels (h, w, 3) as (rows, columns, 3), bilinear with antialiasing."""
    # torch has its fast way for channels that come last in memory; it goes by the strides, that of the batch as well
    frame = pixels[None].permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
    resized = functional.interpolate(frame, size=(rows, columns), mode="bilinear", antialias=True)
    return resized[0].permute(1, 2, 0)


def shrink_for(regions: NDArray[np.integer], size: int) -> int:
    """The largest of 1, 2, 4, 8 by which a picture may shrink while every region keeps `size` pixels a side."""
    room = int(regions[:, 2:].min()) // size
    return next(factor for factor in (8, 4, 2, 1) if factor <= max(room, 1))


def as_shrunk(regions: Ints, full: tuple[int, int], shrunk: tuple[int, int]) -> Floats:
    """Regions of a full picture (width, height), in the pixels of the same picture decoded smaller."""
    ratio: Floats = np.tile(np.array(shrunk) / np.array(full), 2)
    return regions * ratio
