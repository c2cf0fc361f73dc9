"""The crop store: one memory-mapped uint8 array (n, S, S, 3), filled by decoding each used picture once.

Pictures are decoded in threads (the decoders release Python's lock, so threads scale like processes and start at once),
and each thread writes its crops straight to their place. A log beside it names the jobs whose crops are on the disk, so
that a run that was killed, or a machine that lost its power, goes on where it stopped.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from polyptrace.core.codec import ALL, Need, decode_jpegs, encode_jpeg
from polyptrace.core.device import one_thread, usable_cores
from polyptrace.core.errors import UserError
from polyptrace.data.batches import cut_crops, fetch, own_stream
from polyptrace.data.boxes import Boxes, Floats, Ints
from polyptrace.data.crop_file import CropFile, JobLog, finished_jobs, make_room
from polyptrace.data.crops import as_shrunk, crop_regions, cut_crop, shrink_for
from polyptrace.data.pictures import PictureError, Wanted, container, read_pictures
from polyptrace.data.threads import Threads, reuse_freed_memory

PICTURES_PER_JOB = 8  # few, so that the threads end at about the same time; but each job takes 2 KB
PICTURES_PER_BATCH = 64  # a job on a GPU, decoded together
GPU_THREADS = 4  # nvJPEG takes one batch at a time: the others read, cut and write meanwhile
MOST_GPU_THREADS = 16  # torch has 32 queues of a GPU to give
UNKNOWN = (0, 0)  # width and height that a box does not state


#: A picture, the rows of its boxes, and their regions.
_Found = tuple[Tensor, list[int], Ints | Floats]


@dataclass(frozen=True)
class BadPicture:
    """A box row whose crop could not be made, and why."""

    row: int
    reason: str


@dataclass
class _OfPicture:
    """The boxes of one picture: their rows, the sizes of it that they state, and where the last region ends."""

    rows: list[int] = field(default_factory=list)
    sizes: set[tuple[int, int]] = field(default_factory=set)
    bottom: int = 0

    def add(self, row: int, size: tuple[int, int], bottom: int) -> None:
        """One more box."""
        self.rows.append(row)
        self.sizes.add(size)
        self.bottom = max(self.bottom, bottom)


@dataclass(frozen=True)
class _Task:
    """What all jobs of a store have in common."""

    store: CropFile
    boxes: Boxes
    regions: Ints  # (n, 4) of the boxes, where the sizes of their pictures are known
    bottom: Ints  # (n,) the row at which each region ends
    root: Path
    scale: float
    smaller: bool  # pictures may be decoded smaller
    device: torch.device | None  # the GPU that decodes and cuts
    moved: Callable[[], None]  # told of every picture
    go_on: Callable[[], None]  # raises where the work is to stop


def fill_store(
    path: Path,
    boxes: Boxes,
    root: Path,
    *,
    scale: float = 5.0,
    size: int = 232,
    decoding: str = "full",
    workers: int = 0,
    advance: Callable[[int], object] = int,
) -> list[BadPicture]:
    """Writes the crop of every box to `path`, or goes on doing so; returns the rows that could not be cut.

    `advance(n)` is told of every n pictures, one call at a time: a video or an archive of an hour is one job.
    """
    device = _gpu() if decoding == "nvjpeg" else None
    reuse_freed_memory()
    log = path.with_suffix(".log")
    begin = make_room(path, log, (len(boxes), size, size, 3))
    pictures = PICTURES_PER_BATCH if device else PICTURES_PER_JOB
    jobs = _jobs(boxes, pictures)
    done = finished_jobs(log, pictures)
    for number in done:
        advance(_pictures(boxes, jobs[number]))
    threads = Threads(advance)
    with (
        path.open("r+b", buffering=0) as file,
        JobLog.open(log, file.fileno(), pictures) as finished,
        one_thread(),
        threads.pool(_threads(workers, device)) as pool,
    ):
        store = CropFile(file.fileno(), begin, size)
        regions = crop_regions(boxes.xywh, boxes.image_width, boxes.image_height, scale)
        bottom = regions[:, 1] + regions[:, 3]
        smaller = decoding == "scaled"
        task = _Task(store, boxes, regions, bottom, root, scale, smaller, device, threads.moved, threads.go_on)
        bad: list[BadPicture] = []
        waiting = {pool.submit(_cut, task, rows): number for number, rows in enumerate(jobs) if number not in done}
        for future in as_completed(waiting):
            found = future.result()
            bad += found
            if not found:  # a job with a bad picture is done again next time: the picture may have been restored
                finished.add(waiting[future])
    return sorted(bad, key=lambda b: b.row)


def _gpu() -> torch.device:
    """The GPU; an error where nvJPEG does not work there: each batch would be decoded on the CPU, and nobody told."""
    if not torch.cuda.is_available():
        raise UserError("--crops.decoding nvjpeg: torch sees no GPU here -> use full or scaled")
    device = torch.device("cuda", torch.cuda.current_device())
    try:
        decode_jpegs([encode_jpeg(torch.zeros((3, 64, 64), dtype=torch.uint8))], device)
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"--crops.decoding nvjpeg: does not work here ({reason}) -> use full or scaled") from None
    return device


def _threads(workers: int, device: torch.device | None) -> int:
    """How many threads decode: one per core if not told, fewer where a GPU does the work."""
    if device is None:
        return workers or usable_cores()
    return min(workers, MOST_GPU_THREADS) or min(usable_cores(), GPU_THREADS)


def _jobs(boxes: Boxes, pictures: int) -> list[Ints]:
    """Rows by what is opened together: one archive, one video, or some pictures that lie side by side."""
    if not len(boxes):
        return []
    keys = np.array([container(file) for file in boxes.file], object)
    order = np.lexsort((boxes.frame_index, boxes.file.astype(str), keys.astype(str)))
    new_file = np.ones(len(order), bool)
    new_file[1:] = (boxes.file[order][1:] != boxes.file[order][:-1]) | (np.diff(boxes.frame_index[order]) != 0)
    chunk = np.where(keys[order] == "", (np.cumsum(new_file) - 1) // pictures, 0)
    cut = np.flatnonzero((keys[order][1:] != keys[order][:-1]) | (np.diff(chunk) != 0)) + 1
    return np.split(order, cut)


def _pictures(boxes: Boxes, rows: Ints) -> int:
    return len({(boxes.file[row], int(boxes.frame_index[row])) for row in rows})


def _cut(task: _Task, rows: Ints) -> list[BadPicture]:
    """Cuts the crops of one job into the store; returns those that could not be cut."""
    bad: list[BadPicture] = []
    if task.device:
        with own_stream(task.device):
            _cut_together(task, _found(task, rows, bad), task.device)
        return bad
    for picture, of_picture, regions in _found(task, rows, bad):
        for row, region in zip(of_picture, regions, strict=True):
            task.store.write(row, cut_crop(picture, region, task.store.size))
    return bad


def _cut_together(task: _Task, found: Iterator[_Found], device: torch.device) -> None:
    """Cuts the crops of one job on a GPU, the pictures of a batch at a time."""
    there = ((picture.to(device), rows, regions) for picture, rows, regions in found)
    while batch := list(islice(there, PICTURES_PER_BATCH)):
        pictures = [picture for picture, _, _ in batch]
        picture_of = np.repeat(np.arange(len(batch)), [len(rows) for _, rows, _ in batch])
        of_batch = np.concatenate([rows for _, rows, _ in batch])
        regions = np.concatenate([regions for _, _, regions in batch])
        for some, crops in cut_crops(pictures, picture_of, regions, task.store.size):
            task.store.write_several(of_batch[some], fetch(crops))


def _found(task: _Task, rows: Ints, bad: list[BadPicture]) -> Iterator[_Found]:
    """The pictures of a job with the rows of their boxes and their regions; adds to `bad` what is wrong."""
    boxes, of_picture = task.boxes, dict[tuple[str, int], _OfPicture]()
    columns = (rows, boxes.frame_index[rows], boxes.image_width[rows], boxes.image_height[rows], task.bottom[rows])
    for file, (row, frame, *size, bottom) in zip(boxes.file[rows], np.stack(columns, 1).tolist(), strict=True):
        of_picture.setdefault((file, frame), _OfPicture()).add(row, tuple(size), bottom)
    wanted = [Wanted(*key, _need(task, some), max(some.sizes)) for key, some in of_picture.items()]
    for asked, picture in read_pictures(task.root, wanted, task.device, task.go_on):
        task.moved()
        some = of_picture[asked.file, asked.frame]
        fitting = picture if isinstance(picture, PictureError) else _fit(task, some, picture, asked.need.shrink)
        if isinstance(picture, PictureError) or isinstance(fitting, PictureError):
            bad += [BadPicture(row, str(fitting)) for row in some.rows]
        else:
            yield picture, some.rows, fitting


def _need(task: _Task, some: _OfPicture) -> Need:
    """What the boxes of a picture need of it; all of it where its size is not known beforehand."""
    if UNKNOWN in some.sizes:
        return ALL
    if task.smaller and (shrink := shrink_for(task.regions[some.rows], task.store.size)) > 1:
        return Need(shrink)  # its regions begin inside pixels, and look beyond their last row
    return Need(rows=some.bottom)


def _fit(task: _Task, some: _OfPicture, picture: Tensor, shrink: int) -> Ints | Floats | PictureError:
    """The regions of a picture's boxes in its own pixels, or what is wrong with its size."""
    found = (picture.shape[2], picture.shape[1])
    if some.sizes == {found}:
        return task.regions[some.rows]
    others = some.sizes - {found}
    if others == {UNKNOWN}:
        width, height = (np.full(len(some.rows), side) for side in found)
        return crop_regions(task.boxes.xywh[some.rows], width, height, task.scale)
    stated = max(others)
    if len(some.sizes) > 1 or found != tuple(-(-side // shrink) for side in stated):
        return PictureError(
            f"picture is {found[0]} x {found[1]}, its boxes say {stated[0]} x {stated[1]} -> mend the annotation"
        )
    return as_shrunk(task.regions[some.rows], stated, found)
