"""YOLO: one text file per frame, `class cx cy w h [score] [track]` per line, in fractions of the image.

`labels/…/NAME_000012.txt` belongs to `images/…/NAME_000012.jpg`; the folder, or what precedes the number, is the video.
Without an image the number is a frame of the video file NAME.mp4, counted from 1 as detectors write it. The last of
six values is a score if any in the source is not a whole number, otherwise a track.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
from PIL import Image

from polyptrace.core.arrays import Floats
from polyptrace.core.codec import orientation
from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops.videos import VideoInfo, video_info
from polyptrace.data.sources import file_names
from polyptrace.data.sources.box_labels import BoxRow, qualified
from polyptrace.data.sources.reading import NoBoxError, number_rows, read_text

_COLUMNS = ("class", "cx", "cy", "w", "h", "sixth", "seventh")
_NOT_FRAMES = ("classes.txt", "readme.txt", "train.txt", "val.txt", "test.txt", "obj.names", "labels.txt")


def read_yolo(
    path: Path,
    *,
    split: str | None = None,
    identities: Literal["track", "polyp"] = "track",
    image_size: tuple[int, int] | None = None,
    first_frame: int = 1,
    video: Path | None = None,
) -> Boxes:
    """The boxes of a YOLO source; `split` is a folder of `labels`.

    `image_size` (width, height) is needed only if neither images nor video files exist. `first_frame` is the number
    of a video file's first frame in the names of the labels. `video` is the video file of labels without any.
    """
    path = Path(path)
    root = file_names.image_root(path)
    if not path.is_dir():
        raise UserError(f"{path}: no such folder -> give the folder that contains labels/ and images/")
    labels = path / "labels" if (path / "labels").is_dir() else path
    rows = list(_rows(file_names.split_folder(labels, split), labels, root, image_size, first_frame, video))
    if not rows:
        raise NoBoxError(f"{labels}: no text file contains a box -> was the detector run with labels saved?")
    for row, score, track in zip(rows, *_scores_and_tracks(rows, root), strict=True):
        polyp = qualified(row["video"], track) if identities == "polyp" else ""
        row |= {"score": score, "track": track, "polyp": polyp}
    return Boxes.of_rows(rows)


def _rows(
    start: Path,
    labels: Path,
    root: Path,
    image_size: tuple[int, int] | None,
    first_frame: int,
    otherwise: Path | None,
) -> Iterator[BoxRow]:
    """Every box, folder by folder, with the sixth and seventh value of its line; `otherwise` is a video file."""
    folders = [*file_names.video_folders(root), labels]
    video_of = cache(lambda stem: _video(folders, stem, root, otherwise))
    for folder, texts in file_names.files_by_folder(start, ".txt").items():
        names = [name for name in texts if name.lower() not in _NOT_FRAMES]
        pictures = _pictures(folder, labels, root)
        mixed = file_names.of_several_videos(names)
        size = image_size
        for name in names:
            text = folder / name
            values, lines = number_rows(read_text(text), text, _COLUMNS, 5)
            if not len(values):
                continue
            within = PurePosixPath(text.relative_to(start).as_posix())
            video, index = file_names.video_and_frame(within, root.resolve().name, str(text), mixed)
            stem = PurePosixPath(video).name
            if picture := pictures.get(text.stem):
                own_size = _picture_size(root / picture)
                media, size = _media(picture, VideoInfo(*own_size)), image_size or own_size
            elif known := video_of(stem):
                media, index = known, _counted_from_zero(index, first_frame, text)
            elif size:  # a missing image has the size of its neighbours
                media = _media(_expected(text, labels, pictures), VideoInfo(*size))
            else:
                reason = file_names.why_no_video(folders, stem)
                raise UserError(f"{text}: has no image, and {reason}, or give --image-size WIDTHxHEIGHT")
            source = file_names.prefix_of(folder, root) + name
            columns = media | {"video": video, "frame_index": index, "source": source}
            width, height = media["image_width"], media["image_height"]
            for (_, cx, cy, w, h, sixth, seventh), line in zip(values.tolist(), lines.tolist(), strict=True):
                xywh = ((cx - w / 2) * width, (cy - h / 2) * height, w * width, h * height)
                yield columns | {"xywh": xywh, "line": line, "score": sixth, "track": seventh}


def _pictures(folder: Path, labels: Path, root: Path) -> dict[str, str]:
    """Images of a folder of labels by their stems: in `images/…`, or next to the labels."""
    for parent in (labels.parent / "images" / folder.relative_to(labels), folder):
        if parent.absolute().is_relative_to(root.absolute()) and (pictures := file_names.pictures_by_stem(parent)):
            return {stem: file_names.prefix_of(parent, root) + name for stem, name in pictures.items()}
    return {}


def _picture_size(file: Path) -> tuple[int, int]:
    """Width and height as displayed."""
    try:
        with Image.open(file) as picture:  # reads only the header
            width, height = picture.size
            return (height, width) if orientation(picture) >= 5 else (width, height)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UserError(f"{file}: its size cannot be read ({error}) -> restore the image") from None


def _media(file: str, info: VideoInfo) -> BoxRow:
    """Columns of the boxes in an image or a video file, whose name is relative to the root."""
    size = {"image_width": info.width, "image_height": info.height}
    return {"file": file, **size, "fps": info.fps, "generated": info.generated}


def _video(folders: list[Path], stem: str, root: Path, otherwise: Path | None) -> BoxRow | None:
    if file := file_names.video_file(folders, stem):
        return _media(file_names.relative(file, root), video_info(file))
    return _media(str(otherwise.absolute()), video_info(otherwise)) if otherwise else None


def _counted_from_zero(index: int, first_frame: int, text: Path) -> int:
    if index < first_frame:
        raise UserError(
            f"{text}: frame {index}, but frames are counted from {first_frame} -> if this source counts from {index}, "
            f"give 'polyptrace prepare' --first-frame {index}; for other commands, add 1 to the numbers of its files"
        )
    return index - first_frame


def _expected(text: Path, labels: Path, pictures: dict[str, str]) -> str:
    """The name that a missing image would have."""
    if pictures:
        example = PurePosixPath(next(iter(pictures.values())))
        return str(example.with_name(text.stem + example.suffix))
    return str(PurePosixPath("images") / text.relative_to(labels).with_suffix(".jpg").as_posix())


def _scores_and_tracks(rows: list[BoxRow], root: Path) -> tuple[Floats, list[str]]:
    """The values after the box, in which score and track stand for the sixth and the seventh: both, or one of them."""
    sixth, seventh = np.array([(row["score"], row["track"]) for row in rows]).T
    unknown = np.full(len(rows), np.nan)
    if not np.all(np.isnan(seventh)):
        score, track = sixth, seventh
    elif np.any(np.isfinite(sixth) & (sixth != np.floor(sixth))):
        score, track = sixth, unknown
    else:
        score, track = unknown, sixth
    wrong = np.flatnonzero(~np.isnan(track) & (track != np.floor(track)) | np.isinf(track))
    if len(wrong):
        row = rows[wrong[0]]
        where = f"{root / row['source']}:{row['line']}"
        raise UserError(f"{where}: track is {track[wrong[0]]:g}, not a whole number -> correct it")
    return score, ["" if np.isnan(value) or value < 0 else f"{value:.0f}" for value in track.tolist()]
