"""File names as annotations give them: kept inside the source's folder, and frame numbers read from them."""

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")
VIDEOS = (".mp4", ".mov", ".mkv", ".avi", ".m4v", ".mpg", ".mpeg", ".webm")
_SPLITS = ("train", "val", "valid", "validation", "test")
_LABEL_FOLDERS = ("annotations", "annotation", "labels", "gt", "det")
_LAST_NUMBER = re.compile(r"(\d+)(?=\D*$)", re.ASCII)
_FRAME_WORD = re.compile(r"[-_. ]*(?:frame|image|img|f)?[-_. ]*$", re.IGNORECASE)
_LONGEST, _LONGEST_PATH = 255, 3000  # bytes of a file's or folder's name, and of all together
_DRIVE = re.compile(r"^[A-Za-z]:")


def picture_root(path: Path) -> Path:
    """The folder that file names of a source are relative to: `path`, or the folder around an annotation file."""
    if path.is_dir():
        return path
    parent = path.absolute().parent
    return parent.parent if parent.name.lower() in _LABEL_FOLDERS else parent


def inside(name: object, where: str) -> str:
    """A file name with forward slashes, or an error if it leaves the folder it is relative to."""
    if not isinstance(name, str) or not name.strip():
        raise UserError(f"{where}: the file name is missing or no text -> name the picture")
    clean = name.replace("\\", "/")
    parts = clean.split("/")
    if clean.startswith("/") or _DRIVE.match(clean) or ".." in parts or "\0" in clean or "::" in clean:
        raise UserError(
            f"{where}: file name {name!r} leaves the dataset's folder -> names are relative to it, without .."
        )
    sizes = [len(part.encode("utf-8", "replace")) for part in parts] if len(name) > _LONGEST // 4 else [0]
    if max(sizes) > _LONGEST or sum(sizes) > _LONGEST_PATH:
        raise UserError(f"{where}: file name {name[:60]!r}… is too long -> no disk holds such a name; put it right")
    if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise UserError(f"{where}: file name {name!r} holds half a character -> put it right")
    return clean if "." not in parts and "" not in parts else str(PurePosixPath(clean))


def last_number(name: str) -> int | None:
    """The last number in a file's name without its ending: the frame in `video_000123.jpg`."""
    found = _LAST_NUMBER.search(PurePosixPath(name).stem)
    return int(found[1]) if found and len(found[1]) <= 18 else None


def numbered_pictures(folder: Path) -> dict[int, str]:
    """Pictures of a folder by the last number of their names; two with one number are an error."""
    found: dict[int, str] = {}
    if not folder.is_dir():
        return found
    for name in sorted(entry.name for entry in folder.iterdir() if entry.suffix.lower() in PICTURES):
        index = last_number(name)
        if index is None:
            continue
        if index in found:
            raise UserError(f"{folder}: {found[index]} and {name} are both picture {index} -> keep one of them")
        found[index] = name
    return found


def natural(name: str) -> list[tuple[int, int, str]]:
    """Sorting key that puts `case10` after `case9`."""
    parts = re.split(r"(\d+)", name, flags=re.ASCII)
    return [(0, int(part), "") if part.isdigit() and part.isascii() else (1, 0, part) for part in parts if part]


def split_folder(path: Path, split: str | None) -> Path:
    """The folder of a split; an error if it is not there."""
    folder = path / inside(split, "--split") if split else path
    if not folder.exists():
        raise UserError(f"{folder}: no such folder -> check the path{' and --split' if split else ''}")
    return folder


def video_and_frame(name: PurePosixPath, otherwise: str, where: str, mixed: bool = False) -> tuple[str, int]:
    """(video, frame) of `video1/000012.jpg` or of `video1_000012.jpg`: the folder, or what stands before the number.

    In a folder of `mixed` videos, or one that is called like a split, it is both: `all/video1_000012.jpg` is of
    `all/video1`, `train/video1_000012.jpg` of `video1`.
    """
    index = last_number(name.name)
    if index is None:
        raise UserError(f"{where}: no frame number in {name.name!r} -> end each name with its frame's number")
    before = _before_number(name)
    folder = str(name.parent) if name.parent.name else ""
    is_split = name.parent.name.lower() in _SPLITS
    if folder and not (before and (mixed or is_split)):
        return folder, index
    inner = name.parent.parent if is_split else name.parent
    return str(inner / before) if before else otherwise, index


def of_several_videos(names: Iterable[str]) -> bool:
    """Whether names of one folder differ in what stands before their frames' numbers."""
    return len({_before_number(PurePosixPath(name)) for name in names}) > 1


def _before_number(name: PurePosixPath) -> str:
    found = _LAST_NUMBER.search(name.stem)
    return _FRAME_WORD.sub("", name.stem[: found.start()] if found else "")


def folders_below(start: Path) -> list[Path]:
    """`start` and all folders below it, in natural order; links are followed, each folder comes once."""
    seen: set[str] = set()
    found: list[Path] = []
    for folder, inner, _ in os.walk(start, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            inner.clear()
            continue
        seen.add(real)
        inner.sort()  # of several names of one folder the same one is found everywhere
        found.append(Path(folder))
    return sorted(found, key=lambda entry: natural(entry.as_posix()))


def unwrapped(path: Path, name: str) -> Path:
    """The folder of a dataset: `path`, or the folder of the dataset's own name in it."""
    return path / name if (path / name).is_dir() else path


def relative(path: Path, root: Path) -> str:
    """A path below the root as it stands in the box table; "" for the root itself."""
    inner = path.absolute().relative_to(root.absolute()).as_posix()  # as it is called there, even if it is a link
    return "" if inner == "." else inner


def video_folders(root: Path) -> list[Path]:
    """Where video files may lie: the root, and folders in it that are called so (`videos`, `Polyp_Size_Videos`)."""
    return [root, *sorted(entry for entry in root.iterdir() if "video" in entry.name.lower() and entry.is_dir())]


def video_file(folders: Iterable[Path], name: str) -> Path | None:
    """The video file called `name`, whatever its ending, in the first of these folders that has one."""
    for folder in folders:
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            if entry.stem == name and entry.suffix.lower() in VIDEOS:
                return entry
    return None


def below(table: Boxes, folder: str) -> Boxes:
    """A table whose file names are relative to `folder`, with names relative to what holds it."""
    if not folder:
        return table
    return replace(
        table,
        file=np.array([f"{folder}/{name}" for name in table.file], object),
        source=np.array([f"{folder}/{name}" for name in table.source], object),
    )
