"""Crops cut on a GPU (`--crops.decoding nvjpeg`): JPEGs decoded by nvJPEG, then resized a batch at a time.

A bilinear resize with antialiasing is linear in the rows and in the columns of a region, so the crops of a batch are
two matrix products per colour: `down @ image @ across.T`. A row of `down` is the triangle filter of one row of the
crop, `max(0, 1 - |distance| / max(scale, 1))` over the pixels of the region, divided by its sum; outside the region it
is 0. On a GPU the products are in half precision: pixels are exact in it, and its 11 bits keep weights and sums
within a quarter of a grey level.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from polyptrace.core import codec
from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.device import usable_cores
from polyptrace.core.errors import UserError
from polyptrace.data.crops import images as pictures
from polyptrace.data.crops.images import ImageError, ImageRequest, ImageResult

IMAGES_PER_BATCH = 64
GPU_THREADS = 4  # nvJPEG decodes one batch at a time; the other threads read, cut and write meanwhile
MAX_GPU_THREADS = 16  # each takes a CUDA stream, of which torch has 32
BYTES_AT_ONCE = 1 << 28  # of images in the precision of the products
ALIGNMENT = 8  # the fast half-precision kernels need rows that start at multiples of 16 bytes
_idle_streams: dict[torch.device, list[torch.cuda.Stream]] = {}


def find_gpu() -> torch.device:
    """The current GPU; an error if nvJPEG does not work there, since torchcodec would silently use the CPU."""
    if not torch.cuda.is_available():
        raise UserError("--crops.decoding nvjpeg: torch sees no GPU here -> use full or scaled")
    device = torch.device("cuda", torch.cuda.current_device())
    try:
        codec.decode_jpegs([codec.encode_jpeg(torch.zeros((3, 64, 64), dtype=torch.uint8))], device)
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"--crops.decoding nvjpeg: does not work here ({reason}) -> use full or scaled") from None
    return device


def thread_count(workers: int) -> int:
    """Number of threads that feed the GPU; `workers` is the setting, 0 if not given."""
    return min(workers, MAX_GPU_THREADS) or min(usable_cores(), GPU_THREADS)


def read_images(
    root: Path,
    requests: list[ImageRequest],
    device: torch.device,
    check_cancelled: Callable[[], None] = lambda: None,
    border: str = "keep",
) -> Iterator[ImageResult]:
    """As `images.read_images`, but the JPEGs among image files are decoded together and stay on the device."""
    if pictures.container(requests[0].file):
        yield from pictures.read_images(root, requests, check_cancelled, border)
        return
    contents = [pictures.read_content(pictures.path_below(root, request.file)) for request in requests]
    decoded = _decode_together(contents, device)
    for index, (request, content) in enumerate(zip(requests, contents, strict=True)):
        check_cancelled()
        yield (request, decoded[index]) if index in decoded else pictures.decode_request(content, request)


def _decode_together(contents: list[bytes | ImageError], device: torch.device) -> dict[int, Tensor]:
    """The JPEGs by index; empty if nvJPEG refuses one of them, so that each is decoded separately."""
    jpegs = {
        index: content
        for index, content in enumerate(contents)
        if isinstance(content, bytes) and content[:2] == pictures.JPEG_START and not pictures.is_truncated(content)
    }
    try:
        return dict(zip(jpegs, codec.decode_jpegs(list(jpegs.values()), device), strict=True)) if jpegs else {}
    except RuntimeError:
        if device.type == "cuda":  # nvJPEG may still be writing earlier images to memory that is now free
            torch.cuda.synchronize(device)
        return {}


def cut_batches(
    read: Iterable[tuple[Tensor, list[int], Ints | Floats]], size: int, device: torch.device
) -> Iterator[tuple[Ints, Tensor]]:
    """Yields (rows, crops (n, size, size, 3) in host memory) of images with their rows and regions."""
    on_device = ((picture.to(device), rows, regions) for picture, rows, regions in read)
    while batch := list(islice(on_device, IMAGES_PER_BATCH)):
        picture_of = np.repeat(np.arange(len(batch)), [len(rows) for _, rows, _ in batch])
        rows = np.concatenate([rows for _, rows, _ in batch])
        regions = np.concatenate([regions for _, _, regions in batch])
        for some, crops in cut_crops([picture for picture, _, _ in batch], picture_of, regions, size):
            yield rows[some], to_host(crops)


def cut_crops(
    images: Sequence[Tensor],
    picture_of: Ints,
    regions: Ints | Floats,
    size: int,
    dtype: torch.dtype | None = None,
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
            yield index, _resize(stack, regions[index], size, precision)


def triangle_weights(begin: Tensor, extent: Tensor, length: int, size: int) -> Tensor:
    """Weights (n, size, length) of a side's pixels in its crop's; the region is `extent` pixels from `begin` on."""
    pixel = torch.arange(length, device=begin.device) + 0.5 - begin[:, None, None]  # (n, 1, length) inside the region
    scale = (extent / size)[:, None, None]
    centre = (torch.arange(size, device=begin.device)[:, None] + 0.5) * scale  # (n, size, 1)
    weights = (1 - (pixel - centre).abs() / scale.clamp(min=1)).clamp_(min=0)
    weights *= (pixel > 0) & (pixel < extent[:, None, None])
    return weights / weights.sum(2, keepdim=True)


def to_host(crops: Tensor) -> Tensor:
    """Crops in host memory; waits for all work that this thread has queued on the GPU."""
    if not crops.is_cuda:
        return crops
    host = torch.empty(crops.shape, dtype=crops.dtype, pin_memory=True)
    host.copy_(crops, non_blocking=True)
    torch.cuda.current_stream(crops.device).synchronize()
    return host


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """A CUDA stream for this thread, so that its products and copies overlap with decoding in another thread.

    nvJPEG writes to memory of the current stream without waiting for that stream, so the stream must be empty before
    decoding, as it is after `to_host`. Streams are reused, since torch keeps the freed memory of each.
    """
    if device.type == "cpu":
        yield
        return
    idle = _idle_streams.setdefault(device, [])
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


def _resize(stack: Tensor, regions: Ints | Floats, size: int, dtype: torch.dtype) -> Tensor:
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
