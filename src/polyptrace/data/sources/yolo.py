"""YOLO: one text file per frame, `class cx cy w h [score] [track]` per line, in fractions of the picture.

`labels/…/NAME_000012.txt` beside `images/…/NAME_000012.jpg`; the folder, or what stands before the number, is the
video. Where there is no picture but a video file NAME.mp4 (beside the labels' folder, or in `videos/`), the number is
its frame, counted from 1 as detectors write it. Six values: the last is a score if any in the source is no whole
number, else a track.
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
from polyptrace.data.sources.names import (
    PICTURES,
    folders_below,
    natural,
    of_several_videos,
    picture_root,
    relative,
    split_folder,
    video_and_frame,
    video_file,
    video_folders,
)
from polyptrace.data.sources.small_files import names_in, read_small_files
from polyptrace.data.sources.text import decode, number_rows

_COLUMNS = ("class", "cx", "cy", "w", "h", "sixth", "seventh")
_NOT_FRAMES = ("classes.txt", "readme.txt", "train.txt", "val.txt", "test.txt", "obj.names", "labels.txt")


@dataclass(frozen=True)
class _Frame:
    """The boxes of one file and where its picture is."""

    path: Path
    video: str
    index: int
    file: str
    size: tuple[int, int]
    fps: float
    rows: Floats  # (n, 7)
    lines: Ints
    source: str


def read_yolo(
    path: Path,
    *,
    split: str | None = None,
    identities: Literal["track", "polyp"] = "track",
    image_size: tuple[int, int] | None = None,
    first_frame: int = 1,
) -> Boxes:
    """The boxes of a YOLO source; `split` is a folder of `labels`.

    `image_size` (width, height) is needed only where neither picture nor video file is there to tell it. `first_frame`
    is the number that the first frame of a video file has in the labels' names.
    """
    path = Path(path)
    root = picture_root(path)
    if not path.is_dir():
        raise UserError(f"{path}: no such folder -> give the folder that holds labels/ and images/")
    labels = path / "labels" if (path / "labels").is_dir() else path
    frames = list(_frames(split_folder(labels, split), labels, root, image_size, first_frame))
    if not frames:
        raise UserError(f"{labels}: no text file in it holds a box -> was the detector run with labels saved?")
    return _table(frames, identities)


def _frames(
    start: Path, labels: Path, root: Path, image_size: tuple[int, int] | None, first_frame: int
) -> Iterator[_Frame]:
    """Every file with a box, folder by folder."""
    movies = video_folders(root)
    for folder in folders_below(start):
        names = [name for name in names_in(folder, ".txt") if name.lower() not in _NOT_FRAMES]
        pictures = _pictures(folder, labels, root)
        sizes = _Sizes(root, image_size)
        mixed = of_several_videos(names)
        prefix = f"{relative(folder, root)}/".lstrip("/")
        for name, content in read_small_files(folder, sorted(names, key=natural)):
            text = folder / name
            rows, lines = number_rows(decode(content, text), text, _COLUMNS, 5)
            if not len(rows):
                continue
            within = PurePosixPath(text.relative_to(start).as_posix())
            video, index = video_and_frame(within, root.resolve().name, str(text), mixed)
            picture = pictures.get(Path(name).stem)
            movie = None if picture else video_file([*movies, labels], PurePosixPath(video).name)
            if picture:
                file, size, fps = picture, sizes.of_picture(picture), np.nan
            elif movie:
                index -= first_frame
                if index < 0:
                    raise UserError(
                        f"{text}: frame {index + first_frame}, but they are counted from {first_frame}"
                        f" -> if counting begins there, say --first-frame {index + first_frame}"
                    )
                file, (size, fps) = relative(movie, root), sizes.of_video(movie)
            else:
                file, size, fps = _expected(text, labels, pictures), sizes.of_missing(text), np.nan
            yield _Frame(text, video, index, file, size, fps, rows, lines, prefix + name)


class _Sizes:
    """Sizes of pictures and videos, each looked up once; a missing picture has the size of its neighbours."""

    def __init__(self, root: Path, given: tuple[int, int] | None) -> None:
        self._root = root
        self._given = given
        self._last: tuple[int, int] | None = None
        self._videos: dict[Path, tuple[tuple[int, int], float]] = {}

    def of_picture(self, file: str) -> tuple[int, int]:
        try:
            with Image.open(self._root / file) as picture:  # reads the header alone
                self._last = picture.size
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise UserError(f"{self._root / file}: its size cannot be read ({error}) -> restore the picture") from None
        return self._last

    def of_video(self, file: Path) -> tuple[tuple[int, int], float]:
        if file not in self._videos:
            info = video_info(file)
            self._videos[file] = ((info.width, info.height), info.fps)
        return self._videos[file]

    def of_missing(self, text: Path) -> tuple[int, int]:
        size = self._given or self._last
        if size is None:
            raise UserError(
                f"{text}: YOLO boxes are fractions of a picture that is not there -> put pictures into images/, the "
                "video beside labels/, or give --image-size"
            )
        return size


def _pictures(folder: Path, labels: Path, root: Path) -> dict[str, str]:
    """Pictures of a folder of labels by their names without ending: in `images/…`, or beside the labels."""
    inner = folder.relative_to(labels)
    for place in (labels.parent / "images" / inner, folder):
        if place.is_dir() and place.absolute().is_relative_to(root.absolute()):
            names = [name for name in names_in(place, "") if name.lower().endswith(PICTURES)]
            if names:
                prefix = f"{relative(place, root)}/".lstrip("/")
                return {Path(name).stem: prefix + name for name in names}
    return {}


def _expected(text: Path, labels: Path, pictures: dict[str, str]) -> str:
    """The name that a missing picture would have."""
    example = PurePosixPath(next(iter(pictures.values()), "x.jpg"))
    inner = PurePosixPath("images") / text.relative_to(labels).with_suffix(example.suffix).as_posix()
    return str(example.with_name(inner.name) if pictures else inner)


def _table(frames: list[_Frame], identities: str) -> Boxes:
    counts = [len(frame.rows) for frame in frames]
    rows = np.concatenate([frame.rows for frame in frames])
    of = np.repeat(np.arange(len(frames)), counts)  # the frame of each row
    size = np.array([frame.size for frame in frames], np.float64)[of]
    lines = np.concatenate([frame.lines for frame in frames])
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
        polyp=[f"{v}/{t}" if t else "" for v, t in zip(video, track, strict=True)] if identities == "polyp" else "",
        score=score,
        fps=np.array([frame.fps for frame in frames])[of],
        source=np.array([frame.source for frame in frames], object)[of],
        line=lines,
    )


def _scores_and_tracks(rows: Floats, paths: list[Path], lines: Ints) -> tuple[Floats, list[str]]:
    """The values after the box: score and track, or one of them."""
    sixth, seventh = rows[:, 5], rows[:, 6]
    nothing = np.full(len(rows), np.nan)
    if not np.all(np.isnan(seventh)):
        score, track = sixth, seventh
    elif np.any(np.isfinite(sixth) & (sixth != np.floor(sixth))):
        score, track = sixth, nothing
    else:
        score, track = nothing, sixth
    wrong = np.flatnonzero(~np.isnan(track) & (track != np.floor(track)) | np.isinf(track))
    if len(wrong):
        row = wrong[0]
        raise UserError(f"{paths[row]}:{lines[row]}: track is {track[row]:g}, not a whole number -> put it right")
    return score, ["" if value != value or value < 0 else f"{value:.0f}" for value in track.tolist()]
