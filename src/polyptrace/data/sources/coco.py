"""COCO JSON: the authors' files, detector results, and COCO-VID.

The authors' layout (`rc27`, `rc19`, `rsp`, `rspp`) is `DATASET/images/*.jpg` and
`DATASET/annotations/instances_{train,val,test}.json`. Images have `frame_id`, `sequence_id` (the video) and
`dataset_id`; annotations have `identity_id` (the polyp), `bbox` (x, y, w, h) and, where known, `size` and `histology`.
Older files have `sequence_id` on the annotation.

COCO-VID adds a list `videos`; images have `video_id` and a 0-based `frame_id`, annotations `instance_id` or `track_id`.

File names are relative to the dataset's folder or to its folder `images`.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError, warn
from polyptrace.core.files import read_json
from polyptrace.data.boxes import NO_FRAME, Boxes
from polyptrace.data.crops.videos import VideoInfo, video_info
from polyptrace.data.sources import file_names
from polyptrace.data.sources.box_labels import BoxRow, label_columns, labelled_boxes, text_of
from polyptrace.data.sources.reading import frame_rate, integer, number

Record = dict[str, Any]  # an object of the file


def read_coco(
    path: Path,
    *,
    split: str | None = None,
    results: Path | None = None,
    histology: Mapping[str, str] | None = None,
) -> Boxes:
    """The boxes of a COCO source, ordered by image id, then as in the file.

    `path` is a JSON file, or a dataset folder in which `split` selects `instances_SPLIT.json` (default: all of them).
    `results` is a detector's list of `{image_id, bbox, score}`, used instead of the annotations. `histology` maps other
    names to known ones: `{"TA": "AD"}`.
    """
    path = Path(path)
    files = _annotation_files(path, split)
    rows = [row for file in files for row in _rows(file, file_names.image_root(path), results, histology or {})]
    if len(files) > 1:
        warn(f"read {', '.join(file.name for file in files)} together; 'prepare coco --split' selects one")
        unique: dict[tuple[object, ...], BoxRow] = {}
        for row in rows:
            unique.setdefault((row["file"], row["polyp"], *row["xywh"]), row)
        rows = list(unique.values())
    return labelled_boxes(rows, f"{results or path}: contains no box -> is this the right file?")


def read_cocovid(
    path: Path,
    *,
    split: str | None = None,
    identities: Literal["track", "polyp"] = "track",
    histology: Mapping[str, str] | None = None,
) -> Boxes:
    """The boxes of a COCO-VID file, or of the files in a folder, from which `split` selects one.

    `instance_id` or `track_id` is the track, with `identities="polyp"` also the polyp. `polyp_id` and `identity_id`
    always name the polyp. If a video file with the video's name exists, frames are taken from it.
    """
    path = Path(path)
    files = _annotation_files(path, split)
    rows = [
        row for file in files for row in _rows(file, file_names.image_root(path), None, histology or {}, identities)
    ]
    return labelled_boxes(rows, f"{path}: contains no box -> is this the right file?")


def _annotation_files(path: Path, split: str | None) -> list[Path]:
    """The JSON file given, or those in a folder, selected by split."""
    if path.is_file():
        return [path]
    folder = path / "annotations" if (path / "annotations").is_dir() else path
    names = file_names.names_in(folder, ".json")
    stems = {name: Path(name).stem.removeprefix("instances_") for name in names if name.startswith("instances_")}
    stems = stems or {name: Path(name).stem for name in names}
    selected = [folder / name for name, stem in stems.items() if split in (None, stem)]
    if stems and not selected:
        raise UserError(f"{folder}: has no split {split!r} -> --split is one of {', '.join(stems.values())}")
    if not selected:
        wanted = f"instances_{split or '*'}.json"
        raise UserError(f"{folder}: no {wanted} -> give a folder with annotations/{wanted}, or the JSON file itself")
    return selected


def _rows(
    path: Path, root: Path, results: Path | None, histology: Mapping[str, str], identities: str | None = None
) -> list[BoxRow]:
    """The boxes of a file; with `identities`, of a COCO-VID file, in which every image names its video."""
    content = read_json(path)
    if isinstance(content, list):
        raise UserError(f"{path}: contains detections only -> give the dataset's JSON, and this file with --results")
    images = [_with_slashes(image) for image in _records(content, "images", path)]
    by_id = _index_by_id(images, "images", path)
    if results:
        detections = read_json(results)
        detections = {"annotations": detections} if isinstance(detections, list) else detections
        annotations = _records(detections, "annotations", results)
        by_id = _by_id_or_name(images, by_id)
    else:
        annotations = _records(content, "annotations", path)
    frames = _frames(content, images, path, root, of_videos=identities is not None)
    mixed = _mixed_folders(images) if not all(frame["video"] for frame in frames) else set()
    rows, disagreeing = [], []
    for k, annotation in enumerate(annotations):
        where = f"{results or path}: annotations[{k}]"
        index = _lookup(annotation.get("image_id"), by_id, f"{where}: image_id", "images")
        named = _video_of_identity(text_of(annotation.get("identity_id"))) if identities is None else ""
        video = frames[index]["video"] or text_of(annotation.get("sequence_id")) or named
        video = video or _video_of_image(images[index], mixed, where)
        if named not in ("", video):
            disagreeing.append(f"{text_of(annotation['identity_id'])!r}: {named!r}, not {video!r}")
        labels = label_columns(annotation, video, where, histology, identities or "track")
        source = results.name if results else file_names.relative(path, root)
        box = {"video": video, "xywh": _bbox(annotation, where), "source": source, "line": k}
        rows.append((index, frames[index] | labels | box))
    if disagreeing:
        warn(
            f"{results or path}: {len(disagreeing):,} of {len(rows):,} boxes have an identity_id that names another "
            f"video than sequence_id ({disagreeing[0]}); sequence_id is used"
        )
    numeric = all(isinstance(image["id"], int) for image in images)
    return [row for _, row in sorted(rows, key=lambda pair: images[pair[0]]["id"] if numeric else pair[0])]


def _by_id_or_name(images: list[Record], by_id: dict[Any, int]) -> dict[Any, int]:
    """Images of detections, by id or, as some detectors write, by the file's stem."""
    names = {PurePosixPath(str(image.get("file_name"))).stem: k for k, image in enumerate(images)}
    return {str(key): k for key, k in by_id.items()} | names | by_id


def _frames(content: Record, images: list[Record], path: Path, root: Path, of_videos: bool) -> list[BoxRow]:
    """Columns of each image's boxes; `of_videos`: of COCO-VID. `video` is "" if the image does not name it."""
    videos = _records(content, "videos", path) if of_videos else []
    by_id = _index_by_id(videos, "videos", path)
    columns = [_video_columns(video, f"{path}: videos[{k}]", root) for k, video in enumerate(videos)]
    info = content["info"] if isinstance(content.get("info"), dict) else {}
    prefix = _picture_prefix(images, root)
    frames = []
    for k, image in enumerate(images):
        where = f"{path}: images[{k}]"
        if of_videos:
            video = columns[_lookup(image.get("video_id"), by_id, f"{where}: video_id", "videos")]
        else:
            video = {
                "dataset": text_of(image.get("dataset_id")),
                "video": text_of(image.get("sequence_id")),
                "file": "",
                "fps": frame_rate(image.get("fps", info.get("fps")), f"{where}: fps"),
                "generated": info.get("generated") is True,
            }
        name = "" if video["file"] else file_names.inside(image.get("file_name"), where)
        of_image = {
            "file": video["file"] or prefix + name,
            "frame_index": _frame_index(image, name, where, of_videos),
            "image_width": _pixels(image, "width", where) or video.get("image_width", 0),
            "image_height": _pixels(image, "height", where) or video.get("image_height", 0),
        }
        frames.append(video | of_image)
    return frames


def _video_of_identity(identity: str) -> str:
    """The video that an identity of the authors' files names; "" for a plain number."""
    if any(name in identity for name in ("dataset0", "dataset1", "dataset2")):
        return identity
    if "dataset3" in identity:  # REAL-Colon: dataset3_004-005_1
        return identity.rpartition("_")[0]
    return "" if identity.isdecimal() else identity.partition("_")[0]


def _video_of_image(image: Record, mixed: Collection[str], where: str) -> str:
    """The video of an image without sequence_id: its `video_id`, or what its file name says."""
    name = PurePosixPath(image["file_name"])
    video = text_of(image.get("video_id")) or file_names.video_and_frame(name, "", where, str(name.parent) in mixed)[0]
    if not video:
        raise UserError(f"{where}: its image has no sequence_id -> add the video's name as sequence_id")
    return video


def _mixed_folders(images: list[Record]) -> set[str]:
    """Folders that hold images of several videos."""
    names: dict[str, list[str]] = {}
    for image in images:
        names.setdefault(str(PurePosixPath(image["file_name"]).parent), []).append(image["file_name"])
    return {folder for folder, members in names.items() if file_names.of_several_videos(members)}


def _video_columns(video: Record, where: str, root: Path) -> BoxRow:
    """Columns of the boxes of a video of COCO-VID; `file` is "" without a video file."""
    name = file_names.inside(
        text_of(video.get("name")) or text_of(video.get("file_name")) or text_of(video.get("id")), where
    )
    folders, last = file_names.video_folders(root), PurePosixPath(name)  # with an ending or not, which may have dots
    file = file_names.video_file(folders, last.name) or file_names.video_file(folders, last.stem)
    rate = frame_rate(video.get("fps", video.get("frame_rate")), f"{where}: fps")
    info = video_info(file) if file else VideoInfo()
    return {
        "video": name,
        "file": file_names.relative(file, root) if file else "",
        "fps": rate if np.isfinite(rate) else info.fps,
        "generated": info.generated,
        "image_width": _pixels(video, "width", where),
        "image_height": _pixels(video, "height", where),
    }


def _records(content: object, name: str, path: Path) -> list[Record]:
    """The list of objects under `name`."""
    records = content.get(name) if isinstance(content, dict) else None
    if not isinstance(records, list):
        raise UserError(f"{path}: has no list {name!r} -> give a COCO file")
    for k, record in enumerate(records):
        if not isinstance(record, dict):
            raise UserError(f"{path}: {name}[{k}]: is not a JSON object -> correct or remove it")
    return records


def _with_slashes(image: Record) -> Record:
    """An image's record with forward slashes in its file name; Windows programs write backslashes."""
    name = image.get("file_name")
    return image | {"file_name": name.replace("\\", "/")} if isinstance(name, str) else image


def _index_by_id(records: list[Record], name: str, path: Path) -> dict[Any, int]:
    """Index of each record by its `id`."""
    index: dict[Any, int] = {}
    for k, record in enumerate(records):
        key = record.get("id")
        if not isinstance(key, int | str):
            raise UserError(f"{path}: {name}[{k}]: has no id -> give each of {name} a number")
        if key in index:
            raise UserError(f"{path}: {name}[{k}]: id {key!r} is also that of {name}[{index[key]}] -> make ids unique")
        index[key] = k
    return index


def _lookup(key: object, index: Mapping[Any, int], where: str, name: str) -> int:
    if isinstance(key, int | str) and key in index:
        return index[key]
    raise UserError(f"{where} {str(key)[:40]!r} is not among the {name} -> add it, or correct the id")


def _picture_prefix(images: list[Record], root: Path) -> str:
    """`images/`, unless the file names are already relative to the root."""
    first = images[0].get("file_name") if images else None
    # unlike Path.is_file, os.path.isfile is False for a name that is too long
    if isinstance(first, str) and (first.startswith("images/") or os.path.isfile(root / first)):  # noqa: PTH113
        return ""
    return "images/"


def _bbox(annotation: Record, where: str) -> list[float]:
    box = annotation.get("bbox")
    if not isinstance(box, list) or not set(map(type, box)) <= {int, float}:
        raise UserError(f"{where}: bbox: {str(box)[:60]} is not a list of numbers -> correct or remove it")
    if len(box) != 4:
        raise UserError(f"{where}: bbox: has {counted(len(box), 'number')} -> a box is x, y, w, h")
    return [number(value, f"{where}: bbox") for value in box]


def _frame_index(image: Record, name: str, where: str, of_videos: bool) -> int:
    """A frame's number, from its record or the name of its file; NO_FRAME for one like 4.5, which `check` reports."""
    if "frame_id" in image:
        value = image["frame_id"]
        return NO_FRAME if isinstance(value, float) and not value.is_integer() else integer(value, f"{where}: frame_id")
    if of_videos:
        raise UserError(f"{where}: has no frame_id -> number the frames of each video from 0")
    index = file_names.last_number(name)
    if index is None:
        raise UserError(f"{where}: has no frame_id, and {name!r} has no number -> add frame_id")
    return index


def _pixels(record: Record, side: str, where: str) -> int:
    return 0 if record.get(side) is None else integer(record[side], f"{where}: {side}")
