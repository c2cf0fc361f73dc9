"""MOT challenge: `frame,id,left,top,w,h,conf,…` per line, frames and pixels counted from 1.

A source is a sequence folder (`img1/`, `gt/gt.txt` or `det/det.txt`, `seqinfo.ini`), a folder of such folders at any
depth, or a folder of `NAME.txt` files, each next to a video file `NAME.mp4` or a folder `NAME/` of images.
"""

import configparser
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from polyptrace.core.arrays import Ints, Strings
from polyptrace.core.errors import UserError, warn
from polyptrace.data.boxes import NO_FRAME, Boxes, frame_numbers
from polyptrace.data.crops.videos import VIDEO_SUFFIXES, VideoInfo, video_info
from polyptrace.data.sources import file_names
from polyptrace.data.sources.box_labels import qualified
from polyptrace.data.sources.reading import NoBoxError, frame_rate, integer, number_rows, read_text

_COLUMNS = ("frame", "id", "left", "top", "w", "h", "conf")


@dataclass(frozen=True)
class _Sequence:
    """One video: its table of boxes, and its images or its video file relative to the root."""

    video: str
    table: Path
    pictures: str
    file: str = ""  # the video file, if there is one
    ending: str = ".jpg"  # of images
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
    video: Path | None = None,
) -> Boxes:
    """The boxes of a MOT source.

    `split` is a folder of `path` (`train`, `test`). `boxes` selects `gt/gt.txt` or `det/det.txt`; auto prefers gt. Ids
    are tracks, -1 means untracked; with `identities="polyp"` they are also polyps. Lines of `gt` files with conf 0 are
    ignored, as in the benchmark; in other files, conf -1 means that the box has no score. `first_frame` is the number
    of a video's first frame in the files. `video` is the video of the boxes, if it is not beside them: of a folder of
    files NAME.txt, only the one with its name is read.
    """
    path = Path(path)
    root = file_names.image_root(path)
    sequences = _sequences(path, root, split, boxes, video)
    tables = [_read_sequence(each, root, identities, first_frame) for each in sequences]
    empty = [each.table for each, table in zip(sequences, tables, strict=True) if not len(table)]
    if len(empty) == len(tables):
        raise NoBoxError(f"{empty[0] if len(empty) == 1 else path}: contains no box -> was the detector run?")
    for file in empty:
        warn(f"{file}: contains no box")
    return Boxes.concatenate(tables)


def _sequences(path: Path, root: Path, split: str | None, boxes: str, video: Path | None) -> list[_Sequence]:
    if path.is_file():
        in_sequence = path.parent.name in ("gt", "det")
        return [_sequence_folder(path.parent.parent, root, path) if in_sequence else _named_table(path, root, video)]
    start = file_names.split_folder(path, split)
    kinds = ("gt", "det") if boxes == "auto" else (boxes,)
    sequences = []
    for folder in file_names.folders_below(start):
        tables = [folder / kind / f"{kind}.txt" for kind in kinds if (folder / kind / f"{kind}.txt").is_file()]
        sequences += [_sequence_folder(folder, root, table) for table in tables[:1]]
    names = file_names.names_in(start, ".txt")
    if video and names and not sequences:
        if f"{video.stem}.txt" not in names:
            raise UserError(f"{start}: has no {video.stem}.txt -> name the boxes after the video, or give their file")
        return [_named_table(start / f"{video.stem}.txt", root, video)]
    sequences = sequences or _named_tables([start / name for name in names], root)
    if not sequences:
        raise UserError(
            f"{start}: no {' or '.join(f'{kind}/{kind}.txt' for kind in kinds)}, and no NAME.txt next to a video "
            "NAME.mp4 or a folder NAME -> give a MOT folder"
        )
    return sorted(sequences, key=lambda sequence: file_names.natural(sequence.video))


def _named_tables(tables: list[Path], root: Path) -> list[_Sequence]:
    """Those of the files NAME.txt that have a video; if none has, the first one's reason is the error."""
    sequences, reasons = [], []
    for table in tables:
        try:
            sequences.append(_named_table(table, root))
        except UserError as error:
            reasons.append(error)
    if reasons and not sequences:
        raise reasons[0]
    for reason in reasons:
        warn(f"left out: {reason}")
    return sequences


def _named_table(table: Path, root: Path, video: Path | None = None) -> _Sequence:
    """A text file next to its video file or its folder of images; `video` is its video file if neither exists."""
    folders = [table.parent, table.parent / "videos", *(root, root / "videos") * (root != table.parent)]
    file = file_names.video_file(folders, table.stem)
    folder = table.with_suffix("")
    if not file and not folder.is_dir():
        if video:
            return _Sequence(table.stem, table, "", str(video.absolute()))
        raise UserError(f"{table}: {file_names.why_no_video(folders, table.stem)}")
    pictures = file_names.relative(folder / "img1" if (folder / "img1").is_dir() else folder, root)
    return _Sequence(table.stem, table, pictures, file_names.relative(file, root) if file else "")


def _sequence_folder(folder: Path, root: Path, table: Path) -> _Sequence:
    """A sequence folder with its `seqinfo.ini`, if it has one."""
    ini = folder / "seqinfo.ini"
    info = _seqinfo(ini)
    prefix = file_names.prefix_of(folder, root)
    pictures = file_names.inside(info.get("imdir", "img1"), f"{ini}: imDir")
    videos = []
    if not (folder / pictures).is_dir():
        videos = [folder / name for name in file_names.names_in(folder, VIDEO_SUFFIXES)]
        if not videos and prefix and (beside := file_names.video_file([folder.parent], folder.name)):
            videos = [beside]  # the video NAME.mp4 of the folder NAME
    return _Sequence(
        video=file_names.relative(folder, root) or folder.resolve().name,
        table=table,
        pictures=prefix + pictures,
        file=file_names.relative(videos[0], root) if len(videos) == 1 else "",
        ending=info.get("imext", ".jpg"),
        width=integer(info.get("imwidth", 0), f"{ini}: imWidth"),
        height=integer(info.get("imheight", 0), f"{ini}: imHeight"),
        fps=frame_rate(info.get("framerate"), f"{ini}: frameRate"),
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


def _read_sequence(sequence: _Sequence, root: Path, identities: str, first_frame: int) -> Boxes:
    rows, lines = number_rows(read_text(sequence.table), sequence.table, _COLUMNS, needed=6, whole=("id",))
    truth = sequence.table.parent.name == "gt"
    if truth:  # conf is a flag there, 0 marks an entry to ignore
        keep = rows[:, 6] != 0
        rows, lines = rows[keep], lines[keep]
    frame = frame_numbers(rows[:, 0] - first_frame)
    if first_frame == 1 and np.any(frame == -1):
        line = lines[np.argmax(frame == -1)]
        raise UserError(
            f"{sequence.table}:{line}: frame 0, but MOT counts frames from 1 -> if this file counts from 0, give "
            "'polyptrace prepare' --first-frame 0; for other commands, add 1 to its frames"
        )
    tracks = [f"{number:.0f}" if number >= 0 else "" for number in rows[:, 1].tolist()]
    info = video_info(root / sequence.file) if sequence.file else VideoInfo()
    return Boxes.of(
        video=sequence.video,
        frame_index=frame,
        xywh=rows[:, 2:6] - (1, 1, 0, 0),
        file=sequence.file or np.where(frame == NO_FRAME, "", _picture_names(sequence, root, frame + first_frame)),
        image_width=sequence.width or info.width,
        image_height=sequence.height or info.height,
        track=tracks,
        polyp=[qualified(sequence.video, track) for track in tracks] if identities == "polyp" else "",
        score=np.where(truth | (rows[:, 6] == -1), np.nan, rows[:, 6]),
        fps=sequence.fps if np.isfinite(sequence.fps) else info.fps,
        generated=info.generated,
        source=file_names.relative(sequence.table, root),
        line=lines,
    )


def _picture_names(sequence: _Sequence, root: Path, numbers: Ints) -> Strings:
    """The image of each frame number; a missing one is named as the first existing one is."""
    pictures = file_names.pictures_by_number(root / sequence.pictures)
    example = Path(next(iter(pictures.values()), f"000001{sequence.ending}"))
    digits = len(example.stem) - len(example.stem.rstrip("0123456789")) or 6
    prefix = example.stem[:-digits] if example.stem[-digits:].isdigit() else ""
    ending = example.suffix or sequence.ending
    return np.array(
        [f"{sequence.pictures}/{pictures.get(n) or f'{prefix}{n:0{digits}d}{ending}'}" for n in numbers.tolist()],
        object,
    )
