"""PolypSize: 42 videos of one polyp each, `Polyp_Size_Videos/VideoNN.mp4`, sizes in `Polyp_Size_Lables.csv` (sic).

The format of the boxes is not documented: VOC XML, YOLO text and COCO JSON are all accepted. Frames are images
(`Video01_frame0000.jpg`) if they exist, and otherwise come from the video files.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from polyptrace.core.errors import UserError, warn
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops.videos import video_info
from polyptrace.data.sources import file_names
from polyptrace.data.sources.box_labels import label_table, with_labels
from polyptrace.data.sources.coco import read_coco
from polyptrace.data.sources.reading import read_table
from polyptrace.data.sources.voc import read_voc
from polyptrace.data.sources.yolo import read_yolo

_VIDEO = re.compile(r"video[ _-]?0*(\d{1,4})", re.ASCII | re.IGNORECASE)
#: Our names of the label table's columns, their published names, and words by which other names are recognised.
_COLUMNS = {
    "video": ("video_id", ("video",)),
    "size": ("polyp_size", ("size",)),
    "histology": ("pathology", ("patholog", "histolog", "diagnos")),
}


def read_polypsize(
    path: Path, *, columns: Mapping[str, str] | None = None, histology: Mapping[str, str] | None = None
) -> Boxes:
    """The boxes of PolypSize below `path`; video and polyp are both `VideoNN`.

    `columns` gives the label table's names for `video`, `size` and `histology` if they are not recognised.
    """
    path = Path(path)
    if not path.is_dir():
        raise UserError(f"{path}: no such folder -> give the folder of PolypSize")
    base = file_names.unwrapped(path, "Polyp_Size_Dataset")
    boxes = _boxes(base)
    video = np.array([_video_of(boxes, row) for row in range(len(boxes))], object)
    boxes = replace(boxes, dataset=np.full(len(boxes), "polypsize", object), video=video, polyp=video)
    labelled = _with_labels(_with_files(boxes, base), base, columns or {}, histology or {})
    return file_names.below(labelled, file_names.relative(base, path))


def _boxes(path: Path) -> Boxes:
    """Boxes in whichever of the three formats exists."""
    if file_names.files_below(path, ".xml"):
        return read_voc(path)
    if files := file_names.files_below(path, ".json"):
        return file_names.below(read_coco(files[0]), file_names.relative(file_names.image_root(files[0]), path))
    if texts := [
        file for file in file_names.files_below(path, ".txt") if _VIDEO.search(file_names.relative(file, path))
    ]:
        first = 0 if "frame" in texts[0].name.lower() else 1  # the authors' Video01_frame0000 counts from 0
        return read_yolo(path, first_frame=first)
    raise UserError(f"{path}: no boxes found -> put VOC XML, COCO JSON or a folder labels/ of YOLO files below it")


def _video_of(boxes: Boxes, row: int) -> str:
    for name in (boxes.video[row], boxes.file[row], boxes.source[row]):
        if match := _VIDEO.search(name):
            return f"Video{int(match[1]):02d}"
    raise UserError(f"{boxes.where(row)}: {boxes.file[row]!r} names no video -> PolypSize's names contain VideoNN")


def _with_files(boxes: Boxes, path: Path) -> Boxes:
    """Video files in place of missing images, with their frame rates."""
    folders = file_names.video_folders(path)
    file, fps = boxes.file.copy(), boxes.fps.copy()
    for video in sorted(set(boxes.video)):
        rows = np.flatnonzero(boxes.video == video)
        if movie := file_names.video_file(folders, video):
            fps[rows] = np.where(np.isfinite(fps[rows]), fps[rows], video_info(movie).fps)
            if not (path / file[rows[0]]).is_file():
                file[rows] = file_names.relative(movie, path)
    return replace(boxes, file=file, fps=fps)


def _with_labels(boxes: Boxes, path: Path, columns: Mapping[str, str], histology: Mapping[str, str]) -> Boxes:
    tables = [file for file in file_names.files_below(path, ".csv") if "la" in file.name.lower()]
    if not tables:
        warn(f"{path}: no Polyp_Size_Lables.csv; sizes and histologies stay unknown")
        return boxes
    rows = read_table(tables[0])
    names = _column_names(list(rows[0][0]) if rows else [], columns, tables[0])

    def video_of_row(row: Mapping[str, str]) -> str:
        match = re.search(r"(\d{1,4})", row[names["video"]])
        return f"Video{int(match[1]):02d}" if match else row[names["video"]]

    return with_labels(boxes, label_table(rows, video_of_row, names["size"], names["histology"], histology))


def _column_names(header: list[str], given: Mapping[str, str], table: Path) -> dict[str, str]:
    """The table's names for video, size and histology; "" for the last if the table has none."""
    for ours, theirs in given.items():
        if ours not in _COLUMNS or theirs not in header:
            wrong = f"{table} has no column {theirs!r}" if ours in _COLUMNS else f"{ours!r} is not one of our names"
            raise UserError(
                f"--columns {ours}={theirs}: {wrong} -> ours are {', '.join(_COLUMNS)}, the table's {', '.join(header)}"
            )
    names = {ours: given[ours] if ours in given else _recognised(header, *of) for ours, of in _COLUMNS.items()}
    for ours in ("video", "size"):
        if not names[ours]:
            raise UserError(
                f"{table}:1: no column for the {ours}, or several -> name it with --columns {ours}=NAME; the table"
                f" has {', '.join(header)}"
            )
    return names


def _recognised(header: list[str], published: str, words: tuple[str, ...]) -> str:
    """The column with the published name, or the only one whose name contains one of the words; "" if there is none."""
    plain = {name.lower().replace(" ", "_"): name for name in header}
    matches = [name for name in header if any(word in name.lower() for word in words)]
    return plain.get(published) or (matches[0] if len(matches) == 1 else "")
