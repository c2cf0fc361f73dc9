"""REAL-Colon's millions of XML files: parsed by several processes, video by video, and kept as far as they got."""

import ctypes
import json
import signal
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import nullcontext, suppress
from hashlib import sha256
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from polyptrace.core.console import Bar, progress
from polyptrace.core.device import usable_cores
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file
from polyptrace.data.crops import read_all
from polyptrace.data.sources.names import inside
from polyptrace.data.sources.small_files import names_in, read_small_files
from polyptrace.data.sources.voc import nothing_in, parse_voc

PR_SET_PDEATHSIG = 1  # as in prctl.h
_FILES_PER_TASK = 4096
_ALONE = 2 * _FILES_PER_TASK  # up to so many files a second process does not pay for its start


class _Task(NamedTuple):
    """Annotation files that one process reads at once."""

    video: str
    place: Path  # folder or archive
    names: tuple[str, ...]  # files in the folder; () for an archive
    last: bool  # of this video


class FrameBox(NamedTuple):
    """One box as its XML file has it."""

    name: str  # of the frame, SSS-VVV_t
    frame_index: int
    xywh: tuple[float, float, float, float]
    width: int
    height: int
    polyp: str
    line: int


def read_frames(places: Mapping[str, Path], workers: int, cache: Path | None) -> Iterator[tuple[str, list[FrameBox]]]:
    """Each video with its rows, in order; what the cache holds is not read again."""
    kept = {video: cache / f"{video}-{_fingerprint(place)}.jsonl" for video, place in places.items()} if cache else {}
    new = [video for video in places if video not in kept or not kept[video].exists()]
    names = {video: names_in(places[video], ".xml") for video in new if places[video].is_dir()}
    total = sum(map(len, names.values()))
    tasks = (task for video in new for task in _tasks(video, places[video], names.get(video, [])))
    archives = len(new) - len(names)
    known = None if archives and total else archives + total  # how many files an archive holds is not known
    with progress("reading annotations", known, "archives" if archives and not total else "files") as bar:
        alone = total <= _ALONE and archives < 2
        results = _run(tasks, 1 if alone else workers or usable_cores(), bar)
        for video in places:
            if video not in new:
                yield video, _load(kept[video])
                continue
            rows: list[FrameBox] = []
            for task, some in results:
                rows += some
                if task.last:
                    break
            rows.sort(key=lambda row: row.frame_index)
            if cache:
                _save(kept[video], rows)
            yield video, rows


def _tasks(video: str, place: Path, names: list[str]) -> Iterator[_Task]:
    """A video's files in portions; an archive, or a folder without files, is one."""
    for first in range(0, max(1, len(names)), _FILES_PER_TASK):
        following = first + _FILES_PER_TASK
        yield _Task(video, place, tuple(names[first:following]), following >= len(names))


def _run(tasks: Iterable[_Task], workers: int, bar: Bar) -> Iterator[tuple[_Task, list[FrameBox]]]:
    """Results in the order of the tasks, a few of which are under way in other processes."""
    method = "fork" if "fork" in get_all_start_methods() else "spawn"  # children only read files
    pool = ProcessPoolExecutor(workers, get_context(method), _end_with_parent) if workers > 1 else None
    with pool or nullcontext():
        running: deque[tuple[_Task, Future[list[FrameBox]] | None]] = deque()
        for task in tasks:
            running.append((task, _submit(pool, task) if pool else None))
            if len(running) > (2 * workers if pool else 0):
                yield _finished(*running.popleft(), bar)
        while running:
            yield _finished(*running.popleft(), bar)


def _end_with_parent() -> None:
    """Has the kernel end this process when its parent was killed, which cannot tell it any more."""
    with suppress(OSError, AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _submit(pool: ProcessPoolExecutor, task: _Task) -> Future[list[FrameBox]]:
    """Starts a task; that others of our threads may hold locks while we fork does not matter to children that read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return pool.submit(_read, task)


def _finished(task: _Task, future: Future[list[FrameBox]] | None, bar: Bar) -> tuple[_Task, list[FrameBox]]:
    rows = future.result() if future else _read(task)
    bar.advance(max(1, len(task.names)))
    return task, rows


def _read(task: _Task) -> list[FrameBox]:
    contents = read_small_files(task.place, task.names) if task.place.is_dir() else read_all(task.place, ".xml")
    rows: list[FrameBox] = []
    folder = f"{task.place}/"
    for name, content in contents:
        if nothing_in(content):
            continue
        frame = parse_voc(content, xml := f"{folder}{name}")
        if not frame.boxes:
            continue
        stem = name.rpartition("/")[2].removesuffix(".xml")
        if frame.filename != f"{stem}.jpg":
            _check_picture(frame.filename, stem, xml)
        digits = stem.removeprefix(f"{task.video}_")
        if not (digits.isdigit() and digits.isascii() and len(digits) <= 9) or len(digits) == len(stem):
            raise UserError(f"{xml}: is not a frame of video {task.video} -> frames are {task.video}_0.xml, …")
        index = int(digits)
        for box in frame.boxes:
            polyp = box.tags.get("unique_id", "")
            if not polyp:
                raise UserError(f"{xml}:{box.line}: object has no unique_id -> name the lesion, {task.video}_1, …")
            rows.append(FrameBox(stem, index, box.xywh, frame.width, frame.height, polyp, box.line))
    return rows


def _check_picture(filename: str, stem: str, xml: str) -> None:
    """The picture that a file names, if any, is the one of its own frame."""
    if filename and PurePosixPath(inside(filename, xml)).stem != stem:
        raise UserError(f"{xml}: names another picture, {filename[:80]!r} -> put <filename> right")


def _fingerprint(place: Path) -> str:
    """Changes when a folder gains or loses files, or an archive is another one."""
    status = place.stat()
    said = f"{place.resolve()} {status.st_mtime_ns} {0 if place.is_dir() else status.st_size}"
    return sha256(said.encode()).hexdigest()[:16]


def _save(path: Path, rows: list[FrameBox]) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def _load(path: Path) -> list[FrameBox]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [FrameBox(name, frame, tuple(box), *rest) for name, frame, box, *rest in rows]
