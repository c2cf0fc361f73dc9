"""Files of a source: which files a folder has, and which video and frame a file name means.

Names in annotations are relative to the source's folder and may not leave it. Hidden files (`._clip.mp4`) are ignored.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops.videos import VIDEO_SUFFIXES, is_video

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")
_ANNOTATIONS = (".txt", ".xml", ".json", ".csv", ".ini", ".md", *PICTURES)
_SPLITS = ("train", "val", "valid", "validation", "test")
_LABEL_FOLDERS = ("annotations", "annotation", "labels", "gt", "det")
_LAST_NUMBER = re.compile(r"(\d+)(?=\D*$)", re.ASCII)
_FRAME_WORD = re.compile(r"[-_. ]*(?:frame|image|img|f)?[-_. ]*$", re.IGNORECASE)
_DRIVE = re.compile(r"^[A-Za-z]:")
_LONGEST_NAME, _LONGEST_PATH = 255, 3000  # bytes


def image_root(path: Path) -> Path:
    """The folder that file names of a source are relative to: `path`, or the folder around an annotation file."""
    if path.is_dir():
        return path
    parent = path.absolute().parent
    return parent.parent if parent.name.lower() in _LABEL_FOLDERS else parent


def inside(name: object, where: str) -> str:
    """A file name with forward slashes; one that leaves the folder it is relative to is an error."""
    if not isinstance(name, str) or not name.strip():
        raise UserError(f"{where}: the file name is missing or not text -> name the image")
    clean = name.replace("\\", "/")
    parts = clean.split("/")
    if clean.startswith("/") or _DRIVE.match(clean) or ".." in parts or "\0" in clean or "::" in clean:
        raise UserError(f"{where}: file name {name!r} leaves the dataset's folder -> give relative names, without ..")
    sizes = [len(part.encode("utf-8", "replace")) for part in parts]
    if max(sizes) > _LONGEST_NAME or sum(sizes) > _LONGEST_PATH:
        raise UserError(f"{where}: file name {name[:60]!r}… is too long -> correct it")
    if has_lone_surrogate(name):
        raise UserError(f"{where}: file name {name!r} is not valid Unicode -> correct it")
    return str(PurePosixPath(clean))


def has_lone_surrogate(text: str) -> bool:
    """Whether a text holds half a character, which cannot be written to a file."""
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def relative(path: Path, root: Path) -> str:
    """A path as written in the box table, relative to the root without resolving links; "" for the root itself."""
    inner = path.absolute().relative_to(root.absolute()).as_posix()
    return "" if inner == "." else inner


def prefix_of(folder: Path, root: Path) -> str:
    """What file names in `folder` begin with in the box table: "" for the root, else `folder/`."""
    return f"{relative(folder, root)}/".lstrip("/")


def below(table: Boxes, folder: str) -> Boxes:
    """A table whose file names are relative to `folder`, with names relative to the folder around it."""
    if not folder:
        return table
    return replace(
        table,
        file=np.array([f"{folder}/{name}" for name in table.file], object),
        source=np.array([f"{folder}/{name}" for name in table.source], object),
    )


def natural(name: str) -> list[tuple[int, int, str]]:
    """Sorting key that puts `case10` after `case9`."""
    parts = re.split(r"(\d+)", name, flags=re.ASCII)
    return [(0, int(part), "") if part.isdigit() and part.isascii() else (1, 0, part) for part in parts if part]


def names_in(folder: Path, ending: str | tuple[str, ...] = "") -> list[str]:
    """Sorted names of the files in a folder with this ending in any case; hidden files are ignored."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted(e.name for e in entries if e.name.lower().endswith(ending) and e.name[0] != ".")


def folders_below(start: Path) -> list[Path]:
    """`start` and all folders below it in natural order; links are followed, and each folder is listed once."""
    seen: set[str] = set()
    folders: list[Path] = []
    for folder, inner, _ in os.walk(start, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            inner.clear()
            continue
        seen.add(real)
        inner.sort()  # a folder with several names gets the same one everywhere
        folders.append(Path(folder))
    return sorted(folders, key=lambda entry: natural(entry.as_posix()))


def files_by_folder(start: Path, ending: str) -> dict[Path, list[str]]:
    """Names of the files with this ending by their folders, below `start` or `start` itself, in natural order."""
    if start.is_file():
        return {start.parent: [start.name]}
    names = {folder: sorted(names_in(folder, ending), key=natural) for folder in folders_below(start)}
    return {folder: some for folder, some in names.items() if some}


def files_below(start: Path, ending: str) -> list[Path]:
    """The files with this ending below `start`, or `start` itself, in natural order."""
    return [folder / name for folder, names in files_by_folder(start, ending).items() for name in names]


def split_folder(path: Path, split: str | None) -> Path:
    """The folder of a split."""
    folder = path / inside(split, "--split") if split else path
    if not folder.exists():
        raise UserError(f"{folder}: no such folder -> check the path{' and --split' if split else ''}")
    return folder


def unwrapped(path: Path, name: str) -> Path:
    """The folder of a dataset: `path`, or the folder in it that is named after the dataset."""
    return path / name if (path / name).is_dir() else path


def last_number(name: str) -> int | None:
    """The last number in a file's stem: the frame in `video_000123.jpg`."""
    match = _LAST_NUMBER.search(PurePosixPath(name).stem)
    return int(match[1]) if match and len(match[1]) <= 18 else None


def pictures_by_stem(folder: Path) -> dict[str, str]:
    """Names of the images in a folder by their stems."""
    return {Path(name).stem: name for name in names_in(folder, PICTURES)}


def pictures_by_number(folder: Path) -> dict[int, str]:
    """Names of the images in a folder by their last number; two with the same number are an error."""
    pictures: dict[int, str] = {}
    for name in names_in(folder, PICTURES):
        index = last_number(name)
        if index is None:
            continue
        if index in pictures:
            raise UserError(f"{folder}: {pictures[index]} and {name} are both image {index} -> keep one of them")
        pictures[index] = name
    return pictures


def video_and_frame(name: PurePosixPath, otherwise: str, where: str, mixed: bool = False) -> tuple[str, int]:
    """(video, frame) of an image: 12 of `video1` for both `video1/000012.jpg` and `video1_000012.jpg`.

    The video is the folder, or else what precedes the number. In a folder that holds several videos (`mixed`) or is
    named after a split it is both: `all/video1_000012.jpg` is of `all/video1`, `train/video1_000012.jpg` of `video1`.
    """
    index = last_number(name.name)
    if index is None:
        raise UserError(f"{where}: no frame number in {name.name!r} -> end each name with the number of its frame")
    before = _before_number(name)
    folder = str(name.parent) if name.parent.name else ""
    is_split = name.parent.name.lower() in _SPLITS
    if folder and not (before and (mixed or is_split)):
        return folder, index
    inner = name.parent.parent if is_split else name.parent
    return str(inner / before) if before else otherwise, index


def of_several_videos(names: Iterable[str]) -> bool:
    """Whether names in one folder differ in what precedes their frame numbers."""
    return len({_before_number(PurePosixPath(name)) for name in names}) > 1


def _before_number(name: PurePosixPath) -> str:
    match = _LAST_NUMBER.search(name.stem)
    return _FRAME_WORD.sub("", name.stem[: match.start()] if match else "")


def video_folders(root: Path) -> list[Path]:
    """Where video files may be: the root, and folders in it such as `videos` or `Polyp_Size_Videos`."""
    return [root, *sorted(entry for entry in root.iterdir() if "video" in entry.name.lower() and entry.is_dir())]


def video_file(folders: Iterable[Path], stem: str) -> Path | None:
    """The video file with this stem in the first folder that has one."""
    files = (folder / name for folder in folders for name in names_in(folder, VIDEO_SUFFIXES))
    return next((file for file in files if file.stem == stem), None)


def why_no_video(folders: Iterable[Path], stem: str) -> str:
    """Why `video_file` gave nothing, and what to do: unknown type, other names, or no video at all."""
    names = [name for folder in folders for name in names_in(folder) if (folder / name).is_file()]
    unknown = [n for n in names if Path(n).stem == stem and not n.lower().endswith((*VIDEO_SUFFIXES, *_ANNOTATIONS))]
    if unknown:
        return f"{unknown[0]} is not a known type of video -> convert it to one of {', '.join(VIDEO_SUFFIXES)}"
    others = [name for name in dict.fromkeys(names) if is_video(name)]
    if others:
        shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        return f"no video is named {stem!r}, only {shown} -> give a video and its boxes the same name"
    return f"no video {stem}.mp4 and no folder {stem} of images -> put one of them next to the boxes"
