"""REAL-Colon: 60 procedures, one VOC XML for each of 2.76 million frames, as folders or as the downloaded archives.

`SSS-VVV_annotations/SSS-VVV_t.xml` (or `_annotation`, or `.tar.gz` of them), `SSS-VVV_frames/SSS-VVV_t.jpg` (or
`SSS-VVV_frames.tar.gz`), `video_info.csv`, `lesion_info.csv`. An object's `unique_id` is the polyp.

Several processes parse the files, video by video, and a cache keeps the videos that are complete.
"""

import ctypes
import json
import re
import signal
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from multiprocessing import get_all_start_methods, get_context
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from polyptrace.core.console import counted, progress
from polyptrace.core.device import usable_cores
from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.core.files import atomic_file
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops.images import first_file, read_all
from polyptrace.data.sources.labels import label_table, with_labels
from polyptrace.data.sources.paths import inside, names_in
from polyptrace.data.sources.reading import number, read_small_files, read_table
from polyptrace.data.sources.voc import parse_voc, warn_of_unlabelled
from polyptrace.data.splits import REAL_COLON

PR_SET_PDEATHSIG = 1  # from prctl.h
_ANNOTATIONS = re.compile(r"(?P<video>\d{3}-\d{3})_annotations?(?P<archive>\.tar\.gz|\.tgz|\.tar)?", re.ASCII)
_FRAMES = re.compile(r"(?P<video>\d{3}-\d{3})_frames(?P<archive>\.tar\.gz|\.tgz|\.tar)?", re.ASCII)
_FILES_PER_TASK = 4096
_ONE_PROCESS = 2 * _FILES_PER_TASK  # files; starting more processes does not pay off for fewer


class _Task(NamedTuple):
    """Annotation files that one process reads at once."""

    video: str
    source: Path  # folder or archive
    names: tuple[str, ...]  # files in the folder; () for an archive
    last: bool  # task of this video


class _FrameBox(NamedTuple):
    """One box as its XML file has it."""

    name: str  # of the frame, SSS-VVV_t
    frame_index: int
    xywh: tuple[float, float, float, float]
    width: int
    height: int
    polyp: str
    line: int


def read_realcolon(
    path: Path,
    *,
    split: str | None = None,
    histology: Mapping[str, str] | None = None,
    workers: int = 0,
    cache: Path | None = None,
) -> Boxes:
    """The boxes of REAL-Colon; `split` is `paper-train` (27 videos) or `paper-eval` (19).

    `workers` processes parse the files (0: one per core). `cache` is a folder that keeps the boxes of complete videos,
    so that an interrupted run resumes with the next video.
    """
    path = Path(path)
    annotations = _selected(_folders_and_archives(path, _ANNOTATIONS), split, path)
    frames = _folders_and_archives(path, _FRAMES)
    # Tables first: their errors should not wait for the XML files.
    lesion_rows = _rows(path / "lesion_info.csv", ("unique_object_id", "size [mm]", "histology_class"))
    lesions = label_table(lesion_rows, itemgetter("unique_object_id"), "size [mm]", "histology_class", histology or {})
    rates = _rates(path / "video_info.csv")
    tables = []
    for video, boxes in _read_videos(annotations, workers, cache):
        tables.append(_table(video, boxes, annotations[video], frames.get(video)))
        _warn_of_unlabelled(annotations[video], frames.get(video))
    table = Boxes.concatenate(tables)
    if not len(table):
        videos = counted(len(annotations), "video")
        raise UserError(f"{path}: no annotation of {videos} contains a box -> are the archives complete?")
    unlisted = sorted(set(table.polyp) - set(lesions)) if lesions else []
    if unlisted:
        message = f"{path}: lesions that lesion_info.csv does not list: {', '.join(unlisted)}"
        warnings.warn(message, PolyptraceWarning, stacklevel=2)
    fps = np.array([rates.get(video, np.nan) for video in table.video], np.float64)
    return with_labels(replace(table, fps=fps), lesions)


def _folders_and_archives(path: Path, pattern: re.Pattern[str]) -> dict[str, Path]:
    """Folder or archive of each video; an unpacked folder is preferred to its archive."""
    if not path.is_dir():
        raise UserError(f"{path}: no such folder -> give the folder with SSS-VVV_annotations and SSS-VVV_frames")
    sources: dict[str, Path] = {}
    for entry in sorted(path.iterdir()):
        name = pattern.fullmatch(entry.name)
        if name and (entry.is_dir() or (name["archive"] and entry.is_file() and name["video"] not in sources)):
            sources[name["video"]] = entry
    return sources


def _selected(sources: dict[str, Path], split: str | None, path: Path) -> dict[str, Path]:
    """The sources of a split's videos."""
    if not sources:
        raise UserError(f"{path}: no SSS-VVV_annotations folder or .tar.gz -> give the folder of REAL-Colon")
    if split is None:
        return sources
    if split not in REAL_COLON:
        raise UserError(f"--split {split}: not a split of REAL-Colon -> {', '.join(REAL_COLON)}")
    missing = [video for video in REAL_COLON[split] if video not in sources]
    if len(missing) == len(REAL_COLON[split]):
        raise UserError(f"{path}: has none of the videos of {split} -> it needs {', '.join(missing[:3])}, …")
    if missing:
        message = f"{path}: {split} lacks {counted(len(missing), 'video')}: {', '.join(missing)}"
        warnings.warn(message, PolyptraceWarning, stacklevel=3)
    return {video: source for video, source in sources.items() if video in REAL_COLON[split]}


def _table(video: str, boxes: list[_FrameBox], annotations: Path, frames: Path | None) -> Boxes:
    if frames is None or frames.is_dir():
        folder = f"{frames.name if frames else f'{video}_frames'}/"
    else:
        inner = PurePosixPath(first_file(frames)).parent
        folder = f"{frames.name}::{'' if str(inner) == '.' else f'{inner}/'}"
    return Boxes.of(
        dataset="realcolon",
        video=video,
        frame_index=[box.frame_index for box in boxes],
        xywh=[box.xywh for box in boxes],
        file=[f"{folder}{box.name}.jpg" for box in boxes],
        image_width=[box.width for box in boxes],
        image_height=[box.height for box in boxes],
        polyp=[box.polyp for box in boxes],
        source=[f"{annotations.name}/{box.name}.xml" for box in boxes],
        line=[box.line for box in boxes],
    )


def _warn_of_unlabelled(annotations: Path, frames: Path | None) -> None:
    if frames and frames.is_dir() and annotations.is_dir():
        annotated = {name[:-4] for name in names_in(annotations, ".xml")}
        warn_of_unlabelled(frames, sum(name[:-4] not in annotated for name in names_in(frames, ".jpg")))


def _rates(path: Path) -> dict[str, float]:
    """Frame rate of each video."""
    rows = _rows(path, ("unique_video_name", "fps"))
    return {row["unique_video_name"]: number(row["fps"], f"{where}: fps") for row, where in rows}


def _rows(path: Path, needed: tuple[str, ...]) -> list[tuple[dict[str, str], str]]:
    """Rows of one of the dataset's tables; without the table a warning."""
    if path.exists():
        return read_table(path, needed)
    message = f"{path}: no such file; its {', '.join(needed[1:])} stay unknown"
    warnings.warn(message, PolyptraceWarning, stacklevel=4)
    return []


def _read_videos(
    sources: Mapping[str, Path], workers: int, cache: Path | None
) -> Iterator[tuple[str, list[_FrameBox]]]:
    """Each video with its boxes, in order; videos in the cache are not parsed again."""
    kept = (
        {video: cache / f"{video}-{_fingerprint(source)}.jsonl" for video, source in sources.items()} if cache else {}
    )
    new = [video for video in sources if video not in kept or not kept[video].exists()]
    names = {video: names_in(sources[video], ".xml") for video in new if sources[video].is_dir()}
    total = sum(map(len, names.values()))
    archives = len(new) - len(names)
    known = None if archives and total else archives + total  # the number of files in an archive is not known
    tasks = [task for video in new for task in _tasks(video, sources[video], names.get(video, []))]
    with progress("reading annotations", known, "archives" if archives and not total else "files") as bar:
        one_process = total <= _ONE_PROCESS and archives < 2
        results = _run(tasks, 1 if one_process else workers or usable_cores())
        for video in sources:
            if video not in new:
                yield video, _load(kept[video])
                continue
            boxes: list[_FrameBox] = []
            for task, some in results:
                boxes += some
                bar.advance(max(1, len(task.names)))
                if task.last:
                    break
            boxes.sort(key=lambda box: box.frame_index)
            if cache:
                _save(kept[video], boxes)
            yield video, boxes


def _tasks(video: str, source: Path, names: list[str]) -> Iterator[_Task]:
    """A video's files in portions; an archive, or a folder without files, is one task."""
    for first in range(0, max(1, len(names)), _FILES_PER_TASK):
        following = first + _FILES_PER_TASK
        yield _Task(video, source, tuple(names[first:following]), following >= len(names))


def _run(tasks: list[_Task], workers: int) -> Iterator[tuple[_Task, list[_FrameBox]]]:
    """The boxes of each task, in order."""
    if workers == 1:
        yield from ((task, _read(task)) for task in tasks)
        return
    method = "fork" if "fork" in get_all_start_methods() else "spawn"
    with ProcessPoolExecutor(workers, get_context(method), _end_with_parent) as pool:
        with warnings.catch_warnings():  # about forking with threads; children that only read files take no locks
            warnings.simplefilter("ignore", DeprecationWarning)
            results = pool.map(_read, tasks)
        yield from zip(tasks, results, strict=True)


def _end_with_parent() -> None:
    """Lets the kernel end this process if its parent is killed."""
    with suppress(OSError, AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _read(task: _Task) -> list[_FrameBox]:
    contents = read_small_files(task.source, task.names) if task.source.is_dir() else read_all(task.source, ".xml")
    boxes: list[_FrameBox] = []
    for name, content in contents:
        stem = name.rpartition("/")[2].removesuffix(".xml")
        frame = parse_voc(content, xml := f"{task.source}/{name}") if stem[0] != "." else None  # ._ files of macOS
        if not frame or not frame.boxes:
            continue
        if frame.filename and PurePosixPath(inside(frame.filename, xml)).stem != stem:
            raise UserError(f"{xml}: names another picture, {frame.filename[:80]!r} -> correct <filename>")
        digits = stem.removeprefix(f"{task.video}_")
        if not (digits.isdigit() and digits.isascii() and len(digits) <= 9) or len(digits) == len(stem):
            raise UserError(f"{xml}: is not a frame of video {task.video} -> frames are {task.video}_0.xml, …")
        for box in frame.boxes:
            polyp = box.tags.get("unique_id", "")
            if not polyp:
                raise UserError(f"{xml}:{box.line}: object has no unique_id -> name the lesion, {task.video}_1, …")
            boxes.append(_FrameBox(stem, int(digits), box.xywh, frame.width, frame.height, polyp, box.line))
    return boxes


def _fingerprint(source: Path) -> str:
    """Changes if a folder gains or loses files, or if an archive is replaced."""
    status = source.stat()
    state = f"{source.resolve()} {status.st_mtime_ns} {0 if source.is_dir() else status.st_size}"
    return sha256(state.encode()).hexdigest()[:16]


def _save(path: Path, boxes: list[_FrameBox]) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text("".join(f"{json.dumps(box)}\n" for box in boxes), encoding="utf-8")


def _load(path: Path) -> list[_FrameBox]:
    boxes = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [_FrameBox(name, frame, tuple(box), *rest) for name, frame, box, *rest in boxes]
