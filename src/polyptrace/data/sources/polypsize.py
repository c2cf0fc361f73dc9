"""PolypSize: 42 videos of one polyp each, `Polyp_Size_Videos/VideoNN.mp4`, sizes in `Polyp_Size_Lables.csv` (sic).

How the boxes are stored is not documented: VOC XML, YOLO text and COCO JSON are all looked for. Frames that lie there
as pictures (`Video01_frame0000.jpg`) are taken; otherwise they come from the video files.
"""

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes, Strings
from polyptrace.data.crops import video_info
from polyptrace.data.sources.coco import read_coco
from polyptrace.data.sources.labels import histology_name, size_mm
from polyptrace.data.sources.names import (
    below,
    folders_below,
    picture_root,
    relative,
    unwrapped,
    video_file,
    video_folders,
)
from polyptrace.data.sources.small_files import names_in
from polyptrace.data.sources.text import read_table
from polyptrace.data.sources.voc import read_voc
from polyptrace.data.sources.yolo import read_yolo

_VIDEO = re.compile(r"video[ _-]?0*(\d{1,4})", re.ASCII | re.IGNORECASE)
_NAMES = {  # our word, and the names under which the table may have it
    "video": ("video_id", "video", "video_name", "videoid"),
    "size": ("polyp_size", "size", "size_mm", "polyp_size_mm", "polyp size"),
    "histology": (
        "pathology",
        "histology",
        "pathology_result",
        "histopathology",
        "pathological_diagnosis",
        "diagnosis",
    ),
}


def read_polypsize(
    path: Path,
    *,
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    histology: Mapping[str, str] | None = None,
) -> Boxes:
    """The boxes of PolypSize below `path`; video and polyp are both `VideoNN`.

    `columns` says what the label table calls `video`, `size` and `histology` where it is not found by itself.
    """
    path = Path(path)
    if split:
        raise UserError(f"--split {split}: PolypSize has no splits -> leave it out, and split by polyp at evaluation")
    if not path.is_dir():
        raise UserError(f"{path}: no such folder -> give the folder of PolypSize")
    base = unwrapped(path, "Polyp_Size_Dataset")
    boxes = _boxes(base)
    video = np.array([_video_of(boxes, row) for row in range(len(boxes))], object)
    boxes = replace(boxes, dataset=np.full(len(boxes), "polypsize", object), video=video, polyp=video)
    labelled = _with_labels(_with_files(boxes, base), base, columns or {}, histology or {})
    return below(labelled, relative(base, path))


def _boxes(path: Path) -> Boxes:
    """Boxes in whichever of the three formats is there."""
    folders = folders_below(path)
    if any(names_in(folder, ".xml") for folder in folders):
        return read_voc(path)
    for file in (folder / name for folder in folders for name in names_in(folder, ".json")):
        return below(read_coco(file), relative(picture_root(file), path))
    texts = [folder / name for folder in folders for name in names_in(folder, ".txt")]
    texts = [file for file in texts if _VIDEO.search(relative(file, path))]
    if texts:
        first = 0 if "frame" in texts[0].name.lower() else 1  # the authors' Video01_frame0000 counts from 0
        return read_yolo(path, first_frame=first)
    raise UserError(
        f"{path}: no boxes found -> put VOC XML files, a COCO JSON file or a folder labels/ of YOLO files below it"
    )


def _video_of(boxes: Boxes, row: int) -> str:
    for name in (boxes.video[row], boxes.file[row], boxes.source[row]):
        if found := _VIDEO.search(name):
            return f"Video{int(found[1]):02d}"
    raise UserError(f"{boxes.where(row)}: {boxes.file[row]!r} names no video -> PolypSize's names hold VideoNN")


def _with_files(boxes: Boxes, path: Path) -> Boxes:
    """Video files in place of pictures that are not there, with their frame rate."""
    movies = video_folders(path)
    file, fps = boxes.file.copy(), boxes.fps.copy()
    for video in sorted(set(boxes.video)):
        rows = np.flatnonzero(boxes.video == video)
        movie = video_file(movies, video)
        if movie is None:
            continue
        fps[rows] = np.where(np.isfinite(fps[rows]), fps[rows], video_info(movie).fps)
        if not (path / file[rows[0]]).is_file():
            file[rows] = relative(movie, path)
    return replace(boxes, file=file, fps=fps)


def _with_labels(boxes: Boxes, path: Path, columns: Mapping[str, str], histology: Mapping[str, str]) -> Boxes:
    tables = [
        folder / name for folder in folders_below(path) for name in names_in(folder, ".csv") if "la" in name.lower()
    ]
    if not tables:
        warnings.warn(f"{path}: no Polyp_Size_Lables.csv; sizes and histologies stay unknown", stacklevel=3)
        return boxes
    rows, lines = read_table(tables[0])
    names = _columns(list(rows[0]) if rows else [], columns, tables[0])
    sizes: dict[str, float] = {}
    kinds: dict[str, str] = {}
    for row, line in zip(rows, lines, strict=True):
        where = f"{tables[0]}:{line}"
        found = re.search(r"(\d{1,4})", row[names["video"]])
        video = f"Video{int(found[1]):02d}" if found else row[names["video"]]
        if video in sizes:
            raise UserError(f"{where}: {video} stands here twice -> two polyps with one id? Give each its own")
        sizes[video] = size_mm(row[names["size"]], where)
        kinds[video] = histology_name(row[names["histology"]], where, histology) if "histology" in names else ""
    return replace(boxes, size_mm=_joined(boxes.video, sizes), histology=_named(boxes.video, kinds))


def _columns(header: list[str], given: Mapping[str, str], table: Path) -> dict[str, str]:
    """What the table calls video, size and, where it has it, histology."""
    plain = {name.lower().replace(" ", "_"): name for name in header}
    for word, name in given.items():
        if word not in _NAMES or name not in header:
            wrong = f"there is no {name!r} in {table}" if word in _NAMES else f"{word!r} is none of ours"
            raise UserError(
                f"--columns {word}={name}: {wrong} -> ours are {', '.join(_NAMES)}, the table's {', '.join(header)}"
            )
    found = dict(given)
    for word, names in _NAMES.items():
        match = next((plain[name] for name in names if name in plain), None)
        if match and word not in found:
            found[word] = match
    missing = [word for word in ("video", "size") if word not in found]
    if missing:
        raise UserError(
            f"{table}:1: no column for the {missing[0]} -> say which it is: --columns {missing[0]}=NAME; "
            f"there are {', '.join(header)}"
        )
    return found


def _joined(video: Strings, values: Mapping[str, float]) -> np.ndarray:
    return np.array([values.get(name, np.nan) for name in video], np.float64)


def _named(video: Strings, values: Mapping[str, str]) -> np.ndarray:
    return np.array([values.get(name, "") for name in video], object)
