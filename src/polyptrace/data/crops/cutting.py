"""Cuts crops into a store: every image is decoded once, in threads.

The decoders release the GIL, so threads scale like processes. Each thread writes its crops directly to their rows.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock

import numpy as np
import torch
from torch import Tensor

from polyptrace.config import Crops
from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.device import one_thread, usable_cores
from polyptrace.data.boxes import Boxes, crop_regions
from polyptrace.data.crops import nvjpeg
from polyptrace.data.crops.images import ImageError, ImageRequest, container, files_hash, read_images
from polyptrace.data.crops.regions import cut_crop, scale_regions, shrink_factor
from polyptrace.data.crops.store import BadImage, CropFile, JobLog, create_store, finished_jobs

IMAGES_PER_JOB = 8  # few, so that all threads end at about the same time
UNKNOWN_SIZE = (0, 0)  # image_width and image_height of a box that states none


@dataclass
class _BoxesOfImage:
    """Rows of the boxes in one image, and the image sizes that they state."""

    rows: list[int] = field(default_factory=list)
    sizes: set[tuple[int, int]] = field(default_factory=set)


@dataclass(frozen=True)
class _Task:
    """What all jobs of a store have in common."""

    store: CropFile
    boxes: Boxes
    regions: Ints  # (n, 4), valid for boxes whose image size is known
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
    device, size = nvjpeg.find_gpu() if settings.decoding == "nvjpeg" else None, settings.size
    images_per_job = nvjpeg.IMAGES_PER_BATCH if device else IMAGES_PER_JOB
    threads = nvjpeg.thread_count(settings.workers) if device else settings.workers or usable_cores()
    log = path.with_suffix(".log")
    header = create_store(path, log, (len(boxes), size, size, 3))
    jobs = _jobs(boxes, images_per_job)
    # a job whose files were replaced has another name, so it runs again
    names = [f"{n} of {images_per_job} {files_hash(boxes.file[rows], root)[:16]}" for n, rows in enumerate(jobs)]
    logged = finished_jobs(log)
    for name, rows in zip(names, jobs, strict=True):
        if name in logged:
            advance(len({(boxes.file[row], int(boxes.frame_index[row])) for row in rows}))
    cancelled, lock = Event(), Lock()

    def image_done() -> None:
        with lock:
            advance(1)

    def check_cancelled() -> None:
        if cancelled.is_set():
            raise CancelledError

    with (
        path.open("r+b", buffering=0) as file,
        JobLog.open(log, file.fileno()) as finished,
        one_thread(),
        _thread_pool(threads, cancelled) as pool,
    ):
        store = CropFile(file.fileno(), header, size)
        regions = crop_regions(boxes.xywh, boxes.image_width, boxes.image_height, settings.scale)
        task = _Task(store, boxes, regions, root, settings, device, image_done, check_cancelled)
        bad: list[BadImage] = []
        pending = [(name, rows) for name, rows in zip(names, jobs, strict=True) if name not in logged]
        running = {pool.submit(_run_job, task, rows): name for name, rows in pending}
        for future in as_completed(running):
            failed = future.result()
            bad += failed
            if not failed:  # a job with a bad image runs again next time: the image may have been restored
                finished.add(running[future])
    return sorted(bad, key=lambda b: b.row)


@contextmanager
def _thread_pool(count: int, cancelled: Event) -> Iterator[ThreadPoolExecutor]:
    """Threads; after an error or Ctrl-C, pending jobs are dropped and running ones stop at their next image."""
    pool = ThreadPoolExecutor(count)
    try:
        yield pool
    finally:
        cancelled.set()
        pool.shutdown(cancel_futures=True)


def _jobs(boxes: Boxes, images_per_job: int) -> list[Ints]:
    """Rows of each job: the boxes of one archive, of one video, or of a few neighbouring image files."""
    if not len(boxes):
        return []
    keys = np.array([container(file) for file in boxes.file], object)
    order = np.lexsort((boxes.frame_index, boxes.file.astype(str), keys.astype(str)))
    new_picture = np.ones(len(order), bool)
    new_picture[1:] = (boxes.file[order][1:] != boxes.file[order][:-1]) | (np.diff(boxes.frame_index[order]) != 0)
    chunk = np.where(keys[order] == "", (np.cumsum(new_picture) - 1) // images_per_job, 0)
    cut = np.flatnonzero((keys[order][1:] != keys[order][:-1]) | (np.diff(chunk) != 0)) + 1
    return np.split(order, cut)


def _run_job(task: _Task, rows: Ints) -> list[BadImage]:
    """Cuts the crops of one job into the store; returns the rows that failed."""
    bad: list[BadImage] = []
    pictures = _read(task, rows, bad)
    if task.device:
        with nvjpeg.own_stream(task.device):
            for batch_rows, crops in nvjpeg.cut_batches(pictures, task.store.size, task.device):
                task.store.write_rows(batch_rows, crops)
        return bad
    for picture, picture_rows, regions in pictures:
        for row, region in zip(picture_rows, regions, strict=True):
            task.store.write(row, cut_crop(picture, region, task.store.size))
    return bad


def _read(task: _Task, rows: Ints, bad: list[BadImage]) -> Iterator[tuple[Tensor, list[int], Ints | Floats]]:
    """Yields the images of a job, each with its box rows and their regions; appends failed rows to `bad`."""
    boxes, groups = task.boxes, dict[tuple[str, int], _BoxesOfImage]()
    for row in rows.tolist():
        group = groups.setdefault((boxes.file[row], int(boxes.frame_index[row])), _BoxesOfImage())
        group.rows.append(row)
        group.sizes.add((int(boxes.image_width[row]), int(boxes.image_height[row])))
    requests = [ImageRequest(*key, _shrink(task, group), max(group.sizes)) for key, group in groups.items()]
    if task.device:
        results = nvjpeg.read_images(task.root, requests, task.device, task.check_cancelled, task.settings.border)
    else:
        results = read_images(task.root, requests, task.check_cancelled, task.settings.border)
    for request, picture in results:
        task.image_done()
        group = groups[request.file, request.frame]
        regions = picture if isinstance(picture, ImageError) else _fit(task, group, picture, request.shrink)
        if isinstance(picture, ImageError) or isinstance(regions, ImageError):
            bad += [BadImage(row, str(regions)) for row in group.rows]
        else:
            yield picture, group.rows, regions


def _shrink(task: _Task, group: _BoxesOfImage) -> int:
    """By what factor an image may be decoded smaller; 1 where its size is not known beforehand."""
    if task.settings.decoding != "scaled" or UNKNOWN_SIZE in group.sizes:
        return 1
    return shrink_factor(task.regions[group.rows], task.store.size)


def _fit(task: _Task, group: _BoxesOfImage, picture: Tensor, shrink: int) -> Ints | Floats | ImageError:
    """Regions of an image's boxes in its pixels, or an error if it does not have the stated size."""
    size = (picture.shape[2], picture.shape[1])
    if group.sizes == {size}:
        return task.regions[group.rows]
    others = group.sizes - {size}
    if others == {UNKNOWN_SIZE}:
        width, height = (np.full(len(group.rows), side) for side in size)
        return crop_regions(task.boxes.xywh[group.rows], width, height, task.settings.scale)
    stated = max(others)
    if len(group.sizes) > 1 or size != tuple(-(-side // shrink) for side in stated):
        return ImageError(
            f"image is {size[0]} x {size[1]}, its boxes say {stated[0]} x {stated[1]} -> correct the annotation"
        )
    return scale_regions(task.regions[group.rows], stated, size)
