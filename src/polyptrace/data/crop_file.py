"""The file of the crop store, and the log of the jobs that are done with: both survive a kill and a power cut."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Self, TextIO

import numpy as np
from torch import Tensor

from polyptrace.data.boxes import Ints

SECONDS_TO_LOSE = 2.0  # of work, where a run is killed


@dataclass(frozen=True)
class CropFile:
    """The file of the store, written crop by crop: a full disk is then an error, where a memory map would crash."""

    descriptor: int
    begin: int  # bytes before the first crop
    size: int

    def write(self, row: int, crops: Tensor) -> None:
        """Puts crops (..., size, size, 3) in their places, from a row on."""
        content = memoryview(crops.contiguous().numpy().data).cast("B")
        at = self.begin + row * 3 * self.size**2
        while content:
            written = os.pwrite(self.descriptor, content, at)
            content, at = content[written:], at + written

    def write_several(self, rows: Ints, crops: Tensor) -> None:
        """Puts crops (n, size, size, 3) in their rows, those of rows that follow each other at once."""
        cuts = (np.flatnonzero(np.diff(rows) != 1) + 1).tolist()
        for begin, end in pairwise([0, *cuts, len(rows)]):
            self.write(int(rows[begin]), crops[begin:end])


@dataclass
class JobLog:
    """Names finished jobs, some at a time, once the disk has their crops: a power cut would else leave black ones."""

    file: TextIO
    store: int  # its descriptor
    pictures: int  # of a job
    since: float = 0.0
    finished: list[int] = field(default_factory=list)

    @classmethod
    @contextmanager
    def open(cls, path: Path, store: int, pictures: int) -> Iterator[Self]:
        """The log of a store, which is told of all finished jobs at the end, also where the work is stopped."""
        with path.open("a", encoding="utf-8") as file:
            log = cls(file, store, pictures, monotonic())
            try:
                yield log
            finally:
                log.write()

    def add(self, job: int) -> None:
        """A job whose crops have been written."""
        self.finished.append(job)
        if monotonic() - self.since > SECONDS_TO_LOSE:
            self.write()

    def write(self) -> None:
        """Waits for the disk, then names the jobs."""
        os.fsync(self.store)
        self.file.writelines(f"{job} of {self.pictures}\n" for job in self.finished)
        self.file.flush()
        self.finished, self.since = [], monotonic()


def make_room(path: Path, log: Path, shape: tuple[int, ...]) -> int:
    """A store of that shape, unless one has been begun; returns how many bytes come before the first crop."""
    if not (path.exists() and log.exists()):  # the log comes after the store: without it the store may be cut off
        log.unlink(missing_ok=True)
        np.lib.format.open_memmap(path, "w+", np.uint8, shape).flush()
    begin: int = np.lib.format.open_memmap(path, "r").offset
    return begin


def finished_jobs(log: Path, pictures: int) -> set[int]:
    """The jobs of so many pictures that an earlier run finished: those of another size are others.

    A last line that was cut off is taken away, or the next would continue it.
    """
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    if lines and not lines[-1].endswith("\n"):
        log.write_text("".join(lines[:-1]), encoding="utf-8")
        lines.pop()
    return {int(line.split()[0]) for line in lines if line.split()[1:] == ["of", str(pictures)]}
