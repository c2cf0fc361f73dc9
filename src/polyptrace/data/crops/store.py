"""The crop store: one uint8 array (n, S, S, 3) in a file, and what makes an interrupted run resumable.

While `crops.npy` is filled, `crops.done` marks every crop that is on disk, and `crops.positions` says how far each
video was read, so that a run that was killed, or a machine that lost power, repeats only the last seconds of work.
`crops.fields` has the endoscope's field of each video.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from polyptrace.config import Crops
from polyptrace.core.arrays import Bools, Ints, Pixels
from polyptrace.core.console import progress
from polyptrace.core.errors import UserError, warn
from polyptrace.core.files import read_json, remove, write_json
from polyptrace.data.boxes import Boxes

SECONDS_BETWEEN_SYNCS = 2.0  # the most work that a killed run loses
MARK = 8  # bytes, from the state of the file that a crop was cut from and from its row; 0 if it is not cut yet
ROW_FACTOR = 0x9E3779B97F4A7C15  # odd, so that marks of different rows differ: damage cannot turn one into another


#: Rows of the box table whose crops could not be cut, and why.
Failures = dict[int, str]
#: Writes a crop store: `fill_store`, or a function with the same parameters.
Fill = Callable[..., Failures]


class CropStore(Protocol):
    """Crops (n, S, S, 3) uint8 that are read by rows: an array, a memory map, or those of joined datasets."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, rows: Any, /) -> Pixels: ...
    def take(self, rows: Ints, axis: Literal[0], out: Pixels, mode: Literal["clip"], /) -> Pixels:
        """Writes the crops of rows (n,) to `out`, as `numpy.take` does."""


class UnfinishedCrops:
    """The open files of a store that is being filled. Several threads may write at once.

    A crop is marked after an fsync of the store, so that a power cut cannot leave black crops. Nothing is written
    through a memory map, which would crash on a full disk.
    """

    def __init__(self, path: Path, store: int, marks: int, states: NDArray[np.uint64]) -> None:
        self._store, self._marks = store, marks  # file descriptors
        self._states = states
        self._mark_of_row = states + np.arange(len(states), dtype=np.uint64) * np.uint64(ROW_FACTOR)
        self._header: int = np.lib.format.open_memmap(path, "r").offset
        #: Rows (n,) that earlier runs have cut; those of replaced files do not count.
        self.finished: Bools = np.frombuffer(os.pread(marks, MARK * len(states), 0), np.uint64) == self._mark_of_row
        self._written: list[int] = []  # rows of crops without a mark
        self._positions_file = path.with_suffix(".positions")
        self._positions = _read_positions(self._positions_file)
        self._last_sync, self._syncing = monotonic(), Lock()
        self.fields = path.with_suffix(".fields")  # folder of the endoscope's fields that were found; see `field_mask`

    @classmethod
    @contextmanager
    def open(cls, path: Path, states: NDArray[np.uint64], size: int) -> Iterator[Self]:
        """A store for crops of files in these states (n,), see `file_states`; everything is on disk at the end.

        A damaged store is created anew, with a warning.
        """
        shape, marks = (len(states), size, size, 3), path.with_suffix(".done")
        exists = path.exists() and marks.exists()  # the marks are created last: without them the store is incomplete
        if exists and not (_has_shape(path, shape) and marks.stat().st_size == MARK * len(states)):
            warn(f"{path}: damaged, so its crops are cut again")
            exists = False
        if not exists:
            marks.unlink(missing_ok=True)
            np.lib.format.open_memmap(path, "w+", np.uint8, shape).flush()
            marks.write_bytes(bytes(MARK * len(states)))
        with path.open("r+b", buffering=0) as store_file, marks.open("r+b", buffering=0) as marks_file:
            crops = cls(path, store_file.fileno(), marks_file.fileno(), states)
            try:
                yield crops
            finally:
                crops.sync()

    def write(self, rows: Ints, crops: Pixels) -> None:
        """Writes crops (n, size, size, 3) to their rows."""
        for row, crop in zip(rows.tolist(), np.ascontiguousarray(crops), strict=True):
            content, offset = memoryview(crop).cast("B"), self._header + row * crop.nbytes
            while content:
                written = os.pwrite(self._store, content, offset)
                content, offset = content[written:], offset + written
        self._written.extend(rows.tolist())
        self._sync_if_due()

    def reached(self, row: int, frame: int, pts: int) -> None:
        """Notes that all crops before this frame of the row's video have been written; `pts` is its time stamp."""
        self._positions[str(self._states[row])] = (frame, pts)
        self._sync_if_due()

    def position(self, row: int) -> tuple[int, int] | None:
        """Frame and time stamp that an earlier run has reached in the row's video."""
        return self._positions.get(str(self._states[row]))

    def _sync_if_due(self) -> None:
        if monotonic() - self._last_sync > SECONDS_BETWEEN_SYNCS and self._syncing.acquire(blocking=False):
            try:
                self.sync()
            finally:
                self._syncing.release()

    def sync(self) -> None:
        """Flushes the written crops to disk, then marks them and records the positions."""
        positions = dict(self._positions)  # first: the crops before a position have been written
        written = self._written[:]
        os.fsync(self._store)
        for row in written:
            os.pwrite(self._marks, self._mark_of_row[row].tobytes(), row * MARK)
        del self._written[: len(written)]
        if positions:
            write_json(self._positions_file, {"positions": positions, "checksum": _checksum(positions)})
        self._last_sync = monotonic()


def _read_positions(path: Path) -> dict[str, tuple[int, int]]:
    """Frame and time stamp by the state of each video; empty if the file is missing or damaged."""
    try:
        content = read_json(path)
        positions = {state: (int(frame), int(pts)) for state, (frame, pts) in content["positions"].items()}
        return positions if content["checksum"] == _checksum(positions) else {}
    except (UserError, AttributeError, KeyError, TypeError, ValueError):
        return {}


def _checksum(positions: dict[str, tuple[int, int]]) -> int:
    return zlib.crc32(json.dumps(positions, sort_keys=True).encode())


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


class PartialStore:
    """The crop store of an unfinished dataset folder, cut in one or more rounds.

    The first round cuts the crops of all tracklets. If images are bad and their boxes are excluded, the tracks
    change and may need other crops: the next round cuts only those. Every round has a file, named after its content,
    and can be resumed.
    """

    def __init__(self, folder: Path, boxes: Boxes, root: Path, crops: Crops, fill: Fill) -> None:
        self._folder, self._boxes, self._root, self._crops, self._fill = folder, boxes, root, crops, fill
        self._rounds: list[tuple[Path, Ints]] = []  # the file of each round, and the box rows in it

    def cut(self, rows: Ints) -> Failures:
        """Cuts the crops of those box rows that no round has cut yet; returns the rows with bad images."""
        new = np.setdiff1d(rows, np.concatenate([np.empty(0, np.int64), *(cut for _, cut in self._rounds)]))
        if not len(new):
            return {}
        boxes, number = self._boxes.take(new), len(self._rounds)
        path = self._folder / f"crops-{number}-{_fingerprint(boxes, self._root, self._crops)}.npy"
        self._folder.mkdir(parents=True, exist_ok=True)
        for other in self._folder.glob(f"crops-{number}-*"):
            if other.stem != path.stem:  # of other boxes or settings
                remove(other)
        with progress("cutting crops", count_images(boxes), "images") as bar:
            failures = self._fill(path, boxes, self._root, self._crops, bar.advance, bar.skip)
        self._rounds.append((path, new))
        return {int(new[row]): reason for row, reason in failures.items()}

    def finish(self, rows: Ints) -> None:
        """Leaves `crops.npy` with the crops of these box rows, in this order, and removes all temporary files."""
        path, cut = self._rounds[0]
        if len(self._rounds) > 1 or len(cut) != len(rows):
            path = self._folder / "crops-gathered.npy"
            write_store(path, (len(rows), self._crops.size, self._crops.size, 3), self._crops_of(rows))
        path.replace(self._folder / "crops.npy")
        for leftover in self._folder.glob("crops-*"):
            remove(leftover)

    def _crops_of(self, rows: Ints) -> Iterator[Pixels]:
        """The crops of these box rows, one by one."""
        crops: dict[int, Pixels] = {}
        for file, cut in self._rounds:
            crops |= zip(cut.tolist(), np.asarray(np.load(file, "r")), strict=True)  # views of the memory map
        return (crops[row] for row in rows.tolist())


def write_store(path: Path, shape: tuple[int, ...], blocks: Iterable[Pixels]) -> None:
    """Writes a store of this shape from consecutive blocks; not a memory map, which would crash on a full disk."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for block in blocks:
            file.write(block.data)
        file.flush()
        os.fsync(file.fileno())


def count_images(boxes: Boxes) -> int:
    """Number of different images of the boxes."""
    return len(set(zip(boxes.file, boxes.frame_index.tolist(), strict=True)))


def _fingerprint(boxes: Boxes, root: Path, crops: Crops) -> str:
    """Identifies the content of a store; the number of workers does not change it."""
    images = boxes.digest("xywh", "frame_index", "image_width", "image_height", "file")
    settings = {key: value for key, value in asdict(crops).items() if key != "workers"}
    return hashlib.sha256(json.dumps([images, str(root.resolve()), settings]).encode()).hexdigest()[:16]
