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

import numpy as np
import torch
from torch import Tensor

from polyptrace.config import Crops
from polyptrace.core import codec
from polyptrace.core.arrays import Ints
from polyptrace.core.device import torch_threads, usable_cores
from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes, crop_regions
from polyptrace.data.crops.images import Problem, container, file_states, read_images
from polyptrace.data.crops.resize import cut_crop
from polyptrace.data.crops.store import Failures, UnfinishedCrops, count_images
from polyptrace.data.crops.videos import FramePosition

IMAGES_PER_JOB = 8  # few, so that all threads end at about the same time
IMAGES_PER_BATCH = 64  # of a job on a GPU
GPU_THREADS = 4  # nvJPEG decodes one batch at a time; the other threads read, cut and write meanwhile
MAX_GPU_THREADS = 16  # each takes a CUDA stream, of which torch has 32
UNKNOWN_SIZE = (0, 0)  # image_width and image_height of a box that states none
Image = tuple[str, int]  # file and frame
Cuttable = tuple[Tensor, list[int], Ints]  # an image (3, H, W), its box rows and their regions
_idle_streams: dict[torch.device, list[torch.cuda.Stream]] = {}


@dataclass(frozen=True)
class _Task:
    """What all jobs of a store have in common."""

    crops: UnfinishedCrops
    boxes: Boxes
    rows: dict[Image, list[int]]  # box rows of each image
    root: Path
    settings: Crops
    device: torch.device | None  # GPU for nvJPEG
    advance: Callable[[int], object]  # called with `lock`
    lock: Lock
    cancelled: Event


def fill_store(
    path: Path,
    boxes: Boxes,
    root: Path,
    settings: Crops,
    advance: Callable[[int], object] = lambda _: None,
    skip: Callable[[int], object] = lambda _: None,
) -> Failures:
    """Writes the crop of every box to the store `path`, resuming an interrupted run; returns the rows that failed.

    `skip(n)` is called with the images that an interrupted run has finished, `advance(n)` after every n others, never
    concurrently.
    """
    device = find_gpu() if settings.decoding == "nvjpeg" else None
    threads = settings.workers or usable_cores()
    if device:
        threads = min(settings.workers, MAX_GPU_THREADS) or min(usable_cores(), GPU_THREADS)
    cancelled, pool = Event(), ThreadPoolExecutor(threads)
    with UnfinishedCrops.open(path, file_states(boxes.file, root), settings.size) as crops, torch_threads(1):
        rows: dict[Image, list[int]] = {}
        for row in np.flatnonzero(~crops.finished).tolist():
            rows.setdefault((boxes.file[row], int(boxes.frame_index[row])), []).append(row)
        skip(count_images(boxes) - len(rows))
        task = _Task(crops, boxes, rows, root, settings, device, advance, Lock(), cancelled)
        try:
            jobs = _jobs(rows, IMAGES_PER_BATCH if device else IMAGES_PER_JOB)
            running = [pool.submit(_run_job, task, images) for images in jobs]
            failures = {row: reason for done in as_completed(running) for row, reason in done.result().items()}
        finally:  # after an error or Ctrl-C, pending jobs are dropped, and running ones stop at their next image
            cancelled.set()
            pool.shutdown(cancel_futures=True)
    return dict(sorted(failures.items()))


def _jobs(images: Iterable[Image], images_per_job: int) -> list[list[Image]]:
    """The images of each job: those of one archive, of one video, or a few neighbouring image files."""
    jobs: dict[str, list[Image]] = {}
    for image in sorted(images):
        jobs.setdefault(container(image[0]), []).append(image)
    files = jobs.pop("", [])
    parts = [files[first : first + images_per_job] for first in range(0, len(files), images_per_job)]
    return parts + list(jobs.values())


def _run_job(task: _Task, images: list[Image]) -> Failures:
    """Cuts the crops of one job into the store; returns the rows that failed."""
    failures: Failures = {}
    size = task.settings.size
    device = None if container(images[0][0]) else task.device
    pictures = _read(task, images, failures, device)
    if device is None:
        for picture, rows, regions in pictures:
            crops = torch.stack([cut_crop(picture, region, size) for region in regions])
            task.crops.write(np.array(rows), crops.numpy())
        return failures
    with _own_stream(device):
        batch = list(pictures)
        all_rows = np.array([row for _, rows, _ in batch for row in rows], np.int64)
        cut = [cut_crop(picture.to(device), region, size) for picture, _, regions in batch for region in regions]
        crops = torch.stack(cut).cpu() if cut else torch.empty(0)
        del batch, cut  # GPU memory, which is not needed for writing
    task.crops.write(all_rows, crops.numpy())
    return failures


@contextmanager
def _own_stream(device: torch.device) -> Iterator[None]:
    """A CUDA stream for this thread, so that its kernels and copies overlap with decoding in another thread.

    nvJPEG writes to memory of the current stream without waiting for that stream, so the stream must be empty before
    decoding. Streams are reused, since torch keeps the freed memory of each.
    """
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


def _read(task: _Task, images: list[Image], failures: Failures, device: torch.device | None) -> Iterator[Cuttable]:
    """Yields the images of a job; adds failed rows to `failures`."""
    first_row = task.rows[images[0]][0]
    reached = task.crops.position(first_row)
    start = FramePosition(*reached) if reached and reached[0] <= images[0][1] else None

    def on_image(position: FramePosition | None) -> None:
        if task.cancelled.is_set():
            raise CancelledError
        if position is not None and position.pts is not None:
            task.crops.reached(first_row, position.frame, position.pts)

    fields = task.crops.fields if task.settings.border == "blank" else None
    for file, frame, picture in read_images(task.root, images, on_image, fields, start, device):
        with task.lock:
            task.advance(1)
        rows = task.rows[file, frame]
        fitted = picture if isinstance(picture, Problem) else _fit(task, rows, picture)
        if isinstance(fitted, Problem):
            failures |= dict.fromkeys(rows, fitted)
        else:
            yield fitted


def _fit(task: _Task, rows: list[int], picture: Tensor) -> Cuttable | Problem:
    """An image with the regions of its boxes, or why it does not fit: it does not have the stated size."""
    _, height, width = picture.shape
    boxes = task.boxes
    stated = set(zip(boxes.image_width[rows].tolist(), boxes.image_height[rows].tolist(), strict=True))
    if others := stated - {(width, height), UNKNOWN_SIZE}:
        w, h = max(others)
        return f"image is {width} x {height}, its boxes say {w} x {h} -> correct the annotation"
    widths, heights = np.full(len(rows), width), np.full(len(rows), height)
    return picture, rows, crop_regions(boxes.xywh[rows], widths, heights, task.settings.scale)


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
