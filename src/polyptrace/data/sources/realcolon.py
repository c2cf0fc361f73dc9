"""REAL-Colon: 60 procedures, one VOC XML for each of 2.76 million frames, as folders or as the archives downloaded.

`SSS-VVV_annotations/SSS-VVV_t.xml` (or `_annotation`, or `.tar.gz` of them), `SSS-VVV_frames/SSS-VVV_t.jpg` (or
`SSS-VVV_frames.tar.gz`), `video_info.csv`, `lesion_info.csv`. An object's `unique_id` is the polyp.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops import first_file
from polyptrace.data.sources.labels import histology_name, one_label_per_polyp, size_mm
from polyptrace.data.sources.realcolon_files import FrameBox, read_frames
from polyptrace.data.sources.small_files import names_in
from polyptrace.data.sources.text import number, read_table
from polyptrace.data.splits import REAL_COLON

_ANNOTATIONS = re.compile(r"(?P<video>\d{3}-\d{3})_annotations?(?P<archive>\.tar\.gz|\.tgz|\.tar)?", re.ASCII)
_FRAMES = re.compile(r"(?P<video>\d{3}-\d{3})_frames(?P<archive>\.tar\.gz|\.tgz|\.tar)?", re.ASCII)


def read_realcolon(
    path: Path,
    *,
    split: str | None = None,
    histology: Mapping[str, str] | None = None,
    workers: int = 0,
    cache: Path | None = None,
) -> Boxes:
    """The boxes of REAL-Colon; `split` is `paper-train` (27 videos) or `paper-eval` (19).

    `workers` processes parse (0: one per core). With `cache`, a folder, each video's boxes are kept there as soon as
    they are read, and a run that was killed goes on with the next video.
    """
    path = Path(path)
    places = _chosen(_places(path, _ANNOTATIONS), split, path)
    pictures = _places(path, _FRAMES)
    lesions = _lesions(path / "lesion_info.csv", histology or {})  # before the millions of files: what is wrong here
    rates = _rates(path / "video_info.csv")  # is said at once
    tables = []
    for video, rows in read_frames(places, workers, cache):
        tables.append(_table(video, rows, places[video], pictures.get(video)))
        _say_unannotated(places[video], pictures.get(video))
    table = Boxes.concatenate(tables)
    if not len(table):
        raise UserError(
            f"{path}: no annotation of {counted(len(places), 'video')} holds a box -> are the archives complete?"
        )
    table = _with_labels(table, lesions, rates, path)
    one_label_per_polyp(table)
    return table


def _places(path: Path, pattern: re.Pattern[str]) -> dict[str, Path]:
    """Folder or archive of each video; an unpacked folder comes before its archive."""
    if not path.is_dir():
        raise UserError(f"{path}: no such folder -> give the folder with SSS-VVV_annotations and SSS-VVV_frames")
    found: dict[str, Path] = {}
    for entry in sorted(path.iterdir()):
        name = pattern.fullmatch(entry.name)
        if name and (entry.is_dir() or (name["archive"] and entry.is_file() and name["video"] not in found)):
            found[name["video"]] = entry
    return found


def _chosen(places: dict[str, Path], split: str | None, path: Path) -> dict[str, Path]:
    if not places:
        raise UserError(f"{path}: no SSS-VVV_annotations folder or .tar.gz in it -> give the folder of REAL-Colon")
    if split is None:
        return places
    if split not in REAL_COLON:
        raise UserError(f"--split {split}: not a split of REAL-Colon -> {', '.join(REAL_COLON)}")
    missing = [video for video in REAL_COLON[split] if video not in places]
    if len(missing) == len(REAL_COLON[split]):
        raise UserError(f"{path}: none of the videos of {split} is there -> it needs {', '.join(missing[:3])}, …")
    if missing:
        warnings.warn(f"{path}: {split} lacks {counted(len(missing), 'video')}: {', '.join(missing)}", stacklevel=3)
    return {video: place for video, place in places.items() if video in REAL_COLON[split]}


def _table(video: str, rows: list[FrameBox], place: Path, frames: Path | None) -> Boxes:
    if frames is None or frames.is_dir():
        folder = f"{frames.name if frames else f'{video}_frames'}/"
    else:
        inner = PurePosixPath(first_file(frames)).parent
        folder = f"{frames.name}::{'' if str(inner) == '.' else f'{inner}/'}"
    return Boxes.of(
        dataset="realcolon",
        video=video,
        frame_index=[row.frame_index for row in rows],
        xywh=[row.xywh for row in rows],
        file=[f"{folder}{row.name}.jpg" for row in rows],
        image_width=[row.width for row in rows],
        image_height=[row.height for row in rows],
        polyp=[row.polyp for row in rows],
        source=[f"{place.name}/{row.name}.xml" for row in rows],
        line=[row.line for row in rows],
    )


def _say_unannotated(place: Path, frames: Path | None) -> None:
    """Both sides unpacked: pictures without an annotation are said."""
    if frames is None or not (frames.is_dir() and place.is_dir()):
        return
    annotated = {name[:-4] for name in names_in(place, ".xml")}
    lacking = sum(name[:-4] not in annotated for name in names_in(frames, ".jpg"))
    if lacking:
        warnings.warn(
            f"{frames}: {counted(lacking, 'picture')} without an XML file: frames without a box", stacklevel=3
        )


def _lesions(path: Path, histology: Mapping[str, str]) -> dict[str, tuple[float, str]]:
    """(size, histology) of each lesion."""
    lesions: dict[str, tuple[float, str]] = {}
    for row, where in _records(path, ("unique_object_id", "size [mm]", "histology_class")):
        lesion = row["unique_object_id"]
        if lesion in lesions:
            raise UserError(
                f"{where}: lesion {lesion!r} stands here twice -> two polyps with one id? Give each its own"
            )
        kind = histology_name(row["histology_class"], where, histology)
        lesions[lesion] = (size_mm(row["size [mm]"], where), kind)
    return lesions


def _rates(path: Path) -> dict[str, float]:
    """Frame rate of each video."""
    rows = _records(path, ("unique_video_name", "fps"))
    return {row["unique_video_name"]: number(row["fps"], f"{where}: fps") for row, where in rows}


def _with_labels(
    table: Boxes, lesions: Mapping[str, tuple[float, str]], rates: Mapping[str, float], path: Path
) -> Boxes:
    """Size, histology and frame rate from the two tables of the dataset."""
    strangers = sorted(set(table.polyp) - set(lesions)) if lesions else []
    if strangers:
        warnings.warn(f"{path}: lesions that lesion_info.csv does not have: {', '.join(strangers)}", stacklevel=3)
    labels = [lesions.get(polyp, (np.nan, "")) for polyp in table.polyp]
    return replace(
        table,
        size_mm=np.array([size for size, _ in labels], np.float64),
        histology=np.array([kind for _, kind in labels], object),
        fps=np.array([rates.get(video, np.nan) for video in table.video], np.float64),
    )


def _records(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[dict[str, str], str]]:
    """Rows of a table of the dataset, each with where it stands; a table that is not there is said."""
    if not path.exists():
        warnings.warn(f"{path}: not there; its {', '.join(needed[1:])} stay unknown", stacklevel=4)
        return
    rows, lines = read_table(path)
    missing = [name for name in needed if rows and name not in rows[0]]
    if missing:
        raise UserError(f"{path}:1: has no column {missing[0]!r} -> its columns are {', '.join(rows[0])}")
    for row, line in zip(rows, lines, strict=True):
        yield row, f"{path}:{line}"
