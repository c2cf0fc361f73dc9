"""The crop store: one uint8 array (n, S, S, 3) in a file, and what makes an interrupted run resumable.

A log next to the file lists the jobs whose crops are on disk, so that a run that was killed, or a machine that lost
power, repeats only the others.
"""

import hashlib
import json
import os
import shutil
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Self, TextIO

import numpy as np

from polyptrace.config import Crops
from polyptrace.core.arrays import Ints, Pixels
from polyptrace.core.console import progress
from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.data.boxes import Boxes

if TYPE_CHECKING:
    from torch import Tensor

SECONDS_BETWEEN_SYNCS = 2.0  # the most work that a killed run loses
GATHERED = "gathered.npy"
CROPS_PER_BLOCK = 1024


@dataclass(frozen=True)
class BadImage:
    """A row of the box table whose crop could not be cut, and why."""

    row: int
    reason: str


#: Writes a crop store: `fill_store`, or a function with the same parameters.
Fill = Callable[..., list[BadImage]]


@dataclass(frozen=True)
class CropFile:
    """The open file of a store. It is not written through a memory map, which would crash on a full disk."""

    descriptor: int
    header: int  # bytes before the first crop
    size: int

    def write(self, row: int, crops: "Tensor") -> None:
        """Writes crops (..., size, size, 3) from a row on."""
        content = memoryview(crops.contiguous().numpy().data).cast("B")
        offset = self.header + row * 3 * self.size**2
        while content:
            written = os.pwrite(self.descriptor, content, offset)
            content, offset = content[written:], offset + written

    def write_rows(self, rows: Ints, crops: "Tensor") -> None:
        """Writes crops (n, size, size, 3) to their rows; consecutive rows are written at once."""
        cuts = (np.flatnonzero(np.diff(rows) != 1) + 1).tolist()
        for begin, end in pairwise([0, *cuts, len(rows)]):
            self.write(int(rows[begin]), crops[begin:end])


@dataclass
class JobLog:
    """The log of finished jobs. A job is logged after an fsync, so that a power cut cannot leave black crops."""

    file: TextIO
    store: int  # file descriptor
    last_sync: float = 0.0
    finished: list[str] = field(default_factory=list)

    @classmethod
    @contextmanager
    def open(cls, path: Path, store: int) -> Iterator[Self]:
        """The log of a store; jobs not yet logged are logged at the end, even after an exception."""
        with path.open("a", encoding="utf-8") as file:
            log = cls(file, store, monotonic())
            try:
                yield log
            finally:
                log.sync()

    def add(self, job: str) -> None:
        """Adds a job whose crops have been written."""
        self.finished.append(job)
        if monotonic() - self.last_sync > SECONDS_BETWEEN_SYNCS:
            self.sync()

    def sync(self) -> None:
        """Flushes the crops to disk, then logs their jobs."""
        os.fsync(self.store)
        self.file.writelines(log_line(job) for job in self.finished)
        self.file.flush()
        self.finished, self.last_sync = [], monotonic()


def create_store(path: Path, log: Path, shape: tuple[int, ...]) -> int:
    """Creates a store of this shape unless an interrupted run left one; returns the size of its header in bytes.

    A damaged store is created anew, with a warning.
    """
    exists = path.exists() and log.exists()  # the log is created after the store: without it the store is incomplete
    if exists and not _has_shape(path, shape):
        warnings.warn(f"{path}: damaged, so its crops are cut again", PolyptraceWarning, stacklevel=2)
        exists = False
    if not exists:
        log.unlink(missing_ok=True)
        np.lib.format.open_memmap(path, "w+", np.uint8, shape).flush()
    header: int = np.lib.format.open_memmap(path, "r").offset
    return header


def open_store(path: Path, advice: str) -> Pixels:
    """The crops (n, S, S, 3) of a store, memory-mapped; an error if its header and size do not fit."""
    try:
        crops = np.lib.format.open_memmap(path, "r")
    except Exception as error:  # a damaged header can raise almost anything
        raise UserError(f"{path}: not a readable crop store ({error}) -> {advice}") from None
    square = crops.ndim == 4 and crops.shape[1:] == (crops.shape[1], crops.shape[1], 3)
    if crops.dtype != np.uint8 or not square or not crops.flags.c_contiguous:
        raise UserError(f"{path}: has {crops.dtype} {crops.shape}, not uint8 (n, S, S, 3) -> {advice}")
    if path.stat().st_size != crops.offset + crops.nbytes:
        raise UserError(f"{path}: its size does not fit its shape {crops.shape} -> {advice}")
    return crops


def _has_shape(path: Path, shape: tuple[int, ...]) -> bool:
    try:
        return open_store(path, "").shape == shape
    except UserError:
        return False


def log_line(job: str) -> str:
    """The line of a finished job, with a checksum: a damaged line must not mark another job as finished."""
    return f"{job} {zlib.crc32(job.encode()):08x}\n"


def finished_jobs(log: Path) -> set[str]:
    """The jobs that earlier runs have finished.

    An incomplete last line is removed; the next entry would otherwise continue it. Damaged lines are ignored, so that
    their jobs run again.
    """
    content = log.read_bytes() if log.exists() else b""
    complete = content[: content.rfind(b"\n") + 1]
    if complete != content:
        log.write_bytes(complete)
    lines = complete.decode("ascii", "replace").splitlines(True)
    return {job for line in lines if line == log_line(job := line.rpartition(" ")[0])}


class PartialStore:
    """The crop store of an unfinished dataset folder, cut in one or more rounds.

    The first round cuts the crops of all tracklets. If images are bad and their boxes are excluded, the tracks
    change and may need other crops: the next round cuts only those. Every round can be resumed.
    """

    def __init__(self, folder: Path, boxes: Boxes, root: Path, crops: Crops, fill: Fill) -> None:
        self._folder, self._boxes, self._root, self._crops, self._fill = folder, boxes, root, crops, fill
        self._rounds: list[Ints] = []  # box rows cut in each round

    def cut(self, rows: Ints) -> list[BadImage]:
        """Cuts the crops of those box rows that no round has cut yet; returns the rows with bad images."""
        new = np.setdiff1d(rows, np.concatenate([np.empty(0, np.int64), *self._rounds]))
        if not len(new):
            return []
        bad = self._fill_round(self._round_folder(len(self._rounds)), self._boxes.take(new))
        self._rounds.append(new)
        return [BadImage(int(new[one.row]), one.reason) for one in bad]

    def finish(self, rows: Ints) -> None:
        """Leaves `crops.npy` with the crops of these box rows, in this order, and removes all temporary files."""
        complete = len(self._rounds) == 1 and len(self._rounds[0]) == len(rows)
        gathered = None if complete else self._gather(rows)
        (self._folder / "plan").unlink()  # from now on a new run must not resume this store
        if gathered:
            gathered.replace(self._folder / "crops.npy")
        (self._folder / "crops.log").unlink()
        (self._folder / GATHERED).unlink(missing_ok=True)  # left by a killed run that had more rounds
        for folder in self._folder.glob("round-*"):
            shutil.rmtree(folder)

    def _round_folder(self, number: int) -> Path:
        return self._folder / f"round-{number}" if number else self._folder

    def _fill_round(self, folder: Path, boxes: Boxes) -> list[BadImage]:
        """Fills the store in a folder, resuming an earlier run with the same fingerprint."""
        fingerprint = _fingerprint(boxes, self._root, self._crops)
        plan = folder / "plan"
        if folder.exists() and (not plan.exists() or plan.read_bytes() != fingerprint.encode()):
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if not plan.exists():  # written once: rewriting it on a full disk would truncate it and lose the crops
            plan.write_text(fingerprint, encoding="utf-8")
        pictures = len(set(zip(boxes.file, boxes.frame_index.tolist(), strict=True)))
        with progress("cutting crops", pictures, "images") as bar:
            return self._fill(folder / "crops.npy", boxes, self._root, self._crops, bar.advance)

    def _gather(self, rows: Ints) -> Path:
        """Writes the crops of these box rows from all rounds into one file."""
        path = self._folder / GATHERED
        stores = [np.load(self._round_folder(number) / "crops.npy", "r") for number in range(len(self._rounds))]
        shape = (len(rows), *stores[0].shape[1:])
        with path.open("wb") as file:  # not a memory map, which would crash on a full disk
            np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
            for first in range(0, len(rows), CROPS_PER_BLOCK):
                chunk = rows[first : first + CROPS_PER_BLOCK]
                block = np.empty((len(chunk), *shape[1:]), np.uint8)
                for cut, store in zip(self._rounds, stores, strict=True):
                    inside = np.isin(chunk, cut)
                    block[inside] = store[np.searchsorted(cut, chunk[inside])]
                file.write(block.tobytes())
        return path


def _fingerprint(boxes: Boxes, root: Path, crops: Crops) -> str:
    """Identifies the content of a store; the number of workers does not change it."""
    digest = hashlib.sha256()
    for column in (boxes.xywh, boxes.frame_index, boxes.image_width, boxes.image_height):
        digest.update(np.ascontiguousarray(column).tobytes())
    settings = {key: value for key, value in asdict(crops).items() if key != "workers"}
    digest.update(json.dumps([str(root.resolve()), settings, boxes.file.tolist()]).encode())
    return digest.hexdigest()
