"""COCO-VID JSON: `videos`, images with `video_id` and a 0-based `frame_id`, annotations with `instance_id`.

`file_name` of an image is relative to the dataset's folder, or to its folder `images`; where the pictures are not there
and a file of the video's name is, frames are taken from that file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops import video_info
from polyptrace.data.sources.coco import annotation_files, picture_prefix
from polyptrace.data.sources.labels import histology_name, one_label_per_polyp, size_mm
from polyptrace.data.sources.names import inside, picture_root, relative, video_file, video_folders
from polyptrace.data.sources.records import (
    Record,
    bbox,
    frame_index,
    index_by_id,
    numbers,
    objects,
    place_of,
    text,
    whole,
)


def read_cocovid(
    path: Path,
    *,
    split: str | None = None,
    identities: Literal["track", "polyp"] = "track",
    histology: Mapping[str, str] | None = None,
) -> Boxes:
    """The boxes of a COCO-VID file, or of the files below a folder, of which `split` picks one.

    `instance_id` (or `track_id`) is the track; `identities="polyp"` says that it is the polyp as well (`video/id`). An
    annotation's own `polyp_id` or `identity_id` is the polyp in any case.
    """
    path = Path(path)
    root = picture_root(path)
    rows = [
        row for file in annotation_files(path, split) for row in _read_file(file, root, identities, histology or {})
    ]
    if not rows:
        raise UserError(f"{path}: holds no box -> is this the right file?")
    table = Boxes.of(**{name: [row[name] for row in rows] for name in rows[0]})
    one_label_per_polyp(table)
    return table


def _read_file(path: Path, root: Path, identities: str, histology: Mapping[str, str]) -> list[Record]:
    content = read_json(path)
    videos = objects(content, "videos", path)
    images = objects(content, "images", path)
    annotations = objects(content, "annotations", path)
    video_places = index_by_id(videos, path, "videos")
    image_places = index_by_id(images, path)
    movies = [_video(video, f"{path}: videos[{k}]", root) for k, video in enumerate(videos)]
    prefix = picture_prefix(images, root)
    frames = []
    for k, image in enumerate(images):
        where = f"{path}: images[{k}]"
        movie = movies[place_of(image.get("video_id"), video_places, f"{where}: video_id", "videos")]
        frames.append(_frame(image, movie, where, prefix))
    rows = []
    for k, annotation in enumerate(annotations):
        where = f"{path}: annotations[{k}]"
        frame = frames[place_of(annotation.get("image_id"), image_places, f"{where}: image_id", "images")]
        rows.append(_row(annotation, frame, where, identities, histology) | {"source": relative(path, root), "line": k})
    return rows


def _video(video: Record, where: str, root: Path) -> Record:
    name = inside(text(video.get("name")) or text(video.get("file_name")) or text(video.get("id")), where)
    movie = video_file(video_folders(root), Path(name).stem)
    rate = video.get("fps", video.get("frame_rate"))
    if rate is None and movie:
        rate = video_info(movie).fps
    return {
        "video": name,
        "file": relative(movie, root) if movie else "",
        "fps": np.nan if rate is None else numbers([rate], f"{where}: fps")[0],
        "image_width": whole(video.get("width"), f"{where}: width"),
        "image_height": whole(video.get("height"), f"{where}: height"),
    }


def _frame(image: Record, movie: Record, where: str, prefix: str) -> Record:
    if "frame_id" not in image:
        raise UserError(f"{where}: has no frame_id -> number the frames of each video from 0")
    width, height = whole(image.get("width"), f"{where}: width"), whole(image.get("height"), f"{where}: height")
    file = movie["file"] or prefix + inside(image.get("file_name"), where)
    return movie | {
        "frame_index": frame_index(image["frame_id"], f"{where}: frame_id"),
        "file": file,
        "image_width": width or movie["image_width"],
        "image_height": height or movie["image_height"],
    }


def _row(annotation: Record, frame: Record, where: str, identities: str, histology: Mapping[str, str]) -> Record:
    track = text(annotation.get("instance_id", annotation.get("track_id")))
    polyp = text(annotation.get("polyp_id", annotation.get("identity_id")))
    if identities == "polyp" and track and not polyp:
        polyp = f"{frame['video']}/{track}"
    score = annotation.get("score")
    return frame | {
        "xywh": bbox(annotation.get("bbox"), f"{where}: bbox"),
        "track": track,
        "polyp": polyp,
        "size_mm": size_mm(annotation.get("size_mm", annotation.get("size")), where),
        "histology": histology_name(annotation.get("histology"), where, histology),
        "score": np.nan if score is None else numbers([score], f"{where}: score")[0],
    }
