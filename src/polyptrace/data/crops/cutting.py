"""Cuts crops into a store: every image is decoded once, in threads.

The decoders release the GIL, so threads scale like processes. Each thread writes its crops directly to their rows. With
`--crops.decoding nvjpeg`, image files are decoded, cut and resized on a GPU, a batch at a time; archives and videos are
not.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from polyptrace.config import Crops
from polyptrace.core import codec
from polyptrace.core.arrays import Ints
from polyptrace.core.device import torch_threads, usable_cores
from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes, crop_regions
from polyptrace.data.crops.images import ImageProblem, container, file_states, read_images
from polyptrace.data.crops.regions import cut_crop, cut_crops
from polyptrace.data.crops.store import BadImage, UnfinishedCrops, count_images
from polyptrace.data.crops.videos import FramePosition

IMAGES_PER_JOB = 8  # few, so that all threads end at about the same time
IMAGES_PER_BATCH = 64  # of a job on a GPU
GPU_THREADS = 4  # nvJPEG decodes one batch at a time; the other threads read, cut and write meanwhile
MAX_GPU_THREADS = 16  # each takes a CUDA stream, of which torch has 32
UNKNOWN_SIZE = (0, 0)  # image_width and image_height of a box that states none
Image = tuple[str, int]  # file and frame
_idle_streams: dict[torch.device, list[torch.cuda.Stream]] = {}


class _Cuttable(NamedTuple):
    """An image (3, H, W) with its box rows and their regions."""

    picture: Tensor
    rows: list[int]
    regions: Ints


@dataclass(frozen=True)
class _Task:
    """What all jobs of a store have in common."""

    crops: UnfinishedCrops
    boxes: Boxes
    rows: dict[Image, list[int]]  # box rows of each image
    root: Path
    settings: Crops
    device: torch.device | None  # GPU for nvJPEG
    image_done: Callable[[], None]
    check_cancelled: Callable[[], None]


def fill_store(
    path: Path,
    boxes: Boxes,
    root: Path,
    settings: Crops,
    advance: Callable[[int], object] = int,
) -> list[BadImage]:
    """Writes the crop of every box to the store `path`, resuming an interrupted run; returns the rows that failed.

    `advance(n)` is called after every n images, never concurrently.
    """
    device = find_gpu() if settings.decoding == "nvjpeg" else None
    images_per_job = IMAGES_PER_BATCH if device else IMAGES_PER_JOB
    threads = settings.workers or usable_cores()
    if device:
        threads = min(settings.workers, MAX_GPU_THREADS) or min(usable_cores(), GPU_THREADS)
    cancelled, lock = Event(), Lock()

    def image_done() -> None:
        with lock:
            advance(1)

    def check_cancelled() -> None:
        if cancelled.is_set():
            raise CancelledError

    pool = ThreadPoolExecutor(threads)
    with UnfinishedCrops.open(path, file_states(boxes.file, root), settings.size) as crops, torch_threads(1):
        rows: dict[Image, list[int]] = {}
        for row in np.flatnonzero(~crops.finished).tolist():
            rows.setdefault((boxes.file[row], int(boxes.frame_index[row])), []).append(row)
        if crops.finished.any():
            advance(count_images(boxes) - len(rows))
        task = _Task(crops, boxes, rows, root, settings, device, image_done, check_cancelled)
        try:
            running = [pool.submit(_run_job, task, images) for images in _jobs(rows, images_per_job)]
            bad = [one for future in as_completed(running) for one in future.result()]
        finally:  # after an error or Ctrl-C, pending jobs are dropped, and running ones stop at their next image
            cancelled.set()
            pool.shutdown(cancel_futures=True)
    return sorted(bad, key=lambda one: one.row)


def _jobs(images: Iterable[Image], images_per_job: int) -> list[list[Image]]:
    """The images of each job: those of one archive, of one video, or a few neighbouring image files."""
    jobs: dict[str, list[Image]] = {}
    for image in sorted(images):
        jobs.setdefault(container(image[0]), []).append(image)
    files = jobs.pop("", [])
    parts = [files[first : first + images_per_job] for first in range(0, len(files), images_per_job)]
    return parts + list(jobs.values())


def _run_job(task: _Task, images: list[Image]) -> list[BadImage]:
    """Cuts the crops of one job into the store; returns the rows that failed."""
    bad: list[BadImage] = []
    device = None if container(images[0][0]) else task.device
    pictures = _read(task, images, bad, device)
    if device:
        with _own_stream(device):
            _cut_together(task, list(pictures), device)
        return bad
    for picture, picture_rows, regions in pictures:
        crops = torch.stack([cut_crop(picture, region, task.settings.size) for region in regions])
        task.crops.write(np.array(picture_rows), crops)
    return bad


def _read(task: _Task, images: list[Image], bad: list[BadImage], device: torch.device | None) -> Iterator[_Cuttable]:
    """Yields the images of a job; appends failed rows to `bad`."""
    first_row = task.rows[images[0]][0]
    reached = task.crops.position(first_row)
    start = FramePosition(*reached) if reached and reached[0] <= images[0][1] else None

    def on_frame(position: FramePosition) -> None:
        task.check_cancelled()
        if position.pts is not None:
            task.crops.reached(first_row, position.frame, position.pts)

    results = read_images(
        task.root,
        images,
        task.check_cancelled,
        border=task.settings.border,
        fields=task.crops.fields,
        start=start,
        on_frame=on_frame,
        device=device,
    )
    for image in results:
        task.image_done()
        own, picture = task.rows[image.file, image.frame], image.pixels
        fitted = picture if isinstance(picture, ImageProblem) else _fit(task, own, picture)
        if isinstance(fitted, ImageProblem):
            bad += [BadImage(row, fitted.reason) for row in own]
        else:
            yield fitted


def _fit(task: _Task, rows: list[int], picture: Tensor) -> _Cuttable | ImageProblem:
    """An image with the regions of its boxes, or why it does not fit: it does not have the stated size."""
    _, height, width = picture.shape
    boxes = task.boxes
    stated = set(zip(boxes.image_width[rows].tolist(), boxes.image_height[rows].tolist(), strict=True))
    if others := stated - {(width, height), UNKNOWN_SIZE}:
        w, h = max(others)
        return ImageProblem(f"image is {width} x {height}, its boxes say {w} x {h} -> correct the annotation")
    widths, heights = np.full(len(rows), width), np.full(len(rows), height)
    return _Cuttable(picture, rows, crop_regions(boxes.xywh[rows], widths, heights, task.settings.scale))


def find_gpu() -> torch.device:
    """The current GPU; an error if nvJPEG does not work there, since torchcodec would silently use the CPU."""
    if not torch.cuda.is_available():
        raise UserError("--crops.decoding nvjpeg: torch sees no GPU here -> use full")
    device = torch.device("cuda", torch.cuda.current_device())
    try:
        codec.decode_jpegs([codec.encode_jpeg(torch.zeros((3, 64, 64), dtype=torch.uint8))], device)
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"--crops.decoding nvjpeg: does not work here ({reason}) -> use full") from None
    return device


def _cut_together(task: _Task, images: list[_Cuttable], device: torch.device) -> None:
    """Cuts the crops of images on a GPU; those that nvJPEG refused are still in host memory."""
    if not images:
        return
    pictures = [picture for image in images for picture in [image.picture.to(device)] * len(image.rows)]
    regions = np.concatenate([image.regions for image in images])
    crops = cut_crops(pictures, regions, task.settings.size)
    task.crops.write(np.concatenate([image.rows for image in images]), to_host(crops))


def to_host(crops: Tensor) -> Tensor:
    """Crops in host memory; waits for all work that this thread has queued on the GPU."""
    if not crops.is_cuda:
        return crops
    host = torch.empty(crops.shape, dtype=crops.dtype, pin_memory=True)
    host.copy_(crops, non_blocking=True)
    torch.cuda.current_stream(crops.device).synchronize()
    return host


@contextmanager
def _own_stream(device: torch.device) -> Iterator[None]:
    """A CUDA stream for this thread, so that its kernels and copies overlap with decoding in another thread.

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
