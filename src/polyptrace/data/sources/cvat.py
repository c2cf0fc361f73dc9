"""CVAT for video 1.1: one XML per task, boxes track by track, frames counted from 0.

A source is such a file, or a folder with one or more of them at any depth. Frames are pictures below the file (in
`images/`, as CVAT exports them), or the video file that the task names. A box with `outside="1"` is not there.
Attributes called polyp, size and histology are read as labels.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal
from xml.etree.ElementTree import Element

import numpy as np

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops import video_info
from polyptrace.data.sources.labels import histology_name, one_label_per_polyp, size_mm
from polyptrace.data.sources.names import (
    VIDEOS,
    folders_below,
    inside,
    numbered_pictures,
    picture_root,
    relative,
    split_folder,
)
from polyptrace.data.sources.records import Record, integer
from polyptrace.data.sources.safe_xml import elements
from polyptrace.data.sources.small_files import names_in
from polyptrace.data.sources.text import number, read_bytes

_STEP = re.compile(r"step\s*=\s*(\d{1,6})", re.ASCII)
_CORNERS = ("xtl", "ytl", "xbr", "ybr")


@dataclass
class _Task:
    """What a file says of its task, and the boxes read so far."""

    meta: dict[str, str] = field(default_factory=dict)
    boxes: list[Record] = field(default_factory=list)
    tasks: int = 0


def read_cvat(
    path: Path,
    *,
    split: str | None = None,
    identities: Literal["track", "polyp"] = "track",
    histology: Mapping[str, str] | None = None,
    first_frame: int = 0,
) -> Boxes:
    """The boxes of CVAT tasks; a track's id is `track`, and with `identities="polyp"` the polyp as well (`video/id`).

    `split` is a folder of `path`. An attribute `polyp` names the polyp in any case (`video/value`). `first_frame` is
    the number that a video's first frame has in the files: 1 where a tool other than CVAT wrote them so.
    """
    path = Path(path)
    root = picture_root(path)
    start = split_folder(path, split) if path.is_dir() else path
    files = [start] if start.is_file() else [f / name for f in folders_below(start) for name in names_in(f, ".xml")]
    if not files:
        raise UserError(f"{start}: no XML file in it -> export the task as 'CVAT for video 1.1'")
    rows = [row for file in files for row in _read_file(file, root, identities, histology or {}, first_frame)]
    if not rows:
        raise UserError(f"{start}: no track in it has a box -> is the task annotated?")
    table = Boxes.of(**{name: [row[name] for row in rows] for name in rows[0]})
    one_label_per_polyp(table)
    return table


def _read_file(path: Path, root: Path, identities: str, histology: Mapping[str, str], first_frame: int) -> list[Record]:
    task = _parse(path)
    width, height = (_whole(task.meta.get(f"original_size/{side}", ""), path, side) for side in ("width", "height"))
    video = relative(path.parent, root) if path.stem == "annotations" and relative(path.parent, root) else ""
    video = video or task.meta.get("name", "") or path.stem
    pictures, movie = _pictures(path, root, task.meta.get("source", ""))
    start, step = _frames_of_task(task.meta, path)
    fps = video_info(root / movie).fps if movie and (root / movie).is_file() else np.nan
    rows = []
    for box in task.boxes:
        attributes = {key.lower(): value for key, value in box["attributes"].items()}
        where = f"{path}:{box['line']}: box of track {box['track'][:40]}, frame {box['frame'][:40]}"
        polyp = attributes.get("polyp") or attributes.get("polyp_id") or (box["track"] if identities == "polyp" else "")
        frame = integer(box["frame"], f"{where}: frame")
        xtl, ytl, xbr, ybr = (number(box[name], f"{where}: {name}") for name in _CORNERS)
        rows.append(
            {
                "video": video,
                "frame_index": start + step * (frame - first_frame) if movie else frame - first_frame,
                "xywh": (xtl, ytl, xbr - xtl, ybr - ytl),
                "file": movie or pictures.get(frame) or f"{_inner(path, root)}images/frame_{frame:06d}.PNG",
                "image_width": width,
                "image_height": height,
                "track": box["track"],
                "polyp": f"{video}/{polyp}" if polyp else "",
                "size_mm": size_mm(attributes.get("size_mm", attributes.get("size")), where),
                "histology": histology_name(attributes.get("histology"), where, histology),
                "fps": fps,
                "source": relative(path, root),
                "line": box["line"],
            }
        )
    return rows


def _parse(path: Path) -> _Task:
    """Meta data and boxes of a file, element by element: files of long videos are large."""
    task = _Task()
    open_tags: list[str] = []
    track: dict[str, str] = {}
    for event, element, line in elements(read_bytes(path), path):
        if event == "start":
            open_tags.append(element.tag)
            if len(open_tags) == 1 and element.tag != "annotations":
                raise UserError(f"{path}:1: root is <{element.tag[:40]}> -> export as 'CVAT for video 1.1'")
            if element.tag == "track" and len(open_tags) == 2:
                track = dict(element.attrib)
            if element.tag == "image" and len(open_tags) == 2:
                raise UserError(f"{path}: is 'CVAT for images' -> export as 'CVAT for video 1.1', which keeps tracks")
            continue
        open_tags.pop()
        if "meta" in open_tags[:2]:
            _read_meta(task, open_tags, element)
        elif element.tag == "box" and open_tags[-1:] == ["track"]:
            _read_box(task, track, element, path, line)
        elif element.tag in ("track", "meta"):
            element.clear()
    if task.tasks > 1:
        raise UserError(f"{path}: holds {task.tasks} tasks -> export each task to a file of its own")
    return task


def _read_meta(task: _Task, open_tags: list[str], element: Element) -> None:
    task.tasks += element.tag == "task"
    key = f"original_size/{element.tag}" if open_tags[-1] == "original_size" else element.tag
    if open_tags[-1] in ("task", "job", "meta", "original_size") and not len(element):
        task.meta.setdefault(key, (element.text or "").strip())


def _read_box(task: _Task, track: Mapping[str, str], element: Element, path: Path, line: int) -> None:
    values = dict(element.attrib)
    missing = [name for name in ("frame", *_CORNERS) if name not in values]
    if missing or "id" not in track:
        what = f"box without {missing[0]}" if missing else "track without id"
        raise UserError(f"{path}:{line}: a {what} (track {track.get('id', '?')}) -> export the task again")
    if values.get("outside", "0") != "1":
        attributes = {child.attrib.get("name", ""): (child.text or "").strip() for child in element}
        kept = {name: values[name] for name in ("frame", *_CORNERS)}
        task.boxes.append(kept | {"track": track["id"], "attributes": attributes, "line": line})
    element.clear()


def _whole(value: str, path: Path, side: str) -> int:
    return integer(value, f"{path}: original_size/{side}") if value else 0


def _frames_of_task(meta: Mapping[str, str], path: Path) -> tuple[int, int]:
    """(first frame, step) of the task in its video: the file's frames count what CVAT showed."""
    start = integer(meta.get("start_frame") or "0", f"{path}: start_frame")
    step = _STEP.search(meta.get("frame_filter", ""))
    return start, max(1, int(step[1])) if step else 1


def _pictures(path: Path, root: Path, source: str) -> tuple[dict[int, str], str]:
    """Pictures by frame, or the video file that the task was made from."""
    for folder in (path.parent / "images", path.with_suffix(""), path.parent):
        found = numbered_pictures(folder)
        if found:
            return {index: relative(folder / name, root) for index, name in found.items()}, ""
    if source.lower().endswith(VIDEOS):
        name = PurePosixPath(inside(source, f"{path}: source")).name
        place = next((f for f in (path.parent / name, root / name, root / "videos" / name) if f.is_file()), None)
        return {}, relative(place, root) if place else f"{_inner(path, root)}{name}"
    return {}, ""


def _inner(path: Path, root: Path) -> str:
    folder = relative(path.parent, root)
    return f"{folder}/" if folder else ""
