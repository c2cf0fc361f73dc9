"""REAL-Colon: 60 procedures, one VOC XML for each of 2.76 million frames, as folders or as the downloaded archives.

`SSS-VVV_annotations/SSS-VVV_t.xml` (or `_annotation`, or `.tar.gz` of them), `SSS-VVV_frames/SSS-VVV_t.jpg` (or
`SSS-VVV_frames.tar.gz`), `video_info.csv`, `lesion_info.csv`. An object's `unique_id` is the polyp.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from polyptrace.core.console import counted, progress
from polyptrace.core.errors import UserError, warn
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops.images import first_file, read_all
from polyptrace.data.sources.box_labels import BoxRow, label_table, with_labels
from polyptrace.data.sources.file_names import inside, names_in
from polyptrace.data.sources.reading import frame_rate, read_bytes, read_table
from polyptrace.data.sources.voc import parse_voc, warn_of_unlabelled

_ANNOTATIONS = re.compile(r"(?P<video>\d{3}-\d{3})_annotations?(?P<archive>\.tar\.gz|\.tgz|\.tar)?", re.ASCII)
_FRAME = re.compile(r"\d{1,9}", re.ASCII)
_FRAMES = re.compile(r"(?P<video>\d{3}-\d{3})_frames(?P<archive>\.tar\.gz|\.tgz|\.tar)?", re.ASCII)


_TRAIN = {
    "001": (1, 3, 4, 5, 6, 7),
    "002": (2, 3, 4, 5, 6, 7, 8),
    "003": (1, 2, 3, 4, 5, 6, 7, 8),
    "004": (1, 3, 4, 5, 6, 8),
}
_EVALUATION = {
    "001": (9, 10, 14),
    "002": (9, 10, 11, 14),
    "003": (9, 10, 12, 13, 14, 15),
    "004": (9, 11, 12, 13, 14, 15),
}
#: The paper's split: names of videos.
SPLITS = {
    name: tuple(f"{study}-{number:03d}" for study, numbers in studies.items() for number in numbers)
    for name, studies in (("paper-train", _TRAIN), ("paper-eval", _EVALUATION))
}


class _Video(NamedTuple):
    """The folder or archive of a video's annotations, and that of its frames."""

    name: str
    annotations: Path
    frames: Path | None


def read_realcolon(path: Path, *, split: str | None = None, histology: Mapping[str, str] | None = None) -> Boxes:
    """The boxes of REAL-Colon; `split` is `paper-train` (27 videos) or `paper-eval` (19)."""
    path = Path(path)
    annotations = _selected(_folders_and_archives(path, _ANNOTATIONS), split, path)
    frames = _folders_and_archives(path, _FRAMES)
    # Tables first: their errors should not wait for the XML files.
    lesion_rows = _rows(path / "lesion_info.csv", ("unique_object_id", "size [mm]", "histology_class"))
    lesions = label_table(lesion_rows, itemgetter("unique_object_id"), "size [mm]", "histology_class", histology or {})
    rate_rows = _rows(path / "video_info.csv", ("unique_video_name", "fps"))
    rates = {row["unique_video_name"]: frame_rate(row["fps"], f"{where}: fps") for row, where in rate_rows}
    videos = [_Video(name, source, frames.get(name)) for name, source in annotations.items()]
    tables = []
    with progress("reading annotations", len(videos), "videos") as bar:
        for video in videos:
            tables.append(_read(video))
            bar.advance()
    table = Boxes.concatenate(tables)
    for video in videos:
        _warn_of_unlabelled(video)
    if not len(table):
        raise UserError(f"{path}: no annotation contains a box -> are the archives complete?")
    unlisted = sorted(set(table.polyp) - set(lesions)) if lesions else []
    if unlisted:
        warn(f"{path}: lesions that lesion_info.csv does not list: {', '.join(unlisted)}")
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
    if split not in SPLITS:
        raise UserError(f"--split {split}: not a split of REAL-Colon -> {', '.join(SPLITS)}")
    missing = [video for video in SPLITS[split] if video not in sources]
    if len(missing) == len(SPLITS[split]):
        raise UserError(f"{path}: has none of the videos of {split} -> it needs {', '.join(missing[:3])}, …")
    if missing:
        warn(f"{path}: {split} lacks {counted(len(missing), 'video')}: {', '.join(missing)}")
    return {video: source for video, source in sources.items() if video in SPLITS[split]}


def _warn_of_unlabelled(video: _Video) -> None:
    if video.frames and video.frames.is_dir() and video.annotations.is_dir():
        annotated = {name[:-4] for name in names_in(video.annotations, ".xml")}
        warn_of_unlabelled(video.frames, sum(name[:-4] not in annotated for name in names_in(video.frames, ".jpg")))


def _rows(path: Path, needed: tuple[str, ...]) -> list[tuple[dict[str, str], str]]:
    """Rows of one of the dataset's tables; without the table a warning."""
    if path.exists():
        return read_table(path, needed)
    warn(f"{path}: no such file; its {', '.join(needed[1:])} stay unknown")
    return []


def _read(video: _Video) -> Boxes:
    """The boxes of one video."""
    source = video.annotations
    contents = read_all(source, ".xml")
    if source.is_dir():
        contents = ((name, read_bytes(source / name)) for name in names_in(source, ".xml"))
    folder = _frame_folder(video)
    rows: list[BoxRow] = []
    for name, content in contents:
        stem = name.rpartition("/")[2].removesuffix(".xml")
        if stem.startswith(".") or not stem:  # ._ files of macOS
            continue
        filename, boxes = parse_voc(content, xml := f"{source}/{name}")
        if not boxes:
            continue
        if filename and PurePosixPath(inside(filename, xml)).stem != stem:
            raise UserError(f"{xml}: names another image, {filename[:80]!r} -> correct <filename>")
        index = _FRAME.fullmatch(stem.removeprefix(f"{video.name}_"))
        if not index:
            raise UserError(f"{xml}: is not a frame of video {video.name} -> frames are {video.name}_0.xml, …")
        columns = {
            "dataset": "realcolon",
            "video": video.name,
            "frame_index": int(index[0]),
            "file": f"{folder}{stem}.jpg",
            "source": f"{source.name}/{stem}.xml",
        }
        for box in boxes:
            if not box.tags.get("unique_id"):
                where = f"{xml}:{box.columns['line']}"
                raise UserError(f"{where}: object has no unique_id -> name the lesion, {video.name}_1, …")
            rows.append(columns | box.columns | {"polyp": box.tags["unique_id"]})
    rows.sort(key=itemgetter("frame_index"))
    return Boxes.of_rows(rows)


def _frame_folder(video: _Video) -> str:
    """What the names of a video's frames begin with in the box table."""
    if video.frames is None or video.frames.is_dir():
        return f"{video.frames.name if video.frames else f'{video.name}_frames'}/"
    inner = PurePosixPath(first_file(video.frames)).parent
    return f"{video.frames.name}::{'' if str(inner) == '.' else f'{inner}/'}"
