"""YOLO: one text file per frame, `class cx cy w h [score] [track]` per line, in fractions of the picture.

`labels/…/NAME_000012.txt` belongs to `images/…/NAME_000012.jpg`; the folder, or what precedes the number, is the video.
Without a picture the number is a frame of the video file NAME.mp4, counted from 1 as detectors write it. The last of
six values is a score if any in the source is not a whole number, otherwise a track.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
from PIL import Image

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes, Floats, Ints
from polyptrace.data.crops import video_info
from polyptrace.data.sources.labels import qualified
from polyptrace.data.sources.paths import (
    folders_below,
    names_in,
    natural,
    of_several_videos,
    picture_root,
    pictures_by_stem,
    prefix_of,
    relative,
    split_folder,
    video_and_frame,
    video_file,
    video_folders,
    why_no_video,
)
from polyptrace.data.sources.reading import decode, number_rows, read_small_files

_COLUMNS = ("class", "cx", "cy", "w", "h", "sixth", "seventh")
_NOT_FRAMES = ("classes.txt", "readme.txt", "train.txt", "val.txt", "test.txt", "obj.names", "labels.txt")


@dataclass(frozen=True)
class _Frame:
    """The boxes of one file, and the picture or video they belong to."""

    path: Path
    video: str
    index: int
    file: str
    size: tuple[int, int]
    fps: float
    rows: Floats  # (n, 7)
    lines: Ints
    source: str


@dataclass(frozen=True)
class _Video:
    """A video file, relative to the root."""

    file: str
    size: tuple[int, int]
    fps: float


def read_yolo(
    path: Path,
    *,
    split: str | None = None,
    identities: Literal["track", "polyp"] = "track",
    image_size: tuple[int, int] | None = None,
    first_frame: int = 1,
) -> Boxes:
    """The boxes of a YOLO source; `split` is a folder of `labels`.

    `image_size` (width, height) is needed only if neither pictures nor video files exist. `first_frame` is the number
    of a video file's first frame in the names of the labels.
    """
    path = Path(path)
    root = picture_root(path)
    if not path.is_dir():
        raise UserError(f"{path}: no such folder -> give the folder that contains labels/ and images/")
    labels = path / "labels" if (path / "labels").is_dir() else path
    frames = list(_frames(split_folder(labels, split), labels, root, image_size, first_frame))
    if not frames:
        raise UserError(f"{labels}: no text file contains a box -> was the detector run with labels saved?")
    return _table(frames, identities)


def _frames(
    start: Path, labels: Path, root: Path, image_size: tuple[int, int] | None, first_frame: int
) -> Iterator[_Frame]:
    """Every file with a box, folder by folder."""
    places = [*video_folders(root), labels]
    videos: dict[str, _Video | None] = {}
    for folder in folders_below(start):
        names = [name for name in names_in(folder, ".txt") if name.lower() not in _NOT_FRAMES]
        pictures = _pictures(folder, labels, root)
        mixed = of_several_videos(names)
        last_size: tuple[int, int] | None = None
        for name, content in read_small_files(folder, sorted(names, key=natural)):
            text = folder / name
            rows, lines = number_rows(decode(content, text), text, _COLUMNS, 5)
            if not len(rows):
                continue
            within = PurePosixPath(text.relative_to(start).as_posix())
            video, index = video_and_frame(within, root.resolve().name, str(text), mixed)
            stem = PurePosixPath(video).name
            fps = np.nan
            if picture := pictures.get(Path(name).stem):
                file, size = picture, _picture_size(root / picture)
                last_size = size
            elif known := videos[stem] if stem in videos else videos.setdefault(stem, _video(places, stem, root)):
                file, size, fps = known.file, known.size, known.fps
                index = _counted_from_zero(index, first_frame, text)
            else:  # a missing picture has the size of its neighbours
                file, size = _expected(text, labels, pictures), image_size or last_size or (0, 0)
                if not size[0]:
                    reason = why_no_video(places, stem)
                    raise UserError(f"{text}: has no picture, and {reason}, or give --image-size WIDTHxHEIGHT")
            yield _Frame(text, video, index, file, size, fps, rows, lines, prefix_of(folder, root) + name)


def _pictures(folder: Path, labels: Path, root: Path) -> dict[str, str]:
    """Pictures of a folder of labels by their stems: in `images/…`, or beside the labels."""
    for place in (labels.parent / "images" / folder.relative_to(labels), folder):
        if place.absolute().is_relative_to(root.absolute()) and (pictures := pictures_by_stem(place)):
            return {stem: prefix_of(place, root) + name for stem, name in pictures.items()}
    return {}


def _picture_size(file: Path) -> tuple[int, int]:
    try:
        with Image.open(file) as picture:  # reads only the header
            return picture.size
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"{file}: its size cannot be read ({error}) -> restore the picture") from None


def _video(places: list[Path], stem: str, root: Path) -> _Video | None:
    file = video_file(places, stem)
    if file is None:
        return None
    info = video_info(file)
    return _Video(relative(file, root), (info.width, info.height), info.fps)


def _counted_from_zero(index: int, first_frame: int, text: Path) -> int:
    if index < first_frame:
        raise UserError(
            f"{text}: frame {index}, but frames are counted from {first_frame} -> if this source counts from {index}, "
            f"add --first-frame {index}"
        )
    return index - first_frame


def _expected(text: Path, labels: Path, pictures: dict[str, str]) -> str:
    """The name that a missing picture would have."""
    if pictures:
        example = PurePosixPath(next(iter(pictures.values())))
        return str(example.with_name(text.stem + example.suffix))
    return str(PurePosixPath("images") / text.relative_to(labels).with_suffix(".jpg").as_posix())


def _table(frames: list[_Frame], identities: str) -> Boxes:
    of = np.repeat(np.arange(len(frames)), [len(frame.rows) for frame in frames])  # frame of each row
    rows = np.concatenate([frame.rows for frame in frames])
    lines = np.concatenate([frame.lines for frame in frames])
    size = np.array([frame.size for frame in frames], np.float64)[of]
    video = np.array([frame.video for frame in frames], object)[of]
    score, track = _scores_and_tracks(rows, [frames[k].path for k in of], lines)
    centre, extent = rows[:, 1:3] * size, rows[:, 3:5] * size
    return Boxes.of(
        video=video,
        frame_index=np.array([frame.index for frame in frames], np.int64)[of],
        xywh=np.concatenate([centre - extent / 2, extent], 1),
        file=np.array([frame.file for frame in frames], object)[of],
        image_width=size[:, 0],
        image_height=size[:, 1],
        track=track,
        polyp=[qualified(*pair) for pair in zip(video, track, strict=True)] if identities == "polyp" else "",
        score=score,
        fps=np.array([frame.fps for frame in frames])[of],
        source=np.array([frame.source for frame in frames], object)[of],
        line=lines,
    )


def _scores_and_tracks(rows: Floats, paths: list[Path], lines: Ints) -> tuple[Floats, list[str]]:
    """The values after the box: score and track, or one of them."""
    sixth, seventh = rows[:, 5], rows[:, 6]
    unknown = np.full(len(rows), np.nan)
    if not np.all(np.isnan(seventh)):
        score, track = sixth, seventh
    elif np.any(np.isfinite(sixth) & (sixth != np.floor(sixth))):
        score, track = sixth, unknown
    else:
        score, track = unknown, sixth
    wrong = np.flatnonzero(~np.isnan(track) & (track != np.floor(track)) | np.isinf(track))
    if len(wrong):
        row = wrong[0]
        raise UserError(f"{paths[row]}:{lines[row]}: track is {track[row]:g}, not a whole number -> correct it")
    return score, ["" if np.isnan(value) or value < 0 else f"{value:.0f}" for value in track.tolist()]
