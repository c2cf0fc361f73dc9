"""COCO JSON: the authors' layout (`rc27`, `rc19`, `rsp`, `rspp`), and a detector's results with scores.

`DATASET/images/*.jpg`, `DATASET/annotations/instances_{train,val,test}.json`. Images carry `frame_id`, `sequence_id`
(video) and `dataset_id`; annotations `identity_id` (polyp), `bbox` (x, y, w, h) and, where known, `size` and
`histology`. Older files have `sequence_id` on the annotation.
"""

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json
from polyptrace.data.boxes import Boxes
from polyptrace.data.sources.labels import histology_name, one_label_per_polyp, size_mm
from polyptrace.data.sources.names import inside, last_number, of_several_videos, picture_root, video_and_frame
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


def read_coco(
    path: Path,
    *,
    split: str | None = None,
    results: Path | None = None,
    histology: Mapping[str, str] | None = None,
) -> Boxes:
    """The boxes of a COCO source, ordered by image id, then as in the file.

    `path` is a dataset folder, where `split` picks `instances_SPLIT.json` (without it: all of them), or one JSON file.
    `results` is a detector's list of `{image_id, bbox, score}`, taken instead of the annotations. `histology` gives
    names of ours for names that are not known: `{"TA": "AD"}`.
    """
    path = Path(path)
    root = picture_root(path)
    files = annotation_files(path, split)
    tables = [_read_file(file, root, results, histology or {}) for file in files]
    table = Boxes.concatenate(tables)
    if len(files) > 1:
        table = _once(table, files)
    if not len(table):
        raise UserError(f"{results or path}: holds no box -> is this the right file?")
    one_label_per_polyp(table)
    return table


def annotation_files(path: Path, split: str | None) -> list[Path]:
    """The JSON files of a source: the one given, or those in its folder, by split."""
    if path.is_file():
        return [path]
    folder = path / "annotations" if (path / "annotations").is_dir() else path
    every = sorted(folder.glob("instances_*.json")) or sorted(folder.glob("*.json"))
    found = [file for file in every if file.stem in (split, f"instances_{split}")] if split else every
    if split and every and not found:
        splits = ", ".join(file.stem.removeprefix("instances_") for file in every)
        raise UserError(f"{folder}: has no split {split!r} -> --split is one of {splits}")
    if not found:
        wanted = f"instances_{split or '*'}.json"
        raise UserError(
            f"{folder}: no {wanted} in it -> give a folder with annotations/{wanted}, or the JSON file itself"
        )
    return found


def _once(table: Boxes, files: list[Path]) -> Boxes:
    """Boxes that several splits share are taken once."""
    key = zip(table.file, table.polyp, *(column.tolist() for column in table.xywh.T), strict=True)
    seen: dict[Any, int] = {}
    for row, name in enumerate(key):
        seen.setdefault(name, row)
    names = ", ".join(file.name for file in files)
    warnings.warn(f"read {names} together; pick one with --split", stacklevel=3)
    return table.take(np.fromiter(seen.values(), np.int64))


def _read_file(path: Path, root: Path, results: Path | None, histology: Mapping[str, str]) -> Boxes:
    content = read_json(path)
    if isinstance(content, list):
        raise UserError(
            f"{path}: is a list of detections and does not say what the images are "
            "-> give the dataset's JSON as the path, and this file with --results"
        )
    images = objects(content, "images", path)
    by_id = index_by_id(images, path)
    source = results or path
    if results:
        detections = read_json(results)
        name = "annotations" if isinstance(detections, dict) else ""
        annotations = objects(detections, name, results)
        place = _image_of_results(annotations, by_id, images, results)
    else:
        annotations = objects(content, "annotations", path)
        place = [
            place_of(annotation.get("image_id"), by_id, f"{path}: annotations[{k}]: image_id", "images")
            for k, annotation in enumerate(annotations)
        ]
    by_image = [image["id"] for image in images] if all(isinstance(key, int) for key in by_id) else range(len(images))
    order = sorted(range(len(annotations)), key=lambda k: by_image[place[k]])
    prefix = picture_prefix(images, root)
    pictures = [_picture(image, f"{path}: images[{k}]", prefix) for k, image in enumerate(images)]
    mixed = _mixed_folders(images) if not all(picture["video"] for picture in pictures) else set()
    info = content["info"] if isinstance(content.get("info"), dict) else {}
    rate = info.get("fps")
    rows = [
        _row(annotations[k], images[place[k]], pictures[place[k]], f"{source}: annotations[{k}]", histology, mixed)
        for k in order
    ]
    _say_disagreements(rows, source)
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    columns.pop("derived", None)
    columns["fps"] = [_rate(images[place[k]].get("fps", rate), f"{path}: images[{place[k]}]") for k in order]
    empty: Record = {"video": [], "frame_index": [], "xywh": []}
    return Boxes.of(**{**empty, **columns}, generated=info.get("generated") is True, source=source.name, line=order)


def _image_of_results(results: list[Record], by_id: Mapping[Any, int], images: list[Record], path: Path) -> list[int]:
    """Images of detections, by id or, as some detectors write, by the file's name without its ending."""
    names = {PurePosixPath(str(image.get("file_name"))).stem: k for k, image in enumerate(images)}
    either = {**names, **{str(k): place for k, place in by_id.items() if str(k) not in names}, **by_id}
    return [
        place_of(result.get("image_id"), either, f"{path}: [{k}]: image_id", "images")
        for k, result in enumerate(results)
    ]


def picture_prefix(images: list[Record], root: Path) -> str:
    """`images/`, unless the file names are already relative to the root."""
    first = images[0].get("file_name") if images else None
    if isinstance(first, str) and (first.startswith("images/") or (root / first).is_file()):
        return ""
    return "images/"


def _picture(image: Record, where: str, prefix: str) -> Record:
    """What an image says of itself: file, frame, size, and video where it is there."""
    name = inside(image.get("file_name"), where)
    frame = frame_index(image["frame_id"], f"{where}: frame_id") if "frame_id" in image else last_number(name)
    if frame is None:
        raise UserError(f"{where}: has no frame_id, and {name!r} has no number -> add frame_id")
    return {
        "file": prefix + name,
        "frame_index": frame,
        "image_width": whole(image.get("width"), f"{where}: width"),
        "image_height": whole(image.get("height"), f"{where}: height"),
        "dataset": text(image.get("dataset_id")),
        "video": text(image.get("sequence_id")),
    }


def _mixed_folders(images: list[Record]) -> set[str]:
    """Folders in which pictures of several videos lie."""
    names: dict[str, list[str]] = {}
    for image in images:
        names.setdefault(str(PurePosixPath(image["file_name"]).parent), []).append(image["file_name"])
    return {folder for folder, inside_it in names.items() if of_several_videos(inside_it)}


def _row(
    annotation: Record, image: Record, picture: Record, where: str, histology: Mapping[str, str], mixed: Collection[str]
) -> Record:
    polyp = text(annotation.get("identity_id"))
    derived = _video_of(polyp)
    video = picture["video"] or text(annotation.get("sequence_id")) or derived or text(image.get("video_id"))
    if not video:
        name = PurePosixPath(image["file_name"])
        video = video_and_frame(name, "", where, str(name.parent) in mixed)[0]
    if not video:
        raise UserError(f"{where}: its image has no sequence_id -> add the video's name as sequence_id")
    score = annotation.get("score")
    return {
        **picture,
        "video": video,
        "xywh": bbox(annotation.get("bbox"), f"{where}: bbox"),
        "polyp": polyp,
        "track": text(annotation.get("track_id")),
        "size_mm": size_mm(annotation.get("size"), where),
        "histology": histology_name(annotation.get("histology"), where, histology),
        "score": np.nan if score is None else numbers([score], f"{where}: score")[0],
        "derived": derived,
    }


def _video_of(identity: str) -> str:
    """The video of an identity where nothing else says it, by the rule of the authors' files."""
    if any(name in identity for name in ("dataset0", "dataset1", "dataset2")):
        return identity
    if "dataset3" in identity:  # REAL-Colon: dataset3_004-005_1
        return identity.rpartition("_")[0]
    return identity.partition("_")[0]


def _say_disagreements(rows: list[Record], source: Path) -> None:
    differ = [row for row in rows if row["derived"] and row["derived"] != row["video"]]
    if differ:
        row = differ[0]
        warnings.warn(
            f"{source}: {len(differ):,} of {len(rows):,} boxes have an identity_id that names another video than "
            f"sequence_id does ({row['polyp']!r}: {row['derived']!r}, not {row['video']!r}); sequence_id is taken",
            stacklevel=5,
        )


def _rate(value: object, where: str) -> float:
    return np.nan if value is None else numbers([value], f"{where}: fps")[0]
