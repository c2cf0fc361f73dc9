"""Pascal VOC: one XML per frame with corner coordinates.

A source is a folder with XML files at any depth. Pictures lie beside them, or in a folder called as VOC calls it
(`Annotations` and `JPEGImages`, `Image`, `images`). The folder of a frame, or else the part of its name before its
number, is its video; the number is its frame. VOC has no identities; the tags `track_id` and `polyp_id` (or
`unique_id`) inside an object are read where they are there.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.sources.labels import histology_name, one_label_per_polyp, size_mm
from polyptrace.data.sources.names import (
    PICTURES,
    folders_below,
    inside,
    natural,
    of_several_videos,
    picture_root,
    relative,
    split_folder,
    video_and_frame,
)
from polyptrace.data.sources.safe_xml import parse
from polyptrace.data.sources.small_files import names_in, read_small_files
from polyptrace.data.sources.text import number, read_text

_ANNOTATIONS = ("annotations", "annotation", "xml", "xmls", "labels")
_IMAGES = ("JPEGImages", "Images", "images", "Image", "image", "frames", "Frames", "imgs")
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_S = r"[ \t\n]*+"
_TEXT = r"[^<>&\x00-\x08\x0b-\x1f]*+"
_OBJECT = re.compile(rb"<object[\s>]")


def _leaves(name: str) -> str:
    """Any number of elements without children; nothing here or below can be matched in two ways.

    A group that is repeated stands in an atomic one: Python before 3.11.5 does not match `(…)*+` as it should.
    """
    return rf"(?>(?:<(?P<{name}>[A-Za-z_]\w*+)>{_TEXT}</(?P={name})>{_S})*)"


_HEAD = re.compile(
    rf"{_S}<annotation>{_S}(?>(?:<folder>{_TEXT}</folder>{_S})?)"
    rf"(?>(?:<filename>(?P<filename>{_TEXT})</filename>{_S})?){_leaves('a')}"
    rf"(?>(?:<source>{_S}{_leaves('b')}</source>{_S})?)<size>{_S}<width>(?P<width>\d{{1,6}})</width>{_S}"
    rf"<height>(?P<height>\d{{1,6}})</height>{_S}{_leaves('c')}</size>{_S}{_leaves('d')}",
    re.ASCII,
)
_WHOLE_OBJECT = re.compile(
    rf"<object>{_S}(?P<before>{_leaves('a')})<bndbox>{_S}"
    rf"(?P<corners>(?>(?:<(?P<b>[a-z]++)>{_S}[-+.0-9eE]{{1,40}}+{_S}</(?P=b)>{_S})*))"
    rf"</bndbox>{_S}(?P<behind>{_leaves('c')})</object>{_S}",
    re.ASCII,
)
_TAIL = re.compile(rf"</annotation>{_S}\Z")
_LEAF = re.compile(r"<(\w+)>([^<>]*)</", re.ASCII)


class VocBox(NamedTuple):
    """One object of a frame."""

    name: str
    xywh: tuple[float, float, float, float]
    line: int
    tags: dict[str, str]  # the object's other tags, by their names in lower case


class VocFrame(NamedTuple):
    """One XML file."""

    filename: str
    width: int
    height: int
    boxes: list[VocBox]


EMPTY = VocFrame("", 0, 0, [])


def nothing_in(content: bytes) -> bool:
    """Whether a file is, at a glance, a frame without any object: most frames of a procedure are."""
    ends = content.endswith(b"</annotation>\n") or content.rstrip().endswith(b"</annotation>")
    return ends and b"<object" not in content and b"!" not in content  # with ! begin comments and declarations


def parse_voc(content: bytes, path: Path | str) -> VocFrame:
    """The boxes of one XML file: x and y are xmin and ymin as written, width is xmax - xmin."""
    if nothing_in(content):
        return EMPTY
    if b"\r" in content and content.isascii():
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # as an XML parser would
    return _regular(content) or _any_voc(content, path)


def _regular(content: bytes) -> VocFrame | None:
    """The boxes of a file in exactly the layout that all tools write; None: a tree has to be built.

    Head, objects and end follow each other without a byte between them, so that what is read here is well-formed
    without a parser having seen it.
    """
    if not content.isascii():
        return None
    text = content.decode("ascii")
    head = _HEAD.match(text)
    if not head or head[0].count("<filename>") != (head["filename"] is not None):
        return None
    if "<object>" in head[0]:  # one without a box looks like any element without children
        return None
    boxes = []
    at = head.end()
    while found := _WHOLE_OBJECT.match(text, at):
        numbers = dict(_LEAF.findall(found["corners"]))
        try:
            xmin, xmax = float(numbers["xmin"]), float(numbers["xmax"])
            ymin, ymax = float(numbers["ymin"]), float(numbers["ymax"])
        except (KeyError, ValueError):
            return None
        leaves = _LEAF.findall(found["before"]) + _LEAF.findall(found["behind"])
        tags = {name.lower(): value.strip() for name, value in leaves}
        line = text.count("\n", 0, at) + 1
        boxes.append(VocBox(tags.pop("name", ""), (xmin, ymin, xmax - xmin, ymax - ymin), line, tags))
        at = found.end()
    if not boxes or not _TAIL.match(text, at):
        return None
    return VocFrame((head["filename"] or "").strip(), int(head["width"]), int(head["height"]), boxes)


def _any_voc(content: bytes, path: Path | str) -> VocFrame:
    """The boxes of any well-formed file, or an error that says what is wrong with it."""
    root = parse(content, path)
    if root.tag != "annotation":
        raise UserError(f"{path}:1: root is <{root.tag[:40]}>, not <annotation> -> give VOC XML files")
    boxes = []
    at = 0
    for element in root.iterfind("object"):
        at = found.start() if (found := _OBJECT.search(content, at)) else at
        line = content.count(b"\n", 0, at) + 1
        at += 1
        tags = {child.tag.lower(): (child.text or "").strip() for child in element if child.tag != "bndbox"}
        corners = {child.tag: child.text for child in element.iterfind("bndbox/*")}
        boxes.append(VocBox(tags.pop("name", ""), _box(corners, f"{path}:{line}"), line, tags))
    size = [_pixels(root.findtext(f"size/{side}"), f"{path}: size/{side}") for side in ("width", "height")]
    return VocFrame((root.findtext("filename") or "").strip(), size[0], size[1], boxes)


def _box(corners: Mapping[str, str | None], where: str) -> tuple[float, float, float, float]:
    missing = [name for name in _CORNERS if not (corners.get(name) or "").strip()]
    if missing:
        raise UserError(f"{where}: object has no bndbox/{missing[0]} -> put it right, or take the object out")
    xmin, ymin, xmax, ymax = (number((corners[name] or "").strip(), f"{where}: {name}") for name in _CORNERS)
    return xmin, ymin, xmax - xmin, ymax - ymin


def _pixels(text: str | None, where: str) -> int:
    value = number(text.strip(), where) if text and text.strip() else 0.0
    if not 0 <= value < 1e6 or value != int(value):
        raise UserError(f"{where} is {text!r}, not a number of pixels -> put it right")
    return int(value)


def read_voc(path: Path, *, split: str | None = None, histology: Mapping[str, str] | None = None) -> Boxes:
    """The boxes of a folder of VOC files; `split` is `ImageSets/Main/SPLIT.txt` or a folder of `path`."""
    path = Path(path)
    root = picture_root(path)
    listed = _listed(path, split) if path.is_dir() else None
    start = split_folder(path, split) if listed is None else path
    root_name = root.resolve().name
    rows: list[dict[str, object]] = []
    unlabelled = 0
    for folder, names in _xml_folders(start):
        kept = names if listed is None else [name for name in names if Path(name).stem in listed]
        pictures = picture_folder(folder, root)
        there = _stems(root / pictures)
        mixed = of_several_videos(names)
        inner = f"{relative(folder, root)}/".lstrip("/")
        unlabelled += len(there.keys() - {Path(name).stem for name in names})
        for name, content in read_small_files(folder, kept):
            frame = parse_voc(content, folder / name)
            if frame.boxes:
                source = f"{inner}{name}"
                video, index = video_and_frame(_without_annotations(source), root_name, str(folder / name), mixed)
                place = {"video": video, "frame_index": index, "source": source}
                rows += [place | row for row in _rows(frame, folder / name, pictures, there, histology or {})]
    if unlabelled:
        warnings.warn(
            f"{path}: {counted(unlabelled, 'picture')} without an XML file: frames without a box", stacklevel=2
        )
    if not rows:
        raise UserError(f"{start}: no XML file in it holds a box -> give a folder of VOC files")
    table = Boxes.of(**{name: [row[name] for row in rows] for name in rows[0]})
    one_label_per_polyp(table)
    return table


def _xml_folders(start: Path) -> Iterator[tuple[Path, list[str]]]:
    """Folders with XML files below `start`, in natural order, and the names in each."""
    if start.is_file():
        yield start.parent, [start.name]
        return
    for folder in folders_below(start):
        if xmls := names_in(folder, (".xml", ".XML")):
            yield folder, sorted(xmls, key=natural)


def _listed(path: Path, split: str | None) -> set[str] | None:
    """The frames that VOC's list of a split names, if there is one."""
    if not split:
        return None
    lists = sorted(path.glob(f"**/ImageSets/*/{PurePosixPath(inside(split, '--split')).name}.txt"))
    return {line.split()[0] for line in read_text(lists[0]).splitlines() if line.split()} if lists else None


def picture_folder(folder: Path, root: Path) -> str:
    """Where the pictures of an annotation folder are, relative to the root."""
    inner = PurePosixPath(relative(folder, root))
    for place, part in reversed(list(enumerate(inner.parts))):
        if part.lower() in _ANNOTATIONS:
            options = [PurePosixPath(*inner.parts[:place], name, *inner.parts[place + 1 :]) for name in _IMAGES]
            return str(next((option for option in options if (root / option).is_dir()), options[0]))
    beside = [inner / name for name in _IMAGES if (root / inner / name).is_dir()]
    return str(beside[0] if beside else inner)


def _stems(folder: Path) -> dict[str, str]:
    """Pictures of a folder by their names without ending."""
    names = names_in(folder, "") if folder.is_dir() else []
    return {Path(name).stem: name for name in names if name.lower().endswith(PICTURES)}


def picture_of(frame: VocFrame, xml: Path, there: Mapping[str, str], where: str) -> str:
    """The picture of a frame: the one called like its XML file, or the one that it names."""
    named = PurePosixPath(inside(frame.filename, where)).name if frame.filename else ""
    if xml.stem in there:
        return there[xml.stem]
    return named if named.lower().endswith(PICTURES) else f"{named or xml.stem}.jpg"


def _without_annotations(source: str) -> PurePosixPath:
    """A file's name without the folders that only say that annotations are in them."""
    *folders, name = PurePosixPath(source).parts
    return PurePosixPath(*(part for part in folders if part.lower() not in _ANNOTATIONS), name)


def _rows(
    frame: VocFrame,
    xml: Path,
    pictures: str,
    there: Mapping[str, str],
    histology: Mapping[str, str],
) -> list[dict[str, object]]:
    picture = picture_of(frame, xml, there, str(xml))
    rows: list[dict[str, object]] = []
    for box in frame.boxes:
        where = f"{xml}:{box.line}"
        tag = _first(box.tags)
        polyp = tag("polyp_id", "unique_id", "polyp", "lesion_id")
        score = tag("score", "confidence", "conf")
        rows.append(
            {
                "xywh": box.xywh,
                "file": str(PurePosixPath(pictures) / picture),
                "image_width": frame.width,
                "image_height": frame.height,
                "track": tag("track_id", "track", "instance_id"),
                "polyp": polyp,
                "size_mm": size_mm(tag("size_mm", "size"), where),
                "histology": histology_name(tag("histology", "pathology"), where, histology),
                "score": number(score, f"{where}: score") if score else np.nan,
                "line": box.line,
            }
        )
    return rows


def _first(tags: Mapping[str, str]) -> Callable[..., str]:
    """Looks up the first of several names under which a tag may stand."""
    return lambda *names: next((tags[name] for name in names if tags.get(name)), "")
