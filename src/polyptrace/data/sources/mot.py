"""MOT challenge: `frame,id,left,top,w,h,conf,…` per line, frames and pixels counted from 1.

A source is one sequence folder (`img1/`, `gt/gt.txt` or `det/det.txt`, `seqinfo.ini`), a folder of such folders at any
depth, or a folder of `NAME.txt` files, each beside `NAME.mp4` (or another video file) or a folder `NAME/` of pictures.
"""

import configparser
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import NO_FRAME, Boxes, Ints, Strings, frame_numbers
from polyptrace.data.crops import video_info
from polyptrace.data.sources.names import (
    PICTURES,
    VIDEOS,
    folders_below,
    inside,
    natural,
    numbered_pictures,
    picture_root,
    relative,
    video_file,
)
from polyptrace.data.sources.text import number_rows, read_text, whole_numbers

_COLUMNS = ("frame", "id", "left", "top", "w", "h", "conf")
_NEEDED = 6


@dataclass(frozen=True)
class _Sequence:
    """One video: where its boxes and its pictures are."""

    video: str
    table: Path
    pictures: str = ""  # folder of pictures, relative to the root
    file: str = ""  # or the video file, relative to the root
    ending: str = ".jpg"
    width: int = 0
    height: int = 0
    fps: float = np.nan


def read_mot(
    path: Path,
    *,
    split: str | None = None,
    boxes: Literal["auto", "gt", "det"] = "auto",
    identities: Literal["track", "polyp"] = "track",
    first_frame: int = 1,
) -> Boxes:
    """The boxes of a MOT source.

    `split` is a folder of `path` (MOT's `train`, `test`); `boxes` picks `gt/gt.txt` or `det/det.txt` (auto: gt where it
    is there). Ids are runs of a tracker; `identities="polyp"` says that they are polyps as well (`video/id`). Id -1
    means untracked. In `gt` files lines with conf 0 are entries to ignore, as in the benchmark, and are left out.
    `first_frame` is the number that the first frame of a video has in the files: 0 where a tool counts so.
    """
    root = picture_root(Path(path))
    sequences = _sequences(Path(path), root, split, boxes)
    tables = [_read_sequence(_with_video_info(one, root), root, identities, first_frame) for one in sequences]
    table = Boxes.concatenate(tables)
    if not len(table):
        raise UserError(f"{path}: its {len(sequences)} MOT files hold no box -> was the detector run?")
    return table


def _sequences(path: Path, root: Path, split: str | None, boxes: str) -> list[_Sequence]:
    if path.is_file():
        return [
            _beside(path, root) if path.parent.name not in ("gt", "det") else _folder(path.parent.parent, root, path)
        ]
    start = path / inside(split, "--split") if split else path
    if not start.is_dir():
        raise UserError(f"{start}: no such folder -> check the path{' and --split' if split else ''}")
    wanted = ("gt", "det") if boxes == "auto" else (boxes,)
    folders: dict[Path, Path] = {}
    below = folders_below(start)
    for kind in wanted:
        for folder in below:
            if folder.name == kind and (folder / f"{kind}.txt").is_file():
                folders.setdefault(folder.parent, folder / f"{kind}.txt")
    found = [_folder(folder, root, table) for folder, table in folders.items()]
    if not found:
        tables = sorted(start.glob("*.txt"))
        found = [_beside(table, root) for table in tables if _has_pictures(table)]
        lonely = [table.name for table in tables if not _has_pictures(table)]
        if found and lonely:
            warnings.warn(
                f"{start}: left out, for want of a video or folder of its name: {', '.join(lonely)}", stacklevel=3
            )
    if not found:
        raise UserError(
            f"{start}: no {' or '.join(f'{kind}/{kind}.txt' for kind in wanted)} in it, and no NAME.txt beside a video "
            "NAME.mp4 or a folder NAME -> give a MOT folder"
        )
    return sorted(found, key=lambda sequence: natural(sequence.video))


def _folder(folder: Path, root: Path, table: Path) -> _Sequence:
    """A sequence folder with its `seqinfo.ini`, where it has one."""
    inner = relative(folder, root)
    video = inner or folder.resolve().name
    info = _seqinfo(folder / "seqinfo.ini")
    pictures = inside(info.get("imdir", "img1"), f"{folder / 'seqinfo.ini'}: imDir")
    movies = sorted(entry.name for entry in folder.iterdir() if entry.suffix.lower() in VIDEOS)
    file = f"{inner}/{movies[0]}".lstrip("/") if len(movies) == 1 and not (folder / pictures).is_dir() else ""
    return _Sequence(
        video=video,
        table=table,
        pictures=f"{inner}/{pictures}".lstrip("/"),
        file=file,
        ending=info.get("imext", ".jpg"),
        width=int(_setting(info, "imwidth", folder, 0)),
        height=int(_setting(info, "imheight", folder, 0)),
        fps=_setting(info, "framerate", folder, np.nan),
    )


def _seqinfo(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(read_text(path), source=str(path))
    except configparser.Error as error:
        message = " ".join(str(error).split())
        raise UserError(f"{path}: not a readable seqinfo.ini ({message}) -> it starts with [Sequence]") from None
    return {key: value for section in parser.sections() for key, value in parser.items(section)}


def _setting(info: dict[str, str], key: str, folder: Path, unknown: float) -> float:
    try:
        value = float(info[key]) if key in info else unknown
    except ValueError:
        value = -1.0
    if value < 0 or value > 1e6:
        raise UserError(f"{folder / 'seqinfo.ini'}: {key} is {info[key]!r}, not a sensible number -> put it right")
    return value


def _beside(table: Path, root: Path) -> _Sequence:
    """A text file beside its video file or its folder of pictures."""
    prefix = f"{relative(table.parent, root)}/".lstrip("/")
    movie = video_file([table.parent, table.parent / "videos", root, root / "videos"], table.stem)
    folder = table.with_suffix("")
    pictures = f"{prefix}{folder.name}{'/img1' if (folder / 'img1').is_dir() else ''}"
    return _Sequence(table.stem, table, pictures=pictures, file=relative(movie, root) if movie else "")


def _with_video_info(sequence: _Sequence, root: Path) -> _Sequence:
    """What seqinfo.ini does not say, from the video file."""
    if not sequence.file:
        return sequence
    info = video_info(root / sequence.file)
    fps = sequence.fps if np.isfinite(sequence.fps) else info.fps
    return replace(sequence, fps=fps, width=sequence.width or info.width, height=sequence.height or info.height)


def _has_pictures(table: Path) -> bool:
    return table.with_suffix("").is_dir() or video_file([table.parent, table.parent / "videos"], table.stem) is not None


def _read_sequence(sequence: _Sequence, root: Path, identities: str, first_frame: int) -> Boxes:
    rows, lines = number_rows(read_text(sequence.table), sequence.table, _COLUMNS, _NEEDED)
    truth = sequence.table.parent.name == "gt"
    if truth:  # conf is a flag there: 0 is an entry to ignore
        keep = rows[:, 6] != 0
        rows, lines = rows[keep], lines[keep]
    if not len(rows):
        warnings.warn(f"{sequence.table}: holds no box", stacklevel=4)
    frame = frame_numbers(rows[:, 0] - first_frame)
    if first_frame == 1 and np.any(frame == -1):
        line = lines[np.argmax(frame == -1)]
        raise UserError(
            f"{sequence.table}:{line}: frame 0, but MOT counts frames from 1 -> if the file counts from 0, say "
            "--first-frame 0"
        )
    ids = whole_numbers(rows[:, 1], lines, sequence.table, "id")
    known, place = np.unique(ids, return_inverse=True)
    names = np.array([str(i) if i >= 0 else "" for i in known.tolist()], object)
    polyps = np.array([f"{sequence.video}/{name}" if name else "" for name in names], object)
    return Boxes.of(
        video=sequence.video,
        frame_index=frame,
        xywh=rows[:, 2:6] - (1, 1, 0, 0),
        file=sequence.file or np.where(frame == NO_FRAME, "", _picture_names(sequence, root, frame + first_frame)),
        image_width=sequence.width,
        image_height=sequence.height,
        track=names[place],
        polyp=polyps[place] if identities == "polyp" else "",
        score=np.nan if truth else rows[:, 6],
        fps=sequence.fps,
        source=relative(sequence.table, root),
        line=lines,
    )


def _picture_names(sequence: _Sequence, root: Path, number_in_file: Ints) -> Strings:
    """Each frame's picture: the one that is there, or, where none is, the name it would have."""
    there = numbered_pictures(root / sequence.pictures)
    example = next(iter(there.values()), f"000001{sequence.ending}")
    stem, ending = Path(example).stem, Path(example).suffix if Path(example).suffix in PICTURES else sequence.ending
    digits = len(stem) - len(stem.rstrip("0123456789")) or 6
    prefix = stem[:-digits] if stem[-digits:].isdigit() else ""
    before = f"{sequence.pictures}/{prefix}"
    numbers = number_in_file.tolist()
    if not there:
        return np.array([f"{before}{number:0{digits}d}{ending}" for number in numbers], object)
    folder = f"{sequence.pictures}/"
    return np.array([folder + there[n] if n in there else f"{before}{n:0{digits}d}{ending}" for n in numbers], object)
