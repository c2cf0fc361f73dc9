"""CVAT for video 1.1: one XML per task, boxes track by track, frames counted from 0.

A source is such a file, or a folder with such files at any depth. Frames are images below the file (in `images/`, as
CVAT exports them), or come from the video file that the task names. Boxes with `outside="1"` are not visible and are
skipped. Attributes such as polyp, size and histology are labels.
"""

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops.videos import VideoInfo, is_video, video_info
from polyptrace.data.sources import file_names
from polyptrace.data.sources.box_labels import BoxRow, label_columns, labelled_boxes
from polyptrace.data.sources.reading import XmlElement, integer, number, read_bytes, read_xml

_STEP = re.compile(r"step\s*=\s*(\d{1,6})", re.ASCII)
_CORNERS = ("xtl", "ytl", "xbr", "ybr")
_ADVICE = "export the task as 'CVAT for video 1.1'"


def read_cvat(
    path: Path,
    *,
    split: str | None = None,
    identities: Literal["track", "polyp"] = "track",
    histology: Mapping[str, str] | None = None,
    first_frame: int = 0,
) -> Boxes:
    """The boxes of CVAT tasks; `split` is a folder of `path`.

    The id of a track is `track`, with `identities="polyp"` also the polyp. An attribute `polyp` always names the polyp.
    `first_frame` is the number of a video's first frame in the files: 1 in files of some other tools.
    """
    path = Path(path)
    root = file_names.image_root(path)
    start = file_names.split_folder(path, split) if path.is_dir() else path
    files = file_names.files_below(start, ".xml")
    if not files:
        raise UserError(f"{start}: contains no XML file -> {_ADVICE}")
    rows = [row for file in files for row in _read_file(file, root, identities, histology or {}, first_frame)]
    return labelled_boxes(rows, f"{start}: no track has a box -> is the task annotated?")


def _read_file(path: Path, root: Path, identities: str, histology: Mapping[str, str], first_frame: int) -> list[BoxRow]:
    meta, boxes = _parse(path)
    video = (path.stem == "annotations" and file_names.relative(path.parent, root)) or meta.get("name") or path.stem
    pictures, video_file = _pictures(path, root, meta.get("source", ""))
    info = video_info(root / video_file) if video_file and (root / video_file).is_file() else VideoInfo()
    # A file counts the frames that CVAT showed: from start_frame of the video, every step-th.
    start = integer(meta.get("start_frame") or "0", f"{path}: start_frame") if video_file else 0
    step = _STEP.search(meta.get("frame_filter", "")) if video_file else None
    task: BoxRow = {
        "video": video,
        "image_width": integer(meta.get("width") or "0", f"{path}: original_size/width"),
        "image_height": integer(meta.get("height") or "0", f"{path}: original_size/height"),
        "fps": info.fps,
        "generated": info.generated,
        "source": file_names.relative(path, root),
    }
    rows = []
    for track, box in boxes:
        where = f"{path}:{box.line}: box of track {track[:40]}, frame {box.attributes['frame'][:40]}"
        frame = integer(box.attributes["frame"], f"{where}: frame")
        xtl, ytl, xbr, ybr = (number(box.attributes[name], f"{where}: {name}") for name in _CORNERS)
        fields = {child.attributes.get("name", "").lower(): child.text for child in box.children}
        labels = label_columns(fields | {"instance_id": track}, video, where, histology, identities)
        columns = {
            "frame_index": start + (max(1, int(step[1])) if step else 1) * (frame - first_frame),
            "xywh": (xtl, ytl, xbr - xtl, ybr - ytl),
            "file": video_file
            or pictures.get(frame)
            or f"{file_names.prefix_of(path.parent, root)}images/frame_{frame:06d}.PNG",
            "line": box.line,
        }
        rows.append(task | columns | labels)
    return rows


def _parse(path: Path) -> tuple[dict[str, str], list[tuple[str, XmlElement]]]:
    """Meta data of a file, and its visible boxes with the ids of their tracks."""
    meta: dict[str, str] = {}
    boxes = []
    for element in read_xml(read_bytes(path), path, "annotations", _ADVICE).children:
        if element.tag == "image":
            raise UserError(f"{path}:{element.line}: is 'CVAT for images' -> {_ADVICE}, which keeps tracks")
        if element.tag == "meta":
            meta = _meta(element, path)
        if element.tag == "track":
            for box in element.children:
                if box.tag == "box" and box.attributes.get("outside", "0") != "1":
                    _check_box(box, element, path)
                    boxes.append((element.attributes["id"], box))
    return meta, boxes


def _meta(meta: XmlElement, path: Path) -> dict[str, str]:
    """Values of the task (or job), then those of the file, by their tags."""
    elements = list(meta.descendants())
    tasks = sum(element.tag == "task" for element in elements)
    if tasks > 1:
        raise UserError(f"{path}:{meta.line}: contains {tasks} tasks -> export each task to its own file")
    values: dict[str, str] = {}
    for parent in sorted(elements, key=lambda element: element.tag == "meta"):
        if parent.tag in ("task", "job", "meta", "original_size"):
            values = {leaf.tag: leaf.text for leaf in reversed(parent.children) if not leaf.children} | values
    return values


def _check_box(box: XmlElement, track: XmlElement, path: Path) -> None:
    missing = [name for name in ("frame", *_CORNERS) if name not in box.attributes]
    if missing or "id" not in track.attributes:
        what = f"box without {missing[0]}" if missing else "track without id"
        raise UserError(f"{path}:{box.line}: a {what} (track {track.attributes.get('id', '?')}) -> {_ADVICE}")


def _pictures(path: Path, root: Path, source: str) -> tuple[dict[int, str], str]:
    """Images by frame, or the video file that the task was made from."""
    for folder in (path.parent / "images", path.with_suffix(""), path.parent):
        if pictures := file_names.pictures_by_number(folder):
            return {index: file_names.relative(folder / name, root) for index, name in pictures.items()}, ""
    if is_video(source):
        name = PurePosixPath(file_names.inside(source, f"{path}: source")).name
        file = next((f for f in (path.parent / name, root / name, root / "videos" / name) if f.is_file()), None)
        return {}, file_names.relative(file, root) if file else file_names.prefix_of(path.parent, root) + name
    return {}, ""
